package engine

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-handoff/handoff/internal/hunt"
)

// TraceEvent is one line of a trace. Which fields count depends on Kind:
//
//	process  At (the wall clock when times began, in nanoseconds), Seed
//	stream   Stream, Name, Device: a stream, before its first work
//	op       Op, Stream, Seq, What, Name, At, After, Site: work that enters a stream
//	run      Op, At, End, Code, Reads, Writes: work that has run
//	host     At, What, After, Site: the host knows that work is over
//	race     Op, Other, Text, Fix: missing synchronization between two pieces of work; 0 is the host
//
// Work has the number of its submission in the process. Times are nanoseconds.
type TraceEvent struct {
	Kind   string      `json:"k"`
	At     int64       `json:"at,omitempty"`
	End    int64       `json:"end,omitempty"`
	Op     uint64      `json:"op,omitempty"`
	Other  uint64      `json:"other,omitempty"`
	Stream uint64      `json:"stream,omitempty"`
	Seq    uint64      `json:"seq,omitempty"`
	Device int         `json:"dev"`
	What   string      `json:"what,omitempty"`
	Name   string      `json:"name,omitempty"`
	After  []uint64    `json:"after,omitempty"`
	Site   []string    `json:"site,omitempty"`
	Code   string      `json:"code,omitempty"`
	Reads  [][2]uint64 `json:"r,omitempty"`
	Writes [][2]uint64 `json:"w,omitempty"`
	Text   string      `json:"text,omitempty"`
	Fix    string      `json:"fix,omitempty"`
	Seed   uint64      `json:"seed,omitempty"`
}

// tracer writes what happens as lines of JSON.
type tracer struct {
	mu      sync.Mutex
	w       io.Writer
	err     error
	streams map[*hunt.Stream]bool
}

// StartTrace writes a trace to w from now on. It starts a hunt.
func (e *Engine) StartTrace(w io.Writer) {
	h := e.StartHunt(hunt.Config{})
	t := &tracer{w: w, streams: make(map[*hunt.Stream]bool)}
	seed, _ := e.Seed()
	t.write(&TraceEvent{Kind: "process", At: epoch.UnixNano(), Seed: seed})
	h.OnRace(func(r *hunt.Race) {
		x := &TraceEvent{Kind: "race", Op: r.First.Sub, Other: r.Second.Sub, Text: r.String(), Fix: r.Fix}
		if r.First.Device < 0 {
			x.Op = 0
		}
		if r.Second.Device < 0 {
			x.Other = 0
		}
		t.write(x)
	})
	e.hunt.Load().trace.Store(t)
}

func (t *tracer) write(x *TraceEvent) {
	b, err := json.Marshal(x)
	if err != nil {
		return // no such value is made
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		_, t.err = t.w.Write(append(b, '\n'))
	}
}

func now() int64 { return int64(time.Since(epoch)) }

// site is a call site as lines of text.
func site(pcs []uintptr) (r []string) {
	for _, f := range hunt.Frames(pcs) {
		r = append(r, fmt.Sprintf("%s %s:%d", f.Func, f.File, f.Line))
		if len(r) == 12 {
			break
		}
	}
	return r
}

// submitted tells of work that enters a stream.
func (t *tracer) submitted(o *hunt.Op, after []*hunt.Op, pcs []uintptr) {
	s := o.Stream
	t.mu.Lock()
	known := t.streams[s]
	t.streams[s] = true
	t.mu.Unlock()
	if !known {
		t.write(&TraceEvent{Kind: "stream", Stream: s.ID(), Name: s.Name, Device: s.Device})
	}
	x := &TraceEvent{Kind: "op", Op: o.Submission(), Stream: s.ID(), Seq: o.Seq, What: o.Kind, Name: o.Name, At: now(), Device: s.Device, Site: site(pcs)}
	x.After = others(after, s)
	t.write(x)
}

// others are the numbers of work that is not of stream s.
func others(ops []*hunt.Op, s *hunt.Stream) (r []uint64) {
	for _, a := range ops {
		if a != nil && a.Stream != s {
			r = append(r, a.Submission())
		}
	}
	return r
}

// ran tells of work that has run.
func (t *tracer) ran(o *hunt.Op, start int64, code Code, acc []hunt.Access) {
	x := &TraceEvent{Kind: "run", Op: o.Submission(), At: start, End: now()}
	if code != Success {
		x.Code = code.Name()
	}
	for _, a := range acc {
		r := [2]uint64{a.Addr, a.Len}
		switch {
		case a.Kind == hunt.Read && len(x.Reads) < 8:
			x.Reads = append(x.Reads, r)
		case a.Kind != hunt.Read && len(x.Writes) < 8:
			x.Writes = append(x.Writes, r)
		}
	}
	t.write(x)
}

// host tells what the host got to know.
func (t *tracer) host(ops []*hunt.Op) {
	if after := others(ops, nil); len(after) > 0 {
		t.write(&TraceEvent{Kind: "host", At: now(), After: after, Site: site(hunt.Callers(3))})
	}
}
