package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
)

const handoffModule = "github.com/go-handoff/handoff"

//go:embed templates
var templates embed.FS

// skeleton is what the templates of a new extension need.
type skeleton struct {
	Name    string // of the Python module and the folder
	Module  string // path of the Go module
	Handoff string // version of the handoff module
	Replace string // folder of a local checkout, or empty
	Float16 string // version of the one module that handoff needs
}

// skeletonFiles maps the files of a new extension to their templates. NAME
// stands for the extension's name.
var skeletonFiles = []struct{ name, template string }{
	{"go.mod", "go.mod.tmpl"},
	{"main.go", "main.go.tmpl"},
	{"Makefile", "Makefile.tmpl"},
	{"test_NAME.py", "test.py.tmpl"},
	{"README.md", "README.md.tmpl"},
	{".gitignore", "gitignore.tmpl"},
}

func newExtension() *cobra.Command {
	var dir, module, checkout string
	cmd := &cobra.Command{
		Use:   "new-extension NAME",
		Short: "Write a Python extension in Go: source, build file and test",
		Long: `Write a Python extension in Go that works as it is: a Go module, one source
file with three functions, a Makefile and a pytest test.

NAME becomes the name of the Python module. The folder (NAME, or --dir) must
not exist yet, or be empty.`,
		Example: "  handoff new-extension fastmath\n  cd fastmath && make test",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			s := skeleton{Name: args[0], Module: module, Handoff: "v0.0.0", Float16: "v0.8.4"}
			if !validName(s.Name) {
				return usageError{fmt.Errorf("%q cannot name a Python module: use letters, digits and _", s.Name)}
			}
			if s.Module == "" {
				s.Module = s.Name
			}
			if dir == "" {
				dir = s.Name
			}
			if err := s.locate(checkout); err != nil {
				return err
			}
			if err := s.write(dir); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "Wrote %s. Next:\n\n    cd %s\n    make test\n", dir, dir)
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "folder to write (default NAME)")
	cmd.Flags().StringVar(&module, "module", "", "path of the Go module (default NAME)")
	cmd.Flags().StringVar(&checkout, "handoff", "", "folder of a checkout of handoff to build against (default: the one around the current folder, if any)")
	return cmd
}

var nameForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

// pythonWords cannot name a module.
var pythonWords = strings.Fields(`False None True and as assert async await break class continue def del elif else except finally for
	from global if import in is lambda nonlocal not or pass raise return try while with yield`)

func validName(name string) bool {
	for _, w := range pythonWords {
		if name == w {
			return false
		}
	}
	// "main" would be the Go package and "test…" what pytest collects.
	return nameForm.MatchString(name) && name != "handoff"
}

// locate finds the handoff module that the extension is built against.
func (s *skeleton) locate(checkout string) error {
	if checkout == "" {
		checkout = findCheckout()
	} else if !isCheckout(checkout) {
		return fmt.Errorf("%s is no checkout of %s: it has no go.mod of that module", checkout, handoffModule)
	}
	if checkout == "" { // a released version, from the module proxy
		if v := readVersions().Handoff; v != "devel" {
			s.Handoff = v
			return nil
		}
		return errors.New("this is a development build of handoff: name the checkout to build against by --handoff FOLDER")
	}
	abs, err := filepath.Abs(checkout)
	if err != nil {
		return err
	}
	s.Replace = abs
	mod, err := os.ReadFile(filepath.Join(abs, "go.mod"))
	if err != nil {
		return err
	}
	if m := regexp.MustCompile(`github.com/x448/float16 (v\S+)`).FindSubmatch(mod); m != nil {
		s.Float16 = string(m[1])
	}
	return nil
}

// findCheckout looks for handoff around the current folder, then around the
// program itself (which is built into the checkout).
func findCheckout() string {
	var starts []string
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	if exe, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(exe))
	}
	for _, dir := range starts {
		for {
			if isCheckout(dir) {
				return dir
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	return ""
}

func isCheckout(dir string) bool {
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return false
	}
	first, _, _ := strings.Cut(string(mod), "\n")
	return strings.TrimSpace(first) == "module "+handoffModule
}

func (s *skeleton) write(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("folder %s is not empty", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	t, err := template.ParseFS(templates, "templates/*.tmpl")
	if err != nil {
		return err
	}
	for _, f := range skeletonFiles {
		var b bytes.Buffer
		if err := t.ExecuteTemplate(&b, f.template, s); err != nil {
			return err
		}
		name := strings.ReplaceAll(f.name, "NAME", s.Name)
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	if s.Replace == "" {
		return nil
	}
	// The checksums of the checkout are those of the extension: it builds
	// without asking anybody.
	sums, err := os.ReadFile(filepath.Join(s.Replace, "go.sum"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o644)
}
