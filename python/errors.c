/* The exception classes of handoff, and raising them with a rule number. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

/* One class: several built-in bases let callers catch what they are used to
 * (protocols disagree with themselves on R076 and R161). */
struct class_row {
	const char *name;
	const char *base;    /* another row of this table, or NULL: the root Error */
	const char *builtin; /* comma-separated built-in bases */
	const char *doc;
};

enum {
	C_ERROR,
	C_EXCHANGE,
	C_VERSION,
	C_DTYPE,
	C_DEVICE,
	C_LAYOUT,
	C_READONLY,
	C_COPY,
	C_CAPSULE,
	C_PROTOCOL,
	C_TYPE,
	C_VALUE,
	C_FORK,
	C_GO,
	C_PANIC,
	C_MASK,
	C_STREAM,
	C_RANGE,
	C_CLOSED,
	C_DRIVER,
	C_NODRIVER,
	C_COUNT,
};

static const struct class_row rows[C_COUNT] = {
	[C_ERROR] = { "Error", NULL, "Exception",
	              "Root of handoff's exceptions.\n\nThe attribute rule is the number of the protocol rule "
	              "that was broken (\"R047\"), or None." },
	[C_EXCHANGE] = { "ExchangeError", "Error", "BufferError", "The data cannot be exchanged this way." },
	[C_VERSION] = { "VersionError", "ExchangeError", NULL, "A DLPack version or flag that is not understood." },
	[C_DTYPE] = { "DTypeError", "ExchangeError", NULL, "The element type has no counterpart in the protocol." },
	[C_DEVICE] = { "DeviceError", "ExchangeError", NULL, "The memory is on a device that cannot be served." },
	[C_LAYOUT] = { "LayoutError", "ExchangeError", "ValueError",
	               "Shape, strides or address are malformed, too large, or not expressible." },
	[C_READONLY] = { "ReadOnlyError", "ExchangeError", "ValueError", "Writable memory was needed." },
	[C_COPY] = { "CopyError", "ExchangeError", "ValueError", "A copy was needed and not allowed (R151, R161)." },
	[C_CAPSULE] = { "CapsuleError", "ExchangeError", "ValueError",
	                "A capsule that was consumed before, or is no DLPack capsule (R076)." },
	[C_PROTOCOL] = { "ProtocolError", "ExchangeError", "AttributeError,TypeError",
	                 "The object speaks no exchange protocol (R158)." },
	[C_TYPE] = { "InvalidTypeError", "Error", "TypeError", "An argument, a key or an entry of the wrong type." },
	[C_VALUE] = { "InvalidValueError", "Error", "ValueError", "An argument, a key or an entry of a wrong value." },
	[C_FORK] = { "ForkError", "Error", "RuntimeError", "Go was needed in the child of a fork()." },
	[C_GO] = { "GoError", "Error", "RuntimeError", "A Go function returned an error." },
	[C_MASK] = { "MaskError", "ExchangeError", "ValueError", "Masked arrays are not supported (R181, R217)." },
	[C_PANIC] = { "GoPanic", "GoError", NULL, "A Go function panicked; the message has the Go stack." },
	[C_STREAM] = { "StreamError", "Error", "RuntimeError",
	               "An object does not keep to the stream protocol, or a stream is used where it cannot be." },
	[C_RANGE] = { "RangeError", "InvalidValueError", "OverflowError", "A number does not fit (R268)." },
	[C_CLOSED] = { "ClosedError", "Error", "ValueError,RuntimeError", "Used after it was closed or released." },
	[C_DRIVER] = { "DriverError", "DeviceError", "RuntimeError",
	               "A call of the GPU's driver failed.\n\nThe attribute code is the driver's number, name its "
	               "name (\"CUDA_ERROR_OUT_OF_MEMORY\")." },
	[C_NODRIVER] = { "NoDriverError", "DriverError", NULL,
	                 "There is no GPU driver in this process, or it found no device." },
};

static ho_PyObject *classes[C_COUNT];

