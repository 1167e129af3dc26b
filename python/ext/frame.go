package ext

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/go-handoff/handoff/memview"
	"github.com/go-handoff/handoff/stream"
)

// tag is the tag of a value and the kind of a parameter. The numbers are those
// of ext.h.
type tag uint32

const (
	tagNone    tag = 0
	tagBool    tag = 1
	tagInt     tag = 2
	tagUint    tag = 3
	tagFloat   tag = 4
	tagComplex tag = 5
	tagStr     tag = 6
	tagBytes   tag = 7
	tagView    tag = 8
	tagSlice   tag = 9
	tagObject  tag = 10
	tagArray   tag = 11
	tagTuple   tag = 12
	tagList    tag = 13
	tagDict    tag = 14
	tagNamed   tag = 15
	tagOwned   tag = 16
	tagSeq     tag = 17
	tagStream  tag = 18
)

// Flags of a parameter (ext.h).
const (
	flagOptional   = 1
	flagDefault    = 2
	flagKeyword    = 4
	flagPositional = 8
	flagVariadic   = 16
	flagWritable   = 32
	flagSequence   = 64
)

// Flags of ho_arg (bridge.h).
const argReadOnly = memview.LentReadOnly

// value mirrors ho_ext_value.
type value struct {
	tag  tag
	n    uint32
	a, b uint64
}

// argument mirrors ho_arg. Pointers are to C memory.
type argument struct {
	memview.LentArray
	obj          uint64
	stream, hold uint64
}

// frame mirrors the part of ho_ext_frame that Go uses. It lies on the C stack
// of the calling thread; its pointers are C memory.
type frame struct {
	fn, status       uint32
	nvalues, narrays uint32
	values           *value
	arrays           *argument
	out              *value
	outLen, outCap   uint32
	scratch          *byte
	scratchUsed      uint32
	scratchCap       uint32
	spilled          uint64
	errClass         *byte
	errText          *byte
	exc              uint64 // PyObject*
	kept             uint64
	excOwner         uint64 // ho_owner*
	tstate           uint64
	thread           uint64
	slot             uint32
	interrupt        uint64 // PyObject*, a reference
}

// Sizes and offsets are asserted in ext.h against the same numbers.
var (
	_ [24]byte  = [unsafe.Sizeof(value{})]byte{}
	_ [200]byte = [unsafe.Sizeof(argument{})]byte{}
	_ [24]byte  = [unsafe.Offsetof(argument{}.Flags)]byte{}
	_ [48]byte  = [unsafe.Offsetof(argument{}.Dims)]byte{}
	_ [32]byte  = [unsafe.Offsetof(argument{}.Shape)]byte{}
	_ [16]byte  = [unsafe.Offsetof(frame{}.values)]byte{}
	_ [40]byte  = [unsafe.Offsetof(frame{}.outLen)]byte{}
	_ [64]byte  = [unsafe.Offsetof(frame{}.spilled)]byte{}
	_ [120]byte = [unsafe.Offsetof(frame{}.thread)]byte{}
	_ [128]byte = [unsafe.Offsetof(frame{}.slot)]byte{}
	_ [136]byte = [unsafe.Offsetof(frame{}.interrupt)]byte{}
)

// call is the Go side of one call from Python. It is used again for later
// calls; gen tells one from the next, so that a view which escaped is refused.
type call struct {
	f *frame
	// gen is the number of the call. It changes when the call ends.
	gen atomic.Uint64
	// busy counts goroutines that are inside Python or a Retain for this
	// call. The frame must stay until they are out.
	busy atomic.Int64
	lent bool // views or objects were handed to the function
	done bool // the function returned (and did not panic or Goexit)
	mu   sync.Mutex
	refs []*objectRef // dropped when the call ends
}

// value returns value i of the frame.
func (c *call) value(i int) *value {
	// SAFETY: i < f.nvalues by the plan of the function; C keeps the array
	// until the call returns.
	return (*value)(unsafe.Add(unsafe.Pointer(c.f.values), uintptr(i)*unsafe.Sizeof(value{})))
}

func (c *call) array(i uint32) *argument {
	// SAFETY: i < f.narrays, set by C beside the value.
	return (*argument)(unsafe.Add(unsafe.Pointer(c.f.arrays), uintptr(i)*unsafe.Sizeof(argument{})))
}

// The accessors below are what plans and the generated fast paths use: the
// value at i has the kind that the parameter was registered with.

func (c *call) int64(i int) int64     { return int64(c.value(i).a) }
func (c *call) float64(i int) float64 { return math.Float64frombits(c.value(i).a) }
func (c *call) bool(i int) bool       { return c.value(i).a != 0 }
func (c *call) string(i int) string   { return c.value(i).text() }

func (c *call) stream(i int) stream.StreamView { return c.value(i).stream() }

