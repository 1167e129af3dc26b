//go:build !(cgo && linux && (amd64 || arm64))

// Package embed runs CPython inside a Go test binary. Only tests import it.
package embed

import "errors"

// Start fails: this build has no Python.
func Start(string) error { return errors.New("embed: Python needs cgo and linux on amd64 or arm64") }
