//go:build cgo && linux && (amd64 || arm64)

package dlpack

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/internal/testenv/dlpacktest"
	"github.com/stretchr/testify/require"
)

// importOne imports a tensor of the usual foreign producer.
func importOne(tb testing.TB) Managed {
	p := make([]uintptr, 1)
	dlpacktest.Batch(p)
	m, err := ImportVersioned(p[0])
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func TestShelf(t *testing.T) {
	t.Run("one tensor at a time has one handle", func(t *testing.T) {
		seen := map[*handle]bool{}
		var last Managed
		for range 100 {
			m := importOne(t)
			seen[m.h] = true
			require.False(t, last.IsLive(), "a copy from before is stale")
			last.Release()
			require.True(t, m.IsLive(), "and reaches nothing new")
			m.Release()
			require.False(t, m.IsLive())
			last = m
		}
		// A stack that moves, to grow or at a collection, has another shelf.
		require.LessOrEqual(t, len(seen), 20, "of 100 tensors")
	})

	t.Run("many at once have one each", func(t *testing.T) {
		for _, all := range []bool{false, true} {
			seen := map[*handle]bool{}
			var ms []Managed
			for range 5 * maxShelf {
				m := importOne(t)
				require.False(t, seen[m.h])
				seen[m.h] = true
				ms = append(ms, m)
			}
			if all {
				ReleaseAll(ms)
			} else {
				for _, m := range ms {
					m.Release()
				}
			}
			for _, m := range ms {
				require.False(t, m.IsLive())
			}
			for i := range shelves {
				require.LessOrEqual(t, shelves[i].n, int32(maxShelf))
			}
		}
	})

	t.Run("without a shelf", func(t *testing.T) {
		for i := range shelves {
			for !shelves[i].lock() { // something of an earlier test may be given back just now
				runtime.Gosched()
			}
		}
		var ms []Managed
		for range 3 {
			ms = append(ms, importOne(t))
		}
		ms[0].Release()
		ReleaseAll(ms)
		for i := range shelves {
			shelves[i].unlock()
		}
		for _, m := range ms {
			require.False(t, m.IsLive())
		}
	})
}

// The collector takes the handle of a shelf that was dropped; the shelf gets
// another.
func TestShelfAfterForgotten(t *testing.T) {
	leak.Pause(t) // dropped on purpose
	first := importOne(t)
	c := first.h.c
	require.True(t, c.resident)
	first.Release()
	require.Same(t, first.h, c.home)
	first = Managed{} // or it would keep the handle
	gone := func() uint64 {
		m := importOne(t)
		require.Same(t, c, m.h.c)
		require.Nil(t, c.home, "or the handle could not be collected")
		return m.gen
	}()
	deadline := time.Now().Add(20 * time.Second)
	for c.word.Load()&idleBit == 0 {
		require.True(t, time.Now().Before(deadline), "the tensor was not given back")
		runtime.GC()
	}
	require.Equal(t, gone+1, c.word.Load()>>genShift)
	require.NotNil(t, c.home)
	require.Zero(t, c.addr)
	m := Managed{c.home, gone}
	require.False(t, m.IsLive(), "a copy that had been kept would be stale")
}

// Handles that move between goroutines, which share shelves, belong to one
// tensor at a time.
func TestShelvesConcurrently(t *testing.T) {
	const workers, rounds = 4, 2000
	var live sync.Map // *core
	passed := make(chan Managed, 8)
	var wg sync.WaitGroup
	release := func(m Managed) {
		live.Delete(m.h.c)
		m.Release()
	}
	for range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range rounds {
				m := importOne(t)
				if _, twice := live.LoadOrStore(m.h.c, true); twice {
					t.Error("a handle was given out twice")
				}
				if i%3 != 0 {
					release(m)
					continue
				}
				select {
				case passed <- m:
				case other := <-passed:
					release(other)
					release(m)
				}
			}
		}()
	}
	wg.Wait()
	close(passed)
	for m := range passed {
		release(m)
	}
}
