package memview_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/memview"
	"github.com/go-handoff/handoff/memview/internal/kernels"
	_ "github.com/go-handoff/handoff/memview/softcopy"
	"github.com/go-handoff/handoff/stream"
)

// area is memory of some kind with a host mirror of what is expected in it.
type area struct {
	kind string
	dev  dlpack.Device
	addr uintptr
	buf  *device.Buffer // nil for Go memory
	mem  []byte         // Go memory, or nil
	want []byte
}

var areaKinds = []string{"go", "pinned", "managed", "device", "other device", "pinned that says CPU"}

func newArea(t testing.TB, kind string, size int, s *device.Stream) *area {
	t.Helper()
	a := &area{kind: kind, dev: dlpack.CPU, want: random(size)}
	d := s.Device()
	switch kind {
	case "go":
		a.mem = slices.Clone(a.want)
		a.addr = foreign(t, a.mem)
		return a
	case "pinned", "pinned that says CPU":
		a.buf = allocate(t, d.PinnedMemory(), int64(size), s)
	case "managed":
		a.buf = allocate(t, must(d.ManagedMemory()), int64(size), s)
	case "device":
		a.buf = allocate(t, memoryOf(t, d), int64(size), s)
	case "other device":
		far := openDevice(t, 1)
		o := newStream(t, far)
		a.buf = allocate(t, memoryOf(t, far), int64(size), o)
		require.NoError(t, o.Synchronize(background))
	}
	a.addr = uintptr(a.buf.Ptr())
	if kind != "pinned that says CPU" {
		a.dev = a.buf.DLDevice()
		if a.dev.Type != dlpack.DeviceCUDA {
			a.dev.ID = 0
		}
	}
	a.set(t, s)
	return a
}

// set writes what is expected, get reads what is there.
func (a *area) set(t testing.TB, s *device.Stream) {
	if a.mem != nil {
		copy(a.mem, a.want)
		return
	}
	require.NoError(t, a.buf.CopyFromHostSync(background, a.want, a.streamOf(t, s)))
}

func (a *area) get(t testing.TB, s *device.Stream) []byte {
	if a.mem != nil {
		return a.mem
	}
	out := make([]byte, len(a.want))
	require.NoError(t, a.buf.CopyToHost(background, out, a.streamOf(t, s)))
	return out
}

func (a *area) streamOf(t testing.TB, s *device.Stream) *device.Stream {
	if a.kind != "other device" {
		return s
	}
	return must(openDevice(t, 1).DefaultStream())
}

// view lays a layout over the area, and over its mirror.
func (a *area) view(t testing.TB, dt dlpack.DataType, shape, strides []int64, offset int64) (real, mirror memview.StridedMemoryView) {
	t.Helper()
	item := uintptr(dt.ItemSize())
	d := dlpack.Desc{Data: a.addr + uintptr(offset)*item, Device: a.dev, DType: dt, Shape: shape, Strides: strides}
	real = must(memview.FromDesc(&d, memview.Unowned()))
	d.Data, d.Device = foreign(t, a.want)+uintptr(offset)*item, dlpack.CPU
	return real, must(memview.FromDesc(&d, memview.Unowned()))
}

// someLayout draws strides for a shape: permuted, with gaps, reversed, and
// with repeats if that is allowed. It returns the room that they need.
func someLayout(t *rapid.T, name string, shape []int64, repeat bool) (strides []int64, offset, room int64) {
	order := rapid.Permutation(seqInts(len(shape))).Draw(t, name+" order")
	strides = make([]int64, len(shape))
	step := int64(1)
	for _, i := range order {
		step *= rapid.SampledFrom([]int64{1, 1, 1, 2, 3}).Draw(t, name+" gap")
		strides[i] = step
		switch rapid.IntRange(0, 7).Draw(t, name+" what") {
		case 0:
			strides[i] = -step
			offset += step * (shape[i] - 1)
		case 1:
			if repeat {
				strides[i] = 0
				continue
			}
		}
		step *= shape[i]
	}
	return strides, offset, step
}

