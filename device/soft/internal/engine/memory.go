package engine

import (
	"slices"
	"sort"
	"sync"
)

type memKind uint8

const (
	memDevice memKind = iota
	memPinned
	memRegistered
	memManaged
)

// alloc is one allocation that the device knows.
type alloc struct {
	base, size uint64 // public address and size asked for
	kind       memKind
	dev        *Device
	ctx        *Context // where it was made; nil for pool memory
	id         uint64
	pool       *pool
	blk        *block // pool memory: the block under it
	graph      bool   // made by a graph
	flags      uint32 // of pinned and registered memory
	host       []byte // the mapping of pinned and managed memory
	reserved   uint64 // device memory: bytes taken from the arena
	syncOps    bool
	owner      *module // a global variable: freed with its module only
	foreign    *shared // memory of another process

	// Guarded by space.mu.
	freeing bool // a stream-ordered free is queued
	// Managed memory advice, guarded by space.mu.
	readMostly bool
	preferred  location
	accessedBy map[location]bool
	prefetched location
}

func (a *alloc) end() uint64 { return a.base + a.size }

// hostVisible says whether the host may use the address.
func (a *alloc) hostVisible() bool { return a.kind != memDevice }

// space is the address space: every allocation by address.
type space struct {
	mu     sync.RWMutex
	sorted []*alloc
	graphs map[*alloc]*graphAlloc // of allocations made by graphs
	nextID uint64
}

// insert adds an allocation.
func (s *space) insert(a *alloc) {
	s.mu.Lock()
	s.insertLocked(a)
	s.mu.Unlock()
}

func (s *space) insertLocked(a *alloc) {
	s.nextID++
	a.id = s.nextID
	i := sort.Search(len(s.sorted), func(i int) bool { return s.sorted[i].base > a.base })
	s.sorted = slices.Insert(s.sorted, i, a)
}

// removeLocked takes an allocation out; false if it is not there.
func (s *space) removeLocked(a *alloc) bool {
	i := sort.Search(len(s.sorted), func(i int) bool { return s.sorted[i].base >= a.base })
	for ; i < len(s.sorted) && s.sorted[i].base == a.base; i++ {
		if s.sorted[i] == a {
			s.sorted = slices.Delete(s.sorted, i, i+1)
			return true
		}
	}
	return false
}

// find returns the allocation that contains addr.
func (s *space) find(addr uint64) (*alloc, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.findLocked(addr)
}

func (s *space) findLocked(addr uint64) (*alloc, bool) {
	i := sort.Search(len(s.sorted), func(i int) bool { return s.sorted[i].base > addr })
	// Allocations do not overlap, except that pool memory is handed out again while the
	// free of its last use is still queued: the newest of equal bases comes last.
	for i--; i >= 0; i-- {
		a := s.sorted[i]
		if addr < a.end() && !a.freeing {
			return a, true
		}
		if !a.freeing && a.size > 0 {
			break
		}
	}
	return nil, false
}

func (s *space) live() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := 0
	for _, a := range s.sorted {
		if !a.freeing {
			n++
		}
	}
	return n
}

// closeAll drops everything; for Engine.Close.
func (s *space) closeAll() {
	s.mu.Lock()
	for _, a := range s.sorted {
		switch {
		case a.foreign != nil:
			a.foreign.unmap()
		case a.host != nil && a.kind != memRegistered:
			unmapHost(a.host)
		}
	}
	s.sorted = nil
	s.mu.Unlock()
}

// dropContext frees what belongs to a context that has ended.
func (s *space) dropContext(c *Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 0; i < len(s.sorted); {
		a := s.sorted[i]
		if a.ctx != c || a.pool != nil {
			i++
			continue
		}
		s.sorted = slices.Delete(s.sorted, i, i+1)
		s.giveBackLocked(a)
	}
}

