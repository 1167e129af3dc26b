/* One call from Python: parse the arguments into a frame on the stack, cross
 * into Go once, build the result from the frame. */
#include <alloca.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "function.h"

/* exports.go */
extern void ho_ext_enter(void *frame);

/* ---- Errors about arguments --------------------------------------------- */

/* Puts "scale() argument 'x': " before the text of the pending exception. Its
 * type, attributes and cause stay; only exceptions whose single argument is a
 * text are touched. Returns -1. */
static int blame(const ho_ext_function *fn, const ho_ext_param *p)
{
	ho_PyObject *type, *value, *trace;
	ho_py.PyErr_Fetch(&type, &value, &trace);
	ho_py.PyErr_NormalizeException(&type, &value, &trace);
	ho_PyObject *args = value ? ho_py.PyObject_GetAttrString(value, "args") : NULL;
	if (args && HO_TYPE(args) == (void *)ho_py.PyTuple_Type && ho_py.PyTuple_Size(args) == 1) {
		ho_PyObject *text = ho_py.PyTuple_GetItem(args, 0);
		if (HO_TYPE(text) == (void *)ho_py.PyUnicode_Type) {
			ho_PyObject *full = ho_py.PyUnicode_FromFormat("%s() argument '%s': %U", fn->name, p->cname, text);
			ho_PyObject *tuple = full ? ho_py.PyTuple_Pack(1, full) : NULL;
			if (tuple)
				ho_py.PyObject_SetAttrString(value, "args", tuple);
			if (tuple)
				ho_py.Py_DecRef(tuple);
			if (full)
				ho_py.Py_DecRef(full);
		}
	}
	if (args)
		ho_py.Py_DecRef(args);
	ho_py.PyErr_Clear(); /* of the work above; the exception itself is kept in value */
	ho_py.PyErr_Restore(type, value, trace);
	return -1;
}

static int wrong_type(const ho_ext_param *p, ho_PyObject *o)
{
	ho_PyObject *name = ho_py.PyType_GetName(HO_TYPE(o));
	if (name) {
		ho_py.PyErr_Format(ho_py.PyExc_TypeError, "want %s, not %U", p->wants, name);
		ho_py.Py_DecRef(name);
	}
	return -1;
}

static int out_of_range(const ho_ext_param *p, ho_PyObject *o)
{
	ho_py.PyErr_Format(ho_py.PyExc_OverflowError, "%S does not fit %s", o, p->wants);
	return -1;
}

static const char *const code_names[] = {
	"int", "uint", "float", "opaque", "bfloat", "complex", "bool", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz",
	"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn",
	"float6_e3m2fn", "float4_e2m1fn", "bcomplex",
};

/* The dtype as messages spell it: float32, bool, float8_e5m2, int32x4. */
static const char *dtype_text(DLDataType t, char buf[48])
{
	char lanes[12] = "";
	if (t.lanes != 1)
		snprintf(lanes, sizeof lanes, "x%u", t.lanes);
	if (t.code >= sizeof code_names / sizeof *code_names)
		snprintf(buf, 48, "code%u_%u%s", t.code, t.bits, lanes);
	else if (t.code == kDLBool || t.code > kDLBool)
		snprintf(buf, 48, "%s%s", code_names[t.code], lanes);
	else
		snprintf(buf, 48, "%s%u%s", code_names[t.code], t.bits, lanes);
	return buf;
}

/* ---- Scalars ------------------------------------------------------------ */

static int is_long(ho_PyObject *o)
{
	return HO_TYPE(o) == (void *)ho_py.PyLong_Type || (ho_py.PyType_GetFlags(HO_TYPE(o)) & HO_TPFLAGS_LONG_SUBCLASS);
}

/* The int itself, or what __index__ gives: a new reference. */
static ho_PyObject *as_index(const ho_ext_param *p, ho_PyObject *o)
{
	if (is_long(o))
		return ho_newref(o);
	if (!ho_py.PyIndex_Check(o)) {
		wrong_type(p, o);
		return NULL;
	}
	return ho_py.PyNumber_Index(o);
}

