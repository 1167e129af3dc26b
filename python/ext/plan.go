package ext

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"unsafe"

	"github.com/x448/float16"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/dlpack/minifloat"
	"github.com/go-handoff/handoff/memview"
	"github.com/go-handoff/handoff/stream"
)

// ReadOnly is a parameter type: a typed slice that the function promises not
// to write. It takes read-only arrays, which a plain []T refuses, and
// ReadOnly[byte] takes bytes objects without a copy. As a result type it gives
// an array that Python cannot write.
type ReadOnly[T memview.Element] []T

func (ReadOnly[T]) readOnly() {}

var (
	typeView     = reflect.TypeFor[memview.StridedMemoryView]()
	typeExported = reflect.TypeFor[*dlpack.Exported]()
	typeObject   = reflect.TypeFor[Object]()
	typeRef      = reflect.TypeFor[*Ref]()
	typeManaged  = reflect.TypeFor[dlpack.Managed]()
	typeContext  = reflect.TypeFor[context.Context]()
	typeError    = reflect.TypeFor[error]()
	typeStream   = reflect.TypeFor[stream.StreamView]()
	typeAny      = reflect.TypeFor[any]()
	typeReadOnly = reflect.TypeFor[interface{ readOnly() }]()
)

// elements maps Go types to the dtype whose memory they equal. The keys are
// exact: a defined type such as "type Celsius float64" is no element.
var elements = map[reflect.Type]dlpack.DataType{
	element[bool](): dlpack.Bool,
	element[int8](): dlpack.Int8, element[int16](): dlpack.Int16, element[int32](): dlpack.Int32, element[int64](): dlpack.Int64,
	element[uint8](): dlpack.UInt8, element[uint16](): dlpack.UInt16, element[uint32](): dlpack.UInt32, element[uint64](): dlpack.UInt64,
	element[float16.Float16](): dlpack.Float16, element[float32](): dlpack.Float32, element[float64](): dlpack.Float64,
	element[complex64](): dlpack.Complex64, element[complex128](): dlpack.Complex128,
	element[minifloat.BFloat16](): dlpack.BFloat16, element[minifloat.Complex32](): dlpack.Complex32,
	element[minifloat.BComplex32](): memview.DTypeOf[minifloat.BComplex32](),
	element[minifloat.Float8E3M4](): dlpack.Float8E3M4, element[minifloat.Float8E4M3](): dlpack.Float8E4M3,
	element[minifloat.Float8E4M3B11FNUZ](): dlpack.Float8E4M3B11FNUZ, element[minifloat.Float8E4M3FN](): dlpack.Float8E4M3FN,
	element[minifloat.Float8E4M3FNUZ](): dlpack.Float8E4M3FNUZ, element[minifloat.Float8E5M2](): dlpack.Float8E5M2,
	element[minifloat.Float8E5M2FNUZ](): dlpack.Float8E5M2FNUZ, element[minifloat.Float8E8M0FNU](): dlpack.Float8E8M0FNU,
	element[minifloat.Float6E2M3FN](): dlpack.Float6E2M3FN, element[minifloat.Float6E3M2FN](): dlpack.Float6E3M2FN,
	element[minifloat.Float4E2M1FN](): dlpack.Float4E2M1FN,
}

// element is the type of T, which the compiler checks to be an element.
func element[T memview.Element]() reflect.Type { return reflect.TypeFor[T]() }

// param is the plan for one parameter.
type param struct {
	sigParam
	kind  tag
	bits  uint32
	flags uint32
	dtype dlpack.DataType
	typ   reflect.Type // of the Go parameter
	elem  *param       // of a sequence
	wants string       // what is accepted, for messages and help()
	hint  string       // the annotation of the stub
	// set stores the value, which came as v, at dst, which has type typ.
	set func(c *call, v *value, dst unsafe.Pointer)
}

