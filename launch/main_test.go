package launch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/internal/testlib"
	"github.com/go-handoff/handoff/launch"
	"github.com/go-handoff/handoff/launch/nvjitlink"
	"github.com/go-handoff/handoff/launch/nvrtc"
	"github.com/go-handoff/handoff/launch/nvvm"
)

// The tests run on the software device, and unchanged on a GPU with
// HANDOFF_DRIVER=cuda. Compiling and linking is real everywhere. Nothing may
// be left when they are done.
func TestMain(m *testing.M) {
	testlib.Setup()
	// A kernel that is loaded by its first launch waits for the whole context,
	// and so for the work that a test blocks on purpose.
	if err := os.Setenv("CUDA_MODULE_LOADING", "EAGER"); err != nil {
		panic(err)
	}
	if mode := os.Getenv("LAUNCH_TEST_CHILD"); mode != "" {
		os.Exit(child(mode))
	}
	os.Exit(leak.Run(func() int {
		code := m.Run()
		if err := device.Flush(context.Background()); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		if s := launch.Stats(); code == 0 && (s.Libraries|s.Kernels) != 0 {
			fmt.Fprintf(os.Stderr, "left over: %+v\n", s)
			code = 1
		}
		return code
	}, os.Stderr))
}

// flush waits until memory outside of pools is given back, which would wait for the work that the next test
// holds up.
func flush(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, device.Flush(ctx))
}

// openDevice returns device 0.
func openDevice(t testing.TB) *device.Device {
	t.Helper()
	testdriver.Open(t)
	t.Cleanup(func() { flush(t) })
	d, err := device.Open(0)
	require.NoError(t, err)
	return d
}

func needNVRTC(t testing.TB) {
	t.Helper()
	_, err := nvrtc.Load()
	testlib.Need(t, "NVRTC", err)
}

func needNvJitLink(t testing.TB) {
	t.Helper()
	_, err := nvjitlink.Load()
	testlib.Need(t, "nvJitLink", err)
}

func needNVVM(t testing.TB) {
	t.Helper()
	_, err := nvvm.Load()
	testlib.Need(t, "libNVVM", err)
	_, err = nvvm.Libdevice()
	testlib.Need(t, "libdevice", err)
}

// program makes a program that does not need a device.
func program(t testing.TB, source string, opts launch.ProgramOptions) *launch.Program {
	t.Helper()
	if opts.Arch == "" {
		opts.Arch = "sm_90"
	}
	p, err := launch.NewProgram(source, &opts)
	require.NoError(t, err)
	return p
}

// compile compiles CUDA C++.
func compile(t testing.TB, source string, target launch.Format, opts launch.ProgramOptions, names ...string) *launch.ObjectCode {
	t.Helper()
	needNVRTC(t)
	c, err := program(t, source, opts).Compile(target, &launch.CompileOptions{Names: names})
	require.NoError(t, err)
	closeLater(t, c)
	return c
}

func closeLater(t testing.TB, c interface{ Close() error }) {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, c.Close()) })
}

// as returns the error of a type in a chain.
func as[T error](t testing.TB, err error) T {
	t.Helper()
	var e T
	require.Truef(t, errors.As(err, &e), "%v", err)
	return e
}

// child is what a process of its own does for a test.
func child(mode string) int {
	switch mode {
	case "cache":
		return cacheProcess()
	case "headers":
		return headersProcess()
	case "faults":
		return faultsProcess()
	}
	return 2
}

// How long, and how often, a test looks for what the collector does.
const (
	waitFor = 20 * time.Second
	tick    = 10 * time.Millisecond
)
