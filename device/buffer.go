package device

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/stream"
)

// Buffer is a block of memory that a device can reach. It may be used from any
// number of goroutines.
//
// A buffer remembers the streams that it was used on through this package (and
// through [Buffer.UsedOn]). Close gives the memory back in the order of its
// deallocation stream, after the work that is queued on those streams then: the
// host does not wait, unless the order cannot be made, and nobody gets the memory too early.
type Buffer struct {
	object
	ptr      driver.DevicePtr
	size     int64
	info     MemoryInfo
	resource MemoryResource
	foreign  any
	free     *freeing
	cleanup  runtime.Cleanup
}

// freeing is what is needed to give a buffer back, whoever does it and in
// whatever order things were closed (B153). It outlives the Buffer.
type freeing struct {
	mu     sync.Mutex
	stream *Stream   // a twin that stays open, nil for borrowed memory
	used   []*Stream // twins of the others
}

// twin returns a Stream of its own for the same stream, held until drop, so
// that the memory can be given back after the user closed the stream. The
// per-thread default stream cannot be used from any thread: in its place comes
// the legacy default stream, which waits for it.
func (s *Stream) twin(op string) (*Stream, error) {
	if s == nil {
		return nil, closed(op)
	}
	held, err := s.hold(op)
	if err != nil {
		return nil, err
	}
	t := &Stream{object: object{own: held}, ctx: s.ctx, owned: s.owned, foreign: s.foreign, priority: s.priority, blocking: s.blocking}
	k := s.twinKey()
	t.handle, t.kind = k.handle, s.kind
	if s.kind == stream.KindPerThreadDefault {
		t.kind = stream.KindLegacyDefault
	}
	t.identify()
	return t, nil
}

// twinKey is the key that a twin of s has.
func (s *Stream) twinKey() streamKey {
	k := s.key()
	if s.kind == stream.KindPerThreadDefault {
		k.handle, k.thread = driver.LegacyStream, 0
	}
	return k
}

// drop ends a twin.
func (s *Stream) drop() error { return s.own.unref() }

// Allocate returns a buffer of a resource, usable by work queued on s from now
// on. It is given back on s, unless [Buffer.SetStream] says otherwise. A size
// of 0 is a buffer without memory.
func Allocate(r MemoryResource, size int64, s *Stream) (*Buffer, error) {
	if size < 0 {
		return nil, invalid("allocate: %d bytes", size)
	}
	if s == nil {
		return nil, invalid("allocate: no stream")
	}
	if r == nil {
		return nil, invalid("allocate: no memory resource")
	}
	if size == 0 {
		if !s.made() {
			return nil, closed("allocate")
		}
		return &Buffer{object: object{own: idle()}, info: r.Info(), resource: r, free: &freeing{}}, nil
	}
	ptr, err := r.Allocate(size, s)
	if err != nil {
		return nil, err
	}
	b, err := ImportBuffer(ptr, size, r, s)
	if err != nil {
		return nil, join(err, r.Deallocate(ptr, size, s))
	}
	return b, nil
}

// idle is the owner of something that needs no giving back.
func idle() *owner {
	o := &owner{kind: new(counter), final: func() error { return nil }}
	o.refs.Store(1)
	return o
}

// ImportBuffer takes over memory that r allocated: closing the buffer
// deallocates it, on s. On an error the memory stays the caller's.
func ImportBuffer(ptr driver.DevicePtr, size int64, r MemoryResource, s *Stream) (*Buffer, error) {
	const op = "import buffer"
	if ptr == 0 || size <= 0 || r == nil || s == nil {
		return nil, invalid("%s: address %#x, %d bytes, resource %v", op, uint64(ptr), size, r)
	}
	twin, err := s.twin(op)
	if err != nil {
		return nil, err
	}
	f := &freeing{stream: twin}
	b := &Buffer{ptr: ptr, size: size, info: r.Info(), resource: r, free: f}
	stats.allocated.Add(size)
	b.own = newOwner(&stats.buffers, "device.Buffer", func() error {
		stats.allocated.Add(-size)
		return f.release(ptr, size, r)
	})
	b.cleanup = guard(b, b.own)
	return b, nil
}

