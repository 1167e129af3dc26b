//go:build cgo && linux

package soft

// #include <string.h>
// #include "soft.h"
import "C"

import (
	"bytes"
	"os"
	"unsafe"

	"github.com/go-handoff/handoff/device/soft/internal/engine"
)

// This file has the entry points for modules, libraries, kernels, occupancy and launches.

// imageBytes is the image at a C address: text up to a zero byte, if it begins like an
// image of ours, else the few bytes that say what it is instead.
func imageBytes(p unsafe.Pointer) []byte {
	const magic = engine.ImageMagic
	// SAFETY: the caller gives an image; every kind of image has four bytes at least, and ours is
	// read byte by byte until it ends or differs.
	head := unsafe.Slice((*byte)(p), 4)
	if !bytes.Equal(head, []byte(magic[:4])) {
		if head[0] == '.' && head[1] == 'v' || head[0] == '/' {
			return C.GoBytes(p, 8) // assembly text, which is longer than this
		}
		return bytes.Clone(head)
	}
	n := C.strlen((*C.char)(p))
	if n > 1<<20 {
		return nil
	}
	return C.GoBytes(p, C.int(n))
}

func loadModule(api string, out *C.ho_module, p unsafe.Pointer) C.ho_result {
	return call(api, func(e *eng, t *thr) code {
		if out == nil || p == nil {
			return invalid
		}
		h, c := e.ModuleLoad(t, imageBytes(p))
		return put(out, C.ho_module(h), c)
	})
}

//export ho_soft_cuModuleLoad
func ho_soft_cuModuleLoad(out *C.ho_module, path *C.char) C.ho_result {
	return call("cuModuleLoad", func(e *eng, t *thr) code {
		if out == nil || path == nil {
			return invalid
		}
		b, err := os.ReadFile(C.GoString(path))
		if err != nil {
			return engine.FileNotFound
		}
		h, c := e.ModuleLoad(t, bytes.TrimRight(b, "\x00"))
		return put(out, C.ho_module(h), c)
	})
}

//export ho_soft_cuModuleLoadData
func ho_soft_cuModuleLoadData(out *C.ho_module, p unsafe.Pointer) C.ho_result {
	return loadModule("cuModuleLoadData", out, p)
}

//export ho_soft_cuModuleLoadDataEx
func ho_soft_cuModuleLoadDataEx(out *C.ho_module, p unsafe.Pointer, _1 C.uint32_t, _2 *C.int, _3 *C.ho_word) C.ho_result {
	return loadModule("cuModuleLoadDataEx", out, p)
}

//export ho_soft_cuModuleLoadFatBinary
func ho_soft_cuModuleLoadFatBinary(out *C.ho_module, p unsafe.Pointer) C.ho_result {
	return loadModule("cuModuleLoadFatBinary", out, p)
}

//export ho_soft_cuModuleUnload
func ho_soft_cuModuleUnload(m C.ho_module) C.ho_result {
	return call("cuModuleUnload", func(e *eng, t *thr) code { return e.ModuleUnload(t, engine.Handle(m)) })
}

//export ho_soft_cuModuleGetLoadingMode
func ho_soft_cuModuleGetLoadingMode(out *C.int) C.ho_result {
	return call("cuModuleGetLoadingMode", func(*eng, *thr) code {
		return put(out, C.int(C.HO_CU_MODULE_LAZY_LOADING), engine.Success)
	})
}

//export ho_soft_cuModuleGetFunction
func ho_soft_cuModuleGetFunction(out *C.ho_function, m C.ho_module, name *C.char) C.ho_result {
	return call("cuModuleGetFunction", func(e *eng, _ *thr) code {
		if out == nil || name == nil {
			return invalid
		}
		h, c := e.ModuleFunction(engine.Handle(m), C.GoString(name))
		return put(out, C.ho_function(h), c)
	})
}

// global stores the place of a variable.
func global(addr *C.ho_devptr, size *C.size_t, a, n uint64, c code) code {
	if c == 0 {
		if addr != nil {
			*addr = C.ho_devptr(a)
		}
		if size != nil {
			*size = C.size_t(n)
		}
	}
	return c
}

