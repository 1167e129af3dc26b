package stream_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/stream"
)

func TestMain(m *testing.M) { leak.Main(m) }

// wrap makes a view of a new stream on a device.
func wrap(t testing.TB, ordinal int) (*driver.Driver, stream.StreamView) {
	t.Helper()
	d, ctx := testdriver.Context(t, ordinal)
	v, err := stream.WrapHandle(uintptr(testdriver.Stream(t, d, ctx)), nil)
	require.NoError(t, err)
	require.Equal(t, ctx, v.Context())
	require.Equal(t, driver.Device(ordinal), v.Device())
	return d, v
}

// ready says whether all that is queued on v now is done, by an event.
func ready(t testing.TB, d *driver.Driver, v stream.StreamView) bool {
	t.Helper()
	done, err := v.Done()
	require.NoError(t, err)
	return done
}

func TestWrapAsksTheDriver(t *testing.T) {
	_, v := wrap(t, 0)
	require.Equal(t, stream.KindCreated, v.Kind())
	version, handle := v.CUDAStream()
	require.Zero(t, version) // R262
	require.Equal(t, uintptr(v.Handle()), handle)
	nb, err := v.NonBlocking()
	require.NoError(t, err)
	require.True(t, nb)
	_, err = v.Priority()
	require.NoError(t, err)
	again, err := stream.Wrap(v, nil)
	require.NoError(t, err)
	require.True(t, again.Same(v))
	h, ok := v.Argument().Handle()
	require.True(t, ok)
	require.Equal(t, handle, h)

	_, w := wrap(t, 0)
	require.False(t, w.Same(v))
	a, err := v.ID()
	require.NoError(t, err)
	b, err := w.ID()
	require.NoError(t, err)
	require.NotEqual(t, a, b)
}

func TestWrapKeepsTheOwner(t *testing.T) { // R269, B209
	d, ctx := testdriver.Context(t, 0)
	s := said{0, uintptr(testdriver.Stream(t, d, ctx))}
	v, err := stream.Wrap(s, nil)
	require.NoError(t, err)
	require.Equal(t, s, v.Owner())
}

func TestDefaultStreamsNeedAContext(t *testing.T) { // R272 to R274
	d, ctx := testdriver.Context(t, 0)
	for _, h := range []uintptr{0, 1, 2} {
		_, err := stream.WrapHandle(h, nil)
		require.ErrorIs(t, err, stream.ErrNoContext)
	}
	null, err := stream.WrapHandle(0, &stream.Options{Context: ctx})
	require.NoError(t, err)
	legacy, err := stream.WrapHandle(1, &stream.Options{Context: ctx})
	require.NoError(t, err)
	require.True(t, null.Same(legacy))
	require.Equal(t, driver.LegacyStream, null.Handle()) // R274: never 0 outside
	require.Equal(t, driver.Device(0), legacy.Device())
	require.NoError(t, legacy.WaitFor(null)) // one stream: nothing to do
	require.NoError(t, legacy.Synchronize())
	_ = d
}

func TestUnknownHandle(t *testing.T) {
	if testdriver.Real() {
		t.Skip("needs the software device: CUDA's driver reads where an invented handle points")
	}
	testdriver.Context(t, 0)
	_, err := stream.WrapHandle(0x7fffdead0000, nil)
	require.ErrorIs(t, err, driver.ErrInvalidHandle)
}

func TestPerThreadStreamStaysOnItsThread(t *testing.T) { // R278, B201
	_, ctx := testdriver.Context(t, 0)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	v, err := stream.WrapHandle(2, &stream.Options{Context: ctx})
	require.NoError(t, err)
	require.NoError(t, v.Synchronize())
	_, other := wrap(t, 0)
	require.NoError(t, other.WaitFor(v))

	errs := make(chan error)
	go func() {
		runtime.LockOSThread() // certainly not the test's thread
		defer runtime.UnlockOSThread()
		errs <- other.WaitFor(v)
		errs <- v.WaitFor(other)
		errs <- v.Synchronize()
	}()
	for range 3 {
		require.ErrorIs(t, <-errs, stream.ErrThread)
	}
}

func TestWaitForOrders(t *testing.T) {
	for _, devices := range [][2]int{{0, 0}, {0, 1}, {1, 0}} {
		for _, c := range []struct {
			name string
			wait func(v, o stream.StreamView) error
			edge bool
		}{
			{"B225 WaitFor", stream.StreamView.WaitFor, true},
			{"WaitForPending", stream.StreamView.WaitForPending, true},
			{"without the edge", func(_, _ stream.StreamView) error { return nil }, false},
		} {
			t.Run(c.name, func(t *testing.T) {
				d, producer := wrap(t, devices[0])
				_, consumer := wrap(t, devices[1])
				release := testdriver.Block(t, d, producer.Context(), producer.Handle())
				require.NoError(t, c.wait(consumer, producer))
				require.Equal(t, !c.edge, ready(t, d, consumer), "consumer done while the producer is blocked")
				release()
				require.NoError(t, consumer.Synchronize())
				require.True(t, ready(t, d, consumer))
			})
		}
	}
}

func TestWaitForPendingSkipsAnIdleStream(t *testing.T) {
	d, producer := wrap(t, 0)
	_, consumer := wrap(t, 0)
	require.NoError(t, producer.Synchronize())
	require.NoError(t, consumer.WaitForPending(producer))
	require.True(t, ready(t, d, consumer))
}

func TestWaitForUnderCapture(t *testing.T) { // B231, B235
	d, a := wrap(t, 0)
	_, b := wrap(t, 0)
	require.NoError(t, d.StreamBeginCapture(a.Context(), a.Handle(), driver.StreamCaptureModeRelaxed).Err())
	require.NoError(t, b.WaitFor(a))
	capturing, err := b.Capturing()
	require.NoError(t, err)
	require.True(t, capturing, "the edge carries the capture over")
	require.NoError(t, a.WaitForPending(b)) // no query while capturing
	g, res := d.StreamEndCapture(a.Context(), a.Handle())
	require.NoError(t, res.Err())
	require.NoError(t, d.GraphDestroy(g).Err())
}

func TestContextIsRestored(t *testing.T) {
	d, a := wrap(t, 0)
	_, b := wrap(t, 1)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, res := d.CtxGetCurrent()
	require.NoError(t, res.Err())
	require.NoError(t, a.WaitFor(b))
	require.NoError(t, b.WaitForPending(a))
	require.NoError(t, a.Synchronize())
	after, res := d.CtxGetCurrent()
	require.NoError(t, res.Err())
	require.Equal(t, before, after)
}

func TestOrderAllocatesNothing(t *testing.T) {
	if !testdriver.Real() {
		t.Skip("needs a GPU: the software device allocates for the work it does")
	}
	leak.Pause(t)
	_, a := wrap(t, 0)
	_, b := wrap(t, 0)
	require.NoError(t, a.WaitFor(b))
	require.Zero(t, testdriver.AllocsPerRun(testdriver.Open(t), 100, func() {
		if err := a.WaitFor(b); err != nil {
			t.Error(err)
		}
	}))
}

func BenchmarkWaitFor(b *testing.B) {
	_, x := wrap(b, 0)
	_, y := wrap(b, 0)
	b.ReportAllocs()
	for b.Loop() {
		if err := y.WaitFor(x); err != nil {
			b.Fatal(err)
		}
	}
}
