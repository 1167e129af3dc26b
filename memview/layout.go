package memview

import (
	"math"
	"strconv"

	"github.com/go-handoff/handoff/dlpack"
)

// MaxDims is the largest number of axes of a [Layout], the limit of NumPy and
// of the Python buffer protocol (R255).
const MaxDims = 64

// inlineDims is the number of axes that a Layout holds without a pointer.
const inlineDims = 8

// Order names an order of axes in memory.
type Order int8

const (
	// OrderC is row-major: the last axis moves fastest.
	OrderC Order = 0
	// OrderF is column-major: the first axis moves fastest.
	OrderF Order = 1
	// OrderK keeps the order of axes of the layout at hand.
	OrderK Order = 2
)

// String returns "C", "F" or "K".
func (o Order) String() string {
	switch o {
	case OrderC:
		return "C"
	case OrderF:
		return "F"
	case OrderK:
		return "K"
	}
	return "Order(" + strconv.Itoa(int(o)) + ")"
}

// Layout says where the elements of an array lie: extents, strides, the width
// of an element, and the offset of element (0,…,0) from the address that the
// layout is used with.
//
// Strides and offsets count elements, as in DLPack, never bytes (R048). A
// stride may be zero (broadcast) or negative. Extents of 1 never move, so
// their stride means nothing.
//
// A Layout is an immutable value: methods return new ones. Up to 8 axes they
// allocate nothing. It may be used from any number of goroutines. Use
// [Layout.Equal] to compare two, == compares identities above 8 axes. The zero
// Layout has no axes and elements of no width.
//
// Every Layout keeps this promise, so that no later arithmetic can overflow:
// the number of elements, the offset of every element, and both of them in
// bytes fit into an int64 (R034, B097, B098).
type Layout struct {
	ndim   int32
	width  uint32 // bits per element; a multiple of 8 unless packed
	offset int64  // of element (0,…,0), in elements
	shape  [inlineDims]int64
	steps  [inlineDims]int64 // strides
	more   *spilled          // replaces shape and steps above inlineDims
}

// spilled holds the axes of a layout with more than inlineDims of them. It is
// written once, before the layout that points to it is handed out.
type spilled struct {
	shape, steps [MaxDims]int64
}

// axes returns the extents and strides, for reading, or for writing while the
// layout is being built.
func (l *Layout) axes() (shape, steps []int64) {
	if l.more != nil {
		return l.more.shape[:l.ndim], l.more.steps[:l.ndim]
	}
	return l.shape[:l.ndim], l.steps[:l.ndim]
}

// blank returns a layout of ndim axes, 0 to MaxDims, to be filled in.
func blank(ndim int, width uint32, offset int64) Layout {
	l := Layout{ndim: int32(ndim), width: width, offset: offset}
	if ndim > inlineDims {
		l.more = new(spilled)
	}
	return l
}

// NewLayout returns the layout of the given extents and element strides, with
// elements of itemSize bytes. Nil strides mean C order (R050, B001). The
// slices are copied.
//
// It fails with [dlpack.ErrLayout] for more than [MaxDims] axes, a negative
// extent, strides of another number than extents, or an item size below 1,
// and with [dlpack.ErrOverflow] if sizes or offsets pass an int64.
func NewLayout(shape, strides []int64, itemSize int) (Layout, error) {
	if itemSize < 1 || int64(itemSize) > 1<<28 {
		return Layout{}, fail("layout", "R259", dlpack.ErrLayout, "item size "+strconv.Itoa(itemSize)+" is out of range")
	}
	return newLayout("layout", shape, strides, uint32(itemSize)*8)
}

// NewLayoutOf is [NewLayout] for elements of a dtype. Elements narrower than
// a byte are packed unless padded is true, in which case each fills one byte
// (R031).
func NewLayoutOf(shape, strides []int64, dtype dlpack.DataType, padded bool) (Layout, error) {
	w := widthOf(dtype, padded)
	if w == 0 {
		return Layout{}, fail("layout", "R029", dlpack.ErrDType, "dtype "+dtype.String()+" has no width")
	}
	return newLayout("layout", shape, strides, w)
}

