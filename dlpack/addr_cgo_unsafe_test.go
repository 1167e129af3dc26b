//go:build cgo && linux && (amd64 || arm64)

package dlpack_test

import "unsafe"

// addrOf returns the address of the first element as a number.
func addrOf[T any](s []T) uintptr {
	// SAFETY: only compared, and the tests keep the slice alive.
	return uintptr(unsafe.Pointer(unsafe.SliceData(s)))
}
