package launch_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/launch"
	"github.com/go-handoff/handoff/memview"
)

func tensorView(t testing.TB, addr uintptr, dt dlpack.DataType, dev dlpack.Device, shape, strides []int64) memview.StridedMemoryView {
	t.Helper()
	v, err := memview.FromDesc(&dlpack.Desc{Data: addr, Device: dev, DType: dt, Shape: shape, Strides: strides, Version: dlpack.ABIVersion}, memview.Unowned())
	require.NoError(t, err)
	return v
}

func TestTensorMapRules(t *testing.T) {
	dev := openDevice(t)
	gpu := dlpack.Device{Type: dlpack.DeviceCUDA}
	f32 := dlpack.Float32
	const at = 0x10000
	type o = launch.TensorMapOptions
	for _, c := range []struct {
		name string
		v    memview.StridedMemoryView
		box  []int
		opts o
		want error
		text string
	}{
		{"no axes", tensorView(t, at, f32, gpu, nil, nil), nil, o{}, dlpack.ErrLayout, "1 to 5"},
		{"six axes", tensorView(t, at, f32, gpu, []int64{1, 1, 1, 1, 1, 4}, nil), []int{1, 1, 1, 1, 1, 4}, o{}, dlpack.ErrLayout, "1 to 5"},
		{"interleaved in two axes", tensorView(t, at, f32, gpu, []int64{4, 4}, nil), []int{4, 4}, o{Interleave: launch.Interleave16}, dlpack.ErrLayout, "3 to 5"},
		{"box of another rank", tensorView(t, at, f32, gpu, []int64{4, 4}, nil), []int{4}, o{}, launch.ErrInvalidValue, "a box of 1"},
		{"misaligned address", tensorView(t, at+4, f32, gpu, []int64{4, 4}, nil), []int{4, 4}, o{}, dlpack.ErrAlign, "no multiple of 16"},
		{"address for 32 bytes", tensorView(t, at+16, f32, gpu, []int64{2, 2, 8}, nil), []int{1, 1, 8}, o{Interleave: launch.Interleave32}, dlpack.ErrAlign, "no multiple of 32"},
		{"box of 0", tensorView(t, at, f32, gpu, []int64{4, 4}, nil), []int{0, 4}, o{}, launch.ErrInvalidValue, "box extent 0 of axis 0"},
		{"box of 257", tensorView(t, at, f32, gpu, []int64{4, 4}, nil), []int{257, 4}, o{}, launch.ErrInvalidValue, "box extent 257"},
		{"narrow box", tensorView(t, at, f32, gpu, []int64{4, 4}, nil), []int{4, 3}, o{}, launch.ErrInvalidValue, "a multiple of 16 bytes"},
		{"box wider than its swizzle", tensorView(t, at, f32, gpu, []int64{4, 16}, nil), []int{4, 16}, o{Swizzle: launch.Swizzle32}, launch.ErrInvalidValue, "spans 32 bytes"},
		{"column order", tensorView(t, at, f32, gpu, []int64{4, 4}, []int64{1, 4}), []int{4, 4}, o{}, dlpack.ErrLayout, "the last axis must be dense"},
		{"odd stride", tensorView(t, at, f32, gpu, []int64{4, 3}, nil), []int{4, 4}, o{}, dlpack.ErrLayout, "a stride of 12 bytes"},
		{"negative stride", tensorView(t, at+64, f32, gpu, []int64{4, 4}, []int64{-4, 1}), []int{4, 4}, o{}, dlpack.ErrLayout, "-16 bytes"},
		{"broadcast", tensorView(t, at, f32, gpu, []int64{4, 4}, []int64{0, 1}), []int{4, 4}, o{}, dlpack.ErrLayout, "0 bytes"},
		{"element stride", tensorView(t, at, f32, gpu, []int64{4, 4}, nil), []int{4, 4}, o{ElementStrides: []int{9, 1}}, launch.ErrInvalidValue, "element stride 9"},
		{"element strides of another rank", tensorView(t, at, f32, gpu, []int64{4, 4}, nil), []int{4, 4}, o{ElementStrides: []int{1}}, launch.ErrInvalidValue, "1 element strides"},
		{"complex", tensorView(t, at, dlpack.Complex64, gpu, []int64{4, 4}, nil), []int{4, 4}, o{}, dlpack.ErrDType, "set DType"},
		{"wrong width", tensorView(t, at, f32, gpu, []int64{4, 4}, nil), []int{4, 4}, o{DType: launch.TensorMapFloat16}, dlpack.ErrDType, "32 bits as elements of 16"},
		{"NaN for integers", tensorView(t, at, dlpack.Int32, gpu, []int64{4, 4}, nil), []int{4, 4}, o{OOBFill: launch.OOBFillNaN}, launch.ErrInvalidValue, "NaN for integers"},
		{"unknown swizzle", tensorView(t, at, f32, gpu, []int64{4, 4}, nil), []int{4, 4}, o{Swizzle: 7}, launch.ErrInvalidValue, "Swizzle is 7"},
		{"unknown promotion", tensorView(t, at, f32, gpu, []int64{4, 4}, nil), []int{4, 4}, o{L2Promotion: -1}, launch.ErrInvalidValue, "L2Promotion is -1"},
		{"unknown dtype", tensorView(t, at, f32, gpu, []int64{4, 4}, nil), []int{4, 4}, o{DType: 17}, launch.ErrInvalidValue, "DType is 17"},
		{"empty", tensorView(t, at, f32, gpu, []int64{0, 4}, nil), []int{4, 4}, o{}, dlpack.ErrLayout, "an empty view"},
		{"host memory", tensorView(t, at, f32, dlpack.Device{Type: dlpack.DeviceCPU}, []int64{4, 4}, nil), []int{4, 4}, o{}, launch.ErrDevice, "no device reaches"},
		{"no such device", tensorView(t, at, f32, dlpack.Device{Type: dlpack.DeviceCUDA, ID: 99}, []int64{4, 4}, nil), []int{4, 4}, o{}, launch.ErrDevice, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := launch.NewTensorMap(c.v, c.box, &c.opts)
			require.Nil(t, m)
			if has, e := dev.Attribute(driver.AttrTensorMapAccessSupported); e != nil || has == 0 {
				if err != nil && !isOf(err, c.want) {
					require.ErrorIs(t, err, launch.ErrNotSupported)
					return // the device has no engine, which is said before what follows
				}
			}
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.text)
		})
	}
}

