//go:build !(cgo && linux)

package driver

import "unsafe"

// Available says whether this build can reach a driver at all.
const Available = false

type handles struct{}

// Native returns the address of the driver's C side (struct ho_driver of
// driver.h), for C code of this module that calls without entering Go. It lives
// as long as the process.
func (d *Driver) Native() uintptr { return 0 }

func (handles) has(int) bool { return false }

func load(string) (*Driver, string) { return nil, "this build has no cgo, or is not for Linux" }

func adopt(unsafe.Pointer) *Driver { return nil }

func (d *Driver) checked(string) (*Driver, error) { return d, nil }

func handOver(_, _, _, _ uint64) {}
func giveBack(uint64)            {}

func hostTrampolines() (once, many HostFunc) { return 0, 0 }

// OrderStreams makes the stream b of ctxB wait for the work that is queued on
// the stream a of ctxA now, with one event without timing from a pool. It
// never blocks the host. If the two are one stream nothing is called. With
// skipIdle the event is left out when a is idle, which costs a query and must
// not be asked of a stream that captures.
func (d *Driver) OrderStreams(ctxA ContextHandle, a StreamHandle, ctxB ContextHandle, b StreamHandle, skipIdle bool) Result {
	return resultNoDriver
}

// OrderOpenStreams is [Driver.OrderStreams] for two different created streams
// that others may close meanwhile, without a count of their uses. Who closes
// one sets its flag, atomically, and gives the handle back once [Driver.OrdersDone].
// ok is false where the long way has to be gone: the streams are to be kept,
// and ordered by OrderStreams.
func (d *Driver) OrderOpenStreams(ctxA ContextHandle, a, b StreamHandle, closedA, closedB *uint32) (res Result, ok bool) {
	return resultNoDriver, false
}

// OrdersDone says whether no [Driver.OrderOpenStreams] runs any more that may
// not have seen a flag that is set now. It waits for a few microseconds.
func (d *Driver) OrdersDone() bool { return true }

// EdgesMade returns how many event edges the process has made by
// [Driver.OrderStreams], and by C code of this module.
func EdgesMade() int64 { return 0 }

// RecordPooled records an event without timing from the pool of ctx on a
// stream. Give it back with [Driver.RecycleEvent] once it has been waited for.
func (d *Driver) RecordPooled(ctx ContextHandle, stream StreamHandle) (EventHandle, Result) {
	return 0, resultNoDriver
}

// RecycleEvent gives an event of [Driver.RecordPooled] back.
func (d *Driver) RecycleEvent(ctx ContextHandle, event EventHandle) Result {
	return resultNoDriver
}

// ContextNew creates a context without leaving it current on the thread.
func (d *Driver) ContextNew(flags uint32, dev Device) (ContextHandle, Result) {
	return 0, resultNoDriver
}

// ContextSwap makes ctx current on the calling thread, which the goroutine
// must have locked, and returns what was current.
func (d *Driver) ContextSwap(ctx ContextHandle) (old ContextHandle, res Result) {
	res = resultNoDriver
	return
}

// PointerKind asks for the three facts that classify an address.
func (d *Driver) PointerKind(ptr DevicePtr) (PointerClass, Result) {
	return PointerClass{}, resultNoDriver
}

// PointerInfo asks for everything in [PointerInfo] at once.
func (d *Driver) PointerInfo(ptr DevicePtr) (PointerInfo, Result) {
	return PointerInfo{}, resultNoDriver
}

// MemPoolAttr returns a pool attribute (MemPoolAttr...): a size in bytes, or 0
// or 1 for a switch.
func (d *Driver) MemPoolAttr(pool MemPoolHandle, attr int32) (uint64, Result) {
	return 0, resultNoDriver
}

// MemPoolSetAttr sets a pool attribute.
func (d *Driver) MemPoolSetAttr(pool MemPoolHandle, attr int32, value uint64) Result {
	return resultNoDriver
}

// MemPoolExportFD returns a file descriptor for a shareable pool. The caller
// closes it.
func (d *Driver) MemPoolExportFD(pool MemPoolHandle) (fd int, res Result) {
	res = resultNoDriver
	return
}

// MemExportFD returns a file descriptor for shareable physical memory. The
// caller closes it.
func (d *Driver) MemExportFD(mem MemHandle) (fd int, res Result) {
	res = resultNoDriver
	return
}

// DeviceGetAttributes asks for many attributes in one crossing. A value that
// the driver does not know is -1, with its own code in results. The slices are
// of one length.
func (d *Driver) DeviceGetAttributes(dev Device, attrs []DeviceAttribute, values []int32, results []Result) Result {
	return resultNoDriver
}

// StreamDevice returns the device and the context of a stream, with any
// driver. For a default stream they are those of ctx.
func (d *Driver) StreamDevice(ctx ContextHandle, stream StreamHandle) (Device, ContextHandle, Result) {
	return 0, 0, resultNoDriver
}

// CaptureInfo returns the capture state of a stream and copies the nodes that
// the next one will depend on into deps, as many as fit.
func (d *Driver) CaptureInfo(ctx ContextHandle, stream StreamHandle, deps []GraphNodeHandle) (CaptureInfo, Result) {
	return CaptureInfo{}, resultNoDriver
}

// StreamPoll is [Driver.StreamQuery] without harm to a capture: a stream that
// captures is not asked, and gives [ErrorStreamCaptureUnsupported].
func (d *Driver) StreamPoll(ctx ContextHandle, stream StreamHandle) Result {
	return resultNoDriver
}

// Aim readies a call to this driver: see [LaunchCall]. With lazy a created
// stream tells the context, and none is made current unless the driver wants
// one; that is for kernels (CUkernel), which belong to no context, and for
// functions of the stream's.
func (d *Driver) Aim(c *LaunchCall, lazy bool) { c.res = resultNoDriver }

// Launch makes the call.
func (c *LaunchCall) Launch() Result { return c.res }

// MemcpyHtoDBytes copies Go memory to the device; when it returns src may be
// changed. It works on the legacy default stream and is not ordered with
// non-blocking streams.
func (d *Driver) MemcpyHtoDBytes(ctx ContextHandle, dst DevicePtr, src []byte) Result {
	return resultNoDriver
}

// MemcpyDtoHBytes copies device memory to Go memory and waits for the copy. It
// works on the legacy default stream and is not ordered with non-blocking
// streams.
func (d *Driver) MemcpyDtoHBytes(ctx ContextHandle, dst []byte, src DevicePtr) Result {
	return resultNoDriver
}

// ForgetContext drops the pooled events of a context that is about to be
// destroyed, or was (destroyed true: then they are gone with it).
func (d *Driver) ForgetContext(ctx ContextHandle, destroyed bool) {}

// QueryEvents queries events of several contexts in one crossing. The slices
// are of one length.
func (d *Driver) QueryEvents(ctxs []ContextHandle, events []EventHandle, results []Result) {}
