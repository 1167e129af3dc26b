package launch_test

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/dlpack/minifloat"
	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/launch"
	"github.com/go-handoff/handoff/memview"
)

var one = launch.Config{Grid: launch.D1(1), Block: launch.D1(1)}

// floats makes a view of a buffer.
func floats(t testing.TB, b *device.Buffer, shape ...int64) memview.StridedMemoryView {
	t.Helper()
	v, err := memview.FromDesc(&dlpack.Desc{
		Data: uintptr(b.Ptr()), Device: b.DLDevice(), DType: dlpack.Float32, Shape: shape, Version: dlpack.ABIVersion,
	}, memview.Unowned())
	require.NoError(t, err)
	return v
}

func argError(t testing.TB, err error, index int) *launch.ArgError {
	t.Helper()
	require.ErrorIs(t, err, launch.ErrArgument)
	e := as[*launch.ArgError](t, err)
	require.Equal(t, index, e.Index, "%v", err)
	return e
}

func TestLaunch(t *testing.T) {
	k, s := kernel(t, "saxpy"), newStream(t, 0)
	y, x := upload[float32](t, s, 1, 2, 3), upload[float32](t, s, 10, 20, 30)
	cfg := launch.Config{Grid: launch.Cover(3, 2), Block: launch.D1(2)}
	require.NoError(t, launch.Launch(s, cfg, k, y, x, float32(2), int32(3)))
	require.Equal(t, []float32{21, 42, 63}, download[float32](t, s, y))
	require.NoError(t, launch.Launch(s, cfg, k, floats(t, y, 3), x.Ptr(), float32(1), launch.Int32(2)))
	require.Equal(t, []float32{31, 62, 63}, download[float32](t, s, y))
}

func TestLaunchOnForeignStream(t *testing.T) {
	testdriver.HoldUp(t)
	d, ctx := testdriver.Context(t, 0)
	foreign := testdriver.Stream(t, d, ctx)
	k := kernel(t, "add")
	s, err := device.WrapStream(foreign, nil, nil)
	require.NoError(t, err)
	closeLater(t, s)
	b := upload[int32](t, s, 1, 2)
	cfg := launch.Config{Grid: launch.D1(1), Block: launch.D1(2)}
	// The first launch may load the kernel, and that waits for the whole
	// context: before it is blocked, then.
	require.NoError(t, launch.Launch(s, cfg, k, b, int32(0), int64(2)))
	require.NoError(t, s.Synchronize(t.Context()))
	release := testdriver.Block(t, d, ctx, foreign)
	require.NoError(t, launch.Launch(s, cfg, k, b, int32(5), int64(2)))
	done, err := s.Done()
	require.NoError(t, err)
	require.False(t, done, "the kernel waits for the work of the stream's owner")
	release()
	require.Equal(t, []int32{6, 7}, download[int32](t, s, b))
}

// TestEveryScalar launches with every type, and reads the bytes that arrived.
func TestEveryScalar(t *testing.T) {
	type small int16
	k, s := kernel(t, "all"), newStream(t, 0)
	out := upload(t, s, make([]byte, 240)...)
	args := []any{
		out, true, int8(-3), small(-300), int32(-70000), int64(-1 << 40), uint8(200), uint16(60000), uint32(1 << 31), uint64(1 << 63),
		float32(1.5), 2.5, float16.Fromfloat32(0.5), minifloat.Float8E5M2(0x3c), complex64(complex(1, -2)), complex(3, -4),
	}
	require.NoError(t, launch.Launch(s, one, k, args...))
	b := download[byte](t, s, out)
	le := binary.LittleEndian
	at := func(i int) []byte { return b[16*i:] }
	require.Equal(t, byte(1), at(0)[0], "B237")
	require.Equal(t, int8(-3), int8(at(1)[0]))
	require.Equal(t, int16(-300), int16(le.Uint16(at(2))))
	require.Equal(t, int32(-70000), int32(le.Uint32(at(3))))
	require.Equal(t, int64(-1<<40), int64(le.Uint64(at(4))))
	require.Equal(t, byte(200), at(5)[0])
	require.Equal(t, uint16(60000), le.Uint16(at(6)))
	require.Equal(t, uint32(1<<31), le.Uint32(at(7)))
	require.Equal(t, uint64(1<<63), le.Uint64(at(8)))
	require.Equal(t, float32(1.5), math.Float32frombits(le.Uint32(at(9))))
	require.Equal(t, 2.5, math.Float64frombits(le.Uint64(at(10))))
	require.Equal(t, uint16(0x3800), le.Uint16(at(11)))
	require.Equal(t, byte(0x3c), at(12)[0])
	require.Equal(t, float32(-2), math.Float32frombits(le.Uint32(at(13)[4:])))
	require.Equal(t, -4.0, math.Float64frombits(le.Uint64(at(14)[8:])))

	// The other types of the same widths.
	args[4], args[5], args[8], args[9] = launch.Int32(-5), -6, launch.Uint32(7), uint(8)
	args[1], args[12], args[13] = false, launch.BFloat16(1), launch.Uint8(9)
	require.NoError(t, launch.Launch(s, one, k, args...))
	b = download[byte](t, s, out)
	require.Equal(t, byte(0), at(0)[0])
	require.Equal(t, int32(-5), int32(le.Uint32(at(3))))
	require.Equal(t, int64(-6), int64(le.Uint64(at(4))))
	require.Equal(t, uint32(7), le.Uint32(at(7)))
	require.Equal(t, uint16(0x3f80), le.Uint16(at(11)))
	require.Equal(t, byte(9), at(12)[0])
}

