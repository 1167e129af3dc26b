#include <stdlib.h>

#include "check.h"
#include "_cgo_export.h"

/* The table behind, and this one. */
static const ho_cuda_table *real;
static ho_cuda_table table;

static ho_context current(void)
{
	ho_context c = 0;

	if (real->cuCtxGetCurrent == NULL || real->cuCtxGetCurrent(&c) != HO_CUDA_SUCCESS)
		return 0;
	return c;
}

static uint64_t note(ck_note n)
{
	n.ctx = current();
	return ckNote(&n);
}

/* Nothing of a stream that captures is done now. */
static int captures(ho_stream s)
{
	int status = 0;

	return real->cuStreamIsCapturing != NULL && real->cuStreamIsCapturing(s, &status) == HO_CUDA_SUCCESS && status != 0;
}

int ck_stream(ho_stream s, ho_context cur, ho_context *ctx, int *device, uint32_t *flags)
{
	ho_context old;
	ho_device d = -1;

	*ctx = cur;
	*flags = 0;
	*device = -1;
	if (s > HO_STREAM_PER_THREAD) {
		if (real->cuStreamGetCtx != NULL)
			real->cuStreamGetCtx(s, ctx);
		if (real->cuStreamGetFlags != NULL)
			real->cuStreamGetFlags(s, flags);
	}
	if (*ctx == 0 || real->cuCtxPushCurrent(*ctx) != HO_CUDA_SUCCESS)
		return 0;
	if (real->cuCtxGetDevice(&d) == HO_CUDA_SUCCESS)
		*device = d;
	real->cuCtxPopCurrent(&old);
	return 1;
}

uint64_t ck_buffer(uint64_t addr)
{
	uint64_t id = 0;

	if (real->cuPointerGetAttribute == NULL || real->cuPointerGetAttribute(&id, HO_CU_POINTER_ATTRIBUTE_BUFFER_ID, addr) != HO_CUDA_SUCCESS)
		return 0;
	return id;
}

int ck_params(ho_word fn, uint64_t *offset, uint64_t *size, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		size_t o = 0, s = 0;
		if ((real->cuFuncGetParamInfo == NULL || real->cuFuncGetParamInfo(fn, (size_t)i, &o, &s) != HO_CUDA_SUCCESS) &&
		    (real->cuKernelGetParamInfo == NULL || real->cuKernelGetParamInfo(fn, (size_t)i, &o, &s) != HO_CUDA_SUCCESS))
			break;
		offset[i] = o;
		size[i] = s;
	}
	return i;
}

static ck_box line(uint64_t addr, uint64_t n)
{
	return (ck_box){addr, n, n, 1, n, 1};
}

static void copied(ho_stream s, ck_box dst, ck_box src, int sync)
{
	if (!captures(s))
		note((ck_note){.kind = CK_COPY, .stream = s, .dst = dst, .src = src, .sync = sync});
}

static void set(ho_stream s, uint64_t addr, uint64_t width, uint64_t pitch, uint64_t height)
{
	if (!captures(s))
		note((ck_note){.kind = CK_SET, .stream = s, .dst = {addr, width, pitch, height, pitch * height, 1}});
}

/* NAME passes a call on and, if it worked, does what follows. */
#define WRAP(name, params, args, then) \
	static ho_result ck_##name params \
	{ \
		ho_result st = real->name args; \
		if (st == HO_CUDA_SUCCESS) { \
			then; \
		} \
		return st; \
	}
/* The same, but it tells first: once the call has returned, somebody else may have the memory. */
#define BEFORE(name, params, args, first) \
	static ho_result ck_##name params \
	{ \
		first; \
		return real->name args; \
	}

#define L HO_STREAM_LEGACY

