/* Element types: between DLPack, NumPy's type numbers, typestr, PEP 3118
 * formats, names, ml_dtypes, and Python scalars. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* NumPy's type numbers; int and long long are doubles of long on LP64 only. */
enum {
	NPY_BOOL = 0,
	NPY_BYTE,
	NPY_UBYTE,
	NPY_SHORT,
	NPY_USHORT,
	NPY_INT,
	NPY_UINT,
	NPY_LONG,
	NPY_ULONG,
	NPY_LONGLONG,
	NPY_ULONGLONG,
	NPY_FLOAT,
	NPY_DOUBLE,
	NPY_LONGDOUBLE,
	NPY_CFLOAT,
	NPY_CDOUBLE,
	NPY_HALF = 23,
};

static const ho_dtype table[] = {
	{ { kDLBool, 8, 1 }, 1, 1, NPY_BOOL, 0, "bool", "|b1", "?" },
	{ { kDLInt, 8, 1 }, 1, 1, NPY_BYTE, 0, "int8", "|i1", "b" },
	{ { kDLInt, 16, 1 }, 2, 2, NPY_SHORT, 0, "int16", "<i2", "h" },
	{ { kDLInt, 32, 1 }, 4, 4, NPY_INT, 0, "int32", "<i4", "i" },
	{ { kDLInt, 64, 1 }, 8, 8, NPY_LONG, 0, "int64", "<i8", "l" },
	{ { kDLUInt, 8, 1 }, 1, 1, NPY_UBYTE, 0, "uint8", "|u1", "B" },
	{ { kDLUInt, 16, 1 }, 2, 2, NPY_USHORT, 0, "uint16", "<u2", "H" },
	{ { kDLUInt, 32, 1 }, 4, 4, NPY_UINT, 0, "uint32", "<u4", "I" },
	{ { kDLUInt, 64, 1 }, 8, 8, NPY_ULONG, 0, "uint64", "<u8", "L" },
	{ { kDLFloat, 16, 1 }, 2, 2, NPY_HALF, 0, "float16", "<f2", "e" },
	{ { kDLFloat, 32, 1 }, 4, 4, NPY_FLOAT, 0, "float32", "<f4", "f" },
	{ { kDLFloat, 64, 1 }, 8, 8, NPY_DOUBLE, 0, "float64", "<f8", "d" },
	{ { kDLComplex, 64, 1 }, 8, 4, NPY_CFLOAT, 0, "complex64", "<c8", "Zf" },
	{ { kDLComplex, 128, 1 }, 16, 8, NPY_CDOUBLE, 0, "complex128", "<c16", "Zd" },
	{ { kDLBfloat, 16, 1 }, 2, 2, -1, 1, "bfloat16", NULL, NULL },
	{ { kDLFloat8_e3m4, 8, 1 }, 1, 1, -1, 1, "float8_e3m4", NULL, NULL },
	{ { kDLFloat8_e4m3, 8, 1 }, 1, 1, -1, 1, "float8_e4m3", NULL, NULL },
	{ { kDLFloat8_e4m3b11fnuz, 8, 1 }, 1, 1, -1, 1, "float8_e4m3b11fnuz", NULL, NULL },
	{ { kDLFloat8_e4m3fn, 8, 1 }, 1, 1, -1, 1, "float8_e4m3fn", NULL, NULL },
	{ { kDLFloat8_e4m3fnuz, 8, 1 }, 1, 1, -1, 1, "float8_e4m3fnuz", NULL, NULL },
	{ { kDLFloat8_e5m2, 8, 1 }, 1, 1, -1, 1, "float8_e5m2", NULL, NULL },
	{ { kDLFloat8_e5m2fnuz, 8, 1 }, 1, 1, -1, 1, "float8_e5m2fnuz", NULL, NULL },
	{ { kDLFloat8_e8m0fnu, 8, 1 }, 1, 1, -1, 1, "float8_e8m0fnu", NULL, NULL },
	{ { kDLFloat6_e2m3fn, 6, 1 }, 1, 1, -1, 1, "float6_e2m3fn", NULL, NULL },
	{ { kDLFloat6_e3m2fn, 6, 1 }, 1, 1, -1, 1, "float6_e3m2fn", NULL, NULL },
	{ { kDLFloat4_e2m1fn, 4, 1 }, 1, 1, -1, 1, "float4_e2m1fn", NULL, NULL },
	{ { kDLInt, 2, 1 }, 1, 1, -1, 1, "int2", NULL, NULL },
	{ { kDLInt, 4, 1 }, 1, 1, -1, 1, "int4", NULL, NULL },
	{ { kDLUInt, 2, 1 }, 1, 1, -1, 1, "uint2", NULL, NULL },
	{ { kDLUInt, 4, 1 }, 1, 1, -1, 1, "uint4", NULL, NULL },
	{ { kDLComplex, 32, 1 }, 4, 2, -1, 0, "complex32", NULL, NULL },
	{ { kDLBcomplex, 32, 1 }, 4, 2, -1, 0, "bcomplex32", NULL, NULL },
};

