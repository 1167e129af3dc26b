package python

import (
	"strings"

	"github.com/go-handoff/handoff/dlpack"
)

// Exception is a Python exception that reached Go.
type Exception struct {
	// Type is the class: "ValueError", "handoff.LayoutError".
	Type string
	// Message is str(exception).
	Message string
	// Rule is the protocol rule that was broken ("R047"), or "".
	Rule string
}

// Error returns "ValueError: the message".
func (e *Exception) Error() string {
	if e.Message == "" {
		return "python: " + e.Type
	}
	return "python: " + e.Type + ": " + e.Message
}

// sentinels pairs the classes of handoff with the errors of Go.
var sentinels = map[string]error{
	"VersionError":  dlpack.ErrVersion,
	"DTypeError":    dlpack.ErrDType,
	"DeviceError":   dlpack.ErrDevice,
	"LayoutError":   dlpack.ErrLayout,
	"ReadOnlyError": dlpack.ErrReadOnly,
	"CopyError":     dlpack.ErrCopy,
	"CapsuleError":  dlpack.ErrConsumed,
	"ProtocolError": dlpack.ErrNotSupported,
}

// Unwrap returns the error of package dlpack that a class of handoff stands
// for, so that errors.Is(err, dlpack.ErrReadOnly) works across the border;
// nil for other classes.
func (e *Exception) Unwrap() error {
	name, ok := strings.CutPrefix(e.Type, "handoff.")
	if !ok {
		return nil
	}
	return sentinels[name]
}
