//go:build cgo && linux

package soft_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/internal/hunt"
)

// hunted is a driver with two streams on device 0 and 4096 bytes of memory of its own.
type hunted struct {
	*driver.Driver
	t    *testing.T
	c    driver.ContextHandle
	a, b driver.StreamHandle
	p    driver.DevicePtr
	// Kernels of 4-byte elements: one reads, one reads and writes.
	sum, scale driver.FunctionHandle
}

func newHunted(t *testing.T) *hunted {
	d := open(t)
	c := primary(t, d, 0)
	h := &hunted{Driver: d, t: t, c: c, a: newStream(t, d, c, 1), b: newStream(t, d, c, 1), p: alloc(t, d, c, 4096)}
	ps := []soft.ParamInfo{soft.Ptr, soft.Int64}
	require.NoError(t, soft.RegisterKernel("hunt_sum", ps, func(l *soft.Launch) {
		soft.Slice[int32](l, l.Ptr(0), int(l.Int64(1))) // all of it counts as read
	}))
	require.NoError(t, soft.RegisterKernel("hunt_scale", ps, func(l *soft.Launch) {
		for i, s := 0, soft.Slice[int32](l, l.Ptr(0), int(l.Int64(1))); i < len(s); i++ {
			s[i] = 3*s[i] + 1
		}
	}))
	lib, res := d.LibraryLoadData(soft.Image("hunt_sum", "hunt_scale"), nil, nil, nil, nil)
	h.ok(res)
	t.Cleanup(func() { h.ok(d.LibraryUnload(lib)) })
	for name, f := range map[string]*driver.FunctionHandle{"hunt_sum": &h.sum, "hunt_scale": &h.scale} {
		k, res := d.LibraryGetKernel(lib, name)
		h.ok(res)
		*f, res = d.KernelGetFunction(c, k)
		h.ok(res)
	}
	return h
}

// launch runs a kernel on n elements at an address.
func (h *hunted) launch(f driver.FunctionHandle, p driver.DevicePtr, n uint64, s driver.StreamHandle) {
	h.t.Helper()
	h.ok(h.LaunchKernel(h.c, f, 1, 1, 1, 1, 1, 1, 0, s, nil, packed(h.t, h.Driver, h.c, uint64(p), n)))
}

func (h *hunted) ok(res driver.Result) { h.t.Helper(); ok(h.t, res) }

// set fills the memory in a stream; get copies it elsewhere.
func (h *hunted) set(s driver.StreamHandle) {
	h.t.Helper()
	h.ok(h.MemsetD8Async(h.c, h.p, 1, 4096, s))
}

func (h *hunted) get(s driver.StreamHandle) {
	h.t.Helper()
	h.ok(h.MemcpyAsync(h.c, alloc(h.t, h.Driver, h.c, 4096), h.p, 4096, s))
}

// edge makes b wait for a.
func (h *hunted) edge(a, b driver.StreamHandle) {
	e := newEvent(h.t, h.Driver, h.c, driver.EventDisableTiming)
	h.ok(h.EventRecord(h.c, e, a))
	h.ok(h.StreamWaitEvent(h.c, b, e, 0))
}

// races returns what the hunt has found, and forgets it.
func (h *hunted) races() []soft.Race { return soft.ForgetRaces() }

// huntCase is work with or without what orders it.
type huntCase struct {
	run func(h *hunted)
	// device is how many cases of missing synchronization the software device's hunt sees, layer how
	// many the checking layer of package driver, which does not know what kernels and words in memory do.
	device, layer int
}

