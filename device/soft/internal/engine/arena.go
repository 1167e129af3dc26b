package engine

import "sort"

// arenaGrain is the unit of arena sizes and of giving pages back.
const arenaGrain = 64 << 10

// allocGrain is the alignment and the unit of device allocations.
const allocGrain = 512

// arena is the memory of one device: a range of public addresses without access rights,
// and a private range of the same size that holds the bytes. Byte i of one is byte i of
// the other. free is guarded by the caller (space.mu).
type arena struct {
	pub   uint64 // first public address
	priv  []byte // the bytes
	guard []byte // the public range; never touched
	file  int    // what priv maps, for other processes; -1 if it is private
	free  []span // sorted, never adjacent
	left  uint64
}

type span struct{ off, n uint64 }

func newArena(n uint64) (*arena, error) {
	a := &arena{file: -1, free: []span{{0, n}}, left: n}
	if err := a.open(n); err != nil {
		return nil, err
	}
	return a, nil
}

// alloc takes n bytes, a multiple of allocGrain; first fit.
func (a *arena) alloc(n uint64) (off uint64, ok bool) {
	for i := range a.free {
		f := &a.free[i]
		if f.n < n {
			continue
		}
		off = f.off
		f.off += n
		f.n -= n
		if f.n == 0 {
			a.free = append(a.free[:i], a.free[i+1:]...)
		}
		a.left -= n
		return off, true
	}
	return 0, false
}

// release gives n bytes at off back, to the system too where whole pages became free.
func (a *arena) release(off, n uint64) {
	i := sort.Search(len(a.free), func(i int) bool { return a.free[i].off > off })
	a.free = append(a.free, span{})
	copy(a.free[i+1:], a.free[i:])
	a.free[i] = span{off, n}
	if i+1 < len(a.free) && a.free[i].off+a.free[i].n == a.free[i+1].off {
		a.free[i].n += a.free[i+1].n
		a.free = append(a.free[:i+1], a.free[i+2:]...)
	}
	if i > 0 && a.free[i-1].off+a.free[i-1].n == a.free[i].off {
		a.free[i-1].n += a.free[i].n
		a.free = append(a.free[:i], a.free[i+1:]...)
	}
	a.left += n
	lo := (off + arenaGrain - 1) &^ (arenaGrain - 1)
	hi := (off + n) &^ (arenaGrain - 1)
	if lo < hi {
		a.discard(lo, hi-lo)
	}
}

// contains says whether a public address lies in the arena.
func (a *arena) contains(addr uint64) bool {
	return addr >= a.pub && addr-a.pub < uint64(len(a.priv))
}

// bytes is the private alias of n bytes at a public address in the arena.
func (a *arena) bytes(addr, n uint64) []byte {
	off := addr - a.pub
	return a.priv[off : off+n : off+n]
}
