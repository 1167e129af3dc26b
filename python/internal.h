/* Shared between the C files of the bridge; nothing outside includes it. */
#pragma once

#include <pthread.h>

#include "bridge.h"

#define HO_HIDDEN __attribute__((visibility("hidden")))
#define HO_LIKELY(x) __builtin_expect(!!(x), 1)
#define HO_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- Errors (errors.c) -------------------------------------------------- */

/* Codes for ho_raise beyond the HO_E_* of block.h. */
enum {
	HO_X_READONLY = 32, /* ReadOnlyError */
	HO_X_COPY,          /* CopyError: a copy is needed and forbidden, or the other way round */
	HO_X_CAPSULE,       /* CapsuleError: consumed or of another name */
	HO_X_PROTOCOL,      /* ProtocolError: the object speaks no exchange protocol */
	HO_X_BUFFER,        /* ExchangeError itself */
	HO_X_TYPE,          /* InvalidTypeError: an argument or a key of the wrong type */
	HO_X_VALUE,         /* InvalidValueError: of the right type and a wrong value */
	HO_X_FORK,          /* ForkError */
	HO_X_GO,            /* GoError */
	HO_X_PANIC,         /* GoPanic */
	HO_X_MASK,          /* MaskError */
	HO_X_STREAM,      /* StreamError */
	HO_X_RANGE,       /* RangeError */
	HO_X_CLOSED,      /* ClosedError */
	HO_X_DRIVER,      /* DriverError: ho_gpu_check sets its code and name */
	HO_X_NODRIVER,    /* NoDriverError */
};

/* Makes the exception classes and adds them to the module. */
HO_HIDDEN int ho_errors_init(ho_PyObject *module);
/* The class of a code; borrowed. */
HO_HIDDEN ho_PyObject *ho_error_class(int code);

/* ---- Names (module.c) --------------------------------------------------- */

/* Interned strings and small constants, made once. */
#define HO_NAMES(X) \
	X(dlpack, "__dlpack__") \
	X(dlpack_device, "__dlpack_device__") \
	X(exchange_api, "__dlpack_c_exchange_api__") \
	X(exchange_api_12, "__c_dlpack_exchange_api__") \
	X(array_interface, "__array_interface__") \
	X(cuda_array_interface, "__cuda_array_interface__") \
	X(stream, "stream") \
	X(max_version, "max_version") \
	X(dl_device, "dl_device") \
	X(copy, "copy") \
	X(device, "device") \
	X(shape, "shape") \
	X(typestr, "typestr") \
	X(data, "data") \
	X(strides, "strides") \
	X(version, "version") \
	X(offset, "offset") \
	X(mask, "mask") \
	X(descr, "descr") \
	X(readonly, "readonly") \
	X(dtype, "dtype") \
	X(name, "name") \
	X(str, "str") \
	X(itemsize, "itemsize") \
	X(is_readonly, "is_readonly") \
	X(layout, "layout") \
	X(stream_ptr, "stream_ptr") \
	X(obj, "obj") \
	X(other, "other") \
	X(allocator, "allocator") \
	X(blocking, "blocking") \
	X(buffer, "buffer") \
	X(fill_value, "fill_value") \
	X(rule, "rule") \
	X(dunder_name, "__name__") \
	X(dunder_basicsize, "__basicsize__")

struct ho_names {
#define HO_X(id, text) ho_PyObject *id;
	HO_NAMES(HO_X)
#undef HO_X
	ho_PyObject *empty; /* () */
	ho_PyObject *max_version_value; /* (1, 3) */
};
extern HO_HIDDEN struct ho_names ho_names;
/* Fills ho_names; repeated calls are cheap. */
HO_HIDDEN int ho_names_init(void);

/* ---- Element types (dtype.c) -------------------------------------------- */

typedef struct ho_dtype {
	DLDataType dl;
	uint8_t size;    /* bytes per element; for sub-byte types 1: padded */
	uint8_t align;
	int8_t numpy;    /* NumPy's type number, -1: none */
	uint8_t ml;      /* 1: an ml_dtypes type */
	const char *name;
	const char *typestr; /* NULL: not expressible */
	const char *format;  /* PEP 3118; NULL: not expressible */
} ho_dtype;

