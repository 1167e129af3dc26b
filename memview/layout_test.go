package memview_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/memview"
)

func ints(v ...int64) []int64 { return append([]int64{}, v...) }

func layout(t testing.TB, shape, strides []int64) memview.Layout {
	t.Helper()
	l, err := memview.NewLayout(shape, strides, 4)
	require.NoError(t, err)
	return l
}

func TestNewLayout(t *testing.T) {
	t.Run("B001 nil strides mean C order", func(t *testing.T) {
		for _, c := range []struct{ shape, strides []int64 }{
			{ints(), ints()},
			{ints(5), ints(1)},
			{ints(2, 3, 4), ints(12, 4, 1)},
			{ints(2, 0, 3), ints(3, 3, 1)},
		} {
			require.Equal(t, c.strides, layout(t, c.shape, nil).Strides(), "shape %v", c.shape)
		}
	})
	t.Run("B027 strides of empty arrays clamp extents to 1", func(t *testing.T) {
		for _, c := range []struct{ shape, c, f []int64 }{
			{ints(0, 2048), ints(2048, 1), ints(1, 1)},
			{ints(2, 0, 3), ints(3, 3, 1), ints(1, 2, 2)},
			{ints(0, 0, 0), ints(1, 1, 1), ints(1, 1, 1)},
		} {
			l := layout(t, c.shape, nil)
			require.Equal(t, c.c, l.Strides())
			f, err := l.Dense(memview.OrderF)
			require.NoError(t, err)
			require.Equal(t, c.f, f.Strides())
		}
	})
	t.Run("B031 empty arrays divide by nothing", func(t *testing.T) {
		for _, shape := range [][]int64{ints(0), ints(3, 0, 2)} {
			for _, o := range []memview.Order{memview.OrderC, memview.OrderF, memview.OrderK} {
				l, err := memview.Dense(shape, 4, o)
				require.NoError(t, err)
				require.True(t, l.ContiguousC() && l.ContiguousF() && l.ContiguousAny())
			}
		}
	})
	t.Run("B097 sizes that wrap are an overflow", func(t *testing.T) {
		_, err := memview.NewLayout(ints(1<<32, 1<<32, 16), nil, 4)
		require.ErrorIs(t, err, dlpack.ErrOverflow)
		_, err = memview.NewLayout(ints(1<<32, 1<<32, 16), ints(0, 0, 0), 4)
		require.ErrorIs(t, err, dlpack.ErrOverflow)
		_, err = memview.NewLayout(ints(1<<62), ints(0), 4)
		require.ErrorIs(t, err, dlpack.ErrOverflow, "bytes wrap")
	})
	t.Run("B097 zero look-up first", func(t *testing.T) {
		l, err := memview.NewLayout(ints(1<<32, 1<<32, 16, 0), ints(1, 1, 1, 1), 4)
		require.NoError(t, err)
		require.EqualValues(t, 0, l.Size())
		require.EqualValues(t, 0, l.NumBytes())
	})
	t.Run("B098 derived strides that wrap are an overflow", func(t *testing.T) {
		_, err := memview.NewLayout(ints(2, 1<<62, 4), nil, 1)
		require.ErrorIs(t, err, dlpack.ErrOverflow)
	})
	t.Run("B100 products stay in 64 bits on every machine", func(t *testing.T) {
		l, err := memview.NewLayout(ints(1<<20, 1<<20), nil, 4)
		require.NoError(t, err)
		require.EqualValues(t, int64(1)<<42, l.NumBytes())
		off, ok := l.OffsetOf(1<<20-1, 1<<20-1)
		require.True(t, ok)
		require.EqualValues(t, int64(1)<<40-1, off)
	})
	t.Run("B102 a negative stride is no overflow", func(t *testing.T) {
		l, err := memview.NewLayout(ints(8), ints(-1), 4)
		require.NoError(t, err)
		_, err = l.RequiredSize()
		require.ErrorIs(t, err, dlpack.ErrLayout)
		require.NotErrorIs(t, err, dlpack.ErrOverflow)
	})
	t.Run("R034 reach that wraps is an overflow", func(t *testing.T) {
		for _, strides := range [][]int64{
			ints(math.MaxInt64, math.MaxInt64), ints(math.MinInt64, 1), ints(math.MinInt64/2, math.MaxInt64/2),
			ints(math.MaxInt64/4, 1), ints(math.MinInt64, math.MinInt64),
		} {
			_, err := memview.NewLayout(ints(2, 2), strides, 4)
			require.ErrorIs(t, err, dlpack.ErrOverflow, "strides %v", strides)
		}
	})
	t.Run("R054 strides of axes of extent 1 mean nothing", func(t *testing.T) {
		l, err := memview.NewLayout(ints(1, 3, 1), ints(math.MaxInt64, 1, math.MinInt64), 8)
		require.NoError(t, err)
		require.True(t, l.ContiguousC())
		require.EqualValues(t, 24, l.ByteSpan())
	})
	t.Run("R034 negative extents", func(t *testing.T) {
		_, err := memview.NewLayout(ints(2, -1), nil, 4)
		require.ErrorIs(t, err, dlpack.ErrLayout)
		var re *dlpack.RuleError
		require.ErrorAs(t, err, &re)
		require.Equal(t, "R034", re.Rule)
	})
	t.Run("R255 at most 64 axes", func(t *testing.T) {
		shape := slices.Repeat(ints(1), 64)
		_, err := memview.NewLayout(shape, nil, 4)
		require.NoError(t, err)
		_, err = memview.NewLayout(append(shape, 1), nil, 4)
		require.ErrorIs(t, err, dlpack.ErrLayout)
	})
	t.Run("other", func(t *testing.T) {
		_, err := memview.NewLayout(ints(2), ints(1, 1), 4)
		require.ErrorIs(t, err, dlpack.ErrLayout)
		for _, item := range []int{0, -1, 1 << 30} {
			_, err = memview.NewLayout(ints(2), nil, item)
			require.ErrorIs(t, err, dlpack.ErrLayout)
		}
		_, err = memview.NewLayoutOf(ints(2), nil, dlpack.DataType{}, false)
		require.ErrorIs(t, err, dlpack.ErrDType)
	})
}

