package minifloat_test

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-handoff/handoff/dlpack/minifloat"
)

func isNaN32(f float32) bool { return f != f }

// TestRoundTrip decodes and encodes every code of every type.
func TestRoundTrip(t *testing.T) {
	for _, a := range types {
		t.Run(a.name, func(t *testing.T) {
			for c := range 1 << a.bits {
				c := uint16(c)
				f := a.decode(c)
				require.Equal(t, isNaN32(f), a.isNaN(c), "code %#x", c)
				require.Equal(t, math.IsInf(float64(f), 1), a.isInf(c, 1), "code %#x", c)
				require.Equal(t, math.IsInf(float64(f), -1), a.isInf(c, -1), "code %#x", c)
				require.Equal(t, math.IsInf(float64(f), 0), a.isInf(c, 0), "code %#x", c)
				back := a.encode(f)
				if isNaN32(f) { // the payload goes, NaN and its sign stay
					require.True(t, a.isNaN(back), "code %#x", c)
				} else {
					require.Equal(t, c, back, "code %#x", c)
				}
				require.Equal(t, back, a.wide(float64(f)), "code %#x by float64", c)
				require.Equal(t, math.Signbit(float64(f)), a.sign(c), "code %#x", c)
				parsed, err := a.parse(a.str(c))
				require.NoError(t, err)
				require.Equal(t, a.encode(f)&^signOfNaN(a, c), parsed&^signOfNaN(a, c), "code %#x: %s", c, a.str(c))
			}
		})
	}
}

// signOfNaN is the bit that text does not carry.
func signOfNaN(a anyType, c uint16) uint16 {
	if a.isNaN(c) {
		return 1 << (a.bits - 1)
	}
	return 0
}

// TestSubByteIgnoresHighBits: a stray bit above the type must not change the
// value, nor index past a table.
func TestSubByteIgnoresHighBits(t *testing.T) {
	for _, a := range types {
		if a.bits >= 8 {
			continue
		}
		for c := range uint16(256) {
			require.Equal(t, a.decode(c&(1<<a.bits-1)), a.decode(c), "%s %#x", a.name, c)
		}
	}
}

// nearest finds the code by looking at all of them: the model of the encoder
// for finite f within the range of the type.
func nearest(a anyType, f float64) (best uint16, dist float64) {
	dist = math.Inf(1)
	for c := range 1 << a.bits {
		c := uint16(c)
		v := float64(a.decode(c))
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		if d := math.Abs(v - f); d < dist || d == dist && c&1 == 0 && a.sign(c) == math.Signbit(f) {
			best, dist = c, d
		}
	}
	return best, dist
}

func TestEncodeIsNearest(t *testing.T) {
	for _, a := range types {
		if a.bits > 8 || a.name == "float8_e8m0fnu" { // TestBFloat16Formula; ties of e8m0 are its own
			continue
		}
		t.Run(a.name, rapid.MakeCheck(func(t *rapid.T) {
			limit := float64(a.info.Max)
			f := rapid.Float64Range(-limit, limit).Draw(t, "f")
			if rapid.Bool().Draw(t, "exact tie") {
				c := rapid.Uint16Range(0, 1<<(a.bits-1)-2).Draw(t, "code")
				lo, hi := float64(a.decode(c)), float64(a.decode(c+1))
				if f = (lo + hi) / 2; math.IsNaN(f) || math.IsInf(f, 0) {
					t.Skip("beyond the numbers")
				}
			}
			want, _ := nearest(a, f)
			if a.decode(want) == 0 && a.info.SignedZero && math.Signbit(f) {
				want |= 1 << (a.bits - 1)
			}
			if got := a.wide(f); got != want {
				t.Fatalf("float64 %v: %#x (%v), want %#x (%v)", f, got, a.decode(got), want, a.decode(want))
			}
			if g := float32(f); float64(g) == f {
				if got := a.encode(g); got != want {
					t.Fatalf("float32 %v: %#x, want %#x", g, got, want)
				}
			}
		}))
	}
}

func TestMonotonic(t *testing.T) {
	for _, a := range types {
		t.Run(a.name, rapid.MakeCheck(func(t *rapid.T) {
			x := rapid.Float32Range(-a.info.Max, a.info.Max).Draw(t, "x")
			y := rapid.Float32Range(-a.info.Max, a.info.Max).Draw(t, "y")
			if a.info.Lowest > 0 {
				x, y = max(x, -x, a.info.Lowest), max(y, -y, a.info.Lowest)
			}
			if x > y {
				x, y = y, x
			}
			if rx, ry := a.decode(a.encode(x)), a.decode(a.encode(y)); rx > ry {
				t.Fatalf("%v ≤ %v but %v > %v", x, y, rx, ry)
			}
		}))
	}
}

