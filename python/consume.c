/* Taking arrays from Python objects: the one place where foreign metadata is
 * read and checked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

static const char op[] = "import";

/* ---- Filling an ho_arg -------------------------------------------------- */

/* Zeros up to 8 extents and strides, to the next pair. In pairs, because gcc
 * makes of memset a string instruction, which takes longer than all of this. */
static inline void clear_dims(int64_t *dims, int32_t n)
{
	typedef int64_t pair __attribute__((vector_size(16), aligned(8), may_alias));
	pair *p = (pair *)dims;

	p[0] = p[4] = (pair){ 0, 0 };
	if (n > 2)
		p[1] = p[2] = p[3] = p[5] = p[6] = p[7] = (pair){ 0, 0 };
}

/* Room for n extents and n strides. */
static inline int room(ho_arg *out, int32_t n)
{
	out->ndim = n;
	out->shape = out->dims;
	out->strides = out->dims + 8;
	if (HO_LIKELY(n <= 8)) {
		clear_dims(out->dims, n);
		return 0;
	}
	out->shape = malloc(2 * (size_t)n * sizeof(int64_t));
	if (out->shape == NULL) {
		ho_py.PyErr_NoMemory();
		return -1;
	}
	out->strides = out->shape + n;
	return 0;
}

int ho_arg_room(ho_arg *out, int32_t n)
{
	return room(out, n);
}

static inline void start(ho_arg *out, ho_PyObject *obj)
{
	out->held = HO_HELD_NONE;
	out->flags = 0;
	out->obj = obj;
	out->stream = NULL;
	out->shape = out->strides = out->dims;
	out->hold.object = NULL;
}

/* Refuses read-only memory where it must be written (R015, R243). */
static int check_writable(unsigned want, uint32_t flags)
{
	if (HO_LIKELY(!(want & HO_WANT_WRITABLE) || !(flags & HO_ARG_READONLY)))
		return 0;
	return ho_raise(HO_X_READONLY, 15, op, "the memory is read-only and would be written");
}

/* Copies a tensor that has passed ho_check_tensor. */
static inline __attribute__((always_inline)) int take_tensor(ho_arg *out, const DLTensor *t, uint64_t flags, unsigned want)
{
	int32_t n = t->ndim;

	out->flags = HO_ARG_ALIGNED | (flags & DLPACK_FLAG_BITMASK_READ_ONLY ? HO_ARG_READONLY : 0) |
	             (flags & DLPACK_FLAG_BITMASK_IS_COPIED ? HO_ARG_COPIED : 0) |
	             (flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED ? HO_ARG_PADDED : 0);
	out->data = (uint64_t)(uintptr_t)t->data + t->byte_offset; /* R042 */
	out->dtype = t->dtype;
	out->device = t->device;
	if (check_writable(want, out->flags) != 0 || room(out, n) != 0)
		return -1;
	for (int32_t i = 0; i < n; i++)
		out->shape[i] = t->shape[i];
	if (t->strides != NULL) {
		for (int32_t i = 0; i < n; i++)
			out->strides[i] = t->strides[i];
	} else {
		ho_row_major(n, out->shape, out->strides); /* fits: checked */
	}
	return 0;
}

/* The exception of a failed check, with the value that is wrong. */
static int refuse_tensor(const DLTensor *t, int code, int rule)
{
	char text[40];

	switch (code) {
	case HO_E_DTYPE:
		return ho_raise(code, rule, op, "dtype (code %d, bits %d, lanes %d) is not supported", t->dtype.code,
		                t->dtype.bits, t->dtype.lanes);
	case HO_E_DEVICE:
		return ho_raise(code, rule, op, "device type %d is not known", (int)t->device.device_type);
	case HO_E_LAYOUT:
		if (t->ndim < 0 || t->ndim > HO_MAX_DIMS)
			return ho_raise(code, rule, op, "ndim %d is outside 0..%d", (int)t->ndim, HO_MAX_DIMS);
		if (t->shape == NULL)
			return ho_raise(code, rule, op, "shape is NULL with ndim %d", (int)t->ndim);
		return ho_raise(code, rule, op, "an extent is negative");
	case HO_E_OVERFLOW:
		return ho_raise(code, rule, op, "shape, strides and %s elements do not fit in 64 bits",
		                ho_dtype_text(t->dtype, text));
	case HO_E_NULL:
		return ho_raise(code, rule, op, "data is NULL and the tensor is not empty");
	case HO_E_ALIGN:
		return ho_raise(code, rule, op, "data is not aligned for %s", ho_dtype_text(t->dtype, text));
	}
	return ho_raise(code, rule, op, "%s", ho_error_text(code));
}

/* ---- numpy.ndarray by its published struct ------------------------------ */

/* Start of PyArrayObject and of PyArray_Descr, the same in NumPy 1 and 2. */
struct ndarray {
	ho_PyObject ob;
	char *data;
	int nd;
	ho_ssize *dimensions;
	ho_ssize *strides; /* bytes */
	ho_PyObject *base;
	struct descr *descr;
	int flags;
};

struct descr {
	ho_PyObject ob;
	ho_PyObject *typeobj;
	char kind, type, byteorder, unused;
	int type_num;
};

enum { NPY_ALIGNED = 0x100, NPY_WRITEABLE = 0x400 };

int ho_numpy_direct = -1;
static ho_PyTypeObject *ndarray_type; /* exact type; set if ho_numpy_direct is 1 */

/* The rows of NumPy's own numbers, of which it has 24. */
enum { NUMPY_NUMBERS = 24 };
static const ho_dtype *numpy_rows[NUMPY_NUMBERS];

static const ho_dtype *row_of_other(const struct descr *d)
{
	return d->type_num >= 256 ? ho_dtype_by_scalar(d->typeobj) : NULL; /* 256: user types start here */
}

static inline const ho_dtype *row_of_descr(const struct descr *d)
{
	const ho_dtype *row = (unsigned)d->type_num < NUMPY_NUMBERS ? numpy_rows[d->type_num] : NULL;

	return HO_LIKELY(row != NULL) ? row : row_of_other(d);
}

static int native(const struct descr *d)
{
	/* NumPy writes '=' for the machine's own order; '<' is the same here. */
	return d->byteorder == '=' || d->byteorder == '|' || d->byteorder == '<';
}

static int refuse_descr(struct descr *d, int rule)
{
	ho_PyObject *text = ho_py.PyObject_Str((ho_PyObject *)d);
	const char *s = text != NULL ? ho_py.PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
	if (s == NULL)
		ho_py.PyErr_Clear();
	if (rule == 291)
		ho_raise(HO_E_DTYPE, 291, op, "dtype %.80s is in foreign byte order", s != NULL ? s : "?");
	else
		ho_raise(HO_E_DTYPE, rule, op, "dtype %.80s has no counterpart in DLPack", s != NULL ? s : "?");
	ho_xdecref(text);
	return -1;
}

/* The slow half: extents with byte strides that do not divide. */
static int odd_stride(ho_ssize extent, ho_ssize stride, int size, int64_t *out)
{
	if (extent <= 1) { /* never used (R054) */
		*out = stride / size;
		return 0;
	}
	return ho_raise(HO_E_LAYOUT, 281, op, "a stride of %lld bytes is not a multiple of the item size %d",
	                (long long)stride, size);
}

static int odd_strides(const struct ndarray *a, int size, ho_arg *out)
{
	for (int i = 0; i < a->nd; i++)
		if ((a->strides[i] & (size - 1)) != 0 &&
		    odd_stride(a->dimensions[i], a->strides[i], size, &out->strides[i]) != 0)
			return -1;
	return 0;
}

static int unaligned(const struct ndarray *a, const ho_dtype *row)
{
	if ((uintptr_t)a->data % row->align == 0)
		return 0;
	for (int i = 0; i < a->nd; i++)
		if (a->dimensions[i] == 0)
			return 0;
	return ho_raise(HO_E_ALIGN, 41, op, "data is not aligned for %s", row->name);
}

/* The hot path of every call with arrays, in line with ho_consume: one pass
 * over the axes, and questions after it. Sizes are powers of two. */
static inline __attribute__((always_inline)) int take_ndarray(ho_PyObject *obj, unsigned want, ho_arg *out)
{
	const struct ndarray *a = (const struct ndarray *)obj;
	const struct descr *d = a->descr;
	const ho_dtype *row = row_of_descr(d);
	int n = a->nd;

	if (HO_UNLIKELY(row == NULL))
		return refuse_descr(a->descr, 285);
	if (HO_UNLIKELY(!native(d)))
		return refuse_descr(a->descr, 291);
	int size = row->size, shift = __builtin_ctz((unsigned)size);
	ho_ssize odd = 0;
	out->data = (uint64_t)(uintptr_t)a->data;
	out->dtype = row->dl;
	out->device = (DLDevice){ kDLCPU, 0 };
	out->flags = a->flags & NPY_WRITEABLE ? HO_ARG_ALIGNED : HO_ARG_ALIGNED | HO_ARG_READONLY;
	if (HO_UNLIKELY(row->dl.bits < 8))
		out->flags |= HO_ARG_PADDED;
	if (check_writable(want, out->flags) != 0 || room(out, n) != 0)
		return -1;
	int64_t *shape = out->shape, *strides = out->strides;
	for (int i = 0; i < n; i++) {
		ho_ssize stride = a->strides[i];
		shape[i] = a->dimensions[i];
		strides[i] = stride >> shift;
		odd |= stride;
	}
	if ((HO_UNLIKELY((odd & (size - 1)) != 0) && odd_strides(a, size, out) != 0) ||
	    (HO_UNLIKELY(!(a->flags & NPY_ALIGNED)) && unaligned(a, row) != 0)) {
		if (out->shape != out->dims)
			free(out->shape);
		return -1;
	}
	if (want & HO_WANT_OWNED) {
		out->held = HO_HELD_OBJECT;
		out->hold.object = ho_newref(obj);
	}
	return 0;
}

