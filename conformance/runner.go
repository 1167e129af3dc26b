package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-handoff/handoff/conformance/rules"
)

// ErrCannotRun means that the checks could not be run at all: no usable Python,
// no C compiler, or a target that is not there.
var ErrCannotRun = errors.New("cannot run")

// Options tune [Run]. Python is needed, the rest may be zero.
type Options struct {
	// Python is the interpreter that has the libraries.
	Python string
	// Dir is the folder in which children run, so that they find modules of
	// the user. Empty means the current one.
	Dir string
	// Rules restricts the run to some rules; nil means all.
	Rules []string
	// Matrix adds the exchange of every target with every other.
	Matrix bool
	// NoRules leaves the checks out, for a run of the matrix alone.
	NoRules bool
	// Workers is the number of child processes at a time, 2 if 0.
	Workers int
	// NoPreload makes every child import its libraries itself. Otherwise
	// children are forked from a process that has imported those that are known
	// to stand that.
	NoPreload bool
	// Silence is how long a child may say nothing before it counts as hung,
	// 30 s if 0; five times as long if it is at work all the time.
	Silence time.Duration
	// Progress, if not nil, is called when a part of the work is done, from
	// one goroutine at a time.
	Progress func(done, total int, what string)
}

// Run runs the checks on targets of Python. The targets are names that
// handoff_conformance knows, modules, or "module:factory".
//
// A target that crashes is a result, not an error. The error wraps
// [ErrCannotRun] if nothing could be run, or is that of ctx.
func Run(ctx context.Context, targets []string, o Options) (*Report, error) {
	start := time.Now()
	r := &runner{Options: o, ctx: ctx, env: os.Environ()}
	if r.Workers == 0 {
		r.Workers = 2
	}
	if r.Silence == 0 {
		r.Silence = 30 * time.Second
	}
	dir, err := unpack()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := r.prepare(filepath.Join(dir, "py")); err != nil {
		return nil, err
	}
	r.temp = dir
	report := &Report{
		Suite: 1, Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Started: start.UTC().Format(time.RFC3339), Targets: make([]Target, len(targets)),
	}
	// Jobs with the same heaviest library are a group, so that it is imported
	// once for all of them.
	groups := map[string]*group{}
	add := func(job func(*server), targets ...string) {
		slices.SortStableFunc(targets, func(a, b string) int { return weight(b) - weight(a) })
		g := groups[targets[0]]
		if g == nil {
			g = &group{}
			groups[targets[0]] = g
			r.groups = append(r.groups, g)
		}
		g.jobs = append(g.jobs, func(s *server) {
			s.inside(targets...)
			job(s)
		})
	}
	for i, name := range targets {
		report.Targets[i] = Target{Name: name}
		if !o.NoRules {
			add(func(s *server) { r.target(s, &report.Targets[i]) }, name)
			r.total += len(r.checks)
		}
	}
	if o.Matrix {
		at := map[[2]string]int{}
		for _, p := range targets {
			for _, c := range targets {
				at[[2]string{p, c}] = len(report.Pairs)
				report.Pairs = append(report.Pairs, Pair{Producer: p, Consumer: c})
			}
		}
		for i, p := range targets {
			for j, c := range targets[:i+1] {
				pairs := []*Pair{&report.Pairs[at[[2]string{p, c}]]}
				if i != j {
					pairs = append(pairs, &report.Pairs[at[[2]string{c, p}]])
				}
				add(func(s *server) {
					for _, pair := range pairs {
						r.pair(s, pair)
					}
				}, p, c)
			}
		}
		r.total += len(report.Pairs)
	}
	slices.SortStableFunc(r.groups, func(a, b *group) int { return len(b.jobs) - len(a.jobs) })
	r.all()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	report.Python = r.version
	report.Seconds = time.Since(start).Seconds()
	return report, nil
}

// runner is the state of one run.
type runner struct {
	Options
	ctx    context.Context //nolint:containedctx // the run's own, for its children
	env    []string
	checks []listed // what the Python half has
	temp   string
	total  int

	mu      sync.Mutex
	done    int
	version string
	groups  []*group
	preload map[string]bool // what may be imported before a fork
}

