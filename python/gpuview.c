/* Views of GPU memory: order on import and export, the CUDA array interface,
 * copies in stream order, release in stream order. */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_cuda(DLDeviceType type)
{
	return type == kDLCUDA || type == kDLCUDAHost || type == kDLCUDAManaged;
}

static int is_empty(const ho_view *v)
{
	return ho_count(v->t.ndim, v->t.shape) == 0;
}

static ho_stream_ref pending(const ho_view *v)
{
	return (ho_stream_ref){ (uint64_t)(uintptr_t)v->stream, v->stream_ctx, v->keeper };
}

static uint64_t plain_handle(uint64_t handle)
{
	return handle == 0 ? 1 : handle;
}

int ho_view_live(const ho_view *v, const char *op)
{
	return HO_LIKELY(!v->released) ? 0 : ho_raise(HO_X_CLOSED, 0, op, "the view was released");
}

/* Whether something known is pending on v's memory: 1, 0, or -1 with an
 * exception set. The per-thread default stream means another stream on another
 * thread (R278). */
static int is_pending(const ho_view *v, const char *op)
{
	if (HO_LIKELY(!v->ordered) || !is_cuda(v->t.device.device_type) || is_empty(v))
		return 0;
	if (HO_UNLIKELY((uintptr_t)v->stream == 2 && !pthread_equal(v->thread, pthread_self())))
		return ho_raise(HO_X_STREAM, 278, op, "the view is ordered on the per-thread default stream of another thread");
	return 1;
}

/* ---- Order -------------------------------------------------------------- */

/* Work queued on `to` from now on comes after what is queued on `from` now: by
 * one event edge, and by none if they are one stream or nothing is pending. dev
 * is as for ho_stream_order. */
static int order_after(const char *op, int dev, const ho_stream_ref *from, const ho_stream_ref *to)
{
	ho_driver *d;
	ho_stream_ref a = *from;
	ho_PyObject *kept = NULL; /* another thread may use the view on another stream meanwhile */
	int r = 0;

	if (ho_stream_same(from, to))
		return 0;
	if ((d = ho_gpu()) == NULL || (a.ctx == 0 && (a.ctx = ho_gpu_context(dev)) == 0))
		return -1;
	if (a.keep != NULL)
		ho_stream_keep(&kept, a.keep);
	int quiet = 0;
	if (ho_stream_ask(d, dev, &a, to)) {
		quiet = ho_stream_quiet(d, (ho_context)a.ctx, (ho_stream)a.handle);
		ho_stream_answered(&a, quiet);
	}
	if (!quiet)
		r = ho_stream_order(op, dev, from, to);
	if (kept != NULL)
		ho_stream_keep(&kept, NULL);
	return r;
}

/* ---- Import ------------------------------------------------------------- */

int ho_view_imported(ho_view *v, uint32_t arg_flags, int mode, const ho_stream_ref *on)
{
	static const char op[] = "import";

	if (v->t.device.device_type == kDLCPU)
		return 0;
	if (arg_flags & HO_ARG_PRODUCER) {
		v->producer = (uint64_t)(uintptr_t)v->stream;
		v->produced = 1;
	}
	if (mode != HO_STREAM_ON)
		return 0; /* whoever takes it from here is ordered after the producer, if that is known */
	if (v->produced && !is_empty(v)) {
		ho_stream_ref from = { v->producer, v->stream_ctx, NULL };
		if (!is_cuda(v->t.device.device_type))
			return ho_raise(HO_E_DEVICE, 0, op, "memory on device type %d cannot be ordered on a CUDA stream",
			                (int)v->t.device.device_type);
		if (order_after(op, (int)v->t.device.device_id, &from, on) != 0)
			return -1;
	}
	ho_view_pending(v, on->handle, on->ctx, on->keep);
	return 0;
}

/* ---- CUDA array interface, in ------------------------------------------- */

static const char cai_op[] = "CUDA array interface";

static int subtype(ho_PyObject *o, ho_PyObject *type)
{
	return ho_py.PyType_IsSubtype(HO_TYPE(o), (ho_PyTypeObject *)type);
}

/* dict[name], or NULL; None counts as absent. */
static ho_PyObject *entry_of(ho_PyObject *dict, ho_PyObject *name)
{
	ho_PyObject *v = ho_py.PyDict_GetItemWithError(dict, name);
	if (v == NULL)
		ho_py.PyErr_Clear();
	return v == HO_NONE ? NULL : v;
}

/* A tuple of ints into out; `rule` for everything that is wrong with it. */
static int take_ints(ho_PyObject *tuple, const char *key, int rule, int64_t *out)
{
	ho_ssize n = ho_py.PyTuple_Size(tuple);

	for (ho_ssize i = 0; i < n; i++) {
		ho_PyObject *o = ho_py.PyTuple_GetItem(tuple, i), *index = NULL;
		int overflow = 0;
		if (HO_UNLIKELY(HO_TYPE(o) != (ho_PyTypeObject *)ho_py.PyLong_Type)) {
			index = ho_py.PyNumber_Index(o);
			if (index == NULL) {
				if (ho_other_than(ho_py.PyExc_TypeError))
					return -1;
				return ho_raise(HO_X_TYPE, rule, cai_op, "%s[%lld] is not an int", key, (long long)i);
			}
		}
		out[i] = ho_py.PyLong_AsLongLongAndOverflow(index != NULL ? index : o, &overflow);
		ho_xdecref(index);
		if (overflow)
			return ho_raise(HO_X_VALUE, rule, cai_op, "%s[%lld] does not fit in 64 bits", key, (long long)i);
	}
	return 0;
}

