package launch

import (
	"fmt"
	"iter"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/internal/leak"
)

// hold is one thing that graphs keep open: a kernel's code, a buffer, an event,
// a Go function. It is counted, because a graph, its clones, the graphs that it
// is a child of, and what was instantiated of them keep the same.
type hold struct {
	refs atomic.Int64
	key  any // what it is, or nil
	end  func()
}

func (h *hold) unref() {
	if h.refs.Add(-1) == 0 {
		h.end()
		stats.holds.Add(-1)
	}
}

// holds is what one graph keeps. Graphs never point to the holds of others:
// they would be able to keep each other for ever.
type holds struct {
	mu   sync.Mutex
	all  map[*hold]struct{}
	keys map[any]struct{}
}

func newHolds() *holds {
	return &holds{all: make(map[*hold]struct{}), keys: make(map[any]struct{})}
}

// drop gives everything up. Nothing is added afterwards.
func (h *holds) drop() {
	h.mu.Lock()
	all := h.all
	h.all, h.keys = nil, nil
	h.mu.Unlock()
	for one := range all {
		one.unref()
	}
}

// add keeps what key stands for, once: begin takes it and end gives it back.
func (h *holds) add(key any, begin func() error, end func()) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		return closed("use in a graph")
	}
	if key != nil {
		if _, ok := h.keys[key]; ok {
			return nil
		}
	}
	if begin != nil {
		if err := begin(); err != nil {
			return err
		}
	}
	one := &hold{key: key, end: end}
	one.refs.Store(1)
	stats.holds.Add(1)
	h.take(one)
	return nil
}

func (h *holds) take(one *hold) {
	h.all[one] = struct{}{}
	if one.key != nil {
		h.keys[one.key] = struct{}{}
	}
}

// others keeps what another graph keeps now.
func (h *holds) others(o *holds) {
	if h == o {
		return
	}
	o.mu.Lock()
	list := make([]*hold, 0, len(o.all))
	for one := range o.all {
		one.refs.Add(1)
		list = append(list, one)
	}
	o.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range list {
		_, have := h.all[one]
		if have || h.all == nil {
			one.unref()
			continue
		}
		h.take(one)
	}
}

func (h *holds) buffer(b *device.Buffer) error {
	return h.add(b, func() error { return b.Begin("use of buffer in a graph") }, b.End)
}

func (h *holds) context(c *device.Context) error {
	return h.add(c, func() error { return c.Begin("use of context in a graph") }, c.End)
}

func (h *holds) event(e *device.Event) error {
	return h.add(e, func() error { return e.Begin("use of event in a graph") }, e.End)
}

func (h *holds) kernel(k *Kernel) error {
	var release func() error
	return h.add(k.own.lib, func() (err error) {
		release, err = k.hold("use in a graph")
		return err
	}, func() { _ = release() })
}

// Graph is work and its order: nodes and the edges between them, made node by
// node or captured from a stream. [Graph.Instantiate] makes it executable.
//
// A Graph keeps open what its nodes use (code, buffers, events, Go functions)
// until it is closed, and so do executable graphs and graphs that hold it as a
// child: buffers and kernels may be closed in any order. What raw pointers and
// views point to is for the caller to keep; see [Graph.Keep].
//
// A Graph may be used from several goroutines at once.
type Graph struct {
	own     *graphOwner
	handle  driver.GraphHandle
	ctx     *device.Context
	root    *Graph // of the body of a conditional node; the graph itself otherwise
	cleanup runtime.Cleanup
}

// graphOwner is what a graph and the bodies in it share. It outlives the Graph,
// whose cleanup has it.
type graphOwner struct {
	mu     sync.Mutex
	d      *driver.Driver
	handle driver.GraphHandle
	keep   *holds
	token  leak.Token
	closed bool
}

func (o *graphOwner) dispose() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	o.closed = true
	o.token.Done()
	stats.graphs.Add(-1)
	res := o.d.GraphDestroy(o.handle)
	o.keep.drop()
	return shutdownIsFine(check("destroy graph", -1, res))
}

