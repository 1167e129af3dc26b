//go:build cgo && linux

package conformance_test

import (
	"context"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/conformance"
	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/memview"
	"github.com/go-handoff/handoff/stream"
)

// ordered is device memory with a write pending, and a stream of a consumer.
func ordered(t *testing.T) (v memview.StridedMemoryView, p conformance.Pending, mine *device.Stream) {
	t.Helper()
	v, p, mine, _ = prepare(t)
	return v, p, mine
}

// orderedFor is ordered with the consumer's stream.
func orderedFor(t *testing.T) (v memview.StridedMemoryView, p conformance.Pending, theirs *device.Stream) {
	t.Helper()
	v, p, _, theirs = prepare(t)
	return v, p, theirs
}

// takeOn takes what is described, keeping the view that describes itself.
func takeOn(v memview.StridedMemoryView, order stream.Order) func(cai.Interface) (io.Closer, error) {
	return func(i cai.Interface) (io.Closer, error) {
		got, err := memview.FromCAI(&i, memview.Unowned(), order, nil)
		if err != nil {
			return nil, err
		}
		return closer(func() error { runtime.KeepAlive(v); return got.Release() }), nil
	}
}

func prepare(t *testing.T) (v memview.StridedMemoryView, p conformance.Pending, mine, theirs *device.Stream) {
	t.Helper()
	ctx := context.Background()
	testdriver.Open(t)
	d, err := device.Open(0)
	require.NoError(t, err)
	newStream := func() *device.Stream {
		s, err := d.NewStream(nil)
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, memview.Flush(ctx))
			require.NoError(t, s.Close())
		})
		return s
	}
	mine, theirs = newStream(), newStream()
	mem, err := d.Memory()
	require.NoError(t, err)
	b, err := device.Allocate(mem, 64, mine)
	require.NoError(t, err)
	v, err = memview.FromDeviceBuffer(b, dlpack.Float32, []int64{2, 3}, stream.On(mine.View()), &memview.BufferOptions{Producer: mine.View()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.Release()) })
	require.NoError(t, mine.Synchronize(ctx))
	release := testdriver.Block(t, d.Driver(), mine.Context().Handle(), mine.Handle())
	return v, conformance.Pending{
		Producer: v, Stream: uint64(theirs.Handle()), Done: theirs.Done, Written: mine.Done,
		Finish: func() error {
			release()
			if err := mine.Synchronize(ctx); err != nil {
				return err
			}
			return theirs.Synchronize(ctx)
		},
	}, mine, theirs
}

// TestOrderOfStreams runs the rules about streams on the software device, or on
// a GPU with HANDOFF_DRIVER=cuda.
func TestOrderOfStreams(t *testing.T) {
	v, p, mine := ordered(t)
	clean(t, mine)
	results, err := conformance.CheckGo(p)
	require.NoError(t, err)
	for _, rule := range []string{"R127", "R131", "R137", "R138", "R190", "R191", "R192"} {
		found := false
		for _, r := range results {
			if r.Rule == rule {
				found = true
				require.Falsef(t, r.Status.Bad(), "%s: %s", r.Rule, r.What)
			}
		}
		require.True(t, found, rule)
	}
	clean(t, v)
	t.Run("R188 taken by description", func(t *testing.T) {
		v, p, theirs := orderedFor(t)
		p.TakeCAI = takeOn(v, stream.On(theirs.View()))
		clean1(t, p)
	})
	t.Run("R153 copy", func(t *testing.T) {
		_, p, _ := ordered(t)
		p.Copy = true
		clean1(t, p)
	})
	t.Run("R189 work on a stream of its own", func(t *testing.T) { clean1(t, work(t, true).Work) })
	t.Run("R189 or until it is done", func(t *testing.T) {
		w := work(t, false)
		do := w.Do
		w.Do = func(i cai.Interface) error {
			if err := do(i); err != nil {
				return err
			}
			for done, err := w.theirs.Done(); !done; done, err = w.theirs.Done() {
				if err != nil {
					return err
				}
				runtime.Gosched()
			}
			return nil
		}
		clean1(t, w.Work)
	})
}

// working is a consumer with a stream of its own that is held back.
type working struct {
	conformance.Work
	theirs *device.Stream
}