// giveBackLocked returns the memory of a removed allocation to where it came from.
func (s *space) giveBackLocked(a *alloc) {
	switch {
	case a.foreign != nil:
		a.foreign.unmap()
	case a.kind == memDevice && a.pool == nil:
		a.dev.arena.release(a.base-a.dev.arena.pub, a.reserved)
	case a.host != nil && a.kind != memRegistered:
		unmapHost(a.host)
	}
}

func roundUp(n, grain uint64) (uint64, bool) {
	r := (n + grain - 1) &^ (grain - 1)
	return r, r >= n
}

// deviceAlloc makes an allocation of device memory.
func (e *Engine) deviceAlloc(d *Device, c *Context, n uint64) (*alloc, Code) {
	r, ok := roundUp(n, allocGrain)
	if !ok {
		return nil, OutOfMemory
	}
	e.space.mu.Lock()
	defer e.space.mu.Unlock()
	off, ok := d.arena.alloc(r)
	if !ok {
		return nil, OutOfMemory
	}
	a := &alloc{base: d.arena.pub + off, size: n, kind: memDevice, dev: d, ctx: c, reserved: r}
	e.space.insertLocked(a)
	e.allocated(a, nil)
	return a, Success
}

// MemInfo is cuMemGetInfo.
func (e *Engine) MemInfo(t *Thread) (free, total uint64, code Code) {
	c, code := t.context()
	if code != Success {
		return 0, 0, code
	}
	e.space.mu.RLock()
	defer e.space.mu.RUnlock()
	return c.dev.arena.left, uint64(len(c.dev.arena.priv)), Success
}

// MemAlloc is cuMemAlloc.
func (e *Engine) MemAlloc(t *Thread, n uint64) (uint64, Code) {
	c, code := e.unsafeContext(t)
	if code != Success {
		return 0, code
	}
	if n == 0 {
		return 0, InvalidValue
	}
	if !e.mayAllocate(n) {
		return 0, OutOfMemory
	}
	a, code := e.deviceAlloc(c.dev, c, n)
	if code == OutOfMemory {
		// Memory that pools keep for reuse comes first.
		c.dev.releasePools()
		a, code = e.deviceAlloc(c.dev, c, n)
	}
	if code != Success {
		return 0, code
	}
	return a.base, Success
}

// MemAllocPitch is cuMemAllocPitch.
func (e *Engine) MemAllocPitch(t *Thread, width, height uint64, elem uint32) (addr, pitch uint64, code Code) {
	if width == 0 || height == 0 || elem != 4 && elem != 8 && elem != 16 {
		return 0, 0, InvalidValue
	}
	p, ok := roundUp(width, allocGrain)
	if !ok || p > maxPitch || p*height/height != p {
		return 0, 0, InvalidValue
	}
	addr, code = e.MemAlloc(t, p*height)
	return addr, p, code
}

// MemFree is cuMemFree: waits for the work of the device first, as the driver does.
func (e *Engine) MemFree(t *Thread, addr uint64) Code {
	if addr == 0 {
		return Success
	}
	c, code := e.unsafeContext(t)
	if code != Success {
		return code
	}
	a, ok := e.space.find(addr)
	if !ok || a.base != addr || a.kind != memDevice && a.kind != memManaged || a.owner != nil || a.foreign != nil {
		return InvalidValue
	}
	e.waitFor(a, c)
	e.hostFreed(a, "cuMemFree")
	if a.pool != nil {
		return e.poolFreeNow(a)
	}
	e.space.mu.Lock()
	defer e.space.mu.Unlock()
	if !e.space.removeLocked(a) {
		return InvalidValue
	}
	e.space.giveBackLocked(a)
	return Success
}

// waitFor waits for the work of the device of a and of the context c.
func (e *Engine) waitFor(a *alloc, c *Context) {
	e.mu.Lock()
	tails := c.tails()
	over := e.passed(nil, c)
	for o := range a.dev.contexts {
		if o != c && o.alive {
			tails = append(tails, o.tails()...)
			over = append(over, e.passed(nil, o)...)
		}
	}
	e.mu.Unlock()
	for _, t := range tails {
		t.wait()
	}
	e.learned(over)
}

