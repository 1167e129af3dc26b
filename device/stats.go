package device

import "sync/atomic"

// counter counts the objects of one kind.
type counter struct {
	live, made atomic.Int64
}

func (c *counter) add() {
	c.live.Add(1)
	c.made.Add(1)
}

func (c *counter) drop() { c.live.Add(-1) }

var stats struct {
	contexts, streams, events, buffers, pools counter

	allocated, collected atomic.Int64
	edges                atomic.Int64 // that the driver's package does not count
}

// Statistics are counts since the process began, and what is alive now.
type Statistics struct {
	// Contexts, Streams, Events, Buffers and Pools are alive: made by this
	// package and not yet given back to the driver.
	Contexts, Streams, Events, Buffers, Pools int64
	// ContextsMade and so on count all that were ever made.
	ContextsMade, StreamsMade, EventsMade, BuffersMade, PoolsMade int64
	// Allocated is the size of all buffers alive, in bytes.
	Allocated int64
	// Collected counts objects that nobody closed and that the collector gave
	// back. It should be 0.
	Collected int64
	// Deferred counts functions of [Defer] that wait for their stream.
	Deferred int64
	// Waiters counts calls that wait for an event in the poller.
	Waiters int64
	// Edges counts waits of one stream for another, or for an event, that were
	// made by any package of this module.
	Edges int64
	// HostPanics counts Go functions called by the driver that panicked.
	HostPanics int64
}
