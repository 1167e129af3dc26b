package memview

import (
	"errors"
	"strconv"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/stream"
)

// MemoryKind tells memory apart by who can reach it.
type MemoryKind uint8

// Kinds of memory.
const (
	// MemoryUnknown is memory of a device that this project has no driver for.
	MemoryUnknown MemoryKind = 0
	// MemoryHost is ordinary host memory.
	MemoryHost MemoryKind = 1
	// MemoryPinned is page-locked host memory, which devices reach as well.
	MemoryPinned MemoryKind = 2
	// MemoryDevice is memory of a device, out of reach of the host.
	MemoryDevice MemoryKind = 3
	// MemoryManaged is memory that moves between host and device by itself.
	MemoryManaged MemoryKind = 4
)

// String returns "host", "pinned", "device", "managed" or "unknown".
func (k MemoryKind) String() string {
	switch k {
	case MemoryUnknown:
		return "unknown"
	case MemoryHost:
		return "host"
	case MemoryPinned:
		return "pinned"
	case MemoryDevice:
		return "device"
	case MemoryManaged:
		return "managed"
	}
	return "MemoryKind(" + strconv.Itoa(int(k)) + ")"
}

// place is what a view knows of its memory beyond the DLPack device, and of
// the streams that work on it. It is never changed once a view points to it.
type place struct {
	kind         MemoryKind
	probed       bool  // the driver was asked
	deviceAccess bool  // kernels can reach the memory
	hostIdle     bool  // the host must not touch it while the device works
	device       int32 // ordinal, or -1
	from         stream.StreamView
	on           stream.StreamView
	buffer       *device.Buffer
}

// placeOf is what follows from a DLPack device alone.
func placeOf(d dlpack.Device) place {
	switch d.Type {
	case dlpack.DeviceCPU:
		return place{kind: MemoryHost, device: -1}
	case dlpack.DeviceCUDA, dlpack.DeviceROCM:
		return place{kind: MemoryDevice, deviceAccess: true, device: d.ID}
	case dlpack.DeviceCUDAHost, dlpack.DeviceROCMHost:
		return place{kind: MemoryPinned, deviceAccess: true, device: d.ID}
	case dlpack.DeviceCUDAManaged:
		return place{kind: MemoryManaged, deviceAccess: true, device: d.ID}
	}
	return place{kind: MemoryUnknown, deviceAccess: true, device: d.ID}
}

// placed returns a copy of what is known, to be completed and stored.
func (v *StridedMemoryView) placed() place {
	if v.place != nil {
		return *v.place
	}
	return placeOf(v.device)
}

// setInfo takes over what the driver says.
func (p *place) setInfo(m device.MemoryInfo) {
	p.probed = true
	p.deviceAccess, p.hostIdle = m.DeviceAccessible, m.HostNeedsIdle
	p.device = -1
	if m.Device != nil {
		p.device = int32(m.Device.Ordinal())
	}
	switch m.DeviceType() {
	case dlpack.DeviceCUDA:
		p.kind = MemoryDevice
	case dlpack.DeviceCUDAHost:
		p.kind = MemoryPinned
	case dlpack.DeviceCUDAManaged:
		p.kind = MemoryManaged
	default:
		p.kind = MemoryHost
	}
}

// MemoryKind tells host, pinned, device and managed memory apart: from the
// DLPack device, or, after [StridedMemoryView.Probe], as the driver has it.
// Only the latter notices pinned memory that was announced as CPU memory.
func (v StridedMemoryView) MemoryKind() MemoryKind {
	if v.place != nil {
		return v.place.kind
	}
	return placeOf(v.device).kind
}

// DeviceID returns the ordinal of the device whose memory it is, as this
// process counts devices (B273, B275). Host memory has -1, however the view
// was made. Pinned and managed memory have the device that they were allocated
// for, where the driver was asked, and otherwise the 0 that DLPack gives them.
func (v StridedMemoryView) DeviceID() int {
	if v.place != nil {
		return int(v.place.device)
	}
	return int(placeOf(v.device).device)
}

// IsDeviceAccessible reports whether kernels can reach the memory: device,
// pinned and managed memory, and, if [StridedMemoryView.Probe] found it out
// (or an import with [ImportOptions] that ask for it), pinned memory that says CPU, and pageable memory where the devices share the
// host's page tables (B271).
func (v StridedMemoryView) IsDeviceAccessible() bool {
	if v.place != nil {
		return v.place.deviceAccess
	}
	return v.layout.width != 0 && v.device.Type != dlpack.DeviceCPU
}

