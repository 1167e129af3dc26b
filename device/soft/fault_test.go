//go:build cgo && linux

package soft_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
)

func TestFaultOfACall(t *testing.T) {
	d := open(t)
	c := primary(t, d, 0)
	var i *soft.Injection
	t.Run("the second call of a name", func(t *testing.T) {
		i = soft.InjectFault(t, soft.Fault{API: "cuMemAlloc", Nth: 2, Code: driver.ErrorOutOfMemory})
		alloc(t, d, c, 64)
		_, res := d.MemAlloc(c, 64)
		require.Equal(t, driver.ErrorOutOfMemory, res)
		alloc(t, d, c, 64)
		require.Equal(t, 3, i.Calls())
		require.Equal(t, 1, i.Hits())
		require.Equal(t, "cuMemAlloc", i.First())
	})
	alloc(t, d, c, 64)
	require.Equal(t, 3, i.Calls(), "it ended with its test")

	t.Run("any call, all later ones, two at once", func(t *testing.T) {
		all := soft.InjectFault(t, soft.Fault{Nth: 2, Count: -1, Code: driver.ErrorNotSupported})
		soft.InjectFault(t, soft.Fault{API: "cuDriverGetVersion", Code: driver.ErrorUnknown})
		_, res := d.DeviceGetCount()
		ok(t, res)
		for range 3 {
			_, res = d.DeviceGetCount()
			require.Equal(t, driver.ErrorNotSupported, res)
		}
		_, res = d.DriverGetVersion()
		require.Equal(t, driver.ErrorNotSupported, res, "the first that was set decides")
		require.Equal(t, 4, all.Hits())
		all.Remove()
		all.Remove()
		_, res = d.DeviceGetCount()
		ok(t, res)
	})
	t.Run("after the work", func(t *testing.T) {
		before := soft.LiveObjects()
		s, res := d.StreamCreate(c, 0)
		ok(t, res)
		soft.InjectFault(t, soft.Fault{API: "cuStreamDestroy", Code: driver.ErrorLaunchFailed, After: true})
		require.Equal(t, driver.ErrorLaunchFailed, d.StreamDestroy(c, s))
		require.Equal(t, before, soft.LiveObjects())
		require.Equal(t, driver.ErrorInvalidHandle, d.StreamDestroy(c, s), "its own failure comes first")
	})
	t.Run("a lost context", func(t *testing.T) {
		s := newStream(t, d, c, 0)
		i := soft.InjectFault(t, soft.Fault{API: "cuStreamSynchronize", Code: driver.ErrorIllegalAddress, Sticky: true})
		require.Equal(t, driver.ErrorIllegalAddress, d.StreamSynchronize(c, s))
		_, res := d.MemAlloc(c, 64)
		require.Equal(t, driver.ErrorIllegalAddress, res)
		require.Equal(t, driver.ErrorIllegalAddress, d.StreamSynchronize(c, s))
		require.Equal(t, 1, i.Hits(), "the context did the rest")
		i.Remove()
		ok(t, d.StreamSynchronize(c, s))
	})
	t.Run("slow", func(t *testing.T) {
		i := soft.InjectFault(t, soft.Fault{API: "cuDeviceGetCount", Delay: 20 * time.Millisecond})
		start := time.Now()
		_, res := d.DeviceGetCount()
		ok(t, res)
		require.GreaterOrEqual(t, time.Since(start), 20*time.Millisecond)
		require.Equal(t, 1, i.Hits())
	})
}

func TestFaultOfMemory(t *testing.T) {
	d := open(t)
	c := primary(t, d, 0)
	s := newStream(t, d, c, 0)
	ways := map[string]func(n uintptr) (func() driver.Result, driver.Result){
		"device": func(n uintptr) (func() driver.Result, driver.Result) {
			p, res := d.MemAlloc(c, n)
			return func() driver.Result { return d.MemFree(c, p) }, res
		},
		"pool": func(n uintptr) (func() driver.Result, driver.Result) {
			p, res := d.MemAllocAsync(c, n, s)
			return func() driver.Result { return d.MemFreeAsync(c, p, s) }, res
		},
		"pinned": func(n uintptr) (func() driver.Result, driver.Result) {
			p, res := d.MemHostAlloc(c, n, 0)
			return func() driver.Result { return d.MemFreeHost(c, p) }, res
		},
		"managed": func(n uintptr) (func() driver.Result, driver.Result) {
			p, res := d.MemAllocManaged(c, n, 1)
			return func() driver.Result { return d.MemFree(c, p) }, res
		},
	}
	for name, get := range ways {
		t.Run(name, func(t *testing.T) {
			bySize := soft.InjectFault(t, soft.Fault{MinSize: 4096, Count: -1})
			_, res := get(4096)
			require.Equal(t, driver.ErrorOutOfMemory, res)
			require.Equal(t, "allocation", bySize.First())
			free, res := get(4095)
			ok(t, res)
			ok(t, free())
			bySize.Remove()

			soft.InjectFault(t, soft.Fault{Total: 10000, Count: -1})
			first, res := get(6000)
			ok(t, res)
			_, res = get(6000)
			require.Equal(t, driver.ErrorOutOfMemory, res)
			ok(t, first())
			again, res := get(6000)
			ok(t, res) // what was given back counts no more
			ok(t, again())
			_, res = get(10001)
			require.Equal(t, driver.ErrorOutOfMemory, res)
		})
	}
}

