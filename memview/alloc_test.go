package memview_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/memview"
)

// sink keeps results from being optimized away.
var sink struct {
	f float64
	n int64
	v memview.StridedMemoryView
	l memview.Layout
	s []float32
}

// hot lists the operations that promise to allocate nothing.
func hot(t testing.TB) map[string]func() {
	data := seq[float32](24)
	shape, strides := ints(2, 3, 4), ints(12, 4, 1)
	r := rawOf(foreign(t, data), dlpack.Float32, shape, strides)
	r.Trusted = true
	untrusted := *r
	untrusted.Trusted = false
	noStrides := *r
	noStrides.Strides = nil
	l := &lender{}
	v := must(memview.FromLent(r, l, 0, 0))
	flat := must(v.Reshape(24))
	plane := must(v.Reshape(6, 4))
	turned := plane.Transpose()
	out := make([]float32, 24)
	dst := must(memview.FromSlice(out, 4, 6))
	vec := must(memview.VectorOf[float32](flat))
	mat := must(memview.MatrixOf[float32](turned))
	layout := v.Layout()
	d := must(v.Desc())
	desc := &d
	return map[string]func(){
		"FromLent":            func() { sink.v, _ = memview.FromLent(r, l, 0, 0) },
		"FromLent no strides": func() { sink.v, _ = memview.FromLent(&noStrides, l, 0, 0) },
		"SetLent":             func() { _ = sink.v.SetLent(r, l, 0, 0) },
		"FromLent checked":    func() { sink.v, _ = memview.FromLent(&untrusted, l, 0, 0) },
		"FromRaw":             func() { sink.v, _ = memview.FromRaw(r, memview.Unowned()) },
		"FromDesc":            func() { sink.v, _ = memview.FromDesc(desc, memview.Unowned()) },
		"FromSlice":           func() { sink.v, _ = memview.FromSlice(data, 2, 12) },
		"Slice":               func() { sink.s, _ = memview.Slice[float32](v) },
		"ReadSlice":           func() { sink.s, _ = memview.ReadSlice[float32](v) },
		"At":                  func() { x, _ := memview.At[float32](v, 1, 2, 3); sink.f += float64(x) },
		"Set":                 func() { _ = memview.Set(v, float32(1), 1, 2, 3) },
		"Float64At":           func() { x, _ := v.Float64At(1, 2, 3); sink.f += x },
		"SetFloat64":          func() { _ = v.SetFloat64(1, 1, 2, 3) },
		"Vector.At":           func() { sink.f += float64(vec.At(3)) },
		"Vector.Set":          func() { vec.Set(3, 4) },
		"Matrix.At":           func() { sink.f += float64(mat.At(3, 2)) },
		"MatrixOf":            func() { m, _ := memview.MatrixOf[float32](turned); sink.n += int64(m.Rows()) },
		"VectorOf":            func() { m, _ := memview.VectorOf[float32](flat); sink.n += int64(m.Len()) },
		"Slicing":             func() { sink.v, _ = v.Slice(memview.Pick(1), memview.All().By(-1), memview.Range(1, 3)) },
		"Permute":             func() { sink.v, _ = v.Permute(2, 0, 1) },
		"Transpose":           func() { sink.v = v.Transpose() },
		"Reshape":             func() { sink.v, _ = v.Reshape(4, -1) },
		"Squeeze":             func() { sink.v, _ = v.Squeeze() },
		"Unsqueeze":           func() { sink.v, _ = v.Unsqueeze(0, -1) },
		"Broadcast":           func() { sink.v, _ = v.Broadcast(5, 2, 3, 4) },
		"View":                func() { sink.v, _ = v.View(dlpack.Int32) },
		"View wider":          func() { sink.v, _ = v.View(dlpack.Complex64) },
		"Layout.Dense":        func() { sink.l, _ = layout.Dense(memview.OrderK) },
		"Layout.Flatten":      func() { sink.l, _ = layout.Flatten(0, 3, layout.FlattenMask()) },
		"Layout.Offsets": func() {
			for off := range layout.Offsets() {
				sink.n += off
			}
		},
		"Layout.Dims": func() {
			for n, s := range layout.Dims() {
				sink.n += n * s
			}
		},
		"Layout properties": func() {
			lo, hi := layout.OffsetBounds()
			sink.n += lo + hi + layout.ByteSpan() + layout.Size() + layout.NumBytes()
			if layout.ContiguousC() && layout.ContiguousF() && layout.ContiguousAny() && layout.IsUnique() {
				sink.n++
			}
		},
		"NewLayout":      func() { sink.l, _ = memview.NewLayout(shape, strides, 4) },
		"Copy":           func() { _ = memview.Copy(dst, turned) },
		"Copy dense":     func() { _ = memview.Copy(dst, must(v.Reshape(4, 6))) },
		"CopyToSlice":    func() { _ = memview.CopyToSlice(out, turned) },
		"Fill":           func() { _ = memview.Fill(turned, float32(3)) },
		"Release, Live":  func() { _ = v.Release(); sink.n += int64(v.NDim()); _ = v.Live() },
		"Alignment etc.": func() { sink.n += int64(v.Alignment()) + v.Dim(1) + v.Stride(1) + int64(v.Addr()&1) },
	}
}

func TestAllocations(t *testing.T) {
	for name, f := range hot(t) {
		t.Run(name, func(t *testing.T) {
			require.Zero(t, testing.AllocsPerRun(50, f))
		})
	}
	t.Run("Values allocates once, not per element", func(t *testing.T) {
		small, large := must(memview.FromSlice(make([]float32, 10))), must(memview.FromSlice(make([]float32, 1000)))
		count := func(v memview.StridedMemoryView) float64 {
			return testing.AllocsPerRun(20, func() {
				for x := range must(memview.Values[float32](v)) {
					sink.f += float64(x)
				}
				for ix, x := range must(memview.Items[float32](v)) {
					sink.f += float64(x) + float64(ix[0])
				}
			})
		}
		require.Equal(t, count(small), count(large))
	})
}

func BenchmarkHot(b *testing.B) {
	for name, f := range hot(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}
