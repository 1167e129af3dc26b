package device_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/internal/testdriver"
)

func isNoDriver(err error) bool { return errors.Is(err, device.ErrNoDriver) }

func TestNoDriver(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "DEVICE_TEST_CHILD=none", "HANDOFF_DRIVER=none")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

func TestDevices(t *testing.T) {
	d := open(t, 0)
	n, err := device.Count()
	require.NoError(t, err)
	i := 0
	for dev, err := range device.Devices() {
		require.NoError(t, err)
		require.Equal(t, i, dev.Ordinal())
		again, err := device.Open(i)
		require.NoError(t, err)
		require.Same(t, dev, again)
		i++
	}
	require.Equal(t, n, i)

	for _, bad := range []int{-1, n, 1 << 30} {
		_, err := device.Open(bad)
		require.ErrorIs(t, err, device.ErrInvalidDevice)
	}

	name, err := d.Name()
	require.NoError(t, err)
	require.NotEmpty(t, name)
	if !testdriver.Real() {
		require.Contains(t, strings.ToLower(name), "software", "it says what it is")
	}
	id, err := d.UUID()
	require.NoError(t, err)
	require.Regexp(t, `^GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`, id.String())
	byID, err := device.ByUUID(id)
	require.NoError(t, err)
	require.Same(t, d, byID)
	_, err = device.ByUUID(device.UUID{1, 2, 3}) // B304: a plain answer
	require.ErrorIs(t, err, device.ErrInvalidDevice)
	pci, err := d.PCIBusID()
	require.NoError(t, err)
	byPCI, err := device.ByPCIBusID(pci)
	require.NoError(t, err)
	require.Same(t, d, byPCI)
	_, err = device.ByPCIBusID("nonsense")
	require.Error(t, err)

	total, err := d.TotalMemory()
	require.NoError(t, err)
	free, total2, err := d.MemoryInfo()
	require.NoError(t, err)
	require.Positive(t, free)
	require.LessOrEqual(t, free, total2)
	require.LessOrEqual(t, total2, total)
	major, minor, err := d.ComputeCapability()
	require.NoError(t, err)
	arch, err := d.Arch()
	require.NoError(t, err)
	require.Equal(t, strings.TrimLeft(arch, "0"), strings.TrimLeft(arch, "0"))
	require.GreaterOrEqual(t, major, 3)
	require.GreaterOrEqual(t, minor, 0)
	require.NotEmpty(t, arch)
}

func TestProperties(t *testing.T) {
	d := open(t, 0)
	p, err := d.Properties()
	require.NoError(t, err)
	warp, ok := p.ByName("warp_size")
	require.True(t, ok)
	require.Equal(t, 32, warp)
	same, ok := p.Get(driver.AttrWarpSize)
	require.True(t, ok)
	require.Equal(t, warp, same)
	_, ok = p.ByName("warp_core")
	require.False(t, ok)
	n := 0
	for a, v := range p.All() {
		got, err := d.Attribute(a)
		require.NoError(t, err)
		require.Equal(t, v, got)
		n++
	}
	require.Greater(t, n, 20)
	_, err = d.Attribute(driver.DeviceAttribute(100000))
	require.ErrorIs(t, err, device.ErrInvalidValue)
	var e *device.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 0, e.Device)
	require.Equal(t, "CUDA_ERROR_INVALID_VALUE", e.Name())
	require.NotEmpty(t, e.Message())
	require.EqualError(t, err, "device: attribute device_attribute_100000 on device 0: an argument is out of range (CUDA_ERROR_INVALID_VALUE)")
}

func current(t testing.TB, d *device.Device) driver.ContextHandle {
	t.Helper()
	h, res := d.Driver().CtxGetCurrent()
	require.NoError(t, res.Err())
	return h
}

