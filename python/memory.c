/* What is written in C of handoff.Device and handoff.Buffer: allocating and
 * giving back in stream order, without Go and without a frame of Python.
 *
 * Memory from a device's pool for a stream that is known belongs to the Buffer
 * itself at first: freeing it is one driver call. As soon as somebody wants more
 * of it (a view, another stream, a copy) Go takes it over, as it does from the
 * start where the memory or the stream is of another kind: see view_of. */
#include "gpu.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEVICES = 64 };

typedef struct ho_device_object {
	ho_PyObject ob;
	ho_PyObject *resource; /* that somebody has set, or NULL */
	int id;
} ho_device_object;

typedef struct ho_memory {
	ho_PyObject ob;
	ho_PyObject *view;   /* of all bytes, and their owner; NULL: the memory is own, or given back */
	ho_PyObject *stream; /* of own memory: where it goes back */
	uint64_t ptr;
	int64_t size;
	int device;
	int8_t kind; /* HO_MEMORY_* */
	int8_t busy; /* Go is taking the memory over, without the GIL */
} ho_memory;

static ho_PyTypeObject *device_base, *memory_base;
static ho_PyTypeObject *buffer_type; /* handoff.Buffer, a subclass of memory_base */
static int8_t pooled[DEVICES];       /* 1: own memory may come from the device's pool */

/* Buffers that are gone, to be used again: a new one costs twice as much. GIL held. */
static ho_memory *spare[16];
static int spares;

static ho_memory *new_memory(void)
{
	if (HO_UNLIKELY(spares == 0))
		return (ho_memory *)ho_py.PyType_GenericAlloc(buffer_type, 0);
	ho_memory *m = spare[--spares];
	ho_py.PyObject_Init(&m->ob, buffer_type);
	m->view = m->stream = NULL;
	m->busy = 0;
	ho_py.PyObject_GC_Track(m);
	return m;
}

/* ---- Giving back -------------------------------------------------------- */

/* Own memory goes back to the pool in the order of its stream. */
static ho_result give_back(ho_memory *m)
{
	ho_PyObject *stream = m->stream;
	ho_stream_ref s = ho_stream_of(stream);
	ho_devptr ptr = m->ptr;
	ho_result st = HO_CUDA_SUCCESS;
	ho_driver *d;

	m->stream = NULL; /* from here on it is closed to other threads */
	m->ptr = 0;
	if (!atomic_load_explicit(&ho_forked, memory_order_relaxed) && (d = ho_gpu()) != NULL)
		HO_UNLOCKED(st = ho_call_cuMemFreeAsync(&d->t, (ho_context)s.ctx, ptr, (ho_stream)s.handle));
	ho_stream_unhold(stream);
	ho_py.Py_DecRef(stream);
	return st;
}

static void memory_dealloc(ho_PyObject *self)
{
	ho_PyTypeObject *type = HO_TYPE(self);
	ho_memory *m = (ho_memory *)self;
	ho_PyObject *kind, *value, *trace;

	ho_py.PyObject_GC_UnTrack(self);
	if (HO_UNLIKELY(m->stream != NULL)) { /* nobody has closed it */
		ho_py.PyErr_Fetch(&kind, &value, &trace);
		give_back(m);
		ho_py.PyErr_Restore(kind, value, trace);
	}
	ho_xdecref(m->view);
	if (HO_LIKELY(type == buffer_type && spares < (int)(sizeof spare / sizeof spare[0])))
		spare[spares++] = m;
	else
		ho_py.PyObject_GC_Del(self);
	ho_py.Py_DecRef((ho_PyObject *)type);
}

static int memory_traverse(ho_PyObject *self, int (*visit)(ho_PyObject *, void *), void *arg)
{
	const ho_memory *m = (ho_memory *)self;
	int r = visit((ho_PyObject *)HO_TYPE(self), arg);

	if (r == 0 && m->view != NULL)
		r = visit(m->view, arg);
	return r != 0 || m->stream == NULL ? r : visit(m->stream, arg);
}

/* Waits until no other thread has the memory in hand. */
static void settle(const ho_memory *m)
{
	while (HO_UNLIKELY(m->busy))
		HO_UNLOCKED(sched_yield());
}

static int is_closed(const ho_memory *m)
{
	return m->view == NULL && m->stream == NULL;
}

/* The view of all bytes, made when it is first asked for: a new reference, since
 * another thread may close the buffer as soon as the GIL is given up. */
