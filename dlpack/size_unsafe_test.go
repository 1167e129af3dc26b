package dlpack_test

import "unsafe"

// sizeOf returns the bytes of a value.
func sizeOf[T any](v T) int {
	// SAFETY: a constant of the type.
	return int(unsafe.Sizeof(v))
}
