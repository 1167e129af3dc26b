package engine

import "strconv"

// Code is a result code of the driver. The zero value is success.
type Code int32

// The driver's result codes that the software device gives.
const (
	Success                Code = 0
	InvalidValue           Code = 1
	OutOfMemory            Code = 2
	NotInitialized         Code = 3
	Deinitialized          Code = 4
	NoDevice               Code = 100
	InvalidDevice          Code = 101
	InvalidImage           Code = 200
	InvalidContext         Code = 201
	NoBinaryForGPU         Code = 209
	PeerAccessUnsupported  Code = 217
	InvalidSource          Code = 300
	FileNotFound           Code = 301
	InvalidHandle          Code = 400
	IllegalState           Code = 401
	NotFound               Code = 500
	NotReady               Code = 600
	IllegalAddress         Code = 700
	LaunchOutOfResources   Code = 701
	PeerAccessEnabled      Code = 704
	PeerAccessNotEnabled   Code = 705
	PrimaryContextActive   Code = 708
	ContextDestroyed       Code = 709
	HostMemRegistered      Code = 712
	HostMemNotRegistered   Code = 713
	LaunchFailure          Code = 719
	CooperativeTooLarge    Code = 720
	NotPermitted           Code = 800
	NotSupported           Code = 801
	CaptureUnsupported     Code = 900
	CaptureInvalidated     Code = 901
	CaptureMerge           Code = 902
	CaptureUnmatched       Code = 903
	CaptureUnjoined        Code = 904
	CaptureIsolation       Code = 905
	CaptureImplicit        Code = 906
	CapturedEvent          Code = 907
	CaptureWrongThread     Code = 908
	GraphExecUpdateFailure Code = 910
	InvalidClusterSize     Code = 912
	Unknown                Code = 999
)

// codeText has the driver's name of each code and a message in our words.
var codeText = map[Code][2]string{
	Success:                {"CUDA_SUCCESS", "no error"},
	InvalidValue:           {"CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	OutOfMemory:            {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	NotInitialized:         {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	Deinitialized:          {"CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
	NoDevice:               {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	InvalidDevice:          {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	InvalidImage:           {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
	InvalidContext:         {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	NoBinaryForGPU:         {"CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
	PeerAccessUnsupported:  {"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices"},
	InvalidSource:          {"CUDA_ERROR_INVALID_SOURCE", "device kernel image is invalid"},
	FileNotFound:           {"CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
	InvalidHandle:          {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	IllegalState:           {"CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
	NotFound:               {"CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	NotReady:               {"CUDA_ERROR_NOT_READY", "device not ready"},
	IllegalAddress:         {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
	LaunchOutOfResources:   {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
	PeerAccessEnabled:      {"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
	PeerAccessNotEnabled:   {"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
	PrimaryContextActive:   {"CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "cannot set while device is active in this process"},
	ContextDestroyed:       {"CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
	HostMemRegistered:      {"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped"},
	HostMemNotRegistered:   {"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region"},
	LaunchFailure:          {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
	CooperativeTooLarge:    {"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
	NotPermitted:           {"CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
	NotSupported:           {"CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
	CaptureUnsupported:     {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
	CaptureInvalidated:     {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
	CaptureMerge:           {"CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences"},
	CaptureUnmatched:       {"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"},
	CaptureUnjoined:        {"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
	CaptureIsolation:       {"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
	CaptureImplicit:        {"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream"},
	CapturedEvent:          {"CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
	CaptureWrongThread:     {"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture sequence from another thread"},
	GraphExecUpdateFailure: {"CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update"},
	InvalidClusterSize:     {"CUDA_ERROR_INVALID_CLUSTER_SIZE", "cluster dimension size is invalid"},
	Unknown:                {"CUDA_ERROR_UNKNOWN", "unknown error"},
}

// Name is the driver's name of c, or "" for a code that it does not have.
func (c Code) Name() string { return codeText[c][0] }

// Text is a one-line message for c, or "".
func (c Code) Text() string { return codeText[c][1] }

// Error makes a non-zero Code usable as an error.
func (c Code) Error() string {
	if n := c.Name(); n != "" {
		return n + " (" + strconv.Itoa(int(c)) + "): " + c.Text()
	}
	return "CUDA error " + strconv.Itoa(int(c))
}

// Codes calls yield with every code that has a name.
func Codes(yield func(Code) bool) {
	for c := range codeText {
		if !yield(c) {
			return
		}
	}
}
