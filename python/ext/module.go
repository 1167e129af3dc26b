package ext

//go:generate go run gen.go

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Module is a Python module made of Go functions. Make it with [New] in a
// package variable, add functions, and hand [Module.Init] to Python.
//
// Functions are added before Init, from one goroutine. The methods that add
// report nothing: what is wrong is collected, and [Module.Check] and Init
// tell.
type Module struct {
	name, doc string
	funcs     []*function
	classes   []*class
	errs      []error

	init   sync.Mutex
	object uintptr // the Python module, once Init has made it
}

// nextClass numbers the named tuple classes of all modules.
var nextClass atomic.Int32

// New begins the module with this name, which is that of the shared object and
// of its PyInit function, and this documentation.
func New(name, doc string) *Module {
	m := &Module{name: name, doc: strings.TrimSpace(doc)}
	for part := range strings.SplitSeq(name, ".") {
		if !isName(part) {
			m.errs = append(m.errs, fmt.Errorf("%q is no name for a module", name))
		}
	}
	if m.doc == "" {
		m.errs = append(m.errs, errors.New("the module has no documentation"))
	}
	return m
}

// Func adds a function. signature is its Python signature without annotations,
// such as "scale(x, factor=2.0, *, offset=None)", with as many parameters as
// fn has (not counting a context.Context in front). The package documentation
// lists the types that fn may use. doc becomes its docstring.
//
// The GIL is released while fn runs.
func (m *Module) Func(signature string, fn any, doc string) *Module {
	return m.add(signature, fn, doc, false)
}

// Quick is Func for functions that take a few microseconds at most: the GIL is
// kept, which saves some 50 ns per call and lets nothing else run in Python.
// fn must not wait for anything that needs Python.
func (m *Module) Quick(signature string, fn any, doc string) *Module {
	return m.add(signature, fn, doc, true)
}

// WayBack makes the order of GPU arrays go both ways for the functions with these
// names, which have to be added before and have a stream: after a call, the
// streams that the producers of its arrays work on wait for what the function has
// queued on its stream, by one event each at most. So the caller may go on using the arrays
// in its own library without a word about streams. It works where the producer
// tells its stream: by an exchange table (PyTorch), the CUDA Array Interface,
// CuPy's arrays, and views of this package; of __dlpack__ alone it is not learned.
func (m *Module) WayBack(names ...string) *Module {
	for _, name := range names {
		i := slices.IndexFunc(m.funcs, func(fn *function) bool { return fn.sig.name == name })
		if i < 0 {
			m.errs = append(m.errs, fmt.Errorf("%s: the way back is wanted for a function that was not added", name))
			continue
		}
		fn := m.funcs[i]
		if !slices.ContainsFunc(fn.params, func(p param) bool { return p.kind == tagStream }) {
			m.errs = append(m.errs, fmt.Errorf("%s: there is no way back without a stream", name))
		}
		fn.back = true
	}
	return m
}

func (m *Module) add(signature string, f any, doc string, quick bool) *Module {
	fn, err := planFunction(m, signature, f, doc, quick)
	if err != nil {
		m.errs = append(m.errs, err)
		return m
	}
	for _, other := range m.funcs {
		if other.sig.name == fn.sig.name {
			m.errs = append(m.errs, fmt.Errorf("%s: added twice", fn.sig.name))
			return m
		}
	}
	m.funcs = append(m.funcs, fn)
	return m
}

// Check reports everything that is wrong with the module: the error that
// importing it would raise. Call it in a test.
func (m *Module) Check() error {
	errs := m.errs
	for _, c := range m.classes {
		for _, fn := range m.funcs {
			if fn.sig.name == c.name {
				errs = append(errs[:len(errs):len(errs)], fmt.Errorf("%s: is a function and a struct", c.name))
			}
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("ext: module %s: %w", m.name, errors.Join(errs...))
}

// Name returns the name of the module.
func (m *Module) Name() string { return m.name }

// reflectPath is how functions are called that no generated fast path covers.
// Argument variables are pooled, results are not.
func (fn *function) reflectPath() func(*call, context.Context) {
	t := fn.fn.Type()
	first := 0
	if fn.hasContext {
		first = 1
	}
	pool := sync.Pool{New: func() any { return newArguments(t, first) }}
	return func(c *call, ctx context.Context) {
		a := pool.Get().(*arguments)
		if fn.hasContext {
			a.values[0] = reflect.ValueOf(ctx)
		}
		for i := range fn.params {
			fn.params[i].set(c, c.value(i), a.vars[i])
		}
		var out []reflect.Value
		if t.IsVariadic() {
			out = fn.fn.CallSlice(a.values)
		} else {
			out = fn.fn.Call(a.values)
		}
		fn.store(c, out)
		a.clear(first)
		pool.Put(a)
	}
}

// arguments are the variables from which a function is called by reflection.
type arguments struct {
	values []reflect.Value
	vars   []unsafe.Pointer // the variable behind each value after the context
}

func newArguments(t reflect.Type, first int) *arguments {
	a := &arguments{values: make([]reflect.Value, t.NumIn())}
	for i := first; i < t.NumIn(); i++ {
		v := reflect.New(t.In(i))
		a.values[i] = v.Elem()
		a.vars = append(a.vars, v.UnsafePointer())
	}
	return a
}

// clear drops what the variables keep alive.
func (a *arguments) clear(first int) {
	for i := range a.values {
		if i < first {
			a.values[i] = reflect.Value{}
		} else {
			a.values[i].SetZero()
		}
	}
}

// store turns Go results into values for C.
func (fn *function) store(c *call, out []reflect.Value) {
	if fn.hasError {
		last := out[len(out)-1]
		out = out[:len(out)-1]
		if !last.IsNil() {
			c.fail(last.Interface().(error))
			return
		}
	}
	if len(out) > 1 {
		c.push(value{tag: tagTuple, n: uint32(len(out))})
	}
	for i, v := range out {
		if err := fn.results[i].put(c, v); err != nil {
			c.fail(err)
			return
		}
	}
}
