package memview

import (
	"runtime"
	"strconv"
	"unsafe"

	"github.com/go-handoff/handoff/dlpack"
)

// maxGoBytes is more than the Go runtime can hand out: above it, make panics.
const maxGoBytes = 1 << (30 + 17*(^uint(0)>>63)) // 1<<30 on 32-bit machines, 1<<47 else

// makeGo returns a view of new Go memory for a dense layout.
func makeGo(op string, dtype dlpack.DataType, flags dlpack.Flags, l *Layout) (StridedMemoryView, error) {
	v := StridedMemoryView{dtype: dtype, flags: flags, device: dlpack.Device{Type: dlpack.DeviceCPU}, layout: *l}
	n := l.NumBytes()
	if n > maxGoBytes {
		return StridedMemoryView{}, fail(op, "R034", dlpack.ErrOverflow, strconv.FormatInt(n, 10)+" bytes")
	}
	// Complex numbers of 16 bytes are the element with the strictest
	// alignment that Go has to offer.
	v.base = (*byte)(unsafe.Pointer(unsafe.SliceData(make([]complex128, (n+15)/16)))) // SAFETY: new memory of at least n bytes.
	return v, nil
}

// copyViews copies between host views of one shape and dtype that are not
// empty and do not overlap, except as one dense block.
func copyViews(dst, src *StridedMemoryView) {
	d, s := dst.pointer(), src.pointer()
	defer runtime.KeepAlive(dst)
	defer runtime.KeepAlive(src)
	if dst.layout.width%8 != 0 || src.layout.width != dst.layout.width {
		copyBits(d, s, &dst.layout, &src.layout, int64(dst.dtype.BitsPerElement()))
		return
	}
	var p copyPlan
	p.plan(&dst.layout, &src.layout)
	if n := workers(p.bytes()); n > 1 && p.n > 0 && !MayOverlap(*dst, *src) {
		copyParallel(d, s, p, n)
		return
	}
	p.run(d, s)
}

// copyParallel is apart so that only large copies pay for what it allocates.
//
//go:noinline
func copyParallel(d, s unsafe.Pointer, p copyPlan, n int) {
	p.parallel(n, func(piece *copyPlan) { piece.run(d, s) })
}

// run does the copy. d and s are the addresses that the views' layouts count from.
func (p *copyPlan) run(d, s unsafe.Pointer) {
	unit := p.item
	if !unalignedOK && (p.misaligned() || (uintptr(d)|uintptr(s))%uintptr(min(p.item, 8)) != 0) {
		unit = 0 // copied as bytes
	}
	switch unit {
	case 1:
		runCopy[uint8](p, d, s)
	case 2:
		runCopy[uint16](p, d, s)
	case 4:
		runCopy[uint32](p, d, s)
	case 8:
		runCopy[uint64](p, d, s)
	case 16:
		runCopy[[2]uint64](p, d, s)
	default:
		runCopyBytes(p, d, s)
	}
}

// misaligned reports whether a stride or base leaves the alignment of items.
func (p *copyPlan) misaligned() bool {
	m := p.dstBase | p.srcBase
	for i := range p.n {
		m |= p.dst[i] | p.src[i]
	}
	return m%min(p.item, 8) != 0
}

// The functions below walk offsets, not pointers: a pointer one step past the
// last element might point into somebody else's memory.