/* The row of a type; NULL if the table has none. */
HO_HIDDEN const ho_dtype *ho_dtype_find(DLDataType d);
HO_HIDDEN const ho_dtype *ho_dtype_by_numpy(int type_num);
HO_HIDDEN const ho_dtype *ho_dtype_by_name(const char *name);
/* "float4_e2m1fnx2", "code200_8": never fails; buf holds at least 40 bytes. */
HO_HIDDEN const char *ho_dtype_text(DLDataType d, char *buf);
/* Bytes per whole element, sub-byte types rounded up; lanes included. */
static inline int64_t ho_dtype_bytes(DLDataType d)
{
	return ((int64_t)d.bits * d.lanes + 7) / 8;
}
static inline int ho_dtype_same(DLDataType a, DLDataType b)
{
	return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}
/* Alignment that Go and C want for the type, in bytes. */
HO_HIDDEN int ho_dtype_align(DLDataType d);
/* Parse; 0, or -1 with an exception set. */
HO_HIDDEN int ho_parse_typestr(const char *s, DLDataType *out, int64_t *itemsize);

/* Checks that the list under "descr" of an interface whose typestr is of kind V
 * adds up to itemsize (R216). NULL is no list. -1: exception set. */
HO_HIDDEN int ho_check_descr(const char *op, const char *typestr, ho_PyObject *descr, int64_t itemsize);
HO_HIDDEN int ho_parse_format(const char *format, int64_t itemsize, DLDataType *out);
/* The NumPy dtype of a type: a new reference. Imports numpy (and ml_dtypes)
 * on first use. NotImplementedError if there is none. */
HO_HIDDEN ho_PyObject *ho_dtype_object(DLDataType d);
/* The type that a dtype argument means: a name, a typestr, a NumPy dtype, a
 * scalar class. *padded is set for sub-byte types of ml_dtypes. Structured
 * and other types without a counterpart give {3,0,1} and their item size.
 * 0, or -1 with an exception set. */
HO_HIDDEN int ho_dtype_from_object(ho_PyObject *o, DLDataType *out, int64_t *itemsize, int *padded);
/* The ml_dtypes row of a scalar class, NULL if it is none (no exception). */
HO_HIDDEN const ho_dtype *ho_dtype_by_scalar(ho_PyObject *cls);

/* Scalars; -1 with an exception set. `p` needs no alignment. */
HO_HIDDEN ho_PyObject *ho_scalar_get(const void *p, DLDataType d);
HO_HIDDEN int ho_scalar_set(void *p, DLDataType d, ho_PyObject *value);
/* Conversions of the small floats; d is one of codes 2 (16 bits), 4, 7..17. */
HO_HIDDEN double ho_float_decode(uint32_t bits, DLDataType d);
HO_HIDDEN uint32_t ho_float_encode(double v, DLDataType d);

/* ---- Layout (layout.c) -------------------------------------------------- */

/* 1 if row-major; extents of 1 and empty shapes as NumPy has it (R054). */
HO_HIDDEN int ho_is_c_contiguous(int32_t ndim, const int64_t *shape, const int64_t *strides);
HO_HIDDEN int ho_is_f_contiguous(int32_t ndim, const int64_t *shape, const int64_t *strides);
HO_HIDDEN int64_t ho_count(int32_t ndim, const int64_t *shape);
/* A stride in bytes (R282). Only one that nobody steps along (an extent of 1,
 * an empty shape) can be too large for that. */
static inline int64_t ho_byte_stride(int64_t stride, int64_t item)
{
	int64_t bytes;
	return __builtin_mul_overflow(stride, item, &bytes) ? 0 : bytes;
}
/* Byte range [*lo, *hi) around the first element; item is its size. */
HO_HIDDEN void ho_span(int32_t ndim, const int64_t *shape, const int64_t *strides, int64_t item, int64_t *lo,
                       int64_t *hi);
/* Copies element by element; shapes are equal, ranges do not overlap unless
 * they are the same. Strides in elements. */
HO_HIDDEN void ho_copy_strided(int32_t ndim, const int64_t *shape, char *dst, const int64_t *dst_strides,
                               const char *src, const int64_t *src_strides, int64_t item);

/* ---- Consuming (consume.c) ---------------------------------------------- */

/* What from_dlpack asks for beyond ho_consume. */
typedef struct ho_request {
	int has_stream; /* 0: chosen from the device */
	int64_t stream; /* DLPack stream integer */
	int has_device;
	DLDevice device;
	int copy; /* -1: not said, 0, 1 */
} ho_request;

