package memview

import (
	"strconv"

	"github.com/go-handoff/handoff/dlpack"
)

// need is what an accessor asks of a view.
type need uint8

const (
	needRead       need = 0
	needWrite      need = 1 << 0
	needContiguous need = 1 << 1
	needAligned    need = 1 << 2
	needBytes      need = 1 << 3 // whole-byte elements
	needType       need = 1 << 4 // exactly the given dtype
)

// check tests, in this order: that there is memory and it is live, the host
// can reach it, the type, the permission, the layout.
func (v *StridedMemoryView) check(op string, want dlpack.DataType, n need) error {
	if v.layout.width == 0 {
		return fail(op, "", dlpack.ErrNull, "the view is the zero value")
	}
	if !v.owner.live() {
		return errReleased(op)
	}
	if !v.device.Type.HostAccessible() {
		return fail(op, "", dlpack.ErrDevice, v.device.String()+" memory is out of reach of the host")
	}
	if n&needType != 0 && v.dtype != want {
		return fail(op, "", dlpack.ErrDType, "elements are "+v.dtype.String()+", not "+want.String())
	}
	if n&needWrite != 0 && v.flags&dlpack.FlagReadOnly != 0 {
		return fail(op, "R015", dlpack.ErrReadOnly, "the view may not be written")
	}
	if n&needBytes != 0 && v.layout.width%8 != 0 {
		return fail(op, "R031", dlpack.ErrNotSupported, v.dtype.String()+" elements are packed, and do not start on a byte each")
	}
	if n&needContiguous != 0 && !v.layout.isC() {
		return fail(op, "B008", dlpack.ErrLayout, v.layout.String()+" is not C-contiguous")
	}
	if n&needContiguous != 0 {
		if size := v.layout.NumBytes(); int64(int(size)) != size { // on 32-bit machines
			return fail(op, "B100", dlpack.ErrOverflow, strconv.FormatInt(size, 10)+" bytes do not fit into a slice")
		}
	}
	if n&needAligned != 0 && !v.layout.empty() {
		// A view is aligned when it is made, except if its maker was trusted.
		if a := uintptr(v.dtype.Alignment()); v.address()%a != 0 {
			return fail(op, "R041", dlpack.ErrAlign, "address 0x"+strconv.FormatUint(uint64(v.address()), 16)+" for "+v.dtype.String())
		}
	}
	return nil
}

func errIndex(op string, l *Layout, index []int64) error {
	shape, _ := l.axes()
	return fail(op, "", ErrIndex, "index "+listOf(index)+" in shape "+listOf(shape))
}

// checkFast is check for the accessors of a fixed number of axes.
func (v *StridedMemoryView) checkFast(op string, ndim int32, want dlpack.DataType, n need) error {
	if err := v.check(op, want, n|needType|needBytes|needAligned); err != nil {
		return err
	}
	if v.layout.ndim != ndim {
		return fail(op, "", dlpack.ErrLayout,
			"the view has "+strconv.Itoa(int(v.layout.ndim))+" axes, not "+strconv.Itoa(int(ndim)))
	}
	return nil
}

func (v *StridedMemoryView) checkPacked() error {
	if v.layout.width%8 == 0 {
		return fail("packed", "R031", dlpack.ErrLayout, "the elements are padded")
	}
	if v.layout.offset != 0 {
		return fail("packed", "R032", dlpack.ErrLayout, "the view begins inside a byte")
	}
	return nil
}

// panicIndex is apart from its callers so that they can be inlined.
//
//go:noinline
func panicIndex(i, n int) {
	panic("memview: index " + strconv.Itoa(i) + " out of range for length " + strconv.Itoa(n))
}

//go:noinline
func panicIndex2(i, j, rows, cols int) {
	panic("memview: index " + strconv.Itoa(i) + ", " + strconv.Itoa(j) +
		" out of range for " + strconv.Itoa(rows) + " rows and " + strconv.Itoa(cols) + " columns")
}
