package memview

import (
	"strconv"

	"github.com/go-handoff/handoff/dlpack"
)

// axis returns i counted from the front, or an error if it is out of range
// for n axes.
func axisOf(op string, i, n int) (int, error) {
	k := i
	if k < 0 {
		k += n
	}
	if k < 0 || k >= n {
		return 0, fail(op, "", dlpack.ErrLayout, "axis "+strconv.Itoa(i)+" is out of range for "+strconv.Itoa(n)+" axes")
	}
	return k, nil
}

// permInto checks that perm names each axis once and stores it.
func (l *Layout) permInto(op string, perm []int, out *[MaxDims]int8) error {
	if len(perm) != int(l.ndim) {
		return fail(op, "", dlpack.ErrLayout, strconv.Itoa(len(perm))+" axes named, the layout has "+strconv.Itoa(int(l.ndim)))
	}
	var seen uint64
	for i, p := range perm {
		a, err := axisOf(op, p, int(l.ndim))
		if err != nil {
			return err
		}
		if seen&(1<<a) != 0 {
			return fail(op, "", dlpack.ErrLayout, "axis "+strconv.Itoa(p)+" is named twice")
		}
		seen |= 1 << a
		out[i] = int8(a)
	}
	return nil
}

// Permute reorders the axes: axis i of the result is axis perm[i] of l.
// Negative axes count from the end. It fails with [dlpack.ErrLayout] unless
// perm names each axis once.
func (l Layout) Permute(perm ...int) (Layout, error) {
	var order [MaxDims]int8
	if err := l.permInto("permute", perm, &order); err != nil {
		return Layout{}, err
	}
	out := blank(int(l.ndim), l.width, l.offset)
	shape, steps := l.axes()
	sh, st := out.axes()
	for i := range sh {
		sh[i], st[i] = shape[order[i]], steps[order[i]]
	}
	return out, nil
}

// Transpose reverses the order of the axes.
func (l Layout) Transpose() Layout {
	out := blank(int(l.ndim), l.width, l.offset)
	shape, steps := l.axes()
	sh, st := out.axes()
	for i := range sh {
		j := len(sh) - 1 - i
		sh[i], st[i] = shape[j], steps[j]
	}
	return out
}

// Squeeze drops axes of extent 1: the named ones, or all if none is named. It
// fails with [dlpack.ErrLayout] if a named axis does not exist, is named
// twice, or has another extent.
func (l Layout) Squeeze(axes ...int) (Layout, error) {
	shape, steps := l.axes()
	var drop uint64
	if len(axes) == 0 {
		for i, n := range shape {
			if n == 1 {
				drop |= 1 << i
			}
		}
	}
	for _, a := range axes {
		i, err := axisOf("squeeze", a, int(l.ndim))
		if err != nil {
			return Layout{}, err
		}
		if drop&(1<<i) != 0 {
			return Layout{}, fail("squeeze", "", dlpack.ErrLayout, "axis "+strconv.Itoa(a)+" is named twice")
		}
		if shape[i] != 1 {
			return Layout{}, fail("squeeze", "", dlpack.ErrLayout,
				"axis "+strconv.Itoa(a)+" has extent "+strconv.FormatInt(shape[i], 10)+", not 1")
		}
		drop |= 1 << i
	}
	left := 0
	for i := range shape {
		if drop&(1<<i) == 0 {
			left++
		}
	}
	out := blank(left, l.width, l.offset)
	sh, st := out.axes()
	k := 0
	for i := range shape {
		if drop&(1<<i) == 0 {
			sh[k], st[k] = shape[i], steps[i]
			k++
		}
	}
	return out, nil
}

// Unsqueeze adds axes of extent 1 so that they stand at the given places of
// the result; negative places count from the end of the result. It fails with
// [dlpack.ErrLayout] if a place does not exist, is named twice, or the result
// has more than [MaxDims] axes.
func (l Layout) Unsqueeze(axes ...int) (Layout, error) {
	ndim := int(l.ndim) + len(axes)
	if ndim > MaxDims {
		return Layout{}, fail("unsqueeze", "R255", dlpack.ErrLayout, strconv.Itoa(ndim)+" axes are more than 64")
	}
	var added uint64
	for _, a := range axes {
		i, err := axisOf("unsqueeze", a, ndim)
		if err != nil {
			return Layout{}, err
		}
		if added&(1<<i) != 0 {
			return Layout{}, fail("unsqueeze", "", dlpack.ErrLayout, "axis "+strconv.Itoa(a)+" is named twice")
		}
		added |= 1 << i
	}
	out := blank(ndim, l.width, l.offset)
	shape, steps := l.axes()
	sh, st := out.axes()
	k := 0
	for i := range sh {
		if added&(1<<i) != 0 {
			sh[i] = 1
			if k < len(shape) {
				// The stride that keeps C order readable in C order.
				if s, ok := mul(shape[k], steps[k]); ok {
					st[i] = s
				}
			} else {
				st[i] = 1
			}
			continue
		}
		sh[i], st[i] = shape[k], steps[k]
		k++
	}
	return out, nil
}

