package dlpack

import (
	"strconv"

	"github.com/go-handoff/handoff/internal/cptr"
)

// Table is the C exchange table (DLPackExchangeAPI) of a Python array library:
// C functions that exchange tensors without a capsule. The table is static; a
// Table is its address and owns nothing. The zero Table is none.
//
// Nothing here synchronizes. The functions that take or give a Python object,
// and CurrentStream, need the attached thread state of Python: the goroutine
// must be locked to the thread that has it (R110). When one of them fails, the
// error wraps [ErrExchange] and a Python exception is set on that thread.
type Table struct{ addr uintptr }

// maxTables bounds the walk along prev_api: a chain that is longer is a cycle.
const maxTables = 64

// OpenTable finds the table that this package understands, starting at the
// address that a library advertises: there, or along prev_api (R090, R091).
// Before the major version is known to be supported nothing but the header is
// read. The error wraps [ErrVersion] if there is none, and then the library is
// to be treated as one without a table; [ErrNull] for address 0, and for a
// table that lacks the function to export, without which it is of no use.
func OpenTable(addr uintptr) (Table, error) {
	const op = "dlpack: exchange table"
	if !supported {
		return Table{}, notSupported(op)
	}
	if addr == 0 {
		return Table{}, (problem{kind: kindNull, rule: 90, what: whatNullStruct}).err(op)
	}
	first := Version{}
	for i := range maxTables {
		if addr%8 != 0 {
			return Table{}, (problem{kind: kindAlign, rule: 89, what: whatStructAlign}).err(op)
		}
		h := cptr.To[cExchangeHeader](addr)
		if i == 0 {
			first = h.version
		}
		if h.version.Major == ABIVersion.Major {
			if cptr.To[cExchange](addr).fromPyObject == 0 {
				return Table{}, &RuleError{Rule: "R093", Op: op, Detail: "managed_tensor_from_py_object_no_sync is NULL", Err: ErrNull}
			}
			return Table{addr}, nil
		}
		if h.version.Major < ABIVersion.Major || h.prevAPI == 0 {
			break
		}
		addr = h.prevAPI
	}
	return Table{}, &RuleError{Rule: "R091", Op: op, Detail: "no table of major " + strconv.Itoa(int(ABIVersion.Major)) + " behind version " + first.String(), Err: ErrVersion}
}

// Addr returns the address of the table.
func (t Table) Addr() uintptr { return t.addr }

// Version returns the version in the header. Its major is 1.
func (t Table) Version() Version {
	if t.addr == 0 {
		return Version{}
	}
	return cptr.To[cExchangeHeader](t.addr).version
}

// CanBorrow reports whether the table has the optional function behind
// [Table.Borrow] (R094).
func (t Table) CanBorrow() bool {
	return t.addr != 0 && cptr.To[cExchange](t.addr).borrowTensor != 0
}

// entry returns an error if a function is missing.
func (t Table) entry(op, name string, get func(*cExchange) uintptr) error {
	if t.addr == 0 {
		return &RuleError{Op: op, Detail: "no table", Err: ErrNull}
	}
	if get(cptr.To[cExchange](t.addr)) == 0 {
		return &RuleError{Rule: "R093", Op: op, Detail: name + " is NULL", Err: ErrNotSupported}
	}
	return nil
}

// Allocate asks the library for a new tensor, not initialized, of the element
// type, shape and device of d; nothing else of d counts (R096). The caller
// owns the result (R098). It needs no thread state. The error of the library
// is an [*AllocError].
func (t Table) Allocate(d *Desc) (Managed, error) {
	const op = "dlpack: exchange: allocate"
	if err := t.entry(op, "managed_tensor_allocator", func(x *cExchange) uintptr { return x.allocator }); err != nil {
		return Managed{}, err
	}
	if _, _, err := d.reach(op); err != nil {
		return Managed{}, err
	}
	p, err := tableAllocate(t.addr, d)
	if err != nil {
		return Managed{}, err
	}
	return ImportVersioned(p)
}

// AllocError is what the allocator of an exchange table reported.
type AllocError struct {
	// Kind is the name of a Python exception class, such as "MemoryError".
	Kind string
	// Message is the text of the library.
	Message string
}

// Error returns the kind and the message.
func (e *AllocError) Error() string {
	return "dlpack: exchange: allocate: " + e.Kind + ": " + e.Message
}

// Unwrap returns [ErrNoMemory] for the kind "MemoryError", else [ErrExchange].
func (e *AllocError) Unwrap() error {
	if e.Kind == "MemoryError" {
		return ErrNoMemory
	}
	return ErrExchange
}

