package memview

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/go-handoff/handoff/dlpack"
)

// Copy copies the elements of src to dst. Shapes and dtypes must be equal, the
// strides may be any. Both views must be host memory; the caller orders the
// access.
//
// The views may overlap: the result is as if src had been read whole before dst
// was written. An overlap other than of two dense blocks makes Copy allocate
// room for the elements; otherwise small copies allocate nothing. Copies of 4
// megabytes or more use up to GOMAXPROCS goroutines. Padded elements narrower
// than a byte are packed and the other way round.
//
// Errors wrap [dlpack.ErrReadOnly], [dlpack.ErrDType], [dlpack.ErrDevice],
// [dlpack.ErrClosed], and [dlpack.ErrLayout] if the shapes differ or dst has
// several indices for one element.
func Copy(dst, src StridedMemoryView) error {
	if err := dst.check("copy", src.dtype, needType|needWrite); err != nil {
		return err
	}
	if err := src.check("copy", dst.dtype, needType); err != nil {
		return err
	}
	if err := sameShape("copy", &dst, &src); err != nil {
		return err
	}
	if dst.layout.empty() {
		return nil // strides of empty arrays are not compared (B029)
	}
	if err := distinct("copy", &dst); err != nil {
		return err
	}
	return moveViews(dst, src)
}

// sameShape refuses views whose extents differ.
func sameShape(op string, dst, src *StridedMemoryView) error {
	if dst.layout.SameShape(src.layout) {
		return nil
	}
	ds, _ := dst.layout.axes()
	ss, _ := src.layout.axes()
	return fail(op, "", dlpack.ErrLayout, "shape "+listOf(ss)+" to shape "+listOf(ds))
}

// distinct refuses a destination with several places for one element.
func distinct(op string, dst *StridedMemoryView) error {
	if dst.layout.unique() {
		return nil
	}
	return fail(op, "R052", dlpack.ErrLayout, dst.layout.String()+" names an element twice")
}

// moveViews copies between host views that were checked, overlapping or not.
func moveViews(dst, src StridedMemoryView) error {
	if MayOverlap(dst, src) {
		if dst.address() == src.address() && dst.layout.Equal(src.layout) {
			return nil
		}
		if !movable(&dst.layout, &src.layout) {
			tmp, err := src.clone(OrderC)
			if err != nil {
				return err
			}
			copyViews(&dst, &tmp)
			return nil
		}
	}
	copyViews(&dst, &src)
	return nil
}

// movable reports whether both layouts are the same dense block, so that one
// memmove does the copy.
func movable(a, b *Layout) bool {
	if a.width != b.width || a.width%8 != 0 {
		return false
	}
	if a.ContiguousC() && b.ContiguousC() {
		return true
	}
	as, at := a.axes()
	_, bt := b.axes()
	for i, n := range as {
		if n != 1 && at[i] != bt[i] {
			return false
		}
	}
	return a.ContiguousAny()
}

// MayOverlap reports whether the ranges of bytes that two views reach have a
// byte in common. It is false for views of different devices that have no
// common memory. Views that interleave without sharing an element count as
// overlapping.
func MayOverlap(a, b StridedMemoryView) bool {
	if a.device != b.device && !(a.HostAccessible() && b.HostAccessible()) {
		return false
	}
	if a.layout.empty() || b.layout.empty() {
		return false
	}
	alo, ahi := a.bytesAt()
	blo, bhi := b.bytesAt()
	return alo < bhi && blo < ahi
}

// bytesAt returns the half-open range of addresses that the view reaches.
func (v *StridedMemoryView) bytesAt() (lo, hi uint64) {
	a, b := v.layout.byteBounds()
	at := uint64(v.address())
	if v.layout.offset != 0 {
		// Addr is that of the first element, bounds count from before it.
		at -= uint64(floorDiv(v.layout.offset*int64(v.layout.width), 8))
	}
	return at + uint64(a), at + uint64(b)
}

// copyPlan is a copy brought into the form that is fastest to run: axes of
// extent 1 dropped, neighbours merged, sorted so that the last axis has the
// smallest stride in dst. Strides are in bytes; those of dst are positive.
type copyPlan struct {
	n       int
	item    int64
	shape   [MaxDims]int64
	dst     [MaxDims]int64
	src     [MaxDims]int64
	dstBase int64 // bytes from the views' addresses to the first element
	srcBase int64
}

// newCopyPlan plans the copy between layouts of equal shape and whole-byte
// elements of one width.
func (p *copyPlan) plan(dst, src *Layout) {
	p.item = int64(dst.width / 8)
	shape, dt := dst.axes()
	_, st := src.axes()
	p.dstBase, p.srcBase = dst.offset*p.item, src.offset*p.item
	p.n = 0
	for i, n := range shape {
		if n == 1 {
			continue
		}
		d, s := dt[i]*p.item, st[i]*p.item
		if d < 0 { // walk this axis backwards on both sides
			p.dstBase += (n - 1) * d
			p.srcBase += (n - 1) * s
			d, s = -d, -s
		}
		// Insert by falling stride of dst.
		k := p.n
		for k > 0 && p.dst[k-1] < d {
			p.shape[k], p.dst[k], p.src[k] = p.shape[k-1], p.dst[k-1], p.src[k-1]
			k--
		}
		p.shape[k], p.dst[k], p.src[k] = n, d, s
		p.n++
	}
	p.merge()
	// What is dense on both sides and as long as a machine word is one item.
	for p.n > 1 && p.dst[p.n-1] == p.item && p.src[p.n-1] == p.item {
		switch run := p.shape[p.n-1] * p.item; run {
		case 2, 4, 8, 16:
			p.item = run
			p.n--
			continue
		}
		break
	}
}

