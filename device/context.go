package device

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/go-handoff/handoff/device/driver"
)

type contextKind uint8

const (
	contextPrimary  contextKind = iota // kept by its Device
	contextCreated                     // destroyed with its last user
	contextBorrowed                    // of another library
)

// Context is a CUDA context: an address space with its streams, events and
// memory on one device. It may be used from any goroutine; no goroutine has a
// current one, and every call names its own.
//
// Close destroys a context that [Device.NewContext] created once nothing that
// was made in it is open any more. A primary or borrowed one is never
// destroyed.
type Context struct {
	object
	dev     *Device
	handle  driver.ContextHandle
	kind    contextKind
	id      uint64 // of a borrowed one, the driver's, which no other context has; 0 if it has none
	cleanup runtime.Cleanup
}

// contextRegistry finds the Context of a handle.
type contextRegistry struct {
	registry[driver.ContextHandle, Context]
}

var contexts contextRegistry

// own says whether a handle is that of an open context of this package.
func (r *contextRegistry) own(h driver.ContextHandle) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.m[h].Value()
	return c != nil && c.kind == contextCreated && !c.closed.Load()
}

// borrowed has the number of the context that each foreign handle was last seen
// to be.
var borrowed struct {
	sync.Mutex
	ids map[driver.ContextHandle]uint64
}

// borrow asks for the number of a foreign context. Its owner may have destroyed
// it, and the driver have given its handle to a new one: then the events that
// are pooled for the handle went with the old one.
func borrow(d *driver.Driver, h driver.ContextHandle) (id uint64, err error) {
	if contexts.own(h) {
		return 0, nil
	}
	id, res := d.CtxGetId(h)
	if errors.Is(res, ErrNotSupported) {
		return 0, nil // before CUDA 12: handles are all there is
	}
	if err := check("wrap context", -1, res); err != nil {
		return 0, err
	}
	borrowed.Lock()
	defer borrowed.Unlock()
	if before, seen := borrowed.ids[h]; seen && before != id {
		d.ForgetContext(h, true)
	}
	if borrowed.ids == nil {
		borrowed.ids = make(map[driver.ContextHandle]uint64)
	}
	borrowed.ids[h] = id
	return id, nil
}

// unborrow forgets what a handle was before it became that of a context of this
// package.
func unborrow(d *driver.Driver, h driver.ContextHandle) {
	borrowed.Lock()
	defer borrowed.Unlock()
	if _, seen := borrowed.ids[h]; seen {
		d.ForgetContext(h, true)
		delete(borrowed.ids, h)
	}
}

// current says that the handle of c still means the context that c was made
// for, as far as the driver can tell.
func (c *Context) current() bool {
	if c.kind != contextBorrowed || c.id == 0 {
		return true
	}
	id, res := c.dev.d.CtxGetId(c.handle)
	switch res {
	case driver.Success:
		return id == c.id
	case driver.ErrorInvalidContext, driver.ErrorContextIsDestroyed:
		return false
	}
	return true
}

// adopt returns the Context of a handle, new if need be. id is that of a
// borrowed one, or 0.
func (r *contextRegistry) adopt(d *Device, h driver.ContextHandle, kind contextKind, id uint64) *Context {
	c, _ := r.resolve(h, func(c *Context) bool {
		return !c.closed.Load() && c.dev == d && (c.id == id || c.id == 0 || id == 0)
	}, func() (*Context, error) {
		c := &Context{dev: d, handle: h, kind: kind, id: id}
		c.own = &owner{kind: new(counter), final: func() error { return nil }}
		c.own.refs.Store(1)
		return c, nil
	})
	return c
}

// NewContext creates a context beside the primary one. Most programs do not
// need any. flags are the driver's (CtxSched...).
func (d *Device) NewContext(flags uint32) (*Context, error) {
	if err := d.check("create context"); err != nil {
		return nil, err
	}
	h, res := d.d.ContextNew(flags, d.ordinal)
	if err := check("create context", d.ordinal, res); err != nil {
		return nil, err
	}
	unborrow(d.d, h)
	c := &Context{dev: d, handle: h, kind: contextCreated}
	drv, dev := d.d, d.ordinal
	c.own = newOwner(&stats.contexts, "device.Context", func() error {
		drv.ForgetContext(h, false)
		return check("destroy context", dev, drv.CtxDestroy(h))
	})
	c.cleanup = guard(c, c.own)
	contexts.put(h, c)
	return c, nil
}

// WrapContext returns the Context of a handle of another library. It asks the
// driver for the device; the caller keeps the context alive. A handle that is
// known gives the Context that it belongs to, unless its owner has destroyed
// that context and the driver has used the handle again.
func WrapContext(handle driver.ContextHandle) (*Context, error) {
	d, err := lib()
	if err != nil {
		return nil, err
	}
	if handle == 0 {
		return nil, &Error{Op: "wrap context", Device: -1, Code: driver.ErrorInvalidContext, Detail: "the handle is null"}
	}
	ord, res := d.CtxGetDevice(handle)
	if err := check("wrap context", -1, res); err != nil {
		return nil, err
	}
	dev, err := Open(int(ord))
	if err != nil {
		return nil, err
	}
	// Another library may have taken the primary context before we did.
	if _, active, res := d.DevicePrimaryCtxGetState(ord); res == driver.Success && active != 0 {
		if p, err := dev.PrimaryContext(); err == nil && p.handle == handle {
			return p, nil
		}
	}
	id, err := borrow(d, handle)
	if err != nil {
		return nil, err
	}
	return contexts.adopt(dev, handle, contextBorrowed, id), nil
}

