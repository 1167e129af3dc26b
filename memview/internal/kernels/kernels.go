// Package kernels has the device code of memview's copies: copy.cu, and the
// PTX that gen.py makes of it with NVRTC. Package memview/softcopy has the same
// kernels in Go, for the software device.
package kernels

import (
	_ "embed"
	"strconv"
)

//go:generate python3 gen.py

//go:embed zcopy.ptx
var ptx string

// PTX returns the device code, with the zero byte that the driver wants.
func PTX() []byte { return append([]byte(ptx), 0) }

// Axes is the number of axes that one launch can copy.
const Axes = 8

// Args is the parameter of every kernel: struct ho_args in copy.cu.
type Args struct {
	Dst, Src         uint64 // addresses of the first element
	Count            uint64 // elements
	Shape            [Axes]uint64
	DstStep, SrcStep [Axes]int64 // bytes
	N                uint32      // axes, at least 1
	_                uint32
}

// ArgsSize is the size of Args in bytes.
const ArgsSize = 3*8 + 3*Axes*8 + 8

// Widths are the sizes of elements that there are kernels for.
var Widths = [5]int64{1, 2, 4, 8, 16}

// Strided returns the name of the kernel for any strides. wide is the one for
// more elements than 31 bits can count.
func Strided(width int64, wide bool) string {
	bits := "_32"
	if wide {
		bits = "_64"
	}
	return "ho_copy_strided_" + strconv.FormatInt(width, 10) + bits
}

// Tile is a kernel for copies whose last axis is dense in dst, and the one
// before it dense in src. A block moves a tile.
type Tile struct {
	Name       string
	Width      int64 // bytes of an element
	Word       int64 // bytes to which all addresses and steps have to be aligned
	Rows, Cols int64 // of a tile: along the axis that is dense in src, and in dst
	// Lead is how many columns a tile of dst may lie to the left, so that there may
	// be one more of them.
	Lead int64
}

// Tiles lists those kernels, the faster ones of a width first. The last one of
// a width suits every copy; the others those that fill their tiles.
var Tiles = [...]Tile{
	tile(1, 8, 256, 128), tile(1, 4, 128, 64), shifted(1, 128, 128), tile(1, 1, 64, 64),
	tile(2, 8, 128, 128), tile(2, 8, 64, 64), shifted(2, 128, 64), tile(2, 2, 64, 64),
	tile(4, 8, 64, 64), shifted(4, 64, 64), tile(4, 4, 64, 64),
	tile(8, 8, 64, 64), tile(8, 8, 32, 32),
	tile(16, 16, 32, 16),
}

func tile(width, word, rows, cols int64) Tile {
	return Tile{"ho_copy_transpose_" + text(width) + "_" + text(word) + "_" + text(rows) + "x" + text(cols), width, word, rows, cols, 0}
}

func shifted(width, rows, cols int64) Tile {
	return Tile{"ho_copy_shifted_" + text(width) + "_" + text(rows) + "x" + text(cols), width, width, rows, cols, Sector/width - 1}
}

func text(n int64) string { return strconv.FormatInt(n, 10) }

// Sector is the size of what memory is written in: rows that are aligned to less
// have sectors that are written in parts.
const Sector = 32

// Pick returns the kernel for elements of a width, and nil if there is none. All
// addresses and steps but the dense ones are multiples of align; the two dense axes
// have rows (in src) and cols (in dst) elements.
func Pick(width, align, rows, cols int64) *Tile {
	var last *Tile
	for i := range Tiles {
		t := &Tiles[i]
		if t.Width != width {
			continue
		}
		// Of 4 bytes the shifting one is faster wherever there are such sectors.
		shift := width == 4 && align%Sector != 0 && rows >= 64 && cols >= 64
		if align%t.Word == 0 && rows >= t.Rows && cols >= t.Cols && (t.Lead > 0 || !shift) {
			return t
		}
		last = t
	}
	return last
}

// Names returns the names of all kernels.
func Names() []string {
	var n []string
	for _, w := range Widths {
		n = append(n, Strided(w, false), Strided(w, true))
	}
	for _, t := range Tiles {
		n = append(n, t.Name)
	}
	return n
}

var soft func() []byte

// SetSoft is called by package memview/softcopy when it is linked in: image
// makes code for the software device.
func SetSoft(image func() []byte) { soft = image }

// Soft returns code for the software device, or nil if package softcopy is not
// linked in.
func Soft() []byte {
	if soft == nil {
		return nil
	}
	return soft()
}
