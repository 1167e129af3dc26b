package memview_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/dlpack/minifloat"
	"github.com/go-handoff/handoff/memview"
)

// numericTypes are all dtypes that hold numbers, with a value that each has.
var numericTypes = []struct {
	dt dlpack.DataType
	x  complex128
}{
	{dlpack.Bool, 1},
	{dlpack.Int8, -128},
	{dlpack.Int16, -3},
	{dlpack.Int32, math.MinInt32},
	{dlpack.Int64, -1 << 53},
	{dlpack.UInt8, 255},
	{dlpack.UInt16, 65535},
	{dlpack.UInt32, math.MaxUint32},
	{dlpack.UInt64, 1 << 63},
	{dlpack.Int4, -8},
	{dlpack.UInt4, 15},
	{dlpack.DataType{Code: dlpack.CodeInt, Bits: 2, Lanes: 1}, -2},
	{dlpack.Float16, -1.5},
	{dlpack.Float32, 0.25},
	{dlpack.Float64, math.Pi},
	{dlpack.BFloat16, 3},
	{dlpack.Complex32, 1 - 2i},
	{dlpack.Complex64, 1.5 + 2i},
	{dlpack.Complex128, complex(math.E, math.Pi)},
	{dlpack.BComplex32, -4 + 0.5i},
	{dlpack.Float8E3M4, 15.5},
	{dlpack.Float8E4M3, 240},
	{dlpack.Float8E4M3B11FNUZ, 30},
	{dlpack.Float8E4M3FN, 448},
	{dlpack.Float8E4M3FNUZ, 240},
	{dlpack.Float8E5M2, 57344},
	{dlpack.Float8E5M2FNUZ, -57344},
	{dlpack.Float8E8M0FNU, 0.5},
	{dlpack.Float6E2M3FN, 7.5},
	{dlpack.Float6E3M2FN, -28},
	{dlpack.Float4E2M1FN, -6},
}

