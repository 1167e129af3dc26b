package pathfinder

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Location says where something is and how it was found.
type Location struct {
	// Name is what was asked for.
	Name string
	// Path is an absolute path: of the file, or of the directory for headers. It
	// is what the loader reports for libraries, and has no symbolic links for
	// the rest.
	Path string
	// Via is how it was found.
	Via Via
	// CTK is the major version of the toolkit it belongs to, or 0 if the file
	// does not tell.
	CTK int
}

// String gives "nvrtc: /x/libnvrtc.so.13 (site-packages)".
func (l Location) String() string { return l.Name + ": " + l.Path + " (" + l.Via.String() + ")" }

// Finder looks for things with certain options and remembers what it found. It
// does not remember what it did not find. The zero Finder has no options, as
// one of New(nil), and a nil one is that of the package's functions.
type Finder struct {
	opts Options
	once sync.Once // of ready

	mu    sync.Mutex
	libs  map[string]Library
	files map[string]Location // by kind and name

	pythonAsked bool // Options.Python has given what follows
	pythonSites []string
	pythonErr   error
}

// New makes a Finder. Nothing is looked at yet. The options are copied.
func New(opts *Options) (*Finder, error) {
	f := new(Finder)
	if opts != nil {
		f.opts = *opts
		f.opts.SitePackages = slices.Clone(opts.SitePackages)
		f.opts.Files = maps.Clone(opts.Files)
	}
	if c := f.opts.CTK; c != 0 && c != 12 && c != 13 {
		return nil, fmt.Errorf("pathfinder: CUDA toolkit %d: %w", c, ErrUnknown)
	}
	for name := range f.opts.Files {
		if lookUp(name) == nil {
			return nil, fmt.Errorf("pathfinder: library %q: %w", name, ErrUnknown)
		}
	}
	return f.ready(), nil
}

// made returns the Finder to use for f.
func (f *Finder) made() *Finder {
	if f == nil {
		return process()
	}
	return f.ready()
}

func (f *Finder) ready() *Finder {
	f.once.Do(func() {
		f.libs, f.files = map[string]Library{}, map[string]Location{}
		if f.opts.Env == nil {
			f.opts.Env = &Environment{}
		}
	})
	return f
}

// process is the Finder behind the functions of the package.
var process = sync.OnceValue(func() *Finder { return new(Finder).ready() })

// Default gives the Finder with default options that [Load] uses.
func Default() *Finder { return process() }

// lookUp finds a library in the table.
func lookUp(name string) *LibraryInfo {
	for i := range libraries {
		if libraries[i].Name == name {
			return &libraries[i]
		}
	}
	return nil
}

// candidate is a file, or a directory, that could be what is looked for.
type candidate struct {
	via  Via
	path string
	ctk  int
}

// versions gives the toolkit versions to look for, in order.
func (f *Finder) versions() []int {
	if f.opts.CTK != 0 {
		return []int{f.opts.CTK}
	}
	return []int{13, 12}
}

// names gives the file names of a library of one toolkit.
func (l *LibraryInfo) names(ctk int) []string {
	if ctk == 12 {
		return l.Names12
	}
	return l.Names13
}

// shared reports whether the file name does not tell the toolkit.
func (l *LibraryInfo) shared(name string) bool {
	return slices.Contains(l.Names12, name) && slices.Contains(l.Names13, name)
}

// before gives the files to try before the loader, after gives those to try
// behind it.
func (f *Finder) before(l *LibraryInfo) (c []candidate) {
	for _, site := range f.sitePackages() {
		for _, v := range f.versions() {
			dirs := l.dirs13
			if v == 12 {
				dirs = l.dirs12
			}
			for _, dir := range dirs {
				for _, name := range l.names(v) {
					c = appendNew(c, candidate{ViaSitePackages, filepath.Join(site, dir, name), f.ctkOf(l, name, v, dir)})
				}
			}
		}
	}
	if prefix := f.variable("CONDA_PREFIX"); prefix != "" {
		c = f.below(c, l, root{ViaConda, filepath.Clean(prefix)})
	}
	return c
}

