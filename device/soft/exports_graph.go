//go:build cgo && linux

package soft

// #include <stdlib.h>
// #include "soft.h"
import "C"

import (
	"os"
	"unsafe"

	"github.com/go-handoff/handoff/device/soft/internal/engine"
)

// This file has the entry points for graphs.

//export ho_soft_cuGraphCreate
func ho_soft_cuGraphCreate(out *C.ho_graph, flags C.uint32_t) C.ho_result {
	return call("cuGraphCreate", func(e *eng, _ *thr) code {
		if out == nil {
			return invalid
		}
		h, c := e.GraphCreate(uint32(flags))
		return put(out, C.ho_graph(h), c)
	})
}

//export ho_soft_cuGraphDestroy
func ho_soft_cuGraphDestroy(g C.ho_graph) C.ho_result {
	return call("cuGraphDestroy", func(e *eng, _ *thr) code { return e.GraphDestroy(engine.Handle(g)) })
}

//export ho_soft_cuGraphClone
func ho_soft_cuGraphClone(out *C.ho_graph, g C.ho_graph) C.ho_result {
	return call("cuGraphClone", func(e *eng, _ *thr) code {
		if out == nil {
			return invalid
		}
		h, c := e.GraphClone(engine.Handle(g))
		return put(out, C.ho_graph(h), c)
	})
}

// add adds a node; p may be filled with what comes back.
func add(api string, out *C.ho_graph_node, g C.ho_graph, deps *C.ho_graph_node, n C.size_t, fill func(e *eng, p *engine.NodeParams) code, after func(e *eng, h engine.Handle, p *engine.NodeParams)) C.ho_result {
	return call(api, func(e *eng, t *thr) code {
		d, ok := handles(deps, n)
		if out == nil || !ok {
			return invalid
		}
		var p engine.NodeParams
		if c := fill(e, &p); c != 0 {
			return c
		}
		h, c := e.AddNode(t, engine.Handle(g), d, &p)
		if c == 0 {
			*out = C.ho_graph_node(h)
			if after != nil {
				after(e, h, &p)
			}
		}
		return c
	})
}

// setNode sets the parameters of a node, or of an executable's node.
func setNode(api string, x C.ho_graph_exec, n C.ho_graph_node, exec bool, fill func(e *eng, p *engine.NodeParams) code) C.ho_result {
	return call(api, func(e *eng, t *thr) code {
		var p engine.NodeParams
		if c := fill(e, &p); c != 0 {
			return c
		}
		if exec {
			return e.ExecSetNode(t, engine.Handle(x), engine.Handle(n), &p)
		}
		return e.SetNode(t, engine.Handle(n), &p)
	})
}

// getNode asks for the parameters of a node of one type.
func getNode(api string, n C.ho_graph_node, typ engine.NodeType, use func(p *engine.NodeParams) code) C.ho_result {
	return call(api, func(e *eng, _ *thr) code {
		p, c := e.Node(engine.Handle(n))
		if c != 0 {
			return c
		}
		if p.Type != typ {
			return invalid
		}
		return use(&p)
	})
}

func kernelNode(k *C.ho_kernel_node_params) func(*eng, *engine.NodeParams) code {
	return func(e *eng, p *engine.NodeParams) code {
		if k == nil {
			return invalid
		}
		f := engine.Handle(k._func)
		if f == 0 {
			f = engine.Handle(k.kern)
		}
		args, c := pack(e, f, k.params, k.extra)
		if c != 0 {
			return c
		}
		p.Type = engine.NodeKernel
		p.Kernel = engine.KernelNode{
			Func: engine.Handle(k._func), Kernel: engine.Handle(k.kern), Ctx: engine.Handle(k.ctx), Args: args,
			Config: engine.LaunchConfig{
				Grid:   [3]uint32{uint32(k.grid_x), uint32(k.grid_y), uint32(k.grid_z)},
				Block:  [3]uint32{uint32(k.block_x), uint32(k.block_y), uint32(k.block_z)},
				Shared: uint32(k.shared_bytes),
			},
		}
		return engine.Success
	}
}

// cmem is C memory of a node.
type cmem struct{ p unsafe.Pointer }

func (m cmem) Addr() unsafe.Pointer { return m.p }
func (m cmem) Free()                { C.free(m.p) }

// newMem is n bytes of C memory, nil if there are none.
func newMem(n int) engine.Memory {
	p := C.calloc(1, C.size_t(n))
	if p == nil {
		return nil
	}
	return cmem{p}
}

// argBlock is the arguments of a node for those who ask for them: a list of pointers and the
// bytes behind it.
func argBlock(p *engine.NodeParams) engine.Memory {
	list, args := p.Kernel.Params, p.Kernel.Args
	m := newMem(8*(len(list)+1) + len(args) + 16)
	if m == nil {
		return nil
	}
	// SAFETY: the block has a pointer for each parameter, one more, and then the bytes.
	ptrs := unsafe.Slice((*unsafe.Pointer)(m.Addr()), len(list)+1)
	bytes := unsafe.Add(m.Addr(), 8*(len(list)+1))
	copy(unsafe.Slice((*byte)(bytes), len(args)+1), args)
	for i, a := range list {
		ptrs[i] = unsafe.Add(bytes, a.Offset)
	}
	return m
}

