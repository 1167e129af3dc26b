/* handoff.Event: a mark in a stream. */
#include "gpu.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct ho_event_object {
	ho_PyObject ob;
	ho_event handle;
	ho_context ctx;
	uint64_t key;   /* of Go; 0: given back */
	ho_PyObject *weak; /* weak references */
	uint32_t holds; /* uses of the handle that outlast close() */
	int8_t timing, blocking, shared, recorded, closed;
} ho_event_object;

ho_PyTypeObject *ho_event_type;

static int check_open(const ho_event_object *e, const char *op)
{
	return !e->closed ? 0 : ho_raise(HO_X_CLOSED, 0, op, "the event is closed");
}

int ho_event_handle(ho_PyObject *event, ho_event *out)
{
	const ho_event_object *e = (ho_event_object *)event;

	*out = e->handle;
	return check_open(e, "event");
}

/* A flag of an EventOptions: 1, 0, or -1. */
static int option(ho_PyObject *options, const char *name)
{
	if (options == NULL)
		return 0;
	ho_PyObject *v = ho_py.PyObject_GetAttrString(options, name);
	if (v == NULL)
		return -1;
	int r = ho_py.PyObject_IsTrue(v);
	ho_py.Py_DecRef(v);
	return r;
}

/* A function of handoff._device with one argument: options are read there, and events
 * of other processes described. */
static ho_PyObject *in_python(const char *name, ho_PyObject *arg)
{
	ho_PyObject *module = ho_py.PyImport_ImportModule("handoff._device");
	ho_PyObject *f = module != NULL ? ho_py.PyObject_GetAttrString(module, name) : NULL;
	ho_PyObject *r = f != NULL ? ho_py.PyObject_CallFunctionObjArgs(f, arg, NULL) : NULL;

	ho_xdecref(f);
	ho_xdecref(module);
	return r;
}

/* The object of what Go made. */
static ho_PyObject *event_object(const ho_gpu_made *made, int timing, int blocking, int shared)
{
	ho_gpu_fault f = { 0 };
	ho_event_object *e = (ho_event_object *)ho_py.PyType_GenericAlloc(ho_event_type, 0);

	if (e == NULL) {
		HO_UNLOCKED(ho_go_gpu.close(made->key, &f));
		free(f.text);
		return NULL;
	}
	e->handle = (ho_event)made->handle;
	e->ctx = (ho_context)made->ctx;
	e->key = made->key;
	e->timing = (int8_t)timing;
	e->blocking = (int8_t)blocking;
	e->shared = (int8_t)shared;
	return &e->ob;
}

