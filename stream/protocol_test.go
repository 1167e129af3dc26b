package stream_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/stream"
)

// said is a StreamLike that answers what a test wants.
type said struct {
	version int
	handle  uintptr
}

func (s said) CUDAStream() (int, uintptr) { return s.version, s.handle }

func TestWrapRefusesWhatIsNoStream(t *testing.T) {
	for _, c := range []struct {
		name string
		s    stream.StreamLike
		rule string
	}{
		{"R264 nil", nil, "R264"},
		{"R266 B207 version 1", said{1, 0x10000}, "R266"},
		{"R266 version -1", said{-1, 0}, "R266"},
		{"R266 zero StreamView", stream.StreamView{}, "R266"},
		{"R263 handle 3", said{0, 3}, "R263"},
		{"R263 handle 4095", said{0, 4095}, "R263"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := stream.Wrap(c.s, nil)
			require.ErrorIs(t, err, stream.ErrProtocol)
			var re *dlpack.RuleError
			require.ErrorAs(t, err, &re)
			require.Equal(t, c.rule, re.Rule)
			require.False(t, v.Valid())
		})
	}
}

func TestKindOf(t *testing.T) {
	for handle, want := range map[uintptr]stream.Kind{
		0: stream.KindLegacyDefault, 1: stream.KindLegacyDefault, // R272, R273
		2: stream.KindPerThreadDefault, 4096: stream.KindCreated, ^uintptr(0): stream.KindCreated,
	} {
		k, err := stream.KindOf(handle)
		require.NoError(t, err)
		require.Equal(t, want, k, "handle %#x", handle)
	}
	require.Equal(t, "kind 9", stream.Kind(9).String())
}

func TestZeroStreamView(t *testing.T) {
	var v stream.StreamView
	require.ErrorIs(t, v.WaitFor(v), stream.ErrInvalid)
	require.ErrorIs(t, v.Synchronize(), stream.ErrInvalid)
	_, err := v.Done()
	require.ErrorIs(t, err, stream.ErrInvalid)
	_, err = v.Priority()
	require.ErrorIs(t, err, stream.ErrInvalid)
	require.Equal(t, driver.DeviceInvalid, v.Device())
	require.True(t, v.Argument().IsNone())
	require.Equal(t, "no stream", v.String())
}

// TestKnownIsWhatWasSaid: views share what is known of a stream, and never that
// of another one, however many there are and whoever asks.
func TestKnownIsWhatWasSaid(t *testing.T) {
	d := new(driver.Driver) // never called
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 2000 {
				h, ctx, dev := driver.StreamHandle(0x10000+16*(i%300)), driver.ContextHandle(0x5000+64*(i%3)), driver.Device(i%3)
				v := stream.Known(d, ctx, dev, h, g)
				if v.Handle() != h || v.Context() != ctx || v.Device() != dev || v.Driver() != d || v.Owner() != g ||
					v.Kind() != stream.KindCreated {
					t.Errorf("%v of context %#x, want handle %#x of %#x on device %d", v, v.Context(), h, ctx, dev)
					return
				}
			}
		}()
	}
	wg.Wait()
	v, w := stream.Known(d, 1, 0, 0x10000, nil), stream.Known(d, 2, 1, 0x10000, t)
	require.True(t, v.Same(w), "a created stream is its handle")
	require.False(t, stream.Known(d, 1, 0, 1, nil).Same(stream.Known(d, 2, 0, 1, nil)), "a default stream is its context's")
	require.True(t, stream.Known(d, 1, 0, 0, nil).Same(stream.Known(d, 1, 0, 1, nil))) // R274
	require.Zero(t, testing.AllocsPerRun(100, func() { v = stream.Known(d, 1, 0, 0x10000, nil) }), "a stream that is seen again")
}

func TestOrderMustBeSaid(t *testing.T) {
	require.ErrorIs(t, stream.Order{}.Check(), stream.ErrNoOrder)
	require.NoError(t, stream.NoSync().Check())
	require.ErrorIs(t, stream.On(stream.StreamView{}).Check(), stream.ErrInvalid)
	_, ok := stream.NoSync().Stream()
	require.False(t, ok)
	require.Equal(t, "no order", stream.Order{}.String())
	require.Equal(t, "no sync", stream.NoSync().String())
	require.Equal(t, "on no stream", stream.On(stream.StreamView{}).String())
}

func TestWrapWithoutADriver(t *testing.T) {
	_, err := driver.Open(&driver.Options{Provider: driver.ProviderNone})
	require.True(t, errors.Is(err, driver.ErrNoDriver))
}
