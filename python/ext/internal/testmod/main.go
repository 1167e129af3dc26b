// Command testmod is the Python module that the tests of python/ext import:
// one function for each kind of parameter and result, and for each way in
// which a Go function can end. Build it with -buildmode=c-shared.
package main

// #include <stdint.h>
import "C"

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/x448/float16"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/dlpack/minifloat"
	"github.com/go-handoff/handoff/memview"
	"github.com/go-handoff/handoff/python/ext"
	"github.com/go-handoff/handoff/stream"
)

type view = memview.StridedMemoryView

// Stats becomes a named tuple.
type Stats struct {
	Mean   float64
	Count  int
	MaxID  int `py:"max_index"`
	Sorted []float64
	hidden int
}

var module = ext.New("testmod", "Functions for the tests of python/ext.").
	// Scalars, one function per type.
	Func("i8(x)", func(x int8) int8 { return x }, "Identity.").
	Func("i16(x)", func(x int16) int16 { return x }, "Identity.").
	Func("i32(x)", func(x int32) int32 { return x }, "Identity.").
	Func("i64(x)", func(x int64) int64 { return x }, "Identity.").
	Func("i(x)", func(x int) int { return x }, "Identity.").
	Func("u8(x)", func(x uint8) uint8 { return x }, "Identity.").
	Func("u16(x)", func(x uint16) uint16 { return x }, "Identity.").
	Func("u32(x)", func(x uint32) uint32 { return x }, "Identity.").
	Func("u64(x)", func(x uint64) uint64 { return x }, "Identity.").
	Func("f32(x)", func(x float32) float32 { return x }, "Identity.").
	Func("f64(x)", func(x float64) float64 { return x }, "Identity.").
	Func("c64(x)", func(x complex64) complex64 { return x }, "Identity.").
	Func("c128(x)", func(x complex128) complex128 { return x }, "Identity.").
	Func("text(x)", func(x string) string { return x }, "Identity.").
	Func("flag(x)", func(x bool) bool { return x }, "Identity.").
	Func("data(x)", func(x []byte) []byte { return x }, "Identity of bytes.").
	Func("rodata(x)", func(x ext.ReadOnly[byte]) int { return len(x) }, "Length of bytes.").
	// Streams.
	Func("on_stream(x, *more, stream=None)", func(x view, more []view, s stream.StreamView) (uint64, int, string) {
		return uint64(s.Handle()), int(s.Device()), x.Device().String()
	}, "Handle and device of the stream that the arrays are ordered on, and the device of x.").
	Func("there_and_back(x, *more, stream=None, fail=False)", func(_ view, _ []view, _ stream.StreamView, fail bool) error {
		if fail {
			return errors.New("half-way")
		}
		return nil
	}, "Queues nothing itself; the arrays' streams wait for the stream in the end.").
	WayBack("there_and_back").
	// Signatures.
	Func("sig(a, b=2, /, c=3.5, *, d, e='x\\n', f=None, g=True)", func(a, b int, c float64, d int, e string, f *int, g bool) string {
		if f == nil {
			return fmt.Sprintf("%d %d %g %d %q nil %t", a, b, c, d, e, g)
		}
		return fmt.Sprintf("%d %d %g %d %q %d %t", a, b, c, d, e, *f, g)
	}, "Shows its arguments.").
	Func("nothing()", func() {}, "Does nothing.").
	Func("variadic(*xs, scale=1.0)", func(xs []float64, scale float64) float64 {
		sum := 0.0
		for _, x := range xs {
			sum += x
		}
		return sum * scale
	}, "Sum of the arguments.").
	Func("lengths(first, *rest)", func(first view, rest ...view) []int64 {
		out := []int64{first.Size()}
		for _, v := range rest {
			out = append(out, v.Size())
		}
		return out
	}, "Sizes of arrays.").
	Func("shape(dims, names=None)", func(dims []int, names []string) string { return fmt.Sprint(dims, names) }, "Lists.").
	Func("optview(x=None)", func(x *view) int64 {
		if x == nil {
			return -1
		}
		return x.Size()
	}, "Size of an optional array.").
	Func("optslice(x=None)", func(x []float64) int {
		if x == nil {
			return -1
		}
		return len(x)
	}, "Length of an optional slice.").
	// Arrays.
	Func("describe(x)", func(x view) (string, []int64, []int64, bool) {
		return x.DType().String(), x.Shape(), x.Strides(), x.ReadOnly()
	}, "dtype, shape, strides, read-only.").
	Quick("ndim(x)", func(x view) int { return x.NDim() }, "Axes.").
	Quick("sizes(x, y, z)", func(x, y, z view) int { return int(x.Size() + y.Size() + z.Size()) }, "Sizes.").
	Func("ndim_slow(x)", func(x view) int { return x.NDim() }, "Axes, without the GIL.").
	Func("total(x)", func(x ext.ReadOnly[float64]) float64 {
		sum := 0.0
		for _, v := range x {
			sum += v
		}
		return sum
	}, "Sum.").
	Func("scale(x, factor=2.0)", func(x []float64, factor float64) {
		for i := range x {
			x[i] *= factor
		}
	}, "Scales in place.").
	Func("fill(x, value)", func(x view, value float64) error { return memview.Fill(x, value) }, "Fills a float64 array.").
	Func("lenof_bool(x)", func(x []bool) int { return len(x) }, "Length.").
	Func("lenof_i8(x)", func(x []int8) int { return len(x) }, "Length.").
	Func("lenof_i16(x)", func(x []int16) int { return len(x) }, "Length.").
	Func("lenof_i32(x)", func(x []int32) int { return len(x) }, "Length.").
	Func("lenof_i64(x)", func(x []int64) int { return len(x) }, "Length.").
	Func("lenof_u16(x)", func(x []uint16) int { return len(x) }, "Length.").
	Func("lenof_u32(x)", func(x []uint32) int { return len(x) }, "Length.").
	Func("lenof_u64(x)", func(x []uint64) int { return len(x) }, "Length.").
	Func("lenof_f16(x)", func(x []float16.Float16) int { return len(x) }, "Length.").
	Func("lenof_f32(x)", func(x []float32) int { return len(x) }, "Length.").
	Func("lenof_c64(x)", func(x []complex64) int { return len(x) }, "Length.").
	Func("lenof_c128(x)", func(x []complex128) int { return len(x) }, "Length.").
	Func("lenof_bf16(x)", func(x []minifloat.BFloat16) int { return len(x) }, "Length.").
	Func("lenof_f8(x)", func(x []minifloat.Float8E4M3FN) int { return len(x) }, "Length.").
	Func("many(a, b, c, d, e, f, g, h, i, j)", func(a, b, c, d, e, f, g, h, i, j view) int64 {
		return a.Size() + b.Size() + c.Size() + d.Size() + e.Size() + f.Size() + g.Size() + h.Size() + i.Size() + j.Size()
	}, "Sizes of ten arrays.").
	// Results.
	Func("arange(n)", arange, "A new array.").
	Func("nilslice()", func() []float64 { return nil }, "None.").
	Func("emptyslice()", func() []float64 { return []float64{} }, "An empty array.").
	Func("frozen(n)", func(n int) ext.ReadOnly[float64] { return arange(n) }, "A read-only array.").
	Func("bf16s()", func() []minifloat.BFloat16 { return []minifloat.BFloat16{minifloat.ToBFloat16(1.5)} }, "An array of bfloat16.").
	Func("c64s()", func() []complex64 { return []complex64{1 + 2i} }, "An array of complex64.").
	Func("matrix(rows, cols)", matrix, "A view of Go memory.").
	Func("alloc(n)", func(n int64) (*dlpack.Exported, error) {
		return dlpack.Alloc(dlpack.Float32, []int64{n}, nil)
	}, "C memory.").
	Func("reimport(n)", func(n int) (dlpack.Managed, error) {
		e, err := dlpack.ExportSlice(arange(n), nil, nil, nil)
		if err != nil {
			return dlpack.Managed{}, err
		}
		p, err := e.Export(true)
		if err != nil {
			return dlpack.Managed{}, err
		}
		m, err := dlpack.ImportVersioned(p)
		return m, errors.Join(err, e.Close())
	}, "An imported tensor.").
	Func("same(x)", func(x view) view { return x }, "The same memory.").
	Func("tail(x, n)", func(x []float64, n int) []float64 { return x[n:] }, "A part of the same memory.").
	Func("transposed(x)", func(x view) view { return x.Transpose() }, "The same memory, transposed.").
	Func("pair(x)", func(x int) (int, string) { return x, "x" }, "A tuple.").
	Func("stats(x)", func(x ext.ReadOnly[float64]) Stats {
		return Stats{Mean: 1.5, Count: len(x), MaxID: 3, Sorted: []float64{1, 2}, hidden: 1}
	}, "A named tuple.").
	Func("maybe(x)", func(x bool) *int {
		if !x {
			return nil
		}
		n := 7
		return &n
	}, "7 or None.").
	Func("words(n)", func(n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprintf("word number %d of %d", i, n)
		}
		return out
	}, "A list of str.").
	Func("table()", func() map[string]float64 { return map[string]float64{"b": 2, "a": 1} }, "A dict.").
	Func("anything(kind)", func(kind string) any {
		switch kind {
		case "int":
			return 3
		case "list":
			return []any{1, "two", 3.0, nil, true, []byte("x")}
		case "array":
			return []float64{1, 2}
		case "map":
			return map[string]any{"k": []int{1}}
		}
		return nil
	}, "A result of any type.").
	Func("badany()", func() any { return make(chan int) }, "A result that Python has no form for.").
	// Errors.
	Func("fails(kind)", fails, "Returns an error.").
	Func("panics(kind)", func(kind string) int {
		switch kind {
		case "nil":
			var p *Stats
			return p.Count
		case "index":
			var s []int
			return s[len(kind)]
		case "error":
			panic(errors.New("an error value"))
		}
		panic("a panic: " + kind)
	}, "Panics.").
	Quick("quickpanics()", func() { panic("quick") }, "Panics with the GIL.").
	Func("goexits()", func() { runtime.Goexit() }, "Ends the process.").
	Func("goexits_context()", func(context.Context) { runtime.Goexit() }, "Goexit on a goroutine of its own.").
	Func("panics_context()", func(context.Context) { panic("in context") }, "Panics on a goroutine of its own.").
	// Waiting.
	Func("wait(seconds)", func(ctx context.Context, seconds float64) (string, error) {
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(time.Duration(seconds * float64(time.Second))):
			return "waited", nil
		}
	}, "Waits; Ctrl-C ends it.").
	Func("stubborn(seconds)", func(ctx context.Context, seconds float64) string {
		<-ctx.Done()
		return "finished after all"
	}, "Waits for Ctrl-C and returns a result.").
	Func("wait_and_call(f)", func(ctx context.Context, f ext.Object) error {
		<-ctx.Done()
		_, err := f.Call()
		return err
	}, "Waits for Ctrl-C, calls f and returns its error.").
	Func("rendezvous(n)", rendezvous, "Returns when n threads are inside.").
	// Lifetimes.
	Func("stash(x)", func(x view) { stashed = x }, "Lets a borrowed view escape.").
	Func("peek()", func() (float64, error) { return memview.At[float64](stashed, 0) }, "Reads the escaped view.").
	Func("retain(x)", func(x view) error {
		v, err := x.Retain()
		if err == nil {
			retained = append(retained, v)
		}
		return err
	}, "Keeps the array beyond the call.").
	Func("retain_elsewhere(x)", func(x view) error {
		out := make(chan error)
		go func() {
			v, err := x.Retain()
			if err == nil {
				retained = append(retained, v)
			}
			out <- err
		}()
		return <-out
	}, "Retains from another goroutine.").
	Quick("retain_quick(x)", func(x view) error {
		v, err := x.Retain()
		if err == nil {
			retained = append(retained, v)
		}
		return err
	}, "Retains with the GIL held.").
	Quick("retain_quick_elsewhere(x)", func(x view) error {
		out := make(chan error)
		go func() { _, err := x.Retain(); out <- err }()
		return <-out
	}, "Must be refused.").
	Func("retained_sum()", func() (float64, error) {
		sum := 0.0
		for _, v := range retained {
			x, err := memview.At[float64](v, 0)
			if err != nil {
				return 0, err
			}
			sum += x
		}
		return sum, nil
	}, "Sum of the first elements of what was retained.").
	Func("release()", func() {
		var wg sync.WaitGroup
		for _, v := range retained {
			wg.Go(func() { _ = v.Release() })
		}
		wg.Wait()
		retained = nil
	}, "Releases it, each on a goroutine of its own.").
	Func("around(x, f)", func(x view, f ext.Object) (before, after float64, err error) {
		if before, err = sum(x); err == nil {
			if _, err = f.Call(); err == nil {
				after, err = sum(x)
			}
		}
		return before, after, err
	}, "Sum of an array before and after a call of f.").
	// Objects.
	Func("call(f, *args)", func(f ext.Object, args ...ext.Object) (any, error) {
		list := make([]any, len(args))
		for i := range args {
			list[i] = args[i]
		}
		return f.Call(list...)
	}, "Calls f.").
	Func("call_wrapped(f)", func(f ext.Object) error {
		_, err := f.Call()
		if err != nil {
			return fmt.Errorf("while calling back: %w", err)
		}
		return nil
	}, "Calls f and wraps its error.").
	Func("call_with(f)", func(f ext.Object) (any, error) {
		return f.Call(nil, true, 1, 2.5, "s", []byte("b"), []float64{1, 2}, map[string]int{"k": 1})
	}, "Calls f with Go values.").
	Func("catches(f)", func(f ext.Object) (string, error) {
		_, err := f.Call()
		var py *ext.PyError
		if errors.As(err, &py) {
			return py.Type + "|" + py.Text, nil
		}
		return "", err
	}, "Reports the exception of f.").
	Func("attr(x, name)", func(x ext.Object, name string) (any, error) { return x.Attr(name) }, "getattr.").
	Func("inspect(x=None)", func(x ext.Object) (string, error) {
		if x.IsNone() {
			return "none", nil
		}
		s, err := x.Str()
		if err != nil {
			return "", err
		}
		t, err := x.TypeName()
		return t + " " + s, err
	}, "Type and text.").
	Func("keep(x)", func(x ext.Object) error {
		r, err := x.Retain()
		if err == nil {
			kept, keptObject = r, x
		}
		return err
	}, "Keeps an object.").
	Func("kept()", func() *ext.Ref { return kept }, "The kept object.").
	Func("drop()", func() error { return kept.Close() }, "Drops it.").
	Func("stale()", func() (string, error) { return keptObject.Str() }, "Uses a borrowed object after its call.").
	Func("call_many(f, n)", func(f ext.Object, n int) (int, error) {
		var wg sync.WaitGroup
		errs := make([]error, n)
		for i := range n {
			wg.Go(func() { _, errs[i] = f.Call(i) })
		}
		wg.Wait()
		return n, errors.Join(errs...)
	}, "Calls f from many goroutines.").
	// The runtime.
	Func("gogc(percent)", func(percent int) int { return debug.SetGCPercent(percent) }, "Sets GOGC.").
	Func("gc()", runtime.GC, "Collects.").
	Func("exports()", func() int64 { return dlpack.ReadStats().Exports }, "Live exports.").
	Func("pinned()", func() int64 { return dlpack.ReadStats().Pinned }, "Pinned slices.").
	Func("goroutines()", runtime.NumGoroutine, "Goroutines.")

