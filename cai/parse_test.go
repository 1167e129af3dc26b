package cai_test

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/dlpack"
)

type dict = map[string]any

func t2(v ...any) []any { return append([]any{}, v...) }

// good is a dictionary that both interfaces accept.
func good() dict {
	return dict{
		"shape": t2(int64(2), int64(3)), "typestr": native("<f4"), "data": t2(int64(0x1000), false), "version": int64(3),
	}
}

// with changes keys of a good dictionary; the value absent removes one.
func with(changes ...any) dict {
	d := good()
	for i := 0; i < len(changes); i += 2 {
		key := changes[i].(string)
		if changes[i+1] == absent {
			delete(d, key)
		} else {
			d[key] = changes[i+1]
		}
	}
	return d
}

var absent = new(struct{ int })

func TestParse(t *testing.T) {
	cuda := dlpack.Device{Type: dlpack.DeviceCUDA, ID: 1}
	t.Run("R177 B250 strides absent or None", func(t *testing.T) {
		for _, d := range []dict{good(), with("strides", nil)} {
			i, err := cai.Parse(d, nil)
			require.NoError(t, err)
			require.Nil(t, i.Strides)
			require.Equal(t, []int64{2, 3}, i.Shape)
			require.Equal(t, uintptr(0x1000), i.Data)
			desc, err := i.Desc(cuda, nil)
			require.NoError(t, err)
			require.True(t, desc.Equal(&dlpack.Desc{Data: 0x1000, Device: cuda, DType: dlpack.Float32, Shape: []int64{2, 3}, Strides: []int64{3, 1}}))
		}
		i, err := cai.Parse(with("shape", t2(10000), "typestr", native("<f8")), nil)
		require.NoError(t, err)
		desc, err := i.Desc(cuda, nil)
		require.NoError(t, err)
		require.Nil(t, desc.Strides, "nil is row-major, in elements")
	})
	t.Run("R182 R183 R192 B014 B249 B258 every optional key absent and None, every version", func(t *testing.T) {
		for version := range 5 {
			for mask := range 1 << 4 {
				d := with("version", int64(version))
				for bit, key := range []string{"strides", "descr", "mask", "stream"} {
					if mask>>bit&1 != 0 {
						d[key] = nil
					}
				}
				i, err := cai.Parse(d, nil)
				require.NoError(t, err, "%v", d)
				require.True(t, i.Stream.IsNone())
				want := cai.OrderingNone
				if version < 3 {
					want = cai.OrderingUnstated
				}
				require.Equal(t, want, i.Ordering())
				require.Equal(t, version, i.Version)
			}
		}
	})
	t.Run("R178 strides in bytes", func(t *testing.T) {
		i, err := cai.Parse(with("strides", t2(int64(4), int64(8))), nil)
		require.NoError(t, err)
		desc, err := i.Desc(cuda, nil)
		require.NoError(t, err)
		require.Equal(t, []int64{1, 2}, desc.Strides)
	})
	t.Run("B008 B012 B024 strides are kept", func(t *testing.T) {
		i, err := cai.Parse(with("shape", t2(2, 2), "strides", t2(24, 8), "typestr", native("<i8")), nil)
		require.NoError(t, err)
		desc, err := i.Desc(cuda, nil)
		require.NoError(t, err)
		require.Equal(t, []int64{3, 1}, desc.Strides)
	})
	t.Run("negative strides", func(t *testing.T) {
		i, err := cai.Parse(with("shape", t2(4), "strides", t2(-4)), nil)
		require.NoError(t, err)
		desc, err := i.Desc(cuda, nil)
		require.NoError(t, err)
		require.Equal(t, []int64{-1}, desc.Strides)
	})
	t.Run("broadcast stride", func(t *testing.T) {
		i, err := cai.Parse(with("strides", t2(0, 4)), nil)
		require.NoError(t, err)
		desc, err := i.Desc(cuda, nil)
		require.NoError(t, err)
		require.Equal(t, []int64{0, 1}, desc.Strides)
	})
	t.Run("0-d", func(t *testing.T) {
		for _, strides := range []any{nil, t2()} {
			i, err := cai.Parse(with("shape", t2(), "strides", strides), nil)
			require.NoError(t, err)
			require.Equal(t, int64(1), i.Size())
			_, err = i.Desc(cuda, nil)
			require.NoError(t, err)
		}
	})
	t.Run("R173 R174 B039 B040 B042 no elements, any address", func(t *testing.T) {
		for _, addr := range []any{int64(0), nil, int64(0x1000), int64(3)} {
			i, err := cai.Parse(with("shape", t2(0, 3), "strides", t2(24, 8), "typestr", native("<f8"), "data", t2(addr, false)), nil)
			require.NoError(t, err)
			desc, err := i.Desc(cuda, nil)
			require.NoError(t, err)
			require.Equal(t, []int64{3, 1}, desc.Strides)
		}
	})
	t.Run("B031 odd strides without elements", func(t *testing.T) {
		i, err := cai.Parse(with("shape", t2(3, 0, 2), "strides", t2(1, 7, 3), "data", t2(0, false)), nil)
		require.NoError(t, err)
		desc, err := i.Desc(cuda, nil)
		require.NoError(t, err)
		require.Equal(t, int64(0), desc.Size())
	})
	t.Run("R256 an axis with one index has any stride", func(t *testing.T) {
		i, err := cai.Parse(with("shape", t2(1, 3), "strides", t2(7, 4)), nil)
		require.NoError(t, err)
		desc, err := i.Desc(cuda, nil)
		require.NoError(t, err)
		require.Equal(t, []int64{3, 1}, desc.Strides)
		i, err = cai.Parse(with("shape", t2(1, 1), "strides", t2(0, 0)), nil)
		require.NoError(t, err)
		desc, err = i.Desc(cuda, nil)
		require.NoError(t, err)
		require.Equal(t, []int64{0, 0}, desc.Strides)
	})
	t.Run("R175 R279 read-only goes along", func(t *testing.T) {
		i, err := cai.Parse(with("data", t2(0x1000, true)), nil)
		require.NoError(t, err)
		require.True(t, i.ReadOnly)
		desc, err := i.Desc(cuda, nil)
		require.NoError(t, err)
		require.Equal(t, dlpack.FlagReadOnly, desc.Flags)
	})
	t.Run("R180 descr of a plain type is ignored", func(t *testing.T) {
		i, err := cai.Parse(with("descr", cai.List{t2("", "<f4")}), nil)
		require.NoError(t, err)
		require.Nil(t, i.Descr)
		i, err = cai.Parse(with("descr", "nonsense"), nil)
		require.NoError(t, err)
		require.Nil(t, i.Descr)
	})
	t.Run("R196 a newer version", func(t *testing.T) {
		i, err := cai.Parse(with("version", int64(99), "colour", "green", "stream", int64(7)), nil)
		require.NoError(t, err)
		require.Equal(t, cai.OrderingStream, i.Ordering())
	})
	t.Run("R183 a stream below version 3 says nothing", func(t *testing.T) {
		for _, stream := range []any{int64(0), int64(7), "x"} {
			i, err := cai.Parse(with("version", int64(2), "stream", stream), nil)
			require.NoError(t, err)
			require.True(t, i.Stream.IsNone())
			require.Equal(t, cai.OrderingUnstated, i.Ordering())
		}
	})
	t.Run("R185 R186 R187 R188 streams", func(t *testing.T) {
		for v, want := range map[int64]cai.StreamArgument{1: cai.LegacyDefault, 2: cai.PerThreadDefault, 0x7f00: cai.StreamOf(0x7f00)} {
			i, err := cai.Parse(with("stream", v), nil)
			require.NoError(t, err)
			require.Equal(t, want, i.Stream)
			require.Equal(t, cai.OrderingStream, i.Ordering())
		}
	})
	t.Run("R169 lists if asked for", func(t *testing.T) {
		d := with("shape", cai.List{2, 3}, "strides", cai.List{12, 4}, "data", cai.List{0x1000, false})
		_, err := cai.Parse(d, nil)
		requireRule(t, err, "R169", cai.ErrType)
		i, err := cai.Parse(d, &cai.ParseOptions{AllowLists: true})
		require.NoError(t, err)
		require.Equal(t, []int64{12, 4}, i.Strides)
	})
	t.Run("all integer types", func(t *testing.T) {
		for _, n := range []any{int(2), int8(2), int16(2), int32(2), int64(2), uint(2), uint8(2), uint16(2), uint32(2), uint64(2), uintptr(2), big.NewInt(2)} {
			i, err := cai.Parse(with("shape", t2(n)), nil)
			require.NoError(t, err)
			require.Equal(t, []int64{2}, i.Shape)
		}
	})
	t.Run("64 axes", func(t *testing.T) {
		shape := make([]any, 64)
		for i := range shape {
			shape[i] = int64(1)
		}
		_, err := cai.Parse(with("shape", shape), nil)
		require.NoError(t, err)
	})
	t.Run("R171 foreign byte order and kinds without a number", func(t *testing.T) {
		for typestr, rule := range map[string]string{">f4": "R291", "|O8": "R285", "|S4": "R285", "<M8[s]": "R285"} {
			i, err := cai.Parse(with("typestr", native(typestr)), nil)
			require.NoError(t, err)
			_, err = i.Desc(cuda, nil)
			requireRule(t, err, rule, dlpack.ErrDType)
		}
	})
	t.Run("V as raw bytes", func(t *testing.T) {
		i, err := cai.Parse(with("typestr", "|V2", "descr", cai.List{t2("", "|V2")}), nil)
		require.NoError(t, err)
		_, err = i.Desc(cuda, nil)
		requireRule(t, err, "R286", dlpack.ErrDType)
		desc, err := i.Desc(cuda, &cai.DTypeOptions{As: dlpack.BFloat16})
		require.NoError(t, err)
		require.Equal(t, dlpack.BFloat16, desc.DType)
	})
	t.Run("the input is not kept", func(t *testing.T) {
		d := good()
		i, err := cai.Parse(d, nil)
		require.NoError(t, err)
		d["shape"].([]any)[0] = int64(99)
		require.Equal(t, []int64{2, 3}, i.Shape)
		desc, err := i.Desc(cuda, nil)
		require.NoError(t, err)
		desc.Shape[0] = 99
		require.Equal(t, []int64{2, 3}, i.Shape)
	})
}

