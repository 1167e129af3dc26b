package dlpack

import (
	"runtime"
	"slices"
	"strconv"
	"sync"

	"github.com/go-handoff/handoff/internal/cptr"
	"github.com/go-handoff/handoff/internal/leak"
)

// Exported is memory that is ready to be lent: a description and one reference
// on what keeps the memory. Any number of managed tensors can be made of it
// with [Exported.Export] or [Exported.DLPack]; each has its own reference, and
// the memory is given back when Exported is closed and all of them are
// released, in any order (R069, R070).
//
// It may be used from several goroutines at once, Close included.
type Exported struct {
	st      *exportState
	desc    Desc
	cleanup runtime.Cleanup
}

// exportState is what outlives an Exported that was dropped without Close.
type exportState struct {
	mu    sync.Mutex
	owner uintptr // ho_owner *, 0 after Close
	token leak.Token
}

// newExported takes over one reference on owner. The slices of d are its own
// from now on.
func newExported(owner uintptr, d Desc) *Exported {
	st := &exportState{owner: owner}
	if leak.Enabled() {
		st.token = leak.Track("dlpack.Exported")
	}
	e := &Exported{st: st, desc: d}
	e.cleanup = runtime.AddCleanup(e, (*exportState).forgotten, st)
	return e
}

func (st *exportState) forgotten() {
	// The last reference may run foreign code, for which a cleanup must not
	// wait.
	if st.owner != 0 {
		go unrefOwner(st.owner)
	}
}

// ExportOptions tune [ExportSlice] and [Alloc]. The zero value is the default.
type ExportOptions struct {
	// Flags are given to every consumer. [FlagReadOnly] forbids them to
	// write. [FlagIsCopied] promises that nobody else uses the memory from
	// now on (R018, R019): set it only if there will be one export.
	Flags Flags
	// Offset is the index in the slice of the first element of the tensor,
	// the one with index (0, ..., 0).
	Offset int
	// DType replaces the element type that follows from T by another of the
	// same size.
	DType DataType
}

// ExportSlice lends a Go slice, without a copy. The slice's memory is pinned
// until Exported is closed and every consumer has released; then it is Go's
// alone again.
//
// shape nil means one axis of len(s). strides, in elements, nil means
// row-major. The elements of the tensor must lie inside the slice, or the
// error wraps [ErrLayout]; it wraps [ErrNotSupported] in programs without cgo.
// opts may be nil. A slice over memory that is not Go's, such as a mapping,
// keeps nothing alive: lend that with [ExportDesc]. Shape and strides are copied, the elements are shared: writes on either
// side show on the other, and ordering them is up to the two.
func ExportSlice[T Element](s []T, shape, strides []int64, opts *ExportOptions) (*Exported, error) {
	const op = "dlpack: export"
	if opts == nil {
		opts = &ExportOptions{}
	}
	dtype := DTypeOf[T]()
	if opts.DType != (DataType{}) {
		if opts.DType.ItemSize() != dtype.ItemSize() {
			return nil, &RuleError{Op: op, Detail: opts.DType.String() + " is not of the size of " + dtype.String(), Err: ErrDType}
		}
		dtype = opts.DType
	}
	if shape == nil {
		shape = []int64{int64(len(s) - opts.Offset)}
	}
	flags := opts.Flags
	if DTypeOf[T]().SubByte() {
		flags |= FlagSubbyteTypePadded // a Go value takes a whole byte
	}
	d := Desc{
		Device: CPU, DType: dtype, Shape: append([]int64{}, shape...), Flags: flags,
		Strides: slices.Clone(strides),
	}
	low, high, err := d.reach(op)
	if err != nil {
		return nil, err
	}
	if high > low && (int64(opts.Offset)+low < 0 || int64(opts.Offset)+high > int64(len(s))) {
		return nil, &RuleError{
			Op:     op,
			Detail: "elements " + strconv.FormatInt(int64(opts.Offset)+low, 10) + " to " + strconv.FormatInt(int64(opts.Offset)+high-1, 10) + " of a slice of " + strconv.Itoa(len(s)),
			Err:    ErrLayout,
		}
	}
	if !supported {
		return nil, notSupported(op)
	}
	if high == low {
		o := goOwner(nil, nil)
		if o == 0 {
			return nil, noMemory(op)
		}
		return newExported(o, d), nil
	}
	d.Data = sliceAddr(s, opts.Offset)
	if err := d.check(op); err != nil {
		return nil, err
	}
	o, err := pinSlice(op, s)
	if err != nil {
		return nil, err
	}
	return newExported(o, d), nil
}

