package memview_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"
	"pgregory.net/rapid"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/dlpack/minifloat"
	"github.com/go-handoff/handoff/memview"
)

// needCgo skips tests of DLPack tensors in builds that cannot make any.
func needCgo(t testing.TB) {
	t.Helper()
	e, err := dlpack.Alloc(dlpack.Int8, nil, nil)
	if errors.Is(err, dlpack.ErrNotSupported) {
		t.Skip("built without cgo")
	}
	require.NoError(t, err)
	require.NoError(t, e.Close())
}

func TestFromSlice(t *testing.T) {
	data := seq[float64](6)
	v := must(memview.FromSlice(data, 2, 3))
	require.Equal(t, ints(2, 3), v.Shape())
	require.Same(t, &data[0], &must(memview.Slice[float64](v))[0])
	_, err := memview.FromSlice(data, 2, 4)
	require.ErrorIs(t, err, dlpack.ErrLayout)
	_, err = memview.FromSlice(data, 2, -3)
	require.ErrorIs(t, err, dlpack.ErrLayout)
	for _, s := range [][]float64{nil, {}} {
		e := must(memview.FromSlice(s))
		require.Equal(t, ints(0), e.Shape())
		require.Equal(t, []float64{}, must(memview.Slice[float64](e)))
	}
	t.Run("layout", func(t *testing.T) {
		l := must(memview.NewLayout(ints(3), ints(2), 8))
		require.Equal(t, []float64{0, 2, 4}, values[float64](t, must(memview.FromSliceLayout(data, l))))
		l = must(l.Slice(memview.All().By(-1)))
		require.Equal(t, []float64{4, 2, 0}, values[float64](t, must(memview.FromSliceLayout(data, l))))
		_, err = memview.FromSliceLayout(data[:4], l)
		require.ErrorIs(t, err, dlpack.ErrLayout)
		_, err = memview.FromSliceLayout(data, must(memview.NewLayout(ints(2), ints(-1), 8)))
		require.ErrorIs(t, err, dlpack.ErrLayout)
		_, err = memview.FromSliceLayout(data, must(memview.NewLayout(ints(2), nil, 4)))
		require.ErrorIs(t, err, dlpack.ErrLayout)
		w := must(memview.FromSliceLayout(data, must(memview.NewLayout(ints(4, 3), ints(1, 1), 8))))
		require.True(t, w.ReadOnly(), "a sliding window names elements twice")
	})
	t.Run("the view keeps the memory", func(t *testing.T) {
		v := func() memview.StridedMemoryView { return must(memview.FromSlice(seq[int64](1000))) }()
		s := must(v.Slice(memview.Range(500, 510)))
		v = memview.StridedMemoryView{}
		for range 3 {
			runtime.GC()
			_ = make([]int64, 1000)
		}
		require.Equal(t, int64(505), must(memview.At[int64](s, 5)))
	})
	t.Run("a stack that moves takes its views along", func(t *testing.T) {
		var local [4]int32
		v := must(memview.FromSlice(local[:]))
		grow(200)
		local[2] = 7
		require.Equal(t, int32(7), must(memview.At[int32](v, 2)))
	})
}

func grow(n int) int {
	var pad [256]byte
	pad[n%256] = 1
	if n == 0 {
		return int(pad[0])
	}
	return grow(n-1) + int(pad[n%256])
}

