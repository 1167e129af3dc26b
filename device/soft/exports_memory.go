//go:build cgo && linux

package soft

// #include "soft.h"
import "C"

import (
	"unsafe"

	"github.com/go-handoff/handoff/device/soft/internal/engine"
)

// This file has the entry points for memory: allocation, copies, memsets, pointers, pools.

//export ho_soft_cuMemGetInfo
func ho_soft_cuMemGetInfo(free, total *C.size_t) C.ho_result {
	return call("cuMemGetInfo", func(e *eng, t *thr) code {
		f, n, c := e.MemInfo(t)
		if c != 0 {
			return c
		}
		if free == nil || total == nil {
			return invalid
		}
		*free, *total = C.size_t(f), C.size_t(n)
		return engine.Success
	})
}

//export ho_soft_cuMemAlloc
func ho_soft_cuMemAlloc(out *C.ho_devptr, n C.size_t) C.ho_result {
	return call("cuMemAlloc", func(e *eng, t *thr) code {
		if out == nil {
			return invalid
		}
		p, c := e.MemAlloc(t, uint64(n))
		return put(out, C.ho_devptr(p), c)
	})
}

//export ho_soft_cuMemAllocPitch
func ho_soft_cuMemAllocPitch(out *C.ho_devptr, pitch *C.size_t, width, height C.size_t, elem C.uint32_t) C.ho_result {
	return call("cuMemAllocPitch", func(e *eng, t *thr) code {
		if out == nil || pitch == nil {
			return invalid
		}
		p, w, c := e.MemAllocPitch(t, uint64(width), uint64(height), uint32(elem))
		if c == 0 {
			*out, *pitch = C.ho_devptr(p), C.size_t(w)
		}
		return c
	})
}

//export ho_soft_cuMemFree
func ho_soft_cuMemFree(p C.ho_devptr) C.ho_result {
	return call("cuMemFree", func(e *eng, t *thr) code { return e.MemFree(t, uint64(p)) })
}

//export ho_soft_cuMemGetAddressRange
func ho_soft_cuMemGetAddressRange(base *C.ho_devptr, size *C.size_t, p C.ho_devptr) C.ho_result {
	return call("cuMemGetAddressRange", func(e *eng, t *thr) code {
		b, n, c := e.AddressRange(t, uint64(p))
		if c != 0 {
			return c
		}
		if base != nil {
			*base = C.ho_devptr(b)
		}
		if size != nil {
			*size = C.size_t(n)
		}
		return engine.Success
	})
}

//export ho_soft_cuIpcGetMemHandle
func ho_soft_cuIpcGetMemHandle(out *C.ho_ipc_mem_handle, p C.ho_devptr) C.ho_result {
	return call("cuIpcGetMemHandle", func(e *eng, t *thr) code {
		h, c := e.IPCGetMem(t, uint64(p))
		// SAFETY: both are 64 plain bytes.
		return put((*engine.IPCHandle)(unsafe.Pointer(out)), h, c)
	})
}

//export ho_soft_cuIpcOpenMemHandle
func ho_soft_cuIpcOpenMemHandle(out *C.ho_devptr, h C.ho_ipc_mem_handle, flags C.uint32_t) C.ho_result {
	return call("cuIpcOpenMemHandle", func(e *eng, t *thr) code {
		if out == nil {
			return invalid
		}
		// SAFETY: both are 64 plain bytes.
		p, c := e.IPCOpenMem(t, *(*engine.IPCHandle)(unsafe.Pointer(&h)), uint32(flags))
		return put(out, C.ho_devptr(p), c)
	})
}

//export ho_soft_cuIpcCloseMemHandle
func ho_soft_cuIpcCloseMemHandle(p C.ho_devptr) C.ho_result {
	return call("cuIpcCloseMemHandle", func(e *eng, t *thr) code { return e.IPCCloseMem(t, uint64(p)) })
}

