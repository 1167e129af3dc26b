package memview

import "github.com/go-handoff/handoff/dlpack"

// fail builds the error of a broken rule. Callers pass finished text, so that
// nothing is formatted before there is a failure. rule may be empty.
func fail(op, rule string, err error, detail string) error {
	return &dlpack.RuleError{Rule: rule, Op: "memview: " + op, Detail: detail, Err: err}
}
