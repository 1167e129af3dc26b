package stream_test

import (
	"testing"

	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/stream"
)

// Nothing panics that is called on, or with, what nobody made.
func TestZeroValues(t *testing.T) {
	d, ctx := testdriver.Context(t, 0)
	v := stream.Known(d, ctx, 0, testdriver.Stream(t, d, ctx), nil)
	(&testdriver.Zero{
		Types: []any{stream.Kind(0), stream.Order{}, stream.StreamView{}},
		Functions: map[string]any{
			"KindOf": stream.KindOf, "Known": stream.Known, "NoSync": stream.NoSync, "On": stream.On,
			"Wrap": stream.Wrap, "WrapHandle": stream.WrapHandle,
		},
		Live:   []any{d, ctx, v, v.Handle()},
		Errors: []error{stream.ErrInvalid, stream.ErrNoOrder},
	}).Run(t)
}