/* ---- Copies -------------------------------------------------------------- */
WRAP(cuMemcpy, (ho_devptr d, ho_devptr s, size_t n), (d, s, n), copied(L, line(d, n), line(s, n), 1))
WRAP(cuMemcpyAsync, (ho_devptr d, ho_devptr s, size_t n, ho_stream q), (d, s, n, q), copied(q, line(d, n), line(s, n), 1))
WRAP(cuMemcpyHtoD, (ho_devptr d, ho_word s, size_t n), (d, s, n), copied(L, line(d, n), line(s, n), 0))
WRAP(cuMemcpyHtoDAsync, (ho_devptr d, ho_word s, size_t n, ho_stream q), (d, s, n, q), copied(q, line(d, n), line(s, n), 0))
WRAP(cuMemcpyDtoH, (ho_word d, ho_devptr s, size_t n), (d, s, n), copied(L, line(d, n), line(s, n), 2))
WRAP(cuMemcpyDtoHAsync, (ho_word d, ho_devptr s, size_t n, ho_stream q), (d, s, n, q), copied(q, line(d, n), line(s, n), 1))
WRAP(cuMemcpyDtoD, (ho_devptr d, ho_devptr s, size_t n), (d, s, n), copied(L, line(d, n), line(s, n), 0))
WRAP(cuMemcpyDtoDAsync, (ho_devptr d, ho_devptr s, size_t n, ho_stream q), (d, s, n, q), copied(q, line(d, n), line(s, n), 0))
WRAP(cuMemcpyPeer, (ho_devptr d, ho_context dc, ho_devptr s, ho_context sc, size_t n), (d, dc, s, sc, n), copied(L, line(d, n), line(s, n), 0))
WRAP(cuMemcpyPeerAsync, (ho_devptr d, ho_context dc, ho_devptr s, ho_context sc, size_t n, ho_stream q), (d, dc, s, sc, n, q),
     copied(q, line(d, n), line(s, n), 0))

