//go:build cgo && linux && (amd64 || arm64)

package edges

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/internal/testdriver"
)

// sparePython are edges of Python's scenarios that can be left out without harm, with the reason.
var sparePython = map[string]string{
	"memview.(*ring).end ← memview.(*transfer).unstage ← memview.(*transfer).local": "for host memory that the device knows: caught with pinned memory",
}

// exemptC are functions of python/*.c that make an edge and that no scenario goes through, with the reason.
var exemptC = map[string]string{
	"measured": "times questions and edges of streams on which nothing is pending; not on the software device",
	"settles":  "of measured",
}

// pythonRun is what scenarios.py says of one scenario.
type pythonRun struct {
	Name  string
	Edges []struct {
		API    string
		C, Go  []string
		Caught []string
	}
	Races []string
}

// TestEveryEdgeOfPythonIsNeeded leaves the edges out that the C code of the Python module makes, or Go
// on its behalf, one at a time.
func TestEveryEdgeOfPythonIsNeeded(t *testing.T) {
	switch {
	case testdriver.Real():
		t.Skip("the hunt is the software device's")
	case testing.Short():
		t.Skip("builds a Python module")
	}
	python := must(filepath.Abs("../../.venv/bin/python"))
	if _, err := os.Stat(python); err != nil {
		t.Skip("no .venv: run make venv")
	}
	library := build(t)
	names := symbols(t, library)
	ours := definitions(t)

	var errs bytes.Buffer
	cmd := exec.Command(python, "-X", "faulthandler", must(filepath.Abs("scenarios.py")))
	cmd.Env = append(os.Environ(), "HANDOFF_DRIVER=soft", "HANDOFF_SOFT_DEVICES=2", "HANDOFF_CHECK=", "PYTHONPATH="+filepath.Dir(library))
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, "%s%s", out, &errs)

	reachedC := map[string]bool{}
	var table []string
	scenarios, edges, caught := 0, 0, 0
	for line := bufio.NewScanner(bytes.NewReader(out)); line.Scan(); {
		var run pythonRun
		require.NoError(t, json.Unmarshal(line.Bytes(), &run), "%s", line.Bytes())
		scenarios++
		require.Empty(t, run.Races, "%s, with all edges", run.Name)
		require.NotEmpty(t, run.Edges, "%s: a scenario without an edge", run.Name)
		for _, e := range run.Edges {
			var c []string
			for _, at := range e.C {
				file, offset, _ := strings.Cut(at, ":")
				if f := names.at(must(strconv.ParseUint(offset, 0, 64))); filepath.Base(file) == filepath.Base(library) && ours[f] {
					reachedC[f] = true
					c = append(c, f)
				}
			}
			where := strings.Join(c[:min(len(c), 3)], " ← ")
			if len(e.Go) > 0 {
				var g soft.Edge
				for _, f := range e.Go {
					g.Site = append(g.Site, soft.RaceFrame{Func: f})
				}
				where = place(g)
			}
			edges++
			how := "**not caught**"
			switch reason := sparePython[where]; {
			case len(e.Caught) > 0:
				caught++
				how = short(e.Caught[0])
			case reason != "":
				how = "spare: " + reason
			default:
				t.Errorf("%s: nobody missed the edge %s of %s", run.Name, e.API, where)
			}
			table = append(table, fmt.Sprintf("| %s | %s | `%s` | %s |", run.Name, where, e.API, how))
		}
	}
	t.Logf("%d scenarios, %d edges, %d caught", scenarios, edges, caught)
	everyPlaceC(t, reachedC)
	if !t.Failed() {
		compare(t, 1, fmt.Sprintf(headPython, scenarios, edges, caught)+strings.Join(table, "\n")+"\n")
	}
}

const headPython = `
The same for what Python calls: %d scenarios, %d edges, %d of them caught. A question of the stream ("is it done?") that is left
out is answered with yes. Every function in ` + "`python/*.c`" + ` that makes an edge or asks is gone through.

| scenario | edge, made by | driver call | caught by |
|---|---|---|---|
`

// build makes the test module of package ext, with handoff in it, so that every C function has a frame and a name.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	library := filepath.Join(dir, "testmod.abi3.so")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-o", library, "./python/ext/internal/testmod")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "GOEXPERIMENT=", "CGO_CFLAGS=-g -O1 -fno-inline -fno-optimize-sibling-calls")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "handoff"), 0o755))
	for _, f := range must(filepath.Glob("../../python/handoff/*.py")) {
		require.NoError(t, os.Symlink(must(filepath.Abs(f)), filepath.Join(dir, "handoff", filepath.Base(f))))
	}
	return library
}

// symbolTable is the functions of a library by address.
type symbolTable []elf.Symbol

func symbols(t *testing.T, library string) symbolTable {
	t.Helper()
	f, err := elf.Open(library)
	require.NoError(t, err)
	defer f.Close()
	all, err := f.Symbols()
	require.NoError(t, err)
	var r symbolTable
	for _, s := range all {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Size > 0 {
			r = append(r, s)
		}
	}
	sort.Slice(r, func(i, j int) bool { return r[i].Value < r[j].Value })
	return r
}

func (s symbolTable) at(offset uint64) string {
	i := sort.Search(len(s), func(i int) bool { return s[i].Value > offset }) - 1
	if i < 0 || offset >= s[i].Value+s[i].Size {
		return ""
	}
	return s[i].Name
}

var (
	// definition is the first line of a C function.
	definition = regexp.MustCompile(`^[a-z][\w \t*]*?(\w+)\([^;]*$`)
	// makersC are calls that make an edge, or ask whether one is needed.
	makersC = regexp.MustCompile(`\b(ho_stream_order|ho_order|ho_stream_poll|ho_stream_quiet|(?:ho_call_)?cu(?:StreamWaitEvent|StreamSynchronize|EventSynchronize|CtxSynchronize|StreamQuery|EventQuery))\(`)
)

// eachFunction goes through the functions of the module's C code, line by line.
func eachFunction(t *testing.T, f func(function, line string)) {
	t.Helper()
	files := must(filepath.Glob("../../python/*.c"))
	require.NotEmpty(t, files)
	for _, file := range files {
		function := ""
		for line := range strings.Lines(string(must(os.ReadFile(file)))) {
			line = strings.TrimRight(line, "\n")
			if m := definition.FindStringSubmatch(line); m != nil {
				function = m[1]
				line = ""
			}
			f(function, line)
		}
	}
}

func definitions(t *testing.T) map[string]bool {
	t.Helper()
	r := map[string]bool{}
	eachFunction(t, func(function, _ string) { r[function] = true })
	return r
}

// everyPlaceC looks for calls that make an edge: a scenario has to go through every function that has one.
func everyPlaceC(t *testing.T, reached map[string]bool) {
	t.Helper()
	places := 0
	eachFunction(t, func(function, line string) {
		m := makersC.FindStringSubmatch(line)
		if m == nil {
			return
		}
		places++
		switch {
		case !reached[function] && exemptC[function] == "":
			t.Errorf("%s calls %s, and no scenario goes through it", function, m[1])
		case reached[function] && exemptC[function] != "":
			t.Errorf("%s is exempt, and a scenario goes through it", function)
		}
	})
	require.Greater(t, places, 10)
}
