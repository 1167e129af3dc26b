package launch_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/internal/testlib"
	"github.com/go-handoff/handoff/launch"
	"github.com/go-handoff/handoff/pathfinder"
)

// nothingHeld checks that graphs of a test gave everything back.
func nothingHeld(t testing.TB) {
	t.Helper()
	before := launch.Stats()
	t.Cleanup(func() {
		require.NoError(t, device.Flush(context.Background()))
		now := launch.Stats()
		require.Equal(t, []int64{before.Graphs, before.GraphExecs, before.Held, before.Collected}, []int64{now.Graphs, now.GraphExecs, now.Held, now.Collected})
	})
}

func newGraph(t testing.TB, s *device.Stream) *launch.Graph {
	t.Helper()
	g, err := launch.NewGraph(s.Context())
	require.NoError(t, err)
	closeLater(t, g)
	return g
}

func instantiate(t testing.TB, g *launch.Graph) *launch.GraphExec {
	t.Helper()
	x, err := g.Instantiate(nil)
	require.NoError(t, err)
	closeLater(t, x)
	return x
}

// must returns a node that was made without an error.
func must(t testing.TB) func(launch.Node, error) launch.Node {
	return func(n launch.Node, err error) launch.Node {
		t.Helper()
		require.NoError(t, err)
		return n
	}
}

func TestGraphOfEveryNode(t *testing.T) {
	nothingHeld(t)
	k, s := kernel(t, "add"), newStream(t, 0)
	a, b := upload[int32](t, s, 1, 2), upload[int32](t, s, 0, 0)
	g, do := newGraph(t, s), must(t)
	var calls atomic.Int32
	event, err := s.Device().NewEvent(nil)
	require.NoError(t, err)
	closeLater(t, event)

	two := launch.Config{Grid: launch.D1(1), Block: launch.D1(2)}
	fill := do(g.Fill(a, 0, 10, 4, 1))
	add := do(g.Launch(two, k, []any{a, int32(5), int64(2)}, fill))
	cpy := do(g.Copy(b, 0, a, 0, 8, add))
	host := do(g.Host(func() { calls.Add(1) }, cpy))
	record := do(g.RecordEvent(event, cpy))
	wait := do(g.WaitEvent(event))
	join := do(g.Empty(host, record, wait))
	child := newGraph(t, s)
	do(child.Launch(two, k, []any{b, int32(100), int64(2)}))
	sub := do(g.Child(child, join))
	alloc, ptr, err := g.Alloc(64, nil, sub)
	require.NoError(t, err)
	require.NotZero(t, ptr)
	use := do(g.Launch(one, k, []any{ptr, int32(1), int64(1)}, alloc))
	free := do(g.Free(ptr, use))
	empty := do(g.Launch(launch.Config{Grid: launch.Cover(0, 1), Block: launch.D1(1)}, k, []any{a, int32(1), int64(0)}, free))

	for n, want := range map[launch.Node]launch.NodeKind{
		fill: launch.KindFill, add: launch.KindKernel, cpy: launch.KindCopy, host: launch.KindHost, record: launch.KindRecordEvent,
		wait: launch.KindWaitEvent, join: launch.KindEmpty, sub: launch.KindChild, alloc: launch.KindAlloc, free: launch.KindFree, empty: launch.KindEmpty,
	} {
		kind, err := n.Kind()
		require.NoError(t, err)
		require.Equal(t, want, kind)
		require.NotEqual(t, "no kind", kind.String())
	}
	nodes, err := g.Nodes()
	require.NoError(t, err)
	require.Len(t, nodes, 12)
	roots, err := g.Roots()
	require.NoError(t, err)
	require.ElementsMatch(t, []launch.Node{fill, wait}, roots)
	deps, err := join.Dependencies()
	require.NoError(t, err)
	require.ElementsMatch(t, []launch.Node{host, record, wait}, deps)
	after, err := cpy.Dependents()
	require.NoError(t, err)
	require.ElementsMatch(t, []launch.Node{host, record}, after)
	edges, err := g.Edges()
	require.NoError(t, err)
	n := 0
	for from, to := range edges {
		require.NotEqual(t, from, to)
		n++
	}
	require.Equal(t, 12, n)
	dot, err := g.DOT(driver.GraphDebugDotFlagsVerbose)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(strings.TrimSpace(dot), "digraph"), dot)

	x := instantiate(t, g)
	require.NoError(t, x.Upload(s))
	for i := range int32(2) {
		require.NoError(t, x.Launch(s))
		require.Equal(t, []int32{15, 7 + 5*i}, download[int32](t, s, a))
		require.Equal(t, int32(115), download[int32](t, s, b)[0])
	}
	require.Equal(t, int32(2), calls.Load())
}

func TestGraphKeepsWhatItUses(t *testing.T) { // B147, B151, B357: children keep what they need, in any order of closing
	testdriver.HoldUp(t)
	nothingHeld(t)
	s := newStream(t, 0)
	code := testCode(t)
	k, err := code.Kernel("add")
	require.NoError(t, err)
	out := upload[int32](t, s, 0)
	tmp, err := s.Device().Allocate(4, s)
	require.NoError(t, err)
	require.NoError(t, tmp.Fill32(1, s))
	var calls, released atomic.Int32
	g, do := newGraph(t, s), must(t)
	n := do(g.Launch(one, k, []any{tmp, int32(2), int64(1)}))
	n = do(g.Copy(out, 0, tmp, 0, 4, n))
	do(g.Host(func() { calls.Add(1) }, n))
	require.NoError(t, g.Keep(func() { released.Add(1) }))
	x, err := g.Instantiate(nil)
	require.NoError(t, err)

	require.NoError(t, tmp.Close())
	require.NoError(t, k.Close())
	require.NoError(t, code.Close())
	require.NoError(t, g.Close())
	require.NoError(t, g.Close())
	_, err = g.Nodes()
	require.ErrorIs(t, err, launch.ErrClosed)
	_, err = g.Instantiate(nil)
	require.ErrorIs(t, err, launch.ErrClosed)

	release := testdriver.Block(t, s.Device().Driver(), s.Context().Handle(), s.Handle())
	require.NoError(t, x.Launch(s))
	require.NoError(t, x.Close(), "the launch still waits")
	require.NoError(t, x.Close())
	require.ErrorIs(t, x.Launch(s), launch.ErrClosed)
	require.Zero(t, released.Load())
	release()
	require.Equal(t, []int32{3}, download[int32](t, s, out))
	require.NoError(t, device.Flush(t.Context()))
	require.Equal(t, int32(1), calls.Load())
	require.Equal(t, int32(1), released.Load())
}

