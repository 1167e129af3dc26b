package launch_test

import (
	"context"
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
// in turns and in one process, and prints lines "name: ours peer ratio (goal)":
// medians in nanoseconds for one launch, and the median of the ratios of turns
// that follow each other, since what else the machine does changes from one
// moment to the next. Two kinds of turn:
//
//   - burst: fewer launches than the queue has room for, from an empty queue. It
//     is what a launch costs the caller, and nothing waits for the device;
//   - sustained: ten times what the queue has room for, and one wait in the end.
//
// C starts the kernel as a function of the stream's context, which is quicker
// than by the kernel's own handle; a line compares the two. The driver call
// alone, and an empty call into C, show how much of a ratio is the way into C.
// Both sides run on the locked thread of this test, and nothing is left for the
// collector. The bound is far above the goal of 1.05, which the printed figures
// are for: other work on the machine must not fail a test.
func TestLaunchSpeed(t *testing.T) {
	if !testdriver.Real() {
		t.Skip("needs a GPU: the software device is another driver than the peer's")
	}
	if raceEnabled {
		t.Skip("the race detector slows only one side")
	}
	leak.Pause(t)
	s := newStream(t, 0)
	if s.Device().Driver().Checked() {
		t.Skip("the checking layer is in front of one side only, and would be what is measured")
	}
	null := driver.DevicePtr(0)
	pair, sixteen := kernel(t, "two"), kernel(t, "sixteen")
	i, f, w, d := int32(1), float32(1), int64(1), 1.0
	prepared, err := launch.Prepare(sixteen, null, null, null, null, i, i, i, i, f, f, f, f, w, w, d, d)
	require.NoError(t, err)
	small, err := launch.Prepare(pair, null, i)
	require.NoError(t, err)
	two, many := cloop.NewArgs(2), cloop.NewArgs(16)

	function := func(k *launch.Kernel) driver.FunctionHandle {
		fn, err := k.Function(s.Context())
		require.NoError(t, err)
		return fn
	}
	inC := func(fn driver.FunctionHandle, args cloop.Args) func(int, bool) time.Duration {
		return func(n int, wait bool) time.Duration {
			took, ok := cloop.Launch(fn, s.Handle(), args, n, wait)
			require.True(t, ok)
			return took
		}
	}
	inGo := func(fn func() error) func(int, bool) time.Duration {
		return func(n int, wait bool) time.Duration {
			begin := time.Now()
			for range n {
				if err := fn(); err != nil {
					t.Fatal(err)
				}
			}
			if wait {
				require.NoError(t, s.Synchronize(context.Background()))
			}
			return time.Since(begin)
		}
	}
	call := func(k *launch.Kernel, args cloop.Args) func(int, bool) time.Duration {
		c := args.Call(function(k), s.Context().Handle(), s.Handle())
		s.Device().Driver().Aim(c, true)
		return inGo(func() error { return c.Launch().Err() })
	}
	launchTwo := inGo(func() error { return launch.Launch(s, one, pair, null, i) })
	preparedMany := inGo(func() error { return prepared.Launch(s, one) })

	type side struct {
		name string
		peer int    // which is compared with
		goal string // or what it is for
		bare bool   // no context is current
		run  func(n int, wait bool) time.Duration
	}
	const goal, floor, more = "goal 1.05", "floor", "for comparison"
	sides := []side{
		{"C, (pointer, int32)", 0, "", false, inC(function(pair), two)},
		{"C, 16 arguments", 1, "", false, inC(function(sixteen), many)},
		{"driver call (pointer, int32)", 0, floor, false, call(pair, two)},
		{"launch (pointer, int32)", 0, goal, false, launchTwo},
		{"driver call, 16 arguments", 1, floor, false, call(sixteen, many)},
		{"prepared launch, 16 arguments", 1, goal, false, preparedMany},
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	runtime.GC()
	compare := func(kind string, sides []side, launches, rounds int, wait bool) {
		took := make([][]time.Duration, len(sides))
		for r := range rounds {
			for j := range sides {
				j = (j + r) % len(sides) // nobody always comes after the same
				restore := func() error { return nil }
				if !sides[j].bare {
					restore, err = s.Device().SetCurrent()
					require.NoError(t, err)
				}
				took[j] = append(took[j], sides[j].run(launches, wait))
				require.NoError(t, restore())
				require.NoError(t, s.Synchronize(context.Background()))
			}
		}
		median := func(x []float64) float64 {
			slices.Sort(x)
			return x[len(x)/2]
		}
		each := func(of func(r int) float64) []float64 {
			x := make([]float64, rounds)
			for r := range x {
				x[r] = of(r)
			}
			return x
		}
		for j, c := range sides {
			time := func(j int) float64 {
				return median(each(func(r int) float64 { return float64(took[j][r]) / float64(launches) }))
			}
			switch c.peer {
			case j:
			case -1:
				fmt.Printf("%s, %s: %.1f ns\n", kind, c.name, time(j))
			default:
				ratio := median(each(func(r int) float64 { return float64(took[j][r]) / float64(took[c.peer][r]) }))
				fmt.Printf("%s, %s: %.0f %.0f %.3f (%s)\n", kind, c.name, time(j), time(c.peer), ratio, c.goal)
				require.Less(t, ratio, 1.5, c.name)
			}
		}
	}
	compare("burst", append(sides[:len(sides):len(sides)],
		side{"C, (pointer, int32), kernel handle", 0, more, false, inC(pair.LaunchHandle(), two)},
		side{"prepared launch (pointer, int32)", 0, more, false, inGo(func() error { return small.Launch(s, one) })},
		side{"launch, 16 arguments", 1, more, false, inGo(func() error {
			return launch.Launch(s, one, sixteen, null, null, null, null, i, i, i, i, f, f, f, f, w, w, d, d)
		})},
		side{"empty call into C", -1, floor, false, inGo(func() error { cloop.Nothing(); return nil })},
		side{"driver call (pointer, int32), no context current", 0, floor, true, call(pair, two)},
		side{"launch (pointer, int32), no context current", 0, goal, true, launchTwo},
		side{"prepared launch, 16 arguments, no context current", 1, goal, true, preparedMany},
	), 400, 100, false)
	compare("sustained", sides, 10_000, 25, true)
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
