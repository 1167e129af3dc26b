//go:build cgo && linux

package memview_test

import (
	"context"
	"fmt"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/memview"
	"github.com/go-handoff/handoff/stream"
)

// exampleStreams returns two streams of the software device, or of a GPU with
// HANDOFF_DRIVER=cuda.
func exampleStreams() (theirs, mine *device.Stream, err error) {
	if !testdriver.Real() {
		if err := soft.Enable(nil); err != nil {
			return nil, nil, err
		}
	}
	d, err := device.Open(0)
	if err != nil {
		return nil, nil, err
	}
	if theirs, err = d.NewStream(nil); err != nil {
		return nil, nil, err
	}
	mine, err = d.NewStream(nil)
	return theirs, mine, err
}

// An array that another stream has just begun to write is imported, copied
// transposed to the host and given back. No step waits but the last.
func ExampleImport() {
	theirs, mine, err := exampleStreams()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer theirs.Close()
	defer mine.Close()

	// The producer: a view of device memory with work pending on theirs.
	b, err := theirs.Device().Allocate(6*4, theirs)
	if err != nil {
		fmt.Println(err)
		return
	}
	produced, err := memview.FromDeviceBuffer(b, dlpack.Int32, []int64{2, 3}, stream.On(theirs.View()), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	numbers, _ := memview.FromSlice([]int32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err := produced.CopyFrom(numbers, theirs.View()); err != nil {
		fmt.Println(err)
	}

	// The consumer.
	v, err := memview.Import(produced, stream.On(mine.View()), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	out := make([]int32, 6)
	turned, _ := memview.FromSlice(out, 3, 2)
	if err := turned.CopyFrom(v.Transpose(), mine.View()); err != nil {
		fmt.Println(err)
	}
	if err := v.ReleaseOn(mine.View()); err != nil {
		fmt.Println(err)
	}
	if err := produced.ReleaseOn(theirs.View()); err != nil {
		fmt.Println(err)
	}

	if err := mine.Synchronize(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Println(out)
	if err := memview.Flush(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: [1 4 2 5 3 6]
}

// A view tells where its memory is, also where its producer does not.
func ExampleStridedMemoryView_Probe() {
	s, other, err := exampleStreams()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer other.Close()
	defer s.Close()
	b, err := device.Allocate(s.Device().PinnedMemory(), 16, s)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()

	desc := dlpack.Desc{Data: uintptr(b.Ptr()), Device: dlpack.CPU, DType: dlpack.Float32, Shape: []int64{4}}
	v, err := memview.FromDesc(&desc, memview.OnRelease(b, nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(v.Device(), v.MemoryKind(), v.IsDeviceAccessible())
	if v, err = v.Probe(); err != nil {
		fmt.Println(err)
	}
	fmt.Println(v.Device(), v.MemoryKind(), v.IsDeviceAccessible())
	// Output:
	// cpu:0 host false
	// cpu:0 pinned true
}
