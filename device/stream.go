package device

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/internal/gate"
	"github.com/go-handoff/handoff/stream"
)

// Stream is a queue of work on a device. It may be used from any number of
// goroutines. It implements [stream.StreamLike].
//
// A Stream that this package created is destroyed when it is closed and
// nothing that depends on it is open; work queued on it still runs. One that
// wraps a stream of another library is never destroyed.
type Stream struct {
	object
	number   atomic.Uint64 // that no other stream has, or noPass: see Pass
	ctx      *Context
	handle   driver.StreamHandle
	kind     stream.Kind
	thread   int // for the per-thread default stream
	owned    bool
	foreign  any // what keeps the stream of another library alive
	priority int // of an owned stream
	blocking bool
	view     stream.StreamView // of s; a circle that the collector sees through
	passes   gate.Set          // where it is used without being counted
	cleanup  runtime.Cleanup
}

// StreamOptions tune [Device.NewStream]. The zero value is the default: a
// non-blocking stream of the least priority.
type StreamOptions struct {
	// Blocking makes the stream and the legacy default stream wait for each
	// other.
	Blocking bool
	// Priority is more urgent the lower it is; see [Context.Priorities]. Out
	// of range is an error that wraps [ErrInvalidValue].
	Priority int
}

// streamKey tells streams apart: default streams by their context and thread.
type streamKey struct {
	handle driver.StreamHandle
	ctx    driver.ContextHandle
	thread int
}

var streams registry[streamKey, Stream]

func (s *Stream) key() streamKey {
	if s.kind == stream.KindCreated {
		return streamKey{handle: s.handle}
	}
	return streamKey{s.handle, s.ctx.handle, s.thread}
}

// NewStream creates a stream in c. opts may be nil.
func (c *Context) NewStream(opts *StreamOptions) (*Stream, error) {
	const op = "create stream"
	var o StreamOptions
	if opts != nil {
		o = *opts
	}
	held, err := c.hold(op)
	if err != nil {
		return nil, err
	}
	ok := false
	defer func() {
		if !ok {
			_ = held.unref()
		}
	}()
	var flags uint32 = driver.StreamNonBlocking
	if o.Blocking {
		flags = 0
	}
	if o.Priority != 0 {
		least, greatest, err := c.Priorities()
		if err != nil {
			return nil, err
		}
		if o.Priority > least || o.Priority < greatest {
			return nil, invalid("%s: priority %d is not in [%d, %d]", op, o.Priority, greatest, least)
		}
	}
	d := c.dev.d
	h, res := d.StreamCreateWithPriority(c.handle, flags, int32(o.Priority))
	if err := check(op, c.dev.ordinal, res); err != nil {
		return nil, err
	}
	s := &Stream{ctx: c, handle: h, kind: stream.KindCreated, owned: true, priority: o.Priority, blocking: o.Blocking}
	ctx, dev := c.handle, c.dev.ordinal
	s.own = newOwner(&stats.streams, "device.Stream", func() error {
		err := check("destroy stream", dev, d.StreamDestroy(ctx, h))
		return join(err, held.unref())
	})
	s.cleanup = guard(s, s.own)
	s.identify()
	streams.put(s.key(), s)
	ok = true
	return s, nil
}

// WrapStream returns the Stream of a handle of another library, without
// taking it over: s.Close does not destroy it. The caller keeps the stream
// alive, or gives an owner whose life does. A handle that is known gives the
// Stream that it belongs to. ctx is where a default stream (0, 1, 2) belongs
// to; created streams know their context, and ctx may be nil.
func WrapStream(handle driver.StreamHandle, ctx *Context, owner any) (*Stream, error) {
	if handle <= driver.PerThreadStream && ctx == nil {
		return nil, fmt.Errorf("device: wrap stream: %w", stream.ErrNoContext)
	}
	if _, err := stream.KindOf(uintptr(handle)); err != nil {
		return nil, err
	}
	return wrapStream(ctx, handle, owner)
}

