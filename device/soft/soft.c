#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "soft.h"
#include "_cgo_export.h"

int ho_soft_forked;

static __thread uint32_t self;

/* Numbers of ended threads, until Go asks. */
struct ended {
	struct ended *next;
	uint32_t number;
};

static struct ended *ended_list;
static pthread_mutex_t ended_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A thread's destructor must not enter Go, so it leaves a note. */
static void thread_ended(void *p)
{
	struct ended *e = p;

	pthread_mutex_lock(&ended_lock);
	e->next = ended_list;
	ended_list = e;
	pthread_mutex_unlock(&ended_lock);
}

static void make_key(void) { (void)pthread_key_create(&key, thread_ended); }

uint32_t ho_soft_thread(void) { return self; }

void ho_soft_set_thread(uint32_t number)
{
	struct ended *e;

	self = number | (self & HO_SOFT_IN_HOST);
	pthread_once(&once, make_key);
	e = calloc(1, sizeof(*e));
	if (e == NULL)
		return; /* the number is not used again */
	e->number = number;
	(void)pthread_setspecific(key, e);
}

uint32_t ho_soft_ended_thread(void)
{
	struct ended *e;
	uint32_t n = 0;

	pthread_mutex_lock(&ended_lock);
	e = ended_list;
	if (e != NULL)
		ended_list = e->next;
	pthread_mutex_unlock(&ended_lock);
	if (e != NULL) {
		n = e->number;
		free(e);
	}
	return n;
}

void ho_soft_call_host(ho_word fn, ho_word user)
{
	uint32_t was = self & HO_SOFT_IN_HOST;

	self |= HO_SOFT_IN_HOST;
	((ho_host_fn)fn)(user);
	self = (self & ~HO_SOFT_IN_HOST) | was;
}

void ho_soft_call_stream(ho_word fn, ho_stream stream, ho_result st, ho_word user)
{
	uint32_t was = self & HO_SOFT_IN_HOST;

	self |= HO_SOFT_IN_HOST;
	((ho_stream_callback)fn)(stream, st, user);
	self = (self & ~HO_SOFT_IN_HOST) | was;
}

size_t ho_soft_call_occupancy(ho_word fn, int block) { return ((ho_occupancy_fn)fn)(block); }

static void in_child(void) { ho_soft_forked = 1; }

void ho_soft_watch_fork(void) { (void)pthread_atfork(NULL, NULL, in_child); }

/* ---- Who makes an edge, where it is C that does ---- */

int ho_soft_watching;

#if defined(__has_include)
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#define CAN_LOOK 1
#endif
#endif

static __thread void *above[HO_SOFT_ABOVE];
static __thread int above_n;

static void look(void)
{
#ifdef CAN_LOOK
	above_n = backtrace(above, HO_SOFT_ABOVE);
#endif
}

int ho_soft_above(int i, const char **file, uint64_t *offset)
{
	Dl_info info;

	if (i >= above_n) {
		above_n = 0; /* told once */
		return 0;
	}
	*file = "";
	*offset = (uint64_t)(uintptr_t)above[i] - 1; /* the call, not what comes after it */
	if (dladdr((void *)(uintptr_t)*offset, &info) != 0 && info.dli_fname != NULL) {
		*file = info.dli_fname;
		*offset -= (uint64_t)(uintptr_t)info.dli_fbase;
	}
	return 1;
}

#ifdef CAN_LOOK
/* The entry points that make edges. */
#define WATCHED(X) \
	X(cuStreamWaitEvent, (ho_stream q, ho_event e, uint32_t f), (q, e, f)) \
	X(cuStreamSynchronize, (ho_stream q), (q)) \
	X(cuEventSynchronize, (ho_event e), (e)) \
	X(cuCtxSynchronize, (void), ()) \
	X(cuStreamQuery, (ho_stream q), (q)) \
	X(cuEventQuery, (ho_event e), (e))
#endif

/* The Go functions have exactly the types of the table. */
static const ho_cuda_table direct = {
#define FIELD(name, symbol, version, ret, params) .name = ho_soft_##name,
	HO_CUDA_ENTRIES(FIELD)
#undef FIELD
};

#include "guard.h"

#ifdef CAN_LOOK
static ho_cuda_table behind;
#define WATCH(name, params, args) \
	static ho_result watch_##name params \
	{ \
		if (ho_soft_watching) \
			look(); \
		return behind.name args; \
	}
WATCHED(WATCH)
#endif

static ho_cuda_table table;

static void fill(void)
{
	table = direct;
#ifdef HO_SOFT_GUARDED
#define FIELD(name, symbol, version, ret, params) table.name = ho_soft_guard_##name;
	HO_CUDA_ENTRIES(FIELD)
#undef FIELD
#endif
#ifdef CAN_LOOK
	behind = table;
#define FIELD(name, params, args) table.name = watch_##name;
	WATCHED(FIELD)
#undef FIELD
#endif
}

const ho_cuda_table *ho_soft_table(void)
{
	static pthread_once_t filled = PTHREAD_ONCE_INIT;

	pthread_once(&filled, fill);
	return &table;
}
