package minifloat

import "github.com/x448/float16"

// Complex32 is a complex number of two IEEE half-precision parts, real part
// first: DLPack's (kDLComplex, 32).
type Complex32 struct {
	Re, Im float16.Float16
}

// ToComplex32 rounds both parts of c to the nearest, ties to even.
func ToComplex32(c complex64) Complex32 {
	return Complex32{Re: float16.Fromfloat32(real(c)), Im: float16.Fromfloat32(imag(c))}
}

// Complex64 gives the value of c, exactly.
func (c Complex32) Complex64() complex64 { return complex(c.Re.Float32(), c.Im.Float32()) }

// IsNaN reports whether a part is not a number and none is an infinity, as
// [math/cmplx.IsNaN] does.
func (c Complex32) IsNaN() bool {
	return !c.Re.IsInf(0) && !c.Im.IsInf(0) && (c.Re.IsNaN() || c.Im.IsNaN())
}

// String gives the number in the form "(1+2i)".
func (c Complex32) String() string { return formatComplex(c.Complex64()) }

// MarshalText gives what String gives.
func (c Complex32) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// BComplex32 is a complex number of two bfloat16 parts, real part first:
// DLPack's (kDLBcomplex, 32), provisional after version 1.3.
type BComplex32 struct {
	Re, Im BFloat16
}

// ToBComplex32 rounds both parts of c to the nearest, ties to even.
func ToBComplex32(c complex64) BComplex32 {
	return BComplex32{Re: ToBFloat16(real(c)), Im: ToBFloat16(imag(c))}
}

// Complex64 gives the value of c, exactly.
func (c BComplex32) Complex64() complex64 { return complex(c.Re.Float32(), c.Im.Float32()) }

// IsNaN reports whether a part is not a number and none is an infinity, as
// [math/cmplx.IsNaN] does.
func (c BComplex32) IsNaN() bool {
	return !c.Re.IsInf(0) && !c.Im.IsInf(0) && (c.Re.IsNaN() || c.Im.IsNaN())
}

// String gives the number in the form "(1+2i)".
func (c BComplex32) String() string { return formatComplex(c.Complex64()) }

// MarshalText gives what String gives.
func (c BComplex32) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

func formatComplex(c complex64) string {
	b := append32([]byte{'('}, real(c))
	i := len(b)
	b = append32(b, imag(c))
	if b[i] != '-' && b[i] != '+' {
		b = append(b, 0)
		copy(b[i+1:], b[i:])
		b[i] = '+'
	}
	return string(append(b, "i)"...))
}
