/* cupy.ndarray by its attributes. CuPy's __dlpack__ asks the driver whose memory
 * it is, twice, and makes a capsule; its array interface makes a dict. Both take
 * longer than to read what they are made of: an address, extents, a dtype, and the
 * stream that CuPy works on. That the attributes mean what they seem to is found
 * out once, by comparing them with __cuda_array_interface__; whatever is not as
 * expected leaves the array to the protocols.
 *
 * Most attributes make an object to tell a number. CuPy's compiled modules read
 * them from the object instead, whose layout has been one for years; so do we,
 * once the object of a dense array and that of another one, where such come, have
 * been found to hold what the attributes say. */
#include "gpu.h"

#include <string.h>

/* What CuPy gives its own compiled modules to find the stream that the calling
 * thread works on: 0 is the default stream. */
typedef intptr_t (*stream_function)(void);
static const char stream_signature[] = "intptr_t (void)";

enum { CONTIGUOUS = 1, STRIDED = 2 };

static ho_PyTypeObject *ndarray; /* cupy.ndarray itself, once it was seen; strong */
static stream_function current_stream;
static int refused;  /* the attributes are not what we take them for */
static int verified; /* CONTIGUOUS, STRIDED: compared for such an array */
int ho_cupy_names_stream; /* the array interface has version 3 */

#define NAMES(X) \
	X(ptr, "ptr") X(device_id, "device_id") X(c_contiguous, "_c_contiguous")
static struct {
#define X(id, text) ho_PyObject *id;
	NAMES(X)
#undef X
} names;

int ho_cupy_init(void)
{
#define X(id, text) \
	if (names.id == NULL && (names.id = ho_py.PyUnicode_InternFromString(text)) == NULL) \
		return -1;
	NAMES(X)
#undef X
	return 0;
}

static ho_PyObject *module_of(const char *name)
{
	return ho_py.PyDict_GetItemString(ho_py.PyImport_GetModuleDict(), name);
}

static stream_function find_stream_function(void)
{
	ho_PyObject *module = module_of("cupy_backends.cuda.stream");
	ho_PyObject *table = module != NULL ? ho_py.PyObject_GetAttrString(module, "__pyx_capi__") : NULL;
	ho_PyObject *capsule = NULL;
	void *f = NULL;

	if (table != NULL && HO_TYPE(table) == (ho_PyTypeObject *)ho_py.PyDict_Type)
		capsule = ho_py.PyDict_GetItemString(table, "get_current_stream_ptr");
	/* The name of the capsule is the function's type. */
	if (capsule != NULL && ho_py.PyCapsule_IsValid(capsule, stream_signature))
		f = ho_py.PyCapsule_GetPointer(capsule, stream_signature);
	ho_py.PyErr_Clear();
	ho_xdecref(table);
	return (stream_function)f;
}

int ho_cupy_is(ho_PyTypeObject *type)
{
	if (ndarray != NULL || refused)
		return type == ndarray && !refused;
	ho_PyObject *cupy = module_of("cupy");
	ho_PyObject *cls = cupy != NULL ? ho_py.PyObject_GetAttrString(cupy, "ndarray") : NULL;
	stream_function f = cls == (ho_PyObject *)type ? find_stream_function() : NULL;
	if (f == NULL) {
		ho_py.PyErr_Clear();
		ho_xdecref(cls);
		return 0;
	}
	current_stream = f;
	ndarray = type; /* keeps the reference: CuPy cannot be unloaded */
	return 1;
}

/* ---- Element types, by dtype object. NumPy has one object for each of its own. */

enum { DTYPES = 32 };
static struct {
	ho_PyObject *dtype; /* strong: the address is not used again */
	const ho_dtype *row;
} dtypes[DTYPES];

/* NULL without an exception for what DLPack has no type for. */
static const ho_dtype *row_of(ho_PyObject *dtype)
{
	uintptr_t h = (uintptr_t)dtype >> 4;
	size_t i = (h ^ h >> 5) % DTYPES;
	DLDataType dl;
	int64_t size;
	int padded;

	if (HO_LIKELY(dtypes[i].dtype == dtype))
		return dtypes[i].row;
	if (ho_dtype_from_object(dtype, &dl, &size, &padded) != 0) {
		ho_py.PyErr_Clear();
		return NULL;
	}
	const ho_dtype *row = dl.bits != 0 && !padded ? ho_dtype_find(dl) : NULL;
	if (row == NULL || row->size != size)
		return NULL;
	ho_PyObject *old = dtypes[i].dtype;
	dtypes[i].dtype = ho_newref(dtype);
	dtypes[i].row = row;
	ho_xdecref(old);
	return row;
}

/* ---- Reading the object ------------------------------------------------- */

struct vector {
	ho_ssize *begin, *end, *room;
};

