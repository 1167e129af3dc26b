package engine

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-handoff/handoff/internal/hunt"
)

// hunting is the hunt for missing synchronization, when it is on: what streams get and
// what the host waits for goes to a hunt.Hunter.
type hunting struct {
	h     *hunt.Hunter
	trace atomic.Pointer[tracer] // nil when nobody records

	mu sync.Mutex
	// words are the stream writes of single words, by address: what a wait for a word may wait for.
	words map[uint64][]*hunt.Op
}

// StartHunt switches the hunt on, which is for good, and returns its Hunter. Work that was submitted before is
// not looked at. Later calls return the same Hunter.
func (e *Engine) StartHunt(c hunt.Config) *hunt.Hunter {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.hunt.Load(); p != nil {
		return p.h
	}
	p := &hunting{h: hunt.New(c), words: make(map[uint64][]*hunt.Op)}
	e.space.mu.Lock()
	for _, a := range e.space.sorted {
		p.h.Allocate(nil, hunt.Range{Addr: a.base, Len: a.size}, a.label())
	}
	e.hunt.Store(p)
	e.space.mu.Unlock()
	return p.h
}

// Hunter is the Hunter of a hunt under way, or nil.
func (e *Engine) Hunter() *hunt.Hunter {
	if p := e.hunt.Load(); p != nil {
		return p.h
	}
	return nil
}

// Settle waits until all submitted work is done and checked, no longer than d. It says whether
// everything was.
func (e *Engine) Settle(d time.Duration) bool {
	e.mu.Lock()
	tails := e.tails()
	e.mu.Unlock()
	limit := time.NewTimer(d)
	defer limit.Stop()
	for _, t := range tails {
		ended := make(chan struct{})
		go func() { t.wait(); close(ended) }()
		select {
		case <-ended:
		case <-limit.C:
			return false
		}
	}
	return true
}

// label names memory in reports.
func (a *alloc) label() string {
	switch {
	case a.kind == memPinned:
		return "pinned memory"
	case a.kind == memRegistered:
		return "registered memory"
	case a.kind == memManaged:
		return "managed memory"
	case a.pool != nil:
		return fmt.Sprintf("pool memory of device %d", a.dev.ordinal)
	}
	return fmt.Sprintf("memory of device %d", a.dev.ordinal)
}

func (a *alloc) whole() hunt.Range { return hunt.Range{Addr: a.base, Len: a.size} }

// stream returns the stream of the hunt. The caller holds e.mu.
func (p *hunting) stream(s *stream) *hunt.Stream {
	if s.hunted == nil {
		i := hunt.StreamInfo{Device: s.ctx.dev.ordinal, Group: s.ctx.id, Blocking: s.blocking}
		switch s.kind {
		case kindLegacy:
			i.Name = "legacy default stream"
		case kindPerThread:
			i.Name = fmt.Sprintf("per-thread default stream (id %d)", s.id)
		default:
			i.Name = fmt.Sprintf("stream %#x", uint64(s.h))
		}
		s.hunted = p.h.NewStream(i)
	}
	return s.hunted
}

// submit tells of work that enters a stream, after deps and after what the rule of the legacy
// default stream says. The caller holds e.mu.
func (p *hunting) submit(s *stream, w work, deps []*task) (*hunt.Op, *hunt.Pending) {
	var after []*hunt.Op
	for _, d := range deps {
		if d != nil {
			after = append(after, d.hop)
		}
	}
	switch {
	case s.kind == kindLegacy:
		after = append(after, p.h.Group(s.ctx.id, true)...)
	case s.blocking && s.ctx.legacy.hunted != nil:
		after = append(after, p.h.Last(s.ctx.legacy.hunted))
	}
	if w, ok := w.(*launchWork); ok {
		for _, t := range w.waits() {
			after = append(after, t.hop)
		}
	}
	o, pend := p.enter(s, w, after)
	if t := p.trace.Load(); t != nil {
		pcs := o.Site
		if pcs == nil {
			pcs = hunt.Callers(2)
		}
		t.submitted(o, after, pcs)
		if a, ok := w.(accessor); ok && pend == nil {
			o.Known = accesses(a, nil)
		}
	}
	return o, pend
}

