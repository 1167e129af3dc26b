package device_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/stream"
)

type like struct {
	version int
	handle  uintptr
}

func (l like) CUDAStream() (version int, handle uintptr) { return l.version, l.handle }

func TestStreamOptions(t *testing.T) {
	d := open(t, 0)
	ctx, err := d.PrimaryContext()
	require.NoError(t, err)
	least, greatest, err := ctx.Priorities()
	require.NoError(t, err)
	require.LessOrEqual(t, greatest, least)
	for _, o := range []*device.StreamOptions{nil, {}, {Blocking: true}, {Priority: greatest}} {
		s, err := d.NewStream(o)
		require.NoError(t, err)
		var want device.StreamOptions
		if o != nil {
			want = *o
		}
		nb, err := s.NonBlocking()
		require.NoError(t, err)
		require.Equal(t, !want.Blocking, nb)
		p, err := s.Priority()
		require.NoError(t, err)
		require.Equal(t, want.Priority, p)
		// The driver thinks so too.
		flags, res := d.Driver().StreamGetFlags(ctx.Handle(), s.Handle())
		require.NoError(t, res.Err())
		require.Equal(t, nb, flags&driver.StreamNonBlocking != 0)
		raw, res := d.Driver().StreamGetPriority(ctx.Handle(), s.Handle())
		require.NoError(t, res.Err())
		require.Equal(t, int32(p), raw)
		require.Same(t, d, s.Device())
		require.Same(t, ctx, s.Context())
		require.True(t, s.Owned())
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
	}
	for _, p := range []int{least + 1, greatest - 1} {
		if p == 0 {
			continue
		}
		_, err := d.NewStream(&device.StreamOptions{Priority: p})
		require.ErrorIs(t, err, device.ErrInvalidValue)
	}
}