/* Start of an array, and of the object of its attribute data. */
struct array {
	ho_PyObject ob;
	void *methods;
	ho_PyObject *weak;
	ho_ssize size;
	struct vector shape, strides; /* in bytes */
	int c_contiguous, f_contiguous, small;
	ho_PyObject *dtype, *data, *base;
};
static size_t address_at; /* in the object of data */
static ho_PyTypeObject *data_type;
static int readable; /* CONTIGUOUS, STRIDED: such objects have been compared */
static int unreadable;

static int read_object(ho_PyObject *obj, ho_arg *out, const ho_dtype **row, int *c_order)
{
	const struct array *a = (const struct array *)obj;
	ho_ssize n = a->shape.end - a->shape.begin;

	*c_order = a->c_contiguous;
	if (HO_UNLIKELY(n < 0 || n > HO_MAX_DIMS || a->strides.end - a->strides.begin != n || a->dtype == NULL ||
	                a->data == NULL || HO_TYPE(a->data) != data_type || (*row = row_of(a->dtype)) == NULL ||
	                ho_arg_room(out, (int32_t)n) != 0))
		return 1;
	for (ho_ssize i = 0; i < n; i++) {
		out->shape[i] = a->shape.begin[i];
		out->strides[i] = a->strides.begin[i] / (*row)->size;
		if (HO_UNLIKELY(a->strides.begin[i] % (*row)->size != 0))
			return 1;
	}
	if (*c_order)
		ho_row_major((int32_t)n, out->shape, out->strides); /* what the strides of empty arrays are, too */
	out->data = *(const uint64_t *)((const char *)a->data + address_at);
	out->dtype = (*row)->dl;
	return 0;
}

static int same_vector(const struct vector *v, ho_PyObject *tuple)
{
	ho_ssize n = v->end - v->begin;

	if (tuple == NULL || HO_TYPE(tuple) != (ho_PyTypeObject *)ho_py.PyTuple_Type || ho_py.PyTuple_Size(tuple) != n)
		return 0;
	for (ho_ssize i = 0; i < n; i++)
		if (ho_py.PyLong_AsLongLong(ho_py.PyTuple_GetItem(tuple, i)) != v->begin[i])
			return 0;
	return 1;
}

static ho_ssize basic_size(ho_PyTypeObject *type)
{
	ho_PyObject *v = ho_py.PyObject_GetAttr((ho_PyObject *)type, ho_names.dunder_basicsize);
	ho_ssize n = v != NULL ? ho_py.PyLong_AsSsize_t(v) : -1;

	ho_xdecref(v);
	return n;
}

/* Does the object hold what the attributes, in out, say? Pointers of it are
 * followed only once those that are objects have been found to be the right ones. */
static int compare_object(ho_PyObject *obj, const ho_arg *out, int c_order)
{
	const struct array *a = (const struct array *)obj;
	ho_PyObject *dtype = ho_py.PyObject_GetAttr(obj, ho_names.dtype), *data = ho_py.PyObject_GetAttr(obj, ho_names.data);
	ho_PyObject *shape = ho_py.PyObject_GetAttr(obj, ho_names.shape);
	ho_PyObject *strides = ho_py.PyObject_GetAttr(obj, ho_names.strides);
	size_t at = 0;
	int ok = 0, found = 0;

	if (basic_size(HO_TYPE(obj)) != (ho_ssize)sizeof(struct array) || dtype == NULL || data == NULL ||
	    a->dtype != dtype || a->data != data || a->size != ho_count(out->ndim, out->shape) ||
	    a->c_contiguous != c_order || a->shape.end - a->shape.begin != out->ndim ||
	    a->strides.end - a->strides.begin != out->ndim)
		goto done;
	if (!same_vector(&a->shape, shape) || !same_vector(&a->strides, strides))
		goto done;
	ho_ssize room = basic_size(HO_TYPE(data));
	for (size_t i = sizeof(ho_PyObject); room < 256 && (ho_ssize)(i + sizeof(uint64_t)) <= room; i += sizeof(uint64_t))
		if (*(const uint64_t *)((const char *)data + i) == out->data) {
			at = i;
			found++;
		}
	if (found != 1 || (readable != 0 && (at != address_at || HO_TYPE(data) != data_type)))
		goto done;
	ok = 1;
	address_at = at;
	if (data_type == NULL)
		data_type = (ho_PyTypeObject *)ho_newref((ho_PyObject *)HO_TYPE(data));
done:
	ho_py.PyErr_Clear();
	ho_xdecref(dtype);
	ho_xdecref(data);
	ho_xdecref(shape);
	ho_xdecref(strides);
	return ok;
}

/* ---- Reading attributes ------------------------------------------------- */

