package ext

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-handoff/handoff/dlpack"
)

// functions holds every registered function by number. It only grows, and a
// call reads it without a lock.
var functions struct {
	sync.Mutex
	list atomic.Pointer[[]*function]
}

// register gives fn its number.
func register(fn *function) uint32 {
	functions.Lock()
	defer functions.Unlock()
	var list []*function
	if p := functions.list.Load(); p != nil {
		list = append(list, *p...)
	}
	list = append(list, fn)
	functions.list.Store(&list)
	return uint32(len(list) - 1)
}

// calls holds the states of calls by their slots, which C gives out: a slot
// belongs to one call at a time. The table only grows.
var calls struct {
	sync.Mutex
	list atomic.Pointer[[]*call]
}

// callAt returns the state of a slot.
func callAt(slot uint32) *call {
	if list := calls.list.Load(); list != nil && int(slot) < len(*list) {
		return (*list)[slot]
	}
	return moreCalls(slot)
}

func moreCalls(slot uint32) *call {
	calls.Lock()
	defer calls.Unlock()
	var list []*call
	if p := calls.list.Load(); p != nil {
		list = *p
	}
	if int(slot) >= len(list) {
		grown := make([]*call, max(8, 2*int(slot+1)))
		for i := copy(grown, list); i < len(grown); i++ {
			grown[i] = new(call)
		}
		list = grown
		calls.list.Store(&list)
	}
	return list[slot]
}

// enter runs the function that the frame names. C calls it through exports.go,
// with the GIL held (quick functions) or released.
func enter(f *frame) {
	fn := (*functions.list.Load())[f.fn]
	c := callAt(f.slot)
	c.f, c.lent, c.done = f, false, false
	if fn.hasContext {
		fn.runContext(c)
	} else {
		fn.runHere(c)
	}
	if c.lent {
		c.takeBack()
	}
	c.f = nil
}

// takeBack ends the life of everything that was lent. Whoever asked for more
// time before that is waited for: the frame is gone after this.
func (c *call) takeBack() {
	c.gen.Add(1)
	for c.busy.Load() != 0 {
		runtime.Gosched()
	}
	for i, r := range c.refs {
		r.drop()
		c.refs[i] = nil
	}
	c.refs = c.refs[:0]
}

// hold keeps the frame of call gen in place until c.busy is given back. It
// reports false when that call is over.
func (c *call) hold(gen uint64) bool {
	c.busy.Add(1)
	if c.gen.Load() == gen {
		return true
	}
	c.busy.Add(-1)
	return false
}

// Live implements [memview.Lender].
func (c *call) Live(gen uint64) bool { return c.gen.Load() == gen }

// Retain implements [memview.Lender].
func (c *call) Retain(gen uint64, slot int) (func() error, error) {
	if !c.hold(gen) {
		return nil, fmt.Errorf("ext: the call that lent the array has returned: %w", dlpack.ErrClosed)
	}
	defer c.busy.Add(-1)
	owner, text := retain(c.f, uint32(slot))
	if owner == 0 {
		return nil, fmt.Errorf("ext: retain: %s: %w", text, dlpack.ErrNotSupported)
	}
	return func() error { dlpack.ReleaseOwner(owner); return nil }, nil
}

// runHere runs the function on Python's own thread.
func (fn *function) runHere(c *call) {
	defer fn.guard(c, true)
	fn.invoke(c, nil)
	c.done = true
}

// runElsewhere runs it on this goroutine, which is of our own making.
func (fn *function) runElsewhere(c *call, ctx context.Context, done chan<- struct{}) {
	defer close(done)
	defer fn.guard(c, false)
	fn.invoke(c, ctx)
	c.done = true
}

// signalPeriod is how often a call with a context looks for Ctrl-C.
const signalPeriod = 20 * time.Millisecond

// runContext runs the function on a goroutine of its own, while the thread of
// Python looks after signals. An exception raised by a signal handler
// (KeyboardInterrupt) cancels the context, and is raised when the function
// has returned.
func (fn *function) runContext(c *call) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	done := make(chan struct{})
	go fn.runElsewhere(c, ctx, done)
	tick := time.NewTicker(signalPeriod)
	defer tick.Stop()
	interrupted := false
	for {
		select {
		case <-done:
			if interrupted {
				c.raiseInterrupt()
			}
			return
		case <-tick.C:
			if !interrupted && signals(c.f) {
				interrupted = true
				cancel(ErrInterrupted)
			}
		}
	}
}

// raiseInterrupt makes the exception of the signal handler the outcome of the
// call, whatever the function returned.
func (c *call) raiseInterrupt() {
	f := c.f
	if f.excOwner != 0 {
		dlpack.ReleaseOwner(uintptr(f.excOwner))
	}
	f.status, f.errText = 1, nil
	f.exc, f.excOwner = f.interrupt, 0
}

// guard turns what must not cross into C into an exception: a panic, and a
// Goexit (done is false and there is nothing to recover).
func (fn *function) guard(c *call, onPython bool) {
	if c.done {
		return
	}
	switch p := recover().(type) {
	case nil:
		if onPython {
			// The runtime is about to end the process: this thread is not its own.
			fmt.Fprintf(os.Stderr, "handoff: %s called runtime.Goexit on a thread of Python. The process cannot go on. "+
				"Give the function a context.Context: it then runs on a goroutine of its own.\n", fn.qualified())
			return
		}
		c.setError("GoPanic", fn.qualified()+"() called runtime.Goexit")
	case argError:
		c.fail(p.err)
	default:
		c.setError("GoPanic", fmt.Sprintf("%s() panicked: %v\n\n%s", fn.qualified(), p, trimStack(debug.Stack())))
	}
}

// trimStack drops the frames above the one that panicked (debug.Stack, guard,
// panic), which say nothing to the reader.
func trimStack(stack []byte) string {
	s := string(stack)
	head, rest, ok := strings.Cut(s, "\n")
	if !ok {
		return s
	}
	if i := strings.LastIndex(rest, "\npanic("); i >= 0 {
		if lines := strings.SplitN(rest[i+1:], "\n", 3); len(lines) == 3 {
			return head + "\n" + lines[2]
		}
	}
	return s
}