// planParam makes the plan for a Go parameter of type t. A variadic parameter
// and a list are plans for their elements in a sequence.
func planParam(t reflect.Type, variadic bool) (param, error) {
	switch {
	case t.Kind() == reflect.Pointer && t != typeRef:
		return planOptional(t)
	case t == typeView:
		return param{typ: t, kind: tagView, wants: "an array", hint: "ArrayLike", set: setView}, nil
	case t == typeStream:
		return param{typ: t, kind: tagStream, flags: flagOptional, wants: "a stream of any library", hint: "Any", set: setStream}, nil
	case t == typeObject:
		return param{typ: t, kind: tagObject, wants: "an object", hint: "object", set: setObject}, nil
	case t.Kind() == reflect.Slice && (variadic || !isElement(t.Elem())):
		return planSequence(t)
	case t.Kind() == reflect.Slice:
		return planSlice(t), nil
	}
	return planScalar(t)
}

func isElement(t reflect.Type) bool { _, ok := elements[t]; return ok }

func planOptional(t reflect.Type) (param, error) {
	p, err := planParam(t.Elem(), false)
	if err != nil {
		return p, err
	}
	if p.flags&flagOptional != 0 || p.flags&flagSequence != 0 || p.kind == tagSlice || p.kind == tagBytes || p.kind == tagObject {
		return p, fmt.Errorf("type %s is not supported: use %s, with the default None if it may be left out", t, t.Elem())
	}
	inner, elem := p.set, t.Elem()
	p.typ = t
	p.flags |= flagOptional
	p.wants += " or None"
	p.hint += " | None"
	p.set = func(c *call, v *value, dst unsafe.Pointer) {
		// SAFETY: dst holds a pointer variable of type t.
		if v.tag == tagNone {
			*(*unsafe.Pointer)(dst) = nil
			return
		}
		x := reflect.New(elem).UnsafePointer() // the function may keep it
		inner(c, v, x)
		*(*unsafe.Pointer)(dst) = x
	}
	return p, nil
}

func planSlice(t reflect.Type) param {
	p := param{typ: t, kind: tagSlice, dtype: elements[t.Elem()], flags: flagWritable, set: setSlice(t.Elem()), hint: "ArrayLike"}
	p.wants = "a writable array of " + p.dtype.String() + ", dense in C order"
	readOnly := t.Implements(typeReadOnly)
	if readOnly {
		p.flags = 0
		p.wants = "an array of " + p.dtype.String() + ", dense in C order"
	}
	if t.Elem() == reflect.TypeFor[byte]() {
		p.kind = tagBytes
		p.hint = "bytes | ArrayLike"
		p.wants = "bytes or " + p.wants
		if readOnly {
			p.set = setReadOnlyBytes
		}
	}
	return p
}

func planSequence(t reflect.Type) (param, error) {
	e, err := planParam(t.Elem(), false)
	if err != nil {
		return e, err
	}
	if e.flags&(flagSequence|flagOptional) != 0 {
		return e, fmt.Errorf("type %s is not supported: a list of lists or of optional values", t)
	}
	item := e
	p := e
	p.typ, p.elem = t, &item
	p.flags |= flagSequence
	p.hint = "list[" + e.hint + "] | tuple[" + e.hint + ", ...]"
	p.set = func(c *call, v *value, dst unsafe.Pointer) {
		if v.tag != tagSeq {
			reflect.NewAt(t, dst).Elem().SetZero()
			return
		}
		s := reflect.MakeSlice(t, int(v.n), int(v.n))
		for i := range int(v.n) {
			item.set(c, c.value(int(v.a)+i), s.Index(i).Addr().UnsafePointer())
		}
		// SAFETY: dst holds a variable of type t.
		reflect.NewAt(t, dst).Elem().Set(s)
	}
	return p, nil
}

