package launch

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
)

// CaptureMode says which calls of others break a capture.
type CaptureMode int32

// Modes.
const (
	// CaptureRelaxed lets everyone do everything. It suits goroutines, which
	// have no thread.
	CaptureRelaxed CaptureMode = 0
	// CaptureThreadLocal refuses calls on the thread that began the capture
	// that could break it. The goroutine must be locked to its thread, also
	// for the end.
	CaptureThreadLocal CaptureMode = 1
	// CaptureGlobal refuses such calls on every thread.
	CaptureGlobal CaptureMode = 2
)

func (m CaptureMode) driver() (int32, bool) {
	switch m {
	case CaptureRelaxed:
		return driver.StreamCaptureModeRelaxed, true
	case CaptureThreadLocal:
		return driver.StreamCaptureModeThreadLocal, true
	case CaptureGlobal:
		return driver.StreamCaptureModeGlobal, true
	}
	return 0, false
}

// Capture is a capture in progress: work that is queued on its stream, by
// whomever, is recorded into a graph in place of being run, and so is work of
// streams that wait for it, which must be waited for in turn before the end
// (B235). What is queued by this package is kept open by the graph; what
// others queue is for them, or for [Capture.Keep].
//
// A Capture may be used from any goroutine in the mode [CaptureRelaxed]. It
// must be ended.
type Capture struct {
	s     *device.Stream
	g     *Graph // the driver's until the end, unless into is set
	into  bool   // g existed before
	id    uint64
	ended atomic.Bool
}

// captures finds a Capture by its number, which all its streams share.
var captures struct {
	active atomic.Int64
	m      sync.Map // uint64 -> *Capture
}

// capturing returns the capture of this package that a stream takes part in,
// or nil.
func capturing(s *device.Stream) (*Capture, error) {
	if captures.active.Load() == 0 {
		return nil, nil
	}
	info, res := s.Device().Driver().CaptureInfo(s.Context().Handle(), s.Handle(), nil)
	if res != driver.Success {
		return nil, launchError("capture state", s.Device().Ordinal(), res)
	}
	if info.Status != driver.StreamCaptureStatusActive {
		return nil, nil // or invalidated: the driver refuses what comes
	}
	if c, ok := captures.m.Load(info.ID); ok {
		return c.(*Capture), nil
	}
	return nil, nil
}

// BeginCapture begins to record the work that is queued on a stream, which may
// be another library's. The legacy default stream cannot capture:
// driver.ErrCapture (B233).
func BeginCapture(s *device.Stream, mode CaptureMode) (*Capture, error) {
	const op = "begin capture"
	m, ok := mode.driver()
	if s == nil || !ok {
		return nil, invalid("%s: no stream, or mode %d", op, mode)
	}
	if err := s.Begin(op); err != nil { // until the end
		return nil, err
	}
	if err := s.BeginCapture(m); err != nil {
		s.End()
		return nil, fmt.Errorf("launch: %w", err)
	}
	ctx := s.Context()
	g := &Graph{own: &graphOwner{d: ctx.Device().Driver(), keep: newHolds()}, ctx: ctx}
	return newCapture(s, g, false)
}

// Capture begins to record the work that is queued on a stream into g, after
// deps.
func (g *Graph) Capture(s *device.Stream, mode CaptureMode, deps ...Node) (*Capture, error) {
	const op = "begin capture into graph"
	m, ok := mode.driver()
	if s == nil || !ok {
		return nil, invalid("%s: no stream, or mode %d", op, mode)
	}
	defer g.exit()
	if err := g.enter(op); err != nil {
		return nil, err
	}
	h, err := g.handles(op, deps)
	if err != nil {
		return nil, err
	}
	if err := s.Begin(op); err != nil { // until the end
		return nil, err
	}
	if err := g.check(op, g.own.d.StreamBeginCaptureToGraph(s.Context().Handle(), s.Handle(), g.handle, h, nil, m)); err != nil {
		s.End()
		return nil, err
	}
	return newCapture(s, g, true)
}

func newCapture(s *device.Stream, g *Graph, into bool) (*Capture, error) {
	c := &Capture{s: s, g: g, into: into}
	info, res := s.Device().Driver().CaptureInfo(s.Context().Handle(), s.Handle(), nil)
	if res != driver.Success {
		h, err := c.end()
		if !into {
			g.abandon()
		}
		if err == nil && !into {
			err = g.check("destroy graph", g.own.d.GraphDestroy(h))
		}
		return nil, errors.Join(launchError("begin capture", s.Device().Ordinal(), res), err)
	}
	c.id = info.ID
	if !into {
		g.handle = info.Graph // nodes can be added to it, see Insert
	}
	captures.m.Store(c.id, c)
	captures.active.Add(1)
	return c, nil
}

// Stream returns the stream that captures.
func (c *Capture) Stream() *device.Stream {
	if c == nil {
		return nil
	}
	return c.s
}

// over says whether the capture has ended, or never begun.
func (c *Capture) over() bool { return c == nil || c.g == nil || c.ended.Load() }

// Keep keeps something until the graph, and everything made of it, is closed:
// see [Graph.Keep].
func (c *Capture) Keep(release func()) error {
	if release == nil {
		return invalid("keep for capture: no function")
	}
	if c.over() {
		return closed("keep for capture")
	}
	return c.g.own.keep.add(nil, nil, release)
}

