package launch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/internal/cptr"
	"github.com/go-handoff/handoff/launch/nvjitlink"
	"github.com/go-handoff/handoff/pathfinder"
)

// LinkerBackend is who links.
type LinkerBackend int

// Linkers.
const (
	// LinkerAuto is nvJitLink, and the driver where that is not installed.
	LinkerAuto LinkerBackend = 0
	// LinkerNvJitLink needs no driver.
	LinkerNvJitLink LinkerBackend = 1
	// LinkerDriver is the driver's own linker. It knows fewer options, makes
	// cubins only, and takes no LTO IR of CUDA 12 and newer.
	LinkerDriver LinkerBackend = 2
)

// String returns "nvJitLink", "driver" or "auto".
func (b LinkerBackend) String() string {
	switch b {
	case LinkerAuto:
		return "auto"
	case LinkerNvJitLink:
		return "nvJitLink"
	case LinkerDriver:
		return "driver"
	}
	return "LinkerBackend(" + strconv.Itoa(int(b)) + ")"
}

// LinkerOptions tune [NewLinker]. The zero value is the default.
type LinkerOptions struct {
	// Backend is who links.
	Backend LinkerBackend
	// Name is for messages; "linked" by default.
	Name string
	// Arch is the architecture to link for: "sm_90", "90a". If it is empty the
	// one of Device is asked for.
	Arch string
	// Device is the device to link for if Arch is empty, and in whose primary
	// context the driver links. Nil is device 0.
	Device *device.Device

	// LTO optimizes across the inputs, which LTO IR needs.
	LTO bool
	// Optimization is the level: nvJitLink knows 3 only, the driver 1 to 4; -1
	// is none at all.
	Optimization int
	// Debug and LineInfo add information for debuggers and profilers.
	Debug, LineInfo bool
	// MaxRegisters limits the registers of a thread.
	MaxRegisters int
	// FlushDenormals, PreciseDiv, PreciseSqrt and FMA are for LTO IR.
	FlushDenormals, PreciseDiv, PreciseSqrt, FMA Toggle
	// Verbose and Time make the log longer. What the linker takes from its own
	// cache comes without a log: see NoCache.
	Verbose, Time bool
	// KernelsUsed and VariablesUsed are those to keep, with LTO; by default
	// all. OptimizeUnusedVariables removes the others.
	KernelsUsed, VariablesUsed []string
	OptimizeUnusedVariables    bool
	// AssemblerOptions are for ptxas.
	AssemblerOptions []string
	// SplitCompile is the number of threads for optimization, and
	// SplitCompileExtended for machine code too, with LTO; -1 is one a core.
	SplitCompile, SplitCompileExtended int
	// NoCache leaves out the linker's own cache.
	NoCache bool
	// Extra are options as nvJitLink takes them.
	Extra []string

	// Cache is asked first, and gets the result. Nil is no cache.
	Cache Cache
}

// Linker puts pieces of code together. It owns nothing and needs no Close. It
// may link several times, also at once.
type Linker struct {
	o       LinkerOptions
	arch    string
	backend LinkerBackend
	lib     *nvjitlink.Library // nil for the driver
}