enum { ROWS = sizeof table / sizeof table[0] };

static ho_PyObject *dtype_objects[ROWS]; /* NumPy dtypes, made on demand */
static ho_PyObject *ml_classes[ROWS];    /* scalar classes of ml_dtypes */
static int ml_loaded;

const ho_dtype *ho_dtype_find(DLDataType d)
{
	for (int i = 0; i < ROWS; i++)
		if (ho_dtype_same(table[i].dl, d))
			return &table[i];
	return NULL;
}

const ho_dtype *ho_dtype_by_numpy(int type_num)
{
	static const signed char row[] = { 0, 1, 5, 2, 6, 3, 7, 4, 8, 4, 8, 10, 11, -1, 12, 13 };

	if (type_num >= 0 && type_num < (int)sizeof row)
		return row[type_num] >= 0 ? &table[row[type_num]] : NULL;
	return type_num == NPY_HALF ? &table[9] : NULL;
}

const ho_dtype *ho_dtype_by_name(const char *name)
{
	for (int i = 0; i < ROWS; i++)
		if (strcmp(table[i].name, name) == 0)
			return &table[i];
	return NULL;
}

int ho_dtype_align(DLDataType d)
{
	const ho_dtype *row;

	if (d.code == kDLComplex || d.code == kDLBcomplex)
		return d.bits / 16 > 1 ? d.bits / 16 : 1;
	if (d.lanes == 1 && (row = ho_dtype_find(d)) != NULL)
		return row->align;
	int bytes = d.bits / 8;
	return bytes > 1 && bytes <= 16 && (bytes & (bytes - 1)) == 0 ? bytes : 1;
}

const char *ho_dtype_text(DLDataType d, char *buf)
{
	DLDataType one = { d.code, d.bits, 1 };
	const ho_dtype *row = ho_dtype_find(one);
	int n;

	if (row != NULL)
		n = snprintf(buf, 40, "%s", row->name);
	else if (d.code == kDLInt || d.code == kDLUInt || d.code == kDLFloat)
		n = snprintf(buf, 40, "%s%d", d.code == kDLInt ? "int" : d.code == kDLUInt ? "uint" : "float", d.bits);
	else
		n = snprintf(buf, 40, "code%d_%d", d.code, d.bits);
	if (d.lanes != 1)
		snprintf(buf + n, 40 - (size_t)n, "x%d", d.lanes);
	return buf;
}

/* ---- typestr and format ------------------------------------------------- */

/* The row of a numeric kind letter and a size in bytes. */
static const ho_dtype *by_kind(char kind, int64_t size)
{
	uint8_t code;

	switch (kind) {
	case 'b':
		return size == 1 ? &table[0] : NULL;
	case 'i':
		code = kDLInt;
		break;
	case 'u':
		code = kDLUInt;
		break;
	case 'f':
		code = kDLFloat;
		break;
	case 'c':
		code = kDLComplex;
		break;
	default:
		return NULL;
	}
	if (size < 1 || size > 16)
		return NULL;
	for (int i = 0; i < 14; i++) /* the rows that have a typestr */
		if (table[i].dl.code == code && table[i].size == size)
			return &table[i];
	return NULL;
}

/* 0: *out is set; 1: well-formed, without a DLPack counterpart; 2: foreign
 * byte order; -1: malformed, exception set. *itemsize is set unless -1. */
