//go:build cgo && linux && (amd64 || arm64)

package dlpack_test

import (
	"testing"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/testenv/dlpacktest"
	"github.com/stretchr/testify/require"
)

func openTable(t *testing.T, k dlpacktest.TableKind) dlpack.Table {
	t.Helper()
	tab, err := dlpack.OpenTable(dlpacktest.Table(k))
	require.NoError(t, err)
	return tab
}

func TestOpenTable(t *testing.T) {
	t.Run("R090 same major", func(t *testing.T) {
		tab := openTable(t, dlpacktest.TableGood)
		require.Equal(t, dlpack.Version{Major: 1, Minor: 3}, tab.Version())
		require.Equal(t, dlpacktest.Table(dlpacktest.TableGood), tab.Addr())
		require.True(t, tab.CanBorrow())
	})
	t.Run("R091 older table behind newer ones", func(t *testing.T) {
		tab := openTable(t, dlpacktest.TableMajor2Chain)
		require.Equal(t, dlpacktest.Table(dlpacktest.TableGood), tab.Addr())
	})
	for name, k := range map[string]dlpacktest.TableKind{
		"R091 NULL ends the chain": dlpacktest.TableMajor2End,
		"R090 too old":             dlpacktest.TableMajor0,
		"R091 a cycle":             dlpacktest.TableCycle,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := dlpack.OpenTable(dlpacktest.Table(k))
			requireRule(t, err, dlpack.ErrVersion, "R091")
		})
	}
	t.Run("R093 no export", func(t *testing.T) {
		_, err := dlpack.OpenTable(dlpacktest.Table(dlpacktest.TableNoExport))
		requireRule(t, err, dlpack.ErrNull, "R093")
	})
	t.Run("R089 address", func(t *testing.T) {
		_, err := dlpack.OpenTable(0)
		require.ErrorIs(t, err, dlpack.ErrNull)
		_, err = dlpack.OpenTable(0x1001)
		requireRule(t, err, dlpack.ErrAlign, "R089")
	})
	t.Run("zero value", func(t *testing.T) {
		var tab dlpack.Table
		require.Zero(t, tab.Version())
		require.False(t, tab.CanBorrow())
		_, err := tab.FromPyObject(1)
		require.ErrorIs(t, err, dlpack.ErrNull)
	})
}

