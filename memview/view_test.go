package memview_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/dlpack/minifloat"
	"github.com/go-handoff/handoff/memview"
)

var cpu = dlpack.Device{Type: dlpack.DeviceCPU}

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

func seq[T int32 | int64 | float32 | float64 | uint8 | uint16](n int) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = T(i)
	}
	return s
}

func values[T memview.Element](t testing.TB, v memview.StridedMemoryView) []T {
	t.Helper()
	it, err := memview.Values[T](v)
	require.NoError(t, err)
	out := []T{}
	for x := range it {
		out = append(out, x)
	}
	return out
}

func ruleOf(err error) string {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if re, ok := e.(*dlpack.RuleError); ok && re.Rule != "" {
			return re.Rule
		}
	}
	return ""
}

func TestFromRaw(t *testing.T) {
	data := seq[float32](24)
	addr := foreign(t, data)
	t.Run("B001 nil strides", func(t *testing.T) {
		for _, trusted := range []bool{false, true} {
			r := rawOf(addr, dlpack.Float32, ints(2, 3, 4), nil)
			r.Trusted = trusted
			v, err := memview.FromRaw(r, memview.Unowned())
			require.NoError(t, err)
			require.Equal(t, ints(12, 4, 1), v.Strides())
			require.Equal(t, data, must(memview.Slice[float32](v)))
			require.Equal(t, addr, v.Addr())
			require.Equal(t, 3, v.NDim())
			require.Equal(t, int64(3), v.Dim(1))
			require.Equal(t, int64(4), v.Stride(1))
			require.EqualValues(t, 96, v.NumBytes())
		}
	})
	t.Run("B008 B012 B024 strides are honoured", func(t *testing.T) {
		v := must(memview.FromRaw(rawOf(addr, dlpack.Float32, ints(2, 2), ints(3, 1)), memview.Unowned()))
		require.Equal(t, []float32{0, 1, 3, 4}, values[float32](t, v))
		v = must(memview.FromRaw(rawOf(addr, dlpack.Float32, ints(3, 4), ints(1, 3)), memview.Unowned()))
		require.Equal(t, []float32{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}, values[float32](t, v))
		_, err := memview.Slice[float32](v)
		require.ErrorIs(t, err, dlpack.ErrLayout)
	})
	t.Run("B053 B055 R053 negative strides start at element 0", func(t *testing.T) {
		v := must(memview.FromRaw(rawOf(addr+5*4, dlpack.Float32, ints(6), ints(-1)), memview.Unowned()))
		require.Equal(t, []float32{5, 4, 3, 2, 1, 0}, values[float32](t, v))
		s := must(v.Slice(memview.From(3)))
		require.Equal(t, addr+2*4, s.Addr(), "peer 31")
		require.Equal(t, []float32{2, 1, 0}, values[float32](t, s))
		s = must(must(memview.FromSlice(data[:10])).Slice(memview.Range(8, 2).By(-1)))
		require.Equal(t, []float32{8, 7, 6, 5, 4, 3}, values[float32](t, s))
	})
	t.Run("R052 zero strides", func(t *testing.T) {
		v := must(memview.FromRaw(rawOf(addr+8, dlpack.Float32, ints(3), ints(0)), memview.Unowned()))
		require.Equal(t, []float32{2, 2, 2}, values[float32](t, v))
	})
	t.Run("B049 0-d", func(t *testing.T) {
		v := must(memview.FromRaw(rawOf(addr+8, dlpack.Float32, nil, nil), memview.Unowned()))
		require.Equal(t, float32(2), must(memview.At[float32](v)))
		require.Equal(t, []float32{2}, must(memview.Slice[float32](v)))
	})
	t.Run("B035 B067 R044 empty with any address", func(t *testing.T) {
		for _, a := range []uintptr{0, 1, addr, addr + 1} {
			r := rawOf(a, dlpack.Float32, ints(0, 3), ints(3, 1))
			v, err := memview.FromRaw(r, memview.Unowned())
			require.NoError(t, err)
			require.Equal(t, []float32{}, must(memview.Slice[float32](v)))
			require.Empty(t, values[float32](t, v))
			require.Equal(t, 0, v.Alignment())
			require.Equal(t, a, v.Addr())
			require.NoError(t, memview.Fill(v, float32(1)))
			runtime.GC() // an address such as 1 must not lie where the collector looks
		}
	})
	t.Run("B047 B051 and other bad shapes", func(t *testing.T) {
		for _, c := range []struct {
			name string
			r    memview.Raw
			want error
		}{
			{"ndim -1", memview.Raw{Addr: addr, NDim: -1, DType: dlpack.Float32, Device: cpu}, dlpack.ErrLayout},
			{"ndim 1000", memview.Raw{Addr: addr, NDim: 1000, DType: dlpack.Float32, Device: cpu}, dlpack.ErrLayout},
			{"shape NULL", memview.Raw{Addr: addr, NDim: 2, DType: dlpack.Float32, Device: cpu}, dlpack.ErrLayout},
			{"R034 extent", *rawOf(addr, dlpack.Float32, ints(2, -1), nil), dlpack.ErrLayout},
			{"B097", *rawOf(addr, dlpack.Int32, ints(1<<32, 1<<32, 16), nil), dlpack.ErrOverflow},
			{"B098", *rawOf(addr, dlpack.Int8, ints(2, 1<<62, 4), nil), dlpack.ErrOverflow},
			{"R045", *rawOf(0, dlpack.Float32, ints(2), nil), dlpack.ErrNull},
			{"R045 first page", *rawOf(16, dlpack.Float32, ints(2), nil), dlpack.ErrNull},
			{"B067 R041", *rawOf(addr+1, dlpack.Float32, ints(2), nil), dlpack.ErrAlign},
			{"R027", *rawOf(addr, dlpack.DataType{Code: 200, Bits: 8, Lanes: 1}, ints(2), nil), dlpack.ErrDType},
			{"B090", *rawOf(addr, dlpack.DataType{Code: dlpack.CodeBfloat, Bits: 32, Lanes: 1}, ints(2), nil), dlpack.ErrDType},
			{"R029", *rawOf(addr, dlpack.DataType{Code: dlpack.CodeFloat, Bits: 32}, ints(2), nil), dlpack.ErrDType},
			{"R035", memview.Raw{Addr: addr, DType: dlpack.Float32, Device: dlpack.Device{Type: 99}}, dlpack.ErrDevice},
			{"R038", memview.Raw{Addr: addr, DType: dlpack.Float32, Device: dlpack.Device{Type: dlpack.DeviceMetal}}, dlpack.ErrDevice},
		} {
			t.Run(c.name, func(t *testing.T) {
				_, err := memview.FromRaw(&c.r, memview.Unowned())
				require.ErrorIs(t, err, c.want)
				var re *dlpack.RuleError
				require.ErrorAs(t, err, &re)
				require.NotEmpty(t, ruleOf(err), "%v names no rule", err)
			})
		}
	})
	t.Run("trusted still cannot make a pointer of the first page", func(t *testing.T) {
		r := rawOf(8, dlpack.Float32, ints(2), nil)
		r.Trusted = true
		_, err := memview.FromRaw(r, memview.Unowned())
		require.ErrorIs(t, err, dlpack.ErrNull)
		r.Device = dlpack.Device{Type: dlpack.DeviceCUDA} // a number, not a pointer
		_, err = memview.FromRaw(r, memview.Unowned())
		require.NoError(t, err)
	})
	t.Run("B145 an owner is demanded", func(t *testing.T) {
		_, err := memview.FromRaw(rawOf(addr, dlpack.Float32, ints(2), nil), memview.Owner{})
		require.ErrorIs(t, err, dlpack.ErrNotSupported)
		require.Equal(t, "B145", ruleOf(err))
		_, err = memview.FromDesc(&dlpack.Desc{Data: addr, DType: dlpack.Float32, Device: cpu}, memview.Owner{})
		require.ErrorIs(t, err, dlpack.ErrNotSupported)
		_, err = memview.FromBuffer(&cai.Buffer{Addr: addr, ItemSize: 1, Len: 1}, memview.Owner{})
		require.ErrorIs(t, err, dlpack.ErrNotSupported)
	})
	t.Run("above 8 axes", func(t *testing.T) {
		shape := ints(1, 2, 1, 2, 1, 2, 1, 3, 1, 1)
		v := must(memview.FromRaw(rawOf(addr, dlpack.Float32, shape, nil), memview.Unowned()))
		require.Equal(t, shape, v.Shape())
		require.Equal(t, data, must(memview.Slice[float32](v)))
	})
	t.Run("B063 B065 alignment tells the truth", func(t *testing.T) {
		mem := make([]uint64, 32)
		base := (foreign(t, mem) + 63) &^ 63
		for off := uintptr(0); off < 64; off++ {
			v, err := memview.FromRaw(rawOf(base+off, dlpack.Int32, ints(2), nil), memview.Unowned())
			if off%4 != 0 {
				require.ErrorIs(t, err, dlpack.ErrAlign)
				continue
			}
			require.NoError(t, err)
			a := uintptr(v.Alignment())
			require.Zero(t, v.Addr()%a)
			require.True(t, a == 4096 || v.Addr()%(2*a) != 0, "the largest, up to 4096")
		}
	})
	t.Run("device memory is out of reach", func(t *testing.T) {
		r := rawOf(addr, dlpack.Float32, ints(2), nil)
		r.Device = dlpack.Device{Type: dlpack.DeviceCUDA}
		v := must(memview.FromRaw(r, memview.Unowned()))
		require.False(t, v.HostAccessible())
		for name, err := range allAccessors(v) {
			require.ErrorIs(t, err, dlpack.ErrDevice, name)
		}
		s := must(v.Slice(memview.From(1)))
		require.Equal(t, addr+4, s.Addr())
	})
}

