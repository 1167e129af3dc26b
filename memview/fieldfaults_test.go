package memview_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/memview"
	"github.com/go-handoff/handoff/stream"
)

// TestExportWaitsOnTheOwningDevice is B213: a copy for the host waits for the
// work of the device that has the memory, and what is current on the thread is
// current afterwards.
func TestExportWaitsOnTheOwningDevice(t *testing.T) {
	if !driver.Available {
		t.Skip("exports need cgo")
	}
	here, there := openDevice(t, 0), openDevice(t, 1)
	restore := must(here.SetCurrent())
	defer func() { require.NoError(t, restore()) }()
	current := func() driver.ContextHandle {
		c, res := here.Driver().CtxGetCurrent()
		require.NoError(t, res.Err())
		return c
	}
	was := current()
	require.Equal(t, must(here.PrimaryContext()).Handle(), was)

	p := slowProducer(t, there)
	v := pendingView(t, p)
	time.AfterFunc(20*time.Millisecond, p.open)
	c := must(v.DLPack(dlpack.Request{Device: dlpack.CPU, Copy: dlpack.CopyAlways, MaxVersion: abi}))
	m := must(c.Import())
	defer m.Release()
	w := must(memview.FromDLPack(m))
	require.EqualValues(t, 2, must(memview.At[int32](w, 0)), "what the device wrote last")
	require.Equal(t, was, current())

	// The same for a wait of the view itself, and for an order across devices.
	q := slowProducer(t, there)
	u := pendingView(t, q)
	s := newStream(t, here)
	u = must(u.Ordered(stream.StreamView{}, stream.On(s.View())))
	require.Equal(t, was, current())
	time.AfterFunc(20*time.Millisecond, q.open)
	require.NoError(t, u.Wait(background))
	require.Equal(t, was, current())
	runtime.KeepAlive(u)
}