int ho_parse_typestr(const char *s, DLDataType *out, int64_t *itemsize)
{
	const char *p = s;
	char order = '=';

	if (*p == '<' || *p == '>' || *p == '|' || *p == '=')
		order = *p++;
	char kind = *p != '\0' ? *p++ : '\0';
	if (kind == '\0' || strchr("tbiufcmMOSUV", kind) == NULL)
		return ho_raise(HO_X_TYPE, 203, "array interface", "typestr '%.40s' is not understood", s);
	int64_t size = 0;
	int digits = 0;
	while (*p >= '0' && *p <= '9' && digits < 12) {
		size = size * 10 + (*p++ - '0');
		digits++;
	}
	if (digits == 0 && kind == 'O') { /* NumPy writes "|O" */
		digits = 1;
		size = sizeof(void *);
	}
	int unit = *p == '[' && (kind == 'm' || kind == 'M') && p[strlen(p) - 1] == ']';
	if (digits == 0 || (*p != '\0' && !unit))
		return ho_raise(HO_X_TYPE, 203, "array interface", "typestr '%.40s' is not understood", s);
	*itemsize = kind == 'U' ? size * 4 : size;
	if (order == '>' && size > 1 && kind != 'S' && kind != 'V' && kind != 'O')
		return 2;
	const ho_dtype *row = by_kind(kind, size);
	if (row == NULL)
		return 1;
	*out = row->dl;
	return 0;
}

/* The bytes of the fields in a list of (name, type) or (name, type, shape),
 * where a type is a typestr or such a list; -1: malformed, or too large. Nothing
 * here runs code of the producer, so borrowed references stay good. */
static int64_t descr_size(ho_PyObject *list, int depth)
{
	int64_t total = 0;
	ho_ssize n = ho_py.PyList_Size(list);

	if (n < 0 || depth > 16)
		return -1;
	for (ho_ssize i = 0; i < n; i++) {
		ho_PyObject *field = ho_py.PyList_GetItem(list, i);
		ho_ssize parts = field != NULL ? ho_py.PyTuple_Size(field) : -1;
		if (parts != 2 && parts != 3)
			return -1;
		ho_PyObject *type = ho_py.PyTuple_GetItem(field, 1);
		ho_PyObject *shape = parts == 3 ? ho_py.PyTuple_GetItem(field, 2) : NULL;
		int64_t size;
		if (HO_TYPE(type) == (ho_PyTypeObject *)ho_py.PyList_Type) {
			if ((size = descr_size(type, depth + 1)) < 0)
				return -1;
		} else {
			DLDataType unused;
			const char *s = ho_py.PyUnicode_AsUTF8AndSize(type, NULL);
			if (s == NULL || ho_parse_typestr(s, &unused, &size) < 0)
				return -1;
		}
		ho_ssize dims = shape != NULL && HO_TYPE(shape) == (ho_PyTypeObject *)ho_py.PyTuple_Type ? ho_py.PyTuple_Size(shape) : 0;
		for (ho_ssize d = 0; d < (shape != NULL && dims == 0 ? 1 : dims); d++) {
			ho_PyObject *number = dims != 0 ? ho_py.PyTuple_GetItem(shape, d) : shape;
			long long extent = HO_TYPE(number) == (ho_PyTypeObject *)ho_py.PyLong_Type ? ho_py.PyLong_AsLongLong(number) : -1;
			if (extent < 0 || __builtin_mul_overflow(size, (int64_t)extent, &size))
				return -1;
		}
		if (__builtin_add_overflow(total, size, &total))
			return -1;
	}
	return total;
}

int ho_check_descr(const char *op, const char *typestr, ho_PyObject *descr, int64_t itemsize)
{
	const char *kind = strchr("<>|=", *typestr) != NULL ? typestr + 1 : typestr;

	if (descr == NULL || *kind != 'V')
		return 0;
	int64_t size = HO_TYPE(descr) == (ho_PyTypeObject *)ho_py.PyList_Type ? descr_size(descr, 0) : -1;
	if (size == itemsize)
		return 0;
	if (ho_py.PyErr_Occurred() != NULL)
		ho_py.PyErr_Clear();
	if (size < 0)
		return ho_raise(HO_X_TYPE, 216, op, "descr is no list of fields");
	return ho_raise(HO_X_VALUE, 216, op, "descr of %lld bytes for typestr '%.40s'", (long long)size, typestr);
}

/* Native and standard sizes of the integer format characters. */
static int format_char(char c, int standard, char *kind)
{
	switch (c) {
	case '?':
		*kind = 'b';
		return 1;
	case 'b':
		*kind = 'i';
		return 1;
	case 'B':
	case 'c':
		*kind = 'u';
		return 1;
	case 'h':
	case 'H':
		*kind = c == 'h' ? 'i' : 'u';
		return 2;
	case 'i':
	case 'I':
		*kind = c == 'i' ? 'i' : 'u';
		return 4;
	case 'l':
	case 'L':
		*kind = c == 'l' ? 'i' : 'u';
		return standard ? 4 : (int)sizeof(long);
	case 'q':
	case 'Q':
		*kind = c == 'q' ? 'i' : 'u';
		return 8;
	case 'n':
	case 'N':
		*kind = c == 'n' ? 'i' : 'u';
		return standard ? -1 : (int)sizeof(size_t);
	case 'e':
		*kind = 'f';
		return 2;
	case 'f':
		*kind = 'f';
		return 4;
	case 'd':
		*kind = 'f';
		return 8;
	case 'F':
		*kind = 'c';
		return 8;
	case 'D':
		*kind = 'c';
		return 16;
	}
	return 0;
}

