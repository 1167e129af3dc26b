package soft_test

import (
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
)

// packed is the extra list of a launch whose arguments lie in pinned memory, so that no Go
// pointer is in it.
func packed(t testing.TB, d *driver.Driver, c driver.ContextHandle, args ...uint64) unsafe.Pointer {
	t.Helper()
	n := uintptr(8 * len(args))
	mem, res := d.MemAllocHost(c, n+8)
	ok(t, res)
	t.Cleanup(func() { ok(t, d.MemFreeHost(c, mem)) })
	w := hostWords(mem, len(args)+1)
	copy(w, args)
	w[len(args)] = uint64(n)
	extra := []uintptr{1, mem, 2, mem + n, 0}
	return unsafe.Pointer(unsafe.SliceData(extra))
}

// A kernel in Go, launched through the table on memory of the device.
func TestKernelThroughTheTable(t *testing.T) {
	d := open(t)
	c := primary(t, d, 0)
	require.NoError(t, soft.RegisterKernel("iota", []soft.ParamInfo{soft.Ptr, soft.Int64}, func(l *soft.Launch) {
		for i, s := 0, soft.Slice[int32](l, l.Ptr(0), int(l.Int64(1))); i < len(s); i++ {
			s[i] = int32(i)
		}
	}))
	for _, how := range []string{"module", "library"} {
		t.Run(how, func(t *testing.T) {
			var f driver.FunctionHandle
			if how == "module" {
				m, res := d.ModuleLoadData(c, soft.Image("iota"))
				ok(t, res)
				defer func() { ok(t, d.ModuleUnload(c, m)) }()
				f, res = d.ModuleGetFunction(c, m, "iota")
				ok(t, res)
			} else {
				l, res := d.LibraryLoadData(soft.Image("iota"), nil, nil, nil, nil)
				ok(t, res)
				defer func() { ok(t, d.LibraryUnload(l)) }()
				k, res := d.LibraryGetKernel(l, "iota")
				ok(t, res)
				name, res := d.KernelGetName(k)
				ok(t, res)
				require.Equal(t, "iota", name)
				f, res = d.KernelGetFunction(c, k)
				ok(t, res)
			}
			s := newStream(t, d, c, 1)
			p := alloc(t, d, c, 4*100)
			ok(t, d.LaunchKernel(c, f, 1, 1, 1, 32, 1, 1, 0, s, nil, packed(t, d, c, uint64(p), 100)))
			ok(t, d.StreamSynchronize(c, s))
			out := make([]byte, 400)
			ok(t, d.MemcpyDtoHBytes(c, out, p))
			require.Equal(t, byte(99), out[396])
		})
	}
}

// A misaligned address ends a kernel as on a GPU; in a context of its own.
func TestMisaligned(t *testing.T) {
	d := open(t)
	require.NoError(t, soft.RegisterKernel("odd", []soft.ParamInfo{soft.Ptr}, func(l *soft.Launch) { soft.Slice[int32](l, l.Ptr(0)+1, 1) }))
	c, res := d.ContextNew(0, 0)
	ok(t, res)
	m, res := d.ModuleLoadData(c, soft.Image("odd"))
	ok(t, res)
	f, res := d.ModuleGetFunction(c, m, "odd")
	ok(t, res)
	p, res := d.MemAllocManaged(c, 64, 1)
	ok(t, res)
	mem, res := d.MemAllocHost(c, 16)
	ok(t, res)
	w := hostWords(mem, 2)
	w[0], w[1] = uint64(p), 8
	extra := []uintptr{1, mem, 2, mem + 8, 0}
	ok(t, d.LaunchKernel(c, f, 1, 1, 1, 1, 1, 1, 0, 0, nil, unsafe.Pointer(unsafe.SliceData(extra))))
	require.EqualValues(t, 716, d.StreamSynchronize(c, 0))
	_, res = d.MemAlloc(c, 8)
	require.EqualValues(t, 716, res)
	ok(t, d.CtxDestroy(c))
}

// The context is a property of the OS thread: goroutines on different threads do not see
// each other's, and a number of a thread that ended is used again.
func TestContextsAreOfTheThread(t *testing.T) {
	d := open(t)
	c := primary(t, d, 0)
	for range 3 {
		var wg sync.WaitGroup
		for range 16 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				runtime.LockOSThread() // and end the thread with the goroutine
				cur, res := d.CtxGetCurrent()
				if res != driver.Success || cur != 0 {
					t.Errorf("a fresh thread has context %#x, %v", cur, res)
				}
				if res := d.CtxPushCurrent(c); res != driver.Success {
					t.Error(res)
				}
				runtime.Gosched()
				if cur, _ := d.CtxGetCurrent(); cur != c {
					t.Errorf("lost the context: %#x", cur)
				}
			}()
		}
		wg.Wait()
	}
}

