package driver_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// realHeaders finds cuda.h of NVIDIA packages: HANDOFF_CUDA_H (a list of files),
// the repository's Python environment, a toolkit.
func realHeaders() (paths []string) {
	paths = filepath.SplitList(os.Getenv("HANDOFF_CUDA_H"))
	for _, pattern := range []string{
		"../../.venv/lib/python3*/site-packages/nvidia/*/include/cuda.h",
		"/usr/local/cuda/include/cuda.h",
	} {
		found, _ := filepath.Glob(pattern)
		paths = append(paths, found...)
	}
	return paths
}

// TestABI compares our declarations with the real ones.
func TestABI(t *testing.T) {
	headers := realHeaders()
	if len(headers) == 0 {
		t.Skip("no cuda.h: install nvidia-cuda-runtime or set HANDOFF_CUDA_H")
	}
	cxx, err := exec.LookPath("c++")
	if err != nil {
		t.Skip("no C++ compiler")
	}
	ours, err := os.ReadFile("include/handoff/cuda_abi.h")
	require.NoError(t, err)
	numbers := regexp.MustCompile(`X\((CU\w+), (-?\d+)\)`).FindAllStringSubmatch(string(ours), -1)
	require.Greater(t, len(numbers), 500)
	for _, header := range headers {
		t.Run(header, func(t *testing.T) {
			text, err := os.ReadFile(header)
			require.NoError(t, err)
			version := regexp.MustCompile(`(?m)^#define CUDA_VERSION (\d+)`).FindSubmatch(text)
			require.NotNil(t, version)
			if string(version[1]) < "12030" {
				t.Skipf("cuda.h is of CUDA %s, older than what we call", version[1])
			}
			words := map[string]bool{}
			for _, w := range regexp.MustCompile(`\bCU\w+`).FindAllString(string(text), -1) {
				words[w] = true
			}
			var names strings.Builder
			n := 0
			for _, m := range numbers {
				if words[m[1]] {
					fmt.Fprintf(&names, "static_assert((long long)%s == %s, %q);\n", m[1], m[2], m[1])
					n++
				}
			}
			t.Logf("CUDA %s: %d of %d numbers compared", version[1], n, len(numbers))
			require.Greater(t, n*10, len(numbers)*9, "most of our names are not in the header")
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "names.h"), []byte(names.String()), 0o600))
			compile := func(more ...string) ([]byte, error) {
				args := append([]string{"-std=c++17", "-fsyntax-only", "-Iinclude", "-I" + dir, "-I" + filepath.Dir(header)}, more...)
				return exec.Command(cxx, append(args, "testdata/abi.cpp")...).CombinedOutput()
			}
			out, err := compile()
			require.NoError(t, err, string(out))
			_, err = compile("-DBREAK_ABI")
			require.Error(t, err, "the comparison lets a wrong field pass")
		})
	}
}
