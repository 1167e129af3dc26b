/* Events from a pool, and the order of two streams in one crossing. */
#include "driver.h"

/* ---- The pool. Lock-free: a slot holds an event, 0, or LENT. -------------- */

/* The slot's event is in the hands of one call, which puts it back. */
enum { LENT = 1 };

static ho_event_rack *rack(ho_driver *d, ho_context ctx, int make)
{
	size_t start = (ctx >> 6) % HO_POOL_CONTEXTS;

	for (size_t i = 0; i < HO_POOL_CONTEXTS; i++) {
		ho_event_rack *r = &d->racks[(start + i) % HO_POOL_CONTEXTS];
		if (atomic_load_explicit(&r->ctx, memory_order_acquire) == ctx)
			return r;
	}
	if (!make)
		return NULL;
	for (size_t i = 0; i < HO_POOL_CONTEXTS; i++) {
		ho_event_rack *r = &d->racks[(start + i) % HO_POOL_CONTEXTS];
		ho_context none = 0;
		if (atomic_compare_exchange_strong(&r->ctx, &none, ctx) || none == ctx)
			return r;
	}
	return NULL; /* more contexts than racks: their events are not pooled */
}

/* An event of the pool, or 0. */
static ho_event pooled(ho_driver *d, ho_context ctx)
{
	ho_event_rack *r = rack(d, ctx, 0);

	for (int i = 0; r != NULL && i < HO_POOL_EVENTS; i++) {
		ho_event e = atomic_load_explicit(&r->events[i], memory_order_relaxed);
		if (e > LENT && atomic_compare_exchange_strong_explicit(&r->events[i], &e, 0, memory_order_acq_rel,
									memory_order_relaxed))
			return e;
	}
	return 0;
}

/* An event of the pool for the time of one call: the place that it has in its
 * rack, or -1. It goes back by storing it: half of what taking it out and putting
 * it in costs. */
static int lend(ho_event_rack *r, ho_event *out)
{
	for (int i = 0; r != NULL && i < HO_POOL_EVENTS; i++) {
		ho_event e = atomic_load_explicit(&r->events[i], memory_order_relaxed);
		/* Sequentially consistent: see ho_order_open. */
		if (e > LENT && atomic_compare_exchange_strong(&r->events[i], &e, LENT)) {
			*out = e;
			return i;
		}
	}
	return -1;
}

static void give_back(ho_event_rack *r, int place, ho_event e, unsigned edges)
{
	uint64_t n = atomic_load_explicit(&r->made[place], memory_order_relaxed);

	atomic_store_explicit(&r->made[place], n + edges, memory_order_relaxed);
	atomic_store_explicit(&r->events[place], e, memory_order_release);
}

/* The context is current. *stale says that the event may be: a context that
 * someone else destroyed takes its events with it. */
static ho_result take(ho_driver *d, ho_context ctx, ho_event *e, int *stale)
{
	*e = pooled(d, ctx);
	*stale = *e != 0;
	if (*stale)
		return HO_CUDA_SUCCESS;
	if (d->t.cuEventCreate == NULL)
		return HO_MISSING(cuEventCreate);
	return d->t.cuEventCreate(e, HO_CU_EVENT_DISABLE_TIMING);
}

