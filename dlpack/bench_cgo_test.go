//go:build cgo && linux && (amd64 || arm64)

package dlpack_test

import (
	"slices"
	"testing"
	"time"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/testenv/dlpacktest"
)

// importAll is what a Go consumer does at the least.
func importAll(tb testing.TB) func([]uintptr) {
	return func(batch []uintptr) {
		for _, p := range batch {
			m, err := dlpack.ImportVersioned(p)
			if err != nil {
				tb.Fatal(err)
			}
			m.Release()
		}
	}
}

// importThenAll imports 32 tensors and releases them in one go.
func importThenAll(tb testing.TB) func([]uintptr) {
	ms := make([]dlpack.Managed, 0, 32)
	return func(batch []uintptr) {
		for part := range slices.Chunk(batch, 32) {
			ms = ms[:0]
			for _, p := range part {
				m, err := dlpack.ImportVersioned(p)
				if err != nil {
					tb.Fatal(err)
				}
				ms = append(ms, m)
			}
			dlpack.ReleaseAll(ms)
		}
	}
}

// BenchmarkReleaseAll is BenchmarkImportRelease with ReleaseAll, 32 at a time,
// for its allocations; the times are reported there.
func BenchmarkReleaseAll(b *testing.B) {
	b.ReportAllocs()
	batch := make([]uintptr, 512)
	all := importThenAll(b)
	for b.Loop() {
		dlpacktest.Batch(batch)
		all(batch)
	}
}

// BenchmarkImportRelease reports the times of Go loops and of C loops over the
// same tensors, taken in turns, and their ratios: one tensor after the other
// (go), 32 imports and one ReleaseAll (go-all), and a loop that only calls the
// deleters from Go (go-called), which is what the first cannot go below.
func BenchmarkImportRelease(b *testing.B) {
	one := importAll(b)
	f := dlpacktest.Measure(2000, one, importThenAll(b))
	b.ReportAllocs()
	batch := make([]uintptr, 512)
	for b.Loop() {
		dlpacktest.Batch(batch)
		one(batch)
	}
	b.ReportMetric(0, "ns/op") // of 512 tensors and their producer: misleading
	b.ReportMetric(f.Made, "ns/made")
	b.ReportMetric(f.Go[0], "ns/go")
	b.ReportMetric(f.Go[1], "ns/go-all")
	b.ReportMetric(f.Called, "ns/go-called")
	b.ReportMetric(f.Bare, "ns/c-bare")
	b.ReportMetric(f.Held, "ns/c-held")
	b.ReportMetric(f.Go[0]/f.Bare, "ratio-bare")
	b.ReportMetric(f.Go[0]/f.Held, "ratio-held")
	b.ReportMetric(f.Go[1]/f.Bare, "ratio-all-bare")
	b.ReportMetric(f.Called/f.Bare, "ratio-called-bare")
}

func BenchmarkExport(b *testing.B) {
	e, err := dlpack.Alloc(dlpack.Float32, []int64{2, 3}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	b.Run("from Go", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p, err := e.Export(true)
			if err != nil {
				b.Fatal(err)
			}
			dlpacktest.Release(p, true)
		}
	})
	b.Run("import(export)", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p, err := e.Export(true)
			if err != nil {
				b.Fatal(err)
			}
			m, err := dlpack.ImportVersioned(p)
			if err != nil {
				b.Fatal(err)
			}
			m.Release()
		}
	})
	b.Run("in C", func(b *testing.B) {
		o, err := e.Owner()
		if err != nil {
			b.Fatal(err)
		}
		defer dlpack.ReleaseOwner(o)
		var d time.Duration
		n := 0
		for b.Loop() {
			d += dlpacktest.ExportLoop(o, 1000, 2)
			n += 1000
		}
		b.ReportMetric(float64(d)/float64(n), "ns/export+release")
	})
	b.Run("slice", func(b *testing.B) {
		s := make([]float32, 6)
		b.ReportAllocs()
		for b.Loop() {
			e, err := dlpack.ExportSlice(s, nil, nil, nil)
			if err != nil {
				b.Fatal(err)
			}
			e.Close()
		}
	})
}

func BenchmarkReexport(b *testing.B) {
	e, err := dlpack.Alloc(dlpack.Float32, []int64{2, 3}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	m, err := dlpack.From(e, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer m.Release()
	b.ReportAllocs()
	for b.Loop() {
		p, err := m.Export(true)
		if err != nil {
			b.Fatal(err)
		}
		dlpacktest.Release(p, true)
	}
}