// allAccessors calls everything that reads or writes elements of a float32
// view of one axis.
func allAccessors(v memview.StridedMemoryView) map[string]error {
	out := writableAccessors(v)
	_, out["ReadSlice"] = memview.ReadSlice[float32](v)
	_, out["ReadBytes"] = memview.ReadBytes(v)
	_, out["At"] = memview.At[float32](v, 0)
	_, out["Values"] = memview.Values[float32](v)
	_, out["Items"] = memview.Items[float32](v)
	_, out["ReadVectorOf"] = memview.ReadVectorOf[float32](v)
	_, out["Float64At"] = v.Float64At(0)
	_, out["Complex128At"] = v.Complex128At(0)
	_, out["Int64At"] = v.Int64At(0)
	_, out["Float64s"] = v.Float64s()
	_, out["Clone"] = v.Clone(memview.OrderC)
	out["Copy from"] = memview.Copy(must(memview.FromSlice(make([]float32, v.Size()))), v)
	out["CopyToSlice"] = memview.CopyToSlice(make([]float32, v.Size()), v)
	return out
}

func writableAccessors(v memview.StridedMemoryView) map[string]error {
	out := map[string]error{}
	_, out["Slice"] = memview.Slice[float32](v)
	_, out["Bytes"] = memview.Bytes(v)
	out["Set"] = memview.Set(v, float32(1), 0)
	out["Fill"] = memview.Fill(v, float32(1))
	_, out["Pointers"] = memview.Pointers[float32](v)
	_, out["VectorOf"] = memview.VectorOf[float32](v)
	out["SetFloat64"] = v.SetFloat64(1, 0)
	out["SetComplex128"] = v.SetComplex128(1, 0)
	out["SetInt64"] = v.SetInt64(1, 0)
	out["Copy to"] = memview.Copy(v, must(memview.FromSlice(make([]float32, v.Size()))))
	out["CopyFromSlice"] = memview.CopyFromSlice(v, make([]float32, v.Size()))
	return out
}

