//go:build cgo && linux && (amd64 || arm64)

package python

// #include <stdlib.h>
// #include "gpuabi.h"
// typedef const char cchar_t;
import "C"

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"unsafe"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/internal/cptr"
	"github.com/go-handoff/handoff/stream"
)

func init() { C.ho_go_gpu_hooks() }

// The functions that the GPU side's C code calls, without the GIL. A panic
// becomes a fault: nothing unwinds into C (B179).

// caught is deferred by every function here. err is the function's error.
func caught(f *C.ho_gpu_fault, err *error) {
	x := faultOf(*err)
	if p := recover(); p != nil {
		x = fault{kind: faultPanic, text: fmt.Sprintf("panic: %v\n\n%s", p, debug.Stack())}
	}
	f.kind, f.code, f.rule, f.text = C.int(x.kind), C.int(x.code), C.int(x.rule), nil
	if x.kind != faultNone {
		f.text = C.CString(x.text)
	}
}

func (m made) write(to *C.ho_gpu_made) {
	to.key, to.handle, to.ctx = C.uint64_t(m.key), C.uint64_t(m.handle), C.uint64_t(m.ctx)
	to.device_type, to.device_id, to.ordinal = C.int32_t(m.device.Type), C.int32_t(m.device.ID), C.int32_t(m.ordinal)
}

//export hoGPUOpen
func hoGPUOpen(environment *C.cchar_t, f *C.ho_gpu_fault) C.uintptr_t {
	var err error
	defer caught(f, &err)
	// SAFETY: C strings, one after another, up to an empty one.
	for p := unsafe.Pointer(environment); ; {
		entry := C.GoString((*C.char)(p))
		name, value, _ := strings.Cut(entry, "=")
		if name == "" {
			break
		}
		if os.Getenv(name) != value {
			_ = os.Setenv(name, value) // cannot fail: it is a name and a value of the environment
		}
		p = unsafe.Add(p, len(entry)+1)
	}
	var native uintptr
	native, err = gpuOpen()
	return C.uintptr_t(native)
}

//export hoGPUCount
func hoGPUCount(f *C.ho_gpu_fault) C.int {
	var err error
	defer caught(f, &err)
	var n int
	n, err = gpuCount()
	return C.int(n)
}

//export hoGPUContext
func hoGPUContext(dev C.int, f *C.ho_gpu_fault) C.uint64_t {
	var err error
	defer caught(f, &err)
	var ctx uint64
	ctx, err = gpuContext(int(dev))
	return C.uint64_t(ctx)
}

//export hoGPUText
func hoGPUText(dev, what C.int, f *C.ho_gpu_fault) *C.char {
	var err error
	defer caught(f, &err)
	var text string
	if text, err = gpuText(int(dev), int(what)); err != nil {
		return nil
	}
	return C.CString(text)
}

//export hoGPUMemory
func hoGPUMemory(dev C.int, free, total *C.uint64_t, f *C.ho_gpu_fault) {
	var err error
	defer caught(f, &err)
	var a, b uint64
	a, b, err = gpuMemory(int(dev))
	*free, *total = C.uint64_t(a), C.uint64_t(b)
}

//export hoGPUCanAccess
func hoGPUCanAccess(dev, peer C.int, f *C.ho_gpu_fault) (can C.int) {
	var err error
	defer caught(f, &err)
	var ok bool
	if ok, err = gpuCanAccess(int(dev), int(peer)); ok {
		can = 1
	}
	return can
}

//export hoGPUSyncDevice
func hoGPUSyncDevice(dev C.int, f *C.ho_gpu_fault) {
	var err error
	defer caught(f, &err)
	err = gpuSyncDevice(int(dev))
}

//export hoGPUStreamNew
func hoGPUStreamNew(dev, blocking, priority C.int, to *C.ho_gpu_made, f *C.ho_gpu_fault) {
	var err error
	defer caught(f, &err)
	var m made
	m, err = gpuStreamNew(int(dev), blocking != 0, int(priority))
	m.write(to)
}

//export hoGPUEventNew
func hoGPUEventNew(ctx C.uint64_t, timing, blocking, shared C.int, to *C.ho_gpu_made, f *C.ho_gpu_fault) {
	var err error
	defer caught(f, &err)
	var m made
	m, err = gpuEventNew(uint64(ctx), &device.EventOptions{Timing: timing != 0, BlockingSync: blocking != 0, Interprocess: shared != 0})
	m.write(to)
}

//export hoGPUEventOpen
func hoGPUEventOpen(ctx C.uint64_t, ipc C.uintptr_t, to *C.ho_gpu_made, f *C.ho_gpu_fault) {
	var err error
	defer caught(f, &err)
	var m made
	m, err = gpuEventOpen(uint64(ctx), driver.IPCEventHandle(cptr.Slice[byte](uintptr(ipc), C.HO_IPC_EVENT)))
	m.write(to)
}

//export hoGPUSourceNew
func hoGPUSourceNew(dev, kind, own C.int, size C.uint64_t, where, node C.int32_t, to *C.ho_gpu_made, f *C.ho_gpu_fault) {
	var err error
	defer caught(f, &err)
	var m made
	m, err = gpuSourceNew(int(dev), int(kind), own != 0, uint64(size), int32(where), int32(node))
	m.write(to)
}

