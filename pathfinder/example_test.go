package pathfinder_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-handoff/handoff/pathfinder"
)

func Example() {
	lib, err := pathfinder.Load("nvrtc")
	var missing *pathfinder.NotFoundError
	switch {
	case errors.As(err, &missing):
		// The message lists every place that was looked at.
		fmt.Println("without NVRTC nothing can be compiled")
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Println(lib.Path, lib.Via, lib.Symbol("nvrtcVersion") != 0)
	}
}

func ExampleFinder_Binary() {
	// A toolkit in a place of its own.
	dir, err := os.MkdirTemp("", "toolkit")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		fmt.Println(err)
		return
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", "ptxas"), nil, 0o755); err != nil {
		fmt.Println(err)
		return
	}

	env := map[string]string{"CUDA_PATH": dir}
	f, err := pathfinder.New(&pathfinder.Options{Env: &pathfinder.Environment{
		Getenv: func(name string) string { return env[name] },
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	tool, err := f.Binary("ptxas")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tool.Name, "by", tool.Via)
	_, err = f.Binary("emacs")
	fmt.Println(err)
	// Output:
	// ptxas by CUDA_PATH
	// pathfinder: binary "emacs": unknown name
}