/* getattr as a C integer; 0 if it is one. */
static int long_attr(ho_PyObject *o, const char *name, long long *v)
{
	ho_PyObject *a = ho_py.PyObject_GetAttrString(o, name);
	if (a == NULL)
		return -1;
	*v = ho_py.PyLong_AsLongLong(a);
	ho_py.Py_DecRef(a);
	return *v == -1 && ho_py.PyErr_Occurred() ? -1 : 0;
}

/* Does the struct say what __array_interface__ says? Exceptions mean no. */
static int verify(ho_PyObject *array)
{
	const struct ndarray *a = (const struct ndarray *)array;
	long long v, itemsize, writeable;
	int ok = 0;
	ho_PyObject *flags = NULL, *dtype = NULL, *cls = NULL, *ai = NULL;

	if (long_attr(array, "ndim", &v) != 0 || v != a->nd || long_attr(array, "itemsize", &itemsize) != 0)
		goto done;
	dtype = ho_py.PyObject_GetAttrString(array, "dtype");
	if (dtype == NULL || dtype != (ho_PyObject *)a->descr)
		goto done;
	if (long_attr(dtype, "num", &v) != 0 || v != a->descr->type_num)
		goto done;
	cls = ho_py.PyObject_GetAttrString(dtype, "type");
	if (cls == NULL || cls != a->descr->typeobj)
		goto done;
	ho_PyObject *order = ho_py.PyObject_GetAttrString(dtype, "byteorder");
	const char *s = order != NULL ? ho_py.PyUnicode_AsUTF8AndSize(order, NULL) : NULL;
	int same = s != NULL && s[0] == a->descr->byteorder;
	ho_xdecref(order);
	if (!same)
		goto done;
	flags = ho_py.PyObject_GetAttrString(array, "flags");
	if (flags == NULL || long_attr(flags, "num", &v) != 0 || (int)v != a->flags ||
	    long_attr(flags, "writeable", &writeable) != 0 || writeable != !!(a->flags & NPY_WRITEABLE) ||
	    long_attr(flags, "aligned", &v) != 0 || v != !!(a->flags & NPY_ALIGNED))
		goto done;
	const ho_dtype *row = ho_dtype_by_numpy(a->descr->type_num);
	if (row != NULL && row->size != itemsize)
		goto done;

	ai = ho_py.PyObject_GetAttr(array, ho_names.array_interface);
	ho_PyObject *data = ai != NULL ? ho_py.PyDict_GetItemString(ai, "data") : NULL;
	ho_PyObject *shape = ai != NULL ? ho_py.PyDict_GetItemString(ai, "shape") : NULL;
	ho_PyObject *strides = ai != NULL ? ho_py.PyDict_GetItemString(ai, "strides") : NULL;
	ho_PyObject *typestr = ai != NULL ? ho_py.PyDict_GetItemString(ai, "typestr") : NULL;
	if (data == NULL || shape == NULL || typestr == NULL || ho_py.PyTuple_Size(data) != 2 ||
	    ho_py.PyTuple_Size(shape) != a->nd)
		goto done;
	if (ho_py.PyLong_AsVoidPtr(ho_py.PyTuple_GetItem(data, 0)) != a->data)
		goto done;
	s = ho_py.PyUnicode_AsUTF8AndSize(typestr, NULL);
	if (s == NULL || (row != NULL && native(a->descr) && strcmp(s, row->typestr) != 0) ||
	    (!native(a->descr) && s[0] != '>'))
		goto done;
	int64_t expect = itemsize;
	int empty = 0;
	for (int i = 0; i < a->nd && i < HO_MAX_DIMS; i++)
		empty |= a->dimensions[i] == 0;
	for (int i = a->nd; i-- > 0;) {
		if (ho_py.PyLong_AsLongLong(ho_py.PyTuple_GetItem(shape, i)) != a->dimensions[i])
			goto done;
		if (strides != NULL && strides != HO_NONE) {
			ho_PyObject *one = ho_py.PyTuple_GetItem(strides, i);
			if (one == NULL || ho_py.PyLong_AsLongLong(one) != a->strides[i])
				goto done;
		} else if (!empty && a->dimensions[i] > 1 && a->strides[i] != expect) {
			goto done;
		}
		expect *= a->dimensions[i];
	}
	ok = 1;
done:
	ho_py.PyErr_Clear();
	ho_xdecref(flags);
	ho_xdecref(dtype);
	ho_xdecref(cls);
	ho_xdecref(ai);
	return ok;
}

/* Arrays of every kind that the struct must describe correctly. */
static const char samples[] =
	"[numpy.zeros((3, 4), t)[::2, ::-1] for t in ('?', 'b', 'B', 'h', 'H', 'i', 'I', 'l', 'L', 'q', 'Q', 'e', 'f',"
	" 'd', 'F', 'D', 'g', 'S3', 'U2', 'O', 'M8[s]', '>i4', '<f8', [('a', 'i2'), ('b', 'f4')])]"
	" + [numpy.zeros((), 'f4'), numpy.zeros((2, 0, 3)), numpy.zeros((5, 7)).T, numpy.zeros((2,) * 8, 'i2'),"
	" numpy.frombuffer(b'12345678', 'i4'), numpy.frombuffer(b'123456789', 'i4', 2, 1)]";

/* Decides once whether the struct may be read. */
static void try_numpy(ho_PyTypeObject *type)
{
	ho_PyObject *numpy = ho_py.PyDict_GetItemString(ho_py.PyImport_GetModuleDict(), "numpy");
	if (numpy == NULL)
		return;
	ho_PyObject *cls = ho_py.PyObject_GetAttrString(numpy, "ndarray");
	if (cls != (ho_PyObject *)type) {
		ho_py.PyErr_Clear();
		ho_xdecref(cls);
		return; /* another type; NumPy's own is still untried */
	}
	int ok = 0;
	long long basicsize;
	ho_PyObject *builtins = NULL, *eval = NULL, *globals = NULL, *text = NULL, *list = NULL;
	ho_numpy_direct = 0;
	if (long_attr(cls, "__basicsize__", &basicsize) != 0 || basicsize < (long long)sizeof(struct ndarray))
		goto done;
	builtins = ho_py.PyImport_ImportModule("builtins");
	eval = builtins != NULL ? ho_py.PyObject_GetAttrString(builtins, "eval") : NULL;
	globals = ho_py.PyDict_New();
	text = ho_py.PyUnicode_FromString(samples);
	if (eval == NULL || globals == NULL || text == NULL || ho_py.PyDict_SetItemString(globals, "numpy", numpy) != 0)
		goto done;
	list = ho_py.PyObject_CallFunctionObjArgs(eval, text, globals, NULL);
	ho_ssize n = list != NULL ? ho_py.PyList_Size(list) : 0;
	ok = n > 0;
	for (ho_ssize i = 0; i < n && ok; i++) {
		ho_PyObject *array = ho_py.PyList_GetItem(list, i);
		ok = HO_TYPE(array) == type && verify(array);
	}
done:
	ho_py.PyErr_Clear();
	ho_xdecref(list);
	ho_xdecref(text);
	ho_xdecref(globals);
	ho_xdecref(eval);
	ho_xdecref(builtins);
	if (ok) {
		for (int i = 0; i < NUMPY_NUMBERS; i++)
			numpy_rows[i] = ho_dtype_by_numpy(i);
		ndarray_type = type; /* keeps the reference: NumPy cannot be unloaded */
		ho_numpy_direct = 1;
	} else {
		ho_py.Py_DecRef(cls);
	}
}

ho_PyObject *ho_ndarray_descr(ho_PyObject *obj)
{
	return HO_TYPE(obj) == ndarray_type ? (ho_PyObject *)((struct ndarray *)obj)->descr : NULL;
}

/* ---- What a type offers, remembered ------------------------------------- */

enum kind {
	KIND_NONE,    /* nothing on the type: the instance is asked each time */
	KIND_OURS,    /* StridedMemoryView, Array */
	KIND_NDARRAY, /* read directly */
	KIND_CUPY,    /* read by its attributes */
	KIND_TABLE,
	KIND_DLPACK,
	KIND_CUDA, /* the CUDA array interface only */
	KIND_CAPSULE,
	KIND_BUFFER,
	KIND_INTERFACE,
};