//export ho_soft_cuMemAllocHost
func ho_soft_cuMemAllocHost(out *C.ho_word, n C.size_t) C.ho_result {
	return call("cuMemAllocHost", func(e *eng, t *thr) code {
		if out == nil {
			return invalid
		}
		p, c := e.HostAlloc(t, uint64(n), 0)
		return put(out, C.ho_word(p), c)
	})
}

//export ho_soft_cuMemFreeHost
func ho_soft_cuMemFreeHost(p C.ho_word) C.ho_result {
	return call("cuMemFreeHost", func(e *eng, t *thr) code { return e.HostFree(t, uint64(p)) })
}

//export ho_soft_cuMemHostAlloc
func ho_soft_cuMemHostAlloc(out *C.ho_word, n C.size_t, flags C.uint32_t) C.ho_result {
	return call("cuMemHostAlloc", func(e *eng, t *thr) code {
		if out == nil {
			return invalid
		}
		p, c := e.HostAlloc(t, uint64(n), uint32(flags))
		return put(out, C.ho_word(p), c)
	})
}

//export ho_soft_cuMemHostRegister
func ho_soft_cuMemHostRegister(p C.ho_word, n C.size_t, flags C.uint32_t) C.ho_result {
	return call("cuMemHostRegister", func(e *eng, t *thr) code {
		return e.HostRegister(t, uint64(p), uint64(n), uint32(flags))
	})
}

//export ho_soft_cuMemHostUnregister
func ho_soft_cuMemHostUnregister(p C.ho_word) C.ho_result {
	return call("cuMemHostUnregister", func(e *eng, t *thr) code { return e.HostUnregister(t, uint64(p)) })
}

//export ho_soft_cuMemHostGetDevicePointer
func ho_soft_cuMemHostGetDevicePointer(out *C.ho_devptr, p C.ho_word, flags C.uint32_t) C.ho_result {
	return call("cuMemHostGetDevicePointer", func(e *eng, t *thr) code {
		v, c := e.HostDevicePointer(t, uint64(p), uint32(flags))
		return put(out, C.ho_devptr(v), c)
	})
}

//export ho_soft_cuMemHostGetFlags
func ho_soft_cuMemHostGetFlags(out *C.uint32_t, p C.ho_word) C.ho_result {
	return call("cuMemHostGetFlags", func(e *eng, t *thr) code {
		v, c := e.HostFlags(t, uint64(p))
		return put(out, C.uint32_t(v), c)
	})
}

//export ho_soft_cuMemAllocManaged
func ho_soft_cuMemAllocManaged(out *C.ho_devptr, n C.size_t, flags C.uint32_t) C.ho_result {
	return call("cuMemAllocManaged", func(e *eng, t *thr) code {
		if out == nil {
			return invalid
		}
		p, c := e.ManagedAlloc(t, uint64(n), uint32(flags))
		return put(out, C.ho_devptr(p), c)
	})
}

//export ho_soft_cuMemPrefetchAsync
func ho_soft_cuMemPrefetchAsync(p C.ho_devptr, n C.size_t, loc C.ho_mem_location, flags C.uint32_t, s C.ho_stream) C.ho_result {
	return call("cuMemPrefetchAsync", func(e *eng, t *thr) code {
		return e.Prefetch(t, uint64(p), uint64(n), int32(loc._type), int32(loc.id), uint32(flags), engine.Handle(s))
	})
}

//export ho_soft_cuMemAdvise
func ho_soft_cuMemAdvise(p C.ho_devptr, n C.size_t, advice C.int, loc C.ho_mem_location) C.ho_result {
	return call("cuMemAdvise", func(e *eng, t *thr) code {
		return e.Advise(t, uint64(p), uint64(n), int32(advice), int32(loc._type), int32(loc.id))
	})
}

