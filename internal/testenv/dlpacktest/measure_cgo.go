//go:build cgo && linux && (amd64 || arm64)

package dlpacktest

import (
	"slices"
	"time"
)

// Figures are medians of the time for one tensor, all taken in one run and in
// turns, so that their ratios mean something on a busy machine.
type Figures struct {
	// Made is the time of the C producer: one malloc, one reference count.
	Made float64 // ns
	// Go is the time of the consumer that was passed to Measure.
	Go float64 // ns
	// Bare is the time of a C loop that validates the tensor and calls its
	// deleter.
	Bare float64 // ns
	// Held is the time of a C loop that validates the tensor, puts it in a
	// handle with the promises of a dlpack.Managed (released once, by whoever
	// does so first, on any thread) and releases that.
	Held float64 // ns
}

// Measure lets consume, which has to release every tensor of its argument, and
// the C consumers work on fresh batches in turns.
func Measure(rounds int, consume func([]uintptr)) Figures {
	const n = 512
	batch := make([]uintptr, n)
	var times [4][]time.Duration
	for i := range times {
		times[i] = make([]time.Duration, 0, rounds)
	}
	for range rounds {
		times[0] = append(times[0], Batch(batch))
		start := time.Now()
		consume(batch)
		times[1] = append(times[1], time.Since(start))
		Batch(batch)
		times[2] = append(times[2], ConsumeBatch(batch))
		Batch(batch)
		times[3] = append(times[3], ConsumeBatchHeld(batch))
	}
	var m [4]float64
	for i, d := range times {
		slices.Sort(d)
		m[i] = float64(d[len(d)/2]) / n
	}
	return Figures{Made: m[0], Go: m[1], Bare: m[2], Held: m[3]}
}
