package ext

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/go-handoff/handoff/dlpack"
)

// Object is a Python object: a parameter of this type takes any argument as it
// is. It is borrowed for the call; after the function has returned every
// method fails with an error wrapping [dlpack.ErrClosed]. [Object.Retain]
// keeps it longer.
//
// Methods take the GIL for their own time and may be called from any goroutine
// while the call lasts. In a quick function (see [Module.Quick]), which holds
// the GIL, only the goroutine of the function itself may call them. The zero
// Object stands for None.
type Object struct {
	c   *call
	gen uint64
	ptr uintptr // PyObject*
}

// object makes the object of parameter i.
func (c *call) object(v *value) Object {
	if v.tag == tagNone {
		return Object{}
	}
	c.lent = true
	return Object{c: c, gen: c.gen.Load(), ptr: uintptr(v.a)}
}

// IsNone reports whether the object is the zero Object: an optional argument
// that was left out.
func (o Object) IsNone() bool { return o.c == nil }

// objectOp mirrors ho_ext_op.
type objectOp struct {
	frame *frame
	self  uintptr
	name  *byte
	in    *value
	nin   uint32
	kind  uint32
	out   value
	exc   uintptr
	owner uintptr
	typ   *byte
	text  *byte
}

var _ [96]byte = [unsafe.Sizeof(objectOp{})]byte{}

// Operations (ext.h).
const (
	opCall  = 0
	opAttr  = 1
	opStr   = 2
	opType  = 3
	opValue = 4
)

// Call calls the object. Arguments may be nil, bool, numbers, string, []byte,
// slices of numbers (handed over as arrays without a copy), views, maps with
// string keys, []any and Object. A result that is None, a bool, int, float,
// complex, str or bytes comes as nil, bool, int64, float64, complex128, string
// or []byte; anything else, and an int beyond 64 bits, as an [Object] that
// lives as long as the call does.
//
// An exception comes back as a [*PyError].
func (o Object) Call(args ...any) (any, error) { return o.do(opCall, "", args) }

// Attr returns an attribute, in the form of a result of [Object.Call].
func (o Object) Attr(name string) (any, error) { return o.do(opAttr, name, nil) }

// Value returns what the object holds if it is a scalar, in the form of a
// result of [Object.Call], and otherwise the object itself.
func (o Object) Value() (any, error) { return o.do(opValue, "", nil) }

// Str returns str(object).
func (o Object) Str() (string, error) { return o.doText(opStr) }

// TypeName returns the name of the object's class.
func (o Object) TypeName() (string, error) { return o.doText(opType) }

func (o Object) doText(kind uint32) (string, error) {
	x, err := o.do(kind, "", nil)
	s, _ := x.(string)
	return s, err
}

func (o Object) do(kind uint32, name string, args []any) (any, error) {
	if o.c == nil {
		return nil, fmt.Errorf("ext: None cannot be used: %w", dlpack.ErrNull)
	}
	if !o.c.hold(o.gen) {
		return nil, errCallOver()
	}
	defer o.c.busy.Add(-1)
	op := objectOp{frame: o.c.f, self: o.ptr, kind: kind}
	// The arguments are encoded in a frame of their own, so that several
	// goroutines can do this at once.
	enc := newEncoder()
	defer enc.free()
	if kind == opCall {
		enc.push(value{tag: tagTuple, n: uint32(len(args))})
		for i, a := range args {
			if err := enc.pushAny(a); err != nil {
				enc.dropResults()
				return nil, fmt.Errorf("ext: argument %d of the call: %w", i, err)
			}
		}
		op.in, op.nin = enc.f.out, enc.f.outLen
	} else if kind == opAttr {
		if strings.IndexByte(name, 0) >= 0 { // C would see another name
			return nil, Raise("AttributeError", "no attribute has a NUL in its name: %q", name)
		}
		op.name = (*byte)(pointer(enc.keep(unsafe.StringData(name), len(name))))
	}
	return o.run(&op)
}

// newEncoder returns a call whose frame only collects values.
func newEncoder() *call { return &call{f: newFrame()} }

func (c *call) free() { freeFrame(c.f) }

func (o Object) run(op *objectOp) (any, error) {
	if !doObject(op) {
		e := &PyError{Type: cString(op.typ), Text: cString(op.text)}
		if op.owner != 0 {
			e.ref = newObjectRef(op.exc, op.owner)
			o.c.dropLater(e.ref)
		}
		return nil, e
	}
	v := &op.out
	switch v.tag {
	case tagNone:
		return nil, nil
	case tagBool:
		return v.a != 0, nil
	case tagInt:
		return int64(v.a), nil
	case tagFloat:
		return math.Float64frombits(v.a), nil
	case tagComplex:
		return complex(math.Float64frombits(v.a), math.Float64frombits(v.b)), nil
	case tagStr:
		return v.text(), nil
	case tagBytes:
		return sliceOf[byte](v), nil
	default:
		return Object{c: o.c, gen: o.gen, ptr: uintptr(v.a)}, nil
	}
}

// dropLater ties a reference to the call: an exception keeps the frames that it
// went through, and must not wait for the collector.
func (c *call) dropLater(r *objectRef) {
	c.mu.Lock()
	c.refs = append(c.refs, r)
	c.mu.Unlock()
}

func errCallOver() error {
	return fmt.Errorf("ext: the call that the object belongs to has returned: %w", dlpack.ErrClosed)
}

// cString copies a NUL-terminated text.
func cString(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	// SAFETY: p is NUL-terminated C memory, static or owned by the frame.
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// Ref owns a reference to a Python object, beyond the call that it came with.
// As an argument of [Object.Call], or as a result, it stands for the object.
type Ref struct{ ref *objectRef }

// Retain takes a reference of its own to the object. The caller closes it.
func (o Object) Retain() (*Ref, error) {
	if o.c == nil {
		return nil, fmt.Errorf("ext: None cannot be retained: %w", dlpack.ErrNull)
	}
	if !o.c.hold(o.gen) {
		return nil, errCallOver()
	}
	defer o.c.busy.Add(-1)
	owner, text := own(o.c.f, o.ptr)
	if owner == 0 {
		return nil, fmt.Errorf("ext: retain: %s: %w", text, dlpack.ErrNotSupported)
	}
	return &Ref{ref: newObjectRef(o.ptr, owner)}, nil
}

// Close drops the reference, on any thread and without waiting for the GIL. It
// may be called twice.
func (r *Ref) Close() error {
	r.ref.drop()
	return nil
}

// objectRef is one reference on an owner (block.h) of a Python object.
type objectRef struct {
	ptr   uintptr // PyObject*
	st    *refState
	clean runtime.Cleanup
}

type refState struct{ owner atomic.Uintptr } // ho_owner*, 0 once dropped

func newObjectRef(ptr, owner uintptr) *objectRef {
	st := &refState{}
	st.owner.Store(owner)
	r := &objectRef{ptr: ptr, st: st}
	r.clean = runtime.AddCleanup(r, (*refState).drop, st)
	return r
}

func (s *refState) drop() {
	if o := s.owner.Swap(0); o != 0 {
		dlpack.ReleaseOwner(o)
	}
}

func (r *objectRef) drop() {
	r.clean.Stop()
	r.st.drop()
}

// share returns the object and one more reference on its owner, or zeros after
// drop.
func (r *objectRef) share() (ptr, owner uint64) {
	o := r.st.owner.Load()
	if o == 0 {
		return 0, 0
	}
	dlpack.RetainOwner(o)
	runtime.KeepAlive(r)
	return uint64(r.ptr), uint64(o)
}
