package launch_test

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/launch"
	"github.com/go-handoff/handoff/launch/nvrtc"
)

const saxpy = `extern "C" __global__ void saxpy(float *y, const float *x, float a, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		y[i] += a * x[i];
}
`

func TestCompileTargets(t *testing.T) {
	for _, target := range []launch.Format{launch.FormatPTX, launch.FormatCubin, launch.FormatLTOIR} {
		t.Run(target.String(), func(t *testing.T) {
			c := compile(t, saxpy, target, launch.ProgramOptions{Name: "saxpy.cu"})
			require.Equal(t, target, c.Format())
			require.Equal(t, target, launch.DetectFormat(c.Code()))
			require.Equal(t, "saxpy.cu", c.Name())
			require.Empty(t, c.Log())
			require.Contains(t, c.String(), target.String()+` "saxpy.cu" of `)
		})
	}
}

func TestCompileErrorShowsLine(t *testing.T) {
	needNVRTC(t)
	before := launch.Stats()
	_, err := program(t, "__global__ void f(int *p)\n{\n\t*p = wrong + 1;\n}\n", launch.ProgramOptions{Name: "bad.cu"}).Compile(launch.FormatCubin, nil)
	require.ErrorIs(t, err, launch.ErrCompile)
	require.ErrorIs(t, err, nvrtc.ErrorCompilation)
	require.NotErrorIs(t, err, launch.ErrLink)
	e := as[*launch.CompileError](t, err)
	require.Equal(t, "nvrtc", e.Lib)
	require.Equal(t, "NVRTC_ERROR_COMPILATION", e.CodeName)
	require.Contains(t, e.Log, `identifier "wrong" is undefined`)
	line, text, ok := e.Line()
	require.True(t, ok)
	require.Equal(t, 3, line)
	require.Equal(t, "\t*p = wrong + 1;", text)
	require.Contains(t, err.Error(), "launch: compile bad.cu to cubin: compilation failed: nvrtc (NVRTC_ERROR_COMPILATION)\n    3 | \t*p = wrong + 1;\n")
	require.Equal(t, before.Libraries, launch.Stats().Libraries)
}

// TestErrorLine covers the forms that the tools give positions in.
func TestErrorLine(t *testing.T) {
	for _, c := range []struct {
		name, log string
		want      int
	}{
		{"of the program", "a.cu(2): error: x\n", 2},
		{"with a number", "a.cu(2): error #20: x\n", 2},
		{"catastrophic", "a.cu(1): catastrophic error: cannot open\n", 1},
		{"warnings come first", "a.cu(1): warning: x\na.cu(3): error: y\n", 3},
		{"a header's is not ours", "b.h(1): error: x\na.cu(2): error: y\n", 2},
		{"only a header's", "b.h(1): error: x\n", 0},
		{"of the assembler", "ptxas application ptx input, line 3; error   : x\n", 3},
		{"fatal", "ptxas fatal\nptxas a, line 2; fatal   : x\n", 2},
		{"line past the end", "a.cu(99): error: x\n", 0},
		{"line 0", "a.cu(0): error: x\n", 0},
		{"overflow", "a.cu(99999999999999999999): error: x\n", 0},
		{"nothing", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &launch.CompileError{Name: "a.cu", Source: "one\ntwo\r\nthree", Log: c.log}
			line, text, ok := e.Line()
			require.Equal(t, c.want != 0, ok)
			if ok {
				require.Equal(t, c.want, line)
				require.Equal(t, strings.Split("one two three", " ")[line-1], text)
			}
			require.ErrorIs(t, e, launch.ErrCompile)
			require.NotEmpty(t, e.Error())
		})
	}
}

