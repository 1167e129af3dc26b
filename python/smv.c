/* handoff.StridedMemoryView: a view on memory that another object made. Names
 * and meanings are those of cuda.core. */
#include <stdio.h>
#include <string.h>

#include "gpu.h"

/* ---- Constructors ------------------------------------------------------- */

/* mode and on are those of ho_stream_arg. `lenient` takes host memory whatever
 * the stream: for the other side of a copy. */
static ho_PyObject *view_of_dlpack(ho_PyObject *obj, int mode, const ho_stream_ref *on, int lenient)
{
	ho_request req = { .copy = -1 };
	ho_arg arg;

	/* The same meaning on every path: -1 no order, 0 and 1 the legacy default
	 * stream, 2 the per-thread one, else a handle (R126 to R131, R142). */
	req.has_stream = mode != HO_STREAM_UNSAID;
	if (mode == HO_STREAM_NOSYNC)
		req.stream = -1;
	else if (mode == HO_STREAM_ON)
		req.stream = on->handle == 0 ? 1 : (int64_t)on->handle;
	uint32_t flags;
	ho_view *v = NULL;
	int how = ho_view_of_table(obj, mode == HO_STREAM_ON, &v, &flags);
	if (how < 0)
		return NULL;
	if (how > 0) {
		if (ho_consume_dlpack(obj, HO_WANT_OWNED, &req, &arg) != 0)
			return NULL;
		flags = arg.flags;
		ho_PyObject *descr = ho_ndarray_descr(obj);
		v = ho_view_from_arg(ho_view_type, &arg, obj);
		if (v == NULL)
			return NULL;
		if (descr != NULL)
			v->dtype = ho_newref(descr);
	}
	/* Memory that only a GPU touches: the caller says how to order. */
	if (!ho_device_is_host((int32_t)v->t.device.device_type) && mode == HO_STREAM_UNSAID) {
		ho_py.Py_DecRef(&v->ob);
		ho_raise(HO_X_BUFFER, 126, "from_dlpack",
		         "stream_ptr=None is ambiguous for GPU memory; pass a stream, or -1 for no ordering");
		return NULL;
	}
	if (v->t.device.device_type == kDLCPU && mode == HO_STREAM_ON && !lenient) {
		ho_py.Py_DecRef(&v->ob);
		ho_raise(HO_X_VALUE, 135, "from_dlpack", "memory on the CPU has no stream; pass None or -1");
		return NULL;
	}
	if (ho_view_imported(v, flags, mode, on) != 0) {
		ho_py.Py_DecRef(&v->ob);
		return NULL;
	}
	return &v->ob;
}

static const ho_param obj_stream[] = { { &ho_names.obj }, { &ho_names.stream_ptr } };

static ho_PyObject *from_dlpack(ho_PyObject *cls, ho_PyObject *const *args, ho_ssize n, ho_PyObject *kwnames)
{
	ho_PyObject *a[2];
	ho_stream_ref on;
	int mode;
	(void)cls;

	/* As it is mostly called. */
	if (HO_LIKELY(n == 2 && kwnames == NULL) || (n == 1 && ho_only_keyword(kwnames, ho_names.stream_ptr))) {
		a[0] = args[0];
		a[1] = args[1];
	} else if (ho_parse("from_dlpack", args, n, kwnames, obj_stream, 2, 2, 1, a) != 0) {
		return NULL;
	}
	if ((mode = ho_stream_arg(a[1], "from_dlpack", &on)) < 0)
		return NULL;
	ho_stream_ref_hold(&on); /* its object may be closed by the code of the other one */
	ho_PyObject *v = view_of_dlpack(a[0], mode, &on, 0);
	ho_stream_ref_unhold(&on);
	return v;
}

/* Structured and other types: bytes of that size, as NumPy sees them. */
int ho_view_void(ho_view *v, int64_t itemsize)
{
	char text[32];

	v->itemsize = itemsize;
	snprintf(text, sizeof text, "V%lld", (long long)itemsize);
	ho_PyObject *numpy = ho_py.PyImport_ImportModule("numpy");
	ho_PyObject *make = numpy != NULL ? ho_py.PyObject_GetAttr(numpy, ho_names.dtype) : NULL;
	ho_PyObject *s = make != NULL ? ho_py.PyUnicode_FromString(text) : NULL;
	v->dtype = s != NULL ? ho_py.PyObject_CallFunctionObjArgs(make, s, NULL) : NULL;
	ho_xdecref(s);
	ho_xdecref(make);
	ho_xdecref(numpy);
	return v->dtype != NULL ? 0 : -1;
}

