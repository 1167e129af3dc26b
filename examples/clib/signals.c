/* The library of signals.h: one allocation for each tensor. */
#include "signals.h"

#include <stdatomic.h>
#include <stdlib.h>

static _Atomic int64_t live;

/* A tensor of ours, with what it points to. */
struct vector {
	DLManagedTensorVersioned tensor;
	int64_t shape, stride;
	DLManagedTensorVersioned *base; /* the tensor whose memory this one shows, or NULL */
	float own[];                    /* the memory, if there is no base */
};

static void vector_delete(DLManagedTensorVersioned *t)
{
	struct vector *v = t->manager_ctx;
	if (v->base != NULL && v->base->deleter != NULL)
		v->base->deleter(v->base);
	free(v);
	atomic_fetch_sub(&live, 1);
}

static struct vector *vector_new(int64_t n, int64_t own, int64_t stride)
{
	struct vector *v = calloc(1, sizeof *v + (size_t)own * sizeof(float));
	if (v == NULL)
		return NULL;
	atomic_fetch_add(&live, 1);
	v->shape = n;
	v->stride = stride;
	v->tensor.version = (DLPackVersion){DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
	v->tensor.manager_ctx = v;
	v->tensor.deleter = vector_delete;
	v->tensor.dl_tensor = (DLTensor){
		.data = v->own,
		.device = {kDLCPU, 0},
		.ndim = 1,
		.dtype = {kDLFloat, 32, 1},
		.shape = &v->shape,
		.strides = &v->stride,
	};
	return v;
}

static int is_float_vector(const DLTensor *t)
{
	return t->ndim == 1 && t->device.device_type == kDLCPU && t->dtype.code == kDLFloat && t->dtype.bits == 32 &&
	       t->dtype.lanes == 1;
}

static float *first_of(const DLTensor *t)
{
	return (float *)((char *)t->data + t->byte_offset);
}

static int64_t stride_of(const DLTensor *t)
{
	return t->strides != NULL ? t->strides[0] : 1;
}

DLManagedTensorVersioned *sig_ramp(int64_t n, float first, float step)
{
	if (n < 0 || n > INT32_MAX)
		return NULL;
	struct vector *v = vector_new(n, n, 1);
	if (v == NULL)
		return NULL;
	for (int64_t i = 0; i < n; i++)
		v->own[i] = first + (float)i * step;
	return &v->tensor;
}

int sig_reverse(DLManagedTensorVersioned *in, DLManagedTensorVersioned **out)
{
	const DLTensor *t = &in->dl_tensor;
	if (!is_float_vector(t))
		return 1;
	int64_t n = t->shape[0], stride = stride_of(t);
	struct vector *v = vector_new(n, 0, -stride);
	if (v == NULL)
		return 2;
	v->base = in;
	v->tensor.flags = in->flags;
	v->tensor.dl_tensor.data = n > 0 ? first_of(t) + (n - 1) * stride : t->data;
	*out = &v->tensor;
	return 0;
}

int sig_scale(DLManagedTensorVersioned *in, float factor)
{
	const DLTensor *t = &in->dl_tensor;
	if (!is_float_vector(t) || (in->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0)
		return 1;
	float *x = first_of(t);
	int64_t stride = stride_of(t);
	for (int64_t i = 0; i < t->shape[0]; i++)
		x[i * stride] *= factor;
	return 0;
}

int64_t sig_live(void)
{
	return atomic_load(&live);
}
