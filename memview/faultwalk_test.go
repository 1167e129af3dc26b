package memview_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/memview"
	"github.com/go-handoff/handoff/stream"
)

// walkViews are what the operations of the walk use: 32 × 32 numbers in every kind of memory.
type walkViews struct {
	d, peer           *device.Device
	s, q, far         *device.Stream
	a, b, pin, remote *device.Buffer
	host, back        []float32
}

const walkSide = 32

var walkShape = []int64{walkSide, walkSide}

var views = sync.OnceValue(func() *walkViews {
	w := &walkViews{d: must(device.Open(0)), peer: must(device.Open(1))}
	w.s, w.q, w.far = must(w.d.NewStream(nil)), must(w.d.NewStream(nil)), must(w.peer.NewStream(nil))
	const size = walkSide * walkSide * 4
	w.a, w.b = must(w.d.Allocate(2*size, w.s)), must(w.d.Allocate(2*size, w.s))
	w.pin = must(device.Allocate(w.d.PinnedMemory(), size, w.s))
	w.remote = must(w.peer.Allocate(2*size, w.far))
	w.host, w.back = make([]float32, walkSide*walkSide), make([]float32, walkSide*walkSide)
	for i := range w.host {
		w.host[i] = float32(i)
	}
	return w
})

func (w *walkViews) close() error {
	return errors.Join(w.a.Close(), w.b.Close(), w.pin.Close(), w.remote.Close(), w.s.Close(), w.q.Close(), w.far.Close())
}

// buffer is a view of a buffer that is not given back with it.
func buffer(b *device.Buffer, strides ...int64) memview.StridedMemoryView {
	if len(strides) == 0 {
		strides = nil
	}
	d := dlpack.Desc{Data: uintptr(b.Ptr()), Device: b.DLDevice(), DType: dlpack.Float32, Shape: walkShape, Strides: strides}
	if d.Device.Type != dlpack.DeviceCUDA {
		d.Device.ID = 0
	}
	return must(memview.FromDesc(&d, memview.Unowned()))
}

func only[T any](_ T, err error) error { return err }

// through copies numbers to dst and back by way of other memory, each in its own layout, and looks at them.
func (w *walkViews) through(steps ...memview.StridedMemoryView) error {
	clear(w.back)
	last := must(memview.FromSlice(w.back, walkShape...))
	from := must(memview.FromSlice(w.host, walkShape...))
	for _, to := range append(steps, last) {
		if err := memview.CopyOn(to, from, w.s.View()); err != nil {
			// What is queued has to end before the memory is used again.
			return errors.Join(err, w.s.Synchronize(background))
		}
		from = to
	}
	if err := w.s.Synchronize(background); err != nil {
		return err
	}
	if !slices.Equal(w.host, w.back) {
		return errors.New("wrong numbers")
	}
	return nil
}

func copies(steps func(w *walkViews) []memview.StridedMemoryView) func() error {
	return func() error {
		w := views()
		return w.through(steps(w)...)
	}
}

func some(v ...memview.StridedMemoryView) []memview.StridedMemoryView { return v }

// written is a view of device memory with a write pending on the stream q.
func (w *walkViews) written() (memview.StridedMemoryView, error) {
	if err := w.a.Fill32(7, w.q); err != nil {
		return memview.StridedMemoryView{}, err
	}
	return buffer(w.a).Ordered(w.q.View(), stream.NoSync())
}

// imported imports and releases a view that another stream wrote, in the order of s.
func (w *walkViews) imported(s *device.Stream) error {
	var gone atomic.Int64
	v, err := w.released(&gone)
	if err != nil {
		return err
	}
	v = must(v.Ordered(w.q.View(), stream.NoSync()))
	u, err := memview.Import(v, stream.On(s.View()), nil)
	if err == nil {
		err = u.Release()
	}
	return exactlyOnce(&gone, errors.Join(err, v.Release()))
}