//export hoGPUPoolAttribute
func hoGPUPoolAttribute(key C.uint64_t, attr C.int32_t, f *C.ho_gpu_fault) C.uint64_t {
	var err error
	defer caught(f, &err)
	var v uint64
	v, err = gpuPoolAttribute(uint64(key), int32(attr))
	return C.uint64_t(v)
}

//export hoGPUPoolPeer
func hoGPUPoolPeer(key C.uint64_t, peer, can C.int, f *C.ho_gpu_fault) (has C.int) {
	var err error
	defer caught(f, &err)
	var ok bool
	if ok, err = gpuPoolPeer(uint64(key), int(peer), int(can)); ok {
		has = 1
	}
	return has
}

//export hoGPUBufferNew
func hoGPUBufferNew(dev, kind C.int, from C.uint64_t, size C.int64_t, s, ctx C.uint64_t, to *C.ho_gpu_made, f *C.ho_gpu_fault) {
	var err error
	defer caught(f, &err)
	var m made
	m, err = gpuBufferNew(int(dev), int(kind), uint64(from), int64(size), uint64(s), uint64(ctx))
	m.write(to)
}

//export hoGPUBufferAdopt
func hoGPUBufferAdopt(dev, kind C.int, from, ptr C.uint64_t, size C.int64_t, s, ctx C.uint64_t, to *C.ho_gpu_made, f *C.ho_gpu_fault) {
	var err error
	defer caught(f, &err)
	var m made
	m, err = gpuBufferAdopt(int(dev), int(kind), uint64(from), uint64(ptr), int64(size), uint64(s), uint64(ctx))
	m.write(to)
}

//export hoGPUMemoryCheck
func hoGPUMemoryCheck(dev, kind C.int, from, ptr C.uint64_t, size C.int64_t, f *C.ho_gpu_fault) {
	var err error
	defer caught(f, &err)
	err = gpuMemoryCheck(int(dev), int(kind), uint64(from), uint64(ptr), int64(size))
}

//export hoGPUMemoryFree
func hoGPUMemoryFree(dev, kind C.int, from, ptr C.uint64_t, size C.int64_t, s, ctx C.uint64_t, f *C.ho_gpu_fault) {
	var err error
	defer caught(f, &err)
	err = gpuMemoryFree(int(dev), int(kind), uint64(from), uint64(ptr), int64(size), uint64(s), uint64(ctx))
}

//export hoGPUBufferWrap
func hoGPUBufferWrap(ptr C.uint64_t, size C.int64_t, to *C.ho_gpu_made, f *C.ho_gpu_fault) {
	var err error
	defer caught(f, &err)
	var m made
	m, err = gpuBufferWrap(uint64(ptr), int64(size))
	m.write(to)
}

//export hoGPUBufferUsed
func hoGPUBufferUsed(key C.uint64_t, set C.int, s, ctx C.uint64_t, f *C.ho_gpu_fault) {
	var err error
	defer caught(f, &err)
	err = gpuBufferUsed(uint64(key), set != 0, uint64(s), uint64(ctx))
}

//export hoGPUBufferFill
func hoGPUBufferFill(key C.uint64_t, width C.int, value C.uint32_t, s, ctx C.uint64_t, f *C.ho_gpu_fault) {
	var err error
	defer caught(f, &err)
	err = gpuBufferFill(uint64(key), int(width), uint32(value), uint64(s), uint64(ctx))
}

//export hoGPUClose
func hoGPUClose(key C.uint64_t, f *C.ho_gpu_fault) {
	var err error
	defer caught(f, &err)
	err = gpuClose(uint64(key))
}

//export hoGPUCopy
func hoGPUCopy(c *C.ho_gpu_copy, f *C.ho_gpu_fault) {
	var err error
	defer caught(f, &err)
	err = gpuCopy(uintptr(c.dst), uintptr(c.src), ownerRef(c.dst_owner), ownerRef(c.src_owner),
		uint64(c.stream), uint64(c.ctx), c.padded != 0, c.wait != 0)
}

//export hoGPUReleaseLater
func hoGPUReleaseLater(owner C.uintptr_t, s, ctx C.uint64_t, f *C.ho_gpu_fault) {
	var err error
	defer caught(f, &err)
	var v stream.StreamView
	if v, err = gpuStream(uint64(s), uint64(ctx)); err == nil {
		err = gpuReleaseLater(v, ownerRef(owner))
	}
}

//export hoGPUGate
func hoGPUGate(s, ctx C.uint64_t, f *C.ho_gpu_fault) C.uint64_t {
	var err error
	defer caught(f, &err)
	var key uint64
	key, err = gpuGate(uint64(s), uint64(ctx))
	return C.uint64_t(key)
}

//export hoGPUFlush
func hoGPUFlush(f *C.ho_gpu_fault) {
	var err error
	defer caught(f, &err)
	err = gpuFlush()
}

//export hoGPUInject
func hoGPUInject(faults *C.char, f *C.ho_gpu_fault) *C.char {
	var err error
	defer caught(f, &err)
	var did string
	if did, err = gpuInject(C.GoString(faults)); err != nil {
		return nil
	}
	return C.CString(did)
}

// ownerRef is a reference on an owner in C.
type ownerRef uintptr

func (o ownerRef) drop() {
	if o != 0 {
		C.ho_gpu_owner_unref(C.uintptr_t(o))
	}
}
