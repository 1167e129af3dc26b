package memview_test

import (
	"bytes"
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/memview"
	"github.com/go-handoff/handoff/stream"
)

// Faults seen in the field that have no better place.

func TestPerThreadStreams(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	ctx := must(d.PrimaryContext())
	b := allocate(t, memoryOf(t, d), 64, s)
	require.NoError(t, s.Synchronize(background)) // others may use the memory from now on
	t.Run("B195 B201 the number 2 is passed, on its thread", func(t *testing.T) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		mine := must(ctx.PerThreadStream())
		dev := dlpack.Device{Type: dlpack.DeviceCUDA}
		p := &fixedProducer{dev: dev, desc: dlpack.Desc{Data: 0x10000, Device: dev, DType: dlpack.Float32, Shape: ints(4)}}
		v := must(memview.Import(p, stream.On(mine.View()), nil))
		require.Equal(t, "2", p.got.Stream.String(), "B205: never None")
		require.NoError(t, v.ReleaseOn(mine.View()))
		require.NoError(t, memview.Flush(background))
		require.EqualValues(t, 1, p.gone.Load())
	})
	t.Run("R278 B201 a producer's per-thread stream on another thread", func(t *testing.T) {
		var freed atomic.Int64
		views := make(chan memview.StridedMemoryView)
		stop := make(chan struct{})
		go func() { // the thread stays taken, so that this is another one
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			theirs := must(ctx.PerThreadStream())
			views <- must(deviceView(t, b, &freed).Ordered(theirs.View(), stream.NoSync()))
			<-stop
		}()
		v := <-views
		defer close(stop)
		open := block(t, s)
		require.NoError(t, v.ReleaseOn(s.View()), "the event decides where the stream cannot be used")
		require.Zero(t, freed.Load())
		open()
		require.NoError(t, memview.Flush(background))
		require.EqualValues(t, 1, freed.Load())
		_, err := memview.FromCAI(caiOf(uintptr(b.Ptr()), 4, cai.PerThreadDefault), memview.Unowned(), stream.On(s.View()), nil)
		require.NoError(t, err, "R186")
	})
	t.Run("R130 export to the calling thread's stream", func(t *testing.T) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		p := slowProducer(t, d)
		requireEdges(t, 1, func() { ask(t, pendingView(t, p), dlpack.Request{Stream: dlpack.StreamInt(2), MaxVersion: abi}) })
		require.False(t, must(must(ctx.PerThreadStream()).Done()))
		p.open()
		require.NoError(t, must(ctx.PerThreadStream()).Synchronize(background))
	})
}

// TestPageableCopies is B216 and B218: a copy from pageable memory, then a
// kernel on the same non-blocking stream, which must see the new bytes, over
// and over.
func TestPageableCopies(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	const size = 1 << 20
	host, mid, out := newArea(t, "go", size, s), newArea(t, "device", size, s), newArea(t, "pinned", size, s)
	h, _ := host.view(t, dlpack.Float32, ints(512, 256), nil, 0)
	m, _ := mid.view(t, dlpack.Float32, ints(512, 256), nil, 0)
	turned, _ := out.view(t, dlpack.Float32, ints(256, 512), nil, 0)
	for i := range 50 {
		for j := range host.mem {
			host.mem[j] = byte(i + j>>9)
		}
		require.NoError(t, memview.CopyOn(m, h, s.View()))
		require.NoError(t, memview.CopyOn(turned, m.Transpose(), s.View()))
		require.NoError(t, s.Synchronize(background))
		want := must(h.Transpose().Clone(memview.OrderC))
		require.True(t, bytes.Equal(bytesOfItems(t, want).mem, must(out.buf.Bytes())[:len(bytesOfItems(t, want).mem)]), "round %d", i)
	}
}

