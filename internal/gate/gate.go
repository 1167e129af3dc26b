// Package gate lets objects close while others use them, where a count on each
// object would be too slow.
//
// A kernel launch uses a kernel and a stream, which any goroutine may close
// meanwhile, and memory to pack into. Counting the uses of each takes two locked
// instructions a piece. A [Gate] takes two for them all: who is in it may use
// whatever was open when they came in, and whoever closes something leaves them
// a reference on it, to be given back when they leave.
package gate

import (
	"sync"
	"sync/atomic"
	"weak"
)

const (
	in   = 1 << iota // somebody is in
	asks             // there is something to do for who leaves
)

// Gate lets one user at a time in. The zero value is an empty one. It must not
// be copied.
type Gate struct {
	state atomic.Uint32 // 0, in or in | asks

	mu   sync.Mutex
	todo []func()
	heir chan struct{} // who comes in next, or nil
	self weak.Pointer[Gate]
}

// TryEnter enters if nobody is in.
//
// Whether an object that is not counted may be used is to be asked after that:
// whoever closes it says so first, and then looks who is in.
func (g *Gate) TryEnter() bool { return g.state.CompareAndSwap(0, in) }

// Enter waits until nobody is in and enters.
func (g *Gate) Enter() {
	if !g.TryEnter() {
		g.queue()
	}
}

// Leave leaves.
func (g *Gate) Leave() {
	if !g.state.CompareAndSwap(in, 0) {
		g.leave()
	}
}

// leave does what others asked for.
func (g *Gate) leave() {
	g.mu.Lock()
	todo, heir := g.todo, g.heir
	g.todo, g.heir = nil, nil
	if heir != nil {
		g.state.Store(in)
		close(heir)
	} else {
		g.state.Store(0)
	}
	g.mu.Unlock()
	for _, f := range todo {
		f()
	}
}

// After has f called when who is in leaves, on their goroutine. It is false if
// nobody is in: then f is not called.
func (g *Gate) After(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ask(func() { g.todo = append(g.todo, f) })
}

// ask calls f if somebody is in, who will see what it left. mu is held, which
// who leaves takes once something is asked.
func (g *Gate) ask(f func()) bool {
	for {
		switch state := g.state.Load(); state {
		case 0:
			return false
		case in | asks:
			f()
			return true
		default:
			if g.state.CompareAndSwap(state, in|asks) {
				f()
				return true
			}
		}
	}
}

// queue waits to be let in. Who is in may come back before a goroutine that
// waited has woken up, which is quickest for all; one that missed its turn so
// is let in by who leaves next.
func (g *Gate) queue() {
	for turn := 0; ; turn++ {
		ready := make(chan struct{})
		g.mu.Lock()
		heir := turn > 0 && g.heir == nil
		waits := g.ask(func() {
			if heir {
				g.heir = ready
			} else {
				g.todo = append(g.todo, func() { close(ready) })
			}
		})
		g.mu.Unlock()
		if waits {
			<-ready
			if heir {
				return
			}
		}
		if g.TryEnter() {
			return
		}
	}
}

// Set is the gates that an object is used in. It does not keep them alive. The
// zero value is empty.
type Set struct {
	mu    sync.Mutex
	gates map[weak.Pointer[Gate]]struct{}
	prune int // look for gates that are gone when there are so many
}

// Add adds a gate, once. The caller is in it, or nobody else has it yet.
func (s *Set) Add(g *Gate) {
	if g.self == (weak.Pointer[Gate]{}) {
		g.self = weak.Make(g)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.gates[g.self]; ok {
		return
	}
	if s.gates == nil {
		s.gates = make(map[weak.Pointer[Gate]]struct{})
	}
	s.gates[g.self] = struct{}{}
	if len(s.gates) > max(s.prune, 64) {
		for w := range s.gates {
			if w.Value() == nil {
				delete(s.gates, w)
			}
		}
		s.prune = 2 * len(s.gates)
	}
}

// Retire leaves a reference with everyone who is in a gate of the set, as
// [Gate.Retire] does. The object is closed: nobody begins to use it any more.
func (s *Set) Retire(ref, unref func()) {
	s.mu.Lock()
	gates := s.gates
	s.gates = nil
	s.mu.Unlock()
	for w := range gates {
		if g := w.Value(); g != nil {
			g.Retire(ref, unref)
		}
	}
}

// Retire leaves a reference with who is in: ref takes it, unref gives it back
// when they leave. If nobody is in nothing stays.
func (g *Gate) Retire(ref, unref func()) {
	ref()
	if !g.After(unref) {
		unref()
	}
}
