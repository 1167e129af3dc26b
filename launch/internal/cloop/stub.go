//go:build !(cgo && linux)

// Package cloop launches kernels in a loop in C.
package cloop

import (
	"time"

	"github.com/go-handoff/handoff/device/driver"
)

// Args are kernel arguments in C memory.
type Args struct{}

// NewArgs returns none: there is no C in this build.
func NewArgs(int) Args { return Args{} }

// Run says that there is no driver.
func Run(driver.FunctionHandle, driver.StreamHandle, Args, int) (d time.Duration, ok bool) {
	return 0, false
}
