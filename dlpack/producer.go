package dlpack

import (
	"math"
	"strconv"
)

// Producer is implemented by what can be lent: [*Exported] and [Managed] here,
// array types of other Go libraries elsewhere. It is __dlpack_device__ and
// __dlpack__ of the Python protocol in Go.
type Producer interface {
	// DLPackDevice returns where the memory is. DLPack reports the same
	// device unless it was asked for another one (R155).
	DLPackDevice() (Device, error)
	// DLPack exports the memory as the request asks. Each call gives an
	// independent tensor (R070). See [Request.Plan] for the rules; an
	// implementation that makes a plan and follows it obeys them.
	DLPack(Request) (Capsule, error)
}

// Names of the Python capsules that hold the two structs, fresh and taken
// (R071, R072, R075).
const (
	NameLegacy        = "dltensor"
	NameVersioned     = "dltensor_versioned"
	NameUsedLegacy    = "used_dltensor"
	NameUsedVersioned = "used_dltensor_versioned"
	NameExchange      = "dlpack_exchange_api"
)

// Capsule is a managed tensor on its way to a consumer. Whoever has it owns
// the tensor: it must be imported, closed, or handed on by its address. It is
// a plain value; using two copies is an error that it cannot see, as with any
// raw pointer. Its zero value holds nothing.
type Capsule struct {
	// Addr is the address of the struct.
	Addr uintptr
	// Versioned says which struct it is. Nothing else decides that (R073).
	Versioned bool
}

// Name returns the name of a fresh Python capsule for the struct.
func (c Capsule) Name() string {
	if c.Versioned {
		return NameVersioned
	}
	return NameLegacy
}

// Import takes over the tensor; see [ImportVersioned].
func (c Capsule) Import() (Managed, error) {
	if c.Versioned {
		return ImportVersioned(c.Addr)
	}
	return ImportLegacy(c.Addr)
}

// Close releases the tensor unconsumed: its deleter runs, if it has one.
func (c Capsule) Close() error {
	if c.Addr != 0 && supported {
		releaseTensor(c.Addr, 0, !c.Versioned)
	}
	return nil
}

// CopyMode says whether a producer may copy. The zero value is CopyIfNeeded.
type CopyMode uint8

// Copy modes; the values of the Python argument are None, True and False.
const (
	CopyIfNeeded CopyMode = 0 // share, or copy if there is no other way (R152)
	CopyAlways   CopyMode = 1 // always a fresh copy, flagged as such (R150)
	CopyNever    CopyMode = 2 // never a copy, an error if one is needed (R151)
)

// String returns "if needed", "always" or "never".
func (m CopyMode) String() string {
	switch m {
	case CopyIfNeeded:
		return "if needed"
	case CopyAlways:
		return "always"
	case CopyNever:
		return "never"
	}
	return "CopyMode(" + strconv.Itoa(int(m)) + ")"
}

// StreamArg is the stream argument of the Python protocol as it was given: an
// integer of any size that fits 64 bits, or nothing. Its zero value is None.
// [StreamArg.Check] says what it means.
type StreamArg struct {
	given    bool
	negative bool
	abs      uint64
}

// StreamInt returns the argument for an integer.
func StreamInt(n int64) StreamArg {
	if n < 0 {
		return StreamArg{true, true, -uint64(n)}
	}
	return StreamArg{true, false, uint64(n)}
}

// StreamUint returns the argument for an integer that may pass 63 bits, such
// as a stream handle.
func StreamUint(n uint64) StreamArg { return StreamArg{true, false, n} }

// IsNone reports whether no stream was given.
func (a StreamArg) IsNone() bool { return !a.given }

// Int64 returns the integer, and whether one was given and fits.
func (a StreamArg) Int64() (int64, bool) {
	switch {
	case !a.given:
		return 0, false
	case a.negative:
		return int64(-a.abs), a.abs <= 1<<63
	}
	return int64(a.abs), a.abs <= math.MaxInt64
}

// String returns the integer, or "None".
func (a StreamArg) String() string {
	if !a.given {
		return "None"
	}
	s := strconv.FormatUint(a.abs, 10)
	if a.negative {
		s = "-" + s
	}
	return s
}

// StreamKind says what a stream argument means.
type StreamKind uint8

// Meanings of a stream argument.
const (
	// StreamNone: the device has no streams. Nothing to order.
	StreamNone StreamKind = 0
	// StreamNoSync: the producer must not synchronize (R127).
	StreamNoSync StreamKind = 1
	// StreamLegacy: the legacy default stream; also what None means on CUDA
	// (R126, R129). On ROCm, the default stream (R133).
	StreamLegacy StreamKind = 2
	// StreamPerThread: the per-thread default stream (R130). It depends on
	// the operating-system thread, which a goroutine may change.
	StreamPerThread StreamKind = 3
	// StreamHandle: the stream with this handle (R131).
	StreamHandle StreamKind = 4
	// StreamPrivate: the device is none for which the standard says what the
	// integer means; the two sides must agree on it.
	StreamPrivate StreamKind = 5
)

