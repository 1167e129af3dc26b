package launch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/launch"
)

// TestDriverFaults makes each driver call fail, in a process of its own: the
// error is the driver's, nothing is left behind, and it works the next time.
func TestDriverFaults(t *testing.T) {
	if testdriver.Real() {
		t.Skip("needs the software device, which fails to order")
	}
	testdriver.Open(t) // skips where there is none
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LAUNCH_TEST_CHILD=faults")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

func faultsProcess() int {
	var broken atomic.Pointer[string]
	var hits atomic.Int32
	err := soft.Enable(&soft.Options{Fault: func(api string) int32 {
		if b := broken.Load(); b != nil && *b == api {
			hits.Add(1)
			return int32(driver.ErrorUnknown)
		}
		return 0
	}})
	if err == nil {
		err = softKernels()
	}
	if err == nil {
		err = faults(func(api string) { broken.Store(&api) }, &hits)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func faults(breaks func(api string), hits *atomic.Int32) error {
	ctx := context.Background()
	dev, err := device.Open(0)
	if err != nil {
		return err
	}
	s, err := dev.NewStream(nil)
	if err != nil {
		return err
	}
	defer s.Close()
	code, err := launch.NewObjectCode(soft.Image(kernelNames...), nil)
	if err != nil {
		return err
	}
	defer code.Close()
	k, err := code.Kernel("add")
	if err != nil {
		return err
	}
	defer k.Close()
	buf, err := dev.Allocate(64, s)
	if err != nil {
		return err
	}
	defer buf.Close()
	event, err := dev.NewEvent(nil)
	if err != nil {
		return err
	}
	defer event.Close()

	args := []any{buf, int32(1), int64(1)}
	run := func(cfg launch.Config) error { return launch.Launch(s, cfg, k, args...) }
	priority := one
	priority.Priority = -1
	// A graph of everything, made, instantiated, launched and changed.
	graph := func() (err error) {
		var closers []interface{ Close() error }
		defer func() {
			for i := len(closers) - 1; i >= 0; i-- {
				err = errors.Join(err, closers[i].Close())
			}
		}()
		g, err := launch.NewGraph(s.Context())
		if err != nil {
			return err
		}
		closers = append(closers, g)
		kn, err := g.Launch(priority, k, args)
		if err != nil {
			return err
		}
		fill, err := g.Fill(buf, 0, 1, 4, 1, kn)
		if err != nil {
			return err
		}
		cpy, err := g.Copy(buf, 32, buf, 0, 4, fill)
		if err != nil {
			return err
		}
		host, err := g.Host(func() {}, cpy)
		if err != nil {
			return err
		}
		rec, err := g.RecordEvent(event, host)
		if err != nil {
			return err
		}
		wait, err := g.WaitEvent(event, rec)
		if err != nil {
			return err
		}
		join, err := g.Empty(wait)
		if err != nil {
			return err
		}
		clone, err := g.Clone()
		if err != nil {
			return err
		}
		closers = append(closers, clone)
		child, err := g.Child(clone, join)
		if err != nil {
			return err
		}
		cond, err := g.Condition(0, true)
		if err != nil {
			return err
		}
		if _, _, err = g.If(cond, child); err != nil {
			return err
		}
		x, err := g.Instantiate(nil)
		if err != nil {
			return err
		}
		closers = append(closers, x)
		for _, f := range []func() error{
			func() error { return x.Upload(s) },
			func() error { return x.Launch(s) },
			func() error { return x.SetLaunch(kn, one, k, args...) },
			func() error { return x.SetFill(fill, buf, 0, 2, 4, 1) },
			func() error { return x.SetCopy(cpy, buf, 36, buf, 0, 4) },
			func() error { return x.SetHost(host, func() {}) },
			func() error { return x.SetChild(child, clone) },
			func() error { return x.SetEvent(rec, event) },
			func() error { return x.SetEnabled(kn, true) },
			func() error { _, err := x.Enabled(kn); return err },
			func() error { return x.Update(g) },
			func() error { _, err := g.Nodes(); return err },
			func() error { _, err := g.Edges(); return err },
			func() error { _, err := kn.Dependents(); return err },
			func() error { _, err := g.DOT(0); return err },
			func() error { return s.Synchronize(ctx) },
		} {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	}
	capture := func() error {
		g, err := launch.Record(s, func(*launch.Capture) error { return run(one) })
		if err != nil {
			return err
		}
		return g.Close()
	}
	for _, c := range []struct {
		apis []string
		do   func() error
	}{
		{[]string{"cuLaunchKernelEx"}, func() error { return run(one) }},
		{[]string{"cuLaunchKernelEx"}, func() error { return run(priority) }},
		{[]string{"cuStreamBeginCapture", "cuStreamGetCaptureInfo", "cuStreamEndCapture", "cuLaunchKernelEx"}, capture},
		{[]string{
			"cuGraphCreate", "cuGraphAddKernelNode", "cuGraphKernelNodeSetAttribute", "cuGraphAddMemsetNode", "cuGraphAddMemcpyNode",
			"cuGraphAddHostNode", "cuGraphAddEventRecordNode", "cuGraphAddEventWaitNode", "cuGraphAddEmptyNode", "cuGraphClone",
			"cuGraphAddChildGraphNode", "cuGraphConditionalHandleCreate", "cuGraphAddNode", "cuGraphInstantiateWithParams", "cuGraphUpload",
			"cuGraphLaunch", "cuGraphExecKernelNodeSetParams", "cuGraphExecMemsetNodeSetParams", "cuGraphExecMemcpyNodeSetParams",
			"cuGraphExecHostNodeSetParams", "cuGraphExecChildGraphNodeSetParams", "cuGraphExecEventRecordNodeSetEvent", "cuGraphNodeSetEnabled",
			"cuGraphNodeGetEnabled", "cuGraphExecUpdate", "cuGraphGetNodes", "cuGraphGetEdges", "cuGraphNodeGetDependentNodes", "cuGraphDebugDotPrint",
		}, graph},
	} {
		if err := c.do(); err != nil {
			return fmt.Errorf("without a fault: %w", err)
		}
		if err := s.Synchronize(ctx); err != nil {
			return err
		}
		before, live := launch.Stats(), soft.LiveObjects()
		for _, api := range c.apis {
			hits.Store(0)
			breaks(api)
			err := c.do()
			breaks("")
			if !errors.Is(err, driver.ErrorUnknown) || hits.Load() == 0 {
				return fmt.Errorf("%s: %d calls failed, error %w", api, hits.Load(), err)
			}
			if capturing, err := s.Capturing(); err != nil {
				return err
			} else if capturing {
				// The driver refused to end it: it does so now.
				if g, err := s.EndCapture(); err == nil {
					_ = dev.Driver().GraphDestroy(g)
				}
			}
			if err := s.Synchronize(ctx); err != nil {
				return err
			}
			if err := device.Flush(ctx); err != nil {
				return err
			}
			now, left := launch.Stats(), soft.LiveObjects()
			left.Events = live.Events // some are pooled
			if now != before || left != live {
				return fmt.Errorf("%s: left over:\n%+v\n%+v\nbefore:\n%+v\n%+v", api, now, left, before, live)
			}
			if err := c.do(); err != nil {
				return fmt.Errorf("%s, the next time: %w", api, err)
			}
		}
	}
	return nil
}
