package main

import (
	"image"
	"image/color"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/memview"
)

func TestPictureAndArrayShareMemory(t *testing.T) {
	m := image.NewRGBA(image.Rect(0, 0, 3, 2))
	v, err := asArray(m)
	require.NoError(t, err)
	require.Equal(t, []int64{2, 3, 4}, v.Shape())
	require.NoError(t, memview.Set[uint8](v, 7, 1, 2, 3))
	require.Equal(t, uint8(7), m.RGBAAt(2, 1).A)

	back, err := asPicture(v)
	require.NoError(t, err)
	require.Equal(t, &m.Pix[0], &back.Pix[0])
	require.Equal(t, m.Rect, back.Rect)
}

func TestWindowOfAnArrayIsAPicture(t *testing.T) {
	v, err := newPicture(10, 8)
	require.NoError(t, err)
	window, err := v.Slice(memview.Range(4, 8), memview.Range(5, 10))
	require.NoError(t, err)
	require.NoError(t, fill(window, 0, 0, 1, 1, 1, 2, 3, 4))
	m, err := asPicture(v)
	require.NoError(t, err)
	require.Equal(t, color.RGBA{1, 2, 3, 4}, m.RGBAAt(5, 4))
	require.Equal(t, color.RGBA{}, m.RGBAAt(6, 4))
}

func TestPNGRoundTrip(t *testing.T) {
	v, err := newPicture(4, 3)
	require.NoError(t, err)
	require.NoError(t, fill(v, 1, 1, 3, 2, 9, 8, 7, 255))
	data, err := encodePNG(v)
	require.NoError(t, err)
	back, err := decodePNG(data)
	require.NoError(t, err)
	r, g, b, a, err := pixel(back, 2, 1)
	require.NoError(t, err)
	require.Equal(t, [4]uint8{9, 8, 7, 255}, [4]uint8{r, g, b, a})
	_, err = decodePNG(data[:10])
	require.Error(t, err)
}

func TestWhatIsNoPictureIsRefused(t *testing.T) {
	for name, shape := range map[string][]int64{"two axes": {4, 4}, "three channels": {4, 4, 3}} {
		t.Run(name, func(t *testing.T) {
			v, err := memview.FromSlice(make([]uint8, 48), shape...)
			if name == "two axes" {
				v, err = memview.FromSlice(make([]uint8, 16), shape...)
			}
			require.NoError(t, err)
			_, err = asPicture(v)
			require.ErrorIs(t, err, dlpack.ErrLayout)
		})
	}
	t.Run("gaps inside a row", func(t *testing.T) {
		v, err := newPicture(4, 4)
		require.NoError(t, err)
		v, err = v.Slice(memview.All(), memview.All().By(2))
		require.NoError(t, err)
		_, err = asPicture(v)
		require.ErrorIs(t, err, dlpack.ErrLayout)
	})
	t.Run("another dtype", func(t *testing.T) {
		v, err := memview.FromSlice(make([]float32, 16), 2, 2, 4)
		require.NoError(t, err)
		_, err = asPicture(v)
		require.ErrorIs(t, err, dlpack.ErrLayout)
	})
}