static ho_PyObject *view_of_interface(ho_PyObject *obj)
{
	ho_arg arg;
	int64_t itemsize;

	if (ho_consume_interface(obj, HO_WANT_OWNED, 1, &itemsize, &arg) != 0)
		return NULL;
	int opaque = arg.dtype.bits == 0;
	ho_view *v = ho_view_from_arg(ho_view_type, &arg, obj);
	if (v == NULL)
		return NULL;
	if (opaque && ho_view_void(v, itemsize) != 0) {
		ho_py.Py_DecRef(&v->ob);
		return NULL;
	}
	return &v->ob;
}

static ho_PyObject *from_array_interface(ho_PyObject *cls, ho_PyObject *const *args, ho_ssize n, ho_PyObject *kwnames)
{
	ho_PyObject *obj;
	(void)cls;

	if (ho_parse("from_array_interface", args, n, kwnames, obj_stream, 1, 1, 1, &obj) != 0)
		return NULL;
	return view_of_interface(obj);
}

static ho_PyObject *from_cuda_array_interface(ho_PyObject *cls, ho_PyObject *const *args, ho_ssize n,
                                              ho_PyObject *kwnames)
{
	static const char op[] = "from_cuda_array_interface";
	ho_PyObject *a[2];
	ho_stream_ref on;
	int mode;
	(void)cls;

	if (ho_parse(op, args, n, kwnames, obj_stream, 2, 2, 1, a) != 0 || (mode = ho_stream_arg(a[1], op, &on)) < 0)
		return NULL;
	ho_stream_ref_hold(&on);
	ho_view *v = ho_view_of_cuda_interface(a[0], mode, &on);
	ho_stream_ref_unhold(&on);
	return (ho_PyObject *)v;
}

static ho_PyObject *view_of_buffer(ho_PyObject *obj)
{
	ho_arg arg;

	if (ho_consume_buffer(obj, HO_WANT_OWNED, &arg) != 0)
		return NULL;
	return (ho_PyObject *)ho_view_from_arg(ho_view_type, &arg, obj);
}

static ho_PyObject *view_of_any(ho_PyObject *obj, int mode, const ho_stream_ref *on, int lenient)
{
	ho_failed f = { 0 };
	ho_PyObject *r = NULL;

	ho_stream_ref_hold(on); /* its object may be closed by the code of obj */
	/* On a GPU DLPack goes before the CUDA array interface: it knows the device (R292). */
	if (ho_speaks_dlpack(obj, &f))
		r = view_of_dlpack(obj, mode, on, lenient);
	else if (ho_probe(obj, ho_names.cuda_array_interface, &f))
		r = (ho_PyObject *)ho_view_of_cuda_interface(obj, mode, on);
	else if (ho_probe(obj, ho_names.array_interface, &f))
		r = view_of_interface(obj);
	else if (!f.stop && ho_py.PyObject_CheckBuffer(obj))
		r = view_of_buffer(obj);
	else if (!ho_failed_raise(&f))
		ho_raise(HO_X_PROTOCOL, 158, "from_any_interface",
		         "the object has no __dlpack__, __cuda_array_interface__, __array_interface__ or buffer");
	ho_failed_drop(&f);
	ho_stream_ref_unhold(on);
	return r;
}

static ho_PyObject *from_any_interface(ho_PyObject *cls, ho_PyObject *const *args, ho_ssize n, ho_PyObject *kwnames)
{
	ho_PyObject *a[2];
	ho_stream_ref on;
	int mode;
	(void)cls;

	if (ho_parse("from_any_interface", args, n, kwnames, obj_stream, 2, 2, 1, a) != 0 ||
	    (mode = ho_stream_arg(a[1], "from_any_interface", &on)) < 0)
		return NULL;
	return view_of_any(a[0], mode, &on, 0);
}

/* StridedMemoryView(obj, stream_ptr): the constructor of code written for
 * cuda.core, deprecated there too. */
