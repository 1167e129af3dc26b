package driver

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-handoff/handoff/internal/hunt"
)

// Race is a report of missing synchronization, see [Options].Check. Its String method gives the whole report.
type Race = hunt.Race

// Races returns what the checking layer has found so far; nothing where there is none.
func (d *Driver) Races() []Race {
	if d.hunter == nil {
		return nil
	}
	return d.hunter.Races()
}

// Checked says whether the checking layer is in front of this driver.
func (d *Driver) Checked() bool { return d.hunter != nil }

// HandOver tells the checking layer that size bytes at addr, which work on a stream makes, are
// handed to others now: what uses them in another stream has to come after an edge from here. It is nothing but
// a look at a pointer where nobody checks. Call it before the edge is made.
func (d *Driver) HandOver(ctx ContextHandle, stream StreamHandle, addr DevicePtr, size uintptr) {
	if d.hunter != nil {
		handOver(uint64(ctx), uint64(stream), uint64(addr), uint64(size))
	}
}

// GiveBack tells the checking layer that memory of somebody else, which began at addr when it
// was handed over, has been given back: its owner may use it again by rules of its own.
func (d *Driver) GiveBack(addr DevicePtr) {
	if d.hunter != nil {
		giveBack(uint64(addr))
	}
}

// checking says that some driver of the process has the layer in front.
var checking atomic.Bool

// Checking says whether any driver of this process has the checking layer in front.
func Checking() bool { return checking.Load() }

var reports sync.Once

// reportTo has races reported as HANDOFF_CHECK says: to the standard error, or to a file.
func reportTo(h *hunt.Hunter, where string) {
	h.OnRace(func(r *Race) {
		if !strings.ContainsRune(where, '/') {
			fmt.Fprintf(os.Stderr, "handoff: %s\n", r)
			return
		}
		line, err := json.Marshal(map[string]any{"race": r, "text": r.String()})
		if err != nil {
			return
		}
		f, err := os.OpenFile(where, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			fmt.Fprintf(os.Stderr, "handoff: %v\n%s\n", err, r)
			return
		}
		_, _ = f.Write(append(line, '\n'))
		_ = f.Close()
	})
}
