// Package pathfinder finds and opens the parts of the CUDA toolkit that a
// program needs while it runs: dynamic libraries, header directories, tools,
// bitcode and static libraries of CUDA 12 and 13. Nothing of them is needed to
// build, and a missing one is an error that lists every place that was looked
// at.
//
//	lib, err := pathfinder.Load("nvrtc")
//	if err != nil { ... }            // says where it was looked for
//	fmt.Println(lib.Path, lib.Via)   // .../nvidia/cu13/lib/libnvrtc.so.13 site-packages
//	version := lib.Symbol("nvrtcVersion")
//
// # Order of the search
//
// A library that the process has loaded already is taken, whoever loaded it and
// from where: two copies of one library in a process do harm. Otherwise:
//
//  1. a file named in [Options.Files];
//  2. NVIDIA's Python packages, in the site-packages directories that
//     [Options.SitePackages] names, those of [Options.Python], else those that
//     VIRTUAL_ENV and the interpreter that runs this process have;
//  3. CONDA_PREFIX;
//  4. the system's loader, by the exact names of the table in [Libraries];
//  5. for cuDNN CUDNN_PATH, for NCCL NCCL_HOME;
//  6. CUDA_PATH, or CUDA_HOME if that is not set (an empty variable counts as
//     not set);
//  7. a toolkit whose libraries are in LD_LIBRARY_PATH, are loaded, or are known
//     to the system's loader;
//  8. /usr/local/cuda and /opt/cuda.
//
// Libraries of the driver (cuda, nvml, nvcudla) are left to the loader. Headers, tools,
// bitcode and static libraries have no loader: for them step 4 is left out. PATH
// is never searched. Where both versions of the toolkit are in one place the
// newer one is taken, unless [Options.CTK] says otherwise.
//
// # Ownership
//
// A library that was opened stays open until the process ends: closing one that
// runs threads or registered callbacks is not safe. A [Library] is a value that
// needs no release, and loading the same library twice gives the same handle.
//
// # Errors
//
// [ErrUnknown] for names that no table has, [*NotFoundError] (matching
// [ErrNotFound]) for what is not there, [ErrNotSupported] where libraries cannot
// be opened: without cgo and on systems other than Linux. The search for files
// works everywhere.
//
// # Concurrency
//
// A [Finder] may be used from several goroutines at once.
package pathfinder
