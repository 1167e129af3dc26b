package launch

import (
	"slices"
	"unsafe"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/internal/cptr"
)

// bodyHandles copies the list of a conditional node's graphs, which the driver
// owns.
func bodyHandles(addr uintptr, n int) []driver.GraphHandle {
	return slices.Clone(cptr.Slice[driver.GraphHandle](addr, n))
}

// fillAccess writes the list of the devices that may use an allocation.
func fillAccess(m *cMemory, peers []*device.Device) {
	// SAFETY: C memory for that many elements.
	list := unsafe.Slice((*driver.MemAccessDesc)(m.ptr), len(peers))
	for i, p := range peers {
		list[i] = driver.MemAccessDesc{
			Location: driver.MemLocation{Type: driver.MemLocationTypeDevice, ID: int32(p.Ordinal())},
			Flags:    driver.MemAccessFlagsProtReadwrite,
		}
	}
}

// attributeList makes C memory for all attributes of a Config, which is valid as
// long as the second value is kept; nil if there is no memory.
func attributeList() ([]driver.LaunchAttribute, *cMemory) {
	m := newCMemory(maxAttributes * attrBytes)
	if m == nil {
		return nil, nil
	}
	// SAFETY: C memory for that many elements.
	return unsafe.Slice((*driver.LaunchAttribute)(m.ptr), maxAttributes), m
}

// graphMemory reads one attribute of the memory of graphs.
func graphMemory(dev *device.Device, attr int32, to *uint64) driver.Result {
	// SAFETY: a word without pointers, lent for the call.
	return dev.Driver().DeviceGetGraphMemAttribute(dev.Handle(), attr, unsafe.Pointer(to))
}

// resetGraphMemory sets one attribute to 0, the only value there is.
func resetGraphMemory(dev *device.Device, attr int32) driver.Result {
	var zero uint64
	// SAFETY: a word without pointers, lent for the call.
	return dev.Driver().DeviceSetGraphMemAttribute(dev.Handle(), attr, unsafe.Pointer(&zero))
}
