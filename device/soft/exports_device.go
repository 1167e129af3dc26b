//go:build cgo && linux

package soft

// #include "soft.h"
import "C"

import (
	"strconv"
	"sync"
	"unsafe"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft/internal/engine"
)

// This file has the entry points for versions, errors, devices and contexts. Like its
// neighbours it only turns arguments into Go and back; the rules are in package engine.
// The functions have the names and the types of the table in entries.h.

type (
	eng  = engine.Engine
	thr  = engine.Thread
	code = engine.Code
)

const invalid = engine.InvalidValue

// cstrings are C strings that live as long as the process, by content: names of errors and
// kernels.
var cstrings sync.Map

func cstring(s string) *C.char {
	if p, ok := cstrings.Load(s); ok {
		return p.(*C.char)
	}
	p, loaded := cstrings.LoadOrStore(s, C.CString(s))
	_ = loaded // a second copy made in a race is a few lost bytes
	return p.(*C.char)
}

//export ho_soft_cuInit
func ho_soft_cuInit(flags C.uint32_t) C.ho_result {
	return early("cuInit", func(e *eng) code { return e.Init(uint32(flags)) })
}

//export ho_soft_cuDriverGetVersion
func ho_soft_cuDriverGetVersion(out *C.int) C.ho_result {
	return early("cuDriverGetVersion", func(e *eng) code {
		if out == nil {
			return invalid
		}
		*out = C.int(e.DriverVersion())
		return engine.Success
	})
}

//export ho_soft_cuGetErrorString
func ho_soft_cuGetErrorString(c C.int, out **C.char) C.ho_result {
	return early("cuGetErrorString", func(*eng) code {
		t := code(c).Text()
		if t == "" && errorName(code(c)) != "" {
			t = driver.Result(c).Message()
		}
		return text(t, out)
	})
}

//export ho_soft_cuGetErrorName
func ho_soft_cuGetErrorName(c C.int, out **C.char) C.ho_result {
	return early("cuGetErrorName", func(*eng) code { return text(errorName(code(c)), out) })
}

// errorName also knows the codes that only an injected fault gives; "" for what is no code.
func errorName(c code) string {
	if name := c.Name(); name != "" || c < 0 {
		return name
	}
	if name := driver.Result(c).Name(); name != "CUDA_ERROR_"+strconv.Itoa(int(c)) {
		return name
	}
	return ""
}

func text(s string, out **C.char) code {
	if out == nil {
		return invalid
	}
	if s == "" {
		*out = nil
		return invalid
	}
	*out = cstring(s)
	return engine.Success
}

// copyText copies s with its zero byte to a C buffer of n bytes, cut to fit.
func copyText(dst *C.char, n C.int, s string) code {
	if dst == nil || n <= 0 {
		return invalid
	}
	// SAFETY: the caller says that dst has n bytes.
	b := unsafe.Slice((*byte)(unsafe.Pointer(dst)), int(n))
	k := copy(b[:n-1], s)
	b[k] = 0
	return engine.Success
}

//export ho_soft_cuDeviceGet
func ho_soft_cuDeviceGet(out *C.ho_device, ordinal C.int) C.ho_result {
	return call("cuDeviceGet", func(e *eng, _ *thr) code {
		if out == nil {
			return invalid
		}
		if ordinal < 0 || int(ordinal) >= e.DeviceCount() {
			return engine.InvalidDevice
		}
		*out = C.ho_device(ordinal)
		return engine.Success
	})
}

//export ho_soft_cuDeviceGetCount
func ho_soft_cuDeviceGetCount(out *C.int) C.ho_result {
	return call("cuDeviceGetCount", func(e *eng, _ *thr) code {
		if out == nil {
			return invalid
		}
		*out = C.int(e.DeviceCount())
		return engine.Success
	})
}

//export ho_soft_cuDeviceGetName
func ho_soft_cuDeviceGetName(dst *C.char, n C.int, dev C.ho_device) C.ho_result {
	return call("cuDeviceGetName", func(e *eng, _ *thr) code {
		s, c := e.DeviceName(int(dev))
		if c != 0 {
			return c
		}
		return copyText(dst, n, s)
	})
}

//export ho_soft_cuDeviceGetUuid
func ho_soft_cuDeviceGetUuid(out *C.ho_uuid, dev C.ho_device) C.ho_result {
	return call("cuDeviceGetUuid", func(e *eng, _ *thr) code {
		u, c := e.DeviceUUID(int(dev))
		if c == 0 && out == nil {
			return invalid
		}
		if c == 0 {
			for i, b := range u {
				out.bytes[i] = C.uint8_t(b)
			}
		}
		return c
	})
}

