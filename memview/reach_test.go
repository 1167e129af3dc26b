package memview_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/memview"
)

// TestReach compares the three answers with those of Addr, Device and Live.
func TestReach(t *testing.T) {
	var released bool
	owner := memview.OnRelease(nil, func() error { released = true; return nil })
	foreign, err := memview.FromDesc(&dlpack.Desc{
		Data: 0x1000, Device: dlpack.Device{Type: dlpack.DeviceCUDA, ID: 3}, DType: dlpack.Float32, Shape: []int64{2, 3}, Version: dlpack.ABIVersion,
	}, owner)
	require.NoError(t, err)
	host := must(memview.FromSlice([]int16{1, 2, 3}))
	for name, v := range map[string]memview.StridedMemoryView{"Go memory": host, "foreign memory": foreign} {
		t.Run(name, func(t *testing.T) {
			addr, dev, live := v.Reach()
			require.Equal(t, v.Addr(), addr)
			require.Equal(t, v.Device(), dev)
			require.True(t, live)
		})
	}
	empty := must(host.Slice(memview.Range(1, 1)))
	_, dev, live := empty.Reach()
	require.Zero(t, dev, "B044")
	require.True(t, live)
	require.NoError(t, foreign.Release())
	require.True(t, released)
	_, dev, live = foreign.Reach()
	require.Equal(t, foreign.Device(), dev)
	require.False(t, live)
}

func BenchmarkReach(b *testing.B) {
	v := must(memview.FromSlice([]int16{1, 2, 3}))
	n := 0
	for b.Loop() {
		if addr, _, live := v.Reach(); live && addr != 0 {
			n++
		}
	}
	require.NotZero(b, n)
}
