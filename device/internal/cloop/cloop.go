//go:build cgo && linux

// Package cloop makes driver calls in C loops, straight to libcuda.so.1, for
// tests that compare the calls from Go with them.
package cloop

// #cgo CFLAGS: -std=c11
// #cgo LDFLAGS: -ldl
// #include "cloop.h"
import "C"

import (
	"time"

	"github.com/go-handoff/handoff/device/driver"
)

// Order orders b after a n times, with one event; ok is false without the CUDA
// driver.
func Order(a, b driver.StreamHandle, n int) (d time.Duration, ok bool) {
	return result(C.ho_cloop_order(C.uintptr_t(a), C.uintptr_t(b), C.int(n)))
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

func result(ns C.int64_t) (time.Duration, bool) { return time.Duration(ns), ns >= 0 }