/* The producer's stream: 1 and *out, 0 if nothing is pending, -1 (3.3). */
static int take_stream(ho_PyObject *o, uint64_t *out)
{
	if (o == NULL)
		return 0;
	if (!subtype(o, ho_py.PyLong_Type) || HO_TYPE(o) == (ho_PyTypeObject *)ho_py.PyBool_Type)
		return ho_raise(HO_X_TYPE, 187, cai_op, "stream is not an int");
	unsigned long long v = ho_py.PyLong_AsUnsignedLongLong(o);
	if (v == (unsigned long long)-1 && ho_py.PyErr_Occurred()) {
		ho_py.PyErr_Clear();
		return ho_raise(HO_X_RANGE, 187, cai_op, "stream is negative or does not fit in 64 bits");
	}
	if (v == 0)
		return ho_raise(HO_X_VALUE, 184, cai_op, "stream 0 is ambiguous and not allowed");
	if (v > 2 && v < 4096)
		return ho_raise(HO_X_VALUE, 187, cai_op, "stream %llu is neither a default stream nor an address", v);
	*out = v;
	return 1;
}

int ho_gpu_where(uint64_t address, DLDevice *out)
{
	ho_driver *d = ho_gpu();

	if (d == NULL)
		return -1;
	ho_pointer_class info = ho_pointer_kind(&d->t, address);
	if (info.st != HO_CUDA_SUCCESS && info.st != HO_CUDA_ERROR_INVALID_VALUE)
		return ho_gpu_check(cai_op, -1, info.st);
	if (info.st != HO_CUDA_SUCCESS || info.type == 0)
		return 0;
	if (info.managed)
		*out = (DLDevice){ kDLCUDAManaged, 0 };
	else if (info.type == HO_CU_MEMORYTYPE_HOST)
		*out = (DLDevice){ kDLCUDAHost, 0 };
	else
		*out = (DLDevice){ kDLCUDA, info.device };
	return 1;
}

/* Whose memory it is: the interface does not say. */
static int find_device(uint64_t address, DLDevice *out)
{
	int known = ho_gpu_where(address, out);

	if (HO_LIKELY(known > 0))
		return 0;
	if (known == 0)
		return ho_raise(HO_E_DEVICE, 172, cai_op, "no device knows the memory at 0x%llx",
		                (unsigned long long)address);
	if (ho_py.PyErr_ExceptionMatches(ho_error_class(HO_X_NODRIVER))) {
		ho_py.PyErr_Clear();
		return ho_raise(HO_X_NODRIVER, 288, cai_op,
		                "there is no GPU driver that could tell whose memory it is; HANDOFF_DRIVER chooses one");
	}
	return -1;
}

/* The entries of the dict, or NULL. */
enum { SHAPE, TYPESTR, DATA, VERSION, STRIDES, MASK, DESCR, STREAM, ENTRIES };

