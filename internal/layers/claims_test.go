package layers

// The security documents are held to their word: every test that they name
// exists, and every claim of a table names one.

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

var (
	code    = regexp.MustCompile("`([^`]+)`")
	goTest  = regexp.MustCompile(`^([a-z0-9/]+)\.((?:Test|Fuzz)\w+)$`)
	pyTest  = regexp.MustCompile(`^([\w/]+\.py)::(test_\w+)$`)
	cTarget = regexp.MustCompile(`^internal/cfuzz/\w+_target\.c$`)
)

// names finds the tests that a text names.
func names(text string) []string {
	var found []string
	for _, m := range code.FindAllStringSubmatch(text, -1) {
		if s := m[1]; goTest.MatchString(s) || pyTest.MatchString(s) || cTarget.MatchString(s) {
			found = append(found, s)
		}
	}
	return found
}

// exists says whether there is such a test.
func exists(t *testing.T, name string) bool {
	t.Helper()
	if m := goTest.FindStringSubmatch(name); m != nil {
		files, err := filepath.Glob(filepath.Join(root, m[1], "*_test.go"))
		require.NoError(t, err)
		for _, f := range files {
			if contains(t, f, "func "+m[2]+"(") {
				return true
			}
		}
		return false
	}
	if m := pyTest.FindStringSubmatch(name); m != nil {
		path := filepath.Join(root, m[1])
		if _, err := os.Stat(path); err != nil {
			return false
		}
		return contains(t, path, "\ndef "+m[2]+"(")
	}
	_, err := os.Stat(filepath.Join(root, name))
	return err == nil
}

func contains(t *testing.T, path, text string) bool {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return strings.Contains(string(b), text)
}

func TestNamedTestsExist(t *testing.T) {
	for _, doc := range []string{"SECURITY.md", "docs/threat-model.md"} {
		b, err := os.ReadFile(filepath.Join(root, doc))
		require.NoError(t, err)
		all := names(string(b))
		if doc != "SECURITY.md" {
			require.Greater(t, len(all), 60, "%s names hardly any test", doc)
		}
		for _, name := range all {
			require.True(t, exists(t, name), "%s names %s, which does not exist", doc, name)
		}
	}
}

// Every row of a table with the column "held by" names a test.
func TestEveryClaimNamesATest(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "docs/threat-model.md"))
	require.NoError(t, err)
	rows, held := 0, false
	for _, line := range strings.Split(string(b), "\n") {
		switch {
		case !strings.HasPrefix(line, "|"):
			held = false
		case strings.HasSuffix(line, "| held by |"):
			held = true
		case held && !strings.HasPrefix(line, "|---"):
			rows++
			cells := strings.Split(strings.Trim(line, "|"), "|")
			require.Len(t, cells, 3, line)
			require.NotEmpty(t, names(cells[2]), "this claim names no test: %s", line)
		}
	}
	require.Greater(t, rows, 25)
}

func TestNamesAreFound(t *testing.T) {
	got := names("a `dlpack.TestX`, `device/soft.FuzzY`, `python/tests/a.py::test_b`, `internal/cfuzz/c_target.c`, `make fuzz`, `launch`")
	require.Equal(t, []string{"dlpack.TestX", "device/soft.FuzzY", "python/tests/a.py::test_b", "internal/cfuzz/c_target.c"}, got)
	require.False(t, exists(t, "dlpack.TestThatIsNotThere"))
	require.False(t, exists(t, "python/tests/test_none.py::test_b"))
	require.False(t, exists(t, "internal/cfuzz/none_target.c"))
	require.True(t, exists(t, "internal/layers.TestNamesAreFound"))
}
