package cai_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/dlpack"
)

// foreign is the order character of the other machines.
func foreign() string {
	if cai.NativeOrder == cai.LittleEndian {
		return ">"
	}
	return "<"
}

// long is what l and L mean here with a native size.
func long(unsigned bool) (dlpack.DataType, int64) {
	f, _ := cai.ParseFormat("l")
	d := dlpack.DataType{Code: dlpack.CodeInt, Bits: uint8(8 * f.Size), Lanes: 1}
	if unsigned {
		d.Code = dlpack.CodeUInt
	}
	return d, f.Size
}

func TestFormatDType(t *testing.T) {
	own := string(cai.NativeOrder)
	longD, longSize := long(false)
	ulongD, _ := long(true)
	for _, c := range []struct {
		name, format string
		itemsize     int64
		want         dlpack.DataType
	}{
		{"R233 what NULL means", "B", 1, dlpack.UInt8},
		{"R289 bool", "?", 1, dlpack.Bool},
		{"char is a raw byte", "c", 1, dlpack.UInt8},
		{"int8", "b", 1, dlpack.Int8},
		{"int16", "h", 2, dlpack.Int16},
		{"uint16", "H", 2, dlpack.UInt16},
		{"int32", "i", 4, dlpack.Int32},
		{"uint32", "I", 4, dlpack.UInt32},
		{"R249 l native", "l", longSize, longD},
		{"R249 L native", "L", longSize, ulongD},
		{"R249 l after @", "@l", longSize, longD},
		{"R249 l after ^", "^l", longSize, longD},
		{"R249 l after =", "=l", 4, dlpack.Int32},
		{"R249 L after =", "=L", 4, dlpack.UInt32},
		{"R249 l after own order", own + "l", 4, dlpack.Int32},
		{"int64", "q", 8, dlpack.Int64},
		{"uint64", "Q", 8, dlpack.UInt64},
		{"half", "e", 2, dlpack.Float16},
		{"float", "f", 4, dlpack.Float32},
		{"double", "d", 8, dlpack.Float64},
		{"R253 Zf", "Zf", 8, dlpack.Complex64},
		{"R253 Zd", "Zd", 16, dlpack.Complex128},
		{"R253 F", "F", 8, dlpack.Complex64},
		{"R253 D", "D", 16, dlpack.Complex128},
		{"R253 Ze", "Ze", 4, dlpack.Complex32},
		{"R248 own order", own + "f", 4, dlpack.Float32},
		{"R248 last order wins", foreign() + own + "f", 4, dlpack.Float32},
		{"R248 order then space", own + " f", 4, dlpack.Float32},
		{"whitespace", " f\t\n", 4, dlpack.Float32},
		{"R252 foreign single byte", foreign() + "b", 1, dlpack.Int8},
		{"R252 ! single byte", "!?", 1, dlpack.Bool},
		{"R251 a count of one", "1f", 4, dlpack.Float32},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := cai.FormatDType(c.format, c.itemsize)
			require.NoError(t, err)
			require.Equal(t, c.want, d)
			f, err := cai.ParseFormat(c.format)
			require.NoError(t, err)
			slow, err := f.DType(c.itemsize)
			require.NoError(t, err)
			require.Equal(t, d, slow, "the short way and the parser agree")
		})
	}
}

