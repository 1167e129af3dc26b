package dlpack

import (
	"runtime"
	"unsafe"

	"github.com/go-handoff/handoff/dlpack/minifloat"
	"github.com/x448/float16"
)

// Element lists the Go types whose memory layout equals that of an element
// type. There is no "~": uint16 and float16.Float16 share a size, not a
// meaning. bool is the one-byte type of code 6. The minifloats below 8 bits
// take a byte each, which is the padded form ([FlagSubbyteTypePadded]).
type Element interface {
	int8 | int16 | int32 | int64 |
		uint8 | uint16 | uint32 | uint64 |
		float16.Float16 | float32 | float64 | complex64 | complex128 | bool |
		minifloat.Float | minifloat.Complex32 | minifloat.BComplex32
}

// DTypeOf returns the element type of a Go type.
func DTypeOf[T Element]() DataType {
	var z T
	switch any(z).(type) {
	case int8:
		return Int8
	case int16:
		return Int16
	case int32:
		return Int32
	case int64:
		return Int64
	case uint8:
		return UInt8
	case uint16:
		return UInt16
	case uint32:
		return UInt32
	case uint64:
		return UInt64
	case float16.Float16:
		return Float16
	case float32:
		return Float32
	case float64:
		return Float64
	case complex64:
		return Complex64
	case complex128:
		return Complex128
	case bool:
		return Bool
	case minifloat.BFloat16:
		return BFloat16
	case minifloat.Float8E3M4:
		return Float8E3M4
	case minifloat.Float8E4M3:
		return Float8E4M3
	case minifloat.Float8E4M3B11FNUZ:
		return Float8E4M3B11FNUZ
	case minifloat.Float8E4M3FN:
		return Float8E4M3FN
	case minifloat.Float8E4M3FNUZ:
		return Float8E4M3FNUZ
	case minifloat.Float8E5M2:
		return Float8E5M2
	case minifloat.Float8E5M2FNUZ:
		return Float8E5M2FNUZ
	case minifloat.Float8E8M0FNU:
		return Float8E8M0FNU
	case minifloat.Float6E2M3FN:
		return Float6E2M3FN
	case minifloat.Float6E3M2FN:
		return Float6E3M2FN
	case minifloat.Float4E2M1FN:
		return Float4E2M1FN
	case minifloat.Complex32:
		return Complex32
	case minifloat.BComplex32:
		return BComplex32
	}
	panic("dlpack: Element and DTypeOf disagree")
}

// sliceAddr returns the address of element i, which may be one past the end.
func sliceAddr[T Element](s []T, i int) uintptr {
	// SAFETY: the address is only used as a number; pinSlice keeps the memory
	// in place before anybody reads through it.
	return uintptr(unsafe.Pointer(unsafe.SliceData(s))) + uintptr(i)*unsafe.Sizeof(*new(T))
}

// pinSlice makes a C owner that keeps the memory of s in place. Memory outside
// of Go's heap needs no pin, and the pinner ignores it.
func pinSlice[T Element](op string, s []T) (owner uintptr, err error) {
	p := new(runtime.Pinner)
	p.Pin(unsafe.SliceData(s))
	o := goOwner(p, nil)
	if o == 0 {
		p.Unpin()
		return 0, noMemory(op)
	}
	return o, nil
}
