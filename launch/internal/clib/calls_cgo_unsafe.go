//go:build cgo && linux

package clib

// #include "clib.h"
// #include <stdlib.h>
import "C"

import (
	"runtime"
	"unsafe"
)

// SAFETY, for the whole file: pointers to Go memory (out-parameters on this
// side, slices of plain bytes) are lent for the call, and no library keeps
// them: NVRTC, nvJitLink and libNVVM copy what they are given. Every slice has
// one byte at least. Handles and functions are numbers.

func chars(b []byte) *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))) }

// Ints2 calls f(int *, int *).
func Ints2(fn uintptr) (a, b int, code int) {
	var out [2]C.int
	code = int(C.ho_clib_ints2(C.uintptr_t(fn), &out[0]))
	return int(out[0]), int(out[1]), code
}

// Ints4 calls f(int *, int *, int *, int *).
func Ints4(fn uintptr) (v [4]int, code int) {
	var out [4]C.int
	code = int(C.ho_clib_ints4(C.uintptr_t(fn), &out[0]))
	for i := range v {
		v[i] = int(out[i])
	}
	return v, code
}

// Int calls f(int *).
func Int(fn uintptr) (v, code int) {
	var out C.int
	code = int(C.ho_clib_int(C.uintptr_t(fn), &out))
	return int(out), code
}

// IntArray calls f(int *) with room for n integers.
func IntArray(fn uintptr, n int) (v []int, code int) {
	out := make([]C.int, n+1)
	code = int(C.ho_clib_int(C.uintptr_t(fn), &out[0]))
	v = make([]int, n)
	for i := range v {
		v[i] = int(out[i])
	}
	return v, code
}

// GetSize calls f(size_t *).
func GetSize(fn uintptr) (n uint64, code int) {
	var out C.size_t
	code = int(C.ho_clib_get_size(C.uintptr_t(fn), &out))
	return uint64(out), code
}

// SetSize calls f(size_t).
func SetSize(fn uintptr, n uint64) (code int) {
	return int(C.ho_clib_set_size(C.uintptr_t(fn), C.size_t(n)))
}

// Create calls f(handle *).
func Create(fn uintptr) (handle uintptr, code int) {
	var h C.uintptr_t
	code = int(C.ho_clib_create(C.uintptr_t(fn), &h))
	return uintptr(h), code
}

// Destroy calls f(handle *).
func Destroy(fn, handle uintptr) (code int) {
	h := C.uintptr_t(handle)
	return int(C.ho_clib_destroy(C.uintptr_t(fn), &h))
}

// Do calls f(handle).
func Do(fn, handle uintptr) (code int) {
	return int(C.ho_clib_do(C.uintptr_t(fn), C.uintptr_t(handle)))
}

// Size calls f(handle, size_t *).
func Size(fn, handle uintptr) (n uint64, code int) {
	var out C.size_t
	code = int(C.ho_clib_size(C.uintptr_t(fn), C.uintptr_t(handle), &out))
	return uint64(out), code
}

// Bytes asks for a size, then for as many bytes.
func Bytes(size, data, handle uintptr) (b []byte, code int) {
	n, code := Size(size, handle)
	if code != 0 || n == 0 {
		return nil, code
	}
	b = make([]byte, n)
	code = int(C.ho_clib_data(C.uintptr_t(data), C.uintptr_t(handle), chars(b)))
	return b, code
}

// Strings calls f(handle, n, strings).
func Strings(fn, handle uintptr, list []string) (code int, err error) {
	b, err := block(list)
	if err != nil {
		return 0, err
	}
	return int(C.ho_clib_strings(C.uintptr_t(fn), C.uintptr_t(handle), C.int(len(list)), chars(b))), nil
}

// String calls f(handle, string).
func String(fn, handle uintptr, s string) (code int, err error) {
	b, err := zstring(s)
	if err != nil {
		return 0, err
	}
	return int(C.ho_clib_string(C.uintptr_t(fn), C.uintptr_t(handle), chars(b))), nil
}

