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
	if s == nil || k == nil {
		return invalid("launch: no stream, or no kernel")
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
	if err := b.pack(s, &cfg, k, args); err != nil {
		return err
	}
	if skip, err := cfg.ready(k, s.Device(), &b.shape); err != nil || skip {
		return err
	}
	return b.queue(s, &cfg, k, args)
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
func (b *block) queue(s *device.Stream, cfg *Config, k *Kernel, args []any) error {
	if err := s.Begin(opLaunch); err != nil {
		return err
	}
	defer s.End()
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
		err = b.launch(s, cfg, k)
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
	err := buf.Begin("launch")
	if err == nil && c != nil {
		if err = c.g.own.keep.buffer(lasting(buf)); err != nil {
			buf.End()
		}
	} else if err == nil && buf.Size() > 0 {
		if err = buf.UsedOn(s); err != nil {
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

// launch makes the driver call for packed arguments and a checked shape. Stream
// and kernel are in use.
func (b *block) launch(s *device.Stream, cfg *Config, k *Kernel) error {
	d, ctx := k.info.lib.d, s.Context().Handle()
	var res driver.Result
	if cfg.plain() {
		res = d.LaunchAt(ctx, k.info.fn, s.Handle(), b.shape.grid, b.shape.block, uint32(cfg.SharedMem), uintptr(b.list()), k.info.handle != 0)
	} else {
		b.cfg = driver.LaunchConfig{
			GridX: b.shape.grid[0], GridY: b.shape.grid[1], GridZ: b.shape.grid[2],
			BlockX: b.shape.block[0], BlockY: b.shape.block[1], BlockZ: b.shape.block[2],
			SharedBytes: uint32(cfg.SharedMem), Stream: s.Handle(), Attrs: b.attrsAddr(),
			NumAttrs: uint32(cfg.attributes(b.attrs)),
		}
		res = d.LaunchKernelEx(ctx, &b.cfg, k.info.fn, b.list(), nil)
	}
	runtime.KeepAlive(b.mem)
	if res != driver.Success {
		return launchError("launch kernel "+k.info.name, s.Device().Ordinal(), res)
	}
	return nil
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
