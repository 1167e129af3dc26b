package stream_test

import (
	"errors"
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
