package engine

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unsafe"

	"github.com/go-handoff/handoff/internal/hunt"
)

// NodeType is the type of a graph node, as the ABI numbers them.
type NodeType int32

// Node types.
const (
	NodeKernel      NodeType = 0
	NodeMemcpy      NodeType = 1
	NodeMemset      NodeType = 2
	NodeHost        NodeType = 3
	NodeGraph       NodeType = 4
	NodeEmpty       NodeType = 5
	NodeEventWait   NodeType = 6
	NodeEventRecord NodeType = 7
	NodeMemAlloc    NodeType = 10
	NodeMemFree     NodeType = 11
	NodeMemOp       NodeType = 12
	NodeConditional NodeType = 13
)

var nodeNames = map[NodeType]string{
	NodeKernel: "KERNEL", NodeMemcpy: "MEMCPY", NodeMemset: "MEMSET", NodeHost: "HOST",
	NodeGraph: "GRAPH", NodeEmpty: "EMPTY", NodeEventWait: "WAIT_EVENT", NodeEventRecord: "EVENT_RECORD",
	NodeMemAlloc: "MEM_ALLOC", NodeMemFree: "MEM_FREE", NodeMemOp: "BATCH_MEM_OP", NodeConditional: "CONDITIONAL",
}

// graph is a definition: nodes and edges. Guarded by e.mu.
type graph struct {
	e      *Engine
	h      Handle
	nodes  []*node // in the order they were added
	owned  bool    // belongs to a node, or to a capture that has not ended
	conds  map[uint64]condDef
	users  map[*userObject]int
	inNode *node // the child or conditional node that it belongs to
	execs  int   // live executables made of it
	gone   bool
}

// node is one node. Its work is replaced, never changed.
type node struct {
	g    *graph
	h    Handle
	w    work
	deps []*node
	from *node     // in a clone: the original
	site []uintptr // where it was made, in a hunt
}

// childWork runs another graph in place.
type childWork struct{ g *graph }

func (*childWork) nodeType() NodeType { return NodeGraph }
func (*childWork) run(*runner) Code   { return Success }

// condDef is a conditional handle.
type condDef struct {
	def    uint32
	assign bool // reset to def at every launch
}

// condWork runs one of its bodies, or one again and again.
type condWork struct {
	handle uint64
	kind   int32 // 0 if, 1 while, 2 switch
	bodies []*graph
	mem    Memory // the list of its bodies, for the caller
}

func (*condWork) nodeType() NodeType { return NodeConditional }
func (*condWork) run(*runner) Code   { return Success }

// Memory is memory outside of the Go heap that answers of the ABI layer point to. It
// belongs to a node and is freed with it, or with the parameters that it shows.
type Memory interface {
	Addr() unsafe.Pointer
	Free()
}

// freeMemory frees what callers were shown of a node's work. The caller holds e.mu.
func freeMemory(w work) {
	switch w := w.(type) {
	case *kernelWork:
		if w.mem != nil {
			w.mem.Free()
			w.mem = nil
		}
	case *condWork:
		if w.mem != nil {
			w.mem.Free()
			w.mem = nil
		}
	}
}

// NodeMemory returns the memory of a kernel or conditional node, which make makes at the
// first question.
func (e *Engine) NodeMemory(h Handle, make func(*NodeParams) Memory) (unsafe.Pointer, Code) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, ok := locked[*node](e, h)
	if !ok {
		return nil, InvalidValue
	}
	var at *Memory
	switch w := n.w.(type) {
	case *kernelWork:
		at = &w.mem
	case *condWork:
		at = &w.mem
	default:
		return nil, InvalidValue
	}
	if *at == nil {
		p := n.params()
		m := make(&p)
		if m == nil {
			return nil, OutOfMemory
		}
		*at = m
	}
	return (*at).Addr(), Success
}

// graphAlloc is an allocation node: its memory has one address for its life.
type graphAlloc struct {
	a     *alloc
	props AllocParams
	// Guarded by e.mu.
	refs int  // graphs and executables that have the node
	live bool // allocated by a launch and not freed since
}