// IsHostAccessible reports whether the CPU can reach the memory (B265). Memory
// that a device uses as well has to be ordered by the caller before it is
// touched: see [StridedMemoryView.Wait].
func (v StridedMemoryView) IsHostAccessible() bool { return v.device.Type.HostAccessible() }

// HostAccessible is [StridedMemoryView.IsHostAccessible].
func (v StridedMemoryView) HostAccessible() bool { return v.IsHostAccessible() }

// HostNeedsIdle reports whether the host must not touch the memory while the
// device does anything at all: managed memory on devices without concurrent
// access, as far as the driver was asked (B269).
func (v StridedMemoryView) HostNeedsIdle() bool { return v.place != nil && v.place.hostIdle }

// ProducerStream returns the stream of whoever lent the memory, on which it
// will use it again: [StridedMemoryView.ReleaseOn] makes it wait. It is the
// zero view where nobody has said.
func (v StridedMemoryView) ProducerStream() stream.StreamView {
	if v.place != nil {
		return v.place.from
	}
	return stream.StreamView{}
}

// Stream returns the stream that this side's work on the memory is queued on:
// that of [stream.On] when the view was imported. It is the zero view after
// [stream.NoSync].
func (v StridedMemoryView) Stream() stream.StreamView {
	if v.place != nil {
		return v.place.on
	}
	return stream.StreamView{}
}

// pending returns the stream that knows of all work on the memory that this
// side knows of, and the zero view if there is none. The stream of the import
// follows the producer's.
func (v *StridedMemoryView) pending() stream.StreamView {
	if v.place == nil {
		return stream.StreamView{}
	}
	if v.place.on.Valid() {
		return v.place.on
	}
	return v.place.from
}

// Probe asks the driver what the memory is and returns the view with the
// answer: it tells pinned memory that says CPU (a pinned tensor of some
// libraries), the device of pinned and managed memory, and whether devices
// reach pageable memory. The DLPack device stays what the producer announced
// (R155).
//
// It costs a call into the driver and is therefore asked for, never done by an
// import; copies on streams do it by themselves. Empty views have no memory and
// are not asked for (B039, B042, B044). Without a driver host memory is host
// memory. Memory that the driver knows as another device's than announced is
// refused with [dlpack.ErrDevice].
func (v StridedMemoryView) Probe() (StridedMemoryView, error) {
	const op = "probe"
	if v.layout.width == 0 {
		return v, fail(op, "", dlpack.ErrNull, "the view is the zero value")
	}
	if v.layout.empty() || v.place != nil && v.place.probed {
		return v, nil
	}
	if !v.owner.live() {
		return v, errReleased(op)
	}
	switch v.device.Type {
	case dlpack.DeviceCPU, dlpack.DeviceCUDA, dlpack.DeviceCUDAHost, dlpack.DeviceCUDAManaged:
	default:
		return v, nil
	}
	info, err := device.InfoOf(driver.DevicePtr(v.address()))
	if err != nil {
		if v.device.Type == dlpack.DeviceCPU && (errors.Is(err, device.ErrNoDriver) || errors.Is(err, device.ErrNoDevice)) {
			return v, nil
		}
		return v, fail(op, "", err, "address 0x"+strconv.FormatUint(uint64(v.address()), 16))
	}
	p := v.placed()
	p.setInfo(info)
	if v.device.Type == dlpack.DeviceCUDA && (p.kind == MemoryHost || p.kind == MemoryDevice && p.device != v.device.ID) {
		return v, fail(op, "R037", dlpack.ErrDevice, "announced as "+v.device.String()+", but it is "+p.String())
	}
	if v.device.Type == dlpack.DeviceCPU && p.kind == MemoryDevice {
		return v, fail(op, "R036", dlpack.ErrDevice, "announced as "+v.device.String()+", but it is "+p.String())
	}
	v.place = &p
	return v, nil
}

// String names kind and device for error texts.
func (p *place) String() string {
	if p.device < 0 {
		return p.kind.String() + " memory"
	}
	return p.kind.String() + " memory of device " + strconv.Itoa(int(p.device))
}
