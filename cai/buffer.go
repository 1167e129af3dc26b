package cai

import (
	"math"
	"slices"

	"github.com/go-handoff/handoff/dlpack"
)

// Buffer describes what the buffer protocol (Py_buffer) gave, field by field.
type Buffer struct {
	// Addr is the address of element (0, …, 0), also if strides are negative
	// (R246).
	Addr uintptr
	// Len is the bytes of the logical content.
	Len int64
	// ItemSize is the bytes of one element.
	ItemSize int64
	// ReadOnly says that the memory must not be written (R243).
	ReadOnly bool
	// NDim is the number of axes.
	NDim int
	// Format is the element type; HasFormat is false for a NULL one, which means
	// unsigned bytes (R233).
	Format    string
	HasFormat bool
	// Shape has NDim extents, or is nil: then the buffer is Len flat bytes
	// (R238), or one element if NDim is 0.
	Shape []int64
	// Strides has NDim distances in bytes. Nil means row-major.
	Strides []int64
	// Suboffsets must be nil or have no entry of 0 and above: such data lies
	// behind pointers (R245).
	Suboffsets []int64
}

// Desc validates the buffer and converts it to the project's own description,
// on the given device, mostly [dlpack.CPU].
//
// The error is a [*dlpack.RuleError]; it wraps [dlpack.ErrDType] for formats
// that are not one plain number in native byte order (R247 to R254, R259) and
// [dlpack.ErrLayout] for sub-offsets (R245), a length that is not the product of
// extents and item size (R236), more than 64 axes or fewer than 0 (R255), and
// strides that are no multiple of the item size (R257) along an axis that has
// more than one index (R256).
func (b *Buffer) Desc(dev dlpack.Device) (dlpack.Desc, error) {
	const op = "cai: buffer"
	if b == nil {
		return dlpack.Desc{}, withOp(op, ruleErr("", dlpack.ErrNull, "no buffer"))
	}
	d, err := b.desc(dev)
	if err != nil {
		return dlpack.Desc{}, withOp(op, err)
	}
	if err := d.Check(); err != nil {
		return dlpack.Desc{}, err
	}
	return d, nil
}

func (b *Buffer) desc(dev dlpack.Device) (dlpack.Desc, *dlpack.RuleError) {
	fail := func(rule string, kind error, format string, args ...any) (dlpack.Desc, *dlpack.RuleError) {
		return dlpack.Desc{}, ruleErr(rule, kind, format, args...)
	}
	if b.NDim < 0 || b.NDim > dlpack.MaxDims {
		return fail("R255", dlpack.ErrLayout, "%d axes", b.NDim)
	}
	for i, s := range b.Suboffsets {
		if s >= 0 {
			return fail("R245", dlpack.ErrLayout, "sub-offset %d of axis %d: the data lies behind pointers", s, i)
		}
	}
	d := dlpack.Desc{Data: b.Addr, Device: dev}
	if b.ReadOnly {
		d.Flags = dlpack.FlagReadOnly // R243, R279
	}
	if b.Len < 0 {
		return fail("R236", dlpack.ErrLayout, "length %d", b.Len)
	}
	if b.Shape == nil && b.NDim > 0 { // R238: flat bytes
		if b.NDim > 1 {
			return fail("R238", dlpack.ErrLayout, "%d axes without a shape", b.NDim)
		}
		d.DType, d.Shape = dlpack.UInt8, []int64{b.Len}
		return d, nil
	}
	if len(b.Shape) != b.NDim || b.Strides != nil && len(b.Strides) != b.NDim {
		return fail("R238", dlpack.ErrLayout, "%d extents and %d strides for %d axes", len(b.Shape), len(b.Strides), b.NDim)
	}
	format := "B"
	if b.HasFormat {
		format = b.Format
	}
	var err *dlpack.RuleError
	if d.DType, err = formatDType(format, b.ItemSize); err != nil {
		return d, err
	}
	empty := slices.Contains(b.Shape, 0)
	for i, n := range b.Shape {
		if n < 0 {
			return fail("R034", dlpack.ErrLayout, "extent %d of axis %d is negative", n, i)
		}
	}
	size := int64(0)
	if !empty {
		low, high, ok := extent(b.Shape, b.Strides, b.ItemSize)
		if !ok {
			return fail("R034", dlpack.ErrOverflow, "size in bytes does not fit")
		}
		if b.Addr != 0 && (uint64(low) > uint64(b.Addr) || uint64(high) > uint64(math.MaxUint-b.Addr)) {
			return fail("R034", dlpack.ErrOverflow, "elements lie outside of the address space")
		}
		count, _ := product(b.Shape)
		size = count * b.ItemSize // extent saw that it fits
	}
	if size != b.Len {
		return fail("R236", dlpack.ErrLayout, "length %d, but extents and item size make %d", b.Len, size)
	}
	d.Shape = slices.Clone(b.Shape)
	d.Strides, err = elementStrides(b.Shape, b.Strides, b.ItemSize, "R257")
	return d, err
}
