package memview_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/memview"
)

// array is the naive model of a view: a shape, and for each index in C order
// the position of its element in memory.
type array struct {
	shape []int64
	at    []int64
}

func newArray(shape []int64) array {
	n := int64(1)
	for _, e := range shape {
		n *= e
	}
	a := array{shape: slices.Clone(shape), at: make([]int64, n)}
	for i := range a.at {
		a.at[i] = int64(i)
	}
	return a
}

// index returns the multi-index number k of a shape.
func index(shape []int64, k int64) []int64 {
	ix := make([]int64, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		ix[i] = k % shape[i]
		k /= shape[i]
	}
	return ix
}

func flat(shape, ix []int64) int64 {
	k := int64(0)
	for i := range shape {
		k = k*shape[i] + ix[i]
	}
	return k
}

// remap builds an array of another shape from a function on indices.
func (a array) remap(shape []int64, from func(ix []int64) []int64) array {
	b := newArray(shape)
	for k := range b.at {
		b.at[k] = a.at[flat(a.shape, from(index(shape, int64(k))))]
	}
	return b
}

func (a array) equal(t require.TestingT, l memview.Layout, msg string) {
	require.Equal(t, a.shape, l.Shape(), msg)
	require.EqualValues(t, len(a.at), l.Size(), msg)
	got := make([]int64, 0, len(a.at))
	for off := range l.Offsets() {
		got = append(got, off)
	}
	require.Equal(t, a.at, got, msg)
	k := 0
	for ix, off := range l.Indexed() {
		require.Equal(t, a.at[k], off)
		require.Equal(t, index(a.shape, int64(k)), ix)
		byIndex, ok := l.OffsetOf(ix...)
		require.True(t, ok)
		require.Equal(t, off, byIndex)
		k++
	}
	require.Equal(t, len(a.at), k)
	// Bounds and uniqueness follow from the positions.
	lo, hi := l.OffsetBounds()
	if len(a.at) == 0 {
		require.Equal(t, []int64{0, -1}, []int64{lo, hi})
		require.True(t, l.ContiguousC() && l.ContiguousF() && l.ContiguousAny() && l.IsUnique())
		return
	}
	require.Equal(t, slices.Min(a.at), lo, msg)
	require.Equal(t, slices.Max(a.at), hi, msg)
	require.Equal(t, (hi-lo+1)*int64(l.ItemSize()), l.ByteSpan())
	sorted := slices.Clone(a.at)
	slices.Sort(sorted)
	unique := len(slices.Compact(slices.Clone(sorted))) == len(sorted)
	require.Equal(t, unique, l.IsUnique(), "%s: %v", msg, l)
	dense := unique && hi-lo+1 == int64(len(a.at))
	consecutive := true
	for i := range a.at {
		consecutive = consecutive && a.at[i] == lo+int64(i)
	}
	require.Equal(t, consecutive, l.ContiguousC(), "%s: %v", msg, l)
	if l.ContiguousAny() {
		require.True(t, dense, "%s: %v", msg, l)
	}
}

func shapeGen(most int) *rapid.Generator[[]int64] {
	return rapid.Custom(func(t *rapid.T) []int64 {
		return rapid.SliceOfN(rapid.Int64Range(0, 4), 0, most).Draw(t, "shape")
	})
}

