//go:build !(cgo && linux)

package clib

// Without cgo no library can be opened, so that nobody has an address to call:
// these are here to compile.

const noCgo = "clib: a call in a build that cannot open libraries"

// Flag is never made here.
type Flag struct{}

// Set is never called.
func (f *Flag) Set() {}

// NewFlag has no C memory to make a Flag of.
func NewFlag() *Flag { return nil }

// Ints2 calls f(int *, int *).
func Ints2(fn uintptr) (a, b int, code int) { panic(noCgo) }

// Ints4 calls f(int *, int *, int *, int *).
func Ints4(fn uintptr) (v [4]int, code int) { panic(noCgo) }

// Int calls f(int *).
func Int(fn uintptr) (v, code int) { panic(noCgo) }

// IntArray calls f(int *) with room for n integers.
func IntArray(fn uintptr, n int) (v []int, code int) { panic(noCgo) }

// GetSize calls f(size_t *).
func GetSize(fn uintptr) (n uint64, code int) { panic(noCgo) }

// SetSize calls f(size_t).
func SetSize(fn uintptr, n uint64) (code int) { panic(noCgo) }

// Create calls f(handle *).
func Create(fn uintptr) (handle uintptr, code int) { panic(noCgo) }

// Destroy calls f(handle *).
func Destroy(fn, handle uintptr) (code int) { panic(noCgo) }

// Do calls f(handle).
func Do(fn, handle uintptr) (code int) { panic(noCgo) }

// Size calls f(handle, size_t *).
func Size(fn, handle uintptr) (n uint64, code int) { panic(noCgo) }

// Bytes asks for a size, then for as many bytes.
func Bytes(size, data, handle uintptr) (b []byte, code int) { panic(noCgo) }

// Strings calls f(handle, n, strings).
func Strings(fn, handle uintptr, list []string) (code int, err error) { panic(noCgo) }

// String calls f(handle, string).
func String(fn, handle uintptr, s string) (code int, err error) { panic(noCgo) }

// Lookup calls f(handle, string, const char **) and copies the answer.
func Lookup(fn, handle uintptr, s string) (answer string, code int, err error) { panic(noCgo) }

// NVRTCCreate calls nvrtcCreateProgram.
func NVRTCCreate(fn uintptr, source, name string, headers, names []string) (handle uintptr, code int, err error) {
	panic(noCgo)
}

// NVRTCFlow calls nvrtcSetFlowCallback.
func NVRTCFlow(fn, handle uintptr, f *Flag) (code int) { panic(noCgo) }

// LinkCreate calls nvJitLinkCreate.
func LinkCreate(fn uintptr, options []string) (handle uintptr, code int, err error) { panic(noCgo) }

// LinkData calls nvJitLinkAddData; data is not empty.
func LinkData(fn, handle uintptr, kind int, data []byte, name string) (code int, err error) {
	panic(noCgo)
}

// LinkFile calls nvJitLinkAddFile.
func LinkFile(fn, handle uintptr, kind int, path string) (code int, err error) { panic(noCgo) }

// NVVMAdd calls nvvmAddModuleToProgram; data is not empty.
func NVVMAdd(fn, handle uintptr, data []byte, name string) (code int, err error) { panic(noCgo) }

// NVVMLLVM calls nvvmLLVMVersion.
func NVVMLLVM(fn uintptr, arch string) (major, code int, err error) { panic(noCgo) }
