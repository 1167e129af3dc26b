#include "python.h"

#include <string.h>
#include <unistd.h>

#include "tensor.h"

/* Not in the bridge's table: this program starts the interpreter. */
extern void Py_InitializeEx(int);
extern int PyRun_SimpleString(const char *);
extern ho_PyObject *PyImport_AddModule(const char *);
extern ho_PyObject *PyRun_String(const char *, int, ho_PyObject *, ho_PyObject *);
extern ho_PyObject *PyErr_GetRaisedException(void) __attribute__((weak));
enum { PY_EVAL_INPUT = 258 };

static ho_PyObject *names; /* __main__.__dict__ */
static ho_PyObject *core;

static const char code[] =
	"import gc\n"
	"class Plain: pass\n"
	"class Index:\n"
	"    def __init__(self, v): self.v = v\n"
	"    def __index__(self): return self.v\n"
	"    def __bool__(self): raise KeyError('truth')\n"
	"class Raises:\n"
	"    def __index__(self): raise ZeroDivisionError('index')\n"
	"    def __getattr__(self, name): raise ZeroDivisionError(name)\n"
	"class Dlpack:\n"
	"    kinds = ()\n"
	"    def __dlpack__(self, **kw):\n"
	"        if self.refuse & 1 and 'max_version' in kw: raise TypeError('max_version')\n"
	"        if self.refuse & 2 and 'copy' in kw: raise TypeError('copy')\n"
	"        if self.refuse & 4 and 'dl_device' in kw: raise TypeError('dl_device')\n"
	"        if self.refuse & 8: raise BufferError('no')\n"
	"        return self.capsule\n"
	"    def __dlpack_device__(self): return self.device\n"
	"class Table:\n"
	"    pass\n"
	"class Interface:\n"
	"    pass\n"
	"class Both(bytearray):\n"
	"    pass\n"
	"class Stream:\n"
	"    def __cuda_stream__(self):\n"
	"        if isinstance(self.pair, Exception): raise self.pair\n"
	"        return self.pair\n"
	"class OlderStream:\n"
	"    pass\n"
	"class Lies(dict):\n"
	"    def __getitem__(self, k): raise KeyError(k)\n"
	"    def get(self, k, d=None): raise KeyError(k)\n"
	"class Eats(str):\n"
	"    # A key of the same hash as another; comparing it empties a dict.\n"
	"    target = None\n"
	"    def __hash__(self): return str.__hash__(self)\n"
	"    def __eq__(self, other):\n"
	"        if Eats.target is not None:\n"
	"            t, Eats.target = Eats.target, None\n"
	"            t.clear()\n"
	"        return False\n"
	"class Clears:\n"
	"    # An int whose reading empties the dict that it is in.\n"
	"    def __init__(self, d, v): self.d, self.v = d, v\n"
	"    def __index__(self):\n"
	"        self.d.clear()\n"
	"        return self.v\n"
	"    def __bool__(self):\n"
	"        self.d.clear()\n"
	"        return True\n";

/* ---- A driver ----------------------------------------------------------- */

/* Two devices; memory and streams are told by their numbers alone. */
static ho_result pointer_attributes(uint32_t n, int *attrs, void **data, ho_devptr p)
{
	for (uint32_t i = 0; i < n; i++)
		if (attrs[i] == HO_CU_POINTER_ATTRIBUTE_IS_MANAGED)
			*(unsigned char *)data[i] = p % 5 == 0;
		else
			*(int *)data[i] = attrs[i] == HO_CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? (int)(p % 2) : (int)(p / 16 % 4);
	return p % 7 == 3 ? HO_CUDA_ERROR_INVALID_VALUE : p % 11 == 3 ? 700 : HO_CUDA_SUCCESS;
}

static ho_context current;

static ho_result ctx_get(ho_context *c)
{
	*c = current;
	return HO_CUDA_SUCCESS;
}

static ho_result ctx_push(ho_context c)
{
	current = c;
	return HO_CUDA_SUCCESS;
}

static ho_result ctx_pop(ho_context *c)
{
	*c = current;
	current = 0;
	return HO_CUDA_SUCCESS;
}

static ho_result ctx_device(ho_device *d)
{
	*d = (int)(current % 2);
	return HO_CUDA_SUCCESS;
}

static ho_result stream_ctx(ho_stream s, ho_context *c)
{
	*c = s > 2 ? 0x10000 + s % 2 : current;
	return s % 13 == 7 ? 400 : HO_CUDA_SUCCESS;
}

