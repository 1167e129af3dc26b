//go:build cgo && linux

// Package check is a table of the CUDA driver's entry points that hunts for missing
// synchronization in what is done through it, and passes everything on to the table behind it: see
// HANDOFF_CHECK in package driver. It sees the calls of this library alone.
package check

// #cgo CFLAGS: -I${SRCDIR}/../../include -std=gnu11
// #include "check.h"
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/go-handoff/handoff/internal/hunt"
)

// state is what the table knows. There is one in a process.
var state struct {
	sync.Mutex
	h       *hunt.Hunter
	behind  unsafe.Pointer
	table   unsafe.Pointer
	streams map[streamKey]*hunt.Stream
	legacy  map[uint64]*hunt.Stream // by context
	events  map[C.ho_event]*hunt.Op
	kernels map[C.ho_word][]param
	waits   map[uint64][]*hunt.Op // under way, and host functions that have not run
	words   map[uint64]written    // the last value of a word of memory that a stream has written
	pending []wordWait
	globals map[C.ho_word][]hunt.Range // the variables of a library that somebody has asked for
	opened  map[uint64]int             // how often memory of other processes is open, by address
	freed   map[uint64]uint64          // the driver's numbers of freed allocations, by address
	silent  func(user uintptr) bool
	next    uint64
}

// maxFreed is how many numbers of freed allocations are kept; the hunt does not keep more of them either.
const maxFreed = 4096

type streamKey struct {
	ctx    C.ho_context
	handle C.ho_stream
}

type written struct {
	op    *hunt.Op
	value uint64
}

// wordWait is a stream that waits until a word of memory has a value.
type wordWait struct {
	late *hunt.Late
	op   *hunt.Op
	addr uint64
	size uint64
	want uint64
	how  C.int
}

// over says whether the value of the word ends the wait.
func (w *wordWait) over(v uint64) bool {
	switch w.how {
	case C.HO_CU_STREAM_WAIT_VALUE_EQ:
		return v == w.want
	case C.HO_CU_STREAM_WAIT_VALUE_AND:
		return v&w.want != 0
	case C.HO_CU_STREAM_WAIT_VALUE_NOR:
		return ^(v|w.want)<<(64-8*w.size) != 0
	}
	return int64((v-w.want)<<(64-8*w.size)) >= 0
}

// maxWords is how many words, and waits for words, are kept.
const maxWords = 4096

type param struct{ off, size uint64 }

// Table returns the table in front of another one, both of type ho_cuda_table, and the Hunter
// that gets to see what goes through it. silent says of the user word of a host function
// that it tells nobody that it has run. There can be one in a process: another call for the same table
// returns what the first one did, for another table it is an error.
func Table(behind unsafe.Pointer, silent func(user uintptr) bool) (unsafe.Pointer, *hunt.Hunter, error) {
	state.Lock()
	defer state.Unlock()
	if state.h != nil {
		if state.behind == behind {
			return state.table, state.h, nil
		}
		return nil, nil, errors.New("one driver of a process can be checked, and another is")
	}
	state.behind = behind
	state.h = hunt.New(hunt.Config{})
	state.streams = make(map[streamKey]*hunt.Stream)
	state.legacy = make(map[uint64]*hunt.Stream)
	state.events = make(map[C.ho_event]*hunt.Op)
	state.kernels = make(map[C.ho_word][]param)
	state.waits = make(map[uint64][]*hunt.Op)
	state.words = make(map[uint64]written)
	state.globals = make(map[C.ho_word][]hunt.Range)
	state.opened = make(map[uint64]int)
	state.freed = make(map[uint64]uint64)
	state.silent = silent
	state.table = unsafe.Pointer(C.ck_table((*C.ho_cuda_table)(behind)))
	return state.table, state.h, nil
}

// stream returns the stream of a handle in a context that is current. The caller holds the lock.
func stream(ctx C.ho_context, s C.ho_stream) *hunt.Stream {
	k := streamKey{0, s}
	if s == 0 {
		s = C.HO_STREAM_LEGACY
	}
	if s <= C.HO_STREAM_PER_THREAD {
		// Per-thread default streams of one context count as one: that can hide, not invent.
		k = streamKey{ctx, s}
	}
	if r := state.streams[k]; r != nil {
		return r
	}
	var c C.ho_context
	var dev C.int
	var flags C.uint32_t
	C.ck_stream(s, ctx, &c, &dev, &flags)
	i := hunt.StreamInfo{Name: fmt.Sprintf("stream %#x", uint64(s)), Device: int(max(dev, 0)), Group: uint64(c), Blocking: flags&1 == 0}
	switch s {
	case C.HO_STREAM_LEGACY:
		i.Name = "legacy default stream"
	case C.HO_STREAM_PER_THREAD:
		i.Name = "per-thread default stream"
	}
	r := state.h.NewStream(i)
	state.streams[k] = r
	if s == C.HO_STREAM_LEGACY {
		state.legacy[i.Group] = r
	}
	return r
}

