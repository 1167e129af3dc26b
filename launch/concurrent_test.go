package launch_test

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/launch"
)

// collect runs the collector again and again until the test ends.
func collect(t *testing.T) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
	})
}

func TestDefaultStreams(t *testing.T) { // B344: the handles 1 and 2 while the collector runs
	k, s := kernel(t, "add"), newStream(t, 0)
	b := upload[int32](t, s, 0)
	require.NoError(t, s.Synchronize(t.Context()))
	collect(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	legacy, err := s.Device().DefaultStream()
	require.NoError(t, err)
	closeLater(t, legacy)
	own, err := s.Context().PerThreadStream()
	require.NoError(t, err)
	closeLater(t, own)
	p, err := launch.Prepare(k, b, int32(1), int64(1))
	require.NoError(t, err)
	for range 20 {
		require.NoError(t, launch.Launch(legacy, one, k, b, int32(1), int64(1)))
		require.NoError(t, p.Launch(legacy, one))
		require.NoError(t, legacy.Synchronize(t.Context()))
		require.NoError(t, p.Launch(own, one))
		require.NoError(t, own.Synchronize(t.Context()))
	}
	require.Equal(t, []int32{60}, download[int32](t, legacy, b))
}

func TestNothingIsCollectedTooEarly(t *testing.T) { // B353, B355: dead after the call, used by the device later
	k, s := kernel(t, "large"), newStream(t, 0)
	out := upload[int64](t, s, 0)
	collect(t)
	for i := range int64(100) {
		func() {
			var words [500]int64
			words[0], words[499] = i, 1
			p, err := launch.Prepare(k, out, words)
			require.NoError(t, err)
			require.NoError(t, p.Launch(s, one))
		}()
		require.Equal(t, []int64{i + 1}, download[int64](t, s, out))
	}
}

func TestManyGoroutines(t *testing.T) { // B323: contexts belong to threads, launches do not
	k := kernel(t, "add")
	const launches = 50
	var wg sync.WaitGroup
	var checks []func()
	for n := range 8 {
		s := newStream(t, 0)
		b := upload[int32](t, s, int32(n))
		wg.Add(1)
		go func() {
			defer wg.Done()
			p, err := launch.Prepare(k, b, int32(1), int64(1))
			if err != nil {
				t.Error(err)
				return
			}
			for range launches {
				if err := errors.Join(p.Launch(s, one), launch.Launch(s, one, k, b, int32(1), int64(1))); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		checks = append(checks, func() {
			require.Equal(t, []int32{int32(n) + 2*launches}, download[int32](t, s, b))
		})
	}
	wg.Wait()
	for _, check := range checks {
		check()
	}
}

func TestOnePreparedManyGoroutines(t *testing.T) {
	k, s := kernel(t, "add"), newStream(t, 0)
	b := upload[int32](t, s, 0)
	p, err := launch.Prepare(k, b, int32(1), int64(1))
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 50 {
				if err := errors.Join(launch.SetValue(p, 1, int32(1)), p.Set(0, b), p.Launch(s, one)); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	wg.Wait()
	require.Equal(t, []int32{200}, download[int32](t, s, b))
}

func TestCloseDuringLaunches(t *testing.T) {
	s := newStream(t, 0)
	code := testCode(t)
	for range 20 {
		k, err := code.Kernel("add")
		require.NoError(t, err)
		b, err := s.Device().Allocate(4, s)
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 3 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for {
					if err := launch.Launch(s, one, k, b, int32(1), int64(1)); err != nil {
						if !errors.Is(err, launch.ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
			}()
		}
		require.NoError(t, b.Close())
		require.NoError(t, k.Close())
		wg.Wait()
		require.NoError(t, s.Synchronize(t.Context()))
	}
}

// TestCloseDuringPlainLaunches closes kernel and stream under launches that
// count neither: each either runs or says what is closed, and all of it is given
// back in the end, by whoever was the last.
func TestCloseDuringPlainLaunches(t *testing.T) {
	testdriver.HoldUp(t)
	code, dev := testCode(t), openDevice(t)
	require.NoError(t, device.Flush(t.Context()))
	before, loaded := device.Stats().Streams, launch.Stats().Kernels
	for round := range 40 {
		k, err := code.Kernel("two")
		require.NoError(t, err)
		s, err := dev.NewStream(nil)
		require.NoError(t, err)
		shared, err := launch.Prepare(k, driver.DevicePtr(0), int32(1))
		require.NoError(t, err)
		var wg sync.WaitGroup
		var running sync.WaitGroup
		for g := range 4 {
			wg.Add(1)
			running.Add(1)
			go func() {
				defer wg.Done()
				p := shared
				if g == 3 {
					if p, err = launch.Prepare(k, driver.DevicePtr(0), int32(1)); err != nil {
						t.Error(err)
					}
				}
				for n := 0; ; n++ {
					var err error
					if g == 0 {
						err = launch.Launch(s, one, k, driver.DevicePtr(0), int32(1))
					} else {
						err = p.Launch(s, one)
					}
					if err != nil && !errors.Is(err, launch.ErrClosed) {
						t.Error(err)
					}
					if n == 5 || n < 5 && err != nil {
						running.Done()
						n = 5
					}
					if err != nil {
						return
					}
				}
			}()
		}
		running.Wait()
		if round%2 == 0 {
			require.NoError(t, k.Close())
			require.NoError(t, s.Close())
		} else {
			require.NoError(t, s.Close())
			require.NoError(t, k.Close())
		}
		wg.Wait()
		require.Equal(t, before, device.Stats().Streams)
		require.Equal(t, loaded, launch.Stats().Kernels)
	}
}

// TestCodeOutlivesALaunch closes the last that keeps code loaded under launches:
// the library goes after them.
func TestCodeOutlivesALaunch(t *testing.T) {
	s := newStream(t, 0)
	for range 20 {
		var k *launch.Kernel
		t.Run("", func(t *testing.T) { // closes the code
			var err error
			k, err = testCode(t).Kernel("two")
			require.NoError(t, err)
		})
		libraries := launch.Stats().Libraries
		p, err := launch.Prepare(k, driver.DevicePtr(0), int32(1))
		require.NoError(t, err)
		var wg sync.WaitGroup
		for g := range 3 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for {
					var err error
					if g == 0 {
						err = launch.Launch(s, one, k, driver.DevicePtr(0), int32(1))
					} else {
						err = p.Launch(s, one)
					}
					if err != nil {
						if !errors.Is(err, launch.ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
			}()
		}
		runtime.Gosched()
		require.NoError(t, k.Close())
		wg.Wait()
		require.Equal(t, libraries-1, launch.Stats().Libraries)
		require.NoError(t, s.Synchronize(t.Context()))
	}
}

// TestLaunchOnManyStreams launches one kernel on streams of every kind in turn:
// each launch is on the stream that was given, or the hunt for missing
// synchronization finds it on another.
func TestLaunchOnManyStreams(t *testing.T) {
	k := kernel(t, "add")
	a, b := newStream(t, 0), newStream(t, 0)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	legacy, err := a.Device().DefaultStream()
	require.NoError(t, err)
	closeLater(t, legacy)
	own, err := a.Context().PerThreadStream()
	require.NoError(t, err)
	closeLater(t, own)
	buf := upload[int32](t, a, 0)
	p, err := launch.Prepare(k, buf.Ptr(), int32(1), int64(1))
	require.NoError(t, err)
	last, n := a, int32(0)
	for range 5 {
		for _, s := range []*device.Stream{a, b, own, a, legacy, own, b} {
			require.NoError(t, s.Wait(last))
			for range 3 {
				require.NoError(t, p.Launch(s, one))
				require.NoError(t, launch.Launch(s, one, k, buf.Ptr(), int32(1), int64(1)))
				n += 2
			}
			last = s
		}
	}
	require.NoError(t, a.Wait(last))
	require.Equal(t, []int32{n}, download[int32](t, a, buf))
}