static long events;

static ho_result event_create(ho_event *e, uint32_t flags)
{
	(void)flags;
	*e = (ho_event)++events;
	return HO_CUDA_SUCCESS;
}

static ho_result event_record(ho_event e, ho_stream s)
{
	(void)e;
	return s % 13 == 8 ? 400 : HO_CUDA_SUCCESS;
}

static ho_result event_destroy(ho_event e)
{
	(void)e;
	return HO_CUDA_SUCCESS;
}

static ho_result stream_wait(ho_stream s, ho_event e, uint32_t flags)
{
	(void)e;
	(void)flags;
	return s % 13 == 9 ? 400 : HO_CUDA_SUCCESS;
}

static ho_result stream_query(ho_stream s)
{
	return s % 3 == 0 ? HO_CUDA_ERROR_NOT_READY : HO_CUDA_SUCCESS;
}

static ho_result stream_sync(ho_stream s)
{
	return s % 13 == 10 ? 700 : HO_CUDA_SUCCESS;
}

static ho_result init(uint32_t flags)
{
	(void)flags;
	return HO_CUDA_SUCCESS;
}

static ho_driver fake;

static uintptr_t open_driver(const char *environment, ho_gpu_fault *f)
{
	(void)f;
	fake.t.cuInit = init;
	fake.t.cuPointerGetAttributes = pointer_attributes;
	fake.t.cuCtxGetCurrent = ctx_get;
	fake.t.cuCtxPushCurrent = ctx_push;
	fake.t.cuCtxSetCurrent = ctx_push;
	fake.t.cuCtxPopCurrent = ctx_pop;
	fake.t.cuCtxGetDevice = ctx_device;
	fake.t.cuStreamGetCtx = stream_ctx;
	fake.t.cuEventCreate = event_create;
	fake.t.cuEventRecord = event_record;
	fake.t.cuEventDestroy = event_destroy;
	fake.t.cuStreamWaitEvent = stream_wait;
	fake.t.cuStreamQuery = stream_query;
	fake.t.cuStreamSynchronize = stream_sync;
	return (uintptr_t)&fake;
}

static uint64_t context_of(int dev, ho_gpu_fault *f)
{
	if (dev < 2)
		return 0x10000 + (uint64_t)dev;
	f->kind = HO_FAULT_VALUE;
	return 0;
}

/* The references are Go's from the call on, also on a fault. Nothing moves. */
static void copy_gpu(const ho_gpu_copy *c, ho_gpu_fault *f)
{
	ho_gpu_owner_unref(c->dst_owner);
	ho_gpu_owner_unref(c->src_owner);
	if (c->stream % 5 != 4)
		return;
	f->kind = HO_FAULT_DRIVER;
	f->code = 700;
	f->text = strdup("this driver copies nothing");
}

static void release_later(uintptr_t owner, uint64_t stream, uint64_t ctx, ho_gpu_fault *f)
{
	(void)ctx;
	if (stream % 5 != 4) {
		ho_gpu_owner_unref(owner);
		return;
	}
	f->kind = HO_FAULT_DRIVER;
	f->code = 400;
	f->text = strdup("no such stream");
}

static long buffers; /* that are open */

/* Memory that nothing can read. */
static void buffer_new(int dev, int kind, uint64_t from, int64_t size, uint64_t stream, uint64_t ctx, ho_gpu_made *made, ho_gpu_fault *f)
{
	(void)from;
	(void)stream;
	if (size > 1 << 20 || dev > 1) {
		f->kind = HO_FAULT_DRIVER;
		f->code = 2;
		f->text = strdup("out of memory");
		return;
	}
	buffers++;
	made->key = 1;
	made->handle = 0x700000;
	made->ctx = ctx;
	made->device_type = kind == HO_MEMORY_DEVICE ? kDLCUDA : kind == HO_MEMORY_PINNED ? kDLCUDAHost : kDLCUDAManaged;
	made->device_id = kind == HO_MEMORY_DEVICE ? dev : 0;
}

static void close_key(uint64_t key, ho_gpu_fault *f)
{
	(void)f;
	REQUIRE(key == 1 && buffers > 0);
	buffers--;
}

/* ---- Start -------------------------------------------------------------- */

