package memview

import "iter"

// Offsets yields the offset of every element in C order of indices, in
// elements from the address that the layout is used with. It allocates
// nothing.
func (l Layout) Offsets() iter.Seq[int64] {
	return func(yield func(int64) bool) { l.walk(yield) }
}

// Indexed yields every index in C order with the offset of its element. The
// slice is reused: it is valid until the next step, and must not be changed.
func (l Layout) Indexed() iter.Seq2[[]int64, int64] {
	return func(yield func([]int64, int64) bool) {
		ix := make([]int64, l.ndim)
		l.walk(func(off int64) bool {
			if !yield(ix, off) {
				return false
			}
			l.next(ix)
			return true
		})
	}
}

// Dims yields extent and stride of each axis, first axis first.
func (l Layout) Dims() iter.Seq2[int64, int64] {
	return func(yield func(int64, int64) bool) {
		shape, steps := l.axes()
		for i := range shape {
			if !yield(shape[i], steps[i]) {
				return
			}
		}
	}
}

// OffsetOf returns the offset of the element at an index, and whether there
// is such an element: as many numbers as axes, each from 0 to the extent.
func (l Layout) OffsetOf(index ...int64) (int64, bool) {
	return l.at(index)
}

func (l *Layout) at(index []int64) (int64, bool) {
	if len(index) != int(l.ndim) {
		return 0, false
	}
	shape, steps := l.axes()
	off := l.offset
	for i, x := range index {
		if uint64(x) >= uint64(shape[i]) {
			return 0, false
		}
		off += x * steps[i]
	}
	return off, true
}

// next moves an index to its successor in C order, wrapping around at the end.
func (l *Layout) next(ix []int64) {
	shape, _ := l.axes()
	for i := len(ix) - 1; i >= 0; i-- {
		if ix[i]++; ix[i] < shape[i] {
			return
		}
		ix[i] = 0
	}
}

// walk calls yield with the offset of each element in C order until it
// returns false.
func (l *Layout) walk(yield func(int64) bool) {
	shape, steps := l.axes()
	if l.empty() {
		return
	}
	if len(shape) == 0 {
		yield(l.offset)
		return
	}
	last := len(shape) - 1
	n, step := shape[last], steps[last]
	var ix [MaxDims]int64
	off := l.offset
	for {
		o := off
		for range n {
			if !yield(o) {
				return
			}
			o += step
		}
		i := last - 1
		for ; i >= 0; i-- {
			off += steps[i]
			if ix[i]++; ix[i] < shape[i] {
				break
			}
			off -= steps[i] * shape[i]
			ix[i] = 0
		}
		if i < 0 {
			return
		}
	}
}
