package device_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
)

func TestBufferRoundTrip(t *testing.T) {
	d := open(t, 0)
	s := newStream(t, d)
	b := allocate(t, d, 1<<20, s)
	in := make([]byte, b.Size())
	for i := range in {
		in[i] = byte(i * 7)
	}
	require.NoError(t, b.CopyFromHost(in, s))
	c := allocate(t, d, b.Size(), s)
	require.NoError(t, b.CopyTo(c, s))
	require.Equal(t, in, read(t, c, s))
	require.NoError(t, device.CopyRange(c, 10, b, 1000, 5, s))
	require.Equal(t, in[1000:1005], read(t, c, s)[10:15])
	require.NoError(t, b.CopyFromHostSync(soon(t), make([]byte, b.Size()), s))
	require.Zero(t, read(t, b, s)[77])

	require.NoError(t, b.Fill16(0x1234, s))
	require.Equal(t, []byte{0x34, 0x12, 0x34, 0x12}, read(t, b, s)[:4])
	require.NoError(t, b.Fill32(0x12345678, s))
	require.Equal(t, []byte{0x78, 0x56, 0x34, 0x12}, read(t, b, s)[:4])
	require.NoError(t, b.Fill8(9, s))
	require.Equal(t, []byte{9, 9, 9, 9}, read(t, b, s)[:4])
	require.NoError(t, device.Flush(soon(t)))
}

func TestBufferArguments(t *testing.T) {
	d := open(t, 0)
	s := newStream(t, d)
	b, c := allocate(t, d, 10, s), allocate(t, d, 11, s)
	for name, err := range map[string]error{
		"sizes differ":         b.CopyFrom(c, s),
		"range past the end":   device.CopyRange(b, 6, c, 0, 5, s),
		"negative offset":      device.CopyRange(b, -1, c, 0, 5, s),
		"negative length":      device.CopyRange(b, 0, c, 0, -5, s),
		"overflow":             device.CopyRange(b, 1, c, 0, 1<<63-1, s),
		"host length":          b.CopyFromHost(make([]byte, 9), s),
		"host length out":      b.CopyToHost(background, make([]byte, 9), s),
		"fill of half a word":  c.Fill16(1, s),
		"fill of 10 by 4":      b.Fill32(1, s),
		"no stream":            b.Fill8(1, nil),
		"no stream for a copy": c.CopyFrom(c, nil),
		"no stream to free":    b.SetStream(nil),
		"negative size":        second(d.Allocate(-1, s)),
		"allocate, no stream":  second(d.Allocate(1, nil)),
		"null memory":          second(device.WrapBuffer(0, 4, nil)),
		"import of null":       second(device.ImportBuffer(0, 4, d.PlainMemory(), s)),
	} {
		require.ErrorIs(t, err, device.ErrInvalidValue, name)
	}
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	require.True(t, b.Closed())
	for name, err := range map[string]error{
		"fill": b.Fill8(1, s), "copy": device.CopyRange(b, 0, c, 0, 1, s), "copy from": device.CopyRange(c, 0, b, 0, 1, s),
		"to host": b.CopyToHost(background, make([]byte, 10), s), "used": b.UsedOn(s), "bytes": second(b.Bytes()), "set stream": b.SetStream(s),
	} {
		require.ErrorIs(t, err, device.ErrClosed, name)
	}

	empty, err := d.Allocate(0, s)
	require.NoError(t, err)
	require.Zero(t, empty.Ptr())
	require.NoError(t, empty.Fill32(1, s))
	require.NoError(t, empty.CopyFromHost(nil, s))
	require.NoError(t, empty.CopyToHost(background, nil, s))
	require.NoError(t, empty.CopyFrom(empty, s))
	require.NoError(t, empty.Close())
}

func second[T any](_ T, err error) error { return err }

