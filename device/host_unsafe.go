package device

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/go-handoff/handoff/device/driver"
)

// pinBytes pins Go memory and returns its address, which stays valid until the
// pinner lets go. p is not empty.
func pinBytes(pin *runtime.Pinner, p []byte) uintptr {
	first := unsafe.SliceData(p)
	pin.Pin(first)
	// SAFETY: the address of Go memory of len(p) bytes, pinned by the caller
	// for as long as the driver uses it.
	return uintptr(unsafe.Pointer(first))
}

// Bytes returns the memory of a buffer that the host can reach. It is valid
// until the buffer is closed, and must not be touched while work that uses it
// is queued (nor, with HostNeedsIdle, while the device does anything).
func (b *Buffer) Bytes() ([]byte, error) {
	const op = "bytes of buffer"
	if err := b.enter(op); err != nil {
		return nil, err
	}
	defer b.exit()
	if b.size == 0 {
		return nil, nil
	}
	if !b.info.HostAccessible {
		return nil, &Error{Op: op, Device: b.info.Device.Ordinal(), Code: driver.ErrorNotSupported, Detail: fmt.Sprintf("%v is not reachable by the host", b)}
	}
	// SAFETY: host-accessible memory of b.size bytes that is not Go memory,
	// owned by b and valid while it is open. The conversion goes through a
	// variable's memory, as device addresses are integers.
	addr := uintptr(b.ptr)
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), b.size), nil
}
