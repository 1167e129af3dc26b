package launch

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-handoff/handoff/launch/nvrtc"
	"github.com/go-handoff/handoff/pathfinder"
)

// headers adds the include directories that the program asks for, and returns
// what tells their content, for the key of the cache.
func (j *job) headers(l *nvrtc.Library) (string, error) {
	switch {
	case j.p.o.ToolkitHeaders:
		return j.toolkitHeaders()
	case j.p.o.BundledHeaders:
		dir, err := bundledHeaders(l)
		if err != nil {
			return "", err
		}
		j.options = append(j.options, "-I"+dir, "-I"+filepath.Join(dir, "cccl"))
	}
	return "", nil // the compiler's, which is in the key
}

// toolkitHeaders adds the toolkit's include directories. They may change while
// the compiler stays: pip has packages of their own for them.
func (j *job) toolkitHeaders() (string, error) {
	seen := make(map[string]bool)
	known := ""
	for _, h := range []struct{ name, file string }{{"cudart", "cuda_runtime.h"}, {"cccl", "cuda/std/version"}} {
		at, err := pathfinder.Default().Headers(h.name)
		if err != nil {
			if h.name == "cudart" {
				return "", err
			}
			continue // CCCL is a package of its own
		}
		if !seen[at.Path] {
			j.options = append(j.options, "-I"+at.Path)
		}
		seen[at.Path] = true
		known += " " + h.name + " " + identity(filepath.Join(at.Path, filepath.FromSlash(h.file)))
	}
	return known, nil
}

// unpacking makes goroutines of one process unpack once.
var unpacking sync.Mutex

// bundledHeaders returns a directory of this user's that has the headers which
// NVRTC carries since CUDA 13.3. NVRTC unpacks them into one of this process,
// which then gets its name: so processes need not wait for each other, and none
// sees half of them.
func bundledHeaders(l *nvrtc.Library) (dir string, err error) {
	const op = "bundled headers"
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%s: %w", op, err)
	}
	major, minor := l.Version()
	build := sha256.Sum256([]byte(identity(l.Path())))
	dir = filepath.Join(cache, "handoff", "headers", fmt.Sprintf("nvrtc-%d.%d-%x", major, minor, build[:6]))
	unpacking.Lock()
	defer unpacking.Unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if major < 13 || major == 13 && minor < 3 {
		return "", fmt.Errorf("%s: NVRTC %d.%d has none, 13.3 has: use ToolkitHeaders: %w", op, major, minor, ErrNotSupported)
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", fmt.Errorf("%s: %w", op, err)
	}
	tmp, err := os.MkdirTemp(parent, "new-")
	if err != nil {
		return "", fmt.Errorf("%s: %w", op, err)
	}
	defer func() { _ = os.RemoveAll(tmp) }() // if it did not get its name
	p, err := l.NewProgram("", "headers.cu", nil)
	if err != nil {
		return "", fmt.Errorf("%s: %w", op, err)
	}
	err = p.Compile("--use-bundled-headers=" + tmp)
	if err = errors.Join(err, p.Close()); err != nil {
		return "", fmt.Errorf("%s: unpack into %s: %w", op, parent, err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		if _, e := os.Stat(dir); e != nil { // nobody else was faster
			return "", fmt.Errorf("%s: %w", op, err)
		}
	}
	return dir, nil
}