// tileSource copies the tile at (1, 1) of a tensor to shared memory, and out.
const tileSource = `
struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };
extern "C" __global__ void tile(const __grid_constant__ CUtensorMap map, float *out, int x, int y)
{
	__shared__ alignas(128) float box[4 * 8];
	__shared__ unsigned long long done;
	unsigned bar = __cvta_generic_to_shared(&done), dst = __cvta_generic_to_shared(box);
	if (threadIdx.x == 0) {
		asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(bar));
		asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
		asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(bar), "r"(128) : "memory");
		asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
			:: "r"(dst), "l"(&map), "r"(x), "r"(y), "r"(bar) : "memory");
	}
	__syncthreads();
	unsigned ok = 0;
	while (!ok)
		asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(ok) : "r"(bar) : "memory");
	out[threadIdx.x] = box[threadIdx.x];
}
`

func TestTensorMapParameter(t *testing.T) {
	params, err := compile(t, tileSource, launch.FormatCubin, launch.ProgramOptions{Arch: "sm_90"}).ParamInfo("tile")
	require.NoError(t, err)
	require.Len(t, params, 4)
	require.Equal(t, uintptr(128), params[0].Size)
}

func TestTensorMap(t *testing.T) {
	s := newStream(t, 0)
	x := make([]float32, 16*16)
	for i := range x {
		x[i] = float32(i)
	}
	a, out := upload(t, s, x...), upload(t, s, make([]float32, 32)...)
	m, err := launch.NewTensorMap(floats(t, a, 16, 16), []int{4, 8}, nil)
	if err != nil {
		require.ErrorIs(t, err, launch.ErrNotSupported)
		t.Skip("needs a device with compute capability 9.0")
	}
	arch, err := s.Device().Arch()
	require.NoError(t, err)
	k, err := compile(t, tileSource, launch.FormatCubin, launch.ProgramOptions{Arch: "sm_" + arch}).Kernel("tile")
	require.NoError(t, err)
	closeLater(t, k)
	tile := func() []float32 {
		require.NoError(t, launch.Launch(s, launch.Config{Grid: launch.D1(1), Block: launch.D1(32)}, k, m, out, int32(8), int32(4)))
		return download[float32](t, s, out)
	}
	have := tile()
	for i, v := range have {
		require.Equal(t, x[(4+i/8)*16+8+i%8], v)
	}
	b := upload(t, s, make([]float32, 16*16)...)
	require.NoError(t, m.Replace(floats(t, b, 16, 16)))
	require.Equal(t, make([]float32, 32), tile())
	require.ErrorIs(t, m.Replace(floats(t, b, 8, 32)), dlpack.ErrLayout)
	argError(t, launch.Launch(s, one, k, a, out, int32(0), int32(0)), 0)

	for name, opts := range map[string]launch.TensorMapOptions{
		"swizzle 32": {Swizzle: launch.Swizzle32}, "swizzle 64": {Swizzle: launch.Swizzle64}, "swizzle 128": {Swizzle: launch.Swizzle128},
		"promotion": {L2Promotion: launch.L2Promotion256}, "NaN": {OOBFill: launch.OOBFillNaN}, "tf32": {DType: launch.TensorMapTFloat32},
		"flush": {DType: launch.TensorMapFloat32FTZ}, "element strides": {ElementStrides: []int{2, 1}},
	} {
		_, err := launch.NewTensorMap(floats(t, a, 16, 16), []int{4, 8}, &opts)
		require.NoError(t, err, name)
	}
}

