package memview

import (
	"context"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/stream"
)

// DLPack exports the view as the request asks; it makes a view a
// [dlpack.Producer]. The rules are those of [dlpack.Request.Plan].
//
// Shared memory: the work that the view knows of ([StridedMemoryView.Stream],
// or else the producer's stream) is done before work that is queued afterwards on
// the request's stream, by one event edge (R137, R138). No edge is made if both
// are one stream, the view knows of none, it is empty, or the request says -1
// (R127); then no stream is looked up either (B193). Per-thread default streams
// are those of the calling thread, to which the goroutine must be locked.
//
// Copies (R150, R153): on a device they are queued on the request's stream, in
// device memory that is freed on that stream when the consumer is done; the
// memory of the view is kept until then. For CPU (R145, R146) there is one copy into
// host memory, and the call returns when it is complete: this is where the
// protocol demands a host wait. Host memory can be copied to a device likewise.
// Copies carry [dlpack.FlagIsCopied] and are writable.
//
// Pinned and managed memory that is asked for as CPU memory is shared, and the
// call waits for the stream that the view knows, or, if it knows none, for its
// device.
//
// Copies and waits are refused while the stream captures ([device.ErrCapture]).
// Other errors are those of Plan, [StridedMemoryView.Export] and [CopyOn].
func (v StridedMemoryView) DLPack(r dlpack.Request) (dlpack.Capsule, error) {
	const op = "export"
	if v.layout.width == 0 {
		return dlpack.Capsule{}, fail(op, "", dlpack.ErrNull, "the view is the zero value")
	}
	if !v.owner.live() {
		return dlpack.Capsule{}, errReleased(op)
	}
	if v.device.Type == dlpack.DeviceCPU && (r.Device == dlpack.Device{} || r.Device == dlpack.CPU) && !v.pending().Valid() {
		return v.exportHost(r)
	}
	to := v.device
	if r.Device != (dlpack.Device{}) {
		to = r.Device
	}
	p, err := r.Plan(&dlpack.Offer{
		Device: v.device, DType: v.dtype, Flags: v.flags,
		CanCopy: v.canCopyTo(to), CanCopyTo: v.canCopyTo,
	})
	if err != nil {
		return dlpack.Capsule{}, fail(op, "", err, "")
	}
	var addr uintptr
	switch {
	case !p.Copy:
		addr, err = v.share(&p)
	case p.Device.Type == dlpack.DeviceCPU:
		addr, err = v.copyToHost(&p)
	default:
		addr, err = v.copyToDevice(&p)
	}
	if err != nil {
		return dlpack.Capsule{}, fail(op, "", err, "")
	}
	return dlpack.Capsule{Addr: addr, Versioned: p.Versioned}, nil
}

// exportHost exports memory that no stream works on.
func (v *StridedMemoryView) exportHost(r dlpack.Request) (dlpack.Capsule, error) {
	e, err := v.Export()
	if err != nil {
		return dlpack.Capsule{}, err
	}
	c, err := e.DLPack(r)
	if err = joinRelease(err, e.Close); err != nil {
		return dlpack.Capsule{}, fail("export", "", err, "")
	}
	return c, nil
}

// canCopyTo reports whether a copy of the view can be made on a device.
func (v *StridedMemoryView) canCopyTo(d dlpack.Device) bool {
	if v.layout.width%8 != 0 && !v.layout.isC() {
		return false
	}
	switch v.device.Type {
	case dlpack.DeviceCPU, dlpack.DeviceCUDA, dlpack.DeviceCUDAHost, dlpack.DeviceCUDAManaged:
	default:
		return false
	}
	switch d.Type {
	case dlpack.DeviceCPU, dlpack.DeviceCUDAHost, dlpack.DeviceCUDAManaged:
		return d.ID == 0
	case dlpack.DeviceCUDA:
		n, err := device.Count()
		return err == nil && d.ID >= 0 && int(d.ID) < n
	}
	return false
}

// ordinal returns the device that work on the memory is done by.
func (v *StridedMemoryView) ordinal() int32 {
	if s := v.pending(); s.Valid() {
		return int32(s.Device())
	}
	return max(int32(v.DeviceID()), 0)
}

// consumer identifies the stream of a request; ok is false if it is none.
func consumer(u dlpack.StreamUse, ordinal int32) (s stream.StreamView, ok bool, err error) {
	handle := uintptr(u.Handle)
	switch u.Kind {
	case dlpack.StreamLegacy:
		handle = 1
	case dlpack.StreamPerThread:
		handle = 2
	case dlpack.StreamHandle:
	default:
		return s, false, nil
	}
	s, err = ProducerStreamOf(dlpack.Device{Type: dlpack.DeviceCUDA, ID: ordinal}, handle, nil)
	return s, err == nil, err
}