/* Only DLPack: exact ndarray, table, __dlpack__, capsule. */
HO_HIDDEN int ho_consume_dlpack(ho_PyObject *obj, unsigned want, const ho_request *req, ho_arg *out);
/* A view by the exchange table of obj's type, if that is known already: what
 * ho_consume_dlpack and ho_view_from_arg do, with one copy of the layout less. 0,
 * 1 if it is not to be had this way, -1 with an exception set. orders says that the
 * view will be ordered on a stream; *flags are those of the ho_arg. */
struct ho_view;
HO_HIDDEN int ho_view_of_table(ho_PyObject *obj, int orders, struct ho_view **out, uint32_t *flags);
/* Only __array_interface__. With `any`, types without a DLPack counterpart
 * come out as {3,0,1}, their item size in *itemsize. */
HO_HIDDEN int ho_consume_interface(ho_PyObject *obj, unsigned want, int any, int64_t *itemsize, ho_arg *out);
/* Room for n extents and as many strides in an ho_arg. 0, or -1 with MemoryError. */
HO_HIDDEN int ho_arg_room(ho_arg *out, int32_t n);
/* 1 if obj is an array of CuPy itself; see cupy.c. */
HO_HIDDEN int ho_is_cupy(ho_PyObject *obj);
/* What went wrong while an object was asked for several protocols (B254): the
 * others are tried, and it is told if none works. stop: it is no Exception, such
 * as KeyboardInterrupt, or there is no memory, and nothing else is tried. */
typedef struct ho_failed {
	ho_PyObject *type, *value, *trace;
	int stop;
} ho_failed;
/* 1 if obj has an attribute. 0 if not, or if asking failed, which f keeps. */
HO_HIDDEN int ho_probe(ho_PyObject *obj, ho_PyObject *name, ho_failed *f);
/* 1 and the exception that f has, or 0. */
HO_HIDDEN int ho_failed_raise(ho_failed *f);
HO_HIDDEN void ho_failed_drop(ho_failed *f);
/* 1 if the pending exception is of another class, which is for the caller to let
 * through; 0 if it was of this one and is cleared, to be told in other words. */
HO_HIDDEN int ho_other_than(ho_PyObject *class);
/* Only the buffer protocol. */
HO_HIDDEN int ho_consume_buffer(ho_PyObject *obj, unsigned want, ho_arg *out);
/* 1 if the object has __dlpack__ and __dlpack_device__, or is a capsule. */
HO_HIDDEN int ho_speaks_dlpack(ho_PyObject *obj, ho_failed *f);
/* The stream that obj's library works on now, by the exchange table of its
 * type: 1 and *stream, 0 if there is no table, -1 with an exception set. */
HO_HIDDEN int ho_producer_stream(ho_PyObject *obj, DLDevice device, void **stream);
/* Forgets all types (tests; module teardown). */
HO_HIDDEN void ho_type_cache_clear(void);
HO_HIDDEN int ho_type_cache_size(void);
/* 1 if the struct of numpy.ndarray is read directly, 0 not, -1 not tried. */
extern HO_HIDDEN int ho_numpy_direct;
/* 2 if the object of a cupy.ndarray is read, 1 if its attributes are, 0 neither,
 * -1 not tried. */
HO_HIDDEN int ho_cupy_direct(void);
/* The descr (dtype object) of an exact ndarray that is read directly, else
 * NULL; borrowed. */
HO_HIDDEN ho_PyObject *ho_ndarray_descr(ho_PyObject *obj);

/* ---- Releasing without the GIL (release.c) ------------------------------ */

enum {
	HO_DROP_OBJECT,
	HO_DROP_VERSIONED,
	HO_DROP_LEGACY,
	HO_DROP_BUFFER,
};
/* An owner that drops p (see the enum) with the GIL held; NULL with
 * MemoryError set, then p still belongs to the caller. */
HO_HIDDEN ho_owner *ho_owner_python(void *p, int kind);
/* Drops o->ptr, a Python object, and o: at once with the GIL, else queued. */
HO_HIDDEN void ho_drop_object(ho_owner *o);
/* Brackets around PyGILState_Ensure and Release: -1 once Python is gone or
 * about to be; between them finalization waits. */
HO_HIDDEN int ho_python_enter(void);
HO_HIDDEN void ho_python_leave(void);
/* Called by atexit: no release enters Python afterwards. */
HO_HIDDEN void ho_release_shutdown(void);
/* 1 while Python may be entered: releases do nothing afterwards. */
HO_HIDDEN int ho_python_lives(void);
/* Releases that wait for the GIL now (tests). */
HO_HIDDEN int64_t ho_release_pending(void);

