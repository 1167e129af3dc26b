package engine

import (
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
)

// Options describe the machine that the software device pretends to be.
// The zero value of a field means its default.
type Options struct {
	// Devices is the number of devices, 2 by default, 16 at most.
	Devices int
	// Memory is the size of each device's memory in bytes, 4 GiB by default. Pages that are
	// not in use cost nothing.
	Memory uint64
	// NoPeers says that no device can reach the memory of another.
	NoPeers bool
	// DriverVersion is what cuDriverGetVersion says, 13000 by default.
	DriverVersion int
	// Fault, if not nil, is asked before every call of the ABI; any code but Success is
	// returned in place of the call. It may be called from several threads at once.
	Fault func(api string) Code
	// Seed, if not nil, makes the order in which the work of the streams runs a function of it.
	Seed *uint64
}

// Handle is a raw handle of the driver: context, stream, event, pool, and so on.
// No two objects of an engine ever have the same one, so a stale handle is always refused.
type Handle uintptr

// The two stream handles that are no created streams.
const (
	StreamLegacy    Handle = 1
	StreamPerThread Handle = 2
)

// handleBase keeps handles away from small numbers and from addresses in use.
const handleBase = 0x5f0000000000

// Engine is a software driver with its devices. All methods may be called from several
// threads at once; each caller passes its own Thread.
type Engine struct {
	opts    Options
	devices []*Device
	space   space
	inited  atomic.Bool
	sched   *scheduler // nil: every stream runs its work at once
	inject  atomic.Pointer[Injector]
	hunt    atomic.Pointer[hunting] // nil when nobody hunts
	omit    atomic.Pointer[func(api string, site []uintptr) bool]

	mu       sync.Mutex
	handles  map[Handle]any
	nextID   uint64
	captures int                   // captures under way
	capByID  map[uint64]*capture   // and which
	threads  map[*Thread]struct{}  // those that have not ended
	hurt     map[*Context]struct{} // lost by an injected code

	// The pools of memory that belongs to no device: default and current.
	hostPool, managedPool [2]*pool

	again map[reflect.Type][]Handle // to be used again, or nil
}

// New makes an engine. Nothing runs until the first call.
func New(o Options) (*Engine, error) {
	if o.Devices <= 0 {
		o.Devices = 2
	}
	o.Devices = min(o.Devices, 16)
	if o.Memory == 0 {
		o.Memory = 4 << 30
	}
	o.Memory = (o.Memory + arenaGrain - 1) &^ (arenaGrain - 1)
	if o.DriverVersion == 0 {
		o.DriverVersion = 13000
	}
	e := &Engine{
		opts:    o,
		handles: make(map[Handle]any),
		capByID: make(map[uint64]*capture),
		threads: make(map[*Thread]struct{}),
	}
	if o.Seed != nil {
		e.sched = newScheduler(*o.Seed)
	}
	for i := range o.Devices {
		d, err := newDevice(e, i)
		if err != nil {
			e.Close()
			return nil, err
		}
		e.devices = append(e.devices, d)
	}
	return e, nil
}

// Close unmaps the devices' memory. Nothing may be running or called any more; tests use it.
func (e *Engine) Close() {
	for _, d := range e.devices {
		d.arena.close()
	}
	e.space.closeAll()
}

// ReuseHandles makes handles of contexts that are destroyed, and of what was in them, mean new objects of the same
// type from now on, the last that was given back first, as addresses are used again; or no longer.
func (e *Engine) ReuseHandles(on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.again = nil
	if on {
		e.again = make(map[reflect.Type][]Handle)
	}
}

// dropHandle ends what a handle means, with its context. The caller holds e.mu.
func (e *Engine) dropHandle(h Handle) {
	x, ok := e.handles[h]
	delete(e.handles, h)
	if typ := reflect.TypeOf(x); ok && e.again != nil {
		e.again[typ] = append(e.again[typ], h)
	}
}

// newHandle gives x a handle. The caller holds e.mu.
func (e *Engine) newHandle(x any) Handle {
	if e.again != nil {
		typ := reflect.TypeOf(x)
		if old := e.again[typ]; len(old) > 0 {
			h := old[len(old)-1]
			e.again[typ], e.handles[h] = old[:len(old)-1], x
			return h
		}
	}
	e.nextID++
	h := Handle(handleBase + e.nextID*64)
	e.handles[h] = x
	return h
}

