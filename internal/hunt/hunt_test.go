package hunt

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// world is a Hunter with two streams and one allocation of 1000 bytes at 1000.
type world struct {
	*Hunter
	a, b *Stream
}

func newWorld(c Config) *world {
	h := New(c)
	w := &world{Hunter: h, a: h.NewStream(StreamInfo{Name: "A", Group: 1}), b: h.NewStream(StreamInfo{Name: "B", Group: 1, Device: 1})}
	h.Allocate(nil, Range{1000, 1000}, "memory")
	return w
}

func (w *world) do(s *Stream, k Kind, at Range, after ...*Op) *Op {
	o := w.Submit(s, Desc{Kind: "copy", Site: Callers(1)}, after...)
	w.Touch(o, []Access{{Range: at, Kind: k}})
	return o
}

func (w *world) free(s *Stream) {
	w.Release(w.Submit(s, Desc{Kind: "free"}), Desc{}, Range{1000, 1000})
}

var all = Range{1000, 1000}

func TestRaces(t *testing.T) {
	for name, c := range map[string]struct {
		run  func(w *world)
		want int
	}{
		"write then read":   {func(w *world) { w.do(w.a, Write, all); w.do(w.b, Read, all) }, 1},
		"read then write":   {func(w *world) { w.do(w.a, Read, all); w.do(w.b, Write, all) }, 1},
		"write then write":  {func(w *world) { w.do(w.a, Write, all); w.do(w.b, Write, all) }, 1},
		"reads":             {func(w *world) { w.do(w.a, Read, all); w.do(w.b, Read, all) }, 0},
		"one stream":        {func(w *world) { w.do(w.a, Write, all); w.do(w.a, Write, all) }, 0},
		"an edge":           {func(w *world) { w.do(w.b, Read, all, w.do(w.a, Write, all)) }, 0},
		"an edge too early": {func(w *world) { o := w.do(w.a, Read, all); w.do(w.a, Write, all); w.do(w.b, Read, all, o) }, 1},
		"apart":             {func(w *world) { w.do(w.a, Write, Range{1000, 10}); w.do(w.b, Write, Range{1010, 10}) }, 0},
		"one byte":          {func(w *world) { w.do(w.a, Write, Range{1000, 11}); w.do(w.b, Write, Range{1010, 10}) }, 1},
		"elsewhere":         {func(w *world) { w.do(w.a, Write, Range{10, 11}); w.do(w.b, Write, Range{10, 11}) }, 0},
		"over the end":      {func(w *world) { w.do(w.a, Write, Range{990, 2000}); w.do(w.b, Write, Range{1999, 10}) }, 1},
		"the host waited":   {func(w *world) { w.Learn(w.do(w.a, Write, all)); w.do(w.b, Read, all) }, 0},
		"the host waited for less": {func(w *world) {
			o := w.do(w.a, Read, all)
			w.do(w.a, Write, all)
			w.Learn(o)
			w.do(w.b, Read, all)
		}, 1},
		"the host learns by way of another stream": {func(w *world) {
			o := w.do(w.a, Write, all)
			w.Learn(w.Submit(w.b, Desc{}, o))
			w.do(w.NewStream(StreamInfo{Name: "C"}), Read, all)
		}, 0},
		"free":            {func(w *world) { w.do(w.a, Read, all); w.free(w.b) }, 1},
		"free in order":   {func(w *world) { w.do(w.a, Read, all); w.free(w.a) }, 0},
		"use of freed":    {func(w *world) { w.free(w.a); w.do(w.b, Read, all) }, 1},
		"free by host":    {func(w *world) { w.do(w.a, Read, all); w.Release(nil, Desc{Kind: "free"}, all) }, 1},
		"free after wait": {func(w *world) { w.Learn(w.do(w.a, Read, all)); w.Release(nil, Desc{Kind: "free"}, all) }, 0},
		"host write":      {func(w *world) { w.do(w.a, Read, all); w.HostTouch(Desc{Kind: "host"}, Access{Range: all, Kind: Write}) }, 1},
		"host write before": {func(w *world) {
			w.HostTouch(Desc{Kind: "host"}, Access{Range: all, Kind: Write})
			w.do(w.a, Read, all)
		}, 0},
		"allocation in a stream": {func(w *world) {
			w.Allocate(w.Submit(w.a, Desc{Kind: "allocation"}), all, "pool memory")
			w.do(w.b, Write, all)
		}, 1},
		"reuse forgets": {func(w *world) {
			w.do(w.a, Write, all)
			w.Allocate(nil, all, "memory")
			w.do(w.b, Write, all)
		}, 0},
		"settled stream": {func(w *world) {
			o := w.do(w.a, Write, all)
			w.Retire(w.a)
			w.Learn(o)
			w.do(w.b, Write, all)
		}, 0},
		"retired, not settled": {func(w *world) { w.do(w.a, Write, all); w.Retire(w.a); w.do(w.b, Write, all) }, 1},
		"submitted before it was settled": {func(w *world) {
			p := w.Later(w.Submit(w.a, Desc{Kind: "kernel"}))
			o := w.Last(w.a)
			q := w.Later(w.Submit(w.b, Desc{Kind: "kernel"}))
			w.Retire(w.a)
			w.Learn(o)
			w.Done(q, []Access{{Range: all, Kind: Write}})
			w.Done(p, []Access{{Range: all, Kind: Write}})
		}, 1},
		"known late, in order": {func(w *world) {
			o := w.Submit(w.a, Desc{Kind: "kernel"})
			p := w.Later(o)
			w.do(w.b, Read, all, o)
			w.Done(p, []Access{{Range: all, Kind: Write}})
		}, 0},
		"hand-over":                     {func(w *world) { w.do(w.a, Hand, all); w.do(w.b, Read, all) }, 1},
		"hand-over with an edge":        {func(w *world) { w.do(w.b, Write, all, w.do(w.a, Hand, all)) }, 0},
		"hand-over to two who read":     {func(w *world) { w.do(w.b, Read, all, w.do(w.a, Hand, all)); w.do(w.a, Hand, all) }, 0},
		"hand-over of what was written": {func(w *world) { w.do(w.b, Write, all); w.do(w.a, Hand, all) }, 1},
		"write after one who reads": {func(w *world) {
			w.do(w.b, Read, all, w.do(w.a, Hand, all))
			w.do(w.a, Hand, all)
			w.do(w.a, Write, all)
		}, 1},
		"a word waited for": {func(w *world) {
			o := w.do(w.a, Write, all)
			_, l := w.Wait(w.b, Desc{})
			p := w.Later(w.Submit(w.b, Desc{Kind: "kernel"}))
			w.Over(l, false, o)
			w.Done(p, []Access{{Range: all, Kind: Read}})
			w.do(w.b, Read, all)
		}, 0},
		"a word that says nothing": {func(w *world) {
			w.do(w.a, Write, all)
			_, l := w.Wait(w.b, Desc{})
			w.Over(l, false)
			w.do(w.b, Read, all)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(Config{})
			c.run(w)
			require.True(t, w.Idle())
			require.Len(t, w.Races(), c.want, "%v", w.Races())
		})
	}
}

