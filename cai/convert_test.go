package cai_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/dlpack"
)

var cuda0 = dlpack.Device{Type: dlpack.DeviceCUDA}

func TestFromDesc(t *testing.T) {
	desc := func() dlpack.Desc {
		return dlpack.Desc{Data: 0x1000, ByteOffset: 16, Device: cuda0, DType: dlpack.Float32, Shape: []int64{2, 3}, Strides: []int64{3, 1}}
	}
	t.Run("R283 address with the byte offset", func(t *testing.T) {
		d := desc()
		i, err := cai.FromDesc(&d, cai.LegacyDefault)
		require.NoError(t, err)
		require.Equal(t, uintptr(0x1010), i.Data)
		require.Equal(t, 3, i.Version)
		require.Equal(t, cai.LegacyDefault, i.Stream)
		require.Nil(t, i.Strides, "R282: row-major strides are left out")
	})
	t.Run("R282 strides in bytes", func(t *testing.T) {
		d := desc()
		d.Strides = []int64{-6, 2}
		i, err := cai.FromDesc(&d, cai.NoStream)
		require.NoError(t, err)
		require.Equal(t, []int64{-24, 8}, i.Strides)
	})
	t.Run("R054 B006 strides of axes with one index do not count", func(t *testing.T) {
		d := desc()
		d.Shape, d.Strides = []int64{1, 2, 3}, []int64{1, 3, 1}
		i, err := cai.FromDesc(&d, cai.NoStream)
		require.NoError(t, err)
		require.Nil(t, i.Strides)
		d.Shape, d.Strides = []int64{1, 2}, []int64{math.MaxInt64, 5}
		i, err = cai.FromDesc(&d, cai.NoStream)
		require.NoError(t, err)
		require.Equal(t, []int64{4, 20}, i.Strides)
	})
	t.Run("R176 R280 read-only", func(t *testing.T) {
		d := desc()
		d.Flags = dlpack.FlagReadOnly | dlpack.FlagIsCopied
		i, err := cai.FromDesc(&d, cai.NoStream)
		require.NoError(t, err)
		require.Equal(t, []any{int64(0x1010), true}, i.Map()["data"])
	})
	t.Run("R287 R173 no elements: address 0", func(t *testing.T) {
		d := desc()
		d.Shape, d.Strides = []int64{0, 3}, []int64{3, 1}
		i, err := cai.FromDesc(&d, cai.NoStream)
		require.NoError(t, err)
		require.Zero(t, i.Data)
		i.Data = 0x1000
		require.Equal(t, []any{int64(0), false}, i.Map()["data"])
		i.Version = 1 // that rule came with version 2
		require.Equal(t, []any{int64(0x1000), false}, i.Map()["data"])
	})
	t.Run("0-d", func(t *testing.T) {
		d := desc()
		d.Shape, d.Strides = nil, nil
		i, err := cai.FromDesc(&d, cai.NoStream)
		require.NoError(t, err)
		require.Equal(t, []any{}, i.Map()["shape"])
	})
	t.Run("R198 no typestring", func(t *testing.T) {
		for _, dt := range []dlpack.DataType{dlpack.BFloat16, dlpack.Float8E4M3FN, dlpack.Float4E2M1FN, dlpack.Complex32, {Code: dlpack.CodeFloat, Bits: 32, Lanes: 2}} {
			d := desc()
			d.DType = dt
			_, err := cai.FromDesc(&d, cai.NoStream)
			requireRule(t, err, "R198", dlpack.ErrDType)
		}
	})
	t.Run("R199 memory that CUDA does not know", func(t *testing.T) {
		for _, dt := range []dlpack.DeviceType{dlpack.DeviceCPU, dlpack.DeviceROCM, dlpack.DeviceOneAPI} {
			d := desc()
			d.Device.Type = dt
			_, err := cai.FromDesc(&d, cai.NoStream)
			requireRule(t, err, "R199", dlpack.ErrDevice)
		}
		for _, dt := range []dlpack.DeviceType{dlpack.DeviceCUDA, dlpack.DeviceCUDAHost, dlpack.DeviceCUDAManaged} {
			d := desc()
			d.Device.Type = dt
			_, err := cai.FromDesc(&d, cai.NoStream)
			require.NoError(t, err)
		}
	})
	t.Run("a bad description", func(t *testing.T) {
		d := desc()
		d.Shape = []int64{-1, 3}
		_, err := cai.FromDesc(&d, cai.NoStream)
		require.ErrorIs(t, err, dlpack.ErrLayout)
		_, err = cai.ArrayFromDesc(&d)
		require.ErrorIs(t, err, dlpack.ErrLayout)
	})
	t.Run("R200 R201 R202 array interface", func(t *testing.T) {
		d := desc()
		_, err := cai.ArrayFromDesc(&d)
		require.ErrorIs(t, err, dlpack.ErrDevice)
		for _, dt := range []dlpack.DeviceType{dlpack.DeviceCPU, dlpack.DeviceCUDAHost, dlpack.DeviceCUDAManaged} {
			d.Device.Type = dt
			a, err := cai.ArrayFromDesc(&d)
			require.NoError(t, err)
			require.Equal(t, map[string]any{
				"shape": []any{int64(2), int64(3)}, "typestr": native("<f4"), "data": []any{int64(0x1010), false},
				"strides": nil, "version": int64(3),
			}, a.Map())
		}
		d.DType = dlpack.BFloat16
		_, err = cai.ArrayFromDesc(&d)
		requireRule(t, err, "R285", dlpack.ErrDType)
	})
}

