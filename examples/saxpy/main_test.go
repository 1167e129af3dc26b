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
	require.NoError(t, run(&out))
	require.Contains(t, out.String(), "their sum is 1000000\n")
	require.Contains(t, out.String(), "refused: launch: kernel saxpy: argument 2: float64 has 8 bytes, the parameter has 4")
}
