package conformance_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/conformance"
	"github.com/go-handoff/handoff/conformance/rules"
)

func interpreter(t *testing.T) string {
	t.Helper()
	python, err := filepath.Abs("../.venv/bin/python")
	require.NoError(t, err)
	if _, err := os.Stat(python); err != nil {
		t.Skip("no .venv: run make venv")
	}
	return python
}

// module writes a module for the interpreter to find, and returns its folder.
func module(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name+".py"), []byte(text), 0o600))
	return dir
}

func result(t *testing.T, r *conformance.Report, target int, rule string) conformance.Result {
	t.Helper()
	for _, res := range r.Targets[target].Rules {
		if res.Rule == rule {
			return res
		}
	}
	t.Fatalf("no result for %s: %+v", rule, r.Targets[target])
	return conformance.Result{}
}

// TestHung: a child that sleeps is ended, and so is one that works without end,
// which gets more time.
func TestHung(t *testing.T) {
	dir := module(t, "hangs", `
import time
def sleeps(): time.sleep(1000)
def works():
    while True: pass
`)
	begin := time.Now()
	r, err := conformance.Run(t.Context(), []string{"hangs:sleeps", "hangs:works"}, conformance.Options{
		Python: interpreter(t), Dir: dir, Rules: []string{"R154"}, Silence: time.Second,
	})
	require.NoError(t, err)
	for i := range r.Targets {
		res := result(t, r, i, "R154")
		require.Equal(t, conformance.Crashed, res.Status)
		require.Contains(t, res.What, "hung")
	}
	require.Less(t, time.Since(begin), time.Minute)
}

// TestCrash: a crash takes the rule at stake, keeps what was found before it,
// leaves open what comes behind it in the same check, and the run goes on.
func TestCrash(t *testing.T) {
	r, err := conformance.Run(t.Context(), []string{"reference:R047"}, conformance.Options{
		Python: interpreter(t), Rules: []string{"R033", "R034", "R045", "R047", "R039"},
	})
	require.NoError(t, err)
	require.True(t, result(t, r, 0, "R047").Status.Bad())
	require.Equal(t, conformance.Kept, result(t, r, 0, "R039").Status, "the checks behind it")
}

// TestBlame: the side that fails with the reference too is named.
func TestBlame(t *testing.T) {
	dir := module(t, "sides", `
import os
from handoff_conformance import targets

class Good(targets.NumPy):
    name = "good"
    def array(self, dtype="float32", shape=(2, 3), layout="C"):
        if (dtype, shape, layout) != ("float32", (2, 3), "C"): raise targets.Unsupported(dtype)
        return targets.numpy_array(dtype, shape, layout)

class BadGiver(targets.NumPy):
    name = "bad giver"
    class Array:
        def __init__(self, x): self.x = x
        def __dlpack_device__(self): return self.x.__dlpack_device__()
        def __dlpack__(self, **kw): os.abort()
    def array(self, dtype="float32", shape=(2, 3), layout="C"):
        if (dtype, shape, layout) != ("float32", (2, 3), "C"): raise targets.Unsupported(dtype)
        return self.Array(targets.numpy_array(dtype, shape, layout))
    def look(self, x): return super().look(x.x if isinstance(x, self.Array) else x)

class BadTaker(Good):
    name = "bad taker"
    def from_dlpack(self, x, **kw): os.abort()
`)
	r, err := conformance.Run(t.Context(), []string{"sides:Good", "sides:BadGiver", "sides:BadTaker"}, conformance.Options{
		Python: interpreter(t), Dir: dir, Matrix: true, NoRules: true,
	})
	require.NoError(t, err)
	found := map[string]string{}
	for _, p := range r.Pairs {
		for _, c := range p.Cells {
			if c.Status == "crashed" {
				found[strings.ReplaceAll(p.Producer+">"+p.Consumer, "sides:", "")] = c.Blame
			}
		}
	}
	require.Equal(t, map[string]string{
		"BadGiver>Good": "producer", "Good>BadTaker": "consumer", "BadGiver>BadGiver": "producer",
		"BadTaker>BadTaker": "consumer", "BadGiver>BadTaker": "both",
	}, found)
}

// TestForked: what a library does is the same in a child of a process that has
// imported it and in one that imports it itself.
func TestForked(t *testing.T) {
	python := interpreter(t)
	names := []string{"numpy", "pyarrow"}
	run := func(fresh bool) map[string]string {
		r, err := conformance.Run(t.Context(), names, conformance.Options{Python: python, Matrix: true, NoPreload: fresh})
		require.NoError(t, err)
		out := map[string]string{}
		for _, x := range r.Targets {
			require.Empty(t, x.Missing)
			for _, res := range x.Rules {
				out[x.Name+" "+res.Rule] = string(res.Status)
			}
		}
		for _, p := range r.Pairs {
			for _, c := range p.Cells {
				out[p.Producer+">"+p.Consumer+" "+c.Protocol+" "+c.Case] = c.Status
			}
		}
		return out
	}
	require.Equal(t, run(true), run(false))
}

// TestPageInBrowser: the page draws its tables in a browser, from data of every
// kind.
func TestPageInBrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium")
	}
	r := conformance.Report{
		Suite: 1, Python: "3.11", Platform: "linux/amd64", Started: "2026-01-01T00:00:00Z",
		Targets: []conformance.Target{{Name: "one", Version: "1"}, {Name: "two", Missing: "not </script> here"}},
		Pairs: []conformance.Pair{{Producer: "one", Consumer: "one", Cells: []conformance.Cell{
			{Protocol: "dlpack", Case: "float32", Status: "zero-copy"},
			{Protocol: "dlpack", Case: "bool", Status: "crashed", Blame: "consumer"},
		}}},
	}
	for _, rule := range rules.All() {
		r.Targets[0].Rules = append(r.Targets[0].Rules, conformance.Result{Rule: rule.ID, Status: conformance.Kept})
	}
	r.Targets[0].Rules[46] = conformance.Result{Rule: "R047", Status: conformance.Broken, What: "a <b>finding</b>"}
	file := filepath.Join(t.TempDir(), "page.html")
	w, err := os.Create(file)
	require.NoError(t, err)
	require.NoError(t, r.WriteHTML(w))
	require.NoError(t, w.Close())
	cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu",
		"--virtual-time-budget=2000", "--dump-dom", "file://"+file)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.Output()
	require.NoError(t, err)
	dom, _, _ := strings.Cut(string(out), `<script type="application/json"`)
	for _, want := range []string{"one to one: 1/2 without a copy 1 bad", "1 of 292 rules", "R047", "not &lt;/script&gt; here"} {
		require.Contains(t, dom, want)
	}
}
