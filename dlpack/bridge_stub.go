//go:build !(cgo && linux && (amd64 || arm64))

package dlpack

// Without C there is nothing to import from or export to: every entry point
// asks for supported first, and the functions below are never reached.

const supported = false

func releaseVersioned(uintptr)                         {}
func releaseLegacy(uintptr)                            {}
func unrefOwner(uintptr)                               {}
func refOwner(uintptr)                                 {}
func stealOwner(uintptr, bool) uintptr                 { return 0 }
func newGoOwner(uint64) uintptr                        { return 0 }
func allocOwner(uint64) (owner, data uintptr)          { return 0, 0 }
func ownerBytes(uintptr) int                           { return 0 }
func liveExports() int64                               { return 0 }
func exportTensor(uintptr, *Desc, Flags, bool) uintptr { return 0 }
func reexport(uintptr, uintptr, Flags, bool) uintptr   { return 0 }
