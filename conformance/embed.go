package conformance

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// python is the Python half, which runs in child processes. The file rules.json
// comes from package rules.
//
//go:embed py/handoff_conformance/*.py py/handoff_conformance/helper.c py/handoff_conformance/nanobind_target.cpp py/handoff_conformance/rules.json
var python embed.FS

// unpack writes the Python half into a new folder, which the caller removes.
func unpack() (dir string, err error) {
	dir, err = os.MkdirTemp("", "handoff-conformance-")
	if err != nil {
		return "", err
	}
	err = fs.WalkDir(python, "py", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(path))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		data, err := python.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o644)
	})
	if err != nil {
		os.RemoveAll(dir)
		return "", fmt.Errorf("conformance: unpack: %w", err)
	}
	return dir, nil
}
