package device

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/go-handoff/handoff/device/driver"
)

// SharedBuffer describes a buffer of a shareable pool for another process: plain
// bytes and numbers, which may be sent in any way. It stands for the whole
// buffer; where in it something begins is told beside it.
type SharedBuffer struct {
	Pointer driver.MemPoolPtrExport
	Size    int64 // in bytes
}

// FD returns a new file descriptor that stands for the pool in another process,
// which opens it with [Device.OpenPool]; Linux passes it on over a Unix socket or
// to a child process. The caller closes it, when the other process has it. The
// pool must have been made with [PoolOptions].Shareable.
func (p *DevicePool) FD() (int, error) {
	const op = "file descriptor of pool"
	if err := p.enter(op); err != nil {
		return -1, err
	}
	defer p.exit()
	if !p.shareable {
		return -1, invalid("%s: make the pool with PoolOptions.Shareable", op)
	}
	fd, res := p.dev.d.MemPoolExportFD(p.handle)
	if err := check(op, p.dev.ordinal, res); err != nil {
		return -1, err
	}
	closeOnExec(fd)
	return fd, nil
}

// expose makes a descriptor of a new pool and closes it: the driver describes
// memory of a pool that was shared before, and refuses that of another one.
func (p *DevicePool) expose() error {
	fd, err := p.FD()
	if err != nil {
		return err
	}
	if err := os.NewFile(uintptr(fd), "pool").Close(); err != nil {
		return fmt.Errorf("device: file descriptor of pool: %w", err)
	}
	return nil
}

// Share describes a buffer of p, which must be shareable, for another process.
// The buffer must stay open until the other process has closed its own: closing
// it first makes that process use memory that is given to others. Work of the two
// is ordered by events ([EventOptions].Interprocess), or by waiting on the host.
func (p *DevicePool) Share(b *Buffer) (SharedBuffer, error) {
	const op = "share buffer"
	if !p.made() {
		return SharedBuffer{}, closed(op)
	}
	if b == nil {
		return SharedBuffer{}, invalid("%s: no buffer", op)
	}
	if err := b.enter(op); err != nil {
		return SharedBuffer{}, err
	}
	defer b.exit()
	if r, ok := b.resource.(*DevicePool); !ok || r != p || !p.shareable { // B296
		return SharedBuffer{}, invalid("%s: it must come from this pool, and the pool be made with PoolOptions.Shareable", op)
	}
	data, res := p.dev.d.MemPoolExportPointer(b.ptr)
	if err := check(op, p.dev.ordinal, res); err != nil {
		return SharedBuffer{}, err
	}
	return SharedBuffer{Pointer: data, Size: b.size}, nil
}

// OpenPool opens a pool of another process, whose memory is on d, by what
// [DevicePool.FD] returned there. The descriptor stays the caller's, who may
// close it afterwards. Nothing can be allocated from such a pool:
// [DevicePool.Open] opens the buffers of the other process.
func (d *Device) OpenPool(fd int) (*DevicePool, error) {
	const op = "open pool"
	if err := d.check(op); err != nil {
		return nil, err
	}
	if fd < 0 {
		return nil, invalid("%s: file descriptor %d", op, fd)
	}
	if _, err := d.PrimaryContext(); err != nil {
		return nil, err
	}
	h, res := d.d.MemPoolImportFromShareableHandle(uintptr(fd), driver.MemHandleTypePOSIXFileDescriptor, 0)
	if err := check(op, d.ordinal, res); err != nil {
		return nil, err
	}
	p := &DevicePool{
		dev: d, handle: h, owned: true, info: MemoryInfo{Device: d, DeviceAccessible: true},
		imports: &imports{open: make(map[driver.DevicePtr]*imported)},
	}
	drv, dev := d.d, d.ordinal
	p.own = newOwner(&stats.pools, "device.DevicePool", func() error { return check("close pool", dev, drv.MemPoolDestroy(h)) })
	p.cleanup = guard(p, p.own)
	// The driver does not promise that the importer may use what it imports.
	ok, err := p.CanAccess(d)
	if err == nil && !ok {
		err = p.setAccess(d, driver.MemAccessFlagsProtReadwrite)
	}
	if err != nil {
		return nil, join(err, p.Close())
	}
	return p, nil
}

// Open opens a buffer of another process in a pool that [Device.OpenPool] opened,
// for work queued on s from now on. Closing it unmaps it here, in stream order,
// once every Buffer of the same memory is closed; it never frees the memory of the
// other process. The pool may be closed first.
func (p *DevicePool) Open(shared SharedBuffer, s *Stream) (*Buffer, error) {
	const op = "open buffer"
	if !p.made() {
		return nil, closed(op)
	}
	if p.imports == nil {
		return nil, invalid("%s: the pool is not another process's", op)
	}
	if _, err := place(op, p.dev, shared.Size, s); err != nil {
		return nil, err
	}
	defer s.exit()
	held, err := p.hold(op)
	if err != nil {
		return nil, err
	}
	p.imports.Lock()
	defer p.imports.Unlock()
	ptr, res := p.dev.d.MemPoolImportPointer(p.handle, &shared.Pointer)
	if err := check(op, p.dev.ordinal, res); err != nil {
		return nil, join(err, held.unref())
	}
	m := p.imports.open[ptr]
	if m == nil {
		m = new(imported)
		p.imports.open[ptr] = m
	}
	m.users++
	r := &importedMemory{pool: p, held: held}
	b, err := ImportBuffer(ptr, shared.Size, r, s)
	if err != nil {
		return nil, join(join(err, p.imports.drop(p, ptr, s)), held.unref())
	}
	return b, nil
}

// imports counts who uses what was imported: the driver maps memory that is
// imported twice once, and unmaps it with the first free (B300).
type imports struct {
	sync.Mutex
	open map[driver.DevicePtr]*imported
}

type imported struct {
	users int
	work  []*Event // of users that are gone: the memory goes after it
}

// drop ends one use. It is called with the lock held.
func (i *imports) drop(p *DevicePool, ptr driver.DevicePtr, s *Stream) error {
	m := i.open[ptr]
	if m.users--; m.users > 0 {
		e, err := s.Record(nil)
		if err != nil { // no event can be made: wait, as every Close does then
			return s.Synchronize(context.Background())
		}
		m.work = append(m.work, e)
		return nil
	}
	delete(i.open, ptr)
	var err error
	for _, e := range m.work {
		if s.WaitEvent(e) != nil {
			err = join(err, e.Synchronize(context.Background()))
		}
		err = join(err, e.Close())
	}
	return join(err, check("close buffer", p.dev.ordinal, p.dev.d.MemFreeAsync(s.ctx.handle, ptr, s.handle)))
}

// importedMemory is the resource of one buffer of another process.
type importedMemory struct {
	pool *DevicePool
	held *owner
}

// Allocate is an error: the memory is another process's.
func (r *importedMemory) Allocate(int64, *Stream) (driver.DevicePtr, error) {
	return 0, invalid("allocate: the pool is another process's")
}

// Deallocate ends a use of the memory.
func (r *importedMemory) Deallocate(ptr driver.DevicePtr, _ int64, s *Stream) error {
	r.pool.imports.Lock()
	err := r.pool.imports.drop(r.pool, ptr, s)
	r.pool.imports.Unlock()
	return join(err, r.held.unref())
}

// Info says who can reach the memory.
func (r *importedMemory) Info() MemoryInfo { return r.pool.info }
