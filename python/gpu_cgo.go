//go:build cgo && linux && (amd64 || arm64)

package python

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft" // HANDOFF_DRIVER=soft; nobody gets it unasked
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/cptr"
	"github.com/go-handoff/handoff/memview"
	_ "github.com/go-handoff/handoff/memview/softcopy" // kernels for the software device
	"github.com/go-handoff/handoff/stream"
)

// Kinds of faults, as gpuabi.h has them.
const (
	faultNone = iota
	faultDriver
	faultNoDriver
	faultClosed
	faultValue
	faultFork
	faultExchange
	faultPanic
	faultOther
)

type fault struct {
	kind, code, rule int
	text             string
}

// exchange gives the C code's number for an error of the exchange packages
// (HO_E_... and HO_X_... of block.h and internal.h).
var exchange = []struct {
	err  error
	code int
}{
	{dlpack.ErrReadOnly, 32},
	{dlpack.ErrDType, 3},
	{dlpack.ErrDevice, 4},
	{dlpack.ErrLayout, 5},
	{dlpack.ErrOverflow, 6},
	{dlpack.ErrNull, 7},
	{dlpack.ErrAlign, 8},
}

// faultOf tells C what kind of error it is.
func faultOf(err error) fault {
	if err == nil {
		return fault{}
	}
	f := fault{kind: faultOther, text: err.Error()}
	var rule *dlpack.RuleError
	if errors.As(err, &rule) {
		f.rule, _ = strconv.Atoi(strings.TrimPrefix(rule.Rule, "R")) // 0 for rows of the fault list
	}
	for _, x := range exchange {
		if errors.Is(err, x.err) {
			f.kind, f.code = faultExchange, x.code
			return f
		}
	}
	var code driver.Result
	switch {
	case errors.Is(err, device.ErrNoDriver), errors.Is(err, device.ErrNoDevice):
		f.kind = faultNoDriver
	case errors.Is(err, device.ErrFork):
		f.kind = faultFork
	case errors.Is(err, fs.ErrClosed):
		f.kind = faultClosed
	case errors.As(err, &code):
		f.kind, f.code = faultDriver, int(code)
	case errors.Is(err, device.ErrInvalidValue): // a check of ours, not the driver's
		f.kind = faultValue
	}
	return f
}

// made is what C keeps of an object of Go: a number, and its raw handle.
type made struct {
	key, handle, ctx uint64
	device           dlpack.Device
	ordinal          int
}

// kept holds what Python objects own, by number.
var kept struct {
	sync.Mutex
	last    uint64
	objects map[uint64]interface{ Close() error }
}

func keep(o interface{ Close() error }) uint64 {
	kept.Lock()
	defer kept.Unlock()
	if kept.objects == nil {
		kept.objects = map[uint64]interface{ Close() error }{}
	}
	kept.last++
	kept.objects[kept.last] = o
	return kept.last
}

func buffer(key uint64) (*device.Buffer, error) {
	kept.Lock()
	defer kept.Unlock()
	if b, ok := kept.objects[key].(*device.Buffer); ok {
		return b, nil
	}
	return nil, fmt.Errorf("buffer: %w", fs.ErrClosed)
}

func gpuClose(key uint64) error {
	kept.Lock()
	o := kept.objects[key]
	delete(kept.objects, key)
	kept.Unlock()
	if o == nil {
		return nil
	}
	return o.Close()
}

func gpuOpen() (uintptr, error) {
	d, err := driver.Default()
	if err != nil {
		return 0, err
	}
	if _, err := device.Count(); err != nil {
		return 0, err
	}
	return d.Native(), nil
}

func gpuCount() (int, error) { return device.Count() }

func gpuContext(ordinal int) (uint64, error) {
	d, err := device.Open(ordinal)
	if err != nil {
		return 0, err
	}
	c, err := d.PrimaryContext()
	if err != nil {
		return 0, err
	}
	return uint64(c.Handle()), nil
}

// gpuText returns a text about a device, by a number of gpuabi.h.
func gpuText(ordinal, what int) (string, error) {
	d, err := device.Open(ordinal)
	if err != nil {
		return "", err
	}
	switch what {
	case 0:
		return d.Name()
	case 1:
		id, err := d.UUID()
		return id.String(), err
	case 2:
		return d.PCIBusID()
	case 3:
		p, err := d.Properties()
		if err != nil {
			return "", err
		}
		var b strings.Builder
		for a, v := range p.All() {
			fmt.Fprintf(&b, "%v=%d\n", a, v)
		}
		return b.String(), nil
	}
	major, minor, err := d.ComputeCapability()
	return fmt.Sprintf("%d %d", major, minor), err
}

