// Package nvtx annotates what a program does, for profilers such as Nsight
// Systems: marks, ranges, names. Without a profiler everything here does
// nothing, at the cost of a few nanoseconds: annotations can stay in.
//
//	defer nvtx.Start("load batch", nil).End()
//
// It speaks the protocol of NVTX 3 itself. Nothing is linked or loaded, except
// the profiler's own library, which NVTX_INJECTION64_PATH names when the
// profiler starts the program. A program started without one never has one.
//
// # Concurrency
//
// Everything may be used from any number of goroutines at once. A [Range] may
// end on another goroutine than it began. What [Domain.Push] and [Domain.Pop]
// nest belongs to the thread: the goroutine is locked to it in between.
//
// The protocol is that of https://nvidia.github.io/NVTX/, version 3.
package nvtx

import (
	"math"
	"os"
	"sync"
	"sync/atomic"
)

// variable is what a profiler sets.
const variable = "NVTX_INJECTION64_PATH"

var (
	once   sync.Once
	active atomic.Bool
	reason string // why there is no tool although there should be one
)

// Enabled says whether a profiler listens. The first call finds out.
func Enabled() bool {
	once.Do(func() {
		if path := os.Getenv(variable); path != "" {
			if reason = attach(path); reason == "" {
				active.Store(true)
			}
		}
	})
	return active.Load()
}

// Problem says why a profiler that asked for annotations does not get them,
// or "".
func Problem() string {
	Enabled()
	return reason
}

// Payload is a number beside an annotation. The zero value is none.
type Payload struct {
	kind int32
	bits uint64
}

// Uint64 makes a Payload.
func Uint64(v uint64) Payload { return Payload{1, v} }

// Int64 makes a Payload.
func Int64(v int64) Payload { return Payload{2, uint64(v)} }

// Float64 makes a Payload.
func Float64(v float64) Payload { return Payload{3, math.Float64bits(v)} }

// Attributes say more about an annotation. The zero value is the default.
type Attributes struct {
	// Color is 0xAARRGGBB; 0 is the profiler's choice.
	Color uint32
	// Category groups annotations; see [Domain.NameCategory].
	Category uint32
	// Payload is a number.
	Payload Payload
}

// Domain keeps the annotations of a library apart from others. The zero Domain
// is the default one.
type Domain struct{ handle uintptr }

// NewDomain makes a domain, which lasts as long as the process.
func NewDomain(name string) Domain {
	if !Enabled() {
		return Domain{}
	}
	return Domain{newDomain(name)}
}

// Mark annotates this moment. attrs may be nil. A message ends at its first
// zero byte.
func (d Domain) Mark(message string, attrs *Attributes) {
	if Enabled() {
		mark(d.handle, message, attrs)
	}
}

// Range is a span of time. The zero Range is none.
type Range struct {
	domain uintptr
	id     uint64
	on     bool
}

// Start begins a range, which may overlap others. attrs may be nil.
func (d Domain) Start(message string, attrs *Attributes) Range {
	if !Enabled() {
		return Range{}
	}
	return Range{d.handle, start(d.handle, message, attrs), true}
}

// End ends the range. It is called once.
func (r Range) End() {
	if r.on {
		end(r.domain, r.id)
	}
}

// Push begins a range inside those that the calling thread has begun, and
// returns how deep it is, or -1 if nobody listens. The goroutine is locked to
// its thread ([runtime.LockOSThread]) until the Pop. attrs may be nil.
func (d Domain) Push(message string, attrs *Attributes) int {
	if !Enabled() {
		return -1
	}
	return push(d.handle, message, attrs)
}

// Pop ends the range that the calling thread pushed last, and returns how deep
// it was, or -1 if nobody listens.
func (d Domain) Pop() int {
	if !Enabled() {
		return -1
	}
	return pop(d.handle)
}

// NameCategory gives a category of the domain a name.
func (d Domain) NameCategory(category uint32, name string) {
	if Enabled() {
		nameCategory(d.handle, category, name)
	}
}

// Mark annotates this moment in the default domain: see [Domain.Mark].
func Mark(message string, attrs *Attributes) { Domain{}.Mark(message, attrs) }

// Start begins a range in the default domain: see [Domain.Start].
func Start(message string, attrs *Attributes) Range { return Domain{}.Start(message, attrs) }
