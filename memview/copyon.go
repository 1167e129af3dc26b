package memview

import (
	"runtime"
	"strconv"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/stream"
)

// CopyOn copies the elements of src to dst in the order of s, without blocking
// the host. Shapes and dtypes must be equal; the strides may be any, and each
// view may be on the host, pinned or not, on the device of s or on another one.
// For host memory without a stream there is [Copy].
//
// Dense blocks and rectangles are copied by the driver, other layouts on one device
// by a kernel, which also reads short rows of pinned memory that lie close
// together or are whole sectors of 32 bytes; of long copies of the former the host
// gathers a part meanwhile. Other strided host memory, and pageable memory, goes
// between the host and a device through pinned memory in pieces: goroutines, up to
// GOMAXPROCS for a piece, gather some while the device takes others. Host memory is
// read and written in the order of s too: host functions begin that work and wait
// for it. Between two devices, strided memory is gathered and scattered on either
// side. Views that overlap are copied as if src had been read whole before, through
// memory of the size of src.
//
// Both views have to be ordered on s before: work queued on s may use them.
// Memory of devices has to stay until the copy is done, which
// [StridedMemoryView.ReleaseOn] s sees to. Memory of CPU views is kept by the
// copy itself: Go memory, tensors, and lent memory, which it retains (B220,
// B355); it must not be written (src), or used (dst), before the copy is done.
// At most 8 copies use staging memory at a time, further ones wait for the
// device. The first copy on a device loads kernels and allocates staging
// memory, for which the driver may wait too: see [PrepareCopies].
//
// While s captures, copies by the driver and by kernels become part of the
// graph, which then must not outlive the memory. What needs a host function,
// Go memory or another stream gives an error wrapping [device.ErrCapture].
//
// Errors wrap [dlpack.ErrReadOnly], [dlpack.ErrDType], [dlpack.ErrClosed],
// [dlpack.ErrDevice], [dlpack.ErrLayout] if the shapes differ or dst names an
// element twice, [dlpack.ErrNotSupported] for packed elements that are not
// dense, or are the driver's. After an error part of the copy may have been queued.
func CopyOn(dst, src StridedMemoryView, s stream.StreamView) error {
	const op = "copy"
	if err := copyable(&dst, &src); err != nil {
		return err
	}
	if dst.layout.empty() {
		return nil // no strides are compared, no address is looked at (B029, B044)
	}
	if !s.Valid() {
		return fail(op, "", stream.ErrInvalid, "")
	}
	if err := distinct(op, &dst); err != nil {
		return err
	}
	if s.Kind() == stream.KindPerThreadDefault {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	capturing, err := s.Capturing() // refuses a per-thread stream of another thread
	if err != nil {
		return fail(op, "", err, "")
	}
	t := transfer{d: s.Driver(), ctx: s.Context(), s: s.Handle(), view: s, capturing: capturing}
	err = t.copy(&dst, &src)
	if err = t.finish(err); err != nil {
		return fail(op, "", err, dst.device.String()+" from "+src.device.String()+" on "+s.String())
	}
	return nil
}

// CopyTo is [CopyOn] to dst.
func (v StridedMemoryView) CopyTo(dst StridedMemoryView, s stream.StreamView) error {
	return CopyOn(dst, v, s)
}

// CopyFrom is [CopyOn] from src.
func (v StridedMemoryView) CopyFrom(src StridedMemoryView, s stream.StreamView) error {
	return CopyOn(v, src, s)
}

// copyable checks what does not depend on where the memory is. Packed elements
// become bytes.
func copyable(dst, src *StridedMemoryView) error {
	const op = "copy"
	for _, v := range []*StridedMemoryView{dst, src} {
		if v.layout.width == 0 {
			return fail(op, "", dlpack.ErrNull, "the view is the zero value")
		}
		if !v.owner.live() {
			return errReleased(op)
		}
	}
	if dst.dtype != src.dtype {
		return fail(op, "", dlpack.ErrDType, src.dtype.String()+" to "+dst.dtype.String())
	}
	if dst.ReadOnly() {
		return fail(op, "R015", dlpack.ErrReadOnly, "the view may not be written")
	}
	if err := sameShape(op, dst, src); err != nil {
		return err
	}
	if dst.layout.empty() || dst.layout.width%8 == 0 && dst.layout.width == src.layout.width {
		return nil
	}
	if dst.MemoryKind() == MemoryHost && src.MemoryKind() == MemoryHost {
		return nil
	}
	bits, ok := mul(dst.layout.size(), int64(dst.layout.width))
	if !ok || dst.layout.width != src.layout.width || bits%8 != 0 || dst.layout.offset != 0 || src.layout.offset != 0 ||
		!dst.layout.isC() || !src.layout.isC() {
		return fail(op, "R031", dlpack.ErrNotSupported, "packed "+dst.dtype.String()+" can be copied on a device if both sides are dense, of whole bytes, and packed alike")
	}
	for _, v := range []*StridedMemoryView{dst, src} {
		v.dtype = dlpack.UInt8
		v.layout = blank(1, 8, 0)
		v.layout.shape[0], v.layout.steps[0] = bits/8, 1
	}
	return nil
}

// side is one end of a copy.
type side struct {
	v      *StridedMemoryView
	addr   uint64
	kind   MemoryKind
	device int32
}

func (x *side) onHost() bool { return x.kind == MemoryHost || x.kind == MemoryPinned }

// transfer is a copy in the making.
type transfer struct {
	d         *driver.Driver
	ctx       driver.ContextHandle
	s         driver.StreamHandle
	view      stream.StreamView
	capturing bool
	done      []func() error // once the work on the stream is done
}

// side finds out where a view is. Host memory is asked about, unless
// [StridedMemoryView.Probe] did: whether it is pinned decides how to copy it.
func (t *transfer) side(v *StridedMemoryView) (side, error) {
	p := v.placed()
	x := side{v: v, addr: uint64(v.address()), kind: p.kind, device: p.device}
	switch v.device.Type {
	case dlpack.DeviceCUDA:
		return x, nil
	case dlpack.DeviceCPU, dlpack.DeviceCUDAHost, dlpack.DeviceCUDAManaged:
	default:
		return x, fail("copy", "", dlpack.ErrDevice, v.device.String()+" memory is out of reach of "+t.view.String())
	}
	if p.probed {
		return x, nil
	}
	info, res := t.d.PointerKind(driver.DevicePtr(x.addr))
	if res != driver.Success {
		return x, callError("ask about "+addressText(uintptr(x.addr)), &t.view, res)
	}
	x.device = int32(info.Device)
	switch {
	case info.Managed:
		x.kind = MemoryManaged
	case info.Type == driver.MemoryTypeHost:
		x.kind = MemoryPinned
	case info.Type == 0:
		x.kind, x.device = MemoryHost, -1
	default:
		return x, fail("copy", "R036", dlpack.ErrDevice, "announced as "+v.device.String()+", but it is memory of device "+strconv.Itoa(int(info.Device)))
	}
	return x, nil
}

// keep makes the memory of a CPU view stay until the copy is done: the caller
// thinks of it as memory without streams.
func (t *transfer) keep(x *side) error {
	v := x.v
	if v.device.Type != dlpack.DeviceCPU {
		return nil
	}
	if v.base != nil && x.kind == MemoryPinned { // Go memory that was registered with the driver
		if t.capturing {
			return t.captureError("Go memory cannot be captured")
		}
		pin := new(runtime.Pinner)
		pin.Pin(v.base)
		t.done = append(t.done, func() error { pin.Unpin(); return nil })
		return nil
	}
	if t.capturing {
		return nil // the graph outlives any claim that could be taken here
	}
	switch v.owner.kind {
	case ownerLent, ownerShared, ownerManaged:
		w, err := v.Retain()
		if err != nil {
			return err
		}
		t.done = append(t.done, w.Release)
	}
	return nil
}

func (t *transfer) captureError(detail string) error {
	return &device.Error{Op: "copy", Device: int(t.view.Device()), Code: driver.ErrorStreamCaptureUnsupported, Detail: detail}
}

func (t *transfer) err(op string, res driver.Result) error { return callError(op, &t.view, res) }

func callError(op string, s *stream.StreamView, res driver.Result) error {
	if res == driver.Success {
		return nil
	}
	return &device.Error{Op: op, Device: int(s.Device()), Code: res}
}

// finish arranges what has to be done once the copy is, also after an error:
// part of the work may be queued.
func (t *transfer) finish(err error) error {
	if len(t.done) == 0 {
		return err
	}
	done := t.done
	t.done = nil
	run := func() (err error) {
		for _, f := range done {
			err = joinErrors(err, f())
		}
		return err
	}
	if later := after(t.view, run); later != nil {
		// No event could be recorded: the host has to wait.
		err = joinErrors(err, later)
		err = joinErrors(err, t.err("synchronize", t.d.StreamSynchronize(t.ctx, t.s)))
		err = joinErrors(err, run())
	}
	return err
}

// copy chooses the way.
func (t *transfer) copy(dst, src *StridedMemoryView) error {
	d, err := t.side(dst)
	if err != nil {
		return err
	}
	f, err := t.side(src)
	if err != nil {
		return err
	}
	if err := t.keep(&d); err != nil {
		return err
	}
	if err := t.keep(&f); err != nil {
		return err
	}
	if d.onHost() && f.onHost() && !(t.capturing && d.kind == MemoryPinned && f.kind == MemoryPinned) {
		return t.onHost(dst, src)
	}
	if MayOverlap(*dst, *src) {
		if d.addr == f.addr && dst.layout.Equal(src.layout) {
			return nil
		}
		return t.throughTemporary(dst, src)
	}
	home := d.device
	if d.onHost() {
		home = f.device
	}
	// Managed memory is everybody's.
	if d.kind == MemoryManaged && (f.kind == MemoryManaged || f.onHost()) || f.kind == MemoryManaged && d.onHost() {
		home = int32(t.view.Device())
	}
	here := int32(t.view.Device())
	var p copyPlan
	p.plan(&dst.layout, &src.layout)
	if d.kind == MemoryDevice && f.kind == MemoryDevice && d.device != f.device {
		if p.box() > 0 && (here == d.device || here == f.device) {
			return t.peerBox(&p, &d, &f)
		}
		return t.peer(&p, &d, &f)
	}
	if f.kind == MemoryDevice {
		home = f.device
	}
	if home == here {
		return t.local(&p, &d, &f)
	}
	return t.on(home, func(u *transfer) error { return u.local(&p, &d, &f) })
}

// local copies between the device of the stream and itself or the host.
func (t *transfer) local(p *copyPlan, d, f *side) error {
	switch {
	case d.onHost():
		if d.kind == MemoryPinned && (t.capturing || p.run1(&p.dst) >= directRun) {
			return t.queue(p, d.addr, f.addr, toHost)
		}
		return t.unstage(p, d, f)
	case f.onHost():
		if f.kind != MemoryPinned {
			return t.stage(p, d, f, nil)
		}
		if t.capturing || p.run1(&p.src) >= directRun {
			return t.queue(p, d.addr, f.addr, fromHost)
		}
		through := p.readsThrough()
		if !through && !p.wholeSectors(f.addr) || !t.mapped(f.addr) {
			return t.stage(p, d, f, nil)
		}
		if rows := p.hostShare(); through && rows > 0 {
			gathered, read := *p, *p
			gathered.shape[0] = rows
			read.shape[0] -= rows
			read.dstBase += rows * p.dst[0]
			read.srcBase += rows * p.src[0]
			return t.stage(&gathered, d, f, &read)
		}
		return t.queue(p, d.addr, f.addr, fromHost)
	}
	return t.queue(p, d.addr, f.addr, onDevice)
}

// directRun is the length in bytes of the dense pieces of pinned memory from
// which on a device reaches it well by itself. Shorter pieces are gathered by
// the host, unless they lie close to one another or are whole sectors.
const directRun = 64

// sector is what a device reads of host memory at the least.
const sector = 32

// readsThrough reports whether a kernel that walks the elements in the order of
// dst reads host memory in one go and uses nearly half of what comes over the bus:
// the device is faster at that than the host is at gathering for it.
func (p *copyPlan) readsThrough() bool {
	span, bytes := p.item, p.bytes()
	for i := range p.n {
		if p.src[i] <= 0 || i > 0 && p.src[i] > p.src[i-1] {
			return false
		}
		span += (p.shape[i] - 1) * p.src[i]
	}
	return span <= bytes/4*9
}

// wholeSectors reports whether the dense pieces of src are sectors: nothing comes
// over the bus in vain, however far apart they are.
func (p *copyPlan) wholeSectors(src uint64) bool {
	m := src + uint64(p.srcBase)
	run := p.item
	for i := p.n - 1; i >= 0; i-- {
		if p.src[i] == run {
			run *= p.shape[i]
			continue
		}
		m |= uint64(p.src[i])
	}
	return (m|uint64(run))%sector == 0
}

// hostShare returns how many of the rows of the outermost axis the host should gather
// while a kernel reads the others: neither alone makes the bus busy, the kernel for want of
// requests that can be under way, the host for want of processors. Each of eight processors
// is good for a twentieth, and of eight more for half of that; what is more has no effect.
// Copies that are short are left to the kernel.
func (p *copyPlan) hostShare() int64 {
	if p.n == 0 || p.bytes() < stageSlots*largeSlot {
		return 0
	}
	procs := min(int64(runtime.GOMAXPROCS(0)), 16)
	return p.shape[0] / 40 * min(2*procs, 8+procs)
}

// mapped reports whether kernels reach pinned memory by the address that the host
// has for it: memory that was registered need not be. It is asked in the context:
// without one that is current a GPU's driver does not tell that address.
func (t *transfer) mapped(addr uint64) bool {
	p, res := t.d.MemHostGetDevicePointer(t.ctx, uintptr(addr), 0)
	return res == driver.Success && uint64(p) == addr
}

// onHost copies host memory in stream order.
func (t *transfer) onHost(dst, src *StridedMemoryView) error {
	if t.capturing {
		return t.captureError("a copy between two host arrays runs once, the graph may run often")
	}
	d, s := *dst, *src
	return t.err("copy on the host", t.d.LaunchHostGo(t.ctx, t.s, func() { _ = moveViews(d, s) }))
}

// throughTemporary copies views that overlap.
func (t *transfer) throughTemporary(dst, src *StridedMemoryView) error {
	if t.capturing {
		return t.captureError("a copy between views that overlap needs memory that would outlive the capture")
	}
	l, err := src.layout.Dense(OrderC)
	if err != nil {
		return err
	}
	b, err := t.allocate(int64(t.view.Device()), l.NumBytes())
	if err != nil {
		return err
	}
	tmp := StridedMemoryView{addr: uintptr(b.Ptr()), dtype: src.dtype, flags: src.flags &^ dlpack.FlagReadOnly, device: b.DLDevice(), layout: l, owner: Unowned()}
	err = t.copy(&tmp, src)
	if err == nil {
		err = t.copy(dst, &tmp)
	}
	return joinErrors(err, b.Close()) // in stream order
}

// allocate returns device memory that is given back in the order of the
// transfer's stream.
func (t *transfer) allocate(ordinal, size int64) (*device.Buffer, error) {
	dev, err := device.Open(int(ordinal))
	if err != nil {
		return nil, err
	}
	ds, err := device.Wrap(t.view, nil)
	if err != nil {
		return nil, err
	}
	return dev.Allocate(size, ds)
}

// on runs f on a stream of another device, between what is queued on the
// transfer's stream before and after.
func (t *transfer) on(ordinal int32, f func(u *transfer) error) error {
	if t.capturing {
		return t.captureError("the memory is of device " + strconv.Itoa(int(ordinal)))
	}
	s, err := bridgeOn(ordinal)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // what is queued still runs
	v := s.View()
	if err := v.WaitFor(t.view); err != nil {
		return err
	}
	u := transfer{d: t.d, ctx: v.Context(), s: v.Handle(), view: v}
	err = f(&u)
	t.done = append(t.done, u.done...)
	if e := t.view.WaitFor(v); e != nil {
		// Nothing may be left under way of which the caller's stream does not know.
		err = joinErrors(err, joinErrors(e, v.Synchronize()))
	}
	return err
}

// peer copies between two devices by way of dense memory on each side.
func (t *transfer) peer(p *copyPlan, d, f *side) error {
	run := func(u *transfer) error { // on the source's device
		tmp, err := u.allocate(int64(f.device), p.bytes())
		if err != nil {
			return err
		}
		gather, scatter := *p, *p
		gather.dstBase = 0
		gather.denseSteps(&gather.dst)
		scatter.srcBase = 0
		scatter.denseSteps(&scatter.src)
		err = u.queue(&gather, uint64(tmp.Ptr()), f.addr, onDevice)
		if err == nil {
			err = u.on(d.device, func(w *transfer) error {
				land, err := w.allocate(int64(d.device), p.bytes())
				if err != nil {
					return err
				}
				err = w.memcpyPeer(uint64(land.Ptr()), d.device, uint64(tmp.Ptr()), f.device, p.bytes())
				if err == nil {
					err = w.queue(&scatter, d.addr, uint64(land.Ptr()), onDevice)
				}
				return joinErrors(err, land.Close())
			})
		}
		return joinErrors(err, tmp.Close())
	}
	if int32(t.view.Device()) == f.device {
		return run(t)
	}
	return t.on(f.device, run)
}

func joinErrors(a, b error) error {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return joinRelease(a, func() error { return b })
}
