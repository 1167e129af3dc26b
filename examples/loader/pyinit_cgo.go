//go:build cgo && linux

package main

// #include <stdint.h>
import "C"

// PyInit_goloader is what Python calls to import the module.
//
//export PyInit_goloader
func PyInit_goloader() C.uintptr_t { return C.uintptr_t(module.Init()) }