// Wrap is [WrapStream] for any object that speaks the stream protocol; it is
// kept alive. ctx may be nil unless it is a default stream.
func Wrap(s stream.StreamLike, ctx *Context) (*Stream, error) {
	if own, ok := s.(*Stream); ok && own != nil {
		if own.closed.Load() || !own.made() {
			return nil, closed("wrap stream")
		}
		return own, nil
	}
	v, err := view(s, ctx)
	if err != nil {
		return nil, err
	}
	if ctx == nil || ctx.handle != v.Context() {
		if ctx, err = WrapContext(v.Context()); err != nil {
			return nil, err
		}
	}
	return wrapStream(ctx, v.Handle(), v.Owner())
}

// view identifies any stream. ctx, if not nil, is where default streams belong.
func view(s stream.StreamLike, ctx *Context) (stream.StreamView, error) {
	switch s := s.(type) {
	case *Stream:
		if s != nil {
			return s.View(), nil
		}
	case stream.StreamView:
		return s, nil
	}
	var o stream.Options
	if ctx != nil && ctx.dev != nil {
		o.Driver, o.Context = ctx.dev.d, ctx.handle
	}
	return stream.Wrap(s, &o)
}

func wrapStream(c *Context, handle driver.StreamHandle, foreign any) (*Stream, error) {
	kind, err := stream.KindOf(uintptr(handle))
	if err != nil {
		return nil, err
	}
	key := streamKey{handle: handle}
	switch kind {
	case stream.KindLegacyDefault:
		key.handle, key.ctx = driver.LegacyStream, c.handle
	case stream.KindPerThreadDefault:
		key.ctx, key.thread = c.handle, threadID()
	}
	var home driver.ContextHandle
	if kind == stream.KindCreated {
		d, err := lib()
		if err != nil {
			return nil, err
		}
		var res driver.Result
		if c != nil {
			home = c.handle
		}
		if _, home, res = d.StreamDevice(home, handle); res != driver.Success {
			return nil, check("wrap stream", -1, res)
		}
	}
	known := func(s *Stream) bool {
		// The address of a destroyed stream of another library may be a new
		// stream's by now, and its context's that of a new context.
		if s.closed.Load() || kind == stream.KindCreated && s.ctx.handle != home {
			return false
		}
		return s.ctx == c || s.ctx.current()
	}
	return streams.resolve(key, known, func() (*Stream, error) {
		if kind == stream.KindCreated && (c == nil || c.handle != home || !c.current()) {
			if c, err = WrapContext(home); err != nil {
				return nil, err
			}
		}
		held, err := c.hold("wrap stream")
		if err != nil {
			return nil, err
		}
		s := &Stream{ctx: c, handle: key.handle, kind: kind, thread: key.thread, foreign: foreign}
		s.identify()
		s.own = &owner{kind: new(counter), final: held.unref}
		s.own.refs.Store(1)
		s.cleanup = runtime.AddCleanup(s, func(o *owner) {
			if !o.once.Swap(true) {
				reap(func() { _ = o.unref() })
			}
		}, s.own)
		return s, nil
	})
}

// Handle returns the raw handle: 1 and 2 for the default streams. It is valid
// while s is open.
func (s *Stream) Handle() driver.StreamHandle {
	if s == nil {
		return 0
	}
	return s.handle
}

// CUDAStream makes a Stream a [stream.StreamLike]: (0, handle). A closed one
// has version -1, which every consumer refuses.
func (s *Stream) CUDAStream() (version int, handle uintptr) {
	if s == nil || s.ctx == nil || s.closed.Load() {
		return -1, 0
	}
	return 0, uintptr(s.handle)
}

// View returns s as packages below know streams; it keeps s alive. The view of
// a closed stream is the zero view, whose methods fail.
func (s *Stream) View() stream.StreamView {
	if s == nil || s.closed.Load() {
		return stream.StreamView{}
	}
	return s.view
}

// identify makes the view of a new stream, once its handle is set.
func (s *Stream) identify() {
	if s.kind == stream.KindPerThreadDefault {
		s.number.Store(noPass)
	} else {
		s.number.Store(streamNumbers.Add(1))
	}
	s.view = stream.Known(s.ctx.dev.d, s.ctx.handle, s.ctx.dev.ordinal, s.handle, s)
}