static ho_PyObject *view_of(ho_memory *m)
{
	settle(m);
	if (HO_UNLIKELY(is_closed(m))) {
		ho_raise(HO_X_CLOSED, 0, "buffer", "used after close");
		return NULL;
	}
	if (m->view != NULL)
		return ho_newref(m->view);
	int taken;
	m->busy = 1;
	ho_PyObject *stream = m->stream;
	ho_stream_ref on = ho_stream_of(stream);
	ho_PyObject *view = ho_buffer_adopt(m->device, HO_MEMORY_DEVICE, 0, m->ptr, m->size, &on, &taken);
	m->busy = 0;
	if (!taken)
		return NULL;
	m->view = view; /* NULL for want of memory: closed */
	m->stream = NULL;
	if (view != NULL)
		ho_py.Py_IncRef(view);
	/* Go holds it now. This gives the GIL up if the stream was closed meanwhile. */
	ho_stream_unhold(stream);
	ho_py.Py_DecRef(stream);
	return view;
}

/* close(stream=None) */
static ho_PyObject *memory_close(ho_PyObject *self, ho_PyObject *const *args, ho_ssize n, ho_PyObject *kwnames)
{
	static const ho_param params[] = { { &ho_names.stream } };
	ho_memory *m = (ho_memory *)self;
	ho_PyObject *stream = NULL;
	ho_stream_ref on, home;

	if ((n != 0 || kwnames != NULL) && ho_parse("close", args, n, kwnames, params, 1, 1, 0, &stream) != 0)
		return NULL;
	settle(m);
	if (is_closed(m))
		return ho_newref(HO_NONE);
	if (stream != NULL && stream != HO_NONE) {
		if (ho_stream_need(stream, "buffer", &on) != 0)
			return NULL;
		home = m->stream != NULL ? ho_stream_of(m->stream) : (ho_stream_ref){ 0 };
		if (m->stream == NULL || on.handle != home.handle) {
			ho_PyObject *view = view_of(m);
			if (view == NULL)
				return NULL;
			int failed = ho_buffer_use(view, stream, 1);
			ho_py.Py_DecRef(view);
			if (failed)
				return NULL;
		}
	}
	if (m->stream != NULL)
		return ho_gpu_check("free", m->device, give_back(m)) == 0 ? ho_newref(HO_NONE) : NULL;
	ho_PyObject *view = m->view;
	m->view = NULL;
	ho_xdecref(view); /* NULL if another thread closed it meanwhile */
	return ho_newref(HO_NONE);
}

/* ---- Allocating --------------------------------------------------------- */

/* A number of gpuabi.h, or -1 with an exception set. */
static int kind_of(ho_PyObject *o)
{
	static const char *const kinds[] = { "device", "pinned", "managed" };
	const char *s = NULL;

	if (HO_TYPE(o) == (ho_PyTypeObject *)ho_py.PyUnicode_Type && (s = ho_py.PyUnicode_AsUTF8AndSize(o, NULL)) == NULL)
		ho_py.PyErr_Clear(); /* surrogates */
	for (int i = 0; s != NULL && i < 3; i++)
		if (strcmp(s, kinds[i]) == 0)
			return i;
	ho_PyObject *text = ho_py.PyErr_Occurred() ? NULL : ho_py.PyObject_Repr(o);
	s = text != NULL ? ho_py.PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
	if (s != NULL)
		ho_raise(HO_X_VALUE, 0, "allocate", "kind is one of device, pinned, managed, not %.80s", s);
	ho_xdecref(text);
	return -1;
}

/* 1 if m has memory of the device's pool now; 0 if Go has to look at it. */
static int allocate_own(ho_memory *m, ho_PyObject *size, ho_PyObject *stream)
{
	ho_stream_ref s;
	ho_driver *d;
	int overflow;

	if (m->kind != HO_MEMORY_DEVICE || m->device >= DEVICES || !pooled[m->device] ||
	    HO_TYPE(size) != (ho_PyTypeObject *)ho_py.PyLong_Type || !ho_stream_settled(stream, m->device, &s) ||
	    (d = ho_gpu()) == NULL)
		return 0;
	long long bytes = ho_py.PyLong_AsLongLongAndOverflow(size, &overflow);
	if (bytes <= 0 || overflow)
		return 0;
	ho_stream_hold(stream);
	ho_ret_cuMemAllocAsync r;
	HO_UNLOCKED(r = ho_call_cuMemAllocAsync(&d->t, (ho_context)s.ctx, (size_t)bytes, (ho_stream)s.handle));
	if (HO_UNLIKELY(r.st != HO_CUDA_SUCCESS)) { /* Go says what is wrong, in words */
		ho_stream_unhold(stream);
		return 0;
	}
	m->ptr = r.o_ptr;
	m->size = bytes;
	m->stream = ho_newref(stream);
	return 1;
}