// step applies one random operation to model and layout alike.
func step(t *rapid.T, a array, l memview.Layout) (array, memview.Layout, string) {
	n := len(a.shape)
	switch op := rapid.SampledFrom([]string{"slice", "permute", "transpose", "reshape", "squeeze", "unsqueeze", "broadcast", "flatten"}).Draw(t, "op"); op {
	case "slice":
		var ix []memview.Index
		var shape []int64
		var starts, steps []int64
		var picked []bool
		for _, e := range a.shape {
			if e > 0 && rapid.IntRange(0, 4).Draw(t, "pick") == 0 {
				p := rapid.Int64Range(-e, e-1).Draw(t, "at")
				ix = append(ix, memview.Pick(p))
				if p < 0 {
					p += e
				}
				starts, steps, picked = append(starts, p), append(steps, 0), append(picked, true)
				continue
			}
			s := rapid.SampledFrom([]int64{1, 1, 2, 3, -1, -2, -5, 100}).Draw(t, "step")
			x := memview.All()
			lo, hi := rapid.Int64Range(-6, 6).Draw(t, "lo"), rapid.Int64Range(-6, 6).Draw(t, "hi")
			kind := rapid.IntRange(0, 3).Draw(t, "bounds")
			switch kind {
			case 1:
				x = memview.From(lo)
			case 2:
				x = memview.To(hi)
			case 3:
				x = memview.Range(lo, hi)
			}
			ix = append(ix, x.By(s))
			// Walk as Python's definition of slices says.
			start, stop := pyBound(kind == 1 || kind == 3, lo, e, s, s > 0), pyBound(kind >= 2, hi, e, s, s < 0)
			count := int64(0)
			for i := start; (s > 0 && i < stop) || (s < 0 && i > stop); i += s {
				count++
			}
			starts, steps, picked = append(starts, start), append(steps, s), append(picked, false)
			shape = append(shape, count)
		}
		if shape == nil {
			shape = []int64{}
		}
		m, err := l.Slice(ix...)
		require.NoError(t, err)
		return a.remap(shape, func(ix []int64) []int64 {
			out, k := make([]int64, n), 0
			for i := range out {
				out[i] = starts[i]
				if !picked[i] {
					out[i] += ix[k] * steps[i]
					k++
				}
			}
			return out
		}), m, op
	case "permute":
		axes := make([]int, n)
		for i := range axes {
			axes[i] = i
		}
		perm := rapid.Permutation(axes).Draw(t, "perm")
		m, err := l.Permute(perm...)
		require.NoError(t, err)
		shape := make([]int64, n)
		for i, p := range perm {
			shape[i] = a.shape[p]
		}
		return a.remap(shape, func(ix []int64) []int64 {
			out := make([]int64, n)
			for i, p := range perm {
				out[p] = ix[i]
			}
			return out
		}), m, op
	case "transpose":
		shape := slices.Clone(a.shape)
		slices.Reverse(shape)
		return a.remap(shape, func(ix []int64) []int64 {
			out := slices.Clone(ix)
			slices.Reverse(out)
			return out
		}), l.Transpose(), op
	case "reshape":
		// Cut the elements in random factors.
		rest, shape := int64(len(a.at)), []int64{}
		for rest > 1 && len(shape) < 5 {
			var divisors []int64
			for d := int64(1); d <= rest; d++ {
				if rest%d == 0 {
					divisors = append(divisors, d)
				}
			}
			d := rapid.SampledFrom(divisors).Draw(t, "extent")
			shape, rest = append(shape, d), rest/d
		}
		if rest != 1 || len(a.at) == 0 {
			shape = append(shape, rest)
		}
		m, err := l.Reshape(shape...)
		if err != nil {
			// Right only if there are no such strides: the offsets of the
			// new shape are no sum of steps along its axes.
			require.ErrorIs(t, err, dlpack.ErrCopy)
			require.False(t, affine(shape, a.at), "%v to %v is possible", l, shape)
			return a, l, op
		}
		return array{shape: shape, at: a.at}, m, op
	case "squeeze":
		m, err := l.Squeeze()
		require.NoError(t, err)
		shape := slices.DeleteFunc(slices.Clone(a.shape), func(e int64) bool { return e == 1 })
		return array{shape: shape, at: a.at}, m, op
	case "unsqueeze":
		at := rapid.IntRange(-n-1, n).Draw(t, "axis")
		m, err := l.Unsqueeze(at)
		require.NoError(t, err)
		if at < 0 {
			at += n + 1
		}
		return array{shape: slices.Insert(slices.Clone(a.shape), at, 1), at: a.at}, m, op
	case "broadcast":
		shape := slices.Clone(a.shape)
		for i, e := range shape {
			if e == 1 {
				shape[i] = rapid.Int64Range(0, 3).Draw(t, "extent")
			}
		}
		for range rapid.IntRange(0, 1).Draw(t, "more") {
			shape = slices.Insert(shape, 0, rapid.Int64Range(0, 3).Draw(t, "extent"))
		}
		m, err := l.Broadcast(shape...)
		require.NoError(t, err)
		return a.remap(shape, func(ix []int64) []int64 {
			out := slices.Clone(ix[len(ix)-n:])
			for i := range out {
				if a.shape[i] == 1 {
					out[i] = 0
				}
			}
			return out
		}), m, op
	default:
		start := rapid.IntRange(0, n).Draw(t, "start")
		end := rapid.IntRange(start, n).Draw(t, "end")
		mask := l.FlattenMask() & rapid.Uint64().Draw(t, "mask")
		m, err := l.Flatten(start, end, mask)
		require.NoError(t, err)
		return array{shape: m.Shape(), at: a.at}, m, op
	}
}

