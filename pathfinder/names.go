package pathfinder

// LibraryInfo describes a dynamic library that can be looked for.
type LibraryInfo struct {
	// Name is what [Load] takes, for example "nvrtc".
	Name string
	// Purpose says in a few words what the library is for.
	Purpose string
	// Driver says that the library comes with the driver and not with the
	// toolkit: only the system's loader knows where it is.
	Driver bool
	// Names12 and Names13 are the file names on Linux that CUDA 12 and CUDA 13
	// have, the preferred one first. A library of the driver, and one that is
	// released apart from the toolkit, has the same names in both.
	Names12, Names13 []string

	// dirs12 and dirs13 are directories in site-packages.
	dirs12, dirs13 []string
	// toolkit are directories below a toolkit or a conda prefix beside the
	// usual ones.
	toolkit []string
	// needs are libraries that have to be open before.
	needs []string
	// home is a variable that names where it was installed, apart from a toolkit.
	home     string
	homeDirs []string // below it, beside the usual ones
	// deep says that its own symbols go before those of the process.
	deep bool
}

// cu13 is where the packages for CUDA 13 put everything.
const cu13 = "nvidia/cu13/lib"

// ctk describes a library of the toolkit whose file names end in the given
// versions; dir is its directory in the packages for CUDA 12.
func ctk(name, purpose, so, v12, v13, dir string, needs ...string) LibraryInfo {
	return LibraryInfo{
		Name: name, Purpose: purpose, Names12: []string{so + "." + v12}, Names13: []string{so + "." + v13},
		dirs12: []string{"nvidia/" + dir}, dirs13: []string{cu13}, needs: needs,
	}
}

// apart describes a library that is released apart from the toolkit.
func apart(name, purpose, so string, dirs []string, needs ...string) LibraryInfo {
	return LibraryInfo{Name: name, Purpose: purpose, Names12: []string{so}, Names13: []string{so}, dirs12: dirs, dirs13: dirs, needs: needs}
}

func ofDriver(name, purpose, so string) LibraryInfo {
	return LibraryInfo{Name: name, Purpose: purpose, Driver: true, Names12: []string{so}, Names13: []string{so}}
}

