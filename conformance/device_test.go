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
		Producer: v, Stream: uint64(theirs.Handle()), Done: theirs.Done,
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

// TestOrderOfStreamsCanFail: a producer that never orders, one that always
// waits, and one that hides or invents its stream.
func TestOrderOfStreamsCanFail(t *testing.T) {
	t.Run("never orders", func(t *testing.T) {
		v, p, _ := ordered(t)
		p.Producer = careless{v}
		results, err := conformance.CheckGo(p)
		require.NoError(t, err)
		reported(t, results, "R137")
		reported(t, results, "R190")
		reported(t, results, "R191")
		reported(t, results, "R192")
	})
	t.Run("ignores the stream of a description", func(t *testing.T) {
		v, p, _ := orderedFor(t)
		p.TakeCAI = takeOn(v, stream.NoSync())
		results, err := conformance.CheckGo(p)
		require.NoError(t, err)
		reported(t, results, "R188")
	})
	t.Run("copies elsewhere", func(t *testing.T) {
		v, p, _ := ordered(t)
		p.Producer, p.Copy = shares{v}, true
		results, err := conformance.CheckGo(p)
		require.NoError(t, err)
		reported(t, results, "R153")
	})
	t.Run("always waits", func(t *testing.T) {
		v, p, _ := ordered(t)
		p.Producer = eager{v, p.Finish}
		results, err := conformance.CheckGo(p)
		require.NoError(t, err)
		reported(t, results, "R138")
	})
	t.Run("orders where it must not", func(t *testing.T) {
		v, p, _ := ordered(t)
		p.Producer = always{v, p.Stream}
		results, err := conformance.CheckGo(p)
		require.NoError(t, err)
		reported(t, results, "R127")
		require.NoError(t, p.Finish())
	})
	t.Run("refuses a handle", func(t *testing.T) {
		v, p, _ := ordered(t)
		p.Producer = refuses{v}
		results, err := conformance.CheckGo(p)
		require.NoError(t, err)
		reported(t, results, "R131")
	})
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