func TestDeviceMetadata(t *testing.T) {
	t.Run("B267 ROCm pinned memory stays what it is", func(t *testing.T) {
		data := seq[float32](4)
		v := must(memview.FromDesc(&dlpack.Desc{Data: foreign(t, data), Device: dlpack.Device{Type: dlpack.DeviceROCMHost}, DType: dlpack.Float32, Shape: ints(4)}, memview.Unowned()))
		require.Equal(t, memview.MemoryPinned, v.MemoryKind())
		require.True(t, v.IsHostAccessible())
		require.True(t, v.IsDeviceAccessible())
		require.Equal(t, dlpack.DeviceROCMHost, must(v.Desc()).Device.Type)
		w := must(v.Probe())
		require.Equal(t, v.MemoryKind(), w.MemoryKind(), "another vendor's memory is not asked about")
	})
	t.Run("kinds follow from the device type", func(t *testing.T) {
		for typ, want := range map[dlpack.DeviceType]memview.MemoryKind{
			dlpack.DeviceCPU: memview.MemoryHost, dlpack.DeviceCUDA: memview.MemoryDevice, dlpack.DeviceROCM: memview.MemoryDevice,
			dlpack.DeviceCUDAHost: memview.MemoryPinned, dlpack.DeviceCUDAManaged: memview.MemoryManaged, dlpack.DeviceOneAPI: memview.MemoryUnknown,
		} {
			v := must(memview.FromDesc(&dlpack.Desc{Data: 0x10000, Device: dlpack.Device{Type: typ}, DType: dlpack.Float32, Shape: ints(4)}, memview.Unowned()))
			require.Equal(t, want, v.MemoryKind())
			require.Equal(t, typ != dlpack.DeviceCPU, v.IsDeviceAccessible())
			require.Equal(t, typ == dlpack.DeviceCPU, v.DeviceID() == -1)
			require.False(t, v.HostNeedsIdle())
		}
		require.Equal(t, "host pinned device managed unknown MemoryKind(9)", memview.MemoryHost.String()+" "+memview.MemoryPinned.String()+" "+
			memview.MemoryDevice.String()+" "+memview.MemoryManaged.String()+" "+memview.MemoryUnknown.String()+" "+memview.MemoryKind(9).String())
	})
	t.Run("the zero view", func(t *testing.T) {
		var v memview.StridedMemoryView
		require.False(t, v.IsDeviceAccessible())
		require.False(t, v.Stream().Valid() || v.ProducerStream().Valid())
		_, err := v.Probe()
		require.ErrorIs(t, err, dlpack.ErrNull)
		_, err = v.Ordered(stream.StreamView{}, stream.NoSync())
		require.ErrorIs(t, err, dlpack.ErrNull)
		_, err = v.CUDAArrayInterface()
		require.ErrorIs(t, err, dlpack.ErrNull)
		_, err = v.DLPack(dlpack.Request{})
		require.ErrorIs(t, err, dlpack.ErrNull)
		require.NoError(t, v.ReleaseOn(stream.StreamView{}))
		require.NoError(t, v.Wait(background))
		require.ErrorIs(t, memview.PrepareCopies(stream.StreamView{}), stream.ErrInvalid)
	})
}

func TestWait(t *testing.T) {
	d := openDevice(t, 0)
	p := slowProducer(t, d)
	v := pendingView(t, p)
	ctx, cancel := context.WithCancel(background)
	cancel()
	require.ErrorIs(t, v.Wait(ctx), ctx.Err())
	p.open()
	require.NoError(t, v.Wait(background))
	require.EqualValues(t, 2, p.word(t, v.Addr(), newStream(t, d)))
}

func TestProducerStreamOf(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	cuda := dlpack.Device{Type: dlpack.DeviceCUDA}
	for _, h := range []uintptr{0, 1} {
		v := must(memview.ProducerStreamOf(cuda, h, nil))
		require.Equal(t, stream.KindLegacyDefault, v.Kind())
		require.Equal(t, driver.Device(0), v.Device())
	}
	v := must(memview.ProducerStreamOf(cuda, uintptr(s.Handle()), d))
	require.True(t, v.Same(s.View()))
	require.Equal(t, d, v.Owner())
	_, err := memview.ProducerStreamOf(cuda, 77, nil)
	require.ErrorIs(t, err, stream.ErrProtocol)
	_, err = memview.ProducerStreamOf(dlpack.Device{Type: dlpack.DeviceCUDA, ID: 99}, 0, nil)
	require.ErrorIs(t, err, device.ErrInvalidDevice)
}

