package memview

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/stream"
)

// ReleaseOn gives up the claim of v, and of every copy and part of v, after
// the work that is queued on s now. The host does not wait, the memory is not
// used again too early, and v is released when ReleaseOn returns. If several
// streams use the memory, let s wait for the others before (B143).
//
// If the producer's stream is known ([StridedMemoryView.ProducerStream]) it is
// made to wait for s, by one event edge or none if both are one stream, and the
// claim is given up at once: what the producer queues afterwards, including the
// reuse of the memory, comes later (R189). A buffer of package device does the
// same by itself. Otherwise an event is recorded on s and the claim is given up
// once it has completed, by a goroutine that serves all views. Lent memory
// whose producer's stream is unknown is retained until then.
//
// For views that no device reaches, and empty ones, it is
// [StridedMemoryView.Release]; [CopyOn] keeps the host memory that it uses by
// itself.
//
// At most [MaxPendingReleases] claims are held back at a time. Above that
// ReleaseOn waits for the device until half of them are given up: the producer
// of work is slowed down, memory does not pile up. [Flush] waits for all.
//
// While s captures, a producer's stream that belongs to the same capture is
// ordered as usual. With any other the error wraps [device.ErrCapture]: the
// memory is part of a graph then, and has to live as long as that. On this and
// every other error nothing is given up: v is still the caller's, who may
// synchronize s and call Release.
func (v StridedMemoryView) ReleaseOn(s stream.StreamView) error {
	const op = "release"
	if !v.IsDeviceAccessible() || v.layout.empty() || !v.owner.live() {
		return v.Release()
	}
	if !s.Valid() {
		return fail(op, "", stream.ErrInvalid, "")
	}
	from := v.ProducerStream()
	if from.Valid() && from.Same(s) {
		return v.Release()
	}
	capturing, err := s.Capturing()
	if err != nil {
		return fail(op, "", err, "")
	}
	edge := from.Valid()
	switch {
	case capturing:
		if !edge || !sameCapture(s, from) {
			return fail(op, "B231", &device.Error{
				Op: op, Device: int(s.Device()), Code: driver.ErrorStreamCaptureUnsupported,
				Detail: "the memory belongs to the graph: release it after the graph",
			}, "")
		}
	case edge:
		// A producer that captures must not wait for work outside of its capture.
		if busy, err := from.Capturing(); err != nil || busy {
			edge = false
		}
	}
	if p := v.place; p != nil && p.buffer != nil && !capturing {
		ds, err := device.Wrap(s, nil)
		if err == nil {
			err = p.buffer.UsedOn(ds)
		}
		if err != nil {
			return fail(op, "", err, "")
		}
		return v.Release()
	}
	if edge {
		if err := from.WaitFor(s); err == nil {
			return v.Release()
		} else if capturing {
			return fail(op, "", err, "")
		}
		// For example a per-thread stream of another thread: the event decides.
	}
	return v.releaseLater(s)
}

// sameCapture reports whether two streams are captured into one graph.
func sameCapture(a, b stream.StreamView) bool {
	i, res := a.Driver().CaptureInfo(a.Context(), a.Handle(), nil)
	if res != driver.Success {
		return false
	}
	j, res := b.Driver().CaptureInfo(b.Context(), b.Handle(), nil)
	return res == driver.Success && i.Status == driver.StreamCaptureStatusActive && j.Status == i.Status && i.ID == j.ID
}

// releaseLater moves the claim of v to the reaper.
func (v StridedMemoryView) releaseLater(s stream.StreamView) error {
	const op = "release"
	switch v.owner.kind {
	case ownerNone, ownerUnowned:
		return nil // nobody waits for it
	}
	w, err := v.Retain()
	if err != nil {
		return err
	}
	later.begin()
	err = device.Defer(s, func(error) { later.put(due{v: w}) })
	if err != nil {
		later.end(1, nil)
		return fail(op, "", joinRelease(err, w.Release), "")
	}
	return v.Release()
}

