package python_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/memview"
	"github.com/go-handoff/handoff/python"
	"github.com/go-handoff/handoff/python/internal/embed"
)

// started is why there is no Python in this test binary, or nil.
var started error

func TestMain(m *testing.M) {
	started = embed.Start("")
	leak.Main(m)
}

func needPython(t testing.TB) {
	t.Helper()
	if started != nil {
		t.Skip(started)
	}
}

// eval returns the value of a Python expression. numpy is np in it.
func eval(t testing.TB, expr string) *python.Object {
	t.Helper()
	o, err := tryEval(expr)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.Close()) })
	return o
}

func tryEval(expr string) (*python.Object, error) {
	builtins, err := python.Import("builtins")
	if err != nil {
		return nil, err
	}
	defer builtins.Close()
	f, err := builtins.Attr("eval")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := python.String(expr)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	d, err := builtins.Attr("dict")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	globals, err := d.Call()
	if err != nil {
		return nil, err
	}
	defer globals.Close()
	return f.Call(s, globals)
}

func needNumPy(t testing.TB) {
	t.Helper()
	needPython(t)
	np, err := python.Import("numpy")
	if err != nil {
		t.Skip("numpy is not installed: ", err)
	}
	require.NoError(t, np.Close())
}

const numpy = "__import__('numpy')"

func refcount(t testing.TB, o *python.Object) string {
	t.Helper()
	sys, err := python.Import("sys")
	require.NoError(t, err)
	defer sys.Close()
	f, err := sys.Attr("getrefcount")
	require.NoError(t, err)
	defer f.Close()
	n, err := f.Call(o)
	require.NoError(t, err)
	defer n.Close()
	s, err := n.Text()
	require.NoError(t, err)
	return s
}

func TestObject(t *testing.T) {
	needPython(t)
	o := eval(t, "[1, 2]")
	name, err := o.TypeName()
	require.NoError(t, err)
	require.Equal(t, "list", name)
	s, err := o.Repr()
	require.NoError(t, err)
	require.Equal(t, "[1, 2]", s)

	t.Run("Retain holds a reference of its own", func(t *testing.T) {
		before := refcount(t, o)
		r, err := o.Retain()
		require.NoError(t, err)
		require.Equal(t, o.Addr(), r.Addr())
		require.NotEqual(t, before, refcount(t, o))
		require.NoError(t, r.Close())
		require.NoError(t, r.Close())
		require.Zero(t, r.Addr())
		waitFor(t, func() bool { return refcount(t, o) == before })
		_, err = r.Text()
		require.ErrorIs(t, err, fs.ErrClosed)
		_, err = r.Retain()
		require.ErrorIs(t, err, dlpack.ErrClosed)
	})

	t.Run("Borrow", func(t *testing.T) {
		before := refcount(t, o)
		b, err := python.Borrow(o.Addr())
		require.NoError(t, err)
		require.NoError(t, b.Close())
		waitFor(t, func() bool { return refcount(t, o) == before }) // given back by another thread
		_, err = python.Borrow(0)
		require.ErrorIs(t, err, dlpack.ErrNull)
	})

	t.Run("a dropped Object is given back", func(t *testing.T) {
		before := refcount(t, o)
		func() {
			r, err := o.Retain()
			require.NoError(t, err)
			runtime.KeepAlive(r)
		}()
		waitFor(t, func() bool { runtime.GC(); return refcount(t, o) == before })
	})
}

// waitFor lets other threads run until ok.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end), "it did not happen")
	}
}

