//go:build cgo && linux

package driver

import (
	"errors"
	"unsafe"

	"github.com/go-handoff/handoff/device/driver/internal/check"
)

// checked returns the driver with the checking layer in front.
func (d *Driver) checked(where string) (*Driver, error) {
	table, h, err := check.Table(unsafe.Pointer(d.t), func(user uintptr) bool { _, ok := HostTouches(user); return ok })
	if err != nil {
		return nil, err
	}
	c := adopt(table)
	if c == nil {
		return nil, errors.New("no memory")
	}
	checking.Store(true)
	c.provider, c.path, c.hunter = d.provider, d.path, h
	if where != "" && where != "0" {
		reports.Do(func() { reportTo(h, where) })
	}
	return c, nil
}

func handOver(ctx, stream, addr, size uint64) { check.HandOver(ctx, stream, addr, size) }
func giveBack(addr uint64)                    { check.Forget(addr) }
