package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/internal/testdriver"
)

func TestRun(t *testing.T) {
	testdriver.Open(t)
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	require.Equal(t, `before: heat 64.00, hottest cell 64.00
after 1000 steps: heat 64.00, hottest cell 1.02
after a step that is switched off: heat 64.00, hottest cell 1.02
`, out.String())
}
