package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/internal/testlib"
	"github.com/go-handoff/handoff/launch/nvjitlink"
	"github.com/go-handoff/handoff/launch/nvrtc"
)

func TestRun(t *testing.T) {
	testdriver.Open(t)
	testlib.Setup()
	_, err := nvrtc.Load()
	testlib.Need(t, "NVRTC", err)
	_, err = nvjitlink.Load()
	testlib.Need(t, "nvJitLink", err)
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	require.Contains(t, out.String(), "linked to a cubin with a kernel of 2 parameters\n")
	if testdriver.Real() {
		require.Contains(t, out.String(), "map of 13 is 40\n")
	}
}
