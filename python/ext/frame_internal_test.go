package ext

import (
	"context"
	"errors"
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/memview"
)

// fakeCall is a frame as C would fill it, with room for the results.
type fakeCall struct {
	frame
	vals    [4]value
	args    [4]argument
	results [8]value
	text    [256]byte
	data    [4][6]float64
}

// newFakeCall makes the frame of a call of f: nviews arrays of 2 x 3 float64, or
// slices of them, then the scalars.
func newFakeCall(fn *function, nviews int, slices bool, scalars ...value) *fakeCall {
	c := &fakeCall{}
	for i := range nviews {
		for j := range c.data[i] {
			c.data[i][j] = float64(10*i + j)
		}
		a := &c.args[i]
		a.Addr = uint64(uintptr(unsafe.Pointer(&c.data[i])))
		a.NDim, a.DType, a.Device = 2, dlpack.Float64, dlpack.CPU
		a.Dims = [16]int64{0: 2, 1: 3, 8: 3, 9: 1}
		a.Shape, a.Strides = &a.Dims[0], &a.Dims[8]
		c.vals[i] = value{tag: tagView, n: uint32(i), a: uint64(i)}
		if slices {
			c.vals[i] = value{tag: tagSlice, n: uint32(i), a: a.Addr, b: 6}
		}
	}
	copy(c.vals[nviews:], scalars)
	c.fn = register(fn)
	c.values, c.arrays = &c.vals[0], &c.args[0]
	c.nvalues, c.narrays = uint32(nviews+len(scalars)), uint32(nviews)
	c.out, c.outCap = &c.results[0], 8
	c.scratch, c.scratchCap = &c.text[0], 256
	return c
}

func (c *fakeCall) reset() { c.outLen, c.scratchUsed, c.status = 0, 0, 0 }

func plan(t testing.TB, signature string, f any) *function {
	t.Helper()
	fn, err := planFunction(New("m", "D."), signature, f, "Doc.", false)
	require.NoError(t, err)
	return fn
}

type v = memview.StridedMemoryView

func floatValue(x float64) value { return value{tag: tagFloat, a: math.Float64bits(x)} }

func intValue(x int64) value { return value{tag: tagInt, a: uint64(x)} }

// pathCases are functions that have a fast path, with what they answer.
var pathCases = []struct {
	name, signature string
	f               any
	views           int
	slices          bool
	scalars         []value
	status          uint32
	want            []value
}{
	{"nothing", "f()", func() {}, 0, false, nil, 0, nil},
	{"view", "f(x)", func(x v) int { return x.NDim() }, 1, false, nil, 0, []value{intValue(2)}},
	{"views", "f(a, b, c)", func(a, b, c v) int64 { return a.Size() + b.Dim(0) + c.Stride(0) }, 3, false, nil, 0, []value{intValue(11)}},
	{"views and number", "f(a, b, x)", func(a, b v, x float64) (float64, error) {
		y, err := memview.At[float64](b, 1, 2)
		return x + y + float64(a.NDim()), err
	}, 2, false, []value{floatValue(0.5)}, 0, []value{floatValue(17.5)}},
	{"slices", "f(a, b)", func(a, b []float64) bool { return a[5] == 5 && b[0] == 10 && len(a) == 6 }, 2, true, nil, 0, []value{{tag: tagBool, a: 1}}},
	{"read-only slice", "f(a)", func(a ReadOnly[float64]) float64 { return a[1] }, 1, true, nil, 0, []value{floatValue(1)}},
	{"error", "f(x)", func(v) error { return errors.New("no") }, 1, false, nil, 1, nil},
	{"no error", "f(x)", func(v) error { return nil }, 1, false, nil, 0, nil},
	{"result and error", "f(n)", func(n int) (int, error) { return n, errors.New("no") }, 0, false, []value{intValue(3)}, 1, nil},
	{"numbers", "f(n, x)", func(n int, x float64) float64 { return float64(n) * x }, 0, false, []value{intValue(3), floatValue(2)}, 0, []value{floatValue(6)}},
}

