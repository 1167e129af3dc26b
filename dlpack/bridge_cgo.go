//go:build cgo && linux && (amd64 || arm64)

package dlpack

// #cgo CFLAGS: -I${SRCDIR}/include
// #cgo noescape ho_dl_export
// #cgo nocallback ho_dl_export
// #cgo noescape ho_dl_owner_alloc
// #cgo nocallback ho_dl_owner_alloc
// #cgo noescape ho_dl_check
// #cgo nocallback ho_dl_check
// #cgo noescape ho_dl_check_managed
// #cgo nocallback ho_dl_check_managed
// #include "bridge.h"
import "C"

import "unsafe"

// The tags of releaseBatch are those of C.
var (
	_ [releaseLegacyTensor - C.HO_DL_LEGACY]struct{}
	_ [releaseOwner - C.HO_DL_OWNER]struct{}
)

// supported says that this build can import and export.
const supported = true

// A deleter may enter Go, so these are plain calls: nocallback would be wrong.

func callVersioned(deleter, p uintptr) {
	C.ho_dl_call_versioned(C.uintptr_t(deleter), C.uintptr_t(p))
}

func callLegacy(deleter, p uintptr) { C.ho_dl_call_legacy(C.uintptr_t(deleter), C.uintptr_t(p)) }

func releaseMany(b *releaseBatch, n int) {
	// SAFETY: C reads n integers of the array, which is on the heap, during
	// the call.
	C.ho_dl_release_many((*C.uintptr_t)(unsafe.Pointer(b)), C.int(n))
}

func unrefOwner(o uintptr) { C.ho_dl_owner_unref(C.uintptr_t(o)) }

func refOwner(o uintptr) { C.ho_dl_owner_ref(C.uintptr_t(o)) }

func stealOwner(p uintptr, versioned bool) uintptr {
	return uintptr(C.ho_dl_owner_steal(C.uintptr_t(p), cBool(versioned)))
}

func newGoOwner(handle uint64) uintptr { return uintptr(C.ho_dl_owner_go(C.uint64_t(handle))) }

func allocOwner(size uint64) (owner, data uintptr) {
	var d C.uint64_t
	o := C.ho_dl_owner_alloc(C.uint64_t(size), &d)
	return uintptr(o), uintptr(d)
}

func ownerBytes(o uintptr) int { return int(C.ho_dl_owner_bytes(C.uintptr_t(o))) }

func liveExports() int64 { return int64(C.ho_dl_live_exports()) }

func cBool(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

func cDesc(d *Desc) C.ho_dl_tensor {
	return C.ho_dl_tensor{
		data: C.uint64_t(d.Data), byte_offset: C.uint64_t(d.ByteOffset),
		device_type: C.int32_t(d.Device.Type), device_id: C.int32_t(d.Device.ID),
		ndim: C.int32_t(len(d.Shape)), dtype: C.uint32_t(d.DType.pack()),
	}
}

// ints returns the pointer that C reads during the call, nil if s is nil.
func ints(s []int64) *C.int64_t {
	// SAFETY: C reads len(s) values during the call and keeps nothing.
	return (*C.int64_t)(unsafe.Pointer(unsafe.SliceData(s)))
}

func exportTensor(owner uintptr, d *Desc, flags Flags, versioned bool) uintptr {
	t := cDesc(d)
	return uintptr(C.ho_dl_export(C.uintptr_t(owner), &t, ints(d.Shape), ints(d.Strides), C.uint64_t(flags), cBool(versioned)))
}

func reexport(owner, tensor uintptr, flags Flags, versioned bool) uintptr {
	return uintptr(C.ho_dl_reexport(C.uintptr_t(owner), C.uintptr_t(tensor), C.uint64_t(flags), cBool(versioned)))
}

// cCheck is the verdict of the C validation.
func cCheck(d *Desc, ndim int32, noShape bool) (k kind, rule int) {
	t := cDesc(d)
	t.ndim = C.int32_t(ndim)
	shape := ints(d.Shape)
	if noShape {
		shape = nil
	}
	var r C.int
	code := C.ho_dl_check(&t, shape, ints(d.Strides), C.uint64_t(d.Flags), &r)
	return kind(code), int(r)
}

// cCheckManaged is the verdict of the C validation on a struct in C memory.
func cCheckManaged(p uintptr, versioned bool) (k kind, rule int) {
	var r C.int
	code := C.ho_dl_check_managed(C.uintptr_t(p), cBool(versioned), &r)
	return kind(code), int(r)
}

func tableAllocate(table uintptr, d *Desc) (uintptr, error) {
	t := cDesc(d)
	var out C.uintptr_t
	var e C.ho_dl_error
	rc := C.ho_dl_table_alloc(C.uintptr_t(table), &t, ints(d.Shape), &out, &e)
	switch {
	case rc != 0:
		return 0, &AllocError{Kind: C.GoString(&e.kind[0]), Message: C.GoString(&e.message[0])}
	case out == 0:
		return 0, &AllocError{Kind: "RuntimeError", Message: "success without a tensor"}
	}
	return uintptr(out), nil
}

func tableFrom(table, object uintptr) (rc int, p uintptr) {
	var out C.uintptr_t
	rc = int(C.ho_dl_table_from(C.uintptr_t(table), C.uintptr_t(object), &out))
	return rc, uintptr(out)
}

func tableTo(table, tensor uintptr) (rc int, object uintptr) {
	var out C.uintptr_t
	rc = int(C.ho_dl_table_to(C.uintptr_t(table), C.uintptr_t(tensor), &out))
	return rc, uintptr(out)
}

func tableBorrow(table, object uintptr) (rc int, t cTensor) {
	// SAFETY: C writes the 48 bytes of a DLTensor, whose mirror cTensor has
	// integers in place of pointers.
	rc = int(C.ho_dl_table_borrow(C.uintptr_t(table), C.uintptr_t(object), unsafe.Pointer(&t)))
	return rc, t
}

func tableStream(table uintptr, d Device) (rc int, stream uintptr) {
	var out C.uintptr_t
	rc = int(C.ho_dl_table_stream(C.uintptr_t(table), C.int32_t(d.Type), C.int32_t(d.ID), &out))
	return rc, uintptr(out)
}

func tableNew(f *TableFuncs) uintptr {
	return uintptr(C.ho_dl_table_new(C.uintptr_t(f.Allocate), C.uintptr_t(f.FromPyObject), C.uintptr_t(f.ToPyObject),
		C.uintptr_t(f.Borrow), C.uintptr_t(f.CurrentStream)))
}

func managedAlloc() uintptr { return uintptr(C.ho_dl_managed_alloc()) }
