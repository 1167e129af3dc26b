package nvtx_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/launch/nvtx"
)

func TestMain(m *testing.M) {
	if os.Getenv("NVTX_TEST_CHILD") != "" {
		annotate()
		return
	}
	os.Exit(m.Run())
}

// annotate uses everything, in a process that may have a profiler.
func annotate() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if p := nvtx.Problem(); p != "" {
		fmt.Println("problem:", p)
	}
	own := nvtx.NewDomain("own")
	for _, d := range []nvtx.Domain{{}, own} {
		d.NameCategory(3, "three")
		d.Mark("a mark", nil)
		r := d.Start("a range", &nvtx.Attributes{Color: 0xff00ff00, Category: 3, Payload: nvtx.Int64(-5)})
		depth := d.Push("outer", &nvtx.Attributes{Payload: nvtx.Uint64(1 << 63)})
		d.Push("inner\x00cut", &nvtx.Attributes{Payload: nvtx.Float64(1.5)})
		d.Pop()
		last := d.Pop()
		r.End()
		fmt.Println("depth", depth, last)
	}
	nvtx.Mark("plain", nil)
	nvtx.Start("plain range", nil).End()
	nvtx.Range{}.End()
}

// child runs annotate in a process with a profiler of that path.
func child(t *testing.T, tool string, env ...string) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), "NVTX_TEST_CHILD=1", "NVTX_INJECTION64_PATH="+tool), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

func buildTool(t *testing.T) string {
	t.Helper()
	if !enabledBuild {
		t.Skip("needs a build that can open libraries")
	}
	lib := filepath.Join(t.TempDir(), "libtool.so")
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	out, err := exec.Command(cc, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-o", lib, "testdata/tool.c").CombinedOutput()
	require.NoError(t, err, string(out))
	return lib
}

func TestTool(t *testing.T) {
	got := child(t, buildTool(t))
	want := ""
	id := 0
	for _, d := range []string{"-", "<own>"} {
		id++
		want += fmt.Sprintf(`category %[1]s 3 three
mark %[1]s v3/48 1:0 color 0:00000000 category 0 payload 0: a mark
start %[1]s v3/48 1:0 color 1:ff00ff00 category 3 payload 2:-5 a range
push %[1]s v3/48 1:0 color 0:00000000 category 0 payload 1:9223372036854775808 outer
push %[1]s v3/48 1:0 color 0:00000000 category 0 payload 3:1.5 inner
pop %[1]s
pop %[1]s
end %[1]s %[2]d
depth 0 0
`, d, id)
	}
	want += "mark - v3/48 1:0 color 0:00000000 category 0 payload 0: plain\nstart - v3/48 1:0 color 0:00000000 category 0 payload 0: plain range\nend - 3\n"
	require.Equal(t, want, got)
}

func TestToolThatCannot(t *testing.T) {
	tool := buildTool(t)
	require.Equal(t, "problem: the tool refused\ndepth -1 -1\ndepth -1 -1\n", child(t, tool, "TOOL_REFUSES=1"))
	plain := child(t, tool, "TOOL_PLAIN=1")
	require.NotContains(t, plain, "own", "a tool without domains gets the default one")
	require.Contains(t, plain, "mark - ")
	got := child(t, filepath.Join(t.TempDir(), "none.so"))
	require.Contains(t, got, "problem: ")
	require.Contains(t, got, "none.so")
	other := filepath.Join(t.TempDir(), "other.so")
	cmd := exec.Command("cc", "-shared", "-fPIC", "-o", other, "-x", "c", "-")
	cmd.Stdin = strings.NewReader("int unused;\n")
	require.NoError(t, cmd.Run())
	require.Contains(t, child(t, other), "problem: no InitializeInjectionNvtx2 in it\n")
}

func TestNobodyListens(t *testing.T) {
	require.False(t, nvtx.Enabled())
	require.Empty(t, nvtx.Problem())
	require.Equal(t, "depth -1 -1\ndepth -1 -1\n", child(t, ""))
	d := nvtx.NewDomain("x")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		r := d.Start("range", &nvtx.Attributes{Color: 1})
		d.Mark("mark", nil)
		r.End()
	}))
}

func BenchmarkNobodyListens(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		nvtx.Start("range", nil).End()
	}
}

func Example() {
	defer nvtx.Start("load batch", nil).End()
	fmt.Println(nvtx.Enabled()) // no profiler started this program
	// Output: false
}
