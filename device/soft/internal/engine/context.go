package engine

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Context is a context of a device. The primary context of a device is one object for
// the life of the engine; alive says whether it is retained.
type Context struct {
	e       *Engine
	dev     *Device
	h       Handle
	id      uint64
	primary bool
	sticky  atomic.Int32 // Code of the fault that ended this context, or 0
	moving  atomic.Int32 // pieces of work that move bytes now
	epoch   atomic.Int32 // how often the context was lost to an injected code
	dead    atomic.Bool

	// Guarded by e.mu.
	alive   bool
	refs    int
	flags   uint32
	version uint32
	limits  map[int32]uint64
	cache   int32
	peers   map[*Context]bool
	legacy  *stream
	streams map[*stream]struct{} // created ones and per-thread ones, until their work is done
}

// Context flags.
const (
	ctxSchedMask = 0x7
	ctxFlagsMask = 0x3ff
)

func (c *Context) usable() Code {
	if c.dead.Load() {
		return ContextDestroyed
	}
	if s := c.sticky.Load(); s != 0 {
		c.still()
		return Code(s)
	}
	return Success
}

// still waits until no copy or memset of a lost context runs any more; none begins. Whoever is told that
// it is lost may free the memory that its work used.
func (c *Context) still() {
	for c.moving.Load() != 0 {
		runtime.Gosched()
	}
}

// fail makes code stick to the context: every later call that uses it returns code.
func (c *Context) fail(code Code) { c.sticky.CompareAndSwap(0, int32(code)) }

// start makes the per-context objects. The caller holds e.mu.
func (c *Context) start(flags uint32) {
	c.e.nextID++
	c.id = c.e.nextID
	c.alive, c.flags, c.version = true, flags, 3020
	c.limits = defaultLimits()
	c.peers = make(map[*Context]bool)
	c.streams = make(map[*stream]struct{})
	c.legacy = &stream{e: c.e, ctx: c, kind: kindLegacy, h: StreamLegacy, id: c.e.newStreamID(), blocking: true}
	c.sticky.Store(0)
	c.dead.Store(false)
}

func defaultLimits() map[int32]uint64 {
	return map[int32]uint64{
		0: 1024,      // stack size of a thread
		1: 1 << 20,   // printf FIFO
		2: 8 << 20,   // malloc heap
		3: 2,         // device runtime sync depth
		4: 2048,      // device runtime pending launches
		5: 64,        // L2 fetch granularity
		6: 8 << 20,   // persisting L2 size
		7: 1024 << 0, // device runtime shared memory size
	}
}

// CtxCreate is cuCtxCreate; the new context becomes current.
func (e *Engine) CtxCreate(t *Thread, flags uint32, dev int) (Handle, Code) {
	d, code := e.device(dev)
	if code != Success {
		return 0, code
	}
	if flags&^ctxFlagsMask != 0 || !validSched(flags) {
		return 0, InvalidValue
	}
	e.mu.Lock()
	c := &Context{e: e, dev: d}
	c.h = e.newHandle(c)
	c.start(flags)
	d.contexts[c] = struct{}{}
	e.mu.Unlock()
	t.stack = append(t.stack, c)
	return c.h, Success
}

// validSched says whether the scheduling bits name at most one policy.
func validSched(flags uint32) bool {
	s := flags & ctxSchedMask
	return s == 0 || s == 1 || s == 2 || s == 4
}

// CtxDestroy is cuCtxDestroy: waits for the context's work, then frees what is in it.
func (e *Engine) CtxDestroy(t *Thread, h Handle) Code {
	e.mu.Lock()
	c, ok := locked[*Context](e, h)
	if !ok || c.primary {
		e.mu.Unlock()
		return InvalidContext
	}
	e.mu.Unlock()
	if t.current() == c {
		t.stack = t.stack[:len(t.stack)-1]
	}
	e.endContext(c)
	return Success
}