func storeKernel(e *eng, n C.ho_graph_node, k *C.ho_kernel_node_params) code {
	p, c := e.Node(engine.Handle(n))
	if c != 0 {
		return c
	}
	if p.Type != engine.NodeKernel || k == nil {
		return invalid
	}
	mem, c := e.NodeMemory(engine.Handle(n), argBlock)
	if c != 0 {
		return c
	}
	cfg := p.Kernel.Config
	*k = C.ho_kernel_node_params{
		_func: C.ho_function(p.Kernel.Func), kern: C.ho_kernel(p.Kernel.Kernel), ctx: C.ho_context(p.Kernel.Ctx),
		grid_x: C.uint32_t(cfg.Grid[0]), grid_y: C.uint32_t(cfg.Grid[1]), grid_z: C.uint32_t(cfg.Grid[2]),
		block_x: C.uint32_t(cfg.Block[0]), block_y: C.uint32_t(cfg.Block[1]), block_z: C.uint32_t(cfg.Block[2]),
		shared_bytes: C.uint32_t(cfg.Shared), params: (*unsafe.Pointer)(mem),
	}
	return engine.Success
}

//export ho_soft_cuGraphAddKernelNode
func ho_soft_cuGraphAddKernelNode(out *C.ho_graph_node, g C.ho_graph, deps *C.ho_graph_node, n C.size_t, k *C.ho_kernel_node_params) C.ho_result {
	return add("cuGraphAddKernelNode", out, g, deps, n, kernelNode(k), nil)
}

//export ho_soft_cuGraphKernelNodeGetParams
func ho_soft_cuGraphKernelNodeGetParams(n C.ho_graph_node, k *C.ho_kernel_node_params) C.ho_result {
	return call("cuGraphKernelNodeGetParams", func(e *eng, _ *thr) code { return storeKernel(e, n, k) })
}

//export ho_soft_cuGraphKernelNodeSetParams
func ho_soft_cuGraphKernelNodeSetParams(n C.ho_graph_node, k *C.ho_kernel_node_params) C.ho_result {
	return setNode("cuGraphKernelNodeSetParams", 0, n, false, kernelNode(k))
}

//export ho_soft_cuGraphKernelNodeCopyAttributes
func ho_soft_cuGraphKernelNodeCopyAttributes(dst, src C.ho_graph_node) C.ho_result {
	return call("cuGraphKernelNodeCopyAttributes", func(e *eng, _ *thr) code {
		return e.CopyKernelNodeAttrs(engine.Handle(dst), engine.Handle(src))
	})
}

//export ho_soft_cuGraphKernelNodeGetAttribute
func ho_soft_cuGraphKernelNodeGetAttribute(n C.ho_graph_node, id C.int, out *C.ho_launch_attribute_value) C.ho_result {
	return call("cuGraphKernelNodeGetAttribute", func(e *eng, _ *thr) code {
		if out == nil {
			return invalid
		}
		v, c := e.KernelNodeAttr(engine.Handle(n), int32(id))
		return put(value(out), v, c)
	})
}

//export ho_soft_cuGraphKernelNodeSetAttribute
func ho_soft_cuGraphKernelNodeSetAttribute(n C.ho_graph_node, id C.int, in *C.ho_launch_attribute_value) C.ho_result {
	return call("cuGraphKernelNodeSetAttribute", func(e *eng, _ *thr) code {
		if in == nil {
			return invalid
		}
		return e.SetKernelNodeAttr(engine.Handle(n), int32(id), *value(in))
	})
}

func copyNode(m *C.ho_memcpy3d, ctx C.ho_context) func(*eng, *engine.NodeParams) code {
	return func(_ *eng, p *engine.NodeParams) code {
		if m == nil {
			return invalid
		}
		p.Type, p.Copy, p.Ctx = engine.NodeMemcpy, copy3D(m), engine.Handle(ctx)
		return engine.Success
	}
}

func storeCopy(c *engine.Copy, m *C.ho_memcpy3d) code {
	if m == nil {
		return invalid
	}
	*m = C.ho_memcpy3d{
		src_x_bytes: C.size_t(c.Src.X), src_y: C.size_t(c.Src.Y), src_z: C.size_t(c.Src.Z), src_type: C.int(c.Src.Type),
		src_pitch: C.size_t(c.Src.Pitch), src_height: C.size_t(c.Src.Height),
		dst_x_bytes: C.size_t(c.Dst.X), dst_y: C.size_t(c.Dst.Y), dst_z: C.size_t(c.Dst.Z), dst_type: C.int(c.Dst.Type),
		dst_pitch: C.size_t(c.Dst.Pitch), dst_height: C.size_t(c.Dst.Height),
		width_bytes: C.size_t(c.Width), height: C.size_t(c.Height), depth: C.size_t(c.Depth),
	}
	if c.Src.Type == engine.TypeHost {
		m.src_host = C.ho_word(c.Src.Addr)
	} else {
		m.src_device = C.ho_devptr(c.Src.Addr)
	}
	if c.Dst.Type == engine.TypeHost {
		m.dst_host = C.ho_word(c.Dst.Addr)
	} else {
		m.dst_device = C.ho_devptr(c.Dst.Addr)
	}
	return engine.Success
}

