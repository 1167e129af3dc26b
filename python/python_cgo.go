//go:build cgo && linux && (amd64 || arm64)

package python

// #cgo CFLAGS: -I${SRCDIR}/../dlpack/include -I${SRCDIR}/../device/driver/include -std=gnu11 -O2
// #cgo LDFLAGS: -lm
// #include <stdlib.h>
// #include "gobridge.h"
import "C"

import (
	"runtime"
	"unsafe"

	"github.com/go-handoff/handoff/dlpack"
)

func init() { C.ho_go_hooks() }

// result turns the status of a C call into an error.
func result(status C.int, e *C.ho_go_error) error {
	switch status {
	case C.HO_GO_OK:
		return nil
	case C.HO_GO_EXCEPTION:
		defer C.ho_go_error_free(e)
		return &Exception{Type: C.GoString(e._type), Message: C.GoString(e.message), Rule: C.GoString(e.rule)}
	}
	return errNoPython
}

// Do runs f with the GIL held and the goroutine locked to its thread. The
// other functions of this package may be called in f; they find the GIL
// taken. f must not wait for something that needs the GIL on another thread.
//
// The error is f's, or one wrapping [dlpack.ErrClosed] if Python is not there
// or finalizes. A panic of f passes through, with the GIL given back.
func Do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var state C.int
	if C.ho_go_enter(&state) != 0 {
		return errNoPython
	}
	defer C.ho_go_leave(state)
	return f()
}

func retainObject(addr uintptr) error {
	return result(C.ho_go_retain(C.uintptr_t(addr)), nil)
}

func dropObject(addr uintptr) { C.ho_go_drop(C.uintptr_t(addr)) }

func consume(addr uintptr, writable bool) (uintptr, error) {
	var (
		e      C.ho_go_error
		tensor C.uintptr_t
		w      C.int
	)
	if writable {
		w = 1
	}
	err := result(C.ho_go_consume(C.uintptr_t(addr), w, &tensor, &e), &e)
	return uintptr(tensor), err
}

func produce(tensor uintptr, array bool) (uintptr, error) {
	var (
		e      C.ho_go_error
		object C.uintptr_t
		a      C.int
	)
	if array {
		a = 1
	}
	err := result(C.ho_go_produce(C.uintptr_t(tensor), a, &object, &e), &e)
	return uintptr(object), err
}

func importModule(name string) (uintptr, error) {
	var (
		e      C.ho_go_error
		object C.uintptr_t
	)
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s)) // SAFETY: allocated by C.CString above.
	err := result(C.ho_go_import(s, &object, &e), &e)
	return uintptr(object), err
}

func newString(s string) (uintptr, error) {
	var (
		e      C.ho_go_error
		object C.uintptr_t
	)
	c := C.CString(s)
	defer C.free(unsafe.Pointer(c)) // SAFETY: allocated by C.CString above.
	err := result(C.ho_go_string(c, C.size_t(len(s)), &object, &e), &e)
	return uintptr(object), err
}

func attr(addr uintptr, name string) (uintptr, error) {
	var (
		e      C.ho_go_error
		object C.uintptr_t
	)
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s)) // SAFETY: allocated by C.CString above.
	err := result(C.ho_go_attr(C.uintptr_t(addr), s, &object, &e), &e)
	return uintptr(object), err
}

func call(addr uintptr, args []uintptr) (uintptr, error) {
	var (
		e      C.ho_go_error
		object C.uintptr_t
	)
	// SAFETY: a uintptr and a uintptr_t are the same word; C reads len(args)
	// of them during the call and keeps none.
	p := (*C.uintptr_t)(unsafe.Pointer(unsafe.SliceData(args)))
	err := result(C.ho_go_call(C.uintptr_t(addr), p, C.size_t(len(args)), &object, &e), &e)
	return uintptr(object), err
}

func take(s *C.char, n C.size_t) string {
	defer C.free(unsafe.Pointer(s)) // SAFETY: malloc'd by the C function for us.
	return C.GoStringN(s, C.int(n))
}

func text(addr uintptr, repr bool) (string, error) {
	var (
		e C.ho_go_error
		s *C.char
		n C.size_t
		r C.int
	)
	if repr {
		r = 1
	}
	if err := result(C.ho_go_text(C.uintptr_t(addr), r, &s, &n, &e), &e); err != nil {
		return "", err
	}
	return take(s, n), nil
}

func typeName(addr uintptr) (string, error) {
	var (
		e C.ho_go_error
		s *C.char
		n C.size_t
	)
	if err := result(C.ho_go_type(C.uintptr_t(addr), &s, &n, &e), &e); err != nil {
		return "", err
	}
	return take(s, n), nil
}

var errNoPython error = noPython{}

// noPython says that there is no Python to enter: never was, or not any more.
type noPython struct{}

func (noPython) Error() string {
	return "no Python runs in this process, or it is finalizing"
}

func (noPython) Unwrap() []error { return []error{dlpack.ErrClosed, dlpack.ErrNotSupported} }