static ho_PyObject *view_new(ho_PyTypeObject *type, ho_PyObject *args, ho_PyObject *kwargs)
{
	static const char op[] = "StridedMemoryView";
	ho_PyObject *given[2] = { NULL, NULL };
	ho_ssize n = ho_py.PyTuple_Size(args), named = 0;
	ho_stream_ref on;
	int mode;
	(void)type;

	if (n > 2) {
		ho_py.PyErr_Format(ho_py.PyExc_TypeError, "%s() takes at most 2 arguments (%zd given)", op, n);
		return NULL;
	}
	for (ho_ssize i = 0; i < n; i++)
		given[i] = ho_py.PyTuple_GetItem(args, i);
	for (int i = 0; kwargs != NULL && i < 2; i++) {
		ho_PyObject *v = ho_py.PyDict_GetItemString(kwargs, i == 0 ? "obj" : "stream_ptr");
		if (v == NULL)
			continue;
		if (i < n) {
			ho_py.PyErr_Format(ho_py.PyExc_TypeError, "%s() got multiple values for an argument", op);
			return NULL;
		}
		given[i] = v;
		named++;
	}
	if (kwargs != NULL && named != ho_py.PyDict_Size(kwargs)) {
		ho_py.PyErr_Format(ho_py.PyExc_TypeError, "%s() takes the arguments obj and stream_ptr", op);
		return NULL;
	}
	if (given[0] == NULL || given[0] == HO_NONE) {
		ho_raise(HO_X_VALUE, 0, op, "there is no layout without an object: use a method such as from_any_interface");
		return NULL;
	}
	if (ho_py.PyErr_WarnEx(ho_py.PyExc_DeprecationWarning,
	                       "StridedMemoryView(obj, stream_ptr) is deprecated; use a method such as from_any_interface",
	                       1) != 0 ||
	    (mode = ho_stream_arg(given[1], op, &on)) < 0)
		return NULL;
	return view_of_any(given[0], mode, &on, 0);
}

/* The element type of from_buffer and view(): what dtype and itemsize say. */
struct element {
	DLDataType dl; /* bits 0: none */
	int64_t itemsize;
	int padded;
	ho_PyObject *dtype; /* what dtype should show; borrowed, NULL: derive it */
};

static int take_dtype(ho_PyObject *dtype, struct element *e)
{
	if (ho_dtype_from_object(dtype, &e->dl, &e->itemsize, &e->padded) != 0)
		return -1;
	/* Only a dtype object itself can show what DLPack cannot say. */
	e->dtype = e->dl.bits == 0 ? dtype : NULL;
	return 0;
}

/* A view on all of the memory of from, which has the bytes from lo to hi of a layout: bytes of a
 * buffer, or a dense array of any library. */
static ho_view *view_of_memory(const char *op, ho_PyObject *from, ho_PyObject *exporter, const struct element *e,
                               int64_t lo, int64_t hi)
{
	ho_arg arg;
	int taken = !ho_is_view(from) && ho_py.PyObject_CheckBuffer(from) ? ho_consume_buffer(from, HO_WANT_OWNED, &arg)
	                                                                  : ho_consume(from, HO_WANT_OWNED, &arg);

	if (taken != 0)
		return NULL;
	int64_t have = ho_count(arg.ndim, arg.shape), bits = (int64_t)arg.dtype.bits * arg.dtype.lanes;
	if (bits % 8 == 0 || arg.flags & HO_ARG_PADDED)
		have *= ho_dtype_bytes(arg.dtype);
	else
		have = have / 8 * bits + (have % 8 * bits + 7) / 8; /* packed (B088) */
	int bad = 0;
	if (!ho_is_c_contiguous(arg.ndim, arg.shape, arg.strides))
		bad = ho_raise(HO_E_LAYOUT, 0, op, "the buffer is not contiguous");
	else if (lo < 0)
		bad = ho_raise(HO_X_VALUE, 0, op, "the layout begins %lld bytes before the buffer", -(long long)lo);
	else if (hi > have)
		bad = ho_raise(HO_X_VALUE, 0, op, "Expected at least %lld bytes, got %lld", (long long)hi, (long long)have);
	else if (hi > lo && e->dl.bits != 0 && arg.data % (uint64_t)ho_dtype_align(e->dl) != 0)
		bad = ho_raise(HO_E_ALIGN, 41, op, "the buffer is not aligned for the dtype");
	if (bad) {
		ho_arg_done(&arg);
		return NULL;
	}
	ho_view *v = ho_view_from_arg(ho_view_type, &arg, exporter);
	if (v != NULL)
		ho_view_keep_of(v, from);
	return v;
}