//export ho_soft_cuGraphAddMemcpyNode
func ho_soft_cuGraphAddMemcpyNode(out *C.ho_graph_node, g C.ho_graph, deps *C.ho_graph_node, n C.size_t, m *C.ho_memcpy3d, ctx C.ho_context) C.ho_result {
	return add("cuGraphAddMemcpyNode", out, g, deps, n, copyNode(m, ctx), nil)
}

//export ho_soft_cuGraphMemcpyNodeGetParams
func ho_soft_cuGraphMemcpyNodeGetParams(n C.ho_graph_node, m *C.ho_memcpy3d) C.ho_result {
	return getNode("cuGraphMemcpyNodeGetParams", n, engine.NodeMemcpy, func(p *engine.NodeParams) code { return storeCopy(&p.Copy, m) })
}

//export ho_soft_cuGraphMemcpyNodeSetParams
func ho_soft_cuGraphMemcpyNodeSetParams(n C.ho_graph_node, m *C.ho_memcpy3d) C.ho_result {
	return setNode("cuGraphMemcpyNodeSetParams", 0, n, false, copyNode(m, 0))
}

func setParams(s *C.ho_memset_node_params, ctx C.ho_context) func(*eng, *engine.NodeParams) code {
	return func(_ *eng, p *engine.NodeParams) code {
		if s == nil {
			return invalid
		}
		p.Type, p.Ctx = engine.NodeMemset, engine.Handle(ctx)
		p.Set = engine.Set{
			Dst: uint64(s.dst), Pitch: uint64(s.pitch), Value: uint32(s.value), Elem: uint32(s.element_size),
			Width: uint64(s.width), Height: uint64(s.height),
		}
		return engine.Success
	}
}

//export ho_soft_cuGraphAddMemsetNode
func ho_soft_cuGraphAddMemsetNode(out *C.ho_graph_node, g C.ho_graph, deps *C.ho_graph_node, n C.size_t, s *C.ho_memset_node_params, ctx C.ho_context) C.ho_result {
	return add("cuGraphAddMemsetNode", out, g, deps, n, setParams(s, ctx), nil)
}

//export ho_soft_cuGraphMemsetNodeGetParams
func ho_soft_cuGraphMemsetNodeGetParams(n C.ho_graph_node, s *C.ho_memset_node_params) C.ho_result {
	return getNode("cuGraphMemsetNodeGetParams", n, engine.NodeMemset, func(p *engine.NodeParams) code {
		if s == nil {
			return invalid
		}
		*s = C.ho_memset_node_params{
			dst: C.ho_devptr(p.Set.Dst), pitch: C.size_t(p.Set.Pitch), value: C.uint32_t(p.Set.Value),
			element_size: C.uint32_t(p.Set.Elem), width: C.size_t(p.Set.Width), height: C.size_t(p.Set.Height),
		}
		return engine.Success
	})
}

//export ho_soft_cuGraphMemsetNodeSetParams
func ho_soft_cuGraphMemsetNodeSetParams(n C.ho_graph_node, s *C.ho_memset_node_params) C.ho_result {
	return setNode("cuGraphMemsetNodeSetParams", 0, n, false, setParams(s, 0))
}

func hostNode(h *C.ho_host_node_params) func(*eng, *engine.NodeParams) code {
	return func(_ *eng, p *engine.NodeParams) code {
		if h == nil || h.fn == nil {
			return invalid
		}
		f, user := word(unsafe.Pointer(h.fn)), h.user
		p.Type = engine.NodeHost
		p.Host = engine.HostNode{Fn: func() { C.ho_soft_call_host(f, user) }, FnAddr: uintptr(f), User: uintptr(user)}
		return engine.Success
	}
}

//export ho_soft_cuGraphAddHostNode
func ho_soft_cuGraphAddHostNode(out *C.ho_graph_node, g C.ho_graph, deps *C.ho_graph_node, n C.size_t, h *C.ho_host_node_params) C.ho_result {
	return add("cuGraphAddHostNode", out, g, deps, n, hostNode(h), nil)
}

//export ho_soft_cuGraphHostNodeGetParams
func ho_soft_cuGraphHostNodeGetParams(n C.ho_graph_node, h *C.ho_host_node_params) C.ho_result {
	return getNode("cuGraphHostNodeGetParams", n, engine.NodeHost, func(p *engine.NodeParams) code {
		if h == nil {
			return invalid
		}
		// The words of the struct: a function pointer and a datum.
		w := (*[2]C.ho_word)(unsafe.Pointer(h)) // SAFETY: the struct is two words.
		w[0], w[1] = C.ho_word(p.Host.FnAddr), C.ho_word(p.Host.User)
		return engine.Success
	})
}

//export ho_soft_cuGraphHostNodeSetParams
func ho_soft_cuGraphHostNodeSetParams(n C.ho_graph_node, h *C.ho_host_node_params) C.ho_result {
	return setNode("cuGraphHostNodeSetParams", 0, n, false, hostNode(h))
}

