package pathfinder_test

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/pathfinder"
)

// tree is a made-up machine below a temporary directory.
type tree struct {
	t    *testing.T
	root string
	env  map[string]string
}

func newTree(t *testing.T) *tree {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return &tree{t, root, map[string]string{}}
}

func (r *tree) path(rel string) string { return filepath.Join(r.root, filepath.FromSlash(rel)) }

// file makes an empty file; a name in bin is executable.
func (r *tree) file(rel string) string {
	r.t.Helper()
	mode := os.FileMode(0o644)
	if strings.Contains(rel, "/bin/") {
		mode = 0o755
	}
	p := r.path(rel)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(p), 0o755))
	require.NoError(r.t, os.WriteFile(p, nil, mode))
	return p
}

// options never look at the real machine.
func (r *tree) options() *pathfinder.Options {
	return &pathfinder.Options{Env: &pathfinder.Environment{
		Getenv:     func(k string) string { return r.env[k] },
		SystemDirs: []string{r.path("usr/local/cuda")},
		Executable: func() (string, error) { return r.path("usr/bin/program"), nil },
		NoLoader:   true,
	}}
}

func (r *tree) finder(change ...func(*pathfinder.Options)) *pathfinder.Finder {
	r.t.Helper()
	o := r.options()
	for _, c := range change {
		c(o)
	}
	f, err := pathfinder.New(o)
	require.NoError(r.t, err)
	return f
}

func (r *tree) locate(name string, change ...func(*pathfinder.Options)) pathfinder.Location {
	r.t.Helper()
	l, err := r.finder(change...).Locate(name)
	require.NoError(r.t, err)
	return l
}

const site = "venv/lib/python3.12/site-packages/"

// TestOrder puts the same library everywhere and takes one place away after the
// other.
func TestOrder(t *testing.T) {
	r := newTree(t)
	r.env = map[string]string{
		"VIRTUAL_ENV": r.path("venv"), "CONDA_PREFIX": r.path("conda"), "CUDA_PATH": r.path("toolkit"), "CUDA_HOME": r.path("home"),
		"LD_LIBRARY_PATH": r.path("empty") + string(os.PathListSeparator) + r.path("opt/x/lib64"),
	}
	r.file("opt/x/lib64/libcudart.so.13")
	r.file("opt/x/bin/ptxas")
	want := []struct {
		file string
		via  pathfinder.Via
		ctk  int
	}{
		{site + "nvidia/cu13/lib/libnvrtc.so.13", pathfinder.ViaSitePackages, 13},
		{site + "nvidia/cuda_nvrtc/lib/libnvrtc.so.12", pathfinder.ViaSitePackages, 12},
		{"conda/lib/libnvrtc.so.13", pathfinder.ViaConda, 13},
		{"conda/targets/x86_64-linux/lib/libnvrtc.so.12", pathfinder.ViaConda, 12},
		{"toolkit/lib64/libnvrtc.so.12", pathfinder.ViaCUDAPath, 12},
		{"opt/x/lib64/libnvrtc.so.13", pathfinder.ViaToolkit, 13},
		{"usr/local/cuda/lib64/libnvrtc.so.13", pathfinder.ViaSystem, 13},
		{"usr/local/cuda/targets/x86_64-linux/lib/libnvrtc.so.12", pathfinder.ViaSystem, 12},
	}
	r.file("home/lib64/libnvrtc.so.13") // CUDA_HOME does not count beside CUDA_PATH
	for _, w := range want {
		r.file(w.file)
	}
	for _, w := range want {
		l := r.locate("nvrtc")
		require.Equal(t, pathfinder.Location{Name: "nvrtc", Path: r.path(w.file), Via: w.via, CTK: w.ctk}, l)
		require.NoError(t, os.Remove(r.path(w.file)))
	}
	f := r.finder()
	_, err := f.Locate("nvrtc")
	require.ErrorIs(t, err, pathfinder.ErrNotFound)
	var missing *pathfinder.NotFoundError
	require.ErrorAs(t, err, &missing)
	for _, w := range want {
		require.Contains(t, err.Error(), strings.TrimSuffix(r.path(w.file), ".so.13"), "every place is named")
	}
	require.NotContains(t, err.Error(), r.path("home"))
	require.Len(t, f.Warnings(), 1)

	// A finder does not remember what it did not find.
	r.file(want[0].file)
	_, err = f.Locate("nvrtc")
	require.NoError(t, err)
}

