//go:build cgo && linux && (amd64 || arm64)

package dlpack_test

import (
	"fmt"

	"github.com/go-handoff/handoff/dlpack"
)

// Two libraries in one process: one lends a Go slice, the other takes it.
func Example() {
	data := []float32{1, 2, 3, 4, 5, 6}
	e, err := dlpack.ExportSlice(data, []int64{2, 3}, nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := e.Export(true)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := e.Close(); err != nil { // p has a reference of its own
		fmt.Println(err)
	}

	m, err := dlpack.ImportVersioned(p)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Release()
	fmt.Println(m.DType(), m.Device(), m.Shape(nil), m.Strides(nil), m.Version())
	// Output:
	// float32 cpu:0 [2 3] [3 1] 1.3
}

func ExampleManaged_Export() {
	e, err := dlpack.Alloc(dlpack.Int16, []int64{4}, &dlpack.ExportOptions{Flags: dlpack.FlagReadOnly})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = e.Close() }()
	m, err := dlpack.From(e, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Release()

	// The old form cannot say that memory is read-only.
	_, err = m.Export(false)
	fmt.Println(err)
	// The new one can.
	p, err := m.Export(true)
	if err != nil {
		fmt.Println(err)
		return
	}
	n, err := dlpack.ImportVersioned(p)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(n.ReadOnly(), n.Addr() == m.Addr())
	n.Release()
	// Output:
	// dlpack: export: an unversioned tensor cannot say that it is read-only (R057): read-only memory
	// true true
}

func ExampleFrom() {
	e, err := dlpack.ExportSlice([]int32{1, 2, 3, 4}, []int64{2, 2}, []int64{1, 2}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = e.Close() }()
	m, err := dlpack.From(e, &dlpack.Request{Copy: dlpack.CopyAlways})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Release()
	fmt.Println(m.Strides(nil), m.Flags())
	// Output:
	// [2 1] is_copied
}
