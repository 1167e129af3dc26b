package memview_test

import (
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

var abi = dlpack.ABIVersion

// pendingView is a view of memory that a blocked stream is about to write.
func pendingView(t testing.TB, p *producer) memview.StridedMemoryView {
	t.Helper()
	d := p.desc()
	v := must(memview.FromDesc(&d, memview.Unowned()))
	return must(v.Ordered(p.s.View(), stream.NoSync()))
}

func ask(t testing.TB, p dlpack.Producer, r dlpack.Request) dlpack.Managed {
	t.Helper()
	m := must(must(p.DLPack(r)).Import())
	t.Cleanup(m.Release)
	return m
}

func on(s *device.Stream) dlpack.StreamArg { return dlpack.StreamUint(uint64(s.Handle())) }

func TestExportOrder(t *testing.T) {
	d := openDevice(t, 0)
	t.Run("R137 R138 B225 ordered", func(t *testing.T) {
		theirs := newStream(t, d)
		p := slowProducer(t, d)
		v := pendingView(t, p)
		var m dlpack.Managed
		requireEdges(t, 1, func() { m = ask(t, v, dlpack.Request{Stream: on(theirs), MaxVersion: abi}) })
		require.Equal(t, v.Addr(), m.Addr(), "shared")
		require.False(t, must(theirs.Done()))
		p.open()
		require.EqualValues(t, 2, p.word(t, m.Addr(), theirs))
	})
	t.Run("R127 B193 control without the edge", func(t *testing.T) {
		testdriver.Racy(t)
		theirs := newStream(t, d)
		p := slowProducer(t, d)
		var m dlpack.Managed
		requireEdges(t, 0, func() { m = ask(t, pendingView(t, p), dlpack.Request{Stream: dlpack.StreamInt(-1), MaxVersion: abi}) })
		require.EqualValues(t, 1, p.word(t, m.Addr(), theirs))
		p.open()
	})
	t.Run("same stream", func(t *testing.T) {
		p := slowProducer(t, d)
		requireEdges(t, 0, func() { ask(t, pendingView(t, p), dlpack.Request{Stream: on(p.s), MaxVersion: abi}) })
		p.open()
	})
	t.Run("R126 R129 legacy default stream", func(t *testing.T) {
		for _, a := range []dlpack.StreamArg{{}, dlpack.StreamInt(1)} {
			p := slowProducer(t, d)
			legacy := must(d.DefaultStream())
			requireEdges(t, 1, func() { ask(t, pendingView(t, p), dlpack.Request{Stream: a, MaxVersion: abi}) })
			require.False(t, must(legacy.Done()))
			p.open()
			require.NoError(t, legacy.Synchronize(background))
		}
	})
	t.Run("R128 R132 B199 bad streams", func(t *testing.T) {
		p := slowProducer(t, d)
		for _, a := range []int64{0, -2} {
			requireEdges(t, 0, func() {
				_, err := pendingView(t, p).DLPack(dlpack.Request{Stream: dlpack.StreamInt(a), MaxVersion: abi})
				require.ErrorIs(t, err, dlpack.ErrStream)
			})
		}
		p.open()
	})
	t.Run("a view imported on a stream is ordered after that stream", func(t *testing.T) {
		mine, theirs := newStream(t, d), newStream(t, d)
		p := slowProducer(t, d)
		p.open()
		v := must(memview.Import(p, stream.On(mine.View()), nil))
		defer v.Release()
		open := block(t, mine)
		require.NoError(t, p.s.Synchronize(background))
		w := must(memview.Import(v, stream.On(theirs.View()), nil))
		require.True(t, w.ProducerStream().Same(mine.View()), "where the view's holder goes on")
		require.False(t, must(theirs.Done()))
		require.NoError(t, w.ReleaseOn(theirs.View()))
		open()
	})
	t.Run("R143 R155 R057", func(t *testing.T) {
		p := slowProducer(t, d)
		v := pendingView(t, p).AsReadOnly()
		require.Equal(t, v.Device(), must(v.DLPackDevice()))
		require.True(t, ask(t, v, dlpack.Request{Stream: on(p.s), MaxVersion: abi}).ReadOnly())
		_, err := v.DLPack(dlpack.Request{Stream: on(p.s)})
		require.ErrorIs(t, err, dlpack.ErrReadOnly)
		require.True(t, ask(t, pendingView(t, p), dlpack.Request{Stream: on(p.s)}).Legacy())
		p.open()
	})
}

func TestExportCopies(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	cuda := dlpack.Device{Type: dlpack.DeviceCUDA}
	area := newArea(t, "device", 4096, s)
	v, vm := area.view(t, dlpack.Int32, ints(6, 5), ints(-7, 1), 50)
	v = must(v.Ordered(s.View(), stream.On(s.View())))
	want := must(vm.Clone(memview.OrderC))
	same := func(t *testing.T, m dlpack.Managed) {
		t.Helper()
		w := must(memview.FromDLPack(must(m.Retain())))
		defer w.Release()
		host := must(memview.Make(dlpack.Int32, 6, 5))
		if w.IsHostAccessible() {
			require.NoError(t, memview.Copy(host, w))
		} else {
			require.NoError(t, memview.CopyOn(host, w, s.View()))
			require.NoError(t, s.Synchronize(background))
		}
		for i := range int64(6) {
			for j := range int64(5) {
				require.Equal(t, must(memview.At[int32](want, i, j)), must(memview.At[int32](host, i, j)))
			}
		}
	}
	t.Run("R145 R146 R149 GPU to CPU", func(t *testing.T) {
		for _, mode := range []dlpack.CopyMode{dlpack.CopyIfNeeded, dlpack.CopyAlways} {
			m := ask(t, v, dlpack.Request{Device: dlpack.CPU, MaxVersion: abi, Copy: mode})
			require.Equal(t, dlpack.CPU, m.Device())
			require.True(t, m.Flags().Has(dlpack.FlagIsCopied))
			same(t, m)
		}
	})
	t.Run("R146 complete after slow work", func(t *testing.T) {
		p := slowProducer(t, d)
		got := make(chan dlpack.Managed)
		go func() {
			c, err := pendingView(t, p).DLPack(dlpack.Request{Device: dlpack.CPU, MaxVersion: abi})
			if err != nil {
				close(got)
				return
			}
			m, _ := c.Import()
			got <- m
		}()
		p.open()
		m := <-got
		defer m.Release()
		w := must(memview.FromDLPack(must(m.Retain())))
		defer w.Release()
		require.EqualValues(t, 2, must(memview.At[int32](w, 0)))
	})
	t.Run("R145 memory without a known stream", func(t *testing.T) {
		u, _ := area.view(t, dlpack.Int32, ints(6, 5), ints(-7, 1), 50)
		require.NoError(t, s.Synchronize(background))
		same(t, ask(t, u, dlpack.Request{Device: dlpack.CPU, MaxVersion: abi}))
	})
	t.Run("R150 R153 copy on the device", func(t *testing.T) {
		testdriver.HoldUp(t)
		theirs := newStream(t, d)
		open := block(t, s)
		m := ask(t, v, dlpack.Request{Stream: on(theirs), MaxVersion: abi, Copy: dlpack.CopyAlways})
		require.NotEqual(t, v.Addr(), m.Addr())
		require.Equal(t, cuda, m.Device())
		require.True(t, m.Flags().Has(dlpack.FlagIsCopied))
		require.False(t, must(theirs.Done()), "queued on the consumer's stream, after ours")
		open()
		require.NoError(t, theirs.Synchronize(background))
		same(t, m)
		require.False(t, ask(t, v, dlpack.Request{Stream: on(theirs), Copy: dlpack.CopyAlways}).Flags().Has(dlpack.FlagIsCopied), "legacy cannot say so")
		// Without a stream, and read-only memory: the copy may be written.
		m = ask(t, v.AsReadOnly(), dlpack.Request{Stream: dlpack.StreamInt(-1), MaxVersion: abi, Copy: dlpack.CopyAlways})
		require.False(t, m.ReadOnly())
		same(t, m)
	})
	t.Run("R151 never a copy", func(t *testing.T) {
		_, err := v.DLPack(dlpack.Request{Device: dlpack.CPU, MaxVersion: abi, Copy: dlpack.CopyNever})
		require.ErrorIs(t, err, dlpack.ErrCopy)
		m := ask(t, v, dlpack.Request{Stream: on(s), MaxVersion: abi, Copy: dlpack.CopyNever})
		require.Equal(t, v.Addr(), m.Addr())
	})
	t.Run("R144 what cannot be served", func(t *testing.T) {
		for _, dev := range []dlpack.Device{{Type: dlpack.DeviceCUDA, ID: 99}, {Type: dlpack.DeviceROCM}, {Type: dlpack.DeviceCPU, ID: 1}, {Type: 77}} {
			_, err := v.DLPack(dlpack.Request{Device: dev, MaxVersion: abi})
			require.ErrorIs(t, err, dlpack.ErrDevice, dev.String())
		}
	})
	t.Run("R147 stream for a CPU target", func(t *testing.T) {
		_, err := v.DLPack(dlpack.Request{Device: dlpack.CPU, Stream: on(s), MaxVersion: abi})
		require.ErrorIs(t, err, dlpack.ErrStream)
	})
	t.Run("CPU to GPU", func(t *testing.T) {
		m := ask(t, want, dlpack.Request{Device: cuda, Stream: on(s), MaxVersion: abi})
		require.Equal(t, cuda, m.Device())
		require.True(t, m.Flags().Has(dlpack.FlagIsCopied))
		same(t, m)
	})
	t.Run("R152 other device", func(t *testing.T) {
		far := openDevice(t, 1)
		fs := newStream(t, far)
		m := ask(t, v, dlpack.Request{Device: dlpack.Device{Type: dlpack.DeviceCUDA, ID: 1}, Stream: on(fs), MaxVersion: abi})
		require.EqualValues(t, 1, m.Device().ID)
		require.NoError(t, fs.Synchronize(background))
		same(t, m)
	})
	for _, kind := range []string{"pinned", "managed"} {
		t.Run("shared with the CPU "+kind, func(t *testing.T) {
			a := newArea(t, kind, 256, s)
			w, _ := a.view(t, dlpack.Int32, ints(8), nil, 0)
			for _, u := range []memview.StridedMemoryView{w, must(w.Ordered(s.View(), stream.On(s.View())))} {
				m := ask(t, u, dlpack.Request{Device: dlpack.CPU, MaxVersion: abi, Copy: dlpack.CopyNever})
				require.Equal(t, dlpack.CPU, m.Device())
				require.Equal(t, u.Addr(), m.Addr())
				require.False(t, m.Flags().Has(dlpack.FlagIsCopied))
				m = ask(t, u, dlpack.Request{Device: dlpack.CPU, MaxVersion: abi, Copy: dlpack.CopyAlways})
				require.NotEqual(t, u.Addr(), m.Addr())
				require.Equal(t, dlpack.CPU, m.Device())
				m = ask(t, u, dlpack.Request{Stream: on(s), MaxVersion: abi, Copy: dlpack.CopyAlways})
				require.NotEqual(t, u.Addr(), m.Addr())
				require.Equal(t, u.Device(), m.Device())
				require.NoError(t, s.Synchronize(background))
				x := must(memview.FromDLPack(must(m.Retain())))
				require.Equal(t, must(memview.At[int32](u, 5)), must(memview.At[int32](x, 5)))
				require.NoError(t, x.Release())
			}
		})
	}
	t.Run("empty views", func(t *testing.T) {
		e := must(memview.FromDesc(&dlpack.Desc{Device: cuda, DType: dlpack.Int32, Shape: ints(0, 3)}, memview.Unowned()))
		e = must(e.Ordered(s.View(), stream.NoSync()))
		requireEdges(t, 0, func() {
			require.Zero(t, ask(t, e, dlpack.Request{Stream: on(s), MaxVersion: abi}).Addr())
			require.Equal(t, dlpack.CPU, ask(t, e, dlpack.Request{Device: dlpack.CPU, MaxVersion: abi}).Device())
			ask(t, e, dlpack.Request{Stream: on(s), MaxVersion: abi, Copy: dlpack.CopyAlways})
		})
	})
	t.Run("import with a copy", func(t *testing.T) {
		w := must(memview.Import(v, stream.Order{}, &memview.ImportOptions{Device: dlpack.CPU}))
		defer w.Release()
		require.Equal(t, -1, w.DeviceID())
		require.Equal(t, must(memview.At[int32](want, 3, 2)), must(memview.At[int32](w, 3, 2)))
		mine := newStream(t, d)
		x := must(memview.Import(v, stream.On(mine.View()), &memview.ImportOptions{Copy: dlpack.CopyAlways}))
		require.NotEqual(t, v.Addr(), x.Addr())
		require.NoError(t, x.ReleaseOn(mine.View()))
	})
	t.Run("B231 refused under capture", func(t *testing.T) {
		c := newStream(t, d)
		require.NoError(t, c.BeginCapture(driver.StreamCaptureModeRelaxed))
		u, _ := area.view(t, dlpack.Int32, ints(8), nil, 0)
		_, err := u.DLPack(dlpack.Request{Stream: on(c), MaxVersion: abi, Copy: dlpack.CopyAlways})
		require.ErrorIs(t, err, device.ErrCapture)
		x := must(u.Ordered(stream.StreamView{}, stream.On(c.View())))
		_, err = x.DLPack(dlpack.Request{Device: dlpack.CPU, MaxVersion: abi})
		require.ErrorIs(t, err, device.ErrCapture)
		requireEdges(t, 0, func() { ask(t, x, dlpack.Request{Stream: on(c), MaxVersion: abi}) })
		g, err := c.EndCapture()
		require.NoError(t, err, "the capture was not harmed")
		require.NoError(t, d.Driver().GraphDestroy(g).Err())
	})
}

func TestExportCAI(t *testing.T) {
	d := openDevice(t, 0)
	t.Run("R191 pending work names its stream, R192 none when it is done", func(t *testing.T) {
		p := slowProducer(t, d)
		v := pendingView(t, p)
		i := must(v.CUDAArrayInterface())
		require.Equal(t, p.s.View().Argument(), i.Stream)
		require.Equal(t, v.Addr(), i.Data)
		require.Equal(t, 3, i.Version)
		p.open()
		require.NoError(t, p.s.Synchronize(background))
		i = must(v.CUDAArrayInterface())
		require.Equal(t, cai.NoStream, i.Stream)
	})
	t.Run("B231 a capturing stream is named without being asked", func(t *testing.T) {
		s := newStream(t, d)
		b := allocate(t, memoryOf(t, d), 64, s)
		v := must(memview.FromDeviceBuffer(b, dlpack.Int32, ints(16), stream.On(s.View()), nil))
		require.NoError(t, s.Synchronize(background))
		require.NoError(t, s.BeginCapture(driver.StreamCaptureModeRelaxed))
		i := must(v.CUDAArrayInterface())
		require.Equal(t, s.View().Argument(), i.Stream)
		g, err := s.EndCapture()
		require.NoError(t, err)
		require.NoError(t, d.Driver().GraphDestroy(g).Err())
	})
	t.Run("round trip with order and way back", func(t *testing.T) {
		mine := newStream(t, d)
		p := slowProducer(t, d)
		v := must(memview.ImportCAI(pendingView(t, p), stream.On(mine.View()), nil))
		require.True(t, v.ProducerStream().Same(p.s.View()))
		open := block(t, mine)
		requireEdges(t, 1, func() { require.NoError(t, v.ReleaseOn(mine.View())) })
		require.False(t, v.Live(), "R194: held until released")
		p.open()
		require.False(t, must(p.s.Done()), "R189")
		open()
	})
	t.Run("R199 R198 what it cannot express", func(t *testing.T) {
		_, err := must(memview.FromSlice(seq[int32](4))).CUDAArrayInterface()
		require.ErrorIs(t, err, dlpack.ErrDevice)
		x := must(memview.FromDesc(&dlpack.Desc{Data: 0x10000, Device: dlpack.Device{Type: dlpack.DeviceCUDA}, DType: dlpack.BFloat16, Shape: ints(4)}, memview.Unowned()))
		_, err = x.CUDAArrayInterface()
		require.ErrorIs(t, err, dlpack.ErrDType)
		_, err = memview.ImportCAI(x, stream.NoSync(), nil)
		require.ErrorIs(t, err, dlpack.ErrDType)
		_, err = memview.ImportCAI(nil, stream.NoSync(), nil)
		require.ErrorIs(t, err, dlpack.ErrNull)
	})
	t.Run("pinned memory that says CPU", func(t *testing.T) {
		s := newStream(t, d)
		a := newArea(t, "pinned that says CPU", 64, s)
		v, _ := a.view(t, dlpack.Int32, ints(4), nil, 0)
		i := must(must(v.Probe()).CUDAArrayInterface())
		require.Equal(t, v.Addr(), i.Data)
	})
}

// TestBadCAI has the malformed descriptions that must be typed errors and leave
// the owner alone.
func TestBadCAI(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	b := allocate(t, memoryOf(t, d), 64, s)
	good := func() *cai.Interface { return caiOf(uintptr(b.Ptr()), 16, cai.NoStream) }
	for name, c := range map[string]struct {
		change func(i *cai.Interface)
		want   error
	}{
		"R173 B040 address 0 with elements": {func(i *cai.Interface) { i.Data = 0 }, dlpack.ErrNull},
		"R179 strides of another length":    {func(i *cai.Interface) { i.Strides = ints(4, 4) }, dlpack.ErrLayout},
		"R281 strides in part of an item":   {func(i *cai.Interface) { i.Strides = ints(6) }, dlpack.ErrLayout},
		"R169 negative extent":              {func(i *cai.Interface) { i.Shape = ints(-1) }, dlpack.ErrLayout},
		"R034 overflow":                     {func(i *cai.Interface) { i.Shape = ints(1<<40, 1<<40) }, dlpack.ErrOverflow},
		"R171 foreign byte order":           {func(i *cai.Interface) { i.Typestr = must(cai.ParseTypestr(">i4")) }, dlpack.ErrDType},
		"R197 negative version":             {func(i *cai.Interface) { i.Version = -1 }, dlpack.ErrVersion},
		"R183 stream in version 2":          {func(i *cai.Interface) { i.Version, i.Stream = 2, s.View().Argument() }, dlpack.ErrStream},
		"R187 stream that is no handle":     {func(i *cai.Interface) { i.Stream = cai.StreamOf(77) }, stream.ErrProtocol},
		"R041 misaligned":                   {func(i *cai.Interface) { i.Data++; i.Shape = ints(2) }, dlpack.ErrAlign},
	} {
		t.Run(name, func(t *testing.T) {
			gone := 0
			i := good()
			c.change(i)
			_, err := memview.FromCAI(i, memview.OnRelease(nil, func() error { gone++; return nil }), stream.On(s.View()), nil)
			require.ErrorIs(t, err, c.want)
			var rule *dlpack.RuleError
			require.ErrorAs(t, err, &rule)
			require.Zero(t, gone, "the owner is still the caller's")
		})
	}
	_, err := memview.FromCAI(good(), memview.Owner{}, stream.NoSync(), nil)
	require.ErrorIs(t, err, dlpack.ErrNotSupported, "B145")
	i := good()
	i.ReadOnly = true
	_, err = memview.FromCAI(i, memview.Unowned(), stream.NoSync(), &memview.CAIOptions{Writable: true})
	require.ErrorIs(t, err, dlpack.ErrReadOnly, "R175")
	require.True(t, must(memview.FromCAI(i, memview.Unowned(), stream.NoSync(), nil)).ReadOnly(), "R279")
	_, err = memview.FromCAI(good(), memview.Unowned(), stream.NoSync(), &memview.CAIOptions{Device: dlpack.CPU})
	require.ErrorIs(t, err, dlpack.ErrDevice)
}