func TestCTK(t *testing.T) {
	r := newTree(t)
	r.env["VIRTUAL_ENV"] = r.path("venv")
	r.file(site + "nvidia/cu13/lib/libnvJitLink.so.13")
	r.file(site + "nvidia/nvjitlink/lib/libnvJitLink.so.12")
	r.file(site + "nvidia/cu13/include/nvJitLink.h")
	r.file(site + "nvidia/nvjitlink/include/nvJitLink.h")
	r.file(site + "nvidia/nccl/lib/libnccl.so.2")
	for ctk, want := range map[int]string{0: "nvidia/cu13", 13: "nvidia/cu13", 12: "nvidia/nvjitlink"} {
		set := func(o *pathfinder.Options) { o.CTK = ctk }
		l := r.locate("nvJitLink", set)
		require.Equal(t, r.path(site+want+"/lib"), filepath.Dir(l.Path))
		h, err := r.finder(set).Headers("nvJitLink")
		require.NoError(t, err)
		require.Equal(t, r.path(site+want+"/include"), h.Path)
		require.Equal(t, max(ctk, 12+btoi(ctk == 0)), h.CTK)
		require.Zero(t, r.locate("nccl", set).CTK, "the same file for both")
	}
	_, err := pathfinder.New(&pathfinder.Options{CTK: 11})
	require.ErrorIs(t, err, pathfinder.ErrUnknown)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestSitePackages(t *testing.T) {
	r := newTree(t)
	given := r.file("given/nvidia/cu13/lib/libcudart.so.13")
	venv := r.file(site + "nvidia/cu13/lib/libcudart.so.13")
	own := r.file("py/lib/python3.11/site-packages/nvidia/cu13/lib/libcudart.so.13")
	r.env["VIRTUAL_ENV"] = r.path("venv")
	inPython := func(o *pathfinder.Options) {
		o.Env.Executable = func() (string, error) { return r.path("py/bin/python3.11"), nil }
	}
	require.Equal(t, given, r.locate("cudart", inPython, func(o *pathfinder.Options) { o.SitePackages = []string{r.path("given")} }).Path)
	require.Equal(t, venv, r.locate("cudart", inPython).Path)
	delete(r.env, "VIRTUAL_ENV")
	require.Equal(t, own, r.locate("cudart", inPython).Path)
	_, err := r.finder().Locate("cudart")
	require.ErrorIs(t, err, pathfinder.ErrNotFound)
	require.Contains(t, err.Error(), "VIRTUAL_ENV: not set")
	_, err = r.finder(func(o *pathfinder.Options) { // an executable that cannot be told
		o.Env.Executable = func() (string, error) { return "", errors.New("gone") }
	}).Locate("cudart")
	require.ErrorIs(t, err, pathfinder.ErrNotFound)
}

func TestGivenPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	r := newTree(t)
	r.env["VIRTUAL_ENV"] = r.path("venv")
	r.file(site + "nvidia/cu13/lib/libcudart.so.13")
	require.NoError(t, exec.Command(python, "-m", "venv", "--without-pip", r.path("asked")).Run())
	sites, err := filepath.Glob(r.path("asked/lib/python3*/site-packages"))
	require.NoError(t, err)
	require.NotEmpty(t, sites)
	rel, err := filepath.Rel(r.root, sites[0])
	require.NoError(t, err)
	want := r.file(filepath.ToSlash(rel) + "/nvidia/cu13/lib/libcudart.so.13")
	ask := func(o *pathfinder.Options) { o.Python = r.path("asked/bin/python3") }
	require.Equal(t, want, r.locate("cudart", ask).Path)

	broken := r.finder(func(o *pathfinder.Options) { o.Python = r.path("no/python") })
	_, err = broken.Locate("cudart")
	require.ErrorIs(t, err, pathfinder.ErrNotFound)
	require.Contains(t, err.Error(), "ask "+r.path("no/python"))
	require.Len(t, broken.Warnings(), 1)
}

func TestNvvmAndCupti(t *testing.T) {
	for file, name := range map[string]string{
		site + "nvidia/cu13/lib/libnvvm.so.4":             "nvvm",
		site + "nvidia/cuda_nvcc/nvvm/lib64/libnvvm.so":   "nvvm",
		"toolkit/nvvm/lib64/libnvvm.so.4":                 "nvvm",
		"conda/nvvm/lib64/libnvvm.so":                     "nvvm",
		site + "nvidia/cuda_cupti/lib/libcupti.so.12":     "cupti",
		"toolkit/extras/CUPTI/lib64/libcupti.so.13":       "cupti",
		"conda/lib/libcupti.so.12":                        "cupti",
		site + "nvidia/cufile/lib/libcufile.so.0":         "cufile",
		site + "nvidia/curand/lib/libcurand.so.10":        "curand",
		"toolkit/targets/x86_64-linux/lib/libcufile.so.0": "cufile",
	} {
		t.Run(file, func(t *testing.T) {
			r := newTree(t)
			r.env = map[string]string{"VIRTUAL_ENV": r.path("venv"), "CONDA_PREFIX": r.path("conda"), "CUDA_HOME": r.path("toolkit")}
			want := r.file(file)
			require.Equal(t, want, r.locate(name).Path)
		})
	}
}

