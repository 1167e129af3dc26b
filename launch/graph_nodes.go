package launch

import (
	"runtime"
	"slices"
	"unsafe"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
)

// add makes one node: it checks the dependencies and calls the driver.
func (g *Graph) add(op string, deps []Node, call func(d *driver.Driver, deps []driver.GraphNodeHandle) (driver.GraphNodeHandle, driver.Result)) (Node, error) {
	defer g.exit()
	if err := g.enter(op); err != nil {
		return Node{}, err
	}
	h, err := g.handles(op, deps)
	if err != nil {
		return Node{}, err
	}
	n, res := call(g.own.d, h)
	if err := g.check(op, res); err != nil {
		return Node{}, err
	}
	return Node{g, n}, nil
}

// Launch adds a kernel, with arguments as [Launch] takes them, that runs after
// deps. An empty grid adds a node that does nothing.
func (g *Graph) Launch(cfg Config, k *Kernel, args []any, deps ...Node) (Node, error) {
	return g.LaunchIn(g.Context(), cfg, k, args, deps...)
}

// LaunchIn is [Graph.Launch] in another context than the graph's, which may be
// of another device.
func (g *Graph) LaunchIn(ctx *device.Context, cfg Config, k *Kernel, args []any, deps ...Node) (Node, error) {
	const op = "add kernel node"
	if err := g.made(op); err != nil {
		return Node{}, err
	}
	if ctx.Device() == nil {
		return Node{}, invalid("%s: no context", op)
	}
	b, skip, err := packNode(op, ctx, &cfg, k, args, g.own.keep)
	if err != nil {
		return Node{}, err
	}
	if skip {
		return g.Empty(deps...)
	}
	defer k.exit()
	defer b.end()
	n, err := g.add(op+" "+k.info.name, deps, func(d *driver.Driver, deps []driver.GraphNodeHandle) (driver.GraphNodeHandle, driver.Result) {
		p := b.nodeParams(ctx, &cfg, k)
		n, res := d.GraphAddKernelNode(g.handle, deps, &p)
		if res != driver.Success || cfg.plain() {
			return n, res
		}
		var list [maxAttributes]driver.LaunchAttribute
		for i := range cfg.attributes(list[:]) {
			if res := d.GraphKernelNodeSetAttribute(n, list[i].ID, &list[i].Value); res != driver.Success {
				_ = d.GraphDestroyNode(n)
				return 0, res
			}
		}
		return n, res
	})
	runtime.KeepAlive(b)
	return n, err
}

// packNode packs the arguments of a kernel node and keeps what they use. If
// the grid is empty there is nothing to run, otherwise the kernel is in use
// until the caller says exit, and the block until end.
func packNode(op string, ctx *device.Context, cfg *Config, k *Kernel, args []any, keep *holds) (b *block, skip bool, err error) {
	if k == nil {
		return nil, false, invalid("%s: no kernel", op)
	}
	if err := k.enter(op); err != nil {
		return nil, false, err
	}
	packed, err := beginBlock(k, len(args))
	if err != nil {
		k.exit()
		return nil, false, err
	}
	defer func() {
		if err != nil || skip {
			packed.end()
			k.exit()
		}
	}()
	dev := ctx.Device()
	for i, x := range args {
		at, m := packed.set(i, x)
		if m == nil {
			m = reach(&at, dev, cfg)
		}
		if m != nil {
			return nil, false, packed.fail(k, i, m)
		}
	}
	if skip, err = cfg.ready(k, dev, &packed.call.Config); err != nil || skip {
		return nil, skip, err
	}
	for i, x := range args {
		if buf, ok := x.(*device.Buffer); ok {
			if err := keep.buffer(buf); err != nil {
				return nil, false, packed.fail(k, i, &misfit{detail: "a buffer", err: err})
			}
		}
	}
	if err := keep.kernel(k); err != nil {
		return nil, false, err
	}
	if err := keep.context(ctx); err != nil {
		return nil, false, err
	}
	return packed, false, nil
}

