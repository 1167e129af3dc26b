/* Giving arrays to other libraries: __dlpack__, __dlpack_device__ and the
 * exchange table. Nothing here enters Go. */
#include "gpu.h"

static const char op[] = "__dlpack__";

/* ---- Capsules ----------------------------------------------------------- */

/* Only a fresh name still owns the tensor (R077, R078). ho_release_* and the
 * owners behind it keep a pending exception (R079). */
static void drop_versioned(ho_PyObject *capsule)
{
	if (ho_py.PyCapsule_IsValid(capsule, "dltensor_versioned"))
		ho_release_versioned(ho_py.PyCapsule_GetPointer(capsule, "dltensor_versioned"));
}

static void drop_legacy(ho_PyObject *capsule)
{
	if (ho_py.PyCapsule_IsValid(capsule, "dltensor"))
		ho_release_legacy(ho_py.PyCapsule_GetPointer(capsule, "dltensor"));
}

static ho_PyObject *capsule_of(ho_owner *o, const DLTensor *t, uint64_t flags, int versioned)
{
	ho_PyObject *capsule;

	if (versioned) {
		DLManagedTensorVersioned *m = ho_export_versioned(o, t, flags);
		if (m == NULL)
			return ho_py.PyErr_NoMemory();
		capsule = ho_py.PyCapsule_New(m, "dltensor_versioned", drop_versioned);
		if (capsule == NULL)
			ho_release_versioned(m);
		return capsule;
	}
	DLManagedTensor *m = ho_export_legacy(o, t);
	if (m == NULL)
		return ho_py.PyErr_NoMemory();
	capsule = ho_py.PyCapsule_New(m, "dltensor", drop_legacy);
	if (capsule == NULL)
		ho_release_legacy(m);
	return capsule;
}

/* ---- Arguments of __dlpack__ -------------------------------------------- */

/* Two ints of a tuple; TypeError (R120). */
static int take_pair(ho_PyObject *o, const char *what, int rule, long long out[2])
{
	if (!ho_py.PyType_IsSubtype(HO_TYPE(o), (ho_PyTypeObject *)ho_py.PyTuple_Type) || ho_py.PyTuple_Size(o) != 2)
		return ho_raise(HO_X_TYPE, rule, op, "%s is not a tuple of two ints", what);
	for (int i = 0; i < 2; i++) {
		int overflow = 0;
		ho_PyObject *v = ho_py.PyNumber_Index(ho_py.PyTuple_GetItem(o, i));
		if (v == NULL) {
			if (ho_other_than(ho_py.PyExc_TypeError))
				return -1;
			return ho_raise(HO_X_TYPE, rule, op, "%s is not a tuple of two ints", what);
		}
		out[i] = ho_py.PyLong_AsLongLongAndOverflow(v, &overflow);
		ho_py.Py_DecRef(v);
		if (overflow)
			return ho_raise(HO_X_VALUE, rule, op, "%s is out of range", what);
	}
	return 0;
}

/* The stream that the consumer will use, for data on `device` (2.2). What is copied
 * on a device is ordered by the copy. */