func TestTemplates(t *testing.T) {
	const source = `
template <class T, int N> __global__ void fill(T *p, T v) { for (int i = 0; i < N; i++) p[i] = v; }
namespace ns { __constant__ float table[4]; __global__ void use(float *p) { *p = table[threadIdx.x & 3]; } }`
	c := compile(t, source, launch.FormatCubin, launch.ProgramOptions{}, "fill<float, 4>", "fill<double,2>", "ns::use", "&ns::table")
	symbols := c.Symbols()
	require.Len(t, symbols, 4)
	require.True(t, strings.HasPrefix(symbols["fill<float, 4>"], "_Z4fillIfLi4E"), symbols)
	params, err := c.ParamInfo("fill<double,2>")
	require.NoError(t, err)
	require.Equal(t, []launch.ParamInfo{{Offset: 0, Size: 8}, {Offset: 8, Size: 8}}, params)
	params, err = c.ParamInfo("fill<float, 4>")
	require.NoError(t, err)
	require.Equal(t, []launch.ParamInfo{{Offset: 0, Size: 8}, {Offset: 8, Size: 4}}, params)
	_, err = c.ParamInfo("fill<int, 4>")
	require.ErrorIs(t, err, launch.ErrNoKernel)
	maps.DeleteFunc(symbols, func(string, string) bool { return true })
	require.Len(t, c.Symbols(), 4, "a copy was given")

	_, err = program(t, source, launch.ProgramOptions{}).Compile(launch.FormatCubin, &launch.CompileOptions{Names: []string{"fill<nothing>"}})
	require.ErrorIs(t, err, launch.ErrCompile)
}

func TestHeaders(t *testing.T) {
	needNVRTC(t)
	o := launch.ProgramOptions{
		Headers: map[string]string{"add.h": "#define ADD(a, b) ((a) + (b))\n", "lib/inner.h": "#define ONE 1\n", "first.h": "#define FIRST 1\n"},
		Define:  map[string]string{"N": "3", "EMPTY": ""}, PreInclude: []string{"first.h"},
	}
	const source = "#include \"add.h\"\n#include <lib/inner.h>\n#ifndef EMPTY\n#error EMPTY\n#endif\n__global__ void k(int *p) { *p = ADD(N, ONE) + FIRST EMPTY; }\n"
	_, err := program(t, source, o).Compile(launch.FormatPTX, nil)
	require.NoError(t, err)
	o.Define = nil
	_, err = program(t, source, o).Compile(launch.FormatPTX, nil)
	require.ErrorIs(t, err, launch.ErrCompile)
	_, err = program(t, "#include \"program_test.go\"\n", launch.ProgramOptions{}).Compile(launch.FormatPTX, nil)
	require.ErrorContains(t, err, "program_test.go", "files of the working directory are not looked at")
	require.ErrorContains(t, err, "could not open")
}

