package memview

import (
	"strconv"

	"github.com/go-handoff/handoff/dlpack"
)

// OffsetBounds returns the lowest and the highest offset of an element from
// the address that the layout is used with, in elements. An empty layout has
// the bounds 0, -1.
func (l Layout) OffsetBounds() (lo, hi int64) { return l.bounds() }

func (l *Layout) bounds() (lo, hi int64) {
	if l.empty() {
		return 0, -1
	}
	shape, steps := l.axes()
	lo, hi, _ = reach(shape, steps) // fits, see Layout
	return lo + l.offset, hi + l.offset
}

// MinOffset returns the lower of [Layout.OffsetBounds].
func (l Layout) MinOffset() int64 { lo, _ := l.bounds(); return lo }

// MaxOffset returns the higher of [Layout.OffsetBounds].
func (l Layout) MaxOffset() int64 { _, hi := l.bounds(); return hi }

// ByteSpan returns the number of bytes from the lowest byte of an element to
// the highest, gaps included: what a copy of the region would have to hold.
// It is 0 for an empty layout (B010).
func (l Layout) ByteSpan() int64 {
	lo, hi := l.byteBounds()
	return hi - lo
}

// byteBounds returns the half-open range of bytes that the elements touch,
// relative to the address that the layout is used with.
func (l *Layout) byteBounds() (lo, hi int64) {
	if l.empty() {
		return 0, 0
	}
	a, b := l.bounds()
	if l.width%8 == 0 {
		w := int64(l.width / 8)
		return a * w, (b + 1) * w
	}
	w := int64(l.width)
	return floorDiv(a*w, 8), -floorDiv(-(b+1)*w, 8)
}

// NumBytes returns the bytes of the elements alone, as a dense array would
// hold them: number of elements times item size, or the packed size. It does
// not tell how far a strided layout reaches; [Layout.ByteSpan] does.
func (l Layout) NumBytes() int64 {
	n, _ := bytesFor(l.Size(), l.width) // fits, see Layout
	return n
}

// RequiredSize returns the bytes that a buffer must have so that the layout,
// used with the address of its first byte, stays inside. It fails with
// [dlpack.ErrLayout] if the layout reaches below that address.
func (l Layout) RequiredSize() (int64, error) {
	lo, hi := l.byteBounds()
	if lo < 0 {
		return 0, fail("layout", "R053", dlpack.ErrLayout,
			"strides reach "+strconv.FormatInt(-lo, 10)+" bytes below the start of the buffer")
	}
	return hi, nil
}

// FitsIn reports, as an error, whether the layout stays inside a buffer of
// size bytes whose first byte is the address it is used with. Errors wrap
// [dlpack.ErrLayout].
func (l Layout) FitsIn(size int64) error {
	need, err := l.RequiredSize()
	if err != nil {
		return err
	}
	if need > size {
		return fail("layout", "", dlpack.ErrLayout,
			"expected at least "+strconv.FormatInt(need, 10)+" bytes, got "+strconv.FormatInt(size, 10))
	}
	return nil
}

// ContiguousC reports whether the elements lie in C order without gaps.
// Axes of extent 1 are skipped, and an empty layout is contiguous (B006, R054).
func (l Layout) ContiguousC() bool { return l.isC() }

func (l *Layout) isC() bool {
	shape, steps := l.axes()
	want := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		n := shape[i]
		if n == 1 {
			continue
		}
		if n == 0 {
			return true
		}
		if steps[i] != want {
			return l.empty()
		}
		want *= n
	}
	return true
}

// ContiguousF reports whether the elements lie in Fortran order without gaps,
// with the same rules as [Layout.ContiguousC].
func (l Layout) ContiguousF() bool {
	shape, steps := l.axes()
	want := int64(1)
	for i, n := range shape {
		if n == 1 {
			continue
		}
		if n == 0 {
			return true
		}
		if steps[i] != want {
			return l.empty()
		}
		want *= n
	}
	return true
}

