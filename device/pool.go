package device

import (
	"fmt"
	"math"
	"runtime"

	"github.com/go-handoff/handoff/device/driver"
)

// DevicePool is a memory pool: allocating and freeing take their place in the
// order of a stream, and memory that one stream freed is used again. It is a
// [MemoryResource].
type DevicePool struct {
	object
	dev     *Device
	handle  driver.MemPoolHandle
	owned   bool
	info    MemoryInfo
	cleanup runtime.Cleanup

	shareable bool     // made to be
	imports   *imports // of a pool of another process
}

// PoolOptions tune [Device.NewPool]. The zero value is the default.
type PoolOptions struct {
	// MaxSize limits the pool, in bytes. Zero means no limit.
	MaxSize uint64
	// ReleaseThreshold is how much unused memory the pool keeps when somebody
	// synchronizes. Zero means all of it, as in most libraries.
	ReleaseThreshold uint64
	// Shareable makes [DevicePool.FD] and [DevicePool.Share] possible: other
	// processes use the pool's buffers. Where that cannot be, as on the software
	// device, creating the pool gives [ErrNotSupported].
	Shareable bool
}

// Pool returns the pool that the device allocates from now, which other
// libraries share. If nobody has raised its release threshold (0), it is set to
// keep all memory: otherwise each synchronization would give it back.
func (d *Device) Pool() (*DevicePool, error) {
	if err := d.check("memory pool"); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pool != nil {
		return d.pool, nil
	}
	h, res := d.d.DeviceGetMemPool(d.ordinal)
	if err := check("memory pool", d.ordinal, res); err != nil {
		return nil, err
	}
	if n, res := d.d.MemPoolAttr(h, driver.MemPoolAttrReleaseThreshold); res == driver.Success && n == 0 {
		d.d.MemPoolSetAttr(h, driver.MemPoolAttrReleaseThreshold, math.MaxUint64)
	}
	p := &DevicePool{dev: d, handle: h, info: MemoryInfo{Device: d, DeviceAccessible: true}}
	p.own = &owner{kind: new(counter), final: func() error { return nil }}
	p.own.refs.Store(1)
	d.pool = p
	return p, nil
}

// NewPool creates a pool of device memory. opts may be nil.
func (d *Device) NewPool(opts *PoolOptions) (*DevicePool, error) {
	if err := d.check("create pool"); err != nil {
		return nil, err
	}
	return d.newPool("create pool", driver.MemLocation{Type: driver.MemLocationTypeDevice, ID: int32(d.ordinal)},
		MemoryInfo{Device: d, DeviceAccessible: true}, opts)
}

// NewPinnedPool creates a pool of pinned host memory that d can reach:
// page-locked memory in stream order. It needs a driver and a device that know
// such pools; otherwise the error wraps [ErrNotSupported], and
// [Device.PinnedMemory] is what there is.
func (d *Device) NewPinnedPool(opts *PoolOptions) (*DevicePool, error) {
	const op = "create pinned pool"
	if err := d.check(op); err != nil {
		return nil, err
	}
	if n, err := d.Attribute(driver.AttrHostMemoryPoolsSupported); err != nil || n == 0 {
		return nil, &Error{Op: op, Device: d.Ordinal(), Code: driver.ErrorNotSupported}
	}
	p, err := d.newPool(op, driver.MemLocation{Type: driver.MemLocationTypeHost}, MemoryInfo{Device: d, DeviceAccessible: true, HostAccessible: true}, opts)
	if err != nil {
		return nil, err
	}
	if err := p.setAccess(d, driver.MemAccessFlagsProtReadwrite); err != nil {
		return nil, join(err, p.Close())
	}
	return p, nil
}

