//go:build cgo && linux

package edges

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/launch"
	"github.com/go-handoff/handoff/memview"
	_ "github.com/go-handoff/handoff/memview/softcopy" // strided copies of the software device
	"github.com/go-handoff/handoff/stream"
)

var update = flag.Bool("update", false, "write docs/edges.md")

const page = "../../docs/edges.md"

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// world is what a scenario finds: two streams on one device and one on another, and
// memory that everybody knows.
type world struct {
	d, far  *device.Device
	p, c, q *device.Stream // producer, consumer, of the other device
	buf     *device.Buffer // 4096 bytes of device 0
	other   *device.Buffer // the same on device 1
	scratch *device.Buffer // of device 0, for what the consumer reads
	pinned  *device.Buffer
	later   []func()
	held    []func()      // let go of what busy holds up
	asked   chan struct{} // closed when the library has asked whether work is done
}

func (w *world) cleanup(f func()) { w.later = append(w.later, f) }

var background = context.Background()

const size = 4096

// hold is how long work is held up at most; who waits for it ends that.
const hold = 100 * time.Millisecond

// long is hold where a call waits without asking again and again: it has to find the work unfinished, on a
// slow machine and under delays too.
const long = 5 * time.Second

func newWorld() *world {
	w := &world{d: must(device.Open(0)), far: must(device.Open(1)), asked: make(chan struct{})}
	w.p, w.c, w.q = w.stream(w.d), w.stream(w.d), w.stream(w.far)
	w.buf, w.scratch = w.allocate(w.d, w.p), w.allocate(w.d, w.p)
	w.other = w.allocate(w.far, w.q)
	w.pinned = must(device.Allocate(w.d.PinnedMemory(), size, w.p))
	w.cleanup(func() { check(w.pinned.Close()) })
	w.settle()
	return w
}

func (w *world) stream(d *device.Device) *device.Stream {
	s := must(d.NewStream(nil))
	w.cleanup(func() { check(s.Close()) })
	return s
}

func (w *world) allocate(d *device.Device, s *device.Stream) *device.Buffer {
	b := must(d.Allocate(size, s))
	w.cleanup(func() { check(b.Close()) })
	return b
}

// settle waits for everything.
func (w *world) settle() {
	check(w.d.Synchronize(background))
	check(w.far.Synchronize(background))
}

func (w *world) end() {
	check(memview.Flush(background))
	w.settle()
	for _, f := range slices.Backward(w.later) {
		f()
	}
	check(device.Flush(background))
	w.settle()
}

// write and read use memory in the order of a stream, by plain driver calls: no edge of the library.
func (w *world) write(b *device.Buffer, s *device.Stream) {
	check(s.Device().Driver().MemsetD8Async(s.Context().Handle(), b.Ptr(), 7, size, s.Handle()).Err())
}

func (w *world) read(b *device.Buffer, s *device.Stream) {
	to := w.scratch
	check(s.Device().Driver().MemcpyAsync(s.Context().Handle(), to.Ptr(), b.Ptr(), size, s.Handle()).Err())
}

// busy keeps a stream from being done before the returned function is called.
func (w *world) busy(s *device.Stream) (release func()) {
	gate := make(chan struct{})
	var once sync.Once
	release = func() { once.Do(func() { close(gate) }) }
	check(s.Device().Driver().LaunchHostGo(s.Context().Handle(), s.Handle(), func() { <-gate }).Err())
	w.cleanup(release)
	w.held = append(w.held, release)
	return release
}

func ints(n int64) []int64 { return []int64{n} }

func (w *world) desc(b *device.Buffer) dlpack.Desc {
	return dlpack.Desc{Data: uintptr(b.Ptr()), Device: b.DLDevice(), DType: dlpack.Int32, Shape: ints(size / 4)}
}

// view is a view of memory whose release calls free.
func (w *world) view(b *device.Buffer, free func() error) memview.StridedMemoryView {
	d := w.desc(b)
	o := memview.Unowned()
	if free != nil {
		o = memview.OnRelease(nil, free)
	}
	return must(memview.FromDesc(&d, o))
}