var huntCases = map[string]huntCase{
	"no edge":                   {func(h *hunted) { h.set(h.a); h.get(h.b) }, 1, 1},
	"event":                     {func(h *hunted) { h.set(h.a); h.edge(h.a, h.b); h.get(h.b) }, 0, 0},
	"event before the work":     {func(h *hunted) { h.edge(h.a, h.b); h.set(h.a); h.get(h.b) }, 1, 1},
	"stream synchronized":       {func(h *hunted) { h.set(h.a); h.ok(h.StreamSynchronize(h.c, h.a)); h.get(h.b) }, 0, 0},
	"other stream synchronized": {func(h *hunted) { h.set(h.a); h.ok(h.StreamSynchronize(h.c, h.b)); h.get(h.b) }, 1, 1},
	"context synchronized":      {func(h *hunted) { h.set(h.a); h.ok(h.CtxSynchronize(h.c)); h.get(h.b) }, 0, 0},
	"event synchronized": {func(h *hunted) {
		h.set(h.a)
		e := newEvent(h.t, h.Driver, h.c, driver.EventDisableTiming)
		h.ok(h.EventRecord(h.c, e, h.a))
		h.ok(h.EventSynchronize(h.c, e))
		h.get(h.b)
	}, 0, 0},
	"stream asked": {func(h *hunted) {
		h.set(h.a)
		for h.StreamQuery(h.c, h.a) == driver.ErrorNotReady { //nolint:revive // it waits by asking
		}
		h.get(h.b)
	}, 0, 0},
	"idle, which nobody learns from": {func(h *hunted) {
		h.set(h.a)
		for !soft.Idle() { //nolint:revive // it waits by asking
		}
		h.get(h.b)
	}, 1, 1},
	"legacy after a blocking stream": {func(h *hunted) {
		s := newStream(h.t, h.Driver, h.c, 0)
		h.set(s)
		h.get(driver.LegacyStream)
	}, 0, 0},
	"a blocking stream after legacy": {func(h *hunted) {
		s := newStream(h.t, h.Driver, h.c, 0)
		h.set(driver.LegacyStream)
		h.get(s)
	}, 0, 0},
	"legacy after a non-blocking stream": {func(h *hunted) { h.set(h.a); h.get(driver.LegacyStream) }, 1, 1},
	"two blocking streams by way of legacy": {func(h *hunted) {
		s, q := newStream(h.t, h.Driver, h.c, 0), newStream(h.t, h.Driver, h.c, 0)
		h.set(s)
		h.ok(h.MemsetD8Async(h.c, alloc(h.t, h.Driver, h.c, 4), 1, 4, driver.LegacyStream))
		h.get(q)
	}, 0, 0},
	"two blocking streams": {func(h *hunted) {
		h.set(newStream(h.t, h.Driver, h.c, 0))
		h.get(newStream(h.t, h.Driver, h.c, 0))
	}, 1, 1},
	"rows that interleave": {func(h *hunted) {
		h.ok(h.MemsetD2D8Async(h.c, h.p, 64, 1, 32, 64, h.a))
		h.ok(h.MemsetD2D8Async(h.c, h.p+32, 64, 2, 32, 63, h.b))
	}, 0, 0},
	"rows that overlap": {func(h *hunted) {
		h.ok(h.MemsetD2D8Async(h.c, h.p, 64, 1, 32, 64, h.a))
		h.ok(h.MemsetD2D8Async(h.c, h.p+31, 64, 2, 32, 63, h.b))
	}, 1, 1},
	"kernels that read":  {func(h *hunted) { h.launch(h.sum, h.p, 1024, h.a); h.launch(h.sum, h.p, 1024, h.b) }, 0, 0},
	"kernel that writes": {func(h *hunted) { h.launch(h.scale, h.p, 1024, h.a); h.launch(h.sum, h.p, 1024, h.b) }, 1, 0},
	"kernels on two halves": {func(h *hunted) {
		h.launch(h.scale, h.p, 512, h.a)
		h.launch(h.scale, h.p+2048, 512, h.b)
	}, 0, 0},
	"kernel and host function": {func(h *hunted) {
		h.launch(h.scale, h.p, 1024, h.a)
		told := make(chan struct{})
		h.ok(h.LaunchHostGo(h.c, h.a, func() { close(told) }))
		<-told
		h.launch(h.scale, h.p, 1024, h.b)
	}, 0, 0},
	"free in another stream": {func(h *hunted) {
		p, res := h.MemAllocAsync(h.c, 64, h.a)
		h.ok(res)
		h.ok(h.MemsetD8Async(h.c, p, 1, 64, h.a))
		h.ok(h.MemFreeAsync(h.c, p, h.b))
	}, 1, 1},
	"allocation in another stream": {func(h *hunted) {
		p, res := h.MemAllocAsync(h.c, 64, h.a)
		h.ok(res)
		h.ok(h.MemsetD8Async(h.c, p, 1, 64, h.b))
		h.edge(h.b, h.a)
		h.ok(h.MemFreeAsync(h.c, p, h.a))
	}, 1, 1},
	"allocated and freed in order": {func(h *hunted) {
		p, res := h.MemAllocAsync(h.c, 64, h.a)
		h.ok(res)
		h.edge(h.a, h.b)
		h.ok(h.MemsetD8Async(h.c, p, 1, 64, h.b))
		h.ok(h.MemFreeAsync(h.c, p, h.b))
	}, 0, 0},
	"peer copy": {func(h *hunted) {
		c := primary(h.t, h.Driver, 1)
		q := newStream(h.t, h.Driver, c, 1)
		far := alloc(h.t, h.Driver, c, 4096)
		h.set(h.a)
		h.ok(h.MemcpyPeerAsync(c, far, c, h.p, h.c, 4096, q))
	}, 1, 1},
	"word written and waited for": {func(h *hunted) {
		w := alloc(h.t, h.Driver, h.c, 4)
		h.ok(h.MemsetD8Async(h.c, w, 0, 4, h.a))
		h.ok(h.StreamSynchronize(h.c, h.a))
		h.set(h.a)
		h.ok(h.StreamWriteValue32(h.c, h.a, w, 1, 0))
		h.ok(h.StreamWaitValue32(h.c, h.b, w, 1, 1))
		h.get(h.b)
	}, 0, 0},
	"word waited for before it is written": {func(h *hunted) {
		w := alloc(h.t, h.Driver, h.c, 4)
		h.ok(h.MemsetD8Async(h.c, w, 0, 4, h.a))
		h.ok(h.StreamSynchronize(h.c, h.a))
		h.ok(h.StreamWaitValue32(h.c, h.b, w, 2, 0))
		h.get(h.b)
		h.set(h.a)
		h.ok(h.StreamWriteValue32(h.c, h.a, w, 1, 0)) // not yet
		h.ok(h.StreamWriteValue32(h.c, h.a, w, 2, 0))
		h.ok(h.StreamSynchronize(h.c, h.b))
	}, 0, 0},
	"blocking copy": {func(h *hunted) {
		h.set(h.a)
		h.ok(h.MemcpyDtoHBytes(h.c, make([]byte, 4096), h.p)) // on the legacy stream: no edge
		h.ok(h.StreamSynchronize(h.c, h.a))
		h.set(h.b)
	}, 1, 1},
	"pooled event":      {func(h *hunted) { h.set(h.a); h.ok(h.OrderStreams(h.c, h.a, h.c, h.b, false)); h.get(h.b) }, 0, 0},
	"two kernels":       {func(h *hunted) { h.launch(h.sum, h.p, 1024, h.a); h.launch(h.sum, h.p, 1024, h.b) }, 0, 0},
	"kernel and memset": {func(h *hunted) { h.launch(h.sum, h.p, 1024, h.a); h.set(h.b) }, 1, 1},
	"kernel and copy in order": {func(h *hunted) {
		h.set(h.a)
		h.edge(h.a, h.b)
		h.launch(h.scale, h.p, 1024, h.b)
		h.edge(h.b, h.a)
		h.get(h.a)
	}, 0, 0},
	"to pageable memory": {func(h *hunted) {
		h.set(h.a)
		b := make([]byte, 4096)
		h.ok(h.StreamSynchronize(h.c, h.a))
		h.ok(h.MemcpyDtoHBytes(h.c, b, h.p))
		h.set(h.b)
	}, 0, 0},
	"captured": {func(h *hunted) {
		h.ok(h.StreamBeginCapture(h.c, h.a, driver.StreamCaptureModeRelaxed))
		h.set(h.a)
		g, res := h.StreamEndCapture(h.c, h.a)
		h.ok(res)
		h.ok(h.GraphDestroy(g))
		h.get(h.b)
	}, 0, 0},
	"hand-over of a kernel's result": {func(h *hunted) {
		h.launch(h.scale, h.p, 1024, h.a)
		h.HandOver(h.c, h.a, h.p, 4096)
		h.get(h.b)
	}, 1, 1},
	"hand-over with an edge": {func(h *hunted) {
		h.launch(h.scale, h.p, 1024, h.a)
		h.HandOver(h.c, h.a, h.p, 4096)
		h.edge(h.a, h.b)
		h.get(h.b)
	}, 0, 0},
	"hand-over of foreign memory": {func(h *hunted) {
		// Made by the driver that nobody checks: as by another library.
		far := alloc(h.t, open(h.t), h.c, 4096)
		h.HandOver(h.c, h.a, far, 4096)
		h.ok(h.MemcpyAsync(h.c, h.p, far, 4096, h.b))
		h.GiveBack(far)
		h.ok(h.MemsetD8Async(h.c, far, 1, 4096, h.a)) // its owner's again
	}, 1, 1},
	"memset and host function": {func(h *hunted) {
		h.set(h.a)
		told := make(chan struct{})
		h.ok(h.LaunchHostGo(h.c, h.a, func() { close(told) }))
		<-told
		h.set(h.b)
	}, 0, 0},
}

