// Compares our declarations with a real cuda.h: prototypes by the size, kind
// and alignment of each parameter, structures by the size, offset and size of
// each field. Compiled, never run. The numbers are compared by names.h, which
// the test writes (an older cuda.h lacks some).
#define _Static_assert static_assert
#define _Alignas alignas
extern "C" {
#include "handoff/entries.h"
}
#define __CUDA_API_VERSION_INTERNAL // every version of each call, none renamed
#include <cuda.h>
#if __has_include(<cudaProfiler.h>)
#include <cudaProfiler.h>
#else // of another package: only the names are needed for the loop below
extern "C" CUresult cuProfilerStart(void);
extern "C" CUresult cuProfilerStop(void);
#endif

#include <cstddef>
#include <type_traits>

template <class T> constexpr int kind()
{
	return std::is_floating_point_v<T> ? 1 : std::is_class_v<T> || std::is_union_v<T> ? 2 : 0;
}

template <class A, class B> constexpr bool passes_alike()
{
	return sizeof(A) == sizeof(B) && alignof(A) == alignof(B) && kind<A>() == kind<B>();
}

template <class F, class G> struct same;
template <class R, class... A, class S, class... B> struct same<R (*)(A...), S (*)(B...)> {
	static constexpr bool value()
	{
		if constexpr (sizeof...(A) != sizeof...(B))
			return false;
		else
			return passes_alike<R, S>() && (passes_alike<A, B>() && ... && true);
	}
};

