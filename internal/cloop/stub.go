//go:build !(cgo && linux)

// Package cloop makes driver calls in C loops.
package cloop

import (
	"time"

	"github.com/go-handoff/handoff/device/driver"
)

// Order says that there is no driver.
func Order(_, _ driver.StreamHandle, _ int) (d time.Duration, ok bool) { return 0, false }

// OrderOnce says that there is no driver.
func OrderOnce(_, _ driver.StreamHandle) bool { return false }

// AttributesOnce says that there is no driver.
func AttributesOnce(driver.DevicePtr) bool { return false }

// AllocFree says that there is no driver.
func AllocFree(driver.StreamHandle, uintptr, int) (d time.Duration, ok bool) { return 0, false }

// Attributes says that there is no driver.
func Attributes(driver.DevicePtr, int) (d time.Duration, ok bool) { return 0, false }

// AllAttributes says that there is no driver.
func AllAttributes(driver.DevicePtr, int) (d time.Duration, ok bool) { return 0, false }

// Launch says that there is no driver.
func Launch(driver.FunctionHandle, driver.StreamHandle, Args, int, bool) (d time.Duration, ok bool) {
	return 0, false
}

// Nothing does nothing.
func Nothing() {}

// Args are kernel arguments in C memory.
type Args struct{}

// NewArgs returns none: there is no C in this build.
func NewArgs(int) Args { return Args{} }

// Call returns one that is not made.
func (a Args) Call(driver.FunctionHandle, driver.ContextHandle, driver.StreamHandle) *driver.LaunchCall {
	return new(driver.LaunchCall)
}