// badDicts are broken for both interfaces; the rules differ in names.
var badDicts = []struct {
	name       string
	d          dict
	cai, numpy string
	kind       error
}{
	{"no shape", with("shape", absent), "R167", "R201", cai.ErrMissing},
	{"no typestr", with("typestr", absent), "R167", "R201", cai.ErrMissing},
	{"no version", with("version", absent), "R167", "R201", cai.ErrMissing},
	{"empty", dict{}, "R167", "R201", cai.ErrMissing},
	{"nil", nil, "R167", "R201", cai.ErrMissing},
	{"version None", with("version", nil), "R197", "R201", cai.ErrType},
	{"version str", with("version", "3"), "R197", "R201", cai.ErrType},
	{"version bool", with("version", true), "R197", "R201", cai.ErrType},
	{"version float", with("version", 3.0), "R197", "R201", cai.ErrType},
	{"version negative", with("version", int64(-1)), "R197", "R201", dlpack.ErrVersion},
	{"version huge", with("version", int64(1)<<40), "R197", "R201", dlpack.ErrVersion},
	{"shape None", with("shape", nil), "R169", "R202", cai.ErrType},
	{"shape int", with("shape", int64(3)), "R169", "R202", cai.ErrType},
	{"shape list", with("shape", cai.List{2, 3}), "R169", "R202", cai.ErrType},
	{"shape of str", with("shape", t2("2")), "R169", "R202", cai.ErrType},
	{"shape of float", with("shape", t2(2.0)), "R169", "R202", cai.ErrType},
	{"shape of bool", with("shape", t2(true)), "R169", "R202", cai.ErrType},
	{"shape of None", with("shape", t2(nil)), "R169", "R202", cai.ErrType},
	{"shape of a nil big int", with("shape", t2((*big.Int)(nil))), "R169", "R202", cai.ErrType},
	{"B097 negative extent", with("shape", t2(2, -1)), "R169", "R202", dlpack.ErrLayout},
	{"B097 negative beside zero", with("shape", t2(0, -1)), "R169", "R202", dlpack.ErrLayout},
	{"extent above int64", with("shape", t2(uint64(1)<<63)), "R169", "R202", dlpack.ErrOverflow},
	{"extent above uint64", with("shape", t2(new(big.Int).Lsh(big.NewInt(1), 70))), "R169", "R202", dlpack.ErrOverflow},
	{"B097 product wraps", with("shape", t2(int64(1)<<32, int64(1)<<32, 16)), "R034", "R034", dlpack.ErrOverflow},
	{"B098 suffix product", with("shape", t2(2, int64(1)<<62, 4)), "R034", "R034", dlpack.ErrOverflow},
	{"bytes wrap", with("shape", t2(int64(1)<<62)), "R034", "R034", dlpack.ErrOverflow},
	{"stride reach wraps", with("shape", t2(3), "strides", t2(int64(math.MaxInt64))), "R034", "R034", dlpack.ErrOverflow},
	{"stride reach is the smallest", with("shape", t2(2), "strides", t2(int64(math.MinInt64))), "R034", "R034", dlpack.ErrOverflow},
	{"sum of reaches wraps", with("shape", t2(2, 2), "strides", t2(int64(math.MaxInt64), int64(8))), "R034", "R034", dlpack.ErrOverflow},
	{"B102 below address 0", with("shape", t2(8), "strides", t2(-4096)), "R034", "R034", dlpack.ErrOverflow},
	{"beyond the last address", with("data", t2(uint64(math.MaxUint-3), false)), "R034", "R034", dlpack.ErrOverflow},
	{"65 axes", with("shape", make([]any, 65)), "R255", "R255", dlpack.ErrLayout},
	{"strides too short", with("strides", t2(4)), "R179", "R213", dlpack.ErrLayout},
	{"strides too long", with("strides", t2(4, 4, 4)), "R179", "R213", dlpack.ErrLayout},
	{"strides of a scalar", with("shape", t2(), "strides", t2(4)), "R179", "R213", dlpack.ErrLayout},
	{"strides list", with("strides", cai.List{12, 4}), "R178", "R214", cai.ErrType},
	{"strides int", with("strides", int64(4)), "R178", "R214", cai.ErrType},
	{"strides of float", with("strides", t2(12.0, 4.0)), "R178", "R214", cai.ErrType},
	{"strides of None", with("strides", t2(nil, nil)), "R178", "R214", cai.ErrType},
	{"typestr None", with("typestr", nil), "R170", "R203", cai.ErrType},
	{"typestr int", with("typestr", int64(4)), "R170", "R203", cai.ErrType},
	{"typestr unknown", with("typestr", "<x4"), "R170", "R203", dlpack.ErrDType},
	{"typestr empty", with("typestr", ""), "R170", "R203", dlpack.ErrDType},
	{"R220 dates without a unit", with("typestr", "<M8"), "R220", "R220", dlpack.ErrDType},
	{"data empty", with("data", t2()), "R172", "R206", cai.ErrType},
	{"data of one", with("data", t2(0x1000)), "R172", "R206", cai.ErrType},
	{"data of three", with("data", t2(0x1000, false, 1)), "R172", "R206", cai.ErrType},
	{"data list", with("data", cai.List{0x1000, false}), "R172", "R206", cai.ErrType},
	{"data int", with("data", int64(0x1000)), "R172", "R206", cai.ErrType},
	{"data str", with("data", "0x1000"), "R172", "R206", cai.ErrType},
	{"address str", with("data", t2("0x1000", false)), "R172", "R206", cai.ErrType},
	{"address float", with("data", t2(4096.0, false)), "R172", "R206", cai.ErrType},
	{"address bool", with("data", t2(true, false)), "R172", "R206", cai.ErrType},
	{"address negative", with("data", t2(int64(-8), false)), "R172", "R206", dlpack.ErrOverflow},
	{"address above 64 bits", with("data", t2(new(big.Int).Lsh(big.NewInt(1), 64), false)), "R172", "R206", dlpack.ErrOverflow},
	{"read-only int", with("data", t2(0x1000, int64(0))), "R172", "R206", cai.ErrType},
	{"read-only None", with("data", t2(0x1000, nil)), "R172", "R206", cai.ErrType},
	{"B040 address 0 with elements", with("data", t2(0, false)), "R172", "R209", dlpack.ErrNull},
	{"B040 address None with elements", with("data", t2(nil, false)), "R172", "R209", dlpack.ErrNull},
	{"B252 mask", with("mask", absent, "mask", struct{}{}), "R181", "R217", dlpack.ErrNotSupported},
	{"B252 mask array", with("mask", dict{"typestr": "|b1"}), "R181", "R217", dlpack.ErrNotSupported},
	{"B252 mask False", with("mask", false), "R181", "R217", dlpack.ErrNotSupported},
	{"R216 descr too small", with("typestr", "|V8", "descr", cai.List{t2("a", "<i4")}), "R216", "R216", dlpack.ErrDType},
	{"R216 descr too large", with("typestr", "|V4", "descr", cai.List{t2("a", "<i8")}), "R216", "R216", dlpack.ErrDType},
	{"R216 descr tuple", with("typestr", "|V4", "descr", t2(t2("a", "<i4"))), "R216", "R216", cai.ErrType},
	{"R216 descr of lists", with("typestr", "|V4", "descr", cai.List{cai.List{"a", "<i4"}}), "R216", "R216", cai.ErrType},
	{"R216 member of one", with("typestr", "|V4", "descr", cai.List{t2("a")}), "R216", "R216", cai.ErrType},
	{"R216 name int", with("typestr", "|V4", "descr", cai.List{t2(1, "<i4")}), "R216", "R216", cai.ErrType},
	{"R216 title of three", with("typestr", "|V4", "descr", cai.List{t2(t2("a", "b", "c"), "<i4")}), "R216", "R216", cai.ErrType},
	{"R216 type int", with("typestr", "|V4", "descr", cai.List{t2("a", 4)}), "R216", "R216", cai.ErrType},
	{"R216 type unknown", with("typestr", "|V4", "descr", cai.List{t2("a", "x4")}), "R203", "R203", dlpack.ErrDType},
	{"R216 shape str", with("typestr", "|V4", "descr", cai.List{t2("a", "<i4", "1")}), "R216", "R216", cai.ErrType},
	{"R216 shape negative", with("typestr", "|V4", "descr", cai.List{t2("a", "<i4", t2(-1))}), "R216", "R216", dlpack.ErrLayout},
	{"R216 shape wraps", with("typestr", "|V4", "descr", cai.List{t2("a", "<i4", t2(int64(1)<<40, int64(1)<<40))}), "R216", "R216", dlpack.ErrOverflow},
	{"R216 sum wraps", with("typestr", "|V4", "descr", cai.List{t2("a", "|V9223372036854775807"), t2("b", "|V2")}), "R216", "R216", dlpack.ErrOverflow},
	{"R216 deep", with("typestr", "|V4", "descr", deep(1000)), "R216", "R216", dlpack.ErrDType},
	{"R216 empty", with("typestr", "|V4", "descr", cai.List{}), "R216", "R216", dlpack.ErrDType},
}

