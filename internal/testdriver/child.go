package testdriver

import (
	"context"
	"os"
	"os/exec"
)

// child runs one test of this test binary in a process of its own, on the software device alone: a
// checking layer in front of it makes calls of its own, which would be made to fail, too.
func child(ctx context.Context, test string) (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, exe, "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), WalkEnv+"=1", "HANDOFF_DRIVER=", "HANDOFF_CHECK=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
