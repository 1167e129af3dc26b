package device_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/internal/testdriver"
)

// Faults seen in the field that have no better place.

// faulty needs the software device, which fails to order.
func faulty(t *testing.T) *device.Device {
	t.Helper()
	if testdriver.Real() {
		t.Skip("needs the software device: a GPU does not fail to order")
	}
	return open(t, 0)
}

// TestUnloading is B185: that the driver is shutting down is no error of what
// gives something back, and one everywhere else.
func TestUnloading(t *testing.T) {
	d := faulty(t)
	s := newStream(t, d)
	pool, err := d.NewPool(nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, pool.Close()) }()
	managed, err := d.ManagedMemory()
	require.NoError(t, err)
	buffer := func(r device.MemoryResource) func() (interface{ Close() error }, error) {
		return func() (interface{ Close() error }, error) { return device.Allocate(r, 64, s) }
	}
	for api, make := range map[string]func() (interface{ Close() error }, error){
		"cuEventDestroy":          func() (interface{ Close() error }, error) { return d.NewEvent(nil) },
		"cuStreamDestroy":         func() (interface{ Close() error }, error) { return d.NewStream(nil) },
		"cuCtxDestroy":            func() (interface{ Close() error }, error) { return d.NewContext(0) },
		"cuMemPoolDestroy":        func() (interface{ Close() error }, error) { return d.NewPool(nil) },
		"cuMemFreeAsync":          buffer(pool),
		"cuMemFree":               buffer(d.PlainMemory()),
		"cuMemFree of managed":    buffer(managed),
		"cuMemFreeHost of nobody": buffer(d.PinnedMemory()),
	} {
		api, _, _ = strings.Cut(api, " ")
		require.NoError(t, s.Synchronize(background))
		x, err := make()
		require.NoError(t, err, api)
		in := soft.InjectFault(t, soft.Fault{API: api, Count: -1, Code: driver.ErrorDeinitialized, After: true})
		require.NoError(t, x.Close(), api)
		require.NoError(t, device.Flush(soon(t)))
		require.Equal(t, 1, in.Hits(), api)
		in.Remove()
	}
	e, err := d.NewEvent(nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	soft.InjectFault(t, soft.Fault{API: "cuEventRecord", Code: driver.ErrorDeinitialized})
	require.ErrorIs(t, s.RecordEvent(e), device.ErrShutdown)
}

// TestNothingIsLeftToCall is B187: once all is closed nobody owns a driver
// object that would be given back later, when the driver may be gone.
func TestNothingIsLeftToCall(t *testing.T) {
	d := faulty(t)
	func() {
		s, err := d.NewStream(nil)
		require.NoError(t, err)
		b, err := d.Allocate(64, s)
		require.NoError(t, err)
		e, err := s.Record(nil)
		require.NoError(t, err)
		require.NoError(t, b.Fill8(1, s))
		require.NoError(t, errors.Join(e.Close(), b.Close(), s.Synchronize(background), s.Close()))
	}()
	require.NoError(t, device.Flush(soon(t)))
	collect := func() {
		for range 5 {
			runtime.GC()
			time.Sleep(2 * time.Millisecond) // cleanups run on a goroutine of their own
		}
	}
	collect() // what earlier tests have left
	require.NoError(t, device.Flush(soon(t)))
	in := soft.InjectFault(t, soft.Fault{Nth: 1 << 30})
	collect()
	require.Zero(t, in.Calls(), "the driver is called though nothing is open")
}

// TestDevicesTakeTurns is B203: the events that order streams are of the right
// device, on one thread that works on both in turns.
func TestDevicesTakeTurns(t *testing.T) {
	a, b := open(t, 0), open(t, 1)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	streams := []*device.Stream{newStream(t, a), newStream(t, a), newStream(t, b), newStream(t, b)}
	buffers := make([]*device.Buffer, len(streams))
	for i, s := range streams {
		buffers[i] = allocate(t, s.Device(), 64, s)
	}
	for i := range 200 {
		from, to := streams[i%4], streams[(i+1+i/4%3)%4]
		require.NoError(t, buffers[i%4].Fill8(byte(i), from))
		require.NoError(t, to.Wait(from))
		e, err := from.Record(nil)
		require.NoError(t, err)
		require.Equal(t, from.Device(), e.Device())
		require.NoError(t, to.WaitEvent(e))
		require.NoError(t, e.Close())
		require.NoError(t, from.Wait(to))
	}
	for i, s := range streams {
		require.Equal(t, byte(196+i), read(t, buffers[i], s)[63])
	}
}

// TestThreads is B325: calls carry their context, so that goroutines need no
// thread of their own: a thousand that take turns are served by a few.
func TestThreads(t *testing.T) {
	d := open(t, 0)
	streams := make([]*device.Stream, 8)
	buffers := make([]*device.Buffer, 8)
	for i := range streams {
		streams[i] = newStream(t, d)
		buffers[i] = allocate(t, d, 64, streams[i])
	}
	threads := pprof.Lookup("threadcreate")
	before := threads.Count()
	turns := make(chan struct{}, 4) // so many call at a time; the others wait, in the middle of their work
	var wg sync.WaitGroup
	failed := make(chan error, 1000)
	for g := range 1000 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 10 {
				s, q := streams[(g+i)%8], streams[(g+i*3+1)%8]
				turns <- struct{}{}
				err := errors.Join(q.Wait(s), buffers[(g+i)%8].UsedOn(q))
				<-turns
				if err != nil {
					failed <- err
					return
				}
				runtime.Gosched()
			}
		}()
	}
	wg.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	require.Less(t, threads.Count()-before, 64, "1,000 goroutines made 10,000 calls")
}