func TestMap(t *testing.T) {
	i := cai.Interface{
		Array: cai.Array{
			Version: 3, Shape: []int64{2, 3}, Typestr: cai.Typestr{Order: '|', Kind: 'u', Size: 1},
			Data: math.MaxUint - 64, Strides: []int64{3, 1},
		},
		Stream: cai.PerThreadDefault,
	}
	t.Run("R166 R167 R172 B260 tuples of ints", func(t *testing.T) {
		addr := any(uint64(math.MaxUint - 64))
		if math.MaxUint == math.MaxUint32 {
			addr = int64(math.MaxUint32 - 64) // an int64 holds it
		}
		require.Equal(t, map[string]any{
			"shape": []any{int64(2), int64(3)}, "typestr": "|u1", "data": []any{addr, false},
			"strides": []any{int64(3), int64(1)}, "version": int64(3), "stream": int64(2),
		}, i.Map())
	})
	t.Run("R183 no stream before version 3", func(t *testing.T) {
		i := i
		i.Version, i.Stream = 2, cai.NoStream
		require.NotContains(t, i.Map(), "stream")
	})
	t.Run("R192 nothing pending", func(t *testing.T) {
		i := i
		i.Stream = cai.NoStream
		m := i.Map()
		require.Contains(t, m, "stream")
		require.Nil(t, m["stream"])
	})
}

// genDesc makes descriptions that both interfaces can express.
func genDesc() *rapid.Generator[dlpack.Desc] {
	return rapid.Custom(func(t *rapid.T) dlpack.Desc {
		d := dlpack.Desc{
			DType:  pairs[rapid.IntRange(0, len(pairs)-1).Draw(t, "dtype")].dtype,
			Shape:  rapid.SliceOfN(rapid.Int64Range(0, 5), 0, 5).Draw(t, "shape"),
			Device: dlpack.Device{Type: rapid.SampledFrom([]dlpack.DeviceType{dlpack.DeviceCUDAHost, dlpack.DeviceCUDAManaged}).Draw(t, "device")},
		}
		if rapid.Bool().Draw(t, "read-only") {
			d.Flags = dlpack.FlagReadOnly
		}
		if rapid.Bool().Draw(t, "strides") {
			d.Strides = rapid.SliceOfN(rapid.Int64Range(-100, 100), len(d.Shape), len(d.Shape)).Draw(t, "strides")
		}
		d.Data = uintptr(rapid.Uint32Range(1<<20, 1<<30).Draw(t, "data")) &^ 15
		return d
	})
}