/* Whether the device has pools, once Go has made its first allocation and set
 * the pool up. */
static void learn(int dev)
{
	ho_driver *d = ho_gpu();
	ho_device handle;
	int can = 0;

	if (d == NULL)
		ho_py.PyErr_Clear();
	else if (dev < DEVICES && !pooled[dev] && d->t.cuDeviceGet != NULL && d->t.cuDeviceGetAttribute != NULL &&
	         d->t.cuMemAllocAsync != NULL && d->t.cuMemFreeAsync != NULL &&
	         d->t.cuDeviceGet(&handle, dev) == HO_CUDA_SUCCESS &&
	         d->t.cuDeviceGetAttribute(&can, HO_CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, handle) == HO_CUDA_SUCCESS)
		pooled[dev] = can != 0;
}

/* What the resource allocates that a device was given: Device._of_resource(size, stream). */
static ho_PyObject *of_resource(ho_PyObject *self, ho_PyObject *size, ho_PyObject *stream)
{
	static ho_PyObject *name;

	if (name == NULL && (name = ho_py.PyUnicode_InternFromString("_of_resource")) == NULL)
		return NULL;
	return ho_py.PyObject_CallMethodObjArgs(self, name, size, stream, NULL);
}

/* allocate(size, *, stream, kind="device") */
static ho_PyObject *allocate(ho_PyObject *self, ho_PyObject *const *args, ho_ssize n, ho_PyObject *kwnames)
{
	static ho_PyObject *size_name, *kind_name;
	static const ho_param params[] = { { &size_name }, { &ho_names.stream }, { &kind_name } };
	ho_PyObject *a[3];

	if (size_name == NULL && ((size_name = ho_py.PyUnicode_InternFromString("size")) == NULL ||
	                          (kind_name = ho_py.PyUnicode_InternFromString("kind")) == NULL))
		return NULL;
	if (HO_LIKELY(n == 1 && ho_only_keyword(kwnames, ho_names.stream))) { /* as nearly all calls are */
		a[0] = args[0];
		a[1] = args[1];
		a[2] = NULL;
	} else if (ho_parse("allocate", args, n, kwnames, params, 3, 1, 2, a) != 0) {
		return NULL;
	}
	if (HO_UNLIKELY(a[2] == NULL && ((ho_device_object *)self)->resource != NULL))
		return of_resource(self, a[0], a[1]);
	int kind = a[2] == NULL ? HO_MEMORY_DEVICE : kind_of(a[2]);
	if (kind < 0 || ho_go_ok() != 0)
		return NULL;
	ho_memory *m = new_memory();
	if (m == NULL)
		return NULL;
	m->device = ((ho_device_object *)self)->id;
	m->kind = (int8_t)kind;
	if (HO_LIKELY(allocate_own(m, a[0], a[1])))
		return &m->ob;
	m->view = ho_buffer_new(m->device, kind, 0, a[0], a[1]);
	if (m->view == NULL) {
		ho_py.Py_DecRef(&m->ob);
		return NULL;
	}
	m->ptr = (uint64_t)(uintptr_t)((ho_view *)m->view)->t.data;
	m->size = ((ho_view *)m->view)->t.shape[0];
	if (kind == HO_MEMORY_DEVICE && m->size > 0)
		learn(m->device);
	return &m->ob;
}

ho_PyObject *ho_memory_new(ho_PyObject *cls, ho_PyObject *view, int kind, int dev)
{
	ho_memory *m = NULL;

	if (!ho_py.PyObject_IsInstance(cls, ho_py.PyType_Type) ||
	    !ho_py.PyType_IsSubtype((ho_PyTypeObject *)cls, memory_base))
		ho_py.PyErr_SetString(ho_py.PyExc_TypeError, "not a subclass of _Memory");
	else
		m = (ho_memory *)ho_py.PyType_GenericAlloc((ho_PyTypeObject *)cls, 0);
	if (m == NULL) {
		ho_py.Py_DecRef(view);
		return NULL;
	}
	m->view = view;
	m->device = dev;
	m->kind = (int8_t)kind;
	m->ptr = (uint64_t)(uintptr_t)((ho_view *)view)->t.data;
	m->size = ((ho_view *)view)->t.shape[0];
	return &m->ob;
}

/* ---- Facts -------------------------------------------------------------- */

static int open_only(ho_memory *m)
{
	settle(m);
	return is_closed(m) ? ho_raise(HO_X_CLOSED, 0, "buffer", "used after close") : 0;
}

