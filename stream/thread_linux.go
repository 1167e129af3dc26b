package stream

import "syscall"

// threadID returns the kernel's number of the calling thread.
func threadID() int32 { return int32(syscall.Gettid()) }