func TestFromArray(t *testing.T) {
	a := [2][3][4]float32{}
	a[1][2][3] = 5
	v := must(memview.FromArray(&a))
	require.Equal(t, ints(2, 3, 4), v.Shape())
	require.Equal(t, float32(5), must(memview.At[float32](v, 1, 2, 3)))
	require.NoError(t, memview.Set(v, float32(6), 0, 1, 2))
	require.Equal(t, float32(6), a[0][1][2])
	rows := [][2]complex64{{1, 2}, {3, 4}, {5, 6}}
	require.Equal(t, []complex64{1, 3, 5}, values[complex64](t, must(must(memview.FromArrays(rows)).Slice(memview.All(), memview.Pick(0)))))
	x := int16(7)
	s := must(memview.FromArray(&x))
	require.Equal(t, 0, s.NDim())
	require.Equal(t, int16(7), must(memview.At[int16](s)))
	require.Equal(t, dlpack.Float16, must(memview.FromArray(&[2]float16.Float16{})).DType())
	require.True(t, must(memview.FromArray(&[2]minifloat.Float4E2M1FN{})).Padded())
	require.Equal(t, ints(3, 0), must(memview.FromArray(&[3][0]int8{})).Shape())
	require.Equal(t, ints(0, 2), must(memview.FromArrays([][2]int8(nil))).Shape())

	_, err := memview.FromArray((*[2]float32)(nil))
	require.ErrorIs(t, err, dlpack.ErrNull)
	for name, err := range map[string]error{
		"int":     second(memview.FromArray(new([2]int))),
		"string":  second(memview.FromArray(new(string))),
		"struct":  second(memview.FromArray(&struct{ a, b float32 }{})),
		"slice":   second(memview.FromArray(&[][]float32{})),
		"pointer": second(memview.FromArray(new([2]*float32))),
		"named":   second(memview.FromArray(new([2]celsius))),
	} {
		require.ErrorIs(t, err, dlpack.ErrDType, name)
	}
}

type celsius float32

func second[V any](_ V, err error) error { return err }

func TestFromRows(t *testing.T) {
	data := seq[float32](20)
	rows := [][]float32{data[1:4], data[6:9], data[11:14]}
	v := must(memview.FromRows(rows))
	require.Equal(t, ints(3, 3), v.Shape())
	require.Equal(t, ints(5, 1), v.Strides())
	require.Equal(t, []float32{1, 2, 3, 6, 7, 8, 11, 12, 13}, values[float32](t, v))
	require.True(t, must(memview.FromRows([][]float32{data[0:3], data[1:4]})).ReadOnly())
	require.Equal(t, ints(1, 3), must(memview.FromRows(rows[:1])).Shape())
	require.Equal(t, ints(2, 0), must(memview.FromRows([][]float32{nil, nil})).Shape())
	for name, c := range map[string]struct {
		rows [][]float32
		want error
	}{
		"none":              {nil, dlpack.ErrLayout},
		"ragged":            {[][]float32{data[:3], data[3:5]}, dlpack.ErrLayout},
		"uneven":            {[][]float32{data[:3], data[3:6], data[7:10]}, dlpack.ErrCopy},
		"backwards":         {[][]float32{data[6:9], data[:3]}, dlpack.ErrCopy},
		"other allocations": {[][]float32{make([]float32, 3), make([]float32, 3)}, dlpack.ErrCopy},
		"capacity hidden":   {[][]float32{data[0:3:3], data[3:6]}, dlpack.ErrCopy},
	} {
		_, err := memview.FromRows(c.rows)
		require.ErrorIs(t, err, c.want, name)
	}
}