func childNode(child C.ho_graph) func(*eng, *engine.NodeParams) code {
	return func(_ *eng, p *engine.NodeParams) code {
		p.Type, p.Child = engine.NodeGraph, engine.Handle(child)
		return engine.Success
	}
}

//export ho_soft_cuGraphAddChildGraphNode
func ho_soft_cuGraphAddChildGraphNode(out *C.ho_graph_node, g C.ho_graph, deps *C.ho_graph_node, n C.size_t, child C.ho_graph) C.ho_result {
	return add("cuGraphAddChildGraphNode", out, g, deps, n, childNode(child), nil)
}

//export ho_soft_cuGraphChildGraphNodeGetGraph
func ho_soft_cuGraphChildGraphNodeGetGraph(n C.ho_graph_node, out *C.ho_graph) C.ho_result {
	return getNode("cuGraphChildGraphNodeGetGraph", n, engine.NodeGraph, func(p *engine.NodeParams) code {
		return put(out, C.ho_graph(p.Child), engine.Success)
	})
}

func plainNode(typ engine.NodeType, ev C.ho_event) func(*eng, *engine.NodeParams) code {
	return func(_ *eng, p *engine.NodeParams) code {
		p.Type, p.Event = typ, engine.Handle(ev)
		return engine.Success
	}
}

//export ho_soft_cuGraphAddEmptyNode
func ho_soft_cuGraphAddEmptyNode(out *C.ho_graph_node, g C.ho_graph, deps *C.ho_graph_node, n C.size_t) C.ho_result {
	return add("cuGraphAddEmptyNode", out, g, deps, n, plainNode(engine.NodeEmpty, 0), nil)
}

//export ho_soft_cuGraphAddEventRecordNode
func ho_soft_cuGraphAddEventRecordNode(out *C.ho_graph_node, g C.ho_graph, deps *C.ho_graph_node, n C.size_t, ev C.ho_event) C.ho_result {
	return add("cuGraphAddEventRecordNode", out, g, deps, n, plainNode(engine.NodeEventRecord, ev), nil)
}

func nodeEvent(api string, n C.ho_graph_node, typ engine.NodeType, out *C.ho_event) C.ho_result {
	return getNode(api, n, typ, func(p *engine.NodeParams) code { return put(out, C.ho_event(p.Event), engine.Success) })
}

//export ho_soft_cuGraphEventRecordNodeGetEvent
func ho_soft_cuGraphEventRecordNodeGetEvent(n C.ho_graph_node, out *C.ho_event) C.ho_result {
	return nodeEvent("cuGraphEventRecordNodeGetEvent", n, engine.NodeEventRecord, out)
}

//export ho_soft_cuGraphEventRecordNodeSetEvent
func ho_soft_cuGraphEventRecordNodeSetEvent(n C.ho_graph_node, ev C.ho_event) C.ho_result {
	return setNode("cuGraphEventRecordNodeSetEvent", 0, n, false, plainNode(engine.NodeEventRecord, ev))
}

//export ho_soft_cuGraphAddEventWaitNode
func ho_soft_cuGraphAddEventWaitNode(out *C.ho_graph_node, g C.ho_graph, deps *C.ho_graph_node, n C.size_t, ev C.ho_event) C.ho_result {
	return add("cuGraphAddEventWaitNode", out, g, deps, n, plainNode(engine.NodeEventWait, ev), nil)
}

//export ho_soft_cuGraphEventWaitNodeGetEvent
func ho_soft_cuGraphEventWaitNodeGetEvent(n C.ho_graph_node, out *C.ho_event) C.ho_result {
	return nodeEvent("cuGraphEventWaitNodeGetEvent", n, engine.NodeEventWait, out)
}

//export ho_soft_cuGraphEventWaitNodeSetEvent
func ho_soft_cuGraphEventWaitNodeSetEvent(n C.ho_graph_node, ev C.ho_event) C.ho_result {
	return setNode("cuGraphEventWaitNodeSetEvent", 0, n, false, plainNode(engine.NodeEventWait, ev))
}

func allocNode(a *C.ho_mem_alloc_node_params) func(*eng, *engine.NodeParams) code {
	return func(_ *eng, p *engine.NodeParams) code {
		if a == nil {
			return invalid
		}
		l := accessList(a.access, a.access_count)
		if len(l) != int(a.access_count) {
			return invalid
		}
		p.Type = engine.NodeMemAlloc
		p.Alloc = engine.AllocParams{Props: poolProps(&a.pool), Access: l, Bytes: uint64(a.bytes)}
		return engine.Success
	}
}

//export ho_soft_cuGraphAddMemAllocNode
func ho_soft_cuGraphAddMemAllocNode(out *C.ho_graph_node, g C.ho_graph, deps *C.ho_graph_node, n C.size_t, a *C.ho_mem_alloc_node_params) C.ho_result {
	return add("cuGraphAddMemAllocNode", out, g, deps, n, allocNode(a), func(_ *eng, _ engine.Handle, p *engine.NodeParams) {
		a.dptr = C.ho_devptr(p.Alloc.Addr)
	})
}

