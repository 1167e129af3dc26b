//go:build cgo && linux

package driver

// #cgo CFLAGS: -I${SRCDIR}/include -std=c11
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #define HO_GO_VIEW
// #include "driver.h"
import "C"

import (
	"strings"
	"unsafe"
)

// Available says whether this build can reach a driver at all.
const Available = true

type handles struct {
	t *C.ho_cuda_table // what the shims call through: the first field of c
	c *C.ho_driver
}

// Native returns the address of the driver's C side (struct ho_driver of
// driver.h), for C code of this module that calls without entering Go. It lives
// as long as the process.
func (d *Driver) Native() uintptr { return uintptr(unsafe.Pointer(d.c)) }

func (h handles) has(index int) bool { return C.ho_driver_has(h.c, C.int(index)) != 0 }

func load(path string) (d *Driver, why string) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var text [512]C.char
	c := C.ho_driver_open(name, &text[0], C.size_t(len(text)))
	if c == nil {
		return nil, C.GoString(&text[0])
	}
	return fromC(c), ""
}

func adopt(table unsafe.Pointer) *Driver {
	c := C.ho_driver_from_table(table)
	if c == nil {
		return nil
	}
	return fromC(c)
}

func fromC(c *C.ho_driver) *Driver {
	return &Driver{handles: handles{t: &c.t, c: c}, version: int(c.version)}
}

// cString copies s to C memory. A zero byte inside would cut it short.
func cString(s string) (unsafe.Pointer, bool) {
	if strings.IndexByte(s, 0) >= 0 {
		return nil, false
	}
	return unsafe.Pointer(C.CString(s)), true
}

func freeString(p unsafe.Pointer) { C.free(p) }

func goString(p unsafe.Pointer) string { return C.GoString((*C.char)(p)) }

// OrderStreams makes the stream b of ctxB wait for the work that is queued on
// the stream a of ctxA now, with one event without timing from a pool. It
// never blocks the host. If the two are one stream nothing is called. With
// skipIdle the event is left out when a is idle, which costs a query and must
// not be asked of a stream that captures.
func (d *Driver) OrderStreams(ctxA ContextHandle, a StreamHandle, ctxB ContextHandle, b StreamHandle, skipIdle bool) Result {
	var flags C.uint
	if skipIdle {
		flags = C.HO_ORDER_SKIP_IDLE
	}
	return Result(C.ho_order(d.c, C.ho_context(ctxA), C.ho_stream(a), C.ho_context(ctxB), C.ho_stream(b), flags))
}

// OrderOpenStreams is [Driver.OrderStreams] for two different created streams
// that others may close meanwhile, without a count of their uses. Who closes
// one sets its flag, atomically, and gives the handle back once [Driver.OrdersDone].
// ok is false where the long way has to be gone: the streams are to be kept,
// and ordered by OrderStreams.
func (d *Driver) OrderOpenStreams(ctxA ContextHandle, a, b StreamHandle, closedA, closedB *uint32) (res Result, ok bool) {
	// SAFETY: words that lie in objects of the caller, read for the time of the call.
	st := C.ho_order_open(d.c, C.ho_context(ctxA), C.ho_stream(a), C.ho_stream(b),
		(*C.uint32_t)(unsafe.Pointer(closedA)), (*C.uint32_t)(unsafe.Pointer(closedB)))
	return Result(st), st != C.HO_ORDER_LONG
}

// OrdersDone says whether no [Driver.OrderOpenStreams] runs any more that may
// not have seen a flag that is set now. It waits for a few microseconds.
func (d *Driver) OrdersDone() bool { return C.ho_orders_done(d.c) != 0 }

// EdgesMade returns how many event edges the process has made by
// [Driver.OrderStreams], and by C code of this module.
func EdgesMade() int64 { return int64(C.ho_edges()) }

// RecordPooled records an event without timing from the pool of ctx on a
// stream. Give it back with [Driver.RecycleEvent] once it has been waited for.
func (d *Driver) RecordPooled(ctx ContextHandle, stream StreamHandle) (EventHandle, Result) {
	r := C.ho_record(d.c, C.ho_context(ctx), C.ho_stream(stream))
	return EventHandle(r.value), Result(r.st)
}

