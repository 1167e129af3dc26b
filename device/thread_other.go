//go:build !linux

package device

// threadID returns the same number for every thread: there is no driver here.
func threadID() int { return 0 }

// closeOnExec does nothing: no driver makes a descriptor on this system.
func closeOnExec(int) {}
