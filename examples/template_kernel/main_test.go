package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/internal/testlib"
	"github.com/go-handoff/handoff/launch/nvrtc"
)

func TestRun(t *testing.T) {
	testdriver.Open(t)
	testlib.Setup()
	_, err := nvrtc.Load()
	testlib.Need(t, "NVRTC", err)
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	require.Contains(t, out.String(), "apply<int, half>: 2 parameters, the last of 4 bytes\n")
	if testdriver.Real() {
		require.Contains(t, out.String(), "1.5 squared is 2.25\n")
	}
}