// released is an exported view of device memory whose deleter counts.
func (w *walkViews) released(gone *atomic.Int64) (memview.StridedMemoryView, error) {
	d := dlpack.Desc{Data: uintptr(w.a.Ptr()), Device: w.a.DLDevice(), DType: dlpack.Float32, Shape: walkShape}
	e, err := dlpack.ExportDesc(d, func() { gone.Add(1) })
	if err != nil {
		return memview.StridedMemoryView{}, err
	}
	defer e.Close()
	addr, err := e.Export(true)
	if err != nil {
		return memview.StridedMemoryView{}, err
	}
	return memview.FromDLPack(must(dlpack.ImportVersioned(addr)))
}

// exactlyOnce says that a deleter has not run once, when all that is held back is gone.
func exactlyOnce(gone *atomic.Int64, err error) error {
	ctx, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	if late := memview.Flush(ctx); late != nil { // it may meet the fault
		err = errors.Join(err, late, memview.Flush(ctx))
	}
	if n := gone.Load(); n != 1 {
		panic(fmt.Sprintf("the deleter ran %d times: %v", n, err)) // whatever failed besides
	}
	return err
}

// The short way to order two streams fails over to the long one; giving back does what it can.
var madeGood = []string{
	"cuEventRecord", "cuStreamWaitEvent", "cuCtxGetCurrent", "cuCtxPushCurrent", "cuEventQuery", "cuDevicePrimaryCtxGetState",
	"cuStreamIsCapturing", "cuStreamDestroy",
}

// What a consumer frees is freed when nobody is there to be told.
var madeGoodLater = append(slices.Clip(madeGood), "cuStreamQuery", "cuEventCreate", "cuMemFreeHost", "cuMemFreeAsync")