// FromPyObject exports a Python object (PyObject *, borrowed) of the type on
// which the table was found; other objects must not be passed (R100). The
// caller owns the result.
func (t Table) FromPyObject(object uintptr) (Managed, error) {
	const op = "dlpack: exchange: export"
	if err := t.entry(op, "managed_tensor_from_py_object_no_sync", func(x *cExchange) uintptr { return x.fromPyObject }); err != nil {
		return Managed{}, err
	}
	rc, p := tableFrom(t.addr, object)
	if rc != 0 {
		return Managed{}, exchangeFailed(op)
	}
	return ImportVersioned(p)
}

// ToPyObject hands a versioned tensor to the library and returns a new
// reference on the Python object (R104). The tensor is gone in any case: the
// library owns it on success, and whose it is after a failure is not
// specified, so that it is left alone rather than released twice (R105).
func (t Table) ToPyObject(tensor uintptr) (object uintptr, err error) {
	const op = "dlpack: exchange: import"
	if err := t.entry(op, "managed_tensor_to_py_object_no_sync", func(x *cExchange) uintptr { return x.toPyObject }); err != nil {
		if tensor != 0 && supported {
			releaseVersioned(tensor)
		}
		return 0, err
	}
	if tensor == 0 {
		return 0, (problem{kind: kindNull, rule: 45, what: whatNullStruct}).err(op)
	}
	rc, o := tableTo(t.addr, tensor)
	if rc != 0 {
		return 0, exchangeFailed(op)
	}
	return o, nil
}

// Borrow fills d with the tensor of a Python object without taking a
// reference. The memory is the object's and valid only for the call that is
// being served (R106). The slices of d are reused and receive copies of shape
// and strides. It wraps [ErrNotSupported] unless [Table.CanBorrow]; then use
// [Table.FromPyObject] (R094).
func (t Table) Borrow(object uintptr, d *Desc) error {
	const op = "dlpack: exchange: borrow"
	if err := t.entry(op, "dltensor_from_py_object_no_sync", func(x *cExchange) uintptr { return x.borrowTensor }); err != nil {
		return err
	}
	rc, c := tableBorrow(t.addr, object)
	if rc != 0 {
		return exchangeFailed(op)
	}
	if p := c.problem(0); p.kind != kindOK {
		return p.err(op)
	}
	shape, strides := c.dims()
	d.Data, d.ByteOffset, d.Device, d.DType = c.data, c.byteOffset, c.device, c.dtype
	d.Shape = append(d.Shape[:0], shape...)
	if strides == nil {
		d.Strides = nil
	} else {
		d.Strides = append(d.Strides[:0], strides...)
	}
	d.Flags, d.Version = 0, t.Version()
	return nil
}

// CurrentStream returns the raw handle of the stream on which the library
// works now on a device. 0 means its default stream, or none on the CPU
// (R108, R109). Work on a tensor from the table has to be queued there or
// ordered after it (R103).
func (t Table) CurrentStream(d Device) (uintptr, error) {
	const op = "dlpack: exchange: stream"
	if err := t.entry(op, "current_work_stream", func(x *cExchange) uintptr { return x.currentStream }); err != nil {
		return 0, err
	}
	rc, s := tableStream(t.addr, d)
	if rc != 0 {
		return 0, exchangeFailed(op)
	}
	return s, nil
}

func exchangeFailed(op string) error { return &RuleError{Op: op, Err: ErrExchange} }

// TableFuncs are the addresses of the C functions for a table of our own. They
// have the signatures of the typedefs in dlpack.h.
type TableFuncs struct {
	// Allocate may be 0: then it is the allocator of this package, which
	// makes CPU tensors.
	Allocate      uintptr
	FromPyObject  uintptr
	ToPyObject    uintptr
	Borrow        uintptr // may be 0
	CurrentStream uintptr
}

// NewTable makes an exchange table of version [ABIVersion] with prev_api NULL
// (R092). It stays valid for the life of the process (R088): make one per
// Python type and keep it. The error wraps [ErrNull] if a function that must
// be there (R093) is missing.
func NewTable(f TableFuncs) (Table, error) {
	const op = "dlpack: exchange table"
	if !supported {
		return Table{}, notSupported(op)
	}
	if f.FromPyObject == 0 || f.ToPyObject == 0 || f.CurrentStream == 0 {
		return Table{}, &RuleError{Rule: "R093", Op: op, Detail: "a function is missing", Err: ErrNull}
	}
	if f.Allocate == 0 {
		f.Allocate = managedAlloc()
	}
	addr := tableNew(&f)
	if addr == 0 {
		return Table{}, noMemory(op)
	}
	return Table{addr}, nil
}