func TestNumbers(t *testing.T) {
	for _, c := range numericTypes {
		t.Run(c.dt.String(), func(t *testing.T) {
			v := must(memview.Make(c.dt, 2, 3))
			v = v.Transpose() // steps over a packed byte
			require.NoError(t, v.SetComplex128(c.x, 2, 1))
			require.Equal(t, c.x, must(v.Complex128At(2, 1)))
			for i := range int64(3) {
				for j := range int64(2) {
					if c.dt != dlpack.Float8E8M0FNU && (i != 2 || j != 1) { // it has no zero
						require.Equal(t, complex128(0), must(v.Complex128At(i, j)), "neighbour %d,%d", i, j)
					}
				}
			}
			isComplex := c.dt.Code == dlpack.CodeComplex || c.dt.Code == dlpack.CodeBcomplex
			f, err := v.Float64At(2, 1)
			if isComplex {
				require.ErrorIs(t, err, dlpack.ErrDType)
				_, err = v.Float64s()
				require.ErrorIs(t, err, dlpack.ErrDType)
			} else {
				require.NoError(t, err)
				require.Equal(t, real(c.x), f)
				require.ErrorIs(t, v.SetComplex128(1i, 0, 0), dlpack.ErrOverflow)
				require.Len(t, must(v.Float64s()), 6)
			}
			require.NoError(t, v.SetInt64(1, 0, 0))
			require.Equal(t, complex128(1), must(v.Complex128At(0, 0)))
			_, err = v.Complex128At(3, 0)
			require.ErrorIs(t, err, memview.ErrIndex)
			require.ErrorIs(t, v.SetFloat64(1, 3, 0), memview.ErrIndex)
			require.ErrorIs(t, v.SetInt64(1, 0), memview.ErrIndex)
			switch c.dt.Code {
			case dlpack.CodeInt, dlpack.CodeUInt, dlpack.CodeBool:
				require.ErrorIs(t, v.SetFloat64(0.5, 0, 0), dlpack.ErrOverflow)
				require.ErrorIs(t, v.SetFloat64(math.NaN(), 0, 0), dlpack.ErrOverflow)
				require.ErrorIs(t, v.SetFloat64(math.Inf(1), 0, 0), dlpack.ErrOverflow)
				n, err := v.Int64At(0, 0)
				require.NoError(t, err)
				require.EqualValues(t, 1, n)
			default:
				_, err := v.Int64At(0, 0)
				require.ErrorIs(t, err, dlpack.ErrDType)
			}
		})
	}
	t.Run("ranges of integers", func(t *testing.T) {
		for _, c := range []struct {
			dt      dlpack.DataType
			in, out []int64
		}{
			{dlpack.Int8, ints(-128, 127), ints(-129, 128)},
			{dlpack.UInt8, ints(0, 255), ints(-1, 256)},
			{dlpack.Int4, ints(-8, 7), ints(-9, 8)},
			{dlpack.UInt4, ints(0, 15), ints(-1, 16)},
			{dlpack.Bool, ints(0, 1), ints(-1, 2)},
			{dlpack.Int64, ints(math.MinInt64, math.MaxInt64), nil},
			{dlpack.UInt64, ints(0, math.MaxInt64), ints(-1)},
			{dlpack.Int32, ints(math.MinInt32, math.MaxInt32), ints(math.MinInt32-1, math.MaxInt32+1)},
		} {
			v := must(memview.Make(c.dt, 2))
			for _, x := range c.in {
				require.NoError(t, v.SetInt64(x, 1))
				require.Equal(t, x, must(v.Int64At(1)))
			}
			for _, x := range c.out {
				require.ErrorIs(t, v.SetInt64(x, 1), dlpack.ErrOverflow, "%v %d", c.dt, x)
				require.ErrorIs(t, v.SetFloat64(float64(x), 1), dlpack.ErrOverflow, "%v %d", c.dt, x)
			}
			require.ErrorIs(t, v.SetFloat64(1<<65, 1), dlpack.ErrOverflow)
		}
		u := must(memview.Make(dlpack.UInt64, 1))
		require.NoError(t, u.SetFloat64(1<<63, 0))
		_, err := u.Int64At(0)
		require.ErrorIs(t, err, dlpack.ErrOverflow)
		i := must(memview.Make(dlpack.Int64, 1))
		require.ErrorIs(t, i.SetFloat64(1<<63, 0), dlpack.ErrOverflow)
		require.NoError(t, i.SetFloat64(-1<<63, 0))
	})
	t.Run("float16 is rounded once", func(t *testing.T) {
		v := must(memview.Make(dlpack.Float16, 1))
		for _, c := range []struct {
			x    float64
			want uint16
		}{
			{1 + 0x1p-11, 0x3c00},
			{1 + 0x1p-11 + 0x1p-40, 0x3c01},
			{1 + 3*0x1p-11 - 0x1p-40, 0x3c01},
			{-1 - 0x1p-11 - 0x1p-40, 0xbc01},
			{65519.999, 0x7bff},
			{65520, 0x7c00},
			{1e300, 0x7c00},
			{math.Inf(-1), 0xfc00},
			{0x1p-25, 0},
			{0x1p-25 + 0x1p-60, 1},
			{-0x1p-60, 0x8000},
			{math.SmallestNonzeroFloat64, 0},
			{math.Copysign(0, -1), 0x8000},
		} {
			require.NoError(t, v.SetFloat64(c.x, 0))
			require.Equal(t, c.want, must(memview.At[float16.Float16](v, 0)).Bits(), "%v", c.x)
		}
	})
	t.Run("no numbers", func(t *testing.T) {
		for _, dt := range []dlpack.DataType{
			{Code: dlpack.CodeFloat, Bits: 32, Lanes: 4}, dlpack.OpaqueHandle64, dlpack.Float4E2M1FNx2, {Code: dlpack.CodeInt, Bits: 24, Lanes: 1},
		} {
			v := must(memview.Make(dt, 2))
			_, err := v.Float64At(0)
			require.ErrorIs(t, err, dlpack.ErrDType, "%v", dt)
			require.ErrorIs(t, v.SetFloat64(1, 0), dlpack.ErrDType, "%v", dt)
			require.ErrorIs(t, v.SetInt64(1, 0), dlpack.ErrDType, "%v", dt)
			_, err = v.Float64s()
			require.ErrorIs(t, err, dlpack.ErrDType)
			require.Contains(t, v.String(), "no numbers")
		}
	})
	t.Run("misaligned by a trusted maker", func(t *testing.T) {
		mem := make([]byte, 64)
		addr := foreign(t, mem)
		for _, dt := range []dlpack.DataType{dlpack.Float64, dlpack.Int16, dlpack.Complex64, dlpack.Complex32} {
			r := rawOf(addr+1, dt, ints(3), nil)
			r.Trusted = true
			v := must(memview.FromRaw(r, memview.Unowned()))
			require.NoError(t, v.SetFloat64(2, 1))
			require.Equal(t, complex128(2), must(v.Complex128At(1)))
			c := must(v.Clone(memview.OrderC))
			require.Equal(t, complex128(2), must(c.Complex128At(1)))
		}
		r := rawOf(addr+1, dlpack.Float64, ints(3), nil)
		r.Trusted = true
		v := must(memview.FromRaw(r, memview.Unowned()))
		require.NoError(t, memview.Set(v, 5.0, 2))
		require.Equal(t, 5.0, must(memview.At[float64](v, 2)))
		require.NoError(t, memview.Fill(v, 6.0))
		require.Equal(t, []float64{6, 6, 6}, values[float64](t, v))
		_, err := memview.Slice[float64](v)
		require.ErrorIs(t, err, dlpack.ErrAlign)
		_, err = memview.VectorOf[float64](v)
		require.ErrorIs(t, err, dlpack.ErrAlign)
	})
}

