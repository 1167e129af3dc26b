package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// rig is an engine with one calling thread and the primary context of device 0 current.
type rig struct {
	*Engine
	t     *Thread
	later func() // what a test leaves to do
	ctx   Handle
}

// newRig makes one; when the test is over nothing may be left.
func newRig(t testing.TB, o Options) *rig {
	t.Helper()
	if o.Memory == 0 {
		o.Memory = 64 << 20
	}
	e, err := New(o)
	require.NoError(t, err)
	require.Equal(t, Success, e.Init(0))
	r := &rig{Engine: e, t: e.NewThread()}
	var c Code
	r.ctx, c = e.PrimaryRetain(0)
	require.Equal(t, Success, c)
	require.Equal(t, Success, e.CtxSet(r.t, r.ctx))
	t.Cleanup(func() {
		require.Equal(t, Success, e.PrimaryRelease(0))
		r.t.Exit()
		if !t.Failed() {
			require.Equal(t, Live{}, e.Live())
		}
		e.Close()
	})
	return r
}

func (r *rig) stream(t testing.TB, flags uint32) Handle {
	t.Helper()
	h, c := r.StreamCreate(r.t, flags, 0)
	require.Equal(t, Success, c)
	return h
}

func (r *rig) event(t testing.TB, flags uint32) Handle {
	t.Helper()
	h, c := r.EventCreate(r.t, flags)
	require.Equal(t, Success, c)
	return h
}

func (r *rig) mem(t testing.TB, n uint64) uint64 {
	t.Helper()
	p, c := r.MemAlloc(r.t, n)
	require.Equal(t, Success, c)
	return p
}

// block stops a stream until the function that it returns is called.
func (r *rig) block(t testing.TB, s Handle) func() {
	t.Helper()
	gate := make(chan struct{})
	require.Equal(t, Success, r.LaunchHostFunc(r.t, s, func() { <-gate }, 1, 0, nil))
	return func() { close(gate) }
}

func good(t testing.TB, c Code) {
	t.Helper()
	require.Equal(t, Success, c)
}
