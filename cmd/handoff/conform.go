package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/go-handoff/handoff/conformance"
	"github.com/go-handoff/handoff/conformance/rules"
)

// everything are the libraries that "all" stands for; those that are not
// installed are left out.
var everything = []string{
	"numpy", "ml_dtypes", "jax", "array-api-strict", "tvm-ffi", "pyarrow", "cuda.core", "handoff", "torch",
	"tensorflow", "paddle", "nanobind", "warp", "handoff@cuda", "torch@cuda", "cupy", "jax@cuda", "numba", "cuda.core@cuda",
	"warp@cuda",
}

// conformFlags are the flags of the command.
type conformFlags struct {
	python, json, junit, html, baseline string
	rules                               []string
	list, matrix, noMatrix, allowKnown  bool
	workers                             int
	silence                             time.Duration
	noPreload                           bool
}

// errBroken means that a library does not do what it must. The table has said
// what.
var errBroken = errors.New("rules are broken")

func newConform() *cobra.Command {
	var f conformFlags
	cmd := &cobra.Command{
		Use:   "conform [TARGET]...",
		Short: "Test libraries against the rules of the exchange protocols",
		Long: `Test Python libraries against the numbered rules of DLPack, the CUDA Array
Interface, NumPy's array interface, the buffer protocol and __cuda_stream__, and
against each other.

A target is a library (numpy, ml_dtypes, jax, array-api-strict, tvm-ffi, pyarrow,
cuda.core, handoff, torch, tensorflow, paddle, nanobind, warp), a library with its
arrays on a GPU (handoff@cuda, torch@cuda, jax@cuda, cuda.core@cuda, warp@cuda,
cupy, numba), "all" for those of them that can run here, a module with
from_dlpack, or "module:factory" for a function that returns an array. Several
targets are also tried with each other, which gives the matrix.

With HANDOFF_DRIVER=soft, handoff@cuda is on the software device.

Every check runs in a child process: a crash is a result. Children are forked
from a process that has imported the library, where it stands that. The
interpreter is that of --python, else of the active environment, else of .venv,
else python3.

Exit status:
  0  no MUST is broken; with --baseline: nothing is worse than there
  1  a MUST is broken, the process of a check or of an exchange crashed or
     hung, or an exchange gave other elements; with --baseline: something is
     worse than there
  2  the command line makes no sense
  3  the checks could not be run: no Python, no C compiler, a target missing`,
		Example: `  handoff conform numpy handoff
  handoff conform all --html report.html
  handoff conform mylib mylib:make_array --junit conform.xml --baseline last.json
  handoff conform numpy --rule R047`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.list {
				return listRules(cmd, &f)
			}
			return conform(cmd, args, &f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.python, "python", "", "interpreter that has the libraries")
	fl.StringVar(&f.json, "json", "", "write the report as JSON to `FILE` (- for standard output)")
	fl.StringVar(&f.junit, "junit", "", "write the report as JUnit XML to `FILE`")
	fl.StringVar(&f.html, "html", "", "write the report as one HTML page to `FILE`")
	fl.StringVar(&f.baseline, "baseline", "", "fail only on what is worse than in the JSON report `FILE`")
	fl.StringSliceVar(&f.rules, "rule", nil, "check only this `RULE`, such as R047; may be repeated")
	fl.BoolVar(&f.list, "list", false, "list the rules, and which of them are checked")
	fl.BoolVar(&f.matrix, "matrix-only", false, "only try the targets with each other")
	fl.BoolVar(&f.noMatrix, "no-matrix", false, "do not try the targets with each other")
	fl.BoolVar(&f.allowKnown, "allow-known", false, "do not fail on deviations that are known and documented")
	fl.IntVar(&f.workers, "workers", 2, "child processes at a time")
	fl.BoolVar(&f.noPreload, "no-preload", false, "import libraries in every child, not once before it is forked")
	fl.DurationVar(&f.silence, "silence", 0, "a child that says nothing for so long is hung (30s)")
	return cmd
}

// conformPython finds the interpreter for the checks.
func conformPython(name string) (string, error) {
	if name != "" {
		return findPython(name)
	}
	for _, dir := range []string{os.Getenv("VIRTUAL_ENV"), ".venv"} {
		if dir == "" {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, "bin", "python")); err == nil {
			return filepath.Abs(path)
		}
	}
	return findPython("")
}