func (*graphAlloc) nodeType() NodeType { return NodeMemAlloc }
func (*graphAlloc) run(*runner) Code   { return Success }

// graphFree is a free node.
type graphFree struct {
	ga   *graphAlloc
	addr uint64
}

func (*graphFree) nodeType() NodeType { return NodeMemFree }
func (*graphFree) run(*runner) Code   { return Success }

// userObject is foreign data whose destructor runs when the last reference goes.
type userObject struct {
	h       Handle
	refs    int
	destroy func()
}

// AllocParams describe an allocation node.
type AllocParams struct {
	Props  PoolProps
	Access []Access
	Bytes  uint64
	Addr   uint64 // out
}

// NodeParams describe a node for adding, asking and setting. Only the part of Type counts.
type NodeParams struct {
	Type   NodeType
	Kernel KernelNode
	Copy   Copy
	Ctx    Handle // of copies and memsets
	Set    Set
	Host   HostNode
	Child  Handle
	Move   bool // the child graph becomes the node's instead of being cloned
	Event  Handle
	Alloc  AllocParams
	Free   uint64
	Cond   CondNode
	Op     MemOps
}

// KernelNode is a launch as a node.
type KernelNode struct {
	Func, Kernel Handle // either
	Ctx          Handle
	Config       LaunchConfig
	Args         []byte
	Params       []Param // out only
}

// HostNode is a host function as a node.
type HostNode struct {
	Fn           func()
	FnAddr, User uintptr
}

// CondNode is a conditional node.
type CondNode struct {
	Handle uint64
	Kind   int32
	Size   int
	Bodies []Handle // out
}

// newGraph makes an empty graph. The caller holds e.mu.
func (e *Engine) newGraph() *graph {
	g := &graph{e: e, conds: make(map[uint64]condDef), users: make(map[*userObject]int)}
	g.h = e.newHandle(g)
	return g
}

// addNode appends a node. The caller holds e.mu.
func (e *Engine) addNode(g *graph, deps []*node, w work) *node {
	n := &node{g: g, w: w, deps: slices.Clone(deps)}
	if e.hunt.Load() != nil {
		n.site = hunt.Callers(2)
	}
	n.h = e.newHandle(n)
	g.nodes = append(g.nodes, n)
	switch w := w.(type) {
	case *childWork:
		w.g.inNode = n
	case *condWork:
		for _, b := range w.bodies {
			b.inNode = n
		}
	}
	return n
}

func (e *Engine) nodesOf(g *graph, hs []Handle) ([]*node, Code) {
	var r []*node
	for _, h := range hs {
		n, ok := locked[*node](e, h)
		if !ok || n.g != g || slices.Contains(r, n) {
			return nil, InvalidValue
		}
		r = append(r, n)
	}
	return r, Success
}

