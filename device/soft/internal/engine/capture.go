package engine

import "slices"

// CaptureMode says which calls a capture forbids.
type CaptureMode int32

// Capture modes.
const (
	CaptureGlobal      CaptureMode = 0
	CaptureThreadLocal CaptureMode = 1
	CaptureRelaxed     CaptureMode = 2
)

// Capture states.
const (
	CaptureNone    = 0
	CaptureActive  = 1
	CaptureInvalid = 2
)

// capture is one capture sequence. Guarded by e.mu.
type capture struct {
	id      uint64
	g       *graph
	mode    CaptureMode
	origin  *stream
	thread  *Thread
	active  bool
	invalid bool
	streams map[*stream]struct{}
}

// invalidate breaks a capture: it has to be ended, without a graph.
func (e *Engine) invalidate(c *capture) { c.invalid = true }

// leaveCapture takes one stream out of its capture; when it is the origin the capture is over.
func (e *Engine) leaveCapture(s *stream) {
	c := s.cap
	s.cap, s.capDeps = nil, nil
	delete(c.streams, s)
	if c.origin == s {
		e.endCapture(c)
	}
}

func (e *Engine) endCapture(c *capture) {
	if !c.active {
		return
	}
	c.active = false
	e.captures--
	delete(e.capByID, c.id)
	for s := range c.streams {
		s.cap, s.capDeps = nil, nil
	}
	c.streams = nil
}