// release gives the memory back after all work that uses it.
func (f *freeing) release(ptr driver.DevicePtr, size int64, r MemoryResource) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	for _, u := range f.used {
		if u.key() != f.stream.key() {
			err = join(err, f.after(u))
		}
	}
	if err != nil {
		// There is no order, and waiting failed too: leaking is better than
		// giving memory away that is in use.
		err = fmt.Errorf("device: free: memory kept: %w", err)
	} else {
		err = r.Deallocate(ptr, size, f.stream)
	}
	for _, u := range f.used {
		err = join(err, u.drop())
	}
	f.used = nil
	return join(err, f.stream.drop())
}

// after makes the freeing come after the work of u. Where the order cannot be
// made, as for want of memory for an event, the host waits for that work: this is
// the one way that a Close blocks.
func (f *freeing) after(u *Stream) error {
	err := f.stream.Wait(u)
	if err == nil || errors.Is(err, ErrSticky) {
		return err
	}
	if u.Synchronize(context.Background()) == nil {
		return nil
	}
	return err
}

// WrapBuffer makes a buffer of memory that somebody else owns. The driver is
// asked what kind of memory it is. It is never freed; owner, if not nil, is
// kept alive as long as the buffer is.
func WrapBuffer(ptr driver.DevicePtr, size int64, owner any) (*Buffer, error) {
	const op = "wrap buffer"
	if size < 0 || (ptr == 0 && size > 0) {
		return nil, invalid("%s: address %#x, %d bytes", op, uint64(ptr), size)
	}
	b := &Buffer{object: object{own: idle()}, ptr: ptr, size: size, foreign: owner, free: &freeing{}}
	if ptr == 0 {
		return b, nil
	}
	info, err := InfoOf(ptr)
	if err != nil {
		return nil, err
	}
	b.info = info
	return b, nil
}

// InfoOf asks the driver who can reach the memory at an address. Host memory
// that the driver does not know is reachable by the host, and by devices too
// where the system shares its page tables (B271).
func InfoOf(ptr driver.DevicePtr) (MemoryInfo, error) {
	d, err := lib()
	if err != nil {
		return MemoryInfo{}, err
	}
	k, res := d.PointerKind(ptr)
	if err := check("pointer attributes", -1, res); err != nil {
		return MemoryInfo{}, err
	}
	if k.Type == 0 {
		m := MemoryInfo{HostAccessible: true}
		if dev, err := Open(0); err == nil {
			n, err := dev.Attribute(driver.AttrPageableMemoryAccess)
			m.DeviceAccessible = err == nil && n != 0
		}
		return m, nil
	}
	dev, err := Open(int(k.Device))
	if err != nil {
		return MemoryInfo{}, err
	}
	m := MemoryInfo{Device: dev, DeviceAccessible: true}
	switch {
	case k.Managed:
		n, err := dev.Attribute(driver.AttrConcurrentManagedAccess)
		m.HostAccessible, m.Managed, m.HostNeedsIdle = true, true, err != nil || n == 0
	case k.Type == driver.MemoryTypeHost:
		m.HostAccessible = true
	}
	return m, nil
}

// enter is object.enter for a Buffer that may be nil.
func (b *Buffer) enter(op string) error {
	if b == nil {
		return closed(op)
	}
	return b.object.enter(op)
}

// Ptr returns the address of the first byte. It is valid while b is open.
func (b *Buffer) Ptr() driver.DevicePtr {
	if b == nil {
		return 0
	}
	return b.ptr
}

// Size returns the size in bytes.
func (b *Buffer) Size() int64 {
	if b == nil {
		return 0
	}
	return b.size
}

// Info says who can reach the memory.
func (b *Buffer) Info() MemoryInfo {
	if b == nil {
		return MemoryInfo{}
	}
	return b.info
}

// Device returns the device of the memory, or nil.
func (b *Buffer) Device() *Device { return b.Info().Device }

// DLDevice returns device type and ordinal as DLPack has them.
func (b *Buffer) DLDevice() dlpack.Device {
	if b == nil {
		return dlpack.Device{Type: dlpack.DeviceCPU}
	}
	d := dlpack.Device{Type: b.info.DeviceType()}
	if b.info.Device != nil && d.Type != dlpack.DeviceCPU {
		d.ID = int32(b.info.Device.ordinal)
	}
	return d
}