// merge joins neighbouring axes that both sides walk at one pace.
func (p *copyPlan) merge() {
	k := 0
	for i := 1; i < p.n; i++ {
		if p.dst[k] == p.dst[i]*p.shape[i] && p.src[k] == p.src[i]*p.shape[i] {
			p.shape[k] *= p.shape[i]
			p.dst[k], p.src[k] = p.dst[i], p.src[i]
			continue
		}
		k++
		p.shape[k], p.dst[k], p.src[k] = p.shape[i], p.dst[i], p.src[i]
	}
	if p.n > 0 {
		p.n = k + 1
	}
}

// bytes returns the bytes that the copy moves.
func (p *copyPlan) bytes() int64 {
	n := p.item
	for _, e := range p.shape[:p.n] {
		n *= e
	}
	return n
}

const (
	parallelBytes = 4 << 20   // smaller copies stay on the caller's goroutine
	chunkBytes    = 128 << 10 // at least, per piece of work
)

// workers returns how many goroutines a copy of the given size is worth.
func workers(bytes int64) int {
	if bytes < parallelBytes {
		return 1
	}
	return int(min(int64(runtime.GOMAXPROCS(0)), bytes/chunkBytes))
}

// split returns the axis along which the copy is cut into pieces, and the
// extent of a piece. Pieces are several per worker, so that a slow one does
// not hold up the rest, and whole tiles where the axis is long enough.
func (p *copyPlan) split(workers int) (axis int, step int64) {
	for i := range p.n {
		if p.shape[i] > p.shape[axis] {
			axis = i
		}
	}
	if p.shape[0] >= int64(4*workers) {
		axis = 0 // the outermost axis keeps the writers apart
	}
	pieces := min(int64(4*workers), max(p.bytes()/chunkBytes, 1))
	step = (p.shape[axis] + pieces - 1) / pieces
	if step > macroTile {
		step = (step + macroTile - 1) / macroTile * macroTile
	}
	return axis, step
}

// parallel runs the pieces of a copy on several goroutines. run copies the
// plan it is given.
func (p *copyPlan) parallel(n int, run func(piece *copyPlan)) {
	axis, step := p.split(n)
	total := p.shape[axis]
	var next atomic.Int64
	work := func() {
		piece := *p
		for {
			at := next.Add(step) - step
			if at >= total {
				return
			}
			piece.shape[axis] = min(step, total-at)
			piece.dstBase = p.dstBase + at*p.dst[axis]
			piece.srcBase = p.srcBase + at*p.src[axis]
			run(&piece)
		}
	}
	var wg sync.WaitGroup
	for range n - 1 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			work()
		}()
	}
	work()
	wg.Wait()
}

// CopyToSlice copies the elements in C order into a slice, which must have as
// many. Errors are those of [Copy].
func CopyToSlice[T Element](dst []T, src StridedMemoryView) error {
	v, err := flatAs(dst, &src)
	if err != nil {
		return err
	}
	return Copy(v, src)
}

// CopyFromSlice copies a slice into the elements of dst in C order. The slice
// must have as many elements. Errors are those of [Copy].
func CopyFromSlice[T Element](dst StridedMemoryView, src []T) error {
	v, err := flatAs(src, &dst)
	if err != nil {
		return err
	}
	return Copy(dst, v)
}

// flatAs returns s as a view of the shape of v.
func flatAs[T Element](s []T, v *StridedMemoryView) (StridedMemoryView, error) {
	if n := v.layout.size(); n != int64(len(s)) || v.layout.width == 0 {
		return StridedMemoryView{}, fail("copy", "", dlpack.ErrLayout, "a slice of "+listOf([]int64{int64(len(s))})+" elements for "+v.layout.String())
	}
	w, err := FromSlice(s)
	if err != nil {
		return StridedMemoryView{}, err
	}
	l, err := v.layout.Dense(OrderC)
	if err != nil {
		return StridedMemoryView{}, err
	}
	l.width = w.layout.width
	w.layout = l
	return w, nil
}

// Clone copies the elements into new Go memory, dense in the given order;
// OrderK keeps the order of axes. The result is writable, whatever v is, and
// has nothing to release. Errors are those of [Copy].
func (v StridedMemoryView) Clone(order Order) (StridedMemoryView, error) {
	if err := v.check("clone", v.dtype, needRead); err != nil {
		return StridedMemoryView{}, err
	}
	return v.clone(order)
}

func (v *StridedMemoryView) clone(order Order) (StridedMemoryView, error) {
	l, err := v.layout.Dense(order)
	if err != nil {
		return StridedMemoryView{}, err
	}
	w, err := makeGo("clone", v.dtype, v.flags&dlpack.FlagSubbyteTypePadded, &l)
	if err != nil {
		return StridedMemoryView{}, err
	}
	if !l.empty() {
		copyViews(&w, v)
	}
	return w, nil
}

// Make returns a view of new, cleared Go memory in C order. Elements narrower
// than a byte are packed. It fails with [dlpack.ErrDType] for a malformed dtype,
// and with [dlpack.ErrLayout] or [dlpack.ErrOverflow] for a shape that cannot
// be.
func Make(dtype dlpack.DataType, shape ...int64) (StridedMemoryView, error) {
	if err := dtype.Check(); err != nil {
		return StridedMemoryView{}, fail("make", "", err, "")
	}
	l, err := newLayout("make", shape, nil, widthOf(dtype, false))
	if err != nil {
		return StridedMemoryView{}, err
	}
	return makeGo("make", dtype, 0, &l)
}
