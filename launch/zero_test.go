package launch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/launch"
	"github.com/go-handoff/handoff/memview"
)

// Nothing panics that is called on, or with, what nobody made.
func TestZeroValues(t *testing.T) {
	d := openDevice(t)
	ctx, err := d.PrimaryContext()
	require.NoError(t, err)
	s, err := d.NewStream(nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	e, err := s.Record(nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	b, err := d.Allocate(64, s)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	g, err := launch.NewGraph(ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close()) }()
	n, err := g.Empty()
	require.NoError(t, err)
	x, err := g.Instantiate(nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, x.Close()) }()
	k := kernel(t, "nothing")
	p, err := launch.Prepare(k)
	require.NoError(t, err)
	(&testdriver.Zero{
		Types: []any{
			launch.ArgError{},
			launch.CacheKey{},
			launch.Capture{},
			launch.CompileError{},
			launch.Condition{},
			launch.ConfigError{},
			launch.Dim3{},
			launch.DiskCache{},
			launch.Error{},
			launch.Format(0),
			launch.Graph{},
			launch.GraphExec{},
			launch.Kernel{},
			launch.Language(0),
			launch.Linker{},
			launch.LinkerBackend(0),
			launch.MemoryCache{},
			launch.Node{},
			launch.NodeKind(0),
			launch.ObjectCode{},
			launch.Occupancy{},
			launch.Prepared{},
			launch.Program{},
			launch.Span{},
			launch.TensorMap{},
		},
		Functions: map[string]any{
			"BFloat16": launch.BFloat16, "BeginCapture": launch.BeginCapture, "Cover": launch.Cover, "D1": launch.D1, "D2": launch.D2,
			"D3": launch.D3, "DetectFormat": launch.DetectFormat, "Float16": launch.Float16,
			"GraphMemoryOf": launch.GraphMemoryOf, "ImportGraph": launch.ImportGraph, "Int16": launch.Int16[int], "Int32": launch.Int32[int],
			"Int64": launch.Int64[int], "Int8": launch.Int8[int], "Launch": launch.Launch, "LayeredCache": launch.LayeredCache,
			"MDSpan": launch.MDSpan, "MDSpan32": launch.MDSpan32, "NewGraph": launch.NewGraph, "NewLinker": launch.NewLinker,
			"NewMemoryCache": launch.NewMemoryCache, "NewObjectCode": launch.NewObjectCode, "NewProgram": launch.NewProgram,
			"NewTensorMap": launch.NewTensorMap, "OpenDiskCache": launch.OpenDiskCache, "Prepare": launch.Prepare,
			"ReadObjectCode": launch.ReadObjectCode, "Record": launch.Record, "ResetGraphMemory": launch.ResetGraphMemory,
			"SetValue": launch.SetValue[int], "Stats": launch.Stats, "TrimGraphMemory": launch.TrimGraphMemory,
			"Uint16": launch.Uint16[int], "Uint32": launch.Uint32[int], "Uint64": launch.Uint64[int], "Uint8": launch.Uint8[int],
			"WrapFunction": launch.WrapFunction, "WrapKernel": launch.WrapKernel,
		},
		Live:   []any{d, ctx, s, s.View(), e, b, g, n, x, memview.StridedMemoryView{}, []int{1}, k, p},
		Errors: []error{launch.ErrClosed, launch.ErrInvalidValue},
		Exempt: map[string]string{"it takes nothing, and makes a folder of the user's": "DefaultCache"},
		Quiet: map[string]string{
			"there is nothing to close":           "Graph.Close GraphExec.Close Kernel.Close ObjectCode.Close",
			"the zero cache is of the usual size": "MemoryCache.Get MemoryCache.Put",
		},
	}).Run(t)
}

// An argument that nobody made is refused, also where the one before it was not.
func TestZeroArguments(t *testing.T) {
	s, k := newStream(t, 0), kernel(t, "two")
	cfg := launch.Config{Grid: launch.D1(1), Block: launch.D1(1)}
	good := upload(t, s, int64(1))
	for _, bad := range []any{
		nil, (*device.Buffer)(nil), new(device.Buffer),
		memview.StridedMemoryView{},
		(*memview.StridedMemoryView)(nil),
		new(memview.StridedMemoryView),
		launch.Span{},
		(*launch.TensorMap)(nil), new(launch.TensorMap),
		launch.Number{},
		launch.Condition{},
	} {
		p, err := launch.Prepare(k, good, int32(1))
		require.NoError(t, err)
		for range 3 {
			require.NoError(t, launch.Launch(s, cfg, k, good, int32(1)))
		}
		err = launch.Launch(s, cfg, k, bad, int32(1))
		require.Errorf(t, err, "%T", bad)
		argError(t, err, 0)
		argError(t, p.Set(0, bad), 0)
		_, err = launch.Prepare(k, bad, int32(1))
		argError(t, err, 0)
	}
	require.NoError(t, s.Synchronize(t.Context()))
}
