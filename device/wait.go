package device

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/stream"
)

// blockers bounds the threads that driver calls block at once: B333. A thread
// that waits in the driver is a thread that the system has to keep.
var blockers = make(chan struct{}, 32)

// callers bounds the threads that ask the driver at once before a wait: many
// goroutines tend to begin to wait together, and the driver has a lock.
var callers = make(chan struct{}, 64)

// bounded makes a short driver call, no more than a few at a time.
func bounded(call func() driver.Result) driver.Result {
	callers <- struct{}{}
	defer func() { <-callers }()
	return call()
}

// blocking runs a driver call that blocks its thread. If ctx can end, the call
// runs on a goroutine of its own, which goes on when ctx has ended. abandon
// runs instead of call when ctx ends before its turn comes.
func blocking(ctx context.Context, call func() error, abandon func()) error {
	if ctx.Err() != nil {
		abandon()
		return context.Cause(ctx)
	}
	select {
	case blockers <- struct{}{}:
	case <-ctx.Done():
		abandon()
		return context.Cause(ctx)
	}
	if ctx.Done() == nil {
		defer func() { <-blockers }()
		return call()
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-blockers }()
		done <- call()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// waiter is one event that somebody waits for.
type waiter struct {
	ctx    driver.ContextHandle
	event  driver.EventHandle
	done   func(driver.Result) // on the poller's goroutine; must not block
	pooled bool                // give the event back to the pool
	closer func()              // drops what kept the handles valid
	failed int                 // questions that said nothing about the work
}

// asks is how often the poller asks again after a question that failed without
// saying anything about the work, such as for want of memory.
const asks = 100

// open says whether a waiter has to wait on after an answer.
func (w *waiter) open(res driver.Result) bool {
	switch res {
	case driver.Success, driver.ErrorContextIsDestroyed, driver.ErrorInvalidHandle, driver.ErrorDeinitialized, driver.ErrorNotInitialized:
		return false // done, or the context is gone and the work with it
	case driver.ErrorNotReady:
		return true
	}
	if res.Sticky() || w.failed == asks {
		return false
	}
	w.failed++
	return true
}

// poller asks for the events of all waiters, in one crossing a round, on one
// goroutine that ends when nobody waits. So a waiter costs no thread.
var poller struct {
	sync.Mutex
	fresh   []waiter
	running bool
	waiting atomic.Int64
}

const (
	pollFast  = 20 * time.Microsecond // the first rounds only yield
	pollSlow  = time.Millisecond
	pollYield = 64
)

func await(d *driver.Driver, w waiter) {
	poller.Lock()
	defer poller.Unlock()
	poller.fresh = append(poller.fresh, w)
	poller.waiting.Add(1)
	if !poller.running {
		poller.running = true
		go runPoller(d)
	}
}

func runPoller(d *driver.Driver) {
	var (
		all     []waiter
		ctxs    []driver.ContextHandle
		events  []driver.EventHandle
		results []driver.Result
		rounds  int
		pause   time.Duration
	)
	for {
		poller.Lock()
		if len(poller.fresh) > 0 {
			all = append(all, poller.fresh...)
			clear(poller.fresh)
			poller.fresh = poller.fresh[:0]
			rounds, pause = 0, pollFast
		}
		if len(all) == 0 {
			poller.running = false
			poller.Unlock()
			return
		}
		poller.Unlock()

		ctxs, events = ctxs[:0], events[:0]
		for _, w := range all {
			ctxs, events = append(ctxs, w.ctx), append(events, w.event)
		}
		if cap(results) < len(all) {
			results = make([]driver.Result, len(all), 2*len(all))
		}
		results = results[:len(all)]
		d.QueryEvents(ctxs, events, results)

		kept := all[:0]
		finished := 0
		for i, w := range all {
			if w.open(results[i]) {
				kept = append(kept, w)
				continue
			}
			finished++
			if w.pooled {
				_ = d.RecycleEvent(w.ctx, w.event)
			}
			if w.closer != nil {
				w.closer()
			}
			poller.waiting.Add(-1) // before anybody hears of it
			w.done(results[i])
		}
		clear(all[len(kept):])
		all = kept
		if finished > 0 {
			rounds, pause = 0, pollFast
		}
		if rounds < pollYield {
			rounds++
			runtime.Gosched()
			continue
		}
		time.Sleep(pause)
		pause = min(2*pause, pollSlow)
	}
}

// waitEvent waits for an event that is recorded, or for ctx. It takes over
// what keeps the event valid.
func waitEvent(ctx context.Context, d *driver.Driver, w waiter) (driver.Result, error) {
	done := make(chan driver.Result, 1)
	w.done = func(res driver.Result) { done <- res }
	await(d, w)
	select {
	case res := <-done:
		return res, nil
	case <-ctx.Done():
		return driver.ErrorNotReady, context.Cause(ctx)
	}
}

// deferred counts the functions of [Defer] that are still to run.
var deferred struct {
	sync.Mutex
	n      int64
	queued int64         // of those, in the poller
	idle   chan struct{} // closed when n drops to 0
}

// Defer calls f once the work that is queued on s now is done: to give memory
// back that this work uses, for example. It does not block, and holds no
// thread. f learns of an error that the work ended with. It runs on a goroutine
// that serves all deferred functions: it must not wait for the device, and
// should be short.
//
// Defer is refused, with [ErrCapture], while s captures: the work of a graph
// has no end. What f uses must then live as long as the graph.
func Defer(s stream.StreamView, f func(error)) error {
	if !s.Valid() {
		return fmt.Errorf("device: defer: %w", stream.ErrInvalid)
	}
	if f == nil {
		return invalid("defer: no function")
	}
	d := s.Driver()
	if capturing, err := s.Capturing(); err != nil {
		return fmt.Errorf("device: defer: %w", err)
	} else if capturing {
		return &Error{Op: "defer", Device: int(s.Device()), Code: driver.ErrorStreamCaptureUnsupported}
	}
	e, res := d.RecordPooled(s.Context(), s.Handle())
	if err := check("defer", s.Device(), res); err != nil {
		return err
	}
	beginDeferred()
	addQueued(1)
	owner := s.Owner()
	await(d, waiter{ctx: s.Context(), event: e, pooled: true, done: func(res driver.Result) {
		defer endDeferred()
		addQueued(-1)
		f(check("deferred work", s.Device(), res))
		runtime.KeepAlive(owner)
	}})
	return nil
}

func beginDeferred() {
	deferred.Lock()
	defer deferred.Unlock()
	if deferred.n == 0 {
		deferred.idle = make(chan struct{})
	}
	deferred.n++
}

func addQueued(n int64) {
	deferred.Lock()
	defer deferred.Unlock()
	deferred.queued += n
}

func endDeferred() {
	deferred.Lock()
	defer deferred.Unlock()
	if deferred.n--; deferred.n == 0 {
		close(deferred.idle)
	}
}

// Flush waits until every function of [Defer] has run, or ctx ends. Call it at
// shutdown.
func Flush(ctx context.Context) error {
	for {
		deferred.Lock()
		n, idle := deferred.n, deferred.idle
		deferred.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return fmt.Errorf("device: flush: %d deferred functions left: %w", n, context.Cause(ctx))
		}
	}
}

// Stats returns the counts of this process.
func Stats() Statistics {
	s := &stats
	deferred.Lock()
	left, queued := deferred.n, deferred.queued
	deferred.Unlock()
	return Statistics{
		Contexts: s.contexts.live.Load(), Streams: s.streams.live.Load(), Events: s.events.live.Load(),
		Buffers: s.buffers.live.Load(), Pools: s.pools.live.Load(),
		ContextsMade: s.contexts.made.Load(), StreamsMade: s.streams.made.Load(), EventsMade: s.events.made.Load(),
		BuffersMade: s.buffers.made.Load(), PoolsMade: s.pools.made.Load(),
		Allocated: s.allocated.Load(), Collected: s.collected.Load(), Deferred: left, Waiters: max(poller.waiting.Load()-queued, 0),
		Edges: s.edges.Load() + driver.EdgesMade(), HostPanics: driver.HostFuncPanics(),
	}
}
