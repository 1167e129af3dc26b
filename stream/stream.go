package stream

import (
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/device/driver"
)

// StreamLike is a stream of any library: the Go form of the __cuda_stream__
// protocol. version is 0; handle is the address of the cudaStream_t (the same
// as a CUstream), or 0, 1 or 2 for a default stream. The handle stays valid
// while the object is alive and open (R271).
type StreamLike interface {
	CUDAStream() (version int, handle uintptr)
}

// Kind tells streams apart that need different care.
type Kind uint8

// Kinds.
const (
	// KindLegacyDefault is the legacy default stream, handle 0 or 1.
	KindLegacyDefault Kind = 1
	// KindPerThreadDefault is the default stream of one thread, handle 2.
	KindPerThreadDefault Kind = 2
	// KindCreated is a stream that somebody created.
	KindCreated Kind = 3
)

// String returns the kind in words.
func (k Kind) String() string {
	switch k {
	case KindLegacyDefault:
		return "legacy default"
	case KindPerThreadDefault:
		return "per-thread default"
	case KindCreated:
		return "created"
	}
	return "kind " + strconv.Itoa(int(k))
}

// lowestAddress is the lowest value that can be the address of a stream
// object: the first page of a process is never mapped.
const lowestAddress = 4096

// KindOf identifies a raw handle without asking a driver. A number that can be
// neither a default stream nor an address gives an error that wraps
// [ErrProtocol] (R263).
func KindOf(handle uintptr) (Kind, error) {
	switch {
	case handle <= 1:
		return KindLegacyDefault, nil
	case handle == 2:
		return KindPerThreadDefault, nil
	case handle < lowestAddress:
		return 0, ruleError("R263", fmt.Sprintf("handle %#x is no stream", handle), ErrProtocol)
	}
	return KindCreated, nil
}

// StreamView is a stream that somebody else owns. The zero value is no stream:
// its methods return errors that wrap [ErrInvalid]. Compare views with
// [StreamView.Same], not with ==.
type StreamView struct {
	id    *identity // nil in the zero value
	owner any
}

// identity is what is known of a stream. It never changes, and is apart from
// the view so that a view is three words, which travel in registers: copying
// the facts themselves twice costs as much as half a call into C.
type identity struct {
	d      *driver.Driver
	handle driver.StreamHandle
	ctx    driver.ContextHandle
	dev    driver.Device
	kind   Kind
	thread int32 // kernel's number of the thread, for the per-thread default stream
}

// recent finds the identity of a stream that is seen again, so that a view of
// one usually allocates nothing. A slot that another stream takes over costs an
// allocation, nothing else.
var recent [64]atomic.Pointer[identity]

func identify(x *identity) *identity {
	h := uintptr(x.handle)>>4 ^ uintptr(x.ctx)>>4 ^ uintptr(x.thread)
	slot := &recent[(h^h>>6)%uintptr(len(recent))]
	if p := slot.Load(); p != nil && *p == *x {
		return p
	}
	p := new(identity)
	*p = *x
	slot.Store(p)
	return p
}

// Options tune [Wrap] and [WrapHandle]. The zero value, and nil, fit created
// streams of the default driver.
type Options struct {
	// Driver is asked about the handle; nil means [driver.Default].
	Driver *driver.Driver
	// Context is where a default stream belongs to; it must be given for
	// those. Created streams know their context.
	Context driver.ContextHandle
	// Owner is kept alive as long as the view is. [Wrap] uses the StreamLike
	// if it is nil.
	Owner any
}

// Wrap identifies a stream of another library. The view keeps s alive and never
// destroys the stream (R269, R270).
//
// Errors: R266 for another version of the protocol and R263 for a number that
// is no handle, both wrapping [ErrProtocol]; [ErrNoContext] for a default
// stream without [Options].Context; [driver.ErrNoDriver] where there is no
// driver; what the driver says of a handle that it does not know. A destroyed
// or invented handle is not always noticed by CUDA's driver, which may read
// where it points.
func Wrap(s StreamLike, opts *Options) (StreamView, error) {
	if s == nil {
		return StreamView{}, ruleError("R264", "the stream is nil", ErrProtocol)
	}
	version, handle := s.CUDAStream()
	if version != 0 {
		return StreamView{}, ruleError("R266", "protocol version "+strconv.Itoa(version)+", only 0 is defined", ErrProtocol)
	}
	if v, ok := s.(StreamView); ok {
		if err := v.check(); err != nil {
			return StreamView{}, fmt.Errorf("stream: wrap: %w", err)
		}
		return v, nil
	}
	o := Options{}
	if opts != nil {
		o = *opts
	}
	if o.Owner == nil {
		o.Owner = s
	}
	return WrapHandle(handle, &o)
}

