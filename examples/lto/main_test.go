package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/launch/nvjitlink"
	"github.com/go-handoff/handoff/launch/nvrtc"
	"github.com/go-handoff/handoff/pathfinder"
)

func TestRun(t *testing.T) {
	testdriver.Open(t)
	for _, load := range []func() error{
		func() error { _, err := nvrtc.Load(); return err },
		func() error { _, err := nvjitlink.Load(); return err },
	} {
		if err := load(); errors.Is(err, pathfinder.ErrNotFound) {
			t.Skip("needs NVRTC and nvJitLink, which are not here")
		}
	}
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	require.Contains(t, out.String(), "linked to a cubin with a kernel of 2 parameters\n")
	if testdriver.Real() {
		require.Contains(t, out.String(), "map of 13 is 40\n")
	}
}
