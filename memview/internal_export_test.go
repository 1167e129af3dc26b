package memview

import "github.com/go-handoff/handoff/stream"

// ReleaseWaits reports whether somebody waits for room to release.
func ReleaseWaits() bool {
	later.mu.Lock()
	defer later.mu.Unlock()
	return later.waiting > 0
}

// Mapped reports whether kernels on s are taken to reach host memory by its own address.
func Mapped(s stream.StreamView, addr uintptr) bool {
	t := transfer{d: s.Driver(), ctx: s.Context(), s: s.Handle(), view: s}
	return t.mapped(uint64(addr))
}