func (d *Device) newPool(op string, loc driver.MemLocation, info MemoryInfo, opts *PoolOptions) (*DevicePool, error) {
	var o PoolOptions
	if opts != nil {
		o = *opts
	}
	if _, err := d.PrimaryContext(); err != nil {
		return nil, err
	}
	props := driver.MemPoolProps{AllocType: driver.MemAllocationTypePinned, Location: loc, MaxSize: uintptr(o.MaxSize)}
	if o.Shareable {
		props.HandleTypes = driver.MemHandleTypePOSIXFileDescriptor
	}
	h, res := d.d.MemPoolCreate(&props)
	if err := check(op, d.ordinal, res); err != nil {
		return nil, err
	}
	keep := o.ReleaseThreshold
	if keep == 0 {
		keep = math.MaxUint64
	}
	if res := d.d.MemPoolSetAttr(h, driver.MemPoolAttrReleaseThreshold, keep); res != driver.Success {
		return nil, join(check(op, d.ordinal, res), check(op, d.ordinal, d.d.MemPoolDestroy(h)))
	}
	p := &DevicePool{dev: d, handle: h, owned: true, info: info, shareable: o.Shareable}
	drv, dev := d.d, d.ordinal
	p.own = newOwner(&stats.pools, "device.DevicePool", func() error { return check("destroy pool", dev, drv.MemPoolDestroy(h)) })
	p.cleanup = guard(p, p.own)
	if o.Shareable {
		if err := p.expose(); err != nil {
			return nil, join(err, p.Close())
		}
	}
	return p, nil
}

// made is object.made for a DevicePool that may be nil.
func (p *DevicePool) made() bool { return p != nil && p.object.made() }

// enter is object.enter for a DevicePool that may be nil.
func (p *DevicePool) enter(op string) error {
	if p == nil {
		return closed(op)
	}
	return p.object.enter(op)
}

// Handle returns the raw handle. It is valid while p is open.
func (p *DevicePool) Handle() driver.MemPoolHandle {
	if p == nil {
		return 0
	}
	return p.handle
}

// Device returns the device of the pool.
func (p *DevicePool) Device() *Device {
	if p == nil {
		return nil
	}
	return p.dev
}

// Owned says whether this package created the pool.
func (p *DevicePool) Owned() bool { return p != nil && p.owned }

// Info says who can reach the pool's memory.
func (p *DevicePool) Info() MemoryInfo {
	if p == nil {
		return MemoryInfo{}
	}
	return p.info
}

// Close gives a created pool up. The driver keeps it until its buffers, which
// stay usable, are freed. The device's own pool stays. It may be called twice.
func (p *DevicePool) Close() error {
	if !p.Owned() || p.closed.Swap(true) {
		return nil
	}
	p.cleanup.Stop()
	return p.own.dispose()
}

// Allocate returns size bytes for work queued on s from now on.
func (p *DevicePool) Allocate(size int64, s *Stream) (driver.DevicePtr, error) {
	const op = "allocate"
	if !p.made() {
		return 0, closed(op)
	}
	ctx, err := place(op, p.dev, size, s)
	if err != nil {
		return 0, err
	}
	if !p.begin() {
		s.exit()
		return 0, closed(op)
	}
	// No defers, here and in Deallocate: this is what every buffer pays.
	ptr, res := p.dev.d.MemAllocFromPoolAsync(ctx, uintptr(size), p.handle, s.handle)
	p.exit()
	s.exit()
	return ptr, allocError(p.dev, size, res)
}

// Deallocate frees an allocation of this pool in the order of s.
func (p *DevicePool) Deallocate(ptr driver.DevicePtr, _ int64, s *Stream) error {
	const op = "free"
	if !p.made() {
		return closed(op)
	}
	if s == nil {
		return invalid("%s: no stream", op)
	}
	if err := s.use(op); err != nil {
		return err
	}
	res := p.dev.d.MemFreeAsync(s.ctx.handle, ptr, s.handle)
	s.exit()
	return check(op, p.dev.ordinal, res)
}

