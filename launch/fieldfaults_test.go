package launch_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/launch"
)

// TestArgumentsUnderTheCollector is B342 and B344: the array of addresses that a
// launch passes, and what it points to, hold nothing that the rules of cgo
// forbid, while the collector runs and stacks move.
func TestArgumentsUnderTheCollector(t *testing.T) {
	k, s := kernel(t, "saxpy"), newStream(t, 0)
	y, x := upload[float32](t, s, 0, 0, 0), upload[float32](t, s, 1, 2, 3)
	cfg := launch.Config{Grid: launch.Cover(3, 2), Block: launch.D1(2)}
	stop := make(chan struct{})
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	const rounds = 200
	for i := range rounds {
		deep(i%20, func() {
			require.NoError(t, launch.Launch(s, cfg, k, y, x, float32(1), int32(3)))
		})
	}
	close(stop)
	<-collected
	require.Equal(t, []float32{rounds, 2 * rounds, 3 * rounds}, download[float32](t, s, y))
}

// deep calls f far down a stack, which moves on the way.
func deep(n int, f func()) {
	if n == 0 {
		f()
		return
	}
	var room [512]byte
	deep(n-1, f)
	runtime.KeepAlive(&room)
}
