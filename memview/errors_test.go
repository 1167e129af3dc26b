package memview_test

import (
	"errors"
	"io/fs"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/memview"
	"github.com/go-handoff/handoff/stream"
)

// TestRuleOfAnErrorInside: the outermost error names the rule that an inner one found, and the text has it once.
func TestRuleOfAnErrorInside(t *testing.T) {
	for rule, change := range map[string]map[string]any{
		"R281": {"strides": []any{6}},
		"R291": {"typestr": ">f4"},
		"R286": {"typestr": "|V12"},
	} {
		dict := map[string]any{"version": 3, "shape": []any{2}, "typestr": "<f4", "data": []any{uint64(1 << 20), false}}
		maps.Copy(dict, change)
		a, err := cai.ParseArrayInterface(dict, nil)
		require.NoError(t, err)
		_, err = memview.FromArrayInterface(&a, memview.Unowned(), nil)
		var re *dlpack.RuleError
		require.ErrorAs(t, err, &re)
		require.Equal(t, rule, re.Rule)
		require.Equal(t, 1, strings.Count(err.Error(), rule), err.Error())
	}
}

func TestNoDescriptor(t *testing.T) {
	_, err := memview.FromCAI(nil, memview.Unowned(), stream.NoSync(), nil)
	require.ErrorIs(t, err, dlpack.ErrNull)
	_, err = memview.FromArrayInterface(nil, memview.Unowned(), nil)
	require.ErrorIs(t, err, dlpack.ErrNull)
	_, err = memview.FromBuffer(nil, memview.Unowned())
	require.ErrorIs(t, err, dlpack.ErrNull)
}

func TestClosedIsNoFile(t *testing.T) {
	require.ErrorIs(t, dlpack.ErrClosed, fs.ErrClosed)
	require.False(t, errors.Is(fs.ErrClosed, dlpack.ErrClosed))
	require.NotContains(t, dlpack.ErrClosed.Error(), "file")
}
