package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/internal/testdriver"
)

func TestRun(t *testing.T) {
	testdriver.Open(t)
	n, err := device.Count()
	require.NoError(t, err)
	if n < 2 {
		t.Skipf("needs 2 devices, there are %d", n)
	}
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	require.Contains(t, out.String(), "8 chunks from device 0 to device 1: 1.747e+05\n")
	require.Contains(t, out.String(), "refused: launch: kernel square: argument 0: memory of device 0, and the launch is on device 1")
}
