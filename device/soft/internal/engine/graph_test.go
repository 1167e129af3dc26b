package engine

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Captured work runs when the graph is launched, as often as it is, and not before.
func TestCaptureAndLaunch(t *testing.T) {
	r := newRig(t, Options{})
	a, b := r.stream(t, 1), r.stream(t, 0)
	p := r.mem(t, 64)
	ev, join := r.event(t, EventDisableTiming), r.event(t, EventDisableTiming)
	n := 0
	good(t, r.BeginCapture(r.t, a, CaptureRelaxed, 0, nil))
	good(t, r.LaunchHostFunc(r.t, a, func() { n++ }, 1, 0, nil))
	good(t, r.EventRecord(r.t, ev, a, 0))
	good(t, r.StreamWaitEvent(r.t, b, ev, 0))
	good(t, r.MemsetAsync(r.t, Set{Dst: p, Value: 6, Elem: 1, Width: 64, Height: 1}, b))
	good(t, r.EventRecord(r.t, join, b, 0))
	good(t, r.MemsetAsync(r.t, Set{Dst: p, Value: 1, Elem: 1, Width: 1, Height: 1}, a))
	good(t, r.StreamWaitEvent(r.t, a, join, 0))
	i, c := r.StreamCapture(r.t, b)
	good(t, c)
	require.EqualValues(t, CaptureActive, i.Status)
	require.Len(t, i.Deps, 1)
	g, c := r.EndCapture(r.t, a)
	good(t, c)
	require.Zero(t, n)
	require.Zero(t, r.bytes(t, p, 64)[63])
	nodes, c := r.GraphNodes(g, false)
	good(t, c)
	require.Len(t, nodes, 3)
	from, _, c := r.GraphEdges(g)
	good(t, c)
	require.Len(t, from, 2)
	x, _, _, c := r.Instantiate(g, 0)
	good(t, c)
	good(t, r.GraphDestroy(g))
	for range 3 {
		good(t, r.GraphLaunch(r.t, x, a))
	}
	good(t, r.StreamSynchronize(r.t, a))
	require.Equal(t, 3, n)
	require.Equal(t, byte(6), r.bytes(t, p, 64)[63])
	good(t, r.ExecDestroy(x))
	for _, h := range []Handle{ev, join} {
		good(t, r.EventDestroy(r.t, h))
	}
	for _, h := range []Handle{a, b} {
		good(t, r.StreamDestroy(r.t, h))
	}
	good(t, r.MemFree(r.t, p))
}

// Rows of the field faults on capture.
func TestCaptureFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		f    func(r *rig, a Handle) Code
		want Code
		end  Code
	}{
		"B231 query":  {func(r *rig, a Handle) Code { return r.StreamQuery(r.t, a) }, CaptureUnsupported, CaptureInvalidated},
		"B231 sync":   {func(r *rig, a Handle) Code { return r.StreamSynchronize(r.t, a) }, CaptureUnsupported, CaptureInvalidated},
		"B233 legacy": {func(r *rig, a Handle) Code { return r.BeginCapture(r.t, StreamLegacy, 0, 0, nil) }, CaptureUnsupported, Success},
		"B235 unjoined": {func(r *rig, a Handle) Code {
			b, _ := r.StreamCreate(r.t, 1, 0)
			e, _ := r.EventCreate(r.t, EventDisableTiming)
			r.EventRecord(r.t, e, a, 0)
			r.StreamWaitEvent(r.t, b, e, 0)
			c := r.LaunchHostFunc(r.t, b, func() {}, 1, 0, nil)
			r.EventDestroy(r.t, e)
			r.later = func() { r.StreamDestroy(r.t, b) }
			return c
		}, Success, CaptureUnjoined},
		"a failed capture refuses work": {func(r *rig, a Handle) Code {
			r.StreamQuery(r.t, a)
			return r.LaunchHostFunc(r.t, a, func() {}, 1, 0, nil)
		}, CaptureInvalidated, CaptureInvalidated},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{})
			a := r.stream(t, 1)
			good(t, r.BeginCapture(r.t, a, CaptureGlobal, 0, nil))
			require.Equal(t, tc.want, tc.f(r, a))
			g, c := r.EndCapture(r.t, a)
			require.Equal(t, tc.end, c)
			if c == Success {
				good(t, r.GraphDestroy(g))
			}
			if r.later != nil {
				r.later()
			}
			good(t, r.StreamQuery(r.t, a)) // usable again
			good(t, r.StreamDestroy(r.t, a))
		})
	}
}

