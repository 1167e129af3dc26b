/* Element types as text and as objects: typestr, PEP 3118 formats, names, and
 * the scalars of each type. */
#include <string.h>

#include "python.h"
#include "tensor.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	python_start();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	input in = { data, size };
	char text[200], name[40];
	DLDataType d = { 0, 0, 0 };
	int64_t itemsize = 0;
	int padded = 0, r;

	switch (in_below(&in, 5)) {
	case 0:
		in_text(&in, text, sizeof text);
		r = ho_parse_typestr(text, &d, &itemsize);
		python_status(r < 0 ? -1 : 0);
		if (r == 0)
			REQUIRE(ho_dtype_bytes(d) == itemsize && ho_check_dtype(d, NULL) == 0);
		if (r >= 0)
			REQUIRE(itemsize >= 0);
		break;
	case 1:
		itemsize = in_number(&in);
		in_text(&in, text, sizeof text);
		if (python_status(ho_parse_format(text, itemsize, &d)) == 0)
			REQUIRE(ho_dtype_bytes(d) == itemsize && ho_check_dtype(d, NULL) == 0);
		break;
	case 2: {
		ho_PyObject *o = in_below(&in, 2) ? python_text(&in, NULL, 0) : python_any(&in, 2);
		if (python_status(ho_dtype_from_object(o, &d, &itemsize, &padded)) == 0 && d.bits != 0)
			REQUIRE(ho_check_dtype(d, NULL) == 0);
		ho_py.Py_DecRef(o);
		break;
	}
	default: { /* any type: its text, its alignment, its scalars */
		uint8_t raw[64 + 16];
		d = (DLDataType){ (uint8_t)in_below(&in, 24), in_byte(&in), (uint16_t)(in_below(&in, 4) ? 1 : in_number(&in)) };
		REQUIRE(strlen(ho_dtype_text(d, name)) < 40);
		if (ho_check_dtype(d, NULL) != 0)
			break; /* only types that passed are asked about */
		int align = ho_dtype_align(d);
		REQUIRE(align >= 1 && (align & (align - 1)) == 0);
		const ho_dtype *row = ho_dtype_find(d);
		if (row == NULL || d.lanes != 1)
			break;
		for (size_t i = 0; i < sizeof raw; i++)
			raw[i] = in_byte(&in);
		uint8_t *at = raw + in_below(&in, 16); /* no alignment is promised */
		ho_PyObject *v = python_result(ho_scalar_get(at, d));
		if (v != NULL) {
			REQUIRE(python_status(ho_scalar_set(at, d, v)) == 0);
			ho_PyObject *again = python_result(ho_scalar_get(at, d));
			REQUIRE(again != NULL);
			/* What is read is what was written; a NaN equals nothing, itself included. */
			ho_PyObject *self = ho_py.PyObject_RichCompare(v, v, 2), *same = ho_py.PyObject_RichCompare(v, again, 2);
			REQUIRE(self == same && same != NULL);
			ho_py.Py_DecRef(self);
			ho_py.Py_DecRef(same);
			ho_py.Py_DecRef(again);
			ho_py.Py_DecRef(v);
		}
		ho_PyObject *o = python_any(&in, 1);
		python_status(ho_scalar_set(at, d, o));
		ho_py.Py_DecRef(o);
	}
	}
	python_done();
	return 0;
}