func gpuMemory(ordinal int) (free, total uint64, err error) {
	d, err := device.Open(ordinal)
	if err != nil {
		return 0, 0, err
	}
	return d.MemoryInfo()
}

func gpuCanAccess(ordinal, peer int) (bool, error) {
	a, err := device.Open(ordinal)
	if err != nil {
		return false, err
	}
	b, err := device.Open(peer)
	if err != nil {
		return false, err
	}
	return a.CanAccess(b)
}

func gpuSyncDevice(ordinal int) error {
	d, err := device.Open(ordinal)
	if err != nil {
		return err
	}
	return d.Synchronize(context.Background())
}

func gpuStreamNew(ordinal int, blocking bool, priority int) (made, error) {
	d, err := device.Open(ordinal)
	if err != nil {
		return made{}, err
	}
	s, err := d.NewStream(&device.StreamOptions{Blocking: blocking, Priority: priority})
	if err != nil {
		return made{}, err
	}
	return made{key: keep(s), handle: uint64(s.Handle()), ctx: uint64(s.Context().Handle())}, nil
}

func gpuEventNew(ctx uint64, opts *device.EventOptions) (made, error) {
	return gpuEvent(ctx, func(c *device.Context) (*device.Event, error) { return c.NewEvent(opts) })
}

func gpuEventOpen(ctx uint64, ipc driver.IPCEventHandle) (made, error) {
	return gpuEvent(ctx, func(c *device.Context) (*device.Event, error) { return c.OpenIPCEvent(ipc) })
}

func gpuEvent(ctx uint64, create func(*device.Context) (*device.Event, error)) (made, error) {
	c, err := device.WrapContext(driver.ContextHandle(ctx))
	if err != nil {
		return made{}, err
	}
	e, err := create(c)
	if err != nil {
		return made{}, err
	}
	return made{key: keep(e), handle: uint64(e.Handle()), ctx: ctx}, nil
}

// streamOf returns the Stream that C names by its handle and its context. The
// Python object keeps it alive.
func streamOf(handle, ctx uint64) (*device.Stream, error) {
	c, err := device.WrapContext(driver.ContextHandle(ctx))
	if err != nil {
		return nil, err
	}
	return device.WrapStream(driver.StreamHandle(handle), c, nil)
}

func gpuStream(handle, ctx uint64) (stream.StreamView, error) {
	s, err := streamOf(handle, ctx)
	if err != nil {
		return stream.StreamView{}, err
	}
	return s.View(), nil
}

// Kinds of memory, as gpuabi.h has them.
const (
	memoryDevice = iota
	memoryPinned
	memoryManaged
)

// source is where memory comes from that Python has made with options: a pool of
// its own, or memory that prefers a place.
type source struct {
	device.MemoryResource
	close func() error
}

func (s source) Close() error { return s.close() }

// preferring allocates managed memory that would rather be somewhere.
type preferring struct {
	device.MemoryResource
	d   *driver.Driver
	loc driver.MemLocation
}

func (p preferring) Allocate(size int64, s *device.Stream) (driver.DevicePtr, error) {
	ptr, err := p.MemoryResource.Allocate(size, s)
	if err != nil {
		return 0, err
	}
	res := p.d.MemAdvise(s.Context().Handle(), ptr, uintptr(size), driver.MemAdviseSetPreferredLocation, p.loc)
	if res != driver.Success {
		err = &device.Error{Op: "prefer a place for managed memory", Device: int(s.Context().Device().Ordinal()), Code: res}
		return 0, errors.Join(err, p.Deallocate(ptr, size, s))
	}
	return ptr, nil
}

// plainSource returns what a device allocates memory of a kind from.
func plainSource(d *device.Device, kind int) (device.MemoryResource, error) {
	switch kind {
	case memoryDevice:
		return d.Memory()
	case memoryPinned:
		return d.PinnedMemory(), nil
	case memoryManaged:
		return d.ManagedMemory()
	}
	return nil, fmt.Errorf("allocate: no memory is called %d: %w", kind, device.ErrInvalidValue)
}

// sourceOf is plainSource, or the source of a number that is not 0.
func sourceOf(d *device.Device, kind int, key uint64) (device.MemoryResource, error) {
	if key == 0 {
		return plainSource(d, kind)
	}
	s, err := keptSource(key)
	return s.MemoryResource, err
}

func keptSource(key uint64) (source, error) {
	kept.Lock()
	defer kept.Unlock()
	if s, ok := kept.objects[key].(source); ok {
		return s, nil
	}
	return source{}, fmt.Errorf("memory resource: %w", fs.ErrClosed)
}

