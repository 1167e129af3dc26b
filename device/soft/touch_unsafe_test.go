//go:build cgo && linux

package soft_test

import "unsafe"

// touch reads or writes a byte at an address that must not be touched.
func touch(p uintptr, write bool) {
	// SAFETY: none: that the process ends here is what is tested.
	b := *(**byte)(unsafe.Pointer(&p))
	if write {
		*b = 1
	}
	sink = *b
}

var sink byte
