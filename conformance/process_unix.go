//go:build unix

package conformance

import (
	"os/exec"
	"syscall"
)

// inGroup makes the process, and what it forks, one group, which ends together.
func inGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// endProcess ends a process that a server has forked.
func endProcess(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }

// signalName names a signal.
func signalName(n int) string { return syscall.Signal(n).String() }