// Broadcast stretches the layout to a shape: axes are matched from the last
// one, axes of extent 1 and missing leading axes repeat with stride 0. It
// fails with [dlpack.ErrLayout] for fewer axes than l has or an extent that
// does not match, and with [dlpack.ErrOverflow] if the size passes 64 bits.
func (l Layout) Broadcast(shape ...int64) (Layout, error) {
	if len(shape) > MaxDims {
		return Layout{}, fail("broadcast", "R255", dlpack.ErrLayout, strconv.Itoa(len(shape))+" axes are more than 64")
	}
	missing := len(shape) - int(l.ndim)
	if missing < 0 {
		return Layout{}, fail("broadcast", "", dlpack.ErrLayout,
			strconv.Itoa(int(l.ndim))+" axes do not fit into shape "+listOf(shape))
	}
	out := blank(len(shape), l.width, l.offset)
	from, steps := l.axes()
	sh, st := out.axes()
	for i, n := range shape {
		if n < 0 {
			return Layout{}, fail("broadcast", "R034", dlpack.ErrLayout, "extent "+strconv.FormatInt(n, 10)+" is negative")
		}
		sh[i] = n
		switch k := i - missing; {
		case k < 0:
		case from[k] == n:
			st[i] = steps[k]
		case from[k] != 1:
			return Layout{}, fail("broadcast", "", dlpack.ErrLayout,
				"shape "+listOf(from)+" cannot be broadcast to "+listOf(shape))
		}
	}
	n, ok := product(sh)
	if ok {
		_, ok = bytesFor(n, l.width)
	}
	if !ok {
		return Layout{}, fail("broadcast", "R034", dlpack.ErrOverflow, "size of shape "+listOf(shape)+" passes 64 bits")
	}
	return out, nil
}

// Reshape gives the elements, taken in C order, another shape over the same
// memory. One extent may be -1 and is computed. It fails with
// [dlpack.ErrLayout] if the number of elements differs (B037), an extent is
// negative or cannot be computed, and with [dlpack.ErrCopy] if the strides
// would need a copy.
func (l Layout) Reshape(shape ...int64) (Layout, error) {
	if len(shape) > MaxDims {
		return Layout{}, fail("reshape", "R255", dlpack.ErrLayout, strconv.Itoa(len(shape))+" axes are more than 64")
	}
	out := blank(len(shape), l.width, l.offset)
	sh, st := out.axes()
	copy(sh, shape)
	size := l.size()
	infer := -1
	for i, n := range sh {
		if n == -1 && infer < 0 {
			infer = i
			sh[i] = 1
		} else if n < 0 {
			return Layout{}, fail("reshape", "R034", dlpack.ErrLayout, "extent "+strconv.FormatInt(n, 10)+" of shape "+listOf(shape))
		}
	}
	rest, ok := product(sh)
	if infer >= 0 && ok {
		if rest == 0 || size%rest != 0 {
			return Layout{}, fail("reshape", "", dlpack.ErrLayout,
				"extent -1 of shape "+listOf(shape)+" has no single value for "+strconv.FormatInt(size, 10)+" elements")
		}
		sh[infer] = size / rest
		rest = size
	}
	if !ok || rest != size {
		return Layout{}, fail("reshape", "", dlpack.ErrLayout,
			strconv.FormatInt(size, 10)+" elements do not fill shape "+listOf(shape))
	}
	if size == 0 {
		denseSteps(sh, st, OrderC)
		return out, nil
	}
	from, steps := l.axes()
	if !splitMerge(from, steps, sh, st) {
		return Layout{}, fail("reshape", "", dlpack.ErrCopy,
			"shape "+listOf(from)+" with strides "+listOf(steps)+" becomes "+listOf(shape)+" only by a copy")
	}
	return out, nil
}