func TestException(t *testing.T) {
	needPython(t)
	_, err := tryEval("1 / 0")
	var e *python.Exception
	require.ErrorAs(t, err, &e)
	require.Equal(t, "ZeroDivisionError", e.Type)
	require.Equal(t, "division by zero", e.Message)
	require.Empty(t, e.Rule)
	require.NoError(t, e.Unwrap())

	_, err = python.Import("no_such_module")
	require.ErrorAs(t, err, &e)
	require.Equal(t, "ModuleNotFoundError", e.Type)

	o := eval(t, "object()")
	_, err = o.Attr("nothing")
	require.ErrorAs(t, err, &e)
	require.Equal(t, "AttributeError", e.Type)

	t.Run("R158 B169 no protocol", func(t *testing.T) {
		_, err := o.View()
		require.ErrorAs(t, err, &e)
		require.Equal(t, "handoff.ProtocolError", e.Type)
		require.Equal(t, "R158", e.Rule)
		require.ErrorIs(t, err, dlpack.ErrNotSupported)
	})
	t.Run("R015 read-only", func(t *testing.T) {
		_, err := eval(t, "b'abc'").WritableView()
		require.ErrorIs(t, err, dlpack.ErrReadOnly)
		require.ErrorAs(t, err, &e)
		require.Equal(t, "R015", e.Rule)
	})
	t.Run("invalid UTF-8", func(t *testing.T) {
		_, err := python.String("\xff")
		require.ErrorAs(t, err, &e)
		require.Equal(t, "UnicodeDecodeError", e.Type)
	})
	require.Equal(t, "python: KeyError", (&python.Exception{Type: "KeyError"}).Error())
}

func TestView(t *testing.T) {
	needNumPy(t)
	for _, test := range []struct {
		expr     string
		shape    []int64
		strides  []int64
		dtype    dlpack.DataType
		readonly bool
	}{
		{"np.arange(6, dtype='i4').reshape(2, 3)", []int64{2, 3}, []int64{3, 1}, dlpack.Int32, false},
		{"np.zeros((4, 6))[::2, ::-1]", []int64{2, 6}, []int64{12, -1}, dlpack.Float64, false},
		{"np.zeros(())", []int64{}, []int64{}, dlpack.Float64, false},
		{"np.zeros((0, 3), '?')", []int64{0, 3}, nil, dlpack.Bool, false},
		{"np.zeros((1,) * 12)", []int64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, nil, dlpack.Float64, false},
		{"bytearray(3)", []int64{3}, []int64{1}, dlpack.UInt8, false},
		{"b'abc'", []int64{3}, []int64{1}, dlpack.UInt8, true},
		{"memoryview(np.zeros(2, 'c8'))", []int64{2}, []int64{1}, dlpack.Complex64, false},
	} {
		t.Run(test.expr, func(t *testing.T) {
			o := eval(t, strings.ReplaceAll(test.expr, "np.", numpy+"."))
			before := refcount(t, o)
			v, err := o.View()
			require.NoError(t, err)
			require.Equal(t, test.shape, append([]int64{}, v.Shape()...))
			if test.strides != nil {
				require.Equal(t, test.strides, append([]int64{}, v.Strides()...))
			}
			require.Equal(t, test.dtype, v.DType())
			require.Equal(t, test.readonly, v.ReadOnly())
			require.NotEqual(t, before, refcount(t, o))
			require.NoError(t, v.Release())
			waitFor(t, func() bool { return refcount(t, o) == before })
		})
	}
}

func TestViewIsShared(t *testing.T) {
	needNumPy(t)
	o := eval(t, numpy+".arange(4, dtype='f8')")
	v, err := o.WritableView()
	require.NoError(t, err)
	s, err := memview.Slice[float64](v)
	require.NoError(t, err)
	require.Equal(t, []float64{0, 1, 2, 3}, s)
	s[0] = 7
	text, err := o.Text()
	require.NoError(t, err)
	require.Equal(t, "[7. 1. 2. 3.]", text)

	t.Run("the view outlives the object", func(t *testing.T) {
		c, err := o.Retain()
		require.NoError(t, err)
		w, err := c.View()
		require.NoError(t, err)
		require.NoError(t, c.Close())
		x, err := memview.At[float64](w, 3)
		require.NoError(t, err)
		require.Equal(t, 3.0, x)
		require.NoError(t, w.Release())
	})
	require.NoError(t, v.Release())
	_, err = memview.At[float64](v, 0)
	require.ErrorIs(t, err, dlpack.ErrClosed)
}

