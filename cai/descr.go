package cai

import (
	"math"

	"github.com/go-handoff/handoff/dlpack"
)

// maxFields bounds how deep fields nest and how many there are in all.
const (
	maxFieldDepth = 32
	maxFields     = 1 << 16
)

// parseFields reads the list under the key "descr".
func parseFields(v any, opts *ParseOptions) ([]Field, *dlpack.RuleError) {
	left := maxFields
	return parseFieldList(v, opts, 0, &left)
}

func parseFieldList(v any, opts *ParseOptions, depth int, left *int) ([]Field, *dlpack.RuleError) {
	list, ok := v.(List)
	if !ok {
		return nil, ruleErr("R216", ErrType, "descr is %s, not a list", typeName(v))
	}
	if depth > maxFieldDepth {
		return nil, ruleErr("R216", dlpack.ErrDType, "descr is nested too deeply")
	}
	if *left -= len(list); *left < 0 {
		return nil, ruleErr("R216", dlpack.ErrDType, "descr has too many members")
	}
	fields := make([]Field, 0, len(list))
	for i, e := range list {
		t, ok := e.([]any)
		if !ok || len(t) != 2 && len(t) != 3 {
			return nil, ruleErr("R216", ErrType, "member %d of descr is not a tuple of 2 or 3", i)
		}
		var f Field
		switch name := t[0].(type) {
		case string:
			f.Name = name
		case []any: // (title, name)
			if len(name) == 2 {
				title, ok1 := name[0].(string)
				second, ok2 := name[1].(string)
				if ok1 && ok2 {
					f.Title, f.Name = title, second
					break
				}
			}
			return nil, ruleErr("R216", ErrType, "name of member %d of descr is not a pair of str", i)
		default:
			return nil, ruleErr("R216", ErrType, "name of member %d of descr is %s", i, typeName(t[0]))
		}
		var err *dlpack.RuleError
		if nested, ok := t[1].(List); ok {
			f.Fields, err = parseFieldList(nested, opts, depth+1, left)
		} else if s, ok := text(t[1]); ok {
			f.Typestr, err = parseTypestr(s)
		} else {
			err = ruleErr("R216", ErrType, "type of member %d of descr is %s", i, typeName(t[1]))
		}
		if err != nil {
			return nil, err
		}
		if len(t) == 3 {
			if n, kind := toInt(t[2]); kind == inRange { // NumPy allows a bare number
				f.Shape = []int64{n}
			} else if f.Shape, err = ints("shape of a member of descr", t[2], opts, "R216"); err != nil {
				return nil, err
			}
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// fieldsSize adds up the bytes of members.
func fieldsSize(fields []Field, depth int) (int64, *dlpack.RuleError) {
	if depth > maxFieldDepth {
		return 0, ruleErr("R216", dlpack.ErrDType, "descr is nested too deeply")
	}
	var sum int64
	for i, f := range fields {
		size := f.Typestr.ItemSize()
		if f.Fields != nil {
			var err *dlpack.RuleError
			if size, err = fieldsSize(f.Fields, depth+1); err != nil {
				return 0, err
			}
		}
		for _, n := range f.Shape {
			if n < 0 {
				return 0, ruleErr("R216", dlpack.ErrLayout, "member %d of descr has the extent %d", i, n)
			}
			var ok bool
			if size, ok = mul(size, n); !ok {
				return 0, ruleErr("R216", dlpack.ErrOverflow, "size of member %d of descr", i)
			}
		}
		if size < 0 || size > math.MaxInt64-sum {
			return 0, ruleErr("R216", dlpack.ErrOverflow, "size of descr")
		}
		sum += size
	}
	return sum, nil
}

// fieldsValue is the neutral form of fields: a list of tuples.
func fieldsValue(fields []Field) List {
	list := make(List, len(fields))
	for i, f := range fields {
		t := make([]any, 2, 3)
		t[0] = f.Name
		if f.Title != "" {
			t[0] = []any{f.Title, f.Name}
		}
		if f.Fields != nil {
			t[1] = fieldsValue(f.Fields)
		} else {
			t[1] = f.Typestr.String()
		}
		if f.Shape != nil {
			t = append(t, tuple(f.Shape))
		}
		list[i] = t
	}
	return list
}
