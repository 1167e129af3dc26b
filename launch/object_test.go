package launch_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/launch"
)

// loadable returns code with the kernels "first" (pointer, int32, float64) and
// "second" (no parameters), for the driver of the tests.
func loadable(t testing.TB) *launch.ObjectCode {
	t.Helper()
	dev := openDevice(t)
	var c *launch.ObjectCode
	var err error
	if testdriver.Real() {
		needNVRTC(t)
		p, err := launch.NewProgram(`extern "C" {
__constant__ int table[4] = {1, 2, 3, 4};
__global__ void first(int *p, int n, double d) { p[0] = n + (int)d + table[0]; }
__global__ void second() {} }`, &launch.ProgramOptions{Device: dev})
		require.NoError(t, err)
		c, err = p.Compile(launch.FormatCubin, nil)
		require.NoError(t, err)
	} else {
		require.NoError(t, soft.RegisterKernel("first", []soft.ParamInfo{soft.Ptr, soft.Int32, soft.Float64}, func(*soft.Launch) {}))
		require.NoError(t, soft.RegisterKernel("second", nil, func(*soft.Launch) {}))
		c, err = launch.NewObjectCode(soft.Image("first", "second"), &launch.ObjectOptions{Name: "test", Symbols: map[string]string{"one": "first"}})
		require.NoError(t, err)
		require.Equal(t, launch.FormatOpaque, c.Format())
	}
	closeLater(t, c)
	return c
}

func TestKernel(t *testing.T) {
	c := loadable(t)
	dev := openDevice(t)
	k, err := c.Kernel("first")
	require.NoError(t, err)
	closeLater(t, k)
	require.Equal(t, "first", k.Name())
	require.Equal(t, "kernel first", k.String())
	require.NotZero(t, k.Handle())
	require.EqualValues(t, k.Handle(), k.LaunchHandle())
	params, err := k.Params()
	require.NoError(t, err)
	require.Equal(t, []launch.ParamInfo{{Offset: 0, Size: 8}, {Offset: 8, Size: 4}, {Offset: 16, Size: 8}}, params)

	none, err := c.Kernel("second")
	require.NoError(t, err)
	closeLater(t, none)
	params, err = none.Params()
	require.NoError(t, err)
	require.Empty(t, params)

	ctx, err := dev.PrimaryContext()
	require.NoError(t, err)
	fn, err := k.Function(ctx)
	require.NoError(t, err)
	require.NotZero(t, fn)

	a, err := k.Attributes(dev)
	require.NoError(t, err)
	require.Positive(t, a.MaxThreadsPerBlock)
	require.Positive(t, a.Registers)
	require.Positive(t, a.BinaryVersion)
	require.False(t, a.ClusterRequired)
	n, err := k.Attribute(dev, driver.FuncAttributeMaxThreadsPerBlock)
	require.NoError(t, err)
	require.Equal(t, a.MaxThreadsPerBlock, n)
	require.NoError(t, k.SetMaxDynamicSharedSize(dev, 16<<10))
	a, err = k.Attributes(dev)
	require.NoError(t, err)
	require.Equal(t, 16<<10, a.MaxDynamicSharedSize)
	require.ErrorIs(t, k.SetMaxDynamicSharedSize(dev, 1<<40), launch.ErrInvalidValue)
	require.ErrorIs(t, k.SetMaxDynamicSharedSize(dev, 1<<30), launch.ErrInvalidValue)
	require.ErrorIs(t, k.SetMaxDynamicSharedSize(nil, 1), device.ErrInvalidDevice)
	_, err = k.Attribute(nil, 0)
	require.ErrorIs(t, err, device.ErrInvalidDevice)
	_, err = k.Attribute(dev, 9999)
	e := as[*launch.Error](t, err)
	require.Equal(t, 0, e.Device)
	require.Contains(t, err.Error(), "launch: attribute of kernel first on device 0: ")
}

