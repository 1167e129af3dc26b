package launch

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/internal/leak"
)

// library is code that a driver has loaded. It outlives the ObjectCode and the
// Kernels that use it (their cleanups have it) and never points back to them.
// It is counted: one reference for each of them until it is closed, one for
// each call in flight.
type library struct {
	d      *driver.Driver
	handle driver.LibraryHandle
	// tables gives the parameters that the code itself declares, where the
	// driver cannot tell. It may be nil.
	tables func(name string) ([]ParamInfo, error)

	refs    atomic.Int64
	foreign bool // of another owner: never unloaded here
	token   leak.Token

	mu      sync.Mutex
	kernels map[string]*kernelInfo
}

// kernelInfo is what all Kernels of one driver handle share.
type kernelInfo struct {
	lib    *library
	name   string
	handle driver.KernelHandle   // 0 for a function of a module
	fn     driver.FunctionHandle // what a launch takes: the kernel, or the function

	params    atomic.Pointer[paramTable] // nil until it is asked for, or if it cannot be told
	paramsMu  sync.Mutex
	paramsErr error

	limits limitCache // of each device
}

// loaded finds the kernels of this package by their raw handles, so that one
// that is seen again gets no second owner. Entries go with their library.
var loaded sync.Map // driver.KernelHandle -> *kernelInfo

func newLibrary(d *driver.Driver, h driver.LibraryHandle, tables func(string) ([]ParamInfo, error)) *library {
	l := &library{d: d, handle: h, tables: tables, token: leak.Track("launch.library"), kernels: make(map[string]*kernelInfo)}
	l.refs.Store(1)
	stats.libraries.Add(1)
	return l
}

// ref takes a reference, unless the last one is gone.
func (l *library) ref() bool {
	for {
		n := l.refs.Load()
		if n <= 0 {
			return false
		}
		if l.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (l *library) unref() error {
	if l.refs.Add(-1) != 0 || l.foreign {
		return nil
	}
	l.token.Done()
	stats.libraries.Add(-1)
	for _, k := range l.kernels { // nobody else is left
		loaded.CompareAndDelete(k.handle, k)
	}
	err := check("unload code", -1, l.d.LibraryUnload(l.handle))
	if errors.Is(err, driver.ErrShutdown) {
		return nil // the driver has cleaned up by itself
	}
	return err
}

// kernel looks a kernel up, once.
func (l *library) kernel(name string) (*kernelInfo, driver.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.kernels[name]; k != nil {
		return k, driver.Success
	}
	h, res := l.d.LibraryGetKernel(l.handle, name)
	if res != driver.Success {
		return nil, res
	}
	k := &kernelInfo{lib: l, name: name, handle: h, fn: driver.FunctionHandle(h)}
	l.kernels[name] = k
	loaded.Store(h, k)
	return k, driver.Success
}

// forgotten gives a reference back for an object that the collector found: not
// on the cleanup's own goroutine, which must not wait for the driver.
func (l *library) forgotten() {
	stats.collected.Add(1)
	go func() { _ = l.unref() }()
}
