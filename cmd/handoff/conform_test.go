package main

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/conformance"
	"github.com/go-handoff/handoff/conformance/rules"
)

// venv is the interpreter of the repository's environment.
func venv(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../.venv/bin/python")
	require.NoError(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Skip("no .venv: run make venv")
	}
	return path
}

// TestConformHandoff: our own package breaks no MUST, and no SHOULD without a
// written reason.
func TestConformHandoff(t *testing.T) {
	// With the software device standing in for a GPU, unless there is one.
	if os.Getenv("HANDOFF_DRIVER") == "" {
		t.Setenv("HANDOFF_DRIVER", "soft")
	}
	for _, target := range []string{"handoff", "handoff@cuda"} {
		t.Run(target, func(t *testing.T) { conformClean(t, target) })
	}
	t.Run("with each other", func(t *testing.T) {
		status, out, errs := handoff("conform", "handoff", "handoff@cuda", "--python", venv(t), "--matrix-only")
		require.Zero(t, status, out+errs)
	})
}

func conformClean(t *testing.T, target string) {
	t.Helper()
	python := venv(t)
	file := filepath.Join(t.TempDir(), "r.json")
	status, out, errs := handoff("conform", target, "--python", python, "--json", file)
	require.Zero(t, status, out+errs)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var r conformance.Report
	require.NoError(t, json.Unmarshal(data, &r))
	require.Empty(t, r.MustBroken())
	require.Len(t, r.Targets, 1)
	require.Len(t, r.Targets[0].Rules, len(rules.All()))
	require.Greater(t, r.Targets[0].Count("", conformance.Kept), 180)
	for _, bad := range r.Targets[0].Bad() {
		require.Containsf(t, []rules.Strength{rules.Should, rules.Practice, rules.Inferred, rules.May}, bad.Strength(), "%s", bad.Rule)
		require.NotEqualf(t, conformance.Crashed, bad.Status, "%s: %s", bad.Rule, bad.What)
		if bad.Strength() == rules.Should {
			require.NotEmptyf(t, bad.Reason, "%s is not kept, and no reason is written: %s", bad.Rule, bad.What)
		}
	}
}

func TestConformStatus(t *testing.T) {
	python := venv(t)
	dir := t.TempDir()
	base := filepath.Join(dir, "base.json")
	run := func(args ...string) (int, string, string) {
		return handoff(append([]string{"conform", "--python", python}, args...)...)
	}
	t.Run("0 nothing broken", func(t *testing.T) {
		status, out, errs := run("reference")
		require.Zero(t, status, out+errs)
		require.Contains(t, out, "No rule is broken.")
	})
	t.Run("1 a MUST is broken", func(t *testing.T) {
		page, junit := filepath.Join(dir, "r.html"), filepath.Join(dir, "r.xml")
		status, out, errs := run("reference:R117", "--rule", "R117", "--json", base, "--html", page, "--junit", junit)
		require.Equal(t, 1, status)
		require.Contains(t, errs, "rules are broken")
		require.Contains(t, out, "R117")
		html, err := os.ReadFile(page)
		require.NoError(t, err)
		require.NotContains(t, string(html), "{{")
		for _, outside := range []string{"src=", "href=", "@import", "fetch("} {
			require.NotContainsf(t, strings.Split(string(html), `<script type="application/json"`)[0], outside, "loads something")
		}
		data, err := os.ReadFile(junit)
		require.NoError(t, err)
		var suites struct {
			Failures int `xml:"failures,attr"`
		}
		require.NoError(t, xml.Unmarshal(data, &suites))
		require.Equal(t, 1, suites.Failures)
	})
	t.Run("0 no worse than the baseline", func(t *testing.T) {
		status, _, errs := run("reference:R117", "--rule", "R117", "--baseline", base)
		require.Zero(t, status, errs)
	})
	t.Run("1 worse than the baseline", func(t *testing.T) {
		status, _, errs := run("reference:R040", "--rule", "R040", "--baseline", base)
		require.Equal(t, 1, status)
		require.Contains(t, errs, "R040")
	})
	t.Run("1 a crash", func(t *testing.T) {
		status, out, _ := run("reference:R064", "--rule", "R064")
		require.Equal(t, 1, status)
		require.Contains(t, out, "crashed")
	})
	t.Run("0 a SHOULD", func(t *testing.T) {
		status, out, _ := run("reference:R040", "--rule", "R040")
		require.Zero(t, status)
		require.Contains(t, out, "R040")
	})
	t.Run("2 usage", func(t *testing.T) {
		for _, args := range [][]string{{}, {"numpy", "--rule", "R999"}, {"numpy", "--nonsense"}, {"numpy", "--baseline", "/nonexistent"}} {
			status, _, _ := run(args...)
			require.Equal(t, 2, status, args)
		}
	})
	t.Run("3 cannot run", func(t *testing.T) {
		status, _, errs := run("no_such_library_at_all")
		require.Equal(t, 3, status)
		require.Contains(t, errs, "no_such_library_at_all")
		status, _, _ = handoff("conform", "numpy", "--python", "/nonexistent/python")
		require.Equal(t, 3, status)
	})
	t.Run("matrix", func(t *testing.T) {
		status, out, errs := run("reference", "handoff", "--matrix-only")
		require.Zero(t, status, errs)
		require.Contains(t, out, "ZERO-COPY")
	})
	t.Run("1 an exchange gave other elements", func(t *testing.T) {
		junit := filepath.Join(dir, "m.xml")
		status, out, errs := run("reference:R048", "handoff", "--matrix-only", "--junit", junit)
		require.Equal(t, 1, status, out+errs)
		data, err := os.ReadFile(junit)
		require.NoError(t, err)
		var suites struct {
			Suites []struct {
				Name     string `xml:"name,attr"`
				Failures int    `xml:"failures,attr"`
			} `xml:"testsuite"`
		}
		require.NoError(t, xml.Unmarshal(data, &suites))
		require.Len(t, suites.Suites, 1)
		require.Equal(t, "matrix", suites.Suites[0].Name)
		require.Equal(t, 2, suites.Suites[0].Failures)
	})
	t.Run("list", func(t *testing.T) {
		status, out, _ := run("--list")
		require.Zero(t, status)
		require.Contains(t, out, "292 rules")
	})
}
