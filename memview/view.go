package memview

import (
	"math/bits"
	"strconv"

	"github.com/go-handoff/handoff/dlpack"
)

// StridedMemoryView describes an array in memory that somebody else may own:
// address, element type, [Layout], device, and whether it may be written.
//
// It is a value of some 260 bytes; copies and parts of it share one [Owner].
// Methods that change shape or type return a new view of the same memory and
// copy nothing. A view may be used from several goroutines at once; access to
// the elements is for the caller to order. The zero view has no memory: every
// access fails with [dlpack.ErrNull].
type StridedMemoryView struct {
	base   *byte   // element (0,…,0) less the layout's offset, in Go memory
	addr   uintptr // the same in foreign memory; base is nil then
	dtype  dlpack.DataType
	flags  dlpack.Flags
	device dlpack.Device
	owner  Owner
	place  *place  // what is known of the memory and its streams beyond device, or nil
	_      uintptr // fills up to a multiple of 16 bytes, in which views are copied fastest
	layout Layout
}

// Layout returns shape, strides and item size. Its offset is 0 except for a
// view of packed elements that begins inside a byte.
func (v StridedMemoryView) Layout() Layout { return v.layout }

// NDim returns the number of axes.
//
// NDim, Dim and Stride take the view by its address: a call then copies
// nothing. They need a variable, which the result of another call has to be
// put into first.
func (v *StridedMemoryView) NDim() int {
	if v == nil {
		return 0
	}
	return int(v.layout.ndim)
}

// Dim returns the extent of axis i. It panics if there is no such axis.
func (v *StridedMemoryView) Dim(i int) int64 {
	shape, _ := v.layout.axes()
	return shape[i]
}

// Stride returns the stride of axis i in elements. It panics if there is no
// such axis.
func (v *StridedMemoryView) Stride(i int) int64 {
	_, steps := v.layout.axes()
	return steps[i]
}

// Shape returns a new slice with the extents.
func (v StridedMemoryView) Shape() []int64 { return v.layout.Shape() }

// Strides returns a new slice with the strides in elements.
func (v StridedMemoryView) Strides() []int64 { return v.layout.Strides() }

// Size returns the number of elements.
func (v StridedMemoryView) Size() int64 { return v.layout.size() }

// NumBytes returns the bytes of the elements alone, without gaps.
func (v StridedMemoryView) NumBytes() int64 { return v.layout.NumBytes() }

// ItemSize returns the bytes of one element, rounded up for packed elements.
func (v StridedMemoryView) ItemSize() int { return v.layout.ItemSize() }

// DType returns the element type.
func (v StridedMemoryView) DType() dlpack.DataType { return v.dtype }

// Device returns where the memory is.
func (v StridedMemoryView) Device() dlpack.Device { return v.device }

// Flags returns the DLPack flags of the memory.
func (v StridedMemoryView) Flags() dlpack.Flags { return v.flags }

// ReadOnly reports whether the memory must not be written. Every writable
// accessor refuses such a view with [dlpack.ErrReadOnly] (B076).
func (v StridedMemoryView) ReadOnly() bool { return v.flags&dlpack.FlagReadOnly != 0 }

// Padded reports whether elements narrower than a byte take a byte each.
func (v StridedMemoryView) Padded() bool { return v.flags&dlpack.FlagSubbyteTypePadded != 0 }

// ContiguousC reports whether the elements lie in C order without gaps.
func (v StridedMemoryView) ContiguousC() bool { return v.layout.isC() }

// ContiguousF reports whether the elements lie in Fortran order without gaps.
func (v StridedMemoryView) ContiguousF() bool { return v.layout.ContiguousF() }

// Alignment returns the largest power of two, at most 4096, that divides the
// address of the first element, and 0 for an empty view, which has no such
// element. DLPack's promise of 256 bytes is not relied on (R041, B063, B065).
func (v StridedMemoryView) Alignment() int {
	if v.layout.empty() {
		return 0
	}
	return 1 << min(bits.TrailingZeros64(uint64(v.address())), 12)
}

// AsReadOnly returns the view without the permission to write.
func (v StridedMemoryView) AsReadOnly() StridedMemoryView {
	v.flags |= dlpack.FlagReadOnly
	return v
}

// with returns v with another layout, folding the offset into the address.
func (v *StridedMemoryView) with(l *Layout) StridedMemoryView {
	w := *v
	w.layout = *l
	w.fold()
	return w
}

// fold moves the offset of the layout into the address. Offsets that do not
// fall on a byte stay in the layout.
func (v *StridedMemoryView) fold() {
	off := v.layout.offset
	if off == 0 || v.layout.empty() {
		return
	}
	w := int64(v.layout.width)
	if w%8 == 0 {
		v.shift(off * (w / 8))
	} else if off*w%8 == 0 {
		v.shift(off * w / 8)
	} else {
		return
	}
	v.layout.offset = 0
}

// Slice selects parts of the axes; see [Layout.Slice].
func (v StridedMemoryView) Slice(index ...Index) (StridedMemoryView, error) {
	l, err := v.layout.Slice(index...)
	if err != nil {
		return StridedMemoryView{}, err
	}
	return v.with(&l), nil
}

// Permute reorders the axes; see [Layout.Permute].
func (v StridedMemoryView) Permute(perm ...int) (StridedMemoryView, error) {
	l, err := v.layout.Permute(perm...)
	if err != nil {
		return StridedMemoryView{}, err
	}
	return v.with(&l), nil
}

