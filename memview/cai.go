package memview

import (
	"errors"
	"strconv"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/stream"
)

// CAIOptions tune [FromCAI] and [ImportCAI]. The zero value is the default.
type CAIOptions struct {
	// DType tells how to read element types that the interface does not spell
	// out; see [cai.DTypeOptions].
	DType *cai.DTypeOptions
	// Device says where the memory is, for callers who know. The zero Device
	// asks the driver (R195, R288).
	Device dlpack.Device
	// Producer is the producer's stream, for descriptions that cannot name
	// one: versions below 3. A stream in the description goes before it.
	Producer stream.StreamView
	// Writable refuses memory that must not be written, with
	// [dlpack.ErrReadOnly] (R175).
	Writable bool
}

// ImportCAI is [FromCAI] for a producer. The view keeps p reachable until it
// is released (R194); the producer must not be closed before.
func ImportCAI(p cai.Producer, order stream.Order, opts *CAIOptions) (StridedMemoryView, error) {
	if p == nil {
		return StridedMemoryView{}, fail("cai", "", dlpack.ErrNull, "no producer")
	}
	i, err := p.CUDAArrayInterface()
	if err != nil {
		return StridedMemoryView{}, err
	}
	return FromCAI(&i, OnRelease(p, nil), order, opts)
}

// FromCAI makes a view from a CUDA Array Interface of any version. The owner
// must be named, see [Owner]: it keeps the object that published the
// description. The view takes over its claim on success only.
//
// If the description names a stream, the stream of [stream.On] waits for it,
// by one event edge; with None nothing is pending, and none is made (R183,
// R188). Versions below 3 cannot name a stream: nothing is promised, and unless
// opts.Producer says more the caller has ordered ([cai.Interface.Ordering]).
// The stream is kept as [StridedMemoryView.ProducerStream], so that
// [StridedMemoryView.ReleaseOn] can order the way back (R189).
//
// The interface names no device: the driver is asked whose memory it is, in one
// call, unless there are no elements (B039, B040, B042). Pinned memory becomes
// device type 3, managed 13 (B263), pageable memory that the devices reach by
// the host's page tables 1 (B271). An address that no device reaches gives an
// error wrapping [dlpack.ErrDevice] (R172).
//
// Other errors are those of [cai.Interface.Check], [cai.Interface.Desc] and
// [StridedMemoryView.Ordered].
func FromCAI(i *cai.Interface, owner Owner, order stream.Order, opts *CAIOptions) (StridedMemoryView, error) {
	const op = "cai"
	var o CAIOptions
	if opts != nil {
		o = *opts
	}
	if owner.kind == ownerNone {
		return StridedMemoryView{}, errNoOwner(op)
	}
	if i == nil {
		return StridedMemoryView{}, fail(op, "", dlpack.ErrNull, "no interface")
	}
	if err := i.Check(); err != nil {
		return StridedMemoryView{}, fail(op, "", err, "")
	}
	if err := order.Check(); err != nil {
		return StridedMemoryView{}, fail(op, "", err, "memory of a GPU: say On(stream) or NoSync()")
	}
	if o.Writable && i.ReadOnly {
		return StridedMemoryView{}, fail(op, "R175", dlpack.ErrReadOnly, "the memory may not be written")
	}
	dev, p, err := locate(i, order, &o)
	if err != nil {
		return StridedMemoryView{}, err
	}
	d, err := i.Desc(dev, o.DType)
	if err != nil {
		return StridedMemoryView{}, fail(op, "", err, "")
	}
	var v StridedMemoryView
	if err := v.setDesc(&d, &owner); err != nil {
		return StridedMemoryView{}, err
	}
	v.place = &p
	if v.layout.empty() {
		if on, ok := order.Stream(); ok {
			p.on = on
		}
		return v, nil
	}
	from := o.Producer
	if handle, ok := i.Stream.Handle(); ok {
		if from, err = producerOf(p.device, handle, order); err != nil {
			return StridedMemoryView{}, fail(op, "R187", err, "stream "+i.Stream.String())
		}
	}
	if v, err = v.Ordered(from, order); err != nil {
		return StridedMemoryView{}, err
	}
	return v, nil
}