//export ho_soft_cuMemRangeGetAttribute
func ho_soft_cuMemRangeGetAttribute(out unsafe.Pointer, size C.size_t, attr C.int, p C.ho_devptr, n C.size_t) C.ho_result {
	return call("cuMemRangeGetAttribute", func(e *eng, t *thr) code {
		if out == nil || size < 4 || size%4 != 0 || attr != C.HO_CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY && size != 4 {
			return invalid
		}
		r, c := e.RangeAttributes(t, uint64(p), uint64(n))
		if c != 0 {
			return c
		}
		// SAFETY: the caller says that out has size bytes, which is a multiple of 4.
		v := unsafe.Slice((*int32)(out), int(size/4))
		switch attr {
		case C.HO_CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
			v[0] = int32(cbool(r.ReadMostly))
		case C.HO_CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
			v[0] = r.Preferred
		case C.HO_CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
			for i := range v {
				v[i] = -2
			}
			copy(v, r.AccessedBy)
		case C.HO_CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
			v[0] = r.Prefetched
		case C.HO_CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
			v[0] = r.PreferredKind
		case C.HO_CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
			v[0] = r.PreferredID
		case C.HO_CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
			v[0] = r.PrefKind
		case C.HO_CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
			v[0] = r.PrefetchID
		default:
			return invalid
		}
		return engine.Success
	})
}

func copySync(api string, c engine.Copy) C.ho_result {
	return call(api, func(e *eng, t *thr) code { return e.Memcpy(t, c, engine.StreamLegacy) })
}

func copyAsync(api string, c engine.Copy, s C.ho_stream) C.ho_result {
	return call(api, func(e *eng, t *thr) code { return e.MemcpyAsync(t, c, engine.Handle(s)) })
}

//export ho_soft_cuMemcpy
func ho_soft_cuMemcpy(dst, src C.ho_devptr, n C.size_t) C.ho_result {
	return copySync("cuMemcpy", engine.Linear(uint64(dst), engine.TypeUnified, uint64(src), engine.TypeUnified, uint64(n)))
}

//export ho_soft_cuMemcpyAsync
func ho_soft_cuMemcpyAsync(dst, src C.ho_devptr, n C.size_t, s C.ho_stream) C.ho_result {
	return copyAsync("cuMemcpyAsync", engine.Linear(uint64(dst), engine.TypeUnified, uint64(src), engine.TypeUnified, uint64(n)), s)
}

//export ho_soft_cuMemcpyPeer
func ho_soft_cuMemcpyPeer(dst C.ho_devptr, dctx C.ho_context, src C.ho_devptr, sctx C.ho_context, n C.size_t) C.ho_result {
	return ho_soft_cuMemcpyPeerAsync(dst, dctx, src, sctx, n, C.HO_STREAM_LEGACY)
}

//export ho_soft_cuMemcpyPeerAsync
func ho_soft_cuMemcpyPeerAsync(dst C.ho_devptr, dctx C.ho_context, src C.ho_devptr, sctx C.ho_context, n C.size_t, s C.ho_stream) C.ho_result {
	return call("cuMemcpyPeerAsync", func(e *eng, t *thr) code {
		return e.MemcpyPeer(t, uint64(dst), engine.Handle(dctx), uint64(src), engine.Handle(sctx), uint64(n), engine.Handle(s))
	})
}

//export ho_soft_cuMemcpyHtoD
func ho_soft_cuMemcpyHtoD(dst C.ho_devptr, src C.ho_word, n C.size_t) C.ho_result {
	return copySync("cuMemcpyHtoD", engine.Linear(uint64(dst), engine.TypeDevice, uint64(src), engine.TypeHost, uint64(n)))
}

//export ho_soft_cuMemcpyHtoDAsync
func ho_soft_cuMemcpyHtoDAsync(dst C.ho_devptr, src C.ho_word, n C.size_t, s C.ho_stream) C.ho_result {
	return copyAsync("cuMemcpyHtoDAsync", engine.Linear(uint64(dst), engine.TypeDevice, uint64(src), engine.TypeHost, uint64(n)), s)
}

//export ho_soft_cuMemcpyDtoH
func ho_soft_cuMemcpyDtoH(dst C.ho_word, src C.ho_devptr, n C.size_t) C.ho_result {
	return copySync("cuMemcpyDtoH", engine.Linear(uint64(dst), engine.TypeHost, uint64(src), engine.TypeDevice, uint64(n)))
}