// AddressRange is cuMemGetAddressRange.
func (e *Engine) AddressRange(t *Thread, addr uint64) (base, size uint64, code Code) {
	if _, code := t.context(); code != Success {
		return 0, 0, code
	}
	a, ok := e.space.find(addr)
	if !ok {
		return 0, 0, NotFound
	}
	return a.base, a.size, Success
}

// Flags of cuMemHostAlloc and cuMemHostRegister.
const (
	hostPortable  = 1
	hostDeviceMap = 2
)

// HostAlloc is cuMemHostAlloc.
func (e *Engine) HostAlloc(t *Thread, n uint64, flags uint32) (uint64, Code) {
	c, code := e.unsafeContext(t)
	if code != Success {
		return 0, code
	}
	if flags&^7 != 0 {
		return 0, InvalidValue
	}
	if n == 0 {
		return 0, Success
	}
	if !e.mayAllocate(n) {
		return 0, OutOfMemory
	}
	b, err := mapHost(n)
	if err != nil {
		return 0, OutOfMemory
	}
	a := &alloc{base: addrOf(b), size: n, kind: memPinned, dev: c.dev, ctx: c, flags: flags | hostDeviceMap, host: b}
	e.space.insert(a)
	e.allocated(a, nil)
	return a.base, Success
}

// HostFree is cuMemFreeHost.
func (e *Engine) HostFree(t *Thread, addr uint64) Code {
	if _, code := e.unsafeContext(t); code != Success {
		return code
	}
	if addr == 0 {
		return Success
	}
	a, ok := e.space.find(addr)
	if !ok || a.base != addr || a.kind != memPinned || a.pool != nil {
		return InvalidValue
	}
	return e.dropHost(a)
}

// dropHost waits for the work of the allocation's context, then removes it.
func (e *Engine) dropHost(a *alloc) Code {
	e.mu.Lock()
	tails := e.tails()
	over := e.passed(nil, e.allContexts()...)
	e.mu.Unlock()
	for _, t := range tails {
		t.wait()
	}
	e.learned(over)
	e.hostFreed(a, "cuMemFreeHost")
	e.space.mu.Lock()
	defer e.space.mu.Unlock()
	if !e.space.removeLocked(a) {
		return InvalidValue
	}
	e.space.giveBackLocked(a)
	return Success
}

// HostRegister is cuMemHostRegister.
func (e *Engine) HostRegister(t *Thread, addr, n uint64, flags uint32) Code {
	c, code := e.unsafeContext(t)
	if code != Success {
		return code
	}
	if addr == 0 || n == 0 || flags&^15 != 0 || addr+n < addr {
		return InvalidValue
	}
	if flags&4 != 0 { // I/O memory
		return NotSupported
	}
	e.space.mu.Lock()
	defer e.space.mu.Unlock()
	for _, a := range e.space.sorted {
		if a.base < addr+n && addr < a.end() {
			if a.kind != memRegistered {
				return InvalidValue
			}
			return HostMemRegistered
		}
	}
	a := &alloc{base: addr, size: n, kind: memRegistered, dev: c.dev, ctx: c, flags: flags | hostDeviceMap, host: hostBytes(addr, n)}
	e.space.insertLocked(a)
	e.allocated(a, nil)
	return Success
}

// HostUnregister is cuMemHostUnregister.
func (e *Engine) HostUnregister(t *Thread, addr uint64) Code {
	if _, code := e.unsafeContext(t); code != Success {
		return code
	}
	a, ok := e.space.find(addr)
	if !ok {
		return HostMemNotRegistered
	}
	if a.kind != memRegistered || a.base != addr {
		return InvalidValue
	}
	return e.dropHost(a)
}