struct entry {
	ho_PyTypeObject *type; /* strong: the address is not used again */
	const DLPackExchangeAPI *table;
	enum kind kind;
	int flags_matter; /* the type has read-only instances, which lending cannot say */
	int tells_device; /* the type has __dlpack_device__ */
};

enum { CACHE = 64 };
static struct entry cache[CACHE];

static inline struct entry *slot_of(ho_PyTypeObject *type)
{
	uintptr_t h = (uintptr_t)type >> 4;
	return &cache[(h ^ h >> 7) % CACHE];
}

void ho_type_cache_clear(void)
{
	for (int i = 0; i < CACHE; i++) {
		ho_PyTypeObject *type = cache[i].type;
		cache[i] = (struct entry){ 0 };
		ho_xdecref((ho_PyObject *)type);
	}
}

int ho_type_cache_size(void)
{
	int n = 0;

	for (int i = 0; i < CACHE; i++)
		n += cache[i].type != NULL;
	return n;
}

/* An attribute of the type itself; NULL without an exception. */
static ho_PyObject *type_attr(ho_PyTypeObject *type, ho_PyObject *name)
{
	ho_PyObject *v = ho_py.PyObject_GetAttr((ho_PyObject *)type, name);
	if (v == NULL)
		ho_py.PyErr_Clear();
	return v;
}

/* Aligned, above the first page, and in the half of the addresses that a
 * program has. */
static int can_be_table(const DLPackExchangeAPIHeader *h)
{
	return (intptr_t)h >= 4096 && (uintptr_t)h % _Alignof(DLPackExchangeAPIHeader) == 0;
}

/* The table behind an attribute value: a capsule or an address (R086), of a
 * version that we read (R090, R091), complete enough to be used (R093). */
static const DLPackExchangeAPI *table_of(ho_PyObject *v)
{
	const DLPackExchangeAPIHeader *h = NULL;

	if (HO_TYPE(v) == (ho_PyTypeObject *)ho_py.PyCapsule_Type) {
		if (ho_py.PyCapsule_IsValid(v, "dlpack_exchange_api"))
			h = ho_py.PyCapsule_GetPointer(v, "dlpack_exchange_api");
	} else if (HO_TYPE(v) == (ho_PyTypeObject *)ho_py.PyLong_Type) {
		h = ho_py.PyLong_AsVoidPtr(v);
	}
	if (h == NULL) {
		ho_py.PyErr_Clear();
		return NULL;
	}
	/* An int may be anything (R086): what cannot be a struct is no table. */
	for (int hops = 0; can_be_table(h) && h->version.major > DLPACK_MAJOR_VERSION; hops++)
		h = hops < 16 ? h->prev_api : NULL;
	if (!can_be_table(h) || h->version.major != DLPACK_MAJOR_VERSION)
		return NULL;
	const DLPackExchangeAPI *api = (const DLPackExchangeAPI *)h;
	return api->managed_tensor_from_py_object_no_sync != NULL ? api : NULL;
}

static int has_type_attr(ho_PyTypeObject *type, ho_PyObject *name)
{
	ho_PyObject *v = type_attr(type, name);
	ho_xdecref(v);
	return v != NULL;
}

/* Looks at a type for the first time. Runs Python code, so the entry is
 * filled in after all of it. */
static struct entry classify(ho_PyObject *obj, ho_PyTypeObject *type)
{
	struct entry e = { .type = type, .kind = KIND_NONE };

	if (type == ho_view_type || type == ho_array_type) {
		e.kind = KIND_OURS;
		return e;
	}
	if (type == (ho_PyTypeObject *)ho_py.PyCapsule_Type) {
		e.kind = KIND_CAPSULE;
		return e;
	}
	if (ho_numpy_direct < 0)
		try_numpy(type);
	if (type == ndarray_type) {
		e.kind = KIND_NDARRAY;
		return e;
	}
	e.tells_device = has_type_attr(type, ho_names.dlpack_device);
	for (int i = 0; i < 2 && e.table == NULL; i++) {
		ho_PyObject *v = type_attr(type, i == 0 ? ho_names.exchange_api : ho_names.exchange_api_12);
		if (v != NULL)
			e.table = table_of(v);
		ho_xdecref(v);
	}
	if (e.table != NULL) {
		e.kind = KIND_TABLE;
		e.flags_matter = has_type_attr(type, ho_names.readonly);
	} else if (ho_cupy_is(type)) {
		e.kind = KIND_CUPY;
	} else if (has_type_attr(type, ho_names.dlpack)) {
		e.kind = KIND_DLPACK;
	} else if (has_type_attr(type, ho_names.cuda_array_interface)) {
		e.kind = KIND_CUDA;
	} else if (ho_py.PyObject_CheckBuffer(obj)) {
		e.kind = KIND_BUFFER;
	} else if (has_type_attr(type, ho_names.array_interface)) {
		e.kind = KIND_INTERFACE;
	}
	return e;
}

static struct entry lookup(ho_PyObject *obj)
{
	ho_PyTypeObject *type = HO_TYPE(obj);
	struct entry *slot = slot_of(type);

	if (HO_LIKELY(slot->type == type))
		return *slot;
	struct entry e = classify(obj, type);
	ho_PyTypeObject *old = slot->type;
	ho_py.Py_IncRef((ho_PyObject *)type);
	*slot = e;
	ho_xdecref((ho_PyObject *)old);
	return e;
}

/* ---- Exchange table ----------------------------------------------------- */

/* -1 must come with an exception; some tables forget it (B119). */
static int table_failed(const char *what)
{
	if (ho_py.PyErr_Occurred() == NULL)
		ho_raise(HO_X_BUFFER, 101, op, "%s of the type's exchange table failed and set no exception", what);
	return -1;
}

/* The stream on which GPU data becomes ready (R103, R108). */
static int ask_stream(const DLPackExchangeAPI *api, ho_arg *out)
{
	if (HO_LIKELY(out->device.device_type == kDLCPU) || api->current_work_stream == NULL)
		return 0;
	if (api->current_work_stream(out->device.device_type, out->device.device_id, &out->stream) != 0)
		return table_failed("current_work_stream");
	out->flags |= HO_ARG_PRODUCER;
	return 0;
}

int ho_producer_stream(ho_PyObject *obj, DLDevice device, void **stream)
{
	struct entry e = lookup(obj);

	*stream = NULL;
	if (e.kind != KIND_TABLE || e.table->current_work_stream == NULL)
		return 0;
	if (e.table->current_work_stream(device.device_type, device.device_id, stream) != 0)
		return table_failed("current_work_stream");
	return 1;
}

static int from_managed(ho_PyObject *obj, unsigned want, const DLPackExchangeAPI *api, ho_arg *out);

static int take_table(ho_PyObject *obj, unsigned want, const DLPackExchangeAPI *api, int flags_matter, ho_arg *out)
{
	DLTensor t;
	int rule = 0;

	/* Lending has no flags: not for types that have read-only instances. */
	if (want & HO_WANT_OWNED || flags_matter || api->dltensor_from_py_object_no_sync == NULL) /* R094 */
		return from_managed(obj, want, api, out);
	if (api->dltensor_from_py_object_no_sync(obj, &t) != 0) {
		ho_py.PyErr_Clear(); /* what it cannot lend it may be able to give */
		return from_managed(obj, want, api, out);
	}
	int code = ho_check_tensor(&t, 0, &rule);
	if (HO_UNLIKELY(code != 0))
		return refuse_tensor(&t, code, rule);
	if (take_tensor(out, &t, 0, want) != 0)
		return -1;
	out->held = HO_HELD_LENT;
	out->hold.table = api;
	if (ask_stream(api, out) != 0) {
		ho_arg_done(out);
		return -1;
	}
	return 0;
}

/* Takes a managed tensor that is ours; deletes it on failure (R067). */
static inline __attribute__((always_inline)) int take_versioned(DLManagedTensorVersioned *m, unsigned want, ho_arg *out)
{
	int rule = 0, code = ho_check_versioned(m, &rule);

	if (HO_UNLIKELY(code != 0)) {
		if (code == HO_E_VERSION)
			ho_raise(code, rule, op, "DLPack version %u.%u is not supported", m->version.major, m->version.minor);
		else if (code == HO_E_FLAGS)
			ho_raise(code, rule, op, "flags 0x%llx has unknown bits", (unsigned long long)m->flags);
		else
			refuse_tensor(&m->dl_tensor, code, rule);
		return -1;
	}
	if (take_tensor(out, &m->dl_tensor, m->flags, want) != 0)
		return -1;
	out->held = HO_HELD_VERSIONED;
	out->hold.versioned = m;
	return 0;
}

/* Runs a deleter with the pending exception put aside (R066). */
static void delete_kept(DLManagedTensorVersioned *v, DLManagedTensor *l)
{
	ho_PyObject *type, *value, *trace;

	ho_py.PyErr_Fetch(&type, &value, &trace);
	if (v != NULL)
		ho_release_versioned(v);
	if (l != NULL)
		ho_release_legacy(l);
	ho_py.PyErr_Restore(type, value, trace);
}

