package cai_test

import (
	"testing"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/testdriver"
)

// Nothing panics that is called on, or with, what nobody made.
func TestZeroValues(t *testing.T) {
	(&testdriver.Zero{
		Types: []any{
			cai.Array{},
			cai.ArrayInterface{},
			cai.Buffer{},
			cai.Format{},
			cai.Interface{},
			cai.Ordering(0),
			cai.StreamArgument{},
			cai.TimeUnit{},
			cai.Typestr{},
		},
		Functions: map[string]any{
			"ArrayFromDesc": cai.ArrayFromDesc, "FormatDType": cai.FormatDType, "FormatOf": cai.FormatOf,
			"FormatTypestr": cai.FormatTypestr, "FromDesc": cai.FromDesc, "Parse": cai.Parse,
			"ParseArrayInterface": cai.ParseArrayInterface, "ParseCAIStream": cai.ParseCAIStream,
			"ParseDLPackStream": cai.ParseDLPackStream, "ParseFormat": cai.ParseFormat, "ParseTypestr": cai.ParseTypestr,
			"StreamOf": cai.StreamOf, "TypestrOf": cai.TypestrOf,
		},
		Live:   []any{dlpack.Float32, dlpack.CPU, map[string]any{"shape": []any{int64(2)}, "typestr": "<f4", "version": int64(3)}},
		Exempt: map[string]string{"promoted from a field, where the language panics": "Interface.Size ArrayInterface.Size"},
	}).Run(t)
}