// producerOf identifies the stream of a description, and spares the driver the
// question if it is the consumer's own.
func producerOf(dev int32, handle uintptr, order stream.Order) (stream.StreamView, error) {
	on, ok := order.Stream()
	if ok && on.Kind() == stream.KindCreated && uintptr(on.Handle()) == handle {
		return on, nil
	}
	return ProducerStreamOf(dlpack.Device{Type: dlpack.DeviceCUDA, ID: max(dev, 0)}, handle, nil)
}

// locate finds out whose memory a description is about.
func locate(i *cai.Interface, order stream.Order, o *CAIOptions) (dlpack.Device, place, error) {
	const op = "cai"
	if o.Device != (dlpack.Device{}) {
		switch o.Device.Type {
		case dlpack.DeviceCUDA, dlpack.DeviceCUDAHost, dlpack.DeviceCUDAManaged:
			return o.Device, placeOf(o.Device), nil
		}
		return dlpack.Device{}, place{}, fail(op, "R172", dlpack.ErrDevice, o.Device.String()+" memory is out of reach of a CUDA device")
	}
	if i.Size() == 0 {
		d := dlpack.Device{Type: dlpack.DeviceCUDA}
		if on, ok := order.Stream(); ok {
			d.ID = int32(on.Device())
		}
		return d, placeOf(d), nil
	}
	info, err := device.InfoOf(driver.DevicePtr(i.Data))
	if err != nil {
		return dlpack.Device{}, place{}, fail(op, "R195", err, addressText(i.Data))
	}
	if !info.DeviceAccessible {
		return dlpack.Device{}, place{}, fail(op, "R172", dlpack.ErrDevice, addressText(i.Data)+" is not known to the driver")
	}
	var p place
	p.setInfo(info)
	d := dlpack.Device{Type: info.DeviceType()}
	if d.Type == dlpack.DeviceCUDA {
		d.ID = p.device
	}
	return d, p, nil
}

func addressText(a uintptr) string { return "address 0x" + strconv.FormatUint(uint64(a), 16) }

// CUDAArrayInterface describes the view by version 3 of the CUDA Array
// Interface; it makes a view a [cai.Producer]. The stream is the one that knows
// of all work on the memory: [StridedMemoryView.Stream], or else the producer's
// (R191). It is None if the view knows of no stream or all of its work is done
// (R192); a stream that captures is named without being asked (B231).
//
// The description owns nothing: the caller keeps the view. An empty view has
// address 0 (R173, R287), read-only stays read-only (R280). Errors wrap
// [dlpack.ErrClosed], [dlpack.ErrDevice] for memory out of reach of a CUDA
// device (R199), and [dlpack.ErrDType] for types without a typestr (R198).
func (v StridedMemoryView) CUDAArrayInterface() (cai.Interface, error) {
	const op = "cai"
	if v.layout.width == 0 {
		return cai.Interface{}, fail(op, "", dlpack.ErrNull, "the view is the zero value")
	}
	if !v.owner.live() {
		return cai.Interface{}, errReleased(op)
	}
	d, err := v.Desc()
	if err != nil {
		return cai.Interface{}, err
	}
	if d.Device.Type == dlpack.DeviceCPU && v.IsDeviceAccessible() {
		d.Device.Type = dlpack.DeviceCUDAHost // pinned memory that was announced as CPU memory
	}
	if v.layout.empty() {
		d.Data = 0
	}
	arg := cai.NoStream
	if s := v.pending(); s.Valid() && !v.layout.empty() {
		idle, err := isIdle(s)
		if err != nil {
			return cai.Interface{}, fail(op, "", err, "")
		}
		if !idle {
			arg = s.Argument()
		}
	}
	i, err := cai.FromDesc(&d, arg)
	if err != nil {
		return cai.Interface{}, fail(op, "", err, "")
	}
	return i, nil
}

// isIdle reports whether nothing is pending on a stream. A stream that
// captures has something pending.
func isIdle(s stream.StreamView) (bool, error) {
	ds, err := device.Wrap(s, nil)
	if err != nil {
		return false, err
	}
	done, err := ds.Done()
	if errors.Is(err, device.ErrCapture) {
		return false, nil
	}
	return done, err
}