// HostDevicePointer is cuMemHostGetDevicePointer: the same address.
func (e *Engine) HostDevicePointer(t *Thread, addr uint64, flags uint32) (uint64, Code) {
	if _, code := t.context(); code != Success {
		return 0, code
	}
	a, ok := e.space.find(addr)
	if !ok || a.kind == memDevice || flags != 0 {
		return 0, InvalidValue
	}
	return addr, Success
}

// HostFlags is cuMemHostGetFlags.
func (e *Engine) HostFlags(t *Thread, addr uint64) (uint32, Code) {
	if _, code := t.context(); code != Success {
		return 0, code
	}
	a, ok := e.space.find(addr)
	if !ok || a.kind != memPinned && a.kind != memRegistered {
		return 0, InvalidValue
	}
	return a.flags, Success
}

// ManagedAlloc is cuMemAllocManaged.
func (e *Engine) ManagedAlloc(t *Thread, n uint64, flags uint32) (uint64, Code) {
	c, code := e.unsafeContext(t)
	if code != Success {
		return 0, code
	}
	if n == 0 || flags != 1 && flags != 2 {
		return 0, InvalidValue
	}
	if !e.mayAllocate(n) {
		return 0, OutOfMemory
	}
	b, err := mapHost(n)
	if err != nil {
		return 0, OutOfMemory
	}
	a := newManaged(b, n, c.dev, c)
	e.space.insert(a)
	e.allocated(a, nil)
	return a.base, Success
}

func newManaged(b []byte, n uint64, d *Device, c *Context) *alloc {
	return &alloc{base: addrOf(b), size: n, kind: memManaged, dev: d, ctx: c, host: b, preferred: noLocation, prefetched: noLocation}
}

// location is a memory location of the ABI: 1 device, 2 host, 3 host NUMA node, 4 the
// current one; id is the ordinal or node.
type location struct{ kind, id int32 }

var noLocation = location{0, 0}

// Location types.
const (
	locDevice   = 1
	locHost     = 2
	locHostNUMA = 3
	locHostCur  = 4
)

func (e *Engine) validLocation(l location) bool {
	switch l.kind {
	case locDevice:
		return l.id >= 0 && int(l.id) < len(e.devices)
	case locHost, locHostNUMA, locHostCur:
		return true
	}
	return false
}

// managedRange finds the managed allocation that holds the whole range.
func (e *Engine) managedRange(addr, n uint64) (*alloc, Code) {
	a, ok := e.space.find(addr)
	if !ok || a.kind != memManaged || n == 0 || addr+n > a.end() || addr+n < addr {
		return nil, InvalidValue
	}
	return a, Success
}

// prefetchWork notes where managed memory was last moved; the bytes stay where they are.
type prefetchWork struct {
	a   *alloc
	loc location
}

func (*prefetchWork) nodeType() NodeType { return NodeEmpty }
func (w *prefetchWork) run(r *runner) Code {
	r.e.space.mu.Lock()
	w.a.prefetched = w.loc
	r.e.space.mu.Unlock()
	return Success
}

// Prefetch is cuMemPrefetchAsync.
func (e *Engine) Prefetch(t *Thread, addr, n uint64, kind, id int32, flags uint32, sh Handle) Code {
	s, code := e.stream(t, sh)
	if code != Success {
		return code
	}
	l := location{kind, id}
	if flags != 0 {
		return InvalidValue
	}
	if !e.validLocation(l) {
		if kind == locDevice {
			return InvalidDevice
		}
		return InvalidValue
	}
	a, code := e.managedRange(addr, n)
	if code != Success {
		return code
	}
	_, code = e.submit(t, s, &prefetchWork{a, l})
	return code
}

