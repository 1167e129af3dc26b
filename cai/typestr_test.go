package cai_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/dlpack"
)

// requireRule checks the kind of an error and the rule that it names.
func requireRule(t require.TestingT, err error, rule string, kind error) {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	require.ErrorIs(t, err, kind)
	var r *dlpack.RuleError
	require.ErrorAs(t, err, &r)
	require.Equal(t, rule, r.Rule, "%v", err)
	require.NotEmpty(t, r.Op)
	require.NotEmpty(t, r.Detail)
}

// native writes a typestring for this machine: "<" stands for its own order.
func native(s string) string {
	if cai.NativeOrder == cai.BigEndian && s != "" {
		switch s[0] {
		case '<':
			return ">" + s[1:]
		case '>':
			return "<" + s[1:]
		}
	}
	return s
}

// pairs are the typestrings that have a DLPack type, both ways.
var pairs = []struct {
	typestr string
	dtype   dlpack.DataType
}{
	{"|b1", dlpack.Bool},
	{"|i1", dlpack.Int8},
	{"<i2", dlpack.Int16},
	{"<i4", dlpack.Int32},
	{"<i8", dlpack.Int64},
	{"|u1", dlpack.UInt8},
	{"<u2", dlpack.UInt16},
	{"<u4", dlpack.UInt32},
	{"<u8", dlpack.UInt64},
	{"<f2", dlpack.Float16},
	{"<f4", dlpack.Float32},
	{"<f8", dlpack.Float64},
	{"<c8", dlpack.Complex64},
	{"<c16", dlpack.Complex128},
}

func TestTypestrPairs(t *testing.T) {
	for _, p := range pairs {
		t.Run("B081 "+p.typestr, func(t *testing.T) {
			s := native(p.typestr)
			ts, err := cai.ParseTypestr(s)
			require.NoError(t, err)
			require.Equal(t, s, ts.String())
			d, err := ts.DType(nil)
			require.NoError(t, err)
			require.Equal(t, p.dtype, d)
			require.Equal(t, int64(d.ItemSize()), ts.ItemSize())
			back, err := cai.FormatTypestr(d)
			require.NoError(t, err)
			require.Equal(t, s, back)
			of, err := cai.TypestrOf(d)
			require.NoError(t, err)
			require.Equal(t, ts, of)
		})
	}
}

func TestParseTypestr(t *testing.T) {
	for _, c := range []struct {
		name, in, out string
		size          int64
	}{
		{"R170 native sign", "=f4", "<f4", 4},
		{"R170 no order", "f4", "<f4", 4},
		{"R170 no order, one byte", "u1", "|u1", 1},
		{"R170 bar on eight bytes is read as native", "|f8", "|f8", 8},
		{"R170 order on one byte is harmless", "<i1", "<i1", 1},
		{"R170 foreign order parses", ">i4", ">i4", 4},
		{"R170 leading zero", "<f04", "<f4", 4},
		{"R205 unicode has four bytes a character", "<U3", "<U3", 12},
		{"R170 bytes", "|S5", "|S5", 5},
		{"R170 raw", "|V4", "|V4", 4},
		{"R170 raw with an order", "<V2", "<V2", 2},
		{"R170 nothing", "|V0", "|V0", 0},
		{"R170 object", "|O8", "|O8", 8},
		{"R170 object as NumPy writes it", "|O", fmt.Sprintf("|O%d", strconv.IntSize/8), strconv.IntSize / 8},
		{"R170 bits count bits", "|t12", "|t12", 2},
		{"R170 long double", "<f16", "<f16", 16},
		{"R220 unit", "<M8[ns]", "<M8[ns]", 8},
		{"R220 multiple", "<m8[25s]", "<m8[25s]", 8},
		{"R220 divided", "<m8[s/3]", "<m8[s/3]", 8},
		{"R220 both", ">M8[7us/100]", ">M8[7us/100]", 8},
		{"R220 generic", "<m8[generic]", "<m8[generic]", 8},
		{"R220 one is not written", "<m8[1s/1]", "<m8[s]", 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := c.in
			if len(in) > 0 && (in[0] == '<' || in[0] == '>') {
				in = native(in)
			}
			ts, err := cai.ParseTypestr(in)
			require.NoError(t, err)
			require.Equal(t, native(c.out), ts.String())
			require.Equal(t, c.size, ts.ItemSize())
			again, err := cai.ParseTypestr(ts.String())
			require.NoError(t, err)
			require.Equal(t, ts, again)
		})
	}
}

