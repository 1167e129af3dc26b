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
	// Go has the times of the consumers that were passed to Measure.
	Go []float64 // ns
	// Called is the time of a Go loop that calls the deleters and does nothing
	// else. Who gives back one tensor at a time cannot be faster.
	Called float64 // ns
	// Bare is the time of a C loop that validates the tensor and calls its
	// deleter.
	Bare float64 // ns
	// Held is the time of a C loop that validates the tensor, puts it in a
	// handle with the promises of a dlpack.Managed (released once, by whoever
	// does so first, on any thread) and releases that.
	Held float64 // ns
}

// Measure lets the consumers, each of which has to release every tensor of its
// argument, and those in C work on fresh batches in turns.
func Measure(rounds int, consumers ...func([]uintptr)) Figures {
	const n = 512
	timed := func(consume func([]uintptr)) func([]uintptr) time.Duration {
		return func(batch []uintptr) time.Duration {
			start := time.Now()
			consume(batch)
			return time.Since(start)
		}
	}
	loops := []func([]uintptr) time.Duration{ConsumeBatch, ConsumeBatchHeld, timed(callDeleters)}
	for _, consume := range consumers {
		loops = append(loops, timed(consume))
	}
	batch := make([]uintptr, n)
	var made []time.Duration
	times := make([][]time.Duration, len(loops))
	for range rounds {
		for i, loop := range loops {
			made = append(made, Batch(batch))
			times[i] = append(times[i], loop(batch))
		}
	}
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2]) / n
	}
	f := Figures{Made: median(made), Bare: median(times[0]), Held: median(times[1]), Called: median(times[2])}
	for _, t := range times[3:] {
		f.Go = append(f.Go, median(t))
	}
	return f
}
