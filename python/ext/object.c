/* What Go asks of Python in the middle of a call. Each function takes the GIL
 * and gives it back on the same thread, so that a goroutine may move between
 * calls (B165). */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "function.h"

/* 0 when Python can be entered from this thread. After fork and finalization
 * a request for the GIL would never come back. */
static const char *unusable(void)
{
	if (atomic_load(&ho_forked))
		return "the process has forked";
	if (!ho_py.Py_IsInitialized())
		return "Python has been shut down";
	int (*finalizing)(void) = ho_py.Py_IsFinalizing ? ho_py.Py_IsFinalizing : ho_py._Py_IsFinalizing;
	if (finalizing && finalizing())
		return "Python is shutting down";
	return NULL;
}

/* A quick function keeps the GIL: another thread that waited for it while the
 * function waits for that thread would stop both for ever. */
static const char *foreign(const ho_ext_frame *f)
{
	if (!f->tstate && f->thread != (uint64_t)pthread_self())
		return "a quick function may use Python from its own goroutine only";
	return unusable();
}

static const char *spill_text(ho_ext_frame *f, const char *s, size_t n)
{
	char *c = ho_ext_spill(f, n + 1);
	if (!c)
		return "out of memory";
	memcpy(c, s, n);
	return c;
}

/* Moves the pending exception into a new reference, and tells its name and text. */
static ho_PyObject *catch_error(ho_ext_frame *f, const char **type_name, const char **text)
{
	ho_PyObject *type, *value, *trace;
	ho_py.PyErr_Fetch(&type, &value, &trace);
	ho_py.PyErr_NormalizeException(&type, &value, &trace);
	if (trace)
		ho_py.PyException_SetTraceback(value, trace);
	ho_ssize n = 0;
	const char *s;
	if (type_name) {
		ho_PyObject *name = type ? ho_py.PyType_GetName((ho_PyTypeObject *)type) : NULL;
		s = name ? ho_py.PyUnicode_AsUTF8AndSize(name, &n) : NULL;
		*type_name = s ? spill_text(f, s, (size_t)n) : "Exception";
		if (name)
			ho_py.Py_DecRef(name);
	}
	ho_PyObject *str = value ? ho_py.PyObject_Str(value) : NULL;
	s = str ? ho_py.PyUnicode_AsUTF8AndSize(str, &n) : NULL;
	*text = s ? spill_text(f, s, (size_t)n) : "";
	if (str)
		ho_py.Py_DecRef(str);
	ho_py.PyErr_Clear();
	if (type)
		ho_py.Py_DecRef(type);
	if (trace)
		ho_py.Py_DecRef(trace);
	return value;
}

ho_owner *ho_ext_retain(ho_ext_frame *f, uint32_t slot, const char **text)
{
	if ((*text = foreign(f)))
		return NULL;
	int state = ho_py.PyGILState_Ensure();
	ho_owner *o = ho_arg_retain(&f->arrays[slot]);
	if (!o) {
		ho_PyObject *exc = catch_error(f, NULL, text);
		if (exc)
			ho_py.Py_DecRef(exc);
	}
	ho_py.PyGILState_Release(state);
	return o;
}

int ho_ext_signals(ho_ext_frame *f)
{
	if (f->interrupt)
		return 1;
	if (unusable()) /* a daemon thread at the end of the process */
		return 0;
	ho_py.PyEval_RestoreThread(f->tstate);
	if (ho_py.PyErr_CheckSignals() < 0) {
		const char *text;
		f->interrupt = catch_error(f, NULL, &text);
	}
	f->tstate = ho_py.PyEval_SaveThread();
	return f->interrupt != NULL;
}

ho_owner *ho_ext_own(ho_ext_frame *f, ho_PyObject *o, const char **text)
{
	if ((*text = foreign(f)))
		return NULL;
	int state = ho_py.PyGILState_Ensure();
	ho_owner *owner = ho_owner_from_object(o);
	if (!owner) {
		*text = "out of memory";
		ho_py.PyErr_Clear();
	}
	ho_py.PyGILState_Release(state);
	return owner;
}

/* ---- Operations on objects ---------------------------------------------- */