var libraries = []LibraryInfo{
	ofDriver("cuda", "the CUDA driver", "libcuda.so.1"),
	ofDriver("nvml", "device management", "libnvidia-ml.so.1"),
	ofDriver("nvcudla", "driver side of cuDLA", "libnvcudla.so"),

	ctk("cudart", "CUDA runtime", "libcudart.so", "12", "13", "cuda_runtime/lib"),
	ctk("nvrtc", "run-time compiler for CUDA C++", "libnvrtc.so", "12", "13", "cuda_nvrtc/lib"),
	ctk("nvJitLink", "linker, link-time optimization", "libnvJitLink.so", "12", "13", "nvjitlink/lib"),
	{
		Name: "nvvm", Purpose: "compiler for NVVM IR",
		Names12: []string{"libnvvm.so.4", "libnvvm.so"}, Names13: []string{"libnvvm.so.4", "libnvvm.so"},
		dirs12: []string{"nvidia/cuda_nvcc/nvvm/lib64"}, dirs13: []string{cu13},
		toolkit: []string{"nvvm/lib64", "nvvm/lib"},
	},
	ctk("nvfatbin", "fat binaries", "libnvfatbin.so", "12", "13", "nvfatbin/lib"),
	ctk("cufile", "GPUDirect Storage", "libcufile.so", "0", "0", "cufile/lib"),
	{
		Name: "cupti", Purpose: "profiling and tracing",
		Names12: []string{"libcupti.so.12"}, Names13: []string{"libcupti.so.13"},
		dirs12: []string{"nvidia/cuda_cupti/lib"}, dirs13: []string{cu13},
		toolkit: []string{"extras/CUPTI/lib64", "extras/CUPTI/lib"},
	},
	withHome("NCCL_HOME", []string{"build/lib"}, apart("nccl", "communication between GPUs", "libnccl.so.2", []string{"nvidia/nccl/lib"})),

	ctk("cublas", "linear algebra", "libcublas.so", "12", "13", "cublas/lib", "cublasLt"),
	ctk("cublasLt", "linear algebra, light", "libcublasLt.so", "12", "13", "cublas/lib"),
	ctk("nvblas", "BLAS on GPUs", "libnvblas.so", "12", "13", "cublas/lib", "cublasLt", "cublas"),
	ctk("cufft", "Fourier transforms", "libcufft.so", "11", "12", "cufft/lib"),
	ctk("cufftw", "Fourier transforms, FFTW's interface", "libcufftw.so", "11", "12", "cufft/lib", "cufft"),
	{
		Name: "curand", Purpose: "random numbers",
		Names12: []string{"libcurand.so.10"}, Names13: []string{"libcurand.so.11", "libcurand.so.10"},
		dirs12: []string{"nvidia/curand/lib"}, dirs13: []string{cu13},
	},
	ctk("cusolver", "solvers", "libcusolver.so", "11", "12", "cusolver/lib", "nvJitLink", "cusparse", "cublasLt", "cublas"),
	ctk("cusolverMg", "solvers on several GPUs", "libcusolverMg.so", "11", "12", "cusolver/lib", "nvJitLink", "cublasLt", "cublas"),
	ctk("cusparse", "sparse matrices", "libcusparse.so", "12", "12", "cusparse/lib", "nvJitLink"),
	ctk("nvjpeg", "JPEG", "libnvjpeg.so", "12", "13", "nvjpeg/lib"),
	ctk("nppc", "image processing: core", "libnppc.so", "12", "13", "npp/lib"),
	npp("nppial", "arithmetic"), npp("nppicc", "colour"), npp("nppidei", "data exchange"), npp("nppif", "filters"),
	npp("nppig", "geometry"), npp("nppim", "morphology"), npp("nppist", "statistics"), npp("nppisu", "support"),
	npp("nppitc", "thresholds"), npp("npps", "signals"),
	apart("cudla", "deep learning accelerator", "libcudla.so.1", []string{cu13}),
	withHome("CUDNN_PATH", nil, apart("cudnn", "neural networks", "libcudnn.so.9", []string{"nvidia/cudnn/lib"}, "cublasLt")),
	apart("cusparseLt", "structured sparse matrices", "libcusparseLt.so.0", []string{cu13, "nvidia/cusparselt/lib"}),
	apart("cutensor", "tensor algebra", "libcutensor.so.2", []string{"cutensor/lib"}, "cublasLt"),
	apart("cutensorMg", "tensor algebra on several GPUs", "libcutensorMg.so.2", []string{"cutensor/lib"}, "cutensor", "cublasLt"),
	apart("cutensorMp", "tensor algebra in several processes", "libcutensorMp.so.2", []string{"cutensor/lib"}, "cutensor", "cublasLt", "cudart", "nccl"),
	apart("nvshmem_host", "memory shared between GPUs", "libnvshmem_host.so.3", []string{"nvidia/nvshmem/lib"}),

	apartBoth("cublasmp", "linear algebra in several processes", "libcublasmp.so.0", "nvidia/cublasmp/cu", "cublas", "cublasLt", "nvshmem_host"),
	{
		Name: "cufftMp", Purpose: "Fourier transforms in several processes", Names12: []string{"libcufftMp.so.11"}, Names13: []string{"libcufftMp.so.12"},
		dirs12: []string{"nvidia/cufftmp/cu12/lib"}, dirs13: []string{"nvidia/cufftmp/cu13/lib"}, needs: []string{"nvshmem_host"},
		deep: true, // it has functions of the same names as cufft
	},
	apartBoth("cusolverMp", "solvers in several processes", "libcusolverMp.so.0", "nvidia/cu", "cublas", "cudart", "cusolver", "nccl"),
	apartBoth("mathdx", "mathematics inside of kernels", "libmathdx.so.0", "nvidia/cu", "nvrtc"),
	{
		Name: "cudss", Purpose: "direct sparse solvers", Names12: []string{"libcudss.so.1", "libcudss.so.0"}, Names13: []string{"libcudss.so.1", "libcudss.so.0"},
		dirs12: []string{"nvidia/cu12/lib"}, dirs13: []string{cu13}, needs: []string{"cublas", "cublasLt"},
	},
	apart("cudensitymat", "quantum dynamics", "libcudensitymat.so.0", []string{cuquantum}, "cutensornet", "cutensor", "cusolver", "cublasLt", "cublas", "curand", "cusparse", "nvJitLink"),
	apart("cupauliprop", "Pauli propagation", "libcupauliprop.so.0", []string{cuquantum}),
	apart("cutensornet", "tensor networks", "libcutensornet.so.2", []string{cuquantum}, "cutensor", "cublas", "cusolver"),
	apart("custabilizer", "stabilizer circuits", "libcustabilizer.so.0", []string{cuquantum}),
	apart("custatevec", "state vectors", "libcustatevec.so.1", []string{cuquantum}, "cublas", "cublasLt"),
	apart("nvpl_fftw", "Fourier transforms on the host", "libnvpl_fftw.so.0", []string{"nvpl/lib"}),
}