// bfloat16ByBig rounds with arbitrary precision.
func bfloat16ByBig(f float32) float64 {
	if f == 0 || math.IsInf(float64(f), 0) {
		return float64(f)
	}
	prec := uint(8)
	if e := math.Ilogb(float64(f)); e < -126 { // subnormal: fewer bits
		if e < -134 {
			return math.Copysign(0, float64(f))
		}
		prec = uint(e + 134)
		if prec == 0 { // below the smallest: half of it is the tie
			if math.Abs(float64(f)) > 0x1p-134 {
				return math.Copysign(0x1p-133, float64(f))
			}
			return math.Copysign(0, float64(f))
		}
	}
	v, _ := new(big.Float).SetPrec(prec).SetMode(big.ToNearestEven).SetFloat64(float64(f)).Float64()
	if math.Abs(v) > 0x1.fep127 {
		return math.Copysign(math.Inf(1), v)
	}
	return v
}

func TestBFloat16Formula(t *testing.T) {
	check := func(b uint32) {
		f := math.Float32frombits(b)
		got := minifloat.ToBFloat16(f)
		if isNaN32(f) {
			require.Equal(t, minifloat.BFloat16(b>>16&0x8000|0x7fc0), got)
			return
		}
		want := bfloat16ByBig(f)
		if math.Float64bits(want) != math.Float64bits(float64(got.Float32())) {
			t.Fatalf("%#08x %v: got %v, want %v", b, f, got, want)
		}
	}
	// Every upper half, with the lower halves at and around the tie.
	for hi := range uint32(1 << 16) {
		for _, lo := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff} {
			check(hi<<16 | lo)
		}
	}
	for range 200_000 {
		check(rand.Uint32())
	}
}

func TestE8M0(t *testing.T) {
	to := minifloat.ToFloat8E8M0FNU
	for _, c := range []struct {
		in   float32
		want minifloat.Float8E8M0FNU
	}{
		{1, 127},
		{1.25, 127},
		{1.5, 128},
		{3, 129},
		{6, 130},
		{0x1p-127, 0},
		{0x1.8p-127, 1},
		{0x1p-149, 0},
		{0x1p127, 254},
		{0x1.7ffffep127, 254},
		{0x1.8p127, 255},
		{0, 255},
		{-1, 255},
		{float32(math.Inf(1)), 255},
		{float32(math.NaN()), 255},
	} {
		require.Equal(t, c.want, to(c.in), "%v", c.in)
	}
	require.Equal(t, minifloat.Float8E8M0FNU(255), to(float32(math.Copysign(0, -1))))
}

func TestFromFloat64RoundsOnce(t *testing.T) {
	// A hair above the tie between two codes: rounding to float32 first would
	// lose the hair.
	require.Equal(t, minifloat.BFloat16(0x3f81), minifloat.FromFloat64[minifloat.BFloat16](1+0x1p-8+0x1p-40))
	require.Equal(t, minifloat.BFloat16(0x3f80), minifloat.FromFloat64[minifloat.BFloat16](1+0x1p-8-0x1p-40))
	require.Equal(t, minifloat.Float8E4M3FN(0x39), minifloat.FromFloat64[minifloat.Float8E4M3FN](1+0x1p-4+0x1p-40))
	require.Equal(t, minifloat.Float8E4M3FN(0x38), minifloat.FromFloat64[minifloat.Float8E4M3FN](1+0x1p-4))
	require.True(t, minifloat.FromFloat64[minifloat.BFloat16](1e300).IsInf(1))
	require.True(t, minifloat.FromFloat64[minifloat.BFloat16](-1e300).IsInf(-1))
	require.True(t, minifloat.FromFloat64[minifloat.BFloat16](math.NaN()).IsNaN())
	require.Equal(t, minifloat.BFloat16(0), minifloat.FromFloat64[minifloat.BFloat16](1e-300))
	require.Equal(t, minifloat.BFloat16(0x8000), minifloat.FromFloat64[minifloat.BFloat16](-1e-300))
}