static ho_PyObject *from_buffer(ho_PyObject *cls, ho_PyObject *const *args, ho_ssize n, ho_PyObject *kwnames)
{
	static const ho_param params[] = { { &ho_names.buffer },   { &ho_names.shape }, { &ho_names.strides },
		                           { &ho_names.itemsize }, { &ho_names.dtype }, { &ho_names.is_readonly } };
	static const char op[] = "from_buffer";
	ho_PyObject *a[6];
	struct element e = { { kDLOpaqueHandle, 0, 1 }, 0, 0, NULL };
	int64_t shape[HO_MAX_DIMS], strides[HO_MAX_DIMS], lo, hi;
	int32_t ndim, more;
	(void)cls;

	if (ho_parse(op, args, n, kwnames, params, 6, 3, 2, a) != 0)
		return NULL;
	int has_dtype = a[4] != NULL && a[4] != HO_NONE, has_size = a[3] != NULL && a[3] != HO_NONE;
	if (!has_dtype && !has_size) {
		ho_raise(HO_X_VALUE, 0, op, "one of itemsize and dtype is needed");
		return NULL;
	}
	if (has_dtype && take_dtype(a[4], &e) != 0)
		return NULL;
	if (has_size) {
		long long size = ho_py.PyLong_AsLongLong(a[3]);
		if (size == -1 && ho_py.PyErr_Occurred())
			return NULL;
		if (size <= 0 || size > INT32_MAX) {
			ho_raise(HO_X_VALUE, 0, op, "itemsize %lld is not the size of an element", size);
			return NULL;
		}
		if (has_dtype && size != e.itemsize) {
			ho_raise(HO_X_VALUE, 0, op, "itemsize %lld does not agree with the dtype's %lld", size,
			         (long long)e.itemsize);
			return NULL;
		}
		e.itemsize = size;
	}
	if (ho_parse_dims(a[1], "shape", shape, &ndim) != 0)
		return NULL;
	if (a[2] != NULL && a[2] != HO_NONE) {
		if (ho_parse_dims(a[2], "strides", strides, &more) != 0)
			return NULL;
		if (more != ndim) {
			ho_raise(HO_X_VALUE, 0, op, "%d strides for %d dimensions", more, ndim);
			return NULL;
		}
	} else if (ho_row_major(ndim, shape, strides) != 0) {
		ho_raise(HO_X_VALUE, 34, op, "the shape does not fit in 64 bits");
		return NULL;
	}
	/* The layout by itself: the checks of a tensor of that many bytes. */
	DLTensor t = { NULL, { kDLCPU, 0 }, ndim, { kDLUInt, 8, 1 }, shape, strides, 0 };
	if (e.itemsize <= UINT16_MAX)
		t.dtype.lanes = (uint16_t)e.itemsize;
	t.data = (void *)(uintptr_t)(1ULL << 62); /* any address with room on both sides */
	int rule = 0, code = e.itemsize > UINT16_MAX ? HO_E_OVERFLOW : ho_check_tensor(&t, 0, &rule);
	if (code != 0) {
		ho_raise(HO_X_VALUE, rule, op, "%s", ho_error_text(code));
		return NULL;
	}
	ho_span(ndim, shape, strides, e.itemsize, &lo, &hi);

	/* The memory: bytes of a buffer, or a dense array of any library. */
	ho_PyObject *from = a[0], *inner = NULL;
	if (!ho_is_view(from) && (inner = ho_py.PyObject_GetAttrString(from, "_handoff_view")) != NULL)
		from = inner; /* a Buffer */
	else if (!ho_is_view(from) && !ho_py.PyErr_ExceptionMatches(ho_py.PyExc_AttributeError))
		return NULL;
	ho_py.PyErr_Clear();
	int readonly = a[5] != NULL ? ho_py.PyObject_IsTrue(a[5]) : 0;
	ho_view *whole = readonly >= 0 ? view_of_memory(op, from, a[0], &e, lo, hi) : NULL;
	ho_xdecref(inner);
	if (whole == NULL)
		return NULL;
	ho_view *v = ho_view_sub(whole, whole->t.data, ndim, shape, strides);
	ho_py.Py_DecRef(&whole->ob);
	if (v == NULL)
		return NULL;
	v->t.dtype = e.dl;
	v->itemsize = e.itemsize;
	v->flags = (v->flags & DLPACK_FLAG_BITMASK_READ_ONLY) | (readonly ? DLPACK_FLAG_BITMASK_READ_ONLY : 0) |
	           (e.padded ? DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED : 0);
	ho_xdecref(v->dtype);
	v->dtype = e.dl.bits != 0 ? NULL : ho_newref(e.dtype != NULL ? e.dtype : HO_NONE);
	return &v->ob;
}

/* ---- Methods ------------------------------------------------------------ */

/* An int attribute of a layout, if it has that. 1, 0 without one, or -1. */
static int layout_attr(ho_PyObject *o, const char *name, int64_t *out)
{
	int overflow = 0;
	ho_PyObject *a = ho_py.PyObject_GetAttrString(o, name);
	if (a == NULL)
		return ho_other_than(ho_py.PyExc_AttributeError) ? -1 : 0;
	*out = ho_py.PyLong_AsLongLongAndOverflow(a, &overflow);
	ho_py.Py_DecRef(a);
	if (overflow)
		return ho_raise(HO_X_VALUE, 0, "view", "%s of the layout does not fit in 64 bits", name);
	return *out == -1 && ho_py.PyErr_Occurred() ? -1 : 1;
}