static int from_managed(ho_PyObject *obj, unsigned want, const DLPackExchangeAPI *api, ho_arg *out)
{
	DLManagedTensorVersioned *m = NULL;

	if (api->managed_tensor_from_py_object_no_sync(obj, &m) != 0)
		return table_failed("managed_tensor_from_py_object_no_sync");
	if (m == NULL)
		return ho_raise(HO_E_NULL, 95, op, "the exchange table gave a NULL tensor");
	if (take_versioned(m, want, out) != 0) {
		delete_kept(m, NULL);
		return -1;
	}
	if (ask_stream(api, out) != 0) {
		ho_arg_done(out);
		return -1;
	}
	return 0;
}

/* ---- Capsules and __dlpack__ -------------------------------------------- */

/* Consumes a capsule. It is left fresh when refused, and frees (R080). */
static int take_capsule(ho_PyObject *capsule, unsigned want, ho_arg *out)
{
	const char *name = ho_py.PyCapsule_GetName(capsule);
	int rule = 0;

	if (name == NULL)
		ho_py.PyErr_Clear(); /* a nameless capsule sets nothing; be safe */
	if (name != NULL && strcmp(name, "dltensor_versioned") == 0) {
		DLManagedTensorVersioned *m = ho_py.PyCapsule_GetPointer(capsule, name);
		if (m == NULL || take_versioned(m, want, out) != 0)
			return -1;
		name = "used_dltensor_versioned";
	} else if (name != NULL && strcmp(name, "dltensor") == 0) {
		DLManagedTensor *m = ho_py.PyCapsule_GetPointer(capsule, name);
		if (m == NULL)
			return -1;
		int code = ho_check_legacy(m, &rule);
		if (HO_UNLIKELY(code != 0))
			return refuse_tensor(&m->dl_tensor, code, rule);
		if (take_tensor(out, &m->dl_tensor, 0, want) != 0)
			return -1;
		out->held = HO_HELD_LEGACY;
		out->hold.legacy = m;
		name = "used_dltensor";
	} else if (name != NULL && strncmp(name, "used_dltensor", 13) == 0) {
		return ho_raise(HO_X_CAPSULE, 81, op, "this capsule was consumed before; ask the producer for a new one");
	} else {
		return ho_raise(HO_X_CAPSULE, 76, op, "a capsule named %s%.60s%s is not a DLPack tensor", name ? "'" : "",
		                name ? name : "NULL", name ? "'" : "");
	}
	/* From here the tensor is ours. The destructor goes too: some do not look
	 * at the name (B124). */
	ho_py.PyCapsule_SetName(capsule, name);
	ho_py.PyCapsule_SetDestructor(capsule, NULL);
	return 0;
}

/* __dlpack_device__(), checked: two ints, a type that we know (R154, R156). */
static int ask_device(ho_PyObject *obj, DLDevice *device)
{
	ho_PyObject *r = ho_py.PyObject_VectorcallMethod != NULL
	                         ? ho_py.PyObject_VectorcallMethod(ho_names.dlpack_device, &obj, 1, NULL)
	                         : ho_py.PyObject_CallMethodObjArgs(obj, ho_names.dlpack_device, NULL);
	int overflow = 0;

	if (r == NULL) {
		/* Our own words only for a missing method. */
		if (ho_py.PyErr_ExceptionMatches(ho_py.PyExc_AttributeError)) {
			ho_PyObject *type, *value, *trace;
			ho_py.PyErr_Fetch(&type, &value, &trace);
			ho_PyObject *method = ho_py.PyObject_GetAttr(obj, ho_names.dlpack_device);
			if (method == NULL) {
				ho_py.PyErr_Clear();
				ho_xdecref(type);
				ho_xdecref(value);
				ho_xdecref(trace);
				return ho_raise(HO_X_PROTOCOL, 158, op, "the object has __dlpack__ but no __dlpack_device__");
			}
			ho_py.Py_DecRef(method);
			ho_py.PyErr_Restore(type, value, trace);
		}
		return -1;
	}
	long long v[2] = { 0, 0 };
	int ok = ho_py.PyType_IsSubtype(HO_TYPE(r), (ho_PyTypeObject *)ho_py.PyTuple_Type) &&
	         ho_py.PyTuple_Size(r) == 2;
	for (int i = 0; i < 2 && ok; i++) {
		ho_PyObject *n = ho_py.PyNumber_Index(ho_py.PyTuple_GetItem(r, i));
		if (n != NULL)
			v[i] = ho_py.PyLong_AsLongLongAndOverflow(n, &overflow);
		ok = n != NULL && !overflow && v[i] >= INT32_MIN && v[i] <= INT32_MAX;
		ho_xdecref(n);
	}
	ho_py.Py_DecRef(r);
	if (!ok) {
		if (ho_py.PyErr_Occurred() && ho_other_than(ho_py.PyExc_TypeError))
			return -1;
		return ho_raise(HO_X_TYPE, 154, op, "__dlpack_device__ did not return a tuple of two ints");
	}
	if (v[0] < 1 || v[0] > 21 || v[0] == 5 || v[0] == 6)
		return ho_raise(HO_E_DEVICE, 35, op, "device type %lld is not known", v[0]);
	device->device_type = (DLDeviceType)v[0];
	device->device_id = (int32_t)v[1];
	return 0;
}

/* One form of the call: which keywords it has. */
struct form {
	unsigned char max_version, copy, device;
};

/* The names of keywords as a tuple, by which of them there are; kept. */
static ho_PyObject *keywords_of(unsigned which)
{
	static ho_PyObject *known[16];
	ho_PyObject *const all[] = { ho_names.stream, ho_names.max_version, ho_names.dl_device, ho_names.copy };

	if (known[which] != NULL)
		return known[which];
	ho_PyObject *t = ho_py.PyTuple_New(__builtin_popcount(which));
	for (int i = 0, n = 0; t != NULL && i < 4; i++)
		if (which & 1u << i)
			ho_py.PyTuple_SetItem(t, n++, ho_newref(all[i]));
	return known[which] = t;
}

static ho_PyObject *call_dlpack(ho_PyObject *obj, ho_PyObject *stream, ho_PyObject *device, ho_PyObject *copy,
                                struct form f)
{
	ho_PyObject *const values[] = { stream, f.max_version ? ho_names.max_version_value : NULL,
		                        f.device ? device : NULL, f.copy ? copy : NULL };
	ho_PyObject *args[5] = { obj };
	unsigned which = 0;
	int n = 1;

	for (int i = 0; i < 4; i++)
		if (values[i] != NULL) {
			args[n++] = values[i];
			which |= 1u << i;
		}
	ho_PyObject *names = which != 0 ? keywords_of(which) : NULL;
	if (which != 0 && names == NULL)
		return NULL;
	if (HO_LIKELY(ho_py.PyObject_VectorcallMethod != NULL))
		return ho_py.PyObject_VectorcallMethod(ho_names.dlpack, args, 1, names);
	ho_PyObject *method = ho_py.PyObject_GetAttr(obj, ho_names.dlpack), *result = NULL;
	if (method == NULL)
		return NULL;
	ho_PyObject *kwargs = ho_py.PyDict_New();
	for (int i = 1; kwargs != NULL && i < n; i++)
		if (ho_py.PyDict_SetItem(kwargs, ho_py.PyTuple_GetItem(names, i - 1), args[i]) != 0) {
			ho_py.Py_DecRef(kwargs);
			kwargs = NULL;
		}
	if (kwargs != NULL)
		result = ho_py.PyObject_Call(method, ho_names.empty, kwargs);
	ho_xdecref(kwargs);
	ho_py.Py_DecRef(method);
	return result;
}

/* Calls __dlpack__ with all keywords, then with fewer, one at a time, for as
 * long as the producer answers TypeError (R122 to R124, B174). *dropped says
 * what the answer knows nothing of. The first TypeError is the one to show. */
static ho_PyObject *ask_capsule(ho_PyObject *obj, ho_PyObject *stream, ho_PyObject *device, ho_PyObject *copy,
                                struct form *dropped)
{
	static const struct form forms[] = { { 1, 1, 1 }, { 0, 1, 1 }, { 1, 0, 0 }, { 0, 0, 1 }, { 0, 0, 0 } };
	ho_PyObject *type = NULL, *value = NULL, *trace = NULL, *capsule = NULL;

	for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
		struct form f = forms[i];
		/* Without device and copy these forms are repetitions. */
		if (device == NULL && copy == NULL && (i == 2 || i == 3))
			continue;
		if (i == 1 && device == NULL && copy == NULL)
			f = forms[4];
		else if (i == 4 && device == NULL && copy == NULL)
			break;
		capsule = call_dlpack(obj, stream, device, copy, f);
		*dropped = (struct form){ !f.max_version, copy != NULL && !f.copy, device != NULL && !f.device };
		if (capsule != NULL || !ho_py.PyErr_ExceptionMatches(ho_py.PyExc_TypeError))
			break;
		if (type == NULL)
			ho_py.PyErr_Fetch(&type, &value, &trace);
		else
			ho_py.PyErr_Clear();
	}
	if (type != NULL) {
		if (capsule == NULL && ho_py.PyErr_Occurred() == NULL) {
			ho_py.PyErr_Restore(type, value, trace);
			return NULL;
		}
		ho_py.Py_DecRef(type);
		ho_xdecref(value);
		ho_xdecref(trace);
	}
	return capsule;
}