func TestLayoutContiguity(t *testing.T) {
	for _, c := range []struct {
		name            string
		shape, strides  []int64
		c, f, any, uniq bool
	}{
		{"0-d", ints(), ints(), true, true, true, true},
		{"1-d", ints(3), ints(1), true, true, true, true},
		{"B006 (1,H,W) with strides (1,W,1)", ints(1, 5, 7), ints(1, 7, 1), true, false, true, true},
		{"B008 transposed", ints(4, 3), ints(1, 4), false, true, true, true},
		{"B010 gaps", ints(3, 4), ints(16, 2), false, false, false, true},
		{"B053 negative", ints(3), ints(-1), false, false, false, true},
		{"R052 broadcast", ints(3, 4), ints(0, 1), false, false, false, false},
		{"permuted", ints(2, 3, 4), ints(4, 8, 1), false, false, true, true},
		{"sliding window", ints(4, 3), ints(1, 1), false, false, false, false},
		{"interleaved but unique", ints(2, 3), ints(3, 2), false, false, false, true},
		{"interleaved and not unique", ints(3, 4), ints(3, 2), false, false, false, false},
		{"B029 empty with odd strides", ints(0, 3), ints(0, 77), true, true, true, true},
		{"extent 1 with stride 0", ints(1, 1), ints(0, 0), true, true, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := layout(t, c.shape, c.strides)
			require.Equal(t, c.c, l.ContiguousC(), "C")
			require.Equal(t, c.f, l.ContiguousF(), "F")
			require.Equal(t, c.any, l.ContiguousAny(), "any")
			require.Equal(t, c.any, l.IsDense(), "dense")
			require.Equal(t, c.uniq, l.IsUnique(), "unique")
		})
	}
}

