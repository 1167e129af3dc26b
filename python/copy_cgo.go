//go:build cgo && linux && (amd64 || arm64)

package python

import (
	"fmt"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/cptr"
	"github.com/go-handoff/handoff/memview"
)

// tensor mirrors DLTensor.
type tensor struct {
	data       uintptr
	device     dlpack.Device
	ndim       int32
	dtype      dlpack.DataType
	shape      uintptr
	strides    uintptr
	byteOffset uint64
}

func viewOf(addr uintptr, padded bool) (memview.StridedMemoryView, error) {
	// The C core built and checked the tensor; it lives until this returns.
	t := cptr.To[tensor](addr)
	return memview.FromRaw(&memview.Raw{
		Addr:    t.data + uintptr(t.byteOffset),
		NDim:    int(t.ndim),
		Shape:   cptr.To[int64](t.shape),
		Strides: cptr.To[int64](t.strides),
		DType:   t.dtype,
		Device:  t.device,
		Padded:  padded,
		Trusted: true,
	}, memview.Unowned())
}

// copyTensor copies between two tensors of C that do not overlap.
func copyTensor(dst, src uintptr, padded bool) error {
	d, err := viewOf(dst, padded)
	if err != nil {
		return err
	}
	s, err := viewOf(src, padded)
	if err != nil {
		return err
	}
	return memview.Copy(d, s)
}

// selfTest is what handoff._core._selftest runs.
func selfTest(name string) error {
	switch name {
	case "go":
		return nil
	case "panic":
		panic("self-test")
	}
	return fmt.Errorf("no self-test is called %q", name)
}
