package launch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/launch"
	"github.com/go-handoff/handoff/memview"
	_ "github.com/go-handoff/handoff/memview/softcopy"
	"github.com/go-handoff/handoff/stream"
)

// soakFaults are calls that fail meanwhile: not those that give something back,
// which would leave it behind.
var soakFaults = []string{
	"cuMemAllocFromPoolAsync", "cuMemHostAlloc", "cuMemAllocManaged", "cuMemAlloc", "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent",
	"cuMemcpyAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpy2DAsync", "cuMemsetD8Async", "cuMemsetD32Async", "cuLaunchKernel", "cuLaunchKernelEx",
	"cuLaunchHostFunc", "cuStreamQuery", "cuStreamIsCapturing", "cuStreamSynchronize", "cuEventQuery", "cuPointerGetAttributes",
	"cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent", "cuStreamGetCtx", "cuGraphAddKernelNode", "cuGraphInstantiateWithParams",
	"cuGraphLaunch", "cuMemcpyPeerAsync",
}

var soakCodes = []driver.Result{
	driver.ErrorOutOfMemory, driver.ErrorInvalidContext, driver.ErrorNotSupported, driver.ErrorSystemNotReady, driver.ErrorUnknown,
}

// soaker does exchanges between producers and consumers on streams of two devices.
type soaker struct {
	devices []*device.Device
	streams []*device.Stream
	add     *launch.Kernel

	exchanges, bytes, raised atomic.Int64
}

// errWrong is a value that is not what it should be.
var errWrong = errors.New("wrong value")

// tensor is a producer by DLPack whose deleter counts.
type tensor struct {
	desc dlpack.Desc
	s    *device.Stream
	gone *atomic.Int64
}

func (p *tensor) DLPackDevice() (dlpack.Device, error) { return p.desc.Device, nil }

func (p *tensor) DLPack(r dlpack.Request) (dlpack.Capsule, error) {
	plan, err := r.Plan(&dlpack.Offer{Device: p.desc.Device, DType: p.desc.DType})
	if err != nil {
		return dlpack.Capsule{}, err
	}
	if plan.Stream.Kind == dlpack.StreamHandle {
		c, err := device.WrapStream(driver.StreamHandle(plan.Stream.Handle), p.s.Context(), nil)
		if err != nil {
			return dlpack.Capsule{}, err
		}
		if err := c.Wait(p.s); err != nil {
			return dlpack.Capsule{}, err
		}
	}
	e, err := dlpack.ExportDesc(p.desc, func() { p.gone.Add(-1) })
	if err != nil {
		return dlpack.Capsule{}, err
	}
	p.gone.Add(1)
	defer e.Close()
	addr, err := e.Export(plan.Versioned)
	return dlpack.Capsule{Addr: addr, Versioned: plan.Versioned}, err
}

