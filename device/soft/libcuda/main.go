//go:build cgo && linux

// Command libcuda is the software device as a shared library that exports the
// CUDA driver's own names, for processes that hold no other Go runtime: a Python
// interpreter with a library that needs the driver API only, for example.
//
//	go build -buildmode=c-shared -ldflags=-extldflags=-Wl,-soname,libcuda.so.1 -o DIR/libcuda.so.1 ./device/soft/libcuda
//	LD_LIBRARY_PATH=DIR python program.py
//
// Such a process gets it by being pointed at it; nothing installs it. Its devices say
// what they are. The environment of package soft applies.
//
// A process that also loads a Python extension made with this project must not hold two Go
// runtimes: see package names.
package main

import "C" // for -buildmode=c-shared

// The names.
import _ "github.com/go-handoff/handoff/device/soft/names"

func main() {}
