package dlpack

import "strconv"

// DeviceType is a kind of memory (DLDeviceType). The values follow the
// specification; 0, 5 and 6 are not assigned.
type DeviceType int32

// Device types of DLPack 1.3. The last three are provisional: they are in use
// but in no tagged header.
const (
	DeviceCPU         DeviceType = 1  // ordinary host memory
	DeviceCUDA        DeviceType = 2  // memory of a CUDA device
	DeviceCUDAHost    DeviceType = 3  // host memory pinned by CUDA
	DeviceOpenCL      DeviceType = 4  // data is an opaque handle
	DeviceVulkan      DeviceType = 7  // data is an opaque handle
	DeviceMetal       DeviceType = 8  // data is an opaque handle
	DeviceVPI         DeviceType = 9  // buffer of a Verilog simulator
	DeviceROCM        DeviceType = 10 // memory of a ROCm device
	DeviceROCMHost    DeviceType = 11 // host memory pinned by ROCm
	DeviceExtDev      DeviceType = 12 // private meaning
	DeviceCUDAManaged DeviceType = 13 // CUDA managed memory
	DeviceOneAPI      DeviceType = 14 // oneAPI unified shared memory
	DeviceWebGPU      DeviceType = 15
	DeviceHexagon     DeviceType = 16
	DeviceMAIA        DeviceType = 17
	DeviceTrn         DeviceType = 18
	DeviceTPU         DeviceType = 19
	DeviceTPUHost     DeviceType = 20
	DeviceAscend      DeviceType = 21
)

var deviceNames = [...]string{
	DeviceCPU: "cpu", DeviceCUDA: "cuda", DeviceCUDAHost: "cuda_host", DeviceOpenCL: "opencl",
	DeviceVulkan: "vulkan", DeviceMetal: "metal", DeviceVPI: "vpi", DeviceROCM: "rocm",
	DeviceROCMHost: "rocm_host", DeviceExtDev: "ext_dev", DeviceCUDAManaged: "cuda_managed",
	DeviceOneAPI: "oneapi", DeviceWebGPU: "webgpu", DeviceHexagon: "hexagon", DeviceMAIA: "maia",
	DeviceTrn: "trn", DeviceTPU: "tpu", DeviceTPUHost: "tpu_host", DeviceAscend: "ascend",
}

// Known reports whether t has a meaning in DLPack 1.3 or is one of the
// provisional values.
func (t DeviceType) Known() bool {
	return t > 0 && int(t) < len(deviceNames) && deviceNames[t] != ""
}

// HasAddresses reports whether the data field of a tensor on such a device is
// an address, to which offsets may be added (R038). Elsewhere it is an opaque
// handle or its nature is not known.
func (t DeviceType) HasAddresses() bool {
	switch t {
	case DeviceCPU, DeviceCUDA, DeviceCUDAHost, DeviceROCM, DeviceROCMHost, DeviceCUDAManaged, DeviceOneAPI:
		return true
	}
	return false
}

// HostAccessible reports whether the CPU can read such memory at its address.
// Memory that a device touches as well (all but [DeviceCPU]) still needs
// ordering first.
func (t DeviceType) HostAccessible() bool {
	switch t {
	case DeviceCPU, DeviceCUDAHost, DeviceROCMHost, DeviceCUDAManaged:
		return true
	}
	return false
}

// String returns a lower-case name such as "cuda_managed", or "device(99)" for
// an unknown value.
func (t DeviceType) String() string {
	if t.Known() {
		return deviceNames[t]
	}
	return "device(" + strconv.Itoa(int(t)) + ")"
}

// Device says where a tensor lives (DLDevice). Its zero value is no device.
type Device struct {
	// Type is the kind of memory.
	Type DeviceType
	// ID is 0 for host and managed memory (R036), otherwise the ordinal of
	// the device as this process sees it (R037).
	ID int32
}

// CPU is the device of ordinary host memory.
var CPU = Device{Type: DeviceCPU}

// String returns a form such as "cpu:0" or "cuda:1".
func (d Device) String() string {
	return d.Type.String() + ":" + strconv.Itoa(int(d.ID))
}
