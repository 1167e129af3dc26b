package memview

// ReleaseWaits reports whether somebody waits for room to release.
func ReleaseWaits() bool {
	later.mu.Lock()
	defer later.mu.Unlock()
	return later.waiting > 0
}
