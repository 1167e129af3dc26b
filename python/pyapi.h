/* The part of CPython's C API that the bridge uses, declared by us and
 * resolved at run time: libpython is never linked and Python.h never
 * included. Only the stable ABI (3.11+); the few names outside it are marked
 * optional and may be NULL. A test compares sizes, offsets and values with
 * the real headers. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef ptrdiff_t ho_ssize; /* Py_ssize_t */

/* PyObject of a build with the GIL and without Py_TRACE_REFS: 16 bytes. Only
 * the type is ever read; the reference count is left to Py_IncRef and
 * Py_DecRef, whose rules (immortal objects) differ between versions. */
typedef struct ho_PyTypeObject ho_PyTypeObject;
typedef struct ho_PyObject {
	ho_ssize ob_refcnt;
	ho_PyTypeObject *ob_type;
} ho_PyObject;

#define HO_TYPE(op) (((ho_PyObject *)(op))->ob_type)

typedef struct ho_Py_buffer {
	void *buf;
	ho_PyObject *obj;
	ho_ssize len;
	ho_ssize itemsize;
	int readonly;
	int ndim;
	char *format;
	ho_ssize *shape;
	ho_ssize *strides;
	ho_ssize *suboffsets;
	void *internal;
} ho_Py_buffer;

typedef ho_PyObject *(*ho_PyCFunction)(ho_PyObject *, ho_PyObject *);
typedef ho_PyObject *(*ho_PyCFunctionFast)(ho_PyObject *, ho_PyObject *const *, ho_ssize);
typedef ho_PyObject *(*ho_PyCFunctionFastKw)(ho_PyObject *, ho_PyObject *const *, ho_ssize, ho_PyObject *);
typedef ho_PyObject *(*ho_getter)(ho_PyObject *, void *);
typedef int (*ho_setter)(ho_PyObject *, ho_PyObject *, void *);
typedef void (*ho_capsule_destructor)(ho_PyObject *);

typedef struct ho_PyMethodDef {
	const char *ml_name;
	ho_PyCFunction ml_meth;
	int ml_flags;
	const char *ml_doc;
} ho_PyMethodDef;

typedef struct ho_PyGetSetDef {
	const char *name;
	ho_getter get;
	ho_setter set;
	const char *doc;
	void *closure;
} ho_PyGetSetDef;

typedef struct ho_PyMemberDef {
	const char *name;
	int type;
	ho_ssize offset;
	int flags;
	const char *doc;
} ho_PyMemberDef;

/* The member of a type by which its objects can be referred to weakly: the place of their list. */
#define HO_WEAKLIST(type, field) \
	{ "__weaklistoffset__", 19 /* T_PYSSIZET */, (ho_ssize)offsetof(type, field), 1 /* READONLY */, NULL }

typedef struct ho_PyModuleDef_Base {
	ho_PyObject ob_base;
	ho_PyObject *(*m_init)(void);
	ho_ssize m_index;
	ho_PyObject *m_copy;
} ho_PyModuleDef_Base;

typedef struct ho_PyModuleDef {
	ho_PyModuleDef_Base m_base;
	const char *m_name;
	const char *m_doc;
	ho_ssize m_size;
	ho_PyMethodDef *m_methods;
	void *m_slots;
	void *m_traverse;
	void *m_clear;
	void *m_free;
} ho_PyModuleDef;

/* PyModuleDef_HEAD_INIT: the reference count starts at 1. */
#define HO_MODULE_HEAD { { 1, NULL }, NULL, 0, NULL }

typedef struct ho_PyType_Slot {
	int slot;
	void *pfunc;
} ho_PyType_Slot;

typedef struct ho_PyType_Spec {
	const char *name;
	int basicsize;
	int itemsize;
	unsigned int flags;
	ho_PyType_Slot *slots;
} ho_PyType_Spec;

enum {
	HO_METH_VARARGS = 0x0001,
	HO_METH_KEYWORDS = 0x0002,
	HO_METH_NOARGS = 0x0004,
	HO_METH_O = 0x0008,
	HO_METH_CLASS = 0x0010,
	HO_METH_STATIC = 0x0020,
	HO_METH_FASTCALL = 0x0080,
};