func TestClosedStream(t *testing.T) {
	d := open(t, 0)
	other := newStream(t, d)
	e, err := d.NewEvent(nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	b := allocate(t, d, 16, other)
	s, err := d.NewStream(nil)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	for name, f := range map[string]func() error{
		"done":        func() error { _, err := s.Done(); return err },
		"synchronize": func() error { return s.Synchronize(background) },
		"capturing":   func() error { _, err := s.Capturing(); return err },
		"id":          func() error { _, err := s.ID(); return err },
		"record":      func() error { _, err := s.Record(nil); return err },
		"record into": func() error { return s.RecordEvent(e) },
		"wait event":  func() error { return s.WaitEvent(e) },
		"wait":        func() error { return s.Wait(other) },
		"be waited":   func() error { return other.Wait(s) },
		"launch":      func() error { return s.Launch(func() {}) },
		"capture":     func() error { return s.BeginCapture(0) },
		"end capture": func() error { _, err := s.EndCapture(); return err },
		"allocate":    func() error { _, err := d.Allocate(16, s); return err },
		"fill":        func() error { return b.Fill8(1, s) },
		"set stream":  func() error { return b.SetStream(s) },
	} {
		require.ErrorIs(t, f(), device.ErrClosed, name)
	}
	version, _ := s.CUDAStream()
	require.Equal(t, -1, version)
	require.False(t, s.View().Valid())
	version, _ = (*device.Stream)(nil).CUDAStream()
	require.Equal(t, -1, version)
	require.Error(t, other.Wait((*device.Stream)(nil)))
	require.Error(t, other.Wait(nil))
}

func TestIdentity(t *testing.T) {
	d := open(t, 0)
	s := newStream(t, d)
	again, err := device.WrapStream(s.Handle(), nil, nil)
	require.NoError(t, err)
	require.Same(t, s, again, "one owner a handle")
	again, err = device.Wrap(like{0, uintptr(s.Handle())}, nil)
	require.NoError(t, err)
	require.Same(t, s, again)
	again, err = device.Wrap(s, nil)
	require.NoError(t, err)
	require.Same(t, s, again)
	again, err = device.Wrap(s.View(), nil)
	require.NoError(t, err)
	require.Same(t, s, again)

	e, err := s.Record(nil)
	require.NoError(t, err)
	require.Same(t, e, device.EventOf(e.Handle()))
	require.NoError(t, e.Close())
	require.Nil(t, device.EventOf(e.Handle()))
	require.Nil(t, device.EventOf(12345))

	def, err := d.DefaultStream()
	require.NoError(t, err)
	require.Equal(t, driver.LegacyStream, def.Handle())
	ctx, err := d.PrimaryContext()
	require.NoError(t, err)
	null, err := device.WrapStream(driver.DefaultStream, ctx, nil)
	require.NoError(t, err)
	require.Same(t, def, null, "0 and 1 are the legacy default stream")
	require.NoError(t, def.Close())
	def2, err := d.DefaultStream()
	require.NoError(t, err)
	require.NotSame(t, def, def2, "a closed one does not come back")
	require.NoError(t, def2.Close())
	_, err = device.WrapStream(driver.LegacyStream, nil, nil)
	require.ErrorIs(t, err, stream.ErrNoContext)
}

func TestForeignStream(t *testing.T) {
	d := open(t, 0)
	ctx, err := d.PrimaryContext()
	require.NoError(t, err)
	drv := d.Driver()
	h, res := drv.StreamCreate(ctx.Handle(), driver.StreamNonBlocking)
	require.NoError(t, res.Err())
	owner := &like{0, uintptr(h)}
	s, err := device.Wrap(owner, nil)
	require.NoError(t, err)
	require.False(t, s.Owned())
	require.Same(t, owner, s.Owner(), "kept alive")
	require.Same(t, ctx, s.Context())
	nb, err := s.NonBlocking()
	require.NoError(t, err)
	require.True(t, nb)
	_, err = s.Priority()
	require.NoError(t, err)
	mine := newStream(t, d)
	require.NoError(t, mine.Wait(owner))
	require.NoError(t, s.Wait(mine))
	require.NoError(t, s.Synchronize(soon(t)))
	require.NoError(t, s.Close())
	require.NoError(t, drv.StreamDestroy(ctx.Handle(), h).Err(), "closing did not destroy it")

	for _, bad := range []stream.StreamLike{like{1, uintptr(h)}, like{0, 17}, like{-1, 0}} {
		_, err := device.Wrap(bad, nil)
		require.ErrorIs(t, err, stream.ErrProtocol)
		require.ErrorIs(t, mine.Wait(bad), stream.ErrProtocol)
	}
	_, err = device.WrapStream(17, nil, nil)
	require.ErrorIs(t, err, stream.ErrProtocol)
}

func TestPerThreadStream(t *testing.T) {
	d := open(t, 0)
	ctx, err := d.PrimaryContext()
	require.NoError(t, err)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s, err := ctx.PerThreadStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.Equal(t, stream.KindPerThreadDefault, s.Kind())
	require.NoError(t, s.Synchronize(soon(t)))
	b, err := d.Allocate(64, s)
	require.NoError(t, err)
	require.NoError(t, b.Fill8(3, s))
	elsewhere := make(chan error, 2)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends too
		_, err := s.Done()
		elsewhere <- err
		elsewhere <- b.Close() // giving memory back works from any thread
	}()
	require.ErrorIs(t, <-elsewhere, device.ErrThread)
	require.NoError(t, <-elsewhere)
}

func TestWaitOrders(t *testing.T) {
	d := open(t, 0)
	a, b := newStream(t, d), newStream(t, d)
	x := allocate(t, d, 1<<16, a)
	y := allocate(t, d, 1<<16, b)
	require.NoError(t, b.Wait(a)) // y after x's allocation
	release := block(t, a)
	require.NoError(t, x.Fill8(7, a))
	require.NoError(t, b.Wait(a))
	require.NoError(t, y.CopyFrom(x, b))
	require.False(t, isDone(t, b), "b does not wait for a")
	release()
	for _, v := range read(t, y, b) {
		require.Equal(t, byte(7), v)
	}
	require.NoError(t, a.Wait(a), "itself")
}

func TestWaitAcrossDevices(t *testing.T) {
	a, b := newStream(t, open(t, 0)), newStream(t, open(t, 1))
	release := block(t, a)
	require.NoError(t, b.Wait(a))
	require.False(t, isDone(t, b))
	release()
	require.NoError(t, b.Synchronize(soon(t)))
	require.True(t, isDone(t, a))
}

