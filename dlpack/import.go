package dlpack

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/go-handoff/handoff/internal/cptr"
	"github.com/go-handoff/handoff/internal/leak"
)

// Managed owns one imported tensor until [Managed.Release].
//
// It is a small value. Copies stand for the same tensor: the first Release of
// any copy gives it back, from any goroutine, and every later one does
// nothing. After the release all copies are stale: their accessors return zero
// values and their other methods an error wrapping [ErrClosed]. The zero
// Managed is stale from the start.
//
// Accessors may be used from several goroutines at once, but not during
// Release: the memory that they read is the producer's. Release, Retain, the
// exports and Desc may run at once in any mix.
//
// A Managed that is dropped without Release is given back by the collector
// some time later, on a goroutine of its own; in leak-check mode the tests
// that dropped it fail.
type Managed struct {
	h   *handle
	gen uint64
}

// core is the state of an imported tensor. Handle and core are pooled
// together, so that an import allocates nothing.
type core struct {
	// word is the generation, an idle and a closing bit and the number of calls
	// that use the tensor right now. A Managed is live while the generations
	// agree.
	word atomic.Uint64
	// resident says that the core belongs to a shelf; then home is its handle
	// while the idle bit is set, and nil otherwise.
	resident bool

	addr   uintptr // of the managed struct; 0 if there is none
	legacy bool
	// more says that there is an owner or a token.
	more bool
	home *handle
	// owner is the ho_owner that the tensor was moved into, or 0. It is set
	// by the first call that needs a second reference.
	owner atomic.Uintptr
	// The metadata as it was validated. shape and strides inside are the
	// producer's arrays.
	tensor  uintptr // address of the DLTensor
	flags   Flags
	version Version
	token   leak.Token
}

const (
	useBits    = 14
	useMask    = 1<<useBits - 1
	closingBit = 1 << useBits
	idleBit    = closingBit << 1
	genShift   = useBits + 2

	versionedTensorOffset = 32 // of dl_tensor in DLManagedTensorVersioned
)

// shareMu is held while a tensor gets its owner.
var shareMu sync.Mutex

// ImportVersioned takes over the DLManagedTensorVersioned at address p.
//
// The tensor is consumed in any case: on success it belongs to the Managed; on
// an error it has been given back (its deleter, if not NULL, ran exactly once)
// and must not be touched again. Exceptions are the two errors after which
// nothing at p can have been read: p is 0 ([ErrNull]) or not a multiple of 8
// ([ErrAlign]).
//
// If the major version is unknown only the deleter is used (R008, R009). All
// other rules of [Desc.Check] apply; what was found wrong is in a
// [*RuleError]. A tensor without strides is row-major whatever its version
// says (R050, R051). Nothing is copied.
//
// Without cgo, the error wraps [ErrNotSupported] and p is left alone.
func ImportVersioned(p uintptr) (Managed, error) {
	if !supported || p == 0 || p%8 != 0 {
		return Managed{}, importable(p)
	}
	m := (*cManagedVersioned)(cptr.At(p))
	if m.version.Major != abiMajor || Flags(m.flags)&^(FlagReadOnly|FlagIsCopied) != 0 || !m.tensor.plain() {
		if err := m.refuse(); err != nil {
			releaseVersioned(p)
			return Managed{}, err
		}
	}
	return take(p, p+versionedTensorOffset, false, Flags(m.flags), m.version), nil
}

// refuse says why a tensor cannot be imported. Until the major is known to be
// ours nothing but the first fields may be read.
func (m *cManagedVersioned) refuse() error {
	if m.version.Major != abiMajor {
		return m.version.problem().err("dlpack: import")
	}
	if pr := m.tensor.problem(Flags(m.flags)); pr.kind != kindOK {
		return pr.err("dlpack: import")
	}
	return nil
}

// ImportLegacy takes over the DLManagedTensor at address p, the form without a
// version. Everything said at [ImportVersioned] applies. The struct cannot say
// that memory is read-only; the result counts as writable, as its producer had
// to refuse otherwise (R057). Sub-byte data in it is packed.
func ImportLegacy(p uintptr) (Managed, error) {
	if !supported || p == 0 || p%8 != 0 {
		return Managed{}, importable(p)
	}
	m := (*cManaged)(cptr.At(p))
	if !m.tensor.plain() {
		if pr := m.tensor.problem(0); pr.kind != kindOK {
			releaseLegacy(p)
			return Managed{}, pr.err("dlpack: import")
		}
	}
	return take(p, p, true, 0, Version{}), nil
}

