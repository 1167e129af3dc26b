//go:build !cgo || !linux

package soft

import (
	"time"

	"github.com/go-handoff/handoff/device/driver"
)

// Injection is a fault that has been set; this build has none.
type Injection struct{}

// Inject returns [ErrNotSupported] in this build.
func Inject(f Fault) (*Injection, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	return nil, ErrNotSupported
}

// Remove does nothing in this build.
func (*Injection) Remove() {}

// Calls is 0 in this build.
func (*Injection) Calls() int { return 0 }

// Hits is 0 in this build.
func (*Injection) Hits() int { return 0 }

// First is "" in this build.
func (*Injection) First() string { return "" }

// ReuseHandles does nothing in this build.
func ReuseHandles(testing) {}

// HangStream returns [ErrNotSupported] in this build.
func HangStream(driver.StreamHandle) (release func(), err error) { return nil, ErrNotSupported }

// SlowStream returns [ErrNotSupported] in this build.
func SlowStream(driver.StreamHandle, time.Duration) (stop func(), err error) {
	return nil, ErrNotSupported
}