int ho_parse_format(const char *format, int64_t itemsize, DLDataType *out)
{
	const char *p = format != NULL ? format : "B"; /* R233 */
	char order = '@', kind = 0;
	int size;

	for (;; p++) { /* the last order character counts (R248) */
		if (*p == ' ' || *p == '\t' || *p == '\n')
			continue;
		if (*p == '\0' || strchr("@^=<>!", *p) == NULL)
			break;
		order = *p;
	}
	if (*p == '1' && !(p[1] >= '0' && p[1] <= '9')) /* a count of 1 changes nothing */
		p++;
	int standard = order != '@' && order != '^';
	if (*p == 'Z') {
		p++;
		size = *p == 'f' ? 8 : *p == 'd' ? 16 : *p == 'e' ? 4 : 0;
		kind = 'c';
	} else {
		size = *p != '\0' ? format_char(*p, standard, &kind) : 0;
	}
	if (size < 0)
		return ho_raise(HO_X_VALUE, 250, "buffer", "format '%.40s': n and N have no standard size", format);
	if (size > 0) {
		p++;
		while (*p == ' ' || *p == '\t' || *p == '\n')
			p++;
	}
	if (size == 0 || *p != '\0')
		return ho_raise(HO_E_DTYPE, 251, "buffer", "format '%.60s' is not one number type", format);
	if (size != itemsize)
		return ho_raise(HO_X_BUFFER, 247, "buffer", "format '%.40s' means %d bytes, itemsize is %lld", format, size,
		                (long long)itemsize);
	if ((order == '>' || order == '!') && size > 1)
		return ho_raise(HO_E_DTYPE, 252, "buffer", "format '%.40s' is in foreign byte order", format);
	if (kind == 'c' && size == 4) {
		*out = (DLDataType){ kDLComplex, 32, 1 };
		return 0;
	}
	*out = by_kind(kind, size)->dl;
	return 0;
}

/* ---- Python dtype objects ----------------------------------------------- */

/* Loads the scalar classes; without import only if the module is there. */
static void load_ml(int import)
{
	if (ml_loaded)
		return;
	ho_PyObject *m = ho_py.PyDict_GetItemString(ho_py.PyImport_GetModuleDict(), "ml_dtypes");
	if (m != NULL)
		ho_py.Py_IncRef(m);
	else if (import)
		m = ho_py.PyImport_ImportModule("ml_dtypes");
	if (m == NULL) {
		ho_py.PyErr_Clear();
		return;
	}
	for (int i = 0; i < ROWS; i++) {
		if (!table[i].ml || ml_classes[i] != NULL)
			continue;
		ml_classes[i] = ho_py.PyObject_GetAttrString(m, table[i].name);
		if (ml_classes[i] == NULL)
			ho_py.PyErr_Clear(); /* an older ml_dtypes, or half imported */
		else
			ml_loaded = 1;
	}
	ho_py.Py_DecRef(m);
}

const ho_dtype *ho_dtype_by_scalar(ho_PyObject *cls)
{
	load_ml(0);
	for (int i = 0; ml_loaded && i < ROWS; i++)
		if (ml_classes[i] == cls)
			return &table[i];
	return NULL;
}

ho_PyObject *ho_dtype_object(DLDataType d)
{
	const ho_dtype *row = ho_dtype_find(d);
	char text[40];

	if (row == NULL || (!row->ml && row->numpy < 0)) {
		ho_py.PyErr_Format(ho_py.PyExc_NotImplementedError, "handoff: NumPy has no dtype for %s",
		                   ho_dtype_text(d, text));
		return NULL;
	}
	ho_PyObject **slot = &dtype_objects[row - table];
	if (*slot != NULL)
		return ho_newref(*slot);
	ho_PyObject *arg;
	if (row->ml) {
		load_ml(1);
		arg = ml_classes[row - table];
		if (arg == NULL) {
			ho_py.PyErr_Format(ho_py.PyExc_NotImplementedError,
			                   "handoff: the NumPy dtype of %s needs the package ml_dtypes", row->name);
			return NULL;
		}
		ho_py.Py_IncRef(arg);
	} else {
		arg = ho_py.PyUnicode_FromString(row->name);
	}
	ho_PyObject *numpy = arg != NULL ? ho_py.PyImport_ImportModule("numpy") : NULL;
	ho_PyObject *cls = numpy != NULL ? ho_py.PyObject_GetAttrString(numpy, "dtype") : NULL;
	if (cls != NULL)
		*slot = ho_py.PyObject_CallFunctionObjArgs(cls, arg, NULL);
	ho_xdecref(cls);
	ho_xdecref(numpy);
	ho_xdecref(arg);
	if (*slot == NULL)
		return NULL;
	return ho_newref(*slot);
}

