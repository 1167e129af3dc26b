package memview

import (
	"math"
	"math/bits"
)

// This file holds the overflow-checked integer arithmetic of the package.
// Everything is int64, on 32-bit machines too (B100).

// mul returns a*b and whether the product fits.
func mul(a, b int64) (int64, bool) {
	neg := (a < 0) != (b < 0)
	hi, lo := bits.Mul64(magnitude(a), magnitude(b))
	if hi != 0 {
		return 0, false
	}
	if neg {
		if lo > 1<<63 {
			return 0, false
		}
		return -int64(lo), true // -(1<<63) wraps to itself, which is right
	}
	if lo > math.MaxInt64 {
		return 0, false
	}
	return int64(lo), true
}

// add returns a+b and whether the sum fits.
func add(a, b int64) (int64, bool) {
	c := a + b
	return c, (c > a) == (b > 0)
}

// magnitude returns |a|, also for the smallest int64.
func magnitude(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

// product returns the product of the extents. A zero anywhere makes it zero,
// whatever the others are (B097: zero look-up first, then checked products).
// Extents are not negative.
func product(shape []int64) (int64, bool) {
	for _, n := range shape {
		if n == 0 {
			return 0, true
		}
	}
	v := int64(1)
	for _, n := range shape {
		var ok bool
		if v, ok = mul(v, n); !ok {
			return 0, false
		}
	}
	return v, true
}

// bytesFor returns the number of bytes that n elements of the given width
// fill, the last byte rounded up. n is not negative.
func bytesFor(n int64, width uint32) (int64, bool) {
	if width%8 == 0 {
		return mul(n, int64(width/8))
	}
	total, ok := mul(n, int64(width))
	if !ok || total > math.MaxInt64-7 {
		return 0, false
	}
	return (total + 7) / 8, true
}

// floorDiv returns a/b rounded down, for b > 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// gcd returns the greatest common divisor; gcd(0, b) is b.
func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