// cuquantum is where the packages of cuQuantum put everything.
const cuquantum = "cuquantum/lib"

// apartBoth is apart with a directory for each toolkit, dir with 12 or 13.
func apartBoth(name, purpose, so, dir string, needs ...string) LibraryInfo {
	l := apart(name, purpose, so, nil, needs...)
	l.dirs12, l.dirs13 = []string{dir + "12/lib"}, []string{dir + "13/lib"}
	return l
}

// withHome adds the variable that says where a library was installed, and
// directories below there beside the usual ones.
func withHome(variable string, dirs []string, l LibraryInfo) LibraryInfo {
	l.home, l.homeDirs = variable, dirs
	return l
}

func npp(name, what string) LibraryInfo {
	return ctk(name, "image processing: "+what, "lib"+name+".so", "12", "13", "npp/lib", "nppc")
}

// fileInfo describes headers, a tool, or a library for linking: files that are
// found and not opened.
type fileInfo struct {
	name string
	// file marks the directory as the right one; it is what is looked for.
	file string
	// site are directories in site-packages, for CUDA 13 and for CUDA 12.
	site13, site12 []string
	// toolkit are directories below a toolkit, and below a conda prefix, where
	// "targets/*" stands for the one directory of that kind.
	toolkit []string
	// system are absolute directories to look in at last, which may be patterns.
	system []string
	// home is a variable that names where it was installed, homeDirs are
	// directories below there.
	home     string
	homeDirs []string
}

var (
	includeDirs = []string{"include", "targets/*/include"}
	libraryDirs = []string{"lib64", "lib", "targets/*/lib"}
)

func header(name, file, dir12 string) fileInfo {
	return fileInfo{
		name: name, file: file, site13: []string{"nvidia/cu13/include"}, site12: []string{"nvidia/" + dir12 + "/include"},
		toolkit: includeDirs,
	}
}

