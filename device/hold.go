package device

// This file lets packages above use an object that others may close meanwhile,
// for longer than one call: as a graph does.

// Begin begins a use of the stream. Its handle stays valid until the matching
// [Stream.End], even if the stream is closed before. op says in an error what
// was being done: [ErrClosed], or [ErrThread] for the default stream of
// another thread.
func (s *Stream) Begin(op string) error { return s.use(op) }

// End ends a use.
func (s *Stream) End() { s.exit() }

// Begin begins a use of the buffer. Its memory is not given back until the
// matching [Buffer.End], even if the buffer is closed before. op says in an
// error, [ErrClosed], what was being done.
func (b *Buffer) Begin(op string) error { return b.enter(op) }

// End ends a use.
func (b *Buffer) End() { b.exit() }

// Begin begins a use of the event: see [Stream.Begin].
func (e *Event) Begin(op string) error { return e.enter(op) }

// End ends a use.
func (e *Event) End() { e.exit() }

// Begin begins a use of the context: see [Stream.Begin].
func (c *Context) Begin(op string) error { return c.enter(op) }

// End ends a use.
func (c *Context) End() { c.exit() }
