package engine

import (
	"maps"
	"slices"
)

type poolKind uint8

const (
	poolDevice poolKind = iota
	poolHost
	poolManaged
)

// Pool attributes.
const (
	PoolReuseFollowEvents   = 1
	PoolReuseOpportunistic  = 2
	PoolReuseInternalDeps   = 3
	PoolReleaseThreshold    = 4
	PoolReservedCurrent     = 5
	PoolReservedHigh        = 6
	PoolUsedCurrent         = 7
	PoolUsedHigh            = 8
	poolAttrAllocationType  = 9
	poolAttrHandleTypes     = 10
	poolAttrLocationID      = 11
	poolAttrLocationType    = 12
	poolAttrMaxSize         = 13
	poolAttrHWDecompression = 14
)

// chunkGrain is the unit in which pools take memory from the device.
const chunkGrain = 2 << 20

// PoolProps are the properties of a new pool.
type PoolProps struct {
	AllocType   int32 // 1 pinned (device or host), 2 managed
	HandleTypes int32 // shareable handles; 0 none
	LocKind     int32
	LocID       int32
	MaxSize     uint64 // 0 for no limit of its own
}

// pool keeps memory for stream-ordered allocation. Guarded by e.mu.
type pool struct {
	e         *Engine
	dev       *Device
	kind      poolKind
	h         Handle
	props     PoolProps
	isDefault bool
	destroyed bool

	chunks    []*chunk
	threshold uint64
	follow    bool
	opport    bool
	internal  bool
	reserved  uint64
	resHigh   uint64
	used      uint64
	usedHigh  uint64
	live      int
	access    map[location]int32
}

// chunk is memory that a pool took from the device or the host.
type chunk struct {
	base, size uint64
	host       []byte
	first      *block
}

// block is a piece of a chunk, in use or free. Free neighbours are joined where their
// last uses allow it.
type block struct {
	c          *chunk
	base, size uint64
	free       bool
	freed      *task // the queued free; nil when never used or long done
	prev, next *block
}

func newPool(e *Engine, d *Device, k poolKind) *pool {
	p := &pool{e: e, dev: d, kind: k, follow: true, opport: true, internal: true}
	p.props = PoolProps{AllocType: 1, LocKind: locDevice, LocID: int32(d.ordinal)}
	p.h = e.newHandle(p)
	d.poolSet[p] = struct{}{}
	return p
}

func (e *Engine) pool(h Handle) (*pool, Code) {
	p, ok := lookup[*pool](e, h)
	if !ok {
		return nil, InvalidValue
	}
	return p, Success
}

// DefaultPool is cuDeviceGetDefaultMemPool.
func (e *Engine) DefaultPool(dev int) (Handle, Code) {
	d, code := e.device(dev)
	if code != Success {
		return 0, code
	}
	return d.defaultPool.h, Success
}

