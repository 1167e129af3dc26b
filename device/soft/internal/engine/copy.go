package engine

import (
	"math/bits"
	"runtime/debug"
)

// Memory types of copy descriptions.
const (
	TypeHost    = 1
	TypeDevice  = 2
	TypeArray   = 3
	TypeUnified = 4
)

// CopySide is one end of a copy description.
type CopySide struct {
	Type          int32
	Addr          uint64 // host or device address
	X, Y, Z, LOD  uint64 // offset: bytes, rows, slices
	Pitch, Height uint64 // bytes of a row, rows of a slice
}

// Copy describes a copy of up to three dimensions. A linear copy of n bytes has Width n
// and Height and Depth 1.
type Copy struct {
	Src, Dst             CopySide
	Width, Height, Depth uint64
}

// memory is a resolved stretch of memory.
type memory struct {
	b     []byte // from the first byte used to the end of the last
	addr  uint64
	known *alloc // nil for pageable host memory
}

func (m memory) pageable() bool { return m.known == nil }
func (m memory) host() bool {
	return m.known == nil || m.known.hostVisible() && m.known.kind != memManaged
}
func (m memory) device() bool { return m.known != nil && m.known.kind == memDevice }

// resolve finds the n bytes at addr. Where a device address has to be, unknown memory is
// refused; where a host address has to be, the driver takes any.
func (e *Engine) resolve(addr, n uint64, typ int32) (memory, Code) {
	if addr == 0 || addr+n < addr {
		return memory{}, InvalidValue
	}
	a, ok := e.space.find(addr)
	if !ok {
		if typ == TypeDevice || e.inArena(addr) {
			return memory{}, InvalidValue
		}
		return memory{b: hostBytes(addr, n), addr: addr}, Success
	}
	if addr+n > a.end() {
		return memory{}, InvalidValue
	}
	return memory{b: a.bytes(addr, n), addr: addr, known: a}, Success
}

// bytes is the memory of an allocation; the range has been checked.
func (a *alloc) bytes(addr, n uint64) []byte {
	if a.host != nil {
		off := addr - a.base
		return a.host[off : off+n : off+n]
	}
	return a.dev.arena.bytes(addr, n)
}

func (e *Engine) inArena(addr uint64) bool {
	for _, d := range e.devices {
		if d.arena.contains(addr) {
			return true
		}
	}
	return false
}

// copyWork copies one box of bytes.
type copyWork struct {
	c        Copy
	ctx      Handle // as given to a graph node
	dst, src memory
	ds, ss   uint64 // bytes of a slice on either side
	staged   []byte // pageable source, packed dense
}

func (*copyWork) nodeType() NodeType { return NodeMemcpy }

// access leaves pageable memory out: the host is done with it when the call returns, and what
// a captured copy does to it is no business of the device.
func (w *copyWork) access() (reads, writes []Range) {
	if !w.src.pageable() {
		reads = rows(w.src.addr, w.c.Width, w.c.Src.Pitch, w.c.Height, w.ss, w.c.Depth)
	}
	if !w.dst.pageable() {
		writes = rows(w.dst.addr, w.c.Width, w.c.Dst.Pitch, w.c.Height, w.ds, w.c.Depth)
	}
	return reads, writes
}

// maxRows is how many rows of a box are listed.
const maxRows = 2048

// rows lists the stretches of a box of memory. Of a box with more than maxRows the first and
// the last half of that are listed: too few bytes rather than too many.
func rows(addr, width, pitch, height, slice, depth uint64) []Range {
	if pitch == width || height == 1 {
		width, height = width*height, 1
	}
	if height == 1 && (slice == width || depth == 1) {
		return []Range{{addr, width * depth}}
	}
	n := height * depth
	r := make([]Range, 0, min(n, maxRows))
	for i := uint64(0); i < n; i++ {
		if n > maxRows && i == maxRows/2 {
			i = n - maxRows/2
		}
		r = append(r, Range{addr + i/height*slice + i%height*pitch, width})
	}
	return r
}

func (w *copyWork) run(*runner) Code {
	n := w.c.Width
	for z := range w.c.Depth {
		for y := range w.c.Height {
			d := z*w.ds + y*w.c.Dst.Pitch
			if w.staged != nil {
				s := (z*w.c.Height + y) * n
				copy(w.dst.b[d:d+n], w.staged[s:s+n])
				continue
			}
			s := z*w.ss + y*w.c.Src.Pitch
			copy(w.dst.b[d:d+n], w.src.b[s:s+n])
		}
	}
	return Success
}

