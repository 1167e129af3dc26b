/* What StridedMemoryView and Array share: the object, its properties, the
 * array interface and the buffer protocol. Nothing here enters Go, except for
 * large copies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

ho_PyTypeObject *ho_view_type;
ho_PyTypeObject *ho_array_type;

/* ---- Life --------------------------------------------------------------- */

/* Dead views whose memory the next ones get, linked through owner. Guarded by
 * the GIL. */
enum { SPARE_VIEWS = 16 };
static ho_view *spare;
static int spares;

/* Zeroes all but the head and dims. In parts: as one the compiler would make it an
 * instruction that is slow to start. */
static void clear(ho_view *v)
{
	enum { BEGIN = sizeof(ho_PyObject), END = offsetof(ho_view, dims), PART = 32 };
	_Static_assert((END - BEGIN) % 8 == 0, "whole words");

	for (size_t at = BEGIN; at + PART <= END; at += PART)
		memset((char *)v + at, 0, PART);
	memset((char *)v + END - PART, 0, PART);
}

/* A view of the collector's that all but for dims is zero. */
static ho_view *new_view(ho_PyTypeObject *type)
{
	ho_view *v = spare;

	if (v == NULL || type != ho_view_type)
		return (ho_view *)ho_py.PyType_GenericAlloc(type, 0);
	spare = (ho_view *)v->owner;
	spares--;
	clear(v);
	ho_py.PyObject_Init(&v->ob, type);
	ho_py.PyObject_GC_Track(v);
	return v;
}

ho_view *ho_view_alloc(ho_PyTypeObject *type, int32_t ndim)
{
	ho_view *v = new_view(type);
	if (v == NULL)
		return NULL;
	int64_t *dims = v->dims;
	if (HO_UNLIKELY(ndim > 8)) {
		dims = malloc(2 * (size_t)ndim * sizeof *dims);
		if (dims == NULL) {
			ho_py.Py_DecRef(&v->ob);
			ho_py.PyErr_NoMemory();
			return NULL;
		}
	}
	v->t.ndim = ndim;
	v->t.shape = dims;
	v->t.strides = dims + ndim;
	return v;
}

void ho_view_ready(ho_view *v)
{
	v->c_contiguous = (int8_t)ho_is_c_contiguous(v->t.ndim, v->t.shape, v->t.strides);
}

static void release_parts(ho_view *v)
{
	ho_owner *o = v->owner;
	DLManagedTensorVersioned *m = v->managed;

	v->owner = NULL;
	v->managed = NULL;
	if (v->t.shape != v->dims)
		free(v->t.shape);
	free(v->byte_strides);
	ho_xdecref(v->dtype);
	ho_xdecref(v->shape);
	ho_xdecref(v->exporter);
	if (HO_UNLIKELY(v->keeper != NULL))
		ho_stream_keep(&v->keeper, NULL);
	if (o != NULL)
		ho_owner_unref(o);
	if (m != NULL && ho_python_lives())
		ho_release_versioned(m);
}

void ho_view_dealloc(ho_PyObject *self)
{
	ho_PyTypeObject *type = HO_TYPE(self);
	ho_PyObject *kind, *value, *trace;

	/* Dropping the owner may run any code: a pending exception is kept. */
	ho_py.PyErr_Fetch(&kind, &value, &trace);
	if (type == ho_view_type)
		ho_py.PyObject_GC_UnTrack(self);
	release_parts((ho_view *)self);
	if (type != ho_view_type) {
		ho_py.PyObject_Free(self);
	} else if (spares < SPARE_VIEWS) {
		((ho_view *)self)->owner = (ho_owner *)spare;
		spare = (ho_view *)self;
		spares++;
	} else {
		ho_py.PyObject_GC_Del(self);
	}
	ho_py.Py_DecRef((ho_PyObject *)type);
	ho_py.PyErr_Restore(kind, value, trace);
}

void ho_view_keep_of(ho_view *v, ho_PyObject *from)
{
	if (from == NULL || !ho_is_view(from))
		return;
	const ho_view *f = (const ho_view *)from;
	if (f->keeper != NULL && v->ordered && v->stream == f->stream)
		ho_stream_keep(&v->keeper, f->keeper);
}

