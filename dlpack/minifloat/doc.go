// Package minifloat has the small floating-point types of array libraries:
// bfloat16 and the 8-, 6- and 4-bit families of DLPack, one Go type each.
//
// A value of such a type is its bit pattern: an array of them has the memory
// layout of the tensor, so that a view of foreign memory can be a Go slice.
// The package converts to and from float32 as the Python package ml_dtypes
// does, to the last bit; its tests hold a table made by ml_dtypes. IEEE
// binary16 is not here: it is [github.com/x448/float16.Float16].
//
//	x := minifloat.ToFloat8E4M3FN(0.3)    // nearest value, ties to even
//	y := x.Float32()                      // 0.3125
//	n := minifloat.ToFloat32(dst, weights) // a whole slice, any of the types
//
// # Conversions
//
// Float32 is exact for every type. The opposite way rounds to the nearest
// value, ties to even, with subnormals. What happens beyond the largest value
// is part of each type:
//
//   - types with an infinity (BFloat16, Float8E3M4, Float8E4M3, Float8E5M2) give it;
//   - the other 8-bit types (suffix FN, FNUZ and FNU) give NaN;
//   - 6- and 4-bit types have neither and give their largest value; NaN
//     becomes a zero, whose sign is the opposite of the NaN's.
//
// Float8E8M0FNU holds powers of two and nothing else: zero and negative
// numbers become NaN, and half-way values go up.
//
// # Comparing
//
// The operators == and < on these types compare bit patterns. [Equal], [Less]
// and [Compare] compare the numbers.
//
// # Packed storage
//
// Several elements of a 6- or 4-bit type share bytes unless a tensor says that
// they are padded. [Packed] reads and writes such memory, [GetBits] and
// [SetBits] do it for any width below 8 (DLPack rule R031). A value of the
// types of this package that stands alone keeps its bits in the low end of the
// byte; the bits above them are ignored.
//
// # Errors and concurrency
//
// Conversions cannot fail. Functions that check foreign sizes return errors
// wrapping [ErrSize]. Values and tables are immutable: everything may be used
// from several goroutines at once, except writing to the same memory.
package minifloat
