/* Validation of foreign tensors. The verdicts and their order are those of
 * check.go; a fuzz test compares the two. */
#include <handoff/block.h>

#include <stddef.h>

/* The layout of the ABI, for every platform on which this file is built
 * (R001 to R005, R089). */
_Static_assert(sizeof(void *) == 8, "only platforms with 8-byte pointers");
_Static_assert(sizeof(DLPackVersion) == 8 && offsetof(DLPackVersion, minor) == 4, "DLPackVersion");
_Static_assert(sizeof(DLDeviceType) == 4, "DLDeviceType");
_Static_assert(sizeof(DLDevice) == 8 && offsetof(DLDevice, device_id) == 4, "DLDevice");
_Static_assert(sizeof(DLDataType) == 4 && _Alignof(DLDataType) == 2 && offsetof(DLDataType, bits) == 1 &&
                   offsetof(DLDataType, lanes) == 2,
               "DLDataType");
_Static_assert(sizeof(DLTensor) == 48 && offsetof(DLTensor, device) == 8 && offsetof(DLTensor, ndim) == 16 &&
                   offsetof(DLTensor, dtype) == 20 && offsetof(DLTensor, shape) == 24 &&
                   offsetof(DLTensor, strides) == 32 && offsetof(DLTensor, byte_offset) == 40,
               "DLTensor");
_Static_assert(sizeof(DLManagedTensor) == 64 && offsetof(DLManagedTensor, manager_ctx) == 48 &&
                   offsetof(DLManagedTensor, deleter) == 56,
               "DLManagedTensor");
_Static_assert(sizeof(DLManagedTensorVersioned) == 80 && offsetof(DLManagedTensorVersioned, manager_ctx) == 8 &&
                   offsetof(DLManagedTensorVersioned, deleter) == 16 &&
                   offsetof(DLManagedTensorVersioned, flags) == 24 &&
                   offsetof(DLManagedTensorVersioned, dl_tensor) == 32,
               "DLManagedTensorVersioned");
_Static_assert(sizeof(DLPackExchangeAPIHeader) == 16 && offsetof(DLPackExchangeAPIHeader, prev_api) == 8,
               "DLPackExchangeAPIHeader");
_Static_assert(sizeof(DLPackExchangeAPI) == 56 && offsetof(DLPackExchangeAPI, managed_tensor_allocator) == 16 &&
                   offsetof(DLPackExchangeAPI, managed_tensor_from_py_object_no_sync) == 24 &&
                   offsetof(DLPackExchangeAPI, managed_tensor_to_py_object_no_sync) == 32 &&
                   offsetof(DLPackExchangeAPI, dltensor_from_py_object_no_sync) == 40 &&
                   offsetof(DLPackExchangeAPI, current_work_stream) == 48,
               "DLPackExchangeAPI");

static int fail(int code, int number, int *rule)
{
	if (rule != NULL)
		*rule = number;
	return code;
}

const char *ho_error_text(int code)
{
	static const char *const texts[] = {
		[HO_E_OK] = "no error",
		[HO_E_VERSION] = "unsupported version",
		[HO_E_FLAGS] = "unknown flags",
		[HO_E_DTYPE] = "unsupported dtype",
		[HO_E_DEVICE] = "unsupported device",
		[HO_E_LAYOUT] = "invalid layout",
		[HO_E_OVERFLOW] = "integer overflow",
		[HO_E_NULL] = "null pointer",
		[HO_E_ALIGN] = "misaligned data",
	};
	if (code < 0 || code >= (int)(sizeof(texts) / sizeof(texts[0])))
		return "unknown error";
	return texts[code];
}

int ho_device_has_addresses(int32_t type)
{
	/* CPU, CUDA, CUDAHost, ROCM, ROCMHost, CUDAManaged, OneAPI */
	const uint32_t mask = 1u << 1 | 1u << 2 | 1u << 3 | 1u << 10 | 1u << 11 | 1u << 13 | 1u << 14;
	return type >= 0 && type < 32 && (mask >> type & 1);
}

int ho_device_is_host(int32_t type)
{
	/* CPU, CUDAHost, ROCMHost, CUDAManaged */
	const uint32_t mask = 1u << 1 | 1u << 3 | 1u << 11 | 1u << 13;
	return type >= 0 && type < 32 && (mask >> type & 1);
}

static int device_known(int32_t type)
{
	/* 1 to 21 without 5 and 6 */
	return type >= 1 && type <= 21 && type != 5 && type != 6;
}

/* Codes whose width is fixed, and the rule that says so; 0 for the others. */
static const struct {
	uint8_t bits, rule;
} fixed_width[] = {
	[4] = {16, 26}, [6] = {8, 24},  [7] = {8, 27},  [8] = {8, 27},  [9] = {8, 27},
	[10] = {8, 27}, [11] = {8, 27}, [12] = {8, 27}, [13] = {8, 27}, [14] = {8, 27},
	[15] = {6, 22}, [16] = {6, 22}, [17] = {4, 23}, [18] = {32, 27},
};

