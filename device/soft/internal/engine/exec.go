package engine

import (
	"slices"
	"sync"

	"github.com/go-handoff/handoff/internal/hunt"
)

// condValues are the conditional handles of an executable.
type condValues struct {
	mu sync.Mutex
	v  map[uint64]uint32
}

func (c *condValues) set(h uint64, v uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.v[h]; !ok {
		return false
	}
	c.v[h] = v
	return true
}

func (c *condValues) get(h uint64) uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.v[h]
}

// graphExec is an executable graph. Guarded by e.mu.
type graphExec struct {
	e     *Engine
	h     Handle
	flags uint64
	body  *execBody
	conds condValues
	defs  map[uint64]condDef
	users map[*userObject]int
	from  *graph
	last  *task // launches of one executable follow one another
}

// execBody is the nodes of one graph in an order that respects the edges.
type execBody struct {
	steps []*step
	by    map[*node]*step
	once  sync.Once // makes reach
	reach *hunt.Body
}

// step is one node of an executable.
type step struct {
	n       *node
	w       work
	off     bool
	sub     *execBody   // of a child graph
	bodies  []*execBody // of a conditional
	depsIdx []int
}

// Results of instantiation.
const (
	InstantiateSuccess          = 0
	InstantiateError            = 1
	InstantiateInvalidStructure = 2
	InstantiateCondUnused       = 5
)

// flatten orders a graph. bad is a node on a cycle. The caller holds e.mu.
func (e *Engine) flatten(g *graph) (b *execBody, bad *node) {
	b = &execBody{by: make(map[*node]*step)}
	idx := make(map[*node]int)
	left := slices.Clone(g.nodes)
	for len(left) > 0 {
		var rest []*node
		for _, n := range left {
			ready := true
			for _, d := range n.deps {
				if _, ok := idx[d]; !ok {
					ready = false
				}
			}
			if !ready {
				rest = append(rest, n)
				continue
			}
			s := &step{n: n, w: n.w}
			for _, d := range n.deps {
				s.depsIdx = append(s.depsIdx, idx[d])
			}
			idx[n] = len(b.steps)
			b.steps = append(b.steps, s)
			b.by[n] = s
			switch w := n.w.(type) {
			case *childWork:
				if s.sub, bad = e.flatten(w.g); bad != nil {
					return nil, bad
				}
			case *condWork:
				for _, body := range w.bodies {
					sub, bad := e.flatten(body)
					if bad != nil {
						return nil, bad
					}
					s.bodies = append(s.bodies, sub)
				}
			}
		}
		if len(rest) == len(left) {
			return nil, rest[0]
		}
		left = rest
	}
	return b, nil
}

// each calls f for every step, those of nested bodies too.
func (b *execBody) each(f func(*step)) {
	for _, s := range b.steps {
		f(s)
		if s.sub != nil {
			s.sub.each(f)
		}
		for _, x := range s.bodies {
			x.each(f)
		}
	}
}

func (b *execBody) hasAllocs() (has bool) {
	b.each(func(s *step) {
		if _, ok := s.w.(*graphAlloc); ok {
			has = true
		}
	})
	return has
}

// find returns the step of a node, in nested bodies too.
func (b *execBody) find(n *node) *step {
	if s := b.by[n]; s != nil {
		return s
	}
	for _, s := range b.steps {
		if s.sub != nil {
			if r := s.sub.find(n); r != nil {
				return r
			}
		}
		for _, x := range s.bodies {
			if r := x.find(n); r != nil {
				return r
			}
		}
	}
	return nil
}

