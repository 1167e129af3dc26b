package engine

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAsynchronous(t *testing.T) {
	r := newRig(t, Options{})
	a, b := r.stream(t, 1), r.stream(t, 1)
	p := r.mem(t, 64)
	open := r.block(t, a)

	t.Run("work behind a block does not block the host", func(t *testing.T) {
		good(t, r.MemsetAsync(r.t, Set{Dst: p, Value: 7, Elem: 1, Width: 64, Height: 1}, a))
		require.Equal(t, NotReady, r.StreamQuery(r.t, a))
	})
	t.Run("another stream goes on", func(t *testing.T) {
		good(t, r.MemsetAsync(r.t, Set{Dst: p, Value: 9, Elem: 1, Width: 64, Height: 1}, b))
		good(t, r.StreamSynchronize(r.t, b))
		require.Equal(t, byte(9), r.bytes(t, p, 64)[0])
	})
	t.Run("a wait for an event orders streams without the host", func(t *testing.T) {
		ev := r.event(t, EventDisableTiming)
		good(t, r.EventRecord(r.t, ev, a, 0))
		good(t, r.StreamWaitEvent(r.t, b, ev, 0))
		require.Equal(t, NotReady, r.EventQuery(r.t, ev))
		require.Equal(t, NotReady, r.StreamQuery(r.t, b))
		good(t, r.EventDestroy(r.t, ev)) // the wait keeps its meaning
		open()
		good(t, r.StreamSynchronize(r.t, b))
		require.Equal(t, byte(7), r.bytes(t, p, 64)[0])
	})
	good(t, r.MemFree(r.t, p))
	good(t, r.StreamDestroy(r.t, a))
	good(t, r.StreamDestroy(r.t, b))
}

// bytes is device memory as the device sees it.
func (r *rig) bytes(t testing.TB, p, n uint64) []byte {
	t.Helper()
	m, c := r.resolve(p, n, TypeDevice)
	good(t, c)
	return m.b
}

// The legacy default stream: what waits for what.
func TestLegacyStreamTable(t *testing.T) {
	const (
		legacy = iota
		perThread
		blocking
		nonBlocking
	)
	names := []string{"legacy", "per-thread", "blocking", "non-blocking"}
	waits := map[[2]int]bool{ // second waits for first
		{legacy, perThread}:   true,
		{legacy, blocking}:    true,
		{perThread, legacy}:   true,
		{blocking, legacy}:    true,
		{legacy, legacy}:      true,
		{blocking, blocking}:  false, // of two different ones
		{perThread, blocking}: false,
		{blocking, perThread}: false,
	}
	for first := range names {
		for second := range names {
			if first == second && (first == perThread || first == nonBlocking) {
				continue
			}
			t.Run(names[second]+" after "+names[first], func(t *testing.T) {
				r := newRig(t, Options{})
				b1, b2, n1, n2 := r.stream(t, 0), r.stream(t, 0), r.stream(t, 1), r.stream(t, 1)
				pick := func(k int, created, other Handle) Handle {
					switch k {
					case legacy:
						return StreamLegacy
					case perThread:
						return StreamPerThread
					case blocking:
						return created
					}
					return other
				}
				open := r.block(t, pick(first, b1, n1))
				done := make(chan struct{})
				s := pick(second, b2, n2)
				good(t, r.LaunchHostFunc(r.t, s, func() { close(done) }, 1, 0, nil))
				if waits[[2]int{first, second}] {
					require.Equal(t, NotReady, r.StreamQuery(r.t, s))
					select {
					case <-done:
						t.Fatal("did not wait")
					default:
					}
					open()
					<-done
				} else {
					<-done // without opening
					open()
				}
				good(t, r.CtxSynchronize(r.t))
				for _, s := range []Handle{b1, b2, n1, n2} {
					good(t, r.StreamDestroy(r.t, s))
				}
			})
		}
	}
}

