/* The buffer protocol (PEP 3118): an exporter that fills in a Py_buffer as it
 * likes. Every buffer that was got is released once. */
#include <string.h>

#include "python.h"
#include "tensor.h"

static ho_PyTypeObject *exporter;
static input *script;
static long got, released;

/* What one request gives; freed with the buffer. */
struct parts {
	ho_ssize shape[80], strides[80], suboffsets[80];
	char format[64];
};

static ho_ssize *numbers(input *in, ho_ssize *to, int n)
{
	if (in_below(in, 8) == 0)
		return NULL;
	for (int i = 0; i < n && i < 80; i++)
		to[i] = (ho_ssize)in_number(in);
	return to;
}

static int get(ho_PyObject *self, ho_Py_buffer *b, int flags)
{
	static const char *const formats[] = {
		"B", "b", "?", "c", "h", "<i", "=l", "@q", "d", "f", "e", "Zf", "Zd", ">i", "!d", "n", "@N", "=n", "2i", "1d",
		"T{i:a:d:b:}", "(2,3)f", "", " d ", "<", "P", "x", "F", "D", "Ze", "\xff", "@@d", "dd", "g",
	};
	input *in = script;
	struct parts *p = calloc(1, sizeof *p);
	unsigned c = in_byte(in);

	(void)flags;
	REQUIRE(p != NULL);
	if (c % 16 == 15) {
		free(p);
		b->obj = NULL;
		if (c % 32 == 15)
			ho_py.PyErr_SetString(ho_py.PyExc_BufferError, "no");
		else
			ho_py.PyErr_SetString(ho_py.PyExc_ValueError, "no");
		return -1;
	}
	b->buf = c < 200 ? tensor_arena + ARENA + c % 32 * 8 : (void *)(uintptr_t)in_number(in);
	b->itemsize = (ho_ssize)(c % 8 == 7 ? in_number(in) : 1 << c % 4);
	b->readonly = (int)in_below(in, 2);
	c = in_byte(in);
	b->ndim = c < 200 ? (int)(c % 4) : c < 250 ? (int)(c - 190) : (int)in_number(in);
	b->shape = numbers(in, p->shape, b->ndim);
	b->strides = numbers(in, p->strides, b->ndim);
	b->suboffsets = in_below(in, 8) == 0 ? numbers(in, p->suboffsets, b->ndim) : NULL;
	c = in_byte(in);
	if (c < 200)
		strcpy(p->format, formats[c % (sizeof formats / sizeof *formats)]);
	else
		in_text(in, p->format, sizeof p->format);
	b->format = c % 16 == 15 ? NULL : p->format;
	/* The length that is right, mostly. */
	uint64_t len = (uint64_t)b->itemsize;
	for (int i = 0; i < b->ndim && i < 80 && b->shape != NULL; i++)
		len *= (uint64_t)b->shape[i];
	b->len = in_below(in, 4) == 0 ? (ho_ssize)in_number(in) : (ho_ssize)len;
	b->internal = p;
	b->obj = ho_newref(self);
	got++;
	return 0;
}

static void give_back(ho_PyObject *self, ho_Py_buffer *b)
{
	(void)self;
	free(b->internal);
	released++;
}

static ho_PyObject *dlpack(ho_PyObject *self, void *unused)
{
	(void)self;
	(void)unused;
	ho_py.PyErr_SetString(ho_py.PyExc_AttributeError, "none");
	return NULL;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static ho_PyGetSetDef getset[] = { { "nothing", dlpack, NULL, NULL, NULL }, { NULL, NULL, NULL, NULL, NULL } };
	static ho_PyType_Slot slots[] = {
		{ HO_bf_getbuffer, (void *)get }, { HO_bf_releasebuffer, (void *)give_back }, { HO_tp_getset, getset }, { 0, NULL }
	};
	static ho_PyType_Spec spec = { "fuzz.Exporter", (int)sizeof(ho_PyObject), 0, HO_TPFLAGS_DEFAULT, slots };

	(void)argc;
	(void)argv;
	python_start();
	exporter = (ho_PyTypeObject *)ho_py.PyType_FromSpec(&spec);
	REQUIRE(exporter != NULL);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	input in = { data, size };
	ho_PyObject *o = ho_py.PyType_GenericAlloc(exporter, 0);

	REQUIRE(o != NULL);
	script = &in;
	for (unsigned n = 1 + in_below(&in, 2); n > 0; n--) {
		if (in_below(&in, 3) == 0) { /* as memory for another layout */
			ho_PyObject *f = ho_py.PyObject_GetAttrString((ho_PyObject *)ho_view_type, "from_buffer");
			ho_PyObject *shape = python_numbers(&in, in_below(&in, 3));
			ho_PyObject *strides = ho_newref(HO_NONE), *item = ho_py.PyLong_FromLongLong(in_number(&in));
			ho_PyObject *r = python_result(ho_py.PyObject_CallFunctionObjArgs(f, o, shape, strides, NULL));
			REQUIRE(r == NULL); /* neither itemsize nor dtype */
			ho_PyObject *kwargs = ho_py.PyDict_New(), *args = ho_py.PyTuple_Pack(2, o, shape);
			ho_py.PyDict_SetItemString(kwargs, "itemsize", item);
			ho_xdecref(python_result(ho_py.PyObject_Call(f, args, kwargs)));
			ho_py.Py_DecRef(args);
			ho_py.Py_DecRef(kwargs);
			ho_py.Py_DecRef(item);
			ho_py.Py_DecRef(strides);
			ho_py.Py_DecRef(shape);
			ho_py.Py_DecRef(f);
			continue;
		}
		python_consume(&in, o);
	}
	python_settle();
	REQUIRE(o->ob_refcnt == 1);
	ho_py.Py_DecRef(o);
	python_done();
	REQUIRE(got == released);
	return 0;
}
