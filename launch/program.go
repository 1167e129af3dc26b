package launch

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/launch/nvrtc"
	"github.com/go-handoff/handoff/launch/nvvm"
	"github.com/go-handoff/handoff/pathfinder"
)

// Program is a source with the options to compile it with. It owns nothing and
// needs no Close. It may be compiled several times, also at once.
type Program struct {
	source string
	o      ProgramOptions
}

// NewProgram makes a program. The options are checked and copied; nil is the
// default. Nothing is loaded yet.
func NewProgram(source string, opts *ProgramOptions) (*Program, error) {
	var o ProgramOptions
	if opts != nil {
		o = *opts
	}
	if o.Name == "" {
		o.Name = map[Language]string{LanguageCUDA: "program.cu", LanguagePTX: "program.ptx", LanguageNVVM: "program.ll"}[o.Language]
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if source == "" && o.Language != LanguageCUDA {
		return nil, invalid("program %q: no source", o.Name)
	}
	o.Define, o.Headers, o.ExtraSources = maps.Clone(o.Define), maps.Clone(o.Headers), maps.Clone(o.ExtraSources)
	for _, list := range []*[]string{&o.Undefine, &o.IncludePaths, &o.PreInclude, &o.AssemblerOptions, &o.Extra} {
		*list = slices.Clone(*list)
	}
	for _, list := range []*[]int{&o.DiagError, &o.DiagSuppress, &o.DiagWarn} {
		*list = slices.Clone(*list)
	}
	return &Program{source: source, o: o}, nil
}

// Name returns the name for messages.
func (p *Program) Name() string {
	if p == nil {
		return ""
	}
	return p.o.Name
}

// made refuses nil and the zero Program: one that was made has a name.
func (p *Program) made(op string) error {
	if p.Name() == "" {
		return invalid("%s: no program", op)
	}
	return nil
}

// Language returns what the source is written in.
func (p *Program) Language() Language {
	if p == nil {
		return LanguageCUDA
	}
	return p.o.Language
}

// CompileOptions tune [Program.Compile]. The zero value is the default.
type CompileOptions struct {
	// Names are name expressions: instances of templates ("fill<float>"),
	// functions and variables in namespaces ("&ns::table"). They are compiled,
	// and [ObjectCode.Kernel] finds them by these names. For CUDA C++.
	Names []string
	// Cache is asked first, and gets the result. Nil is no cache.
	Cache Cache
	// CacheSalt goes into the key of the cache. It must not be empty when the
	// result depends on files that the key cannot know (IncludePaths, Extra
	// and such): a digest of them, for example.
	CacheSalt string
	// Done ends the compilation when it is closed, such as the Done channel of
	// a context. NVRTC 12.9 and newer only; an older one goes on.
	Done <-chan struct{}
	// Linker tunes how PTX becomes a cubin, which is a link.
	Linker LinkerBackend
}

// job is one compilation, resolved.
type job struct {
	p       *Program
	o       CompileOptions
	target  Format
	arch    string // "90a"
	virtual bool
	options []string
}

// Compile compiles the program to PTX, a cubin or LTO IR. opts may be nil.
//
//	CUDA C++: PTX, cubin, LTO IR, by NVRTC
//	PTX:      PTX as it is; cubin, by nvJitLink or the driver
//	NVVM IR:  PTX, LTO IR, by libNVVM; cubin, also by nvJitLink or the driver
//
// What the compiler refuses is a [*CompileError]; a compiler that is not there
// wraps [pathfinder.ErrNotFound]; another target [ErrNotSupported].
func (p *Program) Compile(target Format, opts *CompileOptions) (*ObjectCode, error) {
	if err := p.made("compile"); err != nil {
		return nil, err
	}
	j := job{p: p, target: target}
	if opts != nil {
		j.o = *opts
	}
	op := j.op()
	if target < FormatPTX || target > FormatLTOIR || p.o.Language == LanguagePTX && target == FormatLTOIR {
		return nil, fmt.Errorf("launch: %s: not a target for %v: %w", op, p.o.Language, ErrNotSupported)
	}
	if len(j.o.Names) > 0 && p.o.Language != LanguageCUDA {
		return nil, invalid("%s: name expressions are for CUDA C++", op)
	}
	var err error
	if j.arch, j.virtual, err = resolveArch(p.o.Arch, p.o.Device); err != nil {
		return nil, err
	}
	if j.virtual && target == FormatCubin {
		return nil, invalid("%s: compute_%s is a virtual architecture, a cubin is for a real one (sm_%s)", op, j.arch, j.arch)
	}
	return j.compile(op)
}

func (j *job) op() string { return fmt.Sprintf("compile %s to %v", j.p.o.Name, j.target) }

// Check looks for errors in CUDA C++ or NVVM IR without making code, which is
// faster, and returns the warnings. An error is as from [Program.Compile].
func (p *Program) Check() (log string, err error) {
	if err := p.made("check"); err != nil {
		return "", err
	}
	op := "check " + p.o.Name
	j := job{p: p, target: FormatPTX}
	if j.arch, j.virtual, err = resolveArch(p.o.Arch, p.o.Device); err != nil {
		return "", err
	}
	switch p.o.Language {
	case LanguageCUDA:
		l, err := nvrtc.Load()
		if err != nil {
			return "", fmt.Errorf("launch: %s: %w", op, err)
		}
		if _, err := j.headers(l); err != nil {
			return "", fmt.Errorf("launch: %s: %w", op, err)
		}
		j.options = append(j.options, "-fdevice-syntax-only")
		c, err := j.nvrtc(op, l, func(*nvrtc.Program) ([]byte, error) { return nil, nil })
		if err != nil {
			return "", err
		}
		return c.log, nil
	case LanguageNVVM:
		l, err := nvvm.Load()
		if err != nil {
			return "", fmt.Errorf("launch: %s: %w", op, err)
		}
		c, err := j.nvvm(op, l, FormatPTX, (*nvvm.Program).Verify)
		if err != nil {
			return "", err
		}
		return c.log, nil
	}
	return "", fmt.Errorf("launch: %s: not for %v: %w", op, p.o.Language, ErrNotSupported)
}

// compile goes by way of the cache.
func (j *job) compile(op string) (*ObjectCode, error) {
	run, toolchain, err := j.compiler(op)
	if err != nil {
		return nil, err
	}
	if j.o.Cache == nil {
		stats.compiled.Add(1)
		return run()
	}
	if file := j.p.o.files(); file != "" && j.o.CacheSalt == "" {
		return nil, invalid("%s: with %s the result depends on what a cache cannot see: give a CacheSalt, or no Cache", op, file)
	}
	return cached(j.o.Cache, j.key(toolchain), ObjectOptions{Name: j.p.o.Name}, run)
}

// compiler returns what does the work, and what identifies it.
func (j *job) compiler(op string) (run func() (*ObjectCode, error), toolchain string, err error) {
	switch j.p.o.Language {
	case LanguageCUDA:
		l, err := nvrtc.Load()
		if err != nil {
			return nil, "", fmt.Errorf("launch: %s: %w", op, err)
		}
		headers, err := j.headers(l)
		if err != nil {
			return nil, "", fmt.Errorf("launch: %s: %w", op, err)
		}
		major, minor := l.Version()
		toolchain = fmt.Sprintf("nvrtc %d.%d %s%s", major, minor, identity(l.Path()), headers)
		return func() (*ObjectCode, error) { return j.nvrtc(op, l, j.output) }, toolchain, nil
	case LanguageNVVM:
		l, err := nvvm.Load()
		if err != nil {
			return nil, "", fmt.Errorf("launch: %s: %w", op, err)
		}
		major, minor := l.Version()
		toolchain = fmt.Sprintf("nvvm %d.%d %s", major, minor, identity(l.Path()))
		if j.p.o.Libdevice {
			at, err := pathfinder.Default().Bitcode("device")
			if err != nil {
				return nil, "", fmt.Errorf("launch: %s: %w", op, err)
			}
			toolchain += " libdevice " + identity(at.Path)
		}
		if j.target != FormatCubin {
			return func() (*ObjectCode, error) { return j.nvvm(op, l, j.target, (*nvvm.Program).Compile) }, toolchain, nil
		}
		k, err := j.linker()
		if err != nil {
			return nil, "", err
		}
		return func() (*ObjectCode, error) {
			ptx, err := j.nvvm(op, l, FormatPTX, (*nvvm.Program).Compile)
			if err != nil {
				return nil, err
			}
			return k.run(op, FormatCubin, []*ObjectCode{ptx})
		}, toolchain + " " + k.identity(), nil
	}
	ptx, err := NewObjectCode([]byte(j.p.source), &ObjectOptions{Format: FormatPTX, Name: j.p.o.Name})
	if err != nil {
		return nil, "", err
	}
	if j.target == FormatPTX {
		return func() (*ObjectCode, error) { return ptx, nil }, "none", nil
	}
	k, err := j.linker()
	if err != nil {
		return nil, "", err
	}
	return func() (*ObjectCode, error) { return k.run(op, FormatCubin, []*ObjectCode{ptx}) }, k.identity(), nil
}

// linker is what turns PTX into a cubin.
func (j *job) linker() (*Linker, error) {
	o := &j.p.o
	extra := o.Extra
	if o.Language == LanguageNVVM {
		extra = nil // libNVVM had them
	}
	return NewLinker(&LinkerOptions{
		Name: o.Name, Arch: "sm_" + j.arch, Backend: j.o.Linker, Debug: o.Debug, LineInfo: o.LineInfo,
		MaxRegisters: o.MaxRegisters, AssemblerOptions: o.AssemblerOptions, Extra: extra,
		FlushDenormals: o.FlushDenormals, PreciseDiv: o.PreciseDiv, PreciseSqrt: o.PreciseSqrt, FMA: o.FMA,
	})
}

// identity tells builds of a file apart.
func identity(path string) string {
	st, err := os.Stat(path)
	if err != nil {
		return path
	}
	return strconv.FormatInt(st.Size(), 10) + " " + strconv.FormatInt(st.ModTime().UnixNano(), 10)
}

// key digests everything that the result depends on.
func (j *job) key(toolchain string) CacheKey {
	k := newKey()
	o := &j.p.o
	k.number(int(o.Language))
	k.text(j.p.source)
	k.text(o.Name)
	k.pairs(o.Headers)
	k.pairs(o.ExtraSources)
	if o.Libdevice {
		k.text("libdevice")
	}
	k.number(int(j.target))
	switch o.Language {
	case LanguageCUDA:
		k.texts(j.nvrtcOptions())
	case LanguageNVVM:
		k.texts(o.nvvm("compute_"+j.arch, j.target))
	}
	k.text(j.arch)
	k.texts(o.AssemblerOptions)
	k.number(o.MaxRegisters)
	k.number(int(j.o.Linker))
	for _, t := range []Toggle{o.FlushDenormals, o.PreciseSqrt, o.PreciseDiv, o.FMA} {
		k.number(int(t))
	}
	k.texts([]string{strconv.FormatBool(o.Debug), strconv.FormatBool(o.LineInfo)})
	k.texts(o.Extra)
	k.texts(j.o.Names)
	k.text(j.o.CacheSalt)
	k.text(toolchain)
	return k.sum()
}

// nvrtcOptions are for a virtual architecture where no machine code is wanted,
// which spares the assembler.
func (j *job) nvrtcOptions() []string {
	kind := "sm_"
	if j.virtual || j.target == FormatPTX {
		kind = "compute_"
	}
	return slices.Concat(j.p.o.nvrtc(kind+j.arch, j.target), j.options)
}

// output takes what the target is.
func (j *job) output(p *nvrtc.Program) ([]byte, error) {
	switch j.target {
	case FormatPTX:
		return p.PTX()
	case FormatLTOIR:
		return p.LTOIR()
	}
	return p.Cubin()
}

func (j *job) nvrtc(op string, l *nvrtc.Library, output func(*nvrtc.Program) ([]byte, error)) (_ *ObjectCode, err error) {
	o := &j.p.o
	var headers []nvrtc.Header
	for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
		headers = append(headers, nvrtc.Header{Name: name, Source: o.Headers[name]})
	}
	p, err := l.NewProgram(j.p.source, o.Name, headers)
	if err != nil {
		return nil, fmt.Errorf("launch: %s: %w", op, err)
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	for _, n := range j.o.Names {
		if err := p.AddNameExpression(n); err != nil {
			return nil, fmt.Errorf("launch: %s: name expression %q: %w", op, n, err)
		}
	}
	if j.o.Done != nil {
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			select {
			case <-j.o.Done:
				_ = p.Cancel() // not supported: it goes on
			case <-stop:
			}
		}()
		defer func() {
			close(stop)
			<-stopped
		}()
	}
	if err := p.Compile(j.nvrtcOptions()...); err != nil {
		return nil, j.refused(op, "nvrtc", err)
	}
	code, err := output(p)
	if err != nil {
		return nil, fmt.Errorf("launch: %s: %w", op, err)
	}
	symbols := make(map[string]string, len(j.o.Names))
	for _, n := range j.o.Names {
		if symbols[n], err = p.LoweredName(n); err != nil {
			return nil, fmt.Errorf("launch: %s: name expression %q: %w", op, n, err)
		}
	}
	c := newObject(j.target, code, ObjectOptions{Name: o.Name, Symbols: symbols})
	c.log, _ = p.Log()
	c.pch = pchStatus(p)
	return c, nil
}