func TestPerThreadStreamsDiffer(t *testing.T) {
	r := newRig(t, Options{})
	other := r.NewThread()
	good(t, r.CtxSet(other, r.ctx))
	open := r.block(t, StreamPerThread)
	require.Equal(t, NotReady, r.StreamQuery(r.t, StreamPerThread))
	good(t, r.StreamQuery(other, StreamPerThread))
	id1, c := r.StreamID(r.t, StreamPerThread)
	good(t, c)
	id2, c := r.StreamID(other, StreamPerThread)
	good(t, c)
	require.NotEqual(t, id1, id2)
	open()
	other.Exit()
	good(t, r.CtxSynchronize(r.t))
}

func TestEventTimes(t *testing.T) {
	r := newRig(t, Options{})
	s := r.stream(t, 1)
	a, b, plain := r.event(t, 0), r.event(t, 0), r.event(t, EventDisableTiming)
	t.Run("B227 elapsed before the end is not ready", func(t *testing.T) {
		good(t, r.EventRecord(r.t, a, s, 0))
		open := r.block(t, s)
		good(t, r.EventRecord(r.t, b, s, 0))
		_, c := r.EventElapsed(r.t, a, b)
		require.Equal(t, NotReady, c)
		open()
		good(t, r.EventSynchronize(r.t, b))
		ms, c := r.EventElapsed(r.t, a, b)
		good(t, c)
		require.Greater(t, ms, float32(0))
		back, c := r.EventElapsed(r.t, b, a)
		good(t, c)
		require.Equal(t, -ms, back)
	})
	t.Run("B229 no time without timing", func(t *testing.T) {
		good(t, r.EventRecord(r.t, plain, s, 0))
		_, c := r.EventElapsed(r.t, a, plain)
		require.Equal(t, InvalidHandle, c)
	})
	for _, e := range []Handle{a, b, plain} {
		good(t, r.EventDestroy(r.t, e))
		require.Equal(t, InvalidHandle, r.EventQuery(r.t, e))
	}
	good(t, r.StreamDestroy(r.t, s))
	require.Equal(t, InvalidHandle, r.StreamQuery(r.t, s))
}

func TestDestroyedStreamFinishesItsWork(t *testing.T) {
	r := newRig(t, Options{})
	s := r.stream(t, 0)
	open := r.block(t, s)
	done := false
	good(t, r.LaunchHostFunc(r.t, s, func() { done = true }, 1, 0, nil))
	good(t, r.StreamDestroy(r.t, s))
	// It still counts for the legacy stream and for the context.
	require.Equal(t, NotReady, r.StreamQuery(r.t, StreamLegacy))
	open()
	good(t, r.CtxSynchronize(r.t))
	require.True(t, done)
}

func TestCrashSticksToTheContext(t *testing.T) {
	for name, tc := range map[string]struct {
		fn   func(*Launch)
		want Code
	}{
		"panic":             {func(*Launch) { panic("oops") }, LaunchFailure},
		"null":              {func(l *Launch) { l.Read(0, 8) }, IllegalAddress},
		"stray":             {func(l *Launch) { l.Write(0x1234, 8) }, IllegalAddress},
		"wrap":              {func(l *Launch) { l.Bytes(1<<63, 1<<63) }, IllegalAddress},
		"chosen":            {func(l *Launch) { l.Fail(710) }, 710},
		"index":             {func(l *Launch) { _ = make([]int, 0)[len(l.Name)] }, LaunchFailure},
		"unknown condition": {func(l *Launch) { l.SetCondition(1, 1) }, InvalidValue},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, Register("bad", nil, tc.fn))
			e, err := New(Options{Memory: 1 << 20})
			require.NoError(t, err)
			defer e.Close()
			good(t, e.Init(0))
			th := e.NewThread()
			h, c := e.CtxCreate(th, 0, 0)
			good(t, c)
			m, c := e.ModuleLoad(th, []byte(ImageMagic+"\nkernel bad"))
			good(t, c)
			f, c := e.ModuleFunction(m, "bad")
			good(t, c)
			good(t, e.LaunchKernel(th, f, one(), nil, StreamLegacy))
			require.Equal(t, tc.want, e.StreamSynchronize(th, StreamLegacy))
			_, c = e.MemAlloc(th, 16)
			require.Equal(t, tc.want, c, "every later call says so")
			_, c = e.StreamCreate(th, 0, 0)
			require.Equal(t, tc.want, c)
			// Another context is not touched, and the broken one can be destroyed.
			h2, c := e.CtxCreate(th, 0, 0)
			good(t, c)
			_, c = e.MemAlloc(th, 16)
			good(t, c)
			good(t, e.CtxDestroy(th, h2))
			good(t, e.CtxDestroy(th, h))
			require.Equal(t, Live{}, e.Live())
		})
	}
}