// TestTensorMapEveryEnum encodes with each value of each option that the device
// knows, and with each dtype.
func TestTensorMapEveryEnum(t *testing.T) {
	s := newStream(t, 0)
	b := upload(t, s, make([]float64, 4*4*16)...)
	view := func(dt dlpack.DataType, shape ...int64) memview.StridedMemoryView {
		return tensorView(t, uintptr(b.Ptr()), dt, b.DLDevice(), shape, nil)
	}
	if _, err := launch.NewTensorMap(view(dlpack.Float32, 4, 16), []int{2, 8}, nil); err != nil {
		require.ErrorIs(t, err, launch.ErrNotSupported)
		t.Skip("needs a device with compute capability 9.0")
	}
	try := func(name string, v memview.StridedMemoryView, box []int, o launch.TensorMapOptions) {
		t.Run(name, func(t *testing.T) {
			_, err := launch.NewTensorMap(v, box, &o)
			require.NoError(t, err)
		})
	}
	for _, dt := range []dlpack.DataType{
		dlpack.Bool, dlpack.Int8, dlpack.UInt8, dlpack.Int16, dlpack.UInt16, dlpack.Int32, dlpack.UInt32, dlpack.Int64, dlpack.UInt64,
		dlpack.Float16, dlpack.BFloat16, dlpack.Float32, dlpack.Float64,
	} {
		try(dt.String(), view(dt, 4, 16), []int{2, 16}, launch.TensorMapOptions{})
	}
	for _, c := range []struct {
		name string
		as   launch.TensorMapDType
		dt   dlpack.DataType
	}{
		{"uint8", launch.TensorMapUint8, dlpack.Int8},
		{"uint16", launch.TensorMapUint16, dlpack.Float16},
		{"uint32", launch.TensorMapUint32, dlpack.Float32},
		{"int32", launch.TensorMapInt32, dlpack.Float32},
		{"uint64", launch.TensorMapUint64, dlpack.Float64},
		{"int64", launch.TensorMapInt64, dlpack.Complex64},
		{"float16", launch.TensorMapFloat16, dlpack.UInt16},
		{"float32", launch.TensorMapFloat32, dlpack.Int32},
		{"float64", launch.TensorMapFloat64, dlpack.Int64},
		{"bfloat16", launch.TensorMapBFloat16, dlpack.UInt16},
		{"float32 flushed", launch.TensorMapFloat32FTZ, dlpack.Float32},
		{"tfloat32", launch.TensorMapTFloat32, dlpack.Float32},
		{"tfloat32 flushed", launch.TensorMapTFloat32FTZ, dlpack.Float32},
	} {
		try("as "+c.name, view(c.dt, 4, 16), []int{2, 16}, launch.TensorMapOptions{DType: c.as})
	}
	f32 := view(dlpack.Float32, 4, 4, 16)
	for p := launch.L2PromotionNone; p <= launch.L2Promotion256; p++ {
		try(fmt.Sprintf("promotion %d", p), f32, []int{1, 2, 8}, launch.TensorMapOptions{L2Promotion: p})
	}
	for w := launch.SwizzleNone; w <= launch.Swizzle128; w++ {
		try(fmt.Sprintf("swizzle %d", w), f32, []int{1, 2, 8}, launch.TensorMapOptions{Swizzle: w})
	}
	try("interleave 16", f32, []int{1, 2, 4}, launch.TensorMapOptions{Interleave: launch.Interleave16})
	try("interleave 32", f32, []int{1, 2, 8}, launch.TensorMapOptions{Interleave: launch.Interleave32, Swizzle: launch.Swizzle32})
	for f := launch.OOBFillZero; f <= launch.OOBFillNaN; f++ {
		try(fmt.Sprintf("fill %d", f), f32, []int{1, 2, 8}, launch.TensorMapOptions{OOBFill: f})
	}
	// Those of newer devices are refused by the driver, not here, or known.
	for w := launch.Swizzle128Atom32; w <= launch.Swizzle128Atom64; w++ {
		if _, err := launch.NewTensorMap(f32, []int{1, 2, 8}, &launch.TensorMapOptions{Swizzle: w}); err != nil {
			as[*launch.Error](t, err)
		}
	}
}

func isOf(err, want error) bool { return device.ErrNotSupported != want && errors.Is(err, want) }