// B323: goroutines that move between threads never meet an invalid context through the shims.
func TestB323Goroutines(t *testing.T) {
	d := open(t)
	cs := []driver.ContextHandle{primary(t, d, 0), primary(t, d, 1)}
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c := cs[g&1]
			for range 20 {
				p, res := d.MemAlloc(c, 512)
				if res != driver.Success {
					t.Error(res)
					return
				}
				info, res := d.PointerKind(p)
				if res != driver.Success || info.Device != driver.Device(g&1) {
					t.Errorf("device %d, %v", info.Device, res)
				}
				runtime.Gosched()
				if res := d.MemFree(c, p); res != driver.Success {
					t.Error(res)
				}
			}
		}()
	}
	wg.Wait()
}

// B344: the integers 1 and 2 as stream handles, in slow calls while the collector runs.
func TestB344Sentinels(t *testing.T) {
	d := open(t)
	c := primary(t, d, 0)
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	for range 50 {
		for _, s := range []driver.StreamHandle{0, 1, 2} {
			ok(t, d.LaunchHostGo(c, s, func() { runtime.Gosched() }))
			ok(t, d.StreamSynchronize(c, s))
		}
	}
	close(stop)
}

// Pinned, registered and managed memory is the host's too.
func TestHostMemory(t *testing.T) {
	d := open(t)
	c := primary(t, d, 0)
	pinned, res := d.MemAllocHost(c, 64)
	ok(t, res)
	managed, res := d.MemAllocManaged(c, 64, 1)
	ok(t, res)
	for _, p := range []driver.DevicePtr{driver.DevicePtr(pinned), managed} {
		ok(t, d.MemsetD32(c, p, 0x01020304, 16))
		require.EqualValues(t, 0x0102030401020304, hostWords(uintptr(p), 8)[7])
	}
	ok(t, d.MemFreeHost(c, pinned))
	ok(t, d.MemFree(c, managed))
}

// Sleeping in C for the device does not stop others: many goroutines wait at once (B333).
func TestB333ManyWaiters(t *testing.T) {
	d := open(t)
	c := primary(t, d, 0)
	s := newStream(t, d, c, 1)
	open := block(t, d, c, s)
	var wg sync.WaitGroup
	for range 100 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if res := d.StreamSynchronize(c, s); res != driver.Success {
				t.Error(res)
			}
		}()
	}
	open()
	wg.Wait()
}

func TestErrorTexts(t *testing.T) {
	d := open(t)
	name, res := d.GetErrorName(700)
	ok(t, res)
	require.Equal(t, "CUDA_ERROR_ILLEGAL_ADDRESS", name)
	_, res = d.GetErrorName(123456)
	require.Equal(t, driver.ErrorInvalidValue, res)
}

func BenchmarkCtxGetCurrent(b *testing.B) {
	d := open(b)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = d.CtxGetCurrent()
	}
}

func BenchmarkStreamQuery(b *testing.B) {
	d := open(b)
	c := primary(b, d, 0)
	s := newStream(b, d, c, 1)
	b.ReportAllocs()
	for b.Loop() {
		_ = d.StreamQuery(c, s)
	}
}

func BenchmarkRecordAndWait(b *testing.B) {
	d := open(b)
	c := primary(b, d, 0)
	s, o := newStream(b, d, c, 1), newStream(b, d, c, 1)
	e := newEvent(b, d, c, 2)
	b.ReportAllocs()
	for b.Loop() {
		_ = d.EventRecord(c, e, s)
		_ = d.StreamWaitEvent(c, o, e, 0)
	}
}

func BenchmarkMemsetAndSynchronize(b *testing.B) {
	d := open(b)
	c := primary(b, d, 0)
	s := newStream(b, d, c, 1)
	p := alloc(b, d, c, 1024)
	b.ReportAllocs()
	for b.Loop() {
		_ = d.MemsetD8Async(c, p, 1, 1024, s)
		_ = d.StreamSynchronize(c, s)
	}
}

func BenchmarkAllocAsync(b *testing.B) {
	d := open(b)
	c := primary(b, d, 0)
	s := newStream(b, d, c, 1)
	b.ReportAllocs()
	for b.Loop() {
		p, _ := d.MemAllocAsync(c, 1024, s)
		_ = d.MemFreeAsync(c, p, s)
	}
}

func BenchmarkPointerKind(b *testing.B) {
	d := open(b)
	c := primary(b, d, 0)
	p := alloc(b, d, c, 1024)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = d.PointerKind(p)
	}
}