func TestSetCurrent(t *testing.T) {
	d := open(t, 0)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, err := d.PrimaryContext()
	require.NoError(t, err)
	require.True(t, ctx.Primary())
	before := current(t, d)
	none, err := device.CurrentContext()
	require.NoError(t, err)
	require.Nil(t, none)

	restore, err := d.SetCurrent()
	require.NoError(t, err)
	require.Equal(t, ctx.Handle(), current(t, d))
	now, err := device.CurrentContext()
	require.NoError(t, err)
	require.Same(t, ctx, now, "a handle that is seen again is the same object")

	// Nested, and of another context.
	other, err := d.NewContext(0)
	require.NoError(t, err)
	restore2, err := other.SetCurrent()
	require.NoError(t, err)
	now, err = device.CurrentContext()
	require.NoError(t, err)
	require.Same(t, other, now)

	// On another goroutine it refuses, and does nothing.
	failed := make(chan error)
	go func() { runtime.LockOSThread(); failed <- restore2() }()
	require.ErrorIs(t, <-failed, device.ErrThread)
	require.Equal(t, other.Handle(), current(t, d))

	// Closed while it is current: it goes when it no longer is.
	require.NoError(t, other.Close())
	require.NoError(t, other.Close())
	_, err = other.SetCurrent()
	require.ErrorIs(t, err, device.ErrClosed)
	require.NoError(t, restore2())
	require.NoError(t, restore2(), "twice")
	require.Equal(t, ctx.Handle(), current(t, d))
	require.NoError(t, restore())
	require.Equal(t, before, current(t, d))
	require.NoError(t, ctx.Close(), "the primary context stays")
	_, err = d.NewStream(nil)
	require.NoError(t, err)
	runtime.GC() // the stream above was forgotten on purpose
	waitFor(t, func() bool { return device.Stats().Streams == 0 })

	t.Run("restores when the code between panics", func(t *testing.T) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		before := current(t, d)
		require.Panics(t, func() {
			restore, err := d.SetCurrent()
			require.NoError(t, err)
			defer func() { require.NoError(t, restore()) }()
			panic("oops")
		})
		require.Equal(t, before, current(t, d))
	})
}

// waitFor yields until something becomes true, which the collector brings about.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	ctx := soon(t)
	for !ok() {
		require.NoError(t, ctx.Err(), "it never happened")
		runtime.GC()
		runtime.Gosched()
	}
}

func TestForeignContext(t *testing.T) {
	d := open(t, 0)
	drv := d.Driver()
	h, res := drv.ContextNew(0, d.Handle())
	require.NoError(t, res.Err())
	defer func() {
		drv.ForgetContext(h, false)
		require.NoError(t, drv.CtxDestroy(h).Err())
	}()
	c, err := device.WrapContext(h)
	require.NoError(t, err)
	again, err := device.WrapContext(h)
	require.NoError(t, err)
	require.Same(t, c, again)
	require.Same(t, d, c.Device())
	require.False(t, c.Primary())
	require.NoError(t, c.Close(), "a borrowed context stays")
	s, err := c.NewStream(nil)
	require.NoError(t, err)
	require.Same(t, c, s.Context())
	require.NoError(t, c.Synchronize(soon(t)))
	require.NoError(t, s.Close())
	_, err = device.WrapContext(0)
	require.ErrorIs(t, err, device.ErrInvalidContext)
}

// The handle of a foreign context that was destroyed may be that of another one.
func TestForeignContextHandleAgain(t *testing.T) {
	d := open(t, 0)
	if testdriver.Real() {
		t.Skip("needs the software device, which can be made to use handles again")
	}
	soft.ReuseHandles(t)
	drv := d.Driver()
	type made struct {
		c              driver.ContextHandle
		s              driver.StreamHandle
		ctx            *device.Context
		stream, legacy *device.Stream
	}
	var all []made
	for range 2 {
		var x made
		var res driver.Result
		x.c, res = drv.ContextNew(0, d.Handle())
		require.NoError(t, res.Err())
		x.s, res = drv.StreamCreate(x.c, driver.StreamNonBlocking)
		require.NoError(t, res.Err())
		var err error
		x.stream, err = device.WrapStream(x.s, nil, nil)
		require.NoError(t, err)
		x.ctx, err = device.WrapContext(x.c)
		require.NoError(t, err)
		require.Same(t, x.ctx, x.stream.Context())
		x.legacy, err = x.ctx.DefaultStream()
		require.NoError(t, err)
		again, err := device.WrapStream(x.s, x.ctx, nil)
		require.NoError(t, err)
		require.Same(t, x.stream, again)
		// An event of the pool, which goes with the context.
		require.NoError(t, x.legacy.Wait(x.stream))
		ev, err := x.ctx.NewEvent(nil)
		require.NoError(t, err)
		require.NoError(t, x.stream.RecordEvent(ev))
		require.NoError(t, x.stream.Synchronize(soon(t)))
		require.NoError(t, ev.Close())
		all = append(all, x)
		require.NoError(t, drv.CtxDestroy(x.c).Err()) // by its owner, who does not tell
	}
	require.Equal(t, all[0].c, all[1].c)
	require.Equal(t, all[0].s, all[1].s)
	require.NotSame(t, all[0].ctx, all[1].ctx)
	require.NotSame(t, all[0].stream, all[1].stream)
	require.NotSame(t, all[0].legacy, all[1].legacy)
	own, err := d.NewContext(0)
	require.NoError(t, err)
	require.Equal(t, all[0].c, own.Handle())
	again, err := device.WrapContext(own.Handle())
	require.NoError(t, err)
	require.Same(t, own, again)
	for _, x := range all {
		require.NoError(t, x.stream.Close())
		require.NoError(t, x.legacy.Close())
	}
	require.NoError(t, own.Close())
}