func TestCompare(t *testing.T) {
	type f8 = minifloat.Float8E4M3FN
	negZero, nan, one, minus := f8(0x80), f8(0x7f), minifloat.ToFloat8E4M3FN(1), minifloat.ToFloat8E4M3FN(-1)
	require.True(t, minifloat.Equal(f8(0), negZero))
	require.False(t, minifloat.Equal(nan, nan))
	require.True(t, minifloat.Less(minus, one))
	require.False(t, minus < one, "the operator compares patterns")
	require.False(t, minifloat.Less(nan, one) || minifloat.Less(one, nan))
	require.Equal(t, 0, minifloat.Compare(f8(0), negZero))
	require.Equal(t, 0, minifloat.Compare(nan, nan))
	require.Equal(t, -1, minifloat.Compare(nan, minus))
	require.Equal(t, 1, minifloat.Compare(one, minus))
}

func TestText(t *testing.T) {
	require.Equal(t, "448", minifloat.ToFloat8E4M3FN(448).String())
	require.Equal(t, "-0.5", minifloat.ToFloat4E2M1FN(-0.5).String())
	require.Equal(t, "+Inf", minifloat.ToFloat8E5M2(1e9).String())
	require.Equal(t, "NaN", minifloat.ToFloat8E5M2FNUZ(1e9).String())
	require.Equal(t, "-0", minifloat.ToBFloat16(float32(math.Copysign(0, -1))).String())

	b, err := json.Marshal(map[string]any{"a": []minifloat.BFloat16{minifloat.ToBFloat16(1.5)}, "c": minifloat.ToComplex32(1 - 2i)})
	require.NoError(t, err)
	require.JSONEq(t, `{"a":["1.5"],"c":"(1-2i)"}`, string(b))
	var v minifloat.Float6E3M2FN
	require.NoError(t, v.UnmarshalText([]byte("1e400"))) // out of range is rounded
	require.Equal(t, float32(28), v.Float32())
	v = 5
	require.ErrorIs(t, v.UnmarshalText([]byte("1,5")), strconv.ErrSyntax)
	require.Equal(t, minifloat.Float6E3M2FN(5), v, "untouched on error")
}

func TestComplex(t *testing.T) {
	c := minifloat.ToComplex32(1.5 - 2.25i)
	require.Equal(t, complex64(1.5-2.25i), c.Complex64())
	require.Equal(t, "(1.5-2.25i)", c.String())
	b := minifloat.ToBComplex32(complex64(complex(0.1, math.Inf(1))))
	require.Equal(t, "(0.100097656+Infi)", b.String())
	require.False(t, b.IsNaN())
	require.True(t, minifloat.ToBComplex32(complex64(complex(math.NaN(), 1))).IsNaN())
	require.True(t, minifloat.ToComplex32(complex64(complex(1, math.NaN()))).IsNaN())
	require.False(t, minifloat.ToComplex32(complex64(complex(math.Inf(1), math.NaN()))).IsNaN())
	text, err := b.MarshalText()
	require.NoError(t, err)
	require.Equal(t, b.String(), string(text))
}

func TestSlices(t *testing.T) {
	src := []float32{1, -2, 0.5, 7, 1e30}
	short := make([]minifloat.Float8E5M2, 3)
	require.Equal(t, 3, minifloat.FromFloat32s(short, src))
	back := make([]float32, 9)
	require.Equal(t, 3, minifloat.ToFloat32(back, short))
	require.Equal(t, []float32{1, -2, 0.5, 0, 0, 0, 0, 0, 0}, back)
	require.Zero(t, minifloat.ToFloat32(back, []minifloat.BFloat16(nil)))
	for _, a := range types { // the slice paths and the scalar paths agree
		for _, f := range src {
			require.Equal(t, a.encode(f), a.wide(float64(f)), "%s %v", a.name, f)
		}
	}
}

func TestAllocs(t *testing.T) {
	src := make([]float32, 64)
	b16 := make([]minifloat.BFloat16, 64)
	f8 := make([]minifloat.Float8E4M3FN, 64)
	var sink float32
	require.Zero(t, testing.AllocsPerRun(100, func() {
		minifloat.FromFloat32s(b16, src)
		minifloat.ToFloat32(src, b16)
		minifloat.FromFloat32s(f8, src)
		minifloat.ToFloat32(src, f8)
		sink += minifloat.FromFloat32[minifloat.Float8E5M2](sink).Float32()
		if minifloat.Less(f8[0], f8[1]) {
			sink++
		}
	}))
}

func FuzzUnmarshalText(f *testing.F) {
	for _, s := range []string{"1.5", "-Inf", "nan", "0x1p-130", "1e999", "", "1_0", "٣"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, a := range types {
			c, err := a.parse(s)
			if err != nil {
				continue
			}
			again, err := a.parse(a.str(c))
			require.NoError(t, err)
			require.True(t, a.isNaN(c) && a.isNaN(again) || c == again, "%s: %q %#x %#x", a.name, s, c, again)
		}
	})
}