// ContiguousAny reports whether the elements fill their span without gaps in
// some order of axes, all strides positive. C and F order are such orders.
func (l Layout) ContiguousAny() bool { return l.isAny() }

func (l *Layout) isAny() bool {
	var buf [MaxDims]int8
	return l.contiguousIn(l.orderInto(&buf))
}

// contiguousIn reports whether l is dense with the axes in the given order,
// slowest first.
func (l *Layout) contiguousIn(order []int8) bool {
	if l.empty() {
		return true
	}
	shape, steps := l.axes()
	want := int64(1)
	for i := len(order) - 1; i >= 0; i-- {
		n := shape[order[i]]
		if n == 1 {
			continue
		}
		if steps[order[i]] != want {
			return false
		}
		want *= n
	}
	return true
}

// IsDense reports whether the layout is contiguous in some order and starts
// at the address that it is used with: it is not a slice of something larger
// as far as one can tell from the layout.
func (l Layout) IsDense() bool { return l.offset == 0 && l.ContiguousAny() }

// IsUnique reports whether no two indices name the same element in memory.
// Broadcast layouts are not unique, nor are windows that slide over the same
// elements. The test is exact except for contrived strides on many axes, for
// which false is the answer when the search takes too long.
func (l Layout) IsUnique() bool { return l.unique() }

func (l *Layout) unique() bool {
	if l.empty() {
		return true
	}
	shape, steps := l.axes()
	var buf [MaxDims]int8
	order := l.orderInto(&buf)
	// Common case: every stride passes over all that the faster axes reach.
	nested, span := true, uint64(0)
	for i := len(order) - 1; i >= 0; i-- {
		n, s := shape[order[i]], magnitude(steps[order[i]])
		if n == 1 {
			continue
		}
		if s == 0 {
			return false
		}
		if s <= span {
			nested = false
		}
		span += uint64(n-1) * s // bounded by the span of the layout
	}
	if nested {
		return true
	}
	// Two indices meet if their difference d, |d[i]| < shape[i], not all
	// zero, has sum d[i]*steps[i] = 0. Search from the slowest axis down.
	var q meetSearch
	for _, a := range order {
		if shape[a] > 1 {
			q.n[q.len] = shape[a] - 1
			q.s[q.len] = int64(magnitude(steps[a]))
			q.len++
		}
	}
	g, r := uint64(0), int64(0)
	for i := q.len - 1; i >= 0; i-- {
		g = gcd(g, uint64(q.s[i]))
		r += q.n[i] * q.s[i]
		q.gcd[i], q.reach[i] = int64(g), r
	}
	q.budget = 1 << 16
	return !q.meet(0, 0, false)
}

// meetSearch looks for a non-zero combination of strides that sums to zero.
type meetSearch struct {
	n, s, gcd, reach [MaxDims]int64
	len, budget      int
}

// meet reports whether sum can be brought to zero with axes i and later;
// moved tells that an earlier axis has a non-zero difference. It also reports
// true when the budget is used up.
func (q *meetSearch) meet(i int, sum int64, moved bool) bool {
	if i == q.len {
		return moved && sum == 0
	}
	if sum%q.gcd[i] != 0 || int64(magnitude(sum)) > q.reach[i] {
		return false
	}
	rest := int64(0)
	if i+1 < q.len {
		rest = q.reach[i+1]
	}
	// sum + d*s must stay within what the rest can bring back.
	s := q.s[i]
	lo := max(-q.n[i], -floorDiv(rest+sum, s))
	hi := min(q.n[i], floorDiv(rest-sum, s))
	if !moved {
		lo = max(lo, 0) // a difference and its negative are the same case
	}
	for d := lo; d <= hi; d++ {
		if q.budget--; q.budget < 0 {
			return true
		}
		if q.meet(i+1, sum+d*s, moved || d != 0) {
			return true
		}
	}
	return false
}
