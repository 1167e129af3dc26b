package memview_test

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/memview"
)

// Helpers of the tests that look at memory directly.

// foreign returns memory whose address is used as a number, as C hands it
// over, and that stays where it is for the test.
func foreign[T any](t testing.TB, data []T) uintptr {
	t.Helper()
	var p runtime.Pinner
	p.Pin(unsafe.SliceData(data))
	t.Cleanup(p.Unpin)
	return uintptr(unsafe.Pointer(unsafe.SliceData(data))) // SAFETY: pinned; only a number is made of it.
}

func rawOf(addr uintptr, dt dlpack.DataType, shape, strides []int64) *memview.Raw {
	// SAFETY: Raw reads as many numbers as there are axes.
	return &memview.Raw{
		Addr: addr, NDim: len(shape), Shape: unsafe.SliceData(shape), Strides: unsafe.SliceData(strides),
		DType: dt, Device: cpu,
	}
}

type items struct {
	l   memview.Layout
	mem []byte
	lo  int64
}

func (x items) item(off int64) []byte {
	n := int64(x.l.ItemSize())
	return x.mem[(off-x.lo)*n:][:n]
}

func bytesOfItems(t testing.TB, v memview.StridedMemoryView) items {
	t.Helper()
	l := v.Layout()
	lo, _ := l.OffsetBounds()
	start := int64(v.Addr()) + lo*int64(l.ItemSize())
	if l.Empty() {
		return items{l: l}
	}
	addr := uintptr(start)
	// SAFETY: the span of a view whose memory the test holds.
	mem := unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), l.ByteSpan())
	return items{l, mem, lo}
}

func random(n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]uint64, (n+7)/8)
	for i := range b {
		b[i] = r.Uint64()
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&b[0])), n) // SAFETY: n bytes of b.
}

func aligned(n int) []byte {
	b := make([]complex128, n/16+1)
	return unsafe.Slice((*byte)(unsafe.Pointer(&b[0])), n) // SAFETY: n bytes of b.
}

// bitsOfView reads elements of at most 16 bits, bit by bit (R031).
func bitsOfView(v memview.StridedMemoryView) func(off int64) uint16 {
	l := v.Layout()
	width, bits := int64(l.ItemBits()), int64(v.DType().BitsPerElement())
	addr := v.Addr()
	if l.Offset() != 0 {
		addr -= uintptr(l.Offset() * width / 8)
	}
	return func(off int64) uint16 {
		var x uint16
		for k := range bits {
			at := off*width + k
			p := addr + uintptr(at>>3)
			b := **(**byte)(unsafe.Pointer(&p)) // SAFETY: a byte of memory that the test holds.
			x |= uint16(b>>(at&7)&1) << k
		}
		return x
	}
}