// gpuSourceNew makes a source: the pool that a device has (own is false), a pool of
// device or pinned memory, or managed memory that prefers a place.
func gpuSourceNew(ordinal, kind int, own bool, maxSize uint64, where, node int32) (made, error) {
	d, err := device.Open(ordinal)
	if err != nil {
		return made{}, err
	}
	if kind == memoryManaged {
		r, err := d.ManagedMemory()
		if err != nil {
			return made{}, err
		}
		if where != driver.MemLocationTypeNone {
			drv, err := driver.Default()
			if err != nil {
				return made{}, err
			}
			r = preferring{r, drv, driver.MemLocation{Type: where, ID: node}}
		}
		return made{key: keep(source{r, func() error { return nil }})}, nil
	}
	var p *device.DevicePool
	switch opts := (&device.PoolOptions{MaxSize: maxSize}); {
	case kind == memoryPinned:
		p, err = d.NewPinnedPool(opts)
	case own:
		p, err = d.NewPool(opts)
	default:
		p, err = d.Pool()
	}
	if err != nil {
		return made{}, err
	}
	return made{key: keep(source{p, p.Close}), handle: uint64(p.Handle())}, nil
}

func keptPool(key uint64) (*device.DevicePool, error) {
	s, err := keptSource(key)
	if err != nil {
		return nil, err
	}
	p, ok := s.MemoryResource.(*device.DevicePool)
	if !ok {
		return nil, fmt.Errorf("memory resource: it has no pool: %w", device.ErrInvalidValue)
	}
	return p, nil
}

func gpuPoolAttribute(key uint64, attr int32) (uint64, error) {
	p, err := keptPool(key)
	if err != nil {
		return 0, err
	}
	return p.Attribute(attr)
}

// gpuPoolPeer grants (1) or revokes (0) the access of another device to a pool, and
// says whether it has access then. Below 0 it only says so.
func gpuPoolPeer(key uint64, peer, can int) (bool, error) {
	p, err := keptPool(key)
	if err != nil {
		return false, err
	}
	d, err := device.Open(peer)
	if err != nil {
		return false, err
	}
	if can >= 0 {
		if err := p.SetAccess(d, can != 0); err != nil {
			return false, err
		}
	}
	return p.CanAccess(d)
}

func gpuBufferNew(ordinal, kind int, from uint64, size int64, handle, ctx uint64) (made, error) {
	d, err := device.Open(ordinal)
	if err != nil {
		return made{}, err
	}
	runtime.LockOSThread() // for a per-thread default stream
	defer runtime.UnlockOSThread()
	s, err := streamOf(handle, ctx)
	if err != nil {
		return made{}, err
	}
	r, err := sourceOf(d, kind, from)
	if err != nil {
		return made{}, err
	}
	b, err := device.Allocate(r, size, s)
	if err != nil {
		return made{}, err
	}
	return madeOf(b, ctx), nil
}

// gpuBufferAdopt takes memory over that somebody allocated from a source. On an
// error it stays theirs.
func gpuBufferAdopt(ordinal, kind int, from, ptr uint64, size int64, handle, ctx uint64) (made, error) {
	runtime.LockOSThread() // for a per-thread default stream
	defer runtime.UnlockOSThread()
	b, err := takenBack(ordinal, kind, from, ptr, size, handle, ctx)
	if err != nil {
		return made{}, err
	}
	return madeOf(b, ctx), nil
}

// takenBack is a Buffer of memory of a source, which goes back there on the stream. The caller is locked to
// its thread.
func takenBack(ordinal, kind int, from, ptr uint64, size int64, handle, ctx uint64) (*device.Buffer, error) {
	d, err := device.Open(ordinal)
	if err != nil {
		return nil, err
	}
	s, err := streamOf(handle, ctx)
	if err != nil {
		return nil, err
	}
	r, err := sourceOf(d, kind, from)
	if err != nil {
		return nil, err
	}
	return device.ImportBuffer(driver.DevicePtr(ptr), size, r, s)
}

// gpuMemoryCheck refuses memory that did not come from a source: what the driver says of
// the address is asked. Nobody can tell whether a Buffer has it.
func gpuMemoryCheck(ordinal, kind int, from, ptr uint64, size int64) error {
	d, err := device.Open(ordinal)
	if err != nil {
		return err
	}
	r, err := sourceOf(d, kind, from)
	if err != nil {
		return err
	}
	drv, err := driver.Default()
	if err != nil {
		return err
	}
	p, res := drv.PointerInfo(driver.DevicePtr(ptr))
	if res != driver.Success {
		return nil // a driver that does not know all of the questions
	}
	if what := notOf(d, r, kind, p, ptr, size); what != "" {
		return fmt.Errorf("memory resource: %s: give back what was allocated here, with its address and size: %w", what, device.ErrInvalidValue)
	}
	return nil
}

