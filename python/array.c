/* handoff.Array: memory made on the Go side of the bridge, or by the
 * constructors here (C memory, 256-byte aligned). It works without NumPy. */
#include <stdio.h>
#include <string.h>

#include "internal.h"

/* ---- Constructors ------------------------------------------------------- */

static int take_dtype(ho_PyObject *o, DLDataType *dtype, uint64_t *flags)
{
	int64_t itemsize;
	int padded = 0;

	*dtype = (DLDataType){ kDLFloat, 64, 1 };
	*flags = 0;
	if (o == NULL || o == HO_NONE)
		return 0;
	if (ho_dtype_from_object(o, dtype, &itemsize, &padded) != 0)
		return -1;
	if (dtype->bits == 0)
		return ho_raise(HO_E_DTYPE, 285, "Array", "the dtype has no counterpart in DLPack");
	*flags = padded ? DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED : 0;
	return 0;
}

/* A new array; its memory is not set. */
static ho_view *new_array(int32_t ndim, const int64_t *shape, DLDataType dtype, uint64_t flags)
{
	int64_t item = ho_dtype_bytes(dtype);
	int rule = 0, code;
	/* Any address passes: it is replaced below. */
	DLTensor t = { (void *)(uintptr_t)256, { kDLCPU, 0 }, ndim, dtype, (int64_t *)shape, NULL, 0 };

	code = ho_check_tensor(&t, flags, &rule);
	if (code != 0) {
		ho_raise(code == HO_E_DTYPE ? code : HO_X_VALUE, rule, "Array",
		         code == HO_E_LAYOUT ? "a negative extent" : "%s", ho_error_text(code));
		return NULL;
	}
	ho_view *v = ho_view_alloc(ho_array_type, ndim);
	if (v == NULL)
		return NULL;
	memcpy(v->t.shape, shape, (size_t)ndim * sizeof *shape);
	ho_row_major(ndim, shape, v->t.strides);
	v->t.device = t.device;
	v->t.dtype = dtype;
	v->flags = flags;
	v->itemsize = item;
	v->owner = ho_owner_alloc((size_t)(ho_count(ndim, shape) * item), &v->t.data); /* fits: checked */
	if (v->owner == NULL) {
		ho_py.Py_DecRef(&v->ob);
		ho_py.PyErr_NoMemory();
		return NULL;
	}
	ho_view_ready(v);
	return v;
}

static int64_t bytes_of(const ho_view *v)
{
	return ho_count(v->t.ndim, v->t.shape) * v->itemsize;
}

/* Sets all elements of v to the one at p. */
static void fill(ho_view *v, const void *p)
{
	int64_t zero[HO_MAX_DIMS] = { 0 };

	ho_copy_strided(v->t.ndim, v->t.shape, v->t.data, v->t.strides, p, zero, v->itemsize);
}

static ho_view *make(const char *fn, ho_PyObject *const *args, ho_ssize n, ho_PyObject *kwnames)
{
	static const ho_param params[] = { { &ho_names.shape }, { &ho_names.dtype } };
	ho_PyObject *a[2];
	int64_t shape[HO_MAX_DIMS];
	int32_t ndim;
	DLDataType dtype;
	uint64_t flags;

	if (ho_parse(fn, args, n, kwnames, params, 2, 2, 1, a) != 0 || ho_parse_dims(a[0], "shape", shape, &ndim) != 0 ||
	    take_dtype(a[1], &dtype, &flags) != 0)
		return NULL;
	return new_array(ndim, shape, dtype, flags);
}

static ho_PyObject *empty(ho_PyObject *cls, ho_PyObject *const *args, ho_ssize n, ho_PyObject *kwnames)
{
	(void)cls;
	return (ho_PyObject *)make("empty", args, n, kwnames);
}

static ho_PyObject *zeros(ho_PyObject *cls, ho_PyObject *const *args, ho_ssize n, ho_PyObject *kwnames)
{
	ho_view *v = make("zeros", args, n, kwnames);
	(void)cls;

	if (v != NULL && v->t.data != NULL)
		memset(v->t.data, 0, (size_t)bytes_of(v));
	return (ho_PyObject *)v;
}

