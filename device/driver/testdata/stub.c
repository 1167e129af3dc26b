/* A small CUDA driver for the tests of the loader and of the shims: it keeps
 * contexts a thread, counts, and remembers, but does nothing on a device.
 * Built by the tests with other values of the STUB_ macros and opened through
 * the real loader. C, not Go: a process holds one Go runtime.
 *
 * Device attributes from 100000 on read its counters, and 200000 on set it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef STUB_VERSION
#define STUB_VERSION 13000
#endif
#ifndef STUB_INIT
#define STUB_INIT 0
#endif

#define EXPORT __attribute__((visibility("default")))

enum { OK = 0, INVALID_VALUE = 1, OOM = 2, NO_DEVICE = 100, NO_CONTEXT = 201, INVALID_HANDLE = 400, NOT_READY = 600 };

/* Static thread-local storage: the leak sanitizer stumbles over the other. */
#define PER_THREAD static _Thread_local __attribute__((tls_model("initial-exec")))
PER_THREAD uintptr_t stack[16];
PER_THREAD int depth;

static _Atomic int events_made, events_destroyed, records, waits, queries, switches, wrong_event, procs_asked;
static _Atomic int inside, most_inside; /* threads in cuStreamSynchronize */
static _Atomic int generation; /* events of an older one are stale */
static _Atomic int stream_status;
static _Atomic uintptr_t last_stream;

static uintptr_t current(void)
{
	return depth > 0 ? stack[depth - 1] : 0;
}

#define NEED_CONTEXT()                     \
	do {                               \
		if (current() == 0)        \
			return NO_CONTEXT; \
	} while (0)

/* Created streams and events know their context; STUB_STRICT wants one all the
 * same. */
#ifdef STUB_STRICT
#define NEED_CONTEXT_FOR(id) NEED_CONTEXT()
#else
#define NEED_CONTEXT_FOR(id)               \
	do {                               \
		if ((id) <= 2)             \
			NEED_CONTEXT();    \
	} while (0)
#endif

EXPORT int cuInit(unsigned flags)
{
	(void)flags;
	return STUB_INIT;
}

EXPORT int cuDriverGetVersion(int *v)
{
	*v = STUB_VERSION;
	return OK;
}

EXPORT int cuGetErrorName(int code, const char **s)
{
	*s = code == OK ? "CUDA_SUCCESS" : NULL;
	return *s ? OK : INVALID_VALUE;
}

EXPORT int cuDeviceGetCount(int *n)
{
	*n = 2;
	return OK;
}

EXPORT int cuDeviceGetName(char *name, int room, int dev)
{
	(void)dev;
	strncpy(name, "stub", (size_t)room);
	return OK;
}

EXPORT int cuDeviceGetAttribute(int *v, int attr, int dev)
{
	(void)dev;
	switch (attr) {
	case 100000: *v = events_made; return OK;
	case 100001: *v = events_destroyed; return OK;
	case 100002: *v = records; return OK;
	case 100003: *v = waits; return OK;
	case 100004: *v = queries; return OK;
	case 100005: *v = switches; return OK;
	case 100006: *v = wrong_event; return OK;
	case 100007: *v = procs_asked; return OK;
	case 100008: *v = (int)last_stream; return OK;
	case 100009: *v = most_inside; return OK;
	case 200000: generation++; return OK;
	case 200001: stream_status = OK; return OK;
	case 200002: stream_status = NOT_READY; return OK;
	case 200003: most_inside = 0; return OK;
	}
	if (attr < 1 || attr > 140)
		return INVALID_VALUE;
	*v = attr * 10;
	return OK;
}

/* ---- contexts ---- */

EXPORT int cuCtxGetCurrent(uintptr_t *c)
{
	*c = current();
	return OK;
}

EXPORT int cuCtxPushCurrent_v2(uintptr_t c)
{
	if (c < 0xC000 || c > 0xCFFF)
		return NO_CONTEXT;
	switches++;
	stack[depth++] = c;
	return OK;
}

EXPORT int cuCtxPopCurrent_v2(uintptr_t *c)
{
	NEED_CONTEXT();
	*c = stack[--depth];
	return OK;
}

EXPORT int cuCtxSetCurrent(uintptr_t c)
{
	if (c == 0) {
		if (depth > 0)
			depth--;
	} else if (depth > 0) {
		stack[depth - 1] = c;
	} else {
		stack[depth++] = c;
	}
	return OK;
}

EXPORT int cuCtxCreate_v2(uintptr_t *c, unsigned flags, int dev)
{
	static _Atomic uintptr_t next = 0xC100;

	(void)flags;
	if (dev > 1)
		return 101;
	*c = next++;
	stack[depth++] = *c;
	return OK;
}

EXPORT int cuCtxGetDevice(int *dev)
{
	NEED_CONTEXT();
	*dev = (int)(current() & 1);
	return OK;
}

EXPORT int cuDevicePrimaryCtxRetain(uintptr_t *c, int dev)
{
	*c = 0xC000 + (uintptr_t)dev;
	return OK;
}

/* ---- memory ---- */

