package memview

import (
	"github.com/x448/float16"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/dlpack/minifloat"
)

// Element lists the Go types whose memory equals that of a dtype. There is no
// "~": uint16 and float16.Float16 share a size, not a meaning. The 4- and
// 6-bit types take one byte in Go memory: slices of them are padded.
type Element interface {
	bool |
		int8 | int16 | int32 | int64 |
		uint8 | uint16 | uint32 | uint64 |
		float16.Float16 | float32 | float64 | complex64 | complex128 |
		minifloat.BFloat16 | minifloat.Complex32 | minifloat.BComplex32 |
		minifloat.Float8E3M4 | minifloat.Float8E4M3 | minifloat.Float8E4M3B11FNUZ |
		minifloat.Float8E4M3FN | minifloat.Float8E4M3FNUZ | minifloat.Float8E5M2 |
		minifloat.Float8E5M2FNUZ | minifloat.Float8E8M0FNU |
		minifloat.Float6E2M3FN | minifloat.Float6E3M2FN | minifloat.Float4E2M1FN
}

// DTypeOf returns the dtype whose elements are T.
func DTypeOf[T Element]() dlpack.DataType {
	return dtypeOf((*T)(nil))
}

// dtypeOf returns the dtype of the element that p points to, or the zero
// dtype. It takes a pointer because that never allocates.
func dtypeOf(p any) dlpack.DataType {
	switch p.(type) {
	case *bool:
		return dlpack.Bool
	case *int8:
		return dlpack.Int8
	case *int16:
		return dlpack.Int16
	case *int32:
		return dlpack.Int32
	case *int64:
		return dlpack.Int64
	case *uint8:
		return dlpack.UInt8
	case *uint16:
		return dlpack.UInt16
	case *uint32:
		return dlpack.UInt32
	case *uint64:
		return dlpack.UInt64
	case *float16.Float16:
		return dlpack.Float16
	case *float32:
		return dlpack.Float32
	case *float64:
		return dlpack.Float64
	case *complex64:
		return dlpack.Complex64
	case *complex128:
		return dlpack.Complex128
	case *minifloat.BFloat16:
		return dlpack.BFloat16
	case *minifloat.Complex32:
		return dlpack.Complex32
	case *minifloat.BComplex32:
		return dlpack.BComplex32
	case *minifloat.Float8E3M4:
		return dlpack.Float8E3M4
	case *minifloat.Float8E4M3:
		return dlpack.Float8E4M3
	case *minifloat.Float8E4M3B11FNUZ:
		return dlpack.Float8E4M3B11FNUZ
	case *minifloat.Float8E4M3FN:
		return dlpack.Float8E4M3FN
	case *minifloat.Float8E4M3FNUZ:
		return dlpack.Float8E4M3FNUZ
	case *minifloat.Float8E5M2:
		return dlpack.Float8E5M2
	case *minifloat.Float8E5M2FNUZ:
		return dlpack.Float8E5M2FNUZ
	case *minifloat.Float8E8M0FNU:
		return dlpack.Float8E8M0FNU
	case *minifloat.Float6E2M3FN:
		return dlpack.Float6E2M3FN
	case *minifloat.Float6E3M2FN:
		return dlpack.Float6E3M2FN
	case *minifloat.Float4E2M1FN:
		return dlpack.Float4E2M1FN
	}
	return dlpack.DataType{}
}
