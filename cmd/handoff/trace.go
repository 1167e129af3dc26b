package main

import (
	"bufio"
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/go-handoff/handoff/device/soft"
)

func newTrace() *cobra.Command {
	var out, seed, from string
	c := &cobra.Command{
		Use:   "trace [flags] -- COMMAND [ARGUMENTS]",
		Short: "Run a program on the software device and draw what its streams do",
		Long: `Runs a program on the software device and records every piece of stream work, the edges between
them, what the host waits for, and missing synchronization. Three files come of it:

  OUT.html    the picture: a lane for each stream, edges as arrows, races in red; it needs nothing else
  OUT.json    for chrome://tracing and Perfetto
  OUT.jsonl   what was recorded, a line for each event (soft.TraceEvent)

The exit status is that of the program. With --from a record is drawn again, and nothing is run.`,
		Args: usage(func(_ *cobra.Command, args []string) error {
			if (len(args) == 0) == (from == "") {
				return errors.New("want either a command or --from")
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			record := from
			var status error
			if from == "" {
				record = out + ".jsonl"
				if status = runTraced(cmd, args, record, seed); status != nil && !isExit(status) {
					return status
				}
			}
			t, err := readTrace(record)
			if err != nil {
				return errors.Join(status, err)
			}
			if err := t.writeFiles(out, strings.Join(args, " ")); err != nil {
				return errors.Join(status, err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s.html: %d streams, %d pieces of work, %d edges, %d races\n", out, len(t.Streams), len(t.Ops), t.edges(), len(t.Races))
			return status
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "trace", "name of the files without their endings")
	c.Flags().StringVar(&seed, "seed", "", "permute the order of streams: a number, or \"random\"")
	c.Flags().StringVar(&from, "from", "", "draw this record (JSON lines) again")
	return c
}

func isExit(err error) bool {
	var e exitError
	return errors.As(err, &e)
}

// runTraced runs a program with its trace written to record.
func runTraced(cmd *cobra.Command, args []string, record, seed string) error {
	old, err := filepath.Glob(record + "*")
	if err != nil {
		return usageError{err}
	}
	for _, f := range old {
		if err := os.Remove(f); err != nil {
			return err
		}
	}
	abs, err := filepath.Abs(record)
	if err != nil {
		return err
	}
	p := exec.Command(args[0], args[1:]...)
	p.Env = append(os.Environ(), "HANDOFF_DRIVER=soft", "HANDOFF_TRACE="+abs)
	if seed != "" {
		p.Env = append(p.Env, "HANDOFF_SOFT_SEED="+seed)
	}
	p.Stdin, p.Stdout, p.Stderr = os.Stdin, cmd.OutOrStdout(), cmd.ErrOrStderr()
	err = p.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exitError{max(exit.ExitCode(), 1), fmt.Errorf("%s: %w", args[0], err)}
	case err != nil:
		return err
	}
	if _, err := os.Stat(record); err != nil {
		return fmt.Errorf("%s did not use the software device: %w", args[0], err)
	}
	return nil
}

// trace is a record made ready for drawing. Its fields are what the page's script gets.
type trace struct {
	Title   string        `json:"title"`
	Seed    uint64        `json:"seed"`
	Streams []traceStream `json:"streams"`
	Ops     []*traceOp    `json:"ops"`
	Host    []traceHost   `json:"host"`
	Races   []traceRace   `json:"races"`
}

type traceStream struct {
	ID      int    `json:"id"`
	Name    string `json:"name"`
	Device  int    `json:"device"`
	Process int    `json:"process"`
	Ops     int    `json:"ops"`
}

// traceOp is a piece of work. Times are microseconds since the first of all.
type traceOp struct {
	Stream int         `json:"s"`
	Seq    uint64      `json:"q"`
	What   string      `json:"w"`
	Name   string      `json:"n,omitempty"`
	Queued float64     `json:"t0"`
	Start  float64     `json:"t1"`
	End    float64     `json:"t2"`
	Ran    bool        `json:"ran"`
	After  []traceEdge `json:"a,omitempty"`
	Site   []string    `json:"site,omitempty"`
	Code   string      `json:"code,omitempty"`
	Reads  [][2]string `json:"r,omitempty"`
	Writes [][2]string `json:"wr,omitempty"`
}

// traceEdge is an edge from another piece of work; By is the hand-over that made it, if one did.
type traceEdge struct {
	From int    `json:"f"`
	By   string `json:"by,omitempty"`
}

// traceHost is a moment at which the host knew that work was over.
type traceHost struct {
	At    float64  `json:"t"`
	After []int    `json:"a"`
	Site  []string `json:"site,omitempty"`
}

// traceRace is missing synchronization between two pieces of work, -1 for the host.
type traceRace struct {
	A    int    `json:"a"`
	B    int    `json:"b"`
	Text string `json:"text"`
	Fix  string `json:"fix"`
}

// readTrace reads a record and those of other processes beside it.
func readTrace(path string) (*trace, error) {
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no trace at %s", path)
	}
	t := &trace{}
	var began int64 // the wall clock of the first process
	for n, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		if err := t.add(n, b, &began); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
	}
	t.finish()
	return t, nil
}

// add adds the record of one process.
func (t *trace) add(process int, record []byte, began *int64) error {
	streams := make(map[uint64]int)
	ops := make(map[uint64]int)
	var shift int64
	var races []soft.TraceEvent
	us := func(ns int64) float64 { return float64(ns+shift) / 1000 }
	of := func(id uint64) int {
		if i, ok := ops[id]; ok {
			return i
		}
		return -1
	}
	lines := bufio.NewScanner(bytes.NewReader(record))
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		var e soft.TraceEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			if rest := bytes.TrimSpace(lines.Bytes()); !bytes.HasSuffix(rest, []byte("}")) {
				break // the process was killed in the middle of a line
			}
			return fmt.Errorf("line %d: %w", n, err)
		}
		switch e.Kind {
		case "process":
			if *began == 0 {
				*began = e.At
			}
			shift, t.Seed = e.At-*began, e.Seed
		case "stream":
			streams[e.Stream] = len(t.Streams)
			t.Streams = append(t.Streams, traceStream{ID: len(t.Streams), Name: e.Name, Device: e.Device, Process: process})
		case "op":
			s, ok := streams[e.Stream]
			if !ok {
				return fmt.Errorf("line %d: work in an unknown stream", n)
			}
			o := &traceOp{Stream: s, Seq: e.Seq, What: e.What, Name: e.Name, Queued: us(e.At), Site: e.Site}
			by := handover(e.Site)
			for _, a := range e.After {
				if i := of(a); i >= 0 {
					o.After = append(o.After, traceEdge{i, by})
				}
			}
			ops[e.Op] = len(t.Ops)
			t.Ops = append(t.Ops, o)
			t.Streams[s].Ops++
		case "run":
			i := of(e.Op)
			if i < 0 {
				continue
			}
			o := t.Ops[i]
			o.Start, o.End, o.Ran, o.Code = us(e.At), us(e.End), true, e.Code
			o.Reads, o.Writes = hexRanges(e.Reads), hexRanges(e.Writes)
		case "host":
			h := traceHost{At: us(e.At), Site: e.Site}
			for _, a := range e.After {
				if i := of(a); i >= 0 {
					h.After = append(h.After, i)
				}
			}
			t.Host = append(t.Host, h)
		case "race":
			races = append(races, e) // it may come before its work
		}
	}
	for _, e := range races {
		t.Races = append(t.Races, traceRace{of(e.Op), of(e.Other), e.Text, e.Fix})
	}
	return lines.Err()
}

