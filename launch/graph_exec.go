package launch

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/stream"
)

// ErrUpdate means that an executable graph cannot become what it was asked to:
// instantiate a new one. The error is an [*Error] that says why.
var ErrUpdate = errors.New("executable graph cannot be updated")

// InstantiateOptions tune [Graph.Instantiate]. The zero value is the default.
type InstantiateOptions struct {
	// AutoFreeOnLaunch frees what a launch allocated, and nobody freed, when
	// the next one begins.
	AutoFreeOnLaunch bool
	// DeviceLaunch lets kernels launch the graph. It excludes AutoFreeOnLaunch.
	DeviceLaunch bool
	// UseNodePriority takes the priorities of the nodes in place of the
	// stream's.
	UseNodePriority bool
	// Upload, if not nil, is the stream on which the graph is readied, so that
	// the first launch is as fast as the others.
	Upload *device.Stream
}

// GraphExec is an executable graph. It may be launched any number of times;
// launches of one GraphExec run one after another. It keeps open what the
// graph's nodes use until it is closed and its launches are done. The graph
// itself may be closed, but to change nodes (SetLaunch and the like) it has to
// be open.
//
// A GraphExec may be used from several goroutines, which wait for each other.
type GraphExec struct {
	own     *execOwner
	ctx     *device.Context
	cleanup runtime.Cleanup
}

// execOwner is what is needed to give an executable graph back. It outlives the
// GraphExec, whose cleanup has it.
type execOwner struct {
	mu     sync.Mutex
	d      *driver.Driver
	dev    int
	handle driver.GraphExecHandle
	keep   *holds
	token  leak.Token
	closed bool
	// used are the streams that it was launched on: they stay until the
	// launches are done.
	used map[*device.Stream]stream.StreamView
}

// Instantiate makes an executable graph. opts may be nil. What the graph keeps
// open stays so even if the graph is closed.
func (g *Graph) Instantiate(opts *InstantiateOptions) (*GraphExec, error) {
	const op = "instantiate graph"
	var o InstantiateOptions
	if opts != nil {
		o = *opts
	}
	if err := g.made(op); err != nil {
		return nil, err
	}
	if g.root != g {
		return nil, invalid("%s: it is the body of a conditional node, or still captured", op)
	}
	if o.AutoFreeOnLaunch && o.DeviceLaunch {
		return nil, invalid("%s: DeviceLaunch excludes AutoFreeOnLaunch", op)
	}
	var p driver.GraphInstantiateParams
	for _, f := range []struct {
		on   bool
		flag uint64
	}{
		{o.AutoFreeOnLaunch, driver.GraphInstantiateFlagAutoFreeOnLaunch},
		{o.DeviceLaunch, driver.GraphInstantiateFlagDeviceLaunch},
		{o.UseNodePriority, driver.GraphInstantiateFlagUseNodePriority},
		{o.Upload != nil, driver.GraphInstantiateFlagUpload},
	} {
		if f.on {
			p.Flags |= f.flag
		}
	}
	defer g.exit()
	if err := g.enter(op); err != nil {
		return nil, err
	}
	if o.Upload != nil {
		if err := o.Upload.Begin(op); err != nil {
			return nil, err
		}
		defer o.Upload.End()
		p.UploadStream = o.Upload.Handle()
	}
	h, res := g.own.d.GraphInstantiateWithParams(g.ctx.Handle(), g.handle, &p)
	if res != driver.Success {
		return nil, &Error{Op: op, Device: g.ctx.Device().Ordinal(), Code: res, Detail: g.instantiateDetail(&p)}
	}
	keep := newHolds()
	keep.others(g.own.keep)
	x := &GraphExec{ctx: g.ctx, own: &execOwner{
		d: g.own.d, dev: g.ctx.Device().Ordinal(), handle: h, keep: keep, token: leak.Track("launch.GraphExec"),
		used: make(map[*device.Stream]stream.StreamView),
	}}
	stats.execs.Add(1)
	x.cleanup = runtime.AddCleanup(x, func(o *execOwner) {
		stats.collected.Add(1)
		go func() { _ = o.dispose() }()
	}, x.own)
	return x, nil
}

// instantiateDetail says what the driver did not like.
func (g *Graph) instantiateDetail(p *driver.GraphInstantiateParams) string {
	s := ""
	switch p.Result {
	case driver.GraphInstantiateInvalidStructure:
		s = "the edges make a circle"
	case driver.GraphInstantiateNodeOperationNotSupported:
		s = "a node does what a graph of this kind cannot"
	case driver.GraphInstantiateMultipleCtxsNotSupported:
		s = "the nodes are of several contexts"
	case driver.GraphInstantiateConditionalHandleUnused:
		s = "a condition has no conditional node"
	}
	if p.ErrorNode != 0 {
		if kind, res := g.own.d.GraphNodeGetType(p.ErrorNode); res == driver.Success {
			s += fmt.Sprintf(" (%v node %#x)", NodeKind(kind+1), uintptr(p.ErrorNode))
		}
	}
	return s
}

