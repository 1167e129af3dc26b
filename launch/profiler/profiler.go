// Package profiler switches the collection of a profiler on and off, so that it
// sees the part of a program that matters:
//
//	nsys profile --capture-range=cudaProfilerApi --capture-range-end=stop ./program
//	ncu --profile-from-start off ./program
//
// Without a profiler the switches do nothing.
//
//	err := profiler.Collect(ctx, func() error { return step(s) })
//
// Work that was queued is collected when it runs, which may be after Stop: wait
// for it first.
//
// # Concurrency
//
// Everything may be used from any number of goroutines at once. There is one
// switch for the whole process: it does not count.
//
// The calls are cuProfilerStart and cuProfilerStop of
// https://docs.nvidia.com/cuda/cuda-driver-api/.
package profiler

import (
	"errors"
	"fmt"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
)

// Start begins the collection. ctx is any context of the program. Errors are
// the driver's codes.
func Start(ctx *device.Context) error {
	return call("start", ctx, (*driver.Driver).ProfilerStart)
}

// Stop ends the collection, and writes what was collected to where the profiler
// wants it.
func Stop(ctx *device.Context) error {
	return call("stop", ctx, (*driver.Driver).ProfilerStop)
}

// Collect calls fn with the collection on; it ends also if fn panics. The error
// is that of fn, or of the switches.
func Collect(ctx *device.Context, fn func() error) (err error) {
	if err := Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, Stop(ctx)) }()
	return fn()
}

func call(what string, ctx *device.Context, do func(*driver.Driver, driver.ContextHandle) driver.Result) error {
	if ctx == nil {
		return fmt.Errorf("profiler: %s: no context: %w", what, driver.ErrInvalidValue)
	}
	if err := ctx.Begin("profiler " + what); err != nil {
		return err
	}
	defer ctx.End()
	if err := do(ctx.Device().Driver(), ctx.Handle()).Err(); err != nil {
		return fmt.Errorf("profiler: %s on %v: %w", what, ctx.Device(), err)
	}
	return nil
}