func TestFormatDTypeRefuses(t *testing.T) {
	for _, c := range []struct {
		name, format string
		itemsize     int64
		rule         string
	}{
		{"R247 smaller", "f", 8, "R247"},
		{"R247 larger", "d", 4, "R247"},
		{"R247 l is not 4 bytes under =", "=l", 8, "R247"},
		{"R259 zero", "f", 0, "R259"},
		{"R259 negative", "f", -4, "R259"},
		{"R250 n after =", "=n", 8, "R250"},
		{"R250 N after <", "<N", 8, "R250"},
		{"R250 sticky", "=in", 12, "R250"},
		{"R251 object", "O", 8, "R251"},
		{"R251 pointer", "P", 8, "R251"},
		{"R251 pointer to", "&i", 8, "R251"},
		{"R251 function", "X{}", 8, "R251"},
		{"R251 UCS2", "u", 2, "R251"},
		{"R251 UCS4", "w", 4, "R251"},
		{"R251 text", "3w", 12, "R251"},
		{"R251 bytes", "5s", 5, "R251"},
		{"R251 Pascal", "5p", 5, "R251"},
		{"R251 bit", "t", 1, "R251"},
		{"R251 pad", "x", 1, "R251"},
		{"R251 void", "4x", 4, "R251"},
		{"R251 structure", "T{i:a:d:b:}", 16, "R251"},
		{"R251 structure of one", "T{i}", 4, "R251"},
		{"R251 subarray", "(2,3)i", 24, "R251"},
		{"R251 subarray of one", "(1)i", 4, "R251"},
		{"R251 count", "3i", 12, "R251"},
		{"R251 count of nothing", "0i", 4, "R251"},
		{"R251 two members", "ii", 8, "R251"},
		{"R251 member and padding", "ix", 5, "R251"},
		{"R251 name", "i:x:", 4, "R251"},
		{"R251 nothing", "", 1, "R251"},
		{"R285 long double", "g", 16, "R285"},
		{"R285 complex long double", "Zg", 32, "R285"},
		{"R252 R291 foreign order", foreign() + "i", 4, "R252"},
		{"R252 foreign complex", foreign() + "Zf", 8, "R252"},
		{"R254 no format for bfloat16", "bfloat16", 2, "R251"},
		{"R251 unknown", "y", 1, "R251"},
		{"R251 G", "G", 32, "R251"},
		{"R253 Z alone", "Z", 8, "R253"},
		{"R253 Zi", "Zi", 8, "R253"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := cai.FormatDType(c.format, c.itemsize)
			requireRule(t, err, c.rule, dlpack.ErrDType)
		})
	}
}

func TestParseFormat(t *testing.T) {
	for _, c := range []struct {
		format      string
		size, align int64
		offsets     []int64
	}{
		{"i", 4, 4, []int64{0}},
		{"bi", 8, 4, []int64{0, 4}},
		{"^bi", 5, 1, []int64{0, 1}},
		{"=bi", 5, 1, []int64{0, 1}},
		{"bq", 16, 8, []int64{0, 8}},
		{"b2i", 12, 4, []int64{0, 4}},
		{"b(2,3)h", 14, 2, []int64{0, 2}},
		{"(2)3i", 24, 4, []int64{0}},
		{"T{i:a:d:b:}", 16, 8, []int64{0}},
		{"T{i:a:=d:b:}", 12, 4, []int64{0}},
		{"T{i:a:=d:b:}:s:l", 16, 4, []int64{0, 12}}, // = holds behind the brace: l has 4 bytes
		{"T{T{b:x:i:y:}:n:b:c:}", 9, 4, []int64{0}},
		{"b:a:xxxi:b:", 8, 4, []int64{0, 1, 2, 3, 4}},
		{"5s3w", 20, 4, []int64{0, 8}},
		{"=5s3w", 17, 1, []int64{0, 5}},
		{"12t", 2, 1, []int64{0}},
		{"0i", 0, 4, []int64{0}},
		{"b0q", 8, 8, []int64{0, 8}},
		{"Zdb", 17, 8, []int64{0, 16}},
		{"i <", 4, 4, []int64{0}},
		{"", 0, 1, nil},
	} {
		t.Run(c.format, func(t *testing.T) {
			f, err := cai.ParseFormat(c.format)
			require.NoError(t, err)
			require.Equal(t, c.size, f.Size)
			require.Equal(t, c.align, f.Align)
			var offsets []int64
			for _, it := range f.Items {
				offsets = append(offsets, it.Offset)
			}
			require.Equal(t, c.offsets, offsets)
		})
	}
	f, err := cai.ParseFormat("T{<i:a b:&d:p:}:s:")
	require.NoError(t, err)
	require.Equal(t, "s", f.Items[0].Name)
	in := f.Items[0].Fields.Items
	require.Equal(t, "a b", in[0].Name)
	require.Equal(t, byte('<'), in[0].Order)
	require.Equal(t, byte('&'), in[1].Type)
	require.Equal(t, "p", in[1].Name)
	require.Equal(t, int64(-1), in[1].Count)
}