func TestGraphExecKeepsItsStream(t *testing.T) {
	testdriver.HoldUp(t)
	nothingHeld(t)
	s := newStream(t, 0)
	g := newGraph(t, s)
	must(t)(g.Empty())
	x := instantiate(t, g)
	other, err := s.Device().NewStream(nil)
	require.NoError(t, err)
	release := testdriver.Block(t, s.Device().Driver(), other.Context().Handle(), other.Handle())
	require.NoError(t, x.Launch(other))
	require.NoError(t, other.Close())
	require.ErrorIs(t, x.Launch(other), launch.ErrClosed)
	require.NoError(t, x.Close())
	release()
}

func TestGraphUpdate(t *testing.T) {
	nothingHeld(t)
	k, s := kernel(t, "add"), newStream(t, 0)
	a, b := upload[int32](t, s, 0, 0), upload[int32](t, s, 0, 0)
	do := must(t)
	two := launch.Config{Grid: launch.D1(1), Block: launch.D1(2)}
	build := func(v int32) (*launch.Graph, []launch.Node) {
		g := newGraph(t, s)
		fill := do(g.Fill(a, 0, uint32(v), 4, 2))
		add := do(g.Launch(two, k, []any{a, v, int64(2)}, fill))
		cpy := do(g.Copy(b, 0, a, 0, 8, add))
		return g, []launch.Node{fill, add, cpy}
	}
	g, n := build(1)
	x := instantiate(t, g)
	run := func() []int32 {
		require.NoError(t, x.Launch(s))
		return download[int32](t, s, b)
	}
	require.Equal(t, []int32{2, 2}, run())
	t.Run("whole", func(t *testing.T) {
		other, _ := build(10)
		require.NoError(t, x.Update(other))
		require.NoError(t, other.Close())
		require.Equal(t, []int32{20, 20}, run())
		bigger, _ := build(1)
		do(bigger.Empty())
		err := x.Update(bigger)
		require.ErrorIs(t, err, launch.ErrUpdate)
		require.ErrorContains(t, err, "other nodes or edges")
		require.Equal(t, []int32{20, 20}, run(), "it is as it was")
		require.ErrorIs(t, x.Update(nil), launch.ErrInvalidValue)
	})
	t.Run("node by node", func(t *testing.T) {
		require.NoError(t, x.SetFill(n[0], a, 0, 100, 4, 2))
		require.NoError(t, x.SetLaunch(n[1], two, k, a, int32(-1), int64(1)))
		require.Equal(t, []int32{99, 100}, run())
		c := upload[int32](t, s, 7, 8)
		require.NoError(t, x.SetCopy(n[2], b, 0, c, 0, 8))
		require.Equal(t, []int32{7, 8}, run())
		argError(t, x.SetLaunch(n[1], two, k, a, 1, int64(1)), 1)
		require.ErrorIs(t, x.SetLaunch(n[1], launch.Config{Block: launch.D1(1)}, k, a, int32(1), int64(1)), launch.ErrInvalidValue)
		require.ErrorIs(t, x.SetLaunch(n[0], two, k, a, int32(1), int64(1)), launch.ErrUpdate, "not a kernel node")
		require.ErrorIs(t, x.SetCopy(n[2], b, 0, c, 4, 8), launch.ErrInvalidValue)
	})
	t.Run("switched off", func(t *testing.T) {
		require.NoError(t, x.SetEnabled(n[2], false))
		on, err := x.Enabled(n[2])
		require.NoError(t, err)
		require.False(t, on)
		require.NoError(t, b.Fill32(5, s))
		require.Equal(t, []int32{5, 5}, run())
		require.NoError(t, x.SetEnabled(n[2], true))
		require.Equal(t, []int32{7, 8}, run())
	})
}

