package dlpack

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Owners that Go has to release. C knows them by a handle, a number in C
// memory that names a slot of this table and the generation of its content
// (B340, B348): a stale handle finds nothing.

var releasePanics atomic.Int64

// ownerSlot holds what one owner keeps.
type ownerSlot struct {
	gen     uint32
	used    bool
	pinner  *runtime.Pinner
	release func()
}

// ownerTable is safe for use from several goroutines. Its zero value is empty.
type ownerTable struct {
	mu    sync.Mutex
	slots []ownerSlot
	free  []uint32
}

var owners ownerTable

// add stores a content and returns its handle.
func (t *ownerTable) add(p *runtime.Pinner, release func()) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var i uint32
	if n := len(t.free); n > 0 {
		i = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		i = uint32(len(t.slots))
		t.slots = append(t.slots, ownerSlot{})
	}
	s := &t.slots[i]
	s.gen++
	s.used, s.pinner, s.release = true, p, release
	return uint64(s.gen)<<32 | uint64(i)
}

// remove takes a content out. It reports false for a handle that was removed
// before or never given out.
func (t *ownerTable) remove(h uint64) (p *runtime.Pinner, release func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := uint64(uint32(h))
	if i >= uint64(len(t.slots)) {
		return nil, nil, false
	}
	s := &t.slots[i]
	if !s.used || s.gen != uint32(h>>32) {
		return nil, nil, false
	}
	p, release = s.pinner, s.release
	s.used, s.pinner, s.release = false, nil, nil
	t.free = append(t.free, uint32(i))
	return p, release, true
}

func (t *ownerTable) count() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int64(len(t.slots) - len(t.free))
}

// last releases the content of a handle. No panic leaves it: C is above.
func (t *ownerTable) last(h uint64) {
	defer func() {
		if recover() != nil {
			releasePanics.Add(1)
		}
	}()
	p, release, ok := t.remove(h)
	if !ok {
		return
	}
	if p != nil {
		p.Unpin()
	}
	if release != nil {
		release()
	}
}

// goOwner makes a C owner whose last reference unpins and calls release. It
// returns 0 if there is no memory; then nothing has been kept.
func goOwner(p *runtime.Pinner, release func()) uintptr {
	h := owners.add(p, release)
	o := newGoOwner(h)
	if o == 0 {
		_, _, _ = owners.remove(h)
	}
	return o
}
