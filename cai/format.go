package cai

import (
	"math"
	"runtime"
	"strconv"
	"strings"

	"github.com/go-handoff/handoff/dlpack"
)

// Format is a parsed format of the buffer protocol (PEP 3118), such as "f",
// "<i" or "T{i:a:d:b:}".
//
// Sizes are those of this machine where the format asks for native ones; size
// and alignment of long double and pointers serve only to step over them.
type Format struct {
	// Items are the members, in their order. A plain numeric format has one.
	Items []FormatItem
	// Size is the bytes up to the end of the last member. Some producers count
	// padding behind it, up to a multiple of Align.
	Size int64
	// Align is the largest alignment of a member that is aligned, at least 1.
	Align int64
}

// FormatItem is a member of a [Format].
type FormatItem struct {
	// Order is the order character in force: '@' (native, aligned), '^'
	// (native, not aligned), '=' (native, standard sizes), '<' or '>'; '!' is
	// read as '>'.
	Order byte
	// Type is the type character; 'Z' for complex, 'T' for a structure, '&' for
	// a pointer, 'X' for a function pointer.
	Type byte
	// Of is the float character of a complex type, or 0.
	Of byte
	// Count is the number written before the type, or -1 for none. It is a
	// repetition, and a length for s, p, w, x, u and t.
	Count int64
	// Shape is the shape of a subarray, or nil.
	Shape []int64
	// Name is the name of the member, or empty.
	Name string
	// Offset is where the member starts.
	Offset int64
	// Size is the bytes of the whole member, with count and shape.
	Size int64
	// Fields are the members of a structure, or nil.
	Fields *Format
}

// maxFormatDepth bounds the nesting of hostile formats.
const maxFormatDepth = 32

// maxFormatItems bounds what a hostile format makes us allocate.
const maxFormatItems = 1 << 16

// ParseFormat reads a format: order characters, which hold until the next one
// (R248), native and standard sizes (R249), counts, subarrays, structures,
// names. The error wraps [dlpack.ErrDType] for a malformed one or an unknown
// character, and [dlpack.ErrOverflow] for a size that does not fit. n and N
// after an order character with standard sizes are malformed (R250).
//
// A missing format (a NULL pointer) means "B" (R233); an empty one is an empty
// structure.
func ParseFormat(s string) (Format, error) {
	f, err := parseFormat(s)
	if err != nil {
		return Format{}, withOp("cai: format", err)
	}
	return f, nil
}

func parseFormat(s string) (Format, *dlpack.RuleError) {
	p := formatParser{s: s, order: '@'}
	return p.items(0)
}

type formatParser struct {
	s     string
	at    int
	order byte
	count int
}

func (p *formatParser) fail(rule string, kind error, why string) *dlpack.RuleError {
	return ruleErr(rule, kind, "%s: %s, at byte %d", quote(p.s), why, p.at)
}

// peek gives the next character, or 0.
func (p *formatParser) peek() byte {
	if p.at < len(p.s) {
		return p.s[p.at]
	}
	return 0
}

// items reads members up to the end, or up to a closing brace if depth > 0.
func (p *formatParser) items(depth int) (Format, *dlpack.RuleError) {
	f := Format{Align: 1}
	if depth > maxFormatDepth {
		return f, p.fail("R251", dlpack.ErrDType, "nested too deeply")
	}
	for {
		switch c := p.peek(); c {
		case 0:
			if p.at < len(p.s) {
				return f, p.fail("R251", dlpack.ErrDType, "NUL")
			}
			if depth > 0 {
				return f, p.fail("R251", dlpack.ErrDType, "structure without an end")
			}
			return f, nil
		case '}':
			if depth == 0 {
				return f, p.fail("R251", dlpack.ErrDType, "} without a structure")
			}
			p.at++
			return f, nil
		default:
			if isSpace(c) {
				p.at++
				continue
			}
		}
		if p.count++; p.count > maxFormatItems {
			return f, p.fail("R251", dlpack.ErrDType, "too many members")
		}
		item, align, err := p.item(depth)
		if err != nil {
			return f, err
		}
		if item.Type == 0 { // an order character at the end
			continue
		}
		start := f.Size
		if item.Order == '@' && align > 1 {
			f.Align = max(f.Align, align)
			pad := (align - start%align) % align
			if start > math.MaxInt64-pad {
				return f, p.fail("R247", dlpack.ErrOverflow, "size does not fit")
			}
			start += pad
		}
		if item.Size > math.MaxInt64-start {
			return f, p.fail("R247", dlpack.ErrOverflow, "size does not fit")
		}
		item.Offset = start
		f.Size = start + item.Size
		f.Items = append(f.Items, item)
	}
}

