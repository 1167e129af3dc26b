package memview

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

const (
	printWhole = 1000 // elements up to which a view is printed whole
	printMost  = 8000 // elements printed of a shortened view with many axes
	printEdge  = 3    // elements kept at each end of a longer axis
)

// String returns the elements in the way of NumPy, with an ellipsis in the
// middle of long axes, and dtype, shape and device:
//
//	float32[2 3] on cpu:0
//	[[0 1 2]
//	 [3 4 5]]
//
// Memory that cannot be read from here, because it was given back or is on a
// device, is described by the first line alone.
func (v StridedMemoryView) String() string {
	if v.layout.width == 0 {
		return "view of no memory"
	}
	head := v.describe()
	if !v.owner.live() {
		return head + ", given back"
	}
	if !v.HostAccessible() {
		return head
	}
	return head + "\n" + v.elements()
}

// describe returns one line about the view.
func (v *StridedMemoryView) describe() string {
	shape, _ := v.layout.axes()
	s := v.dtype.String() + listOf(shape) + " on " + v.device.String()
	if v.ReadOnly() {
		s += ", read-only"
	}
	return s
}

// Format implements [fmt.Formatter]: %v and %s print the elements as
// [StridedMemoryView.String], %+v adds strides and address.
func (v StridedMemoryView) Format(f fmt.State, verb rune) {
	switch {
	case verb == 'v' && f.Flag('+') && v.layout.width != 0:
		_, steps := v.layout.axes()
		fmt.Fprintf(f, "%s, strides %s, at 0x%x", v.describe(), listOf(steps), v.address())
		if v.owner.live() && v.HostAccessible() {
			_, _ = io.WriteString(f, "\n"+v.elements())
		}
	case verb == 'v' || verb == 's':
		_, _ = io.WriteString(f, v.String())
	default:
		fmt.Fprintf(f, "%%!%c(%s)", verb, v.describe())
	}
}

// elements returns the nested lists of elements.
func (v *StridedMemoryView) elements() string {
	if v.layout.empty() {
		return "[]"
	}
	if v.numberAtZero().kind == noNumber {
		return "(elements are no numbers)"
	}
	p := printer{v: v, edge: v.layout.size() > printWhole}
	p.index = make([]int64, v.layout.ndim)
	if p.edge {
		shape, _ := v.layout.axes()
		count := int64(1)
		for _, n := range shape {
			if count *= min(n, 2*printEdge); count > printMost {
				return "(too many axes to print)"
			}
		}
	}
	// First pass: the widest element, so that columns stand under each other.
	if v.layout.ndim > 0 {
		p.list(0, func(s string) { p.width = max(p.width, len(s)) })
	}
	p.b.Reset()
	p.list(0, func(s string) {
		for range p.width - len(s) {
			p.b.WriteByte(' ')
		}
		p.b.WriteString(s)
	})
	return p.b.String()
}

func (v *StridedMemoryView) numberAtZero() number {
	return v.numberAt(v.pointer(), v.layout.offset)
}

// printer walks the axes of a view.
type printer struct {
	v     *StridedMemoryView
	b     strings.Builder
	index []int64
	width int
	edge  bool // shorten long axes
}

// list prints everything below the index of the first axis axes.
func (p *printer) list(axis int, put func(string)) {
	if axis == len(p.index) {
		n := p.v.read(p.index)
		put(n.String())
		return
	}
	n := p.v.layout.Dim(axis)
	p.b.WriteByte('[')
	last := axis == len(p.index)-1
	for i := int64(0); i < n; i++ {
		if i > 0 {
			p.separate(axis, last)
		}
		if p.edge && n > 2*printEdge && i == printEdge {
			p.b.WriteString("...")
			i = n - printEdge - 1
			continue
		}
		p.index[axis] = i
		p.list(axis+1, put)
	}
	p.b.WriteByte(']')
}

// separate prints what stands between two entries of an axis: a space, or
// line ends and the indentation of the brackets.
func (p *printer) separate(axis int, last bool) {
	if last {
		p.b.WriteByte(' ')
		return
	}
	for range len(p.index) - 1 - axis {
		p.b.WriteByte('\n')
	}
	for range axis + 1 {
		p.b.WriteByte(' ')
	}
}

// String formats a number with the shortest text that reads back the same.
func (n *number) String() string {
	switch n.kind {
	case boolNumber:
		return strconv.FormatBool(n.u != 0)
	case intNumber:
		return strconv.FormatInt(n.i, 10)
	case uintNumber:
		return strconv.FormatUint(n.u, 10)
	case floatNumber:
		return formatFloat(n.f, n.bits)
	case complexNumber:
		im := formatFloat(imag(n.c), n.bits)
		if im[0] != '-' && im[0] != '+' {
			im = "+" + im
		}
		return formatFloat(real(n.c), n.bits) + im + "i"
	}
	return "?"
}

func formatFloat(f float64, bits int) string {
	if math.IsInf(f, 0) {
		return strings.ToLower(strconv.FormatFloat(f, 'g', -1, bits))
	}
	return strconv.FormatFloat(f, 'g', -1, bits)
}
