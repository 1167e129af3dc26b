// Command template_kernel compiles one template for several types, with a
// header from memory and a cache, and launches the instances.
//
// It needs NVRTC; without a GPU it compiles for an H200 and shows what came
// out.
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
	"github.com/go-handoff/handoff/launch"
)

const header = `template <typename T> struct square { __device__ T operator()(T x) const { return x * x; } };
template <typename T> struct half { __device__ T operator()(T x) const { return x / 2; } };`

const source = `#include "operations.h"

template <typename T, template <typename> class F> __global__ void apply(T *p, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		p[i] = F<T>()(p[i]);
}`

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "template_kernel:", err)
		os.Exit(1)
	}
}

// gpu returns the first device that runs what NVRTC makes, or nil.
func gpu() *device.Device {
	dev, err := device.Open(0)
	if err != nil || dev.Driver().Provider() == driver.ProviderSoft {
		return nil
	}
	return dev
}

func run(ctx context.Context, w io.Writer) (err error) {
	dev := gpu()
	opts := launch.ProgramOptions{Name: "apply.cu", Headers: map[string]string{"operations.h": header}, Device: dev}
	if dev == nil {
		opts.Arch = "sm_90"
	}
	prog, err := launch.NewProgram(source, &opts)
	if err != nil {
		return err
	}
	names := []string{"apply<double, square>", "apply<int, half>"}
	code, err := prog.Compile(launch.FormatCubin, &launch.CompileOptions{Names: names})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, code.Close()) }()
	for _, name := range names {
		params, err := code.ParamInfo(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s: %d parameters, the last of %d bytes\n", name, len(params), params[len(params)-1].Size)
	}
	if dev == nil {
		return nil
	}

	s, err := dev.NewStream(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	b, err := dev.Allocate(8, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	k, err := code.Kernel(names[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	p := make([]byte, 8)
	binary.NativeEndian.PutUint64(p, math.Float64bits(1.5))
	if err := b.CopyFromHostSync(ctx, p, s); err != nil {
		return err
	}
	if err := launch.Launch(s, launch.Config{Grid: launch.D1(1), Block: launch.D1(32)}, k, b, int32(1)); err != nil {
		return err
	}
	if err := b.CopyToHost(ctx, p, s); err != nil {
		return err
	}
	fmt.Fprintln(w, "1.5 squared is", math.Float64frombits(binary.NativeEndian.Uint64(p)))
	return nil
}
