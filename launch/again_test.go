package launch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/launch"
)

// A launch starts the kernel as a function of the stream's context, which goes with it. Context, stream and functions
// of a new one may have the handles of old.
func TestContextHandleAgain(t *testing.T) {
	dev := openDevice(t)
	if testdriver.Real() {
		t.Skip("needs the software device, which can be made to use handles again")
	}
	require.NoError(t, softKernels())
	require.NoError(t, soft.RegisterKernel("again_other", []soft.ParamInfo{soft.Ptr, soft.Int32, soft.Int64}, func(l *soft.Launch) {
		soft.Slice[int32](l, l.Ptr(0), 1)[0] = -1
	}))
	load := func(name string) *launch.Kernel {
		c, err := launch.NewObjectCode(soft.Image(name), nil)
		require.NoError(t, err)
		closeLater(t, c)
		k, err := c.Kernel(name)
		require.NoError(t, err)
		closeLater(t, k)
		return k
	}
	add, other := load("add"), load("again_other")
	prepared, err := launch.Prepare(add, driver.DevicePtr(0), int32(1), int64(1))
	require.NoError(t, err)
	home := newStream(t, 0)
	b := upload[int32](t, home, 0)
	require.NoError(t, home.Synchronize(t.Context()))
	require.NoError(t, launch.SetValue(prepared, 0, b.Ptr()))

	soft.ReuseHandles(t)
	drv, cfg := dev.Driver(), launch.Config{Grid: launch.D1(1), Block: launch.D1(1)}
	var handles []driver.StreamHandle
	for round := range 2 {
		h, res := drv.ContextNew(0, dev.Handle())
		require.NoError(t, res.Err())
		foreign, res := drv.StreamCreate(h, driver.StreamNonBlocking)
		require.NoError(t, res.Err())
		handles = append(handles, foreign)
		s, err := device.WrapStream(foreign, nil, nil)
		require.NoError(t, err)
		want := int32(8 * round)
		if round == 1 { // what takes the handle of add's function
			require.NoError(t, launch.Launch(s, cfg, other, b.Ptr(), int32(1), int64(1)))
			require.NoError(t, launch.Launch(s, cfg, other, b.Ptr(), int32(1), int64(1)))
			want = -1
		}
		for range 4 {
			require.NoError(t, launch.Launch(s, cfg, add, b.Ptr(), int32(1), int64(1)))
			require.NoError(t, prepared.Launch(s, cfg))
			want += 2
		}
		require.NoError(t, s.Synchronize(t.Context()))
		require.Equal(t, []int32{want}, download[int32](t, home, b))
		require.NoError(t, drv.CtxDestroy(h).Err()) // by its owner, while s is open
		closeLater(t, s)
	}
	require.Equal(t, handles[0], handles[1])
}

// Where the driver refuses a function, perhaps because it went with its context, the kernel itself is started.
func TestLaunchAfterStaleFunction(t *testing.T) {
	s := newStream(t, 0)
	if testdriver.Real() {
		t.Skip("needs the software device, which can be made to fail")
	}
	cfg := launch.Config{Grid: launch.D1(1), Block: launch.D1(1)}
	for _, code := range []driver.Result{driver.ErrorInvalidHandle, driver.ErrorContextIsDestroyed} {
		k := kernel(t, "nothing")
		for range 3 {
			require.NoError(t, launch.Launch(s, cfg, k))
		}
		in := soft.InjectFault(t, soft.Fault{API: "cuLaunchKernelEx", Code: code})
		require.NoError(t, launch.Launch(s, cfg, k))
		require.Equal(t, 1, in.Hits())
		in.Remove()
		p, err := launch.Prepare(k)
		require.NoError(t, err)
		require.NoError(t, p.Launch(s, cfg))
		in = soft.InjectFault(t, soft.Fault{API: "cuLaunchKernelEx", Code: code})
		require.NoError(t, p.Launch(s, cfg))
		require.Equal(t, 1, in.Hits())
		in.Remove()
	}
	require.NoError(t, s.Synchronize(t.Context()))
}