func TestReadOnly(t *testing.T) {
	t.Run("B076 R015 every writable accessor refuses", func(t *testing.T) {
		data := seq[float32](4)
		v := must(memview.FromSlice(data)).AsReadOnly()
		require.True(t, v.ReadOnly())
		for name, err := range writableAccessors(v) {
			require.ErrorIs(t, err, dlpack.ErrReadOnly, name)
		}
		require.Equal(t, seq[float32](4), data)
		require.Equal(t, data, must(memview.ReadSlice[float32](v)))
		require.Equal(t, float32(3), must(memview.At[float32](v, 3)))
		require.True(t, must(v.Slice(memview.From(1))).ReadOnly(), "parts are read-only too")
		require.True(t, must(v.View(dlpack.Int32)).ReadOnly())
		m := must(v.Reshape(2, 2))
		_, err := memview.MatrixOf[float32](m)
		require.ErrorIs(t, err, dlpack.ErrReadOnly)
		require.Equal(t, float32(2), must(memview.ReadMatrixOf[float32](m)).At(1, 0))
		nibbles := must(v.View(dlpack.Float4E2M1FN))
		_, err = memview.PackedOf[minifloat.Float4E2M1FN](nibbles)
		require.ErrorIs(t, err, dlpack.ErrReadOnly)
	})
	t.Run("writable ones work", func(t *testing.T) {
		for name, err := range allAccessors(must(memview.FromSlice(make([]float32, 4)))) {
			if name == "Int64At" { // float32 elements
				require.ErrorIs(t, err, dlpack.ErrDType)
				continue
			}
			require.NoError(t, err, name)
		}
	})
	t.Run("a broadcast view is read-only", func(t *testing.T) {
		v := must(memview.FromSlice(seq[float32](3)))
		require.True(t, must(v.Broadcast(2, 3)).ReadOnly())
		require.False(t, must(v.Broadcast(1, 3)).ReadOnly())
	})
}

