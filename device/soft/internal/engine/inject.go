package engine

import "time"

// Injector makes calls fail and streams slow. It can be set and taken away while the engine
// runs ([Engine.SetInjector]); its functions are called from many threads at once. A nil
// function does nothing.
type Injector struct {
	// Call is asked before every call of the ABI.
	Call func(api string) Verdict
	// Alloc is asked before memory is allocated, with the bytes asked for and a function that
	// counts the bytes that are allocated now. False is out of memory.
	Alloc func(n uint64, live func() uint64) bool
	// Work is called before each piece of queued work, with the handle of its stream
	// (StreamLegacy and StreamPerThread for those), on the goroutine of the stream. The work
	// begins when it returns.
	Work func(stream Handle)
}

// Verdict is what happens to one call. The zero Verdict lets it pass.
type Verdict struct {
	// Code is returned by the call, unless it is Success.
	Code Code
	// After says that the call is made first, and its result replaced.
	After bool
	// Sticky says that the context that is current for the calling thread is lost, with Code; all
	// of them if none is current.
	Sticky bool
	// Delay is how long the call waits before anything else.
	Delay time.Duration
}

// SetInjector replaces the injector; nil takes it away.
func (e *Engine) SetInjector(i *Injector) { e.inject.Store(i) }

// Heal makes the contexts usable that an injected code was stuck to. A real device has no
// such thing: it is there so that a test can go on.
func (e *Engine) Heal() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.hurt {
		c.sticky.Store(0)
		e.learned(e.passed(nil, c)) // nothing of it goes on
	}
	clear(e.hurt)
}

// judge lets the injector decide about a call.
func (e *Engine) judge(t *Thread, api string, f func() Code) Code {
	i := e.inject.Load()
	if i == nil || i.Call == nil {
		return f()
	}
	v := i.Call(api)
	if v.Delay > 0 {
		time.Sleep(v.Delay)
	}
	if v.Code == Success {
		return f()
	}
	if v.After {
		if code := f(); code != Success {
			return code
		}
	}
	if v.Sticky {
		for _, c := range e.lose(t, v.Code) {
			c.still()
		}
	}
	return v.Code
}

// lose makes a code stick to the context that is current for t, and if there is none to every context.
func (e *Engine) lose(t *Thread, code Code) []*Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	lost := e.allContexts()
	if t != nil && t.current() != nil {
		lost = []*Context{t.current()}
	}
	if e.hurt == nil {
		e.hurt = make(map[*Context]struct{})
	}
	e.learned(e.passed(nil, lost...)) // its work is over, whatever it did
	for _, c := range lost {
		if c.sticky.CompareAndSwap(0, int32(code)) {
			e.hurt[c] = struct{}{}
		}
		c.epoch.Add(1) // nothing that is queued begins any more, healed or not
	}
	return lost
}

// mayAllocate lets the injector decide about n bytes.
func (e *Engine) mayAllocate(n uint64) bool {
	i := e.inject.Load()
	return i == nil || i.Alloc == nil || i.Alloc(n, e.space.bytes)
}

// bytes counts what is allocated and not about to be freed.
func (s *space) bytes() (n uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, a := range s.sorted {
		if !a.freeing && a.kind != memRegistered {
			n += a.size
		}
	}
	return n
}

// holdsWork says whether queued work may be held up, so that none is done in passing.
func (e *Engine) holdsWork() bool {
	i := e.inject.Load()
	return i != nil && i.Work != nil
}

// holdWork waits as long as the injector wants before a piece of work of s.
func (e *Engine) holdWork(s *stream) {
	if i := e.inject.Load(); i != nil && i.Work != nil {
		i.Work(s.h)
	}
}