func (b *block) nodeParams(ctx *device.Context, cfg *Config, k *Kernel) driver.KernelNodeParams {
	c := &b.call.Config
	p := driver.KernelNodeParams{
		GridX: c.GridX, GridY: c.GridY, GridZ: c.GridZ, BlockX: c.BlockX, BlockY: c.BlockY, BlockZ: c.BlockZ,
		SharedBytes: uint32(cfg.SharedMem), Params: uintptr(b.list()),
	}
	if k.info.handle != 0 {
		p.Kern, p.Ctx = k.info.handle, ctx.Handle()
	} else {
		p.Func = k.info.fn
	}
	return p
}

// Copy adds a copy of n bytes between two buffers, of any devices.
func (g *Graph) Copy(dst *device.Buffer, dstOff int64, src *device.Buffer, srcOff, n int64, deps ...Node) (Node, error) {
	const op = "add copy node"
	if err := g.made(op); err != nil {
		return Node{}, err
	}
	c, err := copyParams(op, dst, dstOff, src, srcOff, n, g.own.keep)
	if err != nil {
		return Node{}, err
	}
	if n == 0 {
		return g.Empty(deps...)
	}
	return g.add(op, deps, func(d *driver.Driver, deps []driver.GraphNodeHandle) (driver.GraphNodeHandle, driver.Result) {
		return d.GraphAddMemcpyNode(g.handle, deps, &c, g.ctx.Handle())
	})
}

func inBuffer(op string, b *device.Buffer, off, n int64) error {
	if b == nil {
		return invalid("%s: no buffer", op)
	}
	if off < 0 || n < 0 || off > b.Size() || n > b.Size()-off {
		return invalid("%s: bytes [%d, %d+%d) of a buffer of %d", op, off, off, n, b.Size())
	}
	return nil
}

func copyParams(op string, dst *device.Buffer, dstOff int64, src *device.Buffer, srcOff, n int64, keep *holds) (c driver.Memcpy3D, err error) {
	if err := inBuffer(op, dst, dstOff, n); err != nil {
		return c, err
	}
	if err := inBuffer(op, src, srcOff, n); err != nil {
		return c, err
	}
	if err := keep.buffer(dst); err != nil {
		return c, err
	}
	if err := keep.buffer(src); err != nil {
		return c, err
	}
	c = driver.Memcpy3D{WidthBytes: uintptr(n), Height: 1, Depth: 1, SrcPitch: uintptr(n), SrcHeight: 1, DstPitch: uintptr(n), DstHeight: 1}
	to, from := dst.Ptr()+driver.DevicePtr(dstOff), src.Ptr()+driver.DevicePtr(srcOff)
	if info := dst.Info(); info.HostAccessible && !info.Managed {
		c.DstType, c.DstHost = driver.MemoryTypeHost, uintptr(to)
	} else {
		c.DstType, c.DstDevice = driver.MemoryTypeDevice, to
	}
	if info := src.Info(); info.HostAccessible && !info.Managed {
		c.SrcType, c.SrcHost = driver.MemoryTypeHost, uintptr(from)
	} else {
		c.SrcType, c.SrcDevice = driver.MemoryTypeDevice, from
	}
	return c, nil
}

// Fill adds a fill of n elements of 1, 2 or 4 bytes, from a byte of a buffer on.
func (g *Graph) Fill(b *device.Buffer, off int64, value uint32, size int, n int64, deps ...Node) (Node, error) {
	const op = "add fill node"
	if err := g.made(op); err != nil {
		return Node{}, err
	}
	p, err := fillParams(op, b, off, value, size, n, g.own.keep)
	if err != nil {
		return Node{}, err
	}
	if n == 0 {
		return g.Empty(deps...)
	}
	return g.add(op, deps, func(d *driver.Driver, deps []driver.GraphNodeHandle) (driver.GraphNodeHandle, driver.Result) {
		return d.GraphAddMemsetNode(g.handle, deps, &p, g.ctx.Handle())
	})
}

