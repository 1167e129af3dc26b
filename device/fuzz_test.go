package device_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/stream"
)

// typed says that an error can be told by its kind.
func typed(err error) bool {
	var e *device.Error
	return err == nil || errors.As(err, &e) || errors.Is(err, device.ErrInvalidValue) || errors.Is(err, stream.ErrProtocol) ||
		errors.Is(err, stream.ErrNoContext) || errors.Is(err, device.ErrInvalidContext)
}

// FuzzRawHandles: numbers from outside give a typed error, whatever they are.
// A GPU's driver reads where a stream handle points, so this is for the
// software device.
func FuzzRawHandles(f *testing.F) {
	for _, n := range []uint64{0, 1, 2, 3, 17, 4095, 4096, 1 << 20, 1 << 47, 1<<63 - 1, 1 << 63, ^uint64(0)} {
		f.Add(n, int64(16))
		f.Add(n, int64(-1))
	}
	if testdriver.Real() {
		f.Skip("needs the software device")
	}
	d := open(f, 0)
	s := newStream(f, d)
	f.Fuzz(func(t *testing.T, n uint64, size int64) {
		w, err := device.WrapStream(driver.StreamHandle(n), nil, nil)
		require.True(t, typed(err), "%v", err)
		if err == nil {
			require.NoError(t, w.Close())
		}
		c, err := device.WrapContext(driver.ContextHandle(n))
		require.True(t, typed(err), "%v", err)
		if err == nil {
			require.NoError(t, c.Close())
		}
		require.Nil(t, device.EventOf(driver.EventHandle(n)))
		b, err := device.WrapBuffer(driver.DevicePtr(n), size, nil)
		require.True(t, typed(err), "%v", err)
		if err == nil {
			require.NoError(t, b.Close())
		}
		drv, ctx := d.Driver(), s.Context().Handle()
		for _, res := range []driver.Result{
			drv.EventQuery(ctx, driver.EventHandle(n)),
			drv.EventRecord(ctx, driver.EventHandle(n), s.Handle()),
			drv.StreamWaitEvent(ctx, s.Handle(), driver.EventHandle(n), 0),
			drv.EventDestroy(ctx, driver.EventHandle(n)),
			drv.MemFree(ctx, driver.DevicePtr(n|1)),
			drv.MemPoolDestroy(driver.MemPoolHandle(n)),
		} {
			require.True(t, res == driver.Success || res.Message() != "unknown code", "%v", res)
		}
	})
}

// TestDestroyedHandles: what is gone is refused, by the software device at
// least; a GPU's driver may not notice.
func TestDestroyedHandles(t *testing.T) {
	if testdriver.Real() {
		t.Skip("needs the software device")
	}
	d := open(t, 0)
	s, err := d.NewStream(nil)
	require.NoError(t, err)
	h := s.Handle()
	require.NoError(t, s.Close())
	_, err = device.WrapStream(h, nil, nil)
	require.ErrorIs(t, err, device.ErrInvalidHandle)
	e, err := d.NewEvent(nil)
	require.NoError(t, err)
	raw := e.Handle()
	require.NoError(t, e.Close())
	live := newStream(t, d)
	require.Equal(t, driver.ErrorInvalidHandle, d.Driver().StreamWaitEvent(live.Context().Handle(), live.Handle(), raw, 0))
}
