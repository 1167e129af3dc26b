// Package nvvm calls NVIDIA's compiler for NVVM IR, a dialect of LLVM's
// intermediate language: IR as text or bitcode in, PTX or intermediate code
// out. It needs no GPU and no driver, only the library, which package
// pathfinder finds when [Load] is called: pip's nvidia-nvvm (CUDA 13) or
// nvidia-cuda-nvcc-cu12, conda, or a toolkit.
//
//	lib, err := nvvm.Load()
//	...
//	p, err := lib.NewProgram()
//	...
//	defer p.Close()
//	err = p.Add(ir, "kernel.ll")
//	err = p.AddLibdevice() // if the IR calls functions such as __nv_sinf
//	err = p.Compile("-arch=compute_90") // *nvvm.Error with the log
//	ptx, err := p.Result()
//
// # Ownership
//
// A [Program] is closed by who made it. Inputs are lent for the call; what its
// methods return are copies.
//
// # Errors
//
// A call that fails gives an [*Error] with the library's code and, from
// [Program.Compile] and [Program.Verify], its log.
//
// # Concurrency
//
// A [Library] may be used from several goroutines at once. The methods of one
// Program wait for each other.
//
// The calls are those of https://docs.nvidia.com/cuda/libnvvm-api/, CUDA 12
// and 13; the language is that of https://docs.nvidia.com/cuda/nvvm-ir-spec/.
package nvvm

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/launch/internal/clib"
	"github.com/go-handoff/handoff/pathfinder"
)

// Errors reported by this package. Test for them with [errors.Is]; they are
// always wrapped.
var (
	// ErrNotSupported means that this libNVVM, or this build, lacks something.
	ErrNotSupported = dlpack.ErrNotSupported
	// ErrClosed means that a Program was used after Close.
	ErrClosed = dlpack.ErrClosed
	// ErrNoOutput means that a program was not compiled.
	ErrNoOutput = errors.New("no such output")
)

// Result is a code of libNVVM. The zero Result is success.
type Result int

// Codes of libNVVM.
const (
	Success                     Result = 0
	ErrorOutOfMemory            Result = 1
	ErrorProgramCreationFailure Result = 2
	ErrorIRVersionMismatch      Result = 3
	ErrorInvalidInput           Result = 4
	ErrorInvalidProgram         Result = 5
	ErrorInvalidIR              Result = 6
	ErrorInvalidOption          Result = 7
	ErrorNoModuleInProgram      Result = 8
	ErrorCompilation            Result = 9
	ErrorCancelled              Result = 10
)

var names = [...]string{
	"NVVM_SUCCESS", "NVVM_ERROR_OUT_OF_MEMORY", "NVVM_ERROR_PROGRAM_CREATION_FAILURE",
	"NVVM_ERROR_IR_VERSION_MISMATCH", "NVVM_ERROR_INVALID_INPUT", "NVVM_ERROR_INVALID_PROGRAM",
	"NVVM_ERROR_INVALID_IR", "NVVM_ERROR_INVALID_OPTION", "NVVM_ERROR_NO_MODULE_IN_PROGRAM",
	"NVVM_ERROR_COMPILATION", "NVVM_ERROR_CANCELLED",
}

// Name returns the library's name of the code, or its number if this package
// does not know it.
func (r Result) Name() string {
	return clib.CodeName(names[:], "NVVM_ERROR_", int(r))
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
func (e *Error) Error() string { return clib.ErrorText("nvvm", e.Op, e.Result.Name(), e.Log) }

// Unwrap returns the code.
func (e *Error) Unwrap() error { return e.Result }

func check(op string, code int) error {
	if code == 0 {
		return nil
	}
	return &Error{Op: op, Result: Result(code)}
}

// Library is an open libNVVM. It is never closed.
type Library struct {
	lib                                            pathfinder.Library
	major, minor                                   int
	create, destroy, add, lazyAdd, compile, verify uintptr
	resultSize, result, logSize, log               uintptr
	irVersion, llvmVersion                         uintptr
}

var std clib.Kept[Library]

// Load finds and opens the library with pathfinder's default options. What was
// found is kept; a failure, a [*pathfinder.NotFoundError] for example, is not.
func Load() (*Library, error) { return std.Load("nvvm", "nvvm", Open) }

// Open uses a library that pathfinder has opened.
func Open(lib pathfinder.Library) (*Library, error) {
	s := clib.NewSymbols(lib.Path, lib.Symbol)
	l := &Library{
		lib:    lib,
		create: s.Need("nvvmCreateProgram"), destroy: s.Need("nvvmDestroyProgram"),
		add: s.Need("nvvmAddModuleToProgram"), lazyAdd: s.Need("nvvmLazyAddModuleToProgram"),
		compile: s.Need("nvvmCompileProgram"), verify: s.Need("nvvmVerifyProgram"),
		resultSize: s.Need("nvvmGetCompiledResultSize"), result: s.Need("nvvmGetCompiledResult"),
		logSize: s.Need("nvvmGetProgramLogSize"), log: s.Need("nvvmGetProgramLog"),
		irVersion: s.Need("nvvmIRVersion"), llvmVersion: s.May("nvvmLLVMVersion"),
	}
	version := s.Need("nvvmVersion")
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("nvvm: %w", err)
	}
	var code int
	l.major, l.minor, code = clib.Ints2(version)
	return l, check("nvvmVersion", code)
}

// Path returns the file of the library.
func (l *Library) Path() string { return l.lib.Path }

// Version returns the version of the library, which has its own numbers: 2.0
// came with CUDA 12 and 13.
func (l *Library) Version() (major, minor int) { return l.major, l.minor }

