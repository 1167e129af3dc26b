//go:build cgo && linux

package soft

// #cgo CFLAGS: -I${SRCDIR}/../driver/include -std=gnu11
// #include "soft.h"
import "C"

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft/internal/engine"
)

// Available says whether this build has the software device.
const Available = true

func init() { driver.RegisterSoft(open) }

// std is the process's engine. The ABI has one driver per process.
var std struct {
	sync.Mutex
	e    atomic.Pointer[engine.Engine]
	opts *Options
}

// open makes the engine and returns the table for package driver.
func open() (unsafe.Pointer, error) {
	if _, err := start(); err != nil {
		return nil, err
	}
	return unsafe.Pointer(C.ho_soft_table()), nil
}

// start returns the engine and makes it at the first call.
func start() (*engine.Engine, error) {
	if e := std.e.Load(); e != nil {
		return e, nil
	}
	std.Lock()
	defer std.Unlock()
	if e := std.e.Load(); e != nil {
		return e, nil
	}
	opts, err := std.opts.engine()
	if err != nil {
		return nil, err
	}
	e, err := engine.New(opts)
	if err != nil {
		return nil, err
	}
	if err := injectEnvironment(e, os.Getenv("HANDOFF_SOFT_FAULT")); err != nil {
		e.Close()
		return nil, err
	}
	huntEnvironment(e, os.Getenv("HANDOFF_SOFT_CHECK"))
	if err := traceEnvironment(e, os.Getenv("HANDOFF_TRACE")); err != nil {
		e.Close()
		return nil, err
	}
	C.ho_soft_watch_fork()
	std.e.Store(e)
	return e, nil
}

// engine fills the options from the environment. A variable that makes no sense is an error: a
// seed that was mistyped would replay nothing, and look as if the fault were gone.
func (o *Options) engine() (e engine.Options, err error) {
	if o != nil {
		e = engine.Options{Devices: o.Devices, Memory: o.Memory, NoPeers: o.NoPeers, DriverVersion: o.DriverVersion}
		if f := o.Fault; f != nil {
			e.Fault = func(api string) engine.Code { return engine.Code(f(api)) }
		}
	}
	number := func(name string, low, high uint64) uint64 {
		v := os.Getenv(name)
		if v == "" {
			return 0
		}
		n, wrong := strconv.ParseUint(v, 0, 64)
		if wrong != nil || n < low || n > high {
			err = errors.Join(err, fmt.Errorf("soft: %s %q: want a number from %d to %d: %w", name, v, low, high, driver.ErrInvalidValue))
			return 0
		}
		return n
	}
	if n := number("HANDOFF_SOFT_DEVICES", 1, maxDevices); e.Devices == 0 {
		e.Devices = int(n)
	}
	if n := number("HANDOFF_SOFT_MEMORY", 1, maxMemory); e.Memory == 0 {
		e.Memory = n
	}
	if n := number("HANDOFF_SOFT_VERSION", 1000, 1<<20); e.DriverVersion == 0 {
		e.DriverVersion = int(n)
	}
	switch v := os.Getenv("HANDOFF_SOFT_SEED"); {
	case o != nil && o.Seed != 0:
		e.Seed = &o.Seed
	case v == "random":
		n := rand.Uint64()>>1 | 1
		e.Seed = &n
	case v != "":
		n := number("HANDOFF_SOFT_SEED", 0, math.MaxUint64)
		e.Seed = &n
	}
	switch v := os.Getenv("HANDOFF_SOFT_PEERS"); v {
	case "", "1":
	case "0":
		e.NoPeers = true
	default:
		err = errors.Join(err, fmt.Errorf("soft: HANDOFF_SOFT_PEERS %q: want 0 or 1: %w", v, driver.ErrInvalidValue))
	}
	return e, err
}

// What the environment may ask for.
const (
	maxDevices = 16
	maxMemory  = 1<<44 - 1
)

func enable(o *Options) error {
	std.Lock()
	defer std.Unlock()
	if std.e.Load() != nil {
		if o == nil {
			return nil
		}
		return ErrInUse
	}
	std.opts = o
	return nil
}

func live() Live {
	if e := std.e.Load(); e != nil {
		return Live(e.Live())
	}
	return Live{}
}

func idle() bool {
	e := std.e.Load()
	return e == nil || e.Idle()
}

// threads are the states of OS threads by number. The slice is replaced, never changed.
var threads struct {
	sync.Mutex
	all  atomic.Pointer[[]*engine.Thread]
	free []uint32
}

// thread returns the state of the calling OS thread; inHost says that it runs a host
// function.
func thread(e *engine.Engine) (t *engine.Thread, inHost bool) {
	n := uint32(C.ho_soft_thread())
	inHost = n&C.HO_SOFT_IN_HOST != 0
	if n &^= C.HO_SOFT_IN_HOST; n != 0 {
		return (*threads.all.Load())[n], inHost
	}
	threads.Lock()
	defer threads.Unlock()
	var all []*engine.Thread
	if p := threads.all.Load(); p != nil {
		all = append(all, *p...)
	} else {
		all = []*engine.Thread{nil}
	}
	for d := uint32(C.ho_soft_ended_thread()); d != 0; d = uint32(C.ho_soft_ended_thread()) {
		all[d].Exit()
		all[d] = nil
		threads.free = append(threads.free, d)
	}
	t = e.NewThread()
	if k := len(threads.free); k > 0 {
		n = threads.free[k-1]
		threads.free = threads.free[:k-1]
		all[n] = t
	} else {
		n = uint32(len(all))
		all = append(all, t)
	}
	threads.all.Store(&all)
	C.ho_soft_set_thread(C.uint32_t(n))
	return t, inHost
}

// call is the way of every entry point into the engine.
func call(api string, f func(e *engine.Engine, t *engine.Thread) engine.Code) C.ho_result {
	e := std.e.Load()
	if e == nil {
		var err error
		if e, err = start(); err != nil {
			return C.ho_result(engine.OutOfMemory)
		}
	}
	t, inHost := thread(e)
	if inHost && api != "cuEventQuery" { // the one call that the driver was seen to allow
		return C.ho_result(engine.NotPermitted)
	}
	return C.ho_result(e.Call(t, api, func() engine.Code { return f(e, t) }))
}

// early is call for the entry points that work before cuInit.
func early(api string, f func(e *engine.Engine) engine.Code) C.ho_result {
	e, err := start()
	if err != nil {
		return C.ho_result(engine.OutOfMemory)
	}
	return C.ho_result(e.CallEarly(api, func() engine.Code { return f(e) }))
}

// unsupported is the answer of what the software device does not have.
func unsupported(api string) C.ho_result {
	return call(api, func(*engine.Engine, *engine.Thread) engine.Code { return engine.NotSupported })
}
