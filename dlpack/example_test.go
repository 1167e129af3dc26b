package dlpack_test

import (
	"errors"
	"fmt"

	"github.com/go-handoff/handoff/dlpack"
)

func ExampleParseDataType() {
	d, err := dlpack.ParseDataType("float4_e2m1fn")
	if err != nil {
		fmt.Println(err)
		return
	}
	packed, _ := d.ByteSize(7, false)
	padded, _ := d.ByteSize(7, true)
	fmt.Println(d, d.BitsPerElement(), packed, padded)

	_, err = dlpack.ParseDataType("float33x")
	fmt.Println(err)
	// Output:
	// float4_e2m1fn 4 4 7
	// dlpack: dtype: unknown name "float33x" (R027): unsupported dtype
}

func ExampleDesc_Check() {
	d := dlpack.Desc{
		Data:   0x1000,
		Device: dlpack.CPU,
		DType:  dlpack.Float32,
		Shape:  []int64{1 << 32, 1 << 32, 16},
	}
	err := d.Check()
	fmt.Println(err)
	fmt.Println(errors.Is(err, dlpack.ErrOverflow))
	// Output:
	// dlpack: check: number of elements does not fit, at axis 1 (R034): integer overflow
	// true
}

func ExampleStreamArg_Check() {
	for _, a := range []dlpack.StreamArg{{}, dlpack.StreamInt(-1), dlpack.StreamInt(2), dlpack.StreamInt(0)} {
		use, err := a.Check(dlpack.DeviceCUDA)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(a, "means", use.Kind)
	}
	// Output:
	// None means legacy default
	// -1 means no sync
	// 2 means per-thread default
	// dlpack: stream: stream 0 on cuda: ambiguous, say 1 for the legacy default stream or 2 for the per-thread one (R128): invalid stream
}

func ExampleRequest_Plan() {
	// A producer with data on a GPU, which can copy to the host.
	offer := dlpack.Offer{
		Device:    dlpack.Device{Type: dlpack.DeviceCUDA, ID: 1},
		DType:     dlpack.Float32,
		CanCopyTo: func(d dlpack.Device) bool { return d == dlpack.CPU },
	}
	r := dlpack.Request{MaxVersion: dlpack.ABIVersion, Device: dlpack.CPU}
	p, err := r.Plan(&offer)
	fmt.Println(p.Copy, p.Flags, p.HostSync, err)

	r.Copy = dlpack.CopyNever
	_, err = r.Plan(&offer)
	fmt.Println(err)
	// Output:
	// true is_copied true <nil>
	// dlpack: request: cuda:1 as cpu:0 needs a copy (R151): copy not possible
}
