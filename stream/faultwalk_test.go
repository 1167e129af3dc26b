package stream_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/stream"
)

// walkStreams are what the operations of the walk use.
type walkStreams struct {
	d         *driver.Driver
	ctx       driver.ContextHandle
	handles   [2]driver.StreamHandle
	s, q      stream.StreamView
	def, mine stream.StreamView
	capturing driver.StreamHandle
	capture   stream.StreamView
}

func did[T any](x T, res driver.Result) T {
	if res != driver.Success {
		panic(res)
	}
	return x
}

var walkFixture = sync.OnceValue(func() *walkStreams {
	d, err := driver.Default()
	if err != nil {
		panic(err)
	}
	w := &walkStreams{d: d}
	w.ctx = did(d.DevicePrimaryCtxRetain(0))
	for i := range w.handles {
		w.handles[i] = did(d.StreamCreate(w.ctx, driver.StreamNonBlocking))
	}
	w.capturing = did(d.StreamCreate(w.ctx, driver.StreamNonBlocking))
	did(0, d.StreamBeginCapture(w.ctx, w.capturing, driver.StreamCaptureModeRelaxed))
	view := func(h driver.StreamHandle) stream.StreamView {
		v, err := stream.WrapHandle(uintptr(h), &stream.Options{Context: w.ctx})
		if err != nil {
			panic(err)
		}
		return v
	}
	w.s, w.q, w.capture = view(w.handles[0]), view(w.handles[1]), view(w.capturing)
	w.def, w.mine = view(driver.LegacyStream), view(driver.PerThreadStream)
	return w
})

func (w *walkStreams) close() error {
	g, res := w.d.StreamEndCapture(w.ctx, w.capturing)
	err := errors.Join(res.Err(), w.d.GraphDestroy(g).Err(), w.d.StreamDestroy(w.ctx, w.capturing).Err())
	for _, h := range w.handles {
		err = errors.Join(err, w.d.StreamDestroy(w.ctx, h).Err())
	}
	w.d.ForgetContext(w.ctx, false)
	return errors.Join(err, w.d.DevicePrimaryCtxRelease(0).Err())
}

func onStreams(do func(w *walkStreams) error) func() error {
	return func() error { return do(walkFixture()) }
}

func second[T any](_ T, err error) error { return err }

// TestFaultWalk makes every driver call of every operation fail: B279.
func TestFaultWalk(t *testing.T) {
	if !testdriver.InProcess(t) {
		return
	}
	orders := []string{"cuEventRecord", "cuStreamWaitEvent", "cuStreamQuery"} // the long way is gone then
	(&testdriver.Walk{
		Operations: []testdriver.Operation{
			{Name: "WrapHandle", Covers: []string{"Wrap"}, Do: onStreams(func(w *walkStreams) error {
				v, err := stream.WrapHandle(uintptr(w.handles[0]), nil)
				if err == nil && (v.Context() != w.ctx || v.Device() != 0) {
					err = errors.New("another context")
				}
				_, e := stream.Wrap(said{0, uintptr(w.handles[1])}, nil)
				return errors.Join(err, e, second(stream.WrapHandle(1, &stream.Options{Context: w.ctx})))
			})},
			{Name: "StreamView.WaitFor", MakesGood: orders, Do: onStreams(func(w *walkStreams) error {
				return errors.Join(w.s.WaitFor(w.q), w.def.WaitFor(w.s), w.mine.WaitFor(w.q), w.q.WaitFor(w.def), w.s.WaitFor(w.s))
			})},
			{Name: "StreamView.WaitForPending", MakesGood: orders, Do: onStreams(func(w *walkStreams) error {
				if err := w.d.LaunchHostGo(w.ctx, w.handles[1], func() {}).Err(); err != nil {
					return err
				}
				return errors.Join(w.s.WaitForPending(w.q), w.def.WaitForPending(w.s))
			})},
			{Name: "StreamView.Done", Do: onStreams(func(w *walkStreams) error {
				return errors.Join(second(w.s.Done()), second(w.def.Done()), second(w.mine.Done()))
			})},
			{Name: "StreamView.Synchronize", Do: onStreams(func(w *walkStreams) error {
				return errors.Join(w.s.Synchronize(), w.def.Synchronize(), w.mine.Synchronize())
			})},
			{Name: "StreamView.Capturing", Do: onStreams(func(w *walkStreams) error {
				yes, err := w.capture.Capturing()
				if err != nil {
					return err
				}
				no, err := w.s.Capturing()
				if err == nil && (no || !yes) {
					err = errors.New("wrong answer")
				}
				return err
			})},
			{Name: "StreamView.ID", Covers: []string{"StreamView.Priority", "StreamView.NonBlocking"}, Do: onStreams(func(w *walkStreams) error {
				return errors.Join(second(w.s.ID()), second(w.s.Priority()), second(w.s.NonBlocking()))
			})},
		},
		Exempt: map[string]string{
			"looks at the number": "KindOf",
			"text":                "Kind.String",
			"asks nobody":         "Known",
			"a value":             "NoSync On Order.*",
			"fields":              "StreamView.Argument StreamView.CUDAStream StreamView.Same StreamView.String",
			"a field":             "StreamView.Context StreamView.Device StreamView.Driver StreamView.Handle StreamView.Kind StreamView.Owner StreamView.Valid",
		},
		Typed: func(err error, code driver.Result) error {
			var res driver.Result
			if !errors.As(err, &res) || res != code {
				return errors.New("another code")
			}
			return nil
		},
		Settle: func(context.Context) error { return nil },
		State:  func() any { return 0 },
	}).Run(t)
	if err := walkFixture().close(); err != nil {
		t.Error(err)
	}
}
