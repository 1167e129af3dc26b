package launch_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/launch"
	"github.com/go-handoff/handoff/launch/nvrtc"
)

const halfSource = "#include <cuda_fp16.h>\n__global__ void k(__half *p, float f) { *p = __float2half(f); }\n"

// TestBundledHeaders compiles with NVRTC's own headers, from many goroutines at
// first, whose directory none of them has made yet.
func TestBundledHeaders(t *testing.T) {
	needNVRTC(t)
	l, err := nvrtc.Load()
	require.NoError(t, err)
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	use := func(source string) error {
		_, err := program(t, source, launch.ProgramOptions{Arch: "sm_90", BundledHeaders: true}).Compile(launch.FormatPTX, nil)
		return err
	}
	if major, minor := l.Version(); major < 13 || major == 13 && minor < 3 {
		err := use(halfSource)
		require.ErrorIs(t, err, launch.ErrNotSupported)
		require.ErrorContains(t, err, "use ToolkitHeaders")
		return
	}
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[i] = use(halfSource)
		}()
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	made, err := os.ReadDir(filepath.Join(home, "handoff", "headers"))
	require.NoError(t, err)
	require.Len(t, made, 1, "one directory, and nothing half made")
	require.True(t, strings.HasPrefix(made[0].Name(), "nvrtc-"), made[0].Name())
	_, err = program(t, "#include <cuda/std/version>\n#ifndef CCCL_VERSION\n#error CCCL\n#endif\n", launch.ProgramOptions{Arch: "sm_90", BundledHeaders: true}).Check()
	require.NoError(t, err, "CCCL is there")

	// A cache takes it without a salt: what is bundled is the compiler's.
	cache := launch.NewMemoryCache(0)
	for range 2 {
		_, err = program(t, halfSource, launch.ProgramOptions{Arch: "sm_90", BundledHeaders: true}).Compile(launch.FormatCubin, &launch.CompileOptions{Cache: cache})
		require.NoError(t, err)
	}
	require.Equal(t, 1, cache.Len())

	file := filepath.Join(home, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	t.Setenv("XDG_CACHE_HOME", file)
	require.ErrorContains(t, use(halfSource), "bundled headers")
}

// TestHeadersAreInTheKey: headers of the toolkit that change in their place are
// other headers, and compiled again.
func TestHeadersAreInTheKey(t *testing.T) {
	needNVRTC(t)
	self, err := os.Executable()
	require.NoError(t, err)
	l, err := nvrtc.Load()
	require.NoError(t, err)
	dir := t.TempDir()
	// The libraries of the environment, but headers of a toolkit of our own.
	site := filepath.Join(dir, "venv", "lib", "python3.11", "site-packages", "nvidia", "cu13", "lib")
	require.NoError(t, os.MkdirAll(site, 0o755))
	libs, err := filepath.Glob(filepath.Join(filepath.Dir(l.Path()), "libnvrtc*"))
	require.NoError(t, err)
	for _, lib := range libs {
		require.NoError(t, os.Symlink(lib, filepath.Join(site, filepath.Base(lib))))
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "LAUNCH_TEST_CHILD=headers", "LAUNCH_TEST_DIR="+dir,
		"CUDA_PATH="+filepath.Join(dir, "toolkit"), "VIRTUAL_ENV="+filepath.Join(dir, "venv"), "LD_LIBRARY_PATH="+filepath.Dir(l.Path()))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "1 1 2 3\n", string(out), "entries of the cache")
}

// headersProcess compiles while the toolkit's headers change.
func headersProcess() int {
	file := filepath.Join(os.Getenv("CUDA_PATH"), "include", "cuda_runtime.h")
	cache := launch.NewMemoryCache(0)
	compile := func() int {
		p, err := launch.NewProgram("#include <cuda_runtime.h>\nextern \"C\" __global__ void k(T *p) { *p = 1; }", &launch.ProgramOptions{Arch: "sm_90", ToolkitHeaders: true})
		if err == nil {
			_, err = p.Compile(launch.FormatPTX, &launch.CompileOptions{Cache: cache})
		}
		if err != nil {
			fmt.Println(err)
		}
		return cache.Len()
	}
	write := func(text string, at time.Time) {
		_ = os.MkdirAll(filepath.Dir(file), 0o755)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			fmt.Println(err)
		}
		_ = os.Chtimes(file, at, at)
	}
	now := time.Now()
	write("typedef int T;", now)
	first, again := compile(), compile()
	write("typedef short T;", now)
	other := compile()
	write("typedef float T;", now.Add(time.Hour))
	fmt.Println(first, again, other, compile())
	return 0
}
