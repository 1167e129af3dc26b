package memview

import (
	"runtime"
	"sync"
	"unsafe"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/memview/internal/kernels"
)

// launchBlock is the parameter of a kernel in the driver's second form: a
// list of words that says where the packed parameters are.
type launchBlock struct {
	extra [5]uintptr
	size  uintptr
	args  kernels.Args
}

var launchBlocks = sync.Pool{New: func() any { return new(launchBlock) }}

// launchKernel queues a kernel on the stream of a transfer. The driver copies
// the parameters before it returns.
func launchKernel(t *transfer, k driver.KernelHandle, grid, block uint32, a *kernels.Args) driver.Result {
	b := launchBlocks.Get().(*launchBlock)
	defer launchBlocks.Put(b)
	var pin runtime.Pinner
	pin.Pin(b)
	defer pin.Unpin()
	b.args, b.size = *a, kernels.ArgsSize
	// SAFETY: addresses inside of b, which is pinned during the call and has no
	// pointers itself.
	b.extra = [5]uintptr{
		driver.LaunchParamBufferPointer, uintptr(unsafe.Pointer(&b.args)),
		driver.LaunchParamBufferSize, uintptr(unsafe.Pointer(&b.size)),
		driver.LaunchParamEnd,
	}
	// The driver takes a kernel in place of a function, and finds the function
	// for the current context.
	return t.d.LaunchKernel(t.ctx, driver.FunctionHandle(k), grid, 1, 1, block, 1, 1, 0, t.s, nil, unsafe.Pointer(&b.extra)) // SAFETY: as above.
}