/* ---- Go (gobridge.c) ---------------------------------------------------- */

/* Set by the Go code when it is linked in; NULL in plain C builds. */
typedef struct ho_go_functions {
	/* Copies between host tensors of one shape. 0, or a malloc'd message. */
	char *(*copy)(const DLTensor *dst, const DLTensor *src, int padded);
	/* Runs a self-test by name, which may panic. NULL, or a malloc'd message. */
	char *(*selftest)(const char *name);
} ho_go_functions;
extern HO_HIDDEN ho_go_functions ho_go;

/* ---- Types --------------------------------------------------------------- */

extern HO_HIDDEN ho_PyTypeObject *ho_view_type;  /* StridedMemoryView */
extern HO_HIDDEN ho_PyTypeObject *ho_array_type; /* Array */
extern HO_HIDDEN const DLPackExchangeAPI ho_exchange_api;

typedef struct ho_view {
	ho_PyObject ob;
	ho_owner *owner;       /* one reference; NULL: managed or the exporter keeps the memory, or nothing does */
	DLManagedTensorVersioned *managed; /* keeps the memory until somebody else has to, see ho_view_owner */
	ho_PyObject *exporter; /* exporting_obj; NULL: none */
	ho_PyObject *dtype;    /* cache */
	ho_PyObject *shape;    /* cache */
	DLTensor t;            /* byte_offset 0; strides set for ndim > 0 */
	uint64_t flags;        /* DLPack's */
	void *stream;          /* raw handle of the stream the data is ordered on; see ordered */
	ho_PyObject *keeper;   /* the object of that stream, which is held for it; NULL: nobody keeps the stream here */
	int64_t itemsize;
	ho_ssize *byte_strides; /* made on the first buffer request; NULL until then */
	int8_t c_contiguous;
	int8_t ordered;  /* 1: stream is known (NULL: the legacy default stream) */
	int8_t produced; /* 1: producer is known */
	int8_t released; /* 1: release_on gave the memory back */
	uint64_t stream_ctx; /* where stream belongs to; 0: not known */
	pthread_t thread;    /* whose per-thread default stream it is, if stream is one */
	uint64_t producer;   /* raw handle of the stream that the producer works on */
	int64_t dims[16];
} ho_view;

/* Puts the object of a stream, or NULL, in place of *slot, and holds it there: the
 * handle outlasts close(). GIL held; what was there before is given up, which may
 * run any code. */
HO_HIDDEN void ho_stream_keep(ho_PyObject **slot, ho_PyObject *stream);

/* Says that work queued on a stream uses v's memory from now on: whoever takes
 * the view is ordered after it. keeper is the stream's object, borrowed, or NULL. */
static inline void ho_view_pending(ho_view *v, uint64_t handle, uint64_t ctx, ho_PyObject *keeper)
{
	if (HO_UNLIKELY(v->keeper != keeper))
		ho_stream_keep(&v->keeper, keeper);
	v->stream = (void *)(uintptr_t)handle;
	v->stream_ctx = ctx;
	v->ordered = 1;
	if (HO_UNLIKELY(handle == 2))
		v->thread = pthread_self();
}

static inline int ho_is_view(ho_PyObject *o)
{
	return HO_TYPE(o) == ho_view_type || HO_TYPE(o) == ho_array_type;
}

/* view.c: what both types share. */

/* A new object with room for ndim extents; nothing else is set. */
HO_HIDDEN ho_view *ho_view_alloc(ho_PyTypeObject *type, int32_t ndim);
/* Sets what follows from t and itemsize; call it when both are complete. */
HO_HIDDEN void ho_view_ready(ho_view *v);
/* A view on what ho_consume (HO_WANT_OWNED) took; arg is used up, also on
 * failure. exporter is what exporting_obj shows. */
HO_HIDDEN ho_view *ho_view_from_arg(ho_PyTypeObject *type, ho_arg *arg, ho_PyObject *exporter);
/* Lets v keep the stream that it is ordered on as the view from does that it was
 * made of: that one lets go of it when it is next used on another. */