// String returns a name such as "legacy default".
func (k StreamKind) String() string {
	names := [...]string{"none", "no sync", "legacy default", "per-thread default", "handle", "private"}
	if int(k) < len(names) {
		return names[k]
	}
	return "StreamKind(" + strconv.Itoa(int(k)) + ")"
}

// StreamUse is a stream argument that was checked for a device.
type StreamUse struct {
	Kind StreamKind
	// Handle is the raw handle for StreamHandle, the integer for
	// StreamPrivate, and 0 otherwise. A handle is a number, never a pointer.
	Handle uint64
}

// Check gives the meaning of the argument on a device. The error wraps
// [ErrStream] for 0 on CUDA (R128), 1 and 2 on ROCm (R134), below -1 (R132),
// and anything given for a device without streams (R135), where -1 is
// tolerated because it asks for nothing. Pinned and managed memory count as
// the device type that they belong to.
func (a StreamArg) Check(t DeviceType) (StreamUse, error) {
	bad := func(rule, detail string) (StreamUse, error) {
		return StreamUse{}, &RuleError{
			Rule: rule, Op: "dlpack: stream",
			Detail: "stream " + a.String() + " on " + t.String() + ": " + detail, Err: ErrStream,
		}
	}
	minusOne := a.given && a.negative && a.abs == 1
	if a.negative && !minusOne {
		return bad("R132", "below -1")
	}
	switch t {
	case DeviceCUDA, DeviceCUDAHost, DeviceCUDAManaged:
		switch {
		case !a.given, !a.negative && a.abs == 1:
			return StreamUse{Kind: StreamLegacy}, nil
		case minusOne:
			return StreamUse{Kind: StreamNoSync}, nil
		case a.abs == 0:
			return bad("R128", "ambiguous, say 1 for the legacy default stream or 2 for the per-thread one")
		case a.abs == 2:
			return StreamUse{Kind: StreamPerThread}, nil
		}
		return StreamUse{Kind: StreamHandle, Handle: a.abs}, nil
	case DeviceROCM, DeviceROCMHost:
		switch {
		case !a.given, !a.negative && a.abs == 0:
			return StreamUse{Kind: StreamLegacy}, nil
		case minusOne:
			return StreamUse{Kind: StreamNoSync}, nil
		case a.abs <= 2:
			return bad("R134", "not a stream there, say 0 for the default stream")
		}
		return StreamUse{Kind: StreamHandle, Handle: a.abs}, nil
	case DeviceCPU:
		switch {
		case !a.given:
			return StreamUse{Kind: StreamNone}, nil
		case minusOne:
			return StreamUse{Kind: StreamNoSync}, nil
		}
		return bad("R135", "the device has no streams")
	}
	switch {
	case !a.given:
		return StreamUse{Kind: StreamNone}, nil
	case minusOne:
		return StreamUse{Kind: StreamNoSync}, nil
	}
	return StreamUse{Kind: StreamPrivate, Handle: a.abs}, nil
}

// StreamArgOf returns the argument by which a consumer names its stream to a
// producer on a device of the type, from a raw handle (R141, R142). A CUDA
// handle 0 is the legacy default stream unless perThread says that the
// consumer is built with the per-thread one. On ROCm 0 stays 0, while 1, 2
// and perThread wrap [ErrStream]. A CPU has no stream: the result is None for
// 0.
func StreamArgOf(t DeviceType, handle uint64, perThread bool) (StreamArg, error) {
	switch t {
	case DeviceCUDA, DeviceCUDAHost, DeviceCUDAManaged:
		if handle == 0 {
			if perThread {
				return StreamInt(2), nil
			}
			return StreamInt(1), nil
		}
		return StreamUint(handle), nil
	case DeviceROCM, DeviceROCMHost:
		if handle == 1 || handle == 2 || handle == 0 && perThread {
			return StreamArg{}, &RuleError{Rule: "R134", Op: "dlpack: stream", Detail: "the named streams of ROCm cannot be passed", Err: ErrStream}
		}
		return StreamUint(handle), nil
	}
	if handle == 0 {
		return StreamArg{}, nil
	}
	a := StreamUint(handle)
	_, err := a.Check(t)
	return a, err
}

