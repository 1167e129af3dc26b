/* The GPU's driver as the C code of the bridge sees it, and the functions
 * behind handoff.Device and handoff.Buffer, which are written in Python. */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ho_go_gpu_functions ho_go_gpu;

extern char **environ;

static ho_driver *driver; /* NULL until Go has opened it */

ho_driver *ho_gpu_in_use(void)
{
	return atomic_load_explicit(&ho_forked, memory_order_relaxed) ? NULL : driver;
}

void ho_gpu_owner_unref(uintptr_t owner)
{
	ho_owner_unref((ho_owner *)owner);
}

/* ---- Errors ------------------------------------------------------------- */

static int set_attr(ho_PyObject *e, const char *name, ho_PyObject *value)
{
	int r = value != NULL ? ho_py.PyObject_SetAttrString(e, name, value) : -1;

	ho_xdecref(value);
	return r;
}

/* Adds the driver's code and its name to the pending exception. */
static void add_code(int code)
{
	ho_PyObject *type, *value, *trace;
	char *name = NULL;

	ho_py.PyErr_Fetch(&type, &value, &trace);
	ho_py.PyErr_NormalizeException(&type, &value, &trace);
	if (value != NULL) {
		/* Not ho_gpu(): what failed may have been opening it. */
		if (driver != NULL && driver->t.cuGetErrorName != NULL)
			driver->t.cuGetErrorName(code, &name);
		if (set_attr(value, "code", ho_py.PyLong_FromLong(code)) != 0 ||
		    (name != NULL && set_attr(value, "name", ho_py.PyUnicode_FromString(name)) != 0))
			ho_py.PyErr_Clear();
	}
	ho_py.PyErr_Restore(type, value, trace);
}

int ho_gpu_check(const char *op, int dev, ho_result st)
{
	char *name = NULL, *text = NULL, where[32] = "";
	ho_driver *d;

	if (HO_LIKELY(st == HO_CUDA_SUCCESS))
		return 0;
	if (st <= HO_MISSING(cuInit)) {
		ho_raise(HO_X_DRIVER, 0, op, "the driver is too old: it lacks an entry point of this call");
		return -1;
	}
	d = ho_gpu();
	if (d == NULL)
		return -1;
	if (d->t.cuGetErrorName != NULL)
		d->t.cuGetErrorName(st, &name);
	if (d->t.cuGetErrorString != NULL)
		d->t.cuGetErrorString(st, &text);
	if (dev >= 0)
		snprintf(where, sizeof where, " on device %d", dev);
	ho_raise(HO_X_DRIVER, 0, op, "%s%s (%s)", text != NULL ? text : "unknown error", where,
	         name != NULL ? name : "?");
	add_code(st);
	return -1;
}

int ho_gpu_raise(const char *op, ho_gpu_fault *f)
{
	static const int codes[] = {
		[HO_FAULT_NONE] = HO_X_GO,         [HO_FAULT_DRIVER] = HO_X_DRIVER, [HO_FAULT_NO_DRIVER] = HO_X_NODRIVER,
		[HO_FAULT_CLOSED] = HO_X_CLOSED,   [HO_FAULT_VALUE] = HO_X_VALUE,   [HO_FAULT_FORK] = HO_X_FORK,
		[HO_FAULT_EXCHANGE] = HO_X_BUFFER, [HO_FAULT_PANIC] = HO_X_PANIC,   [HO_FAULT_OTHER] = HO_X_GO,
	};

	ho_raise(f->kind == HO_FAULT_EXCHANGE ? f->code : codes[f->kind], f->rule, op, "%s",
	         f->text != NULL ? f->text : "out of memory");
	if (f->kind == HO_FAULT_DRIVER)
		add_code(f->code);
	free(f->text);
	*f = (ho_gpu_fault){ 0 };
	return -1;
}

/* ---- The driver --------------------------------------------------------- */

enum { DEVICES = 64 };
static ho_context primary[DEVICES];

/* The variables HANDOFF_* that the program has now, see gpuabi.h: os.environ changes them, under
 * the GIL. To be freed; NULL for want of memory. */