// DevicePool is cuDeviceGetMemPool.
func (e *Engine) DevicePool(dev int) (Handle, Code) {
	d, code := e.device(dev)
	if code != Success {
		return 0, code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return d.curPool.h, Success
}

// SetDevicePool is cuDeviceSetMemPool.
func (e *Engine) SetDevicePool(dev int, h Handle) Code {
	d, code := e.device(dev)
	if code != Success {
		return code
	}
	p, code := e.pool(h)
	if code != Success {
		return code
	}
	if p.kind != poolDevice || p.dev != d {
		return InvalidValue
	}
	e.mu.Lock()
	d.curPool = p
	e.mu.Unlock()
	return Success
}

// PoolCreate is cuMemPoolCreate.
func (e *Engine) PoolCreate(props PoolProps) (Handle, Code) {
	if props.HandleTypes != 0 {
		return 0, NotSupported
	}
	var k poolKind
	dev := 0
	switch {
	case props.AllocType == 1 && props.LocKind == locDevice:
		dev = int(props.LocID)
	case props.AllocType == 1 && (props.LocKind == locHost || props.LocKind == locHostNUMA || props.LocKind == locHostCur):
		if props.LocKind == locHostNUMA && props.LocID != 0 {
			return 0, InvalidValue
		}
		k = poolHost
	case props.AllocType == 2:
		k = poolManaged
		if props.LocKind == locDevice {
			dev = int(props.LocID)
		} else if props.LocKind != 0 && !e.validLocation(location{props.LocKind, props.LocID}) {
			return 0, InvalidValue
		}
	default:
		return 0, InvalidValue
	}
	d, code := e.device(dev)
	if code != Success {
		return 0, InvalidValue
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	p := newPool(e, d, k)
	p.props = props
	return p.h, Success
}

// PoolDestroy is cuMemPoolDestroy. Memory still in use stays valid until it is freed.
func (e *Engine) PoolDestroy(h Handle) Code {
	p, code := e.pool(h)
	if code != Success {
		return code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.isDefault {
		return InvalidValue
	}
	delete(e.handles, h)
	p.destroyed = true
	if p.dev.curPool == p {
		p.dev.curPool = p.dev.defaultPool
	}
	for _, at := range []*[2]*pool{&e.hostPool, &e.managedPool} {
		if at[1] == p {
			at[1] = at[0]
		}
	}
	p.trim(0)
	return Success
}

// trim gives chunks without a block in use back until no more than keep bytes stay reserved.
func (p *pool) trim(keep uint64) {
	if p.reserved <= keep {
		if p.destroyed && p.reserved == 0 {
			delete(p.dev.poolSet, p)
		}
		return
	}
	pending := false
	defer func() {
		switch {
		case p.destroyed && len(p.chunks) == 0:
			delete(p.dev.poolSet, p)
		case pending:
			p.dev.dirty.Store(true) // a free is still on its way; look again
		}
	}()
	p.chunks = slices.DeleteFunc(p.chunks, func(c *chunk) bool {
		if p.reserved <= keep || p.reserved-c.size < keep {
			return false
		}
		for b := c.first; b != nil; b = b.next {
			if !b.free {
				return false
			}
			if b.freed != nil && !b.freed.done.Load() {
				pending = true
				return false
			}
		}
		p.reserved -= c.size
		if c.host != nil {
			unmapHost(c.host)
		} else {
			p.e.space.mu.Lock()
			p.dev.arena.release(c.base-p.dev.arena.pub, c.size)
			p.e.space.mu.Unlock()
		}
		return true
	})
}

// keep is how much a pool holds on to at a synchronisation.
func (p *pool) keep() uint64 {
	if p.destroyed {
		return 0
	}
	return p.threshold
}

// trimPools is done at synchronisation points: pools keep no more than their threshold.
func (d *Device) trimPools() {
	if !d.dirty.Swap(false) {
		return
	}
	d.e.mu.Lock()
	for p := range d.poolSet {
		p.trim(p.keep())
	}
	d.e.mu.Unlock()
}

// releasePools gives everything back that pools do not use, when memory is short.
func (d *Device) releasePools() {
	d.e.mu.Lock()
	for p := range d.poolSet {
		p.trim(0)
	}
	d.e.mu.Unlock()
}

// PoolTrimTo is cuMemPoolTrimTo.
func (e *Engine) PoolTrimTo(t *Thread, h Handle, keep uint64) Code {
	p, code := e.pool(h)
	if code != Success {
		return code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if code := e.unsafeCall(t); code != Success {
		return code
	}
	p.trim(keep)
	return Success
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// PoolAttribute is cuMemPoolGetAttribute; wide says that the value has 64 bits, else it is an int.
func (e *Engine) PoolAttribute(h Handle, attr int32) (v uint64, wide bool, code Code) {
	p, code := e.pool(h)
	if code != Success {
		return 0, false, code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch attr {
	case PoolReuseFollowEvents:
		return b2u(p.follow), false, Success
	case PoolReuseOpportunistic:
		return b2u(p.opport), false, Success
	case PoolReuseInternalDeps:
		return b2u(p.internal), false, Success
	case PoolReleaseThreshold:
		return p.threshold, true, Success
	case PoolReservedCurrent:
		return p.reserved, true, Success
	case PoolReservedHigh:
		return p.resHigh, true, Success
	case PoolUsedCurrent:
		return p.used, true, Success
	case PoolUsedHigh:
		return p.usedHigh, true, Success
	case poolAttrAllocationType:
		return uint64(p.props.AllocType), false, Success
	case poolAttrHandleTypes:
		return uint64(p.props.HandleTypes), false, Success
	case poolAttrLocationID:
		return uint64(uint32(p.props.LocID)), false, Success
	case poolAttrLocationType:
		return uint64(p.props.LocKind), false, Success
	case poolAttrMaxSize:
		return p.props.MaxSize, true, Success
	case poolAttrHWDecompression:
		return 0, false, Success
	}
	return 0, false, InvalidValue
}

// PoolAttributeWide says how wide the value of an attribute is, and whether it can be set.
func PoolAttributeWide(attr int32) (wide, settable bool) {
	switch attr {
	case PoolReuseFollowEvents, PoolReuseOpportunistic, PoolReuseInternalDeps:
		return false, true
	case PoolReleaseThreshold, PoolReservedHigh, PoolUsedHigh:
		return true, true
	}
	return false, false
}

// PoolSetAttribute is cuMemPoolSetAttribute. The high-water marks can only be set to 0.
func (e *Engine) PoolSetAttribute(h Handle, attr int32, v uint64) Code {
	p, code := e.pool(h)
	if code != Success {
		return code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch attr {
	case PoolReuseFollowEvents:
		p.follow = v != 0
	case PoolReuseOpportunistic:
		p.opport = v != 0
	case PoolReuseInternalDeps:
		p.internal = v != 0
	case PoolReleaseThreshold:
		p.threshold = v
	case PoolReservedHigh:
		if v != 0 {
			return InvalidValue
		}
		p.resHigh = p.reserved
	case PoolUsedHigh:
		if v != 0 {
			return InvalidValue
		}
		p.usedHigh = p.used
	default:
		return InvalidValue
	}
	return Success
}

// PoolAccess is cuMemPoolGetAccess: 0 none, 1 read, 3 read and write.
func (e *Engine) PoolAccess(h Handle, kind, id int32) (int32, Code) {
	p, code := e.pool(h)
	if code != Success {
		return 0, code
	}
	l := location{kind, id}
	if !e.validLocation(l) {
		return 0, InvalidValue
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return p.accessOf(l), Success
}

func (p *pool) accessOf(l location) int32 {
	if f, ok := p.access[l]; ok {
		return f
	}
	if p.kind != poolDevice {
		return 3
	}
	if l.kind == locDevice && int(l.id) == p.dev.ordinal {
		return 3
	}
	return 0
}

// Access is one entry of PoolSetAccess.
type Access struct{ Kind, ID, Flags int32 }

// PoolSetAccess is cuMemPoolSetAccess.
func (e *Engine) PoolSetAccess(h Handle, list []Access) Code {
	p, code := e.pool(h)
	if code != Success {
		return code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	next := maps.Clone(p.access)
	if next == nil {
		next = make(map[location]int32)
	}
	for _, a := range list {
		l := location{a.Kind, a.ID}
		if a.Flags != 0 && a.Flags != 1 && a.Flags != 3 {
			return InvalidValue
		}
		if !e.validLocation(l) {
			return InvalidDevice
		}
		if p.kind == poolDevice {
			if l.kind != locDevice {
				return NotSupported
			}
			if int(l.id) == p.dev.ordinal {
				if a.Flags != 3 {
					return InvalidDevice
				}
				continue
			}
			if !e.canPeer(p.dev, e.devices[l.id]) {
				return InvalidDevice
			}
		}
		next[l] = a.Flags
	}
	p.access = next
	return Success
}

// grow adds a chunk for at least n bytes. The caller holds e.mu.
func (p *pool) grow(n uint64) (*block, bool) {
	size, ok := roundUp(n, chunkGrain)
	if !ok || p.props.MaxSize != 0 && p.reserved+size > max(p.props.MaxSize, chunkGrain) {
		return nil, false
	}
	c := &chunk{size: size}
	if p.kind == poolDevice {
		p.e.space.mu.Lock()
		off, ok := p.dev.arena.alloc(size)
		p.e.space.mu.Unlock()
		if !ok {
			return nil, false
		}
		c.base = p.dev.arena.pub + off
	} else {
		b, err := mapHost(size)
		if err != nil {
			return nil, false
		}
		c.host, c.base = b, addrOf(b)
	}
	c.first = &block{c: c, base: c.base, size: size, free: true}
	p.chunks = append(p.chunks, c)
	p.reserved += size
	p.resHigh = max(p.resHigh, p.reserved)
	return c.first, true
}

// pick finds a free block of n bytes for the next work of s, and the task that must come
// first where the reuse needs an edge of its own. The caller holds e.mu.
func (p *pool) pick(s *stream, n uint64) (b *block, dep *task) {
	var later *block
	for _, c := range p.chunks {
		for b := c.first; b != nil; b = b.next {
			if !b.free || b.size < n {
				continue
			}
			f := b.freed
			switch {
			case f == nil, f.s == s, p.follow && s.knows(f.s.id, f.seq), p.opport && f.done.Load():
				return b, nil
			case p.internal && later == nil:
				later = b
			}
		}
	}
	if later != nil {
		return later, later.freed
	}
	return nil, nil
}

// take makes the first n bytes of a free block used.
func (b *block) take(n uint64) {
	if b.size > n {
		rest := &block{c: b.c, base: b.base + n, size: b.size - n, free: true, freed: b.freed, prev: b, next: b.next}
		if b.next != nil {
			b.next.prev = rest
		}
		b.next = rest
		b.size = n
	}
	b.free, b.freed = false, nil
}

// give makes a block free again, after the task by, and joins it with its neighbours.
func (b *block) give(by *task) {
	b.free, b.freed = true, by
	if n := b.next; n != nil && n.free && joinable(b, n) {
		b.absorb(n)
	}
	if p := b.prev; p != nil && p.free && joinable(p, b) {
		p.absorb(b)
	}
}

// joinable says whether two free blocks can be one: their last uses are over, or one
// stream frees both.
func joinable(a, b *block) bool {
	over := func(x *block) bool { return x.freed == nil || x.freed.done.Load() }
	return over(a) && over(b) || a.freed != nil && b.freed != nil && a.freed.s == b.freed.s
}

func (b *block) absorb(n *block) {
	if n.freed != nil && (b.freed == nil || b.freed.s == n.freed.s && b.freed.seq < n.freed.seq || b.freed.done.Load()) {
		b.freed = n.freed
	}
	b.size += n.size
	b.next = n.next
	if n.next != nil {
		n.next.prev = b
	}
}

// allocWork is a stream-ordered allocation as stream work; there is nothing to run.
type allocWork struct{ emptyWork }

// allocLocked takes n bytes from the pool for s. The caller holds e.mu.
func (p *pool) allocLocked(t *Thread, s *stream, n uint64) (*alloc, Code) {
	r, ok := roundUp(n, allocGrain)
	if !ok {
		return nil, OutOfMemory
	}
	b, dep := p.pick(s, r)
	if b == nil {
		if b, ok = p.grow(r); !ok {
			for q := range p.dev.poolSet {
				q.trim(0)
			}
			if b, ok = p.grow(r); !ok {
				return nil, OutOfMemory
			}
		}
	}
	if dep != nil {
		if _, code := p.e.submitLocked(t, s, &allocWork{}, dep); code != Success {
			return nil, code
		}
	}
	b.take(r)
	p.used += r
	p.usedHigh = max(p.usedHigh, p.used)
	p.live++
	a := &alloc{base: b.base, size: n, kind: memDevice, dev: p.dev, pool: p, blk: b, reserved: r}
	switch p.kind {
	case poolHost:
		a.kind, a.flags = memPinned, hostPortable|hostDeviceMap
		a.host = b.c.host[b.base-b.c.base:][:n:n]
	case poolManaged:
		a.kind, a.preferred, a.prefetched = memManaged, noLocation, noLocation
		a.host = b.c.host[b.base-b.c.base:][:n:n]
	}
	p.e.space.insert(a)
	p.e.pooled(s, a)
	return a, Success
}

// MemAllocAsync is cuMemAllocFromPoolAsync; pool 0 is the current pool of the stream's device.
func (e *Engine) MemAllocAsync(t *Thread, n uint64, ph, sh Handle) (uint64, Code) {
	s, code := e.stream(t, sh)
	if code != Success {
		return 0, code
	}
	if n == 0 {
		return 0, Success
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	p := s.ctx.dev.curPool
	if ph != 0 {
		var ok bool
		if p, ok = locked[*pool](e, ph); !ok {
			return 0, InvalidValue
		}
	}
	if s.cap != nil {
		return e.captureAlloc(s, p, n)
	}
	if code := e.unsafeCall(t); code != Success {
		return 0, code
	}
	if !e.mayAllocate(n) {
		return 0, OutOfMemory
	}
	a, code := p.allocLocked(t, s, n)
	if code != Success {
		return 0, code
	}
	return a.base, Success
}

// freeMark is where in a stream the memory of a graph is freed.
type freeMark struct{ emptyWork }

// freeWork takes a freed allocation out of the address space in stream order.
type freeWork struct {
	a    *alloc
	addr uint64
}

func (*freeWork) nodeType() NodeType { return NodeMemFree }
func (*freeWork) always()            {}
func (*freeWork) quick()             {}

func (w *freeWork) run(r *runner) Code {
	r.e.space.mu.Lock()
	if r.e.space.removeLocked(w.a) {
		r.e.space.giveBackLocked(w.a) // not of pool memory, which the pool has already
	}
	r.e.space.mu.Unlock()
	return Success
}

// MemFreeAsync is cuMemFreeAsync.
func (e *Engine) MemFreeAsync(t *Thread, addr uint64, sh Handle) Code {
	s, code := e.stream(t, sh)
	if code != Success {
		return code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.cap != nil {
		return e.captureFree(s, addr)
	}
	if code := e.unsafeCall(t); code != Success {
		return code
	}
	if addr == 0 {
		return Success
	}
	a, ok := e.space.find(addr)
	if !ok || a.base != addr || a.kind != memDevice && a.pool == nil || a.owner != nil {
		return InvalidValue
	}
	if a.graph {
		nt, code := e.submitLocked(t, s, &freeMark{})
		if code != Success {
			return code
		}
		e.freed(a, nt)
		return e.freeGraphMemory(a)
	}
	nt, code := e.submitLocked(t, s, &freeWork{a: a, addr: addr})
	if code != Success {
		return code
	}
	e.space.mu.Lock()
	a.freeing = true
	e.space.mu.Unlock()
	e.freed(a, nt)
	if a.pool != nil {
		a.pool.returned(a, nt)
	}
	return Success
}

// returned notes that an allocation has been freed, by the task nt or, nil, at once. The
// caller holds e.mu.
func (p *pool) returned(a *alloc, nt *task) {
	p.used -= a.reserved
	p.live--
	a.blk.give(nt)
	p.dev.dirty.Store(true)
	if p.destroyed && p.live == 0 {
		p.trim(0)
	}
}

// poolFreeNow frees pool memory after all work is done.
func (e *Engine) poolFreeNow(a *alloc) Code {
	e.mu.Lock()
	defer e.mu.Unlock()
	if a.graph {
		return e.freeGraphMemory(a)
	}
	e.space.mu.Lock()
	ok := !a.freeing && e.space.removeLocked(a)
	e.space.mu.Unlock()
	if !ok {
		return InvalidValue
	}
	a.pool.returned(a, nil)
	return Success
}

// poolAt finds where the current pool of a location and type is kept. The caller holds e.mu.
func (e *Engine) poolAt(typ, kind, id int32) (cur **pool, def *pool, code Code) {
	if typ == 1 && kind == locDevice {
		d, code := e.device(int(id))
		if code != Success {
			return nil, nil, code
		}
		return &d.curPool, d.defaultPool, Success
	}
	if !(typ == 2 && kind == 0) && !e.validLocation(location{kind, id}) || typ != 1 && typ != 2 || kind == locHostNUMA && id != 0 {
		return nil, nil, InvalidValue
	}
	at := &e.hostPool
	pk := poolHost
	if typ == 2 {
		at, pk = &e.managedPool, poolManaged
	}
	if at[0] == nil {
		p := newPool(e, e.devices[0], pk)
		p.isDefault = true
		p.props = PoolProps{AllocType: typ, LocKind: kind, LocID: id}
		at[0], at[1] = p, p
	}
	return &at[1], at[0], Success
}

// LocationPool is cuMemGetMemPool or, with def, cuMemGetDefaultMemPool.
func (e *Engine) LocationPool(typ, kind, id int32, def bool) (Handle, Code) {
	e.mu.Lock()
	defer e.mu.Unlock()
	cur, d, code := e.poolAt(typ, kind, id)
	if code != Success {
		return 0, code
	}
	if def {
		return d.h, Success
	}
	return (*cur).h, Success
}

// SetLocationPool is cuMemSetMemPool.
func (e *Engine) SetLocationPool(typ, kind, id int32, h Handle) Code {
	e.mu.Lock()
	defer e.mu.Unlock()
	p, ok := locked[*pool](e, h)
	if !ok {
		return InvalidValue
	}
	cur, d, code := e.poolAt(typ, kind, id)
	if code != Success {
		return code
	}
	if p.kind != d.kind || p.kind == poolDevice && p.dev != d.dev {
		return InvalidValue
	}
	*cur = p
	return Success
}
