package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
)

//go:embed doctor.py
var doctorCode string

// pythonReport is what doctor.py prints.
type pythonReport struct {
	Executable     string    `json:"executable"`
	Version        string    `json:"version"`
	Implementation string    `json:"implementation"`
	FreeThreaded   bool      `json:"free_threaded"`
	Debug          bool      `json:"debug"`
	Libraries      []library `json:"libraries"`
}

type library struct {
	Name      string   `json:"name"`
	Version   string   `json:"version"`
	Protocols []string `json:"protocols"`     // of its arrays on the host
	GPU       []string `json:"gpu,omitempty"` // of its arrays on a GPU, where it has one
	Stream    bool     `json:"stream"`        // its streams have __cuda_stream__
	Error     string   `json:"error,omitempty"`
}

// check is one thing that doctor looked at.
type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// diagnosis is all that doctor found.
type diagnosis struct {
	Checks    []check        `json:"checks"`
	Libraries []library      `json:"libraries"`
	Driver    driverReport   `json:"driver"`
	Devices   []deviceReport `json:"devices"`
	Toolkit   []fileReport   `json:"toolkit"`
	Needs     []need         `json:"needs"`
	Warnings  []string       `json:"warnings,omitempty"`
}

func (d *diagnosis) add(name string, ok bool, detail string) {
	d.Checks = append(d.Checks, check{name, ok, detail})
}

// errUnfit means that something which extensions need is missing. The report
// has said what.
var errUnfit = errors.New("this machine cannot build or run extensions as it is")

func newDoctor() *cobra.Command {
	var python string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Tell what this machine offers: tools, driver, devices, CUDA libraries, array libraries and their protocols",
		Long: `Tell what this machine offers: tools, Python, array libraries and the protocols
that they speak; the driver that HANDOFF_DRIVER chooses and its devices; the parts of
the CUDA toolkit and how each was found; and what is missing for what.

The exit status is 1 if something is missing that Python modules in Go need. A
machine without a GPU is fine.`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), 3*time.Minute)
			defer cancel()
			d := diagnose(ctx, python)
			write := d.writeTable
			if asJSON {
				write = func(w io.Writer) error { return writeJSON(w, d) }
			}
			if err := write(cmd.OutOrStdout()); err != nil {
				return err
			}
			for _, c := range d.Checks {
				if !c.OK {
					return errUnfit
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&python, "python", "", "interpreter (default python3)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func diagnose(ctx context.Context, python string) *diagnosis {
	d := &diagnosis{Libraries: []library{}}
	d.tool(ctx, "go", "go", "version")
	d.compiler(ctx)
	d.gpu(d.python(ctx, python))
	return d
}

// python looks at an interpreter and its libraries, and returns its path if it
// answers.
func (d *diagnosis) python(ctx context.Context, name string) string {
	path, err := findPython(name)
	if err != nil {
		d.add("python", false, err.Error())
		return ""
	}
	out, err := runPython(ctx, path, doctorCode)
	if err != nil {
		d.add("python", false, err.Error())
		return ""
	}
	var r pythonReport
	if err := json.Unmarshal(out, &r); err != nil {
		d.add("python", false, fmt.Sprintf("%s printed no report: %v", path, err))
		return ""
	}
	d.Libraries = r.Libraries
	problem := r.problem()
	detail := r.Implementation + " " + r.Version + " at " + r.Executable
	if problem != "" {
		detail += ": " + problem
	}
	d.add("python", problem == "", detail)
	return path
}

// problem says why the interpreter cannot load extensions, or nothing.
func (r *pythonReport) problem() string {
	major, minor := 0, 0
	if parts := strings.Split(r.Version, "."); len(parts) >= 2 {
		major, _ = strconv.Atoi(parts[0])
		minor, _ = strconv.Atoi(parts[1])
	}
	switch {
	case r.Implementation != "CPython":
		return "only CPython is supported"
	case major != 3 || minor < 11:
		return "3.11 or newer is needed"
	case r.FreeThreaded:
		return "free-threaded builds are not supported"
	case r.Debug:
		return "debug builds are not supported"
	}
	return ""
}

// tool checks a program of the PATH by the first line that it prints.
func (d *diagnosis) tool(ctx context.Context, name, program string, args ...string) {
	out, err := exec.CommandContext(ctx, program, args...).Output()
	if err != nil {
		d.add(name, false, err.Error())
		return
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	d.add(name, true, first)
}

// compiler checks the C compiler that Go would use.
func (d *diagnosis) compiler(ctx context.Context) {
	out, err := exec.CommandContext(ctx, "go", "env", "CC").Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) == 0 {
		words = []string{"cc"}
	}
	d.tool(ctx, "C compiler", words[0], append(words[1:], "--version")...)
}

func (d *diagnosis) writeTable(w io.Writer) error {
	t := newTable("what", "", "found")
	for _, c := range d.Checks {
		mark := "ok"
		if !c.OK {
			mark = "MISSING"
		}
		t.AppendRow(table.Row{c.Name, mark, c.Detail})
	}
	if _, err := fmt.Fprintln(w, t.Render()); err != nil {
		return err
	}
	if len(d.Libraries) > 0 {
		t = newTable("library", "version", "protocols", "on a GPU", "streams")
		for _, l := range d.Libraries {
			what, streams := strings.Join(l.Protocols, ", "), ""
			if l.Error != "" {
				what = l.Error
			}
			if l.Stream {
				streams = "__cuda_stream__"
			}
			t.AppendRow(table.Row{l.Name, l.Version, what, strings.Join(l.GPU, ", "), streams})
		}
		if _, err := fmt.Fprintln(w, t.Render()); err != nil {
			return err
		}
	}
	return d.writeGPU(w)
}