func TestFiles(t *testing.T) {
	type find func(f *pathfinder.Finder, name string) (pathfinder.Location, error)
	headers, binary := (*pathfinder.Finder).Headers, (*pathfinder.Finder).Binary
	bitcode, static := (*pathfinder.Finder).Bitcode, (*pathfinder.Finder).Static
	for _, c := range []struct {
		find find
		name string
		file string
		dir  string // the result, if it is not the file
		via  pathfinder.Via
	}{
		{headers, "cudart", site + "nvidia/cu13/include/cuda_runtime.h", site + "nvidia/cu13/include", pathfinder.ViaSitePackages},
		{headers, "cudart", site + "nvidia/cuda_runtime/include/cuda_runtime.h", site + "nvidia/cuda_runtime/include", pathfinder.ViaSitePackages},
		{headers, "cccl", site + "nvidia/cu13/include/cccl/cuda/std/version", site + "nvidia/cu13/include/cccl", pathfinder.ViaSitePackages},
		{headers, "cccl", site + "nvidia/cuda_cccl/include/cuda/std/version", site + "nvidia/cuda_cccl/include", pathfinder.ViaSitePackages},
		{headers, "cccl", "toolkit/include/cccl/cuda/std/version", "toolkit/include/cccl", pathfinder.ViaCUDAPath},
		{headers, "cccl", "toolkit/include/cuda/std/version", "toolkit/include", pathfinder.ViaCUDAPath},
		{headers, "nvvm", "toolkit/nvvm/include/nvvm.h", "toolkit/nvvm/include", pathfinder.ViaCUDAPath},
		{headers, "cupti", "toolkit/extras/CUPTI/include/cupti.h", "toolkit/extras/CUPTI/include", pathfinder.ViaCUDAPath},
		{headers, "nvrtc", "conda/targets/x86_64-linux/include/nvrtc.h", "conda/targets/x86_64-linux/include", pathfinder.ViaConda},
		{headers, "nvrtc", "conda/include/nvrtc.h", "conda/include", pathfinder.ViaConda},
		{headers, "nvrtc", "usr/local/cuda/include/nvrtc.h", "usr/local/cuda/include", pathfinder.ViaSystem},
		{binary, "ptxas", site + "nvidia/cu13/bin/ptxas", "", pathfinder.ViaSitePackages},
		{binary, "ptxas", site + "nvidia/cuda_nvcc/bin/ptxas", "", pathfinder.ViaSitePackages},
		{binary, "cuobjdump", "conda/bin/cuobjdump", "", pathfinder.ViaConda},
		{binary, "nvcc", "toolkit/bin/nvcc", "", pathfinder.ViaCUDAPath},
		{binary, "nvcc", "usr/local/cuda/bin/nvcc", "", pathfinder.ViaSystem},
		{bitcode, "device", site + "nvidia/cu13/nvvm/libdevice/libdevice.10.bc", "", pathfinder.ViaSitePackages},
		{bitcode, "device", site + "nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc", "", pathfinder.ViaSitePackages},
		{bitcode, "device", "conda/nvvm/libdevice/libdevice.10.bc", "", pathfinder.ViaConda},
		{static, "cudadevrt", site + "nvidia/cuda_runtime/lib/libcudadevrt.a", "", pathfinder.ViaSitePackages},
		{static, "cudadevrt", "toolkit/lib64/libcudadevrt.a", "", pathfinder.ViaCUDAPath},
		{static, "cudart_static", "conda/targets/sbsa-linux/lib/libcudart_static.a", "", pathfinder.ViaConda},
	} {
		t.Run(c.name+" "+c.file, func(t *testing.T) {
			r := newTree(t)
			r.env = map[string]string{"VIRTUAL_ENV": r.path("venv"), "CONDA_PREFIX": r.path("conda"), "CUDA_PATH": r.path("toolkit")}
			f := r.finder()
			_, err := c.find(f, c.name)
			require.ErrorIs(t, err, pathfinder.ErrNotFound)
			require.Contains(t, err.Error(), "site-packages: "+r.path("venv")+": has no site-packages")
			r.file(site + "pip/version")
			_, err = c.find(f, c.name)
			require.ErrorIs(t, err, pathfinder.ErrNotFound)
			require.Contains(t, err.Error(), r.path(site+"nvidia/cu13"))
			want := r.file(c.file)
			if c.dir != "" {
				want = r.path(c.dir)
			}
			l, err := c.find(f, c.name)
			require.NoError(t, err)
			require.Equal(t, want, l.Path)
			require.Equal(t, c.via, l.Via)
			require.NoError(t, os.Remove(r.path(c.file)))
			again, err := c.find(f, c.name)
			require.NoError(t, err)
			require.Equal(t, l, again, "remembered")
			_, err = c.find(f, "no such thing")
			require.ErrorIs(t, err, pathfinder.ErrUnknown)
		})
	}
	t.Run("several targets are none", func(t *testing.T) {
		r := newTree(t)
		r.env["CONDA_PREFIX"] = r.path("conda")
		r.file("conda/targets/x86_64-linux/include/nvrtc.h")
		r.file("conda/targets/sbsa-linux/include/nvrtc.h")
		_, err := r.finder().Headers("nvrtc")
		require.ErrorIs(t, err, pathfinder.ErrNotFound)
	})
	t.Run("a tool that cannot be run, a directory, PATH", func(t *testing.T) {
		r := newTree(t)
		r.env["CUDA_PATH"] = r.path("toolkit")
		r.env["PATH"] = r.path("path/bin")
		r.file("path/bin/ptxas")
		require.NoError(t, os.Chmod(r.file("toolkit/bin/ptxas"), 0o644))
		r.file("toolkit/bin/nvcc/x")
		_, err := r.finder().Binary("nvcc")
		require.ErrorIs(t, err, pathfinder.ErrNotFound)
		require.Contains(t, err.Error(), "is a directory")
		if runtime.GOOS != "windows" {
			_, err = r.finder().Binary("ptxas")
			require.ErrorIs(t, err, pathfinder.ErrNotFound)
			require.Contains(t, err.Error(), "is not executable")
		}
	})
	t.Run("symbolic links are followed", func(t *testing.T) {
		r := newTree(t)
		r.env["CUDA_PATH"] = r.path("link")
		r.file("cuda-13.0/bin/nvcc")
		r.file("cuda-13.0/include/nvrtc.h")
		require.NoError(t, os.Symlink(r.path("cuda-13.0"), r.path("link")))
		l, err := r.finder().Binary("nvcc")
		require.NoError(t, err)
		require.Equal(t, r.path("cuda-13.0/bin/nvcc"), l.Path)
		l, err = r.finder().Headers("nvrtc")
		require.NoError(t, err)
		require.Equal(t, r.path("cuda-13.0/include"), l.Path)
	})
	t.Run("odd directory names", func(t *testing.T) {
		r := newTree(t)
		r.env["CONDA_PREFIX"] = r.path("a[b]*?")
		want := r.file("a[b]*?/targets/x86_64-linux/lib/libcudart.so.13")
		require.Equal(t, want, r.locate("cudart").Path)
	})
}

