package conformance

import (
	"io"
)

// WriteHTML is written next.
func (r *Report) WriteHTML(w io.Writer) error { _, err := io.WriteString(w, ""); return err }