func TestLayoutBounds(t *testing.T) {
	for _, c := range []struct {
		name           string
		shape, strides []int64
		lo, hi, span   int64
	}{
		{"0-d", ints(), ints(), 0, 0, 4},
		{"dense", ints(3, 4), ints(4, 1), 0, 11, 48},
		{"B010 gaps", ints(3, 4), ints(16, 2), 0, 38, 156},
		{"B010 negative", ints(3, 4), ints(-16, 2), -32, 6, 156},
		{"B010 empty", ints(3, 0), ints(16, 2), 0, -1, 0},
		{"broadcast", ints(5, 2), ints(0, 1), 0, 1, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := layout(t, c.shape, c.strides)
			lo, hi := l.OffsetBounds()
			require.Equal(t, []int64{c.lo, c.hi}, []int64{lo, hi})
			require.Equal(t, c.lo, l.MinOffset())
			require.Equal(t, c.hi, l.MaxOffset())
			require.Equal(t, c.span, l.ByteSpan())
			need, err := l.RequiredSize()
			if c.lo < 0 {
				require.ErrorIs(t, err, dlpack.ErrLayout)
				return
			}
			require.NoError(t, err)
			require.Equal(t, (c.hi+1)*4, need)
			require.NoError(t, l.FitsIn(need))
			if need > 0 {
				require.ErrorIs(t, l.FitsIn(need-1), dlpack.ErrLayout)
			}
		})
	}
	t.Run("peer 28: 20 bytes for 5x4 int16", func(t *testing.T) {
		l, err := memview.Dense(ints(5, 4), 2, memview.OrderC)
		require.NoError(t, err)
		require.ErrorContains(t, l.FitsIn(20), "expected at least 40 bytes, got 20")
	})
	t.Run("B088 packed sizes", func(t *testing.T) {
		for _, c := range []struct {
			dt             dlpack.DataType
			n              int64
			packed, padded int64
		}{
			{dlpack.Float4E2M1FN, 1, 1, 1},
			{dlpack.Float4E2M1FN, 2, 1, 2},
			{dlpack.Float4E2M1FN, 3, 2, 3},
			{dlpack.Float4E2M1FN, 7, 4, 7},
			{dlpack.Float6E2M3FN, 3, 3, 3},
			{dlpack.Float6E2M3FN, 4, 3, 4},
			{dlpack.Float6E2M3FN, 5, 4, 5},
			{dlpack.Float4E2M1FNx2, 3, 3, 3},
		} {
			l, err := memview.NewLayoutOf(ints(c.n), nil, c.dt, false)
			require.NoError(t, err)
			require.Equal(t, c.packed, l.NumBytes(), "%v x %d packed", c.dt, c.n)
			require.Equal(t, c.packed, l.ByteSpan())
			l, err = memview.NewLayoutOf(ints(c.n), nil, c.dt, true)
			require.NoError(t, err)
			require.Equal(t, c.padded, l.NumBytes(), "%v x %d padded", c.dt, c.n)
		}
	})
}

// Peer case 84: dense with every permutation, up to 3 axes.
func TestLayoutDense(t *testing.T) {
	for _, shape := range [][]int64{{}, {5}, {2, 3}, {2, 3, 4}, {2, 1, 4}, {0, 3}, {3, 0, 2}} {
		for _, perm := range perms(len(shape)) {
			t.Run(fmt.Sprint(shape, perm), func(t *testing.T) {
				l := layout(t, shape, nil)
				d, err := l.DensePerm(perm...)
				require.NoError(t, err)
				want := make([]int64, len(shape))
				step := int64(1)
				for i := len(perm) - 1; i >= 0; i-- {
					want[perm[i]] = step
					step *= max(shape[perm[i]], 1)
				}
				require.Equal(t, want, d.Strides())
				require.True(t, d.ContiguousAny())
				require.True(t, d.IsDense())
				require.True(t, d.IsUnique())
				k, err := d.Dense(memview.OrderK)
				require.NoError(t, err)
				if d.Size() > 0 && !slices.Contains(shape, 1) {
					require.True(t, k.Equal(d), "K keeps %v, got %v", d, k)
				}
				require.True(t, k.ContiguousAny())
			})
		}
	}
	l := layout(t, ints(2, 3), nil)
	for _, perm := range [][]int{{0}, {0, 0}, {0, 2}, {-3, 0}, {0, 1, 2}} {
		_, err := l.DensePerm(perm...)
		require.ErrorIs(t, err, dlpack.ErrLayout, "perm %v", perm)
		_, err = l.Permute(perm...)
		require.ErrorIs(t, err, dlpack.ErrLayout, "perm %v", perm)
	}
	_, err := l.Dense(memview.Order(7))
	require.ErrorIs(t, err, dlpack.ErrLayout)
	require.Equal(t, "C F K Order(7)", fmt.Sprint(memview.OrderC, " ", memview.OrderF, " ", memview.OrderK, " ", memview.Order(7)))
}

