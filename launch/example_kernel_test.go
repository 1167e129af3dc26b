//go:build cgo && linux

package launch_test

import (
	"fmt"
	"log"

	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/launch"
)

// What a kernel of the software device looks like: the same objects as on a
// GPU, with a Go function in place of machine code.
func ExampleObjectCode_Kernel() {
	if err := soft.Enable(nil); err != nil {
		log.Fatal(err)
	}
	if err := soft.RegisterKernel("scale", []soft.ParamInfo{soft.Ptr, soft.Int32, soft.Float32}, func(l *soft.Launch) {}); err != nil {
		log.Fatal(err)
	}
	code, err := launch.NewObjectCode(soft.Image("scale"), nil)
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