static int check_stream(ho_view *v, ho_PyObject *o, DLDevice device, int copied)
{
	int overflow = 0, type = (int)device.device_type;

	if (o == NULL || o == HO_NONE) {
		if (type == kDLROCM)
			goto unordered;
		if (type == kDLCPU) /* the host looks at once, also at pinned memory under its other name (R146) */
			return copied ? 0 : ho_view_host_wait(v);
		return copied ? 0 : ho_view_order_for(v, 1); /* R126 */
	}
	if (!ho_py.PyType_IsSubtype(HO_TYPE(o), (ho_PyTypeObject *)ho_py.PyLong_Type) || o == HO_TRUE || o == HO_FALSE)
		return ho_raise(HO_X_TYPE, 136, op, "stream is not an int");
	long long s = ho_py.PyLong_AsLongLongAndOverflow(o, &overflow);
	if (overflow < 0 || (!overflow && s < -1))
		return ho_raise(HO_X_VALUE, 132, op, "stream is below -1");
	/* -1 asks for no synchronization, which host memory always grants. */
	if (!overflow && s == -1)
		return 0;
	if (type == kDLCPU)
		return ho_raise(HO_X_VALUE, 135, op, "memory on the CPU has no stream; pass None");
	if (type != kDLROCM && !overflow && s == 0)
		return ho_raise(HO_X_VALUE, 128, op, "stream 0 is ambiguous; pass 1 or 2");
	if (type == kDLROCM && !overflow && (s == 1 || s == 2))
		return ho_raise(HO_X_VALUE, 134, op, "streams 1 and 2 do not exist on ROCm");
	if (type == kDLCUDA || type == kDLCUDAHost || type == kDLCUDAManaged) {
		uint64_t handle = overflow ? ho_py.PyLong_AsUnsignedLongLong(o) : (uint64_t)s;
		if (handle == (uint64_t)-1 && ho_py.PyErr_Occurred()) {
			ho_py.PyErr_Clear();
			return ho_raise(HO_X_RANGE, 131, op, "stream does not fit in 64 bits");
		}
		return copied ? 0 : ho_view_order_for(v, handle);
	}
unordered:
	return ho_raise(HO_X_BUFFER, 137, op, "work on device type %d cannot be ordered; pass stream=-1", type);
}

static int is_device(DLDevice a, DLDeviceType type, int32_t id)
{
	return a.device_type == type && a.device_id == id;
}