// pyBound resolves a bound of a Python slice; first tells which end of the
// axis stands for a missing one.
func pyBound(given bool, p, n, step int64, first bool) int64 {
	lo, hi := int64(0), n
	if step < 0 {
		lo, hi = -1, n-1
	}
	if !given {
		if first {
			return lo
		}
		return hi
	}
	if p < 0 {
		p += n
	}
	return min(max(p, lo), hi)
}

// affine reports whether positions are a sum of constant steps along the axes
// of a shape.
func affine(shape []int64, at []int64) bool {
	if len(at) == 0 {
		return true
	}
	steps := make([]int64, len(shape))
	for i := range shape {
		if shape[i] > 1 {
			ix := make([]int64, len(shape))
			ix[i] = 1
			steps[i] = at[flat(shape, ix)] - at[0]
		}
	}
	for k := range at {
		want := at[0]
		for i, x := range index(shape, int64(k)) {
			want += x * steps[i]
		}
		if at[k] != want {
			return false
		}
	}
	return true
}

func TestLayoutAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := shapeGen(4).Draw(t, "shape")
		l, err := memview.NewLayout(shape, nil, 4)
		require.NoError(t, err)
		a := newArray(shape)
		a.equal(t, l, "start")
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			var op string
			a, l, op = step(t, a, l)
			if len(a.at) > 2000 {
				return
			}
			a.equal(t, l, op)
		}
	})
}

// A view follows its layout: the same operations, read through the memory.
func TestViewAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := shapeGen(4).Draw(t, "shape")
		a := newArray(shape)
		data := seq[int32](len(a.at))
		v, err := memview.FromSlice(data, shape...)
		if len(shape) == 0 {
			v, err = memview.FromArray(new(int32))
		}
		require.NoError(t, err)
		for range rapid.IntRange(1, 4).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "op") {
			case 0:
				ix := make([]memview.Index, len(a.shape))
				steps := make([]int64, len(a.shape))
				for i := range ix {
					steps[i] = rapid.SampledFrom([]int64{1, -1}).Draw(t, "step")
					ix[i] = memview.All().By(steps[i])
				}
				v, err = v.Slice(ix...)
				require.NoError(t, err)
				a = a.remap(a.shape, func(x []int64) []int64 {
					for i := range x {
						if steps[i] < 0 {
							x[i] = a.shape[i] - 1 - x[i]
						}
					}
					return x
				})
			case 1:
				v = v.Transpose()
				s := slices.Clone(a.shape)
				slices.Reverse(s)
				a = a.remap(s, func(x []int64) []int64 { slices.Reverse(x); return x })
			case 2:
				if len(a.shape) == 0 || a.shape[0] == 0 {
					continue
				}
				lo := rapid.Int64Range(0, a.shape[0]).Draw(t, "lo")
				v, err = v.Slice(memview.From(lo))
				require.NoError(t, err)
				s := slices.Clone(a.shape)
				s[0] -= lo
				a = a.remap(s, func(x []int64) []int64 { x[0] += lo; return x })
			}
			require.Zero(t, v.Layout().Offset())
			got := []int64{}
			it, err := memview.Values[int32](v)
			require.NoError(t, err)
			for x := range it {
				got = append(got, int64(x))
			}
			require.Equal(t, a.at, got)
			c, err := v.Clone(memview.OrderF)
			require.NoError(t, err)
			require.True(t, c.ContiguousF())
			f, err := v.Float64s()
			require.NoError(t, err)
			g, err := c.Float64s()
			require.NoError(t, err)
			require.Equal(t, f, g)
		}
	})
}

