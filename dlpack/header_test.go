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

// headerProgram prints what can be said about the header in numbers: sizes,
// offsets and values, under their names. It also uses every function type, so
// that a difference in a prototype does not compile.
const headerProgram = `
#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdio.h>
#ifndef DLPACK_DLPACK_H_
#error "another include guard"
#endif
#define SIZE(t) printf("sizeof " #t " %zu\n", sizeof(t))
#define FIELD(t, f) printf("offset " #t "." #f " %zu size %zu\n", offsetof(t, f), sizeof(((t *)0)->f))
#define VALUE(v) printf("value " #v " %lld\n", (long long)(v))

static int alloc(DLTensor *p, DLManagedTensorVersioned **out, void *ctx,
                 void (*set)(void *ctx, const char *kind, const char *message))
{ (void)p; (void)out; (void)ctx; (void)set; return 0; }
static int from(void *o, DLManagedTensorVersioned **out) { (void)o; (void)out; return 0; }
static int to(DLManagedTensorVersioned *m, void **out) { (void)m; (void)out; return 0; }
static int borrow(void *o, DLTensor *out) { (void)o; (void)out; return 0; }
static int stream(DLDeviceType t, int32_t id, void **out) { (void)t; (void)id; (void)out; return 0; }

int main(void)
{
	DLPackManagedTensorAllocator f1 = alloc;
	DLPackManagedTensorFromPyObjectNoSync f2 = from;
	DLPackManagedTensorToPyObjectNoSync f3 = to;
	DLPackDLTensorFromPyObjectNoSync f4 = borrow;
	DLPackCurrentWorkStream f5 = stream;
	DLPackExchangeAPI api;
	struct DLManagedTensor *tag1 = NULL;
	struct DLManagedTensorVersioned *tag2 = NULL;
	struct DLPackExchangeAPIHeader *tag3 = &api.header;
	api.managed_tensor_allocator = f1;
	api.managed_tensor_from_py_object_no_sync = f2;
	api.managed_tensor_to_py_object_no_sync = f3;
	api.dltensor_from_py_object_no_sync = f4;
	api.current_work_stream = f5;
	(void)tag1; (void)tag2; (void)tag3; (void)api;
	SIZE(DLPackVersion); FIELD(DLPackVersion, major); FIELD(DLPackVersion, minor);
	SIZE(DLDeviceType);
	SIZE(DLDevice); FIELD(DLDevice, device_type); FIELD(DLDevice, device_id);
	SIZE(DLDataType); FIELD(DLDataType, code); FIELD(DLDataType, bits); FIELD(DLDataType, lanes);
	SIZE(DLTensor); FIELD(DLTensor, data); FIELD(DLTensor, device); FIELD(DLTensor, ndim); FIELD(DLTensor, dtype);
	FIELD(DLTensor, shape); FIELD(DLTensor, strides); FIELD(DLTensor, byte_offset);
	SIZE(DLManagedTensor); FIELD(DLManagedTensor, dl_tensor); FIELD(DLManagedTensor, manager_ctx);
	FIELD(DLManagedTensor, deleter);
	SIZE(DLManagedTensorVersioned); FIELD(DLManagedTensorVersioned, version); FIELD(DLManagedTensorVersioned, manager_ctx);
	FIELD(DLManagedTensorVersioned, deleter); FIELD(DLManagedTensorVersioned, flags);
	FIELD(DLManagedTensorVersioned, dl_tensor);
	SIZE(DLPackExchangeAPIHeader); FIELD(DLPackExchangeAPIHeader, version); FIELD(DLPackExchangeAPIHeader, prev_api);
	SIZE(DLPackExchangeAPI); FIELD(DLPackExchangeAPI, header); FIELD(DLPackExchangeAPI, managed_tensor_allocator);
	FIELD(DLPackExchangeAPI, managed_tensor_from_py_object_no_sync);
	FIELD(DLPackExchangeAPI, managed_tensor_to_py_object_no_sync);
	FIELD(DLPackExchangeAPI, dltensor_from_py_object_no_sync); FIELD(DLPackExchangeAPI, current_work_stream);
	VALUE(DLPACK_FLAG_BITMASK_READ_ONLY); VALUE(DLPACK_FLAG_BITMASK_IS_COPIED);
	VALUE(DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
	VALUE(kDLCPU); VALUE(kDLCUDA); VALUE(kDLCUDAHost); VALUE(kDLOpenCL); VALUE(kDLVulkan); VALUE(kDLMetal);
	VALUE(kDLVPI); VALUE(kDLROCM); VALUE(kDLROCMHost); VALUE(kDLExtDev); VALUE(kDLCUDAManaged); VALUE(kDLOneAPI);
	VALUE(kDLWebGPU); VALUE(kDLHexagon); VALUE(kDLMAIA); VALUE(kDLTrn);
	VALUE(kDLInt); VALUE(kDLUInt); VALUE(kDLFloat); VALUE(kDLOpaqueHandle); VALUE(kDLBfloat); VALUE(kDLComplex);
	VALUE(kDLBool); VALUE(kDLFloat8_e3m4); VALUE(kDLFloat8_e4m3); VALUE(kDLFloat8_e4m3b11fnuz);
	VALUE(kDLFloat8_e4m3fn); VALUE(kDLFloat8_e4m3fnuz); VALUE(kDLFloat8_e5m2); VALUE(kDLFloat8_e5m2fnuz);
	VALUE(kDLFloat8_e8m0fnu); VALUE(kDLFloat6_e2m3fn); VALUE(kDLFloat6_e3m2fn); VALUE(kDLFloat4_e2m1fn);
	VALUE(DLPACK_MAJOR_VERSION);
	return 0;
}
`

// build compiles and runs the program against the headers in dir.
func build(t *testing.T, compiler, dir string, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skipf("no %s here", compiler)
	}
	tmp := t.TempDir()
	src := filepath.Join(tmp, "main.c")
	if strings.HasSuffix(compiler, "++") {
		src += "pp"
	}
	require.NoError(t, os.WriteFile(src, []byte(headerProgram), 0o600))
	bin := filepath.Join(tmp, "main")
	args := append([]string{"-Wall", "-Wextra", "-Werror", "-I", dir, "-o", bin, src}, flags...)
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

// TestHeaderOfBlocksWorksWithEither compiles code against handoff/block.h with
// either dlpack.h in front.
func TestHeaderOfBlocksWorksWithEither(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc here")
	}
	ours := ourHeaders(t)
	src := filepath.Join(t.TempDir(), "x.c")
	require.NoError(t, os.WriteFile(src, []byte("#include <dlpack/dlpack.h>\n#include <handoff/block.h>\nint f(const DLTensor *t){return ho_check_tensor(t, 0, 0);}\n"), 0o600))
	for _, dirs := range [][]string{{ours}, {upstream(t), ours}} {
		args := []string{"-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", src}
		for _, d := range dirs {
			args = append(args, "-I", d)
		}
		out, err := exec.Command("gcc", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}