/* The stream integer for a device that the caller said nothing about: the
 * legacy default stream of a GPU (R141), nothing for host memory (R147). */
static int default_stream(DLDeviceType type, int64_t *stream)
{
	if (type == kDLCUDA)
		*stream = 1;
	else if (type == kDLROCM)
		*stream = 0;
	else
		return 0;
	return 1;
}

static ho_PyObject *device_tuple(DLDevice d)
{
	ho_PyObject *type = ho_py.PyLong_FromLong((long)d.device_type), *id = ho_py.PyLong_FromLong(d.device_id);
	ho_PyObject *t = type != NULL && id != NULL ? ho_py.PyTuple_Pack(2, type, id) : NULL;

	ho_xdecref(type);
	ho_xdecref(id);
	return t;
}

/* A refused capsule frees its tensor. Its destructor may be careless with a
 * pending exception (B134). */
static void drop_capsule(ho_PyObject *capsule)
{
	ho_PyObject *type, *value, *trace;

	if (capsule == NULL)
		return;
	ho_py.PyErr_Fetch(&type, &value, &trace);
	ho_py.Py_DecRef(capsule);
	ho_py.PyErr_Restore(type, value, trace);
}

/* A legacy capsule cannot say read-only, and not every producer of immutable
 * arrays refuses to make one (R057: JAX does not). Where the object has a
 * buffer as well, its word counts; one that it does not give is not writable. */
static int buffer_denies_writing(ho_PyObject *obj)
{
	ho_Py_buffer b = { 0 };

	if (!ho_py.PyObject_CheckBuffer(obj))
		return 0;
	if (ho_py.PyObject_GetBuffer(obj, &b, HO_PyBUF_RECORDS_RO) != 0) {
		ho_py.PyErr_Clear();
		return 1;
	}
	int readonly = b.readonly;
	ho_py.PyBuffer_Release(&b);
	return readonly;
}

static int take_dlpack(ho_PyObject *obj, unsigned want, const ho_request *req, ho_arg *out)
{
	DLDevice device = { 0 }, target;
	ho_PyObject *stream = NULL, *dl_device = NULL, *copy = NULL, *capsule = NULL;
	struct form dropped;
	int64_t s = 0;
	int r = -1;

	if (ask_device(obj, &device) != 0)
		return -1;
	target = device;
	if (req != NULL && req->has_device) {
		target = req->device;
		/* Its own device needs no keyword. */
		if (target.device_type != device.device_type || target.device_id != device.device_id) {
			dl_device = device_tuple(target);
			if (dl_device == NULL)
				return -1;
		}
	}
	int has_stream = req != NULL && req->has_stream ? (s = req->stream, 1) : default_stream(target.device_type, &s);
	if (has_stream && target.device_type != kDLCPU) {
		stream = ho_py.PyLong_FromLongLong(s);
		if (stream == NULL)
			goto done;
	}
	if (req != NULL && req->copy >= 0)
		copy = req->copy ? HO_TRUE : HO_FALSE;
	capsule = ask_capsule(obj, stream, dl_device, copy, &dropped);
	if (capsule == NULL)
		goto done;
	if (HO_TYPE(capsule) != (ho_PyTypeObject *)ho_py.PyCapsule_Type) {
		ho_raise(HO_X_TYPE, 115, op, "__dlpack__ did not return a capsule");
		goto done;
	}
	/* What an older producer was not asked is ours to enforce (R125). The
	 * caller copies; a promise not to copy cannot be had. */
	if (dropped.copy && !req->copy) {
		ho_raise(HO_X_COPY, 125, op, "the producer does not know copy=False, so it cannot promise not to copy");
		goto done;
	}
	if (take_capsule(capsule, want & ~(unsigned)HO_WANT_WRITABLE, out) != 0)
		goto done;
	if (dl_device != NULL &&
	    (out->device.device_type != target.device_type || out->device.device_id != target.device_id)) {
		ho_arg_done(out);
		ho_raise(HO_E_DEVICE, 160, op, "the producer did not deliver to device (%d, %d)", (int)target.device_type,
		         (int)target.device_id);
		goto done;
	}
	if (out->held == HO_HELD_LEGACY && out->device.device_type == kDLCPU && buffer_denies_writing(obj))
		out->flags |= HO_ARG_READONLY;
	if (check_writable(want, out->flags) != 0) {
		ho_arg_done(out);
		goto done;
	}
	/* Ordered on the stream that was passed: as raw handles 1 is the legacy
	 * default stream too. */
	if (stream != NULL && s > 0)
		out->stream = (void *)(intptr_t)s, out->flags |= HO_ARG_ORDERED;
	r = 0;
done:
	drop_capsule(capsule);
	ho_xdecref(stream);
	ho_xdecref(dl_device);
	return r;
}

/* ---- Our own objects ---------------------------------------------------- */

static int take_ours(ho_PyObject *obj, unsigned want, ho_arg *out)
{
	ho_view *v = (ho_view *)obj;

	if (HO_UNLIKELY(v->released))
		return ho_raise(HO_X_CLOSED, 0, op, "the view was released");
	if (v->t.dtype.bits == 0)
		return ho_raise(HO_E_DTYPE, 285, op, "the dtype of this view has no counterpart in DLPack");
	if (take_tensor(out, &v->t, v->flags & ~(uint64_t)DLPACK_FLAG_BITMASK_IS_COPIED, want) != 0)
		return -1;
	if (HO_UNLIKELY(v->ordered)) {
		out->stream = v->stream;
		out->flags |= HO_ARG_PRODUCER;
	}
	if (want & HO_WANT_OWNED) {
		if (HO_UNLIKELY(v->managed != NULL) && ho_view_share(v) != 0) {
			ho_arg_done(out); /* nothing is held yet */
			return -1;
		}
		if (v->owner != NULL) {
			ho_owner_ref(v->owner);
			out->held = HO_HELD_OWNER;
			out->hold.owner = v->owner;
		} else {
			out->held = HO_HELD_OBJECT;
			out->hold.object = ho_newref(obj);
		}
	}
	return 0;
}

/* ---- Buffer protocol ---------------------------------------------------- */

/* Tells a buffer's layout to out; not yet what is held. */
static int read_buffer(const ho_Py_buffer *b, unsigned want, ho_arg *out)
{
	int64_t size = 1;
	int32_t n = b->ndim;

	if (n < 0 || n > HO_MAX_DIMS)
		return ho_raise(HO_E_LAYOUT, 255, op, "a buffer of %d dimensions", n);
	if (b->itemsize <= 0)
		return ho_raise(HO_E_LAYOUT, 259, op, "a buffer with itemsize %lld", (long long)b->itemsize);
	for (int32_t i = 0; b->suboffsets != NULL && i < n; i++)
		if (b->suboffsets[i] >= 0)
			return ho_raise(HO_E_LAYOUT, 245, op, "a buffer with suboffsets");
	if (n > 0 && b->shape == NULL) { /* R238 */
		if (n > 1)
			return ho_raise(HO_E_LAYOUT, 238, op, "a buffer of %d dimensions without a shape", n);
		ho_Py_buffer flat = *b;
		ho_ssize extent = b->len;
		flat.shape = &extent;
		flat.strides = NULL;
		flat.itemsize = 1;
		flat.format = NULL;
		return read_buffer(&flat, want, out);
	}
	if (ho_parse_format(b->format, b->itemsize, &out->dtype) != 0)
		return -1;
	out->data = (uint64_t)(uintptr_t)b->buf;
	out->device = (DLDevice){ kDLCPU, 0 };
	out->flags = b->readonly ? HO_ARG_ALIGNED | HO_ARG_READONLY : HO_ARG_ALIGNED;
	if (check_writable(want, out->flags) != 0 || room(out, n) != 0)
		return -1;
	for (int32_t i = 0; i < n; i++) {
		out->shape[i] = b->shape[i];
		if (__builtin_mul_overflow(size, out->shape[i], &size))
			size = -1;
	}
	if (n > 0 && b->strides == NULL) {
		if (ho_row_major(n, out->shape, out->strides) != 0) {
			ho_raise(HO_E_OVERFLOW, 34, op, "the shape of a buffer does not fit in 64 bits");
			goto fail;
		}
	} else {
		for (int32_t i = 0; i < n; i++) {
			if (b->strides[i] % b->itemsize == 0)
				out->strides[i] = b->strides[i] / b->itemsize;
			else if (odd_stride(b->shape[i], b->strides[i], (int)b->itemsize, &out->strides[i]) != 0)
				goto fail;
		}
	}
	DLTensor t = { b->buf, out->device, n, out->dtype, out->shape, out->strides, 0 };
	int rule = 0, code = ho_check_tensor(&t, 0, &rule);
	if (code != 0) {
		refuse_tensor(&t, code, rule);
		goto fail;
	}
	if (size * b->itemsize != b->len) { /* fits: checked */
		ho_raise(HO_E_LAYOUT, 236, op, "a buffer of %lld bytes for %lld elements of %lld bytes", (long long)b->len,
		         (long long)size, (long long)b->itemsize);
		goto fail;
	}
	return 0;
fail:
	if (out->shape != out->dims)
		free(out->shape);
	return -1;
}