// runCopy runs a plan with items of type T.
func runCopy[T any](p *copyPlan, d, s unsafe.Pointer) {
	n := p.n
	if n == 0 {
		// SAFETY: the one element of both views.
		*(*T)(unsafe.Add(d, p.dstBase)) = *(*T)(unsafe.Add(s, p.srcBase))
		return
	}
	last := n - 1
	if p.dst[last] == p.item && p.src[last] == p.item {
		p.runRows(d, s)
		return
	}
	// The axis that src walks in the smallest steps, if it is another one,
	// makes a transpose of two axes, done in tiles.
	k := last
	for i := range last {
		if magnitude(p.src[i]) < magnitude(p.src[k]) && p.src[i] != 0 {
			k = i
		}
	}
	if k == last || p.src[last] == 0 {
		count, ds, ss := p.shape[last], p.dst[last], p.src[last]
		p.outer(last, -1, func(do, so int64) { copyStrided[T](d, s, do, so, count, ds, ss) })
		return
	}
	if p.shape[k] < tile || p.shape[last] < tile {
		// Too thin for tiles, such as the channels of an image: run along the
		// longer of the two axes.
		long, short := last, k
		if p.shape[k] > p.shape[last] {
			long, short = k, last
		}
		p.outer(long, short, func(do, so int64) { copyThin[T](d, s, do, so, p, long, short) })
		return
	}
	t := tiles{rows: p.shape[last], cols: p.shape[k], dstRow: p.dst[k], dstCol: p.dst[last], srcRow: p.src[last], srcCol: p.src[k]}
	if t.srcCol < 0 {
		// Walk that axis the other way, so that src is read forwards.
		p.dstBase += (t.cols - 1) * t.dstRow
		p.srcBase += (t.cols - 1) * t.srcCol
		t.dstRow, t.srcCol = -t.dstRow, -t.srcCol
	}
	dense := t.srcCol == p.item && t.dstCol == p.item
	p.outer(last, k, func(do, so int64) { transpose[T](d, s, do, so, &t, dense) })
}

// outer calls f with the offsets of every combination of the axes other than
// a and b.
func (p *copyPlan) outer(a, b int, f func(do, so int64)) {
	var axes [MaxDims]int
	n := 0
	for i := range p.n {
		if i != a && i != b {
			axes[n] = i
			n++
		}
	}
	do, so := p.dstBase, p.srcBase
	var ix [MaxDims]int64
	for {
		f(do, so)
		i := n - 1
		for ; i >= 0; i-- {
			a := axes[i]
			do += p.dst[a]
			so += p.src[a]
			if ix[i]++; ix[i] < p.shape[a] {
				break
			}
			do -= p.dst[a] * p.shape[a]
			so -= p.src[a] * p.shape[a]
			ix[i] = 0
		}
		if i < 0 {
			return
		}
	}
}

// shortRow is the length in bytes up to which rows are copied in line: a call
// of memmove for each takes longer than the row.
const shortRow = 128

// runRows runs a plan whose last axis is dense on both sides.
func (p *copyPlan) runRows(d, s unsafe.Pointer) {
	last := p.n - 1
	run := p.shape[last] * p.item
	if run > shortRow || p.n == 1 || !unalignedOK {
		p.outer(last, -1, func(do, so int64) { moveBytes(d, s, do, so, run) })
		return
	}
	// Along the longest of the other axes, so that the loop is entered seldom.
	long := last - 1
	for i := range last {
		if p.shape[i] > p.shape[long] {
			long = i
		}
	}
	n, ds, ss := p.shape[long], p.dst[long], p.src[long]
	p.outer(last, long, func(do, so int64) { copyRows(d, s, do, so, n, run, ds, ss) })
}

// copyRows copies n rows of run bytes, 1 to shortRow, by words that overlap at
// the end of the row where its length is none of theirs.
func copyRows(d, s unsafe.Pointer, do, so, n, run, ds, ss int64) {
	switch {
	case run == 32:
		copyStrided[[4]uint64](d, s, do, so, n, ds, ss)
	case run == 64:
		copyStrided[[8]uint64](d, s, do, so, n, ds, ss)
	case run >= 16:
		copyRowsOf[[2]uint64](d, s, do, so, n, run, ds, ss)
	case run >= 8:
		copyRowsOf[uint64](d, s, do, so, n, run, ds, ss)
	case run >= 4:
		copyRowsOf[uint32](d, s, do, so, n, run, ds, ss)
	case run >= 2:
		copyRowsOf[uint16](d, s, do, so, n, run, ds, ss)
	default:
		copyStrided[uint8](d, s, do, so, n, ds, ss)
	}
}