func deep(n int) cai.List {
	l := cai.List{t2("a", "<i4")}
	for range n {
		l = cai.List{t2("a", l)}
	}
	return l
}

func TestParseRefuses(t *testing.T) {
	for _, c := range badDicts {
		t.Run(fmt.Sprintf("R168 %s %s", c.cai, c.name), func(t *testing.T) {
			before := maps.Clone(c.d)
			i, err := cai.Parse(c.d, nil)
			requireRule(t, err, c.cai, c.kind)
			require.Zero(t, i)
			require.Equal(t, before, c.d)
		})
	}
	t.Run("R167 no data", func(t *testing.T) {
		_, err := cai.Parse(with("data", absent), nil)
		requireRule(t, err, "R167", cai.ErrMissing)
		_, err = cai.Parse(with("data", nil), nil)
		requireRule(t, err, "R172", cai.ErrType)
	})
	for _, c := range []struct {
		stream any
		rule   string
		kind   error
	}{
		{int64(0), "R184", dlpack.ErrStream},
		{int64(-1), "R187", dlpack.ErrStream},
		{true, "R168", cai.ErrType},
		{1.0, "R168", cai.ErrType},
		{"1", "R168", cai.ErrType},
		{t2(0, 1), "R168", cai.ErrType},
		{new(big.Int).Lsh(big.NewInt(1), 64), "R187", dlpack.ErrStream},
	} {
		t.Run(fmt.Sprintf("%s B199 stream %v", c.rule, c.stream), func(t *testing.T) {
			_, err := cai.Parse(with("stream", c.stream), nil)
			requireRule(t, err, c.rule, c.kind)
		})
	}
}

