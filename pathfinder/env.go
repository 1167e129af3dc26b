package pathfinder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Environment is what the search looks at outside of the file system. The zero
// value, like a nil pointer, is the running process; tests give another one.
type Environment struct {
	// Getenv reads a variable. Nil is [os.Getenv].
	Getenv func(string) string
	// SystemDirs are toolkit directories to look in at last. Nil means
	// /usr/local/cuda and /opt/cuda.
	SystemDirs []string
	// Executable gives the file of this process. Nil is [os.Executable].
	Executable func() (string, error)
	// NoLoader leaves out the libraries that the process has loaded and the
	// system's loader.
	NoLoader bool
	// LoaderCache is the file in which glibc's loader keeps what it knows; only
	// paths are read from it. Empty is /etc/ld.so.cache, unless NoLoader is set.
	LoaderCache string
}

// Options tune a [Finder]. The zero value, like a nil pointer, is the default.
type Options struct {
	// CTK is the major version of the toolkit to find, 12 or 13. Zero takes
	// any, the newest one first.
	CTK int
	// SitePackages are directories to look in for NVIDIA's Python packages,
	// before those found otherwise. A module that runs in Python gives the ones
	// of its interpreter.
	SitePackages []string
	// Python is an interpreter that is asked, once, for its site-packages. With
	// it VIRTUAL_ENV and the running interpreter are not looked at.
	Python string
	// Files gives files for names of libraries: nothing else is tried for them,
	// except that a library that is loaded already is taken.
	Files map[string]string
	// Env is where variables come from. Nil is the running process.
	Env *Environment
}

// variable reads a variable; one that is empty is not set.
func (f *Finder) variable(name string) string {
	if f.opts.Env.Getenv != nil {
		return f.opts.Env.Getenv(name)
	}
	return os.Getenv(name)
}

// CUDAPath gives the toolkit directory that the environment names, and the
// variable that did: CUDA_PATH before CUDA_HOME. Both are empty if neither is
// set.
func (f *Finder) CUDAPath() (dir, variable string) {
	f = f.made()
	for _, name := range []string{"CUDA_PATH", "CUDA_HOME"} {
		if dir := f.variable(name); dir != "" {
			return filepath.Clean(dir), name
		}
	}
	return "", ""
}

// Warnings gives what is odd about the environment, for a person to read:
// CUDA_PATH and CUDA_HOME that differ, a Python that did not answer.
func (f *Finder) Warnings() []string {
	f = f.made()
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	p, h := f.variable("CUDA_PATH"), f.variable("CUDA_HOME")
	if p != "" && h != "" && !sameDir(p, h) {
		out = append(out, fmt.Sprintf("CUDA_PATH is %s and CUDA_HOME is %s: CUDA_HOME is not looked at", p, h))
	}
	f.sitePackages()
	if f.pythonErr != nil {
		out = append(out, f.pythonErr.Error())
	}
	return out
}

func sameDir(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	ai, err1 := os.Stat(a)
	bi, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(ai, bi)
}

// sitePackages gives the directories for Python packages, in order, without
// repetition. f.mu is held.
func (f *Finder) sitePackages() []string {
	dirs := slices.Clone(f.opts.SitePackages)
	if f.opts.Python != "" {
		if !f.pythonAsked {
			f.pythonAsked = true
			f.pythonSites, f.pythonErr = askPython(f.opts.Python)
		}
		dirs = append(dirs, f.pythonSites...)
	} else {
		prefixes := []string{f.variable("VIRTUAL_ENV"), f.interpreterPrefix()}
		for _, prefix := range prefixes {
			if prefix == "" {
				continue
			}
			for _, pattern := range []string{"lib/python3*/site-packages", "lib64/python3*/site-packages", "Lib/site-packages"} {
				found, _ := filepath.Glob(filepath.Join(escape(prefix), pattern)) // the pattern is fine
				dirs = append(dirs, found...)
			}
		}
	}
	var sites []string
	for _, d := range dirs {
		if d = filepath.Clean(d); !slices.Contains(sites, d) {
			sites = append(sites, d)
		}
	}
	return sites
}

// interpreterPrefix gives the installation that this process runs in, if its
// executable is a Python.
func (f *Finder) interpreterPrefix() string {
	executable := os.Executable
	if f.opts.Env.Executable != nil {
		executable = f.opts.Env.Executable
	}
	exe, err := executable()
	if err != nil || !strings.HasPrefix(filepath.Base(exe), "python") {
		return ""
	}
	if runtime.GOOS == "windows" {
		return filepath.Dir(exe)
	}
	return filepath.Dir(filepath.Dir(exe))
}