// item reads order, subarray shape or count, type and name of one member.
func (p *formatParser) item(depth int) (it FormatItem, align int64, err *dlpack.RuleError) {
	for strings.IndexByte("@^=<>!", p.peek()) >= 0 && p.at < len(p.s) {
		if p.order = p.peek(); p.order == '!' {
			p.order = '>'
		}
		p.at++
	}
	if c := p.peek(); p.at == len(p.s) || c == '}' || isSpace(c) {
		return it, 1, nil // the order holds for what follows
	}
	it.Count = -1
	if p.peek() == '(' {
		if it.Shape, err = p.shape(); err != nil {
			return it, 1, err
		}
	}
	if isDigit(p.peek()) {
		if it.Count, err = p.number(); err != nil {
			return it, 1, err
		}
	}
	it.Order = p.order
	size, align, err := p.typ(&it, depth)
	if err != nil {
		return it, 1, err
	}
	total := size
	times := func(n int64) {
		if err == nil && n != 0 && total > math.MaxInt64/n {
			err = p.fail("R247", dlpack.ErrOverflow, "size does not fit")
		}
		total *= n
	}
	switch {
	case it.Count < 0:
	case it.Type == 't': // count is bits
		total = it.Count/8 + (it.Count%8+7)/8
	default:
		times(it.Count)
	}
	for _, n := range it.Shape {
		times(n)
	}
	if err != nil {
		return it, 1, err
	}
	it.Size = total
	if p.peek() == ':' {
		end := strings.IndexByte(p.s[p.at+1:], ':')
		if end < 0 {
			return it, 1, p.fail("R251", dlpack.ErrDType, "name without an end")
		}
		it.Name = p.s[p.at+1 : p.at+1+end]
		p.at += end + 2
	}
	return it, align, nil
}