// strided is a view of every second element.
func (w *world) strided(b *device.Buffer) memview.StridedMemoryView {
	d := w.desc(b)
	d.Shape, d.Strides = ints(size/8), ints(2)
	return must(memview.FromDesc(&d, memview.Unowned()))
}

func (w *world) cai(b *device.Buffer, s *device.Stream) *cai.Interface {
	return &cai.Interface{
		Array:  cai.Array{Version: 3, Shape: ints(size / 4), Typestr: must(cai.ParseTypestr("<i4")), Data: uintptr(b.Ptr())},
		Stream: s.View().Argument(),
	}
}

// scenarios have an exchange each in which all edges are the library's. None of
// them may race as it is.
var scenarios = []struct {
	name string
	rows string // the rules and faults that it is about
	run  func(w *world)
}{
	{"StreamView.WaitFor", "B225", func(w *world) {
		w.write(w.buf, w.p)
		check(w.c.View().WaitFor(w.p.View()))
		w.read(w.buf, w.c)
	}},
	{"StreamView.WaitFor, two devices", "B225", func(w *world) {
		w.write(w.buf, w.p)
		check(w.q.View().WaitFor(w.p.View()))
		check(w.far.Driver().MemcpyPeerAsync(w.q.Context().Handle(), w.other.Ptr(), w.q.Context().Handle(), w.buf.Ptr(), w.p.Context().Handle(), size, w.q.Handle()).Err())
	}},
	{"StreamView.WaitForPending, busy", "R272", func(w *world) {
		release := w.busy(w.p)
		w.write(w.buf, w.p)
		check(w.c.View().WaitForPending(w.p.View()))
		w.read(w.buf, w.c)
		release()
	}},
	{"StreamView.Synchronize", "", func(w *world) {
		w.write(w.buf, w.p)
		check(w.p.View().Synchronize())
		w.read(w.buf, w.c)
	}},
	{"Stream.Wait", "B225", func(w *world) {
		w.write(w.buf, w.p)
		check(w.c.Wait(w.p))
		w.read(w.buf, w.c)
	}},
	{"Stream.Wait, default stream", "B216", func(w *world) {
		legacy := must(w.d.DefaultStream())
		w.write(w.buf, w.p)
		check(legacy.Wait(w.p))
		w.read(w.buf, legacy)
	}},
	{"Stream.Wait, another library's stream", "B225", func(w *world) {
		w.write(w.buf, w.p)
		check(w.c.Wait(w.p.View()))
		w.read(w.buf, w.c)
	}},
	{"Stream.WaitEvent", "", func(w *world) {
		w.write(w.buf, w.p)
		e := must(w.p.Record(nil))
		w.cleanup(func() { check(e.Close()) })
		check(w.c.WaitEvent(e))
		w.read(w.buf, w.c)
	}},
	{"Stream.Synchronize", "", func(w *world) {
		release := w.busy(w.p)
		w.write(w.buf, w.p)
		time.AfterFunc(long, release)
		check(w.p.Synchronize(background))
		w.read(w.buf, w.c)
	}},
	{"Event.Synchronize", "", func(w *world) {
		release := w.busy(w.p)
		w.write(w.buf, w.p)
		e := must(w.p.Record(nil))
		w.cleanup(func() { check(e.Close()) })
		time.AfterFunc(long, release)
		check(e.Synchronize(background))
		w.read(w.buf, w.c)
	}},
	{"Device.Synchronize", "", func(w *world) {
		w.write(w.buf, w.p)
		check(w.d.Synchronize(background))
		w.read(w.buf, w.c)
	}},
	{"Defer", "", func(w *world) {
		release := w.busy(w.p)
		w.write(w.buf, w.p)
		done := make(chan struct{})
		check(device.Defer(w.p.View(), func(error) { w.read(w.buf, w.c); close(done) }))
		time.AfterFunc(hold, release)
		<-done
	}},
	{"Buffer.Close after use on another stream", "", func(w *world) {
		b := must(w.d.Allocate(size, w.p))
		check(w.c.Wait(w.p))
		check(b.UsedOn(w.c))
		w.write(b, w.c)
		check(b.Close())
	}},
	{"Buffer.SetStream", "", func(w *world) {
		b := must(w.d.Allocate(size, w.p))
		w.write(b, w.p)
		check(b.SetStream(w.c))
		check(b.Close())
	}},
	{"Buffer.CloseOn", "", func(w *world) {
		b := must(w.d.Allocate(size, w.p))
		w.write(b, w.p)
		check(b.CloseOn(w.c))
	}},
	{"memview.Import, an exporter's duty", "R137 R138 B225", func(w *world) {
		v := must(w.view(w.buf, nil).Ordered(w.p.View(), stream.On(w.p.View())))
		w.write(w.buf, w.p)
		got := must(memview.Import(v, stream.On(w.c.View()), nil))
		w.read(w.buf, w.c)
		check(got.ReleaseOn(w.c.View()))
		w.write(w.buf, w.p)
	}},
	{"memview.Import, producer told", "B223", func(w *world) {
		v := must(w.view(w.buf, nil).Ordered(w.p.View(), stream.On(w.p.View())))
		w.write(w.buf, w.p)
		got := must(memview.Import(v, stream.On(w.c.View()), &memview.ImportOptions{Producer: w.p.View()}))
		w.read(w.buf, w.c)
		check(got.ReleaseOn(w.c.View()))
		w.write(w.buf, w.p)
	}},
	{"memview.Import onto another device", "R137", func(w *world) {
		v := must(w.view(w.buf, nil).Ordered(w.p.View(), stream.On(w.p.View())))
		w.write(w.buf, w.p)
		got := must(memview.Import(v, stream.On(w.q.View()), nil))
		check(w.far.Driver().MemcpyPeerAsync(w.q.Context().Handle(), w.other.Ptr(), w.q.Context().Handle(), w.buf.Ptr(), w.p.Context().Handle(), size, w.q.Handle()).Err())
		check(got.Release())
	}},
	{"memview.FromCAI", "B214", func(w *world) {
		w.write(w.buf, w.p)
		v := must(memview.FromCAI(w.cai(w.buf, w.p), memview.Unowned(), stream.On(w.c.View()), nil))
		w.read(w.buf, w.c)
		check(v.ReleaseOn(w.c.View()))
		w.write(w.buf, w.p)
	}},
	{"StridedMemoryView.Ordered", "", func(w *world) {
		w.write(w.buf, w.p)
		v := must(w.view(w.buf, nil).Ordered(w.p.View(), stream.On(w.c.View())))
		w.read(w.buf, w.c)
		check(v.Release())
	}},
	{"memview.FromDeviceBuffer", "", func(w *world) {
		b := must(w.d.Allocate(size, w.p))
		w.write(b, w.p)
		v := must(memview.FromDeviceBuffer(b, dlpack.Int32, ints(size/4), stream.On(w.c.View()), &memview.BufferOptions{Producer: w.p.View()}))
		w.read(b, w.c)
		check(v.ReleaseOn(w.c.View()))
		check(b.Close())
	}},
	{"StridedMemoryView.ReleaseOn, deferred", "", func(w *world) {
		release := w.busy(w.c)
		freed := make(chan struct{})
		v := w.view(w.buf, func() error { w.write(w.buf, w.p); close(freed); return nil })
		w.read(w.buf, w.c)
		check(v.ReleaseOn(w.c.View()))
		time.AfterFunc(hold, release)
		<-freed
	}},
	{"StridedMemoryView.DLPack, copy", "R137", func(w *world) {
		v := must(w.view(w.buf, nil).Ordered(w.p.View(), stream.On(w.p.View())))
		w.write(w.buf, w.p)
		k := must(v.DLPack(dlpack.Request{Stream: dlpack.StreamUint(uint64(w.c.Handle())), MaxVersion: dlpack.Version{Major: 1, Minor: 1}, Copy: dlpack.CopyAlways}))
		m := must(k.Import())
		check(w.d.Driver().MemcpyAsync(w.c.Context().Handle(), w.scratch.Ptr(), driver.DevicePtr(m.Addr()), size, w.c.Handle()).Err())
		check(device.Defer(w.c.View(), func(error) { m.Release() }))
	}},
	{"StridedMemoryView.DLPack for the host", "R146", func(w *world) {
		release := w.busy(w.p)
		check(w.p.Device().Driver().MemcpyAsync(w.p.Context().Handle(), w.pinned.Ptr(), w.buf.Ptr(), size, w.p.Handle()).Err())
		v := must(w.view(w.pinned, nil).Ordered(w.p.View(), stream.On(w.p.View())))
		time.AfterFunc(long, release)
		k := must(v.DLPack(dlpack.Request{Device: dlpack.Device{Type: dlpack.DeviceCPU}, MaxVersion: dlpack.Version{Major: 1, Minor: 1}}))
		m := must(k.Import())
		soft.HostTouch(m.Addr(), 4, false)
		m.Release()
	}},
	{"StridedMemoryView.Wait", "", func(w *world) {
		release := w.busy(w.p)
		check(w.p.Device().Driver().MemcpyAsync(w.p.Context().Handle(), w.pinned.Ptr(), w.buf.Ptr(), size, w.p.Handle()).Err())
		v := must(w.view(w.pinned, nil).Ordered(w.p.View(), stream.On(w.p.View())))
		time.AfterFunc(long, release)
		check(v.Wait(background))
		soft.HostTouch(uintptr(w.pinned.Ptr()), 4, false)
	}},
	{"CopyOn between devices", "", func(w *world) {
		w.write(w.buf, w.p)
		check(memview.CopyOn(w.view(w.other, nil), w.view(w.buf, nil), w.p.View()))
		w.write(w.buf, w.p)
		check(w.q.Wait(w.p))
		w.write(w.other, w.q)
	}},
	{"CopyOn between devices, strided", "", func(w *world) {
		w.write(w.buf, w.p)
		check(memview.CopyOn(w.strided(w.other), w.strided(w.buf), w.p.View()))
		w.write(w.buf, w.p)
		check(w.q.Wait(w.p))
		w.write(w.other, w.q)
	}},
	{"CopyOn of another device's memory", "", func(w *world) {
		to := must(w.far.Allocate(size, w.q))
		w.write(w.other, w.q)
		check(w.p.Wait(w.q))
		check(memview.CopyOn(w.view(to, nil), w.view(w.other, nil), w.p.View()))
		check(w.q.Wait(w.p))
		w.write(w.other, w.q)
		check(to.Close())
	}},
	{"CopyOn from pageable memory", "B220", func(w *world) {
		host := must(memview.FromSlice(make([]int32, 10<<20)))
		big := must(w.d.Allocate(40<<20, w.p))
		d := w.desc(big)
		d.Shape = ints(10 << 20)
		check(memview.CopyOn(must(memview.FromDesc(&d, memview.Unowned())), host, w.p.View()))
		check(big.Close())
	}},
	{"CopyOn to pageable memory", "B220", func(w *world) {
		host := must(memview.FromSlice(make([]int32, 10<<20)))
		big := must(w.d.Allocate(40<<20, w.p))
		d := w.desc(big)
		d.Shape = ints(10 << 20)
		check(memview.CopyOn(host, must(memview.FromDesc(&d, memview.Unowned())), w.p.View()))
		check(big.Close())
	}},
	{"CopyOn from strided pinned memory and back", "B220", func(w *world) {
		check(w.p.Device().Driver().MemsetD8Async(w.p.Context().Handle(), w.pinned.Ptr(), 1, size, w.p.Handle()).Err())
		check(memview.CopyOn(w.strided(w.buf), w.strided(w.pinned), w.p.View()))
		check(w.p.Device().Driver().MemsetD8Async(w.p.Context().Handle(), w.pinned.Ptr(), 2, size, w.p.Handle()).Err())
		check(memview.CopyOn(w.strided(w.pinned), w.strided(w.buf), w.p.View()))
		check(w.p.Device().Driver().MemsetD8Async(w.p.Context().Handle(), w.pinned.Ptr(), 3, size, w.p.Handle()).Err())
	}},
	{"CopyOn from narrow pinned rows, a kernel beside the host", "B220", func(w *world) {
		const rows = 1<<20 + 7
		from, to := must(device.Allocate(w.d.PinnedMemory(), rows*64, w.p)), must(w.d.Allocate(rows*32, w.p))
		a, b := w.desc(from), w.desc(to)
		a.Shape, a.Strides, b.Shape = []int64{rows, 8}, []int64{16, 1}, []int64{rows, 8}
		set := func(b *device.Buffer, value byte, n uintptr) {
			check(w.p.Device().Driver().MemsetD8Async(w.p.Context().Handle(), b.Ptr(), value, n, w.p.Handle()).Err())
		}
		set(from, 1, rows*64)
		check(memview.CopyOn(must(memview.FromDesc(&b, memview.Unowned())), must(memview.FromDesc(&a, memview.Unowned())), w.p.View()))
		set(from, 2, rows*64)
		set(to, 3, rows*32)
		check(to.Close())
		check(from.Close())
	}},
	{"staging memory of a copy under way", "B220", func(w *world) {
		release := w.busy(w.p)
		check(memview.CopyOn(w.view(w.buf, nil), must(memview.FromSlice(make([]int32, size/4))), w.p.View()))
		select {
		case <-w.asked: // somebody wants to know whether it is done
		case <-time.After(long):
		}
		time.Sleep(20 * time.Millisecond) // and does something about the answer
		check(memview.CopyOn(w.view(w.scratch, nil), must(memview.FromSlice(make([]int32, size/4))), w.c.View()))
		release()
	}},
	{"Launch with a buffer, closed", "", func(w *world) {
		b := must(w.d.Allocate(size, w.p))
		check(w.c.Wait(w.p))
		release := must(soft.HangStream(w.p.Handle())) // the memory stays until the kernel has run, whatever is left out
		check(launch.Launch(w.c, launch.Config{Grid: launch.D1(1), Block: launch.D1(1)}, kernel(), b, int64(size/4)))
		check(b.Close())
		time.AfterFunc(hold, release)
	}},
	{"captured Stream.Wait", "B231", func(w *world) {
		g := must(launch.Record(w.p, func(*launch.Capture) error {
			check(w.c.Wait(w.p)) // takes the second stream in
			w.write(w.buf, w.p)
			check(w.c.Wait(w.p))
			w.read(w.buf, w.c)
			return w.p.Wait(w.c)
		}))
		w.replay(g)
	}},
	{"captured memview.Ordered and ReleaseOn", "B231", func(w *world) {
		g := must(launch.Record(w.p, func(*launch.Capture) error {
			check(w.c.Wait(w.p))
			w.write(w.buf, w.p)
			v := must(w.view(w.buf, nil).Ordered(w.p.View(), stream.On(w.c.View())))
			w.read(w.buf, w.c)
			check(v.ReleaseOn(w.c.View())) // joins the capture, too
			w.write(w.buf, w.p)
			return nil
		}))
		w.replay(g)
	}},
	{"graph of nodes", "", func(w *world) {
		g := must(launch.NewGraph(w.p.Context()))
		n := must(g.Fill(w.buf, 0, 7, 1, size))
		m := must(g.Copy(w.scratch, 0, w.buf, 0, size, n))
		must(g.Launch(launch.Config{Grid: launch.D1(1), Block: launch.D1(1)}, kernel(), []any{w.buf, int64(size / 4)}, m))
		w.replay(g)
	}},
}

