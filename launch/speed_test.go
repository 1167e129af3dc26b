package launch_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/internal/cloop"
	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/launch"
)

// TestLaunchSpeed compares launches from Go with cuLaunchKernel in a loop in C,
// in turns and in one process, and prints lines "name ours peer ratio": medians
// in nanoseconds for one launch. The driver call alone shows how much of a
// ratio is the way into C. The bound is far above the goal of 1.05, which the
// printed figures are for: other work on the machine must not fail a test.
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

	// More launches than the queue has room for would wait for the device.
	const batch, rounds = 400, 60
	loop := func(fn func() error) func() time.Duration {
		return func() time.Duration {
			begin := time.Now()
			for range batch {
				if err := fn(); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(begin)
		}
	}
	drv, ctx := s.Device().Driver(), s.Context().Handle()
	inC := func(k *launch.Kernel, args cloop.Args) func() time.Duration {
		return func() time.Duration {
			n, ok := cloop.Launch(k.LaunchHandle(), s.Handle(), args, batch)
			require.True(t, ok)
			return n
		}
	}
	call := func(k *launch.Kernel, args cloop.Args) func() time.Duration {
		one := [3]uint32{1, 1, 1}
		return loop(func() error {
			return drv.LaunchAt(ctx, k.LaunchHandle(), s.Handle(), one, one, 0, args.Addr(), true).Err()
		})
	}
	two, many := cloop.NewArgs(2), cloop.NewArgs(16)
	launchTwo := func() error { return launch.Launch(s, one, pair, null, i) }
	launchMany := func() error {
		return launch.Launch(s, one, sixteen, null, null, null, null, i, i, i, i, f, f, f, f, w, w, d, d)
	}
	cases := []struct {
		name string
		peer int  // which case it is compared with
		bare bool // no context is current
		run  func() time.Duration
	}{
		{"C, (pointer, int32)", 0, false, inC(pair, two)},
		{"C, 16 arguments", 1, false, inC(sixteen, many)},
		{"empty call into C", -1, false, loop(func() error { cloop.Nothing(); return nil })},
		{"driver call (pointer, int32)", 0, false, call(pair, two)},
		{"driver call (pointer, int32), no context current", 0, true, call(pair, two)},
		{"launch (pointer, int32)", 0, false, loop(launchTwo)},
		{"launch (pointer, int32), no context current", 0, true, loop(launchTwo)},
		{"prepared launch (pointer, int32)", 0, false, loop(func() error { return small.Launch(s, one) })},
		{"driver call, 16 arguments", 1, false, call(sixteen, many)},
		{"launch, 16 arguments", 1, false, loop(launchMany)},
		{"prepared launch, 16 arguments", 1, false, loop(func() error { return prepared.Launch(s, one) })},
		{"prepared launch, 16 arguments, no context current", 1, true, loop(func() error { return prepared.Launch(s, one) })},
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	took := make([][]time.Duration, len(cases))
	for r := range rounds {
		for j := range cases {
			j = (j + r) % len(cases) // nobody always comes after the same
			restore := func() error { return nil }
			if !cases[j].bare {
				restore, err = s.Device().SetCurrent()
				require.NoError(t, err)
			}
			took[j] = append(took[j], cases[j].run())
			require.NoError(t, restore())
			require.NoError(t, s.Synchronize(t.Context()))
		}
	}
	median := func(j int) float64 {
		slices.Sort(took[j])
		return float64(took[j][rounds/2]) / batch
	}
	for j, c := range cases {
		switch c.peer {
		case j:
		case -1:
			fmt.Printf("%s %.1f\n", c.name, median(j))
		default:
			ours, peer := median(j), median(c.peer)
			fmt.Printf("%s %.0f %.0f %.3f\n", c.name, ours, peer, ours/peer)
			require.Less(t, ours/peer, 1.5, c.name)
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