// Dense returns the layout of an array without gaps. OrderK means C here, as
// there is no other layout to follow.
func Dense(shape []int64, itemSize int, order Order) (Layout, error) {
	l, err := NewLayout(shape, nil, itemSize)
	if err != nil {
		return Layout{}, err
	}
	return l.Dense(order)
}

// widthOf returns the bits from one element to the next in dense memory, or 0
// if the dtype has no size.
func widthOf(dt dlpack.DataType, padded bool) uint32 {
	w := uint32(dt.Bits) * uint32(dt.Lanes)
	if w%8 != 0 && padded {
		w = (w + 7) / 8 * 8
	}
	return w
}

func newLayout(op string, shape, strides []int64, width uint32) (Layout, error) {
	if len(shape) > MaxDims {
		return Layout{}, fail(op, "R255", dlpack.ErrLayout, strconv.Itoa(len(shape))+" axes are more than 64")
	}
	if strides != nil && len(strides) != len(shape) {
		return Layout{}, fail(op, "R049", dlpack.ErrLayout,
			strconv.Itoa(len(strides))+" strides for "+strconv.Itoa(len(shape))+" extents")
	}
	l := blank(len(shape), width, 0)
	sh, st := l.axes()
	copy(sh, shape)
	if strides != nil {
		copy(st, strides)
	} else if !denseSteps(sh, st, OrderC) {
		return Layout{}, fail(op, "R034", dlpack.ErrOverflow, "strides of shape "+listOf(sh)+" pass 64 bits")
	}
	if err := l.check(op); err != nil {
		return Layout{}, err
	}
	return l, nil
}

// check tests the promise of Layout for a layout with offset 0.
func (l *Layout) check(op string) error {
	shape, steps := l.axes()
	for i, n := range shape {
		if n < 0 {
			return fail(op, "R034", dlpack.ErrLayout, "extent "+strconv.FormatInt(n, 10)+" of axis "+strconv.Itoa(i)+" is negative")
		}
	}
	n, ok := product(shape)
	if ok {
		_, ok = bytesFor(n, l.width)
	}
	if !ok {
		return fail(op, "R034", dlpack.ErrOverflow, "size of shape "+listOf(shape)+" passes 64 bits")
	}
	if n == 0 {
		return nil
	}
	lo, hi, ok := reach(shape, steps)
	if ok = ok && lo > math.MinInt64; ok {
		// The span, and each end as a distance in bytes.
		var span int64
		if span, ok = add(hi, -lo); ok {
			if span, ok = add(span, 1); ok {
				_, ok = bytesFor(span, l.width)
			}
		}
	}
	if !ok {
		return fail(op, "R034", dlpack.ErrOverflow,
			"offsets of shape "+listOf(shape)+" and strides "+listOf(steps)+" pass 64 bits")
	}
	return nil
}

// denseSteps fills in the strides of dense memory and reports whether they
// fit. Extents count as at least 1, so that an empty array has the strides
// that it would have with one element along the empty axes (B027), and
// nothing is ever divided by an extent (B031).
func denseSteps(shape, steps []int64, order Order) bool {
	step, ok := int64(1), true
	empty := false
	for _, n := range shape {
		empty = empty || n == 0
	}
	for i := range shape {
		k := i
		if order != OrderF {
			k = len(shape) - 1 - i
		}
		steps[k] = step
		next, fits := mul(step, max(shape[k], 1))
		if !fits {
			// Legal when it is the last one, or when nothing is ever
			// reached; refused otherwise.
			if !empty && i < len(shape)-1 {
				ok = false
			}
			next = step
		}
		step = next
	}
	return ok
}

// reach returns the lowest and highest offset from element (0,…,0) of a
// layout that is not empty, and whether both fit.
func reach(shape, steps []int64) (lo, hi int64, ok bool) {
	for i, n := range shape {
		if n <= 1 {
			continue
		}
		d, ok := mul(n-1, steps[i])
		if ok && d < 0 {
			lo, ok = add(lo, d)
		} else if ok {
			hi, ok = add(hi, d)
		}
		if !ok {
			return 0, 0, false
		}
	}
	return lo, hi, true
}

