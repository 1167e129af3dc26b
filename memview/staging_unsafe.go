package memview

import (
	"runtime"
	"unsafe"
)

// runAt runs a plan between a slot of pinned memory and the host array of v,
// whose addresses are dst and src in either order.
func (p *copyPlan) runAt(dst, src uint64, v *StridedMemoryView) {
	d, s := hostPointer(dst, v), hostPointer(src, v)
	if n := stageWorkers(p.bytes()); n > 1 && p.n > 0 {
		copyParallel(d, s, *p, n)
	} else {
		p.run(d, s)
	}
	runtime.KeepAlive(v)
}

// hostPointer turns an address into a pointer: into Go memory by way of the
// view that keeps it, so that the collector understands it.
func hostPointer(addr uint64, v *StridedMemoryView) unsafe.Pointer {
	if v.base != nil && addr == uint64(uintptr(unsafe.Pointer(v.base))) {
		// SAFETY: Go memory that v keeps reachable.
		return unsafe.Pointer(v.base)
	}
	// SAFETY: pinned memory of the driver, or foreign memory that the copy keeps.
	return foreign(uintptr(addr))
}
