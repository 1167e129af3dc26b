package engine

import (
	"maps"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-handoff/handoff/internal/hunt"
)

// work is one piece of stream work: what a stream runs and what a graph node holds.
type work interface {
	// nodeType is the graph node type of the work.
	nodeType() NodeType
	// run does the work, on the goroutine of its stream or of a graph launch.
	run(r *runner) Code
}

// Range is a range of bytes that work reads or writes, by public address.
type Range struct{ Addr, Len uint64 }

// accessor is implemented by work that knows beforehand which bytes it touches.
type accessor interface {
	access() (reads, writes []Range)
}

// quick is implemented by work that takes no time, so that an idle stream does it at once
// instead of waking a goroutine.
type quick interface{ quick() }

// runner is what running work can see.
type runner struct {
	e   *Engine
	ctx *Context
	s   *stream
	// epoch is that of the context when the work was submitted.
	epoch int32
	// conds are the conditional handles' values of the graph launch under way.
	conds *condValues
	// What a hunt has to know of the running work: whether there is one, what the work
	// touched, and the graph node that it is.
	hunt *hunting
	hop  *hunt.Op
	acc  []hunt.Access
	node *hunt.Node
}

type streamKind uint8

const (
	kindCreated streamKind = iota
	kindLegacy
	kindPerThread
)

// stream is a queue of tasks in a context.
type stream struct {
	e        *Engine
	ctx      *Context
	kind     streamKind
	h        Handle
	id       uint64
	flags    uint32
	priority int
	blocking bool // ordered with the legacy default stream
	owner    *Thread

	// Guarded by e.mu.
	seq     uint64
	tail    *task             // last task submitted
	after   map[uint64]uint64 // stream id → seq known to be before the next task; never changed in place
	retired bool              // destroyed, or its thread ended
	cap     *capture
	capDeps []*node
	attrs   map[int32][64]byte
	hunted  *hunt.Stream // nil before the first work of a hunt

	qmu     sync.Mutex
	head    *task
	last    *task
	running bool
}

// task is work submitted to a stream.
type task struct {
	s     *stream
	w     work
	seq   uint64
	deps  []*task // tasks of other streams that come first
	after map[uint64]uint64
	next  *task
	hop   *hunt.Op      // the work in a hunt, or nil
	pend  *hunt.Pending // its turn, when what it touches is known only afterwards

	epoch int32 // of the context, when it was submitted

	done atomic.Bool
	mu   sync.Mutex
	ch   chan struct{} // made by the first waiter
	code Code          // result, valid once done
	end  time.Duration // when it ended, since epoch
}

// wait blocks until the task is done.
func (t *task) wait() {
	if t.done.Load() {
		return
	}
	if c := t.s.e.sched; c != nil {
		c.await(t)
		return
	}
	t.mu.Lock()
	if t.done.Load() {
		t.mu.Unlock()
		return
	}
	if t.ch == nil {
		t.ch = make(chan struct{})
	}
	ch := t.ch
	t.mu.Unlock()
	<-ch
}

func (t *task) finish(code Code) {
	t.code, t.end = code, time.Since(epoch)
	t.deps, t.w = nil, nil
	t.mu.Lock()
	t.done.Store(true)
	if t.ch != nil {
		close(t.ch)
	}
	t.mu.Unlock()
}

func (e *Engine) newStreamID() uint64 {
	e.nextID++
	return e.nextID
}

// stream resolves a stream handle for a call: 0 and StreamLegacy are the current context's
// legacy default stream, StreamPerThread the calling thread's.
func (e *Engine) stream(t *Thread, h Handle) (*stream, Code) {
	switch h {
	case 0, StreamLegacy, StreamPerThread:
		c, code := t.context()
		if code != Success {
			return nil, code
		}
		if h != StreamPerThread {
			return c.legacy, Success
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.perThread(t, c), Success
	}
	s, ok := lookup[*stream](e, h)
	if !ok {
		return nil, InvalidHandle
	}
	return s, s.ctx.usable()
}

// perThread returns the per-thread default stream of t in c. The caller holds e.mu.
func (e *Engine) perThread(t *Thread, c *Context) *stream {
	s := t.streams[c]
	if s == nil {
		if t.streams == nil {
			t.streams = make(map[*Context]*stream)
		}
		s = &stream{e: e, ctx: c, kind: kindPerThread, h: StreamPerThread, id: e.newStreamID(), blocking: true, owner: t}
		t.streams[c] = s
		c.streams[s] = struct{}{}
	}
	return s
}

// submit is the one place where work enters a stream. While the stream is being captured
// the work becomes a node of the graph and the task is nil. deps are tasks of other
// streams that must come first.
func (e *Engine) submit(t *Thread, s *stream, w work, deps ...*task) (*task, Code) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.submitLocked(t, s, w, deps...)
}

