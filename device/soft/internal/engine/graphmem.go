package engine

// captureAlloc is a stream-ordered allocation during capture. The caller holds e.mu.
func (e *Engine) captureAlloc(s *stream, p *pool, n uint64) (uint64, Code) {
	if s.cap.invalid {
		return 0, CaptureInvalidated
	}
	np := NodeParams{Alloc: AllocParams{Props: p.props, Bytes: n}}
	if p.kind != poolDevice {
		return 0, NotSupported
	}
	ga, code := e.graphAllocLocked(p.dev, &np)
	if code != Success {
		return 0, code
	}
	nd := e.addNode(s.cap.g, s.capDeps, ga)
	s.capDeps = []*node{nd}
	return np.Alloc.Addr, Success
}

// captureFree is a stream-ordered free during capture. The caller holds e.mu.
func (e *Engine) captureFree(s *stream, addr uint64) Code {
	if s.cap.invalid {
		return CaptureInvalidated
	}
	a, ok := e.space.find(addr)
	if !ok || a.base != addr || !a.graph {
		return InvalidValue
	}
	w := &graphFree{e.graphAllocOf(a), addr}
	if code := w.check(s.cap.g, s.capDeps); code != Success {
		return code
	}
	nd := e.addNode(s.cap.g, s.capDeps, w)
	s.capDeps = []*node{nd}
	return Success
}

// GraphMem is cuDeviceGetGraphMemAttribute: 0 used, 1 used high, 2 reserved, 3 reserved high.
func (e *Engine) GraphMem(dev int, attr int32) (uint64, Code) {
	d, code := e.device(dev)
	if code != Success {
		return 0, code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch p := d.graphPool; attr {
	case 0:
		return p.used, Success
	case 1:
		return p.usedHigh, Success
	case 2:
		return p.reserved, Success
	case 3:
		return p.resHigh, Success
	}
	return 0, InvalidValue
}

// SetGraphMem is cuDeviceSetGraphMemAttribute: the high-water marks can be set to 0.
func (e *Engine) SetGraphMem(dev int, attr int32, v uint64) Code {
	d, code := e.device(dev)
	if code != Success {
		return code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch p := d.graphPool; {
	case v != 0:
		return InvalidValue
	case attr == 1:
		p.usedHigh = p.used
	case attr == 3:
		p.resHigh = p.reserved
	default:
		return InvalidValue
	}
	return Success
}

// GraphMemTrim is cuDeviceGraphMemTrim.
func (e *Engine) GraphMemTrim(dev int) Code {
	d, code := e.device(dev)
	if code != Success {
		return code
	}
	e.mu.Lock()
	d.graphPool.trim(0)
	e.mu.Unlock()
	return Success
}