// Instantiate is cuGraphInstantiateWithParams; result and badNode are its out-parameters.
func (e *Engine) Instantiate(gh Handle, flags uint64) (h Handle, result int32, badNode Handle, code Code) {
	if flags&^15 != 0 || flags&4 != 0 && flags&1 != 0 {
		return 0, InstantiateError, 0, InvalidValue
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	g, ok := locked[*graph](e, gh)
	if !ok {
		return 0, InstantiateError, 0, InvalidValue
	}
	body, bad := e.flatten(g)
	if bad != nil {
		return 0, InstantiateInvalidStructure, bad.h, InvalidValue
	}
	if g.execs > 0 && body.hasAllocs() {
		return 0, InstantiateError, 0, NotSupported // one executable at a time
	}
	g.execs++
	x := &graphExec{e: e, flags: flags, body: body, from: g, defs: make(map[uint64]condDef), users: make(map[*userObject]int)}
	x.conds.v = make(map[uint64]uint32)
	used := make(map[uint64]bool)
	body.each(func(s *step) {
		if w, ok := s.w.(*condWork); ok {
			used[w.handle] = true
		}
	})
	for id, d := range g.conds {
		if !used[id] {
			return 0, InstantiateCondUnused, 0, InvalidValue
		}
		x.defs[id] = d
		x.conds.v[id] = d.def
	}
	body.each(func(s *step) {
		if w, ok := s.w.(*graphAlloc); ok {
			w.refs++
		}
	})
	for u, k := range g.users {
		u.refs += k
		x.users[u] = k
	}
	x.h = e.newHandle(x)
	return x.h, InstantiateSuccess, 0, Success
}

// ExecFlags is cuGraphExecGetFlags.
func (e *Engine) ExecFlags(h Handle) (uint64, Code) {
	x, ok := lookup[*graphExec](e, h)
	if !ok {
		return 0, InvalidValue
	}
	return x.flags, Success
}

// ExecDestroy is cuGraphExecDestroy; a launch under way goes on.
func (e *Engine) ExecDestroy(h Handle) Code {
	e.mu.Lock()
	x, ok := locked[*graphExec](e, h)
	if !ok {
		e.mu.Unlock()
		return InvalidValue
	}
	delete(e.handles, h)
	x.from.execs--
	var late []func()
	x.body.each(func(s *step) {
		if w, ok := s.w.(*graphAlloc); ok {
			e.unrefAlloc(w)
		}
	})
	for u, k := range x.users {
		late = append(late, e.unrefUser(u, k)...)
	}
	last := x.last
	e.mu.Unlock()
	if last != nil && len(late) > 0 {
		last.wait()
	}
	for _, f := range late {
		f()
	}
	return Success
}

// ExecSetNode is cuGraphExecNodeSetParams.
func (e *Engine) ExecSetNode(t *Thread, xh, nh Handle, p *NodeParams) Code {
	e.mu.Lock()
	x, ok := locked[*graphExec](e, xh)
	n, ok2 := locked[*node](e, nh)
	if !ok || !ok2 {
		e.mu.Unlock()
		return InvalidValue
	}
	s := x.body.find(n)
	e.mu.Unlock()
	if s == nil {
		return InvalidValue
	}
	if code := settable(s.w, p.Type, true); code != Success {
		return code
	}
	if p.Type == NodeGraph {
		return e.execSetChild(s, p.Child)
	}
	w, code := e.newWork(t, p, s.w)
	if code != Success {
		return code
	}
	e.mu.Lock()
	s.w = w
	e.mu.Unlock()
	return Success
}

// execSetChild takes the parameters of a graph of the same shape for a child node.
func (e *Engine) execSetChild(s *step, gh Handle) Code {
	e.mu.Lock()
	defer e.mu.Unlock()
	g, ok := locked[*graph](e, gh)
	if !ok {
		return InvalidValue
	}
	if r, _ := s.sub.adopt(g, true); r != UpdateSuccess {
		return GraphExecUpdateFailure
	}
	s.sub.adopt(g, false)
	return Success
}

// Results of an update.
const (
	UpdateSuccess         = 0
	UpdateError           = 1
	UpdateTopologyChanged = 2
	UpdateTypeChanged     = 3
	UpdateNotSupported    = 6
)

// adopt takes the parameters of g into a body of the same shape; with dry it only checks.
func (b *execBody) adopt(g *graph, dry bool) (result int32, bad *node) {
	nb, cyc := g.e.flatten(g)
	if cyc != nil {
		return UpdateError, cyc
	}
	if len(nb.steps) != len(b.steps) {
		return UpdateTopologyChanged, nil
	}
	for i, s := range b.steps {
		o := nb.steps[i]
		if s.w.nodeType() != o.w.nodeType() {
			return UpdateTypeChanged, o.n
		}
		if !slices.Equal(s.depsIdx, o.depsIdx) {
			return UpdateTopologyChanged, o.n
		}
		switch w := o.w.(type) {
		case *childWork:
			if r, bad := s.sub.adopt(w.g, dry); r != UpdateSuccess {
				return r, bad
			}
			continue
		case *condWork:
			ow := s.w.(*condWork)
			if ow.kind != w.kind || len(ow.bodies) != len(w.bodies) {
				return UpdateTopologyChanged, o.n
			}
			for j, body := range w.bodies {
				if r, bad := s.bodies[j].adopt(body, dry); r != UpdateSuccess {
					return r, bad
				}
			}
			continue
		case *graphAlloc:
			if w != s.w {
				return UpdateNotSupported, o.n
			}
			continue
		case *graphFree:
			if w.addr != s.w.(*graphFree).addr {
				return UpdateNotSupported, o.n
			}
			continue
		}
		if !dry {
			s.w = o.w
			b.by[o.n] = s // the new graph's nodes name the steps, too
		}
	}
	return UpdateSuccess, nil
}

// ExecUpdate is cuGraphExecUpdate.
func (e *Engine) ExecUpdate(xh, gh Handle) (result int32, bad Handle, code Code) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, ok := locked[*graphExec](e, xh)
	g, ok2 := locked[*graph](e, gh)
	if !ok || !ok2 {
		return UpdateError, 0, InvalidValue
	}
	r, n := x.body.adopt(g, true)
	if r != UpdateSuccess {
		if n != nil {
			bad = n.h
		}
		return r, bad, GraphExecUpdateFailure
	}
	x.body.adopt(g, false)
	return UpdateSuccess, 0, Success
}