func TestOutOfMemory(t *testing.T) {
	d := open(t, 0)
	s := newStream(t, d)
	before := device.Stats()
	_, err := d.Allocate(1<<46, s)
	require.ErrorIs(t, err, device.ErrOutOfMemory)
	var e *device.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, fmt.Sprintf("allocate %d bytes", int64(1)<<46), e.Op)
	require.Equal(t, before.Buffers, device.Stats().Buffers)
	require.NoError(t, allocate(t, d, 16, s).Fill8(1, s), "it goes on")
	pool, err := d.NewPool(&device.PoolOptions{MaxSize: 64 << 20})
	require.NoError(t, err)
	_, err = device.Allocate(pool, 1<<30, s)
	require.ErrorIs(t, err, device.ErrOutOfMemory)
	require.NoError(t, pool.Close())
}

func TestMemoryKinds(t *testing.T) {
	d := open(t, 0)
	s := newStream(t, d)
	resources := map[string]device.MemoryResource{"plain": d.PlainMemory(), "pinned": d.PinnedMemory()}
	pool, err := d.Pool()
	require.NoError(t, err)
	resources["pool"] = pool
	if m, err := d.ManagedMemory(); err == nil {
		resources["managed"] = m
	} else {
		require.ErrorIs(t, err, device.ErrNotSupported)
	}
	if p, err := d.NewPinnedPool(nil); err == nil {
		resources["pinned pool"] = p
		defer func() { require.NoError(t, p.Close()) }()
	} else {
		require.ErrorIs(t, err, device.ErrNotSupported)
	}
	want := map[string]dlpack.DeviceType{
		"plain": dlpack.DeviceCUDA, "pool": dlpack.DeviceCUDA, "pinned": dlpack.DeviceCUDAHost,
		"pinned pool": dlpack.DeviceCUDAHost, "managed": dlpack.DeviceCUDAManaged,
	}
	for name, r := range resources {
		t.Run("B263 "+name, func(t *testing.T) {
			b, err := device.Allocate(r, 4096, s)
			require.NoError(t, err)
			require.Equal(t, want[name], b.DLDevice().Type)
			require.Same(t, d, b.Device())
			require.NoError(t, b.Fill8(0x5A, s))
			require.NoError(t, s.Synchronize(background))

			// The driver says the same of the bare address.
			w, err := device.WrapBuffer(b.Ptr(), b.Size(), t)
			require.NoError(t, err)
			require.Equal(t, b.Info(), w.Info())
			require.Equal(t, b.DLDevice(), w.DLDevice())
			require.Equal(t, t, w.Owner())
			require.Nil(t, w.Resource())
			require.Equal(t, byte(0x5A), read(t, w, s)[4095])
			require.ErrorIs(t, w.SetStream(s), device.ErrInvalidValue)

			p, err := w.Bytes()
			if b.Info().HostAccessible {
				require.NoError(t, err)
				require.Len(t, p, 4096)
				require.Equal(t, byte(0x5A), p[17])
				p[17] = 1
				require.Equal(t, byte(1), read(t, b, s)[17])
			} else {
				require.ErrorIs(t, err, device.ErrNotSupported)
			}
			require.NoError(t, w.Close())
			require.Equal(t, byte(0x5A), read(t, b, s)[18], "closing a borrowed buffer freed the memory")
			require.NoError(t, b.Close())
		})
	}
	t.Run("B271 host memory that the driver does not know", func(t *testing.T) {
		p := make([]byte, 64)
		pin := new(runtime.Pinner)
		pin.Pin(&p[0])
		defer pin.Unpin()
		info, err := device.InfoOf(addressOf(p))
		require.NoError(t, err)
		require.True(t, info.HostAccessible)
		n, err := d.Attribute(driver.AttrPageableMemoryAccess)
		require.NoError(t, err)
		require.Equal(t, n != 0, info.DeviceAccessible)
		require.Equal(t, dlpack.DeviceCPU, info.DeviceType())
	})
	require.NoError(t, device.Flush(soon(t)))
}

// resource is a MemoryResource of a user: it counts, and says on which stream
// memory comes back.
type resource struct {
	device.MemoryResource
	mu    sync.Mutex
	alive map[driver.DevicePtr]int64
	freed []driver.StreamHandle
}

func (r *resource) Allocate(size int64, s *device.Stream) (driver.DevicePtr, error) {
	p, err := r.MemoryResource.Allocate(size, s)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.alive[p] = size
	}
	return p, err
}