func one() LaunchConfig {
	return LaunchConfig{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}
}

func TestContexts(t *testing.T) {
	r := newRig(t, Options{})
	t.Run("stack", func(t *testing.T) {
		th := r.NewThread()
		defer th.Exit()
		_, c := r.CtxPop(th)
		require.Equal(t, InvalidContext, c)
		a, c := r.CtxCreate(th, 0, 0)
		good(t, c)
		b, c := r.CtxCreate(th, 0, 1)
		good(t, c)
		d, c := r.CtxDevice(th)
		good(t, c)
		require.Equal(t, 1, d)
		good(t, r.CtxPush(th, a))
		got, c := r.CtxPop(th)
		good(t, c)
		require.Equal(t, a, got)
		got, c = r.CtxGet(th)
		good(t, c)
		require.Equal(t, b, got)
		good(t, r.CtxSet(th, a)) // replaces b on top
		got, _ = r.CtxPop(th)
		require.Equal(t, a, got)
		got, _ = r.CtxPop(th)
		require.Equal(t, a, got)
		good(t, r.CtxDestroy(th, a))
		require.Equal(t, InvalidContext, r.CtxDestroy(th, a))
		good(t, r.CtxDestroy(th, b))
	})
	t.Run("destroyed while current elsewhere", func(t *testing.T) {
		th, other := r.NewThread(), r.NewThread()
		a, c := r.CtxCreate(th, 0, 0)
		good(t, c)
		good(t, r.CtxPush(other, a))
		s, c := r.StreamCreate(other, 0, 0)
		good(t, c)
		good(t, r.CtxDestroy(th, a))
		require.Equal(t, ContextDestroyed, r.CtxSynchronize(other))
		_, c = r.MemAlloc(other, 8)
		require.Equal(t, ContextDestroyed, c)
		require.Equal(t, InvalidHandle, r.StreamQuery(other, s), "its streams are gone with it")
		th.Exit()
		other.Exit()
	})
	t.Run("primary comes back with the same handle", func(t *testing.T) {
		h, c := r.PrimaryRetain(1)
		good(t, c)
		th := r.NewThread()
		defer th.Exit()
		good(t, r.CtxSet(th, h))
		p, c := r.MemAlloc(th, 64)
		good(t, c)
		good(t, r.PrimaryRelease(1))
		require.Equal(t, InvalidContext, r.PrimaryRelease(1))
		_, c = r.MemAlloc(th, 64)
		require.Equal(t, ContextDestroyed, c)
		require.False(t, r.Pointer(p).Known, "memory goes with the context")
		h2, c := r.PrimaryRetain(1)
		good(t, c)
		require.Equal(t, h, h2)
		p, c = r.MemAlloc(th, 64)
		good(t, c)
		good(t, r.PrimaryReset(1))
		require.False(t, r.Pointer(p).Known)
		good(t, r.PrimaryRelease(1))
	})
	t.Run("B281 a fresh thread has no context", func(t *testing.T) {
		th := r.NewThread()
		defer th.Exit()
		_, c := r.MemAlloc(th, 8)
		require.Equal(t, InvalidContext, c)
		_, c = r.StreamCreate(th, 0, 0)
		require.Equal(t, InvalidContext, c)
	})
	t.Run("B285 peer access twice", func(t *testing.T) {
		h, c := r.PrimaryRetain(1)
		good(t, c)
		good(t, r.EnablePeer(r.t, h, 0))
		require.Equal(t, PeerAccessEnabled, r.EnablePeer(r.t, h, 0))
		good(t, r.DisablePeer(r.t, h))
		require.Equal(t, PeerAccessNotEnabled, r.DisablePeer(r.t, h))
		good(t, r.PrimaryRelease(1))
	})
}

