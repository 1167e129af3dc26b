package driver

import (
	"errors"
	"strconv"

	"github.com/go-handoff/handoff/dlpack"
)

// Errors reported by this package. Test for them with [errors.Is]; they are
// always wrapped, mostly in a [Result].
var (
	// ErrNoDriver means that no usable driver was found.
	ErrNoDriver = errors.New("no CUDA driver")
	// ErrNoDevice means that there is a driver, but no device that it can use.
	ErrNoDevice = errors.New("no CUDA device")
	// ErrFork means that this process was forked from one that had initialized
	// the driver: neither survives it. Use spawn, or import in the child only.
	ErrFork = errors.New("driver initialized before fork")
	// ErrNotSupported means that the driver lacks the entry point, or the
	// device the feature.
	ErrNotSupported = dlpack.ErrNotSupported
	// ErrOutOfMemory means that the device or the driver has no memory left.
	ErrOutOfMemory = errors.New("out of device memory")
	// ErrNotReady means that work is not done yet.
	ErrNotReady = errors.New("not ready")
	// ErrInvalidContext means that no context is current, or a destroyed one.
	ErrInvalidContext = errors.New("invalid context")
	// ErrInvalidHandle means that a handle is null, destroyed or foreign.
	ErrInvalidHandle = errors.New("invalid handle")
	// ErrInvalidValue means that the driver refused an argument.
	ErrInvalidValue = errors.New("invalid value")
	// ErrInvalidDevice means that there is no device with that ordinal.
	ErrInvalidDevice = errors.New("invalid device")
	// ErrPeerAccess means that two devices cannot reach each other's memory,
	// or may not yet.
	ErrPeerAccess = errors.New("no peer access")
	// ErrCapture means that a call is not allowed while a stream captures.
	ErrCapture = errors.New("not allowed during stream capture")
	// ErrSticky means that the context is lost: every later call fails, and
	// only a new process, or for some codes a new context, helps.
	ErrSticky = errors.New("context is lost")
	// ErrShutdown means that the driver is shutting down with the process.
	ErrShutdown = errors.New("driver is shutting down")
)

// Result is the code of a driver call. The zero Result is [Success]. Codes
// below zero are this package's own: the entry point was missing.
type Result int32

const (
	resultNoDriver Result = -1
	resultPanic    Result = -2
	resultMissing  Result = -1000 // and below: -1000 - index of the entry
)

// Err returns nil for [Success] and the Result itself otherwise.
func (r Result) Err() error {
	if r == Success {
		return nil
	}
	return r
}

// Missing returns the entry point that the driver lacked.
func (r Result) Missing() (e Entry, ok bool) {
	if i := int(resultMissing - r); i >= 0 && i < len(entries) {
		return entries[i], true
	}
	return Entry{}, false
}

// Name returns the driver's name of the code, "CUDA_ERROR_OUT_OF_MEMORY", and
// for a code that this package does not know its number.
func (r Result) Name() string {
	if _, ok := r.Missing(); ok {
		return "HANDOFF_ERROR_MISSING_ENTRY"
	}
	switch r {
	case resultNoDriver:
		return "HANDOFF_ERROR_NO_DRIVER"
	case resultPanic:
		return "HANDOFF_ERROR_PANIC"
	}
	if s := resultName(r); s != "" {
		return s
	}
	return "CUDA_ERROR_" + itoa(int(r))
}

// Message returns what the code means, in our words.
func (r Result) Message() string {
	if e, ok := r.Missing(); ok {
		return e.Symbol + " needs a driver for CUDA " + versionText(e.Version) + " or newer"
	}
	switch r {
	case resultNoDriver:
		return "no CUDA driver"
	case resultPanic:
		return "a Go function called by the driver panicked"
	}
	if s, ok := messages[r]; ok {
		return s
	}
	return "unknown code"
}

// String returns name and message.
func (r Result) String() string {
	if r == Success {
		return r.Name()
	}
	return r.Message() + " (" + r.Name() + ")"
}

// Error implements error. The zero Result is not an error: see [Result.Err].
func (r Result) Error() string { return r.String() }

