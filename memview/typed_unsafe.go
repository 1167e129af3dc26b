package memview

import (
	"iter"
	"runtime"
	"unsafe"

	"github.com/go-handoff/handoff/dlpack/minifloat"
)

// Slice returns the memory of a C-contiguous view as a Go slice, for reading
// and writing. Nothing is copied.
//
// The slice does not keep the memory: hold on to the view until the last use of
// the slice, as "defer v.Release()" does. It must not be used after the view's
// owner took the memory back: for lent memory, after the call; otherwise after
// Release. For a bool slice, the memory must hold only 0 and 1.
//
// Errors wrap [dlpack.ErrClosed] if the memory was given back,
// [dlpack.ErrDevice] if the host cannot reach it, [dlpack.ErrDType] unless
// the elements are exactly T, [dlpack.ErrReadOnly], [dlpack.ErrLayout] unless the
// view is C-contiguous, [dlpack.ErrAlign] if it is not aligned for T, and
// [dlpack.ErrNotSupported] for packed elements.
func Slice[T Element](v StridedMemoryView) ([]T, error) {
	if err := v.check("slice", DTypeOf[T](), needType|needWrite|needBytes|needContiguous|needAligned); err != nil {
		return nil, err
	}
	return sliceOf[T](&v), nil
}

// ReadSlice is [Slice] without the permission to write: it takes read-only
// views too, and the caller must not change the elements (R015).
func ReadSlice[T Element](v StridedMemoryView) ([]T, error) {
	if err := v.check("slice", DTypeOf[T](), needType|needBytes|needContiguous|needAligned); err != nil {
		return nil, err
	}
	return sliceOf[T](&v), nil
}

func sliceOf[T Element](v *StridedMemoryView) []T {
	n := v.layout.size()
	if n == 0 {
		return []T{} // R044: the address of an empty array is never used
	}
	// SAFETY: host memory, aligned, n elements within the owner's extent
	// (checked when v was made) and within int (checked by check), owner
	// alive while v is.
	return unsafe.Slice((*T)(v.pointer()), int(n))
}

// Bytes returns the memory of a C-contiguous view of any dtype as bytes, for
// reading and writing, under the rules of [Slice]. Packed elements are fine
// if the view begins on a byte.
func Bytes(v StridedMemoryView) ([]byte, error) {
	return bytesOf(&v, needWrite|needContiguous)
}

// ReadBytes is [Bytes] without the permission to write.
func ReadBytes(v StridedMemoryView) ([]byte, error) {
	return bytesOf(&v, needContiguous)
}

func bytesOf(v *StridedMemoryView, n need) ([]byte, error) {
	if v.layout.offset != 0 {
		n |= needBytes // begins inside a byte
	}
	if err := v.check("bytes", v.dtype, n); err != nil {
		return nil, err
	}
	size := v.layout.NumBytes()
	if size == 0 {
		return []byte{}, nil
	}
	// SAFETY: host memory, contiguous, size bytes within the owner's extent.
	return unsafe.Slice((*byte)(v.pointer()), int(size)), nil
}

// At returns the element at an index, which has one number per axis, not
// negative. Any layout will do, packed and misaligned elements too. A bool is
// true for every byte but 0.
//
// Errors are those of [Slice] less the layout ones, and [ErrIndex]. It
// allocates nothing. To visit many elements use [Values], [ReadVectorOf] or
// [ReadMatrixOf], which check once.
func At[T Element](v StridedMemoryView, index ...int64) (T, error) {
	var x T
	if err := v.check("at", DTypeOf[T](), needType); err != nil {
		return x, err
	}
	off, ok := v.layout.at(index)
	if !ok {
		return x, errIndex("at", &v.layout, index)
	}
	x = load[T](v.pointer(), off, v.layout.width)
	// Nothing but v may be left of the owner: the collector must not find it
	// gone before the memory was read. The same in all that follows.
	runtime.KeepAlive(&v)
	return x, nil
}

// Set changes the element at an index. It refuses read-only views with
// [dlpack.ErrReadOnly]; otherwise it is like [At].
func Set[T Element](v StridedMemoryView, x T, index ...int64) error {
	if err := v.check("set", DTypeOf[T](), needType|needWrite); err != nil {
		return err
	}
	off, ok := v.layout.at(index)
	if !ok {
		return errIndex("set", &v.layout, index)
	}
	store(v.pointer(), off, v.layout.width, x)
	runtime.KeepAlive(&v)
	return nil
}