func TestNoPeers(t *testing.T) {
	r := newRig(t, Options{NoPeers: true})
	can, c := r.CanAccessPeer(0, 1)
	good(t, c)
	require.False(t, can)
	h, c := r.PrimaryRetain(1)
	good(t, c)
	require.Equal(t, PeerAccessUnsupported, r.EnablePeer(r.t, h, 0))
	good(t, r.PrimaryRelease(1))
}

// Kernels reach the memory of a peer only after access was enabled; copies always do.
func TestPeerMemory(t *testing.T) {
	r := newRig(t, Options{})
	require.NoError(t, Register("poke", []ParamInfo{{Size: 8}}, func(l *Launch) { l.Write(l.Ptr(0), 1)[0] = 42 }))
	h, c := r.PrimaryRetain(1)
	good(t, c)
	far := r.NewThread()
	good(t, r.CtxSet(far, h))
	q, c := r.MemAlloc(far, 64)
	good(t, c)
	near := r.mem(t, 64)
	good(t, r.Memset(r.t, Set{Dst: near, Value: 5, Elem: 1, Width: 64, Height: 1}, StreamLegacy))
	good(t, r.MemcpyPeer(r.t, q, h, near, r.ctx, 64, StreamLegacy))
	good(t, r.StreamSynchronize(r.t, StreamLegacy))
	require.Equal(t, byte(5), r.bytes(t, q, 64)[63])

	good(t, r.EnablePeer(r.t, h, 0))
	lib, c := r.LibraryLoad([]byte(ImageMagic + "\nkernel poke\n"))
	good(t, c)
	k, c := r.LibraryKernel(lib, "poke")
	good(t, c)
	args := []byte{byte(q), byte(q >> 8), byte(q >> 16), byte(q >> 24), byte(q >> 32), byte(q >> 40), byte(q >> 48), byte(q >> 56)}
	good(t, r.LaunchKernel(r.t, k, one(), args, StreamLegacy))
	good(t, r.StreamSynchronize(r.t, StreamLegacy))
	require.Equal(t, byte(42), r.bytes(t, q, 64)[0])
	good(t, r.DisablePeer(r.t, h))

	// In a context of its own, which the fault ends.
	own, c := r.CtxCreate(r.t, 0, 0)
	good(t, c)
	good(t, r.LaunchKernel(r.t, k, one(), args, StreamLegacy))
	require.Equal(t, IllegalAddress, r.StreamSynchronize(r.t, StreamLegacy))
	good(t, r.CtxDestroy(r.t, own))
	good(t, r.LibraryUnload(lib))
	good(t, r.MemFree(r.t, near))
	good(t, r.MemFree(far, q))
	far.Exit()
	good(t, r.PrimaryRelease(1))
}

func TestFaultHook(t *testing.T) {
	var mu sync.Mutex
	calls := map[string]int{}
	e, err := New(Options{Memory: 1 << 20, Fault: func(api string) Code {
		mu.Lock()
		defer mu.Unlock()
		calls[api]++
		if api == "cuMemAlloc" && calls[api] == 2 {
			return OutOfMemory
		}
		return Success
	}})
	require.NoError(t, err)
	defer e.Close()
	th := e.NewThread()
	defer th.Exit()
	run := func() Code { return e.Call(th, "cuMemAlloc", func() Code { return Success }) }
	require.Equal(t, NotInitialized, run())
	require.Equal(t, OutOfMemory, run())
	good(t, e.CallEarly("cuInit", func() Code { return e.Init(0) }))
	good(t, run())
	require.Equal(t, Unknown, e.Call(th, "x", func() Code { panic("no") }), "no panic gets out")
	require.Equal(t, 3, calls["cuMemAlloc"])
}

