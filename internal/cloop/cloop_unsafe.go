//go:build cgo && linux

// Package cloop makes driver calls in C loops, straight to libcuda.so.1, for
// tests that compare the calls from Go with them.
package cloop

// #cgo CFLAGS: -std=c11
// #cgo LDFLAGS: -ldl
// #include <stdbool.h>
// #include <stdlib.h>
// #include "cloop.h"
import "C"

import (
	"time"
	"unsafe"

	"github.com/go-handoff/handoff/device/driver"
)

// Order orders b after a n times, with one event; ok is false without the CUDA
// driver.
func Order(a, b driver.StreamHandle, n int) (d time.Duration, ok bool) {
	return result(C.ho_cloop_order(C.uintptr_t(a), C.uintptr_t(b), C.int(n)))
}

// OrderOnce is one round of [Order] in a call of its own: what no call from Go
// can be faster than. Use it on one goroutine at a time.
func OrderOnce(a, b driver.StreamHandle) bool {
	return C.ho_cloop_order_once(C.uintptr_t(a), C.uintptr_t(b)) == 0
}

// AttributesOnce is the same of [Attributes].
func AttributesOnce(p driver.DevicePtr) bool {
	return C.ho_cloop_attributes_once(C.uint64_t(p)) == 0
}

// AllocFree allocates and frees size bytes n times in the order of s.
func AllocFree(s driver.StreamHandle, size uintptr, n int) (d time.Duration, ok bool) {
	return result(C.ho_cloop_alloc(C.uintptr_t(s), C.uintptr_t(size), C.int(n)))
}

// Attributes asks n times what [driver.Driver.PointerKind] asks.
func Attributes(p driver.DevicePtr, n int) (d time.Duration, ok bool) {
	return result(C.ho_cloop_attributes(C.uint64_t(p), C.int(n)))
}

// AllAttributes asks n times what [driver.Driver.PointerInfo] asks.
func AllAttributes(p driver.DevicePtr, n int) (d time.Duration, ok bool) {
	return result(C.ho_cloop_all_attributes(C.uint64_t(p), C.int(n)))
}

// Launch launches one block of one thread n times, and with wait waits for the
// stream in the end.
func Launch(fn driver.FunctionHandle, s driver.StreamHandle, a Args, n int, wait bool) (d time.Duration, ok bool) {
	return result(C.ho_cloop_launch(C.uintptr_t(fn), C.uintptr_t(s), a.p, C.int(n), C.bool(wait)))
}

// Nothing is a call into C that does nothing.
func Nothing() { C.ho_cloop_nothing() }

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

// Call lays out a launch of one block of one thread with the arguments. It is
// never freed.
func (a Args) Call(fn driver.FunctionHandle, ctx driver.ContextHandle, s driver.StreamHandle) *driver.LaunchCall {
	// SAFETY: one zeroed block of its size.
	c := (*driver.LaunchCall)(C.calloc(1, C.size_t(unsafe.Sizeof(driver.LaunchCall{}))))
	c.Func, c.Context, c.Params = fn, ctx, uintptr(a.p)
	c.Config = driver.LaunchConfig{GridX: 1, GridY: 1, GridZ: 1, BlockX: 1, BlockY: 1, BlockZ: 1, Stream: s}
	return c
}

func result(ns C.int64_t) (time.Duration, bool) { return time.Duration(ns), ns >= 0 }
