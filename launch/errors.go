package launch

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
)

// Errors reported by this package. Test for them with [errors.Is]; they are
// always wrapped.
var (
	// ErrNoDriver means that no usable CUDA driver was found.
	ErrNoDriver = driver.ErrNoDriver
	// ErrNotSupported means that the driver or a library lacks the feature.
	ErrNotSupported = driver.ErrNotSupported
	// ErrClosed means that a value was used after Close.
	ErrClosed = dlpack.ErrClosed
	// ErrInvalidValue means that an argument or option is out of range.
	ErrInvalidValue = driver.ErrInvalidValue
	// ErrCompile means that the compiler refused a program. The error is a
	// [*CompileError].
	ErrCompile = errors.New("compilation failed")
	// ErrLink means that the linker refused its inputs. The error is a
	// [*CompileError].
	ErrLink = errors.New("linking failed")
	// ErrNoKernel means that code has no kernel of a name.
	ErrNoKernel = errors.New("no such kernel")
	// ErrNoSymbol means that code has no variable of a name.
	ErrNoSymbol = errors.New("no such variable")
	// ErrImage means that bytes are not code of the kind that they should be,
	// or not for the device that should run them.
	ErrImage = errors.New("bad code image")
)

// Error says which driver call failed, on which device, and the driver's code.
type Error struct {
	// Op is what was being done, for example `load code "saxpy.cu"`.
	Op string
	// Device is the ordinal of the device, or -1.
	Device int
	// Code is the driver's code.
	Code driver.Result
	// Detail says what to do about it, where that is known.
	Detail string
	// Kind is a sentinel of this package that the error matches besides those
	// of the code, or nil.
	Kind error
}

// Error returns text of the form "launch: load code on device 0: no binary
// for this GPU (CUDA_ERROR_NO_BINARY_FOR_GPU)".
func (e *Error) Error() string {
	s := "launch: " + e.Op
	if e.Device >= 0 {
		s += " on device " + strconv.Itoa(e.Device)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Kind != nil {
		s += ": " + e.Kind.Error()
	}
	return s + ": " + e.Code.Error()
}

// Unwrap returns the code, and the sentinel if there is one.
func (e *Error) Unwrap() []error {
	if e.Kind != nil {
		return []error{e.Kind, e.Code}
	}
	return []error{e.Code}
}

// kindOf returns the sentinel that a code stands for, or nil. A driver that
// loads lazily finds bad code only when a kernel of it is asked for.
func kindOf(res driver.Result) error {
	switch res {
	case driver.ErrorInvalidPTX, driver.ErrorUnsupportedPTXVersion, driver.ErrorNoBinaryForGPU, driver.ErrorInvalidImage,
		driver.ErrorInvalidSource, driver.ErrorJITCompilerNotFound:
		return ErrImage
	}
	return nil
}

// check turns a result into an error; dev is -1 where there is none.
func check(op string, dev int, res driver.Result) error {
	if res == driver.Success {
		return nil
	}
	return &Error{Op: op, Device: dev, Code: res, Kind: kindOf(res)}
}

func closed(what string) error {
	return fmt.Errorf("launch: %s: %w", what, ErrClosed)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("launch: "+format+": %w", append(args, ErrInvalidValue)...)
}
