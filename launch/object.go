package launch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
)

// Format is what compiled code is.
type Format int

// Formats of code.
const (
	// FormatPTX is assembly text, which the driver compiles when it loads it.
	FormatPTX Format = 1
	// FormatCubin is machine code for one architecture.
	FormatCubin Format = 2
	// FormatLTOIR is intermediate code for a link with optimization.
	FormatLTOIR Format = 3
	// FormatFatbin is a bundle of the above.
	FormatFatbin Format = 4
	// FormatObject is a host object file with device code in it, for a linker.
	FormatObject Format = 5
	// FormatLibrary is an archive of those, for a linker.
	FormatLibrary Format = 6
	// FormatOpaque is what only the driver in use understands, such as the
	// images of the software device.
	FormatOpaque Format = 7
)

// String returns the name, "cubin" for example.
func (f Format) String() string {
	switch f {
	case FormatPTX:
		return "ptx"
	case FormatCubin:
		return "cubin"
	case FormatLTOIR:
		return "ltoir"
	case FormatFatbin:
		return "fatbin"
	case FormatObject:
		return "object"
	case FormatLibrary:
		return "library"
	case FormatOpaque:
		return "opaque"
	}
	return "Format(" + strconv.Itoa(int(f)) + ")"
}

// Magic numbers, as the first four bytes in little-endian order.
const (
	magicFatbin = 0xba55ed50
	magicLTOIR  = 0x7f4e43ed
	machineCUDA = 190 // EM_CUDA
)

// DetectFormat says what bytes are, judging by how they begin.
func DetectFormat(code []byte) Format {
	switch {
	case bytes.HasPrefix(code, []byte("\x7fELF")):
		if len(code) >= 20 && binary.LittleEndian.Uint16(code[18:]) == machineCUDA {
			return FormatCubin
		}
		return FormatObject
	case bytes.HasPrefix(code, []byte("!<arch>\n")):
		return FormatLibrary
	case len(code) >= 4 && binary.LittleEndian.Uint32(code) == magicFatbin:
		return FormatFatbin
	case len(code) >= 4 && binary.LittleEndian.Uint32(code) == magicLTOIR:
		return FormatLTOIR
	case isPTX(code):
		return FormatPTX
	}
	return FormatOpaque
}

// isPTX looks for the directive that begins every PTX program.
func isPTX(code []byte) bool {
	for line := range bytes.Lines(code[:min(len(code), 64<<10)]) {
		line = bytes.TrimSpace(line)
		if len(line) != 0 && !bytes.HasPrefix(line, []byte("//")) {
			return bytes.HasPrefix(line, []byte(".version"))
		}
	}
	return false
}

// ObjectOptions tune [NewObjectCode]. The zero value is the default.
type ObjectOptions struct {
	// Format is what the code is. Zero finds out.
	Format Format
	// Name is for messages.
	Name string
	// Symbols gives the names in the code for names that [ObjectCode.Kernel]
	// is asked for: mangled names for C++ expressions.
	Symbols map[string]string
	// JIT are options for the driver's own compiler and linker, which loads
	// PTX. Nil is the driver's default.
	JIT *JITOptions
}

// ObjectCode is compiled code: of a [Program], a [Linker], or from elsewhere.
// It is plain bytes until a kernel is asked for; then the driver loads it,
// for all devices. It may be used from several goroutines at once.
//
// Close gives the loaded code up; kernels that are open keep it. Code that was
// never loaded needs no Close.
type ObjectCode struct {
	format  Format
	name    string
	code    []byte
	symbols map[string]string
	jit     *JITOptions
	log     string
	pch     PCHStatus

	tables func(string) ([]ParamInfo, error) // by the name in the code

	closed  atomic.Bool
	mu      sync.Mutex
	own     *objectOwner // nil until loaded
	cleanup runtime.Cleanup
}

// objectOwner is the ObjectCode's reference on what is loaded.
type objectOwner struct {
	lib  *library
	once atomic.Bool
}

// NewObjectCode takes code as it is, without looking further than its format.
// The bytes are kept and must not be changed. opts may be nil.
func NewObjectCode(code []byte, opts *ObjectOptions) (*ObjectCode, error) {
	var o ObjectOptions
	if opts != nil {
		o = *opts
	}
	if len(code) == 0 {
		return nil, fmt.Errorf("launch: object code %q: no bytes: %w", o.Name, ErrImage)
	}
	detected := DetectFormat(code)
	switch {
	case o.Format == 0:
		o.Format = detected
	case o.Format < FormatPTX || o.Format > FormatOpaque:
		return nil, invalid("object code %q: unknown format %v", o.Name, o.Format)
	case o.Format != detected && o.Format != FormatOpaque && detected != FormatOpaque:
		return nil, fmt.Errorf("launch: object code %q: this is %v, not %v: %w", o.Name, detected, o.Format, ErrImage)
	}
	return newObject(o.Format, code, o), nil
}

