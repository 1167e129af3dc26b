// Package dlpack implements the C ABI of DLPack 1.3, by which array libraries
// of any language lend memory to one another without a copy.
//
// A tensor travels as the address of a C struct that describes memory and
// carries a deleter, which whoever holds the struct calls once. This package
// takes such structs over ([ImportVersioned], [ImportLegacy]), makes them from
// Go and C memory ([ExportSlice], [Alloc], [ExportDesc]), and calls and builds
// the table of C functions that newer Python libraries offer ([Table]). It has
// the one vocabulary of element types and devices of this module ([DataType],
// [Device]). To read and write elements use package memview, which makes views
// of what this package imports; to talk to Python objects use package python.
//
//	e, err := dlpack.ExportSlice(data, []int64{2, 3}, nil, nil)
//	if err != nil {
//		return err
//	}
//	defer e.Close()
//	p, err := e.Export(true) // address of a DLManagedTensorVersioned
//	if err != nil {
//		return err
//	}
//	return consumer.Take(p) // the consumer runs the deleter, some day
//
// The C side is public as well: include/dlpack/dlpack.h is source-compatible
// with the header of the DLPack project, include/handoff/block.h exports,
// validates and counts tensors without entering Go.
//
// # Ownership
//
// An import consumes its struct, also when it fails: the deleter then has run.
// A [Managed] gives the tensor back with Release, once, from any goroutine; its
// copies become stale together. An [Exported] holds one reference on memory and
// every tensor made of it one more; the memory is free when all are gone, in
// any order. The counts are in C memory, so consumers and their deleters do not
// enter Go, except for the last reference on Go memory, which unpins it. Such a
// deleter does nothing in the child of a fork and once the process has begun to
// exit.
//
// The collector is a safety net for what was forgotten, not a way to release.
//
// # Streams and ordering
//
// Nothing in this package waits, records or orders. For memory that a device
// touches, package stream and the packages above it do. [Request.Plan] and
// [StreamArg.Check] say what a producer owes to a consumer's stream.
//
// # Errors
//
// Whatever comes from outside is validated and gives an error, never a panic.
// Errors wrap one of the sentinels ([ErrLayout], [ErrDType], ...) and are
// mostly a [*RuleError], which names the rule that was broken. What a NULL
// pointer or a struct that lies about the length of its arrays leads to cannot
// be checked: DLPack carries no lengths.
//
// # Concurrency
//
// Functions may be called at once. What holds for the methods of a type is said
// at the type.
//
// # Platforms
//
// Import and export need cgo, on linux/amd64 or linux/arm64. Elsewhere they
// return an error wrapping [ErrNotSupported]; types and validation work
// everywhere.
//
// Specification: DLPack, https://dmlc.github.io/dlpack/latest/, version 1.3.
// The rules that comments and errors name, R001 and on, are those that package
// conformance tests.
package dlpack