func TestParseArrayInterfaceRefuses(t *testing.T) {
	for _, c := range badDicts {
		t.Run(c.numpy+" "+c.name, func(t *testing.T) {
			i, err := cai.ParseArrayInterface(c.d, nil)
			requireRule(t, err, c.numpy, c.kind)
			require.Zero(t, i)
		})
	}
	for _, c := range []struct {
		offset any
		kind   error
	}{{"4", cai.ErrType}, {4.0, cai.ErrType}, {true, cai.ErrType}, {-4, dlpack.ErrOverflow}, {uint64(math.MaxUint64), dlpack.ErrOverflow}} {
		t.Run(fmt.Sprintf("R208 offset %v", c.offset), func(t *testing.T) {
			_, err := cai.ParseArrayInterface(with("data", nil, "offset", c.offset), nil)
			requireRule(t, err, "R208", c.kind)
		})
	}
	t.Run("R206 data dict", func(t *testing.T) {
		_, err := cai.ParseArrayInterface(with("data", dict{}), nil)
		requireRule(t, err, "R206", cai.ErrType)
	})
	t.Run("R202 an array in a buffer is checked too", func(t *testing.T) {
		_, err := cai.ParseArrayInterface(with("data", nil, "shape", t2(-1)), nil)
		requireRule(t, err, "R202", dlpack.ErrLayout)
		_, err = cai.ParseArrayInterface(with("data", nil, "strides", t2(1)), nil)
		requireRule(t, err, "R213", dlpack.ErrLayout)
		_, err = cai.ParseArrayInterface(with("data", nil, "shape", t2(int64(1)<<62)), nil)
		requireRule(t, err, "R034", dlpack.ErrOverflow)
	})
}

