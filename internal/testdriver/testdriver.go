// Package testdriver gives tests their driver: the software device, or a real
// GPU with HANDOFF_DRIVER=cuda, with the same tests.
package testdriver

import (
	"flag"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
)

// Real reports whether the tests run on a GPU.
func Real() bool { return strings.EqualFold(os.Getenv("HANDOFF_DRIVER"), "cuda") }

// Open returns the driver of this process. It skips the test only where there
// can be none: in a build without cgo or for another system. Under
// HANDOFF_DRIVER=cuda a missing driver is a failure.
func Open(t testing.TB) *driver.Driver {
	t.Helper()
	if !Real() {
		if !softBuilt {
			t.Skipf("needs the software device, which needs cgo on linux (this is %s without it)", runtime.GOOS)
		}
		require.NoError(t, soft.Enable(nil))
		check(t)
	}
	d, err := driver.Default()
	require.NoError(t, err)
	layer(t, d)
	return d
}

// expected are the reports of the checking layer, by number, of tests that leave synchronization out on purpose.
var expected sync.Map

// layer fails a test for what the checking layer of the driver (HANDOFF_CHECK) reports meanwhile.
func layer(t testing.TB, d *driver.Driver) {
	if !d.Checked() || benchmarks() {
		return
	}
	if _, ok := checkedByLayer.LoadOrStore(t.Name(), true); ok {
		return
	}
	seen := reports(d)
	t.Cleanup(func() {
		checkedByLayer.Delete(t.Name())
		for i, r := range seen() {
			if _, ok := expected.Load(i); !ok {
				t.Errorf("the checking layer: %s", r)
			}
		}
	})
}

// reports returns a function that lists, by number, what the checking layer has reported since, also again.
func reports(d *driver.Driver) (since func() map[int]*driver.Race) {
	before := d.Races()
	return func() map[int]*driver.Race {
		r := make(map[int]*driver.Race)
		for i, x := range d.Races() {
			if i >= len(before) || x.Count > before[i].Count {
				r[i] = &x
			}
		}
		return r
	}
}

var checkedByLayer sync.Map

// benchmarks says that this run measures.
func benchmarks() bool {
	f := flag.Lookup("test.bench")
	return f != nil && f.Value.String() != ""
}

// checked are the tests that hunt for missing synchronization already.
var checked sync.Map

// check hunts for missing synchronization in every test, on the software device. Benchmarks run without,
// which would spoil their figures.
func check(t testing.TB) {
	t.Helper()
	if benchmarks() {
		return
	}
	if _, ok := checked.LoadOrStore(t.Name(), true); ok {
		return
	}
	t.Cleanup(func() { checked.Delete(t.Name()) })
	soft.Check(t)
}

// Racy says that a test leaves synchronization out on purpose: on the software device the hunt has
// to find it, and so has the checking layer, where it is.
func Racy(t testing.TB) {
	t.Helper()
	if d, err := driver.Default(); err == nil && d.Checked() {
		seen := reports(d)
		t.Cleanup(func() {
			races := seen()
			if len(races) == 0 {
				t.Error("the checking layer has seen no missing synchronization, though the test has some")
			}
			for i := range races {
				expected.Store(i, true)
			}
		})
	}
	if Real() || !softBuilt {
		return
	}
	if !benchmarks() {
		soft.ExpectRaces(t)
	}
}

// Context returns the primary context of a device until the test ends. It
// skips the test if there are too few devices.
func Context(t testing.TB, ordinal int) (*driver.Driver, driver.ContextHandle) {
	t.Helper()
	d := Open(t)
	n, res := d.DeviceGetCount()
	require.NoError(t, res.Err())
	if int(n) <= ordinal {
		t.Skipf("needs %d devices, there are %d", ordinal+1, n)
	}
	ctx, res := d.DevicePrimaryCtxRetain(driver.Device(ordinal))
	require.NoError(t, res.Err())
	t.Cleanup(func() {
		d.ForgetContext(ctx, false)
		require.NoError(t, d.DevicePrimaryCtxRelease(driver.Device(ordinal)).Err())
	})
	return d, ctx
}

// Stream makes a non-blocking stream until the test ends.
func Stream(t testing.TB, d *driver.Driver, ctx driver.ContextHandle) driver.StreamHandle {
	t.Helper()
	s, res := d.StreamCreate(ctx, driver.StreamNonBlocking)
	require.NoError(t, res.Err())
	t.Cleanup(func() {
		require.NoError(t, d.StreamSynchronize(ctx, s).Err())
		require.NoError(t, d.StreamDestroy(ctx, s).Err())
	})
	return s
}

// SanitizerEnv says that the tests run under compute-sanitizer, which lets every launch and every destruction wait for
// all work of the device.
const SanitizerEnv = "HANDOFF_SANITIZER"

// HoldUp comes first in a test that launches, destroys or synchronizes while it holds a stream up: with
// HANDOFF_SANITIZER=1 such a test would wait for itself, and is skipped.
func HoldUp(t testing.TB) {
	t.Helper()
	if os.Getenv(SanitizerEnv) == "1" {
		t.Skipf("%s needs calls that do not wait for work it holds up; under compute-sanitizer (%s=1) they do", t.Name(), SanitizerEnv)
	}
}

// Block queues work on a stream that lasts until the returned function is
// called, at the latest when the test ends. See also [HoldUp].
func Block(t testing.TB, d *driver.Driver, ctx driver.ContextHandle, s driver.StreamHandle) (release func()) {
	t.Helper()
	gate := make(chan struct{})
	open := false
	release = func() {
		if !open {
			open = true
			close(gate)
		}
	}
	require.NoError(t, d.LaunchHostGo(ctx, s, func() { <-gate }).Err())
	t.Cleanup(release)
	return release
}
