// Package engine is the software device in pure Go: devices, contexts,
// asynchronous streams, events, memory, pools, kernels, capture and graphs with
// the rules and the result codes of the CUDA driver. It knows nothing of C; package
// soft puts the driver's C ABI in front of it.
//
// # How work runs
//
// Every piece of stream work is a [work] value. Work enters a stream in one place,
// Engine.submit, with the byte ranges that it reads and writes; while the stream is being
// captured the same value becomes a graph node instead. Submitted work becomes a task;
// a task runs on the goroutine of its stream after the task before it and after the tasks
// that it depends on (events waited for, the legacy default stream, the streams of a context).
// A goroutine exists while its stream has work.
//
// # Locks
//
// Engine.mu guards all bookkeeping and is never held while something waits or while
// foreign code runs. The address space has its own read-write lock because running work
// looks addresses up. Order: Engine.mu, then stream.qmu, then task.mu; space.mu is a leaf.
package engine