func TestHangingStream(t *testing.T) {
	d := open(t)
	soft.ExpectRaces(t) // the second stream overtakes the first on the same bytes
	c := primary(t, d, 0)
	s, q := newStream(t, d, c, 1), newStream(t, d, c, 1)
	p := alloc(t, d, c, 64)
	release, err := soft.HangStream(s)
	require.NoError(t, err)
	defer release()
	ok(t, d.MemsetD8Async(c, p, 1, 64, s))
	ok(t, d.MemsetD8Async(c, p+32, 2, 32, q))
	ok(t, d.StreamSynchronize(c, q))
	require.Equal(t, driver.ErrorNotReady, d.StreamQuery(c, s))
	require.False(t, soft.Idle())
	e := newEvent(t, d, c, 0)
	ok(t, d.EventRecord(c, e, s))
	require.Equal(t, driver.ErrorNotReady, d.EventQuery(c, e))
	release()
	release()
	ok(t, d.StreamSynchronize(c, s))
	require.True(t, soft.Idle())
	ok(t, d.EventQuery(c, e))
	release, err = soft.HangStream(0)
	require.NoError(t, err)
	defer release()
	ok(t, d.MemsetD8Async(c, p, 1, 64, driver.LegacyStream))
	require.False(t, soft.Idle())
	release()
	ok(t, d.CtxSynchronize(c))
	require.True(t, soft.Idle())

	stop, err := soft.SlowStream(0, 10*time.Millisecond)
	require.NoError(t, err)
	start := time.Now()
	for range 3 {
		ok(t, d.MemsetD8Async(c, p, 1, 64, s))
	}
	ok(t, d.StreamSynchronize(c, s))
	require.GreaterOrEqual(t, time.Since(start), 30*time.Millisecond)
	stop()
	stop()
}

func TestFaultsThatMakeNoSense(t *testing.T) {
	for _, s := range []string{
		"cuMemAllok:1:2", "cuMemAlloc", "cuMemAlloc:1", "*:0:2", "*:x:2", "*:-1:2", "*:1:NO_SUCH_CODE", "*:1:2:soon", "*:1:2:min=x",
		"*:1:2:delay=3", "cuMemAlloc:1:2:min=4", "*:1:700:min=4", "*:1:0:delay=1ms:sticky", "*:1:-2", ":1:x",
	} {
		_, err := soft.ParseFault(s)
		require.Error(t, err, s)
	}
	for s, want := range map[string]soft.Fault{
		"cuMemAlloc:3:2":                    {API: "cuMemAlloc", Nth: 3, Code: driver.ErrorOutOfMemory},
		"*:1+:illegal_address:sticky":       {Nth: 1, Count: -1, Code: driver.ErrorIllegalAddress, Sticky: true},
		"*:1:CUDA_ERROR_NOT_READY:after":    {Nth: 1, Code: driver.ErrorNotReady, After: true},
		"*:2+:0:min=0x100":                  {Nth: 2, Count: -1, MinSize: 256},
		"*:1:2:total=100":                   {Nth: 1, Code: driver.ErrorOutOfMemory, Total: 100},
		"cuStreamSynchronize:1:0:delay=2ms": {API: "cuStreamSynchronize", Nth: 1, Delay: 2 * time.Millisecond},
		"cuInit:1:0":                        {API: "cuInit", Nth: 1, Code: driver.ErrorUnknown},
	} {
		f, err := soft.ParseFault(s)
		require.NoError(t, err, s)
		require.Equal(t, want, f, s)
	}
	_, err := soft.Inject(soft.Fault{API: "malloc"})
	require.ErrorIs(t, err, driver.ErrInvalidValue)
	_, err = soft.Inject(soft.Fault{Nth: -1})
	require.ErrorIs(t, err, driver.ErrInvalidValue)
}

// TestFaultsOfTheEnvironment: programs in other languages set faults so.
func TestFaultsOfTheEnvironment(t *testing.T) {
	run := func(faults string) (string, error) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "HANDOFF_SOFT_TEST_CHILD=environment", "HANDOFF_DRIVER=soft", "HANDOFF_SOFT_FAULT="+faults)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run(" cuDeviceTotalMem:1:2, cuDeviceCanAccessPeer:1+:UNKNOWN ,")
	require.NoError(t, err)
	require.Equal(t, "soft 2 0 0 13000\n", out)
	out, err = run("cuInit:1:SYSTEM_NOT_READY")
	require.Error(t, err)
	require.Contains(t, out, "the system is not ready")
	out, err = run("cuInit:first:2")
	require.Error(t, err)
	require.Contains(t, out, `HANDOFF_SOFT_FAULT "cuInit:first:2"`)
}