enum {
	HO_TPFLAGS_DISALLOW_INSTANTIATION = 1 << 7,
	HO_TPFLAGS_IMMUTABLETYPE = 1 << 8,
	HO_TPFLAGS_BASETYPE = 1 << 10,
	HO_TPFLAGS_HAVE_GC = 1 << 14,
	HO_TPFLAGS_DEFAULT = 0,
	HO_TPFLAGS_LONG_SUBCLASS = 1 << 24,
	HO_TPFLAGS_LIST_SUBCLASS = 1 << 25,
	HO_TPFLAGS_TUPLE_SUBCLASS = 1 << 26,
	HO_TPFLAGS_BYTES_SUBCLASS = 1 << 27,
	HO_TPFLAGS_UNICODE_SUBCLASS = 1 << 28,
	HO_TPFLAGS_DICT_SUBCLASS = 1 << 29,
};

/* Slot numbers of PyType_Slot. */
enum {
	HO_bf_getbuffer = 1,
	HO_bf_releasebuffer = 2,
	HO_mp_ass_subscript = 3,
	HO_mp_length = 4,
	HO_mp_subscript = 5,
	HO_nb_int = 26,
	HO_nb_subtract = 36,
	HO_sq_length = 45,
	HO_tp_clear = 51,
	HO_tp_dealloc = 52,
	HO_tp_doc = 56,
	HO_tp_hash = 59,
	HO_tp_iter = 62,
	HO_tp_iternext = 63,
	HO_tp_methods = 64,
	HO_tp_new = 65,
	HO_tp_repr = 66,
	HO_tp_richcompare = 67,
	HO_tp_str = 70,
	HO_tp_traverse = 71,
	HO_tp_members = 72,
	HO_tp_getset = 73,
	HO_tp_free = 74,
};

enum {
	HO_PyBUF_SIMPLE = 0,
	HO_PyBUF_WRITABLE = 0x1,
	HO_PyBUF_FORMAT = 0x4,
	HO_PyBUF_ND = 0x8,
	HO_PyBUF_STRIDES = 0x18,
	HO_PyBUF_C_CONTIGUOUS = 0x38,
	HO_PyBUF_F_CONTIGUOUS = 0x58,
	HO_PyBUF_ANY_CONTIGUOUS = 0x98,
	HO_PyBUF_INDIRECT = 0x118,
	HO_PyBUF_RECORDS_RO = 0x1c,
	HO_PyBUF_FULL_RO = 0x11c,
};