static ho_PyObject *builtin_class(const char *name, size_t n)
{
#define HO_X(exc) \
	if (strlen(#exc) == n + 6 && memcmp(&(#exc)[6], name, n) == 0) \
		return ho_py.exc;
	HO_PY_EXCEPTIONS(HO_X)
#undef HO_X
	return NULL;
}

static int index_of(const char *name)
{
	for (int i = 0; i < C_COUNT; i++)
		if (strcmp(rows[i].name, name) == 0)
			return i;
	return -1;
}

int ho_errors_init(ho_PyObject *module)
{
	char full[64];

	for (int i = 0; i < C_COUNT; i++) {
		const struct class_row *row = &rows[i];
		ho_PyObject *bases = ho_py.PyList_New(0);
		if (bases == NULL)
			return -1;
		int failed = row->base != NULL && ho_py.PyList_Append(bases, classes[index_of(row->base)]) != 0;
		for (const char *p = row->builtin; p != NULL && !failed;) {
			size_t n = strcspn(p, ",");
			failed = ho_py.PyList_Append(bases, builtin_class(p, n)) != 0;
			p = p[n] == ',' ? p + n + 1 : NULL;
		}
		ho_PyObject *tuple = failed ? NULL
		                            : ho_py.PyObject_CallFunctionObjArgs(ho_py.PyTuple_Type, bases, NULL);
		ho_py.Py_DecRef(bases);
		if (tuple == NULL)
			return -1;
		/* The public home of the classes is the package. */
		snprintf(full, sizeof full, "handoff.%s", row->name);
		classes[i] = ho_py.PyErr_NewExceptionWithDoc(full, row->doc, tuple, NULL);
		ho_py.Py_DecRef(tuple);
		if (classes[i] == NULL || ho_py.PyModule_AddObjectRef(module, row->name, classes[i]) != 0)
			return -1;
	}
	/* Errors that carry no rule answer None. */
	if (ho_py.PyObject_SetAttrString(classes[C_DRIVER], "code", HO_NONE) != 0 ||
	    ho_py.PyObject_SetAttrString(classes[C_DRIVER], "name", HO_NONE) != 0)
		return -1;
	return ho_py.PyObject_SetAttrString(classes[C_ERROR], "rule", HO_NONE);
}

ho_PyObject *ho_error_class(int code)
{
	static const unsigned char of_code[] = {
		[HO_E_OK] = C_EXCHANGE,      [HO_E_VERSION] = C_VERSION,  [HO_E_FLAGS] = C_VERSION,
		[HO_E_DTYPE] = C_DTYPE,      [HO_E_DEVICE] = C_DEVICE,    [HO_E_LAYOUT] = C_LAYOUT,
		[HO_E_OVERFLOW] = C_LAYOUT,  [HO_E_NULL] = C_LAYOUT,      [HO_E_ALIGN] = C_LAYOUT,
		[HO_X_READONLY] = C_READONLY, [HO_X_COPY] = C_COPY,       [HO_X_CAPSULE] = C_CAPSULE,
		[HO_X_PROTOCOL] = C_PROTOCOL, [HO_X_BUFFER] = C_EXCHANGE, [HO_X_TYPE] = C_TYPE,
		[HO_X_VALUE] = C_VALUE,      [HO_X_FORK] = C_FORK,        [HO_X_GO] = C_GO,
		[HO_X_PANIC] = C_PANIC,       [HO_X_MASK] = C_MASK,
		[HO_X_STREAM] = C_STREAM,    [HO_X_RANGE] = C_RANGE,      [HO_X_CLOSED] = C_CLOSED,
		[HO_X_DRIVER] = C_DRIVER,    [HO_X_NODRIVER] = C_NODRIVER,
	};
	int c = code >= 0 && code < (int)sizeof of_code ? of_code[code] : C_EXCHANGE;
	/* Before the module exists only built-in classes do. */
	return classes[c] != NULL ? classes[c] : ho_py.PyExc_BufferError;
}

static void set_rule(ho_PyObject *e, const char *number)
{
	ho_PyObject *value = ho_py.PyUnicode_FromStringAndSize(number, 4);
	if (value == NULL || ho_py.PyObject_SetAttrString(e, "rule", value) != 0)
		ho_py.PyErr_Clear();
	ho_xdecref(value);
}

/* The rule in a message of the Go code, "... (R047): invalid layout", or NULL. */
static const char *find_rule(const char *message)
{
	for (const char *p = message; (p = strstr(p, "(R")) != NULL; p++)
		if (strspn(p + 2, "0123456789") == 3 && p[5] == ')')
			return p + 1;
	return NULL;
}

int ho_raise(int code, int rule, const char *op, const char *format, ...)
{
	char detail[512], text[640], number[16];
	va_list args;

	va_start(args, format);
	vsnprintf(detail, sizeof detail, format, args);
	va_end(args);
	snprintf(number, sizeof number, "R%03d", rule);
	int n = snprintf(text, sizeof text, "handoff: %s: %s", op, detail);
	if (rule != 0 && n > 0 && n < (int)sizeof text)
		snprintf(text + n, sizeof text - (size_t)n, " (%s)", number);

	ho_PyObject *class = ho_error_class(code);
	/* Foreign names are not always UTF-8, and may be cut within a character. */
	ho_PyObject *message = ho_py.PyUnicode_DecodeUTF8(text, (ho_ssize)strlen(text), "replace");
	if (message == NULL)
		return -1;
	ho_PyObject *e = ho_py.PyObject_CallFunctionObjArgs(class, message, NULL);
	ho_py.Py_DecRef(message);
	if (e == NULL)
		return -1;
	if (rule != 0)
		set_rule(e, number);
	ho_py.PyErr_SetObject((ho_PyObject *)HO_TYPE(e), e);
	ho_py.Py_DecRef(e);
	return -1;
}

int ho_other_than(ho_PyObject *class)
{
	if (!ho_py.PyErr_ExceptionMatches(class))
		return 1;
	ho_py.PyErr_Clear();
	return 0;
}

int ho_probe(ho_PyObject *obj, ho_PyObject *name, ho_failed *f)
{
	ho_PyObject *v = f->stop ? NULL : ho_py.PyObject_GetAttr(obj, name);

	if (v != NULL) {
		ho_py.Py_DecRef(v);
		return 1;
	}
	if (f->stop || !ho_other_than(ho_py.PyExc_AttributeError))
		return 0;
	f->stop = !ho_py.PyErr_ExceptionMatches(ho_py.PyExc_Exception) || ho_py.PyErr_ExceptionMatches(ho_py.PyExc_MemoryError);
	if (f->type != NULL && !f->stop) {
		ho_py.PyErr_Clear(); /* the first is told */
		return 0;
	}
	ho_failed_drop(f);
	ho_py.PyErr_Fetch(&f->type, &f->value, &f->trace);
	return 0;
}

void ho_failed_drop(ho_failed *f)
{
	ho_xdecref(f->type);
	ho_xdecref(f->value);
	ho_xdecref(f->trace);
	f->type = f->value = f->trace = NULL;
}

int ho_failed_raise(ho_failed *f)
{
	if (f->type == NULL)
		return 0;
	ho_py.PyErr_Restore(f->type, f->value, f->trace);
	f->type = f->value = f->trace = NULL;
	return 1;
}

int ho_raise_named(const char *class_name, const char *message)
{
	const char *rule = NULL;
	ho_PyObject *class = builtin_class(class_name, strlen(class_name));
	if (class == NULL) {
		int i = index_of(class_name);
		class = classes[i >= 0 ? i : C_GO];
		rule = find_rule(message);
	}
	if (class == NULL)
		class = ho_py.PyExc_RuntimeError;
	ho_PyObject *text = ho_py.PyUnicode_FromString(message);
	if (text == NULL)
		return -1;
	ho_PyObject *e = rule != NULL ? ho_py.PyObject_CallFunctionObjArgs(class, text, NULL) : NULL;
	if (e != NULL)
		set_rule(e, rule);
	if (rule == NULL || e != NULL)
		ho_py.PyErr_SetObject(class, e != NULL ? e : text);
	ho_xdecref(e);
	ho_py.Py_DecRef(text);
	return -1;
}

int ho_go_ok(void)
{
	if (HO_LIKELY(!atomic_load_explicit(&ho_forked, memory_order_relaxed)))
		return 0;
	return ho_raise(HO_X_FORK, 0, "call",
	                "Go does not run in the child of a fork(); use the \"spawn\" start method, or import the "
	                "module in the child (B315)");
}
