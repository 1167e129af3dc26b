//go:build cgo && linux

package soft_test

import (
	"fmt"
	"strings"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
)

// The software device as the driver of a program: memory, a stream, a copy back.
func Example() {
	if err := soft.Enable(nil); err != nil {
		fmt.Println(err)
		return
	}
	d, err := driver.Default()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, res := d.DevicePrimaryCtxRetain(0)
	if res != driver.Success {
		fmt.Println(res)
		return
	}
	defer d.DevicePrimaryCtxRelease(0)

	p, res := d.MemAlloc(ctx, 8)
	if res != driver.Success {
		fmt.Println(res)
		return
	}
	defer d.MemFree(ctx, p)
	if res := d.MemsetD8Async(ctx, p, 7, 8, driver.StreamHandle(0)); res != driver.Success {
		fmt.Println(res)
		return
	}
	out := make([]byte, 8)
	if res := d.MemcpyDtoHBytes(ctx, out, p); res != driver.Success {
		fmt.Println(res)
		return
	}
	fmt.Println(d.Provider(), out)
	// Output: soft [7 7 7 7 7 7 7 7]
}

// A kernel is a Go function; an image names it for the driver's loader.
func ExampleRegisterKernel() {
	err := soft.RegisterKernel("double", []soft.ParamInfo{soft.Ptr, soft.Int32}, func(l *soft.Launch) {
		s := soft.Slice[float32](l, l.Ptr(0), int(l.Int64(1)))
		for i := range s {
			s[i] *= 2
		}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(strings.TrimRight(string(soft.Image("double")), "\x00"))
	// Output:
	// handoff-soft-image 1
	// kernel double
}

// A copy in a second stream that does not wait for the memset in the first is found, though it may
// well have come out right.
func ExampleRaces() {
	d, err := driver.Open(&driver.Options{Provider: driver.ProviderSoft})
	if err != nil || soft.StartHunt() != nil {
		return
	}
	ctx, _ := d.DevicePrimaryCtxRetain(0)
	a, _ := d.StreamCreate(ctx, driver.StreamNonBlocking)
	b, _ := d.StreamCreate(ctx, driver.StreamNonBlocking)
	p, _ := d.MemAlloc(ctx, 1024)
	q, _ := d.MemAlloc(ctx, 1024)
	d.MemsetD8Async(ctx, p, 7, 1024, a)
	d.MemcpyAsync(ctx, q, p, 1024, b)
	for _, r := range soft.ForgetRaces() {
		fmt.Println(r.First.Kind, "by", r.First.Op, "and", r.Second.Kind, "by", r.Second.Op)
	}
	d.CtxSynchronize(ctx)
	d.MemFree(ctx, p)
	d.MemFree(ctx, q)
	d.StreamDestroy(ctx, a)
	d.StreamDestroy(ctx, b)
	d.DevicePrimaryCtxRelease(0)
	// Output: write by memset and read by copy
}