// copyRowsOf copies rows of at least one word T.
func copyRowsOf[T any](d, s unsafe.Pointer, do, so, n, run, ds, ss int64) {
	var word T
	size := int64(unsafe.Sizeof(word))
	end := run - size
	for ; n > 0; n-- {
		for at := int64(0); at < end; at += size {
			// SAFETY: inside of a row of both views, here and below.
			*(*T)(unsafe.Add(d, do+at)) = *(*T)(unsafe.Add(s, so+at))
		}
		*(*T)(unsafe.Add(d, do+end)) = *(*T)(unsafe.Add(s, so+end))
		do += ds
		so += ss
	}
}

func moveBytes(d, s unsafe.Pointer, do, so, n int64) {
	// SAFETY: a dense run of n bytes within both views.
	copy(unsafe.Slice((*byte)(unsafe.Add(d, do)), n), unsafe.Slice((*byte)(unsafe.Add(s, so)), n))
}

// copyStrided copies n elements, four at a time where there are as many.
//
//go:noinline
func copyStrided[T any](d, s unsafe.Pointer, do, so, n, ds, ss int64) {
	for ; n >= 4; n -= 4 {
		// SAFETY: elements of both views, here and below.
		a := *(*T)(unsafe.Add(s, so))
		b := *(*T)(unsafe.Add(s, so+ss))
		c := *(*T)(unsafe.Add(s, so+2*ss))
		e := *(*T)(unsafe.Add(s, so+3*ss))
		*(*T)(unsafe.Add(d, do)) = a
		*(*T)(unsafe.Add(d, do+ds)) = b
		*(*T)(unsafe.Add(d, do+2*ds)) = c
		*(*T)(unsafe.Add(d, do+3*ds)) = e
		do += 4 * ds
		so += 4 * ss
	}
	for ; n > 0; n-- {
		*(*T)(unsafe.Add(d, do)) = *(*T)(unsafe.Add(s, so))
		do += ds
		so += ss
	}
}

// copyThin copies two axes in runs along the long one, short enough for what
// the short axis touches again to be in the cache.
func copyThin[T any](d, s unsafe.Pointer, do, so int64, p *copyPlan, long, short int) {
	const run = 1024
	for at := int64(0); at < p.shape[long]; at += run {
		n := min(run, p.shape[long]-at)
		for i := range p.shape[short] {
			copyStrided[T](d, s, do+at*p.dst[long]+i*p.dst[short], so+at*p.src[long]+i*p.src[short], n, p.dst[long], p.src[long])
		}
	}
}

// runCopyBytes runs a plan with items of any size.
func runCopyBytes(p *copyPlan, d, s unsafe.Pointer) {
	if p.n == 0 {
		moveBytes(d, s, p.dstBase, p.srcBase, p.item)
		return
	}
	last := p.n - 1
	if p.dst[last] == p.item && p.src[last] == p.item {
		p.runRows(d, s)
		return
	}
	count, ds, ss := p.shape[last], p.dst[last], p.src[last]
	p.outer(last, -1, func(do, so int64) {
		for range count {
			moveBytes(d, s, do, so, p.item)
			do += ds
			so += ss
		}
	})
}

// tiles is a transpose: dst[j*dstRow+i*dstCol] = src[i*srcRow+j*srcCol] for i
// below rows and j below cols, in bytes.
type tiles struct {
	rows, cols     int64
	dstRow, dstCol int64
	srcRow, srcCol int64
}

// macroTile is the edge of the squares, in elements, that a transpose works
// through one by one: the pages of both sides fit into the TLB.
const macroTile = 128

// tile is the edge of the small squares: with 4-byte items a row of one is a
// cache line, read once and written once.
const tile = 16

func transpose[T any](d, s unsafe.Pointer, do, so int64, t *tiles, dense bool) {
	for j0 := int64(0); j0 < t.cols; j0 += macroTile {
		for i0 := int64(0); i0 < t.rows; i0 += macroTile {
			m := *t
			m.rows, m.cols = min(macroTile, t.rows-i0), min(macroTile, t.cols-j0)
			mdo, mso := do+j0*t.dstRow+i0*t.dstCol, so+i0*t.srcRow+j0*t.srcCol
			if dense {
				transposeMacro[T](d, s, mdo, mso, &m)
			} else {
				transposeStrided[T](d, s, mdo, mso, 0, m.rows, 0, m.cols, &m)
			}
		}
	}
}

