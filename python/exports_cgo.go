//go:build cgo && linux && (amd64 || arm64)

package python

// #include <stdint.h>
import "C"

import (
	"fmt"
	"runtime/debug"
)

// The functions that C calls. A panic becomes a message, which C raises as
// handoff.GoPanic: nothing unwinds into C (B179).

//export hoPyCopy
func hoPyCopy(dst, src C.uintptr_t, padded C.int) (message *C.char) {
	defer recovered(&message)
	return failure(copyTensor(uintptr(dst), uintptr(src), padded != 0))
}

//export hoPySelfTest
func hoPySelfTest(name *C.char) (message *C.char) {
	defer recovered(&message)
	return failure(selfTest(C.GoString(name)))
}

func recovered(message **C.char) {
	if p := recover(); p != nil {
		*message = C.CString(fmt.Sprintf("panic: %v\n\n%s", p, debug.Stack()))
	}
}

func failure(err error) *C.char {
	if err == nil {
		return nil
	}
	return C.CString(err.Error())
}
