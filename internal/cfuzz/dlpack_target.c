/* Managed tensors against the checks and exports of package dlpack. */
#include <string.h>

#include "tensor.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	return 0;
}

/* What a tensor that passed promises: bounds that fit in the address space. */
static void promise(const DLTensor *t, uint64_t flags)
{
	REQUIRE(t->ndim >= 0 && t->ndim <= HO_MAX_DIMS);
	REQUIRE((flags & ~HO_KNOWN_FLAGS) == 0);
	__int128 lo = 0, hi = 0, step = 1;
	int empty = 0;
	for (int32_t i = 0; i < t->ndim; i++) {
		REQUIRE(t->shape[i] >= 0);
		empty |= t->shape[i] == 0;
	}
	for (int32_t i = t->ndim; i-- > 0;) {
		/* The strides that NULL stands for exist. */
		REQUIRE(t->strides != NULL || step >> 63 == 0);
		if (!empty) {
			__int128 reach = (__int128)(t->shape[i] - 1) * (t->strides != NULL ? t->strides[i] : step);
			*(reach < 0 ? &lo : &hi) += reach;
			REQUIRE(lo >> 100 == -1 || lo == 0);
			REQUIRE(hi >> 100 == 0);
		}
		if (t->strides == NULL)
			step *= t->shape[i] > 1 ? t->shape[i] : 1;
	}
	if (empty || !ho_device_has_addresses((int32_t)t->device.device_type))
		return;
	int64_t bits = (int64_t)t->dtype.bits * t->dtype.lanes;
	__int128 first = (__int128)(uintptr_t)t->data + t->byte_offset;
	REQUIRE(t->data != NULL);
	REQUIRE(first < (__int128)1 << 64);
	REQUIRE(first + lo * bits / 8 >= 0);
	REQUIRE(first + ((hi + 1) * bits + 7) / 8 < (__int128)1 << 64);
}

static long owners;

static void last(ho_owner *o)
{
	ho_owner_free(o);
	owners--;
}

/* An export has the tensor's layout and gives its owner back once. */
static void export(const DLTensor *t, uint64_t flags, int versioned)
{
	ho_owner *o = ho_owner_new(last, NULL, 0);
	const DLTensor *out;
	int rule = 0;

	REQUIRE(o != NULL);
	owners++;
	DLManagedTensorVersioned *v = versioned ? ho_export_versioned(o, t, flags) : NULL;
	DLManagedTensor *l = versioned ? NULL : ho_export_legacy(o, t);
	ho_owner_unref(o);
	REQUIRE(v != NULL || l != NULL);
	REQUIRE(owners == 1);
	out = v != NULL ? &v->dl_tensor : &l->dl_tensor;
	REQUIRE(out->ndim == t->ndim && (out->ndim == 0 || (out->shape != NULL && out->strides != NULL)));
	for (int32_t i = 0; i < t->ndim; i++)
		REQUIRE(out->shape[i] == t->shape[i] && (t->strides == NULL || out->strides[i] == t->strides[i]));
	/* What we give out we take back. */
	REQUIRE(ho_check_tensor(out, v != NULL ? flags : flags & ~(uint64_t)4, &rule) == 0 || v == NULL);
	if (v != NULL)
		v->deleter(v);
	else
		l->deleter(l);
	REQUIRE(owners == 0);
}

static int told;

static void set_error(void *ctx, const char *kind, const char *message)
{
	REQUIRE(ctx == &told && kind != NULL && message != NULL);
	told++;
}

/* The allocator of the exchange table, with any prototype. */
static void allocate(input *in)
{
	DLTensor t;
	DLManagedTensorVersioned *m = NULL;

	tensor_any(in, &t);
	told = 0;
	/* Sizes that could be had in earnest are left to the tests. */
	int64_t n = 1;
	int large = t.ndim < 0 || t.ndim > HO_MAX_DIMS || t.shape == NULL;
	for (int32_t i = 0; !large && i < t.ndim; i++)
		large = t.shape[i] < 0 || __builtin_mul_overflow(n, t.shape[i], &n) || n > 1 << 12;
	int r = in_below(in, 16) == 0 ? ho_managed_alloc(NULL, &m, &told, set_error)
	        : large && t.ndim >= 0 && t.ndim <= HO_MAX_DIMS && t.shape != NULL ? -2
	                               : ho_managed_alloc(&t, &m, &told, set_error);
	if (r == 0) {
		REQUIRE(told == 0 && m != NULL);
		REQUIRE(ho_check_versioned(m, NULL) == 0);
		if (!large && n > 0) {
			size_t bytes = (size_t)((n * t.dtype.bits * t.dtype.lanes + 7) / 8);
			memset(m->dl_tensor.data, 1, bytes);
		}
		m->deleter(m);
	} else if (r != -2) {
		REQUIRE(r == -1 && told == 1 && m == NULL);
	}
	tensor_clear(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	input in = { data, size };
	long made = tensor_made, deleted = tensor_deleted;
	int64_t live = ho_live_exports();
	int rule = 0, code;

	switch (in_below(&in, 3)) {
	case 0: {
		DLManagedTensorVersioned *m = tensor_versioned(&in);
		code = ho_check_versioned(m, &rule);
		if (code == 0) {
			promise(&m->dl_tensor, m->flags);
			export(&m->dl_tensor, m->flags, 1);
		} else {
			REQUIRE(rule > 0 && *ho_error_text(code) != '\0');
		}
		ho_release_versioned(m);
		break;
	}
	case 1: {
		DLManagedTensor *m = tensor_legacy(&in);
		code = ho_check_legacy(m, &rule);
		if (code == 0) {
			promise(&m->dl_tensor, 0);
			export(&m->dl_tensor, 0, 0);
		} else {
			REQUIRE(rule > 0 && *ho_error_text(code) != '\0');
		}
		ho_release_legacy(m);
		break;
	}
	default:
		allocate(&in);
	}
	tensor_sweep();
	REQUIRE(tensor_made - made == tensor_deleted - deleted);
	REQUIRE(ho_live_exports() == live);
	return 0;
}