// NewGraph returns an empty graph, whose nodes run in a context.
func NewGraph(ctx *device.Context) (*Graph, error) {
	if ctx.Device() == nil {
		return nil, invalid("create graph: no context")
	}
	d := ctx.Device().Driver()
	h, res := d.GraphCreate(0)
	if err := check("create graph", ctx.Device().Ordinal(), res); err != nil {
		return nil, err
	}
	return newGraph(d, h, ctx, newHolds()), nil
}

func newGraph(d *driver.Driver, h driver.GraphHandle, ctx *device.Context, keep *holds) *Graph {
	g := &Graph{own: &graphOwner{d: d, keep: keep}, ctx: ctx}
	g.open(h)
	return g
}

// open takes the handle over, which Close destroys from here on.
func (g *Graph) open(h driver.GraphHandle) {
	g.own.handle, g.handle, g.root = h, h, g
	g.own.token = leak.Track("launch.Graph")
	stats.graphs.Add(1)
	g.cleanup = runtime.AddCleanup(g, func(o *graphOwner) {
		stats.collected.Add(1)
		go func() { _ = o.dispose() }()
	}, g.own)
}

// ImportGraph takes over a raw graph, for example one that another library
// captured: Close destroys it. ctx is where its nodes run. What it uses is for
// the caller to keep.
func ImportGraph(handle driver.GraphHandle, ctx *device.Context) (*Graph, error) {
	if handle == 0 || ctx.Device() == nil {
		return nil, invalid("import graph: no handle, or no context")
	}
	return newGraph(ctx.Device().Driver(), handle, ctx, newHolds()), nil
}

// Close destroys the graph. Executable graphs made of it, and children in
// other graphs, go on. It may be called twice. The body of a conditional node
// goes with the graph that it is in.
func (g *Graph) Close() error {
	if g == nil || g.root != g {
		return nil
	}
	g.cleanup.Stop()
	return g.own.dispose()
}

// Handle returns the raw handle, valid while g is open.
func (g *Graph) Handle() driver.GraphHandle {
	if g == nil {
		return 0
	}
	return g.handle
}

// Context returns the context that the nodes run in.
func (g *Graph) Context() *device.Context {
	if g == nil {
		return nil
	}
	return g.ctx
}

// Keep keeps something until the graph, and everything made of it, is closed:
// release is called once then, when no launch uses it any more.
func (g *Graph) Keep(release func()) error {
	if release == nil {
		return invalid("keep for graph: no function")
	}
	defer g.exit()
	if err := g.enter("keep for graph"); err != nil {
		return err
	}
	return g.own.keep.add(nil, nil, release)
}

// made refuses nil and the zero Graph, which are as good as closed.
func (g *Graph) made(op string) error {
	if g == nil || g.own == nil {
		return closed(op)
	}
	return nil
}

// enter locks the graph for one operation; exit is called whether it fails or
// not.
func (g *Graph) enter(op string) error {
	if err := g.made(op); err != nil {
		return err
	}
	g.own.mu.Lock()
	if g.own.closed {
		return closed(op)
	}
	return nil
}

func (g *Graph) exit() {
	if g != nil && g.own != nil {
		g.own.mu.Unlock()
	}
}

func (g *Graph) check(op string, res driver.Result) error {
	if res == driver.Success {
		return nil
	}
	e := &Error{Op: op, Device: g.ctx.Device().Ordinal(), Code: res}
	return e
}

// shutdownIsFine drops the error of a release after the driver has gone.
func shutdownIsFine(err error) error {
	if err != nil && isShutdown(err) {
		return nil
	}
	return err
}

// Node is a node of a graph. It is a value that compares with ==; it means
// nothing in other graphs, and nothing after it was removed. The zero Node is
// none.
type Node struct {
	g *Graph
	h driver.GraphNodeHandle
}

// Handle returns the raw handle.
func (n Node) Handle() driver.GraphNodeHandle { return n.h }

// Graph returns the graph that the node is in, or nil.
func (n Node) Graph() *Graph { return n.g }

// NodeKind says what a node does. Its values are the driver's, plus 1.
type NodeKind int32

