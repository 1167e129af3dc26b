//go:build cgo && linux

package conformance_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/conformance"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/memview"
)

func imported(c dlpack.Capsule) (io.Closer, error) {
	m, err := c.Import()
	if err != nil {
		return nil, err
	}
	return m, nil
}

// clean fails on any rule that is not kept, whatever its strength.
func clean(t *testing.T, target any) {
	t.Helper()
	results, err := conformance.CheckGo(target)
	require.NoError(t, err)
	require.NotEmpty(t, results)
	for _, r := range results {
		require.Falsef(t, r.Status.Bad(), "%s: %s", r.Rule, r.What)
	}
	conformance.Test(t, target)
}

func TestOurOwnGoTypes(t *testing.T) {
	slice, err := dlpack.ExportSlice([]float32{1, 2, 3, 4, 5, 6}, []int64{2, 3}, nil, nil)
	require.NoError(t, err)
	defer slice.Close()
	readonly, err := dlpack.ExportSlice([]int64{1, 2, 3}, nil, nil, &dlpack.ExportOptions{Flags: dlpack.FlagReadOnly})
	require.NoError(t, err)
	defer readonly.Close()
	empty, err := dlpack.Alloc(dlpack.BFloat16, []int64{0, 3}, nil)
	require.NoError(t, err)
	defer empty.Close()
	scalar, err := dlpack.Alloc(dlpack.Float8E4M3FN, nil, nil)
	require.NoError(t, err)
	defer scalar.Close()
	managed, err := dlpack.From(slice, nil)
	require.NoError(t, err)
	defer managed.Release()
	view, err := memview.FromSlice([]float64{1, 2, 3, 4}, 2, 2)
	require.NoError(t, err)
	for name, target := range map[string]any{
		"ExportSlice": slice, "read-only": readonly, "empty bfloat16": empty, "scalar float8": scalar,
		"Managed": managed, "memview": view, "import": conformance.Consumer(imported),
	} {
		t.Run(name, func(t *testing.T) { clean(t, target) })
	}
	p, err := slice.Export(true)
	require.NoError(t, err)
	clean1(t, conformance.Tensor{Addr: p, Versioned: true}) // consumed, so only once
}

func TestStreamsBetweenProtocols(t *testing.T) {
	clean(t, conformance.Translate(func(v any) (any, error) {
		s, err := cai.ParseCAIStream(v)
		if err != nil {
			return nil, err
		}
		return s.DLPack(dlpack.DeviceCUDA)
	}))
}

func TestNoTarget(t *testing.T) {
	_, err := conformance.CheckGo(5)
	require.ErrorIs(t, err, dlpack.ErrNotSupported)
}

type closer func() error

func (c closer) Close() error { return c() }
