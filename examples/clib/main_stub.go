//go:build !(cgo && linux)

// Command clib exchanges arrays with a C library. It needs cgo and Linux.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "clib: this example needs cgo and Linux")
	os.Exit(1)
}