func TestArgumentsDoNotFit(t *testing.T) {
	k, s := kernel(t, "saxpy"), newStream(t, 0)
	y, x := upload[float32](t, s, 1), upload[float32](t, s, 1)
	for _, c := range []struct {
		name  string
		args  []any
		index int
		text  string
	}{
		{"too few", []any{y, x, float32(1)}, -1, "3 arguments, the kernel has 4 parameters"},
		{"too many", []any{y, x, float32(1), int32(1), int32(1)}, -1, "5 arguments"},
		{"B243 int for int32", []any{y, x, float32(1), 1}, 3, "int has 8 bytes, the parameter has 4: use launch.Int32"},
		{"B243 float64 for float", []any{y, x, 1.0, int32(1)}, 2, "float64 has 8 bytes, the parameter has 4: convert it to float32"},
		{"B247 int64 for int", []any{y, x, float32(1), int64(1 << 31)}, 3, "int64 has 8 bytes, the parameter has 4"},
		{"B247 narrowing", []any{y, x, float32(1), launch.Int32(int64(1) << 31)}, 3, "2147483648 does not fit an int32"},
		{"B247 narrowing below", []any{y, x, float32(1), launch.Int32(int64(math.MinInt32) - 1)}, 3, "-2147483649 does not fit an int32"},
		{"bool for int", []any{y, x, float32(1), true}, 3, "bool has 1 byte, the parameter has 4"},
		{"int32 for a pointer", []any{y, int32(0), float32(1), int32(1)}, 1, "int32 has 4 bytes, the parameter has 8"},
		{"nil", []any{nil, x, float32(1), int32(1)}, 0, "nil has no type"},
		{"nil buffer", []any{(*device.Buffer)(nil), x, float32(1), int32(1)}, 0, "a nil buffer"},
		{"nil view", []any{(*memview.StridedMemoryView)(nil), x, float32(1), int32(1)}, 0, "a nil view"},
		{"nil tensor map", []any{(*launch.TensorMap)(nil), x, float32(1), int32(1)}, 0, "a nil tensor map"},
		{"Go slice", []any{[]float32{1}, x, float32(1), int32(1)}, 0, "is a slice, which a kernel cannot have"},
		{"Go pointer", []any{new(float32), x, float32(1), int32(1)}, 0, "is a ptr, which a kernel cannot have"},
		{"string", []any{"y", x, float32(1), int32(1)}, 0, "is a string"},
		{"empty Number", []any{y, x, float32(1), launch.Number{}}, 3, "a launch.Number that no function"},
		{"buffer for a scalar", []any{y, x, y, int32(1)}, 2, "a buffer's address has 8 bytes, the parameter has 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := launch.Launch(s, one, k, c.args...)
			e := argError(t, err, c.index)
			require.Contains(t, err.Error(), c.text)
			require.Equal(t, "saxpy", e.Kernel)
			if c.index >= 0 {
				want, err := k.Params()
				require.NoError(t, err)
				require.Equal(t, want[c.index], e.Param)
			}
			_, err = launch.Prepare(k, c.args...)
			argError(t, err, c.index)
		})
	}
	require.Equal(t, []float32{1}, download[float32](t, s, y), "nothing was launched")
}