func TestOccupancy(t *testing.T) {
	c := loadable(t)
	k, err := c.Kernel("first")
	require.NoError(t, err)
	closeLater(t, k)
	ctx, err := openDevice(t).PrimaryContext()
	require.NoError(t, err)
	o := k.Occupancy(ctx)
	n, err := o.MaxActiveBlocks(128, 0)
	require.NoError(t, err)
	require.Positive(t, n)
	grid, block, err := o.MaxPotentialBlockSize(0, 0)
	require.NoError(t, err)
	require.Positive(t, grid)
	require.Positive(t, block)
	_, limited, err := o.MaxPotentialBlockSize(0, 64)
	require.NoError(t, err)
	require.LessOrEqual(t, limited, 64)
	bytes, err := o.AvailableDynamicShared(1, 128)
	require.NoError(t, err)
	require.Positive(t, bytes)
	if major, _, err := ctx.Device().ComputeCapability(); err == nil && major >= 9 {
		shape := launch.Config{Grid: launch.D1(8), Block: launch.D1(128), Cluster: launch.D1(4)}
		n, err = o.MaxPotentialClusterSize(shape)
		require.NoError(t, err)
		require.GreaterOrEqual(t, n, 4, "clusters of the shape do not count")
		four, err := o.MaxActiveClusters(shape)
		require.NoError(t, err)
		require.Positive(t, four)
		shape.Cluster = launch.D1(2)
		two, err := o.MaxActiveClusters(shape)
		require.NoError(t, err)
		require.Greater(t, two, four, "smaller ones are more")
		shape.Cluster = launch.D1(3)
		_, err = o.MaxActiveClusters(shape)
		require.ErrorIs(t, err, launch.ErrConfig, "does not divide the grid")
		_, err = o.MaxActiveClusters(launch.Config{Block: launch.D1(1)})
		require.ErrorIs(t, err, launch.ErrInvalidValue, "no grid")
		_, err = k.Occupancy(nil).MaxActiveClusters(shape)
		require.ErrorIs(t, err, launch.ErrInvalidValue)
	}
	_, err = o.MaxActiveBlocks(-1, 0)
	require.ErrorIs(t, err, launch.ErrInvalidValue)
	_, err = o.MaxActiveBlocks(1<<40, 0)
	require.ErrorIs(t, err, launch.ErrInvalidValue)
	_, err = o.MaxActiveBlocks(0, 0)
	require.ErrorIs(t, err, launch.ErrInvalidValue)
	_, err = k.Occupancy(nil).MaxActiveBlocks(1, 0)
	require.ErrorIs(t, err, launch.ErrInvalidValue)
}

func TestUnknownKernel(t *testing.T) {
	c := loadable(t)
	_, err := c.Kernel("third")
	require.ErrorIs(t, err, launch.ErrNoKernel)
	require.ErrorContains(t, err, "first")
	require.ErrorContains(t, err, "second")
	_, err = c.Kernel("fir\x00st")
	require.Error(t, err)
	ctx, err := openDevice(t).PrimaryContext()
	require.NoError(t, err)
	_, _, err = c.Global(ctx, "nothing")
	require.ErrorIs(t, err, launch.ErrNoSymbol)
	_, _, err = c.Global(nil, "nothing")
	require.ErrorIs(t, err, launch.ErrInvalidValue)
}

func TestGlobal(t *testing.T) {
	openDevice(t)
	c := loadable(t)
	if !testdriver.Real() {
		image := strings.TrimRight(string(soft.Image("first")), "\x00") + "global table 16\n\x00"
		var err error
		c, err = launch.NewObjectCode([]byte(image), nil)
		require.NoError(t, err)
		closeLater(t, c)
	}
	ctx, err := openDevice(t).PrimaryContext()
	require.NoError(t, err)
	ptr, size, err := c.Global(ctx, "table")
	require.NoError(t, err)
	require.NotZero(t, ptr)
	require.Equal(t, 16, size)
}

func TestSymbolsOfObject(t *testing.T) {
	if testdriver.Real() {
		t.Skip("the image is the software device's")
	}
	c := loadable(t)
	k, err := c.Kernel("one")
	require.NoError(t, err)
	closeLater(t, k)
	require.Equal(t, "first", k.Name())
}

