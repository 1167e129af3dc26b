package device_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/internal/testdriver"
)

// faults decides which calls of the software device fail.
type faults struct {
	countdown atomic.Int64 // the call after so many others fails; below 0 none does
	api       atomic.Value // only calls of this name count, if not empty
	code      atomic.Int32
	hit       atomic.Value // name of the call that failed
}

func (f *faults) fault(api string) int32 {
	if only, _ := f.api.Load().(string); only != "" && only != api {
		return 0
	}
	if f.countdown.Add(-1) != -1 {
		return 0
	}
	f.hit.Store(api)
	return f.code.Load()
}

// arm makes the n-th call from now on fail, of one entry point or of any.
func (f *faults) arm(n int64, api string, code driver.Result) {
	f.api.Store(api)
	f.code.Store(int32(code))
	f.hit.Store("")
	f.countdown.Store(n)
}

func (f *faults) disarm() { f.countdown.Store(-1 << 40) }

func (f *faults) name() string {
	s, _ := f.hit.Load().(string)
	return s
}

// TestFaults runs in a process of its own, as the software device takes its
// options once.
func TestFaults(t *testing.T) {
	if testdriver.Real() || !driver.Available {
		t.Skip("needs the software device, which can be made to fail")
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), "DEVICE_TEST_CHILD=faults", "HANDOFF_DRIVER=", "HANDOFF_CHECK=")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "faults: ok")
}

func faultChild() error {
	var f faults
	f.disarm()
	if err := soft.Enable(&soft.Options{Fault: f.fault}); err != nil {
		return err
	}
	if err := named(&f); err != nil {
		return err
	}
	return everyCall(&f)
}

// named are the faults that a row asks for.
func named(f *faults) error {
	d, err := device.Open(0)
	if err != nil {
		return err
	}
	// B279: the real code, and nothing that sticks.
	for _, code := range []driver.Result{driver.ErrorOutOfMemory, driver.ErrorDeviceUnavailable} {
		f.arm(0, "cuDevicePrimaryCtxRetain", code)
		_, err := d.PrimaryContext()
		if !errors.Is(err, code) {
			return fmt.Errorf("B279: %v, want %v", err, code)
		}
	}
	s, err := d.NewStream(nil)
	if err != nil {
		return fmt.Errorf("B279: the error sticks: %w", err)
	}
	defer s.Close()
	// B285: 704 is success.
	if n, _ := device.Count(); n > 1 {
		peer, err := device.Open(1)
		if err != nil {
			return err
		}
		f.arm(0, "cuCtxEnablePeerAccess", driver.ErrorPeerAccessAlreadyEnabled)
		if err := d.EnableAccess(peer); err != nil {
			return fmt.Errorf("B285: %w", err)
		}
		// B287: no path names both devices.
		f.arm(0, "cuCtxEnablePeerAccess", driver.ErrorPeerAccessUnsupported)
		if err := d.EnableAccess(peer); !errors.Is(err, device.ErrPeerAccess) {
			return fmt.Errorf("B287: %v", err)
		}
	}
	// A sticky error is known as one, and at the call that found it.
	f.arm(0, "cuStreamQuery", driver.ErrorIllegalAddress)
	_, err = s.Done()
	var e *device.Error
	if !errors.Is(err, device.ErrSticky) || !errors.As(err, &e) || e.Op != "query stream" {
		return fmt.Errorf("sticky: %v", err)
	}
	// The driver shuts down under us: closing is no error then.
	b, err := d.Allocate(64, s)
	if err != nil {
		return err
	}
	f.arm(0, "cuMemFreeAsync", driver.ErrorDeinitialized)
	if err := b.Close(); err != nil {
		return fmt.Errorf("shutdown: %w", err)
	}
	// Memory that cannot be ordered is kept, not given away.
	q, err := d.NewStream(nil)
	if err != nil {
		return err
	}
	defer q.Close()
	if b, err = d.Allocate(64, s); err != nil {
		return err
	}
	if err := b.Fill8(1, q); err != nil {
		return err
	}
	f.arm(0, "cuStreamWaitEvent", driver.ErrorLaunchFailed)
	if err := b.Close(); !errors.Is(err, device.ErrSticky) {
		return fmt.Errorf("free without order: %v", err)
	}
	f.disarm()
	return nil
}

