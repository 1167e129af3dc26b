// Command images is the Python module goimages: pictures of package image as
// arrays, and arrays as pictures. images.py beside this file uses it.
//
// It shows a Go data structure handed out as an array over its own memory, and a
// strided array taken as such a structure, windows of larger arrays included.
//
// It needs a C compiler; `make` builds it as a shared object.
package main

import "github.com/go-handoff/handoff/python/ext"

var module = ext.New("goimages", "Pictures of Go's image package as arrays.").
	Func("new(width, height)", newPicture, "Returns an empty picture as an array of uint8 [height width 4].").
	Func("fill(picture, x0, y0, x1, y1, r, g, b, a=255)", fill, "Draws a filled rectangle.").
	Func("pixel(picture, x, y)", pixel, "Returns (r, g, b, a).").
	Func("encode_png(picture)", encodePNG, "Returns a PNG file as bytes.").
	Func("decode_png(data)", decodePNG, "Returns the picture of a PNG file.")

func main() {}
