//go:build cgo && linux && (amd64 || arm64)

package dlpack_test

import (
	"testing"
	"time"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/testenv/dlpacktest"
)

// BenchmarkImportRelease is a Go loop and a C loop over the same tensors: each
// is validated and released. The ratio is reported.
func BenchmarkImportRelease(b *testing.B) {
	const n = 512
	var batch [n]uintptr
	var inGo, inC time.Duration
	b.ReportAllocs()
	rounds := 0
	for b.Loop() {
		dlpacktest.Batch(batch[:])
		start := time.Now()
		for _, p := range batch {
			m, err := dlpack.ImportVersioned(p)
			if err != nil {
				b.Fatal(err)
			}
			m.Release()
		}
		inGo += time.Since(start)
		dlpacktest.Batch(batch[:])
		inC += dlpacktest.ConsumeBatch(batch[:])
		rounds++
	}
	tensors := float64(rounds * n)
	b.ReportMetric(float64(inGo)/tensors, "ns/tensor-go")
	b.ReportMetric(float64(inC)/tensors, "ns/tensor-c")
	b.ReportMetric(float64(inGo)/float64(inC), "ratio")
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
