//go:build cgo && linux

package launch_test

import (
	"fmt"
	"log"
	"os"

	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/launch"
)

// scaleCode is code with one kernel: for the software device a Go function,
// for a GPU CUDA C++.
func scaleCode() (*launch.ObjectCode, error) {
	if os.Getenv("HANDOFF_DRIVER") == "cuda" {
		p, err := launch.NewProgram(`extern "C" __global__ void scale(float *p, int n, float by) {}`, nil)
		if err != nil {
			return nil, err
		}
		return p.Compile(launch.FormatCubin, nil)
	}
	if err := soft.Enable(nil); err != nil {
		return nil, err
	}
	err := soft.RegisterKernel("scale", []soft.ParamInfo{soft.Ptr, soft.Int32, soft.Float32}, func(*soft.Launch) {})
	if err != nil {
		return nil, err
	}
	return launch.NewObjectCode(soft.Image("scale"), nil)
}

// What a kernel of the software device looks like: the same objects as on a
// GPU, with a Go function in place of machine code.
func ExampleObjectCode_Kernel() {
	code, err := scaleCode()
	if err != nil {
		log.Fatal(err)
	}
	k, err := code.Kernel("scale")
	if err != nil {
		log.Fatal(err)
	}
	defer k.Close()
	if err := code.Close(); err != nil { // the kernel keeps what it needs
		log.Fatal(err)
	}
	params, err := k.Params()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(k.Name(), params)
	// Output: scale [{0 8} {8 4} {12 4}]
}
