package ext

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unsafe"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/memview"
)

// result is the plan for one result: how it becomes a value, and the
// annotation of the stub.
type result struct {
	put  func(c *call, v reflect.Value) error
	hint string
}

// planResults makes the plans for the results; a last result of type error is
// apart.
func (fn *function) planResults() error {
	t := fn.fn.Type()
	n := t.NumOut()
	if n > 0 && t.Out(n-1) == typeError {
		fn.hasError = true
		n--
	}
	var errs []error
	for i := range n {
		r, err := fn.module.planResult(t.Out(i))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: result %d: %w", fn.sig.name, i+1, err))
		}
		fn.results = append(fn.results, r)
	}
	return errors.Join(errs...)
}

func (m *Module) planResult(t reflect.Type) (result, error) {
	switch {
	case t == typeView:
		return result{func(c *call, v reflect.Value) error { return c.pushView(v.Interface().(memview.StridedMemoryView)) }, "Array"}, nil
	case t == typeObject:
		return result{func(c *call, v reflect.Value) error { return c.pushObject(v.Interface().(Object)) }, "Any"}, nil
	case t == typeRef:
		return result{func(c *call, v reflect.Value) error { return c.pushRef(v.Interface().(*Ref)) }, "Any"}, nil
	case t == typeExported:
		return result{func(c *call, v reflect.Value) error { return c.pushExported(v.Interface().(*dlpack.Exported)) }, "Array | None"}, nil
	case t == typeManaged:
		return result{func(c *call, v reflect.Value) error { return c.pushImported(v.Interface().(dlpack.Managed)) }, "Array"}, nil
	case t == typeAny:
		return result{func(c *call, v reflect.Value) error { return c.pushAny(v.Interface()) }, "Any"}, nil
	case t == typeError:
		return result{}, errors.New("an error must be the last result")
	case isElement(t) && t.PkgPath() != "" || t.PkgPath() == "time":
		return result{}, fmt.Errorf("type %s is not supported as a number: return a float64", t)
	}
	switch k := t.Kind(); {
	case k == reflect.Bool:
		return result{func(c *call, v reflect.Value) error { c.pushBool(v.Bool()); return nil }, "bool"}, nil
	case between(k, reflect.Int, reflect.Int64):
		return result{func(c *call, v reflect.Value) error { c.pushInt(v.Int()); return nil }, "int"}, nil
	case between(k, reflect.Uint, reflect.Uintptr):
		return result{func(c *call, v reflect.Value) error { c.push(value{tag: tagUint, a: v.Uint()}); return nil }, "int"}, nil
	case between(k, reflect.Float32, reflect.Float64):
		return result{func(c *call, v reflect.Value) error { c.pushFloat(v.Float()); return nil }, "float"}, nil
	case between(k, reflect.Complex64, reflect.Complex128):
		return result{func(c *call, v reflect.Value) error { c.pushComplex(v.Complex()); return nil }, "complex"}, nil
	case k == reflect.String:
		return result{func(c *call, v reflect.Value) error { c.pushString(v.String()); return nil }, "str"}, nil
	case k == reflect.Slice:
		return m.planSliceResult(t)
	case k == reflect.Pointer:
		return m.planPointerResult(t)
	case k == reflect.Struct:
		return m.planStructResult(t)
	case k == reflect.Map && t.Key().Kind() == reflect.String:
		return m.planMapResult(t)
	}
	return result{}, fmt.Errorf("type %s is not supported", t)
}

// between reports whether k lies between two kinds, both included.
func between(k, low, high reflect.Kind) bool { return k >= low && k <= high }

