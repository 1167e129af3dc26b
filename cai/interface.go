package cai

import (
	"github.com/go-handoff/handoff/dlpack"
)

// Interface is a description of the CUDA Array Interface, versions 0 to 3.
type Interface struct {
	Array

	// Stream says which stream to wait for before touching the data. It exists
	// from version 3 on and is [NoStream] before. [Interface.Ordering] tells
	// "nothing pending" from "cannot say".
	Stream StreamArgument
}

// Producer is implemented by Go types that hold GPU memory and describe it.
//
// The memory stays valid while the producer lives and is not closed; the
// producer keeps the exported stream alive as long as itself (R193), joins all
// streams with pending work into it (R191), and gives [NoStream] only if
// nothing is pending (R192). The description may change from call to call. An
// array that the interface cannot express gives an error.
type Producer interface {
	CUDAArrayInterface() (Interface, error)
}

var caiRules = rules{
	op: "cai: parse", keys: "R167", shape: "R169", typestr: "R170", data: "R172",
	strides: "R178", length: "R179", null: "R172", mask: "R181", version: "R197",
}

// Parse reads a __cuda_array_interface__ dictionary in the neutral form of the
// package comment. It accepts the versions 0 to 3 and newer ones (R196), absent
// and None for every optional key, address 0 or None for an array without
// elements (R173, R174) and nowhere else, and refuses masks (R181). The address
// is not looked at. A stream in a version below 3 has no meaning and is ignored
// (R183).
//
// The error is a [*dlpack.RuleError]; it wraps [ErrMissing], [ErrType],
// [dlpack.ErrDType], [dlpack.ErrLayout], [dlpack.ErrNull], [dlpack.ErrOverflow],
// [dlpack.ErrStream], [dlpack.ErrVersion] or [dlpack.ErrNotSupported].
// Strides that do not fit the item size are refused only by
// [Interface.Desc], and so are types without a counterpart.
func Parse(m map[string]any, opts *ParseOptions) (Interface, error) {
	i, err := parseInterface(newReader(m, opts, &caiRules))
	if err != nil {
		return Interface{}, withOp(caiRules.op, err)
	}
	return i, nil
}

func parseInterface(p reader) (i Interface, err *dlpack.RuleError) {
	if i.Array, err = p.array(); err != nil {
		return i, err
	}
	v, err := p.required("data")
	if err != nil {
		return i, err
	}
	if err = p.address(v, &i.Array); err != nil {
		return i, err
	}
	if i.Version >= 3 {
		if i.Stream, err = parseCAIStream(p.m["stream"]); err != nil {
			return i, err
		}
	}
	return i, i.check(&caiRules)
}

// Check validates a description that was made by hand as [Parse] does. It
// refuses a stream in a version below 3, which cannot carry it.
func (i *Interface) Check() error {
	const op = "cai: check"
	if i == nil {
		return nothing(op, &caiRules)
	}
	err := i.check(&caiRules)
	if err == nil && i.Version < 3 && !i.Stream.IsNone() {
		err = ruleErr("R183", dlpack.ErrStream, "version %d cannot say stream %s", i.Version, i.Stream)
	}
	return withOp(op, err)
}

// Ordering is what a description states about pending work on the data.
type Ordering uint8

const (
	// OrderingUnstated: the version (0 to 2) has no way to name a stream.
	// Nothing has to be waited for by the rules (R183), and nothing is promised:
	// the user orders.
	OrderingUnstated Ordering = 0
	// OrderingNone: the producer states that nothing is pending (R192).
	OrderingNone Ordering = 1
	// OrderingStream: work may be pending on the stream of the description. The
	// consumer makes its own stream wait for it, or works on it (R188).
	OrderingStream Ordering = 2
)

// String gives "unstated", "none" or "stream".
func (o Ordering) String() string {
	switch o {
	case OrderingUnstated:
		return "unstated"
	case OrderingNone:
		return "none"
	}
	return "stream"
}

// Ordering says what the description states about pending work.
func (i *Interface) Ordering() Ordering {
	switch {
	case i == nil || i.Version < 3:
		return OrderingUnstated
	case i.Stream.IsNone():
		return OrderingNone
	}
	return OrderingStream
}

// Desc converts to the project's own description, on the device that the caller
// found out: the interface names none; the driver knows for each address (R195,
// R288). The read-only flag goes along (R279). Nil options refuse element types
// that are not certain.
//
// A stride that is no multiple of the item size gives an error wrapping
// [dlpack.ErrLayout] (R281, B016, B092) unless its axis has fewer than two
// indexes. Types without a counterpart wrap [dlpack.ErrDType] (R285). What
// [dlpack.Desc.Check] refuses is refused, a misaligned address too.
func (i *Interface) Desc(dev dlpack.Device, opts *DTypeOptions) (dlpack.Desc, error) {
	if i == nil {
		return dlpack.Desc{}, nothing(opToDLPack, &caiRules)
	}
	return checkedDesc(&i.Array, &caiRules, dev, opts)
}

const opToDLPack = "cai: to DLPack"

// nothing is the error of a nil description: all of its keys are missing.
func nothing(op string, r *rules) error {
	return withOp(op, ruleErr(r.keys, ErrMissing, "no description"))
}

func checkedDesc(a *Array, r *rules, dev dlpack.Device, opts *DTypeOptions) (dlpack.Desc, error) {
	const op = opToDLPack
	if err := a.check(r); err != nil {
		return dlpack.Desc{}, withOp(op, err)
	}
	d, err := a.desc(dev, opts)
	if err != nil {
		return dlpack.Desc{}, withOp(op, err)
	}
	if err := d.Check(); err != nil {
		return dlpack.Desc{}, err
	}
	return d, nil
}

// FromDesc describes a tensor by version 3 of the interface, with the stream
// that consumers have to wait for, or [NoStream] if nothing is pending.
//
// The device must be a CUDA one: device, managed or pinned memory; others give
// an error wrapping [dlpack.ErrDevice] (R199). Types without a typestring give
// one wrapping [dlpack.ErrDType] (R198). An array without elements has address 0
// (R173, R287); row-major strides are left out.
func FromDesc(d *dlpack.Desc, s StreamArgument) (Interface, error) {
	const op = "cai: from DLPack"
	if err := d.Check(); err != nil {
		return Interface{}, err
	}
	if familyOf(d.Device.Type) != cuda {
		return Interface{}, withOp(op, ruleErr("R199", dlpack.ErrDevice, "memory on %s is not a CUDA array", d.Device))
	}
	a, err := fromDesc(d)
	if err != nil {
		if err.Rule == "R285" {
			err.Rule = "R198"
		}
		return Interface{}, withOp(op, err)
	}
	if a.Size() == 0 {
		a.Data = 0
	}
	return Interface{Array: a, Stream: s}, nil
}

// Map gives the dictionary in the neutral form, for a producer to publish.
// Shape, strides and data are tuples (B260), absent strides are None, and an
// array without elements has address 0 from version 2 on (R173). The stream is
// written from version 3 on.
func (i *Interface) Map() map[string]any {
	if i == nil {
		return nil
	}
	m := make(map[string]any, 7)
	i.put(m)
	addr := i.Data
	if i.Version >= 2 && i.Size() == 0 {
		addr = 0
	}
	m["data"] = []any{integer(addr), i.ReadOnly}
	if i.Version >= 3 {
		m["stream"] = i.Stream.CAI()
	}
	return m
}
