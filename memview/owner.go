package memview

import (
	"strconv"
	"sync/atomic"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
)

// Lender lends memory for the duration of a call, for example the arrays that
// a Python caller holds while a Go function runs. A view of lent memory asks
// Live before every access, so that one which escaped its call gives
// [dlpack.ErrClosed] instead of reading freed memory.
//
// Methods may be called from any goroutine.
type Lender interface {
	// Live reports whether the memory lent under the number gen may still be
	// used. It turns false, for ever, when the call that lent it returns.
	Live(gen uint64) bool
	// Retain makes the memory of argument slot stay past the call, until
	// release is called, once. It fails with an error wrapping
	// [dlpack.ErrClosed] if gen is over.
	Retain(gen uint64, slot int) (release func() error, err error)
}

// Owner says what keeps the memory of a view valid. Whoever makes a view from
// a bare address has to name one (B145): the zero Owner is refused. Go memory
// needs none, the view keeps it reachable.
type Owner struct {
	lender  Lender
	managed dlpack.Managed
	gen     uint64
	slot    int32
	kind    ownerKind
}

type ownerKind uint8

const (
	ownerNone    ownerKind = iota // nothing said, or Go memory
	ownerUnowned                  // the caller promised
	ownerLent                     // lender, for a call
	ownerShared                   // lender is a *claim
	ownerManaged                  // managed
)

// Unowned is the explicit promise of the caller that the memory outlives
// every view of it. Nothing checks it.
func Unowned() Owner { return Owner{kind: ownerUnowned} }

// Lent names a lender, the number of the call and the argument's slot in it.
func Lent(l Lender, gen uint64, slot int) Owner {
	return Owner{kind: ownerLent, lender: l, gen: gen, slot: int32(slot)}
}

// Managed names an imported tensor. The view takes it over: releasing the
// view releases the tensor.
func Managed(m dlpack.Managed) Owner { return Owner{kind: ownerManaged, managed: m} }

// OnRelease makes an owner from a function that frees the memory, or drops a
// reference to what owns it. The function runs exactly once, when the view
// made with this Owner and all that were retained from it are released; until
// then keep, which may be nil, stays reachable. A nil function is for memory
// that the garbage collector frees with keep.
//
// One Owner is for one view: views that share it are released together.
func OnRelease(keep any, release func() error) Owner {
	s := &shared{keep: keep, release: release}
	s.refs.Store(1)
	return Owner{kind: ownerShared, lender: &claim{s: s}}
}

// shared counts the claims to memory that has a release function.
type shared struct {
	refs    atomic.Int64
	keep    any
	release func() error
}

// claim is one reference. It is given up once, also if copies of a view do so
// from several goroutines.
type claim struct {
	s    *shared
	done atomic.Bool
}

// Live implements [Lender].
func (c *claim) Live(uint64) bool { return !c.done.Load() }

// Retain implements [Lender].
func (c *claim) Retain(uint64, int) (func() error, error) {
	d, err := c.another()
	if err != nil {
		return nil, err
	}
	return d.drop, nil
}

func (c *claim) another() (*claim, error) {
	for {
		n := c.s.refs.Load()
		if n == 0 || c.done.Load() {
			return nil, errReleased("retain")
		}
		if c.s.refs.CompareAndSwap(n, n+1) {
			return &claim{s: c.s}, nil
		}
	}
}

func (c *claim) drop() error {
	if c.done.Swap(true) || c.s.refs.Add(-1) > 0 {
		return nil
	}
	c.s.keep = nil
	if c.s.release == nil {
		return nil
	}
	return c.s.release()
}

func errReleased(op string) error {
	return fail(op, "", dlpack.ErrClosed, "the memory was given back")
}

// Live reports whether the memory may still be used. It is a snapshot: keep
// the owner alive for as long as you use what you got from the view.
func (v StridedMemoryView) Live() bool { return v.owner.live() }

func (o *Owner) live() bool {
	switch o.kind {
	case ownerLent, ownerShared:
		return o.lender != nil && o.lender.Live(o.gen)
	case ownerManaged:
		return o.managed.IsLive()
	}
	return true
}

// Retain returns a view of the same memory that has a claim of its own: the
// memory stays until the result is released, whatever happens to v. For lent
// memory this is how a view outlives the call (B151). The caller must
// release the result; for Go memory and [Unowned] views that does nothing.
//
// It fails with [dlpack.ErrClosed] if the memory was given back already, or
// with the lender's error.
func (v StridedMemoryView) Retain() (StridedMemoryView, error) {
	switch v.owner.kind {
	case ownerLent:
		if v.owner.lender == nil {
			return StridedMemoryView{}, errReleased("retain")
		}
		release, err := v.owner.lender.Retain(v.owner.gen, int(v.owner.slot))
		if err != nil {
			return StridedMemoryView{}, fail("retain", "", err, "argument "+strconv.Itoa(int(v.owner.slot)))
		}
		v.owner = OnRelease(nil, release)
	case ownerShared:
		c, err := v.owner.lender.(*claim).another()
		if err != nil {
			return StridedMemoryView{}, err
		}
		v.owner.lender = c
	case ownerManaged:
		m, err := v.owner.managed.Retain()
		if err != nil {
			return StridedMemoryView{}, fail("retain", "", err, "")
		}
		v.owner.managed = m
	}
	return v, nil
}

// Release gives up the claim of v and of every copy or part of v: all of them
// share it. Only the first call has an effect. Slices taken from the view
// must not be used any more. Releasing a view of lent memory, of Go memory or
// of an [Unowned] address does nothing.
//
// The error is that of the owner's release function.
func (v StridedMemoryView) Release() error {
	if driver.Checking() && v.place != nil && v.place.from.Valid() {
		v.gaveBack()
	}
	switch v.owner.kind {
	case ownerShared:
		return v.owner.lender.(*claim).drop()
	case ownerManaged:
		v.owner.managed.Release()
	}
	return nil
}