var walkedViews = []testdriver.Operation{
	{Name: "PrepareCopies", Once: true, MakesGood: []string{"cuFuncLoad", "cuKernelGetFunction", "cuCtxGetCurrent", "cuCtxPushCurrent"}, Do: func() error {
		return memview.PrepareCopies(views().s.View())
	}},
	{Name: "CopyOn, dense", MakesGood: madeGood, Covers: []string{"Flush"}, Do: copies(func(w *walkViews) []memview.StridedMemoryView {
		return some(buffer(w.a), buffer(w.b), buffer(w.pin))
	})},
	{Name: "CopyOn, rows", Brief: true, MakesGood: madeGood, Do: copies(func(w *walkViews) []memview.StridedMemoryView {
		return some(buffer(w.a, 2*walkSide, 1), buffer(w.b, walkSide+8, 1))
	})},
	{Name: "CopyOn, turned", Brief: true, MakesGood: madeGood, Do: copies(func(w *walkViews) []memview.StridedMemoryView {
		return some(buffer(w.a, 1, walkSide), buffer(w.b, 2*walkSide, 2))
	})},
	{Name: "CopyOn, between devices", Brief: true, MakesGood: madeGood, Do: func() error {
		w := views()
		err := w.through(buffer(w.a), buffer(w.remote), buffer(w.b, walkSide+8, 1), buffer(w.remote, walkSide+16, 1))
		return errors.Join(err, w.far.Wait(w.s), w.far.Synchronize(background))
	}},
	{Name: "CopyOn, between devices turned", Brief: true, Max: 200, MakesGood: madeGood, Do: copies(func(w *walkViews) []memview.StridedMemoryView {
		return some(buffer(w.a), buffer(w.remote, 1, walkSide), buffer(w.b, 2, 2*walkSide))
	})},
	{Name: "CopyOn, overlapping", Brief: true, MakesGood: madeGood, Covers: []string{"StridedMemoryView.CopyTo", "StridedMemoryView.CopyFrom"}, Do: func() error {
		w := views()
		a, t := buffer(w.a), buffer(w.a).Transpose()
		return errors.Join(a.CopyTo(t, w.s.View()), t.CopyFrom(a, w.s.View()), w.s.Synchronize(background))
	}},
	{Name: "StridedMemoryView.Probe", Do: func() error {
		w := views()
		return errors.Join(only(buffer(w.a).Probe()), only(buffer(w.pin).Probe()))
	}},
	{Name: "StridedMemoryView.Ordered", MakesGood: madeGood, Do: func() error {
		w := views()
		v, err := w.written()
		if err != nil {
			return err
		}
		return errors.Join(only(v.Ordered(stream.StreamView{}, stream.On(w.s.View()))), only(v.Ordered(w.q.View(), stream.On(w.far.View()))),
			w.s.Synchronize(background), w.far.Synchronize(background))
	}},
	{Name: "StridedMemoryView.Wait", MakesGood: madeGood, Do: func() error {
		v, err := views().written()
		if err != nil {
			return err
		}
		return v.Wait(background)
	}},
	{Name: "ProducerStreamOf", Do: func() error {
		w := views()
		return only(memview.ProducerStreamOf(dlpack.Device{Type: dlpack.DeviceCUDA}, uintptr(w.s.Handle()), nil))
	}},
	{Name: "FromDeviceBuffer", MakesGood: madeGood, Do: func() error {
		w := views()
		b, err := w.d.Allocate(4096, w.q)
		if err != nil {
			return err
		}
		v, err := memview.FromDeviceBuffer(b, dlpack.Float32, walkShape, stream.On(w.s.View()), &memview.BufferOptions{Producer: w.q.View()})
		if err != nil {
			return errors.Join(err, b.Close()) // it is still ours
		}
		err = v.ReleaseOn(w.s.View())
		if err != nil {
			err = errors.Join(err, v.Release())
		}
		return err
	}},
	{Name: "FromCAI", MakesGood: madeGood, Covers: []string{"ImportCAI", "StridedMemoryView.CUDAArrayInterface"}, Do: func() error {
		w := views()
		v, err := w.written()
		if err != nil {
			return err
		}
		var gone atomic.Int64
		i := caiOf(v.Addr(), 16, w.q.View().Argument())
		u, err := memview.FromCAI(i, memview.OnRelease(nil, func() error { gone.Add(1); return nil }), stream.On(w.s.View()), nil)
		if err == nil {
			err = exactlyOnce(&gone, u.Release())
		} else if gone.Load() != 0 {
			panic("the owner was given up")
		}
		return errors.Join(err, only(v.CUDAArrayInterface()), only(memview.ImportCAI(v, stream.On(w.s.View()), nil)))
	}},
	{Name: "Import", MakesGood: madeGood, Covers: []string{"StridedMemoryView.DLPack"}, Do: func() error {
		w := views()
		return w.imported(w.s)
	}},
	{Name: "Import, on another device", MakesGood: madeGood, Do: func() error {
		w := views()
		return w.imported(w.far)
	}},
	{Name: "StridedMemoryView.DLPack, a copy", Brief: true, MakesGood: madeGoodLater, Do: func() error {
		w := views()
		var gone atomic.Int64
		v, err := w.released(&gone)
		if err != nil {
			return err
		}
		v = must(v.Ordered(w.q.View(), stream.NoSync()))
		for _, r := range []dlpack.Request{
			{MaxVersion: abi, Copy: dlpack.CopyAlways, Device: dlpack.CPU},
			{MaxVersion: abi, Copy: dlpack.CopyAlways, Stream: dlpack.StreamUint(uint64(w.s.Handle()))},
			{MaxVersion: abi, Copy: dlpack.CopyAlways, Stream: dlpack.StreamUint(uint64(w.s.Handle())), Device: dlpack.Device{Type: dlpack.DeviceCUDAHost}},
		} {
			c, e := v.DLPack(r)
			if e != nil {
				err = errors.Join(err, e)
				continue
			}
			m := must(c.Import())
			m.Release()
		}
		return exactlyOnce(&gone, errors.Join(err, v.Release()))
	}},
	{Name: "StridedMemoryView.ReleaseOn", MakesGood: madeGood, Do: func() error {
		w := views()
		var gone atomic.Int64
		for _, from := range []stream.StreamView{{}, w.q.View()} {
			gone.Store(0)
			v, err := w.released(&gone)
			if err != nil {
				return err
			}
			if from.Valid() {
				v = must(v.Ordered(from, stream.NoSync()))
			}
			if err = w.a.Fill32(1, w.s); err == nil {
				err = v.ReleaseOn(w.s.View())
			}
			if err != nil { // nothing was given up: v is still ours
				err = errors.Join(err, v.Release())
			}
			if err := exactlyOnce(&gone, err); err != nil {
				return err
			}
		}
		return nil
	}},
}