// headers are looked for by a header that each directory must have.
var headers = []fileInfo{
	header("cuda", "cuda.h", "cuda_runtime"),
	header("cudart", "cuda_runtime.h", "cuda_runtime"),
	header("nvrtc", "nvrtc.h", "cuda_nvrtc"),
	header("nvJitLink", "nvJitLink.h", "nvjitlink"),
	header("nvfatbin", "nvFatbin.h", "nvfatbin"),
	header("cufile", "cufile.h", "cufile"),
	header("profiler", "cuda_profiler_api.h", "cuda_profiler_api"),
	header("nvcc", "fatbinary_section.h", "cuda_nvcc"),
	header("nvtx", "nvtx3/nvToolsExt.h", "nvtx"),
	header("cublas", "cublas.h", "cublas"),
	header("cufft", "cufft.h", "cufft"),
	header("curand", "curand.h", "curand"),
	header("cusolver", "cusolverDn.h", "cusolver"),
	header("cusparse", "cusparse.h", "cusparse"),
	header("npp", "npp.h", "npp"),
	header("nvjpeg", "nvjpeg.h", "nvjpeg"),
	header("nvml", "nvml.h", "cuda_nvml_dev"),
	{
		name: "nvvm", file: "nvvm.h", site13: []string{"nvidia/cu13/include"}, site12: []string{"nvidia/cuda_nvcc/nvvm/include"},
		toolkit: []string{"nvvm/include", "include"},
	},
	{
		name: "cupti", file: "cupti.h", site13: []string{"nvidia/cu13/include"}, site12: []string{"nvidia/cuda_cupti/include"},
		toolkit: append([]string{"extras/CUPTI/include"}, includeDirs...),
	},
	{
		// CUDA 13 moved these headers into a directory of their own.
		name: "cccl", file: "cuda/std/version", site13: []string{"nvidia/cu13/include/cccl"}, site12: []string{"nvidia/cuda_cccl/include"},
		toolkit: []string{"include/cccl", "include", "targets/*/include/cccl", "targets/*/include"},
	},
	{
		name: "nccl", file: "nccl.h", site13: []string{"nvidia/nccl/include"}, site12: []string{"nvidia/nccl/include"},
		toolkit: includeDirs, system: systemIncludes, home: "NCCL_HOME", homeDirs: []string{"include", "build/include"},
	},
	{
		name: "cudnn", file: "cudnn.h", site13: []string{"nvidia/cudnn/include"}, site12: []string{"nvidia/cudnn/include"},
		toolkit: includeDirs, system: []string{"/usr/include", "/usr/local/include", "/usr/include/*-linux-gnu"}, home: "CUDNN_PATH", homeDirs: []string{"include"},
	},
	{
		name: "nvshmem", file: "nvshmem.h", site13: []string{"nvidia/nvshmem/include"}, site12: []string{"nvidia/nvshmem/include"},
		toolkit: includeDirs, system: []string{"/usr/include", "/usr/include/nvshmem_*"},
	},
	{
		name: "cudla", file: "cudla.h", site13: []string{"nvidia/cu13/include"}, toolkit: includeDirs,
	},
	headerApart("cusolverMp", "cusolverMp.h", "nvidia/cu13/include", "nvidia/cu12/include"),
	headerApart("cusparseLt", "cusparseLt.h", "nvidia/cu13/include", "nvidia/cusparselt/include"),
	headerApart("mathdx", "libmathdx.h", "nvidia/cu13/include", "nvidia/cu12/include"),
	headerApart("cutensor", "cutensor.h", "cutensor/include", "cutensor/include"),
	headerApart("cudensitymat", "cudensitymat.h", cuquantumInclude, cuquantumInclude),
	headerApart("cupauliprop", "cupauliprop.h", cuquantumInclude, cuquantumInclude),
	headerApart("cutensornet", "cutensornet.h", cuquantumInclude, cuquantumInclude),
	headerApart("custabilizer", "custabilizer.h", cuquantumInclude, cuquantumInclude),
	headerApart("custatevec", "custatevec.h", cuquantumInclude, cuquantumInclude),
	headerApart("cutlass", "cutlass/cutlass.h", cutlassInclude, cutlassInclude),
	headerApart("cute", "cute/tensor.hpp", cutlassInclude, cutlassInclude),
}

const (
	cuquantumInclude = "cuquantum/include"
	cutlassInclude   = "cutlass_library/source/include"
)

// systemIncludes are where the system's packages put headers.
var systemIncludes = []string{"/usr/include", "/usr/local/include"}

