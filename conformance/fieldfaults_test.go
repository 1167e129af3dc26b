package conformance_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// row is a fault of the field in a text. A name of a Python test has more after an underscore.
var row = regexp.MustCompile(`(?:^|[^A-Za-z0-9])(B[0-9]{3})(?:[^0-9]|$)`)

// sourceTree is where the repository is, or "" for a test binary without it.
func sourceTree(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Skip("needs the source")
	}
	return root
}

// isTest says whether a file holds tests.
func isTest(path string) bool {
	name := filepath.Base(path)
	switch {
	case strings.HasPrefix(name, "fieldfaults_test.go") && strings.HasSuffix(filepath.Dir(path), "conformance"):
		return true
	case strings.HasSuffix(name, "_test.go"), strings.HasPrefix(name, "test_") && strings.HasSuffix(name, ".py"):
		return true
	}
	dir := filepath.ToSlash(filepath.Dir(path))
	return strings.HasSuffix(name, ".py") && strings.HasSuffix(dir, "handoff_conformance") && strings.HasPrefix(name, "checks")
}

// files yields the files of the tree, without what is built.
func files(t *testing.T, root string, yield func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch name := d.Name(); {
			case path == root:
			case name == "build" || name == "dist" || name == "__pycache__" || strings.HasPrefix(name, "."):
				return filepath.SkipDir
			}
			return nil
		}
		yield(path)
		return nil
	})
	require.NoError(t, err)
}

// TestFieldFaults: every fault of the field is named by a test, or
// field-faults.md says why not, and never both.
func TestFieldFaults(t *testing.T) {
	root := sourceTree(t)
	list, err := os.ReadFile("testdata/field-faults.txt")
	require.NoError(t, err)
	words := map[string]string{}
	last := ""
	for line := range strings.Lines(string(list)) {
		id, text, ok := strings.Cut(strings.TrimSpace(line), " ")
		require.True(t, ok && text != "", line)
		require.Less(t, last, id, "in order, each once")
		words[id], last = text, id
	}
	require.Len(t, words, 197)

	page, err := os.ReadFile("field-faults.md")
	require.NoError(t, err)
	excused := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		if id, reason, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && strings.HasPrefix(line, "| B") {
			require.NotEmpty(t, words[id], "field-faults.md has %s, which is no row", id)
			require.Greater(t, len(reason), 40, "%s: a reason", id)
			excused[id] = true
		}
	}

	named := map[string]map[string]bool{}
	files(t, root, func(path string) {
		if !isTest(path) {
			return
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		rel, _ := filepath.Rel(root, path)
		if rel == filepath.Join("conformance", "fieldfaults_test.go") {
			return // speaks of rows
		}
		for rest := string(text); ; {
			at := row.FindStringSubmatchIndex(rest)
			if at == nil {
				break
			}
			id := rest[at[2]:at[3]]
			if named[id] == nil {
				named[id] = map[string]bool{}
			}
			named[id][filepath.ToSlash(rel)] = true
			rest = rest[at[3]:]
		}
	})
	named["B338"] = map[string]bool{"conformance/fieldfaults_test.go": true} // below

	for _, id := range slices.Sorted(maps.Keys(words)) {
		switch by := slices.Sorted(maps.Keys(named[id])); {
		case len(by) == 0 && !excused[id]:
			t.Errorf("%s (%s): no test names it, and field-faults.md does not say why", id, words[id])
		case len(by) > 0 && excused[id]:
			t.Errorf("%s (%s): field-faults.md excuses it, and %v name it", id, words[id], by)
		case len(by) > 0:
			t.Logf("%s %s: %s", id, words[id], strings.Join(by, " "))
		}
	}
	for id := range named {
		require.NotEmpty(t, words[id], "%v name %s, which is no row", slices.Sorted(maps.Keys(named[id])), id)
	}
	t.Logf("%d rows: %d named by tests, %d excused", len(words), len(words)-len(excused), len(excused))
}

// TestExportsReturnNoGoMemory is B338: what a function that C calls returns is
// a number, or memory of C.
func TestExportsReturnNoGoMemory(t *testing.T) {
	root := sourceTree(t)
	exports := 0
	files(t, root, func(path string) {
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Doc == nil || !slices.ContainsFunc(fn.Doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//export ") }) {
				continue
			}
			exports++
			if fn.Type.Results == nil {
				continue
			}
			for _, r := range fn.Type.Results.List {
				require.True(t, isNumber(r.Type), "%s: %s returns what may be Go memory", path, fn.Name.Name)
			}
		}
	})
	require.Greater(t, exports, 300)
}

// isNumber says whether a type is a C type, which Go memory would need a
// conversion for, or a plain number.
func isNumber(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.StarExpr: // *C.char, of C.CString or C.malloc
		s, ok := x.X.(*ast.SelectorExpr)
		return ok && isC(s)
	case *ast.SelectorExpr:
		return isC(x)
	case *ast.Ident:
		return slices.Contains([]string{"int", "int32", "int64", "uint32", "uint64", "uintptr", "bool"}, x.Name)
	}
	return false
}

func isC(s *ast.SelectorExpr) bool {
	p, ok := s.X.(*ast.Ident)
	return ok && p.Name == "C"
}
