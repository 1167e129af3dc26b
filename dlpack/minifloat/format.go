package minifloat

//go:generate go run ./internal/gen

import "math"

// format is what the encoder must know about a type of at most 8 bits with a
// sign and an exponent bias of at most 16.
type format struct {
	normal uint32 // float32 pattern of the smallest normal value
	rebias uint32 // what to take from a float32 pattern to get the type's exponent
	half   uint32 // just below half of the last place of the mantissa
	shift  uint32 // mantissa bits that go
	magic  uint32 // pattern of a float32 whose last place is the smallest subnormal
	max    uint32 // code of the largest finite magnitude
	sign   uint32 // how far the sign bit moves down
	over   uint8  // magnitude code for what rounds to more than max, infinity too
	nan    uint8  // magnitude code for NaN
	fnuz   bool   // the pattern of −0 is the only NaN, and the answer to overflow
	noNaN  bool   // NaN becomes a zero of the opposite sign
}

const (
	float32Inf  = 0x7f800000
	float32Sign = 1 << 31
)

// newFormat works out the numbers for mant mantissa bits, an exponent bias and
// a width; max, over and nan are magnitude codes.
func newFormat(bits, mant, bias uint32, max, over, nan uint8, fnuz, noNaN bool) format {
	shift := 23 - mant
	return format{
		normal: (128 - bias) << 23,
		rebias: (127 - bias) << 23,
		half:   1<<(shift-1) - 1,
		shift:  shift,
		magic:  (127 + 1 - bias + shift) << 23, // 2^(1-bias-mant+23)
		max:    uint32(max), over: over, nan: nan,
		sign: 32 - bits, fnuz: fnuz, noNaN: noNaN,
	}
}

// encode rounds the float32 with the pattern b to the nearest code of f, ties
// to even.
func encode(b uint32, f *format) uint8 {
	abs := b &^ float32Sign
	var code uint32
	if abs >= f.normal {
		// Rounding up to the next power of two carries into the exponent, as it
		// should. Infinity and NaN come out above max.
		code = abs - f.rebias
		code = (code + f.half + code>>(f.shift&31)&1) >> (f.shift & 31)
		if code > f.max {
			return beyond(b, f)
		}
	} else {
		// The processor's own addition rounds to the last place of the sum.
		sum := math.Float32frombits(abs) + math.Float32frombits(f.magic)
		code = math.Float32bits(sum) - f.magic
		if code == 0 && f.fnuz {
			return 0
		}
	}
	return uint8(code | b&float32Sign>>(f.sign&31))
}

// beyond gives the code for NaN, infinities and what is too large.
func beyond(b uint32, f *format) uint8 {
	sign := uint8(b & float32Sign >> f.sign)
	signBit := uint8(uint32(float32Sign) >> f.sign)
	switch isNaN := b&^float32Sign > float32Inf; {
	case f.fnuz:
		return signBit
	case isNaN && f.noNaN:
		return sign ^ signBit
	case isNaN:
		return f.nan | sign
	}
	return f.over | sign
}

// encodeE8M0 gives the nearest power of two. The significand has no bit beside
// the implicit one, so a tie is never even at the lower neighbour and goes up.
// Among the subnormals of float32 the bit below the exponent is explicit: only
// more than 2^-127 goes up to 2^-126, as in ml_dtypes.
func encodeE8M0(b uint32) uint8 {
	switch {
	case b == 0 || b >= float32Inf: // 0, +Inf, NaN, everything with a sign
		return 0xff
	case b < 0x800000:
		if b > 0x400000 {
			return 1
		}
		return 0
	}
	return uint8((b + 0x400000) >> 23) // the largest exponents round to 255, NaN
}

// encodeBFloat16 rounds the upper half of b by the lower half.
func encodeBFloat16(b uint32) BFloat16 {
	if b&^float32Sign > float32Inf {
		return BFloat16(b>>16&0x8000 | 0x7fc0)
	}
	return BFloat16((b + 0x7fff + b>>16&1) >> 16)
}

// toOdd narrows f to a float32 by rounding to odd: inexact results get the last
// bit set. Rounding that float32 again, to a type with at least two bits fewer,
// gives what a single rounding of f would have given.
func toOdd(f float64) float32 {
	r := float32(f)
	wide := float64(r)
	if wide == f || f != f {
		return r
	}
	b := math.Float32bits(r)
	if math.Abs(wide) > math.Abs(f) {
		b-- // back towards zero; from infinity to the largest float32
	}
	return math.Float32frombits(b | 1)
}
