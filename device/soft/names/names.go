//go:build cgo && linux

// Package names exports the CUDA driver's own names over the software device: cuInit,
// cuGetProcAddress_v2 and the rest. Importing it makes a shared object a CUDA driver; a
// program that imports it hides the real one from everything it loads. So two kinds of
// program do, and say so: device/soft/libcuda, and test builds of a Python extension.
//
// A process must hold one Go runtime. Where a Python extension made with this project and a
// library that wants libcuda.so.1 live in one process, build the extension with this package
// and make libcuda.so.1 a link to its file: the loader maps one file once.
package names

// #cgo CFLAGS: -I${SRCDIR}/.. -I${SRCDIR}/../../driver/include -std=gnu11
// #include "procs.h"
import "C"

// The entry points that the names jump to.
import _ "github.com/go-handoff/handoff/device/soft"
