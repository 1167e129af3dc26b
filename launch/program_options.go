package launch

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-handoff/handoff/device"
)

// Language is what the source of a program is written in.
type Language int

// Languages of programs.
const (
	// LanguageCUDA is CUDA C++, compiled by NVRTC. It is the default.
	LanguageCUDA Language = 0
	// LanguagePTX is assembly text, which nvJitLink or the driver assembles.
	LanguagePTX Language = 1
	// LanguageNVVM is NVVM IR as text or bitcode, compiled by libNVVM.
	LanguageNVVM Language = 2
)

// String returns "CUDA C++", "PTX" or "NVVM IR".
func (l Language) String() string {
	switch l {
	case LanguageCUDA:
		return "CUDA C++"
	case LanguagePTX:
		return "PTX"
	case LanguageNVVM:
		return "NVVM IR"
	}
	return "Language(" + strconv.Itoa(int(l)) + ")"
}

// Toggle is a choice that can be left to the compiler.
type Toggle int8

// Values of a Toggle.
const (
	ToggleDefault Toggle = 0 // the compiler's default
	ToggleOn      Toggle = 1
	ToggleOff     Toggle = 2
)

// ProgramOptions tune [NewProgram]. The zero value is the default: CUDA C++
// for device 0, C++17. Where nothing else is said, an option is for CUDA C++
// and is an error in another language.
type ProgramOptions struct {
	// Language is what the source is written in.
	Language Language
	// Name is for messages, and what __FILE__ says; "program.cu" by default.
	Name string
	// Arch is the architecture to compile for, in all languages: "sm_90",
	// "compute_90", "90a". If it is empty the one of Device is asked for.
	Arch string
	// Device is the device to compile for if Arch is empty. Nil is device 0.
	Device *device.Device

	// Std is the version of C++: "c++17" by default.
	Std string
	// Define are macros; an empty value defines to nothing. Undefine are names
	// of predefined ones to remove.
	Define   map[string]string
	Undefine []string
	// Headers are texts of headers by the names that sources include.
	Headers map[string]string
	// IncludePaths are directories to look for headers in. Headers of the
	// toolkit are found by pathfinder.Finder.Headers.
	IncludePaths []string
	// PreInclude are headers that are included first.
	PreInclude []string
	// SourceInclude also looks for headers in the directory of the process. It
	// is off by default, unlike with the plain compiler: what a program is made
	// of does not depend on where it runs.
	SourceInclude Toggle
	// ToolkitHeaders finds the headers of the toolkit and puts their directory
	// at the end of IncludePaths.
	ToolkitHeaders bool
	// BundledHeaders does so with the headers that NVRTC carries since CUDA 13.3
	// (cuda_fp16.h, CCCL and the like), which are unpacked once into the directory
	// handoff/headers of os.UserCacheDir. It needs no toolkit, and excludes
	// ToolkitHeaders.
	BundledHeaders bool

	// RelocatableDeviceCode makes code that is to be linked with other code.
	RelocatableDeviceCode Toggle
	// ExtensibleWholeProgram makes code that may call into the device runtime.
	ExtensibleWholeProgram bool
	// Debug adds information for debuggers and, by default, switches
	// optimization off. For all languages.
	Debug bool
	// LineInfo adds line numbers for profilers. For all languages.
	LineInfo bool
	// DeviceOptimize switches optimization on with Debug.
	DeviceOptimize Toggle
	// AssemblerOptions are for ptxas. For PTX also.
	AssemblerOptions []string
	// MaxRegisters limits the registers of a thread. For PTX also.
	MaxRegisters int

	// FastMath implies FlushDenormals on, precise division and square root off
	// and FMA on, and faster, coarser functions.
	FastMath bool
	// FlushDenormals makes denormal float32 numbers 0. For all languages.
	FlushDenormals Toggle
	// PreciseSqrt and PreciseDiv round float32 operations correctly. For all
	// languages.
	PreciseSqrt, PreciseDiv Toggle
	// FMA joins multiplications and additions. For all languages.
	FMA Toggle
	// ExtraVectorization vectorizes more.
	ExtraVectorization bool

	// GenOptLTO optimizes before intermediate code is written.
	GenOptLTO bool
	// Restrict says that pointer parameters of kernels do not overlap.
	Restrict bool
	// DefaultDevice takes functions without an execution space for device
	// functions.
	DefaultDevice bool
	// Int128 and Float128 allow these types in device code.
	Int128, Float128 bool
	// BuiltinMove and BuiltinInitializerList are on by default.
	BuiltinMove, BuiltinInitializerList Toggle

	// NoWarnings drops all warnings.
	NoWarnings bool
	// NoErrorNumbers leaves the numbers of diagnostics out.
	NoErrorNumbers bool
	// BriefDiagnostics leaves source lines and columns out of the log.
	BriefDiagnostics Toggle
	// DiagError, DiagSuppress and DiagWarn change what diagnostics are, by
	// number.
	DiagError, DiagSuppress, DiagWarn []int
	// OptInfo asks for notes about optimizations; "inline" is the only kind.
	OptInfo string

	// SplitCompile is the number of threads for optimization; -1 is one a
	// core.
	SplitCompile int
	// Minimal leaves out predefined functions, for faster compilation.
	Minimal bool
	// NoCache leaves out the compiler's own cache.
	NoCache bool
	// RandomSeed replaces what is random in names.
	RandomSeed string
	// FastCompile trades speed of the code for speed of the compiler: "min",
	// "mid" or "max".
	FastCompile string
	// TimeFile gets a table of the compiler's own times, TimeTraceFile a trace.
	TimeFile, TimeTraceFile string

	// PCH are precompiled headers.
	PCH PCHOptions

	// ExtraSources are further modules, by name, for NVVM IR only. Sources
	// here and in NewProgram may be bitcode.
	ExtraSources map[string]string
	// Libdevice adds NVIDIA's mathematical functions, for NVVM IR only.
	Libdevice bool

	// Extra are options as the compiler takes them, for what has no field
	// here. In all languages.
	Extra []string
}

