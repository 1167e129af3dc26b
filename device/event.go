package device

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/go-handoff/handoff/device/driver"
)

// Event marks a point in a stream. It may be used from any number of
// goroutines.
type Event struct {
	object
	ctx      *Context
	handle   driver.EventHandle
	opts     EventOptions
	recorded atomic.Bool
	cleanup  runtime.Cleanup
}

// EventOptions tune an event. The zero value is an event that only orders,
// which is the cheapest.
type EventOptions struct {
	// Timing makes [Event.Elapsed] possible.
	Timing bool
	// BlockingSync makes a thread that the driver blocks for the event sleep
	// instead of spin.
	BlockingSync bool
	// Interprocess makes [Event.IPCHandle] possible. It excludes Timing.
	Interprocess bool
}

var events registry[driver.EventHandle, Event]

// NewEvent creates an event in c, not yet recorded. opts may be nil.
func (c *Context) NewEvent(opts *EventOptions) (*Event, error) {
	held, err := c.hold(opCreateEvent)
	if err != nil {
		return nil, err
	}
	return c.createEvent(opts, held)
}

const opCreateEvent = "create event"

// createEvent takes a hold on the context over, also on an error.
func (c *Context) createEvent(opts *EventOptions, held *owner) (*Event, error) {
	const op = opCreateEvent
	var o EventOptions
	if opts != nil {
		o = *opts
	}
	if o.Interprocess && o.Timing { // B298
		return nil, join(invalid("%s: an interprocess event has no timing", op), held.unref())
	}
	var flags uint32
	if !o.Timing {
		flags |= driver.EventDisableTiming
	}
	if o.BlockingSync {
		flags |= driver.EventBlockingSync
	}
	if o.Interprocess {
		flags |= driver.EventInterprocess
	}
	h, res := c.dev.d.EventCreate(c.handle, flags)
	if err := check(op, c.dev.ordinal, res); err != nil {
		return nil, join(err, held.unref())
	}
	return c.newEvent(h, o, held), nil
}

func (c *Context) newEvent(h driver.EventHandle, o EventOptions, held *owner) *Event {
	e := &Event{ctx: c, handle: h, opts: o}
	d, ctx, dev := c.dev.d, c.handle, c.dev.ordinal
	e.own = newOwner(&stats.events, "device.Event", func() error {
		return join(check("destroy event", dev, d.EventDestroy(ctx, h)), held.unref())
	})
	e.cleanup = guard(e, e.own)
	events.put(h, e)
	return e
}

// EventOf returns the Event of a raw handle if this package made it and it is
// open, or nil.
func EventOf(handle driver.EventHandle) *Event {
	events.mu.Lock()
	defer events.mu.Unlock()
	if e := events.m[handle].Value(); e != nil && !e.closed.Load() {
		return e
	}
	return nil
}

// OpenIPCEvent opens an event of another process in c. The handle's bytes come
// from [Event.IPCHandle].
func (c *Context) OpenIPCEvent(handle driver.IPCEventHandle) (*Event, error) {
	const op = "open interprocess event"
	held, err := c.hold(op)
	if err != nil {
		return nil, err
	}
	h, res := c.dev.d.IpcOpenEventHandle(c.handle, handle)
	if err := check(op, c.dev.ordinal, res); err != nil {
		return nil, join(err, held.unref())
	}
	e := c.newEvent(h, EventOptions{Interprocess: true}, held)
	e.recorded.Store(true) // by the other process, as far as we know
	return e, nil
}

// enter is object.enter for an Event that may be nil.
func (e *Event) enter(op string) error {
	if e == nil {
		return closed(op)
	}
	return e.object.enter(op)
}

// Handle returns the raw handle. It is valid while e is open.
func (e *Event) Handle() driver.EventHandle {
	if e == nil {
		return 0
	}
	return e.handle
}

// Context returns the context of the event.
func (e *Event) Context() *Context {
	if e == nil {
		return nil
	}
	return e.ctx
}

// Device returns the device of the event.
func (e *Event) Device() *Device { return e.Context().Device() }

