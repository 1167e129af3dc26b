package launch_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/launch"
	"github.com/go-handoff/handoff/launch/internal/cloop"
)

// TestLaunchSpeed compares launches from Go with cuLaunchKernel in a loop in C,
// in turns and in one process, and prints lines of the form
// "name ours peer ratio", in nanoseconds for one launch.
func TestLaunchSpeed(t *testing.T) {
	if !testdriver.Real() {
		t.Skip("needs a GPU: the software device is another driver than the peer's")
	}
	if raceEnabled {
		t.Skip("the race detector slows only one side")
	}
	leak.Pause(t)
	s := newStream(t, 0)
	null := driver.DevicePtr(0)
	pair, sixteen := kernel(t, "two"), kernel(t, "sixteen")
	i, f, w, d := int32(1), float32(1), int64(1), 1.0
	prepared, err := launch.Prepare(sixteen, null, null, null, null, i, i, i, i, f, f, f, f, w, w, d, d)
	require.NoError(t, err)
	small, err := launch.Prepare(pair, null, i)
	require.NoError(t, err)

	current := func(t *testing.T) {
		restore, err := s.Device().SetCurrent()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, restore()) })
	}
	for _, c := range []struct {
		name string
		k    *launch.Kernel
		args int
		ours func() error
	}{
		{"launch (pointer, int32)", pair, 2, func() error { return launch.Launch(s, one, pair, null, i) }},
		{"prepared launch (pointer, int32)", pair, 2, func() error { return small.Launch(s, one) }},
		{"launch, 16 arguments", sixteen, 16, func() error {
			return launch.Launch(s, one, sixteen, null, null, null, null, i, i, i, i, f, f, f, f, w, w, d, d)
		}},
		{"prepared launch, 16 arguments", sixteen, 16, func() error { return prepared.Launch(s, one) }},
	} {
		for _, where := range []string{"", ", no context current"} {
			t.Run(c.name+where, func(t *testing.T) {
				args := cloop.NewArgs(c.args)
				const batch, rounds = 500, 40
				ours, peer := time.Duration(1<<62), time.Duration(1<<62)
				for range rounds {
					t.Run("C", func(t *testing.T) { // always with the context current
						current(t)
						n, ok := cloop.Run(c.k.LaunchHandle(), s.Handle(), args, batch)
						require.True(t, ok)
						peer = min(peer, n)
						require.NoError(t, s.Synchronize(t.Context()))
					})
					t.Run("Go", func(t *testing.T) {
						if where == "" {
							current(t)
						} else {
							runtime.LockOSThread()
							defer runtime.UnlockOSThread()
						}
						begin := time.Now()
						for range batch {
							if err := c.ours(); err != nil {
								t.Fatal(err)
							}
						}
						ours = min(ours, time.Since(begin))
						require.NoError(t, s.Synchronize(t.Context()))
					})
				}
				ratio := float64(ours) / float64(peer)
				fmt.Printf("%s%s %d %d %.3f\n", c.name, where, ours/batch, peer/batch, ratio)
				require.Less(t, ratio, 1.5, "far from the goal of 1.05, which the printed figures are for")
			})
		}
	}
}

// BenchmarkLaunch is one launch after another, with a pause for the device
// before its queue is full.
func BenchmarkLaunch(b *testing.B) {
	s, k := newStream(b, 0), kernel(b, "sixteen")
	null := driver.DevicePtr(0)
	i, f, w, d := int32(1), float32(1), int64(1), 1.0
	p, err := launch.Prepare(k, null, null, null, null, i, i, i, i, f, f, f, f, w, w, d, d)
	require.NoError(b, err)
	for _, c := range []struct {
		name string
		run  func() error
	}{
		{"arguments16", func() error {
			return launch.Launch(s, one, k, null, null, null, null, i, i, i, i, f, f, f, f, w, w, d, d)
		}},
		{"prepared16", func() error { return p.Launch(s, one) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				if err := c.run(); err != nil {
					b.Fatal(err)
				}
				if n++; n%500 == 0 {
					b.StopTimer()
					require.NoError(b, s.Synchronize(b.Context()))
					b.StartTimer()
				}
			}
			require.NoError(b, s.Synchronize(b.Context()))
		})
	}
}

// BenchmarkGraph launches a graph of ten kernels.
func BenchmarkGraph(b *testing.B) {
	s, k := newStream(b, 0), kernel(b, "nothing")
	g, err := launch.Record(s, func(*launch.Capture) error {
		for range 10 {
			if err := launch.Launch(s, one, k); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(b, err)
	closeLater(b, g)
	x, err := g.Instantiate(nil)
	require.NoError(b, err)
	closeLater(b, x)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if err := x.Launch(s); err != nil {
			b.Fatal(err)
		}
		if n++; n%100 == 0 {
			b.StopTimer()
			require.NoError(b, s.Synchronize(b.Context()))
			b.StartTimer()
		}
	}
	require.NoError(b, s.Synchronize(b.Context()))
}