// TestNodeParams reads what nodes do, and changes it in the graph.
func TestNodeParams(t *testing.T) {
	nothingHeld(t)
	k, s := kernel(t, "add"), newStream(t, 0)
	a, b := upload[int32](t, s, 0, 0), upload[int32](t, s, 0, 0)
	do := must(t)
	e1, err := s.Device().NewEvent(nil)
	require.NoError(t, err)
	closeLater(t, e1)
	e2, err := s.Device().NewEvent(nil)
	require.NoError(t, err)
	closeLater(t, e2)
	two := launch.Config{Grid: launch.D1(1), Block: launch.D1(2), SharedMem: 64}
	var first, second atomic.Int32
	g, child := newGraph(t, s), newGraph(t, s)
	do(child.Empty())
	fill := do(g.Fill(a, 4, 3, 4, 1))
	add := do(g.Launch(two, k, []any{a, int32(1), int64(2)}, fill))
	cpy := do(g.Copy(b, 0, a, 0, 8, add))
	host := do(g.Host(func() { first.Add(1) }, cpy))
	record := do(g.RecordEvent(e1, host))
	wait := do(g.WaitEvent(e1, record))
	inner := do(g.Child(child, wait))
	memory := newGraph(t, s) // can be instantiated once only
	alloc, ptr, err := memory.Alloc(4096, nil)
	require.NoError(t, err)
	free := do(memory.Free(ptr, alloc))

	params := func(n launch.Node) any {
		p, err := n.Params()
		require.NoError(t, err)
		return p
	}
	f := params(fill).(driver.MemsetNodeParams)
	require.Equal(t, []any{a.Ptr() + 4, uint32(3), uint32(4), uintptr(1)}, []any{f.Dst, f.Value, f.ElementSize, f.Width})
	kn := params(add).(driver.KernelNodeParams)
	require.Equal(t, []uint32{1, 1, 1, 2, 1, 1, 64}, []uint32{kn.GridX, kn.GridY, kn.GridZ, kn.BlockX, kn.BlockY, kn.BlockZ, kn.SharedBytes})
	c := params(cpy).(driver.Memcpy3D)
	require.Equal(t, []any{b.Ptr(), a.Ptr(), uintptr(8)}, []any{c.DstDevice, c.SrcDevice, c.WidthBytes})
	require.NotZero(t, params(host).(driver.HostNodeParams).Fn)
	require.Equal(t, e1.Handle(), params(record))
	require.Equal(t, e1.Handle(), params(wait))
	require.Equal(t, uintptr(4096), params(alloc).(driver.MemAllocNodeParams).Bytes)
	require.Equal(t, ptr, params(free))
	copied := params(inner).(*launch.Graph)
	nodes, err := copied.Nodes()
	require.NoError(t, err)
	require.Len(t, nodes, 1)
	require.Nil(t, params(nodes[0]), "an empty node has none")
	require.NoError(t, copied.Close(), "it goes with its graph")
	_, err = copied.Instantiate(nil)
	require.ErrorIs(t, err, launch.ErrInvalidValue)

	before := instantiate(t, g)
	require.NoError(t, fill.SetFill(a, 0, 10, 4, 2))
	require.NoError(t, add.SetLaunch(two, k, a, int32(5), int64(1)))
	require.NoError(t, cpy.SetCopy(b, 4, a, 0, 4))
	require.NoError(t, host.SetHost(func() { second.Add(1) }))
	require.NoError(t, record.SetEvent(e2))
	require.NoError(t, wait.SetEvent(e2))
	require.Equal(t, e2.Handle(), params(wait))
	require.NoError(t, before.Launch(s), "what was instantiated before is as it was")
	require.Equal(t, []int32{1, 4}, download[int32](t, s, b))
	after := instantiate(t, g)
	require.NoError(t, after.Launch(s))
	require.Equal(t, []int32{15, 10}, download[int32](t, s, a))
	require.Equal(t, []int32{1, 15}, download[int32](t, s, b))
	require.Equal(t, []int32{1, 1}, []int32{first.Load(), second.Load()})

	argError(t, add.SetLaunch(two, k, a, 5, int64(1)), 1)
	require.ErrorIs(t, add.SetLaunch(launch.Config{Block: launch.D1(1)}, k, a, int32(5), int64(1)), launch.ErrInvalidValue, "an empty grid")
	require.Error(t, fill.SetLaunch(two, k, a, int32(5), int64(1)), "no kernel node")
	require.ErrorIs(t, cpy.SetCopy(b, 4, a, 4, 8), launch.ErrInvalidValue)
	require.ErrorIs(t, fill.SetFill(a, 0, 256, 1, 1), launch.ErrInvalidValue)
	require.ErrorIs(t, host.SetHost(nil), launch.ErrInvalidValue)
	require.ErrorIs(t, host.SetEvent(e1), launch.ErrInvalidValue)
	var none launch.Node
	_, err = none.Params()
	for _, err := range []error{err, none.SetLaunch(two, k), none.SetCopy(b, 0, a, 0, 4), none.SetFill(a, 0, 0, 4, 1), none.SetHost(func() {}), none.SetEvent(e1)} {
		require.ErrorIs(t, err, launch.ErrInvalidValue)
	}
	require.NoError(t, g.Close())
	_, err = fill.Params()
	require.ErrorIs(t, err, launch.ErrClosed)
	for _, err := range []error{
		fill.SetFill(a, 0, 10, 4, 2), add.SetLaunch(two, k, a, int32(5), int64(1)), cpy.SetCopy(b, 0, a, 0, 4), host.SetHost(func() {}), wait.SetEvent(e1),
		after.SetFill(fill, a, 0, 10, 4, 2), after.SetLaunch(add, two, k, a, int32(5), int64(1)), after.SetCopy(cpy, b, 0, a, 0, 4),
		after.SetHost(host, func() {}), after.SetEvent(wait, e1), after.SetChild(inner, child), after.SetEnabled(add, false),
	} {
		require.ErrorIs(t, err, launch.ErrClosed, "the driver sees no node of a graph that is gone")
	}
	require.NoError(t, after.Launch(s))
	require.NoError(t, s.Synchronize(t.Context()))
}

func TestGraphUpdateHostChildEvent(t *testing.T) {
	nothingHeld(t)
	k, s := kernel(t, "add"), newStream(t, 0)
	a := upload[int32](t, s, 0)
	do := must(t)
	childOf := func(v int32) *launch.Graph {
		c := newGraph(t, s)
		do(c.Launch(one, k, []any{a, v, int64(1)}))
		return c
	}
	e1, err := s.Device().NewEvent(nil)
	require.NoError(t, err)
	closeLater(t, e1)
	e2, err := s.Device().NewEvent(nil)
	require.NoError(t, err)
	closeLater(t, e2)
	var first, second atomic.Int32
	g := newGraph(t, s)
	child := do(g.Child(childOf(1)))
	host := do(g.Host(func() { first.Add(1) }, child))
	record := do(g.RecordEvent(e1, host))
	x := instantiate(t, g)
	require.NoError(t, x.Launch(s))
	require.NoError(t, x.SetChild(child, childOf(10)))
	require.NoError(t, x.SetHost(host, func() { second.Add(1) }))
	require.NoError(t, x.SetEvent(record, e2))
	require.ErrorIs(t, x.SetEvent(host, e2), launch.ErrInvalidValue)
	require.ErrorIs(t, x.SetChild(child, g), launch.ErrInvalidValue, "the graph itself")
	require.ErrorIs(t, x.SetChild(child, nil), launch.ErrInvalidValue)
	require.ErrorIs(t, x.SetChild(child, new(launch.Graph)), launch.ErrInvalidValue, "of no function of the package")
	require.ErrorIs(t, x.Update(new(launch.Graph)), launch.ErrInvalidValue)
	_, err = g.Child(new(launch.Graph))
	require.ErrorIs(t, err, launch.ErrInvalidValue)
	require.ErrorIs(t, x.SetChild(launch.Node{}, g), launch.ErrInvalidValue)
	require.NoError(t, x.Launch(s))
	require.Equal(t, []int32{11}, download[int32](t, s, a))
	require.Equal(t, int32(1), first.Load())
	require.Equal(t, int32(1), second.Load())
}

