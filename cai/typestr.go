package cai

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/go-handoff/handoff/dlpack"
)

// Byte orders of a [Typestr].
const (
	LittleEndian  = '<'
	BigEndian     = '>'
	NotApplicable = '|' // single bytes, raw bytes; read as native for anything else
)

// NativeOrder is the byte order of this machine, [LittleEndian] or [BigEndian].
var NativeOrder = nativeOrder()

func nativeOrder() byte {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return LittleEndian
	}
	return BigEndian
}

// Typestr is a parsed element type of an array interface, such as "<f4":
// comparable, and without meaning if zero.
type Typestr struct {
	// Order is '<', '>' or '|'.
	Order byte
	// Kind is the kind letter: t b i u f c m M O S U V.
	Kind byte
	// Size is the number as written: bytes, but bits for kind t and characters
	// of 4 bytes for kind U. Use [Typestr.ItemSize] for bytes.
	Size int64
	// Unit is the unit of kinds m and M, zero for others.
	Unit TimeUnit
}

// TimeUnit is the unit of dates and time differences: Num units, divided by
// Den. "[25s]" has Num 25, "[s/3]" has Den 3; both are 1 if not written.
type TimeUnit struct {
	Name     string // Y M W D h m s ms us ns ps fs as generic
	Num, Den int64
}

