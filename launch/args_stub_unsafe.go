//go:build !(cgo && linux)

package launch

import "unsafe"

// callocC has no C memory to give; without a driver nobody asks for it.
func callocC(int) unsafe.Pointer { return nil }

func freeC(unsafe.Pointer) {}
