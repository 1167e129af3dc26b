package minifloat_test

import (
	"testing"

	"github.com/go-handoff/handoff/dlpack/minifloat"
)

const benchLen = 4096

func benchTo[T minifloat.Float](b *testing.B) {
	src, dst := make([]T, benchLen), make([]float32, benchLen)
	for i := range src {
		src[i] = T(i)
	}
	b.ReportAllocs()
	b.SetBytes(benchLen * 4)
	for b.Loop() {
		minifloat.ToFloat32(dst, src)
	}
}

func benchFrom[T minifloat.Float](b *testing.B) {
	src, dst := make([]float32, benchLen), make([]T, benchLen)
	for i := range src {
		src[i] = float32(i-benchLen/2) / 64
	}
	b.ReportAllocs()
	b.SetBytes(benchLen * 4)
	for b.Loop() {
		minifloat.FromFloat32s(dst, src)
	}
}

// BenchmarkToFloat32 converts 4096 elements; the rate counts float32 bytes.
func BenchmarkToFloat32(b *testing.B) {
	b.Run("bfloat16", benchTo[minifloat.BFloat16])
	b.Run("float8_e4m3fn", benchTo[minifloat.Float8E4M3FN])
	b.Run("float8_e8m0fnu", benchTo[minifloat.Float8E8M0FNU])
}

// BenchmarkFromFloat32 converts 4096 elements; the rate counts float32 bytes.
func BenchmarkFromFloat32(b *testing.B) {
	b.Run("bfloat16", benchFrom[minifloat.BFloat16])
	b.Run("float8_e4m3fn", benchFrom[minifloat.Float8E4M3FN])
	b.Run("float8_e5m2", benchFrom[minifloat.Float8E5M2])
	b.Run("float8_e8m0fnu", benchFrom[minifloat.Float8E8M0FNU])
	b.Run("float4_e2m1fn", benchFrom[minifloat.Float4E2M1FN])
}

// BenchmarkScalar converts one value there and back.
func BenchmarkScalar(b *testing.B) {
	var sink float32 = 1
	b.Run("named", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sink = minifloat.ToFloat8E4M3FN(sink).Float32()
		}
	})
	b.Run("generic", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sink = minifloat.FromFloat32[minifloat.Float8E4M3FN](sink).Float32()
		}
	})
}

func BenchmarkPacked(b *testing.B) {
	dst4, s4 := make([]minifloat.Float4E2M1FN, benchLen), minifloat.MakePacked[minifloat.Float4E2M1FN](benchLen)
	dst6, s6 := make([]minifloat.Float6E2M3FN, benchLen), minifloat.MakePacked[minifloat.Float6E2M3FN](benchLen)
	run := func(name string, f func()) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(benchLen)
			for b.Loop() {
				f()
			}
		})
	}
	run("unpack4", func() { s4.Unpack(dst4) })
	run("unpack6", func() { s6.Unpack(dst6) })
	run("pack4", func() { s4.Pack(dst4) })
	run("pack6", func() { s6.Pack(dst6) })
	run("at6", func() {
		for i := range benchLen {
			dst6[i] = s6.At(i)
		}
	})
}
