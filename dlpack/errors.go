package dlpack

import (
	"errors"
	"io/fs"
	"strings"
)

// Errors reported by this package and by the packages above it that validate
// descriptors. Test for them with [errors.Is]; they are always wrapped, mostly
// in a [*RuleError].
var (
	// ErrVersion means that the major version of a struct is not supported.
	ErrVersion = errors.New("unsupported version")
	// ErrFlags means that a flag bit without a known meaning is set.
	ErrFlags = errors.New("unknown flags")
	// ErrDType means that an element type is unknown, malformed, or not the
	// one asked for.
	ErrDType = errors.New("unsupported dtype")
	// ErrDevice means that a device type is unknown or cannot be served.
	ErrDevice = errors.New("unsupported device")
	// ErrLayout means that the number of axes, the shape or the strides are
	// invalid.
	ErrLayout = errors.New("invalid layout")
	// ErrOverflow means that a size or an address does not fit in 64 bits.
	ErrOverflow = errors.New("integer overflow")
	// ErrNull means that a struct, or the data of a tensor that has elements,
	// is NULL.
	ErrNull = errors.New("null pointer")
	// ErrAlign means that the first element is not aligned for its type.
	ErrAlign = errors.New("misaligned data")
	// ErrConsumed means that a capsule was taken by another consumer.
	ErrConsumed = errors.New("already consumed")
	// ErrReadOnly means that memory must not be written, or that this fact
	// cannot be expressed in the form that was asked for.
	ErrReadOnly = errors.New("read-only memory")
	// ErrClosed means that a value was used after its release. It is
	// [fs.ErrClosed], too.
	ErrClosed error = closedError{}
	// ErrCopy means that a copy would be needed and is forbidden, or that a
	// copy was asked for and cannot be made.
	ErrCopy = errors.New("copy not possible")
	// ErrStream means that a stream argument is not valid for the device.
	ErrStream = errors.New("invalid stream")
	// ErrNoMemory means that C memory could not be allocated.
	ErrNoMemory = errors.New("out of memory")
	// ErrExchange means that a function of a foreign exchange table failed. A
	// Python exception says more.
	ErrExchange = errors.New("exchange function failed")
	// ErrNotSupported means that this build or this producer lacks the
	// feature.
	ErrNotSupported = errors.New("not supported")
)

// closedError is fs.ErrClosed in words that are not about files.
type closedError struct{}

func (closedError) Error() string { return "used after it was closed" }

func (closedError) Is(target error) bool { return target == fs.ErrClosed }

// RuleError says which rule of a protocol was broken, and how.
type RuleError struct {
	// Rule is the number of the rule, for example "R047", or empty.
	Rule string
	// Op is the package and the operation, for example "dlpack: import".
	Op string
	// Detail says what was found, for example "ndim -1 is negative".
	Detail string
	// Err is the kind of error, one of the sentinels of this package.
	Err error
}

// Error returns text of the form
// "dlpack: import: ndim -1 is negative (R047): invalid layout".
func (e *RuleError) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Detail != "" {
		b.WriteString(": ")
		b.WriteString(e.Detail)
	}
	if e.Rule != "" && !e.passedOn() {
		b.WriteString(" (")
		b.WriteString(e.Rule)
		b.WriteString(")")
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// passedOn says whether the rule is that of the error inside, which names it.
func (e *RuleError) passedOn() bool {
	var inner *RuleError
	return errors.As(e.Err, &inner) && inner.Rule == e.Rule
}

// Unwrap returns the kind of error.
func (e *RuleError) Unwrap() error { return e.Err }