// Advise is cuMemAdvise.
func (e *Engine) Advise(_ *Thread, addr, n uint64, advice int32, kind, id int32) Code {
	a, code := e.managedRange(addr, n)
	if code != Success {
		return code
	}
	l := location{kind, id}
	if advice > 2 && advice != 4 && !e.validLocation(l) {
		return InvalidValue
	}
	e.space.mu.Lock()
	defer e.space.mu.Unlock()
	switch advice {
	case 1, 2:
		a.readMostly = advice == 1
	case 3:
		a.preferred = l
	case 4:
		a.preferred = noLocation
	case 5:
		if a.accessedBy == nil {
			a.accessedBy = make(map[location]bool)
		}
		a.accessedBy[l] = true
	case 6:
		delete(a.accessedBy, l)
	default:
		return InvalidValue
	}
	return Success
}

// RangeAttr is what cuMemRangeGetAttribute asks about managed memory.
type RangeAttr struct {
	ReadMostly              bool
	Preferred, Prefetched   int32 // device ordinal, -1 host, -2 none
	PreferredKind, PrefKind int32
	PreferredID, PrefetchID int32
	AccessedBy              []int32
}

// RangeAttributes returns the advice for managed memory.
func (e *Engine) RangeAttributes(_ *Thread, addr, n uint64) (r RangeAttr, code Code) {
	a, code := e.managedRange(addr, n)
	if code != Success {
		return r, code
	}
	e.space.mu.RLock()
	defer e.space.mu.RUnlock()
	r.ReadMostly = a.readMostly
	r.Preferred, r.Prefetched = a.preferred.legacy(), a.prefetched.legacy()
	r.PreferredKind, r.PreferredID = a.preferred.kind, a.preferred.id
	r.PrefKind, r.PrefetchID = a.prefetched.kind, a.prefetched.id
	for l := range a.accessedBy {
		r.AccessedBy = append(r.AccessedBy, l.legacy())
	}
	slices.Sort(r.AccessedBy)
	return r, Success
}

// legacy is the location as the older integer: a device, -1 for the host, -2 for none.
func (l location) legacy() int32 {
	switch l.kind {
	case locDevice:
		return l.id
	case 0:
		return -2
	}
	return -1
}

// PointerInfo is what the device knows about an address.
type PointerInfo struct {
	Known              bool
	Context            Handle
	MemoryType         int32 // 1 host, 2 device
	DevicePtr, HostPtr uint64
	ID                 uint64
	Managed, SyncOps   bool
	Device             int32
	Base, Size         uint64
	Pool               Handle
	BlockID            uint64
	IPC                bool // cuIpcGetMemHandle takes it
}

// Pointer describes the allocation that contains addr; Known is false for memory that the
// device never saw.
func (e *Engine) Pointer(addr uint64) PointerInfo {
	e.space.mu.RLock()
	defer e.space.mu.RUnlock()
	a, ok := e.space.findLocked(addr)
	if !ok {
		return PointerInfo{Device: -2, HostPtr: addr}
	}
	p := PointerInfo{
		Known: true, DevicePtr: addr, ID: a.id, Managed: a.kind == memManaged,
		SyncOps: a.syncOps || a.kind == memManaged, Base: a.base, Size: a.size, BlockID: a.id,
	}
	if a.ctx != nil {
		p.Context = a.ctx.h
	}
	p.Device = int32(a.dev.ordinal)
	switch a.kind {
	case memDevice:
		p.MemoryType = 2
	case memManaged:
		p.MemoryType, p.HostPtr = 2, addr
	default:
		p.MemoryType, p.HostPtr = 1, addr
	}
	if a.pool != nil {
		p.Pool = a.pool.h
	}
	p.IPC = a.shareable() && a.dev.arena.file >= 0
	return p
}

// SetSyncMemops is cuPointerSetAttribute of the one attribute that can be set.
func (e *Engine) SetSyncMemops(addr uint64, on bool) Code {
	e.space.mu.Lock()
	defer e.space.mu.Unlock()
	a, ok := e.space.findLocked(addr)
	if !ok {
		return InvalidValue
	}
	a.syncOps = on
	return Success
}