#ifdef STUB_MEMORY
#include "memory.c"
#define calloc(one, n) place(n)
#define free(p) vacate((uint64_t)(uintptr_t)(p))
#endif

static int alloc(uint64_t *p, size_t n)
{
	if (n == 0)
		return INVALID_VALUE;
	if (n > (1ul << 32))
		return OOM;
	*p = (uint64_t)(uintptr_t)calloc(1, n);
	return OK;
}

EXPORT int cuMemAlloc_v2(uint64_t *p, size_t n)
{
	NEED_CONTEXT();
	return alloc(p, n);
}

EXPORT int cuMemFree_v2(uint64_t p)
{
	NEED_CONTEXT();
	free((void *)(uintptr_t)p);
	return OK;
}

EXPORT int cuMemAllocAsync(uint64_t *p, size_t n, uintptr_t s)
{
	last_stream = s;
	NEED_CONTEXT_FOR(s);
	return alloc(p, n);
}

EXPORT int cuMemFreeAsync(uint64_t p, uintptr_t s)
{
	last_stream = s;
	NEED_CONTEXT_FOR(s);
	free((void *)(uintptr_t)p);
	return OK;
}
#ifdef STUB_MEMORY
#undef calloc
#undef free
#endif

EXPORT int cuMemcpyHtoD_v2(uint64_t dst, const void *src, size_t n)
{
	NEED_CONTEXT();
	memcpy((void *)(uintptr_t)dst, src, n);
	return OK;
}

EXPORT int cuMemcpyDtoH_v2(void *dst, uint64_t src, size_t n)
{
	NEED_CONTEXT();
	memcpy(dst, (void *)(uintptr_t)src, n);
	return OK;
}

typedef struct {
	size_t sx, sy;
	int st;
	const void *sh;
	uint64_t sd;
	void *sa;
	size_t sp, dx, dy;
	int dt;
	void *dh;
	uint64_t dd;
	void *da;
	size_t dp, w, h;
} copy2d;

EXPORT int cuMemcpy2D_v2(const copy2d *c)
{
	NEED_CONTEXT();
	for (size_t y = 0; y < c->h; y++)
		memcpy((char *)(uintptr_t)c->dd + (y + c->dy) * c->dp + c->dx, (const char *)(uintptr_t)c->sd + (y + c->sy) * c->sp + c->sx, c->w);
	return OK;
}

/* 0x1... device 1, 0x2... pinned, 0x3... managed, the rest unregistered. */
EXPORT int cuPointerGetAttributes(unsigned n, const int *attrs, void **data, uint64_t p)
{
	int kind = (int)(p >> 28);

	for (unsigned i = 0; i < n; i++) {
		switch (attrs[i]) {
		case 1: *(uintptr_t *)data[i] = kind >= 1 && kind <= 3 ? 0xC001 : 0; break;
		case 2: *(int *)data[i] = kind == 1 || kind == 3 ? 2 : kind == 2 ? 1 : 0; break;
		case 3: *(uint64_t *)data[i] = kind >= 1 && kind <= 3 ? p : 0; break;
		case 4: *(uint64_t *)data[i] = kind == 2 || kind == 3 ? p : 0; break;
		case 8: *(unsigned char *)data[i] = kind == 3; break;
		case 9: *(int *)data[i] = kind >= 1 && kind <= 3 ? 1 : -2; break;
		case 11: *(uint64_t *)data[i] = p & ~(uint64_t)0xFFF; break;
		case 12: *(size_t *)data[i] = 0x1000; break;
		default: *(uint64_t *)data[i] = 0;
		}
	}
	return OK;
}

EXPORT int cuMemPoolGetAttribute(uintptr_t pool, int attr, void *v)
{
	if (pool == 0)
		return INVALID_VALUE;
	if (attr <= 3)
		*(int *)v = 1;
	else
		*(uint64_t *)v = 0x123456789aull;
	return OK;
}

/* ---- streams and events ---- */

EXPORT int cuStreamSynchronize(uintptr_t s)
{
	struct timespec t = {0, 20 * 1000 * 1000};
	int n = ++inside, most = most_inside;

	last_stream = s;
	while (n > most && !atomic_compare_exchange_weak(&most_inside, &most, n))
		;
	while (nanosleep(&t, &t) != 0 && errno == EINTR)
		;
	inside--;
	return OK;
}

EXPORT int cuStreamQuery(uintptr_t s)
{
	NEED_CONTEXT_FOR(s);
	queries++;
	return stream_status;
}

/* An event knows its context and its generation: 0xE, generation, context, no. */
EXPORT int cuEventCreate(uintptr_t *e, unsigned flags)
{
	NEED_CONTEXT();
	if (flags != 2)
		return INVALID_VALUE;
	*e = 0xE000000000000000ull | (uintptr_t)generation << 48 | current() << 32 | (uintptr_t)(uint32_t)++events_made;
	return OK;
}

static int good_event(uintptr_t e)
{
	return e >> 60 == 0xE && (int)(e >> 48 & 0xFFF) == generation;
}

