//go:build cgo && linux

package ext

// #cgo CFLAGS: -I${SRCDIR}/.. -I${SRCDIR}/../../dlpack/include -Wall -Wextra -O2
// #include <stdlib.h>
// #include "ext.h"
import "C"

import (
	"fmt"
	"strings"
	"unsafe"

	_ "github.com/go-handoff/handoff/dlpack" // the C code that this package calls
	_ "github.com/go-handoff/handoff/python"
)

// Init makes the Python module. Call it in the module's PyInit function and
// return what it returns: the address of the module object (a new reference),
// or 0 with ImportError set. Python holds the GIL.
//
//	//export PyInit_mymod
//	func PyInit_mymod() C.uintptr_t { return C.uintptr_t(module.Init()) }
//
// The error names the function whose registration is wrong. It also tells when
// another shared object with a Go runtime of its own serves handoff in this
// process (B361), and when the process is the child of a fork (B315).
func (m *Module) Init() (address uintptr) {
	m.init.Lock()
	defer m.init.Unlock()
	if C.ho_ext_start() == 0 {
		return 0
	}
	if m.object != 0 { // imported again, after its name was taken out of sys.modules
		return uintptr(unsafe.Pointer(C.ho_ext_again((*C.ho_PyObject)(pointer(uint64(m.object))))))
	}
	defer func() {
		if p := recover(); p != nil {
			address = importError(m.name, fmt.Sprintf("Init panicked: %v", p))
		}
	}()
	if err := m.Check(); err != nil {
		return importError(m.name, err.Error())
	}
	b := &builder{}
	defer b.free()
	b.module(m)
	if b.failed {
		return importError(m.name, fmt.Sprintf("the module needs more memory, functions (%d in all modules of one shared object) or structs than there are", C.HO_EXT_MAX_FUNCS))
	}
	m.object = uintptr(unsafe.Pointer(C.ho_ext_finish(b.m)))
	return m.object
}

func importError(module, text string) uintptr {
	b := &builder{}
	defer b.free()
	C.ho_ext_import_error(b.str(module), b.str(text))
	return 0
}

// builder describes a module to C.
type builder struct {
	m       *C.ho_ext_module
	strings []unsafe.Pointer
	failed  bool
}

// str copies s for the time of the building.
func (b *builder) str(s string) *C.char {
	p := C.CString(strings.ReplaceAll(s, "\x00", ""))
	b.strings = append(b.strings, unsafe.Pointer(p))
	return p
}

func (b *builder) free() {
	for _, p := range b.strings {
		C.free(p)
	}
}

func (b *builder) module(m *Module) {
	b.m = C.ho_ext_begin(b.str(m.name), b.str(m.doc), b.str(m.Stub()), C.uint32_t(len(m.funcs)))
	if b.m == nil {
		b.failed = true
		return
	}
	for _, c := range m.classes {
		names := make([]string, len(c.fields))
		for i, f := range c.fields {
			names[i] = f.name
		}
		c.number = int(nextClass.Add(1)) - 1
		b.check(C.ho_ext_add_class(b.m, b.str(c.name), b.str(strings.Join(names, " ")), C.uint32_t(c.number)))
	}
	for _, fn := range m.funcs {
		b.function(fn)
	}
}

func (b *builder) check(status C.int) { b.failed = b.failed || status != 0 }

func (b *builder) function(fn *function) {
	var flags C.uint32_t
	if fn.quick {
		flags |= C.HO_EXT_QUICK
	}
	if fn.back {
		flags |= C.HO_EXT_BACK
	}
	fn.number = register(fn)
	b.check(C.ho_ext_add_func(b.m, b.str(fn.sig.name), b.str(fn.docstring()), C.uint32_t(fn.number), flags, C.uint32_t(len(fn.params))))
	for i := range fn.params {
		if b.failed {
			return
		}
		p, v := &fn.params[i], fn.defaults[i]
		dtype := uint32(p.dtype.Code) | uint32(p.dtype.Bits)<<8 | uint32(p.dtype.Lanes)<<16
		def := C.ho_ext_value{tag: C.uint32_t(v.tag), n: C.uint32_t(v.n), a: C.uint64_t(v.a), b: C.uint64_t(v.b)}
		if v.tag == tagStr {
			def.a = C.uint64_t(uintptr(unsafe.Pointer(b.str(p.def.s))))
		}
		b.check(C.ho_ext_add_param(b.m, b.str(p.name), C.uint32_t(p.kind), C.uint32_t(p.bits), C.uint32_t(p.flags),
			C.uint32_t(dtype), b.str(p.wants), def))
	}
}

// The functions below are what the rest of the package asks of C.

func (f *frame) c() *C.ho_ext_frame { return (*C.ho_ext_frame)(unsafe.Pointer(f)) }

func spill(f *frame, n uintptr) unsafe.Pointer {
	p := C.ho_ext_spill(f.c(), C.size_t(n))
	if p == nil {
		panic("ext: out of memory")
	}
	return p
}

func retain(f *frame, slot uint32) (owner uintptr, text string) {
	var why *C.char
	o := C.ho_ext_retain(f.c(), C.uint32_t(slot), &why)
	if o == nil {
		return 0, C.GoString(why)
	}
	return uintptr(unsafe.Pointer(o)), ""
}

func own(f *frame, object uintptr) (owner uintptr, text string) {
	var why *C.char
	o := C.ho_ext_own(f.c(), (*C.ho_PyObject)(pointer(uint64(object))), &why)
	if o == nil {
		return 0, C.GoString(why)
	}
	return uintptr(unsafe.Pointer(o)), ""
}

func signals(f *frame) bool { return C.ho_ext_signals(f.c()) != 0 }

func drop(f *frame) {
	C.ho_ext_drop((*C.ho_ext_value)(unsafe.Pointer(f.out)),
		(*C.ho_ext_value)(unsafe.Add(unsafe.Pointer(f.out), uintptr(f.outLen)*unsafe.Sizeof(value{}))))
}

func doObject(op *objectOp) bool {
	return C.ho_ext_object((*C.ho_ext_op)(unsafe.Pointer(op))) == 0
}

func newFrame() *frame {
	f := C.ho_ext_frame_new()
	if f == nil {
		panic("ext: out of memory")
	}
	return (*frame)(unsafe.Pointer(f))
}

func freeFrame(f *frame) { C.ho_ext_frame_free(f.c()) }
