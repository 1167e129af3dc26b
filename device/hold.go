package device

import (
	"math"
	"sync/atomic"

	"github.com/go-handoff/handoff/internal/gate"
)

// This file lets packages above use an object that others may close meanwhile,
// for longer than one call: as a graph does.

// Begin begins a use of the stream. Its handle stays valid until the matching
// [Stream.End], even if the stream is closed before. op says in an error what
// was being done: [ErrClosed], or [ErrThread] for the default stream of
// another thread.
func (s *Stream) Begin(op string) error { return s.use(op) }

// End ends a use.
func (s *Stream) End() {
	if s != nil {
		s.end()
	}
}

// Begin begins a use of the buffer. Its memory is not given back until the
// matching [Buffer.End], even if the buffer is closed before. op says in an
// error, [ErrClosed], what was being done.
func (b *Buffer) Begin(op string) error { return b.enter(op) }

// BeginOn is [Buffer.Begin] for a use by work on s, which the buffer remembers:
// see [Buffer.UsedOn].
func (b *Buffer) BeginOn(op string, s *Stream) error {
	if err := b.enter(op); err != nil {
		return err
	}
	if b.size == 0 {
		return nil
	}
	err := b.usedOn(op, s)
	if err != nil {
		b.exit()
	}
	return err
}

// End ends a use.
func (b *Buffer) End() {
	if b != nil {
		b.end()
	}
}

// Begin begins a use of the event: see [Stream.Begin].
func (e *Event) Begin(op string) error { return e.enter(op) }

// End ends a use.
func (e *Event) End() {
	if e != nil {
		e.end()
	}
}

// Begin begins a use of the context: see [Stream.Begin].
func (c *Context) Begin(op string) error { return c.enter(op) }

// End ends a use.
func (c *Context) End() {
	if c != nil {
		c.end()
	}
}

// Pass is a gate ([gate.Gate]) for who uses one stream again and again. Who is
// in it uses the stream as between [Stream.Begin] and [Stream.End], but nothing
// is counted: it is for calls that a count would slow down. The zero value is
// good for no stream.
type Pass struct {
	gate.Gate
	stream uint64 // ^ the number of the stream that it is good for, from 1
}

// Drop makes the pass, which the caller is in, good for no stream.
func (p *Pass) Drop() {
	if p != nil {
		p.stream = 0
	}
}

// noPass is the number of streams that admit nobody: those that are closed, and
// those of a thread. The zero Stream, whose number is 0, admits nobody either:
// its complement is no pass's, nor is that of noPass.
const noPass = math.MaxUint64 - 1

var streamNumbers atomic.Uint64

// Admits says whether the caller, who is in the pass, may use the stream until
// they leave. If not, [Stream.Admit] may help, or [Stream.Begin] says why not.
// The caller keeps s reachable meanwhile.
func (s *Stream) Admits(p *Pass) bool { return p.stream == ^s.number.Load() }

// Admit makes the pass, which the caller is in, good for s in place of any
// other stream. It does not for a stream that is closed or that belongs to a
// thread.
func (s *Stream) Admit(p *Pass) bool {
	n := s.number.Load()
	if n == noPass || n == 0 {
		return false
	}
	s.passes.Add(&p.Gate)
	p.stream = ^n
	return s.Admits(p) // Close may have looked for passes before
}
