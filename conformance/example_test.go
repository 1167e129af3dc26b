//go:build cgo && linux

package conformance_test

import (
	"fmt"

	"github.com/go-handoff/handoff/conformance"
	"github.com/go-handoff/handoff/dlpack"
)

func ExampleCheckGo() {
	e, err := dlpack.ExportSlice([]float32{1, 2, 3, 4, 5, 6}, []int64{2, 3}, nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	results, err := conformance.CheckGo(e)
	if err != nil {
		fmt.Println(err)
		return
	}
	bad := 0
	for _, r := range results {
		if r.Status.Bad() {
			bad++
		}
	}
	fmt.Println(bad, "rules broken")
	// Output: 0 rules broken
}
