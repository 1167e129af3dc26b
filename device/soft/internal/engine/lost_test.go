package engine

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLostContextMovesNoBytes: who has been told that a context is lost may free the memory
// that its queued work used; nothing writes there any more, then or when it is healed.
func TestLostContextMovesNoBytes(t *testing.T) {
	const n = 1 << 20
	r := newRig(t, Options{})
	pinned, c := r.HostAlloc(r.t, n, 0)
	good(t, c)
	dst := hostBytes(pinned, n)
	marks := bytes.Repeat([]byte{0xee}, n)
	src, s := r.mem(t, n), r.stream(t, 1)
	copyOut := Copy{
		Src: CopySide{Type: TypeDevice, Addr: src}, Dst: CopySide{Type: TypeHost, Addr: pinned},
		Width: n, Height: 1, Depth: 1,
	}
	for range 30 {
		for range 4 {
			good(t, r.MemcpyAsync(r.t, copyOut, s))
		}
		r.SetInjector(&Injector{Call: func(string) Verdict { return Verdict{Code: IllegalAddress, Sticky: true} }})
		require.Equal(t, IllegalAddress, r.Call(r.t, "cuEventQuery", func() Code { return Success }))
		copy(dst, marks)
		r.SetInjector(nil)
		require.Equal(t, IllegalAddress, r.StreamSynchronize(r.t, s))
		r.Heal()
		good(t, r.StreamSynchronize(r.t, s))
		require.True(t, bytes.Equal(marks, dst), "a copy of the lost context wrote")
	}
	good(t, r.MemcpyAsync(r.t, copyOut, s))
	good(t, r.StreamSynchronize(r.t, s))
	require.Zero(t, dst[n-1], "healed, it copies")
	good(t, r.StreamDestroy(r.t, s))
	good(t, r.HostFree(r.t, pinned))
	good(t, r.MemFree(r.t, src))
}

// TestHealedContextStaysWell: a graph that a lost context cut short between two nodes ends after the
// context was healed, and takes nothing along.
func TestHealedContextStaysWell(t *testing.T) {
	r := newRig(t, Options{})
	s := r.stream(t, 1)
	began, on := make(chan struct{}), make(chan struct{})
	late := false
	good(t, r.BeginCapture(r.t, s, CaptureRelaxed, 0, nil))
	good(t, r.LaunchHostFunc(r.t, s, func() { close(began); <-on }, 1, 0, nil))
	good(t, r.LaunchHostFunc(r.t, s, func() { late = true }, 1, 0, nil))
	g, c := r.EndCapture(r.t, s)
	good(t, c)
	x, _, _, c := r.Instantiate(g, 0)
	good(t, c)
	good(t, r.GraphLaunch(r.t, x, s))
	<-began
	r.SetInjector(&Injector{Call: func(string) Verdict { return Verdict{Code: IllegalAddress, Sticky: true} }})
	require.Equal(t, IllegalAddress, r.Call(r.t, "cuEventQuery", func() Code { return Success }))
	r.SetInjector(nil)
	r.Heal()
	close(on)
	good(t, r.StreamSynchronize(r.t, s))
	good(t, r.StreamSynchronize(r.t, s))
	require.False(t, late, "the second node")
	good(t, r.ExecDestroy(x))
	good(t, r.GraphDestroy(g))
	good(t, r.StreamDestroy(r.t, s))
}
