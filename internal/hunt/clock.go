package hunt

import "slices"

// entry says that the work of a stream up to number seq comes before.
type entry struct {
	s   *Stream
	seq uint64
}

// clock is a vector clock: entries by stream id. It is never changed in place, so that work
// may share one.
type clock []entry

func (c clock) find(s *Stream) (int, bool) {
	return slices.BinarySearchFunc(c, s.id, func(e entry, id uint64) int {
		switch {
		case e.s.id < id:
			return -1
		case e.s.id > id:
			return 1
		}
		return 0
	})
}

// of is how much of s the clock knows.
func (c clock) of(s *Stream) uint64 {
	if i, ok := c.find(s); ok {
		return c[i].seq
	}
	return 0
}

// with is c that also knows s up to seq.
func (c clock) with(s *Stream, seq uint64) clock {
	i, ok := c.find(s)
	if ok && c[i].seq >= seq || seq == 0 {
		return c
	}
	n := make(clock, 0, len(c)+1)
	n = append(n, c[:i]...)
	n = append(n, entry{s, seq})
	if ok {
		i++
	}
	return append(n, c[i:]...)
}

// join is the union of two clocks, without streams whose work all later work knows.
func (c clock) join(o clock) clock {
	if len(o) == 0 {
		return c
	}
	more := false
	for i, j := 0, 0; j < len(o) && !more; j++ {
		for i < len(c) && c[i].s.id < o[j].s.id {
			i++
		}
		more = o[j].s.settled == 0 && (i == len(c) || c[i].s != o[j].s || c[i].seq < o[j].seq)
	}
	if !more {
		return c
	}
	n := make(clock, 0, len(c)+len(o))
	for i, j := 0, 0; i < len(c) || j < len(o); {
		var e entry
		switch {
		case j == len(o) || i < len(c) && c[i].s.id < o[j].s.id:
			e = c[i]
			i++
		case i == len(c) || o[j].s.id < c[i].s.id:
			e = o[j]
			j++
		default:
			e = entry{c[i].s, max(c[i].seq, o[j].seq)}
			i++
			j++
		}
		if e.s.settled == 0 {
			n = append(n, e)
		}
	}
	return n
}
