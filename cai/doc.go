// Package cai has the descriptions of arrays that Python libraries publish as
// dictionaries, as validated Go values: the CUDA Array Interface, versions 0 to
// 3 ([Interface]), and NumPy's array interface, version 3 ([ArrayInterface]),
// with the two spellings of element types that go with them: typestrings
// ([Typestr]) and the formats of the buffer protocol ([Format], PEP 3118).
//
// It reads what a bridge to Python has taken out of a dictionary, says which
// rule a bad one breaks, and converts from and to [dlpack.Desc], the project's
// own description. It makes no view and touches no memory: package memview
// does, on top of this one.
//
//	a, err := cai.Parse(dict, nil)                  // a Python dict as a map
//	if err != nil { ... }                           // names the rule
//	desc, err := a.Desc(dlpack.Device{Type: dlpack.DeviceCUDA}, nil)
//	if s := a.Stream; a.Ordering() == cai.OrderingStream { ... wait for s ... }
//
// # Neutral values
//
// A dictionary arrives as map[string]any with these values: nil for None, bool,
// any Go integer or [*big.Int], float64, string (or []byte), []any for a tuple,
// [List] for a list, map[string]any for a dictionary, and any other Go value
// for any other object. [Interface.Map] and [ArrayInterface.Map] give nil,
// bool, int64 or uint64, string, []any and [List]: shapes and strides are always
// tuples.
//
// # Ownership
//
// A description owns nothing and keeps nothing alive. Whoever uses its address
// keeps the object that published it (rules R194 and R219), and the stream named
// in it lives as long as that object (R193). Slices of a parsed description are
// its own; conversions share nothing with their argument.
//
// # Streams and ordering
//
// The package orders nothing. [Interface.Ordering] says what a description
// states about pending work: versions below 3 cannot state anything.
//
// # Errors
//
// A description that breaks a rule gives a [*dlpack.RuleError] with the number
// of the rule; errors.Is tells the kinds apart: [ErrMissing], [ErrType] and the
// sentinels of package dlpack. No input makes a function of this package panic.
//
// # Concurrency
//
// All functions may be called from several goroutines; values may be read by
// several at once.
//
// See https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html
// (version 3) and https://numpy.org/doc/stable/reference/arrays.interface.html
// (version 3).
package cai
