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

// Free frees the copy, of which nothing may be used any more.
func (r *Relay) Free() { C.ho_relay_free(r.p) }
