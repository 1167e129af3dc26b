// Package rules holds the protocol rules that this module tests, as data: the
// 292 numbered rules of DLPack, the CUDA Array Interface, NumPy's array
// interface, the buffer protocol and the CUDA stream protocol, who is bound by
// each and how strongly, which of them nobody can test from outside, and what
// libraries are known to do against them.
//
// The numbers R001 to R292 are those that errors and comments of this module
// name. Package conformance has the checks.
package rules

//go:generate go run ./internal/export ../py/handoff_conformance/rules.json

import (
	"fmt"
	"strconv"
	"strings"
)

// Protocol is the protocol that a rule belongs to.
type Protocol string

// Protocols.
const (
	ABI            Protocol = "DLPack ABI"
	Capsule        Protocol = "DLPack capsule"
	Exchange       Protocol = "DLPack exchange"
	DLPackPython   Protocol = "DLPack Python"
	CAI            Protocol = "CAI"
	ArrayInterface Protocol = "NumPy AI"
	ArrayStruct    Protocol = "array struct"
	Buffer         Protocol = "buffer"
	CUDAStream     Protocol = "cuda stream"
	Conversion     Protocol = "conversion"
)

// Role says who is bound by a rule.
type Role string

// Roles. The exporter of a buffer counts as a producer.
const (
	Producer Role = "producer"
	Consumer Role = "consumer"
	Both     Role = "both"
)

// Strength says how strongly a rule binds.
type Strength string

// Strengths. Must, Should and May are what the source says; Practice is what
// the main implementations do without a text that says so; Inferred follows
// from other rules.
const (
	Must     Strength = "MUST"
	Should   Strength = "SHOULD"
	May      Strength = "MAY"
	Practice Strength = "PRACTICE"
	Inferred Strength = "INFERRED"
)

// Rule is one testable statement.
type Rule struct {
	// ID is "R001" to "R292".
	ID string `json:"id"`
	// Protocol, Role and Strength say where the rule belongs.
	Protocol Protocol `json:"protocol"`
	Role     Role     `json:"role"`
	Strength Strength `json:"strength"`
	// Condition says when the rule applies, Behaviour what it asks for.
	Condition string `json:"condition"`
	Behaviour string `json:"behaviour"`
	// Error is the error that a refusal gives, where the rule has one.
	Error string `json:"error,omitempty"`
	// Source is a short name: see [Sources].
	Source string `json:"source,omitempty"`
}

// Text returns the rule as one sentence.
func (r *Rule) Text() string {
	if r.Error == "" {
		return fmt.Sprintf("%s: %s", r.Condition, r.Behaviour)
	}
	return fmt.Sprintf("%s: %s (%s)", r.Condition, r.Behaviour, r.Error)
}

// All returns the rules in the order of their numbers. The slice is shared and
// must not be changed.
func All() []Rule { return table }

// Get returns the rule with a number such as "R047", or nil.
func Get(id string) *Rule {
	if len(id) != 4 || id[0] != 'R' {
		return nil
	}
	n, err := strconv.ParseUint(id[1:], 10, 16)
	if err != nil || n < 1 || n > uint64(len(table)) {
		return nil
	}
	return &table[n-1]
}

// Sources are the documents that the field Source of a rule names.
var Sources = map[string]string{
	"DLH":      "dlpack.h, the C header of DLPack, version 1.3",
	"DLC":      "DLPack C API, DLPack documentation",
	"DLP":      "Python Specification for DLPack, DLPack documentation",
	"AA":       "Python array API standard, editions 2021.12 to 2025.12",
	"AAD":      "Python array API standard, draft after 2025.12",
	"CAI":      "CUDA Array Interface (Version 3), Numba documentation",
	"NPI":      "The array interface protocol, NumPy reference",
	"NPC":      "NumPy's C sources and headers",
	"PEP 3118": "Revising the buffer protocol",
	"PEP 688":  "Making the buffer protocol accessible in Python",
	"CBUF":     "Buffer Protocol, Python/C API reference",
	"STRUCT":   "struct, Python library reference",
	"CST":      "CUDA stream protocol, documentation of cuda.core",
	"CUDA":     "CUDA Runtime and Driver API reference",
}

// Deviation is something that a library is known to do against (or beside)
// some rules.
type Deviation struct {
	// Library names it, with the versions that are meant.
	Library string
	// Rules are the numbers of the rules that it touches.
	Rules []string
	// What says what the library does.
	What string
}

// Known returns the known deviations. The slice is shared and must not be
// changed.
func Known() []Deviation { return known }

// KnownFor returns the known deviation of a target of the suite, such as "torch"
// or "torch@cuda", from a rule, or nil. Versions in the text are for the reader: they are not compared.
func KnownFor(target, rule string) *Deviation {
	target, _, _ = strings.Cut(target, "@")
	prefix, ok := libraries[target]
	if !ok {
		return nil
	}
	for i := range known {
		d := &known[i]
		for _, r := range d.Rules {
			if r == rule && strings.HasPrefix(strings.ToLower(d.Library), prefix) {
				return d
			}
		}
	}
	return nil
}

// libraries maps targets of the suite to how the table of deviations calls them.
var libraries = map[string]string{
	"numpy": "numpy", "ml_dtypes": "numpy", "jax": "jax", "torch": "pytorch", "cupy": "cupy", "tvm-ffi": "tvm ffi",
	"pyarrow": "pyarrow", "array-api-strict": "array-api-strict", "cuda.core": "cuda.core", "tensorflow": "tensorflow",
	"paddle": "paddle", "nanobind": "nanobind", "warp": "warp", "numba": "numba",
}