EXPORT int cuEventDestroy_v2(uintptr_t e)
{
	if (!good_event(e))
		return INVALID_HANDLE;
	events_destroyed++;
	return OK;
}

EXPORT int cuEventRecord(uintptr_t e, uintptr_t s)
{
	NEED_CONTEXT_FOR(s);
	if (!good_event(e))
		return INVALID_HANDLE;
	if (current() != 0 && (e >> 32 & 0xFFFF) != current())
		wrong_event++;
	records++;
	return OK;
}

EXPORT int cuStreamWaitEvent(uintptr_t s, uintptr_t e, unsigned flags)
{
	(void)flags;
	NEED_CONTEXT_FOR(s);
	if (!good_event(e) || s == 0xBAD)
		return INVALID_HANDLE;
	waits++;
	return OK;
}

EXPORT int cuEventQuery(uintptr_t e)
{
	if (!good_event(e))
		return INVALID_HANDLE;
	return e & 1 ? OK : NOT_READY;
}

EXPORT int cuStreamGetCtx(uintptr_t s, uintptr_t *c)
{
	if (s <= 2) {
		NEED_CONTEXT();
		*c = current();
	} else
		*c = 0xC001;
	return OK;
}

/* The first parameter, of 8 bytes, receives what the launch was made of. */
EXPORT int cuLaunchKernel(uintptr_t fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
			  unsigned shared, uintptr_t s, void **params, void **extra)
{
	NEED_CONTEXT_FOR(s);
	if (fn == 0 || extra != NULL)
		return INVALID_VALUE;
	*(uint64_t *)params[0] = gx | gy << 4 | gz << 8 | bx << 12 | by << 16 | bz << 20 | (uint64_t)shared << 24;
	return OK;
}

#ifndef STUB_NO_EX
struct launch_config {
	unsigned gx, gy, gz, bx, by, bz, shared;
	uintptr_t stream;
	void *attrs;
	unsigned num_attrs;
};

EXPORT int cuLaunchKernelEx(struct launch_config *c, uintptr_t fn, void **params, void **extra)
{
	return cuLaunchKernel(fn, c->gx, c->gy, c->gz, c->bx, c->by, c->bz, c->shared, c->stream, params, extra);
}
#endif

typedef void (*host_fn)(void *);
struct job {
	host_fn fn;
	void *user;
};

static void *runner(void *p)
{
	struct job *j = p;
	j->fn(j->user);
	return NULL;
}

EXPORT int cuLaunchHostFunc(uintptr_t s, host_fn fn, void *user)
{
	struct job j = {fn, user};
	pthread_t t;

	(void)s;
	if (fn == NULL)
		return INVALID_VALUE;
	pthread_create(&t, NULL, runner, &j);
	pthread_join(t, NULL);
	return OK;
}

EXPORT int cuStreamGetCaptureInfo_v2(uintptr_t s, int *status, uint64_t *id, uintptr_t *graph, const uintptr_t **deps, size_t *n)
{
	static const uintptr_t nodes[] = {0xA1, 0xA2, 0xA3};

	(void)s;
	*status = 1;
	*id = 7;
	*graph = 0x6A;
	*deps = nodes;
	*n = 3;
	return OK;
}

EXPORT int cuGraphGetNodes(uintptr_t g, uintptr_t *nodes, size_t *n)
{
	if (g == 0)
		return INVALID_VALUE;
	if (nodes == NULL) {
		*n = 3;
		return OK;
	}
	for (size_t i = 0; i < *n && i < 3; i++)
		nodes[i] = 0xA1 + i;
	if (*n > 3)
		*n = 3;
	return OK;
}

typedef struct __attribute__((aligned(128))) {
	uint64_t words[16];
} tensor_map;

EXPORT int cuTensorMapReplaceAddress(tensor_map *m, void *addr)
{
	if ((uintptr_t)m % 128 != 0)
		return INVALID_VALUE;
	m->words[0] = (uintptr_t)addr;
	return OK;
}

EXPORT int cuCtxSynchronize(void)
{
	NEED_CONTEXT();
	return 700;
}

#ifndef STUB_NO_GETPROC
struct proc {
	const char *name;
	void *fn;
	int version;
};

EXPORT int cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags, int *found)
{
	static const struct proc procs[] = {
		{"cuInit", (void *)cuInit, 2000},
		{"cuMemAlloc", (void *)cuMemAlloc_v2, 3020},
		{"cuMemAllocAsync", (void *)cuMemAllocAsync, 11020},
		{"cuStreamGetCaptureInfo", (void *)cuStreamGetCaptureInfo_v2, 11030},
	};

	procs_asked++;
	*fn = NULL;
	*found = 1;
	if (flags != 1)
		return INVALID_VALUE;
	for (size_t i = 0; i < sizeof(procs) / sizeof(procs[0]); i++) {
		if (strcmp(procs[i].name, name) != 0)
			continue;
		/* One form of the call: an exact version, or none. */
		if (version != procs[i].version) {
			*found = 2;
			return 500;
		}
		*fn = procs[i].fn;
		*found = 0;
		return OK;
	}
	return 500;
}
#endif
