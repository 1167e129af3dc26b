package engine

import (
	"fmt"
	"syscall"
	"unsafe"
)

const madvDontNeed = 4

// open reserves both ranges. Neither costs memory until its pages are used.
func (a *arena) open(n uint64) error {
	const flags = syscall.MAP_PRIVATE | syscall.MAP_ANON | syscall.MAP_NORESERVE
	priv, err := syscall.Mmap(-1, 0, int(n), syscall.PROT_READ|syscall.PROT_WRITE, flags)
	if err != nil {
		return fmt.Errorf("soft: map device memory: %w", err)
	}
	guard, err := syscall.Mmap(-1, 0, int(n), syscall.PROT_NONE, flags)
	if err != nil {
		_ = syscall.Munmap(priv)
		return fmt.Errorf("soft: reserve device addresses: %w", err)
	}
	a.priv, a.guard = priv, guard
	// SAFETY: the address of a mapping that lives as long as the arena; it is only used as a number.
	a.pub = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(guard))))
	return nil
}

func (a *arena) close() {
	if a.priv != nil {
		_ = syscall.Munmap(a.priv)
		_ = syscall.Munmap(a.guard)
		a.priv, a.guard = nil, nil
	}
}

// discard gives the pages of b back to the system; they read as zero afterwards.
func (a *arena) discard(b []byte) { _ = syscall.Madvise(b, madvDontNeed) }

// mapHost maps n bytes of host memory outside the Go heap.
func mapHost(n uint64) ([]byte, error) {
	return syscall.Mmap(-1, 0, int(n), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE)
}

func unmapHost(b []byte) { _ = syscall.Munmap(b) }
