package memview_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/dlpack/minifloat"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/memview"
	"github.com/go-handoff/handoff/stream"
)

// Nothing panics that is called on, or with, what nobody made. The zero layout is that of a scalar, and what asks
// for no memory works with the zero view.
func TestZeroValues(t *testing.T) {
	testdriver.Open(t)
	d, err := device.Open(0)
	require.NoError(t, err)
	s, err := d.NewStream(nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	buf, err := d.Allocate(16, s)
	require.NoError(t, err)
	defer func() { require.NoError(t, buf.Close()) }()
	v, err := memview.FromSlice([]float32{1, 2, 3, 4}, 2, 2)
	require.NoError(t, err)
	defer func() { require.NoError(t, v.Release()) }()
	l, err := memview.Dense([]int64{2}, 4, memview.OrderC)
	require.NoError(t, err)
	(&testdriver.Zero{
		Types: []any{
			memview.Index{},
			memview.Layout{},
			memview.Matrix[float32]{},
			memview.MemoryKind(0), memview.Order(0),
			memview.ReadMatrix[float32]{},
			memview.ReadVector[float32]{},
			memview.StridedMemoryView{},
			memview.Vector[float32]{},
		},
		Functions: map[string]any{
			"All": memview.All, "At": memview.At[float32], "Bytes": memview.Bytes, "Convert": memview.Convert, "Copy": memview.Copy,
			"CopyFromSlice": memview.CopyFromSlice[float32], "CopyOn": memview.CopyOn, "CopyToSlice": memview.CopyToSlice[float32],
			"DTypeOf": memview.DTypeOf[float32], "Dense": memview.Dense, "Ellipsis": memview.Ellipsis, "Fill": memview.Fill[float32],
			"Flush": memview.Flush, "From": memview.From, "FromArray": memview.FromArray[[2]float32],
			"FromArrayInterface": memview.FromArrayInterface, "FromArrays": memview.FromArrays[[2]float32],
			"FromBuffer": memview.FromBuffer, "FromCAI": memview.FromCAI, "FromDLPack": memview.FromDLPack, "FromDesc": memview.FromDesc,
			"FromDeviceBuffer": memview.FromDeviceBuffer, "FromExported": memview.FromExported, "FromLent": memview.FromLent,
			"FromRaw": memview.FromRaw, "FromRows": memview.FromRows[float32], "FromSlice": memview.FromSlice[float32],
			"FromSliceLayout": memview.FromSliceLayout[float32], "Import": memview.Import, "ImportCAI": memview.ImportCAI,
			"Items": memview.Items[float32], "Lent": memview.Lent, "Make": memview.Make, "Managed": memview.Managed,
			"MatrixOf": memview.MatrixOf[float32], "MayOverlap": memview.MayOverlap, "NewAxis": memview.NewAxis,
			"NewLayout": memview.NewLayout, "NewLayoutOf": memview.NewLayoutOf, "OnRelease": memview.OnRelease,
			"PackedOf": memview.PackedOf[minifloat.Float4E2M1FN], "PendingReleases": memview.PendingReleases, "Pick": memview.Pick,
			"Pointers": memview.Pointers[float32], "PrepareCopies": memview.PrepareCopies, "ProducerStreamOf": memview.ProducerStreamOf,
			"Range": memview.Range, "ReadBytes": memview.ReadBytes, "ReadMatrixOf": memview.ReadMatrixOf[float32],
			"ReadSlice": memview.ReadSlice[float32], "ReadVectorOf": memview.ReadVectorOf[float32], "Set": memview.Set[float32],
			"Slice": memview.Slice[float32], "To": memview.To, "Unowned": memview.Unowned, "Values": memview.Values[float32],
			"VectorOf": memview.VectorOf[float32],
		},
		Live: []any{v, l, buf, s, s.View(), stream.On(s.View()), memview.Unowned(), dlpack.Float32, []int64{1}},
		Exempt: map[string]string{
			"fmt calls it": "StridedMemoryView.Format",
			"C code fills in both, and every call pays": "StridedMemoryView.SetLentArray",
			"package dlpack makes them":                 "FromExported",
			"an index that is out of range, as of a slice": `Layout.Dim Layout.Stride StridedMemoryView.Dim StridedMemoryView.Stride
				Matrix.At Matrix.Ref Matrix.Row Matrix.Set ReadMatrix.At ReadMatrix.Row ReadVector.At Vector.At Vector.Ref Vector.Set`,
		},
	}).Run(t)
	_, err = memview.FromExported(nil)
	require.ErrorIs(t, err, dlpack.ErrNull)
	lent, err := memview.FromRaw(&memview.Raw{Addr: v.Addr(), DType: dlpack.Float32, Device: dlpack.CPU}, memview.Lent(nil, 1, 0))
	require.NoError(t, err)
	require.False(t, lent.Live(), "nobody lends it")
	_, err = lent.Retain()
	require.ErrorIs(t, err, dlpack.ErrClosed)
}