// TestFaultWalk makes every driver call of every operation fail: B140, B279.
func TestFaultWalk(t *testing.T) {
	if !testdriver.InProcess(t) {
		return
	}
	(&testdriver.Walk{
		Operations: walkedViews,
		Exempt: map[string]string{
			"memory of the host": `At Bytes Convert Copy CopyFromSlice CopyToSlice Fill Items PackedOf Pointers ReadBytes ReadSlice Set Slice Values
				MatrixOf Matrix.* ReadMatrixOf ReadMatrix.* ReadVectorOf ReadVector.* VectorOf Vector.* FromArray FromArrays FromRows FromSlice
				FromSliceLayout Make FromArrayInterface FromBuffer StridedMemoryView.ArrayInterface StridedMemoryView.Clone
				StridedMemoryView.Complex128At StridedMemoryView.Float64At StridedMemoryView.Float64s StridedMemoryView.Int64At
				StridedMemoryView.SetComplex128 StridedMemoryView.SetFloat64 StridedMemoryView.SetInt64 StridedMemoryView.Format
				StridedMemoryView.String`,
			"arithmetic": `Dense NewLayout NewLayoutOf Layout.* DTypeOf MayOverlap All Ellipsis From NewAxis Pick Range To Index.By Order.String
				MemoryKind.String StridedMemoryView.Broadcast StridedMemoryView.Flatten StridedMemoryView.Permute StridedMemoryView.Reshape
				StridedMemoryView.Slice StridedMemoryView.Squeeze StridedMemoryView.Transpose StridedMemoryView.Unsqueeze
				StridedMemoryView.View StridedMemoryView.WithLayout StridedMemoryView.AsReadOnly`,
			"a field": `StridedMemoryView.Addr StridedMemoryView.Alignment StridedMemoryView.ContiguousC StridedMemoryView.ContiguousF
				StridedMemoryView.DLPackDevice StridedMemoryView.DType StridedMemoryView.Desc StridedMemoryView.Device StridedMemoryView.DeviceID
				StridedMemoryView.Dim StridedMemoryView.Flags StridedMemoryView.HostAccessible StridedMemoryView.HostNeedsIdle
				StridedMemoryView.IsDeviceAccessible StridedMemoryView.IsHostAccessible StridedMemoryView.ItemSize StridedMemoryView.Layout
				StridedMemoryView.Live StridedMemoryView.Reach StridedMemoryView.MemoryKind StridedMemoryView.NDim StridedMemoryView.NumBytes StridedMemoryView.Padded
				StridedMemoryView.ProducerStream StridedMemoryView.ReadOnly StridedMemoryView.Shape StridedMemoryView.Size StridedMemoryView.Stream
				StridedMemoryView.Stride StridedMemoryView.Strides PendingReleases`,
			"takes over, asks nobody": `FromDLPack FromDesc FromExported FromLent FromRaw StridedMemoryView.SetLent StridedMemoryView.SetLentArray Lent
				Managed OnRelease Unowned`,
			"a count of references": `StridedMemoryView.Retain StridedMemoryView.Export StridedMemoryView.Release`,
		},
		Setup: func() error {
			views()
			return nil
		},
		Typed: func(err error, code driver.Result) error {
			var res driver.Result
			if !errors.As(err, &res) || !errors.Is(err, code) {
				return errors.New("another code")
			}
			return nil
		},
		Settle: func(ctx context.Context) error { return errors.Join(memview.Flush(ctx), device.Flush(ctx)) },
		State: func() any {
			s := device.Stats()
			return [...]int64{s.Contexts, s.Streams, s.Events, s.Buffers, s.Pools, s.Allocated, s.Deferred, s.Waiters, int64(memview.PendingReleases())}
		},
	}).Run(t)
	if err := views().close(); err != nil {
		t.Error(err)
	}
}

var _ cai.Producer = memview.StridedMemoryView{}