// importable says why nothing can be imported from an address.
func importable(p uintptr) error {
	switch {
	case !supported:
		return notSupported("dlpack: import")
	case p == 0:
		return (problem{kind: kindNull, rule: 45, what: whatNullStruct}).err("dlpack: import")
	}
	return (problem{kind: kindAlign, rule: 3, what: whatStructAlign}).err("dlpack: import")
}

// notSupported is the error of everything that needs cgo.
func notSupported(op string) error {
	return &RuleError{Op: op, Detail: "this program was built without cgo or for another platform", Err: ErrNotSupported}
}

// plainSize holds the width in bytes, a power of two up to 8, of the element
// types of which most tensors are, by code and width in bits; 0 for all
// others. The alignment equals the width.
var plainSize = func() (sizes [8][256]uint8) {
	for code, widths := range [8][]uint8{
		CodeInt: {1, 2, 4, 8}, CodeUInt: {1, 2, 4, 8}, CodeFloat: {2, 4, 8}, CodeBfloat: {2}, CodeBool: {1},
	} {
		for _, w := range widths {
			sizes[code][w*8] = w
		}
	}
	return sizes
}()

// plain is a short cut for most tensors: true means that the whole validation
// would find nothing. Its limits keep every sum and product far from overflow.
func (t *cTensor) plain() bool {
	dtype, data, offset, n := t.dtype, uint64(t.data), t.byteOffset, int(t.ndim)
	if dtype.Lanes != 1 || int(dtype.Code) >= len(plainSize) || uint(n) > 8 {
		return false
	}
	size := uint64(plainSize[dtype.Code][dtype.Bits])
	first := data + offset
	if size == 0 || uint32(t.device.Type-DeviceCPU) > uint32(DeviceCUDAHost-DeviceCPU) || data == 0 ||
		(data|offset)>>62 != 0 || first&(size-1) != 0 {
		return false
	}
	if n == 0 {
		return true
	}
	if t.shape == 0 || t.strides == 0 {
		return false
	}
	// SAFETY: ndim, at most 8, values are the producer's promise for both.
	shape, strides := (*[8]int64)(cptr.At(t.shape)), (*[8]int64)(cptr.At(t.strides))
	// One question after the loop instead of four on every axis: extents from
	// 1 to 1<<31, strides between -1<<30 and 1<<30, elements below 1<<31, and
	// reaches between -1<<56 and 1<<56, so that 8 of them times 8 bytes stay
	// below 1<<62. Once large is set, what is computed means nothing.
	count, before, large := int64(1), int64(0), int64(0)
	for i := 0; i < n; i++ {
		last, stride := shape[i]-1, strides[i]
		count *= last + 1
		reach := last * stride
		large |= last | count | (stride + 1<<30) | (reach+1<<56)>>26
		before -= reach & (reach >> 63)
	}
	return uint64(large) < 1<<31 && uint64(before)*size <= first
}

// dl returns the tensor.
func (c *core) dl() *cTensor { return (*cTensor)(cptr.At(c.tensor)) }

// problem validates a tensor in foreign memory.
func (t *cTensor) problem(flags Flags) problem {
	raw := rawTensor{
		data: uint64(t.data), byteOffset: t.byteOffset, device: t.device.Type, ndim: t.ndim,
		dtype: t.dtype, hasShape: t.shape != 0,
	}
	if p := raw.header(flags); p.kind != kindOK {
		return p
	}
	raw.shape, raw.strides = t.dims()
	return raw.body(flags)
}

// dims returns the producer's arrays. ndim must have been checked. Strides are
// nil if the tensor has none.
func (t *cTensor) dims() (shape, strides []int64) {
	return cptr.Slice[int64](t.shape, int(t.ndim)), cptr.Slice[int64](t.strides, int(t.ndim))
}