ho_view *ho_view_from_arg(ho_PyTypeObject *type, ho_arg *arg, ho_PyObject *exporter)
{
	ho_view *v = ho_view_alloc(type, arg->ndim);
	if (v == NULL) {
		ho_arg_done(arg);
		return NULL;
	}
	v->t.data = (void *)(uintptr_t)arg->data;
	v->t.device = arg->device;
	v->t.dtype = arg->dtype;
	memcpy(v->t.shape, arg->shape, (size_t)arg->ndim * sizeof(int64_t));
	memcpy(v->t.strides, arg->strides, (size_t)arg->ndim * sizeof(int64_t));
	v->flags = (arg->flags & HO_ARG_READONLY ? DLPACK_FLAG_BITMASK_READ_ONLY : 0) |
	           (arg->flags & HO_ARG_PADDED ? DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED : 0);
	v->stream = arg->stream;
	if (HO_UNLIKELY(arg->flags & (HO_ARG_PRODUCER | HO_ARG_ORDERED))) {
		ho_view_pending(v, (uint64_t)(uintptr_t)arg->stream, 0, NULL);
		ho_view_keep_of(v, exporter);
	}
	v->itemsize = ho_dtype_bytes(arg->dtype);
	ho_view_ready(v);
	if (arg->held == HO_HELD_OBJECT && arg->hold.object == exporter) {
		arg->held = HO_HELD_NONE; /* the reference moves */
		v->exporter = exporter;
	} else if (arg->held == HO_HELD_VERSIONED) {
		arg->held = HO_HELD_NONE; /* so does the tensor */
		v->managed = arg->hold.versioned;
		v->exporter = exporter != NULL ? ho_newref(exporter) : NULL;
	} else if (arg->held != HO_HELD_NONE) {
		ho_owner *o = ho_arg_retain(arg);
		v->exporter = exporter != NULL ? ho_newref(exporter) : NULL;
		v->owner = o;
		if (o == NULL) {
			ho_arg_done(arg);
			ho_py.Py_DecRef(&v->ob);
			return NULL;
		}
	} else if (exporter != NULL) {
		v->exporter = ho_newref(exporter);
	}
	ho_arg_done(arg);
	return v;
}

int ho_view_share(ho_view *v)
{
	if (v->managed == NULL)
		return 0;
	ho_owner *o = ho_owner_python(v->managed, HO_DROP_VERSIONED);
	if (o == NULL)
		return -1;
	v->managed = NULL;
	v->owner = o;
	return 0;
}

ho_view *ho_view_sub(ho_view *v, void *data, int32_t ndim, const int64_t *shape, const int64_t *strides)
{
	ho_view *s = ho_view_share(v) == 0 ? ho_view_alloc(HO_TYPE(v), ndim) : NULL;
	if (s == NULL)
		return NULL;
	s->t.data = data;
	s->t.device = v->t.device;
	s->t.dtype = v->t.dtype;
	memcpy(s->t.shape, shape, (size_t)ndim * sizeof(int64_t));
	memcpy(s->t.strides, strides, (size_t)ndim * sizeof(int64_t));
	s->flags = v->flags;
	s->stream = v->stream;
	if (HO_UNLIKELY(v->keeper != NULL))
		ho_stream_keep(&s->keeper, v->keeper);
	s->stream_ctx = v->stream_ctx;
	s->producer = v->producer;
	s->ordered = v->ordered;
	s->thread = v->thread;
	s->produced = v->produced;
	s->itemsize = v->itemsize;
	s->owner = v->owner;
	if (s->owner != NULL)
		ho_owner_ref(s->owner);
	s->exporter = v->exporter != NULL ? ho_newref(v->exporter) : NULL;
	s->dtype = v->dtype != NULL ? ho_newref(v->dtype) : NULL;
	ho_view_ready(s);
	return s;
}

static void last_static(ho_owner *o)
{
	(void)o;
}

/* For memory that nobody frees. The count never reaches 0. */
static ho_owner static_owner = { 1, last_static, NULL, 0 };

