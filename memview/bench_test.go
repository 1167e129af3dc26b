package memview_test

import (
	"fmt"
	"testing"

	"github.com/go-handoff/handoff/memview"
)

// benchCopy times the copy of src to dst.
func benchCopy(b *testing.B, dst, src memview.StridedMemoryView) {
	b.SetBytes(dst.NumBytes())
	for b.Loop() {
		if err := memview.Copy(dst, src); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCopyShapes(b *testing.B) {
	b.Run("u8 2048T", func(b *testing.B) {
		s := must(memview.FromSlice(seq[uint8](1<<22), 2048, 2048))
		d := must(memview.FromSlice(seq[uint8](1<<22), 2048, 2048))
		benchCopy(b, d, s.Transpose())
	})
	b.Run("u16 2048T", func(b *testing.B) {
		s := must(memview.FromSlice(seq[uint16](1<<22), 2048, 2048))
		d := must(memview.FromSlice(seq[uint16](1<<22), 2048, 2048))
		benchCopy(b, d, s.Transpose())
	})
	b.Run("f64 2048T", func(b *testing.B) {
		s := must(memview.FromSlice(seq[float64](1<<22), 2048, 2048))
		d := must(memview.FromSlice(seq[float64](1<<22), 2048, 2048))
		benchCopy(b, d, s.Transpose())
	})
	b.Run("HWC-CHW", func(b *testing.B) {
		s := must(memview.FromSlice(seq[uint8](1080*1920*3), 1080, 1920, 3))
		d := must(memview.FromSlice(seq[uint8](1080*1920*3), 3, 1080, 1920))
		benchCopy(b, d, must(s.Permute(2, 0, 1)))
	})
	b.Run("CHW-HWC", func(b *testing.B) {
		s := must(memview.FromSlice(seq[uint8](1080*1920*3), 3, 1080, 1920))
		d := must(memview.FromSlice(seq[uint8](1080*1920*3), 1080, 1920, 3))
		benchCopy(b, d, must(s.Permute(1, 2, 0)))
	})
	b.Run("NCHW-NHWC f32", func(b *testing.B) {
		s := must(memview.FromSlice(seq[float32](8*64*56*56), 8, 64, 56, 56))
		d := must(memview.FromSlice(seq[float32](8*64*56*56), 8, 56, 56, 64))
		benchCopy(b, d, must(s.Permute(0, 2, 3, 1)))
	})
	b.Run("step2 f32", func(b *testing.B) {
		s := must(must(memview.FromSlice(seq[float32](1<<22), 2048, 2048)).Slice(memview.All().By(2), memview.All().By(2)))
		d := must(memview.FromSlice(seq[float32](1<<20), 1024, 1024))
		benchCopy(b, d, s)
	})
	b.Run("crop f32", func(b *testing.B) {
		s := must(must(memview.FromSlice(seq[float32](1<<22), 2048, 2048)).Slice(memview.Range(8, 2040), memview.Range(8, 2040)))
		d := must(memview.FromSlice(seq[float32](2032*2032), 2032, 2032))
		benchCopy(b, d, s)
	})
	b.Run("reverse axes 3d f32", func(b *testing.B) {
		s := must(memview.FromSlice(seq[float32](1<<21), 128, 128, 128))
		d := must(memview.FromSlice(seq[float32](1<<21), 128, 128, 128))
		benchCopy(b, d, s.Transpose())
	})
}

func BenchmarkCopy(b *testing.B) {
	for _, n := range []int64{256, 4096} {
		src := must(memview.FromSlice(seq[float32](int(n*n)), n, n))
		dst := must(memview.FromSlice(seq[float32](int(n*n)), n, n))
		for name, s := range map[string]memview.StridedMemoryView{"contiguous": src, "transpose": src.Transpose(), "reverse": must(src.Slice(memview.All(), memview.All().By(-1)))} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.SetBytes(n * n * 4)
				b.ReportAllocs()
				for b.Loop() {
					if err := memview.Copy(dst, s); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