// listed is a check that the Python half has.
type listed struct {
	Check string   `json:"check"`
	Side  string   `json:"side"`
	Rules []string `json:"rules"`
	Text  string   `json:"text"`
}

// Checks returns which rules the checks of the Python half look at, by name.
func Checks(ctx context.Context, python string) (map[string][]string, error) {
	dir, err := unpack()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	r := &runner{Options: Options{Python: python}, ctx: ctx, env: os.Environ()}
	if err := r.prepare(filepath.Join(dir, "py")); err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, c := range r.checks {
		out[c.Check] = c.Rules
	}
	return out, nil
}

// prepare compiles the C helper once for all children and lists the checks.
func (r *runner) prepare(lib string) error {
	path := lib
	if old := os.Getenv("PYTHONPATH"); old != "" {
		path += string(os.PathListSeparator) + old
	}
	r.env = append(r.env, "PYTHONPATH="+path, "PYTHONDONTWRITEBYTECODE=1")
	out, err := r.output("-m", "handoff_conformance.native")
	if err != nil {
		return err
	}
	r.env = append(r.env, "HANDOFF_CONFORMANCE_HELPER="+strings.TrimSpace(string(out)))
	out, err = r.output("-m", "handoff_conformance", "list")
	if err != nil {
		return err
	}
	r.preload = map[string]bool{}
	for _, t := range preloadable {
		r.preload[t] = !r.NoPreload
	}
	dec := json.NewDecoder(bytes.NewReader(out))
	for dec.More() {
		var c listed
		if err := dec.Decode(&c); err != nil {
			return fmt.Errorf("conformance: list of checks: %w", err)
		}
		r.checks = append(r.checks, c)
	}
	return nil
}

// output runs the interpreter and returns what it printed.
func (r *runner) output(args ...string) ([]byte, error) {
	cmd := exec.CommandContext(r.ctx, r.Python, args...)
	cmd.Env, cmd.Dir = r.env, r.Dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return nil, fmt.Errorf("conformance: %s: %w: %s (%w)", r.Python, err, lines[len(lines)-1], ErrCannotRun)
	}
	return out, nil
}

// group are jobs that begin with the same import.
type group struct {
	jobs []func(*server)
	busy int // workers that are at it
}

// next returns a job: of the group that the worker is at, else of one that no
// worker is at, else of the one with the most jobs left.
func (r *runner) next(at **group) func(*server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := *at
	if g == nil || len(g.jobs) == 0 {
		if g != nil {
			g.busy--
		}
		g = nil
		for _, x := range r.groups {
			if len(x.jobs) > 0 && (g == nil || x.busy < g.busy || x.busy == g.busy && len(x.jobs) > len(g.jobs)) {
				g = x
			}
		}
		*at = g
		if g == nil {
			return nil
		}
		g.busy++
	}
	job := g.jobs[0]
	g.jobs = g.jobs[1:]
	return job
}

// all runs the jobs on the workers.
func (r *runner) all() {
	var wg sync.WaitGroup
	for i := range r.Workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			s := r.serve(i)
			defer s.stop()
			var at *group
			for job := r.next(&at); job != nil && r.ctx.Err() == nil; job = r.next(&at) {
				job(s)
			}
		}()
	}
	wg.Wait()
}

// step reports progress.
func (r *runner) step(n int, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done += n
	if r.Progress != nil {
		r.Progress(min(r.done, r.total), r.total, what)
	}
}

// line is one message of a child.
type line struct {
	Missing string            `json:"missing"`
	Target  string            `json:"target"`
	Version string            `json:"version"`
	Python  string            `json:"python"`
	Why     map[string]string `json:"why"`
	Start   string            `json:"start"`
	Rules   []string          `json:"rules"`
	At      string            `json:"at"`
	Rule    string            `json:"rule"`
	Broke   string            `json:"broke"`
	What    string            `json:"what"`
	Done    *Check            `json:"done"`
	Cell    *Cell             `json:"cell"`
	End     bool              `json:"end"`

	hung bool
}

