package conformance_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/conformance"
)

func TestCoverage(t *testing.T) {
	python, err := filepath.Abs("../.venv/bin/python")
	require.NoError(t, err)
	if _, err := os.Stat(python); err != nil {
		t.Skip("no .venv: run make venv")
	}
	checks, err := conformance.Checks(t.Context(), python)
	require.NoError(t, err)
	c := conformance.CoverageOf(checks)
	require.Empty(t, c.Open)
	require.Len(t, c.Untestable, 13)
	require.Len(t, c.Checked, 292-13)
}
