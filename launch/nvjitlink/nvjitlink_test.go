package nvjitlink_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/internal/testlib"
	"github.com/go-handoff/handoff/launch/nvjitlink"
	"github.com/go-handoff/handoff/pathfinder"
)

func TestMain(m *testing.M) {
	testlib.Setup()
	leak.Main(m)
}

func linker(t testing.TB, options ...string) *nvjitlink.Linker {
	t.Helper()
	l, err := nvjitlink.Load()
	testlib.Need(t, "nvJitLink", err)
	k, err := l.NewLinker(options...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close()) })
	return k
}

const (
	mainPTX = `.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 r) weight(.param .b32 x);
.visible .entry k(.param .u64 p)
{
	.reg .b64 %rd<3>;
	.reg .f32 %f<3>;
	ld.param.u64 %rd1, [p];
	ld.global.f32 %f1, [%rd1];
	{
	.param .b32 a;
	.param .b32 b;
	st.param.f32 [a], %f1;
	call.uni (b), weight, (a);
	ld.param.f32 %f2, [b];
	}
	st.global.f32 [%rd1], %f2;
	ret;
}
` + "\x00"
	partPTX = `.version 8.0
.target sm_80
.address_size 64
.visible .func (.param .b32 r) weight(.param .b32 x)
{
	.reg .f32 %f<3>;
	ld.param.f32 %f1, [x];
	add.f32 %f2, %f1, %f1;
	st.param.f32 [r], %f2;
	ret;
}
` + "\x00"
)

func TestLibrary(t *testing.T) {
	l, err := nvjitlink.Load()
	testlib.Need(t, "nvJitLink", err)
	major, _ := l.Version()
	require.GreaterOrEqual(t, major, 12)
	require.Contains(t, l.Path(), "libnvJitLink")
	again, err := nvjitlink.Load()
	require.NoError(t, err)
	require.Same(t, l, again)
	_, err = nvjitlink.Open(pathfinder.Library{})
	require.ErrorContains(t, err, "lacks nvJitLinkCreate")
}

func TestLink(t *testing.T) {
	k := linker(t, "-arch=sm_90", "-verbose")
	require.NoError(t, k.AddData(nvjitlink.InputPTX, []byte(mainPTX), "main"))
	path := filepath.Join(t.TempDir(), "part.ptx")
	require.NoError(t, os.WriteFile(path, []byte(partPTX[:len(partPTX)-1]), 0o600))
	require.NoError(t, k.AddFile(nvjitlink.InputPTX, path))
	require.NoError(t, k.Complete())
	cubin, err := k.Cubin()
	require.NoError(t, err)
	require.Equal(t, "\x7fELF", string(cubin[:4]))
	log, err := k.ErrorLog()
	require.NoError(t, err)
	require.Empty(t, log)
	log, err = k.InfoLog()
	require.NoError(t, err)
	require.NotEmpty(t, log)
	_, err = k.PTX()
	require.Error(t, err, "not a link with -lto -ptx")
}

func TestAnyInput(t *testing.T) {
	k := linker(t, "-arch=sm_90")
	require.NoError(t, k.AddData(nvjitlink.InputAny, []byte(mainPTX), "main"))
	require.NoError(t, k.AddData(nvjitlink.InputAny, []byte(partPTX), "part"))
	require.NoError(t, k.Complete())
}

func TestErrors(t *testing.T) {
	k := linker(t, "-arch=sm_90")
	require.NoError(t, k.AddData(nvjitlink.InputPTX, []byte(mainPTX), "main"))
	err := k.Complete()
	var e *nvjitlink.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "nvJitLinkComplete", e.Op)
	require.Contains(t, e.Log, "weight", "what is missing is named")
	require.Contains(t, err.Error(), "nvjitlink: nvJitLinkComplete: NVJITLINK_ERROR_")

	k = linker(t, "-arch=sm_90")
	err = k.AddData(nvjitlink.InputPTX, []byte(".version 8.0\nnonsense\x00"), "bad")
	if err == nil {
		err = k.Complete()
	}
	require.ErrorIs(t, err, nvjitlink.ErrorPTXCompile)
	require.ErrorIs(t, k.AddData(nvjitlink.InputPTX, nil, "nothing"), nvjitlink.ErrorNullInput)
	require.ErrorIs(t, k.AddData(nvjitlink.InputPTX, []byte("x\x00"), "a\x00b"), nvjitlink.ErrorInvalidInput)
	require.Error(t, k.AddFile(nvjitlink.InputPTX, filepath.Join(t.TempDir(), "none")))
	require.ErrorIs(t, k.AddFile(nvjitlink.InputPTX, "a\x00b"), nvjitlink.ErrorInvalidInput)

	l, err := nvjitlink.Load()
	require.NoError(t, err)
	_, err = l.NewLinker()
	require.ErrorIs(t, err, nvjitlink.ErrorMissingArch)
	_, err = l.NewLinker("-arch=sm_90", "-what")
	require.ErrorIs(t, err, nvjitlink.ErrorUnrecognizedOption)
	require.ErrorContains(t, err, "-what")
	_, err = l.NewLinker("-arch=sm_90\x00")
	require.ErrorIs(t, err, nvjitlink.ErrorUnrecognizedOption)
}

// TestThreads moves links between goroutines on threads of their own: the
// library takes every call of a link from one thread only.
func TestThreads(t *testing.T) {
	l, err := nvjitlink.Load()
	testlib.Need(t, "nvJitLink", err)
	// elsewhere runs f on a thread that nothing else has used, and that ends.
	elsewhere := func(f func() error) {
		t.Helper()
		done := make(chan error)
		go func() {
			runtime.LockOSThread()
			done <- f()
		}()
		require.NoError(t, <-done)
	}
	for range 5 {
		var k *nvjitlink.Linker
		elsewhere(func() (err error) { k, err = l.NewLinker("-arch=sm_90"); return err })
		elsewhere(func() error { return k.AddData(nvjitlink.InputPTX, []byte(mainPTX), "main") })
		elsewhere(func() error { return k.AddData(nvjitlink.InputPTX, []byte(partPTX), "part") })
		elsewhere(k.Complete)
		elsewhere(func() error { _, err := k.Cubin(); return err })
		elsewhere(k.Close)
	}
}

func TestClosed(t *testing.T) {
	k := linker(t, "-arch=sm_90")
	require.NoError(t, k.Close())
	require.NoError(t, k.Close())
	require.ErrorIs(t, k.AddData(nvjitlink.InputPTX, []byte("x"), ""), nvjitlink.ErrClosed)
	require.ErrorIs(t, k.AddFile(nvjitlink.InputPTX, "x"), nvjitlink.ErrClosed)
	require.ErrorIs(t, k.Complete(), nvjitlink.ErrClosed)
	_, err := k.Cubin()
	require.ErrorIs(t, err, nvjitlink.ErrClosed)
	_, err = k.ErrorLog()
	require.ErrorIs(t, err, nvjitlink.ErrClosed)
	_, err = k.InfoLog()
	require.ErrorIs(t, err, nvjitlink.ErrClosed)
}

func TestResult(t *testing.T) {
	require.Equal(t, "NVJITLINK_ERROR_LTO_NOT_ENABLED", nvjitlink.ErrorLTONotEnabled.Name())
	require.Equal(t, "NVJITLINK_ERROR_77", nvjitlink.Result(77).Error())
	require.Equal(t, "NVJITLINK_ERROR_-1", nvjitlink.Result(-1).Error())
}