// everyCall runs one scenario again and again; in the n-th run the n-th driver
// call fails. Whatever fails: a typed error, nothing left, the caller's current
// context as it was.
func everyCall(f *faults) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	drv, err := driver.Default()
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, code := range []driver.Result{driver.ErrorOutOfMemory, driver.ErrorInvalidValue, driver.ErrorIllegalAddress, driver.ErrorUnknown} {
		quiet := 0
		for n := int64(0); quiet < 3; n++ {
			if n > 2000 {
				return fmt.Errorf("the scenario never ends")
			}
			before, _ := drv.CtxGetCurrent()
			f.arm(n, "", code)
			err := scenario()
			f.disarm()
			if f.name() == "" {
				quiet++
				if err != nil {
					return fmt.Errorf("no fault, and %w", err)
				}
				continue
			}
			quiet = 0
			seen[f.name()] = true
			if err != nil {
				var e *device.Error
				if !errors.As(err, &e) && !errors.Is(err, code) {
					return fmt.Errorf("%s failed: %T: %w", f.name(), err, err)
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			err = device.Flush(ctx)
			cancel()
			if err != nil {
				return fmt.Errorf("%s failed: %w", f.name(), err)
			}
			if s := device.Stats(); s.Contexts|s.Events|s.Buffers|s.Pools|s.Allocated|s.Deferred|s.Waiters != 0 || s.Streams != 0 {
				return fmt.Errorf("%s failed: left over: %+v", f.name(), s)
			}
			if after, _ := drv.CtxGetCurrent(); after != before {
				return fmt.Errorf("%s failed: the current context was %#x and is %#x", f.name(), before, after)
			}
		}
	}
	if len(seen) < 15 {
		return fmt.Errorf("only %d entry points failed: %v", len(seen), seen)
	}
	return nil
}

// scenario uses most of the package and closes everything it made.
func scenario() (err error) {
	var made []interface{ Close() error }
	defer func() {
		for i := range made {
			err = errors.Join(err, made[len(made)-1-i].Close())
		}
	}()
	add := func(c interface{ Close() error }, e error) bool {
		if e != nil {
			err = e
			return false
		}
		made = append(made, c)
		return true
	}
	d, err := device.Open(0)
	if err != nil {
		return err
	}
	c, e := d.NewContext(0)
	if !add(c, e) {
		return err
	}
	restore, err := c.SetCurrent()
	if err != nil {
		return err
	}
	if err := restore(); err != nil {
		return err
	}
	s, e := c.NewStream(&device.StreamOptions{Priority: -1})
	if !add(s, e) {
		return err
	}
	q, e := d.NewStream(nil)
	if !add(q, e) {
		return err
	}
	ev, e := s.Record(&device.EventOptions{Timing: true})
	if !add(ev, e) {
		return err
	}
	if err := q.WaitEvent(ev); err != nil {
		return err
	}
	p, e := d.NewPool(nil)
	if !add(p, e) {
		return err
	}
	for _, r := range []device.MemoryResource{p, d.PlainMemory(), d.PinnedMemory()} {
		b, e := device.Allocate(r, 256, q)
		if !add(b, e) {
			return err
		}
		if err := b.Fill8(1, q); err != nil {
			return err
		}
		if err := q.Wait(s); err != nil {
			return err
		}
		if err := b.CopyFromHost(make([]byte, 256), q); err != nil {
			return err
		}
		if err := b.CopyToHost(context.Background(), make([]byte, 256), q); err != nil {
			return err
		}
		if _, err := device.InfoOf(b.Ptr()); err != nil {
			return err
		}
	}
	if err := device.Defer(q.View(), func(error) {}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := q.Synchronize(ctx); err != nil {
		return err
	}
	return c.Synchronize(ctx)
}