func planScalar(t reflect.Type) (param, error) {
	p := param{typ: t, set: setScalar(t.Kind())}
	switch k := t.Kind(); {
	case isElement(t) && t.PkgPath() != "" || t.PkgPath() == "time":
		return p, fmt.Errorf("type %s is not supported as a number: use a float64", t)
	case k == reflect.Bool:
		p.kind, p.wants, p.hint = tagBool, "a bool", "bool"
	case k >= reflect.Int && k <= reflect.Int64:
		p.kind, p.bits, p.hint = tagInt, uint32(t.Bits()), "int"
		p.wants = fmt.Sprintf("an int (int%d)", t.Bits())
	case k >= reflect.Uint && k <= reflect.Uintptr:
		p.kind, p.bits, p.hint = tagUint, uint32(t.Bits()), "int"
		p.wants = fmt.Sprintf("an int (uint%d)", t.Bits())
	case k == reflect.Float32, k == reflect.Float64:
		p.kind, p.bits, p.hint = tagFloat, uint32(t.Bits()), "float"
		p.wants = fmt.Sprintf("a float (float%d)", t.Bits())
	case k == reflect.Complex64, k == reflect.Complex128:
		p.kind, p.bits, p.hint = tagComplex, uint32(t.Bits()), "complex"
		p.wants = fmt.Sprintf("a complex (complex%d)", t.Bits())
	case k == reflect.String:
		p.kind, p.wants, p.hint = tagStr, "a str", "str"
	default:
		return p, fmt.Errorf("type %s is not supported", t)
	}
	return p, nil
}

// Setters. SAFETY, for all: dst is a variable of the parameter's Go type (its
// kind decides the layout), v a value of the kind that C was told.

func setView(c *call, v *value, dst unsafe.Pointer) {
	c.lend(v, (*memview.StridedMemoryView)(dst))
}

// setStream makes the view of the call's stream, on which C has ordered the
// arrays. The caller keeps the stream alive until the call returns.
func setStream(_ *call, v *value, dst unsafe.Pointer) { *(*stream.StreamView)(dst) = v.stream() }

func (v *value) stream() stream.StreamView {
	if v.tag == tagNone {
		return stream.StreamView{}
	}
	d, err := driver.Default()
	refuse(err) // C has used it by now
	return stream.Known(d, driver.ContextHandle(v.b), driver.Device(int32(v.n)), driver.StreamHandle(v.a), nil)
}

func setObject(c *call, v *value, dst unsafe.Pointer) { *(*Object)(dst) = c.object(v) }

func setReadOnlyBytes(_ *call, v *value, dst unsafe.Pointer) {
	w := *v
	if w.tag == tagBytes {
		w.tag = tagSlice // no copy: nobody writes
	}
	*(*[]byte)(dst) = sliceOf[byte](&w)
}

// setSlice sets slices by the size of their elements: the layout of a slice
// does not depend on their type.
func setSlice(elem reflect.Type) func(*call, *value, unsafe.Pointer) {
	switch elem.Size() {
	case 1:
		return setSliceOf[uint8]
	case 2:
		return setSliceOf[uint16]
	case 4:
		return setSliceOf[uint32]
	case 8:
		return setSliceOf[uint64]
	default:
		return setSliceOf[complex128]
	}
}

func setSliceOf[T any](_ *call, v *value, dst unsafe.Pointer) { *(*[]T)(dst) = sliceOf[T](v) }

