package driver

// Handles. Each is the driver's pointer as an integer: small numbers are valid
// stream handles and must never sit in a Go pointer.
type (
	// ContextHandle names a context; 0 is none, or the calling thread's.
	ContextHandle uintptr
	// StreamHandle names a stream. See [DefaultStream], [LegacyStream] and
	// [PerThreadStream] for the fixed values.
	StreamHandle uintptr
	// EventHandle names an event.
	EventHandle uintptr
	// ModuleHandle names a module.
	ModuleHandle uintptr
	// FunctionHandle names a kernel in a context.
	FunctionHandle uintptr
	// LibraryHandle names code that is not tied to a context.
	LibraryHandle uintptr
	// KernelHandle names a kernel of a library.
	KernelHandle uintptr
	// MemPoolHandle names a memory pool.
	MemPoolHandle uintptr
	// ArrayHandle names a CUDA array.
	ArrayHandle uintptr
	// GraphHandle names a graph.
	GraphHandle uintptr
	// GraphNodeHandle names a node of a graph.
	GraphNodeHandle uintptr
	// GraphExecHandle names an executable graph.
	GraphExecHandle uintptr
	// LinkHandle names a link in progress.
	LinkHandle uintptr
	// UserObjectHandle names a counted object that graphs hold.
	UserObjectHandle uintptr
	// GraphConditionalHandle names the condition of a conditional node.
	GraphConditionalHandle uint64
	// MemHandle names physical memory.
	MemHandle uint64
	// HostFunc is the address of a C function void (*)(void *).
	HostFunc uintptr
	// StreamCallback is the address of a C function
	// void (*)(CUstream, CUresult, void *).
	StreamCallback uintptr
	// DevicePtr is an address in unified address space. It is never
	// dereferenced by Go.
	DevicePtr uint64
	// Device is the ordinal of a device in this process.
	Device int32
	// DeviceAttribute numbers a fact about a device.
	DeviceAttribute int32
	// PointerAttribute numbers a fact about an address.
	PointerAttribute int32
)

// Fixed stream handles.
const (
	// DefaultStream is the driver's NULL stream. This package resolves the
	// plain entry points, to which it is the legacy default stream.
	DefaultStream StreamHandle = 0
	// LegacyStream is the legacy default stream: it waits for, and holds up,
	// every stream of its context that was not created non-blocking.
	LegacyStream StreamHandle = 1
	// PerThreadStream is the default stream of the calling thread. A goroutine
	// that has not locked its thread means another stream with each call.
	PerThreadStream StreamHandle = 2
)

// Fixed devices.
const (
	// DeviceCPU stands for the host in managed-memory calls.
	DeviceCPU Device = -1
	// DeviceInvalid is no device.
	DeviceInvalid Device = -2
)

// Flags that the driver's header has as macros.
const (
	MemHostAllocPortable        = 1
	MemHostAllocDeviceMap       = 2
	MemHostAllocWriteCombined   = 4
	MemHostRegisterPortable     = 1
	MemHostRegisterDeviceMap    = 2
	MemHostRegisterIOMemory     = 4
	MemHostRegisterReadOnly     = 8
	GraphCondAssignDefault      = 1
	GraphKernelPortDefault      = 0
	GraphKernelPortProgrammatic = 1
	GraphKernelPortLaunchOrder  = 2
	LaunchParamEnd              = 0
	LaunchParamBufferPointer    = 1
	LaunchParamBufferSize       = 2
)

