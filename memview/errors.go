package memview

import (
	"errors"

	"github.com/go-handoff/handoff/dlpack"
)

// ErrIndex means that an index has another number of entries than there are
// axes, or lies outside of the shape.
//
// All other errors of this package wrap the sentinels of package dlpack; each
// is a [*dlpack.RuleError] that names the rule broken, where one was.
var ErrIndex = errors.New("index out of range")

// fail builds the error of a broken rule. Callers pass finished text, so that
// nothing is formatted before there is a failure. rule may be empty: it is that of err then, if that names one.
func fail(op, rule string, err error, detail string) error {
	var inner *dlpack.RuleError
	if rule == "" && errors.As(err, &inner) {
		rule = inner.Rule
	}
	return &dlpack.RuleError{Rule: rule, Op: "memview: " + op, Detail: detail, Err: err}
}

// joinRelease calls release and returns its error joined to err; nil if there
// is none.
func joinRelease(err error, release func() error) error {
	return errors.Join(err, release())
}
