package memview_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/memview"
	"github.com/go-handoff/handoff/stream"
)

// deviceView makes a view of device memory whose release is counted.
func deviceView(t testing.TB, b *device.Buffer, freed *atomic.Int64) memview.StridedMemoryView {
	t.Helper()
	d := dlpack.Desc{Data: uintptr(b.Ptr()), Device: b.DLDevice(), DType: dlpack.Int32, Shape: ints(b.Size() / 4)}
	return must(memview.FromDesc(&d, memview.OnRelease(nil, func() error { freed.Add(1); return nil })))
}

// exportedView is a view of a tensor with a deleter in C and Go.
func exportedView(t testing.TB, b *device.Buffer, freed *atomic.Int64) memview.StridedMemoryView {
	t.Helper()
	d := dlpack.Desc{Data: uintptr(b.Ptr()), Device: b.DLDevice(), DType: dlpack.Int32, Shape: ints(b.Size() / 4)}
	e := must(dlpack.ExportDesc(d, func() { freed.Add(1) }))
	addr := must(e.Export(true))
	require.NoError(t, e.Close())
	return must(memview.FromDLPack(must(dlpack.ImportVersioned(addr))))
}

func TestReleaseOn(t *testing.T) {
	d := openDevice(t, 0)
	owner := newStream(t, d)
	b := allocate(t, memoryOf(t, d), 64, owner)
	require.NoError(t, owner.Synchronize(background))
	sources := map[string]func(t testing.TB, b *device.Buffer, freed *atomic.Int64) memview.StridedMemoryView{
		"owner": deviceView, "tensor": exportedView,
	}
	for name, source := range sources {
		t.Run("R189 B143 known producer/"+name, func(t *testing.T) {
			theirs, mine := newStream(t, d), newStream(t, d)
			var freed atomic.Int64
			v := must(source(t, b, &freed).Ordered(theirs.View(), stream.On(mine.View())))
			open := block(t, mine)
			requireEdges(t, 1, func() { require.NoError(t, v.ReleaseOn(mine.View())) })
			require.EqualValues(t, 1, freed.Load(), "the memory is the producer's again, in its stream's order")
			require.False(t, must(theirs.Done()), "the producer's stream waits for ours")
			require.False(t, v.Live())
			open()
			require.NoError(t, theirs.Synchronize(background))
			require.NoError(t, v.Release())
			require.NoError(t, v.ReleaseOn(mine.View()))
			require.EqualValues(t, 1, freed.Load())
		})
		t.Run("same stream/"+name, func(t *testing.T) {
			s := newStream(t, d)
			var freed atomic.Int64
			v := must(source(t, b, &freed).Ordered(s.View(), stream.On(s.View())))
			open := block(t, s)
			requireEdges(t, 0, func() { require.NoError(t, v.ReleaseOn(s.View())) })
			require.EqualValues(t, 1, freed.Load())
			open()
		})
		t.Run("B159 unknown producer/"+name, func(t *testing.T) {
			mine := newStream(t, d)
			var freed atomic.Int64
			v := source(t, b, &freed)
			open := block(t, mine)
			require.NoError(t, v.ReleaseOn(mine.View()))
			require.False(t, v.Live(), "released for the caller")
			require.NoError(t, v.Release(), "does not give the memory away early")
			require.Equal(t, 1, memview.PendingReleases())
			ctx, cancel := context.WithCancel(background)
			cancel()
			require.ErrorIs(t, memview.Flush(ctx), context.Canceled)
			require.Zero(t, freed.Load(), "the work still uses the memory")
			open()
			require.NoError(t, memview.Flush(background))
			require.EqualValues(t, 1, freed.Load())
			require.Zero(t, memview.PendingReleases())
		})
		t.Run("control: Release does not wait/"+name, func(t *testing.T) {
			mine := newStream(t, d)
			var freed atomic.Int64
			v := source(t, b, &freed)
			open := block(t, mine)
			require.NoError(t, v.Release())
			require.EqualValues(t, 1, freed.Load())
			open()
		})
		t.Run("driver out of memory/"+name, func(t *testing.T) {
			mine := newStream(t, d)
			var freed atomic.Int64
			v := source(t, b, &freed)
			t.Cleanup(func() { require.NoError(t, v.Release()) }) // also when skipped
			calls.breaking(t, "cuEventRecord", func() {
				require.ErrorIs(t, v.ReleaseOn(mine.View()), driver.ErrOutOfMemory)
			})
			require.Zero(t, freed.Load())
			require.True(t, v.Live(), "the claim is still the caller's")
			require.Zero(t, memview.PendingReleases())
			require.NoError(t, v.Release())
			require.EqualValues(t, 1, freed.Load())
		})
		t.Run("once from many goroutines/"+name, func(t *testing.T) {
			mine := newStream(t, d)
			var freed atomic.Int64
			v := source(t, b, &freed)
			open := block(t, mine)
			var wg sync.WaitGroup
			for range 8 {
				wg.Add(1)
				go func() {
					defer wg.Done()
					err := v.ReleaseOn(mine.View())
					if err != nil && !errors.Is(err, dlpack.ErrClosed) {
						t.Error(err)
					}
				}()
			}
			wg.Wait()
			require.Zero(t, freed.Load())
			open()
			require.NoError(t, memview.Flush(background))
			require.EqualValues(t, 1, freed.Load())
		})
	}
	t.Run("B143 taken on to another stream", func(t *testing.T) {
		theirs, first, second := newStream(t, d), newStream(t, d), newStream(t, d)
		var freed atomic.Int64
		v := must(deviceView(t, b, &freed).Ordered(theirs.View(), stream.On(first.View())))
		open := block(t, first)
		var w memview.StridedMemoryView
		requireEdges(t, 1, func() { w = must(v.Ordered(stream.StreamView{}, stream.On(second.View()))) })
		require.False(t, must(second.Done()), "after the work on the first")
		require.True(t, w.Stream().Same(second.View()))
		require.True(t, w.ProducerStream().Same(theirs.View()), "the producer stays the producer")
		require.NoError(t, w.ReleaseOn(second.View()))
		require.False(t, must(theirs.Done()), "and waits for both")
		open()
		require.NoError(t, theirs.Synchronize(background))
		require.EqualValues(t, 1, freed.Load())
	})
	t.Run("no stream", func(t *testing.T) {
		var freed atomic.Int64
		v := deviceView(t, b, &freed)
		require.ErrorIs(t, v.ReleaseOn(stream.StreamView{}), stream.ErrInvalid)
		require.NoError(t, v.Release())
		require.EqualValues(t, 1, freed.Load())
	})
	t.Run("host memory is released at once", func(t *testing.T) {
		mine := newStream(t, d)
		open := block(t, mine)
		gone := 0
		v := must(memview.FromRaw(rawOf(foreign(t, seq[int32](4)), dlpack.Int32, ints(4), nil), memview.OnRelease(nil, func() error { gone++; return nil })))
		requireEdges(t, 0, func() { require.NoError(t, v.ReleaseOn(mine.View())) })
		require.Equal(t, 1, gone)
		require.NoError(t, must(memview.FromSlice(seq[int32](4))).ReleaseOn(mine.View()))
		open()
	})
	t.Run("lent memory", func(t *testing.T) {
		theirs, mine := newStream(t, d), newStream(t, d)
		l := &lender{}
		lent := func() memview.StridedMemoryView {
			r := rawOf(uintptr(b.Ptr()), dlpack.Int32, ints(16), nil)
			r.Device = b.DLDevice()
			return must(memview.FromLent(r, l, l.gen.Load(), 0))
		}
		v := must(lent().Ordered(theirs.View(), stream.On(mine.View())))
		requireEdges(t, 1, func() { require.NoError(t, v.ReleaseOn(mine.View())) })
		require.Zero(t, l.retained.Load(), "the stream order is enough")

		open := block(t, mine)
		require.NoError(t, lent().ReleaseOn(mine.View()))
		require.EqualValues(t, 1, l.retained.Load())
		l.gen.Add(1) // the call returns
		require.Zero(t, l.released.Load())
		open()
		require.NoError(t, memview.Flush(background))
		require.EqualValues(t, 1, l.released.Load())
	})
	t.Run("errors of release functions reach Flush", func(t *testing.T) {
		mine := newStream(t, d)
		broken := errors.New("broken")
		desc := dlpack.Desc{Data: uintptr(b.Ptr()), Device: b.DLDevice(), DType: dlpack.Int32, Shape: ints(4)}
		v := must(memview.FromDesc(&desc, memview.OnRelease(nil, func() error { return broken })))
		require.NoError(t, v.ReleaseOn(mine.View()))
		require.ErrorIs(t, memview.Flush(background), broken)
		require.NoError(t, memview.Flush(background))
	})
	t.Run("B157 device buffer", func(t *testing.T) {
		mine := newStream(t, d)
		buf := must(d.Allocate(64, owner))
		v := must(memview.FromDeviceBuffer(buf, dlpack.Int32, ints(16), stream.NoSync(), nil))
		open := block(t, mine)
		require.NoError(t, v.ReleaseOn(mine.View()))
		require.True(t, buf.Closed())
		require.False(t, must(owner.Done()), "the free waits for our work")
		open()
		require.NoError(t, owner.Synchronize(background))
	})
}

