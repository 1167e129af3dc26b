//go:build cgo && linux

package driver_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/stretchr/testify/require"
)

// stubs holds the libraries that were built, by their flags.
var stubs struct {
	sync.Mutex
	dir string
	lib map[string]string
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "handoff-stub-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	stubs.dir, stubs.lib = dir, map[string]string{}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func compiler() string {
	if cc := os.Getenv("CC"); cc != "" {
		return strings.Fields(cc)[0]
	}
	return "cc"
}

// stub builds the stub library with some macros defined.
func stub(t testing.TB, defines ...string) string {
	t.Helper()
	stubs.Lock()
	defer stubs.Unlock()
	key := strings.Join(defines, " ")
	if path, ok := stubs.lib[key]; ok {
		return path
	}
	path := filepath.Join(stubs.dir, fmt.Sprintf("libstub%d.so", len(stubs.lib)))
	args := append([]string{"-std=gnu11", "-O1", "-shared", "-fPIC", "-o", path}, defines...)
	out, err := exec.Command(compiler(), append(args, "testdata/stub.c", "-lpthread")...).CombinedOutput()
	require.NoError(t, err, string(out))
	stubs.lib[key] = path
	return path
}

func open(t testing.TB, defines ...string) *driver.Driver {
	t.Helper()
	d, err := driver.Open(&driver.Options{Provider: driver.ProviderCUDA, Path: stub(t, defines...)})
	require.NoError(t, err)
	return d
}

// Counters of the stub.
const (
	eventsMade driver.DeviceAttribute = 100000 + iota
	eventsDestroyed
	records
	waits
	queries
	switches
	wrongEvent
	procsAsked
	lastStream
	mostInside
)

// Switches of the stub.
const (
	staleEvents driver.DeviceAttribute = 200000 + iota
	streamsIdle
	streamsBusy
	nobodyInside
)

// inGo runs f on a goroutine that wg counts.
func inGo(wg *sync.WaitGroup, f func()) {
	wg.Add(1)
	go func() {
		defer wg.Done()
		f()
	}()
}

func counter(t testing.TB, d *driver.Driver, a driver.DeviceAttribute) int {
	t.Helper()
	v, res := d.DeviceGetAttribute(a, 0)
	require.NoError(t, res.Err())
	return int(v)
}

func TestOpen(t *testing.T) {
	t.Run("B371 missing library", func(t *testing.T) {
		_, err := driver.Open(&driver.Options{Provider: driver.ProviderCUDA, Path: "/nowhere/libcuda.so.1"})
		require.ErrorIs(t, err, driver.ErrNoDriver)
		require.NotErrorIs(t, err, driver.ErrNoDevice)
		var open *driver.OpenError
		require.ErrorAs(t, err, &open)
		require.Equal(t, []string{"/nowhere/libcuda.so.1"}, open.Tried)
		require.Contains(t, open.Said[0], "cannot open shared object file")
		require.Contains(t, err.Error(), "/nowhere/libcuda.so.1")
	})
	t.Run("another library", func(t *testing.T) {
		_, err := driver.Open(&driver.Options{Provider: driver.ProviderCUDA, Path: "libm.so.6"})
		require.ErrorIs(t, err, driver.ErrNoDriver)
		require.Contains(t, err.Error(), "not a CUDA driver")
	})
	for _, c := range []struct {
		code  int
		is    error
		isNot []error
	}{
		{3, driver.ErrFork, []error{driver.ErrNoDriver, driver.ErrNoDevice}},
		{100, driver.ErrNoDevice, []error{driver.ErrNoDriver, driver.ErrFork}},
		{999, driver.ErrorUnknown, []error{driver.ErrNoDriver, driver.ErrNoDevice, driver.ErrFork}},
		{34, driver.ErrNoDriver, []error{driver.ErrNoDevice, driver.ErrFork}},
		{803, driver.ErrorSystemDriverMismatch, []error{driver.ErrNoDevice, driver.ErrFork}},
	} {
		t.Run(fmt.Sprintf("B313 cuInit returns %d", c.code), func(t *testing.T) {
			_, err := driver.Open(&driver.Options{Provider: driver.ProviderCUDA, Path: stub(t, fmt.Sprintf("-DSTUB_INIT=%d", c.code))})
			require.ErrorIs(t, err, c.is)
			for _, not := range c.isNot {
				require.NotErrorIs(t, err, not)
			}
			var open *driver.OpenError
			require.ErrorAs(t, err, &open)
		})
	}
	t.Run("B311 init later", func(t *testing.T) {
		d, err := driver.Open(&driver.Options{Provider: driver.ProviderCUDA, Path: stub(t, "-DSTUB_INIT=3"), NoInit: true})
		require.NoError(t, err)
		require.Equal(t, driver.ErrorNotInitialized, d.Init(0))
	})
	t.Run("unknown provider", func(t *testing.T) {
		_, err := driver.Open(&driver.Options{Provider: "hip"})
		require.ErrorIs(t, err, driver.ErrNoDriver)
		require.Contains(t, err.Error(), "known are auto, cuda, soft and none")
	})
	t.Run("none", func(t *testing.T) {
		t.Setenv("HANDOFF_DRIVER", "none")
		_, err := driver.Open(nil)
		require.ErrorIs(t, err, driver.ErrNoDriver)
	})
	t.Run("soft is not linked in", func(t *testing.T) {
		t.Setenv("HANDOFF_DRIVER", "SOFT")
		_, err := driver.Open(nil)
		require.ErrorIs(t, err, driver.ErrNoDriver)
		require.Contains(t, err.Error(), "import package device/soft")
	})
	t.Run("from the environment", func(t *testing.T) {
		t.Setenv("HANDOFF_DRIVER", "cuda")
		t.Setenv("HANDOFF_LIBCUDA", stub(t))
		d, err := driver.Open(nil)
		require.NoError(t, err)
		require.Equal(t, driver.ProviderCUDA, d.Provider())
		require.Equal(t, stub(t), d.Path())
		require.Equal(t, 13000, d.Version())
	})
}

