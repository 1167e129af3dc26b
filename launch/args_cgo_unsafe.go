//go:build cgo && linux

package launch

// #include <stdlib.h>
import "C"

import "unsafe"

func callocC(size int) unsafe.Pointer { return C.calloc(1, C.size_t(size)) }

func freeC(p unsafe.Pointer) { C.free(p) }