func perms(n int) [][]int {
	if n == 0 {
		return [][]int{{}}
	}
	var out [][]int
	for _, p := range perms(n - 1) {
		for i := range n {
			out = append(out, slices.Insert(slices.Clone(p), i, n-1))
		}
	}
	return out
}

func TestLayoutReshape(t *testing.T) {
	for _, c := range []struct{ shape, strides, to, want []int64 }{
		// Splits and merges of dense memory.
		{ints(12), nil, ints(3, 4), ints(4, 1)},
		{ints(3, 4), nil, ints(12), ints(1)},
		{ints(3, 4), nil, ints(2, 6), ints(6, 1)},
		{ints(2, 3, 4), nil, ints(6, 4), ints(4, 1)},
		{ints(2, 3, 4), nil, ints(4, 3, 2), ints(6, 2, 1)},
		{ints(6), nil, ints(1, 6, 1), ints(6, 1, 1)},
		{ints(1), nil, ints(), ints()},
		{ints(), nil, ints(1, 1), ints(1, 1)},
		// One extent computed.
		{ints(12), nil, ints(-1, 4), ints(4, 1)},
		{ints(12), nil, ints(3, -1), ints(4, 1)},
		{ints(12), nil, ints(-1), ints(1)},
		{ints(), nil, ints(-1), ints(1)},
		// Gaps, where the run allows it.
		{ints(3, 4), ints(16, 2), ints(3, 2, 2), ints(16, 4, 2)},
		{ints(3, 4), ints(8, 2), ints(12), ints(2)},
		{ints(12), ints(2), ints(3, 4), ints(8, 2)},
		// Negative strides.
		{ints(12), ints(-1), ints(3, 4), ints(-4, -1)},
		{ints(3, 4), ints(-4, -1), ints(12), ints(-1)},
		{ints(3, 4), ints(-4, 1), ints(3, 2, 2), ints(-4, 2, 1)},
		// Broadcast axes.
		{ints(4, 3), ints(0, 1), ints(2, 2, 3), ints(0, 0, 1)},
		{ints(4, 3), ints(0, 0), ints(12), ints(0)},
		// F order splits axis by axis.
		{ints(4, 6), ints(1, 4), ints(2, 2, 6), ints(2, 1, 4)},
		{ints(4, 6), ints(1, 4), ints(4, 2, 3), ints(1, 12, 4)},
		// Axes of extent 1 do not matter.
		{ints(2, 1, 3), ints(3, 99, 1), ints(6), ints(1)},
		{ints(1, 4), ints(-7, 1), ints(4, 1), ints(1, 1)},
		// Empty arrays.
		{ints(0), nil, ints(0, 5), ints(5, 1)},
		{ints(0), nil, ints(5, 0), ints(1, 1)},
		{ints(2, 0, 3), nil, ints(0), ints(1)},
		{ints(0, 3), nil, ints(-1, 3), ints(3, 1)},
	} {
		t.Run(fmt.Sprint(c.shape, c.strides, c.to), func(t *testing.T) {
			l, err := layout(t, c.shape, c.strides).Reshape(c.to...)
			require.NoError(t, err)
			require.Equal(t, c.want, l.Strides())
		})
	}
	for _, c := range []struct {
		name               string
		shape, strides, to []int64
		want               error
	}{
		{"B037 (0) to ()", ints(0), nil, ints(), dlpack.ErrLayout},
		{"B037 (0) to (1)", ints(0), nil, ints(1), dlpack.ErrLayout},
		{"volume", ints(3, 4), nil, ints(5), dlpack.ErrLayout},
		{"negative", ints(3, 4), nil, ints(-3, -4), dlpack.ErrLayout},
		{"two -1", ints(3, 4), nil, ints(-1, -1), dlpack.ErrLayout},
		{"-1 with an empty rest", ints(0), nil, ints(0, -1), dlpack.ErrLayout},
		{"not divisible", ints(12), nil, ints(5, -1), dlpack.ErrLayout},
		{"wraps", ints(12), nil, ints(1<<32, 1<<32), dlpack.ErrLayout},
		{"gap", ints(3, 4), ints(5, 1), ints(12), dlpack.ErrCopy},
		{"transposed", ints(4, 3), ints(1, 4), ints(12), dlpack.ErrCopy},
		{"mixed signs", ints(3, 4), ints(4, -1), ints(12), dlpack.ErrCopy},
		{"broadcast and dense", ints(4, 3), ints(0, 1), ints(12), dlpack.ErrCopy},
		{"crossing", ints(4, 6), ints(1, 4), ints(8, 3), dlpack.ErrCopy},
		{"65 axes", ints(1), nil, slices.Repeat(ints(1), 65), dlpack.ErrLayout},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := layout(t, c.shape, c.strides).Reshape(c.to...)
			require.ErrorIs(t, err, c.want)
		})
	}
}