//export ho_soft_cuMemcpyDtoHAsync
func ho_soft_cuMemcpyDtoHAsync(dst C.ho_word, src C.ho_devptr, n C.size_t, s C.ho_stream) C.ho_result {
	return copyAsync("cuMemcpyDtoHAsync", engine.Linear(uint64(dst), engine.TypeHost, uint64(src), engine.TypeDevice, uint64(n)), s)
}

//export ho_soft_cuMemcpyDtoD
func ho_soft_cuMemcpyDtoD(dst, src C.ho_devptr, n C.size_t) C.ho_result {
	return copySync("cuMemcpyDtoD", engine.Linear(uint64(dst), engine.TypeDevice, uint64(src), engine.TypeDevice, uint64(n)))
}

//export ho_soft_cuMemcpyDtoDAsync
func ho_soft_cuMemcpyDtoDAsync(dst, src C.ho_devptr, n C.size_t, s C.ho_stream) C.ho_result {
	return copyAsync("cuMemcpyDtoDAsync", engine.Linear(uint64(dst), engine.TypeDevice, uint64(src), engine.TypeDevice, uint64(n)), s)
}

// end makes one side of a copy of the fields that all descriptions have.
func end(typ C.int, host C.ho_word, dev C.ho_devptr, x, y, z, lod, pitch, height C.size_t) engine.CopySide {
	s := engine.CopySide{
		Type: int32(typ), Addr: uint64(dev), X: uint64(x), Y: uint64(y), Z: uint64(z), LOD: uint64(lod),
		Pitch: uint64(pitch), Height: uint64(height),
	}
	if typ == C.HO_CU_MEMORYTYPE_HOST {
		s.Addr = uint64(host)
	}
	return s
}

func copy2D(p *C.ho_memcpy2d) engine.Copy {
	return engine.Copy{
		Src:   end(p.src_type, p.src_host, p.src_device, p.src_x_bytes, p.src_y, 0, 0, p.src_pitch, 0),
		Dst:   end(p.dst_type, p.dst_host, p.dst_device, p.dst_x_bytes, p.dst_y, 0, 0, p.dst_pitch, 0),
		Width: uint64(p.width_bytes), Height: uint64(p.height), Depth: 1,
	}
}

func copy3D(p *C.ho_memcpy3d) engine.Copy {
	return engine.Copy{
		Src:   end(p.src_type, p.src_host, p.src_device, p.src_x_bytes, p.src_y, p.src_z, p.src_lod, p.src_pitch, p.src_height),
		Dst:   end(p.dst_type, p.dst_host, p.dst_device, p.dst_x_bytes, p.dst_y, p.dst_z, p.dst_lod, p.dst_pitch, p.dst_height),
		Width: uint64(p.width_bytes), Height: uint64(p.height), Depth: uint64(p.depth),
	}
}

func copyPeer(p *C.ho_memcpy3d_peer) engine.Copy {
	return engine.Copy{
		Src:   end(p.src_type, p.src_host, p.src_device, p.src_x_bytes, p.src_y, p.src_z, p.src_lod, p.src_pitch, p.src_height),
		Dst:   end(p.dst_type, p.dst_host, p.dst_device, p.dst_x_bytes, p.dst_y, p.dst_z, p.dst_lod, p.dst_pitch, p.dst_height),
		Width: uint64(p.width_bytes), Height: uint64(p.height), Depth: uint64(p.depth),
	}
}

//export ho_soft_cuMemcpy2D
func ho_soft_cuMemcpy2D(p *C.ho_memcpy2d) C.ho_result {
	if p == nil {
		return C.ho_result(invalid)
	}
	return copySync("cuMemcpy2D", copy2D(p))
}

//export ho_soft_cuMemcpy2DUnaligned
func ho_soft_cuMemcpy2DUnaligned(p *C.ho_memcpy2d) C.ho_result {
	if p == nil {
		return C.ho_result(invalid)
	}
	return copySync("cuMemcpy2DUnaligned", copy2D(p))
}

