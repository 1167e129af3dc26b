/* Calls that save a crossing, or a pointer to Go memory, or both. */
#include "driver.h"

ho_ret_word ho_context_new(const ho_cuda_table *t, uint32_t flags, ho_device dev)
{
	ho_ret_word r = {0};
	ho_context ctx = 0, popped;

	if (t->cuCtxCreate == NULL) {
		r.st = HO_MISSING(cuCtxCreate);
		return r;
	}
	r.st = t->cuCtxCreate(&ctx, flags, dev);
	if (r.st != HO_CUDA_SUCCESS)
		return r;
	r.st = t->cuCtxPopCurrent(&popped);
	if (r.st != HO_CUDA_SUCCESS && t->cuCtxDestroy != NULL) {
		t->cuCtxDestroy(ctx);
		return r;
	}
	r.value = ctx;
	return r;
}

ho_ret_word ho_context_swap(const ho_cuda_table *t, ho_context ctx)
{
	ho_ret_word r = {0};
	ho_context old = 0;

	if (t->cuCtxSetCurrent == NULL) {
		r.st = HO_MISSING(cuCtxSetCurrent);
		return r;
	}
	r.st = t->cuCtxGetCurrent(&old);
	if (r.st == HO_CUDA_SUCCESS && old != ctx)
		r.st = t->cuCtxSetCurrent(ctx);
	r.value = old;
	return r;
}

/* ---- Pointers ------------------------------------------------------------ */

ho_pointer_info ho_pointer_all(const ho_cuda_table *t, ho_devptr p)
{
	ho_pointer_info r = {0};
	int attrs[] = {
		HO_CU_POINTER_ATTRIBUTE_MEMORY_TYPE,  HO_CU_POINTER_ATTRIBUTE_IS_MANAGED,
		HO_CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, HO_CU_POINTER_ATTRIBUTE_CONTEXT,
		HO_CU_POINTER_ATTRIBUTE_DEVICE_POINTER, HO_CU_POINTER_ATTRIBUTE_HOST_POINTER,
		HO_CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, HO_CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		HO_CU_POINTER_ATTRIBUTE_BUFFER_ID, HO_CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
	};
	/* Twice the room of the widest answer, whatever a driver writes. */
	uint64_t managed[2] = {0}, type[2] = {0}, device[2] = {0};
	void *data[] = {type, managed, device, &r.ctx, &r.device_ptr, &r.host_ptr, &r.base, &r.size, &r.buffer_id, &r.pool};

	_Static_assert(sizeof(attrs) / sizeof(attrs[0]) == sizeof(data) / sizeof(data[0]), "one place an attribute");
	if (t->cuPointerGetAttributes == NULL) {
		r.st = HO_MISSING(cuPointerGetAttributes);
		return r;
	}
	r.st = t->cuPointerGetAttributes(10, attrs, data, p);
	if (r.st == HO_CUDA_ERROR_NOT_INITIALIZED && t->cuInit(0) == HO_CUDA_SUCCESS)
		r.st = t->cuPointerGetAttributes(10, attrs, data, p);
	memcpy(&r.type, type, sizeof(r.type));
	memcpy(&r.device, device, sizeof(r.device));
	r.managed = *(unsigned char *)managed != 0; /* a bool in one driver, an int in another */
	return r;
}

/* Apart from ho_pointer_all because it is asked on every exchange of an address
 * that nobody describes: a third of the stores, and an answer in two registers. */
