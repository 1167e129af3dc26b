package dlpack

import (
	"math"
	"strconv"
	"strings"
)

// TypeCode says how the bits of an element are read (DLDataTypeCode).
type TypeCode uint8

// Type codes of DLPack 1.3; the last one is provisional.
const (
	CodeInt               TypeCode = 0  // two's complement
	CodeUInt              TypeCode = 1  // unsigned
	CodeFloat             TypeCode = 2  // IEEE 754 binary
	CodeOpaqueHandle      TypeCode = 3  // by private agreement
	CodeBfloat            TypeCode = 4  // 1-8-7
	CodeComplex           TypeCode = 5  // real, imaginary; bits counts both
	CodeBool              TypeCode = 6  // one byte, 0 or 1
	CodeFloat8E3M4        TypeCode = 7  // IEEE-like
	CodeFloat8E4M3        TypeCode = 8  // IEEE-like
	CodeFloat8E4M3B11FNUZ TypeCode = 9  // bias 11, no infinity, no -0
	CodeFloat8E4M3FN      TypeCode = 10 // no infinity
	CodeFloat8E4M3FNUZ    TypeCode = 11 // no infinity, no -0
	CodeFloat8E5M2        TypeCode = 12 // IEEE-like
	CodeFloat8E5M2FNUZ    TypeCode = 13 // no infinity, no -0
	CodeFloat8E8M0FNU     TypeCode = 14 // exponent only
	CodeFloat6E2M3FN      TypeCode = 15 // 6 bits
	CodeFloat6E3M2FN      TypeCode = 16 // 6 bits
	CodeFloat4E2M1FN      TypeCode = 17 // 4 bits
	CodeBcomplex          TypeCode = 18 // two bfloat16

	numCodes = 19
)

// DataType is an element type (DLDataType): Lanes values of Bits bits each, in
// native byte order. The triple as a whole is the type: compare with ==.
//
// The zero value is invalid.
type DataType struct {
	Code  TypeCode
	Bits  uint8
	Lanes uint16
}

// Element types with one lane.
var (
	Int8              = DataType{CodeInt, 8, 1}
	Int16             = DataType{CodeInt, 16, 1}
	Int32             = DataType{CodeInt, 32, 1}
	Int64             = DataType{CodeInt, 64, 1}
	UInt8             = DataType{CodeUInt, 8, 1}
	UInt16            = DataType{CodeUInt, 16, 1}
	UInt32            = DataType{CodeUInt, 32, 1}
	UInt64            = DataType{CodeUInt, 64, 1}
	Int4              = DataType{CodeInt, 4, 1}
	UInt4             = DataType{CodeUInt, 4, 1}
	Float16           = DataType{CodeFloat, 16, 1}
	Float32           = DataType{CodeFloat, 32, 1}
	Float64           = DataType{CodeFloat, 64, 1}
	BFloat16          = DataType{CodeBfloat, 16, 1}
	Complex32         = DataType{CodeComplex, 32, 1} // two float16
	Complex64         = DataType{CodeComplex, 64, 1}
	Complex128        = DataType{CodeComplex, 128, 1}
	BComplex32        = DataType{CodeBcomplex, 32, 1} // two bfloat16
	Bool              = DataType{CodeBool, 8, 1}
	OpaqueHandle64    = DataType{CodeOpaqueHandle, 64, 1}
	Float8E3M4        = DataType{CodeFloat8E3M4, 8, 1}
	Float8E4M3        = DataType{CodeFloat8E4M3, 8, 1}
	Float8E4M3B11FNUZ = DataType{CodeFloat8E4M3B11FNUZ, 8, 1}
	Float8E4M3FN      = DataType{CodeFloat8E4M3FN, 8, 1}
	Float8E4M3FNUZ    = DataType{CodeFloat8E4M3FNUZ, 8, 1}
	Float8E5M2        = DataType{CodeFloat8E5M2, 8, 1}
	Float8E5M2FNUZ    = DataType{CodeFloat8E5M2FNUZ, 8, 1}
	Float8E8M0FNU     = DataType{CodeFloat8E8M0FNU, 8, 1}
	Float6E2M3FN      = DataType{CodeFloat6E2M3FN, 6, 1}
	Float6E3M2FN      = DataType{CodeFloat6E3M2FN, 6, 1}
	Float4E2M1FN      = DataType{CodeFloat4E2M1FN, 4, 1}
	// Float4E2M1FNx2 is a byte that holds two 4-bit values, the first in the
	// low half.
	Float4E2M1FNx2 = DataType{CodeFloat4E2M1FN, 4, 2}
)

