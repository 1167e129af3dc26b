package dlpack_test

import (
	"errors"
	"math"
	"testing"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/dlpack/minifloat"
	"github.com/stretchr/testify/require"
	"github.com/x448/float16"
	"pgregory.net/rapid"
)

// requireRule checks that err wraps kind and names the rule.
func requireRule(t *testing.T, err, kind error, rule string) {
	t.Helper()
	require.ErrorIs(t, err, kind)
	var re *dlpack.RuleError
	require.ErrorAs(t, err, &re)
	require.Equal(t, rule, re.Rule, "%v", err)
	require.NotEqual(t, kind, err, "the sentinel is wrapped")
}

func TestDataTypeCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		d    dlpack.DataType
		rule string // empty if valid
	}{
		{"int8", dlpack.Int8, ""},
		{"int4 is legal", dlpack.Int4, ""},
		{"int2 is legal", dlpack.DataType{Code: 0, Bits: 2, Lanes: 1}, ""},
		{"int24 is legal", dlpack.DataType{Code: 0, Bits: 24, Lanes: 1}, ""},
		{"R027 int12 has no layout", dlpack.DataType{Code: 0, Bits: 12, Lanes: 1}, "R027"},
		{"R027 float8 of code 2", dlpack.DataType{Code: 2, Bits: 8, Lanes: 1}, "R027"},
		{"R027 float128", dlpack.DataType{Code: 2, Bits: 128, Lanes: 1}, "R027"},
		{"R022 fp6 with 8 bits", dlpack.DataType{Code: 15, Bits: 8, Lanes: 1}, "R022"},
		{"R022 fp6 e3m2 with 4 bits", dlpack.DataType{Code: 16, Bits: 4, Lanes: 1}, "R022"},
		{"R022 fp6", dlpack.Float6E3M2FN, ""},
		{"R023 fp4 with 8 bits", dlpack.DataType{Code: 17, Bits: 8, Lanes: 1}, "R023"},
		{"R023 fp4", dlpack.Float4E2M1FN, ""},
		{"R024 bool with 1 bit", dlpack.DataType{Code: 6, Bits: 1, Lanes: 1}, "R024"},
		{"R024 bool with 2 lanes", dlpack.DataType{Code: 6, Bits: 8, Lanes: 2}, "R024"},
		{"R025 complex48", dlpack.DataType{Code: 5, Bits: 48, Lanes: 1}, "R025"},
		{"R025 B095 complex64 counts both parts", dlpack.Complex64, ""},
		{"R026 bfloat16", dlpack.BFloat16, ""},
		{"R026 B090 bfloat32", dlpack.DataType{Code: 4, Bits: 32, Lanes: 1}, "R026"},
		{"R026 B090 bfloat8", dlpack.DataType{Code: 4, Bits: 8, Lanes: 1}, "R026"},
		{"R027 B086 code 200", dlpack.DataType{Code: 200, Bits: 8, Lanes: 1}, "R027"},
		{"R027 code 19", dlpack.DataType{Code: 19, Bits: 8, Lanes: 1}, "R027"},
		{"R028 lanes are part of the type", dlpack.DataType{Code: 2, Bits: 32, Lanes: 4}, ""},
		{"R029 no lanes", dlpack.DataType{Code: 2, Bits: 32, Lanes: 0}, "R029"},
		{"R029 B095 no bits: what 256 wraps to", dlpack.DataType{Code: 5, Bits: 0, Lanes: 1}, "R029"},
		{"R029 zero value", dlpack.DataType{}, "R029"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.d.Check()
			require.Equal(t, c.rule == "", c.d.Known())
			if c.rule == "" {
				require.NoError(t, err)
				return
			}
			requireRule(t, err, dlpack.ErrDType, c.rule)
			require.Contains(t, err.Error(), c.d.String())
		})
	}
}

