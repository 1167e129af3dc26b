package memview

import (
	"context"
	"strconv"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/stream"
)

// ImportOptions tune [Import]. The zero value is the default.
type ImportOptions struct {
	// Writable refuses memory that must not be written, with
	// [dlpack.ErrReadOnly].
	Writable bool
	// Device is where the memory is wanted; the zero Device for where it is.
	Device dlpack.Device
	// Copy says whether the producer may, must or must not copy.
	Copy dlpack.CopyMode
	// Producer is the stream that the producer works on, where the caller
	// knows it, for example from an exchange table. Then the producer is asked
	// not to order, and the edge is made here: also with producers that get
	// it wrong (B223). Ignored for CopyAlways.
	Producer stream.StreamView
	// Probe asks the driver what CPU memory is, as [StridedMemoryView.Probe]
	// does: pinned tensors of some libraries say CPU. It is one call into the
	// driver; other memory is not asked about.
	Probe bool
}

// ProducerStreamer is implemented by producers that can tell which stream they
// work on. The zero view says that there is none.
type ProducerStreamer interface {
	ProducerStream() stream.StreamView
}

// Import takes an array from a producer: from_dlpack with its ordering. What
// work was queued by the producer is done before work that is queued
// afterwards on the stream of [stream.On], without blocking the host; with
// [stream.NoSync] nothing is ordered. Memory that no device touches needs no
// order; for all other the zero Order is an error that wraps
// [stream.ErrNoOrder].
//
// The producer is told the stream in the form that its device has (R126 to
// R142): an explicit number, never None or 0 on CUDA, -1 for NoSync. If the
// stream is of another device than the memory, the producer is given one of its
// own device, which the caller's stream then waits for (R148); if the two
// devices have no path to each other the error wraps [device.ErrPeerAccess] and
// names both (B287).
//
// While the stream captures, the producer's work has to belong to the same
// capture; otherwise the driver refuses the edge ([device.ErrCapture]), and
// importing with NoSync what was ordered before the capture began is the way.
//
// Errors of the producer pass through unchanged (R163). On an error nothing is
// left behind.
func Import(p dlpack.Producer, order stream.Order, opts *ImportOptions) (StridedMemoryView, error) {
	const op = "import"
	var o ImportOptions
	if opts != nil {
		o = *opts
	}
	if p == nil {
		return StridedMemoryView{}, fail(op, "", dlpack.ErrNull, "no producer")
	}
	have, err := p.DLPackDevice()
	if err != nil {
		return StridedMemoryView{}, err
	}
	if !have.Type.HasAddresses() {
		return StridedMemoryView{}, fail(op, "R038", dlpack.ErrDevice, have.String()+" memory has no address")
	}
	want := have
	if o.Device != (dlpack.Device{}) {
		want = o.Device
	}
	req := dlpack.Request{Device: o.Device, Copy: o.Copy}
	from := o.Producer
	if from.Valid() && (o.Copy == dlpack.CopyAlways || want != have) {
		from = stream.StreamView{} // the copy has to be ordered by who makes it
	}
	bridge, err := argument(&req, want, order, from.Valid())
	if err != nil {
		return StridedMemoryView{}, err
	}
	if bridge != nil {
		defer func() { _ = bridge.Close() }()
	}
	m, err := dlpack.From(p, &req)
	if err != nil {
		return StridedMemoryView{}, err
	}
	v, err := take(op, m, want, &o)
	if err != nil {
		m.Release()
		return StridedMemoryView{}, err
	}
	if want.Type == dlpack.DeviceCPU {
		if !o.Probe {
			return v, nil
		}
		w, err := v.Probe()
		if err != nil {
			m.Release()
			return StridedMemoryView{}, err
		}
		return w, nil
	}
	on, ordered := order.Stream()
	if bridge != nil && !v.layout.empty() {
		if driver.Checking() {
			from := bridge.View()
			v.handOver(&from)
		}
		if err := on.WaitFor(bridge.View()); err != nil {
			m.Release()
			return StridedMemoryView{}, fail(op, "", err, "")
		}
	}
	if from.Valid() {
		w, err := v.Ordered(from, order)
		if err != nil {
			m.Release()
		}
		return w, err
	}
	pl := v.placed()
	switch s := p.(type) {
	case StridedMemoryView:
		pl.from = s.pending() // where its holder goes on
	case ProducerStreamer:
		pl.from = s.ProducerStream()
	}
	if ordered {
		pl.on = on
	}
	if ordered || pl.from.Valid() {
		v.place = &pl
	}
	return v, nil
}

// take makes the view of an imported tensor and checks what was promised.
func take(op string, m dlpack.Managed, want dlpack.Device, o *ImportOptions) (StridedMemoryView, error) {
	if got := m.Device(); got != want {
		return StridedMemoryView{}, fail(op, "R155", dlpack.ErrDevice, "announced "+want.String()+", got "+got.String())
	}
	v, err := FromDLPack(m)
	if err != nil {
		return StridedMemoryView{}, err
	}
	if o.Writable && v.ReadOnly() {
		return StridedMemoryView{}, fail(op, "R015", dlpack.ErrReadOnly, "the memory may not be written")
	}
	return v, nil
}