// Context returns the context of the stream.
func (s *Stream) Context() *Context {
	if s == nil {
		return nil
	}
	return s.ctx
}

// Device returns the device of the stream.
func (s *Stream) Device() *Device { return s.Context().Device() }

// Kind says whether it is a default stream or a created one; 0 for the zero
// value.
func (s *Stream) Kind() stream.Kind {
	if s == nil {
		return 0
	}
	return s.kind
}

// Owned says whether this package created the stream.
func (s *Stream) Owned() bool { return s != nil && s.owned }

// Owner returns what a stream of another library is kept alive by, or nil.
func (s *Stream) Owner() any {
	if s == nil {
		return nil
	}
	return s.foreign
}

// String returns the kind, the handle and the device.
func (s *Stream) String() string { return s.describe() }

func (s *Stream) describe() string {
	if s.Context() == nil {
		return "no stream"
	}
	t := s.kind.String() + " stream"
	if s.kind == stream.KindCreated {
		t += fmt.Sprintf(" %#x", uintptr(s.handle))
	}
	return t + " of " + s.ctx.dev.String()
}

// use begins a use of the stream on this goroutine. A per-thread default
// stream is only usable on its thread.
func (s *Stream) use(op string) error {
	if s == nil {
		return closed(op)
	}
	if err := s.enter(op); err != nil {
		return err
	}
	if s.kind == stream.KindPerThreadDefault && s.thread != threadID() {
		s.exit()
		return fmt.Errorf("device: %s: %v: %w", op, s, ErrThread)
	}
	return nil
}

func (s *Stream) fail(op string, res driver.Result) error {
	return check(op, s.ctx.dev.ordinal, res)
}

// Close gives the stream up. A created stream is destroyed once nothing
// depends on it; work that is queued still runs. It may be called twice.
func (s *Stream) Close() error {
	if s == nil || !s.made() || s.closed.Swap(true) {
		return nil
	}
	s.cleanup.Stop()
	streams.drop(s.key(), s)
	s.number.Store(noPass)
	s.passes.Retire(func() { s.own.ref() }, s.exit)
	if d := s.ctx.dev.d; s.kind == stream.KindCreated && !d.OrdersDone() && s.own.ref() {
		go func() { // a call waits for a full queue, say
			defer s.exit()
			for !d.OrdersDone() {
				time.Sleep(pollSlow)
			}
		}()
	}
	return s.own.dispose()
}

// NonBlocking says whether the stream and the legacy default stream leave each
// other alone.
func (s *Stream) NonBlocking() (bool, error) {
	if s.Owned() {
		return !s.blocking, nil
	}
	if err := s.use("stream flags"); err != nil {
		return false, err
	}
	defer s.exit()
	flags, res := s.ctx.dev.d.StreamGetFlags(s.ctx.handle, s.handle)
	return flags&driver.StreamNonBlocking != 0, s.fail("stream flags", res)
}

// Priority returns the stream's priority; the lower the more urgent.
func (s *Stream) Priority() (int, error) {
	if s.Owned() {
		return s.priority, nil
	}
	if err := s.use("stream priority"); err != nil {
		return 0, err
	}
	defer s.exit()
	p, res := s.ctx.dev.d.StreamGetPriority(s.ctx.handle, s.handle)
	return int(p), s.fail("stream priority", res)
}

// ID returns a number that no other stream of the process has or had.
func (s *Stream) ID() (uint64, error) {
	if err := s.use("stream id"); err != nil {
		return 0, err
	}
	defer s.exit()
	id, res := s.ctx.dev.d.StreamGetId(s.ctx.handle, s.handle)
	return id, s.fail("stream id", res)
}

// Done says whether all work queued on the stream is done. While the stream
// captures it is [ErrCapture], and the capture is not harmed (B231).
func (s *Stream) Done() (bool, error) {
	if err := s.use("query stream"); err != nil {
		return false, err
	}
	defer s.exit()
	res := s.ctx.dev.d.StreamPoll(s.ctx.handle, s.handle)
	if res == driver.ErrorNotReady {
		return false, nil
	}
	return res == driver.Success, s.fail("query stream", res)
}

