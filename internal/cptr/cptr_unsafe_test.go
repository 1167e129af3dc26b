package cptr_test

import (
	"testing"
	"unsafe"

	"github.com/go-handoff/handoff/internal/cptr"
	"github.com/stretchr/testify/require"
)

// memory stands for C memory: a package variable does not move.
var memory = [4]int64{10, 20, 30, 40}

func addr() uintptr {
	// SAFETY: a package variable has a fixed address.
	return uintptr(unsafe.Pointer(&memory))
}

func TestConversions(t *testing.T) {
	require.Nil(t, cptr.At(0))
	require.Nil(t, cptr.To[int64](0))
	require.EqualValues(t, 10, *cptr.To[int64](addr()))
	require.EqualValues(t, 20, *cptr.To[int64](addr() + 8))
	s := cptr.Slice[int64](addr()+8, 2)
	require.Equal(t, []int64{20, 30}, s)
	require.Equal(t, 2, cap(s), "nothing behind the end is reachable")
	require.Nil(t, cptr.Slice[int64](0, 3))
	require.Nil(t, cptr.Slice[int64](addr(), 0))
	require.Panics(t, func() { cptr.Slice[int64](addr(), -1) })
}
