//go:build cgo && linux && (amd64 || arm64)

package dlpack_test

import (
	"slices"
	"testing"
	"time"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/testenv/dlpacktest"
)

// BenchmarkImportRelease is a Go loop and two C loops over the same tensors.
// Each is validated and released; the first C loop does no more than that, the
// second puts the tensor in a handle with the promises of a Managed.
func BenchmarkImportRelease(b *testing.B) {
	const n = 512
	var batch [n]uintptr
	var made, inGo, inC, held []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		made = append(made, dlpacktest.Batch(batch[:]))
		start := time.Now()
		for _, p := range batch {
			m, err := dlpack.ImportVersioned(p)
			if err != nil {
				b.Fatal(err)
			}
			m.Release()
		}
		inGo = append(inGo, time.Since(start))
		dlpacktest.Batch(batch[:])
		inC = append(inC, dlpacktest.ConsumeBatch(batch[:]))
		dlpacktest.Batch(batch[:])
		held = append(held, dlpacktest.ConsumeBatchHeld(batch[:]))
	}
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2]) / n
	}
	m, g, c, h := median(made), median(inGo), median(inC), median(held)
	b.ReportMetric(m, "ns/made")
	b.ReportMetric(g, "ns/go")
	b.ReportMetric(c, "ns/c-bare")
	b.ReportMetric(h, "ns/c-held")
	b.ReportMetric(g/c, "ratio-bare")
	b.ReportMetric(g/h, "ratio-held")
	b.ReportMetric((m+g)/(m+c), "ratio-with-producer")
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