func (p *formatParser) number() (int64, *dlpack.RuleError) {
	start := p.at
	for isDigit(p.peek()) {
		p.at++
	}
	n, err := strconv.ParseInt(p.s[start:p.at], 10, 64)
	if err != nil {
		return 0, p.fail("R247", dlpack.ErrOverflow, "number does not fit")
	}
	return n, nil
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func (p *formatParser) spaces() {
	for isSpace(p.peek()) {
		p.at++
	}
}

// shape reads "(2, 3)".
func (p *formatParser) shape() ([]int64, *dlpack.RuleError) {
	shape := []int64{}
	for p.at++; ; p.at++ {
		p.spaces()
		if !isDigit(p.peek()) {
			return nil, p.fail("R251", dlpack.ErrDType, "subarray shape without a number")
		}
		n, err := p.number()
		if err != nil {
			return nil, err
		}
		if shape = append(shape, n); len(shape) > dlpack.MaxDims {
			return nil, p.fail("R255", dlpack.ErrLayout, "subarray with too many axes")
		}
		p.spaces()
		switch p.peek() {
		case ',':
		case ')':
			p.at++
			return shape, nil
		default:
			return nil, p.fail("R251", dlpack.ErrDType, "subarray shape without an end")
		}
	}
}

// typ reads the type of a member; the size is that of one.
func (p *formatParser) typ(it *FormatItem, depth int) (size, align int64, err *dlpack.RuleError) {
	if p.at >= len(p.s) {
		return 0, 1, p.fail("R251", dlpack.ErrDType, "no type")
	}
	it.Type = p.s[p.at]
	p.at++
	switch it.Type {
	case 'Z':
		it.Of = p.peek()
		if strings.IndexByte("efdg", it.Of) < 0 || it.Of == 0 {
			return 0, 1, p.fail("R253", dlpack.ErrDType, "Z without e, f, d or g")
		}
		p.at++
		size, align, err = p.scalar(it.Of)
		return 2 * size, align, err
	case 'T':
		if p.peek() != '{' {
			return 0, 1, p.fail("R251", dlpack.ErrDType, "T without {")
		}
		p.at++
		f, err := p.items(depth + 1)
		if err != nil {
			return 0, 1, err
		}
		it.Fields = &f
		return f.Size, f.Align, nil
	case '&': // a pointer: what it points to has no size here
		if depth >= maxFormatDepth {
			return 0, 1, p.fail("R251", dlpack.ErrDType, "nested too deeply")
		}
		to, _, err := p.item(depth + 1)
		if err != nil {
			return 0, 1, err
		}
		if to.Type == 0 {
			return 0, 1, p.fail("R251", dlpack.ErrDType, "& without a type")
		}
		it.Name = to.Name // it stands behind the type of what is pointed to
		return pointerSize, pointerSize, nil
	case 'X':
		if p.peek() != '{' {
			return 0, 1, p.fail("R251", dlpack.ErrDType, "X without {")
		}
		end := strings.IndexByte(p.s[p.at:], '}')
		if end < 0 {
			return 0, 1, p.fail("R251", dlpack.ErrDType, "X{ without an end")
		}
		p.at += end + 1
		return pointerSize, pointerSize, nil
	}
	return p.scalar(it.Type)
}

const pointerSize = strconv.IntSize / 8

// longSize is the size of C's long.
const longSize = (strconv.IntSize/8)*(1-isWindows) + 4*isWindows

// scalar gives the size and alignment of one value of a type character.
func (p *formatParser) scalar(c byte) (size, align int64, err *dlpack.RuleError) {
	standard := p.order != '@' && p.order != '^'
	noSize := func(rule string) (int64, int64, *dlpack.RuleError) {
		return 0, 1, p.fail(rule, dlpack.ErrDType, "'"+string(rune(c))+"' has a native size only")
	}
	switch c {
	case 'x', '?', 'c', 'b', 'B', 's', 'p', 't':
		return 1, 1, nil
	case 'h', 'H', 'e', 'u':
		size = 2
	case 'i', 'I', 'f', 'w':
		size = 4
	case 'l', 'L':
		size = 4
		if !standard {
			size = longSize
		}
	case 'q', 'Q', 'd':
		size = 8
	case 'F':
		return 8, 4, nil
	case 'D':
		return 16, 8, nil
	case 'n', 'N':
		if standard {
			return noSize("R250")
		}
		size = pointerSize
	case 'P':
		if standard {
			return noSize("R251")
		}
		size = pointerSize
	case 'O':
		size = pointerSize
	case 'g':
		size = longDoubleSize
		align = min(size, 2*pointerSize)
		return size, align, nil
	default:
		return 0, 1, p.fail("R251", dlpack.ErrDType, "unknown type "+strconv.QuoteRune(rune(c)))
	}
	return size, min(size, 8), nil
}

// DType gives the DLPack type of a buffer with this format whose producer
// states itemsize bytes per element. It accepts what a flat numeric view can
// hold: one member, without name, count (other than 1) or subarray, of a
// boolean, integer, float or complex type in native byte order; single bytes
// have no byte order (R252). Everything else (R251), long double (R285), an
// item size of 0 or less (R259) and one that differs from the format's own
// (R247) give an error wrapping [dlpack.ErrDType].
func (f Format) DType(itemsize int64) (dlpack.DataType, error) {
	d, err := f.dtype(itemsize)
	return d, withOp("cai: format", err)
}

func (f Format) dtype(itemsize int64) (dlpack.DataType, *dlpack.RuleError) {
	if itemsize <= 0 {
		return dlpack.DataType{}, ruleErr("R259", dlpack.ErrDType, "item size %d", itemsize)
	}
	no := func(rule, why string) (dlpack.DataType, *dlpack.RuleError) {
		return dlpack.DataType{}, ruleErr(rule, dlpack.ErrDType, "%s, not a number", why)
	}
	if len(f.Items) != 1 {
		return no("R251", strconv.Itoa(len(f.Items))+" members")
	}
	it := f.Items[0]
	switch {
	case it.Shape != nil:
		return no("R251", "a subarray")
	case strings.IndexByte("spwxut", it.Type) >= 0:
		return no("R251", "type '"+string(rune(it.Type))+"'")
	case it.Count >= 0 && it.Count != 1:
		return no("R251", "a count of "+strconv.FormatInt(it.Count, 10))
	case it.Name != "":
		return no("R251", "a named member")
	}
	d, rule := it.scalar()
	if rule != "" {
		return no(rule, "type '"+string(rune(it.Type))+"'")
	}
	if it.Size != itemsize {
		return dlpack.DataType{}, ruleErr("R247", dlpack.ErrDType, "format of %d bytes with item size %d", it.Size, itemsize)
	}
	if foreign := it.Order == '<' && NativeOrder != LittleEndian || it.Order == '>' && NativeOrder != BigEndian; foreign && it.Size > 1 {
		return dlpack.DataType{}, ruleErr("R252", dlpack.ErrDType, "not in the byte order of this machine")
	}
	return d, nil
}

// scalar gives the DLPack type of a member, or the rule that refuses it.
func (it *FormatItem) scalar() (d dlpack.DataType, rule string) {
	number := func(code dlpack.TypeCode) (dlpack.DataType, string) {
		return dlpack.DataType{Code: code, Bits: uint8(8 * it.Size), Lanes: 1}, ""
	}
	switch it.Type {
	case '?':
		return dlpack.Bool, ""
	case 'b', 'h', 'i', 'l', 'q', 'n':
		return number(dlpack.CodeInt)
	case 'B', 'c', 'H', 'I', 'L', 'Q', 'N':
		return number(dlpack.CodeUInt)
	case 'e', 'f', 'd':
		return number(dlpack.CodeFloat)
	case 'F', 'D':
		return number(dlpack.CodeComplex)
	case 'Z':
		if it.Of != 'g' {
			return number(dlpack.CodeComplex)
		}
		return d, "R285"
	case 'g':
		return d, "R285"
	}
	return d, "R251"
}

// FormatDType gives what ParseFormat(s) and [Format.DType] give together, and
// allocates nothing for the formats of plain numbers.
func FormatDType(s string, itemsize int64) (dlpack.DataType, error) {
	d, err := formatDType(s, itemsize)
	return d, withOp("cai: format", err)
}

func formatDType(s string, itemsize int64) (dlpack.DataType, *dlpack.RuleError) {
	if d, ok := plainFormat(s); ok && int64(d.ItemSize()) == itemsize {
		return d, nil
	}
	f, err := parseFormat(s)
	if err != nil {
		return dlpack.DataType{}, err
	}
	return f.dtype(itemsize)
}

// plainFormat knows the formats of most buffers: one character, perhaps with an
// order character that means this machine.
func plainFormat(s string) (dlpack.DataType, bool) {
	standard := false
	if len(s) == 2 {
		switch {
		case s[0] == '@', s[0] == '^':
		case s[0] == '=', s[0] == NativeOrder:
			standard = true
		case s == "Zf":
			return dlpack.Complex64, true
		case s == "Zd":
			return dlpack.Complex128, true
		default:
			return dlpack.DataType{}, false
		}
		s = s[1:]
	}
	if len(s) != 1 {
		return dlpack.DataType{}, false
	}
	switch s[0] {
	case '?':
		return dlpack.Bool, true
	case 'b':
		return dlpack.Int8, true
	case 'B':
		return dlpack.UInt8, true
	case 'h':
		return dlpack.Int16, true
	case 'H':
		return dlpack.UInt16, true
	case 'i':
		return dlpack.Int32, true
	case 'I':
		return dlpack.UInt32, true
	case 'q':
		return dlpack.Int64, true
	case 'Q':
		return dlpack.UInt64, true
	case 'l':
		if longSize == 4 || standard {
			return dlpack.Int32, true
		}
		return dlpack.Int64, true
	case 'L':
		if longSize == 4 || standard {
			return dlpack.UInt32, true
		}
		return dlpack.UInt64, true
	case 'e':
		return dlpack.Float16, true
	case 'f':
		return dlpack.Float32, true
	case 'd':
		return dlpack.Float64, true
	}
	return dlpack.DataType{}, false
}

// FormatOf gives the format of a DLPack type, with native sizes and no order
// character, as NumPy writes it: int64 is "l" where C's long has 64 bits. A
// type for which there is none gives an error wrapping [dlpack.ErrDType]:
// nothing is invented for bfloat16 and the smaller ones (R254), complex32 and
// several lanes (R285).
func FormatOf(d dlpack.DataType) (string, error) {
	switch d {
	case dlpack.Bool:
		return "?", nil
	case dlpack.Int8:
		return "b", nil
	case dlpack.UInt8:
		return "B", nil
	case dlpack.Int16:
		return "h", nil
	case dlpack.UInt16:
		return "H", nil
	case dlpack.Int32:
		return "i", nil
	case dlpack.UInt32:
		return "I", nil
	case dlpack.Int64:
		if longSize == 8 {
			return "l", nil
		}
		return "q", nil
	case dlpack.UInt64:
		if longSize == 8 {
			return "L", nil
		}
		return "Q", nil
	case dlpack.Float16:
		return "e", nil
	case dlpack.Float32:
		return "f", nil
	case dlpack.Float64:
		return "d", nil
	case dlpack.Complex64:
		return "Zf", nil
	case dlpack.Complex128:
		return "Zd", nil
	}
	rule := "R285"
	if d.Lanes == 1 && (d.Code == dlpack.CodeBfloat || d.Code >= dlpack.CodeFloat8E3M4 && d.Code <= dlpack.CodeFloat4E2M1FN) {
		rule = "R254"
	}
	return "", withOp("cai: format", ruleErr(rule, dlpack.ErrDType, "%s has no buffer format", d))
}

// longDoubleSize is a guess that only skips such members: they are refused.
var longDoubleSize = func() int64 {
	switch {
	case runtime.GOARCH == "386":
		return 12
	case runtime.GOOS == "windows", runtime.GOOS == "darwin" && runtime.GOARCH == "arm64", pointerSize == 4:
		return 8
	}
	return 16
}()