func TestEnvironment(t *testing.T) {
	r := newTree(t)
	f := r.finder()
	dir, variable := f.CUDAPath()
	require.Empty(t, dir+variable)
	r.env["CUDA_HOME"] = r.path("home/")
	r.env["CUDA_PATH"] = "" // empty is not set
	dir, variable = f.CUDAPath()
	require.Equal(t, r.path("home"), dir)
	require.Equal(t, "CUDA_HOME", variable)
	require.Empty(t, f.Warnings())
	r.env["CUDA_PATH"] = r.path("path")
	dir, variable = f.CUDAPath()
	require.Equal(t, r.path("path"), dir)
	require.Equal(t, "CUDA_PATH", variable)
	require.Len(t, f.Warnings(), 1)
	require.NoError(t, os.MkdirAll(r.path("home"), 0o755))
	require.NoError(t, os.Symlink(r.path("home"), r.path("path")))
	require.Empty(t, f.Warnings(), "two names of one directory do not differ")
}

func TestTables(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range pathfinder.Libraries() {
		require.False(t, seen[l.Name], l.Name)
		seen[l.Name] = true
		require.NotEmpty(t, l.Purpose)
		require.NotEmpty(t, l.Names12)
		require.NotEmpty(t, l.Names13)
		_, err := newTree(t).finder().Locate(l.Name)
		require.ErrorIs(t, err, pathfinder.ErrNotFound, l.Name)
		for _, name := range append(append([]string{}, l.Names12...), l.Names13...) {
			require.True(t, strings.HasPrefix(name, "lib") && strings.Contains(name, ".so"), name)
			require.Contains(t, err.Error(), name)
		}
	}
	for _, name := range []string{"cuda", "nvrtc", "nvJitLink", "nvvm", "cufile", "nccl", "cudart", "cupti"} {
		require.True(t, seen[name], name)
	}
	require.Contains(t, pathfinder.HeaderNames(), "cccl")
	require.Contains(t, pathfinder.BinaryNames(), "ptxas")
	require.Contains(t, pathfinder.BitcodeNames(), "device")
	require.Contains(t, pathfinder.StaticNames(), "cudadevrt")
	_, err := newTree(t).finder().Locate("no such library")
	require.ErrorIs(t, err, pathfinder.ErrUnknown)
	_, err = pathfinder.New(&pathfinder.Options{Files: map[string]string{"x": "y"}})
	require.ErrorIs(t, err, pathfinder.ErrUnknown)
	require.Equal(t, "unknown", pathfinder.Via(0).String())
	require.Equal(t, "unknown", pathfinder.Via(99).String())
}

