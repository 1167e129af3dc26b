package ext_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/dlpack/minifloat"
	"github.com/go-handoff/handoff/memview"
	"github.com/go-handoff/handoff/python/ext"
)

func TestCheck(t *testing.T) {
	m := ext.New("good", "Docs.").
		Func("a(x, y=1)", func(memview.StridedMemoryView, int) {}, "Doc.").
		Func("b(*xs)", func(...float64) error { return nil }, "Doc.").
		Func("c(x=None)", func(*int) {}, "Doc.").
		Func("d(x=None)", func([]float32) {}, "Doc.").
		Func("e(x)", func(context.Context, []minifloat.BFloat16) {}, "Doc.")
	require.NoError(t, m.Check())
	require.Equal(t, "good", m.Name())
}

// Every mistake names the module, the function and the place.
func TestCheckErrors(t *testing.T) {
	type point struct{ X chan int }
	for _, c := range []struct {
		signature string
		fn        any
		want      string
	}{
		{"f(x)", nil, "f: <nil> is not a function"},
		{"f(x)", 3, "f: int is not a function"},
		{"f(x)", (func(int))(nil), "is not a function"},
		{"f(x", func(int) {}, "signature: want ',' or ')'"},
		{"f(x, y)", func(int) {}, "f: the signature has 2 parameters, the Go function takes 1"},
		{"f()", func(context.Context, int) {}, "f: the signature has 0 parameters, the Go function takes 1"},
		{"f(x)", func(chan int) {}, `f: parameter "x": type chan int is not supported`},
		{"f(x)", func(map[string]int) {}, `f: parameter "x": type map[string]int`},
		{"f(x)", func([][]int) {}, "is not supported"},
		{"f(x)", func(**int) {}, "is not supported"},
		{"f(x)", func(*[]float64) {}, "default None"},
		{"f(x)", func(any) {}, "is not supported"},
		{"f(x)", func(minifloat.BFloat16) {}, "use a float64"},
		{"f(x)", func(time.Duration) {}, "use a float64"},
		{"f(x=1.5)", func(int) {}, "default 1.5 does not fit"},
		{"f(x=300)", func(int8) {}, "default 300 does not fit"},
		{"f(x=-1)", func(uint) {}, "default -1 does not fit"},
		{"f(x='a')", func(float64) {}, "default 'a' does not fit"},
		{"f(x=1)", func(bool) {}, "default 1 does not fit"},
		{"f(x=True)", func(int) {}, "default True does not fit"},
		{"f(x=None)", func(int) {}, "default None does not fit"},
		{"f(x=None)", func(memview.StridedMemoryView) {}, "default None does not fit"},
		{"f(x=1)", func([]float64) {}, "default 1 does not fit"},
		{"f(x)", func(...int) {}, "write *x"},
		{"f(*x)", func(int) {}, "use a slice"},
		{"f()", func() chan int { return nil }, "f: result 1: type chan int is not supported"},
		//lint:ignore ST1008 the mistake to be found
		{"f()", func() (error, int) { return nil, 0 }, "an error must be the last result"},
		{"f()", func() point { return point{} }, "field point.X: type chan int"},
		{"f()", func() struct{ X int } { return struct{ X int }{} }, "a struct needs a name"},
		{"f()", func() dlpack.Exported { return dlpack.Exported{} }, "no exported fields"},
		{"f()", func() map[int]int { return nil }, "type map[int]int is not supported"},
	} {
		err := ext.New("m", "Docs.").Func(c.signature, c.fn, "Doc.").Check()
		require.ErrorContains(t, err, "ext: module m: ", c.signature)
		require.ErrorContains(t, err, c.want, "%s %T", c.signature, c.fn)
	}
	f := func() {}
	require.ErrorContains(t, ext.New("m", "D.").Func("f()", f, "D.").Func("f()", f, "D.").Check(), "f: added twice")
	require.ErrorContains(t, ext.New("m", "D.").Func("f()", f, "").Check(), "f: has no documentation")
	require.ErrorContains(t, ext.New("", "D.").Check(), "no name")
	require.ErrorContains(t, ext.New("a-b", "D.").Check(), "no name")
	require.ErrorContains(t, ext.New("m", " ").Check(), "no documentation")
	require.ErrorContains(t, ext.New("m", "D.").Quick("f()", func(context.Context) {}, "D.").Check(), "quick function cannot take a context")
	require.ErrorContains(t, ext.New("m", "D.").WayBack("f").Check(), "was not added")
	require.ErrorContains(t, ext.New("m", "D.").Func("f()", f, "D.").WayBack("f").Check(), "without a stream")
	// All mistakes are told at once.
	err := ext.New("m", "D.").Func("a(", f, "D.").Func("b(", f, "D.").Check()
	require.ErrorContains(t, err, "a(")
	require.ErrorContains(t, err, "b(")
}