static ho_view *read_dict(ho_PyObject *obj, ho_PyObject *const *entries, int mode, const ho_stream_ref *on)
{
	ho_PyObject *shape = entries[SHAPE], *typestr = entries[TYPESTR], *data = entries[DATA];
	ho_PyObject *version = entries[VERSION], *strides = entries[STRIDES];
	if (shape == NULL || typestr == NULL || data == NULL || version == NULL) {
		ho_raise(HO_X_VALUE, 167, cai_op, "the key %s is missing",
		         shape == NULL ? "shape" : typestr == NULL ? "typestr" : data == NULL ? "data" : "version");
		return NULL;
	}
	int overflow = 0;
	if (!subtype(version, ho_py.PyLong_Type)) {
		ho_raise(HO_X_TYPE, 197, cai_op, "version is not an int");
		return NULL;
	}
	long long number = ho_py.PyLong_AsLongLongAndOverflow(version, &overflow);
	if (number < 0 || overflow < 0) { /* newer ones are welcome (R196) */
		ho_raise(HO_E_VERSION, 197, cai_op, "version %lld", number);
		return NULL;
	}
	if (entries[MASK] != NULL) {
		ho_raise(HO_X_MASK, 181, cai_op, "masked arrays are not supported");
		return NULL;
	}
	if (!subtype(typestr, ho_py.PyUnicode_Type)) {
		ho_raise(HO_X_TYPE, 168, cai_op, "typestr is not a str");
		return NULL;
	}
	const char *s = ho_py.PyUnicode_AsUTF8AndSize(typestr, NULL);
	DLTensor t = { NULL, { kDLCUDA, 0 }, 0, { kDLOpaqueHandle, 0, 1 }, NULL, NULL, 0 };
	int64_t itemsize = 0;
	int r = s != NULL ? ho_parse_typestr(s, &t.dtype, &itemsize) : -1;
	if (r < 0)
		return NULL;
	if (r == 2) {
		ho_raise(HO_E_DTYPE, 171, cai_op, "typestr '%.40s' is in foreign byte order", s);
		return NULL;
	}
	if (r == 1) /* structured and others: bytes of that size */
		t.dtype = (DLDataType){ kDLOpaqueHandle, 0, 1 };
	if (itemsize <= 0) {
		ho_raise(HO_X_VALUE, 170, cai_op, "typestr '%.40s' has no size", s);
		return NULL;
	}
	if (r == 1 && strchr(s, 'O') != NULL) { /* addresses of Python objects mean nothing there */
		ho_raise(HO_E_DTYPE, 171, cai_op, "typestr '%.40s' is of Python objects", s);
		return NULL;
	}
	if (r == 1 && ho_check_descr(cai_op, s, entries[DESCR], itemsize) != 0)
		return NULL;
	if (!subtype(shape, ho_py.PyTuple_Type) || (strides != NULL && !subtype(strides, ho_py.PyTuple_Type))) {
		ho_raise(HO_X_TYPE, subtype(shape, ho_py.PyTuple_Type) ? 178 : 169, cai_op, "%s is not a tuple",
		         subtype(shape, ho_py.PyTuple_Type) ? "strides" : "shape");
		return NULL;
	}
	ho_ssize n = ho_py.PyTuple_Size(shape);
	if (n > HO_MAX_DIMS) {
		ho_raise(HO_X_VALUE, 169, cai_op, "%lld dimensions", (long long)n);
		return NULL;
	}
	if (strides != NULL && ho_py.PyTuple_Size(strides) != n) {
		ho_raise(HO_X_VALUE, 179, cai_op, "%lld strides for %lld dimensions",
		         (long long)ho_py.PyTuple_Size(strides), (long long)n);
		return NULL;
	}
	if (!subtype(data, ho_py.PyTuple_Type) || ho_py.PyTuple_Size(data) != 2) {
		ho_raise(HO_X_TYPE, 172, cai_op, "data is not a tuple of an address and a flag");
		return NULL;
	}
	ho_PyObject *pointer = ho_py.PyTuple_GetItem(data, 0);
	if (!subtype(pointer, ho_py.PyLong_Type)) {
		ho_raise(HO_X_TYPE, 172, cai_op, "data[0] is not an address");
		return NULL;
	}
	uint64_t address = ho_py.PyLong_AsUnsignedLongLong(pointer);
	if (address == (uint64_t)-1 && ho_py.PyErr_Occurred()) {
		ho_py.PyErr_Clear();
		ho_raise(HO_X_RANGE, 172, cai_op, "data[0] is negative or does not fit in 64 bits");
		return NULL;
	}
	int readonly = ho_py.PyObject_IsTrue(ho_py.PyTuple_GetItem(data, 1));
	uint64_t producer = 0;
	/* Only version 3 has a stream (R183). */
	int produced = number >= 3 ? take_stream(entries[STREAM], &producer) : 0;
	if (readonly < 0 || produced < 0)
		return NULL;

	ho_view *v = ho_view_alloc(ho_view_type, (int32_t)n);
	if (v == NULL)
		return NULL;
	int64_t *dims = v->t.shape, *steps = v->t.strides;
	if (take_ints(shape, "shape", 169, dims) != 0)
		goto fail;
	for (ho_ssize i = 0; i < n; i++)
		if (dims[i] < 0) {
			ho_raise(HO_X_VALUE, 169, cai_op, "shape[%lld] is negative", (long long)i);
			goto fail;
		}
	if (strides == NULL) {
		if (ho_row_major((int32_t)n, dims, steps) != 0) {
			ho_raise(HO_E_OVERFLOW, 34, cai_op, "the shape does not fit in 64 bits");
			goto fail;
		}
	} else {
		if (take_ints(strides, "strides", 178, steps) != 0)
			goto fail;
		for (ho_ssize i = 0; i < n; i++) {
			if (steps[i] % itemsize != 0 && dims[i] > 1) {
				ho_raise(HO_E_LAYOUT, 281, cai_op, "strides must be divisible by itemsize: %lld by %lld",
				         (long long)steps[i], (long long)itemsize);
				goto fail;
			}
			steps[i] /= itemsize;
		}
	}
	t.ndim = (int32_t)n;
	t.shape = dims;
	t.strides = steps;
	t.data = (void *)(uintptr_t)address;
	v->t = t;
	v->itemsize = itemsize;
	v->flags = readonly ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
	if (t.dtype.bits == 0) {
		if (itemsize > UINT16_MAX) {
			ho_raise(HO_E_DTYPE, 170, cai_op, "elements of %lld bytes", (long long)itemsize);
			goto fail;
		}
		t.dtype = (DLDataType){ kDLUInt, 8, (uint16_t)itemsize };
	}
	int rule = 0, code = ho_check_tensor(&t, 0, &rule);
	if (code == HO_E_NULL) {
		ho_raise(HO_E_NULL, 172, cai_op, "the address is 0 and the array is not empty");
		goto fail;
	}
	if (code != 0) {
		ho_raise(code, rule, cai_op, "%s", ho_error_text(code));
		goto fail;
	}
	if (!is_empty(v) && find_device(address, &v->t.device) != 0)
		goto fail;
	ho_view_ready(v);
	if (v->t.dtype.bits == 0 && ho_view_void(v, itemsize) != 0)
		goto fail;
	v->exporter = ho_newref(obj); /* R194 */
	uint32_t flags = 0;
	if (produced) {
		flags = HO_ARG_PRODUCER;
		ho_view_pending(v, producer, 0, NULL);
	} else if (number < 3) {
		/* These cannot name a stream; the exchange table of the type may. */
		void *stream;
		int known = ho_producer_stream(obj, v->t.device, &stream);
		if (known < 0)
			goto fail;
		if (known) {
			flags = HO_ARG_PRODUCER;
			ho_view_pending(v, (uint64_t)(uintptr_t)stream, 0, NULL);
		}
	}
	if (ho_view_imported(v, flags, mode, on) != 0)
		goto fail;
	return v;
fail:
	ho_py.Py_DecRef(&v->ob);
	return NULL;
}

