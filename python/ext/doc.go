// Package ext makes Python modules of Go functions: one line per function,
// arrays of every library as arguments without a copy, one crossing from C
// into Go per call.
//
// A module is a Go program built with -buildmode=c-shared:
//
//	package main
//
//	// #include <stdint.h>
//	import "C"
//	import "github.com/go-handoff/handoff/python/ext"
//
//	var module = ext.New("mymod", "Arithmetic in Go.").
//		Func("scale(x, factor=2.0)", scale, "Multiplies x by factor, in place.")
//
//	func scale(x []float64, factor float64) {
//		for i := range x {
//			x[i] *= factor
//		}
//	}
//
//	//export PyInit_mymod
//	func PyInit_mymod() C.uintptr_t { return C.uintptr_t(module.Init()) }
//
//	func main() {}
//
// The command "handoff new-extension" writes such a program with its build
// file and test; go build -buildmode=c-shared -o mymod.abi3.so makes the
// module for CPython 3.11 and later.
//
// # Parameters
//
//   - [memview.StridedMemoryView]: any array, strided, of any type, on any
//     device, read-only or not.
//   - []T for an element type T of memview: an array of exactly that dtype,
//     dense in C order, writable, on the host; several axes are taken as one.
//     [ReadOnly][T] is the same for arrays that need not be writable.
//   - []byte: the same for uint8; a bytes object is taken too, as a copy.
//     [ReadOnly][byte] takes it without one.
//   - bool, string, all sizes of int, uint, float and complex. Numbers that do
//     not fit raise OverflowError; a float is no int, and an int is no bool.
//   - *T of a number, string, bool or view: None is nil.
//   - []int, []uint, []string, []Object and slices of views or of slices: a
//     list or a tuple.
//   - [stream.StreamView], one in a function: a stream of any library, or
//     None, which is the zero view. Every array of the call that lies on a
//     GPU is ordered on it, by one event at most: work that the function
//     queues there comes after the producer's. GPU arrays without a stream
//     are refused (R126). The way back is the caller's: who passes a stream
//     keeps the arrays, and orders later work after the stream; or the
//     function's, see [Module.WayBack].
//   - [Object]: anything, as it is.
//   - "*name" in the signature: a slice of the remaining arguments.
//   - [context.Context] in front, which Python does not see: it is cancelled
//     by Ctrl-C, and the function runs on a goroutine of its own.
//
// A slice, view or pointer parameter with the default None may be left out.
//
// # Results
//
// Nothing, or any number of: bool, numbers, string, []byte (bytes), slices of
// elements (handoff.Array: the Go memory itself, pinned while Python has it),
// views (handoff.Array), [*dlpack.Exported] and [dlpack.Managed] (handoff.Array;
// handed over and closed), other slices (list), maps with string keys (dict),
// structs (a named tuple of the exported fields), pointers (None for nil), any,
// [Object], [*Ref]. Several results are a tuple. A last result of type error
// becomes an exception. A nil slice is None.
//
// # Ownership
//
// Views and slices that a function is given are borrowed for the call: no
// reference is counted. A view that is used after the function has returned
// fails with [dlpack.ErrClosed]; [memview.StridedMemoryView.Retain] gives one
// that may be kept. A slice has no such guard and must not be kept. A result
// that lies in the memory of an argument keeps that argument; any other result
// keeps the Go memory, or what its view keeps.
//
// # Errors
//
// [ValueError] and its like, and [Raise], choose the exception. Otherwise the
// errors of dlpack become the exceptions of package handoff (BufferErrors),
// those of io/fs and context the built-in ones, and all others GoError, a
// RuntimeError. A [*PyError] is raised again as it came. A panic becomes
// GoPanic, a GoError whose text has the Go stack. (A nil dereference is one as
// long as Go's handler for SIGSEGV is in place: a library that puts its own
// there after the module was imported, as tvm-ffi does, gets the fault and ends
// the process. Import it first.) [runtime.Goexit] does so in a
// function that takes a context; in others it ends the process, because they
// run on a thread of Python, which the Go runtime does not let go.
//
// # Concurrency
//
// The GIL is released while a function runs, unless it was added with
// [Module.Quick]: several Python threads may be inside at once. Arrays are not
// locked. After fork every call raises RuntimeError (B315): the Go runtime
// lives in the parent alone; use the "spawn" start method of multiprocessing.
//
// There can be one Go runtime in a process: several modules belong into one
// shared object with several PyInit functions, and a second shared object made
// with Go is refused with an ImportError that names the first (B361). A program
// that is itself written in Go must not load such an object, as a plugin or by
// dlopen (B362): the second runtime starts before any code of this project runs,
// so that nothing here can refuse it. Such a program imports the packages instead.
package ext