func TestGraphNodes(t *testing.T) {
	// 0 → 1, 0 → 2, 1 → 3
	b := NewBody(4, func(i int) []int { return [][]int{nil, {0}, {0}, {1}}[i] })
	inner := NewBody(2, func(int) []int { return nil })
	for name, c := range map[string]struct {
		x, y *Node
		want int
	}{
		"edge":           {&Node{Body: b, Index: 0}, &Node{Body: b, Index: 1}, 0},
		"path":           {&Node{Body: b, Index: 0}, &Node{Body: b, Index: 3}, 0},
		"branches":       {&Node{Body: b, Index: 1}, &Node{Body: b, Index: 2}, 1},
		"rounds":         {&Node{Body: inner, Index: 0, Round: 1, In: &Node{Body: b}}, &Node{Body: inner, Index: 1, Round: 2, In: &Node{Body: b}}, 0},
		"one round":      {&Node{Body: inner, Index: 0, Round: 1, In: &Node{Body: b}}, &Node{Body: inner, Index: 1, Round: 1, In: &Node{Body: b}}, 1},
		"inside, after":  {&Node{Body: inner, Index: 0, In: &Node{Body: b, Index: 1}}, &Node{Body: b, Index: 3}, 0},
		"inside, beside": {&Node{Body: inner, Index: 0, In: &Node{Body: b, Index: 1}}, &Node{Body: b, Index: 2}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(Config{})
			o := w.Submit(w.a, Desc{Kind: "graph launch"})
			w.Touch(o, []Access{{all, Write, c.x}, {all, Write, c.y}})
			require.Len(t, w.Races(), c.want)
		})
	}
}