//export ho_soft_cuDeviceTotalMem
func ho_soft_cuDeviceTotalMem(out *C.size_t, dev C.ho_device) C.ho_result {
	return call("cuDeviceTotalMem", func(e *eng, _ *thr) code {
		v, c := e.DeviceTotalMem(int(dev))
		return put(out, C.size_t(v), c)
	})
}

// put stores a result where there is a place for it.
func put[T any](out *T, v T, c code) code {
	if c != engine.Success {
		return c
	}
	if out == nil {
		return invalid
	}
	*out = v
	return engine.Success
}

//export ho_soft_cuDeviceGetAttribute
func ho_soft_cuDeviceGetAttribute(out *C.int, attr C.int, dev C.ho_device) C.ho_result {
	return call("cuDeviceGetAttribute", func(e *eng, _ *thr) code {
		v, c := e.DeviceAttribute(int32(attr), int(dev))
		return put(out, C.int(v), c)
	})
}

//export ho_soft_cuDeviceGetByPCIBusId
func ho_soft_cuDeviceGetByPCIBusId(out *C.ho_device, id *C.char) C.ho_result {
	return call("cuDeviceGetByPCIBusId", func(e *eng, _ *thr) code {
		if id == nil {
			return invalid
		}
		d, c := e.DeviceByPCIBusID(C.GoString(id))
		return put(out, C.ho_device(d), c)
	})
}

//export ho_soft_cuDeviceGetPCIBusId
func ho_soft_cuDeviceGetPCIBusId(dst *C.char, n C.int, dev C.ho_device) C.ho_result {
	return call("cuDeviceGetPCIBusId", func(e *eng, _ *thr) code {
		s, c := e.DevicePCIBusID(int(dev))
		if c != 0 {
			return c
		}
		return copyText(dst, n, s)
	})
}

//export ho_soft_cuDeviceCanAccessPeer
func ho_soft_cuDeviceCanAccessPeer(out *C.int, dev, peer C.ho_device) C.ho_result {
	return call("cuDeviceCanAccessPeer", func(e *eng, _ *thr) code {
		ok, c := e.CanAccessPeer(int(dev), int(peer))
		return put(out, cbool(ok), c)
	})
}