//export ho_soft_cuGraphMemAllocNodeGetParams
func ho_soft_cuGraphMemAllocNodeGetParams(n C.ho_graph_node, a *C.ho_mem_alloc_node_params) C.ho_result {
	return getNode("cuGraphMemAllocNodeGetParams", n, engine.NodeMemAlloc, func(p *engine.NodeParams) code {
		if a == nil {
			return invalid
		}
		*a = C.ho_mem_alloc_node_params{bytes: C.size_t(p.Alloc.Bytes), dptr: C.ho_devptr(p.Alloc.Addr)}
		a.pool.alloc_type = C.int(p.Alloc.Props.AllocType)
		a.pool.location = C.ho_mem_location{_type: C.int(p.Alloc.Props.LocKind), id: C.int(p.Alloc.Props.LocID)}
		return engine.Success
	})
}

//export ho_soft_cuGraphAddMemFreeNode
func ho_soft_cuGraphAddMemFreeNode(out *C.ho_graph_node, g C.ho_graph, deps *C.ho_graph_node, n C.size_t, ptr C.ho_devptr) C.ho_result {
	return add("cuGraphAddMemFreeNode", out, g, deps, n, func(_ *eng, p *engine.NodeParams) code {
		p.Type, p.Free = engine.NodeMemFree, uint64(ptr)
		return engine.Success
	}, nil)
}

//export ho_soft_cuGraphMemFreeNodeGetParams
func ho_soft_cuGraphMemFreeNodeGetParams(n C.ho_graph_node, out *C.ho_devptr) C.ho_result {
	return getNode("cuGraphMemFreeNodeGetParams", n, engine.NodeMemFree, func(p *engine.NodeParams) code {
		return put(out, C.ho_devptr(p.Free), engine.Success)
	})
}

// general reads the parameters of the calls that take every type of node.
func general(np *C.ho_graph_node_params) func(*eng, *engine.NodeParams) code {
	return func(e *eng, p *engine.NodeParams) code {
		if np == nil {
			return invalid
		}
		// SAFETY: the union is the struct of its type.
		u := unsafe.Pointer(&np.u)
		switch typ := engine.NodeType(np._type); typ {
		case engine.NodeKernel:
			return kernelNode((*C.ho_kernel_node_params)(u))(e, p)
		case engine.NodeMemcpy:
			m := (*C.ho_memcpy_node_params)(u)
			return copyNode(&m.copy, m.ctx)(e, p)
		case engine.NodeMemset:
			s := (*C.ho_memset_node_params_ctx)(u)
			return setParams(&C.ho_memset_node_params{dst: s.dst, pitch: s.pitch, value: s.value, element_size: s.element_size, width: s.width, height: s.height}, s.ctx)(e, p)
		case engine.NodeHost:
			return hostNode((*C.ho_host_node_params)(u))(e, p)
		case engine.NodeGraph:
			g := (*C.ho_child_graph_node_params)(u)
			p.Move = g.ownership == C.HO_CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE
			return childNode(g.graph)(e, p)
		case engine.NodeEmpty:
			return plainNode(typ, 0)(e, p)
		case engine.NodeEventRecord, engine.NodeEventWait:
			return plainNode(typ, (*C.ho_event_node_params)(u).event)(e, p)
		case engine.NodeMemAlloc:
			return allocNode((*C.ho_mem_alloc_node_params)(u))(e, p)
		case engine.NodeMemFree:
			p.Type, p.Free = typ, uint64((*C.ho_mem_free_node_params)(u).dptr)
			return engine.Success
		case engine.NodeConditional:
			c := (*C.ho_conditional_node_params)(u)
			p.Type = typ
			p.Cond = engine.CondNode{Handle: uint64(c.handle), Kind: int32(c._type), Size: int(c.size)}
			return engine.Success
		case 8, 9, engine.NodeMemOp: // external semaphores, memory operations
			return engine.NotSupported
		}
		return invalid
	}
}

//export ho_soft_cuGraphAddNode
func ho_soft_cuGraphAddNode(out *C.ho_graph_node, g C.ho_graph, deps *C.ho_graph_node, data *C.ho_graph_edge_data, n C.size_t, np *C.ho_graph_node_params) C.ho_result {
	if !plainEdges(data, n) {
		return C.ho_result(engine.NotSupported)
	}
	return add("cuGraphAddNode", out, g, deps, n, general(np), func(e *eng, h engine.Handle, p *engine.NodeParams) {
		u := unsafe.Pointer(&np.u) // SAFETY: as in general.
		switch p.Type {
		case engine.NodeMemAlloc:
			(*C.ho_mem_alloc_node_params)(u).dptr = C.ho_devptr(p.Alloc.Addr)
		case engine.NodeConditional:
			mem, _ := e.NodeMemory(h, bodies)
			(*C.ho_conditional_node_params)(u).bodies = (*C.ho_graph)(mem)
		}
	})
}

// bodies is the list of a conditional node's graphs, which the driver owns.
func bodies(p *engine.NodeParams) engine.Memory {
	l := p.Cond.Bodies
	m := newMem(8 * len(l))
	if m == nil {
		return nil
	}
	// SAFETY: the block has len(l) words.
	for i, h := range l {
		unsafe.Slice((*C.ho_graph)(m.Addr()), len(l))[i] = C.ho_graph(h)
	}
	return m
}