// notOf says in words why memory is not of a source; "" if it may be. Drivers round sizes up as they like, and what
// they call the range of a pool's memory need not be that of one allocation: so a size may be too small.
func notOf(d *device.Device, r device.MemoryResource, kind int, p driver.PointerInfo, ptr uint64, size int64) string {
	is := map[bool]int{true: memoryPinned, false: memoryDevice}[p.Type == driver.MemoryTypeHost]
	if p.Managed {
		is = memoryManaged
	}
	names := [...]string{memoryDevice: "device", memoryPinned: "pinned", memoryManaged: "managed"}
	own, _ := r.(*device.DevicePool)
	switch {
	case p.Type == 0:
		return fmt.Sprintf("the driver has no memory at %#x", ptr)
	case kind != is:
		return fmt.Sprintf("there is %s memory at %#x, not %s memory", names[is], ptr, names[kind])
	case kind == memoryDevice && p.Device != d.Handle():
		return fmt.Sprintf("the memory at %#x is not of device %d", ptr, d.Ordinal())
	case own != nil && own.Owned() && p.Pool != own.Handle():
		return fmt.Sprintf("the memory at %#x is not of this pool", ptr)
	case p.Pool == 0 && p.Base != driver.DevicePtr(ptr):
		return fmt.Sprintf("%#x lies in the memory that begins at %#x", ptr, uint64(p.Base))
	case size <= 0 || uint64(size) > uint64(p.Base)+uint64(p.Size)-ptr:
		return fmt.Sprintf("there are %d bytes at %#x, not %d", uint64(p.Base)+uint64(p.Size)-ptr, ptr, size)
	}
	return ""
}

// gpuMemoryFree gives memory back that no Buffer has.
func gpuMemoryFree(ordinal, kind int, from, ptr uint64, size int64, handle, ctx uint64) error {
	if err := gpuMemoryCheck(ordinal, kind, from, ptr, size); err != nil {
		return err
	}
	runtime.LockOSThread() // for a per-thread default stream
	defer runtime.UnlockOSThread()
	b, err := takenBack(ordinal, kind, from, ptr, size, handle, ctx)
	if err != nil {
		return err
	}
	return b.Close()
}

// gpuBufferWrap makes a buffer of memory that stays somebody else's.
func gpuBufferWrap(ptr uint64, size int64) (made, error) {
	b, err := device.WrapBuffer(driver.DevicePtr(ptr), size, nil)
	if err != nil {
		return made{}, err
	}
	return madeOf(b, 0), nil
}

func madeOf(b *device.Buffer, ctx uint64) made {
	m := made{key: keep(b), handle: uint64(b.Ptr()), ctx: ctx, device: b.DLDevice(), ordinal: -1}
	if d := b.Device(); d != nil {
		m.ordinal = d.Ordinal()
	}
	if m.device.Type != dlpack.DeviceCUDA {
		m.device.ID = 0 // R036
	}
	return m
}

func gpuBufferUsed(key uint64, set bool, handle, ctx uint64) error {
	b, err := buffer(key)
	if err != nil {
		return err
	}
	s, err := streamOf(handle, ctx)
	if err != nil {
		return err
	}
	if b.Size() == 0 {
		return nil
	}
	if set {
		return b.SetStream(s)
	}
	return b.UsedOn(s)
}

func gpuBufferFill(key uint64, width int, value uint32, handle, ctx uint64) error {
	b, err := buffer(key)
	if err != nil {
		return err
	}
	s, err := streamOf(handle, ctx)
	if err != nil {
		return err
	}
	if b.Size()%int64(width) != 0 {
		return fmt.Errorf("%d bytes are not a multiple of the pattern's %d: %w", b.Size(), width, device.ErrInvalidValue)
	}
	if b.Size() == 0 {
		return nil
	}
	switch width {
	case 1:
		return b.Fill8(uint8(value), s)
	case 2:
		return b.Fill16(uint16(value), s)
	}
	return b.Fill32(value, s)
}

// gpuViewOf makes a view of a tensor of C, which owns one reference.
func gpuViewOf(addr uintptr, padded bool, ref ownerRef) (memview.StridedMemoryView, error) {
	owner := memview.Unowned()
	if ref != 0 {
		owner = memview.OnRelease(nil, func() error { ref.drop(); return nil })
	}
	t := cptr.To[tensor](addr)
	return memview.FromRaw(&memview.Raw{
		Addr: t.data, NDim: int(t.ndim), Shape: cptr.To[int64](t.shape), Strides: cptr.To[int64](t.strides),
		DType: t.dtype, Device: t.device, Padded: padded, Trusted: true,
	}, owner)
}

