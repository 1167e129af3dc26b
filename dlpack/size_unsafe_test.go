package dlpack_test

import "unsafe"

// sizeOf returns the bytes of a value.
func sizeOf[T any](v T) int {
	// SAFETY: a constant of the type.
	return int(unsafe.Sizeof(v))
}

// addrOf returns the address of the first element as a number.
func addrOf[T any](s []T) uintptr {
	// SAFETY: only compared, and the tests keep the slice alive.
	return uintptr(unsafe.Pointer(unsafe.SliceData(s)))
}