func conform(cmd *cobra.Command, targets []string, f *conformFlags) error {
	if len(targets) == 0 {
		return usageError{errors.New("name a target, or all")}
	}
	for _, id := range f.rules {
		if rules.Get(id) == nil {
			return usageError{fmt.Errorf("%s is no rule: they are R001 to R292", id)}
		}
	}
	var baseline conformance.Report
	if f.baseline != "" {
		data, err := os.ReadFile(f.baseline)
		if err == nil {
			err = json.Unmarshal(data, &baseline)
		}
		if err != nil {
			return usageError{fmt.Errorf("baseline: %w", err)}
		}
	}
	var names []string
	named := map[string]bool{}
	for _, t := range targets {
		if t == "all" {
			names = append(names, everything...)
		} else {
			names = append(names, t)
			named[t] = true
		}
	}
	names = unique(names)
	python, err := conformPython(f.python)
	if err != nil {
		return exitError{3, err}
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
	defer stop()
	o := conformance.Options{
		Python: python, Rules: f.rules, Workers: f.workers, Silence: f.silence, NoPreload: f.noPreload, NoRules: f.matrix,
		Matrix: len(names) > 1 && !f.noMatrix && f.rules == nil || f.matrix,
	}
	if slices.Contains(targets, "all") {
		if names, err = installed(ctx, python, names, named); err != nil {
			return exitError{3, err}
		}
	}
	bar := newBar(cmd.ErrOrStderr())
	o.Progress = bar.step
	report, err := conformance.Run(ctx, names, o)
	bar.stop()
	if err != nil {
		return exitError{3, err}
	}
	if err := writeReports(cmd.OutOrStdout(), report, f); err != nil {
		return err
	}
	if f.json != "-" {
		conformTable(cmd.OutOrStdout(), report)
	}
	for _, t := range report.Targets {
		if t.Missing != "" {
			return exitError{3, errors.New(t.Missing)}
		}
	}
	if f.baseline != "" {
		if worse := report.Worse(&baseline); len(worse) > 0 {
			return fmt.Errorf("worse than %s:\n  %s", f.baseline, strings.Join(worse, "\n  "))
		}
		return nil
	}
	return verdict(report, f.allowKnown)
}

// verdict returns errBroken if the run has to fail.
func verdict(r *conformance.Report, allowKnown bool) error {
	for _, t := range r.Targets {
		for _, res := range t.Bad() {
			if (res.Strength() == rules.Must || res.Status == conformance.Crashed) && (res.Known == "" || !allowKnown) {
				return errBroken
			}
		}
	}
	for _, p := range r.Pairs {
		if n := p.Counts(); n["crashed"]+n["wrong"]+n["error"] > 0 {
			return errBroken
		}
	}
	return nil
}

// unique leaves out what was named before.
func unique(names []string) []string {
	var out []string
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// installed leaves out what the interpreter does not have, and what needs a GPU
// where there is none, unless it was named.
func installed(ctx context.Context, python string, names []string, named map[string]bool) ([]string, error) {
	modules := map[string]string{"array-api-strict": "array_api_strict", "tvm-ffi": "tvm_ffi"}
	var code strings.Builder
	code.WriteString(`import ctypes, importlib.util, os
def have(m):
 try: return importlib.util.find_spec(m) is not None
 except ModuleNotFoundError: return False
def gpu():
 try:
  d, n = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
  return d.cuInit(0) == 0 and d.cuDeviceGetCount(ctypes.byref(n)) == 0 and n.value > 0
 except OSError: return False
gpu = gpu()
`)
	for _, n := range names {
		m, where, _ := strings.Cut(n, "@")
		if other, ok := modules[m]; ok {
			m = other
		}
		m, _, _ = strings.Cut(m, ":")
		need := "True"
		switch {
		case named[n]:
		case n == "handoff@cuda":
			need = `(gpu or os.environ.get("HANDOFF_DRIVER") == "soft")`
		case where != "" || n == "cupy" || n == "numba":
			need = "gpu"
		}
		fmt.Fprintf(&code, "print(int(%s or have(%q) and %s))\n", map[bool]string{true: "True", false: "False"}[named[n]], m, need)
	}
	out, err := runPython(ctx, python, code.String())
	if err != nil {
		return nil, err
	}
	var have []string
	for i, yes := range strings.Fields(string(out)) {
		if yes == "1" && i < len(names) {
			have = append(have, names[i])
		}
	}
	return have, nil
}

// writeReports writes the files that were asked for.
func writeReports(stdout io.Writer, r *conformance.Report, f *conformFlags) error {
	for _, out := range []struct {
		path  string
		write func(io.Writer) error
	}{
		{f.json, func(w io.Writer) error { return writeJSON(w, r) }},
		{f.junit, r.WriteJUnit},
		{f.html, r.WriteHTML},
	} {
		if out.path == "" {
			continue
		}
		if out.path == "-" {
			if err := out.write(stdout); err != nil {
				return err
			}
			continue
		}
		file, err := os.Create(out.path)
		if err != nil {
			return err
		}
		if err := errors.Join(out.write(file), file.Close()); err != nil {
			return fmt.Errorf("%s: %w", out.path, err)
		}
	}
	return nil
}

// bar shows the progress on a terminal, and nothing elsewhere.
type bar struct {
	w       progress.Writer
	tracker *progress.Tracker
	done    chan struct{}
}

func newBar(w io.Writer) *bar {
	file, ok := w.(*os.File)
	if !ok {
		return &bar{}
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return &bar{}
	}
	b := &bar{w: progress.NewWriter(), tracker: &progress.Tracker{Message: "checks"}, done: make(chan struct{})}
	b.w.SetOutputWriter(w)
	b.w.SetTrackerLength(30)
	b.w.SetMessageLength(44)
	b.w.SetUpdateFrequency(100 * time.Millisecond)
	b.w.SetStyle(progress.StyleBlocks)
	b.w.AppendTracker(b.tracker)
	go func() {
		defer close(b.done)
		b.w.Render()
	}()
	return b
}

func (b *bar) step(done, total int, what string) {
	if b.w == nil {
		return
	}
	b.tracker.UpdateTotal(int64(total))
	b.tracker.UpdateMessage(what)
	b.tracker.SetValue(int64(done))
}

func (b *bar) stop() {
	if b.w == nil {
		return
	}
	b.tracker.UpdateMessage("done")
	b.tracker.MarkAsDone()
	b.w.Stop()
	<-b.done
}

// conformTable prints what was found.
func conformTable(w io.Writer, r *conformance.Report) {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"target", "version", "kept", "MUST broken", "SHOULD broken", "other broken", "crashed", "skipped", "untestable", "no check", "s"})
	tested := false
	for i := range r.Targets {
		x := &r.Targets[i]
		if x.Missing != "" {
			t.AppendRow(table.Row{x.Name, "missing: " + x.Missing})
			continue
		}
		if len(x.Rules) == 0 {
			continue
		}
		tested = true
		bad := []conformance.Status{conformance.Broken, conformance.Failed, conformance.Crashed}
		must, should := x.Count(rules.Must, bad...), x.Count(rules.Should, bad...)
		t.AppendRow(table.Row{
			x.Name, x.Version, x.Count("", conformance.Kept), must, should, x.Count("", bad...) - must - should,
			x.Count("", conformance.Crashed), x.Count("", conformance.Skipped), x.Count("", conformance.Untestable),
			x.Count("", conformance.Unchecked), fmt.Sprintf("%.1f", x.Seconds),
		})
	}
	if t.Length() > 0 {
		fmt.Fprintln(w, t.Render())
	}
	if tested {
		brokenTable(w, r)
	}
	if len(r.Pairs) > 0 {
		matrixTable(w, r)
	}
}