// Is makes a Result match the sentinel errors of this package.
func (r Result) Is(target error) bool {
	switch target {
	case ErrNoDriver:
		return r == resultNoDriver || r == ErrorStubLibrary
	case ErrNoDevice:
		return r == ErrorNoDevice
	case ErrNotSupported:
		_, missing := r.Missing()
		return missing || r == ErrorNotSupported || r == ErrorCallRequiresNewerDriver
	case ErrOutOfMemory:
		return r == ErrorOutOfMemory
	case ErrNotReady:
		return r == ErrorNotReady
	case ErrInvalidContext:
		return r == ErrorInvalidContext || r == ErrorContextIsDestroyed
	case ErrInvalidHandle:
		return r == ErrorInvalidHandle
	case ErrInvalidValue:
		return r == ErrorInvalidValue
	case ErrInvalidDevice:
		return r == ErrorInvalidDevice
	case ErrPeerAccess:
		return r == ErrorPeerAccessUnsupported || r == ErrorPeerAccessNotEnabled || r == ErrorTooManyPeers
	case ErrCapture:
		return r >= ErrorStreamCaptureUnsupported && r <= ErrorStreamCaptureWrongThread
	case ErrSticky:
		return r.Sticky()
	case ErrShutdown:
		return r == ErrorDeinitialized
	}
	return false
}

// Sticky says that after this code every call in the context fails.
func (r Result) Sticky() bool {
	switch r {
	case ErrorECCUncorrectable, ErrorNVLinkUncorrectable, ErrorContained, ErrorIllegalAddress, ErrorLaunchTimeout, ErrorAssert,
		ErrorHardwareStackError, ErrorIllegalInstruction, ErrorMisalignedAddress, ErrorInvalidAddressSpace,
		ErrorInvalidPC, ErrorLaunchFailed, ErrorTensorMemoryLeak:
		return true
	}
	return false
}

