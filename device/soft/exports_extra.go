//go:build cgo && linux

package soft

// #include "soft.h"
// #include "extra.h"
import "C"

import (
	"unsafe"

	"github.com/go-handoff/handoff/device/soft/internal/engine"
)

// This file has the entry points of extra.h, which other libraries call.

//export ho_soft_cuCtxCreate_v3
func ho_soft_cuCtxCreate_v3(out *C.ho_context, affinity C.ho_word, n C.int, flags C.uint32_t, dev C.ho_device) C.ho_result {
	if n != 0 {
		return unsupported("cuCtxCreate")
	}
	return ho_soft_cuCtxCreate(out, flags, dev)
}

//export ho_soft_cuCtxCreate_v4
func ho_soft_cuCtxCreate_v4(out *C.ho_context, p *C.ho_ctx_create_params, flags C.uint32_t, dev C.ho_device) C.ho_result {
	if p != nil && (p.num_exec_affinity != 0 || p.cig != 0) {
		return unsupported("cuCtxCreate")
	}
	return ho_soft_cuCtxCreate(out, flags, dev)
}

// within does a call with a context current and puts back what was.
func within(api string, ctx C.ho_context, f func(e *eng, t *thr) code) C.ho_result {
	return call(api, func(e *eng, t *thr) code {
		if ctx == 0 {
			return f(e, t)
		}
		if c := e.CtxPush(t, engine.Handle(ctx)); c != 0 {
			return c
		}
		c := f(e, t)
		_, _ = e.CtxPop(t)
		return c
	})
}

//export ho_soft_cuCtxGetDevice_v2
func ho_soft_cuCtxGetDevice_v2(out *C.ho_device, ctx C.ho_context) C.ho_result {
	return within("cuCtxGetDevice", ctx, func(e *eng, t *thr) code {
		d, c := e.CtxDevice(t)
		return put(out, C.ho_device(d), c)
	})
}

//export ho_soft_cuCtxSynchronize_v2
func ho_soft_cuCtxSynchronize_v2(ctx C.ho_context) C.ho_result {
	return within("cuCtxSynchronize", ctx, func(e *eng, t *thr) code { return e.CtxSynchronize(t) })
}

//export ho_soft_cuCtxRecordEvent
func ho_soft_cuCtxRecordEvent(_1 C.ho_context, _2 C.ho_event) C.ho_result {
	return unsupported("cuCtxRecordEvent")
}

//export ho_soft_cuCtxWaitEvent
func ho_soft_cuCtxWaitEvent(_1 C.ho_context, _2 C.ho_event) C.ho_result {
	return unsupported("cuCtxWaitEvent")
}

//export ho_soft_cuCtxResetPersistingL2Cache
func ho_soft_cuCtxResetPersistingL2Cache() C.ho_result {
	return call("cuCtxResetPersistingL2Cache", func(*eng, *thr) code { return engine.Success })
}

//export ho_soft_cuDeviceComputeCapability
func ho_soft_cuDeviceComputeCapability(major, minor *C.int, dev C.ho_device) C.ho_result {
	return call("cuDeviceComputeCapability", func(e *eng, _ *thr) code {
		a, c := e.DeviceAttribute(C.HO_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, int(dev))
		if c := put(major, C.int(a), c); c != 0 {
			return c
		}
		b, c := e.DeviceAttribute(C.HO_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, int(dev))
		return put(minor, C.int(b), c)
	})
}

//export ho_soft_cuDeviceGetExecAffinitySupport
func ho_soft_cuDeviceGetExecAffinitySupport(out *C.int, kind C.int, dev C.ho_device) C.ho_result {
	return call("cuDeviceGetExecAffinitySupport", func(e *eng, _ *thr) code {
		_, c := e.DeviceName(int(dev))
		return put(out, 0, c)
	})
}

//export ho_soft_cuGraphInstantiateWithFlags
func ho_soft_cuGraphInstantiateWithFlags(out *C.ho_graph_exec, g C.ho_graph, flags C.uint64_t) C.ho_result {
	return call("cuGraphInstantiateWithFlags", func(e *eng, _ *thr) code {
		if out == nil {
			return invalid
		}
		h, _, _, c := e.Instantiate(engine.Handle(g), uint64(flags))
		return put(out, C.ho_graph_exec(h), c)
	})
}

