package hunt

import (
	"cmp"
	"slices"
	"sort"
)

// ref is one access in the history.
type ref struct {
	op   *Op
	node *Node
	kind Kind
}

// seg is a range of bytes with one history.
type seg struct {
	lo, hi uint64
	write  ref // op nil when nothing was written
	reads  []ref
}

// region is the history of one allocation.
type region struct {
	base, size uint64
	label      string
	gone       bool  // freed; kept until the addresses are used again
	segs       []seg // sorted, not overlapping
	prune      int   // how many there may be, beside Hunter.spare, before those are dropped that no later work can race with
}

// regions are the allocations by address; none overlaps another.
type regions struct {
	sorted   []*region
	segments int
	gone     int
}

func (m *regions) index(addr uint64) int {
	return sort.Search(len(m.sorted), func(i int) bool { return m.sorted[i].base+m.sorted[i].size > addr })
}

// at returns the region that contains addr.
func (m *regions) at(addr uint64) *region {
	if i := m.index(addr); i < len(m.sorted) && m.sorted[i].base <= addr {
		return m.sorted[i]
	}
	return nil
}

// remove drops all regions that overlap a range, and returns where in the order it lies.
func (m *regions) remove(at Range) int {
	i := m.index(at.Addr)
	j := i
	for j < len(m.sorted) && m.sorted[j].base < at.Addr+at.Len {
		m.segments -= len(m.sorted[j].segs)
		if m.sorted[j].gone {
			m.gone--
		}
		j++
	}
	m.sorted = slices.Delete(m.sorted, i, j)
	return i
}

// insert adds a region in place of all that overlap it.
func (m *regions) insert(at Range, label string, o *Op) {
	if at.Len == 0 {
		return
	}
	i := m.remove(at)
	r := &region{base: at.Addr, size: at.Len, label: label}
	if o != nil {
		r.segs = []seg{{lo: at.Addr, hi: at.Addr + at.Len, write: ref{op: o, kind: Alloc}}}
		m.segments++
	}
	m.sorted = slices.Insert(m.sorted, i, r)
}

// maxGone is how many freed allocations are kept to see late uses of them.
const maxGone = 1024

// release marks a region as freed.
func (m *regions) release(r *region) {
	if r.gone {
		return
	}
	r.gone = true
	if m.gone++; m.gone <= maxGone {
		return
	}
	m.gone = 0
	m.sorted = slices.DeleteFunc(m.sorted, func(r *region) bool {
		if r.gone {
			m.segments -= len(r.segs)
		}
		return r.gone
	})
}

// spare is how many ranges of an allocation are no reason to look for those that can go.
const spare = 64

// maxRanges is how many separate ranges one piece of work may have.
const maxRanges = 8192

// touch checks and notes what work does.
func (h *Hunter) touch(o *Op, acc []Access) {
	h.stats.Accesses += uint64(len(acc))
	// Accesses of one node and one kind go together, so that each passes the history once.
	for len(acc) > 0 {
		n := 1
		for n < len(acc) && acc[n].Node == acc[0].Node {
			n++
		}
		var by [Hand + 1][]Range
		for _, a := range acc[:n] {
			by[a.Kind] = append(by[a.Kind], a.Range)
		}
		for k, rs := range by {
			if len(rs) > 0 {
				h.touchRanges(ref{o, acc[0].Node, Kind(k)}, Coalesce(rs))
			}
		}
		acc = acc[n:]
	}
}

// Coalesce sorts ranges and joins those that touch or overlap, in place.
func Coalesce(r []Range) []Range {
	if !slices.IsSortedFunc(r, func(a, b Range) int { return cmp.Compare(a.Addr, b.Addr) }) {
		slices.SortFunc(r, func(a, b Range) int { return cmp.Compare(a.Addr, b.Addr) })
	}
	n := 0
	for _, x := range r {
		switch {
		case x.Len == 0:
		case n > 0 && x.Addr <= r[n-1].Addr+r[n-1].Len:
			r[n-1].Len = max(r[n-1].Len, x.Addr+x.Len-r[n-1].Addr)
		default:
			r[n] = x
			n++
		}
	}
	return r[:n]
}

// touchRanges passes the ranges, sorted and apart, through the history.
func (h *Hunter) touchRanges(by ref, rs []Range) {
	if len(rs) > maxRanges {
		// The first and the last half: fewer bytes can miss a race, more could invent one.
		h.stats.Cut += uint64(len(rs) - maxRanges)
		rs = append(rs[:maxRanges/2:maxRanges/2], rs[len(rs)-maxRanges/2:]...)
	}
	for len(rs) > 0 {
		i := h.mem.index(rs[0].Addr)
		if i == len(h.mem.sorted) {
			return // memory that nobody told us about
		}
		r := h.mem.sorted[i]
		end := r.base + r.size
		if r.base >= rs[0].Addr+rs[0].Len {
			rs = rs[1:]
			continue
		}
		n := 0
		var in []Range
		for n < len(rs) && rs[n].Addr < end {
			lo, hi := max(rs[n].Addr, r.base), min(rs[n].Addr+rs[n].Len, end)
			if lo < hi {
				in = append(in, Range{lo, hi - lo})
			}
			if rs[n].Addr+rs[n].Len > end {
				break // the rest lies in other memory
			}
			n++
		}
		rs = rs[n:]
		if len(rs) > 0 && rs[0].Addr < end {
			rest := Range{end, rs[0].Addr + rs[0].Len - end}
			rs = append([]Range{rest}, rs[1:]...)
		}
		before := len(r.segs)
		h.pass(r, by, in)
		if len(r.segs) > r.prune+h.spare {
			z := h.oldest()
			r.drop(func(x ref) bool { return h.past(x, z) })
			r.prune = 2 * len(r.segs)
		}
		h.mem.segments += len(r.segs) - before
	}
}

