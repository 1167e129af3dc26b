package engine

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// How long the scheduler waits.
const (
	// stuckAfter is for a piece of work that does not end, before others get their turn beside it.
	stuckAfter = 100 * time.Millisecond
	// quietAfter is for the host to submit or wait for something, before work goes on without it.
	quietAfter = 50 * time.Millisecond
	// schedTick is between two looks at what nobody signals.
	schedTick = time.Millisecond
)

// scheduler runs the work of all streams one piece at a time, in an order that is a function of
// a seed and of what the host does.
//
// Work that is submitted waits. Steps are taken at three occasions: before a submission or a query, some
// number of them; while the host waits for work, until it is done; and when the host has done nothing for a while. A
// step takes one of the streams whose next work may run. How many steps an occasion has and which stream a step takes
// depend only on the seed and on counts of submissions, queries and steps, so a program whose calls
// of the driver follow one another gets the same order every time. What the clock decides is left out of that: work that
// ends only when the host does something (it is left alone after stuckAfter), and a host that
// computes for longer than quietAfter between two calls.
type scheduler struct {
	seed uint64
	turn sync.Mutex // held during a step

	mu      sync.Mutex
	streams map[*stream]struct{} // those with queued work
	calls   uint64               // submissions and queries
	steps   uint64
	changed chan struct{} // closed when something ends or is submitted
	timer   bool          // somebody looks after a quiet host
	active  atomic.Int64  // when the host last submitted or waited, since epoch
}

func newScheduler(seed uint64) *scheduler {
	return &scheduler{seed: seed, streams: make(map[*stream]struct{}), changed: make(chan struct{})}
}

// Seed returns the seed of the schedule, if there is one.
func (e *Engine) Seed() (uint64, bool) {
	if e.sched == nil {
		return 0, false
	}
	return e.sched.seed, true
}

// mix is a good hash of words (the finalizer of splitmix64, word by word).
func mix(words ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, w := range words {
		h += w + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// occasion takes the steps before a submission or a query. Nothing is locked.
func (c *scheduler) occasion() {
	c.active.Store(int64(time.Since(epoch)))
	c.mu.Lock()
	c.calls++
	n := [8]int{0, 0, 0, 0, 0, 1, 1, 3}[mix(c.seed, 1, c.calls)%8]
	c.mu.Unlock()
	for range n {
		if !c.turn.TryLock() {
			return // another thread is at it, or this is the work of a step
		}
		more := c.step()
		c.turn.Unlock()
		if !more {
			return
		}
	}
}

// queued says that a stream has got work. The caller holds s.qmu.
func (c *scheduler) queued(s *stream) {
	c.active.Store(int64(time.Since(epoch)))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams[s] = struct{}{}
	c.signal()
	if !c.timer {
		c.timer = true
		go c.quiet()
	}
}

// signal wakes those who wait for a change. The caller holds c.mu.
func (c *scheduler) signal() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// quiet goes on with the work while the host does nothing, until there is none.
func (c *scheduler) quiet() {
	for {
		time.Sleep(schedTick)
		c.mu.Lock()
		if len(c.streams) == 0 {
			c.timer = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		if time.Since(epoch)-time.Duration(c.active.Load()) < quietAfter || !c.turn.TryLock() {
			continue
		}
		for c.step() && time.Since(epoch)-time.Duration(c.active.Load()) >= quietAfter {
		}
		c.turn.Unlock()
	}
}

// await takes steps until a task is done.
func (c *scheduler) await(t *task) {
	for !t.done.Load() {
		c.active.Store(int64(time.Since(epoch)))
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		if t.done.Load() {
			return
		}
		c.turn.Lock()
		took := !t.done.Load() && c.step()
		c.turn.Unlock()
		if took {
			continue
		}
		select {
		case <-changed:
		case <-time.After(schedTick): // a word of memory may have changed
		}
	}
}

// step runs one piece of work, if one may run. The caller holds c.turn.
func (c *scheduler) step() bool {
	s, t := c.choose()
	if t == nil {
		return false
	}
	ended := make(chan struct{})
	go func() {
		s.one(t)
		s.qmu.Lock()
		s.running = false
		c.mu.Lock()
		if s.head == nil {
			delete(c.streams, s)
		}
		c.signal()
		c.mu.Unlock()
		s.qmu.Unlock()
		close(ended)
	}()
	limit := time.NewTimer(stuckAfter)
	defer limit.Stop()
	select {
	case <-ended:
	case <-limit.C:
	}
	return true
}

// choose takes the next work of one of the streams that are ready.
func (c *scheduler) choose() (*stream, *task) {
	c.mu.Lock()
	all := make([]*stream, 0, len(c.streams))
	for s := range c.streams {
		all = append(all, s)
	}
	c.mu.Unlock()
	slices.SortFunc(all, func(a, b *stream) int { return cmp.Compare(a.id, b.id) })
	ready := all[:0]
	for _, s := range all {
		s.qmu.Lock()
		if !s.running && s.head != nil && s.head.ready() {
			ready = append(ready, s)
		}
		s.qmu.Unlock()
	}
	if len(ready) == 0 {
		return nil, nil
	}
	c.mu.Lock()
	c.steps++
	r := mix(c.seed, 2, c.steps)
	c.mu.Unlock()
	s := ready[r/2%uint64(len(ready))]
	if r%2 == 0 {
		// Half of the steps go by a fixed preference, so that a stream can fall far behind.
		s = slices.MaxFunc(ready, func(a, b *stream) int { return cmp.Compare(mix(c.seed, 3, a.id), mix(c.seed, 3, b.id)) })
	}
	s.qmu.Lock()
	defer s.qmu.Unlock()
	s.running = true
	return s, s.pop()
}

// ready says whether a task can run now without waiting for other work.
func (t *task) ready() bool {
	for _, d := range t.deps {
		if !d.done.Load() {
			return false
		}
	}
	if w, ok := t.w.(*memOpsWork); ok {
		return w.ready()
	}
	return true
}

// ready says whether the waits of a batch are over. A batch that writes words, too, is
// taken at once: it may wait for itself.
func (w *memOpsWork) ready() bool {
	for _, o := range w.ops.Ops {
		if o.Kind == OpWrite32 || o.Kind == OpWrite64 {
			return true
		}
	}
	for i, o := range w.ops.Ops {
		if (o.Kind == OpWait32 || o.Kind == OpWait64) && !o.holds(load(w.mem[i])) {
			return false
		}
	}
	return true
}