func TestNarrowing(t *testing.T) { // B247
	k, s := kernel(t, "all"), newStream(t, 0)
	out := upload(t, s, make([]byte, 240)...)
	base := []any{
		out, true, int8(0), int16(0), int32(0), int64(0), uint8(0), uint16(0), uint32(0), uint64(0),
		float32(0), 0.0, uint16(0), uint8(0), complex64(0), complex128(0),
	}
	for _, c := range []struct {
		index int
		x     launch.Number
		ok    bool
	}{
		{2, launch.Int8(127), true},
		{2, launch.Int8(-128), true},
		{2, launch.Int8(128), false},
		{2, launch.Int8(-129), false},
		{3, launch.Int16(-32768), true},
		{3, launch.Int16(32768), false},
		{4, launch.Int32(uint64(math.MaxInt32)), true},
		{4, launch.Int32(uint64(math.MaxUint64)), false},
		{5, launch.Int64(int64(math.MinInt64)), true},
		{5, launch.Int64(uint64(math.MaxInt64)), true},
		{5, launch.Int64(uint64(math.MaxInt64) + 1), false},
		{6, launch.Uint8(255), true},
		{6, launch.Uint8(256), false},
		{6, launch.Uint8(-1), false},
		{7, launch.Uint16(65535), true},
		{7, launch.Uint16(65536), false},
		{8, launch.Uint32(int64(math.MaxUint32)), true},
		{8, launch.Uint32(int64(math.MaxUint32) + 1), false},
		{9, launch.Uint64(uint64(math.MaxUint64)), true},
		{9, launch.Uint64(-1), false},
	} {
		args := append([]any(nil), base...)
		args[c.index] = c.x
		err := launch.Launch(s, one, k, args...)
		if c.ok {
			require.NoError(t, err)
		} else {
			argError(t, err, c.index)
		}
	}
}

func TestHalfFloats(t *testing.T) { // B245: round to nearest even, with NaN, infinity, denormals
	k, s := kernel(t, "all"), newStream(t, 0)
	out := upload(t, s, make([]byte, 240)...)
	send := func(x any) uint16 {
		require.NoError(t, launch.Launch(s, one, k, out, true, int8(0), int16(0), int32(0), int64(0), uint8(0), uint16(0), uint32(0), uint64(0),
			float32(0), 0.0, x, uint8(0), complex64(0), complex128(0)))
		return binary.LittleEndian.Uint16(download[byte](t, s, out)[176:])
	}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	require.Equal(t, uint16(0x3c00), send(launch.Float16(1)))
	require.Equal(t, uint16(0x6800), send(launch.Float16(2049)), "a tie goes to even")
	require.Equal(t, uint16(0x7c00), send(launch.Float16(inf)))
	require.Equal(t, uint16(0x7c00), send(launch.Float16(65520)), "rounds to infinity")
	require.Equal(t, uint16(0x0001), send(launch.Float16(6e-8)))
	require.Equal(t, uint16(0x8000), send(launch.Float16(float32(math.Copysign(0, -1)))))
	require.True(t, float16.Frombits(send(launch.Float16(nan))).IsNaN())
	require.Equal(t, uint16(0x3f80), send(launch.BFloat16(1)))
	require.Equal(t, uint16(0x7f80), send(launch.BFloat16(inf)))
	require.Equal(t, uint16(0x4380), send(launch.BFloat16(257)), "a tie goes to even")
	require.True(t, minifloat.BFloat16(send(launch.BFloat16(nan))).IsNaN())
	require.Equal(t, uint16(0x3f80), send(minifloat.ToBFloat16(1)))
}

func TestStructByValue(t *testing.T) { // B239
	type point struct {
		X   float32
		ID  int32
		W   float64
		Tag int8
		_   [7]byte
	}
	k, s := kernel(t, "take_point"), newStream(t, 0)
	out := upload(t, s, make([]float64, 4)...)
	require.NoError(t, launch.Launch(s, one, k, out, point{X: 1.5, ID: -2, W: 3.25, Tag: -4}))
	require.Equal(t, []float64{1.5, -2, 3.25, -4}, download[float64](t, s, out))

	for _, c := range []struct {
		name, text string
		x          any
	}{
		{"too small", "has 16 bytes, the parameter has 24", struct{ A, B int64 }{}},
		{"pointer inside", ".P is a ptr, which a kernel cannot have", struct {
			P    *int
			A, B int64
		}{}},
		{"slice inside an array", ".S is a slice", struct{ S [1][]int }{}},
		{"string inside", ".S is a string", struct {
			S string
			A int64
		}{}},
		{"complex at another offset than in C", ".C lies at byte 4, in C it is aligned to 8", struct {
			A float32
			C complex64
			B [3]float32
		}{}},
		{"wide complex", ".C lies at byte 8, in C it is aligned to 16", struct {
			A int64
			C complex128
		}{}},
		{"empty field", ".E has no bytes", struct {
			A [3]int64
			E struct{}
		}{}},
		{"empty struct", "has no bytes", struct{}{}},
		{"empty array", "no elements", struct {
			A [0]int32
			B [3]int64
		}{}},
		{"unpadded", "has 24 bytes, in C it would be padded to a multiple of 16", struct {
			C complex128
			A int64
		}{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := launch.Launch(s, one, k, out, c.x)
			argError(t, err, 1)
			require.ErrorContains(t, err, c.text)
		})
	}
}