// Structures. They are mirrors of the driver's, of the same layout; fields
// that are addresses are integers. Unused fields are 0.
type (
	// UUID identifies a physical device.
	UUID [16]byte
	// IPCEventHandle describes an event for another process. Its bytes are
	// opaque and may be sent as they are.
	IPCEventHandle [64]byte
	// IPCMemHandle describes an allocation for another process.
	IPCMemHandle [64]byte
	// MemPoolPtrExport describes an allocation of a shared pool.
	MemPoolPtrExport [64]byte
	// TensorMap is an opaque description of a tile copy. As a kernel parameter
	// it lies at a multiple of 128 bytes.
	TensorMap [16]uint64
	// LaunchAttributeValue is the value of a launch attribute; which bytes
	// count depends on the attribute.
	LaunchAttributeValue [8]uint64

	// MemLocation says where memory lives.
	MemLocation struct {
		Type int32 // MemLocationType...
		ID   int32
	}
	// MemAccessDesc gives a location rights.
	MemAccessDesc struct {
		Location MemLocation
		Flags    int32 // MemAccessFlags...
	}
	// MemAllocProp says what physical memory is made of.
	MemAllocProp struct {
		Type          int32 // MemAllocationType...
		HandleTypes   int32 // MemHandleType...
		Location      MemLocation
		Win32Meta     uintptr
		Compression   uint8
		GPUDirectRDMA uint8
		Usage         uint16
		Reserved      [4]uint8
	}
	// MemPoolProps says what a pool is made of.
	MemPoolProps struct {
		AllocType     int32 // MemAllocationType...
		HandleTypes   int32 // MemHandleType...
		Location      MemLocation
		Win32Security uintptr
		MaxSize       uintptr // bytes, 0 for the driver's choice
		Usage         uint16
		Reserved      [54]uint8
	}
	// Memcpy2D describes the copy of a rectangle.
	Memcpy2D struct {
		SrcXBytes, SrcY uintptr
		SrcType         int32 // MemoryType...
		SrcHost         uintptr
		SrcDevice       DevicePtr
		SrcArray        ArrayHandle
		SrcPitch        uintptr
		DstXBytes, DstY uintptr
		DstType         int32
		DstHost         uintptr
		DstDevice       DevicePtr
		DstArray        ArrayHandle
		DstPitch        uintptr
		WidthBytes      uintptr
		Height          uintptr
	}
	// Memcpy3D describes the copy of a box.
	Memcpy3D struct {
		SrcXBytes, SrcY, SrcZ, SrcLOD uintptr
		SrcType                       int32
		SrcHost                       uintptr
		SrcDevice                     DevicePtr
		SrcArray                      ArrayHandle
		Reserved0                     uintptr
		SrcPitch, SrcHeight           uintptr
		DstXBytes, DstY, DstZ, DstLOD uintptr
		DstType                       int32
		DstHost                       uintptr
		DstDevice                     DevicePtr
		DstArray                      ArrayHandle
		Reserved1                     uintptr
		DstPitch, DstHeight           uintptr
		WidthBytes, Height, Depth     uintptr
	}
	// Memcpy3DPeer describes the copy of a box between contexts.
	Memcpy3DPeer struct {
		SrcXBytes, SrcY, SrcZ, SrcLOD uintptr
		SrcType                       int32
		SrcHost                       uintptr
		SrcDevice                     DevicePtr
		SrcArray                      ArrayHandle
		SrcContext                    ContextHandle
		SrcPitch, SrcHeight           uintptr
		DstXBytes, DstY, DstZ, DstLOD uintptr
		DstType                       int32
		DstHost                       uintptr
		DstDevice                     DevicePtr
		DstArray                      ArrayHandle
		DstContext                    ContextHandle
		DstPitch, DstHeight           uintptr
		WidthBytes, Height, Depth     uintptr
	}
	// LaunchAttribute is one attribute of a launch. An array of them lies in C
	// memory.
	LaunchAttribute struct {
		ID    int32 // LaunchAttribute...
		Pad   [4]uint8
		Value LaunchAttributeValue
	}
	// LaunchConfig is the shape of a launch.
	LaunchConfig struct {
		GridX, GridY, GridZ    uint32
		BlockX, BlockY, BlockZ uint32
		SharedBytes            uint32
		Stream                 StreamHandle
		Attrs                  uintptr // address of LaunchAttributes in C memory
		NumAttrs               uint32
	}
	// LaunchCall is [Driver.LaunchKernelEx] as the hot path wants it: a launch
	// that lies in C memory, of which little changes from one to the next, so
	// that one word goes to C. After a change of Context or Config.Stream comes
	// [Driver.Aim], and then any number of launches. Without attributes it works
	// with drivers older than cuLaunchKernelEx, too.
	LaunchCall struct {
		Entry   uintptr // of Aim
		Func    FunctionHandle
		Params  uintptr // address of an array of pointers in C memory
		Config  LaunchConfig
		res     Result
		Table   uintptr // of Aim
		Context ContextHandle
	}
	// GraphEdgeData says how an edge of a graph orders.
	GraphEdgeData struct {
		FromPort, ToPort, Type uint8
		Reserved               [5]uint8
	}
	// KernelNodeParams says what a kernel node launches.
	KernelNodeParams struct {
		Func                   FunctionHandle // either Func or Kern
		GridX, GridY, GridZ    uint32
		BlockX, BlockY, BlockZ uint32
		SharedBytes            uint32
		Params, Extra          uintptr // addresses in C memory
		Kern                   KernelHandle
		Ctx                    ContextHandle
	}
	// MemsetNodeParams says what a fill node fills.
	MemsetNodeParams struct {
		Dst           DevicePtr
		Pitch         uintptr
		Value         uint32
		ElementSize   uint32  // 1, 2 or 4
		Width, Height uintptr // elements, rows
	}
	// HostNodeParams says what a host node calls.
	HostNodeParams struct {
		Fn   HostFunc
		User uintptr
	}
	// MemAllocNodeParams says what an allocation node allocates.
	MemAllocNodeParams struct {
		Pool        MemPoolProps
		Access      uintptr // address of MemAccessDescs in C memory
		AccessCount uintptr
		Bytes       uintptr
		Ptr         DevicePtr // set by the driver
	}
	// GraphNodeParams says what a node of any kind does. Params holds the
	// structure for Type, from its first byte.
	GraphNodeParams struct {
		Type      int32 // GraphNodeType...
		Reserved0 [3]int32
		Params    [29]int64
		Reserved2 int64
	}
	// GraphInstantiateParams says how a graph becomes executable, and what
	// went wrong.
	GraphInstantiateParams struct {
		Flags        uint64 // GraphInstantiateFlag...
		UploadStream StreamHandle
		ErrorNode    GraphNodeHandle // set by the driver
		Result       int32           // GraphInstantiate..., set by the driver
	}
	// GraphExecUpdateResult says why an executable graph could not be updated.
	GraphExecUpdateResult struct {
		Result        int32 // GraphExecUpdate...
		ErrorNode     GraphNodeHandle
		ErrorFromNode GraphNodeHandle
	}
)