func hexRanges(in [][2]uint64) (r [][2]string) {
	for _, x := range in {
		r = append(r, [2]string{fmt.Sprintf("%#x", x[0]), fmt.Sprint(x[1])})
	}
	return r
}

// handover is the exchange at whose call site an edge was made, "" for others: the outermost function of the
// library whose business is exchanging.
func handover(site []string) (by string) {
	for _, line := range site {
		f, _, _ := strings.Cut(line, " ")
		f, ours := strings.CutPrefix(f, "github.com/go-handoff/handoff/")
		if !ours {
			continue
		}
		if strings.HasPrefix(f, "memview.") || strings.HasPrefix(f, "python") {
			by = strings.NewReplacer("memview.StridedMemoryView.", "", "memview.(*StridedMemoryView).", "", "memview.", "").Replace(f)
		}
	}
	return by
}

// finish completes what the record leaves open.
func (t *trace) finish() {
	first := 0.0
	for i, o := range t.Ops {
		if i == 0 || o.Queued < first {
			first = o.Queued
		}
	}
	for _, o := range t.Ops {
		o.Queued -= first
		if o.Ran {
			o.Start, o.End = o.Start-first, o.End-first
		} else {
			o.Start, o.End = o.Queued, o.Queued
		}
	}
	for i := range t.Host {
		t.Host[i].At -= first
	}
	slices.SortStableFunc(t.Host, func(a, b traceHost) int { return cmp.Compare(a.At, b.At) })
}