// TestCloseInAnyOrder is about what keeps code loaded.
func TestCloseInAnyOrder(t *testing.T) {
	c := loadable(t)
	before := launch.Stats().Libraries
	k, err := c.Kernel("first")
	require.NoError(t, err)
	again, err := c.Kernel("first")
	require.NoError(t, err)
	require.Equal(t, k.Handle(), again.Handle())
	require.Equal(t, before+1, launch.Stats().Libraries, "loaded once")

	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	_, err = c.Kernel("first")
	require.ErrorIs(t, err, launch.ErrClosed)
	_, err = c.Handle()
	require.ErrorIs(t, err, launch.ErrClosed)

	params, err := k.Params()
	require.NoError(t, err, "a kernel keeps its code")
	require.Len(t, params, 3)
	wrapped, err := launch.WrapKernel(k.Handle(), nil)
	require.NoError(t, err)
	require.NoError(t, k.Close())
	require.NoError(t, k.Close())
	_, err = k.Params()
	require.ErrorIs(t, err, launch.ErrClosed)
	_, err = k.Attributes(openDevice(t))
	require.ErrorIs(t, err, launch.ErrClosed)
	require.NoError(t, again.Close())
	require.Equal(t, before+1, launch.Stats().Libraries)
	require.Equal(t, "first", wrapped.Name(), "a raw handle that is known is no second owner")
	_, err = wrapped.Params()
	require.NoError(t, err)
	handle := wrapped.Handle()
	require.NoError(t, wrapped.Close())
	require.Equal(t, before, launch.Stats().Libraries, "the last one unloads")
	if !testdriver.Real() {
		_, err = launch.WrapKernel(handle, nil)
		require.ErrorIs(t, err, device.ErrInvalidHandle)
	}
}

func TestForgotten(t *testing.T) {
	before := launch.Stats()
	func() {
		c := loadableForgotten(t)
		_, err := c.Kernel("first")
		require.NoError(t, err)
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		return launch.Stats().Libraries == before.Libraries
	}, waitFor, tick)
	require.Equal(t, before.Collected+2, launch.Stats().Collected)
}

// loadableForgotten is like loadable, and nobody closes it.
func loadableForgotten(t testing.TB) *launch.ObjectCode {
	c := loadable(t)
	f, err := launch.NewObjectCode(c.Code(), nil)
	require.NoError(t, err)
	return f
}

func TestWrapForeign(t *testing.T) {
	dev := openDevice(t)
	d := dev.Driver()
	ctx, err := dev.PrimaryContext()
	require.NoError(t, err)
	code := loadable(t).Code()
	module, res := d.ModuleLoadData(ctx.Handle(), code)
	require.NoError(t, res.Err())
	defer func() { require.NoError(t, d.ModuleUnload(ctx.Handle(), module).Err()) }()
	fn, res := d.ModuleGetFunction(ctx.Handle(), module, "first")
	require.NoError(t, res.Err())
	k, err := launch.WrapFunction(fn, "owner")
	require.NoError(t, err)
	closeLater(t, k)
	require.Equal(t, "first", k.Name())
	require.Zero(t, k.Handle())
	require.Equal(t, fn, k.LaunchHandle())
	params, err := k.Params()
	require.NoError(t, err)
	require.Len(t, params, 3)
	got, err := k.Function(ctx)
	require.NoError(t, err)
	require.Equal(t, fn, got)

	lib, res := d.LibraryLoadData(code, nil, nil, nil, nil)
	require.NoError(t, res.Err())
	defer func() { require.NoError(t, d.LibraryUnload(lib).Err(), "wrapping does not take over") }()
	h, res := d.LibraryGetKernel(lib, "second")
	require.NoError(t, res.Err())
	foreign, err := launch.WrapKernel(h, nil)
	require.NoError(t, err)
	require.Equal(t, "second", foreign.Name())
	require.NoError(t, foreign.Close())

	_, err = launch.WrapKernel(0, nil)
	require.ErrorIs(t, err, device.ErrInvalidHandle)
	_, err = launch.WrapFunction(0, nil)
	require.ErrorIs(t, err, device.ErrInvalidHandle)
}

// TestUseDuringClose uses a kernel while others close everything.
func TestUseDuringClose(t *testing.T) {
	for range 20 {
		c, err := launch.NewObjectCode(loadable(t).Code(), nil)
		require.NoError(t, err)
		k, err := c.Kernel("first")
		require.NoError(t, err)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				switch i {
				case 0:
					require.NoError(t, c.Close())
				case 1:
					require.NoError(t, k.Close())
				default:
					if p, err := k.Params(); err == nil {
						require.Len(t, p, 3)
					} else {
						require.ErrorIs(t, err, launch.ErrClosed)
					}
					if k2, err := c.Kernel("second"); err == nil {
						require.NoError(t, k2.Close())
					} else {
						require.ErrorIs(t, err, launch.ErrClosed)
					}
				}
			}()
		}
		wg.Wait()
	}
}