func TestGraphEdges(t *testing.T) {
	nothingHeld(t)
	s := newStream(t, 0)
	g, other, do := newGraph(t, s), newGraph(t, s), must(t)
	a, b := do(g.Empty()), do(g.Empty())
	foreign := do(other.Empty())
	_, err := g.Empty(foreign)
	require.ErrorIs(t, err, launch.ErrInvalidValue)
	_, err = g.Empty(launch.Node{})
	require.ErrorIs(t, err, launch.ErrInvalidValue)
	require.ErrorIs(t, launch.Node{}.After(a), launch.ErrInvalidValue)
	require.NoError(t, b.After(a))
	deps, err := b.Dependencies()
	require.NoError(t, err)
	require.Equal(t, []launch.Node{a}, deps)
	require.NoError(t, b.NotAfter(a))
	deps, err = b.Dependencies()
	require.NoError(t, err)
	require.Empty(t, deps)

	clone, err := g.Clone()
	require.NoError(t, err)
	closeLater(t, clone)
	a2, err := clone.Find(a)
	require.NoError(t, err)
	require.Same(t, clone, a2.Graph())
	require.NotEqual(t, a.Handle(), a2.Handle())
	require.NoError(t, b.Remove())
	nodes, err := g.Nodes()
	require.NoError(t, err)
	require.Equal(t, []launch.Node{a}, nodes)
	nodes, err = clone.Nodes()
	require.NoError(t, err)
	require.Len(t, nodes, 2)
	_, err = g.Child(g)
	require.ErrorIs(t, err, launch.ErrInvalidValue)
}

func TestGraphsInACircleKeepNothing(t *testing.T) {
	nothingHeld(t)
	s := newStream(t, 0)
	g := newGraph(t, s)
	must(t)(g.Host(func() {}))
	clone, err := g.Clone()
	require.NoError(t, err)
	closeLater(t, clone)
	must(t)(g.Child(clone))
	must(t)(clone.Child(g))
	x := instantiate(t, clone)
	require.NoError(t, x.Launch(s))
	require.NoError(t, s.Synchronize(t.Context()))
}

func TestGraphBadNodes(t *testing.T) {
	nothingHeld(t)
	k, s := kernel(t, "add"), newStream(t, 0)
	g := newGraph(t, s)
	b := upload[int32](t, s, 0)
	gone := upload[int32](t, s, 0)
	require.NoError(t, gone.Close())
	fails := func(want error, n launch.Node, err error) {
		t.Helper()
		require.ErrorIs(t, err, want)
		require.Zero(t, n)
	}
	bad := launch.ErrInvalidValue
	n, err := g.Launch(one, nil, nil)
	fails(bad, n, err)
	n, err = g.Launch(one, k, []any{b, 1, int64(1)})
	fails(launch.ErrArgument, n, err)
	n, err = g.Launch(one, k, []any{gone, int32(1), int64(1)})
	fails(launch.ErrClosed, n, err)
	n, err = g.Launch(launch.Config{Grid: launch.D1(1)}, k, []any{b, int32(1), int64(1)})
	fails(launch.ErrConfig, n, err)
	n, err = g.Copy(b, 0, b, 0, 8)
	fails(bad, n, err)
	n, err = g.Copy(gone, 0, b, 0, 4)
	fails(launch.ErrClosed, n, err)
	n, err = g.Fill(b, 0, 1, 3, 1)
	fails(bad, n, err)
	n, err = g.Fill(b, 2, 1, 4, 0)
	fails(bad, n, err)
	n, err = g.Fill(b, 0, 256, 1, 1)
	fails(bad, n, err)
	n, err = g.Fill(b, 0, 1, 1, 1<<62)
	fails(bad, n, err)
	n, err = g.Host(nil)
	fails(bad, n, err)
	n, err = g.RecordEvent(nil)
	fails(bad, n, err)
	n, _, err = g.Alloc(0, nil)
	fails(bad, n, err)
	n, err = g.Child(nil)
	fails(bad, n, err)
	n, _, err = g.If(launch.Condition{})
	fails(bad, n, err)
	nodes, err := g.Nodes()
	require.NoError(t, err)
	require.Empty(t, nodes)
	_, err = launch.NewGraph(nil)
	require.ErrorIs(t, err, bad)
	_, err = launch.ImportGraph(0, s.Context())
	require.ErrorIs(t, err, bad)
	_, err = g.Instantiate(&launch.InstantiateOptions{AutoFreeOnLaunch: true, DeviceLaunch: true})
	require.ErrorIs(t, err, bad)
	_, _, err = g.Alloc(4, []*device.Device{nil})
	require.ErrorIs(t, err, launch.ErrInvalidValue)
	_, err = launch.Record(s, nil)
	require.ErrorIs(t, err, launch.ErrInvalidValue)
}

func TestGraphCopiesBetweenDevices(t *testing.T) {
	nothingHeld(t)
	s0, s1 := newStream(t, 0), newStream(t, 1)
	// A copy node reaches both ends from one context: not the memory of pools,
	// which has rights of its own.
	for _, s := range [][2]*device.Stream{{s0, s1}, {s1, s0}} {
		if err := s[0].Device().EnableAccess(s[1].Device()); errors.Is(err, device.ErrPeerAccess) {
			t.Skip("needs two devices that reach each other's memory")
		} else {
			require.NoError(t, err)
		}
	}
	plain := func(s *device.Stream, x ...int32) *device.Buffer {
		b, err := device.Allocate(s.Device().PlainMemory(), int64(4*len(x)), s)
		require.NoError(t, err)
		closeLater(t, b)
		require.NoError(t, b.CopyFromHostSync(t.Context(), bytesOf(x), s))
		return b
	}
	a, b := plain(s0, 1, 2, 3), plain(s1, 0, 0, 0)
	require.NoError(t, s1.Synchronize(t.Context()))
	g := newGraph(t, s0)
	must(t)(g.Copy(b, 4, a, 0, 8))
	x := instantiate(t, g)
	require.NoError(t, x.Launch(s0))
	require.NoError(t, s0.Synchronize(t.Context()))
	require.Equal(t, []int32{0, 1, 2}, download[int32](t, s1, b))
}