// TestCatalog compares the tables with cuda.pathfinder's: everything that it
// finds is found here, by the same file names in the same folders.
func TestCatalog(t *testing.T) {
	out, err := exec.Command(filepath.Join("..", ".venv", "bin", "python"), filepath.Join("testdata", "catalog.py")).Output()
	if err != nil {
		t.Skipf("needs cuda.pathfinder in .venv (make creates it): %v", err)
	}
	var theirs struct {
		Libraries                 map[string][2][]string
		Headers                   map[string][2]any
		Binaries, Bitcode, Static []string
	}
	require.NoError(t, json.Unmarshal(out, &theirs))
	require.Greater(t, len(theirs.Libraries), 40)
	r := newTree(t)
	r.env["VIRTUAL_ENV"] = r.path("venv")
	r.file(site + "x")
	f := r.finder()
	ours := map[string]pathfinder.LibraryInfo{}
	for _, l := range pathfinder.Libraries() {
		ours[l.Name] = l
	}
	for name, l := range theirs.Libraries {
		require.Contains(t, ours, name)
		for _, so := range l[1] {
			require.Contains(t, append(ours[name].Names12, ours[name].Names13...), so, name)
		}
		_, err := f.Locate(name)
		for _, dir := range l[0] {
			require.ErrorContains(t, err, r.path(site+dir), name)
		}
	}
	for name, h := range theirs.Headers {
		if name == "nvjitlink" { // headers have the name of the library here
			name = "nvJitLink"
		}
		_, err := f.Headers(name)
		require.ErrorIs(t, err, pathfinder.ErrNotFound, name)
		for _, dir := range h[0].([]any) {
			require.ErrorContains(t, err, r.path(site+dir.(string)+"/"+h[1].(string)), name)
		}
	}
	require.Subset(t, pathfinder.BinaryNames(), theirs.Binaries)
	require.Subset(t, pathfinder.BitcodeNames(), theirs.Bitcode)
	require.Subset(t, pathfinder.StaticNames(), theirs.Static)
}

// TestOwnDirectories: a library that was installed apart from the toolkit, and
// its headers, behind Python's packages and before the toolkit.
func TestOwnDirectories(t *testing.T) {
	for _, c := range []struct{ variable, name, lib, header string }{
		{"CUDNN_PATH", "cudnn", "own/lib/libcudnn.so.9", "own/include/cudnn.h"},
		{"NCCL_HOME", "nccl", "own/build/lib/libnccl.so.2", "own/build/include/nccl.h"},
		{"NCCL_HOME", "nccl", "own/lib64/libnccl.so.2", "own/include/nccl.h"},
	} {
		t.Run(c.lib, func(t *testing.T) {
			r := newTree(t)
			r.env["CUDA_PATH"] = r.path("toolkit")
			_, err := r.finder().Locate(c.name)
			require.ErrorContains(t, err, c.variable+": not set")
			l, err := r.finder().Headers(c.name)
			if err == nil {
				require.Equal(t, pathfinder.ViaSystem, l.Via)
				t.Skipf("needs a machine without %s in the system's own folders; this one has it in %s", filepath.Base(c.header), l.Path)
			}
			require.ErrorContains(t, err, c.variable+": not set")
			r.file("toolkit/lib64/" + filepath.Base(c.lib))
			r.file("toolkit/include/" + filepath.Base(c.header))
			require.Equal(t, pathfinder.ViaCUDAPath, r.locate(c.name).Via)
			r.env[c.variable] = r.path("own")
			require.Equal(t, pathfinder.Location{Name: c.name, Path: r.file(c.lib), Via: pathfinder.ViaHome}, r.locate(c.name))
			r.file(c.header)
			l, err = r.finder().Headers(c.name)
			require.NoError(t, err)
			require.Equal(t, r.path(filepath.Dir(c.header)), l.Path)
			require.Equal(t, pathfinder.ViaHome, l.Via)
			r.env["VIRTUAL_ENV"] = r.path("venv")
			r.file(site + "nvidia/" + c.name + "/lib/" + filepath.Base(c.lib))
			require.Equal(t, pathfinder.ViaSitePackages, r.locate(c.name).Via)
		})
	}
}

// TestLoaderCache: a toolkit of which only the loader's configuration knows
// also has what the loader does not find, such as libnvvm, tools and libdevice.
func TestLoaderCache(t *testing.T) {
	r := newTree(t)
	nvvm := r.file("opt/cuda-13.1/nvvm/lib64/libnvvm.so.4")
	r.file("opt/cuda-13.1/targets/x86_64-linux/lib/libcudart.so.13")
	device := r.file("opt/cuda-12.9/nvvm/libdevice/libdevice.10.bc")
	r.file("opt/cuda-12.9/lib64/libcudart.so.12")
	r.file("usr/lib/libcudart.so.12") // no toolkit around it
	cache := r.file("ld.so.cache")
	with := func(o *pathfinder.Options) { o.Env.LoaderCache = cache }
	_, err := r.finder(with).Locate("nvvm")
	require.ErrorIs(t, err, pathfinder.ErrNotFound)
	text := "glibc-ld.so.cache1.1\x03\x00\x00\x00\xff/\x00libcudart.so.12\x00" + r.path("usr/lib/libcudart.so.12") + "\x00" + r.path("opt/cuda-12.9/lib64/libcudart.so.12") +
		"\x00libcudart.so.13\x00" + r.path("opt/cuda-13.1/targets/x86_64-linux/lib/libcudart.so.13") + "\x00/gone/lib/libcudart.so.13"
	require.NoError(t, os.WriteFile(cache, []byte(text), 0o600))
	require.Equal(t, pathfinder.Location{Name: "nvvm", Path: nvvm, Via: pathfinder.ViaToolkit}, r.locate("nvvm", with))
	l, err := r.finder(with).Bitcode("device")
	require.NoError(t, err)
	require.Equal(t, device, l.Path, "the older toolkit has it")
	require.NoError(t, os.Remove(cache))
	_, err = r.finder(with).Locate("nvvm")
	require.ErrorIs(t, err, pathfinder.ErrNotFound)
}