func TestDetectFormat(t *testing.T) {
	elf := func(machine uint16) []byte {
		b := make([]byte, 64)
		copy(b, "\x7fELF")
		binary.LittleEndian.PutUint16(b[18:], machine)
		return b
	}
	for _, c := range []struct {
		name string
		code []byte
		want launch.Format
	}{
		{"empty", nil, launch.FormatOpaque},
		{"cubin", elf(190), launch.FormatCubin},
		{"host object", elf(62), launch.FormatObject},
		{"cut off", []byte("\x7fELF"), launch.FormatObject},
		{"archive", []byte("!<arch>\nx"), launch.FormatLibrary},
		{"fatbin", []byte{0x50, 0xed, 0x55, 0xba, 1}, launch.FormatFatbin},
		{"PTX", []byte("//\n// comment\n\n  .version 8.0\n"), launch.FormatPTX},
		{"text", []byte("hello"), launch.FormatOpaque},
		{"comment only", []byte("// .version 8.0"), launch.FormatOpaque},
		{"image of the software device", soft.Image("x"), launch.FormatOpaque},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, launch.DetectFormat(c.code)) })
	}
	require.Equal(t, "Format(42)", launch.Format(42).String())
}

func TestBadObjects(t *testing.T) {
	_, err := launch.NewObjectCode(nil, nil)
	require.ErrorIs(t, err, launch.ErrImage)
	_, err = launch.NewObjectCode([]byte("!<arch>\n"), &launch.ObjectOptions{Format: launch.FormatCubin})
	require.ErrorIs(t, err, launch.ErrImage)
	_, err = launch.NewObjectCode([]byte("x"), &launch.ObjectOptions{Format: 77})
	require.ErrorIs(t, err, launch.ErrInvalidValue)
	lto, err := launch.NewObjectCode([]byte("x"), &launch.ObjectOptions{Format: launch.FormatLTOIR})
	require.NoError(t, err)
	_, err = lto.Kernel("k")
	require.ErrorIs(t, err, launch.ErrImage)
	require.ErrorContains(t, err, "link it first")
	_, err = lto.ParamInfo("k")
	require.ErrorIs(t, err, launch.ErrNotSupported)

	openDevice(t)
	before := launch.Stats()
	for name, code := range map[string]string{
		"cubin of nothing": "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 11) + "\xbe\x00" + strings.Repeat("\x00", 64),
		"PTX of nothing":   ".version 1.0\n.what\n",
		"nothing at all":   strings.Repeat("what?", 10),
	} {
		c, err := launch.NewObjectCode([]byte(code), nil)
		require.NoError(t, err)
		_, err = c.Kernel("k")
		require.Error(t, err, name)
		require.ErrorIs(t, err, launch.ErrImage, name)
		require.NoError(t, c.Close()) // a driver that loads lazily may have taken it
	}
	require.Equal(t, before.Libraries, launch.Stats().Libraries)
}

// TestDriverWantsAContext makes the driver refuse a call about a kernel as it does
// for fatbins when no context is current, and other calls once.
func TestDriverWantsAContext(t *testing.T) {
	if testdriver.Real() {
		t.Skip("needs the software device, which can be made to fail: see TestFatbin")
	}
	dev := openDevice(t)
	for _, api := range []string{"cuKernelGetParamInfo", "cuKernelGetAttribute", "cuKernelSetAttribute"} {
		t.Run(api, func(t *testing.T) {
			k, err := loadable(t).Kernel("first")
			require.NoError(t, err)
			closeLater(t, k)
			f := soft.InjectFault(t, soft.Fault{API: api, Code: driver.ErrorInvalidContext})
			_, err = k.Params()
			require.NoError(t, err)
			_, err = k.Attribute(dev, driver.FuncAttributeMaxThreadsPerBlock)
			require.NoError(t, err)
			require.NoError(t, k.SetMaxDynamicSharedSize(dev, 1024))
			require.Equal(t, 1, f.Hits())
			f.Remove()
		})
	}
	t.Run("a failure is not remembered", func(t *testing.T) {
		k, err := loadable(t).Kernel("first")
		require.NoError(t, err)
		closeLater(t, k)
		f := soft.InjectFault(t, soft.Fault{API: "cuKernelGetParamInfo", Code: driver.ErrorOutOfMemory})
		_, err = k.Params()
		require.ErrorIs(t, err, driver.ErrorOutOfMemory)
		f.Remove()
		params, err := k.Params()
		require.NoError(t, err)
		require.Len(t, params, 3)
	})
}