func TestDataTypeNames(t *testing.T) {
	for _, c := range []struct {
		d    dlpack.DataType
		name string
	}{
		{dlpack.Float32, "float32"},
		{dlpack.BFloat16, "bfloat16"},
		{dlpack.Bool, "bool"},
		{dlpack.UInt4, "uint4"},
		{dlpack.Complex32, "complex32"},
		{dlpack.BComplex32, "bcomplex32"},
		{dlpack.OpaqueHandle64, "handle64"},
		{dlpack.Float8E4M3FN, "float8_e4m3fn"},
		{dlpack.Float8E4M3B11FNUZ, "float8_e4m3b11fnuz"},
		{dlpack.Float4E2M1FN, "float4_e2m1fn"},
		{dlpack.Float4E2M1FNx2, "float4_e2m1fnx2"},
		{dlpack.DataType{Code: 2, Bits: 32, Lanes: 4}, "float32x4"},
		{dlpack.DataType{Code: 5, Bits: 64, Lanes: 2}, "complex64x2"},
		{dlpack.DataType{Code: 200, Bits: 8, Lanes: 1}, "code200_8"},
		{dlpack.DataType{Code: 6, Bits: 1, Lanes: 1}, "code6_1"},
		{dlpack.DataType{Code: 10, Bits: 16, Lanes: 3}, "code10_16x3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.name, c.d.String())
			got, err := dlpack.ParseDataType(c.name)
			require.NoError(t, err)
			require.Equal(t, c.d, got)
		})
	}
	for _, s := range []string{"", "float", "float032", "float32x1", "float32x", "x2", "int-8", "int+8", "int256", "code6_8", "code2_32", "code300_8", "code1", "float8_e4m3fn8", "FLOAT32", "complex", "complexx2", "float32x65536", " float32"} {
		t.Run("no name "+s, func(t *testing.T) {
			_, err := dlpack.ParseDataType(s)
			require.ErrorIs(t, err, dlpack.ErrDType)
		})
	}
}

func TestTypeCode(t *testing.T) {
	require.Equal(t, "float8_e5m2", dlpack.CodeFloat8E5M2.String())
	require.Equal(t, "complex", dlpack.CodeComplex.String())
	require.Equal(t, "code19", dlpack.TypeCode(19).String())
	require.True(t, dlpack.CodeBcomplex.Known())
	require.False(t, dlpack.TypeCode(19).Known())
}

func TestDataTypeNamesRoundTrip(t *testing.T) {
	// B086: every triple has a name of its own and is read back.
	seen := map[string]dlpack.DataType{}
	for code := range 256 {
		for bits := range 256 {
			for _, lanes := range []uint16{0, 1, 2, 65535} {
				d := dlpack.DataType{Code: dlpack.TypeCode(code), Bits: uint8(bits), Lanes: lanes}
				s := d.String()
				if other, dup := seen[s]; dup {
					t.Fatalf("%v and %v are both %q", d, other, s)
				}
				seen[s] = d
				if got, err := dlpack.ParseDataType(s); err != nil || got != d {
					t.Fatalf("%q gives %v, %v", s, got, err)
				}
			}
		}
	}
}

func FuzzParseDataType(f *testing.F) {
	for _, s := range []string{"float32", "bool", "float4_e2m1fnx2", "code200_8", "complex64x2", "x", "int8x0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := dlpack.ParseDataType(s)
		if err != nil {
			require.ErrorIs(t, err, dlpack.ErrDType)
			return
		}
		require.Equal(t, s, d.String(), "one name per type")
	})
}

