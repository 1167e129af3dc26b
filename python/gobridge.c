/* Python as the Go code sees it. */
#include "gobridge.h"

#include <stdlib.h>
#include <string.h>

#include "internal.h"

ho_go_functions ho_go;

int ho_go_enter(int *state)
{
	if (ho_py.PyGILState_Ensure == NULL || ho_python_enter() != 0)
		return HO_GO_CLOSED;
	*state = ho_py.PyGILState_Ensure();
	return 0;
}

void ho_go_leave(int state)
{
	ho_py.PyGILState_Release(state);
	ho_python_leave();
}

void ho_go_error_free(ho_go_error *e)
{
	free(e->type);
	free(e->message);
	free(e->rule);
	*e = (ho_go_error){ 0 };
}

static char *text_of(ho_PyObject *str)
{
	const char *s = NULL;

	if (str != NULL && ho_py.PyType_IsSubtype(HO_TYPE(str), (ho_PyTypeObject *)ho_py.PyUnicode_Type))
		s = ho_py.PyUnicode_AsUTF8AndSize(str, NULL);
	if (s == NULL)
		ho_py.PyErr_Clear();
	return s != NULL ? strdup(s) : NULL;
}

/* "builtins" is left out of the name, as Python does. */
static char *type_name(ho_PyTypeObject *type)
{
	ho_PyObject *module = ho_py.PyObject_GetAttrString((ho_PyObject *)type, "__module__");
	ho_PyObject *name = ho_py.PyObject_GetAttrString((ho_PyObject *)type, "__qualname__"), *full = NULL;

	if (module != NULL && name != NULL && ho_py.PyUnicode_CompareWithASCIIString(module, "builtins") != 0)
		full = ho_py.PyUnicode_FromFormat("%S.%S", module, name);
	char *text = text_of(full != NULL ? full : name);
	ho_py.PyErr_Clear();
	ho_xdecref(full);
	ho_xdecref(name);
	ho_xdecref(module);
	return text;
}

/* Takes the pending exception. */
static int take_exception(ho_go_error *e)
{
	ho_PyObject *type, *value, *trace;

	ho_py.PyErr_Fetch(&type, &value, &trace);
	ho_py.PyErr_NormalizeException(&type, &value, &trace);
	*e = (ho_go_error){ 0 };
	if (type != NULL)
		e->type = type_name((ho_PyTypeObject *)type);
	if (value != NULL) {
		ho_PyObject *s = ho_py.PyObject_Str(value), *rule = ho_py.PyObject_GetAttr(value, ho_names.rule);
		e->message = text_of(s);
		e->rule = text_of(rule);
		ho_py.PyErr_Clear();
		ho_xdecref(s);
		ho_xdecref(rule);
	}
	ho_xdecref(type);
	ho_xdecref(value);
	ho_xdecref(trace);
	return HO_GO_EXCEPTION;
}

/* The end of every call: an object, or the exception. */
static int finish(ho_PyObject *object, uintptr_t *result, ho_go_error *e, int state)
{
	int r = HO_GO_OK;

	if (object != NULL)
		*result = (uintptr_t)object;
	else
		r = take_exception(e);
	ho_go_leave(state);
	return r;
}

int ho_go_retain(uintptr_t object)
{
	int state;

	if (ho_go_enter(&state) != 0)
		return HO_GO_CLOSED;
	ho_py.Py_IncRef((ho_PyObject *)object);
	ho_go_leave(state);
	return HO_GO_OK;
}

void ho_go_drop(uintptr_t object)
{
	ho_owner *o;

	if (ho_py.Py_IsInitialized == NULL)
		return;
	o = ho_owner_new(NULL, (void *)object, 0);
	if (o != NULL)
		ho_drop_object(o);
}

int ho_go_consume(uintptr_t object, int writable, uintptr_t *tensor, ho_go_error *e)
{
	ho_arg arg;
	int state, r = HO_GO_OK;

	if (ho_go_enter(&state) != 0)
		return HO_GO_CLOSED;
	if (ho_consume((ho_PyObject *)object, HO_WANT_OWNED | (writable ? HO_WANT_WRITABLE : 0), &arg) != 0) {
		r = take_exception(e);
		ho_go_leave(state);
		return r;
	}
	DLTensor t = { (void *)(uintptr_t)arg.data, arg.device, arg.ndim, arg.dtype, arg.shape, arg.strides, 0 };
	uint64_t flags = (arg.flags & HO_ARG_READONLY ? DLPACK_FLAG_BITMASK_READ_ONLY : 0) |
	                 (arg.flags & HO_ARG_PADDED ? DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED : 0);
	ho_owner *o = ho_arg_retain(&arg);
	DLManagedTensorVersioned *m = o != NULL ? ho_export_versioned(o, &t, flags) : NULL;
	if (m == NULL && o != NULL)
		ho_py.PyErr_NoMemory();
	if (m == NULL)
		r = take_exception(e);
	if (o != NULL)
		ho_owner_unref(o);
	ho_arg_done(&arg);
	*tensor = (uintptr_t)m;
	ho_go_leave(state);
	return r;
}

