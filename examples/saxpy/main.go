// Command saxpy runs a kernel on arrays and on a stream that another library
// owns, in the order of that stream: nothing is copied, and the host waits for
// nothing.
//
// It needs a GPU and NVRTC, or HANDOFF_DRIVER=soft for the software device.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/launch"
	"github.com/go-handoff/handoff/memview"
)

const source = `extern "C" __global__ void saxpy(float *y, const float *x, float a, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		y[i] += a * x[i];
}`

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "saxpy:", err)
		os.Exit(1)
	}
}

// theirs stands for a library with streams and arrays of its own, such as a
// tensor library. All that is known of it is protocol: CUDAStream for its
// stream, descriptions of tensors for its arrays.
type theirs struct {
	d      *driver.Driver
	ctx    driver.ContextHandle
	stream driver.StreamHandle
	x, y   driver.DevicePtr
	n      int64
}

func (t *theirs) CUDAStream() (version int, handle uintptr) { return 0, uintptr(t.stream) }

func (t *theirs) tensor(p driver.DevicePtr) *dlpack.Desc {
	return &dlpack.Desc{
		Data: uintptr(p), Device: dlpack.Device{Type: dlpack.DeviceCUDA}, DType: dlpack.Float32, Shape: []int64{t.n}, Version: dlpack.ABIVersion,
	}
}

// saxpy is what a user of this library writes: y += a*x, on their stream.
func saxpy(s *device.Stream, k *launch.Kernel, a float32, x, y memview.StridedMemoryView) error {
	n := x.Size()
	cfg := launch.Config{Grid: launch.Cover(n, 256), Block: launch.D1(256)}
	return launch.Launch(s, cfg, k, y, x, a, launch.Int32(n))
}

func run(w io.Writer) (err error) {
	dev, err := device.Open(0)
	if err != nil {
		return err
	}
	code, err := load(dev)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, code.Close()) }()
	k, err := code.Kernel("saxpy")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()

	lib, err := newTheirs(dev, 1000)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lib.close()) }()

	s, err := device.Wrap(lib, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }() // theirs is not destroyed
	x, err := memview.FromDesc(lib.tensor(lib.x), memview.OnRelease(lib, func() error { return nil }))
	if err != nil {
		return err
	}
	y, err := memview.FromDesc(lib.tensor(lib.y), memview.OnRelease(lib, func() error { return nil }))
	if err != nil {
		return err
	}
	if err := saxpy(s, k, 2, x, y); err != nil {
		return err
	}
	sum, err := lib.sum()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "saxpy on %v: y[i] = 1 + 2*i, their sum is %.0f\n", dev, sum)

	// What does not fit is refused before the launch.
	err = launch.Launch(s, launch.Config{Grid: launch.D1(1), Block: launch.D1(1)}, k, y, x, 2.0, int32(1))
	fmt.Fprintln(w, "refused:", err)
	return errors.Join(x.Release(), y.Release())
}

// load compiles the kernel, or takes its twin in Go on the software device.
func load(dev *device.Device) (*launch.ObjectCode, error) {
	if dev.Driver().Provider() == driver.ProviderSoft {
		err := soft.RegisterKernel("saxpy", []soft.ParamInfo{soft.Ptr, soft.Ptr, soft.Float32, soft.Int32}, func(l *soft.Launch) {
			n := int(l.Int64(3))
			y, x, a := soft.Slice[float32](l, l.Ptr(0), n), soft.Slice[float32](l, l.Ptr(1), n), float32(l.Float64(2))
			for i := range n {
				y[i] += a * x[i]
			}
		})
		if err != nil {
			return nil, err
		}
		return launch.NewObjectCode(soft.Image("saxpy"), nil)
	}
	prog, err := launch.NewProgram(source, &launch.ProgramOptions{Name: "saxpy.cu", Device: dev})
	if err != nil {
		return nil, err
	}
	return prog.Compile(launch.FormatCubin, nil)
}
