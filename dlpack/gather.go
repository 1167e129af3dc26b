package dlpack

import (
	"unsafe"

	"github.com/go-handoff/handoff/internal/cptr"
)

// gather copies a strided tensor in host memory to dst, row-major. Strides
// count elements of size bytes. The description has been validated, has at
// least one element, and somebody keeps its memory.
func gather(dst []byte, addr uintptr, shape, strides []int64, size int) {
	// Axes at the end that are dense are copied as one piece.
	piece := int64(size)
	n := len(shape)
	for n > 0 && (shape[n-1] == 1 || strides[n-1]*int64(size) == piece) {
		piece *= shape[n-1]
		n--
	}
	var index [MaxDims]int64
	offset := int64(0)
	for {
		// SAFETY: offset stays inside the reach of the tensor, which the
		// check of its description has bounded; memory that the CPU can read
		// and that is copied as bytes, so that no alignment matters.
		src := unsafe.Slice((*byte)(unsafe.Add(cptr.At(addr), offset)), piece)
		dst = dst[copy(dst, src):]
		i := n - 1
		for ; i >= 0; i-- {
			offset += strides[i] * int64(size)
			if index[i]++; index[i] < shape[i] {
				break
			}
			offset -= strides[i] * int64(size) * shape[i]
			index[i] = 0
		}
		if i < 0 {
			return
		}
	}
}