func TestNewViewAndArray(t *testing.T) {
	needPython(t)
	for name, produce := range map[string]func(memview.StridedMemoryView) (*python.Object, error){
		"handoff.StridedMemoryView": python.NewView,
		"handoff.Array":             python.NewArray,
	} {
		t.Run(name, func(t *testing.T) {
			data := []int32{1, 2, 3, 4, 5, 6}
			v, err := memview.FromSlice(data, 2, 3)
			require.NoError(t, err)
			o, err := produce(v)
			require.NoError(t, err)
			got, err := o.TypeName()
			require.NoError(t, err)
			require.Equal(t, name, got)

			back, err := o.WritableView()
			require.NoError(t, err)
			require.Equal(t, []int64{2, 3}, back.Shape())
			s, err := memview.Slice[int32](back)
			require.NoError(t, err)
			s[5] = 60
			require.Equal(t, int32(60), data[5], "the memory is shared")

			ro, err := produce(v.AsReadOnly())
			require.NoError(t, err)
			_, err = ro.WritableView()
			require.ErrorIs(t, err, dlpack.ErrReadOnly)

			live := dlpack.ReadStats()
			require.NoError(t, ro.Close())
			require.NoError(t, o.Close())
			s[0] = 10 // the view still holds the memory
			require.NoError(t, back.Release())
			waitFor(t, func() bool { return dlpack.ReadStats() != live })
		})
	}
	_, err := python.NewView(memview.StridedMemoryView{})
	require.ErrorIs(t, err, dlpack.ErrNull)
}

func TestDo(t *testing.T) {
	needPython(t)
	require.NoError(t, python.Do(func() error {
		o, err := tryEval("1")
		if err != nil {
			return err
		}
		return o.Close()
	}))
	sentinel := errors.New("sentinel")
	require.ErrorIs(t, python.Do(func() error { return sentinel }), sentinel)
	require.PanicsWithValue(t, "through", func() { _ = python.Do(func() error { panic("through") }) })
	require.NoError(t, python.Do(func() error { return nil }), "the GIL was given back")
	require.NoError(t, python.Do(func() error { return python.Do(func() error { return nil }) }), "it nests")
}

// B165: many goroutines, which move between threads.
func TestConcurrent(t *testing.T) {
	needNumPy(t)
	o := eval(t, numpy+".arange(100)")
	before := refcount(t, o)
	var wg sync.WaitGroup
	errs := make(chan error, 32)
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 50 {
				v, err := o.View()
				if err != nil {
					errs <- err
					return
				}
				runtime.Gosched()
				p, err := python.NewArray(v)
				if err != nil {
					errs <- err
					return
				}
				_ = v.Release()
				_ = p.Close()
			}
		}()
	}
	wg.Wait()
	close(errs)
	require.NoError(t, <-errs)
	waitFor(t, func() bool { return refcount(t, o) == before })
}

func BenchmarkView(b *testing.B) {
	needNumPy(b)
	o := eval(b, numpy+".arange(12).reshape(3, 4)")
	b.ReportAllocs()
	for b.Loop() {
		v, err := o.View()
		if err != nil {
			b.Fatal(err)
		}
		_ = v.Release()
	}
}

// Example needs a process that runs Python, so it is compiled and not run.
func Example() {
	data := []int64{1, 2, 3}
	v, err := memview.FromSlice(data)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	// A Python object on the memory of the slice, ...
	array, err := python.NewArray(v)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer array.Close()
	// ... and a view of what that object says it is.
	w, err := array.WritableView()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer w.Release()
	s, err := memview.Slice[int64](w)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	s[1] = 20
	fmt.Println(data) // [1 20 3]
}