// headerApart describes headers that are released apart from the toolkit.
func headerApart(name, file, dir13, dir12 string) fileInfo {
	return fileInfo{name: name, file: file, site13: []string{dir13}, site12: []string{dir12}, toolkit: includeDirs}
}

func binary(name string, dirs12 ...string) fileInfo {
	i := fileInfo{name: name, file: name, site13: []string{"nvidia/cu13/bin"}, toolkit: []string{"bin"}}
	for _, d := range append(dirs12, "cuda_nvcc") {
		i.site12 = append(i.site12, "nvidia/"+d+"/bin")
	}
	return i
}

// binaries are tools. They must be executable.
var binaries = []fileInfo{
	binary("nvcc"), binary("ptxas"), binary("nvlink"), binary("fatbinary"), binary("bin2c"), binary("cudafe++"),
	binary("cuobjdump", "cuda_cuobjdump"), binary("nvdisasm", "cuda_nvdisasm"), binary("nvprune", "cuda_nvprune"),
	binary("cuda-gdb", "cuda_gdb"), binary("cuda-gdbserver", "cuda_gdb"),
	{
		name: "compute-sanitizer", file: "compute-sanitizer", site13: []string{"nvidia/cu13/bin"},
		site12: []string{"nvidia/cuda_sanitizer_api/bin", "nvidia/cuda_nvcc/bin"}, toolkit: []string{"bin", "compute-sanitizer"},
	},
	binary("nvprof"), binary("nsys", "nsight_systems"), binary("nsight-sys", "nsight_systems"),
	binary("ncu", "nsight_compute"), binary("nsight-compute", "nsight_compute"),
}

// bitcodes are libraries of LLVM bitcode.
var bitcodes = []fileInfo{
	{
		name: "device", file: "libdevice.10.bc", site13: []string{"nvidia/cu13/nvvm/libdevice"},
		site12: []string{"nvidia/cuda_nvcc/nvvm/libdevice"}, toolkit: []string{"nvvm/libdevice"},
	},
	{
		name: "nvshmem_device", file: "libnvshmem_device.bc", site13: []string{"nvidia/nvshmem/lib"},
		site12: []string{"nvidia/nvshmem/lib"}, toolkit: libraryDirs,
	},
	{
		name: "nccl_device", file: "libnccl_device.bc", site13: []string{"nvidia/nccl/lib"},
		site12: []string{"nvidia/nccl/lib"}, toolkit: libraryDirs,
	},
}

func static(name, dir12 string) fileInfo {
	return fileInfo{
		name: name, file: "lib" + name + ".a", site13: []string{cu13}, site12: []string{"nvidia/" + dir12 + "/lib"}, toolkit: libraryDirs,
	}
}

// statics are libraries for linking.
var statics = []fileInfo{
	static("cudadevrt", "cuda_runtime"),
	static("cudart_static", "cuda_runtime"),
	static("culibos", "cuda_runtime"),
	static("nvrtc_static", "cuda_nvrtc"),
	static("nvJitLink_static", "nvjitlink"),
	static("nvptxcompiler_static", "cuda_nvcc"),
	static("nvfatbin_static", "nvfatbin"),
}

// Libraries lists the dynamic libraries that can be looked for. The slices in
// it must not be changed.
func Libraries() []LibraryInfo { return append([]LibraryInfo(nil), libraries...) }

// HeaderNames lists what [Finder.Headers] knows.
func HeaderNames() []string { return namesOf(headers) }

// BinaryNames lists what [Finder.Binary] knows.
func BinaryNames() []string { return namesOf(binaries) }

// BitcodeNames lists what [Finder.Bitcode] knows.
func BitcodeNames() []string { return namesOf(bitcodes) }

// StaticNames lists what [Finder.Static] knows.
func StaticNames() []string { return namesOf(statics) }

func namesOf(files []fileInfo) []string {
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = f.name
	}
	return out
}