// transposeMacro handles one large square of a dense transpose.
func transposeMacro[T any](d, s unsafe.Pointer, do, so int64, t *tiles) {
	var item T
	size := int64(unsafe.Sizeof(item))
	rows, cols := t.rows/tile*tile, t.cols/tile*tile
	var buf [tile][tile]T
	for j := int64(0); j < cols; j += tile {
		for i := int64(0); i < rows; i += tile {
			// SAFETY: a square of tile by tile elements of both views.
			transposeTile[T](unsafe.Add(d, do+j*t.dstRow+i*size), unsafe.Add(s, so+i*t.srcRow+j*size), t.dstRow, t.srcRow, &buf)
		}
	}
	transposeStrided[T](d, s, do, so, 0, rows, cols, t.cols, t)
	transposeStrided[T](d, s, do, so, rows, t.rows, 0, t.cols, t)
}

// transposeTile transposes one small square through a buffer, so that every
// cache line of both sides is touched once. It is not inlined, so that its
// loop has the registers for itself.
//
//go:noinline
func transposeTile[T any](d, s unsafe.Pointer, dstRow, srcRow int64, buf *[tile][tile]T) {
	for i := range tile {
		// SAFETY: row i of the square in src.
		row := (*[tile]T)(s)
		buf[0][i] = row[0]
		buf[1][i] = row[1]
		buf[2][i] = row[2]
		buf[3][i] = row[3]
		buf[4][i] = row[4]
		buf[5][i] = row[5]
		buf[6][i] = row[6]
		buf[7][i] = row[7]
		buf[8][i] = row[8]
		buf[9][i] = row[9]
		buf[10][i] = row[10]
		buf[11][i] = row[11]
		buf[12][i] = row[12]
		buf[13][i] = row[13]
		buf[14][i] = row[14]
		buf[15][i] = row[15]
		if i < tile-1 {
			s = unsafe.Add(s, srcRow) // SAFETY: the next row.
		}
	}
	for j := range tile {
		// SAFETY: row j of the square in dst.
		*(*[tile]T)(unsafe.Add(d, int64(j)*dstRow)) = buf[j]
	}
}

// transposeStrided handles a part of a square element by element.
func transposeStrided[T any](d, s unsafe.Pointer, do, so, i0, i1, j0, j1 int64, t *tiles) {
	for j := j0; j < j1; j++ {
		copyStrided[T](d, s, do+j*t.dstRow+i0*t.dstCol, so+j*t.srcCol+i0*t.srcRow, i1-i0, t.dstCol, t.srcRow)
	}
}

// copyBits copies elements of bits bits that do not fill whole bytes, packed
// or padded on either side.
func copyBits(d, s unsafe.Pointer, dst, src *Layout, bits int64) {
	dw, sw := int64(dst.width), int64(src.width)
	if dw == sw && dst.offset == 0 && src.offset == 0 && dst.ContiguousC() && src.ContiguousC() {
		total := dst.Size() * dw
		moveBytes(d, s, 0, 0, total/8)
		if rest := uint(total % 8); rest != 0 {
			storeBits(d, total/8*8, rest, loadBits(s, total/8*8, rest))
		}
		return
	}
	shape, dt := dst.axes()
	_, st := src.axes()
	var ix [MaxDims]int64
	do, so := dst.offset, src.offset
	for {
		for b := int64(0); b < bits; b += 8 {
			n := uint(min(bits-b, 8))
			storeBits(d, do*dw+b, n, loadBits(s, so*sw+b, n))
		}
		i := len(shape) - 1
		for ; i >= 0; i-- {
			do += dt[i]
			so += st[i]
			if ix[i]++; ix[i] < shape[i] {
				break
			}
			do -= dt[i] * shape[i]
			so -= st[i] * shape[i]
			ix[i] = 0
		}
		if i < 0 {
			return
		}
	}
}