// lender lends memory until it is told otherwise.
type lender struct {
	gen      atomic.Uint64
	retained atomic.Int64
	released atomic.Int64
	failWith error
}

func (l *lender) Live(gen uint64) bool { return l.gen.Load() == gen }

func (l *lender) Retain(gen uint64, slot int) (func() error, error) {
	if l.failWith != nil {
		return nil, l.failWith
	}
	if !l.Live(gen) {
		return nil, fmt.Errorf("slot %d: %w", slot, dlpack.ErrClosed)
	}
	l.retained.Add(1)
	return func() error { l.released.Add(1); return nil }, nil
}

func TestLent(t *testing.T) {
	data := seq[float32](4)
	lent := func(l *lender) memview.StridedMemoryView {
		r := rawOf(foreign(t, data), dlpack.Float32, ints(4), nil)
		r.Trusted = true
		return must(memview.FromLent(r, l, l.gen.Load(), 2))
	}
	t.Run("B149 B151 an escaped view is closed, a retained one lives", func(t *testing.T) {
		l := &lender{}
		v := lent(l)
		require.True(t, v.Live())
		require.Equal(t, data, must(memview.Slice[float32](v)))
		kept, err := v.Retain()
		require.NoError(t, err)
		part := must(v.Slice(memview.From(2)))
		l.gen.Add(1) // the call returns
		require.False(t, v.Live())
		for name, err := range allAccessors(v) {
			require.ErrorIs(t, err, dlpack.ErrClosed, name)
		}
		_, err = memview.Slice[float32](part)
		require.ErrorIs(t, err, dlpack.ErrClosed)
		_, err = v.Retain()
		require.ErrorIs(t, err, dlpack.ErrClosed)
		_, err = v.Export()
		require.ErrorIs(t, err, dlpack.ErrClosed)

		require.Equal(t, data, must(memview.Slice[float32](kept)))
		again := must(kept.Retain())
		require.NoError(t, kept.Release())
		require.NoError(t, kept.Release())
		require.False(t, kept.Live())
		require.Zero(t, l.released.Load())
		require.Equal(t, data, must(memview.Slice[float32](again)))
		require.NoError(t, again.Release())
		require.EqualValues(t, 1, l.retained.Load())
		require.EqualValues(t, 1, l.released.Load())
		_, err = again.Retain()
		require.ErrorIs(t, err, dlpack.ErrClosed)
	})
	t.Run("releasing a lent view does nothing", func(t *testing.T) {
		l := &lender{}
		v := lent(l)
		require.NoError(t, v.Release())
		require.True(t, v.Live())
	})
	t.Run("Lent names the same owner", func(t *testing.T) {
		l := &lender{}
		v := must(memview.FromRaw(rawOf(foreign(t, data), dlpack.Float32, ints(4), nil), memview.Lent(l, 0, 2)))
		require.True(t, v.Live())
		l.gen.Add(1)
		require.False(t, v.Live())
	})
	t.Run("SetLent forgets what the view was", func(t *testing.T) {
		l := &lender{}
		r := rawOf(foreign(t, data), dlpack.Float32, ints(4), nil)
		fresh := must(memview.FromLent(r, l, 0, 0))
		for _, v := range []memview.StridedMemoryView{
			{},
			must(memview.FromSlice(make([]int8, 3))).AsReadOnly(),
			must(memview.FromSlice(make([]int8, 1), 1, 1, 1, 1, 1, 1, 1, 1, 1)),
			must(must(must(memview.FromSlice(make([]uint8, 3))).View(dlpack.Float4E2M1FN)).Slice(memview.From(1))),
			must(memview.FromRaw(r, memview.OnRelease(nil, nil))),
		} {
			require.NoError(t, v.SetLent(r, l, 0, 0))
			require.Equal(t, fmt.Sprintf("%+v", fresh), fmt.Sprintf("%+v", v))
			require.Equal(t, fresh.Flags(), v.Flags())
			require.Equal(t, cpu, v.Device())
			require.True(t, v.Layout().Equal(fresh.Layout()))
			require.Error(t, v.SetLent(rawOf(0, dlpack.Float32, ints(4), nil), l, 0, 0))
			_, err := memview.At[float32](v, 0)
			require.ErrorIs(t, err, dlpack.ErrNull, "the zero view after an error")
		}
	})
	t.Run("SetLentArray says what SetLent says", func(t *testing.T) {
		l := &lender{}
		for _, c := range []struct {
			name    string
			shape   []int64
			strides []int64
			dtype   dlpack.DataType
			flags   uint32
		}{
			{"no axes", nil, nil, dlpack.Float32, 0},
			{"vector", ints(4), ints(1), dlpack.Float32, memview.LentReadOnly},
			{"matrix", ints(2, 2), ints(1, -2), dlpack.Float32, 8},
			{"eight axes", ints(1, 1, 1, 1, 1, 1, 2, 2), ints(8, 7, 6, 5, 4, 3, 2, 1), dlpack.Int16, 0},
			{"nine axes", ints(1, 1, 1, 1, 1, 1, 1, 2, 2), ints(9, 8, 7, 6, 5, 4, 3, 2, 1), dlpack.Int16, memview.LentReadOnly},
			{"padded", ints(3), ints(1), dlpack.Float4E2M1FN, memview.LentPadded | memview.LentReadOnly},
			{"packed", ints(3), ints(1), dlpack.Float4E2M1FN, 0},
		} {
			t.Run(c.name, func(t *testing.T) {
				r := rawOf(foreign(t, data), c.dtype, c.shape, c.strides)
				r.ReadOnly, r.Padded = c.flags&memview.LentReadOnly != 0, c.flags&memview.LentPadded != 0
				want := must(memview.FromLent(r, l, 7, 3))
				a := memview.LentArray{Addr: uint64(r.Addr), NDim: int32(r.NDim), DType: r.DType, Device: r.Device, Flags: c.flags, Shape: r.Shape, Strides: r.Strides}
				if len(c.shape) <= 8 {
					copy(a.Dims[:8], c.shape)
					copy(a.Dims[8:], c.strides)
				}
				var v memview.StridedMemoryView
				require.NoError(t, v.SetLentArray(&a, l, 7, 3))
				if len(c.shape) <= 8 {
					require.Equal(t, want, v)
				}
				require.True(t, want.Layout().Equal(v.Layout()))
				require.Equal(t, want.Flags(), v.Flags())
				require.Equal(t, want.Addr(), v.Addr())
				require.Equal(t, want.Live(), v.Live())
			})
		}
		var v memview.StridedMemoryView
		null := memview.LentArray{NDim: 1, DType: dlpack.Float32, Device: cpu}
		null.Dims[0], null.Dims[8] = 1, 1
		null.Shape, null.Strides = &null.Dims[0], &null.Dims[8]
		require.ErrorIs(t, v.SetLentArray(&null, l, 0, 0), dlpack.ErrNull)
		null.Dims[0] = 0
		require.NoError(t, v.SetLentArray(&null, l, 0, 0), "empty")
	})
	t.Run("the lender's error comes through", func(t *testing.T) {
		boom := errors.New("boom")
		_, err := lent(&lender{failWith: boom}).Retain()
		require.ErrorIs(t, err, boom)
	})
}