// Transpose reverses the order of the axes.
func (v StridedMemoryView) Transpose() StridedMemoryView {
	l := v.layout.Transpose()
	return v.with(&l)
}

// Squeeze drops axes of extent 1; see [Layout.Squeeze].
func (v StridedMemoryView) Squeeze(axes ...int) (StridedMemoryView, error) {
	l, err := v.layout.Squeeze(axes...)
	if err != nil {
		return StridedMemoryView{}, err
	}
	return v.with(&l), nil
}

// Unsqueeze adds axes of extent 1; see [Layout.Unsqueeze].
func (v StridedMemoryView) Unsqueeze(axes ...int) (StridedMemoryView, error) {
	l, err := v.layout.Unsqueeze(axes...)
	if err != nil {
		return StridedMemoryView{}, err
	}
	return v.with(&l), nil
}

// Broadcast repeats the view to a shape; see [Layout.Broadcast]. If an axis
// does repeat, the result is read-only, as one write would show in many
// places.
func (v StridedMemoryView) Broadcast(shape ...int64) (StridedMemoryView, error) {
	l, err := v.layout.Broadcast(shape...)
	if err != nil {
		return StridedMemoryView{}, err
	}
	w := v.with(&l)
	if l.Size() > v.layout.size() {
		w.flags |= dlpack.FlagReadOnly
	}
	return w, nil
}

// Reshape gives the elements another shape without a copy; see
// [Layout.Reshape].
func (v StridedMemoryView) Reshape(shape ...int64) (StridedMemoryView, error) {
	l, err := v.layout.Reshape(shape...)
	if err != nil {
		return StridedMemoryView{}, err
	}
	return v.with(&l), nil
}

// Flatten merges axes; see [Layout.Flatten].
func (v StridedMemoryView) Flatten(start, end int, mask uint64) (StridedMemoryView, error) {
	l, err := v.layout.Flatten(start, end, mask)
	if err != nil {
		return StridedMemoryView{}, err
	}
	return v.with(&l), nil
}

// WithLayout lays another layout over the memory of the view, as seen from
// the address of its first element. Item sizes must agree and the layout must
// not reach outside of the bytes that v spans; [dlpack.ErrLayout] otherwise.
func (v StridedMemoryView) WithLayout(l Layout) (StridedMemoryView, error) {
	if l.width != v.layout.width {
		return StridedMemoryView{}, fail("view", "", dlpack.ErrLayout,
			"items of "+strconv.Itoa(l.ItemBits())+" bits for a dtype of "+strconv.Itoa(v.layout.ItemBits()))
	}
	if !l.empty() {
		lo, hi := v.layout.OffsetBounds()
		a, b := l.OffsetBounds()
		a, okA := add(a, v.layout.offset)
		b, okB := add(b, v.layout.offset)
		if !okA || !okB || a < lo || b > hi {
			return StridedMemoryView{}, fail("view", "", dlpack.ErrLayout,
				"the layout reaches elements "+strconv.FormatInt(a, 10)+" to "+strconv.FormatInt(b, 10)+
					" of a view that has "+strconv.FormatInt(lo, 10)+" to "+strconv.FormatInt(hi, 10))
		}
		l.offset += v.layout.offset
	}
	if !v.layout.unique() || !l.IsUnique() {
		v.flags |= dlpack.FlagReadOnly
	}
	return v.with(&l), nil
}

// View reads the same memory as elements of another type. With an
// equal item size only the type changes. Otherwise the extent of the last axis
// changes, which must be dense: its length in bytes must be a whole number of
// new elements, and so must every other stride (B016, B256). Wider elements
// pass over trailing axes of extent 1.
//
// It fails with [dlpack.ErrDType] for a malformed type, with
// [dlpack.ErrLayout] if the layout does not allow it, and with
// [dlpack.ErrAlign] if the first element is not aligned for the new type.
// Padded elements narrower than a byte stay padded.
func (v StridedMemoryView) View(dtype dlpack.DataType) (StridedMemoryView, error) {
	if err := dtype.Check(); err != nil {
		return StridedMemoryView{}, fail("view", "", err, "from "+v.dtype.String())
	}
	w := v
	w.dtype = dtype
	if !dtype.SubByte() {
		w.flags &^= dlpack.FlagSubbyteTypePadded
	}
	width := widthOf(dtype, v.Padded())
	if width != v.layout.width && !v.layout.empty() {
		axis := -1
		shape, steps := v.layout.axes()
		for i := len(shape) - 1; i >= 0; i-- {
			// An axis of extent 1 can be cut up, but not merged.
			if shape[i] == 1 && width > v.layout.width && i > 0 {
				continue
			}
			if shape[i] == 1 || steps[i] == 1 {
				axis = i
			}
			break
		}
		if axis < 0 {
			return StridedMemoryView{}, fail("view", "B256", dlpack.ErrLayout,
				"no dense last axis in "+v.layout.String()+" to view "+v.dtype.String()+" as "+dtype.String())
		}
		l, err := v.layout.repack("view", width, axis)
		if err != nil {
			return StridedMemoryView{}, err
		}
		w.layout = l
		w.fold()
	} else {
		w.layout.width = width
	}
	if a := uintptr(dtype.Alignment()); w.address()%a != 0 && !w.layout.empty() && w.device.Type.HasAddresses() {
		return StridedMemoryView{}, fail("view", "R041", dlpack.ErrAlign,
			"address 0x"+strconv.FormatUint(uint64(w.address()), 16)+" for "+dtype.String())
	}
	return w, nil
}
