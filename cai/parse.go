package cai

import (
	"math"

	"github.com/go-handoff/handoff/dlpack"
)

// ParseOptions tune [Parse] and [ParseArrayInterface]. The zero value, like a
// nil pointer, is the default.
type ParseOptions struct {
	// AllowLists accepts lists where shape, strides and data have to be tuples.
	// Some producers write them (B260); without this they are refused (R168,
	// R202, R214).
	AllowLists bool
}

// reader takes the common keys out of a dictionary.
type reader struct {
	m    map[string]any
	opts *ParseOptions
	r    *rules
}

func newReader(m map[string]any, opts *ParseOptions, r *rules) reader {
	if opts == nil {
		opts = &ParseOptions{}
	}
	return reader{m, opts, r}
}

func (p reader) required(key string) (any, *dlpack.RuleError) {
	v, ok := p.m[key]
	if !ok {
		return nil, ruleErr(p.r.keys, ErrMissing, "no %q", key)
	}
	return v, nil
}

// array reads all keys but data, offset and stream.
func (p reader) array() (a Array, err *dlpack.RuleError) {
	v, err := p.required("version")
	if err != nil {
		return a, err
	}
	n, kind := toInt(v)
	switch {
	case kind == notInteger:
		return a, ruleErr(p.r.version, ErrType, "version is %s, not an integer", typeName(v))
	case kind == outOfRange || n < 0 || n > math.MaxInt32:
		return a, ruleErr(p.r.version, dlpack.ErrVersion, "version %v", v)
	}
	a.Version = int(n)

	if v, err = p.required("typestr"); err != nil {
		return a, err
	}
	s, ok := text(v)
	if !ok {
		return a, ruleErr(p.r.typestr, ErrType, "typestr is %s, not a str", typeName(v))
	}
	if a.Typestr, err = parseTypestr(s); err != nil {
		if err.Rule == "R203" {
			err.Rule = p.r.typestr
		}
		return a, err
	}

	if v, err = p.required("shape"); err != nil {
		return a, err
	}
	if a.Shape, err = ints("shape", v, p.opts, p.r.shape); err != nil {
		return a, err
	}
	if v = p.m["strides"]; v != nil {
		if a.Strides, err = ints("strides", v, p.opts, p.r.strides); err != nil {
			return a, err
		}
	}
	if v = p.m["mask"]; v != nil {
		return a, ruleErr(p.r.mask, dlpack.ErrNotSupported, "mask is %s: masked arrays are refused, never read as whole", typeName(v))
	}
	if v = p.m["descr"]; v != nil && a.Typestr.Kind == 'V' {
		if a.Descr, err = parseFields(v, p.opts); err != nil {
			return a, err
		}
	}
	return a, nil
}

// address reads a tuple (address, read-only) into a. An address of None counts
// as 0 (B040): the check refuses it if there are elements.
func (p reader) address(v any, a *Array) *dlpack.RuleError {
	t, ok := sequence(v, p.opts)
	if !ok || len(t) != 2 {
		return ruleErr(p.r.data, ErrType, "data is %s, not a tuple (address, read-only)", typeName(v))
	}
	n, neg, kind := toUint(t[0])
	switch {
	case t[0] == nil:
	case kind == notInteger:
		return ruleErr(p.r.data, ErrType, "address is %s, not an integer", typeName(t[0]))
	case kind == outOfRange || neg || n > math.MaxUint:
		return ruleErr(p.r.data, dlpack.ErrOverflow, "%v is no address", t[0])
	}
	if a.ReadOnly, ok = t[1].(bool); !ok {
		return ruleErr(p.r.data, ErrType, "read-only is %s, not a bool", typeName(t[1]))
	}
	a.Data = uintptr(n)
	return nil
}

// sequence accepts a tuple, and a list if that is allowed.
func sequence(v any, opts *ParseOptions) ([]any, bool) {
	switch t := v.(type) {
	case []any:
		return t, true
	case List:
		return t, opts.AllowLists
	}
	return nil, false
}

// ints reads a tuple of integers. The result is never nil.
func ints(what string, v any, opts *ParseOptions, rule string) ([]int64, *dlpack.RuleError) {
	t, ok := sequence(v, opts)
	if !ok {
		return nil, ruleErr(rule, ErrType, "%s is %s, not a tuple", what, typeName(v))
	}
	if len(t) > dlpack.MaxDims {
		return nil, ruleErr("R255", dlpack.ErrLayout, "%s has %d entries, above %d", what, len(t), dlpack.MaxDims)
	}
	out := make([]int64, len(t))
	for i, e := range t {
		n, kind := toInt(e)
		switch kind {
		case notInteger:
			return nil, ruleErr(rule, ErrType, "%s[%d] is %s, not an integer", what, i, typeName(e))
		case outOfRange:
			return nil, ruleErr(rule, dlpack.ErrOverflow, "%s[%d] is %v", what, i, e)
		}
		out[i] = n
	}
	return out, nil
}

// text accepts a str, and bytes as NumPy does.
func text(v any) (string, bool) {
	switch s := v.(type) {
	case string:
		return s, true
	case []byte:
		return string(s), true
	}
	return "", false
}