// Kinds.
const (
	KindKernel      NodeKind = 1
	KindCopy        NodeKind = 2
	KindFill        NodeKind = 3
	KindHost        NodeKind = 4
	KindChild       NodeKind = 5
	KindEmpty       NodeKind = 6
	KindWaitEvent   NodeKind = 7
	KindRecordEvent NodeKind = 8
	KindSignal      NodeKind = 9
	KindWait        NodeKind = 10
	KindAlloc       NodeKind = 11
	KindFree        NodeKind = 12
	KindMemOp       NodeKind = 13
	KindConditional NodeKind = 14
)

// String returns the kind in words.
func (k NodeKind) String() string {
	names := [...]string{
		"no kind", "kernel", "copy", "fill", "host function", "child graph", "empty", "event wait", "event record",
		"semaphore signal", "semaphore wait", "allocation", "free", "memory operation", "conditional",
	}
	if k < 0 || int(k) >= len(names) {
		return "kind " + strconv.Itoa(int(k))
	}
	return names[k]
}

// Kind returns what the node does.
func (n Node) Kind() (NodeKind, error) {
	const op = "kind of node"
	if n.g == nil {
		return 0, invalid("%s: no node", op)
	}
	defer n.g.exit()
	if err := n.g.enter(op); err != nil {
		return 0, err
	}
	kind, res := n.g.own.d.GraphNodeGetType(n.h)
	return NodeKind(kind + 1), n.g.check(op, res)
}

// handles checks that nodes are of g and returns them for the driver.
func (g *Graph) handles(op string, nodes []Node) ([]driver.GraphNodeHandle, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	h := make([]driver.GraphNodeHandle, len(nodes))
	for i, n := range nodes {
		if n.g == nil || n.g.handle != g.handle || n.g.own != g.own {
			return nil, invalid("%s: node %d is none of this graph", op, i)
		}
		h[i] = n.h
	}
	return h, nil
}

// Nodes returns all nodes, in the order that they were made in.
func (g *Graph) Nodes() ([]Node, error) {
	return g.nodes("nodes of graph", (*driver.Driver).GraphGetNodes)
}

// Roots returns the nodes that depend on none.
func (g *Graph) Roots() ([]Node, error) {
	return g.nodes("roots of graph", (*driver.Driver).GraphGetRootNodes)
}

func (g *Graph) nodes(op string, get func(*driver.Driver, driver.GraphHandle, []driver.GraphNodeHandle) (int, driver.Result)) ([]Node, error) {
	defer g.exit()
	if err := g.enter(op); err != nil {
		return nil, err
	}
	n, res := get(g.own.d, g.handle, nil)
	if err := g.check(op, res); err != nil || n == 0 {
		return nil, err
	}
	h := make([]driver.GraphNodeHandle, n)
	n, res = get(g.own.d, g.handle, h)
	return g.wrap(h[:min(n, len(h))]), g.check(op, res)
}

func (g *Graph) wrap(h []driver.GraphNodeHandle) []Node {
	nodes := make([]Node, len(h))
	for i := range h {
		nodes[i] = Node{g, h[i]}
	}
	return nodes
}

// Edges yields pairs of a node and one that depends on it.
func (g *Graph) Edges() (iter.Seq2[Node, Node], error) {
	const op = "edges of graph"
	defer g.exit()
	if err := g.enter(op); err != nil {
		return nil, err
	}
	n, res := g.own.d.GraphGetEdges(g.handle, nil, nil, nil)
	if err := g.check(op, res); err != nil {
		return nil, err
	}
	from, to, data := make([]driver.GraphNodeHandle, n), make([]driver.GraphNodeHandle, n), make([]driver.GraphEdgeData, n)
	if n > 0 {
		if n, res = g.own.d.GraphGetEdges(g.handle, from, to, data); res != driver.Success {
			return nil, g.check(op, res)
		}
	}
	return func(yield func(Node, Node) bool) {
		for i := range min(n, len(from)) {
			if !yield(Node{g, from[i]}, Node{g, to[i]}) {
				return
			}
		}
	}, nil
}

