/* The driver's entry points that this project calls, one line each:
 *
 *   X(name, symbol, version, return type, (parameter types))
 *
 *   name     field of ho_cuda_table; what cuGetProcAddress is asked for, less
 *            a _v2 (the older form of a call, kept beside the newer one)
 *   symbol   the name that the library exports
 *   version  the CUDA version, as cuDriverGetVersion counts, whose form of the
 *            call this is and which is the oldest that has it
 *
 * The parameters are those of the CUDA driver API, in its order, with the
 * types of cuda_abi.h and without const (so that a provider's functions have
 * exactly these types).
 */
#pragma once

#include "cuda_abi.h"

#define HO_CUDA_ENTRIES(X) \
	/* version, errors */ \
	X(cuInit, cuInit, 2000, ho_result, (uint32_t)) \
	X(cuDriverGetVersion, cuDriverGetVersion, 2020, ho_result, (int *)) \
	X(cuGetErrorString, cuGetErrorString, 6000, ho_result, (int, char **)) \
	X(cuGetErrorName, cuGetErrorName, 6000, ho_result, (int, char **)) \
	/* device */ \
	X(cuDeviceGet, cuDeviceGet, 2000, ho_result, (ho_device *, int)) \
	X(cuDeviceGetCount, cuDeviceGetCount, 2000, ho_result, (int *)) \
	X(cuDeviceGetName, cuDeviceGetName, 2000, ho_result, (char *, int, ho_device)) \
	X(cuDeviceGetUuid, cuDeviceGetUuid_v2, 11040, ho_result, (ho_uuid *, ho_device)) \
	X(cuDeviceTotalMem, cuDeviceTotalMem_v2, 3020, ho_result, (size_t *, ho_device)) \
	X(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, ho_result, (int *, int, ho_device)) \
	X(cuDeviceGetByPCIBusId, cuDeviceGetByPCIBusId, 4010, ho_result, (ho_device *, char *)) \
	X(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010, ho_result, (char *, int, ho_device)) \
	X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, 4000, ho_result, (int *, ho_device, ho_device)) \
	X(cuDeviceGetP2PAttribute, cuDeviceGetP2PAttribute, 8000, ho_result, (int *, int, ho_device, ho_device)) \
	X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020, ho_result, (ho_mem_pool *, ho_device)) \
	X(cuDeviceGetMemPool, cuDeviceGetMemPool, 11020, ho_result, (ho_mem_pool *, ho_device)) \
	X(cuDeviceSetMemPool, cuDeviceSetMemPool, 11020, ho_result, (ho_device, ho_mem_pool)) \
	X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, ho_result, (ho_context *, ho_device)) \
	X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, 11000, ho_result, (ho_device)) \
	X(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000, ho_result, (ho_device, uint32_t *, int *)) \
	X(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2, 11000, ho_result, (ho_device, uint32_t)) \
	X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, 11000, ho_result, (ho_device)) \
	X(cuDeviceGetGraphMemAttribute, cuDeviceGetGraphMemAttribute, 11040, ho_result, (ho_device, int, void *)) \
	X(cuDeviceSetGraphMemAttribute, cuDeviceSetGraphMemAttribute, 11040, ho_result, (ho_device, int, void *)) \
	X(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim, 11040, ho_result, (ho_device)) \
	X(cuFlushGPUDirectRDMAWrites, cuFlushGPUDirectRDMAWrites, 11030, ho_result, (int, int)) \
	/* ctx */ \
	X(cuCtxCreate, cuCtxCreate_v2, 3020, ho_result, (ho_context *, uint32_t, ho_device)) \
	X(cuCtxDestroy, cuCtxDestroy_v2, 4000, ho_result, (ho_context)) \
	X(cuCtxPushCurrent, cuCtxPushCurrent_v2, 4000, ho_result, (ho_context)) \
	X(cuCtxPopCurrent, cuCtxPopCurrent_v2, 4000, ho_result, (ho_context *)) \
	X(cuCtxSetCurrent, cuCtxSetCurrent, 4000, ho_result, (ho_context)) \
	X(cuCtxGetCurrent, cuCtxGetCurrent, 4000, ho_result, (ho_context *)) \
	X(cuCtxGetDevice, cuCtxGetDevice, 2000, ho_result, (ho_device *)) \
	X(cuCtxSynchronize, cuCtxSynchronize, 2000, ho_result, (void)) \
	X(cuCtxGetFlags, cuCtxGetFlags, 7000, ho_result, (uint32_t *)) \
	X(cuCtxSetFlags, cuCtxSetFlags, 12010, ho_result, (uint32_t)) \
	X(cuCtxGetId, cuCtxGetId, 12000, ho_result, (ho_context, uint64_t *)) \
	X(cuCtxGetApiVersion, cuCtxGetApiVersion, 3020, ho_result, (ho_context, uint32_t *)) \
	X(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange, 5050, ho_result, (int *, int *)) \
	X(cuCtxGetLimit, cuCtxGetLimit, 3010, ho_result, (size_t *, int)) \
	X(cuCtxSetLimit, cuCtxSetLimit, 3010, ho_result, (int, size_t)) \
	X(cuCtxGetCacheConfig, cuCtxGetCacheConfig, 3020, ho_result, (int *)) \
	X(cuCtxSetCacheConfig, cuCtxSetCacheConfig, 3020, ho_result, (int)) \
	X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000, ho_result, (ho_context, uint32_t)) \
	X(cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, 4000, ho_result, (ho_context)) \
	/* memory */ \
	X(cuMemGetInfo, cuMemGetInfo_v2, 3020, ho_result, (size_t *, size_t *)) \
	X(cuMemAlloc, cuMemAlloc_v2, 3020, ho_result, (ho_devptr *, size_t)) \
	X(cuMemAllocPitch, cuMemAllocPitch_v2, 3020, ho_result, (ho_devptr *, size_t *, size_t, size_t, uint32_t)) \
	X(cuMemFree, cuMemFree_v2, 3020, ho_result, (ho_devptr)) \
	X(cuMemGetAddressRange, cuMemGetAddressRange_v2, 3020, ho_result, (ho_devptr *, size_t *, ho_devptr)) \
	X(cuMemAllocHost, cuMemAllocHost_v2, 3020, ho_result, (ho_word *, size_t)) \
	X(cuMemFreeHost, cuMemFreeHost, 2000, ho_result, (ho_word)) \
	X(cuMemHostAlloc, cuMemHostAlloc, 2020, ho_result, (ho_word *, size_t, uint32_t)) \
	X(cuMemHostRegister, cuMemHostRegister_v2, 6050, ho_result, (ho_word, size_t, uint32_t)) \
	X(cuMemHostUnregister, cuMemHostUnregister, 4000, ho_result, (ho_word)) \
	X(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, 3020, ho_result, (ho_devptr *, ho_word, uint32_t)) \
	X(cuMemHostGetFlags, cuMemHostGetFlags, 2030, ho_result, (uint32_t *, ho_word)) \
	X(cuMemAllocManaged, cuMemAllocManaged, 6000, ho_result, (ho_devptr *, size_t, uint32_t)) \
	X(cuMemPrefetchAsync, cuMemPrefetchAsync_v2, 12020, ho_result, (ho_devptr, size_t, ho_mem_location, uint32_t, ho_stream)) \
	X(cuMemAdvise, cuMemAdvise_v2, 12020, ho_result, (ho_devptr, size_t, int, ho_mem_location)) \
	X(cuMemRangeGetAttribute, cuMemRangeGetAttribute, 8000, ho_result, (void *, size_t, int, ho_devptr, size_t)) \
	X(cuMemcpy, cuMemcpy, 4000, ho_result, (ho_devptr, ho_devptr, size_t)) \
	X(cuMemcpyAsync, cuMemcpyAsync, 4000, ho_result, (ho_devptr, ho_devptr, size_t, ho_stream)) \
	X(cuMemcpyPeer, cuMemcpyPeer, 4000, ho_result, (ho_devptr, ho_context, ho_devptr, ho_context, size_t)) \
	X(cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000, ho_result, (ho_devptr, ho_context, ho_devptr, ho_context, size_t, ho_stream)) \
	X(cuMemcpyHtoD, cuMemcpyHtoD_v2, 3020, ho_result, (ho_devptr, ho_word, size_t)) \
	X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, 3020, ho_result, (ho_devptr, ho_word, size_t, ho_stream)) \
	X(cuMemcpyDtoH, cuMemcpyDtoH_v2, 3020, ho_result, (ho_word, ho_devptr, size_t)) \
	X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, 3020, ho_result, (ho_word, ho_devptr, size_t, ho_stream)) \
	X(cuMemcpyDtoD, cuMemcpyDtoD_v2, 3020, ho_result, (ho_devptr, ho_devptr, size_t)) \
	X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, 3020, ho_result, (ho_devptr, ho_devptr, size_t, ho_stream)) \
	X(cuMemcpy2D, cuMemcpy2D_v2, 3020, ho_result, (ho_memcpy2d *)) \
	X(cuMemcpy2DUnaligned, cuMemcpy2DUnaligned_v2, 3020, ho_result, (ho_memcpy2d *)) \
	X(cuMemcpy2DAsync, cuMemcpy2DAsync_v2, 3020, ho_result, (ho_memcpy2d *, ho_stream)) \
	X(cuMemcpy3D, cuMemcpy3D_v2, 3020, ho_result, (ho_memcpy3d *)) \
	X(cuMemcpy3DAsync, cuMemcpy3DAsync_v2, 3020, ho_result, (ho_memcpy3d *, ho_stream)) \
	X(cuMemcpy3DPeer, cuMemcpy3DPeer, 4000, ho_result, (ho_memcpy3d_peer *)) \
	X(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync, 4000, ho_result, (ho_memcpy3d_peer *, ho_stream)) \
	X(cuMemsetD8, cuMemsetD8_v2, 3020, ho_result, (ho_devptr, uint8_t, size_t)) \
	X(cuMemsetD16, cuMemsetD16_v2, 3020, ho_result, (ho_devptr, uint16_t, size_t)) \
	X(cuMemsetD32, cuMemsetD32_v2, 3020, ho_result, (ho_devptr, uint32_t, size_t)) \
	X(cuMemsetD2D8, cuMemsetD2D8_v2, 3020, ho_result, (ho_devptr, size_t, uint8_t, size_t, size_t)) \
	X(cuMemsetD2D16, cuMemsetD2D16_v2, 3020, ho_result, (ho_devptr, size_t, uint16_t, size_t, size_t)) \
	X(cuMemsetD2D32, cuMemsetD2D32_v2, 3020, ho_result, (ho_devptr, size_t, uint32_t, size_t, size_t)) \
	X(cuMemsetD8Async, cuMemsetD8Async, 3020, ho_result, (ho_devptr, uint8_t, size_t, ho_stream)) \
	X(cuMemsetD16Async, cuMemsetD16Async, 3020, ho_result, (ho_devptr, uint16_t, size_t, ho_stream)) \
	X(cuMemsetD32Async, cuMemsetD32Async, 3020, ho_result, (ho_devptr, uint32_t, size_t, ho_stream)) \
	X(cuMemsetD2D8Async, cuMemsetD2D8Async, 3020, ho_result, (ho_devptr, size_t, uint8_t, size_t, size_t, ho_stream)) \
	X(cuMemsetD2D16Async, cuMemsetD2D16Async, 3020, ho_result, (ho_devptr, size_t, uint16_t, size_t, size_t, ho_stream)) \
	X(cuMemsetD2D32Async, cuMemsetD2D32Async, 3020, ho_result, (ho_devptr, size_t, uint32_t, size_t, size_t, ho_stream)) \
	X(cuPointerGetAttribute, cuPointerGetAttribute, 4000, ho_result, (void *, int, ho_devptr)) \
	X(cuPointerGetAttributes, cuPointerGetAttributes, 7000, ho_result, (uint32_t, int *, void **, ho_devptr)) \
	X(cuPointerSetAttribute, cuPointerSetAttribute, 6000, ho_result, (void *, int, ho_devptr)) \
	X(cuMemAllocAsync, cuMemAllocAsync, 11020, ho_result, (ho_devptr *, size_t, ho_stream)) \
	X(cuMemFreeAsync, cuMemFreeAsync, 11020, ho_result, (ho_devptr, ho_stream)) \
	X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, ho_result, (ho_devptr *, size_t, ho_mem_pool, ho_stream)) \
	X(cuMemPoolCreate, cuMemPoolCreate, 11020, ho_result, (ho_mem_pool *, ho_mem_pool_props *)) \
	X(cuMemPoolDestroy, cuMemPoolDestroy, 11020, ho_result, (ho_mem_pool)) \
	X(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, ho_result, (ho_mem_pool, size_t)) \
	X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020, ho_result, (ho_mem_pool, int, void *)) \
	X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, ho_result, (ho_mem_pool, int, void *)) \
	X(cuMemPoolGetAccess, cuMemPoolGetAccess, 11020, ho_result, (int *, ho_mem_pool, ho_mem_location *)) \
	X(cuMemPoolSetAccess, cuMemPoolSetAccess, 11020, ho_result, (ho_mem_pool, ho_mem_access_desc *, size_t)) \
	X(cuMemPoolExportToShareableHandle, cuMemPoolExportToShareableHandle, 11020, ho_result, (void *, ho_mem_pool, int, uint64_t)) \
	X(cuMemPoolImportFromShareableHandle, cuMemPoolImportFromShareableHandle, 11020, ho_result, (ho_mem_pool *, ho_word, int, uint64_t)) \
	X(cuMemPoolExportPointer, cuMemPoolExportPointer, 11020, ho_result, (ho_mem_pool_ptr_export *, ho_devptr)) \
	X(cuMemPoolImportPointer, cuMemPoolImportPointer, 11020, ho_result, (ho_devptr *, ho_mem_pool, ho_mem_pool_ptr_export *)) \
	X(cuMemAddressReserve, cuMemAddressReserve, 10020, ho_result, (ho_devptr *, size_t, size_t, ho_devptr, uint64_t)) \
	X(cuMemAddressFree, cuMemAddressFree, 10020, ho_result, (ho_devptr, size_t)) \
	X(cuMemCreate, cuMemCreate, 10020, ho_result, (ho_mem_handle *, size_t, ho_mem_alloc_prop *, uint64_t)) \
	X(cuMemRelease, cuMemRelease, 10020, ho_result, (ho_mem_handle)) \
	X(cuMemMap, cuMemMap, 10020, ho_result, (ho_devptr, size_t, size_t, ho_mem_handle, uint64_t)) \
	X(cuMemUnmap, cuMemUnmap, 10020, ho_result, (ho_devptr, size_t)) \
	X(cuMemSetAccess, cuMemSetAccess, 10020, ho_result, (ho_devptr, size_t, ho_mem_access_desc *, size_t)) \
	X(cuMemGetAccess, cuMemGetAccess, 10020, ho_result, (uint64_t *, ho_mem_location *, ho_devptr)) \
	X(cuMemExportToShareableHandle, cuMemExportToShareableHandle, 10020, ho_result, (void *, ho_mem_handle, int, uint64_t)) \
	X(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, 10020, ho_result, (ho_mem_handle *, ho_word, int)) \
	X(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, 10020, ho_result, (size_t *, ho_mem_alloc_prop *, int)) \
	X(cuMemGetAllocationPropertiesFromHandle, cuMemGetAllocationPropertiesFromHandle, 10020, ho_result, (ho_mem_alloc_prop *, ho_mem_handle)) \
	X(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 11000, ho_result, (ho_mem_handle *, ho_word)) \
	X(cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange, 11070, ho_result, (void *, ho_devptr, size_t, int, uint64_t)) \
	/* IPC */ \
	X(cuIpcGetEventHandle, cuIpcGetEventHandle, 4010, ho_result, (ho_ipc_event_handle *, ho_event)) \
	X(cuIpcOpenEventHandle, cuIpcOpenEventHandle, 4010, ho_result, (ho_event *, ho_ipc_event_handle)) \
	X(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, ho_result, (ho_ipc_mem_handle *, ho_devptr)) \
	X(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, 11000, ho_result, (ho_devptr *, ho_ipc_mem_handle, uint32_t)) \
	X(cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010, ho_result, (ho_devptr)) \
	/* stream */ \
	X(cuStreamCreate, cuStreamCreate, 2000, ho_result, (ho_stream *, uint32_t)) \
	X(cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050, ho_result, (ho_stream *, uint32_t, int)) \
	X(cuStreamDestroy, cuStreamDestroy_v2, 4000, ho_result, (ho_stream)) \
	X(cuStreamGetPriority, cuStreamGetPriority, 5050, ho_result, (ho_stream, int *)) \
	X(cuStreamGetFlags, cuStreamGetFlags, 5050, ho_result, (ho_stream, uint32_t *)) \
	X(cuStreamGetId, cuStreamGetId, 12000, ho_result, (ho_stream, uint64_t *)) \
	X(cuStreamGetCtx, cuStreamGetCtx, 9020, ho_result, (ho_stream, ho_context *)) \
	X(cuStreamGetDevice, cuStreamGetDevice, 12080, ho_result, (ho_stream, ho_device *)) \
	X(cuStreamWaitEvent, cuStreamWaitEvent, 3020, ho_result, (ho_stream, ho_event, uint32_t)) \
	X(cuStreamQuery, cuStreamQuery, 2000, ho_result, (ho_stream)) \
	X(cuStreamSynchronize, cuStreamSynchronize, 2000, ho_result, (ho_stream)) \
	X(cuStreamAddCallback, cuStreamAddCallback, 5000, ho_result, (ho_stream, ho_stream_callback, ho_word, uint32_t)) \
	X(cuLaunchHostFunc, cuLaunchHostFunc, 10000, ho_result, (ho_stream, ho_host_fn, ho_word)) \
	X(cuStreamAttachMemAsync, cuStreamAttachMemAsync, 6000, ho_result, (ho_stream, ho_devptr, size_t, uint32_t)) \
	X(cuStreamCopyAttributes, cuStreamCopyAttributes, 11000, ho_result, (ho_stream, ho_stream)) \
	X(cuStreamGetAttribute, cuStreamGetAttribute, 11000, ho_result, (ho_stream, int, ho_launch_attribute_value *)) \
	X(cuStreamSetAttribute, cuStreamSetAttribute, 11000, ho_result, (ho_stream, int, ho_launch_attribute_value *)) \
	X(cuStreamBeginCapture, cuStreamBeginCapture_v2, 10010, ho_result, (ho_stream, int)) \
	X(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, 12030, ho_result, (ho_stream, ho_graph, ho_graph_node *, ho_graph_edge_data *, size_t, int)) \
	X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, 10010, ho_result, (int *)) \
	X(cuStreamEndCapture, cuStreamEndCapture, 10000, ho_result, (ho_stream, ho_graph *)) \
	X(cuStreamIsCapturing, cuStreamIsCapturing, 10000, ho_result, (ho_stream, int *)) \
	X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v3, 12030, ho_result, (ho_stream, int *, uint64_t *, ho_graph *, ho_graph_node **, ho_graph_edge_data **, size_t *)) \
	X(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2, 11030, ho_result, (ho_stream, int *, uint64_t *, ho_graph *, ho_graph_node **, size_t *)) \
	X(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_v2, 12030, ho_result, (ho_stream, ho_graph_node *, ho_graph_edge_data *, size_t, uint32_t)) \
	X(cuStreamWaitValue32, cuStreamWaitValue32_v2, 11070, ho_result, (ho_stream, ho_devptr, uint32_t, uint32_t)) \
	X(cuStreamWaitValue64, cuStreamWaitValue64_v2, 11070, ho_result, (ho_stream, ho_devptr, uint64_t, uint32_t)) \
	X(cuStreamWriteValue32, cuStreamWriteValue32_v2, 11070, ho_result, (ho_stream, ho_devptr, uint32_t, uint32_t)) \
	X(cuStreamWriteValue64, cuStreamWriteValue64_v2, 11070, ho_result, (ho_stream, ho_devptr, uint64_t, uint32_t)) \
	/* event */ \
	X(cuEventCreate, cuEventCreate, 2000, ho_result, (ho_event *, uint32_t)) \
	X(cuEventDestroy, cuEventDestroy_v2, 4000, ho_result, (ho_event)) \
	X(cuEventRecord, cuEventRecord, 2000, ho_result, (ho_event, ho_stream)) \
	X(cuEventRecordWithFlags, cuEventRecordWithFlags, 11010, ho_result, (ho_event, ho_stream, uint32_t)) \
	X(cuEventQuery, cuEventQuery, 2000, ho_result, (ho_event)) \
	X(cuEventSynchronize, cuEventSynchronize, 2000, ho_result, (ho_event)) \
	X(cuEventElapsedTime, cuEventElapsedTime, 2000, ho_result, (float *, ho_event, ho_event)) \
	/* module, library, kernel, function */ \
	X(cuModuleLoad, cuModuleLoad, 2000, ho_result, (ho_module *, char *)) \
	X(cuModuleLoadData, cuModuleLoadData, 2000, ho_result, (ho_module *, void *)) \
	X(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010, ho_result, (ho_module *, void *, uint32_t, int *, ho_word *)) \
	X(cuModuleLoadFatBinary, cuModuleLoadFatBinary, 2000, ho_result, (ho_module *, void *)) \
	X(cuModuleUnload, cuModuleUnload, 2000, ho_result, (ho_module)) \
	X(cuModuleGetLoadingMode, cuModuleGetLoadingMode, 11070, ho_result, (int *)) \
	X(cuModuleGetFunction, cuModuleGetFunction, 2000, ho_result, (ho_function *, ho_module, char *)) \
	X(cuModuleGetGlobal, cuModuleGetGlobal_v2, 3020, ho_result, (ho_devptr *, size_t *, ho_module, char *)) \
	X(cuModuleGetFunctionCount, cuModuleGetFunctionCount, 12040, ho_result, (uint32_t *, ho_module)) \
	X(cuModuleEnumerateFunctions, cuModuleEnumerateFunctions, 12040, ho_result, (ho_function *, uint32_t, ho_module)) \
	X(cuLibraryLoadData, cuLibraryLoadData, 12000, ho_result, (ho_library *, void *, int *, ho_word *, uint32_t, int *, ho_word *, uint32_t)) \
	X(cuLibraryLoadFromFile, cuLibraryLoadFromFile, 12000, ho_result, (ho_library *, char *, int *, ho_word *, uint32_t, int *, ho_word *, uint32_t)) \
	X(cuLibraryUnload, cuLibraryUnload, 12000, ho_result, (ho_library)) \
	X(cuLibraryGetKernel, cuLibraryGetKernel, 12000, ho_result, (ho_kernel *, ho_library, char *)) \
	X(cuLibraryGetKernelCount, cuLibraryGetKernelCount, 12040, ho_result, (uint32_t *, ho_library)) \
	X(cuLibraryEnumerateKernels, cuLibraryEnumerateKernels, 12040, ho_result, (ho_kernel *, uint32_t, ho_library)) \
	X(cuLibraryGetModule, cuLibraryGetModule, 12000, ho_result, (ho_module *, ho_library)) \
	X(cuLibraryGetGlobal, cuLibraryGetGlobal, 12000, ho_result, (ho_devptr *, size_t *, ho_library, char *)) \
	X(cuLibraryGetManaged, cuLibraryGetManaged, 12000, ho_result, (ho_devptr *, size_t *, ho_library, char *)) \
	X(cuLibraryGetUnifiedFunction, cuLibraryGetUnifiedFunction, 12000, ho_result, (ho_word *, ho_library, char *)) \
	X(cuKernelGetFunction, cuKernelGetFunction, 12000, ho_result, (ho_function *, ho_kernel)) \
	X(cuKernelGetLibrary, cuKernelGetLibrary, 12050, ho_result, (ho_library *, ho_kernel)) \
	X(cuKernelGetAttribute, cuKernelGetAttribute, 12000, ho_result, (int *, int, ho_kernel, ho_device)) \
	X(cuKernelSetAttribute, cuKernelSetAttribute, 12000, ho_result, (int, int, ho_kernel, ho_device)) \
	X(cuKernelSetCacheConfig, cuKernelSetCacheConfig, 12000, ho_result, (ho_kernel, int, ho_device)) \
	X(cuKernelGetName, cuKernelGetName, 12030, ho_result, (char **, ho_kernel)) \
	X(cuKernelGetParamInfo, cuKernelGetParamInfo, 12040, ho_result, (ho_kernel, size_t, size_t *, size_t *)) \
	X(cuFuncGetAttribute, cuFuncGetAttribute, 2020, ho_result, (int *, int, ho_function)) \
	X(cuFuncSetAttribute, cuFuncSetAttribute, 9000, ho_result, (ho_function, int, int)) \
	X(cuFuncSetCacheConfig, cuFuncSetCacheConfig, 3000, ho_result, (ho_function, int)) \
	X(cuFuncGetModule, cuFuncGetModule, 11000, ho_result, (ho_module *, ho_function)) \
	X(cuFuncGetName, cuFuncGetName, 12030, ho_result, (char **, ho_function)) \
	X(cuFuncGetParamInfo, cuFuncGetParamInfo, 12040, ho_result, (ho_function, size_t, size_t *, size_t *)) \
	X(cuFuncIsLoaded, cuFuncIsLoaded, 12040, ho_result, (int *, ho_function)) \
	X(cuFuncLoad, cuFuncLoad, 12040, ho_result, (ho_function)) \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, ho_result, (int *, ho_function, int, size_t)) \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000, ho_result, (int *, ho_function, int, size_t, uint32_t)) \
	X(cuOccupancyMaxPotentialBlockSize, cuOccupancyMaxPotentialBlockSize, 6050, ho_result, (int *, int *, ho_function, ho_occupancy_fn, size_t, int)) \
	X(cuOccupancyMaxPotentialBlockSizeWithFlags, cuOccupancyMaxPotentialBlockSizeWithFlags, 7000, ho_result, (int *, int *, ho_function, ho_occupancy_fn, size_t, int, uint32_t)) \
	X(cuOccupancyAvailableDynamicSMemPerBlock, cuOccupancyAvailableDynamicSMemPerBlock, 10020, ho_result, (size_t *, ho_function, int, int)) \
	X(cuOccupancyMaxPotentialClusterSize, cuOccupancyMaxPotentialClusterSize, 11070, ho_result, (int *, ho_function, ho_launch_config *)) \
	X(cuOccupancyMaxActiveClusters, cuOccupancyMaxActiveClusters, 11070, ho_result, (int *, ho_function, ho_launch_config *)) \
	X(cuLaunchKernel, cuLaunchKernel, 4000, ho_result, (ho_function, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, ho_stream, void **, ho_word *)) \
	X(cuLaunchKernelEx, cuLaunchKernelEx, 11060, ho_result, (ho_launch_config *, ho_function, void **, ho_word *)) \
	X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000, ho_result, (ho_function, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, ho_stream, void **)) \
	/* linker */ \
	X(cuLinkCreate, cuLinkCreate_v2, 6050, ho_result, (uint32_t, int *, ho_word *, ho_link_state *)) \
	X(cuLinkAddData, cuLinkAddData_v2, 6050, ho_result, (ho_link_state, int, void *, size_t, char *, uint32_t, int *, ho_word *)) \
	X(cuLinkAddFile, cuLinkAddFile_v2, 6050, ho_result, (ho_link_state, int, char *, uint32_t, int *, ho_word *)) \
	X(cuLinkComplete, cuLinkComplete, 5050, ho_result, (ho_link_state, void **, size_t *)) \
	X(cuLinkDestroy, cuLinkDestroy, 5050, ho_result, (ho_link_state)) \
	/* tensor map */ \
	X(cuTensorMapEncodeTiled, cuTensorMapEncodeTiled, 12000, ho_result, (ho_tensor_map *, int, uint32_t, ho_word, uint64_t *, uint64_t *, uint32_t *, uint32_t *, int, int, int, int)) \
	X(cuTensorMapReplaceAddress, cuTensorMapReplaceAddress, 12000, ho_result, (ho_tensor_map *, ho_word)) \
	/* graph */ \
	X(cuGraphCreate, cuGraphCreate, 10000, ho_result, (ho_graph *, uint32_t)) \
	X(cuGraphDestroy, cuGraphDestroy, 10000, ho_result, (ho_graph)) \
	X(cuGraphClone, cuGraphClone, 10000, ho_result, (ho_graph *, ho_graph)) \
	X(cuGraphAddNode, cuGraphAddNode_v2, 12030, ho_result, (ho_graph_node *, ho_graph, ho_graph_node *, ho_graph_edge_data *, size_t, ho_graph_node_params *)) \
	X(cuGraphNodeSetParams, cuGraphNodeSetParams, 12020, ho_result, (ho_graph_node, ho_graph_node_params *)) \
	X(cuGraphExecNodeSetParams, cuGraphExecNodeSetParams, 12020, ho_result, (ho_graph_exec, ho_graph_node, ho_graph_node_params *)) \
	X(cuGraphAddKernelNode, cuGraphAddKernelNode_v2, 12000, ho_result, (ho_graph_node *, ho_graph, ho_graph_node *, size_t, ho_kernel_node_params *)) \
	X(cuGraphKernelNodeGetParams, cuGraphKernelNodeGetParams_v2, 12000, ho_result, (ho_graph_node, ho_kernel_node_params *)) \
	X(cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams_v2, 12000, ho_result, (ho_graph_node, ho_kernel_node_params *)) \
	X(cuGraphKernelNodeCopyAttributes, cuGraphKernelNodeCopyAttributes, 11000, ho_result, (ho_graph_node, ho_graph_node)) \
	X(cuGraphKernelNodeGetAttribute, cuGraphKernelNodeGetAttribute, 11000, ho_result, (ho_graph_node, int, ho_launch_attribute_value *)) \
	X(cuGraphKernelNodeSetAttribute, cuGraphKernelNodeSetAttribute, 11000, ho_result, (ho_graph_node, int, ho_launch_attribute_value *)) \
	X(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, 10000, ho_result, (ho_graph_node *, ho_graph, ho_graph_node *, size_t, ho_memcpy3d *, ho_context)) \
	X(cuGraphMemcpyNodeGetParams, cuGraphMemcpyNodeGetParams, 10000, ho_result, (ho_graph_node, ho_memcpy3d *)) \
	X(cuGraphMemcpyNodeSetParams, cuGraphMemcpyNodeSetParams, 10000, ho_result, (ho_graph_node, ho_memcpy3d *)) \
	X(cuGraphAddMemsetNode, cuGraphAddMemsetNode, 10000, ho_result, (ho_graph_node *, ho_graph, ho_graph_node *, size_t, ho_memset_node_params *, ho_context)) \
	X(cuGraphMemsetNodeGetParams, cuGraphMemsetNodeGetParams, 10000, ho_result, (ho_graph_node, ho_memset_node_params *)) \
	X(cuGraphMemsetNodeSetParams, cuGraphMemsetNodeSetParams, 10000, ho_result, (ho_graph_node, ho_memset_node_params *)) \
	X(cuGraphAddHostNode, cuGraphAddHostNode, 10000, ho_result, (ho_graph_node *, ho_graph, ho_graph_node *, size_t, ho_host_node_params *)) \
	X(cuGraphHostNodeGetParams, cuGraphHostNodeGetParams, 10000, ho_result, (ho_graph_node, ho_host_node_params *)) \
	X(cuGraphHostNodeSetParams, cuGraphHostNodeSetParams, 10000, ho_result, (ho_graph_node, ho_host_node_params *)) \
	X(cuGraphAddChildGraphNode, cuGraphAddChildGraphNode, 10000, ho_result, (ho_graph_node *, ho_graph, ho_graph_node *, size_t, ho_graph)) \
	X(cuGraphChildGraphNodeGetGraph, cuGraphChildGraphNodeGetGraph, 10000, ho_result, (ho_graph_node, ho_graph *)) \
	X(cuGraphAddEmptyNode, cuGraphAddEmptyNode, 10000, ho_result, (ho_graph_node *, ho_graph, ho_graph_node *, size_t)) \
	X(cuGraphAddEventRecordNode, cuGraphAddEventRecordNode, 11010, ho_result, (ho_graph_node *, ho_graph, ho_graph_node *, size_t, ho_event)) \
	X(cuGraphEventRecordNodeGetEvent, cuGraphEventRecordNodeGetEvent, 11010, ho_result, (ho_graph_node, ho_event *)) \
	X(cuGraphEventRecordNodeSetEvent, cuGraphEventRecordNodeSetEvent, 11010, ho_result, (ho_graph_node, ho_event)) \
	X(cuGraphAddEventWaitNode, cuGraphAddEventWaitNode, 11010, ho_result, (ho_graph_node *, ho_graph, ho_graph_node *, size_t, ho_event)) \
	X(cuGraphEventWaitNodeGetEvent, cuGraphEventWaitNodeGetEvent, 11010, ho_result, (ho_graph_node, ho_event *)) \
	X(cuGraphEventWaitNodeSetEvent, cuGraphEventWaitNodeSetEvent, 11010, ho_result, (ho_graph_node, ho_event)) \
	X(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, 11040, ho_result, (ho_graph_node *, ho_graph, ho_graph_node *, size_t, ho_mem_alloc_node_params *)) \
	X(cuGraphMemAllocNodeGetParams, cuGraphMemAllocNodeGetParams, 11040, ho_result, (ho_graph_node, ho_mem_alloc_node_params *)) \
	X(cuGraphAddMemFreeNode, cuGraphAddMemFreeNode, 11040, ho_result, (ho_graph_node *, ho_graph, ho_graph_node *, size_t, ho_devptr)) \
	X(cuGraphMemFreeNodeGetParams, cuGraphMemFreeNodeGetParams, 11040, ho_result, (ho_graph_node, ho_devptr *)) \
	X(cuGraphNodeFindInClone, cuGraphNodeFindInClone, 10000, ho_result, (ho_graph_node *, ho_graph_node, ho_graph)) \
	X(cuGraphNodeGetType, cuGraphNodeGetType, 10000, ho_result, (ho_graph_node, int *)) \
	X(cuGraphGetNodes, cuGraphGetNodes, 10000, ho_result, (ho_graph, ho_graph_node *, size_t *)) \
	X(cuGraphGetRootNodes, cuGraphGetRootNodes, 10000, ho_result, (ho_graph, ho_graph_node *, size_t *)) \
	X(cuGraphGetEdges, cuGraphGetEdges_v2, 12030, ho_result, (ho_graph, ho_graph_node *, ho_graph_node *, ho_graph_edge_data *, size_t *)) \
	X(cuGraphNodeGetDependencies, cuGraphNodeGetDependencies_v2, 12030, ho_result, (ho_graph_node, ho_graph_node *, ho_graph_edge_data *, size_t *)) \
	X(cuGraphNodeGetDependentNodes, cuGraphNodeGetDependentNodes_v2, 12030, ho_result, (ho_graph_node, ho_graph_node *, ho_graph_edge_data *, size_t *)) \
	X(cuGraphAddDependencies, cuGraphAddDependencies_v2, 12030, ho_result, (ho_graph, ho_graph_node *, ho_graph_node *, ho_graph_edge_data *, size_t)) \
	X(cuGraphRemoveDependencies, cuGraphRemoveDependencies_v2, 12030, ho_result, (ho_graph, ho_graph_node *, ho_graph_node *, ho_graph_edge_data *, size_t)) \
	X(cuGraphDestroyNode, cuGraphDestroyNode, 10000, ho_result, (ho_graph_node)) \
	X(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams, 12000, ho_result, (ho_graph_exec *, ho_graph, ho_graph_instantiate_params *)) \
	X(cuGraphExecGetFlags, cuGraphExecGetFlags, 12000, ho_result, (ho_graph_exec, uint64_t *)) \
	X(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams_v2, 12000, ho_result, (ho_graph_exec, ho_graph_node, ho_kernel_node_params *)) \
	X(cuGraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, 10020, ho_result, (ho_graph_exec, ho_graph_node, ho_memcpy3d *, ho_context)) \
	X(cuGraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams, 10020, ho_result, (ho_graph_exec, ho_graph_node, ho_memset_node_params *, ho_context)) \
	X(cuGraphExecHostNodeSetParams, cuGraphExecHostNodeSetParams, 10020, ho_result, (ho_graph_exec, ho_graph_node, ho_host_node_params *)) \
	X(cuGraphExecChildGraphNodeSetParams, cuGraphExecChildGraphNodeSetParams, 11010, ho_result, (ho_graph_exec, ho_graph_node, ho_graph)) \
	X(cuGraphExecEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent, 11010, ho_result, (ho_graph_exec, ho_graph_node, ho_event)) \
	X(cuGraphExecEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent, 11010, ho_result, (ho_graph_exec, ho_graph_node, ho_event)) \
	X(cuGraphNodeSetEnabled, cuGraphNodeSetEnabled, 11060, ho_result, (ho_graph_exec, ho_graph_node, uint32_t)) \
	X(cuGraphNodeGetEnabled, cuGraphNodeGetEnabled, 11060, ho_result, (ho_graph_exec, ho_graph_node, uint32_t *)) \
	X(cuGraphUpload, cuGraphUpload, 11010, ho_result, (ho_graph_exec, ho_stream)) \
	X(cuGraphLaunch, cuGraphLaunch, 10000, ho_result, (ho_graph_exec, ho_stream)) \
	X(cuGraphExecDestroy, cuGraphExecDestroy, 10000, ho_result, (ho_graph_exec)) \
	X(cuGraphExecUpdate, cuGraphExecUpdate_v2, 12000, ho_result, (ho_graph_exec, ho_graph, ho_graph_exec_update_result *)) \
	X(cuGraphDebugDotPrint, cuGraphDebugDotPrint, 11030, ho_result, (ho_graph, char *, uint32_t)) \
	X(cuGraphConditionalHandleCreate, cuGraphConditionalHandleCreate, 12030, ho_result, (ho_graph_conditional *, ho_graph, ho_context, uint32_t, uint32_t)) \
	X(cuUserObjectCreate, cuUserObjectCreate, 11030, ho_result, (ho_user_object *, ho_word, ho_host_fn, uint32_t, uint32_t)) \
	X(cuUserObjectRetain, cuUserObjectRetain, 11030, ho_result, (ho_user_object, uint32_t)) \
	X(cuUserObjectRelease, cuUserObjectRelease, 11030, ho_result, (ho_user_object, uint32_t)) \
	X(cuGraphRetainUserObject, cuGraphRetainUserObject, 11030, ho_result, (ho_graph, ho_user_object, uint32_t, uint32_t)) \
	X(cuGraphReleaseUserObject, cuGraphReleaseUserObject, 11030, ho_result, (ho_graph, ho_user_object, uint32_t)) \
	/* profiler */ \
	X(cuProfilerStart, cuProfilerStart, 4000, ho_result, (void)) \
	X(cuProfilerStop, cuProfilerStop, 4000, ho_result, (void))

/* The position of each entry point in the table. */
enum {
#define HO_CUDA_INDEX(name, symbol, version, ret, params) HO_ENTRY_##name,
	HO_CUDA_ENTRIES(HO_CUDA_INDEX)
#undef HO_CUDA_INDEX
	HO_ENTRY_COUNT
};

/* One pointer per entry point; NULL where the provider lacks it. cgo looks up
 * what a pointer to something with pointers in it points to, at every call, so
 * that Go sees words. */
#ifdef HO_GO_VIEW
typedef struct ho_cuda_table {
	ho_word entries[HO_ENTRY_COUNT];
} ho_cuda_table;
#else
typedef struct ho_cuda_table {
#define HO_CUDA_FIELD(name, symbol, version, ret, params) ret(*name) params;
	HO_CUDA_ENTRIES(HO_CUDA_FIELD)
#undef HO_CUDA_FIELD
} ho_cuda_table;
#endif

_Static_assert(sizeof(ho_cuda_table) == HO_ENTRY_COUNT * sizeof(void (*)(void)),
	       "the table is a plain array of function pointers");
