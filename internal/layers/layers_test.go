package layers

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/go-handoff/handoff"

type listed struct {
	ImportPath string
	Imports    []string
}

// layerOf returns the layer of a package path inside the module, or -1.
func layerOf(path string) (layer int, prefix string) {
	layer = -1
	for i, names := range order {
		for _, name := range names {
			if (path == name || strings.HasPrefix(path, name+"/")) && len(name) > len(prefix) {
				layer, prefix = i, name
			}
		}
	}
	return layer, prefix
}

// TestImportsPointDown reads the import graph of the module: an arrow may
// point to a lower layer or stay inside its own entry, never up or sideways.
func TestImportsPointDown(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", module+"/...")
	out, err := cmd.Output()
	require.NoError(t, err)
	dec := json.NewDecoder(strings.NewReader(string(out)))
	seen := 0
	for {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		from, fromName := layerOf(strings.TrimPrefix(p.ImportPath, module+"/"))
		if p.ImportPath == module {
			continue // the root package holds documentation only
		}
		require.GreaterOrEqualf(t, from, 0, "%s is in no layer", p.ImportPath)
		for _, imp := range p.Imports {
			rest, ours := strings.CutPrefix(imp, module+"/")
			if !ours {
				continue
			}
			to, toName := layerOf(rest)
			seen++
			if toName == fromName {
				continue
			}
			require.Lessf(t, to, from, "%s imports %s, which is not below it", p.ImportPath, imp)
		}
	}
	require.Positive(t, seen, "the module has no inner imports: the test looks at nothing")
}