static int parse_int(const ho_ext_param *p, ho_PyObject *o, ho_ext_value *v)
{
	int over = 0, bad = 0;
	if (HO_TYPE(o) != (void *)ho_py.PyLong_Type) {
		ho_PyObject *i = as_index(p, o);
		if (!i)
			return -1;
		v->a = (uint64_t)ho_py.PyLong_AsLongLongAndOverflow(i, &over);
		ho_py.Py_DecRef(i);
	} else {
		v->a = (uint64_t)ho_py.PyLong_AsLongLongAndOverflow(o, &over);
	}
	if ((int64_t)v->a == -1 && !over && ho_py.PyErr_Occurred())
		return -1;
	if (p->bits < 64) {
		int64_t limit = (int64_t)1 << (p->bits - 1);
		bad = (int64_t)v->a < -limit || (int64_t)v->a >= limit;
	}
	return over || bad ? out_of_range(p, o) : 0;
}

static int parse_uint(const ho_ext_param *p, ho_PyObject *o, ho_ext_value *v)
{
	int over = 0;
	ho_PyObject *i = as_index(p, o);
	if (!i)
		return -1;
	long long x = ho_py.PyLong_AsLongLongAndOverflow(i, &over);
	v->a = (uint64_t)x;
	if (over > 0 && p->bits == 64) {
		over = 0;
		x = 0;
		v->a = ho_py.PyLong_AsUnsignedLongLong(i);
		if (v->a == UINT64_MAX && ho_py.PyErr_Occurred()) {
			ho_py.PyErr_Clear();
			over = 1;
		}
	}
	ho_py.Py_DecRef(i);
	if (x == -1 && !over && ho_py.PyErr_Occurred())
		return -1;
	if (over || x < 0 || (p->bits < 64 && v->a >> p->bits))
		return out_of_range(p, o);
	return 0;
}

static int parse_float(const ho_ext_param *p, ho_PyObject *o, ho_ext_value *v)
{
	double d = ho_py.PyFloat_AsDouble(o);
	if (d == -1.0 && ho_py.PyErr_Occurred()) {
		if (ho_py.PyErr_ExceptionMatches(ho_py.PyExc_TypeError)) {
			ho_py.PyErr_Clear();
			return wrong_type(p, o);
		}
		return -1;
	}
	if (p->bits == 32 && isfinite(d) && isinf((float)d))
		return out_of_range(p, o);
	memcpy(&v->a, &d, 8);
	return 0;
}

static int parse_complex(const ho_ext_param *p, ho_PyObject *o, ho_ext_value *v)
{
	ho_PyObject *c = NULL;
	if (!ho_py.PyType_IsSubtype(HO_TYPE(o), (void *)ho_py.PyComplex_Type)) {
		/* RealAsDouble asks for __complex__ from Python 3.13 on only. */
		ho_PyObject *method = ho_py.PyObject_GetAttrString((ho_PyObject *)HO_TYPE(o), "__complex__");
		if (method) {
			c = ho_py.PyObject_CallFunctionObjArgs(method, o, NULL);
			ho_py.Py_DecRef(method);
			if (!c)
				return -1;
			o = c;
		} else {
			ho_py.PyErr_Clear();
		}
	}
	double re = ho_py.PyComplex_RealAsDouble(o), im = 0;
	int bad = re == -1.0 && ho_py.PyErr_Occurred();
	if (!bad)
		im = ho_py.PyComplex_ImagAsDouble(o);
	if (bad && ho_py.PyErr_ExceptionMatches(ho_py.PyExc_TypeError)) {
		ho_py.PyErr_Clear();
		wrong_type(p, o);
	}
	if (!bad && p->bits == 64 && ((isfinite(re) && isinf((float)re)) || (isfinite(im) && isinf((float)im))))
		bad = out_of_range(p, o) != 0;
	if (c)
		ho_py.Py_DecRef(c);
	memcpy(&v->a, &re, 8);
	memcpy(&v->b, &im, 8);
	return bad ? -1 : 0;
}

static int parse_bool(const ho_ext_param *p, ho_PyObject *o, ho_ext_value *v)
{
	if (o == HO_TRUE || o == HO_FALSE) {
		v->a = o == HO_TRUE;
		return 0;
	}
	/* numpy.bool is no subclass of bool (a bool cannot be subclassed). */
	ho_PyObject *name = ho_py.PyType_GetName(HO_TYPE(o));
	if (!name)
		return -1;
	int same = ho_py.PyUnicode_CompareWithASCIIString(name, "bool") == 0 ||
		ho_py.PyUnicode_CompareWithASCIIString(name, "bool_") == 0;
	ho_py.Py_DecRef(name);
	if (!same)
		return wrong_type(p, o);
	int truth = ho_py.PyObject_IsTrue(o);
	v->a = truth > 0;
	return truth < 0 ? -1 : 0;
}