// reach returns the elements that the tensor touches, relative to the first
// one, as a half-open range. It is empty if there are no elements.
func (d *Desc) reach(op string) (low, high int64, err error) {
	// Everything but the address is checked: a handle may be anything.
	probe := *d
	probe.Data, probe.ByteOffset, probe.Device = 0, 0, Device{Type: DeviceOpenCL}
	if err := probe.check(op); err != nil {
		return 0, 0, err
	}
	for _, n := range d.Shape {
		if n == 0 {
			return 0, 0, nil
		}
	}
	high = 1
	for i, s := range d.strides() {
		if r := (d.Shape[i] - 1) * s; r < 0 {
			low += r
		} else {
			high += r
		}
	}
	return low, high, nil
}

func (d *Desc) check(op string) error {
	if p := d.problem(); p.kind != kindOK {
		return p.err(op)
	}
	return nil
}

// ExportDesc lends memory that is not Go's, such as a mapping or memory of a
// device. release, which may be nil, is called exactly once when Exported is
// closed and every consumer has released. It runs on any thread, must not
// block for long, and must not rely on the goroutine. It is not called in the
// child of a fork, nor once the process has begun to exit.
//
// Host and managed memory has device ID 0, or the error wraps [ErrDevice]
// (R036). On an error release is not called. The slices of d are copied.
func ExportDesc(d Desc, release func()) (*Exported, error) {
	const op = "dlpack: export"
	if err := d.checkOwn(op); err != nil {
		return nil, err
	}
	if !supported {
		return nil, notSupported(op)
	}
	o := goOwner(nil, release)
	if o == 0 {
		return nil, noMemory(op)
	}
	return newExported(o, d.clone()), nil
}

// ExportOwner lends memory that a C owner (ho_owner *) keeps. On success it
// takes over one reference; on an error the caller still has it. The
// description has to meet the same rules as for [ExportDesc].
func ExportOwner(owner uintptr, d Desc) (*Exported, error) {
	const op = "dlpack: export"
	if err := d.checkOwn(op); err != nil {
		return nil, err
	}
	switch {
	case !supported:
		return nil, notSupported(op)
	case owner == 0:
		return nil, (problem{kind: kindNull, rule: 45, what: whatNullStruct}).err(op)
	}
	return newExported(owner, d.clone()), nil
}

// RetainOwner adds a reference to a C owner (ho_owner *).
func RetainOwner(owner uintptr) {
	if owner != 0 {
		refOwner(owner)
	}
}

// ReleaseOwner gives back one reference on a C owner (ho_owner *). The last
// one runs what the owner was made for.
func ReleaseOwner(owner uintptr) {
	if owner != 0 {
		unrefOwner(owner)
	}
}

// Alloc returns new C memory for a row-major tensor on the CPU, cleared and
// aligned to 256 bytes (R040). Go's collector neither sees nor moves it, so it
// needs no pinning and its consumers never enter Go. opts may be nil; its
// Offset and DType are ignored.
//
// The error wraps [ErrNoMemory] if there is not enough.
func Alloc(dtype DataType, shape []int64, opts *ExportOptions) (*Exported, error) {
	const op = "dlpack: allocate"
	d := Desc{Device: CPU, DType: dtype, Shape: append([]int64{}, shape...)}
	if opts != nil {
		d.Flags = opts.Flags
	}
	low, high, err := d.reach(op)
	if err != nil {
		return nil, err
	}
	if !supported {
		return nil, notSupported(op)
	}
	size, err := dtype.ByteSize(high-low, d.Flags.Has(FlagSubbyteTypePadded))
	if err != nil {
		return nil, err
	}
	o, data := allocOwner(uint64(size))
	if o == 0 {
		return nil, &RuleError{Op: op, Detail: strconv.FormatInt(size, 10) + " bytes", Err: ErrNoMemory}
	}
	clear(cptr.Slice[byte](data, int(size)))
	d.Data = data
	return newExported(o, d), nil
}

// checkOwn is check with what a producer owes besides.
func (d *Desc) checkOwn(op string) error {
	if err := d.check(op); err != nil {
		return err
	}
	if d.Device.Type.HostAccessible() && d.Device.ID != 0 {
		return &RuleError{Rule: "R036", Op: op, Detail: "device " + d.Device.String() + ", not 0", Err: ErrDevice}
	}
	return nil
}

func (d *Desc) clone() Desc {
	c := *d
	c.Shape = append([]int64{}, d.Shape...)
	c.Strides = slices.Clone(d.Strides)
	return c
}

