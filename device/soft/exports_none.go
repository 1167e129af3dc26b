//go:build cgo && linux

package soft

// #include "soft.h"
import "C"

import "unsafe"

// This file has the entry points for what the software device does not have.

//export ho_soft_cuMemPoolExportToShareableHandle
func ho_soft_cuMemPoolExportToShareableHandle(_1 unsafe.Pointer, _2 C.ho_mem_pool, _3 C.int, _4 C.uint64_t) C.ho_result {
	return unsupported("cuMemPoolExportToShareableHandle")
}

//export ho_soft_cuMemPoolImportFromShareableHandle
func ho_soft_cuMemPoolImportFromShareableHandle(_1 *C.ho_mem_pool, _2 C.ho_word, _3 C.int, _4 C.uint64_t) C.ho_result {
	return unsupported("cuMemPoolImportFromShareableHandle")
}

//export ho_soft_cuMemPoolExportPointer
func ho_soft_cuMemPoolExportPointer(_1 *C.ho_mem_pool_ptr_export, _2 C.ho_devptr) C.ho_result {
	return unsupported("cuMemPoolExportPointer")
}

//export ho_soft_cuMemPoolImportPointer
func ho_soft_cuMemPoolImportPointer(_1 *C.ho_devptr, _2 C.ho_mem_pool, _3 *C.ho_mem_pool_ptr_export) C.ho_result {
	return unsupported("cuMemPoolImportPointer")
}

//export ho_soft_cuMemAddressReserve
func ho_soft_cuMemAddressReserve(_1 *C.ho_devptr, _2 C.size_t, _3 C.size_t, _4 C.ho_devptr, _5 C.uint64_t) C.ho_result {
	return unsupported("cuMemAddressReserve")
}

//export ho_soft_cuMemAddressFree
func ho_soft_cuMemAddressFree(_1 C.ho_devptr, _2 C.size_t) C.ho_result {
	return unsupported("cuMemAddressFree")
}

//export ho_soft_cuMemCreate
func ho_soft_cuMemCreate(_1 *C.ho_mem_handle, _2 C.size_t, _3 *C.ho_mem_alloc_prop, _4 C.uint64_t) C.ho_result {
	return unsupported("cuMemCreate")
}

//export ho_soft_cuMemRelease
func ho_soft_cuMemRelease(_1 C.ho_mem_handle) C.ho_result {
	return unsupported("cuMemRelease")
}

//export ho_soft_cuMemMap
func ho_soft_cuMemMap(_1 C.ho_devptr, _2 C.size_t, _3 C.size_t, _4 C.ho_mem_handle, _5 C.uint64_t) C.ho_result {
	return unsupported("cuMemMap")
}

//export ho_soft_cuMemUnmap
func ho_soft_cuMemUnmap(_1 C.ho_devptr, _2 C.size_t) C.ho_result {
	return unsupported("cuMemUnmap")
}

//export ho_soft_cuMemSetAccess
func ho_soft_cuMemSetAccess(_1 C.ho_devptr, _2 C.size_t, _3 *C.ho_mem_access_desc, _4 C.size_t) C.ho_result {
	return unsupported("cuMemSetAccess")
}

//export ho_soft_cuMemGetAccess
func ho_soft_cuMemGetAccess(_1 *C.uint64_t, _2 *C.ho_mem_location, _3 C.ho_devptr) C.ho_result {
	return unsupported("cuMemGetAccess")
}

//export ho_soft_cuMemExportToShareableHandle
func ho_soft_cuMemExportToShareableHandle(_1 unsafe.Pointer, _2 C.ho_mem_handle, _3 C.int, _4 C.uint64_t) C.ho_result {
	return unsupported("cuMemExportToShareableHandle")
}

//export ho_soft_cuMemImportFromShareableHandle
func ho_soft_cuMemImportFromShareableHandle(_1 *C.ho_mem_handle, _2 C.ho_word, _3 C.int) C.ho_result {
	return unsupported("cuMemImportFromShareableHandle")
}

