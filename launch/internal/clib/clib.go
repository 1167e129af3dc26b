// Package clib calls functions of C libraries that were found at run time:
// NVRTC, nvJitLink and libNVVM, whose functions share a few signatures.
//
// An address is a number and must be that of a function of the signature; 0
// is a fault of the caller. Nothing is kept: strings and slices are lent for
// the call.
package clib

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of this package.
var (
	// ErrNUL means that a string that goes to C has a zero byte in it.
	ErrNUL = errors.New("zero byte in a string")
	// ErrMissing means that a library has no function of a name.
	ErrMissing = errors.New("no such function")
)

// OutOfMemory is the code of a call for which there was no memory.
const OutOfMemory = -1

// zstring ends a string with a zero byte.
func zstring(s string) ([]byte, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return nil, fmt.Errorf("%.40q: %w", s, ErrNUL)
	}
	b := make([]byte, len(s)+1)
	copy(b, s)
	return b, nil
}

// block joins strings, each with a zero byte. It is never empty.
func block(list []string) ([]byte, error) {
	n := 1
	for _, s := range list {
		n += len(s) + 1
	}
	b := make([]byte, 0, n)
	for _, s := range list {
		if strings.IndexByte(s, 0) >= 0 {
			return nil, fmt.Errorf("%.40q: %w", s, ErrNUL)
		}
		b = append(append(b, s...), 0)
	}
	return append(b, 0), nil
}

// Symbols resolves names; lookup gives 0 for what is absent.
type Symbols struct {
	lib     string
	lookup  func(string) uintptr
	missing []string
}

// NewSymbols begins to resolve the functions of a library.
func NewSymbols(lib string, lookup func(string) uintptr) *Symbols {
	return &Symbols{lib: lib, lookup: lookup}
}

// Need resolves a function without which the library is of no use, by the
// first of its names that is there.
func (s *Symbols) Need(names ...string) uintptr {
	fn := s.May(names...)
	if fn == 0 {
		s.missing = append(s.missing, names[0])
	}
	return fn
}

// May resolves a function that may be absent.
func (s *Symbols) May(names ...string) uintptr {
	for _, n := range names {
		if fn := s.lookup(n); fn != 0 {
			return fn
		}
	}
	return 0
}

// Err says which functions were needed and are absent.
func (s *Symbols) Err() error {
	if len(s.missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s lacks %s: %w", s.lib, strings.Join(s.missing, ", "), ErrMissing)
}