// PCHOptions are about precompiled headers, which NVRTC has since CUDA 12.8.
type PCHOptions struct {
	// Auto makes and uses one by itself.
	Auto bool
	// Create and Use are files. Dir is where they, and those of Auto, are.
	Create, Use, Dir string
	// Verbose says why one was not used; Messages says when one was made or
	// used.
	Verbose  bool
	Messages Toggle
	// InstantiateTemplates is on by default.
	InstantiateTemplates Toggle
}

// archPattern is one architecture: a number, perhaps with a letter for code
// that only that one or its family runs.
var archPattern = regexp.MustCompile(`^(?:sm_|compute_)?(\d{2,3}[af]?)$`)

// parseArch returns "90a", and whether it is a virtual one.
func parseArch(s string) (arch string, virtual bool, err error) {
	m := archPattern.FindStringSubmatch(s)
	if m == nil {
		return "", false, invalid(`architecture %q is not like "sm_90", "compute_90" or "90"`, s)
	}
	return m[1], strings.HasPrefix(s, "compute_"), nil
}

// resolveArch asks the device if there is no explicit architecture.
func resolveArch(arch string, dev *device.Device) (string, bool, error) {
	if arch != "" {
		return parseArch(arch)
	}
	if dev == nil {
		var err error
		if dev, err = device.Open(0); err != nil {
			return "", false, fmt.Errorf("launch: no architecture is given, and there is no device to ask: %w", err)
		}
	}
	a, err := dev.Arch()
	if err != nil {
		return "", false, fmt.Errorf("launch: %w", err)
	}
	return a, false, nil
}

// flags collects options in the compiler's form.
type flags []string

func (f *flags) add(s ...string) { *f = append(*f, s...) }

func (f *flags) on(name string, on bool) {
	if on {
		f.add(name)
	}
}

func (f *flags) text(name, value string) {
	if value != "" {
		f.add(name + value)
	}
}

func (f *flags) toggle(name string, t Toggle) {
	switch t {
	case ToggleOn:
		f.add(name + "=true")
	case ToggleOff:
		f.add(name + "=false")
	}
}

