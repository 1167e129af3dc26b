package soft

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-handoff/handoff/device/soft/internal/engine"
	"github.com/go-handoff/handoff/internal/hunt"
)

// Race is a report of the hunt for missing synchronization: two accesses to the same
// bytes, one of them a write, that no edge orders. Its String method gives the whole report.
type Race = hunt.Race

// RaceSide is one of the two accesses of a [Race].
type RaceSide = hunt.Side

// RaceFrame is one line of the call site of a [RaceSide].
type RaceFrame = hunt.Frame

// HuntStats count what the hunt has looked at and, for its limits, could not.
type HuntStats = hunt.Stats

// Edge is an edge that a program makes, for [OmitEdges].
type Edge struct {
	API    string        // the entry point that makes it: "cuStreamWaitEvent"
	Site   []RaceFrame   // the call, the innermost frame first
	Native []NativeFrame // the calls of C code on the way, if any, the innermost first
}

// NativeFrame is a call in C code: an offset in a library or program, for a reader of its debug information.
type NativeFrame struct {
	File   string
	Offset uint64
}

// TraceEvent is one line of what [StartTrace] records.
type TraceEvent = engine.TraceEvent

// settleTime is how long a check waits for work that is still under way.
const settleTime = 5 * time.Second

// checked is what [Check] needs of a testing.TB.
type checked interface {
	Helper()
	Cleanup(f func())
	Errorf(format string, args ...any)
}

// Check hunts for missing synchronization during the test t (a testing.TB): when the test is over it
// fails with every race that was seen meanwhile, and names the seed of the schedule. It starts
// the hunt if it is not on, so it has to come before the work that is to be looked at.
//
// The hunt sees what the whole process does, so a race of a test that runs in parallel fails both.
// Check waits at the end for work under way, 5 seconds at most. Where there is no software device it does
// nothing.
func Check(t checked) {
	t.Helper()
	if err := StartHunt(); err != nil {
		return
	}
	mark := huntMark()
	t.Cleanup(func() {
		t.Helper()
		for _, r := range racesSince(mark) {
			t.Errorf("%s\n  %s", &r, seedText())
		}
	})
}

// CheckMain is [Check] for a whole test program: it runs the tests with the hunt on, and if all
// of them pass but there was a race, it writes the reports to w and returns a status of its own, 5.
func CheckMain(run func() int, w io.Writer) int {
	_ = StartHunt() // without a software device there is nothing to hunt
	mark := huntMark()
	code := run()
	races := racesSince(mark)
	if code != 0 || len(races) == 0 {
		return code
	}
	_, _ = fmt.Fprintf(w, "soft: %d cases of missing synchronization (%s)\n", len(races), seedText())
	for _, r := range races {
		_, _ = fmt.Fprintf(w, "\n%s\n", &r)
	}
	return 5
}

// indent puts spaces before every line.
func indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }

// ExpectRaces says that the test t is about missing synchronization: from here to its end there has to
// be at least one race, which a [Check] that was made earlier then does not report. It does nothing
// where there is no software device.
func ExpectRaces(t checked) {
	t.Helper()
	if err := StartHunt(); err != nil {
		return
	}
	mark := huntMark()
	t.Cleanup(func() {
		t.Helper()
		if len(racesSince(mark)) == 0 {
			t.Errorf("no missing synchronization was seen, though the test has some\n  %s", seedText())
		}
		forgetRaces(mark)
	})
}
