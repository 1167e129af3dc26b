package launch

import (
	"runtime"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
)

// Launch queues a kernel on a stream, which may be another library's
// ([device.Wrap]). The arguments are packed before it returns. Each is one of:
//
//   - *[device.Buffer], [memview.StridedMemoryView] (also by pointer),
//     [driver.DevicePtr]: its address, in 8 bytes. What the address is of is
//     checked for the first two: a kernel on the stream's device must reach it.
//     The address of an empty array may be null;
//   - [MDSpan]: address, extents and strides of a view; *[TensorMap];
//   - a bool (one byte) or a number of any Go type, float16.Float16, a type of
//     package minifloat: as it is, with its own size. Nothing is converted: an
//     int has 8 bytes, and a parameter of 4 refuses it. Say [Int32] for one
//     that is checked to fit;
//   - a struct or array by value, of those: its Go layout must be C's, without
//     pointers;
//   - a [Condition] of a graph.
//
// Each is checked against the kernel's own table of parameters, as far as the
// driver or the code can tell ([Kernel.Params]): number, size, alignment. A
// view that is read-only is accepted; that the kernel does not write to it is
// for the caller to know.
//
// A launch with an empty grid does nothing (B241). While the stream captures,
// the kernel becomes part of the graph, which keeps what it uses, if the
// capture is one of this package ([BeginCapture]).
//
// The memory of an argument must not be given back before the work is done. A
// Buffer knows the streams that it is used on and waits for them by itself; a
// view is released with an order, or after the work. s may be used from any
// goroutine. Numbers and views cost no allocation.
//
// Errors: [*ConfigError], [*ArgError], [ErrClosed], or the driver's [*Error].
func Launch(s *device.Stream, cfg Config, k *Kernel, args ...any) error {
	if s == nil || k == nil || k.own == nil {
		return nothing(k)
	}
	u := &k.own.user
	if !u.TryEnter() {
		return launchCounted(s, &cfg, k, args)
	}
	// Nothing is deferred: until the gate is left nothing panics.
	b := u.b
	if !s.Admits(&u.Pass) || k.closed.Load() || captures.active.Load() != 0 ||
		len(args) != len(b.last) || b.again(0, args) != len(args) || !cfg.fits(u.limits, &b.call.Config) {
		return u.launch(s, &cfg, k, args)
	}
	res := b.call.Launch()
	if res != driver.Success {
		res = b.insist(k, res)
	}
	u.Leave()
	runtime.KeepAlive(args)
	runtime.KeepAlive(s)
	runtime.KeepAlive(k)
	if res != driver.Success {
		return refused(k, s, res)
	}
	return nil
}

// nothing is the error of a launch without a kernel or without a stream.
func nothing(k *Kernel) error {
	if k != nil && k.own == nil {
		return k.enter("launch")
	}
	return invalid("launch: no stream, or no kernel")
}

// user launches a kernel again and again, one launch at a time, without
// counting the uses of kernel and stream: see [gate.Gate]. While a stream admits
// the pass, and the kernel is not closed, both stay until the gate is left; the
// block is aimed at a launch there.
type user struct {
	device.Pass
	b      *block        // nil until it is worth it
	limits *kernelLimits // on the device of the stream
	before bool          // there was a launch
	// fn is the kernel as a function of ctx, which a driver starts sooner than a
	// kernel that it has to find the function of.
	fn  driver.FunctionHandle
	ctx *device.Context
}

// admit makes the stream admit the pass. ok is false if the uses of kernel and
// stream have to be counted, which tells why.
func (u *user) admit(s *device.Stream, k *Kernel) (ok bool, err error) {
	if u.b == nil || k.closed.Load() {
		return false, nil
	}
	if s.Admits(&u.Pass) {
		return true, nil
	}
	l, err := k.limitsOn(s.Device())
	if err != nil || !s.Admit(&u.Pass) {
		return false, err
	}
	u.limits = l
	u.b.aimAt(s, k)
	if fn := u.function(s.Context(), k); fn != 0 {
		u.b.call.Func = fn
	}
	return true, nil
}