// NewLinker makes a linker and finds out who links. opts may be nil. Without
// nvJitLink and without a driver the error says so of both.
func NewLinker(opts *LinkerOptions) (*Linker, error) {
	var o LinkerOptions
	if opts != nil {
		o = *opts
	}
	if o.Name == "" {
		o.Name = "linked"
	}
	if o.Optimization < -1 || o.Optimization > 4 || o.MaxRegisters < 0 || o.SplitCompile < -1 || o.SplitCompileExtended < -1 {
		return nil, invalid("linker %q: an option is out of range", o.Name)
	}
	for _, t := range []Toggle{o.FlushDenormals, o.PreciseDiv, o.PreciseSqrt, o.FMA} {
		if t < ToggleDefault || t > ToggleOff {
			return nil, invalid("linker %q: %d is no Toggle", o.Name, t)
		}
	}
	for _, list := range []*[]string{&o.KernelsUsed, &o.VariablesUsed, &o.AssemblerOptions, &o.Extra} {
		*list = slices.Clone(*list)
	}
	k := &Linker{o: o, backend: o.Backend}
	arch, virtual, err := resolveArch(o.Arch, o.Device)
	if err != nil {
		return nil, err
	}
	if virtual {
		return nil, invalid("linker %q: compute_%s is a virtual architecture, code is linked for a real one (sm_%s)", o.Name, arch, arch)
	}
	k.arch = arch
	switch o.Backend {
	case LinkerAuto, LinkerNvJitLink:
		k.lib, err = nvjitlink.Load()
		if err == nil {
			k.backend = LinkerNvJitLink
			return k, nil
		}
		err = fmt.Errorf("launch: linker %q: %w", o.Name, err)
		if o.Backend == LinkerNvJitLink || !errors.Is(err, pathfinder.ErrNotFound) && !errors.Is(err, ErrNotSupported) {
			return nil, err
		}
	case LinkerDriver:
	default:
		return nil, invalid("linker %q: unknown backend %v", o.Name, o.Backend)
	}
	k.backend = LinkerDriver
	if _, e := openDriver(); e != nil {
		return nil, errors.Join(err, e)
	}
	if name := o.foreign(); name != "" {
		return nil, errors.Join(fmt.Errorf("launch: linker %q: %s needs nvJitLink: %w", o.Name, name, ErrNotSupported), err)
	}
	return k, nil
}

// foreign returns the name of an option that is set and that the driver's
// linker does not have.
func (o *LinkerOptions) foreign() string {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"LTO", o.LTO},
		{"FlushDenormals", o.FlushDenormals != 0},
		{"PreciseDiv", o.PreciseDiv != 0},
		{"PreciseSqrt", o.PreciseSqrt != 0},
		{"FMA", o.FMA != 0},
		{"Time", o.Time},
		{"KernelsUsed", len(o.KernelsUsed) > 0},
		{"VariablesUsed", len(o.VariablesUsed) > 0},
		{"OptimizeUnusedVariables", o.OptimizeUnusedVariables},
		{"AssemblerOptions", len(o.AssemblerOptions) > 0},
		{"SplitCompile", o.SplitCompile != 0},
		{"SplitCompileExtended", o.SplitCompileExtended != 0},
		{"Extra", len(o.Extra) > 0},
	} {
		if f.set {
			return f.name
		}
	}
	return ""
}

// Backend says who links.
func (k *Linker) Backend() LinkerBackend {
	if k == nil {
		return LinkerAuto
	}
	return k.backend
}

// Link links the inputs to a cubin; with LTO also to PTX, or to LTO IR that is
// to be linked again. The inputs stay open. The result has the names of them
// all, and what the linker said in its log.
//
// What the linker refuses is a [*CompileError].
func (k *Linker) Link(target Format, inputs ...*ObjectCode) (*ObjectCode, error) {
	if k.Backend() == LinkerAuto { // a linker that was made knows who links
		return nil, invalid("link: no linker")
	}
	op := fmt.Sprintf("link %s to %v", k.o.Name, target)
	if len(inputs) == 0 {
		return nil, invalid("%s: no inputs", op)
	}
	switch {
	case target == FormatCubin:
	case target != FormatPTX && target != FormatLTOIR:
		return nil, fmt.Errorf("launch: %s: not a target of a link: %w", op, ErrNotSupported)
	case !k.o.LTO:
		return nil, invalid("%s: only a link with LTO can give %v", op, target)
	}
	for i, c := range inputs {
		switch {
		case c.none():
			return nil, invalid("%s: input %d is nil", op, i)
		case c.closed.Load():
			return nil, closed(fmt.Sprintf("%s: input %d, %v", op, i, c))
		case c.format == FormatOpaque:
			return nil, fmt.Errorf("launch: %s: input %d, %v: %w", op, i, c, ErrImage)
		case c.format == FormatLTOIR && !k.o.LTO:
			return nil, invalid("%s: input %d, %v, needs the option LTO", op, i, c)
		}
	}
	run := func() (*ObjectCode, error) { return k.run(op, target, inputs) }
	if k.o.Cache == nil {
		stats.compiled.Add(1)
		return run()
	}
	return cached(k.o.Cache, k.key(target, inputs), ObjectOptions{Name: k.o.Name}, run)
}

// identity tells linkers apart for a cache.
func (k *Linker) identity() string {
	if k.lib != nil {
		major, minor := k.lib.Version()
		return fmt.Sprintf("nvjitlink %d.%d %s", major, minor, identity(k.lib.Path()))
	}
	d, err := openDriver()
	if err != nil {
		return "none"
	}
	return version(d)
}