/* An array of CuPy, read the short way. NULL without an exception if the
 * interface has to be asked. */
static ho_view *view_of_cupy(ho_PyObject *obj, int mode, const ho_stream_ref *on)
{
	ho_arg arg;

	if (ho_cupy_take(obj, HO_WANT_OWNED, &arg) != 0)
		return NULL;
	if (!ho_cupy_names_stream) {
		ho_arg_done(&arg);
		return NULL;
	}
	uint32_t flags = arg.flags;
	ho_view *v = ho_view_from_arg(ho_view_type, &arg, obj);
	if (v != NULL && ho_view_imported(v, flags, mode, on) != 0) {
		ho_py.Py_DecRef(&v->ob);
		return NULL;
	}
	return v;
}

ho_view *ho_view_of_cuda_interface(ho_PyObject *obj, int mode, const ho_stream_ref *on)
{
	if (mode != HO_STREAM_UNSAID && ho_is_cupy(obj)) {
		ho_view *v = view_of_cupy(obj, mode, on);
		if (v != NULL || ho_py.PyErr_Occurred() != NULL)
			return v;
	}
	ho_PyObject *dict = ho_py.PyObject_GetAttr(obj, ho_names.cuda_array_interface);

	if (dict == NULL) {
		if (!ho_py.PyErr_ExceptionMatches(ho_py.PyExc_AttributeError))
			return NULL;
		ho_py.PyErr_Clear();
		ho_raise(HO_X_PROTOCOL, 158, "from_cuda_array_interface", "the object has no __cuda_array_interface__");
		return NULL;
	}
	ho_view *v = NULL;
	if (mode == HO_STREAM_UNSAID) {
		ho_raise(HO_X_BUFFER, 126, "from_cuda_array_interface",
		         "stream_ptr=None is ambiguous; pass a stream, or -1 for no ordering");
	} else if (subtype(dict, ho_py.PyDict_Type)) {
		/* Reading an entry may run code (__index__), and so may finding one (a
		 * key's __eq__), that changes the producer's dict: all are held. */
		ho_PyObject *const names[ENTRIES] = { ho_names.shape,   ho_names.typestr, ho_names.data,  ho_names.version,
			                              ho_names.strides, ho_names.mask,    ho_names.descr, ho_names.stream };
		ho_PyObject *entries[ENTRIES];
		for (int i = 0; i < ENTRIES; i++)
			if ((entries[i] = entry_of(dict, names[i])) != NULL)
				ho_py.Py_IncRef(entries[i]);
		v = read_dict(obj, entries, mode, on);
		for (int i = 0; i < ENTRIES; i++)
			ho_xdecref(entries[i]);
	} else {
		ho_raise(HO_X_TYPE, 166, cai_op, "__cuda_array_interface__ is not a dict");
	}
	ho_py.Py_DecRef(dict);
	return v;
}

/* ---- Arguments of functions --------------------------------------------- */

int ho_stream_read(ho_PyObject *stream, ho_stream_value *out)
{
	ho_stream_ref on;

	*out = (ho_stream_value){ 0, 0, -1 };
	if (ho_stream_need(stream, "stream", &on) != 0)
		return -1;
	out->handle = plain_handle(on.handle);
	out->ctx = on.ctx;
	return 0;
}

