package launch

import "sync/atomic"

var stats struct {
	libraries, kernels, collected, compiled, hits, cacheErrors atomic.Int64
	graphs, execs, holds                                       atomic.Int64
}

// Statistics are counts since the process began, and what is alive now.
type Statistics struct {
	// Libraries is the number of pieces of code that are loaded.
	Libraries int64
	// Kernels is the number of Kernels that are open.
	Kernels int64
	// Graphs and GraphExecs are the graphs that are open, and the executable
	// ones. Held is how many kernels, buffers, events and functions they keep.
	Graphs, GraphExecs, Held int64
	// Collected counts objects that nobody closed and that the collector gave
	// back. It should be 0.
	Collected int64
	// Compiled counts compilations and links that ran, CacheHits those that a
	// cache answered.
	Compiled, CacheHits int64
	// CacheErrors counts entries that could not be read or kept, which is no
	// error of the compilation.
	CacheErrors int64
}

// Stats returns the counts of this process.
func Stats() Statistics {
	return Statistics{
		Libraries: stats.libraries.Load(),
		Kernels:   stats.kernels.Load(),
		Graphs:    stats.graphs.Load(), GraphExecs: stats.execs.Load(), Held: stats.holds.Load(),
		Collected:   stats.collected.Load(),
		Compiled:    stats.compiled.Load(),
		CacheHits:   stats.hits.Load(),
		CacheErrors: stats.cacheErrors.Load(),
	}
}