static ho_PyObject *get_view(ho_PyObject *self, void *unused)
{
	(void)unused;
	return view_of((ho_memory *)self);
}

static ho_PyObject *get_handle(ho_PyObject *self, void *unused)
{
	ho_memory *m = (ho_memory *)self;
	(void)unused;
	return open_only(m) == 0 ? ho_py.PyLong_FromUnsignedLongLong(m->ptr) : NULL;
}

static ho_PyObject *get_size(ho_PyObject *self, void *unused)
{
	ho_memory *m = (ho_memory *)self;
	(void)unused;
	return open_only(m) == 0 ? ho_py.PyLong_FromLongLong(m->size) : NULL;
}

static ho_PyObject *get_device_id(ho_PyObject *self, void *unused)
{
	ho_memory *m = (ho_memory *)self;
	(void)unused;
	if (m->kind == HO_MEMORY_PINNED || m->kind == HO_MEMORY_HOST)
		return ho_py.PyLong_FromLong(-1);
	return open_only(m) == 0 ? ho_py.PyLong_FromLong(m->device) : NULL;
}

static ho_PyObject *get_device_accessible(ho_PyObject *self, void *unused)
{
	(void)unused;
	return ho_py.PyBool_FromLong(((ho_memory *)self)->kind != HO_MEMORY_HOST);
}

static ho_PyObject *get_host_accessible(ho_PyObject *self, void *unused)
{
	(void)unused;
	return ho_py.PyBool_FromLong(((ho_memory *)self)->kind != HO_MEMORY_DEVICE);
}

static ho_PyObject *get_managed(ho_PyObject *self, void *unused)
{
	(void)unused;
	return ho_py.PyBool_FromLong(((ho_memory *)self)->kind == HO_MEMORY_MANAGED);
}

static ho_PyObject *get_closed(ho_PyObject *self, void *unused)
{
	(void)unused;
	return ho_py.PyBool_FromLong(is_closed((ho_memory *)self));
}

static ho_PyObject *get_id(ho_PyObject *self, void *unused)
{
	(void)unused;
	return ho_py.PyLong_FromLong(((ho_device_object *)self)->id);
}

#define FAST(f) (ho_PyCFunction)(void (*)(void)) f

static ho_PyMethodDef memory_methods[] = {
	{ "close", FAST(memory_close), HO_METH_FASTCALL | HO_METH_KEYWORDS,
	  "close($self, /, stream=None)\n--\n\n"
	  "Give the memory back, in the order of a stream; may be called twice." },
	{ NULL, NULL, 0, NULL },
};

