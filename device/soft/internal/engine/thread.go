package engine

// Thread is what the driver keeps for each OS thread: the stack of current contexts, the
// capture mode, and the per-thread default streams. Only its own thread uses it, except
// for fields guarded by Engine.mu.
type Thread struct {
	e       *Engine
	stack   []*Context
	capMode CaptureMode
	streams map[*Context]*stream // per-thread default streams; guarded by e.mu
	scratch []byte
}

// NewThread returns the state for an OS thread that calls for the first time.
func (e *Engine) NewThread() *Thread {
	t := &Thread{e: e}
	e.mu.Lock()
	e.threads[t] = struct{}{}
	e.mu.Unlock()
	return t
}

// Exit forgets a thread that has ended. Its per-thread streams finish their work.
func (t *Thread) Exit() {
	e := t.e
	e.mu.Lock()
	delete(e.threads, t)
	for _, s := range t.streams {
		s.retired = true
		if s.hunted != nil {
			e.Hunter().Retire(s.hunted)
		}
	}
	t.streams = nil
	e.mu.Unlock()
	if t.scratch != nil {
		unmapHost(t.scratch)
		t.scratch = nil
	}
}

// current returns the context on top of the stack, or nil.
func (t *Thread) current() *Context {
	if n := len(t.stack); n > 0 {
		return t.stack[n-1]
	}
	return nil
}

// context returns the current context, checked for use: InvalidContext when there is
// none, ContextDestroyed when it is gone, or the error that stuck to it.
func (t *Thread) context() (*Context, Code) {
	c := t.current()
	if c == nil {
		return nil, InvalidContext
	}
	return c, c.usable()
}
