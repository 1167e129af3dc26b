// Command quickstart is the Python module gomath. Build it with
//
//	go build -buildmode=c-shared -o gomath.so ./examples/quickstart
package main

// #include <stdint.h>
import "C"

import (
	"fmt"

	"github.com/go-handoff/handoff/python/ext"
)

// scale changes x in place: x is the memory of the caller's array.
func scale(x []float64, factor float64) {
	for i := range x {
		x[i] *= factor
	}
}

// running returns a new array that every library takes without a copy.
func running(x ext.ReadOnly[float64]) ([]float64, error) {
	if len(x) == 0 {
		return nil, fmt.Errorf("running: the array is empty") // a Python exception
	}
	sums := make([]float64, len(x))
	for i, v := range x {
		sums[i] = v + sums[max(i-1, 0)]
	}
	return sums, nil
}

var module = ext.New("gomath", "Two functions in Go.").
	Func("scale(x, factor=2.0)", scale, "Multiplies x in place.").
	Func("running(x)", running, "Returns the running sums of x.")

//export PyInit_gomath
func PyInit_gomath() C.uintptr_t { return C.uintptr_t(module.Init()) }

func main() {}