//export ho_soft_cuMemcpy2DAsync
func ho_soft_cuMemcpy2DAsync(p *C.ho_memcpy2d, s C.ho_stream) C.ho_result {
	if p == nil {
		return C.ho_result(invalid)
	}
	return copyAsync("cuMemcpy2DAsync", copy2D(p), s)
}

//export ho_soft_cuMemcpy3D
func ho_soft_cuMemcpy3D(p *C.ho_memcpy3d) C.ho_result {
	if p == nil {
		return C.ho_result(invalid)
	}
	return copySync("cuMemcpy3D", copy3D(p))
}

//export ho_soft_cuMemcpy3DAsync
func ho_soft_cuMemcpy3DAsync(p *C.ho_memcpy3d, s C.ho_stream) C.ho_result {
	if p == nil {
		return C.ho_result(invalid)
	}
	return copyAsync("cuMemcpy3DAsync", copy3D(p), s)
}

//export ho_soft_cuMemcpy3DPeer
func ho_soft_cuMemcpy3DPeer(p *C.ho_memcpy3d_peer) C.ho_result {
	if p == nil {
		return C.ho_result(invalid)
	}
	return copySync("cuMemcpy3DPeer", copyPeer(p))
}

//export ho_soft_cuMemcpy3DPeerAsync
func ho_soft_cuMemcpy3DPeerAsync(p *C.ho_memcpy3d_peer, s C.ho_stream) C.ho_result {
	if p == nil {
		return C.ho_result(invalid)
	}
	return copyAsync("cuMemcpy3DPeerAsync", copyPeer(p), s)
}

func fill(api string, p engine.Set) C.ho_result {
	return call(api, func(e *eng, t *thr) code { return e.Memset(t, p, engine.StreamLegacy) })
}

func fillAsync(api string, p engine.Set, s C.ho_stream) C.ho_result {
	return call(api, func(e *eng, t *thr) code { return e.MemsetAsync(t, p, engine.Handle(s)) })
}

//export ho_soft_cuMemsetD8
func ho_soft_cuMemsetD8(p C.ho_devptr, v C.uint8_t, n C.size_t) C.ho_result {
	return fill("cuMemsetD8", engine.Set{Dst: uint64(p), Value: uint32(v), Elem: 1, Width: uint64(n), Height: 1})
}

//export ho_soft_cuMemsetD16
func ho_soft_cuMemsetD16(p C.ho_devptr, v C.uint16_t, n C.size_t) C.ho_result {
	return fill("cuMemsetD16", engine.Set{Dst: uint64(p), Value: uint32(v), Elem: 2, Width: uint64(n), Height: 1})
}

//export ho_soft_cuMemsetD32
func ho_soft_cuMemsetD32(p C.ho_devptr, v C.uint32_t, n C.size_t) C.ho_result {
	return fill("cuMemsetD32", engine.Set{Dst: uint64(p), Value: uint32(v), Elem: 4, Width: uint64(n), Height: 1})
}

//export ho_soft_cuMemsetD2D8
func ho_soft_cuMemsetD2D8(p C.ho_devptr, pitch C.size_t, v C.uint8_t, w, h C.size_t) C.ho_result {
	return fill("cuMemsetD2D8", engine.Set{Dst: uint64(p), Pitch: uint64(pitch), Value: uint32(v), Elem: 1, Width: uint64(w), Height: uint64(h)})
}

//export ho_soft_cuMemsetD2D16
func ho_soft_cuMemsetD2D16(p C.ho_devptr, pitch C.size_t, v C.uint16_t, w, h C.size_t) C.ho_result {
	return fill("cuMemsetD2D16", engine.Set{Dst: uint64(p), Pitch: uint64(pitch), Value: uint32(v), Elem: 2, Width: uint64(w), Height: uint64(h)})
}

//export ho_soft_cuMemsetD2D32
func ho_soft_cuMemsetD2D32(p C.ho_devptr, pitch C.size_t, v C.uint32_t, w, h C.size_t) C.ho_result {
	return fill("cuMemsetD2D32", engine.Set{Dst: uint64(p), Pitch: uint64(pitch), Value: uint32(v), Elem: 4, Width: uint64(w), Height: uint64(h)})
}

