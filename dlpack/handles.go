package dlpack

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// handle is what a Managed points to. When no Managed does so any more, its
// cleanup finds the core, which does not point back while it is in use.
type handle struct {
	c    *core
	next *handle // of a list of idle ones
}

func newHandle(c *core) *handle {
	h := &handle{c: c}
	runtime.AddCleanup(h, forgotten, c)
	return h
}

// Idle handles lie on shelves near those who will use them: two goroutines
// that work at once nearly always have two shelves. A shelf offers one handle
// for the goroutine that has a single tensor at a time, whose core stays there
// when it is in use: taking it is one atomic operation, and so is giving it
// back. Behind that is a list, for who holds more or gives back many at once.
// Nobody waits: the lock of a list is only ever tried, and who does not get it
// or finds the list empty or full goes to spare. (A sync.Pool alone takes
// twice as long, and five times in a batch.)
var shelves [64]shelf

type shelf struct {
	core   atomic.Pointer[core] // nil until somebody has used the shelf
	locked atomic.Uint32        // 1: somebody is at the list
	n      int32                // handles in the list
	top    *handle
	_      [40]byte // a cache line each
}

// maxShelf is how many handles a list keeps, about a batch of ReleaseAll.
const maxShelf = 64

var spare = sync.Pool{New: func() any { return newHandle(new(core)) }}

// near returns the shelf of the caller. A goroutine is known by its stack; that
// it moves, or that two have the same shelf, only takes longer.
func near() *shelf {
	var here byte
	// SAFETY: the address is a number to choose by, nothing more.
	block := uint64(uintptr(unsafe.Pointer(&here))) >> 13 // stacks have a few KiB
	return &shelves[block*0x9e3779b97f4a7c15>>58]
}

func (s *shelf) lock() bool { return s.locked.CompareAndSwap(0, 1) }

func (s *shelf) unlock() { s.locked.Store(0) }

// more returns an idle handle when the shelf has none.
func (s *shelf) more() *handle {
	if s.core.Load() == nil {
		h := newHandle(&core{resident: true})
		if s.core.CompareAndSwap(nil, h.c) {
			return h
		}
	}
	return spare.Get().(*handle)
}

// rest makes a resident core idle, whose generation has just been raised to
// gen, and which h belongs to.
func (c *core) rest(h *handle, gen uint64) {
	c.home = h
	c.word.Store(gen<<genShift | idleBit)
}

// giveBack does the same for n handles of other cores, from first to last.
func giveBack(first, last *handle, n int32) {
	if n == 0 {
		return
	}
	if s := near(); s.lock() {
		room := s.n+n <= maxShelf
		if room {
			last.next, s.top = s.top, first
			s.n += n
		}
		s.unlock()
		if room {
			return
		}
	}
	for h := first; h != nil; {
		next := h.next
		h.next = nil
		spare.Put(h)
		h = next
	}
}