// A report names everything that is needed to see and to mend the race.
func TestReport(t *testing.T) {
	w := newWorld(Config{})
	for range 3 {
		w.do(w.a, Write, Range{1000, 100})
	}
	w.do(w.b, Read, Range{1010, 20})
	r := w.Races()
	require.Len(t, r, 1)
	require.Equal(t, Range{1010, 20}, r[0].Bytes)
	text := r[0].String()
	for _, want := range []string{
		"write and read", "offset 10, 20 bytes of memory", "work 3 of A, device 0", "work 1 of B, device 1", "hunt_test.go",
		"make the B of device 1 wait, before the copy, for an event recorded in the A of device 0 after the copy",
	} {
		require.Contains(t, text, want)
	}
	require.NotEmpty(t, r[0].First.Site)
	mark := w.Mark()
	require.Empty(t, w.Since(mark))
	w.Forget(0)
	require.Empty(t, w.Races())
}

func TestTheSameRaceIsCounted(t *testing.T) {
	w := newWorld(Config{Races: 2})
	for range 5 {
		w.do(w.a, Write, all)
		w.do(w.b, Write, all)
	}
	r := w.Races()
	require.Len(t, r, 2, "write after write in both directions")
	require.Equal(t, 9, r[0].Count+r[1].Count)
	w.do(w.a, Read, all)
	require.EqualValues(t, 1, w.Stats().RacesDropped)
}

func TestBoundedMemory(t *testing.T) {
	w := newWorld(Config{Segments: 100})
	w.Allocate(nil, Range{1 << 20, 1 << 20}, "big")
	for i := range uint64(10_000) {
		w.do(w.a, Write, Range{1<<20 + i*8, 4})
	}
	s := w.Stats()
	require.LessOrEqual(t, s.Segments, uint64(100))
	require.Positive(t, s.Forgotten)
	w.do(w.b, Read, Range{1<<20 + 9_999*8, 1})
	require.Len(t, w.Races(), 1, "what is new is still known")
	w.Learn(w.Last(w.a), w.Last(w.b))
	before := w.Stats().Forgotten
	for i := range uint64(100) {
		o := w.do(w.a, Write, Range{1<<20 + i*8, 4})
		w.Learn(o)
	}
	require.Equal(t, before, w.Stats().Forgotten, "what the host has waited for goes first and is no loss")

	// Ranges that were split share what was read, and are pruned one by one.
	w = newWorld(Config{Segments: 8})
	w.do(w.a, Read, all)
	w.do(w.b, Read, all)
	for i := range uint64(60) {
		w.do(w.a, Read, Range{1000 + 16*i, 4})
		if i%7 == 0 {
			w.Learn(w.Last(w.a))
		}
	}
	require.LessOrEqual(t, w.Stats().Segments, uint64(8))
	require.Empty(t, w.Races())

	w = newWorld(Config{Pending: 4})
	p := w.Later(w.Submit(w.a, Desc{Kind: "kernel"}))
	for range 10 {
		w.do(w.b, Write, all)
	}
	require.Positive(t, w.Stats().Late)
	w.Done(p, []Access{{Range: all, Kind: Write}})
	require.Len(t, w.Races(), 1, "late, and seen")

	w = newWorld(Config{})
	var acc []Access
	for i := range uint64(maxRanges + 100) {
		acc = append(acc, Access{Range: Range{1 << 20 * (i + 1), 1}, Kind: Write})
	}
	w.Touch(w.Submit(w.a, Desc{}), acc)
	require.EqualValues(t, 100, w.Stats().Cut)
	for i := range uint64(2 * maxGone) {
		w.Allocate(nil, Range{1<<30 + i*16, 16}, "small")
		w.Release(nil, Desc{}, Range{1<<30 + i*16, 16})
	}
	require.Less(t, len(w.mem.sorted), 2*maxGone)
}

