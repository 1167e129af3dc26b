//go:build cgo && linux

package relay

// #cgo CFLAGS: -std=c11 -Wall -Wextra -I${SRCDIR}/../../../dlpack/include
// #include "relay.h"
import "C"

import (
	"sync/atomic"
	"unsafe"
)

// Relay is a copy of a versioned tensor.
type Relay struct {
	p     unsafe.Pointer
	calls *int64
}

// New copies the struct at an address, which the copy owns from then on. It
// returns nil if there is no memory.
func New(addr uintptr) *Relay {
	var calls *C.int64_t
	p := C.ho_relay_new(C.uintptr_t(addr), &calls)
	if p == nil {
		return nil
	}
	return &Relay{p: p, calls: (*int64)(calls)}
}

// Addr returns the address of the copy.
func (r *Relay) Addr() uintptr { return uintptr(r.p) }

// Calls returns how often the deleter of the copy ran.
func (r *Relay) Calls() int64 { return atomic.LoadInt64(r.calls) }

// Wrong returns how often the deleter was given another address than that of
// the copy.
func (r *Relay) Wrong() int64 { return int64(C.ho_relay_wrong(r.p)) }

// Scribble lets the deleter write to an address.
func (r *Relay) Scribble(at uintptr) { C.ho_relay_scribble(r.p, C.uintptr_t(at)) }

// TwinOf returns the struct at the address of a copy again, at another address.
// It is not freed.
func TwinOf(addr uintptr) uintptr { return uintptr(C.ho_relay_twin(C.uintptr_t(addr))) }

// Free frees the copy, of which nothing may be used any more.
func (r *Relay) Free() { C.ho_relay_free(r.p) }