// enter is the part of submit that depends on the kind of the work.
func (p *hunting) enter(s *stream, w work, after []*hunt.Op) (*hunt.Op, *hunt.Pending) {
	hs := p.stream(s)
	d := describe(w)
	switch w := w.(type) {
	case *kernelWork:
		o := p.h.Submit(hs, d.here(), after...)
		return o, p.h.Later(o)
	case *launchWork:
		o := p.h.Submit(hs, d.here(), after...)
		w.records(o)
		return o, p.h.Later(o)
	case *memOpsWork:
		var o *hunt.Op
		waits, writes := w.words()
		if len(waits) > 0 {
			o, w.late = p.h.Wait(hs, d.here(), after...)
		} else {
			o = p.h.Submit(hs, d.here(), after...)
		}
		p.mu.Lock()
		for _, a := range writes {
			p.words[a] = append(p.words[a], o)
		}
		p.mu.Unlock()
		return o, nil
	case accessor:
		o := p.h.Submit(hs, d.here(), after...)
		p.h.Touch(o, accesses(w, nil))
		return o, nil
	case *hostWork:
		o := p.h.Submit(hs, d.here(), after...)
		if w.touches != nil {
			p.h.Touch(o, touched(w.touches[0], w.touches[1], nil))
		}
		return o, nil
	case *freeWork, *allocWork:
		return p.h.Submit(hs, d.here(), after...), nil
	}
	return p.h.Submit(hs, hunt.Desc(d), after...), nil
}

type description hunt.Desc

// here is the description with the call site of the work.
func (d description) here() hunt.Desc {
	d.Site = hunt.Callers(4)
	return hunt.Desc(d)
}

func describe(w work) description {
	switch w := w.(type) {
	case *kernelWork:
		return description{Kind: "kernel", Name: w.fn.name}
	case *copyWork:
		return description{Kind: "copy"}
	case *setWork:
		return description{Kind: "memset"}
	case *hostWork, *callbackWork:
		return description{Kind: "host function"}
	case *recordWork:
		return description{Kind: "event record"}
	case *waitWork:
		return description{Kind: "event wait"}
	case *launchWork:
		return description{Kind: "graph launch"}
	case *freeWork, *graphFree:
		return description{Kind: "free"}
	case *allocWork, *graphAlloc:
		return description{Kind: "allocation"}
	case *memOpsWork:
		return description{Kind: "memory operation"}
	case *prefetchWork:
		return description{Kind: "prefetch"}
	}
	return description{Kind: "empty work"}
}

// accesses are those of work that knows them beforehand.
func accesses(w accessor, n *hunt.Node) []hunt.Access {
	if _, ok := w.(*memOpsWork); ok {
		return nil // words that order streams are no data
	}
	reads, writes := w.access()
	return touched(reads, writes, n)
}

func touched(reads, writes []Range, n *hunt.Node) []hunt.Access {
	r := make([]hunt.Access, 0, len(reads)+len(writes))
	for _, x := range reads {
		r = append(r, hunt.Access{Range: hunt.Range(x), Kind: hunt.Read, Node: n})
	}
	for _, x := range writes {
		r = append(r, hunt.Access{Range: hunt.Range(x), Kind: hunt.Write, Node: n})
	}
	return r
}

// note adds accesses of the work that runs.
func (r *runner) note(k hunt.Kind, rs []Range) {
	for _, x := range rs {
		r.acc = append(r.acc, hunt.Access{Range: hunt.Range(x), Kind: k, Node: r.node})
	}
}

// over ends the wait for words of memory of running work.
func (p *hunting) over(w *memOpsWork) {
	var by []*hunt.Op
	waits, _ := w.words()
	p.mu.Lock()
	known := true
	for _, a := range waits {
		known = known && len(p.words[a]) > 0
		by = append(by, p.words[a]...)
	}
	p.mu.Unlock()
	if !known {
		by = p.h.All() // written by a kernel, a copy or the host: anything may have come before
	}
	p.h.Over(w.late, true, by...)
}

// learn says that the host knows that tasks are over.
func (e *Engine) learn(ts ...*task) {
	p := e.hunt.Load()
	if p == nil {
		return
	}
	for _, t := range ts {
		if t != nil && t.hop != nil {
			p.h.Learn(t.hop)
			if x := p.trace.Load(); x != nil {
				x.host([]*hunt.Op{t.hop})
			}
		}
	}
}