/* An int attribute; 0, or -1 with an exception or without one. */
static int int_attr(ho_PyObject *o, ho_PyObject *name, int64_t *out)
{
	ho_PyObject *v = ho_py.PyObject_GetAttr(o, name);
	int overflow = 0;

	if (v == NULL)
		return -1;
	int ok = HO_TYPE(v) == (ho_PyTypeObject *)ho_py.PyLong_Type;
	if (ok)
		*out = ho_py.PyLong_AsLongLongAndOverflow(v, &overflow);
	ho_py.Py_DecRef(v);
	return ok && !overflow ? 0 : -1;
}

/* An attribute that is a tuple of ints. n < 0: any length that fits into out. */
static int ints_attr(ho_PyObject *o, ho_PyObject *name, ho_arg *out, int32_t n, int64_t **to)
{
	ho_PyObject *t = ho_py.PyObject_GetAttr(o, name);
	int r = -1, overflow = 0;

	if (t == NULL || HO_TYPE(t) != (ho_PyTypeObject *)ho_py.PyTuple_Type)
		goto done;
	ho_ssize have = ho_py.PyTuple_Size(t);
	if (n >= 0 ? have != n : have > HO_MAX_DIMS || ho_arg_room(out, (int32_t)have) != 0)
		goto done;
	for (ho_ssize i = 0; i < have; i++) {
		ho_PyObject *v = ho_py.PyTuple_GetItem(t, i);
		if (HO_TYPE(v) != (ho_PyTypeObject *)ho_py.PyLong_Type)
			goto done;
		(*to)[i] = ho_py.PyLong_AsLongLongAndOverflow(v, &overflow);
		if (overflow)
			goto done;
	}
	r = 0;
done:
	ho_xdecref(t);
	return r;
}

/* Whether the elements lie in C order without gaps. */
static int contiguous_attr(ho_PyObject *o)
{
	ho_PyObject *v = ho_py.PyObject_GetAttr(o, names.c_contiguous);
	int yes = v == HO_TRUE;

	ho_xdecref(v);
	ho_py.PyErr_Clear(); /* without it the strides tell */
	return yes;
}

/* Fills out but for what is held; 0, or 1 if the array is not as expected. */
static int read_array(ho_PyObject *obj, ho_arg *out, int64_t *device, const ho_dtype **row, int *c_order)
{
	int64_t address;
	ho_PyObject *data = ho_py.PyObject_GetAttr(obj, ho_names.data);
	int bad = data == NULL || int_attr(data, names.ptr, &address) != 0 || int_attr(data, names.device_id, device) != 0;

	ho_xdecref(data);
	if (HO_UNLIKELY(bad || ints_attr(obj, ho_names.shape, out, -1, &out->shape) != 0))
		return 1;
	ho_PyObject *dtype = ho_py.PyObject_GetAttr(obj, ho_names.dtype);
	*row = dtype != NULL ? row_of(dtype) : NULL;
	ho_xdecref(dtype);
	if (HO_UNLIKELY(*row == NULL))
		return 1;
	*c_order = contiguous_attr(obj);
	if (HO_LIKELY(*c_order)) {
		if (ho_row_major(out->ndim, out->shape, out->strides) != 0)
			return 1;
	} else {
		if (ints_attr(obj, ho_names.strides, out, out->ndim, &out->strides) != 0)
			return 1;
		for (int32_t i = 0; i < out->ndim; i++) {
			if (out->strides[i] % (*row)->size != 0)
				return 1;
			out->strides[i] /= (*row)->size;
		}
	}
	out->data = (uint64_t)address;
	out->dtype = (*row)->dl;
	return 0;
}

static int same_ints(ho_PyObject *tuple, int32_t n, const int64_t *values, int64_t times)
{
	if (tuple == NULL || HO_TYPE(tuple) != (ho_PyTypeObject *)ho_py.PyTuple_Type || ho_py.PyTuple_Size(tuple) != n)
		return 0;
	for (int32_t i = 0; i < n; i++)
		if (ho_py.PyLong_AsLongLong(ho_py.PyTuple_GetItem(tuple, i)) != values[i] * times)
			return 0;
	return 1;
}

