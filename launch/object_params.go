package launch

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// paramTables are the parameters of all kernels in a piece of code, as the
// code declares them. They let launch arguments be checked on a machine
// without a driver.
type paramTables struct {
	kernels map[string][]ParamInfo
	err     error
}

func (t *paramTables) lookup(name string) ([]ParamInfo, error) {
	if t.err != nil {
		return nil, fmt.Errorf("launch: parameters of kernel %s: %w", name, t.err)
	}
	p, ok := t.kernels[name]
	if !ok {
		return nil, fmt.Errorf("launch: parameters of kernel %s: the code has %s: %w", name, joinNames(t.names()), ErrNoKernel)
	}
	return p, nil
}

func (t *paramTables) names() []string { return slices.Sorted(maps.Keys(t.kernels)) }

// joinNames joins names for a message.
func joinNames(names []string) string {
	const most = 16
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > most:
		names = append(names[:most:most], "…")
	}
	return strings.Join(names, ", ")
}

// readTables reads what the code declares. Hostile bytes give an error.
func readTables(f Format, code []byte) *paramTables {
	t := &paramTables{kernels: make(map[string][]ParamInfo)}
	switch f {
	case FormatCubin:
		t.err = t.readCubin(code)
	case FormatPTX:
		t.err = t.readPTX(code)
	default:
		t.err = fmt.Errorf("%v does not tell: %w", f, ErrNotSupported)
	}
	return t
}

// What a cubin says about a kernel is in the section .nv.info.NAME: a list of
// records of a format byte, an attribute byte and 16 bits, which are the value
// or, in format 4, the length of the value that follows. NVIDIA documents the
// names of the attributes (cuobjdump --dump-elf) and not the numbers; tests
// compare what is read here with the declarations for CUDA 12 and 13.
const (
	infoSized       = 4    // format: 16 bits of length, then the value
	infoParam       = 0x17 // KPARAM_INFO: one parameter
	infoParamLarge  = 0x45 // KPARAM_INFO_V2: the same, of kernels with more than 4 KiB
	infoParamsTotal = 0x19 // CBANK_PARAM_SIZE: bytes of all parameters

	symbolEntry = 0x10 // in the "other" byte of a symbol: a kernel
)

func (t *paramTables) readCubin(code []byte) error {
	if len(code) < 64 {
		return fmt.Errorf("not a cubin: %d bytes: %w", len(code), ErrImage)
	}
	// CUDA 12 puts its own version where others have that of the format.
	code = bytes.Clone(code)
	binary.LittleEndian.PutUint32(code[20:], uint32(elf.EV_CURRENT))
	f, err := elf.NewFile(bytes.NewReader(code))
	if err != nil {
		return fmt.Errorf("not a cubin: %w: %w", err, ErrImage)
	}
	if f.Machine != machineCUDA {
		return fmt.Errorf("not a cubin: %v: %w", f.Machine, ErrImage)
	}
	symbols, err := f.Symbols()
	if err != nil {
		return fmt.Errorf("cubin: %w: %w", err, ErrImage)
	}
	info := make(map[string]*elf.Section, len(f.Sections))
	for _, s := range f.Sections {
		if name, ok := strings.CutPrefix(s.Name, ".nv.info."); ok {
			info[name] = s
		}
	}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Other&symbolEntry == 0 {
			continue
		}
		sec := info[s.Name]
		if sec == nil {
			return fmt.Errorf("cubin: no information about kernel %s: %w", s.Name, ErrImage)
		}
		data, err := sec.Data()
		if err != nil {
			return fmt.Errorf("cubin: %w: %w", err, ErrImage)
		}
		params, err := readInfo(data)
		if err != nil {
			return fmt.Errorf("cubin: kernel %s: %w", s.Name, err)
		}
		t.kernels[s.Name] = params
	}
	return nil
}

// readInfo reads the parameters from a section about one kernel.
func readInfo(data []byte) ([]ParamInfo, error) {
	byOrdinal := make(map[uint16]ParamInfo)
	total := -1
	for len(data) >= 4 {
		format, attr, word := data[0], data[1], binary.LittleEndian.Uint16(data[2:])
		data = data[4:]
		if format != infoSized {
			if attr == infoParamsTotal {
				total = int(word)
			}
			continue
		}
		if int(word) > len(data) {
			return nil, fmt.Errorf("attribute %#x is cut off: %w", attr, ErrImage)
		}
		value := data[:word]
		data = data[word:]
		if attr != infoParam && attr != infoParamLarge {
			continue
		}
		if len(value) < 12 {
			return nil, fmt.Errorf("parameter record of %d bytes: %w", len(value), ErrImage)
		}
		ordinal, offset := binary.LittleEndian.Uint16(value[4:]), binary.LittleEndian.Uint16(value[6:])
		size := binary.LittleEndian.Uint32(value[8:])
		if attr == infoParam {
			size >>= 18 // below it is where the parameter lies, and its pointee's alignment
		} else {
			size &= 0xffff
		}
		byOrdinal[ordinal] = ParamInfo{Offset: uintptr(offset), Size: uintptr(size)}
	}
	params := make([]ParamInfo, len(byOrdinal))
	end := uintptr(0)
	for i := range params {
		p, ok := byOrdinal[uint16(i)]
		if !ok || p.Offset < end {
			return nil, fmt.Errorf("parameters are not in order: %w", ErrImage)
		}
		params[i] = p
		end = p.Offset + p.Size
	}
	if total >= 0 && end > uintptr(total) {
		return nil, fmt.Errorf("parameters of %d bytes in %d: %w", end, total, ErrImage)
	}
	return params, nil
}