ho_PyObject *ho_dlpack_method(ho_PyObject *self, ho_PyObject *const *args, ho_ssize n, ho_PyObject *kwnames)
{
	static const ho_param params[] = {
		{ &ho_names.stream }, { &ho_names.max_version }, { &ho_names.dl_device }, { &ho_names.copy }
	};
	ho_view *v = (ho_view *)self;
	ho_PyObject *a[4];
	int copy = -1, versioned = 0, made = 1, to_host = 0;
	uint64_t flags = v->flags;
	DLTensor t = v->t;
	int64_t strides[HO_MAX_DIMS];
	ho_owner *o;

	if (ho_parse(op, args, n, kwnames, params, 4, 0, 0, a) != 0 || ho_view_live(v, op) != 0)
		return NULL;
	if (a[1] != NULL && a[1] != HO_NONE) {
		long long version[2];
		if (take_pair(a[1], "max_version", 120, version) != 0)
			return NULL;
		if (version[0] < 0 || version[1] < 0) {
			ho_raise(HO_E_VERSION, 119, op, "max_version (%lld, %lld)", version[0], version[1]);
			return NULL;
		}
		versioned = version[0] >= DLPACK_MAJOR_VERSION; /* R117, R118; major 0 is the old struct (R119) */
	}
	if (ho_parse_copy(a[3], &copy) != 0)
		return NULL;
	if (t.dtype.bits == 0) {
		char text[80];
		ho_raise(HO_E_DTYPE, 157, op, "dtype %s has no counterpart in DLPack", ho_view_dtype_text(v, text));
		return NULL;
	}
	if (a[2] != NULL && a[2] != HO_NONE) {
		long long d[2];
		if (take_pair(a[2], "dl_device", 144, d) != 0)
			return NULL;
		if (d[0] == (long long)t.device.device_type && d[1] == t.device.device_id) {
			;
		} else if (d[0] == kDLCPU && d[1] == 0 && ho_device_is_host((int32_t)t.device.device_type)) {
			t.device = (DLDevice){ kDLCPU, 0 }; /* the same memory under its other name (R149) */
		} else if (d[0] == kDLCPU && d[1] == 0 && t.device.device_type == kDLCUDA) {
			if (copy == 0) {
				ho_raise(HO_X_COPY, 151, op, "device memory cannot be delivered to the host without a copy");
				return NULL;
			}
			if (ho_whole_bytes(v, op) != 0)
				return NULL;
			to_host = 1;
			t.device = (DLDevice){ kDLCPU, 0 };
		} else if (d[0] == kDLCUDA && t.device.device_type == kDLCUDA && d[1] >= 0 && d[1] <= INT32_MAX) {
			if (copy == 0) {
				ho_raise(HO_X_COPY, 151, op, "memory of another device cannot be delivered without a copy");
				return NULL;
			}
			copy = 1;
			t.device.device_id = (int32_t)d[1];
		} else {
			ho_raise(HO_E_DEVICE, 144, op, "memory on device (%d, %d) cannot be delivered to (%lld, %lld)",
			         (int)t.device.device_type, (int)t.device.device_id, d[0], d[1]);
			return NULL;
		}
	}
	int on_device = copy == 1 && !is_device(t.device, kDLCPU, 0);
	if (check_stream(v, a[0], t.device, to_host || on_device) != 0)
		return NULL;

	if (to_host) {
		o = ho_view_to_host(v, &t, strides);
		flags = (flags & ~(uint64_t)DLPACK_FLAG_BITMASK_READ_ONLY) | DLPACK_FLAG_BITMASK_IS_COPIED;
	} else if (on_device) {
		if (t.device.device_type != kDLCUDA && t.device.device_type != kDLCUDAHost &&
		    t.device.device_type != kDLCUDAManaged) {
			ho_raise(HO_X_BUFFER, 150, op, "memory on device type %d is not copied", (int)t.device.device_type);
			return NULL;
		}
		if (ho_whole_bytes(v, op) != 0)
			return NULL;
		o = ho_view_to_device(v, t.device, a[0], &t, strides);
		flags = (flags & ~(uint64_t)DLPACK_FLAG_BITMASK_READ_ONLY) | DLPACK_FLAG_BITMASK_IS_COPIED;
	} else if (copy == 1) {
		if (ho_whole_bytes(v, op) != 0)
			return NULL;
		o = ho_copy_tensor(&v->t, v->flags, v->itemsize, &t, strides);
		flags = (flags & ~(uint64_t)DLPACK_FLAG_BITMASK_READ_ONLY) | DLPACK_FLAG_BITMASK_IS_COPIED;
	} else {
		o = ho_view_owner(v, &made);
	}
	if (o == NULL)
		return NULL;
	ho_PyObject *capsule = NULL;
	if (!versioned && flags & DLPACK_FLAG_BITMASK_READ_ONLY)
		ho_raise(HO_X_READONLY, 57, op, "read-only memory needs a versioned capsule: pass max_version=(1, 0)");
	else if (!versioned && flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED)
		ho_raise(HO_E_DTYPE, 21, op, "padded sub-byte elements need a versioned capsule: pass max_version=(1, 1)");
	else
		capsule = capsule_of(o, &t, flags, versioned);
	if (made) /* the export has its own reference */
		ho_owner_unref(o);
	return capsule;
}

ho_PyObject *ho_dlpack_device_method(ho_PyObject *self, ho_PyObject *unused)
{
	const ho_view *v = (const ho_view *)self;
	int64_t pair[2] = { (int64_t)v->t.device.device_type, v->t.device.device_id };
	(void)unused;

	return ho_int_tuple(2, pair);
}

/* ---- The exchange table ------------------------------------------------- */

static int check_object(void *object, void *out)
{
	if (object == NULL || out == NULL) { /* R113 */
		ho_py.PyErr_SetString(ho_py.PyExc_RuntimeError, "handoff: exchange table: NULL argument");
		return -1;
	}
	if (!ho_is_view(object)) { /* R100 */
		ho_py.PyErr_SetString(ho_py.PyExc_TypeError,
		                      "handoff: exchange table: neither a StridedMemoryView nor an Array");
		return -1;
	}
	if (((ho_view *)object)->t.dtype.bits == 0)
		return ho_raise(HO_E_DTYPE, 101, "exchange table", "the dtype has no counterpart in DLPack");
	if (ho_view_live(object, "exchange table") != 0)
		return -1;
	return ho_view_table_ready(object);
}

