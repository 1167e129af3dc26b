/* The loader: libcuda.so.1 is opened when it is first asked for, never linked. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"

/* One line of entries.h, for resolving. */
struct line {
	const char *name; /* what cuGetProcAddress is asked for */
	const char *symbol;
	int version;
};

static const struct line lines[] = {
#define LINE(name, symbol, version, ret, params) {#name, #symbol, version},
	HO_CUDA_ENTRIES(LINE)
#undef LINE
};

/* Asks the library itself (CUDA 12 and newer), then the loader. */
typedef ho_result (*get_proc_fn)(const char *, void **, int, uint64_t, int *);

static void *resolve(void *lib, get_proc_fn get_proc, const struct line *l)
{
	if (get_proc != NULL) {
		char base[96];
		void *p = NULL;
		int found = HO_CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
		size_t n = strlen(l->name);

		/* A name that ends in _v2 is the older form of a newer call:
		 * the version picks it. */
		if (n > 3 && strcmp(l->name + n - 3, "_v2") == 0)
			n -= 3;
		if (n < sizeof(base)) {
			memcpy(base, l->name, n);
			base[n] = 0;
			if (get_proc(base, &p, l->version, HO_CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found) == HO_CUDA_SUCCESS &&
			    found == HO_CU_GET_PROC_ADDRESS_SUCCESS && p != NULL)
				return p;
		}
	}
	return dlsym(lib, l->symbol);
}

static ho_driver *fail(ho_driver *d, char *why, size_t room, const char *text)
{
	if (room > 0)
		snprintf(why, room, "%s", text != NULL ? text : "unknown error");
	free(d);
	return NULL;
}

/* Without these nothing works, not even the context guard. */
static int has_core(const ho_cuda_table *t)
{
	return t->cuInit != NULL && t->cuDriverGetVersion != NULL && t->cuCtxGetCurrent != NULL &&
	       t->cuCtxPushCurrent != NULL && t->cuCtxPopCurrent != NULL;
}

ho_driver *ho_driver_open(const char *path, char *why, size_t room)
{
	ho_driver *d = calloc(1, sizeof(*d));
	void *lib;
	get_proc_fn get_proc;
	void **slots;

	if (d == NULL)
		return fail(d, why, room, "out of memory");
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (lib == NULL)
		return fail(d, why, room, dlerror());
	/* The library is never closed: the driver keeps threads. */
	*(void **)&get_proc = dlsym(lib, "cuGetProcAddress_v2");
	slots = (void **)&d->t;
	for (int i = 0; i < HO_ENTRY_COUNT; i++) {
		slots[i] = resolve(lib, get_proc, &lines[i]);
		d->resolved += slots[i] != NULL;
	}
	if (!has_core(&d->t))
		return fail(d, why, room, "not a CUDA driver: cuInit, cuDriverGetVersion or cuCtx*Current is missing");
	d->t.cuDriverGetVersion(&d->version);
	return d;
}

ho_driver *ho_driver_from_table(const void *table)
{
	ho_driver *d = calloc(1, sizeof(*d));
	void **slots;

	if (d == NULL)
		return NULL;
	memcpy(&d->t, table, sizeof(d->t));
	slots = (void **)&d->t;
	for (int i = 0; i < HO_ENTRY_COUNT; i++)
		d->resolved += slots[i] != NULL;
	if (!has_core(&d->t)) {
		free(d);
		return NULL;
	}
	d->t.cuDriverGetVersion(&d->version);
	return d;
}

void ho_driver_free(ho_driver *d)
{
	free(d);
}

int ho_driver_has(const ho_driver *d, int index)
{
	return index >= 0 && index < HO_ENTRY_COUNT && ((void *const *)&d->t)[index] != NULL;
}
