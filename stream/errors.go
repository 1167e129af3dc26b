package stream

import (
	"errors"
	"fmt"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
)

// Errors reported by this package, besides those of package driver. Test for
// them with [errors.Is]; they are always wrapped.
var (
	// ErrProtocol means that what a StreamLike returned is no stream of
	// protocol version 0.
	ErrProtocol = errors.New("not a stream of __cuda_stream__ version 0")
	// ErrNoOrder means that no Order was given: say [On] or [NoSync].
	ErrNoOrder = errors.New("no order given")
	// ErrNoContext means that a default stream was given without a context.
	ErrNoContext = errors.New("default stream without a context")
	// ErrThread means that a per-thread default stream was used on another
	// thread than the one it was wrapped on.
	ErrThread = errors.New("per-thread default stream used on another thread")
	// ErrInvalid means that a StreamView is the zero value.
	ErrInvalid = errors.New("stream view is empty")
)

// callError says which operation a driver call failed in.
func callError(op string, res driver.Result) error {
	return fmt.Errorf("stream: %s: %w", op, res.Err())
}

func ruleError(rule, detail string, err error) error {
	return &dlpack.RuleError{Rule: rule, Op: "stream: wrap", Detail: detail, Err: err}
}
