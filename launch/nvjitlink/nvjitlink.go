// Package nvjitlink calls NVIDIA's run-time linker for device code: PTX, machine
// code, intermediate code, object files and archives in, one piece out. It
// needs no GPU and no driver, only the library, which package pathfinder finds
// when [Load] is called: pip's nvidia-nvjitlink, conda, or a toolkit.
//
//	lib, err := nvjitlink.Load()
//	...
//	h, err := lib.NewLinker("-arch=sm_90", "-lto")
//	...
//	defer h.Close()
//	err = h.AddData(nvjitlink.InputLTOIR, code, "saxpy") // *nvjitlink.Error
//	err = h.Complete()
//	cubin, err := h.Cubin()
//
// These are thin calls. Package launch has typed options, falls back to the
// driver's linker, and goes on to kernels.
//
// # Ownership
//
// A [Linker] is closed by who made it. Inputs are lent for the call; what its
// methods return are copies.
//
// # Errors
//
// A call that fails gives an [*Error] with the library's code and its logs. A
// function that an older nvJitLink lacks gives [ErrNotSupported].
//
// # Concurrency
//
// A [Library] may be used from several goroutines at once. All its calls are
// made on one thread, one after the other, because the library cannot do with
// less.
//
// The calls are those of https://docs.nvidia.com/cuda/nvjitlink/, CUDA 12 and 13.
package nvjitlink

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/launch/internal/clib"
	"github.com/go-handoff/handoff/pathfinder"
)

// Errors reported by this package. Test for them with [errors.Is]; they are
// always wrapped.
var (
	// ErrNotSupported means that this nvJitLink, or this build, lacks
	// something.
	ErrNotSupported = dlpack.ErrNotSupported
	// ErrClosed means that a Linker was used after Close.
	ErrClosed = dlpack.ErrClosed
	// ErrNoOutput means that a link has no output of a kind.
	ErrNoOutput = errors.New("no such output")
)

// Result is a code of nvJitLink. The zero Result is success.
type Result int

// Codes of nvJitLink.
const (
	Success                  Result = 0
	ErrorUnrecognizedOption  Result = 1
	ErrorMissingArch         Result = 2
	ErrorInvalidInput        Result = 3
	ErrorPTXCompile          Result = 4
	ErrorNVVMCompile         Result = 5
	ErrorInternal            Result = 6
	ErrorThreadpool          Result = 7
	ErrorUnrecognizedInput   Result = 8
	ErrorFinalize            Result = 9
	ErrorNullInput           Result = 10
	ErrorIncompatibleOptions Result = 11
	ErrorIncorrectInputType  Result = 12
	ErrorArchMismatch        Result = 13
	ErrorOutdatedLibrary     Result = 14
	ErrorMissingFatbin       Result = 15
	ErrorUnrecognizedArch    Result = 16
	ErrorUnsupportedArch     Result = 17
	ErrorLTONotEnabled       Result = 18
)

var names = [...]string{
	"NVJITLINK_SUCCESS", "NVJITLINK_ERROR_UNRECOGNIZED_OPTION", "NVJITLINK_ERROR_MISSING_ARCH",
	"NVJITLINK_ERROR_INVALID_INPUT", "NVJITLINK_ERROR_PTX_COMPILE", "NVJITLINK_ERROR_NVVM_COMPILE",
	"NVJITLINK_ERROR_INTERNAL", "NVJITLINK_ERROR_THREADPOOL", "NVJITLINK_ERROR_UNRECOGNIZED_INPUT",
	"NVJITLINK_ERROR_FINALIZE", "NVJITLINK_ERROR_NULL_INPUT", "NVJITLINK_ERROR_INCOMPATIBLE_OPTIONS",
	"NVJITLINK_ERROR_INCORRECT_INPUT_TYPE", "NVJITLINK_ERROR_ARCH_MISMATCH", "NVJITLINK_ERROR_OUTDATED_LIBRARY",
	"NVJITLINK_ERROR_MISSING_FATBIN", "NVJITLINK_ERROR_UNRECOGNIZED_ARCH", "NVJITLINK_ERROR_UNSUPPORTED_ARCH",
	"NVJITLINK_ERROR_LTO_NOT_ENABLED",
}

// Name returns the library's name of the code, or its number if this package
// does not know it.
func (r Result) Name() string {
	return clib.CodeName(names[:], "NVJITLINK_ERROR_", int(r))
}

// Error implements error. The zero Result is not one.
func (r Result) Error() string { return r.Name() }

// Error says which call failed and why.
type Error struct {
	// Op is the function of the library.
	Op string
	// Result is its code.
	Result Result
	// Log is what the linker said, or "".
	Log string
}

// Error returns function, code and log.
func (e *Error) Error() string { return clib.ErrorText("nvjitlink", e.Op, e.Result.Name(), e.Log) }

