/* The module handoff._core. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct ho_names ho_names;

/* Names the Go-made shared object of this process, in the module sys. */
static const char marker[] = "_handoff_go_runtime";
static const char core_name[] = "handoff._core";

int ho_names_init(void)
{
	static int done;

	if (done)
		return 0;
#define HO_X(id, text) \
	if (ho_names.id == NULL && (ho_names.id = ho_py.PyUnicode_InternFromString(text)) == NULL) \
		return -1;
	HO_NAMES(HO_X)
#undef HO_X
	ho_PyObject *major = ho_py.PyLong_FromLong(DLPACK_MAJOR_VERSION);
	ho_PyObject *minor = ho_py.PyLong_FromLong(DLPACK_MINOR_VERSION);
	ho_names.empty = ho_py.PyTuple_New(0);
	ho_names.max_version_value = major != NULL && minor != NULL ? ho_py.PyTuple_Pack(2, major, minor) : NULL;
	ho_xdecref(major);
	ho_xdecref(minor);
	if (ho_names.empty == NULL || ho_names.max_version_value == NULL)
		return -1;
	done = 1;
	return 0;
}

/* ---- Functions ---------------------------------------------------------- */

/* None, "cpu", or (type, id). */
static int take_device(ho_PyObject *o, ho_request *req)
{
	req->has_device = 0;
	if (o == NULL || o == HO_NONE)
		return 0;
	req->has_device = 1;
	if (HO_TYPE(o) == (ho_PyTypeObject *)ho_py.PyUnicode_Type) {
		req->device = (DLDevice){ kDLCPU, 0 };
		if (ho_py.PyUnicode_CompareWithASCIIString(o, "cpu") == 0)
			return 0;
		return ho_raise(HO_X_VALUE, 160, "from_dlpack", "device is \"cpu\" or a tuple (device type, device id)");
	}
	if (!ho_py.PyType_IsSubtype(HO_TYPE(o), (ho_PyTypeObject *)ho_py.PyTuple_Type) || ho_py.PyTuple_Size(o) != 2)
		return ho_raise(HO_X_TYPE, 160, "from_dlpack", "device is \"cpu\" or a tuple (device type, device id)");
	long long v[2];
	for (int i = 0; i < 2; i++) {
		ho_PyObject *n = ho_py.PyNumber_Index(ho_py.PyTuple_GetItem(o, i));
		if (n == NULL)
			return -1;
		v[i] = ho_py.PyLong_AsLongLong(n);
		ho_py.Py_DecRef(n);
		if (v[i] == -1 && ho_py.PyErr_Occurred())
			return -1;
		if (v[i] < 0 || v[i] > INT32_MAX)
			return ho_raise(HO_X_VALUE, 160, "from_dlpack", "device is out of range");
	}
	req->device = (DLDevice){ (DLDeviceType)v[0], (int32_t)v[1] };
	return 0;
}

/* Replaces the view by one of a fresh copy, when the producer made none
 * (R125, R162). */
static ho_view *copied(ho_view *v)
{
	DLTensor t;
	int64_t strides[HO_MAX_DIMS];
	ho_view *r = NULL;

	if (!ho_device_is_host((int32_t)v->t.device.device_type)) {
		ho_raise(HO_X_COPY, 162, "from_dlpack", "the producer makes no copy of its device memory");
	} else if (ho_whole_bytes(v, "from_dlpack") == 0) {
		ho_owner *o = ho_copy_tensor(&v->t, v->flags, v->itemsize, &t, strides);
		if (o != NULL)
			r = (ho_view *)ho_view_new(o, &t, v->flags & ~(uint64_t)DLPACK_FLAG_BITMASK_READ_ONLY);
	}
	ho_py.Py_DecRef(&v->ob);
	return r;
}

static ho_PyObject *from_dlpack(ho_PyObject *module, ho_PyObject *const *args, ho_ssize n, ho_PyObject *kwnames)
{
	static const ho_param params[] = { { NULL }, { &ho_names.device }, { &ho_names.copy } };
	ho_PyObject *a[3];
	ho_request req = { .copy = -1 };
	ho_arg arg;
	(void)module;

	if (ho_parse("from_dlpack", args, n, kwnames, params, 3, 1, 1, a) != 0 || take_device(a[1], &req) != 0 ||
	    ho_parse_copy(a[2], &req.copy) != 0 || ho_consume_dlpack(a[0], HO_WANT_OWNED, &req, &arg) != 0)
		return NULL;
	int was_copied = (arg.flags & HO_ARG_COPIED) != 0;
	if (req.has_device && (arg.device.device_type != req.device.device_type ||
	                       arg.device.device_id != req.device.device_id)) {
		DLDevice d = arg.device;
		ho_arg_done(&arg);
		ho_raise(HO_E_DEVICE, 160, "from_dlpack", "memory on device (%d, %d) was not delivered to (%d, %d)",
		         (int)d.device_type, (int)d.device_id, (int)req.device.device_type, (int)req.device.device_id);
		return NULL;
	}
	ho_PyObject *descr = ho_ndarray_descr(a[0]);
	/* A copy has nothing to do with the object any more. */
	ho_view *v = ho_view_from_arg(ho_view_type, &arg, was_copied ? NULL : a[0]);
	if (v != NULL && descr != NULL)
		v->dtype = ho_newref(descr);
	if (v != NULL && req.copy == 1 && !was_copied)
		v = copied(v);
	return (ho_PyObject *)v;
}

