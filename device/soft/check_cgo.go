//go:build cgo && linux

package soft

// #include "soft.h"
import "C"

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft/internal/engine"
	"github.com/go-handoff/handoff/internal/hunt"
)

// StartHunt switches the hunt for missing synchronization on, for good; HANDOFF_SOFT_CHECK=1 does
// it from the start. Work submitted before is not looked at. It opens the software device if that has
// not been done, so options have to be set before.
func StartHunt() error {
	e, err := start()
	if err != nil {
		return fmt.Errorf("soft: start hunt: %w", err)
	}
	e.StartHunt(hunt.Config{})
	return nil
}

func hunter() *hunt.Hunter {
	if e := std.e.Load(); e != nil {
		return e.Hunter()
	}
	return nil
}

func huntMark() uint64 {
	if h := hunter(); h != nil {
		return h.Mark()
	}
	return 0
}

func racesSince(mark uint64) []Race {
	h := hunter()
	if h == nil {
		return nil
	}
	if e := std.e.Load(); !e.Settle(settleTime) {
		h.Flush()
	}
	return h.Since(mark)
}

// Races returns the different races that the hunt has found so far, in the order in which they were
// found: none where it is off. It waits for work under way as [Check] does.
func Races() []Race { return racesSince(0) }

// ForgetRaces is [Races], and forgets them: what is seen again later is reported again.
func ForgetRaces() []Race {
	r := Races()
	forgetRaces(0)
	return r
}

// forgetRaces drops what was seen since a mark.
func forgetRaces(mark uint64) {
	if h := hunter(); h != nil {
		h.Forget(mark)
	}
}

// Hunted returns the counts of the hunt, zeros where it is off.
func Hunted() HuntStats {
	if h := hunter(); h != nil {
		return h.Stats()
	}
	return HuntStats{}
}

// huntEnvironment starts a hunt as HANDOFF_SOFT_CHECK says: 1 for reports to the standard error, or a
// file to which every race is appended as a line of JSON.
func huntEnvironment(e *engine.Engine, v string) {
	if v == "" || v == "0" {
		return
	}
	e.StartHunt(hunt.Config{}).OnRace(func(r *Race) {
		if !strings.ContainsRune(v, '/') {
			fmt.Fprintf(os.Stderr, "handoff: %s\n  %s\n", r, seedText())
			return
		}
		line, err := json.Marshal(map[string]any{"race": r, "text": r.String(), "seed": seedText()})
		if err != nil {
			return
		}
		f, err := os.OpenFile(v, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			fmt.Fprintf(os.Stderr, "handoff: %v\n%s\n", err, indent(r.String()))
			return
		}
		_, _ = f.Write(append(line, '\n'))
		_ = f.Close()
	})
}

// StartTrace records from now on what the software device does, as lines of JSON (see
// [TraceEvent]), which "handoff trace" makes pictures of: streams, their work and its edges, what the host waited
// for, and missing synchronization, for which it hunts from now on, too. It does not close w. HANDOFF_TRACE
// does this from the start; a file that is there already gets the number of the process behind its name.
func StartTrace(w io.Writer) error {
	e, err := start()
	if err != nil {
		return fmt.Errorf("soft: start trace: %w", err)
	}
	e.StartTrace(w)
	return nil
}

// traceEnvironment starts a trace as HANDOFF_TRACE says.
func traceEnvironment(e *engine.Engine, path string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if os.IsExist(err) {
		f, err = os.OpenFile(fmt.Sprintf("%s.%d", path, os.Getpid()), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	}
	if err != nil {
		return err
	}
	e.StartTrace(f)
	return nil
}

// hostTouches is what a host function of package driver has said that it does.
func hostTouches(user uintptr) *[2][]engine.Range {
	list, ok := driver.HostTouches(user)
	if !ok {
		return nil
	}
	var r [2][]engine.Range
	for _, x := range list {
		i := 0
		if x.Write {
			i = 1
		}
		r[i] = append(r[i], engine.Range{Addr: uint64(x.Addr), Len: uint64(x.Len)})
	}
	return &r
}

// OmitEdges leaves edges out that the program makes, as long as the test t (a testing.TB) runs, to see
// whether somebody notices: omit is asked about each one, on the thread that makes it and with locks held, so it
// must not call the driver. A wait that is left out returns at once as if there were nothing to wait for. Graph nodes lose
// all their dependencies at once.
func OmitEdges(t checked, omit func(Edge) bool) {
	t.Helper()
	e, err := start()
	if err != nil {
		return
	}
	e.SetOmit(func(api string, site []uintptr) bool {
		return omit(Edge{API: api, Site: hunt.Frames(site), Native: native()})
	})
	C.ho_soft_watching = 1
	t.Cleanup(func() { C.ho_soft_watching = 0; e.SetOmit(nil) })
}

// native lists the C calls above the edge that this thread makes.
func native() (r []NativeFrame) {
	var file *C.char
	var offset C.uint64_t
	for i := C.int(0); C.ho_soft_above(i, &file, &offset) != 0; i++ {
		r = append(r, NativeFrame{C.GoString(file), uint64(offset)})
	}
	return r
}

// HostTouch tells the hunt that host code reads or writes n bytes of memory that the device knows, now, so that a
// missing wait before it is found.
func HostTouch(addr, n uintptr, write bool) {
	h := hunter()
	if h == nil {
		return
	}
	a := hunt.Access{Range: hunt.Range{Addr: uint64(addr), Len: uint64(n)}, Kind: hunt.Read}
	if write {
		a.Kind = hunt.Write
	}
	h.HostTouch(hunt.Desc{Kind: "host code", Site: hunt.Callers(1)}, a)
}

func seedText() string {
	if e := std.e.Load(); e != nil {
		if seed, ok := e.Seed(); ok {
			return fmt.Sprintf("seed: HANDOFF_SOFT_SEED=%d", seed)
		}
	}
	return "schedule: not permuted; HANDOFF_SOFT_SEED=random permutes it"
}