// The rules R233 to R259 that concern the fields of a buffer are tested with
// cai.Buffer; here: that all of them are asked, and what the view looks like.
func TestFromBuffer(t *testing.T) {
	data := seq[float64](12)
	addr := foreign(t, data)
	good := cai.Buffer{Addr: addr, Len: 96, ItemSize: 8, NDim: 2, Format: "d", HasFormat: true, Shape: ints(3, 4), Strides: ints(32, 8)}
	v := must(memview.FromBuffer(&good, memview.Unowned()))
	require.Equal(t, data, must(memview.Slice[float64](v)))
	for _, c := range []struct {
		name string
		edit func(b *cai.Buffer)
		want error
		rule string
	}{
		{"R255 ndim 65", func(b *cai.Buffer) { b.NDim = 65 }, dlpack.ErrLayout, "R255"},
		{"R255 ndim -1", func(b *cai.Buffer) { b.NDim = -1 }, dlpack.ErrLayout, "R255"},
		{"R245 suboffsets", func(b *cai.Buffer) { b.Suboffsets = ints(-1, 0) }, dlpack.ErrLayout, "R245"},
		{"R236 length", func(b *cai.Buffer) { b.Len = 95 }, dlpack.ErrLayout, "R236"},
		{"R238 two axes without a shape", func(b *cai.Buffer) { b.Shape = nil }, dlpack.ErrLayout, "R238"},
		{"R247 format and item size", func(b *cai.Buffer) { b.Format = "f" }, dlpack.ErrDType, "R247"},
		{"R251 structure", func(b *cai.Buffer) { b.Format = "T{f:a:f:b:}" }, dlpack.ErrDType, "R251"},
		{"R251 object", func(b *cai.Buffer) { b.Format = "O" }, dlpack.ErrDType, "R251"},
		{"R252 byte order", func(b *cai.Buffer) { b.Format = ">d" }, dlpack.ErrDType, "R252"},
		{"R257 B016 stride", func(b *cai.Buffer) { b.Strides = ints(28, 8) }, dlpack.ErrLayout, "R257"},
		{"R257 B092 stride 12, item size 8", func(b *cai.Buffer) { b.Strides = ints(36, 12) }, dlpack.ErrLayout, "R257"},
		{"R259 item size 0", func(b *cai.Buffer) { b.ItemSize = 0 }, dlpack.ErrDType, "R259"},
		{"R045 NULL", func(b *cai.Buffer) { b.Addr = 0 }, dlpack.ErrNull, "R045"},
		{"R041 misaligned", func(b *cai.Buffer) { b.Addr++ }, dlpack.ErrAlign, "R041"},
		{"R034 negative extent", func(b *cai.Buffer) { b.Shape = ints(-3, 4) }, dlpack.ErrLayout, "R034"},
		{"R034 overflow", func(b *cai.Buffer) { b.Shape = ints(1<<40, 1<<40) }, dlpack.ErrOverflow, "R034"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := good
			c.edit(&b)
			_, err := memview.FromBuffer(&b, memview.Unowned())
			require.ErrorIs(t, err, c.want)
			require.Equal(t, c.rule, ruleOf(err))
		})
	}
	t.Run("R233 no format", func(t *testing.T) {
		v := must(memview.FromBuffer(&cai.Buffer{Addr: addr, Len: 4, ItemSize: 1, NDim: 1, Shape: ints(4)}, memview.Unowned()))
		require.Equal(t, dlpack.UInt8, v.DType())
	})
	t.Run("R234 scalar", func(t *testing.T) {
		v := must(memview.FromBuffer(&cai.Buffer{Addr: addr + 16, Len: 8, ItemSize: 8, Format: "d", HasFormat: true}, memview.Unowned()))
		require.Equal(t, 2.0, must(memview.At[float64](v)))
	})
	t.Run("R238 no shape", func(t *testing.T) {
		v := must(memview.FromBuffer(&cai.Buffer{Addr: addr, Len: 96, ItemSize: 8, NDim: 1, Format: "d", HasFormat: true}, memview.Unowned()))
		require.Equal(t, ints(96), v.Shape())
		require.Equal(t, dlpack.UInt8, v.DType())
	})
	t.Run("R243 read-only", func(t *testing.T) {
		b := good
		b.ReadOnly = true
		require.True(t, must(memview.FromBuffer(&b, memview.Unowned())).ReadOnly())
	})
	t.Run("R246 negative stride", func(t *testing.T) {
		b := cai.Buffer{Addr: addr + 5*8, Len: 48, ItemSize: 8, NDim: 1, Format: "d", HasFormat: true, Shape: ints(6), Strides: ints(-8)}
		require.Equal(t, []float64{5, 4, 3, 2, 1, 0}, values[float64](t, must(memview.FromBuffer(&b, memview.Unowned()))))
	})
	t.Run("R253 complex", func(t *testing.T) {
		b := cai.Buffer{Addr: addr, Len: 32, ItemSize: 16, NDim: 1, Format: "Zd", HasFormat: true, Shape: ints(2)}
		require.Equal(t, []complex128{1i, 2 + 3i}, values[complex128](t, must(memview.FromBuffer(&b, memview.Unowned()))))
	})
	t.Run("R256 strides of extent 1 mean nothing", func(t *testing.T) {
		b := good
		b.Shape, b.Strides, b.Len = ints(1, 4), ints(13, 8), 32
		require.True(t, must(memview.FromBuffer(&b, memview.Unowned())).ContiguousC())
	})
}