// replay launches a graph twice, on two streams: launches of one graph follow one another.
func (w *world) replay(g *launch.Graph) {
	x := must(g.Instantiate(nil))
	check(x.Launch(w.p))
	w.cleanup(func() { check(x.Close()); check(g.Close()) })
}

var kernels struct {
	sync.Once
	k *launch.Kernel
}

// kernel adds one to integers.
func kernel() *launch.Kernel {
	kernels.Do(func() {
		check(soft.RegisterKernel("edges_add", []soft.ParamInfo{soft.Ptr, soft.Int64}, func(l *soft.Launch) {
			for i, s := 0, soft.Slice[int32](l, l.Ptr(0), int(l.Int64(1))); i < len(s); i++ {
				s[i]++
			}
		}))
		code := must(launch.NewObjectCode(soft.Image("edges_add"), nil))
		kernels.k = must(code.Kernel("edges_add"))
		check(code.Close())
	})
	return kernels.k
}

// edge is one edge of a scenario: the n-th that it makes, or, where the library asks again and
// again, all questions from one place.
type edge struct {
	api, place string
	nth        int
}

var (
	inlined = regexp.MustCompile(`^.*\.func\d+(\.\d+)*`)
	closure = regexp.MustCompile(`\.func\d.*$`)
)

// place names where the library made an edge: its functions, the innermost first, without the test's.
func place(e soft.Edge) string {
	r := functions(e)
	for _, f := range r {
		reached.Store(f, true)
	}
	if len(r) > 3 {
		r = r[:3]
	}
	return strings.Join(r, " ← ")
}

