package device_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/stream"
)

// walkFixture is what the operations of the walk use.
type walkFixture struct {
	d, peer       *device.Device
	drv           *driver.Driver
	c             *device.Context
	s, q, far     *device.Stream // q of the same device, far of the peer
	foreign       driver.StreamHandle
	start, ev     *device.Event
	pool          *device.DevicePool
	a, b, remote  *device.Buffer
	pinned, plain *device.Buffer
	id            device.UUID
	pci           string
}

func ok[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// fixture is made by the first operation that is not asked once.
var fixture = sync.OnceValue(func() *walkFixture {
	f := &walkFixture{d: ok(device.Open(0)), peer: ok(device.Open(1))}
	f.drv = f.d.Driver()
	f.c = ok(f.d.PrimaryContext())
	f.s, f.q, f.far = ok(f.d.NewStream(nil)), ok(f.d.NewStream(nil)), ok(f.peer.NewStream(nil))
	h, res := f.drv.StreamCreate(f.c.Handle(), driver.StreamNonBlocking)
	ok(h, res.Err())
	f.foreign = h
	f.start = ok(f.s.Record(&device.EventOptions{Timing: true}))
	f.ev = ok(f.s.Record(&device.EventOptions{Timing: true}))
	f.pool = ok(f.d.NewPool(nil))
	f.a, f.b = ok(f.d.Allocate(256, f.s)), ok(f.d.Allocate(256, f.s))
	f.remote = ok(f.peer.Allocate(256, f.far))
	f.pinned = ok(device.Allocate(f.d.PinnedMemory(), 256, f.s))
	f.plain = ok(device.Allocate(f.d.PlainMemory(), 256, f.s))
	f.id, f.pci = ok(f.peer.UUID()), ok(f.peer.PCIBusID())
	return f
})

func (f *walkFixture) close() error {
	return errors.Join(f.start.Close(), f.ev.Close(), f.a.Close(), f.b.Close(), f.remote.Close(), f.pinned.Close(), f.plain.Close(),
		f.pool.Close(), f.s.Close(), f.q.Close(), f.far.Close(), f.drv.StreamDestroy(f.c.Handle(), f.foreign).Err())
}

// closing closes what a step made and joins the errors.
type closing []interface{ Close() error }

func (c closing) done(err *error) {
	for i := range c {
		*err = errors.Join(*err, c[len(c)-1-i].Close())
	}
}

func first[T any](_ T, err error) error { return err }

// waitFor20 is a context that ends, which is the other way of every wait.
func ending(f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return f(ctx)
}

// busy queues work that lasts a moment.
func (f *walkFixture) busy(s *device.Stream) error {
	return s.Launch(func() { time.Sleep(100 * time.Microsecond) })
}

// allocated is an operation on a fresh buffer of a resource.
func allocated(r func(f *walkFixture) (device.MemoryResource, error), use func(f *walkFixture, b *device.Buffer) error) func() error {
	return func() (err error) {
		f := fixture()
		m, err := r(f)
		if err != nil {
			return err
		}
		b, err := device.Allocate(m, 256, f.s)
		if err != nil {
			return err
		}
		defer closing{b}.done(&err)
		return use(f, b)
	}
}

func nothing(*walkFixture, *device.Buffer) error { return nil }

func with(do func(f *walkFixture) error) func() error { return func() error { return do(fixture()) } }

func also(some []string, more ...string) []string { return slices.Concat(some, more) }

// Going the short way first, the order of two streams is made on the long one if that fails.
var orders = []string{"cuEventRecord", "cuStreamWaitEvent"}

// Giving memory back, the host waits where no order can be made.
var waits = also([]string{"cuCtxGetCurrent", "cuCtxPushCurrent", "cuEventCreate", "cuStreamIsCapturing", "cuStreamQuery", "cuEventQuery"}, orders...)

// What gives something back does so even where the context cannot be made current.
var giving = []string{"cuCtxGetCurrent", "cuCtxPushCurrent"}

var walked = []testdriver.Operation{
	{Name: "Count", Once: true, Covers: []string{"Open", "Devices"}, Do: func() error {
		n, err := device.Count()
		if err == nil && n != 2 {
			return fmt.Errorf("%d devices", n)
		}
		if err == nil {
			err = first(device.Open(1))
		}
		for _, e := range device.Devices() {
			err = errors.Join(err, e)
		}
		return err
	}},
	{Name: "Device.UUID", Once: true, Do: func() error { return first(ok(device.Open(0)).UUID()) }},
	{Name: "ByUUID", Once: true, Do: func() error { // device 1 has not been asked yet
		id := ok(ok(device.Open(0)).UUID())
		id[15]++
		d, err := device.ByUUID(id)
		if errors.Is(err, driver.ErrorInvalidDevice) {
			return nil // so nothing hid it
		}
		return first(d, err)
	}},
	{Name: "Device.Name", Once: true, Do: func() error { return first(ok(device.Open(0)).Name()) }},
	{Name: "Device.PCIBusID", Once: true, Do: func() error { return first(ok(device.Open(0)).PCIBusID()) }},
	{Name: "Device.Properties", Once: true, MakesGood: []string{"cuDeviceGetAttribute"}, Do: func() error {
		p, err := ok(device.Open(0)).Properties()
		if err != nil {
			return err
		}
		for range p.All() {
			break
		}
		return nil
	}},
	{Name: "Device.Attribute", MakesGood: []string{"cuDeviceGetAttribute"}, Covers: []string{"Device.ComputeCapability", "Device.Arch"}, Do: func() error {
		d := ok(device.Open(0))
		n, err := d.Attribute(driver.AttrWarpSize)
		if err == nil && n != 32 {
			err = fmt.Errorf("warps of %d", n)
		}
		return errors.Join(err, first(d.Arch()))
	}},
	{Name: "Device.PrimaryContext", Once: true, Do: func() error { return first(ok(device.Open(0)).PrimaryContext()) }},
	{Name: "Device.Pool", Once: true, MakesGood: []string{"cuMemPoolGetAttribute", "cuMemPoolSetAttribute"}, Do: func() error {
		return first(ok(device.Open(0)).Pool())
	}},
	{Name: "ByPCIBusID", Do: with(func(f *walkFixture) error {
		d, err := device.ByPCIBusID(f.pci)
		if err == nil && d != f.peer {
			err = errors.New("another device")
		}
		return err
	})},
	{Name: "Device.TotalMemory", Do: with(func(f *walkFixture) error { return first(f.d.TotalMemory()) })},
	{Name: "Device.MemoryInfo", Do: with(func(f *walkFixture) error {
		_, total, err := f.d.MemoryInfo()
		if err == nil && total == 0 {
			err = errors.New("no memory")
		}
		return err
	})},
	{Name: "Device.CanAccess", Do: with(func(f *walkFixture) error {
		can, err := f.d.CanAccess(f.peer)
		if err == nil && !can {
			err = errors.New("no access")
		}
		return err
	})},
	{Name: "Device.EnableAccess", Covers: []string{"Device.DisableAccess"}, Do: with(func(f *walkFixture) error {
		return errors.Join(f.d.EnableAccess(f.peer), f.d.DisableAccess(f.peer))
	})},
	{Name: "Device.Synchronize", Do: with(func(f *walkFixture) error {
		return errors.Join(f.d.Synchronize(context.Background()), ending(f.d.Synchronize))
	})},
	{
		Name: "Device.SetCurrent", Covers: []string{"Context.SetCurrent"}, MakesGood: []string{"cuCtxGetCurrent", "cuCtxSetCurrent"},
		Do: with(func(f *walkFixture) error {
			for _, set := range []func() (func() error, error){f.d.SetCurrent, f.c.SetCurrent} {
				restore, err := set()
				if err != nil {
					return err
				}
				now, res := f.drv.CtxGetCurrent()
				if err := errors.Join(res.Err(), restore()); err != nil {
					return err
				}
				if now != f.c.Handle() {
					return errors.New("it is not current")
				}
			}
			return nil
		}),
	},
	{Name: "Device.NewContext", Covers: []string{"Context.Close"}, Do: with(func(f *walkFixture) (err error) {
		c, err := f.d.NewContext(0)
		if err != nil {
			return err
		}
		defer closing{c}.done(&err)
		s, err := c.NewStream(nil)
		if err != nil {
			return err
		}
		defer closing{s}.done(&err)
		return s.Wait(f.s) // leaves an event in the context's pool
	}), MakesGood: also(giving, orders...)}, // the events of a context go with it
	{Name: "WrapContext", MakesGood: []string{"cuDevicePrimaryCtxGetState"}, Do: with(func(f *walkFixture) error {
		c, err := device.WrapContext(f.c.Handle())
		if err == nil && c != f.c && c.Handle() != f.c.Handle() {
			err = errors.New("another context")
		}
		return err
	})},
	{Name: "CurrentContext", MakesGood: []string{"cuDevicePrimaryCtxGetState", "cuCtxGetId"}, Do: with(func(*walkFixture) error { return first(device.CurrentContext()) })},
	{Name: "Context.Synchronize", Do: with(func(f *walkFixture) error {
		return errors.Join(f.c.Synchronize(context.Background()), ending(f.c.Synchronize))
	})},
	{Name: "Context.Priorities", Do: with(func(f *walkFixture) error {
		least, greatest, err := f.c.Priorities()
		if err == nil && greatest >= least {
			err = errors.New("no range")
		}
		return err
	})},
	{Name: "Context.DefaultStream", Covers: []string{"Device.DefaultStream", "Context.PerThreadStream"}, Do: with(func(f *walkFixture) error {
		a, err := f.d.DefaultStream()
		if err != nil {
			return err
		}
		b, err := f.c.PerThreadStream()
		if err != nil {
			return err
		}
		return errors.Join(a.Synchronize(context.Background()), b.Synchronize(context.Background()), b.Wait(f.s), f.s.Wait(b), f.s.Wait(a))
	}), MakesGood: orders},
	{Name: "Context.NewStream", Covers: []string{"Device.NewStream", "Stream.Close"}, MakesGood: giving, Do: with(func(f *walkFixture) (err error) {
		s, err := f.c.NewStream(&device.StreamOptions{Priority: -1})
		if err != nil {
			return err
		}
		defer closing{s}.done(&err)
		q, err := f.d.NewStream(nil)
		if err != nil {
			return err
		}
		return q.Close()
	})},
	{Name: "Context.NewEvent", Covers: []string{"Device.NewEvent", "Event.Close"}, MakesGood: giving, Do: with(func(f *walkFixture) (err error) {
		e, err := f.c.NewEvent(&device.EventOptions{BlockingSync: true})
		if err != nil {
			return err
		}
		defer closing{e}.done(&err)
		g, err := f.d.NewEvent(nil)
		if err != nil {
			return err
		}
		return g.Close()
	})},
	{Name: "Event.Done", Do: with(func(f *walkFixture) error {
		done, err := f.ev.Done()
		if err == nil && !done {
			err = errors.New("not done")
		}
		return err
	})},
	{Name: "Event.Synchronize", Max: 30, MakesGood: also(giving, "cuEventQuery"), Do: with(func(f *walkFixture) (err error) {
		for _, wait := range []func(*device.Event) error{
			func(e *device.Event) error { return e.Synchronize(context.Background()) },
			func(e *device.Event) error { return ending(e.Synchronize) },
		} {
			if err := f.busy(f.s); err != nil {
				return err
			}
			e, err := f.s.Record(nil)
			if err != nil {
				return err
			}
			if err := errors.Join(wait(e), e.Close()); err != nil {
				return err
			}
		}
		return nil
	})},
	{Name: "Elapsed", Do: with(func(f *walkFixture) error { return first(device.Elapsed(f.start, f.ev)) })},
	{Name: "Stream.Record", Covers: []string{"Stream.RecordEvent", "Stream.WaitEvent"}, MakesGood: giving, Do: with(func(f *walkFixture) (err error) {
		e, err := f.s.Record(nil)
		if err != nil {
			return err
		}
		defer closing{e}.done(&err)
		if err := f.s.RecordEvent(e); err != nil {
			return err
		}
		return errors.Join(f.q.WaitEvent(e), f.far.WaitEvent(e))
	})},
	{Name: "Stream.Wait", MakesGood: orders, Do: with(func(f *walkFixture) error {
		if err := f.busy(f.s); err != nil {
			return err
		}
		s, err := device.WrapStream(f.foreign, f.c, nil)
		if err != nil {
			return err
		}
		view := s.View()
		return errors.Join(f.q.Wait(f.s), f.far.Wait(f.s), f.s.Wait(f.far), f.s.Wait(f.s), f.q.Wait(view), f.q.Wait(foreignStream(f.foreign)))
	})},
	{Name: "Wrap", Covers: []string{"WrapStream"}, MakesGood: []string{"cuDevicePrimaryCtxGetState"}, Do: with(func(f *walkFixture) error {
		s, err := device.Wrap(foreignStream(f.foreign), nil)
		if err != nil {
			return err
		}
		q, err := device.WrapStream(f.foreign, nil, nil)
		if err != nil {
			return err
		}
		if s.Handle() != q.Handle() || s.Owned() {
			return errors.New("another stream")
		}
		return nil
	})},
	{Name: "Stream.NonBlocking", Covers: []string{"Stream.Priority", "Stream.ID"}, Do: with(func(f *walkFixture) error {
		s, err := device.WrapStream(f.foreign, f.c, nil)
		if err != nil {
			return err
		}
		return errors.Join(first(s.NonBlocking()), first(s.Priority()), first(s.ID()))
	})},
	{Name: "Stream.Done", Covers: []string{"Stream.Capturing"}, Do: with(func(f *walkFixture) error {
		return errors.Join(first(f.s.Done()), first(f.s.Capturing()))
	})},
	{Name: "Stream.Synchronize", Max: 30, MakesGood: also(giving, "cuEventQuery"), Do: with(func(f *walkFixture) error {
		for _, wait := range []func() error{
			func() error { return f.s.Synchronize(context.Background()) },
			func() error { return ending(f.s.Synchronize) },
		} {
			var done bool
			if err := f.s.Launch(func() { time.Sleep(100 * time.Microsecond); done = true }); err != nil {
				return err
			}
			if err := wait(); err != nil {
				return err
			}
			if !done {
				return errors.New("the work was not done")
			}
		}
		return nil
	})},
	{Name: "Stream.Launch", Do: with(func(f *walkFixture) error {
		ran := make(chan struct{})
		if err := f.s.Launch(func() { close(ran) }); err != nil {
			return err
		}
		if err := f.s.Synchronize(context.Background()); err != nil {
			return err // B163: in a lost context it never runs
		}
		<-ran
		return nil
	})},
	{Name: "Stream.BeginCapture", Covers: []string{"Stream.EndCapture"}, MakesGood: giving, Do: func() (err error) {
		// A stream of its own: a capture that cannot be ended goes with it.
		f := fixture()
		s, err := f.d.NewStream(nil)
		if err != nil {
			return err
		}
		defer closing{s}.done(&err)
		if err := s.BeginCapture(driver.StreamCaptureModeRelaxed); err != nil {
			return err
		}
		g, err := s.EndCapture()
		if err != nil {
			return err
		}
		if res := f.drv.GraphDestroy(g); res != driver.Success {
			return &device.Error{Op: "destroy graph", Code: res}
		}
		return nil
	}},
	{Name: "Device.Allocate", Covers: []string{"Device.Memory", "Allocate", "Buffer.Close"}, MakesGood: []string{"cuDeviceGetAttribute"}, Do: func() (err error) {
		f := fixture()
		b, err := f.d.Allocate(256, f.s)
		if err != nil {
			return err
		}
		defer closing{b}.done(&err)
		return b.Fill8(1, f.s)
	}},
	{
		Name: "Device.PlainMemory", MakesGood: also(waits, "cuMemFree"),
		Do: allocated(func(f *walkFixture) (device.MemoryResource, error) { return f.d.PlainMemory(), nil }, nothing),
	},
	{
		Name: "Device.PinnedMemory", MakesGood: also(waits, "cuMemFreeHost"),
		Do: allocated(func(f *walkFixture) (device.MemoryResource, error) { return f.d.PinnedMemory(), nil }, func(_ *walkFixture, b *device.Buffer) error {
			return first(b.Bytes())
		}),
		Covers: []string{"Buffer.Bytes"},
	},
	{
		Name: "Device.ManagedMemory", MakesGood: also(waits, "cuDeviceGetAttribute", "cuMemFree"),
		Do: allocated(func(f *walkFixture) (device.MemoryResource, error) { return f.d.ManagedMemory() }, nothing),
	},
	{
		Name: "Buffer.UsedOn", Covers: []string{"Buffer.SetStream"}, MakesGood: waits,
		Do: allocated(func(f *walkFixture) (device.MemoryResource, error) { return f.pool, nil }, func(f *walkFixture, b *device.Buffer) error {
			return errors.Join(b.Fill8(1, f.s), b.UsedOn(f.q), b.SetStream(f.q), b.Fill8(2, f.s))
		}),
	},
	{Name: "Buffer.CloseOn", MakesGood: waits, Do: func() error {
		f := fixture()
		b, err := device.Allocate(f.pool, 256, f.s)
		if err != nil {
			return err
		}
		return b.CloseOn(f.q)
	}},
	{
		Name: "Buffer.Close, after the stream", Max: 30, MakesGood: also(waits, "cuMemFree"),
		Do: func() (err error) {
			f := fixture()
			s, err := f.d.NewStream(nil)
			if err != nil {
				return err
			}
			b, err := device.Allocate(f.d.PlainMemory(), 256, s)
			if err != nil {
				return errors.Join(err, s.Close())
			}
			err = f.busy(s)
			return errors.Join(err, s.Close(), b.Close())
		},
	},
	{Name: "ImportBuffer", Covers: []string{"DevicePool.Allocate", "DevicePool.Deallocate"}, Do: func() (err error) {
		f := fixture()
		ptr, err := f.pool.Allocate(256, f.s)
		if err != nil {
			return err
		}
		b, err := device.ImportBuffer(ptr, 256, f.pool, f.s)
		if err != nil {
			return errors.Join(err, f.pool.Deallocate(ptr, 256, f.s))
		}
		return b.Close()
	}},
	{Name: "WrapBuffer", Covers: []string{"InfoOf"}, Do: with(func(f *walkFixture) error {
		b, err := device.WrapBuffer(f.a.Ptr(), 256, nil)
		if err != nil {
			return err
		}
		return errors.Join(b.Fill8(1, f.s), b.Close(), first(device.InfoOf(f.pinned.Ptr())))
	})},
	{
		Name: "Copy", Covers: []string{"CopyRange", "Buffer.CopyFrom", "Buffer.CopyTo", "Buffer.Fill8", "Buffer.Fill16", "Buffer.Fill32"},
		Do: with(func(f *walkFixture) error {
			if err := errors.Join(f.a.Fill32(0x01010101, f.s), f.b.Fill16(0x0202, f.s)); err != nil {
				return err
			}
			if err := errors.Join(device.Copy(f.b, f.a, f.s), f.b.CopyTo(f.plain, f.s), f.pinned.CopyFrom(f.plain, f.s)); err != nil {
				return err
			}
			if err := f.s.Synchronize(context.Background()); err != nil {
				return err
			}
			if !bytes.Equal(ok(f.pinned.Bytes()), bytes.Repeat([]byte{1}, 256)) {
				return errors.New("wrong bytes")
			}
			return nil
		}),
	},
	{Name: "CopyRange, between devices", MakesGood: orders, Do: with(func(f *walkFixture) error {
		if err := f.a.Fill8(7, f.s); err != nil {
			return err
		}
		if err := device.CopyRange(f.remote, 16, f.a, 0, 16, f.s); err != nil {
			return err
		}
		return f.far.Wait(f.s)
	})},
	{
		Name: "Buffer.CopyFromHost", MakesGood: also(giving, "cuEventQuery"), Covers: []string{"Buffer.CopyFromHostSync", "Buffer.CopyToHost"},
		Do: with(func(f *walkFixture) error {
			in, out := bytes.Repeat([]byte{5}, 256), make([]byte, 256)
			for _, b := range []*device.Buffer{f.a, f.pinned} {
				if err := b.CopyFromHost(in, f.s); err != nil {
					return err
				}
				if err := ending(func(ctx context.Context) error { return b.CopyFromHostSync(ctx, in, f.s) }); err != nil {
					return err
				}
				clear(out)
				if err := b.CopyToHost(context.Background(), out, f.s); err != nil {
					return err
				}
				if !bytes.Equal(in, out) {
					return errors.New("wrong bytes")
				}
			}
			return nil
		}),
	},
	{Name: "Device.NewPool", Covers: []string{"DevicePool.Close"}, Do: with(func(f *walkFixture) error {
		p, err := f.d.NewPool(&device.PoolOptions{MaxSize: 1 << 20})
		if err != nil {
			return err
		}
		return p.Close()
	})},
	{Name: "Device.NewPinnedPool", MakesGood: []string{"cuDeviceGetAttribute"}, Do: with(func(f *walkFixture) error {
		p, err := f.d.NewPinnedPool(nil)
		if err != nil {
			return err
		}
		return p.Close()
	})},
	{Name: "DevicePool.Attribute", Covers: []string{"DevicePool.SetAttribute", "DevicePool.Used", "DevicePool.Reserved", "DevicePool.Trim"}, Do: with(func(f *walkFixture) error {
		return errors.Join(first(f.pool.Attribute(driver.MemPoolAttrReuseFollowEventDependencies)),
			f.pool.SetAttribute(driver.MemPoolAttrReleaseThreshold, 0), first(f.pool.Used()), first(f.pool.Reserved()), f.pool.Trim(0))
	})},
	{Name: "Buffer.Share", Do: with(func(f *walkFixture) error {
		m, err := f.plain.Share()
		if err == nil && m.Size != 256 {
			err = fmt.Errorf("%+v", m)
		}
		return err
	})},
	{Name: "DevicePool.SetAccess", Covers: []string{"DevicePool.CanAccess"}, Do: with(func(f *walkFixture) error {
		return errors.Join(f.pool.SetAccess(f.peer, true), first(f.pool.CanAccess(f.peer)), f.pool.SetAccess(f.peer, false))
	})},
	{Name: "Defer", Max: 30, Covers: []string{"Flush"}, MakesGood: []string{"cuEventQuery", "cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent"}, Do: with(func(f *walkFixture) error {
		if err := f.busy(f.s); err != nil {
			return err
		}
		ran := make(chan error, 1)
		if err := device.Defer(f.s.View(), func(err error) { ran <- err }); err != nil {
			return err
		}
		return errors.Join(<-ran, ending(device.Flush))
	})},
}

// foreignStream is a stream of another library.
type foreignStream driver.StreamHandle

func (s foreignStream) CUDAStream() (version int, handle uintptr) { return 0, uintptr(s) }

var _ stream.StreamLike = foreignStream(0)

// TestFaultWalk makes every driver call of every operation fail: B140, B183, B279.
func TestFaultWalk(t *testing.T) {
	if !testdriver.InProcess(t) {
		return
	}
	(&testdriver.Walk{
		Operations: walked,
		Exempt: map[string]string{
			"counts":                     "Buffer.Begin Buffer.BeginOn Context.Begin Context.End Event.Begin Event.End Pass.Drop Stream.Admit Stream.Admits Stream.Begin Stream.End",
			"covered by what gives back": "Buffer.End",
			"a field":                    "Buffer.Closed Buffer.DLDevice Buffer.Device Buffer.Info Buffer.Owner Buffer.Ptr Buffer.Resource Buffer.Size Context.Device Context.Handle Context.Primary Device.Driver Device.Handle Device.Ordinal DevicePool.Device DevicePool.Handle DevicePool.Info DevicePool.Owned Event.Context Event.Device Event.Handle Event.Options Stream.CUDAStream Stream.Context Stream.Device Stream.Handle Stream.Kind Stream.Owned Stream.Owner",
			"fields":                     "Buffer.String Context.String Device.String DevicePool.String MemoryInfo.* Stream.String Stream.View",
			"text":                       "Error.* UUID.*",
			"a registry":                 "EventOf",
			"a map":                      "Properties.*",
			"counters":                   "Stats",
			"needs another process: see TestMemoryOfAnotherProcess":                   "OpenMemory",
			"the software device has no sharing of events and pools: it always fails": "Event.IPCHandle Context.OpenIPCEvent Device.OpenPool DevicePool.FD DevicePool.Open DevicePool.Share",
		},
		Typed: func(err error, code driver.Result) error {
			var e *device.Error
			if errors.As(err, &e) && e.Op == "" {
				return errors.New("no operation")
			}
			if !errors.Is(err, code) {
				return errors.New("another code")
			}
			if e == nil {
				var res driver.Result
				if !errors.As(err, &res) {
					return errors.New("no driver code")
				}
			}
			return nil
		},
		Settle: device.Flush,
		State: func() any {
			s := device.Stats()
			return [...]int64{s.Contexts, s.Streams, s.Events, s.Buffers, s.Pools, s.Allocated, s.Deferred, s.Waiters}
		},
	}).Run(t)
	if err := fixture().close(); err != nil {
		t.Error(err)
	}
	runtime.KeepAlive(walked)
}
