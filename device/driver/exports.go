//go:build cgo && linux

package driver

// #include "handoff/cuda_abi.h"
import "C"

// hoDriverHostFunc runs the Go function of a key, for a thread of the driver.
//
//export hoDriverHostFunc
func hoDriverHostFunc(user C.ho_word, once C.int) {
	callHostFunc(uintptr(user), once != 0)
}