func TestLargeParameters(t *testing.T) {
	k, s := kernel(t, "large"), newStream(t, 0)
	var words [500]int64
	words[0], words[499] = 40, 2
	out := upload[int64](t, s, 0)
	require.NoError(t, launch.Launch(s, one, k, out, words))
	require.Equal(t, []int64{42}, download[int64](t, s, out))
}

func TestSpan(t *testing.T) {
	s := newStream(t, 0)
	b, out := upload[float32](t, s, 1, 2, 3, 4, 5, 6), upload[float64](t, s, 0)
	v := floats(t, b, 2, 3).Transpose() // 1 4, 2 5, 3 6
	want := 0.0
	for _, x := range []float64{1, 4, 2, 5, 3, 6} {
		want = want*2 + x
	}
	wide, narrow := kernel(t, "sum_span"), kernel(t, "sum_span32")
	require.NoError(t, launch.Launch(s, one, wide, out, launch.MDSpan(v, 2)))
	require.Equal(t, []float64{want}, download[float64](t, s, out))
	require.NoError(t, launch.Launch(s, one, narrow, out, launch.MDSpan32(v, 2)))
	require.Equal(t, []float64{want}, download[float64](t, s, out))

	argError(t, launch.Launch(s, one, wide, out, launch.MDSpan(v, 1)), 1)
	argError(t, launch.Launch(s, one, wide, out, launch.MDSpan32(v, 2)), 1)
	row, err := v.Slice(memview.Pick(0))
	require.NoError(t, err)
	err = launch.Launch(s, one, wide, out, launch.MDSpan(row, 2))
	argError(t, err, 1)
	require.ErrorIs(t, err, dlpack.ErrLayout)
	huge, err := memview.FromDesc(&dlpack.Desc{
		Data: uintptr(b.Ptr()), Device: b.DLDevice(), DType: dlpack.Float32, Shape: []int64{1 << 31, 1}, Strides: []int64{0, 1}, Version: dlpack.ABIVersion,
	}, memview.Unowned())
	require.NoError(t, err)
	err = launch.Launch(s, one, narrow, out, launch.MDSpan32(huge, 2))
	argError(t, err, 1)
	require.ErrorIs(t, err, dlpack.ErrOverflow)
}

func TestEmptyArrays(t *testing.T) {
	k, s := kernel(t, "saxpy"), newStream(t, 0)
	none := upload[float32](t, s)
	t.Run("B241 an empty grid launches nothing", func(t *testing.T) {
		y := upload[float32](t, s, 1)
		for _, g := range []launch.Dim3{{}, launch.Cover(0, 256), launch.D2(5, 0), launch.D3(1, 0, 1), launch.D1(0)} {
			require.NoError(t, launch.Launch(s, launch.Config{Grid: g, Block: launch.D1(256)}, k, y, y, float32(1), int32(1)))
		}
		require.Equal(t, []float32{1}, download[float32](t, s, y))
	})
	t.Run("B044 null pointers of empty arrays are not asked about", func(t *testing.T) {
		v, err := memview.FromDesc(&dlpack.Desc{Device: dlpack.Device{Type: dlpack.DeviceCUDA}, DType: dlpack.Float32, Shape: []int64{0, 3}, Version: dlpack.ABIVersion}, memview.Unowned())
		require.NoError(t, err)
		require.NoError(t, launch.Launch(s, one, k, none, v, float32(1), int32(0)))
		p, err := launch.Prepare(k, v, none, float32(1), int32(0))
		require.NoError(t, err)
		require.NoError(t, p.Launch(s, one))
	})
	require.NoError(t, s.Synchronize(t.Context()))
	t.Run("a wrong argument is wrong with an empty grid too", func(t *testing.T) {
		argError(t, launch.Launch(s, launch.Config{}, k, none, none, 1.0, int32(0)), 2)
	})
}