/* One line per function: X(result, name, parameters). */
#define HO_PY_FUNCTIONS(X) \
	X(void, Py_IncRef, (ho_PyObject *)) \
	X(void, Py_DecRef, (ho_PyObject *)) \
	X(int, Py_IsInitialized, (void)) \
	X(const char *, Py_GetVersion, (void)) \
	X(void, PyErr_SetString, (ho_PyObject *, const char *)) \
	X(ho_PyObject *, PyErr_Format, (ho_PyObject *, const char *, ...)) \
	X(void, PyErr_SetObject, (ho_PyObject *, ho_PyObject *)) \
	X(void, PyErr_SetNone, (ho_PyObject *)) \
	X(ho_PyObject *, PyErr_Occurred, (void)) \
	X(void, PyErr_Clear, (void)) \
	X(int, PyErr_ExceptionMatches, (ho_PyObject *)) \
	X(int, PyErr_GivenExceptionMatches, (ho_PyObject *, ho_PyObject *)) \
	X(void, PyErr_Fetch, (ho_PyObject **, ho_PyObject **, ho_PyObject **)) \
	X(void, PyErr_Restore, (ho_PyObject *, ho_PyObject *, ho_PyObject *)) \
	X(void, PyErr_NormalizeException, (ho_PyObject **, ho_PyObject **, ho_PyObject **)) \
	X(ho_PyObject *, PyErr_NoMemory, (void)) \
	X(int, PyErr_CheckSignals, (void)) \
	X(int, PyErr_WarnEx, (ho_PyObject *, const char *, ho_ssize)) \
	X(void, PyErr_WriteUnraisable, (ho_PyObject *)) \
	X(ho_PyObject *, PyErr_NewExceptionWithDoc, (const char *, const char *, ho_PyObject *, ho_PyObject *)) \
	X(void, PyException_SetCause, (ho_PyObject *, ho_PyObject *)) \
	X(void, PyException_SetContext, (ho_PyObject *, ho_PyObject *)) \
	X(int, PyException_SetTraceback, (ho_PyObject *, ho_PyObject *)) \
	X(ho_PyObject *, PyImport_ImportModule, (const char *)) \
	X(ho_PyObject *, PyImport_GetModuleDict, (void)) \
	X(ho_PyObject *, PySys_GetObject, (const char *)) \
	X(int, PySys_SetObject, (const char *, ho_PyObject *)) \
	X(ho_PyObject *, PyModule_Create2, (ho_PyModuleDef *, int)) \
	X(ho_PyObject *, PyModule_GetDict, (ho_PyObject *)) \
	X(int, PyModule_AddObjectRef, (ho_PyObject *, const char *, ho_PyObject *)) \
	X(int, PyModule_AddIntConstant, (ho_PyObject *, const char *, long)) \
	X(int, PyModule_AddStringConstant, (ho_PyObject *, const char *, const char *)) \
	X(int, PyModule_AddFunctions, (ho_PyObject *, ho_PyMethodDef *)) \
	X(ho_PyObject *, PyCFunction_NewEx, (ho_PyMethodDef *, ho_PyObject *, ho_PyObject *)) \
	X(ho_PyObject *, PyType_FromSpec, (ho_PyType_Spec *)) \
	X(ho_PyObject *, PyType_FromSpecWithBases, (ho_PyType_Spec *, ho_PyObject *)) \
	X(unsigned long, PyType_GetFlags, (ho_PyTypeObject *)) \
	X(int, PyType_IsSubtype, (ho_PyTypeObject *, ho_PyTypeObject *)) \
	X(ho_PyObject *, PyType_GetName, (ho_PyTypeObject *)) \
	X(void *, PyType_GetSlot, (ho_PyTypeObject *, int)) \
	X(void, PyType_Modified, (ho_PyTypeObject *)) \
	X(ho_PyObject *, PyType_GenericAlloc, (ho_PyTypeObject *, ho_ssize)) \
	X(void, PyObject_Free, (void *)) \
	X(void, PyObject_GC_Del, (void *)) \
	X(void, PyObject_GC_UnTrack, (void *)) \
	X(void, PyObject_GC_Track, (void *)) \
	X(ho_PyObject *, PyObject_Init, (ho_PyObject *, ho_PyTypeObject *)) \
	X(void, PyObject_ClearWeakRefs, (ho_PyObject *)) \
	X(ho_PyObject *, PyObject_GetAttr, (ho_PyObject *, ho_PyObject *)) \
	X(ho_PyObject *, PyObject_GetAttrString, (ho_PyObject *, const char *)) \
	X(int, PyObject_SetAttrString, (ho_PyObject *, const char *, ho_PyObject *)) \
	X(int, PyObject_SetAttr, (ho_PyObject *, ho_PyObject *, ho_PyObject *)) \
	X(int, PyObject_IsTrue, (ho_PyObject *)) \
	X(int, PyObject_IsInstance, (ho_PyObject *, ho_PyObject *)) \
	X(ho_PyObject *, PyObject_Str, (ho_PyObject *)) \
	X(ho_PyObject *, PyObject_Repr, (ho_PyObject *)) \
	X(ho_PyObject *, PyObject_RichCompare, (ho_PyObject *, ho_PyObject *, int)) \
	X(int, PyObject_RichCompareBool, (ho_PyObject *, ho_PyObject *, int)) \
	X(ho_PyObject *, PyObject_Call, (ho_PyObject *, ho_PyObject *, ho_PyObject *)) \
	X(ho_PyObject *, PyObject_CallNoArgs, (ho_PyObject *)) \
	X(ho_PyObject *, PyObject_CallObject, (ho_PyObject *, ho_PyObject *)) \
	X(ho_PyObject *, PyObject_CallFunctionObjArgs, (ho_PyObject *, ...)) \
	X(ho_PyObject *, PyObject_CallMethodObjArgs, (ho_PyObject *, ho_PyObject *, ...)) \
	X(ho_PyObject *, PyObject_GetItem, (ho_PyObject *, ho_PyObject *)) \
	X(ho_PyObject *, PyObject_GetIter, (ho_PyObject *)) \
	X(ho_PyObject *, PyIter_Next, (ho_PyObject *)) \
	X(int, PyCallable_Check, (ho_PyObject *)) \
	X(int, PyIndex_Check, (ho_PyObject *)) \
	X(int, PyObject_CheckBuffer, (ho_PyObject *)) \
	X(int, PyObject_GetBuffer, (ho_PyObject *, ho_Py_buffer *, int)) \
	X(void, PyBuffer_Release, (ho_Py_buffer *)) \
	X(ho_PyObject *, PyMemoryView_FromObject, (ho_PyObject *)) \
	X(ho_PyObject *, PyCapsule_New, (void *, const char *, ho_capsule_destructor)) \
	X(void *, PyCapsule_GetPointer, (ho_PyObject *, const char *)) \
	X(const char *, PyCapsule_GetName, (ho_PyObject *)) \
	X(int, PyCapsule_SetName, (ho_PyObject *, const char *)) \
	X(int, PyCapsule_IsValid, (ho_PyObject *, const char *)) \
	X(int, PyCapsule_SetDestructor, (ho_PyObject *, ho_capsule_destructor)) \
	X(int, PyCapsule_SetContext, (ho_PyObject *, void *)) \
	X(void *, PyCapsule_GetContext, (ho_PyObject *)) \
	X(ho_PyObject *, PyTuple_New, (ho_ssize)) \
	X(ho_ssize, PyTuple_Size, (ho_PyObject *)) \
	X(ho_PyObject *, PyTuple_GetItem, (ho_PyObject *, ho_ssize)) \
	X(int, PyTuple_SetItem, (ho_PyObject *, ho_ssize, ho_PyObject *)) \
	X(ho_PyObject *, PyTuple_Pack, (ho_ssize, ...)) \
	X(ho_PyObject *, PyList_New, (ho_ssize)) \
	X(ho_ssize, PyList_Size, (ho_PyObject *)) \
	X(ho_PyObject *, PyList_GetItem, (ho_PyObject *, ho_ssize)) \
	X(int, PyList_SetItem, (ho_PyObject *, ho_ssize, ho_PyObject *)) \
	X(int, PyList_Append, (ho_PyObject *, ho_PyObject *)) \
	X(ho_PyObject *, PyDict_New, (void)) \
	X(ho_PyObject *, PyDict_Copy, (ho_PyObject *)) \
	X(ho_PyObject *, PyDict_GetItemString, (ho_PyObject *, const char *)) \
	X(ho_PyObject *, PyDict_GetItemWithError, (ho_PyObject *, ho_PyObject *)) \
	X(int, PyDict_SetItemString, (ho_PyObject *, const char *, ho_PyObject *)) \
	X(int, PyDict_SetItem, (ho_PyObject *, ho_PyObject *, ho_PyObject *)) \
	X(int, PyDict_DelItemString, (ho_PyObject *, const char *)) \
	X(int, PyDict_Next, (ho_PyObject *, ho_ssize *, ho_PyObject **, ho_PyObject **)) \
	X(ho_ssize, PyDict_Size, (ho_PyObject *)) \
	X(ho_PyObject *, PyLong_FromLongLong, (long long)) \
	X(ho_PyObject *, PyLong_FromUnsignedLongLong, (unsigned long long)) \
	X(ho_PyObject *, PyLong_FromLong, (long)) \
	X(ho_PyObject *, PyLong_FromSsize_t, (ho_ssize)) \
	X(ho_PyObject *, PyLong_FromVoidPtr, (void *)) \
	X(void *, PyLong_AsVoidPtr, (ho_PyObject *)) \
	X(long, PyLong_AsLong, (ho_PyObject *)) \
	X(long long, PyLong_AsLongLong, (ho_PyObject *)) \
	X(long long, PyLong_AsLongLongAndOverflow, (ho_PyObject *, int *)) \
	X(unsigned long long, PyLong_AsUnsignedLongLong, (ho_PyObject *)) \
	X(ho_ssize, PyLong_AsSsize_t, (ho_PyObject *)) \
	X(ho_PyObject *, PyNumber_Index, (ho_PyObject *)) \
	X(ho_ssize, PyNumber_AsSsize_t, (ho_PyObject *, ho_PyObject *)) \
	X(ho_PyObject *, PyNumber_Float, (ho_PyObject *)) \
	X(ho_PyObject *, PyFloat_FromDouble, (double)) \
	X(double, PyFloat_AsDouble, (ho_PyObject *)) \
	X(ho_PyObject *, PyComplex_FromDoubles, (double, double)) \
	X(double, PyComplex_RealAsDouble, (ho_PyObject *)) \
	X(double, PyComplex_ImagAsDouble, (ho_PyObject *)) \
	X(ho_PyObject *, PyBool_FromLong, (long)) \
	X(ho_PyObject *, PyUnicode_FromString, (const char *)) \
	X(ho_PyObject *, PyUnicode_FromStringAndSize, (const char *, ho_ssize)) \
	X(ho_PyObject *, PyUnicode_DecodeUTF8, (const char *, ho_ssize, const char *)) \
	X(ho_PyObject *, PyUnicode_FromFormat, (const char *, ...)) \
	X(ho_PyObject *, PyUnicode_InternFromString, (const char *)) \
	X(const char *, PyUnicode_AsUTF8AndSize, (ho_PyObject *, ho_ssize *)) \
	X(int, PyUnicode_CompareWithASCIIString, (ho_PyObject *, const char *)) \
	X(ho_PyObject *, PyUnicode_Join, (ho_PyObject *, ho_PyObject *)) \
	X(ho_PyObject *, PyBytes_FromStringAndSize, (const char *, ho_ssize)) \
	X(int, PyBytes_AsStringAndSize, (ho_PyObject *, char **, ho_ssize *)) \
	X(int, PySlice_Unpack, (ho_PyObject *, ho_ssize *, ho_ssize *, ho_ssize *)) \
	X(ho_ssize, PySlice_AdjustIndices, (ho_ssize, ho_ssize *, ho_ssize *, ho_ssize)) \
	X(void *, PyEval_SaveThread, (void)) \
	X(void, PyEval_RestoreThread, (void *)) \
	X(int, PyGILState_Ensure, (void)) \
	X(void, PyGILState_Release, (int)) \
	X(void *, PyInterpreterState_Get, (void)) \
	X(int64_t, PyInterpreterState_GetID, (void *)) \
	X(int, Py_AddPendingCall, (int (*)(void *), void *))