func TestLayoutFlatten(t *testing.T) {
	for _, c := range []struct {
		shape, strides []int64
		mask           uint64
		want, steps    []int64
	}{
		{ints(2, 3, 4), nil, 0b110, ints(24), ints(1)},
		{ints(2, 3, 4), ints(24, 4, 1), 0b100, ints(2, 12), ints(24, 1)},
		{ints(2, 3, 4), ints(12, 4, 2), 0b010, ints(6, 4), ints(4, 2)},
		{ints(4, 3), ints(1, 4), 0, ints(4, 3), ints(1, 4)},
		{ints(2, 1, 3), ints(3, 99, 1), 0b110, ints(6), ints(1)},
		{ints(1, 3), ints(99, 2), 0b10, ints(3), ints(2)},
		{ints(3, 0, 5), nil, 0b110, ints(0), ints(1)},
		{ints(), nil, 0, ints(), ints()},
	} {
		t.Run(fmt.Sprint(c.shape, c.strides), func(t *testing.T) {
			l := layout(t, c.shape, c.strides)
			require.Equal(t, c.mask, l.FlattenMask())
			f, err := l.Flatten(0, l.NDim(), c.mask)
			require.NoError(t, err)
			require.Equal(t, c.want, f.Shape())
			require.Equal(t, c.steps, f.Strides())
		})
	}
	t.Run("peer 88: a range, and a mask common to two layouts", func(t *testing.T) {
		a := layout(t, ints(2, 3, 4, 5), nil)
		b := layout(t, ints(2, 3, 4, 5), ints(120, 20, 5, 1))
		mask := a.FlattenMask() & b.FlattenMask()
		require.EqualValues(t, 0b1100, mask)
		fa, err := a.Flatten(0, 4, mask)
		require.NoError(t, err)
		fb, err := b.Flatten(0, 4, mask)
		require.NoError(t, err)
		require.True(t, fa.SameShape(fb))
		part, err := a.Flatten(1, 3, a.FlattenMask())
		require.NoError(t, err)
		require.Equal(t, ints(2, 12, 5), part.Shape())
		_, err = b.Flatten(0, 4, a.FlattenMask())
		require.ErrorIs(t, err, dlpack.ErrCopy)
		_, err = b.Flatten(2, 5, 0)
		require.ErrorIs(t, err, dlpack.ErrLayout)
		empty := layout(t, ints(3, 5, 0), nil)
		e, err := empty.Flatten(0, 2, empty.FlattenMask())
		require.NoError(t, err)
		require.Equal(t, ints(15, 0), e.Shape())
	})
}