// share exports the memory itself.
func (v *StridedMemoryView) share(p *dlpack.Plan) (uintptr, error) {
	if !v.layout.empty() {
		pending := v.pending()
		switch {
		case p.HostSync:
			if err := v.complete(); err != nil {
				return 0, err
			}
		case pending.Valid():
			c, ok, err := consumer(p.Stream, v.ordinal())
			if ok {
				err = c.WaitFor(pending)
			}
			if err != nil {
				return 0, err
			}
		}
	}
	e, err := v.Export()
	if err != nil {
		return 0, err
	}
	defer func() { _ = e.Close() }() // always nil
	if p.Device != v.device {
		d := e.Desc()
		d.Device = p.Device
		f, err := e.View(d)
		if err != nil {
			return 0, err
		}
		defer func() { _ = f.Close() }()
		return f.Export(p.Versioned)
	}
	return e.Export(p.Versioned)
}

// complete waits until the host may read the memory (R146).
func (v *StridedMemoryView) complete() error {
	if s := v.pending(); s.Valid() && !v.HostNeedsIdle() {
		return synchronize(context.Background(), s)
	}
	d, err := device.Open(int(v.ordinal()))
	if err != nil {
		return err
	}
	return d.Synchronize(context.Background())
}

// copyToHost exports a copy in host memory, complete on return.
func (v *StridedMemoryView) copyToHost(p *dlpack.Plan) (uintptr, error) {
	e, err := dlpack.Alloc(v.dtype, v.layout.Shape(), &dlpack.ExportOptions{Flags: p.Flags})
	if err != nil {
		return 0, err
	}
	defer func() { _ = e.Close() }() // always nil; the export has its own reference
	if !v.layout.empty() {
		if err := v.fetch(e); err != nil {
			return 0, err
		}
	}
	return e.Export(p.Versioned)
}

// fetch copies the elements to dense host memory and waits.
func (v *StridedMemoryView) fetch(e *dlpack.Exported) error {
	dst, err := FromExported(e)
	if err != nil {
		return err
	}
	defer func() { _ = dst.Release() }()
	dst.flags &^= dlpack.FlagIsCopied
	s := v.pending()
	if !s.Valid() || s.Kind() == stream.KindPerThreadDefault {
		if err := v.complete(); err != nil {
			return err
		}
		own, err := bridgeOn(v.ordinal())
		if err != nil {
			return err
		}
		defer func() { _ = own.Close() }()
		s = own.View()
	}
	if err := CopyOn(dst, *v, s); err != nil {
		return err
	}
	return synchronize(context.Background(), s)
}

// resource returns where memory of a DLPack device type comes from.
func resource(d *device.Device, t dlpack.DeviceType) (device.MemoryResource, error) {
	switch t {
	case dlpack.DeviceCUDAHost:
		return d.PinnedMemory(), nil
	case dlpack.DeviceCUDAManaged:
		return d.ManagedMemory()
	}
	return d.Memory()
}

// copyToDevice exports a copy in device memory, pinned or managed memory,
// queued on the stream of the request.
func (v *StridedMemoryView) copyToDevice(p *dlpack.Plan) (uintptr, error) {
	ordinal := p.Device.ID
	if p.Device.Type != dlpack.DeviceCUDA {
		ordinal = v.ordinal()
	}
	s, ok, err := consumer(p.Stream, ordinal)
	if err != nil {
		return 0, err
	}
	pending := v.pending()
	if !ok {
		// Nobody asked for an order, but the copy has to be made on some stream.
		if pending.Valid() && int32(pending.Device()) == ordinal {
			s = pending
		} else if s, _, err = consumer(dlpack.StreamUse{Kind: dlpack.StreamLegacy}, ordinal); err != nil {
			return 0, err
		}
	}
	ds, err := device.Wrap(s, nil)
	if err != nil {
		return 0, err
	}
	if capturing, err := ds.Capturing(); err != nil {
		return 0, err
	} else if capturing {
		t := transfer{view: s}
		return 0, t.captureError("the copy would belong to the graph")
	}
	if pending.Valid() && !v.layout.empty() {
		if err := s.WaitFor(pending); err != nil {
			return 0, err
		}
	}
	l, err := v.layout.Dense(OrderC)
	if err != nil {
		return 0, err
	}
	r, err := resource(ds.Device(), p.Device.Type)
	if err != nil {
		return 0, err
	}
	b, err := device.Allocate(r, l.NumBytes(), ds)
	if err != nil {
		return 0, err
	}
	d := dlpack.Desc{Data: uintptr(b.Ptr()), Device: p.Device, DType: v.dtype, Shape: l.Shape(), Flags: p.Flags}
	e, err := dlpack.ExportDesc(d, func() { _ = b.Close() }) // in stream order; nobody is there to be told
	if err != nil {
		return 0, joinErrors(err, b.Close())
	}
	defer func() { _ = e.Close() }()
	if !l.empty() {
		kept, err := v.Retain()
		if err != nil {
			return 0, err
		}
		dst := StridedMemoryView{addr: d.Data, dtype: v.dtype, flags: v.flags & dlpack.FlagSubbyteTypePadded, device: p.Device, owner: Unowned(), layout: l}
		err = CopyOn(dst, kept, s)
		if v.owner.kind != ownerNone && v.owner.kind != ownerUnowned {
			if later := after(s, kept.Release); later != nil {
				err = joinErrors(err, joinErrors(later, synchronize(context.Background(), s)))
				err = joinErrors(err, kept.Release())
			}
		}
		if err != nil {
			return 0, err
		}
	}
	return e.Export(p.Versioned)
}
