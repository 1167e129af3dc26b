//go:build cgo && linux

package soft_test

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/device/soft/internal/probe"
)

// child is what the test binary does as a child of one of its tests.
func child(mode string) int {
	switch mode {
	case "probe":
		_ = soft.RegisterKernel("nop", nil, func(*soft.Launch) {})
		_ = soft.RegisterKernel("args", []soft.ParamInfo{soft.Ptr, soft.Int32}, func(*soft.Launch) {})
		table, err := soft.Open()
		if err != nil {
			fmt.Println(err)
			return 2
		}
		probe.Run(table)
		return 0
	case "forked":
		d, err := driver.Open(&driver.Options{Provider: driver.ProviderSoft})
		if err != nil {
			return 2
		}
		probe.SetForked()
		_, res := d.DeviceGetCount()
		fmt.Println(int(res))
		return 0
	case "read", "write":
		d, err := driver.Open(&driver.Options{Provider: driver.ProviderSoft})
		if err != nil {
			return 2
		}
		c, _ := d.DevicePrimaryCtxRetain(0)
		p, res := d.MemAlloc(c, 4096)
		if res != driver.Success {
			return 2
		}
		fmt.Println("touching")
		touch(uintptr(p), mode == "write")
		fmt.Println("survived")
		return 0
	}
	return 2
}

// run starts the test binary as a child.
func run(t *testing.T, mode string, env ...string) (out string, err error) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), append(env, "HANDOFF_SOFT_TEST_CHILD="+mode)...)
	b, err := c.CombinedOutput()
	return string(b), err
}

// The answers of the software device are those of a real driver, situation by situation.
func TestAnswersOfARealDriver(t *testing.T) {
	want, err := os.ReadFile("testdata/probe-h200-580.159.04.txt")
	require.NoError(t, err)
	got, err := run(t, "probe")
	require.NoError(t, err, got)
	g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	require.Greater(t, len(w), 800)
	section := ""
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if strings.HasPrefix(b, "#") {
			section = b
		}
		if a != b {
			t.Fatalf("line %d, in %q: the software device says %q, the driver said %q", i+1, section, a, b)
		}
	}
}

// Device memory has no access rights at its public address: a host access ends the process, as
// on a GPU.
func TestHostAccessFaults(t *testing.T) {
	for _, mode := range []string{"read", "write"} {
		t.Run(mode, func(t *testing.T) {
			out, err := run(t, mode)
			require.Error(t, err)
			require.Contains(t, out, "touching")
			require.NotContains(t, out, "survived")
			require.Contains(t, out, "fault")
		})
	}
}

// A program that links the software device has none of the driver's names: it would hide
// the real driver from what it loads (B371: nor does it need them).
func TestNoDriverNames(t *testing.T) {
	f, err := elf.Open(os.Args[0])
	require.NoError(t, err)
	defer f.Close()
	all, _ := f.Symbols()
	dyn, _ := f.DynamicSymbols()
	all = append(all, dyn...)
	require.NotEmpty(t, all)
	ours := 0
	for _, s := range all {
		if strings.HasPrefix(s.Name, "ho_soft_cu") {
			ours++
		}
		if len(s.Name) > 2 && strings.HasPrefix(s.Name, "cu") && s.Name[2] >= 'A' && s.Name[2] <= 'Z' {
			t.Errorf("symbol %s", s.Name)
		}
	}
	require.Greater(t, ours, 200)
}

// In a forked child every call is refused at once: the guard in front of Go says so.
func TestForkGuard(t *testing.T) {
	out, err := run(t, "forked")
	require.NoError(t, err, out)
	require.Equal(t, "3\n", out)
}
