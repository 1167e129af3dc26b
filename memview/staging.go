package memview

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
)

// Copies between a device and host memory that it cannot take as it is, by way
// of pinned memory. Elements are moved between the host array and the slots of a
// ring by goroutines; the copy's own stream moves slots. Host functions on a second
// stream start that work and wait for it, a few slots apart, so that several slots
// are worked on at once while others are under way to the device or from it. Events
// order the two streams: nothing blocks.

const (
	stageSlots = 8
	stageAhead = 4 // slots that the host works on besides the one that is waited for
	largeSlot  = 4 << 20
	minPiece   = 512 << 10 // of copies that are cut into pieces
	smallSlot  = 256 << 10 // for copies that need one slot only
	maxStagers = 8         // in use at a time
	keptIdle   = 4         // kept for the next copy; freeing may wait for the device
)

// stager is a ring of pinned memory with the stream of its host functions.
type stager struct {
	d     *driver.Driver
	ctx   driver.ContextHandle
	side  driver.StreamHandle
	read  driver.StreamHandle // of kernels that read host memory meanwhile; 0 if small
	size  int64
	slots []uint64
}

type stagerKey struct {
	ctx  driver.ContextHandle
	size int64
}

// stagerPool keeps stagers: pinned memory is slow to get.
type stagerPool struct {
	mu   sync.Mutex
	free sync.Cond
	idle map[stagerKey][]*stager
	used int
}

var stagers = newStagerPool()

func newStagerPool() *stagerPool {
	p := &stagerPool{idle: make(map[stagerKey][]*stager)}
	p.free.L = &p.mu
	return p
}

// get returns a stager for copies of n bytes, waiting for one if too many are
// in use.
func (p *stagerPool) get(t *transfer, n int64) (*stager, error) {
	slots, size := stageSlots, int64(largeSlot)
	if n <= smallSlot {
		slots, size = 1, smallSlot
	}
	key := stagerKey{t.ctx, size}
	p.mu.Lock()
	for p.used >= maxStagers {
		p.free.Wait()
	}
	p.used++
	if l := p.idle[key]; len(l) > 0 {
		g := l[len(l)-1]
		p.idle[key] = l[:len(l)-1]
		p.mu.Unlock()
		return g, nil
	}
	p.mu.Unlock()
	g, err := newStager(t, slots, size)
	if err != nil {
		p.mu.Lock()
		p.used--
		p.free.Signal()
		p.mu.Unlock()
	}
	return g, err
}

func newStager(t *transfer, slots int, size int64) (*stager, error) {
	g := &stager{d: t.d, ctx: t.ctx, size: size}
	var res driver.Result
	if g.side, res = t.d.StreamCreate(t.ctx, driver.StreamNonBlocking); res != driver.Success {
		return nil, t.err("create staging stream", res)
	}
	if slots > 1 {
		if g.read, res = t.d.StreamCreate(t.ctx, driver.StreamNonBlocking); res != driver.Success {
			return nil, joinErrors(t.err("create staging stream", res), g.destroy())
		}
	}
	for range slots {
		addr, res := t.d.MemHostAlloc(t.ctx, uintptr(size), driver.MemHostAllocPortable|driver.MemHostAllocDeviceMap)
		if res != driver.Success {
			return nil, joinErrors(t.err("allocate staging memory", res), g.destroy())
		}
		g.slots = append(g.slots, uint64(addr))
	}
	return g, nil
}

// put gives a stager back, of which all work is done. It may wait for the
// device, if there are enough already.
func (p *stagerPool) put(g *stager) error {
	key := stagerKey{g.ctx, g.size}
	p.mu.Lock()
	p.used--
	p.free.Signal()
	if l := p.idle[key]; len(l) < keptIdle {
		p.idle[key] = append(l, g)
		p.mu.Unlock()
		return nil
	}
	p.mu.Unlock()
	return g.destroy()
}

