//go:build !linux

package engine

import "unsafe"

// open makes the memory; without mmap the public address is that of the bytes and a stray
// host access does not fault.
func (a *arena) open(n uint64) error {
	a.priv = make([]byte, min(n, 256<<20))
	a.free, a.left = []span{{0, uint64(len(a.priv))}}, uint64(len(a.priv))
	// SAFETY: the slice lives as long as the arena; the address is only used as a number.
	a.pub = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(a.priv))))
	return nil
}

func (a *arena) close() { a.priv = nil }

func (a *arena) discard(_, _ uint64) {}

func mapHost(n uint64) ([]byte, error) { return make([]byte, n), nil }

func unmapHost([]byte) {}

// describe says that memory is not shared here.
func (a *arena) describe() (ipcFile, bool) { return ipcFile{}, false }

func mapShared(ipcMemory) (*shared, Code) { return nil, NotSupported }

func (m *shared) unmap() {}
