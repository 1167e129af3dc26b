package dlpack_test

import (
	"testing"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/testdriver"
)

// Nothing panics that is called on, or with, what nobody made.
func TestZeroValues(t *testing.T) {
	shape := []int64{2}
	(&testdriver.Zero{
		Types: []any{
			dlpack.AllocError{},
			dlpack.Capsule{},
			dlpack.CopyMode(0),
			dlpack.DataType{},
			dlpack.Desc{},
			dlpack.Device{},
			dlpack.DeviceType(0),
			dlpack.Exported{},
			dlpack.Flags(0),
			dlpack.Managed{},
			dlpack.Request{},
			dlpack.RuleError{},
			dlpack.StreamArg{},
			dlpack.StreamKind(0),
			dlpack.Table{},
			dlpack.TypeCode(0),
			dlpack.Version{},
		},
		Functions: map[string]any{
			"Alloc": dlpack.Alloc, "DTypeOf": dlpack.DTypeOf[float32], "ExportDesc": dlpack.ExportDesc,
			"ExportSlice": dlpack.ExportSlice[float32], "From": dlpack.From, "ImportLegacy": dlpack.ImportLegacy,
			"ImportVersioned": dlpack.ImportVersioned, "NewTable": dlpack.NewTable, "OpenTable": dlpack.OpenTable,
			"ParseDataType": dlpack.ParseDataType, "ReadStats": dlpack.ReadStats, "ReleaseAll": dlpack.ReleaseAll,
			"RowMajor": dlpack.RowMajor, "StreamArgOf": dlpack.StreamArgOf, "StreamInt": dlpack.StreamInt,
			"StreamUint": dlpack.StreamUint, "ExportOwner": dlpack.ExportOwner, "ReleaseOwner": dlpack.ReleaseOwner,
			"RetainOwner": dlpack.RetainOwner,
		},
		Live: []any{dlpack.Float32, dlpack.CPU, shape, &dlpack.Request{}},
	}).Run(t)
}