func TestEntryPoints(t *testing.T) {
	t.Run("asked of the library, with the version of each", func(t *testing.T) {
		d := open(t)
		require.Greater(t, counter(t, d, procsAsked), 200)
		require.True(t, d.Has("cuMemAllocAsync"))
		require.True(t, d.Has("cuStreamGetCaptureInfo_v2"))
		require.False(t, d.Has("cuStreamGetCaptureInfo"), "another form of the call was taken")
		require.False(t, d.Has("cuNothing"))
	})
	t.Run("by name, without cuGetProcAddress", func(t *testing.T) {
		d := open(t, "-DSTUB_NO_GETPROC", "-DSTUB_VERSION=11040")
		require.Equal(t, 11040, d.Version())
		require.Zero(t, counter(t, d, procsAsked))
		require.True(t, d.Has("cuMemAlloc"))
		require.True(t, d.Has("cuMemAlloc_v2"))
	})
	t.Run("B372 a missing one fails alone", func(t *testing.T) {
		d := open(t, "-DSTUB_NO_GETPROC", "-DSTUB_VERSION=11040")
		_, res := d.GraphAddNode(1, nil, nil, &driver.GraphNodeParams{})
		err := res.Err()
		require.ErrorIs(t, err, driver.ErrNotSupported)
		require.EqualError(t, err, "cuGraphAddNode_v2 needs a driver for CUDA 12.3 or newer (HANDOFF_ERROR_MISSING_ENTRY)")
		e, ok := res.Missing()
		require.True(t, ok)
		require.Equal(t, driver.Entry{Name: "cuGraphAddNode", Symbol: "cuGraphAddNode_v2", Version: 12030}, e)

		ctx, res := d.DevicePrimaryCtxRetain(0)
		require.NoError(t, res.Err())
		p, res := d.MemAlloc(ctx, 16)
		require.NoError(t, res.Err())
		require.NoError(t, d.MemFree(ctx, p).Err())
	})
	t.Run("every one says so when it is missing", func(t *testing.T) {
		d := open(t, "-DSTUB_NO_GETPROC")
		n := 0
		for e := range d.Missing {
			require.NotEmpty(t, e.Symbol)
			require.False(t, d.Has(e.Name))
			n++
		}
		total := 0
		for range driver.Entries {
			total++
		}
		require.Greater(t, n, 200)
		require.Less(t, n, total)
	})
}

// TestNoUndefinedDriverSymbols: B371, B372, B374.
func TestNoUndefinedDriverSymbols(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	nm, err := exec.LookPath("nm")
	if err != nil {
		t.Skip("nm is not installed")
	}
	out, err := exec.Command(nm, "-D", exe).Output()
	require.NoError(t, err)
	require.Contains(t, string(out), " U dlopen", "the list is empty: this looks at nothing")
	require.Empty(t, regexp.MustCompile(`(?m)^.* [UTW] cu[A-Z].*$`).FindAllString(string(out), -1))
	cmd := exec.Command(exe, "-test.run=^TestResults$")
	cmd.Env = append(os.Environ(), "LD_BIND_NOW=1", "HANDOFF_DRIVER=")
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, string(text))
}

