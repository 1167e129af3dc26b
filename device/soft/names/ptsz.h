/* The forms of the calls for code that was built with per-thread default
 * streams: in them the stream handle 0 is the calling thread's default stream.
 * Each line is an entry point and the position of its stream among the
 * arguments, from 0. The synchronous copies and memsets have no stream; here
 * their forms (_ptds) use the legacy stream too, which is ordered with every
 * per-thread one, so they wait for no less. */
#pragma once

#define HO_SOFT_PTSZ(X) \
	X(cuMemPrefetchAsync, cuMemPrefetchAsync_v2, 12020, 4) \
	X(cuMemcpyAsync, cuMemcpyAsync, 4000, 3) \
	X(cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000, 5) \
	X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, 3020, 3) \
	X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, 3020, 3) \
	X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, 3020, 3) \
	X(cuMemcpy2DAsync, cuMemcpy2DAsync_v2, 3020, 1) \
	X(cuMemcpy3DAsync, cuMemcpy3DAsync_v2, 3020, 1) \
	X(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync, 4000, 1) \
	X(cuMemsetD8Async, cuMemsetD8Async, 3020, 3) \
	X(cuMemsetD16Async, cuMemsetD16Async, 3020, 3) \
	X(cuMemsetD32Async, cuMemsetD32Async, 3020, 3) \
	X(cuMemsetD2D8Async, cuMemsetD2D8Async, 3020, 5) \
	X(cuMemsetD2D16Async, cuMemsetD2D16Async, 3020, 5) \
	X(cuMemsetD2D32Async, cuMemsetD2D32Async, 3020, 5) \
	X(cuMemAllocAsync, cuMemAllocAsync, 11020, 2) \
	X(cuMemFreeAsync, cuMemFreeAsync, 11020, 1) \
	X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, 3) \
	X(cuStreamGetPriority, cuStreamGetPriority, 5050, 0) \
	X(cuStreamGetFlags, cuStreamGetFlags, 5050, 0) \
	X(cuStreamGetId, cuStreamGetId, 12000, 0) \
	X(cuStreamGetCtx, cuStreamGetCtx, 9020, 0) \
	X(cuStreamGetDevice, cuStreamGetDevice, 12080, 0) \
	X(cuStreamWaitEvent, cuStreamWaitEvent, 3020, 0) \
	X(cuStreamQuery, cuStreamQuery, 2000, 0) \
	X(cuStreamSynchronize, cuStreamSynchronize, 2000, 0) \
	X(cuStreamAddCallback, cuStreamAddCallback, 5000, 0) \
	X(cuLaunchHostFunc, cuLaunchHostFunc, 10000, 0) \
	X(cuStreamAttachMemAsync, cuStreamAttachMemAsync, 6000, 0) \
	X(cuStreamGetAttribute, cuStreamGetAttribute, 11000, 0) \
	X(cuStreamSetAttribute, cuStreamSetAttribute, 11000, 0) \
	X(cuStreamBeginCapture, cuStreamBeginCapture_v2, 10010, 0) \
	X(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, 12030, 0) \
	X(cuStreamEndCapture, cuStreamEndCapture, 10000, 0) \
	X(cuStreamIsCapturing, cuStreamIsCapturing, 10000, 0) \
	X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v3, 12030, 0) \
	X(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2, 11030, 0) \
	X(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_v2, 12030, 0) \
	X(cuStreamWaitValue32, cuStreamWaitValue32_v2, 11070, 0) \
	X(cuStreamWaitValue64, cuStreamWaitValue64_v2, 11070, 0) \
	X(cuStreamWriteValue32, cuStreamWriteValue32_v2, 11070, 0) \
	X(cuStreamWriteValue64, cuStreamWriteValue64_v2, 11070, 0) \
	X(cuEventRecord, cuEventRecord, 2000, 1) \
	X(cuEventRecordWithFlags, cuEventRecordWithFlags, 11010, 1) \
	X(cuGraphUpload, cuGraphUpload, 11010, 1) \
	X(cuGraphLaunch, cuGraphLaunch, 10000, 1) \
	X(cuStreamBatchMemOp, cuStreamBatchMemOp_v2, 11070, 0) \
	X(cuStreamGetCtx_v2, cuStreamGetCtx_v2, 12050, 0)

#define HO_SOFT_PTSZ_STACK(X) \
	X(cuLaunchKernel, cuLaunchKernel, 4000) \
	X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000)

#define HO_SOFT_PTDS(X) \
	X(cuMemcpy, cuMemcpy, 4000) \
	X(cuMemcpyPeer, cuMemcpyPeer, 4000) \
	X(cuMemcpyHtoD, cuMemcpyHtoD_v2, 3020) \
	X(cuMemcpyDtoH, cuMemcpyDtoH_v2, 3020) \
	X(cuMemcpyDtoD, cuMemcpyDtoD_v2, 3020) \
	X(cuMemcpy2D, cuMemcpy2D_v2, 3020) \
	X(cuMemcpy2DUnaligned, cuMemcpy2DUnaligned_v2, 3020) \
	X(cuMemcpy3D, cuMemcpy3D_v2, 3020) \
	X(cuMemcpy3DPeer, cuMemcpy3DPeer, 4000) \
	X(cuMemsetD8, cuMemsetD8_v2, 3020) \
	X(cuMemsetD16, cuMemsetD16_v2, 3020) \
	X(cuMemsetD32, cuMemsetD32_v2, 3020) \
	X(cuMemsetD2D8, cuMemsetD2D8_v2, 3020) \
	X(cuMemsetD2D16, cuMemsetD2D16_v2, 3020) \
	X(cuMemsetD2D32, cuMemsetD2D32_v2, 3020)
