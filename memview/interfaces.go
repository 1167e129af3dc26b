package memview

import (
	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/dlpack"
)

// FromBuffer makes a view from a buffer of the Python buffer protocol
// (PEP 3118). The owner must be named, see [Owner]: it is whatever releases
// the Py_buffer (R230). The view takes over its claim on success only.
//
// Everything that cannot be a flat array of numbers is refused, with the
// number of the rule: see [cai.Buffer.Desc].
func FromBuffer(b *cai.Buffer, owner Owner) (StridedMemoryView, error) {
	if b == nil {
		return StridedMemoryView{}, fail("buffer", "", dlpack.ErrNull, "no buffer")
	}
	d, err := b.Desc(dlpack.CPU)
	if err != nil {
		return StridedMemoryView{}, fail("buffer", "", err, "")
	}
	return FromDesc(&d, owner)
}

// FromArrayInterface makes a view from NumPy's array interface. The owner
// must be named, see [Owner]: it keeps the object that published the
// description (R219). opts may be nil; they tell how to read element types
// that the interface does not spell out.
//
// Errors are those of [cai.ArrayInterface.Desc] and [FromDesc].
func FromArrayInterface(a *cai.ArrayInterface, owner Owner, opts *cai.DTypeOptions) (StridedMemoryView, error) {
	if a == nil {
		return StridedMemoryView{}, fail("array interface", "", dlpack.ErrNull, "no interface")
	}
	d, err := a.Desc(dlpack.CPU, opts)
	if err != nil {
		return StridedMemoryView{}, fail("array interface", "", err, "")
	}
	return FromDesc(&d, owner)
}

// ArrayInterface describes the view by NumPy's array interface (R200). It
// owns nothing: the caller keeps the view's memory while the description is in
// use. It makes a view a [cai.ArrayProducer].
//
// Errors wrap [dlpack.ErrClosed], [dlpack.ErrDevice] for memory that the host
// cannot reach, and [dlpack.ErrDType] for types without a typestr (R285).
func (v StridedMemoryView) ArrayInterface() (cai.ArrayInterface, error) {
	if err := v.check("array interface", v.dtype, needRead); err != nil {
		return cai.ArrayInterface{}, err
	}
	d, err := v.Desc()
	if err != nil {
		return cai.ArrayInterface{}, err
	}
	a, err := cai.ArrayFromDesc(&d)
	if err != nil {
		return cai.ArrayInterface{}, fail("array interface", "", err, "")
	}
	return a, nil
}

// DLPackDevice returns where the memory is. With [StridedMemoryView.DLPack] it
// makes a view a [dlpack.Producer].
func (v StridedMemoryView) DLPackDevice() (dlpack.Device, error) {
	if v.layout.width == 0 {
		return dlpack.Device{}, fail("export", "", dlpack.ErrNull, "the view is the zero value")
	}
	return v.device, nil
}