// Dependencies returns the nodes that n depends on.
func (n Node) Dependencies() ([]Node, error) { return n.neighbours("dependencies of node", true) }

// Dependents returns the nodes that depend on n.
func (n Node) Dependents() ([]Node, error) { return n.neighbours("dependents of node", false) }

func (n Node) neighbours(op string, up bool) ([]Node, error) {
	if n.g == nil {
		return nil, invalid("%s: no node", op)
	}
	get := n.g.own.d.GraphNodeGetDependentNodes
	if up {
		get = n.g.own.d.GraphNodeGetDependencies
	}
	defer n.g.exit()
	if err := n.g.enter(op); err != nil {
		return nil, err
	}
	count, res := get(n.h, nil, nil)
	if err := n.g.check(op, res); err != nil || count == 0 {
		return nil, err
	}
	h := make([]driver.GraphNodeHandle, count)
	count, res = get(n.h, h, make([]driver.GraphEdgeData, count))
	return n.g.wrap(h[:min(count, len(h))]), n.g.check(op, res)
}

// After adds edges: n runs after the others.
func (n Node) After(others ...Node) error { return n.edges("add edges", others, true) }

// NotAfter removes edges that After or the making of n added.
func (n Node) NotAfter(others ...Node) error { return n.edges("remove edges", others, false) }

func (n Node) edges(op string, others []Node, add bool) error {
	g := n.g
	if g == nil {
		return invalid("%s: no node", op)
	}
	defer g.exit()
	if err := g.enter(op); err != nil {
		return err
	}
	from, err := g.handles(op, others)
	if err != nil || len(from) == 0 {
		return err
	}
	to := make([]driver.GraphNodeHandle, len(from))
	for i := range to {
		to[i] = n.h
	}
	if add {
		return g.check(op, g.own.d.GraphAddDependencies(g.handle, from, to, nil))
	}
	return g.check(op, g.own.d.GraphRemoveDependencies(g.handle, from, to, nil))
}

// Remove takes the node and its edges out of the graph. What it used stays
// kept until the graph is closed.
func (n Node) Remove() error {
	const op = "remove node"
	if n.g == nil {
		return invalid("%s: no node", op)
	}
	defer n.g.exit()
	if err := n.g.enter(op); err != nil {
		return err
	}
	return n.g.check(op, n.g.own.d.GraphDestroyNode(n.h))
}

// Clone returns a copy of the graph.
func (g *Graph) Clone() (*Graph, error) {
	const op = "clone graph"
	defer g.exit()
	if err := g.enter(op); err != nil {
		return nil, err
	}
	h, res := g.own.d.GraphClone(g.handle)
	if err := g.check(op, res); err != nil {
		return nil, err
	}
	keep := newHolds()
	keep.others(g.own.keep)
	return newGraph(g.own.d, h, g.ctx, keep), nil
}

// Find returns the copy of a node in a clone of its graph.
func (g *Graph) Find(original Node) (Node, error) {
	const op = "find node in clone"
	defer g.exit()
	if err := g.enter(op); err != nil {
		return Node{}, err
	}
	h, res := g.own.d.GraphNodeFindInClone(original.h, g.handle)
	return Node{g, h}, g.check(op, res)
}

// DOT returns the graph in the language of Graphviz. flags are
// driver.GraphDebugDotFlags..., 0 for the plain picture.
func (g *Graph) DOT(flags uint32) (string, error) {
	const op = "print graph"
	defer g.exit()
	if err := g.enter(op); err != nil {
		return "", err
	}
	f, err := os.CreateTemp("", "handoff-*.dot")
	if err != nil {
		return "", fmt.Errorf("launch: %s: %w", op, err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	if err := f.Close(); err != nil {
		return "", fmt.Errorf("launch: %s: %w", op, err)
	}
	if err := g.check(op, g.own.d.GraphDebugDotPrint(g.handle, f.Name(), flags)); err != nil {
		return "", err
	}
	text, err := os.ReadFile(f.Name())
	if err != nil {
		return "", fmt.Errorf("launch: %s: %w", op, err)
	}
	return string(text), nil
}