func TestDataTypeSizes(t *testing.T) {
	for _, c := range []struct {
		d                          dlpack.DataType
		bits, item, align          int
		sub                        bool
		packed7, padded7, packed16 int64 // bytes of 7, 7 padded, 16 elements
	}{
		{dlpack.Float32, 32, 4, 4, false, 28, 28, 64},
		{dlpack.Complex64, 64, 8, 4, false, 56, 56, 128},      // B095
		{dlpack.Complex128, 128, 16, 8, false, 112, 112, 256}, // B095
		{dlpack.Complex32, 32, 4, 2, false, 28, 28, 64},
		{dlpack.Bool, 8, 1, 1, false, 7, 7, 16},
		{dlpack.Float4E2M1FN, 4, 1, 1, true, 4, 7, 8}, // B088
		{dlpack.Float6E2M3FN, 6, 1, 1, true, 6, 7, 12},
		{dlpack.Float4E2M1FNx2, 8, 1, 1, false, 7, 7, 16}, // B088
		{dlpack.DataType{Code: 1, Bits: 1, Lanes: 1}, 1, 1, 1, true, 1, 7, 2},
		{dlpack.DataType{Code: 0, Bits: 24, Lanes: 1}, 24, 3, 1, false, 21, 21, 48},
		{dlpack.DataType{Code: 2, Bits: 32, Lanes: 4}, 128, 16, 4, false, 112, 112, 256},
		{dlpack.DataType{Code: 0, Bits: 128, Lanes: 1}, 128, 16, 8, false, 112, 112, 256},
	} {
		t.Run("R031 R033 "+c.d.String(), func(t *testing.T) {
			require.Equal(t, c.bits, c.d.BitsPerElement())
			require.Equal(t, c.item, c.d.ItemSize())
			require.Equal(t, c.align, c.d.Alignment())
			require.Equal(t, c.sub, c.d.SubByte())
			for _, w := range []struct {
				n      int64
				padded bool
				want   int64
			}{{0, false, 0}, {0, true, 0}, {7, false, c.packed7}, {7, true, c.padded7}, {16, false, c.packed16}} {
				got, err := c.d.ByteSize(w.n, w.padded)
				require.NoError(t, err)
				require.Equal(t, w.want, got, "%+v", w)
			}
		})
	}

	t.Run("B088 odd numbers of fp4", func(t *testing.T) {
		for n, want := range map[int64]int64{1: 1, 2: 1, 3: 2, 7: 4} {
			got, err := dlpack.Float4E2M1FN.ByteSize(n, false)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	})
	t.Run("R034 overflow", func(t *testing.T) {
		_, err := dlpack.Float64.ByteSize(1<<60, false)
		requireRule(t, err, dlpack.ErrOverflow, "R034")
		_, err = dlpack.Float32.ByteSize(-1, false)
		requireRule(t, err, dlpack.ErrLayout, "R034")
		// Packed, the number of bits passes 64 but the bytes fit.
		got, err := dlpack.Float4E2M1FN.ByteSize(math.MaxInt64, false)
		require.NoError(t, err)
		require.Equal(t, int64(1<<62), got)
	})
	t.Run("property: packed size is the bits rounded up", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			d := dlpack.DataType{Code: 1, Bits: uint8(rapid.IntRange(1, 8).Draw(t, "bits")), Lanes: uint16(rapid.IntRange(1, 9).Draw(t, "lanes"))}
			n := rapid.Int64Range(0, 1<<40).Draw(t, "n")
			got, err := d.ByteSize(n, false)
			require.NoError(t, err)
			require.Equal(t, (n*int64(d.BitsPerElement())+7)/8, got)
		})
	})
}

func dtypeOf[T dlpack.Element](t *testing.T, want dlpack.DataType) {
	t.Helper()
	t.Run(want.String(), func(t *testing.T) {
		require.Equal(t, want, dlpack.DTypeOf[T]())
		require.NoError(t, want.Check())
		var v T
		require.Equal(t, want.ItemSize(), sizeOf(v))
	})
}