static ho_PyObject *full(ho_PyObject *cls, ho_PyObject *const *args, ho_ssize n, ho_PyObject *kwnames)
{
	static const ho_param params[] = { { &ho_names.shape }, { &ho_names.fill_value }, { &ho_names.dtype } };
	ho_PyObject *a[3];
	int64_t shape[HO_MAX_DIMS];
	int32_t ndim;
	DLDataType dtype;
	uint64_t flags;
	char item[16];
	(void)cls;

	if (ho_parse("full", args, n, kwnames, params, 3, 3, 2, a) != 0 ||
	    ho_parse_dims(a[0], "shape", shape, &ndim) != 0 || take_dtype(a[2], &dtype, &flags) != 0 ||
	    ho_scalar_set(item, dtype, a[1]) != 0)
		return NULL;
	ho_view *v = new_array(ndim, shape, dtype, flags);
	if (v != NULL)
		fill(v, item);
	return (ho_PyObject *)v;
}

static ho_PyObject *copy_of(ho_PyObject *cls, ho_PyObject *obj)
{
	ho_arg src;
	(void)cls;

	if (ho_consume(obj, 0, &src) != 0)
		return NULL;
	ho_view *v = new_array(src.ndim, src.shape, src.dtype,
	                       src.flags & HO_ARG_PADDED ? DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED : 0);
	if (v != NULL && ho_view_copy(v, &src) != 0) {
		ho_py.Py_DecRef(&v->ob);
		v = NULL;
	}
	ho_arg_done(&src);
	return (ho_PyObject *)v;
}

/* ---- Elements ----------------------------------------------------------- */

static int check_host(const ho_view *v)
{
	if (!ho_device_is_host((int32_t)v->t.device.device_type))
		return ho_raise(HO_E_DEVICE, 0, "Array", "the memory is not on the host");
	return ho_whole_bytes(v, "Array");
}

/* What an index selects. */
struct selection {
	int32_t ndim;
	int is_element; /* every axis was indexed by an int */
	char *data;
	int64_t shape[HO_MAX_DIMS], strides[HO_MAX_DIMS];
};

static int index_axis(ho_view *v, int32_t axis, ho_PyObject *key, struct selection *s)
{
	int64_t extent = v->t.shape[axis], stride = v->t.strides[axis];

	if (HO_TYPE(key) == (ho_PyTypeObject *)ho_py.PySlice_Type) {
		ho_ssize start, stop, step;
		if (ho_py.PySlice_Unpack(key, &start, &stop, &step) != 0)
			return -1;
		ho_ssize count = ho_py.PySlice_AdjustIndices(extent, &start, &stop, step);
		if (count > 0)
			s->data += start * stride * v->itemsize;
		s->shape[s->ndim] = count;
		s->strides[s->ndim++] = count > 1 ? stride * step : stride;
		return 0;
	}
	/* Bools would be masks elsewhere. */
	if (!ho_py.PyIndex_Check(key) || key == HO_TRUE || key == HO_FALSE) {
		ho_py.PyErr_Format(ho_py.PyExc_TypeError, "handoff: Array indices are ints, slices, ... and None");
		return -1;
	}
	ho_ssize i = ho_py.PyNumber_AsSsize_t(key, ho_py.PyExc_IndexError);
	if (i == -1 && ho_py.PyErr_Occurred())
		return -1;
	if (i < -extent || i >= extent) {
		ho_py.PyErr_Format(ho_py.PyExc_IndexError, "handoff: index %zd is out of bounds for axis %d with size %zd", i,
		                   (int)axis, (ho_ssize)extent);
		return -1;
	}
	s->data += (i < 0 ? i + extent : i) * stride * v->itemsize;
	return 0;
}

static int keep_axis(ho_view *v, int32_t axis, struct selection *s)
{
	s->shape[s->ndim] = v->t.shape[axis];
	s->strides[s->ndim++] = v->t.strides[axis];
	return 0;
}