// reached are the functions of the library through which edges were made.
var reached sync.Map

func functions(e soft.Edge) (r []string) {
	for _, f := range e.Site {
		name, ours := strings.CutPrefix(f.Func, "github.com/go-handoff/handoff/")
		if strings.HasPrefix(name, "internal/edges") {
			if strings.HasSuffix(f.File, "edges_test.go") {
				break
			}
			// What was inlined into the test has the test's name in front.
			name = filepath.Base(filepath.Dir(f.File)) + inlined.ReplaceAllString(strings.TrimPrefix(name, "internal/edges"), "")
		}
		if !ours {
			continue
		}
		name = closure.ReplaceAllString(name, "")
		if n := len(r); n > 0 && r[n-1] == name {
			continue
		}
		r = append(r, name)
	}
	return r
}

// asks are calls that do not wait: how often the library makes them depends on time, and whether it
// does at all. So they are left out only in the scenarios that are about them, where the answer is certainly no at first.
var (
	asks   = map[string]bool{"cuEventQuery": true, "cuStreamQuery": true}
	polled = map[string]bool{
		"StreamView.WaitForPending, busy": true, "Stream.Synchronize": true, "Event.Synchronize": true, "Defer": true,
		"StridedMemoryView.ReleaseOn, deferred": true, "staging memory of a copy under way": true,
		"StridedMemoryView.Wait": true, "StridedMemoryView.DLPack for the host": true,
	}
)

