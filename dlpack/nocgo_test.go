//go:build !(cgo && linux && (amd64 || arm64))

package dlpack_test

import (
	"testing"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/stretchr/testify/require"
)

func TestWithoutC(t *testing.T) {
	d := tensor(func(*dlpack.Desc) {})
	var tab dlpack.Table
	for name, f := range map[string]func() error{
		"ImportVersioned": func() error { _, err := dlpack.ImportVersioned(0x1000); return err },
		"ImportLegacy":    func() error { _, err := dlpack.ImportLegacy(0x1000); return err },
		"ExportSlice":     func() error { _, err := dlpack.ExportSlice([]byte{1}, nil, nil, nil); return err },
		"ExportDesc":      func() error { _, err := dlpack.ExportDesc(d, nil); return err },
		"ExportOwner":     func() error { _, err := dlpack.ExportOwner(1, d); return err },
		"Alloc":           func() error { _, err := dlpack.Alloc(dlpack.Int8, nil, nil); return err },
		"OpenTable":       func() error { _, err := dlpack.OpenTable(0x1000); return err },
		"NewTable":        func() error { _, err := dlpack.NewTable(dlpack.TableFuncs{}); return err },
	} {
		t.Run(name, func(t *testing.T) { require.ErrorIs(t, f(), dlpack.ErrNotSupported) })
	}
	require.NoError(t, dlpack.Capsule{Addr: 0x1000}.Close())
	_, err := tab.FromPyObject(1)
	require.ErrorIs(t, err, dlpack.ErrNull)
	var m dlpack.Managed
	m.Release()
	require.Zero(t, dlpack.ReadStats())
	require.NoError(t, d.Check(), "validation works")
}