// TestEdgesAreCounted: every way to order two streams is one edge, and none is
// made where none is needed or where it fails.
func TestEdgesAreCounted(t *testing.T) {
	d := open(t, 0)
	a, b := newStream(t, d), newStream(t, d)
	closed := newStream(t, d)
	require.NoError(t, closed.Close())
	c, err := d.PrimaryContext()
	require.NoError(t, err)
	legacy, err := device.WrapStream(driver.LegacyStream, c, nil)
	require.NoError(t, err)
	e, err := a.Record(nil)
	require.NoError(t, err)
	for name, x := range map[string]struct {
		edges int64
		f     func() error
	}{
		"streams":           {1, func() error { return b.Wait(a) }},
		"views":             {1, func() error { return b.View().WaitFor(a.View()) }},
		"a view":            {1, func() error { return b.Wait(a.View()) }},
		"a default stream":  {1, func() error { return b.Wait(legacy) }},
		"an event":          {1, func() error { return b.WaitEvent(e) }},
		"itself":            {0, func() error { return a.Wait(a) }},
		"its own view":      {0, func() error { return a.Wait(a.View()) }},
		"the same default":  {0, func() error { return legacy.Wait(legacy.View()) }},
		"nothing of closed": {0, func() error { return ignore(b.Wait(closed), device.ErrClosed) }},
	} {
		for range 3 {
			before := device.Stats().Edges
			require.NoError(t, x.f(), name)
			require.Equal(t, x.edges, device.Stats().Edges-before, name)
		}
	}
	require.NoError(t, a.Synchronize(soon(t)))
	require.NoError(t, b.Synchronize(soon(t)))

	// Nor is one lost where many make them at once.
	const each = 500
	before := device.Stats().Edges
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range each {
				assert.NoError(t, b.Wait(a))
			}
		}()
	}
	wg.Wait()
	require.Equal(t, int64(8*each), device.Stats().Edges-before)
	require.NoError(t, b.Synchronize(soon(t)))
	require.NoError(t, e.Close())
	require.NoError(t, legacy.Close())
}

// ignore returns nil for the error that is expected.
func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return fmt.Errorf("expected %w, got %w", expected, err)
}

// TestCloseWhileOthersWait: a stream that is closed while others use it is
// destroyed once, and calls that come too late say that it is closed.
func TestCloseWhileOthersWait(t *testing.T) {
	d := open(t, 0)
	a := newStream(t, d)
	for i := range 100 {
		before := device.Stats().Streams
		b, err := d.NewStream(nil)
		require.NoError(t, err)
		require.Equal(t, before+1, device.Stats().Streams)
		var wg sync.WaitGroup
		start := make(chan struct{})
		for range 4 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				<-start
				for {
					if err := b.Wait(a); err != nil {
						assert.ErrorIs(t, err, device.ErrClosed)
						return
					}
				}
			}()
		}
		close(start)
		if i%2 == 1 {
			runtime.Gosched()
		}
		require.NoError(t, b.Close())
		wg.Wait()
		require.Eventually(t, func() bool { return device.Stats().Streams == before }, time.Minute, time.Millisecond)
		require.ErrorIs(t, a.Wait(b), device.ErrClosed)
		require.ErrorIs(t, b.Wait(a), device.ErrClosed)
	}
	require.NoError(t, a.Synchronize(soon(t)))
}

// TestCloseDoesNotWaitForWaits: the handle stays until a call that has begun is
// over, however long that takes, and closing does not wait for it.
func TestCloseDoesNotWaitForWaits(t *testing.T) {
	if testdriver.Real() {
		t.Skip("a call is made slow on the software device")
	}
	d := open(t, 0)
	a, b := newStream(t, d), newStream(t, d)
	require.NoError(t, b.Wait(a)) // its event is in the pool from now on
	c, err := d.NewStream(nil)
	require.NoError(t, err)
	before := soft.LiveObjects().Streams
	slow, err := soft.Inject(soft.Fault{API: "cuStreamWaitEvent", Nth: 1, Delay: 2 * time.Second})
	require.NoError(t, err)
	defer slow.Remove()
	done := make(chan error)
	go func() { done <- c.Wait(a) }()
	require.Eventually(t, func() bool { return slow.Hits() > 0 }, time.Minute, 10*time.Microsecond)
	require.NoError(t, c.Close())
	select {
	case <-done:
		t.Fatal("closing has waited for the call")
	default:
	}
	require.Equal(t, before, soft.LiveObjects().Streams, "destroyed while it is used")
	require.ErrorIs(t, c.Wait(a), device.ErrClosed)
	require.NoError(t, <-done, "it had begun before")
	require.Eventually(t, func() bool { return soft.LiveObjects().Streams == before-1 }, time.Minute, time.Millisecond)
}