static int put(ho_PyObject *dict, const char *key, long long value)
{
	ho_PyObject *v = ho_py.PyLong_FromLongLong(value);
	int r = v != NULL ? ho_py.PyDict_SetItemString(dict, key, v) : -1;

	ho_xdecref(v);
	return r;
}

static ho_PyObject *stats(ho_PyObject *module, ho_PyObject *unused)
{
	ho_PyObject *d = ho_py.PyDict_New();
	(void)module;
	(void)unused;

	if (d != NULL && (put(d, "live_exports", ho_live_exports()) != 0 ||
	                  put(d, "pending_releases", ho_release_pending()) != 0 ||
	                  put(d, "cached_types", ho_type_cache_size()) != 0 ||
	                  put(d, "numpy_direct", ho_numpy_direct) != 0 ||
	                  put(d, "cupy_direct", ho_cupy_direct()) != 0)) {
		ho_py.Py_DecRef(d);
		return NULL;
	}
	return d;
}

/* What ho_consume makes of an object: (data, shape, strides, dtype, device,
 * flags, held). For tests and for the curious. */
static ho_PyObject *inspect(ho_PyObject *module, ho_PyObject *const *args, ho_ssize n)
{
	ho_arg arg;
	int want = 0;
	(void)module;

	if (n < 1 || n > 2) {
		ho_py.PyErr_SetString(ho_py.PyExc_TypeError, "_inspect(obj, want=0)");
		return NULL;
	}
	if (n == 2) {
		want = (int)ho_py.PyLong_AsLong(args[1]);
		if (want == -1 && ho_py.PyErr_Occurred())
			return NULL;
	}
	if (ho_consume(args[0], (unsigned)want, &arg) != 0)
		return NULL;
	int64_t dtype[3] = { arg.dtype.code, arg.dtype.bits, arg.dtype.lanes };
	int64_t device[2] = { (int64_t)arg.device.device_type, arg.device.device_id };
	ho_PyObject *parts[] = {
		ho_py.PyLong_FromUnsignedLongLong(arg.data), ho_int_tuple(arg.ndim, arg.shape),
		ho_int_tuple(arg.ndim, arg.strides),         ho_int_tuple(3, dtype),
		ho_int_tuple(2, device),                     ho_py.PyLong_FromLong((long)arg.flags),
		ho_py.PyLong_FromLong((long)arg.held),
	};
	ho_arg_done(&arg);
	ho_PyObject *t = ho_py.PyTuple_Pack(7, parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], parts[6]);
	for (int i = 0; i < 7; i++)
		ho_xdecref(parts[i]);
	return t;
}

static ho_PyObject *selftest(ho_PyObject *module, ho_PyObject *name)
{
	const char *s = ho_py.PyUnicode_AsUTF8AndSize(name, NULL);
	(void)module;

	if (s == NULL || ho_go_ok() != 0)
		return NULL;
	if (ho_go.selftest == NULL)
		return ho_newref(HO_FALSE); /* built without Go */
	void *saved = ho_py.PyEval_SaveThread();
	char *failed = ho_go.selftest(s);
	ho_py.PyEval_RestoreThread(saved);
	if (failed == NULL)
		return ho_newref(HO_TRUE);
	ho_raise(HO_X_PANIC, 0, "self-test", "%s", failed);
	free(failed);
	return NULL;
}

static ho_PyObject *forget_types(ho_PyObject *module, ho_PyObject *unused)
{
	(void)module;
	(void)unused;
	ho_type_cache_clear();
	return ho_newref(HO_NONE);
}

static ho_PyObject *at_exit(ho_PyObject *module, ho_PyObject *unused)
{
	(void)module;
	(void)unused;
	ho_release_shutdown();
	return ho_newref(HO_NONE);
}

#define FAST(f) (ho_PyCFunction)(void (*)(void)) f