func (m *Module) planSliceResult(t reflect.Type) (result, error) {
	readOnly := t.Implements(typeReadOnly)
	if t.Elem() == reflect.TypeFor[byte]() && !readOnly {
		return result{func(c *call, v reflect.Value) error {
			if v.IsNil() {
				c.push(value{})
			} else {
				c.pushBytes(v.Bytes())
			}
			return nil
		}, "bytes"}, nil
	}
	if dtype, ok := elements[t.Elem()]; ok {
		return result{func(c *call, v reflect.Value) error {
			return c.pushSlice(v.UnsafePointer(), v.Len(), t.Elem().Size(), dtype, readOnly, v.IsNil())
		}, "Array"}, nil
	}
	e, err := m.planResult(t.Elem())
	if err != nil {
		return result{}, fmt.Errorf("elements of %s: %w", t, err)
	}
	return result{func(c *call, v reflect.Value) error {
		c.push(value{tag: tagList, n: uint32(v.Len())})
		for i := range v.Len() {
			if err := e.put(c, v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}, "list[" + e.hint + "]"}, nil
}

func (m *Module) planPointerResult(t reflect.Type) (result, error) {
	e, err := m.planResult(t.Elem())
	if err != nil {
		return e, err
	}
	return result{func(c *call, v reflect.Value) error {
		if v.IsNil() {
			c.push(value{})
			return nil
		}
		return e.put(c, v.Elem())
	}, e.hint + " | None"}, nil
}

// class is a struct that becomes a named tuple.
type class struct {
	typ    reflect.Type
	name   string
	number int // set at Init
	fields []field
}

type field struct {
	index int
	name  string
	result
}

// planStructResult makes a named tuple class for a struct: its exported
// fields, in order, under their names in snake case or that of the tag "py".
func (m *Module) planStructResult(t reflect.Type) (result, error) {
	for _, c := range m.classes {
		if c.typ == t {
			return c.result(), nil
		}
	}
	if t.Name() == "" {
		return result{}, fmt.Errorf("type %s is not supported: a struct needs a name", t)
	}
	c := &class{typ: t, name: t.Name()}
	seen := map[string]bool{}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		name := cmp.Or(f.Tag.Get("py"), snake(f.Name))
		if !isName(name) || name[0] == '_' || seen[name] {
			return result{}, fmt.Errorf("field %s.%s: %q cannot name a field of a tuple", t.Name(), f.Name, name)
		}
		seen[name] = true
		r, err := m.planResult(f.Type)
		if err != nil {
			return r, fmt.Errorf("field %s.%s: %w", t.Name(), f.Name, err)
		}
		c.fields = append(c.fields, field{index: i, name: name, result: r})
	}
	if len(c.fields) == 0 {
		return result{}, fmt.Errorf("type %s is not supported: it has no exported fields", t)
	}
	for _, other := range m.classes {
		if other.name == c.name {
			return result{}, fmt.Errorf("two types %s", c.name)
		}
	}
	m.classes = append(m.classes, c)
	return c.result(), nil
}

func (k *class) result() result {
	return result{func(c *call, v reflect.Value) error {
		c.push(value{tag: tagNamed, n: uint32(len(k.fields)), a: uint64(k.number)})
		for _, f := range k.fields {
			if err := f.put(c, v.Field(f.index)); err != nil {
				return err
			}
		}
		return nil
	}, k.name}
}

func (m *Module) planMapResult(t reflect.Type) (result, error) {
	e, err := m.planResult(t.Elem())
	if err != nil {
		return e, fmt.Errorf("values of %s: %w", t, err)
	}
	return result{func(c *call, v reflect.Value) error {
		keys := v.MapKeys() // in a fixed order: dicts keep theirs
		slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
		c.push(value{tag: tagDict, n: uint32(len(keys))})
		for _, k := range keys {
			c.pushString(k.String())
			if err := e.put(c, v.MapIndex(k)); err != nil {
				return err
			}
		}
		return nil
	}, "dict[str, " + e.hint + "]"}, nil
}

// snake turns MeanValue into mean_value, and ID into id.
func snake(s string) string {
	var b strings.Builder
	r := []rune(s)
	for i, c := range r {
		if unicode.IsUpper(c) {
			afterLower := i > 0 && !unicode.IsUpper(r[i-1])
			beforeLower := i > 0 && i+1 < len(r) && unicode.IsLower(r[i+1])
			if afterLower || beforeLower {
				b.WriteByte('_')
			}
			c = unicode.ToLower(c)
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Values that need more than a word.

func (c *call) pushComplex(x complex128) {
	c.push(value{tag: tagComplex, a: math.Float64bits(real(x)), b: math.Float64bits(imag(x))})
}

func (c *call) pushObject(o Object) error {
	if o.c == nil {
		c.push(value{})
		return nil
	}
	if !o.c.Live(o.gen) {
		return errCallOver()
	}
	c.push(value{tag: tagObject, a: uint64(o.ptr)})
	return nil
}

func (c *call) pushRef(r *Ref) error {
	if r == nil {
		c.push(value{})
		return nil
	}
	ptr, owner := r.ref.share()
	if owner == 0 {
		return fmt.Errorf("ext: the reference was closed: %w", dlpack.ErrClosed)
	}
	c.push(value{tag: tagOwned, a: ptr, b: owner})
	return nil
}

// pushManaged hands over what e lends, and closes e.
func (c *call) pushManaged(e *dlpack.Exported) error {
	p, err := e.Export(true)
	if err != nil {
		return errors.Join(err, e.Close())
	}
	c.push(value{tag: tagArray, a: uint64(p)})
	return e.Close()
}

// pushExported hands over what the function exported; nil is None.
func (c *call) pushExported(e *dlpack.Exported) error {
	if e == nil {
		c.push(value{})
		return nil
	}
	return c.pushManaged(e)
}

// pushImported hands an imported tensor on, and releases it.
func (c *call) pushImported(m dlpack.Managed) error {
	p, err := m.Export(true)
	if err != nil {
		return errors.Join(err, m.Close())
	}
	c.push(value{tag: tagArray, a: uint64(p)})
	return m.Close()
}

// pushView hands out a view. What is part of an argument keeps that argument
// in Python; anything else keeps what the view keeps.
func (c *call) pushView(v memview.StridedMemoryView) error {
	if v.ItemSize() == 0 {
		c.push(value{}) // the zero view
		return nil
	}
	if !v.Live() {
		return fmt.Errorf("ext: result: %w", dlpack.ErrClosed)
	}
	d := dlpack.Desc{
		Data: v.Addr(), Device: v.Device(), DType: v.DType(), Shape: v.Shape(), Strides: v.Strides(),
		Flags: v.Flags() &^ dlpack.FlagIsCopied,
	}
	if done, err := c.pushArgument(&d); done {
		return err
	}
	own, err := v.Retain()
	if err != nil {
		return err
	}
	e, err := dlpack.ExportDesc(d, func() { _ = own.Release() })
	if err != nil {
		return errors.Join(err, own.Release())
	}
	return c.pushManaged(e)
}

// pushArgument exports d if it lies in one of the call's arguments; it then
// keeps that argument, by a count in C.
func (c *call) pushArgument(d *dlpack.Desc) (done bool, err error) {
	for i := range c.f.narrays {
		a := c.array(i)
		low, high := a.span()
		if low == high || uint64(d.Data) < low || uint64(d.Data) >= high || a.Device != d.Device {
			continue
		}
		owner, text := retain(c.f, i)
		if owner == 0 {
			return true, fmt.Errorf("ext: result: %s: %w", text, dlpack.ErrNotSupported)
		}
		if a.Flags&argReadOnly != 0 {
			d.Flags |= dlpack.FlagReadOnly
		}
		e, err := dlpack.ExportOwner(owner, *d)
		if err != nil {
			dlpack.ReleaseOwner(owner)
			return true, err
		}
		return true, c.pushManaged(e)
	}
	return false, nil
}

// span returns the addresses that the array covers, half open.
func (a *argument) span() (low, high uint64) {
	// SAFETY: C memory with ndim entries each.
	shape, strides := unsafe.Slice(a.Shape, a.NDim), unsafe.Slice(a.Strides, a.NDim)
	size := int64(a.DType.ItemSize())
	low, high = a.Addr, a.Addr+uint64(size)
	for i, n := range shape {
		if n == 0 {
			return a.Addr, a.Addr
		}
		if reach := (n - 1) * strides[i] * size; reach < 0 {
			low += uint64(reach)
		} else {
			high += uint64(reach)
		}
	}
	return low, high
}

// pushSlice hands out a slice of numbers without a copy: Go memory is pinned
// until Python drops the array, a part of an argument keeps that argument.
func (c *call) pushSlice(p unsafe.Pointer, n int, size uintptr, dtype dlpack.DataType, readOnly, isNil bool) error {
	if isNil {
		c.push(value{})
		return nil
	}
	opts := dlpack.ExportOptions{DType: dtype}
	if readOnly {
		opts.Flags |= dlpack.FlagReadOnly
	}
	if dtype.SubByte() {
		opts.Flags |= dlpack.FlagSubbyteTypePadded
	}
	d := dlpack.Desc{Data: uintptr(p), Device: dlpack.CPU, DType: dtype, Shape: []int64{int64(n)}, Flags: opts.Flags}
	if n > 0 {
		if done, err := c.pushArgument(&d); done {
			return err
		}
	}
	var e *dlpack.Exported
	var err error
	// SAFETY: p is the start of a slice of n elements of this size, and the
	// element type is put back by opts.DType.
	switch size {
	case 1:
		e, err = dlpack.ExportSlice(unsafe.Slice((*uint8)(p), n), nil, nil, &opts)
	case 2:
		e, err = dlpack.ExportSlice(unsafe.Slice((*uint16)(p), n), nil, nil, &opts)
	case 4:
		e, err = dlpack.ExportSlice(unsafe.Slice((*uint32)(p), n), nil, nil, &opts)
	case 8:
		if dtype == dlpack.Complex64 { // aligned to 4
			e, err = dlpack.ExportSlice(unsafe.Slice((*complex64)(p), n), nil, nil, &opts)
		} else {
			e, err = dlpack.ExportSlice(unsafe.Slice((*uint64)(p), n), nil, nil, &opts)
		}
	default:
		e, err = dlpack.ExportSlice(unsafe.Slice((*complex128)(p), n), nil, nil, &opts)
	}
	if err != nil {
		return err
	}
	return c.pushManaged(e)
}

// pushAny encodes a value by its dynamic type.
func (c *call) pushAny(x any) error {
	switch x := x.(type) {
	case nil:
		c.push(value{})
	case bool:
		c.pushBool(x)
	case int:
		c.pushInt(int64(x))
	case int64:
		c.pushInt(x)
	case float64:
		c.pushFloat(x)
	case string:
		c.pushString(x)
	case []any:
		c.push(value{tag: tagList, n: uint32(len(x))})
		for _, e := range x {
			if err := c.pushAny(e); err != nil {
				return err
			}
		}
	default:
		v := reflect.ValueOf(x)
		if v.Kind() == reflect.Struct && v.Type() != typeView && v.Type() != typeObject {
			return fmt.Errorf("type %T is not supported here", x)
		}
		r, err := (&Module{}).planResult(v.Type())
		if err != nil {
			return err
		}
		return r.put(c, v)
	}
	return nil
}

// dropResults gives back what was encoded so far.
func (c *call) dropResults() {
	if c.f.outLen > 0 {
		drop(c.f)
		c.f.outLen = 0
	}
}
