package memview_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/memview"
	"github.com/go-handoff/handoff/stream"
)

// Helpers of the tests that need a device: the software device, or a GPU with
// HANDOFF_DRIVER=cuda, with the same tests.

var background = context.Background()

func openDevice(t testing.TB, ordinal int) *device.Device {
	t.Helper()
	testdriver.Open(t)
	n, err := device.Count()
	require.NoError(t, err)
	if n <= ordinal {
		t.Skipf("needs %d devices, there are %d", ordinal+1, n)
	}
	t.Cleanup(func() { flush(t) })
	d := must(device.Open(ordinal))
	prepared[min(ordinal, 1)].Do(func() {
		// Kernels must not be loaded for the first time while a test holds
		// work up.
		s := must(d.NewStream(nil))
		require.NoError(t, memview.PrepareCopies(s.View()))
		require.NoError(t, memview.Flush(background))
		require.NoError(t, s.Close())
	})
	return d
}

// flush waits until nothing is left to free: the driver would wait for the work that the next test holds up, and the
// checking layer takes that wait for over as soon as it begins.
func flush(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	require.NoError(t, device.Flush(ctx))
}

var prepared [2]sync.Once

func newStream(t testing.TB, d *device.Device) *device.Stream {
	t.Helper()
	s, err := d.NewStream(nil)
	require.NoError(t, err)
	if testdriver.Real() {
		// A GPU's driver may wait for the device when it gets pinned memory,
		// and so for the work that a test blocks.
		require.NoError(t, memview.PrepareCopies(s.View()))
	}
	t.Cleanup(func() {
		require.NoError(t, memview.Flush(background))
		require.NoError(t, s.Close())
		flush(t)
	})
	return s
}

func block(t testing.TB, s *device.Stream) (release func()) {
	t.Helper()
	return testdriver.Block(t, s.Device().Driver(), s.Context().Handle(), s.Handle())
}