// Resource returns where the memory came from, or nil for borrowed memory.
func (b *Buffer) Resource() MemoryResource {
	if b == nil {
		return nil
	}
	return b.resource
}

// Owner returns what keeps borrowed memory alive, or nil.
func (b *Buffer) Owner() any {
	if b == nil {
		return nil
	}
	return b.foreign
}

// Closed says whether Close was called, or there was never anything to close.
func (b *Buffer) Closed() bool { return b == nil || !b.made() || b.closed.Load() }

// Close gives the memory back, in stream order, and for borrowed memory lets
// go of its owner. It may be called twice.
func (b *Buffer) Close() error {
	if b == nil || !b.made() || b.closed.Swap(true) {
		return nil
	}
	b.cleanup.Stop()
	return b.own.dispose()
}

// CloseOn is Close on another stream than the buffer came with: s, which must
// be of the same device.
func (b *Buffer) CloseOn(s *Stream) error {
	if err := b.SetStream(s); err != nil {
		return err
	}
	return b.Close()
}

// SetStream changes the stream that the memory is given back on. Work that is
// queued on the old one, and uses the memory, is waited for (B157).
func (b *Buffer) SetStream(s *Stream) error {
	const op = "set stream of buffer"
	if s == nil {
		return invalid("%s: no stream", op)
	}
	if err := b.enter(op); err != nil {
		return err
	}
	defer b.exit()
	if b.free.stream == nil {
		return invalid("%s: the memory is borrowed, or none", op)
	}
	if !s.made() {
		return closed(op)
	}
	if b.info.Device != nil && s.ctx.dev != b.info.Device {
		return &Error{Op: op, Device: b.info.Device.Ordinal(), Code: driver.ErrorInvalidDevice, Detail: fmt.Sprintf("the stream is of %v", s.ctx.dev)}
	}
	twin, err := s.twin(op)
	if err != nil {
		return err
	}
	f := b.free
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used = append(f.used, f.stream)
	f.stream = twin
	return nil
}

// UsedOn says that work queued on s uses the memory: giving it back waits for
// that work. What this package queues says so by itself. It is cheap for the
// buffer's own stream and for one that is known.
func (b *Buffer) UsedOn(s *Stream) error {
	const op = "use of buffer"
	if err := b.enter(op); err != nil {
		return err
	}
	defer b.exit()
	return b.usedOn(op, s)
}

func (b *Buffer) usedOn(op string, s *Stream) error {
	if s == nil || s.ctx == nil {
		return closed(op)
	}
	f := b.free
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stream == nil {
		return nil
	}
	key := s.twinKey()
	if f.stream.key() == key {
		return nil
	}
	for _, u := range f.used {
		if u.key() == key {
			return nil
		}
	}
	twin, err := s.twin(op)
	if err != nil {
		return err
	}
	f.used = append(f.used, twin)
	return nil
}

// String returns size, address and device.
func (b *Buffer) String() string {
	if b == nil {
		return "no buffer"
	}
	where := "host"
	if b.info.Device != nil {
		where = b.info.Device.String()
	}
	return fmt.Sprintf("buffer of %d bytes at %#x on %s", b.size, uint64(b.ptr), where)
}

// begin checks a range of the buffer for work on a stream and begins a use of
// both.
func (b *Buffer) begin(op string, off, n int64, s *Stream) error {
	if s == nil {
		return invalid("%s: no stream", op)
	}
	if b.Closed() {
		return closed(op)
	}
	if off < 0 || n < 0 || off > b.size || n > b.size-off {
		return invalid("%s: bytes [%d, %d+%d) of a buffer of %d", op, off, off, n, b.size)
	}
	if err := b.enter(op); err != nil {
		return err
	}
	if err := b.usedOn(op, s); err != nil {
		b.exit()
		return err
	}
	return nil
}

// CopyFrom copies all of src, which is as long as b, to b: see [Copy].
func (b *Buffer) CopyFrom(src *Buffer, s *Stream) error { return Copy(b, src, s) }

// CopyTo copies all of b to dst, which is as long: see [Copy].
func (b *Buffer) CopyTo(dst *Buffer, s *Stream) error { return Copy(dst, b, s) }

