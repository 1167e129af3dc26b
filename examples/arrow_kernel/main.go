// Command arrow_kernel runs a kernel on a column of an Arrow record batch. The
// batch is made with an allocator of pinned memory, so that the kernel reads
// and writes the column where it is: it is never copied.
//
// It needs a GPU and NVRTC, or HANDOFF_DRIVER=soft for the software device. It
// is a Go module of its own because Arrow is heavy.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/launch"
	"github.com/go-handoff/handoff/memview"
)

const source = `extern "C" __global__ void vat(double *price, long long n)
{
	long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
	if (i < n)
		price[i] *= 1.25;
}`

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "arrow_kernel:", err)
		os.Exit(1)
	}
}

// column is a view of a column without nulls, which kernels reach because its
// memory is pinned. It keeps the array.
func column(a *array.Float64, dev *device.Device) (memview.StridedMemoryView, error) {
	if a.NullN() > 0 {
		return memview.StridedMemoryView{}, errors.New("the column has nulls")
	}
	a.Retain()
	return memview.FromDesc(&dlpack.Desc{
		Data: address(a.Float64Values()), Device: dlpack.Device{Type: dlpack.DeviceCUDAHost, ID: int32(dev.Ordinal())},
		DType: dlpack.Float64, Shape: []int64{int64(a.Len())}, Version: dlpack.ABIVersion,
	}, memview.OnRelease(a, func() error { a.Release(); return nil }))
}

func run(ctx context.Context, w io.Writer) (err error) {
	dev, err := device.Open(0)
	if err != nil {
		return err
	}
	s, err := dev.NewStream(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	mem := &pinned{s: s, buffers: map[*byte]*device.Buffer{}}
	defer func() { err = errors.Join(err, mem.close()) }()

	b := array.NewRecordBuilder(mem, arrow.NewSchema([]arrow.Field{
		{Name: "item", Type: arrow.BinaryTypes.String}, {Name: "price", Type: arrow.PrimitiveTypes.Float64},
	}, nil))
	defer b.Release()
	for i := range 1000 {
		b.Field(0).(*array.StringBuilder).Append(fmt.Sprint("item ", i))
		b.Field(1).(*array.Float64Builder).Append(float64(i))
	}
	batch := b.NewRecordBatch()
	defer batch.Release()

	code, err := load(dev)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, code.Close()) }()
	k, err := code.Kernel("vat")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()

	prices := batch.Column(1).(*array.Float64)
	v, err := column(prices, dev)
	if err != nil {
		return err
	}
	cfg := launch.Config{Grid: launch.Cover(v.Size(), 256), Block: launch.D1(256)}
	if err := launch.Launch(s, cfg, k, v, v.Size()); err != nil {
		return err
	}
	if err := s.Synchronize(ctx); err != nil { // the host reads the column next
		return err
	}
	fmt.Fprintf(w, "%s costs %.2f, %s costs %.2f\n", batch.Column(0).ValueStr(4), prices.Value(4), batch.Column(0).ValueStr(999), prices.Value(999))
	return v.Release()
}

// load compiles the kernel, or takes its twin in Go on the software device.
func load(dev *device.Device) (*launch.ObjectCode, error) {
	if dev.Driver().Provider() == driver.ProviderSoft {
		err := soft.RegisterKernel("vat", []soft.ParamInfo{soft.Ptr, soft.Int64}, func(l *soft.Launch) {
			for i, p := 0, soft.Slice[float64](l, l.Ptr(0), int(l.Int64(1))); i < len(p); i++ {
				p[i] *= 1.25
			}
		})
		if err != nil {
			return nil, err
		}
		return launch.NewObjectCode(soft.Image("vat"), nil)
	}
	prog, err := launch.NewProgram(source, &launch.ProgramOptions{Name: "vat.cu", Device: dev})
	if err != nil {
		return nil, err
	}
	return prog.Compile(launch.FormatCubin, nil)
}
