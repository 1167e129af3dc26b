package memview_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/memview"
)

// naiveCopy is the model: element by element through At and Set, src read
// whole first.
func naiveCopy(t testing.TB, dst, src memview.StridedMemoryView) {
	t.Helper()
	d, s := bytesOfItems(t, dst), bytesOfItems(t, src)
	var all [][]byte
	for off := range s.l.Offsets() {
		all = append(all, slices.Clone(s.item(off)))
	}
	i := 0
	for off := range d.l.Offsets() {
		copy(d.item(off), all[i])
		i++
	}
}

func byteView(t testing.TB, mem []byte, item int) memview.StridedMemoryView {
	t.Helper()
	dt := map[int]dlpack.DataType{
		1: dlpack.UInt8, 2: dlpack.UInt16, 3: {Code: dlpack.CodeUInt, Bits: 8, Lanes: 3}, 4: dlpack.UInt32,
		6: {Code: dlpack.CodeUInt, Bits: 16, Lanes: 3}, 8: dlpack.UInt64,
		12: {Code: dlpack.CodeUInt, Bits: 32, Lanes: 3}, 16: dlpack.Complex128,
	}[item]
	v, err := memview.FromDesc(&dlpack.Desc{
		Data: foreign(t, mem), Device: cpu, DType: dt, Shape: ints(int64(len(mem) / item)),
	}, memview.Unowned())
	require.NoError(t, err)
	return v
}

func TestCopy(t *testing.T) {
	for _, item := range []int{1, 2, 3, 4, 6, 8, 12, 16} {
		for _, shape := range [][]int64{{1}, {7}, {16, 16}, {33, 18}, {5, 200}, {3, 2500}, {150, 140}, {3, 17, 20}, {2, 3, 4, 5}, {4, 0, 3}, {20, 1, 20}, {2, 2, 2, 2, 2, 2, 2, 2, 2}} {
			n := int64(1)
			for _, e := range shape {
				n *= e
			}
			src := random(int(n)*item + 16)[:int(n)*item]
			orders := perms(min(len(shape), 3))
			for _, p := range orders {
				for len(p) < len(shape) {
					p = append(p, len(p))
				}
				for _, flip := range []uint{0, 1, 2, 5} {
					t.Run(fmt.Sprint(item, shape, p, flip), func(t *testing.T) {
						dst, want := aligned(len(src)), aligned(len(src))
						s := must(byteView(t, src, item).Reshape(shape...))
						turn := func(v memview.StridedMemoryView) memview.StridedMemoryView {
							q := make([]int64, len(p))
							for i, a := range p {
								q[a] = shape[i]
							}
							v = must(must(v.Reshape(q...)).Permute(p...))
							ix := make([]memview.Index, len(shape))
							for i := range ix {
								if flip>>i&1 != 0 {
									ix[i] = memview.All().By(-1)
								}
							}
							return must(v.Slice(ix...))
						}
						// Strided destination, then strided source.
						require.NoError(t, memview.Copy(turn(byteView(t, dst, item)), s))
						naiveCopy(t, turn(byteView(t, want, item)), s)
						require.Equal(t, want, dst)
						d := must(byteView(t, dst, item).Reshape(shape...))
						w := must(byteView(t, want, item).Reshape(shape...))
						require.NoError(t, memview.Copy(d, turn(byteView(t, src, item))))
						naiveCopy(t, w, turn(byteView(t, src, item)))
						require.Equal(t, want, dst)
					})
				}
			}
		}
	}
}