/* Does the array interface say the same? */
static int verify(ho_PyObject *obj, const ho_arg *a, const ho_dtype *row, int c_order)
{
	ho_PyObject *d = ho_py.PyObject_GetAttr(obj, ho_names.cuda_array_interface);
	int ok = 0;

	if (d == NULL || HO_TYPE(d) != (ho_PyTypeObject *)ho_py.PyDict_Type)
		goto done;
	ho_PyObject *data = ho_py.PyDict_GetItemWithError(d, ho_names.data);
	ho_PyObject *strides = ho_py.PyDict_GetItemWithError(d, ho_names.strides);
	ho_PyObject *typestr = ho_py.PyDict_GetItemWithError(d, ho_names.typestr);
	ho_PyObject *version = ho_py.PyDict_GetItemWithError(d, ho_names.version);
	ho_PyObject *stream = ho_py.PyDict_GetItemWithError(d, ho_names.stream);
	if (data == NULL || typestr == NULL || version == NULL || ho_py.PyTuple_Size(data) != 2 ||
	    ho_py.PyTuple_GetItem(data, 1) != HO_FALSE)
		goto done;
	const char *s = ho_py.PyUnicode_AsUTF8AndSize(typestr, NULL);
	long long v = ho_py.PyLong_AsLongLong(version);
	if (s == NULL || strcmp(s, row->typestr) != 0)
		goto done;
	if (v == 3) {
		intptr_t now = (intptr_t)a->stream;
		if (stream == NULL || ho_py.PyLong_AsLongLong(stream) != (now == 0 ? 1 : now))
			goto done;
	} else if (v != 2) {
		goto done;
	}
	if (!same_ints(ho_py.PyDict_GetItemWithError(d, ho_names.shape), a->ndim, a->shape, 1))
		goto done;
	if (c_order ? strides != NULL && strides != HO_NONE : !same_ints(strides, a->ndim, a->strides, row->size))
		goto done;
	if (ho_count(a->ndim, a->shape) != 0 &&
	    ho_py.PyLong_AsUnsignedLongLong(ho_py.PyTuple_GetItem(data, 0)) != a->data)
		goto done;
	ok = 1;
	ho_cupy_names_stream = v == 3;
done:
	ok = ok && ho_py.PyErr_Occurred() == NULL;
	ho_py.PyErr_Clear();
	ho_xdecref(d);
	return ok;
}

/* An array that was not seen like this before: by its attributes, which are
 * compared with the array interface, and the object with them. */
static int take_slowly(ho_PyObject *obj, ho_arg *out, int64_t *device, const ho_dtype **row, int *c_order)
{
	if (read_array(obj, out, device, row, c_order) != 0)
		return 1;
	int need = *c_order ? CONTIGUOUS : STRIDED, empty = ho_count(out->ndim, out->shape) == 0;
	if (!(verified & need)) {
		if ((*row)->typestr == NULL)
			return 1; /* nothing to compare this one with */
		if (!verify(obj, out, *row, *c_order)) {
			refused = 1;
			return 1;
		}
		verified |= need;
	}
	/* An empty array and a scalar have too little to compare. */
	if (!unreadable && !(readable & need) && !empty && out->ndim > 0 && out->data != 0) {
		if (compare_object(obj, out, *c_order))
			readable |= need;
		else
			unreadable = 1;
	}
	return 0;
}

int ho_cupy_take(ho_PyObject *obj, unsigned want, ho_arg *out)
{
	const ho_dtype *row;
	int64_t device = 0;
	int c_order, rule = 0;

	if (HO_UNLIKELY(refused))
		return 1;
	out->held = HO_HELD_NONE;
	out->obj = obj;
	out->shape = out->strides = out->dims;
	intptr_t s = current_stream();
	if (HO_UNLIKELY(s == -1))
		goto leave; /* an exception, or nothing that we know */
	out->stream = (void *)s;
	int direct = readable == (CONTIGUOUS | STRIDED) ||
	             (readable == CONTIGUOUS && ((const struct array *)obj)->c_contiguous == 1);
	if (HO_LIKELY(direct && !unreadable && ((const struct array *)obj)->size != 0)) {
		if (HO_UNLIKELY(read_object(obj, out, &row, &c_order) != 0))
			goto leave;
	} else if (take_slowly(obj, out, &device, &row, &c_order) != 0) {
		goto leave;
	}
	out->device = (DLDevice){ kDLCUDA, (int32_t)device };
	DLTensor t = { (void *)(uintptr_t)out->data, out->device, out->ndim, out->dtype, out->shape, out->strides, 0 };
	if (HO_UNLIKELY(device < 0 || device > INT32_MAX || ho_check_tensor(&t, 0, &rule) != 0))
		goto leave; /* the protocols tell it in their words */
	/* CuPy's arrays may be of managed memory, and wrap anything. */
	if (ho_count(out->ndim, out->shape) != 0 && ho_gpu_where(out->data, &out->device) <= 0)
		goto leave;
	out->flags = HO_ARG_ALIGNED | HO_ARG_PRODUCER;
	if (want & HO_WANT_OWNED) {
		out->held = HO_HELD_OBJECT;
		out->hold.object = ho_newref(obj);
	}
	return 0;
leave:
	ho_py.PyErr_Clear();
	ho_arg_done(out);
	return 1;
}

int ho_cupy_direct(void)
{
	if (verified == 0 && !refused)
		return -1;
	return refused ? 0 : readable != 0 && !unreadable ? 2 : 1;
}