// TestGraphOnTwoDevices builds a graph with kernels on two devices, and
// captures one.
func TestGraphOnTwoDevices(t *testing.T) {
	nothingHeld(t)
	k, s0, s1 := kernel(t, "add"), newStream(t, 0), newStream(t, 1)
	a, b := upload[int32](t, s0, 1), upload[int32](t, s1, 100)
	t.Run("built", func(t *testing.T) {
		g := newGraph(t, s0)
		do := must(t)
		first := do(g.Launch(one, k, []any{a, int32(1), int64(1)}))
		there := do(g.LaunchIn(s1.Context(), one, k, []any{b, int32(10), int64(1)}, first))
		do(g.Launch(one, k, []any{a, int32(1), int64(1)}, there))
		_, err := g.LaunchIn(s1.Context(), one, k, []any{a, int32(1), int64(1)})
		argError(t, err, 0)
		require.ErrorIs(t, err, launch.ErrDevice)
		_, err = g.LaunchIn(nil, one, k, []any{a, int32(1), int64(1)})
		require.ErrorIs(t, err, launch.ErrInvalidValue)
		x := instantiate(t, g)
		require.NoError(t, x.Launch(s0))
		require.Equal(t, []int32{3}, download[int32](t, s0, a))
		require.Equal(t, []int32{110}, download[int32](t, s1, b))
		require.NoError(t, x.SetLaunch(there, one, k, b, int32(20), int64(1)), "in its own context")
		argError(t, x.SetLaunch(there, one, k, a, int32(20), int64(1)), 0)
		require.NoError(t, x.Launch(s0))
		require.Equal(t, []int32{5}, download[int32](t, s0, a))
		require.Equal(t, []int32{130}, download[int32](t, s1, b))
	})
	t.Run("captured", func(t *testing.T) {
		g, err := launch.Record(s0, func(*launch.Capture) error {
			if err := launch.Launch(s0, one, k, a, int32(1000), int64(1)); err != nil {
				return err
			}
			if err := s1.Wait(s0); err != nil {
				return err
			}
			if err := launch.Launch(s1, one, k, b, int32(1000), int64(1)); err != nil {
				return err
			}
			return s0.Wait(s1)
		})
		require.NoError(t, err)
		closeLater(t, g)
		x := instantiate(t, g)
		require.Equal(t, []int32{5}, download[int32](t, s0, a), "nothing has run")
		for range 2 {
			require.NoError(t, x.Launch(s0))
		}
		require.Equal(t, []int32{2005}, download[int32](t, s0, a))
		require.Equal(t, []int32{2130}, download[int32](t, s1, b))
	})
}

func TestConditions(t *testing.T) {
	if testdriver.Open(t).Version() < 12080 {
		t.Skip("needs a driver for CUDA 12.8")
	}
	nothingHeld(t)
	k, s := kernel(t, "add"), newStream(t, 0)
	do := must(t)
	for _, c := range []struct {
		name  string
		value uint32
		want  []int32
	}{
		{"zero", 0, []int32{0, 10, 100}},
		{"one", 1, []int32{1, 1, 200}},
		{"two", 2, []int32{1, 1, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := upload[int32](t, s, 0, 0, 0)
			g := newGraph(t, s)
			at := func(i int) driver.DevicePtr { return out.Ptr() + driver.DevicePtr(4*i) }
			cond := func() launch.Condition {
				c, err := g.Condition(c.value, true)
				require.NoError(t, err)
				require.NotZero(t, c.Handle())
				return c
			}
			n, body, err := g.If(cond())
			require.NoError(t, err)
			kind, err := n.Kind()
			require.NoError(t, err)
			require.Equal(t, launch.KindConditional, kind)
			do(body.Launch(one, k, []any{at(0), int32(1), int64(1)}))
			_, then, otherwise, err := g.IfElse(cond())
			require.NoError(t, err)
			do(then.Launch(one, k, []any{at(1), int32(1), int64(1)}))
			do(otherwise.Launch(one, k, []any{at(1), int32(10), int64(1)}))
			_, bodies, err := g.Switch(cond(), 2)
			require.NoError(t, err)
			do(bodies[0].Launch(one, k, []any{at(2), int32(100), int64(1)}))
			do(bodies[1].Launch(one, k, []any{at(2), int32(200), int64(1)}))
			_, err = body.Instantiate(nil)
			require.ErrorIs(t, err, launch.ErrInvalidValue)
			require.NoError(t, body.Close(), "a body goes with its graph")
			x := instantiate(t, g)
			require.NoError(t, x.Launch(s))
			require.Equal(t, c.want, download[int32](t, s, out))
		})
	}
}

// countdownSource sets a condition from the device, which the device runtime
// does: a library to link with.
const countdownSource = `
extern "C" __device__ void cudaGraphSetConditional(unsigned long long condition, unsigned int value);
extern "C" __global__ void countdown(unsigned long long condition, int *n) { cudaGraphSetConditional(condition, --*n > 0); }
`

// softCountdown registers the same with the software device.
var softCountdown = sync.OnceValue(func() error {
	return soft.RegisterKernel("countdown", []soft.ParamInfo{soft.Int64, soft.Ptr}, func(l *soft.Launch) {
		n := soft.Slice[int32](l, l.Ptr(1), 1)
		n[0]--
		l.SetCondition(l.Uint64(0), uint32(max(n[0], 0)))
	})
})

// countdown returns a kernel that takes one off a number and sets a condition
// to whether anything is left.
func countdown(t *testing.T, s *device.Stream) *launch.Kernel {
	t.Helper()
	code := countdownCode(t, s.Device())
	k, err := code.Kernel("countdown")
	require.NoError(t, err)
	closeLater(t, k)
	return k
}

func countdownCode(t *testing.T, dev *device.Device) *launch.ObjectCode {
	t.Helper()
	if !testdriver.Real() {
		require.NoError(t, softCountdown())
		c, err := launch.NewObjectCode(soft.Image("countdown"), nil)
		require.NoError(t, err)
		closeLater(t, c)
		return c
	}
	arch, err := dev.Arch()
	require.NoError(t, err)
	return linkedWithDeviceRuntime(t, arch)
}