func cbool(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

//export ho_soft_cuDeviceGetP2PAttribute
func ho_soft_cuDeviceGetP2PAttribute(out *C.int, attr C.int, dev, peer C.ho_device) C.ho_result {
	return call("cuDeviceGetP2PAttribute", func(e *eng, _ *thr) code {
		v, c := e.P2PAttribute(int32(attr), int(dev), int(peer))
		return put(out, C.int(v), c)
	})
}

//export ho_soft_cuDeviceGetDefaultMemPool
func ho_soft_cuDeviceGetDefaultMemPool(out *C.ho_mem_pool, dev C.ho_device) C.ho_result {
	return call("cuDeviceGetDefaultMemPool", func(e *eng, _ *thr) code {
		h, c := e.DefaultPool(int(dev))
		return put(out, C.ho_mem_pool(h), c)
	})
}

//export ho_soft_cuDeviceGetMemPool
func ho_soft_cuDeviceGetMemPool(out *C.ho_mem_pool, dev C.ho_device) C.ho_result {
	return call("cuDeviceGetMemPool", func(e *eng, _ *thr) code {
		h, c := e.DevicePool(int(dev))
		return put(out, C.ho_mem_pool(h), c)
	})
}

//export ho_soft_cuDeviceSetMemPool
func ho_soft_cuDeviceSetMemPool(dev C.ho_device, pool C.ho_mem_pool) C.ho_result {
	return call("cuDeviceSetMemPool", func(e *eng, _ *thr) code { return e.SetDevicePool(int(dev), engine.Handle(pool)) })
}

//export ho_soft_cuDevicePrimaryCtxRetain
func ho_soft_cuDevicePrimaryCtxRetain(out *C.ho_context, dev C.ho_device) C.ho_result {
	return call("cuDevicePrimaryCtxRetain", func(e *eng, _ *thr) code {
		if out == nil {
			return invalid
		}
		h, c := e.PrimaryRetain(int(dev))
		return put(out, C.ho_context(h), c)
	})
}

//export ho_soft_cuDevicePrimaryCtxRelease
func ho_soft_cuDevicePrimaryCtxRelease(dev C.ho_device) C.ho_result {
	return call("cuDevicePrimaryCtxRelease", func(e *eng, _ *thr) code { return e.PrimaryRelease(int(dev)) })
}

//export ho_soft_cuDevicePrimaryCtxGetState
func ho_soft_cuDevicePrimaryCtxGetState(dev C.ho_device, flags *C.uint32_t, active *C.int) C.ho_result {
	return call("cuDevicePrimaryCtxGetState", func(e *eng, _ *thr) code {
		f, a, c := e.PrimaryState(int(dev))
		if flags == nil || active == nil {
			return invalid
		}
		if c == 0 {
			*flags, *active = C.uint32_t(f), cbool(a)
		}
		return c
	})
}

//export ho_soft_cuDevicePrimaryCtxSetFlags
func ho_soft_cuDevicePrimaryCtxSetFlags(dev C.ho_device, flags C.uint32_t) C.ho_result {
	return call("cuDevicePrimaryCtxSetFlags", func(e *eng, _ *thr) code { return e.PrimarySetFlags(int(dev), uint32(flags)) })
}

//export ho_soft_cuDevicePrimaryCtxReset
func ho_soft_cuDevicePrimaryCtxReset(dev C.ho_device) C.ho_result {
	return call("cuDevicePrimaryCtxReset", func(e *eng, _ *thr) code { return e.PrimaryReset(int(dev)) })
}

//export ho_soft_cuDeviceGetGraphMemAttribute
func ho_soft_cuDeviceGetGraphMemAttribute(dev C.ho_device, attr C.int, out unsafe.Pointer) C.ho_result {
	return call("cuDeviceGetGraphMemAttribute", func(e *eng, _ *thr) code {
		v, c := e.GraphMem(int(dev), int32(attr))
		return put((*C.uint64_t)(out), C.uint64_t(v), c)
	})
}

//export ho_soft_cuDeviceSetGraphMemAttribute
func ho_soft_cuDeviceSetGraphMemAttribute(dev C.ho_device, attr C.int, in unsafe.Pointer) C.ho_result {
	return call("cuDeviceSetGraphMemAttribute", func(e *eng, _ *thr) code {
		if in == nil {
			return invalid
		}
		return e.SetGraphMem(int(dev), int32(attr), uint64(*(*C.uint64_t)(in)))
	})
}

//export ho_soft_cuDeviceGraphMemTrim
func ho_soft_cuDeviceGraphMemTrim(dev C.ho_device) C.ho_result {
	return call("cuDeviceGraphMemTrim", func(e *eng, _ *thr) code { return e.GraphMemTrim(int(dev)) })
}

//export ho_soft_cuFlushGPUDirectRDMAWrites
func ho_soft_cuFlushGPUDirectRDMAWrites(_1, _2 C.int) C.ho_result {
	return unsupported("cuFlushGPUDirectRDMAWrites")
}

//export ho_soft_cuCtxCreate
func ho_soft_cuCtxCreate(out *C.ho_context, flags C.uint32_t, dev C.ho_device) C.ho_result {
	return call("cuCtxCreate", func(e *eng, t *thr) code {
		if out == nil {
			return invalid
		}
		h, c := e.CtxCreate(t, uint32(flags), int(dev))
		return put(out, C.ho_context(h), c)
	})
}

//export ho_soft_cuCtxDestroy
func ho_soft_cuCtxDestroy(ctx C.ho_context) C.ho_result {
	return call("cuCtxDestroy", func(e *eng, t *thr) code { return e.CtxDestroy(t, engine.Handle(ctx)) })
}

//export ho_soft_cuCtxPushCurrent
func ho_soft_cuCtxPushCurrent(ctx C.ho_context) C.ho_result {
	return call("cuCtxPushCurrent", func(e *eng, t *thr) code { return e.CtxPush(t, engine.Handle(ctx)) })
}

//export ho_soft_cuCtxPopCurrent
func ho_soft_cuCtxPopCurrent(out *C.ho_context) C.ho_result {
	return call("cuCtxPopCurrent", func(e *eng, t *thr) code {
		h, c := e.CtxPop(t)
		if c == 0 && out != nil {
			*out = C.ho_context(h)
		}
		return c
	})
}

//export ho_soft_cuCtxSetCurrent
func ho_soft_cuCtxSetCurrent(ctx C.ho_context) C.ho_result {
	return call("cuCtxSetCurrent", func(e *eng, t *thr) code { return e.CtxSet(t, engine.Handle(ctx)) })
}

//export ho_soft_cuCtxGetCurrent
func ho_soft_cuCtxGetCurrent(out *C.ho_context) C.ho_result {
	return call("cuCtxGetCurrent", func(e *eng, t *thr) code {
		h, c := e.CtxGet(t)
		return put(out, C.ho_context(h), c)
	})
}

//export ho_soft_cuCtxGetDevice
func ho_soft_cuCtxGetDevice(out *C.ho_device) C.ho_result {
	return call("cuCtxGetDevice", func(e *eng, t *thr) code {
		d, c := e.CtxDevice(t)
		return put(out, C.ho_device(d), c)
	})
}

//export ho_soft_cuCtxSynchronize
func ho_soft_cuCtxSynchronize() C.ho_result {
	return call("cuCtxSynchronize", func(e *eng, t *thr) code { return e.CtxSynchronize(t) })
}

//export ho_soft_cuCtxGetFlags
func ho_soft_cuCtxGetFlags(out *C.uint32_t) C.ho_result {
	return call("cuCtxGetFlags", func(e *eng, t *thr) code {
		f, c := e.CtxFlags(t)
		return put(out, C.uint32_t(f), c)
	})
}

//export ho_soft_cuCtxSetFlags
func ho_soft_cuCtxSetFlags(flags C.uint32_t) C.ho_result {
	return call("cuCtxSetFlags", func(e *eng, t *thr) code { return e.CtxSetFlags(t, uint32(flags)) })
}

//export ho_soft_cuCtxGetId
func ho_soft_cuCtxGetId(ctx C.ho_context, out *C.uint64_t) C.ho_result {
	return call("cuCtxGetId", func(e *eng, t *thr) code {
		v, c := e.CtxID(t, engine.Handle(ctx))
		return put(out, C.uint64_t(v), c)
	})
}

//export ho_soft_cuCtxGetApiVersion
func ho_soft_cuCtxGetApiVersion(ctx C.ho_context, out *C.uint32_t) C.ho_result {
	return call("cuCtxGetApiVersion", func(e *eng, t *thr) code {
		v, c := e.CtxAPIVersion(t, engine.Handle(ctx))
		return put(out, C.uint32_t(v), c)
	})
}

//export ho_soft_cuCtxGetStreamPriorityRange
func ho_soft_cuCtxGetStreamPriorityRange(least, greatest *C.int) C.ho_result {
	return call("cuCtxGetStreamPriorityRange", func(e *eng, t *thr) code {
		l, g, c := e.CtxPriorityRange(t)
		if c != 0 {
			return c
		}
		if least != nil {
			*least = C.int(l)
		}
		if greatest != nil {
			*greatest = C.int(g)
		}
		return engine.Success
	})
}

//export ho_soft_cuCtxGetLimit
func ho_soft_cuCtxGetLimit(out *C.size_t, limit C.int) C.ho_result {
	return call("cuCtxGetLimit", func(e *eng, t *thr) code {
		v, c := e.CtxLimit(t, int32(limit))
		return put(out, C.size_t(v), c)
	})
}

//export ho_soft_cuCtxSetLimit
func ho_soft_cuCtxSetLimit(limit C.int, v C.size_t) C.ho_result {
	return call("cuCtxSetLimit", func(e *eng, t *thr) code { return e.CtxSetLimit(t, int32(limit), uint64(v)) })
}

//export ho_soft_cuCtxGetCacheConfig
func ho_soft_cuCtxGetCacheConfig(out *C.int) C.ho_result {
	return call("cuCtxGetCacheConfig", func(e *eng, t *thr) code {
		v, c := e.CtxCacheConfig(t)
		return put(out, C.int(v), c)
	})
}

//export ho_soft_cuCtxSetCacheConfig
func ho_soft_cuCtxSetCacheConfig(v C.int) C.ho_result {
	return call("cuCtxSetCacheConfig", func(e *eng, t *thr) code { return e.CtxSetCacheConfig(t, int32(v)) })
}

//export ho_soft_cuCtxEnablePeerAccess
func ho_soft_cuCtxEnablePeerAccess(peer C.ho_context, flags C.uint32_t) C.ho_result {
	return call("cuCtxEnablePeerAccess", func(e *eng, t *thr) code {
		return e.EnablePeer(t, engine.Handle(peer), uint32(flags))
	})
}

//export ho_soft_cuCtxDisablePeerAccess
func ho_soft_cuCtxDisablePeerAccess(peer C.ho_context) C.ho_result {
	return call("cuCtxDisablePeerAccess", func(e *eng, t *thr) code { return e.DisablePeer(t, engine.Handle(peer)) })
}

//export ho_soft_cuProfilerStart
func ho_soft_cuProfilerStart() C.ho_result {
	return call("cuProfilerStart", func(*eng, *thr) code { return engine.Success })
}

//export ho_soft_cuProfilerStop
func ho_soft_cuProfilerStop() C.ho_result {
	return call("cuProfilerStop", func(*eng, *thr) code { return engine.Success })
}