func TestParseTypestrRefuses(t *testing.T) {
	for _, c := range []struct {
		in, rule string
		kind     error
	}{
		{"", "R203", dlpack.ErrDType},
		{"<", "R203", dlpack.ErrDType},
		{"<f", "R203", dlpack.ErrDType},
		{"f", "R203", dlpack.ErrDType},
		{"4", "R203", dlpack.ErrDType},
		{"<x4", "R203", dlpack.ErrDType},
		{"<f3", "R203", dlpack.ErrDType},
		{"<i16", "R203", dlpack.ErrDType},
		{"|b2", "R203", dlpack.ErrDType},
		{"<c2", "R203", dlpack.ErrDType},
		{"<f4 ", "R203", dlpack.ErrDType},
		{" <f4", "R203", dlpack.ErrDType},
		{"<f-4", "R203", dlpack.ErrDType},
		{"<f+4", "R203", dlpack.ErrDType},
		{"<<f4", "R203", dlpack.ErrDType},
		{"<f4[s]", "R203", dlpack.ErrDType},
		{"float32", "R203", dlpack.ErrDType},
		{"bfloat16", "R203", dlpack.ErrDType},
		{"<f\u0664", "R203", dlpack.ErrDType},
		{"<M8", "R220", dlpack.ErrDType},
		{"<M8[]", "R220", dlpack.ErrDType},
		{"<M8[fortnight]", "R220", dlpack.ErrDType},
		{"<M8[0s]", "R220", dlpack.ErrDType},
		{"<M8[s/0]", "R220", dlpack.ErrDType},
		{"<M8[s/]", "R220", dlpack.ErrDType},
		{"<M8[s", "R220", dlpack.ErrDType},
		{"<M8[+1s]", "R220", dlpack.ErrDType},
		{"<M8[s/+1]", "R220", dlpack.ErrDType},
		{"<m4[s]", "R203", dlpack.ErrDType},
		{"|V99999999999999999999", "R203", dlpack.ErrOverflow},
		{"<U4611686018427387904", "R205", dlpack.ErrOverflow},
	} {
		t.Run(c.rule+" "+c.in, func(t *testing.T) {
			_, err := cai.ParseTypestr(c.in)
			requireRule(t, err, c.rule, c.kind)
		})
	}
	_, err := cai.ParseTypestr(string(make([]byte, 1<<20)))
	require.Less(t, len(err.Error()), 500, "the message does not repeat a megabyte")
}

func TestTypestrDType(t *testing.T) {
	for _, c := range []struct{ name, in, rule string }{
		{"R291 foreign order", ">i4", "R291"},
		{"R291 foreign complex", ">c8", "R291"},
		{"R285 long double", "<f16", "R285"},
		{"R285 long double of a small machine", "<f12", "R285"},
		{"R285 B095 complex of 256 bits", "<c32", "R285"},
		{"R285 dates", "<M8[ns]", "R285"},
		{"R285 differences", "<m8[s]", "R285"},
		{"R285 bytes", "|S5", "R285"},
		{"R285 text", "<U3", "R285"},
		{"R285 objects", "|O8", "R285"},
		{"R285 bits", "|t8", "R285"},
		{"R286 two raw bytes are not bfloat16", "<V2", "R286"},
		{"R286 one raw byte is not an fp8", "|V1", "R286"},
		{"R286 f1", "<f1", "R286"},
		{"R286 no raw bytes", "|V0", "R286"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ts, err := cai.ParseTypestr(native(c.in))
			require.NoError(t, err)
			_, err = ts.DType(nil)
			requireRule(t, err, c.rule, dlpack.ErrDType)
		})
	}
	dtype := func(s string, o cai.DTypeOptions) (dlpack.DataType, error) {
		ts, err := cai.ParseTypestr(s)
		require.NoError(t, err)
		return ts.DType(&o)
	}
	t.Run("R286 the caller says so", func(t *testing.T) {
		d, err := dtype("|V2", cai.DTypeOptions{As: dlpack.BFloat16})
		require.NoError(t, err)
		require.Equal(t, dlpack.BFloat16, d)
		d, err = dtype(native("<f1"), cai.DTypeOptions{As: dlpack.Float8E5M2})
		require.NoError(t, err)
		require.Equal(t, dlpack.Float8E5M2, d)
		_, err = dtype("|V4", cai.DTypeOptions{As: dlpack.BFloat16})
		requireRule(t, err, "R286", dlpack.ErrDType)
		_, err = dtype("|V1", cai.DTypeOptions{As: dlpack.Float4E2M1FN}) // packed or padded? not said
		requireRule(t, err, "R286", dlpack.ErrDType)
		d, err = dtype(native("<f4"), cai.DTypeOptions{As: dlpack.Int32})
		require.NoError(t, err)
		require.Equal(t, dlpack.Float32, d, "a type that says what it is stays")
	})
	t.Run("times by request", func(t *testing.T) {
		d, err := dtype(native("<M8[ns]"), cai.DTypeOptions{TimesAsInt64: true})
		require.NoError(t, err)
		require.Equal(t, dlpack.Int64, d)
		_, err = dtype(native(">M8[ns]"), cai.DTypeOptions{TimesAsInt64: true})
		requireRule(t, err, "R291", dlpack.ErrDType)
	})
	t.Run("R289 B079 bool is never an integer", func(t *testing.T) {
		d, err := dtype("|b1", cai.DTypeOptions{})
		require.NoError(t, err)
		require.Equal(t, dlpack.Bool, d)
		d, err = dtype("|u1", cai.DTypeOptions{})
		require.NoError(t, err)
		require.Equal(t, dlpack.UInt8, d)
	})
	t.Run("complex32 can be read", func(t *testing.T) {
		d, err := dtype(native("<c4"), cai.DTypeOptions{})
		require.NoError(t, err)
		require.Equal(t, dlpack.Complex32, d)
	})
}