// codeInfo describes a type code.
type codeInfo struct {
	name string // without the bits if bits is 0
	bits uint8  // the only legal width, or 0
	rule int    // rule broken by another width
}

var codes = [numCodes]codeInfo{
	CodeInt:               {"int", 0, 27},
	CodeUInt:              {"uint", 0, 27},
	CodeFloat:             {"float", 0, 27},
	CodeOpaqueHandle:      {"handle", 0, 27},
	CodeBfloat:            {"bfloat", 16, 26},
	CodeComplex:           {"complex", 0, 25},
	CodeBool:              {"bool", 8, 24},
	CodeFloat8E3M4:        {"float8_e3m4", 8, 27},
	CodeFloat8E4M3:        {"float8_e4m3", 8, 27},
	CodeFloat8E4M3B11FNUZ: {"float8_e4m3b11fnuz", 8, 27},
	CodeFloat8E4M3FN:      {"float8_e4m3fn", 8, 27},
	CodeFloat8E4M3FNUZ:    {"float8_e4m3fnuz", 8, 27},
	CodeFloat8E5M2:        {"float8_e5m2", 8, 27},
	CodeFloat8E5M2FNUZ:    {"float8_e5m2fnuz", 8, 27},
	CodeFloat8E8M0FNU:     {"float8_e8m0fnu", 8, 27},
	CodeFloat6E2M3FN:      {"float6_e2m3fn", 6, 22},
	CodeFloat6E3M2FN:      {"float6_e3m2fn", 6, 22},
	CodeFloat4E2M1FN:      {"float4_e2m1fn", 4, 23},
	CodeBcomplex:          {"bcomplex", 32, 27},
}

// named reports whether the name of the code says its width.
func (c TypeCode) named() bool {
	switch {
	case c <= CodeComplex, c == CodeBcomplex:
		return false
	}
	return true
}

// Known reports whether the code has a meaning in DLPack 1.3 or is the
// provisional one.
func (c TypeCode) Known() bool { return c < numCodes }

// String returns a name such as "float" or "float8_e4m3fn", or "code200" for
// an unknown value.
func (c TypeCode) String() string {
	if !c.Known() {
		return "code" + strconv.Itoa(int(c))
	}
	return codes[c].name
}

// Known reports whether the type passes [DataType.Check].
func (d DataType) Known() bool { return d.problem().kind == kindOK }

// Check returns an error wrapping [ErrDType] unless the triple is a type of
// DLPack (rules R022 to R029): the code is known, the width fits the code, and
// there is at least one lane. Integers may have any width below 8 bits or any
// whole number of bytes.
func (d DataType) Check() error {
	if p := d.problem(); p.kind != kindOK {
		return p.err("dlpack: dtype")
	}
	return nil
}

// problem is Check without an allocation. The C function ho_check_dtype gives
// the same verdicts.
func (d DataType) problem() problem {
	rule := 0
	switch {
	case d.Bits == 0 || d.Lanes == 0:
		rule = 29
	case !d.Code.Known():
		rule = 27
	case codes[d.Code].bits != 0:
		if d.Bits != codes[d.Code].bits {
			rule = codes[d.Code].rule
		} else if d.Code == CodeBool && d.Lanes != 1 {
			rule = 24
		}
	case d.Code == CodeFloat:
		if d.Bits != 16 && d.Bits != 32 && d.Bits != 64 {
			rule = 27
		}
	case d.Code == CodeComplex:
		if d.Bits != 32 && d.Bits != 64 && d.Bits != 128 {
			rule = 25
		}
	default: // integers and handles
		if d.Bits%8 != 0 && (d.Bits > 8 || d.Code == CodeOpaqueHandle) {
			rule = 27
		}
	}
	if rule == 0 {
		return problem{}
	}
	return problem{kind: kindDType, rule: rule, what: whatDType, a: int64(d.pack())}
}

// pack returns the four bytes of the C struct as a little-endian number.
func (d DataType) pack() uint32 {
	return uint32(d.Code) | uint32(d.Bits)<<8 | uint32(d.Lanes)<<16
}

func unpackDataType(v uint32) DataType {
	return DataType{TypeCode(v), uint8(v >> 8), uint16(v >> 16)}
}

// BitsPerElement returns Bits times Lanes.
func (d DataType) BitsPerElement() int { return int(d.Bits) * int(d.Lanes) }

// ItemSize returns the bytes of one element, rounded up. It is the distance
// between neighbours, except for packed data of a type for which
// [DataType.SubByte] is true.
func (d DataType) ItemSize() int { return (d.BitsPerElement() + 7) / 8 }

