package driver

import (
	"sync"
	"sync/atomic"
)

// hostFuncs maps the words that the driver carries to Go functions. Keys are
// never used twice, so a stale one finds nothing.
var hostFuncs struct {
	sync.Mutex
	next   uintptr
	fns    map[uintptr]func()
	panics atomic.Int64
}

func addHostFunc(fn func()) uintptr {
	h := &hostFuncs
	h.Lock()
	defer h.Unlock()
	if h.fns == nil {
		h.fns = make(map[uintptr]func())
	}
	h.next++
	h.fns[h.next] = fn
	return h.next
}

func dropHostFunc(key uintptr) {
	hostFuncs.Lock()
	delete(hostFuncs.fns, key)
	hostFuncs.Unlock()
}

// NewHostFunc makes a Go function callable by the driver any number of times,
// for a host node of a graph or [Driver.LaunchHostFunc]. release frees the
// table entry; calls after it do nothing.
//
// The driver calls fn on a thread of its own and holds the stream up
// meanwhile: fn must not make driver calls, nor wait for anything that does.
// A panic is recovered and counted ([HostFuncPanics]).
func NewHostFunc(fn func()) (f HostFunc, user uintptr, release func()) {
	_, many := hostTrampolines()
	key := addHostFunc(fn)
	var once sync.Once
	return many, key, func() { once.Do(func() { dropHostFunc(key) }) }
}

// LaunchHostGo queues a Go function on a stream. It runs once, on a thread of
// the driver, under the rules of [NewHostFunc]; after an error in the context
// the driver skips it. While the stream captures use [NewHostFunc] instead: a
// captured function runs once per launch of the graph.
func (d *Driver) LaunchHostGo(ctx ContextHandle, stream StreamHandle, fn func()) Result {
	once, _ := hostTrampolines()
	key := addHostFunc(fn)
	res := d.LaunchHostFunc(ctx, stream, once, key)
	if res != Success {
		dropHostFunc(key)
	}
	return res
}

// HostFuncPanics returns how many Go functions called by the driver panicked.
func HostFuncPanics() int64 { return hostFuncs.panics.Load() }
