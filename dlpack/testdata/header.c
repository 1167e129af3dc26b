// Prints what can be said about the header in numbers: sizes, offsets and
// values, under their names. It also uses every function type, so that a
// difference in a prototype does not compile.
#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdio.h>
#ifndef DLPACK_DLPACK_H_
#error "another include guard"
#endif
#define SIZE(t) printf("sizeof " #t " %zu\n", sizeof(t))
#define FIELD(t, f) printf("offset " #t "." #f " %zu size %zu\n", offsetof(t, f), sizeof(((t *)0)->f))
#define VALUE(v) printf("value " #v " %lld\n", (long long)(v))

static int alloc(DLTensor *p, DLManagedTensorVersioned **out, void *ctx,
                 void (*set)(void *ctx, const char *kind, const char *message))
{ (void)p; (void)out; (void)ctx; (void)set; return 0; }
static int from(void *o, DLManagedTensorVersioned **out) { (void)o; (void)out; return 0; }
static int to(DLManagedTensorVersioned *m, void **out) { (void)m; (void)out; return 0; }
static int borrow(void *o, DLTensor *out) { (void)o; (void)out; return 0; }
static int stream(DLDeviceType t, int32_t id, void **out) { (void)t; (void)id; (void)out; return 0; }

int main(void)
{
	DLPackManagedTensorAllocator f1 = alloc;
	DLPackManagedTensorFromPyObjectNoSync f2 = from;
	DLPackManagedTensorToPyObjectNoSync f3 = to;
	DLPackDLTensorFromPyObjectNoSync f4 = borrow;
	DLPackCurrentWorkStream f5 = stream;
	DLPackExchangeAPI api;
	struct DLManagedTensor *tag1 = NULL;
	struct DLManagedTensorVersioned *tag2 = NULL;
	struct DLPackExchangeAPIHeader *tag3 = &api.header;
	api.managed_tensor_allocator = f1;
	api.managed_tensor_from_py_object_no_sync = f2;
	api.managed_tensor_to_py_object_no_sync = f3;
	api.dltensor_from_py_object_no_sync = f4;
	api.current_work_stream = f5;
	(void)tag1; (void)tag2; (void)tag3; (void)api;
	SIZE(DLPackVersion); FIELD(DLPackVersion, major); FIELD(DLPackVersion, minor);
	SIZE(DLDeviceType);
	SIZE(DLDevice); FIELD(DLDevice, device_type); FIELD(DLDevice, device_id);
	SIZE(DLDataType); FIELD(DLDataType, code); FIELD(DLDataType, bits); FIELD(DLDataType, lanes);
	SIZE(DLTensor); FIELD(DLTensor, data); FIELD(DLTensor, device); FIELD(DLTensor, ndim); FIELD(DLTensor, dtype);
	FIELD(DLTensor, shape); FIELD(DLTensor, strides); FIELD(DLTensor, byte_offset);
	SIZE(DLManagedTensor); FIELD(DLManagedTensor, dl_tensor); FIELD(DLManagedTensor, manager_ctx);
	FIELD(DLManagedTensor, deleter);
	SIZE(DLManagedTensorVersioned); FIELD(DLManagedTensorVersioned, version); FIELD(DLManagedTensorVersioned, manager_ctx);
	FIELD(DLManagedTensorVersioned, deleter); FIELD(DLManagedTensorVersioned, flags);
	FIELD(DLManagedTensorVersioned, dl_tensor);
	SIZE(DLPackExchangeAPIHeader); FIELD(DLPackExchangeAPIHeader, version); FIELD(DLPackExchangeAPIHeader, prev_api);
	SIZE(DLPackExchangeAPI); FIELD(DLPackExchangeAPI, header); FIELD(DLPackExchangeAPI, managed_tensor_allocator);
	FIELD(DLPackExchangeAPI, managed_tensor_from_py_object_no_sync);
	FIELD(DLPackExchangeAPI, managed_tensor_to_py_object_no_sync);
	FIELD(DLPackExchangeAPI, dltensor_from_py_object_no_sync); FIELD(DLPackExchangeAPI, current_work_stream);
	VALUE(DLPACK_FLAG_BITMASK_READ_ONLY); VALUE(DLPACK_FLAG_BITMASK_IS_COPIED);
	VALUE(DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
	VALUE(kDLCPU); VALUE(kDLCUDA); VALUE(kDLCUDAHost); VALUE(kDLOpenCL); VALUE(kDLVulkan); VALUE(kDLMetal);
	VALUE(kDLVPI); VALUE(kDLROCM); VALUE(kDLROCMHost); VALUE(kDLExtDev); VALUE(kDLCUDAManaged); VALUE(kDLOneAPI);
	VALUE(kDLWebGPU); VALUE(kDLHexagon); VALUE(kDLMAIA); VALUE(kDLTrn);
	VALUE(kDLInt); VALUE(kDLUInt); VALUE(kDLFloat); VALUE(kDLOpaqueHandle); VALUE(kDLBfloat); VALUE(kDLComplex);
	VALUE(kDLBool); VALUE(kDLFloat8_e3m4); VALUE(kDLFloat8_e4m3); VALUE(kDLFloat8_e4m3b11fnuz);
	VALUE(kDLFloat8_e4m3fn); VALUE(kDLFloat8_e4m3fnuz); VALUE(kDLFloat8_e5m2); VALUE(kDLFloat8_e5m2fnuz);
	VALUE(kDLFloat8_e8m0fnu); VALUE(kDLFloat6_e2m3fn); VALUE(kDLFloat6_e3m2fn); VALUE(kDLFloat4_e2m1fn);
	VALUE(DLPACK_MAJOR_VERSION);
	return 0;
}