// WrapHandle is [Wrap] for a raw cudaStream_t or CUstream, for example of a C
// library. The caller keeps the stream alive as long as the view is used, or
// gives an Owner whose life does.
func WrapHandle(handle uintptr, opts *Options) (StreamView, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	kind, err := KindOf(handle)
	if err != nil {
		return StreamView{}, err
	}
	d := o.Driver
	if d == nil {
		if d, err = driver.Default(); err != nil {
			return StreamView{}, fmt.Errorf("stream: wrap: %w", err)
		}
	}
	x := identity{d: d, handle: driver.StreamHandle(handle), kind: kind}
	switch kind {
	case KindLegacyDefault:
		x.handle = driver.LegacyStream // 0 is the same stream to this project's driver calls (R274)
	case KindPerThreadDefault:
		x.thread = threadID()
	}
	if kind != KindCreated && o.Context == 0 {
		return StreamView{}, fmt.Errorf("stream: wrap: %w: give Options.Context", ErrNoContext)
	}
	dev, ctx, res := d.StreamDevice(o.Context, x.handle)
	if res != driver.Success {
		return StreamView{}, callError("wrap", res)
	}
	x.dev, x.ctx = dev, ctx
	return StreamView{identify(&x), o.Owner}, nil
}

// Known makes a view of facts that the caller vouches for, without asking the
// driver: what packages above use for streams that they made themselves.
func Known(d *driver.Driver, ctx driver.ContextHandle, dev driver.Device, handle driver.StreamHandle, owner any) StreamView {
	x := identity{d: d, ctx: ctx, dev: dev, handle: handle, kind: KindCreated}
	switch handle {
	case driver.DefaultStream, driver.LegacyStream:
		x.kind, x.handle = KindLegacyDefault, driver.LegacyStream
	case driver.PerThreadStream:
		x.kind, x.thread = KindPerThreadDefault, threadID()
	}
	return StreamView{identify(&x), owner}
}

// Valid reports whether v is a stream, and not the zero value.
func (v StreamView) Valid() bool { return v.id != nil }

// check refuses the zero value and a per-thread stream on a foreign thread.
// The caller of a per-thread view has locked its goroutine, or the answer may
// be stale when it is used.
func (v StreamView) check() error {
	if v.id == nil {
		return ErrInvalid
	}
	if v.id.kind == KindPerThreadDefault && v.id.thread != threadID() {
		return ruleError("R278", "the thread is another one", ErrThread)
	}
	return nil
}

// CUDAStream makes a view a [StreamLike]: (0, handle). The zero value has
// version -1, which every consumer refuses.
func (v StreamView) CUDAStream() (version int, handle uintptr) {
	if v.id == nil {
		return -1, 0
	}
	return 0, uintptr(v.id.handle)
}

// Handle returns the raw handle; 1 for the legacy default stream.
func (v StreamView) Handle() driver.StreamHandle { return v.facts().handle }

// nothing is the identity of the zero view.
var nothing identity

// facts returns what is known of the stream, also of the zero view.
func (v StreamView) facts() *identity {
	if v.id == nil {
		return &nothing
	}
	return v.id
}

// Kind says what sort of stream it is; 0 for the zero value.
func (v StreamView) Kind() Kind { return v.facts().kind }

// Device returns the ordinal of the device whose stream it is, or
// [driver.DeviceInvalid] for the zero value.
func (v StreamView) Device() driver.Device {
	if v.id == nil {
		return driver.DeviceInvalid
	}
	return v.id.dev
}

// Context returns the context that the stream belongs to.
func (v StreamView) Context() driver.ContextHandle { return v.facts().ctx }

// Driver returns the driver that serves the stream.
func (v StreamView) Driver() *driver.Driver { return v.facts().d }

// Owner returns what the view keeps alive, or nil.
func (v StreamView) Owner() any { return v.owner }

// Argument returns the stream as the array protocols name it: the value for a
// __dlpack__ call or for the key "stream" of the CUDA Array Interface (R284).
func (v StreamView) Argument() cai.StreamArgument {
	if v.id == nil {
		return cai.NoStream
	}
	return cai.StreamOf(uintptr(v.id.handle))
}

// Same reports whether v and o are one stream: equal handles and, for default
// streams, equal contexts and threads.
func (v StreamView) Same(o StreamView) bool {
	a, b := v.facts(), o.facts()
	if a.d != b.d || a.handle != b.handle || a.kind != b.kind {
		return false
	}
	return a.kind == KindCreated || a.ctx == b.ctx && a.thread == b.thread
}

// String returns the kind, the handle and the device.
func (v StreamView) String() string {
	if v.id == nil {
		return "no stream"
	}
	s := v.id.kind.String() + " stream"
	if v.id.kind == KindCreated {
		s += " 0x" + strconv.FormatUint(uint64(v.id.handle), 16)
	}
	return s + " of device " + strconv.Itoa(int(v.id.dev))
}