func TestSynchronizeCancelled(t *testing.T) {
	d := open(t, 0)
	s := newStream(t, d)
	release := block(t, s)
	e, err := s.Record(nil)
	require.NoError(t, err)
	for name, f := range map[string]func(context.Context) error{"stream": s.Synchronize, "event": e.Synchronize} {
		ctx, cancel := context.WithTimeout(background, time.Millisecond)
		require.ErrorIs(t, f(ctx), context.DeadlineExceeded, name)
		require.ErrorIs(t, f(ctx), context.DeadlineExceeded, name+", already over")
		cancel()
	}
	require.False(t, isDone(t, s), "the work goes on")
	release()
	require.NoError(t, s.Synchronize(soon(t)))
	require.NoError(t, s.Synchronize(background))
	require.NoError(t, e.Synchronize(soon(t)))
	require.NoError(t, e.Close())
}

func threads(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for _, l := range strings.Split(string(text), "\n") {
		if v, ok := strings.CutPrefix(l, "Threads:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(v))
			require.NoError(t, err)
			return n
		}
	}
	t.Fatal("no thread count")
	return 0
}

// TestManyWaiters: B333. Waiting holds no thread, with a context that can end
// and, past the first few, without one.
func TestManyWaiters(t *testing.T) {
	d := open(t, 0)
	s := newStream(t, d)
	release := block(t, s)
	e, err := s.Record(nil)
	require.NoError(t, err)
	before := threads(t)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	var wg sync.WaitGroup
	var started sync.WaitGroup
	errs := make(chan error, 2000)
	for i := range 2000 {
		wg.Add(1)
		started.Add(1)
		go func() {
			defer wg.Done()
			c := ctx
			if i%4 == 0 {
				c = background
			}
			started.Done()
			if i%2 == 0 {
				errs <- s.Synchronize(c)
			} else {
				errs <- e.Synchronize(c)
			}
		}()
	}
	started.Wait()
	waitFor(t, func() bool { return device.Stats().Waiters > 1900 })
	require.Less(t, threads(t)-before, 150)
	release()
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.NoError(t, e.Close())
}

func TestCapture(t *testing.T) {
	d := open(t, 0)
	s, other := newStream(t, d), newStream(t, d)
	b := allocate(t, d, 64, s)
	require.NoError(t, s.Synchronize(soon(t)))
	require.NoError(t, s.BeginCapture(driver.StreamCaptureModeRelaxed))
	capturing, err := s.Capturing()
	require.NoError(t, err)
	require.True(t, capturing)
	require.NoError(t, b.Fill8(1, s))
	// B231: none of these harms the capture.
	_, err = s.Done()
	require.ErrorIs(t, err, device.ErrCapture)
	require.ErrorIs(t, s.Synchronize(background), device.ErrCapture)
	require.ErrorIs(t, device.Defer(s.View(), func(error) {}), device.ErrCapture)
	require.ErrorIs(t, b.CopyFromHost(make([]byte, 64), s), device.ErrCapture)
	require.ErrorIs(t, s.Launch(func() {}), device.ErrCapture)
	// Edges that rejoin are part of the graph: B235.
	require.NoError(t, other.Wait(s))
	require.NoError(t, b.Fill8(2, other))
	require.NoError(t, s.Wait(other))
	g, err := s.EndCapture()
	require.NoError(t, err)
	nodes, res := d.Driver().GraphGetNodes(g, nil)
	require.NoError(t, res.Err())
	require.Equal(t, 2, nodes)
	exec, res := d.Driver().GraphInstantiateWithParams(s.Context().Handle(), g, &driver.GraphInstantiateParams{})
	require.NoError(t, res.Err())
	require.NoError(t, d.Driver().GraphLaunch(s.Context().Handle(), exec, s.Handle()).Err())
	require.Equal(t, byte(2), read(t, b, s)[0])
	require.NoError(t, d.Driver().GraphExecDestroy(exec).Err())
	require.NoError(t, d.Driver().GraphDestroy(g).Err())

	def, err := d.DefaultStream()
	require.NoError(t, err)
	require.ErrorIs(t, def.BeginCapture(driver.StreamCaptureModeRelaxed), device.ErrCapture) // B233
	_, err = s.EndCapture()
	require.Error(t, err)
}

