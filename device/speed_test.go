//go:build !race

package device_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/internal/cloop"
	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/internal/testdriver"
)

// TestSpeed compares calls from Go with the same driver calls in a loop in C,
// in turns and in one process, and prints lines "name ours peer ratio": medians
// in nanoseconds for one call. A floor is the driver's calls in one call into C
// and nothing else. The bounds are far above the goals, which the
// printed figures are for: other work on the machine must not fail a test.
func TestSpeed(t *testing.T) {
	if !testdriver.Real() {
		t.Skip("needs a GPU: the software device is another driver than the peer's")
	}
	leak.Pause(t)
	d := open(t, 0)
	if d.Driver().Checked() {
		t.Skip("the checking layer is in front of one side only, and would be what is measured")
	}
	a, b := newStream(t, d), newStream(t, d)
	buf := allocate(t, d, 64, a)
	require.NoError(t, a.Synchronize(background))
	drv, ctx := d.Driver(), a.Context().Handle()
	pool, err := d.Pool()
	require.NoError(t, err)

	order := func(n int) (time.Duration, bool) { return cloop.Order(a.Handle(), b.Handle(), n) }
	alloc := func(n int) (time.Duration, bool) { return cloop.AllocFree(a.Handle(), 1024, n) }
	attrs := func(n int) (time.Duration, bool) { return cloop.Attributes(buf.Ptr(), n) }
	all := func(n int) (time.Duration, bool) { return cloop.AllAttributes(buf.Ptr(), n) }
	for _, c := range []struct {
		name string
		goal float64
		ours func() bool
		peer func(n int) (time.Duration, bool)
	}{
		{"order two streams, floor", 0, func() bool { return cloop.OrderOnce(a.Handle(), b.Handle()) }, order},
		{"order two streams, driver call", 1.25, func() bool {
			return drv.OrderStreams(ctx, a.Handle(), ctx, b.Handle(), false) == driver.Success
		}, order},
		{"order two streams, stream.WaitFor", 1.25, func() bool { return b.View().WaitFor(a.View()) == nil }, order},
		{"order two streams, Stream.Wait", 1.25, func() bool { return b.Wait(a) == nil }, order},
		{"allocate and free 1 KiB, driver calls", 1.4, func() bool {
			p, res := drv.MemAllocAsync(ctx, 1024, a.Handle())
			return res == driver.Success && drv.MemFreeAsync(ctx, p, a.Handle()) == driver.Success
		}, alloc},
		{"allocate and free 1 KiB, pool", 1.4, func() bool {
			p, err := pool.Allocate(1024, a)
			return err == nil && pool.Deallocate(p, 1024, a) == nil
		}, alloc},
		{"pointer attributes, floor", 0, func() bool { return cloop.AttributesOnce(buf.Ptr()) }, attrs},
		{"pointer attributes, three", 1.8, func() bool {
			_, res := drv.PointerKind(buf.Ptr())
			return res == driver.Success
		}, attrs},
		{"pointer attributes, all ten", 1.8, func() bool {
			_, res := drv.PointerInfo(buf.Ptr())
			return res == driver.Success
		}, all},
	} {
		t.Run(c.name, func(t *testing.T) {
			restore, err := d.SetCurrent() // as it is for the loop in C, on the thread of this test
			require.NoError(t, err)
			defer func() { require.NoError(t, restore()) }()
			const batch, rounds = 500, 41
			var ours, peer []time.Duration
			for range rounds {
				n, ok := c.peer(batch)
				require.True(t, ok)
				peer = append(peer, n)
				begin := time.Now()
				for range batch {
					if !c.ours() {
						t.Fatal("a call failed")
					}
				}
				ours = append(ours, time.Since(begin))
				require.NoError(t, a.Synchronize(background))
				require.NoError(t, b.Synchronize(background))
			}
			slices.Sort(ours)
			slices.Sort(peer)
			mine, theirs := ours[rounds/2]/batch, peer[rounds/2]/batch
			ratio := float64(ours[rounds/2]) / float64(peer[rounds/2])
			goal := "floor"
			if c.goal > 0 {
				goal = fmt.Sprintf("goal %.2f", c.goal)
				require.Less(t, ratio, 3*c.goal)
			}
			fmt.Printf("%s: %d %d %.3f (%s)\n", c.name, mine, theirs, ratio, goal)
			require.Zero(t, testing.AllocsPerRun(200, func() { c.ours() }))
		})
	}
}
