package device

import "syscall"

// threadID returns the kernel's number of the calling thread.
func threadID() int { return syscall.Gettid() }

// closeOnExec keeps a descriptor from programs that this one starts.
func closeOnExec(fd int) { syscall.CloseOnExec(fd) }
