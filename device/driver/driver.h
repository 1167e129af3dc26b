/* C side of package driver: the loader, the context guard that every shim
 * uses, and the calls that are fused because one crossing is worth it. The
 * plain shims, one an entry point, are generated (zcalls.h). */
#pragma once

#include <stdatomic.h>
#include <string.h>

#include "handoff/entries.h"

/* What a shim returns when the provider lacks the entry point. */
#define HO_MISSING(name) (-1000 - (int)HO_ENTRY_##name)

/* ---- Contexts ----------------------------------------------------------- */

#ifndef HO_GO_VIEW
/* What ho_enter found and did. */
typedef struct ho_guard {
	ho_context ctx, old;
	int pushed, skipped;
} ho_guard;

/* Makes ctx current if it is not; 0 leaves the thread as it is. A goroutine
 * may be on any thread, so this happens inside the crossing that acts. */
static inline ho_result ho_enter(const ho_cuda_table *t, ho_context ctx, ho_guard *g)
{
	ho_result st;

	g->ctx = ctx;
	g->old = 0;
	g->pushed = 0;
	g->skipped = 0;
	if (ctx == 0)
		return HO_CUDA_SUCCESS;
	st = t->cuCtxGetCurrent(&g->old);
	if (st != HO_CUDA_SUCCESS || g->old == ctx)
		return st;
	st = t->cuCtxPushCurrent(ctx);
	g->pushed = st == HO_CUDA_SUCCESS;
	return st;
}

/* Restores what ho_enter changed. A pop may report an older error and still
 * pop; if it did not, it is tried again, and then the context is set back by
 * hand. Only if nothing helps is it an error: st is what the call itself said,
 * and what it made is the caller's. */
static inline ho_result ho_leave(const ho_cuda_table *t, const ho_guard *g, ho_result st)
{
	ho_context now;
	ho_result pop;

	if (!g->pushed)
		return st;
	pop = t->cuCtxPopCurrent(&now);
	if (pop != HO_CUDA_SUCCESS && t->cuCtxGetCurrent(&now) == HO_CUDA_SUCCESS) {
		if (now == g->ctx)
			pop = t->cuCtxPopCurrent(&now);
		else
			pop = HO_CUDA_SUCCESS;
		if (pop != HO_CUDA_SUCCESS && t->cuCtxSetCurrent != NULL)
			pop = t->cuCtxSetCurrent(g->old);
	}
	return st != HO_CUDA_SUCCESS ? st : pop;
}

/* The same for calls that learn their context from a created stream or an
 * event (id is its handle): there nothing is switched, which saves a third of
 * the cost of the cheap ones. Default streams take the current context. */
static inline ho_result ho_enter_for(const ho_cuda_table *t, ho_context ctx, uintptr_t id, ho_guard *g)
{
	if (id <= HO_STREAM_PER_THREAD)
		return ho_enter(t, ctx, g);
	g->ctx = ctx;
	g->old = 0;
	g->pushed = 0;
	g->skipped = ctx != 0;
	return HO_CUDA_SUCCESS;
}

/* Whether the call has to be made again, in the context: a driver that wants
 * one says so before it does anything. */
static inline int ho_again(const ho_cuda_table *t, ho_guard *g, ho_result *st)
{
	if (*st != HO_CUDA_ERROR_INVALID_CONTEXT || !g->skipped)
		return 0;
	*st = ho_enter(t, g->ctx, g);
	return *st == HO_CUDA_SUCCESS;
}

#endif

/* ---- Drivers ------------------------------------------------------------ */

enum { HO_POOL_CONTEXTS = 64, HO_POOL_EVENTS = 16 };

/* Free events of one context. 0 is no context and no event. made[i] counts the
 * edges of the i-th place: whoever has its event in hand is the only one to write
 * there, so that counting costs no atomic operation. */
typedef struct ho_event_rack {
	_Atomic(ho_context) ctx;
	_Atomic(ho_event) events[HO_POOL_EVENTS];
	_Atomic(uint64_t) made[HO_POOL_EVENTS];
} ho_event_rack;

typedef struct ho_driver {
	ho_cuda_table t;
	int version;  /* of cuDriverGetVersion */
	int resolved; /* entry points found */
	int provided; /* by this program, not by a library */
#ifdef HO_GO_VIEW /* as with ho_cuda_table */
	ho_word key, next;
#else
	const void *key;        /* the library, or the provider's table */
	struct ho_driver *next; /* of the list of all, which are never freed */
#endif
	_Atomic(uint64_t) edges; /* that were made without a place of a rack */
	ho_event_rack racks[HO_POOL_CONTEXTS];
} ho_driver;

/* Opens a library and resolves what it has; a library that is open already
 * gives the same driver. On failure NULL, with what the loader said in why. */
ho_driver *ho_driver_open(const char *path, char *why, size_t room);
/* The driver over a table that a provider filled; the table is copied. NULL if
 * it lacks what nothing works without. */
ho_driver *ho_driver_from_table(const void *table);
/* Whether an entry point is there. */
int ho_driver_has(const ho_driver *d, int index);
/* The first driver of the process; the others follow by next. */
ho_driver *ho_driver_first(void);

/* ---- Fused calls -------------------------------------------------------- */

enum { HO_ORDER_SKIP_IDLE = 1 };

typedef struct ho_ret_word {
	ho_result st;
	uint64_t value;
} ho_ret_word;

typedef struct ho_ret_pair {
	ho_result st;
	uint64_t a, b;
} ho_ret_pair;

