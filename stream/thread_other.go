//go:build !linux

package stream

// threadID returns 0: there is no driver on this system, and so no stream.
func threadID() int32 { return 0 }
