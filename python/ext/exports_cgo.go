//go:build cgo && linux

package ext

// #include "ext.h"
import "C"

import "unsafe"

//export ho_ext_enter
func ho_ext_enter(f unsafe.Pointer) { enter((*frame)(f)) }
