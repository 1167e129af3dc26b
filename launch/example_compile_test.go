package launch_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/go-handoff/handoff/launch"
)

// Parameters of a kernel can be checked where there is no driver.
func ExampleObjectCode_ParamInfo() {
	ptx := []byte(`.version 8.0
.target sm_80
.visible .entry saxpy(.param .u64 y, .param .u64 x, .param .f32 a, .param .u32 n) { ret; }
`)
	code, err := launch.NewObjectCode(ptx, &launch.ObjectOptions{Name: "saxpy.ptx"})
	if err != nil {
		log.Fatal(err)
	}
	params, err := code.ParamInfo("saxpy")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(code.Format(), params)
	_, err = code.ParamInfo("daxpy")
	fmt.Println(err, errors.Is(err, launch.ErrNoKernel))
	// Output:
	// ptx [{0 8} {8 8} {16 4} {20 4}]
	// launch: parameters of kernel daxpy: the code has saxpy: no such kernel true
}

// A failed compilation says which line is meant.
func ExampleCompileError() {
	err := error(&launch.CompileError{
		Op: "compile bad.cu to cubin", Name: "bad.cu", Lib: "nvrtc", Code: 6, CodeName: "NVRTC_ERROR_COMPILATION",
		Log:    "bad.cu(2): error: identifier \"y\" is undefined\n",
		Source: "__global__ void f(int *p) {\n\t*p = y;\n}\n",
	})
	var e *launch.CompileError
	if errors.As(err, &e) {
		line, text, _ := e.Line()
		fmt.Printf("line %d: %q\n", line, text)
	}
	fmt.Println(errors.Is(err, launch.ErrCompile))
	// Output:
	// line 2: "\t*p = y;"
	// true
}

// A template is compiled for the types that name expressions give. It needs
// NVRTC, and no GPU.
func ExampleProgram_Compile() {
	prog, err := launch.NewProgram(`template <class T> __global__ void fill(T *p, T v) { p[threadIdx.x] = v; }`,
		&launch.ProgramOptions{Name: "fill.cu", Arch: "sm_90"})
	if err != nil {
		log.Fatal(err)
	}
	cache, err := launch.DefaultCache()
	if err != nil {
		log.Fatal(err)
	}
	code, err := prog.Compile(launch.FormatCubin, &launch.CompileOptions{Names: []string{"fill<float>", "fill<double>"}, Cache: cache})
	if err != nil {
		log.Fatal(err)
	}
	defer code.Close()
	params, err := code.ParamInfo("fill<double>")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(code.Symbols()["fill<double>"], params)
}