// IRVersion holds the versions of the language, and of its debug information,
// that a library reads.
type IRVersion struct{ Major, Minor, DebugMajor, DebugMinor int }

// IRVersion returns the versions that the library reads.
func (l *Library) IRVersion() (IRVersion, error) {
	v, code := clib.Ints4(l.irVersion)
	return IRVersion{v[0], v[1], v[2], v[3]}, check("nvvmIRVersion", code)
}

// LLVMVersion returns the major version of LLVM whose IR the library reads for
// an architecture such as "compute_90". An older library does not tell
// ([ErrNotSupported]).
func (l *Library) LLVMVersion(arch string) (int, error) {
	const op = "nvvmLLVMVersion"
	if l.llvmVersion == 0 {
		return 0, fmt.Errorf("nvvm: %s: %w", op, ErrNotSupported)
	}
	major, code, err := clib.NVVMLLVM(l.llvmVersion, arch)
	if err != nil {
		return 0, fmt.Errorf("nvvm: %s: %w: %w", op, err, ErrorInvalidInput)
	}
	return major, check(op, code)
}

// Libdevice reads NVIDIA's library of mathematical functions as bitcode.
func Libdevice() ([]byte, error) {
	at, err := pathfinder.Default().Bitcode("device")
	if err != nil {
		return nil, fmt.Errorf("nvvm: libdevice: %w", err)
	}
	b, err := os.ReadFile(at.Path)
	if err != nil {
		return nil, fmt.Errorf("nvvm: libdevice: %w", err)
	}
	return b, nil
}

// Program is a number of modules that are compiled together.
type Program struct {
	l   *Library
	obj *clib.Object
}

// NewProgram makes a program without modules.
func (l *Library) NewProgram() (*Program, error) {
	h, code := clib.Create(l.create)
	if err := check("nvvmCreateProgram", code); err != nil {
		return nil, err
	}
	destroy := l.destroy
	return &Program{l: l, obj: clib.NewObject("nvvm.Program", h, func(h uintptr) error {
		return check("nvvmDestroyProgram", clib.Destroy(destroy, h))
	})}, nil
}

// Close destroys the program. It may be called twice.
func (p *Program) Close() error { return p.obj.Close() }

// lock begins a use; the caller unlocks on success.
func (p *Program) lock(op string) error {
	if !p.obj.Lock() {
		return fmt.Errorf("nvvm: %s: program: %w", op, ErrClosed)
	}
	return nil
}

// Add adds a module, as text or bitcode; the name is for messages.
func (p *Program) Add(ir []byte, name string) error {
	return p.add("nvvmAddModuleToProgram", p.l.add, ir, name)
}

// AddLazy adds a module of which only what others use is taken.
func (p *Program) AddLazy(ir []byte, name string) error {
	return p.add("nvvmLazyAddModuleToProgram", p.l.lazyAdd, ir, name)
}

// AddLibdevice adds what is used of [Libdevice].
func (p *Program) AddLibdevice() error {
	b, err := Libdevice()
	if err != nil {
		return err
	}
	return p.AddLazy(b, "libdevice")
}

func (p *Program) add(op string, fn uintptr, ir []byte, name string) error {
	if err := p.lock(op); err != nil {
		return err
	}
	defer p.obj.Unlock()
	if len(ir) == 0 {
		return &Error{Op: op, Result: ErrorInvalidInput, Log: strconv.Quote(name) + " has no bytes"}
	}
	code, err := clib.NVVMAdd(fn, p.obj.Handle(), ir, name)
	if err != nil {
		return fmt.Errorf("nvvm: %s: %w: %w", op, err, ErrorInvalidInput)
	}
	return check(op, code)
}

// Compile compiles the program with the library's own options, such as
// "-arch=compute_90" and "-gen-lto". A failure is an [*Error] with the log.
func (p *Program) Compile(options ...string) error {
	return p.run("nvvmCompileProgram", p.l.compile, options)
}

// Verify checks the modules against the rules of the language, for the same
// options as Compile.
func (p *Program) Verify(options ...string) error {
	return p.run("nvvmVerifyProgram", p.l.verify, options)
}

func (p *Program) run(op string, fn uintptr, options []string) error {
	if err := p.lock(op); err != nil {
		return err
	}
	defer p.obj.Unlock()
	code, err := clib.Strings(fn, p.obj.Handle(), options)
	if err != nil {
		return fmt.Errorf("nvvm: %s: %w: %w", op, err, ErrorInvalidOption)
	}
	if code == 0 {
		return nil
	}
	log, _ := p.logText()
	return &Error{Op: op, Result: Result(code), Log: log}
}

// Result returns what was compiled: PTX, which ends with a zero byte, or with
// "-gen-lto" intermediate code.
func (p *Program) Result() ([]byte, error) {
	const op = "nvvmGetCompiledResult"
	if err := p.lock(op); err != nil {
		return nil, err
	}
	defer p.obj.Unlock()
	b, code := clib.Bytes(p.l.resultSize, p.l.result, p.obj.Handle())
	if err := check(op, code); err != nil {
		return nil, err
	}
	if len(b) == 0 {
		return nil, fmt.Errorf("nvvm: %s: %w", op, ErrNoOutput)
	}
	return b, nil
}

// Log returns what the library said when the program was compiled or verified
// last.
func (p *Program) Log() (string, error) {
	if err := p.lock("nvvmGetProgramLog"); err != nil {
		return "", err
	}
	defer p.obj.Unlock()
	return p.logText()
}

func (p *Program) logText() (string, error) {
	text, code := clib.Log(p.l.logSize, p.l.log, p.obj.Handle())
	return text, check("nvvmGetProgramLog", code)
}
