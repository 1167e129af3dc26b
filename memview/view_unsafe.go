package memview

import (
	"unsafe"

	"github.com/go-handoff/handoff/dlpack"
)

// Addr returns the address of element (0,…,0). For packed elements it is the
// byte that holds it. It is a number: it keeps nothing alive.
func (v StridedMemoryView) Addr() uintptr { return v.address() }

// Reach says what someone needs who hands the memory on: its address and device,
// as Addr and Device do, and whether it may be used, as Live does. The device
// is the zero one for an empty view, of whose address nothing is known (B044).
// It takes the view by its address and copies nothing: a launch asks it of
// every argument.
func (v *StridedMemoryView) Reach() (addr uintptr, dev dlpack.Device, live bool) {
	if v == nil {
		return 0, dev, false
	}
	if !v.layout.empty() {
		dev = v.device
	}
	return v.address(), dev, v.owner.live()
}

func (v *StridedMemoryView) address() uintptr {
	a := v.addr
	if v.base != nil {
		a = uintptr(unsafe.Pointer(v.base)) // SAFETY: only a number is made of it.
	}
	if v.layout.offset != 0 && !v.layout.empty() {
		// Packed elements that begin inside a byte: see fold.
		a += uintptr(floorDiv(v.layout.offset*int64(v.layout.width), 8))
	}
	return a
}

// shift moves the address by n bytes.
func (v *StridedMemoryView) shift(n int64) {
	if v.base != nil {
		// SAFETY: n is the offset of an element of the view (see Layout), and
		// all of those lie in the allocation that base points into.
		v.base = (*byte)(unsafe.Add(unsafe.Pointer(v.base), n))
		return
	}
	v.addr += uintptr(n)
}

// pointer returns the address that the layout's offsets count from. The view
// must be host accessible, live and not empty.
func (v *StridedMemoryView) pointer() unsafe.Pointer {
	if v.base != nil {
		// SAFETY: Go memory that v keeps reachable.
		return unsafe.Pointer(v.base)
	}
	return foreign(v.addr)
}

// foreign turns the address of foreign host memory into a pointer. It is
// only done at the moment of access, so that an address that is stale or was never
// good does not lie around where the garbage collector looks.
func foreign(addr uintptr) unsafe.Pointer {
	// SAFETY: addr is not in the first page and stands for host memory whose
	// owner is alive, as far as its owner tells the truth. Reading the number as a
	// pointer is what cgo does with every C pointer.
	return *(*unsafe.Pointer)(unsafe.Pointer(&addr))
}
