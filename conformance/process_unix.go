//go:build unix

package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// inGroup makes the process, and what it forks, one group, which ends together.
func inGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// groupTime returns the processor time that a group of processes has used, as
// /proc has it; 0 where there is none.
func groupTime(group int) time.Duration {
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	var ticks uint64
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		// The name in the second field may hold anything.
		text := string(data)
		f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		if len(f) < 15 || f[2] != strconv.Itoa(group) {
			continue
		}
		for _, i := range []int{11, 12, 13, 14} { // own and its dead children's, user and system
			n, _ := strconv.ParseUint(f[i], 10, 64)
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// endProcess ends a process that a server has forked.
func endProcess(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }

// signalName names a signal.
func signalName(n int) string { return syscall.Signal(n).String() }
