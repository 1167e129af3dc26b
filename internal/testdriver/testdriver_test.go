package testdriver

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// skipper notes that a test would be skipped.
type skipper struct {
	testing.TB
	skipped bool
}

func (s *skipper) Skipf(string, ...any) { s.skipped = true }

// Tests that hold work up are skipped for a sanitizer, and only then.
func TestHoldUp(t *testing.T) {
	for value, skip := range map[string]bool{"1": true, "": false, "0": false} {
		t.Setenv(SanitizerEnv, value)
		s := &skipper{TB: t}
		HoldUp(s)
		require.Equal(t, skip, s.skipped, value)
	}
}
