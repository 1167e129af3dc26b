package nvvm_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/internal/testlib"
	"github.com/go-handoff/handoff/launch/nvvm"
	"github.com/go-handoff/handoff/pathfinder"
)

func TestMain(m *testing.M) {
	testlib.Setup()
	leak.Main(m)
}

func load(t testing.TB) *nvvm.Library {
	t.Helper()
	l, err := nvvm.Load()
	testlib.Need(t, "libNVVM", err)
	return l
}

func program(t testing.TB, modules ...string) *nvvm.Program {
	t.Helper()
	p, err := load(t).NewProgram()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	for _, m := range modules {
		require.NoError(t, p.Add([]byte(m), "module"))
	}
	return p
}

const ir = `target datalayout = "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare float @__nv_sinf(float)
define void @sine(float* %p) {
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

func TestLibrary(t *testing.T) {
	l := load(t)
	major, _ := l.Version()
	require.GreaterOrEqual(t, major, 2)
	require.Contains(t, l.Path(), "libnvvm")
	v, err := l.IRVersion()
	require.NoError(t, err)
	require.Equal(t, 2, v.Major)
	require.Positive(t, v.DebugMajor)
	llvm, err := l.LLVMVersion("compute_90")
	if !errors.Is(err, nvvm.ErrNotSupported) {
		require.NoError(t, err)
		require.Positive(t, llvm)
		_, err = l.LLVMVersion("a\x00b")
		require.ErrorIs(t, err, nvvm.ErrorInvalidInput)
	}
	_, err = nvvm.Open(pathfinder.Library{})
	require.ErrorContains(t, err, "lacks nvvmCreateProgram")
}

func TestCompile(t *testing.T) {
	p := program(t, ir)
	_, err := nvvm.Libdevice()
	testlib.Need(t, "libdevice", err)
	require.NoError(t, p.AddLibdevice())
	require.NoError(t, p.Verify("-arch=compute_90"))
	require.NoError(t, p.Compile("-arch=compute_90"))
	ptx, err := p.Result()
	require.NoError(t, err)
	require.Contains(t, string(ptx), ".entry sine(")
	require.NotContains(t, string(ptx), ".extern .func")
	require.Zero(t, ptx[len(ptx)-1], "PTX ends with a zero byte")
	_, err = p.Log()
	require.NoError(t, err)
}

func TestErrors(t *testing.T) {
	p := program(t, "define nonsense")
	err := p.Compile("-arch=compute_90")
	var e *nvvm.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "nvvmCompileProgram", e.Op)
	require.NotEmpty(t, e.Log)
	require.Contains(t, err.Error(), "nvvm: nvvmCompileProgram: NVVM_ERROR_")
	require.ErrorIs(t, program(t).Compile("-arch=compute_90"), nvvm.ErrorNoModuleInProgram)
	p = program(t, ir)
	require.ErrorIs(t, p.Compile("-what"), nvvm.ErrorInvalidOption)
	require.ErrorIs(t, p.Compile("a\x00b"), nvvm.ErrorInvalidOption)
	require.ErrorIs(t, p.Add(nil, "empty"), nvvm.ErrorInvalidInput)
	require.ErrorIs(t, p.Add([]byte(ir), "a\x00b"), nvvm.ErrorInvalidInput)
}

func TestClosed(t *testing.T) {
	p := program(t)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Add([]byte(ir), ""), nvvm.ErrClosed)
	require.ErrorIs(t, p.Compile(), nvvm.ErrClosed)
	_, err := p.Result()
	require.ErrorIs(t, err, nvvm.ErrClosed)
	_, err = p.Log()
	require.ErrorIs(t, err, nvvm.ErrClosed)
}

func TestResult(t *testing.T) {
	require.Equal(t, "NVVM_ERROR_CANCELLED", nvvm.ErrorCancelled.Name())
	require.Equal(t, "NVVM_ERROR_77", nvvm.Result(77).Error())
	require.Equal(t, "NVVM_ERROR_-1", nvvm.Result(-1).Error())
}
