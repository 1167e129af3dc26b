package clib

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStrings(t *testing.T) {
	b, err := zstring("ab")
	require.NoError(t, err)
	require.Equal(t, []byte("ab\x00"), b)
	_, err = zstring("a\x00b")
	require.ErrorIs(t, err, ErrNUL)
	b, err = block([]string{"a", "", "bc"})
	require.NoError(t, err)
	require.Equal(t, []byte("a\x00\x00bc\x00\x00"), b)
	b, err = block(nil)
	require.NoError(t, err)
	require.NotEmpty(t, b, "there is always an address to give")
	_, err = block([]string{"a", "b\x00"})
	require.ErrorIs(t, err, ErrNUL)
}

func TestSymbols(t *testing.T) {
	have := map[string]uintptr{"a": 1, "b_2": 2}
	s := NewSymbols("libx.so", func(n string) uintptr { return have[n] })
	require.EqualValues(t, 1, s.Need("a"))
	require.EqualValues(t, 2, s.Need("b", "b_3", "b_2"))
	require.Zero(t, s.May("c"))
	require.NoError(t, s.Err())
	require.Zero(t, s.Need("d", "d_1"))
	require.Zero(t, s.Need("e"))
	require.ErrorIs(t, s.Err(), ErrMissing)
	require.EqualError(t, s.Err(), "libx.so lacks d, e: no such function")
}
