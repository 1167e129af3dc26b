package device

import (
	"fmt"

	"github.com/go-handoff/handoff/device/driver"
)

// SharedMemory describes device memory outside of pools for another process of
// the machine: plain bytes and numbers, which may be sent in any way.
type SharedMemory struct {
	// Handle is that of the whole allocation which the memory lies in.
	Handle driver.IPCMemHandle
	// Device is where the memory is: ordinals differ between processes.
	Device UUID
	// Offset is where the memory begins in the allocation, in bytes: a handle
	// always opens the allocation (B291, B292).
	Offset int64
	// Size is in bytes.
	Size int64
}

// Share describes b for another process, which opens it with [OpenMemory]. It
// must be device memory outside of pools: of [Device.PlainMemory], or what
// another library has of cuMemAlloc or cudaMalloc, also a part of an allocation
// ([WrapBuffer]). Buffers of a pool are shared by [DevicePool.Share].
//
// The other process can reach the whole allocation, and memory that the driver
// packed beside it. b must stay open until the other process has closed its own.
// Work of the two is ordered by events ([EventOptions].Interprocess), or by waiting
// on the host.
func (b *Buffer) Share() (SharedMemory, error) {
	const op = "share memory"
	if err := b.enter(op); err != nil {
		return SharedMemory{}, err
	}
	defer b.exit()
	if b.size == 0 {
		return SharedMemory{}, invalid("%s: the buffer has none", op)
	}
	if _, ok := b.resource.(*openedMemory); ok {
		return SharedMemory{}, invalid("%s: it is another process's, which has to share it", op)
	}
	d, err := lib()
	if err != nil {
		return SharedMemory{}, err
	}
	p, res := d.PointerInfo(b.ptr)
	if err := check(op, -1, res); err != nil {
		return SharedMemory{}, err
	}
	switch {
	case p.Pool != 0: // B296
		return SharedMemory{}, invalid("%s: %v is of a pool: see DevicePool.Share", op, b)
	case p.Type != driver.MemoryTypeDevice || p.Managed:
		return SharedMemory{}, invalid("%s: %v is not the memory of a device", op, b)
	}
	off := int64(b.ptr - p.Base)
	if off < 0 || uint64(b.size) > uint64(p.Size) || uint64(off) > uint64(p.Size)-uint64(b.size) {
		return SharedMemory{}, invalid("%s: %v is longer than its allocation, %d bytes at %#x", op, b, p.Size, uint64(p.Base))
	}
	dev, err := Open(int(p.Device))
	if err != nil {
		return SharedMemory{}, err
	}
	id, err := dev.UUID()
	if err != nil {
		return SharedMemory{}, err
	}
	c, err := dev.PrimaryContext()
	if err != nil {
		return SharedMemory{}, err
	}
	ctx := c.handle
	if p.Context != 0 {
		ctx = p.Context
	}
	h, res := d.IpcGetMemHandle(ctx, p.Base) // B294
	if err := check(op, dev.ordinal, res); err != nil {
		return SharedMemory{}, err
	}
	return SharedMemory{Handle: h, Device: id, Offset: off, Size: b.size}, nil
}

// OpenMemory opens memory of another process, that [Buffer.Share] described
// there, for work queued on s from now on. s is a stream of the device that the
// memory is on; no device of that kind in this process is [ErrInvalidDevice]
// ([ByUUID] finds it). A process cannot open its own memory, and opens that of
// another one in one context of a device.
//
// Closing the buffer unmaps the memory here, once the work that uses it is done
// and every buffer of the same allocation is closed; it never frees the memory of
// the other process.
func OpenMemory(shared SharedMemory, s *Stream) (*Buffer, error) {
	const op = "open memory"
	if shared.Offset < 0 || shared.Size <= 0 || shared.Offset+shared.Size < 0 {
		return nil, invalid("%s: %d bytes at %d", op, shared.Size, shared.Offset)
	}
	if s == nil {
		return nil, invalid("%s: no stream", op)
	}
	c := s.ctx
	if c == nil {
		return nil, closed(op)
	}
	d, dev := c.dev.d, c.dev.ordinal
	id, err := c.dev.UUID()
	if err != nil {
		return nil, err
	}
	if id != shared.Device { // B304
		return nil, &Error{Op: op, Device: int(dev), Code: driver.ErrorInvalidDevice, Detail: fmt.Sprintf("the memory is on %v, the stream on %v", shared.Device, id)}
	}
	if err := s.use(op); err != nil {
		return nil, err
	}
	defer s.exit()
	held := c.keep()
	base, res := d.IpcOpenMemHandle(c.handle, shared.Handle, driver.IPCMemLazyEnablePeerAccess)
	if err := check(op, dev, res); err != nil {
		return nil, join(err, held.unref())
	}
	r := &openedMemory{ctx: c, held: held, base: base}
	b, err := r.buffer(op, shared, s)
	if err != nil {
		return nil, join(err, join(check(op, dev, d.IpcCloseMemHandle(c.handle, base)), held.unref()))
	}
	return b, nil
}

// openedMemory is the resource of one buffer of another process's memory. The
// driver counts how often an allocation is open.
type openedMemory struct {
	ctx  *Context // which it is open in
	held *owner   // of ctx
	base driver.DevicePtr
}

func (r *openedMemory) buffer(op string, shared SharedMemory, s *Stream) (*Buffer, error) {
	p, res := r.ctx.dev.d.PointerInfo(r.base)
	if err := check(op, r.ctx.dev.ordinal, res); err != nil {
		return nil, err
	}
	if uint64(shared.Offset+shared.Size) > uint64(p.Size) {
		return nil, invalid("%s: bytes [%d, %d) of an allocation of %d", op, shared.Offset, shared.Offset+shared.Size, p.Size)
	}
	return ImportBuffer(r.base+driver.DevicePtr(shared.Offset), shared.Size, r, s)
}

// Allocate is an error: the memory is another process's.
func (r *openedMemory) Allocate(int64, *Stream) (driver.DevicePtr, error) {
	return 0, invalid("allocate: the memory is another process's")
}

// Deallocate ends a use of the memory, after the work of s: the driver does not
// wait for it.
func (r *openedMemory) Deallocate(_ driver.DevicePtr, _ int64, s *Stream) error {
	return freeLater(s, func(*Context) driver.Result {
		res := r.ctx.dev.d.IpcCloseMemHandle(r.ctx.handle, r.base)
		_ = r.held.unref()
		return res
	})
}

// Info says who can reach the memory.
func (r *openedMemory) Info() MemoryInfo {
	return MemoryInfo{Device: r.ctx.dev, DeviceAccessible: true}
}
