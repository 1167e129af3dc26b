package launch

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/internal/gate"
)

// Kernel is a function of loaded code that a launch can start, on any device
// that the code is for. It keeps the code loaded until Close.
//
// A Kernel may be used from several goroutines at once. After Close every use
// gives an error wrapping [ErrClosed]; launches that are queued are not
// affected.
type Kernel struct {
	info    *kernelInfo
	own     *kernelOwner
	closed  atomic.Bool
	cleanup runtime.Cleanup
	owner   any // of a wrapped handle: kept alive
}

// kernelOwner is the Kernel's reference on its library. It outlives the
// Kernel, whose cleanup has it.
type kernelOwner struct {
	user  user // of Launch
	lib   *library
	once  atomic.Bool
	gates gate.Set // of Prepared
}

// retire leaves a reference on the library with each launch that is under way
// and does not count. The Kernel is closed, but has its own reference still.
func (o *kernelOwner) retire() {
	ref, unref := func() { o.lib.ref() }, func() { _ = o.lib.unref() }
	o.user.Retire(ref, unref)
	o.gates.Retire(ref, unref)
}

func (o *kernelOwner) dispose() (first bool, err error) {
	if o.once.Swap(true) {
		return false, nil
	}
	stats.kernels.Add(-1)
	return true, o.lib.unref()
}

// newKernel makes a Kernel that takes over a reference on the library.
func newKernel(info *kernelInfo) *Kernel {
	k := &Kernel{info: info, own: &kernelOwner{lib: info.lib}}
	stats.kernels.Add(1)
	k.cleanup = runtime.AddCleanup(k, func(o *kernelOwner) {
		if !o.once.Swap(true) {
			stats.kernels.Add(-1)
			o.lib.forgotten()
		}
	}, k.own)
	return k
}

// WrapKernel borrows a kernel of another library by its handle; owner, which
// may be nil, is kept as long as the Kernel is. A handle that this package
// loaded gives a Kernel that keeps the code loaded like any other.
func WrapKernel(handle driver.KernelHandle, owner any) (*Kernel, error) {
	const op = "wrap kernel"
	if handle == 0 {
		return nil, &Error{Op: op, Device: -1, Code: driver.ErrorInvalidHandle, Detail: "the handle is null"}
	}
	if v, ok := loaded.Load(handle); ok {
		if info := v.(*kernelInfo); info.lib.ref() {
			return newKernel(info), nil
		}
	}
	d, err := openDriver()
	if err != nil {
		return nil, err
	}
	name, res := d.KernelGetName(handle)
	if errors.Is(res, ErrNotSupported) {
		name, res = fmt.Sprintf("%#x", uintptr(handle)), driver.Success
	}
	if err := check(op, -1, res); err != nil {
		return nil, err
	}
	return borrow(&kernelInfo{name: name, handle: handle, fn: driver.FunctionHandle(handle)}, d, owner), nil
}

// WrapFunction borrows a function of a module of another library by its
// handle; it can be launched in the context of its module only. owner, which
// may be nil, is kept as long as the Kernel is.
func WrapFunction(fn driver.FunctionHandle, owner any) (*Kernel, error) {
	const op = "wrap function"
	if fn == 0 {
		return nil, &Error{Op: op, Device: -1, Code: driver.ErrorInvalidHandle, Detail: "the handle is null"}
	}
	d, err := openDriver()
	if err != nil {
		return nil, err
	}
	name, res := d.FuncGetName(fn)
	if errors.Is(res, ErrNotSupported) {
		name, res = fmt.Sprintf("%#x", uintptr(fn)), driver.Success
	}
	if err := check(op, -1, res); err != nil {
		return nil, err
	}
	return borrow(&kernelInfo{name: name, fn: fn}, d, owner), nil
}

func borrow(info *kernelInfo, d *driver.Driver, owner any) *Kernel {
	info.lib = &library{d: d, foreign: true}
	info.lib.refs.Store(1)
	k := newKernel(info)
	k.owner = owner
	return k
}

// enter begins a use: the code stays loaded until exit.
func (k *Kernel) enter(op string) error {
	if k == nil || k.info == nil {
		return closed(op + " of a kernel")
	}
	if k.closed.Load() || !k.info.lib.ref() {
		return closed(op + " of kernel " + k.info.name)
	}
	return nil
}

func (k *Kernel) exit() { _ = k.info.lib.unref() }

// hold takes a reference on the code for something that outlives the call,
// such as a graph; release gives it back, once.
func (k *Kernel) hold(op string) (release func() error, err error) {
	if err := k.enter(op); err != nil {
		return nil, err
	}
	lib := k.own.lib
	var done atomic.Bool
	return func() error {
		if done.Swap(true) {
			return nil
		}
		return lib.unref()
	}, nil
}

// Close gives the kernel up; code that nobody else uses is unloaded. It may be
// called twice.
func (k *Kernel) Close() error {
	if k == nil || k.own == nil || k.closed.Swap(true) {
		return nil
	}
	k.cleanup.Stop()
	k.own.retire()
	_, err := k.own.dispose()
	return err
}

// Name returns the name in the code, which is the mangled one for C++.
func (k *Kernel) Name() string { return k.about().name }

// noKernel is about the zero Kernel.
var noKernel kernelInfo

// about returns what is known of the kernel, also of nil and the zero Kernel.
func (k *Kernel) about() *kernelInfo {
	if k == nil || k.info == nil {
		return &noKernel
	}
	return k.info
}

// Handle returns the raw handle, valid while k is open. It is 0 for what
// [WrapFunction] gave.
func (k *Kernel) Handle() driver.KernelHandle { return k.about().handle }

// LaunchHandle returns what the driver's launch calls take for a function: the
// kernel itself, which is good in any context, or the wrapped function.
func (k *Kernel) LaunchHandle() driver.FunctionHandle { return k.about().fn }

