package minifloat

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
)

// FromFloat32 gives the T nearest to f, ties to even; the package comment says
// what T does with numbers that are too large, infinities and NaN. Where T is
// known, the function named after it (ToBFloat16, ToFloat8E4M3FN, ...) is faster.
func FromFloat32[T Float](f float32) T {
	var one [1]T
	fromFloat32s(one[:], []float32{f})
	return one[0]
}

// FromFloat64 gives the T nearest to f with one rounding, ties to even. Where f
// is a float64 close to a tie, this is more exact than rounding to float32
// first, which NumPy does for the types of ml_dtypes.
func FromFloat64[T Float](f float64) T {
	return FromFloat32[T](toOdd(f))
}

// ToFloat32 converts elements of src into dst, as many as the shorter one
// holds, and gives their number. Nothing is allocated.
func ToFloat32[T Float](dst []float32, src []T) int {
	n := min(len(dst), len(src))
	toFloat32s(dst[:n], src[:n])
	return n
}

// FromFloat32s rounds elements of src into dst, as many as the shorter one
// holds, and gives their number. Nothing is allocated.
func FromFloat32s[T Float](dst []T, src []float32) int {
	n := min(len(dst), len(src))
	fromFloat32s(dst[:n], src[:n])
	return n
}

func decode8[T ~uint8](dst []float32, src []T, table *[256]uint32) {
	dst = dst[:len(src)]
	for i, c := range src {
		dst[i] = math.Float32frombits(table[c])
	}
}

func encode8[T ~uint8](dst []T, src []float32, f *format) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = T(encode(math.Float32bits(v), f))
	}
}

// Equal reports whether a and b are the same number: −0 equals 0, NaN equals
// nothing.
func Equal[T Float](a, b T) bool { return value(a) == value(b) }

// Less reports whether a is a smaller number than b; false if one is NaN.
func Less[T Float](a, b T) bool { return value(a) < value(b) }

// Compare orders as [cmp.Compare] orders floats: −0 equals 0, NaN equals NaN
// and is below all numbers.
func Compare[T Float](a, b T) int { return cmp.Compare(value(a), value(b)) }

func value[T Float](v T) float32 {
	var one [1]float32
	toFloat32s(one[:], []T{v})
	return one[0]
}

// Float32 gives the value of v, exactly. A NaN keeps its sign, and its payload
// where there is one.
func (v BFloat16) Float32() float32 { return math.Float32frombits(uint32(v) << 16) }

// ToBFloat16 gives the BFloat16 nearest to f, ties to even. Too large a number
// becomes an infinity, every NaN the quiet NaN of its sign.
func ToBFloat16(f float32) BFloat16 { return encodeBFloat16(math.Float32bits(f)) }

// IsNaN reports whether v is not a number.
func (v BFloat16) IsNaN() bool { return v&0x7fff > 0x7f80 }

// IsInf reports whether v is an infinity: the positive one for sign > 0, the
// negative one for sign < 0, either for 0.
func (v BFloat16) IsInf(sign int) bool {
	return sign >= 0 && v == 0x7f80 || sign <= 0 && v == 0xff80
}

// Signbit reports whether the sign bit is set.
func (v BFloat16) Signbit() bool { return v&0x8000 != 0 }

// String gives the shortest decimal that identifies the value as a float32,
// "NaN", "+Inf" or "-Inf".
func (v BFloat16) String() string { return format32(v.Float32()) }

// MarshalText gives what String gives.
func (v BFloat16) MarshalText() ([]byte, error) { return append32(nil, v.Float32()), nil }

// UnmarshalText reads a decimal or hexadecimal number, "NaN" or "Inf" as a
// float32 and rounds it. A text that is no number gives an error wrapping
// [strconv.ErrSyntax].
func (v *BFloat16) UnmarshalText(text []byte) error { return unmarshal(v, text) }

func format32(f float32) string { return strconv.FormatFloat(float64(f), 'g', -1, 32) }

func append32(b []byte, f float32) []byte { return strconv.AppendFloat(b, float64(f), 'g', -1, 32) }

func unmarshal[T Float](v *T, text []byte) error {
	f, err := strconv.ParseFloat(string(text), 32)
	if err != nil && !math.IsInf(f, 0) { // out of range is not an error: T rounds it
		return fmt.Errorf("minifloat: parse %s: %w", InfoOf[T]().Name, err)
	}
	*v = FromFloat32[T](float32(f))
	return nil
}