// Lookup calls f(handle, string, const char **) and copies the answer.
func Lookup(fn, handle uintptr, s string) (answer string, code int, err error) {
	b, err := zstring(s)
	if err != nil {
		return "", 0, err
	}
	var out *C.char
	code = int(C.ho_clib_lookup(C.uintptr_t(fn), C.uintptr_t(handle), chars(b), &out))
	if code == 0 && out != nil {
		answer = C.GoString(out)
	}
	return answer, code, nil
}

// NVRTCCreate calls nvrtcCreateProgram.
func NVRTCCreate(fn uintptr, source, name string, headers, names []string) (handle uintptr, code int, err error) {
	src, err := zstring(source)
	if err != nil {
		return 0, 0, err
	}
	nm, err := zstring(name)
	if err != nil {
		return 0, 0, err
	}
	hs, err := block(headers)
	if err != nil {
		return 0, 0, err
	}
	ns, err := block(names)
	if err != nil {
		return 0, 0, err
	}
	var h C.uintptr_t
	code = int(C.ho_clib_nvrtc_create(C.uintptr_t(fn), &h, chars(src), chars(nm), C.int(len(headers)), chars(hs), chars(ns)))
	return uintptr(h), code, nil
}

// Flag is an integer in C memory that a library looks at.
type Flag struct{ p *C.int }

// NewFlag makes a Flag of 0; nil without memory.
func NewFlag() *Flag {
	p := C.ho_clib_flag_new()
	if p == nil {
		return nil
	}
	f := &Flag{p}
	runtime.AddCleanup(f, func(p *C.int) { C.free(unsafe.Pointer(p)) }, p)
	return f
}

// Set makes the Flag 1, from any goroutine.
func (f *Flag) Set() {
	C.ho_clib_flag_set(f.p)
	runtime.KeepAlive(f)
}

// NVRTCFlow calls nvrtcSetFlowCallback, so that setting the flag cancels. The
// caller keeps the flag until the program is destroyed.
func NVRTCFlow(fn, handle uintptr, f *Flag) (code int) {
	return int(C.ho_clib_nvrtc_flow(C.uintptr_t(fn), C.uintptr_t(handle), f.p))
}

// LinkCreate calls nvJitLinkCreate.
func LinkCreate(fn uintptr, options []string) (handle uintptr, code int, err error) {
	b, err := block(options)
	if err != nil {
		return 0, 0, err
	}
	var h C.uintptr_t
	code = int(C.ho_clib_link_create(C.uintptr_t(fn), &h, C.int(len(options)), chars(b)))
	return uintptr(h), code, nil
}

// LinkData calls nvJitLinkAddData; data is not empty.
func LinkData(fn, handle uintptr, kind int, data []byte, name string) (code int, err error) {
	b, err := zstring(name)
	if err != nil {
		return 0, err
	}
	return int(C.ho_clib_link_data(C.uintptr_t(fn), C.uintptr_t(handle), C.int(kind), unsafe.Pointer(unsafe.SliceData(data)), C.size_t(len(data)), chars(b))), nil
}

// LinkFile calls nvJitLinkAddFile.
func LinkFile(fn, handle uintptr, kind int, path string) (code int, err error) {
	b, err := zstring(path)
	if err != nil {
		return 0, err
	}
	return int(C.ho_clib_link_file(C.uintptr_t(fn), C.uintptr_t(handle), C.int(kind), chars(b))), nil
}

// NVVMAdd calls nvvmAddModuleToProgram; data is not empty.
func NVVMAdd(fn, handle uintptr, data []byte, name string) (code int, err error) {
	b, err := zstring(name)
	if err != nil {
		return 0, err
	}
	return int(C.ho_clib_nvvm_add(C.uintptr_t(fn), C.uintptr_t(handle), chars(data), C.size_t(len(data)), chars(b))), nil
}

// NVVMLLVM calls nvvmLLVMVersion.
func NVVMLLVM(fn uintptr, arch string) (major, code int, err error) {
	b, err := zstring(arch)
	if err != nil {
		return 0, 0, err
	}
	var out C.int
	code = int(C.ho_clib_nvvm_llvm(C.uintptr_t(fn), chars(b), &out))
	return int(out), code, nil
}
