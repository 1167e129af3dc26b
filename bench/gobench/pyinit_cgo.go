//go:build cgo && linux

package main

// #include <stdint.h>
import "C"

// PyInit_gobench is what Python calls to import the module.
//
//export PyInit_gobench
func PyInit_gobench() C.uintptr_t { return C.uintptr_t(module.Init()) }