int ho_check_dtype(DLDataType d, int *rule)
{
	if (d.bits == 0 || d.lanes == 0)
		return fail(HO_E_DTYPE, 29, rule);
	if (d.code >= sizeof(fixed_width) / sizeof(fixed_width[0]))
		return fail(HO_E_DTYPE, 27, rule);
	if (fixed_width[d.code].bits != 0) {
		if (d.bits != fixed_width[d.code].bits)
			return fail(HO_E_DTYPE, fixed_width[d.code].rule, rule);
		if (d.code == kDLBool && d.lanes != 1)
			return fail(HO_E_DTYPE, 24, rule);
		return 0;
	}
	switch (d.code) {
	case kDLFloat:
		if (d.bits != 16 && d.bits != 32 && d.bits != 64)
			return fail(HO_E_DTYPE, 27, rule);
		return 0;
	case kDLComplex:
		if (d.bits != 32 && d.bits != 64 && d.bits != 128)
			return fail(HO_E_DTYPE, 25, rule);
		return 0;
	default: /* integers and handles */
		if (d.bits % 8 != 0 && (d.bits > 8 || d.code == kDLOpaqueHandle))
			return fail(HO_E_DTYPE, 27, rule);
		return 0;
	}
}

int ho_check_version(DLPackVersion v, int *rule)
{
	return v.major == DLPACK_MAJOR_VERSION ? 0 : fail(HO_E_VERSION, 8, rule);
}

/* Bytes of n adjacent elements. 0 if they do not fit. */
static int byte_size(int64_t n, int64_t bits, int padded, int64_t *size)
{
	int64_t whole;
	if (bits % 8 == 0 || padded)
		return !__builtin_mul_overflow(n, (bits + 7) / 8, size);
	/* Whole groups of 8 elements take `bits` bytes. */
	return !__builtin_mul_overflow(n / 8, bits, &whole) &&
	       !__builtin_add_overflow(whole, (n % 8 * bits + 7) / 8, size);
}

static uint64_t alignment(DLDataType d)
{
	unsigned bits = d.bits;
	if (d.code == kDLComplex || d.code == 18) /* two parts */
		bits /= 2;
	if (bits == 0 || bits % 8 != 0)
		return 1;
	unsigned size = bits / 8;
	unsigned align = size & -size;
	return align < 8 ? align : 8;
}

int ho_row_major(int32_t ndim, const int64_t *shape, int64_t *strides)
{
	int64_t step = 1;
	for (int32_t i = ndim - 1; i >= 0; i--) {
		strides[i] = step;
		if (i > 0 && __builtin_mul_overflow(step, shape[i] > 1 ? shape[i] : 1, &step))
			return -1;
	}
	return 0;
}

/* 1 for tensors of the everyday kind that pass: numbers of 1, 2, 4 or 8 bytes
 * in memory of the CPU or a CUDA device, up to 8 axes, extents and strides so
 * small that nothing below can overflow. 0 says nothing. */
static inline int plain(const DLTensor *t, uint64_t flags)
{
	enum { SMALL = 1 << 28 };
	const DLDataType d = t->dtype;
	const unsigned size = d.bits / 8;
	const int32_t ndim = t->ndim;

	_Static_assert(kDLCPU == 1 && kDLCUDA == 2 && kDLCUDAHost == 3, "one range");
	if (flags & ~HO_KNOWN_FLAGS || (uint32_t)t->device.device_type - kDLCPU > kDLCUDAHost - kDLCPU || d.lanes != 1 ||
	    d.bits % 8 != 0 || size > 8 || (size & (size - 1)) != 0 || size == 0 || (d.code == kDLFloat && size == 1) ||
	    ndim < 0 || ndim > 8 || t->data == NULL || (ndim > 0 && t->shape == NULL))
		return 0;
	if (d.code > kDLFloat && (d.code != kDLBfloat || size != 2) && (d.code != kDLBool || size != 1))
		return 0;
	const int64_t *shape = t->shape, *strides = ndim == 0 ? NULL : t->strides;
	int64_t count = 1, before = 0, after = 0;
	for (int32_t i = 0; i < ndim; i++) {
		if ((uint64_t)shape[i] - 1 >= SMALL - 1)
			return 0;
		count *= shape[i];
		if (count >= (int64_t)1 << 32) /* times SMALL still fits */
			return 0;
		if (strides == NULL)
			continue;
		if ((uint64_t)strides[i] + SMALL > 2 * (uint64_t)SMALL)
			return 0;
		int64_t reach = (shape[i] - 1) * strides[i]; /* below 2^56 */
		before += reach < 0 ? -reach : 0;
		after += reach < 0 ? 0 : reach;
	}
	if (strides == NULL)
		after = count - 1;
	const uint64_t data = (uint64_t)(uintptr_t)t->data, first = data + t->byte_offset;
	return first >= data && (first & (size - 1)) == 0 && first >= (uint64_t)before * size &&
	       UINT64_MAX - first >= ((uint64_t)after + 1) * size;
}

