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

// Transpose returns the name of the kernel for copies whose last axis is dense
// in dst, and the one before it dense in src.
func Transpose(width int64) string { return "ho_copy_transpose_" + strconv.FormatInt(width, 10) }

// Tile returns the edge of the square that one block of a transposing kernel
// moves.
func Tile(width int64) int64 {
	if width == 16 {
		return 32
	}
	return 64
}

// Names returns the names of all kernels.
func Names() []string {
	var n []string
	for _, w := range Widths {
		n = append(n, Strided(w, false), Strided(w, true), Transpose(w))
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
