package testdriver

import (
	"context"
	"os"
	"os/exec"
)

// child runs one test of this test binary in a process of its own.
func child(ctx context.Context, test string) (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, exe, "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), WalkEnv+"=1", "HANDOFF_DRIVER=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
