package launch

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/memview"
)

// TensorMapDType is the element type of a tensor map, for the types that no
// dtype of DLPack names. Its values are the driver's, plus 1.
type TensorMapDType int32

// Element types.
const (
	// TensorMapAuto is what the view's dtype says.
	TensorMapAuto          TensorMapDType = 0
	TensorMapUint8         TensorMapDType = 1
	TensorMapUint16        TensorMapDType = 2
	TensorMapUint32        TensorMapDType = 3
	TensorMapInt32         TensorMapDType = 4
	TensorMapUint64        TensorMapDType = 5
	TensorMapInt64         TensorMapDType = 6
	TensorMapFloat16       TensorMapDType = 7
	TensorMapFloat32       TensorMapDType = 8
	TensorMapFloat64       TensorMapDType = 9
	TensorMapBFloat16      TensorMapDType = 10
	TensorMapFloat32FTZ    TensorMapDType = 11 // denormals become zeros
	TensorMapTFloat32      TensorMapDType = 12
	TensorMapTFloat32FTZ   TensorMapDType = 13
	TensorMap16U4Align8    TensorMapDType = 14 // 16 packed 4-bit elements, as they are
	TensorMap16U4Align16   TensorMapDType = 15 // spread over 16 bytes in shared memory
	TensorMap16U6Align16   TensorMapDType = 16 // 6-bit elements, so spread
	lastTensorMapDataTypes                = TensorMap16U6Align16
)

// Interleave says how channels are laid out, for formats such as NC/8HWC8.
type Interleave int32

// Layouts.
const (
	InterleaveNone Interleave = 0
	Interleave16   Interleave = 1 // bytes
	Interleave32   Interleave = 2
)

// Swizzle says how bytes are permuted in shared memory, against bank conflicts.
type Swizzle int32

// Permutations, by their span in bytes.
const (
	SwizzleNone           Swizzle = 0
	Swizzle32             Swizzle = 1
	Swizzle64             Swizzle = 2
	Swizzle128            Swizzle = 3
	Swizzle128Atom32      Swizzle = 4 // needs compute capability 10.0
	Swizzle128Atom32Flip8 Swizzle = 5
	Swizzle128Atom64      Swizzle = 6
)

// span is the most bytes that the innermost box extent may have.
func (s Swizzle) span() int {
	switch s {
	case Swizzle32:
		return 32
	case Swizzle64:
		return 64
	}
	return 128
}

// L2Promotion says how much is fetched into the second level cache at once.
type L2Promotion int32

// Sizes, in bytes.
const (
	L2PromotionNone L2Promotion = 0
	L2Promotion64   L2Promotion = 1
	L2Promotion128  L2Promotion = 2
	L2Promotion256  L2Promotion = 3
)

// OOBFill says what is read outside of the tensor.
type OOBFill int32

// Fills.
const (
	// OOBFillZero reads zeros.
	OOBFillZero OOBFill = 0
	// OOBFillNaN reads a NaN, for floating-point types, which multiplies as
	// zero where the instruction asks for it.
	OOBFillNaN OOBFill = 1
)

// TensorMapOptions tune [NewTensorMap]. The zero value is the default.
type TensorMapOptions struct {
	// DType overrides the view's.
	DType TensorMapDType
	// ElementStrides are steps between the elements of a box, 1 to 8 for each
	// axis of the view; nil means 1.
	ElementStrides []int
	Interleave     Interleave
	Swizzle        Swizzle
	L2Promotion    L2Promotion
	OOBFill        OOBFill
}

// TensorMap tells the device's copy engine for tiles (TMA, compute capability
// 9.0) about a view: a kernel takes it by value, as a const __grid_constant__
// CUtensorMap, and copies boxes of it. It keeps the view alive, not open.
//
// It is immutable but for [TensorMap.Replace], which must not run at the same
// time as a launch with it.
type TensorMap struct {
	m    *driver.TensorMap
	view memview.StridedMemoryView
	opts TensorMapOptions
	box  []int
}

// NewTensorMap describes a view in device memory. box is the extent of a tile,
// 1 to 256 for each axis, in the order of the view's axes; the last axis must
// be dense.
//
// The rules of the hardware are checked: 1 to 5 axes, an address that is a
// multiple of 16 bytes (32 for [Interleave32]), strides that are multiples of
// 16 bytes and not negative, tiles whose last extent is a multiple of 16 bytes
// and, with a swizzle, no larger than its span. Errors wrap [ErrInvalidValue],
// [ErrDevice], [dlpack.ErrLayout], [dlpack.ErrAlign] or [dlpack.ErrDType];
// [ErrNotSupported] where the device has no such engine.
func NewTensorMap(v memview.StridedMemoryView, box []int, opts *TensorMapOptions) (*TensorMap, error) {
	var o TensorMapOptions
	if opts != nil {
		o = *opts
	}
	t := &TensorMap{opts: o, box: box, m: newTensorMap()}
	if err := t.encode(v); err != nil {
		return nil, fmt.Errorf("launch: tensor map: %w", err)
	}
	return t, nil
}

