/* Entry points that this project does not call but that libraries which run on
 * the software device do: other forms of calls in entries.h, and a few more.
 * The lines are as there; the functions are in exports_extra.go. */
#pragma once

#include "handoff/cuda_abi.h"

/* Parameters of cuCtxCreate_v4. */
typedef struct ho_ctx_create_params {
	ho_word exec_affinity;
	int num_exec_affinity;
	ho_word cig;
} ho_ctx_create_params;

/* One operation of cuStreamBatchMemOp. */
typedef struct ho_mem_op {
	int kind;
	int pad;
	ho_devptr addr;
	uint64_t value;
	uint32_t flags;
	uint32_t pad2;
	ho_devptr alias;
	uint64_t reserved;
} ho_mem_op;

_Static_assert(sizeof(ho_mem_op) == 48, "CUstreamBatchMemOpParams");

/* Attributes of a copy in a batch. */
typedef struct ho_memcpy_attributes {
	int access_order;
	ho_mem_location src, dst;
	uint32_t flags;
} ho_memcpy_attributes;

#define HO_SOFT_EXTRA(X) \
	X(cuCtxCreate_v3, cuCtxCreate_v3, 11040, ho_result, (ho_context *, ho_word, int, uint32_t, ho_device)) \
	X(cuCtxCreate_v4, cuCtxCreate_v4, 12050, ho_result, (ho_context *, ho_ctx_create_params *, uint32_t, ho_device)) \
	X(cuCtxGetDevice_v2, cuCtxGetDevice_v2, 13000, ho_result, (ho_device *, ho_context)) \
	X(cuCtxSynchronize_v2, cuCtxSynchronize_v2, 13000, ho_result, (ho_context)) \
	X(cuCtxRecordEvent, cuCtxRecordEvent, 12050, ho_result, (ho_context, ho_event)) \
	X(cuCtxWaitEvent, cuCtxWaitEvent, 12050, ho_result, (ho_context, ho_event)) \
	X(cuCtxResetPersistingL2Cache, cuCtxResetPersistingL2Cache, 11000, ho_result, (void)) \
	X(cuDeviceComputeCapability, cuDeviceComputeCapability, 2000, ho_result, (int *, int *, ho_device)) \
	X(cuDeviceGetExecAffinitySupport, cuDeviceGetExecAffinitySupport, 11040, ho_result, (int *, int, ho_device)) \
	X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040, ho_result, (ho_graph_exec *, ho_graph, uint64_t)) \
	X(cuStreamBatchMemOp, cuStreamBatchMemOp_v2, 11070, ho_result, (ho_stream, uint32_t, ho_mem_op *, uint32_t)) \
	X(cuMemGetDefaultMemPool, cuMemGetDefaultMemPool, 13000, ho_result, (ho_mem_pool *, ho_mem_location *, int)) \
	X(cuMemGetMemPool, cuMemGetMemPool, 13000, ho_result, (ho_mem_pool *, ho_mem_location *, int)) \
	X(cuMemSetMemPool, cuMemSetMemPool, 13000, ho_result, (ho_mem_location *, int, ho_mem_pool)) \
	X(cuMemcpyBatchAsync, cuMemcpyBatchAsync_v2, 13000, ho_result, (ho_devptr *, ho_devptr *, size_t *, size_t, ho_memcpy_attributes *, size_t *, size_t, ho_stream)) \
	X(cuKernelGetParamCount, cuKernelGetParamCount, 13020, ho_result, (ho_kernel, size_t *)) \
	X(cuFuncGetParamCount, cuFuncGetParamCount, 13020, ho_result, (ho_function, size_t *)) \
	X(cuStreamGetCtx_v2, cuStreamGetCtx_v2, 12050, ho_result, (ho_stream, ho_context *, ho_word *)) \
	X(cuEventElapsedTime_v2, cuEventElapsedTime_v2, 12080, ho_result, (float *, ho_event, ho_event))