// addKernel adds a kernel node without dependencies but the given.
func (r *rig) addNode(t testing.TB, g Handle, p NodeParams, deps ...Handle) (Handle, *NodeParams) {
	t.Helper()
	h, c := r.AddNode(r.t, g, deps, &p)
	good(t, c)
	return h, &p
}

func TestConditionals(t *testing.T) {
	r := newRig(t, Options{})
	require.NoError(t, Register("countdown", []ParamInfo{{Size: 8}, {Size: 8}}, func(l *Launch) {
		b := l.Bytes(l.Ptr(1), 4)
		v := binary.NativeEndian.Uint32(b) - 1
		binary.NativeEndian.PutUint32(b, v)
		l.SetCondition(l.Uint64(0), v)
	}))
	lib, c := r.LibraryLoad([]byte(ImageMagic + "\nkernel countdown\n"))
	good(t, c)
	k, c := r.LibraryKernel(lib, "countdown")
	good(t, c)
	p := r.mem(t, 4)
	for _, tc := range []struct {
		name   string
		kind   int32
		size   int
		start  uint32
		def    uint32
		runs   []int // of each body
		counts uint32
	}{
		{"while", 1, 1, 5, 1, []int{5}, 0},
		{"while not at all", 1, 1, 5, 0, []int{0}, 5},
		{"if", 0, 1, 9, 1, []int{1}, 8},
		{"if not", 0, 1, 9, 0, []int{0}, 9},
		{"if else", 0, 2, 9, 0, []int{0, 1}, 8},
		{"switch", 2, 3, 9, 2, []int{0, 0, 1}, 8},
		{"switch beyond", 2, 3, 9, 7, []int{0, 0, 0}, 9},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g, c := r.GraphCreate(0)
			good(t, c)
			cond, c := r.CondCreate(g, tc.def, 1)
			good(t, c)
			_, np := r.addNode(t, g, NodeParams{Type: NodeConditional, Cond: CondNode{Handle: cond, Kind: tc.kind, Size: tc.size}})
			runs := make([]int, tc.size)
			for i, body := range np.Cond.Bodies {
				args := binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, cond), p)
				n1, _ := r.addNode(t, body, NodeParams{Type: NodeKernel, Kernel: KernelNode{Kernel: k, Ctx: r.ctx, Config: one(), Args: args}})
				r.addNode(t, body, NodeParams{Type: NodeHost, Host: HostNode{Fn: func() { runs[i]++ }, FnAddr: 1}}, n1)
			}
			x, _, _, c := r.Instantiate(g, 0)
			good(t, c)
			for launch := range 2 {
				clear(runs)
				good(t, r.Memset(r.t, Set{Dst: p, Value: tc.start, Elem: 4, Width: 1, Height: 1}, StreamLegacy))
				good(t, r.GraphLaunch(r.t, x, StreamLegacy))
				good(t, r.StreamSynchronize(r.t, StreamLegacy))
				require.Equal(t, tc.runs, runs, "launch %d", launch)
				require.Equal(t, tc.counts, binary.NativeEndian.Uint32(r.bytes(t, p, 4)))
			}
			good(t, r.ExecDestroy(x))
			good(t, r.GraphDestroy(g))
		})
	}
	good(t, r.LibraryUnload(lib))
	good(t, r.MemFree(r.t, p))
}

func TestGraphEvents(t *testing.T) {
	r := newRig(t, Options{})
	a, b := r.stream(t, 1), r.stream(t, 1)
	inside, outside := r.event(t, 0), r.event(t, 0)
	g, c := r.GraphCreate(0)
	good(t, c)
	n1, _ := r.addNode(t, g, NodeParams{Type: NodeEventWait, Event: outside})
	r.addNode(t, g, NodeParams{Type: NodeEventRecord, Event: inside}, n1)
	x, _, _, c := r.Instantiate(g, 0)
	good(t, c)
	open := r.block(t, b)
	good(t, r.EventRecord(r.t, outside, b, 0))
	good(t, r.GraphLaunch(r.t, x, a))
	require.Equal(t, NotReady, r.EventQuery(r.t, inside), "recorded by the launch, not reached")
	open()
	good(t, r.EventSynchronize(r.t, inside))
	ms, c := r.EventElapsed(r.t, outside, inside)
	good(t, c)
	require.GreaterOrEqual(t, ms, float32(0))
	good(t, r.ExecDestroy(x))
	good(t, r.GraphDestroy(g))
	for _, h := range []Handle{a, b} {
		good(t, r.StreamDestroy(r.t, h))
	}
	for _, h := range []Handle{inside, outside} {
		good(t, r.EventDestroy(r.t, h))
	}
}