// trim frees what is idle.
func (p *stagerPool) trim() error {
	p.mu.Lock()
	idle := p.idle
	p.idle = make(map[stagerKey][]*stager)
	p.mu.Unlock()
	var err error
	for _, l := range idle {
		for _, g := range l {
			err = joinErrors(err, g.destroy())
		}
	}
	return err
}

func (g *stager) destroy() error {
	res := []driver.Result{g.d.StreamDestroy(g.ctx, g.side)}
	if g.read != 0 {
		res = append(res, g.d.StreamDestroy(g.ctx, g.read))
	}
	for _, a := range g.slots {
		res = append(res, g.d.MemFreeHost(g.ctx, uintptr(a)))
	}
	var err error
	for _, r := range res {
		// A context that is gone has taken them along.
		if e := r.Err(); e != nil && !errors.Is(e, device.ErrShutdown) && !errors.Is(e, device.ErrInvalidContext) {
			err = joinErrors(err, e)
		}
	}
	return err
}

// stageWorkers returns how many goroutines a piece is worth. It has its own
// measure: what it shares the memory with is a device that is faster than one of them.
func stageWorkers(bytes int64) int {
	return int(max(min(int64(runtime.GOMAXPROCS(0)), bytes/chunkBytes), 1))
}

// pieces cuts a plan into parts of at most limit bytes, which are as long as
// they can be along one axis.
func (p *copyPlan) pieces(limit int64, yield func(piece *copyPlan) error) error {
	axis, inner := p.n, p.item
	for axis > 0 && inner*p.shape[axis-1] <= limit {
		axis--
		inner *= p.shape[axis]
	}
	if axis == 0 {
		return yield(p)
	}
	axis-- // the axis that is cut; those before it are walked
	rows := limit / inner
	var index [MaxDims]int64
	to, from := p.dstBase, p.srcBase
	q := copyPlan{item: p.item, n: p.n - axis}
	copy(q.dst[:], p.dst[axis:p.n])
	copy(q.src[:], p.src[axis:p.n])
	for {
		for at := int64(0); at < p.shape[axis]; at += rows {
			copy(q.shape[:], p.shape[axis:p.n])
			q.shape[0] = min(rows, p.shape[axis]-at)
			q.dstBase, q.srcBase = to+at*p.dst[axis], from+at*p.src[axis]
			if err := yield(&q); err != nil {
				return err
			}
		}
		i := axis - 1
		for ; i >= 0; i-- {
			index[i]++
			to += p.dst[i]
			from += p.src[i]
			if index[i] < p.shape[i] {
				break
			}
			to -= index[i] * p.dst[i]
			from -= index[i] * p.src[i]
			index[i] = 0
		}
		if i < 0 {
			return nil
		}
	}
}

// ring is a stager at work for one copy.
type ring struct {
	t     *transfer
	g     *stager
	piece int64 // bytes of a slot that are used
	ahead int   // how many pieces the host begins before it waits for the first
	at    int
	ready [stageSlots]driver.EventHandle // the slot may be used again
	reads bool                           // work is queued on the stager's other stream

	waiting []*hostJob // the next host function begins them
	begun   []*hostJob // one that is queued does, and none waits for them yet
	all     []*hostJob // one that is queued does
}

// ring returns one for n bytes of elements of a size.
func (t *transfer) ring(n, item int64) (*ring, error) {
	if t.capturing {
		return nil, t.captureError("pageable and finely strided host memory cannot be captured")
	}
	g, err := stagers.get(t, n)
	if err != nil {
		return nil, err
	}
	r := &ring{t: t, g: g, piece: g.size}
	if len(g.slots) > 1 {
		r.piece = min(max((n/stageSlots+63)&^63, minPiece, item), g.size)
		if n > r.piece {
			r.ahead = stageAhead
		}
	}
	return r, nil
}

