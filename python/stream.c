/* handoff.StreamView and handoff.Stream: streams as Python sees them, and what
 * a stream argument means. Wrapping a stream asks no driver and enters no Go. */
#include "gpu.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LEGACY = 1, PER_THREAD = 2, CREATED = 3 };
enum { LOWEST_ADDRESS = 4096 }; /* the first page holds no stream object */

typedef struct ho_stream_object {
	ho_PyObject ob;
	uint64_t handle;       /* as it came: 0 and 1 are the legacy default stream */
	uint64_t ctx;          /* 0: not asked yet */
	uint64_t key;          /* of Go, for a stream that we made; 0: borrowed */
	pthread_t thread;      /* whose per-thread default stream it is */
	ho_PyObject *exporter; /* keeps the stream alive; NULL: nothing does */
	ho_PyObject *weak;     /* weak references */
	int32_t device;        /* -1: not asked yet */
	uint32_t holds;        /* uses of the handle that outlast close() */
	int8_t kind;
	int8_t closed;
	int8_t bound;    /* thread counts */
	int8_t constant; /* of the module: never closed */
} ho_stream_object;

static ho_PyTypeObject *view_type;   /* StreamView */
static ho_PyTypeObject *stream_type; /* Stream */

/* Interned names. */
static ho_PyObject *cuda_stream_method, *cuda_stream_attr, *ptr_attr, *handle_attr, *value_attr;

static int is_stream(ho_PyObject *o)
{
	return HO_TYPE(o) == view_type || HO_TYPE(o) == stream_type;
}

/* ---- Reading what others call a stream ---------------------------------- */

static int subtype(ho_PyObject *o, ho_PyObject *type)
{
	return ho_py.PyType_IsSubtype(HO_TYPE(o), (ho_PyTypeObject *)type);
}

/* A handle from an int that is not a bool (R267, R268). */
static int take_handle(ho_PyObject *o, const char *op, uint64_t *out)
{
	if (HO_UNLIKELY(HO_TYPE(o) != (ho_PyTypeObject *)ho_py.PyLong_Type)) {
		if (HO_TYPE(o) == (ho_PyTypeObject *)ho_py.PyBool_Type)
			return ho_raise(HO_X_TYPE, 268, op, "a bool is no stream handle");
		if (!subtype(o, ho_py.PyLong_Type))
			return ho_raise(HO_X_TYPE, 267, op, "the stream handle is not an int");
	}
	unsigned long long v = ho_py.PyLong_AsUnsignedLongLong(o);
	if (HO_UNLIKELY(v == (unsigned long long)-1 && ho_py.PyErr_Occurred())) {
		ho_py.PyErr_Clear();
		return ho_raise(HO_X_RANGE, 268, op, "the stream handle is negative or does not fit in 64 bits");
	}
	if (HO_UNLIKELY(v > 2 && v < LOWEST_ADDRESS))
		return ho_raise(HO_X_VALUE, 263, op, "0x%llx is neither a default stream nor an address", v);
	*out = v;
	return 0;
}

/* The result of __cuda_stream__: (0, handle), exactly (R261 to R268). */
static int take_pair(ho_PyObject *pair, const char *op, uint64_t *out)
{
	if (HO_UNLIKELY(HO_TYPE(pair) != (ho_PyTypeObject *)ho_py.PyTuple_Type && !subtype(pair, ho_py.PyTuple_Type)))
		return ho_raise(HO_X_STREAM, 261, op, "__cuda_stream__ did not return a tuple (version, handle)");
	ho_ssize n = ho_py.PyTuple_Size(pair);
	if (HO_UNLIKELY(n != 2))
		return ho_raise(HO_X_STREAM, 265, op, "__cuda_stream__ returned a tuple of %lld, not (version, handle)",
		                (long long)n);
	ho_PyObject *version = ho_py.PyTuple_GetItem(pair, 0);
	if (HO_UNLIKELY(HO_TYPE(version) != (ho_PyTypeObject *)ho_py.PyLong_Type)) {
		if (HO_TYPE(version) == (ho_PyTypeObject *)ho_py.PyBool_Type)
			return ho_raise(HO_X_TYPE, 268, op, "the version of __cuda_stream__ is a bool");
		if (!subtype(version, ho_py.PyLong_Type))
			return ho_raise(HO_X_TYPE, 267, op, "the version of __cuda_stream__ is not an int");
	}
	int overflow = 0;
	long long v = ho_py.PyLong_AsLongLongAndOverflow(version, &overflow);
	if (HO_UNLIKELY(v != 0 || overflow))
		return ho_raise(HO_X_STREAM, 266, op, "__cuda_stream__ has version %lld, only 0 is defined", v);
	return take_handle(ho_py.PyTuple_GetItem(pair, 1), op, out);
}

/* getattr without AttributeError: 1 found, 0 not there, -1 another exception. */
static int optional_attr(ho_PyObject *o, ho_PyObject *name, ho_PyObject **out)
{
	if (ho_py.PyObject_GetOptionalAttr != NULL)
		return ho_py.PyObject_GetOptionalAttr(o, name, out);
	*out = ho_py.PyObject_GetAttr(o, name);
	if (*out != NULL)
		return 1;
	if (!ho_py.PyErr_ExceptionMatches(ho_py.PyExc_AttributeError))
		return -1;
	ho_py.PyErr_Clear();
	return 0;
}

/* Whether the type calls itself a stream: accessors with common names count
 * only there (an array has a ptr, too). */
static int named_stream(ho_PyObject *o, const char *part)
{
	ho_PyObject *name = ho_py.PyType_GetName(HO_TYPE(o));
	const char *s = name != NULL ? ho_py.PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
	int found = s != NULL && strstr(s, part) != NULL;

	if (s == NULL)
		ho_py.PyErr_Clear();
	ho_xdecref(name);
	return found;
}

/* A handle from what an accessor gave: an int, a ctypes pointer (whose value
 * is None for NULL), or an object that int() takes (CUstream). Steals it. */
static int take_accessor(ho_PyObject *v, const char *op, uint64_t *out)
{
	ho_PyObject *value = NULL;
	int r = -1;

	if (!subtype(v, ho_py.PyLong_Type)) {
		int have = optional_attr(v, value_attr, &value);
		if (have > 0 && value == HO_NONE) {
			*out = 0;
			r = 0;
			goto done;
		}
		if (have == 0)
			value = ho_py.PyObject_CallFunctionObjArgs(ho_py.PyLong_Type, v, NULL);
		if (value == NULL) {
			if (ho_py.PyErr_ExceptionMatches(ho_py.PyExc_TypeError)) {
				ho_py.PyErr_Clear();
				ho_raise(HO_X_TYPE, 267, op, "the stream handle is not an int");
			}
			goto done;
		}
	}
	r = take_handle(value != NULL ? value : v, op, out);
done:
	ho_xdecref(value);
	ho_py.Py_DecRef(v);
	return r;
}