//export ho_soft_cuStreamBatchMemOp
func ho_soft_cuStreamBatchMemOp(s C.ho_stream, n C.uint32_t, ops *C.ho_mem_op, flags C.uint32_t) C.ho_result {
	return call("cuStreamBatchMemOp", func(e *eng, t *thr) code {
		if ops == nil || n == 0 || n > 256 || flags != 0 {
			return invalid
		}
		l := make([]engine.MemOp, n)
		// SAFETY: the caller says that the array has n elements.
		for i, o := range unsafe.Slice(ops, int(n)) {
			l[i] = engine.MemOp{Kind: int32(o.kind), Addr: uint64(o.addr), Value: uint64(o.value), Flags: uint32(o.flags)}
		}
		return e.MemOps(t, engine.Handle(s), l)
	})
}

//export ho_soft_cuMemGetDefaultMemPool
func ho_soft_cuMemGetDefaultMemPool(out *C.ho_mem_pool, loc *C.ho_mem_location, typ C.int) C.ho_result {
	return locationPool("cuMemGetDefaultMemPool", out, loc, typ, true)
}

//export ho_soft_cuMemGetMemPool
func ho_soft_cuMemGetMemPool(out *C.ho_mem_pool, loc *C.ho_mem_location, typ C.int) C.ho_result {
	return locationPool("cuMemGetMemPool", out, loc, typ, false)
}

func locationPool(api string, out *C.ho_mem_pool, loc *C.ho_mem_location, typ C.int, def bool) C.ho_result {
	return call(api, func(e *eng, _ *thr) code {
		if loc == nil {
			return invalid
		}
		h, c := e.LocationPool(int32(typ), int32(loc._type), int32(loc.id), def)
		return put(out, C.ho_mem_pool(h), c)
	})
}

//export ho_soft_cuMemSetMemPool
func ho_soft_cuMemSetMemPool(loc *C.ho_mem_location, typ C.int, pool C.ho_mem_pool) C.ho_result {
	return call("cuMemSetMemPool", func(e *eng, _ *thr) code {
		if loc == nil {
			return invalid
		}
		return e.SetLocationPool(int32(typ), int32(loc._type), int32(loc.id), engine.Handle(pool))
	})
}

//export ho_soft_cuMemcpyBatchAsync
func ho_soft_cuMemcpyBatchAsync(dst, src *C.ho_devptr, sizes *C.size_t, n C.size_t, attrs *C.ho_memcpy_attributes, idx *C.size_t, nattrs C.size_t, s C.ho_stream) C.ho_result {
	return call("cuMemcpyBatchAsync", func(e *eng, t *thr) code {
		if dst == nil || src == nil || sizes == nil || n == 0 || n > 1<<20 || attrs == nil || idx == nil || nattrs == 0 || s == 0 || s == C.HO_STREAM_LEGACY {
			return invalid
		}
		// SAFETY: the caller says that the arrays have n elements.
		ds, ss, ns := unsafe.Slice(dst, int(n)), unsafe.Slice(src, int(n)), unsafe.Slice(sizes, int(n))
		for i := range ds {
			c := e.MemcpyAsync(t, engine.Linear(uint64(ds[i]), engine.TypeUnified, uint64(ss[i]), engine.TypeUnified, uint64(ns[i])), engine.Handle(s))
			if c != 0 {
				return c
			}
		}
		return engine.Success
	})
}

func paramCount(api string, h engine.Handle, out *C.size_t) C.ho_result {
	return call(api, func(e *eng, _ *thr) code {
		p, _, c := e.Params(h)
		return put(out, C.size_t(len(p)), c)
	})
}

//export ho_soft_cuKernelGetParamCount
func ho_soft_cuKernelGetParamCount(k C.ho_kernel, out *C.size_t) C.ho_result {
	return paramCount("cuKernelGetParamCount", engine.Handle(k), out)
}

//export ho_soft_cuFuncGetParamCount
func ho_soft_cuFuncGetParamCount(f C.ho_function, out *C.size_t) C.ho_result {
	return paramCount("cuFuncGetParamCount", engine.Handle(f), out)
}

//export ho_soft_cuEventElapsedTime_v2
func ho_soft_cuEventElapsedTime_v2(out *C.float, start, end C.ho_event) C.ho_result {
	return ho_soft_cuEventElapsedTime(out, start, end)
}

//export ho_soft_cuStreamGetCtx_v2
func ho_soft_cuStreamGetCtx_v2(s C.ho_stream, out *C.ho_context, green *C.ho_word) C.ho_result {
	if green != nil {
		*green = 0 // there are no green contexts
	}
	return ho_soft_cuStreamGetCtx(s, out)
}