void python_start(void)
{
	if (core != NULL)
		return;
	/* Every object is its own block for the sanitizer. */
	setenv("PYTHONMALLOC", "malloc", 1);
	setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
	setenv("PYTHONNOUSERSITE", "1", 1);
	Py_InitializeEx(0);
	REQUIRE(ho_py_load() == 0);
	ho_go_gpu.open = open_driver;
	ho_go_gpu.context = context_of;
	ho_go_gpu.copy = copy_gpu;
	ho_go_gpu.release_later = release_later;
	ho_go_gpu.buffer_new = buffer_new;
	ho_go_gpu.close = close_key;
	core = ho_core_module("fuzz");
	REQUIRE(core != NULL);
	REQUIRE(PyRun_SimpleString(code) == 0);
	names = ho_py.PyModule_GetDict(PyImport_AddModule("__main__"));
	REQUIRE(names != NULL);
	/* Warnings would fill the log. */
	REQUIRE(PyRun_SimpleString("import warnings; warnings.simplefilter('ignore'); gc.disable()") == 0);
	ho_xdecref(ho_py.PyImport_ImportModule("numpy")); /* where it is there */
	ho_py.PyErr_Clear();
}

ho_PyObject *python_name(const char *name)
{
	ho_PyObject *o = ho_py.PyDict_GetItemString(names, name);

	REQUIRE(o != NULL);
	return o;
}

ho_PyObject *python_eval(const char *text)
{
	ho_PyObject *o = PyRun_String(text, PY_EVAL_INPUT, names, names);

	REQUIRE(o != NULL);
	return o;
}

/* ---- Objects ------------------------------------------------------------ */

void python_set(ho_PyObject *o, const char *name, ho_PyObject *value)
{
	REQUIRE(value != NULL);
	REQUIRE(ho_py.PyObject_SetAttrString(o, name, value) == 0);
	ho_py.Py_DecRef(value);
}

ho_PyObject *python_text(input *in, const char *const *list, unsigned n)
{
	char buf[64];
	unsigned c = in_byte(in);

	if (n != 0 && c < 200)
		return ho_py.PyUnicode_FromString(list[c % n]);
	size_t len = in_text(in, buf, sizeof buf);
	/* Not every text has UTF-8: a lone surrogate has none. */
	if (c == 255)
		return python_eval("'<\\ud800'");
	return ho_py.PyUnicode_DecodeUTF8(buf, (ho_ssize)len, "replace");
}

ho_PyObject *python_numbers(input *in, unsigned n)
{
	ho_PyObject *t = ho_py.PyTuple_New((ho_ssize)n);

	REQUIRE(t != NULL);
	for (unsigned i = 0; i < n; i++)
		ho_py.PyTuple_SetItem(t, (ho_ssize)i, ho_py.PyLong_FromLongLong(in_number(in)));
	return t;
}

static ho_PyObject *call(ho_PyObject *f, ho_PyObject *arg)
{
	ho_PyObject *r = ho_py.PyObject_CallFunctionObjArgs(f, arg, NULL);

	REQUIRE(r != NULL);
	ho_xdecref(arg);
	return r;
}

ho_PyObject *python_any(input *in, int depth)
{
	unsigned n;
	ho_PyObject *o, *v;

	switch (in_below(in, 20)) {
	case 0:
		return ho_newref(HO_NONE);
	case 1:
		return ho_newref(HO_TRUE);
	case 2:
		return ho_newref(HO_FALSE);
	case 3:
		return python_text(in, NULL, 0);
	case 4:
		return ho_py.PyFloat_FromDouble((double)in_number(in));
	case 5:
		return python_eval("1 << 70");
	case 6:
		return python_eval("-(1 << 70)");
	case 7:
		return call(python_name("Index"), ho_py.PyLong_FromLongLong(in_number(in)));
	case 8:
		return python_eval("Raises()");
	case 9:
		return python_eval("bytearray(64)");
	case 10:
		return python_eval("{}");
	case 11:
		n = depth > 0 ? in_below(in, 4) : 0;
		o = ho_py.PyList_New(0);
		for (unsigned i = 0; i < n; i++) {
			v = python_any(in, depth - 1);
			ho_py.PyList_Append(o, v);
			ho_py.Py_DecRef(v);
		}
		return o;
	case 12:
	case 13:
		n = depth > 0 ? in_below(in, 4) : 0;
		o = ho_py.PyTuple_New((ho_ssize)n);
		for (unsigned i = 0; i < n; i++)
			ho_py.PyTuple_SetItem(o, (ho_ssize)i, python_any(in, depth - 1));
		return o;
	case 14:
		return python_numbers(in, in_below(in, 70));
	case 15:
		return python_eval("__import__('ctypes').c_void_p(0)");
	case 16:
		return ho_py.PyLong_FromUnsignedLongLong(in_word(in));
	}
	return ho_py.PyLong_FromLongLong(in_number(in));
}

