package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/pathfinder"
)

// handoff runs one command line.
func handoff(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = run(args, &out, &errs)
	return status, out.String(), errs.String()
}

func TestHelp(t *testing.T) {
	status, out, errs := handoff()
	require.Zero(t, status)
	require.Empty(t, errs)
	for _, c := range []string{"new-extension", "stubs", "doctor", "version"} {
		require.Contains(t, out, c)
	}
	status, again, _ := handoff("--help")
	require.Zero(t, status)
	require.Equal(t, out, again)
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"nonsense"}, "nonsense"},
		{[]string{"version", "--nonsense"}, "nonsense"},
		{[]string{"version", "extra"}, "extra"},
		{[]string{"new-extension"}, "accepts 1 arg"},
		{[]string{"new-extension", "a-b"}, "cannot name a Python module"},
		{[]string{"new-extension", "class"}, "cannot name a Python module"},
		{[]string{"new-extension", "handoff"}, "cannot name a Python module"},
		{[]string{"stubs"}, "accepts 1 arg"},
	} {
		status, out, errs := handoff(c.args...)
		require.Equal(t, 2, status, c.args)
		require.Empty(t, out, c.args)
		require.Contains(t, errs, c.want)
		require.Contains(t, errs, "--help' for usage")
	}
}

func TestVersion(t *testing.T) {
	status, out, _ := handoff("version")
	require.Zero(t, status)
	require.Contains(t, out, "DLPack 1.3")
	_, out, _ = handoff("version", "--json")
	var v versions
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	require.Equal(t, "1.3", v.DLPack)
	require.NotEmpty(t, v.Handoff)
}

func TestNewExtensionFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "thing")
	status, out, errs := handoff("new-extension", "thing", "--dir", dir, "--module", "example.com/thing")
	require.Zero(t, status, errs)
	require.Contains(t, out, "make test")
	for _, name := range []string{"go.mod", "go.sum", "main.go", "Makefile", "test_thing.py", "README.md", ".gitignore"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NotContains(t, string(text), "{{", name)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	require.Contains(t, string(mod), "module example.com/thing\n")
	require.Contains(t, string(mod), "replace github.com/go-handoff/handoff => /")

	status, _, errs = handoff("new-extension", "thing", "--dir", dir)
	require.Equal(t, 1, status)
	require.Contains(t, errs, "is not empty")
	status, _, errs = handoff("new-extension", "thing", "--dir", t.TempDir(), "--handoff", t.TempDir())
	require.Equal(t, 1, status)
	require.Contains(t, errs, "no checkout")
}

// python returns an interpreter that has pytest, or skips.
func python(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("PYTHON"), "../../.venv/bin/python", "python3"} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil && exec.Command(path, "-c", "import pytest").Run() == nil {
			abs, err := filepath.Abs(path)
			require.NoError(t, err)
			return abs
		}
	}
	t.Skip("no Python with pytest")
	return ""
}

// The skeleton works as it is: it builds, its test passes, and its stub can be
// extracted.
func TestNewExtensionBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a module")
	}
	py := python(t)
	dir := filepath.Join(t.TempDir(), "thing")
	status, _, errs := handoff("new-extension", "thing", "--dir", dir)
	require.Zero(t, status, errs)
	cmd := exec.Command("make", "test", "PYTHON="+py)
	cmd.Dir = dir
	// The tests of handoff itself must not change how the extension is built.
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOPROXY=off", "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "3 passed")

	so := filepath.Join(dir, "thing.abi3.so")
	status, text, errs := handoff("stubs", so, "--python", py, "-o", "-")
	require.Zero(t, status, errs)
	require.Contains(t, text, "def scale(x: ArrayLike, factor: float = 2.0) -> None:")
	status, _, errs = handoff("stubs", so, "--python", py)
	require.Zero(t, status, errs)
	status, _, errs = handoff("stubs", so, "--python", py, "--check")
	require.Zero(t, status, errs)
	stub := filepath.Join(dir, "thing.pyi")
	require.NoError(t, os.WriteFile(stub, []byte("old"), 0o644))
	status, _, errs = handoff("stubs", so, "--python", py, "--check")
	require.Equal(t, 1, status)
	require.Contains(t, errs, "not up to date")
	status, _, errs = handoff("stubs", so, "--python", py, "--name", "other")
	require.Equal(t, 1, status)
	require.Contains(t, errs, "PyInit_other")
}