// TestDriverLibraries: nothing but the loader is asked for them.
func TestDriverLibraries(t *testing.T) {
	r := newTree(t)
	r.env = map[string]string{"VIRTUAL_ENV": r.path("venv"), "CUDA_PATH": r.path("toolkit")}
	r.file(site + "nvidia/cu13/lib/libcuda.so.1")
	r.file("toolkit/lib64/libcuda.so.1")
	_, err := r.finder().Locate("cuda")
	var missing *pathfinder.NotFoundError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, []pathfinder.Place{{Via: pathfinder.ViaLoader, Path: "libcuda.so.1", Problem: "not asked, that would open it"}}, missing.Places)
}

// --- opening ----------------------------------------------------------------

// job is what a child process does: a process that has loaded a library cannot
// forget it.
type job struct {
	CTK      int
	Files    map[string]string
	NoLoader bool
	First    string // opened before, by file
	Load     []string
	Symbol   string
}

type result struct {
	Location pathfinder.Location
	Symbol   bool
	Handle   uintptr
	Err      string
	NotFound bool
}

// TestChild is the child process.
func TestChild(t *testing.T) {
	var j job
	if os.Getenv("HANDOFF_PATHFINDER_JOB") == "" {
		t.Skip("runs as a child of the other tests only")
	}
	require.NoError(t, json.Unmarshal([]byte(os.Getenv("HANDOFF_PATHFINDER_JOB")), &j))
	if j.First != "" { // another part of the process opens it
		f, err := pathfinder.New(&pathfinder.Options{Files: map[string]string{j.Load[0]: j.First}})
		require.NoError(t, err)
		_, err = f.Load(j.Load[0])
		require.NoError(t, err)
	}
	f, err := pathfinder.New(&pathfinder.Options{
		CTK: j.CTK, Files: j.Files, Env: &pathfinder.Environment{NoLoader: j.NoLoader, SystemDirs: []string{}},
	})
	require.NoError(t, err)
	var results []result
	for _, name := range j.Load {
		l, err := f.Load(name)
		r := result{Location: l.Location, Handle: l.Handle(), Symbol: l.Symbol(j.Symbol) != 0}
		if err != nil {
			r.Err, r.NotFound = err.Error(), errors.Is(err, pathfinder.ErrNotFound)
		}
		results = append(results, r)
	}
	out, err := json.Marshal(results)
	require.NoError(t, err)
	fmt.Printf("RESULT%s\n", out)
}

// interpreter returns the loader that this program asks for, "" if it is linked
// statically.
func interpreter(t *testing.T, exe string) string {
	t.Helper()
	f, err := elf.Open(exe)
	require.NoError(t, err)
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			name, err := io.ReadAll(p.Open())
			require.NoError(t, err)
			return strings.TrimRight(string(name), "\x00")
		}
	}
	return ""
}

// run starts the child. LD_LIBRARY_PATH and the like work only from the start of
// a process.
func run(t *testing.T, j job, env ...string) []result {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return start(t, exec.Command(exe, "-test.run=^TestChild$"), j, env...)
}

// apart is run on a loader that does not use its cache (ld.so.cache), so that a
// CUDA toolkit which is installed here, and which the loader would find first,
// does not count. A loader that knows no such switch (musl's) has no cache.
func apart(t *testing.T, j job, env ...string) []result {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe, "-test.run=^TestChild$")
	if loader := interpreter(t, exe); strings.HasPrefix(filepath.Base(loader), "ld-linux") {
		cmd = exec.Command(loader, "--inhibit-cache", exe, "-test.run=^TestChild$")
	}
	return start(t, cmd, j, env...)
}