func (r *resource) Deallocate(p driver.DevicePtr, size int64, s *device.Stream) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.alive[p] != size {
		return fmt.Errorf("free of %#x, %d bytes", uint64(p), size)
	}
	delete(r.alive, p)
	r.freed = append(r.freed, s.Handle())
	return r.MemoryResource.Deallocate(p, size, s)
}

func counting(t testing.TB, d *device.Device) *resource {
	t.Helper()
	r, err := d.Memory()
	require.NoError(t, err)
	return &resource{MemoryResource: r, alive: map[driver.DevicePtr]int64{}}
}

func TestUserResource(t *testing.T) {
	d := open(t, 0)
	s := newStream(t, d)
	r := counting(t, d)
	b, err := device.Allocate(r, 100, s)
	require.NoError(t, err)
	require.Len(t, r.alive, 1)
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	require.Empty(t, r.alive)
	require.Equal(t, []driver.StreamHandle{s.Handle()}, r.freed)
	t.Run("B155 owned or borrowed", func(t *testing.T) {
		p, err := r.Allocate(100, s)
		require.NoError(t, err)
		w, err := device.WrapBuffer(p, 100, nil)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.Len(t, r.alive, 1, "borrowed memory was freed")
		o, err := device.ImportBuffer(p, 100, r, s)
		require.NoError(t, err)
		require.NoError(t, o.Close())
		require.Empty(t, r.alive, "owned memory was not freed")
	})
	t.Run("an error of the resource", func(t *testing.T) {
		p, err := r.Allocate(100, s)
		require.NoError(t, err)
		o, err := device.ImportBuffer(p, 99, r, s)
		require.NoError(t, err)
		require.ErrorContains(t, o.Close(), "99 bytes")
		require.NoError(t, r.Deallocate(p, 100, s))
	})
}

// TestFreeInStreamOrder: memory goes back after the work that uses it, on
// whatever stream that is.
func TestFreeInStreamOrder(t *testing.T) {
	d := open(t, 0)
	t.Run("B157 the stream of the buffer changes", func(t *testing.T) {
		a, b, r := newStream(t, d), newStream(t, d), counting(t, d)
		x, err := device.Allocate(r, 256, a)
		require.NoError(t, err)
		release := block(t, a)
		require.NoError(t, x.Fill8(1, a))
		require.NoError(t, x.CloseOn(b))
		require.Equal(t, []driver.StreamHandle{b.Handle()}, r.freed)
		require.False(t, isDone(t, b), "b frees without waiting for a")
		release()
		require.NoError(t, b.Synchronize(soon(t)))
	})
	t.Run("B143, B159 used on another stream", func(t *testing.T) {
		a, b, r := newStream(t, d), newStream(t, d), counting(t, d)
		x, err := device.Allocate(r, 256, a)
		require.NoError(t, err)
		require.NoError(t, b.Wait(a))
		release := block(t, b)
		require.NoError(t, x.Fill8(1, b))
		require.NoError(t, x.Fill8(2, b))
		require.NoError(t, x.Close())
		require.Equal(t, []driver.StreamHandle{a.Handle()}, r.freed)
		require.False(t, isDone(t, a), "a frees without waiting for b")
		release()
		require.NoError(t, a.Synchronize(soon(t)))
	})
	t.Run("foreign work", func(t *testing.T) {
		a, b, r := newStream(t, d), newStream(t, d), counting(t, d)
		x, err := device.Allocate(r, 256, a)
		require.NoError(t, err)
		release := block(t, b)
		require.NoError(t, x.UsedOn(b))
		require.NoError(t, x.Close())
		require.False(t, isDone(t, a))
		release()
		require.NoError(t, a.Synchronize(soon(t)))
	})
	t.Run("no edge without need", func(t *testing.T) {
		a, r := newStream(t, d), counting(t, d)
		x, err := device.Allocate(r, 256, a)
		require.NoError(t, err)
		before := device.Stats().Edges
		require.NoError(t, x.Fill8(1, a))
		require.NoError(t, x.UsedOn(a))
		require.NoError(t, x.Close())
		require.Equal(t, before, device.Stats().Edges)
	})
	t.Run("without a pool", func(t *testing.T) {
		a := newStream(t, d)
		for _, r := range []device.MemoryResource{d.PlainMemory(), d.PinnedMemory()} {
			x, err := device.Allocate(r, 256, a)
			require.NoError(t, err)
			release := block(t, a)
			require.NoError(t, x.Fill8(1, a))
			require.NoError(t, x.Close(), "the host does not wait")
			require.Equal(t, int64(1), device.Stats().Deferred)
			release()
			require.NoError(t, device.Flush(soon(t)))
		}
	})
}

