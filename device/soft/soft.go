package soft

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft/internal/engine"
)

// Errors reported by this package. Test for them with [errors.Is].
var (
	// ErrInUse means that the software device has been opened already, so that its options
	// cannot change.
	ErrInUse = errors.New("software device is in use")
	// ErrNotSupported means that this build has no software device: it needs cgo on Linux.
	ErrNotSupported = errors.New("no software device in this build")
	// ErrKernel means that a kernel cannot be registered.
	ErrKernel = engine.ErrKernel
)

// Options describe the machine that the software device pretends to be. The zero value of
// a field means its default.
type Options struct {
	// Devices is the number of devices: 2, or HANDOFF_SOFT_DEVICES; 16 at most.
	Devices int
	// Memory is the size of each device's memory in bytes: 4 GiB, or HANDOFF_SOFT_MEMORY.
	Memory uint64
	// NoPeers says that no device reaches the memory of another, which is also
	// HANDOFF_SOFT_PEERS=0.
	NoPeers bool
	// DriverVersion is the CUDA version that the driver claims, 13000 by default:
	// 1000 × major + 10 × minor.
	DriverVersion int
	// Fault, if not nil, is asked before every driver call, by the name of the entry point
	// ("cuMemAlloc"); any status but 0 is returned in place of the call. It is called from
	// many threads at once and must not call the driver.
	Fault func(api string) (status int32)
	// Seed, if not 0, makes the order in which streams run their work a function of it and of the
	// calls of the program, as HANDOFF_SOFT_SEED does, which may also be "random". Work then
	// runs one piece at a time, as late or as early as the seed says, so that a missing edge shows. A program whose
	// calls of the driver follow one another gets the same order again with the same seed; calls of
	// several threads at once, host functions that wait for the host, and pauses of the program of more than a few
	// milliseconds between calls are not part of that.
	Seed uint64
}

// Enable makes the software device the driver of this process ([driver.Default]), as
// HANDOFF_DRIVER=soft does. opts may be nil.
//
// It has to come before the first use of a driver; afterwards the error wraps [ErrInUse] or
// [driver.ErrInUse], except that enabling it again with nil options is no error.
func Enable(opts *Options) error {
	if err := enable(opts); err != nil {
		return fmt.Errorf("soft: enable: %w", err)
	}
	if err := driver.SetDefault(&driver.Options{Provider: driver.ProviderSoft}); err != nil {
		return fmt.Errorf("soft: enable: %w", err)
	}
	return nil
}

// Live counts the driver's objects that a program has made and not destroyed.
type Live struct {
	Contexts, Streams, Events, Pools, Allocations, Modules, Libraries, Graphs, GraphExecs int
}

// LiveObjects counts what exists now, for leak checks. Primary contexts count while they
// are retained; default streams and default pools do not.
func LiveObjects() Live { return live() }

// Idle says whether all work that was queued is done, of all streams. It is no wait: the hunt for missing
// synchronization learns nothing from it, so that a test can let work end that its program was not told of.
func Idle() bool { return idle() }

// Launch is one launch of a kernel, as its function sees it. It is valid during the call,
// on the goroutine of the call.
type Launch = engine.Launch

// ParamInfo is the size and alignment of one kernel parameter. Align 0 means the size.
type ParamInfo = engine.ParamInfo

// Parameters of the usual types.
var (
	Ptr     = ParamInfo{Size: 8}
	Int32   = ParamInfo{Size: 4}
	Int64   = ParamInfo{Size: 8}
	Float32 = ParamInfo{Size: 4}
	Float64 = ParamInfo{Size: 8}
)

// RegisterKernel makes a Go function a kernel of the software device. fn does the work of
// the whole grid, on the goroutine of the stream; a panic in it is the kernel's crash, which
// sticks to the context as a launch failure. A second registration of a name replaces the
// first for code loaded later.
//
// The error wraps [ErrKernel]. [Image] makes something to load.
func RegisterKernel(name string, params []ParamInfo, fn func(*Launch)) error {
	return engine.Register(name, params, fn)
}

// Image returns code that the software device loads as a module or library: kernels that
// have been registered, under their names. It ends with a zero byte, as the driver wants.
func Image(kernels ...string) []byte {
	b := []byte(engine.ImageMagic + "\n")
	for _, k := range kernels {
		b = append(b, "kernel "+k+"\n"...)
	}
	return append(b, 0)
}

// Element lists the types that [Slice] gives.
type Element interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64 | complex64 | complex128
}

// Slice is n elements of device memory at addr, for a kernel that reads and writes them. A
// bad address or alignment ends the kernel as on a GPU.
func Slice[T Element](l *Launch, addr uint64, n int) []T {
	var z T
	size := uint64(unsafe.Sizeof(z))
	if n <= 0 {
		return nil
	}
	b := l.Bytes(addr, uint64(n)*size)
	if addr%size != 0 && size <= 8 || addr%8 != 0 && size == 16 {
		l.Fail(716) // misaligned address
	}
	// SAFETY: b is n elements of the device's private mapping, which lives as long as the
	// engine; the public address has the alignment of the private one, checked above; T has no pointers.
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}