ho_pointer_class ho_pointer_kind(const ho_cuda_table *t, ho_devptr p)
{
	static const int attrs[] = {HO_CU_POINTER_ATTRIBUTE_MEMORY_TYPE, HO_CU_POINTER_ATTRIBUTE_IS_MANAGED,
				    HO_CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
	uint64_t type[2] = {0}, managed[2] = {0}, device[2] = {0};
	void *data[] = {type, managed, device};
	ho_pointer_class r = {0};

	if (t->cuPointerGetAttributes == NULL) {
		r.st = HO_MISSING(cuPointerGetAttributes);
		return r;
	}
	r.st = t->cuPointerGetAttributes(3, (int *)attrs, data, p);
	if (r.st == HO_CUDA_ERROR_NOT_INITIALIZED && t->cuInit(0) == HO_CUDA_SUCCESS)
		r.st = t->cuPointerGetAttributes(3, (int *)attrs, data, p);
	memcpy(&r.type, type, sizeof(r.type));
	memcpy(&r.device, device, sizeof(r.device));
	r.managed = *(unsigned char *)managed != 0;
	return r;
}

/* ---- Pools --------------------------------------------------------------- */

/* The three reuse switches are ints, the sizes 64 bits wide. */
static int is_switch(int attr)
{
	return attr >= HO_CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
	       attr <= HO_CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

ho_ret_word ho_pool_get(const ho_cuda_table *t, ho_mem_pool pool, int attr)
{
	ho_ret_word r = {0};
	int small = 0;

	if (t->cuMemPoolGetAttribute == NULL)
		r.st = HO_MISSING(cuMemPoolGetAttribute);
	else if (is_switch(attr)) {
		r.st = t->cuMemPoolGetAttribute(pool, attr, &small);
		r.value = small != 0;
	} else
		r.st = t->cuMemPoolGetAttribute(pool, attr, &r.value);
	return r;
}

ho_result ho_pool_set(const ho_cuda_table *t, ho_mem_pool pool, int attr, uint64_t value)
{
	int small = value != 0;

	if (t->cuMemPoolSetAttribute == NULL)
		return HO_MISSING(cuMemPoolSetAttribute);
	return t->cuMemPoolSetAttribute(pool, attr, is_switch(attr) ? (void *)&small : (void *)&value);
}

ho_ret_word ho_pool_export_fd(const ho_cuda_table *t, ho_mem_pool pool)
{
	ho_ret_word r = {0};
	int fd = -1;

	if (t->cuMemPoolExportToShareableHandle == NULL)
		r.st = HO_MISSING(cuMemPoolExportToShareableHandle);
	else
		r.st = t->cuMemPoolExportToShareableHandle(&fd, pool, HO_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	r.value = (uint64_t)(int64_t)fd;
	return r;
}

ho_ret_word ho_mem_export_fd(const ho_cuda_table *t, ho_mem_handle mem)
{
	ho_ret_word r = {0};
	int fd = -1;

	if (t->cuMemExportToShareableHandle == NULL)
		r.st = HO_MISSING(cuMemExportToShareableHandle);
	else
		r.st = t->cuMemExportToShareableHandle(&fd, mem, HO_CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	r.value = (uint64_t)(int64_t)fd;
	return r;
}

/* ---- Devices and streams ------------------------------------------------- */

ho_result ho_device_attributes(const ho_cuda_table *t, ho_device dev, const int *ids, int *values, ho_result *st, int n)
{
	if (t->cuDeviceGetAttribute == NULL)
		return HO_MISSING(cuDeviceGetAttribute);
	for (int i = 0; i < n; i++) {
		values[i] = -1;
		st[i] = t->cuDeviceGetAttribute(&values[i], ids[i], dev);
		if (st[i] != HO_CUDA_SUCCESS)
			values[i] = -1;
	}
	return HO_CUDA_SUCCESS;
}

ho_ret_pair ho_stream_device(const ho_cuda_table *t, ho_context ctx, ho_stream s)
{
	ho_ret_pair r = {0};
	ho_context owner = 0;
	ho_device dev = 0;
	ho_guard outer, inner;

	if (t->cuStreamGetCtx == NULL) {
		r.st = HO_MISSING(cuStreamGetCtx);
		return r;
	}
	if (t->cuCtxGetDevice == NULL) {
		r.st = HO_MISSING(cuCtxGetDevice);
		return r;
	}
	r.st = ho_enter(t, ctx, &outer);
	if (r.st != HO_CUDA_SUCCESS)
		return r;
	r.st = t->cuStreamGetCtx(s, &owner);
	if (r.st == HO_CUDA_SUCCESS)
		r.st = ho_enter(t, owner, &inner);
	if (r.st == HO_CUDA_SUCCESS)
		r.st = ho_leave(t, &inner, t->cuCtxGetDevice(&dev));
	r.st = ho_leave(t, &outer, r.st);
	r.a = (uint64_t)(int64_t)dev;
	r.b = owner;
	return r;
}

ho_capture ho_capture_info(const ho_cuda_table *t, ho_context ctx, ho_stream s, ho_graph_node *deps, size_t room)
{
	ho_capture r = {0};
	ho_graph_node *nodes = NULL;
	ho_graph_edge_data *edges = NULL;
	ho_guard outer;

	if (t->cuStreamGetCaptureInfo == NULL && t->cuStreamGetCaptureInfo_v2 == NULL) {
		r.st = HO_MISSING(cuStreamGetCaptureInfo);
		return r;
	}
	r.st = ho_enter(t, ctx, &outer);
	if (r.st != HO_CUDA_SUCCESS)
		return r;
	if (t->cuStreamGetCaptureInfo != NULL)
		r.st = t->cuStreamGetCaptureInfo(s, &r.status, &r.id, &r.graph, &nodes, &edges, &r.n);
	else
		r.st = t->cuStreamGetCaptureInfo_v2(s, &r.status, &r.id, &r.graph, &nodes, &r.n);
	/* The list is valid until the next call on the stream. */
	if (r.st == HO_CUDA_SUCCESS && nodes != NULL && deps != NULL)
		memcpy(deps, nodes, (r.n < room ? r.n : room) * sizeof(*deps));
	r.st = ho_leave(t, &outer, r.st);
	return r;
}

ho_result ho_stream_poll(const ho_cuda_table *t, ho_context ctx, ho_stream s)
{
	ho_guard outer;
	int status = HO_CU_STREAM_CAPTURE_STATUS_NONE;
	ho_result st;

	if (t->cuStreamQuery == NULL)
		return HO_MISSING(cuStreamQuery);
	st = ho_enter(t, ctx, &outer);
	if (st != HO_CUDA_SUCCESS)
		return st;
	if (t->cuStreamIsCapturing != NULL)
		st = t->cuStreamIsCapturing(s, &status);
	if (st == HO_CUDA_SUCCESS)
		st = status == HO_CU_STREAM_CAPTURE_STATUS_NONE ? t->cuStreamQuery(s) : HO_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return ho_leave(t, &outer, st);
}

/* ---- Go memory ------------------------------------------------------------ */

ho_result ho_copy_in(const ho_cuda_table *t, ho_context ctx, ho_devptr dst, void *src, size_t n)
{
	ho_guard outer;
	ho_result st;

	if (t->cuMemcpyHtoD == NULL)
		return HO_MISSING(cuMemcpyHtoD);
	st = ho_enter(t, ctx, &outer);
	if (st != HO_CUDA_SUCCESS)
		return st;
	return ho_leave(t, &outer, t->cuMemcpyHtoD(dst, (ho_word)src, n));
}

ho_result ho_copy_out(const ho_cuda_table *t, ho_context ctx, void *dst, ho_devptr src, size_t n)
{
	ho_guard outer;
	ho_result st;

	if (t->cuMemcpyDtoH == NULL)
		return HO_MISSING(cuMemcpyDtoH);
	st = ho_enter(t, ctx, &outer);
	if (st != HO_CUDA_SUCCESS)
		return st;
	return ho_leave(t, &outer, t->cuMemcpyDtoH((ho_word)dst, src, n));
}

/* ---- Launches ------------------------------------------------------------ */

typedef ho_result (*launch_fn)(ho_launch_config *, ho_function, void **, ho_word *);

static ho_result launch_current(const ho_cuda_table *t, ho_launch_call *c)
{
	ho_launch_config *k = &c->config;

	if (t->cuLaunchKernelEx != NULL)
		return t->cuLaunchKernelEx(k, c->fn, (void **)c->params, NULL);
	if (k->num_attrs != 0) /* before CUDA 11.8 */
		return HO_MISSING(cuLaunchKernelEx);
	if (t->cuLaunchKernel == NULL)
		return HO_MISSING(cuLaunchKernel);
	return t->cuLaunchKernel(c->fn, k->grid_x, k->grid_y, k->grid_z, k->block_x, k->block_y, k->block_z, k->shared_bytes,
				 k->stream, (void **)c->params, NULL);
}

/* With the context made current. Apart from ho_launch, which has little to save
 * and restore without it. */
static __attribute__((noinline)) void launch_within(ho_launch_call *c)
{
	const ho_cuda_table *t = (const ho_cuda_table *)c->table;
	ho_guard outer;

	c->st = ho_enter(t, c->ctx, &outer);
	if (c->st == HO_CUDA_SUCCESS)
		c->st = ho_leave(t, &outer, launch_current(t, c));
}

void ho_launch(ho_word call)
{
	ho_launch_call *c = (ho_launch_call *)call;

	if (__builtin_expect(c->entry == 0, 0)) {
		launch_within(c);
		return;
	}
	c->st = ((launch_fn)c->entry)(&c->config, c->fn, (void **)c->params, NULL);
	/* A driver that wants a context says so before it does anything. */
	if (__builtin_expect(c->st == HO_CUDA_ERROR_INVALID_CONTEXT && c->ctx != 0, 0))
		launch_within(c);
}