func TestOnRelease(t *testing.T) {
	data := seq[float32](4)
	addr := foreign(t, data)
	n := 0
	boom := errors.New("boom")
	v := must(memview.FromRaw(rawOf(addr, dlpack.Float32, ints(4), nil), memview.OnRelease(data, func() error {
		n++
		return boom
	})))
	a := must(v.Retain())
	b := must(a.Retain())
	t.Run("R290 the owner lives until the last holder is done", func(t *testing.T) {
		require.NoError(t, a.Release())
		require.NoError(t, v.Release())
		require.NoError(t, a.Release())
		require.Zero(t, n)
		require.Equal(t, data, must(memview.Slice[float32](b)))
		require.ErrorIs(t, b.Release(), boom)
		require.NoError(t, b.Release())
		require.Equal(t, 1, n)
	})
	t.Run("concurrent release runs it once", func(t *testing.T) {
		var count atomic.Int64
		v := must(memview.FromRaw(rawOf(addr, dlpack.Float32, ints(4), nil), memview.OnRelease(nil, func() error {
			count.Add(1)
			return nil
		})))
		done := make(chan error)
		claims := make([]memview.StridedMemoryView, 8)
		for i := range claims {
			claims[i] = must(v.Retain())
		}
		for _, w := range claims {
			go func() { done <- errors.Join(w.Release(), w.Release(), v.Release()) }()
		}
		for range 8 {
			require.NoError(t, <-done)
		}
		require.EqualValues(t, 1, count.Load())
	})
	t.Run("nil function", func(t *testing.T) {
		v := must(memview.FromRaw(rawOf(addr, dlpack.Float32, ints(4), nil), memview.OnRelease(data, nil)))
		require.NoError(t, v.Release())
		require.False(t, v.Live())
	})
}