// end gives the ring back once its work is done, whatever happened before.
func (r *ring) end(err error) error {
	t, g := r.t, r.g
	r.waiting = nil
	if len(r.begun) > 0 { // something failed on the way
		err = joinErrors(err, r.host(slices.Clone(r.begun)...))
	}
	for _, e := range r.ready {
		if e != 0 {
			err = joinErrors(err, t.err("staging", t.d.RecycleEvent(t.ctx, e)))
		}
	}
	// All host functions belong to what is queued on the stream, and so does what a
	// kernel reads.
	for _, s := range []driver.StreamHandle{g.side, g.read} {
		if s == g.read && !r.reads {
			continue
		}
		if res := t.d.OrderStreams(g.ctx, s, t.ctx, t.s, false); res != driver.Success {
			err = joinErrors(err, t.err("staging", res))
			err = joinErrors(err, t.err("staging", t.d.StreamSynchronize(g.ctx, s)))
		}
	}
	// Where the driver gives up, it skips the host functions that wait: no memory may
	// go before the work that they wait for is done.
	all := r.all
	t.done = slices.Insert(t.done, 0, func() error {
		for _, j := range all {
			j.settle()
		}
		return nil
	})
	t.done = append(t.done, func() error { return stagers.put(g) })
	return err
}

// next returns the next slot. who is the stream that will write it.
func (r *ring) next(who driver.StreamHandle) (slot uint64, i int, err error) {
	i = r.at % len(r.g.slots)
	r.at++
	if e := r.ready[i]; e != 0 {
		r.ready[i] = 0
		res := r.t.d.StreamWaitEvent(r.t.ctx, who, e, 0)
		// The wait has taken the record over.
		if again := r.t.d.RecycleEvent(r.t.ctx, e); res == driver.Success {
			res = again
		}
		if res != driver.Success {
			return 0, 0, r.t.err("staging", res)
		}
	}
	return r.g.slots[i], i, nil
}

// used says that slot i may be used again after what is queued on a stream now.
func (r *ring) used(i int, who driver.StreamHandle) error {
	e, res := r.t.d.RecordPooled(r.t.ctx, who)
	r.ready[i] = e
	return r.t.err("staging", res)
}

// order makes stream b wait for a.
func (r *ring) order(a, b driver.StreamHandle) error {
	return r.t.err("staging", r.t.d.OrderStreams(r.t.ctx, a, r.t.ctx, b, false))
}

// hostJob moves a piece between a slot and the host array.
type hostJob struct {
	run     func() // nil once it has run
	begun   atomic.Bool
	done    chan struct{}
	touches [2]driver.HostTouch
}

// job makes a job of a piece, for the next host function to begin.
func (r *ring) job(p copyPlan, dst, src uint64, keep *StridedMemoryView) *hostJob {
	v := *keep // reachable until the job is done
	n := uintptr(p.item)
	j := &hostJob{
		run:  func() { p.runAt(dst, src, &v) },
		done: make(chan struct{}),
		// Of arrays in host memory that are no slots only the first element is said.
		touches: [2]driver.HostTouch{
			{Addr: uintptr(src + uint64(p.srcBase)), Len: n},
			{Addr: uintptr(dst + uint64(p.dstBase)), Len: n, Write: true},
		},
	}
	r.waiting = append(r.waiting, j)
	return j
}

func (j *hostJob) work() {
	defer close(j.done)
	j.run()
	j.run = nil
}

// settle waits for a job if it has begun.
func (j *hostJob) settle() {
	if j.begun.Load() {
		<-j.done
	}
}

