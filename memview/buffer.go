package memview

import (
	"strconv"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/dlpack"
)

// Buffer is a buffer of the Python buffer protocol (PEP 3118): the fields of
// Py_buffer that describe memory, by the same names.
type Buffer struct {
	// Buf is the address of element (0,…,0), also with negative strides (R246).
	Buf uintptr
	// Len is the size of the elements in bytes, without gaps (R235).
	Len int64
	// ItemSize is the size of one element in bytes.
	ItemSize int64
	// ReadOnly forbids writing (R243).
	ReadOnly bool
	// NDim is the number of axes.
	NDim int
	// Format says what an element is. Empty, for NULL, means unsigned bytes
	// (R233).
	Format string
	// Shape has NDim extents. Nil, for NULL, means flat bytes (R238), or a
	// scalar if NDim is 0.
	Shape []int64
	// Strides has NDim strides in bytes. Nil means C order.
	Strides []int64
	// Suboffsets has NDim entries, or is nil. An entry that is not negative
	// means an array of pointers, which is refused (R245).
	Suboffsets []int64
}

// FromBuffer makes a view from a PEP 3118 description. The owner must be
// named, see [Owner]; it is whatever releases the Py_buffer (R230). The view
// takes over its claim on success only. The slices are copied.
//
// Whatever cannot be a flat array of numbers is refused with the rule's
// number: [dlpack.ErrLayout] for a number of axes, shape, length or item size
// that contradict each other (R236, R247, R255, R259) and for strides that
// are no whole number of elements (R257, B016), [dlpack.ErrNotSupported] for
// suboffsets (R245), [dlpack.ErrDType] for formats that are structured, hold
// objects or text, or have foreign byte order (R248 to R254), and what
// [dlpack.Desc.Check] finds.
func FromBuffer(b *Buffer, owner Owner) (StridedMemoryView, error) {
	const op = "buffer"
	if owner.kind == ownerNone {
		return StridedMemoryView{}, errNoOwner(op)
	}
	if b.NDim < 0 || b.NDim > MaxDims {
		return StridedMemoryView{}, fail(op, "R255", dlpack.ErrLayout, strconv.Itoa(b.NDim)+" axes")
	}
	for _, s := range b.Suboffsets {
		if s >= 0 {
			return StridedMemoryView{}, fail(op, "R245", dlpack.ErrNotSupported, "an array of pointers (suboffsets)")
		}
	}
	if b.Len < 0 {
		return StridedMemoryView{}, fail(op, "R235", dlpack.ErrLayout, "length "+strconv.FormatInt(b.Len, 10)+" is negative")
	}
	var buf [MaxDims]int64
	raw := dlpack.Desc{Data: b.Buf, Device: dlpack.Device{Type: dlpack.DeviceCPU}}
	if b.ReadOnly {
		raw.Flags = dlpack.FlagReadOnly
	}
	if b.Shape == nil && b.NDim > 0 {
		// Flat bytes: item size and format are to be disregarded.
		if b.NDim > 1 {
			return StridedMemoryView{}, fail(op, "R238", dlpack.ErrLayout, strconv.Itoa(b.NDim)+" axes without a shape")
		}
		buf[0] = b.Len
		raw.DType, raw.Shape = dlpack.UInt8, buf[:1]
		return FromDesc(&raw, owner)
	}
	if len(b.Shape) != b.NDim || (b.Strides != nil && len(b.Strides) != b.NDim) ||
		(b.Suboffsets != nil && len(b.Suboffsets) != b.NDim) {
		return StridedMemoryView{}, fail(op, "R234", dlpack.ErrLayout,
			strconv.Itoa(len(b.Shape))+" extents and "+strconv.Itoa(len(b.Strides))+" strides for "+strconv.Itoa(b.NDim)+" axes")
	}
	if b.ItemSize < 1 {
		return StridedMemoryView{}, fail(op, "R259", dlpack.ErrLayout, "item size "+strconv.FormatInt(b.ItemSize, 10))
	}
	raw.DType = dlpack.UInt8
	if b.Format != "" {
		dt, err := cai.FormatDType(b.Format, b.ItemSize)
		if err != nil {
			return StridedMemoryView{}, fail(op, "", err, "format "+strconv.Quote(b.Format))
		}
		raw.DType = dt
	}
	if int64(raw.DType.ItemSize()) != b.ItemSize {
		return StridedMemoryView{}, fail(op, "R247", dlpack.ErrLayout,
			"item size "+strconv.FormatInt(b.ItemSize, 10)+" for elements of type "+raw.DType.String())
	}
	raw.Shape = b.Shape
	n, ok := int64(0), true
	for i, e := range b.Shape {
		if e < 0 {
			return StridedMemoryView{}, fail(op, "R034", dlpack.ErrLayout,
				"extent "+strconv.FormatInt(e, 10)+" of axis "+strconv.Itoa(i)+" is negative")
		}
	}
	if n, ok = product(b.Shape); ok {
		n, ok = mul(n, b.ItemSize)
	}
	if !ok {
		return StridedMemoryView{}, fail(op, "R034", dlpack.ErrOverflow, "size of shape "+listOf(b.Shape)+" passes 64 bits")
	}
	if n != b.Len {
		return StridedMemoryView{}, fail(op, "R236", dlpack.ErrLayout,
			"length "+strconv.FormatInt(b.Len, 10)+", but the elements take "+strconv.FormatInt(n, 10)+" bytes")
	}
	if b.Strides != nil {
		if err := elementSteps(op, "R257", b.Shape, b.Strides, b.ItemSize, buf[:b.NDim]); err != nil {
			return StridedMemoryView{}, err
		}
		raw.Strides = buf[:b.NDim]
	}
	return FromDesc(&raw, owner)
}

// elementSteps turns strides in bytes into strides in elements, by exact
// division only (R281, B016, B092). Strides that are never taken are rounded
// (R256).
func elementSteps(op, rule string, shape, bytes []int64, item int64, out []int64) error {
	empty := false
	for _, n := range shape {
		empty = empty || n == 0
	}
	for i, s := range bytes {
		if s%item != 0 && shape[i] > 1 && !empty {
			return fail(op, rule, dlpack.ErrLayout, "stride of axis "+strconv.Itoa(i)+", "+strconv.FormatInt(s, 10)+
				" bytes, is not a multiple of the item size "+strconv.FormatInt(item, 10))
		}
		out[i] = s / item
	}
	return nil
}