// stage copies a pageable source aside, so that the caller may reuse it at once.
func (w *copyWork) stage() (code Code) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			code = InvalidValue // the caller's address is not mapped
		}
	}()
	n := w.c.Width
	b := make([]byte, n*w.c.Height*w.c.Depth)
	for z := range w.c.Depth {
		for y := range w.c.Height {
			s := z*w.ss + y*w.c.Src.Pitch
			o := (z*w.c.Height + y) * n
			copy(b[o:o+n], w.src.b[s:s+n])
		}
	}
	w.staged = b
	return Success
}

// side resolves one end of a copy and fills its pitch; slice is the bytes of a slice.
func (e *Engine) side(s *CopySide, c *Copy) (m memory, slice uint64, code Code) {
	switch s.Type {
	case TypeHost, TypeDevice, TypeUnified:
	case TypeArray:
		return m, 0, NotSupported
	default:
		return m, 0, InvalidValue
	}
	row := s.X + c.Width
	if row < c.Width {
		return m, 0, InvalidValue
	}
	if s.Pitch == 0 {
		if c.Height > 1 || c.Depth > 1 {
			s.Pitch = c.Width
		} else {
			s.Pitch = row
		}
	}
	if (c.Height > 1 || c.Depth > 1) && s.Pitch < row {
		return m, 0, InvalidValue
	}
	h := s.Height
	if h == 0 {
		h = c.Height + s.Y
	}
	if c.Depth > 1 && h < c.Height+s.Y {
		return m, 0, InvalidValue
	}
	ov := false
	mul := func(a, b uint64) uint64 {
		hi, lo := bits.Mul64(a, b)
		ov = ov || hi != 0
		return lo
	}
	add := func(a, b uint64) uint64 {
		r, carry := bits.Add64(a, b, 0)
		ov = ov || carry != 0
		return r
	}
	slice = mul(s.Pitch, h)
	off := add(add(s.X, mul(s.Y, s.Pitch)), mul(s.Z, slice))
	n := add(add(mul(c.Depth-1, slice), mul(c.Height-1, s.Pitch)), c.Width)
	addr := add(s.Addr, off)
	if ov {
		return m, 0, InvalidValue
	}
	m, code = e.resolve(addr, n, s.Type)
	return m, slice, code
}

// newCopy checks a description and finds its memory. nil and Success for an empty copy.
func (e *Engine) newCopy(c Copy) (*copyWork, Code) {
	if c.Width == 0 || c.Height == 0 || c.Depth == 0 {
		return nil, Success
	}
	w := &copyWork{c: c}
	var code Code
	// The end that can be checked comes first: host memory is taken at the caller's word.
	if c.Dst.Type == TypeHost {
		if w.src, w.ss, code = e.side(&w.c.Src, &w.c); code != Success {
			return nil, code
		}
	}
	if w.dst, w.ds, code = e.side(&w.c.Dst, &w.c); code != Success {
		return nil, code
	}
	if c.Dst.Type != TypeHost {
		if w.src, w.ss, code = e.side(&w.c.Src, &w.c); code != Success {
			return nil, code
		}
	}
	return w, Success
}

// Linear is the description of a copy of n bytes.
func Linear(dst uint64, dstType int32, src uint64, srcType int32, n uint64) Copy {
	return Copy{
		Src: CopySide{Type: srcType, Addr: src}, Dst: CopySide{Type: dstType, Addr: dst},
		Width: n, Height: 1, Depth: 1,
	}
}

// MemcpyAsync submits a copy to a stream.
//
// As documented for the driver: a pageable source is staged before the call returns; a copy
// to pageable memory, and one between host memories, has been done when the call returns.
func (e *Engine) MemcpyAsync(t *Thread, c Copy, sh Handle) Code {
	s, code := e.stream(t, sh)
	if code != Success {
		return code
	}
	w, code := e.newCopy(c)
	if w == nil || code != Success {
		return code
	}
	return e.copyOn(t, s, w, false)
}

// Memcpy is a copy on the default stream sh (StreamLegacy or StreamPerThread).
//
// As documented for the driver: it waits, except that a pageable source may still be on
// its way from the staging buffer, and that copies between device memories do not wait.
func (e *Engine) Memcpy(t *Thread, c Copy, sh Handle) Code {
	s, code := e.stream(t, sh)
	if code != Success {
		return code
	}
	w, code := e.newCopy(c)
	if w == nil || code != Success {
		return code
	}
	return e.copyOn(t, s, w, true)
}

