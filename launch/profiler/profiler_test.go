//go:build cgo && linux

package profiler_test

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/launch/profiler"
)

// calls are the switches that the software device has seen; fail is what the
// next one returns.
var (
	mu    sync.Mutex
	calls []string
	fail  int32
)

func TestMain(m *testing.M) {
	if !testdriver.Real() {
		err := soft.Enable(&soft.Options{Fault: func(api string) int32 {
			if !strings.HasPrefix(api, "cuProfiler") {
				return 0
			}
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, api)
			return fail
		}})
		if err != nil {
			println(err.Error())
			os.Exit(1)
		}
	}
	leak.Main(m)
}

// requireCalls compares the switches that were seen, where somebody writes them
// down, and forgets them.
func requireCalls(t *testing.T, want ...string) {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if !testdriver.Real() {
		require.Equal(t, want, calls)
	}
	calls = nil
}

func context(t *testing.T) *device.Context {
	t.Helper()
	dev, err := device.Open(0)
	require.NoError(t, err)
	ctx, err := dev.PrimaryContext()
	require.NoError(t, err)
	return ctx
}

func TestSwitches(t *testing.T) { // on a GPU without a profiler too
	ctx := context(t)
	require.NoError(t, profiler.Start(ctx))
	require.NoError(t, profiler.Stop(ctx))
	bad := errors.New("bad")
	require.ErrorIs(t, profiler.Collect(ctx, func() error { return bad }), bad)
	require.Panics(t, func() { _ = profiler.Collect(ctx, func() error { panic("of fn") }) })
	requireCalls(t, "cuProfilerStart", "cuProfilerStop", "cuProfilerStart", "cuProfilerStop", "cuProfilerStart", "cuProfilerStop")
}

func TestErrors(t *testing.T) {
	require.ErrorIs(t, profiler.Start(nil), driver.ErrInvalidValue)
	if testdriver.Real() {
		t.Skip("needs the software device, which can be made to fail")
	}
	ctx := context(t)
	fail = int32(driver.ErrorNotSupported)
	defer func() { fail = 0 }()
	require.ErrorIs(t, profiler.Collect(ctx, func() error { t.Error("called"); return nil }), driver.ErrorNotSupported)
	requireCalls(t, "cuProfilerStart")
	err := profiler.Stop(ctx)
	require.ErrorIs(t, err, driver.ErrorNotSupported)
	require.ErrorContains(t, err, "profiler: stop on device 0: ")
	requireCalls(t, "cuProfilerStop")
}
