/* Streams: the results of __cuda_stream__, its older forms, raw handles, of any
 * content; and what a stream is used for, on a driver that may refuse. */
#include "python.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	python_start();
	return 0;
}

static ho_PyObject *handle(input *in)
{
	unsigned c = in_byte(in);

	if (c < 64)
		return ho_py.PyLong_FromLong(c % 4);
	if (c < 160)
		return ho_py.PyLong_FromLong(0x20000 + (c - 64));
	return python_any(in, 2);
}

static ho_PyObject *stream_object(input *in)
{
	static const char *const accessors[] = { "cuda_stream", "ptr", "handle", "value", "__cuda_stream__", "_as_parameter_" };
	unsigned c = in_byte(in);
	ho_PyObject *o, *t;

	switch (c % 4) {
	case 0:
		return handle(in);
	case 1:
		o = ho_py.PyObject_CallNoArgs(python_name("OlderStream"));
		for (unsigned n = in_below(in, 3); n > 0; n--)
			python_set(o, accessors[in_below(in, 6)], c & 4 ? python_any(in, 2) : handle(in));
		return o;
	}
	o = ho_py.PyObject_CallNoArgs(python_name("Stream"));
	if (c & 4) {
		python_set(o, "pair", c & 8 ? python_any(in, 3) : python_eval("AttributeError('inside')"));
	} else {
		t = ho_py.PyTuple_Pack(2, HO_NONE, HO_NONE);
		ho_py.PyTuple_SetItem(t, 0, c & 8 && c & 16 ? python_any(in, 1) : ho_py.PyLong_FromLong(0));
		ho_py.PyTuple_SetItem(t, 1, handle(in));
		python_set(o, "pair", t);
	}
	return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const attributes[] = {
		"handle", "is_nonblocking", "priority", "device_id", "context", "is_done", "is_capturing", "is_closed", "exporting_obj",
	};
	static ho_PyObject *cls, *wait, *sync, *from_handle, *close_name, *pair_name;
	input in = { data, size };
	ho_PyObject *o, *other, *s, *r;

	if (cls == NULL) {
		cls = ho_py.PyObject_GetAttrString(
			ho_py.PyDict_GetItemString(ho_py.PyImport_GetModuleDict(), "handoff._core"), "StreamView");
		wait = ho_py.PyUnicode_InternFromString("wait");
		sync = ho_py.PyUnicode_InternFromString("sync");
		from_handle = ho_py.PyUnicode_InternFromString("from_handle");
		close_name = ho_py.PyUnicode_InternFromString("close");
		pair_name = ho_py.PyUnicode_InternFromString("__cuda_stream__");
	}
	o = stream_object(&in);
	REQUIRE(o != NULL);
	if (in_below(&in, 4) == 0)
		s = python_result(ho_py.PyObject_CallMethodObjArgs(cls, from_handle, o, NULL));
	else
		s = python_result(ho_py.PyObject_CallFunctionObjArgs(cls, o, NULL));
	if (s != NULL) {
		r = python_result(ho_py.PyObject_CallMethodObjArgs(s, pair_name, NULL));
		REQUIRE(r != NULL && ho_py.PyTuple_Size(r) == 2);
		ho_py.Py_DecRef(r);
		for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
			ho_xdecref(python_result(ho_py.PyObject_GetAttrString(s, attributes[i])));
		ho_xdecref(python_result(ho_py.PyObject_Repr(s)));
		ho_xdecref(python_result(ho_py.PyObject_CallMethodObjArgs(s, sync, NULL)));
		other = stream_object(&in);
		ho_xdecref(python_result(ho_py.PyObject_CallMethodObjArgs(s, wait, other, NULL)));
		python_status(ho_py.PyObject_RichCompareBool(s, other, 2) < 0 ? -1 : 0);
		ho_py.Py_DecRef(other);
		ho_xdecref(python_result(ho_py.PyObject_CallMethodObjArgs(s, close_name, NULL)));
		ho_xdecref(python_result(ho_py.PyObject_CallMethodObjArgs(s, pair_name, NULL)));
		ho_py.Py_DecRef(s);
	}
	ho_py.Py_DecRef(o);
	python_done();
	return 0;
}
