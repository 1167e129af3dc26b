//go:build !unix

package conformance

import (
	"fmt"
	"os/exec"
	"time"
)

// The checks need fork: elsewhere the Python half says that it cannot run.

func inGroup(cmd *exec.Cmd) { cmd.Cancel = func() error { return cmd.Process.Kill() } }

func endProcess(int) {}

func groupTime(int) time.Duration { return 0 }

func signalName(n int) string { return fmt.Sprint(n) }
