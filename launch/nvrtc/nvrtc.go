// Package nvrtc calls NVIDIA's run-time compiler for CUDA C++: source text in;
// PTX, machine code or intermediate code out. It needs no GPU and no driver,
// only the library, which package pathfinder finds when [Load] is called:
// pip's nvidia-cuda-nvrtc, conda, or a toolkit.
//
//	lib, err := nvrtc.Load()
//	...
//	p, err := lib.NewProgram(source, "saxpy.cu", nil)
//	...
//	defer p.Close()
//	err = p.Compile("-arch=sm_90", "-std=c++17") // *nvrtc.Error with the log
//	...
//	code, err := p.Cubin()
//
// These are thin calls. Package launch has typed options, a cache, and goes on
// to kernels.
//
// # Ownership
//
// A [Program] is closed by who made it. What its methods return are copies.
//
// # Errors
//
// A call that fails gives an [*Error] with the library's code and, from
// [Program.Compile], its log. A function that an older NVRTC lacks gives
// [ErrNotSupported].
//
// # Concurrency
//
// A [Library] may be used from several goroutines at once, and compiles
// several programs at once. The methods of one Program wait for each other,
// except [Program.Cancel].
//
// The calls are those of https://docs.nvidia.com/cuda/nvrtc/, CUDA 12 and 13.
package nvrtc

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/launch/internal/clib"
	"github.com/go-handoff/handoff/pathfinder"
)

// Errors reported by this package. Test for them with [errors.Is]; they are
// always wrapped.
var (
	// ErrNotSupported means that this NVRTC, or this build, lacks something.
	ErrNotSupported = dlpack.ErrNotSupported
	// ErrClosed means that a Program was used after Close.
	ErrClosed = dlpack.ErrClosed
	// ErrNoOutput means that a program has no output of a kind, because it was
	// not compiled, or with other options.
	ErrNoOutput = errors.New("no such output")
)

// Result is a code of NVRTC. The zero Result is success.
type Result int

// Codes of NVRTC.
const (
	Success                            Result = 0
	ErrorOutOfMemory                   Result = 1
	ErrorProgramCreationFailure        Result = 2
	ErrorInvalidInput                  Result = 3
	ErrorInvalidProgram                Result = 4
	ErrorInvalidOption                 Result = 5
	ErrorCompilation                   Result = 6
	ErrorBuiltinOperationFailure       Result = 7
	ErrorNoNameExpressionsAfterCompile Result = 8
	ErrorNoLoweredNamesBeforeCompile   Result = 9
	ErrorNameExpressionNotValid        Result = 10
	ErrorInternalError                 Result = 11
	ErrorTimeFileWriteFailed           Result = 12
	ErrorNoPCHCreateAttempted          Result = 13
	ErrorPCHCreateHeapExhausted        Result = 14
	ErrorPCHCreate                     Result = 15
	ErrorCancelled                     Result = 16
	ErrorTimeTraceFileWriteFailed      Result = 17
	ErrorBusy                          Result = 18
)

var names = [...]string{
	"NVRTC_SUCCESS", "NVRTC_ERROR_OUT_OF_MEMORY", "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
	"NVRTC_ERROR_INVALID_INPUT", "NVRTC_ERROR_INVALID_PROGRAM", "NVRTC_ERROR_INVALID_OPTION",
	"NVRTC_ERROR_COMPILATION", "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
	"NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION", "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
	"NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID", "NVRTC_ERROR_INTERNAL_ERROR", "NVRTC_ERROR_TIME_FILE_WRITE_FAILED",
	"NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED", "NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED", "NVRTC_ERROR_PCH_CREATE",
	"NVRTC_ERROR_CANCELLED", "NVRTC_ERROR_TIME_TRACE_FILE_WRITE_FAILED", "NVRTC_ERROR_BUSY",
}

// Name returns the library's name of the code, or its number if this package
// does not know it.
func (r Result) Name() string {
	return clib.CodeName(names[:], "NVRTC_ERROR_", int(r))
}

// Error implements error. The zero Result is not one.
func (r Result) Error() string { return r.Name() }