// Host records a Go function: each launch of the graph calls it, see
// [Graph.Host]. s is the capturing stream or one that joined it.
func (c *Capture) Host(s *device.Stream, fn func()) error {
	const op = "capture host function"
	if s == nil {
		return invalid("%s: no stream", op)
	}
	if c.over() {
		return closed(op)
	}
	if err := s.Begin(op); err != nil {
		return err
	}
	defer s.End()
	if now, err := capturing(s); err != nil {
		return err
	} else if now != c {
		return invalid("%s: the stream takes no part in the capture", op)
	}
	p, err := hostParams(op, fn, c.g.own.keep)
	if err != nil {
		return err
	}
	return launchError(op, s.Device().Ordinal(), s.Device().Driver().LaunchHostFunc(s.Context().Handle(), s.Handle(), p.Fn, p.User))
}

// Insert adds nodes that no call on a stream makes, such as a child graph or a
// conditional node, where the capture of a stream is: f gets the graph that is
// captured into and the nodes that the next one would depend on, adds nodes
// behind these, and returns the ones that what is queued next has to follow.
// None means that it follows what it would have followed. s is the capturing
// stream or one that joined it; f must not end the capture.
//
// The nodes can be used with the graph that [Capture.End] returns. What f has
// added when it fails stays in the graph, which goes on being captured.
func (c *Capture) Insert(s *device.Stream, f func(g *Graph, after []Node) ([]Node, error)) error {
	const op = "insert nodes into capture"
	if s == nil || f == nil {
		return invalid("%s: no stream, or no function", op)
	}
	if c.over() {
		return closed(op)
	}
	if err := s.Begin(op); err != nil {
		return err
	}
	defer s.End()
	d, ctx := s.Device().Driver(), s.Context().Handle()
	after := make([]driver.GraphNodeHandle, 8)
	info, res := d.CaptureInfo(ctx, s.Handle(), after)
	if res == driver.Success && info.Deps > len(after) {
		after = make([]driver.GraphNodeHandle, info.Deps)
		info, res = d.CaptureInfo(ctx, s.Handle(), after)
	}
	if res != driver.Success {
		return launchError(op, s.Device().Ordinal(), res)
	}
	if info.Status != driver.StreamCaptureStatusActive || info.ID != c.id {
		return invalid("%s: the stream takes no part in the capture", op)
	}
	nodes, err := f(c.g, c.g.wrap(after[:min(info.Deps, len(after))]))
	if err != nil || len(nodes) == 0 {
		return err
	}
	h, err := c.g.handles(op, nodes)
	if err != nil {
		return err
	}
	return launchError(op, s.Device().Ordinal(), d.StreamUpdateCaptureDependencies(ctx, s.Handle(), h, nil, driver.StreamSetCaptureDependencies))
}

func (c *Capture) keepKernel(k *Kernel) error { return c.g.own.keep.kernel(k) }

// End ends the capture and returns the graph: the one that was captured into,
// or a new one. If the capture was broken, or a stream did not rejoin, there is
// no graph: the error wraps driver.ErrCapture, and the stream is usable again.
func (c *Capture) End() (*Graph, error) {
	if c.over() || c.ended.Swap(true) {
		return nil, closed("end capture")
	}
	captures.m.Delete(c.id)
	captures.active.Add(-1)
	h, err := c.end()
	if c.into {
		if err != nil {
			return nil, err
		}
		return c.g, nil
	}
	if err != nil {
		c.g.abandon()
		return nil, err
	}
	c.g.open(h)
	return c.g, nil
}

// abandon gives up what a graph keeps that never was: its nodes are none any more.
func (g *Graph) abandon() {
	g.own.mu.Lock()
	g.own.closed = true
	g.own.mu.Unlock()
	g.own.keep.drop()
}

// end makes the driver end the capture, and gives the stream back, which may
// be closed by now.
func (c *Capture) end() (driver.GraphHandle, error) {
	defer c.s.End()
	d := c.s.Device().Driver()
	h, res := d.StreamEndCapture(c.s.Context().Handle(), c.s.Handle())
	if res == driver.Success && h != 0 {
		return h, nil
	}
	e := &Error{Op: "end capture", Device: c.s.Device().Ordinal(), Code: res}
	switch res {
	case driver.Success:
		e.Code, e.Detail = driver.ErrorStreamCaptureInvalidated, "the driver returned no graph"
	case driver.ErrorStreamCaptureUnjoined:
		e.Detail = "a stream that waited for this one was not waited for in turn: Stream.Wait for it before the end"
	case driver.ErrorStreamCaptureInvalidated:
		e.Detail = "a call that captures do not allow was made: a synchronization, a query, or a use of the legacy default stream"
	}
	return 0, e
}

// Record captures what f queues on s, in the relaxed mode. If f fails or
// panics the capture is ended and dropped.
func Record(s *device.Stream, f func(*Capture) error) (*Graph, error) {
	if f == nil {
		return nil, invalid("record: no function")
	}
	c, err := BeginCapture(s, CaptureRelaxed)
	if err != nil {
		return nil, err
	}
	ok := false
	defer func() {
		if !ok {
			if g, err := c.End(); err == nil {
				_ = g.Close()
			}
		}
	}()
	if err := f(c); err != nil {
		return nil, err
	}
	ok = true
	return c.End()
}