var messages = map[Result]string{
	Success:                           "success",
	ErrorInvalidValue:                 "an argument is out of range",
	ErrorOutOfMemory:                  "out of memory",
	ErrorNotInitialized:               "the driver is not initialized, or was so before a fork",
	ErrorDeinitialized:                "the driver is shutting down",
	ErrorProfilerDisabled:             "a profiler is attached and cannot be controlled",
	ErrorProfilerNotInitialized:       "the profiler is not initialized",
	ErrorProfilerAlreadyStarted:       "the profiler runs already",
	ErrorProfilerAlreadyStopped:       "the profiler does not run",
	ErrorStubLibrary:                  "the library is a stub for linking, not a driver",
	ErrorCallRequiresNewerDriver:      "the call needs a newer driver",
	ErrorDeviceUnavailable:            "the device is busy or otherwise not available",
	ErrorNoDevice:                     "no device was found",
	ErrorInvalidDevice:                "there is no such device",
	ErrorDeviceNotLicensed:            "the device is not licensed",
	ErrorInvalidImage:                 "the code image is invalid",
	ErrorInvalidContext:               "no context is current, or an invalid one",
	ErrorContextAlreadyCurrent:        "the context is current already",
	ErrorMapFailed:                    "mapping failed",
	ErrorUnmapFailed:                  "unmapping failed",
	ErrorArrayIsMapped:                "the array is mapped",
	ErrorAlreadyMapped:                "the resource is mapped already",
	ErrorNoBinaryForGPU:               "the code has no form for this device",
	ErrorAlreadyAcquired:              "the resource is taken already",
	ErrorNotMapped:                    "the resource is not mapped",
	ErrorNotMappedAsArray:             "the resource is not mapped as an array",
	ErrorNotMappedAsPointer:           "the resource is not mapped as a pointer",
	ErrorECCUncorrectable:             "device memory is corrupt",
	ErrorUnsupportedLimit:             "the device has no such limit",
	ErrorContextAlreadyInUse:          "the context is in use on another thread",
	ErrorPeerAccessUnsupported:        "the devices cannot reach each other's memory",
	ErrorInvalidPTX:                   "the PTX does not compile",
	ErrorInvalidGraphicsContext:       "the graphics context is invalid",
	ErrorNVLinkUncorrectable:          "NVLink error",
	ErrorJITCompilerNotFound:          "the PTX compiler library was not found",
	ErrorUnsupportedPTXVersion:        "the PTX is newer than the driver",
	ErrorJITCompilationDisabled:       "compilation of PTX is switched off",
	ErrorUnsupportedExecAffinity:      "the execution affinity is not supported",
	ErrorUnsupportedDevsideSync:       "the code synchronizes on the device in an unsupported way",
	ErrorContained:                    "device error, contained to this process",
	ErrorInvalidSource:                "the kernel source is invalid",
	ErrorFileNotFound:                 "the file was not found",
	ErrorSharedObjectSymbolNotFound:   "a shared library lacks a symbol",
	ErrorSharedObjectInitFailed:       "a shared library did not start",
	ErrorOperatingSystem:              "an operating system call failed",
	ErrorInvalidHandle:                "a handle is null, destroyed or of another context",
	ErrorIllegalState:                 "the object is in the wrong state for the call",
	ErrorLossyQuery:                   "the answer does not fit the older call",
	ErrorNotFound:                     "no such symbol or object",
	ErrorNotReady:                     "not done yet",
	ErrorIllegalAddress:               "a kernel or copy touched an invalid address",
	ErrorLaunchOutOfResources:         "the launch needs more registers, threads or shared memory than there are",
	ErrorLaunchTimeout:                "a kernel ran too long",
	ErrorLaunchIncompatibleTexturing:  "the kernel uses another texturing mode",
	ErrorPeerAccessAlreadyEnabled:     "peer access is enabled already",
	ErrorPeerAccessNotEnabled:         "peer access is not enabled",
	ErrorPrimaryContextActive:         "the primary context exists already",
	ErrorContextIsDestroyed:           "the context was destroyed",
	ErrorAssert:                       "a device-side assertion failed",
	ErrorTooManyPeers:                 "no more peer mappings are possible",
	ErrorHostMemoryAlreadyRegistered:  "the host memory is pinned already",
	ErrorHostMemoryNotRegistered:      "the host memory is not pinned",
	ErrorHardwareStackError:           "device stack error",
	ErrorIllegalInstruction:           "a kernel hit an illegal instruction",
	ErrorMisalignedAddress:            "a kernel used a misaligned address",
	ErrorInvalidAddressSpace:          "a kernel used an address of the wrong space",
	ErrorInvalidPC:                    "a kernel jumped out of its code",
	ErrorLaunchFailed:                 "a kernel failed",
	ErrorCooperativeLaunchTooLarge:    "the grid is too large to run at once",
	ErrorTensorMemoryLeak:             "a kernel left tensor memory allocated",
	ErrorNotPermitted:                 "not permitted",
	ErrorNotSupported:                 "not supported by the device or driver",
	ErrorSystemNotReady:               "the system is not ready; check its fabric services",
	ErrorSystemDriverMismatch:         "driver and kernel module differ in version",
	ErrorCompatNotSupportedOnDevice:   "forward compatibility is not for this device",
	ErrorMPSConnectionFailed:          "no connection to the MPS server",
	ErrorMPSRPCFailure:                "the MPS server did not answer",
	ErrorMPSServerNotReady:            "the MPS server is not ready",
	ErrorMPSMaxClientsReached:         "the MPS server has no room for a client",
	ErrorMPSMaxConnectionsReached:     "the MPS server has no room for a connection",
	ErrorMPSClientTerminated:          "the MPS server ended this client",
	ErrorCDPNotSupported:              "the code launches kernels, which MPS forbids",
	ErrorCDPVersionMismatch:           "two versions of device-side launch are mixed",
	ErrorStreamCaptureUnsupported:     "the call is not allowed while the stream captures",
	ErrorStreamCaptureInvalidated:     "the capture was invalidated by an earlier error",
	ErrorStreamCaptureMerge:           "the call would join two captures",
	ErrorStreamCaptureUnmatched:       "the capture did not begin on this stream",
	ErrorStreamCaptureUnjoined:        "work forked off the capture was not joined",
	ErrorStreamCaptureIsolation:       "the call would order captured after uncaptured work",
	ErrorStreamCaptureImplicit:        "the call would depend on the legacy default stream",
	ErrorCapturedEvent:                "the event was recorded in a capture",
	ErrorStreamCaptureWrongThread:     "the capture began on another thread",
	ErrorTimeout:                      "timed out",
	ErrorGraphExecUpdateFailure:       "the graph differs too much for an update",
	ErrorExternalDevice:               "an external device failed",
	ErrorInvalidClusterSize:           "the cluster size is not possible",
	ErrorFunctionNotLoaded:            "the function is not loaded",
	ErrorInvalidResourceType:          "the resource is of the wrong type",
	ErrorInvalidResourceConfiguration: "the resource is configured wrongly",
	ErrorKeyRotation:                  "keys are being rotated",
	ErrorUnknown:                      "unknown error",
}

func itoa(i int) string { return strconv.Itoa(i) }

// versionText turns 12030 into "12.3".
func versionText(v int) string { return itoa(v/1000) + "." + itoa(v%1000/10) }
