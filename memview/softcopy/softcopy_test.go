package softcopy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/memview/internal/kernels"
)

// TestImage checks that the software device is given every kernel that the GPU
// has. What they do is tested in package memview, by copies.
func TestImage(t *testing.T) {
	image := string(kernels.Soft())
	for _, n := range kernels.Names() {
		require.Contains(t, image, "kernel "+n+"\n")
	}
}
