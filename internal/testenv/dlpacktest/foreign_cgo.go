//go:build cgo && linux && (amd64 || arm64)

package dlpacktest

// #cgo CFLAGS: -I${SRCDIR}/../../../dlpack/include
// #include "foreign.h"
import "C"

import (
	"time"
	"unsafe"
)

// Spec describes a managed tensor field by field. Nothing in it is checked.
type Spec struct {
	Versioned              bool
	Major, Minor           uint32
	Flags                  uint64
	Data                   uintptr
	ByteOffset             uint64
	DeviceType, DeviceID   int32
	NDim                   int32
	Code, Bits             uint8
	Lanes                  uint16
	Shape, Strides         []int64
	NullShape, NullStrides bool
	NullDeleter            bool
}

// New makes the tensor in C memory. Its deleter counts; see [Deleted].
func New(s Spec) uintptr {
	c := C.dt_spec{
		major: C.uint32_t(s.Major), minor: C.uint32_t(s.Minor), flags: C.uint64_t(s.Flags),
		data: C.uint64_t(s.Data), byte_offset: C.uint64_t(s.ByteOffset),
		device_type: C.int32_t(s.DeviceType), device_id: C.int32_t(s.DeviceID), ndim: C.int32_t(s.NDim),
		code: C.uint8_t(s.Code), bits: C.uint8_t(s.Bits), lanes: C.uint16_t(s.Lanes),
		null_shape: cInt(s.NullShape), null_strides: cInt(s.NullStrides || s.Strides == nil),
		null_deleter: cInt(s.NullDeleter), versioned: cInt(s.Versioned),
	}
	return uintptr(C.dt_new(&c, C.int(max(len(s.Shape), len(s.Strides))), ints(pad(s.Shape, len(s.Strides))), ints(pad(s.Strides, len(s.Shape)))))
}

func pad(s []int64, n int) []int64 {
	if s == nil || len(s) >= n {
		return s
	}
	return append(append([]int64{}, s...), make([]int64, n-len(s))...)
}

// Raw makes a tensor whose header has the given bytes (80, or 64 for a legacy
// one), except for manager_ctx and deleter, and for shape and strides, which
// point to the given 64 values unless they are NULL in the bytes.
func Raw(header []byte, versioned bool, shape, strides *[64]int64) uintptr {
	// SAFETY: C reads the 80 or 64 bytes that the caller vouches for.
	return uintptr(C.dt_raw(unsafe.Pointer(unsafe.SliceData(header)), cInt(versioned), ints(shape[:]), ints(strides[:])))
}

func ints(s []int64) *C.int64_t {
	// SAFETY: C reads the values during the call.
	return (*C.int64_t)(unsafe.Pointer(unsafe.SliceData(s)))
}

func cInt[B ~bool](b B) C.int32_t {
	if b {
		return 1
	}
	return 0
}

// Free frees a tensor whose deleter is NULL.
func Free(p uintptr) { C.dt_free(C.uintptr_t(p)) }

// Deleted returns how many deleters of this package's tensors have run.
func Deleted() int64 { return int64(C.dt_deleted()) }

// Alive returns how many tensors of this package exist.
func Alive() int64 { return int64(C.dt_alive()) }

// Wrong returns how many deleters were called with a wrong argument.
func Wrong() int64 { return int64(C.dt_wrong()) }

// Guarded makes a versioned tensor of which only the first 32 bytes can be
// read: version, manager_ctx, deleter and flags.
func Guarded(major, minor uint32, nullDeleter bool) uintptr {
	return uintptr(C.dt_guarded(C.uint32_t(major), C.uint32_t(minor), C.int(cInt(nullDeleter))))
}

// Unguard frees a guarded tensor without a deleter.
func Unguard(p uintptr) { C.dt_unguard(C.uintptr_t(p)) }

// FailAlloc makes the n-th allocation of the C code of package dlpack fail; 0
// ends that.
func FailAlloc(n int) { C.dt_fail_alloc(C.int(n)) }

// Release calls the deleter.
func Release(p uintptr, versioned bool) { C.dt_release(C.uintptr_t(p), C.int(cInt(versioned))) }

// ReleaseOnThread calls the deleter on a thread that Go has never seen.
func ReleaseOnThread(p uintptr, versioned bool) {
	C.dt_release_on_thread(C.uintptr_t(p), C.int(cInt(versioned)))
}

// ReleaseOnThreads releases versioned tensors on several new threads at once.
func ReleaseOnThreads(p []uintptr, threads int) {
	C.dt_release_on_threads(addrs(p), C.int(len(p)), C.int(threads))
}

func addrs(p []uintptr) *C.uintptr_t {
	// SAFETY: C reads or writes len(p) integers during the call.
	return (*C.uintptr_t)(unsafe.Pointer(unsafe.SliceData(p)))
}