int ho_args_on_stream(ho_PyObject *stream, const ho_arg *args, uint32_t n, ho_stream_value *io)
{
	static const char op[] = "stream";
	int dev = -1;

	for (uint32_t i = 0; i < n && dev < 0; i++)
		if (is_cuda(args[i].device.device_type))
			dev = args[i].device.device_id;
	if (stream == NULL || stream == HO_NONE) {
		*io = (ho_stream_value){ 0 };
		return dev < 0 ? 0
		               : ho_raise(HO_X_TYPE, 126, op, "an argument is GPU memory: say on which stream it is used");
	}
	ho_stream_ref on = { io->handle, io->ctx, stream };
	if (ho_stream_place(op, dev, &on) != 0)
		return -1;
	for (uint32_t i = 0; i < n; i++) {
		const ho_arg *a = &args[i];
		ho_stream_ref from = { (uint64_t)(uintptr_t)a->stream, 0, NULL };
		if (a->device.device_type == kDLCPU || !(a->flags & (HO_ARG_PRODUCER | HO_ARG_ORDERED)) ||
		    ho_count(a->ndim, a->shape) == 0)
			continue;
		if (!is_cuda(a->device.device_type))
			return ho_raise(HO_E_DEVICE, 0, op, "memory on device type %d cannot be ordered on a CUDA stream",
			                (int)a->device.device_type);
		if (order_after(op, a->device.device_id, &from, &on) != 0)
			return -1;
	}
	io->ctx = on.ctx;
	return ho_stream_device_id(op, &on, &io->device);
}

int ho_args_back(ho_PyObject *stream, const ho_arg *args, uint32_t n, const ho_stream_value *on)
{
	ho_stream_ref from = { on->handle, on->ctx, stream };

	for (uint32_t i = 0; i < n; i++) {
		const ho_arg *a = &args[i];
		ho_stream_ref to = { (uint64_t)(uintptr_t)a->stream, 0, NULL };
		int again = 0;
		if (!is_cuda(a->device.device_type) || !(a->flags & HO_ARG_PRODUCER) || ho_count(a->ndim, a->shape) == 0)
			continue;
		for (uint32_t j = 0; j < i && !again; j++)
			again = args[j].flags & HO_ARG_PRODUCER && args[j].stream == a->stream &&
			        args[j].device.device_type == a->device.device_type &&
			        args[j].device.device_id == a->device.device_id && ho_count(args[j].ndim, args[j].shape) != 0;
		if (!again && order_after("stream", a->device.device_id, &from, &to) != 0)
			return -1;
	}
	return 0;
}

/* ---- Export ------------------------------------------------------------- */

int ho_view_order_for(ho_view *v, uint64_t consumer)
{
	ho_stream_ref from = pending(v), to = { consumer, 0, NULL };

	/* Nothing known is pending: the view was taken with -1, so that ordering is
	 * its user's. */
	int some = is_pending(v, "__dlpack__");
	if (some <= 0)
		return some;
	if (to.handle <= 2 && from.handle <= 2)
		to.ctx = from.ctx;
	return order_after("__dlpack__", (int)v->t.device.device_id, &from, &to);
}

int ho_view_host_wait(ho_view *v)
{
	static const char op[] = "host access";
	ho_stream_ref s = pending(v);
	ho_result st;
	ho_driver *d;

	int some = is_pending(v, op);
	if (some <= 0)
		return some;
	if (ho_stream_place(op, (int)v->t.device.device_id, &s) != 0 || (d = ho_gpu()) == NULL)
		return -1;
	HO_UNLOCKED(st = ho_stream_poll(&d->t, (ho_context)s.ctx, (ho_stream)s.handle);
	            if (st == HO_CUDA_ERROR_NOT_READY)
	            	st = ho_call_cuStreamSynchronize(&d->t, (ho_context)s.ctx, (ho_stream)s.handle));
	return ho_gpu_check(op, (int)v->t.device.device_id, st);
}

int ho_view_table_ready(ho_view *v)
{
	uint64_t now = ho_stream_current((int)v->t.device.device_id);
	ho_stream_ref have = pending(v), current = { now, 0, NULL };

	int some = is_pending(v, "exchange table");
	if (some <= 0 || ho_stream_same(&have, &current))
		return some < 0 ? -1 : 0;
	/* The table does not order (R102), and tells only one stream. */
	return ho_raise(HO_X_BUFFER, 103, "exchange table",
	                "the view is ordered on stream 0x%llx, and data is handed out on 0x%llx: use "
	                "handoff.use_stream, or __dlpack__",
	                (unsigned long long)have.handle, (unsigned long long)now);
}

/* Whether all work on the view's stream is done; not if that cannot be told, as
 * of a stream that captures. */
static int nothing_left(ho_view *v)
{
	ho_stream_ref s = pending(v);
	ho_driver *d;

	if (is_empty(v))
		return 1;
	if (s.handle == 2 && !pthread_equal(v->thread, pthread_self()))
		return 0;
	if (ho_stream_place(cai_op, (int)v->t.device.device_id, &s) != 0 || (d = ho_gpu()) == NULL) {
		ho_py.PyErr_Clear();
		return 0;
	}
	return ho_stream_poll(&d->t, (ho_context)s.ctx, (ho_stream)s.handle) == HO_CUDA_SUCCESS;
}