func linkedWithDeviceRuntime(t *testing.T, arch string) *launch.ObjectCode {
	t.Helper()
	at, err := pathfinder.Default().Static("cudadevrt")
	testlib.Need(t, "the device runtime", err)
	runtime, err := launch.ReadObjectCode(at.Path, nil)
	require.NoError(t, err)
	require.Equal(t, launch.FormatLibrary, runtime.Format())
	o := launch.ProgramOptions{RelocatableDeviceCode: launch.ToggleOn, Arch: "sm_" + arch}
	c, err := linker(t, launch.LinkerOptions{Arch: "sm_" + arch}).Link(launch.FormatCubin, compile(t, countdownSource, launch.FormatCubin, o), runtime)
	require.NoError(t, err)
	closeLater(t, c)
	return c
}

// TestDeviceRuntime links with the device runtime on any machine.
func TestDeviceRuntime(t *testing.T) {
	params, err := linkedWithDeviceRuntime(t, "90").ParamInfo("countdown")
	require.NoError(t, err)
	require.Equal(t, []launch.ParamInfo{{Offset: 0, Size: 8}, {Offset: 8, Size: 8}}, params)
}

// TestWhile runs a body as often as a number on the device says.
func TestWhile(t *testing.T) {
	nothingHeld(t)
	s := newStream(t, 0)
	k, add := countdown(t, s), kernel(t, "add")
	n, out := upload(t, s, int32(5)), upload(t, s, int32(0))
	g := newGraph(t, s)
	c, err := g.Condition(1, true)
	require.NoError(t, err)
	loop, body, err := g.While(c)
	require.NoError(t, err)
	kind, err := loop.Kind()
	require.NoError(t, err)
	require.Equal(t, launch.KindConditional, kind)
	do := must(t)
	first := do(body.Launch(one, add, []any{out, int32(10), int64(1)}))
	do(body.Launch(one, k, []any{c, n}, first))
	do(g.Launch(one, add, []any{out, int32(1), int64(1)}, loop))
	x := instantiate(t, g)
	require.NoError(t, x.Launch(s))
	require.Equal(t, []int32{51}, download[int32](t, s, out))
	require.Equal(t, []int32{0}, download[int32](t, s, n))
	require.NoError(t, x.Launch(s), "the condition is what it was at first: one round")
	require.Equal(t, []int32{62}, download[int32](t, s, out))
	require.Equal(t, []int32{-1}, download[int32](t, s, n))
}

func TestCapture(t *testing.T) {
	nothingHeld(t)
	k, s, side := kernel(t, "add"), newStream(t, 0), newStream(t, 0)
	a, b := upload[int32](t, s, 1), upload[int32](t, s, 0)
	require.NoError(t, s.Synchronize(t.Context()))
	p, err := launch.Prepare(k, a, int32(100), int64(1))
	require.NoError(t, err)
	numbers, err := launch.Prepare(k, a.Ptr(), int32(0), int64(1))
	require.NoError(t, err)
	for range 3 { // what is known well is captured too
		require.NoError(t, numbers.Launch(s, one))
		require.NoError(t, launch.Launch(s, one, k, a.Ptr(), int32(0), int64(1)))
	}
	require.NoError(t, launch.SetValue(numbers, 1, int32(2)))
	var calls, kept atomic.Int32
	g, err := launch.Record(s, func(c *launch.Capture) error {
		require.Same(t, s, c.Stream())
		require.NoError(t, launch.Launch(s, one, k, a, int32(10), int64(1)))
		require.NoError(t, p.Launch(s, one))
		require.NoError(t, numbers.Launch(s, one))
		require.NoError(t, launch.Launch(s, one, k, a.Ptr(), int32(3), int64(1)))
		require.NoError(t, side.Wait(s)) // B235: fork and join by events
		require.NoError(t, launch.Launch(side, one, k, b, int32(1000), int64(1)))
		require.NoError(t, c.Host(side, func() { calls.Add(1) }))
		require.NoError(t, s.Wait(side))
		require.ErrorIs(t, c.Host(newStream(t, 0), func() {}), launch.ErrInvalidValue)
		return c.Keep(func() { kept.Add(1) })
	})
	require.NoError(t, err)
	require.NoError(t, k.Close())
	require.Equal(t, []int32{1}, download[int32](t, s, a), "nothing ran while it was captured")
	x, err := g.Instantiate(nil)
	require.NoError(t, err)
	require.NoError(t, g.Close())
	for range 3 {
		require.NoError(t, x.Launch(s))
	}
	require.Equal(t, []int32{346}, download[int32](t, s, a))
	require.Equal(t, []int32{3000}, download[int32](t, s, b))
	require.Equal(t, int32(3), calls.Load())
	require.Zero(t, kept.Load())
	require.NoError(t, x.Close())
	require.Equal(t, int32(1), kept.Load())
}

func TestGraphMemory(t *testing.T) {
	nothingHeld(t)
	s := newStream(t, 0)
	dev := s.Device()
	require.NoError(t, launch.TrimGraphMemory(dev))
	require.NoError(t, launch.ResetGraphMemory(dev))
	before, err := launch.GraphMemoryOf(dev)
	require.NoError(t, err)
	g := newGraph(t, s)
	n, ptr, err := g.Alloc(1<<20, nil)
	require.NoError(t, err)
	must(t)(g.Free(ptr, n))
	x := instantiate(t, g)
	require.NoError(t, x.Launch(s))
	require.NoError(t, s.Synchronize(t.Context()))
	m, err := launch.GraphMemoryOf(dev)
	require.NoError(t, err)
	require.GreaterOrEqual(t, m.UsedHigh, before.Used+1<<20)
	require.GreaterOrEqual(t, m.ReservedHigh, m.UsedHigh)
	require.GreaterOrEqual(t, m.Reserved, m.Used)
	require.NoError(t, launch.ResetGraphMemory(dev))
	m, err = launch.GraphMemoryOf(dev)
	require.NoError(t, err)
	require.Equal(t, m.Used, m.UsedHigh)
	require.NoError(t, x.Close())
	require.NoError(t, g.Close())
	require.NoError(t, launch.TrimGraphMemory(dev))
	m, err = launch.GraphMemoryOf(dev)
	require.NoError(t, err)
	require.Equal(t, before.Used, m.Used, "it went with the graph")
	require.LessOrEqual(t, m.Reserved, before.Reserved)
	_, err = launch.GraphMemoryOf(nil)
	for _, err := range []error{err, launch.ResetGraphMemory(nil), launch.TrimGraphMemory(nil)} {
		require.ErrorIs(t, err, launch.ErrInvalidValue)
	}
}

