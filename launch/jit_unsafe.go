package launch

import (
	"bytes"
	"runtime"
	"unsafe"

	"github.com/go-handoff/handoff/device/driver"
)

// JITOptions tune the compiler and linker inside the driver. Zero values are
// the driver's defaults.
type JITOptions struct {
	// MaxRegisters limits the registers of a thread.
	MaxRegisters int
	// ThreadsPerBlock is the block size to compile for.
	ThreadsPerBlock int
	// Optimization is the level 1 to 4; -1 means 0.
	Optimization int
	// Debug and LineInfo add information for debuggers and profilers.
	Debug, LineInfo bool
	// Verbose makes the information log longer.
	Verbose bool
}

// logSize is the room for each log of the driver. It cuts what is longer.
const logSize = 16 << 10

// jit holds options in the driver's form. Their memory is pinned until
// release, as the driver keeps the addresses while a link lasts.
type jit struct {
	pin         runtime.Pinner
	keys        []int32
	words       []uintptr
	errors, log []byte
}

// jitOption is one more option.
type jitOption struct {
	key   int32
	value uintptr
}

func newJIT(o *JITOptions, more ...jitOption) *jit {
	j := &jit{errors: make([]byte, logSize), log: make([]byte, logSize)}
	// SAFETY: the addresses of two blocks of Go memory, pinned until release;
	// the driver writes at most logSize bytes to each.
	first := func(b []byte) uintptr {
		p := unsafe.SliceData(b)
		j.pin.Pin(p)
		return uintptr(unsafe.Pointer(p))
	}
	j.add(driver.JITErrorLogBuffer, first(j.errors))
	j.add(driver.JITErrorLogBufferSizeBytes, logSize)
	j.add(driver.JITInfoLogBuffer, first(j.log))
	j.add(driver.JITInfoLogBufferSizeBytes, logSize)
	if o != nil {
		j.number(driver.JITMaxRegisters, o.MaxRegisters)
		j.number(driver.JITThreadsPerBlock, o.ThreadsPerBlock)
		if o.Optimization == -1 {
			j.add(driver.JITOptimizationLevel, 0)
		} else {
			j.number(driver.JITOptimizationLevel, o.Optimization)
		}
		j.flag(driver.JITGenerateDebugInfo, o.Debug)
		j.flag(driver.JITGenerateLineInfo, o.LineInfo)
		j.flag(driver.JITLogVerbose, o.Verbose)
	}
	for _, m := range more {
		j.add(m.key, m.value)
	}
	j.pin.Pin(unsafe.SliceData(j.words))
	return j
}

func (j *jit) add(key int32, value uintptr) {
	j.keys = append(j.keys, key)
	j.words = append(j.words, value)
}

func (j *jit) number(key int32, n int) {
	if n > 0 {
		j.add(key, uintptr(n))
	}
}

func (j *jit) flag(key int32, on bool) {
	if on {
		j.add(key, 1)
	}
}

func (j *jit) options() []int32 { return j.keys }

// values returns the address of the values, one word for each option.
func (j *jit) values() unsafe.Pointer {
	// SAFETY: plain words in pinned Go memory, as many as there are options.
	return unsafe.Pointer(unsafe.SliceData(j.words))
}

// errorLog and infoLog return what the driver said.
func (j *jit) errorLog() string { return cut(j.errors) }
func (j *jit) infoLog() string  { return cut(j.log) }

func cut(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

func (j *jit) release() { j.pin.Unpin() }