// endContext waits for the context's work and frees everything that belongs to it.
func (e *Engine) endContext(c *Context) {
	e.mu.Lock()
	if !c.alive {
		e.mu.Unlock()
		return
	}
	c.alive = false
	tails := c.tails()
	over := e.passed(nil, c)
	e.mu.Unlock()
	for _, t := range tails {
		t.wait()
	}
	e.learned(over)
	e.retire(c)
	c.dead.Store(true)
	e.mu.Lock()
	if !c.primary {
		e.dropHandle(c.h)
		delete(c.dev.contexts, c)
	}
	for h, x := range e.handles {
		switch x := x.(type) {
		case *stream:
			if x.ctx == c {
				if x.cap != nil {
					e.invalidate(x.cap)
					e.leaveCapture(x)
				}
				e.dropHandle(h)
			}
		case *event:
			if x.ctx == c {
				e.dropHandle(h)
			}
		case *module:
			if x.ctx == c {
				e.dropHandle(h)
				for _, f := range x.funcs {
					e.dropHandle(f.h)
				}
			}
		}
	}
	for _, lib := range e.libraries() {
		delete(lib.modules, c)
	}
	for t := range e.threads {
		if s := t.streams[c]; s != nil {
			delete(t.streams, c)
		}
	}
	for _, o := range e.allContexts() {
		delete(o.peers, c)
	}
	c.streams, c.peers = make(map[*stream]struct{}), make(map[*Context]bool)
	e.mu.Unlock()
	e.space.dropContext(c)
}

func (e *Engine) allContexts() []*Context {
	var r []*Context
	for _, d := range e.devices {
		for c := range d.contexts {
			r = append(r, c)
		}
	}
	return r
}

// tails returns the last unfinished task of every stream of the context, and forgets
// streams that were destroyed and have finished. The caller holds e.mu.
func (c *Context) tails() []*task {
	var r []*task
	if t := c.legacy.tail; t != nil && !t.done.Load() {
		r = append(r, t)
	}
	for s := range c.streams {
		switch t := s.tail; {
		case t != nil && !t.done.Load():
			r = append(r, t)
		case s.retired:
			delete(c.streams, s)
		}
	}
	return r
}

// tails is that of all contexts. The caller holds e.mu.
func (e *Engine) tails() (r []*task) {
	for _, c := range e.allContexts() {
		if c.alive {
			r = append(r, c.tails()...)
		}
	}
	return r
}

// CtxPush is cuCtxPushCurrent.
func (e *Engine) CtxPush(t *Thread, h Handle) Code {
	if h == 0 {
		return InvalidValue
	}
	c, ok := lookup[*Context](e, h)
	if !ok {
		return InvalidContext
	}
	t.stack = append(t.stack, c)
	return Success
}

// CtxPop is cuCtxPopCurrent.
func (e *Engine) CtxPop(t *Thread) (Handle, Code) {
	c := t.current()
	if c == nil {
		return 0, InvalidContext
	}
	t.stack = t.stack[:len(t.stack)-1]
	return c.h, Success
}

// CtxSet is cuCtxSetCurrent: replaces the top of the stack; 0 pops it.
func (e *Engine) CtxSet(t *Thread, h Handle) Code {
	if h == 0 {
		if n := len(t.stack); n > 0 {
			t.stack = t.stack[:n-1]
		}
		return Success
	}
	c, ok := lookup[*Context](e, h)
	if !ok {
		return InvalidContext
	}
	if n := len(t.stack); n > 0 {
		t.stack[n-1] = c
	} else {
		t.stack = append(t.stack, c)
	}
	return Success
}

// CtxGet is cuCtxGetCurrent: 0 when there is none.
func (e *Engine) CtxGet(t *Thread) (Handle, Code) {
	if c := t.current(); c != nil {
		return c.h, Success
	}
	return 0, Success
}

// CtxDevice is cuCtxGetDevice.
func (e *Engine) CtxDevice(t *Thread) (int, Code) {
	c := t.current()
	if c == nil {
		return 0, InvalidContext
	}
	if c.dead.Load() {
		return 0, ContextDestroyed
	}
	return c.dev.ordinal, Success
}