//export ho_soft_cuMemsetD8Async
func ho_soft_cuMemsetD8Async(p C.ho_devptr, v C.uint8_t, n C.size_t, s C.ho_stream) C.ho_result {
	return fillAsync("cuMemsetD8Async", engine.Set{Dst: uint64(p), Value: uint32(v), Elem: 1, Width: uint64(n), Height: 1}, s)
}

//export ho_soft_cuMemsetD16Async
func ho_soft_cuMemsetD16Async(p C.ho_devptr, v C.uint16_t, n C.size_t, s C.ho_stream) C.ho_result {
	return fillAsync("cuMemsetD16Async", engine.Set{Dst: uint64(p), Value: uint32(v), Elem: 2, Width: uint64(n), Height: 1}, s)
}

//export ho_soft_cuMemsetD32Async
func ho_soft_cuMemsetD32Async(p C.ho_devptr, v C.uint32_t, n C.size_t, s C.ho_stream) C.ho_result {
	return fillAsync("cuMemsetD32Async", engine.Set{Dst: uint64(p), Value: uint32(v), Elem: 4, Width: uint64(n), Height: 1}, s)
}

//export ho_soft_cuMemsetD2D8Async
func ho_soft_cuMemsetD2D8Async(p C.ho_devptr, pitch C.size_t, v C.uint8_t, w, h C.size_t, s C.ho_stream) C.ho_result {
	return fillAsync("cuMemsetD2D8Async", engine.Set{Dst: uint64(p), Pitch: uint64(pitch), Value: uint32(v), Elem: 1, Width: uint64(w), Height: uint64(h)}, s)
}

//export ho_soft_cuMemsetD2D16Async
func ho_soft_cuMemsetD2D16Async(p C.ho_devptr, pitch C.size_t, v C.uint16_t, w, h C.size_t, s C.ho_stream) C.ho_result {
	return fillAsync("cuMemsetD2D16Async", engine.Set{Dst: uint64(p), Pitch: uint64(pitch), Value: uint32(v), Elem: 2, Width: uint64(w), Height: uint64(h)}, s)
}

//export ho_soft_cuMemsetD2D32Async
func ho_soft_cuMemsetD2D32Async(p C.ho_devptr, pitch C.size_t, v C.uint32_t, w, h C.size_t, s C.ho_stream) C.ho_result {
	return fillAsync("cuMemsetD2D32Async", engine.Set{Dst: uint64(p), Pitch: uint64(pitch), Value: uint32(v), Elem: 4, Width: uint64(w), Height: uint64(h)}, s)
}

// pointerAttr stores one attribute; each has a width of its own.
func pointerAttr(p *engine.PointerInfo, attr C.int, out unsafe.Pointer) code {
	if out == nil {
		return invalid
	}
	word := func(v uint64) { *(*C.uint64_t)(out) = C.uint64_t(v) }
	num := func(v int32) { *(*C.int)(out) = C.int(v) }
	flag := func(v bool) { *(*C.uint8_t)(out) = C.uint8_t(cbool(v)) }
	switch attr {
	case C.HO_CU_POINTER_ATTRIBUTE_CONTEXT:
		word(uint64(p.Context))
	case C.HO_CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		num(p.MemoryType)
	case C.HO_CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		word(p.DevicePtr)
	case C.HO_CU_POINTER_ATTRIBUTE_HOST_POINTER:
		word(p.HostPtr)
	case C.HO_CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		return engine.NotSupported
	case C.HO_CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		num(int32(cbool(p.SyncOps)))
	case C.HO_CU_POINTER_ATTRIBUTE_BUFFER_ID:
		word(p.ID)
	case C.HO_CU_POINTER_ATTRIBUTE_IS_MANAGED:
		flag(p.Managed)
	case C.HO_CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		num(p.Device)
	case C.HO_CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		flag(p.IPC)
	case C.HO_CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, C.HO_CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		flag(false)
	case C.HO_CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		word(p.Base)
	case C.HO_CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		word(p.Size)
	case C.HO_CU_POINTER_ATTRIBUTE_MAPPED:
		flag(p.Known)
	case C.HO_CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		word(0)
	case C.HO_CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		v := int32(0)
		if p.Known {
			v = C.HO_CU_MEM_ACCESS_FLAGS_PROT_READWRITE
		}
		num(v)
	case C.HO_CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		word(uint64(p.Pool))
	case C.HO_CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		word(p.Size)
	case C.HO_CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		word(p.Base)
	case C.HO_CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		word(p.BlockID)
	default:
		return invalid
	}
	return engine.Success
}

