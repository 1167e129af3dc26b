package launch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/launch"
)

// walkLaunches are what the operations of the walk use. Code is loaded by each of them anew, as
// what is known of a kernel is kept with it.
type walkLaunches struct {
	d    *device.Device
	s    *device.Stream
	b    *device.Buffer
	e    *device.Event
	code *launch.ObjectCode
	k    *launch.Kernel
}

func got[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

func second[T any](_ T, err error) error { return err }

var launches = sync.OnceValue(func() *walkLaunches {
	w := &walkLaunches{d: got(device.Open(0))}
	if err := softKernels(); err != nil {
		panic(err)
	}
	w.s = got(w.d.NewStream(nil))
	w.b = got(w.d.Allocate(64, w.s))
	w.e = got(w.d.NewEvent(nil))
	w.code = got(launch.NewObjectCode(soft.Image(kernelNames...), nil))
	w.k = got(w.code.Kernel("add"))
	return w
})

func (w *walkLaunches) close() error {
	return errors.Join(w.k.Close(), w.code.Close(), w.e.Close(), w.b.Close(), w.s.Close())
}

// add are the arguments of the kernel "add": one word becomes more by one.
func (w *walkLaunches) add() []any { return []any{w.b, int32(1), int64(1)} }

// fresh loads code for one operation.
func fresh(do func(w *walkLaunches, c *launch.ObjectCode, k *launch.Kernel) error) func() error {
	return func() (err error) {
		w := launches()
		c, err := launch.NewObjectCode(soft.Image(kernelNames...), nil)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		k, err := c.Kernel("add")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, k.Close()) }()
		return do(w, c, k)
	}
}

// graphed makes a graph for one operation.
func graphed(do func(w *walkLaunches, g *launch.Graph) error) func() error {
	return func() (err error) {
		w := launches()
		g, err := launch.NewGraph(w.s.Context())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, g.Close()) }()
		return do(w, g)
	}
}

// captured makes a stream for one operation: one whose capture cannot be ended goes with it.
func captured(do func(w *walkLaunches, s *device.Stream) error) func() error {
	return func() (err error) {
		w := launches()
		s, err := w.d.NewStream(nil)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		return do(w, s)
	}
}

// grown does something that has to add n to a word.
func (w *walkLaunches) grown(n uint32, do func() error) error {
	read := func() (uint32, error) {
		p := make([]byte, 64)
		err := w.b.CopyToHost(context.Background(), p, w.s)
		return uint32(p[0]) | uint32(p[1])<<8 | uint32(p[2])<<16 | uint32(p[3])<<24, err
	}
	before, err := read()
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return errors.Join(err, w.s.Synchronize(context.Background()))
	}
	after, err := read()
	if err == nil && after-before != n {
		err = fmt.Errorf("%d became %d, want %d more", before, after, n)
	}
	return err
}

// Giving back does what it can, waiting asks again.
var goodAnyway = []string{"cuCtxGetCurrent", "cuCtxPushCurrent", "cuEventQuery"}

