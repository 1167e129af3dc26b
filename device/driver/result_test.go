package driver_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// codes reads the result codes from our header.
func codes(t *testing.T) map[driver.Result]string {
	t.Helper()
	text, err := os.ReadFile("include/handoff/cuda_abi.h")
	require.NoError(t, err)
	out := map[driver.Result]string{}
	for _, m := range regexp.MustCompile(`X\((CUDA_SUCCESS|CUDA_ERROR_\w+), (\d+)\)`).FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.Atoi(m[2])
		require.NoError(t, err)
		out[driver.Result(n)] = m[1]
	}
	require.Greater(t, len(out), 90)
	return out
}

func TestResults(t *testing.T) {
	known := codes(t)
	for r, name := range known {
		require.Equal(t, name, r.Name())
		require.NotEqual(t, "unknown code", r.Message(), name)
	}
	require.NoError(t, driver.Success.Err())
	require.Equal(t, "CUDA_SUCCESS", driver.Success.String())
	require.EqualError(t, driver.ErrorOutOfMemory.Err(), "out of memory (CUDA_ERROR_OUT_OF_MEMORY)")
	require.EqualError(t, driver.Result(4711).Err(), "unknown code (CUDA_ERROR_4711)")

	sentinels := []error{
		driver.ErrNoDriver, driver.ErrNoDevice, driver.ErrFork, driver.ErrNotSupported, driver.ErrOutOfMemory, driver.ErrNotReady,
		driver.ErrInvalidContext, driver.ErrInvalidHandle, driver.ErrInvalidValue, driver.ErrInvalidDevice, driver.ErrPeerAccess,
		driver.ErrCapture, driver.ErrSticky, driver.ErrShutdown,
	}
	for r, want := range map[driver.Result]error{
		1: driver.ErrInvalidValue, 2: driver.ErrOutOfMemory, 4: driver.ErrShutdown, 34: driver.ErrNoDriver, 36: driver.ErrNotSupported,
		100: driver.ErrNoDevice, 101: driver.ErrInvalidDevice, 201: driver.ErrInvalidContext, 217: driver.ErrPeerAccess, 400: driver.ErrInvalidHandle,
		600: driver.ErrNotReady, 700: driver.ErrSticky, 709: driver.ErrInvalidContext, 719: driver.ErrSticky, 801: dlpack.ErrNotSupported,
		900: driver.ErrCapture, 905: driver.ErrCapture, 908: driver.ErrCapture, 999: nil, 3: nil, 704: nil,
	} {
		for _, s := range sentinels {
			require.Equal(t, s == want, errors.Is(fmt.Errorf("op: %w", r), s), "%v is %v", r, s) //nolint:errorlint // s is the table's
		}
	}
	require.True(t, driver.ErrorAssert.Sticky())
	require.False(t, driver.ErrorOutOfMemory.Sticky())

	// Whatever a driver returns can be looked at.
	rapid.Check(t, func(t *rapid.T) {
		r := driver.Result(rapid.Int32().Draw(t, "code"))
		if r != driver.Success && (r.Name() == "" || r.Message() == "" || r.Err() == nil) {
			t.Fatalf("%d has no name, no message or no error", int32(r))
		}
	})
}

func TestDeviceAttributeNames(t *testing.T) {
	n := 0
	for a := range driver.DeviceAttributes {
		back, ok := driver.ParseDeviceAttribute(a.String())
		require.True(t, ok)
		require.Equal(t, a, back)
		n++
	}
	require.Greater(t, n, 140)
	require.Equal(t, "multiprocessor_count", driver.AttrMultiprocessorCount.String())
	require.Equal(t, "device_attribute_12345", driver.DeviceAttribute(12345).String())
	_, ok := driver.ParseDeviceAttribute("warp_core")
	require.False(t, ok)
	for range driver.DeviceAttributes {
		break // stops when the loop does
	}
}

// TestWithoutDriver: without cgo everything is there and says so.
func TestWithoutDriver(t *testing.T) {
	if driver.Available {
		t.Skip("this build reaches a driver")
	}
	_, err := driver.Open(&driver.Options{Provider: driver.ProviderCUDA})
	require.ErrorIs(t, err, driver.ErrNoDriver)
	var d driver.Driver
	require.ErrorIs(t, d.Init(0), driver.ErrNoDriver)
	_, res := d.MemAlloc(0, 1)
	require.ErrorIs(t, res, driver.ErrNoDriver)
	require.False(t, d.Has("cuInit"))
}

func ExampleResult() {
	err := fmt.Errorf("allocate 1 TiB: %w", driver.ErrorOutOfMemory)
	fmt.Println(err)
	fmt.Println(errors.Is(err, driver.ErrOutOfMemory))
	// Output:
	// allocate 1 TiB: out of memory (CUDA_ERROR_OUT_OF_MEMORY)
	// true
}

func ExampleOpen() {
	_, err := driver.Open(&driver.Options{Provider: driver.ProviderNone})
	fmt.Println(errors.Is(err, driver.ErrNoDriver))
	fmt.Println(err)
	// Output:
	// true
	// driver: open "none": switched off by HANDOFF_DRIVER or an option: no CUDA driver
}