static __attribute__((noinline)) int check(const DLTensor *t, uint64_t flags, int *rule)
{
	const int32_t device = (int32_t)t->device.device_type;
	const int32_t ndim = t->ndim;
	const int64_t *shape = t->shape, *strides = ndim == 0 ? NULL : t->strides;
	if (flags & ~HO_KNOWN_FLAGS)
		return fail(HO_E_FLAGS, 12, rule);
	if (!device_known(device))
		return fail(HO_E_DEVICE, 35, rule);
	if (ndim < 0 || ndim > HO_MAX_DIMS)
		return fail(HO_E_LAYOUT, 47, rule);
	int code = ho_check_dtype(t->dtype, rule);
	if (code != 0)
		return code;
	if (ndim > 0 && shape == NULL)
		return fail(HO_E_LAYOUT, 47, rule);

	int empty = 0;
	for (int32_t i = 0; i < ndim; i++) {
		if (shape[i] < 0)
			return fail(HO_E_LAYOUT, 34, rule);
		empty |= shape[i] == 0;
	}
	if (strides == NULL) {
		/* The strides that NULL stands for must exist, also without elements. */
		int64_t step = 1;
		for (int32_t i = ndim - 1; i > 0; i--)
			if (__builtin_mul_overflow(step, shape[i] > 1 ? shape[i] : 1, &step))
				return fail(HO_E_OVERFLOW, 34, rule);
	}
	if (empty)
		return 0;

	int64_t count = 1, bytes;
	const int64_t bits = (int64_t)t->dtype.bits * t->dtype.lanes;
	const int padded = (flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) != 0;
	for (int32_t i = 0; i < ndim; i++)
		if (__builtin_mul_overflow(count, shape[i], &count))
			return fail(HO_E_OVERFLOW, 34, rule);
	if (!byte_size(count, bits, padded, &bytes))
		return fail(HO_E_OVERFLOW, 34, rule);

	/* Elements before and after the first one. */
	int64_t before = 0, after = count - 1;
	if (strides != NULL) {
		after = 0;
		for (int32_t i = 0; i < ndim; i++) {
			int64_t reach;
			if (shape[i] == 1)
				continue;
			if (__builtin_mul_overflow(shape[i] - 1, strides[i], &reach))
				return fail(HO_E_OVERFLOW, 34, rule);
			int64_t *side = reach < 0 ? &before : &after;
			if (__builtin_add_overflow(*side, reach, side))
				return fail(HO_E_OVERFLOW, 34, rule);
		}
	}
	int64_t low, high, span;
	if (before == INT64_MIN || !byte_size(-before, bits, padded, &low) ||
	    __builtin_add_overflow(after, 1, &span) || !byte_size(span, bits, padded, &high) ||
	    __builtin_add_overflow(low, high, &bytes))
		return fail(HO_E_OVERFLOW, 34, rule);

	if (!ho_device_has_addresses(device))
		return 0;
	if (t->data == NULL)
		return fail(HO_E_NULL, 45, rule);
	uint64_t first;
	if (__builtin_add_overflow((uint64_t)(uintptr_t)t->data, t->byte_offset, &first))
		return fail(HO_E_OVERFLOW, 42, rule);
	if ((first & (alignment(t->dtype) - 1)) != 0)
		return fail(HO_E_ALIGN, 41, rule);
	if ((uint64_t)low > first || (uint64_t)high > UINT64_MAX - first)
		return fail(HO_E_OVERFLOW, 39, rule);
	return 0;
}

int ho_check_tensor(const DLTensor *t, uint64_t flags, int *rule)
{
	if (t == NULL)
		return fail(HO_E_NULL, 45, rule);
	return plain(t, flags) ? 0 : check(t, flags, rule);
}

int ho_check_versioned(const DLManagedTensorVersioned *m, int *rule)
{
	if (m == NULL)
		return fail(HO_E_NULL, 45, rule);
	if (m->version.major != DLPACK_MAJOR_VERSION)
		return ho_check_version(m->version, rule);
	return plain(&m->dl_tensor, m->flags) ? 0 : check(&m->dl_tensor, m->flags, rule);
}

int ho_check_legacy(const DLManagedTensor *m, int *rule)
{
	return m == NULL ? fail(HO_E_NULL, 45, rule) : ho_check_tensor(&m->dl_tensor, 0, rule);
}