/* One end of a box; arrays have no address. */
#define SIDE2(p, side) \
	((ck_box){p->side##_type == HO_CU_MEMORYTYPE_ARRAY ? 0 : (p->side##_type == HO_CU_MEMORYTYPE_HOST ? (uint64_t)p->side##_host : p->side##_device) + \
			  p->side##_y * (p->side##_pitch ? p->side##_pitch : p->width_bytes) + p->side##_x_bytes, \
		  p->width_bytes, p->side##_pitch ? p->side##_pitch : p->width_bytes, p->height, 0, 1})
#define SLICE3(p, side) ((p->side##_pitch ? p->side##_pitch : p->width_bytes) * (p->side##_height ? p->side##_height : p->height))
#define SIDE3(p, side) \
	((ck_box){p->side##_type == HO_CU_MEMORYTYPE_ARRAY ? 0 : (p->side##_type == HO_CU_MEMORYTYPE_HOST ? (uint64_t)p->side##_host : p->side##_device) + \
			  p->side##_z * SLICE3(p, side) + p->side##_y * (p->side##_pitch ? p->side##_pitch : p->width_bytes) + p->side##_x_bytes, \
		  p->width_bytes, p->side##_pitch ? p->side##_pitch : p->width_bytes, p->height, SLICE3(p, side), p->depth})
WRAP(cuMemcpy2D, (ho_memcpy2d * p), (p), copied(L, SIDE2(p, dst), SIDE2(p, src), 1))
WRAP(cuMemcpy2DUnaligned, (ho_memcpy2d * p), (p), copied(L, SIDE2(p, dst), SIDE2(p, src), 1))
WRAP(cuMemcpy2DAsync, (ho_memcpy2d * p, ho_stream q), (p, q), copied(q, SIDE2(p, dst), SIDE2(p, src), 1))
WRAP(cuMemcpy3D, (ho_memcpy3d * p), (p), copied(L, SIDE3(p, dst), SIDE3(p, src), 1))
WRAP(cuMemcpy3DAsync, (ho_memcpy3d * p, ho_stream q), (p, q), copied(q, SIDE3(p, dst), SIDE3(p, src), 1))
WRAP(cuMemcpy3DPeer, (ho_memcpy3d_peer * p), (p), copied(L, SIDE3(p, dst), SIDE3(p, src), 1))
WRAP(cuMemcpy3DPeerAsync, (ho_memcpy3d_peer * p, ho_stream q), (p, q), copied(q, SIDE3(p, dst), SIDE3(p, src), 1))

/* ---- Memsets ------------------------------------------------------------- */
#define SET1(bits, type, bytes) \
	WRAP(cuMemsetD##bits, (ho_devptr d, type v, size_t n), (d, v, n), set(L, d, n * bytes, n * bytes, 1)) \
	WRAP(cuMemsetD##bits##Async, (ho_devptr d, type v, size_t n, ho_stream q), (d, v, n, q), set(q, d, n * bytes, n * bytes, 1)) \
	WRAP(cuMemsetD2D##bits, (ho_devptr d, size_t p, type v, size_t w, size_t h), (d, p, v, w, h), set(L, d, w * bytes, p, h)) \
	WRAP(cuMemsetD2D##bits##Async, (ho_devptr d, size_t p, type v, size_t w, size_t h, ho_stream q), (d, p, v, w, h, q), set(q, d, w * bytes, p, h))
SET1(8, uint8_t, 1)
SET1(16, uint16_t, 2)
SET1(32, uint32_t, 4)

/* ---- Memory -------------------------------------------------------------- */
#define MADE(addr, n) note((ck_note){.kind = CK_ALLOC, .dst = line((uint64_t)(addr), n)})
#define GONE(addr) note((ck_note){.kind = CK_FREE, .dst = line((uint64_t)(addr), 0)})
WRAP(cuMemAlloc, (ho_devptr * p, size_t n), (p, n), MADE(*p, n))
WRAP(cuMemAllocPitch, (ho_devptr * p, size_t *pitch, size_t w, size_t h, uint32_t e), (p, pitch, w, h, e), MADE(*p, *pitch *h))
WRAP(cuMemAllocHost, (ho_word * p, size_t n), (p, n), MADE(*p, n))
WRAP(cuMemHostAlloc, (ho_word * p, size_t n, uint32_t f), (p, n, f), MADE(*p, n))
WRAP(cuMemHostRegister, (ho_word p, size_t n, uint32_t f), (p, n, f), MADE(p, n))
WRAP(cuMemAllocManaged, (ho_devptr * p, size_t n, uint32_t f), (p, n, f), MADE(*p, n))
BEFORE(cuMemFree, (ho_devptr p), (p), GONE(p))
BEFORE(cuMemFreeHost, (ho_word p), (p), GONE(p))
BEFORE(cuMemHostUnregister, (ho_word p), (p), GONE(p))
/* What a graph allocates comes and goes with its launches, which nobody looks into. */
#define UNKNOWN(addr, n) note((ck_note){.kind = CK_UNKNOWN, .dst = line((uint64_t)(addr), n)})
#define MADE_IN(q, addr, n) \
	if (!captures(q)) \
		note((ck_note){.kind = CK_ALLOC_IN, .stream = q, .dst = line(addr, n)}); \
	else \
		UNKNOWN(addr, n)
WRAP(cuMemAllocAsync, (ho_devptr * p, size_t n, ho_stream q), (p, n, q), MADE_IN(q, *p, n))
WRAP(cuMemAllocFromPoolAsync, (ho_devptr * p, size_t n, ho_mem_pool m, ho_stream q), (p, n, m, q), MADE_IN(q, *p, n))
BEFORE(cuMemFreeAsync, (ho_devptr p, ho_stream q), (p, q),
       if (!captures(q)) note((ck_note){.kind = CK_FREE_IN, .stream = q, .dst = line(p, 0)}))

/* Memory that somebody else has allocated, of code's if it is not 0. How large it is the driver says where n is 0. */
static void found(uint64_t addr, size_t n, ho_word code)
{
	ho_devptr base = addr;

	if (n == 0 && (real->cuMemGetAddressRange == NULL || real->cuMemGetAddressRange(&base, &n, addr) != HO_CUDA_SUCCESS || n == 0))
		UNKNOWN(addr, 1);
	else
		note((ck_note){.kind = CK_FOUND, .fn = code, .dst = line(base, n)});
}

WRAP(cuMemPoolImportPointer, (ho_devptr * p, ho_mem_pool m, ho_mem_pool_ptr_export *d), (p, m, d), found(*p, 0, 0))
WRAP(cuIpcOpenMemHandle, (ho_devptr * p, ho_ipc_mem_handle h, uint32_t f), (p, h, f), found(*p, 0, 0); note((ck_note){.kind = CK_OPENED, .dst = line(*p, 0)}))
BEFORE(cuIpcCloseMemHandle, (ho_devptr p), (p), note((ck_note){.kind = CK_CLOSED, .dst = line(p, 0)}))
WRAP(cuMemMap, (ho_devptr p, size_t n, size_t at, ho_mem_handle h, uint64_t f), (p, n, at, h, f), found(p, n, 0))
BEFORE(cuMemUnmap, (ho_devptr p, size_t n), (p, n), note((ck_note){.kind = CK_FREE, .dst = line(p, n)}))
#define VARIABLE(code, p, n) \
	if (p != NULL) \
	found(*p, n != NULL ? *n : 0, code)
WRAP(cuModuleGetGlobal, (ho_devptr * p, size_t *n, ho_module m, char *name), (p, n, m, name), VARIABLE(m, p, n))
WRAP(cuLibraryGetGlobal, (ho_devptr * p, size_t *n, ho_library l, char *name), (p, n, l, name), VARIABLE(l, p, n))
WRAP(cuLibraryGetManaged, (ho_devptr * p, size_t *n, ho_library l, char *name), (p, n, l, name), VARIABLE(l, p, n))
BEFORE(cuModuleUnload, (ho_module m), (m), note((ck_note){.kind = CK_CODE_END, .fn = m}))
BEFORE(cuLibraryUnload, (ho_library l), (l), note((ck_note){.kind = CK_CODE_END, .fn = l}))
WRAP(cuGraphAddMemAllocNode, (ho_graph_node * x, ho_graph g, ho_graph_node *d, size_t n, ho_mem_alloc_node_params *p), (x, g, d, n, p),
     UNKNOWN(p->dptr, p->bytes))
WRAP(cuGraphAddNode, (ho_graph_node * x, ho_graph g, ho_graph_node *d, ho_graph_edge_data *e, size_t n, ho_graph_node_params *p), (x, g, d, e, n, p),
     if (p->type == HO_CU_GRAPH_NODE_TYPE_MEM_ALLOC) UNKNOWN(p->u.alloc.dptr, p->u.alloc.bytes))

/* ---- Contexts ------------------------------------------------------------ */
BEFORE(cuCtxDestroy, (ho_context c), (c), note((ck_note){.kind = CK_CONTEXT_END, .fn = c}))
BEFORE(cuDevicePrimaryCtxReset, (ho_device d), (d), note((ck_note){.kind = CK_CONTEXT_END, .number = (uint64_t)d}))

static ho_result ck_cuDevicePrimaryCtxRelease(ho_device d)
{
	ho_result st = real->cuDevicePrimaryCtxRelease(d);
	uint32_t flags = 0;
	int active = 0;

	/* Only the last release ends it. */
	if (st == HO_CUDA_SUCCESS && real->cuDevicePrimaryCtxGetState != NULL &&
	    real->cuDevicePrimaryCtxGetState(d, &flags, &active) == HO_CUDA_SUCCESS && !active)
		note((ck_note){.kind = CK_CONTEXT_END, .number = (uint64_t)d});
	return st;
}

/* ---- Streams and events -------------------------------------------------- */
#define KNOWN(k, ...) note((ck_note){.kind = k, __VA_ARGS__})
WRAP(cuEventRecord, (ho_event e, ho_stream q), (e, q),
     if (!captures(q)) KNOWN(CK_RECORD, .event = e, .stream = q))
WRAP(cuEventRecordWithFlags, (ho_event e, ho_stream q, uint32_t f), (e, q, f),
     if (!captures(q)) KNOWN(CK_RECORD, .event = e, .stream = q))
WRAP(cuStreamWaitEvent, (ho_stream q, ho_event e, uint32_t f), (q, e, f),
     if (!captures(q)) KNOWN(CK_WAIT, .event = e, .stream = q))
#define WORDS(bits) \
	WRAP(cuStreamWriteValue##bits, (ho_stream q, ho_devptr p, uint##bits##_t v, uint32_t f), (q, p, v, f), \
	     if (!captures(q)) KNOWN(CK_WORD, .stream = q, .dst = line(p, bits / 8), .number = v)) \
	WRAP(cuStreamWaitValue##bits, (ho_stream q, ho_devptr p, uint##bits##_t v, uint32_t f), (q, p, v, f), \
	     if (!captures(q)) KNOWN(CK_WORD_WAIT, .stream = q, .dst = line(p, bits / 8), .number = v, .sync = (int)(f & 3)))
WORDS(32)
WORDS(64)
WRAP(cuStreamQuery, (ho_stream q), (q), KNOWN(CK_STREAM_IS, .stream = q))
WRAP(cuEventQuery, (ho_event e), (e), KNOWN(CK_EVENT_IS, .event = e))

/* What is done when a wait returns is what was there when it began: the number says where that was. */
#define WAITS(name, params, args, ...) \
	static ho_result ck_##name params \
	{ \
		uint64_t at = note((ck_note){__VA_ARGS__}); \
		ho_result st = real->name args; \
		if (st == HO_CUDA_SUCCESS) \
			note((ck_note){.number = at, __VA_ARGS__}); \
		else \
			ckForget(at); \
		return st; \
	}
WAITS(cuStreamSynchronize, (ho_stream q), (q), .kind = CK_STREAM_IS, .sync = 1, .stream = q)
WAITS(cuEventSynchronize, (ho_event e), (e), .kind = CK_EVENT_IS, .sync = 1, .event = e)
WAITS(cuCtxSynchronize, (void), (), .kind = CK_CONTEXT_IS, .sync = 1)
BEFORE(cuStreamDestroy, (ho_stream q), (q), KNOWN(CK_STREAM_END, .stream = q))
BEFORE(cuEventDestroy, (ho_event e), (e), KNOWN(CK_EVENT_END, .event = e))

/* ---- Kernels, graphs, host functions ------------------------------------- */
#define LAUNCHED(q, f, p, e) \
	if (!captures(q)) \
	note((ck_note){.kind = CK_LAUNCH, .stream = q, .fn = f, .params = p, .extra = e})
WRAP(cuLaunchKernel,
     (ho_function f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz, uint32_t sh, ho_stream q, void **p, ho_word *e),
     (f, gx, gy, gz, bx, by, bz, sh, q, p, e), LAUNCHED(q, f, p, e))
WRAP(cuLaunchCooperativeKernel,
     (ho_function f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz, uint32_t sh, ho_stream q, void **p),
     (f, gx, gy, gz, bx, by, bz, sh, q, p), LAUNCHED(q, f, p, NULL))
WRAP(cuLaunchKernelEx, (ho_launch_config * c, ho_function f, void **p, ho_word *e), (c, f, p, e), LAUNCHED(c->stream, f, p, e))
WRAP(cuGraphLaunch, (ho_graph_exec x, ho_stream q), (x, q), KNOWN(CK_GRAPH, .stream = q, .fn = x))

typedef struct host_call {
	ho_host_fn fn;
	ho_word user;
	uint64_t number;
} host_call;

static void run_host(ho_word w)
{
	host_call *h = (host_call *)w;

	ck_note n = {.kind = CK_HOST_RUNS, .number = h->number};

	ckNote(&n); /* no driver calls here */
	h->fn(h->user);
	free(h);
}

static ho_result ck_cuLaunchHostFunc(ho_stream q, ho_host_fn fn, ho_word user)
{
	host_call *h;
	ho_result st;

	if (captures(q)) /* it runs as often as the graph */
		return real->cuLaunchHostFunc(q, fn, user);
	h = malloc(sizeof(*h));
	if (h == NULL)
		return HO_CUDA_ERROR_OUT_OF_MEMORY;
	*h = (host_call){fn, user, note((ck_note){.kind = CK_HOST, .stream = q, .fn = user})};
	st = real->cuLaunchHostFunc(q, run_host, (ho_word)h);
	if (st != HO_CUDA_SUCCESS)
		free(h);
	return st;
}

#define WRAPPED(X) \
	X(cuMemcpy) X(cuMemcpyAsync) X(cuMemcpyHtoD) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoH) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoD) \
	X(cuMemcpyDtoDAsync) X(cuMemcpyPeer) X(cuMemcpyPeerAsync) X(cuMemcpy2D) X(cuMemcpy2DUnaligned) X(cuMemcpy2DAsync) X(cuMemcpy3D) \
	X(cuMemcpy3DAsync) X(cuMemcpy3DPeer) X(cuMemcpy3DPeerAsync) X(cuMemsetD8) X(cuMemsetD8Async) X(cuMemsetD2D8) X(cuMemsetD2D8Async) \
	X(cuMemsetD16) X(cuMemsetD16Async) X(cuMemsetD2D16) X(cuMemsetD2D16Async) X(cuMemsetD32) X(cuMemsetD32Async) X(cuMemsetD2D32) \
	X(cuMemsetD2D32Async) X(cuMemAlloc) X(cuMemAllocPitch) X(cuMemAllocHost) X(cuMemHostAlloc) X(cuMemHostRegister) \
	X(cuMemAllocManaged) X(cuMemFree) X(cuMemFreeHost) X(cuMemHostUnregister) X(cuMemAllocAsync) X(cuMemAllocFromPoolAsync) \
	X(cuMemFreeAsync) X(cuMemPoolImportPointer) X(cuIpcOpenMemHandle) X(cuIpcCloseMemHandle) X(cuMemMap) X(cuMemUnmap) \
	X(cuModuleGetGlobal) X(cuLibraryGetGlobal) X(cuLibraryGetManaged) X(cuModuleUnload) X(cuLibraryUnload) \
	X(cuGraphAddMemAllocNode) X(cuGraphAddNode) X(cuCtxDestroy) X(cuDevicePrimaryCtxReset) X(cuDevicePrimaryCtxRelease) \
	X(cuEventDestroy) X(cuEventRecord) X(cuEventRecordWithFlags) X(cuStreamWaitEvent) X(cuStreamWriteValue32) X(cuStreamWriteValue64) \
	X(cuStreamWaitValue32) X(cuStreamWaitValue64) X(cuStreamQuery) X(cuEventQuery) \
	X(cuStreamSynchronize) X(cuEventSynchronize) X(cuCtxSynchronize) X(cuStreamDestroy) X(cuLaunchKernel) \
	X(cuLaunchCooperativeKernel) X(cuLaunchKernelEx) X(cuGraphLaunch) X(cuLaunchHostFunc)

const ho_cuda_table *ck_table(const ho_cuda_table *behind)
{
	real = behind;
	table = *behind;
#define FILL(name) \
	if (behind->name != NULL) \
		table.name = ck_##name;
	WRAPPED(FILL)
#undef FILL
	return &table;
}
