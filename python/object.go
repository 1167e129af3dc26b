package python

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/memview"
)

// Object holds one reference on a Python object. Close gives it back; an
// Object that is dropped without Close is given back by the collector, late.
//
// Methods may be called from any goroutine, with or without the GIL. They
// fail with an error wrapping [dlpack.ErrClosed] once the Object is closed or
// Python is finalizing, and with [dlpack.ErrNotSupported] if the process has
// no Python.
type Object struct {
	st      *objectState
	cleanup runtime.Cleanup
}

// objectState is what outlives a dropped Object. It does not point back.
type objectState struct {
	addr  atomic.Uintptr // PyObject *, 0 after Close
	users atomic.Int64   // calls in progress, and 1 until Close
	token leak.Token
}

// Steal makes an Object of a reference that the caller owns: it belongs to
// the Object from now on. addr is a PyObject *, not 0.
func Steal(addr uintptr) *Object {
	st := &objectState{token: leak.Track("python.Object")}
	st.addr.Store(addr)
	st.users.Store(1)
	o := &Object{st: st}
	o.cleanup = runtime.AddCleanup(o, (*objectState).close, st)
	return o
}

// Borrow makes an Object of the address of a PyObject whose owner keeps it
// alive during the call: it takes a reference of its own.
func Borrow(addr uintptr) (*Object, error) {
	if addr == 0 {
		return nil, fmt.Errorf("python: borrow: %w", dlpack.ErrNull)
	}
	if err := retainObject(addr); err != nil {
		return nil, fmt.Errorf("python: borrow: %w", err)
	}
	return Steal(addr), nil
}

// Close gives the reference back. Only the first call has an effect; calls of
// other methods that are in progress end first. It never waits for the GIL:
// the release is queued if this thread does not hold it. The error is nil.
func (o *Object) Close() error {
	o.cleanup.Stop()
	o.st.close()
	runtime.KeepAlive(o)
	return nil
}

func (st *objectState) close() {
	if st.token != (leak.Token{}) {
		st.token.Done()
	}
	addr := st.addr.Swap(0)
	if addr == 0 {
		return
	}
	if st.users.Add(-1) == 0 {
		dropObject(addr)
	}
}

// use runs f with the address of the object, which stays alive meanwhile.
func (o *Object) use(op string, f func(addr uintptr) error) error {
	defer runtime.KeepAlive(o)
	for {
		n := o.st.users.Load()
		addr := o.st.addr.Load()
		if n == 0 || addr == 0 {
			return fmt.Errorf("python: %s: %w", op, dlpack.ErrClosed)
		}
		if !o.st.users.CompareAndSwap(n, n+1) {
			continue
		}
		err := f(addr)
		if o.st.users.Add(-1) == 0 {
			dropObject(addr)
		}
		if err != nil {
			return fmt.Errorf("python: %s: %w", op, err)
		}
		return nil
	}
}

// Retain returns another Object for the same Python object, with a reference
// of its own.
func (o *Object) Retain() (*Object, error) {
	var r *Object
	err := o.use("retain", func(addr uintptr) error {
		if err := retainObject(addr); err != nil {
			return err
		}
		r = Steal(addr)
		return nil
	})
	return r, err
}

// Addr returns the PyObject *, or 0 if the Object is closed. It is good for
// as long as the Object is not closed.
func (o *Object) Addr() uintptr { return o.st.addr.Load() }

// View makes a view of the array that the object is, without a copy. The view
// has a reference of its own on the memory: it may outlive the Object, and
// its Release gives the reference back. A read-only array makes a read-only
// view.
//
// Sources are tried in the order of the rules: NumPy arrays directly, the
// type's exchange table, __dlpack__, the buffer protocol, __array_interface__.
// The error wraps an [*Exception] that says what was wrong.
func (o *Object) View() (memview.StridedMemoryView, error) { return o.view("view", false) }