// TestAnyOrder: B153, B357. Whatever is closed first, and from whatever thread,
// everything goes back.
func TestAnyOrder(t *testing.T) {
	d := open(t, 0)
	ctx, err := d.NewContext(0)
	require.NoError(t, err)
	s, err := ctx.NewStream(nil)
	require.NoError(t, err)
	e, err := s.Record(nil)
	require.NoError(t, err)
	p, err := d.NewPool(nil)
	require.NoError(t, err)
	b, err := device.Allocate(p, 1024, s)
	require.NoError(t, err)
	require.NoError(t, ctx.Close())
	require.NoError(t, p.Close())
	require.NoError(t, b.Fill8(1, s), "still usable")
	require.NoError(t, s.Close())
	require.Equal(t, int64(1), device.Stats().Contexts)
	failed := make(chan error)
	go func() { failed <- b.Close() }()
	require.NoError(t, <-failed)
	require.Zero(t, device.Stats().Pools)
	require.NoError(t, e.Close())
	require.Zero(t, device.Stats().Contexts)

	rapid.Check(t, func(t *rapid.T) {
		var open []func() error
		add := func(c func() error) { open = append(open, c) }
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		var ctxs []*device.Context
		var streams []*device.Stream
		var pools []*device.DevicePool
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				c, err := d.NewContext(0)
				must(err)
				ctxs = append(ctxs, c)
				add(c.Close)
			case 1:
				p, err := d.NewPool(nil)
				must(err)
				pools = append(pools, p)
				add(p.Close)
			case 2:
				if len(ctxs) > 0 {
					s, err := rapid.SampledFrom(ctxs).Draw(t, "ctx").NewStream(nil)
					if err != nil && !errors.Is(err, device.ErrClosed) {
						t.Fatal(err)
					}
					if err == nil {
						streams = append(streams, s)
						add(s.Close)
					}
				}
			case 3:
				if len(streams) > 0 && len(pools) > 0 {
					s := rapid.SampledFrom(streams).Draw(t, "stream")
					b, err := device.Allocate(rapid.SampledFrom(pools).Draw(t, "pool"), 64, s)
					if err != nil && !errors.Is(err, device.ErrClosed) {
						t.Fatal(err)
					}
					if err == nil {
						add(b.Close)
						other := rapid.SampledFrom(streams).Draw(t, "other")
						err := other.Wait(s)
						if err == nil {
							err = b.Fill8(1, other)
						}
						if err != nil && !errors.Is(err, device.ErrClosed) {
							t.Fatal(err)
						}
					}
				}
			case 4:
				if len(streams) > 0 {
					e, err := rapid.SampledFrom(streams).Draw(t, "stream").Record(nil)
					if err != nil && !errors.Is(err, device.ErrClosed) {
						t.Fatal(err)
					}
					if err == nil {
						add(e.Close)
					}
				}
			case 5:
				if len(open) > 0 {
					i := rapid.IntRange(0, len(open)-1).Draw(t, "close")
					must(open[i]())
				}
			}
		}
		for _, i := range rapid.Permutation(indices(len(open))).Draw(t, "order") {
			must(open[i]())
			must(open[i]())
		}
		if s := device.Stats(); s.Contexts|s.Streams|s.Events|s.Buffers|s.Pools|s.Allocated != 0 {
			t.Fatalf("left over: %+v", s)
		}
	})
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func TestPool(t *testing.T) {
	d := open(t, 0)
	s := newStream(t, d)
	def, err := d.Pool()
	require.NoError(t, err)
	again, err := d.Pool()
	require.NoError(t, err)
	require.Same(t, def, again)
	require.False(t, def.Owned())
	require.NoError(t, def.Close(), "the device's own stays")

	p, err := d.NewPool(&device.PoolOptions{ReleaseThreshold: 1 << 20})
	require.NoError(t, err)
	n, err := p.Attribute(driver.MemPoolAttrReleaseThreshold)
	require.NoError(t, err)
	require.Equal(t, uint64(1<<20), n)
	require.NoError(t, p.SetAttribute(driver.MemPoolAttrReuseAllowOpportunistic, 0))
	n, err = p.Attribute(driver.MemPoolAttrReuseAllowOpportunistic)
	require.NoError(t, err)
	require.Zero(t, n)
	b, err := device.Allocate(p, 1<<16, s)
	require.NoError(t, err)
	used, err := p.Used()
	require.NoError(t, err)
	require.GreaterOrEqual(t, used, uint64(1<<16))
	reserved, err := p.Reserved()
	require.NoError(t, err)
	require.GreaterOrEqual(t, reserved, used)
	require.NoError(t, b.Close())
	require.NoError(t, s.Synchronize(background))
	require.NoError(t, p.Trim(0))
	require.NoError(t, p.SetAccess(d, true))
	require.ErrorIs(t, p.SetAccess(d, false), device.ErrInvalidValue)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	_, err = device.Allocate(p, 1, s)
	require.ErrorIs(t, err, device.ErrClosed)
	require.ErrorIs(t, p.Trim(0), device.ErrClosed)
	require.ErrorIs(t, p.SetAttribute(driver.MemPoolAttrReuseAllowOpportunistic, 0), device.ErrClosed)

	t.Run("B287 stream of another device", func(t *testing.T) {
		other := newStream(t, open(t, 1))
		_, err := d.Allocate(64, other)
		require.ErrorIs(t, err, device.ErrInvalidDevice)
		require.Contains(t, err.Error(), "device 0")
		require.Contains(t, err.Error(), "device 1")
		require.ErrorIs(t, allocate(t, d, 16, s).SetStream(other), device.ErrInvalidDevice)
	})
}