static char *environment_of_now(void)
{
	static const char prefix[] = "HANDOFF_";
	size_t n = 1, at = 0;

	for (char **e = environ; e != NULL && *e != NULL; e++)
		n += strncmp(*e, prefix, sizeof prefix - 1) == 0 ? strlen(*e) + 1 : 0;
	char *out = malloc(n);
	for (char **e = environ; out != NULL && e != NULL && *e != NULL; e++)
		if (strncmp(*e, prefix, sizeof prefix - 1) == 0) {
			memcpy(out + at, *e, strlen(*e) + 1);
			at += strlen(*e) + 1;
		}
	if (out != NULL)
		out[at] = 0;
	return out;
}

ho_driver *ho_gpu(void)
{
	ho_gpu_fault f = { 0 };
	uintptr_t d = 0;

	if (ho_go_ok() != 0)
		return NULL;
	if (HO_LIKELY(driver != NULL))
		return driver;
	if (ho_go_gpu.open == NULL) {
		ho_raise(HO_X_NODRIVER, 0, "open driver", "this build has no driver");
		return NULL;
	}
	char *environment = environment_of_now();
	if (environment == NULL) {
		ho_py.PyErr_NoMemory();
		return NULL;
	}
	HO_UNLOCKED(d = ho_go_gpu.open(environment, &f));
	free(environment);
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise("open driver", &f);
		return NULL;
	}
	driver = (ho_driver *)d;
	return driver;
}