static int parse_text(const ho_ext_param *p, ho_PyObject *o, ho_ext_value *v)
{
	if (!(ho_py.PyType_GetFlags(HO_TYPE(o)) & HO_TPFLAGS_UNICODE_SUBCLASS))
		return wrong_type(p, o);
	ho_ssize n = 0;
	const char *s = ho_py.PyUnicode_AsUTF8AndSize(o, &n); /* cached in o, which the caller keeps */
	if (!s)
		return -1;
	v->a = (uint64_t)(uintptr_t)s;
	v->b = (uint64_t)n;
	return 0;
}

/* ---- Arrays ------------------------------------------------------------- */

enum { FIRST_PAGE = 4096 };

/* A typed slice: the exact dtype, dense in C order, aligned, on the host. */
static int check_slice(const ho_ext_param *p, const ho_arg *a, ho_ext_value *v)
{
	char have[48], want[48];
	if (a->dtype.code != p->dtype.code || a->dtype.bits != p->dtype.bits || a->dtype.lanes != p->dtype.lanes) {
		ho_py.PyErr_Format(ho_py.PyExc_TypeError, "dtype %s, want %s", dtype_text(a->dtype, have), dtype_text(p->dtype, want));
		return -1;
	}
	if (!ho_device_is_host(a->device.device_type)) {
		ho_py.PyErr_Format(ho_py.PyExc_BufferError, "memory of device (%d, %d), want memory that the CPU can read",
			(int)a->device.device_type, (int)a->device.device_id);
		return -1;
	}
	if (p->dtype.bits < 8 && !(a->flags & HO_ARG_PADDED)) {
		ho_py.PyErr_Format(ho_py.PyExc_BufferError, "packed %s elements, want one per byte", dtype_text(p->dtype, want));
		return -1;
	}
	int64_t n = 1;
	for (int32_t i = 0; i < a->ndim; i++)
		if (a->shape[i] == 0)
			n = 0;
	for (int32_t i = a->ndim - 1; i >= 0 && n; i--) {
		if (a->shape[i] != 1 && a->strides[i] != n) {
			ho_py.PyErr_SetString(ho_py.PyExc_BufferError, "not dense in C order (use numpy.ascontiguousarray, or a function that takes views)");
			return -1;
		}
		n *= a->shape[i];
	}
	if (n && a->data < FIRST_PAGE) { /* the Go runtime stops at such a pointer */
		ho_py.PyErr_SetString(ho_py.PyExc_BufferError, "the address of the memory lies in the first page");
		return -1;
	}
	if (n && !(a->flags & HO_ARG_ALIGNED)) {
		ho_py.PyErr_Format(ho_py.PyExc_BufferError, "memory is not aligned for %s", dtype_text(p->dtype, want));
		return -1;
	}
	v->a = a->data;
	v->b = (uint64_t)n;
	return 0;
}

/* What the arguments of one call need besides the frame. */
typedef struct parser {
	const ho_ext_function *fn;
	ho_ext_frame *frame;
	uint32_t extra; /* next free value behind those of the parameters */
	ho_stream_value stream; /* of the call; handle 0: none */
} parser;

static inline int consume(parser *ps, const ho_ext_param *p, ho_PyObject *o, ho_arg *a)
{
	unsigned want = p->flags & HO_EXT_WRITABLE ? HO_WANT_WRITABLE : 0;

	return ps->stream.handle != 0 ? ho_consume_on(o, want, ps->stream.handle, a) : ho_consume(o, want, a);
}

static int parse_array(parser *ps, const ho_ext_param *p, ho_PyObject *o, ho_ext_value *v)
{
	ho_arg *a = &ps->frame->arrays[ps->frame->narrays];
	if (consume(ps, p, o, a) < 0)
		return -1;
	if (p->kind != HO_EXT_VIEW && check_slice(p, a, v) < 0) {
		ho_arg_done(a);
		return -1;
	}
	v->n = ps->frame->narrays++;
	if (p->kind == HO_EXT_VIEW)
		v->a = v->n;
	return 0;
}

/* parse_one for parameters that are nothing but a view. */
static int parse_view(parser *ps, const ho_ext_param *p, ho_PyObject *o, ho_ext_value *v)
{
	uint32_t n = ps->frame->narrays;
	if (consume(ps, p, o, &ps->frame->arrays[n]) < 0)
		return -1;
	v->tag = HO_EXT_VIEW;
	v->n = n;
	v->a = n;
	ps->frame->narrays = n + 1;
	return 0;
}

