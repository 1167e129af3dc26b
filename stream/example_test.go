//go:build cgo && linux

package stream_test

import (
	"errors"
	"fmt"
	"os"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/stream"
)

// binding stands for the stream type of another Go library.
type binding struct{ raw uintptr }

// CUDAStream is all that a library has to add.
func (b *binding) CUDAStream() (version int, handle uintptr) { return 0, b.raw }

// exampleDriver is the software device, unless HANDOFF_DRIVER=cuda asks for a GPU.
func exampleDriver() (*driver.Driver, driver.ContextHandle, error) {
	if os.Getenv("HANDOFF_DRIVER") != "cuda" {
		if err := soft.Enable(nil); err != nil {
			return nil, 0, err
		}
	}
	d, err := driver.Default()
	if err != nil {
		return nil, 0, err
	}
	ctx, res := d.DevicePrimaryCtxRetain(0)
	return d, ctx, res.Err()
}

// A stream of another Go binding is wrapped by the protocol, a raw handle of a
// C library by its number; neither is ever destroyed by the view.
func Example() {
	d, ctx, err := exampleDriver()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.DevicePrimaryCtxRelease(0)
	raw, res := d.StreamCreate(ctx, driver.StreamNonBlocking) // the C library's cudaStream_t
	if err := res.Err(); err != nil {
		fmt.Println(err)
		return
	}
	defer d.StreamDestroy(ctx, raw)

	theirs, err := stream.Wrap(&binding{uintptr(raw)}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	legacy, err := stream.WrapHandle(0, &stream.Options{Context: ctx})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := theirs.WaitFor(legacy); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(theirs.Kind(), "after", legacy)
	d.ForgetContext(ctx, false)
	// Output: created after legacy default stream of device 0
}

// An Order that is not said is refused.
func ExampleOrder() {
	var order stream.Order
	fmt.Println(errors.Is(order.Check(), stream.ErrNoOrder), stream.NoSync())
	// Output: true no sync
}
