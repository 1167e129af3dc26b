// Package handoff is the root of a module for zero-copy exchange of arrays and
// streams between Go and other runtimes: Python's array libraries, C and C++
// libraries, and GPUs. It holds no code; the packages below it do.
//
//   - [github.com/go-handoff/handoff/dlpack]: the DLPack ABI: import, export,
//     element types, devices.
//   - [github.com/go-handoff/handoff/cai]: CUDA Array Interface, NumPy's array
//     interface, PEP 3118 formats.
//   - [github.com/go-handoff/handoff/memview]: strided views with typed access.
//   - [github.com/go-handoff/handoff/python/ext]: Python modules written in Go.
//   - [github.com/go-handoff/handoff/device/driver]: the CUDA driver's calls, on
//     a GPU or on the software device.
//
// The README has a first example and says what works today; docs/ownership.md
// says who frees what.
package handoff