// Nothing keeps running when the work is done.
func TestNoGoroutineStays(t *testing.T) {
	r := newRig(t, Options{})
	before := runtime.NumGoroutine()
	var ss []Handle
	for range 32 {
		s := r.stream(t, 0)
		ss = append(ss, s)
		for range 20 {
			good(t, r.LaunchHostFunc(r.t, s, func() {}, 1, 0, nil))
		}
	}
	good(t, r.CtxSynchronize(r.t))
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() {
		require.True(t, time.Now().Before(deadline), "goroutines stay")
	}
	for _, s := range ss {
		good(t, r.StreamDestroy(r.t, s))
	}
}

// Many threads, streams and events at once: every counter that streams count in order
// comes out right.
func TestManyThreads(t *testing.T) {
	r := newRig(t, Options{})
	const threads, rounds = 8, 100
	var wg sync.WaitGroup
	for g := range threads {
		wg.Add(1)
		go func() {
			defer wg.Done()
			th := r.NewThread()
			defer th.Exit()
			if r.CtxSet(th, r.ctx) != Success {
				t.Error("set")
				return
			}
			a, _ := r.StreamCreate(th, uint32(g&1), 0)
			b, _ := r.StreamCreate(th, 1, 0)
			ev, _ := r.EventCreate(th, EventDisableTiming)
			n := 0
			for i := range rounds {
				s, o := a, b
				if i&1 == 1 {
					s, o = b, a
				}
				r.LaunchHostFunc(th, s, func() { n++ }, 1, 0, nil)
				r.EventRecord(th, ev, s, 0)
				r.StreamWaitEvent(th, o, ev, 0)
				p, c := r.MemAllocAsync(th, uint64(512+i*64), 0, s)
				if c != Success {
					t.Error(c)
					return
				}
				r.MemsetAsync(th, Set{Dst: p, Elem: 4, Width: 128, Height: 1}, s)
				r.MemFreeAsync(th, p, s)
				if i%10 == 0 {
					r.MemsetAsync(th, Set{}, StreamLegacy)
					r.LaunchHostFunc(th, StreamLegacy, func() {}, 1, 0, nil)
				}
			}
			r.StreamSynchronize(th, a)
			r.StreamSynchronize(th, b)
			if n != rounds {
				t.Errorf("counted %d", n)
			}
			r.StreamDestroy(th, a)
			r.StreamDestroy(th, b)
			r.EventDestroy(th, ev)
		}()
	}
	wg.Wait()
	good(t, r.CtxSynchronize(r.t))
}

// TestKnowledgeOfDeadStreams: what a stream knows of others does not grow with every stream that ever was.
func TestKnowledgeOfDeadStreams(t *testing.T) {
	r := newRig(t, Options{})
	keep := r.stream(t, 1)
	ev, most := r.event(t, 2), 0
	for range 1000 {
		s, code := r.StreamCreate(r.t, 1, 0)
		good(t, code)
		open := r.block(t, s)
		good(t, r.EventRecord(r.t, ev, s, 0))
		good(t, r.StreamWaitEvent(r.t, keep, ev, 0))
		open()
		good(t, r.StreamSynchronize(r.t, keep))
		good(t, r.StreamDestroy(r.t, s))
		k, ok := lookup[*stream](r.Engine, keep)
		require.True(t, ok)
		most = max(most, len(k.after))
	}
	require.Greater(t, most, 100, "the streams were known")
	require.Less(t, most, 200)
}