// Close gives up the reference of e. The memory stays valid for consumers that
// still have it. Only the first call has an effect; it returns nil.
func (e *Exported) Close() error {
	if !e.made() {
		return nil
	}
	e.cleanup.Stop()
	st := e.st
	st.mu.Lock()
	o := st.owner
	st.owner = 0
	st.mu.Unlock()
	if o != 0 {
		st.token.Done()
		unrefOwner(o)
	}
	runtime.KeepAlive(e)
	return nil
}

// Desc returns the description. Its slices are copies.
func (e *Exported) Desc() Desc {
	if !e.made() {
		return Desc{}
	}
	return e.desc.clone()
}

// made is false for nil and for the zero Exported, which are as if closed.
func (e *Exported) made() bool { return e != nil && e.st != nil }

// Bytes returns the memory of a tensor that [Alloc] made, or nil after Close.
// The slice must not be used after e is closed and all consumers have
// released; it does not keep them.
func (e *Exported) Bytes() []byte {
	o, err := e.ref("dlpack: bytes")
	if err != nil {
		return nil
	}
	defer unrefOwner(o)
	return cptr.Slice[byte](e.desc.Data, ownerBytes(o))
}

// ref returns a reference on the owner.
func (e *Exported) ref(op string) (uintptr, error) {
	if !e.made() {
		return 0, closed(op)
	}
	e.st.mu.Lock()
	defer e.st.mu.Unlock()
	if e.st.owner == 0 {
		return 0, closed(op)
	}
	refOwner(e.st.owner)
	return e.st.owner, nil
}

// Owner returns a reference on the C owner (ho_owner *), for C code that
// exports the memory further. The caller gives it back with [ReleaseOwner] or
// hands it to C code that does. The error wraps [ErrClosed] after Close.
func (e *Exported) Owner() (uintptr, error) { return e.ref("dlpack: share") }

// Export returns the address of a new managed tensor, versioned or legacy,
// which the caller owns: it must be handed to a consumer or released by its
// deleter. It allocates no Go memory. The rules are those of
// [Managed.Export].
func (e *Exported) Export(versioned bool) (uintptr, error) {
	const op = "dlpack: export"
	if !e.made() {
		return 0, closed(op)
	}
	e.st.mu.Lock()
	defer e.st.mu.Unlock()
	if e.st.owner == 0 {
		return 0, closed(op)
	}
	return exportChecked(op, e.st.owner, &e.desc, e.desc.Flags, versioned)
}

// View returns another description of the same memory as an Exported of its
// own, with its own reference. The caller vouches that d lies inside the
// memory. The read-only flag of e is added to that of d.
func (e *Exported) View(d Desc) (*Exported, error) {
	const op = "dlpack: view"
	if err := d.check(op); err != nil {
		return nil, err
	}
	o, err := e.ref(op)
	if err != nil {
		return nil, err
	}
	d.Flags |= e.desc.Flags & FlagReadOnly
	return newExported(o, d.clone()), nil
}

// exportDesc validates d and makes a managed tensor that takes its own
// reference on owner.
func exportDesc(op string, owner uintptr, d *Desc, flags Flags, versioned bool) (uintptr, error) {
	if err := d.check(op); err != nil {
		return 0, err
	}
	return exportChecked(op, owner, d, flags, versioned)
}

func exportChecked(op string, owner uintptr, d *Desc, flags Flags, versioned bool) (uintptr, error) {
	if !versioned {
		if err := legacyProblem(op, d.DType, flags); err != nil {
			return 0, err
		}
	}
	p := exportTensor(owner, d, flags, versioned)
	if p == 0 {
		return 0, noMemory(op)
	}
	return p, nil
}

// legacyProblem says what the form without a version cannot express.
func legacyProblem(op string, dtype DataType, flags Flags) error {
	if flags&FlagReadOnly != 0 {
		return &RuleError{Rule: "R057", Op: op, Detail: "an unversioned tensor cannot say that it is read-only", Err: ErrReadOnly}
	}
	if flags&FlagSubbyteTypePadded != 0 && dtype.SubByte() {
		return &RuleError{Rule: "R021", Op: op, Detail: "an unversioned tensor cannot say that " + dtype.String() + " is padded", Err: ErrLayout}
	}
	return nil
}

// Stats are counters of what is alive, for tests and monitoring.
type Stats struct {
	// Exports is the number of managed tensors that were exported and not
	// released yet.
	Exports int64
	// Pinned is the number of Go slices and release functions that exports
	// keep.
	Pinned int64
	// ReleasePanics counts release functions that panicked. The panic ends
	// there: it cannot cross the C frames above.
	ReleasePanics int64
}

// ReadStats returns the counters of the process.
func ReadStats() Stats {
	return Stats{Exports: liveExports(), Pinned: owners.count(), ReleasePanics: releasePanics.Load()}
}