// The hunt agrees with the definition: two accesses race if they overlap, one writes, and there is
// no path of edges between them.
func TestAgreesWithTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type access struct {
			op   int
			kind Kind
			at   Range
		}
		h := New(Config{})
		if rapid.Bool().Draw(t, "forgetful") {
			h.spare = -1 << 20 // what can be dropped is, at every access
		}
		h.Allocate(nil, Range{0, 64}, "memory")
		type late struct {
			p   *Pending
			acc []Access
		}
		var pending []late // work that has not run, and holds up the turn of later work
		ran := func(i int) {
			h.Done(pending[i].p, pending[i].acc)
			pending = slices.Delete(pending, i, i+1)
		}
		streams := make([]*Stream, rapid.IntRange(1, 4).Draw(t, "streams"))
		for i := range streams {
			streams[i] = h.NewStream(StreamInfo{Name: fmt.Sprint(i)})
		}
		var ops []*Op
		var known []bool // to the host
		var reach [][]bool
		var accs []access
		last := make([]int, len(streams))
		for i := range last {
			last[i] = -1
		}
		var want int
		add := func(r []bool, o int) {
			r[o] = true
			for i, v := range reach[o] {
				r[i] = r[i] || v
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(ops) > 0 && rapid.IntRange(0, 5).Draw(t, "learn") == 0 {
				o := rapid.IntRange(0, len(ops)-1).Draw(t, "known")
				h.Learn(ops[o])
				add(known, o)
				continue
			}
			if len(pending) > 0 && rapid.IntRange(0, 3).Draw(t, "runs") == 0 {
				ran(rapid.IntRange(0, len(pending)-1).Draw(t, "which"))
			}
			s := rapid.IntRange(0, len(streams)-1).Draw(t, "stream")
			me := len(ops)
			r := make([]bool, me)
			copy(r, known)
			var after []*Op
			if last[s] >= 0 {
				add(r, last[s])
			}
			for i := range me {
				if rapid.IntRange(0, 9).Draw(t, "edge") == 0 {
					after = append(after, ops[i])
					add(r, i)
				}
			}
			o := h.Submit(streams[s], Desc{Kind: "copy", Name: fmt.Sprint(me)}, after...)
			ops, reach, last[s] = append(ops, o), append(reach, r), me
			known = append(known, false)
			for i := range reach {
				for len(reach[i]) <= me {
					reach[i] = append(reach[i], false)
				}
			}
			lo := rapid.Uint64Range(0, 60).Draw(t, "lo")
			a := access{me, Kind(rapid.IntRange(0, 1).Draw(t, "kind")), Range{lo, rapid.Uint64Range(1, 64-lo).Draw(t, "n")}}
			for _, b := range accs {
				if !r[b.op] && (a.kind == Write || b.kind == Write) && a.at.Addr < b.at.Addr+b.at.Len && b.at.Addr < a.at.Addr+a.at.Len {
					want++
				}
			}
			accs = append(accs, a)
			acc := []Access{{Range: a.at, Kind: a.kind}}
			if rapid.IntRange(0, 2).Draw(t, "late") > 0 {
				h.Touch(o, acc)
			} else {
				pending = append(pending, late{h.Later(o), acc})
			}
		}
		for len(pending) > 0 {
			ran(0)
		}
		got := len(h.Races())
		require.Equal(t, want > 0, got > 0, "%d pairs race, %d reported", want, got)
		require.LessOrEqual(t, got, want, "never more than there are")
	})
}

func BenchmarkTouch(b *testing.B) {
	w := newWorld(Config{})
	w.Allocate(nil, Range{1 << 20, 1 << 20}, "big")
	r := rand.New(rand.NewPCG(1, 2))
	prev := w.Submit(w.a, Desc{})
	for b.Loop() {
		s := w.a
		if r.IntN(2) == 0 {
			s = w.b
		}
		o := w.Submit(s, Desc{Kind: "copy"}, prev)
		w.Touch(o, []Access{{Range: Range{1<<20 + r.Uint64N(1<<19), 4096}, Kind: Write}})
		prev = o
	}
}
