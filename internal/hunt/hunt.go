package hunt

import (
	"slices"
	"sync"
)

// Config limits what a Hunter remembers. The zero value of a field means its default.
type Config struct {
	// Segments is how many ranges of bytes the history has, 1<<14 by default.
	Segments int
	// Pending is how much submitted work may wait for its turn to be checked, 1<<16 by default. Beyond it work
	// is checked as it becomes known, which can miss a race and invents none.
	Pending int
	// Races is how many different races are kept, 200 by default; more are counted.
	Races int
}

// Hunter checks the work of one driver. Its methods may be called from several threads at
// once; calls that describe one stream have to come in the order of its work.
type Hunter struct {
	cfg Config

	mu      sync.Mutex
	sub     uint64 // submissions so far
	nextID  uint64
	streams map[uint64]*Stream
	host    *Stream // the host as an actor
	known   clock   // what the host knows
	version uint64  // counts the changes of known

	queue []*item // submitted and not checked, in order
	mem   regions
	spare int // tests have another

	races []*Race
	byKey map[raceKey]*Race
	found []func(*Race)
	stats Stats
	// sightings counts races that were seen, the same one every time.
	sightings uint64
}

// Stats count what a Hunter has done.
type Stats struct {
	Ops, Accesses uint64
	// Segments is how many ranges the history has now, Forgotten how many it gave up for its
	// limit, Cut how many ranges of single pieces of work were left out because it touched too many.
	Segments, Forgotten, Cut uint64
	// Late counts work that was checked out of turn because too much was waiting.
	Late uint64
	// RacesDropped counts different races beyond the limit.
	RacesDropped uint64
}

// New makes a Hunter.
func New(cfg Config) *Hunter {
	if cfg.Segments <= 0 {
		cfg.Segments = 1 << 14
	}
	if cfg.Pending <= 0 {
		cfg.Pending = 1 << 16
	}
	if cfg.Races <= 0 {
		cfg.Races = 200
	}
	h := &Hunter{cfg: cfg, spare: spare, streams: make(map[uint64]*Stream), byKey: make(map[raceKey]*Race)}
	h.host = h.newStream(StreamInfo{Name: "host", Device: -1})
	return h
}

// StreamInfo describes a stream for reports.
type StreamInfo struct {
	Name   string // "stream 0x5f0000000040", "legacy default stream"
	Device int    // ordinal, -1 for the host
	Group  uint64 // the context: what a wait for all of its work means
	// Blocking says that the stream is ordered with the legacy default stream of its group.
	Blocking bool
}

// Stream is a queue of work.
type Stream struct {
	StreamInfo
	id  uint64
	seq uint64
	// next is what the next work knows beside its own stream's past.
	next    clock
	version uint64 // of Hunter.known in next
	late    []*Late
	last    *Op
	retired bool
	// settled, if not 0, is the submission after which all work knows all of the stream.
	settled uint64
}

func (h *Hunter) newStream(i StreamInfo) *Stream {
	h.nextID++
	s := &Stream{StreamInfo: i, id: h.nextID}
	return s
}

// NewStream adds a stream.
func (h *Hunter) NewStream(i StreamInfo) *Stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.newStream(i)
	h.streams[s.id] = s
	return s
}

// Retire says that a stream gets no more work. It is forgotten once the host knows of all of it.
func (h *Hunter) Retire(s *Stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.retired = true
	h.settle(s)
}

func (h *Hunter) settle(s *Stream) {
	if !s.retired || s.settled != 0 || h.known.of(s) < s.seq {
		return
	}
	h.sub++
	s.settled = h.sub
	delete(h.streams, s.id)
	h.version++
	h.known = h.known.join(clock{{s, 0}}) // makes it drop what is settled
	h.known = slices.DeleteFunc(slices.Clone(h.known), func(e entry) bool { return e.s.settled != 0 })
}

// Late is knowledge that work gets when it runs: a wait for a word of memory is over when some
// write has made it so.
type Late struct {
	done  bool
	clock clock
	host  uint64
}

// Desc describes a piece of work for reports.
type Desc struct {
	Kind string    // "kernel", "copy", "memset", "free", ...
	Name string    // of a kernel
	Site []uintptr // program counters of the call
}

// Op is a piece of work in a stream.
type Op struct {
	Desc
	Stream *Stream
	Seq    uint64
	sub    uint64
	clock  clock
	known  clock  // what the host knew then, and so all later work
	host   uint64 // how much of the host's own accesses come before
	late   []*Late
	// Known is for the caller: what the work does, where that is known from the start.
	Known []Access
}

// ID is the number of a stream.
func (s *Stream) ID() uint64 { return s.id }

// Submission numbers the work of all streams in the order of submission.
func (o *Op) Submission() uint64 { return o.sub }

// Submit adds work to a stream, after the given work of any streams.
func (h *Hunter) Submit(s *Stream, d Desc, after ...*Op) *Op {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.submit(s, d, after)
}