/* Makes stream b of ctx_b wait for what is queued on stream a of ctx_a now. */
ho_result ho_order(ho_driver *d, ho_context ctx_a, ho_stream a, ho_context ctx_b, ho_stream b, unsigned flags);
/* What ho_order_open says where the long way has to be gone. */
enum { HO_ORDER_LONG = -1 };
/* ho_order of two created streams of ctx_a and any other context, which others
 * may close meanwhile: *closed_a and *closed_b are not 0 from then on, and before
 * the handle is given back ho_orders_done is asked. Nothing is counted: whoever
 * is in such a call has the event of a place in hand. HO_ORDER_LONG if a stream is
 * closed, no event is free, or the driver refused for a reason to look into. */
ho_result ho_order_open(ho_driver *d, ho_context ctx_a, ho_stream a, ho_stream b, const uint32_t *closed_a,
			const uint32_t *closed_b);
/* Whether all calls that may not have seen that a stream is closed are over; waits
 * for a few microseconds. */
int ho_orders_done(ho_driver *d);
/* Event edges that ho_order has made, of all drivers of the process. */
uint64_t ho_edges(void);
/* An event without timing from the pool, recorded on a stream. */
ho_ret_word ho_record(ho_driver *d, ho_context ctx, ho_stream s);
/* Gives such an event back to the pool. */
ho_result ho_recycle(ho_driver *d, ho_context ctx, ho_event e);
/* Destroys the pooled events of a context that is about to go. */
void ho_forget_context(ho_driver *d, ho_context ctx, int destroyed);
/* Queries n events in one crossing. */
void ho_query_events(const ho_cuda_table *t, ho_context *ctx, ho_event *e, ho_result *st, int n);

/* Creates a context and takes it off the thread's stack again. */
ho_ret_word ho_context_new(const ho_cuda_table *t, uint32_t flags, ho_device dev);
/* Makes ctx current and returns what was. */
ho_ret_word ho_context_swap(const ho_cuda_table *t, ho_context ctx);

typedef struct ho_pointer_info {
	ho_result st;
	int type; /* HO_CU_MEMORYTYPE_..., 0 for unregistered host memory */
	int managed;
	int device; /* ordinal; meaningless when type is 0 */
	ho_context ctx;
	ho_devptr device_ptr;
	ho_word host_ptr;
	ho_devptr base;
	size_t size;
	uint64_t buffer_id;
	ho_mem_pool pool;
} ho_pointer_info;

/* The three facts that classify an address. */
typedef struct ho_pointer_class {
	ho_result st;
	int type, managed, device; /* as in ho_pointer_info */
} ho_pointer_class;

ho_pointer_class ho_pointer_kind(const ho_cuda_table *t, ho_devptr p);
/* All of them. */
ho_pointer_info ho_pointer_all(const ho_cuda_table *t, ho_devptr p);

ho_ret_word ho_pool_get(const ho_cuda_table *t, ho_mem_pool pool, int attr);
ho_result ho_pool_set(const ho_cuda_table *t, ho_mem_pool pool, int attr, uint64_t value);

/* Values of n device attributes; one that the driver does not know is -1 and
 * has its own code in st. */
ho_result ho_device_attributes(const ho_cuda_table *t, ho_device dev, const int *ids, int *values, ho_result *st, int n);

/* Device of a stream, on drivers without cuStreamGetDevice too. */
ho_ret_pair ho_stream_device(const ho_cuda_table *t, ho_context ctx, ho_stream s);

typedef struct ho_capture {
	ho_result st;
	int status;
	uint64_t id;
	ho_graph graph;
	size_t n;
} ho_capture;

/* Capture state; copies up to room dependencies into deps. */
ho_capture ho_capture_info(const ho_cuda_table *t, ho_context ctx, ho_stream s, ho_graph_node *deps, size_t room);

/* Whether all work of a stream is done, without harm to a capture: a stream
 * that captures gives HO_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED and is not asked. */
ho_result ho_stream_poll(const ho_cuda_table *t, ho_context ctx, ho_stream s);

/* Copies to and from Go memory, which is lent for the call. */
ho_result ho_copy_in(const ho_cuda_table *t, ho_context ctx, ho_devptr dst, void *src, size_t n);
ho_result ho_copy_out(const ho_cuda_table *t, ho_context ctx, void *dst, ho_devptr src, size_t n);

/* A launch, in C memory, of which little changes from one to the next. */
typedef struct ho_launch_call {
	ho_word entry; /* cuLaunchKernelEx if it may be called without making ctx current, or 0 */
	ho_function fn;
	ho_word params; /* the array of pointers that cuLaunchKernel takes */
	ho_launch_config config;
	ho_result st;  /* what the driver said */
	ho_word table; /* the const ho_cuda_table * */
	ho_context ctx;
} ho_launch_call;

/* Makes the call, whose address comes as a number: cgo looks up what a pointer
 * points to. It returns nothing, which is quicker to come back from. */
void ho_launch(ho_word call);

/* Shareable handles that are file descriptors. */
ho_ret_word ho_pool_export_fd(const ho_cuda_table *t, ho_mem_pool pool);
ho_ret_word ho_mem_export_fd(const ho_cuda_table *t, ho_mem_handle mem);

/* ---- Host functions ------------------------------------------------------ */

/* The C functions that the driver calls for Go functions; the word is a key
 * of a table in Go, never a pointer. */
ho_word ho_host_once(void);
ho_word ho_host_many(void);
/* Runs one as the driver would; for tests. */
void ho_host_run(ho_word fn, ho_word user);