// PCHStatus says what became of precompiled headers.
type PCHStatus int

// Values of PCHStatus.
const (
	PCHUnknown      PCHStatus = 0 // an older NVRTC, another compiler, or from a cache
	PCHNotAttempted PCHStatus = 1
	PCHCreated      PCHStatus = 2
	PCHFailed       PCHStatus = 3
	// PCHNoRoom means that the heap is too small: see
	// nvrtc.Library.SetPCHHeapSize.
	PCHNoRoom PCHStatus = 4
)

func pchStatus(p *nvrtc.Program) PCHStatus {
	switch err := p.PCHCreateStatus(); {
	case err == nil:
		return PCHCreated
	case errors.Is(err, nvrtc.ErrorNoPCHCreateAttempted):
		return PCHNotAttempted
	case errors.Is(err, nvrtc.ErrorPCHCreateHeapExhausted):
		return PCHNoRoom
	case errors.Is(err, nvrtc.ErrorPCHCreate):
		return PCHFailed
	}
	return PCHUnknown
}

// refused words what a compiler said.
func (j *job) refused(op, lib string, err error) error {
	e := &CompileError{Op: op, Name: j.p.o.Name, Lib: lib, Source: j.p.source, Err: err}
	var rtc *nvrtc.Error
	var ir *nvvm.Error
	switch {
	case errors.As(err, &rtc):
		e.Code, e.CodeName, e.Log = int(rtc.Result), rtc.Result.Name(), rtc.Log
	case errors.As(err, &ir):
		e.Code, e.CodeName, e.Log = int(ir.Result), ir.Result.Name(), ir.Log
		if strings.HasPrefix(e.Source, "BC") {
			e.Source = "" // bitcode
		}
	default:
		return fmt.Errorf("launch: %s: %w", op, err)
	}
	return e
}