// TestRoundTrip: desc → interface → map → interface → desc is the same tensor.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := genDesc().Draw(t, "desc")
		require.NoError(t, d.Check())
		same := func(got dlpack.Desc) {
			want := d
			if d.Size() == 0 { // strides of nothing need not survive
				require.Equal(t, d.Shape, append([]int64{}, got.Shape...))
				require.Equal(t, d.DType, got.DType)
				return
			}
			for i, n := range d.Shape { // nor does the stride of an axis with one index
				if n == 1 && want.Strides != nil && got.Strides == nil {
					rm, err := dlpack.RowMajor(nil, d.Shape)
					require.NoError(t, err)
					want.Strides = append([]int64{}, want.Strides...)
					want.Strides[i] = rm[i]
				}
			}
			require.True(t, want.Equal(&got), "%v %v", &want, &got)
		}
		stream := cai.StreamOf(uintptr(rapid.Uint32().Draw(t, "stream")))
		if rapid.Bool().Draw(t, "no stream") {
			stream = cai.NoStream
		}
		c, err := cai.FromDesc(&d, stream)
		require.NoError(t, err)
		require.NoError(t, c.Check())
		c2, err := cai.Parse(c.Map(), nil)
		require.NoError(t, err)
		require.Equal(t, c, c2)
		got, err := c2.Desc(d.Device, nil)
		require.NoError(t, err)
		same(got)

		a, err := cai.ArrayFromDesc(&d)
		require.NoError(t, err)
		a2, err := cai.ParseArrayInterface(a.Map(), nil)
		require.NoError(t, err)
		require.Equal(t, a, a2)
		got, err = a2.Desc(d.Device, nil)
		require.NoError(t, err)
		same(got)
	})
}

func TestStreamArgument(t *testing.T) {
	t.Run("R272 R274 NULL is the legacy default stream, never 0", func(t *testing.T) {
		s := cai.StreamOf(0)
		require.Equal(t, cai.LegacyDefault, s)
		require.Equal(t, int64(1), s.CAI())
		v, err := s.DLPack(dlpack.DeviceCUDA)
		require.NoError(t, err)
		require.Equal(t, int64(1), v)
	})
	t.Run("R273 named handles", func(t *testing.T) {
		require.Equal(t, cai.LegacyDefault, cai.StreamOf(1))
		require.Equal(t, cai.PerThreadDefault, cai.StreamOf(2))
		h, ok := cai.PerThreadDefault.Handle()
		require.True(t, ok)
		require.Equal(t, uintptr(2), h)
		_, ok = cai.NoStream.Handle()
		require.False(t, ok)
	})
	t.Run("strings", func(t *testing.T) {
		require.Equal(t, "none legacy default per-thread default 0x7f00",
			fmt.Sprint(cai.NoStream, " ", cai.LegacyDefault, " ", cai.PerThreadDefault, " ", cai.StreamOf(0x7f00)))
	})

	cuda := []dlpack.DeviceType{dlpack.DeviceCUDA, dlpack.DeviceCUDAHost, dlpack.DeviceCUDAManaged}
	t.Run("R284 B193 B195 on CUDA", func(t *testing.T) {
		for _, dt := range cuda {
			for in, want := range map[any]cai.StreamArgument{
				nil: cai.LegacyDefault, int64(-1): cai.NoStream, int64(1): cai.LegacyDefault, int64(2): cai.PerThreadDefault,
				int64(0x7f00): cai.StreamOf(0x7f00),
			} {
				got, err := cai.ParseDLPackStream(in, dt)
				require.NoError(t, err)
				require.Equal(t, want, got, "%v", in)
				out, err := got.DLPack(dt)
				require.NoError(t, err)
				if in == nil {
					in = int64(1) // R141: said, not left out
				}
				require.Equal(t, in, out)
				if got.IsNone() {
					require.Nil(t, got.CAI())
				} else {
					require.Equal(t, in, got.CAI())
				}
			}
		}
	})
	t.Run("R133 on ROCm", func(t *testing.T) {
		for _, dt := range []dlpack.DeviceType{dlpack.DeviceROCM, dlpack.DeviceROCMHost} {
			for _, in := range []any{nil, int64(0)} {
				got, err := cai.ParseDLPackStream(in, dt)
				require.NoError(t, err)
				require.Equal(t, cai.LegacyDefault, got)
				out, err := got.DLPack(dt)
				require.NoError(t, err)
				require.Equal(t, int64(0), out)
			}
			got, err := cai.ParseDLPackStream(int64(77), dt)
			require.NoError(t, err)
			out, err := got.DLPack(dt)
			require.NoError(t, err)
			require.Equal(t, int64(77), out)
			_, err = cai.PerThreadDefault.DLPack(dt)
			requireRule(t, err, "R134", dlpack.ErrStream)
		}
	})
	t.Run("R135 B197 on the CPU", func(t *testing.T) {
		for _, in := range []any{nil, int64(-1)} {
			got, err := cai.ParseDLPackStream(in, dlpack.DeviceCPU)
			require.NoError(t, err)
			require.Equal(t, cai.NoStream, got)
		}
		for _, s := range []cai.StreamArgument{cai.NoStream, cai.LegacyDefault, cai.StreamOf(99)} {
			out, err := s.DLPack(dlpack.DeviceCPU)
			require.NoError(t, err)
			require.Nil(t, out)
		}
	})
	big64 := new(big.Int).Lsh(big.NewInt(1), 64)
	for _, c := range []struct {
		in   any
		dt   dlpack.DeviceType
		rule string
		kind error
	}{
		{int64(0), dlpack.DeviceCUDA, "R128", dlpack.ErrStream},
		{int64(0), dlpack.DeviceCUDAManaged, "R128", dlpack.ErrStream},
		{int64(-2), dlpack.DeviceCUDA, "R132", dlpack.ErrStream},
		{int64(-2), dlpack.DeviceROCM, "R132", dlpack.ErrStream},
		{int64(math.MinInt64), dlpack.DeviceCUDA, "R132", dlpack.ErrStream},
		{new(big.Int).Neg(big64), dlpack.DeviceCUDA, "R132", dlpack.ErrStream},
		{big64, dlpack.DeviceCUDA, "R131", dlpack.ErrStream},
		{int64(1), dlpack.DeviceROCM, "R134", dlpack.ErrStream},
		{int64(2), dlpack.DeviceROCM, "R134", dlpack.ErrStream},
		{int64(0), dlpack.DeviceCPU, "R135", dlpack.ErrStream},
		{int64(1), dlpack.DeviceCPU, "R135", dlpack.ErrStream},
		{true, dlpack.DeviceCUDA, "R136", cai.ErrType},
		{1.0, dlpack.DeviceCUDA, "R136", cai.ErrType},
		{"1", dlpack.DeviceCPU, "R136", cai.ErrType},
		{t2(0, 1), dlpack.DeviceCUDA, "R136", cai.ErrType},
	} {
		t.Run(fmt.Sprintf("%s B199 %v on %s", c.rule, c.in, c.dt), func(t *testing.T) {
			_, err := cai.ParseDLPackStream(c.in, c.dt)
			requireRule(t, err, c.rule, c.kind)
		})
	}
	t.Run("B199 handles of 64 bits", func(t *testing.T) {
		if math.MaxUint == math.MaxUint32 {
			t.Skip("addresses have 32 bits")
		}
		s, err := cai.ParseDLPackStream(uint64(1)<<63, dlpack.DeviceCUDA)
		require.NoError(t, err)
		v, err := s.DLPack(dlpack.DeviceCUDA)
		require.NoError(t, err)
		require.Equal(t, uint64(1)<<63, v)
		require.Equal(t, uint64(1)<<63, s.CAI())
	})
	t.Run("all ones is a number, not -1", func(t *testing.T) {
		if math.MaxUint == math.MaxUint32 {
			t.Skip("addresses have 32 bits")
		}
		s, err := cai.ParseDLPackStream(uint64(math.MaxUint64), dlpack.DeviceCUDA)
		require.NoError(t, err)
		require.False(t, s.IsNone())
	})
}