// fatbin puts machine code for an architecture, such as 90, into the container
// that nvcc makes: a header, then a header for each piece of code.
func fatbin(cubin []byte, arch uint32) []byte {
	cubin = append(cubin, make([]byte, -len(cubin)&7)...)
	b := []byte{0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0}
	b = binary.LittleEndian.AppendUint64(b, uint64(64+len(cubin)))
	b = append(b, 2, 0, 1, 1, 64, 0, 0, 0) // machine code, as it is
	b = binary.LittleEndian.AppendUint64(b, uint64(len(cubin)))
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 1, 0)
	b = binary.LittleEndian.AppendUint32(b, arch)
	b = append(b, make([]byte, 8)...)                       // no name
	b = binary.LittleEndian.AppendUint64(b, 0x11)           // 64 bits, Linux
	return append(append(b, make([]byte, 16)...), cubin...) // not compressed
}

// TestFatbin loads code in the container that nvcc makes.
func TestFatbin(t *testing.T) {
	if !testdriver.Real() {
		t.Skip("needs a GPU: the software device runs no machine code")
	}
	s := newStream(t, 0)
	arch, err := s.Device().Arch()
	require.NoError(t, err)
	number, err := strconv.Atoi(strings.TrimRight(arch, "af"))
	require.NoError(t, err)
	cubin := compile(t, kernelSource, launch.FormatCubin, launch.ProgramOptions{Arch: "sm_" + arch})
	c, err := launch.NewObjectCode(fatbin(cubin.Code(), uint32(number)), nil)
	require.NoError(t, err)
	closeLater(t, c)
	require.Equal(t, launch.FormatFatbin, c.Format())
	k, err := c.Kernel("add")
	require.NoError(t, err)
	closeLater(t, k)
	b := upload[int32](t, s, 40)
	require.NoError(t, launch.Launch(s, one, k, b, int32(2), int64(1)))
	require.Equal(t, []int32{42}, download[int32](t, s, b))
}