// Request is what a consumer asks of a producer: the arguments of __dlpack__.
// Its zero value asks for an unversioned tensor on the device where the memory
// is, shared if possible, for the legacy default stream where there is one.
type Request struct {
	// Stream is where the consumer will use the data.
	Stream StreamArg
	// MaxVersion is the highest version that the consumer takes. The zero
	// Version and every other of major 0 ask for the form without a version
	// (R116, R119).
	MaxVersion Version
	// Device is where the consumer wants the data, the zero Device for where
	// it is (R143).
	Device Device
	// Copy says whether a copy may, must or must not be made.
	Copy CopyMode
}

// Offer is what a producer has and can do, for [Request.Plan].
type Offer struct {
	// Device is where the memory is.
	Device Device
	// DType and Flags describe it. FlagIsCopied is ignored.
	DType DataType
	Flags Flags
	// CanCopy says that the producer can make a copy on the same device.
	CanCopy bool
	// CanCopyTo, if not nil, says for which other devices it can make a copy.
	CanCopyTo func(Device) bool
}

// Plan is how a request is to be answered.
type Plan struct {
	// Versioned says which struct to return. A versioned one has
	// [ABIVersion], also if the consumer's minor is lower (R117, R118).
	Versioned bool
	// Copy says that a fresh copy has to be made. It is then flagged
	// [FlagIsCopied] (R017) and is not read-only.
	Copy bool
	// Device is the device to report (R149).
	Device Device
	// Flags are the flags of the result.
	Flags Flags
	// Stream is the consumer's stream: pending writes have to be ordered
	// before later work on it, and a copy is queued on it (R137, R153). Its
	// kind is StreamNone or StreamNoSync if there is nothing to order.
	Stream StreamUse
	// HostSync says that the data must be complete and visible to the host
	// when the call returns (R146): memory that a device touches is asked for
	// as CPU memory.
	HostSync bool
}

// Plan decides how a producer answers: it applies the rules R116 to R119, R126
// to R136, R143 to R152, R057 and R021. The error wraps [ErrStream] for a bad
// stream, [ErrDevice] for a device that cannot be served, [ErrCopy] if a copy
// is needed and forbidden or asked for and not possible, [ErrReadOnly] or
// [ErrLayout] if the form without a version cannot express the data.
//
// An unversioned copy cannot be flagged as one (R017), so CopyAlways with such
// a request is answered with an unflagged copy: the memory is fresh all the
// same.
func (r *Request) Plan(o *Offer) (Plan, error) {
	const op = "dlpack: request"
	if r == nil || o == nil {
		return Plan{}, &RuleError{Op: op, Detail: "no request, or no offer", Err: ErrNull}
	}
	p := Plan{Device: o.Device, Versioned: r.MaxVersion.Major >= ABIVersion.Major, Flags: o.Flags &^ FlagIsCopied}
	moved := false
	if r.Device != (Device{}) && r.Device != o.Device {
		p.Device = r.Device
		if !r.Device.Type.Known() {
			return Plan{}, (problem{kind: kindDevice, rule: 144, what: whatDevice, a: int64(r.Device.Type)}).err(op)
		}
		// Host memory that a device knows is CPU memory as well.
		moved = r.Device != CPU || !o.Device.Type.HostAccessible()
	}
	var err error
	if p.Stream, err = r.Stream.Check(p.Device.Type); err != nil {
		return Plan{}, err
	}
	p.HostSync = p.Device == CPU && o.Device.Type != DeviceCPU
	if r.Copy > CopyNever {
		return Plan{}, &RuleError{Op: op, Detail: r.Copy.String(), Err: ErrCopy}
	}
	switch {
	case moved && (o.CanCopyTo == nil || !o.CanCopyTo(p.Device)):
		return Plan{}, &RuleError{Rule: "R144", Op: op, Detail: o.Device.String() + " cannot be given as " + p.Device.String(), Err: ErrDevice}
	case moved && r.Copy == CopyNever:
		return Plan{}, &RuleError{Rule: "R151", Op: op, Detail: o.Device.String() + " as " + p.Device.String() + " needs a copy", Err: ErrCopy}
	case !moved && r.Copy == CopyAlways && !o.CanCopy:
		return Plan{}, &RuleError{Rule: "R150", Op: op, Detail: "the producer cannot copy", Err: ErrCopy}
	}
	p.Copy = moved || r.Copy == CopyAlways
	if p.Copy {
		p.Flags &^= FlagReadOnly
	}
	if !p.Versioned {
		if err := legacyProblem(op, o.DType, p.Flags); err != nil {
			return Plan{}, err
		}
	}
	if p.Copy && p.Versioned {
		p.Flags |= FlagIsCopied
	}
	return p, nil
}