// NDim returns the number of axes.
func (l Layout) NDim() int { return int(l.ndim) }

// Dim returns the extent of axis i. It panics if there is no such axis.
func (l Layout) Dim(i int) int64 {
	shape, _ := l.axes()
	return shape[i]
}

// Stride returns the stride of axis i in elements. It panics if there is no
// such axis.
func (l Layout) Stride(i int) int64 {
	_, steps := l.axes()
	return steps[i]
}

// Shape returns a new slice with the extents. Use [Layout.AppendShape] or
// [Layout.Dim] where allocations matter.
func (l Layout) Shape() []int64 { return l.AppendShape(make([]int64, 0, l.ndim)) }

// Strides returns a new slice with the strides in elements.
func (l Layout) Strides() []int64 { return l.AppendStrides(make([]int64, 0, l.ndim)) }

// AppendShape appends the extents to b.
func (l Layout) AppendShape(b []int64) []int64 {
	shape, _ := l.axes()
	return append(b, shape...)
}

// AppendStrides appends the strides in elements to b.
func (l Layout) AppendStrides(b []int64) []int64 {
	_, steps := l.axes()
	return append(b, steps...)
}

// ByteStrides returns a new slice with the strides in bytes (R282). It fails
// with [dlpack.ErrNotSupported] for packed elements that are not whole bytes,
// and with [dlpack.ErrOverflow] where a stride that is never taken does not
// fit.
func (l Layout) ByteStrides() ([]int64, error) {
	if l.width%8 != 0 {
		return nil, fail("layout", "R032", dlpack.ErrNotSupported, "packed elements have no stride in bytes")
	}
	shape, steps := l.axes()
	out := make([]int64, len(steps))
	for i, s := range steps {
		b, ok := mul(s, int64(l.width/8))
		if !ok {
			if shape[i] > 1 {
				return nil, fail("layout", "R034", dlpack.ErrOverflow, "stride "+strconv.FormatInt(s, 10)+" passes 64 bits in bytes")
			}
			b = 0
		}
		out[i] = b
	}
	return out, nil
}

// ItemSize returns the bytes of one element, rounded up for packed elements.
func (l Layout) ItemSize() int { return int((l.width + 7) / 8) }

// ItemBits returns the bits from one element to the next in dense memory: 8
// times ItemSize, except for packed elements.
func (l Layout) ItemBits() int { return int(l.width) }

// Offset returns the offset of element (0,…,0), in elements, from the address
// that the layout is used with. Slicing makes it differ from 0.
func (l Layout) Offset() int64 { return l.offset }

// Size returns the number of elements.
func (l Layout) Size() int64 { return l.size() }

// The methods in lower case are for use inside the package: a pointer spares
// the copy of the layout.

func (l *Layout) size() int64 {
	shape, _ := l.axes()
	n := int64(1)
	for _, e := range shape {
		n *= e // fits, see Layout; a zero may come after a wrapped product
		if e == 0 {
			return 0
		}
	}
	return n
}

// Empty reports whether an extent is zero.
func (l Layout) Empty() bool { return l.empty() }

func (l *Layout) empty() bool {
	shape, _ := l.axes()
	for _, e := range shape {
		if e == 0 {
			return true
		}
	}
	return false
}

// Equal reports whether both have the same extents, strides, offset and
// element width.
func (l Layout) Equal(m Layout) bool {
	if l.ndim != m.ndim || l.width != m.width || l.offset != m.offset {
		return false
	}
	ls, lt := l.axes()
	ms, mt := m.axes()
	return equal(ls, ms) && equal(lt, mt)
}

// SameShape reports whether both have the same extents.
func (l Layout) SameShape(m Layout) bool {
	ls, _ := l.axes()
	ms, _ := m.axes()
	return equal(ls, ms)
}