// Attribute returns a pool attribute (driver.MemPoolAttr...): bytes, or 0 or 1
// for a switch.
func (p *DevicePool) Attribute(attr int32) (uint64, error) {
	if err := p.enter("pool attribute"); err != nil {
		return 0, err
	}
	defer p.exit()
	n, res := p.dev.d.MemPoolAttr(p.handle, attr)
	return n, check("pool attribute", p.dev.ordinal, res)
}

// SetAttribute sets a pool attribute.
func (p *DevicePool) SetAttribute(attr int32, value uint64) error {
	if err := p.enter("set pool attribute"); err != nil {
		return err
	}
	defer p.exit()
	return check("set pool attribute", p.dev.ordinal, p.dev.d.MemPoolSetAttr(p.handle, attr, value))
}

// Used returns the bytes in use, Reserved what the pool holds of the system.
func (p *DevicePool) Used() (uint64, error) {
	return p.Attribute(driver.MemPoolAttrUsedMemCurrent)
}

// Reserved returns the bytes that the pool holds of the system.
func (p *DevicePool) Reserved() (uint64, error) {
	return p.Attribute(driver.MemPoolAttrReservedMemCurrent)
}

// Trim gives unused memory back to the system, down to keep bytes.
func (p *DevicePool) Trim(keep uint64) error {
	if err := p.enter("trim pool"); err != nil {
		return err
	}
	defer p.exit()
	return check("trim pool", p.dev.ordinal, p.dev.d.MemPoolTrimTo(p.handle, uintptr(keep)))
}

// SetAccess lets kernels on peer reach the pool's memory, or no longer. It
// includes memory that is allocated already. If there is no path the error
// wraps [ErrPeerAccess].
func (p *DevicePool) SetAccess(peer *Device, can bool) error {
	const op = "pool access"
	if !p.made() {
		return closed(op)
	}
	if peer == nil {
		return invalid("%s: no device", op)
	}
	if err := peer.check(op); err != nil {
		return err
	}
	if peer == p.dev {
		if can {
			return nil
		}
		return invalid("%s: %v always reaches its own pool", op, peer)
	}
	if ok, err := peer.CanAccess(p.dev); err != nil {
		return err
	} else if !ok && can && !p.info.HostAccessible {
		return &Error{Op: op + " for " + peer.String(), Device: p.dev.Ordinal(), Code: driver.ErrorPeerAccessUnsupported}
	}
	flags := int32(driver.MemAccessFlagsProtNone)
	if can {
		flags = driver.MemAccessFlagsProtReadwrite
	}
	return p.setAccess(peer, flags)
}

func (p *DevicePool) setAccess(peer *Device, flags int32) error {
	op := "pool access for " + peer.String()
	if err := p.enter(op); err != nil {
		return err
	}
	defer p.exit()
	desc := []driver.MemAccessDesc{{Location: driver.MemLocation{Type: driver.MemLocationTypeDevice, ID: int32(peer.ordinal)}, Flags: flags}}
	return check(op, p.dev.ordinal, p.dev.d.MemPoolSetAccess(p.handle, desc))
}

// CanAccess says whether kernels on peer can reach the pool's memory.
func (p *DevicePool) CanAccess(peer *Device) (bool, error) {
	const op = "pool access"
	if peer == nil {
		return false, invalid("%s: no device", op)
	}
	if err := peer.check(op); err != nil {
		return false, err
	}
	if err := p.enter(op); err != nil {
		return false, err
	}
	defer p.exit()
	flags, res := p.dev.d.MemPoolGetAccess(p.handle, &driver.MemLocation{Type: driver.MemLocationTypeDevice, ID: int32(peer.ordinal)})
	return flags == driver.MemAccessFlagsProtReadwrite, check(op, p.dev.ordinal, res)
}

// String returns the pool's device.
func (p *DevicePool) String() string {
	if p.Device() == nil {
		return "no pool"
	}
	if !p.owned {
		return "default pool of " + p.dev.String()
	}
	return fmt.Sprintf("pool %#x of %v", uintptr(p.handle), p.dev)
}