func (t *TensorMap) encode(v memview.StridedMemoryView) error {
	o := &t.opts
	n := v.NDim()
	if n < 1 || n > 5 || o.Interleave != InterleaveNone && n < 3 {
		return fmt.Errorf("a view of %s: 1 to 5 are possible, 3 to 5 if interleaved: %w", axes(n), dlpack.ErrLayout)
	}
	if len(t.box) != n || o.ElementStrides != nil && len(o.ElementStrides) != n {
		return fmt.Errorf("a box of %d and %d element strides for %s: %w", len(t.box), len(o.ElementStrides), axes(n), ErrInvalidValue)
	}
	for _, e := range []struct {
		name     string
		value, n int32
	}{
		{"Interleave", int32(o.Interleave), 3},
		{"Swizzle", int32(o.Swizzle), 7},
		{"L2Promotion", int32(o.L2Promotion), 4},
		{"OOBFill", int32(o.OOBFill), 2},
		{"DType", int32(o.DType), int32(lastTensorMapDataTypes) + 1},
	} {
		if e.value < 0 || e.value >= e.n {
			return fmt.Errorf("%s is %d: %w", e.name, e.value, ErrInvalidValue)
		}
	}
	dtype := o.DType
	if dtype == TensorMapAuto {
		var ok bool
		if dtype, ok = tensorMapDType(v.DType()); !ok {
			return fmt.Errorf("elements of type %v: set DType: %w", v.DType(), dlpack.ErrDType)
		}
	}
	bits := tensorMapBits(dtype)
	if have := int(v.DType().BitsPerElement()); have != bits {
		return fmt.Errorf("elements of %d bits as elements of %d: %w", have, bits, dlpack.ErrDType)
	}
	if o.OOBFill == OOBFillNaN && !(dtype >= TensorMapFloat16 && dtype <= TensorMapTFloat32FTZ) {
		return fmt.Errorf("a fill with NaN for integers: %w", ErrInvalidValue)
	}
	if !v.Live() {
		return closed("view")
	}
	if v.Size() == 0 {
		return fmt.Errorf("an empty view: %w", dlpack.ErrLayout)
	}
	dev, err := deviceOf(v)
	if err != nil {
		return err
	}
	align := uintptr(16)
	if o.Interleave == Interleave32 || dtype == TensorMap16U4Align16 || dtype == TensorMap16U6Align16 {
		align = 32
	}
	if v.Addr()%align != 0 {
		return fmt.Errorf("address %#x is no multiple of %d: %w", v.Addr(), align, dlpack.ErrAlign)
	}
	if dev != nil {
		if has, err := dev.Attribute(driver.AttrTensorMapAccessSupported); err != nil || has == 0 {
			return fmt.Errorf("%v has no engine for tiles, which needs compute capability 9.0: %w", dev, ErrNotSupported)
		}
	}
	// The driver counts axes from the innermost.
	dims, box := make([]uint64, n), make([]uint32, n)
	elem, strides := make([]uint32, n), make([]uint64, n-1)
	for i := range n {
		axis := n - 1 - i
		name := "axis " + strconv.Itoa(axis)
		extent, step, side := v.Dim(axis), v.Stride(axis), t.box[axis]
		if extent > 1<<32 {
			return fmt.Errorf("%s has %d elements, 2^32 are possible: %w", name, extent, dlpack.ErrOverflow)
		}
		if side < 1 || side > 256 {
			return fmt.Errorf("box extent %d of %s: 1 to 256 are possible: %w", side, name, ErrInvalidValue)
		}
		dims[i], box[i], elem[i] = uint64(extent), uint32(side), 1
		if o.ElementStrides != nil {
			e := o.ElementStrides[axis]
			if e < 1 || e > 8 {
				return fmt.Errorf("element stride %d of %s: 1 to 8 are possible: %w", e, name, ErrInvalidValue)
			}
			elem[i] = uint32(e)
		}
		if i == 0 {
			if step != 1 && extent > 1 {
				return fmt.Errorf("%s has stride %d: the last axis must be dense: %w", name, step, dlpack.ErrLayout)
			}
			if n := side * bits; o.Interleave == InterleaveNone && n%(16*8) != 0 {
				return fmt.Errorf("a box of %d bits in %s: a multiple of 16 bytes is possible: %w", n, name, ErrInvalidValue)
			} else if o.Interleave == InterleaveNone && o.Swizzle != SwizzleNone && n > 8*o.Swizzle.span() {
				return fmt.Errorf("a box of %d bits in %s: the swizzle spans %d bytes: %w", n, name, o.Swizzle.span(), ErrInvalidValue)
			}
			continue
		}
		if extent == 1 && step <= 0 {
			step = 1 // such an axis never moves: any stride does
		}
		if extent == 1 && step*int64(bits)%(int64(align)*8) != 0 {
			step = int64(align) * 8 / int64(bits)
		}
		bytes := step * int64(bits) / 8
		if step <= 0 || step*int64(bits)%(int64(align)*8) != 0 || bytes >= 1<<40 {
			return fmt.Errorf("%s has a stride of %d bytes: a positive multiple of %d below 2^40 is possible: %w", name, bytes, align, dlpack.ErrLayout)
		}
		strides[i-1] = uint64(bytes)
	}
	err = inContext(dev, "encode", func(d *driver.Driver) driver.Result {
		return d.TensorMapEncodeTiled(t.m, int32(dtype)-1, v.Addr(), dims, strides, box, elem,
			int32(o.Interleave), int32(o.Swizzle), int32(o.L2Promotion), int32(o.OOBFill))
	})
	if err != nil {
		return err
	}
	t.view = v
	return nil
}