static ho_PyObject *call_object(ho_ext_op *op)
{
	const ho_ext_value *at = op->in, *end = op->in + op->nin;
	ho_PyObject *args = ho_ext_build(&at, end); /* one tuple */
	if (!args) {
		ho_ext_drop(at, end);
		return NULL;
	}
	ho_PyObject *r = ho_py.PyObject_CallObject(op->self, args);
	ho_py.Py_DecRef(args);
	return r;
}

static ho_PyObject *operate(ho_ext_op *op)
{
	switch (op->kind) {
	case HO_EXT_OP_CALL: return call_object(op);
	case HO_EXT_OP_ATTR: return ho_py.PyObject_GetAttrString(op->self, op->name);
	case HO_EXT_OP_STR: return ho_py.PyObject_Str(op->self);
	case HO_EXT_OP_TYPE: return ho_py.PyType_GetName(HO_TYPE(op->self));
	default: return ho_newref(op->self);
	}
}

/* A scalar becomes a value; anything else stays an object that lives until
 * the call ends. Steals o. */
static int answer(ho_ext_op *op, ho_PyObject *o)
{
	ho_ext_value *v = &op->out;
	ho_PyObject *type = (ho_PyObject *)HO_TYPE(o);
	int over = 0;
	ho_ssize n = 0;
	memset(v, 0, sizeof *v);
	if (o == HO_NONE) {
		v->tag = HO_EXT_NONE;
	} else if (o == HO_TRUE || o == HO_FALSE) {
		v->tag = HO_EXT_BOOL;
		v->a = o == HO_TRUE;
	} else if (type == ho_py.PyLong_Type) {
		v->tag = HO_EXT_INT;
		v->a = (uint64_t)ho_py.PyLong_AsLongLongAndOverflow(o, &over);
	} else if (type == ho_py.PyFloat_Type) {
		double d = ho_py.PyFloat_AsDouble(o);
		v->tag = HO_EXT_FLOAT;
		memcpy(&v->a, &d, 8);
	} else if (type == ho_py.PyComplex_Type) {
		double re = ho_py.PyComplex_RealAsDouble(o), im = ho_py.PyComplex_ImagAsDouble(o);
		v->tag = HO_EXT_COMPLEX;
		memcpy(&v->a, &re, 8);
		memcpy(&v->b, &im, 8);
	} else if (type == ho_py.PyUnicode_Type || type == ho_py.PyBytes_Type) {
		const char *s = NULL;
		if (type == ho_py.PyUnicode_Type)
			s = ho_py.PyUnicode_AsUTF8AndSize(o, &n);
		else
			ho_py.PyBytes_AsStringAndSize(o, (char **)&s, &n);
		if (!s) {
			ho_py.Py_DecRef(o);
			return -1;
		}
		v->tag = type == ho_py.PyUnicode_Type ? HO_EXT_STR : HO_EXT_BYTES;
		v->a = (uint64_t)(uintptr_t)spill_text(op->frame, s, (size_t)n);
		v->b = (uint64_t)n;
	} else {
		over = 1;
	}
	if (!over) {
		ho_py.Py_DecRef(o);
		return 0;
	}
	v->tag = HO_EXT_OBJECT;
	v->a = (uint64_t)(uintptr_t)o;
	if (!op->frame->kept)
		op->frame->kept = ho_py.PyList_New(0);
	int bad = !op->frame->kept || ho_py.PyList_Append(op->frame->kept, o) < 0;
	ho_py.Py_DecRef(o);
	return bad ? -1 : 0;
}

int ho_ext_object(ho_ext_op *op)
{
	op->exc = NULL;
	op->exc_owner = NULL;
	op->type = "RuntimeError";
	if ((op->text = foreign(op->frame))) {
		ho_ext_drop(op->in, op->in + op->nin);
		return -1;
	}
	int state = ho_py.PyGILState_Ensure();
	ho_PyObject *r = operate(op);
	int bad = !r || answer(op, r) < 0;
	if (bad)
		if ((op->exc = catch_error(op->frame, &op->type, &op->text))) {
			op->exc_owner = ho_owner_from_object(op->exc);
			ho_py.Py_DecRef(op->exc);
			if (!op->exc_owner)
				ho_py.PyErr_Clear();
		}
	ho_py.PyGILState_Release(state);
	return bad ? -1 : 0;
}