// CurrentContext returns the context that is current on the calling thread,
// for example because another library made it so, or nil. The goroutine should
// be locked to its thread.
func CurrentContext() (*Context, error) {
	d, err := lib()
	if err != nil {
		return nil, err
	}
	h, res := d.CtxGetCurrent()
	if err := check("get current context", -1, res); err != nil || h == 0 {
		return nil, err
	}
	return WrapContext(h)
}

// enter is object.enter for a Context that may be nil.
func (c *Context) enter(op string) error {
	if c == nil {
		return closed(op)
	}
	return c.object.enter(op)
}

// hold is object.hold for a Context that may be nil.
func (c *Context) hold(op string) (*owner, error) {
	if c == nil {
		return nil, closed(op)
	}
	return c.object.hold(op)
}

// Handle returns the raw handle. It is valid while c is open.
func (c *Context) Handle() driver.ContextHandle {
	if c == nil {
		return 0
	}
	return c.handle
}

// Device returns the device of the context.
func (c *Context) Device() *Device {
	if c == nil {
		return nil
	}
	return c.dev
}

// Primary says whether c is the primary context of its device.
func (c *Context) Primary() bool { return c.Device() != nil && c.kind == contextPrimary }

// String returns the context's device and what it is.
func (c *Context) String() string {
	if c.Device() == nil {
		return "no context"
	}
	switch c.kind {
	case contextPrimary:
		return "primary context of " + c.dev.String()
	case contextCreated:
		return fmt.Sprintf("context %#x of %v", uintptr(c.handle), c.dev)
	}
	return fmt.Sprintf("foreign context %#x of %v", uintptr(c.handle), c.dev)
}

// Close gives the context up. Streams, events and buffers made in it stay
// usable; the context is destroyed with the last of them. A primary or
// borrowed context stays as it is. It may be called twice.
func (c *Context) Close() error {
	if c == nil || c.kind != contextCreated {
		return nil
	}
	if c.closed.Swap(true) {
		return nil
	}
	c.cleanup.Stop()
	contexts.drop(c.handle, c)
	return c.own.dispose()
}

// SetCurrent makes c current on the calling thread, for code that relies on
// it, and locks the goroutine to the thread. restore makes current what was
// before and unlocks; it is called on the same goroutine, once, best with
// defer. Called on another one it does nothing but return [ErrThread].
func (c *Context) SetCurrent() (restore func() error, err error) {
	if err := c.enter("set current"); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	old, res := c.dev.d.ContextSwap(c.handle)
	if err := check("set current", c.dev.ordinal, res); err != nil {
		runtime.UnlockOSThread()
		c.exit()
		return nil, err
	}
	thread := threadID()
	var done atomic.Bool
	return func() error {
		if threadID() != thread {
			return fmt.Errorf("device: restore context: %w", ErrThread)
		}
		if done.Swap(true) {
			return nil
		}
		defer runtime.UnlockOSThread()
		defer c.exit()
		res := c.dev.d.CtxSetCurrent(old)
		if res != driver.Success {
			res = c.dev.d.CtxSetCurrent(old) // it may have told of something older
		}
		return check("restore context", c.dev.ordinal, res)
	}, nil
}

// Synchronize waits until all work of the context is done, or ctx ends; ending
// the wait does not end the work. The driver can only block a thread for this:
// so it does, and no more than a few at a time.
func (c *Context) Synchronize(ctx context.Context) error {
	if err := c.enter("synchronize context"); err != nil {
		return err
	}
	return blocking(ctx, func() error {
		defer c.exit()
		return check("synchronize context", c.dev.ordinal, c.dev.d.CtxSynchronize(c.handle))
	}, c.exit)
}

// Priorities returns the range of stream priorities. The most urgent is the
// smaller number.
func (c *Context) Priorities() (least, greatest int, err error) {
	if err := c.enter("priorities"); err != nil {
		return 0, 0, err
	}
	defer c.exit()
	l, g, res := c.dev.d.CtxGetStreamPriorityRange(c.handle)
	return int(l), int(g), check("priorities", c.dev.ordinal, res)
}

// DefaultStream returns the legacy default stream of the context, which waits
// for and holds up every stream that is not non-blocking.
func (c *Context) DefaultStream() (*Stream, error) {
	if c == nil {
		return nil, closed("default stream")
	}
	return wrapStream(c, driver.LegacyStream, nil)
}

// PerThreadStream returns the default stream of the calling thread. The
// goroutine must be locked to its thread as long as it uses the stream;
// another thread gets [ErrThread].
func (c *Context) PerThreadStream() (*Stream, error) {
	if c == nil {
		return nil, closed("per-thread default stream")
	}
	return wrapStream(c, driver.PerThreadStream, nil)
}