// Capturing says whether work queued on the stream is recorded into a graph.
func (s *Stream) Capturing() (bool, error) {
	if err := s.use("capture status"); err != nil {
		return false, err
	}
	defer s.exit()
	status, res := s.ctx.dev.d.StreamIsCapturing(s.ctx.handle, s.handle)
	return status != driver.StreamCaptureStatusNone, s.fail("capture status", res)
}

// Synchronize waits until the work that is queued on the stream now is done,
// or ctx ends; ending the wait does not end the work. No thread is held while
// it waits, unless ctx can never end: then the driver blocks one, as it wakes
// up sooner, of a few at a time. While the stream captures it is [ErrCapture],
// and the capture is not harmed.
func (s *Stream) Synchronize(ctx context.Context) error {
	const op = "synchronize stream"
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := s.use(op); err != nil {
		return err
	}
	d := s.ctx.dev.d
	res := bounded(func() driver.Result { return d.StreamPoll(s.ctx.handle, s.handle) })
	if res != driver.ErrorNotReady {
		s.exit()
		return s.fail(op, res)
	}
	if ctx.Done() == nil {
		select {
		case blockers <- struct{}{}:
			defer func() { <-blockers }()
			defer s.exit()
			return s.fail(op, d.StreamSynchronize(s.ctx.handle, s.handle))
		default: // too many: wait without a thread
		}
	}
	var e driver.EventHandle
	res = bounded(func() (res driver.Result) {
		e, res = d.RecordPooled(s.ctx.handle, s.handle)
		return res
	})
	if res != driver.Success {
		s.exit()
		return s.fail(op, res)
	}
	res, err := waitEvent(ctx, d, waiter{ctx: s.ctx.handle, event: e, pooled: true, closer: s.exit})
	if err != nil {
		return err
	}
	return s.fail(op, res)
}

// Record creates an event and records it: it is complete when the work that is
// queued on the stream now is done. opts may be nil.
func (s *Stream) Record(opts *EventOptions) (*Event, error) {
	if err := s.use("record event"); err != nil {
		return nil, err
	}
	defer s.exit()
	e, err := s.ctx.createEvent(opts, s.ctx.keep())
	if err != nil {
		return nil, err
	}
	if err := s.RecordEvent(e); err != nil {
		return nil, join(err, e.Close())
	}
	return e, nil
}

// RecordEvent records an event of the stream's context again: from now on it
// means the work that is queued on the stream now.
func (s *Stream) RecordEvent(e *Event) error {
	const op = "record event"
	if e == nil {
		return invalid("%s: no event", op)
	}
	if err := s.use(op); err != nil {
		return err
	}
	defer s.exit()
	if err := e.enter(op); err != nil {
		return err
	}
	defer e.exit()
	if e.ctx != s.ctx {
		return &Error{
			Op: op, Device: s.ctx.dev.Ordinal(), Code: driver.ErrorInvalidHandle,
			Detail: fmt.Sprintf("the event is of the %v, the stream of the %v", e.ctx, s.ctx),
		}
	}
	if res := s.ctx.dev.d.EventRecord(s.ctx.handle, e.handle, s.handle); res != driver.Success {
		return s.fail(op, res)
	}
	e.recorded.Store(true)
	return nil
}

// WaitEvent makes work queued on the stream from now on wait for an event, of
// any device. An event that was never recorded holds nothing up.
func (s *Stream) WaitEvent(e *Event) error {
	const op = "wait for event"
	if e == nil {
		return invalid("%s: no event", op)
	}
	if err := s.use(op); err != nil {
		return err
	}
	defer s.exit()
	if err := e.enter(op); err != nil {
		return err
	}
	defer e.exit()
	res := s.ctx.dev.d.StreamWaitEvent(s.ctx.handle, s.handle, e.handle, 0)
	if res == driver.Success {
		stats.edges.Add(1)
	}
	return s.fail(op, res)
}