// splitMerge computes the strides st of shape sh so that the elements of
// (from, steps) come in the same C order, or returns false. Both hold the
// same number of elements, at least one.
//
// Both shapes are cut into the smallest groups of axes with equal products.
// The axes of a group on the old side must merge into one run of constant
// stride; then the new side can split that run in any way.
func splitMerge(from, steps, sh, st []int64) bool {
	i, j := 0, 0
	for i < len(from) || j < len(sh) {
		i0, j0 := i, j
		a, b := int64(1), int64(1)
		if i < len(from) {
			a = from[i]
			i++
		}
		if j < len(sh) {
			b = sh[j]
			j++
		}
		for a != b {
			if a < b {
				a *= from[i]
				i++
			} else {
				b *= sh[j]
				j++
			}
		}
		// The stride of the run and proof that it is one: each moving axis
		// must step over exactly what the next moving axis spans.
		step, span := int64(0), int64(0)
		for k := i - 1; k >= i0; k-- {
			if from[k] == 1 {
				continue
			}
			if span != 0 && steps[k] != span*step {
				return false
			}
			if span == 0 {
				step, span = steps[k], 1
			}
			span *= from[k]
		}
		if span == 0 {
			step = 1 // a group of extent 1: any stride will do
			if j0 > 0 {
				step = st[j0-1]
			}
		}
		run := int64(1)
		for k := j - 1; k >= j0; k-- {
			st[k] = step * run
			run *= sh[k]
		}
	}
	return true
}

// FlattenMask tells which axes [Layout.Flatten] can merge into the axis on
// their left: bit i stands for axis i, bit 0 is never set. The masks of
// layouts of one shape may be combined with "and", to flatten all of them in
// the same way.
func (l Layout) FlattenMask() uint64 {
	shape, steps := l.axes()
	var mask uint64
	empty := l.empty()
	step := int64(0) // stride of the nearest moving axis of the current run
	moving := false
	for i, n := range shape {
		fits := false
		if i > 0 {
			if n == 1 || !moving || empty {
				fits = true
			} else if span, ok := mul(n, steps[i]); ok {
				fits = span == step
			}
		}
		if fits {
			mask |= 1 << i
		} else {
			moving = false
		}
		if n != 1 {
			step, moving = steps[i], true
		}
	}
	return mask
}

// Flatten merges axes start to end, end excluded, into their left neighbours
// where bit i of mask is set for axis i; bits outside of the range are
// ignored. Pass [Layout.FlattenMask] as the mask to merge all that can be
// merged. It fails with [dlpack.ErrLayout] for a range that does not exist
// and with [dlpack.ErrCopy] for a bit that FlattenMask does not have.
func (l Layout) Flatten(start, end int, mask uint64) (Layout, error) {
	if start < 0 || end > int(l.ndim) || start > end {
		return Layout{}, fail("flatten", "", dlpack.ErrLayout,
			"axes "+strconv.Itoa(start)+" to "+strconv.Itoa(end)+" of "+strconv.Itoa(int(l.ndim)))
	}
	// The first axis of the range has no left neighbour inside it.
	var merge uint64
	for i := start + 1; i < end; i++ {
		merge |= mask & (1 << i)
	}
	if bad := merge &^ l.FlattenMask(); bad != 0 {
		return Layout{}, fail("flatten", "", dlpack.ErrCopy, "axes of "+l.String()+" do not merge as the mask says")
	}
	shape, steps := l.axes()
	left := len(shape)
	for m := merge; m != 0; m &= m - 1 {
		left--
	}
	out := blank(left, l.width, l.offset)
	sh, st := out.axes()
	k, first := -1, 0
	for i, n := range shape {
		if merge&(1<<i) == 0 {
			k++
			first = i
			sh[k], st[k] = n, steps[i]
			continue
		}
		if n != 1 {
			st[k] = steps[i]
		}
		var ok bool
		if sh[k], ok = product(shape[first : i+1]); !ok && (i+1 == len(shape) || merge&(2<<i) == 0) {
			return Layout{}, fail("flatten", "R034", dlpack.ErrOverflow, "size of shape "+listOf(shape[first:i+1])+" passes 64 bits")
		}
	}
	return out, nil
}