// TestPeerCopy: B277, B283. The data is looked at, with peer access and without.
func TestPeerCopy(t *testing.T) {
	da, db := open(t, 0), open(t, 1)
	s, q := newStream(t, da), newStream(t, db)
	can, err := da.CanAccess(db)
	require.NoError(t, err)
	for _, access := range []bool{false, true} {
		if access && !can {
			continue
		}
		if access {
			require.NoError(t, da.EnableAccess(db))
			require.NoError(t, db.EnableAccess(da))
		}
		t.Run(fmt.Sprintf("access %v", access), func(t *testing.T) {
			p, err := db.NewPool(nil)
			require.NoError(t, err)
			if access {
				require.NoError(t, p.SetAccess(da, true))
				ok, err := p.CanAccess(da)
				require.NoError(t, err)
				require.True(t, ok)
			}
			a := allocate(t, da, 1<<16, s)
			b, err := device.Allocate(p, 1<<16, q)
			require.NoError(t, err)
			require.NoError(t, s.Wait(q))
			require.NoError(t, a.Fill32(0xCAFEBABE, s))
			require.NoError(t, b.CopyFrom(a, s))
			require.NoError(t, q.Wait(s))
			require.Equal(t, []byte{0xBE, 0xBA, 0xFE, 0xCA}, read(t, b, q)[1<<16-4:])
			require.NoError(t, b.Close())
			require.NoError(t, p.Close())
		})
	}
	if can {
		require.NoError(t, da.DisableAccess(db))
		require.NoError(t, db.DisableAccess(da))
	}
}