func TestTableFunctions(t *testing.T) {
	f := dlpacktest.Functions()
	own, err := dlpack.NewTable(dlpack.TableFuncs{FromPyObject: f[1], ToPyObject: f[2], Borrow: f[3], CurrentStream: f[4]})
	require.NoError(t, err)
	for name, tab := range map[string]dlpack.Table{"foreign": openTable(t, dlpacktest.TableGood), "R088 R089 R092 R111 own": own} {
		t.Run(name, func(t *testing.T) {
			balanced(t)
			deleted := counters(t)
			again, err := dlpack.OpenTable(tab.Addr())
			require.NoError(t, err)
			require.Equal(t, tab, again)

			m, err := tab.FromPyObject(dlpacktest.Object())
			require.NoError(t, err)
			require.Equal(t, []int64{2, 3}, m.Shape(nil))
			require.True(t, m.HasStrides()) // R111
			p, err := m.Export(true)
			require.NoError(t, err)
			m.Release()
			require.Zero(t, deleted())

			o, err := tab.ToPyObject(p) // R104: it is the library's now
			require.NoError(t, err)
			require.Equal(t, dlpacktest.Object(), o)
			require.EqualValues(t, 1, deleted())

			var d dlpack.Desc
			require.NoError(t, tab.Borrow(dlpacktest.Object(), &d)) // R106: nothing to give back
			require.Equal(t, []int64{2, 3}, d.Shape)
			require.Equal(t, []int64{3, 1}, d.Strides)
			require.NoError(t, d.Check())

			s, err := tab.CurrentStream(dlpack.CPU) // R109
			require.NoError(t, err)
			require.Zero(t, s)
			// R108 B344: raw handles 1 and 2 are numbers, not pointers.
			s, err = tab.CurrentStream(dlpack.Device{Type: dlpack.DeviceCUDA, ID: 1})
			require.NoError(t, err)
			require.EqualValues(t, 2, s)

			a, err := tab.Allocate(&dlpack.Desc{Device: dlpack.CPU, DType: dlpack.Float16, Shape: []int64{3, 5}})
			require.NoError(t, err) // R096 R098
			require.Equal(t, []int64{5, 1}, a.Strides(nil))
			require.Zero(t, a.Addr()%256)
			require.False(t, a.ReadOnly())
			a.Release()
			a, err = tab.Allocate(&dlpack.Desc{Device: dlpack.CPU, DType: dlpack.Float16})
			require.NoError(t, err)
			require.EqualValues(t, 1, a.Size())
			a.Release()
			a, err = tab.Allocate(&dlpack.Desc{Device: dlpack.CPU, DType: dlpack.Float16, Shape: []int64{1 << 40, 0}})
			require.NoError(t, err)
			require.Zero(t, a.Size())
			a.Release()

			// R097 R101: failures come as errors.
			_, err = tab.Allocate(&dlpack.Desc{Device: dlpack.Device{Type: dlpack.DeviceCUDA}, DType: dlpack.Float16, Shape: []int64{3}})
			var ae *dlpack.AllocError
			require.ErrorAs(t, err, &ae)
			require.Equal(t, "BufferError", ae.Kind)
			require.ErrorIs(t, err, dlpack.ErrExchange)
			if !asanEnabled { // its allocator ends the process
				_, err = tab.Allocate(&dlpack.Desc{Device: dlpack.CPU, DType: dlpack.Float64, Shape: []int64{1 << 58}})
				require.ErrorAs(t, err, &ae)
				require.Equal(t, "MemoryError", ae.Kind)
				require.ErrorIs(t, err, dlpack.ErrNoMemory)
			}
			_, err = tab.Allocate(&dlpack.Desc{Device: dlpack.CPU, DType: dlpack.Float64, Shape: []int64{-1}})
			requireRule(t, err, dlpack.ErrLayout, "R034")
			_, err = tab.FromPyObject(dlpacktest.Table(dlpacktest.TableGood))
			require.ErrorIs(t, err, dlpack.ErrExchange)
		})
	}
	t.Run("R094 no borrow", func(t *testing.T) {
		tab := openTable(t, dlpacktest.TableNoBorrow)
		require.False(t, tab.CanBorrow())
		requireRule(t, tab.Borrow(dlpacktest.Object(), &dlpack.Desc{}), dlpack.ErrNotSupported, "R093")
	})
	t.Run("R093 only the export", func(t *testing.T) {
		balanced(t)
		deleted := counters(t)
		tab := openTable(t, dlpacktest.TableOnlyExport)
		m, err := tab.FromPyObject(dlpacktest.Object())
		require.NoError(t, err)
		_, err = tab.Allocate(&dlpack.Desc{Device: dlpack.CPU, DType: dlpack.Int8})
		requireRule(t, err, dlpack.ErrNotSupported, "R093")
		_, err = tab.CurrentStream(dlpack.CPU)
		requireRule(t, err, dlpack.ErrNotSupported, "R093")
		p, err := m.Export(true)
		require.NoError(t, err)
		m.Release()
		_, err = tab.ToPyObject(p)
		requireRule(t, err, dlpack.ErrNotSupported, "R093")
		require.EqualValues(t, 1, deleted(), "a tensor that the library never saw is released")
	})
	t.Run("R095 R105 B119 every function fails", func(t *testing.T) {
		balanced(t)
		deleted := counters(t)
		tab := openTable(t, dlpacktest.TableFailing)
		_, err := tab.FromPyObject(dlpacktest.Object())
		require.ErrorIs(t, err, dlpack.ErrExchange)
		require.ErrorIs(t, tab.Borrow(dlpacktest.Object(), &dlpack.Desc{}), dlpack.ErrExchange)
		_, err = tab.CurrentStream(dlpack.CPU)
		require.ErrorIs(t, err, dlpack.ErrExchange)
		_, err = tab.Allocate(&dlpack.Desc{Device: dlpack.CPU, DType: dlpack.Int8})
		require.EqualError(t, err, "dlpack: exchange: allocate: MemoryError: no room for that")
		_, err = tab.ToPyObject(dlpacktest.New(foreign(nil)))
		require.ErrorIs(t, err, dlpack.ErrExchange)
		require.EqualValues(t, 1, deleted(), "this library frees on failure; nobody else may")
	})
	t.Run("success without a result", func(t *testing.T) {
		tab := openTable(t, dlpacktest.TableEmptySuccess)
		_, err := tab.FromPyObject(dlpacktest.Object())
		require.ErrorIs(t, err, dlpack.ErrNull)
		_, err = tab.Allocate(&dlpack.Desc{Device: dlpack.CPU, DType: dlpack.Int8})
		require.ErrorIs(t, err, dlpack.ErrExchange)
		_, err = tab.ToPyObject(0)
		require.ErrorIs(t, err, dlpack.ErrNull)
	})
	t.Run("bad tensors", func(t *testing.T) {
		deleted := counters(t)
		tab := openTable(t, dlpacktest.TableBadTensors)
		_, err := tab.FromPyObject(dlpacktest.Object())
		requireRule(t, err, dlpack.ErrLayout, "R047")
		require.EqualValues(t, 1, deleted())
		requireRule(t, tab.Borrow(dlpacktest.Object(), &dlpack.Desc{}), dlpack.ErrLayout, "R047")
	})
	t.Run("R093 own table with a function missing", func(t *testing.T) {
		_, err := dlpack.NewTable(dlpack.TableFuncs{FromPyObject: f[1], ToPyObject: f[2]})
		requireRule(t, err, dlpack.ErrNull, "R093")
	})
}
