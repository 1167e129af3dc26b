//go:build cgo && linux && (amd64 || arm64)

// Package embed runs CPython inside a Go test binary. Only tests import it.
package embed

// #cgo CFLAGS: -I${SRCDIR}/../../../dlpack/include -std=gnu11
// #include <stdlib.h>
// #include "embed.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unsafe"

	_ "github.com/go-handoff/handoff/python" // the C code that this package calls
)

// Start initializes the interpreter once per process, with the packages of the
// given Python: "" means $HANDOFF_PYTHON, or the repository's .venv, or
// python3. The error says why there is none, for example because that Python
// has no shared libpython.
func Start(python string) error {
	if python == "" {
		python = find()
	}
	const code = `import os, sys, sysconfig
v = sysconfig.get_config_var
print(os.path.join(v("LIBDIR") or "", v("INSTSONAME") or ""))
print(v("Py_ENABLE_SHARED"))
print(os.pathsep.join(p for p in sys.path if p))`
	out, err := exec.Command(python, "-c", code).Output()
	if err != nil {
		return fmt.Errorf("embed: run %s: %w", python, err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 3 || lines[1] != "1" {
		return fmt.Errorf("embed: %s has no shared libpython", python)
	}
	if err := os.Setenv("PYTHONPATH", lines[2]); err != nil {
		return fmt.Errorf("embed: %w", err)
	}
	path := C.CString(lines[0])
	defer C.free(unsafe.Pointer(path)) // SAFETY: allocated by C.CString above.
	var text [512]C.char
	if C.ho_embed_start(path, &text[0], C.size_t(len(text))) != 0 {
		return errors.New("embed: " + C.GoString(&text[0]))
	}
	return nil
}

func find() string {
	if p := os.Getenv("HANDOFF_PYTHON"); p != "" {
		return p
	}
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if p := filepath.Join(dir, ".venv", "bin", "python"); exists(p) {
			return p
		}
		dir = filepath.Dir(dir)
	}
	return "python3"
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