// copyOn submits w to s with the waits of the rules above.
func (e *Engine) copyOn(t *Thread, s *stream, w *copyWork, sync bool) Code {
	e.mu.Lock()
	captured := s.cap != nil
	e.mu.Unlock()
	if captured {
		_, code := e.submit(t, s, w)
		return code
	}
	var wait bool
	switch {
	case w.src.host() && w.dst.host():
		wait = true
	case w.src.pageable():
		if code := w.stage(); code != Success {
			return code
		}
	case w.dst.pageable():
		wait = true
	case w.src.device() && w.dst.device():
		wait = w.src.known.syncOps || w.dst.known.syncOps
	default:
		wait = sync
	}
	nt, code := e.submit(t, s, w)
	if code != Success {
		return code
	}
	if wait && nt != nil {
		nt.wait()
		e.learn(nt)
		return s.ctx.usable()
	}
	return Success
}

// MemcpyPeer is cuMemcpyPeerAsync and, on a default stream, cuMemcpyPeer: the contexts say
// where the memory is.
func (e *Engine) MemcpyPeer(t *Thread, dst uint64, dctx Handle, src uint64, sctx Handle, n uint64, sh Handle) Code {
	for _, h := range []Handle{dctx, sctx} {
		if h == 0 {
			continue // the driver takes it, since an address says where it is
		}
		c, ok := lookup[*Context](e, h)
		if !ok {
			return InvalidContext
		}
		if code := c.usable(); code != Success {
			return code
		}
	}
	return e.MemcpyAsync(t, Linear(dst, TypeDevice, src, TypeDevice, n), sh)
}

// Set describes a memset of rows of 1, 2 or 4 byte elements.
type Set struct {
	Dst, Pitch    uint64 // Pitch in bytes; used when Height > 1
	Value, Elem   uint32
	Width, Height uint64 // elements, rows
}

// setWork fills memory.
type setWork struct {
	p   Set
	ctx Handle
	dst memory
}

func (*setWork) nodeType() NodeType { return NodeMemset }

func (w *setWork) access() (reads, writes []Range) {
	return nil, rows(w.p.Dst, w.p.Width*uint64(w.p.Elem), w.p.Pitch, w.p.Height, 0, 1)
}

func (w *setWork) run(*runner) Code {
	v := [4]byte{byte(w.p.Value), byte(w.p.Value >> 8), byte(w.p.Value >> 16), byte(w.p.Value >> 24)}
	n := w.p.Width * uint64(w.p.Elem)
	for y := range w.p.Height {
		row := w.dst.b[y*w.p.Pitch:][:n]
		done := copy(row, v[:w.p.Elem])
		for done < len(row) {
			done += copy(row[done:], row[:done])
		}
	}
	return Success
}

// newSet checks a description and finds its memory. nil and Success for an empty one.
func (e *Engine) newSet(p Set) (*setWork, Code) {
	if p.Elem != 1 && p.Elem != 2 && p.Elem != 4 {
		return nil, InvalidValue
	}
	if p.Width == 0 || p.Height == 0 {
		return nil, Success
	}
	if p.Dst%uint64(p.Elem) != 0 {
		return nil, InvalidValue
	}
	hi, row := bits.Mul64(p.Width, uint64(p.Elem))
	if hi != 0 {
		return nil, InvalidValue
	}
	if p.Height > 1 && (p.Pitch < row || p.Pitch%uint64(p.Elem) != 0) {
		return nil, InvalidValue
	}
	hi, span := bits.Mul64(p.Height-1, p.Pitch)
	span, carry := bits.Add64(span, row, 0)
	if hi != 0 || carry != 0 {
		return nil, InvalidValue
	}
	m, code := e.resolve(p.Dst, span, TypeDevice)
	if code != Success {
		return nil, code
	}
	return &setWork{p: p, dst: m}, Success
}

// MemsetAsync submits a memset to a stream.
func (e *Engine) MemsetAsync(t *Thread, p Set, sh Handle) Code {
	s, code := e.stream(t, sh)
	if code != Success {
		return code
	}
	w, code := e.setOn(s, p)
	if w == nil || code != Success {
		return code
	}
	_, code = e.submit(t, s, w)
	return code
}

// setOn is newSet for a stream, whose device has to reach the memory.
func (e *Engine) setOn(s *stream, p Set) (*setWork, Code) {
	w, code := e.newSet(p)
	if w != nil && !s.ctx.canUse(w.dst.known) {
		return nil, InvalidValue
	}
	return w, code
}

// Memset is a memset on a default stream. It waits only for memory that the host sees, as
// documented.
func (e *Engine) Memset(t *Thread, p Set, sh Handle) Code {
	s, code := e.stream(t, sh)
	if code != Success {
		return code
	}
	w, code := e.setOn(s, p)
	if w == nil || code != Success {
		return code
	}
	nt, code := e.submit(t, s, w)
	if code == Success && nt != nil && (w.dst.known.hostVisible() || w.dst.known.syncOps) {
		nt.wait()
		e.learn(nt)
		return s.ctx.usable()
	}
	return code
}