// key digests everything that the result depends on.
func (k *Linker) key(target Format, inputs []*ObjectCode) CacheKey {
	w := newKey()
	w.text("link")
	w.text(k.o.Name)
	w.texts(k.options(target))
	w.number(int(target))
	w.number(len(inputs))
	for _, c := range inputs {
		w.number(int(c.format))
		w.text(c.name)
		w.text(string(c.code))
		w.pairs(c.symbols)
	}
	w.text(k.identity())
	return w.sum()
}

// options gives the options in nvJitLink's form.
func (k *Linker) options(target Format) []string {
	o := &k.o
	f := flags{"-arch=sm_" + k.arch}
	number := func(name string, t Toggle) {
		switch t {
		case ToggleOn:
			f.add(name + "=1")
		case ToggleOff:
			f.add(name + "=0")
		}
	}
	f.on("-lto", o.LTO)
	f.on("-ptx", target == FormatPTX)
	f.on("-r", target == FormatLTOIR)
	switch {
	case o.Optimization > 0:
		f.add("-O" + strconv.Itoa(o.Optimization))
	case o.Optimization < 0:
		f.add("-O0")
	}
	f.on("-g", o.Debug)
	f.on("-lineinfo", o.LineInfo)
	if o.MaxRegisters > 0 {
		f.add("-maxrregcount=" + strconv.Itoa(o.MaxRegisters))
	}
	if o.LTO {
		number("-ftz", o.FlushDenormals)
		number("-prec-div", o.PreciseDiv)
		number("-prec-sqrt", o.PreciseSqrt)
		number("-fma", o.FMA)
	}
	f.on("-verbose", o.Verbose)
	f.on("-time", o.Time)
	if len(o.KernelsUsed) > 0 {
		f.add("-kernels-used=" + strings.Join(o.KernelsUsed, ","))
	}
	if len(o.VariablesUsed) > 0 {
		f.add("-variables-used=" + strings.Join(o.VariablesUsed, ","))
	}
	f.on("-optimize-unused-variables", o.OptimizeUnusedVariables)
	for _, s := range o.AssemblerOptions {
		f.add("-Xptxas=" + s)
	}
	for _, s := range []struct {
		name string
		n    int
	}{{"-split-compile=", o.SplitCompile}, {"-split-compile-extended=", o.SplitCompileExtended}} {
		switch {
		case s.n > 0:
			f.add(s.name + strconv.Itoa(s.n))
		case s.n < 0:
			f.add(s.name + "0")
		}
	}
	f.on("-no-cache", o.NoCache)
	f.add(o.Extra...)
	return f
}

// run links.
func (k *Linker) run(op string, target Format, inputs []*ObjectCode) (*ObjectCode, error) {
	symbols := make(map[string]string)
	for _, c := range inputs {
		maps.Copy(symbols, c.symbols)
	}
	link := k.nvJitLink
	if k.lib == nil {
		link = k.driver
	}
	code, log, err := link(op, target, inputs)
	if err != nil {
		return nil, err
	}
	c := newObject(target, code, ObjectOptions{Name: k.o.Name, Symbols: symbols})
	c.log = log
	return c, nil
}

