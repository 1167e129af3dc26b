package engine

import "time"

// Event flags.
const (
	EventBlockingSync  = 1
	EventDisableTiming = 2
	EventInterprocess  = 4
)

// event marks a point in a stream.
type event struct {
	e     *Engine
	ctx   *Context
	h     Handle
	flags uint32

	// Guarded by e.mu.
	rec *task        // the last record, nil before the first
	cap *capturedPos // set instead of rec by a record during capture
}

// capturedPos is a point in a capture.
type capturedPos struct {
	c    *capture
	deps []*node
}

// recordWork is the record of an event; the task's end is the event's time.
type recordWork struct{ ev *event }

func (*recordWork) nodeType() NodeType { return NodeEventRecord }
func (*recordWork) run(*runner) Code   { return Success }
func (*recordWork) quick()             {}
func (*recordWork) always()            {}

// waitWork waits for the record that an event had when the wait was submitted. As a task
// the wait is in its dependencies; as a node it looks at the event when it is launched.
type waitWork struct{ ev *event }

func (*waitWork) nodeType() NodeType { return NodeEventWait }
func (*waitWork) quick()             {}
func (*waitWork) run(*runner) Code   { return Success }

// EventCreate is cuEventCreate.
func (e *Engine) EventCreate(t *Thread, flags uint32) (Handle, Code) {
	c, code := t.context()
	if code != Success {
		return 0, code
	}
	if flags&^7 != 0 || flags&EventInterprocess != 0 && flags&EventDisableTiming == 0 {
		return 0, InvalidValue
	}
	if flags&EventInterprocess != 0 {
		return 0, NotSupported
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	ev := &event{e: e, ctx: c, flags: flags}
	ev.h = e.newHandle(ev)
	return ev.h, Success
}

// EventDestroy is cuEventDestroy. Waits already submitted keep their meaning.
func (e *Engine) EventDestroy(_ *Thread, h Handle) Code {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := locked[*event](e, h); !ok {
		return InvalidHandle
	}
	delete(e.handles, h)
	return Success
}

func (e *Engine) event(h Handle) (*event, Code) {
	ev, ok := lookup[*event](e, h)
	if !ok {
		return nil, InvalidHandle
	}
	return ev, ev.ctx.usable()
}

// EventRecord is cuEventRecordWithFlags; flag 1 makes a capture record a node.
func (e *Engine) EventRecord(t *Thread, eh, sh Handle, flags uint32) Code {
	ev, code := e.event(eh)
	if code != Success {
		return code
	}
	s, code := e.stream(t, sh)
	if code != Success {
		return code
	}
	if flags&^1 != 0 {
		return InvalidValue
	}
	if s.ctx != ev.ctx {
		return InvalidHandle
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.cap != nil {
		if s.cap.invalid {
			return CaptureInvalidated
		}
		if flags&1 != 0 {
			_, code := e.captureWork(s, &recordWork{ev})
			return code
		}
		ev.cap = &capturedPos{s.cap, append([]*node(nil), s.capDeps...)}
		return Success
	}
	if flags&1 != 0 {
		return IllegalState
	}
	rec, code := e.submitLocked(t, s, &recordWork{ev})
	if code != Success {
		return code
	}
	ev.rec, ev.cap = rec, nil
	return Success
}

// StreamWaitEvent is cuStreamWaitEvent; flag 1 makes a capture record a node.
func (e *Engine) StreamWaitEvent(t *Thread, sh, eh Handle, flags uint32) Code {
	s, code := e.stream(t, sh)
	if code != Success {
		return code
	}
	ev, code := e.event(eh)
	if code != Success {
		return code
	}
	if flags&^1 != 0 {
		return InvalidValue
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.cap != nil {
		return e.captureWait(s, ev, flags)
	}
	if flags&1 != 0 {
		return IllegalState
	}
	if p := ev.cap; p != nil {
		if !p.c.active {
			return InvalidValue
		}
		return e.forkCapture(t, s, p)
	}
	if ev.rec == nil || ev.rec.done.Load() && e.hunt.Load() == nil {
		return Success
	}
	if ev.rec.s != s && e.omitted("cuStreamWaitEvent") {
		return Success
	}
	_, code = e.submitLocked(t, s, &waitWork{ev}, ev.rec)
	return code
}

// EventQuery is cuEventQuery: an event that was never recorded is complete.
func (e *Engine) EventQuery(t *Thread, h Handle) Code {
	ev, code := e.event(h)
	if code != Success {
		return code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if code := e.forbidCaptured(ev); code != Success {
		return code
	}
	if code := e.unsafeCall(t); code != Success {
		return code
	}
	if ev.rec != nil && e.omitted("cuEventQuery") {
		return Success
	}
	if ev.rec != nil && !ev.rec.done.Load() {
		return NotReady
	}
	e.learn(ev.rec)
	return ev.ctx.usable()
}

// forbidCaptured refuses to wait for or ask about an event that lies in a capture.
func (e *Engine) forbidCaptured(ev *event) Code {
	switch {
	case ev.cap == nil:
		return Success
	case !ev.cap.c.active:
		return InvalidValue
	}
	e.invalidate(ev.cap.c)
	return CapturedEvent
}

// EventSynchronize is cuEventSynchronize.
func (e *Engine) EventSynchronize(t *Thread, h Handle) Code {
	ev, code := e.event(h)
	if code != Success {
		return code
	}
	e.mu.Lock()
	code = e.forbidCaptured(ev)
	if code == Success {
		code = e.unsafeCall(t)
	}
	if code != Success {
		e.mu.Unlock()
		return code
	}
	rec := ev.rec
	e.mu.Unlock()
	if rec != nil && !e.omitted("cuEventSynchronize") {
		rec.wait()
		e.learn(rec)
		ev.ctx.dev.trimPools()
	}
	return ev.ctx.usable()
}

// EventElapsed is cuEventElapsedTime, in milliseconds.
func (e *Engine) EventElapsed(_ *Thread, start, end Handle) (float32, Code) {
	a, code := e.event(start)
	if code != Success {
		return 0, code
	}
	b, code := e.event(end)
	if code != Success {
		return 0, code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case a.cap != nil && !a.cap.c.active || b.cap != nil && !b.cap.c.active:
		return 0, InvalidValue
	case (a.flags|b.flags)&EventDisableTiming != 0, a.ctx != b.ctx:
		return 0, InvalidHandle
	case a.cap != nil || b.cap != nil:
		return 0, CapturedEvent
	case a.rec == nil || b.rec == nil:
		return 0, InvalidHandle
	case !a.rec.done.Load() || !b.rec.done.Load():
		return 0, NotReady
	}
	e.learn(a.rec, b.rec)
	return float32(float64(b.rec.end-a.rec.end) / float64(time.Millisecond)), Success
}