/* Not in the stable ABI of 3.11, or not in the stable ABI at all: may be
 * NULL. PyGILState_Check and Py_IsFinalizing are exported by every CPython
 * release so far. */
#define HO_PY_OPTIONAL(X) \
	X(int, PyGILState_Check, (void)) \
	X(int, Py_IsFinalizing, (void)) \
	X(int, _Py_IsFinalizing, (void)) \
	X(ho_PyObject *, PyObject_Vectorcall, (ho_PyObject *, ho_PyObject *const *, size_t, ho_PyObject *)) \
	X(ho_PyObject *, PyObject_VectorcallMethod, (ho_PyObject *, ho_PyObject *const *, size_t, ho_PyObject *)) \
	X(int, PyObject_GetOptionalAttr, (ho_PyObject *, ho_PyObject *, ho_PyObject **))

/* Objects: X(name) for PyObject variables, whose address is the object, and
 * Y(name) for PyObject* variables (exceptions). */
#define HO_PY_OBJECTS(X) \
	X(_Py_NoneStruct) X(_Py_TrueStruct) X(_Py_FalseStruct) X(_Py_NotImplementedStruct) X(_Py_EllipsisObject) \
	X(PyBaseObject_Type) X(PyType_Type) X(PyBool_Type) X(PyLong_Type) X(PyFloat_Type) X(PyComplex_Type) \
	X(PyUnicode_Type) X(PyBytes_Type) X(PyTuple_Type) X(PyList_Type) X(PyDict_Type) X(PySlice_Type) \
	X(PyCapsule_Type) X(PyMemoryView_Type) X(PyByteArray_Type)

