package driver

import (
	"sync"
	"sync/atomic"
)

// hostFuncs maps the words that the driver carries to Go functions. Keys are
// never used twice, so a stale one finds nothing.
var hostFuncs struct {
	sync.Mutex
	next uintptr
	fns  map[uintptr]func()
	// touch is what functions have said that they do, for those who hunt for missing
	// synchronization.
	touch  map[uintptr][]HostTouch
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
	delete(hostFuncs.touch, key)
	hostFuncs.Unlock()
}

// HostTouch is Len bytes of memory at Addr that a host function reads or writes.
type HostTouch struct {
	Addr, Len uintptr
	Write     bool
}

// HostTouches returns what the function behind the user word of a host function has said that it
// touches; ok is false if it has said nothing. It is for providers of the driver's table.
func HostTouches(user uintptr) (list []HostTouch, ok bool) {
	hostFuncs.Lock()
	defer hostFuncs.Unlock()
	list, ok = hostFuncs.touch[user]
	return list, ok
}

// LaunchHostCopy is [Driver.LaunchHostGo] for a function that only moves bytes: it touches no other memory that
// a device uses than it says, and tells nobody that it has run. This is what the hunt of the software
// device goes by; on a GPU it makes no difference.
func (d *Driver) LaunchHostCopy(ctx ContextHandle, stream StreamHandle, fn func(), touches ...HostTouch) Result {
	once, _ := hostTrampolines()
	key := addHostFunc(fn)
	if d.provider == ProviderSoft || d.hunter != nil {
		hostFuncs.Lock()
		if hostFuncs.touch == nil {
			hostFuncs.touch = make(map[uintptr][]HostTouch)
		}
		hostFuncs.touch[key] = touches
		hostFuncs.Unlock()
	}
	res := d.LaunchHostFunc(ctx, stream, once, key)
	if res != Success {
		dropHostFunc(key)
	}
	return res
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
