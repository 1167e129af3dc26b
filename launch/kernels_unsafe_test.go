package launch_test

import (
	"encoding/binary"
	"math"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/launch"
)

// kernelSource is what a GPU runs; softKernels are the same for the software
// device. A test compares their parameters.
const kernelSource = `
struct point { float x; int id; double w; char tag; };
template <typename T, typename I, int rank> struct span { T *data; I extent[rank], stride[rank]; };

extern "C" {

__global__ void saxpy(float *y, const float *x, float a, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		y[i] += a * x[i];
}

__global__ void add(int *p, int v, long long n)
{
	long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
	if (i < n)
		p[i] += v;
}

__global__ void nothing(void) {}

__global__ void two(float *p, int n)
{
	if (n < 0)
		*p = 0;
}

__global__ void all(unsigned char *out, bool b, signed char i8, short i16, int i32, long long i64,
	unsigned char u8, unsigned short u16, unsigned u32, unsigned long long u64, float f32, double f64,
	unsigned short f16, unsigned char f8, float2 c64, double2 c128)
{
	out[0] = b;
	out[16] = i8;
	*(short *)(out + 32) = i16;
	*(int *)(out + 48) = i32;
	*(long long *)(out + 64) = i64;
	out[80] = u8;
	*(unsigned short *)(out + 96) = u16;
	*(unsigned *)(out + 112) = u32;
	*(unsigned long long *)(out + 128) = u64;
	*(float *)(out + 144) = f32;
	*(double *)(out + 160) = f64;
	*(unsigned short *)(out + 176) = f16;
	out[192] = f8;
	*(float2 *)(out + 208) = c64;
	*(double2 *)(out + 224) = c128;
}

__global__ void take_point(double *out, point p)
{
	out[0] = p.x; out[1] = p.id; out[2] = p.w; out[3] = p.tag;
}

__global__ void sum_span(double *out, span<float, long long, 2> s)
{
	double t = 0;
	for (long long i = 0; i < s.extent[0]; i++)
		for (long long j = 0; j < s.extent[1]; j++)
			t = t * 2 + s.data[i * s.stride[0] + j * s.stride[1]];
	*out = t;
}

__global__ void sum_span32(double *out, span<float, int, 2> s)
{
	double t = 0;
	for (int i = 0; i < s.extent[0]; i++)
		for (int j = 0; j < s.extent[1]; j++)
			t = t * 2 + s.data[i * s.stride[0] + j * s.stride[1]];
	*out = t;
}

__global__ void sixteen(float *a, float *b, float *c, float *d, int e, int f, int g, int h,
	float i, float j, float k, float l, long long m, long long n, double o, double p)
{
	if (a)
		*a = e + f + g + h + i + j + k + l + m + n + o + p;
}

struct big { long long words[500]; };
__global__ void large(long long *out, big b) { *out = b.words[0] + b.words[499]; }

extern __shared__ int room[];
__global__ void shared(int *out, int last) { room[last] = 7; *out = room[last]; }

__global__ void __launch_bounds__(128) narrow(int *out) { *out = blockDim.x; }
}
`

// kernelNames are the kernels of the source.
var kernelNames = []string{
	"saxpy", "add", "nothing", "two", "all", "take_point", "sum_span", "sum_span32", "sixteen", "large", "shared", "narrow",
}

func softFloats(l *soft.Launch, i, n int) []float32 { return soft.Slice[float32](l, l.Ptr(i), n) }

func softSpan(l *soft.Launch, word int) {
	b := l.Arg(1)
	at := func(i int) int64 {
		if word == 8 {
			return int64(binary.NativeEndian.Uint64(b[8+8*i:]))
		}
		return int64(int32(binary.NativeEndian.Uint32(b[8+4*i:])))
	}
	base := binary.NativeEndian.Uint64(b)
	t := 0.0
	for i := range at(0) {
		for j := range at(1) {
			p := l.Read(base+uint64(4*(i*at(2)+j*at(3))), 4)
			t = t*2 + float64(math.Float32frombits(binary.NativeEndian.Uint32(p)))
		}
	}
	soft.Slice[float64](l, l.Ptr(0), 1)[0] = t
}