//export ho_soft_cuModuleGetGlobal
func ho_soft_cuModuleGetGlobal(addr *C.ho_devptr, size *C.size_t, m C.ho_module, name *C.char) C.ho_result {
	return call("cuModuleGetGlobal", func(e *eng, _ *thr) code {
		if name == nil {
			return invalid
		}
		a, n, c := e.ModuleGlobal(engine.Handle(m), C.GoString(name))
		return global(addr, size, a, n, c)
	})
}

//export ho_soft_cuModuleGetFunctionCount
func ho_soft_cuModuleGetFunctionCount(out *C.uint32_t, m C.ho_module) C.ho_result {
	return call("cuModuleGetFunctionCount", func(e *eng, _ *thr) code {
		l, c := e.ModuleFunctions(engine.Handle(m))
		return put(out, C.uint32_t(len(l)), c)
	})
}

// store copies handles to a C array of n elements.
func store[T ~uintptr | ~uint64](out *T, n int, l []engine.Handle, c code) code {
	if c != 0 {
		return c
	}
	if out == nil {
		return invalid
	}
	// SAFETY: the caller says that the array has n elements.
	for i, h := range l[:min(n, len(l))] {
		unsafe.Slice(out, n)[i] = T(h)
	}
	return engine.Success
}

//export ho_soft_cuModuleEnumerateFunctions
func ho_soft_cuModuleEnumerateFunctions(out *C.ho_function, n C.uint32_t, m C.ho_module) C.ho_result {
	return call("cuModuleEnumerateFunctions", func(e *eng, _ *thr) code {
		l, c := e.ModuleFunctions(engine.Handle(m))
		return store(out, int(n), l, c)
	})
}

//export ho_soft_cuLibraryLoadData
func ho_soft_cuLibraryLoadData(out *C.ho_library, p unsafe.Pointer, _1 *C.int, _2 *C.ho_word, _3 C.uint32_t, _4 *C.int, _5 *C.ho_word, _6 C.uint32_t) C.ho_result {
	return call("cuLibraryLoadData", func(e *eng, _ *thr) code {
		if out == nil || p == nil {
			return invalid
		}
		h, c := e.LibraryLoad(imageBytes(p))
		return put(out, C.ho_library(h), c)
	})
}

//export ho_soft_cuLibraryLoadFromFile
func ho_soft_cuLibraryLoadFromFile(out *C.ho_library, path *C.char, _1 *C.int, _2 *C.ho_word, _3 C.uint32_t, _4 *C.int, _5 *C.ho_word, _6 C.uint32_t) C.ho_result {
	return call("cuLibraryLoadFromFile", func(e *eng, _ *thr) code {
		if out == nil || path == nil {
			return invalid
		}
		b, err := os.ReadFile(C.GoString(path))
		if err != nil {
			return engine.FileNotFound
		}
		h, c := e.LibraryLoad(bytes.TrimRight(b, "\x00"))
		return put(out, C.ho_library(h), c)
	})
}

//export ho_soft_cuLibraryUnload
func ho_soft_cuLibraryUnload(l C.ho_library) C.ho_result {
	return call("cuLibraryUnload", func(e *eng, _ *thr) code { return e.LibraryUnload(engine.Handle(l)) })
}

//export ho_soft_cuLibraryGetKernel
func ho_soft_cuLibraryGetKernel(out *C.ho_kernel, l C.ho_library, name *C.char) C.ho_result {
	return call("cuLibraryGetKernel", func(e *eng, _ *thr) code {
		if out == nil || name == nil {
			return invalid
		}
		h, c := e.LibraryKernel(engine.Handle(l), C.GoString(name))
		return put(out, C.ho_kernel(h), c)
	})
}

//export ho_soft_cuLibraryGetKernelCount
func ho_soft_cuLibraryGetKernelCount(out *C.uint32_t, l C.ho_library) C.ho_result {
	return call("cuLibraryGetKernelCount", func(e *eng, _ *thr) code {
		ks, c := e.LibraryKernels(engine.Handle(l))
		return put(out, C.uint32_t(len(ks)), c)
	})
}