func TestStubsErrors(t *testing.T) {
	status, _, errs := handoff("stubs", filepath.Join(t.TempDir(), "none.so"))
	require.Equal(t, 1, status)
	require.Contains(t, errs, "no such file")
	status, _, errs = handoff("stubs", "main.go", "--python", "no-such-python")
	require.Equal(t, 1, status)
	require.Contains(t, errs, "no Python found: tried no-such-python")
}

func TestDoctor(t *testing.T) {
	py := python(t)
	status, out, errs := handoff("doctor", "--json", "--python", py)
	require.Zero(t, status, errs+out)
	var d diagnosis
	require.NoError(t, json.Unmarshal([]byte(out), &d))
	names := []string{}
	for _, c := range d.Checks {
		require.True(t, c.OK, c)
		names = append(names, c.Name)
	}
	require.Equal(t, []string{"go", "C compiler", "python"}, names)
	for _, l := range d.Libraries {
		switch l.Name {
		case "numpy":
			require.Subset(t, l.Protocols, []string{"dlpack 1", "buffer", "array interface"})
			require.False(t, l.Stream)
		case "handoff":
			require.Subset(t, l.Protocols, []string{"exchange table", "dlpack 1", "buffer"})
			require.True(t, l.Stream)
		}
		require.Empty(t, l.Error, l.Name)
	}
}

// TestDoctorDevices looks at the software device, and sees that it is no GPU.
func TestDoctorDevices(t *testing.T) {
	if err := soft.Enable(nil); errors.Is(err, soft.ErrNotSupported) { // see TestMain
		t.Skip("needs the software device, which needs cgo on linux")
	}
	status, out, _ := handoff("doctor", "--json", "--python", "no-such-python")
	require.Equal(t, 1, status, "python is missing")
	var d diagnosis
	require.NoError(t, json.Unmarshal([]byte(out), &d))
	require.Equal(t, driverReport{OK: true, Provider: "soft", CUDA: "13.0"}, d.Driver)
	require.Len(t, d.Devices, 2)
	for i, dev := range d.Devices {
		require.Equal(t, i, dev.Ordinal)
		require.Contains(t, dev.Name, "software")
		require.Equal(t, []int{1 - i}, dev.Peers)
		require.NotZero(t, dev.Memory)
		require.Regexp(t, "^GPU-[0-9a-f-]{36}$", dev.UUID)
		require.Empty(t, dev.Error)
	}
	needs := map[string]need{}
	for _, n := range d.Needs {
		needs[n.For] = n
		require.Equal(t, n.OK, len(n.Missing) == 0, n)
		require.Equal(t, n.OK, n.Hint == "", n)
	}
	require.Equal(t, []string{"python"}, needs["Python modules written in Go"].Missing)
	require.Equal(t, []string{"CUDA driver", "a device"}, needs["streams, memory and kernels on a GPU"].Missing)
	_, out, _ = handoff("doctor", "--python", "no-such-python")
	require.Contains(t, out, "Handoff software device")
}

