package launch

import (
	"runtime"
	"unsafe"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
)

// cMemory is a block of C memory that is freed when nobody has it any more.
// The driver keeps nothing of it after a call, so that no order matters.
type cMemory struct {
	addr uintptr
	ptr  unsafe.Pointer
}

// newCMemory returns size zeroed bytes, or nil if there are none.
func newCMemory(size int) *cMemory {
	p := callocC(size)
	if p == nil {
		return nil
	}
	m := &cMemory{addr: uintptr(p), ptr: p}
	runtime.AddCleanup(m, freeC, p)
	return m
}

// cacheLine is how the part of a block that every launch reads is aligned.
const cacheLine = 64

const (
	attrBytes = int(unsafe.Sizeof(driver.LaunchAttribute{}))
	callBytes = int(unsafe.Sizeof(driver.LaunchCall{}))
)

// blockBytes is the room that carve needs.
func blockBytes(attrs, n, size int) int { return attrs*attrBytes + cacheLine + callBytes + 8*n + size }

// carve cuts a block into attributes, the call, pointers and the bytes behind
// them.
func carve(m *cMemory, attrs, n, size int) ([]driver.LaunchAttribute, *driver.LaunchCall, []uintptr, []byte) {
	// SAFETY: C memory with room for these in this order (blockBytes), zeroed,
	// aligned for the strictest, and alive while m is, which is in the same
	// struct.
	a := unsafe.Slice((*driver.LaunchAttribute)(m.ptr), attrs)
	off := attrs * attrBytes
	off += int(-(m.addr + uintptr(off)) % cacheLine)
	p := unsafe.Add(m.ptr, off+callBytes)
	return a, (*driver.LaunchCall)(unsafe.Add(m.ptr, off)), unsafe.Slice((*uintptr)(p), n), unsafe.Slice((*byte)(unsafe.Add(p, 8*n)), size)
}

// firstByte is the address of C memory as a pointer, for [block.again].
func firstByte(b []byte) unsafe.Pointer {
	// SAFETY: the caller keeps the memory as long as the pointer.
	return unsafe.Pointer(unsafe.SliceData(b))
}

// params is the list of pointers, as the driver takes it.
func (b *block) list() unsafe.Pointer {
	// SAFETY: C memory of the block, which the caller keeps until the call is
	// over.
	return unsafe.Pointer(unsafe.SliceData(b.ptrs))
}

// attrsAddr is the address of the attributes.
func (b *block) attrsAddr() uintptr { return b.mem.addr }

// valueBytes is the memory of a value of a type without pointers, which an
// interface holds by reference. The value is not changed.
func valueBytes(x any, size int) []byte {
	// SAFETY: an interface is two words: its type, and the address of the
	// value, unless the type is a pointer, which callers have excluded. A test
	// compares it with what reflection says. x keeps the value alive while the
	// slice is used, which is during one copy.
	return unsafe.Slice((*byte)((*[2]unsafe.Pointer)(unsafe.Pointer(&x))[1]), size)
}

// again packs arguments from number i on, as long as each has the type that the
// parameter had the last time, if that is one whose bytes are the parameter's:
// see remember. It returns the number of the first that [block.set] has to
// pack, or how many there are. The types of a kernel's arguments hardly ever
// change, and one comparison takes the place of all questions.
func (b *block) again(i int, args []any) int {
	last := b.last
	if len(last) > len(args) { // they are as many, or none
		last = last[:len(args)]
	}
	vals := b.start
	for ; i < len(last); i++ {
		p := &last[i]
		// SAFETY: an interface is two words, see valueBytes; a type is known by
		// its address, which is only compared.
		x := (*[2]unsafe.Pointer)(unsafe.Pointer(&args[i]))
		if t := p.typ.Load(); t == 0 || t != uintptr(x[0]) {
			return i
		}
		// SAFETY: the type has as many bytes as the parameter, and no pointers,
		// or remember would not have it; the value lives as long as args. The
		// parameter lies within the values, since the block has room for the
		// table.
		to := unsafe.Add(vals, p.offset)
		switch p.size {
		case 8:
			*(*[8]byte)(to) = *(*[8]byte)(x[1])
		case 4:
			*(*[4]byte)(to) = *(*[4]byte)(x[1])
		default:
			copy(unsafe.Slice((*byte)(to), p.size), unsafe.Slice((*byte)(x[1]), p.size))
		}
	}
	return i
}

// remember says that values of the type of x, one of which has just been
// packed, are packed by copying their bytes.
func (b *block) remember(i int, x any) {
	if i >= len(b.last) {
		return
	}
	switch x.(type) {
	case bool, Number: // not any byte is a bool (B237); a Number has a width of its own
		return
	}
	// SAFETY: see again.
	b.last[i].typ.Store(uintptr((*[2]unsafe.Pointer)(unsafe.Pointer(&x))[0]))
}

// lasting returns its argument in a way that the compiler does not follow. It
// would otherwise conclude that all arguments of a launch, numbers too, have to
// be on the heap, because a graph may keep a buffer among them.
func lasting(b *device.Buffer) (same *device.Buffer) {
	const size = unsafe.Sizeof(b)
	// SAFETY: both are pointers, which lie on the stack, so that the collector
	// sees a whole one at any time; and a Buffer is always on the heap, since
	// package device makes them.
	copy((*[size]byte)(unsafe.Pointer(&same))[:], (*[size]byte)(unsafe.Pointer(&b))[:])
	return same
}
