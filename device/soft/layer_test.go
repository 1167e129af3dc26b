//go:build cgo && linux

package soft_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/driver"
)

// The checking layer of package driver, which is for GPUs, in front of the software device: it knows less than the
// device's own hunt, and finds what it can without inventing anything.
func TestCheckingLayer(t *testing.T) {
	for name, c := range huntCases {
		t.Run(name, func(t *testing.T) {
			h := newHunted(t)
			d, err := driver.Open(&driver.Options{Provider: driver.ProviderSoft, Check: true})
			require.NoError(t, err)
			require.True(t, d.Checked())
			require.False(t, h.Checked())
			// What the layer has to know was made before it came.
			h = &hunted{Driver: d, t: t, c: h.c, a: newStream(t, d, h.c, 1), b: newStream(t, d, h.c, 1), p: alloc(t, d, h.c, 4096), sum: h.sum, scale: h.scale}
			before := len(d.Races())
			c.run(h)
			require.Equal(t, c.layer, len(d.Races())-before, "%v", d.Races()[before:])
			h.ok(h.CtxSynchronize(h.c))
			h.races() // what the device's own hunt says
		})
	}
}

// HANDOFF_CHECK turns the layer on for any program.
func TestCheckingLayerByEnvironment(t *testing.T) {
	f := filepath.Join(t.TempDir(), "races.json")
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "HANDOFF_SOFT_TEST_CHILD=order", "HANDOFF_SOFT_SEED=1", "HANDOFF_CHECK="+f)
	require.NoError(t, cmd.Run())
	b, err := os.ReadFile(f)
	require.NoError(t, err)
	require.Contains(t, string(b), "missing synchronization")
	require.Empty(t, open(t).Races())
}