// work makes a consumer that gives the memory back in the order of its work, or
// without a word.
func work(t *testing.T, orderly bool) working {
	t.Helper()
	v, p, mine, theirs := prepare(t)
	require.NoError(t, p.Finish()) // nothing is pending on the producer's stream
	i, err := v.CUDAArrayInterface()
	require.NoError(t, err)
	i.Stream = cai.StreamOf(uintptr(mine.Handle()))
	release := testdriver.Block(t, mine.Device().Driver(), theirs.Context().Handle(), theirs.Handle())
	return working{conformance.Work{
		Memory: i,
		Do: func(i cai.Interface) error {
			got, err := memview.FromCAI(&i, memview.Unowned(), stream.On(theirs.View()), nil)
			if err != nil {
				return err
			}
			if orderly {
				return got.ReleaseOn(theirs.View())
			}
			return got.Release()
		},
		Done: mine.Done,
		Finish: func() error {
			release()
			return theirs.Synchronize(context.Background())
		},
	}, theirs}
}

// clean1 is clean for a target that is used up by one run.
func clean1(t *testing.T, target any) {
	t.Helper()
	results, err := conformance.CheckGo(target)
	require.NoError(t, err)
	require.NotEmpty(t, results)
	for _, r := range results {
		require.Falsef(t, r.Status.Bad(), "%s: %s", r.Rule, r.What)
	}
}

// orderMutants are targets that get the order of work wrong.
func orderMutants(m map[string]func(*testing.T) any) {
	for _, rule := range []string{"R137", "R190", "R191", "R192"} {
		m[rule] = func(t *testing.T) any { // never orders, hides its stream and invents one
			v, p, _ := ordered(t)
			p.Producer = careless{v}
			return p
		}
	}
	m["R188"] = func(t *testing.T) any { // ignores the stream of a description
		v, p, _ := orderedFor(t)
		p.TakeCAI = takeOn(v, stream.NoSync())
		return p
	}
	m["R189"] = func(t *testing.T) any { // gives memory back while it works on it
		return work(t, false).Work
	}
	m["R153"] = func(t *testing.T) any { // copies elsewhere
		v, p, _ := ordered(t)
		p.Producer, p.Copy = shares{v}, true
		return p
	}
	m["R138"] = func(t *testing.T) any { // always waits
		v, p, _ := ordered(t)
		p.Producer = eager{v, p.Finish}
		return p
	}
	m["R127"] = func(t *testing.T) any { // orders where it must not
		v, p, _ := ordered(t)
		p.Producer = always{v, p.Stream}
		t.Cleanup(func() { require.NoError(t, p.Finish()) })
		return p
	}
	m["R131"] = func(t *testing.T) any { // refuses a handle
		v, p, _ := ordered(t)
		p.Producer = refuses{v}
		return p
	}
}

type careless struct{ memview.StridedMemoryView }

func (c careless) DLPack(r dlpack.Request) (dlpack.Capsule, error) {
	r.Stream = dlpack.StreamInt(-1)
	return c.StridedMemoryView.DLPack(r)
}

func (c careless) CUDAArrayInterface() (cai.Interface, error) {
	i, err := c.StridedMemoryView.CUDAArrayInterface()
	if i.Stream.IsNone() {
		i.Stream = cai.StreamOf(1)
	} else {
		i.Stream = cai.NoStream
	}
	return i, err
}

type eager struct {
	dlpack.Producer
	finish func() error
}

func (e eager) DLPack(r dlpack.Request) (dlpack.Capsule, error) {
	if err := e.finish(); err != nil {
		return dlpack.Capsule{}, err
	}
	return e.Producer.DLPack(r)
}

type always struct {
	dlpack.Producer
	stream uint64
}

func (a always) DLPack(r dlpack.Request) (dlpack.Capsule, error) {
	r.Stream = dlpack.StreamUint(a.stream)
	return a.Producer.DLPack(r)
}

type refuses struct{ dlpack.Producer }

func (refuses) DLPack(dlpack.Request) (dlpack.Capsule, error) {
	return dlpack.Capsule{}, io.EOF
}

// shares answers a request for a copy with the memory itself, unordered.
type shares struct{ dlpack.Producer }

func (s shares) DLPack(r dlpack.Request) (dlpack.Capsule, error) {
	r.Copy, r.Stream = dlpack.CopyIfNeeded, dlpack.StreamInt(-1)
	return s.Producer.DLPack(r)
}