func TestCopyParts(t *testing.T) {
	t.Run("B022 (2,2)[:, :1] of float16: values are equal", func(t *testing.T) {
		src := must(must(memview.FromSlice([]uint16{1, 2, 3, 4}, 2, 2)).Slice(memview.All(), memview.Range(0, 1)))
		require.Equal(t, ints(2, 1), src.Strides())
		c := must(src.Clone(memview.OrderC))
		require.Equal(t, []uint16{1, 3}, must(memview.Slice[uint16](c)))
		require.Equal(t, ints(1, 1), c.Strides())
	})
	t.Run("gaps of dst stay untouched", func(t *testing.T) {
		dst := seq[int32](24)
		v := must(must(memview.FromSlice(dst, 4, 6)).Slice(memview.All().By(2), memview.Range(1, 5).By(3)))
		require.NoError(t, memview.CopyFromSlice(v, []int32{-1, -2, -3, -4}))
		want := seq[int32](24)
		want[1], want[4], want[13], want[16] = -1, -2, -3, -4
		require.Equal(t, want, dst)
		out := make([]int32, 4)
		require.NoError(t, memview.CopyToSlice(out, v))
		require.Equal(t, []int32{-1, -2, -3, -4}, out)
	})
	t.Run("a broadcast source", func(t *testing.T) {
		src := must(must(memview.FromSlice([]int32{1, 2, 3})).Broadcast(2, 3))
		dst := make([]int32, 6)
		require.NoError(t, memview.CopyToSlice(dst, src))
		require.Equal(t, []int32{1, 2, 3, 1, 2, 3}, dst)
		col := must(must(memview.FromSlice([]int32{1, 2}, 2, 1)).Broadcast(2, 3))
		require.NoError(t, memview.CopyToSlice(dst, col))
		require.Equal(t, []int32{1, 1, 1, 2, 2, 2}, dst)
	})
	t.Run("refused", func(t *testing.T) {
		a := must(memview.FromSlice(make([]float32, 6), 2, 3))
		require.ErrorIs(t, memview.Copy(a, must(memview.FromSlice(make([]float32, 6), 3, 2))), dlpack.ErrLayout)
		require.ErrorIs(t, memview.Copy(a, must(memview.FromSlice(make([]int32, 6), 2, 3))), dlpack.ErrDType)
		require.ErrorIs(t, memview.CopyToSlice(make([]float32, 5), a), dlpack.ErrLayout)
		require.ErrorIs(t, memview.CopyToSlice(make([]int32, 6), a), dlpack.ErrDType)
		l := must(memview.NewLayout(ints(2, 3), ints(1, 1), 4))
		twice := must(memview.FromRaw(rawOf(foreign(t, make([]float32, 6)), dlpack.Float32, l.Shape(), l.Strides()), memview.Unowned()))
		require.ErrorIs(t, memview.Copy(twice, a), dlpack.ErrLayout)
	})
	t.Run("B029 strides of empty arrays are not compared", func(t *testing.T) {
		a := must(memview.FromRaw(rawOf(0, dlpack.Float32, ints(0), ints(0)), memview.Unowned()))
		b := must(memview.FromRaw(rawOf(0, dlpack.Float32, ints(0), ints(4)), memview.Unowned()))
		require.NoError(t, memview.Copy(a, b))
	})
	t.Run("large copies, in parallel", func(t *testing.T) {
		const n = 1700
		src := seq[int32](n * n)
		v := must(memview.FromSlice(src, n, n))
		dst := make([]int32, n*n)
		require.NoError(t, memview.CopyToSlice(dst, v.Transpose()))
		for i := range n {
			for j := range n {
				if dst[j*n+i] != src[i*n+j] {
					t.Fatalf("element %d,%d", i, j)
				}
			}
		}
		clear(dst)
		require.NoError(t, memview.CopyToSlice(dst, v))
		require.True(t, slices.Equal(src, dst))
		clear(dst)
		flipped := must(v.Slice(memview.All().By(-1), memview.All().By(-1)))
		require.NoError(t, memview.CopyToSlice(dst, flipped.Transpose()))
		for i := range n {
			for j := range n {
				if dst[j*n+i] != src[(n-1-i)*n+n-1-j] {
					t.Fatalf("element %d,%d", i, j)
				}
			}
		}
		clear(dst)
		d := must(memview.FromSlice(dst, n, n))
		require.NoError(t, memview.Copy(must(d.Slice(memview.All(), memview.All().By(-1))), v))
		require.Equal(t, src[n-1], dst[0])
		require.Equal(t, src[n*n-n], dst[n*n-1])
	})
}