// trial runs a scenario without one edge (nil: with all), and returns the edges that it made, the
// races that the hunt saw, and the error of the driver that ended it.
func trial(t *testing.T, name string, run func(w *world), without *edge) (made []edge, races []soft.Race, err error) {
	t.Helper()
	w := newWorld()
	soft.ForgetRaces()
	var mu sync.Mutex
	var on bool
	var n int
	var once sync.Once
	in := &stopper{}
	soft.OmitEdges(in, func(e soft.Edge) bool {
		mu.Lock()
		defer mu.Unlock()
		if !on {
			return false
		}
		x := edge{e.API, place(e), 0}
		if x.place == "" {
			return false // the test's own
		}
		if asks[e.API] {
			if !polled[name] {
				return false
			}
			if !slices.Contains(made, x) {
				made = append(made, x)
			}
			once.Do(func() { close(w.asked) })
			return without != nil && *without == x
		}
		if strings.HasSuffix(e.API, "Synchronize") {
			for _, release := range w.held {
				go release() // somebody waits
			}
		}
		n++
		x.nth = n
		made = append(made, x)
		return without != nil && without.nth == n
	})
	set := func(v bool) { mu.Lock(); on = v; mu.Unlock() }
	set(true)
	func() {
		defer func() {
			switch p := recover().(type) {
			case nil:
			case error:
				err = p
			default:
				panic(p)
			}
		}()
		run(w)
	}()
	set(false)
	// The hunt looks at accesses in the order in which they were asked for, so it is only done when the work is.
	for _, release := range w.held {
		release()
	}
	_, _ = w.d.Synchronize(background), w.far.Synchronize(background) // which may fail by what was left out
	in.end()
	races = soft.ForgetRaces()
	w.end()
	soft.ForgetRaces() // what an edge that was left out did to the end
	return made, races, err
}