// take fills a handle. The tensor, at address t of what lies at p, has been
// validated. What it does with shelves is written out here, because calls are
// what an import costs.
func take(p, t uintptr, legacy bool, flags Flags, v Version) Managed {
	var h *handle
	s := near()
	c := s.core.Load()
	w := uint64(0)
	if c != nil {
		w = c.word.Load()
		if w&idleBit != 0 && c.word.CompareAndSwap(w, w&^idleBit) {
			h, c.home = c.home, nil
		}
	}
	if h == nil {
		if s.lock() {
			if h = s.top; h != nil {
				s.top, h.next = h.next, nil
				s.n--
			}
			s.unlock()
		}
		if h == nil {
			h = s.more()
		}
		c = h.c
		w = c.word.Load()
	}
	c.addr, c.tensor, c.legacy, c.flags, c.version = p, t, legacy, flags, v
	if leak.Enabled() {
		c.token, c.more = leak.Track("dlpack.Managed"), true
	}
	return Managed{h, w >> genShift}
}

// forgotten gives back a tensor whose last Managed was dropped. The deleter is
// foreign and may wait for a lock, such as Python's, for which a cleanup must
// not wait: it gets a goroutine.
func forgotten(c *core) {
	if c.addr == 0 {
		return // an idle handle that the collector took out of spare
	}
	// In leak-check mode nobody is told: the test that dropped it fails.
	go releaseTensor(c.addr, c.owner.Load(), c.legacy)
	if c.resident { // the shelf needs another handle
		c.addr, c.token = 0, leak.Token{}
		c.settle()
		c.home = newHandle(c)
		c.word.Store((c.word.Load()>>genShift+1)<<genShift | idleBit)
	}
}

func releaseTensor(addr, owner uintptr, legacy bool) {
	switch {
	case owner != 0:
		unrefOwner(owner)
	case legacy:
		releaseLegacy(addr)
	default:
		releaseVersioned(addr)
	}
}

// releaseVersioned calls the deleter, if there is one (R059).
func releaseVersioned(p uintptr) {
	if d := (*cManagedVersioned)(cptr.At(p)).deleter; d != 0 {
		callVersioned(d, p)
	}
}

func releaseLegacy(p uintptr) {
	if d := (*cManaged)(cptr.At(p)).deleter; d != 0 {
		callLegacy(d, p)
	}
}

// Release gives the tensor back: its deleter runs if nothing else shares it
// (see [Managed.Retain] and [Managed.Export]). Only the first call on any copy
// has an effect. It may be called from any goroutine; the deleter runs on the
// thread of the call, or at the end of a call on another goroutine that is
// using the tensor at this moment. It allocates nothing.
//
// Work on a device that still uses the memory must have been ordered before
// (R068).
func (m Managed) Release() {
	if m.h != nil {
		m.release(m.gen << genShift)
	}
}

// release is Release for whoever finds word in the core.
func (m Managed) release(word uint64) {
	h, c := m.h, m.h.c
	if !c.word.CompareAndSwap(word, (m.gen+1)<<genShift) && !m.contend() {
		return
	}
	// The generation is over: nobody else can reach the fields.
	addr, owner, legacy := c.addr, uintptr(0), c.legacy
	c.addr = 0
	if c.more {
		owner = c.settle()
	}
	if c.resident {
		c.rest(h, m.gen+1)
	} else {
		giveBack(h, h, 1)
	}
	if owner != 0 || legacy {
		releaseTensor(addr, owner, legacy)
	} else if d := (*cManagedVersioned)(cptr.At(addr)).deleter; d != 0 { // releaseVersioned, in line
		callVersioned(d, addr)
	}
}

// contend is what release does for a tensor that is stale or in use, or was a
// moment ago. It reports whether the generation is over now, by this call.
func (m Managed) contend() bool {
	c := m.h.c
	for !c.word.CompareAndSwap(m.gen<<genShift, (m.gen+1)<<genShift) {
		w := c.word.Load()
		if w>>genShift != m.gen || w&closingBit != 0 {
			return false // somebody else has released or will
		}
		if w&useMask != 0 && c.word.CompareAndSwap(w, w|closingBit) {
			return false // the last user releases
		}
	}
	return true
}

// Close is [Managed.Release] as an [io.Closer]; it returns nil.
func (m Managed) Close() error {
	m.Release()
	return nil
}

// settle clears what few tensors have, and returns the owner, if there is one.
func (c *core) settle() (owner uintptr) {
	owner = c.owner.Load()
	c.owner.Store(0)
	c.token.Done()
	c.token = leak.Token{}
	c.more = false
	return owner
}