func newObject(f Format, code []byte, o ObjectOptions) *ObjectCode {
	c := &ObjectCode{format: f, name: o.Name, code: code, symbols: maps.Clone(o.Symbols), jit: o.JIT}
	read := sync.OnceValue(func() *paramTables { return readTables(f, code) })
	c.tables = func(name string) ([]ParamInfo, error) { return read().lookup(name) }
	return c
}

// ReadObjectCode reads code from a file; its name is the file's unless the
// options give another. opts may be nil.
func ReadObjectCode(path string, opts *ObjectOptions) (*ObjectCode, error) {
	code, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("launch: object code: %w", err)
	}
	var o ObjectOptions
	if opts != nil {
		o = *opts
	}
	if o.Name == "" {
		o.Name = filepath.Base(path)
	}
	return NewObjectCode(code, &o)
}

// Format returns what the code is.
func (c *ObjectCode) Format() Format { return c.about().format }

// noCode is what nil is about.
var noCode ObjectCode

// about returns c, or something empty for nil.
func (c *ObjectCode) about() *ObjectCode {
	if c == nil {
		return &noCode
	}
	return c
}

// none says that it is nil or the zero value: nobody made it.
func (c *ObjectCode) none() bool { return c.about().format == 0 }

// Name returns the name for messages.
func (c *ObjectCode) Name() string { return c.about().name }

// Code returns the bytes, which must not be changed.
func (c *ObjectCode) Code() []byte { return c.about().code }

// Log returns what the compiler or linker said although it succeeded:
// warnings, mostly. It is "" for code from elsewhere or from a cache.
func (c *ObjectCode) Log() string { return c.about().log }

// PCHStatus says what became of precompiled headers when the code was compiled.
func (c *ObjectCode) PCHStatus() PCHStatus { return c.about().pch }

// copy returns the same code as an object of its own, not loaded.
func (c *ObjectCode) copy() *ObjectCode {
	d := newObject(c.format, c.code, ObjectOptions{Name: c.name, Symbols: c.symbols, JIT: c.jit})
	d.log, d.pch = c.log, c.pch
	return d
}

// Symbols returns a copy of the map from names to names in the code.
func (c *ObjectCode) Symbols() map[string]string { return maps.Clone(c.about().symbols) }

// String returns format, name and size.
func (c *ObjectCode) String() string {
	if c.none() {
		return "no object code"
	}
	return fmt.Sprintf("%v %q of %d bytes", c.format, c.name, len(c.code))
}

// symbol returns the name in the code.
func (c *ObjectCode) symbol(name string) string {
	if s, ok := c.symbols[name]; ok {
		return s
	}
	return name
}

// Kernel finds a kernel, by a name expression that the program was compiled
// with or the name in the code, and loads the code if it is not yet. The
// caller closes the Kernel. The error wraps [ErrNoKernel] if there is none of
// that name, and then lists those that there are.
func (c *ObjectCode) Kernel(name string) (*Kernel, error) {
	op := "kernel " + strconv.Quote(name) + " of " + c.String()
	lib, err := c.load(op)
	if err != nil {
		return nil, err
	}
	info, res := lib.kernel(c.symbol(name))
	if res != driver.Success {
		_ = lib.unref()
		e := &Error{Op: op, Device: -1, Code: res, Kind: kindOf(res)}
		if res == driver.ErrorNotFound {
			e.Kind, e.Detail = ErrNoKernel, c.known(lib)
		}
		return nil, e
	}
	return newKernel(info), nil
}