static int too_many(const ho_view *v)
{
	ho_py.PyErr_Format(ho_py.PyExc_IndexError, "handoff: too many indices for an Array of %d dimensions",
	                   (int)v->t.ndim);
	return -1;
}

static int select(ho_view *v, ho_PyObject *key, struct selection *s)
{
	int is_tuple = HO_TYPE(key) == (ho_PyTypeObject *)ho_py.PyTuple_Type;
	ho_ssize n = is_tuple ? ho_py.PyTuple_Size(key) : 1;
	int32_t axis = 0, used = 0, dots = 0, added = 0;

	for (ho_ssize i = 0; i < n; i++) {
		ho_PyObject *k = is_tuple ? ho_py.PyTuple_GetItem(key, i) : key;
		if (k == ho_py._Py_EllipsisObject)
			dots++;
		else if (k == HO_NONE)
			added++;
		else
			used++;
	}
	if (dots > 1) {
		ho_py.PyErr_SetString(ho_py.PyExc_IndexError, "handoff: an index has one ... at most");
		return -1;
	}
	if (used > v->t.ndim)
		return too_many(v);
	if (v->t.ndim + added > HO_MAX_DIMS) {
		ho_py.PyErr_SetString(ho_py.PyExc_IndexError, "handoff: more than 64 dimensions");
		return -1;
	}
	s->ndim = 0;
	s->data = v->t.data;
	for (ho_ssize i = 0; i < n; i++) {
		ho_PyObject *k = is_tuple ? ho_py.PyTuple_GetItem(key, i) : key;
		if (k == ho_py._Py_EllipsisObject) {
			for (int32_t rest = v->t.ndim - used; rest > 0; rest--)
				keep_axis(v, axis++, s);
		} else if (k == HO_NONE) {
			s->shape[s->ndim] = 1;
			s->strides[s->ndim++] = 0;
		} else if (index_axis(v, axis++, k, s) != 0) {
			return -1;
		}
	}
	while (axis < v->t.ndim)
		keep_axis(v, axis++, s);
	s->is_element = s->ndim == 0 && dots == 0;
	return 0;
}

static ho_PyObject *subscript(ho_PyObject *self, ho_PyObject *key)
{
	ho_view *v = (ho_view *)self;
	struct selection s;

	if (check_host(v) != 0 || select(v, key, &s) != 0)
		return NULL;
	if (s.is_element)
		return ho_scalar_get(s.data, v->t.dtype);
	return (ho_PyObject *)ho_view_sub(v, s.data, s.ndim, s.shape, s.strides);
}

static int is_number(ho_PyObject *o)
{
	ho_PyTypeObject *t = HO_TYPE(o);

	return t == (ho_PyTypeObject *)ho_py.PyFloat_Type || t == (ho_PyTypeObject *)ho_py.PyLong_Type ||
	       t == (ho_PyTypeObject *)ho_py.PyBool_Type || t == (ho_PyTypeObject *)ho_py.PyComplex_Type;
}

static int assign(ho_PyObject *self, ho_PyObject *key, ho_PyObject *value)
{
	ho_view *v = (ho_view *)self;
	struct selection s;
	char item[16];

	if (value == NULL) {
		ho_py.PyErr_SetString(ho_py.PyExc_TypeError, "handoff: elements of an Array cannot be deleted");
		return -1;
	}
	if (v->flags & DLPACK_FLAG_BITMASK_READ_ONLY)
		return ho_raise(HO_X_READONLY, 15, "Array", "the memory is read-only");
	if (check_host(v) != 0 || select(v, key, &s) != 0)
		return -1;
	if (s.is_element)
		return ho_scalar_set(s.data, v->t.dtype, value);
	ho_view *part = ho_view_sub(v, s.data, s.ndim, s.shape, s.strides);
	if (part == NULL)
		return -1;
	int r = -1;
	ho_arg src;
	if (!is_number(value) && ho_consume(value, 0, &src) == 0) {
		int scalar = src.ndim == 0;
		if (!scalar)
			r = ho_view_copy(part, &src);
		ho_arg_done(&src);
		if (!scalar)
			goto done;
	} else if (!is_number(value)) {
		/* Not an array: a scalar of another library, or an error. */
		if (!ho_py.PyErr_ExceptionMatches(ho_error_class(HO_X_PROTOCOL)))
			goto done;
		ho_py.PyErr_Clear();
	}
	r = ho_scalar_set(item, v->t.dtype, value);
	if (r == 0)
		fill(part, item);
done:
	ho_py.Py_DecRef(&part->ob);
	return r;
}

