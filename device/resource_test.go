package device_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
)

// TestCloseWaitsForNobody: the driver frees memory outside of pools when the device has done all its work, and
// Close does not wait for that.
func TestCloseWaitsForNobody(t *testing.T) {
	d := open(t, 0)
	s, q := newStream(t, d), newStream(t, d)
	managed, err := d.ManagedMemory()
	require.NoError(t, err)
	for _, r := range []device.MemoryResource{d.PlainMemory(), d.PinnedMemory(), managed} {
		b, err := device.Allocate(r, 64, s)
		require.NoError(t, err)
		release := block(t, q)
		done := make(chan error, 1)
		go func() { done <- b.Close() }()
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(10 * time.Second):
			t.Error("Close waits for the work of another stream")
			release()
			<-done
		}
		release()
		require.NoError(t, device.Flush(soon(t)))
	}
}