// GraphCreate is cuGraphCreate.
func (e *Engine) GraphCreate(flags uint32) (Handle, Code) {
	if flags != 0 {
		return 0, InvalidValue
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.newGraph().h, Success
}

// GraphDestroy is cuGraphDestroy. Executables made of the graph stay usable.
func (e *Engine) GraphDestroy(h Handle) Code {
	e.mu.Lock()
	g, ok := locked[*graph](e, h)
	if !ok || g.owned {
		e.mu.Unlock()
		return InvalidValue
	}
	late := e.dropGraph(g)
	e.mu.Unlock()
	for _, f := range late {
		f()
	}
	return Success
}

// dropGraph takes a graph and its nodes away and returns the destructors to run without
// the lock. The caller holds e.mu.
func (e *Engine) dropGraph(g *graph) (late []func()) {
	g.gone = true
	delete(e.handles, g.h)
	for _, n := range g.nodes {
		late = append(late, e.dropNode(n)...)
	}
	for u, k := range g.users {
		late = append(late, e.unrefUser(u, k)...)
	}
	g.users = nil
	return late
}

func (e *Engine) dropNode(n *node) (late []func()) {
	delete(e.handles, n.h)
	freeMemory(n.w)
	switch w := n.w.(type) {
	case *childWork:
		late = e.dropGraph(w.g)
	case *condWork:
		for _, b := range w.bodies {
			late = append(late, e.dropGraph(b)...)
		}
	case *graphAlloc:
		e.unrefAlloc(w)
	}
	return late
}

func (e *Engine) unrefUser(u *userObject, k int) []func() {
	u.refs -= k
	if u.refs > 0 {
		return nil
	}
	delete(e.handles, u.h)
	return []func(){u.destroy}
}

// unrefAlloc frees the memory of an allocation node when nothing can use it any more.
func (e *Engine) unrefAlloc(ga *graphAlloc) {
	ga.refs--
	e.tryFreeGraphAlloc(ga)
}

func (e *Engine) tryFreeGraphAlloc(ga *graphAlloc) {
	if ga.refs > 0 || ga.live {
		return
	}
	e.space.mu.Lock()
	ok := e.space.removeLocked(ga.a)
	delete(e.space.graphs, ga.a)
	e.space.mu.Unlock()
	if ok {
		ga.a.pool.returned(ga.a, nil)
	}
}

// freeGraphMemory frees, outside of the graph, what an allocation node made. The caller holds e.mu.
func (e *Engine) freeGraphMemory(a *alloc) Code {
	ga := e.graphAllocOf(a)
	if ga == nil || !ga.live {
		return InvalidValue
	}
	ga.live = false
	e.tryFreeGraphAlloc(ga)
	return Success
}

// GraphClone is cuGraphClone.
func (e *Engine) GraphClone(h Handle) (Handle, Code) {
	e.mu.Lock()
	defer e.mu.Unlock()
	g, ok := locked[*graph](e, h)
	if !ok {
		return 0, InvalidValue
	}
	for _, n := range g.nodes {
		switch n.w.(type) {
		case *graphAlloc, *graphFree, *condWork:
			return 0, NotSupported
		}
	}
	return e.clone(g).h, Success
}

// clone copies a graph. The caller holds e.mu.
func (e *Engine) clone(g *graph) *graph {
	c := e.newGraph()
	c.conds = maps.Clone(g.conds)
	m := make(map[*node]*node)
	for _, n := range g.nodes {
		w := n.w
		switch o := w.(type) {
		case *childWork:
			sub := e.clone(o.g)
			sub.owned = true
			w = &childWork{sub}
		case *kernelWork:
			k := *o
			k.mem = nil
			w = &k
		}
		m[n] = e.addNode(c, nil, w)
		m[n].from, m[n].site = n, n.site
	}
	for _, n := range g.nodes {
		for _, d := range n.deps {
			m[n].deps = append(m[n].deps, m[d])
		}
	}
	for u, k := range g.users {
		u.refs += k
		c.users[u] = k
	}
	return c
}

// FindInClone is cuGraphNodeFindInClone.
func (e *Engine) FindInClone(nh, gh Handle) (Handle, Code) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, ok := locked[*node](e, nh)
	g, ok2 := locked[*graph](e, gh)
	if !ok || !ok2 {
		return 0, InvalidValue
	}
	for _, c := range g.nodes {
		if c.from == n {
			return c.h, Success
		}
	}
	return 0, InvalidValue
}