// one is one exchange: memory is written on a stream of the producer, handed over in one of several
// ways, worked on by a kernel on a stream of the consumer, and read.
func (k *soaker) one(r *rand.Rand, gone *atomic.Int64) (err error) {
	i := r.IntN(len(k.streams))
	s := k.streams[i]
	q := k.streams[(i+r.IntN(len(k.streams)/2)*2)%len(k.streams)] // of the same device
	d := s.Device()
	n := []int64{16, 64, 1024, 16384}[r.IntN(4)]
	var m device.MemoryResource
	switch r.IntN(4) {
	case 0:
		m = d.PinnedMemory()
	case 1:
		if m, err = d.ManagedMemory(); err != nil {
			return err
		}
	default:
		if m, err = d.Memory(); err != nil {
			return err
		}
	}
	b, err := device.Allocate(m, n*4, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	value := r.Uint32N(1 << 20)
	if err := b.Fill32(value, s); err != nil {
		return err
	}
	desc := dlpack.Desc{Data: uintptr(b.Ptr()), Device: b.DLDevice(), DType: dlpack.Int32, Shape: []int64{n}}
	if desc.Device.Type != dlpack.DeviceCUDA {
		desc.Device.ID = 0
	}
	var v memview.StridedMemoryView
	switch way := r.IntN(3); {
	case way == 0:
		v, err = memview.Import(&tensor{desc, s, gone}, stream.On(q.View()), nil)
	case way == 1 && desc.Device.Type == dlpack.DeviceCUDA:
		i := &cai.Interface{Array: cai.Array{Version: 3, Shape: []int64{n}, Typestr: got(cai.ParseTypestr("<i4")), Data: desc.Data}, Stream: cai.StreamOf(uintptr(s.Handle()))}
		gone.Add(1)
		if v, err = memview.FromCAI(i, memview.OnRelease(nil, func() error { gone.Add(-1); return nil }), stream.On(q.View()), nil); err != nil {
			gone.Add(-1)
		}
	default:
		if v, err = memview.FromDesc(&desc, memview.Unowned()); err == nil {
			v, err = v.Ordered(s.View(), stream.On(q.View()))
		}
	}
	if err != nil {
		return err
	}
	defer func() {
		// What is queued has to end before the memory is given back, and all of it is known to the view.
		late := v.ReleaseOn(q.View())
		if late != nil {
			late = errors.Join(late, q.Synchronize(context.Background()), v.Release())
		}
		err = errors.Join(err, late, b.UsedOn(q))
	}()
	cfg := launch.Config{Grid: launch.Cover(n, 64), Block: launch.D1(64)}
	if err := launch.Launch(q, cfg, k.add, v, launch.Int32(7), n); err != nil {
		return err
	}
	back := make([]int32, n)
	host, err := memview.FromSlice(back, n)
	if err != nil {
		return err
	}
	if err := memview.CopyOn(host, v, q.View()); err != nil {
		return errors.Join(err, q.Synchronize(context.Background()))
	}
	if err := q.Synchronize(context.Background()); err != nil {
		return err
	}
	for j, x := range back {
		if x != int32(value)+7 {
			return fmt.Errorf("%w: element %d of %d is %d, want %d", errWrong, j, n, x, value+7)
		}
	}
	k.bytes.Add(3 * 4 * n)
	return nil
}

// graph captures a launch, runs the graph twice and reads.
func (k *soaker) graph(r *rand.Rand) (err error) {
	d := k.devices[0]
	s, err := d.NewStream(nil) // its own: a capture that cannot be ended goes with it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	b, err := d.Allocate(64, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	value := byte(r.IntN(100))
	if err := b.Fill8(value, s); err != nil {
		return err
	}
	g, err := launch.NewGraph(s.Context())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if _, err := g.Launch(launch.Config{Grid: launch.D1(1), Block: launch.D1(16)}, k.add, []any{b, int32(1), int64(16)}); err != nil {
		return err
	}
	x, err := g.Instantiate(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	if err := errors.Join(x.Launch(s), x.Launch(s)); err != nil {
		return errors.Join(err, s.Synchronize(context.Background()))
	}
	p := make([]byte, 64)
	if err := b.CopyToHost(context.Background(), p, s); err != nil {
		return errors.Join(err, s.Synchronize(context.Background()))
	}
	if want := bytes.Repeat([]byte{value + 2, value, value, value}, 16); !bytes.Equal(p, want) {
		return fmt.Errorf("%w: a graph made % x of %d", errWrong, p[:8], value)
	}
	k.bytes.Add(128)
	return nil
}

// soakKernel is the kernel "add", which adds a number to each word.
func soakKernel(t *testing.T) *launch.Kernel {
	t.Helper()
	if testdriver.Real() {
		return kernel(t, "add")
	}
	require.NoError(t, softKernels())
	c, err := launch.NewObjectCode(soft.Image(kernelNames...), nil)
	require.NoError(t, err)
	closeLater(t, c)
	k, err := c.Kernel("add")
	require.NoError(t, err)
	closeLater(t, k)
	return k
}

// residentBytes is the resident memory of this process, or 0 where that cannot be told.
func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	if f := strings.Fields(string(text)); len(f) > 1 {
		n, _ := strconv.ParseInt(f[1], 10, 64)
		return n * int64(os.Getpagesize())
	}
	return 0
}

// TestSoak exchanges memory of all kinds between streams of two devices, by every protocol, with kernels
// and graphs, while calls of the driver fail at random. Every value is looked at, and nothing may be left.
// HANDOFF_SOAK=60s makes it go on for a minute, HANDOFF_SOAK_SEED does the same again. On the software device it hunts for
// missing synchronization, which makes it four times as slow: HANDOFF_SOAK_HUNT=0 is without.
func TestSoak(t *testing.T) {
	if testdriver.Real() || os.Getenv("HANDOFF_SOAK_HUNT") != "0" {
		testdriver.Open(t)
	} else if err := soft.Enable(nil); errors.Is(err, soft.ErrNotSupported) {
		t.Skip("needs the software device, or a GPU")
	} else {
		require.NoError(t, err)
	}
	count := got(device.Count())
	length, goroutines := 200*time.Millisecond, 8
	if v := os.Getenv("HANDOFF_SOAK"); v != "" {
		length = got(time.ParseDuration(v))
	}
	seed := uint64(time.Now().UnixNano() % 1_000_000)
	if v := os.Getenv("HANDOFF_SOAK_SEED"); v != "" {
		seed = got(strconv.ParseUint(v, 10, 64))
	}
	t.Logf("HANDOFF_SOAK_SEED=%d", seed)
	defer func() {
		if t.Failed() {
			t.Logf("again with HANDOFF_SOAK_SEED=%d", seed)
		}
	}()

	k := &soaker{add: soakKernel(t)}
	for i := range min(count, 2) {
		k.devices = append(k.devices, got(device.Open(i)))
	}
	for i := range 8 {
		s, err := k.devices[i%len(k.devices)].NewStream(nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		k.streams = append(k.streams, s)
	}
	var gone atomic.Int64 // tensors that were handed out and not given back
	warm := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		require.NoError(t, k.one(warm, &gone))
	}
	require.NoError(t, k.graph(warm))
	settle := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		for _, s := range k.streams {
			require.NoError(t, s.Synchronize(ctx))
		}
		require.NoError(t, errors.Join(memview.Flush(ctx), device.Flush(ctx)))
	}
	settle()
	before, devBefore, liveBefore, objects := launch.Stats(), device.Stats(), soft.LiveObjects(), len(leak.Live())

	end := time.Now().Add(length)
	var injected atomic.Int64
	var faults sync.WaitGroup
	if !testdriver.Real() {
		faults.Add(1)
		go func() {
			defer faults.Done()
			r := rand.New(rand.NewPCG(seed, 1))
			for time.Now().Before(end) {
				in, err := soft.Inject(soft.Fault{API: soakFaults[r.IntN(len(soakFaults))], Nth: 1 + r.IntN(6), Code: soakCodes[r.IntN(len(soakCodes))]})
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Duration(2+r.IntN(15)) * time.Millisecond)
				in.Remove()
				injected.Add(int64(in.Hits()))
			}
		}()
	}
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r := rand.New(rand.NewPCG(seed, uint64(g)+2))
			for once := true; (once || time.Now().Before(end)) && !t.Failed(); once = false {
				var err error
				if r.IntN(20) == 0 {
					err = k.graph(r)
				} else {
					err = k.one(r, &gone)
				}
				var res driver.Result
				switch {
				case err == nil:
					k.exchanges.Add(1)
				case errors.Is(err, errWrong) || !errors.As(err, &res) || testdriver.Real():
					t.Error(err)
				default:
					k.raised.Add(1)
				}
			}
		}()
	}
	samples := []int64{residentBytes()}
	for time.Now().Before(end) {
		time.Sleep(min(time.Second, length/10))
		samples = append(samples, residentBytes())
	}
	wg.Wait()
	faults.Wait()
	settle()
	runtime.GC()
	settle()

	after, devAfter, live := launch.Stats(), device.Stats(), soft.LiveObjects()
	live.Events = liveBefore.Events // some are kept for later
	require.Equal(t, before, after)
	require.Equal(t, [...]int64{devBefore.Streams, devBefore.Events, devBefore.Buffers, devBefore.Allocated, 0, 0},
		[...]int64{devAfter.Streams, devAfter.Events, devAfter.Buffers, devAfter.Allocated, devAfter.Deferred, devAfter.Collected})
	require.Equal(t, liveBefore, live)
	require.Zero(t, gone.Load(), "tensors that nobody gave back")
	require.Len(t, leak.Live(), objects)
	half := samples[len(samples)/2:]
	grown := half[len(half)-1] - half[0]
	t.Logf("soak: seed %d, %v, %d goroutines: %d exchanges, %d bytes, %d errors injected, %d exchanges raised, 0 leaks, %+d KiB of resident memory over the second half",
		seed, length, goroutines, k.exchanges.Load(), k.bytes.Load(), injected.Load(), k.raised.Load(), grown>>10)
	require.Positive(t, k.exchanges.Load())
	if length >= 20*time.Second {
		require.Less(t, grown, int64(16<<20), "resident memory grows")
	}
}