func start(t *testing.T, cmd *exec.Cmd, j job, env ...string) []result {
	t.Helper()
	in, err := json.Marshal(j)
	require.NoError(t, err)
	for _, e := range os.Environ() {
		switch name, _, _ := strings.Cut(e, "="); name {
		case "VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_PATH", "CUDA_HOME", "LD_LIBRARY_PATH":
		default:
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(append(cmd.Env, "HANDOFF_PATHFINDER_JOB="+string(in)), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	_, line, ok := strings.Cut(string(out), "RESULT")
	require.True(t, ok, "%s", out)
	line, _, _ = strings.Cut(line, "\n")
	var results []result
	require.NoError(t, json.Unmarshal([]byte(line), &results))
	return results
}

// library builds a shared library with a soname.
func (r *tree) library(rel, body string, flags ...string) string {
	r.t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		r.t.Skip("no C compiler")
	}
	p := r.path(rel)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(p), 0o755))
	src := p + ".c"
	require.NoError(r.t, os.WriteFile(src, []byte(body), 0o644))
	args := append([]string{"-shared", "-fPIC", "-o", p, "-Wl,-soname," + filepath.Base(p), src}, flags...)
	out, err := exec.Command(cc, args...).CombinedOutput()
	require.NoError(r.t, err, "%s", out)
	return p
}

func needOpening(t *testing.T) {
	t.Helper()
	f, err := pathfinder.New(nil)
	require.NoError(t, err)
	if _, err := f.Load("cudart"); errors.Is(err, pathfinder.ErrNotSupported) {
		t.Skip("this build cannot open libraries (no cgo, or not Linux)")
	}
}

func TestNotSupported(t *testing.T) {
	f, err := pathfinder.New(nil)
	require.NoError(t, err)
	_, err = f.Load("cudart")
	if runtime.GOOS == "linux" && err == nil || errors.Is(err, pathfinder.ErrNotFound) {
		t.Skip("this build opens libraries")
	}
	require.ErrorIs(t, err, pathfinder.ErrNotSupported)
	require.NotContains(t, err.Error(), "\n")
}

func TestLoad(t *testing.T) {
	needOpening(t)
	if got := apart(t, job{Load: []string{"nvrtc"}}); !got[0].NotFound {
		t.Skipf("needs a machine without NVRTC in the loader's own folders; this one has %s", got[0].Location.Path)
	}
	r := newTree(t)
	const body = "int answer(void) { return 42; }"
	venv := "VIRTUAL_ENV=" + r.path("venv")
	inSite := r.library(site+"nvidia/cu13/lib/libnvrtc.so.13", body)
	inLoader := r.library("system/libnvrtc.so.12", body)
	inToolkit := r.library("toolkit/lib64/libnvrtc.so.12", body)

	t.Run("site-packages before the loader", func(t *testing.T) {
		got := apart(t, job{Load: []string{"nvrtc", "nvrtc"}, Symbol: "answer"}, venv, "LD_LIBRARY_PATH="+r.path("system"), "CUDA_PATH="+r.path("toolkit"))
		require.Equal(t, pathfinder.Location{Name: "nvrtc", Path: inSite, Via: pathfinder.ViaSitePackages, CTK: 13}, got[0].Location)
		require.True(t, got[0].Symbol)
		require.Equal(t, got[0], got[1], "loaded once")
	})
	t.Run("a missing symbol", func(t *testing.T) {
		got := apart(t, job{Load: []string{"nvrtc"}, Symbol: "question"}, venv)
		require.NotZero(t, got[0].Handle)
		require.False(t, got[0].Symbol)
		require.Zero(t, pathfinder.Library{}.Symbol("answer"))
	})
	t.Run("the loader before CUDA_PATH", func(t *testing.T) {
		got := apart(t, job{Load: []string{"nvrtc"}}, "LD_LIBRARY_PATH="+r.path("system"), "CUDA_PATH="+r.path("toolkit"))
		require.Equal(t, pathfinder.Location{Name: "nvrtc", Path: inLoader, Via: pathfinder.ViaLoader, CTK: 12}, got[0].Location)
	})
	t.Run("CUDA_PATH, empty before CUDA_HOME", func(t *testing.T) {
		got := apart(t, job{Load: []string{"nvrtc"}}, "CUDA_PATH=", "CUDA_HOME="+r.path("toolkit"))
		require.Equal(t, inToolkit, got[0].Location.Path)
		require.Equal(t, pathfinder.ViaCUDAPath, got[0].Location.Via)
	})
	t.Run("what is loaded wins", func(t *testing.T) {
		got := apart(t, job{Load: []string{"nvrtc"}, First: inToolkit}, venv)
		require.Equal(t, pathfinder.Location{Name: "nvrtc", Path: inToolkit, Via: pathfinder.ViaLoaded, CTK: 12}, got[0].Location)
	})
	t.Run("what is loaded does not count for another toolkit", func(t *testing.T) {
		got := apart(t, job{Load: []string{"nvrtc"}, First: inToolkit, CTK: 13}, venv)
		require.Equal(t, inSite, got[0].Location.Path)
	})
	t.Run("a given file alone", func(t *testing.T) {
		got := apart(t, job{Load: []string{"nvrtc"}, Files: map[string]string{"nvrtc": inToolkit}}, venv)
		require.Equal(t, pathfinder.ViaFile, got[0].Location.Via)
		got = apart(t, job{Load: []string{"nvrtc"}, Files: map[string]string{"nvrtc": r.path("none")}}, venv)
		require.True(t, got[0].NotFound)
		require.Contains(t, got[0].Err, "given file: "+r.path("none")+": no such file")
		require.NotContains(t, got[0].Err, "site-packages")
	})
	t.Run("a broken file is named and passed over", func(t *testing.T) {
		r := newTree(t)
		bad := r.file(site + "nvidia/cu13/lib/libnvrtc.so.13")
		got := apart(t, job{Load: []string{"nvrtc"}}, "VIRTUAL_ENV="+r.path("venv"), "CUDA_PATH="+filepath.Dir(filepath.Dir(inToolkit)))
		require.Equal(t, inToolkit, got[0].Location.Path)
		got = apart(t, job{Load: []string{"nvrtc"}}, "VIRTUAL_ENV="+r.path("venv"))
		require.True(t, got[0].NotFound)
		require.Contains(t, got[0].Err, "site-packages: "+bad+": ")
		require.Contains(t, got[0].Err, "file too short")
		require.Contains(t, got[0].Err, "system loader: libnvrtc.so.12: ")
		require.Contains(t, got[0].Err, "CUDA_PATH, CUDA_HOME: not set")
	})
	t.Run("libraries that it needs come first", func(t *testing.T) {
		r := newTree(t)
		lt := r.library(site+"nvidia/cu13/lib/libcublasLt.so.13", "int lt(void) { return 1; }")
		// Linked against the other without a path to it.
		blas := r.library(site+"nvidia/cu13/lib/libcublas.so.13", "int lt(void); int answer(void) { return lt(); }", lt)
		got := apart(t, job{Load: []string{"cublas", "cublasLt"}, Symbol: "answer"}, "VIRTUAL_ENV="+r.path("venv"))
		require.Empty(t, got[0].Err)
		require.Equal(t, blas, got[0].Location.Path)
		require.True(t, got[0].Symbol)
		require.Equal(t, lt, got[1].Location.Path)
	})
	t.Run("a toolkit known by its loaded runtime", func(t *testing.T) {
		r := newTree(t)
		rt := r.library("opt/cuda-13/lib64/libcudart.so.13", body)
		nvvm := r.library("opt/cuda-13/nvvm/lib64/libnvvm.so.4", body)
		got := apart(t, job{Load: []string{"cudart", "nvvm"}, First: rt})
		require.Equal(t, pathfinder.ViaLoaded, got[0].Location.Via)
		require.Equal(t, pathfinder.Location{Name: "nvvm", Path: nvvm, Via: pathfinder.ViaToolkit}, got[1].Location)
	})
	t.Run("NoLoader", func(t *testing.T) {
		got := apart(t, job{Load: []string{"nvrtc"}, NoLoader: true}, "LD_LIBRARY_PATH="+r.path("system"))
		require.True(t, got[0].NotFound)
	})
	t.Run("unknown", func(t *testing.T) {
		_, err := pathfinder.Load("no such library")
		require.ErrorIs(t, err, pathfinder.ErrUnknown)
	})
}

