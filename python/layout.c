/* Contiguity, extent and copies of strided host memory. */
#include <string.h>

#include "internal.h"

int64_t ho_count(int32_t ndim, const int64_t *shape)
{
	/* The extents of an empty shape may overflow before the 0 comes. */
	uint64_t n = 1;

	for (int32_t i = 0; i < ndim; i++)
		n *= (uint64_t)shape[i];
	return (int64_t)n;
}

int ho_is_c_contiguous(int32_t ndim, const int64_t *shape, const int64_t *strides)
{
	uint64_t expect = 1; /* wraps only if an extent of 0 follows */
	int ok = 1;

	for (int32_t i = ndim; i-- > 0;) {
		if (shape[i] == 0)
			return 1;
		if (shape[i] != 1 && (uint64_t)strides[i] != expect)
			ok = 0; /* an empty shape may still follow */
		expect *= (uint64_t)shape[i];
	}
	return ok;
}

int ho_is_f_contiguous(int32_t ndim, const int64_t *shape, const int64_t *strides)
{
	uint64_t expect = 1; /* wraps only if an extent of 0 follows */
	int ok = 1;

	for (int32_t i = 0; i < ndim; i++) {
		if (shape[i] == 0)
			return 1;
		if (shape[i] != 1 && (uint64_t)strides[i] != expect)
			ok = 0;
		expect *= (uint64_t)shape[i];
	}
	return ok;
}

void ho_span(int32_t ndim, const int64_t *shape, const int64_t *strides, int64_t item, int64_t *lo, int64_t *hi)
{
	int64_t min = 0, max = 0;

	*lo = *hi = 0;
	for (int32_t i = 0; i < ndim; i++)
		if (shape[i] == 0)
			return; /* before its neighbours overflow */
	for (int32_t i = 0; i < ndim; i++) {
		int64_t reach = (shape[i] - 1) * strides[i];
		if (reach < 0)
			min += reach;
		else
			max += reach;
	}
	*lo = min * item;
	*hi = (max + 1) * item;
}

/* The innermost loop: n elements, strides in bytes. */
static void copy_row(int64_t n, char *dst, int64_t ds, const char *src, int64_t ss, int64_t item)
{
#define HO_LOOP(bytes) \
	for (int64_t i = 0; i < n; i++) \
		memcpy(dst + i * ds, src + i * ss, bytes)
	if (ds == item && ss == item) {
		memcpy(dst, src, (size_t)(n * item));
		return;
	}
	switch (item) {
	case 1:
		HO_LOOP(1);
		return;
	case 2:
		HO_LOOP(2);
		return;
	case 4:
		HO_LOOP(4);
		return;
	case 8:
		HO_LOOP(8);
		return;
	case 16:
		HO_LOOP(16);
		return;
	}
	HO_LOOP((size_t)item);
#undef HO_LOOP
}

struct axis {
	int64_t n, ds, ss; /* strides in bytes */
};

static void copy_axes(int k, const struct axis *axes, char *dst, const char *src, int64_t item)
{
	if (k == 1) {
		copy_row(axes[0].n, dst, axes[0].ds, src, axes[0].ss, item);
		return;
	}
	for (int64_t i = 0; i < axes[0].n; i++)
		copy_axes(k - 1, axes + 1, dst + i * axes[0].ds, src + i * axes[0].ss, item);
}

void ho_copy_strided(int32_t ndim, const int64_t *shape, char *dst, const int64_t *dst_strides, const char *src,
                     const int64_t *src_strides, int64_t item)
{
	struct axis axes[HO_MAX_DIMS + 1];
	int k = 0;

	if (ho_count(ndim, shape) == 0)
		return;
	/* Axes of extent 1 do not matter; neighbours that step alike become one. */
	for (int32_t i = 0; i < ndim; i++) {
		if (shape[i] == 1)
			continue;
		struct axis a = { shape[i], dst_strides[i] * item, src_strides[i] * item };
		if (k > 0 && axes[k - 1].ds == a.ds * a.n && axes[k - 1].ss == a.ss * a.n) {
			a.n *= axes[k - 1].n;
			axes[k - 1] = a;
		} else {
			axes[k++] = a;
		}
	}
	if (k == 0)
		axes[k++] = (struct axis){ 1, item, item };
	copy_axes(k, axes, dst, src, item);
}