// TestReleaseOnHoldsNoThread keeps many views back: goroutines do not grow with
// them, and there is a most.
func TestReleaseOnHoldsNoThread(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	b := allocate(t, memoryOf(t, d), 64, s)
	var freed atomic.Int64
	open := block(t, s)
	before := runtime.NumGoroutine()
	for range memview.MaxPendingReleases {
		require.NoError(t, deviceView(t, b, &freed).ReleaseOn(s.View()))
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before+8)
	require.Equal(t, memview.MaxPendingReleases, memview.PendingReleases())
	require.Zero(t, freed.Load())
	slowed := make(chan error, 1)
	go func() {
		v := deviceView(t, b, &freed)
		slowed <- v.ReleaseOn(s.View())
	}()
	for !memview.ReleaseWaits() {
		runtime.Gosched()
	}
	select {
	case <-slowed:
		require.Fail(t, "no back-pressure")
	default:
	}
	open()
	require.NoError(t, <-slowed)
	require.NoError(t, memview.Flush(background))
	require.EqualValues(t, memview.MaxPendingReleases+1, freed.Load())
}

// TestReleaseModel runs random sequences of claims and releases, deferred and
// not, against a counter.
func TestReleaseModel(t *testing.T) {
	d := openDevice(t, 0)
	s := newStream(t, d)
	b := allocate(t, memoryOf(t, d), 64, s)
	rapid.Check(t, func(rt *rapid.T) {
		var freed atomic.Int64
		source := deviceView
		if rapid.Bool().Draw(rt, "tensor") {
			source = exportedView
		}
		claims := []memview.StridedMemoryView{source(t, b, &freed)}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			if len(claims) == 0 {
				break
			}
			i := rapid.IntRange(0, len(claims)-1).Draw(rt, "claim")
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0:
				claims = append(claims, must(claims[i].Retain()))
				continue
			case 1:
				require.NoError(rt, claims[i].Release())
			case 2:
				require.NoError(rt, claims[i].ReleaseOn(s.View()))
			case 3:
				e := must(claims[i].Export())
				require.NoError(rt, claims[i].ReleaseOn(s.View()))
				require.NoError(rt, e.Close())
			}
			require.False(rt, claims[i].Live())
			claims = append(claims[:i], claims[i+1:]...)
		}
		for _, v := range claims {
			require.Zero(rt, freed.Load())
			require.NoError(rt, v.ReleaseOn(s.View()))
		}
		require.NoError(rt, memview.Flush(background))
		require.EqualValues(rt, 1, freed.Load())
	})
}