// BeginCapture is cuStreamBeginCapture and, with a graph, cuStreamBeginCaptureToGraph.
func (e *Engine) BeginCapture(t *Thread, sh Handle, mode CaptureMode, gh Handle, deps []Handle) Code {
	s, code := e.stream(t, sh)
	if code != Success {
		return code
	}
	if mode < CaptureGlobal || mode > CaptureRelaxed {
		return InvalidValue
	}
	if s.kind == kindLegacy {
		return CaptureUnsupported
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.cap != nil {
		return IllegalState
	}
	e.nextID++
	c := &capture{id: e.nextID, mode: mode, origin: s, thread: t, active: true, streams: map[*stream]struct{}{s: {}}}
	var at []*node
	if gh != 0 {
		g, ok := locked[*graph](e, gh)
		if !ok {
			return InvalidValue
		}
		c.g = g
		if at, code = e.nodesOf(g, deps); code != Success {
			return code
		}
	} else {
		c.g = e.newGraph()
		c.g.owned = true // until it is handed out
	}
	s.cap, s.capDeps = c, at
	e.captures++
	e.capByID[c.id] = c
	return Success
}

// EndCapture is cuStreamEndCapture.
func (e *Engine) EndCapture(t *Thread, sh Handle) (Handle, Code) {
	s, code := e.stream(t, sh)
	if code != Success {
		return 0, code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c := s.cap
	if c == nil {
		return 0, IllegalState
	}
	if c.origin != s {
		e.invalidate(c)
		return 0, CaptureUnmatched
	}
	if c.mode != CaptureRelaxed && c.thread != t {
		// The driver gives the capture up, too.
		e.endCapture(c)
		if c.g.owned {
			e.dropGraph(c.g)
		}
		return 0, CaptureWrongThread
	}
	joined := c.invalid || c.joined()
	invalid := c.invalid
	e.endCapture(c)
	switch {
	case invalid:
		code = CaptureInvalidated
	case !joined:
		code = CaptureUnjoined
	default:
		c.g.owned = false
		return c.g.h, Success
	}
	if c.g.owned {
		e.dropGraph(c.g)
	}
	return 0, code
}

// joined says whether the origin stream comes after where every other stream of the
// capture is.
func (c *capture) joined() bool {
	for s := range c.streams {
		for _, n := range s.capDeps {
			if s != c.origin && !reaches(c.origin.capDeps, n) {
				return false
			}
		}
	}
	return true
}

// captureWork makes work that is submitted to a capturing stream a node.
func (e *Engine) captureWork(s *stream, w work) (*node, Code) {
	if s.cap.invalid {
		return nil, CaptureInvalidated
	}
	switch w.(type) {
	case *waitWork:
		// Made by captureWait only, with the external flag.
	case *callbackWork:
		return nil, e.forbidCapture(s)
	}
	n := e.addNode(s.cap.g, s.capDeps, w)
	s.capDeps = []*node{n}
	return n, Success
}

// captureWait is a wait for an event on a capturing stream.
func (e *Engine) captureWait(s *stream, ev *event, flags uint32) Code {
	c := s.cap
	if c.invalid {
		return CaptureInvalidated
	}
	p := ev.cap
	if p != nil && !p.c.active {
		e.invalidate(c)
		return InvalidValue
	}
	if flags&1 != 0 {
		_, code := e.captureWork(s, &waitWork{ev})
		return code
	}
	switch {
	case p == nil && ev.rec == nil:
		return Success
	case p == nil:
		e.invalidate(c)
		return CaptureIsolation
	case p.c != c:
		e.invalidate(c)
		e.invalidate(p.c)
		return CaptureMerge
	}
	if len(p.deps) > 0 && e.omitted("cuStreamWaitEvent") {
		return Success
	}
	for _, n := range p.deps {
		if !slices.Contains(s.capDeps, n) {
			s.capDeps = append(s.capDeps[:len(s.capDeps):len(s.capDeps)], n)
		}
	}
	return Success
}

// forkCapture makes a stream that waits for a captured event part of the capture.
func (e *Engine) forkCapture(_ *Thread, s *stream, p *capturedPos) Code {
	if p.c.invalid {
		return CaptureInvalidated
	}
	if s.kind == kindLegacy {
		e.invalidate(p.c)
		return CaptureImplicit
	}
	s.cap, s.capDeps = p.c, slices.Clone(p.deps)
	p.c.streams[s] = struct{}{}
	return Success
}

// unsafeCall refuses calls that might touch work outside of the caller's sight while a
// capture forbids that. The caller holds e.mu.
func (e *Engine) unsafeCall(t *Thread) Code {
	if e.captures == 0 || t.capMode == CaptureRelaxed {
		return Success
	}
	code := Success
	for _, c := range e.capByID {
		switch {
		case c.mode == CaptureRelaxed:
			continue
		case c.thread == t:
		case t.capMode == CaptureGlobal && c.mode == CaptureGlobal:
		default:
			continue
		}
		e.invalidate(c)
		code = CaptureUnsupported
	}
	return code
}

// unsafeContext returns the current context for a call that captures forbid.
func (e *Engine) unsafeContext(t *Thread) (*Context, Code) {
	c, code := t.context()
	if code != Success {
		return nil, code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return c, e.unsafeCall(t)
}

// ExchangeCaptureMode is cuThreadExchangeStreamCaptureMode.
func (e *Engine) ExchangeCaptureMode(t *Thread, m CaptureMode) (CaptureMode, Code) {
	if m < CaptureGlobal || m > CaptureRelaxed {
		return 0, InvalidValue
	}
	old := t.capMode
	t.capMode = m
	return old, Success
}

// CaptureInfo is what cuStreamGetCaptureInfo tells.
type CaptureInfo struct {
	Status int32
	ID     uint64
	Graph  Handle
	Deps   []Handle
}

// StreamCapture is cuStreamGetCaptureInfo and cuStreamIsCapturing.
func (e *Engine) StreamCapture(t *Thread, sh Handle) (CaptureInfo, Code) {
	s, code := e.stream(t, sh)
	if code != Success {
		return CaptureInfo{}, code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.kind == kindLegacy {
		for b := range s.ctx.streams {
			if b.blocking && b.cap != nil {
				return CaptureInfo{}, CaptureImplicit
			}
		}
	}
	switch c := s.cap; {
	case c == nil:
		return CaptureInfo{}, Success
	case c.invalid:
		return CaptureInfo{Status: CaptureInvalid, ID: c.id}, Success
	default:
		i := CaptureInfo{Status: CaptureActive, ID: c.id, Graph: c.g.h}
		for _, n := range s.capDeps {
			i.Deps = append(i.Deps, n.h)
		}
		return i, Success
	}
}

// UpdateCaptureDeps is cuStreamUpdateCaptureDependencies: adds to the nodes that the next
// work depends on, or sets them.
func (e *Engine) UpdateCaptureDeps(t *Thread, sh Handle, deps []Handle, set bool) Code {
	s, code := e.stream(t, sh)
	if code != Success {
		return code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.cap == nil {
		return IllegalState
	}
	if s.cap.invalid {
		return CaptureInvalidated
	}
	ns, code := e.nodesOf(s.cap.g, deps)
	if code != Success {
		return code
	}
	if set {
		s.capDeps = ns
		return Success
	}
	next := slices.Clone(s.capDeps)
	for _, n := range ns {
		if !slices.Contains(next, n) {
			next = append(next, n)
		}
	}
	s.capDeps = next
	return Success
}