func TestArrayInterface(t *testing.T) {
	data := seq[float32](12)
	v := must(must(memview.FromSlice(data, 3, 4)).Slice(memview.All().By(-1), memview.All().By(2)))
	a := must(v.ArrayInterface())
	require.Equal(t, ints(-16, 8), a.Strides)
	w := must(memview.FromArrayInterface(&a, memview.OnRelease(data, nil), nil))
	require.Equal(t, v.Addr(), w.Addr())
	require.Equal(t, v.Strides(), w.Strides())
	require.Equal(t, []float32{8, 10, 4, 6, 0, 2}, values[float32](t, w))
	ro := must(v.AsReadOnly().ArrayInterface())
	require.True(t, ro.ReadOnly, "R280")
	_, err := must(memview.FromSlice(make([]minifloat.BFloat16, 2))).ArrayInterface()
	require.ErrorIs(t, err, dlpack.ErrDType, "R285")
	t.Run("peer 39 40: strides that are no multiple of the item", func(t *testing.T) {
		b := a
		b.Strides = ints(-16, 10)
		_, err := memview.FromArrayInterface(&b, memview.Unowned(), nil)
		require.ErrorIs(t, err, dlpack.ErrLayout)
	})
	t.Run("peer 43: empty at address 0", func(t *testing.T) {
		e := cai.ArrayInterface{Array: cai.Array{Version: 3, Shape: ints(0, 3), Typestr: a.Typestr, Strides: ints(12, 4)}}
		w := must(memview.FromArrayInterface(&e, memview.Unowned(), nil))
		require.Equal(t, ints(3, 1), w.Strides())
		require.EqualValues(t, 0, w.Size())
	})
	t.Run("B145", func(t *testing.T) {
		_, err := memview.FromArrayInterface(&a, memview.Owner{}, nil)
		require.ErrorIs(t, err, dlpack.ErrNotSupported)
	})
}

// round exports a view, imports the tensor and views it again.
func round(t testing.TB, v memview.StridedMemoryView, versioned bool) memview.StridedMemoryView {
	t.Helper()
	e, err := v.Export()
	require.NoError(t, err)
	p, err := e.Export(versioned)
	require.NoError(t, err)
	require.NoError(t, e.Close())
	m, err := dlpack.Capsule{Addr: p, Versioned: versioned}.Import()
	require.NoError(t, err)
	w, err := memview.FromDLPack(m)
	require.NoError(t, err)
	return w
}