HO_HIDDEN void ho_view_keep_of(ho_view *v, ho_PyObject *from);
/* Another object of the same kind on the memory of v. */
HO_HIDDEN ho_view *ho_view_sub(ho_view *v, void *data, int32_t ndim, const int64_t *shape, const int64_t *strides);
/* Makes what keeps the memory of v an owner, which others can share, where it is
 * a managed tensor so far. 0, or -1 with an exception set. */
HO_HIDDEN int ho_view_share(ho_view *v);
/* What keeps the memory: borrowed from the view, or a new owner, then *made is
 * set and the reference is the caller's. NULL with an exception set. */
HO_HIDDEN ho_owner *ho_view_owner(ho_view *v, int *made);
/* dst[...] = src[...]: same shape and dtype. Overlap is handled; the GIL is
 * given up for large copies. -1 with an exception set. */
HO_HIDDEN int ho_view_copy(ho_view *dst, const ho_arg *src);
/* New memory with the contents of t, row-major. NULL with an exception set. */
HO_HIDDEN ho_owner *ho_copy_tensor(const DLTensor *t, uint64_t flags, int64_t itemsize, DLTensor *out,
                                   int64_t *strides);
/* Bytes per element of t, sub-byte elements rounded up; -1 with an exception
 * set if the elements are packed below a byte. */
HO_HIDDEN int ho_whole_bytes(const ho_view *v, const char *what);
HO_HIDDEN ho_PyObject *ho_int_tuple(int32_t n, const int64_t *values);
HO_HIDDEN ho_PyObject *ho_view_dtype(ho_view *v);
/* The type name of v's elements; buf holds at least 80 bytes. */
HO_HIDDEN const char *ho_view_dtype_text(ho_view *v, char *buf);

extern HO_HIDDEN ho_PyGetSetDef ho_view_getset[];
HO_HIDDEN void ho_view_dealloc(ho_PyObject *self);
HO_HIDDEN int ho_view_getbuffer(ho_PyObject *self, ho_Py_buffer *b, int flags);

/* export.c: the methods of the protocol. */
HO_HIDDEN ho_PyObject *ho_dlpack_method(ho_PyObject *self, ho_PyObject *const *args, ho_ssize n, ho_PyObject *kwnames);
HO_HIDDEN ho_PyObject *ho_dlpack_device_method(ho_PyObject *self, ho_PyObject *unused);
/* Sets both names of the exchange table on a type. */
HO_HIDDEN int ho_offer_table(ho_PyTypeObject *type);

HO_HIDDEN int ho_smv_init(ho_PyObject *module);   /* smv.c */
HO_HIDDEN int ho_gpu_init(ho_PyObject *module);   /* gpu.c */
HO_HIDDEN int ho_array_init(ho_PyObject *module); /* array.c */

/* args.c: arguments of METH_FASTCALL | METH_KEYWORDS functions. */
typedef struct ho_param {
	ho_PyObject **name; /* into ho_names; NULL: positional only */
} ho_param;
/* Fills out[n] (NULL: not given). The first max_pos may be positional, the
 * first `required` must be given. */
HO_HIDDEN int ho_parse(const char *fn, ho_PyObject *const *args, ho_ssize nargs, ho_PyObject *kwnames,
                       const ho_param *params, int n, int max_pos, int required, ho_PyObject **out);
/* Whether the type of o has an attribute of that name. */
static inline int ho_type_has(ho_PyObject *o, const char *name)
{
	ho_PyObject *a = ho_py.PyObject_GetAttrString((ho_PyObject *)HO_TYPE(o), name);

	if (a == NULL)
		ho_py.PyErr_Clear();
	else
		ho_py.Py_DecRef(a);
	return a != NULL;
}
/* Whether that is the only keyword, interned as callers have it: for functions that
 * are nearly always called in one way, before ho_parse. */
static inline int ho_only_keyword(ho_PyObject *kwnames, ho_PyObject *name)
{
	return kwnames != NULL && ho_py.PyTuple_Size(kwnames) == 1 && ho_py.PyTuple_GetItem(kwnames, 0) == name;
}
/* An int or a sequence of ints, at most HO_MAX_DIMS. */
HO_HIDDEN int ho_parse_dims(ho_PyObject *o, const char *what, int64_t *out, int32_t *n);
/* True, False or None (-1). */
HO_HIDDEN int ho_parse_copy(ho_PyObject *o, int *copy);

/* ---- Small helpers ------------------------------------------------------ */

static inline void ho_xdecref(ho_PyObject *o)
{
	if (o != NULL)
		ho_py.Py_DecRef(o);
}
