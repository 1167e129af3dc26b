package device

import (
	"context"
	"encoding/hex"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"

	"github.com/go-handoff/handoff/device/driver"
)

// Device is a CUDA device of this process. There is one Device an ordinal; it
// is never closed, may be used from any goroutine, and compares with ==.
//
// Its primary context is taken when it is first needed and kept as long as the
// process runs, as the CUDA runtime and the array libraries do.
type Device struct {
	d       *driver.Driver
	ordinal driver.Device

	mu      sync.Mutex
	primary *Context
	pool    *DevicePool
	props   *Properties
	name    string
	uuid    UUID
	pci     string
}

// UUID identifies a physical device, or a slice of one.
type UUID [16]byte

// String returns the form "GPU-…" that NVIDIA's tools print.
func (u UUID) String() string {
	s := hex.EncodeToString(u[:])
	return "GPU-" + s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// devices holds the Devices of the process, made once.
var devices struct {
	sync.Mutex
	list []*Device
}

// all returns every device.
func all() ([]*Device, error) {
	d, err := lib()
	if err != nil {
		return nil, err
	}
	devices.Lock()
	defer devices.Unlock()
	if devices.list != nil {
		return devices.list, nil
	}
	n, res := d.DeviceGetCount()
	if err := check("count devices", -1, res); err != nil {
		return nil, err
	}
	list := make([]*Device, n)
	for i := range list {
		dev, res := d.DeviceGet(int32(i))
		if err := check("get device", driver.Device(i), res); err != nil {
			return nil, err
		}
		list[i] = &Device{d: d, ordinal: dev}
	}
	devices.list = list
	return list, nil
}

// Count returns the number of devices that this process may use, which
// CUDA_VISIBLE_DEVICES limits.
func Count() (int, error) {
	list, err := all()
	return len(list), err
}

// Open returns the device with an ordinal: its number in this process, never
// the number that some framework gives it. Errors: [ErrNoDriver], [ErrNoDevice],
// [ErrInvalidDevice].
func Open(ordinal int) (*Device, error) {
	list, err := all()
	if err != nil {
		return nil, err
	}
	if ordinal < 0 || ordinal >= len(list) {
		return nil, &Error{
			Op: "open device " + strconv.Itoa(ordinal), Device: -1, Code: driver.ErrorInvalidDevice,
			Detail: fmt.Sprintf("this process has %d", len(list)),
		}
	}
	return list[ordinal], nil
}

// Devices yields all devices in order. If there is no driver it yields nil and
// the error, once.
func Devices() iter.Seq2[*Device, error] {
	return func(yield func(*Device, error) bool) {
		list, err := all()
		if err != nil {
			yield(nil, err)
			return
		}
		for _, d := range list {
			if !yield(d, nil) {
				return
			}
		}
	}
}

// ByUUID finds a device. One that this process cannot see gives
// [ErrInvalidDevice].
func ByUUID(id UUID) (*Device, error) {
	var failed error
	for d, err := range Devices() {
		if err != nil {
			return nil, err
		}
		have, err := d.UUID()
		if err == nil && have == id {
			return d, nil
		}
		failed = join(failed, err)
	}
	if failed != nil {
		return nil, failed // it may have been this one
	}
	return nil, &Error{Op: "find device " + id.String(), Device: -1, Code: driver.ErrorInvalidDevice, Detail: "not visible to this process"}
}

// ByPCIBusID finds a device by "domain:bus:device.function".
func ByPCIBusID(id string) (*Device, error) {
	d, err := lib()
	if err != nil {
		return nil, err
	}
	dev, res := d.DeviceGetByPCIBusId(id)
	if err := check("find device "+strconv.Quote(id), -1, res); err != nil {
		return nil, err
	}
	return Open(int(dev))
}

// check refuses nil and the zero value, which are no device.
func (d *Device) check(op string) error {
	if d == nil || d.d == nil {
		return &Error{Op: op, Device: -1, Code: driver.ErrorInvalidDevice, Detail: "there is no device"}
	}
	return nil
}

// Ordinal returns the number of the device in this process; -1 for nil and the
// zero value.
func (d *Device) Ordinal() int {
	if d == nil || d.d == nil {
		return -1
	}
	return int(d.ordinal)
}

// Handle returns the driver's handle, which is the ordinal;
// [driver.DeviceInvalid] for nil and the zero value.
func (d *Device) Handle() driver.Device {
	if d == nil || d.d == nil {
		return driver.DeviceInvalid
	}
	return d.ordinal
}

// Driver returns the driver that serves the device, for calls that this
// package has no method for.
func (d *Device) Driver() *driver.Driver {
	if d == nil {
		return nil
	}
	return d.d
}

// String returns "device 0".
func (d *Device) String() string {
	if d == nil || d.d == nil {
		return "no device"
	}
	return "device " + strconv.Itoa(int(d.ordinal))
}

// Name returns the name of the device.
func (d *Device) Name() (string, error) {
	if err := d.check("name"); err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.name == "" {
		var text [256]byte
		if err := check("name", d.ordinal, d.d.DeviceGetName(text[:], d.ordinal)); err != nil {
			return "", err
		}
		d.name = cut(text[:])
	}
	return d.name, nil
}

// UUID returns the identifier of the physical device.
func (d *Device) UUID() (UUID, error) {
	if err := d.check("uuid"); err != nil {
		return UUID{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uuid == (UUID{}) {
		id, res := d.d.DeviceGetUuid(d.ordinal)
		if err := check("uuid", d.ordinal, res); err != nil {
			return UUID{}, err
		}
		d.uuid = UUID(id)
	}
	return d.uuid, nil
}

// PCIBusID returns "domain:bus:device.function".
func (d *Device) PCIBusID() (string, error) {
	if err := d.check("pci bus id"); err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pci == "" {
		var text [32]byte
		if err := check("pci bus id", d.ordinal, d.d.DeviceGetPCIBusId(text[:], d.ordinal)); err != nil {
			return "", err
		}
		d.pci = cut(text[:])
	}
	return d.pci, nil
}

// cut returns the text before the first zero byte.
func cut(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}

// TotalMemory returns the size of the device's memory in bytes.
func (d *Device) TotalMemory() (uint64, error) {
	if err := d.check("total memory"); err != nil {
		return 0, err
	}
	n, res := d.d.DeviceTotalMem(d.ordinal)
	return uint64(n), check("total memory", d.ordinal, res)
}

// MemoryInfo returns the free and the total memory in bytes.
func (d *Device) MemoryInfo() (free, total uint64, err error) {
	ctx, err := d.PrimaryContext()
	if err != nil {
		return 0, 0, err
	}
	f, t, res := d.d.MemGetInfo(ctx.handle)
	return uint64(f), uint64(t), check("memory info", d.ordinal, res)
}

// Properties are the attributes of a device, read once.
type Properties struct {
	values map[driver.DeviceAttribute]int
}

// Properties returns all attributes, which are asked for in one crossing and
// kept.
func (d *Device) Properties() (*Properties, error) {
	if err := d.check("properties"); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.props != nil {
		return d.props, nil
	}
	var attrs []driver.DeviceAttribute
	for a := range driver.DeviceAttributes {
		attrs = append(attrs, a)
	}
	values := make([]int32, len(attrs))
	results := make([]driver.Result, len(attrs))
	if err := check("properties", d.ordinal, d.d.DeviceGetAttributes(d.ordinal, attrs, values, results)); err != nil {
		return nil, err
	}
	p, known := &Properties{values: make(map[driver.DeviceAttribute]int, len(attrs))}, true
	for i, a := range attrs {
		switch results[i] {
		case driver.Success:
			p.values[a] = int(values[i])
		case driver.ErrorInvalidValue, driver.ErrorNotSupported: // the driver does not know it
		default:
			known = false
		}
	}
	if known { // an answer that another call may give otherwise is not kept
		d.props = p
	}
	return p, nil
}

// Get returns an attribute by number; ok is false if the driver does not know
// it.
func (p *Properties) Get(a driver.DeviceAttribute) (value int, ok bool) {
	if p == nil {
		return 0, false
	}
	value, ok = p.values[a]
	return value, ok
}

// ByName returns an attribute by its name, the driver's in lower case without
// the prefix: "multiprocessor_count".
func (p *Properties) ByName(name string) (value int, ok bool) {
	a, ok := driver.ParseDeviceAttribute(name)
	if !ok {
		return 0, false
	}
	return p.Get(a)
}

// All yields the attributes that the driver knows, in the order of their
// numbers.
func (p *Properties) All() iter.Seq2[driver.DeviceAttribute, int] {
	return func(yield func(driver.DeviceAttribute, int) bool) {
		for a := range driver.DeviceAttributes {
			if v, ok := p.Get(a); ok && !yield(a, v) {
				return
			}
		}
	}
}

// Attribute returns one attribute, from the properties.
func (d *Device) Attribute(a driver.DeviceAttribute) (int, error) {
	p, err := d.Properties()
	if err != nil {
		return 0, err
	}
	if v, ok := p.Get(a); ok {
		return v, nil
	}
	v, res := d.d.DeviceGetAttribute(a, d.ordinal)
	return int(v), check("attribute "+a.String(), d.ordinal, res)
}

// ComputeCapability returns the version of the device's architecture.
func (d *Device) ComputeCapability() (major, minor int, err error) {
	if major, err = d.Attribute(driver.AttrComputeCapabilityMajor); err != nil {
		return 0, 0, err
	}
	minor, err = d.Attribute(driver.AttrComputeCapabilityMinor)
	return major, minor, err
}

// Arch returns the compute capability as compilers name it: "90".
func (d *Device) Arch() (string, error) {
	major, minor, err := d.ComputeCapability()
	return strconv.Itoa(major) + strconv.Itoa(minor), err
}

// PrimaryContext returns the context that the CUDA runtime, and with it most
// libraries, use on the device. It is taken once and kept.
func (d *Device) PrimaryContext() (*Context, error) {
	if err := d.check("retain primary context"); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.primary != nil {
		return d.primary, nil
	}
	h, res := d.d.DevicePrimaryCtxRetain(d.ordinal)
	if err := check("retain primary context", d.ordinal, res); err != nil {
		return nil, err // B279: this code, and nothing sticky
	}
	d.primary = contexts.adopt(d, h, contextPrimary, 0)
	return d.primary, nil
}

// SetCurrent makes the primary context current for code that relies on the
// calling thread: see [Context.SetCurrent].
func (d *Device) SetCurrent() (restore func() error, err error) {
	ctx, err := d.PrimaryContext()
	if err != nil {
		return nil, err
	}
	return ctx.SetCurrent()
}

// NewStream creates a stream in the primary context. opts may be nil.
func (d *Device) NewStream(opts *StreamOptions) (*Stream, error) {
	ctx, err := d.PrimaryContext()
	if err != nil {
		return nil, err
	}
	return ctx.NewStream(opts)
}

// NewEvent creates an event in the primary context. opts may be nil.
func (d *Device) NewEvent(opts *EventOptions) (*Event, error) {
	ctx, err := d.PrimaryContext()
	if err != nil {
		return nil, err
	}
	return ctx.NewEvent(opts)
}

// DefaultStream returns the legacy default stream of the primary context.
func (d *Device) DefaultStream() (*Stream, error) {
	ctx, err := d.PrimaryContext()
	if err != nil {
		return nil, err
	}
	return ctx.DefaultStream()
}

// Synchronize waits until all work of the device's primary context is done, or
// ctx ends; ending the wait does not end the work. It is a last resort: prefer
// [Stream.Synchronize], or no wait of the host at all.
func (d *Device) Synchronize(ctx context.Context) error {
	c, err := d.PrimaryContext()
	if err != nil {
		return err
	}
	return c.Synchronize(ctx)
}

// CanAccess says whether kernels on d can reach memory of peer. A device can
// reach its own.
func (d *Device) CanAccess(peer *Device) (bool, error) {
	if peer == nil {
		return false, invalid("access: no device")
	}
	for _, x := range [...]*Device{d, peer} {
		if err := x.check("access"); err != nil {
			return false, err
		}
	}
	if d == peer {
		return true, nil
	}
	can, res := d.d.DeviceCanAccessPeer(d.ordinal, peer.ordinal)
	return can != 0, check("ask for access to "+peer.String(), d.ordinal, res)
}

// EnableAccess lets kernels in the primary context of d reach memory of the
// primary context of peer. Doing it again is no error. If there is no path the
// error wraps [ErrPeerAccess]: copies still work, through [Copy].
func (d *Device) EnableAccess(peer *Device) error {
	can, err := d.CanAccess(peer)
	if err != nil || d == peer {
		return err
	}
	op := "enable access to " + peer.String()
	if !can {
		return &Error{Op: op, Device: int(d.ordinal), Code: driver.ErrorPeerAccessUnsupported}
	}
	a, err := d.PrimaryContext()
	if err != nil {
		return err
	}
	b, err := peer.PrimaryContext()
	if err != nil {
		return err
	}
	res := d.d.CtxEnablePeerAccess(a.handle, b.handle, 0)
	if res == driver.ErrorPeerAccessAlreadyEnabled { // B285
		return nil
	}
	return check(op, d.ordinal, res)
}

// DisableAccess undoes [Device.EnableAccess]. Doing it again is no error.
func (d *Device) DisableAccess(peer *Device) error {
	if peer == nil {
		return invalid("access: no device")
	}
	for _, x := range [...]*Device{d, peer} {
		if err := x.check("access"); err != nil {
			return err
		}
	}
	if d == peer {
		return nil
	}
	a, err := d.PrimaryContext()
	if err != nil {
		return err
	}
	b, err := peer.PrimaryContext()
	if err != nil {
		return err
	}
	res := d.d.CtxDisablePeerAccess(a.handle, b.handle)
	if res == driver.ErrorPeerAccessNotEnabled {
		return nil
	}
	return check("disable access to "+peer.String(), d.ordinal, res)
}