static int take_buffer(ho_PyObject *obj, unsigned want, ho_arg *out)
{
	ho_Py_buffer *b = calloc(1, sizeof *b);

	if (b == NULL) {
		ho_py.PyErr_NoMemory();
		return -1;
	}
	/* Read-only is accepted here, so that the refusal is our own; suboffsets
	 * are not asked for (R245). */
	if (ho_py.PyObject_GetBuffer(obj, b, HO_PyBUF_RECORDS_RO) != 0) {
		free(b);
		return -1;
	}
	if (read_buffer(b, want, out) != 0) {
		ho_PyObject *type, *value, *trace;
		ho_py.PyErr_Fetch(&type, &value, &trace);
		ho_py.PyBuffer_Release(b);
		ho_py.PyErr_Restore(type, value, trace);
		free(b);
		return -1;
	}
	out->held = HO_HELD_BUFFER;
	out->hold.buffer = b;
	return 0;
}

/* ---- __array_interface__ ------------------------------------------------ */

static const char ai_op[] = "array interface";

static int is_type(ho_PyObject *o, ho_PyObject *type)
{
	return ho_py.PyType_IsSubtype(HO_TYPE(o), (ho_PyTypeObject *)type);
}

/* A tuple of n ints (n < 0: any number) into out; TypeError of `rule`. */
static int take_ints(ho_PyObject *tuple, const char *key, int rule, int64_t *out)
{
	if (!is_type(tuple, ho_py.PyTuple_Type))
		return ho_raise(HO_X_TYPE, rule, ai_op, "%s is not a tuple", key);
	ho_ssize n = ho_py.PyTuple_Size(tuple);
	for (ho_ssize i = 0; i < n; i++) {
		ho_PyObject *v = ho_py.PyNumber_Index(ho_py.PyTuple_GetItem(tuple, i));
		int overflow = 0;
		if (v == NULL) {
			if (ho_other_than(ho_py.PyExc_TypeError))
				return -1;
			return ho_raise(HO_X_TYPE, rule, ai_op, "%s[%lld] is not an int", key, (long long)i);
		}
		out[i] = ho_py.PyLong_AsLongLongAndOverflow(v, &overflow);
		ho_py.Py_DecRef(v);
		if (overflow)
			return ho_raise(HO_X_VALUE, rule, ai_op, "%s[%lld] does not fit in 64 bits", key, (long long)i);
	}
	return 0;
}

/* dict[name], or NULL; None counts as absent. */
static ho_PyObject *entry_of(ho_PyObject *dict, ho_PyObject *name)
{
	ho_PyObject *v = ho_py.PyDict_GetItemWithError(dict, name);
	if (v == NULL)
		ho_py.PyErr_Clear();
	return v == HO_NONE ? NULL : v;
}

/* The memory: an address, or a buffer whose hold goes to out. */
static int take_data(ho_PyObject *obj, ho_PyObject *dict, int64_t *length, ho_arg *out)
{
	ho_PyObject *data = entry_of(dict, ho_names.data), *offset = entry_of(dict, ho_names.offset);
	int64_t shift = 0;

	*length = -1;
	if (data != NULL && is_type(data, ho_py.PyTuple_Type)) {
		if (ho_py.PyTuple_Size(data) != 2)
			return ho_raise(HO_X_TYPE, 206, ai_op, "data is not a tuple of an address and a flag");
		ho_PyObject *n = ho_py.PyNumber_Index(ho_py.PyTuple_GetItem(data, 0));
		unsigned long long address = n != NULL ? ho_py.PyLong_AsUnsignedLongLong(n) : 0;
		ho_xdecref(n);
		if (ho_py.PyErr_Occurred()) {
			if (ho_other_than(ho_py.PyExc_TypeError) && ho_other_than(ho_py.PyExc_OverflowError))
				return -1;
			return ho_raise(HO_X_TYPE, 206, ai_op, "data[0] is not an address");
		}
		int readonly = ho_py.PyObject_IsTrue(ho_py.PyTuple_GetItem(data, 1));
		if (readonly < 0)
			return -1;
		out->data = address;
		out->flags = readonly ? HO_ARG_ALIGNED | HO_ARG_READONLY : HO_ARG_ALIGNED; /* R211 */
		return 0;
	}
	/* No data: the buffer of the object itself (R207). */
	ho_PyObject *source = data != NULL ? data : obj;
	if (!ho_py.PyObject_CheckBuffer(source))
		return ho_raise(HO_X_TYPE, data != NULL ? 206 : 207, ai_op,
		                data != NULL ? "data is neither a tuple nor a buffer" : "no data, and the object has no buffer");
	if (offset != NULL) {
		ho_PyObject *n = ho_py.PyNumber_Index(offset);
		int overflow = 0;
		shift = n != NULL ? ho_py.PyLong_AsLongLongAndOverflow(n, &overflow) : -1;
		ho_xdecref(n);
		if (n == NULL) {
			if (ho_other_than(ho_py.PyExc_TypeError))
				return -1;
			return ho_raise(HO_X_TYPE, 208, ai_op, "offset is not an int");
		}
		if (overflow || shift < 0)
			return ho_raise(HO_X_VALUE, 208, ai_op, "offset is outside the buffer");
	}
	ho_Py_buffer *b = calloc(1, sizeof *b);
	if (b == NULL) {
		ho_py.PyErr_NoMemory();
		return -1;
	}
	if (ho_py.PyObject_GetBuffer(source, b, HO_PyBUF_SIMPLE) != 0) {
		free(b);
		return -1;
	}
	out->held = HO_HELD_BUFFER;
	out->hold.buffer = b;
	out->flags = b->readonly ? HO_ARG_ALIGNED | HO_ARG_READONLY : HO_ARG_ALIGNED;
	if (shift > b->len)
		return ho_raise(HO_X_VALUE, 208, ai_op, "offset %lld is outside the buffer of %lld bytes", (long long)shift,
		                (long long)b->len);
	out->data = (uint64_t)(uintptr_t)b->buf + (uint64_t)shift;
	*length = b->len - shift;
	return 0;
}

