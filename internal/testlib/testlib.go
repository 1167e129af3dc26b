// Package testlib lets tests find the toolkit's libraries in the virtual
// environment of the repository, which make puts them into.
package testlib

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/pathfinder"
)

// Setup makes .venv in the root of the repository the environment that
// pathfinder looks into, unless the caller's VIRTUAL_ENV says otherwise. A
// TestMain calls it before anything is loaded.
func Setup() {
	if os.Getenv("VIRTUAL_ENV") != "" {
		return
	}
	dir, err := os.Getwd()
	for err == nil {
		if _, e := os.Stat(filepath.Join(dir, "go.mod")); e == nil {
			_ = os.Setenv("VIRTUAL_ENV", filepath.Join(dir, ".venv"))
			return
		}
		up := filepath.Dir(dir)
		if up == dir {
			return
		}
		dir = up
	}
}

// Need skips a test whose library is not on this machine, or cannot be opened
// by this build, and fails it for any other error.
func Need(t testing.TB, name string, err error) {
	t.Helper()
	if errors.Is(err, pathfinder.ErrNotFound) || errors.Is(err, pathfinder.ErrNotSupported) {
		t.Skipf("needs %s, which is not here", name)
	}
	require.NoError(t, err)
}