ho_owner *ho_view_owner(ho_view *v, int *made)
{
	if (ho_view_share(v) != 0)
		return NULL;
	*made = v->owner == NULL && v->exporter != NULL;
	if (*made)
		return ho_owner_from_object(v->exporter);
	return v->owner != NULL ? v->owner : &static_owner;
}

static ho_PyObject *new_object(ho_PyTypeObject *type, ho_owner *o, const DLTensor *t, uint64_t flags)
{
	int rule = 0, code = ho_check_tensor(t, flags, &rule);
	if (code != 0) {
		ho_raise(code, rule, "new array", "%s", ho_error_text(code));
		goto fail;
	}
	if (type == NULL) {
		ho_py.PyErr_SetString(ho_py.PyExc_RuntimeError, "handoff: the module handoff._core is not loaded");
		goto fail;
	}
	ho_view *v = ho_view_alloc(type, t->ndim);
	if (v == NULL)
		goto fail;
	v->owner = o;
	v->t.data = (void *)((uintptr_t)t->data + t->byte_offset);
	v->t.device = t->device;
	v->t.dtype = t->dtype;
	for (int32_t i = 0; i < t->ndim; i++) /* not memcpy: shape may be NULL without dimensions */
		v->t.shape[i] = t->shape[i];
	if (t->strides != NULL)
		memcpy(v->t.strides, t->strides, (size_t)t->ndim * sizeof(int64_t));
	else
		ho_row_major(t->ndim, v->t.shape, v->t.strides);
	v->flags = flags & ~(uint64_t)DLPACK_FLAG_BITMASK_IS_COPIED; /* R019 */
	v->itemsize = ho_dtype_bytes(t->dtype);
	ho_view_ready(v);
	return &v->ob;
fail:
	if (o != NULL)
		ho_owner_unref(o);
	return NULL;
}

ho_PyObject *ho_view_new(ho_owner *o, const DLTensor *t, uint64_t flags)
{
	return new_object(ho_view_type, o, t, flags);
}

ho_PyObject *ho_array_new(ho_owner *o, const DLTensor *t, uint64_t flags)
{
	return new_object(ho_array_type, o, t, flags);
}

/* ---- Copies ------------------------------------------------------------- */

enum {
	BIG_COPY = 1 << 16,  /* bytes from which the GIL is given up */
	HUGE_COPY = 1 << 18, /* bytes from which Go's parallel copy is worth entering Go */
};

static int copy_unlocked(const DLTensor *dst, const DLTensor *src, int64_t item, uint64_t flags)
{
	int64_t bytes = ho_count(dst->ndim, dst->shape) * item;
	char *failed = NULL;
	void *saved = bytes >= BIG_COPY ? ho_py.PyEval_SaveThread() : NULL;

	if (bytes >= HUGE_COPY && ho_go.copy != NULL && dst->dtype.bits != 0 &&
	    !atomic_load_explicit(&ho_forked, memory_order_relaxed))
		failed = ho_go.copy(dst, src, (flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) != 0);
	else
		ho_copy_strided(dst->ndim, dst->shape, dst->data, dst->strides, src->data, src->strides, item);
	if (saved != NULL)
		ho_py.PyEval_RestoreThread(saved);
	if (failed == NULL)
		return 0;
	ho_raise(HO_X_PANIC, 0, "copy", "%s", failed);
	free(failed);
	return -1;
}

ho_owner *ho_copy_tensor(const DLTensor *t, uint64_t flags, int64_t itemsize, DLTensor *out, int64_t *strides)
{
	int64_t count = ho_count(t->ndim, t->shape), bytes;
	void *data;

	/* A broadcast view can be small and its copy larger than memory. */
	if (__builtin_mul_overflow(count, itemsize, &bytes)) {
		ho_py.PyErr_NoMemory();
		return NULL;
	}
	ho_owner *o = ho_owner_alloc((size_t)bytes, &data);
	if (o == NULL) {
		ho_py.PyErr_NoMemory();
		return NULL;
	}
	*out = *t;
	out->device = (DLDevice){ kDLCPU, 0 };
	out->data = data;
	out->strides = strides;
	ho_row_major(t->ndim, t->shape, strides);
	if (copy_unlocked(out, t, itemsize, flags) != 0) {
		ho_owner_unref(o);
		return NULL;
	}
	return o;
}