func TestMemoryOutOfReach(t *testing.T) {
	k, s := kernel(t, "add"), newStream(t, 0)
	host, err := memview.FromSlice([]int32{1, 2})
	require.NoError(t, err)
	run := func(x any) error { return launch.Launch(s, one, k, x, int32(1), int64(1)) }
	t.Run("host view", func(t *testing.T) {
		err := run(host)
		argError(t, err, 0)
		require.ErrorIs(t, err, launch.ErrDevice)
		require.ErrorContains(t, err, "memory of the host")
		p, err := launch.Prepare(k, host, int32(1), int64(1))
		require.NoError(t, err)
		require.ErrorIs(t, p.Launch(s, one), launch.ErrDevice)
	})
	t.Run("another kind of device", func(t *testing.T) {
		v, err := memview.FromDesc(&dlpack.Desc{Data: 0x10000, Device: dlpack.Device{Type: dlpack.DeviceROCM}, DType: dlpack.Int32, Shape: []int64{1}, Version: dlpack.ABIVersion}, memview.Unowned())
		require.NoError(t, err)
		require.ErrorIs(t, run(v), launch.ErrDevice)
	})
	t.Run("closed buffer", func(t *testing.T) {
		b := upload[int32](t, s, 1)
		require.NoError(t, b.Close())
		err := run(b)
		argError(t, err, 0)
		require.ErrorIs(t, err, launch.ErrClosed)
	})
	t.Run("released view", func(t *testing.T) {
		b := upload[int32](t, s, 1)
		v, err := memview.FromDesc(&dlpack.Desc{Data: uintptr(b.Ptr()), Device: b.DLDevice(), DType: dlpack.Int32, Shape: []int64{1}, Version: dlpack.ABIVersion},
			memview.OnRelease(nil, func() error { return nil }))
		require.NoError(t, err)
		p, err := launch.Prepare(k, v, int32(1), int64(1))
		require.NoError(t, err)
		require.NoError(t, p.Launch(s, one))
		require.NoError(t, v.Release())
		require.ErrorIs(t, run(v), launch.ErrClosed)
		require.ErrorIs(t, p.Launch(s, one), launch.ErrClosed)
	})
	t.Run("B287 B289 B277 another device", func(t *testing.T) {
		s1 := newStream(t, 1)
		b := upload[int32](t, s1, 1)
		v, err := memview.FromDesc(&dlpack.Desc{Data: uintptr(b.Ptr()), Device: b.DLDevice(), DType: dlpack.Int32, Shape: []int64{1}, Version: dlpack.ABIVersion}, memview.Unowned())
		require.NoError(t, err)
		for _, x := range []any{b, v} {
			err := run(x)
			argError(t, err, 0)
			require.ErrorIs(t, err, launch.ErrDevice)
			require.ErrorContains(t, err, "device 1")
			require.ErrorContains(t, err, "device 0")
		}
		require.NoError(t, launch.Launch(s1, one, k, v, int32(1), int64(1)), "the stream's device counts, not the thread's")
		require.Equal(t, []int32{2}, download[int32](t, s1, b))
		can, err := s.Device().CanAccess(s1.Device())
		require.NoError(t, err)
		cfg := one
		cfg.AllowPeer = true
		if !can {
			require.ErrorIs(t, launch.Launch(s, cfg, k, b, int32(1), int64(1)), launch.ErrDevice)
			return
		}
		plain, err := device.Allocate(s1.Device().PlainMemory(), 4, s1)
		require.NoError(t, err)
		closeLater(t, plain)
		require.NoError(t, plain.Fill32(5, s1))
		require.NoError(t, s1.Synchronize(t.Context()))
		require.NoError(t, s.Device().EnableAccess(s1.Device()))
		defer func() { require.NoError(t, s.Device().DisableAccess(s1.Device())) }()
		require.NoError(t, launch.Launch(s, cfg, k, plain, int32(1), int64(1)))
		require.NoError(t, s.Synchronize(t.Context()))
		require.Equal(t, []int32{6}, download[int32](t, s1, plain))
	})
	require.NoError(t, s.Synchronize(t.Context()))
}

func TestClosedThings(t *testing.T) {
	s := newStream(t, 0)
	k, err := testCode(t).Kernel("nothing")
	require.NoError(t, err)
	p, err := launch.Prepare(k)
	require.NoError(t, err)
	for range 3 { // the later ones do without much
		require.NoError(t, p.Launch(s, one))
		require.NoError(t, launch.Launch(s, one, k))
	}
	require.NoError(t, k.Close())
	require.ErrorIs(t, launch.Launch(s, one, k), launch.ErrClosed)
	require.ErrorIs(t, p.Launch(s, one), launch.ErrClosed)
	_, err = launch.Prepare(k)
	require.ErrorIs(t, err, launch.ErrClosed)
	k = kernel(t, "nothing")
	p, err = launch.Prepare(k)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, p.Launch(s, one))
		require.NoError(t, launch.Launch(s, one, k))
	}
	require.NoError(t, s.Synchronize(t.Context()))
	require.NoError(t, s.Close())
	require.ErrorIs(t, launch.Launch(s, one, k), launch.ErrClosed)
	require.ErrorIs(t, p.Launch(s, one), launch.ErrClosed)
	require.ErrorIs(t, launch.Launch(nil, one, k), launch.ErrInvalidValue)
	require.ErrorIs(t, launch.Launch(s, one, nil), launch.ErrInvalidValue)
}