func TestTypestrOfRefuses(t *testing.T) {
	for _, d := range []dlpack.DataType{
		dlpack.BFloat16, dlpack.Complex32, dlpack.BComplex32, dlpack.Float8E4M3FN, dlpack.Float8E5M2,
		dlpack.Float6E2M3FN, dlpack.Float4E2M1FN, dlpack.Float4E2M1FNx2, dlpack.Int4, dlpack.UInt4, dlpack.OpaqueHandle64,
		{},
		{Code: dlpack.CodeFloat, Bits: 32, Lanes: 4},
		{Code: dlpack.CodeFloat, Bits: 8, Lanes: 1},
		{Code: dlpack.CodeInt, Bits: 24, Lanes: 1},
		{Code: 200, Bits: 8, Lanes: 1}, // B086: an unknown code never becomes int8
	} {
		t.Run("R285 "+d.String(), func(t *testing.T) {
			_, err := cai.FormatTypestr(d)
			requireRule(t, err, "R285", dlpack.ErrDType)
		})
	}
}

// genTypestr makes valid ones.
func genTypestr() *rapid.Generator[cai.Typestr] {
	return rapid.Custom(func(t *rapid.T) cai.Typestr {
		kinds := map[byte][]int64{
			'b': {1}, 'i': {1, 2, 4, 8}, 'u': {1, 2, 4, 8}, 'f': {1, 2, 4, 8, 12, 16}, 'c': {4, 8, 16, 24, 32},
			'm': {8}, 'M': {8}, 'O': {4, 8}, 'S': {0, 1, 77}, 'U': {0, 1, 77}, 'V': {0, 1, 2, 16}, 't': {1, 7, 9},
		}
		ts := cai.Typestr{
			Order: rapid.SampledFrom([]byte("<>|")).Draw(t, "order"),
			Kind:  rapid.SampledFrom([]byte("biufcmMOSUVt")).Draw(t, "kind"),
		}
		ts.Size = rapid.SampledFrom(kinds[ts.Kind]).Draw(t, "size")
		if ts.Kind == 'm' || ts.Kind == 'M' {
			ts.Unit = cai.TimeUnit{
				Name: rapid.SampledFrom([]string{"Y", "m", "ms", "as", "generic"}).Draw(t, "unit"),
				Num:  rapid.Int64Range(1, 1<<40).Draw(t, "num"), Den: rapid.Int64Range(1, 1<<40).Draw(t, "den"),
			}
		}
		return ts
	})
}

func TestTypestrRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ts := genTypestr().Draw(t, "typestr")
		again, err := cai.ParseTypestr(ts.String())
		require.NoError(t, err)
		require.Equal(t, ts, again)
	})
}

func FuzzTypestr(f *testing.F) {
	for _, p := range pairs {
		f.Add(p.typestr)
	}
	for _, s := range []string{"", "<U3", "|V16", "<M8[25s/3]", "=f4", "f", "<f99999999999999999999", "|t12", "<m8[generic]", "<M8[-1s]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ts, err := cai.ParseTypestr(s)
		if err != nil {
			var r *dlpack.RuleError
			require.ErrorAs(t, err, &r)
			require.True(t, errors.Is(err, dlpack.ErrDType) || errors.Is(err, dlpack.ErrOverflow))
			return
		}
		require.GreaterOrEqual(t, ts.ItemSize(), int64(0))
		again, err := cai.ParseTypestr(ts.String())
		require.NoError(t, err)
		require.Equal(t, ts, again)
		if d, err := ts.DType(nil); err == nil {
			require.NoError(t, d.Check())
			require.Equal(t, ts.ItemSize(), int64(d.ItemSize()))
		}
	})
}
