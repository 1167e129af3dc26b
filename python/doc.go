// Package python is the Go side of the bridge to CPython: Python objects in
// Go hands, and arrays across the border without a copy.
//
// An [Object] holds one reference on a Python object and is given back with
// Close. [Object.View] makes a [memview.StridedMemoryView] of any array that
// speaks DLPack, the buffer protocol or the array interface, and [NewView]
// and [NewArray] make Python objects of views. An exception of Python is an
// [*Exception] in Go, which names the broken rule where there is one.
//
// Functions written in Go become Python modules with python/ext; this package
// is what lies below it, and what a Go program that runs Python inside itself
// uses.
//
// # The GIL
//
// Every function here takes the GIL and gives it back by itself, inside one C
// call, so it can be called from any goroutine, with or without the GIL.
// [Do] holds the GIL for a sequence of calls; the goroutine stays on its
// thread for that long (B165). Closing an object never waits for the GIL: a
// thread of C takes it and drops what is queued. So no cleanup and no
// goroutine that releases an array can take part in a deadlock, and once
// Python finalizes, closing does nothing (B189).
//
// # libpython
//
// Nothing is linked: the functions of the stable ABI (CPython 3.11 and newer)
// are looked up in the process at run time. Without a Python in the process
// every function returns an error that wraps [dlpack.ErrNotSupported]. Free-threaded
// builds, debug builds and subinterpreters are refused with ImportError.
//
// # The C core
//
// The Python-facing half is C: the types handoff.StridedMemoryView and
// handoff.Array, the protocol methods, capsule destructors and deleters run
// without entering Go. They work on any thread, and after fork(), where Go
// does not run any more: what needs Go raises handoff.ForkError there. The C
// interface for other packages of this module is bridge.h.
package python
