package conformance

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/go-handoff/handoff/conformance/rules"
)

//go:embed report.html.tmpl
var page string

// WriteHTML writes the report as one page that loads nothing: the matrix as a
// heat map whose cells open, and every rule with what each target does.
func (r *Report) WriteHTML(w io.Writer) error {
	// encoding/json escapes <, > and &, so that the data cannot end the script
	// element that holds it.
	var data bytes.Buffer
	err := json.NewEncoder(&data).Encode(map[string]any{"report": r, "rules": rules.All(), "sources": rules.Sources})
	if err != nil {
		return fmt.Errorf("conformance: html: %w", err)
	}
	before, after, _ := strings.Cut(page, "{{.}}")
	for _, part := range []string{before, data.String(), after} {
		if _, err := io.WriteString(w, part); err != nil {
			return fmt.Errorf("conformance: html: %w", err)
		}
	}
	return nil
}
