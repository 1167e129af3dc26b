package cai

import (
	"math"
	"math/bits"
	"slices"

	"github.com/go-handoff/handoff/dlpack"
)

// Array is what the two interfaces have in common. Its fields are those of the
// dictionary.
type Array struct {
	// Version is the number of the interface. On reading, newer ones are
	// accepted for the keys that are known (R196, R218).
	Version int
	// Shape has one extent per axis; a scalar has none.
	Shape []int64
	// Typestr is the element type.
	Typestr Typestr
	// Data is the address of element (0, …, 0), also if strides are negative.
	Data uintptr
	// ReadOnly says that the memory must not be written (R175, R211).
	ReadOnly bool
	// Strides are the distances between neighbours along each axis in bytes.
	// Nil means row-major without gaps (R177, R212).
	Strides []int64
	// Descr has the members of a structured type. It is nil unless Typestr has
	// kind V (R180, R215).
	Descr []Field
}

// Field is a member of a structured element type.
type Field struct {
	// Name may be empty: a member of kind V without a name is padding.
	Name string
	// Title is a second name, mostly empty.
	Title string
	// Typestr is the type of the member, zero if it has Fields.
	Typestr Typestr
	// Fields are the members of a member that is a structure itself.
	Fields []Field
	// Shape is the shape of a member that is an array, or nil.
	Shape []int64
}

// Size gives the number of elements, 1 for a scalar. It may be wrong for a
// description that did not pass Check.
func (a *Array) Size() int64 {
	if a == nil {
		return 0
	}
	n := int64(1)
	for _, e := range a.Shape {
		n *= e
	}
	return n
}

// Names of rules that differ between the interfaces.
type rules struct {
	op      string
	keys    string // a required key is missing
	shape   string
	typestr string
	data    string
	strides string // wrong type of strides
	length  string // wrong number of strides
	null    string // address 0 with elements
	mask    string
	version string
}

// check is the part of validation that needs all fields.
func (a *Array) check(r *rules) *dlpack.RuleError {
	if a.Version < 0 || a.Version > math.MaxInt32 {
		return ruleErr(r.version, dlpack.ErrVersion, "version %d", a.Version)
	}
	if n := len(a.Shape); n > dlpack.MaxDims {
		return ruleErr("R255", dlpack.ErrLayout, "%d axes, above %d", n, dlpack.MaxDims)
	}
	if a.Strides != nil && len(a.Strides) != len(a.Shape) {
		return ruleErr(r.length, dlpack.ErrLayout, "%d strides for %d axes", len(a.Strides), len(a.Shape))
	}
	if !a.Typestr.valid() {
		return ruleErr(r.typestr, dlpack.ErrDType, "typestr %s", quote(a.Typestr.String()))
	}
	if a.Descr != nil && a.Typestr.Kind == 'V' {
		size, err := fieldsSize(a.Descr, 0)
		if err != nil {
			return err
		}
		if size != a.Typestr.ItemSize() {
			return ruleErr("R216", dlpack.ErrDType, "descr of %d bytes for typestr %s", size, a.Typestr)
		}
	}
	// Signs and zeros first: an extent of 0 makes every other one harmless.
	empty := false
	for i, n := range a.Shape {
		if n < 0 {
			return ruleErr(r.shape, dlpack.ErrLayout, "extent %d of axis %d is negative", n, i)
		}
		empty = empty || n == 0
	}
	if empty {
		return nil
	}
	low, high, ok := extent(a.Shape, a.Strides, a.Typestr.ItemSize())
	if !ok {
		return ruleErr("R034", dlpack.ErrOverflow, "size in bytes does not fit")
	}
	if a.Data == 0 {
		return ruleErr(r.null, dlpack.ErrNull, "address 0 of an array with %d elements", a.Size())
	}
	if uint64(low) > uint64(a.Data) || uint64(high) > uint64(math.MaxUint-a.Data) {
		return ruleErr("R034", dlpack.ErrOverflow, "elements lie outside of the address space")
	}
	return nil
}

// extent gives how many bytes an array reaches below its address and above it,
// its extents being positive; ok is false if a number does not fit. The product
// of extents and item size must fit as well. Strides are in bytes, nil for
// row-major.
func extent(shape, strides []int64, item int64) (low, high int64, ok bool) {
	count, ok := product(shape)
	if !ok {
		return 0, 0, false
	}
	total, ok := mul(count, item)
	if !ok || strides == nil {
		return 0, total, ok
	}
	high = item
	for i, n := range shape {
		reach, fits := mul(n-1, strides[i])
		if !fits || reach == math.MinInt64 {
			return 0, 0, false
		}
		if reach < 0 {
			low, ok = add(low, -reach)
		} else {
			high, ok = add(high, reach)
		}
		if !ok {
			return 0, 0, false
		}
	}
	return low, high, true
}