// readPTX reads the declarations of the kernels in assembly text.
func (t *paramTables) readPTX(code []byte) error {
	rest := stripComments(cut(code))
	for {
		_, after, found := strings.Cut(rest, ".entry")
		if !found {
			return nil
		}
		rest = after
		end := strings.IndexAny(after, "({;.")
		if end < 0 {
			return fmt.Errorf("PTX: a kernel without an end: %w", ErrImage)
		}
		name := strings.TrimSpace(after[:end])
		if name == "" {
			return fmt.Errorf("PTX: a kernel without a name: %w", ErrImage)
		}
		t.kernels[name] = []ParamInfo{}
		if after[end] != '(' {
			continue // no parameters
		}
		decl, _, found := strings.Cut(after[end+1:], ")")
		if !found {
			return fmt.Errorf("PTX: kernel %s: the list of parameters has no end: %w", name, ErrImage)
		}
		params, err := readPTXParams(decl)
		if err != nil {
			return fmt.Errorf("PTX: kernel %s: %w", name, err)
		}
		t.kernels[name] = params
	}
}

// stripComments takes out what is in comments, keeping the rest apart.
func stripComments(s string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '/')
		if i < 0 || i+1 == len(s) {
			return b.String() + s
		}
		stop := ""
		switch s[i+1] {
		case '/':
			stop = "\n"
		case '*':
			stop = "*/"
		default:
			b.WriteString(s[:i+1])
			s = s[i+1:]
			continue
		}
		b.WriteString(s[:i])
		b.WriteByte(' ')
		_, s, _ = strings.Cut(s[i+2:], stop)
	}
}

// readPTXParams reads ".param .u64 .ptr .align 1 name, .param .align 8 .b8 name[24]".
func readPTXParams(decl string) ([]ParamInfo, error) {
	params := []ParamInfo{}
	if strings.TrimSpace(decl) == "" {
		return params, nil
	}
	var end uint64
	for part := range strings.SplitSeq(decl, ",") {
		size, align, err := readPTXParam(part)
		if err != nil {
			return nil, err
		}
		end = (end + align - 1) / align * align
		params = append(params, ParamInfo{Offset: uintptr(end), Size: uintptr(size)})
		end += size
		if end > maxParams {
			return nil, fmt.Errorf("parameters of more than %d bytes: %w", maxParams, ErrImage)
		}
	}
	return params, nil
}

func readPTXParam(part string) (size, align uint64, err error) {
	bad := func() (uint64, uint64, error) {
		return 0, 0, fmt.Errorf("cannot read parameter %q: %w", strings.TrimSpace(part), ErrImage)
	}
	// "name[24]" may have spaces in it.
	head, index, array := strings.Cut(part, "[")
	words := strings.Fields(head)
	if len(words) < 3 || words[0] != ".param" {
		return bad()
	}
	count := uint64(1)
	if array {
		text, _, _ := strings.Cut(index, "]")
		if count, err = strconv.ParseUint(strings.TrimSpace(text), 10, 16); err != nil {
			return bad()
		}
	}
	pointer := false
	for i := 1; i < len(words)-1; i++ {
		switch w := words[i]; w {
		case ".align":
			if i++; pointer {
				continue // of what it points to
			}
			if align, err = strconv.ParseUint(words[i], 10, 16); err != nil || align == 0 || align&(align-1) != 0 {
				return bad()
			}
		case ".ptr":
			pointer = true
		case ".pred", ".texref", ".samplerref", ".surfref":
			size = 8
		default:
			bits, err := strconv.ParseUint(strings.TrimLeft(w, ".bsuf"), 10, 16)
			if err == nil && size == 0 && bits >= 8 && bits <= 128 {
				size = bits / 8
			}
		}
	}
	if size == 0 {
		return bad()
	}
	if align == 0 {
		align = size
	}
	return size * count, align, nil
}
