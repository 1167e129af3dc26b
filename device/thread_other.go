//go:build !linux

package device

// threadID returns the same number for every thread: there is no driver here.
func threadID() int { return 0 }