// Close destroys the executable graph, after the launches that are queued; the
// host does not wait, unless there is no memory for an event. It may be called twice.
func (x *GraphExec) Close() error {
	if x == nil || x.own == nil {
		return nil
	}
	x.cleanup.Stop()
	return x.own.dispose()
}

func (o *execOwner) dispose() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	o.closed = true
	busy := o.busy()
	if len(busy) == 0 {
		return o.destroy()
	}
	// The last stream that is done destroys it.
	left := len(busy)
	var mu sync.Mutex
	done := func(error) {
		mu.Lock()
		left--
		last := left == 0
		mu.Unlock()
		if last {
			_ = o.destroy()
		}
	}
	var err error
	for _, v := range busy {
		e := device.Defer(v, done)
		switch {
		case e == nil:
		case errors.Is(e, driver.ErrSticky) || !errors.Is(e, driver.ErrCapture) && v.Synchronize() == nil:
			// Nothing of it runs any more: the context is lost, or the host has
			// waited, as there was no memory for an event.
			done(nil)
		default:
			// Leaking is better than to destroy what runs.
			err = errors.Join(err, fmt.Errorf("launch: destroy executable graph: kept: %w", e))
		}
	}
	return shutdownIsFine(err)
}

// busy returns the streams on which a launch may still run.
func (o *execOwner) busy() (busy []stream.StreamView) {
	for _, v := range o.used {
		switch res := o.d.StreamPoll(v.Context(), v.Handle()); res {
		case driver.Success, driver.ErrorInvalidHandle, driver.ErrorInvalidContext, driver.ErrorContextIsDestroyed, driver.ErrorDeinitialized:
			// All is done, or gone.
		default:
			if !res.Sticky() { // also if the question failed
				busy = append(busy, v)
			}
		}
	}
	return busy
}

func (o *execOwner) destroy() error {
	res := o.d.GraphExecDestroy(o.handle)
	o.token.Done()
	stats.execs.Add(-1)
	o.keep.drop()
	for s := range o.used {
		s.End()
	}
	o.used = nil
	return shutdownIsFine(check("destroy executable graph", o.dev, res))
}

// Handle returns the raw handle, valid while x is open.
func (x *GraphExec) Handle() driver.GraphExecHandle {
	if x == nil || x.own == nil {
		return 0
	}
	return x.own.handle
}

// made refuses nil and the zero GraphExec, which are as good as closed.
func (x *GraphExec) made(op string) error {
	if x == nil || x.own == nil {
		return closed(op)
	}
	return nil
}

func (x *GraphExec) enter(op string) error {
	if err := x.made(op); err != nil {
		return err
	}
	x.own.mu.Lock()
	if x.own.closed {
		return closed(op)
	}
	return nil
}

func (x *GraphExec) exit() {
	if x != nil && x.own != nil {
		x.own.mu.Unlock()
	}
}

// on makes one call about x on a stream that stays until x is closed and its
// work is done.
func (x *GraphExec) on(op string, s *device.Stream, call func(*driver.Driver, driver.ContextHandle, driver.GraphExecHandle, driver.StreamHandle) driver.Result) error {
	if s == nil {
		return invalid("%s: no stream", op)
	}
	defer x.exit()
	if err := x.enter(op); err != nil {
		return err
	}
	if err := s.Begin(op); err != nil {
		return err
	}
	res := call(x.own.d, s.Context().Handle(), x.own.handle, s.Handle())
	if _, known := x.own.used[s]; known || res != driver.Success {
		s.End()
	} else {
		x.own.used[s] = waitable(s)
	}
	if res == driver.ErrorStreamCaptureUnsupported {
		return &Error{Op: op, Device: x.own.dev, Code: res, Detail: "the stream captures: add the graph as a child (Capture.Insert) in place of a launch"}
	}
	return launchError(op, x.own.dev, res)
}

// waitable is a view of a stream that any thread can wait for: for the
// per-thread default stream, the legacy one, which waits for it.
func waitable(s *device.Stream) stream.StreamView {
	h := s.Handle()
	if s.Kind() == stream.KindPerThreadDefault {
		h = driver.LegacyStream
	}
	return stream.Known(s.Device().Driver(), s.Context().Handle(), s.Device().Handle(), h, nil)
}

