/* What ctypes cannot do: functions that run while a Python exception is
 * pending, on any thread, without entering the interpreter. Built by native.py
 * with the C compiler, without headers of Python: the few functions that are
 * needed are found in the process. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct range {
	void *address;
	size_t size;
};

/* The manager_ctx of tensors built by hand. */
struct record {
	_Atomic int64_t deleted; /* calls of the deleter */
	_Atomic int64_t wrong;   /* calls with another address than expected */
	void *expected;
	struct range poison[4]; /* becomes unreadable when the deleter runs */
};

static void note(struct record *r, void *self)
{
	r->deleted++;
	if (self != r->expected)
		r->wrong++;
	for (int i = 0; i < 4; i++)
		if (r->poison[i].address)
			mprotect(r->poison[i].address, r->poison[i].size, PROT_NONE);
}

/* manager_ctx is at 8 in the versioned struct, at 48 in the other. */
void hc_delete_versioned(char *self) { note(*(struct record **)(self + 8), self); }
void hc_delete_legacy(char *self) { note(*(struct record **)(self + 48), self); }

extern int PyCapsule_IsValid(void *, const char *);
extern void *PyCapsule_GetPointer(void *, const char *);
extern void PyErr_Fetch(void **, void **, void **);
extern void PyErr_Restore(void *, void *, void *);

/* The capsule destructor that the rules want (R077 to R079). */
void hc_destructor(void *capsule)
{
	void *type, *value, *trace;
	PyErr_Fetch(&type, &value, &trace);
	if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
		char *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
		void (*f)(char *) = *(void (**)(char *))(m + 16);
		if (f)
			f(m);
	} else if (PyCapsule_IsValid(capsule, "dltensor")) {
		char *m = PyCapsule_GetPointer(capsule, "dltensor");
		void (*f)(char *) = *(void (**)(char *))(m + 56);
		if (f)
			f(m);
	}
	PyErr_Restore(type, value, trace);
}

/* Destructors and deleters that break a rule each, for the tests of the suite. */
extern void *PyExc_RuntimeError;
extern void PyErr_SetString(void *, const char *);

void hc_destructor_raises(void *capsule)
{
	hc_destructor(capsule);
	PyErr_SetString(PyExc_RuntimeError, "left behind by a capsule destructor");
}

void hc_destructor_blind(void *capsule)
{
	static const char *names[] = {"dltensor", "dltensor_versioned", "used_dltensor", "used_dltensor_versioned"};
	for (int i = 0; i < 4; i++)
		if (PyCapsule_IsValid(capsule, names[i])) {
			char *m = PyCapsule_GetPointer(capsule, names[i]);
			void (*f)(char *) = *(void (**)(char *))(m + (i & 1 ? 16 : 56));
			if (f)
				f(m);
		}
}

void hc_destructor_twice(void *capsule)
{
	hc_destructor(capsule);
	hc_destructor(capsule);
}

void hc_destructor_null(void *capsule)
{
	if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
		char *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
		(*(void (**)(char *))(m + 16))(m);
	} else if (PyCapsule_IsValid(capsule, "dltensor")) {
		char *m = PyCapsule_GetPointer(capsule, "dltensor");
		(*(void (**)(char *))(m + 56))(m);
	}
}

extern int PyGILState_Check(void);
extern void *PyThreadState_GetDict(void);
extern int Py_IsInitialized(void);
static void *home;

/* Works only with the GIL, and only on the thread that called hc_home. */
void hc_home(void) { home = __builtin_frame_address(0) ? (void *)PyThreadState_GetDict() : NULL; }

void hc_delete_gil_versioned(char *self)
{
	if (!PyGILState_Check() || PyThreadState_GetDict() != home)
		__builtin_trap();
	hc_delete_versioned(self);
}

void hc_delete_finalized_versioned(char *self)
{
	if (!Py_IsInitialized())
		__builtin_trap();
	hc_delete_versioned(self);
}

void hc_delete_raises_versioned(char *self)
{
	hc_delete_versioned(self);
	if (PyGILState_Check())
		PyErr_SetString(PyExc_RuntimeError, "left behind by a deleter");
}

void hc_delete_wrong_versioned(char *self)
{
	if (self != (*(struct record **)(self + 8))->expected)
		__builtin_trap();
	hc_delete_versioned(self);
}

/* A capsule over one of these calls the deleter when it dies. */
struct call {
	void (*f)(void *);
	void *argument;
};

void hc_call(void *capsule)
{
	struct call *c = PyCapsule_GetPointer(capsule, "call");
	c->f(c->argument);
}

/* Exporters of buffers refuse with an exception. */
extern void *PyExc_BufferError;
int hc_refuse(void)
{
	PyErr_SetString(PyExc_BufferError, "request cannot be met");
	return -1;
}

void hc_nothing(void *capsule) { (void)capsule; }

/* Callbacks of ctypes cannot leave an exception pending: these call one and
 * raise BufferError where it answers -2. */
struct view {
	void *buf, *obj;
};

typedef int (*from_py)(void *, void **);
typedef int (*get_buffer)(void *, struct view *, int);
static from_py py_from;
static get_buffer py_get;
static int keep_obj;

void hc_set(from_py f, get_buffer g, int keep)
{
	py_from = f;
	py_get = g;
	keep_obj = keep;
}

int hc_from_py(void *obj, void **out)
{
	int r = py_from(obj, out);
	return r == -2 ? hc_refuse() : r;
}

int hc_getbuffer(void *obj, struct view *view, int flags)
{
	void *was = view->obj;
	view->obj = NULL;
	int r = py_get(obj, view, flags);
	if (r != -2)
		return r;
	view->obj = keep_obj ? was : NULL;
	return hc_refuse();
}

/* Exchange functions that break a rule each. */
extern void *PyExc_ValueError;
int hc_from_py_value_error(void *obj, void **out)
{
	int r = py_from(obj, out);
	if (r != -2)
		return r;
	PyErr_SetString(PyExc_ValueError, "not describable");
	return -1;
}
int hc_allocate_raises(void *proto, void **out, void *ctx, void *f)
{
	(void)proto, (void)out, (void)ctx, (void)f;
	PyErr_SetString(PyExc_RuntimeError, "left behind by an allocator");
	return -1;
}
int hc_stream_fails(int type, int id, void **out)
{
	(void)type, (void)id, (void)out;
	PyErr_SetString(PyExc_RuntimeError, "no stream");
	return -1;
}
int hc_seven(void *a, void *b) { (void)a, (void)b; return 7; }

/* Opens a gate of a stream late: the first word is what the stream waits for,
 * the second says that nobody opened it before. */
struct later {
	_Atomic uint32_t *flag;
	unsigned ms;
};

static void *open_later(void *p)
{
	struct later l = *(struct later *)p;
	free(p);
	for (unsigned i = 0; i < l.ms && !l.flag[0]; i++)
		usleep(1000);
	if (!l.flag[0]) {
		l.flag[1] = 1;
		l.flag[0] = 1;
	}
	return NULL;
}

void hc_open_later(uint32_t *flag, unsigned ms)
{
	pthread_t t;
	struct later *l = malloc(sizeof *l);
	if (!l)
		return;
	*l = (struct later){(_Atomic uint32_t *)flag, ms};
	if (pthread_create(&t, NULL, open_later, l) == 0)
		pthread_detach(t);
	else
		free(l);
}