func TestDTypeOf(t *testing.T) {
	dtypeOf[int8](t, dlpack.Int8)
	dtypeOf[int16](t, dlpack.Int16)
	dtypeOf[int32](t, dlpack.Int32)
	dtypeOf[int64](t, dlpack.Int64)
	dtypeOf[uint8](t, dlpack.UInt8)
	dtypeOf[uint16](t, dlpack.UInt16)
	dtypeOf[uint32](t, dlpack.UInt32)
	dtypeOf[uint64](t, dlpack.UInt64)
	dtypeOf[float16.Float16](t, dlpack.Float16)
	dtypeOf[float32](t, dlpack.Float32)
	dtypeOf[float64](t, dlpack.Float64)
	dtypeOf[complex64](t, dlpack.Complex64)
	dtypeOf[complex128](t, dlpack.Complex128)
	dtypeOf[bool](t, dlpack.Bool)
	dtypeOf[minifloat.BFloat16](t, dlpack.BFloat16)
	dtypeOf[minifloat.Float8E3M4](t, dlpack.Float8E3M4)
	dtypeOf[minifloat.Float8E4M3](t, dlpack.Float8E4M3)
	dtypeOf[minifloat.Float8E4M3B11FNUZ](t, dlpack.Float8E4M3B11FNUZ)
	dtypeOf[minifloat.Float8E4M3FN](t, dlpack.Float8E4M3FN)
	dtypeOf[minifloat.Float8E4M3FNUZ](t, dlpack.Float8E4M3FNUZ)
	dtypeOf[minifloat.Float8E5M2](t, dlpack.Float8E5M2)
	dtypeOf[minifloat.Float8E5M2FNUZ](t, dlpack.Float8E5M2FNUZ)
	dtypeOf[minifloat.Float8E8M0FNU](t, dlpack.Float8E8M0FNU)
	dtypeOf[minifloat.Float6E2M3FN](t, dlpack.Float6E2M3FN)
	dtypeOf[minifloat.Float6E3M2FN](t, dlpack.Float6E3M2FN)
	dtypeOf[minifloat.Float4E2M1FN](t, dlpack.Float4E2M1FN)
	dtypeOf[minifloat.Complex32](t, dlpack.Complex32)
	dtypeOf[minifloat.BComplex32](t, dlpack.BComplex32)
}

func TestDevice(t *testing.T) {
	require.Equal(t, "cuda:1", dlpack.Device{Type: dlpack.DeviceCUDA, ID: 1}.String())
	require.Equal(t, "device(5):0", dlpack.Device{Type: 5}.String())
	for v := dlpack.DeviceType(-2); v < 30; v++ {
		known := v >= 1 && v <= 21 && v != 5 && v != 6
		require.Equal(t, known, v.Known(), "%d", v)
	}
	t.Run("R038 opaque data", func(t *testing.T) {
		for _, d := range []dlpack.DeviceType{dlpack.DeviceOpenCL, dlpack.DeviceMetal, dlpack.DeviceVulkan, dlpack.DeviceWebGPU} {
			require.False(t, d.HasAddresses(), d.String())
		}
		for _, d := range []dlpack.DeviceType{dlpack.DeviceCPU, dlpack.DeviceCUDA, dlpack.DeviceCUDAManaged, dlpack.DeviceROCM} {
			require.True(t, d.HasAddresses(), d.String())
		}
	})
	require.True(t, dlpack.DeviceCUDAHost.HostAccessible())
	require.False(t, dlpack.DeviceCUDA.HostAccessible())
}

func TestVersion(t *testing.T) {
	require.Equal(t, "1.3", dlpack.ABIVersion.String())
	require.True(t, dlpack.Version{Major: 1, Minor: 2}.Less(dlpack.ABIVersion))
	require.True(t, dlpack.Version{Minor: 9}.Less(dlpack.Version{Major: 1}))
	require.False(t, dlpack.ABIVersion.Less(dlpack.ABIVersion))
	for _, minor := range []uint32{0, 1, 2, 3, 4, 99} { // R010
		require.NoError(t, dlpack.Version{Major: 1, Minor: minor}.Check())
	}
	for _, major := range []uint32{0, 2, math.MaxUint32} {
		requireRule(t, dlpack.Version{Major: major}.Check(), dlpack.ErrVersion, "R008")
	}
}

func TestFlags(t *testing.T) {
	require.Equal(t, "0", dlpack.Flags(0).String())
	require.Equal(t, "read_only|subbyte_padded|0x30", dlpack.Flags(0x35).String())
	require.True(t, dlpack.Flags(3).Has(dlpack.FlagReadOnly))
	require.False(t, dlpack.Flags(2).Has(dlpack.FlagReadOnly|dlpack.FlagIsCopied))
}

func TestRuleError(t *testing.T) {
	err := error(&dlpack.RuleError{Rule: "R047", Op: "dlpack: import", Detail: "ndim -1 is negative", Err: dlpack.ErrLayout})
	require.EqualError(t, err, "dlpack: import: ndim -1 is negative (R047): invalid layout")
	require.True(t, errors.Is(err, dlpack.ErrLayout))
	require.EqualError(t, &dlpack.RuleError{Op: "dlpack: export"}, "dlpack: export")
}