func TestHunt(t *testing.T) {
	for name, c := range huntCases {
		t.Run(name, func(t *testing.T) {
			h := newHunted(t)
			h.races()
			c.run(h)
			// What changed while a kernel ran counts as written by it (Launch.Bytes): where the two of a race
			// happened to run at once, the one that only reads is told of as a writer, too.
			races := slices.DeleteFunc(h.races(), func(r soft.Race) bool {
				return r.Second.Op == "kernel hunt_sum" && r.Second.Kind == hunt.Write
			})
			require.Len(t, races, c.device)
			h.ok(h.CtxSynchronize(h.c))
		})
	}
	require.Positive(t, soft.Hunted().Ops)
}

// In a graph the edges of the graph count, not the order in which the nodes run here.
func TestHuntInGraphs(t *testing.T) {
	for _, joined := range []bool{true, false} {
		t.Run(fmt.Sprint("joined ", joined), func(t *testing.T) {
			h := newHunted(t)
			h.races()
			q := alloc(t, h.Driver, h.c, 4096)
			h.ok(h.StreamBeginCapture(h.c, h.a, driver.StreamCaptureModeRelaxed))
			h.edge(h.a, h.b)
			h.set(h.a)
			if joined {
				h.edge(h.a, h.b)
			}
			h.ok(h.MemcpyAsync(h.c, q, h.p, 4096, h.b))
			h.edge(h.b, h.a)
			g, res := h.StreamEndCapture(h.c, h.a)
			h.ok(res)
			x, res := h.GraphInstantiateWithParams(h.c, g, &driver.GraphInstantiateParams{})
			h.ok(res)
			h.ok(h.GraphLaunch(h.c, x, h.a))
			h.ok(h.GraphLaunch(h.c, x, h.a)) // launches follow one another
			h.edge(h.a, h.b)
			h.get(h.b)
			races := h.races()
			if joined {
				require.Empty(t, races)
			} else {
				require.Len(t, races, 1)
				require.Contains(t, races[0].Fix, "add an edge to the graph from the memset")
				require.Contains(t, races[0].String(), "check_test.go", "where the node was made")
			}
			h.get(h.b)
			h.ok(h.MemsetD8Async(h.c, q, 1, 4096, h.b))
			h.ok(h.CtxSynchronize(h.c))
			require.Empty(t, h.races())
			h.ok(h.GraphExecDestroy(x))
			h.ok(h.GraphDestroy(g))
		})
	}
}

