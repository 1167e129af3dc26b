//go:build cgo && linux

package device_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/soft"
)

// exampleDevice is the software device, unless HANDOFF_DRIVER=cuda asks for a
// GPU.
func exampleDevice() (*device.Device, error) {
	if os.Getenv("HANDOFF_DRIVER") != "cuda" {
		if err := soft.Enable(nil); err != nil {
			return nil, err
		}
	}
	return device.Open(0)
}

// Two streams, one buffer, one edge: the second stream copies what the first
// one fills, and the host waits once, for the result.
func Example() {
	dev, err := exampleDevice()
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := run(dev); err != nil {
		fmt.Println(err)
	}
	// Output: [42 0 0 0 42 0 0 0]
}

func run(dev *device.Device) (err error) {
	producer, err := dev.NewStream(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, producer.Close()) }()
	consumer, err := dev.NewStream(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, consumer.Close()) }()

	b, err := dev.Allocate(8, producer)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }() // after the work of both streams
	if err := b.Fill32(42, producer); err != nil {
		return err
	}
	if err := consumer.Wait(producer); err != nil {
		return err
	}
	out := make([]byte, b.Size())
	if err := b.CopyToHost(context.Background(), out, consumer); err != nil {
		return err
	}
	fmt.Println(out)
	return nil
}

// Asking for too much says what was asked for, and can be told from other
// errors.
func ExampleError() {
	dev, err := exampleDevice()
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := dev.NewStream(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	_, err = dev.Allocate(1<<50, s)
	fmt.Println(errors.Is(err, device.ErrOutOfMemory))
	var e *device.Error
	if errors.As(err, &e) {
		fmt.Println(e.Op, "|", e.Device, "|", e.Name())
	}
	// Output:
	// true
	// allocate 1125899906842624 bytes | 0 | CUDA_ERROR_OUT_OF_MEMORY
}

// A function runs when the work that is queued now is done, and nobody waits
// for it.
func ExampleDefer() {
	dev, err := exampleDevice()
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := dev.NewStream(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	err = device.Defer(s.View(), func(err error) { fmt.Println("the producer may have its memory back:", err) })
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := device.Flush(context.Background()); err != nil { // at shutdown
		fmt.Println(err)
	}
	// Output: the producer may have its memory back: <nil>
}

// Code that relies on the thread's current context gets it for as long as it
// runs.
func ExampleDevice_SetCurrent() {
	dev, err := exampleDevice()
	if err != nil {
		fmt.Println(err)
		return
	}
	restore, err := dev.SetCurrent()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() {
		if err := restore(); err != nil {
			fmt.Println(err)
		}
	}()
	now, err := device.CurrentContext()
	fmt.Println(now, err)
	// Output: primary context of device 0 <nil>
}