/* __cuda_stream__ as the tuple itself: how the protocol began (R275). */
static int take_attribute(ho_PyObject *pair, const char *op, uint64_t *out)
{
	if (ho_py.PyErr_WarnEx(ho_py.PyExc_DeprecationWarning,
	                       "__cuda_stream__ as an attribute is deprecated; it is a method since cuda.core 0.2 (R275)",
	                       1) != 0)
		return -1;
	return take_pair(pair, op, out);
}

/* What libraries had before the protocol. */
static int take_older(ho_PyObject *o, const char *op, uint64_t *out)
{
	ho_PyObject *v = NULL;
	int have = optional_attr(o, cuda_stream_attr, &v); /* PyTorch, Paddle, Warp */

	if (have == 0 && named_stream(o, "Stream")) {
		have = optional_attr(o, ptr_attr, &v); /* CuPy */
		if (have == 0)
			have = optional_attr(o, handle_attr, &v); /* Numba, cuda.core, PyCUDA */
	}
	if (have < 0)
		return -1;
	if (have > 0)
		return take_accessor(v, op, out);
	if (named_stream(o, "CUstream") || named_stream(o, "cudaStream_t")) /* cuda.bindings */
		return take_accessor(ho_newref(o), op, out);
	if (ho_py.PyIndex_Check(o) && HO_TYPE(o) != (ho_PyTypeObject *)ho_py.PyBool_Type) {
		v = ho_py.PyNumber_Index(o);
		return v != NULL ? take_accessor(v, op, out) : -1;
	}
	ho_PyObject *name = ho_py.PyType_GetName(HO_TYPE(o));
	const char *s = name != NULL ? ho_py.PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
	if (s == NULL)
		ho_py.PyErr_Clear();
	ho_raise(HO_X_PROTOCOL, 264, op, "an object of type %.80s is no stream: it has no __cuda_stream__",
	         s != NULL ? s : "?");
	ho_xdecref(name);
	return -1;
}

/* The call of the method failed. Was it there? An exception of its own passes
 * through (R277). */
static int call_failed(ho_PyObject *o, const char *op, uint64_t *out)
{
	ho_PyObject *type, *value, *trace, *method;

	if (!ho_py.PyErr_ExceptionMatches(ho_py.PyExc_AttributeError) &&
	    !ho_py.PyErr_ExceptionMatches(ho_py.PyExc_TypeError))
		return -1;
	ho_py.PyErr_Fetch(&type, &value, &trace);
	int have = optional_attr(o, cuda_stream_method, &method), r = -1;
	if (have > 0 && ho_py.PyCallable_Check(method)) {
		ho_py.PyErr_Restore(type, value, trace);
		ho_py.Py_DecRef(method);
		return -1;
	}
	ho_xdecref(type);
	ho_xdecref(value);
	ho_xdecref(trace);
	if (have == 0)
		return take_older(o, op, out);
	if (have > 0) {
		if (subtype(method, ho_py.PyTuple_Type))
			r = take_attribute(method, op, out);
		else
			r = ho_raise(HO_X_TYPE, 260, op, "__cuda_stream__ is not a method");
		ho_py.Py_DecRef(method);
	}
	return r;
}

/* The raw handle of any stream object that is not ours. */
static int foreign_handle(ho_PyObject *o, const char *op, uint64_t *out)
{
	ho_PyObject *pair;

	if (HO_TYPE(o) == (ho_PyTypeObject *)ho_py.PyLong_Type)
		return take_handle(o, op, out);
	if (HO_LIKELY(ho_py.PyObject_VectorcallMethod != NULL))
		pair = ho_py.PyObject_VectorcallMethod(cuda_stream_method, &o, 1, NULL);
	else
		pair = ho_py.PyObject_CallMethodObjArgs(o, cuda_stream_method, NULL);
	if (HO_UNLIKELY(pair == NULL))
		return call_failed(o, op, out);
	int r = take_pair(pair, op, out);
	ho_py.Py_DecRef(pair);
	return r;
}

static int check_open(ho_stream_object *s, const char *op)
{
	if (HO_UNLIKELY(s->closed))
		return ho_raise(HO_X_CLOSED, 0, op, "the stream is closed");
	if (HO_UNLIKELY(s->bound && !pthread_equal(s->thread, pthread_self())))
		return ho_raise(HO_X_STREAM, 278, op,
		                "this is the per-thread default stream of another thread; each thread has its own");
	return 0;
}

/* An open stream that somebody created, whose context is known. */
static int settled(const ho_stream_object *s)
{
	return s->kind == CREATED && s->ctx != 0 && !s->closed;
}

static int take_ours(ho_PyObject *o, const char *op, ho_stream_ref *out)
{
	ho_stream_object *s = (ho_stream_object *)o;

	if (check_open(s, op) != 0)
		return -1;
	*out = (ho_stream_ref){ s->handle, s->ctx, o };
	return 0;
}

int ho_stream_need(ho_PyObject *o, const char *op, ho_stream_ref *out)
{
	*out = (ho_stream_ref){ 0, 0, o };
	if (o == NULL || o == HO_NONE)
		return ho_raise(HO_X_TYPE, 0, op, "a stream is needed; device.default_stream is one");
	if (is_stream(o))
		return take_ours(o, op, out);
	if (subtype(o, ho_py.PyLong_Type))
		out->keep = NULL; /* an int keeps nothing alive */
	return foreign_handle(o, op, &out->handle);
}

int ho_stream_arg(ho_PyObject *o, const char *op, ho_stream_ref *out)
{
	*out = (ho_stream_ref){ 0, 0, NULL };
	if (o == NULL || o == HO_NONE)
		return HO_STREAM_UNSAID;
	if (HO_TYPE(o) == (ho_PyTypeObject *)ho_py.PyLong_Type) {
		int overflow;
		long long v = ho_py.PyLong_AsLongLongAndOverflow(o, &overflow);
		if (v == -1 && !overflow)
			return HO_STREAM_NOSYNC;
		if (v < -1 || overflow < 0)
			return ho_raise(HO_X_VALUE, 132, op, "a stream below -1");
		if (HO_LIKELY(!overflow && (v >= LOWEST_ADDRESS || v <= PER_THREAD))) {
			out->handle = (uint64_t)v;
			return HO_STREAM_ON;
		}
	}
	return ho_stream_need(o, op, out) == 0 ? HO_STREAM_ON : -1;
}

/* ---- Order -------------------------------------------------------------- */

int ho_stream_place(const char *op, int dev, ho_stream_ref *ref)
{
	ho_driver *d = ho_gpu();
	ho_ret_pair r;

	if (d == NULL)
		return -1;
	if (ref->ctx != 0)
		return 0;
	if (ref->handle <= PER_THREAD) {
		ref->ctx = ho_gpu_home(dev);
		return ref->ctx != 0 ? 0 : -1;
	}
	HO_UNLOCKED(r = ho_stream_device(&d->t, 0, (ho_stream)ref->handle));
	if (ho_gpu_check(op, -1, r.st) != 0)
		return -1;
	ref->ctx = r.b;
	if (ref->keep != NULL && is_stream(ref->keep)) {
		((ho_stream_object *)ref->keep)->ctx = r.b;
		((ho_stream_object *)ref->keep)->device = (int32_t)r.a;
	}
	return 0;
}