func TestB102NegativeStrideIsNoOverflow(t *testing.T) {
	// Sizes (8), strides (-1): fine where there is memory below; the two errors
	// read differently.
	i, err := cai.Parse(with("typestr", "|i1", "shape", t2(8), "strides", t2(-1)), nil)
	require.NoError(t, err)
	require.Equal(t, []int64{-1}, i.Strides)
	_, low := cai.Parse(with("shape", t2(8), "strides", t2(-4096)), nil)
	_, wrap := cai.Parse(with("shape", t2(int64(1)<<62)), nil)
	require.NotEqual(t, low.Error(), wrap.Error())
}

func TestParseArrayInterface(t *testing.T) {
	t.Run("R206 R212 address, no strides", func(t *testing.T) {
		i, err := cai.ParseArrayInterface(good(), nil)
		require.NoError(t, err)
		require.Nil(t, i.Buffer)
		d, err := i.Desc(dlpack.CPU, nil)
		require.NoError(t, err)
		require.Equal(t, "float32[2 3] at 0x1000 on cpu:0", d.String())
	})
	t.Run("R218 any version", func(t *testing.T) {
		for _, v := range []int64{0, 1, 2, 3, 4, 99} {
			_, err := cai.ParseArrayInterface(with("version", v), nil)
			require.NoError(t, err)
		}
	})
	t.Run("R203 typestr as bytes", func(t *testing.T) {
		i, err := cai.ParseArrayInterface(with("typestr", []byte(native("<f4"))), nil)
		require.NoError(t, err)
		require.Equal(t, native("<f4"), i.Typestr.String())
	})
	t.Run("R210 no elements, address 0", func(t *testing.T) {
		_, err := cai.ParseArrayInterface(with("shape", t2(0), "data", t2(0, false)), nil)
		require.NoError(t, err)
	})
	t.Run("R211 read-only", func(t *testing.T) {
		i, err := cai.ParseArrayInterface(with("data", t2(0x1000, true)), nil)
		require.NoError(t, err)
		require.True(t, i.ReadOnly)
	})
	t.Run("R208 offset is for buffers", func(t *testing.T) {
		i, err := cai.ParseArrayInterface(with("offset", int64(4)), nil)
		require.NoError(t, err)
		require.Equal(t, uintptr(0x1000), i.Data)
	})
	t.Run("R204 foreign order is told, and refused by DLPack R291", func(t *testing.T) {
		i, err := cai.ParseArrayInterface(with("typestr", native(">f4")), nil)
		require.NoError(t, err)
		require.False(t, i.Typestr.Native())
		_, err = i.Desc(dlpack.CPU, nil)
		requireRule(t, err, "R291", dlpack.ErrDType)
	})
	t.Run("R281 B016 B092 strides that are no multiple", func(t *testing.T) {
		for _, c := range [][2]any{{28, "<c8"}, {12, "<f8"}, {3, "<i2"}} {
			i, err := cai.ParseArrayInterface(with("shape", t2(2), "strides", t2(c[0]), "typestr", native(c[1].(string))), nil)
			require.NoError(t, err, "legal as a description")
			_, err = i.Desc(dlpack.CPU, nil)
			requireRule(t, err, "R281", dlpack.ErrLayout)
		}
	})
	t.Run("misaligned address", func(t *testing.T) {
		i, err := cai.ParseArrayInterface(with("data", t2(0x1001, false)), nil)
		require.NoError(t, err)
		_, err = i.Desc(dlpack.CPU, nil)
		require.ErrorIs(t, err, dlpack.ErrAlign)
	})
	t.Run("R207 the object's own buffer", func(t *testing.T) {
		for _, d := range []dict{with("data", absent), with("data", nil)} {
			d["offset"] = int64(8)
			i, err := cai.ParseArrayInterface(d, nil)
			require.NoError(t, err)
			require.Nil(t, i.Buffer.Object)
			require.Equal(t, int64(8), i.Buffer.Offset)
			_, err = i.Desc(dlpack.CPU, nil)
			requireRule(t, err, "R207", dlpack.ErrNull)
			r, err := i.Resolve(0x2000, 32, true)
			require.NoError(t, err)
			require.Equal(t, uintptr(0x2008), r.Data)
			require.True(t, r.ReadOnly)
			require.Nil(t, r.Buffer)
			_, err = i.Resolve(0x2000, 31, false)
			requireRule(t, err, "R208", dlpack.ErrLayout)
			_, err = i.Resolve(0x2000, 7, false)
			requireRule(t, err, "R208", dlpack.ErrLayout)
			_, err = i.Resolve(math.MaxUint-4, 64, false)
			requireRule(t, err, "R034", dlpack.ErrOverflow)
			_, err = i.Resolve(0x2000, -1, false)
			requireRule(t, err, "R208", dlpack.ErrLayout)
		}
	})
	t.Run("R208 negative strides in a buffer", func(t *testing.T) {
		i, err := cai.ParseArrayInterface(with("data", nil, "offset", 20, "shape", t2(6), "strides", t2(-4)), nil)
		require.NoError(t, err)
		r, err := i.Resolve(0x2000, 24, false)
		require.NoError(t, err)
		require.Equal(t, uintptr(0x2014), r.Data)
		i.Buffer.Offset = 16
		_, err = i.Resolve(0x2000, 24, false)
		requireRule(t, err, "R208", dlpack.ErrLayout)
		i.Buffer.Offset = -1
		_, err = i.Resolve(0x2000, 24, false)
		requireRule(t, err, "R208", dlpack.ErrOverflow)
	})
	t.Run("R206 another object's buffer", func(t *testing.T) {
		object := &struct{ n int }{1}
		i, err := cai.ParseArrayInterface(with("data", object), nil)
		require.NoError(t, err)
		require.Same(t, object, i.Buffer.Object)
		require.Same(t, object, i.Map()["data"])
		i, err = cai.ParseArrayInterface(with("data", []byte("raw")), nil) // bytes have a buffer
		require.NoError(t, err)
		require.NotNil(t, i.Buffer)
	})
	t.Run("resolving an address changes nothing", func(t *testing.T) {
		i, err := cai.ParseArrayInterface(good(), nil)
		require.NoError(t, err)
		r, err := i.Resolve(0x9000, 1, true)
		require.NoError(t, err)
		require.Equal(t, i, r)
	})
	t.Run("R215 R216 descr", func(t *testing.T) {
		descr := cai.List{
			t2(t2("title", "a"), "<i4", t2(2)),
			t2("", "|V4"),
			t2("n", cai.List{t2("x", "|u1"), t2("y", ">i2", int64(1))}),
			t2("z", "|b1", t2()),
		}
		i, err := cai.ParseArrayInterface(with("typestr", "|V16", "descr", descr), nil)
		require.NoError(t, err)
		require.Len(t, i.Descr, 4)
		require.Equal(t, "title", i.Descr[0].Title)
		require.Equal(t, "a", i.Descr[0].Name)
		require.Equal(t, []int64{2}, i.Descr[0].Shape)
		require.Equal(t, "y", i.Descr[2].Fields[1].Name)
		require.NoError(t, i.Check())
		again, err := cai.ParseArrayInterface(i.Map(), nil)
		require.NoError(t, err)
		require.Equal(t, i, again)
		_, err = i.Desc(dlpack.CPU, &cai.DTypeOptions{As: dlpack.Complex128})
		requireRule(t, err, "R285", dlpack.ErrDType) // a structure is no number
	})
}

