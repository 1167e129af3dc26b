package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/go-handoff/handoff/dlpack"
)

// versions is what "handoff version" tells.
type versions struct {
	Handoff  string `json:"handoff"`
	Revision string `json:"revision,omitempty"`
	DLPack   string `json:"dlpack"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readVersions() versions {
	v := versions{
		Handoff:  "devel",
		DLPack:   fmt.Sprintf("%d.%d", dlpack.ABIVersion.Major, dlpack.ABIVersion.Minor),
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, dep := range info.Deps {
		if dep.Path == handoffModule && dep.Replace == nil {
			v.Handoff = dep.Version
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Revision = s.Value
		}
	}
	return v
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of handoff, of DLPack and of Go",
		Args:  usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := readVersions()
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), v)
			}
			revision := ""
			if v.Revision != "" {
				revision = " (" + v.Revision[:min(12, len(v.Revision))] + ")"
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "handoff %s%s\nDLPack %s\n%s %s\n", v.Handoff, revision, v.DLPack, v.Go, v.Platform)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