// SetEnabled is cuGraphNodeSetEnabled, for kernels, copies and memsets.
func (e *Engine) SetEnabled(xh, nh Handle, on bool) Code {
	s, code := e.toggle(xh, nh)
	if code != Success {
		return code
	}
	e.mu.Lock()
	s.off = !on
	e.mu.Unlock()
	return Success
}

// Enabled is cuGraphNodeGetEnabled.
func (e *Engine) Enabled(xh, nh Handle) (bool, Code) {
	s, code := e.toggle(xh, nh)
	if code != Success {
		return false, code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return !s.off, Success
}

func (e *Engine) toggle(xh, nh Handle) (*step, Code) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, ok := locked[*graphExec](e, xh)
	n, ok2 := locked[*node](e, nh)
	if !ok || !ok2 {
		return nil, InvalidValue
	}
	s := x.body.find(n)
	if s == nil {
		return nil, InvalidValue
	}
	switch s.w.nodeType() {
	case NodeKernel, NodeMemcpy, NodeMemset:
		return s, Success
	}
	return nil, InvalidValue
}

// launchWork is one launch of an executable: what each step was when it was launched.
type launchWork struct {
	steps []runStep
	x     *graphExec
}

// waits are the records that nodes of the launch wait for.
func (w *launchWork) waits() (ts []*task) {
	eachRun(w.steps, func(s *runStep) {
		if s.wait != nil {
			ts = append(ts, s.wait)
		}
	})
	return ts
}

// records says that the records of the launch are part of it, in a hunt.
func (w *launchWork) records(o *hunt.Op) {
	eachRun(w.steps, func(s *runStep) {
		if s.rec != nil {
			s.rec.hop = o
		}
	})
}

// eachRun calls f for every step, those of nested bodies too.
func eachRun(steps []runStep, f func(*runStep)) {
	for i := range steps {
		f(&steps[i])
		eachRun(steps[i].sub, f)
		for _, b := range steps[i].bodies {
			eachRun(b, f)
		}
	}
}

type runStep struct {
	w      work
	site   []uintptr // where the node was made, in a hunt
	sub    []runStep
	bodies [][]runStep
	rec    *task // the record that the step stands for
	wait   *task // the record that the step waits for
}

func (*launchWork) nodeType() NodeType { return NodeGraph }

func (w *launchWork) run(r *runner) Code {
	w.x.conds.mu.Lock()
	for id, d := range w.x.defs {
		if d.assign {
			w.x.conds.v[id] = d.def
		}
	}
	w.x.conds.mu.Unlock()
	in := *r
	in.conds = &w.x.conds
	code := runSteps(&in, w.x.body, w.steps, 0, nil)
	r.acc = in.acc
	finishRecords(w.steps, code)
	return code
}

// runSteps runs the steps of body b, in the order of the hunt as often as round says, in the node in.
func runSteps(r *runner, b *execBody, steps []runStep, round int, in *hunt.Node) Code {
	for i := range steps {
		s := &steps[i]
		var n *hunt.Node
		if r.hunt != nil && s.w != nil {
			n = r.hunt.node(s, b, i, round, in)
			r.node = n
			r.visit(s.w)
		}
		if s.wait != nil {
			s.wait.wait()
		}
		code := Success
		switch w := s.w.(type) {
		case nil: // disabled
		case *childWork:
			code = runSteps(r, b.steps[i].sub, s.sub, 0, n)
		case *condWork:
			code = runCond(r, w, b.steps[i].bodies, s.bodies, n)
		default:
			code = r.do(w)
		}
		if s.rec != nil && !s.rec.done.Load() {
			s.rec.finish(code)
		}
		if code != Success {
			return code
		}
	}
	return Success
}