func (h *Hunter) submit(s *Stream, d Desc, after []*Op) *Op {
	h.sub++
	h.stats.Ops++
	if s.version != h.version {
		s.next, s.version = s.next.join(h.known), h.version
	}
	if len(s.late) > 0 {
		s.late = slices.DeleteFunc(slices.Clone(s.late), func(l *Late) bool {
			if l.done {
				s.next = s.next.join(l.clock)
			}
			return l.done
		})
	}
	for _, a := range after {
		if a == nil || a.Stream == s {
			continue
		}
		s.next = s.next.join(a.clock)
		if a.Stream.settled == 0 {
			s.next = s.next.with(a.Stream, a.Seq)
		}
		for _, l := range a.late {
			if !slices.Contains(s.late, l) {
				s.late = append(s.late[:len(s.late):len(s.late)], l)
			}
		}
	}
	s.seq++
	o := &Op{Desc: d, Stream: s, Seq: s.seq, sub: h.sub, clock: s.next, known: h.known, host: h.host.seq, late: s.late}
	s.last = o
	return o
}

// Wait is Submit for work that waits for a word of memory. The work after it knows what
// Over names.
func (h *Hunter) Wait(s *Stream, d Desc, after ...*Op) (*Op, *Late) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.submit(s, d, after)
	l := &Late{}
	s.late = append(s.late[:len(s.late):len(s.late)], l)
	return o, l
}

// Over ends a wait: the work by came before its end, and so did all that the host has done
// where host says that it may have been the host's write.
func (h *Hunter) Over(l *Late, host bool, by ...*Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range by {
		l.clock = l.clock.join(o.resolved()).with(o.Stream, o.Seq)
	}
	if host {
		l.clock, l.host = l.clock.join(h.known), h.host.seq
	}
	l.done = true
	h.drain()
}

// resolved is the clock of work that has started, with what it got when it ran.
func (o *Op) resolved() clock {
	c := o.clock
	for _, l := range o.late {
		c = c.join(l.clock)
	}
	return c
}

// Last returns the last work of a stream, nil when there was none.
func (h *Hunter) Last(s *Stream) *Op {
	h.mu.Lock()
	defer h.mu.Unlock()
	return s.last
}

// Group returns the last work of every stream of a group, or of those that are ordered with its
// legacy default stream.
func (h *Hunter) Group(g uint64, blocking bool) []*Op {
	return h.lasts(func(s *Stream) bool { return s.Group == g && (s.Blocking || !blocking) })
}

// All returns the last work of every stream.
func (h *Hunter) All() []*Op { return h.lasts(func(*Stream) bool { return true }) }

func (h *Hunter) lasts(want func(*Stream) bool) []*Op {
	h.mu.Lock()
	defer h.mu.Unlock()
	var r []*Op
	for _, s := range h.streams {
		if s.last != nil && want(s) {
			r = append(r, s.last)
		}
	}
	return r
}

// Learn says that the host knows that work is over, because it waited for it or asked.
func (h *Hunter) Learn(ops ...*Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range ops {
		if o == nil || o.Stream.settled != 0 || h.known.of(o.Stream) >= o.Seq {
			continue
		}
		h.known = h.known.join(o.resolved()).with(o.Stream, o.Seq)
		h.version++
		for _, e := range slices.Clone(h.known) {
			h.settle(e.s)
		}
	}
}

// Learned says whether the host knows that work is over.
func (h *Hunter) Learned(o *Op) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return o.Stream.settled != 0 || h.known.of(o.Stream) >= o.Seq
}

// before says whether a comes before b by an edge or by being in one stream.
func (h *Hunter) before(a, b ref) bool {
	ao, bo := a.op, b.op
	switch {
	case ao == bo:
		return a.node == nil || b.node == nil || a.node.before(b.node)
	case ao.Stream == bo.Stream:
		return ao.Seq < bo.Seq
	case ao.Stream.settled != 0 && bo.sub > ao.Stream.settled:
		return true
	case ao.Stream == h.host:
		if bo.host >= ao.Seq {
			return true
		}
		for _, l := range bo.late {
			if l.host >= ao.Seq {
				return true
			}
		}
		return false
	case bo.clock.of(ao.Stream) >= ao.Seq:
		return true
	}
	for _, l := range bo.late {
		if l.clock.of(ao.Stream) >= ao.Seq {
			return true
		}
	}
	return false
}

// Kind says what an access does.
type Kind uint8

// The kinds of accesses.
const (
	Read Kind = iota
	Write
	Alloc // memory made in stream order
	Free
	// Hand is what a producer does that gives memory to others: whoever uses it afterwards has to come
	// after, but those who read it already, because they got it before, are no concern of it.
	Hand
)

func (k Kind) String() string {
	return [...]string{"read", "write", "allocation", "free", "hand-over"}[k]
}

// Range is Len bytes at Addr.
type Range struct{ Addr, Len uint64 }

// Access is what work does to one range of bytes.
type Access struct {
	Range
	Kind Kind
	// Node is the node of a graph whose launch the work is, or nil.
	Node *Node
}

// item is one thing to check, in order.
type item struct {
	op    *Op
	acc   []Access
	ready bool // acc is complete
	// alloc and free say what happens to a stretch of memory.
	alloc, free bool
	at          Range
	label       string
}

