package pathfinder

import (
	"fmt"
	"path/filepath"
)

// Library is an open dynamic library. It stays open until the process ends; the
// value needs no release and may be copied.
type Library struct {
	Location
	handle uintptr
}

// Handle gives what dlopen gave. It must not be closed.
func (l Library) Handle() uintptr { return l.handle }

// Symbol gives the address of an exported symbol, or 0 if the library has none
// of that name.
func (l Library) Symbol(name string) uintptr {
	if l.handle == 0 {
		return 0
	}
	return symbol(l.handle, name)
}

// Load finds and opens a library with default options; see [Finder.Load].
func Load(name string) (Library, error) { return Default().Load(name) }

// Load finds a library in the order of the package comment, opens it with its
// symbols kept to itself, after the libraries that it needs, and remembers it: it
// is never closed. What [Libraries] does not list gives an error wrapping
// [ErrUnknown]; a library that is nowhere, or that the loader refuses, a
// [*NotFoundError] with what was wrong in each place.
func (f *Finder) Load(name string) (Library, error) {
	f = f.made()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.load(name, 0)
}

func (f *Finder) load(name string, depth int) (Library, error) {
	info := lookUp(name)
	if info == nil {
		return Library{}, fmt.Errorf("pathfinder: library %q: %w", name, ErrUnknown)
	}
	if l, ok := f.libs[name]; ok {
		return l, nil
	}
	missing := &NotFoundError{Kind: "library", Name: name, unsupported: !canOpen}
	if missing.unsupported {
		return Library{}, missing
	}
	found := func(c candidate, handle uintptr, path string) (Library, error) {
		l := Library{Location{Name: name, Path: path, Via: c.via, CTK: c.ctk}, handle}
		f.libs[name] = l
		return l, nil
	}
	if !f.opts.Env.NoLoader {
		for _, c := range f.loaderNames(info, ViaLoaded) {
			if h, path, _ := openLibrary(c.path, onlyLoaded); h != 0 {
				return found(c, h, path)
			}
		}
	}
	if depth < 4 { // the table has no cycles
		for _, need := range info.needs {
			_, _ = f.load(need, depth+1) // the library itself says what it misses
		}
	}
	try := func(cs []candidate) (Library, bool) {
		for _, c := range cs {
			why := ""
			if c.via != ViaLoader {
				why = problem(c.path, false)
			}
			if why == "" {
				mode := keepOpen
				if info.deep {
					mode |= deepBind
				}
				h, path, said := openLibrary(c.path, mode)
				if h != 0 {
					if path == "" {
						path = c.path
					}
					l, _ := found(c, h, path)
					return l, true
				}
				why = said
			}
			missing.Places = append(missing.Places, Place{c.via, c.path, why})
		}
		return Library{}, false
	}
	if file, ok := f.opts.Files[name]; ok {
		abs, err := filepath.Abs(file)
		if err != nil {
			abs = file
		}
		if l, ok := try([]candidate{{ViaFile, abs, 0}}); ok {
			return l, nil
		}
		return Library{}, missing
	}
	if !info.Driver {
		if l, ok := try(f.before(info)); ok {
			return l, nil
		}
	}
	if !f.opts.Env.NoLoader {
		if l, ok := try(f.loaderNames(info, ViaLoader)); ok {
			return l, nil
		}
	}
	if !info.Driver {
		if l, ok := try(f.after(info)); ok {
			return l, nil
		}
		missing.Places = append(missing.Places, f.unset(info.home)...)
	}
	return Library{}, missing
}

// loaderNames gives the names to ask the loader for.
func (f *Finder) loaderNames(info *LibraryInfo, via Via) (c []candidate) {
	for _, v := range f.versions() {
		for _, name := range info.names(v) {
			c = appendNew(c, candidate{via, name, f.ctkOf(info, name, v, "")})
		}
	}
	return c
}

// Locate says where a library is without opening one: it looks for files, and
// for libraries that the process has loaded. It leaves out the system's loader,
// which cannot be asked without opening: [Finder.Load] prefers what the loader
// has to a file found by CUDA_PATH or later, and finds what only the loader knows.
// Here that gives a [*NotFoundError], as does what is nowhere.
func (f *Finder) Locate(name string) (Location, error) {
	info := lookUp(name)
	if info == nil {
		return Location{}, fmt.Errorf("pathfinder: library %q: %w", name, ErrUnknown)
	}
	f = f.made()
	f.mu.Lock()
	defer f.mu.Unlock()
	if l, ok := f.libs[name]; ok {
		return l.Location, nil
	}
	if !f.opts.Env.NoLoader {
		for _, c := range f.loaderNames(info, ViaLoaded) {
			if h, path, _ := openLibrary(c.path, onlyLoaded); h != 0 {
				return Location{Name: name, Path: path, Via: c.via, CTK: c.ctk}, nil
			}
		}
	}
	missing := &NotFoundError{Kind: "library", Name: name}
	var cs []candidate
	switch file, ok := f.opts.Files[name]; {
	case ok:
		cs = []candidate{{ViaFile, file, 0}}
	case !info.Driver:
		cs = append(f.before(info), f.after(info)...)
	}
	for _, c := range cs {
		if why := problem(c.path, false); why != "" {
			missing.Places = append(missing.Places, Place{c.via, c.path, why})
			continue
		}
		abs, err := filepath.Abs(c.path)
		if err != nil {
			abs = c.path
		}
		return Location{Name: name, Path: abs, Via: c.via, CTK: c.ctk}, nil
	}
	if !info.Driver {
		missing.Places = append(missing.Places, f.unset(info.home)...)
	}
	for _, c := range f.loaderNames(info, ViaLoader) {
		missing.Places = append(missing.Places, Place{ViaLoader, c.path, "not asked, that would open it"})
	}
	return Location{}, missing
}
