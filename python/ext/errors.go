package ext

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/go-handoff/handoff/dlpack"
)

// ErrInterrupted is the cause ([context.Cause]) of a context that was
// cancelled because a Python signal handler raised, as for Ctrl-C.
var ErrInterrupted = errors.New("interrupted by a signal handler of Python")

// Error is an error that becomes a Python exception of a chosen class.
// Functions such as [ValueError] make them.
type Error struct {
	// Class is the name of a built-in exception class, such as "ValueError",
	// or of one of package handoff, such as "ReadOnlyError".
	Class string
	// Err holds the text, and what it wraps.
	Err error
}

// Error returns the text of the exception.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns what the error wraps.
func (e *Error) Unwrap() error { return e.Err }

// Raise makes an error that becomes an exception of the named class. The text
// is formatted as by [fmt.Errorf], %w included.
func Raise(class, format string, args ...any) error {
	return &Error{Class: class, Err: fmt.Errorf(format, args...)}
}

// ValueError makes an error that becomes a ValueError: an argument of the
// right type with a wrong value.
func ValueError(format string, args ...any) error { return Raise("ValueError", format, args...) }

// TypeError makes an error that becomes a TypeError.
func TypeError(format string, args ...any) error { return Raise("TypeError", format, args...) }

// IndexError makes an error that becomes an IndexError.
func IndexError(format string, args ...any) error { return Raise("IndexError", format, args...) }

// KeyError makes an error that becomes a KeyError.
func KeyError(format string, args ...any) error { return Raise("KeyError", format, args...) }

// OverflowError makes an error that becomes an OverflowError.
func OverflowError(format string, args ...any) error {
	return Raise("OverflowError", format, args...)
}

// BufferError makes an error that becomes a BufferError: data that cannot be
// exchanged in the way asked for.
func BufferError(format string, args ...any) error { return Raise("BufferError", format, args...) }

// RuntimeError makes an error that becomes a RuntimeError.
func RuntimeError(format string, args ...any) error { return Raise("RuntimeError", format, args...) }

// NotImplementedError makes an error that becomes a NotImplementedError.
func NotImplementedError(format string, args ...any) error {
	return Raise("NotImplementedError", format, args...)
}

// PyError is an exception that Python code raised while a Go function called
// it. Returned from the function, alone or wrapped, it is raised again: the
// very same object, with its traceback. Text added by wrapping becomes a note.
//
// It belongs to the call in which it was raised. Returned from a later call, it
// becomes a new exception of the same class, if that is a built-in one, with
// the same text.
type PyError struct {
	// Type is the name of its class and Text what str() gives.
	Type, Text string

	ref *objectRef
}

// Error returns text of the form "ValueError: x must be positive".
func (e *PyError) Error() string {
	if e.Text == "" {
		return e.Type
	}
	return e.Type + ": " + e.Text
}

func (e *PyError) share() (ptr, owner uint64) {
	if e.ref == nil {
		return 0, 0
	}
	return e.ref.share()
}

// classes maps errors to the exceptions they become, first match first.
var classes = []struct {
	err   error
	class string
}{
	{dlpack.ErrReadOnly, "ReadOnlyError"},
	{dlpack.ErrDType, "DTypeError"},
	{dlpack.ErrDevice, "DeviceError"},
	{dlpack.ErrLayout, "LayoutError"},
	{dlpack.ErrOverflow, "LayoutError"},
	{dlpack.ErrNull, "LayoutError"},
	{dlpack.ErrAlign, "LayoutError"},
	{dlpack.ErrVersion, "VersionError"},
	{dlpack.ErrFlags, "VersionError"},
	{dlpack.ErrConsumed, "CapsuleError"},
	{dlpack.ErrCopy, "CopyError"},
	{dlpack.ErrNotSupported, "ExchangeError"},
	{dlpack.ErrNoMemory, "MemoryError"},
	{context.DeadlineExceeded, "TimeoutError"},
	{os.ErrDeadlineExceeded, "TimeoutError"},
	{fs.ErrNotExist, "FileNotFoundError"},
	{fs.ErrExist, "FileExistsError"},
	{fs.ErrPermission, "PermissionError"},
	{fs.ErrClosed, "ValueError"}, // Python: "I/O operation on closed file"
	{io.EOF, "EOFError"},
	{io.ErrUnexpectedEOF, "EOFError"},
	{errors.ErrUnsupported, "NotImplementedError"},
}

// classOf returns the name of the exception class that err becomes.
func classOf(err error) string {
	var chosen *Error
	if errors.As(err, &chosen) {
		return chosen.Class
	}
	for i := range classes {
		if errors.Is(err, classes[i].err) {
			return classes[i].class
		}
	}
	return "GoError"
}

// fail makes the call raise err.
func (c *call) fail(err error) {
	var py *PyError
	if errors.As(err, &py) {
		note := ""
		if text := err.Error(); text != py.Error() {
			note = text
		}
		c.dropResults()
		if c.f.exc, c.f.excOwner = py.share(); c.f.exc != 0 {
			c.setError(py.Type, note)
		} else {
			c.setError(py.Type, cmp.Or(note, py.Text))
		}
		return
	}
	c.dropResults()
	c.setError(classOf(err), err.Error())
}
