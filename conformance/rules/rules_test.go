package rules_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/conformance/rules"
)

func TestTable(t *testing.T) {
	all := rules.All()
	require.Len(t, all, 292)
	seen := map[string]bool{}
	for i, r := range all {
		require.Equal(t, fmt.Sprintf("R%03d", i+1), r.ID)
		require.Same(t, &all[i], rules.Get(r.ID))
		require.NotEmpty(t, r.Condition, r.ID)
		require.NotEmpty(t, r.Behaviour, r.ID)
		require.Contains(t, []rules.Role{rules.Producer, rules.Consumer, rules.Both}, r.Role, r.ID)
		require.Contains(t, []rules.Strength{rules.Must, rules.Should, rules.May, rules.Practice, rules.Inferred}, r.Strength, r.ID)
		require.False(t, seen[r.Text()], r.Text())
		seen[r.Text()] = true
	}
	for _, id := range []string{"", "R000", "R293", "47", "R47", "R04x", "X047"} {
		require.Nil(t, rules.Get(id), id)
	}
}

func TestKnownDeviationsNameRules(t *testing.T) {
	require.Len(t, rules.Known(), 149)
	for _, d := range rules.Known() {
		require.NotEmpty(t, d.Rules, d.Library)
		for _, id := range d.Rules {
			require.NotNil(t, rules.Get(id), "%s: %s", d.Library, id)
		}
	}
	require.Contains(t, rules.KnownFor("numpy", "R217").What, "mask")
	require.Nil(t, rules.KnownFor("handoff", "R217"))
	require.Nil(t, rules.KnownFor("numpy", "R001"))
}

// TestExported: what the Python half has is this table.
func TestExported(t *testing.T) {
	data, err := os.ReadFile("../py/handoff_conformance/rules.json")
	require.NoError(t, err)
	var rows []struct {
		rules.Rule
		Untestable string `json:"untestable"`
	}
	require.NoError(t, json.Unmarshal(data, &rows))
	require.Len(t, rows, len(rules.All()))
	for i, r := range rows {
		require.Equal(t, rules.All()[i], r.Rule)
		require.Equal(t, rules.Untestable(r.ID), r.Untestable)
	}
}
