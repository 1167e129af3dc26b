package memview_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/dlpack/minifloat"
	"github.com/go-handoff/handoff/memview"
)

func Example() {
	data := []float32{1, 2, 3, 4, 5, 6}
	v, err := memview.FromSlice(data, 2, 3)
	if err != nil {
		log.Fatal(err)
	}
	// Every second column, turned around. Nothing is copied.
	w, err := v.Transpose().Slice(memview.All().By(2))
	if err != nil {
		log.Fatal(err)
	}
	if err := memview.Set(w, float32(60), 1, 1); err != nil {
		log.Fatal(err)
	}
	fmt.Println(w)
	fmt.Println(data)
	// Output:
	// float32[2 2] on cpu:0
	// [[ 1  4]
	//  [ 3 60]]
	// [1 2 3 4 5 60]
}

func ExampleSlice() {
	v, err := memview.FromArray(&[2][2]int32{{1, 2}, {3, 4}})
	if err != nil {
		log.Fatal(err)
	}
	s, err := memview.Slice[int32](v)
	fmt.Println(s, err)
	_, err = memview.Slice[int32](v.Transpose())
	fmt.Println(err)
	_, err = memview.Slice[float32](v)
	fmt.Println(err)
	_, err = memview.Slice[int32](v.AsReadOnly())
	fmt.Println(errors.Is(err, dlpack.ErrReadOnly))
	// Output:
	// [1 2 3 4] <nil>
	// memview: slice: shape [2 2], strides [1 2], 4-byte elements is not C-contiguous (B008): invalid layout
	// memview: slice: elements are int32, not float32: unsupported dtype
	// true
}

func ExampleMatrixOf() {
	v, err := memview.FromSlice([]float64{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		log.Fatal(err)
	}
	m, err := memview.MatrixOf[float64](v.Transpose())
	if err != nil {
		log.Fatal(err)
	}
	for i := range m.Rows() {
		sum := 0.0
		for _, x := range m.Row(i).All() {
			sum += x
		}
		m.Set(i, 0, sum)
	}
	fmt.Println(v)
	// Output:
	// float64[2 3] on cpu:0
	// [[5 7 9]
	//  [4 5 6]]
}

func ExampleItems() {
	v, err := memview.FromSlice([]int64{1, 2, 3, 4}, 2, 2)
	if err != nil {
		log.Fatal(err)
	}
	items, err := memview.Items[int64](v)
	if err != nil {
		log.Fatal(err)
	}
	for index, x := range items {
		fmt.Println(index, x)
	}
	// Output:
	// [0 0] 1
	// [0 1] 2
	// [1 0] 3
	// [1 1] 4
}

// A raw address needs an owner. Here it is a function that frees the memory.
func ExampleOnRelease() {
	address := uintptr(0x10000) // would come from C
	d := dlpack.Desc{Data: address, Device: dlpack.CPU, DType: dlpack.Float32, Shape: []int64{4}}
	v, err := memview.FromDesc(&d, memview.OnRelease(nil, func() error {
		fmt.Println("freed")
		return nil
	}))
	if err != nil {
		log.Fatal(err)
	}
	w, err := v.Retain()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(v.Release(), w.Live())
	fmt.Println(w.Release(), w.Live())
	_, err = memview.At[float32](w, 0)
	fmt.Println(errors.Is(err, dlpack.ErrClosed))
	// Output:
	// <nil> true
	// freed
	// <nil> false
	// true
}

func ExampleFromBuffer() {
	b := cai.Buffer{
		Addr: 0x10000, Len: 48, ItemSize: 8, NDim: 2, Format: "d", HasFormat: true,
		Shape: []int64{2, 3}, Strides: []int64{28, 8},
	}
	_, err := memview.FromBuffer(&b, memview.Unowned())
	var rule *dlpack.RuleError
	fmt.Println(errors.As(err, &rule), errors.Is(err, dlpack.ErrLayout))
	fmt.Println(err)
	// Output:
	// true true
	// memview: buffer: cai: buffer: stride 28 of axis 0 is not a multiple of the item size 8 (R257): invalid layout
}

func ExampleCopy() {
	src, err := memview.FromSlice([]uint16{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		log.Fatal(err)
	}
	dst, err := memview.Make(dlpack.UInt16, 3, 2)
	if err != nil {
		log.Fatal(err)
	}
	if err := memview.Copy(dst, src.Transpose()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(dst)
	// Output:
	// uint16[3 2] on cpu:0
	// [[1 4]
	//  [2 5]
	//  [3 6]]
}

func ExampleStridedMemoryView_View() {
	v, err := memview.FromSlice([]uint8{0x21, 0x43})
	if err != nil {
		log.Fatal(err)
	}
	// Two 4-bit numbers in each byte, the first one in the low half.
	w, err := v.View(dlpack.Float4E2M1FN)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(w)
	x, err := memview.At[minifloat.Float4E2M1FN](w, 2)
	fmt.Println(x, err)
	// Output:
	// float4_e2m1fn[4] on cpu:0
	// [0.5   1 1.5   2]
	// 1.5 <nil>
}

func ExampleLayout() {
	l, err := memview.Dense([]int64{4, 6}, 8, memview.OrderC)
	if err != nil {
		log.Fatal(err)
	}
	s, err := l.Slice(memview.From(1), memview.All().By(-2))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s)
	fmt.Println(s.ByteSpan(), s.ContiguousC(), s.IsUnique())
	_, err = s.Reshape(9)
	fmt.Println(errors.Is(err, dlpack.ErrCopy))
	// Output:
	// shape [3 3], strides [6 -2], 8-byte elements, offset 11
	// 136 false true
	// true
}

func ExampleLayout_Offsets() {
	l, err := memview.NewLayout([]int64{2, 2}, []int64{1, 10}, 4)
	if err != nil {
		log.Fatal(err)
	}
	for off := range l.Offsets() {
		fmt.Print(off, " ")
	}
	fmt.Println()
	// Output:
	// 0 10 1 11
}

// No copy changes a dtype: Convert does, and says where a number does not fit.
func ExampleConvert() {
	src, err := memview.FromSlice([]float64{1, 2, 2.5})
	if err != nil {
		fmt.Println(err)
		return
	}
	dst, err := memview.Make(dlpack.Float16, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(errors.Is(memview.Copy(dst, src), dlpack.ErrDType))
	fmt.Println(memview.Convert(dst, src), dst)
	whole, err := memview.Make(dlpack.Int8, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(memview.Convert(whole, src))
	// Output:
	// true
	// <nil> float16[3] on cpu:0
	// [  1   2 2.5]
	// memview: convert: the float64 at [2] is no int8: integer overflow
}
