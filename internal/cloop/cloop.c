#define _GNU_SOURCE
#include "cloop.h"

#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A function of the driver that the process has loaded, or NULL. */
static void *symbol(const char *name)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	return lib == NULL ? NULL : dlsym(lib, name);
}

int64_t ho_cloop_order(uintptr_t a, uintptr_t b, int n)
{
	int (*create)(uintptr_t *, unsigned) = (int (*)(uintptr_t *, unsigned))symbol("cuEventCreate");
	int (*destroy)(uintptr_t) = (int (*)(uintptr_t))symbol("cuEventDestroy_v2");
	int (*record)(uintptr_t, uintptr_t) = (int (*)(uintptr_t, uintptr_t))symbol("cuEventRecord");
	int (*wait)(uintptr_t, uintptr_t, unsigned) = (int (*)(uintptr_t, uintptr_t, unsigned))symbol("cuStreamWaitEvent");
	uintptr_t e;
	int bad = 0;

	if (create == NULL || destroy == NULL || record == NULL || wait == NULL || create(&e, 2) != 0)
		return -1;
	int64_t begin = now();
	for (int i = 0; i < n; i++)
		bad |= record(e, a) | wait(b, e, 0);
	int64_t took = now() - begin;
	bad |= destroy(e);
	return bad ? -1 : took;
}

int ho_cloop_order_once(uintptr_t a, uintptr_t b)
{
	static int (*record)(uintptr_t, uintptr_t), (*wait)(uintptr_t, uintptr_t, unsigned);
	static uintptr_t e;

	if (e == 0) {
		int (*create)(uintptr_t *, unsigned) = (int (*)(uintptr_t *, unsigned))symbol("cuEventCreate");
		record = (int (*)(uintptr_t, uintptr_t))symbol("cuEventRecord");
		wait = (int (*)(uintptr_t, uintptr_t, unsigned))symbol("cuStreamWaitEvent");
		if (create == NULL || record == NULL || wait == NULL || create(&e, 2) != 0)
			return -1;
	}
	return record(e, a) | wait(b, e, 0);
}

int64_t ho_cloop_alloc(uintptr_t s, uintptr_t bytes, int n)
{
	int (*alloc)(uint64_t *, size_t, uintptr_t) = (int (*)(uint64_t *, size_t, uintptr_t))symbol("cuMemAllocAsync");
	int (*release)(uint64_t, uintptr_t) = (int (*)(uint64_t, uintptr_t))symbol("cuMemFreeAsync");
	int bad = 0;

	if (alloc == NULL || release == NULL)
		return -1;
	int64_t begin = now();
	for (int i = 0; i < n; i++) {
		uint64_t p = 0;
		bad |= alloc(&p, bytes, s) | release(p, s);
	}
	int64_t took = now() - begin;
	return bad ? -1 : took;
}

/* Asks for count attributes of an address, in one call, n times. */
static int64_t attributes(uint64_t ptr, unsigned count, int *kinds, int n)
{
	int (*ask)(unsigned, int *, void **, uint64_t) =
		(int (*)(unsigned, int *, void **, uint64_t))symbol("cuPointerGetAttributes");
	uint64_t room[16];
	void *out[16];
	int bad = 0;

	if (ask == NULL || count > 16)
		return -1;
	for (unsigned i = 0; i < count; i++)
		out[i] = &room[i];
	int64_t begin = now();
	for (int i = 0; i < n; i++)
		bad |= ask(count, kinds, out, ptr);
	int64_t took = now() - begin;
	return bad ? -1 : took;
}

int ho_cloop_attributes_once(uint64_t ptr)
{
	static int (*ask)(unsigned, int *, void **, uint64_t);
	static int kinds[] = {2, 8, 9};
	uint64_t room[3];
	void *out[] = {&room[0], &room[1], &room[2]};

	if (ask == NULL) {
		ask = (int (*)(unsigned, int *, void **, uint64_t))symbol("cuPointerGetAttributes");
		if (ask == NULL)
			return -1;
	}
	return ask(3, kinds, out, ptr);
}

int64_t ho_cloop_attributes(uint64_t ptr, int n)
{
	int kinds[] = {2, 8, 9}; /* memory type, is managed, device ordinal */

	return attributes(ptr, 3, kinds, n);
}

int64_t ho_cloop_all_attributes(uint64_t ptr, int n)
{
	/* And context, device and host pointer, range, buffer id, pool: those of
	 * Driver.PointerInfo, in its order. */
	int kinds[] = {2, 8, 9, 1, 3, 4, 11, 12, 7, 17};

	return attributes(ptr, 10, kinds, n);
}

int64_t ho_cloop_launch(uintptr_t fn, uintptr_t stream, void *params, int n, bool wait)
{
	int (*launch)(uintptr_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, uintptr_t, void **, void **) =
		(int (*)(uintptr_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, uintptr_t, void **, void **))
			symbol("cuLaunchKernel");
	int (*synchronize)(uintptr_t) = (int (*)(uintptr_t))symbol("cuStreamSynchronize");
	int bad = 0;

	if (launch == NULL || synchronize == NULL)
		return -1;
	int64_t begin = now();
	for (int i = 0; i < n; i++)
		bad |= launch(fn, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
	if (wait)
		bad |= synchronize(stream);
	int64_t took = now() - begin;
	return bad ? -1 : took;
}

void ho_cloop_nothing(void) {}