var timeUnits = []string{"Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "generic"}

// String gives the form "[25s]", or nothing for the zero value.
func (u TimeUnit) String() string {
	if u.Name == "" {
		return ""
	}
	b := []byte{'['}
	if u.Num != 1 {
		b = strconv.AppendInt(b, u.Num, 10)
	}
	b = append(b, u.Name...)
	if u.Den != 1 {
		b = strconv.AppendInt(append(b, '/'), u.Den, 10)
	}
	return string(append(b, ']'))
}

// ParseTypestr reads a typestring (R170, R203). "=" and a missing byte order
// are read as NumPy reads them, as native, and come out as '<' or '>', or as
// '|' for single bytes. Sizes that no type of the kind has ("<f3", "|b2") are
// refused, and so are dates without a unit (R220).
//
// The error wraps [dlpack.ErrDType], or [dlpack.ErrOverflow] if the item size
// does not fit.
func ParseTypestr(s string) (Typestr, error) {
	t, err := parseTypestr(s)
	return t, withOp("cai: typestr", err)
}

func parseTypestr(s string) (Typestr, *dlpack.RuleError) {
	bad := func(why string) (Typestr, *dlpack.RuleError) {
		return Typestr{}, ruleErr("R203", dlpack.ErrDType, "%s %s", quote(s), why)
	}
	var t Typestr
	rest := s
	if rest != "" {
		switch rest[0] {
		case LittleEndian, BigEndian, NotApplicable:
			t.Order, rest = rest[0], rest[1:]
		case '=':
			rest = rest[1:]
		}
	}
	if rest == "" {
		return bad("has no kind")
	}
	t.Kind, rest = rest[0], rest[1:]
	digits := 0
	for digits < len(rest) && isDigit(rest[digits]) {
		digits++
	}
	n := int64(pointerSize)
	switch {
	case digits > 0:
		var err error
		if n, err = strconv.ParseInt(rest[:digits], 10, 64); err != nil {
			return Typestr{}, ruleErr("R203", dlpack.ErrOverflow, "size of %s", quote(s))
		}
	case t.Kind != 'O': // NumPy writes "|O"
		return bad("has no size after the kind")
	}
	t.Size, rest = n, rest[digits:]

	if !sizeFits(t.Kind, n) {
		return bad("has an unknown kind or a size that the kind does not have")
	}
	if t.Kind == 'U' && n > math.MaxInt64/4 {
		return Typestr{}, ruleErr("R205", dlpack.ErrOverflow, "size of %s", quote(s))
	}
	if t.Kind == 'm' || t.Kind == 'M' {
		var ok bool
		if t.Unit, ok = parseUnit(rest); !ok {
			return Typestr{}, ruleErr("R220", dlpack.ErrDType, "%s needs a time unit in brackets", quote(s))
		}
		rest = ""
	}
	if rest != "" {
		return bad("has something after the size")
	}
	if t.Order == 0 {
		t.Order = NativeOrder
		if t.single() {
			t.Order = NotApplicable
		}
	}
	return t, nil
}

// valid reports whether ParseTypestr could have made t.
func (t Typestr) valid() bool {
	if t.Order != LittleEndian && t.Order != BigEndian && t.Order != NotApplicable || t.Size < 0 || !sizeFits(t.Kind, t.Size) {
		return false
	}
	if t.Kind == 'm' || t.Kind == 'M' {
		u, ok := parseUnit(t.Unit.String())
		return ok && u == t.Unit
	}
	return t.Unit == TimeUnit{} && (t.Kind != 'U' || t.Size <= math.MaxInt64/4)
}

// sizeFits reports whether a kind comes in a size.
func sizeFits(kind byte, n int64) bool {
	switch kind {
	case 'b':
		return n == 1
	case 'i', 'u':
		return n == 1 || n == 2 || n == 4 || n == 8
	case 'f': // 1 is ml_dtypes' float8_e5m2, 12 and 16 are long double
		return n == 1 || n == 2 || n == 4 || n == 8 || n == 12 || n == 16
	case 'c': // 24 and 32 are long double
		return n == 4 || n == 8 || n == 16 || n == 24 || n == 32
	case 'm', 'M':
		return n == 8
	case 'O':
		return n == 4 || n == 8
	case 'S', 'U', 'V', 't':
		return true
	}
	return false
}

// parseUnit reads a whole "[25s/3]".
func parseUnit(s string) (TimeUnit, bool) {
	s, ok1 := strings.CutPrefix(s, "[")
	s, ok2 := strings.CutSuffix(s, "]")
	if !ok1 || !ok2 {
		return TimeUnit{}, false
	}
	u := TimeUnit{Num: 1, Den: 1}
	s, den, divided := strings.Cut(s, "/")
	if divided {
		var ok bool
		if u.Den, ok = parsePositive(den); !ok {
			return TimeUnit{}, false
		}
	}
	digits := 0
	for digits < len(s) && isDigit(s[digits]) {
		digits++
	}
	if digits > 0 {
		var ok bool
		if u.Num, ok = parsePositive(s[:digits]); !ok {
			return TimeUnit{}, false
		}
	}
	for _, name := range timeUnits {
		if name == s[digits:] {
			u.Name = name
			return u, true
		}
	}
	return TimeUnit{}, false
}

func parsePositive(s string) (int64, bool) {
	if s == "" || !isDigit(s[0]) {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n > 0
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// quote quotes foreign text for a message, and not too much of it.
func quote(s string) string {
	const most = 40
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}

// String writes the typestring.
func (t Typestr) String() string {
	b := make([]byte, 0, 16)
	if t.Order != 0 {
		b = append(b, t.Order)
	}
	if t.Kind != 0 {
		b = strconv.AppendInt(append(b, t.Kind), t.Size, 10)
	}
	return string(append(b, t.Unit.String()...))
}

// ItemSize gives the bytes of one element. Kind U has 4 bytes a character
// (R205), kind t is rounded up to bytes.
func (t Typestr) ItemSize() int64 {
	switch t.Kind {
	case 'U':
		return 4 * t.Size
	case 't':
		return t.Size/8 + (t.Size%8+7)/8
	}
	return t.Size
}

// Native reports whether elements are in the byte order of this machine, or
// have none.
func (t Typestr) Native() bool {
	return t.Order == NativeOrder || t.Order == NotApplicable || t.single()
}

// single reports whether the byte order says nothing.
func (t Typestr) single() bool {
	switch t.Kind {
	case 'S', 'V', 'O':
		return true
	case 'U':
		return t.Size == 0
	}
	return t.ItemSize() <= 1
}

// DTypeOptions say how to read element types that have no certain counterpart
// in DLPack. The zero value, like a nil pointer, refuses them.
type DTypeOptions struct {
	// As is the type to take for typestrings that do not say what their bytes
	// are: kind V without fields, and "f1". [dlpack.BFloat16] makes "<V2" a
	// bfloat16, as libraries mean it that keep their types in ml_dtypes (R286).
	// It applies only if the sizes agree. The zero value refuses such types.
	As dlpack.DataType
	// TimesAsInt64 reads dates and time differences as int64, without their
	// unit.
	TimesAsInt64 bool
}

// DType gives the DLPack type. Types without a counterpart (R285), raw bytes
// whose meaning nobody gave (R286) and elements in foreign byte order (R291)
// give an error wrapping [dlpack.ErrDType]. Nil options refuse what is
// uncertain.
func (t Typestr) DType(opts *DTypeOptions) (dlpack.DataType, error) {
	d, err := t.dtype(opts, false)
	return d, withOp("cai: typestr", err)
}

func (t Typestr) dtype(opts *DTypeOptions, fields bool) (dlpack.DataType, *dlpack.RuleError) {
	if opts == nil {
		opts = &DTypeOptions{}
	}
	if !t.Native() {
		return dlpack.DataType{}, ruleErr("R291", dlpack.ErrDType, "%s is not in the byte order of this machine", t)
	}
	bits := func(code dlpack.TypeCode) (dlpack.DataType, *dlpack.RuleError) {
		return dlpack.DataType{Code: code, Bits: uint8(8 * t.Size), Lanes: 1}, nil
	}
	switch {
	case t.Kind == 'b':
		return dlpack.Bool, nil // R289: never an integer
	case t.Kind == 'i':
		return bits(dlpack.CodeInt)
	case t.Kind == 'u':
		return bits(dlpack.CodeUInt)
	case t.Kind == 'f' && t.Size > 1 && t.Size <= 8:
		return bits(dlpack.CodeFloat)
	case t.Kind == 'c' && t.Size <= 16:
		return bits(dlpack.CodeComplex)
	case (t.Kind == 'm' || t.Kind == 'M') && opts.TimesAsInt64:
		return dlpack.Int64, nil
	case t.Kind == 'V' && !fields, t.Kind == 'f' && t.Size == 1:
		if opts.As.Known() && !opts.As.SubByte() && int64(opts.As.ItemSize()) == t.Size {
			return opts.As, nil
		}
		return dlpack.DataType{}, ruleErr("R286", dlpack.ErrDType, "%s does not say what its bytes are", t)
	case t.Kind == 'f' || t.Kind == 'c':
		return dlpack.DataType{}, ruleErr("R285", dlpack.ErrDType, "long double %s differs between machines", t)
	}
	return dlpack.DataType{}, ruleErr("R285", dlpack.ErrDType, "%s has no counterpart in DLPack", t)
}

// TypestrOf gives the typestring of a DLPack type in native byte order. A type
// that has none, such as bfloat16, those of 8 bits and less, complex32, and
// several lanes, gives an error wrapping [dlpack.ErrDType] (R198, R285).
func TypestrOf(d dlpack.DataType) (Typestr, error) {
	t, err := typestrOf(d)
	return t, withOp("cai: typestr", err)
}

func typestrOf(d dlpack.DataType) (Typestr, *dlpack.RuleError) {
	var kind byte
	bits := int(d.Bits)
	switch whole := bits == 8 || bits == 16 || bits == 32 || bits == 64; {
	case d.Lanes != 1:
	case d == dlpack.Bool:
		kind = 'b'
	case d.Code == dlpack.CodeInt && whole:
		kind = 'i'
	case d.Code == dlpack.CodeUInt && whole:
		kind = 'u'
	case d.Code == dlpack.CodeFloat && whole && bits > 8:
		kind = 'f'
	case d.Code == dlpack.CodeComplex && (bits == 64 || bits == 128):
		kind = 'c'
	}
	if kind == 0 {
		return Typestr{}, ruleErr("R285", dlpack.ErrDType, "%s has no typestring", d)
	}
	t := Typestr{Order: NativeOrder, Kind: kind, Size: int64(bits / 8)}
	if t.Size == 1 {
		t.Order = NotApplicable
	}
	return t, nil
}

// FormatTypestr gives the text of [TypestrOf].
func FormatTypestr(d dlpack.DataType) (string, error) {
	t, err := TypestrOf(d)
	if err != nil {
		return "", err
	}
	return t.String(), nil
}