// Fill sets every element to x. It refuses read-only views with
// [dlpack.ErrReadOnly].
func Fill[T Element](v StridedMemoryView, x T) error {
	if err := v.check("fill", DTypeOf[T](), needType|needWrite); err != nil {
		return err
	}
	if v.layout.empty() {
		return nil
	}
	if v.layout.width%8 == 0 && v.layout.isC() && v.check("", v.dtype, needAligned) == nil {
		s := sliceOf[T](&v)
		for i := range s {
			s[i] = x
		}
		runtime.KeepAlive(&v)
		return nil
	}
	p, w := v.pointer(), v.layout.width
	v.layout.walk(func(off int64) bool {
		store(p, off, w, x)
		return true
	})
	runtime.KeepAlive(&v)
	return nil
}

// load reads the element at an offset from p.
func load[T Element](p unsafe.Pointer, off int64, width uint32) T {
	var x T
	switch {
	case width%8 != 0:
		// SAFETY: a packed dtype matches only the sub-byte types, which are
		// one byte in Go; the bytes of element off belong to the array.
		*(*uint8)(unsafe.Pointer(&x)) = loadBits(p, off*int64(width), uint(width))
	case isBool[T]():
		// SAFETY: off is the offset of an element, see Layout. The bool is
		// normalized, as Go knows only 0 and 1.
		*(*bool)(unsafe.Pointer(&x)) = *(*uint8)(unsafe.Add(p, off)) != 0
	default:
		// SAFETY: off is the offset of an element of T's size, see Layout.
		// Copied as bytes where the processor minds alignment.
		p = unsafe.Add(p, off*int64(unsafe.Sizeof(x)))
		if unalignedOK || uintptr(p)%unsafe.Alignof(x) == 0 {
			return *(*T)(p)
		}
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&x)), unsafe.Sizeof(x)), unsafe.Slice((*byte)(p), unsafe.Sizeof(x)))
	}
	return x
}

// store is the counterpart of load.
func store[T Element](p unsafe.Pointer, off int64, width uint32, x T) {
	if width%8 != 0 {
		// SAFETY: as in load.
		storeBits(p, off*int64(width), uint(width), *(*uint8)(unsafe.Pointer(&x)))
		return
	}
	// SAFETY: as in load.
	p = unsafe.Add(p, off*int64(unsafe.Sizeof(x)))
	if unalignedOK || uintptr(p)%unsafe.Alignof(x) == 0 {
		*(*T)(p) = x
		return
	}
	copy(unsafe.Slice((*byte)(p), unsafe.Sizeof(x)), unsafe.Slice((*byte)(unsafe.Pointer(&x)), unsafe.Sizeof(x)))
}

func isBool[T Element]() bool {
	_, ok := any((*T)(nil)).(*bool)
	return ok
}

// loadBits reads n bits, at most 8, that begin at a bit counted from p (R031).
// Only the bytes that hold them are touched.
func loadBits(p unsafe.Pointer, bit int64, n uint) uint8 {
	at, shift := floorDiv(bit, 8), uint(bit&7)
	// SAFETY: byte at, and the next one if the bits straddle, hold bits of an
	// element of the array.
	x := uint16(*(*uint8)(unsafe.Add(p, at)))
	if shift+n > 8 {
		x |= uint16(*(*uint8)(unsafe.Add(p, at+1))) << 8 // SAFETY: as above.
	}
	return uint8(x>>shift) & uint8(1<<n-1)
}

// storeBits is the counterpart of loadBits. It leaves the other bits of the
// bytes alone, but two goroutines must not write to one byte at once.
func storeBits(p unsafe.Pointer, bit int64, n uint, x uint8) {
	at, shift := floorDiv(bit, 8), uint(bit&7)
	mask := uint16(1<<n-1) << shift
	val := uint16(x) << shift & mask
	// SAFETY: as in loadBits.
	lo := (*uint8)(unsafe.Add(p, at))
	*lo = *lo&^uint8(mask) | uint8(val)
	if shift+n > 8 {
		hi := (*uint8)(unsafe.Add(p, at+1)) // SAFETY: as in loadBits.
		*hi = *hi&^uint8(mask>>8) | uint8(val>>8)
	}
}