// Options returns how the event was made.
func (e *Event) Options() EventOptions {
	if e == nil {
		return EventOptions{}
	}
	return e.opts
}

// Close gives the event up; a record that is queued still completes, and
// streams that wait for it still do. It may be called twice.
func (e *Event) Close() error {
	if e == nil || !e.made() || e.closed.Swap(true) {
		return nil
	}
	e.cleanup.Stop()
	events.drop(e.handle, e)
	return e.own.dispose()
}

// Done says whether the latest record is complete. An event that was never
// recorded is done.
func (e *Event) Done() (bool, error) {
	if err := e.enter("query event"); err != nil {
		return false, err
	}
	defer e.exit()
	res := e.ctx.dev.d.EventQuery(e.ctx.handle, e.handle)
	if res == driver.ErrorNotReady {
		return false, nil
	}
	return res == driver.Success, check("query event", e.ctx.dev.ordinal, res)
}

// Synchronize waits until the latest record is complete, or ctx ends. No
// thread is held, unless ctx can never end: see [Stream.Synchronize].
func (e *Event) Synchronize(ctx context.Context) error {
	const op = "synchronize event"
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := e.enter(op); err != nil {
		return err
	}
	d := e.ctx.dev.d
	res := bounded(func() driver.Result { return d.EventQuery(e.ctx.handle, e.handle) })
	if res != driver.ErrorNotReady {
		e.exit()
		return check(op, e.ctx.dev.ordinal, res)
	}
	if ctx.Done() == nil {
		select {
		case blockers <- struct{}{}:
			defer func() { <-blockers }()
			defer e.exit()
			return check(op, e.ctx.dev.ordinal, d.EventSynchronize(e.ctx.handle, e.handle))
		default:
		}
	}
	res, err := waitEvent(ctx, d, waiter{ctx: e.ctx.handle, event: e.handle, closer: e.exit})
	if err != nil {
		return err
	}
	return check(op, e.ctx.dev.ordinal, res)
}

// Elapsed returns the time between two events of one device. Both must have
// timing ([ErrNoTiming]), and be recorded and complete ([ErrNotReady]).
func Elapsed(start, end *Event) (time.Duration, error) {
	const op = "elapsed time"
	if start == nil || end == nil {
		return 0, invalid("%s: no event", op)
	}
	if !start.opts.Timing || !end.opts.Timing { // B229
		return 0, fmt.Errorf("device: %s: make both events with EventOptions.Timing: %w", op, ErrNoTiming)
	}
	for _, e := range [...]*Event{start, end} {
		if err := e.enter(op); err != nil {
			return 0, err
		}
		defer e.exit()
		if !e.recorded.Load() {
			return 0, &Error{Op: op, Device: e.ctx.dev.Ordinal(), Code: driver.ErrorNotReady, Detail: "an event was never recorded"}
		}
	}
	if start.ctx.dev != end.ctx.dev {
		return 0, invalid("%s: the events are of %v and %v", op, start.ctx.dev, end.ctx.dev)
	}
	ms, res := start.ctx.dev.d.EventElapsedTime(start.ctx.handle, start.handle, end.handle)
	if err := check(op, start.ctx.dev.ordinal, res); err != nil {
		return 0, err // B227: matches ErrNotReady while the work runs
	}
	return time.Duration(math.Round(float64(ms) * float64(time.Millisecond))), nil
}

// IPCHandle describes the event for another process, which opens it with
// [Context.OpenIPCEvent]. The event must have been made for that.
func (e *Event) IPCHandle() (driver.IPCEventHandle, error) {
	const op = "interprocess handle of event"
	if err := e.enter(op); err != nil {
		return driver.IPCEventHandle{}, err
	}
	defer e.exit()
	if !e.opts.Interprocess {
		return driver.IPCEventHandle{}, invalid("%s: make the event with EventOptions.Interprocess", op)
	}
	h, res := e.ctx.dev.d.IpcGetEventHandle(e.ctx.handle, e.handle)
	return h, check(op, e.ctx.dev.ordinal, res)
}

// join is [errors.Join] that returns a single error as it is.
func join(a, b error) error {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return errors.Join(a, b)
}