func (t *trace) edges() (n int) {
	for _, o := range t.Ops {
		n += len(o.After)
	}
	return n
}

// writeFiles writes the page and the trace for Chrome.
func (t *trace) writeFiles(out, title string) error {
	t.Title = title
	for name, write := range map[string]func(io.Writer) error{out + ".html": t.writeHTML, out + ".json": t.writeChrome} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return err
		}
		if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

//go:embed trace.html.tmpl
var tracePage string

var traceTemplate = template.Must(template.New("trace").Parse(tracePage))

func (t *trace) writeHTML(w io.Writer) error {
	data, err := json.Marshal(t) // escapes what would end a script
	if err != nil {
		return err
	}
	return traceTemplate.Execute(w, map[string]any{"Title": t.Title, "Data": template.JS(data)})
}

// chromeEvent is an event of the Trace Event Format.
type chromeEvent struct {
	Name  string         `json:"name"`
	Cat   string         `json:"cat,omitempty"`
	Phase string         `json:"ph"`
	At    float64        `json:"ts"`
	Dur   float64        `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	ID    int            `json:"id,omitempty"`
	Bind  string         `json:"bp,omitempty"`
	Scope string         `json:"s,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// writeChrome writes the Trace Event Format: devices are processes, streams are threads.
func (t *trace) writeChrome(w io.Writer) error {
	var all []chromeEvent
	devices := make(map[int]bool)
	pid := func(s traceStream) int { return s.Process*100 + s.Device }
	for _, s := range t.Streams {
		if p := pid(s); !devices[p] {
			devices[p] = true
			all = append(all, chromeEvent{Name: "process_name", Phase: "M", PID: p, Args: map[string]any{"name": fmt.Sprintf("device %d", s.Device)}})
		}
		all = append(all, chromeEvent{Name: "thread_name", Phase: "M", PID: pid(s), TID: s.ID, Args: map[string]any{"name": s.Name}})
	}
	flow := 0
	arrow := func(name, cat string, a, b *traceOp) {
		flow++
		sa, sb := t.Streams[a.Stream], t.Streams[b.Stream]
		all = append(all,
			chromeEvent{Name: name, Cat: cat, Phase: "s", At: a.Start, PID: pid(sa), TID: sa.ID, ID: flow},
			chromeEvent{Name: name, Cat: cat, Phase: "f", Bind: "e", At: max(b.Start, a.Start), PID: pid(sb), TID: sb.ID, ID: flow})
	}
	for _, o := range t.Ops {
		s := t.Streams[o.Stream]
		all = append(all, chromeEvent{
			Name: strings.TrimSpace(o.What + " " + o.Name), Cat: o.What, Phase: "X", At: o.Start, Dur: max(o.End-o.Start, 0.001), PID: pid(s), TID: s.ID,
			Args: map[string]any{"work": o.Seq, "queued": o.Queued, "site": o.Site, "reads": o.Reads, "writes": o.Writes},
		})
		for _, a := range o.After {
			name := "edge"
			if a.By != "" {
				name = "hand-over: " + a.By
			}
			arrow(name, "edge", t.Ops[a.From], o)
		}
	}
	for _, r := range t.Races {
		if r.A >= 0 && r.B >= 0 {
			arrow("RACE", "race", t.Ops[r.A], t.Ops[r.B])
		}
		if i := max(r.A, r.B); i >= 0 {
			s := t.Streams[t.Ops[i].Stream]
			all = append(all, chromeEvent{Name: "RACE", Cat: "race", Phase: "i", Scope: "t", At: t.Ops[i].Start, PID: pid(s), TID: s.ID, Args: map[string]any{"report": r.Text}})
		}
	}
	return json.NewEncoder(w).Encode(map[string]any{"traceEvents": all, "displayTimeUnit": "ns"})
}