func product(v []int64) (int64, bool) {
	p, ok := int64(1), true
	for _, n := range v {
		if p, ok = mul(p, n); !ok {
			return 0, false
		}
	}
	return p, true
}

func mul(a, b int64) (int64, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	hi, lo := bits.Mul64(magnitude(a), magnitude(b))
	if a < 0 != (b < 0) {
		return -int64(lo), hi == 0 && lo <= 1<<63
	}
	return int64(lo), hi == 0 && lo <= math.MaxInt64
}

func magnitude(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

// add adds numbers that are not negative.
func add(a, b int64) (int64, bool) { return a + b, a <= math.MaxInt64-b }

// desc converts to the project's own description.
func (a *Array) desc(dev dlpack.Device, opts *DTypeOptions) (dlpack.Desc, *dlpack.RuleError) {
	dtype, err := a.Typestr.dtype(opts, structured(a.Descr))
	if err != nil {
		return dlpack.Desc{}, err
	}
	d := dlpack.Desc{Data: a.Data, Device: dev, DType: dtype, Shape: slices.Clone(a.Shape)}
	if a.ReadOnly {
		d.Flags = dlpack.FlagReadOnly // R279
	}
	d.Strides, err = elementStrides(a.Shape, a.Strides, a.Typestr.ItemSize(), "R281")
	return d, err
}

// elementStrides divides strides by the item size, which is positive. A stride
// that nobody steps along may be anything (R256).
func elementStrides(shape, strides []int64, item int64, rule string) ([]int64, *dlpack.RuleError) {
	if strides == nil {
		return nil, nil
	}
	empty := slices.Contains(shape, 0)
	out := make([]int64, len(strides))
	dense := int64(1) // stride of the axis if the array were row-major
	for i := len(strides) - 1; i >= 0; i-- {
		n, s := shape[i], strides[i]
		switch {
		case s%item == 0:
			out[i] = s / item
		case n <= 1 || empty:
			out[i] = dense
		default:
			return nil, ruleErr(rule, dlpack.ErrLayout, "stride %d of axis %d is not a multiple of the item size %d", s, i, item)
		}
		if next, ok := mul(dense, max(n, 1)); ok {
			dense = next
		}
	}
	return out, nil
}

// structured reports whether fields say more than "these are raw bytes".
func structured(fields []Field) bool {
	for _, f := range fields {
		if f.Name != "" || f.Fields != nil || f.Typestr.Kind != 'V' {
			return true
		}
	}
	return false
}

// fromDesc is the opposite of desc. The description passed its check.
func fromDesc(d *dlpack.Desc) (Array, *dlpack.RuleError) {
	t, err := typestrOf(d.DType)
	if err != nil {
		return Array{}, err
	}
	a := Array{
		Version: 3, Shape: slices.Clone(d.Shape), Typestr: t,
		Data: d.Addr(), ReadOnly: d.Flags.Has(dlpack.FlagReadOnly), // R280, R283
	}
	if a.Shape == nil {
		a.Shape = []int64{}
	}
	if d.Strides == nil || rowMajor(d.Shape, d.Strides) {
		return a, nil
	}
	a.Strides = make([]int64, len(d.Strides))
	for i, s := range d.Strides { // R282
		var ok bool
		if a.Strides[i], ok = mul(s, t.Size); !ok {
			if d.Shape[i] > 1 {
				return Array{}, ruleErr("R282", dlpack.ErrOverflow, "stride %d of axis %d in bytes", s, i)
			}
			a.Strides[i] = t.Size // nobody steps along it
		}
	}
	return a, nil
}

// rowMajor reports whether strides say what leaving them out says. Axes with
// one index do not count, and nothing does without elements (R054).
func rowMajor(shape, strides []int64) bool {
	if slices.Contains(shape, 0) {
		return true
	}
	dense := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] == 1 {
			continue
		}
		if strides[i] != dense {
			return false
		}
		dense *= shape[i] // fits: the size was checked
	}
	return true
}

// put writes the common keys of a dictionary.
func (a *Array) put(m map[string]any) {
	m["version"] = int64(a.Version)
	m["shape"] = tuple(a.Shape)
	m["typestr"] = a.Typestr.String()
	m["strides"] = nil
	if a.Strides != nil {
		m["strides"] = tuple(a.Strides)
	}
	if a.Descr != nil && a.Typestr.Kind == 'V' {
		m["descr"] = fieldsValue(a.Descr)
	}
}