// Driver returns the driver that loaded the kernel.
func (k *Kernel) Driver() *driver.Driver {
	if lib := k.about().lib; lib != nil {
		return lib.d
	}
	return nil
}

// String returns the name.
func (k *Kernel) String() string {
	if k.about() == &noKernel {
		return "no kernel"
	}
	return "kernel " + k.info.name
}

// Function returns the kernel as a function of one context, loading it there
// if need be. The handle is valid while k is open and the context exists.
func (k *Kernel) Function(ctx *device.Context) (driver.FunctionHandle, error) {
	const op = "function"
	if err := k.enter(op); err != nil {
		return 0, err
	}
	defer k.exit()
	if k.info.handle == 0 {
		return k.info.fn, nil
	}
	if ctx.Device() == nil {
		return 0, invalid("%s of %v: no context", op, k)
	}
	fn, res := k.info.lib.d.KernelGetFunction(ctx.Handle(), k.info.handle)
	return fn, check(op+" of "+k.String(), ctx.Device().Ordinal(), res)
}

// ParamInfo is the place of one parameter in the packed arguments.
type ParamInfo struct {
	Offset, Size uintptr // bytes
}

// maxParams ends the question for parameters: no kernel has that many bytes.
const maxParams = 1 << 16

// Params returns the kernel's own table of parameters, in order. It is asked
// for once; the slice must not be changed. Where neither the driver (CUDA 12.4
// and newer) nor the code can tell, the error wraps [ErrNotSupported].
func (k *Kernel) Params() ([]ParamInfo, error) {
	if err := k.enter("parameters"); err != nil {
		return nil, err
	}
	defer k.exit()
	t, err := k.info.table()
	if err != nil {
		return nil, err
	}
	return t.params, nil
}

// paramTable is a kernel's own table of parameters, which does not change, and
// what goes with it.
type paramTable struct {
	params []ParamInfo
	last   []lastType
	size   int // bytes of all
}

// lastType is the type of the argument that a parameter had last, with the
// parameter's place in a form that is quick to use: see [block.again].
type lastType struct {
	typ          atomic.Uintptr // 0 for none
	offset, size uint32
}

func newParamTable(params []ParamInfo) *paramTable {
	t := &paramTable{params: params, last: make([]lastType, len(params))}
	for i, p := range params {
		t.last[i].offset, t.last[i].size = uint32(p.Offset), uint32(p.Size)
		t.size = max(t.size, int(p.Offset+p.Size))
	}
	return t
}

// table returns what is known of the parameters.
func (k *kernelInfo) table() (*paramTable, error) {
	if t := k.params.Load(); t != nil {
		return t, nil
	}
	return k.findTable()
}

// findTable asks for the parameters. That they cannot be told is remembered, any
// other failure is not.
func (k *kernelInfo) findTable() (*paramTable, error) {
	k.paramsMu.Lock()
	defer k.paramsMu.Unlock()
	if t := k.params.Load(); t != nil || k.paramsErr != nil {
		return t, k.paramsErr
	}
	params, err := k.readTable()
	if err != nil && k.lib.tables != nil {
		if p, failed := k.lib.tables(k.name); failed == nil {
			params, err = p, nil
		}
	}
	if err == nil {
		err = checkTable(k.name, params)
	}
	if err != nil {
		if errors.Is(err, ErrNotSupported) {
			k.paramsErr = err
		}
		return nil, err
	}
	t := newParamTable(params)
	k.params.Store(t)
	return t, nil
}

// within makes a call about a kernel, which belongs to no context, and again in
// the context of a device if the driver wants one all the same: it does for
// kernels of a fatbin, which a device chooses from. dev may be nil for what is
// the same on all devices.
func (k *kernelInfo) within(dev *device.Device, call func() driver.Result) driver.Result {
	res := call()
	if res != driver.ErrorInvalidContext || k.handle == 0 {
		return res
	}
	devices := []*device.Device{dev}
	if dev == nil {
		devices = devices[:0]
		n, _ := device.Count()
		for i := range n {
			if d, err := device.Open(i); err == nil {
				devices = append(devices, d)
			}
		}
	}
	for _, d := range devices {
		restore, err := d.SetCurrent()
		if err != nil {
			continue
		}
		res = call()
		if restore() == nil && res != driver.ErrorNoBinaryForGPU {
			break
		}
	}
	return res
}

// checkTable refuses a table that no kernel has: blocks have room for any other.
func checkTable(kernel string, params []ParamInfo) error {
	for i, p := range params {
		if p.Offset > maxParams || p.Size > maxParams {
			return fmt.Errorf("launch: parameters of kernel %s: %d bytes at %d for parameter %d: %w", kernel, p.Size, p.Offset, i, ErrImage)
		}
	}
	return nil
}

// readTable asks the driver.
func (k *kernelInfo) readTable() ([]ParamInfo, error) {
	params := []ParamInfo{}
	for i := uintptr(0); i < maxParams; i++ {
		var p ParamInfo
		var res driver.Result
		if k.handle != 0 {
			res = k.within(nil, func() (res driver.Result) {
				p.Offset, p.Size, res = k.lib.d.KernelGetParamInfo(k.handle, i)
				return res
			})
		} else {
			p.Offset, p.Size, res = k.lib.d.FuncGetParamInfo(k.fn, i)
		}
		if res == driver.ErrorInvalidValue {
			return params, nil // there is no parameter i
		}
		if err := check("parameters of kernel "+k.name, -1, res); err != nil {
			return nil, err
		}
		params = append(params, p)
	}
	return nil, &Error{Op: "parameters of kernel " + k.name, Device: -1, Code: driver.ErrorUnknown, Detail: "the driver lists no end"}
}
