package stream_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/stream"
)

// FuzzWrap gives pairs (version, handle) of any value: a view that names what
// it was given, or an error that can be told by its kind (R261 to R268), and
// never a panic. A GPU's driver reads where a handle points, so this is for
// the software device.
func FuzzWrap(f *testing.F) {
	for _, n := range []uint64{0, 1, 2, 3, 4095, 4096, 1 << 20, 1 << 47, 1<<63 - 1, 1 << 63, ^uint64(0)} {
		f.Add(0, n, false, false)
		f.Add(0, n, true, true)
		f.Add(1, n, true, false)
	}
	if testdriver.Real() {
		f.Skip("needs the software device")
	}
	d, known := wrap(f, 0)
	f.Add(0, uint64(known.Handle()), true, true)
	f.Fuzz(func(t *testing.T, version int, handle uint64, context, ours bool) {
		opts := &stream.Options{}
		if context {
			opts.Context = known.Context()
		}
		if ours {
			opts.Driver = d
		}
		v, err := stream.Wrap(said{version, uintptr(handle)}, opts)
		w, err2 := stream.WrapHandle(uintptr(handle), opts)
		if err2 != nil {
			var code driver.Result
			var rule *dlpack.RuleError
			require.True(t, errors.As(err2, &code) || errors.As(err2, &rule) || errors.Is(err2, stream.ErrNoContext), "%v", err2)
			require.Error(t, err, "a pair is no better than its handle")
		}
		if version != 0 {
			require.ErrorIs(t, err, stream.ErrProtocol)
		}
		for _, x := range []stream.StreamView{v, w} {
			if !x.Valid() {
				require.ErrorIs(t, x.WaitFor(known), stream.ErrInvalid)
				continue
			}
			k, err := stream.KindOf(uintptr(handle))
			require.NoError(t, err)
			require.Equal(t, k, x.Kind())
			if handle > 1 {
				require.Equal(t, driver.StreamHandle(handle), x.Handle())
			}
			require.NotEmpty(t, x.String())
			// Whether there is such a stream the software device knows.
			require.NoError(t, known.WaitFor(x))
		}
		_, err = stream.KindOf(uintptr(handle))
		require.Equal(t, err != nil, handle > 2 && handle < 4096)
	})
}