// softKernels registers the kernels with the software device.
var softKernels = sync.OnceValue(func() error {
	one, two := soft.ParamInfo{Size: 1}, soft.ParamInfo{Size: 2}
	f, d, i, w, p := soft.Float32, soft.Float64, soft.Int32, soft.Int64, soft.Ptr
	for _, k := range []struct {
		name   string
		params []soft.ParamInfo
		fn     func(*soft.Launch)
	}{
		{"saxpy", []soft.ParamInfo{p, p, f, i}, func(l *soft.Launch) {
			n := int(min(l.Int64(3), int64(l.Threads())))
			y, a := softFloats(l, 0, n), float32(l.Float64(2))
			for j, b := 0, l.Read(l.Ptr(1), uint64(4*n)); j < n; j++ {
				y[j] += a * math.Float32frombits(binary.NativeEndian.Uint32(b[4*j:]))
			}
		}},
		{"add", []soft.ParamInfo{p, i, w}, func(l *soft.Launch) {
			for j, s := 0, soft.Slice[int32](l, l.Ptr(0), int(min(l.Int64(2), int64(l.Threads())))); j < len(s); j++ {
				s[j] += int32(l.Int64(1))
			}
		}},
		{"nothing", nil, func(*soft.Launch) {}},
		{"two", []soft.ParamInfo{p, i}, func(*soft.Launch) {}},
		{"all", []soft.ParamInfo{p, one, one, two, i, w, one, two, i, w, f, d, two, one, {Size: 8}, {Size: 16}}, func(l *soft.Launch) {
			out := l.Write(l.Ptr(0), 240)
			for j := 1; j < l.Args(); j++ {
				copy(out[16*(j-1):], l.Arg(j))
			}
		}},
		{"take_point", []soft.ParamInfo{p, {Size: 24, Align: 8}}, func(l *soft.Launch) {
			out, b := soft.Slice[float64](l, l.Ptr(0), 4), l.Arg(1)
			out[0] = float64(math.Float32frombits(binary.NativeEndian.Uint32(b)))
			out[1] = float64(int32(binary.NativeEndian.Uint32(b[4:])))
			out[2] = math.Float64frombits(binary.NativeEndian.Uint64(b[8:]))
			out[3] = float64(int8(b[16]))
		}},
		{"sum_span", []soft.ParamInfo{p, {Size: 40, Align: 8}}, func(l *soft.Launch) { softSpan(l, 8) }},
		{"sum_span32", []soft.ParamInfo{p, {Size: 24, Align: 8}}, func(l *soft.Launch) { softSpan(l, 4) }},
		{"sixteen", []soft.ParamInfo{p, p, p, p, i, i, i, i, f, f, f, f, w, w, d, d}, func(l *soft.Launch) {
			if l.Ptr(0) == 0 {
				return
			}
			t := 0.0
			for j := 4; j < 16; j++ {
				if j < 8 || j == 12 || j == 13 {
					t += float64(l.Int64(j))
				} else {
					t += l.Float64(j)
				}
			}
			softFloats(l, 0, 1)[0] = float32(t)
		}},
		{"large", []soft.ParamInfo{p, {Size: 4000, Align: 8}}, func(l *soft.Launch) {
			b := l.Arg(1)
			soft.Slice[int64](l, l.Ptr(0), 1)[0] = int64(binary.NativeEndian.Uint64(b)) + int64(binary.NativeEndian.Uint64(b[3992:]))
		}},
		{"shared", []soft.ParamInfo{p, i}, func(l *soft.Launch) { soft.Slice[int32](l, l.Ptr(0), 1)[0] = 7 }},
		{"narrow", []soft.ParamInfo{p}, func(l *soft.Launch) { soft.Slice[int32](l, l.Ptr(0), 1)[0] = int32(l.Block[0]) }},
	} {
		if err := soft.RegisterKernel(k.name, k.params, k.fn); err != nil {
			return err
		}
	}
	return nil
})

// testCode returns the kernels, for the driver in use, until the test ends.
func testCode(t testing.TB) *launch.ObjectCode {
	t.Helper()
	dev := openDevice(t)
	if testdriver.Real() {
		arch, err := dev.Arch()
		require.NoError(t, err)
		return compile(t, kernelSource, launch.FormatCubin, launch.ProgramOptions{Arch: "sm_" + arch, Name: "kernels.cu"})
	}
	require.NoError(t, softKernels())
	c, err := launch.NewObjectCode(soft.Image(kernelNames...), nil)
	require.NoError(t, err)
	closeLater(t, c)
	return c
}

// kernel returns one of the kernels until the test ends.
func kernel(t testing.TB, name string) *launch.Kernel {
	t.Helper()
	k, err := testCode(t).Kernel(name)
	require.NoError(t, err)
	closeLater(t, k)
	return k
}

func newStream(t testing.TB, ordinal int) *device.Stream {
	t.Helper()
	testdriver.Open(t)
	n, err := device.Count()
	require.NoError(t, err)
	if n <= ordinal {
		t.Skipf("needs %d devices, there are %d", ordinal+1, n)
	}
	t.Cleanup(func() { flush(t) })
	dev, err := device.Open(ordinal)
	require.NoError(t, err)
	s, err := dev.NewStream(nil)
	require.NoError(t, err)
	closeLater(t, s)
	return s
}

// bytesOf is the memory of a slice of plain elements.
func bytesOf[T any](s []T) []byte {
	var z T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(z)))
}

// upload returns a buffer with those elements until the test ends.
func upload[T any](t testing.TB, s *device.Stream, x ...T) *device.Buffer {
	t.Helper()
	p := bytesOf(x)
	b, err := s.Device().Allocate(int64(len(p)), s)
	require.NoError(t, err)
	closeLater(t, b)
	require.NoError(t, b.CopyFromHostSync(t.Context(), p, s))
	return b
}

// download returns the elements of a buffer after the work that is queued.
func download[T any](t testing.TB, s *device.Stream, b *device.Buffer) []T {
	t.Helper()
	var z T
	x := make([]T, int(b.Size())/int(unsafe.Sizeof(z)))
	require.NoError(t, b.CopyToHost(t.Context(), bytesOf(x), s))
	return x
}

// TestSoftKernelsAreTheSource compares the parameters of both kinds of kernel.
func TestSoftKernelsAreTheSource(t *testing.T) {
	cubin := compile(t, kernelSource, launch.FormatCubin, launch.ProgramOptions{})
	for _, name := range kernelNames {
		want, err := cubin.ParamInfo(name)
		require.NoError(t, err)
		have, err := kernel(t, name).Params()
		require.NoError(t, err)
		require.Equal(t, want, have, name)
	}
}