// ReleaseAll is [Managed.Release] for many tensors, of which it calls the
// deleters in the order of ms. It enters C once per few dozen tensors, which
// is the better part of what a cheap deleter costs. ms itself is not changed.
func ReleaseAll(ms []Managed) {
	var batch *releaseBatch
	var first, last *handle // of those to give back
	n, handles := 0, int32(0)
	for _, m := range ms {
		if m.h == nil {
			continue
		}
		c := m.h.c
		if !c.word.CompareAndSwap(m.gen<<genShift, (m.gen+1)<<genShift) {
			m.Release() // stale, or in use by another goroutine
			continue
		}
		if batch == nil {
			batch = batches.Get().(*releaseBatch)
		}
		addr, owner, legacy := c.addr, uintptr(0), c.legacy
		c.addr = 0
		if c.more {
			owner = c.settle()
		}
		if c.resident {
			c.rest(m.h, m.gen+1)
		} else {
			if first == nil {
				last = m.h
			}
			m.h.next, first = first, m.h
			handles++
		}
		// The low bits, free because structs are aligned, say what it is.
		switch {
		case owner != 0:
			batch[n] = owner | releaseOwner
		case legacy:
			batch[n] = addr | releaseLegacyTensor
		default:
			batch[n] = addr
		}
		if n++; n == len(batch) {
			giveBack(first, last, handles)
			first, handles = nil, 0
			releaseMany(batch, n)
			n = 0
		}
	}
	if batch != nil {
		giveBack(first, last, handles)
		releaseMany(batch, n)
		batches.Put(batch)
	}
}

// releaseBatch is what one call of releaseMany takes. It lives on the heap:
// deleters may enter Go, and then a stack could move.
type releaseBatch [64]uintptr

// Tags of the addresses in a releaseBatch; HO_DL_* in C.
const (
	releaseLegacyTensor = 1
	releaseOwner        = 2
)

var batches = sync.Pool{New: func() any { return new(releaseBatch) }}

// use keeps the tensor from being released until done.
func (m Managed) use() (*core, bool) {
	if m.h == nil {
		return nil, false
	}
	c := m.h.c
	for {
		w := c.word.Load()
		if w>>genShift != m.gen || w&closingBit != 0 || w&useMask == useMask {
			return nil, false
		}
		if c.word.CompareAndSwap(w, w+1) {
			return c, true
		}
	}
}

func (m Managed) done() {
	c := m.h.c
	for {
		w := c.word.Load()
		if w&closingBit != 0 && w&useMask == 1 {
			// The last of those who used it: now nobody can begin to.
			if c.word.CompareAndSwap(w, w-1) {
				m.release(w - 1)
				return
			}
		} else if c.word.CompareAndSwap(w, w-1) {
			return
		}
	}
}

// live returns the core if m is not stale.
func (m Managed) live() *core {
	if m.h == nil {
		return nil
	}
	if c := m.h.c; c.word.Load()>>genShift == m.gen {
		return c
	}
	return nil
}

// IsLive reports whether the tensor has not been released through m or a copy
// of it.
func (m Managed) IsLive() bool { return m.live() != nil }

// Struct returns the address of the managed struct, which m owns, or 0.
func (m Managed) Struct() uintptr {
	c := m.live()
	if c == nil {
		return 0
	}
	return c.addr
}

// Legacy reports whether the tensor came in the form without a version.
func (m Managed) Legacy() bool {
	c := m.live()
	return c != nil && c.legacy
}

// Addr returns the address of the first element: data plus byte offset (R039,
// R042). It is a number, valid until Release; for a device that
// [DeviceType.HasAddresses] denies it is the opaque handle, without the offset
// (R038), and without elements it is whatever the producer wrote.
func (m Managed) Addr() uintptr {
	c := m.live()
	if c == nil {
		return 0
	}
	t := c.dl()
	addr := t.data
	if addr != 0 && t.device.Type.HasAddresses() {
		addr += uintptr(t.byteOffset)
	}
	runtime.KeepAlive(m.h)
	return addr
}

// ByteOffset returns the offset that has still to be added to [Managed.Addr]:
// 0, except on devices where the address is an opaque handle.
func (m Managed) ByteOffset() uint64 {
	c := m.live()
	if c == nil || c.dl().device.Type.HasAddresses() {
		return 0
	}
	n := c.dl().byteOffset
	runtime.KeepAlive(m.h)
	return n
}