func allocate(t testing.TB, r device.MemoryResource, size int64, s *device.Stream) *device.Buffer {
	t.Helper()
	b, err := device.Allocate(r, size, s)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

func memoryOf(t testing.TB, d *device.Device) device.MemoryResource {
	t.Helper()
	return must(d.Memory())
}

// word reads the first 32-bit word of device memory in the order of s, and
// waits for it.
func (p *producer) word(t testing.TB, addr uintptr, s *device.Stream) uint32 {
	t.Helper()
	d := s.Device().Driver()
	require.NoError(t, d.MemcpyAsync(s.Context().Handle(), p.host.Ptr(), driver.DevicePtr(addr), 4, s.Handle()).Err())
	require.NoError(t, s.Synchronize(background))
	b := must(p.host.Bytes())
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// calls counts the driver calls of the software device by name.
var calls callLog

type callLog struct {
	on     atomic.Bool
	counts [4]atomic.Int64
	broken atomic.Pointer[string] // the call that fails, if any
	code   atomic.Int32           // and how
}

var callNames = [4]string{"cuEventRecord", "cuStreamWaitEvent", "cuPointerGetAttributes", "cuStreamSynchronize"}

func (c *callLog) fault(api string) int32 {
	if b := c.broken.Load(); b != nil && *b == api {
		return c.code.Load()
	}
	if c.on.Load() {
		for i, n := range callNames {
			if n == api {
				c.counts[i].Add(1)
			}
		}
	}
	return 0
}

// during counts the calls of f. On a GPU nobody counts: ok is false.
func (c *callLog) during(f func()) (records, waits, queries, syncs int64, ok bool) {
	for i := range c.counts {
		c.counts[i].Store(0)
	}
	c.on.Store(true)
	f()
	c.on.Store(false)
	return c.counts[0].Load(), c.counts[1].Load(), c.counts[2].Load(), c.counts[3].Load(), !testdriver.Real()
}

// breaking makes one call fail, for want of memory, while f runs.
func (c *callLog) breaking(t testing.TB, api string, f func()) {
	t.Helper()
	c.failing(t, api, driver.ErrorOutOfMemory, f)
}

func (c *callLog) failing(t testing.TB, api string, code driver.Result, f func()) {
	t.Helper()
	if testdriver.Real() {
		t.Skip("a GPU does not fail on demand")
	}
	c.code.Store(int32(code))
	c.broken.Store(&api)
	defer c.broken.Store(nil)
	f()
}

// requireEdges checks that f makes n event edges and never blocks the host.
func requireEdges(t testing.TB, n int64, f func()) {
	t.Helper()
	records, waits, _, syncs, ok := calls.during(f)
	if ok {
		require.Equal(t, n, records, "events recorded")
		require.Equal(t, n, waits, "waits queued")
		require.Zero(t, syncs, "host waits")
	}
}

func caiOf(addr uintptr, n int64, s cai.StreamArgument) *cai.Interface {
	ts := must(cai.ParseTypestr("<i4"))
	return &cai.Interface{Array: cai.Array{Version: 3, Shape: ints(n), Typestr: ts, Data: addr}, Stream: s}
}

// producer is a slow producer: memory that says 1, and a queue of work that
// will write 2 once it is let go.
type producer struct {
	buf  *device.Buffer
	host *device.Buffer // pinned: allocating while work is held up might wait for it
	s    *device.Stream
	open func()
}

func slowProducer(t testing.TB, d *device.Device) *producer {
	t.Helper()
	s := newStream(t, d)
	b := allocate(t, memoryOf(t, d), 1024, s)
	require.NoError(t, b.Fill32(1, s))
	require.NoError(t, s.Synchronize(background))
	host := allocate(t, d.PinnedMemory(), 4, s)
	open := block(t, s)
	require.NoError(t, b.Fill32(2, s))
	return &producer{b, host, s, open}
}

func (p *producer) desc() dlpack.Desc {
	return dlpack.Desc{Data: uintptr(p.buf.Ptr()), Device: p.buf.DLDevice(), DType: dlpack.Int32, Shape: ints(256)}
}

// DLPackDevice and DLPack make it a well-behaved producer.
func (p *producer) DLPackDevice() (dlpack.Device, error) { return p.buf.DLDevice(), nil }

func (p *producer) DLPack(r dlpack.Request) (dlpack.Capsule, error) {
	d := p.desc()
	plan, err := r.Plan(&dlpack.Offer{Device: d.Device, DType: d.DType})
	if err != nil {
		return dlpack.Capsule{}, err
	}
	if plan.Stream.Kind == dlpack.StreamHandle {
		c, err := device.WrapStream(driver.StreamHandle(plan.Stream.Handle), p.s.Context(), nil)
		if err != nil {
			return dlpack.Capsule{}, err
		}
		if err := c.Wait(p.s); err != nil {
			return dlpack.Capsule{}, err
		}
	}
	e, err := dlpack.ExportDesc(d, nil)
	if err != nil {
		return dlpack.Capsule{}, err
	}
	defer e.Close()
	addr, err := e.Export(plan.Versioned)
	return dlpack.Capsule{Addr: addr, Versioned: plan.Versioned}, err
}

func (p *producer) ProducerStream() stream.StreamView { return p.s.View() }

// ways are the ways to import from a slow producer.
func (p *producer) ways() map[string]func(order stream.Order) (memview.StridedMemoryView, error) {
	return map[string]func(order stream.Order) (memview.StridedMemoryView, error){
		"DLPack": func(o stream.Order) (memview.StridedMemoryView, error) { return memview.Import(p, o, nil) },
		"DLPack that ignores the stream B223": func(o stream.Order) (memview.StridedMemoryView, error) {
			return memview.Import(p, o, &memview.ImportOptions{Producer: p.s.View()})
		},
		"CAI B214": func(o stream.Order) (memview.StridedMemoryView, error) {
			return memview.FromCAI(caiOf(uintptr(p.buf.Ptr()), 256, p.s.View().Argument()), memview.Unowned(), o, nil)
		},
		"CAI version 2 with the stream told": func(o stream.Order) (memview.StridedMemoryView, error) {
			i := caiOf(uintptr(p.buf.Ptr()), 256, cai.NoStream)
			i.Version = 2
			return memview.FromCAI(i, memview.Unowned(), o, &memview.CAIOptions{Producer: p.s.View()})
		},
		"address": func(o stream.Order) (memview.StridedMemoryView, error) {
			d := p.desc()
			v, err := memview.FromDesc(&d, memview.Unowned())
			if err != nil {
				return v, err
			}
			return v.Ordered(p.s.View(), o)
		},
		"device buffer": func(o stream.Order) (memview.StridedMemoryView, error) {
			return memview.FromDeviceBuffer(p.buf, dlpack.Int32, ints(256), o, &memview.BufferOptions{Producer: p.s.View()})
		},
	}
}

var wayNames = []string{
	"DLPack", "DLPack that ignores the stream B223", "CAI B214", "CAI version 2 with the stream told", "address", "device buffer",
}

// TestOrderOnImport reads a slow producer's memory on another stream, with the
// edge and, as the control, without: then the old value must show.
func TestOrderOnImport(t *testing.T) {
	d := openDevice(t, 0)
	for _, name := range wayNames {
		t.Run(name, func(t *testing.T) {
			t.Run("R137 R188 B225 ordered", func(t *testing.T) {
				mine := newStream(t, d)
				p := slowProducer(t, d)
				var v memview.StridedMemoryView
				requireEdges(t, 1, func() { v = must(p.ways()[name](stream.On(mine.View()))) })
				defer v.Release()
				require.True(t, v.ProducerStream().Same(p.s.View()))
				require.True(t, v.Stream().Same(mine.View()))
				done, err := mine.Done()
				require.NoError(t, err)
				require.False(t, done, "the stream waits for the producer")
				p.open()
				require.EqualValues(t, 2, p.word(t, v.Addr(), mine))
			})
			t.Run("R127 control without the edge", func(t *testing.T) {
				testdriver.Racy(t)
				mine := newStream(t, d)
				p := slowProducer(t, d)
				var v memview.StridedMemoryView
				requireEdges(t, 0, func() { v = must(p.ways()[name](stream.NoSync())) })
				defer v.Release()
				require.False(t, v.Stream().Valid())
				require.EqualValues(t, 1, p.word(t, v.Addr(), mine), "the write is still to come")
				p.open()
			})
			t.Run("same stream needs no edge", func(t *testing.T) {
				p := slowProducer(t, d)
				var v memview.StridedMemoryView
				requireEdges(t, 0, func() { v = must(p.ways()[name](stream.On(p.s.View()))) })
				defer v.Release()
				p.open()
				require.EqualValues(t, 2, p.word(t, v.Addr(), p.s))
			})
			t.Run("no order is an error", func(t *testing.T) {
				p := slowProducer(t, d)
				_, err := p.ways()[name](stream.Order{})
				require.ErrorIs(t, err, stream.ErrNoOrder)
				_, err = p.ways()[name](stream.On(stream.StreamView{}))
				require.ErrorIs(t, err, stream.ErrInvalid)
				require.False(t, p.buf.Closed())
				p.open()
			})
		})
	}
}

func TestOrderWithNothingPending(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	b := allocate(t, memoryOf(t, d), 64, s)
	require.NoError(t, s.Synchronize(background)) // others may use the memory from now on
	t.Run("R183 stream None", func(t *testing.T) {
		requireEdges(t, 0, func() {
			v := must(memview.FromCAI(caiOf(uintptr(b.Ptr()), 16, cai.NoStream), memview.Unowned(), stream.On(s.View()), nil))
			require.False(t, v.ProducerStream().Valid())
		})
	})
	t.Run("R183 version below 3", func(t *testing.T) {
		requireEdges(t, 0, func() {
			for version := range 3 {
				i := caiOf(uintptr(b.Ptr()), 16, cai.NoStream)
				i.Version = version
				require.Equal(t, cai.OrderingUnstated, i.Ordering())
				v := must(memview.FromCAI(i, memview.Unowned(), stream.On(s.View()), nil))
				require.Equal(t, ints(16), v.Shape())
			}
		})
	})
	t.Run("R185 legacy default stream", func(t *testing.T) {
		requireEdges(t, 1, func() {
			v := must(memview.FromCAI(caiOf(uintptr(b.Ptr()), 16, cai.LegacyDefault), memview.Unowned(), stream.On(s.View()), nil))
			require.Equal(t, stream.KindLegacyDefault, v.ProducerStream().Kind())
		})
		require.NoError(t, s.Synchronize(background))
	})
}

func TestOrderUnderCapture(t *testing.T) {
	d := openDevice(t, 0)
	t.Run("B231 B235 producer in the capture", func(t *testing.T) {
		a, b := newStream(t, d), newStream(t, d)
		buf := allocate(t, memoryOf(t, d), 64, a)
		require.NoError(t, a.Synchronize(background))
		require.NoError(t, a.BeginCapture(driver.StreamCaptureModeRelaxed))
		require.NoError(t, buf.Fill32(7, a))
		v, err := memview.FromCAI(caiOf(uintptr(buf.Ptr()), 16, a.View().Argument()), memview.Unowned(), stream.On(b.View()), &memview.CAIOptions{Device: dlpack.Device{Type: dlpack.DeviceCUDA}})
		require.NoError(t, err)
		capturing, err := b.Capturing()
		require.NoError(t, err)
		require.True(t, capturing, "the edge took the stream into the capture")
		require.NoError(t, v.ReleaseOn(b.View()), "the way back rejoins")
		g, err := a.EndCapture()
		require.NoError(t, err)
		require.NoError(t, d.Driver().GraphDestroy(g).Err())
	})
	t.Run("B231 producer outside of the capture", func(t *testing.T) {
		a, b := newStream(t, d), newStream(t, d)
		buf := allocate(t, memoryOf(t, d), 64, a)
		require.NoError(t, a.Synchronize(background))
		require.NoError(t, b.BeginCapture(driver.StreamCaptureModeRelaxed))
		v, err := memview.FromCAI(caiOf(uintptr(buf.Ptr()), 16, cai.NoStream), memview.OnRelease(nil, nil), stream.On(b.View()), &memview.CAIOptions{Device: dlpack.Device{Type: dlpack.DeviceCUDA}})
		require.NoError(t, err, "nothing pending: no call that could harm the capture")
		require.ErrorIs(t, v.ReleaseOn(b.View()), device.ErrCapture)
		require.True(t, v.Live(), "on an error nothing is given up")
		g, err := b.EndCapture()
		require.NoError(t, err, "the capture was not harmed")
		require.NoError(t, d.Driver().GraphDestroy(g).Err())
		require.NoError(t, v.Release())
	})
}

func TestAcrossDevices(t *testing.T) {
	near, far := openDevice(t, 0), openDevice(t, 1)
	t.Run("R148 DLPack gets a stream of its own device", func(t *testing.T) {
		mine := newStream(t, far)
		p := slowProducer(t, near)
		if can := must(far.CanAccess(near)); !can {
			_, err := memview.Import(p, stream.On(mine.View()), nil)
			require.ErrorIs(t, err, device.ErrPeerAccess)
			t.Skip("the devices have no path to each other: B287")
		}
		var got dlpack.Request
		spy := spyProducer{p, &got}
		v := must(memview.Import(spy, stream.On(mine.View()), nil))
		defer v.Release()
		handle, _ := got.Stream.Int64()
		require.NotEqual(t, int64(mine.Handle()), handle)
		require.Equal(t, 0, v.DeviceID())
		done, err := mine.Done()
		require.NoError(t, err)
		require.False(t, done)
		p.open()
		require.NoError(t, mine.Synchronize(background))
		require.EqualValues(t, 2, p.word(t, v.Addr(), newStream(t, near)))
	})
	t.Run("R188 CAI", func(t *testing.T) {
		mine := newStream(t, far)
		p := slowProducer(t, near)
		i := caiOf(uintptr(p.buf.Ptr()), 256, p.s.View().Argument())
		v := must(memview.FromCAI(i, memview.Unowned(), stream.On(mine.View()), nil))
		require.Equal(t, 0, v.DeviceID())
		done, err := mine.Done()
		require.NoError(t, err)
		require.False(t, done)
		p.open()
		require.NoError(t, mine.Synchronize(background))
	})
	t.Run("B275 device 1", func(t *testing.T) {
		s := newStream(t, far)
		b := allocate(t, memoryOf(t, far), 64, s)
		v := must(memview.FromCAI(caiOf(uintptr(b.Ptr()), 16, cai.NoStream), memview.Unowned(), stream.NoSync(), nil))
		require.Equal(t, dlpack.Device{Type: dlpack.DeviceCUDA, ID: 1}, v.Device())
		require.Equal(t, 1, v.DeviceID())
		w := must(memview.FromDeviceBuffer(b, dlpack.Int32, ints(16), stream.NoSync(), nil))
		require.Equal(t, 1, w.DeviceID())
	})
}

type spyProducer struct {
	dlpack.Producer
	got *dlpack.Request
}

func (p spyProducer) DLPack(r dlpack.Request) (dlpack.Capsule, error) {
	*p.got = r
	return p.Producer.DLPack(r)
}

// fixedProducer announces one device and delivers what it has.
type fixedProducer struct {
	dev  dlpack.Device
	desc dlpack.Desc
	got  dlpack.Request
	gone atomic.Int64
}

func (p *fixedProducer) DLPackDevice() (dlpack.Device, error) { return p.dev, nil }

func (p *fixedProducer) DLPack(r dlpack.Request) (dlpack.Capsule, error) {
	p.got = r
	e, err := dlpack.ExportDesc(p.desc, func() { p.gone.Add(1) })
	if err != nil {
		return dlpack.Capsule{}, err
	}
	defer e.Close()
	addr, err := e.Export(true)
	return dlpack.Capsule{Addr: addr, Versioned: true}, err
}

func TestImportStreamArgument(t *testing.T) {
	if !driver.Available {
		t.Skip("exports need cgo")
	}
	d := openDevice(t, 0)
	s := newStream(t, d)
	legacy := must(d.DefaultStream())
	cuda := func(typ dlpack.DeviceType) *fixedProducer {
		dev := dlpack.Device{Type: typ}
		return &fixedProducer{dev: dev, desc: dlpack.Desc{Data: 0x10000, Device: dev, DType: dlpack.Float32, Shape: ints(4)}}
	}
	for _, typ := range []dlpack.DeviceType{dlpack.DeviceCUDA, dlpack.DeviceCUDAHost, dlpack.DeviceCUDAManaged} {
		t.Run("R141 R142 "+typ.String(), func(t *testing.T) {
			for want, order := range map[string]stream.Order{
				"-1": stream.NoSync(),
				"1":  stream.On(legacy.View()),
				dlpack.StreamUint(uint64(s.Handle())).String(): stream.On(s.View()),
			} {
				p := cuda(typ)
				v := must(memview.Import(p, order, nil))
				require.Equal(t, want, p.got.Stream.String())
				require.NoError(t, v.Release())
				require.EqualValues(t, 1, p.gone.Load())
			}
		})
	}
	t.Run("R134 ROCm", func(t *testing.T) {
		p := cuda(dlpack.DeviceROCM)
		_, err := memview.Import(p, stream.On(s.View()), nil)
		require.ErrorIs(t, err, dlpack.ErrDevice)
		v := must(memview.Import(p, stream.NoSync(), nil))
		require.Equal(t, "-1", p.got.Stream.String())
		require.NoError(t, v.Release())
	})
	t.Run("R135 B197 CPU", func(t *testing.T) {
		data := seq[float32](4)
		p := &fixedProducer{dev: dlpack.CPU, desc: dlpack.Desc{Data: foreign(t, data), Device: dlpack.CPU, DType: dlpack.Float32, Shape: ints(4)}}
		for _, o := range []stream.Order{{}, stream.NoSync(), stream.On(s.View())} {
			v := must(memview.Import(p, o, nil))
			require.True(t, p.got.Stream.IsNone())
			require.Equal(t, -1, v.DeviceID())
			require.NoError(t, v.Release())
		}
	})
	t.Run("R155 another device than announced", func(t *testing.T) {
		p := cuda(dlpack.DeviceCUDA)
		p.dev = dlpack.CPU
		_, err := memview.Import(p, stream.Order{}, nil)
		require.ErrorIs(t, err, dlpack.ErrDevice, "CPU memory is not ordered, so this must not pass")
		require.EqualValues(t, 1, p.gone.Load(), "the deleter ran once")
	})
	t.Run("R015 writable wanted", func(t *testing.T) {
		p := cuda(dlpack.DeviceCUDA)
		p.desc.Flags = dlpack.FlagReadOnly
		_, err := memview.Import(p, stream.NoSync(), &memview.ImportOptions{Writable: true})
		require.ErrorIs(t, err, dlpack.ErrReadOnly)
		require.EqualValues(t, 1, p.gone.Load())
		v := must(memview.Import(p, stream.NoSync(), nil))
		require.True(t, v.ReadOnly())
		require.NoError(t, v.Release())
	})
	t.Run("R038 opaque handles", func(t *testing.T) {
		_, err := memview.Import(cuda(dlpack.DeviceMetal), stream.NoSync(), nil)
		require.ErrorIs(t, err, dlpack.ErrDevice)
		_, err = memview.Import(nil, stream.NoSync(), nil)
		require.ErrorIs(t, err, dlpack.ErrNull)
	})
}

func TestMemoryKinds(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	kinds := []struct {
		name        string
		r           device.MemoryResource
		kind        memview.MemoryKind
		dev         dlpack.DeviceType
		host, known bool
	}{
		{"device", memoryOf(t, d), memview.MemoryDevice, dlpack.DeviceCUDA, false, true},
		{"B263 pinned", d.PinnedMemory(), memview.MemoryPinned, dlpack.DeviceCUDAHost, true, true},
		{"B263 managed", must(d.ManagedMemory()), memview.MemoryManaged, dlpack.DeviceCUDAManaged, true, true},
	}
	for _, k := range kinds {
		b := allocate(t, k.r, 64, s)
		views := map[string]memview.StridedMemoryView{
			"R288 CAI": must(memview.FromCAI(caiOf(uintptr(b.Ptr()), 16, cai.NoStream), memview.Unowned(), stream.NoSync(), nil)),
			"buffer":   must(memview.FromDeviceBuffer(b, dlpack.Int32, ints(16), stream.NoSync(), nil)),
			"desc": must(must(memview.FromDesc(&dlpack.Desc{
				Data: uintptr(b.Ptr()), Device: dlpack.Device{Type: k.dev}, DType: dlpack.Int32, Shape: ints(16),
			}, memview.Unowned())).Probe()),
		}
		for way, v := range views {
			t.Run(k.name+"/"+way, func(t *testing.T) {
				require.Equal(t, k.kind, v.MemoryKind())
				require.Equal(t, dlpack.Device{Type: k.dev}, v.Device())
				require.Equal(t, 0, v.DeviceID())
				require.True(t, v.IsDeviceAccessible())
				require.Equal(t, k.host, v.IsHostAccessible())
				require.Equal(t, v.IsHostAccessible(), v.HostAccessible())
				require.False(t, v.ReadOnly())
			})
		}
	}
	t.Run("B265 R155 pinned memory that says CPU", func(t *testing.T) {
		b := allocate(t, d.PinnedMemory(), 64, s)
		v := must(memview.FromDesc(&dlpack.Desc{Data: uintptr(b.Ptr()), Device: dlpack.CPU, DType: dlpack.Int32, Shape: ints(16)}, memview.Unowned()))
		require.Equal(t, memview.MemoryHost, v.MemoryKind())
		require.False(t, v.IsDeviceAccessible())
		w := must(v.Probe())
		require.Equal(t, memview.MemoryPinned, w.MemoryKind())
		require.True(t, w.IsDeviceAccessible())
		require.Equal(t, dlpack.CPU, w.Device(), "what the producer announced stays")
		require.Equal(t, 0, w.DeviceID())
		part := must(w.Slice(memview.Range(2, 9)))
		require.Equal(t, memview.MemoryPinned, part.MemoryKind(), "parts keep what is known")
		again := must(w.Probe())
		require.Equal(t, w.MemoryKind(), again.MemoryKind())

		// An import finds it out when asked to.
		for _, probe := range []bool{false, true} {
			e, err := dlpack.ExportDesc(dlpack.Desc{Data: uintptr(b.Ptr()), Device: dlpack.CPU, DType: dlpack.Int32, Shape: ints(16)}, nil)
			require.NoError(t, err)
			x, err := memview.Import(e, stream.NoSync(), &memview.ImportOptions{Probe: probe})
			require.NoError(t, err)
			require.Equal(t, probe, x.IsDeviceAccessible())
			require.NoError(t, x.Release())
			require.NoError(t, e.Close())
		}
	})
	t.Run("B265 pinned memory of malloc", func(t *testing.T) {
		data := seq[int32](16)
		v := must(memview.FromDesc(&dlpack.Desc{Data: foreign(t, data), Device: dlpack.Device{Type: dlpack.DeviceCUDAHost}, DType: dlpack.Int32, Shape: ints(16)}, memview.Unowned()))
		require.True(t, v.IsHostAccessible())
		require.True(t, v.IsDeviceAccessible())
		require.EqualValues(t, 3, must(memview.At[int32](v, 3)))
	})
	t.Run("host memory is host memory", func(t *testing.T) {
		v := must(memview.FromSlice(seq[int32](4)))
		require.Equal(t, -1, v.DeviceID())
		w := must(v.Probe())
		require.Equal(t, -1, w.DeviceID())
		require.Equal(t, memview.MemoryHost, w.MemoryKind())
	})
	t.Run("R037 B273 announced as another device's", func(t *testing.T) {
		b := allocate(t, memoryOf(t, d), 64, s)
		for _, dev := range []dlpack.Device{{Type: dlpack.DeviceCUDA, ID: 1}, dlpack.CPU} {
			v := must(memview.FromDesc(&dlpack.Desc{Data: uintptr(b.Ptr()), Device: dev, DType: dlpack.Int32, Shape: ints(16)}, memview.Unowned()))
			_, err := v.Probe()
			require.ErrorIs(t, err, dlpack.ErrDevice)
		}
	})
	t.Run("R172 B271 CAI of memory that no device reaches", func(t *testing.T) {
		data := seq[int32](16)
		if n := must(d.Attribute(driver.AttrPageableMemoryAccess)); n != 0 {
			v := must(memview.FromCAI(caiOf(foreign(t, data), 16, cai.NoStream), memview.Unowned(), stream.NoSync(), nil))
			require.Equal(t, dlpack.CPU, v.Device())
			require.True(t, v.IsDeviceAccessible())
			return
		}
		_, err := memview.FromCAI(caiOf(foreign(t, data), 16, cai.NoStream), memview.Unowned(), stream.NoSync(), nil)
		require.ErrorIs(t, err, dlpack.ErrDevice)
	})
}

func TestZeroSizeOnDevices(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	t.Run("B039 B040 B042 R174 no question about address 0", func(t *testing.T) {
		for _, addr := range []uintptr{0, 8} {
			var v memview.StridedMemoryView
			_, _, queries, _, ok := calls.during(func() {
				v = must(memview.FromCAI(caiOf(addr, 0, s.View().Argument()), memview.Unowned(), stream.On(s.View()), nil))
			})
			if ok {
				require.Zero(t, queries)
			}
			require.Equal(t, ints(0), v.Shape())
			require.Equal(t, 0, v.DeviceID())
			require.True(t, v.IsDeviceAccessible())
			w := must(v.Probe())
			require.Equal(t, v.MemoryKind(), w.MemoryKind())
		}
	})
	t.Run("B039 both paths agree", func(t *testing.T) {
		a := must(memview.FromCAI(caiOf(0, 0, cai.NoStream), memview.Unowned(), stream.NoSync(), nil))
		b := must(memview.FromDesc(&dlpack.Desc{Device: dlpack.Device{Type: dlpack.DeviceCUDA}, DType: dlpack.Int32, Shape: ints(0)}, memview.Unowned()))
		require.Equal(t, a.Device(), b.Device())
		require.Equal(t, a.DeviceID(), b.DeviceID())
		require.Equal(t, a.IsDeviceAccessible(), b.IsDeviceAccessible())
	})
	t.Run("B033 B044 released once, at once", func(t *testing.T) {
		gone := 0
		v := must(memview.FromCAI(caiOf(0, 0, cai.NoStream), memview.OnRelease(nil, func() error { gone++; return nil }), stream.NoSync(), nil))
		require.NoError(t, v.ReleaseOn(s.View()))
		require.NoError(t, v.Release())
		require.Equal(t, 1, gone)
	})
	t.Run("R173 R287 export", func(t *testing.T) {
		v := must(memview.FromDesc(&dlpack.Desc{Data: 0x4000, Device: dlpack.Device{Type: dlpack.DeviceCUDA}, DType: dlpack.Int32, Shape: ints(3, 0)}, memview.Unowned()))
		i := must(v.CUDAArrayInterface())
		require.Zero(t, i.Data)
		require.True(t, i.Stream.IsNone())
	})
	t.Run("buffer without memory", func(t *testing.T) {
		b := must(device.Allocate(memoryOf(t, d), 0, s))
		v := must(memview.FromDeviceBuffer(b, dlpack.Int32, ints(0, 3), stream.On(s.View()), nil))
		require.Equal(t, 0, v.DeviceID())
		require.NoError(t, v.Release())
		require.True(t, b.Closed())
	})
}

func TestFromDeviceBuffer(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	b := must(d.Allocate(96, s))
	view := func(dt dlpack.DataType, shape []int64, o *memview.BufferOptions) (memview.StridedMemoryView, error) {
		return memview.FromDeviceBuffer(b, dt, shape, stream.NoSync(), o)
	}
	for _, bad := range []struct {
		name  string
		shape []int64
		o     *memview.BufferOptions
	}{
		{"too long", ints(25), nil},
		{"offset", ints(24), &memview.BufferOptions{Offset: 1}},
		{"negative offset", ints(2), &memview.BufferOptions{Offset: -1}},
		{"negative stride", ints(2), &memview.BufferOptions{Strides: ints(-1)}},
		{"far offset", ints(1), &memview.BufferOptions{Offset: 1 << 62}},
		{"R034 far stride", ints(3), &memview.BufferOptions{Strides: ints(1 << 59)}},
	} {
		t.Run(bad.name, func(t *testing.T) {
			_, err := view(dlpack.Float32, bad.shape, bad.o)
			require.Error(t, err)
			require.False(t, b.Closed(), "the caller still has it")
		})
	}
	v := must(view(dlpack.Float32, ints(2, 3), &memview.BufferOptions{Strides: ints(-4, 1), Offset: 8, ReadOnly: true}))
	require.Equal(t, uintptr(b.Ptr())+32, v.Addr())
	require.True(t, v.ReadOnly())
	i := must(v.CUDAArrayInterface())
	require.True(t, i.ReadOnly, "R280")
	require.Equal(t, ints(-16, 4), i.Strides, "R282")
	w := must(v.Retain())
	require.NoError(t, v.Release())
	require.False(t, b.Closed())
	require.NoError(t, w.ReleaseOn(s.View()))
	require.True(t, b.Closed())
	_, err := view(dlpack.Float32, ints(1), nil)
	require.ErrorIs(t, err, dlpack.ErrClosed)
}