// brokenTable lists what is not kept.
func brokenTable(w io.Writer, r *conformance.Report) {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"target", "rule", "", "what the rule says, what the target does"})
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 4, WidthMax: 96, WidthMaxEnforcer: text.WrapSoft}})
	for _, x := range r.Targets {
		for _, res := range x.Bad() {
			rule := rules.Get(res.Rule)
			what := rule.Text() + "\n  " + string(res.Status) + ": " + res.What
			switch {
			case res.Reason != "":
				what += "\n  reason: " + res.Reason
			case res.Known != "":
				what += "\n  known: " + res.Known
			}
			t.AppendRow(table.Row{x.Name, res.Rule, string(rule.Strength), what})
			t.AppendSeparator()
		}
	}
	if t.Length() == 0 {
		fmt.Fprintln(w, "No rule is broken.")
		return
	}
	fmt.Fprintln(w, t.Render())
}

// matrixTable prints how many cells of each pair are exchanged without a copy.
func matrixTable(w io.Writer, r *conformance.Report) {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	var consumers []string
	rows := map[string]map[string]string{}
	var order []string
	for _, p := range r.Pairs {
		if rows[p.Producer] == nil {
			rows[p.Producer] = map[string]string{}
			order = append(order, p.Producer)
		}
		if p.Producer == r.Pairs[0].Producer {
			consumers = append(consumers, p.Consumer)
		}
		n := p.Counts()
		total := len(p.Cells) - n["missing"]
		cell := fmt.Sprintf("%d/%d", n["zero-copy"], total)
		if total == 0 {
			cell = "-"
		}
		for _, s := range []string{"copied", "wrong", "crashed", "error"} {
			if n[s] > 0 {
				cell += fmt.Sprintf(" %d %s", n[s], s)
			}
		}
		rows[p.Producer][p.Consumer] = cell
	}
	head := table.Row{"zero-copy: producer \\ consumer"}
	for _, c := range consumers {
		head = append(head, c)
	}
	t.AppendHeader(head)
	for _, p := range order {
		row := table.Row{p}
		for _, c := range consumers {
			row = append(row, rows[p][c])
		}
		t.AppendRow(row)
	}
	fmt.Fprintln(w, t.Render())
}

