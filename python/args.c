/* Arguments of the functions and methods that take keywords. */
#include "internal.h"

int ho_parse(const char *fn, ho_PyObject *const *args, ho_ssize nargs, ho_PyObject *kwnames, const ho_param *params,
             int n, int max_pos, int required, ho_PyObject **out)
{
	if (nargs > max_pos) {
		ho_py.PyErr_Format(ho_py.PyExc_TypeError, "%s() takes at most %d positional arguments (%zd given)", fn,
		                   max_pos, nargs);
		return -1;
	}
	for (int i = 0; i < n; i++)
		out[i] = i < nargs ? args[i] : NULL;
	ho_ssize count = kwnames != NULL ? ho_py.PyTuple_Size(kwnames) : 0;
	for (ho_ssize k = 0; k < count; k++) {
		ho_PyObject *name = ho_py.PyTuple_GetItem(kwnames, k);
		int i = 0;
		/* Names in calls are interned nearly always. */
		while (i < n && (params[i].name == NULL || *params[i].name != name))
			i++;
		for (int j = 0; i == n && j < n; j++)
			if (params[j].name != NULL && ho_py.PyObject_RichCompareBool(*params[j].name, name, 2) == 1)
				i = j;
		if (i == n) {
			ho_py.PyErr_Format(ho_py.PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", fn, name);
			return -1;
		}
		if (out[i] != NULL) {
			ho_py.PyErr_Format(ho_py.PyExc_TypeError, "%s() got multiple values for argument '%U'", fn, name);
			return -1;
		}
		out[i] = args[nargs + k];
	}
	for (int i = 0; i < required; i++)
		if (out[i] == NULL) {
			if (params[i].name != NULL)
				ho_py.PyErr_Format(ho_py.PyExc_TypeError, "%s() missing required argument '%U'", fn,
				                   *params[i].name);
			else
				ho_py.PyErr_Format(ho_py.PyExc_TypeError, "%s() missing required argument %d", fn, i + 1);
			return -1;
		}
	return 0;
}

static int take_dim(ho_PyObject *o, const char *what, int64_t *out)
{
	ho_PyObject *v = ho_py.PyNumber_Index(o);
	if (v == NULL)
		return -1;
	*out = ho_py.PyLong_AsLongLong(v);
	ho_py.Py_DecRef(v);
	if (*out == -1 && ho_py.PyErr_Occurred()) {
		ho_py.PyErr_Clear();
		return ho_raise(HO_X_VALUE, 0, what, "an entry does not fit in 64 bits");
	}
	return 0;
}

int ho_parse_dims(ho_PyObject *o, const char *what, int64_t *out, int32_t *n)
{
	if (ho_py.PyIndex_Check(o)) {
		*n = 1;
		return take_dim(o, what, out);
	}
	ho_PyObject *tuple = ho_py.PyObject_CallFunctionObjArgs(ho_py.PyTuple_Type, o, NULL);
	if (tuple == NULL)
		return -1;
	ho_ssize count = ho_py.PyTuple_Size(tuple);
	int r = 0;
	if (count > HO_MAX_DIMS)
		r = ho_raise(HO_X_VALUE, 0, what, "%lld dimensions, at most %d", (long long)count, HO_MAX_DIMS);
	for (ho_ssize i = 0; i < count && r == 0; i++)
		r = take_dim(ho_py.PyTuple_GetItem(tuple, i), what, &out[i]);
	ho_py.Py_DecRef(tuple);
	*n = (int32_t)count;
	return r;
}

int ho_parse_copy(ho_PyObject *o, int *copy)
{
	if (o == NULL || o == HO_NONE)
		*copy = -1;
	else if (o == HO_TRUE || o == HO_FALSE)
		*copy = o == HO_TRUE;
	else
		return ho_raise(HO_X_VALUE, 0, "copy", "copy is True, False or None");
	return 0;
}