func TestGraphMemory(t *testing.T) {
	r := newRig(t, Options{})
	s := r.stream(t, 1)
	good(t, r.BeginCapture(r.t, s, CaptureRelaxed, 0, nil))
	p, c := r.MemAllocAsync(r.t, 1000, 0, s)
	good(t, c)
	good(t, r.MemsetAsync(r.t, Set{Dst: p, Value: 4, Elem: 1, Width: 1000, Height: 1}, s))
	g, c := r.EndCapture(r.t, s)
	good(t, c)
	x, _, _, c := r.Instantiate(g, 0)
	good(t, c)
	good(t, r.GraphLaunch(r.t, x, s))
	require.Equal(t, InvalidValue, r.GraphLaunch(r.t, x, s), "not freed since the last launch")
	good(t, r.StreamSynchronize(r.t, s))
	require.Equal(t, byte(4), r.bytes(t, p, 1000)[999])
	good(t, r.GraphDestroy(g))
	good(t, r.ExecDestroy(x))
	require.True(t, r.Pointer(p).Known, "what a launch allocated outlives the graph")
	good(t, r.MemFreeAsync(r.t, p, s))
	good(t, r.StreamSynchronize(r.t, s))
	require.False(t, r.Pointer(p).Known)
	used, c := r.GraphMem(0, 0)
	good(t, c)
	require.Zero(t, used)
	good(t, r.GraphMemTrim(0))
	free, total, _ := r.MemInfo(r.t)
	require.Equal(t, total, free)
	good(t, r.StreamDestroy(r.t, s))
}

func TestUserObjects(t *testing.T) {
	r := newRig(t, Options{})
	gone := 0
	u, c := r.UserObject(func() { gone++ }, 1)
	good(t, c)
	g, c := r.GraphCreate(0)
	good(t, c)
	good(t, r.GraphUser(g, u, 1, true))
	x, _, _, c := r.Instantiate(g, 0)
	good(t, c)
	good(t, r.GraphDestroy(g))
	require.Zero(t, gone, "the executable keeps it")
	good(t, r.ExecDestroy(x))
	require.Equal(t, 1, gone)
	require.Equal(t, InvalidValue, r.UserObjectRef(u, 1))
}

func TestExecUpdate(t *testing.T) {
	r := newRig(t, Options{})
	p := r.mem(t, 16)
	build := func(v uint32, extra bool) Handle {
		g, c := r.GraphCreate(0)
		good(t, c)
		n, _ := r.addNode(t, g, NodeParams{Type: NodeMemset, Set: Set{Dst: p, Value: v, Elem: 1, Width: 16, Height: 1}})
		if extra {
			r.addNode(t, g, NodeParams{Type: NodeEmpty}, n)
		}
		return g
	}
	g1, g2, g3 := build(1, false), build(2, false), build(3, true)
	x, _, _, c := r.Instantiate(g1, 0)
	good(t, c)
	good(t, r.GraphLaunch(r.t, x, StreamLegacy))
	good(t, r.StreamSynchronize(r.t, StreamLegacy))
	require.Equal(t, byte(1), r.bytes(t, p, 16)[0])
	res, _, c := r.ExecUpdate(x, g3)
	require.Equal(t, GraphExecUpdateFailure, c)
	require.EqualValues(t, UpdateTopologyChanged, res)
	_, _, c = r.ExecUpdate(x, g2)
	good(t, c)
	good(t, r.GraphLaunch(r.t, x, StreamLegacy))
	good(t, r.StreamSynchronize(r.t, StreamLegacy))
	require.Equal(t, byte(2), r.bytes(t, p, 16)[0])
	for _, g := range []Handle{g1, g2, g3} {
		good(t, r.GraphDestroy(g))
	}
	good(t, r.ExecDestroy(x))
	good(t, r.MemFree(r.t, p))
}

func TestDot(t *testing.T) {
	r := newRig(t, Options{})
	g, c := r.GraphCreate(0)
	good(t, c)
	a, _ := r.addNode(t, g, NodeParams{Type: NodeEmpty})
	r.addNode(t, g, NodeParams{Type: NodeHost, Host: HostNode{Fn: func() {}, FnAddr: 1}}, a)
	var b strings.Builder
	good(t, r.Dot(&b, g, 1))
	require.Contains(t, b.String(), "HOST")
	require.Equal(t, 1, strings.Count(b.String(), "->"))
	good(t, r.GraphDestroy(g))
}

