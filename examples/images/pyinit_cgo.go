//go:build cgo && linux

package main

// #include <stdint.h>
import "C"

// PyInit_goimages is what Python calls to import the module.
//
//export PyInit_goimages
func PyInit_goimages() C.uintptr_t { return C.uintptr_t(module.Init()) }
