// Command torch_saxpy is the Python module gosaxpy: a kernel that Go launches on
// tensors of PyTorch, CuPy or any other library, on that library's stream, and
// replays as a graph. torch_saxpy.py beside this file uses it.
//
// Nothing is copied, and the host waits for nothing: to Python a call is what a
// call of the tensor library is, work that is queued on its stream.
//
// It needs a GPU, NVRTC and one of these libraries.
package main

import (
	"fmt"
	"sync"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/launch"
	"github.com/go-handoff/handoff/memview"
	"github.com/go-handoff/handoff/python/ext"
)

const source = `extern "C" __global__ void saxpy(float *y, const float *x, float a, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		y[i] += a * x[i];
}`

var module = ext.New("gosaxpy", "A kernel that Go launches on arrays of any library.").
	Func("saxpy(y, x, a, stream, device=0)", saxpy, "Queues y += a*x on a stream, given by its handle.").
	Func("record(y, x, a, times, stream, device=0)", record, "Makes a graph of that many calls of saxpy and returns its number.").
	Func("replay(graph, stream, device=0)", replay, "Queues a graph on a stream.").
	Func("forget(graph)", forget, "Destroys a graph.")

func main() {}

// kernel compiles saxpy for a device, once.
func kernel(dev *device.Device) (*launch.Kernel, error) {
	kernels.Lock()
	defer kernels.Unlock()
	if k := kernels.of[dev]; k != nil {
		return k, nil
	}
	prog, err := launch.NewProgram(source, &launch.ProgramOptions{Name: "saxpy.cu", Device: dev})
	if err != nil {
		return nil, err
	}
	code, err := prog.Compile(launch.FormatCubin, nil)
	if err != nil {
		return nil, err
	}
	k, err := code.Kernel("saxpy")
	if err != nil {
		return nil, err
	}
	if kernels.of == nil {
		kernels.of = map[*device.Device]*launch.Kernel{}
	}
	kernels.of[dev] = k
	return k, nil
}

var kernels struct {
	sync.Mutex
	of map[*device.Device]*launch.Kernel
}

// open finds the library's stream. Tensor libraries work in the primary
// context, which is where their default stream belongs.
func open(stream uint64, ordinal int) (*device.Stream, error) {
	dev, err := device.Open(ordinal)
	if err != nil {
		return nil, err
	}
	ctx, err := dev.PrimaryContext()
	if err != nil {
		return nil, err
	}
	return device.WrapStream(driver.StreamHandle(stream), ctx, nil)
}

// enqueue launches the kernel. The arrays stay as they are until the work is
// done as long as their library frees memory in the order of this stream.
func enqueue(s *device.Stream, y, x memview.StridedMemoryView, a float32) error {
	if x.NDim() != 1 || y.NDim() != 1 || x.Dim(0) != y.Dim(0) || !x.ContiguousC() || !y.ContiguousC() {
		return fmt.Errorf("x and y are not two dense vectors of one length: %v, %v", x.Layout(), y.Layout())
	}
	if x.DType() != memview.DTypeOf[float32]() || y.DType() != x.DType() {
		return fmt.Errorf("x and y have dtypes %v and %v, not float32", x.DType(), y.DType())
	}
	if y.ReadOnly() {
		return fmt.Errorf("y is read-only")
	}
	k, err := kernel(s.Device())
	if err != nil {
		return err
	}
	n := x.Size()
	return launch.Launch(s, launch.Config{Grid: launch.Cover(n, 256), Block: launch.D1(256)}, k, &y, &x, a, launch.Int32(n))
}

func saxpy(y, x memview.StridedMemoryView, a float32, stream uint64, ordinal int) error {
	s, err := open(stream, ordinal)
	if err != nil {
		return err
	}
	return enqueue(s, y, x, a)
}

// graphs holds the graphs that Python knows by number.
var graphs struct {
	sync.Mutex
	last int
	open map[int]*launch.GraphExec
}

func record(y, x memview.StridedMemoryView, a float32, times int, stream uint64, ordinal int) (int, error) {
	s, err := open(stream, ordinal)
	if err != nil {
		return 0, err
	}
	if _, err := kernel(s.Device()); err != nil { // not while the stream captures
		return 0, err
	}
	var keep []memview.StridedMemoryView
	for _, v := range []memview.StridedMemoryView{y, x} {
		v, err := v.Retain() // the graph outlives the call
		if err != nil {
			return 0, err
		}
		keep = append(keep, v)
	}
	g, err := launch.Record(s, func(c *launch.Capture) error {
		for _, v := range keep {
			if err := c.Keep(func() { _ = v.Release() }); err != nil {
				return err
			}
		}
		for range times {
			if err := enqueue(s, keep[0], keep[1], a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	defer g.Close()
	exec, err := g.Instantiate(nil)
	if err != nil {
		return 0, err
	}
	graphs.Lock()
	defer graphs.Unlock()
	if graphs.open == nil {
		graphs.open = map[int]*launch.GraphExec{}
	}
	graphs.last++
	graphs.open[graphs.last] = exec
	return graphs.last, nil
}

func find(number int, remove bool) (*launch.GraphExec, error) {
	graphs.Lock()
	defer graphs.Unlock()
	x := graphs.open[number]
	if x == nil {
		return nil, fmt.Errorf("no graph %d", number)
	}
	if remove {
		delete(graphs.open, number)
	}
	return x, nil
}

func replay(graph int, stream uint64, ordinal int) error {
	x, err := find(graph, false)
	if err != nil {
		return err
	}
	s, err := open(stream, ordinal)
	if err != nil {
		return err
	}
	return x.Launch(s)
}

func forget(graph int) error {
	x, err := find(graph, true)
	if err != nil {
		return err
	}
	return x.Close()
}
