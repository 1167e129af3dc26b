//go:build cgo && linux

package launch_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/launch"
)

// increment loads a kernel that adds its second argument to where the first
// points: for the software device a Go function, for a GPU CUDA C++.
func increment() (*device.Stream, *launch.Kernel, error) {
	code, err := incrementCode()
	if err != nil {
		return nil, nil, err
	}
	defer code.Close() // the kernel keeps the code
	k, err := code.Kernel("increment")
	if err != nil {
		return nil, nil, err
	}
	dev, err := device.Open(0)
	if err != nil {
		return nil, nil, err
	}
	s, err := dev.NewStream(nil)
	return s, k, err
}

func incrementCode() (*launch.ObjectCode, error) {
	if os.Getenv("HANDOFF_DRIVER") == "cuda" {
		p, err := launch.NewProgram(`extern "C" __global__ void increment(unsigned *p, int n) { *p += n; }`, nil)
		if err != nil {
			return nil, err
		}
		return p.Compile(launch.FormatCubin, nil)
	}
	if err := soft.Enable(nil); err != nil {
		return nil, err
	}
	err := soft.RegisterKernel("increment", []soft.ParamInfo{soft.Ptr, soft.Int32}, func(l *soft.Launch) {
		p := soft.Slice[uint32](l, l.Ptr(0), 1)
		p[0] += uint32(l.Int64(1))
	})
	if err != nil {
		return nil, err
	}
	return launch.NewObjectCode(soft.Image("increment"), nil)
}

// Each argument is checked against the kernel's own table of parameters.
func ExampleLaunch() {
	s, k, err := increment()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	defer k.Close()
	b, err := s.Device().Allocate(4, s)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	if err := b.Fill32(40, s); err != nil {
		fmt.Println(err)
		return
	}
	cfg := launch.Config{Grid: launch.D1(1), Block: launch.D1(1)}
	n := 2
	fmt.Println(launch.Launch(s, cfg, k, b, n))
	fmt.Println(launch.Launch(s, cfg, k, b, launch.Int32(n)))
	p := make([]byte, 4)
	if err := b.CopyToHost(context.Background(), p, s); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(binary.NativeEndian.Uint32(p))
	// Output:
	// launch: kernel increment: argument 1: int has 8 bytes, the parameter has 4: use launch.Int32 if it is an int: bad kernel argument
	// <nil>
	// 42
}

// A prepared launch packs its arguments once.
func ExamplePrepare() {
	s, k, err := increment()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	defer k.Close()
	b, err := s.Device().Allocate(4, s)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	p, err := launch.Prepare(k, b, int32(0))
	if err != nil {
		fmt.Println(err)
		return
	}
	err = b.Fill32(0, s)
	for i := range int32(5) {
		err = errors.Join(err, launch.SetValue(p, 1, i), p.Launch(s, launch.Config{Grid: launch.D1(1), Block: launch.D1(1)}))
	}
	sum := make([]byte, 4)
	err = errors.Join(err, b.CopyToHost(context.Background(), sum, s))
	fmt.Println(binary.NativeEndian.Uint32(sum), err)
	// Output: 10 <nil>
}

// What is queued on a stream is recorded, and replayed with one call.
func ExampleRecord() {
	s, k, err := increment()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	b, err := s.Device().Allocate(4, s)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	g, err := launch.Record(s, func(*launch.Capture) error {
		if err := b.Fill32(100, s); err != nil {
			return err
		}
		return launch.Launch(s, launch.Config{Grid: launch.D1(1), Block: launch.D1(1)}, k, b, int32(1))
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	x, err := g.Instantiate(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer x.Close()
	// The graph keeps what it uses.
	err = errors.Join(g.Close(), k.Close())
	for range 3 {
		err = errors.Join(err, x.Launch(s))
	}
	p := make([]byte, 4)
	err = errors.Join(err, b.CopyToHost(context.Background(), p, s))
	fmt.Println(binary.NativeEndian.Uint32(p), err)
	// Output: 101 <nil>
}

// A graph that is made by hand says what depends on what.
func ExampleNewGraph() {
	s, k, err := increment()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	defer k.Close()
	b, err := s.Device().Allocate(4, s)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	g, err := launch.NewGraph(s.Context())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer g.Close()
	fill, err := g.Fill(b, 0, 5, 4, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := g.Launch(launch.Config{Grid: launch.D1(1), Block: launch.D1(1)}, k, []any{b, int32(6)}, fill); err != nil {
		fmt.Println(err)
		return
	}
	roots, err := g.Roots()
	if err != nil {
		fmt.Println(err)
		return
	}
	kind, err := roots[0].Kind()
	fmt.Println(len(roots), kind, err)
	// Output: 1 fill <nil>
}

// A node that no call on a stream makes, in the middle of a capture: here a
// second graph, as it is.
func ExampleCapture_Insert() {
	s, k, err := increment()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	defer k.Close()
	b, err := s.Device().Allocate(4, s)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	inc := func(*launch.Capture) error {
		return launch.Launch(s, launch.Config{Grid: launch.D1(1), Block: launch.D1(1)}, k, b, int32(1))
	}
	part, err := launch.Record(s, inc)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer part.Close()
	g, err := launch.Record(s, func(c *launch.Capture) error {
		if err := b.Fill32(10, s); err != nil {
			return err
		}
		err := c.Insert(s, func(g *launch.Graph, after []launch.Node) ([]launch.Node, error) {
			n, err := g.Child(part, after...)
			return []launch.Node{n}, err
		})
		return errors.Join(err, inc(c))
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer g.Close()
	x, err := g.Instantiate(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer x.Close()
	p := make([]byte, 4)
	err = errors.Join(x.Launch(s), b.CopyToHost(context.Background(), p, s))
	fmt.Println(binary.NativeEndian.Uint32(p), err)
	// Output: 12 <nil>
}
