package memview

import (
	"github.com/go-handoff/handoff/dlpack"
)

// FromDLPack makes a view of an imported tensor. The view takes m over on
// success: [StridedMemoryView.Release] releases it. On an error the caller
// still has m.
//
// It orders nothing: memory that a device touches still has to be, by
// [StridedMemoryView.Ordered] or by the stream that its producer was asked for.
// [Import] does both.
//
// It fails with [dlpack.ErrClosed] if m was released, and with
// [dlpack.ErrDevice] for devices whose data is an opaque handle (R038). It
// allocates nothing up to 8 axes.
func FromDLPack(m dlpack.Managed) (StridedMemoryView, error) {
	var v StridedMemoryView
	if !m.IsLive() {
		return v, fail("dlpack", "", dlpack.ErrClosed, "the tensor was released")
	}
	v.device = m.Device()
	if !v.device.Type.HasAddresses() {
		return StridedMemoryView{}, fail("dlpack", "R038", dlpack.ErrDevice, v.device.String()+" memory has no address")
	}
	v.addr = m.Addr() // the byte offset is in it (B057)
	v.dtype = m.DType()
	v.flags = m.Flags()
	v.layout = blank(m.NDim(), widthOf(v.dtype, v.Padded()), 0)
	shape, steps := v.layout.axes()
	m.Shape(shape[:0])
	m.Strides(steps[:0])
	v.owner.kind, v.owner.managed = ownerManaged, m
	if v.addr < firstPage {
		if err := v.checkFirstPage(); err != nil {
			return StridedMemoryView{}, err
		}
	}
	return v, nil
}

// FromExported makes a view of memory that package dlpack lends, for example
// of what [dlpack.Alloc] made. The view has a reference of its own: e may be
// closed before or after [StridedMemoryView.Release].
//
// Errors are those of [FromDesc], and [dlpack.ErrClosed] if e is closed.
func FromExported(e *dlpack.Exported) (StridedMemoryView, error) {
	if e == nil {
		return StridedMemoryView{}, fail("dlpack", "", dlpack.ErrNull, "no tensor")
	}
	ref, err := e.Owner()
	if err != nil {
		return StridedMemoryView{}, fail("dlpack", "", err, "")
	}
	d := e.Desc()
	v, err := FromDesc(&d, OnRelease(nil, func() error {
		dlpack.ReleaseOwner(ref)
		return nil
	}))
	if err != nil {
		dlpack.ReleaseOwner(ref)
		return StridedMemoryView{}, err
	}
	return v, nil
}

// Desc returns the view as a plain DLPack description, byte offset folded into
// the address, strides always given (R049). It owns nothing. A view of packed
// elements that begins inside a byte cannot be described: [dlpack.ErrLayout]
// (R032).
func (v StridedMemoryView) Desc() (dlpack.Desc, error) {
	if v.layout.offset != 0 && !v.layout.empty() {
		return dlpack.Desc{}, fail("export", "R032", dlpack.ErrLayout, "the view begins inside a byte")
	}
	return dlpack.Desc{
		Data:    v.address(),
		Device:  v.device,
		DType:   v.dtype,
		Shape:   v.layout.Shape(),
		Strides: v.layout.Strides(),
		Flags:   v.flags &^ dlpack.FlagIsCopied, // shared from now on (R019)
	}, nil
}

// Export lends the memory of the view to consumers of DLPack, without a copy:
// [dlpack.Exported.Export] gives as many tensors as are wanted, versioned or
// legacy. The caller closes the result. It orders nothing; what consumers of
// device memory may expect, [StridedMemoryView.DLPack] does.
//
// The result has a claim of its own on the memory, however the view got it: Go
// memory stays pinned, a tensor that was imported keeps its count in C, lent
// memory is retained past its call, and a view of an [Unowned] address passes
// that promise on. Read-only and padded flags go along; strides are kept,
// negative ones too.
//
// Errors wrap [dlpack.ErrClosed] if the memory was given back,
// [dlpack.ErrLayout] if the view begins inside a byte (R032), and
// [dlpack.ErrNotSupported] in programs without cgo.
func (v StridedMemoryView) Export() (*dlpack.Exported, error) {
	if v.layout.width == 0 {
		return nil, fail("export", "", dlpack.ErrNull, "the view is the zero value")
	}
	if !v.owner.live() {
		return nil, errReleased("export")
	}
	d, err := v.Desc()
	if err != nil {
		return nil, err
	}
	if v.layout.empty() {
		d.Data = 0 // R043
		return export(&d, nil)
	}
	switch v.owner.kind {
	case ownerManaged:
		ref, err := v.owner.managed.Owner()
		if err != nil {
			return nil, fail("export", "", err, "")
		}
		e, err := dlpack.ExportOwner(ref, d)
		if err != nil {
			dlpack.ReleaseOwner(ref)
			return nil, fail("export", "", err, "")
		}
		return e, nil
	case ownerLent, ownerShared:
		release, err := v.owner.lender.Retain(v.owner.gen, int(v.owner.slot))
		if err != nil {
			return nil, fail("export", "", err, "")
		}
		e, err := export(&d, func() { _ = release() }) // nobody is there to be told
		if err != nil {
			return nil, joinRelease(err, release)
		}
		return e, nil
	case ownerUnowned:
		return export(&d, nil)
	}
	return v.exportGo(&d)
}

func export(d *dlpack.Desc, release func()) (*dlpack.Exported, error) {
	e, err := dlpack.ExportDesc(*d, release)
	if err != nil {
		return nil, fail("export", "", err, "")
	}
	return e, nil
}