/* The element that a layout begins at, of objects that say so (StridedLayout);
 * those have the item size that they are for, too. */
static int take_offset(ho_PyObject *o, int64_t itemsize, int64_t *offset)
{
	int64_t size = itemsize;
	int has = layout_attr(o, "slice_offset", offset);

	if (has <= 0)
		return has;
	if (layout_attr(o, "itemsize", &size) < 0)
		return -1;
	return size == itemsize ? 0
	                        : ho_raise(HO_X_VALUE, 0, "view", "a layout for items of %lld bytes, not %lld",
	                                   (long long)size, (long long)itemsize);
}

/* Whether an object is an array of another library, whose strides count bytes. */
static int is_foreign_array(ho_PyObject *o)
{
	return !ho_is_view(o) && (ho_py.PyObject_CheckBuffer(o) || ho_type_has(o, "__array_interface__") ||
	                          ho_type_has(o, "__cuda_array_interface__"));
}

/* (shape, strides or None), or an object with shape and strides. */
static int take_layout(ho_PyObject *o, int64_t itemsize, int64_t *shape, int64_t *strides, int32_t *ndim, int64_t *offset)
{
	ho_PyObject *s = NULL, *t = NULL;
	int32_t more;
	int r = -1;

	*offset = 0;
	if (HO_TYPE(o) == (ho_PyTypeObject *)ho_py.PyTuple_Type && ho_py.PyTuple_Size(o) == 2 &&
	    !ho_py.PyIndex_Check(ho_py.PyTuple_GetItem(o, 0))) {
		s = ho_newref(ho_py.PyTuple_GetItem(o, 0));
		t = ho_newref(ho_py.PyTuple_GetItem(o, 1));
	} else {
		if (is_foreign_array(o))
			return ho_raise(HO_X_TYPE, 0, "view",
			                "the strides of an array count bytes: give a StridedLayout, a pair (shape, strides in "
			                "elements), or a view of the array");
		s = ho_py.PyObject_GetAttr(o, ho_names.shape);
		t = s != NULL ? ho_py.PyObject_GetAttr(o, ho_names.strides) : NULL;
		if (t == NULL) {
			if (ho_other_than(ho_py.PyExc_AttributeError))
				goto done;
			ho_raise(HO_X_TYPE, 0, "view", "layout is a pair (shape, strides), or has shape and strides");
			goto done;
		}
		if (take_offset(o, itemsize, offset) != 0)
			goto done;
	}
	if (ho_parse_dims(s, "shape", shape, ndim) != 0)
		goto done;
	if (t == HO_NONE)
		r = ho_row_major(*ndim, shape, strides) == 0
		            ? 0
		            : ho_raise(HO_X_VALUE, 34, "view", "the shape does not fit in 64 bits");
	else if (ho_parse_dims(t, "strides", strides, &more) == 0)
		r = more == *ndim ? 0 : ho_raise(HO_X_VALUE, 0, "view", "%d strides for %d dimensions", more, *ndim);
done:
	ho_xdecref(s);
	ho_xdecref(t);
	return r;
}