/* Puts an event into the pool; 0 if there is no room. */
static int put(ho_driver *d, ho_context ctx, ho_event e)
{
	ho_event_rack *r = rack(d, ctx, 1);

	for (int i = 0; r != NULL && i < HO_POOL_EVENTS; i++) {
		ho_event none = 0;
		if (atomic_load_explicit(&r->events[i], memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_strong_explicit(&r->events[i], &none, e, memory_order_acq_rel,
							    memory_order_relaxed))
			return 1;
	}
	return 0;
}

static void give(ho_driver *d, ho_context ctx, ho_event e)
{
	if (!put(d, ctx, e) && d->t.cuEventDestroy != NULL)
		d->t.cuEventDestroy(e);
}

/* Takes an event and records it; ctx is current. */
static ho_result take_and_record(ho_driver *d, ho_context ctx, ho_stream s, ho_event *e)
{
	int stale;
	ho_result st = take(d, ctx, e, &stale);

	if (st != HO_CUDA_SUCCESS)
		return st;
	st = d->t.cuEventRecord(*e, s);
	if (st == HO_CUDA_SUCCESS)
		return st;
	if (stale && (st == HO_CUDA_ERROR_INVALID_HANDLE || st == HO_CUDA_ERROR_CONTEXT_IS_DESTROYED ||
		       st == HO_CUDA_ERROR_INVALID_CONTEXT)) {
		/* Perhaps the event is stale; a fresh one tells. */
		st = d->t.cuEventCreate(e, HO_CU_EVENT_DISABLE_TIMING);
		if (st != HO_CUDA_SUCCESS)
			return st;
		st = d->t.cuEventRecord(*e, s);
		if (st == HO_CUDA_SUCCESS)
			return st;
	}
	d->t.cuEventDestroy(*e);
	return st;
}

/* The key of a context in the pool: 0 means "the current one". */
static ho_result key(const ho_driver *d, ho_context *ctx)
{
	if (*ctx != 0)
		return HO_CUDA_SUCCESS;
	ho_result st = d->t.cuCtxGetCurrent(ctx);
	if (st == HO_CUDA_SUCCESS && *ctx == 0)
		st = HO_CUDA_ERROR_INVALID_CONTEXT;
	return st;
}

static ho_result missing(const ho_driver *d)
{
	if (d->t.cuEventRecord == NULL)
		return HO_MISSING(cuEventRecord);
	if (d->t.cuStreamWaitEvent == NULL)
		return HO_MISSING(cuStreamWaitEvent);
	if (d->t.cuStreamQuery == NULL)
		return HO_MISSING(cuStreamQuery);
	if (d->t.cuEventDestroy == NULL)
		return HO_MISSING(cuEventDestroy);
	return HO_CUDA_SUCCESS;
}

/* 0 is the legacy default stream to the entry points that we resolve. */
static ho_stream plain(ho_stream s)
{
	return s == 0 ? HO_STREAM_LEGACY : s;
}

/* Whether that is the answer. Any failure is looked into on the long way, except
 * what a capture refuses: that has ended the capture, and what comes after says
 * nothing more. */
static int told(ho_result st)
{
	return st == HO_CUDA_SUCCESS ||
	       (st >= HO_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && st <= HO_CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
}

/* The order of two created streams, with a pooled event: no context is needed.
 * Says 0 if the long way has to be gone. An event is in the pool only if every
 * entry point that is called here was there. */
static int order_created(ho_driver *d, ho_context ctx_a, ho_stream a, ho_stream b, unsigned flags, ho_result *st)
{
	ho_event_rack *r = rack(d, ctx_a, 0);
	ho_event e;
	int place = lend(r, &e);

	if (place < 0)
		return 0;
	if (flags & HO_ORDER_SKIP_IDLE) {
		*st = d->t.cuStreamQuery(a);
		if (*st != HO_CUDA_ERROR_NOT_READY) {
			give_back(r, place, e, 0);
			return *st != HO_CUDA_ERROR_INVALID_CONTEXT;
		}
	}
	*st = d->t.cuEventRecord(e, a);
	if (*st == HO_CUDA_SUCCESS)
		*st = d->t.cuStreamWaitEvent(b, e, 0);
	give_back(r, place, e, *st == HO_CUDA_SUCCESS);
	return told(*st);
}

/* Who closes a stream sets the flag and then looks who is in; who comes in takes a
 * place and then looks at the flag. One of them sees the other. */
ho_result ho_order_open(ho_driver *d, ho_context ctx_a, ho_stream a, ho_stream b, const uint32_t *closed_a,
			const uint32_t *closed_b)
{
	ho_event_rack *r = rack(d, ctx_a, 0);
	ho_event e;
	ho_result st = HO_ORDER_LONG;
	int place = lend(r, &e);

	if (place < 0)
		return st;
	if (!__atomic_load_n(closed_a, __ATOMIC_SEQ_CST) && !__atomic_load_n(closed_b, __ATOMIC_SEQ_CST)) {
		st = d->t.cuEventRecord(e, a);
		if (st == HO_CUDA_SUCCESS)
			st = d->t.cuStreamWaitEvent(b, e, 0);
	}
	give_back(r, place, e, st == HO_CUDA_SUCCESS);
	return told(st) ? st : HO_ORDER_LONG;
}

int ho_orders_done(ho_driver *d)
{
	int turns = 0;

	for (int i = 0; i < HO_POOL_CONTEXTS; i++) {
		ho_event_rack *r = &d->racks[i];
		if (atomic_load(&r->ctx) == 0)
			continue;
		for (int j = 0; j < HO_POOL_EVENTS; j++) {
			uint64_t n = atomic_load(&r->made[j]);
			while (atomic_load(&r->events[j]) == LENT && atomic_load(&r->made[j]) == n)
				if (++turns > 1000)
					return 0;
		}
	}
	return 1;
}

static ho_result made(ho_driver *d, ho_result st)
{
	if (st == HO_CUDA_SUCCESS)
		atomic_fetch_add_explicit(&d->edges, 1, memory_order_relaxed);
	return st;
}

ho_result ho_order(ho_driver *d, ho_context ctx_a, ho_stream a, ho_context ctx_b, ho_stream b, unsigned flags)
{
	ho_guard outer;
	ho_event e;
	ho_result st;

	/* What every exchange pays comes first, with nothing but what it needs. */
	if (a > HO_STREAM_PER_THREAD && b > HO_STREAM_PER_THREAD && a != b && ctx_a != 0 && ctx_b != 0 &&
	    order_created(d, ctx_a, a, b, flags, &st))
		return st;
	if ((st = missing(d)) != HO_CUDA_SUCCESS)
		return st;
	if (ctx_a == 0 || ctx_b == 0) {
		if ((st = key(d, &ctx_a)) != HO_CUDA_SUCCESS || (st = key(d, &ctx_b)) != HO_CUDA_SUCCESS)
			return st;
	}
	if (ctx_a == ctx_b && plain(a) == plain(b))
		return HO_CUDA_SUCCESS;

	st = ho_enter(&d->t, ctx_a, &outer);
	if (st != HO_CUDA_SUCCESS)
		return st;
	if (flags & HO_ORDER_SKIP_IDLE) {
		st = d->t.cuStreamQuery(a);
		if (st != HO_CUDA_ERROR_NOT_READY)
			return ho_leave(&d->t, &outer, st);
	}
	st = take_and_record(d, ctx_a, a, &e);
	if (st != HO_CUDA_SUCCESS)
		return ho_leave(&d->t, &outer, st);
	if (ctx_b == ctx_a) {
		st = made(d, d->t.cuStreamWaitEvent(b, e, 0));
		give(d, ctx_a, e);
		return ho_leave(&d->t, &outer, st);
	}
	ho_guard inner;
	st = ho_enter(&d->t, ctx_b, &inner);
	if (st == HO_CUDA_SUCCESS)
		st = ho_leave(&d->t, &inner, made(d, d->t.cuStreamWaitEvent(b, e, 0)));
	/* The wait has taken the record over: the event may be used again. */
	give(d, ctx_a, e);
	return ho_leave(&d->t, &outer, st);
}

uint64_t ho_edges(void)
{
	uint64_t n = 0;

	for (ho_driver *d = ho_driver_first(); d != NULL; d = d->next) {
		n += atomic_load_explicit(&d->edges, memory_order_relaxed);
		for (int i = 0; i < HO_POOL_CONTEXTS; i++)
			for (int j = 0; j < HO_POOL_EVENTS; j++)
				n += atomic_load_explicit(&d->racks[i].made[j], memory_order_relaxed);
	}
	return n;
}

ho_ret_word ho_record(ho_driver *d, ho_context ctx, ho_stream s)
{
	ho_ret_word r = {0};
	ho_guard outer;
	ho_event e = 0;

	r.st = missing(d);
	if (r.st == HO_CUDA_SUCCESS)
		r.st = key(d, &ctx);
	if (r.st == HO_CUDA_SUCCESS)
		r.st = ho_enter(&d->t, ctx, &outer);
	if (r.st != HO_CUDA_SUCCESS)
		return r;
	r.st = ho_leave(&d->t, &outer, take_and_record(d, ctx, s, &e));
	r.value = r.st == HO_CUDA_SUCCESS ? e : 0;
	return r;
}

ho_result ho_recycle(ho_driver *d, ho_context ctx, ho_event e)
{
	ho_guard outer;
	ho_result st = missing(d);

	if (st != HO_CUDA_SUCCESS)
		return st;
	if (e == 0)
		return HO_CUDA_ERROR_INVALID_HANDLE;
	if ((st = key(d, &ctx)) != HO_CUDA_SUCCESS)
		return st;
	if (put(d, ctx, e)) /* needs no context */
		return HO_CUDA_SUCCESS;
	(void)ho_enter(&d->t, ctx, &outer);
	return ho_leave(&d->t, &outer, d->t.cuEventDestroy(e));
}

void ho_forget_context(ho_driver *d, ho_context ctx, int destroyed)
{
	ho_guard outer = {0};

	if (ctx == 0)
		return;
	if (!destroyed && (d->t.cuEventDestroy == NULL || ho_enter(&d->t, ctx, &outer) != HO_CUDA_SUCCESS))
		destroyed = 1;
	for (size_t i = 0; i < HO_POOL_CONTEXTS; i++) {
		ho_event_rack *r = &d->racks[i];
		if (atomic_load(&r->ctx) != ctx)
			continue;
		for (int j = 0; j < HO_POOL_EVENTS; j++) {
			ho_event e = atomic_exchange(&r->events[j], 0);
			if (e > LENT && !destroyed)
				d->t.cuEventDestroy(e);
		}
		atomic_store(&r->ctx, 0);
	}
	ho_leave(&d->t, &outer, HO_CUDA_SUCCESS);
}

void ho_query_events(const ho_cuda_table *t, ho_context *ctx, ho_event *e, ho_result *st, int n)
{
	for (int i = 0; i < n; i++) {
		ho_guard outer;
		if (t->cuEventQuery == NULL) {
			st[i] = HO_MISSING(cuEventQuery);
			continue;
		}
		st[i] = ho_enter(t, ctx[i], &outer);
		if (st[i] == HO_CUDA_SUCCESS)
			st[i] = ho_leave(t, &outer, t->cuEventQuery(e[i]));
	}
}
