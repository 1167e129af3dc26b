package device

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/internal/leak"
)

// owner is what a handle owns at the driver. It outlives the Go object (the
// cleanup of the object has it) and never points back to it. It is counted:
// one reference for the object until it is closed, one for each object that
// depends on it, one for each call in flight. So objects may be closed in any
// order, and while another goroutine uses them.
type owner struct {
	refs  atomic.Int64
	final func() error // gives the handle back; runs once
	kind  *counter
	token leak.Token
	once  atomic.Bool // the object's own reference was dropped
}

func newOwner(kind *counter, name string, final func() error) *owner {
	o := &owner{final: final, kind: kind, token: leak.Track(name)}
	o.refs.Store(1)
	kind.add()
	return o
}

// gone is what the count of an owner is far below once nothing is left: calls
// that come too late add to it for a moment.
const gone = math.MinInt64 / 2

// ref takes a reference, unless the last one is gone. It adds first and asks
// then: a loop that compares and swaps costs more, and calls come in numbers.
func (o *owner) ref() bool {
	if o.refs.Add(1) > 0 {
		return true
	}
	o.refs.Add(-1)
	return false
}

func (o *owner) unref() error {
	if o.refs.Add(-1) != 0 {
		return nil
	}
	return o.last()
}

// last runs when no reference is left.
func (o *owner) last() error {
	if !o.refs.CompareAndSwap(0, gone) {
		return nil // somebody took one meanwhile, or was as late and did the rest
	}
	o.token.Done()
	o.kind.drop()
	err := o.final()
	if errors.Is(err, ErrShutdown) {
		return nil // the driver has cleaned up by itself
	}
	return err
}

// dispose drops the object's own reference, once.
func (o *owner) dispose() error {
	if o.once.Swap(true) {
		return nil
	}
	return o.unref()
}

// guard makes a forgotten object give its handle back. It does so on the
// reaper's goroutine: a cleanup may neither wait nor take locks.
func guard[T any](obj *T, o *owner) runtime.Cleanup {
	return runtime.AddCleanup(obj, func(o *owner) {
		if o.once.Swap(true) {
			return
		}
		stats.collected.Add(1)
		reap(func() { _ = o.unref() })
	}, o)
}

// flag is an [atomic.Bool] whose word C code can look at.
type flag struct{ word uint32 }

func (f *flag) Load() bool { return atomic.LoadUint32(&f.word) != 0 }

// Swap sets or clears the flag and says what it was.
func (f *flag) Swap(on bool) bool {
	var n uint32
	if on {
		n = 1
	}
	return atomic.SwapUint32(&f.word, n) != 0
}

// object is the life cycle that all handles share.
type object struct {
	own    *owner
	closed flag
}

// begin begins a use, if the object is open: the handle stays valid until exit.
// The zero object owns nothing and is as good as closed.
func (b *object) begin() bool { return !b.closed.Load() && b.own != nil && b.own.ref() }

// made says whether there is something to close.
func (b *object) made() bool { return b.own != nil }

// end is exit for callers that may have begun nothing.
func (b *object) end() {
	if b.own != nil {
		b.exit()
	}
}

// enter is begin with the error that a closed object gives.
func (b *object) enter(op string) error {
	if b.begin() {
		return nil
	}
	return closed(op)
}

func (b *object) exit() { _ = b.own.unref() }

// hold makes the object stay for one that depends on it.
func (b *object) hold(op string) (*owner, error) {
	if err := b.enter(op); err != nil {
		return nil, err
	}
	return b.own, nil
}

// keep is hold where something that is in use holds the object already: it may be
// closed.
func (b *object) keep() *owner {
	b.own.ref()
	return b.own
}

// reaper runs what cleanups leave behind, on one goroutine that ends when
// there is no more.
var reaper struct {
	sync.Mutex
	queue   []func()
	running bool
}

func reap(f func()) {
	reaper.Lock()
	defer reaper.Unlock()
	reaper.queue = append(reaper.queue, f)
	if !reaper.running {
		reaper.running = true
		go runReaper()
	}
}

func runReaper() {
	for {
		reaper.Lock()
		if len(reaper.queue) == 0 {
			reaper.running = false
			reaper.Unlock()
			return
		}
		queue := reaper.queue
		reaper.queue = nil
		reaper.Unlock()
		for _, f := range queue {
			f()
		}
	}
}

// lib returns the driver of the process.
func lib() (*driver.Driver, error) {
	d, err := driver.Default()
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	return d, nil
}
