//go:build cgo && linux

package main

import (
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/dlpack"
)

func Example() {
	if err := run(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// made by C, first value set by Go: [-1 1.5 2 2.5 3]
	// made by Go, scaled by C: [10 20 30]
	// made by Go, reversed by C: strides [-1], and Go's slice after a write through it: [1 2 3 99]
	// tensors of the C library still alive: 0
}

// TestNothingStaysBehind runs the example many times and counts what is left.
func TestNothingStaysBehind(t *testing.T) {
	before := dlpack.ReadStats()
	for range 100 {
		require.NoError(t, run(io.Discard))
	}
	require.Equal(t, before, dlpack.ReadStats())
}