func TestBufferClosedAfterLaunch(t *testing.T) { // B159: freed after the work of the stream it was used on
	testdriver.HoldUp(t)
	k, s, other := kernel(t, "add"), newStream(t, 0), newStream(t, 0)
	b, err := s.Device().Allocate(4, s)
	require.NoError(t, err)
	keep := upload[int32](t, s, 0)
	require.NoError(t, launch.Launch(s, one, k, keep, int32(0), int64(1))) // loads the kernel
	require.NoError(t, s.Synchronize(t.Context()))
	require.NoError(t, other.Wait(s))
	release := testdriver.Block(t, s.Device().Driver(), other.Context().Handle(), other.Handle())
	require.NoError(t, b.Fill32(3, other))
	require.NoError(t, launch.Launch(other, one, k, b, int32(4), int64(1)))
	require.NoError(t, device.Copy(keep, b, other))
	require.NoError(t, b.Close())
	release()
	require.Equal(t, []int32{7}, download[int32](t, other, keep))
}

func TestPrepared(t *testing.T) {
	k, s := kernel(t, "saxpy"), newStream(t, 0)
	y, x := upload[float32](t, s, 1, 2), upload[float32](t, s, 10, 20)
	p, err := launch.Prepare(k, y, x, float32(1), int32(2))
	require.NoError(t, err)
	require.Same(t, k, p.Kernel())
	cfg := launch.Config{Grid: launch.D1(1), Block: launch.D1(2)}
	require.NoError(t, p.Launch(s, cfg))
	require.NoError(t, p.Launch(s, cfg))
	require.Equal(t, []float32{21, 42}, download[float32](t, s, y))
	require.NoError(t, launch.SetValue(p, 2, float32(-2)))
	require.NoError(t, p.Set(3, int32(1)))
	require.NoError(t, p.Launch(s, cfg))
	require.Equal(t, []float32{1, 42}, download[float32](t, s, y))
	other := upload[float32](t, s, 5)
	require.NoError(t, p.Set(0, floats(t, other, 1)))
	require.NoError(t, y.Close())
	require.NoError(t, p.Launch(s, cfg), "the closed buffer is no argument any more")
	require.Equal(t, []float32{-15}, download[float32](t, s, other))
	require.NoError(t, launch.SetValue(p, 0, other.Ptr()))
	require.NoError(t, x.Close())
	require.ErrorIs(t, p.Launch(s, cfg), launch.ErrClosed)

	argError(t, p.Set(4, int32(1)), 4)
	argError(t, p.Set(-1, int32(1)), -1)
	argError(t, launch.SetValue(p, 2, 1.0), 2)
	argError(t, launch.SetValue(p, 9, 1.0), 9)
}

func TestConfig(t *testing.T) {
	k, s := kernel(t, "nothing"), newStream(t, 0)
	for _, c := range []struct {
		name, field, text string
		cfg               launch.Config
	}{
		{"no threads", "Block", "at least one thread", launch.Config{Grid: launch.D1(1)}},
		{"negative grid", "Grid", "negative", launch.Config{Grid: launch.D1(-1), Block: launch.D1(1)}},
		{"too many threads", "Block", "the device can have", launch.Config{Grid: launch.D1(1), Block: launch.D1(2048)}},
		{"too many threads together", "Block", "2048 threads, the device can have 1024", launch.Config{Grid: launch.D1(1), Block: launch.D2(1024, 2)}},
		{"too many blocks", "Grid", "the device can have", launch.Config{Grid: launch.D2(1, 1<<16), Block: launch.D1(1)}},
		{"shared memory", "SharedMem", "the device can have", launch.Config{Grid: launch.D1(1), Block: launch.D1(1), SharedMem: 1 << 20, OptInShared: true}},
		{"negative shared memory", "SharedMem", "negative", launch.Config{Grid: launch.D1(1), Block: launch.D1(1), SharedMem: -1}},
		{"cluster", "Cluster", "does not divide the grid", launch.Config{Grid: launch.D1(3), Block: launch.D1(1), Cluster: launch.D1(2)}},
		{"negative cluster", "Cluster", "at least one block", launch.Config{Grid: launch.D1(3), Block: launch.D1(1), Cluster: launch.D1(-1)}},
		{"preferred cluster", "PreferredCluster", "no multiple of Cluster", launch.Config{Grid: launch.D1(2), Block: launch.D1(1), PreferredCluster: launch.D1(2)}},
		{"domain", "MemSyncDomain", "is not 0 or 1", launch.Config{Grid: launch.D1(2), Block: launch.D1(1), MemSyncDomain: 2}},
		{"priority", "Priority", "out of range", launch.Config{Grid: launch.D1(2), Block: launch.D1(1), Priority: 1 << 40}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := launch.Launch(s, c.cfg, k)
			require.ErrorIs(t, err, launch.ErrConfig)
			e := as[*launch.ConfigError](t, err)
			if c.field == "Cluster" && errors.Is(err, launch.ErrNotSupported) {
				return // a device without clusters says so first
			}
			require.Equal(t, c.field, e.Field)
			require.ErrorContains(t, err, c.text)
			require.Zero(t, e.Device)
		})
	}
	cfg := launch.Config{Grid: launch.Dim3{X: 4, Y: 2}, Block: launch.Dim3{X: 32}, SharedMem: 1024, Cooperative: true, Priority: -1}
	require.NoError(t, launch.Launch(s, cfg, k))
	major, _, err := s.Device().ComputeCapability()
	require.NoError(t, err)
	cfg = launch.Config{Grid: launch.D1(4), Block: launch.D1(32), Cluster: launch.D1(2)}
	pdl := launch.Config{Grid: launch.D1(4), Block: launch.D1(32), ProgrammaticStreamSerialization: true, MemSyncDomain: 1}
	if major >= 9 {
		require.NoError(t, launch.Launch(s, cfg, k))
		require.NoError(t, launch.Launch(s, pdl, k))
	} else {
		require.ErrorIs(t, launch.Launch(s, cfg, k), launch.ErrNotSupported)
		require.ErrorIs(t, launch.Launch(s, pdl, k), launch.ErrNotSupported)
	}
	require.NoError(t, s.Synchronize(t.Context()))
	require.Equal(t, "(4, 2, 1)", launch.Dim3{X: 4, Y: 2}.String())
	require.Equal(t, launch.D1(4), launch.Cover(1000, 256))
	require.Equal(t, launch.D1(1<<40), launch.Cover(1<<40, 1))
}

