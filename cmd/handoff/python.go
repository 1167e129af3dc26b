package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// findPython returns the interpreter to use: the one that was named, or
// python3 or python of the PATH.
func findPython(name string) (string, error) {
	names := []string{"python3", "python"}
	if name != "" {
		names = []string{name}
	}
	for _, n := range names {
		if path, err := exec.LookPath(n); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no Python found: tried %s; name one by --python", strings.Join(names, ", "))
}

// runPython runs a program and returns what it printed. An error has the last
// line of its error output.
func runPython(ctx context.Context, python, code string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, python, append([]string{"-c", code}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		return out, nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", python, ctx.Err())
	}
	if text := strings.TrimSpace(stderr.String()); text != "" {
		lines := strings.Split(text, "\n")
		return nil, errors.New(lines[len(lines)-1])
	}
	return nil, fmt.Errorf("%s: %w", python, err)
}