static int parse_bytes(parser *ps, const ho_ext_param *p, ho_PyObject *o, ho_ext_value *v)
{
	if (!(ho_py.PyType_GetFlags(HO_TYPE(o)) & HO_TPFLAGS_BYTES_SUBCLASS)) {
		v->tag = HO_EXT_SLICE;
		return parse_array(ps, p, o, v);
	}
	char *s = NULL;
	ho_ssize n = 0;
	if (ho_py.PyBytes_AsStringAndSize(o, &s, &n) < 0)
		return -1;
	v->a = (uint64_t)(uintptr_t)s;
	v->b = (uint64_t)n;
	return 0;
}

static int parse_one(parser *ps, const ho_ext_param *p, ho_PyObject *o, ho_ext_value *v)
{
	v->tag = p->kind;
	v->n = 0;
	if (o == HO_NONE && (p->flags & HO_EXT_OPTIONAL)) {
		v->tag = HO_EXT_NONE;
		return 0;
	}
	switch (p->kind) {
	case HO_EXT_VIEW:
	case HO_EXT_SLICE: return parse_array(ps, p, o, v);
	case HO_EXT_INT: return parse_int(p, o, v);
	case HO_EXT_UINT: return parse_uint(p, o, v);
	case HO_EXT_FLOAT: return parse_float(p, o, v);
	case HO_EXT_COMPLEX: return parse_complex(p, o, v);
	case HO_EXT_BOOL: return parse_bool(p, o, v);
	case HO_EXT_STR: return parse_text(p, o, v);
	case HO_EXT_BYTES: return parse_bytes(ps, p, o, v);
	case HO_EXT_STREAM: return 0; /* after the arrays, see order_arrays */
	case HO_EXT_OBJECT: v->a = (uint64_t)(uintptr_t)o; return 0;
	default: return ho_raise_named("SystemError", "unknown kind of parameter");
	}
}

/* Keeps a reference until the call ends. Steals o. */
static int keep(ho_ext_frame *f, ho_PyObject *o)
{
	if (!f->kept)
		f->kept = ho_py.PyList_New(0);
	int bad = !f->kept || ho_py.PyList_Append(f->kept, o) < 0;
	ho_py.Py_DecRef(o);
	return bad ? -1 : 0;
}

/* Room for n values behind those of the parameters. */
static ho_ext_value *more_values(parser *ps, ho_ssize n, ho_ext_value *v)
{
	v->tag = HO_EXT_SEQ;
	v->n = (uint32_t)n;
	v->a = ps->extra;
	ps->extra += (uint32_t)n;
	return ps->frame->values + v->a;
}

static int parse_item(parser *ps, const ho_ext_param *p, ho_PyObject *o, ho_ext_value *v)
{
	if (o == HO_NONE && p->kind != HO_EXT_OBJECT) /* optional means the whole sequence */
		return wrong_type(p, o);
	return parse_one(ps, p, o, v);
}

static int parse_rest(parser *ps, const ho_ext_param *p, ho_PyObject *const *items, ho_ssize n, ho_ext_value *v)
{
	ho_ext_value *at = more_values(ps, n, v);
	for (ho_ssize i = 0; i < n; i++)
		if (parse_item(ps, p, items[i], &at[i]) < 0)
			return -1;
	return 0;
}

static int parse_sequence(parser *ps, const ho_ext_param *p, ho_PyObject *tuple, ho_ext_value *v)
{
	ho_ssize n = ho_py.PyTuple_Size(tuple);
	ho_ext_value *at = more_values(ps, n, v);
	for (ho_ssize i = 0; i < n; i++)
		if (parse_item(ps, p, ho_py.PyTuple_GetItem(tuple, i), &at[i]) < 0)
			return -1;
	return 0;
}

/* The sequence as a tuple: a new reference. A list is copied, because another
 * thread may change it during the call. */
static ho_PyObject *frozen(const ho_ext_param *p, ho_PyObject *o)
{
	unsigned long flags = ho_py.PyType_GetFlags(HO_TYPE(o));
	if (flags & HO_TPFLAGS_TUPLE_SUBCLASS)
		return ho_newref(o);
	if (!(flags & HO_TPFLAGS_LIST_SUBCLASS)) {
		wrong_type(p, o);
		return NULL;
	}
	return ho_py.PyObject_CallFunctionObjArgs(ho_py.PyTuple_Type, o, NULL);
}

/* ---- Which argument belongs to which parameter --------------------------- */