var walkedLaunches = []testdriver.Operation{
	{Name: "NewObjectCode", MakesGood: []string{"cuLibraryGetKernelCount", "cuLibraryEnumerateKernels", "cuKernelGetName"}, Covers: []string{"ObjectCode.Handle", "ObjectCode.Kernel", "ObjectCode.Close", "Kernel.Close"}, Do: fresh(func(_ *walkLaunches, c *launch.ObjectCode, _ *launch.Kernel) error {
		_, err := c.Kernel("none")
		if errors.Is(err, launch.ErrNoKernel) {
			err = nil
		}
		return errors.Join(err, second(c.Handle()))
	})},
	{
		Name: "Kernel.Params", Covers: []string{
			"Kernel.Attribute", "Kernel.Attributes", "Kernel.SetAttribute", "Kernel.SetMaxDynamicSharedSize", "Kernel.Function",
			"WrapKernel", "WrapFunction",
		},
		MakesGood: []string{"cuKernelGetName", "cuFuncGetName", "cuFuncGetModule", "cuKernelGetLibrary", "cuKernelGetAttribute", "cuDeviceGetAttribute"},
		Do: fresh(func(w *walkLaunches, _ *launch.ObjectCode, k *launch.Kernel) error {
			fn, err := k.Function(w.s.Context())
			err = errors.Join(err, second(k.Params()), second(k.Attributes(w.d)), second(k.Attribute(w.d, driver.FuncAttributeMaxThreadsPerBlock)),
				k.SetMaxDynamicSharedSize(w.d, 64), k.SetAttribute(w.d, driver.FuncAttributeMaxDynamicSharedSizeBytes, 0))
			if err != nil {
				return err
			}
			a, err := launch.WrapKernel(k.Handle(), nil)
			if err != nil {
				return err
			}
			b, err := launch.WrapFunction(fn, nil)
			if err != nil {
				return errors.Join(err, a.Close())
			}
			return errors.Join(second(b.Params()), a.Close(), b.Close())
		}),
	},
	{
		Name: "Occupancy.MaxActiveBlocks", Covers: []string{
			"Occupancy.AvailableDynamicShared", "Occupancy.MaxPotentialBlockSize", "Occupancy.MaxActiveClusters", "Occupancy.MaxPotentialClusterSize",
		},
		Do: fresh(func(w *walkLaunches, _ *launch.ObjectCode, k *launch.Kernel) error {
			o := k.Occupancy(w.s.Context())
			_, _, err := o.MaxPotentialBlockSize(0, 0)
			clusters := launch.Config{Grid: launch.D1(4), Block: launch.D1(64), Cluster: launch.D1(2)}
			return errors.Join(err, second(o.MaxActiveBlocks(64, 0)), second(o.AvailableDynamicShared(1, 64)),
				second(o.MaxPotentialClusterSize(clusters)), second(o.MaxActiveClusters(clusters)))
		}),
	},
	{
		Name: "Launch", MakesGood: append(slices.Clip(goodAnyway), "cuKernelGetParamInfo", "cuKernelGetFunction"), Max: 60,
		Do: fresh(func(w *walkLaunches, _ *launch.ObjectCode, k *launch.Kernel) error {
			priority := one
			priority.Priority = -1
			numbers := func() error { return launch.Launch(w.s, one, k, w.b.Ptr(), int32(1), int64(1)) }
			return w.grown(4, func() error {
				return errors.Join(launch.Launch(w.s, one, k, w.add()...), launch.Launch(w.s, priority, k, w.add()...), numbers(), numbers())
			})
		}),
	},
	{Name: "Launch, known kernel", MakesGood: goodAnyway, Max: 60, Do: func() error {
		w := launches()
		return w.grown(2, func() error {
			return errors.Join(launch.Launch(w.s, one, w.k, w.add()...), launch.Launch(w.s, one, w.k, w.b.Ptr(), int32(1), int64(1)))
		})
	}},
	{Name: "Prepare", Covers: []string{"Prepared.Launch", "Prepared.Set", "SetValue"}, MakesGood: append(slices.Clip(goodAnyway), "cuKernelGetParamInfo", "cuKernelGetFunction"), Max: 60, Do: fresh(func(w *walkLaunches, _ *launch.ObjectCode, k *launch.Kernel) error {
		p, err := launch.Prepare(k, w.add()...)
		if err != nil {
			return err
		}
		return w.grown(3, func() error {
			return errors.Join(p.Set(1, int32(2)), p.Launch(w.s, one), launch.SetValue(p, 1, int32(1)), p.Launch(w.s, one))
		})
	})},
	{Name: "NewGraph", Covers: []string{"Graph.Close", "Graph.Empty", "Graph.Nodes", "Graph.Roots", "Graph.Edges", "Graph.DOT"}, MakesGood: goodAnyway, Do: graphed(func(_ *walkLaunches, g *launch.Graph) error {
		a, err := g.Empty()
		if err != nil {
			return err
		}
		b, err := g.Empty(a)
		if err != nil {
			return err
		}
		nodes, err := g.Nodes()
		if err == nil && len(nodes) != 2 {
			err = errors.New("wrong nodes")
		}
		return errors.Join(err, second(g.Roots()), second(g.Edges()), second(g.DOT(0)), second(b.Dependencies()))
	})},
	{
		Name: "Node.After", Covers: []string{"Node.NotAfter", "Node.Dependencies", "Node.Dependents", "Node.Kind", "Node.Remove", "Graph.Find"},
		Do: graphed(func(_ *walkLaunches, g *launch.Graph) (err error) {
			a, err := g.Empty()
			if err != nil {
				return err
			}
			b, err := g.Empty()
			if err != nil {
				return err
			}
			c, err := g.Clone()
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, c.Close()) }()
			if err := b.After(a); err != nil {
				return err
			}
			after, err := b.Dependencies()
			if err == nil && (len(after) != 1 || after[0] != a) {
				err = errors.New("wrong dependencies")
			}
			return errors.Join(err, second(c.Find(a)), second(a.Dependents()), second(a.Kind()), b.NotAfter(a), a.Remove())
		}),
	},
	{
		Name: "Graph.Launch", Covers: []string{
			"Graph.LaunchIn", "Graph.Fill", "Graph.Copy", "Graph.Host", "Graph.RecordEvent", "Graph.WaitEvent", "Graph.Child", "Graph.Clone", "Graph.Instantiate",
			"GraphExec.Launch", "GraphExec.Upload", "GraphExec.Close", "GraphExec.SetLaunch", "GraphExec.SetFill", "GraphExec.SetCopy", "GraphExec.SetHost",
			"Node.Params", "Node.SetLaunch", "Node.SetFill", "Node.SetCopy", "Node.SetHost", "Node.SetEvent",
			"GraphExec.SetChild", "GraphExec.SetEvent", "GraphExec.SetEnabled", "GraphExec.Enabled", "GraphExec.Update",
		},
		MakesGood: append(slices.Clip(goodAnyway), "cuStreamIsCapturing", "cuStreamQuery", "cuEventCreate", "cuEventRecord", "cuGraphKernelNodeGetParams"), Max: 200, Brief: true,
		Do: graphed(func(w *walkLaunches, g *launch.Graph) (err error) {
			kn, err := g.Launch(one, w.k, w.add())
			if err != nil {
				return err
			}
			fill, err := g.Fill(w.b, 8, 1, 4, 1, kn)
			if err != nil {
				return err
			}
			cpy, err := g.Copy(w.b, 32, w.b, 8, 4, fill)
			if err != nil {
				return err
			}
			host, err := g.Host(func() {}, cpy)
			if err != nil {
				return err
			}
			rec, err := g.RecordEvent(w.e, host)
			if err != nil {
				return err
			}
			wait, err := g.WaitEvent(w.e, rec)
			if err != nil {
				return err
			}
			leaf, err := launch.NewGraph(w.s.Context())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, leaf.Close()) }()
			if _, err := leaf.Empty(); err != nil {
				return err
			}
			child, err := g.Child(leaf, wait)
			if err != nil {
				return err
			}
			for _, f := range []func() error{
				func() error { return kn.SetLaunch(one, w.k, w.add()...) },
				func() error { return fill.SetFill(w.b, 8, 2, 4, 1) },
				func() error { return cpy.SetCopy(w.b, 36, w.b, 8, 4) },
				func() error { return host.SetHost(func() {}) },
				func() error { return rec.SetEvent(w.e) },
			} {
				if err := f(); err != nil {
					return err
				}
			}
			for _, n := range []launch.Node{kn, fill, cpy, host, rec, wait, child} {
				if _, err := n.Params(); err != nil {
					return err
				}
			}
			x, err := g.Instantiate(nil)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, x.Close()) }()
			return w.grown(1, func() error {
				for _, f := range []func() error{
					func() error { return x.SetLaunch(kn, one, w.k, w.add()...) },
					func() error { return x.SetFill(fill, w.b, 8, 2, 4, 1) },
					func() error { return x.SetCopy(cpy, w.b, 36, w.b, 8, 4) },
					func() error { return x.SetHost(host, func() {}) },
					func() error { return x.SetChild(child, leaf) },
					func() error { return x.SetEvent(rec, w.e) },
					func() error { return x.SetEnabled(kn, true) },
					func() error { return second(x.Enabled(kn)) },
					func() error { return x.Update(g) },
					func() error { return x.Upload(w.s) },
					func() error { return x.Launch(w.s) },
				} {
					if err := f(); err != nil {
						return err
					}
				}
				return nil
			})
		}),
	},
	{Name: "GraphMemoryOf", Covers: []string{"ResetGraphMemory", "TrimGraphMemory"}, Do: func() error {
		d := launches().d
		return errors.Join(second(launch.GraphMemoryOf(d)), launch.ResetGraphMemory(d), launch.TrimGraphMemory(d))
	}},
	{Name: "Graph.Alloc", Covers: []string{"Graph.Free"}, Do: graphed(func(_ *walkLaunches, g *launch.Graph) error {
		n, ptr, err := g.Alloc(64, nil)
		if err != nil {
			return err
		}
		return second(g.Free(ptr, n))
	})},
	{
		Name: "Graph.Condition", Covers: []string{"Graph.If", "Graph.IfElse", "Graph.While", "Graph.Switch"},
		Do: graphed(func(_ *walkLaunches, g *launch.Graph) error {
			cond := func() (launch.Condition, error) { return g.Condition(0, true) }
			for _, add := range []func(c launch.Condition) error{
				func(c launch.Condition) error { _, _, err := g.If(c); return err },
				func(c launch.Condition) error { _, _, err := g.While(c); return err },
				func(c launch.Condition) error { _, _, _, err := g.IfElse(c); return err },
				func(c launch.Condition) error { _, _, err := g.Switch(c, 2); return err },
			} {
				c, err := cond()
				if err != nil {
					return err
				}
				if err := add(c); err != nil {
					return err
				}
			}
			return nil
		}),
	},
	{Name: "ImportGraph", Do: func() error {
		w := launches()
		h, res := w.d.Driver().GraphCreate(0)
		if res != driver.Success {
			return &launch.Error{Op: "create graph", Code: res}
		}
		g, err := launch.ImportGraph(h, w.s.Context())
		if err != nil {
			return errors.Join(err, w.d.Driver().GraphDestroy(h).Err()) // it is still ours
		}
		return errors.Join(second(g.Nodes()), g.Close())
	}},
	{Name: "BeginCapture", Covers: []string{"Capture.End", "Capture.Host", "Record"}, MakesGood: goodAnyway, Do: captured(func(w *walkLaunches, s *device.Stream) (err error) {
		c, err := launch.BeginCapture(s, launch.CaptureRelaxed)
		if err != nil {
			return err
		}
		err = errors.Join(c.Host(s, func() {}), launch.Launch(s, one, w.k, w.add()...))
		g, e := c.End()
		if e != nil {
			return errors.Join(err, e)
		}
		return errors.Join(err, g.Close())
	})},
	{Name: "Capture.Insert", MakesGood: goodAnyway, Do: captured(func(w *walkLaunches, s *device.Stream) error {
		g, err := launch.Record(s, func(c *launch.Capture) error {
			if err := launch.Launch(s, one, w.k, w.add()...); err != nil {
				return err
			}
			err := c.Insert(s, func(g *launch.Graph, after []launch.Node) ([]launch.Node, error) {
				n, err := g.Fill(w.b, 0, 1, 4, 1, after...)
				return []launch.Node{n}, err
			})
			return errors.Join(err, launch.Launch(s, one, w.k, w.add()...))
		})
		if err != nil {
			return err
		}
		return g.Close()
	})},
	{Name: "Record", MakesGood: goodAnyway, Do: captured(func(w *walkLaunches, s *device.Stream) error {
		g, err := launch.Record(s, func(*launch.Capture) error { return launch.Launch(s, one, w.k, w.add()...) })
		if err != nil {
			return err
		}
		return g.Close()
	})},
	{Name: "Graph.Capture", MakesGood: goodAnyway, Do: captured(func(w *walkLaunches, s *device.Stream) (err error) {
		g, err := launch.NewGraph(s.Context())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, g.Close()) }()
		c, err := g.Capture(s, launch.CaptureRelaxed)
		if err != nil {
			return err
		}
		err = launch.Launch(s, one, w.k, w.add()...)
		return errors.Join(err, second(c.End()))
	})},
}

