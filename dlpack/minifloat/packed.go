package minifloat

import (
	"errors"
	"fmt"
	"math"
)

// ErrSize means that memory is too small for the elements asked for, or that a
// width or a count makes no sense.
var ErrSize = errors.New("size does not fit")

// PackedSize gives the bytes that n elements of the given width take when they
// are packed: ceil(n·bits/8). Bits is 1 to 8. A negative n, another width or an
// overflow gives an error wrapping [ErrSize].
func PackedSize(n, bits int) (int, error) {
	if bits < 1 || bits > 8 || n < 0 || n > (math.MaxInt-7)/bits {
		return 0, fmt.Errorf("minifloat: %d packed elements of %d bits: %w", n, bits, ErrSize)
	}
	return (n*bits + 7) / 8, nil
}

// GetBits reads element i of packed elements of the given width, 1 to 8 bits:
// it starts i·bits bits above the least significant bit of p[0] (rule R031). An
// element that is not wholly within p gives an error wrapping [ErrSize].
func GetBits(p []byte, bits, i int) (uint8, error) {
	if !within(p, bits, i) {
		return 0, outside(p, bits, i)
	}
	return get(p, bits, i), nil
}

// SetBits writes the low bits of v to element i, and leaves the neighbours as
// they are; see [GetBits]. Elements that share a byte must not be written from
// several goroutines at once.
func SetBits(p []byte, bits, i int, v uint8) error {
	if !within(p, bits, i) {
		return outside(p, bits, i)
	}
	set(p, bits, i, v)
	return nil
}

func within(p []byte, bits, i int) bool {
	// len(p)/bits·8 and the rest apart, so that nothing overflows.
	return bits >= 1 && bits <= 8 && i >= 0 && i < len(p)/bits*8+len(p)%bits*8/bits
}

func outside(p []byte, bits, i int) error {
	return fmt.Errorf("minifloat: element %d of %d bits in %d bytes: %w", i, bits, len(p), ErrSize)
}

// bitPos splits the place of element i into a byte and a bit. 8 elements fill
// exactly bits bytes.
func bitPos(bits, i int) (at int, shift uint) {
	rest := i & 7 * bits
	return i>>3*bits + rest>>3, uint(rest & 7)
}

func get(p []byte, bits, i int) uint8 {
	at, shift := bitPos(bits, i)
	v := p[at] >> shift
	if int(shift)+bits > 8 {
		v |= p[at+1] << (8 - shift)
	}
	return v & (1<<bits - 1)
}

func set(p []byte, bits, i int, v uint8) {
	at, shift := bitPos(bits, i)
	mask := uint8(1<<bits - 1)
	v &= mask
	p[at] = p[at]&^(mask<<shift) | v<<shift
	if int(shift)+bits > 8 {
		p[at+1] = p[at+1]&^(mask>>(8-shift)) | v>>(8-shift)
	}
}

// Packed is a slice of sub-byte elements over the bytes that hold them. It
// shares the bytes with whoever made it; the zero value is empty.
//
// Reading may happen from several goroutines at once; writing elements that
// share a byte may not.
type Packed[T SubByte] struct {
	p []byte
	n int
}

// NewPacked makes a Packed of n elements over p, whose first element starts at
// the least significant bit of p[0]. Too few bytes give an error wrapping
// [ErrSize]; more bytes than needed are never touched.
func NewPacked[T SubByte](p []byte, n int) (Packed[T], error) {
	size, err := PackedSize(n, bitsOf[T]())
	if err != nil {
		return Packed[T]{}, err
	}
	if size > len(p) {
		return Packed[T]{}, fmt.Errorf("minifloat: %d bytes for %d elements of %s: %w", len(p), n, InfoOf[T]().Name, ErrSize)
	}
	return Packed[T]{p: p[:size:size], n: n}, nil
}

// MakePacked makes a Packed of n zeros with memory of its own. It panics if n
// is negative, as make does.
func MakePacked[T SubByte](n int) Packed[T] {
	size, err := PackedSize(n, bitsOf[T]())
	if err != nil {
		panic(err)
	}
	return Packed[T]{p: make([]byte, size), n: n}
}

// Len gives the number of elements.
func (s Packed[T]) Len() int { return s.n }

// Bytes gives the bytes that hold the elements, shared.
func (s Packed[T]) Bytes() []byte { return s.p }

// At gives element i. Like a slice it panics if i is out of range.
func (s Packed[T]) At(i int) T {
	s.check(i)
	return T(get(s.p, bitsOf[T](), i))
}

// Set changes element i. Like a slice it panics if i is out of range.
func (s Packed[T]) Set(i int, v T) {
	s.check(i)
	set(s.p, bitsOf[T](), i, uint8(v))
}

func (s Packed[T]) check(i int) {
	if uint(i) >= uint(s.n) {
		panic(fmt.Sprintf("minifloat: index %d out of range with length %d", i, s.n))
	}
}

// Unpack copies elements to dst, one a byte, as many as fit, and gives their
// number.
func (s Packed[T]) Unpack(dst []T) int {
	n := min(len(dst), s.n)
	dst = dst[:n]
	i := 0
	switch bitsOf[T]() {
	case 4:
		for ; i+2 <= n; i += 2 {
			b := s.p[i>>1]
			dst[i], dst[i+1] = T(b&15), T(b>>4)
		}
	case 6:
		for q := s.p; i+4 <= n; i, q = i+4, q[3:] {
			w := uint32(q[0]) | uint32(q[1])<<8 | uint32(q[2])<<16
			d := dst[i : i+4 : i+4]
			d[0], d[1], d[2], d[3] = T(w&63), T(w>>6&63), T(w>>12&63), T(w>>18)
		}
	}
	for ; i < n; i++ {
		dst[i] = T(get(s.p, bitsOf[T](), i))
	}
	return n
}

// Pack copies elements of src, one a byte, into s, as many as fit, and gives
// their number.
func (s Packed[T]) Pack(src []T) int {
	n := min(len(src), s.n)
	src = src[:n]
	i := 0
	switch bitsOf[T]() {
	case 4:
		for ; i+2 <= n; i += 2 {
			s.p[i>>1] = uint8(src[i])&15 | uint8(src[i+1])<<4
		}
	case 6:
		for q := s.p; i+4 <= n; i, q = i+4, q[3:] {
			v := src[i : i+4 : i+4]
			w := uint32(v[0])&63 | uint32(v[1])&63<<6 | uint32(v[2])&63<<12 | uint32(v[3])<<18
			q[0], q[1], q[2] = byte(w), byte(w>>8), byte(w>>16)
		}
	}
	for ; i < n; i++ {
		set(s.p, bitsOf[T](), i, uint8(src[i]))
	}
	return n
}

// bitsOf tells the widths of SubByte apart.
func bitsOf[T SubByte]() int {
	switch any(T(0)).(type) {
	case Float4E2M1FN:
		return 4
	default:
		return 6
	}
}