ho_PyObject *ho_get_cuda_array_interface(ho_PyObject *self, void *unused)
{
	ho_view *v = (ho_view *)self;
	const ho_dtype *row = v->t.dtype.bits != 0 ? ho_dtype_find(v->t.dtype) : NULL;
	char text[80];
	(void)unused;

	if (ho_view_live(v, cai_op) != 0)
		return NULL;
	if (row == NULL || row->typestr == NULL || !is_cuda(v->t.device.device_type)) { /* R198, R199 */
		ho_py.PyErr_Format(ho_py.PyExc_AttributeError, "__cuda_array_interface__: %s on device type %d has none",
		                   ho_view_dtype_text(v, text), (int)v->t.device.device_type);
		return NULL;
	}
	int64_t bytes[HO_MAX_DIMS];
	for (int32_t i = 0; i < v->t.ndim; i++)
		bytes[i] = ho_byte_stride(v->t.strides[i], v->itemsize);
	uint64_t stream = (uint64_t)(uintptr_t)v->stream;
	int named = v->ordered && !nothing_left(v); /* R192 */
	ho_PyObject *address = ho_py.PyLong_FromVoidPtr(is_empty(v) ? NULL : v->t.data); /* R287 */
	struct {
		ho_PyObject *key, *value;
	} entries[] = {
		{ ho_names.shape, ho_int_tuple(v->t.ndim, v->t.shape) },
		{ ho_names.typestr, ho_py.PyUnicode_FromString(row->typestr) },
		{ ho_names.data, address != NULL ? ho_py.PyTuple_Pack(2, address,
		                                                      v->flags & DLPACK_FLAG_BITMASK_READ_ONLY ? HO_TRUE
		                                                                                               : HO_FALSE)
		                                 : NULL },
		{ ho_names.strides, v->c_contiguous ? ho_newref(HO_NONE) : ho_int_tuple(v->t.ndim, bytes) },
		{ ho_names.version, ho_py.PyLong_FromLong(3) },
		{ ho_names.stream, named ? ho_py.PyLong_FromUnsignedLongLong(stream == 0 ? 1 : stream) /* R274 */
		                              : ho_newref(HO_NONE) },
	};
	ho_PyObject *dict = ho_py.PyDict_New();
	for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
		if (dict != NULL && (entries[i].value == NULL ||
		                     ho_py.PyDict_SetItem(dict, entries[i].key, entries[i].value) != 0)) {
			ho_py.Py_DecRef(dict);
			dict = NULL;
		}
		ho_xdecref(entries[i].value);
	}
	ho_xdecref(address);
	return dict;
}

static ho_PyObject *stream_or_none(int known, uint64_t handle, uint64_t ctx, ho_view *v, ho_PyObject *keeper)
{
	/* A default stream is that of the memory's device. */
	if (known && handle <= 2 && ctx == 0 && v->t.device.device_type == kDLCUDA && ho_gpu_in_use() != NULL &&
	    (ctx = ho_gpu_context((int)v->t.device.device_id)) == 0)
		return NULL;
	return known ? ho_stream_view_new(handle, ctx, keeper) : ho_newref(HO_NONE);
}

ho_PyObject *ho_get_producer_stream(ho_PyObject *self, void *unused)
{
	ho_view *v = (ho_view *)self;
	(void)unused;
	return stream_or_none(v->produced, v->producer, 0, v, v->exporter);
}

ho_PyObject *ho_get_ordered_stream(ho_PyObject *self, void *unused)
{
	ho_view *v = (ho_view *)self;
	(void)unused;
	return stream_or_none(v->ordered, (uint64_t)(uintptr_t)v->stream, v->stream_ctx, v,
	                      v->keeper != NULL ? v->keeper : v->exporter);
}

/* ---- Copies ------------------------------------------------------------- */

/* One reference on what keeps v's memory, for Go. */
static ho_owner *claim(ho_view *v)
{
	int made;
	ho_owner *o = ho_view_owner(v, &made);

	if (o != NULL && !made)
		ho_owner_ref(o);
	return o;
}

static int copy_on(ho_view *dst, ho_view *src, const ho_stream_ref *on, int wait)
{
	static const char op[] = "copy";
	ho_gpu_fault f = { 0 };

	if (dst->t.dtype.bits == 0 || src->t.dtype.bits == 0)
		return ho_raise(HO_E_DTYPE, 0, op, "elements without a DLPack type; view() them as bytes");
	if (ho_gpu() == NULL)
		return -1;
	ho_owner *a = claim(dst), *b = a != NULL ? claim(src) : NULL;
	if (b == NULL) {
		if (a != NULL)
			ho_owner_unref(a);
		return -1;
	}
	ho_gpu_copy c = {
		(uintptr_t)&dst->t, (uintptr_t)&src->t, (uintptr_t)a, (uintptr_t)b, on->handle, on->ctx,
		(dst->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) != 0, wait,
	};
	HO_HELD(stream_ref, on, ho_go_gpu.copy(&c, &f));
	return f.kind == HO_FAULT_NONE ? 0 : ho_gpu_raise(op, &f);
}

