//go:build cgo && linux && (amd64 || arm64)

package dlpack

// #include <stdint.h>
import "C"

// hoDlpackOwnerLast is called by C, on any thread, when the last reference on
// an owner that Go made is given back.
//
//export hoDlpackOwnerLast
func hoDlpackOwnerLast(handle C.uint64_t) {
	owners.last(uint64(handle))
}