func TestString(t *testing.T) {
	for _, c := range []struct {
		name string
		v    memview.StridedMemoryView
		want string
	}{
		{"0-d", must(memview.FromArray(ptr(float32(1.5)))), "float32[] on cpu:0\n1.5"},
		{"1-d", must(memview.FromSlice([]int8{1, -2, 30})), "int8[3] on cpu:0\n[ 1 -2 30]"},
		{"2-d", must(memview.FromSlice(seq[float32](6), 2, 3)), "float32[2 3] on cpu:0\n[[0 1 2]\n [3 4 5]]"},
		{"3-d", must(memview.FromSlice(seq[int32](8), 2, 2, 2)), "int32[2 2 2] on cpu:0\n[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]"},
		{"bool", must(memview.FromSlice([]bool{true, false})), "bool[2] on cpu:0\n[ true false]"},
		{"complex", must(memview.FromSlice([]complex64{1 - 2i, 0.5i})), "complex64[2] on cpu:0\n[  1-2i 0+0.5i]"},
		{"specials", must(memview.FromSlice([]float64{math.NaN(), math.Inf(1), math.Inf(-1)})), "float64[3] on cpu:0\n[ NaN +inf -inf]"},
		{"float16", must(memview.FromSlice([]float16.Float16{float16.Fromfloat32(0.5)})), "float16[1] on cpu:0\n[0.5]"},
		{"bfloat16", must(memview.FromSlice([]minifloat.BFloat16{minifloat.ToBFloat16(3)})), "bfloat16[1] on cpu:0\n[3]"},
		{"packed", must(must(memview.FromSlice([]uint8{0x21})).View(dlpack.Float4E2M1FN)), "float4_e2m1fn[2] on cpu:0\n[0.5   1]"},
		{"read-only", must(memview.FromSlice([]uint8{1})).AsReadOnly(), "uint8[1] on cpu:0, read-only\n[1]"},
		{"empty", must(memview.FromSlice([]float32{}, 3, 0)), "float32[3 0] on cpu:0\n[]"},
		{"B055 reversed", must(must(memview.FromSlice(seq[int32](3))).Slice(memview.All().By(-1))), "int32[3] on cpu:0\n[2 1 0]"},
		{"long", must(memview.FromSlice(seq[int64](2000))), "int64[2000] on cpu:0\n[   0    1    2 ... 1997 1998 1999]"},
		{"wide", must(memview.FromSlice(seq[int64](2000), 2, 1000)), "int64[2 1000] on cpu:0\n[[   0    1    2 ...  997  998  999]\n [1000 1001 1002 ... 1997 1998 1999]]"},
		{"tall", must(must(memview.FromSlice([]int8{7}, 1, 1)).Broadcast(2000, 2)), "int8[2000 2] on cpu:0, read-only\n[[7 7]\n [7 7]\n [7 7]\n ...\n [7 7]\n [7 7]\n [7 7]]"},
		{"many axes", must(must(memview.FromSlice([]int8{7}, 1, 1, 1, 1, 1, 1)).Broadcast(9, 9, 9, 9, 9, 9)), "int8[9 9 9 9 9 9] on cpu:0, read-only\n(too many axes to print)"},
		{"huge and empty", must(must(memview.FromSlice([]int8{}, 1, 0)).Broadcast(1<<62, 0)), "int8[4611686018427387904 0] on cpu:0\n[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, c.v.String())
			require.Equal(t, c.want, fmt.Sprint(c.v))
			require.Equal(t, c.want, fmt.Sprintf("%s", c.v))
		})
	}
	t.Run("verbs", func(t *testing.T) {
		v := must(memview.FromSlice(seq[float32](6), 2, 3)).Transpose()
		require.Equal(t, fmt.Sprintf("float32[3 2] on cpu:0, strides [1 3], at 0x%x\n[[0 3]\n [1 4]\n [2 5]]", v.Addr()), fmt.Sprintf("%+v", v))
		require.Equal(t, "%!d(float32[3 2] on cpu:0)", fmt.Sprintf("%d", v))
		require.Equal(t, "view of no memory", fmt.Sprintf("%+v", memview.StridedMemoryView{}))
	})
	t.Run("memory that cannot be read", func(t *testing.T) {
		r := rawOf(0x10000, dlpack.Float32, ints(2), nil)
		r.Device = dlpack.Device{Type: dlpack.DeviceCUDA, ID: 1}
		v := must(memview.FromRaw(r, memview.Unowned()))
		require.Equal(t, "float32[2] on cuda:1", v.String())
		require.Equal(t, "float32[2] on cuda:1, strides [1], at 0x10000", fmt.Sprintf("%+v", v))
		w := must(memview.FromRaw(rawOf(0x10000, dlpack.Float32, ints(2), nil), memview.OnRelease(nil, nil)))
		require.NoError(t, w.Release())
		require.Equal(t, "float32[2] on cpu:0, given back", w.String())
	})
}

func ptr[T any](x T) *T { return &x }