// WaitFor makes work that is queued on v from now on wait for the work that is
// queued on o now. If they are one stream it does nothing; otherwise one event
// without timing is recorded on o, in o's context, and v waits for it. The
// host does not wait. It may be used while either stream captures: the edge
// becomes part of the graph. Errors: [ErrInvalid], [ErrThread], or the
// driver's.
func (v StreamView) WaitFor(o StreamView) error {
	// Two created streams need no care for threads. They are apart from the
	// rest, which defers, because this is what every exchange pays.
	if a, b := v.id, o.id; a != nil && b != nil && a.kind == KindCreated && b.kind == KindCreated && a.d == b.d {
		res := a.d.OrderStreams(b.ctx, b.handle, a.ctx, a.handle, false)
		runtime.KeepAlive(o.owner)
		runtime.KeepAlive(v.owner)
		if res == driver.Success {
			return nil
		}
		return callError("wait", res)
	}
	return v.order(o, false)
}

// WaitForPending is [StreamView.WaitFor] that first asks whether o has work at
// all and makes no edge if not. It pays where o is mostly idle. A stream that
// captures must not be asked: then it makes the edge without asking.
func (v StreamView) WaitForPending(o StreamView) error {
	if o.id != nil && !v.Same(o) {
		if capturing, err := o.Capturing(); err != nil {
			return err
		} else if capturing {
			return v.order(o, false)
		}
	}
	return v.order(o, true)
}

func (v StreamView) order(o StreamView, skipIdle bool) error {
	if v.Kind() == KindPerThreadDefault || o.Kind() == KindPerThreadDefault {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	if err := v.check(); err != nil {
		return fmt.Errorf("stream: wait: %w", err)
	}
	if err := o.check(); err != nil {
		return fmt.Errorf("stream: wait: %w", err)
	}
	a, b := v.id, o.id
	if a.d != b.d {
		return fmt.Errorf("stream: wait: the streams belong to two drivers: %w", driver.ErrInvalidHandle)
	}
	res := a.d.OrderStreams(b.ctx, b.handle, a.ctx, a.handle, skipIdle)
	runtime.KeepAlive(o.owner)
	runtime.KeepAlive(v.owner)
	if res != driver.Success {
		return callError("wait", res)
	}
	return nil
}

// ask runs one driver call about v on a thread that v may be used on.
func (v StreamView) ask(op string, call func(d *driver.Driver) driver.Result) error {
	if v.Kind() == KindPerThreadDefault {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	if err := v.check(); err != nil {
		return fmt.Errorf("stream: %s: %w", op, err)
	}
	res := call(v.id.d)
	runtime.KeepAlive(v.owner)
	if res != driver.Success {
		return callError(op, res)
	}
	return nil
}

// NonBlocking reports whether the stream was created so that it does not
// synchronize with the legacy default stream.
func (v StreamView) NonBlocking() (bool, error) {
	var flags uint32
	err := v.ask("flags", func(d *driver.Driver) (res driver.Result) {
		flags, res = d.StreamGetFlags(v.id.ctx, v.id.handle)
		return res
	})
	return flags&driver.StreamNonBlocking != 0, err
}

// Priority returns the stream's priority; lower numbers come first.
func (v StreamView) Priority() (int, error) {
	var p int32
	err := v.ask("priority", func(d *driver.Driver) (res driver.Result) {
		p, res = d.StreamGetPriority(v.id.ctx, v.id.handle)
		return res
	})
	return int(p), err
}

// ID returns a number that no other stream of this process ever has. It needs
// a driver for CUDA 12.
func (v StreamView) ID() (uint64, error) {
	var id uint64
	err := v.ask("id", func(d *driver.Driver) (res driver.Result) {
		id, res = d.StreamGetId(v.id.ctx, v.id.handle)
		return res
	})
	return id, err
}

// Done reports whether all work queued on the stream is complete. It must not
// be called while the stream captures (B231).
func (v StreamView) Done() (bool, error) {
	done := true
	err := v.ask("query", func(d *driver.Driver) driver.Result {
		res := d.StreamQuery(v.id.ctx, v.id.handle)
		if res == driver.ErrorNotReady {
			done, res = false, driver.Success
		}
		return res
	})
	return done && err == nil, err
}

// Capturing reports whether the stream is being captured into a graph.
func (v StreamView) Capturing() (bool, error) {
	var status int32
	err := v.ask("capture status", func(d *driver.Driver) (res driver.Result) {
		status, res = d.StreamIsCapturing(v.id.ctx, v.id.handle)
		return res
	})
	return status != driver.StreamCaptureStatusNone, err
}

// Synchronize blocks the calling thread until all work queued on the stream is
// complete. It is a last resort; package device has one that a
// [context.Context] can end.
func (v StreamView) Synchronize() error {
	return v.ask("synchronize", func(d *driver.Driver) driver.Result {
		return d.StreamSynchronize(v.id.ctx, v.id.handle)
	})
}