static int too_many(const ho_ext_function *fn, ho_ssize nargs)
{
	ho_py.PyErr_Format(ho_py.PyExc_TypeError, "%s() takes %s%u positional argument%s but %zd %s given", fn->name,
		fn->nrequired < fn->npos ? "at most " : "", fn->npos, fn->npos == 1 ? "" : "s", nargs, nargs == 1 ? "was" : "were");
	return -1;
}

static int missing(const ho_ext_function *fn, const ho_ext_param *p)
{
	ho_py.PyErr_Format(ho_py.PyExc_TypeError, "%s() missing required %sargument: '%s'", fn->name,
		p->flags & HO_EXT_KEYWORD ? "keyword-only " : "", p->cname);
	return -1;
}

/* Names are interned, so that the first pass nearly always finds them. */
static int find_param(const ho_ext_function *fn, ho_PyObject *name)
{
	for (uint32_t i = 0; i < fn->nparams; i++)
		if (fn->params[i].name == name)
			return (int)i;
	for (uint32_t i = 0; i < fn->nparams; i++)
		if (ho_py.PyUnicode_CompareWithASCIIString(name, fn->params[i].cname) == 0)
			return (int)i;
	return -1;
}

static int match_keywords(const ho_ext_function *fn, ho_PyObject **given, ho_PyObject *const *values, ho_PyObject *names)
{
	ho_ssize n = ho_py.PyTuple_Size(names);
	for (ho_ssize k = 0; k < n; k++) {
		ho_PyObject *name = ho_py.PyTuple_GetItem(names, k);
		int i = find_param(fn, name);
		if (i < 0 || (fn->params[i].flags & HO_EXT_VARIADIC)) {
			ho_py.PyErr_Format(ho_py.PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", fn->name, name);
			return -1;
		}
		if (fn->params[i].flags & HO_EXT_POSITIONAL) {
			ho_py.PyErr_Format(ho_py.PyExc_TypeError, "%s() got positional-only argument '%U' passed as a keyword", fn->name, name);
			return -1;
		}
		if (given[i]) {
			ho_py.PyErr_Format(ho_py.PyExc_TypeError, "%s() got multiple values for argument '%U'", fn->name, name);
			return -1;
		}
		given[i] = values[k];
	}
	return 0;
}

static int parse_all(parser *ps, ho_PyObject *const *given, ho_PyObject *const *rest, ho_ssize nrest)
{
	const ho_ext_function *fn = ps->fn;
	for (uint32_t i = 0; i < fn->nparams; i++) {
		const ho_ext_param *p = &fn->params[i];
		ho_ext_value *v = &ps->frame->values[i];
		int bad;
		if (p->view && given[i]) { /* first and short: the hot path */
			bad = parse_view(ps, p, given[i], v);
		} else if (p->flags & HO_EXT_VARIADIC) {
			bad = parse_rest(ps, p, rest, nrest, v);
		} else if (!given[i]) {
			if (!(p->flags & HO_EXT_DEFAULT))
				return missing(fn, p);
			*v = p->def;
			continue;
		} else if ((p->flags & HO_EXT_SEQUENCE) && given[i] != HO_NONE) {
			bad = parse_sequence(ps, p, given[i], v);
		} else if ((p->flags & HO_EXT_SEQUENCE) && !(p->flags & HO_EXT_OPTIONAL)) {
			bad = wrong_type(p, given[i]);
		} else {
			bad = parse_one(ps, p, given[i], v);
		}
		if (bad)
			return blame(fn, p);
	}
	return 0;
}

/* Reads the stream of the call, before the arrays: their producers may have to
 * be told. */
static int read_stream(parser *ps, ho_PyObject *const *given)
{
	const ho_ext_function *fn = ps->fn;
	ho_PyObject *o = given[fn->stream - 1];

	if (o == NULL || o == HO_NONE || ho_stream_read(o, &ps->stream) == 0)
		return 0;
	return blame(fn, &fn->params[fn->stream - 1]);
}

/* Orders the arrays on the stream of the call. */
static int order_arrays(parser *ps, ho_PyObject *const *given)
{
	const ho_ext_function *fn = ps->fn;
	ho_ext_frame *f = ps->frame;
	ho_ext_value *v = &f->values[fn->stream - 1];
	ho_PyObject *o = v->tag == HO_EXT_NONE ? NULL : given[fn->stream - 1];

	if (ho_args_on_stream(o, f->arrays, f->narrays, &ps->stream) < 0)
		return blame(fn, &fn->params[fn->stream - 1]);
	if (o != NULL)
		*v = (ho_ext_value){ HO_EXT_STREAM, (uint32_t)ps->stream.device, ps->stream.handle, ps->stream.ctx };
	return 0;
}

/* Py_TPFLAGS_TYPE_SUBCLASS: the object is a class. */
#define HO_TPFLAGS_TYPE_SUBCLASS (1UL << 31)

/* ---- The end of a call -------------------------------------------------- */

void *ho_ext_spill(ho_ext_frame *f, size_t bytes)
{
	void **block = bytes > SIZE_MAX - 16 ? NULL : calloc(1, bytes + 16);
	if (!block)
		return NULL;
	void *head = __atomic_load_n(&f->spilled, __ATOMIC_RELAXED);
	do
		block[0] = head;
	while (!__atomic_compare_exchange_n(&f->spilled, &head, block, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
	return block + 2;
}

static void free_spilled(void *block)
{
	while (block) {
		void *next = *(void **)block;
		free(block);
		block = next;
	}
}

/* Raises what Go reported. An exception object that came from Python goes
 * back as it is. */
static void raise_failure(ho_ext_frame *f)
{
	if (f->exc) {
		ho_PyObject *exc = f->exc, *type = (ho_PyObject *)HO_TYPE(exc);
		f->exc = NULL;
		if (f->exc_owner) {
			ho_newref(exc);
			ho_owner_unref(f->exc_owner);
		}
		if (f->err_text && f->err_text[0]) { /* Go code added words */
			ho_PyObject *add = ho_py.PyObject_GetAttrString(exc, "add_note");
			ho_PyObject *text = ho_py.PyUnicode_FromString(f->err_text);
			ho_PyObject *r = add && text ? ho_py.PyObject_CallFunctionObjArgs(add, text, NULL) : NULL;
			if (r)
				ho_py.Py_DecRef(r);
			if (text)
				ho_py.Py_DecRef(text);
			if (add)
				ho_py.Py_DecRef(add);
			ho_py.PyErr_Clear();
		}
		ho_PyObject *trace = ho_py.PyObject_GetAttrString(exc, "__traceback__");
		if (!trace)
			ho_py.PyErr_Clear();
		if (trace == HO_NONE) {
			ho_py.Py_DecRef(trace);
			trace = NULL;
		}
		ho_py.PyErr_Restore(ho_newref(type), exc, trace);
		return;
	}
	const char *text = f->err_text ? f->err_text : "the Go function failed";
	ho_PyObject *builtins = ho_py.PyImport_ImportModule("builtins");
	ho_PyObject *class = builtins ? ho_py.PyObject_GetAttrString(builtins, f->err_class) : NULL;
	ho_py.PyErr_Clear();
	if (class && (ho_py.PyType_GetFlags(HO_TYPE(class)) & HO_TPFLAGS_TYPE_SUBCLASS) &&
		ho_py.PyType_IsSubtype((ho_PyTypeObject *)class, (ho_PyTypeObject *)ho_py.PyExc_BaseException))
		ho_py.PyErr_SetString(class, text);
	else
		ho_raise_named(f->err_class, text); /* handoff's own; GoError for an unknown name */
	if (class)
		ho_py.Py_DecRef(class);
	if (builtins)
		ho_py.Py_DecRef(builtins);
}

static ho_PyObject *finish(ho_ext_frame *f)
{
	const ho_ext_value *at = f->out, *end = f->out + f->out_len;
	ho_PyObject *result = NULL;
	if (f->status != 0)
		raise_failure(f);
	else if (f->out_len == 1 && at->tag == HO_EXT_INT)
		return ho_py.PyLong_FromLongLong((long long)at->a);
	else if (f->out_len == 0)
		result = ho_newref(HO_NONE);
	else
		result = ho_ext_build(&at, end);
	if (at != end)
		ho_ext_drop(at, end);
	return result;
}

ho_ext_frame *ho_ext_frame_new(void)
{
	ho_ext_frame *f = calloc(1, sizeof *f);
	if (f) {
		f->out = f->out_inline;
		f->out_cap = HO_EXT_INLINE_RESULTS;
		f->scratch = f->scratch_inline;
		f->scratch_cap = HO_EXT_SCRATCH;
	}
	return f;
}

void ho_ext_frame_free(ho_ext_frame *f)
{
	free_spilled(f->spilled);
	free(f);
}

/* ---- The call ----------------------------------------------------------- */

/* Calls with more values or arrays than this use the heap. */
enum { ON_STACK = 64 };

/* Go keeps one state per call that is under way, in a table. The numbers of
 * the free ones are a stack here, guarded by the GIL, which is held before and
 * after the crossing: cheaper than a pool on the Go side. */
enum { MAX_FREE_SLOTS = 1024 };
static uint32_t free_slots[MAX_FREE_SLOTS], nfree_slots, nslots;

static uint32_t take_slot(void)
{
	return nfree_slots ? free_slots[--nfree_slots] : nslots++;
}

static void give_slot(uint32_t slot)
{
	if (nfree_slots < MAX_FREE_SLOTS) /* more calls at once than this: one state is lost to the table */
		free_slots[nfree_slots++] = slot;
}

/* Enters Go with a frame whose values and arrays are there. */
static inline __attribute__((always_inline)) ho_PyObject *cross(const ho_ext_function *fn, ho_ext_frame *f)
{
	f->func = fn->number;
	f->status = 0;
	f->out = f->out_inline;
	f->out_len = 0;
	f->out_cap = HO_EXT_INLINE_RESULTS;
	f->scratch = f->scratch_inline;
	f->scratch_used = 0;
	f->scratch_cap = HO_EXT_SCRATCH;
	f->err_class = f->err_text = NULL;
	f->exc = NULL;
	f->exc_owner = NULL;
	f->interrupt = NULL;
	f->slot = take_slot();
	if (fn->flags & HO_EXT_QUICK) {
		f->thread = (uint64_t)pthread_self();
		f->tstate = NULL;
		ho_ext_enter(f);
	} else {
		f->thread = 0;
		f->tstate = ho_py.PyEval_SaveThread();
		ho_ext_enter(f);
		ho_py.PyEval_RestoreThread(f->tstate);
	}
	give_slot(f->slot);
	return finish(f);
}

/* The producers' streams wait for what the function has queued, also when it
 * failed half-way. An exception of the function goes before one of this. */
static ho_PyObject *way_back(parser *ps, ho_PyObject *const *given, ho_PyObject *result)
{
	const ho_ext_function *fn = ps->fn;
	ho_PyObject *type = NULL, *value = NULL, *trace = NULL;

	if (ps->stream.handle == 0)
		return result;
	if (result == NULL)
		ho_py.PyErr_Fetch(&type, &value, &trace);
	int bad = ho_args_back(given[fn->stream - 1], ps->frame->arrays, ps->frame->narrays, &ps->stream);
	if (type != NULL) {
		ho_py.PyErr_Clear();
		ho_py.PyErr_Restore(type, value, trace);
		return NULL;
	}
	if (bad && result != NULL) {
		ho_py.Py_DecRef(result);
		return NULL;
	}
	return result;
}

static ho_PyObject *parse_and_cross(const ho_ext_function *fn, ho_ext_frame *f, ho_PyObject *const *given,
	ho_PyObject *const *rest, ho_ssize nrest)
{
	parser ps = { fn, f, fn->nparams, { 0 } };
	ho_PyObject *result = NULL;
	int crossed = 0;
	f->narrays = 0;
	if ((fn->stream == 0 || read_stream(&ps, given) == 0) && parse_all(&ps, given, rest, nrest) == 0 &&
		(fn->stream == 0 || order_arrays(&ps, given) == 0)) {
		crossed = 1;
		result = cross(fn, f);
	}
	if (crossed && (fn->flags & HO_EXT_BACK))
		result = way_back(&ps, given, result);
	if (f->narrays)
		ho_args_done(f->arrays, f->narrays);
	if (f->spilled)
		free_spilled(f->spilled);
	if (f->kept)
		ho_py.Py_DecRef(f->kept);
	return result;
}

/* Functions with lists, tuples or variadic parameters: the number of values is
 * known after a look at the arguments only. */
static ho_PyObject *call_sequences(const ho_ext_function *fn, ho_ext_frame *f, ho_PyObject **given,
	ho_PyObject *const *rest, ho_ssize nrest)
{
	size_t nvalues = fn->nparams + (size_t)nrest;
	for (uint32_t i = 0; i < fn->nparams; i++) {
		const ho_ext_param *p = &fn->params[i];
		if (!(p->flags & HO_EXT_SEQUENCE) || !given[i] || given[i] == HO_NONE)
			continue;
		ho_PyObject *tuple = frozen(p, given[i]);
		if (!tuple)
			blame(fn, p);
		if (!tuple || keep(f, tuple) < 0)
			goto fail;
		given[i] = tuple; /* kept until the call ends */
		nvalues += (size_t)ho_py.PyTuple_Size(tuple);
	}
	if (nvalues > UINT32_MAX / 2) {
		ho_py.PyErr_NoMemory();
		goto fail;
	}
	f->values = nvalues <= ON_STACK ? alloca(nvalues * sizeof *f->values) : ho_ext_spill(f, nvalues * sizeof *f->values);
	f->arrays = nvalues <= ON_STACK ? alloca(nvalues * sizeof *f->arrays) : ho_ext_spill(f, nvalues * sizeof *f->arrays);
	f->nvalues = (uint32_t)nvalues;
	if (!f->values || !f->arrays) {
		ho_py.PyErr_NoMemory();
		goto fail;
	}
	return parse_and_cross(fn, f, given, rest, nrest);
fail:
	free_spilled(f->spilled);
	if (f->kept)
		ho_py.Py_DecRef(f->kept);
	return NULL;
}

static __attribute__((noinline)) ho_PyObject *call_any(const ho_ext_function *fn, ho_PyObject *const *args, ho_ssize nargs,
	ho_PyObject *kwnames)
{
	ho_ext_frame f;
	f.spilled = NULL;
	f.kept = NULL;
	if (atomic_load_explicit(&ho_forked, memory_order_relaxed) && ho_go_ok() < 0)
		return NULL;
	ho_ssize npos = nargs < (ho_ssize)fn->npos ? nargs : (ho_ssize)fn->npos, nrest = nargs - npos;
	if (nrest && !fn->variadic) {
		too_many(fn, nargs);
		return NULL;
	}
	ho_PyObject *const *given = args;
	if (kwnames || npos != (ho_ssize)fn->nparams || fn->sequences) {
		ho_PyObject **g = alloca(fn->nparams * sizeof *g + 1);
		for (uint32_t i = 0; i < fn->nparams; i++)
			g[i] = (ho_ssize)i < npos ? args[i] : NULL;
		if (kwnames && match_keywords(fn, g, args + nargs, kwnames) < 0)
			return NULL;
		if (fn->sequences)
			return call_sequences(fn, &f, g, args + npos, nrest);
		given = g;
	}
	f.values = alloca(fn->nparams * sizeof *f.values + 1);
	f.arrays = alloca(fn->narrays * sizeof *f.arrays + 1);
	f.nvalues = fn->nparams;
	return parse_and_cross(fn, &f, given, NULL, 0);
}

/* The end of a call that leaves more behind than its result. */
static __attribute__((noinline)) void clean_up(ho_ext_frame *f)
{
	if (f->narrays)
		ho_args_done(f->arrays, f->narrays);
	free_spilled(f->spilled);
	if (f->kept)
		ho_py.Py_DecRef(f->kept);
}

/* The short way for functions of nothing but views, or of nothing, called by
 * position: no kinds of parameters to tell apart, and a frame of fixed size. */
static ho_PyObject *call_views(const ho_ext_function *fn, ho_PyObject *const *args)
{
	ho_ext_frame f;
	ho_ext_value values[HO_EXT_FEW_VIEWS];
	ho_arg arrays[HO_EXT_FEW_VIEWS];
	ho_PyObject *result = NULL;
	const uint32_t n = fn->nparams;
	uint32_t i, held = 0;

	f.spilled = NULL;
	f.kept = NULL;
	f.values = values;
	f.arrays = arrays;
	f.nvalues = n;
	for (i = 0; i < n; i++) {
		const ho_ext_param *p = &fn->params[i];
		if (ho_consume(args[i], p->flags & HO_EXT_WRITABLE ? HO_WANT_WRITABLE : 0, &arrays[i]) < 0) {
			blame(fn, p);
			break;
		}
		values[i].tag = HO_EXT_VIEW;
		values[i].n = i;
		values[i].a = i;
	}
	f.narrays = i;
	if (i == n)
		result = cross(fn, &f);
	for (i = 0; i < f.narrays; i++)
		held |= arrays[i].held | (arrays[i].shape != arrays[i].dims);
	if (held || f.spilled || f.kept)
		clean_up(&f);
	return result;
}

ho_PyObject *ho_ext_call(const ho_ext_function *fn, ho_PyObject *const *args, ho_ssize nargs, ho_PyObject *kwnames)
{
	if (!fn->mixed && nargs == (ho_ssize)fn->nparams && !kwnames && !atomic_load_explicit(&ho_forked, memory_order_relaxed))
		return call_views(fn, args);
	return call_any(fn, args, nargs, kwnames);
}