//export ho_soft_cuGraphNodeSetParams
func ho_soft_cuGraphNodeSetParams(n C.ho_graph_node, np *C.ho_graph_node_params) C.ho_result {
	return setNode("cuGraphNodeSetParams", 0, n, false, general(np))
}

//export ho_soft_cuGraphExecNodeSetParams
func ho_soft_cuGraphExecNodeSetParams(x C.ho_graph_exec, n C.ho_graph_node, np *C.ho_graph_node_params) C.ho_result {
	return setNode("cuGraphExecNodeSetParams", x, n, true, general(np))
}

//export ho_soft_cuGraphNodeFindInClone
func ho_soft_cuGraphNodeFindInClone(out *C.ho_graph_node, n C.ho_graph_node, g C.ho_graph) C.ho_result {
	return call("cuGraphNodeFindInClone", func(e *eng, _ *thr) code {
		h, c := e.FindInClone(engine.Handle(n), engine.Handle(g))
		return put(out, C.ho_graph_node(h), c)
	})
}

//export ho_soft_cuGraphNodeGetType
func ho_soft_cuGraphNodeGetType(n C.ho_graph_node, out *C.int) C.ho_result {
	return call("cuGraphNodeGetType", func(e *eng, _ *thr) code {
		p, c := e.Node(engine.Handle(n))
		return put(out, C.int(p.Type), c)
	})
}

// list stores handles in an array of *n elements, or counts them when there is no array.
// What is left of the array is zeroed.
func list(out *C.ho_graph_node, n *C.size_t, l []engine.Handle, c code) code {
	if c != 0 {
		return c
	}
	if n == nil {
		return invalid
	}
	if out == nil {
		*n = C.size_t(len(l))
		return engine.Success
	}
	// SAFETY: the caller says that the array has *n elements.
	dst := unsafe.Slice(out, int(*n))
	for i := range dst {
		dst[i] = 0
		if i < len(l) {
			dst[i] = C.ho_graph_node(l[i])
		}
	}
	*n = C.size_t(min(len(dst), len(l)))
	return engine.Success
}

func noEdgeData(p *C.ho_graph_edge_data, n *C.size_t) {
	if p != nil && n != nil {
		// SAFETY: the caller says that the array has as many elements as the other.
		clear(unsafe.Slice(p, int(*n)))
	}
}

//export ho_soft_cuGraphGetNodes
func ho_soft_cuGraphGetNodes(g C.ho_graph, out *C.ho_graph_node, n *C.size_t) C.ho_result {
	return call("cuGraphGetNodes", func(e *eng, _ *thr) code {
		l, c := e.GraphNodes(engine.Handle(g), false)
		return list(out, n, l, c)
	})
}

//export ho_soft_cuGraphGetRootNodes
func ho_soft_cuGraphGetRootNodes(g C.ho_graph, out *C.ho_graph_node, n *C.size_t) C.ho_result {
	return call("cuGraphGetRootNodes", func(e *eng, _ *thr) code {
		l, c := e.GraphNodes(engine.Handle(g), true)
		return list(out, n, l, c)
	})
}

//export ho_soft_cuGraphGetEdges
func ho_soft_cuGraphGetEdges(g C.ho_graph, from, to *C.ho_graph_node, data *C.ho_graph_edge_data, n *C.size_t) C.ho_result {
	return call("cuGraphGetEdges", func(e *eng, _ *thr) code {
		if n == nil || (from == nil) != (to == nil) {
			return invalid
		}
		f, t, c := e.GraphEdges(engine.Handle(g))
		if from != nil {
			noEdgeData(data, n)
		}
		room := *n
		if c := list(from, &room, f, c); c != 0 {
			return c
		}
		return list(to, n, t, c)
	})
}

func nodeEdges(api string, nd C.ho_graph_node, dependents bool, out *C.ho_graph_node, data *C.ho_graph_edge_data, n *C.size_t) C.ho_result {
	return call(api, func(e *eng, _ *thr) code {
		l, c := e.NodeEdges(engine.Handle(nd), dependents)
		if out != nil {
			noEdgeData(data, n)
		}
		return list(out, n, l, c)
	})
}

//export ho_soft_cuGraphNodeGetDependencies
func ho_soft_cuGraphNodeGetDependencies(nd C.ho_graph_node, out *C.ho_graph_node, data *C.ho_graph_edge_data, n *C.size_t) C.ho_result {
	return nodeEdges("cuGraphNodeGetDependencies", nd, false, out, data, n)
}

//export ho_soft_cuGraphNodeGetDependentNodes
func ho_soft_cuGraphNodeGetDependentNodes(nd C.ho_graph_node, out *C.ho_graph_node, data *C.ho_graph_edge_data, n *C.size_t) C.ho_result {
	return nodeEdges("cuGraphNodeGetDependentNodes", nd, true, out, data, n)
}

func changeEdges(api string, g C.ho_graph, from, to *C.ho_graph_node, data *C.ho_graph_edge_data, n C.size_t, remove bool) C.ho_result {
	return call(api, func(e *eng, _ *thr) code {
		f, ok := handles(from, n)
		t, ok2 := handles(to, n)
		if !ok || !ok2 {
			return invalid
		}
		if !plainEdges(data, n) {
			return engine.NotSupported
		}
		return e.ChangeEdges(engine.Handle(g), f, t, remove)
	})
}

