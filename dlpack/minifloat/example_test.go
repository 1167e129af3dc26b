package minifloat_test

import (
	"fmt"

	"github.com/go-handoff/handoff/dlpack/minifloat"
)

func Example() {
	weights := []float32{0.1, 1.5, -3, 1000}
	small := make([]minifloat.Float8E4M3FN, len(weights))
	minifloat.FromFloat32s(small, weights)
	fmt.Println(small) // 1000 is beyond the largest value, 448

	back := make([]float32, len(small))
	minifloat.ToFloat32(back, small)
	fmt.Println(back[:3])
	// Output:
	// [0.1015625 1.5 -3 NaN]
	// [0.1015625 1.5 -3]
}

func ExampleInfoOf() {
	i := minifloat.InfoOf[minifloat.Float6E3M2FN]()
	fmt.Println(i.Name, i.Max, i.SmallestSubnormal, i.HasNaN)
	// Output: float6_e3m2fn 28 0.0625 false
}

func ExampleToBFloat16() {
	x := minifloat.ToBFloat16(0.1)
	fmt.Printf("%v %#04x\n", x, uint16(x))
	// Output: 0.100097656 0x3dcd
}

func ExamplePacked() {
	// Five fp4 values share three bytes.
	s, err := minifloat.NewPacked[minifloat.Float4E2M1FN]([]byte{0x21, 0x43, 0x05}, 5)
	if err != nil {
		fmt.Println(err)
		return
	}
	s.Set(0, minifloat.ToFloat4E2M1FN(-6))
	for i := range s.Len() {
		fmt.Print(s.At(i), " ")
	}
	fmt.Printf("%#x\n", s.Bytes())
	// Output: -6 1 1.5 2 3 0x2f4305
}

func ExampleLess() {
	a, b := minifloat.ToFloat8E5M2(-1), minifloat.ToFloat8E5M2(1)
	fmt.Println(minifloat.Less(a, b), a < b) // the operator compares patterns
	// Output: true false
}