// TestPackages loads what NVIDIA's Python packages have, from the environment
// that HANDOFF_CUDA_VENV names, else from the repository's.
func TestPackages(t *testing.T) {
	needOpening(t)
	venv := os.Getenv("HANDOFF_CUDA_VENV")
	if venv == "" {
		var err error
		venv, err = filepath.Abs("../.venv")
		require.NoError(t, err)
	}
	dirs, err := filepath.Glob(filepath.Join(venv, "lib/python3*/site-packages/nvidia"))
	require.NoError(t, err)
	if len(dirs) == 0 {
		t.Skip("no NVIDIA packages in .venv; install nvidia-cuda-nvrtc and nvidia-nvjitlink, or set HANDOFF_CUDA_VENV")
	}
	for _, c := range []struct{ name, symbol string }{
		{"nvrtc", "nvrtcVersion"},
		{"nvJitLink", "nvJitLinkVersion"},
		{"nvvm", "nvvmVersion"},
		{"cudart", "cudaRuntimeGetVersion"},
		{"cupti", "cuptiGetVersion"},
		{"cufile", "cuFileGetVersion"},
		{"nccl", "ncclGetVersion"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := pathfinder.New(&pathfinder.Options{Python: filepath.Join(venv, "bin/python")})
			require.NoError(t, err)
			if _, err := f.Locate(c.name); err != nil {
				t.Skipf("the package is not installed: %.60s", err)
			}
			got := run(t, job{Load: []string{c.name}, Symbol: c.symbol}, "VIRTUAL_ENV="+venv)
			if c.name == "cufile" && got[0].NotFound && strings.Contains(got[0].Err, "cannot open shared object") {
				t.Skip("cuFile needs system libraries that are not here")
			}
			require.Empty(t, got[0].Err)
			require.Equal(t, pathfinder.ViaSitePackages, got[0].Location.Via)
			require.True(t, got[0].Symbol, "no %s", c.symbol)
			t.Log(got[0].Location)
		})
	}
}