static ho_PyObject *view_method(ho_PyObject *self, ho_PyObject *const *args, ho_ssize n, ho_PyObject *kwnames)
{
	static const ho_param params[] = { { &ho_names.layout }, { &ho_names.dtype } };
	ho_view *v = (ho_view *)self;
	ho_PyObject *a[2];
	struct element e = { v->t.dtype, v->itemsize,
		             (v->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) != 0, NULL };
	int64_t shape[HO_MAX_DIMS], strides[HO_MAX_DIMS];
	int64_t *use_shape = v->t.shape, *use_strides = v->t.strides;
	void *data = v->t.data;
	int32_t ndim = v->t.ndim;

	if (ho_parse("view", args, n, kwnames, params, 2, 2, 0, a) != 0)
		return NULL;
	int has_layout = a[0] != NULL && a[0] != HO_NONE, has_dtype = a[1] != NULL && a[1] != HO_NONE;
	if (!has_layout && !has_dtype)
		return ho_newref(self);
	if (ho_view_live(v, "view") != 0)
		return NULL;
	if (has_dtype) {
		if (take_dtype(a[1], &e) != 0)
			return NULL;
		if (e.itemsize != v->itemsize || ho_whole_bytes(v, "view") != 0) {
			if (!ho_py.PyErr_Occurred())
				ho_raise(HO_X_VALUE, 0, "view", "the dtype has %lld bytes per element, the view has %lld",
				         (long long)e.itemsize, (long long)v->itemsize);
			return NULL;
		}
	}
	if (has_layout) {
		int64_t lo, hi, old_lo, old_hi, offset;
		if (take_layout(a[0], v->itemsize, shape, strides, &ndim, &offset) != 0)
			return NULL;
		if (offset != 0 && ho_whole_bytes(v, "view") != 0)
			return NULL;
		/* The new layout stays within the elements that the old one reaches. */
		DLTensor t = v->t;
		t.ndim = ndim;
		t.shape = shape;
		t.strides = strides;
		if (t.dtype.bits == 0)
			t.dtype = (DLDataType){ kDLUInt, 8, (uint16_t)(v->itemsize <= UINT16_MAX ? v->itemsize : 1) };
		int rule = 0, code = ho_check_tensor(&t, v->flags, &rule);
		if (code != 0) {
			ho_raise(HO_X_VALUE, rule, "view", "layout: %s", ho_error_text(code));
			return NULL;
		}
		/* In elements: of packed ones the rounded bytes may not fit in 64 bits. */
		ho_span(ndim, shape, strides, 1, &lo, &hi);
		ho_span(v->t.ndim, v->t.shape, v->t.strides, 1, &old_lo, &old_hi);
		if (hi > lo && (__builtin_add_overflow(lo, offset, &lo) || __builtin_add_overflow(hi, offset, &hi) ||
		                lo < old_lo || hi > old_hi)) {
			ho_raise(HO_X_VALUE, 0, "view", "the layout reaches elements %lld to %lld, the view has %lld to %lld",
			         (long long)lo, (long long)hi, (long long)old_lo, (long long)old_hi);
			return NULL;
		}
		use_shape = shape;
		use_strides = strides;
		if (hi > lo) /* of nothing, where it begins is no matter */
			data = (char *)data + offset * v->itemsize;
	}
	if (e.dl.bits != 0 && data != NULL && (uintptr_t)data % (uintptr_t)ho_dtype_align(e.dl) != 0) {
		ho_raise(HO_E_ALIGN, 41, "view", "the memory is not aligned for the dtype");
		return NULL;
	}
	ho_view *s = ho_view_sub(v, data, ndim, use_shape, use_strides);
	if (s == NULL)
		return NULL;
	if (has_dtype) {
		s->t.dtype = e.dl;
		s->flags = (s->flags & DLPACK_FLAG_BITMASK_READ_ONLY) |
		           (e.padded ? DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED : 0);
		ho_xdecref(s->dtype);
		s->dtype = e.dtype != NULL ? ho_newref(e.dtype) : NULL;
	}
	return &s->ob;
}

static const ho_param copy_params[] = { { &ho_names.other }, { &ho_names.stream },
	                                { &ho_names.allocator }, { &ho_names.blocking } };

/* One copy between self and other. Host memory is copied at once, everything
 * else in the order of the stream, which must be given then. Of the arguments in a,
 * allocator is there for programs of cuda.core: copies bring what they need along. */
static ho_PyObject *copy_between(ho_PyObject *self, ho_PyObject *const a[4], int to_other)
{
	ho_PyObject *other = a[0], *stream = a[1];
	static const char op[] = "copy";
	ho_stream_ref on;
	ho_arg arg;
	int wait = a[3] != NULL && a[3] != HO_NONE ? ho_py.PyObject_IsTrue(a[3]) : HO_WAIT_FOR_HOST;
	int mode = wait < 0 ? -1 : ho_stream_arg(stream, op, &on), r = -1;

	if (mode < 0 || ho_view_live((ho_view *)self, op) != 0)
		return NULL;
	/* Only where the order is said can the other side be taken, which may be any code
	 * and close the stream. */
	ho_stream_ref_hold(&on);
	ho_view *it = ho_is_view(other) ? (ho_view *)ho_newref(other)
	                                : (ho_view *)view_of_any(other, mode, &on, 1);
	if (it == NULL)
		goto done;
	ho_view *me = (ho_view *)self, *dst = to_other ? it : me, *src = to_other ? me : it;
	if (ho_view_needs_stream(me) || ho_view_needs_stream(it)) {
		if (mode != HO_STREAM_ON)
			ho_raise(HO_X_TYPE, 126, op, "GPU memory is copied in the order of a stream: pass stream=");
		else
			r = ho_view_copy_on(dst, src, &on, wait);
	} else if (mode == HO_STREAM_ON) {
		ho_raise(HO_X_VALUE, 135, op, "host memory has no stream; leave it out");
	} else if (ho_consume(&src->ob, 0, &arg) == 0) {
		r = ho_view_copy(dst, &arg);
		ho_arg_done(&arg);
	}
	ho_py.Py_DecRef(&it->ob);
done:
	ho_stream_ref_unhold(&on);
	return r == 0 ? ho_newref(HO_NONE) : NULL;
}

