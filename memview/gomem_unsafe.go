package memview

import (
	"reflect"
	"strconv"
	"unsafe"

	"github.com/go-handoff/handoff/dlpack"
)

// FromSlice returns a view of a Go slice in C order, of the given shape, or
// of one axis if none is given. Nothing is copied; the view keeps the memory
// reachable and has nothing to release. The slice must be Go memory (C memory
// behind a slice has an owner that the view would not know: use [FromDesc]),
// and as long as the shape says: [dlpack.ErrLayout] otherwise.
//
// Slices of 4- and 6-bit types give padded views. It allocates nothing up to
// 8 axes.
func FromSlice[T Element](s []T, shape ...int64) (StridedMemoryView, error) {
	v := goView[T](unsafe.SliceData(s))
	if len(shape) == 0 {
		v.layout.ndim = 1
		v.layout.shape[0], v.layout.steps[0] = int64(len(s)), 1
		return v, nil
	}
	l, err := newLayout("slice", shape, nil, v.layout.width)
	if err != nil {
		return StridedMemoryView{}, err
	}
	if n := l.Size(); n != int64(len(s)) {
		return StridedMemoryView{}, fail("slice", "", dlpack.ErrLayout,
			strconv.Itoa(len(s))+" elements do not fill shape "+listOf(shape))
	}
	v.layout = l
	return v, nil
}

// FromSliceLayout returns a view of a Go slice through a layout, whose
// offsets count from the first element. The item size must be that of T, and the
// layout must stay inside the slice: [dlpack.ErrLayout] otherwise. A layout
// that names an element twice gives a read-only view.
func FromSliceLayout[T Element](s []T, l Layout) (StridedMemoryView, error) {
	v := goView[T](unsafe.SliceData(s))
	if l.width != v.layout.width {
		return StridedMemoryView{}, fail("slice", "", dlpack.ErrLayout,
			"items of "+strconv.Itoa(l.ItemBits())+" bits for elements of "+strconv.Itoa(v.layout.ItemBits()))
	}
	if err := l.FitsIn(int64(len(s)) * int64(v.layout.width/8)); err != nil {
		return StridedMemoryView{}, err
	}
	if !l.IsUnique() {
		v.flags |= dlpack.FlagReadOnly
	}
	return v.with(&l), nil
}

// goView returns a 0-d view of Go memory.
func goView[T Element](p *T) StridedMemoryView {
	var x T
	v := StridedMemoryView{
		// SAFETY: the pointer keeps the memory reachable; how far it may be
		// followed is what the layout says.
		base:   (*byte)(unsafe.Pointer(p)),
		dtype:  DTypeOf[T](),
		device: dlpack.Device{Type: dlpack.DeviceCPU},
		layout: Layout{width: uint32(unsafe.Sizeof(x)) * 8},
	}
	if v.dtype.SubByte() {
		v.flags = dlpack.FlagSubbyteTypePadded
	}
	return v
}

// FromArray returns a view of a Go array of any depth, such as *[3][4]float32,
// or of a single element, which gives a view without axes. Nothing is copied.
//
// It fails with [dlpack.ErrNull] for a nil pointer and with
// [dlpack.ErrDType] unless the innermost elements are of a type in [Element].
func FromArray[A any](p *A) (StridedMemoryView, error) {
	if p == nil {
		return StridedMemoryView{}, fail("array", "", dlpack.ErrNull, "nil pointer")
	}
	return arrayView(unsafe.Pointer(p), reflect.TypeFor[A](), nil)
}

// FromArrays returns a view of a slice of arrays, such as [][4]float32, whose
// first axis runs along the slice. Errors are those of [FromArray].
func FromArrays[A any](s []A) (StridedMemoryView, error) {
	return arrayView(unsafe.Pointer(unsafe.SliceData(s)), reflect.TypeFor[A](), []int64{int64(len(s))})
}

// arrayView returns a view of p with the axes in shape and those of the array
// type t.
func arrayView(p unsafe.Pointer, t reflect.Type, shape []int64) (StridedMemoryView, error) {
	whole := t
	for ; t.Kind() == reflect.Array && len(shape) <= MaxDims; t = t.Elem() {
		if dtypeOf(reflect.Zero(reflect.PointerTo(t)).Interface()).Bits != 0 {
			break
		}
		shape = append(shape, int64(t.Len()))
	}
	dt := dtypeOf(reflect.Zero(reflect.PointerTo(t)).Interface())
	if dt.Bits == 0 {
		return StridedMemoryView{}, fail("array", "R027", dlpack.ErrDType, "elements of "+whole.String()+" have no dtype")
	}
	l, err := newLayout("array", shape, nil, uint32(t.Size())*8)
	if err != nil {
		return StridedMemoryView{}, err
	}
	v := StridedMemoryView{
		// SAFETY: Go memory of the size that the array type has; the pointer
		// keeps it reachable.
		base:   (*byte)(p),
		dtype:  dt,
		device: dlpack.Device{Type: dlpack.DeviceCPU},
		layout: l,
	}
	if dt.SubByte() {
		v.flags = dlpack.FlagSubbyteTypePadded
	}
	return v, nil
}

// FromRows returns a 2-d view of rows that were cut from one slice, such as
// rows[i] = data[i*stride : i*stride+n]. The capacity of the first row proves
// that they share an allocation. Rows that lie apart cannot be viewed without
// a copy: [dlpack.ErrCopy]. Rows of unequal length give [dlpack.ErrLayout].
func FromRows[T Element](rows [][]T) (StridedMemoryView, error) {
	if len(rows) == 0 {
		return StridedMemoryView{}, fail("rows", "", dlpack.ErrLayout, "no rows tell how long a row is")
	}
	n := len(rows[0])
	for i, r := range rows {
		if len(r) != n {
			return StridedMemoryView{}, fail("rows", "", dlpack.ErrLayout,
				"row "+strconv.Itoa(i)+" has "+strconv.Itoa(len(r))+" elements, row 0 has "+strconv.Itoa(n))
		}
	}
	v := goView(unsafe.SliceData(rows[0]))
	v.layout.ndim = 2
	v.layout.shape[0], v.layout.shape[1] = int64(len(rows)), int64(n)
	v.layout.steps[0], v.layout.steps[1] = int64(n), 1
	if n == 0 || len(rows) == 1 {
		return v, nil
	}
	var x T
	size := unsafe.Sizeof(x)
	first := uintptr(unsafe.Pointer(unsafe.SliceData(rows[0]))) // SAFETY: compared, never followed.
	step := uintptr(unsafe.Pointer(unsafe.SliceData(rows[1]))) - first
	for i, r := range rows {
		at := uintptr(unsafe.Pointer(unsafe.SliceData(r))) - first // SAFETY: as above.
		end := at + uintptr(n)*size
		if step%size != 0 || at != uintptr(i)*step || end < at || end > uintptr(cap(rows[0]))*size {
			return StridedMemoryView{}, fail("rows", "", dlpack.ErrCopy,
				"row "+strconv.Itoa(i)+" does not lie at an even distance in the memory of row 0")
		}
	}
	v.layout.steps[0] = int64(step / size)
	if v.layout.steps[0] < int64(n) {
		v.flags |= dlpack.FlagReadOnly // rows overlap
	}
	return v, nil
}
