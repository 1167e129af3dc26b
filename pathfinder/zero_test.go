package pathfinder_test

import (
	"testing"

	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/pathfinder"
)

// Nothing panics that is called on, or with, what nobody made.
func TestZeroValues(t *testing.T) {
	(&testdriver.Zero{
		Types: []any{
			pathfinder.Finder{},
			pathfinder.Library{},
			pathfinder.Location{},
			pathfinder.NotFoundError{},
			pathfinder.Place{},
			pathfinder.Via(0),
		},
		Functions: map[string]any{
			"BinaryNames": pathfinder.BinaryNames, "BitcodeNames": pathfinder.BitcodeNames, "Default": pathfinder.Default,
			"HeaderNames": pathfinder.HeaderNames, "Libraries": pathfinder.Libraries, "Load": pathfinder.Load,
			"New": pathfinder.New, "StaticNames": pathfinder.StaticNames,
		},
		Live: []any{"nvrtc"},
	}).Run(t)
}