// TestCaptureInsert puts a child graph and a node with a condition between captured kernels.
func TestCaptureInsert(t *testing.T) {
	nothingHeld(t)
	k, s, side := kernel(t, "add"), newStream(t, 0), newStream(t, 0)
	a, b := upload[int32](t, s, 1), upload[int32](t, s, 5)
	require.NoError(t, s.Synchronize(t.Context()))
	child := newGraph(t, s)
	must(t)(child.Copy(b, 0, a, 0, 4))
	conditions := testdriver.Open(t).Version() >= 12040
	add := func(s *device.Stream, b *device.Buffer, n int32) {
		t.Helper()
		require.NoError(t, launch.Launch(s, one, k, b, n, int64(1)))
	}
	var inserted, behind launch.Node
	cause := errors.New("cause")
	g, err := launch.Record(s, func(c *launch.Capture) error {
		require.NoError(t, c.Insert(s, func(g *launch.Graph, after []launch.Node) ([]launch.Node, error) {
			require.Empty(t, after, "nothing is captured yet")
			_, err := g.Instantiate(nil)
			require.ErrorIs(t, err, launch.ErrInvalidValue)
			return nil, nil
		}))
		add(s, a, 10) // a 11
		require.NoError(t, c.Insert(s, func(g *launch.Graph, after []launch.Node) ([]launch.Node, error) {
			require.Len(t, after, 1)
			kind, err := after[0].Kind()
			require.NoError(t, err)
			require.Equal(t, launch.KindKernel, kind)
			inserted, err = g.Child(child, after...) // b 11
			return []launch.Node{inserted}, err
		}))
		add(s, b, 100) // b 111
		require.NoError(t, side.Wait(s))
		if conditions {
			require.NoError(t, c.Insert(side, func(g *launch.Graph, after []launch.Node) ([]launch.Node, error) {
				cond, err := g.Condition(1, true)
				require.NoError(t, err)
				n, body, err := g.If(cond, after...)
				require.NoError(t, err)
				must(t)(body.Launch(one, k, []any{b, int32(1000), int64(1)}))
				return []launch.Node{n}, nil
			}))
		} else {
			add(side, b, 1000)
		}
		require.NoError(t, s.Wait(side))
		add(s, b, 1)
		require.NoError(t, c.Insert(s, func(_ *launch.Graph, after []launch.Node) ([]launch.Node, error) {
			behind = after[0]
			return nil, nil
		}))

		require.ErrorIs(t, c.Insert(s, func(*launch.Graph, []launch.Node) ([]launch.Node, error) { return nil, cause }), cause)
		err := c.Insert(s, func(*launch.Graph, []launch.Node) ([]launch.Node, error) { return child.Nodes() })
		require.ErrorIs(t, err, launch.ErrInvalidValue, "nodes of another graph")
		nothing := func(*launch.Graph, []launch.Node) ([]launch.Node, error) { return nil, nil }
		require.ErrorIs(t, c.Insert(newStream(t, 0), nothing), launch.ErrInvalidValue, "takes no part")
		require.ErrorIs(t, c.Insert(nil, nothing), launch.ErrInvalidValue)
		require.ErrorIs(t, c.Insert(s, nil), launch.ErrInvalidValue)
		return nil
	})
	require.NoError(t, err)
	closeLater(t, g)
	require.Same(t, g, inserted.Graph())
	deps, err := inserted.Dependents()
	require.NoError(t, err)
	require.Len(t, deps, 1, "what was queued next follows it")
	x := instantiate(t, g)
	require.NoError(t, x.Launch(s))
	require.Equal(t, []int32{1112}, download[int32](t, s, b))
	require.NoError(t, x.SetLaunch(behind, one, k, b, int32(2), int64(1)))
	require.NoError(t, x.Launch(s))
	require.Equal(t, []int32{21}, download[int32](t, s, a))
	require.Equal(t, []int32{1123}, download[int32](t, s, b))

	var kept launch.Node // a capture that came to nothing leaves no graph for its nodes
	_, err = launch.Record(s, func(c *launch.Capture) error {
		require.NoError(t, c.Insert(s, func(g *launch.Graph, _ []launch.Node) (_ []launch.Node, err error) {
			kept, err = g.Empty()
			return []launch.Node{kept}, err
		}))
		require.NoError(t, side.Wait(s))
		add(side, b, 1)
		return nil // side was not waited for
	})
	require.ErrorIs(t, err, driver.ErrCapture)
	_, err = kept.Kind()
	require.ErrorIs(t, err, launch.ErrClosed)
	c, err := launch.BeginCapture(s, launch.CaptureRelaxed)
	require.NoError(t, err)
	g, err = c.End()
	require.NoError(t, err)
	require.NoError(t, g.Close())
	err = c.Insert(s, func(*launch.Graph, []launch.Node) ([]launch.Node, error) { return nil, nil })
	require.ErrorIs(t, err, launch.ErrClosed)
}

func TestCaptureKeepsBuffers(t *testing.T) {
	nothingHeld(t)
	k, s := kernel(t, "add"), newStream(t, 0)
	out := upload[int32](t, s, 0)
	tmp := upload[int32](t, s, 4)
	require.NoError(t, s.Synchronize(t.Context()))
	g, err := launch.Record(s, func(*launch.Capture) error {
		return launch.Launch(s, one, k, tmp, int32(1), int64(1))
	})
	require.NoError(t, err)
	closeLater(t, g)
	must(t)(g.Copy(out, 0, tmp, 0, 4, func() launch.Node { n, _ := g.Nodes(); return n[0] }()))
	require.NoError(t, tmp.Close())
	x := instantiate(t, g)
	require.NoError(t, x.Launch(s))
	require.Equal(t, []int32{5}, download[int32](t, s, out))
}

