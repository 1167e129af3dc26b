package memview

import (
	"strconv"

	"github.com/go-handoff/handoff/dlpack"
)

// Raw describes an array by bare numbers, as C code hands them over.
type Raw struct {
	// Addr is the address of element (0,…,0): data plus byte offset.
	Addr uintptr
	// NDim is the number of axes.
	NDim int
	// Shape points to NDim extents, Strides to NDim strides in elements. They
	// are read and not kept. A nil Strides means C order. Both may be nil if
	// NDim is 0.
	Shape, Strides *int64
	// DType is the element type.
	DType dlpack.DataType
	// Device says where the memory is.
	Device dlpack.Device
	// ReadOnly forbids writing through the view.
	ReadOnly bool
	// Padded means that elements narrower than a byte take a byte each.
	Padded bool
	// Trusted skips validation, for descriptions that the C code of this
	// module has checked by the same rules.
	Trusted bool
}

// firstPage is the size of the addresses that no allocation has. The Go
// runtime stops the process if it finds such a number in a pointer.
const firstPage = 4096

// FromRaw makes a view from bare numbers. The owner must be named: see
// [Owner]. The view takes over the owner's claim on success; on an error the
// caller still has it.
//
// Unless r is trusted it is validated by the rules of [dlpack.Desc.Check], and
// the errors are those. Nothing is copied or allocated up to 8 axes.
func FromRaw(r *Raw, owner Owner) (StridedMemoryView, error) {
	if owner.kind == ownerNone {
		return StridedMemoryView{}, errNoOwner("raw")
	}
	if r == nil {
		return StridedMemoryView{}, fail("raw", "", dlpack.ErrNull, "no array")
	}
	var v StridedMemoryView
	if err := v.setRaw(r); err != nil {
		return StridedMemoryView{}, err
	}
	v.owner = owner
	return v, nil
}

// FromLent is [FromRaw] for memory that a lender lends for one call: slot is
// the place of the array among those lent under the number gen.
func FromLent(r *Raw, l Lender, gen uint64, slot int) (StridedMemoryView, error) {
	var v StridedMemoryView
	if err := v.SetLent(r, l, gen, slot); err != nil {
		return StridedMemoryView{}, err
	}
	return v, nil
}

// SetLent makes v what [FromLent] returns, whatever it was before. It spares
// the copy, for callers that fill many views in place. On an error v is the
// zero view.
func (v *StridedMemoryView) SetLent(r *Raw, l Lender, gen uint64, slot int) error {
	if v == nil {
		return fail("raw", "", dlpack.ErrNull, "no view")
	}
	if v.base != nil || v.layout.offset != 0 || v.layout.more != nil || v.place != nil || v.owner.kind == ownerManaged {
		*v = StridedMemoryView{}
	}
	if r == nil {
		*v = StridedMemoryView{}
		return fail("raw", "", dlpack.ErrNull, "no array")
	}
	if err := v.setRaw(r); err != nil {
		*v = StridedMemoryView{}
		return err
	}
	v.owner.kind, v.owner.gen, v.owner.slot = ownerLent, gen, int32(slot)
	if v.owner.lender != l {
		v.owner.lender = l
	}
	return nil
}

func errNoOwner(op string) error {
	return fail(op, "B145", dlpack.ErrNotSupported, "no owner named; Unowned() is the explicit promise that memory stays")
}

// checkRaw validates what setRaw is about to take. The slices are only read.
func checkRaw(r *Raw, shape, strides []int64) error {
	d := dlpack.Desc{Data: r.Addr, Device: r.Device, DType: r.DType, Shape: shape, Strides: strides, Flags: r.flags()}
	if err := d.Check(); err != nil {
		return fail("raw", "", err, "")
	}
	return nil
}

func (r *Raw) flags() dlpack.Flags {
	var f dlpack.Flags
	if r.ReadOnly {
		f |= dlpack.FlagReadOnly
	}
	if r.Padded {
		f |= dlpack.FlagSubbyteTypePadded
	}
	return f
}

// checkFirstPage refuses an address that no array has, for a view that is not
// empty.
func (v *StridedMemoryView) checkFirstPage() error {
	if v.layout.empty() || !v.device.Type.HostAccessible() {
		return nil
	}
	return fail("raw", "R045", dlpack.ErrNull, "address 0x"+strconv.FormatUint(uint64(v.addr), 16)+" lies in the first page")
}

// FromDesc makes a view from a DLPack description, which is validated by
// [dlpack.Desc.Check]. Owner and errors are as for [FromRaw]. Devices whose
// data is an opaque handle are refused with [dlpack.ErrDevice], because no
// arithmetic may be done on it (R038).
func FromDesc(d *dlpack.Desc, owner Owner) (StridedMemoryView, error) {
	if owner.kind == ownerNone {
		return StridedMemoryView{}, errNoOwner("desc")
	}
	if d == nil {
		return StridedMemoryView{}, fail("desc", "", dlpack.ErrNull, "no description")
	}
	if err := d.Check(); err != nil {
		return StridedMemoryView{}, fail("desc", "", err, "")
	}
	var v StridedMemoryView
	if err := v.setDesc(d, &owner); err != nil {
		return StridedMemoryView{}, err
	}
	return v, nil
}

// setDesc makes the zero view what a description says that passed
// [dlpack.Desc.Check].
func (v *StridedMemoryView) setDesc(d *dlpack.Desc, owner *Owner) error {
	if !d.Device.Type.HasAddresses() {
		return fail("desc", "R038", dlpack.ErrDevice, d.Device.String()+" memory has no address")
	}
	w := widthOf(d.DType, d.Flags.Has(dlpack.FlagSubbyteTypePadded))
	l, err := newLayout("desc", d.Shape, d.Strides, w)
	if err != nil {
		return err
	}
	v.addr, v.dtype, v.flags, v.device, v.owner, v.layout = d.Addr(), d.DType, d.Flags, d.Device, *owner, l
	if v.addr < firstPage {
		return v.checkFirstPage()
	}
	return nil
}