// RecycleEvent gives an event of [Driver.RecordPooled] back.
func (d *Driver) RecycleEvent(ctx ContextHandle, event EventHandle) Result {
	return Result(C.ho_recycle(d.c, C.ho_context(ctx), C.ho_event(event)))
}

// ForgetContext drops the pooled events of a context that is about to be
// destroyed, or was (destroyed true: then they are gone with it).
func (d *Driver) ForgetContext(ctx ContextHandle, destroyed bool) {
	var gone C.int
	if destroyed {
		gone = 1
	}
	C.ho_forget_context(d.c, C.ho_context(ctx), gone)
}

// QueryEvents queries events of several contexts in one crossing. The slices
// are of one length.
func (d *Driver) QueryEvents(ctxs []ContextHandle, events []EventHandle, results []Result) {
	n := min(len(ctxs), len(events), len(results))
	if n == 0 {
		return
	}
	// SAFETY: slices of plain words of n elements, lent for the call.
	C.ho_query_events(d.t, (*C.ho_context)(unsafe.Pointer(&ctxs[0])), (*C.ho_event)(unsafe.Pointer(&events[0])),
		(*C.ho_result)(unsafe.Pointer(&results[0])), C.int(n))
}

// ContextNew creates a context without leaving it current on the thread.
func (d *Driver) ContextNew(flags uint32, dev Device) (ContextHandle, Result) {
	r := C.ho_context_new(d.t, C.uint32_t(flags), C.ho_device(dev))
	return ContextHandle(r.value), Result(r.st)
}

// ContextSwap makes ctx current on the calling thread, which the goroutine
// must have locked, and returns what was current.
func (d *Driver) ContextSwap(ctx ContextHandle) (old ContextHandle, res Result) {
	r := C.ho_context_swap(d.t, C.ho_context(ctx))
	return ContextHandle(r.value), Result(r.st)
}

// PointerKind asks for the three facts that classify an address.
func (d *Driver) PointerKind(ptr DevicePtr) (PointerClass, Result) {
	r := C.ho_pointer_kind(d.t, C.ho_devptr(ptr))
	return PointerClass{Type: int32(r._type), Device: Device(r.device), Managed: r.managed != 0}, Result(r.st)
}

// PointerInfo asks for everything in [PointerInfo] at once.
func (d *Driver) PointerInfo(ptr DevicePtr) (PointerInfo, Result) {
	r := C.ho_pointer_all(d.t, C.ho_devptr(ptr))
	return PointerInfo{
		Type: int32(r._type), Managed: r.managed != 0, Device: Device(r.device), Context: ContextHandle(r.ctx),
		DevicePtr: DevicePtr(r.device_ptr), HostPtr: uintptr(r.host_ptr), Base: DevicePtr(r.base), Size: uintptr(r.size),
		BufferID: uint64(r.buffer_id), Pool: MemPoolHandle(r.pool),
	}, Result(r.st)
}

// MemPoolAttr returns a pool attribute (MemPoolAttr...): a size in bytes, or 0
// or 1 for a switch.
func (d *Driver) MemPoolAttr(pool MemPoolHandle, attr int32) (uint64, Result) {
	r := C.ho_pool_get(d.t, C.ho_mem_pool(pool), C.int(attr))
	return uint64(r.value), Result(r.st)
}

// MemPoolSetAttr sets a pool attribute.
func (d *Driver) MemPoolSetAttr(pool MemPoolHandle, attr int32, value uint64) Result {
	return Result(C.ho_pool_set(d.t, C.ho_mem_pool(pool), C.int(attr), C.uint64_t(value)))
}

// MemPoolExportFD returns a file descriptor for a shareable pool. The caller
// closes it.
func (d *Driver) MemPoolExportFD(pool MemPoolHandle) (fd int, res Result) {
	r := C.ho_pool_export_fd(d.t, C.ho_mem_pool(pool))
	return int(int64(r.value)), Result(r.st)
}

// MemExportFD returns a file descriptor for shareable physical memory. The
// caller closes it.
func (d *Driver) MemExportFD(mem MemHandle) (fd int, res Result) {
	r := C.ho_mem_export_fd(d.t, C.ho_mem_handle(mem))
	return int(int64(r.value)), Result(r.st)
}

