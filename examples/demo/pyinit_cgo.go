//go:build cgo && linux

package main

// #include <stdint.h>
import "C"

// PyInit_godemo is what Python calls to import the module.
//
//export PyInit_godemo
func PyInit_godemo() C.uintptr_t { return C.uintptr_t(module.Init()) }