// NDim returns the number of axes, 0 for a scalar.
func (m Managed) NDim() int {
	c := m.live()
	if c == nil {
		return 0
	}
	n := int(c.dl().ndim)
	runtime.KeepAlive(m.h)
	return n
}

// Dim returns the extent of axis i. It panics if i is out of range.
func (m Managed) Dim(i int) int64 {
	c := m.live()
	if c == nil {
		return 0
	}
	shape, _ := c.dl().dims()
	n := shape[i]
	runtime.KeepAlive(m.h)
	return n
}

// Stride returns the distance between neighbours along axis i, in elements
// (R048). It is derived if the producer gave no strides. It panics if i is out
// of range.
func (m Managed) Stride(i int) int64 {
	c := m.live()
	if c == nil {
		return 0
	}
	shape, strides := c.dl().dims()
	var n int64
	if strides != nil {
		n = strides[i]
	} else {
		_ = shape[i]
		n = 1
		for _, e := range shape[i+1:] {
			n *= max(e, 1)
		}
	}
	runtime.KeepAlive(m.h)
	return n
}

// Shape appends the extents to dst and returns it.
func (m Managed) Shape(dst []int64) []int64 {
	if c := m.live(); c != nil {
		shape, _ := c.dl().dims()
		dst = append(dst, shape...)
		runtime.KeepAlive(m.h)
	}
	return dst
}

// Strides appends the strides to dst, in elements, and returns it. They are
// derived if the producer gave none; see [Managed.HasStrides].
func (m Managed) Strides(dst []int64) []int64 {
	if c := m.live(); c != nil {
		shape, strides := c.dl().dims()
		if strides != nil {
			dst = append(dst, strides...)
		} else {
			dst, _ = RowMajor(dst, shape) // fits: checked on import
		}
		runtime.KeepAlive(m.h)
	}
	return dst
}

// HasStrides reports whether the producer gave strides. A tensor of version
// 1.2 or later with at least one axis must have them (R049); strict consumers
// refuse it otherwise (R051).
func (m Managed) HasStrides() bool {
	c := m.live()
	if c == nil {
		return false
	}
	has := c.dl().strides != 0
	runtime.KeepAlive(m.h)
	return has
}

// Size returns the number of elements, 1 for a scalar.
func (m Managed) Size() int64 {
	c := m.live()
	if c == nil {
		return 0
	}
	n := int64(1)
	shape, _ := c.dl().dims()
	for _, e := range shape {
		if e == 0 {
			n = 0
			break
		}
		n *= e // fits: checked on import
	}
	runtime.KeepAlive(m.h)
	return n
}

// DType returns the element type.
func (m Managed) DType() DataType {
	c := m.live()
	if c == nil {
		return DataType{}
	}
	d := c.dl().dtype
	runtime.KeepAlive(m.h)
	return d
}

// Device returns where the memory is.
func (m Managed) Device() Device {
	c := m.live()
	if c == nil {
		return Device{}
	}
	d := c.dl().device
	runtime.KeepAlive(m.h)
	return d
}

// Flags returns the flags, 0 for a legacy tensor.
func (m Managed) Flags() Flags {
	c := m.live()
	if c == nil {
		return 0
	}
	return c.flags
}

// ReadOnly reports whether the memory must not be written (R015).
func (m Managed) ReadOnly() bool { return m.Flags()&FlagReadOnly != 0 }

// Version returns the version in the tensor, the zero Version for a legacy
// one.
func (m Managed) Version() Version {
	c := m.live()
	if c == nil {
		return Version{}
	}
	return c.version
}

// Alignment returns the largest power of two, at most 4096, that divides the
// address of the first element. It is 4096 for address 0. Nothing above
// [DataType.Alignment] may be assumed of a foreign tensor (R041).
func (m Managed) Alignment() int {
	a := m.Addr() | 4096
	return int(a & -a)
}

// Desc returns a copy of the metadata. Data is [Managed.Addr], with the offset
// folded in, Strides are nil if the producer gave none. The error wraps
// [ErrClosed] after the release.
func (m Managed) Desc() (Desc, error) {
	c, ok := m.use()
	if !ok {
		return Desc{}, closed("dlpack: describe")
	}
	defer m.done()
	shape, strides := c.dl().dims()
	d := Desc{
		Data: m.Addr(), ByteOffset: m.ByteOffset(), Device: c.dl().device, DType: c.dl().dtype,
		Shape: append([]int64{}, shape...), Flags: c.flags, Version: c.version,
	}
	if strides != nil {
		d.Strides = append([]int64{}, strides...)
	}
	return d, nil
}

