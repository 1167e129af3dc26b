// Package hunt finds missing synchronization: two accesses to the same bytes, one of them a write,
// that no edge orders. It is told of the work that streams get, of the edges between
// streams and of what the host waits for, and knows nothing of drivers; the software device and the
// checking layer in front of a real driver both feed it.
//
// # Order
//
// Every stream counts its work, and all work carries a vector clock: for each other stream, how
// much of it comes before. A clock grows by the edges that the caller names at submission (events
// waited for, the rule of the legacy default stream) and by what the host knew then.
//
// The host is one actor, whatever its threads: goroutines move between threads, and channels, locks
// and Python's interpreter lock order calls in ways that nobody reports to a driver. So a wait by
// one thread counts for what every thread submits afterwards. This can hide a race between two threads of the host; it
// never invents one.
//
// # Accesses
//
// Work is checked in the order in which it was submitted, so the reports of a run are a
// function of what was submitted and do not depend on when the device got to it. Work whose
// accesses become known only when it has run (kernels, graphs) holds that order up, within a
// limit. Each allocation keeps, by ranges of bytes, the last write and the reads since. What the host knew to be over
// before the oldest work that has still to be checked was submitted cannot race with anything any more and is dropped as the
// ranges grow in number; beyond that their number is limited, and the oldest are forgotten and counted.
package hunt