func TestLayoutSqueeze(t *testing.T) {
	l := layout(t, ints(1, 3, 1, 4), ints(50, 4, 60, 1))
	s, err := l.Squeeze()
	require.NoError(t, err)
	require.Equal(t, ints(3, 4), s.Shape())
	require.Equal(t, ints(4, 1), s.Strides())
	s, err = l.Squeeze(-2)
	require.NoError(t, err)
	require.Equal(t, ints(1, 3, 4), s.Shape())
	for _, axes := range [][]int{{1}, {4}, {-5}, {0, 0}, {0, -4}} {
		_, err = l.Squeeze(axes...)
		require.ErrorIs(t, err, dlpack.ErrLayout, "axes %v", axes)
	}
	e := layout(t, ints(1, 0, 1), nil)
	s, err = e.Squeeze()
	require.NoError(t, err)
	require.Equal(t, ints(0), s.Shape())
}

func TestLayoutUnsqueeze(t *testing.T) {
	l := layout(t, ints(3, 4), nil)
	for _, c := range []struct {
		axes  []int
		shape []int64
	}{
		{nil, ints(3, 4)},
		{[]int{0}, ints(1, 3, 4)},
		{[]int{-1}, ints(3, 4, 1)},
		{[]int{0, 2}, ints(1, 3, 1, 4)},
		{[]int{2, 0}, ints(1, 3, 1, 4)},
	} {
		u, err := l.Unsqueeze(c.axes...)
		require.NoError(t, err)
		require.Equal(t, c.shape, u.Shape())
		require.True(t, u.ContiguousC())
		require.Equal(t, int64(12), u.Size())
	}
	for _, axes := range [][]int{{3}, {-4}, {0, 0}, {0, -4}} {
		_, err := l.Unsqueeze(axes...)
		require.ErrorIs(t, err, dlpack.ErrLayout, "axes %v", axes)
	}
	_, err := l.Unsqueeze(make([]int, 63)...)
	require.ErrorIs(t, err, dlpack.ErrLayout)
}

func TestLayoutBroadcast(t *testing.T) {
	l := layout(t, ints(3, 1), nil)
	b, err := l.Broadcast(2, 3, 4)
	require.NoError(t, err)
	require.Equal(t, ints(0, 1, 0), b.Strides())
	require.False(t, b.IsUnique())
	same, err := l.Broadcast(3, 1)
	require.NoError(t, err)
	require.True(t, same.IsUnique())
	e, err := l.Broadcast(3, 0)
	require.NoError(t, err)
	require.EqualValues(t, 0, e.Size())
	for _, shape := range [][]int64{ints(3), ints(2, 1), ints(3, -1), slices.Repeat(ints(1), 65)} {
		_, err = l.Broadcast(shape...)
		require.ErrorIs(t, err, dlpack.ErrLayout, "shape %v", shape)
	}
	_, err = l.Broadcast(1<<62, 3, 1)
	require.ErrorIs(t, err, dlpack.ErrOverflow)
	// A stride of an axis of extent 1 means nothing and must not survive.
	odd := layout(t, ints(1), ints(77))
	b, err = odd.Broadcast(5)
	require.NoError(t, err)
	require.Equal(t, ints(0), b.Strides())
}

