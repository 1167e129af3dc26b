/* Dropping Python references from any thread.
 *
 * An owner made here is dropped at once if the dropping thread holds the GIL.
 * Otherwise it goes to a list, and one C thread, the reaper, takes the GIL and
 * drops it: whoever drops never waits for the GIL, so no lock order can be
 * wrong (B161, B189) and no Go thread is ever blocked or ended by the
 * interpreter. After finalization has begun nothing is dropped (R065). */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "internal.h"

static _Atomic(ho_owner *) waiting; /* linked through refs, which nobody reads any more */
static _Atomic int64_t pending;
static _Atomic int closing;
static _Atomic int64_t inside; /* threads that hold or wait for the GIL on Go's behalf */
static _Atomic int reaper_state; /* 0 none, 1 starting, 2 runs */
static pthread_t reaper;
static sem_t wake;

/* May Python be entered at all? Cheap; needs no thread state. */
int ho_python_lives(void)
{
	if (atomic_load_explicit(&closing, memory_order_acquire) || !ho_py.Py_IsInitialized())
		return 0;
	if (ho_py.Py_IsFinalizing != NULL)
		return !ho_py.Py_IsFinalizing();
	return ho_py._Py_IsFinalizing == NULL || !ho_py._Py_IsFinalizing();
}

/* GIL held. Runs foreign code: a pending exception is kept (R066, R079). */
static void drop(ho_owner *o)
{
	ho_PyObject *type, *value, *trace;

	ho_py.PyErr_Fetch(&type, &value, &trace);
	switch (o->u) {
	case HO_DROP_OBJECT:
		ho_py.Py_DecRef(o->ptr);
		break;
	case HO_DROP_VERSIONED:
		ho_release_versioned(o->ptr);
		break;
	case HO_DROP_LEGACY:
		ho_release_legacy(o->ptr);
		break;
	case HO_DROP_BUFFER:
		ho_py.PyBuffer_Release(o->ptr);
		free(o->ptr);
		break;
	}
	ho_owner_free(o);
	ho_py.PyErr_Restore(type, value, trace);
}

/* GIL held. */
static void drop_list(ho_owner *o)
{
	while (o != NULL) {
		ho_owner *next = (ho_owner *)(intptr_t)atomic_load_explicit(&o->refs, memory_order_relaxed);
		drop(o);
		atomic_fetch_sub(&pending, 1);
		o = next;
	}
}

static void *reap(void *unused)
{
	(void)unused;
	for (;;) {
		while (sem_wait(&wake) != 0 && errno == EINTR)
			;
		ho_owner *o = atomic_exchange(&waiting, NULL);
		if (o != NULL && ho_python_lives()) {
			int state = ho_py.PyGILState_Ensure();
			drop_list(o);
			ho_py.PyGILState_Release(state);
		}
		if (atomic_load(&closing))
			return NULL;
	}
}

/* In a child of fork() the reaper is gone; a new one starts when needed. */
static void child_of_fork(void)
{
	atomic_store(&waiting, NULL);
	atomic_store(&pending, 0);
	atomic_store(&inside, 0);
	atomic_store(&reaper_state, 0);
}

static void start_reaper(void)
{
	int none = 0;
	if (!atomic_compare_exchange_strong(&reaper_state, &none, 1))
		return;
	static int registered;
	if (!registered) {
		registered = 1;
		pthread_atfork(NULL, NULL, child_of_fork);
	}
	sem_init(&wake, 0, 0);
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int failed = pthread_create(&reaper, NULL, reap, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	atomic_store(&reaper_state, failed ? 0 : 2);
	if (!failed)
		sem_post(&wake); /* for what was pushed meanwhile */
}

static void last(ho_owner *o)
{
	if (!ho_python_lives())
		return; /* the process ends: a leak is better than a crash */
	if (ho_py.PyGILState_Check != NULL && ho_py.PyGILState_Check()) {
		drop(o);
		return;
	}
	ho_owner *head = atomic_load(&waiting);
	atomic_fetch_add(&pending, 1);
	do
		atomic_store_explicit(&o->refs, (int64_t)(intptr_t)head, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&waiting, &head, o));
	if (atomic_load(&reaper_state) == 2)
		sem_post(&wake);
	else
		start_reaper();
}

void ho_drop_object(ho_owner *o)
{
	o->u = HO_DROP_OBJECT;
	last(o);
}

int ho_python_enter(void)
{
	/* Counted first: ho_release_shutdown either sees this thread or is seen. */
	atomic_fetch_add(&inside, 1);
	if (ho_python_lives())
		return 0;
	atomic_fetch_sub(&inside, 1);
	return -1;
}

void ho_python_leave(void)
{
	atomic_fetch_sub(&inside, 1);
}

ho_owner *ho_owner_python(void *p, int kind)
{
	ho_owner *o = ho_owner_new(last, p, (uint64_t)kind);
	if (o == NULL)
		ho_py.PyErr_NoMemory();
	return o;
}

ho_owner *ho_owner_from_object(ho_PyObject *obj)
{
	ho_owner *o = ho_owner_python(obj, HO_DROP_OBJECT);
	if (o != NULL)
		ho_py.Py_IncRef(obj);
	return o;
}

int64_t ho_release_pending(void)
{
	return atomic_load(&pending);
}

void ho_release_shutdown(void)
{
	drop_list(atomic_exchange(&waiting, NULL));
	if (atomic_exchange(&closing, 1))
		return;
	int reaping = atomic_load(&reaper_state) == 2;
	if (!reaping && atomic_load(&inside) == 0)
		return;
	/* The reaper, and threads of Go, may wait for the GIL that we hold; later
	 * it would hang or end them. Whoever is slow must not hold up the exit for
	 * ever. */
	void *saved = ho_py.PyEval_SaveThread();
	struct timespec until, pause = { 0, 200000 };
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 2;
	if (reaping) {
		sem_post(&wake);
		pthread_timedjoin_np(reaper, NULL, &until);
	}
	for (int i = 0; i < 10000 && atomic_load(&inside) != 0; i++)
		nanosleep(&pause, NULL);
	ho_py.PyEval_RestoreThread(saved);
}