func fillParams(op string, b *device.Buffer, off int64, value uint32, size int, n int64, keep *holds) (p driver.MemsetNodeParams, err error) {
	if size != 1 && size != 2 && size != 4 {
		return p, invalid("%s: elements of %d bytes: 1, 2 and 4 are possible", op, size)
	}
	if n < 0 || n > (1<<62)/4 {
		return p, invalid("%s: %d elements", op, n)
	}
	if err := inBuffer(op, b, off, n*int64(size)); err != nil {
		return p, err
	}
	if at := uint64(b.Ptr()) + uint64(off); at%uint64(size) != 0 {
		return p, invalid("%s: address %#x for elements of %d bytes", op, at, size)
	}
	if size < 4 && value>>(8*size) != 0 {
		return p, invalid("%s: value %#x for elements of %d bytes", op, value, size)
	}
	if err := keep.buffer(b); err != nil {
		return p, err
	}
	return driver.MemsetNodeParams{
		Dst: b.Ptr() + driver.DevicePtr(off), Value: value, ElementSize: uint32(size), Width: uintptr(n), Height: 1,
	}, nil
}

// Host adds a Go function, which each launch calls on a thread of the driver:
// it must make no driver call and not wait for the device.
func (g *Graph) Host(fn func(), deps ...Node) (Node, error) {
	const op = "add host node"
	if err := g.made(op); err != nil {
		return Node{}, err
	}
	p, err := hostParams(op, fn, g.own.keep)
	if err != nil {
		return Node{}, err
	}
	return g.add(op, deps, func(d *driver.Driver, deps []driver.GraphNodeHandle) (driver.GraphNodeHandle, driver.Result) {
		return d.GraphAddHostNode(g.handle, deps, &p)
	})
}

func hostParams(op string, fn func(), keep *holds) (p driver.HostNodeParams, err error) {
	if fn == nil {
		return p, invalid("%s: no function", op)
	}
	f, user, release := driver.NewHostFunc(fn)
	if err := keep.add(nil, nil, release); err != nil {
		release()
		return p, err
	}
	return driver.HostNodeParams{Fn: f, User: user}, nil
}

// Child adds a copy of another graph as one node. What is changed in child
// later does not show.
func (g *Graph) Child(child *Graph, deps ...Node) (Node, error) {
	const op = "add child graph"
	if err := g.made(op); err != nil {
		return Node{}, err
	}
	if child == nil || child.own == nil || child.own == g.own {
		return Node{}, invalid("%s: the child is nil, or the graph itself", op)
	}
	defer exitBoth(g.own, child.own)
	if err := enterBoth(op, g.own, child.own); err != nil {
		return Node{}, err
	}
	h, err := g.handles(op, deps)
	if err != nil {
		return Node{}, err
	}
	n, res := g.own.d.GraphAddChildGraphNode(g.handle, h, child.handle)
	if err := g.check(op, res); err != nil {
		return Node{}, err
	}
	g.own.keep.others(child.own.keep)
	return Node{g, n}, nil
}

// enterBoth locks two graphs for one operation, in one order everywhere;
// exitBoth is called whether it fails or not.
func enterBoth(op string, a, b *graphOwner) error {
	first, second := a, b
	if first.handle > second.handle {
		first, second = second, first
	}
	first.mu.Lock()
	second.mu.Lock()
	if a.closed || b.closed {
		return closed(op)
	}
	return nil
}

func exitBoth(a, b *graphOwner) {
	a.mu.Unlock()
	b.mu.Unlock()
}

// Empty adds a node that only joins others.
func (g *Graph) Empty(deps ...Node) (Node, error) {
	return g.add("add empty node", deps, func(d *driver.Driver, deps []driver.GraphNodeHandle) (driver.GraphNodeHandle, driver.Result) {
		return d.GraphAddEmptyNode(g.handle, deps)
	})
}