// Repack reads the same memory in items of another size, along one axis: the
// axis of stride 1 whose extent changes. addr is the address that the layout is
// used with; it must be aligned to the new item size. Negative axes count
// from the end.
//
// It fails with [dlpack.ErrLayout] if the item size is below 1 or in no whole
// ratio to the present one, if the axis does not have stride 1 or is empty, or if
// extent, offset or another stride is not divisible (B016, B256), and with
// [dlpack.ErrAlign] for the address.
func (l Layout) Repack(itemSize int, addr uintptr, axis int) (Layout, error) {
	if itemSize < 1 || int64(itemSize) > 1<<28 {
		return Layout{}, fail("repack", "R259", dlpack.ErrLayout, "item size "+strconv.Itoa(itemSize)+" is out of range")
	}
	if addr%uintptr(itemSize) != 0 && itemSize > l.ItemSize() {
		return Layout{}, fail("repack", "", dlpack.ErrAlign,
			"address 0x"+strconv.FormatUint(uint64(addr), 16)+" is not a multiple of "+strconv.Itoa(itemSize))
	}
	return l.repack("repack", uint32(itemSize)*8, axis)
}

// repack changes the width of elements to w bits along an axis of stride 1.
func (l *Layout) repack(op string, w uint32, axis int) (Layout, error) {
	if w == l.width {
		return *l, nil
	}
	k, err := axisOf(op, axis, int(l.ndim))
	if err != nil {
		return Layout{}, err
	}
	shape, steps := l.axes()
	if shape[k] == 0 {
		return Layout{}, fail(op, "", dlpack.ErrLayout, "axis "+strconv.Itoa(axis)+" is empty")
	}
	if shape[k] != 1 && steps[k] != 1 {
		return Layout{}, fail(op, "B256", dlpack.ErrLayout,
			"axis "+strconv.Itoa(axis)+" has stride "+strconv.FormatInt(steps[k], 10)+", not 1")
	}
	out := blank(int(l.ndim), w, l.offset)
	sh, st := out.axes()
	copy(sh, shape)
	copy(st, steps)
	st[k] = 1
	grow := w > l.width
	ratio := int64(max(w, l.width) / min(w, l.width))
	if int64(max(w, l.width)) != ratio*int64(min(w, l.width)) {
		return Layout{}, fail(op, "R281", dlpack.ErrLayout,
			strconv.Itoa(int(w))+"-bit items are in no whole ratio to "+strconv.Itoa(int(l.width))+"-bit items")
	}
	scale := func(v *int64, what string) error {
		if !grow {
			r, ok := mul(*v, ratio)
			if !ok {
				return fail(op, "R034", dlpack.ErrOverflow, what+" "+strconv.FormatInt(*v, 10)+" passes 64 bits")
			}
			*v = r
			return nil
		}
		if *v%ratio != 0 {
			return fail(op, "B016", dlpack.ErrLayout,
				what+" "+strconv.FormatInt(*v, 10)+" is not divisible by "+strconv.FormatInt(ratio, 10))
		}
		*v /= ratio
		return nil
	}
	if err := scale(&sh[k], "extent of axis "+strconv.Itoa(k)); err != nil {
		return Layout{}, err
	}
	if err := scale(&out.offset, "offset"); err != nil {
		return Layout{}, err
	}
	for i := range st {
		if i == k {
			continue
		}
		if shape[i] <= 1 {
			st[i] = 0 // never taken
			continue
		}
		if err := scale(&st[i], "stride of axis "+strconv.Itoa(i)); err != nil {
			return Layout{}, err
		}
	}
	if err := out.check(op); err != nil {
		return Layout{}, err
	}
	return out, nil
}

// MaxItemSize returns the largest item size, at most limit bytes, that
// [Layout.Repack] accepts for the address and axis. It fails with
// [dlpack.ErrLayout] if not even the present one does.
func (l Layout) MaxItemSize(limit int, addr uintptr, axis int) (int, error) {
	item := l.ItemSize()
	if l.width%8 != 0 || limit < item || item == 0 {
		return 0, fail("repack", "", dlpack.ErrLayout,
			"items of "+strconv.Itoa(int(l.width))+" bits do not fit into "+strconv.Itoa(limit)+" bytes")
	}
	for k := limit / item; k > 1; k-- {
		if addr%uintptr(k*item) != 0 {
			continue
		}
		if _, err := l.repack("repack", uint32(k*item)*8, axis); err == nil {
			return k * item, nil
		}
	}
	if _, err := l.repack("repack", l.width*2, axis); err != nil {
		// Tell a bad axis from one that is merely odd.
		k, err := axisOf("repack", axis, int(l.ndim))
		if err != nil {
			return 0, err
		}
		if n := l.Dim(k); n == 0 || (n > 1 && l.Stride(k) != 1) {
			return 0, fail("repack", "", dlpack.ErrLayout, "axis "+strconv.Itoa(axis)+" is empty or has a stride other than 1")
		}
	}
	return item, nil
}
