package pathfinder

import (
	"errors"
	"strings"
)

// Errors of this package. They are always wrapped.
var (
	// ErrUnknown means that a name is in none of the tables.
	ErrUnknown = errors.New("unknown name")
	// ErrNotFound means that something known is not on this machine.
	ErrNotFound = errors.New("not found")
	// ErrNotSupported means that this build or system cannot open libraries.
	ErrNotSupported = errors.New("not supported")
)

// Via says how something was found.
type Via int

// Ways to find something, in the order of the search but for the last.
const (
	ViaLoaded       Via = 1 // the process had it already
	ViaFile         Via = 2 // named in Options.Files
	ViaSitePackages Via = 3 // NVIDIA's Python packages
	ViaConda        Via = 4 // CONDA_PREFIX
	ViaLoader       Via = 5 // the system's loader
	ViaCUDAPath     Via = 6 // CUDA_PATH or CUDA_HOME
	ViaToolkit      Via = 7 // beside a toolkit library in LD_LIBRARY_PATH, in the process or known to the loader
	ViaSystem       Via = 8 // /usr/local/cuda and the like
	ViaHome         Via = 9 // CUDNN_PATH or NCCL_HOME, before CUDA_PATH
)

var viaNames = [...]string{
	ViaLoaded: "already loaded", ViaFile: "given file", ViaSitePackages: "site-packages", ViaConda: "conda",
	ViaLoader: "system loader", ViaCUDAPath: "CUDA_PATH", ViaToolkit: "toolkit of a library", ViaSystem: "system directory", ViaHome: "own directory",
}

// String gives a few words, such as "site-packages".
func (v Via) String() string {
	if v <= 0 || int(v) >= len(viaNames) {
		return "unknown"
	}
	return viaNames[v]
}

// Place is one place that was looked at without success.
type Place struct {
	Via Via
	// Path is a file, a pattern, a name for the loader, or a variable that is
	// not set.
	Path string
	// Problem says what was wrong, for example what the loader said.
	Problem string
}

// String gives "site-packages: /x/lib/libnvrtc.so.13: no such file".
func (p Place) String() string {
	return p.Via.String() + ": " + p.Path + ": " + p.Problem
}

// NotFoundError lists where something was looked for. It matches
// [ErrNotFound], and [ErrNotSupported] if libraries cannot be opened at all.
type NotFoundError struct {
	// Kind is "library", "headers", "binary", "bitcode" or "static library".
	Kind string
	// Name is what was asked for.
	Name string
	// Places has every place looked at, in order.
	Places []Place

	unsupported bool
}

// Error lists every place, one a line.
func (e *NotFoundError) Error() string {
	var b strings.Builder
	b.WriteString("pathfinder: " + e.Kind + " " + e.Name + ": ")
	if e.unsupported {
		b.WriteString(ErrNotSupported.Error() + ": libraries are opened on Linux, in builds with cgo")
		return b.String()
	}
	b.WriteString(ErrNotFound.Error())
	for _, p := range e.Places {
		b.WriteString("\n\t" + p.String())
	}
	return b.String()
}

// Is matches the sentinels.
func (e *NotFoundError) Is(target error) bool {
	if e.unsupported {
		return target == ErrNotSupported
	}
	return target == ErrNotFound
}