// end says how a child ended before it was through.
type end struct {
	hung   bool
	state  string
	stderr string
}

func (e *end) String() string {
	if e.hung {
		return "hung, and was ended"
	}
	s := "the process ended: " + e.state
	if e.stderr != "" {
		s += " (" + e.stderr + ")"
	}
	return s
}

// tail keeps the end of what is written.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if len(t.b) > 8192 {
		t.b = t.b[len(t.b)-8192:]
	}
	return len(p), nil
}

// reason returns the line that says most.
func (t *tail) reason() string {
	text := string(t.b)
	for _, mark := range []string{"Fatal Python error: ", "panic: ", "terminate called", "Lost: "} {
		if i := strings.LastIndex(text, mark); i >= 0 {
			return firstLine(text[i:])
		}
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

var _ io.Writer = (*tail)(nil)

// target runs the checks of one target, going on behind a check that ended the
// process.
func (r *runner) target(s *server, t *Target) {
	begin := time.Now()
	name := t.Name
	covered := map[string]bool{}
	side := map[string]listed{}
	for _, c := range r.checks {
		side[c.Check] = c
		for _, id := range c.Rules {
			covered[id] = true
		}
	}
	var why map[string]string
	seen := 0
	for after := ""; ; {
		var open, at, rule string
		var openRules []string
		var broke map[string]string // found before the end
		args := []string{"run", name, "--after", after}
		if r.Rules != nil {
			args = append(args, "--only", strings.Join(r.Rules, ","))
		}
		started := time.Now()
		e := s.run(func(l *line) {
			switch {
			case l.Missing != "":
				t.Missing = l.Missing
			case l.Target != "":
				t.Version, why = l.Version, l.Why
				r.mu.Lock()
				r.version = l.Python
				r.mu.Unlock()
			case l.Start != "":
				open, at, rule, openRules = l.Start, "", "", l.Rules
				broke = map[string]string{}
				started = time.Now()
			case l.At != "":
				at, rule = l.At, l.Rule
			case l.Broke != "":
				if was := broke[l.Broke]; was != "" {
					l.What = was + "; " + l.What
				}
				broke[l.Broke] = l.What
			case l.Done != nil:
				t.Checks = append(t.Checks, *l.Done)
				open = ""
				seen++
				r.step(1, name+" "+l.Done.Name)
			}
		}, args...)
		if e == nil || r.ctx.Err() != nil {
			break
		}
		if open == "" {
			if len(t.Checks) == 0 {
				t.Missing = e.String()
			}
			break
		}
		what := e.String()
		if at != "" {
			what = "[" + at + "] " + what
		}
		c := Check{Name: open, Side: side[open].Side, Text: side[open].Text, Rules: map[string]RuleStatus{}, Seconds: time.Since(started).Seconds()}
		if at != "" {
			c.Inputs = []string{at}
		}
		for _, id := range openRules {
			if r.Rules != nil && !slices.Contains(r.Rules, id) {
				continue
			}
			switch {
			case id == rule:
				c.Rules[id] = RuleStatus{Crashed, what}
			case broke[id] != "":
				c.Rules[id] = RuleStatus{Broken, broke[id]}
			case rule == "":
				c.Rules[id] = RuleStatus{Crashed, what}
			default:
				c.Rules[id] = RuleStatus{Skipped, "not decided: " + what}
			}
		}
		t.Checks = append(t.Checks, c)
		seen++
		r.step(1, name+" "+open)
		after = open
	}
	r.step(len(r.checks)-seen, name)
	t.Seconds = time.Since(begin).Seconds()
	if t.Missing == "" {
		t.merge(covered, r.Rules, why)
	}
}

// pair runs the cells of one pair of the matrix.
func (r *runner) pair(s *server, p *Pair) {
	at := ""
	for {
		var open *Cell
		e := s.run(func(l *line) {
			switch {
			case l.At != "":
				at = l.At + ": "
			case l.Missing != "":
				p.Cells = append(p.Cells, Cell{Status: "missing", What: l.Missing})
			case l.Start != "":
				open = l.Cell
			case l.Cell != nil:
				p.Cells = append(p.Cells, *l.Cell)
				open = nil
			}
		}, "cell", p.Producer, p.Consumer, "--after", strconv.Itoa(len(p.Cells)))
		if e == nil || open == nil || r.ctx.Err() != nil {
			if e != nil && len(p.Cells) == 0 {
				c := Cell{Protocol: "import", Case: "both in one process", Status: "crashed", What: at + e.String(), Rules: []string{}}
				if p.Producer != p.Consumer {
					c.Blame = "together"
				}
				p.Cells = append(p.Cells, c)
			}
			break
		}
		open.Status, open.What = "crashed", e.String()
		p.Cells = append(p.Cells, *open)
	}
	tried := map[string]int{}
	n := 0
	for i := range p.Cells {
		c := &p.Cells[i]
		switch {
		case c.Status != "crashed" && c.Status != "wrong" || c.Protocol == "import" || c.Blame != "":
		case n < mostBlamed:
			n++
			r.blame(s, p, c, i)
			tried[c.Blame]++
		case len(tried) == 1:
			for c.Blame = range tried { // whose all of those were
			}
		}
	}
	r.step(1, p.Producer+" > "+p.Consumer)
}

// mostBlamed is for how many failed exchanges of a pair the sides are tried: a
// pair that fails at everything would take three processes for each. The rest is
// put down to the same side if there was but one.
const mostBlamed = 6

// onDevice reports whether the arrays of a target are in the memory of a GPU.
func onDevice(target string) bool {
	return strings.HasSuffix(target, "@cuda") || target == "cupy" || target == "numba"
}

// blame tries each side of a failed exchange with the reference, which keeps the
// rules: whoever fails there too is the one.
func (r *runner) blame(s *server, p *Pair, c *Cell, i int) {
	fails := func(producer, consumer string) (failed, tried bool) {
		e := s.run(func(l *line) {
			if l.Cell != nil && l.Cell.Status != "" {
				tried = l.Cell.Status != "missing"
				failed = l.Cell.Status == "crashed" || l.Cell.Status == "wrong"
			}
		}, "cell", producer, consumer, "--cell", strconv.Itoa(i))
		return failed || e != nil, tried || e != nil
	}
	producer, ok1 := fails(p.Producer, "reference")
	consumer, ok2 := fails("reference", p.Consumer)
	// The reference has no memory of a GPU: who takes such memory, has none of
	// its own and fails, was not to take it (R035).
	consumer = consumer || onDevice(p.Producer) && !onDevice(p.Consumer)
	switch {
	case producer && consumer:
		c.Blame = "both"
	case producer:
		c.Blame = "producer"
	case consumer:
		c.Blame = "consumer"
	case ok1 && ok2:
		c.Blame = "together"
	case ok1:
		c.Blame = "consumer" // the reference has no such array, and the producer's is sound
	case ok2:
		c.Blame = "producer"
	}
}

// Coverage says how many of the rules the suite decides.
type Coverage struct {
	// Checked are rules with at least one check.
	Checked []string
	// Untestable are rules that nobody can decide from outside; see
	// [rules.Untestable].
	Untestable []string
	// Open are the rest.
	Open []string
}

// CoverageOf sorts the rules by whether one of the checks, or the Go half,
// looks at them.
func CoverageOf(checks map[string][]string) Coverage {
	covered := map[string]bool{}
	for _, ids := range checks {
		for _, id := range ids {
			covered[id] = true
		}
	}
	for _, id := range goRules() {
		covered[id] = true
	}
	var c Coverage
	for _, r := range rules.All() {
		switch {
		case covered[r.ID]:
			c.Checked = append(c.Checked, r.ID)
		case rules.Untestable(r.ID) != "":
			c.Untestable = append(c.Untestable, r.ID)
		default:
			c.Open = append(c.Open, r.ID)
		}
	}
	return c
}