// listRules prints the rules and who looks at them.
func listRules(cmd *cobra.Command, f *conformFlags) error {
	python, err := conformPython(f.python)
	if err != nil {
		return exitError{3, err}
	}
	checks, err := conformance.Checks(cmd.Context(), python)
	if err != nil {
		return exitError{3, err}
	}
	c := conformance.CoverageOf(checks)
	by := map[string]int{}
	for _, ids := range checks {
		for _, id := range ids {
			by[id]++
		}
	}
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"rule", "protocol", "role", "", "statement", "checks"})
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 5, WidthMax: 90, WidthMaxEnforcer: text.WrapSoft}})
	for _, r := range rules.All() {
		how := fmt.Sprint(by[r.ID])
		switch {
		case by[r.ID] == 0 && conformance.InGo(r.ID):
			how = "Go"
		case by[r.ID] == 0 && rules.Untestable(r.ID) != "":
			how = "untestable"
		case by[r.ID] == 0:
			how = "-"
		}
		t.AppendRow(table.Row{r.ID, r.Protocol, r.Role, r.Strength, r.Text(), how})
	}
	fmt.Fprintln(cmd.OutOrStdout(), t.Render())
	fmt.Fprintf(cmd.OutOrStdout(), "%d rules: %d checked, %d untestable, %d without a check\n",
		len(rules.All()), len(c.Checked), len(c.Untestable), len(c.Open))
	return nil
}