int ho_stream_device_id(const char *op, const ho_stream_ref *ref, int32_t *out)
{
	ho_stream_object *s = ref->keep != NULL && is_stream(ref->keep) ? (ho_stream_object *)ref->keep : NULL;
	ho_driver *d;
	ho_ret_pair r;

	*out = s != NULL && s->kind == CREATED ? s->device : -1;
	if (*out >= 0)
		return 0;
	if ((d = ho_gpu()) == NULL)
		return -1;
	HO_UNLOCKED(r = ho_stream_device(&d->t, (ho_context)ref->ctx, (ho_stream)ref->handle));
	if (ho_gpu_check(op, -1, r.st) != 0)
		return -1;
	*out = (int32_t)r.a;
	if (s != NULL)
		s->device = *out;
	return 0;
}

/* Whether nothing is pending on a stream, by one question that harms nobody: a
 * stream that captures is not asked, and where others capture only a thread of
 * relaxed mode may ask. 0 also where that cannot be told. */
int ho_stream_quiet(ho_driver *d, ho_context ctx, ho_stream s)
{
	int mode = HO_CU_STREAM_CAPTURE_MODE_RELAXED, capturing = HO_CU_STREAM_CAPTURE_STATUS_NONE, quiet = 0;
	ho_guard g;

	if (d->t.cuThreadExchangeStreamCaptureMode == NULL || d->t.cuStreamIsCapturing == NULL ||
	    d->t.cuStreamQuery == NULL || ho_enter_for(&d->t, ctx, s, &g) != HO_CUDA_SUCCESS)
		return 0;
	if (d->t.cuStreamIsCapturing(s, &capturing) == HO_CUDA_SUCCESS && capturing == HO_CU_STREAM_CAPTURE_STATUS_NONE &&
	    d->t.cuThreadExchangeStreamCaptureMode(&mode) == HO_CUDA_SUCCESS) {
		quiet = d->t.cuStreamQuery(s) == HO_CUDA_SUCCESS;
		d->t.cuThreadExchangeStreamCaptureMode(&mode);
	}
	ho_leave(&d->t, &g, HO_CUDA_SUCCESS);
	return quiet;
}

/* ---- Whether to ask ----
 *
 * The question costs less than the edge that it may spare, or twice as much: that
 * is a matter of the machine. It is measured for each device, and again after ever
 * more waits, since the moment may have been a bad one. */
enum { UNKNOWN, ASK, NEVER, MEASURE };
enum { DEVICES = 64, TURNS = 8, PATIENCE = 50000 /* ns */, LATER = 16, WAITS = 1024, TIMES = 6 };
static struct {
	int8_t how, times; /* that it was measured */
	uint32_t left;     /* waits until it is to be measured; 0: never */
} asking[DEVICES];

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Whether a stream that somebody created captures: then an edge from outside is
 * an error that the driver has to tell. 1 also where that cannot be told. */