// pythonAnswer is how long an interpreter may take to start and answer.
const pythonAnswer = 20 * time.Second

const sitesScript = `import json, site, sys
print(json.dumps([p for p in sys.path if p.endswith(("site-packages", "dist-packages"))] + site.getsitepackages() + [site.getusersitepackages()]))`

// askPython runs an interpreter to learn its site-packages.
func askPython(interpreter string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), pythonAnswer)
	defer cancel()
	out, err := exec.CommandContext(ctx, interpreter, "-c", sitesScript).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && len(exit.Stderr) > 0 {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return nil, fmt.Errorf("pathfinder: ask %s for its site-packages: %w", interpreter, err)
	}
	var dirs []string
	if err := json.Unmarshal(out, &dirs); err != nil {
		return nil, fmt.Errorf("pathfinder: ask %s for its site-packages: %w", interpreter, err)
	}
	return dirs, nil
}

// root is a directory with the layout of a toolkit.
type root struct {
	via Via
	dir string
}

// toolkits gives the toolkit directories after the loader's step, in order. f.mu
// is held.
func (f *Finder) toolkits() []root {
	var roots []root
	if dir, _ := f.CUDAPath(); dir != "" {
		roots = append(roots, root{ViaCUDAPath, dir})
	}
	for _, dir := range f.derivedRoots() {
		roots = append(roots, root{ViaToolkit, dir})
	}
	system := f.opts.Env.SystemDirs
	if system == nil {
		system = []string{"/usr/local/cuda", "/opt/cuda"}
	}
	for _, dir := range system {
		roots = append(roots, root{ViaSystem, dir})
	}
	return roots
}

// derivedRoots finds toolkits by their runtime library: where LD_LIBRARY_PATH
// has it, where the process has loaded it from, and where the loader would: a
// toolkit that the system's packages installed is often known to nobody else.
func (f *Finder) derivedRoots() []string {
	var dirs []string
	add := func(lib string) {
		dir := filepath.Dir(lib)
		switch filepath.Base(dir) {
		case "lib64", "lib":
		default:
			return
		}
		dir = filepath.Dir(dir)
		if up := filepath.Dir(dir); filepath.Base(up) == "targets" {
			dir = filepath.Dir(up)
		}
		// Not every lib has a toolkit around it: /usr/lib must not make /usr one.
		for _, mark := range []string{"nvvm", "bin/nvcc", "bin/ptxas"} {
			if _, err := os.Stat(filepath.Join(dir, mark)); err == nil && !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	for _, dir := range filepath.SplitList(f.variable("LD_LIBRARY_PATH")) {
		if dir == "" {
			continue
		}
		found, _ := filepath.Glob(filepath.Join(escape(dir), "libcudart.so.*"))
		for _, lib := range found {
			if resolved, err := filepath.EvalSymlinks(lib); err == nil {
				lib = resolved
			}
			add(lib)
		}
	}
	if !f.opts.Env.NoLoader {
		for _, name := range []string{"libcudart.so.13", "libcudart.so.12", "libnvrtc.so.13", "libnvrtc.so.12"} {
			if _, path, _ := openLibrary(name, onlyLoaded); path != "" {
				add(path)
			}
		}
	}
	for _, lib := range f.loaderKnows("libcudart.so.") {
		if resolved, err := filepath.EvalSymlinks(lib); err == nil {
			add(resolved)
		}
	}
	return dirs
}

// loaderKnows gives the paths in the loader's cache of files whose names begin
// so, the highest versions first. The cache is a table with a part of strings
// that end in 0; nothing else of it is looked at.
func (f *Finder) loaderKnows(prefix string) []string {
	file := f.opts.Env.LoaderCache
	if file == "" {
		if f.opts.Env.NoLoader {
			return nil
		}
		file = "/etc/ld.so.cache"
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var paths []string
	for _, s := range strings.Split(string(data), "\x00") {
		if strings.HasPrefix(s, "/") && strings.HasPrefix(filepath.Base(s), prefix) {
			paths = append(paths, s)
		}
	}
	slices.SortStableFunc(paths, func(a, b string) int { return strings.Compare(filepath.Base(b), filepath.Base(a)) })
	return paths
}