// TestFaultWalk makes every driver call of every operation fail: B140, B163, B279.
func TestFaultWalk(t *testing.T) {
	if !testdriver.InProcess(t) {
		return
	}
	(&testdriver.Walk{
		Operations: walkedLaunches,
		Exempt: map[string]string{
			"compiles or reads, without a driver":                  `ObjectCode.ParamInfo NewProgram Program.* ReadObjectCode DetectFormat CompileError.* Language.String`,
			"links, without a driver or with one for a GPU's code": `NewLinker Linker.* LinkerBackend.String`,

			"files and memory":        `DefaultCache LayeredCache CacheKey.String OpenDiskCache DiskCache.* NewMemoryCache MemoryCache.*`,
			"a value":                 `BFloat16 Float16 Int16 Int32 Int64 Int8 Uint16 Uint32 Uint64 Uint8 Cover D1 D2 D3 Dim3.String MDSpan MDSpan32 Span.Right Format.String NodeKind.String`,
			"text":                    `ArgError.* ConfigError.* Error.* ObjectCode.String Kernel.String`,
			"a field":                 `Capture.Stream Condition.Handle Graph.Context Graph.Handle GraphExec.Handle Kernel.Driver Kernel.Handle Kernel.LaunchHandle Kernel.Name Kernel.Occupancy Node.Graph Node.Handle ObjectCode.Code ObjectCode.Format ObjectCode.Log ObjectCode.Name ObjectCode.PCHStatus ObjectCode.Symbols Prepared.Kernel TensorMap.View`,
			"counters":                `Stats`,
			"keeps, without a driver": `Capture.Keep Graph.Keep`,

			"the software device has no variables and no tensor maps: it always fails": `ObjectCode.Global NewTensorMap TensorMap.Replace`,
		},
		Setup: func() error {
			launches()
			return nil
		},
		Typed: func(err error, code driver.Result) error {
			var res driver.Result
			if !errors.As(err, &res) || !errors.Is(err, code) {
				return errors.New("another code")
			}
			var e *launch.Error
			if errors.As(err, &e) && e.Op == "" {
				return errors.New("no operation")
			}
			return nil
		},
		Settle: device.Flush,
		State: func() any {
			s := device.Stats()
			return struct {
				launch launch.Statistics
				device [8]int64
			}{launch.Stats(), [...]int64{s.Contexts, s.Streams, s.Events, s.Buffers, s.Pools, s.Allocated, s.Deferred, s.Waiters}}
		},
	}).Run(t)
	if err := launches().close(); err != nil {
		t.Error(err)
	}
}
