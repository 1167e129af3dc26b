package conformance

import (
	"bufio"
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
	// Silence is how long a child may say nothing before it counts as hung,
	// 30 s if 0.
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
	report := &Report{
		Suite: 1, Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Started: start.UTC().Format(time.RFC3339), Targets: make([]Target, len(targets)),
	}
	var jobs []func()
	for i, name := range targets {
		report.Targets[i] = Target{Name: name}
		if !o.NoRules {
			jobs = append(jobs, func() { r.target(&report.Targets[i]) })
		}
	}
	if o.Matrix {
		report.Pairs = make([]Pair, 0, len(targets)*len(targets))
		for _, p := range targets {
			for _, c := range targets {
				report.Pairs = append(report.Pairs, Pair{Producer: p, Consumer: c})
				pair := &report.Pairs[len(report.Pairs)-1]
				jobs = append(jobs, func() { r.pair(pair) })
			}
		}
	}
	r.total = len(jobs) * len(r.checks)
	if !o.NoRules {
		r.total = len(targets) * len(r.checks)
	} else {
		r.total = 0
	}
	if o.Matrix {
		r.total += len(targets) * len(targets)
	}
	r.all(jobs)
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
	total  int

	mu      sync.Mutex
	done    int
	version string
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

// all runs jobs on the workers.
func (r *runner) all(jobs []func()) {
	queue := make(chan func())
	var wg sync.WaitGroup
	for range r.Workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for job := range queue {
				if r.ctx.Err() == nil {
					job()
				}
			}
		}()
	}
	for _, job := range jobs {
		queue <- job
	}
	close(queue)
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
	Done    *Check            `json:"done"`
	Cell    *Cell             `json:"cell"`
	End     bool              `json:"end"`
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

// child runs the Python half and hands its messages to f. It returns nil if the
// child came to its end.
func (r *runner) child(f func(*line), args ...string) *end {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.Python, append([]string{"-m", "handoff_conformance"}, args...)...)
	cmd.Env, cmd.Dir = r.env, r.Dir
	var stderr tail
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return &end{state: err.Error()}
	}
	hung := false
	var mu sync.Mutex
	watch := time.AfterFunc(r.Silence, func() {
		mu.Lock()
		hung = true
		mu.Unlock()
		cancel()
	})
	through := false
	for in := bufio.NewReaderSize(stdout, 1<<16); ; {
		text, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		watch.Reset(r.Silence)
		var l line
		if json.Unmarshal(text, &l) == nil {
			through = through || l.End || l.Missing != ""
			f(&l)
		}
	}
	watch.Stop()
	err = cmd.Wait()
	mu.Lock()
	defer mu.Unlock()
	if through {
		return nil
	}
	state := "without a word"
	if err != nil {
		state = err.Error()
	}
	return &end{hung: hung, state: state, stderr: stderr.reason()}
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
	for _, mark := range []string{"Fatal Python error: ", "panic: ", "terminate called"} {
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
func (r *runner) target(t *Target) {
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
		args := []string{"run", name, "--after", after}
		if r.Rules != nil {
			args = append(args, "--only", strings.Join(r.Rules, ","))
		}
		started := time.Now()
		e := r.child(func(l *line) {
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
				started = time.Now()
			case l.At != "":
				at, rule = l.At, l.Rule
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
			if r.Rules != nil && !contains(r.Rules, id) {
				continue
			}
			if rule == "" || id == rule {
				c.Rules[id] = RuleStatus{Crashed, what}
			} else {
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

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// pair runs the cells of one pair of the matrix.
func (r *runner) pair(p *Pair) {
	for {
		var open *Cell
		e := r.child(func(l *line) {
			switch {
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
				p.Cells = append(p.Cells, Cell{Status: "error", What: e.String()})
			}
			break
		}
		open.Status, open.What = "crashed", e.String()
		p.Cells = append(p.Cells, *open)
	}
	r.step(1, p.Producer+" > "+p.Consumer)
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