func TestSharedMemoryOptIn(t *testing.T) {
	k, s := kernel(t, "shared"), newStream(t, 0)
	out := upload[int32](t, s, 0)
	const bytes = 60 << 10
	cfg := launch.Config{Grid: launch.D1(1), Block: launch.D1(1), SharedMem: bytes}
	err := launch.Launch(s, cfg, k, out, int32(bytes/4-1))
	require.ErrorIs(t, err, launch.ErrConfig)
	require.ErrorContains(t, err, "OptInShared")
	cfg.OptInShared = true
	require.NoError(t, launch.Launch(s, cfg, k, out, int32(bytes/4-1)))
	require.Equal(t, []int32{7}, download[int32](t, s, out))
	n, err := k.Attribute(s.Device(), driver.FuncAttributeMaxDynamicSharedSizeBytes)
	require.NoError(t, err)
	require.GreaterOrEqual(t, n, bytes)
	cfg.OptInShared = false
	require.NoError(t, launch.Launch(s, cfg, k, out, int32(0)), "the limit is raised for everyone")
	require.NoError(t, s.Synchronize(t.Context()))

	k = kernel(t, "shared")
	p, err := launch.Prepare(k, out.Ptr(), int32(bytes/4-1))
	require.NoError(t, err)
	launches := func() {
		for range 3 { // the later ones start a function of the context
			require.NoError(t, p.Launch(s, cfg))
			require.NoError(t, launch.Launch(s, cfg, k, out.Ptr(), int32(bytes/4-1)))
		}
		require.NoError(t, s.Synchronize(t.Context()))
	}
	require.NoError(t, launch.SetValue(p, 1, int32(0)))
	for range 3 {
		require.NoError(t, p.Launch(s, launch.Config{Grid: launch.D1(1), Block: launch.D1(1), SharedMem: 16}))
	}
	require.NoError(t, k.SetMaxDynamicSharedSize(s.Device(), bytes))
	require.NoError(t, launch.SetValue(p, 1, int32(bytes/4-1)))
	launches()
}

func TestLaunchBounds(t *testing.T) {
	if !testdriver.Real() {
		t.Skip("needs a GPU: functions of the software device have no registers")
	}
	k, s := kernel(t, "narrow"), newStream(t, 0)
	out := upload[int32](t, s, 0)
	err := launch.Launch(s, launch.Config{Grid: launch.D1(1), Block: launch.D1(256)}, k, out)
	require.ErrorIs(t, err, launch.ErrConfig)
	require.ErrorContains(t, err, "the kernel can have 128")
}

func TestContextIsRestored(t *testing.T) { // B281
	k, s := kernel(t, "nothing"), newStream(t, 1)
	restore, err := openDevice(t).SetCurrent()
	require.NoError(t, err)
	before, err := device.CurrentContext()
	require.NoError(t, err)
	require.NoError(t, launch.Launch(s, one, k))
	after, err := device.CurrentContext()
	require.NoError(t, err)
	require.Equal(t, before.Handle(), after.Handle())
	require.NoError(t, restore())
	require.NoError(t, s.Synchronize(t.Context()))
}