//export ho_soft_cuPointerGetAttribute
func ho_soft_cuPointerGetAttribute(out unsafe.Pointer, attr C.int, ptr C.ho_devptr) C.ho_result {
	return call("cuPointerGetAttribute", func(e *eng, _ *thr) code {
		p := e.Pointer(uint64(ptr))
		if !p.Known || attr == C.HO_CU_POINTER_ATTRIBUTE_HOST_POINTER && p.HostPtr == 0 {
			return invalid
		}
		return pointerAttr(&p, attr, out)
	})
}

//export ho_soft_cuPointerGetAttributes
func ho_soft_cuPointerGetAttributes(n C.uint32_t, attrs *C.int, out *unsafe.Pointer, ptr C.ho_devptr) C.ho_result {
	return call("cuPointerGetAttributes", func(e *eng, _ *thr) code {
		if n == 0 || attrs == nil || out == nil {
			return invalid
		}
		p := e.Pointer(uint64(ptr))
		// SAFETY: the caller says that both arrays have n elements.
		as, outs := unsafe.Slice(attrs, int(n)), unsafe.Slice(out, int(n))
		for i, a := range as {
			if !p.Known && (a == C.HO_CU_POINTER_ATTRIBUTE_RANGE_START_ADDR || a == C.HO_CU_POINTER_ATTRIBUTE_RANGE_SIZE) {
				continue // the driver leaves these alone
			}
			if c := pointerAttr(&p, a, outs[i]); c != 0 {
				return c
			}
		}
		return engine.Success
	})
}

//export ho_soft_cuPointerSetAttribute
func ho_soft_cuPointerSetAttribute(in unsafe.Pointer, attr C.int, ptr C.ho_devptr) C.ho_result {
	return call("cuPointerSetAttribute", func(e *eng, _ *thr) code {
		if in == nil || attr != C.HO_CU_POINTER_ATTRIBUTE_SYNC_MEMOPS {
			return invalid
		}
		return e.SetSyncMemops(uint64(ptr), *(*C.uint32_t)(in) != 0)
	})
}

//export ho_soft_cuMemAllocAsync
func ho_soft_cuMemAllocAsync(out *C.ho_devptr, n C.size_t, s C.ho_stream) C.ho_result {
	return call("cuMemAllocAsync", func(e *eng, t *thr) code {
		if out == nil {
			return invalid
		}
		p, c := e.MemAllocAsync(t, uint64(n), 0, engine.Handle(s))
		return put(out, C.ho_devptr(p), c)
	})
}

//export ho_soft_cuMemAllocFromPoolAsync
func ho_soft_cuMemAllocFromPoolAsync(out *C.ho_devptr, n C.size_t, pool C.ho_mem_pool, s C.ho_stream) C.ho_result {
	return call("cuMemAllocFromPoolAsync", func(e *eng, t *thr) code {
		if out == nil || pool == 0 {
			return invalid
		}
		p, c := e.MemAllocAsync(t, uint64(n), engine.Handle(pool), engine.Handle(s))
		return put(out, C.ho_devptr(p), c)
	})
}

//export ho_soft_cuMemFreeAsync
func ho_soft_cuMemFreeAsync(p C.ho_devptr, s C.ho_stream) C.ho_result {
	return call("cuMemFreeAsync", func(e *eng, t *thr) code { return e.MemFreeAsync(t, uint64(p), engine.Handle(s)) })
}