// DeviceGetAttributes asks for many attributes in one crossing. A value that
// the driver does not know is -1, with its own code in results. The slices are
// of one length.
func (d *Driver) DeviceGetAttributes(dev Device, attrs []DeviceAttribute, values []int32, results []Result) Result {
	n := len(attrs)
	if len(values) != n || len(results) != n {
		return ErrorInvalidValue
	}
	if n == 0 {
		return Success
	}
	// SAFETY: slices of 32-bit words of n elements, lent for the call.
	return Result(C.ho_device_attributes(d.t, C.ho_device(dev), (*C.int)(unsafe.Pointer(&attrs[0])),
		(*C.int)(unsafe.Pointer(&values[0])), (*C.ho_result)(unsafe.Pointer(&results[0])), C.int(n)))
}

// StreamDevice returns the device and the context of a stream, with any
// driver. For a default stream they are those of ctx.
func (d *Driver) StreamDevice(ctx ContextHandle, stream StreamHandle) (Device, ContextHandle, Result) {
	r := C.ho_stream_device(d.t, C.ho_context(ctx), C.ho_stream(stream))
	return Device(int64(r.a)), ContextHandle(r.b), Result(r.st)
}

// CaptureInfo returns the capture state of a stream and copies the nodes that
// the next one will depend on into deps, as many as fit.
func (d *Driver) CaptureInfo(ctx ContextHandle, stream StreamHandle, deps []GraphNodeHandle) (CaptureInfo, Result) {
	// SAFETY: a slice of plain words, lent for the call.
	r := C.ho_capture_info(d.t, C.ho_context(ctx), C.ho_stream(stream),
		(*C.ho_graph_node)(unsafe.Pointer(unsafe.SliceData(deps))), C.size_t(len(deps)))
	return CaptureInfo{Status: int32(r.status), ID: uint64(r.id), Graph: GraphHandle(r.graph), Deps: int(r.n)}, Result(r.st)
}

// StreamPoll is [Driver.StreamQuery] without harm to a capture: a stream that
// captures is not asked, and gives [ErrorStreamCaptureUnsupported].
func (d *Driver) StreamPoll(ctx ContextHandle, stream StreamHandle) Result {
	return Result(C.ho_stream_poll(d.t, C.ho_context(ctx), C.ho_stream(stream)))
}

// Aim readies a call to this driver: see [LaunchCall]. With lazy a created
// stream tells the context, and none is made current unless the driver wants
// one; that is for kernels (CUkernel), which belong to no context, and for
// functions of the stream's.
func (d *Driver) Aim(c *LaunchCall, lazy bool) {
	c.Table, c.Entry = uintptr(unsafe.Pointer(d.t)), 0
	if lazy && c.Config.Stream > PerThreadStream {
		c.Entry = uintptr(d.t.entries[C.HO_ENTRY_cuLaunchKernelEx])
	}
}

// Launch makes the call.
func (c *LaunchCall) Launch() Result {
	// SAFETY: C memory, see LaunchCall.
	C.ho_launch(C.ho_word(uintptr(unsafe.Pointer(c))))
	return c.res
}

// MemcpyHtoDBytes copies Go memory to the device; when it returns src may be
// changed. It works on the legacy default stream and is not ordered with
// non-blocking streams.
func (d *Driver) MemcpyHtoDBytes(ctx ContextHandle, dst DevicePtr, src []byte) Result {
	// SAFETY: Go memory, lent for the call; the driver has staged it on return.
	return Result(C.ho_copy_in(d.t, C.ho_context(ctx), C.ho_devptr(dst), unsafe.Pointer(unsafe.SliceData(src)), C.size_t(len(src))))
}

// MemcpyDtoHBytes copies device memory to Go memory and waits for the copy. It
// works on the legacy default stream and is not ordered with non-blocking
// streams.
func (d *Driver) MemcpyDtoHBytes(ctx ContextHandle, dst []byte, src DevicePtr) Result {
	// SAFETY: Go memory, lent for the call, which waits for the copy.
	return Result(C.ho_copy_out(d.t, C.ho_context(ctx), unsafe.Pointer(unsafe.SliceData(dst)), C.ho_devptr(src), C.size_t(len(dst))))
}

func hostTrampolines() (once, many HostFunc) {
	return HostFunc(C.ho_host_once()), HostFunc(C.ho_host_many())
}