func TestEvents(t *testing.T) {
	d := open(t, 0)
	s := newStream(t, d)
	make2 := func(o *device.EventOptions) *device.Event {
		e, err := d.NewEvent(o)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, e.Close()); require.NoError(t, e.Close()) })
		return e
	}
	start, end, untimed := make2(&device.EventOptions{Timing: true}), make2(&device.EventOptions{Timing: true}), make2(nil)
	done, err := start.Done()
	require.NoError(t, err)
	require.True(t, done, "never recorded")
	_, err = device.Elapsed(start, end)
	require.ErrorIs(t, err, device.ErrNotReady, "never recorded")
	_, err = device.Elapsed(start, untimed)
	require.ErrorIs(t, err, device.ErrNoTiming) // B229
	require.Contains(t, err.Error(), "EventOptions.Timing")

	require.NoError(t, s.RecordEvent(start))
	release := block(t, s)
	require.NoError(t, s.RecordEvent(end))
	done, err = end.Done()
	require.NoError(t, err)
	require.False(t, done)
	_, err = device.Elapsed(start, end)
	require.ErrorIs(t, err, device.ErrNotReady) // B227
	release()
	require.NoError(t, end.Synchronize(soon(t)))
	took, err := device.Elapsed(start, end)
	require.NoError(t, err)
	require.Positive(t, took)

	_, err = d.NewEvent(&device.EventOptions{Timing: true, Interprocess: true}) // B298
	require.ErrorIs(t, err, device.ErrInvalidValue)
	_, err = untimed.IPCHandle()
	require.ErrorIs(t, err, device.ErrInvalidValue)

	ctx, err := d.NewContext(0)
	require.NoError(t, err)
	foreign, err := ctx.NewEvent(nil)
	require.NoError(t, err)
	err = s.RecordEvent(foreign)
	require.ErrorIs(t, err, device.ErrInvalidHandle)
	require.NoError(t, foreign.Close())
	require.NoError(t, ctx.Close())
	_, err = foreign.Done()
	require.ErrorIs(t, err, device.ErrClosed)
	require.ErrorIs(t, s.WaitEvent(foreign), device.ErrClosed)
}

func TestWaitEventOfAnotherDevice(t *testing.T) {
	a, b := newStream(t, open(t, 0)), newStream(t, open(t, 1))
	release := block(t, a)
	e, err := a.Record(nil)
	require.NoError(t, err)
	require.NoError(t, b.WaitEvent(e))
	require.NoError(t, e.Close(), "the wait stays")
	require.False(t, isDone(t, b))
	release()
	require.NoError(t, b.Synchronize(soon(t)))
}

func TestLaunchHost(t *testing.T) {
	s := newStream(t, open(t, 0))
	ran := make(chan int, 3)
	for i := range 3 {
		require.NoError(t, s.Launch(func() { ran <- i }))
	}
	require.NoError(t, s.Synchronize(soon(t)))
	for i := range 3 {
		require.Equal(t, i, <-ran, "in stream order")
	}
}

func TestDefer(t *testing.T) {
	s := newStream(t, open(t, 0))
	release := block(t, s)
	ran := make(chan error, 10)
	for range 10 {
		require.NoError(t, device.Defer(s.View(), func(err error) { ran <- err }))
	}
	require.Empty(t, ran)
	require.Equal(t, int64(10), device.Stats().Deferred)
	ctx, cancel := context.WithTimeout(background, time.Millisecond)
	defer cancel()
	require.ErrorIs(t, device.Flush(ctx), context.DeadlineExceeded)
	release()
	require.NoError(t, device.Flush(soon(t)))
	require.Len(t, ran, 10)
	for range 10 {
		require.NoError(t, <-ran)
	}
	require.Zero(t, device.Stats().Deferred)
	require.ErrorIs(t, device.Defer(stream.StreamView{}, func(error) {}), stream.ErrInvalid)
}

// TestDeferKeepsTheStream: a stream that was closed, or forgotten, meanwhile.
func TestDeferKeepsTheStream(t *testing.T) {
	testdriver.HoldUp(t)
	d := open(t, 0)
	s, err := d.NewStream(nil)
	require.NoError(t, err)
	release := block(t, s)
	done := make(chan error, 1)
	require.NoError(t, device.Defer(s.View(), func(err error) { done <- err }))
	require.NoError(t, s.Close())
	release()
	require.NoError(t, <-done)
	require.NoError(t, device.Flush(soon(t)))
}