// lookup returns the object of a handle if it has type T.
func lookup[T any](e *Engine, h Handle) (T, bool) {
	e.mu.Lock()
	x, ok := e.handles[h].(T)
	e.mu.Unlock()
	return x, ok
}

// locked is lookup for callers that hold e.mu.
func locked[T any](e *Engine, h Handle) (T, bool) {
	x, ok := e.handles[h].(T)
	return x, ok
}

// Live counts what exists now, for leak checks.
type Live struct {
	Contexts, Streams, Events, Pools, Allocations, Modules, Libraries, Graphs, GraphExecs int
}

// Live returns the counts of live objects that a program made. Primary contexts count
// while they are retained; default streams and default pools do not count.
func (e *Engine) Live() Live {
	var l Live
	e.mu.Lock()
	for _, x := range e.handles {
		switch x := x.(type) {
		case *Context:
			if x.alive {
				l.Contexts++
			}
		case *stream:
			l.Streams++
		case *event:
			l.Events++
		case *pool:
			if !x.isDefault {
				l.Pools++
			}
		case *module:
			if x.lib == nil {
				l.Modules++
			}
		case *library:
			l.Libraries++
		case *graph:
			if !x.owned {
				l.Graphs++
			}
		case *graphExec:
			l.GraphExecs++
		}
	}
	e.mu.Unlock()
	l.Allocations = e.space.live()
	return l
}

// Call is the one place where every call of the ABI enters: it asks the fault hook, refuses
// calls before Init, and turns a panic into Unknown so that none crosses into C.
func (e *Engine) Call(t *Thread, api string, f func() Code) (code Code) {
	defer func() {
		if r := recover(); r != nil {
			if ra, ok := r.(runtime.Error); ok && panicHook != nil {
				panicHook(api, ra)
			}
			code = Unknown
		}
	}()
	if e.opts.Fault != nil {
		if c := e.opts.Fault(api); c != Success {
			return c
		}
	}
	if !e.inited.Load() {
		return NotInitialized
	}
	if e.sched != nil && occasions[api] {
		e.sched.occasion()
	}
	return e.judge(t, api, f)
}

// occasions are the calls before which a seeded schedule takes steps: those that submit work
// and those that ask about it.
var occasions = map[string]bool{
	"cuMemcpyAsync": true, "cuMemcpyHtoDAsync": true, "cuMemcpyDtoHAsync": true, "cuMemcpyDtoDAsync": true,
	"cuMemcpy2DAsync": true, "cuMemcpy3DAsync": true, "cuMemcpyPeerAsync": true, "cuMemcpy3DPeerAsync": true,
	"cuMemsetD8Async": true, "cuMemsetD16Async": true, "cuMemsetD32Async": true,
	"cuMemsetD2D8Async": true, "cuMemsetD2D16Async": true, "cuMemsetD2D32Async": true,
	"cuLaunchKernel": true, "cuLaunchKernelEx": true, "cuLaunchCooperativeKernel": true, "cuGraphLaunch": true,
	"cuMemAllocAsync": true, "cuMemAllocFromPoolAsync": true, "cuMemFreeAsync": true, "cuLaunchHostFunc": true,
	"cuEventRecord": true, "cuEventRecordWithFlags": true, "cuStreamWaitEvent": true,
	"cuStreamQuery": true, "cuEventQuery": true,
}

// CallEarly is Call for the few entry points that work before Init.
func (e *Engine) CallEarly(api string, f func() Code) (code Code) {
	defer func() {
		if recover() != nil {
			code = Unknown
		}
	}()
	if e.opts.Fault != nil {
		if c := e.opts.Fault(api); c != Success {
			return c
		}
	}
	return e.judge(nil, api, f)
}

// panicHook lets tests see panics that Call turned into Unknown.
var panicHook func(api string, r any)

// SetPanicHook installs a function that is told of panics inside calls. For tests.
func SetPanicHook(f func(api string, r any)) { panicHook = f }

// Init is cuInit.
func (e *Engine) Init(flags uint32) Code {
	if flags != 0 {
		return InvalidValue
	}
	e.inited.Store(true)
	return Success
}

// DriverVersion is cuDriverGetVersion.
func (e *Engine) DriverVersion() int { return e.opts.DriverVersion }