func closed(op string) error {
	return &RuleError{Op: op, Detail: "the tensor was released", Err: ErrClosed}
}

// share returns the C owner of the tensor and makes it if need be. The caller
// is between use and done.
func (c *core) share(op string) (uintptr, error) {
	if o := c.owner.Load(); o != 0 {
		return o, nil
	}
	shareMu.Lock()
	defer shareMu.Unlock()
	if o := c.owner.Load(); o != 0 {
		return o, nil
	}
	o := stealOwner(c.addr, !c.legacy)
	if o == 0 {
		return 0, noMemory(op)
	}
	c.owner.Store(o)
	c.more = true
	return o, nil
}

func noMemory(op string) error { return &RuleError{Op: op, Err: ErrNoMemory} }

// Retain returns a second, independent Managed for the same tensor, which is
// given back when both have been released, in either order. The count lives in
// C. The error wraps [ErrClosed] after the release.
func (m Managed) Retain() (Managed, error) {
	const op = "dlpack: retain"
	c, ok := m.use()
	if !ok {
		return Managed{}, closed(op)
	}
	defer m.done()
	o, err := c.share(op)
	if err != nil {
		return Managed{}, err
	}
	refOwner(o)
	n := take(c.addr, c.tensor, c.legacy, c.flags, c.version)
	n.h.c.owner.Store(o)
	n.h.c.more = true
	return n, nil
}

// Owner returns a reference on the C owner (ho_owner *) of the tensor, for C
// code that exports it further. The caller gives it back with
// [ReleaseOwner] or hands it to C code that does.
func (m Managed) Owner() (uintptr, error) {
	const op = "dlpack: share"
	c, ok := m.use()
	if !ok {
		return 0, closed(op)
	}
	defer m.done()
	o, err := c.share(op)
	if err == nil {
		refOwner(o)
	}
	return o, err
}

// Export returns the address of a new managed tensor for the same memory,
// versioned or legacy, which the caller owns: it must be handed to a consumer
// or released by its deleter. The memory stays valid until m and all exports
// are released, in any order; the count lives in C and no deleter enters Go on
// its account.
//
// The result obeys [ABIVersion] whatever m did: strides are never NULL for a
// tensor with axes (R049), the byte offset is folded into data (B057), and
// data is NULL if there are no elements (R043). [FlagIsCopied] is not passed
// on, as the memory is shared from now on (R019).
//
// A legacy tensor cannot say read-only or padded: the error then wraps
// [ErrReadOnly] (R057) or [ErrLayout] (R021). It wraps [ErrClosed] after the
// release.
func (m Managed) Export(versioned bool) (uintptr, error) {
	const op = "dlpack: export"
	c, ok := m.use()
	if !ok {
		return 0, closed(op)
	}
	defer m.done()
	if !versioned {
		if err := legacyProblem(op, c.dl().dtype, c.flags); err != nil {
			return 0, err
		}
	}
	o, err := c.share(op)
	if err != nil {
		return 0, err
	}
	p := reexport(o, c.tensorAddr(), c.flags&^FlagIsCopied, versioned)
	if p == 0 {
		return 0, noMemory(op)
	}
	return p, nil
}

// tensorAddr returns the address of the DLTensor inside the managed struct.
func (c *core) tensorAddr() uintptr {
	if c.legacy {
		return c.addr
	}
	return c.addr + versionedTensorOffset
}

// ExportDesc is [Managed.Export] with another description of the same memory,
// such as a slice of it. The caller vouches that d lies inside the tensor. The
// read-only flag of m is added to that of d; d.Version is ignored.
func (m Managed) ExportDesc(d *Desc, versioned bool) (uintptr, error) {
	const op = "dlpack: export"
	c, ok := m.use()
	if !ok {
		return 0, closed(op)
	}
	defer m.done()
	o, err := c.share(op)
	if err != nil {
		return 0, err
	}
	return exportDesc(op, o, d, d.Flags|c.flags&FlagReadOnly, versioned)
}