// SubByte reports whether elements do not fill whole bytes, so that unpadded
// data is packed and an element may start inside a byte. It is false for
// [Float4E2M1FNx2], whose two lanes fill a byte.
func (d DataType) SubByte() bool { return d.BitsPerElement()%8 != 0 }

// Alignment returns the bytes to which the address of an element is aligned:
// that of one lane, or of one part for complex types, and 1 for widths below a
// byte. It is at most 8.
func (d DataType) Alignment() int {
	bits := int(d.Bits)
	if d.Code == CodeComplex || d.Code == CodeBcomplex {
		bits /= 2
	}
	if bits == 0 || bits%8 != 0 {
		return 1
	}
	size := bits / 8
	return min(size&-size, 8)
}

// ByteSize returns the bytes that n adjacent elements take (R031, R033).
// padded says that sub-byte elements take a byte each
// ([FlagSubbyteTypePadded]); it changes nothing for other types. The error
// wraps [ErrLayout] for a negative n and [ErrOverflow] if the result does not
// fit.
func (d DataType) ByteSize(n int64, padded bool) (int64, error) {
	if n < 0 {
		return 0, (problem{kind: kindLayout, rule: 34, what: whatCount, a: n}).err("dlpack: size")
	}
	size, ok := d.byteSize(n, padded)
	if !ok {
		return 0, (problem{kind: kindOverflow, rule: 34, what: whatBytes, a: n}).err("dlpack: size")
	}
	return size, nil
}

func (d DataType) byteSize(n int64, padded bool) (size int64, ok bool) {
	bits := int64(d.BitsPerElement())
	if bits%8 == 0 || padded {
		return mulInt64(n, (bits+7)/8)
	}
	// Whole groups of 8 elements take `bits` bytes.
	whole, ok := mulInt64(n/8, bits)
	if !ok {
		return 0, false
	}
	return addInt64(whole, (n%8*bits+7)/8)
}

// String returns names such as "float32", "bfloat16", "float4_e2m1fn", and
// "float4_e2m1fnx2" for two lanes. A width that the code does not allow, or an
// unknown code, gives a form such as "code200_8". [ParseDataType] reads all of
// them back.
func (d DataType) String() string {
	var s string
	switch {
	case !d.Code.Known(), d.Code.named() && d.Bits != codes[d.Code].bits:
		s = "code" + strconv.Itoa(int(d.Code)) + "_" + strconv.Itoa(int(d.Bits))
	case d.Code.named():
		s = codes[d.Code].name
	default:
		s = codes[d.Code].name + strconv.Itoa(int(d.Bits))
	}
	if d.Lanes != 1 {
		s += "x" + strconv.Itoa(int(d.Lanes))
	}
	return s
}

// ParseDataType reads a name in the form of [DataType.String]. It does not
// judge the type: see [DataType.Check]. The error wraps [ErrDType].
func ParseDataType(s string) (DataType, error) {
	if d, ok := parseOneLane(s); ok {
		return d, nil
	}
	if i := strings.LastIndexByte(s, 'x'); i > 0 {
		d, ok := parseOneLane(s[:i])
		lanes, ok2 := parseNumber(s[i+1:], math.MaxUint16)
		if ok && ok2 && lanes != 1 {
			d.Lanes = uint16(lanes)
			return d, nil
		}
	}
	return DataType{}, &RuleError{Rule: "R027", Op: "dlpack: dtype", Detail: "unknown name " + strconv.Quote(s), Err: ErrDType}
}

func parseOneLane(s string) (DataType, bool) {
	if rest, ok := strings.CutPrefix(s, "code"); ok {
		c, b, ok := strings.Cut(rest, "_")
		code, ok1 := parseNumber(c, math.MaxUint8)
		bits, ok2 := parseNumber(b, math.MaxUint8)
		d := DataType{TypeCode(code), uint8(bits), 1}
		return d, ok && ok1 && ok2 && d.String() == s
	}
	for c := range codes {
		code, info := TypeCode(c), &codes[c]
		rest, ok := strings.CutPrefix(s, info.name)
		switch {
		case !ok:
		case code.named():
			if rest == "" {
				return DataType{code, info.bits, 1}, true
			}
		default:
			if bits, ok := parseNumber(rest, math.MaxUint8); ok {
				return DataType{code, uint8(bits), 1}, true
			}
		}
	}
	return DataType{}, false
}

// parseNumber reads a decimal number without sign or leading zeros.
func parseNumber(s string, limit uint64) (uint64, bool) {
	if s == "" || len(s) > 1 && s[0] == '0' || s[0] < '0' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 32)
	return n, err == nil && n <= limit
}