// Copy copies src to dst, of the same size, in the order of s. Both may be on
// any device or the host. The host does not wait: memory that it can reach must
// not be touched until the work is done. Ranges that overlap are an error: package
// memview copies such.
func Copy(dst, src *Buffer, s *Stream) error {
	if dst == nil || src == nil {
		return invalid("copy: no buffer")
	}
	if dst.size != src.size {
		return invalid("copy: %d bytes into %d", src.size, dst.size)
	}
	return CopyRange(dst, 0, src, 0, src.size, s)
}

// CopyRange copies n bytes between two buffers in the order of s: see [Copy].
func CopyRange(dst *Buffer, dstOff int64, src *Buffer, srcOff, n int64, s *Stream) error {
	const op = "copy"
	if dst == nil || src == nil {
		return invalid("%s: no buffer", op)
	}
	if err := dst.begin(op, dstOff, n, s); err != nil {
		return err
	}
	defer dst.exit()
	if err := src.begin(op, srcOff, n, s); err != nil {
		return err
	}
	defer src.exit()
	if n == 0 {
		return nil
	}
	if err := s.use(op); err != nil {
		return err
	}
	defer s.exit()
	d := s.ctx.dev.d
	to, from := dst.ptr+driver.DevicePtr(dstOff), src.ptr+driver.DevicePtr(srcOff)
	if to == from {
		return nil
	}
	if size := driver.DevicePtr(n); to < from+size && from < to+size { // nobody says what the driver does then
		return invalid("%s: %d bytes at %#x to %#x overlap", op, n, uint64(from), uint64(to))
	}
	a, b := dst.info.Device, src.info.Device
	if a != nil && b != nil && a != b && !dst.info.HostAccessible && !src.info.HostAccessible {
		// Two devices: the driver finds the way, with peer access or without.
		ca, err := a.PrimaryContext()
		if err != nil {
			return err
		}
		cb, err := b.PrimaryContext()
		if err != nil {
			return err
		}
		return s.fail(op, d.MemcpyPeerAsync(s.ctx.handle, to, ca.handle, from, cb.handle, uintptr(n), s.handle))
	}
	return s.fail(op, d.MemcpyAsync(s.ctx.handle, to, from, uintptr(n), s.handle))
}

// CopyFromHost copies Go memory, as long as the buffer, to the buffer in the
// order of s. p is kept alive and pinned until the copy is done and must not be
// changed before: use [Buffer.CopyFromHostSync], or pinned memory, if that is
// hard to know. The driver may block while it stages pageable memory. While s captures it is [ErrCapture]: the graph would outlive p.
func (b *Buffer) CopyFromHost(p []byte, s *Stream) error {
	_, err := b.fromHost(p, s)
	return err
}

// CopyFromHostSync is [Buffer.CopyFromHost] that waits until p may be changed.
func (b *Buffer) CopyFromHostSync(ctx context.Context, p []byte, s *Stream) error {
	done, err := b.fromHost(p, s)
	return finish(ctx, done, err)
}

func (b *Buffer) fromHost(p []byte, s *Stream) (<-chan error, error) {
	return b.copyHost("copy from host", p, s, func(d *driver.Driver, addr uintptr) driver.Result {
		if b.info.HostAccessible { // the call below refuses pools of host memory
			return d.MemcpyAsync(s.ctx.handle, b.ptr, driver.DevicePtr(addr), uintptr(len(p)), s.handle)
		}
		return d.MemcpyHtoDAsync(s.ctx.handle, b.ptr, addr, uintptr(len(p)), s.handle)
	})
}

