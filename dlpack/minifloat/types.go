package minifloat

// The types. Each is its own bit pattern, high to low: sign (if any), exponent,
// mantissa. The name says the widths: E4M3 is four exponent bits and three
// mantissa bits. FN: no infinity; UZ: zero has no sign, and the pattern of −0 is
// NaN; B11: exponent bias 11; U: no sign.
type (
	// BFloat16 is the upper half of a float32: E8M7, infinities, NaNs.
	BFloat16 uint16

	// Float8E3M4 has bias 3, infinities and NaNs; the largest value is 15.5.
	Float8E3M4 uint8
	// Float8E4M3 has bias 7, infinities and NaNs; the largest value is 240.
	Float8E4M3 uint8
	// Float8E4M3B11FNUZ has bias 11, one NaN (0x80); the largest value is 30.
	Float8E4M3B11FNUZ uint8
	// Float8E4M3FN has bias 7, NaN 0x7f and 0xff; the largest value is 448.
	Float8E4M3FN uint8
	// Float8E4M3FNUZ has bias 8, one NaN (0x80); the largest value is 240.
	Float8E4M3FNUZ uint8
	// Float8E5M2 has bias 15, infinities and NaNs; the largest value is 57344.
	Float8E5M2 uint8
	// Float8E5M2FNUZ has bias 16, one NaN (0x80); the largest value is 57344.
	Float8E5M2FNUZ uint8
	// Float8E8M0FNU is 2^(code−127), NaN 0xff. It has no zero and no sign.
	Float8E8M0FNU uint8

	// Float6E2M3FN has bias 1 and only finite values; the largest is 7.5.
	Float6E2M3FN uint8
	// Float6E3M2FN has bias 3 and only finite values; the largest is 28.
	Float6E3M2FN uint8
	// Float4E2M1FN has bias 1 and the magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6.
	Float4E2M1FN uint8
)

// Byte lists the types whose values are stored in one byte when they stand
// alone.
type Byte interface {
	Float8E3M4 | Float8E4M3 | Float8E4M3B11FNUZ | Float8E4M3FN | Float8E4M3FNUZ |
		Float8E5M2 | Float8E5M2FNUZ | Float8E8M0FNU | SubByte
}

// SubByte lists the types with fewer than 8 bits, which tensors usually hold
// packed.
type SubByte interface {
	Float6E2M3FN | Float6E3M2FN | Float4E2M1FN
}

// Float lists all types of this package.
type Float interface {
	BFloat16 | Byte
}

// Info describes a type in numbers.
type Info struct {
	Name         string // as array libraries spell it: "float8_e4m3fn"
	Bits         int    // all of them, with the sign
	ExponentBits int
	MantissaBits int // without the implicit leading one
	Bias         int // of the exponent

	Max               float32 // largest finite value
	Lowest            float32 // most negative finite value, for Float8E8M0FNU the smallest one
	SmallestNormal    float32 // smallest positive value with the full mantissa
	SmallestSubnormal float32 // smallest positive value
	Epsilon           float32 // distance from 1 to the next larger value

	HasInf     bool
	HasNaN     bool
	SignedZero bool // −0 exists and differs from 0 in its pattern
}
