package launch

import (
	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
)

// GraphMemory says, in bytes, what the graphs of a device have allocated by
// their [Graph.Alloc] nodes, and what the driver keeps for them.
type GraphMemory struct {
	// Used is associated with graphs now, Reserved is held by the driver: what
	// graphs gave back stays reserved until [TrimGraphMemory].
	Used, Reserved uint64
	// UsedHigh and ReservedHigh are the most that there was, since the process
	// began or since [ResetGraphMemory].
	UsedHigh, ReservedHigh uint64
}

// GraphMemoryOf returns what the graphs of a device have.
func GraphMemoryOf(dev *device.Device) (m GraphMemory, err error) {
	const op = "memory of graphs"
	if dev.Driver() == nil {
		return m, invalid("%s: no device", op)
	}
	for _, f := range []struct {
		attr int32
		to   *uint64
	}{
		{driver.GraphMemAttrUsedMemCurrent, &m.Used},
		{driver.GraphMemAttrUsedMemHigh, &m.UsedHigh},
		{driver.GraphMemAttrReservedMemCurrent, &m.Reserved},
		{driver.GraphMemAttrReservedMemHigh, &m.ReservedHigh},
	} {
		if err := check(op, dev.Ordinal(), graphMemory(dev, f.attr, f.to)); err != nil {
			return GraphMemory{}, err
		}
	}
	return m, nil
}

// ResetGraphMemory sets UsedHigh and ReservedHigh to what there is now.
func ResetGraphMemory(dev *device.Device) error {
	const op = "reset memory of graphs"
	if dev.Driver() == nil {
		return invalid("%s: no device", op)
	}
	for _, attr := range []int32{driver.GraphMemAttrUsedMemHigh, driver.GraphMemAttrReservedMemHigh} {
		if err := check(op, dev.Ordinal(), resetGraphMemory(dev, attr)); err != nil {
			return err
		}
	}
	return nil
}

// TrimGraphMemory gives what the driver has reserved and no graph uses back to
// the system.
func TrimGraphMemory(dev *device.Device) error {
	const op = "trim memory of graphs"
	if dev.Driver() == nil {
		return invalid("%s: no device", op)
	}
	return check(op, dev.Ordinal(), dev.Driver().DeviceGraphMemTrim(dev.Handle()))
}