static ho_PyMethodDef functions[] = {
	{ "from_dlpack", FAST(from_dlpack), HO_METH_FASTCALL | HO_METH_KEYWORDS,
	  "from_dlpack($module, x, /, *, device=None, copy=None)\n--\n\n"
	  "StridedMemoryView of x, an object that speaks DLPack.\n\n"
	  "device is \"cpu\" or a tuple (device type, device id): where the data has to be; BufferError\n"
	  "if the producer cannot deliver it there. copy=True always copies, copy=False never does\n"
	  "(BufferError, which is a ValueError too, if it would be needed)." },
	{ "_stats", stats, HO_METH_NOARGS, "_stats($module, /)\n--\n\nCounters, for tests." },
	{ "_inspect", FAST(inspect), HO_METH_FASTCALL,
	  "_inspect($module, obj, want=0, /)\n--\n\nWhat a Go function would be given for obj, for tests." },
	{ "_selftest", selftest, HO_METH_O, "_selftest($module, name, /)\n--\n\nRuns a self-test in Go; GoPanic if it panics." },
	{ "_forget_types", forget_types, HO_METH_NOARGS, "_forget_types($module, /)\n--\n\nEmpties the type cache." },
	{ NULL, NULL, 0, NULL },
};

static ho_PyMethodDef exit_def = { "_shutdown", at_exit, HO_METH_NOARGS, NULL };

/* Size 0, not -1: then the import in another interpreter calls PyInit again,
 * which refuses it, instead of copying the module's dict (B386). */
static ho_PyModuleDef def = {
	HO_MODULE_HEAD, core_name,
	"The compiled part of handoff. Import the package instead.", 0, functions, NULL, NULL, NULL, NULL,
};

/* ---- The module --------------------------------------------------------- */

static int register_exit(void)
{
	ho_PyObject *atexit = ho_py.PyImport_ImportModule("atexit");
	ho_PyObject *name = ho_py.PyUnicode_FromString("register");
	ho_PyObject *fn = ho_py.PyCFunction_NewEx(&exit_def, NULL, NULL), *r = NULL;

	if (atexit != NULL && name != NULL && fn != NULL)
		r = ho_py.PyObject_CallMethodObjArgs(atexit, name, fn, NULL);
	ho_xdecref(r);
	ho_xdecref(fn);
	ho_xdecref(name);
	ho_xdecref(atexit);
	return r != NULL ? 0 : -1;
}

/* One Go runtime per process (B361): the first object leaves its path in sys. */
static int claim_process(const char *path)
{
	ho_PyObject *first = ho_py.PySys_GetObject(marker);
	Dl_info info;

	if (path == NULL && dladdr((void *)&ho_names, &info) != 0)
		path = info.dli_fname;
	if (path == NULL)
		path = "a Go-made shared object";
	if (first != NULL) {
		const char *s = ho_py.PyUnicode_AsUTF8AndSize(first, NULL);
		if (s == NULL)
			return -1;
		if (strcmp(s, path) == 0)
			return 0;
		ho_py.PyErr_Format(ho_py.PyExc_ImportError,
		                   "handoff: %s cannot be used: %s already runs Go in this process, and there is one Go "
		                   "runtime per process (B361). Build both into one extension, or import the extension "
		                   "before handoff: it serves handoff._core too",
		                   path, s);
		return -1;
	}
	ho_PyObject *text = ho_py.PyUnicode_FromString(path);
	int r = text != NULL ? ho_py.PySys_SetObject(marker, text) : -1;
	ho_xdecref(text);
	return r;
}

ho_PyObject *ho_core_module(const char *self_path)
{
	static ho_PyObject *module;

	if (module != NULL)
		return ho_newref(module);
	if (claim_process(self_path) != 0 || ho_names_init() != 0)
		return NULL;
	ho_PyObject *m = ho_py.PyModule_Create2(&def, 3); /* PYTHON_ABI_VERSION */
	if (m == NULL)
		return NULL;
	if (ho_errors_init(m) != 0 || ho_smv_init(m) != 0 || ho_array_init(m) != 0 || ho_gpu_init(m) != 0 ||
	    ho_py.PyModule_AddIntConstant(m, "DLPACK_MAJOR", DLPACK_MAJOR_VERSION) != 0 ||
	    ho_py.PyModule_AddIntConstant(m, "DLPACK_MINOR", DLPACK_MINOR_VERSION) != 0 || register_exit() != 0 ||
	    ho_py.PyDict_SetItemString(ho_py.PyImport_GetModuleDict(), core_name, m) != 0) {
		ho_py.Py_DecRef(m);
		return NULL;
	}
	module = m;
	return ho_newref(m);
}