static int take_row(const ho_dtype *row, DLDataType *out, int64_t *itemsize, int *padded)
{
	*out = row->dl;
	*itemsize = row->size;
	*padded = row->dl.bits < 8;
	return 0;
}

static int not_a_dtype(ho_PyObject *o)
{
	ho_PyObject *repr = ho_py.PyObject_Repr(o);
	const char *s = repr != NULL ? ho_py.PyUnicode_AsUTF8AndSize(repr, NULL) : NULL;
	if (s == NULL)
		ho_py.PyErr_Clear();
	ho_raise(HO_X_TYPE, 0, "dtype", "%.80s is not an element type", s != NULL ? s : "this object");
	ho_xdecref(repr);
	return -1;
}

/* A name or a typestr. 1: neither. */
static int from_text(const char *s, DLDataType *out, int64_t *itemsize, int *padded)
{
	const ho_dtype *row = ho_dtype_by_name(strcmp(s, "bool_") == 0 ? "bool" : s);

	if (row != NULL)
		return take_row(row, out, itemsize, padded);
	if (*s == '\0' || (strchr("<>|=", *s) == NULL && !(s[1] >= '1' && s[1] <= '9')))
		return 1;
	int r = ho_parse_typestr(s, out, itemsize);
	if (r < 0) {
		ho_py.PyErr_Clear();
		return 1;
	}
	if (r == 2)
		return ho_raise(HO_E_DTYPE, 291, "dtype", "%.40s is in foreign byte order", s);
	*padded = 0;
	if (r == 1)
		*out = (DLDataType){ kDLOpaqueHandle, 0, 1 };
	return 0;
}

/* getattr(o, name) as text into buf; 0 if it is a str. */
static int text_attr(ho_PyObject *o, const char *name, char *buf, size_t n)
{
	ho_PyObject *v = ho_py.PyObject_GetAttrString(o, name);
	const char *s = NULL;

	if (v != NULL && HO_TYPE(v) == (ho_PyTypeObject *)ho_py.PyUnicode_Type)
		s = ho_py.PyUnicode_AsUTF8AndSize(v, NULL);
	if (s == NULL)
		ho_py.PyErr_Clear();
	else
		snprintf(buf, n, "%s", s);
	ho_xdecref(v);
	return s != NULL ? 0 : -1;
}

int ho_dtype_from_object(ho_PyObject *o, DLDataType *out, int64_t *itemsize, int *padded)
{
	char buf[80], name[80];
	int r = 1;

	if (HO_TYPE(o) == (ho_PyTypeObject *)ho_py.PyUnicode_Type) {
		const char *s = ho_py.PyUnicode_AsUTF8AndSize(o, NULL);
		if (s == NULL)
			ho_py.PyErr_Clear(); /* surrogates */
		else
			r = from_text(s, out, itemsize, padded);
	} else if (o == ho_py.PyFloat_Type) {
		r = from_text("float64", out, itemsize, padded);
	} else if (o == ho_py.PyLong_Type) {
		r = from_text("int64", out, itemsize, padded);
	} else if (o == ho_py.PyBool_Type) {
		r = from_text("bool", out, itemsize, padded);
	} else if (o == ho_py.PyComplex_Type) {
		r = from_text("complex128", out, itemsize, padded);
	} else if (text_attr(o, "str", buf, sizeof buf) == 0) { /* a NumPy dtype */
		const ho_dtype *row;
		/* ml_dtypes types have a typestr too ("<V2", "<f1"), which says less. */
		if (text_attr(o, "name", name, sizeof name) == 0 && (row = ho_dtype_by_name(name)) != NULL && row->ml)
			r = take_row(row, out, itemsize, padded);
		else
			r = from_text(buf, out, itemsize, padded);
	} else if (text_attr(o, "__name__", buf, sizeof buf) == 0) { /* a scalar class */
		r = from_text(buf, out, itemsize, padded);
	} else { /* torch.float32 and the like */
		ho_PyObject *text = ho_py.PyObject_Str(o);
		const char *s = text != NULL ? ho_py.PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
		if (s == NULL)
			ho_py.PyErr_Clear();
		else if (strrchr(s, '.') != NULL)
			r = from_text(strrchr(s, '.') + 1, out, itemsize, padded);
		ho_xdecref(text);
	}
	return r == 1 ? not_a_dtype(o) : r;
}