func (k *Linker) nvJitLink(op string, target Format, inputs []*ObjectCode) (code []byte, log string, err error) {
	h, err := k.lib.NewLinker(k.options(target)...)
	if err != nil {
		return nil, "", k.refused(op, nil, err)
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	for _, c := range inputs {
		kind := map[Format]nvjitlink.Input{
			FormatPTX: nvjitlink.InputPTX, FormatCubin: nvjitlink.InputCubin, FormatLTOIR: nvjitlink.InputLTOIR,
			FormatFatbin: nvjitlink.InputFatbin, FormatObject: nvjitlink.InputObject, FormatLibrary: nvjitlink.InputLibrary,
		}[c.format]
		if err := h.AddData(kind, zeroEnded(c), c.name); err != nil {
			return nil, "", k.refused(op, c, err)
		}
	}
	if err := h.Complete(); err != nil {
		return nil, "", k.refused(op, inputs[0], err)
	}
	switch target {
	case FormatPTX:
		code, err = h.PTX()
	case FormatLTOIR:
		code, err = h.LTOIR()
	default:
		code, err = h.Cubin()
	}
	if err != nil {
		return nil, "", k.refused(op, nil, err)
	}
	log, _ = h.InfoLog()
	return code, log, nil
}

// zeroEnded returns the code as linkers and the driver want it: text ends with
// a zero byte.
func zeroEnded(c *ObjectCode) []byte {
	b := c.code
	if (c.format == FormatPTX || c.format == FormatOpaque) && b[len(b)-1] != 0 {
		return append(b[:len(b):len(b)], 0) // a copy
	}
	return b
}

// refused words what nvJitLink said about an input, or nil.
func (k *Linker) refused(op string, c *ObjectCode, err error) error {
	var e *nvjitlink.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("launch: %s: %w", op, err)
	}
	out := &CompileError{Op: op, Name: k.o.Name, Lib: "nvJitLink", Code: int(e.Result), CodeName: e.Result.Name(), Log: e.Log, Err: err, link: true}
	if c != nil {
		out.Name, out.Source = c.name, sourceOf(c)
	}
	return out
}

// driver links with cuLink.
func (k *Linker) driver(op string, _ Format, inputs []*ObjectCode) (code []byte, log string, err error) {
	d, err := openDriver()
	if err != nil {
		return nil, "", err
	}
	dev := k.o.Device
	if dev == nil {
		if dev, err = device.Open(0); err != nil {
			return nil, "", fmt.Errorf("launch: %s: %w", op, err)
		}
	}
	ctx, err := dev.PrimaryContext()
	if err != nil {
		return nil, "", fmt.Errorf("launch: %s: %w", op, err)
	}
	jit := newJIT(&JITOptions{
		MaxRegisters: k.o.MaxRegisters, Optimization: k.o.Optimization, Debug: k.o.Debug, LineInfo: k.o.LineInfo, Verbose: k.o.Verbose,
	}, jitOption{driver.JITTarget, target(k.arch)})
	defer jit.release()
	fail := func(c *ObjectCode, res driver.Result) error {
		e := &Error{Op: op, Device: dev.Ordinal(), Code: res}
		out := &CompileError{Op: op, Name: k.o.Name, Lib: "cuda", Code: int(res), CodeName: res.Name(), Log: jit.errorLog(), Err: e, link: true}
		if errors.Is(res, ErrNotSupported) {
			return e
		}
		if c != nil {
			out.Name, out.Source = c.name, sourceOf(c)
		}
		return out
	}
	state, res := d.LinkCreate(ctx.Handle(), jit.options(), jit.values())
	if res != driver.Success {
		return nil, "", fail(nil, res)
	}
	defer func() {
		err = errors.Join(err, check(op, dev.Ordinal(), d.LinkDestroy(ctx.Handle(), state)))
	}()
	for _, c := range inputs {
		kind, ok := map[Format]int32{
			FormatPTX: driver.JITInputPTX, FormatCubin: driver.JITInputCubin, FormatFatbin: driver.JITInputFatbinary,
			FormatObject: driver.JITInputObject, FormatLibrary: driver.JITInputLibrary,
		}[c.format]
		if !ok {
			return nil, "", fmt.Errorf("launch: %s: %v needs nvJitLink: %w", op, c, ErrNotSupported)
		}
		if res := d.LinkAddData(ctx.Handle(), state, kind, zeroEnded(c), c.name, nil, nil); res != driver.Success {
			return nil, "", fail(c, res)
		}
	}
	addr, size, res := d.LinkComplete(ctx.Handle(), state)
	if res != driver.Success {
		return nil, "", fail(inputs[0], res)
	}
	// The image is the link state's, until it is destroyed above.
	return slices.Clone(cptr.Slice[byte](addr, int(size))), jit.infoLog(), nil
}

// target is an architecture as the driver's linker numbers it: 10 × major +
// minor, and flags for "a" and "f".
func target(arch string) uintptr {
	n, _ := strconv.Atoi(strings.TrimRight(arch, "af"))
	switch {
	case strings.HasSuffix(arch, "a"):
		return uintptr(n) | 0x10000
	case strings.HasSuffix(arch, "f"):
		return uintptr(n) | 0x20000
	}
	return uintptr(n)
}
