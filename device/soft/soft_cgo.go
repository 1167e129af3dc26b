//go:build cgo && linux

package soft

// #cgo CFLAGS: -I${SRCDIR}/../driver/include -std=gnu11
// #include "soft.h"
import "C"

import (
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
	e, err := engine.New(std.opts.engine())
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

// engine fills the options from the environment.
func (o *Options) engine() engine.Options {
	var e engine.Options
	if o != nil {
		e = engine.Options{Devices: o.Devices, Memory: o.Memory, NoPeers: o.NoPeers, DriverVersion: o.DriverVersion}
		if f := o.Fault; f != nil {
			e.Fault = func(api string) engine.Code { return engine.Code(f(api)) }
		}
	}
	if e.Devices == 0 {
		e.Devices, _ = strconv.Atoi(os.Getenv("HANDOFF_SOFT_DEVICES"))
	}
	if e.Memory == 0 {
		e.Memory, _ = strconv.ParseUint(os.Getenv("HANDOFF_SOFT_MEMORY"), 0, 44)
	}
	if e.DriverVersion == 0 {
		e.DriverVersion, _ = strconv.Atoi(os.Getenv("HANDOFF_SOFT_VERSION"))
	}
	if o != nil && o.Seed != 0 {
		e.Seed = &o.Seed
	} else {
		e.Seed = envSeed(os.Getenv("HANDOFF_SOFT_SEED"))
	}
	e.NoPeers = e.NoPeers || os.Getenv("HANDOFF_SOFT_PEERS") == "0"
	return e
}

// envSeed reads a seed: a number, or "random" for a new one. Nil for none.
func envSeed(v string) *uint64 {
	if v == "random" {
		n := rand.Uint64()>>1 | 1
		return &n
	}
	n, err := strconv.ParseUint(v, 0, 64)
	if err != nil {
		return nil
	}
	return &n
}

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