static ho_ssize length(ho_PyObject *self)
{
	const ho_view *v = (const ho_view *)self;

	if (v->t.ndim == 0) {
		ho_py.PyErr_SetString(ho_py.PyExc_TypeError, "handoff: len() of an Array without dimensions");
		return -1;
	}
	return v->t.shape[0];
}

static ho_PyObject *list_of(const ho_view *v, int32_t axis, const char *p)
{
	if (axis == v->t.ndim)
		return ho_scalar_get(p, v->t.dtype);
	int64_t step = ho_byte_stride(v->t.strides[axis], v->itemsize);
	ho_PyObject *list = ho_py.PyList_New(v->t.shape[axis]);
	for (int64_t i = 0; list != NULL && i < v->t.shape[axis]; i++) {
		ho_PyObject *x = list_of(v, axis + 1, p + i * step);
		if (x == NULL || ho_py.PyList_SetItem(list, i, x) != 0) {
			ho_py.Py_DecRef(list);
			return NULL;
		}
	}
	return list;
}

static ho_PyObject *tolist(ho_PyObject *self, ho_PyObject *unused)
{
	const ho_view *v = (const ho_view *)self;
	(void)unused;

	return check_host(v) == 0 ? list_of(v, 0, v->t.data) : NULL;
}

static ho_PyObject *repr(ho_PyObject *self)
{
	ho_view *v = (ho_view *)self;
	char text[80];

	ho_view_dtype_text(v, text);
	if (ho_count(v->t.ndim, v->t.shape) <= 64 && ho_device_is_host((int32_t)v->t.device.device_type) &&
	    (v->itemsize * 8 == (int64_t)v->t.dtype.bits || v->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED)) {
		ho_PyObject *list = list_of(v, 0, v->t.data);
		if (list != NULL) {
			ho_PyObject *r = ho_py.PyUnicode_FromFormat("Array(%R, dtype=%s)", list, text);
			ho_py.Py_DecRef(list);
			return r;
		}
		ho_py.PyErr_Clear();
	}
	ho_PyObject *shape = ho_int_tuple(v->t.ndim, v->t.shape);
	ho_PyObject *r = shape != NULL ? ho_py.PyUnicode_FromFormat("Array(shape=%R, dtype=%s)", shape, text) : NULL;
	ho_xdecref(shape);
	return r;
}

/* ---- Iteration ---------------------------------------------------------- */

typedef struct iterator {
	ho_PyObject ob;
	ho_PyObject *array;
	int64_t next;
} iterator;

static ho_PyTypeObject *iterator_type;

static ho_PyObject *iter(ho_PyObject *self)
{
	if (((ho_view *)self)->t.ndim == 0) {
		ho_py.PyErr_SetString(ho_py.PyExc_TypeError, "handoff: iteration over an Array without dimensions");
		return NULL;
	}
	iterator *it = (iterator *)ho_py.PyType_GenericAlloc(iterator_type, 0);
	if (it != NULL)
		it->array = ho_newref(self);
	return (ho_PyObject *)it;
}

static ho_PyObject *iterator_next(ho_PyObject *self)
{
	iterator *it = (iterator *)self;
	ho_view *v = (ho_view *)it->array;

	if (it->next >= v->t.shape[0])
		return NULL; /* the end */
	ho_PyObject *i = ho_py.PyLong_FromLongLong(it->next);
	if (i == NULL)
		return NULL;
	ho_PyObject *x = subscript(it->array, i);
	ho_py.Py_DecRef(i);
	it->next++;
	return x;
}

static ho_PyObject *iterator_self(ho_PyObject *self)
{
	return ho_newref(self);
}