/* ---- The small floats --------------------------------------------------- */

enum { IEEE, FN, FNUZ, FINITE, E8M0 };

struct minifloat {
	int ebits, mbits, bias, kind;
};

static struct minifloat parameters(DLDataType d)
{
	switch (d.code) {
	case kDLBfloat:
		return (struct minifloat){ 8, 7, 127, IEEE };
	case kDLFloat8_e3m4:
		return (struct minifloat){ 3, 4, 3, IEEE };
	case kDLFloat8_e4m3:
		return (struct minifloat){ 4, 3, 7, IEEE };
	case kDLFloat8_e4m3b11fnuz:
		return (struct minifloat){ 4, 3, 11, FNUZ };
	case kDLFloat8_e4m3fn:
		return (struct minifloat){ 4, 3, 7, FN };
	case kDLFloat8_e4m3fnuz:
		return (struct minifloat){ 4, 3, 8, FNUZ };
	case kDLFloat8_e5m2:
		return (struct minifloat){ 5, 2, 15, IEEE };
	case kDLFloat8_e5m2fnuz:
		return (struct minifloat){ 5, 2, 16, FNUZ };
	case kDLFloat8_e8m0fnu:
		return (struct minifloat){ 8, 0, 127, E8M0 };
	case kDLFloat6_e2m3fn:
		return (struct minifloat){ 2, 3, 1, FINITE };
	case kDLFloat6_e3m2fn:
		return (struct minifloat){ 3, 2, 3, FINITE };
	case kDLFloat4_e2m1fn:
		return (struct minifloat){ 2, 1, 1, FINITE };
	}
	return (struct minifloat){ 5, 10, 15, IEEE }; /* float16 */
}

double ho_float_decode(uint32_t bits, DLDataType d)
{
	struct minifloat f = parameters(d);

	if (f.kind == E8M0)
		return bits == 0xff ? NAN : ldexp(1, (int)bits - f.bias);
	uint32_t sign = bits >> (f.ebits + f.mbits) & 1;
	uint32_t magnitude = bits & ((1u << (f.ebits + f.mbits)) - 1);
	int e = (int)(magnitude >> f.mbits);
	uint32_t m = magnitude & ((1u << f.mbits) - 1);
	double v;

	if (f.kind == IEEE && e == (1 << f.ebits) - 1)
		v = m != 0 ? NAN : INFINITY;
	else if (f.kind == FN && magnitude == (1u << (f.ebits + f.mbits)) - 1)
		v = NAN;
	else if (f.kind == FNUZ && sign && magnitude == 0)
		return NAN;
	else if (e == 0)
		v = ldexp(m, 1 - f.bias - f.mbits);
	else
		v = ldexp(m + (1u << f.mbits), e - f.bias - f.mbits);
	return sign ? -v : v;
}

uint32_t ho_float_encode(double v, DLDataType d)
{
	struct minifloat f = parameters(d);
	uint32_t top = 1u << (f.ebits + f.mbits); /* the sign bit */
	uint32_t sign = signbit(v) ? top : 0, max, over;
	int e;

	if (f.kind == E8M0) {
		/* Powers of two, nothing else: no sign, no zero. Halfway goes up, and
		 * between the two lowest powers everything does, as in ml_dtypes. */
		if (!(v > 0) || isinf(v))
			return 0xff;
		double m = frexp(v, &e);
		e += f.bias - 1;
		if (e == 0 ? m > 0.5 : m >= 0.75)
			e++;
		return e < 0 ? 0 : e > 254 ? 0xff : (uint32_t)e;
	}
	switch (f.kind) {
	case IEEE:
		over = top - (1u << f.mbits); /* infinity */
		max = over - 1;
		if (isnan(v))
			return sign | over | 1u << (f.mbits - 1);
		break;
	case FN:
		over = top - 1; /* NaN */
		max = over - 1;
		if (isnan(v))
			return sign | over;
		break;
	case FNUZ:
		over = max = top - 1;
		if (isnan(v) || isinf(v))
			return top;
		break;
	default:
		over = max = top - 1; /* saturates */
		if (isnan(v))
			return top;
	}
	if (isinf(v))
		return sign | over;
	if (v == 0)
		return f.kind == FNUZ ? 0 : sign;
	double a = fabs(v);
	frexp(a, &e);
	e--;
	if (e < 1 - f.bias)
		e = 1 - f.bias;
	/* The default rounding mode is to nearest even; scaling is exact. */
	double n = rint(ldexp(a, f.mbits - e));
	double code = n + ((double)(e + f.bias - 1) * (1 << f.mbits));
	if (code > max)
		return f.kind == FNUZ ? top : sign | over;
	uint32_t c = (uint32_t)code;
	return c == 0 && f.kind == FNUZ ? 0 : sign | c;
}

