//go:build !(cgo && linux)

package ext

import "unsafe"

// Init makes the Python module. It returns 0 in a build without cgo and on
// other systems than Linux, where there is no way into Python.
func (m *Module) Init() (address uintptr) { return 0 }

// No call ever begins in such a build; these only complete the package.

func spill(*frame, uintptr) unsafe.Pointer { panic("ext: no cgo") }

func retain(*frame, uint32) (owner uintptr, text string) { return 0, "no cgo" }

func own(*frame, uintptr) (owner uintptr, text string) { return 0, "no cgo" }

func signals(*frame) bool { return false }

func drop(*frame) {}

func doObject(*objectOp) bool { return false }

func newFrame() *frame { panic("ext: no cgo") }

func freeFrame(*frame) {}
