package main

import (
	"errors"
	"unsafe"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
)

// newTheirs makes the other library's stream and arrays: x counts from 0, y is
// full of ones. The work that fills them is only queued.
func newTheirs(dev *device.Device, n int64) (*theirs, error) {
	ctx, err := dev.PrimaryContext()
	if err != nil {
		return nil, err
	}
	t := &theirs{d: dev.Driver(), ctx: ctx.Handle(), n: n}
	var res driver.Result
	if t.stream, res = t.d.StreamCreate(t.ctx, driver.StreamNonBlocking); res != driver.Success {
		return nil, res.Err()
	}
	for _, p := range []*driver.DevicePtr{&t.x, &t.y} {
		if *p, res = t.d.MemAlloc(t.ctx, uintptr(4*n)); res != driver.Success {
			return nil, errors.Join(res.Err(), t.close())
		}
	}
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i)
	}
	if res := t.d.MemcpyHtoDBytes(t.ctx, t.x, bytes(x)); res != driver.Success {
		return nil, errors.Join(res.Err(), t.close())
	}
	// The copy may still be on its way to the device, on the legacy default
	// stream, which a non-blocking stream does not wait for.
	if res := t.d.StreamSynchronize(t.ctx, driver.LegacyStream); res != driver.Success {
		return nil, errors.Join(res.Err(), t.close())
	}
	const one = 0x3f800000 // 1.0
	if res := t.d.MemsetD32Async(t.ctx, t.y, one, uintptr(n), t.stream); res != driver.Success {
		return nil, errors.Join(res.Err(), t.close())
	}
	return t, nil
}

// sum waits for the library's stream and adds y up.
func (t *theirs) sum() (sum float64, err error) {
	if res := t.d.StreamSynchronize(t.ctx, t.stream); res != driver.Success {
		return 0, res.Err()
	}
	y := make([]float32, t.n)
	if res := t.d.MemcpyDtoHBytes(t.ctx, bytes(y), t.y); res != driver.Success {
		return 0, res.Err()
	}
	for _, v := range y {
		sum += float64(v)
	}
	return sum, nil
}

func (t *theirs) close() error {
	return errors.Join(t.d.MemFree(t.ctx, t.x).Err(), t.d.MemFree(t.ctx, t.y).Err(), t.d.StreamDestroy(t.ctx, t.stream).Err())
}

func bytes(s []float32) []byte {
	// SAFETY: the memory of s, lent to one copy.
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), 4*len(s))
}