// known lists the kernels that code has, for a message.
func (c *ObjectCode) known(lib *library) string {
	names := slices.Sorted(maps.Keys(c.symbols))
	if n, res := lib.d.LibraryGetKernelCount(lib.handle); res == driver.Success && n > 0 {
		ks := make([]driver.KernelHandle, n)
		if lib.d.LibraryEnumerateKernels(ks, lib.handle) == driver.Success {
			for _, k := range ks {
				if s, res := lib.d.KernelGetName(k); res == driver.Success {
					names = append(names, s)
				}
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "there are " + joinNames(names)
}

// Global returns address and size in bytes of a variable of the code in a
// context. It is valid while the code is loaded. The error wraps [ErrNoSymbol]
// if there is none of that name.
func (c *ObjectCode) Global(ctx *device.Context, name string) (driver.DevicePtr, int, error) {
	op := "variable " + strconv.Quote(name) + " of " + c.String()
	if ctx.Device() == nil {
		return 0, 0, invalid("%s: no context", op)
	}
	lib, err := c.load(op)
	if err != nil {
		return 0, 0, err
	}
	ptr, size, res := lib.d.LibraryGetGlobal(ctx.Handle(), lib.handle, c.symbol(name))
	_ = lib.unref() // c holds the code
	if res != driver.Success {
		e := &Error{Op: op, Device: ctx.Device().Ordinal(), Code: res}
		if res == driver.ErrorNotFound {
			e.Kind = ErrNoSymbol
		}
		return 0, 0, e
	}
	return ptr, int(size), nil
}

// Handle loads the code if it is not yet and returns the raw handle, valid
// until c is closed.
func (c *ObjectCode) Handle() (driver.LibraryHandle, error) {
	lib, err := c.load("handle of " + c.String())
	if err != nil {
		return 0, err
	}
	_ = lib.unref() // c holds the code
	return lib.handle, nil
}

// load returns the loaded code with a reference for the caller.
func (c *ObjectCode) load(op string) (*library, error) {
	if c.none() {
		return nil, closed(op)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return nil, closed(op)
	}
	if c.own == nil {
		lib, err := c.open(op)
		if err != nil {
			return nil, err
		}
		c.own = &objectOwner{lib: lib}
		c.cleanup = runtime.AddCleanup(c, func(o *objectOwner) {
			if !o.once.Swap(true) {
				o.lib.forgotten()
			}
		}, c.own)
	}
	c.own.lib.ref()
	return c.own.lib, nil
}

func (c *ObjectCode) open(op string) (*library, error) {
	switch c.format {
	case FormatLTOIR, FormatObject, FormatLibrary:
		return nil, fmt.Errorf("launch: %s: a driver cannot load %v, link it first: %w", op, c.format, ErrImage)
	}
	if err := checkWhole(c.format, c.code); err != nil {
		return nil, fmt.Errorf("launch: %s: %w", op, err)
	}
	d, err := openDriver()
	if err != nil {
		return nil, err
	}
	jit := newJIT(c.jit)
	defer jit.release()
	h, res := d.LibraryLoadData(zeroEnded(c), jit.options(), jit.values(), nil, nil)
	if res != driver.Success {
		return nil, c.explain(op, res, jit)
	}
	return newLibrary(d, h, c.tables), nil
}

// explain words a failure to load.
func (c *ObjectCode) explain(op string, res driver.Result, jit *jit) error {
	e := &Error{Op: op, Device: -1, Code: res, Kind: kindOf(res)}
	switch res {
	case driver.ErrorInvalidPTX, driver.ErrorInvalidSource:
		if log := jit.errorLog(); log != "" {
			return &CompileError{Op: op, Name: c.name, Lib: "cuda", Code: int(res), CodeName: res.Name(), Log: log, Source: sourceOf(c), Err: e}
		}
	case driver.ErrorUnsupportedPTXVersion:
		e.Detail = "the driver is older than the compiler: compile to a cubin for the device, or with an older NVRTC"
	case driver.ErrorNoBinaryForGPU:
		e.Detail = "compile for the architecture of the device (Device.Arch)"
	}
	return e
}

func sourceOf(c *ObjectCode) string {
	if c.format == FormatPTX {
		return string(c.code)
	}
	return ""
}

// Close gives up the loaded code; it is unloaded once no kernel of it is open.
// It may be called twice.
func (c *ObjectCode) Close() error {
	if c == nil || c.closed.Swap(true) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own == nil || c.own.once.Swap(true) {
		return nil
	}
	c.cleanup.Stop()
	return c.own.lib.unref()
}

// ParamInfo returns the parameters of a kernel as the code itself declares
// them, without a driver: for cubins and PTX. Otherwise the error wraps
// [ErrNotSupported], or [ErrNoKernel].
func (c *ObjectCode) ParamInfo(name string) ([]ParamInfo, error) {
	if c.none() {
		return nil, closed("parameters of kernel " + strconv.Quote(name))
	}
	return c.tables(c.symbol(name))
}

// openDriver returns the driver of the process.
func openDriver() (*driver.Driver, error) {
	d, err := driver.Default()
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	return d, nil
}
