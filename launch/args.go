package launch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"sync"
	"unsafe"

	"github.com/x448/float16"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/dlpack/minifloat"
	"github.com/go-handoff/handoff/memview"
)

// Errors about arguments, which are [*ArgError]s. Test for them with
// [errors.Is].
var (
	// ErrArgument means that an argument does not fit the kernel's parameter,
	// or that there are too few or too many.
	ErrArgument = errors.New("bad kernel argument")
	// ErrDevice means that a kernel could not reach the memory of an argument:
	// it is the host's only, or another device's.
	ErrDevice = dlpack.ErrDevice
)

// ArgError says which argument of a launch is wrong, and why.
type ArgError struct {
	// Kernel is the name of the kernel.
	Kernel string
	// Index is the number of the argument, from 0, or -1 if it is about their
	// number.
	Index int
	// Param is the parameter of that index, zero if it is not known.
	Param ParamInfo
	// Detail says what is wrong.
	Detail string
	// Err is a more exact kind of error, such as [ErrDevice] or [ErrClosed], or
	// nil.
	Err error
}

// Error returns text of the form "launch: kernel saxpy: argument 1: int64 has 8
// bytes, the parameter has 4: bad kernel argument".
func (e *ArgError) Error() string {
	s := "launch: kernel " + e.Kernel + ": "
	if e.Index >= 0 {
		s += "argument " + strconv.Itoa(e.Index) + ": "
	}
	s += e.Detail + ": " + ErrArgument.Error()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns [ErrArgument] and the more exact kind.
func (e *ArgError) Unwrap() []error {
	if e.Err != nil {
		return []error{ErrArgument, e.Err}
	}
	return []error{ErrArgument}
}

// Number is a number of a width that was said, as [Int32] and its relatives
// return. It is refused when it is packed if the value did not fit.
type Number struct {
	bits  uint64
	size  uint8 // bytes
	lost  bool  // the value does not fit; bits is the value
	minus bool
	name  string
}

// Integer lists the integer types of Go.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

// narrow checks that a value fits a width (B247).
func narrow(bits uint64, minus bool, size uint8, signed bool, name string) Number {
	n := Number{bits: bits, size: size, minus: minus, name: name}
	width := 8 * uint(size)
	switch {
	case minus && signed:
		n.lost = int64(bits) < math.MinInt64>>(64-width)
	case minus:
		n.lost = true
	case signed:
		n.lost = bits > math.MaxInt64>>(64-width)
	default:
		n.lost = bits > math.MaxUint64>>(64-width)
	}
	return n
}

// Int8 is x as a parameter of type char or int8_t. A value that does not fit
// is an error of the launch; so with the other functions of this kind.
func Int8[T Integer](x T) Number { return narrow(uint64(x), x < 0, 1, true, "an int8") }

// Int16 is x as a parameter of type short.
func Int16[T Integer](x T) Number { return narrow(uint64(x), x < 0, 2, true, "an int16") }

// Int32 is x as a parameter of type int.
func Int32[T Integer](x T) Number { return narrow(uint64(x), x < 0, 4, true, "an int32") }

// Int64 is x as a parameter of type long long or ptrdiff_t.
func Int64[T Integer](x T) Number { return narrow(uint64(x), x < 0, 8, true, "an int64") }

// Uint8 is x as a parameter of type unsigned char.
func Uint8[T Integer](x T) Number { return narrow(uint64(x), x < 0, 1, false, "a uint8") }

// Uint16 is x as a parameter of type unsigned short.
func Uint16[T Integer](x T) Number { return narrow(uint64(x), x < 0, 2, false, "a uint16") }

// Uint32 is x as a parameter of type unsigned int.
func Uint32[T Integer](x T) Number { return narrow(uint64(x), x < 0, 4, false, "a uint32") }

// Uint64 is x as a parameter of type unsigned long long or size_t.
func Uint64[T Integer](x T) Number { return narrow(uint64(x), x < 0, 8, false, "a uint64") }

// Float16 is x as a parameter of type __half, rounded to the nearest, ties to
// even (B245).
func Float16(x float32) Number {
	return Number{bits: uint64(float16.Fromfloat32(x)), size: 2}
}

// BFloat16 is x as a parameter of type __nv_bfloat16, rounded to the nearest,
// ties to even (B245).
func BFloat16(x float32) Number {
	return Number{bits: uint64(minifloat.ToBFloat16(x)), size: 2}
}

// Span is a view as a kernel can take it by value: address, extents and
// strides. See [MDSpan].
type Span struct {
	view  memview.StridedMemoryView
	rank  int
	wide  bool
	right bool
}

// MDSpan is a view as a parameter of this type:
//
//	cuda::std::mdspan<T, cuda::std::dextents<long long, rank>, cuda::std::layout_stride>
//
// which in memory is
//
//	template <typename T, int rank> struct span {
//		T *data;
//		long long extent[rank], stride[rank]; // strides in elements
//	};
//
// Tests compare the two with NVIDIA's headers (CCCL 3). rank is that of the
// parameter; a view of another one is an error of the launch. Strides are
// passed as they are, also those of 0 or less, which only the plain struct can
// be used with: layout_stride has none.
func MDSpan(v memview.StridedMemoryView, rank int) Span { return Span{view: v, rank: rank, wide: true} }

// MDSpan32 is [MDSpan] with extents and strides of type int, which kernels
// compute with faster. A number that does not fit is an error of the launch.
func MDSpan32(v memview.StridedMemoryView, rank int) Span { return Span{view: v, rank: rank} }

// Right is the span for a parameter of cuda::std::layout_right, the layout of a
// cuda::std::mdspan that names none: address and extents, of a view in C order
// without gaps. Any other is an error of the launch.
func (s Span) Right() Span {
	s.right = true
	return s
}

// bytes is the size of the parameter.
func (s *Span) bytes() int {
	n := s.word() * s.rank
	if !s.right {
		n *= 2
	}
	return (8 + n + 7) &^ 7
}

// word is the size of an extent.
func (s *Span) word() int {
	if s.wide {
		return 8
	}
	return 4
}

// place says where the memory of an argument is.
type place struct {
	dev    dlpack.Device // Type 0: no memory, or nothing to check
	buffer *device.Buffer
}

// block is packed arguments: C memory with one pointer for each parameter, as
// the driver wants them, and the values.
type block struct {
	// What every launch looks at comes first.
	last    []lastType // of the table: see again
	start   unsafe.Pointer
	call    *driver.LaunchCall // C memory
	buffers []int32            // the arguments that are buffers
	ptrs    []uintptr          // C memory
	pointed *paramTable        // what the pointers were made for
	vals    []byte             // C memory, from start on
	params  []ParamInfo
	known   bool // params are the kernel's own table, and not made up as we go
	own     []ParamInfo
	attrs   []driver.LaunchAttribute // C memory
	mem     *cMemory
}

const (
	// pooledParams and pooledBytes are the room of a block from the pool; no
	// kernel before CUDA 12.1 can have more bytes.
	pooledParams = 128
	pooledBytes  = 4096
)

var blocks = sync.Pool{New: func() any { return newBlock(pooledParams, pooledBytes) }}

// newBlock returns a block with room for n parameters of size bytes in all, or
// nil if there is no memory.
func newBlock(n, size int) *block {
	n, size = max(n, 1), max(size, 8)
	mem := newCMemory(blockBytes(maxAttributes, n, size))
	if mem == nil {
		return nil
	}
	b := &block{mem: mem}
	b.attrs, b.call, b.ptrs, b.vals = carve(mem, maxAttributes, n, size)
	b.start = firstByte(b.vals)
	return b
}

// beginBlock readies a block for n arguments of a kernel.
func beginBlock(k *Kernel, n int) (*block, error) {
	t, err := k.info.table()
	switch {
	case err != nil:
		return beginUnknown(k, n, err)
	case len(t.params) != n:
		return nil, &ArgError{Kernel: k.info.name, Index: -1, Detail: fmt.Sprintf("%s, the kernel has %s", count(n, "argument"), count(len(t.params), "parameter"))}
	}
	b := anyBlock(n, t.size)
	if b == nil {
		return nil, noMemory("launch kernel", k)
	}
	b.aim(t)
	return b, nil
}

// beginUnknown is beginBlock for a kernel whose table could not be read.
func beginUnknown(k *Kernel, n int, err error) (*block, error) {
	if !errors.Is(err, ErrNotSupported) {
		return nil, err
	}
	b := anyBlock(n, unknownBytes(n))
	if b == nil {
		return nil, noMemory("launch kernel", k)
	}
	b.aim(nil)
	return b, nil
}

// unknownBytes is the room for n arguments of any kind.
func unknownBytes(n int) int { return n * 256 }

// anyBlock returns a block with room, or nil if there is no memory.
func anyBlock(n, size int) *block {
	if n > pooledParams || size > pooledBytes {
		return newBlock(n, size)
	}
	b, _ := blocks.Get().(*block)
	return b
}

func noMemory(op string, k *Kernel) error {
	return &Error{Op: op + " " + k.info.name, Device: -1, Code: driver.ErrorOutOfMemory, Detail: "no host memory for arguments"}
}

// aim readies the block for arguments of a kernel with that table, or, if t is
// nil, of one without.
func (b *block) aim(t *paramTable) {
	b.buffers = b.buffers[:0]
	if t == nil {
		b.known, b.params, b.last, b.pointed, b.own = false, nil, nil, nil, b.own[:0]
		return
	}
	b.known, b.params, b.last = true, t.params, t.last
	if b.pointed != t {
		b.point()
		b.pointed = t
	}
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

func axes(n int) string {
	if n == 1 {
		return "1 axis"
	}
	return strconv.Itoa(n) + " axes"
}

// end gives a block back to the pool.
func (b *block) end() {
	if len(b.ptrs) == pooledParams && len(b.vals) == pooledBytes {
		blocks.Put(b)
	}
}

// point makes the pointers point to the values.
func (b *block) point() {
	first := b.mem.addr + b.base()
	ptrs := b.ptrs[:len(b.params)]
	for i := range ptrs {
		ptrs[i] = first + b.params[i].Offset
	}
}

// base is the offset of the values in the memory.
func (b *block) base() uintptr { return uintptr(b.start) - b.mem.addr }

// misfit is what is wrong with an argument. It becomes an ArgError where the
// kernel and the index are known.
type misfit struct {
	detail string
	err    error
}

func (m *misfit) Error() string { return m.detail }

// slot returns the bytes of parameter i for an argument of size bytes, or nil
// if the parameter has another size.
func (b *block) slot(i, size, align int) []byte {
	if b.known {
		p := &b.params[i]
		if p.Size != uintptr(size) {
			return nil
		}
		return b.vals[p.Offset : p.Offset+p.Size]
	}
	return b.freeSlot(i, size, align)
}

// freeSlot is slot where the kernel's table is not known: arguments follow each
// other as a C compiler would place them.
func (b *block) freeSlot(i, size, align int) []byte {
	if i == len(b.own) {
		off := 0
		if i > 0 {
			off = int(b.own[i-1].Offset + b.own[i-1].Size)
		}
		off = (off + align - 1) &^ (align - 1)
		if off+size > len(b.vals) {
			return nil
		}
		b.own = append(b.own, ParamInfo{Offset: uintptr(off), Size: uintptr(size)})
		b.ptrs[i] = b.mem.addr + b.base() + uintptr(off)
	}
	p := b.own[i]
	if p.Size != uintptr(size) {
		return nil
	}
	return b.vals[p.Offset : p.Offset+p.Size]
}

func (b *block) put8(i int, v uint64, what string) *misfit {
	if i < len(b.params) && b.params[i].Size == 8 {
		binary.NativeEndian.PutUint64(b.vals[b.params[i].Offset:], v)
		return nil
	}
	if s := b.slot(i, 8, 8); s != nil {
		binary.NativeEndian.PutUint64(s, v)
		return nil
	}
	return b.wrong(i, 8, what)
}

func (b *block) put4(i int, v uint32, what string) *misfit {
	if i < len(b.params) && b.params[i].Size == 4 {
		binary.NativeEndian.PutUint32(b.vals[b.params[i].Offset:], v)
		return nil
	}
	if s := b.slot(i, 4, 4); s != nil {
		binary.NativeEndian.PutUint32(s, v)
		return nil
	}
	return b.wrong(i, 4, what)
}

func (b *block) put2(i int, v uint16, what string) *misfit {
	if i < len(b.params) && b.params[i].Size == 2 {
		binary.NativeEndian.PutUint16(b.vals[b.params[i].Offset:], v)
		return nil
	}
	if s := b.slot(i, 2, 2); s != nil {
		binary.NativeEndian.PutUint16(s, v)
		return nil
	}
	return b.wrong(i, 2, what)
}

func (b *block) put1(i int, v uint8, what string) *misfit {
	if s := b.slot(i, 1, 1); s != nil {
		s[0] = v
		return nil
	}
	return b.wrong(i, 1, what)
}

// param is what is known about a parameter.
func (b *block) param(i int) ParamInfo {
	switch {
	case b.known && i < len(b.params):
		return b.params[i]
	case !b.known && i < len(b.own):
		return b.own[i]
	}
	return ParamInfo{}
}

// wrong says that the sizes of argument and parameter differ.
func (b *block) wrong(i, size int, what string) *misfit {
	have := b.param(i).Size
	if have == 0 {
		return &misfit{detail: what + " has " + count(size, "byte") + ", which is more than a kernel without a table of parameters can take"}
	}
	s := fmt.Sprintf("%s has %s, the parameter has %d", what, count(size, "byte"), have)
	switch {
	case size == 8 && have == 4 && what == "int":
		s += ": use launch.Int32 if it is an int"
	case what == "float32" && have == 2:
		s += ": use launch.Float16 or launch.BFloat16"
	case what == "float64" && have == 4:
		s += ": convert it to float32"
	}
	return &misfit{detail: s}
}

// set packs argument i, and says where its memory is, if it has some.
//
// x must not escape, which is why the place is returned and stored nowhere:
// that is what makes the arguments of a launch stay on the caller's stack.
func (b *block) set(i int, x any) (place, *misfit) {
	if done, at, m := b.setMemory(i, x); done {
		return at, m
	}
	done, m := b.setNumeric(i, x)
	if !done {
		m = b.setPlain(i, x)
	}
	if m == nil {
		b.remember(i, x)
	}
	return place{}, m
}

// setMemory packs what has memory, or more to it than its bytes. done is false
// for anything else.
func (b *block) setMemory(i int, x any) (done bool, at place, m *misfit) {
	switch x := x.(type) {
	case *memview.StridedMemoryView:
		if x == nil {
			return true, at, &misfit{detail: "a nil view"}
		}
		at, m = b.setView(i, x)
	case *device.Buffer:
		at, m = b.setBuffer(i, x)
	case memview.StridedMemoryView:
		at, m = b.setView(i, &x)
	case Span:
		at, m = b.setSpan(i, &x)
	case *TensorMap:
		at, m = b.setTensorMap(i, x)
	case Condition:
		if x.g == nil {
			return true, at, &misfit{detail: "the zero condition, which is of no graph"}
		}
		m = b.put8(i, uint64(x.handle), "a condition")
	case nil:
		m = &misfit{detail: "nil has no type: pass driver.DevicePtr(0) for a null pointer"}
	default:
		return false, at, nil
	}
	return true, at, m
}

// setNumeric packs the numbers of Go and of this project. done is false for
// anything else.
func (b *block) setNumeric(i int, x any) (done bool, m *misfit) {
	switch x := x.(type) {
	case driver.DevicePtr:
		return true, b.put8(i, uint64(x), "a device pointer")
	case int:
		return true, b.put8(i, uint64(x), "int")
	case int32:
		return true, b.put4(i, uint32(x), "int32")
	case int64:
		return true, b.put8(i, uint64(x), "int64")
	case float32:
		return true, b.put4(i, math.Float32bits(x), "float32")
	case float64:
		return true, b.put8(i, math.Float64bits(x), "float64")
	case uint:
		return true, b.put8(i, uint64(x), "uint")
	case uint32:
		return true, b.put4(i, x, "uint32")
	case uint64:
		return true, b.put8(i, x, "uint64")
	case uintptr:
		return true, b.put8(i, uint64(x), "uintptr")
	case bool: // B237: one byte, 0 or 1
		var v uint8
		if x {
			v = 1
		}
		return true, b.put1(i, v, "bool")
	case int8:
		return true, b.put1(i, uint8(x), "int8")
	case int16:
		return true, b.put2(i, uint16(x), "int16")
	case uint8:
		return true, b.put1(i, x, "uint8")
	case uint16:
		return true, b.put2(i, x, "uint16")
	case float16.Float16:
		return true, b.put2(i, uint16(x), "float16")
	case minifloat.BFloat16:
		return true, b.put2(i, uint16(x), "bfloat16")
	case complex64:
		return true, b.setComplex(i, uint64(math.Float32bits(real(x)))|uint64(math.Float32bits(imag(x)))<<32)
	case complex128:
		return true, b.setWide(i, math.Float64bits(real(x)), math.Float64bits(imag(x)))
	case Number:
		return true, b.setNumber(i, x)
	}
	return false, nil
}

// setComplex packs two floats; the parameter is aligned as C aligns them.
func (b *block) setComplex(i int, v uint64) *misfit { return b.put8(i, v, "complex64") }

func (b *block) setWide(i int, lo, hi uint64) *misfit {
	s := b.slot(i, 16, 16)
	if s == nil {
		return b.wrong(i, 16, "complex128")
	}
	binary.NativeEndian.PutUint64(s, lo)
	binary.NativeEndian.PutUint64(s[8:], hi)
	return nil
}

func (b *block) setNumber(i int, n Number) *misfit {
	if n.lost {
		v := strconv.FormatUint(n.bits, 10)
		if n.minus {
			v = strconv.FormatInt(int64(n.bits), 10)
		}
		return &misfit{detail: v + " does not fit " + n.name}
	}
	switch n.size {
	case 1:
		return b.put1(i, uint8(n.bits), "a number")
	case 2:
		return b.put2(i, uint16(n.bits), "a number")
	case 4:
		return b.put4(i, uint32(n.bits), "a number")
	case 8:
		return b.put8(i, n.bits, "a number")
	}
	return &misfit{detail: "a launch.Number that no function of this package made"}
}

// setBuffer packs the address of a buffer, which the caller checks further.
func (b *block) setBuffer(i int, x *device.Buffer) (at place, m *misfit) {
	if x == nil {
		return at, &misfit{detail: "a nil buffer: pass driver.DevicePtr(0) for a null pointer"}
	}
	if x.Closed() {
		return at, &misfit{detail: "a closed buffer", err: ErrClosed}
	}
	b.buffers = append(b.buffers, int32(i))
	if x.Size() > 0 {
		at = place{x.DLDevice(), x}
	}
	return at, b.put8(i, uint64(x.Ptr()), "a buffer's address")
}

// setView packs the address of a view's first element.
func (b *block) setView(i int, v *memview.StridedMemoryView) (place, *misfit) {
	addr, dev, m := viewAddress(v)
	if m != nil {
		return place{}, m
	}
	return place{dev: dev}, b.put8(i, uint64(addr), "a view's address")
}

// viewAddress checks that the memory of a view is there. That of an empty view
// is not asked about (B044).
func viewAddress(v *memview.StridedMemoryView) (addr uintptr, dev dlpack.Device, m *misfit) {
	addr, dev, live := v.Reach()
	if !live {
		return 0, dev, &misfit{detail: "a view of memory that was given back", err: ErrClosed}
	}
	if addr == 0 && v.NDim() == 0 { // an empty view has an axis
		return 0, dev, &misfit{detail: "the zero view, which is of no memory: pass driver.DevicePtr(0) for a null pointer"}
	}
	return addr, dev, nil
}

func (b *block) setSpan(i int, x *Span) (at place, m *misfit) {
	v := &x.view
	if n := v.NDim(); n != x.rank {
		return at, &misfit{detail: fmt.Sprintf("a view of %s for a span of %d", axes(n), x.rank), err: dlpack.ErrLayout}
	}
	if x.right && !v.ContiguousC() {
		return at, &misfit{detail: "a view that is not in C order without gaps, for a span of layout_right", err: dlpack.ErrLayout}
	}
	addr, dev, m := viewAddress(v)
	if m != nil {
		return at, m
	}
	s := b.slot(i, x.bytes(), 8)
	if s == nil {
		return at, b.wrong(i, x.bytes(), "a span of "+axes(x.rank))
	}
	clear(s) // what fills it up
	binary.NativeEndian.PutUint64(s, uint64(addr))
	word := x.word()
	extents, strides := s[8:8+word*x.rank], s[8+word*x.rank:]
	put := func(to []byte, d int, n int64) bool {
		if x.wide {
			binary.NativeEndian.PutUint64(to[8*d:], uint64(n))
			return true
		}
		binary.NativeEndian.PutUint32(to[4*d:], uint32(n))
		return int64(int32(n)) == n
	}
	for d := range x.rank {
		n, stride := v.Dim(d), v.Stride(d)
		if !put(extents, d, n) || !x.right && !put(strides, d, stride) {
			return at, &misfit{detail: fmt.Sprintf("extent %d or stride %d of axis %d does not fit an int32: use MDSpan", n, stride, d), err: dlpack.ErrOverflow}
		}
	}
	return place{dev: dev}, nil
}

// setPlain packs a value of any type without pointers: structs by value,
// arrays, and numbers of a type of the caller's (B239).
func (b *block) setPlain(i int, x any) *misfit {
	t := reflect.TypeOf(x)
	l := plainOf(t)
	if l.refused != "" {
		return &misfit{detail: l.refused}
	}
	if b.known && l.size == int(b.params[i].Size) && b.params[i].Offset%uintptr(l.align) != 0 {
		return &misfit{detail: fmt.Sprintf("%s is aligned to %d bytes, the parameter lies at %d", t, l.align, b.params[i].Offset)}
	}
	s := b.slot(i, l.size, l.align)
	if s == nil {
		return b.wrong(i, l.size, t.String())
	}
	copy(s, valueBytes(x, l.size))
	return nil
}

// plain is what is known about a type that is passed by value.
type plain struct {
	size, align int // as C has them
	refused     string
}

var plains sync.Map // reflect.Type -> *plain

func plainOf(t reflect.Type) *plain {
	if p, ok := plains.Load(t); ok {
		return p.(*plain)
	}
	p := &plain{size: int(t.Size())}
	p.align, p.refused = layoutOf(t, t.String())
	if p.refused == "" && p.size == 0 {
		p.refused = t.String() + " has no bytes"
	}
	if p.refused == "" && p.size%p.align != 0 {
		p.refused = fmt.Sprintf("%s has %d bytes, in C it would be padded to a multiple of %d", t, p.size, p.align)
	}
	actual, _ := plains.LoadOrStore(t, p)
	return actual.(*plain)
}

// layoutOf returns the alignment that C gives a type, and why it cannot be
// passed, or "". path names the type or field.
func layoutOf(t reflect.Type, path string) (align int, refused string) {
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8,
		reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr, reflect.Float32, reflect.Float64:
		return t.Align(), ""
	case reflect.Complex64: // float2 and cuda::std::complex are aligned to their size
		return 8, ""
	case reflect.Complex128:
		return 16, ""
	case reflect.Array:
		if t.Len() == 0 {
			return 1, path + " has no elements, which C does not know"
		}
		return layoutOf(t.Elem(), path)
	case reflect.Struct:
		align = 1
		for i := range t.NumField() {
			f := t.Field(i)
			name := path + "." + f.Name
			a, why := layoutOf(f.Type, name)
			if why != "" {
				return 1, why
			}
			if f.Type.Size() == 0 {
				return 1, name + " has no bytes, which C does not know"
			}
			if f.Offset%uintptr(a) != 0 {
				return 1, fmt.Sprintf("%s lies at byte %d, in C it is aligned to %d: put padding before it", name, f.Offset, a)
			}
			if f.Type.Size()%uintptr(a) != 0 {
				return 1, fmt.Sprintf("%s has %d bytes, in C it would be padded to a multiple of %d", name, f.Type.Size(), a)
			}
			align = max(align, a)
		}
		return align, ""
	}
	return 1, fmt.Sprintf("%s is a %v, which a kernel cannot have: pass its device address", path, t.Kind())
}

// reach checks that a kernel on the stream's device reaches the memory of an
// argument (B277, B287, B289).
func reach(at *place, dev *device.Device, cfg *Config) *misfit {
	switch at.dev.Type {
	case 0, dlpack.DeviceCUDAHost, dlpack.DeviceCUDAManaged:
		return nil
	case dlpack.DeviceCUDA:
		if int(at.dev.ID) == dev.Ordinal() {
			return nil
		}
		return reachPeer(at, dev, cfg)
	case dlpack.DeviceCPU:
		if at.buffer != nil && at.buffer.Info().DeviceAccessible {
			return nil
		}
		return &misfit{detail: fmt.Sprintf("memory of the host, which kernels on %v cannot reach: copy it to the device, or use pinned or managed memory", dev), err: ErrDevice}
	}
	return &misfit{detail: fmt.Sprintf("memory of %v, which kernels on %v cannot reach", at.dev, dev), err: ErrDevice}
}

func reachPeer(at *place, dev *device.Device, cfg *Config) *misfit {
	owner, err := device.Open(int(at.dev.ID))
	if err != nil {
		return &misfit{detail: fmt.Sprintf("memory of device %d, and the launch is on %v", at.dev.ID, dev), err: ErrDevice}
	}
	can, err := dev.CanAccess(owner)
	if err != nil {
		return &misfit{detail: fmt.Sprintf("memory of %v", owner), err: err}
	}
	switch {
	case !can:
		return &misfit{detail: fmt.Sprintf("memory of %v, which kernels on %v cannot reach: copy it", owner, dev), err: ErrDevice}
	case !cfg.AllowPeer:
		return &misfit{detail: fmt.Sprintf("memory of %v, and the launch is on %v: copy it, or enable access and set AllowPeer", owner, dev), err: ErrDevice}
	}
	return nil
}
