package cai

import (
	"math"

	"github.com/go-handoff/handoff/dlpack"
)

// ArrayInterface is a description of NumPy's array interface, version 3.
type ArrayInterface struct {
	Array

	// Buffer says that the memory is a buffer and not an address; Data and
	// ReadOnly mean nothing then, until [ArrayInterface.Resolve] has put them
	// right.
	Buffer *BufferSource
}

// BufferSource names the buffer that an array lies in.
type BufferSource struct {
	// Object has the buffer protocol. Nil is the object itself that published
	// the description (R207).
	Object any
	// Offset is where the first element is, in bytes from the buffer's start
	// (R208).
	Offset int64
}

// ArrayProducer is implemented by Go types that hold host memory and describe
// it. The memory stays valid while the producer lives and is not closed. An
// array that the interface cannot express gives an error.
type ArrayProducer interface {
	ArrayInterface() (ArrayInterface, error)
}

var numpyRules = rules{
	op: "cai: parse array interface", keys: "R201", shape: "R202", typestr: "R203", data: "R206",
	strides: "R214", length: "R213", null: "R209", mask: "R217", version: "R201",
}

// ParseArrayInterface reads an __array_interface__ dictionary in the neutral
// form of the package comment. It accepts every version (R218), absent and None
// for every optional key, address 0 for an array without elements (R210) and
// nowhere else (R209), and refuses masks (R217). An offset counts only for
// buffers (R208).
//
// The error is a [*dlpack.RuleError]; it wraps [ErrMissing], [ErrType],
// [dlpack.ErrDType], [dlpack.ErrLayout], [dlpack.ErrNull], [dlpack.ErrOverflow],
// [dlpack.ErrVersion] or [dlpack.ErrNotSupported].
func ParseArrayInterface(m map[string]any, opts *ParseOptions) (ArrayInterface, error) {
	i, err := parseArrayInterface(newReader(m, opts, &numpyRules))
	if err != nil {
		return ArrayInterface{}, withOp(numpyRules.op, err)
	}
	return i, nil
}

func parseArrayInterface(p reader) (i ArrayInterface, err *dlpack.RuleError) {
	if i.Array, err = p.array(); err != nil {
		return i, err
	}
	switch v := p.m["data"].(type) {
	case []any:
		err = p.address(v, &i.Array)
	case List:
		err = p.address(v, &i.Array)
	case bool, string, float32, float64, map[string]any:
		err = ruleErr("R206", ErrType, "data is %s, not a tuple and not a buffer", typeName(v))
	default:
		if _, _, kind := toUint(v); kind != notInteger {
			return i, ruleErr("R206", ErrType, "data is %s, not a tuple and not a buffer", typeName(v))
		}
		i.Buffer = &BufferSource{Object: v}
		i.Buffer.Offset, err = p.offset()
	}
	if err != nil {
		return i, err
	}
	return i, i.checkAll()
}

func (p reader) offset() (int64, *dlpack.RuleError) {
	v := p.m["offset"]
	if v == nil {
		return 0, nil
	}
	n, kind := toInt(v)
	switch {
	case kind == notInteger:
		return 0, ruleErr("R208", ErrType, "offset is %s, not an integer", typeName(v))
	case kind == outOfRange || n < 0:
		return 0, ruleErr("R208", dlpack.ErrOverflow, "offset %v", v)
	}
	return n, nil
}

// checkAll checks an array in a buffer as if the buffer lay in the middle of
// memory: its address is not known yet, all else is.
func (i *ArrayInterface) checkAll() *dlpack.RuleError {
	if i.Buffer == nil {
		return i.check(&numpyRules)
	}
	if i.Buffer.Offset < 0 {
		return ruleErr("R208", dlpack.ErrOverflow, "offset %d", i.Buffer.Offset)
	}
	a := i.Array
	a.Data = math.MaxUint / 2
	return a.check(&numpyRules)
}

// Check validates a description that was made by hand as
// [ParseArrayInterface] does.
func (i *ArrayInterface) Check() error {
	const op = "cai: check array interface"
	if i == nil {
		return nothing(op, &numpyRules)
	}
	return withOp(op, i.checkAll())
}