func TestZeroView(t *testing.T) {
	var v memview.StridedMemoryView
	for name, err := range allAccessors(v) {
		require.Error(t, err, name)
	}
	_, err := memview.At[float32](v)
	require.ErrorIs(t, err, dlpack.ErrNull)
	_, err = v.Export()
	require.ErrorIs(t, err, dlpack.ErrNull)
	require.NoError(t, v.Release())
	require.Contains(t, v.String(), "no memory")
}

func TestTypedAccess(t *testing.T) {
	t.Run("the dtype must be exact", func(t *testing.T) {
		v := must(memview.FromSlice(make([]float32, 2)))
		_, err := memview.Slice[int32](v)
		require.ErrorIs(t, err, dlpack.ErrDType)
		_, err = memview.At[float64](v, 0)
		require.ErrorIs(t, err, dlpack.ErrDType)
		h := must(memview.FromSlice(make([]uint16, 2)))
		_, err = memview.Slice[float16.Float16](h)
		require.ErrorIs(t, err, dlpack.ErrDType)
	})
	t.Run("every Element has its dtype", func(t *testing.T) {
		element[bool](t, dlpack.Bool)
		element[int8](t, dlpack.Int8)
		element[int16](t, dlpack.Int16)
		element[int32](t, dlpack.Int32)
		element[int64](t, dlpack.Int64)
		element[uint8](t, dlpack.UInt8)
		element[uint16](t, dlpack.UInt16)
		element[uint32](t, dlpack.UInt32)
		element[uint64](t, dlpack.UInt64)
		element[float16.Float16](t, dlpack.Float16)
		element[float32](t, dlpack.Float32)
		element[float64](t, dlpack.Float64)
		element[complex64](t, dlpack.Complex64)
		element[complex128](t, dlpack.Complex128)
		element[minifloat.BFloat16](t, dlpack.BFloat16)
		element[minifloat.Complex32](t, dlpack.Complex32)
		element[minifloat.BComplex32](t, dlpack.BComplex32)
		element[minifloat.Float8E3M4](t, dlpack.Float8E3M4)
		element[minifloat.Float8E4M3](t, dlpack.Float8E4M3)
		element[minifloat.Float8E4M3B11FNUZ](t, dlpack.Float8E4M3B11FNUZ)
		element[minifloat.Float8E4M3FN](t, dlpack.Float8E4M3FN)
		element[minifloat.Float8E4M3FNUZ](t, dlpack.Float8E4M3FNUZ)
		element[minifloat.Float8E5M2](t, dlpack.Float8E5M2)
		element[minifloat.Float8E5M2FNUZ](t, dlpack.Float8E5M2FNUZ)
		element[minifloat.Float8E8M0FNU](t, dlpack.Float8E8M0FNU)
		element[minifloat.Float6E2M3FN](t, dlpack.Float6E2M3FN)
		element[minifloat.Float6E3M2FN](t, dlpack.Float6E3M2FN)
		element[minifloat.Float4E2M1FN](t, dlpack.Float4E2M1FN)
	})
	t.Run("Flatten", func(t *testing.T) {
		v := must(memview.FromSlice(seq[float32](12), 3, 2, 2))
		f := must(v.Flatten(0, 3, v.Layout().FlattenMask()))
		require.Equal(t, ints(12), f.Shape())
		_, err := v.Transpose().Flatten(0, 3, 7)
		require.ErrorIs(t, err, dlpack.ErrCopy)
	})
	t.Run("At and Set", func(t *testing.T) {
		data := seq[float32](12)
		v := must(must(memview.FromSlice(data, 3, 4)).Permute(1, 0))
		require.Equal(t, float32(6), must(memview.At[float32](v, 2, 1)))
		require.NoError(t, memview.Set(v, float32(60), 2, 1))
		require.Equal(t, float32(60), data[6])
		for _, ix := range [][]int64{{}, {0}, {0, 0, 0}, {4, 0}, {0, 3}, {-1, 0}} {
			_, err := memview.At[float32](v, ix...)
			require.ErrorIs(t, err, memview.ErrIndex)
			require.ErrorIs(t, memview.Set(v, float32(1), ix...), memview.ErrIndex)
		}
	})
	t.Run("bool bytes are normalized", func(t *testing.T) {
		b := must(must(memview.FromSlice([]uint8{0, 1, 2, 255})).View(dlpack.Bool))
		require.Equal(t, []bool{false, true, true, true}, values[bool](t, b))
	})
	t.Run("Vector and Matrix", func(t *testing.T) {
		data := seq[int64](12)
		m := must(memview.MatrixOf[int64](must(memview.FromSlice(data, 3, 4)).Transpose()))
		require.Equal(t, 4, m.Rows())
		require.Equal(t, 3, m.Cols())
		require.Equal(t, int64(9), m.At(1, 2))
		m.Set(1, 2, 90)
		*m.Ref(0, 0) = 7
		require.Equal(t, int64(90), data[9])
		require.Equal(t, int64(7), data[0])
		row := m.Row(1)
		require.Equal(t, 3, row.Len())
		row.Set(0, 10)
		require.Equal(t, int64(10), data[1])
		for i, x := range row.All() {
			require.Equal(t, m.At(1, i), x)
		}
		require.Panics(t, func() { m.At(4, 0) })
		require.Panics(t, func() { m.At(0, 3) })
		require.Panics(t, func() { m.Set(-1, 0, 1) })
		require.Panics(t, func() { m.Row(4) })
		require.Panics(t, func() { row.At(3) })
		require.Panics(t, func() { row.Ref(-1) })
		_, err := memview.VectorOf[int64](must(memview.FromSlice(data, 3, 4)))
		require.ErrorIs(t, err, dlpack.ErrLayout)
		rev := must(must(memview.FromSlice(data)).Slice(memview.All().By(-5)))
		vec := must(memview.VectorOf[int64](rev))
		require.Equal(t, []int64{11, 6, 10}, []int64{vec.At(0), vec.At(1), vec.At(2)})
		require.Zero(t, must(memview.VectorOf[int64](must(memview.FromSlice([]int64{})))).Len())
		e := must(memview.MatrixOf[int64](must(memview.FromSlice([]int64{}, 3, 0))))
		require.Equal(t, 0, e.Row(2).Len())
	})
	t.Run("Pointers", func(t *testing.T) {
		data := seq[float64](6)
		v := must(memview.FromSlice(data, 2, 3)).Transpose()
		for ix, p := range must(memview.Pointers[float64](v)) {
			*p += float64(100 * ix[0])
		}
		require.Equal(t, []float64{0, 101, 202, 3, 104, 205}, data)
	})
	t.Run("iteration stops when told", func(t *testing.T) {
		v := must(memview.FromSlice(seq[float32](12), 3, 4))
		n := 0
		for range must(memview.Values[float32](v)) {
			if n++; n == 5 {
				break
			}
		}
		for range must(memview.Items[float32](v)) {
			if n++; n == 7 {
				break
			}
		}
		for range must(memview.Pointers[float32](v)) {
			n++
			break
		}
		for range v.Layout().Offsets() {
			n++
			break
		}
		for range v.Layout().Dims() {
			n++
			break
		}
		require.Equal(t, 10, n)
	})
	t.Run("Fill", func(t *testing.T) {
		data := make([]float32, 12)
		require.NoError(t, memview.Fill(must(must(memview.FromSlice(data, 3, 4)).Slice(memview.All(), memview.All().By(2))), float32(5)))
		require.Equal(t, []float32{5, 0, 5, 0, 5, 0, 5, 0, 5, 0, 5, 0}, data)
		require.NoError(t, memview.Fill(must(memview.FromSlice(data)), float32(1)))
		require.Equal(t, float32(1), data[11])
	})
}

