//go:build !(cgo && linux && (amd64 || arm64))

package dlpack

// Without C there is nothing to import from or export to: every entry point
// asks for supported first, and the functions below are never reached.

const supported = false

func callVersioned(deleter, p uintptr)                 {}
func callLegacy(deleter, p uintptr)                    {}
func releaseMany(*releaseBatch, int)                   {}
func unrefOwner(uintptr)                               {}
func refOwner(uintptr)                                 {}
func stealOwner(uintptr, bool) uintptr                 { return 0 }
func newGoOwner(uint64) uintptr                        { return 0 }
func allocOwner(uint64) (owner, data uintptr)          { return 0, 0 }
func ownerBytes(uintptr) int                           { return 0 }
func liveExports() int64                               { return 0 }
func exportTensor(uintptr, *Desc, Flags, bool) uintptr { return 0 }
func reexport(uintptr, uintptr, Flags, bool) uintptr   { return 0 }
func tableAllocate(uintptr, *Desc) (uintptr, error)    { return 0, notSupported("dlpack: exchange") }
func tableFrom(uintptr, uintptr) (int, uintptr)        { return -1, 0 }
func tableTo(uintptr, uintptr) (int, uintptr)          { return -1, 0 }
func tableBorrow(uintptr, uintptr) (int, cTensor)      { return -1, cTensor{} }
func tableStream(uintptr, Device) (int, uintptr)       { return -1, 0 }
func tableNew(*TableFuncs) uintptr                     { return 0 }
func managedAlloc() uintptr                            { return 0 }