// Uniqueness of arbitrary strides, against counting.
func TestUniqueAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 4).Draw(t, "axes")
		shape := rapid.SliceOfN(rapid.Int64Range(1, 4), n, n).Draw(t, "shape")
		strides := rapid.SliceOfN(rapid.Int64Range(-9, 9), n, n).Draw(t, "strides")
		l, err := memview.NewLayout(shape, strides, 1)
		require.NoError(t, err)
		seen, unique := map[int64]bool{}, true
		for off := range l.Offsets() {
			unique = unique && !seen[off]
			seen[off] = true
		}
		require.Equal(t, unique, l.IsUnique(), "%v", l)
	})
}

func TestSlice(t *testing.T) {
	l := layout(t, ints(5, 7), nil)
	for _, c := range []struct {
		ix             []memview.Index
		shape, strides []int64
		offset         int64
	}{
		{nil, ints(5, 7), ints(7, 1), 0},
		{[]memview.Index{memview.To(-2), memview.From(3)}, ints(3, 4), ints(7, 1), 3}, // peer 27
		{[]memview.Index{memview.Pick(-1)}, ints(7), ints(1), 28},
		{[]memview.Index{memview.Pick(2), memview.Pick(3)}, ints(), ints(), 17},
		{[]memview.Index{memview.All().By(-1), memview.All().By(-1)}, ints(5, 7), ints(-7, -1), 34},
		{[]memview.Index{memview.Ellipsis(), memview.Pick(0)}, ints(5), ints(7), 0},
		{[]memview.Index{memview.NewAxis(), memview.All(), memview.NewAxis(), memview.Pick(1)}, ints(1, 5, 1), ints(0, 7, 0), 1},
		{[]memview.Index{memview.Range(3, 3)}, ints(0, 7), ints(7, 1), 0},
		{[]memview.Index{memview.Range(100, 200)}, ints(0, 7), ints(7, 1), 0},
		{[]memview.Index{memview.Range(-100, 100)}, ints(5, 7), ints(7, 1), 0},
		{[]memview.Index{memview.From(4).By(-2)}, ints(3, 7), ints(-14, 1), 28},
		{[]memview.Index{memview.All().By(1 << 62)}, ints(1, 7), ints(7, 1), 0},
		{[]memview.Index{memview.All().By(-1 << 63)}, ints(1, 7), ints(7, 1), 28},
	} {
		t.Run(fmt.Sprint(c.shape, c.offset), func(t *testing.T) {
			s, err := l.Slice(c.ix...)
			require.NoError(t, err)
			require.Equal(t, c.shape, s.Shape())
			require.Equal(t, c.offset, s.Offset())
			if len(c.shape) == 0 || c.shape[0] > 1 {
				require.Equal(t, c.strides, s.Strides())
			}
		})
	}
	for name, ix := range map[string][]memview.Index{
		"zero step":          {memview.All().By(0)},
		"too many":           {memview.All(), memview.All(), memview.All()},
		"out of range":       {memview.Pick(5)},
		"out of range below": {memview.Pick(-6)},
		"two ellipses":       {memview.Ellipsis(), memview.Ellipsis()},
		"step on a pick":     {memview.Pick(0).By(2)},
		"step on a new axis": {memview.NewAxis().By(2)},
		"step on ellipsis":   {memview.Ellipsis().By(2)},
		"too many axes":      slices.Repeat([]memview.Index{memview.NewAxis()}, 63),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := l.Slice(ix...)
			require.ErrorIs(t, err, dlpack.ErrLayout)
		})
	}
	t.Run("peer 86: 64 axes reversed, chained", func(t *testing.T) {
		shape := slices.Repeat(ints(1), 64)
		shape[3], shape[60] = 4, 5
		big := layout(t, shape, nil)
		ix := slices.Repeat([]memview.Index{memview.All().By(-1)}, 64)
		r, err := big.Slice(ix...)
		require.NoError(t, err)
		require.EqualValues(t, 19, r.Offset())
		require.EqualValues(t, -5, r.Stride(3))
		back, err := r.Slice(ix...)
		require.NoError(t, err)
		require.EqualValues(t, 0, back.Offset())
		require.True(t, back.ContiguousC())
		perm := make([]int, 64)
		for i := range perm {
			perm[i] = 63 - i
		}
		p, err := big.Permute(perm...)
		require.NoError(t, err)
		require.True(t, p.Equal(big.Transpose()))
		require.True(t, p.ContiguousF())
	})
}
