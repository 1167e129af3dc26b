package testdriver

import (
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/go-handoff/handoff/device/driver"
)

// AllocsPerRun is testing.AllocsPerRun for calls of a driver. Behind the checking layer, which writes every call down,
// it counts what is allocated outside of the layer, by the profile of the heap.
func AllocsPerRun(d *driver.Driver, runs int, f func()) float64 {
	if !d.Checked() {
		return testing.AllocsPerRun(runs, f)
	}
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	runtime.MemProfileRate = 1
	f()
	before := allocated()
	for range runs {
		f()
	}
	return math.Floor(float64(allocated()-before) / float64(runs))
}

// allocated counts the objects allocated so far, but those of the checking layer.
func allocated() (n int64) {
	runtime.GC()
	runtime.GC() // the profile is as of the collection before the last
	records := make([]runtime.MemProfileRecord, 1024)
	for {
		k, ok := runtime.MemProfile(records, true)
		if ok {
			records = records[:k]
			break
		}
		records = make([]runtime.MemProfileRecord, 2*k)
	}
	for i := range records {
		if !ofLayer(records[i].Stack()) {
			n += records[i].AllocObjects
		}
	}
	return n
}

func ofLayer(stack []uintptr) bool {
	frames := runtime.CallersFrames(stack)
	for {
		f, more := frames.Next()
		if strings.Contains(f.Function, "/device/driver/internal/check.") || strings.Contains(f.Function, "/internal/hunt.") ||
			strings.HasSuffix(f.Function, "/testdriver.allocated") {
			return true
		}
		if !more {
			return false
		}
	}
}