func TestCopyOverlap(t *testing.T) {
	// Every pair of windows of one array, against the model that reads first.
	const n = 24
	windows := func(v memview.StridedMemoryView) []memview.StridedMemoryView {
		var out []memview.StridedMemoryView
		for _, ix := range []memview.Index{
			memview.Range(0, 8), memview.Range(4, 12), memview.Range(0, 16).By(2), memview.Range(1, 17).By(2),
			memview.Range(11, 3).By(-1), memview.Range(15, -26).By(-2), memview.Range(16, 24),
		} {
			out = append(out, must(v.Slice(ix)))
		}
		m := must(v.Reshape(6, 4))
		for _, ix := range [][]memview.Index{
			{memview.Range(0, 2)}, {memview.Range(1, 3)}, {memview.Range(0, 4), memview.Range(0, 2)},
		} {
			w := must(m.Slice(ix...))
			if w.Dim(0) == 4 {
				w = w.Transpose()
			}
			out = append(out, w)
		}
		return out
	}
	a, b := seq[int32](n), seq[int32](n)
	for i := range windows(must(memview.FromSlice(a))) {
		for j := range windows(must(memview.FromSlice(a))) {
			t.Run(fmt.Sprint(i, j), func(t *testing.T) {
				copy(a, seq[int32](n))
				copy(b, seq[int32](n))
				wa, wb := windows(must(memview.FromSlice(a))), windows(must(memview.FromSlice(b)))
				if !wa[i].Layout().SameShape(wa[j].Layout()) {
					require.ErrorIs(t, memview.Copy(wa[i], wa[j]), dlpack.ErrLayout)
					return
				}
				require.NoError(t, memview.Copy(wa[i], wa[j]))
				naiveCopy(t, wb[i], wb[j])
				require.Equal(t, b, a)
			})
		}
	}
	v := must(memview.FromSlice(a))
	require.False(t, memview.MayOverlap(must(v.Slice(memview.To(8))), must(v.Slice(memview.From(8)))))
	require.True(t, memview.MayOverlap(must(v.Slice(memview.To(9))), must(v.Slice(memview.From(8)))))
	require.False(t, memview.MayOverlap(v, must(v.Slice(memview.To(0)))))
}

func TestCopyPacked(t *testing.T) {
	for _, dt := range []dlpack.DataType{dlpack.Float4E2M1FN, dlpack.Float6E2M3FN, dlpack.Int4, {Code: dlpack.CodeUInt, Bits: 4, Lanes: 3}} {
		for _, padded := range []bool{false, true} {
			t.Run(fmt.Sprint(dt, padded), func(t *testing.T) {
				const n = 15
				mem := random(64)
				src := must(memview.FromDesc(&dlpack.Desc{Data: foreign(t, mem), Device: cpu, DType: dt, Shape: ints(3, 5)}, memview.Unowned()))
				d := dlpack.Desc{Data: foreign(t, make([]byte, 64)), Device: cpu, DType: dt, Shape: ints(3, 5)}
				if padded {
					d.Flags = dlpack.FlagSubbyteTypePadded
				}
				dst := must(memview.FromDesc(&d, memview.Unowned()))
				bits := func(v memview.StridedMemoryView) (out []uint16) {
					b := bitsOfView(v)
					for off := range v.Layout().Offsets() {
						out = append(out, b(off))
					}
					return out
				}
				require.NoError(t, memview.Copy(dst, src))
				require.Equal(t, bits(src), bits(dst))
				turned := func(v memview.StridedMemoryView) memview.StridedMemoryView {
					return must(v.Slice(memview.All().By(-1), memview.From(1))).Transpose()
				}
				require.NoError(t, memview.Copy(turned(dst), turned(src)))
				require.Equal(t, bits(src), bits(dst))
				c := must(turned(dst).Clone(memview.OrderC))
				require.Equal(t, bits(turned(src)), bits(c))
				require.Equal(t, padded, c.Padded())
				_ = n
			})
		}
	}
}