func TestDefault(t *testing.T) {
	// In a process of its own: the driver of the process is set once.
	if os.Getenv("DRIVER_TEST_CHILD") == "" {
		exe, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.Command(exe, "-test.run=^TestDefault$", "-test.v")
		cmd.Env = append(os.Environ(), "DRIVER_TEST_CHILD=1", "HANDOFF_DRIVER=none", "STUB="+stub(t))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "--- PASS: TestDefault")
		return
	}
	_, err := driver.Default()
	require.ErrorIs(t, err, driver.ErrNoDriver)
	_, again := driver.Default()
	require.Same(t, err, again, "a failure is remembered")
	require.NoError(t, driver.SetDefault(&driver.Options{Provider: driver.ProviderCUDA, Path: os.Getenv("STUB")}))
	d, err := driver.Default()
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		inGo(&wg, func() {
			other, err := driver.Default()
			if err != nil || other != d {
				t.Error("another driver", err)
			}
		})
	}
	wg.Wait()
	require.ErrorIs(t, driver.SetDefault(nil), driver.ErrInUse)
	require.NoError(t, driver.SetDefault(&driver.Options{Provider: driver.ProviderCUDA}))
}

// TestContextGuard: the caller's current context is as it was, whatever happens.
func TestContextGuard(t *testing.T) {
	d := open(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a, _ := d.DevicePrimaryCtxRetain(0)
	b, _ := d.DevicePrimaryCtxRetain(1)
	current := func() driver.ContextHandle {
		c, res := d.CtxGetCurrent()
		require.NoError(t, res.Err())
		return c
	}
	act := func(name string) { // on this thread: t.Run would change it
		before := current()
		p, res := d.MemAlloc(b, 64)
		require.NoError(t, res.Err(), name)
		require.Equal(t, before, current(), name)
		require.NoError(t, d.MemFree(b, p).Err(), name)
		require.Equal(t, before, current(), name)
		_, res = d.MemAlloc(b, 1<<40)
		require.ErrorIs(t, res, driver.ErrOutOfMemory, name)
		require.Equal(t, before, current(), name)
		dev, res := d.CtxGetDevice(b)
		require.NoError(t, res.Err(), name)
		require.Equal(t, driver.Device(1), dev, name)
		require.Equal(t, before, current(), name)
		_, res = d.MemAlloc(0xBAD, 64)
		require.ErrorIs(t, res, driver.ErrInvalidContext, name)
		require.Equal(t, before, current(), name)
		require.ErrorIs(t, d.CtxSynchronize(b), driver.ErrSticky, name)
		require.Equal(t, before, current(), name)
		c, res := d.ContextNew(0, 1)
		require.NoError(t, res.Err(), name)
		require.NotZero(t, c, name)
		require.Equal(t, before, current(), name)
	}
	act("B281 none current")
	old, res := d.ContextSwap(a)
	require.NoError(t, res.Err())
	require.Zero(t, old)
	act("another current")

	before := counter(t, d, switches)
	p, res := d.MemAlloc(a, 64)
	require.NoError(t, res.Err())
	require.NoError(t, d.MemFree(a, p).Err())
	require.Equal(t, before, counter(t, d, switches), "the context was current already")

	old, res = d.ContextSwap(0)
	require.NoError(t, res.Err())
	require.Equal(t, a, old)
	require.Zero(t, current())
	_, res = d.MemAlloc(0, 64)
	require.ErrorIs(t, res, driver.ErrInvalidContext, "0 means the thread's own, and it has none")
}

// TestGoroutinesHaveNoContext: B323.
func TestGoroutinesHaveNoContext(t *testing.T) {
	d := open(t)
	ctx, _ := d.DevicePrimaryCtxRetain(1)
	var wg sync.WaitGroup
	var bad atomic.Int64
	for range 64 {
		inGo(&wg, func() {
			for range 50 {
				p, res := d.MemAlloc(ctx, 8)
				if res != driver.Success || d.MemFree(ctx, p) != driver.Success {
					bad.Add(1)
				}
				runtime.Gosched()
			}
		})
	}
	wg.Wait()
	require.Zero(t, bad.Load())
}

func TestOrderStreams(t *testing.T) {
	t.Run("created streams know their context", func(t *testing.T) { orderStreams(t) })
	t.Run("a driver that wants one all the same", func(t *testing.T) { orderStreams(t, "-DSTUB_STRICT") })
}

// launchParams is an array of one parameter of 8 bytes, as cuLaunchKernel takes
// it, with the parameter, until the test ends.
func launchParams(t *testing.T) (addr uintptr, param *uint64) {
	t.Helper()
	words := new([2]uint64)
	var pin runtime.Pinner
	pin.Pin(words)
	t.Cleanup(pin.Unpin)
	// SAFETY: only numbers are made of the addresses; the words stay where they
	// are, and live as long as param.
	words[0] = uint64(uintptr(unsafe.Pointer(&words[1])))
	return uintptr(unsafe.Pointer(&words[0])), &words[1]
}

// TestLaunchCall launches through a stub that writes down what it was told.
func TestLaunchCall(t *testing.T) {
	for _, defines := range [][]string{nil, {"-DSTUB_STRICT"}, {"-DSTUB_NO_EX"}} {
		d := open(t, defines...)
		ctx, _ := d.DevicePrimaryCtxRetain(0)
		params, told := launchParams(t)
		call := new(driver.LaunchCall) // as good as C memory, since the stub does not call Go
		for _, c := range []struct {
			name     string
			stream   driver.StreamHandle
			lazy     bool
			switches int
		}{
			{"kernel, created stream", 0x10, true, len(defines)},
			{"function, created stream", 0x10, false, 1},
			{"kernel, default stream", driver.LegacyStream, true, 1},
		} {
			t.Run(c.name, func(t *testing.T) {
				*told = 0
				n := counter(t, d, switches)
				*call = driver.LaunchCall{Func: 7, Params: params, Context: ctx, Config: driver.LaunchConfig{
					GridX: 1, GridY: 2, GridZ: 3, BlockX: 4, BlockY: 5, BlockZ: 6, SharedBytes: 99, Stream: c.stream,
				}}
				d.Aim(call, c.lazy)
				for i := range 2 {
					require.NoError(t, call.Launch().Err())
					require.Equal(t, uint64(99<<24|0x654321), *told)
					require.Equal(t, n+(i+1)*c.switches, counter(t, d, switches))
				}
				current, res := d.CtxGetCurrent()
				require.NoError(t, res.Err())
				require.Zero(t, current)
				call.Func = 0
				d.Aim(call, c.lazy)
				require.ErrorIs(t, call.Launch(), driver.ErrInvalidValue)
				if call.Func, call.Config.NumAttrs = 7, 1; slices.Contains(defines, "-DSTUB_NO_EX") {
					require.ErrorIs(t, call.Launch(), driver.ErrNotSupported)
				}
			})
		}
	}
}

func orderStreams(t *testing.T, defines ...string) {
	d := open(t, defines...)
	a, _ := d.DevicePrimaryCtxRetain(0)
	b, _ := d.DevicePrimaryCtxRetain(1)
	require.NoError(t, d.OrderStreams(a, 0x10, a, 0x20, false).Err()) // warm
	edges := func(f func()) int {
		r, w := counter(t, d, records), counter(t, d, waits)
		f()
		r, w = counter(t, d, records)-r, counter(t, d, waits)-w
		require.Equal(t, r, w)
		return w
	}
	t.Run("no switch unless it is wanted", func(t *testing.T) {
		n := counter(t, d, switches)
		require.NoError(t, d.OrderStreams(a, 0x10, a, 0x20, false).Err())
		p, res := d.MemAllocAsync(a, 64, 0x10)
		require.NoError(t, res.Err())
		require.NoError(t, d.MemFreeAsync(a, p, 0x10).Err())
		require.Equal(t, len(defines) > 0, counter(t, d, switches) > n)
		n = counter(t, d, switches)
		require.NoError(t, d.StreamQuery(a, driver.LegacyStream).Err())
		require.Equal(t, n+1, counter(t, d, switches), "a default stream is one of its context")
	})
	t.Run("one edge", func(t *testing.T) {
		require.Equal(t, 1, edges(func() { require.NoError(t, d.OrderStreams(a, 0x10, a, 0x20, false).Err()) }))
	})
	t.Run("none for one stream", func(t *testing.T) {
		require.Zero(t, edges(func() {
			require.NoError(t, d.OrderStreams(a, 0x10, a, 0x10, false).Err())
			require.NoError(t, d.OrderStreams(a, 0, a, 1, false).Err())
			require.NoError(t, d.OrderStreams(b, 1, b, 0, true).Err())
		}))
	})
	t.Run("default streams of two contexts differ", func(t *testing.T) {
		require.Equal(t, 1, edges(func() { require.NoError(t, d.OrderStreams(a, 1, b, 1, false).Err()) }))
		require.Zero(t, counter(t, d, wrongEvent), "the event was of another context than its stream")
	})
	t.Run("none for an idle producer, if asked", func(t *testing.T) {
		_, _ = d.DeviceGetAttribute(streamsIdle, 0)
		require.Zero(t, edges(func() { require.NoError(t, d.OrderStreams(a, 0x10, a, 0x20, true).Err()) }))
		_, _ = d.DeviceGetAttribute(streamsBusy, 0)
		require.Equal(t, 1, edges(func() { require.NoError(t, d.OrderStreams(a, 0x10, a, 0x20, true).Err()) }))
		_, _ = d.DeviceGetAttribute(streamsIdle, 0)
	})
	t.Run("B231 no query unless asked", func(t *testing.T) {
		q := counter(t, d, queries)
		require.NoError(t, d.OrderStreams(a, 0x10, a, 0x20, false).Err())
		require.Equal(t, q, counter(t, d, queries))
	})
	t.Run("events are pooled", func(t *testing.T) {
		made := counter(t, d, eventsMade)
		for range 1000 {
			require.NoError(t, d.OrderStreams(a, 0x10, b, 0x20, false).Err())
		}
		require.Equal(t, made, counter(t, d, eventsMade))
	})
	t.Run("the wait fails", func(t *testing.T) {
		made, gone := counter(t, d, eventsMade), counter(t, d, eventsDestroyed)
		for range 10 {
			require.ErrorIs(t, d.OrderStreams(a, 0x10, a, 0xBAD, false), driver.ErrInvalidHandle)
			require.ErrorIs(t, d.OrderStreams(a, 0x10, b, 0xBAD, false), driver.ErrInvalidHandle)
			require.ErrorIs(t, d.OrderStreams(a, 0x10, 0xF00, 1, false), driver.ErrInvalidContext)
			require.ErrorIs(t, d.OrderStreams(0xF00, 1, a, 0x20, false), driver.ErrInvalidContext)
		}
		require.Equal(t, made, counter(t, d, eventsMade))
		require.Equal(t, gone, counter(t, d, eventsDestroyed))
	})
	t.Run("a pooled event went with its context", func(t *testing.T) {
		_, _ = d.DeviceGetAttribute(staleEvents, 0)
		require.Equal(t, 1, edges(func() { require.NoError(t, d.OrderStreams(a, 0x10, a, 0x20, false).Err()) }))
	})
	t.Run("forgotten events are destroyed", func(t *testing.T) {
		e, res := d.RecordPooled(a, 0x10)
		require.NoError(t, res.Err())
		require.NoError(t, d.RecycleEvent(a, e).Err())
		gone := counter(t, d, eventsDestroyed)
		d.ForgetContext(a, false)
		require.Greater(t, counter(t, d, eventsDestroyed), gone)
		require.NoError(t, d.OrderStreams(a, 0x10, a, 0x20, false).Err())
	})
	t.Run("no context at all", func(t *testing.T) {
		require.ErrorIs(t, d.OrderStreams(0, 0x10, 0, 0x20, false), driver.ErrInvalidContext)
		_, res := d.RecordPooled(0, 0x10)
		require.ErrorIs(t, res, driver.ErrInvalidContext)
		require.ErrorIs(t, d.RecycleEvent(a, 0), driver.ErrInvalidHandle)
	})
}

func TestOrderStreamsConcurrently(t *testing.T) {
	d := open(t)
	made, gone, wrong := counter(t, d, eventsMade), counter(t, d, eventsDestroyed), counter(t, d, wrongEvent)
	var ctxs []driver.ContextHandle
	for i := range 80 { // more than the pool has racks
		c, res := d.ContextNew(0, driver.Device(i%2))
		require.NoError(t, res.Err())
		ctxs = append(ctxs, c)
	}
	var wg sync.WaitGroup
	var bad atomic.Int64
	for g := range 16 {
		inGo(&wg, func() {
			for i := range 500 {
				a, b := ctxs[(g*7+i)%len(ctxs)], ctxs[(g*3+i*5)%len(ctxs)]
				if d.OrderStreams(a, driver.StreamHandle(16+g), b, driver.StreamHandle(64+i), false) != driver.Success {
					bad.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, bad.Load())
	require.Equal(t, wrong, counter(t, d, wrongEvent))
	for _, c := range ctxs {
		d.ForgetContext(c, false)
	}
	require.Equal(t, counter(t, d, eventsMade)-made, counter(t, d, eventsDestroyed)-gone, "events leaked")
}

// TestSentinelHandles: B344. 1 and 2 are handles and never Go pointers.
func TestSentinelHandles(t *testing.T) {
	d := open(t)
	ctx, _ := d.DevicePrimaryCtxRetain(0)
	stop := make(chan struct{})
	var collector sync.WaitGroup
	inGo(&collector, func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	})
	var wg sync.WaitGroup
	for _, s := range []driver.StreamHandle{driver.DefaultStream, driver.LegacyStream, driver.PerThreadStream, 3, ^driver.StreamHandle(0)} {
		inGo(&wg, func() {
			if !deep(64, d, ctx, s) {
				t.Error("failed for", s)
			}
		})
	}
	wg.Wait()
	close(stop)
	collector.Wait()
}

// deep makes the stack grow, and be scanned, while the handle is on it.
func deep(n int, d *driver.Driver, ctx driver.ContextHandle, s driver.StreamHandle) bool {
	var pad [128]byte
	pad[n] = byte(s)
	if n > 0 {
		return deep(n-1, d, ctx, s) && pad[n] == byte(s)
	}
	ok := d.StreamSynchronize(ctx, s) == driver.Success
	p, res := d.MemAllocAsync(ctx, 8, s)
	return ok && res == driver.Success && d.MemFreeAsync(ctx, p, s) == driver.Success
}

func TestPointerInfo(t *testing.T) {
	d := open(t)
	for _, c := range []struct {
		name    string
		ptr     driver.DevicePtr
		typ     int32
		managed bool
		host    uintptr
	}{
		{"B263 device", 0x10001234, driver.MemoryTypeDevice, false, 0},
		{"B263 pinned", 0x20001234, driver.MemoryTypeHost, false, 0x20001234},
		{"B263 managed", 0x30001234, driver.MemoryTypeDevice, true, 0x30001234},
		{"B271 unregistered", 0x40001234, 0, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, res := d.PointerKind(c.ptr)
			require.NoError(t, res.Err())
			require.Equal(t, c.typ, k.Type)
			require.Equal(t, c.managed, k.Managed)
			all, res := d.PointerInfo(c.ptr)
			require.NoError(t, res.Err())
			require.Equal(t, c.typ, all.Type)
			require.Equal(t, c.managed, all.Managed)
			require.Equal(t, c.host, all.HostPtr)
			require.Equal(t, c.ptr&^0xFFF, all.Base)
			require.Equal(t, uintptr(0x1000), all.Size)
			if c.typ != 0 {
				require.Equal(t, driver.Device(1), all.Device)
				require.Equal(t, driver.ContextHandle(0xC001), all.Context)
			}
		})
	}
}

func TestValuesBothWays(t *testing.T) {
	d := open(t)
	ctx, _ := d.DevicePrimaryCtxRetain(0)
	t.Run("pool attributes", func(t *testing.T) {
		v, res := d.MemPoolAttr(1, driver.MemPoolAttrReuseAllowOpportunistic)
		require.NoError(t, res.Err())
		require.Equal(t, uint64(1), v)
		v, res = d.MemPoolAttr(1, driver.MemPoolAttrReleaseThreshold)
		require.NoError(t, res.Err())
		require.Equal(t, uint64(0x123456789a), v)
	})
	t.Run("device attributes", func(t *testing.T) {
		attrs := []driver.DeviceAttribute{driver.AttrWarpSize, 9999, driver.AttrMultiprocessorCount}
		values, results := make([]int32, 3), make([]driver.Result, 3)
		require.NoError(t, d.DeviceGetAttributes(0, attrs, values, results).Err())
		require.Equal(t, []int32{100, -1, 160}, values)
		require.Equal(t, []driver.Result{0, driver.ErrorInvalidValue, 0}, results)
		require.Equal(t, driver.ErrorInvalidValue, d.DeviceGetAttributes(0, attrs, values[:1], results))
	})
	t.Run("copies of Go memory and of a rectangle", func(t *testing.T) {
		p, res := d.MemAlloc(ctx, 64)
		require.NoError(t, res.Err())
		q, res := d.MemAlloc(ctx, 64)
		require.NoError(t, res.Err())
		in := make([]byte, 64)
		for i := range in {
			in[i] = byte(i)
		}
		require.NoError(t, d.MemcpyHtoDBytes(ctx, p, in).Err())
		c := driver.Memcpy2D{
			SrcType: driver.MemoryTypeDevice, SrcDevice: p, SrcPitch: 8, SrcXBytes: 2,
			DstType: driver.MemoryTypeDevice, DstDevice: q, DstPitch: 4, WidthBytes: 4, Height: 8,
		}
		require.NoError(t, d.Memcpy2D(ctx, &c).Err())
		require.Equal(t, driver.ErrorInvalidValue, d.Memcpy2D(ctx, nil))
		out := make([]byte, 32)
		require.NoError(t, d.MemcpyDtoHBytes(ctx, out, q).Err())
		for y := range 8 {
			require.Equal(t, in[y*8+2:y*8+6], out[y*4:y*4+4])
		}
		require.NoError(t, d.MemFree(ctx, p).Err())
		require.NoError(t, d.MemFree(ctx, q).Err())
	})
	t.Run("capture", func(t *testing.T) {
		info, res := d.CaptureInfo(ctx, 0x10, nil)
		require.NoError(t, res.Err())
		require.Equal(t, driver.CaptureInfo{Status: driver.StreamCaptureStatusActive, ID: 7, Graph: 0x6A, Deps: 3}, info)
		deps := make([]driver.GraphNodeHandle, 2)
		_, res = d.CaptureInfo(ctx, 0x10, deps)
		require.NoError(t, res.Err())
		require.Equal(t, []driver.GraphNodeHandle{0xA1, 0xA2}, deps)
	})
	t.Run("lists", func(t *testing.T) {
		n, res := d.GraphGetNodes(1, nil)
		require.NoError(t, res.Err())
		require.Equal(t, 3, n)
		nodes := make([]driver.GraphNodeHandle, 5)
		n, res = d.GraphGetNodes(1, nodes)
		require.NoError(t, res.Err())
		require.Equal(t, []driver.GraphNodeHandle{0xA1, 0xA2, 0xA3}, nodes[:n])
	})
	t.Run("tensor map is aligned for the driver", func(t *testing.T) {
		maps := make([]driver.TensorMap, 3)
		for i := range maps {
			require.NoError(t, d.TensorMapReplaceAddress(&maps[i], uintptr(0x1000*(i+1))).Err())
			require.Equal(t, uint64(0x1000*(i+1)), maps[i][0])
		}
	})
	t.Run("slices of unequal length", func(t *testing.T) {
		require.Equal(t, driver.ErrorInvalidValue, d.GraphAddDependencies(1, make([]driver.GraphNodeHandle, 2), make([]driver.GraphNodeHandle, 1), nil))
		require.Equal(t, driver.ErrorInvalidValue, d.TensorMapEncodeTiled(&driver.TensorMap{}, 0, 0, make([]uint64, 2), nil, nil, nil, 0, 0, 0, 0))
	})
	t.Run("a zero byte in a name", func(t *testing.T) {
		_, res := d.ModuleGetFunction(ctx, 1, "a\x00b")
		require.Equal(t, driver.ErrorInvalidValue, res)
	})
	t.Run("names", func(t *testing.T) {
		s, res := d.GetErrorName(driver.Success)
		require.NoError(t, res.Err())
		require.Equal(t, "CUDA_SUCCESS", s)
		s, res = d.GetErrorName(77)
		require.Equal(t, driver.ErrorInvalidValue, res)
		require.Empty(t, s)
		name := make([]byte, 16)
		require.NoError(t, d.DeviceGetName(name, 0).Err())
		require.Equal(t, "stub\x00", string(name[:5]))
	})
	t.Run("events of several contexts at once", func(t *testing.T) {
		other, _ := d.DevicePrimaryCtxRetain(1)
		ctxs := []driver.ContextHandle{ctx, other, ctx}
		events := make([]driver.EventHandle, 3)
		for i := range 2 {
			events[i], _ = d.EventCreate(ctxs[i], driver.EventDisableTiming)
		}
		results := make([]driver.Result, 3)
		d.QueryEvents(ctxs, events, results)
		require.ElementsMatch(t, []driver.Result{driver.Success, driver.ErrorNotReady}, results[:2])
		require.Equal(t, driver.ErrorInvalidHandle, results[2])
		d.QueryEvents(nil, nil, nil)
	})
}

func TestHostFunctions(t *testing.T) {
	d := open(t)
	ctx, _ := d.DevicePrimaryCtxRetain(0)
	ran := 0
	require.NoError(t, d.LaunchHostGo(ctx, 0x10, func() { ran++ }).Err())
	require.Equal(t, 1, ran)
	t.Run("a panic stays in Go", func(t *testing.T) {
		before := driver.HostFuncPanics()
		require.NoError(t, d.LaunchHostGo(ctx, 0x10, func() { panic("oops") }).Err())
		require.Equal(t, before+1, driver.HostFuncPanics())
	})
	t.Run("B331 Goexit", func(t *testing.T) {
		before := driver.HostFuncPanics()
		require.NoError(t, d.LaunchHostGo(ctx, 0x10, runtime.Goexit).Err())
		require.Equal(t, before+1, driver.HostFuncPanics())
		require.NoError(t, d.LaunchHostGo(ctx, 0x10, func() { ran++ }).Err())
		require.Equal(t, 2, ran)
	})
	t.Run("refused", func(t *testing.T) {
		require.ErrorIs(t, d.LaunchHostGo(0xBAD, 0x10, func() { ran++ }), driver.ErrInvalidContext)
		require.Equal(t, 2, ran)
	})
}

func TestNoAllocations(t *testing.T) {
	d := open(t)
	a, _ := d.DevicePrimaryCtxRetain(0)
	b, _ := d.DevicePrimaryCtxRetain(1)
	ptr, _ := d.MemAlloc(a, 64)
	defer d.MemFree(a, ptr)
	event, _ := d.EventCreate(a, driver.EventDisableTiming)
	copy2D := driver.Memcpy2D{SrcDevice: ptr, DstDevice: ptr}
	for name, f := range map[string]func(){
		"order":         func() { d.OrderStreams(a, 0x10, b, 0x20, false) },
		"alloc, free":   func() { p, _ := d.MemAllocAsync(a, 64, 0x10); d.MemFreeAsync(a, p, 0x10) },
		"pointer kind":  func() { d.PointerKind(ptr) },
		"pointer info":  func() { d.PointerInfo(ptr) },
		"record, wait":  func() { d.EventRecord(a, event, 0x10); d.StreamWaitEvent(a, 0x20, event, 0) },
		"pooled record": func() { e, _ := d.RecordPooled(a, 0x10); d.RecycleEvent(a, e) },
		"2-D copy":      func() { d.Memcpy2D(a, &copy2D) },
		"missing":       func() { _ = d.GraphLaunch(a, 1, 0x10).Err() },
		"failure":       func() { _, res := d.MemAlloc(a, 1<<40); _ = errors.Is(res, driver.ErrOutOfMemory) },
	} {
		require.Zero(t, testing.AllocsPerRun(100, f), name)
	}
}

// TestBlockingCallsRunSideBySide shows that a blocking call blocks a thread and nothing
// else: B333 is for the caller to bound.
func TestBlockingCallsRunSideBySide(t *testing.T) {
	d := open(t)
	ctx, _ := d.DevicePrimaryCtxRetain(0)
	// 20 ms each: a second thread comes in meanwhile, or with a later call.
	counter(t, d, nobodyInside)
	for end := time.Now().Add(time.Minute); counter(t, d, mostInside) < 2; {
		require.True(t, time.Now().Before(end), "the calls ran one after the other")
		var wg sync.WaitGroup
		for range 32 {
			inGo(&wg, func() { d.StreamSynchronize(ctx, 0x10) })
		}
		wg.Wait()
	}
}

func BenchmarkOrderStreams(b *testing.B) {
	d := open(b)
	ctx, _ := d.DevicePrimaryCtxRetain(0)
	b.ReportAllocs()
	for b.Loop() {
		d.OrderStreams(ctx, 0x10, ctx, 0x20, false)
	}
}

func BenchmarkAllocFree(b *testing.B) {
	d := open(b)
	ctx, _ := d.DevicePrimaryCtxRetain(0)
	b.ReportAllocs()
	for b.Loop() {
		p, _ := d.MemAllocAsync(ctx, 1024, 0x10)
		d.MemFreeAsync(ctx, p, 0x10)
	}
}

func BenchmarkPointerKind(b *testing.B) {
	d := open(b)
	b.ReportAllocs()
	for b.Loop() {
		d.PointerKind(0x10001234)
	}
}

func BenchmarkQuery(b *testing.B) {
	d := open(b)
	ctx, _ := d.DevicePrimaryCtxRetain(0)
	b.ReportAllocs()
	for b.Loop() {
		d.StreamQuery(ctx, 0x10)
	}
}