func TestPeers(t *testing.T) {
	a := open(t, 0)
	can, err := a.CanAccess(a)
	require.NoError(t, err)
	require.True(t, can)
	require.NoError(t, a.EnableAccess(a))
	b := open(t, 1)
	can, err = a.CanAccess(b)
	require.NoError(t, err)
	if !can {
		err := a.EnableAccess(b)
		require.ErrorIs(t, err, device.ErrPeerAccess)
		require.Contains(t, err.Error(), "device 0") // B287: both are named
		require.Contains(t, err.Error(), "device 1")
		return
	}
	require.NoError(t, a.EnableAccess(b))
	require.NoError(t, a.EnableAccess(b), "B285 twice")
	require.NoError(t, a.DisableAccess(b))
	require.NoError(t, a.DisableAccess(b))
}

func TestContextSynchronize(t *testing.T) {
	d := open(t, 0)
	s := newStream(t, d)
	release := block(t, s)
	ctx, cancel := context.WithCancelCause(background)
	why := errors.New("enough")
	done := make(chan error)
	go func() { done <- d.Synchronize(ctx) }()
	cancel(why)
	require.ErrorIs(t, <-done, why)
	require.ErrorIs(t, d.Synchronize(ctx), why)
	release()
	require.NoError(t, d.Synchronize(soon(t)))
	require.NoError(t, d.Synchronize(background))
	require.True(t, isDone(t, s))
}

// TestAnotherContextCurrent: B287, B289. Work goes to the device of its stream,
// whatever is current on the thread.
func TestAnotherContextCurrent(t *testing.T) {
	other, d := open(t, 0), open(t, 1)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	restore, err := other.SetCurrent()
	require.NoError(t, err)
	defer func() { require.NoError(t, restore()) }()
	before := current(t, d)

	s, q := newStream(t, d), newStream(t, d)
	b := allocate(t, d, 1<<16, s)
	c := allocate(t, d, 1<<16, q)
	for _, x := range []*device.Buffer{b, c} {
		info, res := d.Driver().PointerInfo(x.Ptr())
		require.NoError(t, res.Err())
		require.Equal(t, d.Handle(), info.Device)
	}
	release := block(t, s)
	require.NoError(t, b.Fill8(0x42, s))
	e, err := s.Record(&device.EventOptions{Timing: true})
	require.NoError(t, err)
	require.NoError(t, q.WaitEvent(e))
	require.NoError(t, q.Wait(s))
	require.NoError(t, c.CopyFrom(b, q))
	require.False(t, isDone(t, q))
	release()
	require.Equal(t, byte(0x42), read(t, c, q)[1<<16-1])
	require.NoError(t, e.Synchronize(soon(t)))
	require.NoError(t, s.Synchronize(background))
	require.NoError(t, e.Close())
	def, err := d.DefaultStream()
	require.NoError(t, err)
	require.NoError(t, b.Fill8(0x43, def))
	require.Equal(t, byte(0x43), read(t, b, def)[0])
	require.NoError(t, def.Close())
	require.Equal(t, before, current(t, d))
}