/* Reads the dict. On failure ho_arg_done is the caller's. */
static int read_interface(ho_PyObject *obj, ho_PyObject *dict, unsigned want, int any, int64_t *itemsize, ho_arg *out)
{
	if (!is_type(dict, ho_py.PyDict_Type))
		return ho_raise(HO_X_VALUE, 200, ai_op, "__array_interface__ is not a dict");
	ho_PyObject *shape = entry_of(dict, ho_names.shape), *typestr = entry_of(dict, ho_names.typestr);
	ho_PyObject *strides = entry_of(dict, ho_names.strides);
	ho_PyObject *version = entry_of(dict, ho_names.version);
	if (shape == NULL || typestr == NULL || version == NULL)
		return ho_raise(HO_X_VALUE, 201, ai_op, "the key %s is missing",
		                shape == NULL ? "shape" : typestr == NULL ? "typestr" : "version");
	long long number = ho_py.PyLong_AsLongLong(version);
	if (number == -1 && ho_py.PyErr_Occurred()) {
		if (ho_other_than(ho_py.PyExc_TypeError) && ho_other_than(ho_py.PyExc_OverflowError))
			return -1;
		return ho_raise(HO_X_TYPE, 201, ai_op, "version is not an int");
	}
	if (number < 3) /* newer ones are welcome (R218) */
		return ho_raise(HO_E_VERSION, 201, ai_op, "version %lld: only v3 or above", number);
	if (entry_of(dict, ho_names.mask) != NULL)
		return ho_raise(HO_X_MASK, 217, ai_op, "masked arrays are not supported");
	if (!is_type(typestr, ho_py.PyUnicode_Type))
		return ho_raise(HO_X_TYPE, 203, ai_op, "typestr is not a str");
	const char *s = ho_py.PyUnicode_AsUTF8AndSize(typestr, NULL);
	if (s == NULL)
		return -1;
	int r = ho_parse_typestr(s, &out->dtype, itemsize);
	if (r < 0)
		return -1;
	if (r == 2)
		return ho_raise(HO_E_DTYPE, 204, ai_op, "typestr '%.40s' is in foreign byte order", s);
	if (r == 1) {
		if (!any)
			return ho_raise(HO_E_DTYPE, 285, ai_op, "typestr '%.40s' has no counterpart in DLPack", s);
		if (*itemsize <= 0)
			return ho_raise(HO_X_VALUE, 203, ai_op, "typestr '%.40s' has no size", s);
		if (ho_check_descr(ai_op, s, entry_of(dict, ho_names.descr), *itemsize) != 0)
			return -1;
		out->dtype = (DLDataType){ kDLOpaqueHandle, 0, 1 };
	}
	if (!is_type(shape, ho_py.PyTuple_Type))
		return ho_raise(HO_X_TYPE, 202, ai_op, "shape is not a tuple");
	ho_ssize n = ho_py.PyTuple_Size(shape);
	if (n > HO_MAX_DIMS)
		return ho_raise(HO_X_VALUE, 202, ai_op, "%lld dimensions", (long long)n);
	if (room(out, (int32_t)n) != 0 || take_ints(shape, "shape", 202, out->shape) != 0)
		return -1;
	for (ho_ssize i = 0; i < n; i++)
		if (out->shape[i] < 0)
			return ho_raise(HO_X_VALUE, 202, ai_op, "shape[%lld] is negative", (long long)i);
	if (strides != NULL) {
		if (!is_type(strides, ho_py.PyTuple_Type))
			return ho_raise(HO_X_TYPE, 214, ai_op, "strides is not a tuple");
		if (ho_py.PyTuple_Size(strides) != n)
			return ho_raise(HO_X_VALUE, 213, ai_op, "%lld strides for %lld dimensions",
			                (long long)ho_py.PyTuple_Size(strides), (long long)n);
		if (take_ints(strides, "strides", 214, out->strides) != 0)
			return -1;
		for (ho_ssize i = 0; i < n; i++) {
			int64_t bytes = out->strides[i];
			if (bytes % *itemsize != 0 && out->shape[i] > 1)
				return ho_raise(HO_E_LAYOUT, 281, ai_op, "strides must be divisible by itemsize: %lld by %lld",
				                (long long)bytes, (long long)*itemsize);
			out->strides[i] = bytes / *itemsize;
		}
	} else if (ho_row_major((int32_t)n, out->shape, out->strides) != 0) {
		return ho_raise(HO_E_OVERFLOW, 34, ai_op, "the shape does not fit in 64 bits");
	}
	int64_t length;
	out->device = (DLDevice){ kDLCPU, 0 };
	if (take_data(obj, dict, &length, out) != 0 || check_writable(want, out->flags) != 0)
		return -1;

	/* The checks of a tensor; a type without a counterpart passes as bytes. */
	int64_t item = *itemsize, span_lo, span_hi;
	DLTensor t = { (void *)(uintptr_t)out->data, out->device, (int32_t)n, out->dtype, out->shape, out->strides, 0 };
	if (t.dtype.bits == 0) {
		t.dtype = (DLDataType){ kDLUInt, 8, 1 };
		if (item <= UINT16_MAX)
			t.dtype.lanes = (uint16_t)item;
		else
			return ho_raise(HO_E_DTYPE, 203, ai_op, "elements of %lld bytes", (long long)item);
	}
	int rule = 0, code = ho_check_tensor(&t, 0, &rule);
	if (code == HO_E_NULL)
		return ho_raise(HO_X_VALUE, 209, ai_op, "the address is 0 and the array is not empty");
	if (code != 0)
		return refuse_tensor(&t, code, rule);
	ho_span((int32_t)n, out->shape, out->strides, item, &span_lo, &span_hi);
	if (length >= 0 && (span_lo < 0 || span_hi > length))
		return ho_raise(HO_X_VALUE, 208, ai_op, "the array reaches bytes %lld to %lld of a buffer of %lld",
		                (long long)span_lo, (long long)span_hi, (long long)length);
	return 0;
}

static int take_interface(ho_PyObject *obj, unsigned want, int any, int64_t *itemsize, ho_arg *out)
{
	ho_PyObject *dict = ho_py.PyObject_GetAttr(obj, ho_names.array_interface);
	if (dict == NULL)
		return -1;
	if (is_type(dict, ho_py.PyDict_Type)) {
		/* Reading an entry may run code (__index__) that changes the
		 * producer's dict, so that what was found in it is gone. */
		ho_PyObject *theirs = dict;
		dict = ho_py.PyDict_Copy(theirs);
		ho_py.Py_DecRef(theirs);
		if (dict == NULL)
			return -1;
	}
	int r = read_interface(obj, dict, want, any, itemsize, out);
	ho_py.Py_DecRef(dict);
	if (r != 0) {
		ho_arg_done(out);
		return -1;
	}
	if (out->held == HO_HELD_NONE && want & HO_WANT_OWNED) { /* R219 */
		out->held = HO_HELD_OBJECT;
		out->hold.object = ho_newref(obj);
	}
	return 0;
}

/* ---- Entry points ------------------------------------------------------- */

static int no_protocol(ho_PyObject *obj, ho_failed *f, const char *wanted)
{
	if (ho_failed_raise(f))
		return -1;
	ho_PyObject *name = ho_py.PyType_GetName(HO_TYPE(obj));
	const char *s = name != NULL ? ho_py.PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
	if (s == NULL)
		ho_py.PyErr_Clear();
	ho_raise(HO_X_PROTOCOL, 158, op, "an object of type %.80s has no %s", s != NULL ? s : "?", wanted);
	ho_xdecref(name);
	return -1;
}

static int take_cupy(ho_PyObject *obj, unsigned want, const ho_request *req, ho_arg *out)
{
	if (HO_LIKELY(ho_cupy_take(obj, want, out) == 0))
		return 0;
	start(out, obj);
	return take_dlpack(obj, want, req, out);
}

/* An array with the CUDA array interface, by way of a view on it. */
static int take_cuda(ho_PyObject *obj, unsigned want, ho_arg *out)
{
	ho_view *v = ho_view_of_cuda_interface(obj, HO_STREAM_NOSYNC, NULL);

	if (v == NULL)
		return -1;
	if (take_ours(&v->ob, want, out) != 0) {
		ho_py.Py_DecRef(&v->ob);
		return -1;
	}
	if (out->held == HO_HELD_NONE) {
		out->held = HO_HELD_OBJECT;
		out->hold.object = &v->ob; /* the reference moves */
	} else {
		ho_py.Py_DecRef(&v->ob);
	}
	return 0;
}

static int consume_slow(ho_PyObject *obj, unsigned want, const ho_request *req, ho_arg *out)
{
	int64_t itemsize;
	struct entry e = lookup(obj);

	switch (e.kind) {
	case KIND_OURS:
		return take_ours(obj, want, out);
	case KIND_NDARRAY:
		return take_ndarray(obj, want, out);
	case KIND_TABLE:
		return take_table(obj, want, e.table, e.flags_matter, out);
	case KIND_CUPY:
		return take_cupy(obj, want, req, out);
	case KIND_DLPACK:
		return take_dlpack(obj, want, req, out);
	case KIND_CUDA:
		return take_cuda(obj, want, out);
	case KIND_CAPSULE:
		return take_capsule(obj, want, out);
	case KIND_BUFFER:
		return take_buffer(obj, want, out);
	case KIND_INTERFACE:
		return take_interface(obj, want, 0, &itemsize, out);
	case KIND_NONE:
		break;
	}
	/* Proxies answer on the instance only. */
	ho_failed f = { 0 };
	int r;
	if (ho_probe(obj, ho_names.dlpack, &f))
		r = take_dlpack(obj, want, req, out);
	else if (ho_probe(obj, ho_names.cuda_array_interface, &f))
		r = take_cuda(obj, want, out);
	else if (ho_probe(obj, ho_names.array_interface, &f))
		r = take_interface(obj, want, 0, &itemsize, out);
	else
		r = no_protocol(obj, &f, "__dlpack__, __cuda_array_interface__, buffer or __array_interface__");
	ho_failed_drop(&f);
	return r;
}

int ho_consume(ho_PyObject *obj, unsigned want, ho_arg *out)
{
	ho_PyTypeObject *type = HO_TYPE(obj);

	start(out, obj);
	if (HO_LIKELY(type == ndarray_type))
		return take_ndarray(obj, want, out);
	const struct entry *slot = slot_of(type);
	if (HO_LIKELY(slot->type == type && slot->kind == KIND_TABLE))
		return take_table(obj, want, slot->table, slot->flags_matter, out);
	return consume_slow(obj, want, NULL, out);
}

int ho_consume_on(ho_PyObject *obj, unsigned want, uint64_t stream, ho_arg *out)
{
	ho_PyTypeObject *type = HO_TYPE(obj);
	ho_request req = { .has_stream = 1, .stream = stream == 0 ? 1 : (int64_t)stream, .copy = -1 };

	start(out, obj);
	if (HO_LIKELY(type == ndarray_type))
		return take_ndarray(obj, want, out);
	const struct entry *slot = slot_of(type);
	if (HO_LIKELY(slot->type == type && slot->kind == KIND_TABLE))
		return take_table(obj, want, slot->table, slot->flags_matter, out);
	return consume_slow(obj, want, &req, out);
}

int ho_is_cupy(ho_PyObject *obj)
{
	return lookup(obj).kind == KIND_CUPY;
}