#define PROTOTYPE(name, symbol, version, ret, params) \
	static_assert(same<decltype(ho_cuda_table::name), decltype(&symbol)>::value(), #symbol);
HO_CUDA_ENTRIES(PROTOTYPE)

#define SIZE(ours, theirs) static_assert(sizeof(ours) == sizeof(theirs) && alignof(ours) == alignof(theirs), #theirs);
#define FIELD(ours, a, theirs, b)                                                                        \
	static_assert(offsetof(ours, a) == offsetof(theirs, b) &&                                        \
			      sizeof(((ours *)nullptr)->a) == sizeof(((theirs *)nullptr)->b),            \
		      #theirs "." #b);

SIZE(ho_uuid, CUuuid)
SIZE(ho_ipc_event_handle, CUipcEventHandle)
SIZE(ho_ipc_mem_handle, CUipcMemHandle)
SIZE(ho_mem_pool_ptr_export, CUmemPoolPtrExportData)
static_assert(sizeof(ho_tensor_map) == sizeof(CUtensorMap) && alignof(ho_tensor_map) % alignof(CUtensorMap) == 0, "CUtensorMap");

SIZE(ho_mem_location, CUmemLocation)
FIELD(ho_mem_location, type, CUmemLocation, type)
FIELD(ho_mem_location, id, CUmemLocation, id)

SIZE(ho_mem_access_desc, CUmemAccessDesc)
FIELD(ho_mem_access_desc, location, CUmemAccessDesc, location)
FIELD(ho_mem_access_desc, flags, CUmemAccessDesc, flags)

SIZE(ho_mem_alloc_prop, CUmemAllocationProp)
FIELD(ho_mem_alloc_prop, type, CUmemAllocationProp, type)
FIELD(ho_mem_alloc_prop, handle_types, CUmemAllocationProp, requestedHandleTypes)
FIELD(ho_mem_alloc_prop, location, CUmemAllocationProp, location)
FIELD(ho_mem_alloc_prop, win32_meta, CUmemAllocationProp, win32HandleMetaData)
FIELD(ho_mem_alloc_prop, compression, CUmemAllocationProp, allocFlags.compressionType)
FIELD(ho_mem_alloc_prop, gpu_direct_rdma, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable)
FIELD(ho_mem_alloc_prop, usage, CUmemAllocationProp, allocFlags.usage)

SIZE(ho_mem_pool_props, CUmemPoolProps)
FIELD(ho_mem_pool_props, alloc_type, CUmemPoolProps, allocType)
FIELD(ho_mem_pool_props, handle_types, CUmemPoolProps, handleTypes)
FIELD(ho_mem_pool_props, location, CUmemPoolProps, location)
FIELD(ho_mem_pool_props, win32_security, CUmemPoolProps, win32SecurityAttributes)
FIELD(ho_mem_pool_props, max_size, CUmemPoolProps, maxSize)
FIELD(ho_mem_pool_props, usage, CUmemPoolProps, usage)

#define RECTANGLE(ours, theirs)                     \
	FIELD(ours, src_x_bytes, theirs, srcXInBytes) \
	FIELD(ours, src_y, theirs, srcY)              \
	FIELD(ours, src_type, theirs, srcMemoryType)  \
	FIELD(ours, src_host, theirs, srcHost)        \
	FIELD(ours, src_device, theirs, srcDevice)    \
	FIELD(ours, src_array, theirs, srcArray)      \
	FIELD(ours, src_pitch, theirs, srcPitch)      \
	FIELD(ours, dst_x_bytes, theirs, dstXInBytes) \
	FIELD(ours, dst_y, theirs, dstY)              \
	FIELD(ours, dst_type, theirs, dstMemoryType)  \
	FIELD(ours, dst_host, theirs, dstHost)        \
	FIELD(ours, dst_device, theirs, dstDevice)    \
	FIELD(ours, dst_array, theirs, dstArray)      \
	FIELD(ours, dst_pitch, theirs, dstPitch)      \
	FIELD(ours, width_bytes, theirs, WidthInBytes) \
	FIELD(ours, height, theirs, Height)
#define BOX(ours, theirs)                        \
	RECTANGLE(ours, theirs)                    \
	FIELD(ours, src_z, theirs, srcZ)           \
	FIELD(ours, src_lod, theirs, srcLOD)       \
	FIELD(ours, src_height, theirs, srcHeight) \
	FIELD(ours, dst_z, theirs, dstZ)           \
	FIELD(ours, dst_lod, theirs, dstLOD)       \
	FIELD(ours, dst_height, theirs, dstHeight) \
	FIELD(ours, depth, theirs, Depth)
SIZE(ho_memcpy2d, CUDA_MEMCPY2D)
RECTANGLE(ho_memcpy2d, CUDA_MEMCPY2D)
SIZE(ho_memcpy3d, CUDA_MEMCPY3D)
BOX(ho_memcpy3d, CUDA_MEMCPY3D)
SIZE(ho_memcpy3d_peer, CUDA_MEMCPY3D_PEER)
BOX(ho_memcpy3d_peer, CUDA_MEMCPY3D_PEER)
FIELD(ho_memcpy3d_peer, src_context, CUDA_MEMCPY3D_PEER, srcContext)
FIELD(ho_memcpy3d_peer, dst_context, CUDA_MEMCPY3D_PEER, dstContext)

SIZE(ho_access_policy_window, CUaccessPolicyWindow)
FIELD(ho_access_policy_window, base, CUaccessPolicyWindow, base_ptr)
FIELD(ho_access_policy_window, bytes, CUaccessPolicyWindow, num_bytes)
FIELD(ho_access_policy_window, hit_ratio, CUaccessPolicyWindow, hitRatio)
FIELD(ho_access_policy_window, hit, CUaccessPolicyWindow, hitProp)
FIELD(ho_access_policy_window, miss, CUaccessPolicyWindow, missProp)

SIZE(ho_launch_attribute_value, CUlaunchAttributeValue)
FIELD(ho_launch_attribute_value, cluster_dim, CUlaunchAttributeValue, clusterDim)
FIELD(ho_launch_attribute_value, programmatic_event.event, CUlaunchAttributeValue, programmaticEvent.event)
FIELD(ho_launch_attribute_value, programmatic_event.flags, CUlaunchAttributeValue, programmaticEvent.flags)
FIELD(ho_launch_attribute_value, programmatic_event.trigger_at_block_start, CUlaunchAttributeValue, programmaticEvent.triggerAtBlockStart)
FIELD(ho_launch_attribute_value, launch_completion_event.flags, CUlaunchAttributeValue, launchCompletionEvent.flags)
FIELD(ho_launch_attribute_value, priority, CUlaunchAttributeValue, priority)
FIELD(ho_launch_attribute_value, mem_sync_domain_map.remote, CUlaunchAttributeValue, memSyncDomainMap.remote)
FIELD(ho_launch_attribute_value, mem_sync_domain, CUlaunchAttributeValue, memSyncDomain)
FIELD(ho_launch_attribute_value, device_updatable_kernel_node.dev_node, CUlaunchAttributeValue, deviceUpdatableKernelNode.devNode)
SIZE(ho_launch_attribute, CUlaunchAttribute)
FIELD(ho_launch_attribute, id, CUlaunchAttribute, id)
FIELD(ho_launch_attribute, value, CUlaunchAttribute, value)
SIZE(ho_launch_config, CUlaunchConfig)
FIELD(ho_launch_config, grid_x, CUlaunchConfig, gridDimX)
FIELD(ho_launch_config, grid_z, CUlaunchConfig, gridDimZ)
FIELD(ho_launch_config, block_x, CUlaunchConfig, blockDimX)
FIELD(ho_launch_config, block_z, CUlaunchConfig, blockDimZ)
FIELD(ho_launch_config, shared_bytes, CUlaunchConfig, sharedMemBytes)
FIELD(ho_launch_config, stream, CUlaunchConfig, hStream)
FIELD(ho_launch_config, attrs, CUlaunchConfig, attrs)
FIELD(ho_launch_config, num_attrs, CUlaunchConfig, numAttrs)

SIZE(ho_graph_edge_data, CUgraphEdgeData)
FIELD(ho_graph_edge_data, from_port, CUgraphEdgeData, from_port)
FIELD(ho_graph_edge_data, to_port, CUgraphEdgeData, to_port)
FIELD(ho_graph_edge_data, type, CUgraphEdgeData, type)

#define KERNEL(theirs)                                                      \
	SIZE(ho_kernel_node_params, theirs)                                 \
	FIELD(ho_kernel_node_params, func, theirs, func)                    \
	FIELD(ho_kernel_node_params, grid_x, theirs, gridDimX)              \
	FIELD(ho_kernel_node_params, block_z, theirs, blockDimZ)            \
	FIELD(ho_kernel_node_params, shared_bytes, theirs, sharedMemBytes)  \
	FIELD(ho_kernel_node_params, params, theirs, kernelParams)          \
	FIELD(ho_kernel_node_params, extra, theirs, extra)                  \
	FIELD(ho_kernel_node_params, kern, theirs, kern)                    \
	FIELD(ho_kernel_node_params, ctx, theirs, ctx)
KERNEL(CUDA_KERNEL_NODE_PARAMS_v2)
KERNEL(CUDA_KERNEL_NODE_PARAMS_v3)

SIZE(ho_memcpy_node_params, CUDA_MEMCPY_NODE_PARAMS)
FIELD(ho_memcpy_node_params, ctx, CUDA_MEMCPY_NODE_PARAMS, copyCtx)
FIELD(ho_memcpy_node_params, copy, CUDA_MEMCPY_NODE_PARAMS, copyParams)

#define MEMSET(ours, theirs)                               \
	SIZE(ours, theirs)                                 \
	FIELD(ours, dst, theirs, dst)                      \
	FIELD(ours, pitch, theirs, pitch)                  \
	FIELD(ours, value, theirs, value)                  \
	FIELD(ours, element_size, theirs, elementSize)     \
	FIELD(ours, width, theirs, width)                  \
	FIELD(ours, height, theirs, height)
MEMSET(ho_memset_node_params, CUDA_MEMSET_NODE_PARAMS_v1)
MEMSET(ho_memset_node_params_ctx, CUDA_MEMSET_NODE_PARAMS_v2)
FIELD(ho_memset_node_params_ctx, ctx, CUDA_MEMSET_NODE_PARAMS_v2, ctx)

SIZE(ho_host_node_params, CUDA_HOST_NODE_PARAMS_v1)
FIELD(ho_host_node_params, fn, CUDA_HOST_NODE_PARAMS_v1, fn)
FIELD(ho_host_node_params, user, CUDA_HOST_NODE_PARAMS_v1, userData)
SIZE(ho_host_node_params, CUDA_HOST_NODE_PARAMS_v2)
FIELD(ho_child_graph_node_params, graph, CUDA_CHILD_GRAPH_NODE_PARAMS, graph)
SIZE(ho_event_node_params, CUDA_EVENT_RECORD_NODE_PARAMS)
SIZE(ho_event_node_params, CUDA_EVENT_WAIT_NODE_PARAMS)
SIZE(ho_mem_alloc_node_params, CUDA_MEM_ALLOC_NODE_PARAMS_v2)
FIELD(ho_mem_alloc_node_params, pool, CUDA_MEM_ALLOC_NODE_PARAMS_v2, poolProps)
FIELD(ho_mem_alloc_node_params, access, CUDA_MEM_ALLOC_NODE_PARAMS_v2, accessDescs)
FIELD(ho_mem_alloc_node_params, access_count, CUDA_MEM_ALLOC_NODE_PARAMS_v2, accessDescCount)
FIELD(ho_mem_alloc_node_params, bytes, CUDA_MEM_ALLOC_NODE_PARAMS_v2, bytesize)
FIELD(ho_mem_alloc_node_params, dptr, CUDA_MEM_ALLOC_NODE_PARAMS_v2, dptr)
SIZE(ho_mem_free_node_params, CUDA_MEM_FREE_NODE_PARAMS)
FIELD(ho_conditional_node_params, handle, CUDA_CONDITIONAL_NODE_PARAMS, handle)
FIELD(ho_conditional_node_params, type, CUDA_CONDITIONAL_NODE_PARAMS, type)
FIELD(ho_conditional_node_params, size, CUDA_CONDITIONAL_NODE_PARAMS, size)
FIELD(ho_conditional_node_params, bodies, CUDA_CONDITIONAL_NODE_PARAMS, phGraph_out)
SIZE(ho_graph_node_params, CUgraphNodeParams)
FIELD(ho_graph_node_params, type, CUgraphNodeParams, type)
FIELD(ho_graph_node_params, u.kernel, CUgraphNodeParams, kernel)
FIELD(ho_graph_node_params, u.copy, CUgraphNodeParams, memcpy)
FIELD(ho_graph_node_params, u.reserved1, CUgraphNodeParams, reserved1)
FIELD(ho_graph_node_params, reserved2, CUgraphNodeParams, reserved2)

SIZE(ho_graph_instantiate_params, CUDA_GRAPH_INSTANTIATE_PARAMS)
FIELD(ho_graph_instantiate_params, flags, CUDA_GRAPH_INSTANTIATE_PARAMS, flags)
FIELD(ho_graph_instantiate_params, upload_stream, CUDA_GRAPH_INSTANTIATE_PARAMS, hUploadStream)
FIELD(ho_graph_instantiate_params, error_node, CUDA_GRAPH_INSTANTIATE_PARAMS, hErrNode_out)
FIELD(ho_graph_instantiate_params, result, CUDA_GRAPH_INSTANTIATE_PARAMS, result_out)
SIZE(ho_graph_exec_update_result, CUgraphExecUpdateResultInfo)
FIELD(ho_graph_exec_update_result, result, CUgraphExecUpdateResultInfo, result)
FIELD(ho_graph_exec_update_result, error_node, CUgraphExecUpdateResultInfo, errorNode)
FIELD(ho_graph_exec_update_result, error_from_node, CUgraphExecUpdateResultInfo, errorFromNode)

#include "names.h"
#ifdef BREAK_ABI // the test's own test: this must not compile
FIELD(ho_memcpy2d, src_y, CUDA_MEMCPY2D, srcXInBytes)
#endif
