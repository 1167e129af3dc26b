// Command lto compiles two sources on their own and links them with
// optimization across both: the function of one ends up inside the kernel of
// the other. This is how a library of kernels takes a user's function.
//
// It needs NVRTC and nvJitLink; without a GPU it links for an H200 and shows
// what came out.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/launch"
)

// The library's part calls a function that it does not have.
const library = `extern "C" __device__ int user(int);

extern "C" __global__ void map(int *p, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		p[i] = user(p[i]);
}`

// The user's part is the function.
const user = `extern "C" __device__ int user(int x) { return 3 * x + 1; }`

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "lto:", err)
		os.Exit(1)
	}
}

// link compiles both parts to intermediate code and makes machine code of them.
func link(dev *device.Device) (*launch.ObjectCode, error) {
	arch := ""
	if dev == nil {
		arch = "sm_90"
	}
	var parts []*launch.ObjectCode
	for name, source := range map[string]string{"map.cu": library, "user.cu": user} {
		prog, err := launch.NewProgram(source, &launch.ProgramOptions{Name: name, Arch: arch, Device: dev, RelocatableDeviceCode: launch.ToggleOn})
		if err != nil {
			return nil, err
		}
		part, err := prog.Compile(launch.FormatLTOIR, nil)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	linker, err := launch.NewLinker(&launch.LinkerOptions{Name: "map and user", Arch: arch, Device: dev, LTO: true})
	if err != nil {
		return nil, err
	}
	return linker.Link(launch.FormatCubin, parts...)
}

func run(ctx context.Context, w io.Writer) (err error) {
	dev, err := device.Open(0)
	if err != nil || dev.Driver().Provider() == driver.ProviderSoft {
		dev = nil // nobody who runs machine code
	}
	code, err := link(dev)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, code.Close()) }()
	params, err := code.ParamInfo("map")
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "linked to a %v with a kernel of %d parameters\n", code.Format(), len(params))
	if dev == nil {
		return nil
	}

	k, err := code.Kernel("map")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	s, err := dev.NewStream(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	b, err := dev.Allocate(4, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := b.Fill32(13, s); err != nil {
		return err
	}
	if err := launch.Launch(s, launch.Config{Grid: launch.D1(1), Block: launch.D1(32)}, k, b, int32(1)); err != nil {
		return err
	}
	p := make([]byte, 4)
	if err := b.CopyToHost(ctx, p, s); err != nil {
		return err
	}
	fmt.Fprintln(w, "map of 13 is", binary.NativeEndian.Uint32(p))
	return nil
}