/* ---- Scalars ------------------------------------------------------------ */

static int is_small_float(DLDataType d)
{
	return d.lanes == 1 && (d.code == kDLBfloat || (d.code == kDLFloat && d.bits == 16) ||
	                        (d.code >= kDLFloat8_e3m4 && d.code <= kDLFloat4_e2m1fn));
}

ho_PyObject *ho_scalar_get(const void *p, DLDataType d)
{
	union {
		uint8_t u8;
		uint16_t u16;
		uint32_t u32;
		uint64_t u64;
		float f[2];
		double d[2];
		uint16_t h[2];
	} v = { .u64 = 0 };
	char text[40];

	if (d.lanes != 1 || d.bits == 0 || d.bits > 128)
		goto unsupported;
	memcpy(&v, p, (size_t)ho_dtype_bytes(d));
	if (is_small_float(d))
		return ho_py.PyFloat_FromDouble(
			ho_float_decode(d.bits == 16 ? v.u16 : v.u8 & ((1u << d.bits) - 1), d));
	switch (d.code << 8 | d.bits) {
	case kDLBool << 8 | 8:
		return ho_py.PyBool_FromLong(v.u8 != 0);
	case kDLInt << 8 | 2:
		return ho_py.PyLong_FromLong((int8_t)(v.u8 << 6) >> 6);
	case kDLInt << 8 | 4:
		return ho_py.PyLong_FromLong((int8_t)(v.u8 << 4) >> 4);
	case kDLInt << 8 | 8:
		return ho_py.PyLong_FromLong((int8_t)v.u8);
	case kDLInt << 8 | 16:
		return ho_py.PyLong_FromLong((int16_t)v.u16);
	case kDLInt << 8 | 32:
		return ho_py.PyLong_FromLong((int32_t)v.u32);
	case kDLInt << 8 | 64:
		return ho_py.PyLong_FromLongLong((int64_t)v.u64);
	case kDLUInt << 8 | 2:
		return ho_py.PyLong_FromLong(v.u8 & 3);
	case kDLUInt << 8 | 4:
		return ho_py.PyLong_FromLong(v.u8 & 15);
	case kDLUInt << 8 | 8:
		return ho_py.PyLong_FromLong(v.u8);
	case kDLUInt << 8 | 16:
		return ho_py.PyLong_FromLong(v.u16);
	case kDLUInt << 8 | 32:
		return ho_py.PyLong_FromLongLong(v.u32);
	case kDLUInt << 8 | 64:
		return ho_py.PyLong_FromUnsignedLongLong(v.u64);
	case kDLFloat << 8 | 32:
		return ho_py.PyFloat_FromDouble(v.f[0]);
	case kDLFloat << 8 | 64:
		return ho_py.PyFloat_FromDouble(v.d[0]);
	case kDLComplex << 8 | 32: {
		DLDataType half = { kDLFloat, 16, 1 };
		return ho_py.PyComplex_FromDoubles(ho_float_decode(v.h[0], half), ho_float_decode(v.h[1], half));
	}
	case kDLBcomplex << 8 | 32: {
		DLDataType half = { kDLBfloat, 16, 1 };
		return ho_py.PyComplex_FromDoubles(ho_float_decode(v.h[0], half), ho_float_decode(v.h[1], half));
	}
	case kDLComplex << 8 | 64:
		return ho_py.PyComplex_FromDoubles(v.f[0], v.f[1]);
	case kDLComplex << 8 | 128:
		return ho_py.PyComplex_FromDoubles(v.d[0], v.d[1]);
	}
unsupported:
	ho_py.PyErr_Format(ho_py.PyExc_NotImplementedError, "handoff: elements of type %s have no Python scalar",
	                   ho_dtype_text(d, text));
	return NULL;
}