func TestDLPack(t *testing.T) {
	needCgo(t)
	t.Run("B012 B055 B081 round trip of any layout", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			shape := rapid.SliceOfN(rapid.Int64Range(0, 4), 0, 5).Draw(rt, "shape")
			l, err := memview.NewLayout(shape, nil, 4)
			require.NoError(rt, err)
			v, err := memview.FromSliceLayout(seq[float32](int(l.Size())), l)
			require.NoError(rt, err)
			v = v.Transpose()
			ix := make([]memview.Index, len(shape))
			for i := range ix {
				ix[i] = memview.All().By(rapid.SampledFrom([]int64{1, -1, 2}).Draw(rt, "step"))
			}
			v, err = v.Slice(ix...)
			require.NoError(rt, err)
			if rapid.Bool().Draw(rt, "read-only") {
				v = v.AsReadOnly()
			}
			w := round(t, v, true)
			require.Equal(rt, v.Shape(), w.Shape())
			require.Equal(rt, v.Strides(), w.Strides())
			require.Equal(rt, v.ReadOnly(), w.ReadOnly())
			require.Equal(rt, v.DType(), w.DType())
			if v.Size() > 0 {
				require.Equal(rt, v.Addr(), w.Addr())
				require.Equal(rt, must(v.Float64s()), must(w.Float64s()))
			}
			require.NoError(rt, w.Release())
			require.NoError(rt, w.Release())
			require.False(rt, w.Live())
			_, err = memview.Values[float32](w)
			require.ErrorIs(rt, err, dlpack.ErrClosed)
		})
	})
	t.Run("R057 B069 legacy cannot say read-only", func(t *testing.T) {
		e := must(must(memview.FromSlice(seq[float32](3))).AsReadOnly().Export())
		_, err := e.Export(false)
		require.ErrorIs(t, err, dlpack.ErrReadOnly)
		require.NoError(t, e.Close())
		w := round(t, must(memview.FromSlice(seq[float32](3))), false)
		require.Equal(t, seq[float32](3), must(memview.Slice[float32](w)))
		require.NoError(t, w.Release())
	})
	t.Run("R021 legacy cannot say padded", func(t *testing.T) {
		v := must(memview.FromSlice(make([]minifloat.Float4E2M1FN, 3)))
		e := must(v.Export())
		_, err := e.Export(false)
		require.ErrorIs(t, err, dlpack.ErrLayout)
		require.NoError(t, e.Close())
		w := round(t, v, true)
		require.True(t, w.Padded())
		require.Len(t, must(memview.Slice[minifloat.Float4E2M1FN](w)), 3)
		require.NoError(t, w.Release())
	})
	t.Run("R043 empty exports NULL", func(t *testing.T) {
		w := round(t, must(must(memview.FromSlice(seq[float32](6), 2, 3)).Slice(memview.To(0))), true)
		require.Zero(t, w.Addr())
		require.Equal(t, ints(0, 3), w.Shape())
		require.NoError(t, w.Release())
	})
	t.Run("B057 B058 B060 the byte offset counts, on re-export too", func(t *testing.T) {
		data := seq[int64](4)
		for _, versioned := range []bool{true, false} {
			e := must(dlpack.ExportDesc(dlpack.Desc{Data: foreign(t, data), ByteOffset: 16, Device: cpu, DType: dlpack.Int64, Shape: ints(2)}, nil))
			m := must(dlpack.Capsule{Addr: must(e.Export(versioned)), Versioned: versioned}.Import())
			require.NoError(t, e.Close())
			v := must(memview.FromDLPack(m))
			require.Equal(t, []int64{2, 3}, must(memview.Slice[int64](v)))
			w := round(t, v, versioned)
			require.NoError(t, v.Release())
			require.NoError(t, memview.Set(w, int64(30), 1))
			require.Equal(t, int64(30), data[3])
			data[3] = 3
			require.NoError(t, w.Release())
		}
	})
	t.Run("B147 R290 every holder keeps the memory", func(t *testing.T) {
		released := 0
		data := seq[float32](4)
		v := must(memview.FromRaw(rawOf(foreign(t, data), dlpack.Float32, ints(4), nil), memview.OnRelease(nil, func() error {
			released++
			return nil
		})))
		w := round(t, v, true)
		kept := must(w.Retain())
		part := must(kept.Slice(memview.From(2)))
		x := round(t, part, true)
		require.NoError(t, v.Release())
		require.NoError(t, w.Release())
		require.Equal(t, []float32{2, 3}, must(memview.Slice[float32](part)))
		require.NoError(t, kept.Release())
		require.False(t, part.Live())
		require.Zero(t, released)
		require.Equal(t, []float32{2, 3}, must(memview.Slice[float32](x)))
		require.NoError(t, x.Release())
		require.Equal(t, 1, released)
	})
	t.Run("lent memory is retained by an export", func(t *testing.T) {
		l := &lender{}
		data := seq[float32](4)
		v := must(memview.FromLent(rawOf(foreign(t, data), dlpack.Float32, ints(4), nil), l, 0, 0))
		w := round(t, v, true)
		l.gen.Add(1)
		require.False(t, v.Live())
		require.Equal(t, data, must(memview.Slice[float32](w)))
		require.NoError(t, w.Release())
		require.EqualValues(t, 1, l.released.Load())
	})
	t.Run("an error leaves the owner to the caller", func(t *testing.T) {
		e := must(dlpack.ExportDesc(dlpack.Desc{Data: 64, Device: dlpack.Device{Type: dlpack.DeviceMetal}, DType: dlpack.Int64, Shape: ints(2)}, nil))
		m := must(dlpack.Capsule{Addr: must(e.Export(true)), Versioned: true}.Import())
		require.NoError(t, e.Close())
		_, err := memview.FromDLPack(m)
		require.ErrorIs(t, err, dlpack.ErrDevice)
		require.True(t, m.IsLive())
		m.Release()
		_, err = memview.FromDLPack(m)
		require.ErrorIs(t, err, dlpack.ErrClosed)
		_, err = memview.FromDLPack(dlpack.Managed{})
		require.ErrorIs(t, err, dlpack.ErrClosed)
	})
	t.Run("a managed owner by name", func(t *testing.T) {
		e := must(dlpack.Alloc(dlpack.Int32, ints(4), nil))
		m := must(dlpack.Capsule{Addr: must(e.Export(true)), Versioned: true}.Import())
		d := must(m.Desc())
		v := must(memview.FromDesc(&d, memview.Managed(m)))
		require.NoError(t, e.Close())
		require.NoError(t, memview.Fill(v, int32(3)))
		require.NoError(t, v.Release())
		require.False(t, m.IsLive())
	})
	t.Run("FromExported", func(t *testing.T) {
		e := must(dlpack.Alloc(dlpack.Float32, ints(2, 3), nil))
		v := must(memview.FromExported(e))
		require.Zero(t, v.Addr()%256)
		require.NoError(t, memview.Fill(v, float32(2)))
		require.NoError(t, e.Close())
		require.Equal(t, float32(2), must(memview.At[float32](v, 1, 2)))
		require.NoError(t, v.Release())
		_, err := memview.FromExported(e)
		require.ErrorIs(t, err, dlpack.ErrClosed)
	})
	t.Run("a view is a producer", func(t *testing.T) {
		var p dlpack.Producer = must(memview.FromSlice(seq[float32](4)))
		require.Equal(t, cpu, must(p.DLPackDevice()))
		c, err := p.DLPack(dlpack.Request{MaxVersion: dlpack.ABIVersion})
		require.NoError(t, err)
		m := must(c.Import())
		require.EqualValues(t, 4, m.Size())
		m.Release()
		_, err = memview.StridedMemoryView{}.DLPack(dlpack.Request{})
		require.ErrorIs(t, err, dlpack.ErrNull)
		_, err = memview.StridedMemoryView{}.DLPackDevice()
		require.ErrorIs(t, err, dlpack.ErrNull)
		var _ cai.ArrayProducer = memview.StridedMemoryView{}
	})
	t.Run("above 8 axes", func(t *testing.T) {
		v := must(memview.FromSlice(seq[int32](6), 1, 1, 1, 1, 2, 1, 1, 1, 1, 3))
		w := round(t, v, true)
		require.Equal(t, v.Shape(), w.Shape())
		require.Equal(t, seq[int32](6), must(memview.Slice[int32](w)))
		require.NoError(t, w.Release())
	})
}