//export ho_soft_cuGraphAddDependencies
func ho_soft_cuGraphAddDependencies(g C.ho_graph, from, to *C.ho_graph_node, data *C.ho_graph_edge_data, n C.size_t) C.ho_result {
	return changeEdges("cuGraphAddDependencies", g, from, to, data, n, false)
}

//export ho_soft_cuGraphRemoveDependencies
func ho_soft_cuGraphRemoveDependencies(g C.ho_graph, from, to *C.ho_graph_node, data *C.ho_graph_edge_data, n C.size_t) C.ho_result {
	return changeEdges("cuGraphRemoveDependencies", g, from, to, data, n, true)
}

//export ho_soft_cuGraphDestroyNode
func ho_soft_cuGraphDestroyNode(n C.ho_graph_node) C.ho_result {
	return call("cuGraphDestroyNode", func(e *eng, _ *thr) code { return e.DestroyNode(engine.Handle(n)) })
}

//export ho_soft_cuGraphInstantiateWithParams
func ho_soft_cuGraphInstantiateWithParams(out *C.ho_graph_exec, g C.ho_graph, p *C.ho_graph_instantiate_params) C.ho_result {
	return call("cuGraphInstantiateWithParams", func(e *eng, _ *thr) code {
		if out == nil || p == nil {
			return invalid
		}
		h, r, bad, c := e.Instantiate(engine.Handle(g), uint64(p.flags))
		p.result, p.error_node = C.int(r), C.ho_graph_node(bad)
		return put(out, C.ho_graph_exec(h), c)
	})
}

//export ho_soft_cuGraphExecGetFlags
func ho_soft_cuGraphExecGetFlags(x C.ho_graph_exec, out *C.uint64_t) C.ho_result {
	return call("cuGraphExecGetFlags", func(e *eng, _ *thr) code {
		v, c := e.ExecFlags(engine.Handle(x))
		return put(out, C.uint64_t(v), c)
	})
}

//export ho_soft_cuGraphExecKernelNodeSetParams
func ho_soft_cuGraphExecKernelNodeSetParams(x C.ho_graph_exec, n C.ho_graph_node, k *C.ho_kernel_node_params) C.ho_result {
	return setNode("cuGraphExecKernelNodeSetParams", x, n, true, kernelNode(k))
}

//export ho_soft_cuGraphExecMemcpyNodeSetParams
func ho_soft_cuGraphExecMemcpyNodeSetParams(x C.ho_graph_exec, n C.ho_graph_node, m *C.ho_memcpy3d, ctx C.ho_context) C.ho_result {
	return setNode("cuGraphExecMemcpyNodeSetParams", x, n, true, copyNode(m, ctx))
}

//export ho_soft_cuGraphExecMemsetNodeSetParams
func ho_soft_cuGraphExecMemsetNodeSetParams(x C.ho_graph_exec, n C.ho_graph_node, s *C.ho_memset_node_params, ctx C.ho_context) C.ho_result {
	return setNode("cuGraphExecMemsetNodeSetParams", x, n, true, setParams(s, ctx))
}

//export ho_soft_cuGraphExecHostNodeSetParams
func ho_soft_cuGraphExecHostNodeSetParams(x C.ho_graph_exec, n C.ho_graph_node, h *C.ho_host_node_params) C.ho_result {
	return setNode("cuGraphExecHostNodeSetParams", x, n, true, hostNode(h))
}

//export ho_soft_cuGraphExecChildGraphNodeSetParams
func ho_soft_cuGraphExecChildGraphNodeSetParams(x C.ho_graph_exec, n C.ho_graph_node, child C.ho_graph) C.ho_result {
	return setNode("cuGraphExecChildGraphNodeSetParams", x, n, true, childNode(child))
}

//export ho_soft_cuGraphExecEventRecordNodeSetEvent
func ho_soft_cuGraphExecEventRecordNodeSetEvent(x C.ho_graph_exec, n C.ho_graph_node, ev C.ho_event) C.ho_result {
	return setNode("cuGraphExecEventRecordNodeSetEvent", x, n, true, plainNode(engine.NodeEventRecord, ev))
}

//export ho_soft_cuGraphExecEventWaitNodeSetEvent
func ho_soft_cuGraphExecEventWaitNodeSetEvent(x C.ho_graph_exec, n C.ho_graph_node, ev C.ho_event) C.ho_result {
	return setNode("cuGraphExecEventWaitNodeSetEvent", x, n, true, plainNode(engine.NodeEventWait, ev))
}

//export ho_soft_cuGraphNodeSetEnabled
func ho_soft_cuGraphNodeSetEnabled(x C.ho_graph_exec, n C.ho_graph_node, on C.uint32_t) C.ho_result {
	return call("cuGraphNodeSetEnabled", func(e *eng, _ *thr) code {
		return e.SetEnabled(engine.Handle(x), engine.Handle(n), on != 0)
	})
}