func (e *Engine) submitLocked(t *Thread, s *stream, w work, deps ...*task) (*task, Code) {
	if code := s.ctx.usable(); code != Success {
		return nil, code
	}
	if s.cap != nil {
		_, code := e.captureWork(s, w)
		return nil, code
	}
	all, code := e.barrier(s)
	if code != Success {
		return nil, code
	}
	for _, d := range deps {
		if d != nil && !d.done.Load() && d.s != s {
			all = append(all, d)
		}
	}
	if lw, ok := w.(*launchWork); ok && e.sched != nil {
		for _, d := range lw.waits() {
			if !d.done.Load() {
				all = append(all, d) // nothing may wait in the middle of a step
			}
		}
	}
	for _, d := range all {
		s.join(d)
	}
	var hop *hunt.Op
	var pend *hunt.Pending
	if p := e.hunt.Load(); p != nil {
		hop, pend = p.submit(s, w, deps)
	}
	if _, ok := w.(quick); ok && len(all) == 0 && s.idle() && !e.holdsWork() && e.sched == nil {
		nt := &task{s: s, w: w, seq: s.seq, after: s.after, hop: hop}
		nt.finish(w.run(&runner{e: e, ctx: s.ctx, s: s}))
		if hop != nil {
			if x := e.hunt.Load().trace.Load(); x != nil {
				x.ran(hop, now(), Success, nil)
			}
		}
		return nt, Success
	}
	s.seq++
	nt := &task{s: s, w: w, seq: s.seq, deps: all, after: s.after, hop: hop, pend: pend, epoch: s.ctx.epoch.Load()}
	s.tail = nt
	s.push(nt)
	return nt, Success
}

// barrier returns the tasks that the legacy default stream's rule puts before the next
// task of s, or the error that this would be during a capture. The caller holds e.mu.
func (e *Engine) barrier(s *stream) ([]*task, Code) {
	if !s.blocking && s.kind != kindLegacy {
		return nil, Success
	}
	c := s.ctx
	if s.kind != kindLegacy {
		if l := c.legacy.tail; l != nil && !l.done.Load() {
			return []*task{l}, Success
		}
		return nil, Success
	}
	var r []*task
	for b := range c.streams {
		if !b.blocking {
			continue
		}
		if b.cap != nil {
			e.invalidate(b.cap)
			return nil, CaptureImplicit
		}
		if b.tail == nil || b.tail.done.Load() {
			if b.retired {
				delete(c.streams, b)
			}
			continue
		}
		r = append(r, b.tail)
	}
	return r, Success
}

// idle says whether everything submitted has been done. The caller holds e.mu.
func (s *stream) idle() bool { return s.tail == nil || s.tail.done.Load() }

// Idle says whether all work of all streams is done.
func (e *Engine) Idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.tails()) == 0
}

// join notes that everything up to d is before what comes next on s.
func (s *stream) join(d *task) {
	if d.s == s || s.after[d.s.id] >= d.seq {
		return
	}
	m := maps.Clone(s.after)
	if m == nil {
		m = make(map[uint64]uint64)
	}
	for id, seq := range d.after {
		if id != s.id {
			m[id] = max(m[id], seq)
		}
	}
	m[d.s.id] = d.seq
	if len(m) > 128 {
		s.e.forget(m)
	}
	s.after = m
}

// forget drops what is known of streams that are destroyed and have finished: nothing of theirs is waited
// for any more. The caller holds e.mu.
func (e *Engine) forget(m map[uint64]uint64) {
	live := make(map[uint64]struct{})
	for _, c := range e.allContexts() {
		if c.legacy == nil {
			continue // never used
		}
		live[c.legacy.id] = struct{}{}
		for s := range c.streams {
			live[s.id] = struct{}{}
		}
	}
	for id := range m {
		if _, ok := live[id]; !ok {
			delete(m, id)
		}
	}
}

// knows says whether task number seq of the stream id is ordered before the next task of s.
func (s *stream) knows(id, seq uint64) bool { return s.id == id || s.after[id] >= seq }

// push appends a task to the queue and starts the stream's goroutine if it is not running.
func (s *stream) push(t *task) {
	s.qmu.Lock()
	if s.last == nil {
		s.head = t
	} else {
		s.last.next = t
	}
	s.last = t
	if c := s.e.sched; c != nil {
		c.queued(s)
		s.qmu.Unlock()
		return
	}
	start := !s.running
	s.running = true
	s.qmu.Unlock()
	if start {
		go s.drain()
	}
}

