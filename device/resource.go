package device

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
)

// MemoryInfo says who can reach memory.
type MemoryInfo struct {
	// Device is the device that the memory belongs to, nil for host memory
	// that belongs to none.
	Device *Device
	// DeviceAccessible says that kernels can reach it, HostAccessible that the
	// host can.
	DeviceAccessible, HostAccessible bool
	// Managed says that it moves between host and device by itself.
	Managed bool
	// HostNeedsIdle says that the host must not touch it while the device
	// works: managed memory on devices without concurrent access (B269).
	HostNeedsIdle bool
}

// DeviceType returns what DLPack calls such memory: 13 for managed, 3 for
// pinned, 2 for device and 1 for other host memory (B263).
func (m MemoryInfo) DeviceType() dlpack.DeviceType {
	switch {
	case m.Managed:
		return dlpack.DeviceCUDAManaged
	case m.HostAccessible && m.Device != nil:
		return dlpack.DeviceCUDAHost
	case m.DeviceAccessible && !m.HostAccessible:
		return dlpack.DeviceCUDA
	}
	return dlpack.DeviceCPU
}

// MemoryResource is where buffers come from. Programs may bring their own; it
// is used from several goroutines at once.
type MemoryResource interface {
	// Allocate returns size bytes, more than 0, that work queued on s from now
	// on may use.
	Allocate(size int64, s *Stream) (driver.DevicePtr, error)
	// Deallocate takes memory back that work queued on s before may still use.
	// It does not wait for that work.
	Deallocate(ptr driver.DevicePtr, size int64, s *Stream) error
	// Info says who can reach the memory.
	Info() MemoryInfo
}

// Memory returns the resource that the device allocates from by default: its
// memory pool, or, where it has none, plain allocations.
func (d *Device) Memory() (MemoryResource, error) {
	n, err := d.Attribute(driver.AttrMemoryPoolsSupported)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return d.PlainMemory(), nil
	}
	return d.Pool()
}

// Allocate returns a buffer of the device's default memory, usable by work
// queued on s from now on and given back on s.
func (d *Device) Allocate(size int64, s *Stream) (*Buffer, error) {
	r, err := d.Memory()
	if err != nil {
		return nil, err
	}
	return Allocate(r, size, s)
}

// plain allocates device memory without a pool.
type plain struct{ dev *Device }

// PlainMemory returns a resource of allocations outside any pool (cuMemAlloc).
// An allocation may wait for the device; freeing is deferred until the stream's
// work is done, and does not: [Flush] waits until it is.
func (d *Device) PlainMemory() MemoryResource { return plain{d} }

func (p plain) Info() MemoryInfo { return MemoryInfo{Device: p.dev, DeviceAccessible: true} }

func (p plain) Allocate(size int64, s *Stream) (driver.DevicePtr, error) {
	ctx, err := place("allocate", p.dev, size, s)
	if err != nil {
		return 0, err
	}
	defer s.exit()
	ptr, res := p.dev.d.MemAlloc(ctx, uintptr(size))
	return ptr, allocError(p.dev, size, res)
}

func (p plain) Deallocate(ptr driver.DevicePtr, _ int64, s *Stream) error {
	return freeLater(s, func(ctx *Context) driver.Result { return p.dev.d.MemFree(ctx.handle, ptr) })
}

// pinned allocates page-locked host memory.
type pinned struct {
	dev   *Device
	flags uint32
}

// PinnedMemory returns a resource of page-locked host memory that every device
// can reach: what makes copies between host and device asynchronous.
// Allocating is slow; freeing is deferred until the stream's work is done.
func (d *Device) PinnedMemory() MemoryResource {
	return pinned{d, driver.MemHostAllocPortable | driver.MemHostAllocDeviceMap}
}

func (p pinned) Info() MemoryInfo {
	return MemoryInfo{Device: p.dev, DeviceAccessible: true, HostAccessible: true}
}

