package device_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/driver"
)

// The bare driver calls, to compare the objects with, and with the same calls
// in a C loop.

func BenchmarkDriverOrder(bm *testing.B) {
	d := open(bm, 0)
	a, b := newStream(bm, d), newStream(bm, d)
	drv, c := d.Driver(), a.Context().Handle()
	bm.ReportAllocs()
	for bm.Loop() {
		if res := drv.OrderStreams(c, a.Handle(), c, b.Handle(), false); res != driver.Success {
			bm.Fatal(res)
		}
	}
}

func BenchmarkDriverAllocateFree(bm *testing.B) {
	d := open(bm, 0)
	s := newStream(bm, d)
	drv, c := d.Driver(), s.Context().Handle()
	bm.ReportAllocs()
	for bm.Loop() {
		p, res := drv.MemAllocAsync(c, 1024, s.Handle())
		if res != driver.Success {
			bm.Fatal(res)
		}
		if res := drv.MemFreeAsync(c, p, s.Handle()); res != driver.Success {
			bm.Fatal(res)
		}
	}
}

func BenchmarkDriverPointerKind(bm *testing.B) {
	d := open(bm, 0)
	s := newStream(bm, d)
	b := allocate(bm, d, 64, s)
	require.NoError(bm, s.Synchronize(background))
	drv := d.Driver()
	bm.ReportAllocs()
	for bm.Loop() {
		if _, res := drv.PointerKind(b.Ptr()); res != driver.Success {
			bm.Fatal(res)
		}
	}
}

func BenchmarkDriverQuery(bm *testing.B) {
	d := open(bm, 0)
	s := newStream(bm, d)
	drv, c := d.Driver(), s.Context().Handle()
	bm.ReportAllocs()
	for bm.Loop() {
		drv.StreamQuery(c, s.Handle())
	}
}