// check refuses what cannot be meant.
func (o *ProgramOptions) check() error {
	bad := func(format string, args ...any) error {
		return invalid("program %q: "+format, append([]any{o.Name}, args...)...)
	}
	if o.Arch != "" {
		if _, _, err := parseArch(o.Arch); err != nil {
			return err
		}
	}
	if o.MaxRegisters < 0 || o.MaxRegisters > 1<<16 {
		return bad("MaxRegisters is %d", o.MaxRegisters)
	}
	if o.SplitCompile < -1 {
		return bad("SplitCompile is %d", o.SplitCompile)
	}
	if !slices.Contains([]string{"", "0", "min", "mid", "max"}, o.FastCompile) {
		return bad(`FastCompile is %q, not "min", "mid" or "max"`, o.FastCompile)
	}
	if o.OptInfo != "" && o.OptInfo != "inline" {
		return bad(`OptInfo is %q, not "inline"`, o.OptInfo)
	}
	if o.BundledHeaders && o.ToolkitHeaders {
		return bad("BundledHeaders excludes ToolkitHeaders")
	}
	for name := range o.Define {
		if name == "" || strings.ContainsAny(name, "=\n") {
			return bad("cannot define a macro %q", name)
		}
	}
	for _, t := range []Toggle{
		o.SourceInclude, o.RelocatableDeviceCode, o.DeviceOptimize, o.FlushDenormals, o.PreciseSqrt, o.PreciseDiv, o.FMA,
		o.BuiltinMove, o.BuiltinInitializerList, o.BriefDiagnostics, o.PCH.Messages, o.PCH.InstantiateTemplates,
	} {
		if t < ToggleDefault || t > ToggleOff {
			return bad("%d is no Toggle", t)
		}
	}
	switch o.Language {
	case LanguageCUDA:
		if len(o.ExtraSources) > 0 || o.Libdevice {
			return bad("ExtraSources and Libdevice are for NVVM IR")
		}
	case LanguagePTX, LanguageNVVM:
		if name := o.foreign(); name != "" {
			return bad("%s is not for %v", name, o.Language)
		}
	default:
		return bad("unknown language %v", o.Language)
	}
	return nil
}

// foreign returns the name of an option that is set and is for CUDA C++ only.
func (o *ProgramOptions) foreign() string {
	ptx := o.Language == LanguagePTX
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"Std", o.Std != ""},
		{"Define", len(o.Define) > 0},
		{"Undefine", len(o.Undefine) > 0},
		{"Headers", len(o.Headers) > 0},
		{"IncludePaths", len(o.IncludePaths) > 0},
		{"PreInclude", len(o.PreInclude) > 0},
		{"SourceInclude", o.SourceInclude != 0},
		{"ToolkitHeaders", o.ToolkitHeaders},
		{"BundledHeaders", o.BundledHeaders},
		{"RelocatableDeviceCode", o.RelocatableDeviceCode != 0},
		{"ExtensibleWholeProgram", o.ExtensibleWholeProgram},
		{"DeviceOptimize", o.DeviceOptimize != 0},
		{"FastMath", o.FastMath},
		{"ExtraVectorization", o.ExtraVectorization},
		{"GenOptLTO", o.GenOptLTO},
		{"Restrict", o.Restrict},
		{"DefaultDevice", o.DefaultDevice},
		{"Int128", o.Int128},
		{"Float128", o.Float128},
		{"BuiltinMove", o.BuiltinMove != 0},
		{"BuiltinInitializerList", o.BuiltinInitializerList != 0},
		{"NoWarnings", o.NoWarnings},
		{"NoErrorNumbers", o.NoErrorNumbers},
		{"BriefDiagnostics", o.BriefDiagnostics != 0},
		{"DiagError", len(o.DiagError) > 0},
		{"DiagSuppress", len(o.DiagSuppress) > 0},
		{"DiagWarn", len(o.DiagWarn) > 0},
		{"OptInfo", o.OptInfo != ""},
		{"SplitCompile", o.SplitCompile != 0},
		{"Minimal", o.Minimal},
		{"NoCache", o.NoCache},
		{"RandomSeed", o.RandomSeed != ""},
		{"FastCompile", o.FastCompile != ""},
		{"TimeFile", o.TimeFile != ""},
		{"TimeTraceFile", o.TimeTraceFile != ""},
		{"PCH", o.PCH != PCHOptions{}},
		{"AssemblerOptions", !ptx && len(o.AssemblerOptions) > 0},
		{"MaxRegisters", !ptx && o.MaxRegisters != 0},
		{"ExtraSources", ptx && len(o.ExtraSources) > 0},
		{"Libdevice", ptx && o.Libdevice},
	} {
		if f.set {
			return f.name
		}
	}
	return ""
}

