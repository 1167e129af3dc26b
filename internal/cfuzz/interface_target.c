/* __array_interface__ and __cuda_array_interface__: dicts of any content, also
 * those that change while they are read. */
#include "python.h"
#include "tensor.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	python_start();
	return 0;
}

static void put(ho_PyObject *dict, const char *key, ho_PyObject *value)
{
	REQUIRE(value != NULL && ho_py.PyDict_SetItemString(dict, key, value) == 0);
	ho_py.Py_DecRef(value);
}

static ho_PyObject *pair(ho_PyObject *a, ho_PyObject *b)
{
	ho_PyObject *t = ho_py.PyTuple_Pack(2, a, b);

	ho_py.Py_DecRef(a);
	ho_py.Py_DecRef(b);
	return t;
}

/* A number whose reading empties the dict. */
static ho_PyObject *clears(ho_PyObject *dict, int64_t n)
{
	ho_PyObject *v = ho_py.PyLong_FromLongLong(n);
	ho_PyObject *o = ho_py.PyObject_CallFunctionObjArgs(python_name("Clears"), dict, v, NULL);

	REQUIRE(o != NULL);
	ho_py.Py_DecRef(v);
	return o;
}

static ho_PyObject *dict_of(input *in)
{
	static const char *const typestrs[] = {
		"<f4", "|u1", "<i8", "<c16", "|b1", "<f2", ">i4", "|V3", "<U4", "|S0", "<M8[s]", "|O8", "<f16", "f4", "<f3", "|V70000",
	};
	static const char *const keys[] = { "shape", "typestr", "data", "version", "strides", "descr", "mask", "stream", "offset" };
	ho_PyObject *d = ho_py.PyDict_New();
	unsigned n = in_below(in, 5), c = in_byte(in);

	put(d, "shape", python_numbers(in, n));
	put(d, "typestr", python_text(in, typestrs, 16));
	put(d, "data",
	    pair(c < 200 ? ho_py.PyLong_FromVoidPtr(tensor_arena + ARENA + c / 4 * 8) : ho_py.PyLong_FromLongLong(in_number(in)),
	         c % 8 == 7 ? clears(d, 1) : ho_py.PyBool_FromLong(c & 1)));
	put(d, "version", ho_py.PyLong_FromLong(c % 32 == 31 ? 2 : 3));
	if (c & 2)
		put(d, "strides", python_numbers(in, c % 64 == 63 ? n + 1 : n));
	if (c & 4)
		put(d, "stream", ho_py.PyLong_FromLong(in_below(in, 2) ? 0x20000 + in_below(in, 64) : in_below(in, 4)));
	for (n = in_below(in, 4); n > 0; n--) {
		const char *key = keys[in_below(in, 9)];
		switch (in_below(in, 6)) {
		case 0:
			if (ho_py.PyDict_DelItemString(d, key) != 0)
				ho_py.PyErr_Clear();
			break;
		case 1: { /* numbers that empty the dict when they are read */
			ho_PyObject *t = ho_py.PyTuple_Pack(2, HO_NONE, HO_NONE);
			ho_py.PyTuple_SetItem(t, 0, clears(d, in_number(in)));
			ho_py.PyTuple_SetItem(t, 1, clears(d, in_number(in)));
			put(d, key, t);
			break;
		}
		case 2: { /* a key of the same hash, whose comparison empties the dict */
			ho_PyObject *text = ho_py.PyUnicode_FromString(key);
			ho_PyObject *eats = ho_py.PyObject_CallFunctionObjArgs(python_name("Eats"), text, NULL);
			ho_PyObject *old = ho_py.PyDict_GetItemString(d, key);
			old = ho_newref(old != NULL ? old : HO_NONE);
			/* Before the real one, so that a look-up meets it. */
			if (ho_py.PyDict_DelItemString(d, key) != 0)
				ho_py.PyErr_Clear();
			REQUIRE(ho_py.PyDict_SetItem(d, eats, HO_NONE) == 0);
			put(d, key, old);
			ho_py.Py_DecRef(eats);
			ho_py.Py_DecRef(text);
			break;
		}
		default:
			put(d, key, python_any(in, 2));
		}
	}
	return d;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	input in = { data, size };
	unsigned c = in_byte(&in);
	ho_PyObject *d = c % 16 == 15 ? python_any(&in, 2) : dict_of(&in);
	/* A class of its own each time it matters: what a type has is remembered. */
	ho_PyObject *cls = python_name(c & 1 ? "Interface" : "Both");
	ho_PyObject *o = ho_py.PyObject_CallNoArgs(cls);

	REQUIRE(o != NULL);
	if (c & 2)
		python_set(o, "__cuda_array_interface__", ho_newref(d));
	if (c & 4 || !(c & 2))
		python_set(o, "__array_interface__", ho_newref(d));
	if (c % 16 != 15 && c & 8)
		python_set(python_name("Eats"), "target", ho_newref(d));
	ho_ssize refs = o->ob_refcnt;
	python_consume(&in, o);
	python_set(python_name("Eats"), "target", ho_newref(HO_NONE));
	ho_PyObject *on = ho_py.PyLong_FromLong(-1);
	static const char *const ways[] = { "from_cuda_array_interface", "from_array_interface" };
	for (int i = 0; i < 2; i++) {
		ho_PyObject *f = ho_py.PyObject_GetAttrString((ho_PyObject *)ho_view_type, ways[i]);
		if (c & 8 && c % 16 != 15)
			python_set(python_name("Eats"), "target", ho_newref(d));
		ho_xdecref(python_result(ho_py.PyObject_CallFunctionObjArgs(f, o, i == 0 ? on : NULL, NULL)));
		ho_py.Py_DecRef(f);
	}
	ho_py.Py_DecRef(on);
	python_set(python_name("Eats"), "target", ho_newref(HO_NONE));
	python_settle();
	REQUIRE(o->ob_refcnt == refs);
	if (HO_TYPE(d) == (ho_PyTypeObject *)ho_py.PyDict_Type)
		ho_xdecref(ho_py.PyObject_CallMethodObjArgs(d, ho_py.PyUnicode_InternFromString("clear"), NULL));
	ho_py.PyErr_Clear();
	ho_py.Py_DecRef(o);
	ho_py.Py_DecRef(d);
	python_done();
	return 0;
}