// The generated calls and reflection give the same answers.
func TestPathsAgree(t *testing.T) {
	for _, c := range pathCases {
		t.Run(c.name, func(t *testing.T) {
			fn := plan(t, c.signature, c.f)
			require.NotNil(t, fastPath(c.f), "no fast path for %T", c.f)
			for _, invoke := range []func(*call, context.Context){fastPath(c.f), fn.reflectPath()} {
				fn.invoke = invoke
				f := newFakeCall(fn, c.views, c.slices, c.scalars...)
				enter(&f.frame)
				require.Equal(t, c.status, f.status)
				require.Equal(t, c.want, append([]value(nil), f.results[:f.outLen]...))
				if c.status != 0 {
					require.Equal(t, "GoError", cString(f.errClass))
					require.Equal(t, "no", cString(f.errText))
				}
			}
		})
	}
}

// A panic is described to C like an error.
func TestPanicInCall(t *testing.T) {
	fn := plan(t, "f(x)", func(x v) int { panic(argError{errors.New("bad view")}) })
	f := newFakeCall(fn, 1, false)
	enter(&f.frame)
	require.EqualValues(t, 1, f.status)
	require.Equal(t, "bad view", cString(f.errText))
}

// A view that outlives its call is refused, also once the state is in use again.
func TestEscapedView(t *testing.T) {
	var kept v
	fn := plan(t, "f(x)", func(x v) { kept = x })
	f := newFakeCall(fn, 1, false)
	enter(&f.frame)
	_, err := memview.At[float64](kept, 0, 0)
	require.ErrorIs(t, err, dlpack.ErrClosed)
	_, err = kept.Retain()
	require.ErrorIs(t, err, dlpack.ErrClosed)
	again := plan(t, "f(x)", func(x v) error {
		if _, err := memview.At[float64](x, 0, 0); err != nil {
			return err
		}
		_, err := memview.At[float64](kept, 0, 0)
		return err
	})
	g := newFakeCall(again, 1, false)
	enter(&g.frame)
	require.EqualValues(t, 1, g.status)
	require.Equal(t, "ValueError", cString(g.errClass))
}

func TestClassOf(t *testing.T) {
	require.Equal(t, "GoError", classOf(errors.New("x")))
	require.Equal(t, "DTypeError", classOf(&dlpack.RuleError{Err: dlpack.ErrDType}))
	require.Equal(t, "ValueError", classOf(&dlpack.RuleError{Err: dlpack.ErrClosed}))
	require.Equal(t, "TimeoutError", classOf(context.DeadlineExceeded))
}

func TestSpan(t *testing.T) {
	var a argument
	a.Addr, a.NDim, a.DType = 1000, 2, dlpack.Float64
	a.Shape, a.Strides = &a.Dims[0], &a.Dims[8]
	a.Dims = [16]int64{0: 2, 1: 3, 8: 3, 9: 1}
	low, high := a.span()
	require.Equal(t, [2]uint64{1000, 1048}, [2]uint64{low, high})
	a.Dims = [16]int64{0: 2, 1: 3, 8: -3, 9: 1}
	low, high = a.span()
	require.Equal(t, [2]uint64{976, 1024}, [2]uint64{low, high})
	a.Dims = [16]int64{0: 2, 1: 0, 8: 3, 9: 1}
	low, high = a.span()
	require.Equal(t, low, high)
}

func BenchmarkEnter(b *testing.B) {
	for _, c := range pathCases {
		if c.status != 0 {
			continue
		}
		b.Run(c.name, func(b *testing.B) {
			fn := plan(b, c.signature, c.f)
			f := newFakeCall(fn, c.views, c.slices, c.scalars...)
			b.ReportAllocs()
			for b.Loop() {
				f.reset()
				enter(&f.frame)
			}
		})
	}
}