// drain runs the queue until it is empty.
func (s *stream) drain() {
	debug.SetPanicOnFault(true) // a bad host address is a fault of the work, not of the process
	r := &runner{e: s.e, ctx: s.ctx, s: s}
	for {
		s.qmu.Lock()
		t := s.pop()
		if t == nil {
			s.running = false
			s.qmu.Unlock()
			return
		}
		s.qmu.Unlock()
		for _, d := range t.deps {
			d.wait()
		}
		s.e.holdWork(s)
		s.e.run(r, t)
	}
}

// pop takes the next task out of the queue, nil if it is empty. The caller holds s.qmu.
func (s *stream) pop() *task {
	t := s.head
	if t == nil {
		return nil
	}
	s.head = t.next
	t.next = nil
	if s.head == nil {
		s.last = nil
	}
	return t
}

// one does one task, on a goroutine of its own.
func (s *stream) one(t *task) {
	debug.SetPanicOnFault(true)
	s.e.holdWork(s)
	s.e.run(&runner{e: s.e, ctx: s.ctx, s: s}, t)
}

// run does a task on the goroutine of its stream.
func (e *Engine) run(r *runner, t *task) {
	if r.hunt, r.hop = nil, t.hop; t.hop != nil {
		r.hunt = e.hunt.Load()
		switch w := t.w.(type) {
		case *hostWork:
			// What the function tells the host by other means is not seen: assume that it tells all.
			if w.touches == nil {
				r.hunt.h.Learn(t.hop)
			}
		case *callbackWork:
			r.hunt.h.Learn(t.hop)
		}
	}
	var trace *tracer
	var start int64
	if r.hunt != nil {
		if trace = r.hunt.trace.Load(); trace != nil {
			start = now()
		}
	}
	r.epoch = t.epoch
	code := r.do(t.w)
	if trace != nil {
		acc := r.acc
		if len(acc) == 0 {
			acc = t.hop.Known
		}
		trace.ran(t.hop, start, code, acc)
	}
	if t.pend != nil {
		r.hunt.h.Done(t.pend, r.acc)
		r.acc = nil
	}
	t.finish(code)
}

// always is implemented by work that has to run even when the context has failed,
// because it only gives something back.
type always interface{ always() }

// do runs one piece of work, unless the context has been lost since it was submitted. A fault sticks to
// the context, as on a real device.
func (r *runner) do(w work) (code Code) {
	ctx := r.ctx
	if moves(w) {
		ctx.moving.Add(1)
		defer ctx.moving.Add(-1)
	}
	c := Code(ctx.sticky.Load())
	if c == Success && r.epoch != ctx.epoch.Load() {
		c = LaunchFailure // the context has been healed since: what it had to do is gone
	}
	if c != Success {
		if _, ok := w.(always); !ok {
			return c
		}
	}
	defer func() {
		if p := recover(); p != nil {
			code = LaunchFailure
			if f, ok := p.(fault); ok {
				code = Code(f)
			}
		}
		// What fails because the context was lost under it, a graph between two nodes, is no fault of the
		// context as it is now: that may have been healed.
		if code != Success && r.epoch == ctx.epoch.Load() {
			ctx.fail(code)
		}
	}()
	return w.run(r)
}

// moves says whether work does nothing but move bytes, so that it ends soon.
func moves(w work) bool {
	switch w := w.(type) {
	case *copyWork, *setWork:
		return true
	case *hostWork:
		return w.touches != nil
	}
	return false
}

// fault is the panic value by which running work ends with a code.
type fault Code

// StreamCreate is cuStreamCreateWithPriority.
func (e *Engine) StreamCreate(t *Thread, flags uint32, priority int) (Handle, Code) {
	c, code := t.context()
	if code != Success {
		return 0, code
	}
	if flags&^1 != 0 {
		return 0, InvalidValue
	}
	priority = max(greatestPriority, min(leastPriority, priority))
	e.mu.Lock()
	defer e.mu.Unlock()
	if !c.alive {
		return 0, ContextDestroyed
	}
	s := &stream{e: e, ctx: c, id: e.newStreamID(), flags: flags, priority: priority, blocking: flags&1 == 0}
	s.h = e.newHandle(s)
	c.streams[s] = struct{}{}
	return s.h, Success
}

