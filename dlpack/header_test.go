package dlpack_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// build compiles and runs testdata/header.c, which is C and C++, against the
// headers in dir. It says sizes, offsets and values.
func build(t *testing.T, compiler, dir string, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skipf("no %s here", compiler)
	}
	language := "c"
	if strings.HasSuffix(compiler, "++") {
		language = "c++"
	}
	bin := filepath.Join(t.TempDir(), "main")
	args := append([]string{"-Wall", "-Wextra", "-Werror", "-I", dir, "-o", bin}, flags...)
	args = append(args, "-x", language, filepath.Join("testdata", "header.c"))
	out, err := exec.Command(compiler, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(bin).Output()
	require.NoError(t, err)
	return string(out)
}

func ourHeaders(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("include")
	require.NoError(t, err)
	return dir
}

// upstream returns the folder that holds dlpack/dlpack.h of the DLPack
// project: the one that HANDOFF_DLPACK_H names, or that of the Python package
// tvm_ffi.
func upstream(t *testing.T) string {
	t.Helper()
	if h := os.Getenv("HANDOFF_DLPACK_H"); h != "" {
		if filepath.Base(h) == "dlpack.h" {
			return filepath.Dir(filepath.Dir(h))
		}
		return h
	}
	for _, python := range []string{filepath.Join("..", ".venv", "bin", "python"), "python3"} {
		out, err := exec.Command(python, "-c", "import importlib.util as u; print(u.find_spec('tvm_ffi').submodule_search_locations[0])").Output()
		if err != nil {
			continue
		}
		dir := filepath.Join(strings.TrimSpace(string(out)), "include")
		if _, err := os.Stat(filepath.Join(dir, "dlpack", "dlpack.h")); err == nil {
			return dir
		}
	}
	t.Skip("no dlpack.h of the DLPack project here: set HANDOFF_DLPACK_H, or install apache-tvm-ffi in .venv")
	return ""
}

func TestHeader(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the test calls cc in the way of Unix")
	}
	ours := ourHeaders(t)
	var first string
	for _, c := range []struct {
		compiler string
		flags    []string
	}{
		{"gcc", []string{"-std=c11", "-Wpedantic"}},
		{"gcc", []string{"-std=c99"}},
		{"clang", []string{"-std=c11", "-Wpedantic"}},
		{"g++", []string{"-std=c++11"}},
		{"g++", []string{"-std=c++20"}},
		{"clang++", []string{"-std=c++17"}},
	} {
		t.Run(c.compiler+" "+strings.Join(c.flags, " "), func(t *testing.T) {
			out := build(t, c.compiler, ours, c.flags...)
			require.Contains(t, out, "sizeof DLTensor 48\n")
			require.Contains(t, out, "value kDLFloat4_e2m1fn 17\n")
			if first == "" {
				first = out
			}
			require.Equal(t, first, out, "every compiler sees the same")
		})
	}
}

func TestHeaderIsUpstreams(t *testing.T) {
	dir := upstream(t)
	ours := ourHeaders(t)
	for _, compiler := range []string{"gcc", "g++"} {
		t.Run(compiler, func(t *testing.T) {
			require.Equal(t, build(t, compiler, dir), build(t, compiler, ours))
		})
	}
}

// TestHeaderOfBlocksWorksWithEither compiles testdata/block.c, which uses
// handoff/block.h, with either dlpack.h in front.
func TestHeaderOfBlocksWorksWithEither(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc here")
	}
	ours := ourHeaders(t)
	for _, dirs := range [][]string{{ours}, {upstream(t), ours}} {
		args := []string{"-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", filepath.Join("testdata", "block.c")}
		for _, d := range dirs {
			args = append(args, "-I", d)
		}
		out, err := exec.Command("gcc", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}