// visit notes what a node does to memory, of work that says so beforehand.
func (r *runner) visit(w work) {
	switch w := w.(type) {
	case accessor:
		r.acc = append(r.acc, accesses(w, r.node)...)
	case *graphAlloc:
		r.note(hunt.Alloc, []Range{Range(w.a.whole())})
	case *graphFree:
		r.note(hunt.Free, []Range{Range(w.ga.a.whole())})
	case *hostWork:
		r.hunt.h.Learn(r.hop) // as for a host function in a stream
	}
}

func runCond(r *runner, w *condWork, bs []*execBody, bodies [][]runStep, n *hunt.Node) Code {
	v := r.conds.get(w.handle)
	switch w.kind {
	case 0:
		if v != 0 {
			return runSteps(r, bs[0], bodies[0], 0, n)
		}
		if len(bodies) > 1 {
			return runSteps(r, bs[1], bodies[1], 0, n)
		}
	case 1:
		for round := 0; v != 0; v = r.conds.get(w.handle) {
			round++
			if code := runSteps(r, bs[0], bodies[0], round, n); code != Success {
				return code
			}
		}
	case 2:
		if v < uint32(len(bodies)) {
			return runSteps(r, bs[v], bodies[v], 0, n)
		}
	}
	return Success
}

// finishRecords completes the events of steps that were not reached.
func finishRecords(steps []runStep, code Code) {
	for i := range steps {
		s := &steps[i]
		if s.rec != nil && !s.rec.done.Load() {
			s.rec.finish(code)
		}
		finishRecords(s.sub, code)
		for _, b := range s.bodies {
			finishRecords(b, code)
		}
	}
}

// freeze makes the run steps of a body. The caller holds e.mu.
func (b *execBody) freeze(s *stream) []runStep {
	r := make([]runStep, len(b.steps))
	for i, st := range b.steps {
		if st.off {
			continue
		}
		r[i].w, r[i].site = st.w, st.n.site
		switch w := st.w.(type) {
		case *recordWork:
			t := &task{s: s, seq: s.seq + 1, after: s.after}
			w.ev.rec, w.ev.cap = t, nil
			r[i].rec = t
		case *waitWork:
			if t := w.ev.rec; t != nil && t.s != s {
				r[i].wait = t
			}
		}
		if st.sub != nil {
			r[i].sub = st.sub.freeze(s)
		}
		for _, x := range st.bodies {
			r[i].bodies = append(r[i].bodies, x.freeze(s))
		}
	}
	return r
}

// GraphLaunch is cuGraphLaunch; it cannot be captured.
func (e *Engine) GraphLaunch(t *Thread, xh, sh Handle) Code {
	s, code := e.stream(t, sh)
	if code != Success {
		return code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	x, ok := locked[*graphExec](e, xh)
	if !ok {
		return InvalidValue
	}
	if code := s.ctx.usable(); code != Success {
		return code
	}
	if s.cap != nil {
		return e.forbidCapture(s)
	}
	if _, code := e.barrier(s); code != Success {
		return code
	}
	// What the launch does to the memory of allocation nodes.
	var allocs, frees []*graphAlloc
	x.body.each(func(st *step) {
		switch w := st.w.(type) {
		case *graphAlloc:
			allocs = append(allocs, w)
		case *graphFree:
			frees = append(frees, w.ga)
		}
	})
	for _, a := range allocs {
		if a.live {
			if x.flags&1 == 0 {
				return InvalidValue
			}
			a.live = false
		}
	}
	for _, f := range frees {
		if !f.live && !slices.Contains(allocs, f) {
			return InvalidValue
		}
	}
	for _, a := range allocs {
		a.live = true
	}
	for _, f := range frees {
		f.live = false
	}
	w := &launchWork{x: x, steps: x.body.freeze(s)}
	nt, code := e.submitLocked(t, s, w, x.last)
	if code != Success {
		return code
	}
	x.last = nt
	return Success
}

// GraphUpload is cuGraphUpload: nothing to do but to check.
func (e *Engine) GraphUpload(t *Thread, xh, sh Handle) Code {
	if _, ok := lookup[*graphExec](e, xh); !ok {
		return InvalidValue
	}
	_, code := e.stream(t, sh)
	return code
}