// Unwrap returns the code.
func (e *Error) Unwrap() error { return e.Result }

// Input says what is added to a link.
type Input int

// Kinds of inputs.
const (
	InputCubin   Input = 1
	InputPTX     Input = 2
	InputLTOIR   Input = 3
	InputFatbin  Input = 4
	InputObject  Input = 5
	InputLibrary Input = 6
	// InputAny lets the library find out.
	InputAny Input = 10
)

// Library is an open nvJitLink. It is never closed.
type Library struct {
	lib                                          pathfinder.Library
	calls                                        chan func() // see serve
	major, minor                                 int
	create, destroy, addData, addFile, complete  uintptr
	cubinSize, cubin, ptxSize, ptx, ltoSize, lto uintptr
	errorLogSize, errorLog, infoLogSize, infoLog uintptr
}

var std clib.Kept[Library]

// Load finds and opens the library with pathfinder's default options. What was
// found is kept; a failure, a [*pathfinder.NotFoundError] for example, is not.
func Load() (*Library, error) { return std.Load("nvjitlink", "nvJitLink", Open) }

// versioned lists the names that a function may have: the plain one, and those
// with a version, newest first. Every release of the library exports the
// versions from X.0 of its own major version on; the first ones had no plain
// names. The meaning of a function has not changed between them.
func versioned(name string) []string {
	list := []string{name}
	for major := 15; major >= 12; major-- {
		for minor := 15; minor >= 0; minor-- {
			list = append(list, fmt.Sprintf("__%s_%d_%d", name, major, minor))
		}
	}
	return list
}

// Open uses a library that pathfinder has opened.
func Open(lib pathfinder.Library) (*Library, error) {
	s := clib.NewSymbols(lib.Path, lib.Symbol)
	need := func(name string) uintptr { return s.Need(versioned(name)...) }
	may := func(name string) uintptr { return s.May(versioned(name)...) }
	l := &Library{
		lib: lib, calls: make(chan func()),
		create: need("nvJitLinkCreate"), destroy: need("nvJitLinkDestroy"),
		addData: need("nvJitLinkAddData"), addFile: need("nvJitLinkAddFile"), complete: need("nvJitLinkComplete"),
		cubinSize: need("nvJitLinkGetLinkedCubinSize"), cubin: need("nvJitLinkGetLinkedCubin"),
		ptxSize: may("nvJitLinkGetLinkedPtxSize"), ptx: may("nvJitLinkGetLinkedPtx"),
		ltoSize: may("nvJitLinkGetLinkedLTOIRSize"), lto: may("nvJitLinkGetLinkedLTOIR"),
		errorLogSize: need("nvJitLinkGetErrorLogSize"), errorLog: need("nvJitLinkGetErrorLog"),
		infoLogSize: need("nvJitLinkGetInfoLogSize"), infoLog: need("nvJitLinkGetInfoLog"),
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("nvjitlink: %w", err)
	}
	if fn := s.May("nvJitLinkVersion"); fn != 0 {
		var code int
		if l.major, l.minor, code = clib.Ints2(fn); code != 0 {
			return nil, &Error{Op: "nvJitLinkVersion", Result: Result(code)}
		}
	} else {
		l.major, l.minor = 12, 0 // it came with 12.3
	}
	go l.serve()
	return l, nil
}

// Path returns the file of the library.
func (l *Library) Path() string { return l.lib.Path }

// Version returns the version of the library, which is that of its toolkit;
// 12.0 stands for everything before 12.3.
func (l *Library) Version() (major, minor int) { return l.major, l.minor }

// serve makes all calls of the library on one thread, as long as the process
// lives. With 13.5 a link that is destroyed on another thread than it began on
// makes later links crash, and one that failed leaves a lock to its thread, so
// that links on others wait for ever. So links run one after the other.
func (l *Library) serve() {
	runtime.LockOSThread()
	for f := range l.calls {
		f()
	}
}

// do makes a call on the thread of the library and waits for it.
func (l *Library) do(f func()) {
	done := make(chan struct{})
	l.calls <- func() {
		defer close(done)
		f()
	}
	<-done
}

// Linker is a link in progress.
type Linker struct {
	l   *Library
	obj *clib.Object
}

// end destroys a link, on the thread of the library.
func (l *Library) end(h uintptr) (err error) {
	l.do(func() {
		if code := clib.Destroy(l.destroy, h); code != 0 {
			err = &Error{Op: "nvJitLinkDestroy", Result: Result(code)}
		}
	})
	return err
}