// Error says which call failed and why.
type Error struct {
	// Op is the function of the library.
	Op string
	// Result is its code.
	Result Result
	// Log is what the compiler said, or "".
	Log string
}

// Error returns function, code and log.
func (e *Error) Error() string { return clib.ErrorText("nvrtc", e.Op, e.Result.Name(), e.Log) }

// Unwrap returns the code.
func (e *Error) Unwrap() error { return e.Result }

func check(op string, code int) error {
	if code == 0 {
		return nil
	}
	return &Error{Op: op, Result: Result(code)}
}

// Library is an open NVRTC. It is never closed.
type Library struct {
	lib                                                            pathfinder.Library
	major, minor                                                   int
	create, destroy, compile, logSize, log                         uintptr
	ptxSize, ptx, cubinSize, cubin, ltoSize, lto, optixSize, optix uintptr
	addName, lowered                                               uintptr
	numArchs, archs                                                uintptr
	pchGet, pchSet, pchStatus, pchNeeded, flow                     uintptr
}

var std clib.Kept[Library]

// Load finds and opens the library with pathfinder's default options. What was
// found is kept; a failure, a [*pathfinder.NotFoundError] for example, is not.
func Load() (*Library, error) { return std.Load("nvrtc", "nvrtc", Open) }

// Open uses a library that pathfinder has opened.
func Open(lib pathfinder.Library) (*Library, error) {
	s := clib.NewSymbols(lib.Path, lib.Symbol)
	l := &Library{
		lib:    lib,
		create: s.Need("nvrtcCreateProgram"), destroy: s.Need("nvrtcDestroyProgram"), compile: s.Need("nvrtcCompileProgram"),
		logSize: s.Need("nvrtcGetProgramLogSize"), log: s.Need("nvrtcGetProgramLog"),
		ptxSize: s.Need("nvrtcGetPTXSize"), ptx: s.Need("nvrtcGetPTX"),
		cubinSize: s.May("nvrtcGetCUBINSize"), cubin: s.May("nvrtcGetCUBIN"),
		ltoSize: s.May("nvrtcGetLTOIRSize"), lto: s.May("nvrtcGetLTOIR"),
		optixSize: s.May("nvrtcGetOptiXIRSize"), optix: s.May("nvrtcGetOptiXIR"),
		addName: s.Need("nvrtcAddNameExpression"), lowered: s.Need("nvrtcGetLoweredName"),
		numArchs: s.May("nvrtcGetNumSupportedArchs"), archs: s.May("nvrtcGetSupportedArchs"),
		pchGet: s.May("nvrtcGetPCHHeapSize"), pchSet: s.May("nvrtcSetPCHHeapSize"),
		pchStatus: s.May("nvrtcGetPCHCreateStatus"), pchNeeded: s.May("nvrtcGetPCHHeapSizeRequired"),
		flow: s.May("nvrtcSetFlowCallback"),
	}
	version := s.Need("nvrtcVersion")
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("nvrtc: %w", err)
	}
	var code int
	l.major, l.minor, code = clib.Ints2(version)
	return l, check("nvrtcVersion", code)
}

// Path returns the file of the library.
func (l *Library) Path() string { return l.lib.Path }

// Version returns the version of the library, which is that of its toolkit.
func (l *Library) Version() (major, minor int) { return l.major, l.minor }

// missing says that the library is too old.
func (l *Library) missing(name, since string) error {
	return fmt.Errorf("nvrtc: %s needs NVRTC %s or newer, this is %d.%d: %w", name, since, l.major, l.minor, ErrNotSupported)
}

// SupportedArchs returns the architectures that the library compiles for, as
// 10 × major + minor, in ascending order.
func (l *Library) SupportedArchs() ([]int, error) {
	if l.numArchs == 0 || l.archs == 0 {
		return nil, l.missing("nvrtcGetSupportedArchs", "11.2")
	}
	n, code := clib.Int(l.numArchs)
	if err := check("nvrtcGetNumSupportedArchs", code); err != nil {
		return nil, err
	}
	v, code := clib.IntArray(l.archs, n)
	return v, check("nvrtcGetSupportedArchs", code)
}

