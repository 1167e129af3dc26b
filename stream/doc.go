// Package stream identifies CUDA streams that somebody else owns and orders
// work between them.
//
// A stream crosses between libraries as a pair (0, handle): version 0 of the
// __cuda_stream__ protocol. In Go that is the interface [StreamLike]; in C a
// raw cudaStream_t. A [StreamView] is what this project makes of either: it
// knows the handle, the kind (legacy default, per-thread default, created), the
// device and the context, and it keeps the object that the handle came from
// alive. It never destroys the stream. Streams that this project makes, and
// therefore destroys, are in package device.
//
//	v, err := stream.Wrap(theirs, nil) // theirs implements StreamLike
//	if err != nil {
//		return err
//	}
//	err = mine.WaitFor(v) // work queued on mine from now on follows v's
//
// # Ordering
//
// [StreamView.WaitFor] makes exactly the edge that is needed: nothing if both
// are one stream, otherwise one event recorded on the other stream and one
// wait, in one call into C, without blocking the host. Exchange functions take
// an [Order]: [On] a stream, or [NoSync]; the zero Order is an error, since
// nobody can guess it.
//
// # Default streams
//
// The handles 0 and 1 are the legacy default stream, 2 is the per-thread one.
// They belong to a context, and a goroutine has no current context: say which
// in [Options]. The per-thread stream is another stream on each thread, so a
// view of it may be used only on the thread that made it: lock the goroutine
// with [runtime.LockOSThread] around both. Use from another thread is an error
// that wraps [ErrThread] (R278).
//
// # Concurrency
//
// A StreamView is a value and may be used from any number of goroutines.
//
// Source: "CUDA stream protocol", cuda.core documentation (R260 to R278).
package stream
