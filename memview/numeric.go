package memview

import (
	"math"
	"runtime"
	"strconv"

	"github.com/go-handoff/handoff/dlpack"
)

// number reads the element at an index as a number.
func (v *StridedMemoryView) number(index []int64) (number, error) {
	if err := v.check("at", v.dtype, needRead); err != nil {
		return number{}, err
	}
	if _, ok := v.layout.at(index); !ok {
		return number{}, errIndex("at", &v.layout, index)
	}
	n := v.read(index)
	if n.kind == noNumber {
		return number{}, fail("at", "", dlpack.ErrDType, v.dtype.String()+" elements are no numbers")
	}
	return n, nil
}

func (n *number) float64() (float64, bool) {
	switch n.kind {
	case intNumber:
		return float64(n.i), true
	case uintNumber, boolNumber:
		return float64(n.u), true
	case floatNumber:
		return n.f, true
	}
	return 0, false
}

// Float64At returns the element at an index as a float64. It reads every real
// dtype, bool as 0 and 1; integers above 2^53 are rounded.
//
// Errors wrap [dlpack.ErrDType] for complex numbers and for what is no number,
// and otherwise those of [At].
func (v StridedMemoryView) Float64At(index ...int64) (float64, error) {
	n, err := v.number(index)
	if err != nil {
		return 0, err
	}
	f, ok := n.float64()
	if !ok {
		return 0, fail("at", "", dlpack.ErrDType, v.dtype.String()+" elements are complex")
	}
	return f, nil
}

// Complex128At returns the element at an index as a complex128. It reads
// every numeric dtype. Errors are those of [StridedMemoryView.Float64At].
func (v StridedMemoryView) Complex128At(index ...int64) (complex128, error) {
	n, err := v.number(index)
	if err != nil {
		return 0, err
	}
	if n.kind == complexNumber {
		return n.c, nil
	}
	f, _ := n.float64()
	return complex(f, 0), nil
}

// Int64At returns the element at an index as an int64. It reads integers of
// any width and bool. Errors wrap [dlpack.ErrDType] for other dtypes,
// [dlpack.ErrOverflow] for an unsigned value above the range, and otherwise
// those of [At].
func (v StridedMemoryView) Int64At(index ...int64) (int64, error) {
	n, err := v.number(index)
	if err != nil {
		return 0, err
	}
	switch n.kind {
	case intNumber:
		return n.i, nil
	case uintNumber, boolNumber:
		if n.u > math.MaxInt64 {
			return 0, fail("at", "", dlpack.ErrOverflow, strconv.FormatUint(n.u, 10)+" is no int64")
		}
		return int64(n.u), nil
	}
	return 0, fail("at", "", dlpack.ErrDType, v.dtype.String()+" elements are no integers")
}

// Float64s returns all elements in C order, converted as by
// [StridedMemoryView.Float64At], whose errors it returns.
func (v StridedMemoryView) Float64s() ([]float64, error) {
	if err := v.check("float64s", v.dtype, needRead); err != nil {
		return nil, err
	}
	n := v.layout.size()
	if n > maxGoBytes/8 {
		return nil, fail("float64s", "R034", dlpack.ErrOverflow, strconv.FormatInt(n, 10)+" elements")
	}
	out := make([]float64, 0, n)
	bad := false
	v.forNumbers(func(x number) bool {
		f, ok := x.float64()
		out = append(out, f)
		bad = !ok
		return ok
	})
	if bad {
		return nil, fail("float64s", "", dlpack.ErrDType, v.dtype.String()+" elements are no real numbers")
	}
	return out, nil
}

// slot checks that an element may be written and returns its offset.
func (v *StridedMemoryView) slot(index []int64) (int64, error) {
	if err := v.check("set", v.dtype, needWrite); err != nil {
		return 0, err
	}
	off, ok := v.layout.at(index)
	if !ok {
		return 0, errIndex("set", &v.layout, index)
	}
	if v.dtype.Lanes != 1 {
		return 0, fail("set", "R028", dlpack.ErrDType, v.dtype.String()+" elements are no numbers")
	}
	return off, nil
}

