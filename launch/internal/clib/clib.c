#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "clib.h"

/* Addresses of the strings in a block of n, in memory for the caller to free.
 * NULL only without memory. */
static const char **split(int n, const char *list)
{
	const char **out = calloc((size_t)n + 1, sizeof *out);

	if (out == NULL)
		return NULL;
	for (int i = 0; i < n; i++) {
		out[i] = list;
		list += strlen(list) + 1;
	}
	return out;
}

int ho_clib_ints2(uintptr_t fn, int out[2])
{
	return ((int (*)(int *, int *))fn)(&out[0], &out[1]);
}

int ho_clib_ints4(uintptr_t fn, int out[4])
{
	return ((int (*)(int *, int *, int *, int *))fn)(&out[0], &out[1], &out[2], &out[3]);
}

int ho_clib_int(uintptr_t fn, int *out)
{
	return ((int (*)(int *))fn)(out);
}

int ho_clib_get_size(uintptr_t fn, size_t *out)
{
	return ((int (*)(size_t *))fn)(out);
}

int ho_clib_set_size(uintptr_t fn, size_t value)
{
	return ((int (*)(size_t))fn)(value);
}

int ho_clib_create(uintptr_t fn, uintptr_t *handle)
{
	return ((int (*)(uintptr_t *))fn)(handle);
}

int ho_clib_destroy(uintptr_t fn, uintptr_t *handle)
{
	return ((int (*)(uintptr_t *))fn)(handle);
}

int ho_clib_do(uintptr_t fn, uintptr_t handle)
{
	return ((int (*)(uintptr_t))fn)(handle);
}

int ho_clib_size(uintptr_t fn, uintptr_t handle, size_t *out)
{
	return ((int (*)(uintptr_t, size_t *))fn)(handle, out);
}

int ho_clib_data(uintptr_t fn, uintptr_t handle, char *out)
{
	return ((int (*)(uintptr_t, char *))fn)(handle, out);
}

int ho_clib_strings(uintptr_t fn, uintptr_t handle, int n, const char *list)
{
	const char **s = split(n, list);
	int st;

	if (s == NULL)
		return HO_CLIB_OOM;
	st = ((int (*)(uintptr_t, int, const char **))fn)(handle, n, s);
	free(s);
	return st;
}

int ho_clib_string(uintptr_t fn, uintptr_t handle, const char *s)
{
	return ((int (*)(uintptr_t, const char *))fn)(handle, s);
}

int ho_clib_lookup(uintptr_t fn, uintptr_t handle, const char *s, const char **out)
{
	return ((int (*)(uintptr_t, const char *, const char **))fn)(handle, s, out);
}

int ho_clib_nvrtc_create(uintptr_t fn, uintptr_t *handle, const char *source, const char *name,
			 int n, const char *headers, const char *names)
{
	typedef int (*create_fn)(uintptr_t *, const char *, const char *, int, const char **, const char **);
	const char **h = split(n, headers), **m = split(n, names);
	int st = HO_CLIB_OOM;

	if (h != NULL && m != NULL)
		st = ((create_fn)fn)(handle, source, name, n, h, m);
	free(h);
	free(m);
	return st;
}

/* Called by the compiler now and then, on its own threads. */
static int flow(void *payload, void *unused)
{
	(void)unused;
	return atomic_load_explicit((_Atomic int *)payload, memory_order_relaxed);
}

int ho_clib_nvrtc_flow(uintptr_t fn, uintptr_t handle, int *cancel)
{
	typedef int (*flow_fn)(uintptr_t, int (*)(void *, void *), void *);

	return ((flow_fn)fn)(handle, flow, cancel);
}

int *ho_clib_flag_new(void)
{
	return calloc(1, sizeof(int));
}

void ho_clib_flag_set(int *flag)
{
	atomic_store_explicit((_Atomic int *)flag, 1, memory_order_relaxed);
}

int ho_clib_link_create(uintptr_t fn, uintptr_t *handle, int n, const char *options)
{
	const char **s = split(n, options);
	int st;

	if (s == NULL)
		return HO_CLIB_OOM;
	st = ((int (*)(uintptr_t *, uint32_t, const char **))fn)(handle, (uint32_t)n, s);
	free(s);
	return st;
}

int ho_clib_link_data(uintptr_t fn, uintptr_t handle, int kind, const void *data, size_t size, const char *name)
{
	typedef int (*add_fn)(uintptr_t, int, const void *, size_t, const char *);

	return ((add_fn)fn)(handle, kind, data, size, name);
}

int ho_clib_link_file(uintptr_t fn, uintptr_t handle, int kind, const char *path)
{
	return ((int (*)(uintptr_t, int, const char *))fn)(handle, kind, path);
}

int ho_clib_nvvm_add(uintptr_t fn, uintptr_t handle, const char *data, size_t size, const char *name)
{
	return ((int (*)(uintptr_t, const char *, size_t, const char *))fn)(handle, data, size, name);
}

int ho_clib_nvvm_llvm(uintptr_t fn, const char *arch, int *out)
{
	return ((int (*)(const char *, int *))fn)(arch, out);
}
