package launch_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/launch"
	"github.com/go-handoff/handoff/launch/nvjitlink"
)

const (
	mainSource = `
extern __device__ float weight(float);
template <class T> __global__ void apply(T *p) { p[threadIdx.x] = weight(p[threadIdx.x]); }
extern "C" __global__ void unused(int *p) { *p = 1; }`
	partSource = `__device__ float weight(float x) { return 2 * x; }`
)

func linker(t testing.TB, o launch.LinkerOptions) *launch.Linker {
	t.Helper()
	if o.Backend != launch.LinkerDriver {
		needNvJitLink(t)
	}
	if o.Arch == "" {
		o.Arch = "sm_90"
	}
	k, err := launch.NewLinker(&o)
	require.NoError(t, err)
	return k
}

// pieces compiles the two sources.
func pieces(t testing.TB, f launch.Format) (a, b *launch.ObjectCode) {
	t.Helper()
	o := launch.ProgramOptions{Name: "main.cu", RelocatableDeviceCode: launch.ToggleOn}
	a = compile(t, mainSource, f, o, "apply<float>")
	o.Name = "part.cu"
	return a, compile(t, partSource, f, o)
}

func TestLink(t *testing.T) {
	for _, f := range []launch.Format{launch.FormatCubin, launch.FormatPTX, launch.FormatLTOIR} {
		t.Run(f.String(), func(t *testing.T) {
			a, b := pieces(t, f)
			k := linker(t, launch.LinkerOptions{LTO: f == launch.FormatLTOIR, Name: "both"})
			require.Equal(t, launch.LinkerNvJitLink, k.Backend())
			c, err := k.Link(launch.FormatCubin, a, b)
			require.NoError(t, err)
			require.Equal(t, "both", c.Name())
			require.Equal(t, launch.FormatCubin, launch.DetectFormat(c.Code()))
			params, err := c.ParamInfo("apply<float>")
			require.NoError(t, err, "the names of the inputs are known")
			require.Equal(t, []launch.ParamInfo{{Offset: 0, Size: 8}}, params)
		})
	}
}

func TestLinkLTO(t *testing.T) {
	a, b := pieces(t, launch.FormatLTOIR)
	ptx, err := linker(t, launch.LinkerOptions{LTO: true}).Link(launch.FormatPTX, a, b)
	require.NoError(t, err)
	require.Equal(t, launch.FormatPTX, launch.DetectFormat(ptx.Code()))
	require.NotContains(t, string(ptx.Code()), "call", "weight is inlined across the inputs")
	require.Contains(t, string(ptx.Code()), "unused")

	few, err := linker(t, launch.LinkerOptions{LTO: true, KernelsUsed: []string{a.Symbols()["apply<float>"]}}).Link(launch.FormatCubin, a, b)
	require.NoError(t, err)
	_, err = few.ParamInfo("unused")
	require.ErrorIs(t, err, launch.ErrNoKernel)
	_, err = few.ParamInfo("apply<float>")
	require.NoError(t, err)

	mixed := compile(t, partSource, launch.FormatCubin, launch.ProgramOptions{RelocatableDeviceCode: launch.ToggleOn})
	_, err = linker(t, launch.LinkerOptions{LTO: true}).Link(launch.FormatCubin, a, mixed)
	require.NoError(t, err)
}

// TestLinkAgain makes LTO IR of LTO IR.
func TestLinkAgain(t *testing.T) {
	a, b := pieces(t, launch.FormatLTOIR)
	k := linker(t, launch.LinkerOptions{LTO: true})
	ir, err := k.Link(launch.FormatLTOIR, a, b)
	if err != nil {
		lib, _ := nvjitlink.Load()
		major, minor := lib.Version()
		t.Skipf("needs an nvJitLink that writes LTO IR, this is %d.%d: %v", major, minor, err)
	}
	require.Equal(t, launch.FormatLTOIR, ir.Format())
	c, err := k.Link(launch.FormatCubin, ir)
	require.NoError(t, err)
	_, err = c.ParamInfo("apply<float>")
	require.NoError(t, err)
}