func TestReadObjectCode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.image")
	require.NoError(t, os.WriteFile(path, soft.Image("x"), 0o600))
	c, err := launch.ReadObjectCode(path, nil)
	require.NoError(t, err)
	require.Equal(t, "test.image", c.Name())
	_, err = launch.ReadObjectCode(path+"x", nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// params gives the parameters of a kernel, compiled for cubin and PTX.
func params(t *testing.T, source, name, arch string, f launch.Format) []launch.ParamInfo {
	t.Helper()
	c := compile(t, source, f, launch.ProgramOptions{Arch: arch})
	p, err := c.ParamInfo(name)
	require.NoError(t, err)
	return p
}

// TestParamTables compares what cubins and PTX declare with the source.
func TestParamTables(t *testing.T) {
	const source = `
struct S { double a; float b; char c; };
struct alignas(16) V { float x[4]; };
struct Big { char b[3000]; };
struct Empty {};
extern "C" {
__global__ void mixed(float *p, int n, S s, V v, Big b, bool f, Empty e, short h) { if (f) p[n] = s.b + v.x[1] + b.b[n] + h; }
__global__ void none() {}
__global__ void bytes(char a, char b, long long c, unsigned short d, char e) {}
__device__ __noinline__ int helper(int x) { return x + 1; }
__global__ void calls(int *p) { *p = helper(*p); }
}`
	want := map[string][]launch.ParamInfo{
		"mixed": {{Offset: 0, Size: 8}, {Offset: 8, Size: 4}, {Offset: 16, Size: 16}, {Offset: 32, Size: 16}, {Offset: 48, Size: 3000}, {Offset: 3048, Size: 1}, {Offset: 3049, Size: 1}, {Offset: 3050, Size: 2}},
		"none":  {},
		"bytes": {{Offset: 0, Size: 1}, {Offset: 1, Size: 1}, {Offset: 8, Size: 8}, {Offset: 16, Size: 2}, {Offset: 18, Size: 1}},
		"calls": {{Offset: 0, Size: 8}},
	}
	for _, arch := range []string{"sm_80", "sm_90"} {
		for _, f := range []launch.Format{launch.FormatCubin, launch.FormatPTX} {
			for name, p := range want {
				t.Run(fmt.Sprintf("%s %s %v", arch, name, f), func(t *testing.T) {
					require.Equal(t, p, params(t, source, name, arch, f))
				})
			}
			t.Run(fmt.Sprintf("%s unknown %v", arch, f), func(t *testing.T) {
				c := compile(t, source, f, launch.ProgramOptions{Arch: arch})
				_, err := c.ParamInfo("helper")
				require.ErrorIs(t, err, launch.ErrNoKernel)
				require.ErrorContains(t, err, "bytes, calls, mixed, none")
			})
		}
	}
	t.Run("more than 4 KiB", func(t *testing.T) {
		const source = `struct Big { char b[20000]; };
extern "C" __global__ void large(float *p, Big b, int n, double z) { p[n] = b.b[n] + z; }`
		want := []launch.ParamInfo{{Offset: 0, Size: 8}, {Offset: 8, Size: 20000}, {Offset: 20008, Size: 4}, {Offset: 20016, Size: 8}}
		for _, f := range []launch.Format{launch.FormatCubin, launch.FormatPTX} {
			require.Equal(t, want, params(t, source, "large", "sm_90", f))
		}
	})
}

// TestPTXDeclarations covers forms that NVRTC does not write.
func TestPTXDeclarations(t *testing.T) {
	const ptx = `// a comment with .entry no(
.version 8.0 /* .entry no2( */
.target sm_90
.visible .entry a ( .param .u64 .ptr .global .align 16 a_0 , .param .pred a_1, .param .align 4 .b8 a_2 [ 12 ] )
{ ret; }
.entry b() .maxntid 32, 1, 1 { ret; }
.entry c { ret; }
.weak .entry d(.param .b128 d_0, .param .f16 d_1, .param .s8 d_2[3]) ;
`
	c, err := launch.NewObjectCode([]byte(ptx), &launch.ObjectOptions{Format: launch.FormatPTX})
	require.NoError(t, err)
	for name, want := range map[string][]launch.ParamInfo{
		"a": {{Offset: 0, Size: 8}, {Offset: 8, Size: 8}, {Offset: 16, Size: 12}}, "b": {}, "c": {},
		"d": {{Offset: 0, Size: 16}, {Offset: 16, Size: 2}, {Offset: 18, Size: 3}},
	} {
		got, err := c.ParamInfo(name)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
	for name, body := range map[string]string{
		"no end": ".entry a(.param .u64 x", "no name": ".entry (.param .u64 x)", "no parenthesis": ".entry a", "not .param": ".entry a(.reg .u64 x)",
		"no type": ".entry a(.param x y)", "bad alignment": ".entry a(.param .align 3 .b8 x[4])", "bad size": ".entry a(.param .b8 x[99999999999])",
		"too large": ".entry a(.param .b64 x[65000])",
	} {
		c, err := launch.NewObjectCode([]byte(".version 8.0\n"+body), nil)
		require.NoError(t, err)
		_, err = c.ParamInfo("a")
		require.ErrorIs(t, err, launch.ErrImage, name)
	}
}

func FuzzParamInfo(f *testing.F) {
	f.Add([]byte(".version 8.0\n.entry a(.param .align 4 .b8 a_2[12])"))
	f.Add([]byte("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 11) + "\xbe\x00" + strings.Repeat("\x00", 64)))
	if b, err := os.ReadFile("testdata/small.cubin"); err == nil {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, code []byte) {
		c, err := launch.NewObjectCode(code, nil)
		if err != nil {
			return
		}
		p, err := c.ParamInfo("a")
		if err != nil {
			return
		}
		end := uintptr(0)
		for _, q := range p {
			require.GreaterOrEqual(t, q.Offset, end)
			end = q.Offset + q.Size
		}
	})
}