static int table_from_py(void *object, DLManagedTensorVersioned **out)
{
	if (check_object(object, out) != 0)
		return -1;
	ho_view *v = object;
	int made;
	ho_owner *o = ho_view_owner(v, &made);
	if (o == NULL)
		return -1;
	*out = ho_export_versioned(o, &v->t, v->flags);
	if (made)
		ho_owner_unref(o);
	if (*out == NULL) {
		ho_py.PyErr_NoMemory();
		return -1;
	}
	return 0;
}

/* Takes the tensor, also on failure (R105). */
static int table_to_py(DLManagedTensorVersioned *m, void **out)
{
	int rule = 0, code;

	if (m == NULL || out == NULL) {
		ho_py.PyErr_SetString(ho_py.PyExc_RuntimeError, "handoff: exchange table: NULL argument");
		return -1;
	}
	*out = NULL;
	code = ho_check_versioned(m, &rule);
	ho_owner *o = NULL;
	if (code != 0)
		ho_raise(code, rule, "exchange table", "%s", ho_error_text(code));
	else
		o = ho_owner_python(m, HO_DROP_VERSIONED);
	if (o == NULL) {
		ho_PyObject *type, *value, *trace;
		ho_py.PyErr_Fetch(&type, &value, &trace);
		ho_release_versioned(m);
		ho_py.PyErr_Restore(type, value, trace);
		return -1;
	}
	*out = ho_view_new(o, &m->dl_tensor, m->flags);
	return *out != NULL ? 0 : -1;
}

static int table_lend(void *object, DLTensor *out)
{
	if (check_object(object, out) != 0)
		return -1;
	ho_view *v = object;
	/* A DLTensor has no flags: what they say must not get lost. */
	if (v->flags & DLPACK_FLAG_BITMASK_READ_ONLY)
		return ho_raise(HO_X_READONLY, 14, "exchange table",
		                "read-only memory cannot be lent; use managed_tensor_from_py_object_no_sync");
	if (v->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED)
		return ho_raise(HO_E_DTYPE, 20, "exchange table",
		                "padded sub-byte elements cannot be lent; use managed_tensor_from_py_object_no_sync");
	*out = v->t;
	return 0;
}

/* What handoff.use_stream set on this thread; else the default stream. */
static int table_stream(DLDeviceType type, int32_t id, void **out)
{
	if (out == NULL) {
		ho_py.PyErr_SetString(ho_py.PyExc_RuntimeError, "handoff: exchange table: NULL argument");
		return -1;
	}
	int cuda = type == kDLCUDA || type == kDLCUDAHost || type == kDLCUDAManaged;
	*out = cuda ? (void *)(uintptr_t)ho_stream_current(id) : NULL;
	return 0;
}

const DLPackExchangeAPI ho_exchange_api = {
	.header = { { DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION }, NULL }, /* R092 */
	.managed_tensor_allocator = ho_managed_alloc,
	.managed_tensor_from_py_object_no_sync = table_from_py,
	.managed_tensor_to_py_object_no_sync = table_to_py,
	.dltensor_from_py_object_no_sync = table_lend,
	.current_work_stream = table_stream,
};

int ho_offer_table(ho_PyTypeObject *type)
{
	static ho_PyObject *capsule;

	if (capsule == NULL)
		capsule = ho_py.PyCapsule_New((void *)&ho_exchange_api, "dlpack_exchange_api", NULL);
	if (capsule == NULL)
		return -1;
	if (ho_py.PyObject_SetAttr((ho_PyObject *)type, ho_names.exchange_api, capsule) != 0)
		return -1;
	return ho_py.PyObject_SetAttr((ho_PyObject *)type, ho_names.exchange_api_12, capsule);
}