static ho_PyGetSetDef memory_getset[] = {
	{ "_handoff_view", get_view, NULL, "A StridedMemoryView of the bytes.", NULL },
	{ "handle", get_handle, NULL, "The address of the first byte.", NULL },
	{ "size", get_size, NULL, "The size in bytes.", NULL },
	{ "device_id", get_device_id, NULL, "The ordinal of the device; -1 for pinned host memory.", NULL },
	{ "is_device_accessible", get_device_accessible, NULL, "Whether a device can read and write the memory.", NULL },
	{ "is_host_accessible", get_host_accessible, NULL, "Whether the host can read and write the memory.", NULL },
	{ "is_managed", get_managed, NULL, "Whether the memory moves between host and device by itself.", NULL },
	{ "is_closed", get_closed, NULL, "Whether close() was called.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static ho_PyType_Slot memory_slots[] = {
	{ HO_tp_dealloc, (void *)memory_dealloc },
	{ HO_tp_traverse, (void *)memory_traverse },
	{ HO_tp_methods, memory_methods },
	{ HO_tp_getset, memory_getset },
	{ HO_tp_doc, (void *)"Memory of a device: the part of handoff.Buffer that is written in C." },
	{ 0, NULL },
};

static ho_PyType_Spec memory_spec = {
	"handoff._core._Memory", (int)sizeof(ho_memory), 0,
	HO_TPFLAGS_DEFAULT | HO_TPFLAGS_HAVE_GC | HO_TPFLAGS_BASETYPE | HO_TPFLAGS_DISALLOW_INSTANTIATION, memory_slots,
};

/* _DeviceBase(ordinal) */
static ho_PyObject *device_new(ho_PyTypeObject *type, ho_PyObject *args, ho_PyObject *kwargs)
{
	(void)kwargs;
	if (ho_py.PyTuple_Size(args) != 1) {
		ho_py.PyErr_SetString(ho_py.PyExc_TypeError, "_DeviceBase() takes an ordinal");
		return NULL;
	}
	long id = ho_py.PyLong_AsLong(ho_py.PyTuple_GetItem(args, 0));
	if (id == -1 && ho_py.PyErr_Occurred())
		return NULL;
	if (id < 0 || id > INT32_MAX) {
		ho_raise(HO_X_VALUE, 0, "device", "a device has an ordinal from 0, not %ld", id);
		return NULL;
	}
	ho_device_object *d = (ho_device_object *)ho_py.PyType_GenericAlloc(type, 0);
	if (d != NULL)
		d->id = (int)id;
	return (ho_PyObject *)d;
}

static void device_dealloc(ho_PyObject *self)
{
	ho_PyTypeObject *type = HO_TYPE(self);

	ho_xdecref(((ho_device_object *)self)->resource);
	((void (*)(void *))ho_py.PyType_GetSlot(type, HO_tp_free))(self);
	ho_py.Py_DecRef((ho_PyObject *)type);
}

static ho_PyMethodDef device_methods[] = {
	{ "allocate", FAST(allocate), HO_METH_FASTCALL | HO_METH_KEYWORDS,
	  "allocate($self, /, size, *, stream, kind='device')\n--\n\n"
	  "Allocate memory, usable by work queued on the stream from now on.\n\n"
	  "Its kind is \"device\", \"pinned\" (host) or \"managed\". DriverError when there is none left." },
	{ NULL, NULL, 0, NULL },
};

static ho_PyObject *get_resource(ho_PyObject *self, void *unused)
{
	ho_PyObject *r = ((ho_device_object *)self)->resource;
	(void)unused;
	return ho_newref(r != NULL ? r : HO_NONE);
}

static int set_resource(ho_PyObject *self, ho_PyObject *value, void *unused)
{
	ho_PyObject *old = ((ho_device_object *)self)->resource;
	(void)unused;

	((ho_device_object *)self)->resource = value == NULL || value == HO_NONE ? NULL : ho_newref(value);
	ho_xdecref(old);
	return 0;
}

static ho_PyGetSetDef device_getset[] = {
	{ "_resource", get_resource, set_resource, "What allocate uses, if that was set; None.", NULL },
	{ "_id", get_id, NULL, "The ordinal in this process.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static ho_PyType_Slot device_slots[] = {
	{ HO_tp_new, (void *)device_new },
	{ HO_tp_dealloc, (void *)device_dealloc },
	{ HO_tp_methods, device_methods },
	{ HO_tp_getset, device_getset },
	{ HO_tp_doc, (void *)"The part of handoff.Device that is written in C." },
	{ 0, NULL },
};

static ho_PyType_Spec device_spec = {
	"handoff._core._DeviceBase", (int)sizeof(ho_device_object), 0, HO_TPFLAGS_DEFAULT | HO_TPFLAGS_BASETYPE, device_slots,
};

ho_PyTypeObject *ho_memory_device_type(void)
{
	return device_base;
}

/* ---- Module ------------------------------------------------------------- */

/* _set_buffer_type(cls): what allocate makes. */
static ho_PyObject *set_buffer_type(ho_PyObject *m, ho_PyObject *cls)
{
	(void)m;
	if (!ho_py.PyObject_IsInstance(cls, ho_py.PyType_Type) ||
	    !ho_py.PyType_IsSubtype((ho_PyTypeObject *)cls, memory_base)) {
		ho_py.PyErr_SetString(ho_py.PyExc_TypeError, "not a subclass of _Memory");
		return NULL;
	}
	while (spares > 0)
		ho_py.PyObject_GC_Del(spare[--spares]);
	ho_PyTypeObject *old = buffer_type;
	buffer_type = (ho_PyTypeObject *)ho_newref(cls);
	ho_xdecref((ho_PyObject *)old);
	return ho_newref(HO_NONE);
}

static ho_PyMethodDef functions[] = {
	{ "_set_buffer_type", set_buffer_type, HO_METH_O, NULL },
	{ NULL, NULL, 0, NULL },
};

int ho_memory_init(ho_PyObject *module)
{
	memory_base = (ho_PyTypeObject *)ho_py.PyType_FromSpec(&memory_spec);
	device_base = (ho_PyTypeObject *)ho_py.PyType_FromSpec(&device_spec);
	if (memory_base == NULL || device_base == NULL ||
	    ho_py.PyModule_AddObjectRef(module, "_Memory", (ho_PyObject *)memory_base) != 0 ||
	    ho_py.PyModule_AddObjectRef(module, "_DeviceBase", (ho_PyObject *)device_base) != 0)
		return -1;
	buffer_type = (ho_PyTypeObject *)ho_newref((ho_PyObject *)memory_base);
	return ho_py.PyModule_AddFunctions(module, functions);
}
