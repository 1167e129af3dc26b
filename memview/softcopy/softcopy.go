// Package softcopy gives the software device the kernels that copies of package
// memview use on a GPU. A program that runs them on the software device imports
// it for its side effect:
//
//	import _ "github.com/go-handoff/handoff/memview/softcopy"
//
// Linking it in changes nothing on a GPU.
package softcopy

import (
	"encoding/binary"

	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/memview/internal/kernels"
)

func init() {
	register := func(name string, width int64) {
		err := soft.RegisterKernel(name, []soft.ParamInfo{{Size: kernels.ArgsSize, Align: 8}}, func(l *soft.Launch) { run(l, uint64(width)) })
		if err != nil {
			panic(err) // the names are constants
		}
	}
	for _, w := range kernels.Widths {
		register(kernels.Strided(w, false), w)
		register(kernels.Strided(w, true), w)
	}
	for _, t := range kernels.Tiles {
		register(t.Name, t.Width)
	}
	kernels.SetSoft(func() []byte { return soft.Image(kernels.Names()...) })
}

// exact is the number of pieces up to which the device is told exactly which
// bytes a kernel touches. Above it is told the span, gaps included.
const exact = 1 << 12

// run copies element by element, in the order of dst.
func run(l *soft.Launch, width uint64) {
	var a kernels.Args
	if _, err := binary.Decode(l.Arg(0), binary.NativeEndian, &a); err != nil {
		l.Fail(1)
	}
	n := int(a.N)
	if n < 1 || n > kernels.Axes || a.Count == 0 {
		return
	}
	// The last axis is one piece where it is dense on both sides.
	piece, axes := width, n
	if a.DstStep[n-1] == int64(width) && a.SrcStep[n-1] == int64(width) {
		piece, axes = width*a.Shape[n-1], n-1
	}
	pieces := uint64(1)
	for _, e := range a.Shape[:axes] {
		pieces *= e
	}
	var src, dst func(off int64) []byte
	if pieces <= exact {
		src = func(off int64) []byte { return l.Read(a.Src+uint64(off), piece) }
		dst = func(off int64) []byte { return l.Write(a.Dst+uint64(off), piece) }
	} else {
		src = span(a.Src, a.Shape[:axes], a.SrcStep[:axes], piece, l.Read)
		dst = span(a.Dst, a.Shape[:axes], a.DstStep[:axes], piece, l.Write)
	}
	var index [kernels.Axes]uint64
	var from, to int64
	for range pieces {
		copy(dst(to), src(from))
		for k := axes - 1; k >= 0; k-- {
			index[k]++
			from += a.SrcStep[k]
			to += a.DstStep[k]
			if index[k] < a.Shape[k] {
				break
			}
			from -= int64(index[k]) * a.SrcStep[k]
			to -= int64(index[k]) * a.DstStep[k]
			index[k] = 0
		}
	}
}

// span asks for all bytes that a side reaches at once.
func span(addr uint64, shape []uint64, steps []int64, piece uint64, get func(addr, n uint64) []byte) func(off int64) []byte {
	var lo, hi int64
	for i, e := range shape {
		if r := int64(e-1) * steps[i]; r < 0 {
			lo += r
		} else {
			hi += r
		}
	}
	b := get(addr+uint64(lo), uint64(hi-lo)+piece)
	return func(off int64) []byte { return b[off-lo:][:piece] }
}