//export ho_soft_cuLibraryEnumerateKernels
func ho_soft_cuLibraryEnumerateKernels(out *C.ho_kernel, n C.uint32_t, l C.ho_library) C.ho_result {
	return call("cuLibraryEnumerateKernels", func(e *eng, _ *thr) code {
		ks, c := e.LibraryKernels(engine.Handle(l))
		return store(out, int(n), ks, c)
	})
}

//export ho_soft_cuLibraryGetModule
func ho_soft_cuLibraryGetModule(out *C.ho_module, l C.ho_library) C.ho_result {
	return call("cuLibraryGetModule", func(e *eng, t *thr) code {
		h, c := e.LibraryModule(t, engine.Handle(l))
		return put(out, C.ho_module(h), c)
	})
}

//export ho_soft_cuLibraryGetGlobal
func ho_soft_cuLibraryGetGlobal(addr *C.ho_devptr, size *C.size_t, l C.ho_library, name *C.char) C.ho_result {
	return call("cuLibraryGetGlobal", func(e *eng, t *thr) code {
		if name == nil {
			return invalid
		}
		a, n, c := e.LibraryGlobal(t, engine.Handle(l), C.GoString(name))
		return global(addr, size, a, n, c)
	})
}

//export ho_soft_cuLibraryGetManaged
func ho_soft_cuLibraryGetManaged(_1 *C.ho_devptr, _2 *C.size_t, _3 C.ho_library, _4 *C.char) C.ho_result {
	return call("cuLibraryGetManaged", func(*eng, *thr) code { return engine.NotFound })
}

//export ho_soft_cuLibraryGetUnifiedFunction
func ho_soft_cuLibraryGetUnifiedFunction(_1 *C.ho_word, _2 C.ho_library, _3 *C.char) C.ho_result {
	return call("cuLibraryGetUnifiedFunction", func(*eng, *thr) code { return invalid })
}

//export ho_soft_cuKernelGetFunction
func ho_soft_cuKernelGetFunction(out *C.ho_function, k C.ho_kernel) C.ho_result {
	return call("cuKernelGetFunction", func(e *eng, t *thr) code {
		h, c := e.KernelFunction(t, engine.Handle(k))
		return put(out, C.ho_function(h), c)
	})
}

//export ho_soft_cuKernelGetLibrary
func ho_soft_cuKernelGetLibrary(out *C.ho_library, k C.ho_kernel) C.ho_result {
	return call("cuKernelGetLibrary", func(e *eng, _ *thr) code {
		h, c := e.KernelLibrary(engine.Handle(k))
		return put(out, C.ho_library(h), c)
	})
}

//export ho_soft_cuKernelGetAttribute
func ho_soft_cuKernelGetAttribute(out *C.int, attr C.int, k C.ho_kernel, dev C.ho_device) C.ho_result {
	return call("cuKernelGetAttribute", func(e *eng, _ *thr) code {
		v, c := e.KernelAttribute(engine.Handle(k), int32(attr), int(dev))
		return put(out, C.int(v), c)
	})
}

//export ho_soft_cuKernelSetAttribute
func ho_soft_cuKernelSetAttribute(attr, v C.int, k C.ho_kernel, dev C.ho_device) C.ho_result {
	return call("cuKernelSetAttribute", func(e *eng, _ *thr) code {
		return e.KernelSetAttribute(engine.Handle(k), int32(attr), int32(v), int(dev))
	})
}

//export ho_soft_cuKernelSetCacheConfig
func ho_soft_cuKernelSetCacheConfig(k C.ho_kernel, v C.int, _1 C.ho_device) C.ho_result {
	return cacheConfig("cuKernelSetCacheConfig", engine.Handle(k), v)
}

func cacheConfig(api string, h engine.Handle, v C.int) C.ho_result {
	return call(api, func(e *eng, _ *thr) code {
		if v < 0 || v > 3 {
			return invalid
		}
		_, c := e.KernelName(h)
		return c
	})
}

func name(api string, out **C.char, h engine.Handle) C.ho_result {
	return call(api, func(e *eng, _ *thr) code {
		if out == nil {
			return invalid
		}
		s, c := e.KernelName(h)
		if c == 0 {
			*out = cstring(s)
		}
		return c
	})
}