func (f *Finder) after(l *LibraryInfo) (c []candidate) {
	if l.home != "" {
		if dir := f.variable(l.home); dir != "" {
			c = f.below(c, l, root{ViaHome, filepath.Clean(dir)})
		}
	}
	for _, r := range f.toolkits() {
		c = f.below(c, l, r)
	}
	return c
}

// below adds the files below a toolkit or a conda prefix.
func (f *Finder) below(c []candidate, l *LibraryInfo, r root) []candidate {
	own := l.toolkit
	if r.via == ViaHome {
		own = l.homeDirs
	}
	for _, v := range f.versions() {
		for _, dir := range append(append([]string{}, own...), libraryDirs...) {
			for _, name := range l.names(v) {
				c = appendNew(c, candidate{r.via, filepath.Join(expand(r.dir, dir), name), f.ctkOf(l, name, v, dir)})
			}
		}
	}
	return c
}

// ctkOf tells the toolkit by the name of the file, or by NVIDIA's directory for
// CUDA 13.
func (f *Finder) ctkOf(l *LibraryInfo, name string, v int, dir string) int {
	if l.shared(name) && !strings.HasPrefix(dir, "nvidia/cu13/") {
		return 0
	}
	return v
}

func appendNew(c []candidate, n candidate) []candidate {
	for _, o := range c {
		if o.path == n.path {
			return c
		}
	}
	return append(c, n)
}

// expand puts in the one directory that "targets/*" stands for. If there is
// none, or several for different machines, the pattern stays and finds nothing.
func expand(dir, rel string) string {
	head, tail, pattern := strings.Cut(rel, "*")
	if pattern {
		found, err := filepath.Glob(filepath.Join(escape(dir), head, "*"))
		if err == nil && len(found) == 1 {
			return filepath.Join(found[0], tail)
		}
	}
	return filepath.Join(dir, rel)
}

// escape makes a directory stand for itself in a pattern.
func escape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// problem says why a file is not the one looked for, or nothing.
func problem(path string, executable bool) string {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "no such file"
	case err != nil:
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return err.Error()
	case info.IsDir():
		return "is a directory"
	case executable && !isExecutable(info):
		return "is not executable"
	}
	return ""
}

// unset lists the variables that would have named a place, for the report. home
// is the one of the library or the headers, if there is one.
func (f *Finder) unset(home string) (p []Place) {
	switch venv := f.variable("VIRTUAL_ENV"); {
	case len(f.sitePackages()) > 0 || f.opts.Python != "":
	case venv == "":
		p = append(p, Place{ViaSitePackages, "VIRTUAL_ENV", "not set, and no site-packages given"})
	default:
		p = append(p, Place{ViaSitePackages, venv, "has no site-packages"})
	}
	if f.pythonErr != nil {
		p = append(p, Place{ViaSitePackages, f.opts.Python, f.pythonErr.Error()})
	}
	if f.variable("CONDA_PREFIX") == "" {
		p = append(p, Place{ViaConda, "CONDA_PREFIX", "not set"})
	}
	if home != "" && f.variable(home) == "" {
		p = append(p, Place{ViaHome, home, "not set"})
	}
	if dir, _ := f.CUDAPath(); dir == "" {
		p = append(p, Place{ViaCUDAPath, "CUDA_PATH, CUDA_HOME", "not set"})
	}
	return p
}

// Headers finds the directory to give a compiler as include path, known by a
// header that it must have. See [HeaderNames].
func (f *Finder) Headers(name string) (Location, error) {
	return f.file(headerKind, headers, name)
}

// Binary finds a tool. It must be executable; PATH is not searched. See
// [BinaryNames].
func (f *Finder) Binary(name string) (Location, error) {
	return f.file(binaryKind, binaries, name)
}

