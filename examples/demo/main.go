// Command demo is the Python module godemo: arithmetic in place on arrays of
// any library, and arrays made by Go. demo.py beside this file uses it.
//
// It shows how one Go function serves every dtype: it takes a view and looks at
// the dtype itself. Functions for one dtype are shorter, see the quickstart.
//
// It needs a C compiler; `make demo` builds it as a shared object.
package main

import "github.com/go-handoff/handoff/python/ext"

var module = ext.New("godemo", "Arithmetic in place on arrays of any library, in Go.").
	Func("address(x)", address, "Returns the address at which Go sees the first element.").
	Func("total(x)", total, "Returns the sum of all elements.").
	Func("scale(x, factor)", scale, "Multiplies every element in place.").
	Func("ramp(n, dtype='float32')", ramp, "Returns an array 1, 2, ... n in memory of Go.")

func main() {}
