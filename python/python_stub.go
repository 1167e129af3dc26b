//go:build !(cgo && linux && (amd64 || arm64))

package python

import (
	"fmt"

	"github.com/go-handoff/handoff/dlpack"
)

var errNoPython = fmt.Errorf("python: the bridge needs cgo and linux on amd64 or arm64: %w", dlpack.ErrNotSupported)

// Do runs f with the GIL held. This build has no Python: it returns an error
// wrapping [dlpack.ErrNotSupported] and does not run f.
func Do(func() error) error { return errNoPython }

func retainObject(uintptr) error             { return errNoPython }
func dropObject(uintptr)                     {}
func consume(uintptr, bool) (uintptr, error) { return 0, errNoPython }
func produce(uintptr, bool) (uintptr, error) { return 0, errNoPython }
func importModule(string) (uintptr, error)   { return 0, errNoPython }
func newString(string) (uintptr, error)      { return 0, errNoPython }
func attr(uintptr, string) (uintptr, error)  { return 0, errNoPython }
func call(uintptr, []uintptr) (uintptr, error) {
	return 0, errNoPython
}
func text(uintptr, bool) (string, error) { return "", errNoPython }
func typeName(uintptr) (string, error)   { return "", errNoPython }