/* An int of the type's range into *out; OverflowError outside. */
static int take_int(ho_PyObject *value, int is_signed, int bits, uint64_t *out)
{
	ho_PyObject *n = ho_py.PyNumber_Index(value);
	int overflow = 0;

	if (n == NULL)
		return -1;
	if (!is_signed && bits == 64) {
		*out = ho_py.PyLong_AsUnsignedLongLong(n);
		ho_py.Py_DecRef(n);
		return *out == UINT64_MAX && ho_py.PyErr_Occurred() ? -1 : 0;
	}
	int64_t v = ho_py.PyLong_AsLongLongAndOverflow(n, &overflow);
	ho_py.Py_DecRef(n);
	if (v == -1 && ho_py.PyErr_Occurred())
		return -1;
	int64_t low = is_signed ? (bits == 64 ? INT64_MIN : -((int64_t)1 << (bits - 1))) : 0;
	int64_t high = is_signed ? (bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1) : ((int64_t)1 << bits) - 1;
	if (overflow != 0 || v < low || v > high) {
		ho_py.PyErr_Format(ho_py.PyExc_OverflowError, "handoff: the value does not fit in %s%d",
		                   is_signed ? "int" : "uint", bits);
		return -1;
	}
	*out = (uint64_t)v;
	return 0;
}

int ho_scalar_set(void *p, DLDataType d, ho_PyObject *value)
{
	union {
		uint8_t u8;
		uint16_t u16;
		uint64_t u64;
		float f[2];
		double d[2];
		uint16_t h[2];
	} v = { .u64 = 0 };
	char text[40];

	if (d.lanes != 1 || d.bits == 0 || d.bits > 128)
		goto unsupported;
	if (d.code == kDLInt || d.code == kDLUInt) {
		if (d.bits > 64 || (d.bits & (d.bits - 1)) != 0) /* int128, int24: ho_scalar_get has none either */
			goto unsupported;
		if (take_int(value, d.code == kDLInt, d.bits, &v.u64) != 0)
			return -1;
		if (d.bits < 8)
			v.u8 &= (uint8_t)((1u << d.bits) - 1);
	} else if (d.code == kDLBool) {
		int truth = ho_py.PyObject_IsTrue(value);
		if (truth < 0)
			return -1;
		v.u8 = (uint8_t)truth;
	} else if (d.code == kDLComplex || d.code == kDLBcomplex) {
		/* Floats and ints are complex numbers without an imaginary part. */
		ho_PyObject *z = ho_py.PyObject_CallFunctionObjArgs(ho_py.PyComplex_Type, value, NULL);
		if (z == NULL)
			return -1;
		double re = ho_py.PyComplex_RealAsDouble(z), im = ho_py.PyComplex_ImagAsDouble(z);
		ho_py.Py_DecRef(z);
		if (d.bits == 128) {
			v.d[0] = re;
			v.d[1] = im;
		} else if (d.bits == 64) {
			v.f[0] = (float)re;
			v.f[1] = (float)im;
		} else if (d.bits == 32) {
			DLDataType half = { d.code == kDLBcomplex ? kDLBfloat : kDLFloat, 16, 1 };
			v.h[0] = (uint16_t)ho_float_encode(re, half);
			v.h[1] = (uint16_t)ho_float_encode(im, half);
		} else {
			goto unsupported;
		}
	} else if (is_small_float(d) || d.code == kDLFloat) {
		double x = ho_py.PyFloat_AsDouble(value);
		if (x == -1 && ho_py.PyErr_Occurred())
			return -1;
		if (d.code == kDLFloat && d.bits == 64)
			v.d[0] = x;
		else if (d.code == kDLFloat && d.bits == 32)
			v.f[0] = (float)x;
		else if (d.code == kDLFloat && d.bits == 16)
			v.u16 = (uint16_t)ho_float_encode(x, d);
		else if (is_small_float(d))
			v.u16 = (uint16_t)ho_float_encode((float)x, d); /* through float32, as ml_dtypes does */
		else
			goto unsupported;
	} else {
		goto unsupported;
	}
	memcpy(p, &v, (size_t)ho_dtype_bytes(d));
	return 0;
unsupported:
	ho_py.PyErr_Format(ho_py.PyExc_NotImplementedError, "handoff: elements of type %s have no Python scalar",
	                   ho_dtype_text(d, text));
	return -1;
}