// newWork makes the work of a node. The caller does not hold e.mu. old is the work that it
// replaces, or nil.
func (e *Engine) newWork(t *Thread, p *NodeParams, old work) (work, Code) {
	switch p.Type {
	case NodeKernel:
		fh := p.Kernel.Func
		if fh == 0 {
			fh = p.Kernel.Kernel
		}
		var c *Context
		switch x := e.object(fh).(type) {
		case *function:
			c = x.mod.ctx
		case *kernel:
			c = t.current()
			if p.Kernel.Ctx != 0 {
				c, _ = lookup[*Context](e, p.Kernel.Ctx)
			}
			if c == nil {
				return nil, InvalidContext
			}
		}
		w, code := e.newLaunch(c, fh, p.Kernel.Config, p.Kernel.Args)
		if code != Success {
			return nil, code
		}
		if o, ok := old.(*kernelWork); ok {
			w.attrs = o.attrs
		}
		return w, Success
	case NodeMemcpy:
		w, code := e.newCopy(p.Copy)
		if code != Success {
			return nil, code
		}
		if w == nil {
			return nil, InvalidValue
		}
		w.ctx = p.Ctx
		return w, Success
	case NodeMemset:
		w, code := e.newSet(p.Set)
		if code != Success {
			return nil, code
		}
		if w == nil {
			return nil, InvalidValue
		}
		w.ctx = p.Ctx
		return w, Success
	case NodeHost:
		if p.Host.Fn == nil {
			return nil, InvalidValue
		}
		fn := p.Host.Fn
		return &hostWork{fn: func(Code) { fn() }, user: [2]uintptr{p.Host.FnAddr, p.Host.User}}, Success
	case NodeEmpty:
		return &emptyWork{}, Success
	case NodeEventRecord, NodeEventWait:
		ev, ok := lookup[*event](e, p.Event)
		if !ok {
			return nil, InvalidValue
		}
		if p.Type == NodeEventRecord {
			return &recordWork{ev}, Success
		}
		return &waitWork{ev}, Success
	case NodeMemOp:
		return e.newMemOps(p.Op)
	case NodeGraph:
		e.mu.Lock()
		defer e.mu.Unlock()
		g, ok := locked[*graph](e, p.Child)
		if !ok || g.owned {
			return nil, InvalidValue
		}
		if !p.Move {
			for _, n := range g.nodes {
				switch n.w.(type) {
				case *graphAlloc, *graphFree, *condWork:
					return nil, NotSupported
				}
			}
			g = e.clone(g)
		}
		g.owned = true
		return &childWork{g}, Success
	case NodeConditional:
		n := p.Cond.Size
		if p.Cond.Kind < 0 || p.Cond.Kind > 2 || n < 1 || n > 1024 ||
			p.Cond.Kind == 0 && n > 2 || p.Cond.Kind == 1 && n != 1 {
			return nil, InvalidValue
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		w := &condWork{handle: p.Cond.Handle, kind: p.Cond.Kind}
		for range n {
			g := e.newGraph()
			g.owned = true
			w.bodies = append(w.bodies, g)
			p.Cond.Bodies = append(p.Cond.Bodies, g.h)
		}
		return w, Success
	case NodeMemAlloc:
		return e.newGraphAlloc(p)
	case NodeMemFree:
		a, ok := e.space.find(p.Free)
		if !ok || a.base != p.Free || !a.graph {
			return nil, InvalidValue
		}
		return &graphFree{e.graphAllocOf(a), p.Free}, Success
	}
	return nil, NotSupported
}

// newGraphAlloc makes the allocation of a node.
func (e *Engine) newGraphAlloc(p *NodeParams) (work, Code) {
	if p.Alloc.Props.AllocType != 1 || p.Alloc.Props.LocKind != locDevice || p.Alloc.Bytes == 0 {
		return nil, InvalidValue
	}
	d, code := e.device(int(p.Alloc.Props.LocID))
	if code != Success {
		return nil, code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.graphAllocLocked(d, p)
}

func (e *Engine) graphAllocLocked(d *Device, p *NodeParams) (*graphAlloc, Code) {
	if !e.mayAllocate(p.Alloc.Bytes) {
		return nil, OutOfMemory
	}
	a, code := d.graphPool.allocLocked(nil, d.primary.idleStream(), p.Alloc.Bytes)
	if code != Success {
		return nil, code
	}
	a.graph = true
	p.Alloc.Addr = a.base
	ga := &graphAlloc{a: a, props: p.Alloc, refs: 1}
	e.space.mu.Lock()
	if e.space.graphs == nil {
		e.space.graphs = make(map[*alloc]*graphAlloc)
	}
	e.space.graphs[a] = ga
	e.space.mu.Unlock()
	return ga, Success
}

// idleStream is a stream that knows of no other, to allocate for nobody in particular.
func (c *Context) idleStream() *stream { return &stream{e: c.e, ctx: c, id: ^uint64(0)} }

func (e *Engine) graphAllocOf(a *alloc) *graphAlloc {
	e.space.mu.RLock()
	defer e.space.mu.RUnlock()
	return e.space.graphs[a]
}

// AddNode is cuGraphAddNode; p gets what the driver gives back.
func (e *Engine) AddNode(t *Thread, gh Handle, deps []Handle, p *NodeParams) (Handle, Code) {
	if _, ok := lookup[*graph](e, gh); !ok {
		return 0, InvalidValue
	}
	if p.Type == NodeConditional {
		e.mu.Lock()
		g, _ := locked[*graph](e, gh)
		_, ok := g.conds[p.Cond.Handle]
		e.mu.Unlock()
		if !ok {
			return 0, InvalidValue
		}
	}
	e.mu.Lock()
	g, ok := locked[*graph](e, gh)
	if !ok {
		e.mu.Unlock()
		return 0, InvalidValue
	}
	_, code := e.nodesOf(g, deps)
	e.mu.Unlock()
	if code != Success {
		return 0, code
	}
	w, code := e.newWork(t, p, nil)
	if code != Success {
		return 0, code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if g.gone {
		return 0, InvalidValue
	}
	ns, code := e.nodesOf(g, deps)
	if code != Success {
		return 0, code
	}
	if len(ns) > 0 && p.Type != NodeMemFree && e.omitted("cuGraphAddNode") {
		ns = nil
	}
	switch w := w.(type) {
	case *graphFree:
		if code := w.check(g, ns); code != Success {
			return 0, code
		}
	case *condWork:
		if g.condUsed(w.handle) {
			for _, b := range w.bodies {
				e.dropGraph(b)
			}
			return 0, InvalidValue
		}
	}
	return e.addNode(g, ns, w).h, Success
}

// check says whether a graph can free an allocation after deps: an allocation of the
// graph itself has to come before, must not be freed twice, and is fixed once there is an executable.
func (f *graphFree) check(g *graph, deps []*node) Code {
	for _, n := range g.nodes {
		switch w := n.w.(type) {
		case *graphFree:
			if w.addr == f.addr {
				return InvalidValue
			}
		case *graphAlloc:
			if w == f.ga && (g.execs > 0 || !reaches(deps, n)) {
				return InvalidValue
			}
		}
	}
	return Success
}

// condUsed says whether a node of the graph has a conditional handle: one can.
func (g *graph) condUsed(h uint64) bool {
	return slices.ContainsFunc(g.nodes, func(n *node) bool {
		w, ok := n.w.(*condWork)
		return ok && w.handle == h
	})
}

// reaches says whether n is among nodes or before one of them.
func reaches(nodes []*node, n *node) bool {
	seen := make(map[*node]bool)
	todo := slices.Clone(nodes)
	for len(todo) > 0 {
		d := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if d == n {
			return true
		}
		if !seen[d] {
			seen[d] = true
			todo = append(todo, d.deps...)
		}
	}
	return false
}

// params describes the work of a node. The caller holds e.mu.
func (n *node) params() NodeParams {
	p := NodeParams{Type: n.w.nodeType()}
	switch w := n.w.(type) {
	case *kernelWork:
		p.Kernel = KernelNode{Func: w.fn.h, Config: w.cfg, Args: w.args, Ctx: w.fn.mod.ctx.h, Params: w.def.list()}
		if w.viaKer && w.fn.ker != nil {
			p.Kernel.Func, p.Kernel.Kernel = 0, w.fn.ker.h
		}
	case *copyWork:
		p.Copy, p.Ctx = w.c, w.ctx
	case *setWork:
		p.Set, p.Ctx = w.p, w.ctx
	case *hostWork:
		p.Host = HostNode{FnAddr: w.user[0], User: w.user[1]}
	case *childWork:
		p.Child = w.g.h
	case *recordWork:
		p.Event = w.ev.h
	case *waitWork:
		p.Event = w.ev.h
	case *graphAlloc:
		p.Alloc = w.props
	case *graphFree:
		p.Free = w.addr
	case *memOpsWork:
		p.Op = w.ops
	case *condWork:
		p.Cond = CondNode{Handle: w.handle, Kind: w.kind, Size: len(w.bodies)}
		for _, b := range w.bodies {
			p.Cond.Bodies = append(p.Cond.Bodies, b.h)
		}
	}
	return p
}

// Node returns the parameters of a node.
func (e *Engine) Node(h Handle) (NodeParams, Code) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, ok := locked[*node](e, h)
	if !ok {
		return NodeParams{}, InvalidValue
	}
	return n.params(), Success
}

// SetNode is cuGraphNodeSetParams; the type cannot change.
func (e *Engine) SetNode(t *Thread, h Handle, p *NodeParams) Code {
	n, ok := lookup[*node](e, h)
	if !ok {
		return InvalidValue
	}
	e.mu.Lock()
	old := n.w
	e.mu.Unlock()
	if code := settable(old, p.Type, false); code != Success {
		return code
	}
	if p.Type == NodeMemset && p.Ctx == 0 && t.current() == nil {
		return InvalidValue // seen on a GPU; of a copy or a kernel it wants none
	}
	w, code := e.newWork(t, p, old)
	if code != Success {
		return code
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	freeMemory(n.w)
	n.w = w
	return Success
}

func settable(old work, typ NodeType, exec bool) Code {
	if old.nodeType() != typ {
		return InvalidValue
	}
	switch typ {
	case NodeKernel, NodeMemcpy, NodeMemset, NodeHost, NodeEmpty, NodeEventRecord, NodeEventWait, NodeMemOp:
		return Success
	case NodeGraph:
		if exec {
			return Success
		}
	}
	return NotSupported
}

// kernelAttr says whether kernel nodes have a launch attribute.
func kernelAttr(id int32) bool {
	switch id {
	case attrAccessPolicy, 2, 4, 5, 6, attrPriority, attrSyncDomainMap, attrSyncDomain, 11, 13, 14:
		return true
	}
	return false
}

// KernelNodeAttr returns a launch attribute of a kernel node.
func (e *Engine) KernelNodeAttr(h Handle, id int32) (v [64]byte, code Code) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, ok := locked[*node](e, h)
	if !ok {
		return v, InvalidValue
	}
	w, ok := n.w.(*kernelWork)
	if !ok || !kernelAttr(id) {
		return v, InvalidValue
	}
	return w.attrs[id], Success
}

// SetKernelNodeAttr sets a launch attribute of a kernel node.
func (e *Engine) SetKernelNodeAttr(h Handle, id int32, v [64]byte) Code {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, ok := locked[*node](e, h)
	if !ok {
		return InvalidValue
	}
	w, ok := n.w.(*kernelWork)
	if !ok || !kernelAttr(id) {
		return InvalidValue
	}
	nw := *w
	w.mem = nil // goes with the node's arguments
	nw.attrs = maps.Clone(w.attrs)
	if nw.attrs == nil {
		nw.attrs = make(map[int32][64]byte)
	}
	nw.attrs[id] = v
	n.w = &nw
	return Success
}

// CopyKernelNodeAttrs is cuGraphKernelNodeCopyAttributes.
func (e *Engine) CopyKernelNodeAttrs(dst, src Handle) Code {
	e.mu.Lock()
	defer e.mu.Unlock()
	d, ok := locked[*node](e, dst)
	s, ok2 := locked[*node](e, src)
	if !ok || !ok2 {
		return InvalidValue
	}
	dw, ok := d.w.(*kernelWork)
	sw, ok2 := s.w.(*kernelWork)
	if !ok || !ok2 {
		return InvalidValue
	}
	nw := *dw
	dw.mem = nil
	nw.attrs = maps.Clone(sw.attrs)
	d.w = &nw
	return Success
}

// GraphNodes lists the nodes of a graph, or its roots.
func (e *Engine) GraphNodes(h Handle, roots bool) ([]Handle, Code) {
	e.mu.Lock()
	defer e.mu.Unlock()
	g, ok := locked[*graph](e, h)
	if !ok {
		return nil, InvalidValue
	}
	r := []Handle{}
	for _, n := range g.nodes {
		if !roots || len(n.deps) == 0 {
			r = append(r, n.h)
		}
	}
	return r, Success
}

// GraphEdges lists the edges of a graph.
func (e *Engine) GraphEdges(h Handle) (from, to []Handle, code Code) {
	e.mu.Lock()
	defer e.mu.Unlock()
	g, ok := locked[*graph](e, h)
	if !ok {
		return nil, nil, InvalidValue
	}
	for _, n := range g.nodes {
		for _, d := range n.deps {
			from, to = append(from, d.h), append(to, n.h)
		}
	}
	return from, to, Success
}

// NodeEdges lists what a node depends on, or what depends on it.
func (e *Engine) NodeEdges(h Handle, dependents bool) ([]Handle, Code) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, ok := locked[*node](e, h)
	if !ok {
		return nil, InvalidValue
	}
	r := []Handle{}
	if !dependents {
		for _, d := range n.deps {
			r = append(r, d.h)
		}
		return r, Success
	}
	for _, m := range n.g.nodes {
		if slices.Contains(m.deps, n) {
			r = append(r, m.h)
		}
	}
	return r, Success
}

// ChangeEdges is cuGraphAddDependencies or, with remove, cuGraphRemoveDependencies.
func (e *Engine) ChangeEdges(h Handle, from, to []Handle, remove bool) Code {
	e.mu.Lock()
	defer e.mu.Unlock()
	g, ok := locked[*graph](e, h)
	if !ok || len(from) != len(to) {
		return InvalidValue
	}
	type edge struct{ f, t *node }
	var list []edge
	for i := range from {
		f, ok := locked[*node](e, from[i])
		t, ok2 := locked[*node](e, to[i])
		if !ok || !ok2 || f.g != g || t.g != g || f == t {
			return InvalidValue
		}
		if slices.Contains(t.deps, f) != remove {
			return InvalidValue
		}
		list = append(list, edge{f, t})
	}
	for _, x := range list {
		if remove {
			x.t.deps = slices.DeleteFunc(slices.Clone(x.t.deps), func(n *node) bool { return n == x.f })
		} else {
			x.t.deps = append(slices.Clone(x.t.deps), x.f)
		}
	}
	return Success
}

// DestroyNode is cuGraphDestroyNode.
func (e *Engine) DestroyNode(h Handle) Code {
	e.mu.Lock()
	n, ok := locked[*node](e, h)
	if !ok {
		e.mu.Unlock()
		return InvalidValue
	}
	switch n.w.(type) {
	case *graphAlloc, *graphFree:
		e.mu.Unlock()
		return NotSupported
	}
	g := n.g
	g.nodes = slices.DeleteFunc(g.nodes, func(m *node) bool { return m == n })
	for _, m := range g.nodes {
		m.deps = slices.DeleteFunc(slices.Clone(m.deps), func(d *node) bool { return d == n })
	}
	late := e.dropNode(n)
	e.mu.Unlock()
	for _, f := range late {
		f()
	}
	return Success
}

// CondCreate is cuGraphConditionalHandleCreate.
func (e *Engine) CondCreate(gh Handle, def uint32, flags uint32) (uint64, Code) {
	e.mu.Lock()
	defer e.mu.Unlock()
	g, ok := locked[*graph](e, gh)
	if !ok || flags&^1 != 0 {
		return 0, InvalidValue
	}
	e.nextID++
	h := uint64(handleBase + e.nextID*64)
	g.conds[h] = condDef{def, flags&1 != 0}
	return h, Success
}

// UserObject is cuUserObjectCreate.
func (e *Engine) UserObject(destroy func(), refs uint32) (Handle, Code) {
	if destroy == nil || refs == 0 || refs > 1<<31-1 {
		return 0, InvalidValue
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	u := &userObject{refs: int(refs), destroy: destroy}
	u.h = e.newHandle(u)
	return u.h, Success
}

// UserObjectRef changes the caller's references: cuUserObjectRetain, cuUserObjectRelease.
func (e *Engine) UserObjectRef(h Handle, delta int) Code {
	if delta == 0 {
		return InvalidValue
	}
	e.mu.Lock()
	u, ok := locked[*userObject](e, h)
	if !ok {
		e.mu.Unlock()
		return InvalidValue
	}
	late := e.unrefUser(u, -delta)
	e.mu.Unlock()
	for _, f := range late {
		f()
	}
	return Success
}

// GraphUser gives references of a user object to a graph, or takes them back (delta < 0).
// With move they are the caller's own.
func (e *Engine) GraphUser(gh, uh Handle, delta int, move bool) Code {
	e.mu.Lock()
	g, ok := locked[*graph](e, gh)
	u, ok2 := locked[*userObject](e, uh)
	if !ok || !ok2 || delta == 0 || delta < 0 && g.users[u] < -delta {
		e.mu.Unlock()
		return InvalidValue
	}
	g.users[u] += delta
	if g.users[u] == 0 {
		delete(g.users, u)
	}
	var late []func()
	if delta > 0 && !move {
		u.refs += delta
	}
	if delta < 0 {
		late = e.unrefUser(u, -delta)
	}
	e.mu.Unlock()
	for _, f := range late {
		f()
	}
	return Success
}

// Dot writes a graph in the DOT language, as cuGraphDebugDotPrint does.
func (e *Engine) Dot(w io.Writer, h Handle, flags uint32) Code {
	e.mu.Lock()
	g, ok := locked[*graph](e, h)
	if !ok {
		e.mu.Unlock()
		return InvalidValue
	}
	var b strings.Builder
	b.WriteString("digraph dot {\n")
	g.dot(&b, "graph_1", flags)
	b.WriteString("}\n")
	e.mu.Unlock()
	if _, err := io.WriteString(w, b.String()); err != nil {
		return 304 // operating system
	}
	return Success
}

func (g *graph) dot(b *strings.Builder, name string, flags uint32) {
	fmt.Fprintf(b, "subgraph cluster_%s {\nlabel=%q graph[style=\"dashed\"];\n", name, name)
	id := make(map[*node]string)
	for i, n := range g.nodes {
		id[n] = fmt.Sprintf("%s_node_%d", name, i)
		label := nodeNames[n.w.nodeType()]
		if k, ok := n.w.(*kernelWork); ok {
			label += "\\n" + k.fn.name
			if flags&5 != 0 {
				label += fmt.Sprintf("\\ngrid %v block %v", k.cfg.Grid, k.cfg.Block)
			}
		}
		if flags&1025 != 0 {
			label += fmt.Sprintf("\\nhandle 0x%x", uintptr(n.h))
		}
		fmt.Fprintf(b, "%q [style=\"solid\" shape=\"rectangle\" label=\"%s\"];\n", id[n], label)
	}
	for _, n := range g.nodes {
		for _, d := range n.deps {
			fmt.Fprintf(b, "%q -> %q;\n", id[d], id[n])
		}
	}
	b.WriteString("}\n")
	for i, n := range g.nodes {
		switch w := n.w.(type) {
		case *childWork:
			w.g.dot(b, fmt.Sprintf("%s_%d", name, i), flags)
		case *condWork:
			for j, body := range w.bodies {
				body.dot(b, fmt.Sprintf("%s_%d_%d", name, i, j), flags)
			}
		}
	}
}