// From asks a producer for its data as the newest version that this package
// knows and takes over what it returns: from_dlpack in Go. r may be nil; its
// MaxVersion is replaced. What the producer returned decides the form, not
// what it was asked for (R121, B107).
//
// On success the caller owns the result. On an error nothing is left behind;
// errors of the producer pass through unchanged (R163).
func From(p Producer, r *Request) (Managed, error) {
	const op = "dlpack: from"
	req := Request{}
	if r != nil {
		req = *r
	}
	req.MaxVersion = ABIVersion
	if p == nil {
		return Managed{}, &RuleError{Op: op, Detail: "no producer", Err: ErrNull}
	}
	c, err := p.DLPack(req)
	if err != nil {
		return Managed{}, err
	}
	m, err := c.Import()
	if err != nil {
		return Managed{}, err
	}
	if req.Device != (Device{}) && m.Device() != req.Device {
		err = &RuleError{Rule: "R149", Op: op, Detail: "asked for " + req.Device.String() + ", got " + m.Device().String(), Err: ErrDevice}
	} else if req.Copy == CopyAlways && !m.Legacy() && !m.Flags().Has(FlagIsCopied) {
		err = &RuleError{Rule: "R150", Op: op, Detail: "asked for a copy, got shared memory", Err: ErrCopy}
	}
	if err != nil {
		m.Release()
		return Managed{}, err
	}
	return m, nil
}

// DLPackDevice returns the device of the memory. It implements [Producer].
func (e *Exported) DLPackDevice() (Device, error) {
	if !e.made() {
		return Device{}, closed("dlpack: device")
	}
	return e.desc.Device, nil
}

// DLPack exports the memory as r asks. It implements [Producer]: the memory is
// shared, or copied for CopyAlways if it is CPU memory with elements of whole
// bytes. It does not order: whoever exports memory that a device touches makes
// a Producer of his own that does. So r.Stream is only checked, and a request
// for memory of a device as CPU memory is refused.
func (e *Exported) DLPack(r Request) (Capsule, error) {
	const op = "dlpack: export"
	o, err := e.ref(op)
	if err != nil {
		return Capsule{}, err
	}
	defer unrefOwner(o)
	return answer(op, &r, o, e.desc, e.desc.Flags)
}

// DLPackDevice returns the device of the memory. It implements [Producer].
func (m Managed) DLPackDevice() (Device, error) {
	if !m.IsLive() {
		return Device{}, closed("dlpack: device")
	}
	return m.Device(), nil
}

// DLPack exports the memory as r asks, like [Exported.DLPack].
func (m Managed) DLPack(r Request) (Capsule, error) {
	const op = "dlpack: export"
	o, err := m.Owner()
	if err != nil {
		return Capsule{}, err
	}
	defer unrefOwner(o)
	d, err := m.Desc()
	if err != nil {
		return Capsule{}, err
	}
	return answer(op, &r, o, d, d.Flags&^FlagIsCopied)
}

// answer follows the plan for a request. The caller holds a reference on
// owner; flags are those of a shared result.
func answer(op string, r *Request, owner uintptr, d Desc, flags Flags) (Capsule, error) {
	offer := Offer{Device: d.Device, DType: d.DType, Flags: d.Flags, CanCopy: d.Device.Type == DeviceCPU && !d.DType.SubByte()}
	p, err := r.Plan(&offer)
	if err != nil {
		return Capsule{}, err
	}
	if p.HostSync {
		// Only somebody who knows the pending work can promise this.
		return Capsule{}, &RuleError{Rule: "R146", Op: op, Detail: d.Device.String() + " cannot be made complete for the host here", Err: ErrDevice}
	}
	var addr uintptr
	if p.Copy {
		var e *Exported
		if e, err = copyHost(&d, p.Flags); err == nil {
			addr, err = e.Export(p.Versioned)
			_ = e.Close() // always nil; the export has its own reference
		}
	} else {
		d.Device = p.Device
		addr, err = exportChecked(op, owner, &d, flags, p.Versioned)
	}
	if err != nil {
		return Capsule{}, err
	}
	return Capsule{addr, p.Versioned}, nil
}

// copyHost returns a row-major copy of host memory with whole-byte elements.
// The memory of d must be kept by the caller.
func copyHost(d *Desc, flags Flags) (*Exported, error) {
	e, err := Alloc(d.DType, d.Shape, &ExportOptions{Flags: flags})
	if err != nil {
		return nil, err
	}
	if dst := e.Bytes(); len(dst) > 0 {
		gather(dst, d.Addr(), d.Shape, d.strides(), d.DType.ItemSize())
	}
	return e, nil
}