// stopper is a test that ends when it is told.
type stopper struct{ later []func() }

func (*stopper) Helper()               {}
func (s *stopper) Cleanup(f func())    { s.later = append(s.later, f) }
func (*stopper) Errorf(string, ...any) {}
func (s *stopper) end() {
	for _, f := range s.later {
		f()
	}
}

// spare are edges that can be left out without harm, with the reason.
var spare = map[string]string{
	"staging memory of a copy under way: memview.(*ring).order ← memview.(*transfer).stage ← memview.(*transfer).local":                     "for host memory that the device knows: caught with pinned memory",
	"staging memory of a copy under way: memview.(*ring).end ← memview.(*transfer).stage ← memview.(*transfer).local":                       "for the case of an error: the edge of the last piece is the same",
	"CopyOn from pageable memory: memview.(*ring).order ← memview.(*transfer).stage ← memview.(*transfer).local":                            "for host memory that the device knows: caught with pinned memory",
	"CopyOn from pageable memory: memview.(*ring).end ← memview.(*transfer).stage ← memview.(*transfer).local":                              "for the case of an error: the edge of the last piece is the same",
	"CopyOn from strided pinned memory and back: memview.(*ring).end ← memview.(*transfer).stage ← memview.(*transfer).local":               "for the case of an error: the edge of the last piece is the same",
	"CopyOn from narrow pinned rows, a kernel beside the host: memview.(*ring).end ← memview.(*transfer).stage ← memview.(*transfer).local": "the first of two, for the case of an error; the second, of the kernel, is caught",
	"CopyOn to pageable memory: memview.(*ring).end ← memview.(*transfer).unstage ← memview.(*transfer).local":                              "for host memory that the device knows: caught with pinned memory",
}

