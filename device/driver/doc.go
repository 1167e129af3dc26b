// Package driver makes thin calls to the CUDA driver: raw handles in, result
// codes out, one method an entry point.
//
// It is the floor under package device, and usable alone by those who want no
// wrappers. Nothing is linked: libcuda.so.1 is opened when [Default] or [Open]
// first asks for it, so a program that uses this package starts on a machine
// without a driver, and a call that an older driver lacks fails alone, with
// the version that it needs.
//
//	d, err := driver.Default()
//	if err != nil {
//		return err // errors.Is(err, driver.ErrNoDriver), for example
//	}
//	ctx, res := d.DevicePrimaryCtxRetain(0)
//	if err := res.Err(); err != nil {
//		return err
//	}
//	ptr, res := d.MemAlloc(ctx, 1<<20)
//
// # Providers
//
// The calls go through one table of C functions with the driver's own
// interface. HANDOFF_DRIVER chooses who fills it: "cuda" or "auto" (the
// default) is libcuda.so.1, or the file that HANDOFF_LIBCUDA names; "soft" is
// the software device, if package device/soft is linked in; "none" is nobody.
//
// # Missing synchronization
//
// With HANDOFF_CHECK, or [Options].Check, a layer lies in front of the table that hunts for missing
// synchronization on any driver, a GPU's too: it sees every operation that this library makes, with its
// stream and bytes, and every edge, and reports two uses of the same bytes, one of them a write, without an edge between
// them, with both call sites and the edge that would help ([Driver.Races]). HANDOFF_CHECK=1 writes reports to the
// standard error, a path with a slash appends them to that file as lines of JSON. Without it nothing is in
// front of the table, and nothing costs anything.
//
// What kernels do is not known on a GPU: an address that a kernel gets counts as read, so that it
// conflicts with copies into the memory, memsets and frees, not with other kernels. Memory of
// other libraries is looked at from the moment at which it is handed over ([Driver.HandOver],
// which package memview calls) until it is given back; what is imported, opened or mapped, from the call that
// does it. Where another library has allocated memory at an address at which this one had freed some, the driver's number of
// the allocation tells. Edges and work that other libraries make are not seen, nor are
// those inside of graphs, nor processes after a fork. The software device's own hunt (package soft) knows all of these.
//
// It costs a look at the call stack and a lock for every call: on an H200 2.0 µs for an event edge in place of
// 0.34, 6.6 µs for a launch in place of 5.0, and 13 µs for allocating and freeing 1 KiB of a pool in place of 5.2.
//
// # Contexts and threads
//
// The driver's current context belongs to a thread, and a goroutine has none.
// A method with a parameter ctx makes that context current, acts, and restores
// what was current, in one crossing into C. 0 leaves the thread as it is. The
// few calls that show the thread itself (CtxPushCurrent, CtxSetCurrent, ...)
// are for goroutines that have called [runtime.LockOSThread].
//
// # Ownership
//
// A handle is an integer and owns nothing; who creates one destroys it. A
// host address given as a uintptr is not kept alive by the call, nor by the
// copy that it queues: pin Go memory with a [runtime.Pinner] until the copy is
// done, or use driver-allocated memory. Slices are lent for the call. Arrays
// of pointers (kernel parameters) are C memory, given as [unsafe.Pointer].
//
// # Errors
//
// A [Result] is the driver's code. Its zero value is [Success]; [Result.Err]
// turns it into an error. It matches the sentinels of this package with
// [errors.Is].
//
// # Concurrency
//
// A [Driver] may be used from any number of goroutines. No method allocates
// Go memory, except those that take or return a string.
//
// The names and meanings are those of the CUDA driver API
// (https://docs.nvidia.com/cuda/cuda-driver-api/), versions 12 and 13.
package driver

//go:generate go run ./internal/gen
