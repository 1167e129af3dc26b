package nvrtc_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/internal/testlib"
	"github.com/go-handoff/handoff/launch/nvrtc"
	"github.com/go-handoff/handoff/pathfinder"
)

func TestMain(m *testing.M) {
	testlib.Setup()
	leak.Main(m)
}

func load(t testing.TB) *nvrtc.Library {
	t.Helper()
	l, err := nvrtc.Load()
	testlib.Need(t, "NVRTC", err)
	return l
}

func program(t testing.TB, l *nvrtc.Library, source string, headers ...nvrtc.Header) *nvrtc.Program {
	t.Helper()
	p, err := l.NewProgram(source, "test.cu", headers)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

const kernel = `extern "C" __global__ void scale(float *x, float f) { x[threadIdx.x] *= f; }`

func TestLibrary(t *testing.T) {
	l := load(t)
	major, _ := l.Version()
	require.GreaterOrEqual(t, major, 12)
	require.Contains(t, l.Path(), "libnvrtc")
	archs, err := l.SupportedArchs()
	require.NoError(t, err)
	require.Contains(t, archs, 90)
	require.IsIncreasing(t, archs)
	again, err := nvrtc.Load()
	require.NoError(t, err)
	require.Same(t, l, again)
}

func TestOutputs(t *testing.T) {
	l := load(t)
	p := program(t, l, kernel)
	require.NoError(t, p.Compile("-arch=sm_90"))
	ptx, err := p.PTX()
	require.NoError(t, err)
	require.Contains(t, string(ptx), ".entry scale(")
	require.Zero(t, ptx[len(ptx)-1], "PTX ends with a zero byte")
	cubin, err := p.Cubin()
	require.NoError(t, err)
	require.Equal(t, "\x7fELF", string(cubin[:4]))
	_, err = p.LTOIR()
	require.Error(t, err, "not compiled for it")
	log, err := p.Log()
	require.NoError(t, err)
	require.Empty(t, log)

	virtual := program(t, l, kernel)
	require.NoError(t, virtual.Compile("-arch=compute_90"))
	_, err = virtual.Cubin()
	require.ErrorIs(t, err, nvrtc.ErrNoOutput)

	lto := program(t, l, kernel)
	require.NoError(t, lto.Compile("-arch=sm_90", "-dlto"))
	ir, err := lto.LTOIR()
	require.NoError(t, err)
	require.NotEmpty(t, ir)
}

func TestCompileError(t *testing.T) {
	l := load(t)
	p := program(t, l, "int f() {\n  return missing;\n}\n")
	err := p.Compile("-arch=sm_90")
	var e *nvrtc.Error
	require.ErrorAs(t, err, &e)
	require.ErrorIs(t, err, nvrtc.ErrorCompilation)
	require.Equal(t, "nvrtcCompileProgram", e.Op)
	require.Contains(t, e.Log, "test.cu(2): error: ")
	require.Contains(t, err.Error(), "NVRTC_ERROR_COMPILATION")
	_, err = p.Cubin()
	require.Error(t, err)

	bad := program(t, l, kernel)
	require.ErrorIs(t, bad.Compile("--no-such-option"), nvrtc.ErrorInvalidOption)
	require.ErrorIs(t, bad.Compile("-arch=sm_90\x00x"), nvrtc.ErrorInvalidOption)
}

func TestNames(t *testing.T) {
	l := load(t)
	p := program(t, l, `namespace n { template <class T> __global__ void fill(T *x, T v) { *x = v; } __constant__ int c; }`)
	require.NoError(t, p.AddNameExpression("n::fill<float>"))
	require.NoError(t, p.AddNameExpression("&n::c"))
	_, err := p.LoweredName("n::fill<float>")
	require.ErrorIs(t, err, nvrtc.ErrorNoLoweredNamesBeforeCompile)
	require.NoError(t, p.Compile("-arch=sm_90"))
	name, err := p.LoweredName("n::fill<float>")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(name, "_ZN1n4fillIf"), name)
	name, err = p.LoweredName("&n::c")
	require.NoError(t, err)
	require.NotEmpty(t, name)
	_, err = p.LoweredName("n::fill<double>")
	require.ErrorIs(t, err, nvrtc.ErrorNameExpressionNotValid)
	require.ErrorIs(t, p.AddNameExpression("n::fill<int>"), nvrtc.ErrorNoNameExpressionsAfterCompile)
	require.ErrorIs(t, p.AddNameExpression("a\x00b"), nvrtc.ErrorInvalidInput)
	_, err = p.LoweredName("a\x00b")
	require.ErrorIs(t, err, nvrtc.ErrorInvalidInput)
}