// TestOptionsAreKnown compiles with each option alone: the compiler must know
// it, whatever it does with it.
func TestOptionsAreKnown(t *testing.T) {
	needNVRTC(t)
	dir := t.TempDir()
	on := launch.ToggleOn
	for name, o := range map[string]launch.ProgramOptions{
		"Std": {Std: "c++14"}, "Undefine": {Undefine: []string{"X"}}, "IncludePaths": {IncludePaths: []string{dir}},
		"SourceInclude": {SourceInclude: on}, "RelocatableDeviceCode": {RelocatableDeviceCode: on},
		"ExtensibleWholeProgram": {ExtensibleWholeProgram: true}, "Debug": {Debug: true}, "LineInfo": {LineInfo: true},
		"DeviceOptimize": {Debug: true, DeviceOptimize: on}, "AssemblerOptions": {AssemblerOptions: []string{"-v"}},
		"MaxRegisters": {MaxRegisters: 32}, "FastMath": {FastMath: true}, "FlushDenormals": {FlushDenormals: on},
		"PreciseSqrt": {PreciseSqrt: launch.ToggleOff}, "PreciseDiv": {PreciseDiv: launch.ToggleOff}, "FMA": {FMA: launch.ToggleOff},
		"ExtraVectorization": {ExtraVectorization: true}, "Restrict": {Restrict: true}, "DefaultDevice": {DefaultDevice: true},
		"Int128": {Int128: true}, "BuiltinMove": {BuiltinMove: launch.ToggleOff},
		"BuiltinInitializerList": {BuiltinInitializerList: launch.ToggleOff}, "NoWarnings": {NoWarnings: true},
		"NoErrorNumbers": {NoErrorNumbers: true}, "BriefDiagnostics": {BriefDiagnostics: on}, "DiagError": {DiagError: []int{177}},
		"DiagSuppress": {DiagSuppress: []int{177, 174}}, "DiagWarn": {DiagWarn: []int{177}}, "OptInfo": {OptInfo: "inline"},
		"SplitCompile": {SplitCompile: 2}, "SplitCompile all": {SplitCompile: -1},
		"Minimal": {Minimal: true}, "NoCache": {NoCache: true}, "RandomSeed": {RandomSeed: "7"}, "FastCompile": {FastCompile: "max"},
		"TimeFile": {TimeFile: dir + "/time.csv"}, "TimeTraceFile": {TimeTraceFile: dir + "/trace"},
		"PCH":   {PCH: launch.PCHOptions{Auto: true, Dir: dir, Verbose: true, Messages: on, InstantiateTemplates: launch.ToggleOff}},
		"Extra": {Extra: []string{"-DX=1"}}, "arch by number": {Arch: "90"}, "arch with a letter": {Arch: "sm_90a"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := program(t, saxpy, o).Compile(launch.FormatCubin, nil)
			require.NoError(t, err)
		})
	}
	t.Run("GenOptLTO", func(t *testing.T) {
		compile(t, saxpy, launch.FormatLTOIR, launch.ProgramOptions{GenOptLTO: true})
	})
	t.Run("Float128", func(t *testing.T) { // on architectures that have it only
		_, err := program(t, saxpy, launch.ProgramOptions{Float128: true, Arch: "sm_100"}).Compile(launch.FormatPTX, nil)
		require.NoError(t, err)
	})
	t.Run("a log without an error", func(t *testing.T) {
		c := compile(t, "__global__ void k() { int unused; }", launch.FormatCubin, launch.ProgramOptions{Name: "warn.cu"})
		require.Contains(t, c.Log(), "warn.cu(1): warning")
	})
	t.Run("not there", func(t *testing.T) {
		_, err := program(t, saxpy, launch.ProgramOptions{Extra: []string{"--what"}}).Compile(launch.FormatCubin, nil)
		require.ErrorIs(t, err, nvrtc.ErrorInvalidOption)
		_, err = program(t, saxpy, launch.ProgramOptions{Arch: "sm_12"}).Compile(launch.FormatCubin, nil)
		require.ErrorIs(t, err, nvrtc.ErrorInvalidOption)
		require.ErrorContains(t, err, "arch")
	})
}

func TestPCH(t *testing.T) {
	c := compile(t, saxpy, launch.FormatPTX, launch.ProgramOptions{})
	l, err := nvrtc.Load()
	require.NoError(t, err)
	if _, err := l.PCHHeapSize(); err != nil {
		require.Equal(t, launch.PCHUnknown, c.PCHStatus())
		t.Skip("needs NVRTC 12.8")
	}
	require.Equal(t, launch.PCHNotAttempted, c.PCHStatus())
}

func TestToolkitHeaders(t *testing.T) {
	needNVRTC(t)
	p := program(t, "#include <cuda_fp16.h>\n__global__ void k(__half *p, float f) { *p = __float2half(f); }", launch.ProgramOptions{ToolkitHeaders: true})
	c, err := p.Compile(launch.FormatCubin, nil)
	if err != nil && strings.Contains(err.Error(), "headers") {
		t.Skip("needs the headers of the CUDA runtime, which are not here")
	}
	require.NoError(t, err)
	params, err := c.ParamInfo("_Z1kP6__halff")
	require.NoError(t, err)
	require.Len(t, params, 2)
}