// TestLaunchUnderOtherContexts launches one kernel in two contexts, whatever is
// current on the thread, also when the driver does not want a function there.
func TestLaunchUnderOtherContexts(t *testing.T) { // B281, B323
	k, d := kernel(t, "add"), openDevice(t)
	other, err := d.NewContext(0)
	require.NoError(t, err)
	closeLater(t, other)
	foreign, err := other.NewStream(nil)
	require.NoError(t, err)
	closeLater(t, foreign)
	streams := []*device.Stream{newStream(t, 0), foreign}
	buffers := make([]*device.Buffer, 2)
	prepared := make([]*launch.Prepared, 2)
	n := int32(0)
	for i, s := range streams {
		buffers[i] = upload[int32](t, s, 0)
		prepared[i], err = launch.Prepare(k, buffers[i].Ptr(), int32(1), int64(1))
		require.NoError(t, err)
	}
	launches := func(t *testing.T) {
		for range 3 {
			for i, s := range streams {
				for range 2 {
					require.NoError(t, launch.Launch(s, one, k, buffers[i].Ptr(), int32(1), int64(1)))
					require.NoError(t, prepared[i].Launch(s, one))
				}
			}
			n += 4
		}
		for i, s := range streams {
			require.Equal(t, []int32{n}, download[int32](t, s, buffers[i]))
		}
	}
	t.Run("none", launches)
	for name, c := range map[string]*device.Context{"primary": streams[0].Context(), "other": other} {
		t.Run(name, func(t *testing.T) {
			restore, err := c.SetCurrent()
			require.NoError(t, err)
			launches(t)
			require.NoError(t, restore())
		})
	}
	if testdriver.Real() {
		return
	}
	for name, p := range map[string]func() error{
		"launch":   func() error { return launch.Launch(streams[0], one, k, buffers[0].Ptr(), int32(1), int64(1)) },
		"prepared": func() error { return prepared[0].Launch(streams[0], one) },
	} {
		t.Run("refused, "+name, func(t *testing.T) {
			require.NoError(t, p()) // on a stream that is known again
			f := soft.InjectFault(t, soft.Fault{API: "cuLaunchKernelEx", Code: driver.ErrorInvalidHandle})
			require.NoError(t, p(), "the kernel is good anywhere")
			require.Equal(t, 1, f.Hits())
			f = soft.InjectFault(t, soft.Fault{API: "cuLaunchKernelEx", Code: driver.ErrorInvalidHandle, Count: -1})
			err := p()
			require.ErrorIs(t, err, driver.ErrorInvalidHandle)
			require.ErrorContains(t, err, "another context")
			f.Remove()
		})
	}
	require.NoError(t, streams[0].Synchronize(t.Context()))
}

// packing is a launch of 16 arguments that ends before the driver call.
func packing(t testing.TB) func() error {
	k, s := kernel(t, "sixteen"), newStream(t, 0)
	b := upload(t, s, make([]float32, 4)...)
	v, ptr := floats(t, b, 4), b.Ptr()
	i, f, w, d := int32(3), float32(4), int64(5), 6.0
	cfg := launch.Config{Block: launch.D1(1)} // nothing to launch
	return func() error {
		return launch.Launch(s, cfg, k, &v, b, ptr, ptr, i, i, i, i, f, f, f, f, w, w, d, d)
	}
}

func TestLaunchAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	leak.Pause(t)
	pack := packing(t)
	require.NoError(t, pack())
	require.Zero(t, testing.AllocsPerRun(200, func() {
		if err := pack(); err != nil {
			t.Error(err)
		}
	}))
	k, s := kernel(t, "sixteen"), newStream(t, 0)
	p, err := launch.Prepare(k, driver.DevicePtr(0), driver.DevicePtr(0), driver.DevicePtr(0), driver.DevicePtr(0), int32(1), int32(1), int32(1), int32(1),
		float32(1), float32(1), float32(1), float32(1), 1, 1, 1.0, 1.0)
	require.NoError(t, err)
	n := int32(1000)
	require.Zero(t, testing.AllocsPerRun(200, func() {
		if err := launch.SetValue(p, 4, n); err != nil {
			t.Error(err)
		}
		n++
	}))
	if testdriver.Real() { // the software device allocates for the work it does
		x := driver.DevicePtr(0)
		require.Zero(t, testdriver.AllocsPerRun(s.Device().Driver(), 200, func() {
			if err := p.Launch(s, one); err != nil {
				t.Error(err)
			}
			if err := launch.Launch(s, one, k, x, x, x, x, n, n, n, n, float32(n), float32(n), float32(n), float32(n), int(n), int(n), 1.0, 1.0); err != nil {
				t.Error(err)
			}
		}))
		require.NoError(t, s.Synchronize(t.Context()))
	}
}

func BenchmarkPack16(b *testing.B) {
	pack := packing(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := pack(); err != nil {
			b.Fatal(err)
		}
	}
}