// text copies the text of a string value.
func (v *value) text() string {
	if v.b == 0 {
		return ""
	}
	// SAFETY: a is the UTF-8 text of a str object that the caller keeps, b
	// its length. The copy is Go's.
	return strings.Clone(unsafe.String((*byte)(pointer(v.a)), int(v.b)))
}

// pointer turns an address of foreign memory into a pointer.
func pointer(addr uint64) unsafe.Pointer {
	// SAFETY: not an address of Go memory: C checked that it is no number of
	// the first page, and the collector ignores what it does not manage. The
	// detour through a pointer to the word keeps vet's rule about uintptr
	// (which is about Go memory) out of the way.
	return *(*unsafe.Pointer)(unsafe.Pointer(&addr))
}

// lending notes that views are about to be made, and returns the number of the
// call for them.
func (c *call) lending() (gen uint64) {
	c.lent = true
	return c.gen.Load()
}

// arg returns what C says of array i of the call. In the fast paths, where
// views come first, it is that of parameter i. They fill in their own variables
// from it: what is passed on from elsewhere would be copied twice.
func (c *call) arg(i int) *memview.LentArray { return &c.array(uint32(i)).LentArray }

// lend makes dst, a zero view, the view of array value v.
func (c *call) lend(v *value, dst *memview.StridedMemoryView) {
	refuse(dst.SetLentArray(&c.array(v.n).LentArray, c, c.lending(), int(v.n)))
}

// refuse reports that a view could not be made, though C has checked the array by the
// same rules.
func refuse(err error) {
	if err != nil {
		panic(argError{err})
	}
}

// argError carries an error about an argument out of the accessors.
type argError struct{ err error }

// slice makes the slice of typed parameter i.
func slice[T any](c *call, i int) []T { return sliceOf[T](c.value(i)) }

func sliceOf[T any](v *value) []T {
	switch {
	case v.tag == tagNone:
		return nil
	case v.b == 0:
		return []T{}
	case v.tag == tagBytes:
		// A bytes object never changes: what the function may write is a copy.
		// SAFETY: b bytes of an object that the caller keeps.
		return append([]T(nil), unsafe.Slice((*T)(pointer(v.a)), int(v.b))...)
	}
	// SAFETY: C checked dtype, alignment, that the block is dense and on the
	// host, and counted b elements; the caller holds it until the call returns.
	return unsafe.Slice((*T)(pointer(v.a)), int(v.b))
}

// Results.

// push appends a value to the results.
func (c *call) push(v value) {
	f := c.f
	if f.outLen == f.outCap {
		c.growOut()
	}
	// SAFETY: outLen < outCap; the block lives until C has built the result.
	*(*value)(unsafe.Add(unsafe.Pointer(f.out), uintptr(f.outLen)*unsafe.Sizeof(v))) = v
	f.outLen++
}

func (c *call) growOut() {
	f := c.f
	n := f.outCap * 4
	p := spill(f, uintptr(n)*unsafe.Sizeof(value{}))
	// SAFETY: both blocks hold at least outLen values.
	copy(unsafe.Slice((*value)(p), n), unsafe.Slice(f.out, f.outLen))
	f.out, f.outCap = (*value)(p), n
}

func (c *call) pushInt(x int64)     { c.push(value{tag: tagInt, a: uint64(x)}) }
func (c *call) pushFloat(x float64) { c.push(value{tag: tagFloat, a: math.Float64bits(x)}) }

func (c *call) pushBool(x bool) {
	v := value{tag: tagBool}
	if x {
		v.a = 1
	}
	c.push(v)
}

func (c *call) pushString(s string) {
	s = strings.ToValidUTF8(s, "\uFFFD")
	c.push(value{tag: tagStr, a: c.keep(unsafe.StringData(s), len(s)), b: uint64(len(s))})
}

func (c *call) pushBytes(b []byte) {
	c.push(value{tag: tagBytes, a: c.keep(unsafe.SliceData(b), len(b)), b: uint64(len(b))})
}

// keep copies n bytes, and a NUL, to where C finds them after the call.
func (c *call) keep(p *byte, n int) uint64 {
	f := c.f
	var dst unsafe.Pointer
	if free := int(f.scratchCap - f.scratchUsed); n < free {
		dst = unsafe.Add(unsafe.Pointer(f.scratch), f.scratchUsed)
		f.scratchUsed += uint32(n) + 1
	} else {
		dst = spill(f, uintptr(n)+1)
	}
	// SAFETY: dst has room for n+1 bytes; p holds n.
	to := unsafe.Slice((*byte)(dst), n+1)
	copy(to, unsafe.Slice(p, n))
	to[n] = 0
	return uint64(uintptr(dst))
}

// setError describes a failure to C.
func (c *call) setError(class, text string) {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	c.f.status = 1
	c.f.errClass = (*byte)(pointer(c.keep(unsafe.StringData(class), len(class))))
	c.f.errText = (*byte)(pointer(c.keep(unsafe.StringData(text), len(text))))
}