//export ho_soft_cuKernelGetName
func ho_soft_cuKernelGetName(out **C.char, k C.ho_kernel) C.ho_result {
	return name("cuKernelGetName", out, engine.Handle(k))
}

func paramInfo(api string, h engine.Handle, i C.size_t, off, size *C.size_t) C.ho_result {
	return call(api, func(e *eng, _ *thr) code {
		p, _, c := e.Params(h)
		if c != 0 {
			return c
		}
		if off == nil || uint64(i) >= uint64(len(p)) {
			return invalid
		}
		*off = C.size_t(p[i].Offset)
		if size != nil {
			*size = C.size_t(p[i].Size)
		}
		return engine.Success
	})
}

//export ho_soft_cuKernelGetParamInfo
func ho_soft_cuKernelGetParamInfo(k C.ho_kernel, i C.size_t, off, size *C.size_t) C.ho_result {
	return paramInfo("cuKernelGetParamInfo", engine.Handle(k), i, off, size)
}

//export ho_soft_cuFuncGetAttribute
func ho_soft_cuFuncGetAttribute(out *C.int, attr C.int, f C.ho_function) C.ho_result {
	return call("cuFuncGetAttribute", func(e *eng, t *thr) code {
		v, c := e.FuncAttribute(t, engine.Handle(f), int32(attr))
		return put(out, C.int(v), c)
	})
}

//export ho_soft_cuFuncSetAttribute
func ho_soft_cuFuncSetAttribute(f C.ho_function, attr, v C.int) C.ho_result {
	return call("cuFuncSetAttribute", func(e *eng, t *thr) code {
		return e.FuncSetAttribute(t, engine.Handle(f), int32(attr), int32(v))
	})
}

//export ho_soft_cuFuncSetCacheConfig
func ho_soft_cuFuncSetCacheConfig(f C.ho_function, v C.int) C.ho_result {
	return cacheConfig("cuFuncSetCacheConfig", engine.Handle(f), v)
}

//export ho_soft_cuFuncGetModule
func ho_soft_cuFuncGetModule(out *C.ho_module, f C.ho_function) C.ho_result {
	return call("cuFuncGetModule", func(e *eng, _ *thr) code {
		h, c := e.FuncModule(engine.Handle(f))
		return put(out, C.ho_module(h), c)
	})
}

//export ho_soft_cuFuncGetName
func ho_soft_cuFuncGetName(out **C.char, f C.ho_function) C.ho_result {
	return name("cuFuncGetName", out, engine.Handle(f))
}

//export ho_soft_cuFuncGetParamInfo
func ho_soft_cuFuncGetParamInfo(f C.ho_function, i C.size_t, off, size *C.size_t) C.ho_result {
	return paramInfo("cuFuncGetParamInfo", engine.Handle(f), i, off, size)
}

//export ho_soft_cuFuncIsLoaded
func ho_soft_cuFuncIsLoaded(out *C.int, f C.ho_function) C.ho_result {
	return call("cuFuncIsLoaded", func(e *eng, _ *thr) code {
		_, c := e.FuncModule(engine.Handle(f))
		return put(out, C.int(C.HO_CU_FUNCTION_LOADING_STATE_LOADED), c)
	})
}

//export ho_soft_cuFuncLoad
func ho_soft_cuFuncLoad(f C.ho_function) C.ho_result {
	return call("cuFuncLoad", func(e *eng, _ *thr) code {
		_, c := e.FuncModule(engine.Handle(f))
		return c
	})
}

//export ho_soft_cuOccupancyMaxActiveBlocksPerMultiprocessor
func ho_soft_cuOccupancyMaxActiveBlocksPerMultiprocessor(out *C.int, f C.ho_function, threads C.int, shared C.size_t) C.ho_result {
	return ho_soft_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out, f, threads, shared, 0)
}

//export ho_soft_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags
func ho_soft_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out *C.int, f C.ho_function, threads C.int, shared C.size_t, flags C.uint32_t) C.ho_result {
	return call("cuOccupancyMaxActiveBlocksPerMultiprocessor", func(e *eng, t *thr) code {
		if flags > 1 {
			return invalid
		}
		v, c := e.Occupancy(t, engine.Handle(f), int(threads), uint64(shared))
		return put(out, C.int(v), c)
	})
}

