package cai_test

import (
	"errors"
	"fmt"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/dlpack"
)

func Example() {
	// What a GPU library put under __cuda_array_interface__: every second
	// column of a float32 matrix, with work pending on a stream.
	dict := map[string]any{
		"shape":   []any{int64(4), int64(3)},
		"strides": []any{int64(24), int64(8)},
		"typestr": "<f4",
		"data":    []any{int64(0x7f000000), false},
		"version": int64(3),
		"stream":  int64(1),
	}
	a, err := cai.Parse(dict, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	desc, err := a.Desc(dlpack.Device{Type: dlpack.DeviceCUDA}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(&desc)
	fmt.Println("wait for:", a.Ordering(), a.Stream)
	// Output:
	// float32[4 3] strides [6 2] at 0x7f000000 on cuda:0
	// wait for: stream legacy default
}

func ExampleParse_refused() {
	_, err := cai.Parse(map[string]any{
		"shape": []any{int64(2)}, "typestr": "<f4", "data": []any{int64(4096), false},
		"version": int64(3), "stream": int64(0),
	}, nil)
	var rule *dlpack.RuleError
	if errors.As(err, &rule) {
		fmt.Println(rule.Rule, errors.Is(err, dlpack.ErrStream))
	}
	// Output: R184 true
}

func ExampleFromDesc() {
	desc := dlpack.Desc{
		Data: 0x7f000000, Device: dlpack.Device{Type: dlpack.DeviceCUDA},
		DType: dlpack.Float64, Shape: []int64{3, 2}, Strides: []int64{1, 3}, Flags: dlpack.FlagReadOnly,
	}
	a, err := cai.FromDesc(&desc, cai.StreamOf(0)) // NULL: the legacy default stream
	if err != nil {
		fmt.Println(err)
		return
	}
	m := a.Map()
	fmt.Println(m["typestr"], m["shape"], m["strides"], m["data"], m["stream"])
	// Output: <f8 [3 2] [8 24] [2130706432 true] 1
}

func ExampleTypestr_DType() {
	t, err := cai.ParseTypestr("<V2")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = t.DType(nil)
	fmt.Println(err)
	d, err := t.DType(&cai.DTypeOptions{As: dlpack.BFloat16})
	fmt.Println(d, err)
	// Output:
	// cai: typestr: <V2 does not say what its bytes are (R286): unsupported dtype
	// bfloat16 <nil>
}

func ExampleFormatDType() {
	d, err := cai.FormatDType("Zf", 8)
	fmt.Println(d, err)
	_, err = cai.FormatDType("T{i:a:d:b:}", 16)
	fmt.Println(err)
	// Output:
	// complex64 <nil>
	// cai: format: type 'T', not a number (R251): unsupported dtype
}

func ExampleStreamArgument_DLPack() {
	for _, t := range []dlpack.DeviceType{dlpack.DeviceCUDA, dlpack.DeviceROCM, dlpack.DeviceCPU} {
		v, err := cai.LegacyDefault.DLPack(t)
		fmt.Println(t, v, err)
	}
	// Output:
	// cuda 1 <nil>
	// rocm 0 <nil>
	// cpu <nil> <nil>
}

func ExampleArrayInterface_Resolve() {
	// "data" is missing: the array lies in the buffer of the object itself.
	a, err := cai.ParseArrayInterface(map[string]any{
		"shape": []any{int64(4)}, "typestr": "|u1", "version": int64(3), "offset": int64(2),
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err = a.Resolve(0x1000, 6, true)
	fmt.Printf("%#x %v %v\n", a.Data, a.ReadOnly, err)
	// Output: 0x1002 true <nil>
}