//export ho_soft_cuMemGetAllocationGranularity
func ho_soft_cuMemGetAllocationGranularity(_1 *C.size_t, _2 *C.ho_mem_alloc_prop, _3 C.int) C.ho_result {
	return unsupported("cuMemGetAllocationGranularity")
}

//export ho_soft_cuMemGetAllocationPropertiesFromHandle
func ho_soft_cuMemGetAllocationPropertiesFromHandle(_1 *C.ho_mem_alloc_prop, _2 C.ho_mem_handle) C.ho_result {
	return unsupported("cuMemGetAllocationPropertiesFromHandle")
}

//export ho_soft_cuMemRetainAllocationHandle
func ho_soft_cuMemRetainAllocationHandle(_1 *C.ho_mem_handle, _2 C.ho_word) C.ho_result {
	return unsupported("cuMemRetainAllocationHandle")
}

//export ho_soft_cuMemGetHandleForAddressRange
func ho_soft_cuMemGetHandleForAddressRange(_1 unsafe.Pointer, _2 C.ho_devptr, _3 C.size_t, _4 C.int, _5 C.uint64_t) C.ho_result {
	return unsupported("cuMemGetHandleForAddressRange")
}

//export ho_soft_cuIpcGetEventHandle
func ho_soft_cuIpcGetEventHandle(_1 *C.ho_ipc_event_handle, _2 C.ho_event) C.ho_result {
	return unsupported("cuIpcGetEventHandle")
}

//export ho_soft_cuIpcOpenEventHandle
func ho_soft_cuIpcOpenEventHandle(_1 *C.ho_event, _2 C.ho_ipc_event_handle) C.ho_result {
	return unsupported("cuIpcOpenEventHandle")
}

//export ho_soft_cuLinkCreate
func ho_soft_cuLinkCreate(_1 C.uint32_t, _2 *C.int, _3 *C.ho_word, _4 *C.ho_link_state) C.ho_result {
	return unsupported("cuLinkCreate")
}

//export ho_soft_cuLinkAddData
func ho_soft_cuLinkAddData(_1 C.ho_link_state, _2 C.int, _3 unsafe.Pointer, _4 C.size_t, _5 *C.char, _6 C.uint32_t, _7 *C.int, _8 *C.ho_word) C.ho_result {
	return unsupported("cuLinkAddData")
}

//export ho_soft_cuLinkAddFile
func ho_soft_cuLinkAddFile(_1 C.ho_link_state, _2 C.int, _3 *C.char, _4 C.uint32_t, _5 *C.int, _6 *C.ho_word) C.ho_result {
	return unsupported("cuLinkAddFile")
}

//export ho_soft_cuLinkComplete
func ho_soft_cuLinkComplete(_1 C.ho_link_state, _2 *unsafe.Pointer, _3 *C.size_t) C.ho_result {
	return unsupported("cuLinkComplete")
}

//export ho_soft_cuLinkDestroy
func ho_soft_cuLinkDestroy(_1 C.ho_link_state) C.ho_result {
	return unsupported("cuLinkDestroy")
}

//export ho_soft_cuTensorMapEncodeTiled
func ho_soft_cuTensorMapEncodeTiled(_1 *C.ho_tensor_map, _2 C.int, _3 C.uint32_t, _4 C.ho_word, _5 *C.uint64_t, _6 *C.uint64_t, _7 *C.uint32_t, _8 *C.uint32_t, _9 C.int, _10 C.int, _11 C.int, _12 C.int) C.ho_result {
	return unsupported("cuTensorMapEncodeTiled")
}

//export ho_soft_cuTensorMapReplaceAddress
func ho_soft_cuTensorMapReplaceAddress(_1 *C.ho_tensor_map, _2 C.ho_word) C.ho_result {
	return unsupported("cuTensorMapReplaceAddress")
}