func TestEveryEdgeIsNeeded(t *testing.T) {
	if testdriver.Real() {
		t.Skip("the hunt is the software device's")
	}
	testdriver.Open(t)
	// How a copy is shared out depends on it, and with that the edges.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	warm := newWorld() // kernels are loaded, staging memory is there
	check(memview.PrepareCopies(warm.p.View()))
	check(memview.PrepareCopies(warm.q.View()))
	kernel()
	warm.end()
	var table []string
	edges, caught := 0, 0
	for _, s := range scenarios {
		if s.name == "Launch with a buffer, closed" && os.Getenv("HANDOFF_SOFT_SEED") != "" {
			continue // where its edge is left out a permuted schedule frees the memory before the kernel, which ends the context
		}
		t.Run(s.name, func(t *testing.T) {
			made, races, err := trial(t, s.name, s.run, nil)
			require.NoError(t, err)
			require.Empty(t, races, "with all edges")
			require.NotEmpty(t, made, "a scenario without an edge")
			for _, e := range made {
				edges++
				reason := spare[s.name+": "+e.place]
				_, races, err := trial(t, s.name, s.run, &e)
				// Whether the edge is asked for while it is needed can depend on time, so a slow machine has more tries.
				for range 5 {
					if len(races) > 0 || err != nil || reason != "" {
						break
					}
					_, races, err = trial(t, s.name, s.run, &e)
				}
				how := "**not caught**"
				switch {
				case len(races) > 0:
					caught++
					r := races[0]
					how = fmt.Sprintf("%s by %s, %s by %s", r.First.Kind, short(r.First.Op), r.Second.Kind, short(r.Second.Op))
				case errors.Is(err, driver.ErrCapture):
					caught++
					how = "the driver, which refuses the capture"
				case reason != "":
					how = "spare: " + reason
				default:
					t.Errorf("nobody missed the edge %+v", e)
				}
				table = append(table, fmt.Sprintf("| %s | %s | `%s` | %s |", strings.TrimSpace(s.name+" "+s.rows), e.place, e.api, how))
			}
		})
	}
	t.Logf("%d scenarios, %d edges, %d caught", len(scenarios), edges, caught)
	if os.Getenv("HANDOFF_SOFT_SEED") != "" || t.Failed() {
		return
	}
	everyPlace(t)
	compare(t, 0, fmt.Sprintf(head, len(scenarios), edges, caught, strings.Join(seeds, ", "))+strings.Join(table, "\n")+"\n")
}

// parts is where the second part of the page begins, which is about Python.
const parts = "\n## The Python module\n"