// TestDoctorToolkit looks at a toolkit that has two files, and at none.
func TestDoctorToolkit(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"include/cuda_runtime.h", "nvvm/libdevice/libdevice.10.bc"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
	}
	look := func(cuda string) (map[string]fileReport, map[string]need) {
		f, err := pathfinder.New(&pathfinder.Options{Env: &pathfinder.Environment{
			NoLoader: true, SystemDirs: []string{}, Executable: func() (string, error) { return "/x", nil },
			Getenv: func(name string) string { return map[string]string{"CUDA_PATH": cuda}[name] },
		}})
		require.NoError(t, err)
		d := diagnosis{Toolkit: toolkit(f)}
		files, needs := map[string]fileReport{}, map[string]need{}
		for _, f := range d.Toolkit {
			files[f.Kind+" "+f.Name] = f
		}
		for _, n := range d.needs() {
			needs[n.For] = n
		}
		return files, needs
	}
	files, needs := look(dir)
	require.Equal(t, fileReport{Name: "cudart", Kind: "headers", OK: true, Path: filepath.Join(dir, "include"), Via: "CUDA_PATH"}, files["headers cudart"])
	require.True(t, files["bitcode device"].OK)
	require.False(t, files["library nvrtc"].OK)
	if _, err := pathfinder.Load("nvrtc"); errors.Is(err, pathfinder.ErrNotSupported) {
		require.Contains(t, files["library nvrtc"].Error, "in builds with cgo")
		return
	}
	require.Contains(t, files["library nvrtc"].Places, "CUDA_PATH: "+filepath.Join(dir, "lib64", "libnvrtc.so.13")+": no such file")
	require.Equal(t, []string{"nvvm"}, needs["compiling NVVM IR"].Missing)
	require.Equal(t, []string{"nvrtc", "headers of cccl"}, needs["CUDA C++ that includes cuda_fp16.h and the like"].Missing)
	require.Contains(t, needs["compiling CUDA C++"].Hint, "pip install nvidia-cuda-nvrtc")

	files, needs = look("")
	require.False(t, files["headers cudart"].OK)
	require.Contains(t, files["headers cudart"].Places, "CUDA_PATH: CUDA_PATH, CUDA_HOME: not set")
	for purpose, n := range needs {
		require.False(t, n.OK, purpose)
	}
}

// TestDoctorWithoutDriver says why there is none.
func TestDoctorWithoutDriver(t *testing.T) {
	r, devices := driverAndDevices(func() (*driver.Driver, error) {
		return driver.Open(&driver.Options{Provider: driver.ProviderCUDA, Path: filepath.Join(t.TempDir(), "libcuda.so.1")})
	})
	require.False(t, r.OK)
	require.Contains(t, r.Error, "no CUDA driver")
	require.Empty(t, devices)
}

func TestDoctorWithoutPython(t *testing.T) {
	status, out, errs := handoff("doctor", "--python", "no-such-python")
	require.Equal(t, 1, status)
	require.Contains(t, out, "MISSING")
	require.Contains(t, errs, "cannot build or run extensions")
}

func TestPythonProblems(t *testing.T) {
	ok := pythonReport{Implementation: "CPython", Version: "3.11.4"}
	require.Empty(t, ok.problem())
	for _, c := range []struct {
		change func(*pythonReport)
		want   string
	}{
		{func(r *pythonReport) { r.Implementation = "PyPy" }, "CPython"},
		{func(r *pythonReport) { r.Version = "3.10.9" }, "3.11"},
		{func(r *pythonReport) { r.Version = "" }, "3.11"},
		{func(r *pythonReport) { r.FreeThreaded = true }, "free-threaded"},
		{func(r *pythonReport) { r.Debug = true }, "debug"},
	} {
		r := ok
		c.change(&r)
		require.Contains(t, r.problem(), c.want)
	}
}

func TestTable(t *testing.T) {
	d := diagnosis{Libraries: []library{{Name: "numpy", Version: "2", Protocols: []string{"buffer"}}, {Name: "x", Error: "ImportError: no"}}}
	d.add("python", true, "CPython")
	var b strings.Builder
	require.NoError(t, d.writeTable(&b))
	for _, want := range []string{"python", "numpy", "buffer", "ImportError: no"} {
		require.Contains(t, b.String(), want)
	}
}