// inContext makes a call about a tensor map in the context of a device, as the
// driver wants, nil for memory that all devices reach: that may be described in
// any.
func inContext(dev *device.Device, op string, call func(*driver.Driver) driver.Result) error {
	d, err := openDriver()
	if err != nil {
		return err
	}
	if dev == nil {
		if dev, err = device.Open(0); err != nil {
			return err
		}
	}
	restore, err := dev.SetCurrent()
	if err != nil {
		return err
	}
	return errors.Join(check(op, dev.Ordinal(), call(d)), restore())
}

// deviceOf returns the device of a view, nil for memory that all can reach.
func deviceOf(v memview.StridedMemoryView) (*device.Device, error) {
	switch d := v.Device(); d.Type {
	case dlpack.DeviceCUDA:
		dev, err := device.Open(int(d.ID))
		if err != nil {
			return nil, fmt.Errorf("a view on %v: %w: %w", d, ErrDevice, err)
		}
		return dev, nil
	case dlpack.DeviceCUDAHost, dlpack.DeviceCUDAManaged:
		return nil, nil
	default:
		return nil, fmt.Errorf("a view on %v, which no device reaches: %w", d, ErrDevice)
	}
}

func tensorMapDType(dt dlpack.DataType) (TensorMapDType, bool) {
	switch dt {
	case dlpack.UInt8, dlpack.Int8, dlpack.Bool:
		return TensorMapUint8, true
	case dlpack.UInt16, dlpack.Int16:
		return TensorMapUint16, true
	case dlpack.UInt32:
		return TensorMapUint32, true
	case dlpack.Int32:
		return TensorMapInt32, true
	case dlpack.UInt64:
		return TensorMapUint64, true
	case dlpack.Int64:
		return TensorMapInt64, true
	case dlpack.Float16:
		return TensorMapFloat16, true
	case dlpack.Float32:
		return TensorMapFloat32, true
	case dlpack.Float64:
		return TensorMapFloat64, true
	case dlpack.BFloat16:
		return TensorMapBFloat16, true
	}
	if dt.BitsPerElement() == 8 && dt.Lanes == 1 { // the 8-bit floats
		return TensorMapUint8, true
	}
	return 0, false
}

func tensorMapBits(t TensorMapDType) int {
	switch t {
	case TensorMapUint8:
		return 8
	case TensorMapUint16, TensorMapFloat16, TensorMapBFloat16:
		return 16
	case TensorMapUint64, TensorMapInt64, TensorMapFloat64:
		return 64
	case TensorMap16U4Align8, TensorMap16U4Align16:
		return 4
	case TensorMap16U6Align16:
		return 6
	}
	return 32
}

// View returns the view that the map describes.
func (t *TensorMap) View() memview.StridedMemoryView {
	if t == nil {
		return memview.StridedMemoryView{}
	}
	return t.view
}

// Replace points the map at another view of the same shape, strides and dtype.
func (t *TensorMap) Replace(v memview.StridedMemoryView) error {
	const op = "launch: tensor map: replace"
	if t == nil || t.m == nil {
		return closed("tensor map: replace")
	}
	if !v.Layout().Equal(t.view.Layout()) || v.DType() != t.view.DType() {
		return fmt.Errorf("%s: the view has another shape, stride or dtype: %w", op, dlpack.ErrLayout)
	}
	if !v.Live() {
		return closed("tensor map: view")
	}
	dev, err := deviceOf(v)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	align := uintptr(16)
	if t.opts.Interleave == Interleave32 || t.opts.DType == TensorMap16U4Align16 || t.opts.DType == TensorMap16U6Align16 {
		align = 32
	}
	if v.Addr()%align != 0 {
		return fmt.Errorf("%s: address %#x is no multiple of %d: %w", op, v.Addr(), align, dlpack.ErrAlign)
	}
	err = inContext(dev, "replace the address of a tensor map", func(d *driver.Driver) driver.Result {
		return d.TensorMapReplaceAddress(t.m, v.Addr())
	})
	if err != nil {
		return err
	}
	t.view = v
	return nil
}

// setTensorMap packs the 128 bytes of a map.
func (b *block) setTensorMap(i int, t *TensorMap) (at place, m *misfit) {
	if t == nil || t.m == nil {
		return at, &misfit{detail: "a nil tensor map"}
	}
	_, dev, m := viewAddress(&t.view)
	if m != nil {
		return at, m
	}
	s := b.slot(i, 128, 128)
	if s == nil {
		return at, b.wrong(i, 128, "a tensor map")
	}
	copyTensorMap(s, t.m)
	return place{dev: dev}, nil
}
