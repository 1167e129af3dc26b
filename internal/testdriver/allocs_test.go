package testdriver_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/internal/testdriver"
)

var sink []byte

// Behind the checking layer its own allocations do not count, and all others do.
func TestAllocsBehindTheLayer(t *testing.T) {
	if os.Getenv("HANDOFF_CHECK") == "" {
		if testdriver.Real() {
			t.Skip("asks a device that does nothing of its own")
		}
		testdriver.Open(t) // skips where there is none
		cmd := exec.Command(os.Args[0], "-test.run=^TestAllocsBehindTheLayer$")
		cmd.Env = append(os.Environ(), "HANDOFF_CHECK=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	d, ctx := testdriver.Context(t, 0)
	require.True(t, d.Checked())
	s := testdriver.Stream(t, d, ctx)
	ask := func() { d.StreamQuery(ctx, s) }
	require.Positive(t, testing.AllocsPerRun(100, func() { d.HandOver(ctx, s, 0x10000, 64) }))
	require.Zero(t, testdriver.AllocsPerRun(d, 100, func() { d.HandOver(ctx, s, 0x10000, 64) }))
	none := testdriver.AllocsPerRun(d, 100, ask)
	require.Equal(t, none+2, testdriver.AllocsPerRun(d, 100, func() {
		ask()
		sink = make([]byte, 100)
		sink = make([]byte, 1000)
	}))
}