// Values yields the elements in C order of indices. The memory is checked
// once, when Values is called; errors are those of [At].
func Values[T Element](v StridedMemoryView) (iter.Seq[T], error) {
	if err := v.check("values", DTypeOf[T](), needType); err != nil {
		return nil, err
	}
	return func(yield func(T) bool) {
		if v.layout.empty() {
			return
		}
		p, w := v.pointer(), v.layout.width
		v.layout.walk(func(off int64) bool { return yield(load[T](p, off, w)) })
		runtime.KeepAlive(&v)
	}, nil
}

// Items yields index and value of each element in C order. The index is
// reused: it is valid until the next step. Errors are those of [At].
func Items[T Element](v StridedMemoryView) (iter.Seq2[[]int64, T], error) {
	if err := v.check("items", DTypeOf[T](), needType); err != nil {
		return nil, err
	}
	return func(yield func([]int64, T) bool) {
		if v.layout.empty() {
			return
		}
		p, w := v.pointer(), v.layout.width
		for ix, off := range v.layout.Indexed() {
			if !yield(ix, load[T](p, off, w)) {
				break
			}
		}
		runtime.KeepAlive(&v)
	}, nil
}

// Pointers yields index and address of each element in C order, for changing
// elements in place. The index is reused. Errors are those of [Slice], except
// that any layout will do.
func Pointers[T Element](v StridedMemoryView) (iter.Seq2[[]int64, *T], error) {
	if err := v.check("pointers", DTypeOf[T](), needType|needWrite|needBytes|needAligned); err != nil {
		return nil, err
	}
	return func(yield func([]int64, *T) bool) {
		if v.layout.empty() {
			return
		}
		p := v.pointer()
		var x T
		for ix, off := range v.layout.Indexed() {
			// SAFETY: aligned element within the array, see Layout.
			if !yield(ix, (*T)(unsafe.Add(p, off*int64(unsafe.Sizeof(x))))) {
				break
			}
		}
		runtime.KeepAlive(&v)
	}, nil
}

// ReadVector gives fast access to the elements of a 1-d view. It is checked
// when made; like a slice it does not keep the memory, see [Slice], and must
// not be used after it was given back.
type ReadVector[T Element] struct {
	p       unsafe.Pointer
	n, step int // step in bytes
}

// Vector is a [ReadVector] that may be written.
type Vector[T Element] struct{ ReadVector[T] }

// ReadMatrix gives fast access to the elements of a 2-d view, like
// [ReadVector].
type ReadMatrix[T Element] struct {
	p          unsafe.Pointer
	rows, cols int
	down, side int // steps in bytes
}

// Matrix is a [ReadMatrix] that may be written.
type Matrix[T Element] struct{ ReadMatrix[T] }

// VectorOf returns fast access to a 1-d view of any stride. Errors are those
// of [Slice]; views with another number of axes give [dlpack.ErrLayout].
func VectorOf[T Element](v StridedMemoryView) (Vector[T], error) {
	r, err := vectorOf[T](&v, needWrite)
	return Vector[T]{r}, err
}

// ReadVectorOf is [VectorOf] for reading, and takes read-only views too.
func ReadVectorOf[T Element](v StridedMemoryView) (ReadVector[T], error) {
	return vectorOf[T](&v, 0)
}

func vectorOf[T Element](v *StridedMemoryView, n need) (r ReadVector[T], err error) {
	if err := v.checkFast("vector", 1, DTypeOf[T](), n); err != nil {
		return r, err
	}
	if v.layout.empty() {
		return r, nil
	}
	var x T
	size := int(unsafe.Sizeof(x))
	return ReadVector[T]{p: v.pointer(), n: int(v.layout.shape[0]), step: int(v.layout.steps[0]) * size}, nil
}

// MatrixOf returns fast access to a 2-d view of any strides. Errors are as for
// [VectorOf].
func MatrixOf[T Element](v StridedMemoryView) (Matrix[T], error) {
	r, err := matrixOf[T](&v, needWrite)
	return Matrix[T]{r}, err
}

// ReadMatrixOf is [MatrixOf] for reading, and takes read-only views too.
func ReadMatrixOf[T Element](v StridedMemoryView) (ReadMatrix[T], error) {
	return matrixOf[T](&v, 0)
}

