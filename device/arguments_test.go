package device_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
)

// TestNothingForAnArgument: nil where an object is needed is an error, and nothing is done.
func TestNothingForAnArgument(t *testing.T) {
	d := open(t, 0)
	s := newStream(t, d)
	b := allocate(t, d, 64, s)
	pool, err := d.NewPool(nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, pool.Close()) }()
	e, err := s.Record(&device.EventOptions{Timing: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	second := func(_ any, err error) error { return err }
	for name, use := range map[string]func() error{
		"Allocate, no resource":     func() error { return second(device.Allocate(nil, 1, s)) },
		"Allocate, no stream":       func() error { return second(d.Allocate(1, nil)) },
		"ImportBuffer, no resource": func() error { return second(device.ImportBuffer(b.Ptr(), 1, nil, s)) },
		"Copy to nothing":           func() error { return device.Copy(nil, b, s) },
		"Copy of nothing":           func() error { return device.Copy(b, nil, s) },
		"CopyRange":                 func() error { return device.CopyRange(b, 0, nil, 0, 1, s) },
		"Copy, no stream":           func() error { return device.Copy(b, b, nil) },
		"Fill8":                     func() error { return b.Fill8(1, nil) },
		"SetStream":                 func() error { return b.SetStream(nil) },
		"RecordEvent":               func() error { return s.RecordEvent(nil) },
		"WaitEvent":                 func() error { return s.WaitEvent(nil) },
		"Launch":                    func() error { return s.Launch(nil) },
		"Elapsed from":              func() error { return second(device.Elapsed(nil, e)) },
		"Elapsed to":                func() error { return second(device.Elapsed(e, nil)) },
		"CanAccess":                 func() error { return second(d.CanAccess(nil)) },
		"EnableAccess":              func() error { return d.EnableAccess(nil) },
		"DisableAccess":             func() error { return d.DisableAccess(nil) },
		"pool SetAccess":            func() error { return pool.SetAccess(nil, true) },
		"pool CanAccess":            func() error { return second(pool.CanAccess(nil)) },
		"pool Share":                func() error { return second(pool.Share(nil)) },
		"pool Deallocate":           func() error { return pool.Deallocate(b.Ptr(), 64, nil) },
	} {
		require.ErrorIs(t, use(), device.ErrInvalidValue, name)
	}
	require.NoError(t, s.Synchronize(background))
}

// TestCopyOntoItself: ranges that overlap are refused, in either direction; a range copied to where it is already is
// nothing to do.
func TestCopyOntoItself(t *testing.T) {
	d := open(t, 0)
	s := newStream(t, d)
	b := allocate(t, d, 64, s)
	part, err := device.WrapBuffer(b.Ptr()+8, 16, b)
	require.NoError(t, err)
	require.NoError(t, b.Fill8(5, s))
	for _, r := range [][3]int64{{0, 1, 10}, {1, 0, 10}, {0, 63, 64}, {10, 19, 10}} {
		if r[1]+r[2] <= b.Size() && r[0]+r[2] <= b.Size() {
			require.ErrorIs(t, device.CopyRange(b, r[0], b, r[1], r[2], s), device.ErrInvalidValue, "%v", r)
		}
	}
	require.ErrorIs(t, device.CopyRange(part, 0, b, 0, 16, s), device.ErrInvalidValue, "two buffers of one memory")
	require.NoError(t, device.CopyRange(b, 0, b, 32, 32, s))
	require.NoError(t, device.CopyRange(b, 32, b, 0, 32, s))
	require.NoError(t, device.Copy(b, b, s))
	require.NoError(t, device.CopyRange(part, 0, b, 8, 16, s))
	require.NoError(t, device.CopyRange(b, 3, b, 4, 0, s))
	require.Equal(t, byte(5), read(t, b, s)[63])
}

func TestWrapOfAClosedStream(t *testing.T) {
	s, err := open(t, 0).NewStream(nil)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = device.Wrap(s, nil)
	require.ErrorIs(t, err, device.ErrClosed)
}

// TestWaitAcrossACapture: the error is the one that the driver gave first, not that the capture is over.
func TestWaitAcrossACapture(t *testing.T) {
	d := open(t, 0)
	s, other := newStream(t, d), newStream(t, d)
	require.NoError(t, s.Wait(other)) // there is an event in the pool
	require.NoError(t, s.BeginCapture(driver.StreamCaptureModeRelaxed))
	err := s.Wait(other)
	require.ErrorIs(t, err, device.ErrCapture)
	require.ErrorIs(t, err, driver.ErrorStreamCaptureIsolation)
	_, err = s.EndCapture()
	require.ErrorIs(t, err, device.ErrCapture)
	require.NoError(t, s.Synchronize(background))
	require.NoError(t, other.Synchronize(background))
}