// CtxSynchronize is cuCtxSynchronize: waits for all work of the current context.
func (e *Engine) CtxSynchronize(t *Thread) Code {
	c, code := t.context()
	if code != Success {
		return code
	}
	e.mu.Lock()
	if code := e.unsafeCall(t); code != Success {
		e.mu.Unlock()
		return code
	}
	for s := range c.streams {
		if s.cap != nil {
			e.invalidate(s.cap)
			e.mu.Unlock()
			return CaptureUnsupported
		}
	}
	if e.omitted("cuCtxSynchronize") {
		e.mu.Unlock()
		return Success
	}
	tails := c.tails()
	over := e.passed(nil, c)
	e.mu.Unlock()
	for _, t := range tails {
		t.wait()
	}
	e.learned(over)
	c.dev.trimPools()
	return c.usable()
}

// ctxOrCurrent resolves a context argument where 0 means the current one.
func (e *Engine) ctxOrCurrent(t *Thread, h Handle) (*Context, Code) {
	if h == 0 {
		return t.context()
	}
	c, ok := lookup[*Context](e, h)
	if !ok {
		return nil, InvalidContext
	}
	return c, c.usable()
}

// CtxFlags is cuCtxGetFlags.
func (e *Engine) CtxFlags(t *Thread) (uint32, Code) {
	c, code := t.context()
	if code != Success {
		return 0, code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return c.flags, Success
}

// CtxSetFlags is cuCtxSetFlags.
func (e *Engine) CtxSetFlags(t *Thread, flags uint32) Code {
	c, code := t.context()
	if code != Success {
		return code
	}
	if flags&^ctxFlagsMask != 0 || !validSched(flags) {
		return InvalidValue
	}
	e.mu.Lock()
	c.flags = flags
	e.mu.Unlock()
	return Success
}

// CtxID is cuCtxGetId.
func (e *Engine) CtxID(t *Thread, h Handle) (uint64, Code) {
	c, code := e.ctxOrCurrent(t, h)
	if code != Success {
		return 0, code
	}
	return c.id, Success
}

// CtxAPIVersion is cuCtxGetApiVersion.
func (e *Engine) CtxAPIVersion(t *Thread, h Handle) (uint32, Code) {
	c, code := e.ctxOrCurrent(t, h)
	if code != Success {
		return 0, code
	}
	return c.version, Success
}

// Stream priorities: lower is more urgent.
const (
	leastPriority    = 0
	greatestPriority = -5
)

// CtxPriorityRange is cuCtxGetStreamPriorityRange.
func (e *Engine) CtxPriorityRange(t *Thread) (least, greatest int, code Code) {
	if _, code := t.context(); code != Success {
		return 0, 0, code
	}
	return leastPriority, greatestPriority, Success
}

// CtxLimit is cuCtxGetLimit.
func (e *Engine) CtxLimit(t *Thread, limit int32) (uint64, Code) {
	c, code := t.context()
	if code != Success {
		return 0, code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	v, ok := c.limits[limit]
	if !ok {
		return 0, InvalidValue
	}
	return v, Success
}

// CtxSetLimit is cuCtxSetLimit.
func (e *Engine) CtxSetLimit(t *Thread, limit int32, v uint64) Code {
	c, code := t.context()
	if code != Success {
		return code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := c.limits[limit]; !ok {
		return InvalidValue
	}
	c.limits[limit] = v
	return Success
}

// CtxCacheConfig is cuCtxGetCacheConfig.
func (e *Engine) CtxCacheConfig(t *Thread) (int32, Code) {
	c, code := t.context()
	if code != Success {
		return 0, code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return c.cache, Success
}

// CtxSetCacheConfig is cuCtxSetCacheConfig.
func (e *Engine) CtxSetCacheConfig(t *Thread, v int32) Code {
	c, code := t.context()
	if code != Success {
		return code
	}
	if v < 0 || v > 3 {
		return InvalidValue
	}
	e.mu.Lock()
	c.cache = v
	e.mu.Unlock()
	return Success
}

// PrimaryRetain is cuDevicePrimaryCtxRetain.
func (e *Engine) PrimaryRetain(dev int) (Handle, Code) {
	d, code := e.device(dev)
	if code != Success {
		return 0, code
	}
	d.primaryMu.Lock()
	defer d.primaryMu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	c := d.primary
	if !c.alive {
		c.start(d.primaryFlags)
	}
	c.refs++
	return c.h, Success
}

// PrimaryRelease is cuDevicePrimaryCtxRelease; the last one ends the context.
func (e *Engine) PrimaryRelease(dev int) Code {
	d, code := e.device(dev)
	if code != Success {
		return code
	}
	d.primaryMu.Lock()
	defer d.primaryMu.Unlock()
	e.mu.Lock()
	c := d.primary
	if !c.alive || c.refs == 0 {
		e.mu.Unlock()
		return InvalidContext
	}
	c.refs--
	last := c.refs == 0
	e.mu.Unlock()
	if last {
		e.endContext(c)
	}
	return Success
}

// PrimaryReset is cuDevicePrimaryCtxReset: ends the context; references stay to be
// released.
func (e *Engine) PrimaryReset(dev int) Code {
	d, code := e.device(dev)
	if code != Success {
		return code
	}
	d.primaryMu.Lock()
	defer d.primaryMu.Unlock()
	e.endContext(d.primary)
	e.mu.Lock()
	if d.primary.refs > 0 {
		d.primary.start(d.primaryFlags)
	}
	e.mu.Unlock()
	return Success
}

// PrimaryState is cuDevicePrimaryCtxGetState.
func (e *Engine) PrimaryState(dev int) (flags uint32, active bool, code Code) {
	d, code := e.device(dev)
	if code != Success {
		return 0, false, code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if d.primary.alive {
		return d.primary.flags, true, Success
	}
	return d.primaryFlags, false, Success
}

// PrimarySetFlags is cuDevicePrimaryCtxSetFlags.
func (e *Engine) PrimarySetFlags(dev int, flags uint32) Code {
	d, code := e.device(dev)
	if code != Success {
		return code
	}
	if flags&^ctxFlagsMask != 0 || !validSched(flags) {
		return InvalidValue
	}
	e.mu.Lock()
	d.primaryFlags = flags
	if d.primary.alive {
		d.primary.flags = flags
	}
	e.mu.Unlock()
	return Success
}

// EnablePeer is cuCtxEnablePeerAccess.
func (e *Engine) EnablePeer(t *Thread, peer Handle, flags uint32) Code {
	c, code := t.context()
	if code != Success {
		return code
	}
	if flags != 0 {
		return InvalidValue
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	p, ok := locked[*Context](e, peer)
	if !ok || !p.alive {
		return InvalidContext
	}
	if !e.canPeer(c.dev, p.dev) {
		return PeerAccessUnsupported
	}
	if c.peers[p] {
		return PeerAccessEnabled
	}
	c.peers[p] = true
	return Success
}

// DisablePeer is cuCtxDisablePeerAccess.
func (e *Engine) DisablePeer(t *Thread, peer Handle) Code {
	c, code := t.context()
	if code != Success {
		return code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	p, ok := locked[*Context](e, peer)
	if !ok {
		return InvalidContext
	}
	if !c.peers[p] {
		return PeerAccessNotEnabled
	}
	delete(c.peers, p)
	return Success
}

// reaches says whether kernels of c may touch plain memory of device d.
func (c *Context) reaches(d *Device) bool {
	if c.dev == d {
		return true
	}
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	for p := range c.peers {
		if p.dev == d {
			return true
		}
	}
	return false
}

// canUse says whether kernels of c may touch an allocation.
func (c *Context) canUse(a *alloc) bool {
	switch {
	case a == nil || a.kind != memDevice || a.dev == c.dev:
		return true
	case a.pool != nil:
		c.e.mu.Lock()
		defer c.e.mu.Unlock()
		return a.pool.accessOf(location{locDevice, int32(c.dev.ordinal)}) != 0
	}
	return c.reaches(a.dev)
}

func (e *Engine) canPeer(a, b *Device) bool { return a != b && !e.opts.NoPeers }

// epoch is what event times count from.
var epoch = time.Now()