// RecordEvent adds the record of an event, for work outside of the graph to
// wait for.
func (g *Graph) RecordEvent(e *device.Event, deps ...Node) (Node, error) {
	return g.event("add event record node", e, deps, (*driver.Driver).GraphAddEventRecordNode)
}

// WaitEvent adds a wait for an event that is recorded outside of the graph.
func (g *Graph) WaitEvent(e *device.Event, deps ...Node) (Node, error) {
	return g.event("add event wait node", e, deps, (*driver.Driver).GraphAddEventWaitNode)
}

func (g *Graph) event(op string, e *device.Event, deps []Node, call func(*driver.Driver, driver.GraphHandle, []driver.GraphNodeHandle, driver.EventHandle) (driver.GraphNodeHandle, driver.Result)) (Node, error) {
	if err := g.made(op); err != nil {
		return Node{}, err
	}
	if e == nil {
		return Node{}, invalid("%s: no event", op)
	}
	if err := g.own.keep.event(e); err != nil {
		return Node{}, err
	}
	return g.add(op, deps, func(d *driver.Driver, deps []driver.GraphNodeHandle) (driver.GraphNodeHandle, driver.Result) {
		return call(d, g.handle, deps, e.Handle())
	})
}

// Alloc adds an allocation of device memory, which nodes behind it may use at
// the address that is returned, in this launch and until a [Graph.Free] node or
// the driver's call frees it. peers are devices that may use it too.
func (g *Graph) Alloc(size int64, peers []*device.Device, deps ...Node) (Node, driver.DevicePtr, error) {
	const op = "add allocation node"
	if err := g.made(op); err != nil {
		return Node{}, 0, err
	}
	if size <= 0 {
		return Node{}, 0, invalid("%s: %d bytes", op, size)
	}
	if slices.ContainsFunc(peers, func(d *device.Device) bool { return d.Driver() == nil }) {
		return Node{}, 0, invalid("%s: a peer is nil", op)
	}
	dev := g.ctx.Device()
	p := driver.MemAllocNodeParams{
		Pool: driver.MemPoolProps{
			AllocType: driver.MemAllocationTypePinned,
			Location:  driver.MemLocation{Type: driver.MemLocationTypeDevice, ID: int32(dev.Ordinal())},
		},
		Bytes: uintptr(size),
	}
	var list *cMemory
	if len(peers) > 0 {
		list = newCMemory(len(peers) * int(unsafe.Sizeof(driver.MemAccessDesc{})))
		if list == nil {
			return Node{}, 0, &Error{Op: op, Device: dev.Ordinal(), Code: driver.ErrorOutOfMemory}
		}
		fillAccess(list, peers)
		p.Access, p.AccessCount = list.addr, uintptr(len(peers))
	}
	n, err := g.add(op, deps, func(d *driver.Driver, deps []driver.GraphNodeHandle) (driver.GraphNodeHandle, driver.Result) {
		return d.GraphAddMemAllocNode(g.handle, deps, &p)
	})
	runtime.KeepAlive(list)
	return n, p.Ptr, err
}

// Free adds the freeing of memory that a node of this or another graph, or a
// pool, allocated.
func (g *Graph) Free(ptr driver.DevicePtr, deps ...Node) (Node, error) {
	return g.add("add free node", deps, func(d *driver.Driver, deps []driver.GraphNodeHandle) (driver.GraphNodeHandle, driver.Result) {
		return d.GraphAddMemFreeNode(g.handle, deps, ptr)
	})
}

// Condition is a number that kernels of a graph set, with
// cudaGraphSetConditional, and conditional nodes ask. It is passed to a kernel
// as an argument of type cudaGraphConditionalHandle.
type Condition struct {
	g      *graphOwner
	handle driver.GraphConditionalHandle
}