// function returns the kernel as a function of a context, or 0. It asks for one
// at a time when a launch would load the code as well, and not while a stream
// captures, which that might break.
func (u *user) function(ctx *device.Context, k *Kernel) driver.FunctionHandle {
	if k.info.handle == 0 || u.ctx == ctx {
		return u.fn
	}
	if captures.active.Load() != 0 {
		return 0
	}
	fn, res := k.info.lib.d.KernelGetFunction(ctx.Handle(), k.info.handle)
	if res != driver.Success {
		return 0
	}
	u.fn, u.ctx = fn, ctx
	return fn
}

// launch is a launch that is not like the one before it. The caller is in the
// gate.
func (u *user) launch(s *device.Stream, cfg *Config, k *Kernel, args []any) error {
	defer u.Leave()
	if !isStream(s) {
		return closed(opLaunch)
	}
	if u.b == nil && u.before {
		if t := k.info.params.Load(); t != nil { // else: nothing to remember types by
			if u.b = newBlock(len(t.params), t.size); u.b != nil {
				u.b.aim(t)
			}
		}
	}
	u.before = true
	if ok, err := u.admit(s, k); err != nil {
		return err
	} else if !ok || len(args) != len(u.b.params) {
		return launchCounted(s, cfg, k, args)
	}
	u.b.buffers = u.b.buffers[:0]
	if skip, err := u.b.ready(s, cfg, k, args); err != nil || skip {
		return err
	}
	return u.b.queue(s, cfg, k, args)
}

// isStream says whether somebody made a stream, which may be closed.
func isStream(s *device.Stream) bool { return s.Context() != nil }

// launchCounted is a launch that counts the uses of kernel and stream.
func launchCounted(s *device.Stream, cfg *Config, k *Kernel, args []any) error {
	if !isStream(s) {
		return closed(opLaunch)
	}
	if err := k.enter("launch"); err != nil {
		return err
	}
	defer k.exit()
	b, err := beginBlock(k, len(args))
	if err != nil {
		return err
	}
	defer b.end()
	if skip, err := b.ready(s, cfg, k, args); err != nil || skip {
		return err
	}
	if err := s.Begin(opLaunch); err != nil {
		return err
	}
	defer s.End()
	b.aimAt(s, k)
	return b.queue(s, cfg, k, args)
}

// ready packs the arguments and checks the launch. skip means that the grid is
// empty.
func (b *block) ready(s *device.Stream, cfg *Config, k *Kernel, args []any) (skip bool, err error) {
	if err := b.pack(s, cfg, k, args); err != nil {
		return false, err
	}
	return cfg.ready(k, s.Device(), &b.call.Config)
}

// pack packs and checks the arguments of a launch.
func (b *block) pack(s *device.Stream, cfg *Config, k *Kernel, args []any) error {
	for i := b.again(0, args); i < len(args); i = b.again(i+1, args) {
		at, m := b.set(i, args[i])
		if m == nil && at.dev.Type != 0 {
			m = reach(&at, s.Device(), cfg)
		}
		if m != nil {
			return b.fail(k, i, m)
		}
	}
	return nil
}

// queue launches with packed arguments, whose buffers are in use meanwhile.
// Stream and kernel are in use.
func (b *block) queue(s *device.Stream, cfg *Config, k *Kernel, args []any) error {
	c, err := capturing(s)
	if err != nil {
		return err
	}
	begun := 0
	for ; begun < len(b.buffers); begun++ {
		i := int(b.buffers[begun])
		if m := use(args[i].(*device.Buffer), s, c); m != nil {
			err = b.fail(k, i, m)
			break
		}
	}
	if err == nil && c != nil {
		err = c.keepKernel(k)
	}
	if err == nil {
		err = b.launch(s, cfg, k, c != nil)
	}
	for _, i := range b.buffers[:begun] {
		args[i].(*device.Buffer).End()
	}
	runtime.KeepAlive(args)
	return err
}

