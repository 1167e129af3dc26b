package soft_test

import "unsafe"

// hostWords is n words at an address of pinned or managed memory.
func hostWords(p uintptr, n int) []uint64 {
	// SAFETY: the test owns the memory, which is no Go memory and has n words.
	return unsafe.Slice(*(**uint64)(unsafe.Pointer(&p)), n)
}
