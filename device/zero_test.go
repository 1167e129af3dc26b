package device_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/stream"
)

// Nothing panics that is called on, or with, what nobody made.
func TestZeroValues(t *testing.T) {
	d := open(t, 0)
	ctx, err := d.PrimaryContext()
	require.NoError(t, err)
	pool, err := d.Pool()
	require.NoError(t, err)
	s := newStream(t, d)
	e, err := s.Record(nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	b := allocate(t, d, 8, s)
	var none *device.Device
	(&testdriver.Zero{
		Types: []any{
			device.Buffer{},
			device.Context{},
			device.Device{},
			device.DevicePool{},
			device.Error{},
			device.Event{},
			device.MemoryInfo{},
			device.Pass{},
			device.Properties{},
			device.Stream{},
			device.UUID{},
		},
		Functions: map[string]any{
			"Allocate": device.Allocate, "ByPCIBusID": device.ByPCIBusID, "ByUUID": device.ByUUID, "Copy": device.Copy,
			"CopyRange": device.CopyRange, "Count": device.Count, "CurrentContext": device.CurrentContext, "Defer": device.Defer,
			"Devices": device.Devices, "Elapsed": device.Elapsed, "EventOf": device.EventOf, "Flush": device.Flush,
			"ImportBuffer": device.ImportBuffer, "InfoOf": device.InfoOf, "Open": device.Open, "OpenMemory": device.OpenMemory,
			"Stats": device.Stats, "Wrap": device.Wrap, "WrapBuffer": device.WrapBuffer, "WrapContext": device.WrapContext,
			"WrapStream": device.WrapStream,
		},
		Live:   []any{none.PlainMemory(), none.PinnedMemory(), d, ctx, pool, s, s.View(), e, b},
		Errors: []error{device.ErrClosed, device.ErrInvalidDevice, device.ErrInvalidValue, stream.ErrProtocol},
		Quiet: map[string]string{
			"the error of the zero Error is the zero code": "Error.Unwrap",
			"there is nothing to close":                    "Buffer.Close Context.Close DevicePool.Close Event.Close Stream.Close",
		},
		Exempt: map[string]string{
			"a pass is the caller's own variable, as a mutex is": "Pass.* Stream.Admit Stream.Admits",
		},
	}).Run(t)
	var pass device.Pass
	var nothing device.Stream
	require.False(t, nothing.Admits(&pass), "neither belongs to a stream")
	require.False(t, nothing.Admit(&pass))
	require.False(t, s.Admits(&pass))
	require.True(t, s.Admit(&pass))
	require.False(t, nothing.Admits(&pass))
	pass.Drop()
	require.False(t, nothing.Admits(&pass))
	require.False(t, s.Admits(&pass))
}