// argument fills in the stream of a request. The stream that it returns, or
// nil, stands in for that of order on the producer's device.
func argument(req *dlpack.Request, want dlpack.Device, order stream.Order, nosync bool) (*device.Stream, error) {
	const op = "import"
	if want.Type == dlpack.DeviceCPU {
		return nil, nil // R135, R147: no stream, whatever the order says
	}
	if err := order.Check(); err != nil {
		return nil, fail(op, "", err, want.String()+" memory: say On(stream) or NoSync()")
	}
	s, on := order.Stream()
	if !on || nosync {
		req.Stream = dlpack.StreamInt(-1) // R127
		return nil, nil
	}
	switch want.Type {
	case dlpack.DeviceCUDA, dlpack.DeviceCUDAHost, dlpack.DeviceCUDAManaged:
	default:
		return nil, fail(op, "", dlpack.ErrDevice, want.String()+" memory cannot be ordered on a CUDA stream")
	}
	if want.Type == dlpack.DeviceCUDA && int32(s.Device()) != want.ID {
		if err := reaches(s.Device(), driver.Device(want.ID)); err != nil {
			return nil, fail(op, "B287", err, "")
		}
		capturing, err := s.Capturing()
		if err != nil {
			return nil, fail(op, "", err, "")
		}
		if !capturing || s.Kind() != stream.KindCreated {
			bridge, err := bridgeOn(want.ID)
			if err != nil {
				return nil, fail(op, "", err, "")
			}
			req.Stream = dlpack.StreamUint(uint64(bridge.Handle()))
			return bridge, nil
		}
		// A stream made for the purpose would have to outlive the capture. The
		// handle of a created stream means the same on every device.
	}
	// The same numbers as cai.StreamArgument.DLPack gives: 1, 2 or the handle.
	req.Stream = dlpack.StreamUint(uint64(s.Handle()))
	return nil, nil
}

// bridgeOn returns a new stream of a device, by which another device's stream is
// ordered.
func bridgeOn(ordinal int32) (*device.Stream, error) {
	d, err := device.Open(int(ordinal))
	if err != nil {
		return nil, err
	}
	return d.NewStream(nil)
}

// reaches returns an error that names both devices if kernels on one cannot
// reach memory of the other (B277).
func reaches(from, to driver.Device) error {
	a, err := device.Open(int(from))
	if err != nil {
		return err
	}
	b, err := device.Open(int(to))
	if err != nil {
		return err
	}
	can, err := a.CanAccess(b)
	if err != nil {
		return err
	}
	if !can {
		return &device.Error{
			Op: "reach memory of " + b.String() + " from " + a.String(), Device: a.Ordinal(), Code: driver.ErrorPeerAccessUnsupported,
			Detail: "order on a stream of " + b.String() + " and copy with CopyOn",
		}
	}
	return nil
}

// Ordered orders memory that came without a protocol, such as a raw address:
// work that is queued on from is done before work that is queued afterwards on
// the stream of [stream.On], by one event edge. None is made if both are one
// stream, after [stream.NoSync], and for empty views. The zero from stands for
// the stream that the view knows already, and for nothing pending if it knows
// none: so a view can be taken on to another stream.
//
// The result knows both streams. The first from is the producer's and stays so.
// Host memory, which no device touches, is returned as it is.
//
// The error wraps [stream.ErrNoOrder] for the zero Order, or is the driver's.
func (v StridedMemoryView) Ordered(from stream.StreamView, order stream.Order) (StridedMemoryView, error) {
	const op = "order"
	if v.layout.width == 0 {
		return StridedMemoryView{}, fail(op, "", dlpack.ErrNull, "the view is the zero value")
	}
	if !v.IsDeviceAccessible() {
		return v, nil
	}
	if err := order.Check(); err != nil {
		return StridedMemoryView{}, fail(op, "", err, v.device.String()+" memory: say On(stream) or NoSync()")
	}
	on, ordered := order.Stream()
	after := from
	if !after.Valid() {
		after = v.pending()
	}
	if driver.Checking() && after.Valid() {
		v.handOver(&after)
	}
	if ordered && after.Valid() && !v.layout.empty() {
		if err := on.WaitFor(after); err != nil {
			return StridedMemoryView{}, fail(op, "", err, "")
		}
	}
	if !ordered && !from.Valid() {
		return v, nil
	}
	p := v.placed()
	if !p.from.Valid() {
		p.from = from
	}
	if ordered {
		p.on = on
	}
	v.place = &p
	return v, nil
}