const opLaunch = "launch kernel"

// use begins a use of a buffer on a stream, so that it is not given back
// before the launch is queued, nor after it before the work is done. In a
// capture it is the graph that uses it.
func use(buf *device.Buffer, s *device.Stream, c *Capture) *misfit {
	var err error
	if c == nil {
		err = buf.BeginOn("launch", s)
	} else if err = buf.Begin("launch"); err == nil {
		if err = c.g.own.keep.buffer(lasting(buf)); err != nil {
			buf.End()
		}
	}
	if err != nil {
		return &misfit{detail: "a buffer", err: err}
	}
	return nil
}

// fail turns a misfit into the error of an argument.
func (b *block) fail(k *Kernel, i int, m *misfit) error {
	return &ArgError{Kernel: k.info.name, Index: i, Param: b.param(i), Detail: m.detail, Err: m.err}
}

// aimAt makes the block's call one of a kernel on a stream. Where a wrapped
// function belongs the driver does not know without a context.
func (b *block) aimAt(s *device.Stream, k *Kernel) {
	c := b.call
	c.Func, c.Params, c.Config.Stream, c.Context = k.info.fn, uintptr(b.list()), s.Handle(), s.Context().Handle()
	k.info.lib.d.Aim(c, k.info.handle != 0)
}

// launch makes the driver call for packed arguments and a checked shape. Stream
// and kernel are in use. What is captured is the kernel, which graphs know.
func (b *block) launch(s *device.Stream, cfg *Config, k *Kernel, captured bool) error {
	c := b.call
	entry, fn := c.Entry, c.Func
	if captured {
		c.Func = k.info.fn
	}
	if !cfg.plain() {
		c.Config.Attrs, c.Config.NumAttrs = b.attrsAddr(), uint32(cfg.attributes(b.attrs))
		c.Entry = 0 // attributes may ask about the device: its context is made current
	}
	res := c.Launch()
	if res != driver.Success {
		res = b.insist(k, res)
	}
	c.Entry, c.Func = entry, fn
	runtime.KeepAlive(b.mem)
	if res != driver.Success {
		return refused(k, s, res)
	}
	return nil
}

// insist launches the kernel where the driver refused to start it as a function
// of the stream's context, because another is current or the function went with
// a context that its owner destroyed.
func (b *block) insist(k *Kernel, res driver.Result) driver.Result {
	if (res == driver.ErrorInvalidHandle || res == driver.ErrorContextIsDestroyed) && b.call.Func != k.info.fn {
		b.call.Func = k.info.fn
		res = b.call.Launch()
	}
	return res
}

// refused is the error of a launch that the driver refused.
func refused(k *Kernel, s *device.Stream, res driver.Result) error {
	return launchError("launch kernel "+k.info.name, s.Device().Ordinal(), res)
}

// launchError words a refused launch.
func launchError(op string, dev int, res driver.Result) error {
	if res == driver.Success {
		return nil
	}
	e := &Error{Op: op, Device: dev, Code: res, Kind: kindOf(res)}
	switch res {
	case driver.ErrorInvalidHandle:
		e.Detail = "the function belongs to another context than the stream, or is unloaded"
	case driver.ErrorLaunchOutOfResources:
		e.Detail = "a block needs more registers than there are: use fewer threads, or compile with launch bounds"
	case driver.ErrorCooperativeLaunchTooLarge:
		e.Detail = "not all blocks fit the device at once: see Occupancy.MaxActiveBlocks"
	case driver.ErrorNoBinaryForGPU:
		e.Detail = "compile for the architecture of the device (Device.Arch)"
	case driver.ErrorStreamCaptureInvalidated:
		e.Detail = "an earlier call broke the capture of this stream: end it"
	case driver.ErrorStreamCaptureImplicit:
		e.Detail = "the legacy default stream cannot be used while a stream of its context captures"
	}
	return e
}