int ho_view_of_table(ho_PyObject *obj, int orders, ho_view **out, uint32_t *flags)
{
	const struct entry *slot = slot_of(HO_TYPE(obj));
	DLManagedTensorVersioned *m = NULL;
	int rule = 0;
	ho_arg arg;

	if (slot->type != HO_TYPE(obj) || slot->kind != KIND_TABLE ||
	    (orders && slot->table->current_work_stream == NULL))
		return 1;
	const DLPackExchangeAPI *api = slot->table;
	if (api->managed_tensor_from_py_object_no_sync(obj, &m) != 0)
		return table_failed("managed_tensor_from_py_object_no_sync");
	if (m == NULL)
		return ho_raise(HO_E_NULL, 95, op, "the exchange table gave a NULL tensor");
	if (HO_UNLIKELY(ho_check_versioned(m, &rule) != 0)) {
		if (take_versioned(m, HO_WANT_OWNED, &arg) == 0) /* it says what is wrong */
			ho_arg_done(&arg);
		else
			delete_kept(m, NULL);
		return -1;
	}
	const DLTensor *t = &m->dl_tensor;
	ho_view *v = ho_view_alloc(ho_view_type, t->ndim);
	if (v == NULL) {
		delete_kept(m, NULL);
		return -1;
	}
	v->managed = m;
	v->exporter = ho_newref(obj);
	v->t.data = (void *)((uintptr_t)t->data + t->byte_offset); /* R042 */
	v->t.device = t->device;
	v->t.dtype = t->dtype;
	for (int32_t i = 0; i < t->ndim; i++)
		v->t.shape[i] = t->shape[i];
	if (t->strides != NULL)
		for (int32_t i = 0; i < t->ndim; i++)
			v->t.strides[i] = t->strides[i];
	else
		ho_row_major(t->ndim, v->t.shape, v->t.strides); /* fits: checked */
	v->flags = m->flags & (DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
	v->itemsize = ho_dtype_bytes(t->dtype);
	ho_view_ready(v);
	*flags = 0;
	if (t->device.device_type != kDLCPU && api->current_work_stream != NULL) {
		void *stream = NULL;
		if (api->current_work_stream(t->device.device_type, t->device.device_id, &stream) != 0) {
			table_failed("current_work_stream");
			ho_py.Py_DecRef(&v->ob);
			return -1;
		}
		*flags = HO_ARG_PRODUCER;
		ho_view_pending(v, (uint64_t)(uintptr_t)stream, 0, NULL);
	}
	*out = v;
	return 0;
}

int ho_speaks_dlpack(ho_PyObject *obj, ho_failed *f)
{
	struct entry e = lookup(obj);

	return e.kind == KIND_OURS || e.kind == KIND_NDARRAY || e.kind == KIND_CUPY || e.kind == KIND_TABLE ||
	       e.kind == KIND_CAPSULE || (e.kind == KIND_DLPACK && e.tells_device) ||
	       (ho_probe(obj, ho_names.dlpack, f) && ho_probe(obj, ho_names.dlpack_device, f));
}

int ho_consume_dlpack(ho_PyObject *obj, unsigned want, const ho_request *req, ho_arg *out)
{
	start(out, obj);
	struct entry e = lookup(obj);
	/* The short ways know nothing of devices and copies. */
	int plain = req == NULL || (!req->has_device && req->copy < 0);
	switch (e.kind) {
	case KIND_OURS:
		if (plain)
			return take_ours(obj, want, out);
		return take_dlpack(obj, want, req, out);
	case KIND_NDARRAY:
		if (plain)
			return take_ndarray(obj, want, out);
		return take_dlpack(obj, want, req, out);
	case KIND_TABLE:
		/* The table does not order: with a stream that the caller names, that
		 * is done after this, and needs to know the producer's. */
		if (plain && (req == NULL || !req->has_stream || req->stream < 0 || e.table->current_work_stream != NULL))
			return take_table(obj, want, e.table, e.flags_matter, out);
		return take_dlpack(obj, want, req, out);
	case KIND_CUPY:
		if (plain)
			return take_cupy(obj, want, req, out);
		return take_dlpack(obj, want, req, out);
	case KIND_CAPSULE:
		return take_capsule(obj, want, out);
	default:
		break;
	}
	ho_failed f = { 0 };
	if (e.kind != KIND_DLPACK && !ho_probe(obj, ho_names.dlpack, &f))
		return no_protocol(obj, &f, "__dlpack__");
	return take_dlpack(obj, want, req, out);
}

int ho_consume_buffer(ho_PyObject *obj, unsigned want, ho_arg *out)
{
	start(out, obj);
	return take_buffer(obj, want, out);
}

int ho_consume_interface(ho_PyObject *obj, unsigned want, int any, int64_t *itemsize, ho_arg *out)
{
	start(out, obj);
	ho_failed f = { 0 };
	if (!ho_probe(obj, ho_names.array_interface, &f))
		return no_protocol(obj, &f, "__array_interface__");
	return take_interface(obj, want, any, itemsize, out);
}

/* ---- Giving back -------------------------------------------------------- */

static void release(uint32_t held, ho_arg *arg)
{
	switch (held) {
	case HO_HELD_BUFFER:
		ho_py.PyBuffer_Release(arg->hold.buffer);
		free(arg->hold.buffer);
		break;
	case HO_HELD_VERSIONED:
		ho_release_versioned(arg->hold.versioned);
		break;
	case HO_HELD_LEGACY:
		ho_release_legacy(arg->hold.legacy);
		break;
	case HO_HELD_OWNER:
		ho_owner_unref(arg->hold.owner);
		break;
	case HO_HELD_OBJECT:
		ho_py.Py_DecRef(arg->hold.object);
		break;
	}
}

void ho_args_done(ho_arg *args, uint32_t n)
{
	ho_PyObject *type, *value, *trace;
	int pending = -1; /* whether there is an exception; not asked yet */

	for (uint32_t i = 0; i < n; i++) {
		ho_arg *arg = &args[i];
		uint32_t held = arg->held;
		arg->held = HO_HELD_NONE;
		if (HO_UNLIKELY(arg->shape != arg->dims)) {
			free(arg->shape);
			arg->shape = arg->dims;
			arg->strides = arg->dims + 8;
		}
		if (HO_LIKELY(held == HO_HELD_NONE || held == HO_HELD_LENT))
			continue;
		/* What is released may run any code: a pending exception is kept,
		 * and what one leaves behind is none of the next one's business. */
		if (pending < 0 && (pending = ho_py.PyErr_Occurred() != NULL) != 0)
			ho_py.PyErr_Fetch(&type, &value, &trace);
		release(held, arg);
		if (HO_UNLIKELY(ho_py.PyErr_Occurred() != NULL))
			ho_py.PyErr_Clear();
	}
	if (pending > 0)
		ho_py.PyErr_Restore(type, value, trace);
}

void ho_arg_done(ho_arg *arg)
{
	ho_args_done(arg, 1);
}

/* An owning form of a tensor that was only lent (R106). */
static ho_owner *own_lent(ho_arg *arg)
{
	DLManagedTensorVersioned *m = NULL;

	if (arg->hold.table->managed_tensor_from_py_object_no_sync(arg->obj, &m) != 0 || m == NULL) {
		table_failed("managed_tensor_from_py_object_no_sync");
		return NULL;
	}
	/* The views made of the lent form stay valid only if it is the same memory. */
	int rule, same = ho_check_versioned(m, &rule) == 0 &&
	                 (uint64_t)(uintptr_t)m->dl_tensor.data + m->dl_tensor.byte_offset == arg->data;
	ho_owner *o = same ? ho_owner_python(m, HO_DROP_VERSIONED) : NULL;
	if (o == NULL) {
		if (!same && ho_count(arg->ndim, arg->shape) == 0)
			o = ho_owner_from_object(arg->obj); /* no memory to keep */
		else if (!same)
			ho_raise(HO_X_BUFFER, 106, op, "the producer lent one memory and gives another to keep");
		delete_kept(m, NULL);
	}
	return o;
}

ho_owner *ho_arg_retain(ho_arg *arg)
{
	ho_owner *o = NULL;

	switch (arg->held) {
	case HO_HELD_OWNER:
		ho_owner_ref(arg->hold.owner);
		return arg->hold.owner;
	case HO_HELD_NONE:
		if (ho_is_view(arg->obj) && ho_view_share((ho_view *)arg->obj) != 0)
			return NULL;
		if (ho_is_view(arg->obj) && (o = ((ho_view *)arg->obj)->owner) != NULL)
			ho_owner_ref(o);
		else
			o = ho_owner_from_object(arg->obj);
		break;
	case HO_HELD_LENT:
		o = own_lent(arg);
		break;
	case HO_HELD_BUFFER:
		o = ho_owner_python(arg->hold.buffer, HO_DROP_BUFFER);
		break;
	case HO_HELD_VERSIONED:
		o = ho_owner_python(arg->hold.versioned, HO_DROP_VERSIONED);
		break;
	case HO_HELD_LEGACY:
		o = ho_owner_python(arg->hold.legacy, HO_DROP_LEGACY);
		break;
	case HO_HELD_OBJECT:
		o = ho_owner_python(arg->hold.object, HO_DROP_OBJECT);
		break;
	}
	if (o == NULL)
		return NULL;
	/* The argument keeps a reference as well, so that its memory outlives the
	 * call whatever becomes of the one that is returned. */
	ho_owner_ref(o);
	arg->held = HO_HELD_OWNER;
	arg->hold.owner = o;
	return o;
}
