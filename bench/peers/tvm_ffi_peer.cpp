// The tvm-ffi side of the benchmark table, as its users write such functions.
// Built by build.py, loaded with tvm_ffi.load_module.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

namespace ffi = tvm::ffi;

static int64_t take1(ffi::TensorView a) { return a.size(0); }
static int64_t take3(ffi::TensorView a, ffi::TensorView b, ffi::TensorView c) {
	return a.size(0) + b.size(0) + c.size(0);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(take1, take1)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(take3, take3)