/* ---- Results ------------------------------------------------------------ */

/* Clears the exception of a failed call, after a look at it. */
static void refused(void)
{
	REQUIRE(ho_py.PyErr_Occurred() != NULL);
	/* SystemError is the interpreter's word for a broken extension. */
	REQUIRE(!ho_py.PyErr_ExceptionMatches(ho_py.PyExc_SystemError));
	ho_PyObject *type, *value, *trace;
	ho_py.PyErr_Fetch(&type, &value, &trace);
	ho_py.PyErr_NormalizeException(&type, &value, &trace);
	ho_PyObject *text = ho_py.PyObject_Str(value);
	REQUIRE(text != NULL);
	ho_py.Py_DecRef(text);
	ho_xdecref(type);
	ho_xdecref(value);
	ho_xdecref(trace);
}

ho_PyObject *python_result(ho_PyObject *result)
{
	if (result == NULL)
		refused();
	else
		REQUIRE(ho_py.PyErr_Occurred() == NULL);
	return result;
}

int python_status(int status)
{
	if (status != 0)
		refused();
	else
		REQUIRE(ho_py.PyErr_Occurred() == NULL);
	return status;
}

/* ---- Consumers ---------------------------------------------------------- */

/* What ho_consume promises of its result. */
static void promise(const ho_arg *a, unsigned want)
{
	DLTensor t = { (void *)(uintptr_t)a->data, a->device, a->ndim, a->dtype, a->shape, a->strides, 0 };

	REQUIRE(a->ndim >= 0 && a->ndim <= HO_MAX_DIMS);
	if (a->dtype.bits != 0)
		REQUIRE(ho_check_tensor(&t, a->flags & HO_ARG_PADDED ? 4 : 0, NULL) == 0);
	REQUIRE(!(want & HO_WANT_WRITABLE) || !(a->flags & HO_ARG_READONLY));
	REQUIRE(!(want & HO_WANT_OWNED) || (a->held != HO_HELD_LENT));
}

/* Calls o.name(*args, **kwargs) and drops everything. */
static void method(ho_PyObject *o, const char *name, ho_PyObject *args, ho_PyObject *kwargs)
{
	ho_PyObject *f = python_result(ho_py.PyObject_GetAttrString(o, name));

	if (f != NULL) {
		ho_xdecref(python_result(ho_py.PyObject_Call(f, args != NULL ? args : ho_names.empty, kwargs)));
		ho_py.Py_DecRef(f);
	}
	ho_xdecref(args);
	ho_xdecref(kwargs);
}

static void put(ho_PyObject *dict, const char *name, ho_PyObject *value)
{
	REQUIRE(value != NULL && ho_py.PyDict_SetItemString(dict, name, value) == 0);
	ho_py.Py_DecRef(value);
}

/* Reads and copies of views on the arena. */
static void touch(ho_view *v)
{
	if (!ho_device_is_host((int32_t)v->t.device.device_type) || !tensor_in_arena(&v->t, v->itemsize) ||
	    ho_count(v->t.ndim, v->t.shape) > 1 << 12)
		return;
	ho_PyObject *kwargs = ho_py.PyDict_New();
	put(kwargs, "copy", ho_newref(HO_TRUE));
	put(kwargs, "max_version", ho_newref(ho_names.max_version_value));
	method(&v->ob, "__dlpack__", NULL, kwargs);
	method(&v->ob, "copy_from", ho_py.PyTuple_Pack(1, &v->ob), NULL);
	ho_PyObject *m = python_result(ho_py.PyMemoryView_FromObject(&v->ob));
	if (m != NULL) {
		/* Some formats memoryview cannot read itself: NotImplementedError. */
		if (ho_count(v->t.ndim, v->t.shape) > 0) /* an empty shape can have many empty rows */
			method(m, "tolist", NULL, NULL);
		method(m, "tobytes", NULL, NULL);
		ho_py.Py_DecRef(m);
	}
}

