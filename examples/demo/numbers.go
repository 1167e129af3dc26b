package main

import (
	"errors"
	"fmt"

	"github.com/x448/float16"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/dlpack/minifloat"
	"github.com/go-handoff/handoff/memview"
)

// arithmetic is what the demo does with the elements of one dtype.
type arithmetic struct {
	total func(v memview.StridedMemoryView) (float64, error)
	scale func(v memview.StridedMemoryView, factor float64) error
	ramp  func(v memview.StridedMemoryView) error
}

// of makes the arithmetic of T from its conversions to and from float64.
func of[T memview.Element](to func(T) float64, from func(float64) T) arithmetic {
	return arithmetic{
		total: func(v memview.StridedMemoryView) (float64, error) {
			values, err := memview.Values[T](v)
			if err != nil {
				return 0, err
			}
			sum := 0.0
			for x := range values {
				sum += to(x)
			}
			return sum, nil
		},
		scale: func(v memview.StridedMemoryView, factor float64) error {
			elements, err := memview.Pointers[T](v)
			if err != nil {
				return err
			}
			for _, p := range elements {
				*p = from(to(*p) * factor)
			}
			return nil
		},
		ramp: func(v memview.StridedMemoryView) error {
			elements, err := memview.Pointers[T](v)
			if err != nil {
				return err
			}
			next := 1.0
			for _, p := range elements {
				*p = from(next)
				next++
			}
			return nil
		},
	}
}

// number makes the arithmetic of a type that Go converts by itself.
func number[T interface {
	memview.Element
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}]() arithmetic {
	return of(func(x T) float64 { return float64(x) }, func(f float64) T { return T(f) })
}

// arithmetics holds the dtypes that the demo computes with.
var arithmetics = map[dlpack.DataType]arithmetic{
	dlpack.Int8: number[int8](), dlpack.Int16: number[int16](), dlpack.Int32: number[int32](), dlpack.Int64: number[int64](),
	dlpack.UInt8: number[uint8](), dlpack.UInt16: number[uint16](), dlpack.UInt32: number[uint32](), dlpack.UInt64: number[uint64](),
	dlpack.Float32: number[float32](), dlpack.Float64: number[float64](),
	dlpack.Float16: of(
		func(x float16.Float16) float64 { return float64(x.Float32()) },
		func(f float64) float16.Float16 { return float16.Fromfloat32(float32(f)) },
	),
	dlpack.BFloat16: of(
		func(x minifloat.BFloat16) float64 { return float64(x.Float32()) },
		func(f float64) minifloat.BFloat16 { return minifloat.FromFloat32[minifloat.BFloat16](float32(f)) },
	),
	dlpack.Float8E4M3FN: of(
		func(x minifloat.Float8E4M3FN) float64 { return float64(x.Float32()) },
		func(f float64) minifloat.Float8E4M3FN {
			return minifloat.FromFloat32[minifloat.Float8E4M3FN](float32(f))
		},
	),
	dlpack.Complex64: of( // the demo's complex values are real
		func(x complex64) float64 { return float64(real(x)) },
		func(f float64) complex64 { return complex(float32(f), 0) },
	),
}

func arithmeticOf(dtype dlpack.DataType) (arithmetic, error) {
	a, ok := arithmetics[dtype]
	if !ok {
		return a, fmt.Errorf("the demo does not compute with %s: %w", dtype, dlpack.ErrDType)
	}
	return a, nil
}

// address returns where Go sees the first element.
func address(v memview.StridedMemoryView) int { return int(v.Addr()) }

// total returns the sum of all elements.
func total(v memview.StridedMemoryView) (float64, error) {
	a, err := arithmeticOf(v.DType())
	if err != nil {
		return 0, err
	}
	return a.total(v)
}

// scale multiplies every element in place.
func scale(v memview.StridedMemoryView, factor float64) error {
	a, err := arithmeticOf(v.DType())
	if err != nil {
		return err
	}
	return a.scale(v, factor)
}

// ramp makes an array of 1, 2, 3, ... n.
func ramp(n int64, dtype string) (*dlpack.Exported, error) {
	dt, err := dlpack.ParseDataType(dtype)
	if err != nil {
		return nil, err
	}
	a, err := arithmeticOf(dt)
	if err != nil {
		return nil, err
	}
	e, err := dlpack.Alloc(dt, []int64{n}, nil)
	if err != nil {
		return nil, err
	}
	v, err := memview.FromExported(e)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	defer v.Release()
	if err := a.ramp(v); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}