// NewLinker begins a link with the library's own options, of which
// "-arch=sm_…" is needed.
func (l *Library) NewLinker(options ...string) (*Linker, error) {
	const op = "nvJitLinkCreate"
	var (
		handle uintptr
		err    error
	)
	l.do(func() {
		h, code, e := clib.LinkCreate(l.create, options)
		if e != nil {
			err = fmt.Errorf("nvjitlink: %s: %w: %w", op, e, ErrorUnrecognizedOption)
			return
		}
		if code == 0 {
			handle = h
			return
		}
		log := "options: " + strings.Join(options, " ")
		if h != 0 { // it tells what was wrong, and is destroyed like any other
			if s := l.logOf(h, l.errorLogSize, l.errorLog); s != "" {
				log += "\n" + s
			}
			clib.Destroy(l.destroy, h)
		}
		err = &Error{Op: op, Result: Result(code), Log: log}
	})
	if err != nil {
		return nil, err
	}
	return &Linker{l: l, obj: clib.NewObject("nvjitlink.Linker", handle, l.end)}, nil
}

// Close ends the link. It may be called twice.
func (k *Linker) Close() error { return k.obj.Close() }

// call makes a call on the thread of the library, unless the Linker is closed.
func (k *Linker) call(op string, f func() error) (err error) {
	if !k.obj.Lock() {
		return fmt.Errorf("nvjitlink: %s: linker: %w", op, ErrClosed)
	}
	defer k.obj.Unlock()
	k.l.do(func() { err = f() })
	return err
}

// check adds the log to a failure, on the thread of the library.
func (k *Linker) check(op string, code int, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("nvjitlink: %s: %w: %w", op, err, ErrorInvalidInput)
	case code != 0:
		return &Error{Op: op, Result: Result(code), Log: k.l.logOf(k.obj.Handle(), k.l.errorLogSize, k.l.errorLog)}
	}
	return nil
}

func (l *Library) logOf(handle, size, data uintptr) string {
	text, code := clib.Log(size, data, handle)
	if code != 0 {
		return ""
	}
	return text
}

// AddData adds a piece of code; the name is for messages.
func (k *Linker) AddData(kind Input, data []byte, name string) error {
	const op = "nvJitLinkAddData"
	return k.call(op, func() error {
		if len(data) == 0 {
			return &Error{Op: op, Result: ErrorNullInput, Log: strconv.Quote(name) + " has no bytes"}
		}
		code, err := clib.LinkData(k.l.addData, k.obj.Handle(), int(kind), data, name)
		return k.check(op, code, err)
	})
}

// AddFile adds a file.
func (k *Linker) AddFile(kind Input, path string) error {
	const op = "nvJitLinkAddFile"
	return k.call(op, func() error {
		code, err := clib.LinkFile(k.l.addFile, k.obj.Handle(), int(kind), path)
		return k.check(op, code, err)
	})
}

// Complete links what was added.
func (k *Linker) Complete() error {
	const op = "nvJitLinkComplete"
	return k.call(op, func() error {
		return k.check(op, clib.Do(k.l.complete, k.obj.Handle()), nil)
	})
}

// output asks for the bytes of one kind.
func (k *Linker) output(op string, size, data uintptr) (b []byte, err error) {
	if size == 0 || data == 0 {
		return nil, fmt.Errorf("nvjitlink: %s: this is version %d.%d: %w", op, k.l.major, k.l.minor, ErrNotSupported)
	}
	err = k.call(op, func() error {
		var code int
		b, code = clib.Bytes(size, data, k.obj.Handle())
		return k.check(op, code, nil)
	})
	if err != nil {
		return nil, err
	}
	if len(b) == 0 {
		return nil, fmt.Errorf("nvjitlink: %s: %w", op, ErrNoOutput)
	}
	return b, nil
}

// Cubin returns the machine code, after Complete.
func (k *Linker) Cubin() ([]byte, error) {
	return k.output("nvJitLinkGetLinkedCubin", k.l.cubinSize, k.l.cubin)
}

// PTX returns the assembly text of a link with the options "-lto -ptx", after
// Complete. It ends with a zero byte.
func (k *Linker) PTX() ([]byte, error) {
	return k.output("nvJitLinkGetLinkedPtx", k.l.ptxSize, k.l.ptx)
}

// LTOIR returns the intermediate code of a link with the options "-lto" and
// "-r", after Complete. It came with CUDA 12.9 or 13.
func (k *Linker) LTOIR() ([]byte, error) {
	return k.output("nvJitLinkGetLinkedLTOIR", k.l.ltoSize, k.l.lto)
}

// ErrorLog returns what went wrong so far.
func (k *Linker) ErrorLog() (log string, err error) {
	err = k.call("nvJitLinkGetErrorLog", func() error {
		log = k.l.logOf(k.obj.Handle(), k.l.errorLogSize, k.l.errorLog)
		return nil
	})
	return log, err
}

// InfoLog returns warnings, and with "-verbose" more.
func (k *Linker) InfoLog() (log string, err error) {
	err = k.call("nvJitLinkGetInfoLog", func() error {
		log = k.l.logOf(k.obj.Handle(), k.l.infoLogSize, k.l.infoLog)
		return nil
	})
	return log, err
}
