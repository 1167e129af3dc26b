package dlpack

import (
	"slices"
	"strconv"
	"strings"
)

// Desc is a plain description of a tensor. It owns nothing: Data is a number,
// and who keeps the memory is said elsewhere.
type Desc struct {
	// Data is an address, or an opaque handle on devices for which
	// [DeviceType.HasAddresses] is false.
	Data uintptr
	// ByteOffset is added to Data to reach the first element.
	ByteOffset uint64
	// Device says where the memory is.
	Device Device
	// DType is the element type.
	DType DataType
	// Shape has one extent per axis. A scalar has none.
	Shape []int64
	// Strides has the distance between neighbours along each axis, in
	// elements. Nil means row-major: the last axis is dense.
	Strides []int64
	// Flags describe the memory. [FlagReadOnly] and [FlagSubbyteTypePadded]
	// travel with the memory; [FlagIsCopied] is a statement of the producer
	// about one export.
	Flags Flags
	// Version is the version that was written in an imported tensor, the
	// zero value for an unversioned one. It is ignored on export: the version
	// written is [ABIVersion], whose rules every export obeys.
	Version Version
}

// Addr returns the address of the first element, as [Managed.Addr] does. It is
// 0 if Data is; for a device that [DeviceType.HasAddresses] denies it is the
// opaque handle, without the offset (R038).
func (d *Desc) Addr() uintptr {
	if d == nil {
		return 0
	}
	if d.Data == 0 || !d.Device.Type.HasAddresses() {
		return d.Data
	}
	return d.Data + uintptr(d.ByteOffset)
}

// Size returns the number of elements. It is 1 for a scalar. A description
// that did not pass [Desc.Check] may give a wrong number.
func (d *Desc) Size() int64 {
	if d == nil {
		return 0
	}
	n := int64(1)
	for _, e := range d.Shape {
		n *= e
	}
	return n
}

// Equal reports whether two descriptions are the same, value by value.
// Row-major strides equal nil strides.
func (d *Desc) Equal(e *Desc) bool {
	if d == nil || e == nil {
		return d == e
	}
	return d.Data == e.Data && d.ByteOffset == e.ByteOffset && d.Device == e.Device && d.DType == e.DType &&
		d.Flags == e.Flags && d.Version == e.Version && slices.Equal(d.Shape, e.Shape) &&
		slices.Equal(d.strides(), e.strides())
}

func (d *Desc) strides() []int64 {
	if d.Strides != nil {
		return d.Strides
	}
	s, _ := RowMajor(nil, d.Shape)
	return s
}

// String returns one line such as
// "float32[2 3] strides [3 1] at 0x1000 on cpu:0".
func (d *Desc) String() string {
	if d == nil {
		return "no tensor"
	}
	var b strings.Builder
	b.WriteString(d.DType.String())
	writeInts(&b, d.Shape)
	if d.Strides != nil {
		b.WriteString(" strides ")
		writeInts(&b, d.Strides)
	}
	b.WriteString(" at 0x" + strconv.FormatUint(uint64(d.Data), 16))
	if d.ByteOffset != 0 {
		b.WriteString("+" + strconv.FormatUint(d.ByteOffset, 10))
	}
	b.WriteString(" on " + d.Device.String())
	if d.Flags != 0 {
		b.WriteString(" " + d.Flags.String())
	}
	return b.String()
}

func writeInts(b *strings.Builder, v []int64) {
	b.WriteByte('[')
	for i, n := range v {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.FormatInt(n, 10))
	}
	b.WriteByte(']')
}

// RowMajor appends the strides of a dense row-major tensor to dst, in
// elements. An extent of 0 counts as 1 (B027), so shape (0, 2048) gives
// (2048, 1). The error wraps [ErrOverflow] if a stride does not fit, and
// [ErrLayout] for a negative extent.
func RowMajor(dst, shape []int64) ([]int64, error) {
	start := len(dst)
	dst = append(dst, shape...)
	s := dst[start:]
	step := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] < 0 {
			return dst[:start], (problem{kind: kindLayout, rule: 34, what: whatExtent, a: int64(i), b: shape[i]}).err("dlpack: strides")
		}
		n := max(shape[i], 1)
		s[i] = step
		if i > 0 {
			var ok bool
			if step, ok = mulInt64(step, n); !ok {
				return dst[:start], (problem{kind: kindOverflow, rule: 34, what: whatRowMajor, a: int64(i - 1)}).err("dlpack: strides")
			}
		}
	}
	return dst, nil
}
