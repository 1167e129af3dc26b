package device

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
)

// Errors reported by this package. Test for them with [errors.Is]; they are
// always wrapped, those of a driver call in an [*Error].
var (
	// ErrNoDriver means that no usable CUDA driver was found.
	ErrNoDriver = driver.ErrNoDriver
	// ErrNoDevice means that there is a driver, but no device that it can use.
	ErrNoDevice = driver.ErrNoDevice
	// ErrFork means that the driver was initialized before this process was
	// forked.
	ErrFork = driver.ErrFork
	// ErrNotSupported means that the driver lacks the entry point, or the
	// device the feature.
	ErrNotSupported = driver.ErrNotSupported
	// ErrClosed means that a value was used after Close.
	ErrClosed = dlpack.ErrClosed
	// ErrOutOfMemory means that the device has no memory left.
	ErrOutOfMemory = driver.ErrOutOfMemory
	// ErrNotReady means that work is not done yet, or an event not recorded.
	ErrNotReady = driver.ErrNotReady
	// ErrInvalidContext means that no context is current, or a destroyed one.
	ErrInvalidContext = driver.ErrInvalidContext
	// ErrInvalidHandle means that a handle is null, destroyed or foreign.
	ErrInvalidHandle = driver.ErrInvalidHandle
	// ErrInvalidValue means that an argument is out of range.
	ErrInvalidValue = driver.ErrInvalidValue
	// ErrInvalidDevice means that there is no such device in this process.
	ErrInvalidDevice = driver.ErrInvalidDevice
	// ErrPeerAccess means that two devices cannot reach each other's memory.
	ErrPeerAccess = driver.ErrPeerAccess
	// ErrCapture means that a call is not allowed while a stream captures.
	ErrCapture = driver.ErrCapture
	// ErrSticky means that the context is lost.
	ErrSticky = driver.ErrSticky
	// ErrShutdown means that the driver is shutting down with the process.
	ErrShutdown = driver.ErrShutdown
	// ErrNoTiming means that an event was made without timing.
	ErrNoTiming = errors.New("event has no timing")
	// ErrThread means that something that belongs to a thread was used on
	// another one.
	ErrThread = errors.New("wrong thread")
)

// Error says which operation failed, on which device, and the driver's code.
type Error struct {
	// Op is what was being done, for example "allocate 1024 bytes".
	Op string
	// Device is the ordinal of the device, or -1.
	Device int
	// Code is the driver's code.
	Code driver.Result
	// Detail says what to do about it, where that is known.
	Detail string
}

// Error returns text of the form "device: allocate 1024 bytes on device 0: out
// of memory (CUDA_ERROR_OUT_OF_MEMORY)".
func (e *Error) Error() string {
	s := "device: " + e.Op
	if e.Device >= 0 {
		s += " on device " + strconv.Itoa(e.Device)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s + ": " + e.Code.Error()
}

// Name returns the driver's name of the code.
func (e *Error) Name() string { return e.Code.Name() }

// Message returns what the code means.
func (e *Error) Message() string { return e.Code.Message() }

// Unwrap returns the code, which matches the sentinels of this package.
func (e *Error) Unwrap() error { return e.Code }

// check turns a result into an error; dev is -1 where there is none.
func check(op string, dev driver.Device, res driver.Result) error {
	if res == driver.Success {
		return nil
	}
	return &Error{Op: op, Device: int(dev), Code: res}
}

func closed(what string) error {
	return fmt.Errorf("device: %s: %w", what, ErrClosed)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("device: "+format+": %w", append(args, ErrInvalidValue)...)
}