// gpuCopy copies in the order of a stream. It takes over both references, also
// on an error.
func gpuCopy(dst, src uintptr, dstRef, srcRef ownerRef, handle, ctx uint64, padded, wait bool) error {
	runtime.LockOSThread() // for a per-thread default stream
	defer runtime.UnlockOSThread()
	d, err := gpuViewOf(dst, padded, dstRef)
	if err != nil {
		dstRef.drop()
		srcRef.drop()
		return err
	}
	s, err := gpuViewOf(src, padded, srcRef)
	if err != nil {
		srcRef.drop()
		return errors.Join(err, d.Release())
	}
	ds, err := streamOf(handle, ctx)
	if err != nil {
		return errors.Join(err, d.Release(), s.Release())
	}
	err = memview.CopyOn(d, s, ds.View())
	if wait && err == nil {
		err = gpuFinish(ds)
	}
	// The memory stays until the copy is done.
	for _, v := range []memview.StridedMemoryView{d, s} {
		if late := gpuGiveUp(v, ds); err == nil {
			err = late
		}
	}
	return err
}

// gpuGiveUp gives a claim up after what is queued on s. If there is no memory for an event, say, it waits for that.
func gpuGiveUp(v memview.StridedMemoryView, s *device.Stream) error {
	err := v.ReleaseOn(s.View())
	switch {
	case err == nil:
		return nil
	case errors.Is(err, device.ErrCapture): // it belongs to the graph: the caller keeps it
	case errors.Is(err, device.ErrSticky): // nothing runs any more
		return errors.Join(err, v.Release())
	default:
		if gpuFinish(s) != nil {
			return err // kept, as it may be in use
		}
	}
	return v.Release()
}

// gpuFinish waits for the work of s; where somebody closed s meanwhile, for that of its context.
func gpuFinish(s *device.Stream) error {
	err := s.Synchronize(context.Background())
	if errors.Is(err, device.ErrClosed) {
		err = s.Context().Synchronize(context.Background())
	}
	return err
}

func gpuReleaseLater(s stream.StreamView, ref ownerRef) error {
	return device.Defer(s, func(error) { go ref.drop() }) // a foreign deleter may take its time
}

// gate is work that lasts until it is closed.
type gate struct{ open func() }

func (g gate) Close() error { g.open(); return nil }

func gpuGate(handle, ctx uint64) (uint64, error) {
	s, err := streamOf(handle, ctx)
	if err != nil {
		return 0, err
	}
	c := make(chan struct{})
	if err := s.Launch(func() { <-c }); err != nil {
		return 0, err
	}
	return keep(gate{func() { close(c) }}), nil
}

func gpuFlush() error {
	ctx := context.Background()
	return errors.Join(memview.Flush(ctx), device.Flush(ctx))
}

// injected are the faults of the software device that Python's tests have set.
var injected struct {
	sync.Mutex
	all []*soft.Injection
}

// gpuInject sets faults in place of those set before. It returns JSON: how many calls the first of
// those saw, how many failed, the name of the first that did, and what is alive now.
func gpuInject(faults string) (string, error) {
	if what, ok := strings.CutPrefix(faults, "edges:"); ok {
		return gpuEdges(what)
	}
	injected.Lock()
	defer injected.Unlock()
	var calls, hits int
	var first string
	for i, in := range injected.all {
		in.Remove()
		if i == 0 {
			calls, hits, first = in.Calls(), in.Hits(), in.First()
		}
	}
	injected.all = nil
	l, st := soft.LiveObjects(), device.Stats()
	did := fmt.Sprintf(`{"calls":%d,"hits":%d,"first":%q,"contexts":%d,"streams":%d,"events":%d,"pools":%d,"allocations":%d,`+
		`"libraries":%d,"graphs":%d,"buffers":%d,"deferred":%d}`, calls, hits, first,
		l.Contexts, l.Streams, l.Events, l.Pools, l.Allocations, l.Libraries+l.Modules, l.Graphs+l.GraphExecs, st.Buffers, st.Deferred)
	for one := range strings.SplitSeq(faults, ",") {
		if one == "" {
			continue
		}
		f, err := soft.ParseFault(one)
		if err != nil {
			return "", err
		}
		in, err := soft.Inject(f)
		if err != nil {
			return "", err
		}
		injected.all = append(injected.all, in)
	}
	return did, nil
}