func setScalar(k reflect.Kind) func(*call, *value, unsafe.Pointer) {
	switch k {
	case reflect.Bool:
		return func(_ *call, v *value, dst unsafe.Pointer) { *(*bool)(dst) = v.a != 0 }
	case reflect.Int8, reflect.Uint8:
		return func(_ *call, v *value, dst unsafe.Pointer) { *(*uint8)(dst) = uint8(v.a) }
	case reflect.Int16, reflect.Uint16:
		return func(_ *call, v *value, dst unsafe.Pointer) { *(*uint16)(dst) = uint16(v.a) }
	case reflect.Int32, reflect.Uint32:
		return func(_ *call, v *value, dst unsafe.Pointer) { *(*uint32)(dst) = uint32(v.a) }
	case reflect.Int64, reflect.Uint64:
		return func(_ *call, v *value, dst unsafe.Pointer) { *(*uint64)(dst) = v.a }
	case reflect.Int, reflect.Uint, reflect.Uintptr:
		return func(_ *call, v *value, dst unsafe.Pointer) { *(*uint)(dst) = uint(v.a) }
	case reflect.Float32:
		return func(_ *call, v *value, dst unsafe.Pointer) { *(*float32)(dst) = float32(math.Float64frombits(v.a)) }
	case reflect.Float64:
		return func(_ *call, v *value, dst unsafe.Pointer) { *(*float64)(dst) = math.Float64frombits(v.a) }
	case reflect.Complex64:
		return func(_ *call, v *value, dst unsafe.Pointer) { *(*complex64)(dst) = complex64(v.complex()) }
	case reflect.Complex128:
		return func(_ *call, v *value, dst unsafe.Pointer) { *(*complex128)(dst) = v.complex() }
	default:
		return func(_ *call, v *value, dst unsafe.Pointer) { *(*string)(dst) = v.text() }
	}
}

func (v *value) complex() complex128 {
	return complex(math.Float64frombits(v.a), math.Float64frombits(v.b))
}

// defaultValue turns the default of the signature into what C uses when the
// argument is left out. The text of a string is kept alive by the plan.
func (p *param) defaultValue() (value, error) {
	l := p.def
	mismatch := fmt.Errorf("default %s does not fit a parameter that wants %s", l.python(), p.wants)
	if l.kind == litNone {
		if p.flags&flagOptional == 0 && p.kind != tagObject {
			return value{}, mismatch
		}
		return value{tag: tagNone}, nil
	}
	if p.flags&flagSequence != 0 {
		return value{}, mismatch
	}
	switch p.kind {
	case tagBool:
		if l.kind == litBool {
			return value{tag: tagBool, a: uint64(l.i)}, nil
		}
	case tagInt:
		if l.kind == litInt && (p.bits == 64 || l.i >= -1<<(p.bits-1) && l.i < 1<<(p.bits-1)) {
			return value{tag: tagInt, a: uint64(l.i)}, nil
		}
	case tagUint:
		if l.kind == litInt && l.i >= 0 && (p.bits == 64 || l.i < 1<<p.bits) {
			return value{tag: tagUint, a: uint64(l.i)}, nil
		}
	case tagFloat:
		if l.kind == litInt || l.kind == litFloat {
			return value{tag: tagFloat, a: math.Float64bits(l.f)}, nil
		}
	case tagComplex:
		if l.kind == litInt || l.kind == litFloat {
			return value{tag: tagComplex, a: math.Float64bits(l.f)}, nil
		}
	case tagStr:
		if l.kind == litString {
			return value{tag: tagStr, b: uint64(len(l.s))}, nil
		}
	}
	return value{}, mismatch
}

// function is one registered function.
type function struct {
	module *Module
	sig    signature
	doc    string
	quick  bool
	back   bool // see Module.WayBack
	number uint32

	fn         reflect.Value
	hasContext bool
	hasError   bool
	params     []param
	results    []result
	defaults   []value

	// invoke reads the arguments, calls and stores the results. ctx is nil
	// unless hasContext.
	invoke func(c *call, ctx context.Context)
}

func (fn *function) qualified() string { return fn.module.name + "." + fn.sig.name }