// Launch queues the graph on a stream: work that is queued on s before comes
// before all of its nodes, and work queued after comes after all.
func (x *GraphExec) Launch(s *device.Stream) error {
	return x.on("launch graph", s, (*driver.Driver).GraphLaunch)
}

// Upload readies the graph for a launch, in the order of s.
func (x *GraphExec) Upload(s *device.Stream) error {
	return x.on("upload graph", s, (*driver.Driver).GraphUpload)
}

// Update makes x do what g says, for launches from now on. g must have the
// nodes and edges that x was made of, with other parameters; if not, x stays
// as it is and the error wraps [ErrUpdate]. What the nodes used before stays
// kept until x is closed.
func (x *GraphExec) Update(g *Graph) error {
	const op = "update executable graph"
	if g == nil || g.own == nil {
		return invalid("%s: no graph", op)
	}
	defer x.exit()
	if err := x.enter(op); err != nil {
		return err
	}
	defer g.exit()
	if err := g.enter(op); err != nil {
		return err
	}
	info, res := x.own.d.GraphExecUpdate(x.own.handle, g.handle)
	if res == driver.Success {
		x.own.keep.others(g.own.keep)
		return nil
	}
	e := &Error{Op: op, Device: x.own.dev, Code: res}
	if res == driver.ErrorGraphExecUpdateFailure {
		e.Kind, e.Detail = ErrUpdate, "instantiate anew"
		switch info.Result {
		case driver.GraphExecUpdateErrorTopologyChanged:
			e.Detail = "the graph has other nodes or edges: " + e.Detail
		case driver.GraphExecUpdateErrorNodeTypeChanged:
			e.Detail = "a node is of another kind: " + e.Detail
		case driver.GraphExecUpdateErrorFunctionChanged, driver.GraphExecUpdateErrorUnsupportedFunctionChange:
			e.Detail = "a node's kernel cannot change so: " + e.Detail
		case driver.GraphExecUpdateErrorParametersChanged, driver.GraphExecUpdateErrorAttributesChanged:
			e.Detail = "parameters of a node cannot change so: " + e.Detail
		case driver.GraphExecUpdateErrorNotSupported:
			e.Detail = "a node of this kind cannot change: " + e.Detail
		}
	}
	return e
}

// update changes one node for launches from now on. n is a node of the graph
// that x was made of, which is still open.
func (x *GraphExec) update(op string, n Node, call func(*driver.Driver, driver.GraphExecHandle) driver.Result) error {
	if n.g == nil {
		return invalid("%s: no node", op)
	}
	defer x.exit()
	if err := x.enter(op); err != nil {
		return err
	}
	defer n.g.exit() // whose node the driver looks at
	if err := n.g.enter(op); err != nil {
		return err
	}
	res := call(x.own.d, x.own.handle)
	if res == driver.Success {
		return nil
	}
	return &Error{Op: op, Device: x.own.dev, Code: res, Kind: ErrUpdate}
}

// SetLaunch changes what a kernel node launches. Attributes of the launch
// (clusters, priority and so on) stay those of the node. Errors of arguments
// and configuration are those of [Launch].
func (x *GraphExec) SetLaunch(n Node, cfg Config, k *Kernel, args ...any) error {
	const op = "update kernel node"
	if err := x.made(op); err != nil {
		return err
	}
	ctx, err := nodeContext(op, n, x.ctx)
	if err != nil {
		return err
	}
	b, skip, err := packNode(op, ctx, &cfg, k, args, x.own.keep)
	if err != nil {
		return err
	}
	if skip {
		return invalid("%s: the grid is empty: use SetEnabled", op)
	}
	defer k.exit()
	defer b.end()
	p := b.nodeParams(ctx, &cfg, k)
	err = x.update(op, n, func(d *driver.Driver, h driver.GraphExecHandle) driver.Result {
		return d.GraphExecKernelNodeSetParams(h, n.h, &p)
	})
	runtime.KeepAlive(b)
	return err
}

// nodeContext returns the context that a kernel node runs in, which no change
// of its parameters changes: usual, unless the node says another. What is no
// kernel node is refused by the change.
func nodeContext(op string, n Node, usual *device.Context) (*device.Context, error) {
	if n.g == nil {
		return nil, invalid("%s: no node", op)
	}
	defer n.g.exit()
	if err := n.g.enter(op); err != nil {
		return nil, err
	}
	p, res := n.g.own.d.GraphKernelNodeGetParams(n.h)
	if res != driver.Success || p.Ctx == 0 || p.Ctx == usual.Handle() {
		return usual, nil
	}
	return device.WrapContext(p.Ctx)
}