//export ho_soft_cuGraphNodeGetEnabled
func ho_soft_cuGraphNodeGetEnabled(x C.ho_graph_exec, n C.ho_graph_node, out *C.uint32_t) C.ho_result {
	return call("cuGraphNodeGetEnabled", func(e *eng, _ *thr) code {
		on, c := e.Enabled(engine.Handle(x), engine.Handle(n))
		return put(out, C.uint32_t(cbool(on)), c)
	})
}

//export ho_soft_cuGraphUpload
func ho_soft_cuGraphUpload(x C.ho_graph_exec, s C.ho_stream) C.ho_result {
	return call("cuGraphUpload", func(e *eng, t *thr) code { return e.GraphUpload(t, engine.Handle(x), engine.Handle(s)) })
}

//export ho_soft_cuGraphLaunch
func ho_soft_cuGraphLaunch(x C.ho_graph_exec, s C.ho_stream) C.ho_result {
	return call("cuGraphLaunch", func(e *eng, t *thr) code { return e.GraphLaunch(t, engine.Handle(x), engine.Handle(s)) })
}

//export ho_soft_cuGraphExecDestroy
func ho_soft_cuGraphExecDestroy(x C.ho_graph_exec) C.ho_result {
	return call("cuGraphExecDestroy", func(e *eng, _ *thr) code { return e.ExecDestroy(engine.Handle(x)) })
}

//export ho_soft_cuGraphExecUpdate
func ho_soft_cuGraphExecUpdate(x C.ho_graph_exec, g C.ho_graph, out *C.ho_graph_exec_update_result) C.ho_result {
	return call("cuGraphExecUpdate", func(e *eng, _ *thr) code {
		if out == nil {
			return invalid
		}
		r, bad, c := e.ExecUpdate(engine.Handle(x), engine.Handle(g))
		*out = C.ho_graph_exec_update_result{result: C.int(r), error_node: C.ho_graph_node(bad)}
		return c
	})
}

//export ho_soft_cuGraphDebugDotPrint
func ho_soft_cuGraphDebugDotPrint(g C.ho_graph, path *C.char, flags C.uint32_t) C.ho_result {
	return call("cuGraphDebugDotPrint", func(e *eng, _ *thr) code {
		if path == nil {
			return invalid
		}
		f, err := os.Create(C.GoString(path))
		if err != nil {
			return invalid
		}
		c := e.Dot(f, engine.Handle(g), uint32(flags))
		if err := f.Close(); err != nil && c == 0 {
			return C.HO_CUDA_ERROR_OPERATING_SYSTEM
		}
		return c
	})
}

//export ho_soft_cuGraphConditionalHandleCreate
func ho_soft_cuGraphConditionalHandleCreate(out *C.ho_graph_conditional, g C.ho_graph, _1 C.ho_context, def, flags C.uint32_t) C.ho_result {
	return call("cuGraphConditionalHandleCreate", func(e *eng, _ *thr) code {
		if out == nil {
			return invalid
		}
		h, c := e.CondCreate(engine.Handle(g), uint32(def), uint32(flags))
		return put(out, C.ho_graph_conditional(h), c)
	})
}

//export ho_soft_cuUserObjectCreate
func ho_soft_cuUserObjectCreate(out *C.ho_user_object, ptr C.ho_word, destroy C.ho_host_fn, refs, flags C.uint32_t) C.ho_result {
	f := word(unsafe.Pointer(destroy))
	return call("cuUserObjectCreate", func(e *eng, _ *thr) code {
		if out == nil || f == 0 || flags != C.HO_CU_USER_OBJECT_NO_DESTRUCTOR_SYNC {
			return invalid
		}
		h, c := e.UserObject(func() { C.ho_soft_call_host(f, ptr) }, uint32(refs))
		return put(out, C.ho_user_object(h), c)
	})
}

//export ho_soft_cuUserObjectRetain
func ho_soft_cuUserObjectRetain(u C.ho_user_object, n C.uint32_t) C.ho_result {
	return call("cuUserObjectRetain", func(e *eng, _ *thr) code { return e.UserObjectRef(engine.Handle(u), int(int32(n))) })
}

//export ho_soft_cuUserObjectRelease
func ho_soft_cuUserObjectRelease(u C.ho_user_object, n C.uint32_t) C.ho_result {
	return call("cuUserObjectRelease", func(e *eng, _ *thr) code { return e.UserObjectRef(engine.Handle(u), -int(int32(n))) })
}

//export ho_soft_cuGraphRetainUserObject
func ho_soft_cuGraphRetainUserObject(g C.ho_graph, u C.ho_user_object, n, flags C.uint32_t) C.ho_result {
	return call("cuGraphRetainUserObject", func(e *eng, _ *thr) code {
		if flags > 1 {
			return invalid
		}
		return e.GraphUser(engine.Handle(g), engine.Handle(u), int(int32(n)), flags == C.HO_CU_GRAPH_USER_OBJECT_MOVE)
	})
}

//export ho_soft_cuGraphReleaseUserObject
func ho_soft_cuGraphReleaseUserObject(g C.ho_graph, u C.ho_user_object, n C.uint32_t) C.ho_result {
	return call("cuGraphReleaseUserObject", func(e *eng, _ *thr) code {
		return e.GraphUser(engine.Handle(g), engine.Handle(u), -int(int32(n)), false)
	})
}
