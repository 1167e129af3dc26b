package memview

import (
	"math"
	"strconv"

	"github.com/go-handoff/handoff/dlpack"
)

// Index selects elements along one axis, or adds axes, in [Layout.Slice] and
// [StridedMemoryView.Slice]. Build one with [All], [Range], [From], [To],
// [Pick], [NewAxis] or [Ellipsis]; the zero Index is All().
//
// Meaning is as in Python: negative positions count from the end, ranges are
// half-open and clipped to the axis, [Index.By] sets the step.
type Index struct {
	kind         indexKind
	noLo, noHi   bool
	hasStep      bool
	lo, hi, step int64
}

type indexKind uint8

const (
	indexAll indexKind = iota
	indexRange
	indexPick
	indexNewAxis
	indexEllipsis
)

// All selects a whole axis, as ":" does in Python.
func All() Index { return Index{} }

// Range selects positions lo to hi, hi excluded: "lo:hi".
func Range(lo, hi int64) Index { return Index{kind: indexRange, lo: lo, hi: hi} }

// From selects position lo and all that follow: "lo:".
func From(lo int64) Index { return Index{kind: indexRange, lo: lo, noHi: true} }

// To selects all positions before hi: ":hi".
func To(hi int64) Index { return Index{kind: indexRange, hi: hi, noLo: true} }

// Pick selects one position and drops the axis. Unlike a range, a position
// outside of the axis is an error.
func Pick(i int64) Index { return Index{kind: indexPick, lo: i} }

// NewAxis adds an axis of extent 1.
func NewAxis() Index { return Index{kind: indexNewAxis} }

// Ellipsis stands for as many All() as are needed to reach every axis. It may
// be used once. Missing indices at the end need no Ellipsis.
func Ellipsis() Index { return Index{kind: indexEllipsis} }

// By returns the index with the given step: All().By(-1) reverses an axis,
// Range(8, 2).By(-1) runs from 8 down to 3. A zero step is refused when the
// index is used, as is a step on what is not a range.
func (x Index) By(step int64) Index {
	if x.kind == indexAll {
		x = Index{kind: indexRange, noLo: true, noHi: true}
	}
	x.hasStep, x.step = true, step
	return x
}

// resolve returns the first position, the step and the number of positions of
// a range on an axis of extent n. The step is not zero.
func (x Index) resolve(n int64) (start, step, count int64) {
	step = 1
	if x.hasStep {
		step = x.step
	}
	// Bounds of clipping: a falling range may start at n-1 and stop at -1.
	low, high := int64(0), n
	if step < 0 {
		low, high = -1, n-1
	}
	clip := func(p int64) int64 {
		if p < 0 {
			p += n
		}
		return min(max(p, low), high)
	}
	start, stop := low, high
	if step < 0 {
		start, stop = high, low
	}
	if !x.noLo {
		start = clip(x.lo)
	}
	if !x.noHi {
		stop = clip(x.hi)
	}
	if step > 0 && start < stop {
		count = (stop-start-1)/step + 1
	} else if step < 0 && start > stop {
		if step == math.MinInt64 {
			return start, step, 1
		}
		count = (start-stop-1)/-step + 1
	}
	return start, step, count
}

// Slice selects parts of the axes, first index for the first axis. Axes
// without an index are kept whole. The result describes the same memory with
// another offset, shape and strides.
//
// It fails with [dlpack.ErrLayout] for more indices than axes, a zero step, a
// [Pick] outside of its axis, two ellipses, or more than [MaxDims] axes.
func (l Layout) Slice(index ...Index) (Layout, error) {
	used, extra, dropped, ellipsis := 0, 0, 0, false
	for _, x := range index {
		switch x.kind {
		case indexNewAxis:
			extra++
		case indexEllipsis:
			if ellipsis {
				return Layout{}, fail("slice", "", dlpack.ErrLayout, "two ellipses")
			}
			ellipsis = true
		case indexPick:
			dropped++
			used++
		default:
			used++
		}
	}
	if used > int(l.ndim) {
		return Layout{}, fail("slice", "", dlpack.ErrLayout,
			strconv.Itoa(used)+" indices for "+strconv.Itoa(int(l.ndim))+" axes")
	}
	ndim := int(l.ndim) - dropped + extra
	if ndim > MaxDims {
		return Layout{}, fail("slice", "R255", dlpack.ErrLayout, strconv.Itoa(ndim)+" axes are more than 64")
	}
	shape, steps := l.axes()
	out := blank(ndim, l.width, l.offset)
	sh, st := out.axes()
	empty := l.empty()
	axis, k := 0, 0
	keep := func(count int) {
		for range count {
			sh[k], st[k] = shape[axis], steps[axis]
			axis++
			k++
		}
	}
	for _, x := range index {
		switch x.kind {
		case indexNewAxis:
			if x.hasStep {
				return Layout{}, fail("slice", "", dlpack.ErrLayout, "a step on a new axis")
			}
			sh[k], st[k] = 1, 0
			k++
		case indexEllipsis:
			if x.hasStep {
				return Layout{}, fail("slice", "", dlpack.ErrLayout, "a step on an ellipsis")
			}
			keep(int(l.ndim) - used)
		case indexPick:
			n, i := shape[axis], x.lo
			if i < 0 {
				i += n
			}
			if i < 0 || i >= n || x.hasStep {
				return Layout{}, fail("slice", "", dlpack.ErrLayout,
					"index "+strconv.FormatInt(x.lo, 10)+" is out of range for axis "+strconv.Itoa(axis)+" of extent "+strconv.FormatInt(n, 10))
			}
			if i > 0 && !empty {
				out.offset += i * steps[axis]
			}
			axis++
		case indexAll:
			keep(1)
		default:
			if x.hasStep && x.step == 0 {
				return Layout{}, fail("slice", "", dlpack.ErrLayout, "step of axis "+strconv.Itoa(axis)+" is zero")
			}
			start, step, count := x.resolve(shape[axis])
			sh[k], st[k] = count, steps[axis]
			// The offset moves only if there is an element to move to, and
			// the stride changes only if it is ever taken: both stay within
			// the reach of l then.
			if count > 0 && start > 0 && !empty {
				out.offset += start * steps[axis]
			}
			if s, ok := mul(steps[axis], step); ok {
				st[k] = s
			}
			axis++
			k++
		}
	}
	keep(int(l.ndim) - axis)
	if !empty && out.empty() {
		out.offset = l.offset // nothing is reached; never point outside
	}
	return out, nil
}