// PCHHeapSize returns the room for precompiled headers in this process, in
// bytes.
func (l *Library) PCHHeapSize() (uint64, error) {
	if l.pchGet == 0 {
		return 0, l.missing("nvrtcGetPCHHeapSize", "12.8")
	}
	n, code := clib.GetSize(l.pchGet)
	return n, check("nvrtcGetPCHHeapSize", code)
}

// SetPCHHeapSize sets the room for precompiled headers that are made from now
// on, for the whole process.
func (l *Library) SetPCHHeapSize(n uint64) error {
	if l.pchSet == 0 {
		return l.missing("nvrtcSetPCHHeapSize", "12.8")
	}
	return check("nvrtcSetPCHHeapSize", clib.SetSize(l.pchSet, n))
}

// Header is a file in memory, for #include.
type Header struct {
	// Name is what the source includes.
	Name string
	// Source is the text.
	Source string
}

// Program is a source that can be compiled.
type Program struct {
	l      *Library
	obj    *clib.Object
	cancel *clib.Flag // nil where compilations cannot be cancelled
}

// NewProgram makes a program of a source. The name is for messages, and what
// __FILE__ says; "" is the library's default. Sources with zero bytes are
// refused.
func (l *Library) NewProgram(source, name string, headers []Header) (*Program, error) {
	const op = "nvrtcCreateProgram"
	if name == "" {
		name = "default_program"
	}
	texts, includes := make([]string, len(headers)), make([]string, len(headers))
	for i, h := range headers {
		texts[i], includes[i] = h.Source, h.Name
	}
	h, code, err := clib.NVRTCCreate(l.create, source, name, texts, includes)
	if err != nil {
		return nil, fmt.Errorf("nvrtc: %s: %w: %w", op, err, ErrorInvalidInput)
	}
	if err := check(op, code); err != nil {
		return nil, err
	}
	p := &Program{l: l}
	if l.flow != 0 {
		if f := clib.NewFlag(); f != nil && clib.NVRTCFlow(l.flow, h, f) == 0 {
			p.cancel = f
		}
	}
	destroy, flag := l.destroy, p.cancel
	p.obj = clib.NewObject("nvrtc.Program", h, func(h uintptr) error {
		err := check("nvrtcDestroyProgram", clib.Destroy(destroy, h))
		runtime.KeepAlive(flag) // the program may look at it until now
		return err
	})
	return p, nil
}

// Close destroys the program. It may be called twice.
func (p *Program) Close() error { return p.obj.Close() }

// lock begins a use; the caller unlocks on success.
func (p *Program) lock(op string) error {
	if !p.obj.Lock() {
		return fmt.Errorf("nvrtc: %s: program: %w", op, ErrClosed)
	}
	return nil
}

// AddNameExpression names an instance of a template, or a function or variable
// in a namespace, whose [Program.LoweredName] is wanted. It comes before
// Compile.
func (p *Program) AddNameExpression(expr string) error {
	const op = "nvrtcAddNameExpression"
	if err := p.lock(op); err != nil {
		return err
	}
	defer p.obj.Unlock()
	code, err := clib.String(p.l.addName, p.obj.Handle(), expr)
	if err != nil {
		return fmt.Errorf("nvrtc: %s: %w: %w", op, err, ErrorInvalidInput)
	}
	return check(op, code)
}

// Compile compiles the program with the library's own options, such as
// "-arch=sm_90". A failure is an [*Error] with the log.
func (p *Program) Compile(options ...string) error {
	const op = "nvrtcCompileProgram"
	if err := p.lock(op); err != nil {
		return err
	}
	defer p.obj.Unlock()
	code, err := clib.Strings(p.l.compile, p.obj.Handle(), options)
	if err != nil {
		return fmt.Errorf("nvrtc: %s: %w: %w", op, err, ErrorInvalidOption)
	}
	if code == 0 {
		return nil
	}
	log, _ := p.logText()
	return &Error{Op: op, Result: Result(code), Log: log}
}