int ho_view_copy(ho_view *dst, const ho_arg *src)
{
	static const char what[] = "copy";
	char a[80], b[40];
	int64_t strides[HO_MAX_DIMS];

	if (dst->flags & DLPACK_FLAG_BITMASK_READ_ONLY)
		return ho_raise(HO_X_READONLY, 15, what, "the destination is read-only");
	if (!ho_device_is_host((int32_t)dst->t.device.device_type) ||
	    !ho_device_is_host((int32_t)src->device.device_type))
		return ho_raise(HO_E_DEVICE, 0, what, "only host memory can be copied here");
	if (!ho_dtype_same(dst->t.dtype, src->dtype) ||
	    !(dst->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) != !(src->flags & HO_ARG_PADDED))
		return ho_raise(HO_X_VALUE, 0, what, "dtype %s cannot be copied to %s", ho_dtype_text(src->dtype, b),
		                ho_view_dtype_text(dst, a));
	if (ho_whole_bytes(dst, what) != 0)
		return -1;
	int same = dst->t.ndim == src->ndim;
	for (int32_t i = 0; same && i < src->ndim; i++)
		same = dst->t.shape[i] == src->shape[i];
	if (!same)
		return ho_raise(HO_X_VALUE, 0, what, "the shapes differ");

	DLTensor from = { (void *)(uintptr_t)src->data, src->device, src->ndim, src->dtype, src->shape, src->strides, 0 };
	int64_t item = dst->itemsize, lo[2], hi[2];
	ho_span(dst->t.ndim, dst->t.shape, dst->t.strides, item, &lo[0], &hi[0]);
	ho_span(from.ndim, from.shape, from.strides, item, &lo[1], &hi[1]);
	uintptr_t d = (uintptr_t)dst->t.data, s = (uintptr_t)from.data;
	if (d + (uintptr_t)lo[0] >= s + (uintptr_t)hi[1] || s + (uintptr_t)lo[1] >= d + (uintptr_t)hi[0]) {
		return copy_unlocked(&dst->t, &from, item, dst->flags);
	}
	DLTensor copy;
	ho_owner *o = ho_copy_tensor(&from, dst->flags, item, &copy, strides);
	if (o == NULL)
		return -1;
	int r = copy_unlocked(&dst->t, &copy, item, dst->flags);
	ho_owner_unref(o);
	return r;
}

int ho_whole_bytes(const ho_view *v, const char *what)
{
	int64_t bits = (int64_t)v->t.dtype.bits * v->t.dtype.lanes;

	if (bits % 8 == 0 || v->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED)
		return 0;
	return ho_raise(HO_X_BUFFER, 32, what, "elements are packed below a byte; work with the bytes instead");
}

/* ---- Properties --------------------------------------------------------- */

ho_PyObject *ho_int_tuple(int32_t n, const int64_t *values)
{
	ho_PyObject *t = ho_py.PyTuple_New(n);
	for (int32_t i = 0; t != NULL && i < n; i++) {
		ho_PyObject *v = ho_py.PyLong_FromLongLong(values[i]);
		if (v == NULL || ho_py.PyTuple_SetItem(t, i, v) != 0) {
			ho_py.Py_DecRef(t);
			return NULL;
		}
	}
	return t;
}

static ho_PyObject *get_shape(ho_PyObject *self, void *unused)
{
	ho_view *v = (ho_view *)self;
	(void)unused;

	if (v->shape == NULL)
		v->shape = ho_int_tuple(v->t.ndim, v->t.shape);
	return v->shape != NULL ? ho_newref(v->shape) : NULL;
}

static ho_PyObject *get_strides(ho_PyObject *self, void *unused)
{
	ho_view *v = (ho_view *)self;
	(void)unused;

	return v->c_contiguous ? ho_newref(HO_NONE) : ho_int_tuple(v->t.ndim, v->t.strides);
}

ho_PyObject *ho_view_dtype(ho_view *v)
{
	if (v->dtype == NULL)
		v->dtype = ho_dtype_object(v->t.dtype);
	return v->dtype != NULL ? ho_newref(v->dtype) : NULL;
}

