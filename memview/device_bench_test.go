package memview_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/memview"
	"github.com/go-handoff/handoff/stream"
)

// BenchmarkImportDevice is what a view of device memory costs, by the way it
// comes, without an edge and with one. "edge" is the bare record and wait.
func BenchmarkImportDevice(b *testing.B) {
	d := openDevice(b, 0)
	theirs, mine := newStream(b, d), newStream(b, d)
	buf := allocate(b, memoryOf(b, d), 1024, theirs)
	addr := uintptr(buf.Ptr())
	desc := dlpack.Desc{Data: addr, Device: buf.DLDevice(), DType: dlpack.Float32, Shape: ints(16, 16)}
	raw := rawOf(addr, dlpack.Float32, ints(16, 16), ints(16, 1))
	raw.Device, raw.Trusted = buf.DLDevice(), true
	l := &lender{}
	tv := theirs.View()
	known := caiOf(addr, 256, tv.Argument())
	orders := map[string]stream.Order{"no sync": stream.NoSync(), "same stream": stream.On(tv), "ordered": stream.On(mine.View())}
	ways := map[string]func(o stream.Order) (memview.StridedMemoryView, error){
		"lent": func(o stream.Order) (memview.StridedMemoryView, error) {
			v, err := memview.FromLent(raw, l, 0, 0)
			if err != nil {
				return v, err
			}
			return v.Ordered(tv, o)
		},
		"CAI": func(o stream.Order) (memview.StridedMemoryView, error) {
			return memview.FromCAI(known, memview.Unowned(), o, nil)
		},
		"CAI with the device told": func(o stream.Order) (memview.StridedMemoryView, error) {
			return memview.FromCAI(known, memview.Unowned(), o, &memview.CAIOptions{Device: desc.Device})
		},
	}
	e, err := dlpack.ExportDesc(desc, nil)
	require.NoError(b, err)
	defer e.Close()
	ways["DLPack"] = func(o stream.Order) (memview.StridedMemoryView, error) {
		return memview.Import(e, o, &memview.ImportOptions{Producer: tv})
	}
	for way, f := range ways {
		for name, o := range orders {
			b.Run(way+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					v, err := f(o)
					if err != nil {
						b.Fatal(err)
					}
					_ = v.Release()
				}
			})
		}
	}
	b.Run("edge", func(b *testing.B) {
		mv := mine.View()
		for b.Loop() {
			if err := mv.WaitFor(tv); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkReleaseOn is what giving a view back in stream order costs.
func BenchmarkReleaseOn(b *testing.B) {
	d := openDevice(b, 0)
	theirs, mine := newStream(b, d), newStream(b, d)
	buf := allocate(b, memoryOf(b, d), 1024, theirs)
	require.NoError(b, theirs.Synchronize(background))
	desc := &dlpack.Desc{Data: uintptr(buf.Ptr()), Device: buf.DLDevice(), DType: dlpack.Float32, Shape: ints(16, 16)}
	free := func() error { return nil }
	for name, from := range map[string]stream.StreamView{"known producer": theirs.View(), "same stream": mine.View(), "deferred": {}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			mv := mine.View()
			for b.Loop() {
				v := must(must(memview.FromDesc(desc, memview.OnRelease(nil, free))).Ordered(from, stream.NoSync()))
				if err := v.ReleaseOn(mv); err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, memview.Flush(background))
		})
	}
}

// ratio times copies of one size against a contiguous one in the same run, and
// reports the bandwidth of each and their ratio. bytes is what is moved once.
func ratio(b *testing.B, s *device.Stream, bytes int64, plain, strided func() error) {
	once := func(f func() error) time.Duration {
		const rounds = 4
		for range 2 { // the second is warm
			require.NoError(b, f())
		}
		require.NoError(b, s.Synchronize(background))
		best := time.Duration(1<<63 - 1)
		for range 3 {
			start := time.Now()
			for range rounds {
				require.NoError(b, f())
			}
			require.NoError(b, s.Synchronize(background))
			best = min(best, time.Since(start)/rounds)
		}
		return best
	}
	base := once(plain)
	took := once(strided)
	for b.Loop() {
		require.NoError(b, strided())
		require.NoError(b, s.Synchronize(background))
	}
	b.SetBytes(bytes)
	b.ReportMetric(float64(bytes)/base.Seconds()/1e9, "contiguous-GB/s")
	b.ReportMetric(float64(bytes)/took.Seconds()/1e9, "strided-GB/s")
	b.ReportMetric(base.Seconds()/took.Seconds(), "of-contiguous")
}

// scale makes sizes fit the software device.
func scale(n int64) int64 {
	if testdriver.Real() {
		return n
	}
	return max(n/16, 64)
}

// BenchmarkDeviceStrided is a strided copy on the device against a contiguous
// one of the same bytes: 2 GiB of float32 on a GPU.
func BenchmarkDeviceStrided(b *testing.B) {
	d := openDevice(b, 0)
	s := newStream(b, d)
	rows, cols := scale(16384), scale(32768)
	if !testdriver.Real() {
		rows, cols = rows/4, cols/4
	}
	n := rows * cols * 4
	src, dst := allocate(b, memoryOf(b, d), n, s), allocate(b, memoryOf(b, d), n, s)
	require.NoError(b, src.Fill32(3, s))
	view := func(buf *device.Buffer, dt dlpack.DataType, shape, strides []int64) memview.StridedMemoryView {
		return must(memview.FromDesc(&dlpack.Desc{Data: uintptr(buf.Ptr()), Device: buf.DLDevice(), DType: dt, Shape: shape, Strides: strides}, memview.Unowned()))
	}
	plain := func() error { return device.Copy(dst, src, s) }
	transpose := func(name string, dt dlpack.DataType, rows, cols int64) {
		b.Run("transpose "+name, func(b *testing.B) {
			size := rows * cols * int64(dt.ItemSize())
			to := view(dst, dt, ints(cols, rows), nil)
			from := view(src, dt, ints(rows, cols), nil).Transpose()
			same := func() error {
				return d.Driver().MemcpyAsync(s.Context().Handle(), dst.Ptr(), src.Ptr(), uintptr(size), s.Handle()).Err()
			}
			ratio(b, s, size, same, func() error { return memview.CopyOn(to, from, s.View()) })
		})
	}
	transpose("f32", dlpack.Float32, rows, cols)
	transpose("f64", dlpack.Float64, rows, cols/2)
	transpose("f16", dlpack.Float16, rows, cols*2)
	transpose("u8", dlpack.UInt8, rows, cols*4)
	transpose("c128", dlpack.Complex128, rows, cols/4)
	transpose("f32 odd", dlpack.Float32, rows-1, cols-1)
	transpose("f32 even", dlpack.Float32, rows-2, cols-2)
	transpose("f16 odd", dlpack.Float16, rows-1, cols*2-1)
	transpose("u8 odd", dlpack.UInt8, rows-1, cols*4-1)
	transpose("f32 tall", dlpack.Float32, rows*64, cols/64)
	transpose("f32 wide", dlpack.Float32, rows/64, cols*64)
	transpose("f64 square", dlpack.Float64, rows, rows)
	b.Run("NCHW to NHWC f32", func(b *testing.B) {
		e := int64(64)
		if !testdriver.Real() {
			e = 16
		}
		batch := n / 4 / (e * e * e)
		to := view(dst, dlpack.Float32, ints(batch, e, e, e), nil)
		from := must(view(src, dlpack.Float32, ints(batch, e, e, e), nil).Permute(0, 2, 3, 1))
		ratio(b, s, n, plain, func() error { return memview.CopyOn(to, from, s.View()) })
	})
	b.Run("reversed rows f32", func(b *testing.B) {
		to := view(dst, dlpack.Float32, ints(rows, cols), nil)
		from := must(view(src, dlpack.Float32, ints(rows, cols), nil).Slice(memview.All().By(-1)))
		ratio(b, s, n, plain, func() error { return memview.CopyOn(to, from, s.View()) })
	})
}

// BenchmarkHostStrided is the copy of half of the columns of a host array to
// the device, against a contiguous copy of as many pinned bytes: 256 MiB on a
// GPU.
func BenchmarkHostStrided(b *testing.B) {
	d := openDevice(b, 0)
	s := newStream(b, d)
	for _, c := range []struct {
		name string
		cols int64 // of the slice
	}{{"wide columns", 2048}, {"narrow columns", 8}} {
		payload := scale(256<<20) / 4
		rows := payload / c.cols
		n := payload * 4
		dst := allocate(b, memoryOf(b, d), n, s)
		pinned := allocate(b, d.PinnedMemory(), 2*n, s)
		to := must(memview.FromDesc(&dlpack.Desc{Data: uintptr(dst.Ptr()), Device: dst.DLDevice(), DType: dlpack.Float32, Shape: ints(rows, c.cols)}, memview.Unowned()))
		pdesc := &dlpack.Desc{Data: uintptr(pinned.Ptr()), Device: dlpack.Device{Type: dlpack.DeviceCUDAHost}, DType: dlpack.Float32, Shape: ints(rows, 2*c.cols)}
		sources := map[string]memview.StridedMemoryView{
			"pinned":   must(memview.FromDesc(pdesc, memview.Unowned())),
			"pageable": must(memview.FromSlice(seq[float32](int(2*payload)), rows, 2*c.cols)),
		}
		half := must(memview.FromDesc(&dlpack.Desc{Data: uintptr(pinned.Ptr()), Device: dlpack.Device{Type: dlpack.DeviceCUDAHost}, DType: dlpack.Float32, Shape: ints(payload)}, memview.Unowned()))
		flat := must(to.Reshape(payload))
		for name, v := range sources {
			from := must(v.Slice(memview.All(), memview.Range(0, c.cols)))
			b.Run(c.name+"/"+name+" to device", func(b *testing.B) {
				ratio(b, s, n, func() error { return memview.CopyOn(flat, half, s.View()) }, func() error { return memview.CopyOn(to, from, s.View()) })
			})
			b.Run(c.name+"/device to "+name, func(b *testing.B) {
				ratio(b, s, n, func() error { return memview.CopyOn(half, flat, s.View()) }, func() error { return memview.CopyOn(from, to, s.View()) })
			})
		}
	}
}

// TestDeviceAllocations holds what the hot path of calls with device arrays
// promises.
func TestDeviceAllocations(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	b := allocate(t, memoryOf(t, d), 1024, s)
	raw := rawOf(uintptr(b.Ptr()), dlpack.Float32, ints(16, 16), ints(16, 1))
	raw.Device, raw.Trusted = b.DLDevice(), true
	l := &lender{}
	v := must(memview.FromLent(raw, l, 0, 0))
	sv := s.View()
	on := stream.On(sv)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = sink.v.SetLent(raw, l, 0, 0)
		sink.n += int64(sink.v.DeviceID())
		if sink.v.IsDeviceAccessible() && !sink.v.IsHostAccessible() && sink.v.MemoryKind() == memview.MemoryDevice {
			sink.n++
		}
	}), "a lent array on a device")
	require.Zero(t, testing.AllocsPerRun(100, func() { sink.v, _ = v.Ordered(stream.StreamView{}, stream.NoSync()) }), "nothing to order, nothing to keep")
	drv := d.Driver()
	require.LessOrEqual(t, testdriver.AllocsPerRun(drv, 100, func() { sink.v, _ = v.Ordered(sv, on) }), 1.0, "the streams that the view keeps")
	require.Zero(t, testdriver.AllocsPerRun(drv, 100, func() { _ = must(v.Ordered(stream.StreamView{}, stream.NoSync())).Release() }))
	w := must(v.Ordered(sv, on))
	require.Zero(t, testdriver.AllocsPerRun(drv, 100, func() { _ = w.ReleaseOn(sv) }), "back to the same stream")
}