func TestDLPackAllocations(t *testing.T) {
	needCgo(t)
	e := must(dlpack.Alloc(dlpack.Float32, ints(2, 3), nil))
	defer e.Close()
	m := must(dlpack.Capsule{Addr: must(e.Export(true)), Versioned: true}.Import())
	defer m.Release()
	require.Zero(t, testing.AllocsPerRun(50, func() { sink.v, _ = memview.FromDLPack(m) }))
	sink.v = memview.StridedMemoryView{}
}

func TestView(t *testing.T) {
	data := seq[float32](12)
	v := must(memview.FromSlice(data, 3, 4))
	t.Run("peer 33: equal size changes the type alone", func(t *testing.T) {
		w := must(v.Transpose().View(dlpack.Int32))
		require.Equal(t, ints(1, 4), w.Strides())
		require.Equal(t, dlpack.Int32, w.DType())
		require.Equal(t, v.Addr(), w.Addr())
	})
	t.Run("wider and narrower", func(t *testing.T) {
		c := must(v.View(dlpack.Complex64))
		require.Equal(t, ints(3, 2), c.Shape())
		require.Equal(t, complex64(complex(6, 7)), must(memview.At[complex64](c, 1, 1)))
		b := must(v.View(dlpack.UInt8))
		require.Equal(t, ints(3, 16), b.Shape())
		require.Equal(t, v.Shape(), must(b.View(dlpack.Float32)).Shape())
	})
	t.Run("B016 (2,7) sliced [:, 0:6] as complex64", func(t *testing.T) {
		w := must(must(memview.FromSlice(seq[float32](14), 2, 7)).Slice(memview.All(), memview.Range(0, 6)))
		_, err := w.View(dlpack.Complex64)
		require.ErrorIs(t, err, dlpack.ErrLayout)
	})
	t.Run("B256 (5,10) sliced [:, 4:] as vectors of 6 floats", func(t *testing.T) {
		w := must(must(memview.FromSlice(seq[float32](50), 5, 10)).Slice(memview.All(), memview.From(4)))
		vec := dlpack.DataType{Code: dlpack.CodeFloat, Bits: 32, Lanes: 6}
		_, err := w.View(vec)
		require.ErrorIs(t, err, dlpack.ErrLayout, "the row stride of 10 floats is no whole number of vectors")
		w = must(must(memview.FromSlice(seq[float32](60), 5, 12)).Slice(memview.All(), memview.From(6)))
		x := must(w.View(vec))
		require.Equal(t, ints(5, 1), x.Shape())
		require.Equal(t, ints(2, 1), x.Strides())
		back := must(x.View(dlpack.Float32))
		require.Equal(t, float32(18), must(memview.At[float32](back, 1, 0)))
		_, err = v.Transpose().View(vec)
		require.ErrorIs(t, err, dlpack.ErrLayout, "the inner part must be dense")
	})
	t.Run("0-d and one element", func(t *testing.T) {
		_, err := must(memview.FromArray(new(float32))).View(dlpack.Float64)
		require.ErrorIs(t, err, dlpack.ErrLayout)
		one := must(memview.FromSlice([]float64{1}, 1, 1))
		require.Equal(t, ints(1, 2), must(one.View(dlpack.Float32)).Shape())
	})
	t.Run("alignment", func(t *testing.T) {
		b := must(must(memview.FromSlice(make([]uint8, 33))).Slice(memview.Range(1, 33)))
		for b.Addr()%4 == 0 {
			b = must(b.Slice(memview.Range(1, 25)))
		}
		_, err := must(b.Slice(memview.To(24))).View(dlpack.Float32)
		require.ErrorIs(t, err, dlpack.ErrAlign)
	})
	t.Run("malformed", func(t *testing.T) {
		_, err := v.View(dlpack.DataType{Code: dlpack.CodeFloat4E2M1FN, Bits: 8, Lanes: 1})
		require.ErrorIs(t, err, dlpack.ErrDType)
		require.Equal(t, "R023", ruleOf(err))
	})
	t.Run("empty", func(t *testing.T) {
		w := must(must(v.Slice(memview.To(0))).View(dlpack.Float64))
		require.EqualValues(t, 0, w.Size())
		require.Equal(t, 8, w.ItemSize())
	})
	t.Run("WithLayout stays inside", func(t *testing.T) {
		l := must(memview.NewLayout(ints(2, 6), nil, 4))
		require.Equal(t, ints(2, 6), must(v.WithLayout(l)).Shape())
		part := must(v.Slice(memview.Range(1, 2)))
		require.Equal(t, []float32{4, 5, 6}, values[float32](t, must(part.WithLayout(must(memview.NewLayout(ints(3), nil, 4))))))
		for _, bad := range []memview.Layout{
			must(memview.NewLayout(ints(5), nil, 4)), must(memview.NewLayout(ints(2), ints(-1), 4)), must(memview.NewLayout(ints(1), nil, 8)),
		} {
			_, err := part.WithLayout(bad)
			require.ErrorIs(t, err, dlpack.ErrLayout)
		}
		require.True(t, must(v.WithLayout(must(memview.NewLayout(ints(3, 3), ints(1, 1), 4)))).ReadOnly())
	})
}

func TestMake(t *testing.T) {
	for _, dt := range []dlpack.DataType{dlpack.Bool, dlpack.Float16, dlpack.Float64, dlpack.Complex128, dlpack.Float4E2M1FN, dlpack.Float6E3M2FN} {
		v := must(memview.Make(dt, 3, 5))
		require.Equal(t, dt, v.DType())
		require.Zero(t, v.Addr()%8)
		for _, x := range must(memview.ReadBytes(v)) {
			require.Zero(t, x)
		}
	}
	_, err := memview.Make(dlpack.DataType{}, 3)
	require.ErrorIs(t, err, dlpack.ErrDType)
	_, err = memview.Make(dlpack.Int8, -3)
	require.ErrorIs(t, err, dlpack.ErrLayout)
	_, err = memview.Make(dlpack.Int8, 1<<50)
	require.ErrorIs(t, err, dlpack.ErrOverflow, "more than a Go slice can be is an error, not a panic")
	huge := must(must(memview.FromSlice([]int8{1})).Broadcast(1 << 50))
	_, err = huge.Clone(memview.OrderC)
	require.ErrorIs(t, err, dlpack.ErrOverflow)
	_, err = huge.Float64s()
	require.ErrorIs(t, err, dlpack.ErrOverflow)
}
