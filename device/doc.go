// Package device has the objects of a GPU program: devices, contexts, streams,
// events, buffers and where their memory comes from, each with a life cycle.
//
// Use package driver below it for raw calls, package stream for streams of
// other libraries, package memview for arrays.
//
//	dev, err := device.Open(0)
//	...
//	s, err := dev.NewStream(nil)
//	...
//	defer s.Close()
//	b, err := dev.Allocate(1<<20, s)
//	...
//	defer b.Close()
//	err = b.Fill32(42, s)
//	err = s.Synchronize(ctx)
//
// Nothing here needs a GPU to build, or a driver to start: [Open] and
// [Devices] say [ErrNoDriver] where there is none. HANDOFF_DRIVER chooses the
// driver, see package driver.
//
// # Ownership
//
// What is made here is closed by who made it. Handles hold what they depend on:
// a stream its context, a buffer its pool and its streams. So everything may be
// closed in any order, and while another goroutine uses it; the handle goes
// back to the driver with its last user. What is forgotten is given back when
// the collector finds it, and counted in [Statistics].
//
// A raw handle that is seen again gives the object that owns it ([WrapStream],
// [WrapContext], [EventOf]), never a second owner. Wrapping never takes over.
//
// # Streams and ordering
//
// Whatever schedules work takes a stream; there is no default. Nothing here
// blocks the host, except what is called Synchronize, CopyToHost, and
// allocation outside of pools. One event edge orders two streams ([Stream.Wait]).
// A buffer is given back in stream order, after the work of all streams that
// it was used on.
//
// # Other processes
//
// An event ([Event.IPCHandle], [Context.OpenIPCEvent]) orders work of two
// processes, and buffers of a shareable pool are used by both ([DevicePool.FD],
// [DevicePool.Share], [Device.OpenPool], [DevicePool.Open]). Events and pools of the
// software device are one process's: there these give [ErrNotSupported]. Memory
// outside of pools is shared on both ([Buffer.Share], [OpenMemory]).
//
// # Errors
//
// A failed driver call is an [*Error] with operation, device and code. Test for
// kinds with [errors.Is] and the sentinels of this package.
//
// # Concurrency
//
// All objects may be used from any number of goroutines at once, with two
// exceptions that belong to a thread: what [Context.SetCurrent] does, and the
// per-thread default stream. Waiting holds no thread.
package device
