package device_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/internal/testdriver"
)

// The tests run on the software device, and unchanged on a GPU with
// HANDOFF_DRIVER=cuda. Nothing may be left when they are done.
func TestMain(m *testing.M) {
	if mode := os.Getenv("DEVICE_TEST_CHILD"); mode != "" {
		os.Exit(child(mode))
	}
	os.Exit(leak.Run(func() int {
		code := m.Run()
		if err := device.Flush(context.Background()); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		s := device.Stats()
		if code == 0 && (s.Contexts|s.Streams|s.Events|s.Buffers|s.Pools|s.Allocated|s.Deferred|s.Waiters) != 0 {
			fmt.Fprintf(os.Stderr, "left over: %+v\n", s)
			code = 1
		}
		return code
	}, os.Stderr))
}

var background = context.Background()

// open returns a device, or skips if there are too few. What the test gives back is the driver's
// when it has ended: freeing pinned memory waits for the device, and would do so for the work that the
// next test holds up.
func open(t testing.TB, ordinal int) *device.Device {
	t.Helper()
	testdriver.Open(t)
	t.Cleanup(func() { require.NoError(t, device.Flush(soon(t))) })
	n, err := device.Count()
	require.NoError(t, err)
	if n <= ordinal {
		t.Skipf("needs %d devices, there are %d", ordinal+1, n)
	}
	d, err := device.Open(ordinal)
	require.NoError(t, err)
	return d
}

// newStream makes a stream until the test ends.
func newStream(t testing.TB, d *device.Device) *device.Stream {
	t.Helper()
	s, err := d.NewStream(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// block queues work on a stream that lasts until the function is called.
func block(t testing.TB, s *device.Stream) (release func()) {
	t.Helper()
	return testdriver.Block(t, s.Device().Driver(), s.Context().Handle(), s.Handle())
}

// allocate makes a buffer until the test ends.
func allocate(t testing.TB, d *device.Device, size int64, s *device.Stream) *device.Buffer {
	t.Helper()
	b, err := d.Allocate(size, s)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

func read(t testing.TB, b *device.Buffer, s *device.Stream) []byte {
	t.Helper()
	p := make([]byte, b.Size())
	require.NoError(t, b.CopyToHost(background, p, s))
	return p
}

func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(background, time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func isDone(t testing.TB, s *device.Stream) bool {
	t.Helper()
	done, err := s.Done()
	require.NoError(t, err)
	return done
}

// child is what a process of its own does for a test.
func child(mode string) int {
	if code, known := fieldChild(mode); known {
		return code
	}
	switch mode {
	case "none":
		_, err := device.Open(0)
		_, err2 := device.Count()
		fmt.Println(err, err2)
		var n int
		for d, err := range device.Devices() {
			if d != nil || err == nil {
				return 1
			}
			n++
		}
		if n != 1 {
			return 1
		}
		_, err3 := device.WrapStream(1<<20, nil, nil)
		_, err4 := device.InfoOf(driver.DevicePtr(1 << 20))
		for _, err := range []error{err, err2, err3, err4} {
			if !isNoDriver(err) {
				return 1
			}
		}
		return 0
	}
	if mode == "faults" {
		if err := faultChild(); err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("faults: ok")
		return 0
	}
	if f := map[string]func() error{"event": eventChild, "pool": poolChild, "memory": memoryChild}[mode]; f != nil {
		if err := f(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	return 2
}