const char *ho_view_dtype_text(ho_view *v, char *buf)
{
	if (v->t.dtype.bits != 0)
		return ho_dtype_text(v->t.dtype, buf);
	ho_PyObject *text = v->dtype != NULL && v->dtype != HO_NONE ? ho_py.PyObject_Str(v->dtype) : NULL;
	const char *s = text != NULL ? ho_py.PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
	if (s == NULL)
		ho_py.PyErr_Clear();
	snprintf(buf, 80, "%s", s != NULL ? s : "None");
	ho_xdecref(text);
	return buf;
}

static ho_PyObject *get_dtype(ho_PyObject *self, void *unused)
{
	(void)unused;
	return ho_view_dtype((ho_view *)self);
}

static ho_PyObject *get_dlpack_dtype(ho_PyObject *self, void *unused)
{
	const ho_view *v = (const ho_view *)self;
	(void)unused;

	if (v->t.dtype.bits == 0)
		return ho_newref(HO_NONE);
	int64_t parts[3] = { v->t.dtype.code, v->t.dtype.bits, v->t.dtype.lanes };
	return ho_int_tuple(3, parts);
}

static ho_PyObject *get_ptr(ho_PyObject *self, void *unused)
{
	(void)unused;
	return ho_py.PyLong_FromVoidPtr(((ho_view *)self)->t.data);
}

static ho_PyObject *get_size(ho_PyObject *self, void *unused)
{
	const ho_view *v = (const ho_view *)self;
	(void)unused;
	return ho_py.PyLong_FromLongLong(ho_count(v->t.ndim, v->t.shape));
}

static ho_PyObject *get_ndim(ho_PyObject *self, void *unused)
{
	(void)unused;
	return ho_py.PyLong_FromLong(((ho_view *)self)->t.ndim);
}

static ho_PyObject *get_itemsize(ho_PyObject *self, void *unused)
{
	(void)unused;
	return ho_py.PyLong_FromLongLong(((ho_view *)self)->itemsize);
}

static ho_PyObject *get_nbytes(ho_PyObject *self, void *unused)
{
	const ho_view *v = (const ho_view *)self;
	(void)unused;
	int64_t n = ho_count(v->t.ndim, v->t.shape), bits = (int64_t)v->t.dtype.bits * v->t.dtype.lanes;

	if (bits % 8 == 0 || v->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED)
		return ho_py.PyLong_FromLongLong(n * v->itemsize);
	return ho_py.PyLong_FromLongLong(n / 8 * bits + (n % 8 * bits + 7) / 8); /* packed (B088) */
}

