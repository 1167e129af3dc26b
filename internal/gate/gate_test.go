package gate

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGate(t *testing.T) {
	var g Gate
	var did []int
	note := func(i int) func() { return func() { did = append(did, i) } }
	require.False(t, g.After(note(1)), "nobody is in")
	require.True(t, g.TryEnter())
	require.False(t, g.TryEnter())
	require.True(t, g.After(note(2)))
	require.True(t, g.After(note(3)))
	require.Empty(t, did)
	g.Leave()
	require.Equal(t, []int{2, 3}, did)
	g.Enter()
	g.Leave()
	require.Equal(t, []int{2, 3}, did, "done once")

	refs := 1
	ref, unref := func() { refs++ }, func() { refs-- }
	var s Set
	s.Add(&g)
	s.Add(&g)
	require.Len(t, s.gates, 1)
	g.Enter()
	s.Retire(ref, unref)
	require.Equal(t, 2, refs, "who is in has one")
	g.Leave()
	require.Equal(t, 1, refs)
	s.Add(&g)
	s.Retire(ref, unref)
	require.Equal(t, 1, refs, "nobody is in")
}

// TestForgottenGates checks that a set does not grow with gates that are gone.
func TestForgottenGates(t *testing.T) {
	var s Set
	kept := new(Gate)
	s.Add(kept)
	for range 20 {
		for range 100 {
			s.Add(new(Gate))
		}
		runtime.GC()
	}
	require.Less(t, len(s.gates), 600)
	_, ok := s.gates[kept.self]
	require.True(t, ok)
	runtime.KeepAlive(kept)
}

// TestOneAtATime has many goroutines wait for each other; each gets its turn.
func TestOneAtATime(t *testing.T) {
	var g Gate
	var inside atomic.Int32
	var all sync.WaitGroup
	n, asked := 0, 0
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 2000 {
				g.Enter()
				if inside.Add(1) != 1 {
					t.Error("two are in")
				}
				n++
				if n%7 == 0 && g.After(func() { all.Done() }) {
					all.Add(1)
					asked++
				}
				inside.Add(-1)
				g.Leave()
			}
		}()
	}
	all.Wait()
	require.Equal(t, 8*2000, n)
	require.Equal(t, 8*2000/7, asked)
	require.Zero(t, g.state.Load())
}

// thing is counted, and used behind gates.
type thing struct {
	closed atomic.Bool
	refs   atomic.Int32
	gone   atomic.Bool
	gates  Set
}

func newThing() *thing {
	x := new(thing)
	x.refs.Store(1)
	return x
}

func (x *thing) unref() {
	if x.refs.Add(-1) == 0 {
		x.gone.Store(true)
	}
}

func (x *thing) close() {
	x.closed.Store(true)
	x.gates.Retire(func() { x.refs.Add(1) }, x.unref)
	x.unref()
}

// TestCloseDuringUse closes what others use: nothing goes while somebody is in
// who saw it open, and all of it goes in the end.
func TestCloseDuringUse(t *testing.T) {
	const rounds = 300
	var gates [3]Gate
	for range rounds {
		x, y := newThing(), newThing()
		var all sync.WaitGroup
		for i := range 6 {
			g := &gates[i%len(gates)]
			all.Add(1)
			go func() {
				defer all.Done()
				for {
					if i < 3 {
						g.Enter()
					} else if !g.TryEnter() {
						if x.closed.Load() {
							return
						}
						runtime.Gosched()
						continue
					}
					x.gates.Add(g)
					y.gates.Add(g)
					open := !x.closed.Load() && !y.closed.Load()
					if open {
						runtime.Gosched()
						if x.gone.Load() || y.gone.Load() {
							t.Error("gone while it is used")
						}
					}
					g.Leave()
					if !open {
						return
					}
				}
			}()
		}
		runtime.Gosched()
		x.close()
		y.close()
		all.Wait()
		require.True(t, x.gone.Load() && y.gone.Load(), "%d and %d are left", x.refs.Load(), y.refs.Load())
	}
}

func BenchmarkGate(b *testing.B) {
	var g Gate
	for b.Loop() {
		g.Enter()
		g.Leave()
	}
}