func TestBuffer(t *testing.T) {
	buffer := func() cai.Buffer {
		return cai.Buffer{Addr: 0x1000, Len: 24, ItemSize: 4, NDim: 2, Format: "f", HasFormat: true, Shape: []int64{2, 3}, Strides: []int64{12, 4}}
	}
	ok := func(t *testing.T, b cai.Buffer, want string) {
		t.Helper()
		d, err := b.Desc(dlpack.CPU)
		require.NoError(t, err)
		require.Equal(t, want, d.String())
	}
	bad := func(t *testing.T, b cai.Buffer, rule string, kind error) {
		t.Helper()
		_, err := b.Desc(dlpack.CPU)
		requireRule(t, err, rule, kind)
	}
	t.Run("plain", func(t *testing.T) { ok(t, buffer(), "float32[2 3] strides [3 1] at 0x1000 on cpu:0") })
	t.Run("R239 no strides", func(t *testing.T) {
		b := buffer()
		b.Strides = nil
		ok(t, b, "float32[2 3] at 0x1000 on cpu:0")
	})
	t.Run("R233 no format", func(t *testing.T) {
		b := buffer()
		b.HasFormat, b.Format, b.ItemSize, b.Len, b.Strides = false, "", 1, 6, nil
		ok(t, b, "uint8[2 3] at 0x1000 on cpu:0")
		b.ItemSize, b.Len = 4, 24 // units of 4 bytes of an unknown kind
		bad(t, b, "R247", dlpack.ErrDType)
	})
	t.Run("R238 no shape", func(t *testing.T) {
		b := cai.Buffer{Addr: 0x1000, Len: 24, ItemSize: 4, NDim: 1}
		ok(t, b, "uint8[24] at 0x1000 on cpu:0")
		b.NDim = 2
		bad(t, b, "R238", dlpack.ErrLayout)
		b = buffer()
		b.NDim = 3
		bad(t, b, "R238", dlpack.ErrLayout)
		b = buffer()
		b.Strides = b.Strides[:1]
		bad(t, b, "R238", dlpack.ErrLayout)
	})
	t.Run("R234 0-d", func(t *testing.T) {
		ok(t, cai.Buffer{Addr: 0x1000, Len: 8, ItemSize: 8, Format: "d", HasFormat: true}, "float64[] at 0x1000 on cpu:0")
	})
	t.Run("R236 length", func(t *testing.T) {
		b := buffer()
		b.Len = 23
		bad(t, b, "R236", dlpack.ErrLayout)
		b.Len = -1
		bad(t, b, "R236", dlpack.ErrLayout)
		b.Shape, b.Len = []int64{0, 3}, 4
		bad(t, b, "R236", dlpack.ErrLayout)
		b.Len = 0
		ok(t, b, "float32[0 3] strides [3 1] at 0x1000 on cpu:0")
		b.Addr = 0
		ok(t, b, "float32[0 3] strides [3 1] at 0x0 on cpu:0")
	})
	t.Run("R243 R279 read-only", func(t *testing.T) {
		b := buffer()
		b.ReadOnly = true
		ok(t, b, "float32[2 3] strides [3 1] at 0x1000 on cpu:0 read_only")
	})
	t.Run("R245 sub-offsets", func(t *testing.T) {
		b := buffer()
		b.Suboffsets = []int64{-1, -1}
		ok(t, b, "float32[2 3] strides [3 1] at 0x1000 on cpu:0")
		b.Suboffsets = []int64{-1, 0}
		bad(t, b, "R245", dlpack.ErrLayout)
	})
	t.Run("R246 negative stride", func(t *testing.T) {
		b := buffer()
		b.Strides = []int64{-12, 4}
		ok(t, b, "float32[2 3] strides [-3 1] at 0x1000 on cpu:0")
	})
	t.Run("R247 R259 item size", func(t *testing.T) {
		b := buffer()
		b.ItemSize = 8
		bad(t, b, "R247", dlpack.ErrDType)
		b.ItemSize = 0
		bad(t, b, "R259", dlpack.ErrDType)
		b.ItemSize = -4
		bad(t, b, "R259", dlpack.ErrDType)
	})
	t.Run("R252 foreign order", func(t *testing.T) {
		b := buffer()
		b.Format = foreign() + "f"
		bad(t, b, "R252", dlpack.ErrDType)
	})
	t.Run("R255 axes", func(t *testing.T) {
		for _, n := range []int{-1, 65, math.MaxInt32} {
			b := buffer()
			b.NDim = n
			bad(t, b, "R255", dlpack.ErrLayout)
		}
	})
	t.Run("R256 R257 B016 strides that are no multiple", func(t *testing.T) {
		b := buffer()
		b.Strides = []int64{14, 4}
		bad(t, b, "R257", dlpack.ErrLayout)
		b.Shape, b.Len = []int64{1, 3}, 12
		ok(t, b, "float32[1 3] strides [3 1] at 0x1000 on cpu:0")
	})
	t.Run("R034 sizes", func(t *testing.T) {
		b := buffer()
		b.Shape = []int64{-1, 3}
		bad(t, b, "R034", dlpack.ErrLayout)
		b.Shape = []int64{1 << 40, 1 << 40}
		bad(t, b, "R034", dlpack.ErrOverflow)
		b = buffer()
		b.Strides = []int64{-0x2000, 4}
		bad(t, b, "R034", dlpack.ErrOverflow)
	})
	t.Run("R045 no address", func(t *testing.T) {
		b := buffer()
		b.Addr = 0
		_, err := b.Desc(dlpack.CPU)
		require.ErrorIs(t, err, dlpack.ErrNull)
	})
}