// passed returns what the host knows once everything that is now in a stream is over, or with a nil
// stream everything in the contexts. The caller holds e.mu until it has collected the tasks to wait for.
func (e *Engine) passed(s *stream, cs ...*Context) (ops []*hunt.Op) {
	p := e.hunt.Load()
	if p == nil {
		return nil
	}
	if s != nil {
		if s.hunted != nil {
			ops = append(ops, p.h.Last(s.hunted))
		}
		if s.kind == kindLegacy {
			ops = append(ops, p.h.Group(s.ctx.id, true)...)
		}
	}
	for _, c := range cs {
		ops = append(ops, p.h.Group(c.id, false)...)
	}
	return ops
}

// learned says that the host knows of what passed returned.
func (e *Engine) learned(ops []*hunt.Op) {
	if p := e.hunt.Load(); p != nil && len(ops) > 0 {
		p.h.Learn(ops...)
		if x := p.trace.Load(); x != nil {
			x.host(ops)
		}
	}
}

// allocated tells of new memory; hop is the work that made it, nil for the host.
func (e *Engine) allocated(a *alloc, hop *hunt.Op) {
	if p := e.hunt.Load(); p != nil {
		p.h.Allocate(hop, a.whole(), a.label())
	}
}

// hostFreed tells of memory that the host frees now, through the named call.
func (e *Engine) hostFreed(a *alloc, api string) {
	if p := e.hunt.Load(); p != nil {
		p.h.Release(nil, hunt.Desc{Kind: api, Site: hunt.Callers(1)}, a.whole())
	}
}

// node describes a run of a graph node.
func (p *hunting) node(st *runStep, b *execBody, index, round int, in *hunt.Node) *hunt.Node {
	d := describe(st.w)
	d.Site = st.site
	return &hunt.Node{Desc: hunt.Desc(d), Body: b.order(), Index: index, Round: round, In: in}
}

// order is what comes before what in a body. Updates of an executable do not change it.
func (b *execBody) order() *hunt.Body {
	b.once.Do(func() {
		b.reach = hunt.NewBody(len(b.steps), func(i int) []int { return b.steps[i].depsIdx })
	})
	return b.reach
}

// pooled tells of memory that a pool gives to the next work of a stream. Pools and graphs that allocate for
// nobody in particular have a stream without a number of its own. The caller holds e.mu.
func (e *Engine) pooled(s *stream, a *alloc) {
	p := e.hunt.Load()
	switch {
	case p == nil:
	case s.id == ^uint64(0):
		p.h.Allocate(nil, a.whole(), a.label())
	default:
		o := p.h.Submit(p.stream(s), description{Kind: "allocation"}.here())
		p.h.Allocate(o, a.whole(), a.label())
		if t := p.trace.Load(); t != nil {
			t.submitted(o, nil, o.Site)
			t.ran(o, now(), Success, []hunt.Access{{Range: a.whole(), Kind: hunt.Alloc}})
		}
	}
}

// freed tells of memory that the task nt frees.
func (e *Engine) freed(a *alloc, nt *task) {
	if p := e.hunt.Load(); p != nil && nt != nil && nt.hop != nil {
		p.h.Release(nt.hop, hunt.Desc{}, a.whole())
	}
}

// retire says that the streams of a context that has ended get no more work.
func (e *Engine) retire(c *Context) {
	p := e.hunt.Load()
	if p == nil {
		return
	}
	for _, o := range p.h.Group(c.id, false) {
		p.h.Retire(o.Stream)
	}
}

// SetOmit sets a function that is asked about every edge that a program makes, with the entry point and the
// call site: true leaves the edge out. It may hold no lock that is held around calls. Nil takes it away.
func (e *Engine) SetOmit(f func(api string, site []uintptr) bool) {
	if f == nil {
		e.omit.Store(nil)
		return
	}
	e.omit.Store(&f)
}

// omitted says whether an edge is to be left out.
func (e *Engine) omitted(api string) bool {
	f := e.omit.Load()
	return f != nil && (*f)(api, hunt.Callers(1))
}