func TestLayoutRepack(t *testing.T) {
	l := layout(t, ints(4, 8), ints(16, 1)) // 4-byte items
	for _, c := range []struct {
		item           int
		shape, strides []int64
	}{
		{1, ints(4, 32), ints(64, 1)},
		{2, ints(4, 16), ints(32, 1)},
		{4, ints(4, 8), ints(16, 1)},
		{8, ints(4, 4), ints(8, 1)},
		{16, ints(4, 2), ints(4, 1)},
		{32, ints(4, 1), ints(2, 1)},
	} {
		r, err := l.Repack(c.item, 4096, -1)
		require.NoError(t, err)
		require.Equal(t, c.shape, r.Shape())
		require.Equal(t, c.strides, r.Strides())
		require.Equal(t, c.item, r.ItemSize())
		require.Equal(t, l.NumBytes(), r.NumBytes())
		back, err := r.Repack(4, 4096, -1)
		require.NoError(t, err)
		require.True(t, back.Equal(l))
	}
	m, err := l.MaxItemSize(16, 4096, 1)
	require.NoError(t, err)
	require.Equal(t, 16, m)
	m, err = l.MaxItemSize(16, 4096+8, 1)
	require.NoError(t, err)
	require.Equal(t, 8, m)
	m, err = l.MaxItemSize(4, 4096, 1)
	require.NoError(t, err)
	require.Equal(t, 4, m)

	odd := layout(t, ints(2, 7), ints(7, 1))
	m, err = odd.MaxItemSize(16, 4096, 1)
	require.NoError(t, err)
	require.Equal(t, 4, m)
	slid, err := l.Slice(memview.All(), memview.Range(1, 7))
	require.NoError(t, err)
	for _, c := range []struct {
		name string
		l    memview.Layout
		item int
		addr uintptr
		axis int
		want error
	}{
		{"axis", l, 8, 4096, 2, dlpack.ErrLayout},
		{"alignment", l, 8, 4100, 1, dlpack.ErrAlign},
		{"B256 stride not 1", l, 8, 4096, 0, dlpack.ErrLayout},
		{"extent not divisible", odd, 8, 4096, 1, dlpack.ErrLayout},
		{"offset not divisible", slid, 8, 4096, 1, dlpack.ErrLayout},
		{"B016 stride not divisible", layout(t, ints(2, 6), ints(7, 1)), 8, 4096, 1, dlpack.ErrLayout},
		{"ratio", l, 6, 4092, 1, dlpack.ErrLayout},
		{"empty axis", layout(t, ints(2, 0), nil), 8, 4096, 1, dlpack.ErrLayout},
		{"item size 0", l, 0, 4096, 1, dlpack.ErrLayout},
		{"item size -4", l, -4, 4096, 1, dlpack.ErrLayout},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.l.Repack(c.item, c.addr, c.axis)
			require.ErrorIs(t, err, c.want)
		})
	}
	for _, c := range []struct {
		l     memview.Layout
		limit int
		axis  int
	}{{l, 3, 1}, {l, 16, 0}, {l, 16, 5}, {layout(t, ints(0), nil), 16, 0}} {
		_, err := c.l.MaxItemSize(c.limit, 4096, c.axis)
		require.ErrorIs(t, err, dlpack.ErrLayout)
	}
}

func TestLayoutEqualAndString(t *testing.T) {
	a := layout(t, ints(3, 4), nil)
	require.True(t, a.Equal(layout(t, ints(3, 4), ints(4, 1))))
	require.False(t, a.Equal(a.Transpose()))
	require.False(t, a.Equal(layout(t, ints(3, 4), ints(5, 1))))
	require.Equal(t, "shape [3 4], strides [4 1], 4-byte elements", a.String())
	s, err := a.Slice(memview.From(1))
	require.NoError(t, err)
	require.Equal(t, "shape [2 4], strides [4 1], 4-byte elements, offset 4", s.String())
	require.False(t, s.IsDense())
	p, err := memview.NewLayoutOf(ints(2), nil, dlpack.Float4E2M1FN, false)
	require.NoError(t, err)
	require.Equal(t, "shape [2], strides [1], 4-bit elements", p.String())
	big := slices.Repeat(ints(2), 10)
	require.True(t, layout(t, big, nil).Equal(layout(t, big, nil)))
	_, err = p.ByteStrides()
	require.ErrorIs(t, err, dlpack.ErrNotSupported)
	b, err := a.ByteStrides()
	require.NoError(t, err)
	require.Equal(t, ints(16, 4), b)
	require.Equal(t, []int{1, 0}, a.Transpose().StrideOrder())
}