// turn says whether everything is known: the accesses, and what the work got to know when it
// waited for words of memory. The caller holds Hunter.mu.
func (it *item) turn() bool {
	if !it.ready {
		return false
	}
	if it.op != nil {
		for _, l := range it.op.late {
			if !l.done {
				return false
			}
		}
	}
	return true
}

// Pending is work whose accesses are not all known yet.
type Pending struct{ it *item }

// Touch checks what work does.
func (h *Hunter) Touch(o *Op, acc []Access) {
	if len(acc) == 0 {
		return
	}
	it := &item{op: o, acc: acc}
	it.ready = true
	h.put(it)
}

// Later keeps the turn of work whose accesses become known when it has run.
func (h *Hunter) Later(o *Op) *Pending {
	it := &item{op: o}
	h.put(it)
	return &Pending{it}
}

// Done gives the accesses of work that has run.
func (h *Hunter) Done(p *Pending, acc []Access) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.it.acc = acc
	p.it.ready = true
	h.drain()
}

// HostTouch is an access of the host itself.
func (h *Hunter) HostTouch(d Desc, acc ...Access) {
	h.mu.Lock()
	defer h.mu.Unlock()
	it := &item{op: h.hostOp(d), acc: acc}
	it.ready = true
	h.putLocked(it)
}

// hostOp makes a piece of the host's own work. It comes before all that is submitted later.
func (h *Hunter) hostOp(d Desc) *Op {
	h.sub++
	h.host.seq++
	return &Op{Desc: d, Stream: h.host, Seq: h.host.seq, sub: h.sub, clock: h.known, known: h.known, host: h.host.seq}
}

// Allocate adds memory: by work in a stream, or by the host where o is nil. What was known of
// the same addresses is over. label names the memory in reports.
func (h *Hunter) Allocate(o *Op, at Range, label string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	it := &item{op: o, alloc: true, at: at, label: label}
	it.ready = true
	h.putLocked(it)
}

// Release takes memory away, by work in a stream or, where o is nil, by the host, described by d.
func (h *Hunter) Release(o *Op, d Desc, at Range) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o == nil {
		o = h.hostOp(d)
	}
	it := &item{op: o, free: true, at: at}
	it.ready = true
	h.putLocked(it)
}

func (h *Hunter) put(it *item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.putLocked(it)
}

func (h *Hunter) putLocked(it *item) {
	h.queue = append(h.queue, it)
	h.drain()
}

// drain checks what has its turn.
func (h *Hunter) drain() {
	n := 0
	for n < len(h.queue) && h.queue[n].turn() {
		h.check(h.queue[n])
		h.queue[n] = nil
		n++
	}
	h.queue = h.queue[n:]
	if len(h.queue) > h.cfg.Pending {
		h.queue = slices.DeleteFunc(h.queue, func(it *item) bool {
			if !it.turn() {
				return false
			}
			h.stats.Late++
			h.check(it)
			return true
		})
	}
	if h.mem.segments > h.cfg.Segments {
		h.shrink()
	}
}

func (h *Hunter) check(it *item) {
	switch {
	case it.alloc:
		h.mem.insert(it.at, it.label, it.op)
	case it.free:
		if r := h.mem.at(it.at.Addr); r != nil {
			h.touch(it.op, []Access{{Range: Range{r.base, r.size}, Kind: Free}})
			h.mem.release(r)
		}
	default:
		h.touch(it.op, it.acc)
	}
}

// Flush checks what is ready and waits for its turn behind work that has not run.
func (h *Hunter) Flush() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue = slices.DeleteFunc(h.queue, func(it *item) bool {
		if it.turn() {
			h.check(it)
			return true
		}
		return false
	})
}

// OnRace has f told of every different race from now on, with the Hunter's lock held.
func (h *Hunter) OnRace(f func(*Race)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.found = append(h.found, f)
}

// Knows says whether an address lies in memory that is there.
func (h *Hunter) Knows(addr uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.mem.at(addr)
	return r != nil && !r.gone
}

// Memory is the memory that an address lies in, as it was allocated, and whether it is there still or
// freed; its length is 0 if nobody told of it.
func (h *Hunter) Memory(addr uint64) (at Range, live bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.mem.at(addr)
	if r == nil {
		return Range{}, false
	}
	return Range{r.base, r.size}, !r.gone
}

// ForgetRange drops all memory that has bytes in a range: who uses these addresses now is not known.
func (h *Hunter) ForgetRange(at Range) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mem.remove(at)
}

// ForgetMemory drops memory that begins at an address, if it has this label.
func (h *Hunter) ForgetMemory(addr uint64, label string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.mem.at(addr); r != nil && r.base == addr && r.label == label && !r.gone {
		i := h.mem.index(addr)
		h.mem.segments -= len(r.segs)
		h.mem.sorted = slices.Delete(h.mem.sorted, i, i+1)
	}
}

// Idle says whether everything submitted has been checked.
func (h *Hunter) Idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.queue) == 0
}

// Stats returns the counts so far.
func (h *Hunter) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.stats
	s.Segments = uint64(h.mem.segments)
	return s
}
