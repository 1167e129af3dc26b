// Command core is the compiled part of the Python package handoff, built with
// -buildmode=c-shared into handoff/_core.abi3.so. Python calls its PyInit
// function, which is C (init.c); the program's main function never runs.
package main

// #cgo CFLAGS: -I${SRCDIR}/../../dlpack/include -std=gnu11
// #include <stdint.h>
import "C"

import _ "github.com/go-handoff/handoff/python" // the C core and what it calls

// hoCoreReady returns once the Go runtime and the packages are initialized.
//
//export hoCoreReady
func hoCoreReady() {}

func main() {}
