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

// hostWords is n words at an address of pinned or managed memory.
func hostWords(p uintptr, n int) []uint64 {
	// SAFETY: the test owns the memory, which is no Go memory and has n words.
	return unsafe.Slice(*(**uint64)(unsafe.Pointer(&p)), n)
}