var (
	stashed    view
	retained   []view
	kept       *ext.Ref
	keptObject ext.Object
)

func arange(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(i)
	}
	return out
}

func matrix(rows, cols int) (view, error) {
	v, err := memview.FromSlice(arange(rows * cols))
	if err != nil {
		return v, err
	}
	return v.Reshape(int64(rows), int64(cols))
}

func fails(kind string) (int, error) {
	switch kind {
	case "plain":
		return 0, errors.New("a plain error")
	case "value":
		return 0, ext.ValueError("bad value %d", 3)
	case "wrapped":
		return 0, fmt.Errorf("outer: %w", ext.KeyError("inner"))
	case "custom":
		return 0, ext.Raise("ReadOnlyError", "custom")
	case "unknown":
		return 0, ext.Raise("NoSuchError", "unknown class")
	case "open":
		return 0, fmt.Errorf("open: %w", fs.ErrNotExist)
	case "deadline":
		return 0, context.DeadlineExceeded
	case "dtype":
		return 0, &dlpack.RuleError{Rule: "R022", Op: "test", Detail: "detail", Err: dlpack.ErrDType}
	case "utf8":
		return 0, errors.New("bad \xff byte and \x00 NUL")
	case "long":
		return 0, fmt.Errorf("%01000d", 7)
	}
	return 1, nil
}