// A report has the names, both call sites, and the edge that is missing.
func TestHuntReport(t *testing.T) {
	h := newHunted(t)
	h.races()
	h.launch(h.scale, h.p, 1024, h.a)
	h.get(h.b)
	r := h.races()
	require.Len(t, r, 1)
	require.Equal(t, "kernel hunt_scale", r[0].First.Op)
	require.Equal(t, "copy", r[0].Second.Op)
	for _, s := range []soft.RaceSide{r[0].First, r[0].Second} {
		require.NotEmpty(t, s.Site)
		require.True(t, strings.HasSuffix(s.Site[0].File, "check_test.go"), "%v", s.Site)
	}
	require.Contains(t, r[0].Fix, fmt.Sprintf("make the stream %#x of device 0 wait, before the copy, for an event recorded in the stream %#x of device 0 after the kernel hunt_scale", uint64(h.b), uint64(h.a)))
	h.ok(h.CtxSynchronize(h.c))
}

// Check fails a test in which there was a race, once, and says how to get the schedule again.
func TestCheckFailsATest(t *testing.T) {
	h := newHunted(t)
	h.races()
	f := &recorder{}
	soft.Check(f)
	h.set(h.a)
	h.get(h.b)
	f.end()
	require.Len(t, f.errors, 1)
	require.Contains(t, f.errors[0], "missing synchronization")
	require.Contains(t, f.errors[0], "HANDOFF_SOFT_SEED")
	h.ok(h.CtxSynchronize(h.c))
	h.races()

	f = &recorder{}
	soft.Check(f)
	h.set(h.a)
	h.edge(h.a, h.b)
	h.get(h.b)
	f.end()
	require.Empty(t, f.errors)
	h.ok(h.CtxSynchronize(h.c))

	f = &recorder{}
	soft.ExpectRaces(f)
	f.end()
	require.Len(t, f.errors, 1, "none was there")
}

