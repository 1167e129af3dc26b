package memview

import (
	"unsafe"

	"github.com/go-handoff/handoff/dlpack"
)

// setRaw fills in everything but the owner. It is the hot path of calls from
// Python: no allocation up to 8 axes, one pass over shape and strides.
func (v *StridedMemoryView) setRaw(r *Raw) error {
	n := r.NDim
	if uint(n) > MaxDims {
		return checkRawDims(r)
	}
	var shape, strides []int64
	if n > 0 {
		if r.Shape == nil {
			return checkRawDims(r)
		}
		// SAFETY: the contract of Raw: n numbers, readable during the call.
		shape = unsafe.Slice(r.Shape, n)
		if r.Strides != nil {
			strides = unsafe.Slice(r.Strides, n) // SAFETY: as above.
		}
	}
	if !r.Trusted {
		if err := checkRaw(r, shape, strides); err != nil {
			return err
		}
		if !r.Device.Type.HasAddresses() {
			return fail("raw", "R038", dlpack.ErrDevice, r.Device.String()+" memory has no address")
		}
	}
	v.addr = r.Addr
	v.dtype = r.DType
	v.device = r.Device
	v.flags = 0
	if r.ReadOnly {
		v.flags = dlpack.FlagReadOnly
	}
	if r.Padded {
		v.flags |= dlpack.FlagSubbyteTypePadded
	}
	v.layout.ndim = int32(n)
	v.layout.width = widthOf(r.DType, r.Padded)
	if n > inlineDims {
		v.layout.more = new(spilled)
	}
	sh, st := v.layout.axes()
	if strides != nil {
		for i := range sh {
			sh[i], st[i] = shape[i], strides[i]
		}
	} else {
		copy(sh, shape)
		denseSteps(sh, st, OrderC) // fits: checked
	}
	if v.addr < firstPage {
		return v.checkFirstPage()
	}
	return nil
}

// LentArray describes lent host or device memory in the words of C: its fields
// lie as in the struct of the C code that fills it in before a call. What it says
// is trusted, as with [Raw].Trusted.
type LentArray struct {
	Addr  uint64 // of element (0,…,0)
	NDim  int32
	DType dlpack.DataType
	// Device says where the memory is.
	Device dlpack.Device
	// Flags is a sum of [LentReadOnly], [LentPadded] and bits without a
	// meaning here.
	Flags uint32
	_     uint32
	// Shape and Strides point to NDim numbers each, as in [Raw]. They are
	// read above 8 axes only.
	Shape, Strides *int64
	// Dims holds, up to 8 axes, the extents and, from Dims[8] on, the strides
	// in elements. Zeros fill up either, to 2 numbers for up to 2 axes, which are
	// all that is read then, and otherwise to 8.
	Dims [2 * inlineDims]int64
}

// Flags of a [LentArray].
const (
	LentReadOnly = 1 // must not be written
	LentPadded   = 2 // elements narrower than a byte take a byte each
)

// The flags become DLPack's by shifts.
var (
	_ [LentReadOnly]byte    = [dlpack.FlagReadOnly]byte{}
	_ [LentPadded << 1]byte = [dlpack.FlagSubbyteTypePadded]byte{}
)

// SetLentArray is [StridedMemoryView.SetLent] for what C has laid out, and for
// a v that is the zero view: the fastest way to fill in a variable that was
// just declared.
func (v *StridedMemoryView) SetLentArray(a *LentArray, l Lender, gen uint64, slot int) error {
	if uint32(a.NDim) > inlineDims || a.Addr < firstPage {
		return v.setLentSlow(a, l, gen, slot)
	}
	// The order is that of the fields, and the axes are moved as blocks: the
	// copy that follows when v is passed on waits for what is written piecemeal.
	v.addr = uintptr(a.Addr)
	v.dtype = a.DType
	v.flags = dlpack.Flags(a.Flags&LentReadOnly | a.Flags&LentPadded<<1)
	v.device = a.Device
	v.owner.lender, v.owner.gen, v.owner.slot, v.owner.kind = l, gen, int32(slot), ownerLent
	v.layout.ndim = a.NDim
	v.layout.width = widthOf(a.DType, a.Flags&LentPadded != 0)
	if a.NDim <= 2 {
		// SAFETY: the first two of 8 numbers each.
		*(*[2]int64)(unsafe.Pointer(&v.layout.shape)) = *(*[2]int64)(unsafe.Pointer(&a.Dims))
		*(*[2]int64)(unsafe.Pointer(&v.layout.steps)) = *(*[2]int64)(unsafe.Pointer(&a.Dims[inlineDims]))
		return nil
	}
	// SAFETY: shape and steps are neighbours of 8 numbers each.
	*(*[2 * inlineDims]int64)(unsafe.Pointer(&v.layout.shape)) = a.Dims
	return nil
}

var _ [unsafe.Sizeof(Layout{}.shape)]byte = [unsafe.Offsetof(Layout{}.steps) - unsafe.Offsetof(Layout{}.shape)]byte{}

func (v *StridedMemoryView) setLentSlow(a *LentArray, l Lender, gen uint64, slot int) error {
	return v.SetLent(&Raw{
		Addr: uintptr(a.Addr), NDim: int(a.NDim), Shape: a.Shape, Strides: a.Strides, DType: a.DType, Device: a.Device,
		ReadOnly: a.Flags&LentReadOnly != 0, Padded: a.Flags&LentPadded != 0, Trusted: true,
	}, l, gen, slot)
}

// checkRawDims reports a number of axes that cannot be, or a missing shape.
func checkRawDims(r *Raw) error {
	if r.NDim < 0 {
		return fail("raw", "R047", dlpack.ErrLayout, "the number of axes is negative")
	}
	if r.NDim > MaxDims {
		return fail("raw", "R255", dlpack.ErrLayout, "more than 64 axes")
	}
	return fail("raw", "R047", dlpack.ErrLayout, "axes without a shape")
}