// Resolve gives the description of an array in a buffer with the address that
// the buffer turned out to have: size bytes from addr on. Every element must lie
// inside; else the error wraps [dlpack.ErrLayout] (R208). The result is
// read-only if the buffer is (R211). A description that has an address already
// comes back as it is.
func (i *ArrayInterface) Resolve(addr uintptr, size int64, readOnly bool) (ArrayInterface, error) {
	const op = "cai: resolve"
	if i == nil {
		return ArrayInterface{}, nothing(op, &numpyRules)
	}
	if i.Buffer == nil {
		return *i, nil
	}
	if err := i.checkAll(); err != nil {
		return ArrayInterface{}, withOp(op, err)
	}
	r := ArrayInterface{Array: i.Array}
	r.ReadOnly = readOnly
	offset := i.Buffer.Offset
	outside := ruleErr("R208", dlpack.ErrLayout, "elements lie outside of the buffer of %d bytes, from offset %d", size, offset)
	if uint64(offset) > uint64(math.MaxUint-addr) { // addr itself is foreign, too
		return ArrayInterface{}, withOp(op, ruleErr("R034", dlpack.ErrOverflow, "offset %d passes the end of memory", offset))
	}
	if offset > size {
		return ArrayInterface{}, withOp(op, outside)
	}
	if i.Size() != 0 {
		low, high, _ := extent(i.Shape, i.Strides, i.Typestr.ItemSize())
		if low > offset || high > size-offset {
			return ArrayInterface{}, withOp(op, outside)
		}
	}
	r.Data = addr + uintptr(offset)
	if err := r.check(&numpyRules); err != nil { // a NULL buffer, or one that passes the end of memory
		return ArrayInterface{}, withOp(op, err)
	}
	return r, nil
}

// Desc converts to the project's own description, on the CPU or another device
// whose memory the host can read. An array in a buffer must be resolved first:
// else the error wraps [dlpack.ErrNull]. For the rest see [Interface.Desc].
func (i *ArrayInterface) Desc(dev dlpack.Device, opts *DTypeOptions) (dlpack.Desc, error) {
	if i == nil {
		return dlpack.Desc{}, nothing(opToDLPack, &numpyRules)
	}
	if i.Buffer != nil {
		return dlpack.Desc{}, withOp(opToDLPack, ruleErr("R207", dlpack.ErrNull, "the address of the buffer is not known"))
	}
	return checkedDesc(&i.Array, &numpyRules, dev, opts)
}

// ArrayFromDesc describes a tensor by the array interface. Its memory must be
// readable by the host: other devices give an error wrapping
// [dlpack.ErrDevice]. Types without a typestring give one wrapping
// [dlpack.ErrDType] (R285). Row-major strides are left out (R282).
func ArrayFromDesc(d *dlpack.Desc) (ArrayInterface, error) {
	const op = "cai: array interface from DLPack"
	if err := d.Check(); err != nil {
		return ArrayInterface{}, err
	}
	if !d.Device.Type.HostAccessible() {
		return ArrayInterface{}, withOp(op, ruleErr("R285", dlpack.ErrDevice, "memory on %s is not readable by the host", d.Device))
	}
	a, err := fromDesc(d)
	if err != nil {
		return ArrayInterface{}, withOp(op, err)
	}
	return ArrayInterface{Array: a}, nil
}

// Map gives the dictionary in the neutral form, for a producer to publish.
// Shape, strides and data are tuples, absent strides are None (R200 to R202,
// B260).
func (i *ArrayInterface) Map() map[string]any {
	if i == nil {
		return nil
	}
	m := make(map[string]any, 7)
	i.put(m)
	if i.Buffer == nil {
		m["data"] = []any{integer(i.Data), i.ReadOnly}
		return m
	}
	m["data"] = i.Buffer.Object
	if i.Buffer.Offset != 0 {
		m["offset"] = i.Buffer.Offset
	}
	return m
}