// Cancel ends a compilation that another goroutine is in, or the next one,
// soon: Compile then gives [ErrorCancelled]. It needs NVRTC 12.9 or newer,
// otherwise the error wraps [ErrNotSupported].
func (p *Program) Cancel() error {
	if p.cancel == nil {
		return p.l.missing("nvrtcSetFlowCallback", "12.9")
	}
	p.cancel.Set()
	return nil
}

// output asks for the bytes of one kind.
func (p *Program) output(name string, size, data uintptr, since string) ([]byte, error) {
	if size == 0 || data == 0 {
		return nil, p.l.missing(name, since)
	}
	if err := p.lock(name); err != nil {
		return nil, err
	}
	defer p.obj.Unlock()
	b, code := clib.Bytes(size, data, p.obj.Handle())
	if code != 0 {
		return nil, &Error{Op: name, Result: Result(code)}
	}
	if len(b) == 0 {
		return nil, fmt.Errorf("nvrtc: %s: %w", name, ErrNoOutput)
	}
	return b, nil
}

// PTX returns the assembly text, which ends with a zero byte.
func (p *Program) PTX() ([]byte, error) { return p.output("nvrtcGetPTX", p.l.ptxSize, p.l.ptx, "11") }

// Cubin returns the machine code. There is none if the program was compiled
// for a virtual architecture ("compute_90").
func (p *Program) Cubin() ([]byte, error) {
	return p.output("nvrtcGetCUBIN", p.l.cubinSize, p.l.cubin, "11.1")
}

// LTOIR returns the intermediate code for a link with optimization. There is
// none unless the program was compiled with "-dlto".
func (p *Program) LTOIR() ([]byte, error) {
	return p.output("nvrtcGetLTOIR", p.l.ltoSize, p.l.lto, "12.0")
}

// OptiXIR returns the intermediate code for OptiX, of a program compiled with
// "--optix-ir".
func (p *Program) OptiXIR() ([]byte, error) {
	return p.output("nvrtcGetOptiXIR", p.l.optixSize, p.l.optix, "12.0")
}

// Log returns what the compiler said when the program was compiled last.
func (p *Program) Log() (string, error) {
	if err := p.lock("nvrtcGetProgramLog"); err != nil {
		return "", err
	}
	defer p.obj.Unlock()
	return p.logText()
}

func (p *Program) logText() (string, error) {
	text, code := clib.Log(p.l.logSize, p.l.log, p.obj.Handle())
	return text, check("nvrtcGetProgramLog", code)
}

// LoweredName returns the name in the code for a name expression, after
// Compile.
func (p *Program) LoweredName(expr string) (string, error) {
	const op = "nvrtcGetLoweredName"
	if err := p.lock(op); err != nil {
		return "", err
	}
	defer p.obj.Unlock()
	name, code, err := clib.Lookup(p.l.lowered, p.obj.Handle(), expr)
	if err != nil {
		return "", fmt.Errorf("nvrtc: %s: %w: %w", op, err, ErrorInvalidInput)
	}
	return name, check(op+" "+strconv.Quote(expr), code)
}

// PCHCreateStatus says how making a precompiled header went: nil, or an
// [*Error] with [ErrorNoPCHCreateAttempted], [ErrorPCHCreate] or
// [ErrorPCHCreateHeapExhausted].
func (p *Program) PCHCreateStatus() error {
	const op = "nvrtcGetPCHCreateStatus"
	if p.l.pchStatus == 0 {
		return p.l.missing(op, "12.8")
	}
	if err := p.lock(op); err != nil {
		return err
	}
	defer p.obj.Unlock()
	return check(op, clib.Do(p.l.pchStatus, p.obj.Handle()))
}

// PCHHeapSizeRequired returns the room that the precompiled header needs.
func (p *Program) PCHHeapSizeRequired() (uint64, error) {
	const op = "nvrtcGetPCHHeapSizeRequired"
	if p.l.pchNeeded == 0 {
		return 0, p.l.missing(op, "12.8")
	}
	if err := p.lock(op); err != nil {
		return 0, err
	}
	defer p.obj.Unlock()
	n, code := clib.Size(p.l.pchNeeded, p.obj.Handle())
	return n, check(op, code)
}
