package engine

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// hostBytes is n bytes of host memory at an address that a caller of the ABI gave. Like
// the real driver it trusts the caller that the memory exists.
func hostBytes(addr, n uint64) []byte {
	if n == 0 {
		return nil
	}
	p := uintptr(addr)
	// SAFETY: the caller of the ABI owns the memory, vouches for n readable (or writable) bytes
	// and keeps it until the work is done; bytes need no alignment. The address is turned into a
	// pointer through memory because it came in as an integer: it is C memory, or Go memory that its
	// owner keeps alive, neither of which moves.
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n)
}

// addrOf is the address of the first byte of host memory outside the Go heap.
func addrOf(b []byte) uint64 {
	// SAFETY: only the number is used; the mapping is kept by its allocation.
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// The words that streams write and wait for are shared with the host and with other
// streams, so they are accessed atomically.

func loadWord32(b []byte) uint32 {
	_ = b[3]
	// SAFETY: b holds 4 bytes outside the Go heap or kept by its owner; newMemOps checked the alignment.
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b))))
}

func loadWord64(b []byte) uint64 {
	_ = b[7]
	// SAFETY: as loadWord32, for 8 bytes.
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(b))))
}

func storeWord32(b []byte, v uint32) {
	_ = b[3]
	// SAFETY: as loadWord32.
	atomic.StoreUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), v)
}

func storeWord64(b []byte, v uint64) {
	_ = b[7]
	// SAFETY: as loadWord64.
	atomic.StoreUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), v)
}

// HostBytes is n bytes of host memory that the caller of the ABI gave by address.
func HostBytes(addr, n uint64) []byte { return hostBytes(addr, n) }

// LoadWord is the size_t at a host address that the caller of the ABI gave.
func LoadWord(addr uint64) uint64 { return binary.NativeEndian.Uint64(hostBytes(addr, 8)) }

// Scratch is room for n handles outside of the Go heap, good until the thread's next call of it.
func (t *Thread) Scratch(n int) []Handle {
	if len(t.scratch) < n*8 {
		if t.scratch != nil {
			unmapHost(t.scratch)
		}
		b, err := mapHost(uint64(n*8+4095) &^ 4095)
		if err != nil {
			panic(err)
		}
		t.scratch = b
	}
	// SAFETY: the mapping has n words, is aligned to a page, and is unmapped only by this
	// method and Exit.
	return unsafe.Slice((*Handle)(unsafe.Pointer(unsafe.SliceData(t.scratch))), n)
}
