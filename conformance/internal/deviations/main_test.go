package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/conformance/rules"
)

const (
	results  = "../../results"
	document = "../../../docs/deviations.md"
)

// repository skips where the tests run without it, as on a machine with a GPU.
func repository(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("../../../go.mod"); err != nil {
		t.Skip("not in the repository: there are no results beside the test")
	}
}

// TestDocumentIsGenerated: the page says what the data say.
func TestDocumentIsGenerated(t *testing.T) {
	repository(t)
	want, err := page(results)
	require.NoError(t, err)
	got, err := os.ReadFile(document)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run: go generate ./conformance")
}

// TestResultsAreSound: every row names a rule and a version.
func TestResultsAreSound(t *testing.T) {
	repository(t)
	files, err := filepath.Glob(filepath.Join(results, "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	ours := 0
	for _, name := range files {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		var f found
		require.NoError(t, json.Unmarshal(data, &f))
		require.NotEmpty(t, f.Python, name)
		require.NotEmpty(t, f.Date, name)
		for _, l := range f.Libraries {
			require.NotEmptyf(t, l.Version, "%s %s", name, l.Name)
			require.NotZerof(t, l.Kept, "%s %s", name, l.Name)
			for _, d := range l.Bad {
				require.NotNilf(t, rules.Get(d.Rule), "%s %s %s", name, l.Name, d.Rule)
				require.NotEmptyf(t, d.What, "%s %s %s", name, l.Name, d.Rule)
			}
			if l.Name != "handoff" && l.Name != "handoff@cuda" {
				continue
			}
			ours++
			for _, d := range l.Bad {
				require.NotEqual(t, rules.Must, rules.Get(d.Rule).Strength, d.Rule)
				require.NotEmptyf(t, d.Reason, "%s is not kept, and no reason is written", d.Rule)
			}
		}
	}
	require.NotZero(t, ours)
}
