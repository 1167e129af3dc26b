package minifloat_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-handoff/handoff/dlpack/minifloat"
)

// TestR031 takes the formula of the rule literally: D is the little-endian
// integer of all bytes, element i is (D >> i·bits) & mask.
func TestR031(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "bytes")
		bits := rapid.IntRange(1, 8).Draw(t, "bits")
		n := len(p) * 8 / bits
		i := rapid.IntRange(0, n-1).Draw(t, "i")
		v := rapid.Byte().Draw(t, "v")
		whole := func() *big.Int {
			d := new(big.Int)
			for k := len(p) - 1; k >= 0; k-- {
				d.Lsh(d, 8).Or(d, big.NewInt(int64(p[k])))
			}
			return d
		}
		mask := big.NewInt(1<<bits - 1)
		element := func(d *big.Int, i int) int64 {
			return new(big.Int).And(new(big.Int).Rsh(d, uint(i*bits)), mask).Int64()
		}
		d := whole()
		got, err := minifloat.GetBits(p, bits, i)
		require.NoError(t, err)
		require.Equal(t, element(d, i), int64(got))

		require.NoError(t, minifloat.SetBits(p, bits, i, v))
		after := whole()
		for k := range n {
			want := element(d, k)
			if k == i {
				want = int64(v) & mask.Int64()
			}
			require.Equal(t, want, element(after, k), "element %d", k)
		}
		require.Zero(t, new(big.Int).Rsh(new(big.Int).Xor(d, after), uint(n*bits)).Sign(), "bits behind the last element")
	})
}

func TestPackedBounds(t *testing.T) {
	p := make([]byte, 3)
	for _, c := range []struct {
		bits, i int
		ok      bool
	}{
		{4, 0, true},
		{4, 5, true},
		{4, 6, false},
		{4, -1, false},
		{6, 3, true},
		{6, 4, false},
		{1, 23, true},
		{1, 24, false},
		{8, 2, true},
		{8, 3, false},
		{0, 0, false},
		{9, 0, false},
		{7, 2, true},
		{7, 3, false},
		{4, math.MaxInt, false},
		{4, math.MinInt, false},
	} {
		_, err := minifloat.GetBits(p, c.bits, c.i)
		set := minifloat.SetBits(p, c.bits, c.i, 0xff)
		if c.ok {
			require.NoError(t, err, "%+v", c)
			require.NoError(t, set, "%+v", c)
		} else {
			require.ErrorIs(t, err, minifloat.ErrSize, "%+v", c)
			require.ErrorIs(t, set, minifloat.ErrSize, "%+v", c)
		}
	}

	_, err := minifloat.NewPacked[minifloat.Float6E2M3FN](p, 5)
	require.ErrorIs(t, err, minifloat.ErrSize)
	_, err = minifloat.NewPacked[minifloat.Float6E2M3FN](p, -1)
	require.ErrorIs(t, err, minifloat.ErrSize)
	_, err = minifloat.NewPacked[minifloat.Float4E2M1FN](p, math.MaxInt)
	require.ErrorIs(t, err, minifloat.ErrSize)
	s, err := minifloat.NewPacked[minifloat.Float4E2M1FN](p, 3)
	require.NoError(t, err)
	require.Len(t, s.Bytes(), 2)
	require.Panics(t, func() { s.At(3) })
	require.Panics(t, func() { s.Set(-1, 0) })
	require.Panics(t, func() { minifloat.MakePacked[minifloat.Float4E2M1FN](-1) })
}

// B088: bytes of packed elements are ceil(n·bits/8), never n/2 rounded down.
func TestB088PackedSize(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 2: 1, 3: 2, 7: 4} {
		got, err := minifloat.PackedSize(n, 4)
		require.NoError(t, err)
		require.Equal(t, want, got, "%d fp4", n)
	}
	for n, want := range map[int]int{0: 0, 1: 1, 2: 2, 3: 3, 4: 3, 5: 4} {
		got, err := minifloat.PackedSize(n, 6)
		require.NoError(t, err)
		require.Equal(t, want, got, "%d fp6", n)
	}
	for _, n := range []int{-1, math.MaxInt, math.MaxInt/6 + 1} {
		_, err := minifloat.PackedSize(n, 6)
		require.ErrorIs(t, err, minifloat.ErrSize, "%d", n)
	}
	_, err := minifloat.PackedSize(1, 0)
	require.ErrorIs(t, err, minifloat.ErrSize)
}

func testPacked[T minifloat.SubByte](t *testing.T, mask uint8) {
	rapid.Check(t, func(t *rapid.T) {
		src := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) T { return T(rapid.Byte().Draw(t, "code")) }), 0, 33).Draw(t, "src")
		s := minifloat.MakePacked[T](len(src))
		require.Equal(t, len(src), s.Pack(src))
		one := minifloat.MakePacked[T](len(src))
		for i, v := range src {
			one.Set(i, v)
			require.Equal(t, v&T(mask), s.At(i))
		}
		require.Equal(t, s.Bytes(), one.Bytes())
		dst := make([]T, s.Len()+3)
		require.Equal(t, s.Len(), s.Unpack(dst))
		for i, v := range src {
			require.Equal(t, v&T(mask), dst[i])
		}
		require.Equal(t, min(1, s.Len()), s.Unpack(dst[:1]))
	})
}

func TestPacked(t *testing.T) {
	t.Run("float4_e2m1fn", func(t *testing.T) { testPacked[minifloat.Float4E2M1FN](t, 15) })
	t.Run("float6_e2m3fn", func(t *testing.T) { testPacked[minifloat.Float6E2M3FN](t, 63) })
	t.Run("float6_e3m2fn", func(t *testing.T) { testPacked[minifloat.Float6E3M2FN](t, 63) })
}
