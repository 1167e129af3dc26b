// Package launch compiles, links, loads and launches kernels.
//
// [Program] compiles CUDA C++ (NVRTC), PTX and NVVM IR, [Linker] puts several
// pieces together, [ObjectCode] is the result and what comes from a file, and
// [Kernel] is one function of it. Compiling and linking need neither a GPU nor
// a driver, only the wheels or the toolkit that hold NVRTC and nvJitLink;
// loading needs a driver, or the software device.
//
//	prog, err := launch.NewProgram(source, &launch.ProgramOptions{Arch: "sm_90"})
//	...
//	code, err := prog.Compile(launch.FormatCubin)
//	...
//	defer code.Close()
//	k, err := code.Kernel("saxpy")
//	...
//	defer k.Close()
//
// # Launching
//
// [Launch] packs arguments against the kernel's own table of parameters and
// queues the kernel on a stream, which may be another library's; [Config] is
// its shape. [Prepare] packs once for many launches. A [TensorMap] describes an
// array to the device's copy engine. A [Graph] is work that is launched as a
// whole: captured from streams ([Record]), or made node by node.
//
//	cfg := launch.Config{Grid: launch.Cover(n, 256), Block: launch.D1(256)}
//	err = launch.Launch(s, cfg, k, y, x, float32(2), launch.Int32(n))
//
// Each library can be used alone through its own thin package: launch/nvrtc,
// launch/nvjitlink, launch/nvvm, launch/nvtx and launch/profiler.
//
// # Ownership
//
// A Kernel keeps the code that it belongs to loaded: an [ObjectCode] and its
// kernels may be closed in any order, and while another goroutine uses them.
// The code is unloaded with its last user. A graph keeps the kernels, buffers,
// events and functions of its nodes open, until it and everything made of it is
// closed and done. What is forgotten is given back
// when the collector finds it, and counted in [Statistics].
//
// # Errors
//
// A failed compilation is a [*CompileError] with the compiler's log and the
// source line that it is about; a launch that cannot be right is a
// [*ConfigError] or an [*ArgError], and is not made; a failed driver call is an
// [*Error]. Test for kinds with [errors.Is] and the sentinels of this package.
//
// # Concurrency
//
// Everything may be used from any number of goroutines at once.
package launch