// after is what the rule of the legacy default stream puts before the next work of s.
func after(s *hunt.Stream, ops ...*hunt.Op) []*hunt.Op {
	if !s.Blocking {
		return ops
	}
	l := state.legacy[s.Group]
	switch {
	case s == l:
		return append(ops, state.h.Group(s.Group, true)...)
	case l != nil:
		return append(ops, state.h.Last(l))
	}
	return ops
}

// rows lists a box of memory, of a large one the first and the last part.
func rows(b *C.ck_box, k hunt.Kind, r []hunt.Access) []hunt.Access {
	const most = 4096
	addr, width, pitch, height := uint64(b.addr), uint64(b.width), uint64(b.pitch), uint64(b.height)
	slice, depth := uint64(b.slice), uint64(b.depth)
	if addr == 0 || width == 0 || height == 0 || depth == 0 {
		return r
	}
	if pitch == width || height == 1 {
		width, height = width*height, 1
	}
	if height == 1 && (slice == width || depth == 1) {
		return append(r, hunt.Access{Range: hunt.Range{Addr: addr, Len: width * depth}, Kind: k})
	}
	n := height * depth
	for i := uint64(0); i < n; i++ {
		if n > most && i == most/2 {
			i = n - most/2
		}
		r = append(r, hunt.Access{Range: hunt.Range{Addr: addr + i/height*slice + i%height*pitch, Len: width}, Kind: k})
	}
	return r
}

// pointers are the arguments of a launch that are addresses of memory that we know. What the kernel
// does there is not known, so the first byte counts as read: that conflicts with writes only.
func pointers(n *C.ck_note) (r []hunt.Access) {
	ps, ok := state.kernels[n.fn]
	if !ok {
		var off, size [128]C.uint64_t
		k := int(C.ck_params(n.fn, &off[0], &size[0], 128))
		ps = make([]param, k)
		for i := range ps {
			ps[i] = param{uint64(off[i]), uint64(size[i])}
		}
		state.kernels[n.fn] = ps
	}
	var packed unsafe.Pointer
	if n.params == nil && n.extra != nil {
		// SAFETY: the list ends with the word 0, as the driver demands; its pairs are a tag and a value.
		for p := n.extra; *p != 0; p = (*C.ho_word)(unsafe.Add(unsafe.Pointer(p), 16)) {
			if *p == C.HO_LAUNCH_PARAM_BUFFER_POINTER {
				packed = *(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(p), 8))
			}
		}
	}
	for i, p := range ps {
		// A view by value holds its address in front.
		if p.size < 8 {
			continue
		}
		var at unsafe.Pointer
		switch {
		case n.params != nil:
			// SAFETY: the caller gives one pointer for each parameter, to as many bytes as it has.
			at = *(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(n.params), 8*i))
		case packed != nil:
			at = unsafe.Add(packed, p.off)
		}
		if at == nil {
			continue
		}
		var v uint64
		// SAFETY: as above; the copy needs no alignment.
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&v)), 8), unsafe.Slice((*byte)(at), 8))
		if state.h.Knows(v) {
			r = append(r, hunt.Access{Range: hunt.Range{Addr: v, Len: 1}, Kind: hunt.Read})
		}
	}
	return r
}

// renew forgets freed memory where by now somebody else has made memory at the same address, whose
// call nobody saw: another library, say. The driver never gives the number of an allocation again.
func renew(acc []hunt.Access) []hunt.Access {
	var last hunt.Range
	for _, a := range acc {
		if a.Addr-last.Addr < last.Len {
			continue
		}
		at, live := state.h.Memory(a.Addr)
		if last = at; at.Len == 0 || live {
			continue
		}
		if id := uint64(C.ck_buffer(C.uint64_t(a.Addr))); id != 0 && id != state.freed[at.Addr] {
			state.h.ForgetRange(at)
		}
	}
	return acc
}