// recorder is a test whose failures are kept.
type recorder struct {
	later  []func()
	errors []string
}

func (*recorder) Helper()                     {}
func (r *recorder) Cleanup(f func())          { r.later = append(r.later, f) }
func (r *recorder) Errorf(f string, a ...any) { r.errors = append(r.errors, fmt.Sprintf(f, a...)) }
func (r *recorder) end() {
	for i := len(r.later) - 1; i >= 0; i-- {
		r.later[i]()
	}
}

// A program in any language hunts with HANDOFF_SOFT_CHECK; with a seed its work runs in the
// same order every time, and in another with another seed.
func TestHuntByEnvironment(t *testing.T) {
	run := func(seed string) (order string, races int) {
		f := filepath.Join(t.TempDir(), "races.json")
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), "HANDOFF_SOFT_TEST_CHILD=order", "HANDOFF_SOFT_SEED="+seed, "HANDOFF_SOFT_CHECK="+f)
		out, err := cmd.Output()
		require.NoError(t, err)
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		require.Contains(t, string(b), `"seed":"seed: HANDOFF_SOFT_SEED=`+seed+`"`)
		return string(out), strings.Count(string(b), "\n")
	}
	orders := make(map[string]bool)
	for seed := range 6 {
		s := fmt.Sprint(seed + 1)
		order, races := run(s)
		for range 2 {
			again, n := run(s)
			require.Equal(t, order, again, "seed %s", s)
			require.Equal(t, races, n)
		}
		require.Equal(t, 1, races)
		orders[order] = true
	}
	require.Greater(t, len(orders), 3, "seeds give different orders")
}

// orderChild runs ten kernels on each of four streams, and prints the order in which they ran.
func orderChild() int {
	d, err := driver.Open(&driver.Options{Provider: driver.ProviderSoft})
	if err != nil {
		return 1
	}
	var order []byte
	err = soft.RegisterKernel("hunt_order", []soft.ParamInfo{soft.Int64}, func(l *soft.Launch) {
		order = append(order, byte('a'+l.Int64(0))) // one after another, or the test fails
	})
	c, res := d.DevicePrimaryCtxRetain(0)
	lib, res2 := d.LibraryLoadData(soft.Image("hunt_order"), nil, nil, nil, nil)
	k, res3 := d.LibraryGetKernel(lib, "hunt_order")
	if err != nil || res|res2|res3 != 0 {
		return 1
	}
	p, _ := d.MemAlloc(c, 64)
	mem, res := d.MemAllocHost(c, 16)
	if res != 0 {
		return 1
	}
	w := hostWords(mem, 2)
	var streams []driver.StreamHandle
	for i := range 40 {
		var s driver.StreamHandle
		if i < 4 {
			if s, res = d.StreamCreate(c, 1); res != 0 {
				return 1
			}
			streams = append(streams, s)
		}
		s = streams[i%4]
		w[0], w[1] = uint64(i%4), 8
		extra := []uintptr{1, mem, 2, mem + 8, 0}
		if d.LaunchKernel(c, driver.FunctionHandle(k), 1, 1, 1, 1, 1, 1, 0, s, nil, unsafe.Pointer(unsafe.SliceData(extra))) != 0 {
			return 1
		}
		if i == 30 || i == 31 {
			d.MemsetD8Async(c, p, 1, 64, s) // without an edge
		}
	}
	if d.CtxSynchronize(c) != 0 {
		return 1
	}
	fmt.Println(string(order), d.DevicePrimaryCtxRelease(0))
	return 0
}
