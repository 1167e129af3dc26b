/* The loader: libcuda.so.1 is opened when it is first asked for, never linked. */
#include <dlfcn.h>
#include <pthread.h>
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

/* Without these nothing works, not even the context guard. */
static int has_core(const ho_cuda_table *t)
{
	return t->cuInit != NULL && t->cuDriverGetVersion != NULL && t->cuCtxGetCurrent != NULL &&
	       t->cuCtxPushCurrent != NULL && t->cuCtxPopCurrent != NULL;
}

/* All drivers of the process, one a library: no more than there are libraries,
 * so they are never freed. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ho_driver *all;

static ho_driver *find(const void *key)
{
	ho_driver *d = all;

	while (d != NULL && d->key != key)
		d = d->next;
	return d;
}

ho_driver *ho_driver_first(void)
{
	pthread_mutex_lock(&lock);
	ho_driver *d = all;
	pthread_mutex_unlock(&lock);
	return d;
}

/* Enters a driver whose table is filled, or frees it and returns NULL. */
static ho_driver *enter(ho_driver *d, const void *key)
{
	void **slots = (void **)&d->t;

	if (!has_core(&d->t)) {
		free(d);
		return NULL;
	}
	for (int i = 0; i < HO_ENTRY_COUNT; i++)
		d->resolved += slots[i] != NULL;
	d->t.cuDriverGetVersion(&d->version);
	d->key = key;
	d->next = all;
	all = d;
	return d;
}

static ho_driver *fail(char *why, size_t room, const char *text)
{
	if (room > 0)
		snprintf(why, room, "%s", text != NULL ? text : "unknown error");
	return NULL;
}

/* Holding the lock, with the library open. */
static ho_driver *open_library(void *lib, char *why, size_t room)
{
	ho_driver *d = find(lib);
	get_proc_fn get_proc;
	void **slots;

	if (d != NULL)
		return d;
	d = calloc(1, sizeof(*d));
	if (d == NULL)
		return fail(why, room, "out of memory");
	*(void **)&get_proc = dlsym(lib, "cuGetProcAddress_v2");
	slots = (void **)&d->t;
	for (int i = 0; i < HO_ENTRY_COUNT; i++)
		slots[i] = resolve(lib, get_proc, &lines[i]);
	d = enter(d, lib);
	if (d == NULL)
		return fail(why, room, "not a CUDA driver: cuInit, cuDriverGetVersion or cuCtx*Current is missing");
	return d;
}

ho_driver *ho_driver_open(const char *path, char *why, size_t room)
{
	/* The library is never closed: the driver keeps threads. */
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	ho_driver *d;

	if (lib == NULL)
		return fail(why, room, dlerror());
	pthread_mutex_lock(&lock);
	d = open_library(lib, why, room);
	pthread_mutex_unlock(&lock);
	return d;
}

ho_driver *ho_driver_from_table(const void *table)
{
	ho_driver *d;

	pthread_mutex_lock(&lock);
	d = find(table);
	if (d == NULL && (d = calloc(1, sizeof(*d))) != NULL) {
		memcpy(&d->t, table, sizeof(d->t));
		d->provided = 1;
		d = enter(d, table);
	}
	pthread_mutex_unlock(&lock);
	return d;
}

int ho_driver_has(const ho_driver *d, int index)
{
	return index >= 0 && index < HO_ENTRY_COUNT && ((void *const *)&d->t)[index] != NULL;
}
