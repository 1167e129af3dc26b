package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/launch/nvrtc"
	"github.com/go-handoff/handoff/pathfinder"
)

func TestRun(t *testing.T) {
	testdriver.Open(t)
	if _, err := nvrtc.Load(); errors.Is(err, pathfinder.ErrNotFound) {
		t.Skip("needs NVRTC, which is not here")
	}
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	require.Contains(t, out.String(), "apply<int, half>: 2 parameters, the last of 4 bytes\n")
	if testdriver.Real() {
		require.Contains(t, out.String(), "1.5 squared is 2.25\n")
	}
}
