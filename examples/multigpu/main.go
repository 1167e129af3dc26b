// Command multigpu is a pipeline over two devices: the first squares each chunk,
// a peer copy hands it over, the second adds it up. The streams wait for each
// other by events; the host only queues work.
//
// It needs two GPUs and NVRTC, or HANDOFF_DRIVER=soft for the software device.
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

const source = `extern "C" __global__ void square(float *p, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		p[i] *= p[i];
}

extern "C" __global__ void accumulate(double *total, const float *p, int n)
{
	double t = 0;
	for (int i = threadIdx.x; i < n; i += blockDim.x)
		t += p[i];
	atomicAdd(total, t);
}`

const (
	chunks = 8
	size   = 1024 // elements
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "multigpu:", err)
		os.Exit(1)
	}
}

// stage is one device of the pipeline, with two buffers so that a chunk can be
// worked on while the next one arrives.
type stage struct {
	dev     *device.Device
	stream  *device.Stream
	buffers [2]*device.Buffer
}

func newStage(ordinal int) (*stage, error) {
	dev, err := device.Open(ordinal)
	if err != nil {
		return nil, err
	}
	st := &stage{dev: dev}
	if st.stream, err = dev.NewStream(nil); err != nil {
		return nil, err
	}
	for i := range st.buffers {
		if st.buffers[i], err = dev.Allocate(4*size, st.stream); err != nil {
			return nil, errors.Join(err, st.Close())
		}
	}
	return st, nil
}

func (st *stage) Close() error {
	var err error
	for _, b := range st.buffers {
		if b != nil {
			err = errors.Join(err, b.Close())
		}
	}
	return errors.Join(err, st.stream.Close())
}

func run(ctx context.Context, w io.Writer) (err error) {
	var closers []io.Closer
	defer func() {
		for i := len(closers) - 1; i >= 0; i-- {
			err = errors.Join(err, closers[i].Close())
		}
	}()
	first, err := newStage(0)
	if err != nil {
		return err
	}
	closers = append(closers, first)
	second, err := newStage(1)
	if err != nil {
		return err
	}
	closers = append(closers, second)
	code, err := load(first.dev)
	if err != nil {
		return err
	}
	closers = append(closers, code)
	kernels := map[string]*launch.Kernel{}
	for _, name := range []string{"square", "accumulate"} {
		k, err := code.Kernel(name) // one kernel serves both devices
		if err != nil {
			return err
		}
		closers = append(closers, k)
		kernels[name] = k
	}
	total, err := second.dev.Allocate(8, second.stream)
	if err != nil {
		return err
	}
	closers = append(closers, total)
	if err := total.Fill32(0, second.stream); err != nil {
		return err
	}

	cfg := launch.Config{Grid: launch.Cover(size, 256), Block: launch.D1(256)}
	input := make([]byte, 4*size)
	for c := range chunks {
		for i := range size {
			binary.NativeEndian.PutUint32(input[4*i:], math.Float32bits(float32(c*size+i)/size))
		}
		from, to := first.buffers[c%2], second.buffers[c%2]
		if err := from.CopyFromHostSync(ctx, input, first.stream); err != nil {
			return err
		}
		if err := launch.Launch(first.stream, cfg, kernels["square"], from, int32(size)); err != nil {
			return err
		}
		// The second device is done with its buffer before it is filled again,
		// and takes the chunk once it has arrived.
		if err := first.stream.Wait(second.stream); err != nil {
			return err
		}
		if err := device.Copy(to, from, first.stream); err != nil {
			return err
		}
		if err := second.stream.Wait(first.stream); err != nil {
			return err
		}
		if err := launch.Launch(second.stream, launch.Config{Grid: launch.D1(1), Block: launch.D1(128)}, kernels["accumulate"], total, to, int32(size)); err != nil {
			return err
		}
	}
	p := make([]byte, 8)
	if err := total.CopyToHost(ctx, p, second.stream); err != nil {
		return err
	}
	fmt.Fprintf(w, "%d chunks from %v to %v: %.4g\n", chunks, first.dev, second.dev, math.Float64frombits(binary.NativeEndian.Uint64(p)))

	// Memory of the other device is not taken for one's own.
	err = launch.Launch(second.stream, cfg, kernels["square"], first.buffers[0], int32(size))
	fmt.Fprintln(w, "refused:", err)
	return nil
}

// load compiles the kernels, or takes their twins in Go on the software device.
// PTX fits all devices that are at least as new as the first.
func load(dev *device.Device) (*launch.ObjectCode, error) {
	if dev.Driver().Provider() == driver.ProviderSoft {
		err := errors.Join(
			soft.RegisterKernel("square", []soft.ParamInfo{soft.Ptr, soft.Int32}, func(l *soft.Launch) {
				for i, p := 0, soft.Slice[float32](l, l.Ptr(0), int(l.Int64(1))); i < len(p); i++ {
					p[i] *= p[i]
				}
			}),
			soft.RegisterKernel("accumulate", []soft.ParamInfo{soft.Ptr, soft.Ptr, soft.Int32}, func(l *soft.Launch) {
				total := soft.Slice[float64](l, l.Ptr(0), 1)
				for _, v := range soft.Slice[float32](l, l.Ptr(1), int(l.Int64(2))) {
					total[0] += float64(v)
				}
			}))
		if err != nil {
			return nil, err
		}
		return launch.NewObjectCode(soft.Image("square", "accumulate"), nil)
	}
	prog, err := launch.NewProgram(source, &launch.ProgramOptions{Name: "pipeline.cu", Device: dev})
	if err != nil {
		return nil, err
	}
	return prog.Compile(launch.FormatPTX, nil)
}
