//go:build cgo && linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/memview"
	"github.com/go-handoff/handoff/stream"
)

func TestMain(m *testing.M) {
	if os.Getenv("HANDOFF_CMD_TEST_CHILD") == "traced" {
		os.Exit(tracedChild())
	}
	if err := soft.Enable(nil); err != nil { // the driver that doctor looks at, also where there is a GPU
		panic(err)
	}
	os.Exit(m.Run())
}

// tracedChild is a program that hands memory over twice: in order, and without an edge.
func tracedChild() int {
	d, err := device.Open(0)
	if err != nil {
		panic(err)
	}
	stream1, err1 := d.NewStream(nil)
	stream2, err2 := d.NewStream(nil)
	buf, err3 := d.Allocate(1<<16, stream1)
	out, err4 := d.Allocate(1<<16, stream2)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			panic(err)
		}
	}
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	for round := range 2 {
		check(buf.Fill32(uint32(round), stream1))
		order := stream.On(stream2.View())
		if round == 1 {
			order = stream.NoSync() // and yet it is used in another stream
		}
		v, err := memview.FromDesc(&dlpack.Desc{Data: uintptr(buf.Ptr()), Device: buf.DLDevice(), DType: dlpack.Int32, Shape: []int64{1 << 14}}, memview.Unowned())
		check(err)
		v, err = v.Ordered(stream1.View(), order)
		check(err)
		check(out.CopyFrom(buf, stream2))
		check(v.ReleaseOn(stream2.View()))
		check(stream1.Wait(stream2))
	}
	host := make([]byte, 1<<16)
	check(out.CopyToHost(context.Background(), host, stream2))
	check(buf.Close())
	check(out.Close())
	check(stream1.Synchronize(context.Background()))
	check(stream2.Synchronize(context.Background()))
	check(device.Flush(context.Background()))
	check(stream1.Close())
	check(stream2.Close())
	return 3
}