// Wait makes work queued on the stream from now on wait for the work that is
// queued on another stream now, of any library and any device. If they are one
// stream nothing happens; otherwise it is one event edge, in one crossing, and
// the host does not wait. It may be used while either stream captures.
func (s *Stream) Wait(o stream.StreamLike) error {
	const op = "wait for stream"
	if s == nil {
		return closed(op)
	}
	if other, ok := o.(*Stream); ok && other != nil {
		return s.waitStream(other)
	}
	v, err := view(o, s.ctx)
	if err != nil {
		return err
	}
	if err := s.use(op); err != nil {
		return err
	}
	defer s.exit()
	mine := s.View()
	if mine.Same(v) {
		return nil
	}
	if err := mine.WaitFor(v); err != nil {
		return fmt.Errorf("device: %w", err)
	}
	return nil
}

func (s *Stream) waitStream(other *Stream) error {
	const op = "wait for stream"
	if s.kind == stream.KindCreated && other.kind == stream.KindCreated && s.handle != other.handle {
		// What every exchange pays: uses are not counted, see Close.
		res, ok := s.ctx.dev.d.OrderOpenStreams(other.ctx.handle, other.handle, s.handle, &other.closed.word, &s.closed.word)
		runtime.KeepAlive(other)
		runtime.KeepAlive(s)
		if ok {
			if res != driver.Success {
				return s.fail(op, res)
			}
			return nil
		}
		// Without the care for threads, and without defers: nothing here panics.
		if !s.begin() {
			return closed(op)
		}
		if !other.begin() {
			s.exit()
			return closed(op)
		}
		res = s.ctx.dev.d.OrderStreams(other.ctx.handle, other.handle, s.ctx.handle, s.handle, false)
		other.exit()
		s.exit()
		if res != driver.Success {
			return s.fail(op, res)
		}
		return nil
	}
	if err := s.use(op); err != nil {
		return err
	}
	defer s.exit()
	if !other.made() {
		return closed(op)
	}
	if other.key() == s.key() {
		return nil
	}
	if err := other.use(op); err != nil {
		return err
	}
	defer other.exit()
	return s.fail(op, s.ctx.dev.d.OrderStreams(other.ctx.handle, other.handle, s.ctx.handle, s.handle, false))
}

// Launch queues a Go function on the stream, see [driver.Driver.LaunchHostGo]:
// work queued after it waits for it. It must make no driver call and not wait
// for the device.
func (s *Stream) Launch(f func()) error {
	const op = "launch host function"
	if f == nil {
		return invalid("%s: no function", op)
	}
	if err := s.use(op); err != nil {
		return err
	}
	defer s.exit()
	status, res := s.ctx.dev.d.StreamIsCapturing(s.ctx.handle, s.handle)
	if res != driver.Success {
		return s.fail(op, res)
	}
	if status != driver.StreamCaptureStatusNone {
		return &Error{
			Op: op, Device: s.ctx.dev.Ordinal(), Code: driver.ErrorStreamCaptureUnsupported,
			Detail: "the function would run once, the graph may run often: add a host node to the graph",
		}
	}
	return s.fail(op, s.ctx.dev.d.LaunchHostGo(s.ctx.handle, s.handle, f))
}

// BeginCapture begins to record the work queued on the stream into a graph, in
// the mode given (driver.StreamCaptureModeRelaxed suits goroutines, which have
// no thread). The legacy default stream cannot capture (B233).
func (s *Stream) BeginCapture(mode int32) error {
	const op = "begin capture"
	if err := s.use(op); err != nil {
		return err
	}
	defer s.exit()
	if s.kind == stream.KindLegacyDefault {
		return &Error{
			Op: op, Device: s.ctx.dev.Ordinal(), Code: driver.ErrorStreamCaptureUnsupported,
			Detail: "the legacy default stream cannot capture: use another stream",
		}
	}
	return s.fail(op, s.ctx.dev.d.StreamBeginCapture(s.ctx.handle, s.handle, mode))
}

// EndCapture ends the capture and returns the raw graph, which the caller owns.
func (s *Stream) EndCapture() (driver.GraphHandle, error) {
	const op = "end capture"
	if err := s.use(op); err != nil {
		return 0, err
	}
	defer s.exit()
	g, res := s.ctx.dev.d.StreamEndCapture(s.ctx.handle, s.handle)
	return g, s.fail(op, res)
}
