package device

import "syscall"

// threadID returns the kernel's number of the calling thread.
func threadID() int { return syscall.Gettid() }