// nvvm compiles with libNVVM, or only verifies.
func (j *job) nvvm(op string, l *nvvm.Library, target Format, run func(*nvvm.Program, ...string) error) (_ *ObjectCode, err error) {
	o := &j.p.o
	p, err := l.NewProgram()
	if err != nil {
		return nil, fmt.Errorf("launch: %s: %w", op, err)
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if err := p.Add([]byte(j.p.source), o.Name); err != nil {
		return nil, j.refused(op, "nvvm", err)
	}
	for _, name := range slices.Sorted(maps.Keys(o.ExtraSources)) {
		if err := p.Add([]byte(o.ExtraSources[name]), name); err != nil {
			return nil, j.refused(op, "nvvm", err)
		}
	}
	if o.Libdevice {
		if err := p.AddLibdevice(); err != nil {
			return nil, fmt.Errorf("launch: %s: %w", op, err)
		}
	}
	options := o.nvvm("compute_"+j.arch, target)
	if err := run(p, options...); err != nil {
		return nil, j.refused(op, "nvvm", err)
	}
	code, err := p.Result()
	if err != nil && !errors.Is(err, nvvm.ErrNoOutput) { // of a verification
		return nil, fmt.Errorf("launch: %s: %w", op, err)
	}
	c := newObject(target, code, ObjectOptions{Name: o.Name})
	c.log, _ = p.Log()
	return c, nil
}

// flights are the compilations that a cache will get the results of: whoever
// wants the same waits, instead of compiling it again.
var flights struct {
	sync.Mutex
	m map[CacheKey]*flight
}

type flight struct {
	done chan struct{}
	code *ObjectCode
	err  error
}

// cached asks the cache, then runs, then tells the cache.
func cached(cache Cache, key CacheKey, o ObjectOptions, run func() (*ObjectCode, error)) (*ObjectCode, error) {
	if c := fromCache(cache, key, o); c != nil {
		return c, nil
	}
	flights.Lock()
	if f := flights.m[key]; f != nil {
		flights.Unlock()
		<-f.done
		if f.err == nil {
			stats.hits.Add(1)
			return f.code.copy(), nil
		}
		// What ended the other (its Done, for example) need not end this one.
		stats.compiled.Add(1)
		return run()
	}
	f := &flight{done: make(chan struct{}), err: errors.New("compiler panicked")}
	if flights.m == nil {
		flights.m = make(map[CacheKey]*flight)
	}
	flights.m[key] = f
	flights.Unlock()
	defer func() {
		flights.Lock()
		delete(flights.m, key)
		flights.Unlock()
		close(f.done)
	}()
	stats.compiled.Add(1)
	f.code, f.err = run()
	if f.err != nil {
		return nil, f.err
	}
	if err := cache.Put(key, encodeEntry(f.code)); err != nil {
		stats.cacheErrors.Add(1)
	}
	return f.code.copy(), nil
}

func fromCache(cache Cache, key CacheKey, o ObjectOptions) *ObjectCode {
	b, err := cache.Get(key)
	if err != nil {
		stats.cacheErrors.Add(1)
	}
	if b == nil {
		return nil
	}
	format, symbols, code, err := decodeEntry(b)
	if err != nil {
		stats.cacheErrors.Add(1)
		return nil
	}
	stats.hits.Add(1)
	o.Symbols = symbols
	return newObject(format, code, o)
}

// version words a driver's version for a key.
func version(d *driver.Driver) string {
	return "cuda " + strconv.Itoa(d.Version()) + " " + string(d.Provider())
}
