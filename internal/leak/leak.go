// Package leak is a registry of live objects for tests: what owns something
// outside the collector registers itself, and a test run that leaves objects
// behind fails and prints where they were made.
//
// Outside of leak-check mode a registration costs one atomic load.
package leak

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// exitCode is the status of a test run that passed but leaked, so that it can
// be told from one that failed.
const exitCode = 13

var (
	enabled atomic.Bool
	mu      sync.Mutex
	next    uint64
	live    = map[uint64]*Record{}
)

// Record is one live object.
type Record struct {
	// Kind says what it is, for example "dlpack.Managed".
	Kind string
	// Stack says where it was made.
	Stack string
	id    uint64
}

// Token stands for one registered object. The zero Token stands for none.
type Token struct{ id uint64 }

// Enabled reports whether objects are recorded.
func Enabled() bool { return enabled.Load() }

// Track registers an object of the given kind with the caller's stack. Outside
// of leak-check mode it returns the zero Token and records nothing.
func Track(kind string) Token {
	if !enabled.Load() {
		return Token{}
	}
	return track(kind)
}

func track(kind string) Token {
	var pcs [32]uintptr
	n := runtime.Callers(3, pcs[:])
	r := &Record{Kind: kind, Stack: format(pcs[:n])}
	mu.Lock()
	defer mu.Unlock()
	next++
	r.id = next
	live[next] = r
	return Token{next}
}

// Done says that the object was released. It does nothing for the zero Token
// and for one that was given before.
func (t Token) Done() {
	if t.id == 0 {
		return
	}
	mu.Lock()
	defer mu.Unlock()
	delete(live, t.id)
}

// Live returns the objects that are registered now, oldest first.
func Live() []Record {
	mu.Lock()
	defer mu.Unlock()
	out := make([]Record, 0, len(live))
	for _, r := range live {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b Record) int { return int(int64(a.id) - int64(b.id)) })
	return out
}

// Pause switches leak-check mode off until the test ends, for tests that count
// allocations. t is a testing.TB. It must not be used in parallel tests.
func Pause(t interface {
	Helper()
	Cleanup(func())
},
) {
	t.Helper()
	if enabled.Swap(false) {
		t.Cleanup(func() { enabled.Store(true) })
	}
}

// Main is a TestMain (m is a *testing.M): it runs the tests in leak-check mode and exits, with a
// status of its own if all tests passed but objects are left. Benchmarks run
// without the mode, which would spoil their figures.
func Main(m interface{ Run() int }) {
	os.Exit(Run(m.Run, os.Stderr))
}

// Run is [Main] without the exit: it returns the status for the process and
// writes what leaked to w.
func Run(run func() int, w io.Writer) int {
	flag.Parse()
	if f := flag.Lookup("test.bench"); f == nil || f.Value.String() == "" {
		enabled.Store(true)
		defer enabled.Store(false)
	}
	code := run()
	if code != 0 {
		return code
	}
	left := Live()
	if len(left) == 0 {
		return 0
	}
	_, _ = fmt.Fprintf(w, "leak: %d objects were not released\n", len(left))
	for _, r := range left {
		_, _ = fmt.Fprintf(w, "\n%s made at:\n%s", r.Kind, r.Stack)
	}
	return exitCode
}

func format(pcs []uintptr) string {
	var b strings.Builder
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		if f.Function != "" {
			_, _ = fmt.Fprintf(&b, "  %s\n    %s:%d\n", f.Function, f.File, f.Line)
		}
		if !more {
			return b.String()
		}
	}
}