//export ho_soft_cuOccupancyMaxPotentialBlockSize
func ho_soft_cuOccupancyMaxPotentialBlockSize(grid, block *C.int, f C.ho_function, fn C.ho_occupancy_fn, shared C.size_t, limit C.int) C.ho_result {
	return ho_soft_cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, f, fn, shared, limit, 0)
}

//export ho_soft_cuOccupancyMaxPotentialBlockSizeWithFlags
func ho_soft_cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block *C.int, f C.ho_function, fn C.ho_occupancy_fn, shared C.size_t, limit C.int, flags C.uint32_t) C.ho_result {
	w := word(unsafe.Pointer(fn))
	return call("cuOccupancyMaxPotentialBlockSize", func(e *eng, t *thr) code {
		if grid == nil || block == nil || flags > 1 {
			return invalid
		}
		g, b, c := e.PotentialBlockSize(t, engine.Handle(f), int(limit), func(n int) uint64 {
			if w != 0 {
				return uint64(C.ho_soft_call_occupancy(w, C.int(n)))
			}
			return uint64(shared)
		})
		if c == 0 {
			*grid, *block = C.int(g), C.int(b)
		}
		return c
	})
}

//export ho_soft_cuOccupancyAvailableDynamicSMemPerBlock
func ho_soft_cuOccupancyAvailableDynamicSMemPerBlock(out *C.size_t, f C.ho_function, blocks, threads C.int) C.ho_result {
	return call("cuOccupancyAvailableDynamicSMemPerBlock", func(e *eng, t *thr) code {
		v, c := e.AvailableShared(t, engine.Handle(f), int(blocks), int(threads))
		return put(out, C.size_t(v), c)
	})
}

//export ho_soft_cuOccupancyMaxPotentialClusterSize
func ho_soft_cuOccupancyMaxPotentialClusterSize(out *C.int, f C.ho_function, cfg *C.ho_launch_config) C.ho_result {
	return call("cuOccupancyMaxPotentialClusterSize", func(e *eng, _ *thr) code {
		_, c := e.KernelName(engine.Handle(f))
		if c == 0 && cfg == nil {
			return invalid
		}
		return put(out, 8, c)
	})
}

//export ho_soft_cuOccupancyMaxActiveClusters
func ho_soft_cuOccupancyMaxActiveClusters(out *C.int, f C.ho_function, cfg *C.ho_launch_config) C.ho_result {
	return call("cuOccupancyMaxActiveClusters", func(e *eng, t *thr) code {
		if cfg == nil {
			return invalid
		}
		lc, ok := launchConfig(cfg)
		if !ok {
			return invalid
		}
		n := max(lc.Cluster[0], 1) * max(lc.Cluster[1], 1) * max(lc.Cluster[2], 1)
		threads := int(lc.Block[0]) * int(lc.Block[1]) * int(lc.Block[2])
		v, c := e.Occupancy(t, engine.Handle(f), threads, uint64(lc.Shared))
		return put(out, C.int(v*16/int(n)), c)
	})
}

// pack copies the arguments of a launch: from one pointer for each parameter, or from a
// buffer that is packed already.
func pack(e *eng, f engine.Handle, params *unsafe.Pointer, extra *C.ho_word) ([]byte, code) {
	list, total, c := e.Params(f)
	if c != 0 {
		return nil, c
	}
	if params != nil && extra != nil {
		return nil, invalid
	}
	args := make([]byte, total)
	if params != nil {
		// SAFETY: the caller gives one pointer for each parameter of the kernel, to as many bytes
		// as it has.
		for i, p := range unsafe.Slice(params, len(list)) {
			if p == nil {
				return nil, invalid
			}
			copy(args[list[i].Offset:], unsafe.Slice((*byte)(p), int(list[i].Size)))
		}
		return args, engine.Success
	}
	if extra == nil {
		if total > 0 {
			return nil, invalid
		}
		return args, engine.Success
	}
	var buf, size uintptr
	for i := 0; ; i += 2 {
		// SAFETY: the list ends with HO_LAUNCH_PARAM_END, as the driver demands.
		w := unsafe.Slice(extra, i+2)
		switch w[i] {
		case C.HO_LAUNCH_PARAM_BUFFER_POINTER:
			buf = uintptr(w[i+1])
		case C.HO_LAUNCH_PARAM_BUFFER_SIZE:
			// The value is the address of the size.
			size = uintptr(engine.LoadWord(uint64(w[i+1])))
		case C.HO_LAUNCH_PARAM_END:
			if buf == 0 && total > 0 {
				return nil, invalid
			}
			if uint64(size) > total {
				return nil, engine.LaunchOutOfResources
			}
			copy(args, engine.HostBytes(uint64(buf), uint64(size)))
			return args, engine.Success
		default:
			return nil, invalid
		}
	}
}