func (p pinned) Allocate(size int64, s *Stream) (driver.DevicePtr, error) {
	ctx, err := place("allocate pinned memory", p.dev, size, s)
	if err != nil {
		return 0, err
	}
	defer s.exit()
	addr, res := p.dev.d.MemHostAlloc(ctx, uintptr(size), p.flags)
	return driver.DevicePtr(addr), allocError(p.dev, size, res)
}

func (p pinned) Deallocate(ptr driver.DevicePtr, _ int64, s *Stream) error {
	return freeLater(s, func(ctx *Context) driver.Result { return p.dev.d.MemFreeHost(ctx.handle, uintptr(ptr)) })
}

// managed allocates memory that moves by itself.
type managed struct {
	dev  *Device
	info MemoryInfo
}

// ManagedMemory returns a resource of memory that host and devices share and
// that moves between them by itself.
func (d *Device) ManagedMemory() (MemoryResource, error) {
	n, err := d.Attribute(driver.AttrManagedMemory)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, &Error{Op: "managed memory", Device: d.Ordinal(), Code: driver.ErrorNotSupported}
	}
	concurrent, err := d.Attribute(driver.AttrConcurrentManagedAccess)
	if err != nil {
		return nil, err
	}
	return managed{d, MemoryInfo{Device: d, DeviceAccessible: true, HostAccessible: true, Managed: true, HostNeedsIdle: concurrent == 0}}, nil
}

func (m managed) Info() MemoryInfo { return m.info }

func (m managed) Allocate(size int64, s *Stream) (driver.DevicePtr, error) {
	ctx, err := place("allocate managed memory", m.dev, size, s)
	if err != nil {
		return 0, err
	}
	defer s.exit()
	ptr, res := m.dev.d.MemAllocManaged(ctx, uintptr(size), driver.MemAttachGlobal)
	return ptr, allocError(m.dev, size, res)
}

func (m managed) Deallocate(ptr driver.DevicePtr, _ int64, s *Stream) error {
	return freeLater(s, func(ctx *Context) driver.Result { return m.dev.d.MemFree(ctx.handle, ptr) })
}

// place checks an allocation and begins a use of its stream.
func place(op string, dev *Device, size int64, s *Stream) (driver.ContextHandle, error) {
	if err := dev.check(op); err != nil {
		return 0, err
	}
	if size <= 0 {
		return 0, invalid("%s: %d bytes", op, size)
	}
	if s == nil {
		return 0, invalid("%s: no stream", op)
	}
	if s.ctx == nil {
		return 0, closed(op)
	}
	if s.ctx.dev != dev { // B287
		return 0, &Error{Op: op, Device: dev.Ordinal(), Code: driver.ErrorInvalidDevice, Detail: fmt.Sprintf("the stream is of %v", s.ctx.dev)}
	}
	if err := s.use(op); err != nil {
		return 0, err
	}
	return s.ctx.handle, nil
}

// allocError builds the error of an allocation only when there is one: the
// text costs memory.
func allocError(dev *Device, size int64, res driver.Result) error {
	if res == driver.Success {
		return nil
	}
	return check(fmt.Sprintf("allocate %d bytes", size), dev.ordinal, res)
}

// freeLater frees memory that has no stream-ordered free, once the work of s
// is done. If that cannot be deferred, as for want of memory for an event, the
// host waits for it. The driver may wait for all work of the device before it
// frees, whoever queued it: so the caller does not make that call.
func freeLater(s *Stream, free func(*Context) driver.Result) error {
	const op = "free"
	if s == nil {
		return invalid("%s: no stream", op)
	}
	if err := s.enter(op); err != nil {
		return err
	}
	c := s.ctx
	later := func(error) {
		beginDeferred()
		reap(func() {
			defer endDeferred()
			defer s.exit()
			_ = free(c)
		})
	}
	done, err := s.Done()
	if err == nil && done {
		later(nil)
		return nil
	}
	err = Defer(s.View(), later)
	if err == nil {
		return nil
	}
	defer s.exit()
	if errors.Is(err, ErrSticky) || s.Synchronize(context.Background()) != nil {
		return err
	}
	return check(op, c.dev.ordinal, free(c))
}