func TestTrace(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	t.Setenv("HANDOFF_CMD_TEST_CHILD", "traced")
	var stdout, stderr bytes.Buffer
	require.Equal(t, 3, run([]string{"trace", "-o", out, "--", os.Args[0]}, &stdout, &stderr), "the status of the program: %s", &stderr)
	require.Contains(t, stderr.String(), "1 races")

	page, err := os.ReadFile(out + ".html")
	require.NoError(t, err)
	require.NotContains(t, string(page), "src=", "it needs nothing else")
	require.NotContains(t, string(page), "ZgotmplZ")
	_, data, ok := strings.Cut(string(page), "const T = ")
	require.True(t, ok)
	data, _, _ = strings.Cut(data, ";\n")
	var tr trace
	require.NoError(t, json.Unmarshal([]byte(data), &tr))
	require.Len(t, tr.Races, 1)
	r := tr.Races[0]
	require.Equal(t, "memset", tr.Ops[r.A].What)
	require.Equal(t, "copy", tr.Ops[r.B].What)
	require.NotEqual(t, tr.Ops[r.A].Stream, tr.Ops[r.B].Stream)
	require.Contains(t, r.Fix, "wait")
	var hands []string
	for _, o := range tr.Ops {
		require.True(t, o.Ran, "%+v", o)
		require.LessOrEqual(t, o.Queued, o.End)
		require.LessOrEqual(t, o.Start, o.End)
		for _, a := range o.After {
			require.NotEqual(t, tr.Ops[a.From].Stream, o.Stream)
			if a.By != "" {
				hands = append(hands, a.By)
			}
		}
	}
	require.Contains(t, hands, "Ordered")
	require.Contains(t, hands, "ReleaseOn")
	require.NotEmpty(t, tr.Host, "the host waited for the copy")

	var chrome struct {
		Events []chromeEvent `json:"traceEvents"`
	}
	b, err := os.ReadFile(out + ".json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &chrome))
	count := make(map[string]int)
	for _, e := range chrome.Events {
		count[e.Phase]++
	}
	require.Equal(t, len(tr.Ops), count["X"])
	require.Equal(t, count["s"], count["f"])
	require.Equal(t, 1, count["i"])

	t.Run("picture", func(t *testing.T) { requirePicture(t, out+".html", &tr) })

	// The record can be drawn again.
	again := filepath.Join(dir, "again")
	require.Equal(t, 0, run([]string{"trace", "--from", out + ".jsonl", "-o", again}, &stdout, &stderr))
	require.FileExists(t, again+".html")
}

// requirePicture runs the page's script and looks at what it draws.
func requirePicture(t *testing.T, page string, tr *trace) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs node, to run the script of the page")
	}
	b, err := exec.Command(node, filepath.Join("testdata", "draw.js"), page).Output()
	require.NoError(t, err)
	var drawn struct {
		Order, Time, Quiet      []map[string]string
		Verdict, Counts, Detail string
	}
	require.NoError(t, json.Unmarshal(b, &drawn))
	require.Equal(t, "1 missing edge", drawn.Verdict)
	require.Contains(t, drawn.Counts, fmt.Sprintf("%d pieces of work", len(tr.Ops)))
	require.Contains(t, drawn.Detail, tr.Ops[0].What)
	for _, shapes := range [][]map[string]string{drawn.Order, drawn.Time, drawn.Quiet} {
		count := map[string]int{}
		for _, s := range shapes {
			for k, v := range s {
				require.NotContains(t, v, "NaN", "%s of %v", k, s)
				require.NotContains(t, v, "undefined", "%s of %v", k, s)
			}
			switch {
			case s["title"] == "missing synchronization":
				count["race"]++
				require.Equal(t, "#d4161c", s["stroke"], "races are red")
			case strings.HasPrefix(s["title"], "hand-over: "):
				count["hand-over"]++
			case s["title"] == "edge":
				count["edge"]++
			}
			if s["name"] == "text" && s["font-weight"] == "600" {
				count["lane"]++
			}
		}
		require.Equal(t, 1, count["race"])
		require.Positive(t, count["hand-over"])
		require.Equal(t, 3, count["lane"], "the host, and two streams")
	}
	rects := func(shapes []map[string]string) (n, bad int) {
		for _, s := range shapes {
			if s["name"] == "rect" && s["rx"] != "" {
				n++
				if s["stroke"] == "#d4161c" {
					bad++
				}
			}
		}
		return n, bad
	}
	n, bad := rects(drawn.Order)
	require.Equal(t, len(tr.Ops), n, "a box for each piece of work")
	require.Equal(t, 2, bad, "both sides of the race are red")
	quiet, _ := rects(drawn.Quiet)
	require.Less(t, quiet, n, "events can be left out")
}

func TestTraceOfNothing(t *testing.T) {
	var stdout, stderr bytes.Buffer
	out := filepath.Join(t.TempDir(), "out")
	require.Equal(t, 2, run([]string{"trace"}, &stdout, &stderr))
	require.Equal(t, 1, run([]string{"trace", "-o", out, "--", "/nowhere/program"}, &stdout, &stderr))
	require.Equal(t, 1, run([]string{"trace", "-o", out, "--", "true"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "did not use the software device")
	require.Equal(t, 1, run([]string{"trace", "--from", out + ".none"}, &stdout, &stderr))
	for name, bad := range map[string]string{"no stream": `{"k":"op","op":1,"stream":9}`, "no JSON": "{x}"} {
		require.NoError(t, os.WriteFile(out+name, []byte(bad+"\n"), 0o600))
		require.Equal(t, 1, run([]string{"trace", "--from", out + name, "-o", out}, &stdout, &stderr), name)
	}
	require.NoError(t, os.WriteFile(out+"cut", []byte(`{"k":"process","at":1}`+"\n"+`{"k":"str`), 0o600))
	require.Equal(t, 0, run([]string{"trace", "--from", out + "cut", "-o", out}, &stdout, &stderr), "a killed program's record ends anywhere")
}