// PointerInfo holds the driver's facts about an address.
type PointerInfo struct {
	Type      int32 // MemoryTypeHost, MemoryTypeDevice, ... or 0: not the driver's
	Managed   bool
	Device    Device // meaningless when Type is 0
	Context   ContextHandle
	DevicePtr DevicePtr // the address for the device, 0 if it has none
	HostPtr   uintptr   // the address for the host, 0 if it has none
	Base      DevicePtr // first byte of the allocation
	Size      uintptr   // bytes of the allocation
	BufferID  uint64    // differs between allocations at one address
	Pool      MemPoolHandle
}

// PointerClass holds the facts that classify an address.
type PointerClass struct {
	Type    int32  // as in [PointerInfo]
	Device  Device // meaningless when Type is 0
	Managed bool
}

// CaptureInfo is the state of a capture.
type CaptureInfo struct {
	Status int32  // StreamCaptureStatus...
	ID     uint64 // differs between captures
	Graph  GraphHandle
	Deps   int // nodes that the next one will depend on
}

// Entry is an entry point of the driver.
type Entry struct {
	// Name is the name without its version, Symbol the exported name.
	Name, Symbol string
	// Version is the oldest CUDA version that has this form of it,
	// 1000 × major + 10 × minor.
	Version int
}

// String returns the attribute's name as the driver has it, in lower case and
// without its prefix: "multiprocessor_count".
func (a DeviceAttribute) String() string {
	for _, e := range deviceAttributes {
		if e.attr == a {
			return e.name
		}
	}
	return "device_attribute_" + itoa(int(a))
}

// ParseDeviceAttribute finds an attribute by the name that String returns.
func ParseDeviceAttribute(name string) (DeviceAttribute, bool) {
	for _, e := range deviceAttributes {
		if e.name == name {
			return e.attr, true
		}
	}
	return 0, false
}

// DeviceAttributes yields every attribute that this package knows, in order.
func DeviceAttributes(yield func(DeviceAttribute) bool) {
	for _, e := range deviceAttributes {
		if !yield(e.attr) {
			return
		}
	}
}