int ho_view_copy_on(ho_view *dst, ho_view *src, const ho_stream_ref *on, int wait)
{
	static const char op[] = "copy";
	ho_view *const both[] = { dst, src };
	ho_stream_ref s = *on;

	if (dst->flags & DLPACK_FLAG_BITMASK_READ_ONLY)
		return ho_raise(HO_X_READONLY, 15, op, "the destination is read-only");
	int gpu = is_cuda(dst->t.device.device_type) ? 0 : 1;
	if (ho_view_live(dst, op) != 0 || ho_view_live(src, op) != 0 ||
	    ho_stream_place(op, (int)both[gpu]->t.device.device_id, &s) != 0)
		return -1;
	for (int i = 0; i < 2; i++) {
		ho_stream_ref from = pending(both[i]);
		int some = is_pending(both[i], op);
		if (some < 0 || (some > 0 && order_after(op, (int)both[i]->t.device.device_id, &from, &s) != 0))
			return -1;
	}
	if (wait == HO_WAIT_FOR_HOST) {
		ho_driver *d = ho_gpu();
		wait = d != NULL && !(ho_view_on_device(dst) && ho_view_on_device(src)) &&
		       !ho_stream_captures(d, (ho_context)s.ctx, (ho_stream)s.handle);
	}
	if (copy_on(dst, src, &s, wait) != 0)
		return -1;
	for (int i = 0; i < 2; i++)
		if (is_cuda(both[i]->t.device.device_type))
			ho_view_pending(both[i], s.handle, s.ctx, s.keep);
	return 0;
}

int ho_view_on_device(const ho_view *v)
{
	if (is_cuda(v->t.device.device_type))
		return 1;
	ho_driver *d = v->t.device.device_type == kDLCPU && !is_empty(v) && !v->released ? ho_gpu_in_use() : NULL;
	if (d == NULL)
		return 0;
	ho_pointer_class info = ho_pointer_kind(&d->t, (uint64_t)(uintptr_t)v->t.data);
	return info.st == HO_CUDA_SUCCESS && info.type != 0;
}

int ho_view_needs_stream(const ho_view *v)
{
	return is_cuda(v->t.device.device_type);
}

ho_owner *ho_view_to_host(ho_view *v, DLTensor *out, int64_t *strides)
{
	int64_t bytes;
	void *data;
	ho_stream_ref s = pending(v);

	if (__builtin_mul_overflow(ho_count(v->t.ndim, v->t.shape), v->itemsize, &bytes)) {
		ho_py.PyErr_NoMemory();
		return NULL;
	}
	if (is_pending(v, "__dlpack__") < 0 || ho_stream_place("__dlpack__", (int)v->t.device.device_id, &s) != 0)
		return NULL;
	if (!v->ordered && !is_empty(v)) {
		/* The host sees complete data (R146), and nobody said what to wait for. */
		ho_gpu_fault f = { 0 };
		HO_UNLOCKED(ho_go_gpu.sync_device((int)v->t.device.device_id, &f));
		if (f.kind != HO_FAULT_NONE) {
			ho_gpu_raise("__dlpack__", &f);
			return NULL;
		}
	}
	ho_owner *o = ho_owner_alloc((size_t)bytes, &data);
	ho_view *host = o != NULL ? ho_view_alloc(ho_view_type, v->t.ndim) : NULL;
	if (host == NULL) {
		if (o != NULL)
			ho_owner_unref(o);
		else
			ho_py.PyErr_NoMemory();
		return NULL;
	}
	*out = v->t;
	out->device = (DLDevice){ kDLCPU, 0 };
	out->data = data;
	out->strides = strides;
	ho_row_major(v->t.ndim, v->t.shape, strides);
	memcpy(host->t.shape, v->t.shape, (size_t)v->t.ndim * sizeof(int64_t));
	memcpy(host->t.strides, strides, (size_t)v->t.ndim * sizeof(int64_t));
	host->t.data = data;
	host->t.device = out->device;
	host->t.dtype = v->t.dtype;
	host->flags = v->flags & ~(uint64_t)DLPACK_FLAG_BITMASK_READ_ONLY;
	host->itemsize = v->itemsize;
	ho_owner_ref(o);
	host->owner = o;
	ho_view_ready(host);
	int r = is_empty(v) ? 0 : copy_on(host, v, &s, 1);
	ho_py.Py_DecRef(&host->ob);
	if (r == 0)
		return o;
	ho_owner_unref(o);
	return NULL;
}