// compare looks for one part of the page, and writes it with -update. How many pieces a copy goes in is nobody's business,
// nor which two accesses of several are reported first: the edges have to be the same, not the number of rows.
func compare(t *testing.T, part int, want string) {
	t.Helper()
	both := strings.SplitN(string(must(os.ReadFile(page))), parts, 2)
	for len(both) < 2 {
		both = append(both, "")
	}
	if *update {
		both[part] = want
		check(os.WriteFile(page, []byte(both[0]+parts+both[1]), 0o644))
	}
	require.Equal(t, rows(want), rows(both[part]), "run: go test ./internal/edges -update")
}

// rows lists the scenarios and edges of a table, without who caught them.
func rows(text string) []string {
	var r []string
	for line := range strings.Lines(text) {
		if cells := strings.Split(line, " | "); len(cells) == 4 {
			r = append(r, strings.Join(cells[:3], " | "))
		}
	}
	slices.Sort(r)
	return slices.Compact(r)
}

// makers are the functions and methods that make an edge.
var makers = map[string]bool{
	"OrderStreams": true, "StreamWaitEvent": true, "StreamSynchronize": true, "EventSynchronize": true, "CtxSynchronize": true,
	"QueryEvents": true, "WaitFor": true, "WaitForPending": true,
}

// exempt are functions that make an edge and that no scenario goes through, with the reason.
var exempt = map[string]string{
	"device.(*Buffer).copyHost":  "the host waits only where no event can be recorded; the walk of failing calls goes there",
	"memview.(*transfer).finish": "as copyHost",
}

// everyPlace looks for calls of makers in the sources of the library: a scenario has to go through every
// function that has one.
func everyPlace(t *testing.T) {
	t.Helper()
	places := 0
	for _, pkg := range []string{"stream", "device", "memview", "launch", "python"} {
		files := must(filepath.Glob(filepath.Join("../..", pkg, "*.go")))
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, "_stub.go") {
				continue
			}
			f := must(parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution))
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				ast.Inspect(fn, func(n ast.Node) bool {
					c, ok := n.(*ast.CallExpr)
					if !ok {
						return true
					}
					s, ok := c.Fun.(*ast.SelectorExpr)
					if !ok || !makers[s.Sel.Name] {
						return true
					}
					places++
					name := pkg + "." + receiver(fn) + fn.Name.Name
					if _, ok := reached.Load(name); !ok && exempt[name] == "" {
						t.Errorf("%s calls %s, and no scenario goes through it", name, s.Sel.Name)
					} else if ok && exempt[name] != "" {
						t.Errorf("%s is exempt, and a scenario goes through it", name)
					}
					return true
				})
			}
		}
	}
	require.Greater(t, places, 15)
}

func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	switch x := f.Recv.List[0].Type.(type) {
	case *ast.StarExpr:
		return fmt.Sprintf("(*%v).", x.X)
	default:
		return fmt.Sprintf("%v.", x)
	}
}

// short is an operation without the numbers of a graph.
func short(op string) string {
	op, _, _ = strings.Cut(op, " (")
	return op
}

const head = `# Edges

Every edge that the library makes, between two streams or between a stream and the host, left out one at a
time, and what the hunt for missing synchronization saw then: the two accesses that nothing orders any more. With
all edges none of the %d scenarios has a report. %d edges, %d of them caught; the same with the schedules of
the seeds %s, which is part of the test. Every function of the Go packages that calls the driver for an edge is
gone through, but those that wait for want of an edge when a call has failed. The edges of the Python module are in the second table.

Written by ` + "`go test ./internal/edges -update`" + `; the test fails where an edge is not caught, or is not on this page.

| scenario | edge, made by | driver call | caught by |
|---|---|---|---|
`

// seeds are the schedules under which everything is done again.
var seeds = []string{"1", "2", "3"}

func TestUnderSeeds(t *testing.T) {
	if os.Getenv("HANDOFF_SOFT_SEED") != "" || testdriver.Real() {
		t.Skip("this is the child, or a GPU")
	}
	for _, seed := range seeds {
		t.Run(seed, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestEveryEdgeIsNeeded$", "-test.timeout=5m")
			cmd.Env = append(os.Environ(), "HANDOFF_SOFT_SEED="+seed)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", bytes.TrimSpace(out))
		})
	}
}