func TestCheckByHand(t *testing.T) {
	i := cai.Interface{Array: cai.Array{Version: 2, Data: 8, Typestr: cai.Typestr{Order: cai.NativeOrder, Kind: 'f', Size: 4}}}
	require.NoError(t, i.Check())
	i.Stream = cai.LegacyDefault
	requireRule(t, i.Check(), "R183", dlpack.ErrStream)
	i.Stream = cai.NoStream
	i.Strides = []int64{}
	require.NoError(t, i.Check())
	for _, ts := range []cai.Typestr{
		{},
		{Order: '<', Kind: 'f', Size: 3},
		{Order: '<', Kind: 'V', Size: -1},
		{Order: '!', Kind: 'f', Size: 4},
		{Order: '<', Kind: 'f', Size: 4, Unit: cai.TimeUnit{Name: "s", Num: 1, Den: 1}},
		{Order: '<', Kind: 'M', Size: 8},
		{Order: '<', Kind: 'M', Size: 8, Unit: cai.TimeUnit{Name: "s", Num: -1, Den: 1}},
		{Order: '<', Kind: 'U', Size: math.MaxInt64},
	} {
		i.Typestr = ts
		requireRule(t, i.Check(), "R170", dlpack.ErrDType)
	}
	i.Version = -1
	requireRule(t, i.Check(), "R197", dlpack.ErrVersion)
}

func TestErrorText(t *testing.T) {
	_, err := cai.Parse(with("shape", t2(2, -1)), nil)
	require.EqualError(t, err, "cai: parse: extent -1 of axis 1 is negative (R169): invalid layout")
	_, err = cai.Parse(with("stream", int64(0)), nil)
	require.True(t, strings.Contains(err.Error(), "1 is the legacy default stream"), "%v", err)
}