// TestCopyToHostCancelled: the wait ends with its context, and what was not
// copied is as it was.
func TestCopyToHostCancelled(t *testing.T) {
	d := open(t, 0)
	s := newStream(t, d)
	b := allocate(t, d, 1<<16, s)
	require.NoError(t, b.Fill8(5, s))
	release := block(t, s)
	ctx, cancel := context.WithCancel(background)
	done := make(chan error)
	p := make([]byte, 1<<16)
	go func() { done <- b.CopyToHost(ctx, p, s) }()
	waitFor(t, func() bool { return device.Stats().Waiters == 1 })
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.Zero(t, p[0])
	release()
	require.NoError(t, b.CopyToHost(soon(t), p, s))
	require.Equal(t, byte(5), p[1<<16-1])
	require.NoError(t, device.Flush(soon(t)))
}

// TestCopyFromHostKeepsMemory: B355. The memory stays until the copy is done,
// not until the call returns.
func TestCopyFromHostKeepsMemory(t *testing.T) {
	d := open(t, 0)
	s := newStream(t, d)
	b := allocate(t, d, 1<<12, s)
	release := block(t, s)
	collected := make(chan struct{})
	func() {
		p := make([]byte, 1<<12)
		for i := range p {
			p[i] = 0x77
		}
		runtime.AddCleanup(&p[0], func(int) { close(collected) }, 0)
		require.NoError(t, b.CopyFromHost(p, s))
	}()
	for range 5 {
		runtime.GC()
	}
	select {
	case <-collected:
		t.Fatal("the memory was collected while the copy was queued")
	default:
	}
	release()
	require.Equal(t, byte(0x77), read(t, b, s)[100])
	require.NoError(t, device.Flush(soon(t)))
	waitFor(t, func() bool {
		select {
		case <-collected:
			return true
		default:
			return false
		}
	})
}

// TestSoak: many goroutines over 8 streams and two devices; every value is
// looked at. HANDOFF_SOAK=60s makes it 1,000 goroutines that go on for a minute,
// and prints what they did.
func TestSoak(t *testing.T) {
	n, err := func() (int, error) { open(t, 0); return device.Count() }()
	require.NoError(t, err)
	var streams []*device.Stream
	for i := range 8 {
		streams = append(streams, newStream(t, open(t, i%min(n, 2))))
	}
	goroutines, end := 200, time.Now()
	if testing.Short() {
		goroutines = 20
	}
	if v := os.Getenv("HANDOFF_SOAK"); v != "" {
		d, err := time.ParseDuration(v)
		require.NoError(t, err)
		goroutines, end = 1000, time.Now().Add(d)
	}
	var wg sync.WaitGroup
	var failed, rounds atomic.Int64
	for g := range goroutines {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				if err := soak(g, streams); err != nil {
					failed.Add(1)
					t.Error(err)
					return
				}
				if rounds.Add(1); time.Now().After(end) {
					return
				}
			}
		}()
	}
	wg.Wait()
	require.Zero(t, failed.Load())
	require.NoError(t, device.Flush(soon(t)))
	t.Logf("%d goroutines, %d streams, %d devices: %d round trips of 2 buffers, %+v",
		goroutines, len(streams), min(n, 2), 5*rounds.Load(), device.Stats())
}

func soak(g int, streams []*device.Stream) (err error) {
	var b [2]*device.Buffer
	for i := range 5 {
		s, q := streams[(g+i)%len(streams)], streams[(g*3+i*5+1)%len(streams)]
		for j, st := range []*device.Stream{s, q} {
			if b[j], err = st.Device().Allocate(512, st); err != nil {
				return err
			}
		}
		value := byte(g*31 + i)
		if err = b[0].Fill8(value, s); err != nil {
			return err
		}
		if err = s.Wait(q); err != nil { // b[1] is allocated on q
			return err
		}
		if err = b[1].CopyFrom(b[0], s); err != nil {
			return err
		}
		if err = q.Wait(s); err != nil {
			return err
		}
		p := make([]byte, 512)
		if err = b[1].CopyToHost(context.Background(), p, q); err != nil {
			return err
		}
		for _, v := range p {
			if v != value {
				return fmt.Errorf("goroutine %d: %d, want %d", g, v, value)
			}
		}
		for j := range b {
			if err = b[j].Close(); err != nil {
				return err
			}
		}
	}
	return nil
}
