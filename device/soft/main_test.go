package soft_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/device/soft/internal/engine"
)

// The tests of this package go through the table: every call passes package driver's C
// shims and the C ABI of the software device, as those of a program do. Nothing may be left
// when they are done, and no call may have panicked inside.
func TestMain(m *testing.M) {
	if mode := os.Getenv("HANDOFF_SOFT_TEST_CHILD"); mode != "" {
		os.Exit(child(mode))
	}
	engine.SetPanicHook(func(api string, r any) {
		fmt.Fprintf(os.Stderr, "panic in %s: %v\n", api, r)
		os.Exit(3)
	})
	code := m.Run()
	if l := soft.LiveObjects(); code == 0 && l != (soft.Live{}) {
		fmt.Fprintf(os.Stderr, "left over: %+v\n", l)
		code = 4
	}
	os.Exit(code)
}

// open gives the software device to a test.
func open(t testing.TB) *driver.Driver {
	t.Helper()
	if !soft.Available {
		t.Skip("no software device in this build")
	}
	d, err := driver.Open(&driver.Options{Provider: driver.ProviderSoft})
	require.NoError(t, err)
	if f := flag.Lookup("test.bench"); f.Value.String() == "" {
		soft.Check(t) // every test hunts for missing synchronization
	}
	return d
}

// primary retains the primary context of a device for a test.
func primary(t testing.TB, d *driver.Driver, dev driver.Device) driver.ContextHandle {
	t.Helper()
	c, res := d.DevicePrimaryCtxRetain(dev)
	require.Equal(t, driver.Success, res)
	t.Cleanup(func() { require.Equal(t, driver.Success, d.DevicePrimaryCtxRelease(dev)) })
	return c
}

// newStream makes a stream for a test.
func newStream(t testing.TB, d *driver.Driver, c driver.ContextHandle, flags uint32) driver.StreamHandle {
	t.Helper()
	s, res := d.StreamCreate(c, flags)
	require.Equal(t, driver.Success, res)
	t.Cleanup(func() { require.Equal(t, driver.Success, d.StreamDestroy(c, s)) })
	return s
}

// newEvent makes an event for a test.
func newEvent(t testing.TB, d *driver.Driver, c driver.ContextHandle, flags uint32) driver.EventHandle {
	t.Helper()
	e, res := d.EventCreate(c, flags)
	require.Equal(t, driver.Success, res)
	t.Cleanup(func() { require.Equal(t, driver.Success, d.EventDestroy(c, e)) })
	return e
}

// alloc makes device memory for a test.
func alloc(t testing.TB, d *driver.Driver, c driver.ContextHandle, n uintptr) driver.DevicePtr {
	t.Helper()
	p, res := d.MemAlloc(c, n)
	require.Equal(t, driver.Success, res)
	t.Cleanup(func() { require.Equal(t, driver.Success, d.MemFree(c, p)) })
	return p
}

// block stops a stream until the function that it returns is called, which the end of the
// test does too.
func block(t testing.TB, d *driver.Driver, c driver.ContextHandle, s driver.StreamHandle) (release func()) {
	t.Helper()
	gate := make(chan struct{})
	require.Equal(t, driver.Success, d.LaunchHostGo(c, s, func() { <-gate }))
	open := false
	release = func() {
		if !open {
			open = true
			close(gate)
		}
	}
	t.Cleanup(release)
	return release
}

func ok(t testing.TB, res driver.Result) {
	t.Helper()
	require.Equal(t, driver.Success, res)
}
