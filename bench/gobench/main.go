// Command gobench is the Python module gobench: small functions whose calls are
// measured by bench.py and repeated by soak.py. It needs a C compiler.
package main

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/cloop"
	"github.com/go-handoff/handoff/memview"
	"github.com/go-handoff/handoff/python/ext"
	"github.com/go-handoff/handoff/stream"
)

var module = ext.New("gobench", "Functions to measure and to repeat.").
	Quick("nothing()", nothing, "Returns 0.").
	Quick("take1(a)", take1, "Returns the extent of the first axis.").
	Quick("on_stream(a, *, stream)", onStream, "Returns the extent of the first axis; a is ordered on the stream.").
	Quick("take3(a, b, c)", take3, "Returns the sum of the extents of the first axes.").
	Func("make(rows, cols)", newArray, "Returns a new array of float32 in C memory.").
	Func("transposed(a)", transposed, "Returns a transposed copy of a matrix of float32.").
	Func("total(a)", total, "Returns the sum of an array of numbers.").
	Func("ramp(n, first)", ramp, "Returns a new array: first, first+1, and so on, in Go memory.").
	Func("raise_by(a, x)", raiseBy, "Adds x to each element of a vector of float64, in place.").
	Func("fill(a)", fill, "Sets a vector of int64 to 1; refuses read-only memory.").
	Func("keep(a)", keep, "Keeps a view past the call and gives it back on another goroutine.").
	Func("fails(a)", fails, "Returns an error.").
	Func("panics(a)", panics, "Panics.").
	Func("order_loop(a, b, n)", orderLoop, "Orders stream b after stream a n times in a C loop; returns nanoseconds.").
	Func("alloc_loop(s, size, n)", allocLoop, "Allocates and frees size bytes n times in the order of a stream in a C loop; returns nanoseconds.").
	Func("stats()", stats, "Returns (live exports, pinned owners) after a garbage collection.")

func main() {}

func nothing() int { return 0 }

func take1(a memview.StridedMemoryView) int { return int(a.Dim(0)) }

func onStream(a memview.StridedMemoryView, _ stream.StreamView) int { return int(a.Dim(0)) }

func take3(a, b, c memview.StridedMemoryView) int { return int(a.Dim(0) + b.Dim(0) + c.Dim(0)) }

func newArray(rows, cols int64) (*dlpack.Exported, error) {
	return dlpack.Alloc(dlpack.Float32, []int64{rows, cols}, nil)
}

func transposed(a memview.StridedMemoryView) (*dlpack.Exported, error) {
	t := a.Transpose()
	e, err := dlpack.Alloc(a.DType(), t.Shape(), nil)
	if err != nil {
		return nil, err
	}
	dst, err := memview.FromExported(e)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	defer dst.Release()
	if err := memview.Copy(dst, t); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func total(a memview.StridedMemoryView) (sum float64, err error) {
	all, err := a.Float64s()
	for _, x := range all {
		sum += x
	}
	return sum, err
}

func ramp(n int, first float64) []float64 {
	a := make([]float64, n)
	for i := range a {
		a[i] = first + float64(i)
	}
	return a
}

func raiseBy(a []float64, x float64) {
	for i := range a {
		a[i] += x
	}
}

func fill(a []int64) {
	for i := range a {
		a[i] = 1
	}
}

func keep(a memview.StridedMemoryView) error {
	own, err := a.Retain()
	if err != nil {
		return err
	}
	done := make(chan error)
	go func() { done <- own.Release() }()
	return <-done
}

var errBench = errors.New("as asked")

func fails(memview.StridedMemoryView) error { return errBench }

func panics(memview.StridedMemoryView) { panic("as asked") }

// orderLoop and allocLoop are what the driver's calls take that no library can spare: the floor
// of the rows about streams. Streams are raw handles; a context is current.
func orderLoop(a, b uint64, n int) (int64, error) {
	return nanoseconds(cloop.Order(driver.StreamHandle(a), driver.StreamHandle(b), n))
}

func allocLoop(s, size uint64, n int) (int64, error) {
	return nanoseconds(cloop.AllocFree(driver.StreamHandle(s), uintptr(size), n))
}

func nanoseconds(d time.Duration, ok bool) (int64, error) {
	if !ok {
		return 0, fmt.Errorf("a call of the CUDA driver failed, or there is none: %w", driver.ErrNoDriver)
	}
	return d.Nanoseconds(), nil
}

func stats() (exports, pinned int64) {
	runtime.GC()
	s := dlpack.ReadStats()
	return s.Exports, s.Pinned
}
