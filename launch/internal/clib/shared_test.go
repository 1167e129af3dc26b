package clib

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/pathfinder"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestWords(t *testing.T) {
	names := []string{"FINE", "BAD"}
	require.Equal(t, "BAD", CodeName(names, "CODE_", 1))
	require.Equal(t, "CODE_2", CodeName(names, "CODE_", 2))
	require.Equal(t, "CODE_-1", CodeName(names, "CODE_", -1))
	require.Equal(t, "x: f: BAD", ErrorText("x", "f", "BAD", " \n"))
	require.Equal(t, "x: f: BAD\nline 1: no", ErrorText("x", "f", "BAD", "line 1: no\n"))
}

func TestKept(t *testing.T) {
	var k Kept[int]
	open := func(pathfinder.Library) (*int, error) { return nil, errors.New("not this one") }
	_, err := k.Load("x", "no such library", open)
	require.ErrorContains(t, err, "x: pathfinder: ")
	k.lib = new(int)
	l, err := k.Load("x", "no such library", open)
	require.NoError(t, err)
	require.Same(t, k.lib, l)
}

func TestObject(t *testing.T) {
	bad := errors.New("bad")
	var ended []uintptr
	o := NewObject("clib.test", 7, func(h uintptr) error {
		ended = append(ended, h)
		return bad
	})
	require.EqualValues(t, 7, o.Handle())
	require.True(t, o.Lock())
	closing := make(chan error)
	go func() { closing <- o.Close() }()
	require.Empty(t, ended, "a use is waited for")
	o.Unlock()
	require.ErrorIs(t, <-closing, bad)
	require.NoError(t, o.Close(), "twice")
	require.False(t, o.Lock())
	require.Equal(t, []uintptr{7}, ended)
}

func TestForgottenObject(t *testing.T) {
	leak.Pause(t) // what is forgotten is reported otherwise
	var ended atomic.Uint64
	NewObject("clib.test", 9, func(h uintptr) error {
		ended.Add(uint64(h))
		return nil
	})
	require.Eventually(t, func() bool {
		runtime.GC()
		return ended.Load() == 9
	}, 20*time.Second, time.Millisecond)
}