static ho_PyObject *copy_from(ho_PyObject *self, ho_PyObject *const *args, ho_ssize n, ho_PyObject *kwnames)
{
	ho_PyObject *a[4];

	if (ho_parse("copy_from", args, n, kwnames, copy_params, 4, 4, 1, a) != 0)
		return NULL;
	return copy_between(self, a, 0);
}

static ho_PyObject *copy_to(ho_PyObject *self, ho_PyObject *const *args, ho_ssize n, ho_PyObject *kwnames)
{
	ho_PyObject *a[4];

	if (ho_parse("copy_to", args, n, kwnames, copy_params, 4, 4, 1, a) != 0)
		return NULL;
	return copy_between(self, a, 1);
}

static ho_PyObject *repr(ho_PyObject *self)
{
	ho_view *v = (ho_view *)self;
	char text[80], device[32], ptr[32];
	ho_PyObject *shape = ho_int_tuple(v->t.ndim, v->t.shape), *result = NULL;
	ho_PyObject *strides = v->c_contiguous ? ho_newref(HO_NONE) : ho_int_tuple(v->t.ndim, v->t.strides);

	snprintf(ptr, sizeof ptr, "0x%llx", (unsigned long long)(uintptr_t)v->t.data);
	snprintf(device, sizeof device, "%d", v->t.device.device_type == kDLCPU ? -1 : (int)v->t.device.device_id);
	if (shape != NULL && strides != NULL)
		result = ho_py.PyUnicode_FromFormat(
			"StridedMemoryView(ptr=%s, shape=%R, strides=%R, itemsize=%zd, dtype=%s, device_id=%s, "
			"is_device_accessible=%s, readonly=%s)",
			ptr, shape, strides, (ho_ssize)v->itemsize, ho_view_dtype_text(v, text), device,
			ho_view_on_device(v) ? "True" : "False",
			v->flags & DLPACK_FLAG_BITMASK_READ_ONLY ? "True" : "False");
	ho_xdecref(shape);
	ho_xdecref(strides);
	return result;
}

/* The exporter may hold the view; the collector has to know. The owner holds
 * nothing that it could see. */
static int traverse(ho_PyObject *self, int (*visit)(ho_PyObject *, void *), void *arg)
{
	ho_view *v = (ho_view *)self;
	ho_PyObject *parts[] = { (ho_PyObject *)HO_TYPE(self), v->exporter, v->dtype, v->keeper };

	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
		int r = parts[i] != NULL ? visit(parts[i], arg) : 0;
		if (r != 0)
			return r;
	}
	return 0;
}

/* ---- The type ----------------------------------------------------------- */

#define FAST(f) (ho_PyCFunction)(void (*)(void)) f
#define FAST_FLAGS (HO_METH_FASTCALL | HO_METH_KEYWORDS)

/* Attributes of the type that are plain functions, not class methods: those would be
 * an object for each call, which takes longer than all checks. */
static ho_PyMethodDef constructors[] = {
	{ "from_dlpack", FAST(from_dlpack), FAST_FLAGS,
	  "from_dlpack(obj, stream_ptr=None)\n--\n\n"
	  "View of an object that speaks DLPack, or of a DLPack capsule, without a copy.\n\n"
	  "stream_ptr says on which stream GPU memory will be used: a stream of any library, or an int: -1\n"
	  "for no ordering, 0 or 1 for the legacy and 2 for the per-thread default stream, else a raw\n"
	  "handle. Work queued on it afterwards comes after the producer's, by one event at most; the\n"
	  "host does not wait. It must be given for GPU memory and is None or -1 for host memory." },
	{ "from_array_interface", FAST(from_array_interface), FAST_FLAGS,
	  "from_array_interface(obj)\n--\n\nView of an object with NumPy's __array_interface__ (version 3)." },
	{ "from_cuda_array_interface", FAST(from_cuda_array_interface), FAST_FLAGS,
	  "from_cuda_array_interface(obj, stream_ptr=None)\n--\n\n"
	  "View of an object with __cuda_array_interface__, of any version.\n\n"
	  "stream_ptr is as for from_dlpack and must be given. Versions below 3 name no stream: nothing is\n"
	  "ordered, unless the type has a DLPack exchange table, which tells." },
	{ "from_any_interface", FAST(from_any_interface), FAST_FLAGS,
	  "from_any_interface(obj, stream_ptr=None)\n--\n\n"
	  "View of an object by the first protocol it speaks: DLPack, the CUDA array interface,\n"
	  "NumPy's array interface, the buffer protocol." },
	{ "from_buffer", FAST(from_buffer), FAST_FLAGS,
	  "from_buffer(buffer, shape, strides=None, *, itemsize=None, dtype=None, is_readonly=False)\n--\n\n"
	  "View of the bytes of a contiguous buffer with a shape, strides in elements and a dtype.\n\n"
	  "One of itemsize and dtype is needed. ValueError if the layout does not fit." },
};

