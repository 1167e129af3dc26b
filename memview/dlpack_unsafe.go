package memview

import (
	"runtime"
	"unsafe"

	"github.com/go-handoff/handoff/dlpack"
)

// exportGo exports Go memory, which stays pinned as long as a consumer has it.
func (v *StridedMemoryView) exportGo(d *dlpack.Desc) (e *dlpack.Exported, err error) {
	pin := new(runtime.Pinner)
	defer func() {
		// The pinner panics over memory that is not Go's, such as a slice
		// over C memory that was given to FromSlice. It cannot be kept.
		if recover() != nil {
			e, err = nil, fail("export", "B145", dlpack.ErrNotSupported, "the slice is not Go memory; name its owner with FromDesc")
		}
	}()
	// SAFETY: base points into the object that the view keeps; pinning keeps
	// the whole object in place.
	pin.Pin(unsafe.Pointer(v.base))
	d.Data = uintptr(unsafe.Pointer(v.base))
	e, err = export(d, pin.Unpin)
	if err != nil {
		pin.Unpin()
		return nil, err
	}
	return e, nil
}
