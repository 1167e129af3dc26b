//go:build cgo && linux

// Package cloop launches kernels in a loop in C, straight through the driver,
// for tests that compare launches from Go with it.
package cloop

// #cgo CFLAGS: -std=c11
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "cloop.h"
import "C"

import (
	"time"
	"unsafe"

	"github.com/go-handoff/handoff/device/driver"
)

// Args are kernel arguments in C memory.
type Args struct{ p unsafe.Pointer }

// NewArgs lays out n parameters of 8 bytes, which hold zeros. It is never
// freed.
func NewArgs(n int) Args {
	// SAFETY: one block of n pointers and n words.
	p := C.calloc(C.size_t(2*n), 8)
	ptrs := unsafe.Slice((*unsafe.Pointer)(p), n)
	for i := range ptrs {
		ptrs[i] = unsafe.Add(p, 8*(n+i))
	}
	return Args{p}
}

// Run launches one block of one thread n times and returns how long that took;
// ok is false without the CUDA driver.
func Run(fn driver.FunctionHandle, s driver.StreamHandle, a Args, n int) (d time.Duration, ok bool) {
	ns := C.ho_cloop(C.uintptr_t(fn), C.uintptr_t(s), a.p, C.int(n))
	return time.Duration(ns), ns >= 0
}
