package cai

import (
	"errors"
	"fmt"

	"github.com/go-handoff/handoff/dlpack"
)

// Errors of this package, beside those of package dlpack. Both are always
// wrapped in a [*dlpack.RuleError].
var (
	// ErrMissing means that a dictionary lacks a required key.
	ErrMissing = errors.New("required key is missing")
	// ErrType means that a value has the wrong Python type, for example a list
	// where a tuple must be.
	ErrType = errors.New("wrong type")
)

// ruleErr builds the error for a broken rule. The caller fills in Op.
func ruleErr(rule string, kind error, format string, args ...any) *dlpack.RuleError {
	return &dlpack.RuleError{Rule: rule, Detail: fmt.Sprintf(format, args...), Err: kind}
}

// withOp names the operation and makes a plain error of it: a nil pointer must
// not become a non-nil interface.
func withOp(op string, e *dlpack.RuleError) error {
	if e == nil {
		return nil
	}
	e.Op = op
	return e
}