static ho_PyObject *event_new(ho_context ctx, ho_PyObject *options)
{
	ho_gpu_fault f = { 0 };
	ho_gpu_made made = { 0 };

	options = options == NULL || options == HO_NONE ? NULL : in_python("_event_options", options);
	if (options == NULL && ho_py.PyErr_Occurred())
		return NULL;
	int timing = option(options, "timing_enabled"), blocking = timing >= 0 ? option(options, "blocking_sync") : -1;
	int shared = blocking >= 0 ? option(options, "ipc_enabled") : -1;
	ho_xdecref(options);
	if (shared < 0)
		return NULL;
	if (shared && timing) { /* B298 */
		ho_raise(HO_X_TYPE, 0, "create event", "an event for other processes has no timing");
		return NULL;
	}
	HO_UNLOCKED(ho_go_gpu.event_new(ctx, timing, blocking, shared, &made, &f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise("create event", &f);
		return NULL;
	}
	return event_object(&made, timing, blocking, shared);
}

static int close_event(ho_event_object *e, ho_gpu_fault *f);

void ho_event_hold(ho_PyObject *event)
{
	((ho_event_object *)event)->holds++;
}

void ho_event_unhold(ho_PyObject *event)
{
	ho_event_object *e = (ho_event_object *)event;
	ho_gpu_fault f = { 0 };

	if (--e->holds == 0 && HO_UNLIKELY(e->closed)) {
		close_event(e, &f);
		free(f.text);
	}
}

ho_PyObject *ho_event_record(ho_PyObject *event, ho_PyObject *options, const ho_stream_ref *on)
{
	static const char op[] = "record event";
	ho_driver *d = ho_gpu();
	ho_result st;

	if (d == NULL)
		return NULL;
	if (event == NULL) {
		event = event_new((ho_context)on->ctx, options);
		if (event == NULL)
			return NULL;
	} else if (HO_TYPE(event) != ho_event_type) {
		ho_raise(HO_X_TYPE, 0, op, "not a handoff.Event");
		return NULL;
	} else if (check_open((ho_event_object *)event, op) != 0) {
		return NULL;
	} else {
		ho_py.Py_IncRef(event);
	}
	ho_event_object *e = (ho_event_object *)event;
	HO_HELD(event, event, st = ho_call_cuEventRecord(&d->t, (ho_context)on->ctx, e->handle, (ho_stream)on->handle));
	if (ho_gpu_check(op, -1, st) != 0) {
		ho_py.Py_DecRef(event);
		return NULL;
	}
	e->recorded = 1;
	return event;
}

static int close_event(ho_event_object *e, ho_gpu_fault *f)
{
	uint64_t key = e->key;

	e->closed = 1;
	if (e->holds != 0)
		return 0; /* the last hold does the rest */
	e->key = 0;
	if (key != 0 && !atomic_load_explicit(&ho_forked, memory_order_relaxed))
		HO_UNLOCKED(ho_go_gpu.close(key, f));
	return f->kind == HO_FAULT_NONE ? 0 : -1;
}

static void dealloc(ho_PyObject *self)
{
	ho_PyTypeObject *type = HO_TYPE(self);
	ho_gpu_fault f = { 0 };
	ho_PyObject *kind, *value, *trace;

	if (HO_UNLIKELY(((ho_event_object *)self)->weak != NULL))
		ho_py.PyObject_ClearWeakRefs(self);
	ho_py.PyErr_Fetch(&kind, &value, &trace);
	close_event((ho_event_object *)self, &f);
	free(f.text);
	ho_py.PyErr_Restore(kind, value, trace);
	ho_py.PyObject_Free(self);
	ho_py.Py_DecRef((ho_PyObject *)type);
}

static ho_PyObject *get_handle(ho_PyObject *self, void *unused)
{
	(void)unused;
	if (check_open((ho_event_object *)self, "handle") != 0)
		return NULL;
	return ho_py.PyLong_FromUnsignedLongLong(((ho_event_object *)self)->handle);
}

static ho_PyObject *get_done(ho_PyObject *self, void *unused)
{
	static const char op[] = "query event";
	ho_event_object *e = (ho_event_object *)self;
	ho_driver *d = ho_gpu();
	ho_result st;
	(void)unused;

	if (d == NULL || check_open(e, op) != 0)
		return NULL;
	HO_HELD(event, self, st = ho_call_cuEventQuery(&d->t, e->ctx, e->handle));
	if (st == HO_CUDA_ERROR_NOT_READY)
		return ho_newref(HO_FALSE);
	return ho_gpu_check(op, -1, st) == 0 ? ho_newref(HO_TRUE) : NULL;
}

static ho_PyObject *sync(ho_PyObject *self, ho_PyObject *unused)
{
	static const char op[] = "synchronize event";
	ho_event_object *e = (ho_event_object *)self;
	ho_driver *d = ho_gpu();
	ho_result st;
	(void)unused;

	if (d == NULL || check_open(e, op) != 0)
		return NULL;
	HO_HELD(event, self, st = ho_call_cuEventSynchronize(&d->t, e->ctx, e->handle));
	return ho_gpu_check(op, -1, st) == 0 ? ho_newref(HO_NONE) : NULL;
}

static ho_PyObject *close_method(ho_PyObject *self, ho_PyObject *unused)
{
	ho_gpu_fault f = { 0 };
	(void)unused;

	if (close_event((ho_event_object *)self, &f) != 0) {
		ho_gpu_raise("close event", &f);
		return NULL;
	}
	return ho_newref(HO_NONE);
}

#define FLAG(name, field) \
	static ho_PyObject *name(ho_PyObject *self, void *unused) \
	{ \
		(void)unused; \
		return ho_py.PyBool_FromLong(((ho_event_object *)self)->field); \
	}
FLAG(get_timing, timing)
FLAG(get_blocking, blocking)
FLAG(get_shared, shared)
FLAG(get_closed, closed)

static ho_PyObject *get_context(ho_PyObject *self, void *unused)
{
	(void)unused;
	return ho_py.PyLong_FromUnsignedLongLong(((ho_event_object *)self)->ctx);
}

static ho_PyObject *get_device(ho_PyObject *self, void *unused)
{
	const ho_event_object *e = (ho_event_object *)self;
	ho_driver *d = ho_gpu();
	ho_ret_cuCtxGetDevice r;
	(void)unused;

	if (d == NULL)
		return NULL;
	HO_UNLOCKED(r = ho_call_cuCtxGetDevice(&d->t, e->ctx));
	return ho_gpu_check("event device", -1, r.st) == 0 ? ho_device_of(ho_py.PyLong_FromLong(r.o_dev)) : NULL;
}

static ho_PyObject *get_descriptor(ho_PyObject *self, void *unused)
{
	(void)unused;
	return in_python("_event_descriptor", self);
}

static ho_PyObject *from_descriptor(ho_PyObject *cls, ho_PyObject *descriptor)
{
	(void)cls;
	return in_python("_event_of_descriptor", descriptor);
}

static ho_PyObject *repr(ho_PyObject *self)
{
	const ho_event_object *e = (ho_event_object *)self;
	char text[64];

	snprintf(text, sizeof text, e->closed ? "<handoff.Event, closed>" : "<handoff.Event 0x%llx>",
	         (unsigned long long)e->handle);
	return ho_py.PyUnicode_FromString(text);
}

/* end - start: milliseconds, as cuda.core has it (B227, B229). */
static ho_PyObject *subtract(ho_PyObject *a, ho_PyObject *b)
{
	static const char op[] = "elapsed time";

	if (HO_TYPE(a) != ho_event_type || HO_TYPE(b) != ho_event_type)
		return ho_newref(ho_py._Py_NotImplementedStruct);
	ho_event_object *end = (ho_event_object *)a, *start = (ho_event_object *)b;
	ho_driver *d = ho_gpu();
	ho_ret_cuEventElapsedTime r;
	if (d == NULL || check_open(end, op) != 0 || check_open(start, op) != 0)
		return NULL;
	if (!end->timing || !start->timing) {
		ho_raise(HO_X_STREAM, 0, op, "make both events with EventOptions(timing_enabled=True)");
		return NULL;
	}
	if (!end->recorded || !start->recorded) {
		ho_raise(HO_X_STREAM, 0, op, "an event was never recorded");
		return NULL;
	}
	ho_event_hold(b);
	HO_HELD(event, a, r = ho_call_cuEventElapsedTime(&d->t, start->ctx, start->handle, end->handle));
	ho_event_unhold(b);
	return ho_gpu_check(op, -1, r.st) == 0 ? ho_py.PyFloat_FromDouble(r.o_ms) : NULL;
}

static ho_PyObject *compare(ho_PyObject *a, ho_PyObject *b, int operation)
{
	enum { EQ = 2, NE = 3 };

	if (HO_TYPE(b) != ho_event_type || (operation != EQ && operation != NE))
		return ho_newref(ho_py._Py_NotImplementedStruct);
	int same = a == b || ((ho_event_object *)a)->handle == ((ho_event_object *)b)->handle;
	return ho_newref(same == (operation == EQ) ? HO_TRUE : HO_FALSE);
}

static ho_ssize hash(ho_PyObject *self)
{
	ho_ssize h = (ho_ssize)(((ho_event_object *)self)->handle >> 4);
	return h == -1 ? -2 : h;
}

static ho_PyMethodDef methods[] = {
	{ "sync", sync, HO_METH_NOARGS, "sync($self, /)\n--\n\nWait until the event is done. The GIL is given up." },
	{ "close", close_method, HO_METH_NOARGS,
	  "close($self, /)\n--\n\nGives the event up; streams that wait for it still do. May be called twice." },
	{ "from_ipc_descriptor", from_descriptor, HO_METH_O | HO_METH_CLASS,
	  "from_ipc_descriptor($type, descriptor, /)\n--\n\nOpens an event of another process by its ipc_descriptor." },
	{ NULL, NULL, 0, NULL },
};

static ho_PyGetSetDef getset[] = {
	{ "handle", get_handle, NULL, "The raw handle, as an int; valid while the event is open.", NULL },
	{ "context", get_context, NULL, "The raw handle of the event's context.", NULL },
	{ "device", get_device, NULL, "The Device of the event's context.", NULL },
	{ "is_done", get_done, NULL, "Whether the work before the latest record is done.", NULL },
	{ "is_timing_enabled", get_timing, NULL, "Whether the event has timing: end - start is in milliseconds.", NULL },
	{ "is_blocking_sync", get_blocking, NULL, "Whether sync() sleeps instead of spinning.", NULL },
	{ "is_ipc_enabled", get_shared, NULL, "Whether other processes can open it.", NULL },
	{ "ipc_descriptor", get_descriptor, NULL,
	  "An IPCEventDescriptor, which may be pickled: another process opens the event by it.", NULL },
	{ "is_closed", get_closed, NULL, "Whether close() was called.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static ho_PyMemberDef members[] = { HO_WEAKLIST(ho_event_object, weak), { NULL, 0, 0, 0, NULL } };

static ho_PyType_Slot slots[] = {
	{ HO_tp_members, members },
	{ HO_tp_dealloc, (void *)dealloc },
	{ HO_tp_repr, (void *)repr },
	{ HO_tp_richcompare, (void *)compare },
	{ HO_tp_hash, (void *)hash },
	{ HO_nb_subtract, (void *)subtract },
	{ HO_tp_methods, methods },
	{ HO_tp_getset, getset },
	{ HO_tp_doc, (void *)"A mark in a stream, made by Stream.record() or Device.create_event().\n\n"
	                     "end - start is the time between two events in milliseconds." },
	{ 0, NULL },
};

static ho_PyType_Spec spec = {
	"handoff.Event", (int)sizeof(ho_event_object), 0, HO_TPFLAGS_DEFAULT | HO_TPFLAGS_DISALLOW_INSTANTIATION, slots,
};

/* _event_new(device, options) */
static ho_PyObject *new_on_device(ho_PyObject *m, ho_PyObject *const *args, ho_ssize n)
{
	(void)m;
	if (n != 2) {
		ho_py.PyErr_SetString(ho_py.PyExc_TypeError, "_event_new(device, options)");
		return NULL;
	}
	long dev = ho_py.PyLong_AsLong(args[0]);
	if (dev == -1 && ho_py.PyErr_Occurred())
		return NULL;
	ho_context ctx = ho_gpu_context((int)dev);
	return ctx != 0 ? event_new(ctx, args[1]) : NULL;
}

/* _event_share(event): the bytes by which another process opens it. */
static ho_PyObject *event_share(ho_PyObject *m, ho_PyObject *event)
{
	static const char op[] = "descriptor of event";
	ho_event_object *e = (ho_event_object *)event;
	ho_ret_cuIpcGetEventHandle r;
	ho_driver *d;
	(void)m;

	if (HO_TYPE(event) != ho_event_type) {
		ho_raise(HO_X_TYPE, 0, op, "not a handoff.Event");
		return NULL;
	}
	if (check_open(e, op) != 0 || (d = ho_gpu()) == NULL)
		return NULL;
	if (!e->shared) {
		ho_raise(HO_X_STREAM, 0, op, "make the event with EventOptions(ipc_enabled=True)");
		return NULL;
	}
	HO_HELD(event, event, r = ho_call_cuIpcGetEventHandle(&d->t, e->ctx, e->handle));
	if (ho_gpu_check(op, -1, r.st) != 0)
		return NULL;
	return ho_py.PyBytes_FromStringAndSize((const char *)&r.o_handle, HO_IPC_EVENT);
}

/* _event_open(device, bytes) */
static ho_PyObject *event_open(ho_PyObject *m, ho_PyObject *const *args, ho_ssize n)
{
	ho_gpu_fault f = { 0 };
	ho_gpu_made made = { 0 };
	char *bytes;
	ho_ssize size;
	(void)m;

	if (n != 2) {
		ho_py.PyErr_SetString(ho_py.PyExc_TypeError, "_event_open(device, bytes)");
		return NULL;
	}
	long dev = ho_py.PyLong_AsLong(args[0]);
	if ((dev == -1 && ho_py.PyErr_Occurred()) || ho_py.PyBytes_AsStringAndSize(args[1], &bytes, &size) != 0)
		return NULL;
	if (size != HO_IPC_EVENT) {
		ho_raise(HO_X_VALUE, 0, "open event", "%lld bytes, not %d", (long long)size, HO_IPC_EVENT);
		return NULL;
	}
	ho_context ctx = ho_gpu_context((int)dev);
	if (ctx == 0)
		return NULL;
	HO_UNLOCKED(ho_go_gpu.event_open(ctx, (uintptr_t)bytes, &made, &f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise("open event", &f);
		return NULL;
	}
	return event_object(&made, 0, 0, 1);
}

static ho_PyMethodDef functions[] = {
	{ "_event_share", event_share, HO_METH_O, NULL },
	{ "_event_open", (ho_PyCFunction)(void (*)(void))event_open, HO_METH_FASTCALL, NULL },
	{ "_event_new", (ho_PyCFunction)(void (*)(void))new_on_device, HO_METH_FASTCALL, NULL },
	{ NULL, NULL, 0, NULL },
};

int ho_event_init(ho_PyObject *module)
{
	ho_event_type = (ho_PyTypeObject *)ho_py.PyType_FromSpec(&spec);
	if (ho_event_type == NULL)
		return -1;
	if (ho_py.PyModule_AddObjectRef(module, "Event", (ho_PyObject *)ho_event_type) != 0)
		return -1;
	return ho_py.PyModule_AddFunctions(module, functions);
}