// StreamDestroy is cuStreamDestroy: the handle is gone at once, work under way goes on.
func (e *Engine) StreamDestroy(_ *Thread, h Handle) Code {
	if h <= StreamPerThread {
		return InvalidHandle
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s, ok := locked[*stream](e, h)
	if !ok {
		return InvalidHandle
	}
	if s.cap != nil {
		e.invalidate(s.cap)
		e.leaveCapture(s)
	}
	delete(e.handles, h)
	s.retired = true
	if s.hunted != nil {
		e.Hunter().Retire(s.hunted)
	}
	if s.idle() {
		delete(s.ctx.streams, s)
	}
	return Success
}

// StreamPriority is cuStreamGetPriority.
func (e *Engine) StreamPriority(t *Thread, h Handle) (int, Code) {
	s, code := e.stream(t, h)
	if code != Success {
		return 0, code
	}
	return s.priority, Success
}

// StreamFlags is cuStreamGetFlags.
func (e *Engine) StreamFlags(t *Thread, h Handle) (uint32, Code) {
	s, code := e.stream(t, h)
	if code != Success {
		return 0, code
	}
	return s.flags, Success
}

// StreamID is cuStreamGetId.
func (e *Engine) StreamID(t *Thread, h Handle) (uint64, Code) {
	s, code := e.stream(t, h)
	if code != Success {
		return 0, code
	}
	return s.id, Success
}

// StreamCtx is cuStreamGetCtx.
func (e *Engine) StreamCtx(t *Thread, h Handle) (Handle, Code) {
	s, code := e.stream(t, h)
	if code != Success {
		return 0, code
	}
	return s.ctx.h, Success
}

// StreamDevice is cuStreamGetDevice.
func (e *Engine) StreamDevice(t *Thread, h Handle) (int, Code) {
	s, code := e.stream(t, h)
	if code != Success {
		return 0, code
	}
	return s.ctx.dev.ordinal, Success
}

// StreamAttribute is cuStreamGetAttribute; the bytes are the union of the ABI.
func (e *Engine) StreamAttribute(t *Thread, h Handle, id int32) (v [64]byte, code Code) {
	s, code := e.stream(t, h)
	if code != Success {
		return v, code
	}
	if !streamAttr(id) {
		return v, InvalidValue
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if a, ok := s.attrs[id]; ok {
		return a, Success
	}
	switch id {
	case attrSyncPolicy:
		v[0], v[1], v[2], v[3] = 0xff, 0xff, 0xff, 0xff // the context's
	case attrPriority:
		p := uint32(int32(s.priority))
		v[0], v[1], v[2], v[3] = byte(p), byte(p>>8), byte(p>>16), byte(p>>24)
	}
	return v, Success
}

// Launch attributes that a stream has.
const (
	attrAccessPolicy  = 1
	attrSyncPolicy    = 3
	attrPriority      = 8
	attrSyncDomainMap = 9
	attrSyncDomain    = 10
)

func streamAttr(id int32) bool {
	switch id {
	case attrAccessPolicy, attrSyncPolicy, attrPriority, attrSyncDomainMap, attrSyncDomain:
		return true
	}
	return false
}

// StreamSetAttribute is cuStreamSetAttribute.
func (e *Engine) StreamSetAttribute(t *Thread, h Handle, id int32, v [64]byte) Code {
	s, code := e.stream(t, h)
	if code != Success {
		return code
	}
	if !streamAttr(id) {
		return InvalidValue
	}
	if p := int32(uint32(v[0]) | uint32(v[1])<<8 | uint32(v[2])<<16 | uint32(v[3])<<24); id == attrSyncPolicy && (p < 1 || p > 4) {
		return InvalidValue
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.attrs == nil {
		s.attrs = make(map[int32][64]byte)
	}
	s.attrs[id] = v
	if id == attrPriority {
		s.priority = max(greatestPriority, min(leastPriority, int(int32(uint32(v[0])|uint32(v[1])<<8|uint32(v[2])<<16|uint32(v[3])<<24))))
	}
	return Success
}

// StreamCopyAttributes is cuStreamCopyAttributes.
func (e *Engine) StreamCopyAttributes(t *Thread, dst, src Handle) Code {
	d, code := e.stream(t, dst)
	if code != Success {
		return code
	}
	s, code := e.stream(t, src)
	if code != Success {
		return code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	d.attrs = maps.Clone(s.attrs)
	d.priority = s.priority
	return Success
}

// forbidCapture refuses a call that waits for or asks about a stream that is being
// captured, and breaks the capture. The caller holds e.mu.
func (e *Engine) forbidCapture(s *stream) Code {
	if s.cap != nil {
		if s.cap.invalid {
			return CaptureInvalidated
		}
		e.invalidate(s.cap)
		return CaptureUnsupported
	}
	if s.kind == kindLegacy {
		for b := range s.ctx.streams {
			if b.blocking && b.cap != nil {
				e.invalidate(b.cap)
				return CaptureImplicit
			}
		}
	}
	return Success
}

// pending returns the tasks to wait for so that s has done everything. The caller holds e.mu.
func (s *stream) pending() []*task {
	var r []*task
	if !s.idle() {
		r = append(r, s.tail)
	}
	if s.kind == kindLegacy {
		for b := range s.ctx.streams {
			if b.blocking && !b.idle() {
				r = append(r, b.tail)
			}
		}
	}
	return r
}

// StreamQuery is cuStreamQuery.
func (e *Engine) StreamQuery(t *Thread, h Handle) Code {
	s, code := e.stream(t, h)
	if code != Success {
		return code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if code := e.forbidCapture(s); code != Success {
		return code
	}
	if code := e.unsafeCall(t); code != Success {
		return code
	}
	if e.omitted("cuStreamQuery") {
		return Success
	}
	if !s.idle() || s.kind == kindLegacy && len(s.pending()) > 0 {
		return NotReady
	}
	e.learned(e.passed(s))
	return s.ctx.usable()
}

// StreamSynchronize is cuStreamSynchronize.
func (e *Engine) StreamSynchronize(t *Thread, h Handle) Code {
	s, code := e.stream(t, h)
	if code != Success {
		return code
	}
	e.mu.Lock()
	code = e.forbidCapture(s)
	if code == Success {
		code = e.unsafeCall(t)
	}
	if code != Success {
		e.mu.Unlock()
		return code
	}
	if e.omitted("cuStreamSynchronize") {
		e.mu.Unlock()
		return Success
	}
	p := s.pending()
	over := e.passed(s)
	e.mu.Unlock()
	for _, t := range p {
		t.wait()
	}
	e.learned(over)
	s.ctx.dev.trimPools()
	return s.ctx.usable()
}

// hostWork calls a function of the host.
type hostWork struct {
	fn   func(Code)
	user [2]uintptr // what a graph node is asked for: function and datum
	// touches are what the function reads and writes, where it has said so: then that is all
	// that it does, and it tells the host nothing.
	touches *[2][]Range
}

func (*hostWork) nodeType() NodeType { return NodeHost }

func (w *hostWork) run(r *runner) Code {
	w.fn(Code(r.ctx.sticky.Load()))
	return Success
}

// LaunchHostFunc is cuLaunchHostFunc. fn runs on a goroutine of the device; fnAddr and user
// are kept for those who ask a captured node. touches may be nil: what fn reads and what it writes.
func (e *Engine) LaunchHostFunc(t *Thread, h Handle, fn func(), fnAddr, user uintptr, touches *[2][]Range) Code {
	s, code := e.stream(t, h)
	if code != Success {
		return code
	}
	_, code = e.submit(t, s, &hostWork{fn: func(Code) { fn() }, user: [2]uintptr{fnAddr, user}, touches: touches})
	return code
}

// callbackWork is a stream callback: it runs with the error of the context, too.
type callbackWork struct{ hostWork }

func (*callbackWork) always() {}

// AddCallback is cuStreamAddCallback; it cannot be captured.
func (e *Engine) AddCallback(t *Thread, h Handle, fn func(Code)) Code {
	s, code := e.stream(t, h)
	if code != Success {
		return code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.cap != nil {
		return e.forbidCapture(s)
	}
	_, code = e.submitLocked(t, s, &callbackWork{hostWork{fn: fn}})
	return code
}

// AttachMem is cuStreamAttachMemAsync: managed memory is visible everywhere here.
func (e *Engine) AttachMem(t *Thread, h Handle, addr, n uint64, flags uint32) Code {
	s, code := e.stream(t, h)
	if code != Success {
		return code
	}
	if flags != 1 && flags != 2 && flags != 4 {
		return InvalidValue
	}
	a, ok := e.space.find(addr)
	if !ok || a.kind != memManaged || n != 0 && (addr != a.base || n != a.size) {
		return InvalidValue
	}
	_, code = e.submit(t, s, &emptyWork{})
	return code
}

// emptyWork does nothing; as a task it marks a point, as a node it joins.
type emptyWork struct{}

func (*emptyWork) nodeType() NodeType { return NodeEmpty }
func (*emptyWork) run(*runner) Code   { return Success }
func (*emptyWork) quick()             {}