// host queues a host function that begins the jobs that are waiting for it, and
// returns once those given are done.
func (r *ring) host(done ...*hostJob) error {
	begin := r.waiting
	touches := make([]driver.HostTouch, 0, 2*(len(begin)+len(done)))
	for _, j := range slices.Concat(begin, done) {
		touches = append(touches, j.touches[:]...)
	}
	res := r.t.d.LaunchHostCopy(r.t.ctx, r.g.side, func() {
		for _, j := range begin {
			j.begun.Store(true)
			if len(begin) == 1 && len(done) == 1 && j == done[0] {
				j.work()
				return
			}
			go j.work()
		}
		for _, j := range done {
			<-j.done
		}
	}, touches...)
	if res != driver.Success {
		return r.t.err("staging", res)
	}
	r.waiting = nil
	r.all = append(r.all, begin...)
	r.begun = slices.DeleteFunc(append(r.begun, begin...), func(j *hostJob) bool { return slices.Contains(done, j) })
	return nil
}

// staged is a piece that the host works on.
type staged struct {
	move copyPlan
	slot uint64
	i    int
	job  *hostJob
}

// readBeside has a kernel read a part of f by itself while the host gathers.
func (r *ring) readBeside(p *copyPlan, d, f *side) error {
	u := *r.t
	u.s = r.g.read
	r.reads = true
	if err := r.order(r.t.s, u.s); err != nil {
		return err
	}
	return u.queue(p, d.addr, f.addr, fromHost)
}

// stage copies from host memory f to device memory d, and a kernel copies the part
// that is read, which may be nil.
func (t *transfer) stage(p *copyPlan, d, f *side, read *copyPlan) error {
	r, err := t.ring(p.bytes(), p.item)
	if err != nil {
		return err
	}
	side := r.g.side
	var queue []staged
	send := func() error { // the oldest piece goes to the device
		x := &queue[0]
		if err := r.host(x.job); err != nil {
			return err
		}
		if err := r.order(side, t.s); err != nil {
			return err
		}
		if err := t.queue(&x.move, d.addr, x.slot, fromHost); err != nil {
			return err
		}
		i := x.i
		queue = queue[1:]
		return r.used(i, t.s)
	}
	if read != nil {
		err = r.readBeside(read, d, f)
	}
	if err == nil {
		err = r.order(t.s, side) // host memory is read in the order of the stream
	}
	if err == nil {
		err = p.pieces(r.piece, func(q *copyPlan) error {
			slot, i, err := r.next(side)
			if err != nil {
				return err
			}
			pack, move := *q, *q
			pack.dstBase, move.srcBase = 0, 0
			pack.denseSteps(&pack.dst)
			move.denseSteps(&move.src)
			move.merge()
			queue = append(queue, staged{move, slot, i, r.job(pack, slot, f.addr, f.v)})
			if len(queue) <= r.ahead {
				return nil
			}
			return send()
		})
	}
	for err == nil && len(queue) > 0 {
		err = send()
	}
	return r.end(err)
}

// unstage copies from device memory f to host memory d.
func (t *transfer) unstage(p *copyPlan, d, f *side) error {
	r, err := t.ring(p.bytes(), p.item)
	if err != nil {
		return err
	}
	side := r.g.side
	var queue []staged
	err = p.pieces(r.piece, func(q *copyPlan) error {
		slot, i, err := r.next(t.s)
		if err != nil {
			return err
		}
		move, unpack := *q, *q
		move.dstBase, unpack.srcBase = 0, 0
		move.denseSteps(&move.dst)
		unpack.denseSteps(&unpack.src)
		move.merge()
		if err := t.queue(&move, slot, f.addr, toHost); err != nil {
			return err
		}
		if err := r.order(t.s, side); err != nil {
			return err
		}
		queue = append(queue, staged{i: i, job: r.job(unpack, d.addr, slot, d.v)})
		if len(queue) <= r.ahead {
			return r.host()
		}
		x := queue[0]
		queue = queue[1:]
		if err := r.host(x.job); err != nil {
			return err
		}
		return r.used(x.i, side)
	})
	if err == nil && len(queue) > 0 {
		rest := make([]*hostJob, len(queue))
		for i := range queue {
			rest[i] = queue[i].job
		}
		err = r.host(rest...)
	}
	return r.end(err)
}
