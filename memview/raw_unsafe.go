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
