package memview_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/memview"
)

// TestConvert: from every numeric dtype to every other one, element by element as SetComplex128 and
// SetInt64 do it, over strides.
func TestConvert(t *testing.T) {
	for _, from := range numericTypes {
		for _, to := range numericTypes {
			src, dst := must(memview.Make(from.dt, 2, 3)).Transpose(), must(memview.Make(to.dt, 3, 2))
			for i := range int64(3) {
				for j := range int64(2) {
					require.NoError(t, src.SetInt64(1, i, j))
				}
			}
			require.NoError(t, src.SetComplex128(from.x, 2, 1))
			want := must(memview.Make(to.dt, 1))
			fits := want.SetComplex128(from.x, 0)
			err := memview.Convert(dst, src)
			if fits != nil {
				require.ErrorIs(t, err, dlpack.ErrOverflow, "%v to %v", from.dt, to.dt)
				require.ErrorContains(t, err, "[2 1]")
			} else {
				require.NoError(t, err, "%v to %v", from.dt, to.dt)
				require.Equal(t, fmt.Sprint(must(want.Complex128At(0))), fmt.Sprint(must(dst.Complex128At(2, 1))), "%v to %v", from.dt, to.dt) // as text: NaN
			}
			require.Equal(t, complex128(1), must(dst.Complex128At(0, 0)), "%v to %v", from.dt, to.dt)
			require.Equal(t, complex128(1), must(dst.Complex128At(2, 0)), "%v to %v", from.dt, to.dt)
		}
	}
}

func TestConvertKeepsIntegersWhole(t *testing.T) {
	src, err := memview.FromSlice([]int64{math.MaxInt64, math.MaxInt64 - 1, 1<<53 + 1})
	require.NoError(t, err)
	dst := must(memview.Make(dlpack.UInt64, 3))
	require.NoError(t, memview.Convert(dst, src))
	require.Equal(t, []uint64{math.MaxInt64, math.MaxInt64 - 1, 1<<53 + 1}, must(memview.ReadSlice[uint64](dst)))
	for _, x := range []float64{0.5, math.NaN(), math.Inf(1), 1 << 63, -1<<63 - 2048} {
		src, err := memview.FromSlice([]float64{3, x, 4})
		require.NoError(t, err)
		dst := must(memview.Make(dlpack.Int64, 3))
		err = memview.Convert(dst, src)
		require.ErrorIs(t, err, dlpack.ErrOverflow, "%v", x)
		require.ErrorContains(t, err, "[1]")
		require.Equal(t, []int64{3, 0, 0}, must(memview.ReadSlice[int64](dst)))
	}
}

func TestConvertOverlapping(t *testing.T) {
	data := []float32{1, 2, 3, 4, 5, 6, 7, 8}
	src := must(memview.FromSlice(data))
	head := must(src.Slice(memview.To(4)))
	dst := must(src.View(dlpack.Float64)) // the same memory, as half as many
	require.NoError(t, memview.Convert(dst, head))
	require.Equal(t, []float64{1, 2, 3, 4}, must(memview.ReadSlice[float64](dst)))
	small := must(must(dst.View(dlpack.Int8)).Slice(memview.To(4)))
	require.ErrorIs(t, memview.Convert(small, must(must(memview.FromSlice(data)).Slice(memview.To(4)))), dlpack.ErrOverflow)
	require.Equal(t, []float64{1, 2, 3, 4}, must(memview.ReadSlice[float64](dst)), "nothing was written")
}

func TestConvertRefuses(t *testing.T) {
	a, b := must(memview.Make(dlpack.Int32, 3)), must(memview.Make(dlpack.Float32, 3))
	require.ErrorIs(t, memview.Convert(a, memview.StridedMemoryView{}), dlpack.ErrNull)
	require.ErrorIs(t, memview.Convert(memview.StridedMemoryView{}, a), dlpack.ErrNull)
	require.ErrorIs(t, memview.Convert(a, must(memview.Make(dlpack.Float32, 4))), dlpack.ErrLayout)
	require.ErrorIs(t, memview.Convert(a, must(memview.Make(dlpack.Float32, 3, 1))), dlpack.ErrLayout)
	require.ErrorIs(t, memview.Convert(b.AsReadOnly(), a), dlpack.ErrReadOnly)
	lanes := dlpack.DataType{Code: dlpack.CodeFloat, Bits: 32, Lanes: 2}
	require.ErrorIs(t, memview.Convert(a, must(memview.Make(lanes, 3))), dlpack.ErrDType)
	require.ErrorIs(t, memview.Convert(must(memview.Make(lanes, 3)), a), dlpack.ErrDType)
	wide := dlpack.DataType{Code: dlpack.CodeInt, Bits: 24, Lanes: 1}
	require.ErrorIs(t, memview.Convert(a, must(memview.Make(wide, 3))), dlpack.ErrDType)
	many := must(must(memview.Make(dlpack.Float32, 1)).Broadcast(3))
	require.NoError(t, memview.Convert(a, many))
	require.Error(t, memview.Convert(many, a), "it names an element thrice, or is read-only")
	require.NoError(t, a.Release())
	for _, err := range []error{memview.Convert(a, b), memview.Convert(b, a)} {
		if err != nil { // Go memory stays
			require.ErrorIs(t, err, dlpack.ErrClosed)
		}
	}
	require.NoError(t, memview.Convert(must(memview.Make(dlpack.Int8, 0, 3)), must(memview.Make(dlpack.Float64, 0, 3))))
	one := must(memview.Make(dlpack.Int8))
	require.NoError(t, must(memview.FromSlice([]float64{7})).SetFloat64(7, 0))
	require.NoError(t, memview.Convert(one, must(must(memview.FromSlice([]float64{7})).Reshape())))
	require.Equal(t, int64(7), must(one.Int64At()))
	require.NoError(t, memview.Convert(one, one), "equal dtypes are a copy")
}

// No copy converts.
func TestCopiesDoNotConvert(t *testing.T) {
	a, b := must(memview.Make(dlpack.Int32, 3)), must(memview.Make(dlpack.Float32, 3))
	require.ErrorIs(t, memview.Copy(a, b), dlpack.ErrDType)
}

func BenchmarkConvert(b *testing.B) {
	src, dst := must(memview.Make(dlpack.Float32, 1<<16)), must(memview.Make(dlpack.Float64, 1<<16))
	b.SetBytes(1 << 18)
	b.ReportAllocs()
	for b.Loop() {
		if err := memview.Convert(dst, src); err != nil {
			b.Fatal(err)
		}
	}
}