// SetCopy changes what a copy node copies. The kinds of memory stay.
func (x *GraphExec) SetCopy(n Node, dst *device.Buffer, dstOff int64, src *device.Buffer, srcOff, bytes int64) error {
	const op = "update copy node"
	if err := x.made(op); err != nil {
		return err
	}
	if bytes == 0 {
		return invalid("%s: 0 bytes: use SetEnabled", op)
	}
	c, err := copyParams(op, dst, dstOff, src, srcOff, bytes, x.own.keep)
	if err != nil {
		return err
	}
	return x.update(op, n, func(d *driver.Driver, h driver.GraphExecHandle) driver.Result {
		return d.GraphExecMemcpyNodeSetParams(h, n.h, &c, x.ctx.Handle())
	})
}

// SetFill changes what a fill node fills.
func (x *GraphExec) SetFill(n Node, b *device.Buffer, off int64, value uint32, size int, count int64) error {
	const op = "update fill node"
	if err := x.made(op); err != nil {
		return err
	}
	if count == 0 {
		return invalid("%s: 0 elements: use SetEnabled", op)
	}
	p, err := fillParams(op, b, off, value, size, count, x.own.keep)
	if err != nil {
		return err
	}
	return x.update(op, n, func(d *driver.Driver, h driver.GraphExecHandle) driver.Result {
		return d.GraphExecMemsetNodeSetParams(h, n.h, &p, x.ctx.Handle())
	})
}

// SetHost changes what a host node calls.
func (x *GraphExec) SetHost(n Node, fn func()) error {
	const op = "update host node"
	if err := x.made(op); err != nil {
		return err
	}
	p, err := hostParams(op, fn, x.own.keep)
	if err != nil {
		return err
	}
	return x.update(op, n, func(d *driver.Driver, h driver.GraphExecHandle) driver.Result {
		return d.GraphExecHostNodeSetParams(h, n.h, &p)
	})
}

// SetChild changes a child graph to another one with the same nodes and edges.
func (x *GraphExec) SetChild(n Node, child *Graph) error {
	const op = "update child graph"
	if n.g == nil || child == nil || child.own == nil || child.own == n.g.own {
		return invalid("%s: no node, or the child is nil or the graph itself", op)
	}
	defer x.exit()
	if err := x.enter(op); err != nil {
		return err
	}
	defer exitBoth(n.g.own, child.own)
	if err := enterBoth(op, n.g.own, child.own); err != nil {
		return err
	}
	if res := x.own.d.GraphExecChildGraphNodeSetParams(x.own.handle, n.h, child.handle); res != driver.Success {
		return &Error{Op: op, Device: x.own.dev, Code: res, Kind: ErrUpdate}
	}
	x.own.keep.others(child.own.keep)
	return nil
}

// SetEvent changes the event of a node that records or waits for one.
func (x *GraphExec) SetEvent(n Node, e *device.Event) error {
	const op = "update event node"
	if err := x.made(op); err != nil {
		return err
	}
	if e == nil {
		return invalid("%s: no event", op)
	}
	kind, err := n.Kind()
	if err != nil {
		return err
	}
	if kind != KindRecordEvent && kind != KindWaitEvent {
		return invalid("%s: it is a node of kind %v", op, kind)
	}
	if err := x.own.keep.event(e); err != nil {
		return err
	}
	return x.update(op, n, func(d *driver.Driver, h driver.GraphExecHandle) driver.Result {
		if kind == KindRecordEvent {
			return d.GraphExecEventRecordNodeSetEvent(h, n.h, e.Handle())
		}
		return d.GraphExecEventWaitNodeSetEvent(h, n.h, e.Handle())
	})
}

// SetEnabled switches a kernel, copy or fill node on or off: what is off does
// nothing, and its edges stay.
func (x *GraphExec) SetEnabled(n Node, on bool) error {
	var flag uint32
	if on {
		flag = 1
	}
	return x.update("enable node", n, func(d *driver.Driver, h driver.GraphExecHandle) driver.Result {
		return d.GraphNodeSetEnabled(h, n.h, flag)
	})
}

// Enabled says whether a kernel, copy or fill node is on.
func (x *GraphExec) Enabled(n Node) (bool, error) {
	var on uint32
	err := x.update("ask whether node is enabled", n, func(d *driver.Driver, h driver.GraphExecHandle) (res driver.Result) {
		on, res = d.GraphNodeGetEnabled(h, n.h)
		return res
	})
	return on != 0, err
}

func isShutdown(err error) bool { return errors.Is(err, driver.ErrShutdown) }