// Bitcode finds a bitcode library: "device" is libdevice. See [BitcodeNames].
func (f *Finder) Bitcode(name string) (Location, error) {
	return f.file("bitcode", bitcodes, name)
}

// Static finds a static library. See [StaticNames].
func (f *Finder) Static(name string) (Location, error) {
	return f.file("static library", statics, name)
}

// Kinds that are treated differently.
const (
	headerKind = "headers" // the directory is the result
	binaryKind = "binary"  // must be executable
)

// file finds something that is not opened.
func (f *Finder) file(kind string, table []fileInfo, name string) (Location, error) {
	var info *fileInfo
	for i := range table {
		if table[i].name == name {
			info = &table[i]
		}
	}
	if info == nil {
		return Location{}, fmt.Errorf("pathfinder: %s %q: %w", kind, name, ErrUnknown)
	}
	f = f.made()
	f.mu.Lock()
	defer f.mu.Unlock()
	key := kind + "/" + name
	if l, ok := f.files[key]; ok {
		return l, nil
	}
	missing := &NotFoundError{Kind: kind, Name: name}
	for _, c := range f.directories(info) {
		file := filepath.Join(c.path, filepath.FromSlash(info.file))
		why := problem(file, kind == binaryKind)
		if why == "" {
			path := file
			if kind == headerKind {
				path = c.path
			}
			path, err := filepath.Abs(path)
			if err == nil {
				path, err = filepath.EvalSymlinks(path)
			}
			if err == nil {
				l := Location{Name: name, Path: path, Via: c.via, CTK: c.ctk}
				f.files[key] = l
				return l, nil
			}
			why = err.Error()
		}
		missing.Places = append(missing.Places, Place{c.via, file, why})
	}
	missing.Places = append(missing.Places, f.unset(info.home)...)
	return Location{}, missing
}

// directories gives those that could hold info's file, in order.
func (f *Finder) directories(info *fileInfo) (c []candidate) {
	for _, site := range f.sitePackages() {
		for _, v := range f.versions() {
			dirs, ctk := info.site13, 13
			if v == 12 {
				dirs, ctk = info.site12, 12
			}
			for _, dir := range dirs {
				if slices.Contains(info.site12, dir) && slices.Contains(info.site13, dir) {
					ctk = 0
				}
				c = appendNew(c, candidate{ViaSitePackages, filepath.Join(site, dir), ctk})
			}
		}
	}
	roots := f.toolkits()
	if prefix := f.variable("CONDA_PREFIX"); prefix != "" {
		roots = append([]root{{ViaConda, filepath.Clean(prefix)}}, roots...)
	}
	if info.home != "" {
		if home := f.variable(info.home); home != "" {
			i := 0 // before the toolkits, behind conda
			if len(roots) > 0 && roots[0].via == ViaConda {
				i = 1
			}
			roots = slices.Insert(roots, i, root{ViaHome, filepath.Clean(home)})
		}
	}
	for _, r := range roots {
		dirs := info.toolkit
		if r.via == ViaHome {
			dirs = info.homeDirs
		}
		if r.via == ViaConda { // its own layout first
			dirs = condaFirst(dirs)
		}
		for _, dir := range dirs {
			c = appendNew(c, candidate{r.via, expand(r.dir, dir), 0})
		}
	}
	for _, pattern := range info.system {
		dirs, _ := filepath.Glob(pattern) // the patterns are fine
		slices.Reverse(dirs)              // of several versions the newest
		if dirs == nil {
			dirs = []string{pattern}
		}
		for _, dir := range dirs {
			c = appendNew(c, candidate{ViaSystem, dir, 0})
		}
	}
	return c
}

// condaFirst puts "targets/*" before the plain directories: conda keeps the
// toolkit's files there.
func condaFirst(dirs []string) []string {
	var targets, plain []string
	for _, d := range dirs {
		if strings.HasPrefix(d, "targets/") {
			targets = append(targets, d)
		} else {
			plain = append(plain, d)
		}
	}
	return append(targets, plain...)
}
