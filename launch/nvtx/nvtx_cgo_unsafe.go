//go:build cgo && linux

package nvtx

// #cgo LDFLAGS: -ldl
// #include "nvtx.h"
import "C"

import "unsafe"

// attach returns what was wrong, or "".
func attach(path string) string {
	var why [1024]C.char
	if C.ho_nvtx_attach(text(path), &why[0], C.size_t(len(why))) != 0 {
		return C.GoString(&why[0])
	}
	return ""
}

// text makes a string of C, lent for a call: the tool copies what it keeps.
func text(s string) *C.char {
	b := make([]byte, len(s)+1)
	copy(b, s)
	// SAFETY: bytes in Go memory with a zero at the end, alive during the call.
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(b)))
}

func newDomain(name string) uintptr { return uintptr(C.ho_nvtx_domain(text(name))) }

// of gives attributes, which may be nil, in the types of C.
func of(a *Attributes) (color, category C.uint32_t, kind C.int, bits C.uint64_t) {
	if a == nil {
		return 0, 0, 0, 0
	}
	return C.uint32_t(a.Color), C.uint32_t(a.Category), C.int(a.Payload.kind), C.uint64_t(a.Payload.bits)
}

func mark(d uintptr, message string, a *Attributes) {
	color, category, kind, bits := of(a)
	C.ho_nvtx_mark(C.uintptr_t(d), text(message), color, category, kind, bits)
}

func start(d uintptr, message string, a *Attributes) uint64 {
	color, category, kind, bits := of(a)
	return uint64(C.ho_nvtx_start(C.uintptr_t(d), text(message), color, category, kind, bits))
}

func end(d uintptr, id uint64) { C.ho_nvtx_end(C.uintptr_t(d), C.uint64_t(id)) }

func push(d uintptr, message string, a *Attributes) int {
	color, category, kind, bits := of(a)
	return int(C.ho_nvtx_push(C.uintptr_t(d), text(message), color, category, kind, bits))
}

func pop(d uintptr) int { return int(C.ho_nvtx_pop(C.uintptr_t(d))) }

func nameCategory(d uintptr, category uint32, name string) {
	C.ho_nvtx_category(C.uintptr_t(d), C.uint32_t(category), text(name))
}