func element[T memview.Element](t *testing.T, want dlpack.DataType) {
	t.Helper()
	require.Equal(t, want, memview.DTypeOf[T]())
	data := make([]T, 6)
	v, err := memview.FromSlice(data, 2, 3)
	require.NoError(t, err)
	require.Equal(t, want, v.DType())
	require.Equal(t, want.SubByte(), v.Padded())
	s, err := memview.Slice[T](v)
	require.NoError(t, err)
	require.Len(t, s, 6)
	require.Same(t, &data[0], &s[0])
	var x T
	require.NoError(t, memview.Set(v.Transpose(), x, 2, 1))
	y, err := memview.At[T](v, 1, 2)
	require.NoError(t, err)
	require.Equal(t, x, y)
	_ = v.String()
}

func TestPacked(t *testing.T) {
	t.Run("R031 element i is at bit i*bits", func(t *testing.T) {
		mem := []uint8{0x21, 0x43, 0x65}
		v := must(must(memview.FromSlice(mem)).View(dlpack.Float4E2M1FN))
		require.Equal(t, ints(6), v.Shape())
		require.False(t, v.Padded())
		require.Equal(t, []minifloat.Float4E2M1FN{1, 2, 3, 4, 5, 6}, values[minifloat.Float4E2M1FN](t, v))
		require.NoError(t, memview.Set(v, minifloat.Float4E2M1FN(0xF), 3))
		require.Equal(t, []uint8{0x21, 0xF3, 0x65}, mem)
		p := must(memview.PackedOf[minifloat.Float4E2M1FN](v))
		require.Equal(t, 6, p.Len())
		require.Equal(t, minifloat.Float4E2M1FN(5), p.At(4))
		_, err := memview.Slice[minifloat.Float4E2M1FN](v)
		require.ErrorIs(t, err, dlpack.ErrNotSupported)
		require.Equal(t, mem, must(memview.Bytes(v)))
	})
	t.Run("6 bits straddle bytes", func(t *testing.T) {
		mem := make([]uint8, 6)
		d := &dlpack.Desc{Data: foreign(t, mem), Device: cpu, DType: dlpack.Float6E2M3FN, Shape: ints(8)}
		v := must(memview.FromDesc(d, memview.Unowned()))
		for i := range int64(8) {
			require.NoError(t, memview.Set(v, minifloat.Float6E2M3FN(0x31+i), i))
		}
		for i := range int64(8) {
			require.Equal(t, minifloat.Float6E2M3FN(0x31+i), must(memview.At[minifloat.Float6E2M3FN](v, i)))
		}
		require.Equal(t, uint8(0x31|(0x32&3)<<6), mem[0])
	})
	t.Run("R032 a view that begins inside a byte", func(t *testing.T) {
		mem := []uint8{0x21, 0x43, 0x65}
		v := must(must(memview.FromSlice(mem)).View(dlpack.Float4E2M1FN))
		s := must(v.Slice(memview.From(3)))
		require.Equal(t, []minifloat.Float4E2M1FN{4, 5, 6}, values[minifloat.Float4E2M1FN](t, s))
		require.Equal(t, v.Addr()+1, s.Addr())
		_, err := s.Desc()
		require.ErrorIs(t, err, dlpack.ErrLayout)
		_, err = s.Export()
		require.ErrorIs(t, err, dlpack.ErrLayout)
		_, err = memview.Bytes(s)
		require.ErrorIs(t, err, dlpack.ErrNotSupported)
		_, err = memview.PackedOf[minifloat.Float4E2M1FN](s)
		require.ErrorIs(t, err, dlpack.ErrLayout)
		whole := must(s.Slice(memview.From(1)))
		require.Equal(t, v.Addr()+2, whole.Addr())
		_, err = whole.Desc()
		require.NoError(t, err)
		back := must(s.Slice(memview.All().By(-1)))
		require.Equal(t, []minifloat.Float4E2M1FN{6, 5, 4}, values[minifloat.Float4E2M1FN](t, back))
	})
}