int ho_stream_captures(ho_driver *d, ho_context ctx, ho_stream s)
{
	ho_ret_cuStreamIsCapturing r = ho_call_cuStreamIsCapturing(&d->t, ctx, s);

	return r.st != HO_CUDA_SUCCESS || r.o_status != HO_CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Waits until a stream is idle, for a short while. */
static int settles(ho_driver *d, ho_context ctx, ho_stream s)
{
	int64_t end = now() + PATIENCE;
	int quiet;

	while (!(quiet = ho_stream_quiet(d, ctx, s)) && now() < end)
		;
	return quiet;
}

/* Asks a stream that is idle and makes the edge that is wanted, some times in
 * turns: the least times count, which nobody has interrupted. What it puts on the
 * stream the next question would find pending, and so is waited for. UNKNOWN if
 * the stream is not idle. */
static int measured(ho_driver *d, const ho_stream_ref *a, const ho_stream_ref *b)
{
	ho_context ctx = (ho_context)a->ctx, other = (ho_context)(b->ctx != 0 ? b->ctx : a->ctx);
	ho_stream from = (ho_stream)a->handle, to = (ho_stream)b->handle;
	int64_t ask = INT64_MAX, edge = INT64_MAX, begin;

	if (ho_stream_captures(d, ctx, from) || ho_stream_captures(d, other, to) || !ho_stream_quiet(d, ctx, from))
		return UNKNOWN;
	for (int i = 0; i < TURNS; i++) {
		begin = now();
		ho_stream_quiet(d, ctx, from);
		ask = smaller(ask, now() - begin);
		begin = now();
		if (ho_order(d, ctx, from, other, to, 0) != HO_CUDA_SUCCESS)
			return UNKNOWN; /* the caller hears of it */
		edge = smaller(edge, now() - begin);
		if (!settles(d, ctx, from))
			return UNKNOWN;
	}
	return ask <= edge ? ASK : NEVER;
}

/* How often in a row a stream was busy when it was asked: one that mostly is
 * busy is seldom asked, and then every time again once it was idle. Streams share
 * the places, which costs an edge or a question too many. A number that hardly
 * divides another: a loop of waits keeps its stream busy by its own edges, and is
 * to be asked when it comes back from elsewhere, too. */
static struct {
	uint64_t handle;
	uint32_t busy, calls;
} asked[64];
enum { BUSY = 2, ASK_EVERY = 17 };

static uint32_t place_of(uint64_t handle)
{
	return (uint32_t)((handle >> 4 ^ handle >> 10) % (sizeof asked / sizeof asked[0]));
}

/* A new stream may have the handle of one that is gone. */
static void forget(uint64_t handle)
{
	uint32_t i = place_of(handle);

	if (asked[i].handle == handle)
		asked[i].busy = 0;
}

int ho_stream_ask(ho_driver *d, int dev, const ho_stream_ref *a, const ho_stream_ref *b)
{
	int at = dev >= 0 && dev < DEVICES ? dev : 0, found = UNKNOWN;
	uint32_t i = place_of(a->handle);

	if (HO_UNLIKELY(asking[at].how == UNKNOWN)) {
		asking[at].how = ASK;
		asking[at].left = !d->provided; /* runs on the software device are to be alike */
	}
	if (asking[at].left > 1)
		asking[at].left--;
	if (HO_UNLIKELY(asking[at].left == 1) && a->handle > PER_THREAD && b->handle > PER_THREAD && a->ctx != 0) {
		asking[at].left = LATER; /* also for other threads */
		HO_UNLOCKED(found = measured(d, a, b));
		if (found != UNKNOWN) {
			asking[at].how = (int8_t)found;
			asking[at].left = WAITS << 2 * asking[at].times;
			asking[at].times += asking[at].times < TIMES;
		}
	}
	if (asking[at].how == NEVER)
		return 0;
	if (asked[i].handle != a->handle) {
		asked[i].handle = a->handle;
		asked[i].busy = asked[i].calls = 0;
	}
	return asked[i].busy < BUSY || ++asked[i].calls % ASK_EVERY == 0;
}

void ho_stream_answered(const ho_stream_ref *a, int quiet)
{
	uint32_t i = place_of(a->handle);

	if (asked[i].handle != a->handle)
		return; /* another thread asked another one */
	if (quiet)
		asked[i].busy = 0;
	else
		asked[i].busy += asked[i].busy < BUSY;
}

static uint64_t plain(uint64_t handle)
{
	return handle == 0 ? LEGACY : handle;
}

int ho_stream_same(const ho_stream_ref *a, const ho_stream_ref *b)
{
	uint64_t x = plain(a->handle);

	return x == plain(b->handle) && (x > PER_THREAD || a->ctx == b->ctx || a->ctx == 0 || b->ctx == 0);
}

int ho_stream_order(const char *op, int dev, const ho_stream_ref *a, const ho_stream_ref *b)
{
	ho_driver *d;
	ho_stream_ref from = *a, to = *b;
	ho_result st;

	if (ho_stream_same(a, b))
		return 0;
	if ((d = ho_gpu()) == NULL)
		return -1;
	if (dev >= 0) {
		/* Most likely both are of the device's primary context, to which default
		 * streams do belong; if not, the driver refuses the event and we ask. */
		ho_context ctx = from.ctx != 0 ? (ho_context)from.ctx : ho_gpu_context(dev);
		if (ctx == 0)
			return -1;
		HO_UNLOCKED(st = ho_order(d, ctx, (ho_stream)from.handle, to.ctx != 0 ? (ho_context)to.ctx : ctx,
		                          (ho_stream)to.handle, 0));
		if (HO_LIKELY(st == HO_CUDA_SUCCESS))
			return 0;
	}
	if (ho_stream_place(op, dev, &from) != 0 || ho_stream_place(op, dev, &to) != 0)
		return -1;
	HO_UNLOCKED(st = ho_order(d, (ho_context)from.ctx, (ho_stream)from.handle, (ho_context)to.ctx,
	                          (ho_stream)to.handle, 0));
	return ho_gpu_check(op, dev, st);
}

/* ---- Objects ------------------------------------------------------------ */

static void set_handle(ho_stream_object *s, uint64_t handle)
{
	s->handle = handle;
	s->device = -1;
	s->kind = handle <= 1 ? LEGACY : handle == 2 ? PER_THREAD : CREATED;
	if (HO_UNLIKELY(s->kind == PER_THREAD)) {
		s->thread = pthread_self();
		s->bound = 1;
	}
}

ho_PyObject *ho_stream_view_new(uint64_t handle, uint64_t ctx, ho_PyObject *exporter)
{
	ho_stream_object *s = (ho_stream_object *)ho_py.PyType_GenericAlloc(view_type, 0);

	if (s == NULL)
		return NULL;
	set_handle(s, handle);
	s->ctx = ctx;
	s->exporter = exporter != NULL ? ho_newref(exporter) : NULL;
	return &s->ob;
}

static ho_PyObject *view_new(ho_PyTypeObject *type, ho_PyObject *args, ho_PyObject *kwargs)
{
	static const char op[] = "StreamView";
	uint64_t handle;
	ho_stream_ref ref;

	if (ho_py.PyTuple_Size(args) != 1 || (kwargs != NULL && ho_py.PyDict_Size(kwargs) != 0)) {
		ho_py.PyErr_SetString(ho_py.PyExc_TypeError, "StreamView() takes one positional argument: a stream");
		return NULL;
	}
	ho_PyObject *o = ho_py.PyTuple_GetItem(args, 0);
	if (HO_UNLIKELY(is_stream(o))) {
		const ho_stream_object *from = (ho_stream_object *)o;
		if (take_ours(o, op, &ref) != 0)
			return NULL;
		/* A view of a view keeps what that keeps: closing the first is no matter. */
		ho_stream_object *s = (ho_stream_object *)ho_stream_view_new(from->handle, from->ctx,
		                                                             from->key != 0 ? o : from->exporter);
		if (s != NULL) {
			s->device = from->device;
			s->bound = from->bound;
			s->thread = from->thread;
		}
		return (ho_PyObject *)s;
	}
	if (HO_UNLIKELY(foreign_handle(o, op, &handle) != 0))
		return NULL;
	ho_stream_object *s = (ho_stream_object *)ho_py.PyType_GenericAlloc(type, 0);
	if (s == NULL)
		return NULL;
	set_handle(s, handle);
	if (HO_TYPE(o) != (ho_PyTypeObject *)ho_py.PyLong_Type)
		s->exporter = ho_newref(o); /* R269 */
	return &s->ob;
}

static int traverse(ho_PyObject *self, int (*visit)(ho_PyObject *, void *), void *arg)
{
	const ho_stream_object *s = (ho_stream_object *)self;
	int r = visit((ho_PyObject *)HO_TYPE(self), arg);

	return r != 0 || s->exporter == NULL ? r : visit(s->exporter, arg);
}

/* Gives up a stream that we made, or the hold on one that we did not (R270). */
static int close_stream(ho_stream_object *s, ho_gpu_fault *f)
{
	uint64_t key = s->key;
	ho_PyObject *exporter = s->exporter;

	s->closed = 1;
	if (s->holds != 0)
		return 0; /* the last hold does the rest */
	s->key = 0;
	s->exporter = NULL;
	if (key != 0 && !atomic_load_explicit(&ho_forked, memory_order_relaxed))
		HO_UNLOCKED(ho_go_gpu.close(key, f));
	ho_xdecref(exporter);
	return f->kind == HO_FAULT_NONE ? 0 : -1;
}

int ho_stream_settled(ho_PyObject *o, int dev, ho_stream_ref *out)
{
	const ho_stream_object *s = (ho_stream_object *)o;

	if (!is_stream(o) || !settled(s) || s->device != dev)
		return 0;
	*out = (ho_stream_ref){ s->handle, s->ctx, o };
	return 1;
}

ho_stream_ref ho_stream_of(ho_PyObject *o)
{
	return (ho_stream_ref){ ((ho_stream_object *)o)->handle, ((ho_stream_object *)o)->ctx, o };
}

void ho_stream_hold(ho_PyObject *o)
{
	ho_stream_object *s = (ho_stream_object *)o;

	s->holds++;
	if (s->exporter != NULL && is_stream(s->exporter)) /* whose close() would take the handle away */
		ho_stream_hold(s->exporter);
}

void ho_stream_unhold(ho_PyObject *o)
{
	ho_stream_object *s = (ho_stream_object *)o;
	ho_gpu_fault f = { 0 };

	if (s->exporter != NULL && is_stream(s->exporter))
		ho_stream_unhold(s->exporter);
	if (--s->holds == 0 && HO_UNLIKELY(s->closed)) {
		close_stream(s, &f);
		free(f.text);
	}
}

void ho_stream_hold_any(ho_PyObject *o)
{
	if (is_stream(o))
		ho_stream_hold(o);
}

void ho_stream_unhold_any(ho_PyObject *o)
{
	if (is_stream(o))
		ho_stream_unhold(o);
}

void ho_stream_keep(ho_PyObject **slot, ho_PyObject *stream)
{
	ho_PyObject *old = *slot;
	const ho_stream_object *s;

	if (stream != NULL) {
		/* Not the view of a stream of ours, but that. */
		while (is_stream(stream) && (s = (ho_stream_object *)stream)->exporter != NULL && is_stream(s->exporter))
			stream = s->exporter;
		ho_py.Py_IncRef(stream);
		ho_stream_hold_any(stream);
	}
	*slot = stream;
	if (old != NULL) {
		ho_stream_unhold_any(old);
		ho_py.Py_DecRef(old);
	}
}

static void dealloc(ho_PyObject *self)
{
	ho_PyTypeObject *type = HO_TYPE(self);
	ho_gpu_fault f = { 0 };
	ho_PyObject *kind, *value, *trace;

	ho_py.PyObject_GC_UnTrack(self);
	ho_stream_object *s = (ho_stream_object *)self;
	if (HO_UNLIKELY(s->weak != NULL))
		ho_py.PyObject_ClearWeakRefs(self);
	if (s->key != 0 || s->exporter != NULL) {
		ho_py.PyErr_Fetch(&kind, &value, &trace);
		close_stream(s, &f);
		free(f.text);
		ho_py.PyErr_Restore(kind, value, trace);
	}
	ho_py.PyObject_GC_Del(self);
	ho_py.Py_DecRef((ho_PyObject *)type);
}

static ho_PyObject *repr(ho_PyObject *self)
{
	const ho_stream_object *s = (ho_stream_object *)self;
	const char *type = HO_TYPE(self) == stream_type ? "Stream" : "StreamView";
	char text[80];

	if (s->closed)
		snprintf(text, sizeof text, "<handoff.%s, closed>", type);
	else if (s->kind == CREATED)
		snprintf(text, sizeof text, "<handoff.%s 0x%llx>", type, (unsigned long long)s->handle);
	else
		snprintf(text, sizeof text, "<handoff.%s, %s default>", type, s->kind == LEGACY ? "legacy" : "per-thread");
	return ho_py.PyUnicode_FromString(text);
}

/* By handle, as everywhere: two wrappers of one stream are equal. */
static ho_PyObject *compare(ho_PyObject *a, ho_PyObject *b, int operation)
{
	enum { EQ = 2, NE = 3 };

	if (!is_stream(b) || (operation != EQ && operation != NE))
		return ho_newref(ho_py._Py_NotImplementedStruct);
	const ho_stream_object *x = (ho_stream_object *)a, *y = (ho_stream_object *)b;
	int same = plain(x->handle) == plain(y->handle) && (x->closed == y->closed || a == b);
	return ho_newref((same == (operation == EQ)) ? HO_TRUE : HO_FALSE);
}

static ho_ssize hash(ho_PyObject *self)
{
	uint64_t h = plain(((ho_stream_object *)self)->handle);

	h = (h >> 4 | h << 60) * 0x9e3779b97f4a7c15u;
	return (ho_ssize)h == -1 ? -2 : (ho_ssize)h;
}

/* ---- Methods ------------------------------------------------------------ */

static ho_PyObject *cuda_stream(ho_PyObject *self, ho_PyObject *unused)
{
	ho_stream_object *s = (ho_stream_object *)self;
	(void)unused;

	if (check_open(s, "__cuda_stream__") != 0) /* R271 */
		return NULL;
	ho_PyObject *zero = ho_py.PyLong_FromLong(0), *handle = ho_py.PyLong_FromUnsignedLongLong(s->handle);
	ho_PyObject *pair = zero != NULL && handle != NULL ? ho_py.PyTuple_Pack(2, zero, handle) : NULL;
	ho_xdecref(zero);
	ho_xdecref(handle);
	return pair;
}

static ho_PyObject *get_handle(ho_PyObject *self, void *unused)
{
	(void)unused;
	if (check_open((ho_stream_object *)self, "handle") != 0)
		return NULL;
	return ho_py.PyLong_FromUnsignedLongLong(((ho_stream_object *)self)->handle);
}

static ho_PyObject *to_int(ho_PyObject *self)
{
	return get_handle(self, NULL);
}

/* The driver and where the stream is; NULL with an exception set. */
static ho_driver *begin(ho_PyObject *self, const char *op, ho_stream_ref *ref)
{
	if (take_ours(self, op, ref) != 0 || ho_stream_place(op, -1, ref) != 0)
		return NULL;
	return ho_gpu();
}

static ho_PyObject *get_nonblocking(ho_PyObject *self, void *unused)
{
	static const char op[] = "stream flags";
	ho_stream_ref ref;
	ho_ret_cuStreamGetFlags r;
	ho_driver *d = begin(self, op, &ref);
	(void)unused;

	if (d == NULL)
		return NULL;
	HO_HELD(stream, self, r = ho_call_cuStreamGetFlags(&d->t, (ho_context)ref.ctx, (ho_stream)ref.handle));
	if (ho_gpu_check(op, -1, r.st) != 0)
		return NULL;
	return ho_py.PyBool_FromLong((r.o_flags & HO_CU_STREAM_NON_BLOCKING) != 0);
}

static ho_PyObject *get_priority(ho_PyObject *self, void *unused)
{
	static const char op[] = "stream priority";
	ho_stream_ref ref;
	ho_ret_cuStreamGetPriority r;
	ho_driver *d = begin(self, op, &ref);
	(void)unused;

	if (d == NULL)
		return NULL;
	HO_HELD(stream, self, r = ho_call_cuStreamGetPriority(&d->t, (ho_context)ref.ctx, (ho_stream)ref.handle));
	return ho_gpu_check(op, -1, r.st) == 0 ? ho_py.PyLong_FromLong(r.o_priority) : NULL;
}

static ho_PyObject *get_device_id(ho_PyObject *self, void *unused)
{
	static const char op[] = "stream device";
	ho_stream_object *s = (ho_stream_object *)self;
	ho_stream_ref ref;
	ho_ret_pair r;
	(void)unused;

	if (s->device >= 0 && s->kind == CREATED && !s->closed)
		return ho_py.PyLong_FromLong(s->device);
	ho_driver *d = begin(self, op, &ref);
	if (d == NULL)
		return NULL;
	HO_HELD(stream, self, r = ho_stream_device(&d->t, (ho_context)ref.ctx, (ho_stream)ref.handle));
	if (ho_gpu_check(op, -1, r.st) != 0)
		return NULL;
	s->device = (int32_t)r.a;
	return ho_py.PyLong_FromLong(s->device);
}

static ho_PyObject *get_device(ho_PyObject *self, void *unused)
{
	return ho_device_of(get_device_id(self, unused));
}

ho_PyObject *ho_device_of(ho_PyObject *id)
{
	ho_PyObject *r = NULL;
	ho_PyObject *module = id != NULL ? ho_py.PyImport_ImportModule("handoff") : NULL;
	ho_PyObject *cls = module != NULL ? ho_py.PyObject_GetAttrString(module, "Device") : NULL;

	if (cls != NULL)
		r = ho_py.PyObject_CallFunctionObjArgs(cls, id, NULL);
	ho_xdecref(cls);
	ho_xdecref(module);
	ho_xdecref(id);
	return r;
}

static ho_PyObject *get_context(ho_PyObject *self, void *unused)
{
	ho_stream_ref ref;
	(void)unused;

	return begin(self, "stream context", &ref) != NULL ? ho_py.PyLong_FromUnsignedLongLong(ref.ctx) : NULL;
}

static ho_PyObject *get_done(ho_PyObject *self, void *unused)
{
	static const char op[] = "query stream";
	ho_stream_ref ref;
	ho_result st;
	ho_driver *d = begin(self, op, &ref);
	(void)unused;

	if (d == NULL)
		return NULL;
	HO_HELD(stream, self, st = ho_stream_poll(&d->t, (ho_context)ref.ctx, (ho_stream)ref.handle));
	if (st == HO_CUDA_ERROR_NOT_READY)
		return ho_newref(HO_FALSE);
	return ho_gpu_check(op, -1, st) == 0 ? ho_newref(HO_TRUE) : NULL;
}

static ho_PyObject *get_capturing(ho_PyObject *self, void *unused)
{
	static const char op[] = "capture status";
	ho_stream_ref ref;
	ho_ret_cuStreamIsCapturing r;
	ho_driver *d = begin(self, op, &ref);
	(void)unused;

	if (d == NULL)
		return NULL;
	HO_HELD(stream, self, r = ho_call_cuStreamIsCapturing(&d->t, (ho_context)ref.ctx, (ho_stream)ref.handle));
	return ho_gpu_check(op, -1, r.st) == 0 ? ho_py.PyBool_FromLong(r.o_status != 0) : NULL;
}

static ho_PyObject *get_closed(ho_PyObject *self, void *unused)
{
	(void)unused;
	return ho_py.PyBool_FromLong(((ho_stream_object *)self)->closed);
}

static ho_PyObject *get_exporter(ho_PyObject *self, void *unused)
{
	const ho_stream_object *s = (ho_stream_object *)self;
	ho_PyObject *e = s->closed ? NULL : s->exporter;
	(void)unused;
	return ho_newref(e != NULL ? e : HO_NONE);
}

static ho_PyObject *sync(ho_PyObject *self, ho_PyObject *unused)
{
	static const char op[] = "synchronize stream";
	ho_stream_ref ref;
	ho_result st;
	ho_driver *d = begin(self, op, &ref);
	(void)unused;

	if (d == NULL)
		return NULL;
	/* A stream that captures must not be synchronized; asking does no harm (B231). */
	HO_HELD(stream, self, st = ho_stream_poll(&d->t, (ho_context)ref.ctx, (ho_stream)ref.handle);
	            if (st == HO_CUDA_ERROR_NOT_READY)
	            	st = ho_call_cuStreamSynchronize(&d->t, (ho_context)ref.ctx, (ho_stream)ref.handle));
	return ho_gpu_check(op, -1, st) == 0 ? ho_newref(HO_NONE) : NULL;
}

static const char wait_op[] = "wait";

/* wait(event), while both are held. 0 or -1. */
static int wait_for_event(ho_stream_ref *me, ho_PyObject *event)
{
	ho_driver *d = NULL;
	ho_result st;
	ho_event e;

	if (ho_event_handle(event, &e) != 0)
		return -1;
	ho_event_hold(event);
	int r = ho_stream_place(wait_op, -1, me) == 0 && (d = ho_gpu()) != NULL ? 0 : -1;
	if (r == 0) {
		HO_UNLOCKED(st = ho_call_cuStreamWaitEvent(&d->t, (ho_context)me->ctx, (ho_stream)me->handle, e, 0));
		r = ho_gpu_check(wait_op, -1, st);
	}
	ho_event_unhold(event);
	return r;
}

/* wait(stream), while *me is held. 0 or -1. */
static int wait_for_stream(ho_stream_ref *me, ho_PyObject *other)
{
	ho_stream_ref it;
	int r = -1;

	if (ho_stream_need(other, wait_op, &it) != 0)
		return -1;
	ho_stream_ref_hold(&it);
	/* Created streams know where they are; default streams take the other's
	 * place if that is known, else the thread's current context. */
	if (me->handle <= PER_THREAD && me->ctx == 0 && it.handle > PER_THREAD) {
		if (ho_stream_place(wait_op, -1, &it) != 0)
			goto done;
		me->ctx = it.ctx;
	} else if (it.handle <= PER_THREAD && it.ctx == 0 && me->handle > PER_THREAD) {
		if (ho_stream_place(wait_op, -1, me) != 0)
			goto done;
		it.ctx = me->ctx;
	} else if (ho_stream_place(wait_op, -1, me) != 0 || ho_stream_place(wait_op, -1, &it) != 0) {
		goto done;
	}
	r = ho_stream_order(wait_op, -1, &it, me);
done:
	ho_stream_ref_unhold(&it);
	return r;
}

static ho_PyObject *wait_for(ho_PyObject *self, ho_PyObject *other)
{
	static const char *const op = wait_op;
	ho_stream_ref me;

	/* Two created streams whose places are known, as from the second time on:
	 * nothing is looked up, and nothing of Go is entered. */
	if (HO_LIKELY(is_stream(other) && settled((ho_stream_object *)self) && settled((ho_stream_object *)other))) {
		const ho_stream_ref to = ho_stream_of(self), from = ho_stream_of(other);
		ho_driver *d = ho_gpu();
		ho_result st = HO_CUDA_SUCCESS;
		int ask, quiet = 0;
		if (d == NULL)
			return NULL;
		if (from.handle == to.handle)
			return ho_newref(HO_NONE);
		ho_stream_hold(self);
		ho_stream_hold(other);
		ask = ho_stream_ask(d, ((ho_stream_object *)other)->device, &from, &to);
		HO_UNLOCKED(quiet = ask && ho_stream_quiet(d, (ho_context)from.ctx, (ho_stream)from.handle) &&
		                    !ho_stream_captures(d, (ho_context)to.ctx, (ho_stream)to.handle);
		            if (!quiet)
		            	st = ho_order(d, (ho_context)from.ctx, (ho_stream)from.handle, (ho_context)to.ctx,
		                              (ho_stream)to.handle, 0));
		if (ask)
			ho_stream_answered(&from, quiet);
		ho_stream_unhold(self);
		ho_stream_unhold(other);
		return ho_gpu_check(op, -1, st) == 0 ? ho_newref(HO_NONE) : NULL;
	}
	/* From here on other code may run, of a foreign stream object or of other
	 * threads, which may close what is given. */
	if (take_ours(self, op, &me) != 0)
		return NULL;
	ho_stream_hold(self);
	int r = HO_TYPE(other) == ho_event_type ? wait_for_event(&me, other) : wait_for_stream(&me, other);
	ho_stream_unhold(self);
	return r == 0 ? ho_newref(HO_NONE) : NULL;
}

static ho_PyObject *record(ho_PyObject *self, ho_PyObject *const *args, ho_ssize n, ho_PyObject *kwnames)
{
	static ho_PyObject *event_name, *options_name;
	static const ho_param params[] = { { &event_name }, { &options_name } };
	ho_PyObject *a[2];
	ho_stream_ref ref;

	if (event_name == NULL && ((event_name = ho_py.PyUnicode_InternFromString("event")) == NULL ||
	                           (options_name = ho_py.PyUnicode_InternFromString("options")) == NULL))
		return NULL;
	if (ho_parse("record", args, n, kwnames, params, 2, 2, 0, a) != 0)
		return NULL;
	if (a[0] != NULL && a[0] != HO_NONE && a[1] != NULL && a[1] != HO_NONE) {
		ho_raise(HO_X_VALUE, 0, "record", "options are for a new event, not for one that exists");
		return NULL;
	}
	if (begin(self, "record", &ref) == NULL)
		return NULL;
	ho_stream_hold(self);
	ho_PyObject *event = ho_event_record(a[0] == HO_NONE ? NULL : a[0], a[1] == HO_NONE ? NULL : a[1], &ref);
	ho_stream_unhold(self);
	return event;
}

static ho_PyObject *close_method(ho_PyObject *self, ho_PyObject *unused)
{
	ho_gpu_fault f = { 0 };
	(void)unused;

	if (((ho_stream_object *)self)->constant)
		return ho_newref(HO_NONE); /* everybody's */
	if (close_stream((ho_stream_object *)self, &f) != 0) {
		ho_gpu_raise("close stream", &f);
		return NULL;
	}
	return ho_newref(HO_NONE);
}

static ho_PyObject *enter(ho_PyObject *self, ho_PyObject *unused)
{
	(void)unused;
	return ho_newref(self);
}

static ho_PyObject *leave(ho_PyObject *self, ho_PyObject *unused)
{
	(void)unused;
	return close_method(self, NULL);
}

/* StreamView.from_handle(int): as cuda.core's Stream has it. */
static ho_PyObject *from_handle(ho_PyObject *cls, ho_PyObject *o)
{
	uint64_t handle;
	ho_PyObject *number = NULL;
	(void)cls;

	if (!subtype(o, ho_py.PyLong_Type) && ho_py.PyIndex_Check(o)) { /* an int of NumPy's */
		if ((number = ho_py.PyNumber_Index(o)) == NULL)
			return NULL;
		o = number;
	}
	int r = take_handle(o, "from_handle", &handle);
	ho_xdecref(number);
	return r == 0 ? ho_stream_view_new(handle, 0, NULL) : NULL;
}

#define FAST(f) (ho_PyCFunction)(void (*)(void)) f

#define COMMON \
	{ "__cuda_stream__", cuda_stream, HO_METH_NOARGS, \
	  "__cuda_stream__($self, /)\n--\n\nThe stream protocol, version 0: (0, handle)." }, \
	{ "sync", sync, HO_METH_NOARGS, \
	  "sync($self, /)\n--\n\nWait until all work that is queued on the stream is done. The GIL is given up." }, \
	{ "wait", wait_for, HO_METH_O, \
	  "wait($self, event_or_stream, /)\n--\n\n" \
	  "Work queued on this stream from now on waits for an Event, or for what is queued on another\n" \
	  "stream of any library now. One event edge, none for the same stream or where nothing is\n" \
	  "pending; the host does not wait." }, \
	{ "record", FAST(record), HO_METH_FASTCALL | HO_METH_KEYWORDS, \
	  "record($self, event=None, options=None)\n--\n\n" \
	  "Records an event, or a new one: it is done when the work that is queued now is." }, \
	{ "close", close_method, HO_METH_NOARGS, \
	  "close($self, /)\n--\n\nGives the stream up; may be called twice. It is destroyed when no view\n" \
	  "is ordered on it any more; a borrowed stream never is." }, \
	{ "from_handle", from_handle, HO_METH_O | HO_METH_CLASS, \
	  "from_handle($type, handle, /)\n--\n\nStreamView of a raw handle, which the caller keeps alive." }

static ho_PyMethodDef view_methods[] = { COMMON, { NULL, NULL, 0, NULL } };

static ho_PyMethodDef stream_methods[] = {
	COMMON,
	{ "__enter__", enter, HO_METH_NOARGS, NULL },
	{ "__exit__", leave, HO_METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static ho_PyGetSetDef getset[] = {
	{ "handle", get_handle, NULL, "The raw handle, as an int; it is valid while the stream is open.", NULL },
	{ "is_nonblocking", get_nonblocking, NULL,
	  "Whether the stream and the legacy default stream leave each other alone.", NULL },
	{ "priority", get_priority, NULL, "The priority; the lower the more urgent.", NULL },
	{ "device", get_device, NULL, "The Device that the stream belongs to.", NULL },
	{ "device_id", get_device_id, NULL, "The ordinal of that device.", NULL },
	{ "context", get_context, NULL, "The raw handle of the context that the stream belongs to.", NULL },
	{ "is_done", get_done, NULL, "Whether all work that is queued is done.", NULL },
	{ "is_capturing", get_capturing, NULL, "Whether queued work is recorded into a graph.", NULL },
	{ "is_closed", get_closed, NULL, "Whether close() was called.", NULL },
	{ "exporting_obj", get_exporter, NULL, "The object that keeps the stream alive, or None.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static ho_PyMemberDef members[] = { HO_WEAKLIST(ho_stream_object, weak), { NULL, 0, 0, 0, NULL } };

#define SLOTS(new, method_table, doc) \
	{ HO_tp_dealloc, (void *)dealloc }, { HO_tp_traverse, (void *)traverse }, { HO_tp_repr, (void *)repr }, \
	{ HO_tp_richcompare, (void *)compare }, { HO_tp_hash, (void *)hash }, { HO_nb_int, (void *)to_int }, \
	{ HO_tp_methods, method_table }, { HO_tp_getset, getset }, { HO_tp_doc, (void *)doc }, \
	{ HO_tp_members, members }, { new, (void *)view_new }, { 0, NULL }

static ho_PyType_Slot view_slots[] = { SLOTS(
	HO_tp_new, view_methods,
	"StreamView(stream, /)\n--\n\n"
	"A stream that somebody else owns: any object with __cuda_stream__, a stream of PyTorch, CuPy,\n"
	"Numba, Paddle, Warp or cuda.bindings from before that protocol, or a raw handle.\n\n"
	"It keeps the object alive and never destroys the stream. The driver is asked when something is\n"
	"wanted of it. It is itself a stream of the protocol. Equality is by handle.") };

static ho_PyType_Slot stream_slots[] = { SLOTS(
	0, stream_methods,
	"A stream that handoff made; Device.create_stream() does. It is destroyed when it is closed, or\n"
	"collected; work that is queued still runs.") };

static ho_PyType_Spec view_spec = {
	"handoff.StreamView", (int)sizeof(ho_stream_object), 0, HO_TPFLAGS_DEFAULT | HO_TPFLAGS_HAVE_GC, view_slots,
};

static ho_PyType_Spec stream_spec = {
	"handoff.Stream", (int)sizeof(ho_stream_object), 0,
	HO_TPFLAGS_DEFAULT | HO_TPFLAGS_HAVE_GC | HO_TPFLAGS_DISALLOW_INSTANTIATION, stream_slots,
};

/* ---- Module ------------------------------------------------------------- */

/* _stream_new(device, nonblocking, priority) */
static ho_PyObject *stream_new(ho_PyObject *m, ho_PyObject *const *args, ho_ssize n)
{
	ho_gpu_fault f = { 0 };
	ho_gpu_made made = { 0 };
	(void)m;

	if (n != 3) {
		ho_py.PyErr_SetString(ho_py.PyExc_TypeError, "_stream_new(device, nonblocking, priority)");
		return NULL;
	}
	long dev = ho_py.PyLong_AsLong(args[0]);
	if (dev == -1 && ho_py.PyErr_Occurred())
		return NULL;
	long priority = ho_py.PyLong_AsLong(args[2]);
	if (priority == -1 && ho_py.PyErr_Occurred())
		return NULL;
	int nonblocking = ho_py.PyObject_IsTrue(args[1]);
	if (nonblocking < 0 || ho_gpu() == NULL)
		return NULL;
	if (priority < INT32_MIN || priority > INT32_MAX) {
		ho_raise(HO_X_VALUE, 0, "create stream", "priority %ld", priority);
		return NULL;
	}
	HO_UNLOCKED(ho_go_gpu.stream_new((int)dev, !nonblocking, (int)priority, &made, &f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise("create stream", &f);
		return NULL;
	}
	ho_stream_object *s = (ho_stream_object *)ho_py.PyType_GenericAlloc(stream_type, 0);
	if (s == NULL) {
		HO_UNLOCKED(ho_go_gpu.close(made.key, &f));
		free(f.text);
		return NULL;
	}
	set_handle(s, made.handle);
	forget(made.handle);
	s->ctx = made.ctx;
	s->key = made.key;
	s->device = (int32_t)dev;
	return &s->ob;
}

/* What use_stream set, for each device. */
static _Thread_local uint64_t current[DEVICES];

uint64_t ho_stream_current(int dev)
{
	return dev >= 0 && dev < DEVICES ? current[dev] : 0;
}

/* _use_stream(device, handle) -> the handle before. */
static ho_PyObject *use_stream(ho_PyObject *m, ho_PyObject *const *args, ho_ssize n)
{
	(void)m;
	if (n != 2) {
		ho_py.PyErr_SetString(ho_py.PyExc_TypeError, "_use_stream(device, handle)");
		return NULL;
	}
	long dev = ho_py.PyLong_AsLong(args[0]);
	if (dev == -1 && ho_py.PyErr_Occurred())
		return NULL;
	uint64_t handle = ho_py.PyLong_AsUnsignedLongLong(args[1]);
	if (ho_py.PyErr_Occurred())
		return NULL;
	if (dev < 0 || dev >= DEVICES) {
		ho_raise(HO_X_VALUE, 0, "use_stream", "device %ld", dev);
		return NULL;
	}
	uint64_t old = current[dev];
	current[dev] = handle;
	return ho_py.PyLong_FromUnsignedLongLong(old);
}

/* A default stream that is never closed, and of whichever thread uses it. */
static ho_PyObject *constant(uint64_t handle, uint64_t ctx)
{
	ho_stream_object *s = (ho_stream_object *)ho_stream_view_new(handle, ctx, NULL);

	if (s != NULL) {
		s->bound = 0;
		s->constant = 1;
	}
	return (ho_PyObject *)s;
}

/* _stream_default(device, per_thread): a default stream of that device's primary
 * context, whatever is current. */
static ho_PyObject *stream_default(ho_PyObject *m, ho_PyObject *const *args, ho_ssize n)
{
	(void)m;
	if (n != 2) {
		ho_py.PyErr_SetString(ho_py.PyExc_TypeError, "_stream_default(device, per_thread)");
		return NULL;
	}
	long dev = ho_py.PyLong_AsLong(args[0]);
	if (dev == -1 && ho_py.PyErr_Occurred())
		return NULL;
	int per_thread = ho_py.PyObject_IsTrue(args[1]);
	ho_context ctx = per_thread >= 0 ? ho_gpu_context((int)dev) : 0;
	return ctx != 0 ? constant(per_thread ? PER_THREAD : LEGACY, ctx) : NULL;
}

/* _asking(how=None) -> how it is with device 0: a number of the enum above. It is set for all devices; MEASURE
 * measures on the software device, too, and the others stay. For tests. */
static ho_PyObject *set_asking(ho_PyObject *m, ho_PyObject *const *args, ho_ssize n)
{
	int old = asking[0].left != 0 && asking[0].times == 0 ? MEASURE : asking[0].how;
	(void)m;

	if (n > 0) {
		long how = ho_py.PyLong_AsLong(args[0]);
		if (how < UNKNOWN || how > MEASURE) {
			if (!ho_py.PyErr_Occurred())
				ho_py.PyErr_SetString(ho_py.PyExc_ValueError, "_asking(how): 0 to 3");
			return NULL;
		}
		for (int i = 0; i < DEVICES; i++) {
			asking[i].how = (int8_t)(how == MEASURE ? ASK : how);
			asking[i].times = 0;
			asking[i].left = how == MEASURE;
		}
		for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++)
			asked[i].busy = 0;
	}
	return ho_py.PyLong_FromLong(old);
}

static ho_PyMethodDef functions[] = {
	{ "_asking", FAST(set_asking), HO_METH_FASTCALL, NULL },
	{ "_stream_new", FAST(stream_new), HO_METH_FASTCALL, NULL },
	{ "_stream_default", FAST(stream_default), HO_METH_FASTCALL, NULL },
	{ "_use_stream", FAST(use_stream), HO_METH_FASTCALL, NULL },
	{ NULL, NULL, 0, NULL },
};

static int add_default(ho_PyObject *module, const char *name, uint64_t handle)
{
	ho_PyObject *v = constant(handle, 0);
	int r = v != NULL ? ho_py.PyModule_AddObjectRef(module, name, v) : -1;

	ho_xdecref(v);
	return r;
}

int ho_stream_init(ho_PyObject *module)
{
	struct {
		ho_PyObject **to;
		const char *text;
	} names[] = {
		{ &cuda_stream_method, "__cuda_stream__" }, { &cuda_stream_attr, "cuda_stream" },
		{ &ptr_attr, "ptr" },                       { &handle_attr, "handle" },
		{ &value_attr, "value" },
	};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if ((*names[i].to = ho_py.PyUnicode_InternFromString(names[i].text)) == NULL)
			return -1;
	view_type = (ho_PyTypeObject *)ho_py.PyType_FromSpec(&view_spec);
	stream_type = (ho_PyTypeObject *)ho_py.PyType_FromSpec(&stream_spec);
	if (view_type == NULL || stream_type == NULL ||
	    ho_py.PyModule_AddObjectRef(module, "StreamView", (ho_PyObject *)view_type) != 0 ||
	    ho_py.PyModule_AddObjectRef(module, "Stream", (ho_PyObject *)stream_type) != 0)
		return -1;
	if (add_default(module, "LEGACY_DEFAULT_STREAM", LEGACY) != 0 ||
	    add_default(module, "PER_THREAD_DEFAULT_STREAM", PER_THREAD) != 0)
		return -1;
	return ho_py.PyModule_AddFunctions(module, functions);
}
