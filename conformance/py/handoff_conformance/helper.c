/* What ctypes cannot do: functions that run while a Python exception is
 * pending, on any thread, without entering the interpreter. Built by native.py
 * with the C compiler, without headers of Python: the few functions that are
 * needed are found in the process. */
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

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