// Handle returns the raw handle.
func (c Condition) Handle() driver.GraphConditionalHandle { return c.handle }

// Condition makes a condition of the graph. With reset every launch begins
// with that value; without, it is what was last set. A condition belongs to one
// conditional node. Needs a driver for CUDA 12.4.
func (g *Graph) Condition(value uint32, reset bool) (Condition, error) {
	const op = "create condition"
	defer g.exit()
	if err := g.enter(op); err != nil {
		return Condition{}, err
	}
	var flags uint32
	if reset {
		flags = driver.GraphCondAssignDefault
	}
	h, res := g.own.d.GraphConditionalHandleCreate(g.handle, g.ctx.Handle(), value, flags)
	return Condition{g.own, h}, g.check(op, res)
}

// If adds a node that runs its body if the condition is not 0. The body is
// empty: add nodes to it. It may have no nodes that allocate, free or touch
// the host, as the driver says.
func (g *Graph) If(c Condition, deps ...Node) (n Node, body *Graph, err error) {
	n, bodies, err := g.conditional(c, driver.GraphCondTypeIf, 1, deps)
	if err != nil {
		return n, nil, err
	}
	return n, bodies[0], nil
}

// IfElse is [Graph.If] with a second body for 0. Needs a driver for CUDA 12.8.
func (g *Graph) IfElse(c Condition, deps ...Node) (n Node, then, otherwise *Graph, err error) {
	n, bodies, err := g.conditional(c, driver.GraphCondTypeIf, 2, deps)
	if err != nil {
		return n, nil, nil, err
	}
	return n, bodies[0], bodies[1], nil
}

// While adds a node that runs its body as long as the condition is not 0; the
// body sets it.
func (g *Graph) While(c Condition, deps ...Node) (n Node, body *Graph, err error) {
	n, bodies, err := g.conditional(c, driver.GraphCondTypeWhile, 1, deps)
	if err != nil {
		return n, nil, err
	}
	return n, bodies[0], nil
}

// Switch adds a node that runs the body whose number the condition is, or
// none. Needs a driver for CUDA 12.8.
func (g *Graph) Switch(c Condition, bodies int, deps ...Node) (n Node, body []*Graph, err error) {
	return g.conditional(c, driver.GraphCondTypeSwitch, bodies, deps)
}

func (g *Graph) conditional(c Condition, kind int32, bodies int, deps []Node) (Node, []*Graph, error) {
	const op = "add conditional node"
	if err := g.made(op); err != nil {
		return Node{}, nil, err
	}
	if c.g != g.own {
		return Node{}, nil, invalid("%s: the condition is of another graph, or none", op)
	}
	if bodies < 1 || bodies > 1<<16 {
		return Node{}, nil, invalid("%s: %d bodies", op, bodies)
	}
	p := driver.GraphNodeParams{Type: driver.GraphNodeTypeConditional}
	// The fields of CUDA_CONDITIONAL_NODE_PARAMS.
	p.Params[0] = int64(c.handle)
	p.Params[1] = int64(kind) | int64(bodies)<<32
	p.Params[3] = int64(g.ctx.Handle())
	n, err := g.add(op, deps, func(d *driver.Driver, deps []driver.GraphNodeHandle) (driver.GraphNodeHandle, driver.Result) {
		return d.GraphAddNode(g.handle, deps, nil, &p)
	})
	if err != nil {
		return n, nil, err
	}
	handles := bodyHandles(uintptr(p.Params[2]), bodies)
	if len(handles) != bodies {
		return n, nil, &Error{Op: op, Device: g.ctx.Device().Ordinal(), Code: driver.ErrorUnknown, Detail: "the driver returned no bodies"}
	}
	list := make([]*Graph, bodies)
	for i, h := range handles {
		list[i] = &Graph{own: g.own, handle: h, ctx: g.ctx, root: g.root}
	}
	return n, list, nil
}