var meeting struct {
	sync.Mutex
	inside int
	all    chan struct{}
}

// rendezvous can only return if n Python threads run it at once: the GIL has
// to be free.
func rendezvous(n int) int {
	meeting.Lock()
	if meeting.inside == 0 {
		meeting.all = make(chan struct{})
	}
	meeting.inside++
	all := meeting.all
	if meeting.inside == n {
		meeting.inside = 0
		close(all)
	}
	meeting.Unlock()
	<-all
	return n
}

var second = ext.New("testmod2", "A second module in the same shared object.").
	Func("double(x)", func(x int) int { return 2 * x }, "Twice x.")

var broken = ext.New("testbroken", "A module whose registration is wrong.").
	Func("good(x)", func(x int) int { return x }, "Fine.").
	Func("bad(x)", func(x chan int) {}, "A channel.").
	Func("worse(x", func(x int) {}, "A signature without an end.")

//export PyInit_testmod
func PyInit_testmod() C.uintptr_t { return C.uintptr_t(module.Init()) }

//export PyInit_testmod2
func PyInit_testmod2() C.uintptr_t { return C.uintptr_t(second.Init()) }

//export PyInit_testbroken
func PyInit_testbroken() C.uintptr_t { return C.uintptr_t(broken.Init()) }

func sum(x view) (float64, error) {
	all, err := x.Float64s()
	total := 0.0
	for _, v := range all {
		total += v
	}
	return total, err
}

func main() {}
