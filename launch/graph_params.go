package launch

import (
	"runtime"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
)

// Params returns what the node does, also one that was captured, in the
// driver's terms. By its kind this is
//
//	KindKernel       driver.KernelNodeParams; the arguments are the driver's own copy
//	KindCopy         driver.Memcpy3D
//	KindFill         driver.MemsetNodeParams
//	KindHost         driver.HostNodeParams
//	KindChild        *Graph, which goes with the graph that it is in, as a body does
//	KindWaitEvent,
//	KindRecordEvent  driver.EventHandle
//	KindAlloc        driver.MemAllocNodeParams
//	KindFree         driver.DevicePtr
//	KindEmpty        nil
//
// and ErrNotSupported for the others.
func (n Node) Params() (any, error) {
	const op = "parameters of node"
	if n.g == nil {
		return nil, invalid("%s: no node", op)
	}
	defer n.g.exit()
	if err := n.g.enter(op); err != nil {
		return nil, err
	}
	d := n.g.own.d
	kind, res := d.GraphNodeGetType(n.h)
	if err := n.g.check(op, res); err != nil {
		return nil, err
	}
	var p any
	switch NodeKind(kind + 1) {
	case KindKernel:
		p, res = d.GraphKernelNodeGetParams(n.h)
	case KindCopy:
		p, res = d.GraphMemcpyNodeGetParams(n.h)
	case KindFill:
		p, res = d.GraphMemsetNodeGetParams(n.h)
	case KindHost:
		p, res = d.GraphHostNodeGetParams(n.h)
	case KindChild:
		var h driver.GraphHandle
		if h, res = d.GraphChildGraphNodeGetGraph(n.h); res == driver.Success {
			return &Graph{own: n.g.own, handle: h, ctx: n.g.ctx, root: n.g.root}, nil
		}
	case KindWaitEvent:
		p, res = d.GraphEventWaitNodeGetEvent(n.h)
	case KindRecordEvent:
		p, res = d.GraphEventRecordNodeGetEvent(n.h)
	case KindAlloc:
		p, res = d.GraphMemAllocNodeGetParams(n.h)
	case KindFree:
		p, res = d.GraphMemFreeNodeGetParams(n.h)
	case KindEmpty:
	default:
		res = driver.ErrorNotSupported
	}
	if err := n.g.check(op, res); err != nil {
		return nil, err
	}
	return p, nil
}

// update changes the node in the graph, for what is instantiated or updated of
// it from now on.
func (n Node) update(op string, call func(*driver.Driver) driver.Result) error {
	defer n.g.exit()
	if err := n.g.enter(op); err != nil {
		return err
	}
	return n.g.check(op, call(n.g.own.d))
}

// SetLaunch changes what a kernel node launches, in the graph: see
// [GraphExec.SetLaunch] for what stays.
func (n Node) SetLaunch(cfg Config, k *Kernel, args ...any) error {
	const op = "change kernel node"
	if n.g == nil {
		return invalid("%s: no node", op)
	}
	ctx, err := nodeContext(op, n, n.g.ctx)
	if err != nil {
		return err
	}
	b, skip, err := packNode(op, ctx, &cfg, k, args, n.g.own.keep)
	if err != nil {
		return err
	}
	if skip {
		return invalid("%s: the grid is empty", op)
	}
	defer k.exit()
	defer b.end()
	p := b.nodeParams(ctx, &cfg, k)
	err = n.update(op, func(d *driver.Driver) driver.Result { return d.GraphKernelNodeSetParams(n.h, &p) })
	runtime.KeepAlive(b)
	return err
}

// SetCopy changes what a copy node copies, in the graph.
func (n Node) SetCopy(dst *device.Buffer, dstOff int64, src *device.Buffer, srcOff, bytes int64) error {
	const op = "change copy node"
	if n.g == nil || bytes == 0 {
		return invalid("%s: no node, or 0 bytes", op)
	}
	c, err := copyParams(op, dst, dstOff, src, srcOff, bytes, n.g.own.keep)
	if err != nil {
		return err
	}
	return n.update(op, func(d *driver.Driver) driver.Result { return d.GraphMemcpyNodeSetParams(n.h, &c) })
}

// SetFill changes what a fill node fills, in the graph.
func (n Node) SetFill(b *device.Buffer, off int64, value uint32, size int, count int64) error {
	const op = "change fill node"
	if n.g == nil || count == 0 {
		return invalid("%s: no node, or 0 elements", op)
	}
	p, err := fillParams(op, b, off, value, size, count, n.g.own.keep)
	if err != nil {
		return err
	}
	return n.update(op, func(d *driver.Driver) driver.Result { return d.GraphMemsetNodeSetParams(n.g.ctx.Handle(), n.h, &p) })
}

// SetHost changes what a host node calls, in the graph.
func (n Node) SetHost(fn func()) error {
	const op = "change host node"
	if n.g == nil {
		return invalid("%s: no node", op)
	}
	p, err := hostParams(op, fn, n.g.own.keep)
	if err != nil {
		return err
	}
	return n.update(op, func(d *driver.Driver) driver.Result { return d.GraphHostNodeSetParams(n.h, &p) })
}

// SetEvent changes the event of a node that records or waits for one, in the
// graph.
func (n Node) SetEvent(e *device.Event) error {
	const op = "change event node"
	if n.g == nil || e == nil {
		return invalid("%s: no node, or no event", op)
	}
	kind, err := n.Kind()
	if err != nil {
		return err
	}
	if kind != KindRecordEvent && kind != KindWaitEvent {
		return invalid("%s: it is a node of kind %v", op, kind)
	}
	if err := n.g.own.keep.event(e); err != nil {
		return err
	}
	return n.update(op, func(d *driver.Driver) driver.Result {
		if kind == KindRecordEvent {
			return d.GraphEventRecordNodeSetEvent(n.h, e.Handle())
		}
		return d.GraphEventWaitNodeSetEvent(n.h, e.Handle())
	})
}