// TestForgotten: what nobody closes is given back when the collector finds it,
// B353, B357, and counted.
func TestForgotten(t *testing.T) {
	d := open(t, 0)
	leak.Pause(t)
	before := device.Stats()
	func() {
		s, err := d.NewStream(nil)
		require.NoError(t, err)
		_, err = s.Record(nil)
		require.NoError(t, err)
		b, err := d.Allocate(1024, s)
		require.NoError(t, err)
		require.NoError(t, b.Fill8(1, s))
		p, err := d.NewPool(nil)
		require.NoError(t, err)
		_, err = device.Allocate(p, 64, s)
		require.NoError(t, err)
		c, err := d.NewContext(0)
		require.NoError(t, err)
		_, err = c.NewStream(nil)
		require.NoError(t, err)
	}()
	waitFor(t, func() bool {
		s := device.Stats()
		return s.Streams <= before.Streams && s.Events <= before.Events && s.Buffers <= before.Buffers &&
			s.Pools <= before.Pools && s.Contexts <= before.Contexts
	})
	require.GreaterOrEqual(t, device.Stats().Collected, before.Collected+7)
}

// TestNoAllocations compares with the bare driver calls: the software device is
// written in Go and allocates, a GPU's driver does not.
func TestNoAllocations(t *testing.T) {
	d := open(t, 0)
	leak.Pause(t)
	a, b := newStream(t, d), newStream(t, d)
	e, err := a.Record(nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	pool, err := d.Pool()
	require.NoError(t, err)
	x, y := allocate(t, d, 64, a), allocate(t, d, 64, a)
	require.NoError(t, x.UsedOn(b))
	require.NoError(t, y.UsedOn(b))
	drv, c := d.Driver(), a.Context().Handle()
	order := func() error { return drv.OrderStreams(c, a.Handle(), c, b.Handle(), false).Err() }
	for _, m := range []struct {
		name      string
		ours, raw func() error
	}{
		{"wait", func() error { return b.Wait(a) }, order},
		{"wait for a view", func() error { return b.View().WaitFor(a.View()) }, order},
		{"allocate, free", func() error {
			p, err := pool.Allocate(1024, a)
			if err != nil {
				return err
			}
			return pool.Deallocate(p, 1024, a)
		}, func() error {
			p, res := drv.MemAllocFromPoolAsync(c, 1024, pool.Handle(), a.Handle())
			if res != driver.Success {
				return res
			}
			return drv.MemFreeAsync(c, p, a.Handle()).Err()
		}},
		{"record", func() error { return a.RecordEvent(e) }, func() error { return drv.EventRecord(c, e.Handle(), a.Handle()).Err() }},
		{"wait for an event", func() error { return b.WaitEvent(e) }, func() error { return drv.StreamWaitEvent(c, b.Handle(), e.Handle(), 0).Err() }},
		{"fill", func() error { return x.Fill8(1, b) }, func() error { return drv.MemsetD8Async(c, x.Ptr(), 1, 64, b.Handle()).Err() }},
		{"copy", func() error { return y.CopyFrom(x, b) }, func() error { return drv.MemcpyAsync(c, y.Ptr(), x.Ptr(), 64, b.Handle()).Err() }},
		{"done", func() error { _, err := a.Done(); return err }, func() error { drv.StreamPoll(c, a.Handle()); return nil }},
	} {
		count := func(f func() error) float64 {
			require.NoError(t, f(), m.name)
			n := testdriver.AllocsPerRun(drv, 200, func() {
				if err := f(); err != nil {
					panic(err)
				}
			})
			require.NoError(t, a.Synchronize(background))
			require.NoError(t, b.Synchronize(background))
			return n
		}
		raw, ours := count(m.raw), count(m.ours)
		if testdriver.Real() {
			require.Zero(t, raw, m.name)
		}
		require.LessOrEqual(t, ours, raw, m.name)
	}
}

func BenchmarkWait(bm *testing.B) {
	d := open(bm, 0)
	a, b := newStream(bm, d), newStream(bm, d)
	bm.ReportAllocs()
	for bm.Loop() {
		if err := b.Wait(a); err != nil {
			bm.Fatal(err)
		}
	}
}

func BenchmarkPoolAllocateFree(bm *testing.B) {
	d := open(bm, 0)
	s := newStream(bm, d)
	pool, err := d.Pool()
	require.NoError(bm, err)
	bm.ReportAllocs()
	for bm.Loop() {
		p, err := pool.Allocate(1024, s)
		if err != nil {
			bm.Fatal(err)
		}
		if err := pool.Deallocate(p, 1024, s); err != nil {
			bm.Fatal(err)
		}
	}
}

func BenchmarkBuffer(bm *testing.B) {
	d := open(bm, 0)
	s := newStream(bm, d)
	bm.ReportAllocs()
	for bm.Loop() {
		b, err := d.Allocate(1024, s)
		if err != nil {
			bm.Fatal(err)
		}
		if err := b.Close(); err != nil {
			bm.Fatal(err)
		}
	}
}

func BenchmarkSynchronizeIdle(bm *testing.B) {
	s := newStream(bm, open(bm, 0))
	bm.ReportAllocs()
	for bm.Loop() {
		if err := s.Synchronize(background); err != nil {
			bm.Fatal(err)
		}
	}
}

// TestUseKeepsTheHandle: B353. A stream whose last use is a call that lasts
// stays open until the call returns, whatever the collector does.
func TestUseKeepsTheHandle(t *testing.T) {
	d := open(t, 0)
	leak.Pause(t)
	before := device.Stats()
	gate := make(chan struct{})
	done := make(chan error)
	func() {
		s, err := d.NewStream(nil)
		require.NoError(t, err)
		require.NoError(t, s.Launch(func() { <-gate }))
		ctx, cancel := context.WithCancel(background)
		t.Cleanup(cancel)
		go func() { done <- s.Synchronize(ctx) }()
	}()
	waitFor(t, func() bool { return device.Stats().Waiters == 1 })
	for range 10 {
		runtime.GC()
		require.Equal(t, before.Streams+1, device.Stats().Streams, "destroyed while it was waited for")
	}
	close(gate)
	require.NoError(t, <-done)
	waitFor(t, func() bool { return device.Stats().Streams == before.Streams })
}

func TestStreamsOfClosedContexts(t *testing.T) { // the context stays for them
	d := open(t, 0)
	c, err := d.NewContext(0)
	require.NoError(t, err)
	s, err := c.NewStream(nil)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	_, err = c.NewEvent(nil)
	require.ErrorIs(t, err, device.ErrClosed)
	e, err := s.Record(nil)
	require.NoError(t, err)
	require.NoError(t, s.WaitEvent(e))
	_, err = s.Record(&device.EventOptions{Timing: true, Interprocess: true})
	require.ErrorIs(t, err, device.ErrInvalidValue)
	made := device.Stats().Contexts
	require.NoError(t, s.Close())
	require.Equal(t, made, device.Stats().Contexts, "the event holds it, too")
	require.NoError(t, e.Synchronize(t.Context()))
	require.NoError(t, e.Close())
	require.Equal(t, made-1, device.Stats().Contexts)
}

func TestPass(t *testing.T) { // a stream stays for who is in a pass that it admits
	d := open(t, 0)
	a, err := d.NewStream(nil)
	require.NoError(t, err)
	b := newStream(t, d)
	streams := func() int64 { return device.Stats().Streams }
	var p device.Pass
	p.Enter()
	require.False(t, a.Admits(&p), "the zero pass is good for no stream")
	require.True(t, a.Admit(&p))
	require.True(t, a.Admits(&p))
	require.False(t, b.Admits(&p))
	require.True(t, b.Admit(&p))
	require.False(t, a.Admits(&p), "a pass is good for one stream")
	p.Drop()
	require.False(t, b.Admits(&p))
	require.True(t, a.Admit(&p))
	before := streams()
	require.NoError(t, a.Close())
	require.False(t, a.Admits(&p))
	require.False(t, a.Admit(&p))
	require.Equal(t, before, streams(), "who is in still uses it")
	p.Leave()
	require.Equal(t, before-1, streams())

	c, err := d.NewStream(nil)
	require.NoError(t, err)
	p.Enter()
	require.True(t, c.Admit(&p))
	p.Leave()
	require.NoError(t, c.Close())
	require.Equal(t, before-1, streams(), "nobody was in")

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := b.Context().PerThreadStream()
	require.NoError(t, err)
	p.Enter()
	require.False(t, own.Admit(&p), "other threads would use it")
	p.Leave()
	require.NoError(t, own.Close())
}
