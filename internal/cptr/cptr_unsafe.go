// Package cptr turns addresses of C memory into pointers.
//
// Foreign addresses travel through this module as integers, because values
// such as 0x1 (a valid stream handle) or garbage in a hostile struct would
// stop the Go runtime if they sat in a pointer variable. At the one place
// where such an address is known to be C memory that may be read, this package
// converts it.
package cptr

import "unsafe"

// At returns the pointer for the address of C memory, or nil for 0.
//
// The address must not be one of Go memory: an integer does not keep a Go
// object alive.
func At(addr uintptr) unsafe.Pointer {
	// SAFETY: reads a uintptr as a pointer of the same size. The caller
	// vouches that addr is C memory, which never moves and which the
	// collector ignores.
	return *(*unsafe.Pointer)(unsafe.Pointer(&addr))
}

// To returns a typed pointer to C memory, or nil for 0. addr must be aligned
// for T, and T must not contain Go pointers.
func To[T any](addr uintptr) *T {
	return (*T)(At(addr))
}

// Slice returns the n values of C memory at addr, or nil if n is 0. The slice
// is valid for as long as the C memory is; its capacity is n. It panics if n is
// negative.
func Slice[T any](addr uintptr, n int) []T {
	if n == 0 || addr == 0 {
		return nil
	}
	if n < 0 { // with checkptr, unsafe.Slice would end the process
		panic("cptr: negative length")
	}
	// SAFETY: the caller vouches for n aligned values of T at addr.
	return unsafe.Slice((*T)(At(addr)), n)
}