ho_owner *ho_view_to_device(ho_view *v, DLDevice to, ho_PyObject *stream, DLTensor *out, int64_t *strides)
{
	static const char op[] = "__dlpack__";
	int dev = to.device_type == kDLCUDA ? (int)to.device_id : 0, known = v->ordered, overflow = 0;
	int kind = to.device_type == kDLCUDA       ? HO_MEMORY_DEVICE
	           : to.device_type == kDLCUDAHost ? HO_MEMORY_PINNED
	                                           : HO_MEMORY_MANAGED;
	ho_stream_ref before = pending(v), on = { 1, 0, NULL };
	ho_owner *o = NULL;
	int64_t bytes;

	if (__builtin_mul_overflow(ho_count(v->t.ndim, v->t.shape), v->itemsize, &bytes)) {
		ho_py.PyErr_NoMemory();
		return NULL;
	}
	/* The memory goes back on the legacy default stream, which outlives every
	 * consumer's, and so it comes from there. */
	if (ho_stream_place(op, dev, &on) != 0)
		return NULL;
	ho_PyObject *kept = NULL; /* the copy lets go of it */
	ho_stream_keep(&kept, before.keep);
	ho_PyObject *legacy = ho_stream_view_new(on.handle, on.ctx, NULL), *size = ho_py.PyLong_FromLongLong(bytes);
	ho_view *memory = legacy != NULL && size != NULL ? (ho_view *)ho_buffer_new(dev, kind, 0, size, legacy) : NULL;
	ho_view *dst = memory != NULL ? ho_view_alloc(ho_view_type, v->t.ndim) : NULL;
	ho_xdecref(legacy);
	ho_xdecref(size);
	if (dst == NULL)
		goto done;
	*out = v->t;
	out->device = to;
	out->data = memory->t.data;
	out->strides = strides;
	ho_row_major(v->t.ndim, v->t.shape, strides);
	memcpy(dst->t.shape, v->t.shape, (size_t)v->t.ndim * sizeof(int64_t));
	memcpy(dst->t.strides, strides, (size_t)v->t.ndim * sizeof(int64_t));
	dst->t.data = out->data;
	dst->t.device = to;
	dst->t.dtype = v->t.dtype;
	dst->flags = v->flags & ~(uint64_t)DLPACK_FLAG_BITMASK_READ_ONLY;
	dst->itemsize = v->itemsize;
	ho_owner_ref(memory->owner);
	dst->owner = memory->owner;
	ho_view_ready(dst);
	if (!is_empty(v)) {
		if (ho_view_copy_on(dst, v, &on, 0) != 0)
			goto done;
		/* The consumer's stream waits for the copy; one that asked for no
		 * order is where the data was ordered before. */
		long long s = stream == NULL || stream == HO_NONE
		                      ? 1
		                      : ho_py.PyLong_AsLongLongAndOverflow(stream, &overflow);
		uint64_t handle = overflow ? ho_py.PyLong_AsUnsignedLongLong(stream) : (uint64_t)s;
		ho_stream_ref consumer = { handle, handle <= 2 ? on.ctx : 0, NULL };
		if (!overflow && s == -1)
			consumer = known ? before : on;
		if (order_after(op, dev, &on, &consumer) != 0)
			goto done;
		/* The source stays ordered where it was: what is queued there later comes
		 * after the copy, and is not lost to whoever takes the view next. */
		if (known) {
			if (order_after(op, dev, &on, &before) != 0)
				goto done;
			ho_view_pending(v, before.handle, before.ctx, before.keep);
		}
	}
	o = dst->owner;
	ho_owner_ref(o);
done:
	ho_stream_keep(&kept, NULL);
	if (dst != NULL)
		ho_py.Py_DecRef(&dst->ob);
	if (memory != NULL)
		ho_py.Py_DecRef(&memory->ob);
	return o;
}

/* ---- Release ------------------------------------------------------------ */

ho_PyObject *ho_view_release_on(ho_PyObject *self, ho_PyObject *stream)
{
	static const char op[] = "release_on";
	ho_view *v = (ho_view *)self;
	ho_stream_ref on;
	ho_gpu_fault f = { 0 };
	int dev = (int)v->t.device.device_id;

	if (v->released)
		return ho_newref(HO_NONE);
	if (is_cuda(v->t.device.device_type) && !is_empty(v)) {
		ho_stream_ref from = { v->producer, 0, NULL };
		if (ho_stream_need(stream, op, &on) != 0 || ho_stream_place(op, dev, &on) != 0)
			return NULL;
		if (v->produced) {
			/* What the producer queues from now on, also the reuse of the memory,
			 * comes after our work (R189). */
			if (order_after(op, dev, &on, &from) != 0)
				return NULL;
		} else {
			ho_owner *o = claim(v);
			if (o == NULL)
				return NULL;
			HO_HELD(stream_ref, &on, ho_go_gpu.release_later((uintptr_t)o, on.handle, on.ctx, &f));
			if (f.kind != HO_FAULT_NONE) {
				ho_owner_unref(o);
				ho_gpu_raise(op, &f);
				return NULL;
			}
		}
	}
	if (ho_view_share(v) != 0)
		return NULL;
	ho_owner *o = v->owner;
	ho_PyObject *exporter = v->exporter;
	v->released = 1;
	v->owner = NULL;
	v->exporter = NULL;
	v->t.data = NULL;
	if (o != NULL)
		ho_owner_unref(o);
	ho_xdecref(exporter);
	return ho_newref(HO_NONE);
}

int ho_gpuview_init(void)
{
	return ho_cupy_init();
}
