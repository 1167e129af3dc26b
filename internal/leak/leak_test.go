package leak_test

import (
	"bytes"
	"testing"

	"github.com/go-handoff/handoff/internal/leak"
	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	var out bytes.Buffer

	t.Run("nothing left", func(t *testing.T) {
		out.Reset()
		require.Equal(t, 0, leak.Run(func() int {
			require.True(t, leak.Enabled())
			tok := leak.Track("thing")
			require.Len(t, leak.Live(), 1)
			tok.Done()
			tok.Done()
			return 0
		}, &out))
		require.Empty(t, out.String())
		require.False(t, leak.Enabled())
	})

	t.Run("one left", func(t *testing.T) {
		out.Reset()
		var tok leak.Token
		require.Equal(t, 13, leak.Run(func() int { tok = leak.Track("kind of thing"); return 0 }, &out))
		defer tok.Done()
		require.Contains(t, out.String(), "kind of thing")
		require.Contains(t, out.String(), "leak_test.TestRun", "the stack names the maker")
	})

	t.Run("a failed run keeps its status", func(t *testing.T) {
		out.Reset()
		var tok leak.Token
		require.Equal(t, 1, leak.Run(func() int { tok = leak.Track("thing"); return 1 }, &out))
		tok.Done()
		require.Empty(t, out.String())
	})

	t.Run("off", func(t *testing.T) {
		require.Zero(t, leak.Track("thing"))
		require.Zero(t, testing.AllocsPerRun(100, func() { leak.Track("thing").Done() }))
		require.Empty(t, leak.Live())
	})

	t.Run("paused", func(t *testing.T) {
		out.Reset()
		require.Equal(t, 0, leak.Run(func() int {
			t.Run("inner", func(t *testing.T) {
				leak.Pause(t)
				require.Zero(t, leak.Track("thing"))
			})
			require.True(t, leak.Enabled(), "the pause ends with the test")
			return 0
		}, &out))
	})
}