func TestParseFormatRefuses(t *testing.T) {
	for _, c := range []struct {
		format, rule string
		kind         error
	}{
		{"T{i", "R251", dlpack.ErrDType},
		{"i}", "R251", dlpack.ErrDType},
		{"T", "R251", dlpack.ErrDType},
		{"Ti", "R251", dlpack.ErrDType},
		{"X", "R251", dlpack.ErrDType},
		{"X{", "R251", dlpack.ErrDType},
		{"&", "R251", dlpack.ErrDType},
		{"& i", "R251", dlpack.ErrDType},
		{"3", "R251", dlpack.ErrDType},
		{"()i", "R251", dlpack.ErrDType},
		{"(2i", "R251", dlpack.ErrDType},
		{"(2,)i", "R251", dlpack.ErrDType},
		{"(-2)i", "R251", dlpack.ErrDType},
		{"i:x", "R251", dlpack.ErrDType},
		{"i\x00", "R251", dlpack.ErrDType},
		{"=P", "R251", dlpack.ErrDType},
		{"(" + strings.Repeat("1,", 64) + "1)i", "R255", dlpack.ErrLayout},
		{"99999999999999999999i", "R247", dlpack.ErrOverflow},
		{"9223372036854775807i", "R247", dlpack.ErrOverflow},
		{"9223372036854775807b b", "R247", dlpack.ErrOverflow},
		{"9223372036854775807b i", "R247", dlpack.ErrOverflow},
		{"(4294967296,4294967296)i", "R247", dlpack.ErrOverflow},
		{strings.Repeat("T{", 1000), "R251", dlpack.ErrDType},
		{strings.Repeat("&", 1000) + "i", "R251", dlpack.ErrDType},
		{strings.Repeat("b", 1<<17), "R251", dlpack.ErrDType},
	} {
		name := c.format[:min(len(c.format), 20)]
		t.Run(c.rule+" "+name, func(t *testing.T) {
			_, err := cai.ParseFormat(c.format)
			requireRule(t, err, c.rule, c.kind)
		})
	}
}

func TestFormatOf(t *testing.T) {
	for _, p := range pairs {
		t.Run("B081 "+p.dtype.String(), func(t *testing.T) {
			s, err := cai.FormatOf(p.dtype)
			require.NoError(t, err)
			d, err := cai.FormatDType(s, int64(p.dtype.ItemSize()))
			require.NoError(t, err)
			require.Equal(t, p.dtype, d)
		})
	}
	for d, rule := range map[dlpack.DataType]string{
		dlpack.BFloat16: "R254", dlpack.Float8E4M3FN: "R254", dlpack.Float4E2M1FN: "R254", dlpack.Complex32: "R285",
		dlpack.Int4: "R285", {Code: dlpack.CodeFloat, Bits: 32, Lanes: 2}: "R285", {}: "R285", dlpack.OpaqueHandle64: "R285",
	} {
		_, err := cai.FormatOf(d)
		requireRule(t, err, rule, dlpack.ErrDType)
	}
}

func TestFormatAllocs(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = cai.FormatDType("d", 8)
		_, _ = cai.FormatDType("<i", 4)
		_, _ = cai.FormatDType("Zd", 16)
	}))
}

func FuzzFormat(f *testing.F) {
	for _, s := range []string{
		"i", "<i", "T{i:a:d:b:}", "(2,3)i", "3i", "5s", "3w", "Zd", "T{<i:a:=d:b:}", "^bi", "&i", "X{}", "12t", "", "=n", "T{T{b}:a:}", "@ i <b", "()", "(99999999999)99999999999q",
	} {
		f.Add(s, int64(4))
	}
	f.Fuzz(func(t *testing.T, s string, itemsize int64) {
		quick, quickErr := cai.FormatDType(s, itemsize)
		f, err := cai.ParseFormat(s)
		if err != nil {
			require.Error(t, quickErr)
			return
		}
		require.GreaterOrEqual(t, f.Size, int64(0))
		require.GreaterOrEqual(t, f.Align, int64(1))
		end := int64(0)
		for _, it := range f.Items {
			require.GreaterOrEqual(t, it.Offset, end)
			require.GreaterOrEqual(t, it.Size, int64(0))
			end = it.Offset + it.Size
		}
		require.Equal(t, f.Size, end)
		d, err := f.DType(itemsize)
		require.Equal(t, err == nil, quickErr == nil, "%q %d: %v %v", s, itemsize, err, quickErr)
		require.Equal(t, d, quick)
		if err == nil {
			require.NoError(t, d.Check())
			require.Equal(t, itemsize, int64(d.ItemSize()))
		}
	})
}