func matrixOf[T Element](v *StridedMemoryView, n need) (r ReadMatrix[T], err error) {
	if err := v.checkFast("matrix", 2, DTypeOf[T](), n); err != nil {
		return r, err
	}
	r.rows, r.cols = int(v.layout.shape[0]), int(v.layout.shape[1])
	if v.layout.empty() {
		return r, nil
	}
	var x T
	size := int(unsafe.Sizeof(x))
	r.p, r.down, r.side = v.pointer(), int(v.layout.steps[0])*size, int(v.layout.steps[1])*size
	return r, nil
}

// Len returns the number of elements.
func (a ReadVector[T]) Len() int { return a.n }

// At returns element i. Like a slice it panics if i is out of range.
func (a ReadVector[T]) At(i int) T {
	if uint(i) >= uint(a.n) {
		panicIndex(i, a.n)
	}
	// SAFETY: an element of the array that the view was checked for.
	return *(*T)(unsafe.Add(a.p, i*a.step))
}

// All yields position and value of each element.
func (a ReadVector[T]) All() iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		for i := range a.n {
			if !yield(i, a.At(i)) {
				return
			}
		}
	}
}

// Set changes element i. Like a slice it panics if i is out of range.
func (a Vector[T]) Set(i int, x T) { *a.Ref(i) = x }

// Ref returns the address of element i. Like a slice it panics if i is out of
// range.
func (a Vector[T]) Ref(i int) *T {
	if uint(i) >= uint(a.n) {
		panicIndex(i, a.n)
	}
	// SAFETY: an element of the array that the view was checked for.
	return (*T)(unsafe.Add(a.p, i*a.step))
}

// Rows returns the extent of the first axis.
func (a ReadMatrix[T]) Rows() int { return a.rows }

// Cols returns the extent of the second axis.
func (a ReadMatrix[T]) Cols() int { return a.cols }

// At returns the element in row i and column j. Like a slice it panics if
// there is none.
func (a ReadMatrix[T]) At(i, j int) T {
	if uint(i) >= uint(a.rows) || uint(j) >= uint(a.cols) {
		panicIndex2(i, j, a.rows, a.cols)
	}
	// SAFETY: an element of the array that the view was checked for.
	return *(*T)(unsafe.Add(a.p, i*a.down+j*a.side))
}

// Row returns row i. It panics if there is none.
func (a ReadMatrix[T]) Row(i int) ReadVector[T] {
	if uint(i) >= uint(a.rows) {
		panicIndex(i, a.rows)
	}
	if a.cols == 0 {
		return ReadVector[T]{}
	}
	// SAFETY: the first element of a row of the array.
	return ReadVector[T]{p: unsafe.Add(a.p, i*a.down), n: a.cols, step: a.side}
}

// Set changes the element in row i and column j. Like a slice it panics if
// there is none.
func (a Matrix[T]) Set(i, j int, x T) { *a.Ref(i, j) = x }

// Ref returns the address of the element in row i and column j. Like a slice
// it panics if there is none.
func (a Matrix[T]) Ref(i, j int) *T {
	if uint(i) >= uint(a.rows) || uint(j) >= uint(a.cols) {
		panicIndex2(i, j, a.rows, a.cols)
	}
	// SAFETY: an element of the array that the view was checked for.
	return (*T)(unsafe.Add(a.p, i*a.down+j*a.side))
}

// Row returns row i. It panics if there is none.
func (a Matrix[T]) Row(i int) Vector[T] { return Vector[T]{a.ReadMatrix.Row(i)} }

// PackedOf returns fast access to a dense 1-d view of packed 4- or 6-bit
// elements, for reading and writing. Errors are those of [Slice];
// [dlpack.ErrLayout] if the elements are padded, or the view begins inside a byte.
func PackedOf[T minifloat.SubByte](v StridedMemoryView) (minifloat.Packed[T], error) {
	return packedOf[T](&v, needWrite)
}

func packedOf[T minifloat.SubByte](v *StridedMemoryView, n need) (minifloat.Packed[T], error) {
	var none minifloat.Packed[T]
	if err := v.check("packed", dtypeOf((*T)(nil)), n|needType|needContiguous); err != nil {
		return none, err
	}
	if err := v.checkPacked(); err != nil {
		return none, err
	}
	b, err := bytesOf(v, n|needContiguous)
	if err != nil {
		return none, err
	}
	return minifloat.NewPacked[T](b, int(v.layout.size()))
}