static void use(input *in, ho_PyObject *o)
{
	static const char *const attributes[] = {
		"ptr", "shape", "strides", "size", "ndim", "itemsize", "nbytes", "dlpack_dtype", "device_id",
		"is_device_accessible", "is_host_accessible", "producer_stream", "stream", "__cuda_array_interface__",
		"readonly", "exporting_obj", "__array_interface__", "dtype",
	};

	if (!ho_is_view(o))
		return;
	ho_view *v = (ho_view *)o;
	for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
		ho_xdecref(python_result(ho_py.PyObject_GetAttrString(o, attributes[i])));
	ho_xdecref(python_result(ho_py.PyObject_Repr(o)));
	method(o, "__dlpack_device__", NULL, NULL);
	touch(v);
	for (unsigned n = in_below(in, 4); n > 0; n--) {
		ho_PyObject *kwargs = ho_py.PyDict_New(), *shape, *strides;
		switch (in_below(in, 4)) {
		case 0: /* export, as any consumer asks */
			if (in_below(in, 2) != 0)
				put(kwargs, "stream", python_any(in, 1));
			if (in_below(in, 2) != 0)
				put(kwargs, "max_version", in_below(in, 4) != 0 ? python_numbers(in, 2) : python_any(in, 1));
			if (in_below(in, 2) != 0)
				put(kwargs, "dl_device", in_below(in, 4) != 0 ? python_numbers(in, 2) : python_any(in, 1));
			/* copy=True reads: only touch knows whether that is possible. */
			if (in_below(in, 4) == 0)
				put(kwargs, "copy", ho_newref(HO_FALSE));
			method(o, "__dlpack__", NULL, kwargs);
			break;
		case 1: { /* another layout and type, within */
			unsigned dims = in_below(in, 4);
			shape = python_numbers(in, dims);
			strides = in_below(in, 3) == 0 ? ho_newref(HO_NONE) : python_numbers(in, dims);
			if (in_below(in, 4) != 0)
				put(kwargs, "layout", ho_py.PyTuple_Pack(2, shape, strides));
			if (in_below(in, 3) == 0) {
				static const char *const types[] = { "int8", "float32", "|V3", "<i8", "float4_e2m1fn", "uint16" };
				put(kwargs, "dtype", python_text(in, types, 6));
			}
			ho_py.Py_DecRef(shape);
			ho_py.Py_DecRef(strides);
			ho_PyObject *f = ho_py.PyObject_GetAttrString(o, "view");
			ho_PyObject *s = python_result(ho_py.PyObject_Call(f, ho_names.empty, kwargs));
			ho_py.Py_DecRef(f);
			ho_py.Py_DecRef(kwargs);
			if (s != NULL) {
				touch((ho_view *)s);
				ho_py.Py_DecRef(s);
			}
			break;
		}
		case 2: /* a buffer of any flags */
			ho_py.Py_DecRef(kwargs);
			ho_Py_buffer b = { 0 };
			if (python_status(ho_py.PyObject_GetBuffer(o, &b, (int)in_number(in) & 0x1ff)) == 0)
				ho_py.PyBuffer_Release(&b);
			break;
		default: { /* bytes of it, by another layout */
			unsigned dims = in_below(in, 3);
			put(kwargs, "shape", python_numbers(in, dims));
			if (in_below(in, 2) != 0)
				put(kwargs, "strides", python_numbers(in, dims));
			if (in_below(in, 4) != 0)
				put(kwargs, "itemsize", ho_py.PyLong_FromLongLong(in_number(in)));
			else
				put(kwargs, "dtype", ho_py.PyUnicode_FromString("int16"));
			ho_PyObject *f = ho_py.PyObject_GetAttrString((ho_PyObject *)ho_view_type, "from_buffer");
			ho_PyObject *args = ho_py.PyTuple_Pack(1, o);
			ho_PyObject *s = python_result(ho_py.PyObject_Call(f, args, kwargs));
			ho_py.Py_DecRef(f);
			ho_py.Py_DecRef(args);
			ho_py.Py_DecRef(kwargs);
			if (s != NULL) {
				/* Within what o has: the bytes of its elements, no more. */
				ho_view *w = (ho_view *)s;
				int64_t lo, hi, have, bits = (int64_t)v->t.dtype.bits * v->t.dtype.lanes;
				ho_span(w->t.ndim, w->t.shape, w->t.strides, w->itemsize, &lo, &hi);
				have = ho_count(v->t.ndim, v->t.shape);
				int packed = bits % 8 != 0 && !(v->flags & 4);
				__int128 bytes = packed ? ((__int128)have * bits + 7) / 8 : (__int128)have * v->itemsize;
				REQUIRE(lo >= 0 && hi <= bytes);
				ho_py.Py_DecRef(s);
			}
		}
		}
	}
}

