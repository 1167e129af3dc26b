package cai

import (
	"math"
	"strconv"

	"github.com/go-handoff/handoff/dlpack"
)

// StreamArgument is a stream as the protocols name it: the value under the key
// "stream" of the CUDA Array Interface, or the stream argument of DLPack's
// Python protocol. It is comparable. The zero value is [NoStream].
//
// It is a number, not a stream: it keeps nothing alive, and the per-thread
// default stream is a different stream on each thread, so that its value must
// not be kept or carried to another thread (R278, B201).
type StreamArgument struct {
	handle uintptr // CUDA's own value: 1, 2 or a handle; 0 for no stream
}

// Handle values with a meaning of their own (R273).
const (
	legacyDefault    = 1
	perThreadDefault = 2
)

var (
	// NoStream says that nothing needs to be ordered: None in the CUDA Array
	// Interface, −1 in DLPack (R284).
	NoStream = StreamArgument{}
	// LegacyDefault is the legacy default stream (R185).
	LegacyDefault = StreamArgument{legacyDefault}
	// PerThreadDefault is the per-thread default stream (R186).
	PerThreadDefault = StreamArgument{perThreadDefault}
)

// StreamOf makes a StreamArgument of a raw cudaStream_t. NULL is the legacy
// default stream (R272, R274). In code that was built with per-thread default
// streams NULL means another stream: pass [PerThreadDefault] there.
func StreamOf(handle uintptr) StreamArgument {
	if handle == 0 {
		return LegacyDefault
	}
	return StreamArgument{handle}
}

// IsNone reports whether there is nothing to order.
func (s StreamArgument) IsNone() bool { return s.handle == 0 }

// Handle gives the cudaStream_t: 1 and 2 for the default streams, a handle for
// others. ok is false for [NoStream].
func (s StreamArgument) Handle() (handle uintptr, ok bool) { return s.handle, s.handle != 0 }

// String gives "none", "legacy default", "per-thread default" or the handle in
// hexadecimal.
func (s StreamArgument) String() string {
	switch s {
	case NoStream:
		return "none"
	case LegacyDefault:
		return "legacy default"
	case PerThreadDefault:
		return "per-thread default"
	}
	return "0x" + strconv.FormatUint(uint64(s.handle), 16)
}

// CAI gives the neutral value for the key "stream": nil, or an integer that is
// never 0 (R184).
func (s StreamArgument) CAI() any {
	if s.IsNone() {
		return nil
	}
	return integer(s.handle)
}

// ParseCAIStream reads the value of the key "stream": nil, 1, 2 or a handle
// (R183 to R187). 0 (R184) and numbers that are no handle give an error wrapping
// [dlpack.ErrStream]; booleans and what else is no integer one wrapping
// [ErrType].
func ParseCAIStream(v any) (StreamArgument, error) {
	s, err := parseCAIStream(v)
	return s, withOp("cai: stream", err)
}

func parseCAIStream(v any) (StreamArgument, *dlpack.RuleError) {
	if v == nil {
		return NoStream, nil
	}
	n, neg, kind := toUint(v)
	switch {
	case kind == notInteger:
		return NoStream, ruleErr("R168", ErrType, "stream is %s, not an integer", typeName(v))
	case kind == outOfRange || neg || n > math.MaxUint:
		return NoStream, ruleErr("R187", dlpack.ErrStream, "stream %v is no handle", v)
	case n == 0:
		return NoStream, ruleErr("R184", dlpack.ErrStream, "stream 0 is ambiguous: 1 is the legacy default stream, 2 the per-thread one")
	}
	return StreamArgument{uintptr(n)}, nil
}

// DLPack gives what a consumer passes as the stream argument of __dlpack__ to a
// producer of the given device type: nil for None, or an integer.
//
//   - CUDA (also pinned and managed memory): −1 for [NoStream], 1, 2, or the
//     handle; never None or 0 (R141, R274).
//   - ROCm: −1 for NoStream, 0 for the default stream, or the handle.
//     [PerThreadDefault] cannot be said there (R134): an error wrapping
//     [dlpack.ErrStream].
//   - other devices: nil, whatever s is (R135).
func (s StreamArgument) DLPack(t dlpack.DeviceType) (any, error) {
	switch familyOf(t) {
	case withoutStreams:
		return nil, nil
	case rocm:
		switch s {
		case LegacyDefault:
			return int64(0), nil
		case PerThreadDefault:
			return nil, withOp("cai: stream", ruleErr("R134", dlpack.ErrStream, "the per-thread default stream has no number on ROCm"))
		}
	}
	if s.IsNone() {
		return int64(-1), nil
	}
	return integer(s.handle), nil
}

// ParseDLPackStream reads the stream argument that a consumer passed to a
// producer of the given device type.
//
// On CUDA None is the legacy default stream (R126, B195), −1 no ordering
// (R127), 0 is refused (R128). On ROCm None and 0 are the default stream
// (R133), which comes out as [LegacyDefault], and 1 and 2 are refused (R134).
// Elsewhere only None is legal; −1 is tolerated (R135).
// Refused numbers give an error wrapping [dlpack.ErrStream] and what is no
// integer, booleans too, one wrapping [ErrType] (R136).
func ParseDLPackStream(v any, t dlpack.DeviceType) (StreamArgument, error) {
	s, err := parseDLPackStream(v, t)
	return s, withOp("cai: stream", err)
}

func parseDLPackStream(v any, t dlpack.DeviceType) (StreamArgument, *dlpack.RuleError) {
	family := familyOf(t)
	if v == nil {
		if family == withoutStreams {
			return NoStream, nil
		}
		return LegacyDefault, nil
	}
	n, neg, kind := toUint(v)
	if kind == notInteger {
		return NoStream, ruleErr("R136", ErrType, "stream is %s, not an integer", typeName(v))
	}
	if kind == inRange && neg && n == math.MaxUint64 { // −1
		return NoStream, nil
	}
	switch {
	case family == withoutStreams:
		return NoStream, ruleErr("R135", dlpack.ErrStream, "stream %v on device type %s, which has none", v, t)
	case neg:
		return NoStream, ruleErr("R132", dlpack.ErrStream, "stream %v", v)
	case kind == outOfRange || n > math.MaxUint:
		return NoStream, ruleErr("R131", dlpack.ErrStream, "stream %v is no handle", v)
	case n == 0 && family == cuda:
		return NoStream, ruleErr("R128", dlpack.ErrStream, "stream 0 is ambiguous: 1 is the legacy default stream, 2 the per-thread one")
	case n == 0:
		return LegacyDefault, nil
	case n <= perThreadDefault && family == rocm:
		return NoStream, ruleErr("R134", dlpack.ErrStream, "stream %v on ROCm: 0 is the default stream", v)
	}
	return StreamArgument{uintptr(n)}, nil
}

// family groups device types by the streams they know.
type family uint8

const (
	withoutStreams family = iota
	cuda
	rocm
)

func familyOf(t dlpack.DeviceType) family {
	switch t {
	case dlpack.DeviceCUDA, dlpack.DeviceCUDAHost, dlpack.DeviceCUDAManaged:
		return cuda
	case dlpack.DeviceROCM, dlpack.DeviceROCMHost:
		return rocm
	}
	return withoutStreams
}