// pass puts an access into the history of a region.
func (h *Hunter) pass(r *region, by ref, in []Range) {
	if len(in) == 0 {
		return
	}
	lo, hi := in[0].Addr, in[len(in)-1].Addr+in[len(in)-1].Len
	i := sort.Search(len(r.segs), func(i int) bool { return r.segs[i].hi > lo })
	j := i
	for j < len(r.segs) && r.segs[j].lo < hi {
		j++
	}
	out := make([]seg, 0, j-i+2*len(in)+1)
	add := func(s seg) {
		if s.lo >= s.hi {
			return
		}
		if k := len(out) - 1; k >= 0 && out[k].hi == s.lo && out[k].write == s.write && slices.Equal(out[k].reads, s.reads) {
			out[k].hi = s.hi
			return
		}
		out = append(out, s)
	}
	old := r.segs[i:j]
	for _, x := range in {
		at, end := x.Addr, x.Addr+x.Len
		for at < end {
			// What lies before the range stays as it is.
			for len(old) > 0 && old[0].hi <= at {
				add(old[0])
				old = old[1:]
			}
			if len(old) == 0 || old[0].lo >= end {
				add(h.apply(r, seg{lo: at, hi: end}, by))
				at = end
				continue
			}
			s := old[0]
			if s.lo < at {
				left := s
				left.hi = at
				add(left)
				s.lo = at
				old[0] = s // it is replaced below anyway
			}
			if at < s.lo {
				add(h.apply(r, seg{lo: at, hi: s.lo}, by))
			}
			if s.hi > end {
				in := s
				in.hi = end
				add(h.apply(r, in, by))
				s.lo = end
				old[0] = s // it is replaced below anyway
				at = end
				continue
			}
			add(h.apply(r, s, by))
			at = s.hi
			old = old[1:]
		}
	}
	for _, s := range old {
		add(s)
	}
	r.segs = slices.Replace(r.segs, i, j, out...)
}

// apply checks one access against one history and returns the history after it.
func (h *Hunter) apply(r *region, s seg, by ref) seg {
	if s.write.op != nil && (s.write.kind != Hand || by.kind != Hand) && !h.before(s.write, by) && !h.before(by, s.write) {
		h.report(r, s, s.write, by)
	}
	if by.kind == Read {
		keep := make([]ref, 0, len(s.reads)+1)
		for _, x := range s.reads {
			if x != by && !h.before(x, by) {
				keep = append(keep, x)
			}
		}
		s.reads = append(keep, by)
		return s
	}
	if by.kind == Hand {
		s.write = by
		return s
	}
	for _, x := range s.reads {
		if !h.before(x, by) && !h.before(by, x) {
			h.report(r, s, x, by)
		}
	}
	s.write, s.reads = by, nil
	return s
}

// horizon is what all work knows that has still to be checked.
type horizon struct {
	known     clock
	host, sub uint64
}

// oldest is the horizon of the oldest work that waits for its turn or has it: what is submitted later knows
// at least as much. Where none waits, it is that of work to come.
func (h *Hunter) oldest() horizon {
	for _, it := range h.queue {
		if it != nil && it.op != nil {
			return horizon{it.op.known, it.op.host, it.op.sub}
		}
	}
	return horizon{h.known, h.host.seq, h.sub + 1}
}

// past says whether all work that has still to be checked comes after an access.
func (h *Hunter) past(x ref, z horizon) bool {
	s := x.op.Stream
	switch {
	case s == h.host:
		return z.host >= x.op.Seq
	case s.settled != 0 && z.sub > s.settled:
		return true
	}
	return z.known.of(s) >= x.op.Seq
}

// shrink makes room in the history: first what no later work can race with, then the oldest.
func (h *Hunter) shrink() {
	z := h.oldest()
	h.prune(func(x ref) bool { return h.past(x, z) })
	if h.mem.segments <= h.cfg.Segments*3/4 {
		return
	}
	var subs []uint64
	for _, r := range h.mem.sorted {
		for _, s := range r.segs {
			subs = append(subs, s.newest())
		}
	}
	slices.Sort(subs)
	limit := subs[len(subs)/2]
	before := h.mem.segments
	h.prune(func(x ref) bool { return x.op.sub <= limit })
	h.stats.Forgotten += uint64(before - h.mem.segments)
}

func (s *seg) newest() uint64 {
	var n uint64
	if s.write.op != nil {
		n = s.write.op.sub
	}
	for _, x := range s.reads {
		n = max(n, x.op.sub)
	}
	return n
}

// prune drops accesses from the history, and ranges that have none left.
func (h *Hunter) prune(drop func(ref) bool) {
	h.mem.segments = 0
	for _, r := range h.mem.sorted {
		r.drop(drop)
		h.mem.segments += len(r.segs)
	}
}

func (r *region) drop(drop func(ref) bool) {
	n := 0
	for _, s := range r.segs {
		if s.write.op != nil && drop(s.write) {
			s.write = ref{}
		}
		if slices.ContainsFunc(s.reads, drop) {
			s.reads = slices.DeleteFunc(slices.Clone(s.reads), drop) // ranges share them
		}
		if s.write.op == nil && len(s.reads) == 0 {
			continue
		}
		r.segs[n] = s
		n++
	}
	clear(r.segs[n:])
	r.segs = r.segs[:n]
}