func TestBadOptions(t *testing.T) {
	for name, o := range map[string]launch.ProgramOptions{
		"language": {Language: 9}, "arch": {Arch: "gpu"}, "arch with a blank": {Arch: "sm_90 -w"}, "registers": {MaxRegisters: -1},
		"threads": {SplitCompile: -2}, "fast": {FastCompile: "very"}, "info": {OptInfo: "all"}, "macro": {Define: map[string]string{"": "1"}},
		"macro with a value": {Define: map[string]string{"A=1": "1"}}, "toggle": {FMA: 3}, "negative toggle": {FMA: -1},
		"libdevice in C++": {Libdevice: true}, "sources in C++": {ExtraSources: map[string]string{"a": "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := launch.NewProgram(saxpy, &o)
			require.ErrorIs(t, err, launch.ErrInvalidValue)
		})
	}
	_, err := launch.NewProgram("", &launch.ProgramOptions{Language: launch.LanguagePTX})
	require.ErrorIs(t, err, launch.ErrInvalidValue)
}

// TestForeignOptions sets every field in turn: what PTX and NVVM IR have no
// use for is refused, and no field is forgotten.
func TestForeignOptions(t *testing.T) {
	all := map[string]bool{"Name": true, "Arch": true, "Device": true, "Language": true, "Debug": true, "LineInfo": true, "FlushDenormals": true, "PreciseSqrt": true, "PreciseDiv": true, "FMA": true, "Extra": true}
	ok := map[launch.Language]map[string]bool{
		launch.LanguagePTX:  {"AssemblerOptions": true, "MaxRegisters": true},
		launch.LanguageNVVM: {"ExtraSources": true, "Libdevice": true},
	}
	typ := reflect.TypeFor[launch.ProgramOptions]()
	for i := range typ.NumField() {
		name := typ.Field(i).Name
		for lang, more := range ok {
			if all[name] {
				continue
			}
			t.Run(name+" in "+lang.String(), func(t *testing.T) {
				var o launch.ProgramOptions
				o.Language = lang
				set(t, reflect.ValueOf(&o).Elem().Field(i))
				if name == "FastCompile" {
					o.FastCompile = "min"
				}
				_, err := launch.NewProgram(".version 8.0", &o)
				if more[name] {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, launch.ErrInvalidValue)
			})
		}
	}
}

// set gives a field a value that is not zero.
func set(t *testing.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("inline")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8:
		v.SetInt(1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		m := reflect.MakeMap(v.Type())
		m.SetMapIndex(reflect.ValueOf("a"), reflect.ValueOf("b"))
		v.Set(m)
	case reflect.Struct:
		set(t, v.Field(0))
	default:
		t.Fatalf("%v", v.Type())
	}
}

func TestBadTargets(t *testing.T) {
	p := program(t, saxpy, launch.ProgramOptions{})
	for _, f := range []launch.Format{0, launch.FormatFatbin, launch.FormatObject, launch.FormatLibrary, launch.FormatOpaque, 99} {
		_, err := p.Compile(f, nil)
		require.ErrorIs(t, err, launch.ErrNotSupported, f.String())
	}
	_, err := program(t, saxpy, launch.ProgramOptions{Arch: "compute_90"}).Compile(launch.FormatCubin, nil)
	require.ErrorIs(t, err, launch.ErrInvalidValue)
	require.ErrorContains(t, err, "sm_90")
	ptx := program(t, ".version 8.0", launch.ProgramOptions{Language: launch.LanguagePTX})
	_, err = ptx.Compile(launch.FormatLTOIR, nil)
	require.ErrorIs(t, err, launch.ErrNotSupported)
	_, err = ptx.Compile(launch.FormatCubin, &launch.CompileOptions{Names: []string{"k"}})
	require.ErrorIs(t, err, launch.ErrInvalidValue)
	_, err = program(t, "no PTX", launch.ProgramOptions{Language: launch.LanguagePTX}).Compile(launch.FormatPTX, nil)
	require.NoError(t, err, "who wants PTX of it gets it as it is")
}