func TestErrors(t *testing.T) {
	err := fmt.Errorf("outer: %w", ext.ValueError("n is %d: %w", 3, fs.ErrNotExist))
	require.EqualError(t, err, "outer: n is 3: file does not exist")
	require.ErrorIs(t, err, fs.ErrNotExist)
	var e *ext.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "ValueError", e.Class)
	for class, make := range map[string]func(string, ...any) error{
		"TypeError": ext.TypeError, "IndexError": ext.IndexError, "KeyError": ext.KeyError, "OverflowError": ext.OverflowError,
		"BufferError": ext.BufferError, "RuntimeError": ext.RuntimeError, "NotImplementedError": ext.NotImplementedError,
	} {
		require.True(t, errors.As(make("x"), &e))
		require.Equal(t, class, e.Class)
	}
	require.EqualError(t, &ext.PyError{Type: "ValueError", Text: "no"}, "ValueError: no")
	require.EqualError(t, &ext.PyError{Type: "ValueError"}, "ValueError")
}

// The zero Object is None, and asks nothing of Python.
func TestZeroObject(t *testing.T) {
	var o ext.Object
	require.True(t, o.IsNone())
	_, err := o.Call()
	require.ErrorIs(t, err, dlpack.ErrNull)
	_, err = o.Retain()
	require.ErrorIs(t, err, dlpack.ErrNull)
}

type Summary struct {
	Mean  float64
	Table map[string][]int
	Next  *int
}

func Example() {
	module := ext.New("mymod", "Arithmetic in Go.").
		Func("scale(x, factor=2.0)", func(x []float64, factor float64) {
			for i := range x {
				x[i] *= factor
			}
		}, "Multiplies x by factor, in place.")
	// In a test; a PyInit function calls module.Init().
	fmt.Println(module.Check())
	// Output: <nil>
}

func ExampleValueError() {
	open := func(path string) error {
		if path == "" {
			return ext.ValueError("the path is empty")
		}
		return nil
	}
	err := open("")
	var e *ext.Error
	fmt.Println(err, errors.As(err, &e), e.Class)
	// Output: the path is empty true ValueError
}

func ExampleModule_Stub() {
	m := ext.New("numbers", "Numbers in Go.").
		Func("scale(x, factor=2.0, *, offset=None)", func([]float64, float64, *float64) error { return nil }, "Scales x in place.").
		Func("summary(*xs)", func(...memview.StridedMemoryView) (Summary, error) { return Summary{}, nil }, "Sums up.").
		Func("name(n: int)", func(int) string { return "" }, "Not a signature.")
	fmt.Println(m.Check())
	fmt.Println(m.Stub())
	// Output:
	// ext: module numbers: signature: want ',' or ')' at position 6 of "name(n: int)"
	// # Code generated by handoff from the Go source. DO NOT EDIT.
	// """Numbers in Go."""
	//
	// from typing import Any, NamedTuple, Protocol, TypeAlias
	//
	// from typing_extensions import Buffer
	//
	// class _DLPack(Protocol):
	//     def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...
	//
	// class _ArrayInterface(Protocol):
	//     @property
	//     def __array_interface__(self) -> dict[str, Any]: ...
	//
	// ArrayLike: TypeAlias = _DLPack | _ArrayInterface | Buffer
	// """Anything that offers DLPack, the buffer protocol or the array interface."""
	//
	// class Summary(NamedTuple):
	//     mean: float
	//     table: dict[str, list[int]]
	//     next: int | None
	//
	// def scale(x: ArrayLike, factor: float = 2.0, *, offset: float | None = None) -> None:
	//     """Scales x in place."""
	//
	// def summary(*xs: ArrayLike) -> Summary:
	//     """Sums up."""
}