// FuzzFromCAI gives descriptions of any kind: an error or a view inside of
// what they say, never a panic, and the owner is released once by whoever has
// it.
func FuzzFromCAI(f *testing.F) {
	f.Add(uint64(0x10000), int64(3), int64(4), int64(16), int64(4), byte(3), uint64(0), false)
	f.Add(uint64(0), int64(0), int64(4), int64(16), int64(4), byte(3), uint64(1), true)
	f.Add(uint64(0x10000), int64(1)<<62, int64(4), int64(-16), int64(0), byte(2), uint64(2), true)
	f.Add(^uint64(0), int64(-1), int64(1)<<40, int64(1)<<62, int64(-1)<<63, byte(0), uint64(77), false)
	f.Fuzz(func(t *testing.T, data uint64, n, m, a, b int64, version byte, s uint64, ro bool) {
		i := &cai.Interface{Array: cai.Array{
			Version: int(version), Shape: ints(n, m), Strides: ints(a, b), Typestr: must(cai.ParseTypestr("<f4")), Data: uintptr(data), ReadOnly: ro,
		}}
		if s != 0 {
			i.Stream = cai.StreamOf(uintptr(min(s, 2))) // other numbers are believed by a driver
		}
		gone := 0
		owner := memview.OnRelease(nil, func() error { gone++; return nil })
		v, err := memview.FromCAI(i, owner, stream.NoSync(), &memview.CAIOptions{Device: dlpack.Device{Type: dlpack.DeviceCUDA}})
		if err != nil {
			var rule *dlpack.RuleError
			require.ErrorAs(t, err, &rule)
			require.Zero(t, gone)
			return
		}
		require.Equal(t, ro, v.ReadOnly())
		require.Equal(t, ints(n, m), v.Shape())
		require.NoError(t, v.Release())
		require.Equal(t, 1, gone)
	})
}

// TestCopyFromADeviceWithoutContext is B279 for memory of a device that nobody opened here: what the
// driver says of its primary context is what the caller gets, for every kind of copy.
func TestCopyFromADeviceWithoutContext(t *testing.T) {
	if !testdriver.InProcess(t) { // a context that was made once is kept
		return
	}
	d, theirs := testdriver.Context(t, 1)
	src, res := d.MemAlloc(theirs, 256)
	require.NoError(t, res.Err())
	defer func() { require.NoError(t, d.MemFree(theirs, src).Err()) }()
	dev := must(device.Open(0))
	s := must(dev.NewStream(nil))
	dst := must(dev.Allocate(256, s))
	view := func(p driver.DevicePtr, id int32, strides ...int64) memview.StridedMemoryView {
		desc := dlpack.Desc{Data: uintptr(p), Device: dlpack.Device{Type: dlpack.DeviceCUDA, ID: id}, DType: dlpack.Float32, Shape: ints(4, 4), Strides: strides}
		return must(memview.FromDesc(&desc, memview.Unowned()))
	}
	for _, c := range []struct {
		name     string
		dst, src memview.StridedMemoryView
	}{
		{"dense", view(dst.Ptr(), 0, 4, 1), view(src, 1, 4, 1)},
		{"rows", view(dst.Ptr(), 0, 4, 1), view(src, 1, 8, 1)},
		{"strided", view(dst.Ptr(), 0, 4, 1), view(src, 1, 1, 4)},
		{"back", view(src, 1, 4, 1), view(dst.Ptr(), 0, 4, 1)},
	} {
		calls.breaking(t, "cuDevicePrimaryCtxRetain", func() {
			err := memview.CopyOn(c.dst, c.src, s.View())
			require.ErrorIs(t, err, driver.ErrorOutOfMemory, c.name)
			var e *device.Error
			require.ErrorAs(t, err, &e, c.name)
			require.Equal(t, 1, e.Device, c.name)
		})
	}
	require.NoError(t, memview.CopyOn(view(dst.Ptr(), 0), view(src, 1), s.View()))
	require.NoError(t, s.Synchronize(background))
	require.NoError(t, dst.Close())
	require.NoError(t, s.Close())
}
