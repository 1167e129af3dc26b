#include "tensor.h"

#include <string.h>

_Alignas(64) uint8_t tensor_arena[3 * ARENA];
long tensor_made, tensor_deleted;

/* Tensors without a deleter, of one input. */
enum { MOST = 64 };
static void *orphans[MOST];
static int orphan_count;

/* One array of n numbers; NULL sometimes. */
static int64_t *numbers(input *in, int32_t n)
{
	if (in_below(in, 8) == 0)
		return NULL;
	/* What the check refuses by ndim alone need not be there. */
	size_t have = n < 0 || n > HO_MAX_DIMS ? 0 : (size_t)n;
	int64_t *p = malloc(have * sizeof *p + (have == 0));
	REQUIRE(p != NULL);
	for (size_t i = 0; i < have; i++)
		p[i] = in_number(in);
	return p;
}

static int32_t dimensions(input *in)
{
	unsigned c = in_byte(in);

	if (c < 200)
		return (int32_t)(c % 5);
	if (c < 240)
		return (int32_t)(c - 200);
	return c < 250 ? (int32_t)(c - 245 + 62) : (int32_t)in_number(in);
}

void tensor_any(input *in, DLTensor *t)
{
	static const DLDataType common[] = {
		{ kDLFloat, 32, 1 }, { kDLInt, 8, 1 },          { kDLFloat, 64, 1 },  { kDLComplex, 128, 1 },
		{ kDLBool, 8, 1 },   { kDLFloat4_e2m1fn, 4, 1 }, { kDLInt, 4, 1 },     { kDLFloat6_e2m3fn, 6, 1 },
		{ kDLUInt, 1, 9 },   { kDLFloat4_e2m1fn, 4, 2 }, { kDLBfloat, 16, 1 }, { kDLUInt, 64, 1 },
	};
	unsigned c = in_byte(in);

	memset(t, 0, sizeof *t);
	if (c < 192)
		t->data = tensor_arena + ARENA + c / 4 * 16;
	else
		t->data = (void *)(uintptr_t)in_number(in);
	c = in_byte(in);
	t->device = c < 160 ? (DLDevice){ kDLCPU, 0 }
	                    : (DLDevice){ (DLDeviceType)(c < 250 ? (int32_t)(c % 24) : (int32_t)in_number(in)),
	                                  (int32_t)in_below(in, 3) - 1 };
	t->ndim = dimensions(in);
	c = in_byte(in);
	t->dtype = c < 200 ? common[c % (sizeof common / sizeof *common)]
	                   : (DLDataType){ (uint8_t)in_below(in, 22), in_byte(in), (uint16_t)in_below(in, 5) };
	if (c == 255)
		t->dtype.lanes = (uint16_t)in_number(in);
	t->shape = numbers(in, t->ndim);
	t->strides = numbers(in, t->ndim);
	c = in_byte(in);
	t->byte_offset = c < 200 ? c % 8 * 8 : (uint64_t)in_number(in);
}

void tensor_clear(DLTensor *t)
{
	free(t->shape);
	free(t->strides);
}

static void delete_versioned(DLManagedTensorVersioned *m)
{
	REQUIRE(m->manager_ctx == tensor_arena);
	tensor_clear(&m->dl_tensor);
	free(m);
	tensor_deleted++;
}

static void delete_legacy(DLManagedTensor *m)
{
	REQUIRE(m->manager_ctx == tensor_arena);
	tensor_clear(&m->dl_tensor);
	free(m);
	tensor_deleted++;
}

/* Whether the next tensor has no deleter; it is kept for tensor_sweep. */
static int orphan(input *in, void *m)
{
	if (in_below(in, 16) != 0 || orphan_count == MOST)
		return 0;
	orphans[orphan_count++] = m;
	tensor_deleted++;
	return 1;
}

DLManagedTensorVersioned *tensor_versioned(input *in)
{
	DLManagedTensorVersioned *m = calloc(1, sizeof *m);
	unsigned c = in_byte(in);

	REQUIRE(m != NULL);
	m->version = (DLPackVersion){ 1, 3 };
	if (c >= 240)
		m->version = (DLPackVersion){ (uint32_t)in_below(in, 4), (uint32_t)in_number(in) };
	m->flags = c < 128 ? 0 : c < 224 ? c % 8 : (uint64_t)in_number(in);
	tensor_any(in, &m->dl_tensor);
	m->manager_ctx = tensor_arena;
	m->deleter = orphan(in, m) ? NULL : delete_versioned;
	tensor_made++;
	return m;
}

DLManagedTensor *tensor_legacy(input *in)
{
	DLManagedTensor *m = calloc(1, sizeof *m);

	REQUIRE(m != NULL);
	tensor_any(in, &m->dl_tensor);
	m->manager_ctx = tensor_arena;
	m->deleter = orphan(in, m) ? NULL : delete_legacy;
	tensor_made++;
	return m;
}

void tensor_sweep(void)
{
	while (orphan_count > 0) {
		/* Both kinds have the tensor somewhere else. */
		DLManagedTensor *m = orphans[--orphan_count];
		DLManagedTensorVersioned *v = (DLManagedTensorVersioned *)m;
		DLTensor *t = v->manager_ctx == tensor_arena ? &v->dl_tensor : &m->dl_tensor;
		tensor_clear(t);
		free(m);
	}
}

int tensor_in_arena(const DLTensor *t, int64_t itemsize)
{
	const __int128 far = (__int128)1 << 70; /* further than any arena, and sums of 64 of them fit */
	__int128 lo = 0, hi = 0, base = (__int128)(uintptr_t)t->data + t->byte_offset, step = 1;

	for (int32_t i = 0; i < t->ndim; i++)
		if (t->shape[i] == 0)
			return 1;
	for (int32_t i = t->ndim; i-- > 0;) {
		__int128 reach = (__int128)(t->shape[i] - 1) * (t->strides != NULL ? t->strides[i] : step);
		if (reach > far || reach < -far)
			return 0;
		*(reach < 0 ? &lo : &hi) += reach;
		if (t->strides == NULL)
			step *= t->shape[i];
		if (step > far)
			return 0;
	}
	return base + lo * itemsize >= (__int128)(uintptr_t)tensor_arena &&
	       base + (hi + 1) * itemsize <= (__int128)(uintptr_t)tensor_arena + sizeof tensor_arena;
}