// free notes that memory goes, all of it that begins in a range: by work in a stream or by the host.
func free(o *hunt.Op, at hunt.Range) {
	for end := at.Addr + max(at.Len, 1); at.Addr < end; {
		m, live := state.h.Memory(at.Addr)
		if m.Len == 0 {
			break
		}
		if live {
			if len(state.freed) >= maxFreed {
				clear(state.freed) // late uses of them are reported less often, never more
			}
			state.freed[m.Addr] = uint64(C.ck_buffer(C.uint64_t(m.Addr)))
			state.h.Release(o, here("free"), hunt.Range{Addr: m.Addr})
		}
		at.Addr = m.Addr + m.Len
	}
}

func here(kind string) hunt.Desc { return hunt.Desc{Kind: kind, Site: hunt.Callers(2)} }

// ckNote is told by check.c of what was done, on the thread that did it.
//
//export ckNote
func ckNote(n *C.ck_note) C.uint64_t {
	state.Lock()
	defer state.Unlock()
	h := state.h
	switch n.kind {
	case C.CK_COPY:
		s := stream(n.ctx, n.stream)
		o := h.Submit(s, here("copy"), after(s)...)
		h.Touch(o, renew(rows(&n.dst, hunt.Write, rows(&n.src, hunt.Read, nil))))
		if n.sync == 2 || n.sync == 1 && !h.Knows(uint64(n.dst.addr)) {
			learn(o) // to pageable memory: the call has waited
		}
	case C.CK_SET:
		s := stream(n.ctx, n.stream)
		h.Touch(h.Submit(s, here("memset"), after(s)...), renew(rows(&n.dst, hunt.Write, nil)))
	case C.CK_LAUNCH:
		s := stream(n.ctx, n.stream)
		h.Touch(h.Submit(s, here("kernel"), after(s)...), pointers(n))
	case C.CK_GRAPH:
		s := stream(n.ctx, n.stream)
		h.Submit(s, here("graph launch"), after(s)...)
	case C.CK_HOST:
		s := stream(n.ctx, n.stream)
		o := h.Submit(s, here("host function"), after(s)...)
		state.next++
		if !state.silent(uintptr(n.fn)) {
			state.waits[state.next] = []*hunt.Op{o}
		}
		return C.uint64_t(state.next)
	case C.CK_HOST_RUNS:
		learn(state.waits[uint64(n.number)]...)
		delete(state.waits, uint64(n.number))
	case C.CK_ALLOC:
		h.Allocate(nil, hunt.Range{Addr: uint64(n.dst.addr), Len: uint64(n.dst.width)}, "memory")
	case C.CK_ALLOC_IN:
		s := stream(n.ctx, n.stream)
		o := h.Submit(s, here("allocation"), after(s)...)
		h.Allocate(o, hunt.Range{Addr: uint64(n.dst.addr), Len: uint64(n.dst.width)}, "pool memory")
	case C.CK_FOUND:
		at := hunt.Range{Addr: uint64(n.dst.addr), Len: uint64(n.dst.width)}
		if m, live := h.Memory(at.Addr); live && m == at {
			break // seen again, as memory that is imported twice
		}
		h.Allocate(nil, at, "memory made elsewhere")
		if n.fn != 0 {
			state.globals[n.fn] = append(state.globals[n.fn], at)
		}
	case C.CK_UNKNOWN:
		h.ForgetRange(hunt.Range{Addr: uint64(n.dst.addr), Len: max(uint64(n.dst.width), 1)})
	case C.CK_OPENED:
		state.opened[uint64(n.dst.addr)]++
	case C.CK_CLOSED:
		a := uint64(n.dst.addr)
		if state.opened[a]--; state.opened[a] > 0 {
			break
		}
		delete(state.opened, a)
		learn(h.All()...)
		free(nil, hunt.Range{Addr: a})
	case C.CK_FREE:
		learn(h.All()...) // the driver waits for the device
		free(nil, hunt.Range{Addr: uint64(n.dst.addr), Len: uint64(n.dst.width)})
	case C.CK_FREE_IN:
		s := stream(n.ctx, n.stream)
		free(h.Submit(s, here("free"), after(s)...), hunt.Range{Addr: uint64(n.dst.addr)})
	case C.CK_CODE_END:
		for _, at := range state.globals[n.fn] {
			h.ForgetRange(at)
		}
		delete(state.globals, n.fn)
		clear(state.kernels) // their handles may come again
	case C.CK_CONTEXT_END:
		endContext(uint64(n.fn), int(n.number))
	case C.CK_EVENT_END:
		delete(state.events, n.event) // so may this handle
	case C.CK_RECORD:
		s := stream(n.ctx, n.stream)
		state.events[n.event] = h.Submit(s, hunt.Desc{Kind: "event record"}, after(s)...)
	case C.CK_WAIT:
		s := stream(n.ctx, n.stream)
		h.Submit(s, hunt.Desc{Kind: "event wait"}, after(s, state.events[n.event])...)
	case C.CK_WORD:
		s := stream(n.ctx, n.stream)
		w := written{h.Submit(s, here("word written"), after(s)...), uint64(n.number)}
		if len(state.words) >= maxWords {
			clear(state.words)
		}
		state.words[uint64(n.dst.addr)] = w
		state.pending = slices.DeleteFunc(state.pending, func(p wordWait) bool {
			over := p.addr == uint64(n.dst.addr) && p.over(w.value)
			if over {
				h.Over(p.late, false, w.op)
			}
			return over
		})
	case C.CK_WORD_WAIT:
		s := stream(n.ctx, n.stream)
		p := wordWait{addr: uint64(n.dst.addr), size: uint64(n.dst.width), want: uint64(n.number), how: n.sync}
		p.op, p.late = h.Wait(s, here("wait for a word"), after(s)...)
		if w, ok := state.words[p.addr]; ok && p.over(w.value) || len(state.pending) >= maxWords {
			h.Over(p.late, true, h.All()...) // who has set it since does not tell: anybody before
			break
		}
		state.pending = append(state.pending, p)
	case C.CK_STREAM_IS, C.CK_EVENT_IS, C.CK_CONTEXT_IS:
		return C.uint64_t(over(n))
	case C.CK_STREAM_END:
		k := streamKey{0, n.stream}
		if s := state.streams[k]; s != nil {
			h.Retire(s)
			delete(state.streams, k) // the handle may come again
		}
	}
	return 0
}

