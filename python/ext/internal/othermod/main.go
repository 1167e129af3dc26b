// Command othermod is a second shared object with a Go runtime of its own,
// which must be refused once testmod is loaded (B361).
package main

// #include <stdint.h>
import "C"

import "github.com/go-handoff/handoff/python/ext"

var module = ext.New("othermod", "One function.").
	Func("answer()", func() int { return 42 }, "The answer.")

//export PyInit_othermod
func PyInit_othermod() C.uintptr_t { return C.uintptr_t(module.Init()) }

func main() {}
