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
// # Missing synchronization
//
// It hunts for it: two accesses to the same bytes, one of them a write, that no edge orders. Every
// stream has a vector clock, every allocation a history by ranges of bytes; a report ([Race]) names both
// accesses, their streams and call sites, and the edge that would order them. [Check] does it for a test,
// [CheckMain] for a test program, [StartHunt] and [Races] for any other, HANDOFF_SOFT_CHECK for programs in
// other languages. It finds a race also when the run happened to give the right result.
//
// What counts as an edge: the order of a stream, events, the rule of the legacy default stream, the edges of graphs,
// words of memory written and waited for by streams, and what the host waited for or asked about. The
// host is one actor, since goroutines move between threads and nobody tells a driver of channels and locks: a wait by one
// thread counts for all. What a host function tells the host is taken to be everything before it; that it
// may wait for the host is no edge. Accesses of copies, memsets, frees and stream-ordered allocations are known exactly,
// those of kernels as they ask for memory: [Launch.Read] and [Launch.Write] say what they do, and of [Launch.Bytes]
// and [Slice] all bytes count as read, those that have changed as written. What host code does to
// pinned and managed memory by itself is not seen.
//
// A seed permutes the order in which streams run their work: HANDOFF_SOFT_SEED, a number or
// "random"; [Options] says what it replays. Reports name it. Without the hunt and without a seed nothing of
// this costs more than a look at a pointer.
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
// Arrays, textures and surfaces, virtual memory management, events and pools shared between
// processes, the device linker, tensor maps, and code for real GPUs: those calls answer NOT_SUPPORTED,
// loading real code NO_BINARY_FOR_GPU. Memory outside of pools is shared between processes of one user on
// Linux (cuIpcGetMemHandle).
//
// # Environment
//
// A value that makes no sense is an error when the device is opened.
//
//   - HANDOFF_SOFT_DEVICES: how many devices, 2 by default.
//   - HANDOFF_SOFT_MEMORY: bytes of memory of each.
//   - HANDOFF_SOFT_PEERS: 0 for devices that cannot reach one another.
//   - HANDOFF_SOFT_VERSION: the CUDA version to claim, 13000 by default.
//   - HANDOFF_SOFT_CHECK: 1 hunts for missing synchronization and reports to the standard error, a
//     path with a slash appends each report to that file as a line of JSON.
//   - HANDOFF_TRACE: a file for a trace of everything ([StartTrace]).
//   - HANDOFF_SOFT_SEED: a number, or "random": the seed of the order in which streams run.
//   - HANDOFF_SOFT_FAULT: calls that fail, api:nth:code (see [ParseFault]), commas between them.
//
// # Concurrency
//
// All of it may be used from any thread at once. As with the driver, the current context
// belongs to the OS thread.
package soft
