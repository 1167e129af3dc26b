// Command graph_replay captures a step of a simulation once, by running it on a
// stream, and replays it a thousand times with one call each. What the step
// does in between is changed in place.
//
// It needs a GPU and NVRTC, or HANDOFF_DRIVER=soft for the software device.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/launch"
)

// Two kernels that a step alternates: heat flows between neighbours.
const source = `extern "C" __global__ void diffuse(float *to, const float *from, float rate, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n)
		return;
	float left = from[i ? i - 1 : n - 1], right = from[i < n - 1 ? i + 1 : 0];
	to[i] = from[i] + rate * (left - 2 * from[i] + right);
}`

const cells = 64

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "graph_replay:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer) (err error) {
	var closers []io.Closer
	defer func() {
		for i := len(closers) - 1; i >= 0; i-- {
			err = errors.Join(err, closers[i].Close())
		}
	}()
	dev, err := device.Open(0)
	if err != nil {
		return err
	}
	s, err := dev.NewStream(nil)
	if err != nil {
		return err
	}
	closers = append(closers, s)
	code, err := load(dev)
	if err != nil {
		return err
	}
	closers = append(closers, code)
	k, err := code.Kernel("diffuse")
	if err != nil {
		return err
	}
	closers = append(closers, k)
	a, err := dev.Allocate(4*cells, s)
	if err != nil {
		return err
	}
	closers = append(closers, a)
	b, err := dev.Allocate(4*cells, s)
	if err != nil {
		return err
	}
	closers = append(closers, b)

	// One hot cell.
	start := make([]byte, 4*cells)
	binary.NativeEndian.PutUint32(start, math.Float32bits(cells))
	if err := a.CopyFromHostSync(ctx, start, s); err != nil {
		return err
	}

	// A step is two launches. They are recorded, not run.
	cfg := launch.Config{Grid: launch.Cover(cells, 32), Block: launch.D1(32)}
	g, err := launch.Record(s, func(*launch.Capture) error {
		if err := launch.Launch(s, cfg, k, b, a, float32(0.25), int32(cells)); err != nil {
			return err
		}
		return launch.Launch(s, cfg, k, a, b, float32(0.25), int32(cells))
	})
	if err != nil {
		return err
	}
	closers = append(closers, g)
	nodes, err := g.Nodes()
	if err != nil {
		return err
	}
	step, err := g.Instantiate(nil)
	if err != nil {
		return err
	}
	closers = append(closers, step)

	report := func(what string) error {
		p := make([]byte, 4*cells)
		if err := a.CopyToHost(ctx, p, s); err != nil {
			return err
		}
		sum, hottest := 0.0, 0.0
		for i := range cells {
			v := float64(math.Float32frombits(binary.NativeEndian.Uint32(p[4*i:])))
			sum, hottest = sum+v, max(hottest, v)
		}
		fmt.Fprintf(w, "%s: heat %.2f, hottest cell %.2f\n", what, sum, hottest)
		return nil
	}
	if err := report("before"); err != nil {
		return err
	}
	for range 1000 {
		if err := step.Launch(s); err != nil {
			return err
		}
	}
	if err := report("after 1000 steps"); err != nil {
		return err
	}

	// From now on a step does nothing: one launch is changed in place, the other
	// switched off.
	if err := step.SetLaunch(nodes[1], cfg, k, b, b, float32(0), int32(cells)); err != nil {
		return err
	}
	if err := step.SetEnabled(nodes[0], false); err != nil {
		return err
	}
	if err := step.Launch(s); err != nil {
		return err
	}
	return report("after a step that is switched off")
}

// load compiles the kernel, or takes its twin in Go on the software device.
func load(dev *device.Device) (*launch.ObjectCode, error) {
	if dev.Driver().Provider() == driver.ProviderSoft {
		err := soft.RegisterKernel("diffuse", []soft.ParamInfo{soft.Ptr, soft.Ptr, soft.Float32, soft.Int32}, func(l *soft.Launch) {
			n, rate := int(l.Int64(3)), float32(l.Float64(2))
			from := append([]float32(nil), soft.Slice[float32](l, l.Ptr(1), n)...)
			to := soft.Slice[float32](l, l.Ptr(0), n)
			for i := range n {
				to[i] = from[i] + rate*(from[(i+n-1)%n]-2*from[i]+from[(i+1)%n])
			}
		})
		if err != nil {
			return nil, err
		}
		return launch.NewObjectCode(soft.Image("diffuse"), nil)
	}
	prog, err := launch.NewProgram(source, &launch.ProgramOptions{Name: "diffuse.cu", Device: dev})
	if err != nil {
		return nil, err
	}
	return prog.Compile(launch.FormatCubin, nil)
}
