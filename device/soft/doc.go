// Package soft is a software device: a CUDA-driver-like device written in Go behind the
// driver's C ABI, for tests, for continuous integration and for people without a GPU.
//
// It never passes itself off as a GPU: its name says what it is, and a program gets it only
// by asking, with HANDOFF_DRIVER=soft in the environment or with [Enable]:
//
//	if err := soft.Enable(nil); err != nil { ... }
//	d, err := driver.Default() // served by the software device
//
// Linking this package in changes nothing by itself.
//
// It is as asynchronous as the real thing. Every stream runs on its own goroutine; the legacy
// default stream, per-thread default streams, events, stream-ordered pools, peer copies, pinned,
// registered and managed memory, host functions, stream capture and graphs follow the driver's rules and
// give its result codes. Device memory has no access rights at its address, so a stray access by the
// host faults. Several devices exist.
//
// Kernels are Go functions: [RegisterKernel] names one, [Image] makes code to load as a module or
// library, and launches pass the same packed arguments as on a GPU.
//
// # Faults
//
// Any driver call can be made to fail, at any time: [InjectFault] for a test, [Inject] elsewhere,
// HANDOFF_SOFT_FAULT for programs in other languages. A [Fault] names the entry point, the number
// of the call and the code, or a size of memory; it can lose the context for good, or only
// be slow. [HangStream] and [SlowStream] hold queued work back.
//
// # What it does not have
//
// Arrays, textures and surfaces, virtual memory management, memory and events shared between
// processes, the device linker, tensor maps, and code for real GPUs: those calls answer NOT_SUPPORTED,
// loading real code NO_BINARY_FOR_GPU.
//
// # Environment
//
//   - HANDOFF_SOFT_DEVICES: how many devices, 2 by default.
//   - HANDOFF_SOFT_MEMORY: bytes of memory of each.
//   - HANDOFF_SOFT_PEERS: 0 for devices that cannot reach one another.
//   - HANDOFF_SOFT_VERSION: the CUDA version to claim, 13000 by default.
//   - HANDOFF_SOFT_FAULT: calls that fail, api:nth:code (see [ParseFault]), commas between them.
//
// # Concurrency
//
// All of it may be used from any thread at once. As with the driver, the current context
// belongs to the OS thread.
package soft