// planFunction makes the plan of a function; all that is wrong is reported at
// once.
func planFunction(m *Module, text string, f any, doc string, quick bool) (*function, error) {
	sig, err := parseSignature(text)
	if err != nil {
		return nil, fmt.Errorf("signature: %w", err)
	}
	fn := &function{module: m, sig: sig, doc: strings.TrimSpace(doc), quick: quick, fn: reflect.ValueOf(f)}
	if !fn.fn.IsValid() || fn.fn.Kind() != reflect.Func || fn.fn.IsNil() {
		return nil, fmt.Errorf("%s: %T is not a function", sig.name, f)
	}
	if err := errors.Join(fn.planParams(), fn.planResults()); err != nil {
		return nil, err
	}
	if quick && fn.hasContext {
		return nil, fmt.Errorf("%s: a quick function cannot take a context: it keeps the GIL and must not wait", sig.name)
	}
	if doc == "" {
		return nil, fmt.Errorf("%s: has no documentation", sig.name)
	}
	if !fn.hasSequence() {
		fn.invoke = fastPath(f)
	}
	if fn.invoke == nil {
		fn.invoke = fn.reflectPath()
	}
	return fn, nil
}

// hasSequence reports whether a parameter is a list. A []float64 that collects
// arguments is one, though its Go type is that of an array.
func (fn *function) hasSequence() bool {
	for i := range fn.params {
		if fn.params[i].elem != nil {
			return true
		}
	}
	return false
}

func (fn *function) planParams() error {
	t := fn.fn.Type()
	in := make([]reflect.Type, 0, t.NumIn())
	for i := range t.NumIn() {
		in = append(in, t.In(i))
	}
	if len(in) > 0 && in[0] == typeContext {
		fn.hasContext = true
		in = in[1:]
	}
	if len(in) != len(fn.sig.params) {
		return fmt.Errorf("%s: the signature has %d parameters, the Go function takes %d", fn.sig.name, len(fn.sig.params), len(in))
	}
	if len(in) > maxParams {
		return fmt.Errorf("%s: more than %d parameters", fn.sig.name, maxParams)
	}
	var errs []error
	for i, s := range fn.sig.params {
		p, err := fn.planOne(s, in[i], t.IsVariadic() && i == len(in)-1)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: parameter %q: %w", fn.sig.name, s.name, err))
		}
		fn.params = append(fn.params, p)
	}
	streams := 0
	for i := range fn.params {
		if fn.params[i].kind == tagStream {
			streams++
		}
	}
	if streams > 1 {
		errs = append(errs, fmt.Errorf("%s: more than one stream: the arrays are ordered on one", fn.sig.name))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for i := range fn.params {
		v := value{}
		if p := &fn.params[i]; p.hasDefault {
			var err error
			if v, err = p.defaultValue(); err != nil {
				errs = append(errs, fmt.Errorf("%s: parameter %q: %w", fn.sig.name, p.name, err))
			}
		}
		fn.defaults = append(fn.defaults, v)
	}
	return errors.Join(errs...)
}

func (fn *function) planOne(s sigParam, t reflect.Type, goVariadic bool) (param, error) {
	if s.variadic && t.Kind() != reflect.Slice {
		return param{}, fmt.Errorf("type %s cannot take several arguments: use a slice", t)
	}
	if goVariadic && !s.variadic {
		return param{}, fmt.Errorf("the Go parameter is variadic: write *%s in the signature", s.name)
	}
	p, err := planParam(t, s.variadic)
	if err != nil {
		return p, err
	}
	p.sigParam = s
	switch {
	case s.variadic:
		p.flags = p.flags&^flagSequence | flagVariadic
		p.hint = p.elem.hint
	case s.hasDefault:
		p.flags |= flagDefault
		nilable := p.flags&flagSequence != 0 || p.kind == tagSlice || p.kind == tagBytes
		if s.def.kind == litNone && nilable {
			p.flags |= flagOptional
			p.wants += " or None"
			p.hint += " | None"
		}
	}
	if s.keyword {
		p.flags |= flagKeyword
	}
	if s.positional {
		p.flags |= flagPositional
	}
	return p, nil
}

const maxParams = 64