#define HO_PY_EXCEPTIONS(X) \
	X(PyExc_BaseException) X(PyExc_Exception) X(PyExc_ArithmeticError) X(PyExc_AttributeError) X(PyExc_BufferError) \
	X(PyExc_ImportError) X(PyExc_IndexError) X(PyExc_KeyError) X(PyExc_KeyboardInterrupt) X(PyExc_LookupError) \
	X(PyExc_MemoryError) X(PyExc_NotImplementedError) X(PyExc_OSError) X(PyExc_OverflowError) X(PyExc_RuntimeError) \
	X(PyExc_RuntimeWarning) X(PyExc_StopIteration) X(PyExc_SystemError) X(PyExc_TimeoutError) X(PyExc_TypeError) \
	X(PyExc_ValueError) X(PyExc_ZeroDivisionError) X(PyExc_DeprecationWarning)

struct ho_py_table {
#define HO_X(result, name, params) result(*name) params;
	HO_PY_FUNCTIONS(HO_X)
	HO_PY_OPTIONAL(HO_X)
#undef HO_X
#define HO_X(name) ho_PyObject *name;
	HO_PY_OBJECTS(HO_X)
	HO_PY_EXCEPTIONS(HO_X)
#undef HO_X
	int minor;           /* 11 for Python 3.11 */
};

/* Filled once by ho_py_load (bridge.h), then constant. Hidden from the
 * dynamic symbol table: two shared objects never share it. */
extern struct ho_py_table ho_py;

#define HO_NONE (ho_py._Py_NoneStruct)
#define HO_TRUE (ho_py._Py_TrueStruct)
#define HO_FALSE (ho_py._Py_FalseStruct)

static inline ho_PyObject *ho_newref(ho_PyObject *o)
{
	ho_py.Py_IncRef(o);
	return o;
}