func TestImages(t *testing.T) {
	require.NoError(t, Register("one", nil, func(*Launch) {}))
	for name, tc := range map[string]struct {
		image string
		want  Code
	}{
		"empty":           {ImageMagic, Success},
		"kernel":          {ImageMagic + "\nkernel one\n", Success},
		"alias":           {ImageMagic + "\nkernel two = one # comment\n\n", Success},
		"global":          {ImageMagic + "\nglobal g 8 0102", Success},
		"unknown kernel":  {ImageMagic + "\nkernel nobody", NoBinaryForGPU},
		"nonsense line":   {ImageMagic + "\nfoo", InvalidImage},
		"global too long": {ImageMagic + "\nglobal g 1 0102", InvalidImage},
		"global of 0":     {ImageMagic + "\nglobal g 0", InvalidImage},
		"longer magic":    {ImageMagic + "2", InvalidImage},
		"ELF":             {"\x7fELF\x02\x01", NoBinaryForGPU},
		"assembly":        {".version 7.0", NoBinaryForGPU},
		"rubbish":         {"hello", InvalidImage},
		"nothing":         {"", InvalidImage},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := parseImage([]byte(tc.image))
			require.Equal(t, tc.want, c)
		})
	}
}

func FuzzImage(f *testing.F) {
	f.Add([]byte(ImageMagic + "\nkernel a = b\nglobal g 16 00ff"))
	f.Add([]byte(ImageMagic + "\nglobal g 0xffffffffff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		img, c := parseImage(b)
		if (img == nil) != (c != Success) {
			t.Fatal("an image or a code")
		}
	})
}

func TestGlobals(t *testing.T) {
	r := newRig(t, Options{})
	m, c := r.ModuleLoad(r.t, []byte(ImageMagic+"\nglobal g 16 0102"))
	good(t, c)
	a, n, c := r.ModuleGlobal(m, "g")
	good(t, c)
	require.EqualValues(t, 16, n)
	require.Equal(t, []byte{1, 2, 0}, r.bytes(t, a, 3))
	require.Equal(t, InvalidValue, r.MemFree(r.t, a), "belongs to its module")
	good(t, r.ModuleUnload(r.t, m))
	require.False(t, r.Pointer(a).Known)
}

func TestRegisterRefuses(t *testing.T) {
	for name, e := range map[string]error{
		"no name":   Register("", nil, func(*Launch) {}),
		"a space":   Register("a b", nil, func(*Launch) {}),
		"no body":   Register("x", nil, nil),
		"size 0":    Register("x", []ParamInfo{{}}, func(*Launch) {}),
		"alignment": Register("x", []ParamInfo{{Size: 8, Align: 3}}, func(*Launch) {}),
		"size 12":   Register("x", []ParamInfo{{Size: 12}}, func(*Launch) {}),
	} {
		require.ErrorIs(t, e, ErrKernel, name)
	}
}

func TestMemOps(t *testing.T) {
	r := newRig(t, Options{})
	a, b := r.stream(t, 1), r.stream(t, 1)
	p := r.mem(t, 16)
	good(t, r.Memset(r.t, Set{Dst: p, Elem: 4, Width: 4, Height: 1}, StreamLegacy))
	good(t, r.StreamSynchronize(r.t, StreamLegacy))
	done := make(chan struct{})
	good(t, r.MemOps(r.t, a, []MemOp{{Kind: OpWait64, Addr: p, Value: 3}}))
	good(t, r.LaunchHostFunc(r.t, a, func() { close(done) }, 1, 0, nil))
	require.Equal(t, NotReady, r.StreamQuery(r.t, a))
	good(t, r.MemOps(r.t, b, []MemOp{{Kind: OpWrite64, Addr: p, Value: 4}}))
	<-done
	for name, tc := range map[string]struct {
		op   MemOp
		have uint64
		want bool
	}{
		"greater, wrapped": {MemOp{Kind: OpWait32, Value: 0xfffffff0}, 3, true},
		"less":             {MemOp{Kind: OpWait32, Value: 5}, 4, false},
		"equal":            {MemOp{Kind: OpWait32, Value: 5, Flags: 1}, 5, true},
		"and":              {MemOp{Kind: OpWait64, Value: 6, Flags: 2}, 9, false},
		"nor":              {MemOp{Kind: OpWait32, Value: 0xffff, Flags: 3}, 0xffff0000, false},
		"nor 64":           {MemOp{Kind: OpWait64, Value: 0xffff, Flags: 3}, 0xffff0000, true},
	} {
		require.Equal(t, tc.want, tc.op.holds(tc.have), name)
	}
	for _, h := range []Handle{a, b} {
		good(t, r.StreamSynchronize(r.t, h))
		good(t, r.StreamDestroy(r.t, h))
	}
	good(t, r.MemFree(r.t, p))
}
