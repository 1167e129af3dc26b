package memview

import (
	"runtime"

	"github.com/go-handoff/handoff/dlpack"
)

// Convert copies the elements of src to dst, of the same shape, as numbers of the
// dtype of dst. It is the only call that changes a dtype: no copy does. Both
// views must be memory that the host reaches; the strides may be any, and the
// caller orders the access. The views may overlap, as for [Copy], which equal
// dtypes are left to.
//
// Floating-point dtypes, complex ones included, round to the nearest, ties to
// even; integers above 2^53 are rounded to a float64 first. Integers and bool take
// only values that they have, and real numbers only complex ones without an
// imaginary part: otherwise the error wraps [dlpack.ErrOverflow] and names the
// first index where it happens; elements before it, in C order, have been
// written, unless the views overlap: then none has. Other errors wrap
// [dlpack.ErrDType] for elements that are no numbers, and are those of [Copy].
func Convert(dst, src StridedMemoryView) error {
	const op = "convert"
	if dst.dtype == src.dtype {
		return Copy(dst, src)
	}
	if err := dst.check(op, dst.dtype, needWrite); err != nil {
		return err
	}
	if err := src.check(op, src.dtype, needRead); err != nil {
		return err
	}
	for _, v := range []*StridedMemoryView{&dst, &src} {
		if !numeric(v.dtype) {
			return fail(op, "", dlpack.ErrDType, v.dtype.String()+" elements are no numbers")
		}
	}
	if err := sameShape(op, &dst, &src); err != nil {
		return err
	}
	if dst.layout.empty() {
		return nil
	}
	if err := distinct(op, &dst); err != nil {
		return err
	}
	if MayOverlap(dst, src) {
		shape, _ := dst.layout.axes()
		tmp, err := Make(dst.dtype, shape...)
		if err != nil {
			return err
		}
		if err := convertViews(&tmp, &src); err != nil {
			return err
		}
		return moveViews(dst, tmp)
	}
	return convertViews(&dst, &src)
}

// numeric says whether elements of a dtype are numbers that can be read and written.
func numeric(d dlpack.DataType) bool {
	if d.Lanes != 1 {
		return false
	}
	whole := d.Bits == 8 || d.Bits == 16 || d.Bits == 32 || d.Bits == 64
	switch d.Code {
	case dlpack.CodeInt, dlpack.CodeUInt:
		return d.Bits >= 1 && d.Bits <= 8 || whole
	case dlpack.CodeBool:
		return d.Bits == 8
	case dlpack.CodeComplex, dlpack.CodeBcomplex:
		return d == dlpack.Complex128 || d == dlpack.Complex64 || d == dlpack.Complex32 || d == dlpack.BComplex32
	}
	_, ok := floatBits(d, 0)
	return ok
}

// convertViews converts between views that were checked and do not overlap.
func convertViews(dst, src *StridedMemoryView) error {
	row := dst.rowConverter(src)
	shape, _ := dst.layout.axes()
	done := int64(0)
	ok := true
	walkRows(&dst.layout, &src.layout, func(to, from, n, toStep, fromStep int64) bool {
		var some int64
		some, ok = row(to, from, n, toStep, fromStep)
		done += some
		return ok
	})
	runtime.KeepAlive(dst)
	runtime.KeepAlive(src)
	if ok {
		return nil
	}
	index := make([]int64, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		index[i] = done % shape[i]
		done /= shape[i]
	}
	return fail("convert", "", dlpack.ErrOverflow, "the "+src.dtype.String()+" at "+listOf(index)+" is no "+dst.dtype.String())
}

// walkRows yields the rows of two layouts of one shape, which is not empty, in C
// order: where they begin, how many elements, and from one to the next.
func walkRows(a, b *Layout, yield func(i, j, n, iStep, jStep int64) bool) {
	shape, as := a.axes()
	_, bs := b.axes()
	i, j := a.offset, b.offset
	if len(shape) == 0 {
		yield(i, j, 1, 0, 0)
		return
	}
	last := len(shape) - 1
	var ix [MaxDims]int64
	for {
		if !yield(i, j, shape[last], as[last], bs[last]) {
			return
		}
		k := last - 1
		for ; k >= 0; k-- {
			i += as[k]
			j += bs[k]
			if ix[k]++; ix[k] < shape[k] {
				break
			}
			i -= as[k] * shape[k]
			j -= bs[k] * shape[k]
			ix[k] = 0
		}
		if k < 0 {
			return
		}
	}
}
