//go:build cgo && linux

package soft_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/driver"
)

// The checking layer of package driver, which is for GPUs, in front of the software device: it knows less than the
// device's own hunt, and finds what it can without inventing anything.
func TestCheckingLayer(t *testing.T) {
	for name, c := range map[string]struct {
		run  func(h *hunted)
		want int
	}{
		"no edge":                   {func(h *hunted) { h.set(h.a); h.get(h.b) }, 1},
		"event":                     {func(h *hunted) { h.set(h.a); h.edge(h.a, h.b); h.get(h.b) }, 0},
		"pooled event":              {func(h *hunted) { h.set(h.a); h.ok(h.OrderStreams(h.c, h.a, h.c, h.b, false)); h.get(h.b) }, 0},
		"event before the work":     {func(h *hunted) { h.edge(h.a, h.b); h.set(h.a); h.get(h.b) }, 1},
		"stream synchronized":       {func(h *hunted) { h.set(h.a); h.ok(h.StreamSynchronize(h.c, h.a)); h.get(h.b) }, 0},
		"other stream synchronized": {func(h *hunted) { h.set(h.a); h.ok(h.StreamSynchronize(h.c, h.b)); h.get(h.b) }, 1},
		"context synchronized":      {func(h *hunted) { h.set(h.a); h.ok(h.CtxSynchronize(h.c)); h.get(h.b) }, 0},
		"event synchronized": {func(h *hunted) {
			h.set(h.a)
			e := newEvent(h.t, h.Driver, h.c, driver.EventDisableTiming)
			h.ok(h.EventRecord(h.c, e, h.a))
			h.ok(h.EventSynchronize(h.c, e))
			h.get(h.b)
		}, 0},
		"legacy after a blocking stream":     {func(h *hunted) { h.set(newStream(h.t, h.Driver, h.c, 0)); h.get(driver.LegacyStream) }, 0},
		"a blocking stream after legacy":     {func(h *hunted) { h.set(driver.LegacyStream); h.get(newStream(h.t, h.Driver, h.c, 0)) }, 0},
		"legacy after a non-blocking stream": {func(h *hunted) { h.set(h.a); h.get(driver.LegacyStream) }, 1},
		"rows that interleave": {func(h *hunted) {
			h.ok(h.MemsetD2D8Async(h.c, h.p, 64, 1, 32, 64, h.a))
			h.ok(h.MemsetD2D8Async(h.c, h.p+32, 64, 2, 32, 63, h.b))
		}, 0},
		"rows that overlap": {func(h *hunted) {
			h.ok(h.MemsetD2D8Async(h.c, h.p, 64, 1, 32, 64, h.a))
			h.ok(h.MemsetD2D8Async(h.c, h.p+31, 64, 2, 32, 63, h.b))
		}, 1},
		"two kernels":       {func(h *hunted) { h.launch(h.sum, h.p, 1024, h.a); h.launch(h.sum, h.p, 1024, h.b) }, 0},
		"kernel and memset": {func(h *hunted) { h.launch(h.sum, h.p, 1024, h.a); h.set(h.b) }, 1},
		"kernel and copy in order": {func(h *hunted) {
			h.set(h.a)
			h.edge(h.a, h.b)
			h.launch(h.scale, h.p, 1024, h.b)
			h.edge(h.b, h.a)
			h.get(h.a)
		}, 0},
		"kernel and host function": {func(h *hunted) {
			h.set(h.a)
			told := make(chan struct{})
			h.ok(h.LaunchHostGo(h.c, h.a, func() { close(told) }))
			<-told
			h.set(h.b)
		}, 0},
		"free in another stream": {func(h *hunted) {
			p, res := h.MemAllocAsync(h.c, 64, h.a)
			h.ok(res)
			h.ok(h.MemsetD8Async(h.c, p, 1, 64, h.a))
			h.ok(h.MemFreeAsync(h.c, p, h.b))
		}, 1},
		"to pageable memory": {func(h *hunted) {
			h.set(h.a)
			b := make([]byte, 4096)
			h.ok(h.StreamSynchronize(h.c, h.a))
			h.ok(h.MemcpyDtoHBytes(h.c, b, h.p))
			h.set(h.b)
		}, 0},
		"captured": {func(h *hunted) {
			h.ok(h.StreamBeginCapture(h.c, h.a, driver.StreamCaptureModeRelaxed))
			h.set(h.a)
			g, res := h.StreamEndCapture(h.c, h.a)
			h.ok(res)
			h.ok(h.GraphDestroy(g))
			h.get(h.b)
		}, 0},
		"hand-over of a kernel's result": {func(h *hunted) {
			h.launch(h.scale, h.p, 1024, h.a)
			h.HandOver(h.c, h.a, h.p, 4096)
			h.get(h.b)
		}, 1},
		"hand-over with an edge": {func(h *hunted) {
			h.launch(h.scale, h.p, 1024, h.a)
			h.HandOver(h.c, h.a, h.p, 4096)
			h.edge(h.a, h.b)
			h.get(h.b)
		}, 0},
		"hand-over of foreign memory": {func(h *hunted) {
			// Made by the driver that nobody checks: as by another library.
			far := alloc(h.t, open(h.t), h.c, 4096)
			h.HandOver(h.c, h.a, far, 4096)
			h.ok(h.MemcpyAsync(h.c, h.p, far, 4096, h.b))
			h.GiveBack(far)
			h.ok(h.MemsetD8Async(h.c, far, 1, 4096, h.a)) // its owner's again
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHunted(t)
			d, err := driver.Open(&driver.Options{Provider: driver.ProviderSoft, Check: true})
			require.NoError(t, err)
			require.True(t, d.Checked())
			require.False(t, h.Checked())
			// What the layer has to know was made before it came.
			h = &hunted{Driver: d, t: t, c: h.c, a: newStream(t, d, h.c, 1), b: newStream(t, d, h.c, 1), p: alloc(t, d, h.c, 4096), sum: h.sum, scale: h.scale}
			before := len(d.Races())
			c.run(h)
			require.Equal(t, c.want, len(d.Races())-before, "%v", d.Races()[before:])
			h.ok(h.CtxSynchronize(h.c))
			h.races() // what the device's own hunt says
		})
	}
}

// HANDOFF_CHECK turns the layer on for any program.
func TestCheckingLayerByEnvironment(t *testing.T) {
	f := filepath.Join(t.TempDir(), "races.json")
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "HANDOFF_SOFT_TEST_CHILD=order", "HANDOFF_SOFT_SEED=1", "HANDOFF_CHECK="+f)
	require.NoError(t, cmd.Run())
	b, err := os.ReadFile(f)
	require.NoError(t, err)
	require.Contains(t, string(b), "missing synchronization")
	require.Empty(t, open(t).Races())
}