static ho_PyMethodDef methods[] = {
	{ "view", FAST(view_method), FAST_FLAGS,
	  "view($self, /, layout=None, dtype=None)\n--\n\n"
	  "The same memory with another layout, a StridedLayout or a pair (shape, strides or None), or\n"
	  "another dtype of the same item size. Without arguments the view itself." },
	{ "copy_from", FAST(copy_from), FAST_FLAGS,
	  "copy_from($self, other, stream=None, allocator=None, blocking=None)\n--\n\n"
	  "Copies the elements of other, of the same shape and dtype, into this view.\n\n"
	  "Between host memories the copy is done at return. Where a GPU is on either side it is queued on\n"
	  "the stream, which must be given; both sides are ordered on it, and any strides will do.\n\n"
	  "With blocking=True the host waits until the copy is done; with False it does not, and host\n"
	  "memory must not be touched until the stream is there. None is True if one side is memory that a\n"
	  "GPU cannot reach, unless the stream captures. The allocator is not used: copies bring the memory\n"
	  "along that they need." },
	{ "copy_to", FAST(copy_to), FAST_FLAGS,
	  "copy_to($self, other, stream=None, allocator=None, blocking=None)\n--\n\n"
	  "Copies the elements of this view into other, of the same shape and dtype: see copy_from." },
	{ "release_on", ho_view_release_on, HO_METH_O,
	  "release_on($self, stream, /)\n--\n\n"
	  "Gives the memory back after the work that is queued on the stream now.\n\n"
	  "The producer's stream waits for it where that is known; otherwise the claim is dropped once an\n"
	  "event on the stream is done. The host does not wait. The view cannot be used afterwards." },
	{ "__dlpack__", FAST(ho_dlpack_method), FAST_FLAGS,
	  "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
	  "A DLPack capsule of this memory. Read-only memory needs max_version=(1, 0) or higher." },
	{ "__dlpack_device__", ho_dlpack_device_method, HO_METH_NOARGS,
	  "__dlpack_device__($self, /)\n--\n\nDevice type and ordinal." },
	{ NULL, NULL, 0, NULL },
};

static ho_PyType_Slot slots[] = {
	{ HO_tp_new, (void *)view_new },
	{ HO_tp_dealloc, (void *)ho_view_dealloc },
	{ HO_tp_traverse, (void *)traverse },
	{ HO_tp_repr, (void *)repr },
	{ HO_tp_methods, methods },
	{ HO_tp_getset, ho_view_getset },
	{ HO_bf_getbuffer, (void *)ho_view_getbuffer },
	{ HO_tp_doc,
	  (void *)"A view on the memory of an array that another object made: pointer, shape, strides, dtype.\n\n"
	          "Made by its functions from_dlpack, from_any_interface, from_array_interface,\n"
	          "from_cuda_array_interface and from_buffer. The exporting object is kept alive by the view,\n"
	          "and by every array that another library makes of it." },
	{ 0, NULL },
};

static ho_PyType_Spec spec = {
	"handoff.StridedMemoryView", (int)sizeof(ho_view), 0,
	HO_TPFLAGS_DEFAULT | HO_TPFLAGS_HAVE_GC, slots,
};

int ho_smv_init(ho_PyObject *module)
{
	ho_view_type = (ho_PyTypeObject *)ho_py.PyType_FromSpec(&spec);
	if (ho_view_type == NULL || ho_offer_table(ho_view_type) != 0)
		return -1;
	ho_PyObject *name = ho_py.PyUnicode_FromString("handoff");
	int r = name != NULL ? 0 : -1;
	for (size_t i = 0; r == 0 && i < sizeof constructors / sizeof constructors[0]; i++) {
		ho_PyObject *f = ho_py.PyCFunction_NewEx(&constructors[i], NULL, name);
		r = f != NULL ? ho_py.PyObject_SetAttrString((ho_PyObject *)ho_view_type, constructors[i].ml_name, f) : -1;
		ho_xdecref(f);
	}
	ho_xdecref(name);
	if (r != 0)
		return -1;
	return ho_py.PyModule_AddObjectRef(module, "StridedMemoryView", (ho_PyObject *)ho_view_type);
}
