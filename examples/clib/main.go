//go:build cgo && linux

// Command clib exchanges arrays with a C library that knows DLPack and nothing
// of Go: signals.c, compiled into this program by cgo.
//
// It shows: a tensor that C made, read and written by Go; a Go slice that C
// changes in place; a Go slice that C wraps in a tensor of its own and gives
// back; and that each deleter ran once. Nothing is copied on the way.
//
// It needs a C compiler.
package main

// #cgo CFLAGS: -I${SRCDIR}/../../dlpack/include
// #include "glue.h"
// #include "signals.h"
import "C"

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/memview"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "clib:", err)
		os.Exit(1)
	}
}

func run(w io.Writer) error {
	if err := fromC(w); err != nil {
		return err
	}
	if err := toC(w); err != nil {
		return err
	}
	if err := roundTrip(w); err != nil {
		return err
	}
	fmt.Fprintln(w, "tensors of the C library still alive:", int64(C.sig_live()))
	return nil
}

// vector takes over a tensor and shows it as a view that keeps it.
func vector(tensor uintptr) (memview.StridedMemoryView, error) {
	m, err := dlpack.ImportVersioned(tensor)
	if err != nil {
		return memview.StridedMemoryView{}, err
	}
	v, err := memview.FromDLPack(m)
	if err != nil {
		m.Release()
	}
	return v, err
}

// fromC reads and writes memory that the C library made and still owns.
func fromC(w io.Writer) error {
	v, err := vector(uintptr(C.glue_ramp(5, 1, 0.5)))
	if err != nil {
		return err
	}
	x, err := memview.Slice[float32](v)
	if err != nil {
		return errors.Join(err, v.Release())
	}
	x[0] = -1
	fmt.Fprintln(w, "made by C, first value set by Go:", x)
	return v.Release()
}

// toC lends a Go slice to the C library, which changes it in place.
func toC(w io.Writer) error {
	x := []float32{1, 2, 3}
	e, err := dlpack.ExportSlice(x, nil, nil, nil)
	if err != nil {
		return err
	}
	defer e.Close()
	tensor, err := e.Export(true)
	if err != nil {
		return err
	}
	if C.glue_scale(C.uintptr_t(tensor), 10) != 0 {
		err = errors.New("the C library refused the tensor")
	}
	m, importErr := dlpack.ImportVersioned(tensor) // ours again: this is how Go drops it
	if importErr != nil {
		return errors.Join(err, importErr)
	}
	m.Release()
	fmt.Fprintln(w, "made by Go, scaled by C:", x)
	return err
}

// roundTrip gives a Go slice to the C library for good. The library returns a
// tensor that shows the same memory from its end, and Go takes that one.
func roundTrip(w io.Writer) error {
	x := []float32{1, 2, 3, 4}
	e, err := dlpack.ExportSlice(x, nil, nil, nil)
	if err != nil {
		return err
	}
	tensor, err := e.Export(true)
	if err != nil {
		return errors.Join(err, e.Close())
	}
	if err := e.Close(); err != nil { // the tensor keeps the slice pinned now
		return err
	}
	reversed := uintptr(C.glue_reverse(C.uintptr_t(tensor)))
	if reversed == 0 {
		return errors.New("the C library refused the tensor")
	}
	v, err := vector(reversed)
	if err != nil {
		return err
	}
	if err := memview.Set[float32](v, 99, 0); err != nil {
		return errors.Join(err, v.Release())
	}
	fmt.Fprintf(w, "made by Go, reversed by C: strides %v, and Go's slice after a write through it: %v\n", v.Strides(), x)
	return v.Release()
}