func equal(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Dense returns a layout of the same shape and item size without gaps and
// with offset 0, in C or F order; OrderK keeps the order of axes that l has
// in memory. It fails with [dlpack.ErrLayout] for an unknown order.
func (l Layout) Dense(order Order) (Layout, error) {
	out := blank(int(l.ndim), l.width, 0)
	shape, _ := l.axes()
	sh, st := out.axes()
	copy(sh, shape)
	switch order {
	case OrderC, OrderF:
		if !denseSteps(sh, st, order) {
			return Layout{}, fail("layout: dense", "R034", dlpack.ErrOverflow, "strides of shape "+listOf(sh)+" pass 64 bits")
		}
	case OrderK:
		var perm [MaxDims]int8
		out.fillDense(l.orderInto(&perm))
	default:
		return Layout{}, fail("layout: dense", "", dlpack.ErrLayout, "unknown order "+order.String())
	}
	return out, nil
}

// DensePerm returns a dense layout of the same shape and item size in which
// axis perm[0] moves slowest and the last of perm fastest. It fails with
// [dlpack.ErrLayout] if perm does not name each axis once; negative axes
// count from the end.
func (l Layout) DensePerm(perm ...int) (Layout, error) {
	var order [MaxDims]int8
	if err := l.permInto("layout: dense", perm, &order); err != nil {
		return Layout{}, err
	}
	out := blank(int(l.ndim), l.width, 0)
	shape, _ := l.axes()
	sh, _ := out.axes()
	copy(sh, shape)
	out.fillDense(order[:l.ndim])
	return out, nil
}

// fillDense sets dense strides; perm lists the axes from slowest to fastest.
func (l *Layout) fillDense(perm []int8) {
	shape, steps := l.axes()
	step := int64(1)
	for i := len(perm) - 1; i >= 0; i-- {
		steps[perm[i]] = step
		if next, ok := mul(step, max(shape[perm[i]], 1)); ok {
			step = next // does not fit only for empty arrays, where it does not matter
		}
	}
}

// StrideOrder returns the axes from the slowest to the fastest moving one, by
// the magnitude of their strides; axes of equal stride keep their order. For
// C order it is 0, 1, 2, …
func (l Layout) StrideOrder() []int {
	var perm [MaxDims]int8
	order := l.orderInto(&perm)
	out := make([]int, len(order))
	for i, a := range order {
		out[i] = int(a)
	}
	return out
}

// orderInto fills buf with the axes sorted by falling |stride|. Axes of
// extent 1 stay where they are relative to their neighbour on the right, as
// their strides mean nothing.
func (l *Layout) orderInto(buf *[MaxDims]int8) []int8 {
	shape, steps := l.axes()
	order := buf[:l.ndim]
	for i := range order {
		order[i] = int8(i)
	}
	// Insertion sort: few axes, mostly sorted, stable. A pair is swapped only
	// if both axes move and the left one has the smaller stride.
	for i := 1; i < len(order); i++ {
		axis := order[i]
		if shape[axis] <= 1 {
			continue
		}
		j := i
		for k := i - 1; k >= 0; k-- {
			other := order[k]
			if shape[other] <= 1 {
				continue
			}
			if magnitude(steps[other]) >= magnitude(steps[axis]) {
				break
			}
			j = k
		}
		copy(order[j+1:i+1], order[j:i])
		order[j] = axis
	}
	return order
}

// String returns the layout in one line, such as "shape [3 4], strides [4 1],
// 4-byte elements".
func (l Layout) String() string {
	shape, steps := l.axes()
	s := "shape " + listOf(shape) + ", strides " + listOf(steps) + ", "
	if l.width%8 == 0 {
		s += strconv.Itoa(int(l.width/8)) + "-byte elements"
	} else {
		s += strconv.Itoa(int(l.width)) + "-bit elements"
	}
	if l.offset != 0 {
		s += ", offset " + strconv.FormatInt(l.offset, 10)
	}
	return s
}

// listOf formats numbers as "[2 3]". It does not keep v, so that callers on
// hot paths stay free of allocations.
func listOf(v []int64) string {
	b := make([]byte, 0, 64)
	b = append(b, '[')
	for i, n := range v {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(append(b, ']'))
}