// WritableView is [Object.View] for memory that is going to be written: the
// error wraps [dlpack.ErrReadOnly] if it must not be.
func (o *Object) WritableView() (memview.StridedMemoryView, error) {
	return o.view("writable view", true)
}

func (o *Object) view(op string, writable bool) (memview.StridedMemoryView, error) {
	var v memview.StridedMemoryView
	err := o.use(op, func(addr uintptr) error {
		tensor, err := consume(addr, writable)
		if err != nil {
			return err
		}
		m, err := dlpack.ImportVersioned(tensor)
		if err != nil {
			return err
		}
		if v, err = memview.FromDLPack(m); err != nil {
			m.Release()
		}
		return err
	})
	return v, err
}

// NewView makes a handoff.StridedMemoryView of a view, without a copy. The
// Python object has a claim of its own on the memory, as [memview.StridedMemoryView.Export]
// has: v may be released at once.
func NewView(v memview.StridedMemoryView) (*Object, error) { return newObject("new view", v, false) }

// NewArray makes a handoff.Array of a view on memory that was made in Go or C,
// without a copy. Ownership is as for [NewView]; the Array also has Python's
// indexing.
func NewArray(v memview.StridedMemoryView) (*Object, error) { return newObject("new array", v, true) }

func newObject(op string, v memview.StridedMemoryView, array bool) (*Object, error) {
	e, err := v.Export()
	if err != nil {
		return nil, fmt.Errorf("python: %s: %w", op, err)
	}
	defer e.Close()
	tensor, err := e.Export(true)
	if err != nil {
		return nil, fmt.Errorf("python: %s: %w", op, err)
	}
	addr, err := produce(tensor, array)
	if err != nil {
		return nil, fmt.Errorf("python: %s: %w", op, err)
	}
	return Steal(addr), nil
}

// Import imports a module by its full name.
func Import(name string) (*Object, error) {
	addr, err := importModule(name)
	if err != nil {
		return nil, fmt.Errorf("python: import %s: %w", name, err)
	}
	return Steal(addr), nil
}

// String makes a Python str. Invalid UTF-8 is an error.
func String(s string) (*Object, error) {
	addr, err := newString(s)
	if err != nil {
		return nil, fmt.Errorf("python: string: %w", err)
	}
	return Steal(addr), nil
}

// Attr returns an attribute of the object.
func (o *Object) Attr(name string) (*Object, error) {
	var r *Object
	err := o.use("attribute "+name, func(addr uintptr) error {
		a, err := attr(addr, name)
		if err == nil {
			r = Steal(a)
		}
		return err
	})
	return r, err
}

// Call calls the object with positional arguments, which stay the caller's.
func (o *Object) Call(args ...*Object) (*Object, error) {
	var r *Object
	err := o.use("call", func(addr uintptr) error {
		addrs := make([]uintptr, len(args))
		var with func(i int) error
		with = func(i int) error {
			if i < len(args) {
				return args[i].use("argument", func(a uintptr) error {
					addrs[i] = a
					return with(i + 1)
				})
			}
			a, err := call(addr, addrs)
			if err == nil {
				r = Steal(a)
			}
			return err
		}
		return with(0)
	})
	return r, err
}

// TypeName returns the name of the object's type, with its module unless that
// is builtins.
func (o *Object) TypeName() (string, error) {
	var s string
	err := o.use("type", func(addr uintptr) (err error) {
		s, err = typeName(addr)
		return err
	})
	return s, err
}

// Text returns str(object).
func (o *Object) Text() (string, error) {
	var s string
	err := o.use("text", func(addr uintptr) (err error) {
		s, err = text(addr, false)
		return err
	})
	return s, err
}

// Repr returns repr(object).
func (o *Object) Repr() (string, error) {
	var s string
	err := o.use("repr", func(addr uintptr) (err error) {
		s, err = text(addr, true)
		return err
	})
	return s, err
}
