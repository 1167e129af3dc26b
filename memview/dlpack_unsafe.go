package memview

import (
	"runtime"
	"unsafe"

	"github.com/go-handoff/handoff/dlpack"
)

// exportGo exports Go memory, which stays pinned as long as a consumer has it.
func (v *StridedMemoryView) exportGo(d *dlpack.Desc) (*dlpack.Exported, error) {
	pin := new(runtime.Pinner)
	// SAFETY: base points into the object that the view keeps; pinning keeps
	// the whole object in place.
	pin.Pin(unsafe.Pointer(v.base))
	d.Data = uintptr(unsafe.Pointer(v.base))
	e, err := export(d, pin.Unpin)
	if err != nil {
		pin.Unpin()
		return nil, err
	}
	return e, nil
}