// CopyToHost copies the buffer to Go memory of its length, after the work that
// is queued on s, and waits for the copy (B220). It first waits for that work,
// as [Stream.Synchronize] does: the driver blocks a thread for a copy to
// pageable memory, and so it does for the copy only. If ctx ends before, p is
// as it was; if later, p is kept alive until the copy is done.
func (b *Buffer) CopyToHost(ctx context.Context, p []byte, s *Stream) error {
	const op = "copy to host"
	if err := b.hostArguments(op, p, s); err != nil {
		return err
	}
	if err := s.Synchronize(ctx); err != nil {
		return err
	}
	select {
	case blockers <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	done, err := b.copyHost(op, p, s, func(d *driver.Driver, addr uintptr) driver.Result {
		if b.info.HostAccessible {
			return d.MemcpyAsync(s.ctx.handle, driver.DevicePtr(addr), b.ptr, uintptr(len(p)), s.handle)
		}
		return d.MemcpyDtoHAsync(s.ctx.handle, addr, b.ptr, uintptr(len(p)), s.handle)
	})
	<-blockers
	return finish(ctx, done, err)
}

func (b *Buffer) hostArguments(op string, p []byte, s *Stream) error {
	if b.Closed() {
		return closed(op)
	}
	if int64(len(p)) != b.size {
		return invalid("%s: %d bytes for a buffer of %d", op, len(p), b.size)
	}
	if s == nil {
		return invalid("%s: no stream", op)
	}
	return nil
}

// finish waits for a copy that copyHost queued.
func finish(ctx context.Context, done <-chan error, err error) error {
	if err != nil || done == nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// copyHost queues a copy that uses Go memory, and pins the memory until the
// copy is done, not until the call returns (B355). The channel, nil if there
// is nothing to copy, gets its end.
func (b *Buffer) copyHost(op string, p []byte, s *Stream, queue func(*driver.Driver, uintptr) driver.Result) (<-chan error, error) {
	if err := b.hostArguments(op, p, s); err != nil {
		return nil, err
	}
	if err := b.begin(op, 0, b.size, s); err != nil {
		return nil, err
	}
	defer b.exit()
	if len(p) == 0 {
		return nil, nil
	}
	if err := s.use(op); err != nil {
		return nil, err
	}
	defer s.exit()
	if capturing, err := s.Capturing(); err != nil {
		return nil, err
	} else if capturing {
		return nil, &Error{
			Op: op, Device: s.ctx.dev.Ordinal(), Code: driver.ErrorStreamCaptureUnsupported,
			Detail: "Go memory cannot be captured: use pinned memory",
		}
	}
	pin := new(runtime.Pinner)
	res := queue(s.ctx.dev.d, pinBytes(pin, p))
	if res != driver.Success {
		pin.Unpin()
		return nil, s.fail(op, res)
	}
	done := make(chan error, 1)
	err := Defer(s.View(), func(err error) {
		pin.Unpin()
		done <- err
	})
	if err != nil {
		// No event could be recorded: wait for the copy before letting go.
		err = join(err, s.fail(op, s.ctx.dev.d.StreamSynchronize(s.ctx.handle, s.handle)))
		pin.Unpin()
		return nil, err
	}
	return done, nil
}

// Fill8 sets every byte, in the order of s.
func (b *Buffer) Fill8(value uint8, s *Stream) error {
	return b.fill(1, s, func(d *driver.Driver, n uintptr) driver.Result {
		return d.MemsetD8Async(s.ctx.handle, b.ptr, value, n, s.handle)
	})
}

// Fill16 sets every 16-bit word, in the order of s. The size must be a
// multiple of 2.
func (b *Buffer) Fill16(value uint16, s *Stream) error {
	return b.fill(2, s, func(d *driver.Driver, n uintptr) driver.Result {
		return d.MemsetD16Async(s.ctx.handle, b.ptr, value, n, s.handle)
	})
}

// Fill32 sets every 32-bit word, in the order of s. The size must be a
// multiple of 4.
func (b *Buffer) Fill32(value uint32, s *Stream) error {
	return b.fill(4, s, func(d *driver.Driver, n uintptr) driver.Result {
		return d.MemsetD32Async(s.ctx.handle, b.ptr, value, n, s.handle)
	})
}

func (b *Buffer) fill(width int64, s *Stream, queue func(*driver.Driver, uintptr) driver.Result) error {
	const op = "fill"
	if b.Closed() {
		return closed(op)
	}
	if b.size%width != 0 || uint64(b.ptr)%uint64(width) != 0 {
		return invalid("%s: %d bytes at %#x are not words of %d", op, b.size, uint64(b.ptr), width)
	}
	if err := b.begin(op, 0, b.size, s); err != nil {
		return err
	}
	defer b.exit()
	if b.size == 0 {
		return nil
	}
	if err := s.use(op); err != nil {
		return err
	}
	defer s.exit()
	return s.fail(op, queue(s.ctx.dev.d, uintptr(b.size/width)))
}