static ho_PyObject *get_readonly(ho_PyObject *self, void *unused)
{
	(void)unused;
	return ho_py.PyBool_FromLong((((ho_view *)self)->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0);
}

static ho_PyObject *get_device_id(ho_PyObject *self, void *unused)
{
	const ho_view *v = (const ho_view *)self;
	(void)unused;
	return ho_py.PyLong_FromLong(v->t.device.device_type == kDLCPU ? -1 : v->t.device.device_id);
}

static ho_PyObject *get_device_accessible(ho_PyObject *self, void *unused)
{
	(void)unused;
	return ho_py.PyBool_FromLong(ho_view_on_device((ho_view *)self));
}

static ho_PyObject *get_host_accessible(ho_PyObject *self, void *unused)
{
	(void)unused;
	return ho_py.PyBool_FromLong(ho_device_is_host((int32_t)((ho_view *)self)->t.device.device_type));
}

static ho_PyObject *get_exporter(ho_PyObject *self, void *unused)
{
	ho_PyObject *e = ((ho_view *)self)->exporter;
	(void)unused;
	return ho_newref(e != NULL ? e : HO_NONE);
}

/* Without a typestr for the type, or on a device, the attribute is absent, so
 * that hasattr() tells the truth. */
static ho_PyObject *get_array_interface(ho_PyObject *self, void *unused)
{
	ho_view *v = (ho_view *)self;
	const ho_dtype *row = v->t.dtype.bits != 0 ? ho_dtype_find(v->t.dtype) : NULL;
	ho_PyObject *dict = NULL, *shape = NULL, *strides = NULL, *typestr = NULL, *data = NULL, *version = NULL;
	ho_PyObject *address = NULL;
	char text[80];
	(void)unused;

	if (row == NULL || row->typestr == NULL || !ho_device_is_host((int32_t)v->t.device.device_type)) {
		ho_py.PyErr_Format(ho_py.PyExc_AttributeError, "__array_interface__: %s on device type %d has none",
		                   ho_view_dtype_text(v, text), (int)v->t.device.device_type);
		return NULL;
	}
	if (ho_view_live(v, "array interface") != 0 || ho_view_host_wait(v) != 0)
		return NULL;
	shape = get_shape(self, NULL);
	if (v->c_contiguous) {
		strides = ho_newref(HO_NONE);
	} else {
		int64_t bytes[HO_MAX_DIMS];
		for (int32_t i = 0; i < v->t.ndim; i++)
			bytes[i] = ho_byte_stride(v->t.strides[i], v->itemsize);
		strides = ho_int_tuple(v->t.ndim, bytes);
	}
	typestr = ho_py.PyUnicode_FromString(row->typestr);
	address = ho_py.PyLong_FromVoidPtr(v->t.data);
	if (address != NULL)
		data = ho_py.PyTuple_Pack(2, address, v->flags & DLPACK_FLAG_BITMASK_READ_ONLY ? HO_TRUE : HO_FALSE);
	version = ho_py.PyLong_FromLong(3);
	if (shape != NULL && strides != NULL && typestr != NULL && data != NULL && version != NULL)
		dict = ho_py.PyDict_New();
	if (dict != NULL && (ho_py.PyDict_SetItem(dict, ho_names.shape, shape) != 0 ||
	                     ho_py.PyDict_SetItem(dict, ho_names.typestr, typestr) != 0 ||
	                     ho_py.PyDict_SetItem(dict, ho_names.data, data) != 0 ||
	                     ho_py.PyDict_SetItem(dict, ho_names.strides, strides) != 0 ||
	                     ho_py.PyDict_SetItem(dict, ho_names.version, version) != 0)) {
		ho_py.Py_DecRef(dict);
		dict = NULL;
	}
	ho_xdecref(shape);
	ho_xdecref(strides);
	ho_xdecref(typestr);
	ho_xdecref(address);
	ho_xdecref(data);
	ho_xdecref(version);
	return dict;
}

ho_PyGetSetDef ho_view_getset[] = {
	{ "ptr", get_ptr, NULL, "Address of the first element, as an int.", NULL },
	{ "shape", get_shape, NULL, "Extents.", NULL },
	{ "strides", get_strides, NULL, "Strides in elements; None if C-contiguous.", NULL },
	{ "size", get_size, NULL, "Number of elements.", NULL },
	{ "ndim", get_ndim, NULL, "Number of dimensions.", NULL },
	{ "itemsize", get_itemsize, NULL, "Bytes per element; sub-byte elements are rounded up.", NULL },
	{ "nbytes", get_nbytes, NULL, "Bytes that the elements take when they are dense.", NULL },
	{ "dtype", get_dtype, NULL,
	  "NumPy dtype. Imports numpy, and ml_dtypes for bfloat16 and the 8, 6 and 4-bit types;\n"
	  "NotImplementedError if they have none. None if it was never said.",
	  NULL },
	{ "dlpack_dtype", get_dlpack_dtype, NULL,
	  "The element type as DLPack has it: (code, bits, lanes); None without a counterpart.", NULL },
	{ "device_id", get_device_id, NULL, "Ordinal of the device; -1 for host memory.", NULL },
	{ "is_device_accessible", get_device_accessible, NULL, "Whether a CUDA device can read the memory: also pinned host memory that says CPU, once a driver is in use.", NULL },
	{ "is_host_accessible", get_host_accessible, NULL, "Whether the host can read the memory.", NULL },
	{ "producer_stream", ho_get_producer_stream, NULL,
	  "StreamView of the stream that the producer works on, or None where it is not known.", NULL },
	{ "stream", ho_get_ordered_stream, NULL,
	  "StreamView of the stream that the data is ordered on, or None: whoever takes the view from\n"
	  "here is ordered after it.",
	  NULL },
	{ "__cuda_array_interface__", ho_get_cuda_array_interface, NULL,
	  "The CUDA array interface, version 3. Absent for host memory and for types without a typestr.", NULL },
	{ "readonly", get_readonly, NULL, "Whether the memory must not be written.", NULL },
	{ "exporting_obj", get_exporter, NULL, "The object that the view was made from, or None.", NULL },
	{ "__array_interface__", get_array_interface, NULL,
	  "NumPy's array interface, version 3. Absent for types without a typestr and on devices.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

/* ---- Buffer protocol ---------------------------------------------------- */

static int deny(ho_Py_buffer *b, int code, int rule, const char *text)
{
	b->obj = NULL; /* R229 */
	return ho_raise(code, rule, "buffer", "%s", text);
}

int ho_view_getbuffer(ho_PyObject *self, ho_Py_buffer *b, int flags)
{
	ho_view *v = (ho_view *)self;
	int32_t n = v->t.ndim;
	int readonly = (v->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
	const ho_dtype *row = v->t.dtype.bits != 0 ? ho_dtype_find(v->t.dtype) : NULL;

	if (b == NULL)
		return ho_raise(HO_X_BUFFER, 229, "buffer", "no view to fill");
	b->obj = NULL;
	if (ho_view_live(v, "buffer") != 0)
		return -1;
	if (!ho_device_is_host((int32_t)v->t.device.device_type))
		return deny(b, HO_E_DEVICE, 0, "the memory is not on the host");
	if (row == NULL || row->format == NULL)
		return deny(b, HO_E_DTYPE, 254, "the dtype has no buffer format");
	if (flags & HO_PyBUF_WRITABLE && readonly)
		return deny(b, HO_X_READONLY, 241, "a writable buffer was asked of read-only memory");
	/* Each of these contains STRIDES; without STRIDES, C order is needed. */
	int wants_strides = (flags & HO_PyBUF_STRIDES) == HO_PyBUF_STRIDES;
	if (!v->c_contiguous) {
		int f = ho_is_f_contiguous(n, v->t.shape, v->t.strides);
		if ((flags & HO_PyBUF_C_CONTIGUOUS) == HO_PyBUF_C_CONTIGUOUS)
			return deny(b, HO_E_LAYOUT, 240, "not C-contiguous");
		if ((flags & HO_PyBUF_ANY_CONTIGUOUS) == HO_PyBUF_ANY_CONTIGUOUS && !f)
			return deny(b, HO_E_LAYOUT, 240, "not contiguous");
		if (!wants_strides)
			return deny(b, HO_E_LAYOUT, 239, "not C-contiguous, and no strides were asked for");
	}
	if ((flags & HO_PyBUF_F_CONTIGUOUS) == HO_PyBUF_F_CONTIGUOUS &&
	    !ho_is_f_contiguous(n, v->t.shape, v->t.strides))
		return deny(b, HO_E_LAYOUT, 240, "not Fortran-contiguous");
	if (wants_strides && n > 0 && v->byte_strides == NULL) {
		v->byte_strides = malloc((size_t)n * sizeof *v->byte_strides);
		if (v->byte_strides == NULL) {
			ho_py.PyErr_NoMemory();
			return -1;
		}
		for (int32_t i = 0; i < n; i++)
			v->byte_strides[i] = ho_byte_stride(v->t.strides[i], v->itemsize);
	}
	if (ho_view_host_wait(v) != 0)
		return -1;
	static char empty[1]; /* consumers do not expect NULL */
	b->buf = v->t.data != NULL ? v->t.data : empty;
	b->len = ho_count(n, v->t.shape) * v->itemsize;
	b->itemsize = v->itemsize;
	b->readonly = readonly;
	b->ndim = n;
	b->format = flags & HO_PyBUF_FORMAT ? (char *)row->format : NULL;
	b->shape = flags & HO_PyBUF_ND && n > 0 ? (ho_ssize *)v->t.shape : NULL;
	b->strides = wants_strides && n > 0 ? v->byte_strides : NULL;
	b->suboffsets = NULL;
	b->internal = NULL;
	if (!(flags & HO_PyBUF_ND)) { /* flat bytes; ndim says so as well */
		b->ndim = 1;
	}
	b->obj = ho_newref(self);
	return 0;
}