int ho_go_produce(uintptr_t tensor, int array, uintptr_t *object, ho_go_error *e)
{
	DLManagedTensorVersioned *m = (DLManagedTensorVersioned *)tensor;
	int state;

	if (ho_go_enter(&state) != 0) {
		ho_release_versioned(m);
		return HO_GO_CLOSED;
	}
	ho_PyObject *result = NULL;
	ho_owner *o = ho_owner_from_versioned(m); /* made by Go: needs no GIL to go */
	if (o == NULL) {
		ho_release_versioned(m);
		ho_py.PyErr_NoMemory();
	} else {
		result = array ? ho_array_new(o, &m->dl_tensor, m->flags) : ho_view_new(o, &m->dl_tensor, m->flags);
	}
	return finish(result, object, e, state);
}

int ho_go_import(const char *name, uintptr_t *object, ho_go_error *e)
{
	int state;

	if (ho_go_enter(&state) != 0)
		return HO_GO_CLOSED;
	return finish(ho_py.PyImport_ImportModule(name), object, e, state);
}

int ho_go_attr(uintptr_t object, const char *name, uintptr_t *result, ho_go_error *e)
{
	int state;

	if (ho_go_enter(&state) != 0)
		return HO_GO_CLOSED;
	return finish(ho_py.PyObject_GetAttrString((ho_PyObject *)object, name), result, e, state);
}

int ho_go_call(uintptr_t object, const uintptr_t *args, size_t n, uintptr_t *result, ho_go_error *e)
{
	int state;

	if (ho_go_enter(&state) != 0)
		return HO_GO_CLOSED;
	ho_PyObject *tuple = ho_py.PyTuple_New((ho_ssize)n), *r = NULL;
	for (size_t i = 0; tuple != NULL && i < n; i++)
		ho_py.PyTuple_SetItem(tuple, (ho_ssize)i, ho_newref((ho_PyObject *)args[i]));
	if (tuple != NULL)
		r = ho_py.PyObject_CallObject((ho_PyObject *)object, tuple);
	ho_xdecref(tuple);
	return finish(r, result, e, state);
}

int ho_go_text(uintptr_t object, int repr, char **text, size_t *size, ho_go_error *e)
{
	ho_PyObject *o = (ho_PyObject *)object;
	ho_ssize n = 0;
	int state, r = HO_GO_OK;

	if (ho_go_enter(&state) != 0)
		return HO_GO_CLOSED;
	ho_PyObject *s = repr ? ho_py.PyObject_Repr(o) : ho_py.PyObject_Str(o);
	const char *utf8 = s != NULL ? ho_py.PyUnicode_AsUTF8AndSize(s, &n) : NULL;
	*text = utf8 != NULL ? malloc((size_t)n + 1) : NULL;
	if (*text != NULL)
		memcpy(*text, utf8, (size_t)n + 1);
	else if (utf8 != NULL)
		ho_py.PyErr_NoMemory();
	if (*text == NULL)
		r = take_exception(e);
	*size = (size_t)n;
	ho_xdecref(s);
	ho_go_leave(state);
	return r;
}

int ho_go_type(uintptr_t object, char **text, size_t *size, ho_go_error *e)
{
	int state;

	(void)e;
	if (ho_go_enter(&state) != 0)
		return HO_GO_CLOSED;
	*text = type_name(HO_TYPE((ho_PyObject *)object));
	*size = *text != NULL ? strlen(*text) : 0;
	ho_go_leave(state);
	return HO_GO_OK;
}

int ho_go_string(const char *text, size_t size, uintptr_t *object, ho_go_error *e)
{
	int state;

	if (ho_go_enter(&state) != 0)
		return HO_GO_CLOSED;
	return finish(ho_py.PyUnicode_FromStringAndSize(text, (ho_ssize)size), object, e, state);
}