// SetFloat64 stores x in the element at an index. Floating-point dtypes,
// complex ones included, round to the nearest, ties to even; integers and
// bool take only values that they have.
//
// Errors wrap [dlpack.ErrOverflow] for a value that an integer dtype does not
// have, [dlpack.ErrDType] for dtypes that are no numbers, and otherwise those
// of [Set].
func (v StridedMemoryView) SetFloat64(x float64, index ...int64) error {
	return v.SetComplex128(complex(x, 0), index...)
}

// SetComplex128 is [StridedMemoryView.SetFloat64] for complex numbers. A real
// dtype takes only numbers without an imaginary part: [dlpack.ErrOverflow]
// otherwise.
func (v StridedMemoryView) SetComplex128(c complex128, index ...int64) error {
	off, err := v.slot(index)
	if err != nil {
		return err
	}
	switch v.dtype.Code {
	case dlpack.CodeComplex, dlpack.CodeBcomplex:
		if !v.putComplex(v.pointer(), off, c) {
			return fail("set", "", dlpack.ErrDType, v.dtype.String()+" elements are no numbers")
		}
		runtime.KeepAlive(&v)
		return nil
	}
	x := real(c)
	if imag(c) != 0 {
		return fail("set", "", dlpack.ErrOverflow, v.dtype.String()+" has no imaginary part")
	}
	if u, ok := floatBits(v.dtype, x); ok {
		v.putBits(v.pointer(), off, u)
		runtime.KeepAlive(&v)
		return nil
	}
	if x != math.Trunc(x) || x < -1<<63 || x >= 1<<64 {
		return fail("set", "", dlpack.ErrOverflow, strconv.FormatFloat(x, 'g', -1, 64)+" is no "+v.dtype.String())
	}
	if x >= 1<<63 {
		return v.setInt(off, uint64(x), false)
	}
	return v.setInt(off, uint64(int64(x)), x < 0)
}

// SetInt64 stores x in the element at an index, of any numeric dtype.
// Floating-point dtypes round. Errors are those of
// [StridedMemoryView.SetFloat64].
func (v StridedMemoryView) SetInt64(x int64, index ...int64) error {
	switch v.dtype.Code {
	case dlpack.CodeInt, dlpack.CodeUInt, dlpack.CodeBool:
		off, err := v.slot(index)
		if err != nil {
			return err
		}
		return v.setInt(off, uint64(x), x < 0)
	}
	return v.SetComplex128(complex(float64(x), 0), index...)
}

// setInt stores an integer given as 64 bits, two's complement if negative.
func (v *StridedMemoryView) setInt(off int64, u uint64, negative bool) error {
	bits := uint(v.dtype.Bits)
	fits := false
	switch v.dtype.Code {
	case dlpack.CodeBool:
		fits = u <= 1
	case dlpack.CodeInt:
		if negative {
			fits = int64(u)>>(bits-1) == -1
		} else {
			fits = u>>(bits-1) == 0
		}
	case dlpack.CodeUInt:
		fits = !negative && (bits >= 64 || u>>bits == 0)
	default:
		return fail("set", "", dlpack.ErrDType, v.dtype.String()+" elements are no numbers")
	}
	if bits > 64 || (bits > 8 && bits != 16 && bits != 32 && bits != 64) {
		return fail("set", "", dlpack.ErrDType, v.dtype.String()+" elements are no numbers")
	}
	if !fits {
		s := strconv.FormatUint(u, 10)
		if negative {
			s = strconv.FormatInt(int64(u), 10)
		}
		return fail("set", "", dlpack.ErrOverflow, s+" is no "+v.dtype.String())
	}
	if bits < 8 {
		u &= 1<<bits - 1
	}
	v.putBits(v.pointer(), off, u)
	runtime.KeepAlive(v)
	return nil
}