// ReleaseInChild calls the deleter in the child of a fork and returns the
// child's wait status: 0 if it came back and saw that it is a child.
func ReleaseInChild(p uintptr, versioned bool) int {
	return int(C.dt_release_in_child(C.uintptr_t(p), C.int(cInt(versioned))))
}

// ExportInChild makes and releases n exports in the child of a fork and
// returns the child's wait status.
func ExportInChild(owner uintptr, n int) int {
	return int(C.dt_export_in_child(C.uintptr_t(owner), C.int(n)))
}

// Read returns the fields of a managed tensor as C sees them. Shape and
// Strides are nil where the struct has NULL.
func Read(p uintptr, versioned bool) Spec {
	var c C.dt_spec
	var shape, strides C.uint64_t
	C.dt_read(C.uintptr_t(p), C.int(cInt(versioned)), &c, &shape, &strides)
	s := Spec{
		Versioned: versioned, Major: uint32(c.major), Minor: uint32(c.minor), Flags: uint64(c.flags),
		Data: uintptr(c.data), ByteOffset: uint64(c.byte_offset), DeviceType: int32(c.device_type),
		DeviceID: int32(c.device_id), NDim: int32(c.ndim), Code: uint8(c.code), Bits: uint8(c.bits), Lanes: uint16(c.lanes),
		NullShape: c.null_shape != 0, NullStrides: c.null_strides != 0, NullDeleter: c.null_deleter != 0,
	}
	for i := range int(s.NDim) {
		if !s.NullShape {
			s.Shape = append(s.Shape, int64(C.dt_dim(shape, C.int(i))))
		}
		if !s.NullStrides {
			s.Strides = append(s.Strides, int64(C.dt_dim(strides, C.int(i))))
		}
	}
	return s
}

// Batch fills p with versioned tensors of shape (2, 3), for timing, and returns
// the time that it took to make them. Each has to be released once.
func Batch(p []uintptr) time.Duration {
	return time.Duration(C.dt_batch(addrs(p), C.int(len(p))))
}

// ConsumeBatch validates and releases every tensor of a batch in a C loop and
// returns the time that the loop took.
func ConsumeBatch(p []uintptr) time.Duration {
	return time.Duration(C.dt_consume_batch(addrs(p), C.int(len(p))))
}

// ConsumeBatchHeld is ConsumeBatch with each tensor in a handle that promises
// what a dlpack.Managed does: released once, whoever does it first.
func ConsumeBatchHeld(p []uintptr) time.Duration {
	return time.Duration(C.dt_consume_batch_held(addrs(p), C.int(len(p))))
}

// callDeleters calls the deleter of every tensor of a batch from Go.
func callDeleters(p []uintptr) {
	for _, m := range p {
		C.dt_call_deleter(C.uintptr_t(m))
	}
}

// ExportLoop exports and releases n tensors of an owner (ho_owner *) in a C
// loop and returns the time that the loop took.
func ExportLoop(owner uintptr, n, ndim int) time.Duration {
	return time.Duration(C.dt_export_loop(C.uintptr_t(owner), C.int(n), C.int(ndim)))
}

// TableKind selects an exchange table.
type TableKind int

// The exchange tables; see foreign.h.
const (
	TableGood         TableKind = C.DT_TABLE_GOOD
	TableMajor2Chain  TableKind = C.DT_TABLE_MAJOR2_CHAIN
	TableMajor2End    TableKind = C.DT_TABLE_MAJOR2_END
	TableMajor0       TableKind = C.DT_TABLE_MAJOR0
	TableCycle        TableKind = C.DT_TABLE_CYCLE
	TableNoBorrow     TableKind = C.DT_TABLE_NO_BORROW
	TableNoExport     TableKind = C.DT_TABLE_NO_EXPORT
	TableOnlyExport   TableKind = C.DT_TABLE_ONLY_EXPORT
	TableFailing      TableKind = C.DT_TABLE_FAILING
	TableEmptySuccess TableKind = C.DT_TABLE_EMPTY_SUCCESS
	TableBadTensors   TableKind = C.DT_TABLE_BAD_TENSORS
)

// Table returns the address of an exchange table.
func Table(k TableKind) uintptr { return uintptr(C.dt_table(C.int(k))) }

// Object returns the "Python object" that the tables know: a float32 tensor of
// shape (2, 3).
func Object() uintptr { return uintptr(C.dt_object()) }

// ToPyCount returns how many tensors were handed to a table.
func ToPyCount() int64 { return int64(C.dt_to_py_count()) }

// Functions returns the addresses of five functions for a table, in its order.
func Functions() [5]uintptr {
	var out [5]C.uintptr_t
	C.dt_functions(&out[0])
	var f [5]uintptr
	for i, a := range out {
		f[i] = uintptr(a)
	}
	return f
}