func seqInts(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

var copyTypes = []dlpack.DataType{
	dlpack.UInt8, dlpack.BFloat16, dlpack.Float32, dlpack.Float64, dlpack.Complex128,
	{Code: dlpack.CodeFloat, Bits: 32, Lanes: 3},
	{Code: dlpack.CodeUInt, Bits: 8, Lanes: 5},
}

// TestCopyOn copies between any two kinds of memory and any two layouts, and
// compares every byte with what Copy does on the host.
func TestCopyOn(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	const room = 1 << 18
	for _, to := range areaKinds {
		for _, from := range areaKinds {
			t.Run(to+" from "+from, func(t *testing.T) {
				dst, src := newArea(t, to, room, s), newArea(t, from, room, s)
				rapid.Check(t, func(rt *rapid.T) {
					n := rapid.IntRange(0, 10).Draw(rt, "axes")
					shape := make([]int64, n)
					size := int64(1)
					for i := range shape {
						shape[i] = rapid.SampledFrom([]int64{1, 2, 3, 4, 17, 33}).Draw(rt, "extent")
						if size*shape[i] > 600 {
							shape[i] = 1
						}
						size *= shape[i]
					}
					dt := rapid.SampledFrom(copyTypes).Draw(rt, "dtype")
					ds, do, dr := someLayout(rt, "dst", shape, false)
					ss, so, sr := someLayout(rt, "src", shape, true)
					if max(dr, sr)*int64(dt.ItemSize()) > room-256 {
						return
					}
					do += rapid.Int64Range(0, 3).Draw(rt, "dst offset")
					v, vm := dst.view(t, dt, shape, ds, do)
					w, wm := src.view(t, dt, shape, ss, so)
					require.NoError(rt, memview.Copy(vm, wm))
					require.NoError(rt, memview.CopyOn(v, w, s.View()))
					require.NoError(rt, s.Synchronize(background))
					got := dst.get(t, s)
					if !bytes.Equal(got, dst.want) {
						dst.set(t, s)
						i := 0
						for got[i] == dst.want[i] {
							i++
						}
						rt.Fatalf("byte %d differs: %v from %v", i, v.Layout(), w.Layout())
					}
				})
			})
		}
	}
}

// TestCopyOnLarge has layouts whose way is special: tiles, rows, planes, many
// axes, rings of several slots.
func TestCopyOnLarge(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	type layout struct {
		name            string
		dt              dlpack.DataType
		shape           []int64
		dst, src        []int64
		doff, soff, max int64
	}
	many := make([]int64, 14)
	manyD, manyS := make([]int64, 14), make([]int64, 14)
	for i := range many {
		many[i], manyD[i], manyS[i] = 2, 1<<(13-i), 1<<i
	}
	layouts := []layout{
		{name: "transpose", dt: dlpack.Float32, shape: ints(200, 333), dst: ints(333, 1), src: ints(1, 200), max: 66600},
		{name: "transpose of whole tiles", dt: dlpack.Float32, shape: ints(256, 128), dst: ints(128, 1), src: ints(1, 256), max: 32768},
		{name: "transpose of many tiles", dt: dlpack.UInt8, shape: ints(70, 2000), dst: ints(2000, 1), src: ints(1, 70), max: 140000},
		{name: "batched transpose", dt: dlpack.Float64, shape: ints(3, 2, 40, 70), dst: ints(5600, 2800, 70, 1), src: ints(5600, 2800, 1, 40), max: 16800},
		{name: "planes turned", dt: dlpack.Float32, shape: ints(40, 20, 50), dst: ints(1000, 50, 1), src: ints(1, 40, 800), max: 40000},
		{name: "wide transpose", dt: dlpack.Complex128, shape: ints(65, 33), dst: ints(33, 1), src: ints(1, 65), max: 2145},
		{name: "half transpose reversed", dt: dlpack.BFloat16, shape: ints(100, 90), dst: ints(90, 1), src: ints(-1, 100), soff: 99, max: 9000},
		{name: "rows", dt: dlpack.Float32, shape: ints(100, 64), dst: ints(64, 1), src: ints(96, 1), max: 9600},
		{name: "odd rows", dt: dlpack.UInt8, shape: ints(100, 67), dst: ints(67, 1), src: ints(97, 1), soff: 1, max: 9800},
		{name: "planes", dt: dlpack.Float32, shape: ints(5, 20, 64), dst: ints(20*64, 64, 1), src: ints(30*96, 96, 1), max: 5 * 30 * 96},
		{name: "planes with a crooked gap", dt: dlpack.Float32, shape: ints(5, 20, 64), dst: ints(20*64, 64, 1), src: ints(30*96+4, 96, 1), max: 5*30*96 + 16},
		{name: "column", dt: dlpack.Float32, shape: ints(20000), dst: ints(1), src: ints(3), max: 60000},
		{name: "fourteen axes", dt: dlpack.Float32, shape: many, dst: manyD, src: manyS, max: 1 << 14},
		{name: "ring", dt: dlpack.Float32, shape: ints(3000, 4000), dst: ints(4000, 1), src: ints(4003, 1), soff: 3, max: 3000*4003 + 3},
		{name: "ring of turned memory", dt: dlpack.Float32, shape: ints(3000, 3100), dst: ints(3100, 1), src: ints(1, 3000), max: 3000 * 3100},
	}
	for _, l := range layouts {
		for _, ends := range [][2]string{{"device", "device"}, {"device", "go"}, {"go", "device"}, {"pinned", "device"}, {"device", "pinned"}, {"other device", "device"}} {
			if l.max > 1<<20 && (ends[0] == "pinned" || ends[0] == "other device") {
				continue // the small ones show it
			}
			t.Run(fmt.Sprintf("%s/%s from %s", l.name, ends[0], ends[1]), func(t *testing.T) {
				size := int(l.max)*l.dt.ItemSize() + 64
				dst, src := newArea(t, ends[0], size, s), newArea(t, ends[1], size, s)
				v, vm := dst.view(t, l.dt, l.shape, l.dst, l.doff)
				w, wm := src.view(t, l.dt, l.shape, l.src, l.soff)
				require.NoError(t, memview.Copy(vm, wm))
				require.NoError(t, memview.CopyOn(v, w, s.View()))
				require.NoError(t, s.Synchronize(background))
				require.True(t, bytes.Equal(dst.want, dst.get(t, s)))
				// And the other way round.
				if ends[0] == ends[1] {
					copy(src.want, random(len(src.want) + 8)[8:])
					src.set(t, s)
					require.NoError(t, memview.Copy(wm, vm))
					require.NoError(t, w.CopyFrom(v, s.View()))
					require.NoError(t, s.Synchronize(background))
					require.True(t, bytes.Equal(src.want, src.get(t, s)))
				}
			})
		}
	}
}

// TestTransposeKernels runs every kernel that works by tiles on whole tiles and
// on edges, in a batch, at the least alignment that it takes.
func TestTransposeKernels(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	types := map[int64]dlpack.DataType{1: dlpack.UInt8, 2: dlpack.BFloat16, 4: dlpack.Float32, 8: dlpack.Float64, 16: dlpack.Complex128}
	for _, tile := range kernels.Tiles {
		t.Run(tile.Name, func(t *testing.T) {
			dt := types[tile.Width]
			for _, more := range []int64{0, 1, 3} {
				// The size and the least alignment at which it is this one's turn.
				var rows, cols, align int64
				for _, size := range [][2]int64{
					{2*tile.Rows + more, 2*tile.Cols + 2*more},
					{tile.Rows + more, tile.Cols + more},       // a larger kernel of the same words exists
					{2*tile.Rows + more, tile.Cols - 1 - more}, // the last resort
				} {
					for align = tile.Word; align <= kernels.Sector; align *= 2 {
						if kernels.Pick(tile.Width, align, size[0], size[1]).Name == tile.Name {
							break
						}
					}
					if rows, cols = size[0], size[1]; align <= kernels.Sector {
						break
					}
				}
				require.Equal(t, tile.Name, kernels.Pick(tile.Width, align, rows, cols).Name)
				// Odd multiples of that.
				w := align / tile.Width
				pitch := func(n int64) int64 { return ((n+w-1)/w | 1) * w }
				sp, dp := pitch(rows), pitch(cols)
				room := max(rows*dp, cols*sp)*2 + 2*w
				size := int(room*tile.Width) + 64
				dst, src := newArea(t, "device", size, s), newArea(t, "device", size, s)
				shape := ints(2, rows, cols)
				v, vm := dst.view(t, dt, shape, ints(rows*dp, dp, 1), w)
				x, xm := src.view(t, dt, shape, ints(cols*sp, 1, sp), w)
				require.NoError(t, memview.Copy(vm, xm))
				require.NoError(t, memview.CopyOn(v, x, s.View()))
				require.NoError(t, s.Synchronize(background))
				require.True(t, bytes.Equal(dst.want, dst.get(t, s)), shape)
			}
		})
	}
}

// TestCopyOnNarrowPinnedRows: a kernel reads short rows of pinned memory that lie
// close together or are whole sectors; the host gathers others, and what is no pinned memory.
func TestCopyOnNarrowPinnedRows(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	for _, c := range []struct {
		from  string
		pitch int64 // of rows of 8 elements
		host  bool
		first int64 // of the elements of the array
	}{{"pinned", 16, false, 4}, {"pinned", 40, true, 4}, {"pinned", 40, false, 8}, {"go", 16, true, 4}} {
		t.Run(fmt.Sprint(c.from, c.pitch, c.first), func(t *testing.T) {
			const rows = 3000
			dst, src := newArea(t, "device", rows*8*4+64, s), newArea(t, c.from, int(rows*c.pitch*4+64), s)
			v, vm := dst.view(t, dlpack.Float32, ints(rows, 8), ints(8, 1), 0)
			w, wm := src.view(t, dlpack.Float32, ints(rows, 8), ints(c.pitch, 1), c.first)
			require.NoError(t, memview.Copy(vm, wm))
			require.NoError(t, memview.CopyOn(v, w, s.View()))
			require.NoError(t, s.Synchronize(background))
			require.True(t, bytes.Equal(dst.want, dst.get(t, s)))
			if testdriver.Real() {
				return
			}
			calls.breaking(t, "cuLaunchHostFunc", func() {
				err := memview.CopyOn(v, w, s.View())
				require.Equal(t, c.host, err != nil, err)
			})
			require.NoError(t, s.Synchronize(background))
		})
	}
}

// TestPinnedIsMapped: the short way for narrow rows is not missed on any driver.
func TestPinnedIsMapped(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	pinned := allocate(t, d.PinnedMemory(), 1<<16, s)
	for _, at := range []uintptr{0, 4, 40000} {
		require.True(t, memview.Mapped(s.View(), uintptr(pinned.Ptr())+at), at)
	}
	require.False(t, memview.Mapped(s.View(), foreign(t, make([]byte, 4096))))
}

// TestCopyOnShared: of a long copy of narrow pinned rows the host gathers a part while a kernel
// reads the rest, and both come before what is queued afterwards.
func TestCopyOnShared(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	const rows = 1<<20 + 7
	dst, src := newArea(t, "device", rows*32+64, s), newArea(t, "pinned", rows*64+64, s)
	v, vm := dst.view(t, dlpack.Float32, ints(rows, 8), ints(8, 1), 0)
	w, wm := src.view(t, dlpack.Float32, ints(rows, 8), ints(16, 1), 4)
	require.NoError(t, memview.Copy(vm, wm))
	require.NoError(t, memview.CopyOn(v, w, s.View()))
	require.NoError(t, s.Synchronize(background))
	require.True(t, bytes.Equal(dst.want, dst.get(t, s)))
	if testdriver.Real() {
		return
	}
	for _, call := range []string{"cuLaunchHostFunc", "cuLaunchKernel"} {
		calls.breaking(t, call, func() { require.Error(t, memview.CopyOn(v, w, s.View()), "both take part") })
		require.NoError(t, s.Synchronize(background))
		require.NoError(t, memview.CopyOn(v, w, s.View()))
		require.NoError(t, s.Synchronize(background))
		require.True(t, bytes.Equal(dst.want, dst.get(t, s)))
	}
}

func TestCopyOnOrder(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	for _, kind := range []string{"go", "pinned", "device"} {
		t.Run("B220 B355 "+kind, func(t *testing.T) {
			testdriver.HoldUp(t)
			src := newArea(t, kind, 4096, s)
			mid := newArea(t, "device", 4096, s)
			out := newArea(t, "go", 4096, s)
			a, _ := src.view(t, dlpack.Float32, ints(16, 8), ints(16, 2), 0)
			b, _ := mid.view(t, dlpack.Float32, ints(16, 8), nil, 0)
			c, _ := out.view(t, dlpack.Float32, ints(16, 8), ints(1, 16), 0)
			before := slices.Clone(out.mem)
			require.NoError(t, memview.PrepareCopies(s.View()))
			open := block(t, s)
			require.NoError(t, memview.CopyOn(b, a, s.View()))
			require.NoError(t, memview.CopyOn(c, b, s.View()))
			require.Equal(t, before, out.mem, "nothing has happened yet, and the host was not held up")
			require.False(t, must(s.Done()))
			open()
			require.NoError(t, s.Synchronize(background))
			require.NotEqual(t, before, out.mem)
			m, _ := src.view(t, dlpack.Float32, ints(16, 8), ints(16, 2), 0)
			if src.mem != nil {
				for i := range int64(16) {
					for j := range int64(8) {
						require.Equal(t, must(memview.At[float32](m, i, j)), must(memview.At[float32](c, i, j)))
					}
				}
			}
		})
	}
	t.Run("host memory is read in the order of the stream", func(t *testing.T) {
		testdriver.HoldUp(t)
		a, b := newArea(t, "device", 4096, s), newArea(t, "device", 4096, s)
		host := newArea(t, "go", 4096, s)
		v, vm := a.view(t, dlpack.Float32, ints(64), ints(2), 0)
		h, hm := host.view(t, dlpack.Float32, ints(64), ints(3), 0)
		w, wm := b.view(t, dlpack.Float32, ints(64), ints(1), 0)
		require.NoError(t, memview.PrepareCopies(s.View()))
		open := block(t, s)
		require.NoError(t, memview.CopyOn(h, v, s.View()))
		require.NoError(t, memview.CopyOn(w, h, s.View()))
		open()
		require.NoError(t, s.Synchronize(background))
		require.NoError(t, memview.Copy(hm, vm))
		require.NoError(t, memview.Copy(wm, hm))
		require.True(t, bytes.Equal(b.want, b.get(t, s)))
	})
	t.Run("B151 lent host memory is kept by the copy", func(t *testing.T) {
		testdriver.HoldUp(t)
		l := &lender{}
		dst := newArea(t, "device", 256, s)
		v, _ := dst.view(t, dlpack.Float32, ints(8), nil, 0)
		w := must(memview.FromLent(rawOf(foreign(t, seq[float32](8)), dlpack.Float32, ints(8), nil), l, 0, 0))
		require.NoError(t, memview.PrepareCopies(s.View()))
		open := block(t, s)
		require.NoError(t, memview.CopyOn(v, w, s.View()))
		l.gen.Add(1)
		require.EqualValues(t, 1, l.retained.Load())
		require.Zero(t, l.released.Load())
		open()
		require.NoError(t, s.Synchronize(background))
		require.NoError(t, memview.Flush(background))
		require.EqualValues(t, 1, l.released.Load())
	})
	t.Run("overlap", func(t *testing.T) {
		a := newArea(t, "device", 4096, s)
		v, vm := a.view(t, dlpack.Int32, ints(500), ints(1), 3)
		w, wm := a.view(t, dlpack.Int32, ints(500), ints(-1), 510)
		require.NoError(t, memview.Copy(vm, wm))
		require.NoError(t, memview.CopyOn(v, w, s.View()))
		require.NoError(t, memview.CopyOn(v, v, s.View()))
		require.NoError(t, s.Synchronize(background))
		require.True(t, bytes.Equal(a.want, a.get(t, s)))
	})
}

func TestCopyOnRefuses(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	a, b := newArea(t, "device", 4096, s), newArea(t, "go", 4096, s)
	v, _ := a.view(t, dlpack.Float32, ints(4, 4), nil, 0)
	w, _ := b.view(t, dlpack.Float32, ints(4, 4), nil, 0)
	on := s.View()
	require.ErrorIs(t, memview.CopyOn(v.AsReadOnly(), w, on), dlpack.ErrReadOnly)
	require.ErrorIs(t, memview.CopyOn(v, must(w.View(dlpack.Int32)), on), dlpack.ErrDType)
	require.ErrorIs(t, memview.CopyOn(v, must(w.Reshape(16)), on), dlpack.ErrLayout)
	require.ErrorIs(t, memview.CopyOn(memview.StridedMemoryView{}, w, on), dlpack.ErrNull)
	require.ErrorIs(t, memview.CopyOn(v, w, stream.StreamView{}), stream.ErrInvalid)
	twice, _ := a.view(t, dlpack.Float32, ints(4, 4), ints(0, 1), 0)
	require.ErrorIs(t, memview.CopyOn(twice, w, on), dlpack.ErrLayout)
	rocm := must(memview.FromDesc(&dlpack.Desc{Data: 0x10000, Device: dlpack.Device{Type: dlpack.DeviceROCM}, DType: dlpack.Float32, Shape: ints(4, 4)}, memview.Unowned()))
	require.ErrorIs(t, memview.CopyOn(v, rocm, on), dlpack.ErrDevice)
	l := &lender{}
	gone := must(memview.FromLent(rawOf(foreign(t, seq[float32](16)), dlpack.Float32, ints(4, 4), nil), l, 0, 0))
	l.gen.Add(1)
	require.ErrorIs(t, memview.CopyOn(v, gone, on), dlpack.ErrClosed)
	t.Run("B029 B044 empty views", func(t *testing.T) {
		e := must(memview.FromDesc(&dlpack.Desc{Device: dlpack.Device{Type: dlpack.DeviceCUDA}, DType: dlpack.Float32, Shape: ints(0, 3)}, memview.Unowned()))
		f := must(memview.FromDesc(&dlpack.Desc{Device: dlpack.CPU, DType: dlpack.Float32, Shape: ints(0, 3), Strides: ints(7, 9)}, memview.Unowned()))
		_, _, queries, _, ok := calls.during(func() {
			require.NoError(t, memview.CopyOn(e, f, on))
			require.NoError(t, memview.CopyOn(e, f, stream.StreamView{}), "no stream is needed for nothing")
		})
		if ok {
			require.Zero(t, queries)
		}
	})
	t.Run("R031 packed elements", func(t *testing.T) {
		dense := func(a *area, n int64, strides []int64) memview.StridedMemoryView {
			x, _ := a.view(t, dlpack.Float4E2M1FN, ints(n), strides, 0)
			return x
		}
		require.NoError(t, memview.CopyOn(dense(a, 64, nil), dense(b, 64, nil), on))
		require.NoError(t, s.Synchronize(background))
		require.Equal(t, b.mem[:32], a.get(t, s)[:32])
		require.ErrorIs(t, memview.CopyOn(dense(a, 63, nil), dense(b, 63, nil), on), dlpack.ErrNotSupported)
		require.ErrorIs(t, memview.CopyOn(dense(a, 8, ints(2)), dense(b, 8, ints(2)), on), dlpack.ErrNotSupported)
	})
}

func TestCopyOnUnderCapture(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	a, b := newArea(t, "device", 1<<16, s), newArea(t, "device", 1<<16, s)
	p, g := newArea(t, "pinned", 1<<16, s), newArea(t, "go", 1<<16, s)
	v, vm := a.view(t, dlpack.Float32, ints(100, 100), nil, 0)
	w, _ := b.view(t, dlpack.Float32, ints(100, 100), ints(1, 100), 0)
	pin, pm := p.view(t, dlpack.Float32, ints(100, 100), ints(1, 100), 0)
	pageable, _ := g.view(t, dlpack.Float32, ints(100, 100), nil, 0)
	// Loads the kernels for the context, which must not happen in a capture.
	require.NoError(t, memview.CopyOn(v, w, s.View()))
	require.NoError(t, s.Synchronize(background))

	require.NoError(t, s.BeginCapture(driver.StreamCaptureModeRelaxed))
	require.NoError(t, memview.CopyOn(v, w, s.View()))
	require.NoError(t, memview.CopyOn(pin, v, s.View()))
	require.ErrorIs(t, memview.CopyOn(v, pageable, s.View()), device.ErrCapture)
	require.ErrorIs(t, memview.CopyOn(pageable, v, s.View()), device.ErrCapture)
	graph, err := s.EndCapture()
	require.NoError(t, err, "B231: the capture was not harmed")
	drv, ctx := d.Driver(), s.Context().Handle()
	exec, res := drv.GraphInstantiateWithParams(ctx, graph, &driver.GraphInstantiateParams{})
	require.NoError(t, res.Err())
	b.want = random(1<<16 + 8)[8:]
	b.set(t, s)
	_, wm := b.view(t, dlpack.Float32, ints(100, 100), ints(1, 100), 0)
	require.NoError(t, memview.Copy(vm, wm))
	require.NoError(t, memview.Copy(pm, vm))
	require.NoError(t, drv.GraphLaunch(ctx, exec, s.Handle()).Err())
	require.NoError(t, s.Synchronize(background))
	require.True(t, bytes.Equal(a.want, a.get(t, s)))
	require.True(t, bytes.Equal(p.want, p.get(t, s)))
	require.NoError(t, drv.GraphExecDestroy(exec).Err())
	require.NoError(t, drv.GraphDestroy(graph).Err())
}

// TestCopyOnMany has more copies through staging memory than there are stagers.
func TestCopyOnMany(t *testing.T) {
	d := openDevice(t, 0)
	r := rand.New(rand.NewPCG(1, 2))
	var streams []*device.Stream
	for range 4 {
		streams = append(streams, newStream(t, d))
	}
	var areas [][3]*area
	for i := range 40 {
		s := streams[i%len(streams)]
		x := [3]*area{newArea(t, "go", 1<<14, s), newArea(t, "device", 1<<14, s), newArea(t, "go", 1<<14, s)}
		k := r.Int64N(5) + 1
		a, am := x[0].view(t, dlpack.Float32, ints(500), ints(k), 0)
		b, bm := x[1].view(t, dlpack.Float32, ints(500), ints(2), 0)
		c, cm := x[2].view(t, dlpack.Float32, ints(500), ints(-1), 600)
		require.NoError(t, memview.CopyOn(b, a, s.View()))
		require.NoError(t, memview.CopyOn(c, b, s.View()))
		require.NoError(t, memview.Copy(bm, am))
		require.NoError(t, memview.Copy(cm, bm))
		areas = append(areas, x)
	}
	for _, s := range streams {
		require.NoError(t, s.Synchronize(background))
	}
	for i, x := range areas {
		require.True(t, bytes.Equal(x[2].want, x[2].mem), i)
	}
}

// TestCopyOnGoMemory copies between slices and a device, both ways, while the
// collector runs.
func TestCopyOnGoMemory(t *testing.T) {
	testdriver.HoldUp(t)
	d := openDevice(t, 0)
	s := newStream(t, d)
	buf := allocate(t, memoryOf(t, d), 4*300*200, s)
	dev := must(memview.FromDesc(&dlpack.Desc{Data: uintptr(buf.Ptr()), Device: buf.DLDevice(), DType: dlpack.Float32, Shape: ints(200, 300)}, memview.Unowned()))
	out := make([]float32, 300*200)
	func() {
		in := must(memview.FromSlice(seq[float32](300*200), 300, 200))
		require.NoError(t, memview.PrepareCopies(s.View()))
		open := block(t, s)
		require.NoError(t, dev.CopyFrom(in.Transpose(), s.View()))
		require.NoError(t, dev.CopyTo(must(must(memview.FromSlice(out, 200, 300)).Slice(memview.All().By(-1))), s.View()))
		open()
	}()
	for range 3 {
		runtime.GC() // the views are gone, the copies keep the memory
	}
	require.NoError(t, s.Synchronize(background))
	for i := range 200 {
		for j := range 300 {
			require.Equal(t, float32(j*200+i), out[(199-i)*300+j])
		}
	}
}

// TestCopyOnFails lets each driver call fail: an error, nothing held back for
// ever, and the next copy works.
func TestCopyOnFails(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	a, b := newArea(t, "device", 1<<16, s), newArea(t, "device", 1<<16, s)
	v, _ := a.view(t, dlpack.Float32, ints(64, 64), nil, 0)
	w, _ := b.view(t, dlpack.Float32, ints(64, 64), ints(1, 100), 0)
	rows, _ := b.view(t, dlpack.UInt8, ints(64, 67), ints(101, 1), 0)
	flat, _ := a.view(t, dlpack.UInt8, ints(64, 67), nil, 0)
	l := &lender{}
	data := seq[float32](64 * 100)
	host := func() memview.StridedMemoryView {
		return must(memview.FromLent(rawOf(foreign(t, data), dlpack.Float32, ints(64, 64), ints(1, 100)), l, 0, 0))
	}
	copies := map[string]func() error{
		"kernel":  func() error { return memview.CopyOn(v, w, s.View()) },
		"rows":    func() error { return memview.CopyOn(flat, rows, s.View()) },
		"stage":   func() error { return memview.CopyOn(w, host(), s.View()) },
		"unstage": func() error { return memview.CopyOn(host(), v, s.View()) },
		"on host": func() error { return memview.CopyOn(host(), host(), s.View()) },
		"overlap": func() error { return memview.CopyOn(must(v.Reshape(64, 64)).Transpose(), v, s.View()) },
		"straight": func() error {
			return memview.CopyOn(must(v.Slice(memview.Range(0, 8))), must(v.Slice(memview.Range(9, 17))), s.View())
		},
	}
	for name, c := range copies {
		require.NoError(t, c(), name)
		for _, api := range []string{
			"cuLaunchKernel", "cuMemcpyAsync", "cuMemcpy2DAsync", "cuMemHostAlloc", "cuStreamCreate", "cuLaunchHostFunc",
			"cuEventRecord", "cuStreamWaitEvent", "cuPointerGetAttributes", "cuStreamIsCapturing", "cuMemAllocFromPoolAsync", "cuMemAllocAsync",
		} {
			t.Run(name+"/"+api, func(t *testing.T) {
				require.NoError(t, s.Synchronize(background))
				require.NoError(t, memview.Flush(background)) // no stager is left from before
				calls.breaking(t, api, func() {
					if err := c(); err != nil {
						require.ErrorIs(t, err, driver.ErrOutOfMemory)
					}
				})
				require.NoError(t, s.Synchronize(background))
				require.NoError(t, memview.Flush(background))
				require.Zero(t, memview.PendingReleases())
				require.Equal(t, l.retained.Load(), l.released.Load())
				require.NoError(t, c())
			})
		}
	}
	require.NoError(t, s.Synchronize(background))
}

// TestCopyOnCrookedRows is about drivers that refuse rectangles whose rows are
// not as far apart as they would have put them.
func TestCopyOnCrookedRows(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	for _, from := range []string{"device", "pinned"} {
		a, b := newArea(t, "device", 1<<16, s), newArea(t, from, 1<<16, s)
		v, vm := a.view(t, dlpack.UInt8, ints(64, 67), nil, 0)
		w, wm := b.view(t, dlpack.UInt8, ints(64, 67), ints(101, 1), 0)
		require.NoError(t, memview.Copy(vm, wm))
		calls.failing(t, "cuMemcpy2DAsync", driver.ErrorInvalidValue, func() {
			require.NoError(t, memview.CopyOn(v, w, s.View()))
		})
		require.NoError(t, s.Synchronize(background))
		require.True(t, bytes.Equal(a.want, a.get(t, s)))
	}
}

// TestCopyOnKeeps has host memory whose owner lets go while the copy is held up.
func TestCopyOnKeeps(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	dst := newArea(t, "device", 4096, s)
	v, _ := dst.view(t, dlpack.Int32, ints(64), nil, 0)
	t.Run("B355 Go memory that the driver knows", func(t *testing.T) {
		// Whole pages, so that nothing else is registered along with them.
		mem := make([]int32, 3*4096/4)
		addr := foreign(t, mem)
		skip := int(-addr&4095) / 4
		page := mem[skip : skip+1024]
		drv, ctx := d.Driver(), s.Context().Handle()
		require.NoError(t, drv.MemHostRegister(ctx, addr+uintptr(skip)*4, 4096, driver.MemHostRegisterPortable).Err())
		for i := range page {
			page[i] = int32(i)
		}
		w := must(memview.FromSlice(page[:64]))
		require.NoError(t, memview.CopyOn(v, w, s.View()))
		require.NoError(t, s.Synchronize(background))
		require.NoError(t, memview.Flush(background))
		require.EqualValues(t, 63, dst.get(t, s)[63*4])
		require.NoError(t, s.BeginCapture(driver.StreamCaptureModeRelaxed))
		require.ErrorIs(t, memview.CopyOn(v, w, s.View()), device.ErrCapture)
		g, err := s.EndCapture()
		require.NoError(t, err)
		require.NoError(t, drv.GraphDestroy(g).Err())
		require.NoError(t, drv.MemHostUnregister(ctx, addr+uintptr(skip)*4).Err())
	})
	t.Run("a tensor of the host", func(t *testing.T) {
		testdriver.HoldUp(t)
		if !driver.Available {
			t.Skip("exports need cgo")
		}
		e := must(dlpack.Alloc(dlpack.Int32, ints(64), nil))
		e.Bytes()[8] = 77
		w := must(memview.FromDLPack(must(dlpack.From(e, nil))))
		require.NoError(t, e.Close())
		require.NoError(t, memview.PrepareCopies(s.View()))
		open := block(t, s)
		require.NoError(t, memview.CopyOn(v, w, s.View()))
		require.NoError(t, w.ReleaseOn(s.View()), "host memory: at once")
		require.False(t, w.Live())
		require.Equal(t, 1, memview.PendingReleases())
		open()
		require.NoError(t, s.Synchronize(background))
		require.EqualValues(t, 77, dst.get(t, s)[8])
		require.NoError(t, memview.Flush(background))
		require.Zero(t, memview.PendingReleases())
	})
}