func TestCaptureIntoGraph(t *testing.T) {
	nothingHeld(t)
	if !testdriver.Open(t).Has("cuStreamBeginCaptureToGraph") {
		t.Skip("needs a driver for CUDA 12.3")
	}
	k, s := kernel(t, "add"), newStream(t, 0)
	a := upload[int32](t, s, 0)
	require.NoError(t, s.Synchronize(t.Context()))
	g := newGraph(t, s)
	fill := must(t)(g.Fill(a, 0, 7, 4, 1))
	c, err := g.Capture(s, launch.CaptureRelaxed, fill)
	require.NoError(t, err)
	require.NoError(t, launch.Launch(s, one, k, a, int32(1), int64(1)))
	same, err := c.End()
	require.NoError(t, err)
	require.Same(t, g, same)
	x := instantiate(t, g)
	require.NoError(t, x.Launch(s))
	require.Equal(t, []int32{8}, download[int32](t, s, a))
}

func TestForeignCapture(t *testing.T) { // a capture that another library began: launches take part
	nothingHeld(t)
	d, ctx := testdriver.Context(t, 0)
	raw := testdriver.Stream(t, d, ctx)
	k := kernel(t, "add")
	s, err := device.WrapStream(raw, nil, nil)
	require.NoError(t, err)
	closeLater(t, s)
	a := upload[int32](t, s, 1)
	require.NoError(t, s.Synchronize(t.Context()))
	require.NoError(t, d.StreamBeginCapture(ctx, raw, driver.StreamCaptureModeRelaxed).Err())
	require.NoError(t, launch.Launch(s, one, k, a, int32(1), int64(1)))
	h, res := d.StreamEndCapture(ctx, raw)
	require.NoError(t, res.Err())
	g, err := launch.ImportGraph(h, s.Context())
	require.NoError(t, err)
	closeLater(t, g)
	x := instantiate(t, g)
	require.NoError(t, x.Launch(s))
	require.Equal(t, []int32{2}, download[int32](t, s, a))
}

func TestCaptureErrors(t *testing.T) {
	nothingHeld(t)
	k, s := kernel(t, "nothing"), newStream(t, 0)
	t.Run("B233 legacy default stream", func(t *testing.T) {
		legacy, err := s.Device().DefaultStream()
		require.NoError(t, err)
		closeLater(t, legacy)
		_, err = launch.BeginCapture(legacy, launch.CaptureRelaxed)
		require.ErrorIs(t, err, driver.ErrCapture)
	})
	t.Run("B235 not joined", func(t *testing.T) {
		side := newStream(t, 0)
		g, err := launch.Record(s, func(*launch.Capture) error {
			require.NoError(t, side.Wait(s))
			return launch.Launch(side, one, k)
		})
		require.Nil(t, g)
		require.ErrorIs(t, err, driver.ErrCapture)
		require.ErrorContains(t, err, "Stream.Wait for it before the end")
		require.NoError(t, launch.Launch(s, one, k), "the stream is usable again")
		require.NoError(t, s.Synchronize(t.Context()))
	})
	t.Run("B231 a query does not break it", func(t *testing.T) {
		g, err := launch.Record(s, func(*launch.Capture) error {
			_, err := s.Done()
			require.ErrorIs(t, err, driver.ErrCapture)
			require.ErrorIs(t, s.Synchronize(t.Context()), driver.ErrCapture)
			return launch.Launch(s, one, k)
		})
		require.NoError(t, err)
		require.NoError(t, g.Close())
	})
	t.Run("launch in a broken capture", func(t *testing.T) {
		c, err := launch.BeginCapture(s, launch.CaptureRelaxed)
		require.NoError(t, err)
		d := s.Device().Driver()
		require.Error(t, d.StreamSynchronize(s.Context().Handle(), s.Handle()).Err())
		err = launch.Launch(s, one, k)
		require.ErrorIs(t, err, driver.ErrCapture)
		g, err := c.End()
		require.Nil(t, g)
		require.ErrorIs(t, err, driver.ErrCapture)
		_, err = c.End()
		require.ErrorIs(t, err, launch.ErrClosed)
		require.NoError(t, launch.Launch(s, one, k))
	})
	t.Run("stream closed meanwhile", func(t *testing.T) {
		other, err := s.Device().NewStream(nil)
		require.NoError(t, err)
		c, err := launch.BeginCapture(other, launch.CaptureRelaxed)
		require.NoError(t, err)
		require.NoError(t, launch.Launch(other, one, k))
		require.NoError(t, other.Close())
		g, err := c.End()
		require.NoError(t, err)
		nodes, err := g.Nodes()
		require.NoError(t, err)
		require.Len(t, nodes, 1)
		require.NoError(t, g.Close())
	})
	t.Run("function that fails", func(t *testing.T) {
		cause := errors.New("cause")
		g, err := launch.Record(s, func(*launch.Capture) error {
			require.NoError(t, launch.Launch(s, one, k))
			return cause
		})
		require.Nil(t, g)
		require.ErrorIs(t, err, cause)
		require.Panics(t, func() { _, _ = launch.Record(s, func(*launch.Capture) error { panic("x") }) })
		capturing, err := s.Capturing()
		require.NoError(t, err)
		require.False(t, capturing)
	})
	t.Run("launch of a graph", func(t *testing.T) {
		g := newGraph(t, s)
		must(t)(g.Empty())
		x := instantiate(t, g)
		c, err := launch.BeginCapture(s, launch.CaptureRelaxed)
		require.NoError(t, err)
		err = x.Launch(s)
		if err != nil { // the software device, and drivers that do not make it a child
			require.ErrorIs(t, err, driver.ErrCapture)
		}
		if g, err := c.End(); err == nil {
			require.NoError(t, g.Close())
		}
		require.NoError(t, x.Launch(s))
		require.NoError(t, s.Synchronize(t.Context()))
	})
	_, err := launch.BeginCapture(nil, launch.CaptureRelaxed)
	require.ErrorIs(t, err, launch.ErrInvalidValue)
	_, err = launch.BeginCapture(s, 7)
	require.ErrorIs(t, err, launch.ErrInvalidValue)
	require.NoError(t, s.Synchronize(t.Context()))
}
