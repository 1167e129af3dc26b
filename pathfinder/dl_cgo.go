//go:build cgo && linux

package pathfinder

// #cgo LDFLAGS: -ldl
// #include <dlfcn.h>
// #include <stdlib.h>
// #include "dl.h"
import "C"

import "unsafe"

// canOpen says that this build can open libraries.
const canOpen = true

// openMode is how to open.
type openMode int

const (
	keepOpen   openMode = C.RTLD_NOW | C.RTLD_LOCAL
	onlyLoaded openMode = keepOpen | C.RTLD_NOLOAD
	deepBind   openMode = C.HO_DL_DEEPBIND
)

// openLibrary gives a handle and the path that the loader reports, or what the
// loader said.
func openLibrary(name string, mode openMode) (handle uintptr, path, problem string) {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname)) // SAFETY: made by C.CString above
	var buf [4096]C.char
	h := C.ho_dl_open(cname, C.int(mode), &buf[0], C.size_t(len(buf)))
	text := C.GoString(&buf[0]) // always terminated
	if h == nil {
		return 0, "", text
	}
	return uintptr(h), text, ""
}

func symbol(handle uintptr, name string) uintptr {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname)) // SAFETY: made by C.CString above
	return uintptr(C.ho_dl_symbol(C.uintptr_t(handle), cname))
}