// nvrtc gives the options in NVRTC's form.
func (o *ProgramOptions) nvrtc(arch string, target Format) []string {
	f := flags{"-arch=" + arch}
	if o.Std == "" {
		f.add("-std=c++17")
	} else {
		f.add("-std=" + o.Std)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Define)) {
		if v := o.Define[name]; v != "" {
			f.add("-D" + name + "=" + v)
		} else {
			f.add("-D" + name + "=")
		}
	}
	for _, name := range o.Undefine {
		f.add("-U" + name)
	}
	for _, dir := range o.IncludePaths {
		f.add("-I" + dir)
	}
	for _, file := range o.PreInclude {
		f.add("-include=" + file)
	}
	f.on("-no-source-include", o.SourceInclude != ToggleOn)
	f.toggle("-rdc", o.RelocatableDeviceCode)
	f.on("-ewp", o.ExtensibleWholeProgram)
	f.on("-G", o.Debug)
	f.on("-lineinfo", o.LineInfo)
	f.on("-dopt=on", o.DeviceOptimize == ToggleOn)
	for _, s := range o.AssemblerOptions {
		f.add("--ptxas-options=" + s)
	}
	if o.MaxRegisters > 0 {
		f.add("-maxrregcount=" + strconv.Itoa(o.MaxRegisters))
	}
	f.on("-use_fast_math", o.FastMath)
	f.toggle("-ftz", o.FlushDenormals)
	f.toggle("-prec-sqrt", o.PreciseSqrt)
	f.toggle("-prec-div", o.PreciseDiv)
	f.toggle("-fmad", o.FMA)
	f.on("-extra-device-vectorization", o.ExtraVectorization)
	f.on("-dlto", target == FormatLTOIR)
	f.on("-gen-opt-lto", o.GenOptLTO)
	f.on("-restrict", o.Restrict)
	f.on("-default-device", o.DefaultDevice)
	f.on("-device-int128", o.Int128)
	f.on("-device-float128", o.Float128)
	f.toggle("-builtin-move-forward", o.BuiltinMove)
	f.toggle("-builtin-initializer-list", o.BuiltinInitializerList)
	f.on("-w", o.NoWarnings)
	f.on("-no-err-no", o.NoErrorNumbers)
	f.toggle("-brief-diag", o.BriefDiagnostics)
	for _, d := range []struct {
		name string
		list []int
	}{{"-diag-error=", o.DiagError}, {"-diag-suppress=", o.DiagSuppress}, {"-diag-warn=", o.DiagWarn}} {
		for _, n := range d.list {
			f.add(d.name + strconv.Itoa(n))
		}
	}
	f.text("-opt-info=", o.OptInfo)
	switch {
	case o.SplitCompile > 0:
		f.add("-split-compile=" + strconv.Itoa(o.SplitCompile))
	case o.SplitCompile < 0:
		f.add("-split-compile=0")
	}
	f.on("-minimal", o.Minimal)
	f.on("-no-cache", o.NoCache)
	f.text("-frandom-seed=", o.RandomSeed)
	f.text("--Ofast-compile=", o.FastCompile)
	f.text("-time=", o.TimeFile)
	f.text("-fdevice-time-trace=", o.TimeTraceFile)
	f.on("-pch", o.PCH.Auto)
	f.text("-create-pch=", o.PCH.Create)
	f.text("-use-pch=", o.PCH.Use)
	f.text("-pch-dir=", o.PCH.Dir)
	f.on("-pch-verbose=true", o.PCH.Verbose)
	f.toggle("-pch-messages", o.PCH.Messages)
	f.toggle("-instantiate-templates-in-pch", o.PCH.InstantiateTemplates)
	f.add(o.Extra...)
	return f
}

// nvvm gives the options in libNVVM's form.
func (o *ProgramOptions) nvvm(arch string, target Format) []string {
	f := flags{"-arch=" + arch}
	number := func(name string, t Toggle) {
		switch t {
		case ToggleOn:
			f.add(name + "=1")
		case ToggleOff:
			f.add(name + "=0")
		}
	}
	f.on("-g", o.Debug)
	f.on("-generate-line-info", o.LineInfo)
	number("-ftz", o.FlushDenormals)
	number("-prec-sqrt", o.PreciseSqrt)
	number("-prec-div", o.PreciseDiv)
	number("-fma", o.FMA)
	f.on("-gen-lto", target == FormatLTOIR)
	f.add(o.Extra...)
	return f
}

// files returns what makes the result depend on files, or makes it write
// some: what no cache can know.
func (o *ProgramOptions) files() string {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"IncludePaths", len(o.IncludePaths) > 0},
		{"PreInclude", o.reads(o.PreInclude)},
		{"SourceInclude", o.SourceInclude == ToggleOn},
		{"TimeFile", o.TimeFile != ""},
		{"TimeTraceFile", o.TimeTraceFile != ""},
		{"PCH", o.PCH != PCHOptions{}},
		{"Extra", len(o.Extra) > 0},
	} {
		if f.set {
			return f.name
		}
	}
	return ""
}

// reads says whether a header is not among those in memory.
func (o *ProgramOptions) reads(names []string) bool {
	for _, n := range names {
		if _, ok := o.Headers[n]; !ok {
			return true
		}
	}
	return false
}
