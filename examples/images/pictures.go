package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/memview"
)

// asArray shows the pixels of a picture as an array of height × width × 4. The
// array keeps the pixels alive.
func asArray(m *image.RGBA) (memview.StridedMemoryView, error) {
	h, w := m.Rect.Dy(), m.Rect.Dx()
	layout, err := memview.NewLayout([]int64{int64(h), int64(w), 4}, []int64{int64(m.Stride), 4, 1}, 1)
	if err != nil {
		return memview.StridedMemoryView{}, err
	}
	return memview.FromSliceLayout(m.Pix, layout)
}

// asPicture shows an array of height × width × 4 bytes as a picture over the
// same memory. Rows may have a gap between them, as in a window of a larger
// array; within a row pixels must be dense.
func asPicture(v memview.StridedMemoryView) (*image.RGBA, error) {
	if v.DType() != dlpack.UInt8 || v.NDim() != 3 || v.Dim(2) != 4 {
		return nil, fmt.Errorf("a picture is an array of uint8 [height width 4], not %s %v: %w",
			v.DType(), v.Shape(), dlpack.ErrLayout)
	}
	h, w := int(v.Dim(0)), int(v.Dim(1))
	if h == 0 || w == 0 {
		return image.NewRGBA(image.Rect(0, 0, w, h)), nil
	}
	if v.Stride(2) != 1 || (w > 1 && v.Stride(1) != 4) || (h > 1 && v.Stride(0) < int64(4*w)) {
		return nil, fmt.Errorf("a picture with strides %v has gaps inside its rows: %w", v.Strides(), dlpack.ErrLayout)
	}
	stride := 4 * w
	if h > 1 {
		stride = int(v.Stride(0))
	}
	// All bytes from the first pixel to the last one, gaps between rows included.
	span, err := v.WithLayout(flat(int64((h-1)*stride + 4*w)))
	if err != nil {
		return nil, err
	}
	pix, err := memview.Bytes(span)
	if err != nil {
		return nil, err
	}
	return &image.RGBA{Pix: pix, Stride: stride, Rect: image.Rect(0, 0, w, h)}, nil
}

// flat is the layout of n adjacent bytes.
func flat(n int64) memview.Layout {
	l, err := memview.Dense([]int64{n}, 1, memview.OrderC)
	if err != nil {
		panic(err) // n comes from a view that exists
	}
	return l
}

// newPicture makes an empty picture.
func newPicture(width, height int) (memview.StridedMemoryView, error) {
	if width < 0 || height < 0 || width > 1<<15 || height > 1<<15 {
		return memview.StridedMemoryView{}, fmt.Errorf("a picture of %d x %d: %w", width, height, dlpack.ErrLayout)
	}
	return asArray(image.NewRGBA(image.Rect(0, 0, width, height)))
}

// fill draws a filled rectangle with the draw package.
func fill(v memview.StridedMemoryView, x0, y0, x1, y1 int, r, g, b, a uint8) error {
	m, err := asPicture(v)
	if err != nil {
		return err
	}
	draw.Draw(m, image.Rect(x0, y0, x1, y1), image.NewUniform(color.RGBA{r, g, b, a}), image.Point{}, draw.Src)
	return nil
}

// pixel returns one pixel.
func pixel(v memview.StridedMemoryView, x, y int) (r, g, b, a uint8, err error) {
	m, err := asPicture(v)
	if err != nil {
		return 0, 0, 0, 0, err
	}
	c := m.RGBAAt(x, y)
	return c.R, c.G, c.B, c.A, nil
}

// encodePNG returns a picture as PNG.
func encodePNG(v memview.StridedMemoryView) ([]byte, error) {
	m, err := asPicture(v)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := png.Encode(&out, m); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// decodePNG makes a picture from PNG.
func decodePNG(data []byte) (memview.StridedMemoryView, error) {
	m, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return memview.StridedMemoryView{}, err
	}
	rgba := image.NewRGBA(m.Bounds())
	draw.Draw(rgba, rgba.Rect, m, m.Bounds().Min, draw.Src)
	return asArray(rgba)
}