// ProducerStreamOf identifies the stream that a producer works on by its raw
// handle, as an exchange table's current-stream function (R112) or a CUDA Array
// Interface names it. 0, 1 and 2 are the default streams of the device's
// primary context; the per-thread one may be used only on the calling thread.
// owner, which may be nil, is kept alive as long as the view.
func ProducerStreamOf(dev dlpack.Device, handle uintptr, owner any) (stream.StreamView, error) {
	const op = "producer stream"
	d, err := device.Open(int(dev.ID))
	if err != nil {
		return stream.StreamView{}, fail(op, "", err, "")
	}
	c, err := d.PrimaryContext()
	if err != nil {
		return stream.StreamView{}, fail(op, "", err, "")
	}
	if handle <= uintptr(driver.PerThreadStream) {
		return stream.Known(d.Driver(), c.Handle(), d.Handle(), driver.StreamHandle(handle), owner), nil
	}
	s, err := stream.WrapHandle(handle, &stream.Options{Driver: d.Driver(), Context: c.Handle(), Owner: owner})
	if err != nil {
		return stream.StreamView{}, fail(op, "", err, "")
	}
	return s, nil
}

// BufferOptions tune [FromDeviceBuffer]. The zero value is the default.
type BufferOptions struct {
	// Strides are in elements; nil means row-major.
	Strides []int64
	// Offset is the first element of the view, in elements.
	Offset int64
	// ReadOnly forbids writing through the view.
	ReadOnly bool
	// Producer is the stream on which work that writes the buffer is queued;
	// the zero view if there is none.
	Producer stream.StreamView
}

// FromDeviceBuffer makes a view of a buffer of package device, whose layout
// must lie inside of it: [dlpack.ErrLayout] otherwise. The view takes the
// buffer over on success: releasing the view closes it, in the order of the
// streams that it was used on (on [StridedMemoryView.ReleaseOn]'s too). On an
// error the caller still has it.
//
// order is as for [Import]; the edge is made from opts.Producer, see
// [StridedMemoryView.Ordered].
func FromDeviceBuffer(b *device.Buffer, dtype dlpack.DataType, shape []int64, order stream.Order, opts *BufferOptions) (StridedMemoryView, error) {
	const op = "device buffer"
	var o BufferOptions
	if opts != nil {
		o = *opts
	}
	if b == nil {
		return StridedMemoryView{}, fail(op, "", dlpack.ErrNull, "no buffer")
	}
	if b.Closed() {
		return StridedMemoryView{}, errReleased(op)
	}
	if err := dtype.Check(); err != nil {
		return StridedMemoryView{}, fail(op, "", err, "")
	}
	l, err := newLayout(op, shape, o.Strides, widthOf(dtype, false))
	if err != nil {
		return StridedMemoryView{}, err
	}
	if !l.empty() {
		lo, hi := l.byteBounds()
		at, ok := mul(o.Offset, int64(l.width))
		if ok = ok && at >= 0 && hi-lo <= b.Size(); ok { // so the sums below fit
			l.offset = o.Offset
			lo, hi = l.byteBounds()
		}
		if !ok || lo < 0 || hi > b.Size() {
			return StridedMemoryView{}, fail(op, "", dlpack.ErrLayout,
				l.String()+" at element "+strconv.FormatInt(o.Offset, 10)+" of a buffer of "+strconv.FormatInt(b.Size(), 10)+" bytes")
		}
	}
	v := StridedMemoryView{addr: uintptr(b.Ptr()), dtype: dtype, device: b.DLDevice(), layout: l}
	if v.device.Type != dlpack.DeviceCUDA {
		v.device.ID = 0 // R036
	}
	if o.ReadOnly {
		v.flags = dlpack.FlagReadOnly
	}
	v.fold()
	if a := uintptr(dtype.Alignment()); !l.empty() && v.address()%a != 0 {
		return StridedMemoryView{}, fail(op, "R041", dlpack.ErrAlign, "address 0x"+strconv.FormatUint(uint64(v.address()), 16)+" for "+dtype.String())
	}
	p := place{buffer: b}
	p.setInfo(b.Info())
	v.place = &p
	if v, err = v.Ordered(o.Producer, order); err != nil {
		return StridedMemoryView{}, err
	}
	v.owner = OnRelease(b, b.Close)
	return v, nil
}

// Wait blocks until the work that the view knows of is done, so that the host
// may touch the memory: what is queued on [StridedMemoryView.Stream], or on the
// producer's stream. If the view knows no stream there is nothing to wait for.
// Ending ctx ends the waiting, not the work.
func (v StridedMemoryView) Wait(ctx context.Context) error {
	s := v.pending()
	if !s.Valid() {
		return nil
	}
	if err := synchronize(ctx, s); err != nil {
		return fail("wait", "", err, "")
	}
	return nil
}

// synchronize waits without holding a thread; see [device.Stream.Synchronize].
func synchronize(ctx context.Context, s stream.StreamView) error {
	ds, err := device.Wrap(s, nil)
	if err != nil {
		return err
	}
	return ds.Synchronize(ctx)
}
