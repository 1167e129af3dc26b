//go:build cgo && linux

package main

// #include <stdint.h>
import "C"

// PyInit_goarrow is what Python calls to import the module.
//
//export PyInit_goarrow
func PyInit_goarrow() C.uintptr_t { return C.uintptr_t(module.Init()) }