static ho_PyObject *class_method(const char *name, ho_PyObject *arg, ho_PyObject *kwargs)
{
	ho_PyObject *f = ho_py.PyObject_GetAttrString((ho_PyObject *)ho_view_type, name);
	ho_PyObject *args = ho_py.PyTuple_Pack(1, arg);

	REQUIRE(f != NULL && args != NULL);
	ho_PyObject *r = python_result(ho_py.PyObject_Call(f, args, kwargs));
	ho_py.Py_DecRef(args);
	ho_py.Py_DecRef(f);
	return r;
}

/* A stream argument of a constructor: None, -1, a handle, anything. */
static ho_PyObject *stream_keyword(input *in)
{
	ho_PyObject *kwargs = ho_py.PyDict_New();

	switch (in_below(in, 5)) {
	case 0:
		break;
	case 1:
	case 2:
		put(kwargs, "stream_ptr", ho_py.PyLong_FromLong(-1));
		break;
	case 3:
		put(kwargs, "stream_ptr", ho_py.PyLong_FromUnsignedLongLong(in_below(in, 2) ? 0x20000 + in_below(in, 64) : in_below(in, 4)));
		break;
	default:
		put(kwargs, "stream_ptr", python_any(in, 1));
	}
	return kwargs;
}

void python_consume(input *in, ho_PyObject *obj)
{
	ho_arg arg;
	ho_PyObject *r = NULL, *kwargs;
	unsigned want;

	switch (in_below(in, 6)) {
	case 0:
	case 1: /* an argument of a Go function */
		want = in_below(in, 4);
		if (python_status(ho_consume(obj, want, &arg)) != 0)
			return;
		promise(&arg, want);
		if (in_below(in, 2) != 0) {
			ho_stream_value on;
			ho_PyObject *s = ho_py.PyLong_FromUnsignedLongLong(in_below(in, 2) ? 0x20000 + in_below(in, 64) : in_below(in, 4));
			python_status(ho_args_on_stream(in_below(in, 4) != 0 ? s : NULL, &arg, 1, &on));
			ho_py.Py_DecRef(s);
		}
		if (in_below(in, 2) != 0) {
			ho_owner *o = ho_arg_retain(&arg);
			python_status(o != NULL ? 0 : -1);
			if (o != NULL)
				ho_owner_unref(o);
		}
		ho_arg_done(&arg);
		ho_arg_done(&arg); /* does nothing */
		return;
	case 2: { /* with a request */
		ho_request req = { .copy = (int)in_below(in, 3) - 1 };
		if ((req.has_stream = (int)in_below(in, 2)) != 0)
			req.stream = in_number(in);
		if ((req.has_device = in_below(in, 4) == 0) != 0)
			req.device = (DLDevice){ (DLDeviceType)in_below(in, 4), (int32_t)in_below(in, 3) };
		want = in_below(in, 4);
		if (python_status(ho_consume_dlpack(obj, want, &req, &arg)) != 0)
			return;
		promise(&arg, want);
		ho_arg_done(&arg);
		return;
	}
	case 3:
		kwargs = stream_keyword(in);
		r = class_method("from_dlpack", obj, kwargs);
		ho_py.Py_DecRef(kwargs);
		break;
	default:
		kwargs = stream_keyword(in);
		r = class_method("from_any_interface", obj, kwargs);
		ho_py.Py_DecRef(kwargs);
	}
	if (r == NULL)
		return;
	use(in, r);
	ho_py.Py_DecRef(r);
}

void python_settle(void)
{
	while (ho_release_pending() != 0) {
		void *saved = ho_py.PyEval_SaveThread();
		usleep(10);
		ho_py.PyEval_RestoreThread(saved);
	}
}

void python_done(void)
{
	static unsigned count;

	python_settle();

	REQUIRE(ho_py.PyErr_Occurred() == NULL);
	ho_type_cache_clear();
	if (++count % 256 == 0)
		ho_xdecref(python_result(python_eval("gc.collect()")));
	tensor_sweep();
	REQUIRE(ho_live_exports() == 0);
	REQUIRE(buffers == 0);
}
