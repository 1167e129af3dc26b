package launch

import (
	"unsafe"

	"github.com/go-handoff/handoff/device/driver"
)

// newTensorMap returns a map at a multiple of its size, as the driver wants.
func newTensorMap() *driver.TensorMap {
	const size = unsafe.Sizeof(driver.TensorMap{})
	b := make([]byte, 2*size)
	p := unsafe.Pointer(unsafe.SliceData(b))
	// SAFETY: b has room for a map behind any address, of memory without
	// pointers, and is kept alive by the pointer into it.
	return (*driver.TensorMap)(unsafe.Add(p, -uintptr(p)&(size-1)))
}

// copyTensorMap copies the bytes of a map.
func copyTensorMap(dst []byte, m *driver.TensorMap) {
	// SAFETY: a map is plain words.
	copy(dst, unsafe.Slice((*byte)(unsafe.Pointer(m)), unsafe.Sizeof(*m)))
}
