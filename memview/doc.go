// Package memview views arrays in memory that somebody else may own: with
// strides, of any element type, without a copy.
//
// A [StridedMemoryView] is what Go code sees of an array that came from
// Python, C or another Go library, and what it hands out as one. A [Layout] is
// the arithmetic behind it, usable on its own: shapes, strides, slices,
// reshapes. To take over or lend tensors without looking into them, package
// dlpack is enough.
//
//	v, err := memview.FromDLPack(m) // or FromSlice, FromBuffer, FromRaw, ...
//	if err != nil {
//		return err
//	}
//	defer v.Release()
//	if s, err := memview.Slice[float32](v); err == nil {
//		scale(s) // dense memory: an ordinary Go slice
//	} else if m, err := memview.MatrixOf[float32](v); err == nil {
//		m.Set(0, 0, 1) // any strides
//	}
//
// # Access
//
// Generic functions read and write elements of exactly one Go type, see
// [Element]: [Slice] for dense memory, [VectorOf] and [MatrixOf] for fast
// access through strides, [At], [Set], [Values], [Items] and [Pointers] for any
// number of axes. The methods [StridedMemoryView.Float64At] and its relatives
// convert from and to every numeric dtype. Elements of 4 and 6 bits work packed
// and padded. [Copy] moves elements between any two layouts, and [Convert] into
// another dtype, which no copy does; nothing else copies, except what says so in its name. [StridedMemoryView.View] reads
// memory as another type.
//
// # Ownership
//
// A view does not own memory; it holds on to an [Owner], which has to be named
// for every bare address: a tensor ([Managed]), a function that frees
// ([OnRelease]), a caller that lends for the time of a call ([Lent]), or the
// caller's promise ([Unowned]). Go memory needs none. All copies and parts of a
// view share one claim: [StridedMemoryView.Release] gives it up for all of
// them, once. [StridedMemoryView.Retain] makes another claim.
//
// Every access asks first whether the memory is still there. A view of lent
// memory that was kept after the call gives [dlpack.ErrClosed], instead of
// reading what is no longer an array. What Slice, VectorOf, MatrixOf and the
// iterators return cannot ask any more: it must not be used after the memory
// was given back.
//
// # Errors
//
// Foreign numbers are never believed: sizes and offsets are computed with
// checks for overflow, and everything that breaks a rule of a protocol gives a
// [*dlpack.RuleError] with the number of the rule, wrapping a sentinel of
// package dlpack. A read-only view is refused by every writable accessor with
// [dlpack.ErrReadOnly]. Only the accessors that are like slices (Vector,
// Matrix) panic, for indices out of range.
//
// # Concurrency
//
// Layouts and views are values and may be used from several goroutines at
// once. Reading and writing of elements is for the caller to order, as for slices.
// Copy uses several goroutines for large arrays and returns when all is done.
//
// # Devices
//
// Views of device memory have the same layouts; their address is a number. The
// elements can be reached only where the host can: [dlpack.ErrDevice] otherwise.
// [StridedMemoryView.MemoryKind], [StridedMemoryView.DeviceID] and
// [StridedMemoryView.IsDeviceAccessible] say where memory is, the same on every
// path; [StridedMemoryView.Probe] asks the driver, for what producers do not
// tell.
//
// # Streams and ordering
//
// Whoever takes memory that a device touches says how to order: [Import],
// [FromCAI], [FromDeviceBuffer] and [StridedMemoryView.Ordered] take a
// [stream.Order]. On a stream, they make that stream wait for the producer's, by
// one event edge, or none where none is needed. The views keep both streams.
//
//	v, err := memview.Import(theirs, stream.On(s.View()), nil)
//	...
//	err = memview.CopyOn(out, v, s.View()) // and other work on s
//	err = v.ReleaseOn(s.View())
//
// [StridedMemoryView.ReleaseOn] gives memory back in the order of a stream, so
// that its owner does not use it again too early, and without the host waiting. [Flush],
// at shutdown, waits for what it holds back. A view exports ([StridedMemoryView.DLPack],
// [StridedMemoryView.CUDAArrayInterface]) with the duty of an exporter done:
// the consumer's stream waits, or gets to know which one to wait for.
//
// [CopyOn] copies between any two views in the order of a stream. Of the things in
// this package only Flush, [StridedMemoryView.Wait], and exports of device memory as
// CPU memory wait for a device, besides the limits that ReleaseOn and CopyOn
// document. Programs that copy strided memory on the software device import package
// memview/softcopy.
//
// The protocols are DLPack 1.3, the CUDA Array Interface versions 0 to 3,
// NumPy's array interface version 3, and the Python buffer protocol (PEP 3118).
package memview