//export ho_soft_cuLaunchKernel
func ho_soft_cuLaunchKernel(f C.ho_function, gx, gy, gz, bx, by, bz, shared C.uint32_t, s C.ho_stream, params *unsafe.Pointer, extra *C.ho_word) C.ho_result {
	return call("cuLaunchKernel", func(e *eng, t *thr) code {
		args, c := pack(e, engine.Handle(f), params, extra)
		if c != 0 {
			return c
		}
		return e.LaunchKernel(t, engine.Handle(f), engine.LaunchConfig{
			Grid:   [3]uint32{uint32(gx), uint32(gy), uint32(gz)},
			Block:  [3]uint32{uint32(bx), uint32(by), uint32(bz)},
			Shared: uint32(shared),
		}, args, engine.Handle(s))
	})
}

//export ho_soft_cuLaunchCooperativeKernel
func ho_soft_cuLaunchCooperativeKernel(f C.ho_function, gx, gy, gz, bx, by, bz, shared C.uint32_t, s C.ho_stream, params *unsafe.Pointer) C.ho_result {
	return call("cuLaunchCooperativeKernel", func(e *eng, t *thr) code {
		args, c := pack(e, engine.Handle(f), params, nil)
		if c != 0 {
			return c
		}
		return e.LaunchKernel(t, engine.Handle(f), engine.LaunchConfig{
			Grid:   [3]uint32{uint32(gx), uint32(gy), uint32(gz)},
			Block:  [3]uint32{uint32(bx), uint32(by), uint32(bz)},
			Shared: uint32(shared), Cooperative: true,
		}, args, engine.Handle(s))
	})
}

// launchConfig reads the shape of a launch and those attributes that change it.
func launchConfig(p *C.ho_launch_config) (engine.LaunchConfig, bool) {
	c := engine.LaunchConfig{
		Grid:   [3]uint32{uint32(p.grid_x), uint32(p.grid_y), uint32(p.grid_z)},
		Block:  [3]uint32{uint32(p.block_x), uint32(p.block_y), uint32(p.block_z)},
		Shared: uint32(p.shared_bytes),
	}
	if p.num_attrs == 0 {
		return c, true
	}
	if p.attrs == nil || p.num_attrs > 64 {
		return c, false
	}
	// SAFETY: the caller says that the array has num_attrs elements.
	for i := range unsafe.Slice(p.attrs, int(p.num_attrs)) {
		a := &unsafe.Slice(p.attrs, int(p.num_attrs))[i]
		v := (*[16]uint32)(unsafe.Pointer(value(&a.value)))
		switch a.id {
		case C.HO_CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
			c.Cooperative = v[0] != 0
		case C.HO_CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
			c.Cluster = [3]uint32{v[0], v[1], v[2]}
		case C.HO_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, C.HO_CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT,
			C.HO_CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
			return c, false
		}
	}
	return c, true
}

//export ho_soft_cuLaunchKernelEx
func ho_soft_cuLaunchKernelEx(p *C.ho_launch_config, f C.ho_function, params *unsafe.Pointer, extra *C.ho_word) C.ho_result {
	return call("cuLaunchKernelEx", func(e *eng, t *thr) code {
		if p == nil {
			return invalid
		}
		cfg, ok := launchConfig(p)
		if !ok {
			return engine.NotSupported
		}
		args, c := pack(e, engine.Handle(f), params, extra)
		if c != 0 {
			return c
		}
		return e.LaunchKernel(t, engine.Handle(f), cfg, args, engine.Handle(p.stream))
	})
}