// MaxPendingReleases is the number of claims that [StridedMemoryView.ReleaseOn]
// holds back at most.
const MaxPendingReleases = 1 << 15

// reaper gives up claims whose time has come. Foreign deleters may take long
// and take locks (a GIL), so this is not done where events are asked for. It is
// one goroutine, that ends when there is nothing to do.
type reaper struct {
	mu      sync.Mutex
	room    sync.Cond // pending has dropped to half of the maximum
	queue   []due
	pending int // what was begun and has not ended
	waiting int // goroutines that wait for room
	running bool
	idle    chan struct{} // closed when pending drops to 0
	failed  int
	err     error // the first of failed
}

// due is a claim to give up, or, if f is not nil, something else to do then.
type due struct {
	v StridedMemoryView
	f func() error
}

var later = newReaper()

func newReaper() *reaper {
	r := new(reaper)
	r.room.L = &r.mu
	return r
}

// begin counts a claim, waiting for room.
func (r *reaper) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending >= MaxPendingReleases {
		r.waiting++
		for r.pending > MaxPendingReleases/2 {
			r.room.Wait()
		}
		r.waiting--
	}
	if r.pending == 0 {
		r.idle = make(chan struct{})
	}
	r.pending++
}

func (r *reaper) end(n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if r.failed == 0 {
			r.err = err
		}
		r.failed++
	}
	if r.pending -= n; r.pending == 0 {
		close(r.idle)
	}
	if r.waiting > 0 && r.pending <= MaxPendingReleases/2 {
		r.room.Broadcast()
	}
}

// put hands over what may be given up now. It does not block.
func (r *reaper) put(x due) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, x)
	if !r.running {
		r.running = true
		go r.run()
	}
}

func (r *reaper) run() {
	var batch []due
	var tensors []dlpack.Managed
	for {
		r.mu.Lock()
		batch, r.queue = r.queue, batch[:0]
		if len(batch) == 0 {
			r.running = false
			r.queue = nil
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		for i := range batch {
			x := &batch[i]
			if x.f != nil {
				r.end(1, x.f())
				continue
			}
			if x.v.owner.kind == ownerManaged {
				tensors = append(tensors, x.v.owner.managed)
				continue
			}
			r.end(1, x.v.Release())
		}
		if len(tensors) > 0 {
			dlpack.ReleaseAll(tensors)
			r.end(len(tensors), nil)
			clear(tensors)
			tensors = tensors[:0]
		}
		clear(batch)
	}
}

// after calls f, on the reaper's goroutine, once the work that is queued on s
// now is done. On an error f is not called.
func after(s stream.StreamView, f func() error) error {
	later.begin()
	err := device.Defer(s, func(error) { later.put(due{f: f}) })
	if err != nil {
		later.end(1, nil)
	}
	return err
}

// PendingReleases returns how many claims are held back until work is done,
// with the copies of [CopyOn] that still use host memory.
func PendingReleases() int {
	later.mu.Lock()
	defer later.mu.Unlock()
	return later.pending
}

// Flush waits until every claim that [StridedMemoryView.ReleaseOn] holds back
// is given up, and every copy of [CopyOn] has let go of its host memory, or
// until ctx ends; then it frees the pinned memory that copies have kept for the
// next ones, for which the driver may wait for the device. Call it at shutdown. It returns what release functions have returned since the
// last call.
func Flush(ctx context.Context) error {
	r := later
	for {
		r.mu.Lock()
		n, idle := r.pending, r.idle
		if n == 0 {
			failed, err := r.failed, r.err
			r.failed, r.err = 0, nil
			r.mu.Unlock()
			if err != nil {
				err = fmt.Errorf("memview: flush: %d of the deferred releases failed, the first: %w", failed, err)
			}
			return errors.Join(err, stagers.trim())
		}
		r.mu.Unlock()
		select {
		case <-idle:
		case <-ctx.Done():
			return fail("flush", "", context.Cause(ctx), strconv.Itoa(n)+" claims are held back")
		}
	}
}