// TestHangingStream: work that does not end holds up whoever waits for it as
// long as they want to wait, and nobody else.
func TestHangingStream(t *testing.T) {
	d := faulty(t)
	s, q := newStream(t, d), newStream(t, d)
	b, c := allocate(t, d, 64, s), allocate(t, d, 64, q)
	release, err := soft.HangStream(s.Handle())
	require.NoError(t, err)
	defer release()
	require.NoError(t, b.Fill8(1, s))
	require.NoError(t, c.Fill8(2, q))
	require.Equal(t, byte(2), read(t, c, q)[0], "another stream goes on")
	e, err := s.Record(nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	ran := make(chan struct{})
	require.NoError(t, device.Defer(s.View(), func(error) { close(ran) }))
	for name, wait := range map[string]func(ctx context.Context) error{
		"stream": s.Synchronize, "event": e.Synchronize, "device": d.Synchronize, "flush": device.Flush,
		"copy": func(ctx context.Context) error { return b.CopyToHost(ctx, make([]byte, 64), s) },
	} {
		ctx, cancel := context.WithTimeout(background, 30*time.Millisecond)
		start := time.Now()
		require.ErrorIs(t, wait(ctx), context.DeadlineExceeded, name)
		require.Less(t, time.Since(start), 10*time.Second, name)
		cancel()
	}
	require.False(t, isDone(t, s))
	select {
	case <-ran:
		t.Fatal("it ran before the work was done")
	default:
	}
	release()
	<-ran
	require.NoError(t, s.Synchronize(soon(t)))
	require.Equal(t, byte(1), read(t, b, s)[63])
}

// firstCalls are entry points by which a program may begin.
var firstCalls = map[string]func() error{
	"Count": func() error { _, err := device.Count(); return err },
	"Open":  func() error { _, err := device.Open(0); return err },
	"Devices": func() error {
		for _, err := range device.Devices() {
			return err
		}
		return nil
	},
	"ByPCIBusID":  func() error { _, err := device.ByPCIBusID("0000:10:00.0"); return err },
	"ByUUID":      func() error { _, err := device.ByUUID(device.UUID{1}); return unlessInvalid(err) },
	"Current":     func() error { _, err := device.CurrentContext(); return err },
	"InfoOf":      func() error { _, err := device.InfoOf(1 << 20); return err },
	"WrapBuffer":  func() error { _, err := device.WrapBuffer(1<<20, 4, nil); return err },
	"WrapStream":  func() error { _, err := device.WrapStream(1<<30, nil, nil); return unlessInvalid(err) },
	"WrapContext": func() error { _, err := device.WrapContext(1 << 30); return unlessInvalid(err) },
	"Flush":       func() error { return device.Flush(background) },
}

// unlessInvalid lets the answer pass that a made-up handle gets.
func unlessInvalid(err error) error {
	if errors.Is(err, device.ErrInvalidHandle) || errors.Is(err, device.ErrInvalidContext) || errors.Is(err, device.ErrInvalidDevice) ||
		errors.Is(err, device.ErrInvalidValue) {
		return nil
	}
	return err
}

// TestFirstCall is B327: the driver is initialized whichever call comes first.
func TestFirstCall(t *testing.T) {
	if testdriver.Real() || !soft.Available {
		t.Skip("needs the software device: a GPU's driver reads where a made-up handle points")
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	for name := range firstCalls {
		cmd := exec.CommandContext(soon(t), exe)
		cmd.Env = append(os.Environ(), "DEVICE_TEST_CHILD=first "+name, "HANDOFF_DRIVER=soft")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
	}
}

// TestManagedWithoutAttributes is B269: where the driver does not say that the
// host may touch managed memory while the device works, it may not; and memory
// of a kind that the device is not said to have is a typed error.
func TestManagedWithoutAttributes(t *testing.T) {
	if testdriver.Real() || !soft.Available {
		t.Skip("needs the software device: a GPU knows its attributes")
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(soon(t), exe)
	cmd.Env = append(os.Environ(), "DEVICE_TEST_CHILD=managed", "HANDOFF_DRIVER=soft")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

func managedChild() error {
	d, err := device.Open(0)
	if err != nil {
		return err
	}
	c, err := d.PrimaryContext()
	if err != nil {
		return err
	}
	p, res := d.Driver().MemAllocManaged(c.Handle(), 64, driver.MemAttachGlobal)
	if res != driver.Success {
		return res
	}
	in, err := soft.Inject(soft.Fault{API: "cuDeviceGetAttribute", Count: -1, Code: driver.ErrorNotSupported})
	if err != nil {
		return err
	}
	if _, err := d.ManagedMemory(); !errors.Is(err, device.ErrNotSupported) {
		return fmt.Errorf("a resource of managed memory: %v", err)
	}
	m, err := device.InfoOf(p)
	if err != nil || !m.Managed || !m.HostNeedsIdle {
		return fmt.Errorf("without the attribute: %+v, %v", m, err)
	}
	in.Remove()
	if m, err = device.InfoOf(p); err != nil || !m.Managed || m.HostNeedsIdle {
		return fmt.Errorf("with the attribute: %+v, %v", m, err)
	}
	return d.Driver().MemFree(c.Handle(), p).Err()
}

// fieldChild is what a process of its own does for the tests above.
func fieldChild(mode string) (code int, known bool) {
	var err error
	switch name, first := strings.CutPrefix(mode, "first "); {
	case first:
		err = firstCalls[name]()
	case mode == "managed":
		err = managedChild()
	case mode == "owner":
		err = ownerChild()
	default:
		return 0, false
	}
	if err != nil {
		fmt.Println(err)
		return 1, true
	}
	if n := len(leak.Live()); n != 0 {
		return 1, true
	}
	return 0, true
}
