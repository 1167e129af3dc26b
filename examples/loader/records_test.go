package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/memview"
)

func TestBatchesHoldEveryRecordOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r")
	require.NoError(t, writeRecords(path, 23))
	h, err := open(path, 3)
	require.NoError(t, err)
	for first := 0; ; {
		images, labels, err := nextBatch(h, 10)
		require.NoError(t, err)
		y, err := memview.Slice[int32](labels)
		require.NoError(t, err)
		if len(y) == 0 {
			require.Equal(t, 23, first)
			break
		}
		x, err := memview.Slice[float32](images)
		require.NoError(t, err)
		require.Equal(t, []int64{int64(len(y)), side, side}, images.Shape())
		for i := range y {
			require.Equal(t, int32((first+i)%10), y[i])
			require.Equal(t, float32(byte(first+i))/255, x[i*pixels])
		}
		first += len(y)
	}
	require.NoError(t, closeLoader(h))
	require.Error(t, closeLoader(h))
	_, _, err = nextBatch(h, 1)
	require.Error(t, err)
}

func TestDamagedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r")
	require.NoError(t, writeRecords(path, 2))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)

	t.Run("cut short", func(t *testing.T) {
		require.NoError(t, os.WriteFile(path, whole[:len(whole)-1], 0o600))
		_, err := openRecords(path, 1)
		require.ErrorContains(t, err, "record 1 is cut short")
	})
	t.Run("no pixels", func(t *testing.T) {
		require.NoError(t, os.WriteFile(path, make([]byte, 8), 0o600))
		h, err := open(path, 1)
		require.NoError(t, err)
		_, _, err = nextBatch(h, 1)
		require.ErrorContains(t, err, "record 0 of the batch")
	})
	t.Run("no file", func(t *testing.T) {
		_, err := open(path+".not", 1)
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}