static void iterator_dealloc(ho_PyObject *self)
{
	ho_PyTypeObject *type = HO_TYPE(self);

	ho_py.Py_DecRef(((iterator *)self)->array);
	ho_py.PyObject_Free(self);
	ho_py.Py_DecRef((ho_PyObject *)type);
}

static ho_PyType_Slot iterator_slots[] = {
	{ HO_tp_dealloc, (void *)iterator_dealloc },
	{ HO_tp_iter, (void *)iterator_self },
	{ HO_tp_iternext, (void *)iterator_next },
	{ 0, NULL },
};

static ho_PyType_Spec iterator_spec = {
	"handoff._core.ArrayIterator", (int)sizeof(iterator), 0,
	HO_TPFLAGS_DEFAULT | HO_TPFLAGS_DISALLOW_INSTANTIATION, iterator_slots,
};

/* ---- The type ----------------------------------------------------------- */

#define FAST(f) (ho_PyCFunction)(void (*)(void)) f
#define FAST_FLAGS (HO_METH_FASTCALL | HO_METH_KEYWORDS)

static ho_PyMethodDef methods[] = {
	{ "empty", FAST(empty), FAST_FLAGS | HO_METH_CLASS,
	  "empty($type, shape, dtype='float64')\n--\n\nNew array; its elements are not set." },
	{ "zeros", FAST(zeros), FAST_FLAGS | HO_METH_CLASS,
	  "zeros($type, shape, dtype='float64')\n--\n\nNew array of zeros." },
	{ "full", FAST(full), FAST_FLAGS | HO_METH_CLASS,
	  "full($type, shape, fill_value, dtype='float64')\n--\n\nNew array with every element set to fill_value." },
	{ "copy_of", copy_of, HO_METH_O | HO_METH_CLASS,
	  "copy_of($type, obj, /)\n--\n\nNew array with the contents of any array that handoff can read." },
	{ "tolist", tolist, HO_METH_NOARGS,
	  "tolist($self, /)\n--\n\nThe elements as nested lists of Python scalars." },
	{ "__dlpack__", FAST(ho_dlpack_method), FAST_FLAGS,
	  "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
	  "A DLPack capsule of this memory. Read-only memory needs max_version=(1, 0) or higher." },
	{ "__dlpack_device__", ho_dlpack_device_method, HO_METH_NOARGS,
	  "__dlpack_device__($self, /)\n--\n\nDevice type and ordinal." },
	{ NULL, NULL, 0, NULL },
};

static ho_PyType_Slot slots[] = {
	{ HO_tp_dealloc, (void *)ho_view_dealloc },
	{ HO_tp_repr, (void *)repr },
	{ HO_tp_iter, (void *)iter },
	{ HO_tp_methods, methods },
	{ HO_tp_getset, ho_view_getset },
	{ HO_mp_length, (void *)length },
	{ HO_mp_subscript, (void *)subscript },
	{ HO_mp_ass_subscript, (void *)assign },
	{ HO_bf_getbuffer, (void *)ho_view_getbuffer },
	{ HO_tp_doc,
	  (void *)"An array whose memory belongs to handoff: results of Go functions, and what the class\n"
	          "methods empty, zeros, full and copy_of make.\n\n"
	          "Other libraries take it without a copy by from_dlpack, the buffer protocol or\n"
	          "__array_interface__. Indexing with ints, slices, ... and None gives elements and views." },
	{ 0, NULL },
};

static ho_PyType_Spec spec = {
	"handoff.Array", (int)sizeof(ho_view), 0, HO_TPFLAGS_DEFAULT | HO_TPFLAGS_DISALLOW_INSTANTIATION, slots,
};

int ho_array_init(ho_PyObject *module)
{
	ho_array_type = (ho_PyTypeObject *)ho_py.PyType_FromSpec(&spec);
	iterator_type = (ho_PyTypeObject *)ho_py.PyType_FromSpec(&iterator_spec);
	if (ho_array_type == NULL || iterator_type == NULL || ho_offer_table(ho_array_type) != 0)
		return -1;
	return ho_py.PyModule_AddObjectRef(module, "Array", (ho_PyObject *)ho_array_type);
}
