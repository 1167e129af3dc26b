package device_test

import (
	"unsafe"

	"github.com/go-handoff/handoff/device/driver"
)

// addressOf returns the address of Go memory that the caller pinned.
func addressOf(p []byte) driver.DevicePtr {
	// SAFETY: only the number is used, while the memory is pinned.
	return driver.DevicePtr(uintptr(unsafe.Pointer(unsafe.SliceData(p))))
}
