//go:build !unix

package conformance

import (
	"fmt"
	"os/exec"
)

// The checks need fork: elsewhere the Python half says that it cannot run.

func inGroup(cmd *exec.Cmd) { cmd.Cancel = func() error { return cmd.Process.Kill() } }

func endProcess(int) {}

func signalName(n int) string { return fmt.Sprint(n) }