func poolProps(p *C.ho_mem_pool_props) engine.PoolProps {
	return engine.PoolProps{
		AllocType: int32(p.alloc_type), HandleTypes: int32(p.handle_types),
		LocKind: int32(p.location._type), LocID: int32(p.location.id), MaxSize: uint64(p.max_size),
	}
}

//export ho_soft_cuMemPoolCreate
func ho_soft_cuMemPoolCreate(out *C.ho_mem_pool, props *C.ho_mem_pool_props) C.ho_result {
	return call("cuMemPoolCreate", func(e *eng, _ *thr) code {
		if out == nil || props == nil {
			return invalid
		}
		h, c := e.PoolCreate(poolProps(props))
		return put(out, C.ho_mem_pool(h), c)
	})
}

//export ho_soft_cuMemPoolDestroy
func ho_soft_cuMemPoolDestroy(pool C.ho_mem_pool) C.ho_result {
	return call("cuMemPoolDestroy", func(e *eng, _ *thr) code { return e.PoolDestroy(engine.Handle(pool)) })
}

//export ho_soft_cuMemPoolTrimTo
func ho_soft_cuMemPoolTrimTo(pool C.ho_mem_pool, keep C.size_t) C.ho_result {
	return call("cuMemPoolTrimTo", func(e *eng, t *thr) code { return e.PoolTrimTo(t, engine.Handle(pool), uint64(keep)) })
}

//export ho_soft_cuMemPoolGetAttribute
func ho_soft_cuMemPoolGetAttribute(pool C.ho_mem_pool, attr C.int, out unsafe.Pointer) C.ho_result {
	return call("cuMemPoolGetAttribute", func(e *eng, _ *thr) code {
		v, wide, c := e.PoolAttribute(engine.Handle(pool), int32(attr))
		if wide {
			return put((*C.uint64_t)(out), C.uint64_t(v), c)
		}
		return put((*C.int)(out), C.int(v), c)
	})
}

//export ho_soft_cuMemPoolSetAttribute
func ho_soft_cuMemPoolSetAttribute(pool C.ho_mem_pool, attr C.int, in unsafe.Pointer) C.ho_result {
	return call("cuMemPoolSetAttribute", func(e *eng, _ *thr) code {
		wide, ok := engine.PoolAttributeWide(int32(attr))
		if in == nil || !ok {
			return invalid
		}
		v := uint64(0)
		if wide {
			v = uint64(*(*C.uint64_t)(in))
		} else {
			v = uint64(*(*C.int)(in))
		}
		return e.PoolSetAttribute(engine.Handle(pool), int32(attr), v)
	})
}

//export ho_soft_cuMemPoolGetAccess
func ho_soft_cuMemPoolGetAccess(out *C.int, pool C.ho_mem_pool, loc *C.ho_mem_location) C.ho_result {
	return call("cuMemPoolGetAccess", func(e *eng, _ *thr) code {
		if loc == nil {
			return invalid
		}
		v, c := e.PoolAccess(engine.Handle(pool), int32(loc._type), int32(loc.id))
		return put(out, C.int(v), c)
	})
}

func accessList(list *C.ho_mem_access_desc, n C.size_t) []engine.Access {
	var r []engine.Access
	if list == nil || n > 1024 {
		return nil
	}
	// SAFETY: the caller says that the array has n elements.
	for _, a := range unsafe.Slice(list, int(n)) {
		r = append(r, engine.Access{Kind: int32(a.location._type), ID: int32(a.location.id), Flags: int32(a.flags)})
	}
	return r
}

//export ho_soft_cuMemPoolSetAccess
func ho_soft_cuMemPoolSetAccess(pool C.ho_mem_pool, list *C.ho_mem_access_desc, n C.size_t) C.ho_result {
	return call("cuMemPoolSetAccess", func(e *eng, _ *thr) code {
		l := accessList(list, n)
		if len(l) != int(n) {
			return invalid
		}
		return e.PoolSetAccess(engine.Handle(pool), l)
	})
}
