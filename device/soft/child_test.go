//go:build cgo && linux

package soft_test

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
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
	case "order":
		return orderChild()
	case "options":
		return childOptions()
	case "environment":
		d, err := driver.Default() // by HANDOFF_DRIVER
		if err != nil {
			fmt.Println(err)
			return 2
		}
		n, _ := d.DeviceGetCount()
		mem, _ := d.DeviceTotalMem(0)
		peer, _ := d.DeviceCanAccessPeer(0, 1)
		fmt.Println(d.Provider(), n, mem, peer, d.Version())
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

// childOptions enables the software device with options, one of them a fault.
func childOptions() int {
	var mu sync.Mutex
	calls := map[string]int{}
	err := soft.Enable(&soft.Options{Devices: 3, Memory: 32 << 20, NoPeers: true, Fault: func(api string) int32 {
		mu.Lock()
		defer mu.Unlock()
		if calls[api]++; api == "cuMemAlloc" && calls[api] == 2 {
			return int32(driver.ErrorOutOfMemory)
		}
		return 0
	}})
	if err != nil {
		fmt.Println(err)
		return 2
	}
	d, err := driver.Default()
	if err != nil {
		fmt.Println(err)
		return 2
	}
	n, _ := d.DeviceGetCount()
	c, _ := d.DevicePrimaryCtxRetain(2)
	p, first := d.MemAlloc(c, 64)
	_, second := d.MemAlloc(c, 64)
	q, third := d.MemAlloc(c, 64)
	fmt.Println(n, int(first), int(second), int(third), soft.LiveObjects().Allocations)
	d.MemFree(c, p)
	d.MemFree(c, q)
	d.DevicePrimaryCtxRelease(2)
	fmt.Println(soft.LiveObjects() == soft.Live{})
	fmt.Println(errors.Is(soft.Enable(&soft.Options{}), soft.ErrInUse), soft.Enable(nil))
	return 0
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

func TestOptions(t *testing.T) {
	out, err := run(t, "options")
	require.NoError(t, err, out)
	require.Equal(t, "3 0 2 0 2\ntrue\ntrue <nil>\n", out)
}

func TestEnvironment(t *testing.T) {
	out, err := run(t, "environment", "HANDOFF_DRIVER=soft", "HANDOFF_SOFT_DEVICES=5", "HANDOFF_SOFT_MEMORY=0x4000000",
		"HANDOFF_SOFT_PEERS=0", "HANDOFF_SOFT_VERSION=12080")
	require.NoError(t, err, out)
	require.Equal(t, "soft 5 67108864 0 12080\n", out)
	for name, bad := range map[string][]string{
		"HANDOFF_SOFT_SEED":    {"abc", "-1", "1.5", "0x1g", " 5", "99999999999999999999"},
		"HANDOFF_SOFT_DEVICES": {"0", "17", "many", "-2"},
		"HANDOFF_SOFT_MEMORY":  {"0", "4GiB", "0x100000000000"},
		"HANDOFF_SOFT_VERSION": {"13", "new"},
		"HANDOFF_SOFT_PEERS":   {"no", "2"},
	} {
		for _, v := range bad {
			out, err := run(t, "environment", "HANDOFF_DRIVER=soft", name+"="+v)
			require.Error(t, err, "%s=%s", name, v)
			require.Contains(t, out, fmt.Sprintf("%s %q: want", name, v))
			require.Contains(t, out, "invalid value")
		}
	}
}

// Nobody gets the software device without asking.
func TestNeverUnasked(t *testing.T) {
	out, _ := run(t, "environment", "HANDOFF_DRIVER=", "HANDOFF_LIBCUDA=/nonexistent")
	require.NotContains(t, out, "soft 2")
	require.Contains(t, out, "no CUDA driver")
}
