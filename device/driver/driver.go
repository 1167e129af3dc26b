package driver

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/go-handoff/handoff/internal/hunt"
)

// Provider says who serves the driver's calls.
type Provider string

// Providers.
const (
	// ProviderAuto is the CUDA driver. The software device is never chosen
	// unasked.
	ProviderAuto Provider = "auto"
	// ProviderCUDA is the CUDA driver, libcuda.so.1.
	ProviderCUDA Provider = "cuda"
	// ProviderSoft is the software device, if it is linked into the program.
	ProviderSoft Provider = "soft"
	// ProviderNone is no driver: a program can be tested as if there were none.
	ProviderNone Provider = "none"
)

// Options tune [Open]. The zero value follows the environment.
type Options struct {
	// Provider overrides HANDOFF_DRIVER.
	Provider Provider
	// Path is the file of the CUDA driver. It overrides HANDOFF_LIBCUDA.
	Path string
	// NoInit leaves cuInit to the caller.
	NoInit bool
	// Check puts a layer in front of the driver's table that hunts for missing
	// synchronization, as HANDOFF_CHECK does: see the package documentation.
	Check bool
}

// libraries are the names tried when no path is given.
var libraries = []string{"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"}

// OpenError says that no driver could be opened, or that it did not start.
type OpenError struct {
	// Provider is what was asked for.
	Provider Provider
	// Tried holds the names that were given to the loader, and Said what it
	// answered, one for one.
	Tried, Said []string
	// Detail says more, if there is more.
	Detail string
	// Err is the kind of error: [ErrNoDriver], [ErrNoDevice], [ErrFork] or a
	// [Result].
	Err error
}