func TestHeaders(t *testing.T) {
	l := load(t)
	p := program(t, l, "#include \"a.h\"\n#include <dir/b.h>\n__global__ void k(int *x) { *x = A + B; }",
		nvrtc.Header{Name: "a.h", Source: "#define A 1\n"}, nvrtc.Header{Name: "dir/b.h", Source: "#define B 2\n"})
	require.NoError(t, p.Compile("-arch=sm_90"))
	_, err := l.NewProgram("a\x00b", "", nil)
	require.ErrorIs(t, err, nvrtc.ErrorInvalidInput)
	_, err = l.NewProgram("", "a\x00b", nil)
	require.ErrorIs(t, err, nvrtc.ErrorInvalidInput)
	_, err = l.NewProgram("", "", []nvrtc.Header{{Name: "a\x00b"}})
	require.ErrorIs(t, err, nvrtc.ErrorInvalidInput)
	_, err = l.NewProgram("", "", []nvrtc.Header{{Source: "a\x00b"}})
	require.ErrorIs(t, err, nvrtc.ErrorInvalidInput)
}

func TestPCH(t *testing.T) {
	l := load(t)
	n, err := l.PCHHeapSize()
	if errors.Is(err, nvrtc.ErrNotSupported) {
		t.Skip("needs NVRTC 12.8")
	}
	require.NoError(t, err)
	require.NoError(t, l.SetPCHHeapSize(n))
	p := program(t, l, "#include \"a.h\"\n__global__ void k(int *x) { *x = A; }", nvrtc.Header{Name: "a.h", Source: "#define A 1\n"})
	require.NoError(t, p.Compile("-arch=sm_90"))
	require.ErrorIs(t, p.PCHCreateStatus(), nvrtc.ErrorNoPCHCreateAttempted)

	p = program(t, l, "#include \"a.h\"\n__global__ void k(int *x) { *x = A; }", nvrtc.Header{Name: "a.h", Source: "#define A 1\n"})
	require.NoError(t, p.Compile("-arch=sm_90", "-pch", "-pch-dir="+t.TempDir()))
	if err := p.PCHCreateStatus(); err == nil {
		need, err := p.PCHHeapSizeRequired()
		require.NoError(t, err)
		require.Positive(t, need)
	}
}

// TestCancel cancels before compiling: the compiler sees it at its first look.
func TestCancel(t *testing.T) {
	l := load(t)
	p := program(t, l, kernel)
	if err := p.Cancel(); errors.Is(err, nvrtc.ErrNotSupported) {
		t.Skip("needs NVRTC 12.9")
	}
	require.ErrorIs(t, p.Compile("-arch=sm_90"), nvrtc.ErrorCancelled)
}

func TestClosed(t *testing.T) {
	l := load(t)
	p, err := l.NewProgram(kernel, "", nil)
	require.NoError(t, err)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Compile(), nvrtc.ErrClosed)
	require.ErrorIs(t, p.AddNameExpression("x"), nvrtc.ErrClosed)
	for name, f := range map[string]func() ([]byte, error){"PTX": p.PTX, "cubin": p.Cubin, "LTO IR": p.LTOIR, "OptiX IR": p.OptiXIR} {
		_, err := f()
		require.ErrorIs(t, err, nvrtc.ErrClosed, name)
	}
	_, err = p.Log()
	require.ErrorIs(t, err, nvrtc.ErrClosed)
	_, err = p.LoweredName("x")
	require.ErrorIs(t, err, nvrtc.ErrClosed)
}

func TestAtOnce(t *testing.T) {
	l := load(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			p, err := l.NewProgram(fmt.Sprintf("__global__ void k%d() {}", i), "", nil)
			if err != nil {
				t.Error(err)
				return
			}
			if err := errors.Join(p.Compile("-arch=sm_90"), p.Close()); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
}

func TestResult(t *testing.T) {
	require.Equal(t, "NVRTC_ERROR_BUSY", nvrtc.ErrorBusy.Name())
	require.Equal(t, "NVRTC_ERROR_77", nvrtc.Result(77).Error())
	require.Equal(t, "NVRTC_ERROR_-1", nvrtc.Result(-1).Error())
	e := &nvrtc.Error{Op: "nvrtcVersion", Result: nvrtc.ErrorInternalError}
	require.Equal(t, "nvrtc: nvrtcVersion: NVRTC_ERROR_INTERNAL_ERROR", e.Error())
}

// TestAbsent opens a library that has none of the functions.
func TestAbsent(t *testing.T) {
	_, err := nvrtc.Open(pathfinder.Library{})
	require.ErrorContains(t, err, "lacks nvrtcCreateProgram")
	f, err := pathfinder.New(&pathfinder.Options{Files: map[string]string{"nvrtc": os.DevNull}, Env: &pathfinder.Environment{NoLoader: true}})
	require.NoError(t, err)
	_, err = f.Load("nvrtc")
	if errors.Is(err, pathfinder.ErrNotSupported) {
		t.Skip("this build opens no library")
	}
	require.ErrorIs(t, err, pathfinder.ErrNotFound)
}
