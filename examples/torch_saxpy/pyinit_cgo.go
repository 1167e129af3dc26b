//go:build cgo && linux

package main

// #include <stdint.h>
import "C"

// PyInit_gosaxpy is what Python calls to import the module.
//
//export PyInit_gosaxpy
func PyInit_gosaxpy() C.uintptr_t { return C.uintptr_t(module.Init()) }