ho_context ho_gpu_context(int dev)
{
	ho_gpu_fault f = { 0 };
	uint64_t ctx = 0;

	if (HO_LIKELY(dev >= 0 && dev < DEVICES && primary[dev] != 0))
		return primary[dev];
	if (ho_gpu() == NULL)
		return 0;
	HO_UNLOCKED(ctx = ho_go_gpu.context(dev, &f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise("device", &f);
		return 0;
	}
	if (dev >= 0 && dev < DEVICES)
		primary[dev] = (ho_context)ctx;
	return (ho_context)ctx;
}

ho_context ho_gpu_home(int dev)
{
	ho_context now = 0;
	ho_driver *d = ho_gpu();

	if (d == NULL)
		return 0;
	if (dev < 0 && d->t.cuCtxGetCurrent(&now) == HO_CUDA_SUCCESS && now != 0)
		return now;
	return ho_gpu_context(dev < 0 ? 0 : dev);
}

/* ---- Functions for the Python side -------------------------------------- */

/* Fills n C ints from n Python ints. */
static int take_ints(const char *fn, ho_PyObject *const *args, ho_ssize have, ho_ssize n, int64_t *out)
{
	if (have < n) {
		ho_py.PyErr_Format(ho_py.PyExc_TypeError, "%s() takes %zd arguments (%zd given)", fn, n, have);
		return -1;
	}
	for (ho_ssize i = 0; i < n; i++) {
		ho_PyObject *v = ho_py.PyNumber_Index(args[i]);
		if (v == NULL)
			return -1;
		int overflow = 0;
		out[i] = ho_py.PyLong_AsLongLongAndOverflow(v, &overflow);
		ho_py.Py_DecRef(v);
		if (overflow)
			return ho_raise(HO_X_RANGE, 0, fn, "an int does not fit in 64 bits");
		if (out[i] == -1 && ho_py.PyErr_Occurred())
			return -1;
	}
	return 0;
}

/* A number of bytes: an int from 0. */
static int take_size(const char *op, ho_PyObject *o, int64_t *out)
{
	if (HO_TYPE(o) == (ho_PyTypeObject *)ho_py.PyBool_Type)
		return ho_raise(HO_X_TYPE, 0, op, "the size is a bool");
	if (take_ints(op, &o, 1, 1, out) != 0)
		return -1;
	return *out >= 0 ? 0 : ho_raise(HO_X_VALUE, 0, op, "%lld bytes", (long long)*out);
}

/* The ordinal as an int that C and Go take; -1 with an exception set. */
static int ordinal(const char *op, int64_t v)
{
	if (v < 0 || v > INT32_MAX)
		return ho_raise(HO_X_VALUE, 0, op, "a device has an ordinal from 0, not %lld", (long long)v);
	return (int)v;
}

static ho_PyObject *device_count(ho_PyObject *m, ho_PyObject *unused)
{
	ho_gpu_fault f = { 0 };
	int n = 0;
	(void)m;
	(void)unused;

	if (ho_gpu() == NULL)
		return NULL;
	HO_UNLOCKED(n = ho_go_gpu.count(&f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise("count devices", &f);
		return NULL;
	}
	return ho_py.PyLong_FromLong(n);
}

static ho_PyObject *device_text(ho_PyObject *m, ho_PyObject *const *args, ho_ssize n)
{
	int64_t a[2];
	ho_gpu_fault f = { 0 };
	char *text = NULL;
	int dev;
	(void)m;

	if (take_ints("_device_text", args, n, 2, a) != 0 || (dev = ordinal("device", a[0])) < 0 || ho_gpu() == NULL)
		return NULL;
	HO_UNLOCKED(text = ho_go_gpu.text(dev, (int)a[1], &f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise("device", &f);
		return NULL;
	}
	ho_PyObject *s = ho_py.PyUnicode_FromString(text);
	free(text);
	return s;
}

static ho_PyObject *device_memory(ho_PyObject *m, ho_PyObject *const *args, ho_ssize n)
{
	int64_t a[1];
	ho_gpu_fault f = { 0 };
	uint64_t free_bytes = 0, total = 0;
	int dev;
	(void)m;

	if (take_ints("_device_memory", args, n, 1, a) != 0 || (dev = ordinal("device", a[0])) < 0 || ho_gpu() == NULL)
		return NULL;
	HO_UNLOCKED(ho_go_gpu.memory(dev, &free_bytes, &total, &f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise("memory info", &f);
		return NULL;
	}
	return ho_int_tuple(2, (int64_t[]){ (int64_t)free_bytes, (int64_t)total });
}

static ho_PyObject *device_can_access(ho_PyObject *m, ho_PyObject *const *args, ho_ssize n)
{
	int64_t a[2];
	ho_gpu_fault f = { 0 };
	int dev, peer, can = 0;
	(void)m;

	if (take_ints("_device_can_access", args, n, 2, a) != 0 || (dev = ordinal("device", a[0])) < 0 ||
	    (peer = ordinal("device", a[1])) < 0 || ho_gpu() == NULL)
		return NULL;
	HO_UNLOCKED(can = ho_go_gpu.can_access(dev, peer, &f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise("peer access", &f);
		return NULL;
	}
	return ho_py.PyBool_FromLong(can);
}

static ho_PyObject *device_context(ho_PyObject *m, ho_PyObject *const *args, ho_ssize n)
{
	int64_t a[1];
	int dev;
	(void)m;

	if (take_ints("_device_context", args, n, 1, a) != 0 || (dev = ordinal("device", a[0])) < 0)
		return NULL;
	ho_context ctx = ho_gpu_context(dev);
	return ctx != 0 ? ho_py.PyLong_FromUnsignedLongLong(ctx) : NULL;
}

static ho_PyObject *set_current(ho_PyObject *m, ho_PyObject *const *args, ho_ssize n)
{
	int64_t a[1];
	int dev;
	ho_driver *d;
	(void)m;

	if (take_ints("_device_set_current", args, n, 1, a) != 0 || (dev = ordinal("device", a[0])) < 0)
		return NULL;
	ho_context ctx = ho_gpu_context(dev);
	if (ctx == 0 || (d = ho_gpu()) == NULL)
		return NULL;
	if (ho_gpu_check("set current", dev, d->t.cuCtxSetCurrent(ctx)) != 0)
		return NULL;
	return ho_newref(HO_NONE);
}

/* The ordinal of the device whose context is current on this thread; 0 without one. */
static ho_PyObject *current_device(ho_PyObject *m, ho_PyObject *unused)
{
	ho_driver *d = ho_gpu();
	ho_context ctx = 0;
	ho_device dev = 0;
	(void)m;
	(void)unused;

	if (d == NULL)
		return NULL;
	if (d->t.cuCtxGetCurrent(&ctx) == HO_CUDA_SUCCESS && ctx != 0 &&
	    ho_gpu_check("current device", -1, d->t.cuCtxGetDevice(&dev)) != 0)
		return NULL;
	return ho_py.PyLong_FromLong(dev);
}

static ho_PyObject *device_sync(ho_PyObject *m, ho_PyObject *const *args, ho_ssize n)
{
	int64_t a[1];
	ho_gpu_fault f = { 0 };
	int dev;
	(void)m;

	if (take_ints("_device_sync", args, n, 1, a) != 0 || (dev = ordinal("device", a[0])) < 0 || ho_gpu() == NULL)
		return NULL;
	HO_UNLOCKED(ho_go_gpu.sync_device(dev, &f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise("synchronize device", &f);
		return NULL;
	}
	return ho_newref(HO_NONE);
}

/* Waits for what release_on holds back; tests and shutdown. */
static ho_PyObject *flush(ho_PyObject *m, ho_PyObject *unused)
{
	ho_gpu_fault f = { 0 };
	(void)m;
	(void)unused;

	if (ho_go_ok() != 0)
		return NULL;
	if (ho_go_gpu.flush != NULL)
		HO_UNLOCKED(ho_go_gpu.flush(&f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise("flush", &f);
		return NULL;
	}
	return ho_newref(HO_NONE);
}

/* ---- Memory that Go allocates ------------------------------------------- */

/* The owner of one allocation; its number is in ho_owner.u, the Python object
 * of the stream that it is given back on in ho_owner.ptr. */
static void last_buffer(ho_owner *o)
{
	ho_gpu_fault f = { 0 };
	ho_PyObject *keep = o->ptr;

	if (!atomic_load_explicit(&ho_forked, memory_order_relaxed)) {
		/* Whoever drops last may hold the GIL, and the driver may wait. Once
		 * Python ends there is nothing to give up. */
		int alive = ho_python_enter() == 0;
		int locked = alive && ho_py.PyGILState_Check != NULL && ho_py.PyGILState_Check();
		void *saved = locked ? ho_py.PyEval_SaveThread() : NULL;
		ho_go_gpu.close(o->u, &f);
		if (locked)
			ho_py.PyEval_RestoreThread(saved);
		if (alive)
			ho_python_leave();
		free(f.text);
	}
	if (keep != NULL)
		ho_drop_object(o); /* drops keep, and o */
	else
		ho_owner_free(o);
}

static ho_owner *buffer_owner(ho_PyObject *view)
{
	if (HO_TYPE(view) == ho_view_type && ((ho_view *)view)->owner != NULL &&
	    ((ho_view *)view)->owner->last == last_buffer)
		return ((ho_view *)view)->owner;
	ho_raise(HO_X_TYPE, 0, "buffer", "not memory of a Buffer");
	return NULL;
}

/* The view of memory that Go has made; takes the number over, also on an error. */
static ho_PyObject *view_of_made(const ho_gpu_made *made, int64_t size, ho_PyObject *keep)
{
	ho_gpu_fault f = { 0 };
	ho_owner *o = ho_owner_new(last_buffer, keep, made->key);

	if (o == NULL) {
		HO_UNLOCKED(ho_go_gpu.close(made->key, &f));
		free(f.text);
		return ho_py.PyErr_NoMemory();
	}
	if (keep != NULL)
		ho_py.Py_IncRef(keep);
	DLTensor t = {
		(void *)(uintptr_t)made->handle, { (DLDeviceType)made->device_type, made->device_id },
		1, { kDLInt, 8, 1 }, &size, NULL, 0,
	};
	return ho_view_new(o, &t, 0);
}

/* The same of memory whose work is queued on a stream. */
static ho_PyObject *view_on(const ho_gpu_made *made, int64_t size, const ho_stream_ref *s)
{
	ho_PyObject *v = view_of_made(made, size, s->keep);
	if (v != NULL)
		ho_view_pending((ho_view *)v, s->handle, s->ctx, s->keep);
	return v;
}

ho_PyObject *ho_buffer_new(int dev, int kind, uint64_t from, ho_PyObject *size, ho_PyObject *stream)
{
	int64_t bytes;
	ho_gpu_fault f = { 0 };
	ho_gpu_made made = { 0 };
	ho_stream_ref s = { 0 };

	if (take_size("allocate", size, &bytes) != 0 || ho_stream_need(stream, "allocate", &s) != 0 ||
	    ho_stream_place("allocate", dev, &s) != 0)
		return NULL;
	HO_HELD(stream_ref, &s, ho_go_gpu.buffer_new(dev, kind, from, bytes, s.handle, s.ctx, &made, &f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise("allocate", &f);
		return NULL;
	}
	return view_on(&made, bytes, &s);
}

ho_PyObject *ho_buffer_adopt(int dev, int kind, uint64_t from, uint64_t ptr, int64_t size, const ho_stream_ref *on,
                             int *taken)
{
	ho_gpu_fault f = { 0 };
	ho_gpu_made made = { 0 };

	*taken = 0;
	if (ho_go_ok() != 0)
		return NULL;
	HO_HELD(stream_ref, on, ho_go_gpu.buffer_adopt(dev, kind, from, ptr, size, on->handle, on->ctx, &made, &f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise("buffer", &f);
		return NULL;
	}
	*taken = 1;
	return view_on(&made, size, on);
}

/* ---- Sources of memory, and memory of others ---------------------------- */

/* At least skip + ints arguments; the ints behind the first skip go into out. 0 or -1. */
static int resource_args(const char *fn, ho_PyObject *const *args, ho_ssize have, ho_ssize skip, ho_ssize ints, int64_t *out)
{
	if (have < skip + ints) {
		ho_py.PyErr_Format(ho_py.PyExc_TypeError, "%s() takes %zd arguments (%zd given)", fn, skip + ints, have);
		return -1;
	}
	return take_ints(fn, args + skip, ints, ints, out);
}

/* (device, kind, own, size, where, node) -> (number, raw handle). */
static ho_PyObject *source_new(ho_PyObject *m, ho_PyObject *const *args, ho_ssize n)
{
	static const char op[] = "memory resource";
	ho_gpu_fault f = { 0 };
	ho_gpu_made made = { 0 };
	int64_t a[6];
	int dev;
	(void)m;

	if (resource_args("_source_new", args, n, 0, 6, a) != 0 || (dev = ordinal(op, a[0])) < 0 || ho_gpu() == NULL)
		return NULL;
	if (a[3] < 0) {
		ho_raise(HO_X_VALUE, 0, op, "a pool of at most %lld bytes", (long long)a[3]);
		return NULL;
	}
	if (a[5] < 0 || a[5] > INT32_MAX) {
		ho_raise(HO_X_VALUE, 0, op, "the number of a place is from 0, not %lld", (long long)a[5]);
		return NULL;
	}
	HO_UNLOCKED(ho_go_gpu.source_new(dev, (int)a[1], a[2] != 0, (uint64_t)a[3], (int32_t)a[4], (int32_t)a[5], &made, &f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise(op, &f);
		return NULL;
	}
	return ho_int_tuple(2, (int64_t[]){ (int64_t)made.key, (int64_t)made.handle });
}

static ho_PyObject *source_close(ho_PyObject *m, ho_PyObject *key)
{
	ho_gpu_fault f = { 0 };
	uint64_t k = ho_py.PyLong_AsUnsignedLongLong(key);
	(void)m;

	if (ho_py.PyErr_Occurred() || ho_go_ok() != 0)
		return NULL;
	HO_UNLOCKED(ho_go_gpu.close(k, &f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise("memory resource", &f);
		return NULL;
	}
	return ho_newref(HO_NONE);
}

/* (number, the driver's number of an attribute) -> int. */
static ho_PyObject *pool_attribute(ho_PyObject *m, ho_PyObject *const *args, ho_ssize n)
{
	ho_gpu_fault f = { 0 };
	uint64_t v;
	int64_t a[2];
	(void)m;

	if (resource_args("_pool_attribute", args, n, 0, 2, a) != 0 || ho_gpu() == NULL)
		return NULL;
	HO_UNLOCKED(v = ho_go_gpu.pool_attribute((uint64_t)a[0], (int32_t)a[1], &f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise("memory pool", &f);
		return NULL;
	}
	return ho_py.PyLong_FromUnsignedLongLong(v);
}

/* (number, ordinal, can: 1, 0, or -1 to ask only) -> bool. */
static ho_PyObject *pool_peer(ho_PyObject *m, ho_PyObject *const *args, ho_ssize n)
{
	ho_gpu_fault f = { 0 };
	int64_t a[3];
	int dev, has;
	(void)m;

	if (resource_args("_pool_peer", args, n, 0, 3, a) != 0 || (dev = ordinal("memory pool", a[1])) < 0 || ho_gpu() == NULL)
		return NULL;
	HO_UNLOCKED(has = ho_go_gpu.pool_peer((uint64_t)a[0], dev, (int)a[2], &f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise("memory pool", &f);
		return NULL;
	}
	return ho_py.PyBool_FromLong(has);
}

/* (cls, device, kind, source, size, stream) -> a buffer of cls. */
static ho_PyObject *buffer_new(ho_PyObject *m, ho_PyObject *const *args, ho_ssize n)
{
	int64_t a[3];
	int dev;
	(void)m;

	if (resource_args("_buffer_new", args, n - 2, 1, 3, a) != 0 || (dev = ordinal("allocate", a[0])) < 0 || ho_gpu() == NULL)
		return NULL;
	ho_PyObject *view = ho_buffer_new(dev, (int)a[1], (uint64_t)a[2], args[4], args[5]);
	return view != NULL ? ho_memory_new(args[0], view, (int)a[1], dev) : NULL;
}

/* An address: an int, or a handle that int() takes (CUdeviceptr); not what int()
 * makes a number of by rounding or reading, and nothing that has a number besides. */
static int take_address(const char *op, ho_PyObject *o, uint64_t *out)
{
	ho_PyObject *i = NULL;

	if (HO_TYPE(o) == (ho_PyTypeObject *)ho_py.PyLong_Type)
		i = ho_newref(o);
	else if (HO_TYPE(o) == (ho_PyTypeObject *)ho_py.PyBool_Type)
		return ho_raise(HO_X_TYPE, 0, op, "the address is a bool");
	else if (ho_py.PyIndex_Check(o))
		i = ho_py.PyNumber_Index(o);
	else if (!ho_type_has(o, "__int__") || ho_type_has(o, "__float__") ||
	         ho_type_has(o, "__cuda_stream__") ||
	         ho_py.PyType_IsSubtype(HO_TYPE(o), ho_memory_device_type()))
		return ho_raise(HO_X_TYPE, 0, op, "the address is not an int");
	else
		i = ho_py.PyObject_CallFunctionObjArgs(ho_py.PyLong_Type, o, NULL);
	*out = i != NULL ? ho_py.PyLong_AsUnsignedLongLong(i) : 0;
	ho_xdecref(i);
	if (!ho_py.PyErr_Occurred())
		return 0;
	if (i == NULL)
		return -1;
	ho_py.PyErr_Clear();
	return ho_raise(HO_X_RANGE, 0, op, "the address is negative or does not fit in 64 bits");
}

/* Memory of a source that is given back. */
struct returned {
	int64_t place[3]; /* device, kind, source */
	int dev;
	uint64_t ptr;
	int64_t size;
	ho_stream_ref on;
};

/* Reads the arguments device, kind, source, address, size, stream. 0 or -1. */
static int take_returned(const char *fn, const char *op, ho_PyObject *const *args, ho_ssize n, struct returned *r)
{
	return resource_args(fn, args, n - 3, 0, 3, r->place) != 0 || take_address(op, args[3], &r->ptr) != 0 ||
	                       take_size(op, args[4], &r->size) != 0 || (r->dev = ordinal(op, r->place[0])) < 0 ||
	                       ho_gpu() == NULL || ho_stream_need(args[5], op, &r->on) != 0 ||
	                       ho_stream_place(op, r->dev, &r->on) != 0
	               ? -1
	               : 0;
}

/* (device, kind, source, address, size, stream): gives memory back that no buffer has. */
static ho_PyObject *memory_free(ho_PyObject *m, ho_PyObject *const *args, ho_ssize n)
{
	static const char op[] = "deallocate";
	ho_gpu_fault f = { 0 };
	struct returned r;
	(void)m;

	if (take_returned("_memory_free", op, args, n, &r) != 0)
		return NULL;
	if (r.size == 0) /* no memory, as allocate makes it */
		return ho_newref(HO_NONE);
	HO_HELD(stream_ref, &r.on, ho_go_gpu.memory_free(r.dev, (int)r.place[1], (uint64_t)r.place[2], r.ptr, r.size,
	                                                 r.on.handle, r.on.ctx, &f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise(op, &f);
		return NULL;
	}
	return ho_newref(HO_NONE);
}

/* (cls, device, kind, source, address, size, stream) -> a buffer of cls, which gives
 * the memory back. On an error it stays the caller's. */
static ho_PyObject *buffer_adopt(ho_PyObject *m, ho_PyObject *const *args, ho_ssize n)
{
	static const char op[] = "from_handle";
	ho_gpu_fault f = { 0 };
	struct returned r;
	int taken;
	(void)m;

	if (take_returned("_buffer_adopt", op, args + 1, n - 1, &r) != 0)
		return NULL;
	HO_UNLOCKED(ho_go_gpu.memory_check(r.dev, (int)r.place[1], (uint64_t)r.place[2], r.ptr, r.size, &f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise(op, &f);
		return NULL;
	}
	ho_PyObject *view =
	        ho_buffer_adopt(r.dev, (int)r.place[1], (uint64_t)r.place[2], r.ptr, r.size, &r.on, &taken);
	return view != NULL ? ho_memory_new(args[0], view, (int)r.place[1], r.dev) : NULL;
}

/* (cls, address, size, keep) -> a buffer of cls of memory that stays somebody
 * else's; keep is dropped when nothing uses it any more. */
static ho_PyObject *buffer_wrap(ho_PyObject *m, ho_PyObject *const *args, ho_ssize n)
{
	ho_gpu_fault f = { 0 };
	ho_gpu_made made = { 0 };
	int64_t size;
	uint64_t ptr;
	(void)m;

	if (resource_args("_buffer_wrap", args, n, 4, 0, NULL) != 0 || take_address("from_handle", args[1], &ptr) != 0 ||
	    take_size("from_handle", args[2], &size) != 0 || ho_gpu() == NULL)
		return NULL;
	HO_UNLOCKED(ho_go_gpu.buffer_wrap(ptr, size, &made, &f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise("from_handle", &f);
		return NULL;
	}
	int kind = made.device_type == kDLCUDA          ? HO_MEMORY_DEVICE
	           : made.device_type == kDLCUDAHost    ? HO_MEMORY_PINNED
	           : made.device_type == kDLCUDAManaged ? HO_MEMORY_MANAGED
	                                                : HO_MEMORY_HOST;
	ho_PyObject *view = view_of_made(&made, size, args[3]);
	return view != NULL ? ho_memory_new(args[0], view, kind, made.ordinal) : NULL;
}

/* ---- Use of memory ------------------------------------------------------ */

int ho_buffer_use(ho_PyObject *view, ho_PyObject *stream, int set)
{
	ho_gpu_fault f = { 0 };
	ho_stream_ref s = { 0 };
	ho_owner *o;
	ho_PyObject *old = NULL;
	int r = -1;

	/* The stream may be any Python code, which may release the view. */
	if (ho_stream_need(stream, "buffer", &s) != 0 || (o = buffer_owner(view)) == NULL)
		return -1;
	ho_owner_ref(o);
	if (ho_stream_place("buffer", (int)((ho_view *)view)->t.device.device_id, &s) != 0)
		goto done;
	HO_HELD(stream_ref, &s, ho_go_gpu.buffer_used(o->u, set, s.handle, s.ctx, &f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise("buffer", &f);
		goto done;
	}
	if (set && s.keep != NULL) {
		old = o->ptr;
		o->ptr = ho_newref(s.keep);
	}
	r = 0;
done:
	ho_owner_unref(o);
	ho_xdecref(old);
	return r;
}

/* (view, stream, set): ho_buffer_use. */
static ho_PyObject *buffer_used(ho_PyObject *m, ho_PyObject *const *args, ho_ssize n)
{
	(void)m;

	if (n < 3) {
		ho_py.PyErr_SetString(ho_py.PyExc_TypeError, "_buffer_used(view, stream, set)");
		return NULL;
	}
	int set = ho_py.PyObject_IsTrue(args[2]);
	return set >= 0 && ho_buffer_use(args[0], args[1], set) == 0 ? ho_newref(HO_NONE) : NULL;
}

/* (view, width, value, stream). */
static ho_PyObject *buffer_fill(ho_PyObject *m, ho_PyObject *const *args, ho_ssize n)
{
	ho_gpu_fault f = { 0 };
	ho_stream_ref s = { 0 };
	int64_t a[2];
	(void)m;

	if (n < 4) {
		ho_py.PyErr_SetString(ho_py.PyExc_TypeError, "_buffer_fill(view, width, value, stream)");
		return NULL;
	}
	/* The stream may be any Python code, which may release the view. */
	if (take_ints("_buffer_fill", args + 1, n - 1, 2, a) != 0 || ho_stream_need(args[3], "fill", &s) != 0)
		return NULL;
	ho_owner *o = buffer_owner(args[0]);
	if (o == NULL || ho_stream_place("fill", (int)((ho_view *)args[0])->t.device.device_id, &s) != 0)
		return NULL;
	ho_owner_ref(o);
	HO_HELD(stream_ref, &s, ho_go_gpu.buffer_fill(o->u, (int)a[0], (uint32_t)a[1], s.handle, s.ctx, &f));
	ho_owner_unref(o);
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise("fill", &f);
		return NULL;
	}
	ho_view_pending((ho_view *)args[0], s.handle, s.ctx, s.keep);
	return ho_newref(HO_NONE);
}

/* _gate(stream) -> key; _gate_open(key). */
static ho_PyObject *gate(ho_PyObject *m, ho_PyObject *stream)
{
	ho_gpu_fault f = { 0 };
	ho_stream_ref s;
	uint64_t key = 0;
	(void)m;

	if (ho_stream_need(stream, "gate", &s) != 0 || ho_stream_place("gate", -1, &s) != 0)
		return NULL;
	HO_HELD(stream_ref, &s, key = ho_go_gpu.gate(s.handle, s.ctx, &f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise("gate", &f);
		return NULL;
	}
	return ho_py.PyLong_FromUnsignedLongLong(key);
}

static ho_PyObject *gate_open(ho_PyObject *m, ho_PyObject *key)
{
	ho_gpu_fault f = { 0 };
	uint64_t k = ho_py.PyLong_AsUnsignedLongLong(key);
	(void)m;

	if (ho_py.PyErr_Occurred() || ho_gpu() == NULL)
		return NULL;
	HO_UNLOCKED(ho_go_gpu.close(k, &f));
	free(f.text);
	return ho_newref(HO_NONE);
}

/* _inject(faults) -> JSON: see gpuInject. */
static ho_PyObject *inject(ho_PyObject *m, ho_PyObject *faults)
{
	ho_gpu_fault f = { 0 };
	const char *s = ho_py.PyUnicode_AsUTF8AndSize(faults, NULL);
	char *did = NULL;
	(void)m;

	if (s == NULL || ho_gpu() == NULL)
		return NULL;
	HO_UNLOCKED(did = ho_go_gpu.inject(s, &f));
	if (f.kind != HO_FAULT_NONE) {
		ho_gpu_raise("inject", &f);
		return NULL;
	}
	ho_PyObject *r = ho_py.PyUnicode_FromString(did);
	free(did);
	return r;
}

static ho_PyObject *driver_info(ho_PyObject *m, ho_PyObject *unused)
{
	ho_driver *d = ho_gpu();
	(void)m;
	(void)unused;

	return d != NULL ? ho_py.PyLong_FromLong(d->version) : NULL;
}

#define FAST(f) (ho_PyCFunction)(void (*)(void)) f

static ho_PyMethodDef functions[] = {
	{ "_device_count", device_count, HO_METH_NOARGS, NULL },
	{ "_device_text", FAST(device_text), HO_METH_FASTCALL, NULL },
	{ "_device_memory", FAST(device_memory), HO_METH_FASTCALL, NULL },
	{ "_device_can_access", FAST(device_can_access), HO_METH_FASTCALL, NULL },
	{ "_device_context", FAST(device_context), HO_METH_FASTCALL, NULL },
	{ "_device_set_current", FAST(set_current), HO_METH_FASTCALL, NULL },
	{ "_device_current", current_device, HO_METH_NOARGS, NULL },
	{ "_device_sync", FAST(device_sync), HO_METH_FASTCALL, NULL },
	{ "_driver_version", driver_info, HO_METH_NOARGS, NULL },
	{ "_source_new", FAST(source_new), HO_METH_FASTCALL, NULL },
	{ "_source_close", source_close, HO_METH_O, NULL },
	{ "_pool_attribute", FAST(pool_attribute), HO_METH_FASTCALL, NULL },
	{ "_pool_peer", FAST(pool_peer), HO_METH_FASTCALL, NULL },
	{ "_buffer_new", FAST(buffer_new), HO_METH_FASTCALL, NULL },
	{ "_memory_free", FAST(memory_free), HO_METH_FASTCALL, NULL },
	{ "_buffer_adopt", FAST(buffer_adopt), HO_METH_FASTCALL, NULL },
	{ "_buffer_wrap", FAST(buffer_wrap), HO_METH_FASTCALL, NULL },
	{ "_buffer_used", FAST(buffer_used), HO_METH_FASTCALL, NULL },
	{ "_buffer_fill", FAST(buffer_fill), HO_METH_FASTCALL, NULL },
	{ "_gate", gate, HO_METH_O, NULL },
	{ "_gate_open", gate_open, HO_METH_O, NULL },
	{ "_flush", flush, HO_METH_NOARGS, NULL },
	{ "_inject", inject, HO_METH_O, NULL },
	{ NULL, NULL, 0, NULL },
};

int ho_gpu_init(ho_PyObject *module)
{
	if (ho_py.PyModule_AddFunctions(module, functions) != 0)
		return -1;
	if (ho_event_init(module) != 0 || ho_stream_init(module) != 0 || ho_memory_init(module) != 0)
		return -1;
	return ho_gpuview_init();
}