func TestPTXProgram(t *testing.T) {
	needNvJitLink(t)
	ptx := compile(t, saxpy, launch.FormatPTX, launch.ProgramOptions{})
	p := program(t, string(ptx.Code()), launch.ProgramOptions{Language: launch.LanguagePTX, Name: "saxpy.ptx", LineInfo: true})
	c, err := p.Compile(launch.FormatCubin, nil)
	require.NoError(t, err)
	require.Equal(t, launch.FormatCubin, launch.DetectFormat(c.Code()))
	same, err := p.Compile(launch.FormatPTX, nil)
	require.NoError(t, err)
	require.Equal(t, ptx.Code(), same.Code())

	bad := strings.Replace(strings.TrimRight(string(ptx.Code()), "\x00"), "ret;", "what;", 1)
	_, err = program(t, bad, launch.ProgramOptions{Language: launch.LanguagePTX, Name: "bad.ptx"}).Compile(launch.FormatCubin, nil)
	require.ErrorIs(t, err, launch.ErrLink)
	e := as[*launch.CompileError](t, err)
	require.Equal(t, "nvJitLink", e.Lib)
	_, text, ok := e.Line()
	require.True(t, ok, e.Log)
	require.Contains(t, text, "what;")
}

const nvvmIR = `target datalayout = "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

declare float @__nv_sinf(float)

define void @sine(float* %p) {
entry:
  %x = load float, float* %p
  %y = call float @__nv_sinf(float %x)
  store float %y, float* %p
  ret void
}

!nvvm.annotations = !{!0}
!0 = !{void (float*)* @sine, !"kernel", i32 1}
!nvvmir.version = !{!1}
!1 = !{i32 2, i32 0}
`

func TestNVVMProgram(t *testing.T) {
	needNVVM(t)
	o := launch.ProgramOptions{Language: launch.LanguageNVVM, Libdevice: true, Name: "sine.ll", FMA: launch.ToggleOn}
	p := program(t, nvvmIR, o)
	ptx, err := p.Compile(launch.FormatPTX, nil)
	require.NoError(t, err)
	params, err := ptx.ParamInfo("sine")
	require.NoError(t, err)
	require.Equal(t, []launch.ParamInfo{{Offset: 0, Size: 8}}, params)
	require.NotContains(t, string(ptx.Code()), ".extern", "libdevice is in it")
	ir, err := p.Compile(launch.FormatLTOIR, nil)
	require.NoError(t, err)
	require.Equal(t, launch.FormatLTOIR, launch.DetectFormat(ir.Code()))

	_, err = program(t, "define nonsense", o).Compile(launch.FormatPTX, nil)
	require.ErrorIs(t, err, launch.ErrCompile)
	require.Equal(t, "nvvm", as[*launch.CompileError](t, err).Lib)

	needNvJitLink(t)
	cubin, err := p.Compile(launch.FormatCubin, nil)
	require.NoError(t, err)
	same, err := cubin.ParamInfo("sine")
	require.NoError(t, err)
	require.Equal(t, params, same)
}

func TestCheck(t *testing.T) {
	needNVRTC(t)
	log, err := program(t, saxpy, launch.ProgramOptions{}).Check()
	require.NoError(t, err)
	require.Empty(t, log)
	log, err = program(t, "__global__ void k() { int unused; }", launch.ProgramOptions{}).Check()
	require.NoError(t, err)
	require.Contains(t, log, "warning")
	_, err = program(t, "__global__ int k();", launch.ProgramOptions{}).Check()
	require.ErrorIs(t, err, launch.ErrCompile)
	_, err = program(t, ".version 8.0", launch.ProgramOptions{Language: launch.LanguagePTX}).Check()
	require.ErrorIs(t, err, launch.ErrNotSupported)
	needNVVM(t)
	o := launch.ProgramOptions{Language: launch.LanguageNVVM}
	_, err = program(t, nvvmIR, o).Check()
	require.NoError(t, err)
	_, err = program(t, "define nonsense", o).Check()
	require.ErrorIs(t, err, launch.ErrCompile)
}

func TestDone(t *testing.T) {
	needNVRTC(t)
	done := make(chan struct{})
	p := program(t, saxpy, launch.ProgramOptions{})
	c, err := p.Compile(launch.FormatPTX, &launch.CompileOptions{Done: done})
	require.NoError(t, err, "nobody closed it")
	require.NotEmpty(t, c.Code())
}