// Error names everything that was tried.
func (e *OpenError) Error() string {
	var b strings.Builder
	b.WriteString("driver: open")
	if e.Provider != "" {
		fmt.Fprintf(&b, " %q", string(e.Provider))
	}
	for i, t := range e.Tried {
		fmt.Fprintf(&b, ": %s", t)
		if i < len(e.Said) && e.Said[i] != "" {
			fmt.Fprintf(&b, " (%s)", e.Said[i])
		}
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

// Unwrap returns the kind of error.
func (e *OpenError) Unwrap() error { return e.Err }

// Driver is an open driver. Its methods are the driver's calls. It is never
// closed: the driver keeps threads of its own.
type Driver struct {
	handles  // C side
	provider Provider
	path     string
	version  int
	hunter   *hunt.Hunter // of the checking layer, or nil
}

// Provider says who serves the calls.
func (d *Driver) Provider() Provider { return d.provider }

// Path returns the name that the library was opened by; the software device
// has none.
func (d *Driver) Path() string { return d.path }

// Version returns the CUDA version that the driver serves, 1000 × major + 10 ×
// minor, as it was when the driver was opened.
func (d *Driver) Version() int { return d.version }

// Has says whether the driver has an entry point, given by its name or symbol
// ("cuGraphAddNode" or "cuGraphAddNode_v2").
func (d *Driver) Has(name string) bool {
	for i, e := range entries {
		if e.Name == name || e.Symbol == name {
			return d.has(i)
		}
	}
	return false
}

// Missing yields the entry points that the driver lacks.
func (d *Driver) Missing(yield func(Entry) bool) {
	for i, e := range entries {
		if !d.has(i) && !yield(e) {
			return
		}
	}
}

// Entries yields every entry point that this package calls.
func Entries(yield func(Entry) bool) {
	for _, e := range entries {
		if !yield(e) {
			return
		}
	}
}

// soft is how package device/soft is reached, which imports this one.
var soft struct {
	sync.Mutex
	open func() (table unsafe.Pointer, err error)
}

// RegisterSoft is called by package device/soft when it is linked in. open
// returns the address, in C memory that lives as long as the process, of a
// filled ho_cuda_table (include/handoff/entries.h).
func RegisterSoft(open func() (table unsafe.Pointer, err error)) {
	soft.Lock()
	defer soft.Unlock()
	soft.open = open
}

// Open opens a driver and, unless told otherwise, initializes it. Most
// programs share the one of [Default]. opts may be nil.
//
// The error is an [*OpenError]: [ErrNoDriver] if there is no library,
// [ErrNoDevice] if it has no device, [ErrFork] if it was initialized before
// this process was forked, another [Result] otherwise.
func Open(opts *Options) (*Driver, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Provider == "" {
		o.Provider = Provider(strings.ToLower(os.Getenv("HANDOFF_DRIVER")))
	}
	if o.Path == "" {
		o.Path = os.Getenv("HANDOFF_LIBCUDA")
	}
	var d *Driver
	var err error
	switch o.Provider {
	case "", ProviderAuto, ProviderCUDA:
		d, err = openCUDA(o)
	case ProviderSoft:
		d, err = openSoft()
	case ProviderNone:
		return nil, &OpenError{Provider: o.Provider, Detail: "switched off by HANDOFF_DRIVER or an option", Err: ErrNoDriver}
	default:
		return nil, &OpenError{Provider: o.Provider, Detail: "unknown provider; known are auto, cuda, soft and none", Err: ErrNoDriver}
	}
	if err != nil {
		return d, err
	}
	if env := os.Getenv("HANDOFF_CHECK"); o.Check || env != "" && env != "0" {
		if d, err = d.checked(env); err != nil {
			return nil, &OpenError{Provider: o.Provider, Detail: "HANDOFF_CHECK: " + err.Error(), Err: ErrNoDriver}
		}
	}
	if o.NoInit {
		return d, nil
	}
	return d, d.start()
}

// start initializes the driver and explains a failure.
func (d *Driver) start() error {
	res := d.Init(0)
	e := &OpenError{Provider: d.provider}
	switch res {
	case Success:
		return nil
	case ErrorNotInitialized:
		// cuInit itself says so in one case only.
		e.Detail, e.Err = "cuInit: "+res.Name(), ErrFork
	default:
		e.Detail, e.Err = "cuInit", res
	}
	if d.path != "" {
		e.Tried = []string{d.path}
	}
	return e
}

func openCUDA(o Options) (*Driver, error) {
	names := libraries
	if o.Path != "" {
		names = []string{o.Path}
	}
	e := &OpenError{Provider: ProviderCUDA, Err: ErrNoDriver}
	for _, name := range names {
		d, why := load(name)
		if d != nil {
			d.provider, d.path = ProviderCUDA, name
			return d, nil
		}
		e.Tried = append(e.Tried, name)
		e.Said = append(e.Said, why)
	}
	return nil, e
}

func openSoft() (*Driver, error) {
	soft.Lock()
	open := soft.open
	soft.Unlock()
	if open == nil {
		return nil, &OpenError{Provider: ProviderSoft, Detail: "the software device is not linked into this program: import package device/soft", Err: ErrNoDriver}
	}
	table, err := open()
	if err != nil {
		return nil, &OpenError{Provider: ProviderSoft, Detail: err.Error(), Err: ErrNoDriver}
	}
	d := adopt(table)
	if d == nil {
		return nil, &OpenError{Provider: ProviderSoft, Detail: "its table is incomplete", Err: ErrNoDriver}
	}
	d.provider = ProviderSoft
	return d, nil
}

// std is the driver of the process. It is set once.
var std struct {
	sync.Mutex
	d    atomic.Pointer[Driver]
	opts *Options
	err  error
}

// Default returns the driver of this process, which the first call opens as
// the environment says. A failure is remembered; [SetDefault] clears it.
func Default() (*Driver, error) {
	if d := std.d.Load(); d != nil {
		return d, nil
	}
	std.Lock()
	defer std.Unlock()
	if d := std.d.Load(); d != nil {
		return d, nil
	}
	if std.err != nil {
		return nil, std.err
	}
	d, err := Open(std.opts)
	if err != nil {
		std.err = err
		return nil, err
	}
	std.d.Store(d)
	return d, nil
}

// ErrInUse means that the process has its driver already.
var ErrInUse = errors.New("driver is in use")

// SetDefault chooses the driver of this process in the program, before the
// first successful [Default]; after it the error wraps [ErrInUse], unless the
// options ask for the provider that is in use.
func SetDefault(opts *Options) error {
	std.Lock()
	defer std.Unlock()
	if d := std.d.Load(); d != nil {
		if opts != nil && opts.Path == "" && opts.Provider == d.provider {
			return nil
		}
		return fmt.Errorf("driver: set default: %w", ErrInUse)
	}
	std.opts, std.err = opts, nil
	return nil
}
