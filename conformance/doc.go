// Package conformance tests whether a library keeps the protocols by which
// arrays and streams are exchanged, rule by rule: DLPack, the CUDA Array
// Interface, NumPy's array interface, the buffer protocol and __cuda_stream__.
// Package rules has the rules.
//
// Python libraries are tested by [Run], which the command `handoff conform` is
// made of:
//
//	report, err := conformance.Run(ctx, []string{"numpy", "mylib:factory"}, conformance.Options{Python: "python3"})
//
// Go types are tested by [Test], in their own tests:
//
//	func TestProtocols(t *testing.T) {
//		conformance.Test(t, myArray) // a dlpack.Producer, a cai.Producer, a stream.StreamLike
//		conformance.Test(t, conformance.Consumer(myImport))
//	}
//
// # How it is done
//
// The checks of Python libraries are Python (folder py, which is part of the
// program that uses this package) and run in child processes: a check that ends
// its process, or hangs, is a result, and the run goes on behind it. Malformed
// tensors are built over pages of their own, which become unreadable where and
// when a consumer must not touch them. A small C file does what must not enter
// the interpreter; it is compiled at the first use, so a C compiler is needed.
//
// Each rule has a reference that breaks it on purpose, and a test that this is
// reported; the reference that breaks none must come out clean.
//
// # Errors
//
// What a target does is never an error: it is in the [Report]. An error means
// that the checks could not be run ([ErrCannotRun]).
//
// # Concurrency
//
// Functions may be called at once. A target of [CheckGo] is used from several
// goroutines, never from two at once.
package conformance