func TestLinkErrors(t *testing.T) {
	a, b := pieces(t, launch.FormatCubin)
	k := linker(t, launch.LinkerOptions{Name: "broken"})
	_, err := k.Link(launch.FormatCubin, a)
	require.ErrorIs(t, err, launch.ErrLink)
	require.NotErrorIs(t, err, launch.ErrCompile)
	e := as[*launch.CompileError](t, err)
	require.Equal(t, "nvJitLink", e.Lib)
	require.Contains(t, e.Log, "weight")
	require.Contains(t, err.Error(), "launch: link broken to cubin: linking failed: nvJitLink (NVJITLINK_ERROR_")

	_, err = k.Link(launch.FormatCubin)
	require.ErrorIs(t, err, launch.ErrInvalidValue)
	_, err = k.Link(launch.FormatCubin, a, nil)
	require.ErrorIs(t, err, launch.ErrInvalidValue)
	_, err = k.Link(launch.FormatPTX, a, b)
	require.ErrorIs(t, err, launch.ErrInvalidValue, "PTX needs LTO")
	_, err = k.Link(launch.FormatFatbin, a, b)
	require.ErrorIs(t, err, launch.ErrNotSupported)
	ir := compile(t, partSource, launch.FormatLTOIR, launch.ProgramOptions{})
	_, err = k.Link(launch.FormatCubin, a, ir)
	require.ErrorIs(t, err, launch.ErrInvalidValue)
	require.ErrorContains(t, err, "LTO")

	other := compile(t, partSource, launch.FormatCubin, launch.ProgramOptions{Arch: "sm_80", RelocatableDeviceCode: launch.ToggleOn})
	_, err = k.Link(launch.FormatCubin, a, other)
	require.ErrorIs(t, err, launch.ErrLink)

	gone, err := launch.NewObjectCode(b.Code(), nil)
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	_, err = k.Link(launch.FormatCubin, a, gone)
	require.ErrorIs(t, err, launch.ErrClosed)
	opaque, err := launch.NewObjectCode([]byte("x"), nil)
	require.NoError(t, err)
	_, err = k.Link(launch.FormatCubin, opaque)
	require.ErrorIs(t, err, launch.ErrImage)
	_, err = linker(t, launch.LinkerOptions{Extra: []string{"-what"}}).Link(launch.FormatCubin, a, b)
	require.ErrorIs(t, err, launch.ErrLink)
	require.ErrorIs(t, err, nvjitlink.ErrorUnrecognizedOption)

	for name, o := range map[string]launch.LinkerOptions{
		"virtual": {Arch: "compute_90"}, "arch": {Arch: "x"}, "level": {Optimization: 5}, "backend": {Backend: 9}, "toggle": {FMA: 7},
		"registers": {MaxRegisters: -1},
	} {
		if o.Arch == "" {
			o.Arch = "sm_90"
		}
		_, err := launch.NewLinker(&o)
		require.ErrorIs(t, err, launch.ErrInvalidValue, name)
	}
}

// TestLinkerOptionsAreKnown links with each option alone.
func TestLinkerOptionsAreKnown(t *testing.T) {
	a, b := pieces(t, launch.FormatLTOIR)
	for name, o := range map[string]launch.LinkerOptions{
		"Optimization": {Optimization: 3}, "no optimization": {Optimization: -1}, "Debug": {Debug: true}, "LineInfo": {LineInfo: true},
		"MaxRegisters": {MaxRegisters: 40}, "FlushDenormals": {FlushDenormals: launch.ToggleOn}, "PreciseDiv": {PreciseDiv: launch.ToggleOff},
		"PreciseSqrt": {PreciseSqrt: launch.ToggleOff}, "FMA": {FMA: launch.ToggleOff}, "Verbose": {Verbose: true, NoCache: true}, "Time": {Time: true},
		"VariablesUsed": {VariablesUsed: []string{"v"}}, "OptimizeUnusedVariables": {OptimizeUnusedVariables: true},
		"AssemblerOptions": {AssemblerOptions: []string{"-v"}}, "SplitCompile": {SplitCompile: 2}, "SplitCompile all": {SplitCompile: -1},
		"SplitCompileExtended": {SplitCompileExtended: 2}, "NoCache": {NoCache: true},
	} {
		t.Run(name, func(t *testing.T) {
			o.LTO = true
			c, err := linker(t, o).Link(launch.FormatCubin, a, b)
			require.NoError(t, err)
			if o.Verbose {
				require.NotEmpty(t, c.Log())
			}
		})
	}
}

// TestDriverLinker links in the driver; the software device has no linker and
// says so.
func TestDriverLinker(t *testing.T) {
	dev := openDevice(t)
	arch, err := dev.Arch()
	require.NoError(t, err)
	needNVRTC(t)
	o := launch.ProgramOptions{Name: "main.cu", RelocatableDeviceCode: launch.ToggleOn, Arch: "sm_" + arch}
	a := compile(t, mainSource, launch.FormatPTX, o, "apply<float>")
	b := compile(t, partSource, launch.FormatPTX, o)
	k := linker(t, launch.LinkerOptions{Backend: launch.LinkerDriver, Arch: "sm_" + arch, LineInfo: true})
	require.Equal(t, launch.LinkerDriver, k.Backend())
	c, err := k.Link(launch.FormatCubin, a, b)
	if !testdriver.Real() {
		require.ErrorIs(t, err, launch.ErrNotSupported)
	} else {
		require.NoError(t, err)
		f, err := c.Kernel("apply<float>")
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.NoError(t, c.Close())
		_, err = k.Link(launch.FormatCubin, a)
		require.ErrorIs(t, err, launch.ErrLink)
		require.Contains(t, as[*launch.CompileError](t, err).Log, "weight")
	}
	ir := compile(t, partSource, launch.FormatLTOIR, launch.ProgramOptions{})
	_, err = k.Link(launch.FormatCubin, ir)
	require.ErrorIs(t, err, launch.ErrInvalidValue)
	for name, o := range map[string]launch.LinkerOptions{
		"LTO": {LTO: true}, "FMA": {FMA: launch.ToggleOn}, "Time": {Time: true}, "KernelsUsed": {KernelsUsed: []string{"x"}},
		"AssemblerOptions": {AssemblerOptions: []string{"-v"}}, "SplitCompile": {SplitCompile: 2}, "Extra": {Extra: []string{"x"}},
	} {
		o.Backend, o.Arch = launch.LinkerDriver, "sm_90"
		_, err := launch.NewLinker(&o)
		require.ErrorIs(t, err, launch.ErrNotSupported, name)
		require.True(t, strings.Contains(err.Error(), name), err.Error())
	}
}