// learn notes that the host knows that work is over. Waits for words before it are, then, whoever has written
// the word: the host, perhaps, or a kernel.
func learn(ops ...*hunt.Op) {
	h := state.h
	h.Learn(ops...)
	state.pending = slices.DeleteFunc(state.pending, func(p wordWait) bool {
		over := h.Learned(p.op)
		if over {
			h.Over(p.late, true, h.All()...)
		}
		return over
	})
}

// endContext notes that a context and all its work are over, or those of a device.
func endContext(ctx uint64, device int) {
	h := state.h
	learn(h.All()...) // the driver waits
	for k, s := range state.streams {
		if s.Group == ctx || ctx == 0 && s.Device == device {
			h.Retire(s)
			delete(state.streams, k)
			if state.legacy[s.Group] == s {
				delete(state.legacy, s.Group)
			}
		}
	}
}

// over notes that the host knows of the end of something: at once after a question, and for a wait in
// two notes: what there is when it begins, and that it has ended.
func over(n *C.ck_note) uint64 {
	h := state.h
	if n.number != 0 {
		learn(state.waits[uint64(n.number)]...)
		delete(state.waits, uint64(n.number))
		return 0
	}
	var ops []*hunt.Op
	switch n.kind {
	case C.CK_EVENT_IS:
		ops = []*hunt.Op{state.events[n.event]}
	case C.CK_CONTEXT_IS:
		ops = h.Group(uint64(n.ctx), false)
	default:
		s := stream(n.ctx, n.stream)
		ops = append(after(s), h.Last(s))
	}
	if n.sync == 0 {
		learn(ops...)
		return 0
	}
	state.next++
	state.waits[state.next] = ops
	return state.next
}

// ckForget is told of a wait that has failed.
//
//export ckForget
func ckForget(number C.uint64_t) {
	state.Lock()
	defer state.Unlock()
	delete(state.waits, uint64(number))
}

const foreign = "foreign memory"

// HandOver notes that n bytes at addr pass from the work of a stream to whoever comes after an edge
// from here: work in another stream without one is a race. Memory that the driver was not seen to
// allocate is known from here on, until Forget.
func HandOver(ctx, s, addr, n uint64) {
	state.Lock()
	defer state.Unlock()
	q := stream(C.ho_context(ctx), C.ho_stream(s))
	o := state.h.Submit(q, here("hand-over"), after(q)...)
	r := hunt.Range{Addr: addr, Len: n}
	if !state.h.Knows(addr) {
		state.h.Allocate(nil, r, foreign)
	}
	state.h.Touch(o, []hunt.Access{{Range: r, Kind: hunt.Hand}})
}

// Forget drops foreign memory that has been given back: its owner may use it again by rules of its own.
func Forget(addr uint64) {
	state.Lock()
	defer state.Unlock()
	state.h.ForgetMemory(addr, foreign)
}
