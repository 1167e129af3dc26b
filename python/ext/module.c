/* Registration: what a PyInit function does, in C. */
#include <stdlib.h>
#include <string.h>

#include "function.h"

struct ho_ext_module {
	ho_PyModuleDef def;
	ho_PyMethodDef *methods;
	ho_ext_function *funcs;
	uint32_t nfuncs, cap;
	const char *stub;
	ho_PyObject *classes; /* list of [class name, class] in the order of their numbers */
	int failed;           /* out of memory, or an exception is set */
};

/* Slots are given out once and for all, also across modules. */
static uint32_t slots_used;

/* The named tuple classes of all modules of this object, by number. */
enum { MAX_CLASSES = 256 };
static ho_PyObject *classes[MAX_CLASSES];

static char *copy(const char *s)
{
	size_t n = strlen(s) + 1;
	char *c = malloc(n);
	if (c)
		memcpy(c, s, n);
	return c;
}

int ho_ext_start(void)
{
	if (ho_py_load() < 0 || ho_go_ok() < 0)
		return 0;
	ho_PyObject *core = ho_core_module(NULL);
	if (!core)
		return 0;
	ho_py.Py_DecRef(core);
	return 1;
}

ho_PyObject *ho_ext_import_error(const char *module, const char *text)
{
	ho_py.PyErr_Format(ho_py.PyExc_ImportError, "%s: %s", module, text);
	return NULL;
}

ho_ext_module *ho_ext_begin(const char *name, const char *doc, const char *stub, uint32_t nfuncs)
{
	ho_ext_module *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	const ho_PyModuleDef_Base head = HO_MODULE_HEAD;
	m->def.m_base = head;
	m->def.m_name = copy(name);
	m->def.m_doc = copy(doc);
	/* Size 0, not -1: the import in another interpreter then comes back to
	 * PyInit, which refuses it, instead of copying the module's dict (B386). */
	m->def.m_size = 0;
	m->methods = calloc(nfuncs + 1, sizeof *m->methods);
	m->funcs = calloc(nfuncs + 1, sizeof *m->funcs);
	m->cap = nfuncs;
	m->stub = copy(stub);
	m->failed = !m->def.m_name || !m->def.m_doc || !m->methods || !m->funcs || !m->stub;
	m->def.m_methods = m->methods;
	return m;
}

int ho_ext_add_func(ho_ext_module *m, const char *name, const char *doc, uint32_t number, uint32_t flags, uint32_t nparams)
{
	if (m->failed || m->nfuncs >= m->cap || slots_used >= HO_EXT_MAX_FUNCS)
		return -1;
	ho_ext_function *f = &m->funcs[m->nfuncs];
	f->name = copy(name);
	f->doc = copy(doc);
	f->number = number;
	f->flags = flags;
	f->params = calloc(nparams + 1, sizeof *f->params);
	if (!f->name || !f->doc || !f->params) {
		m->failed = 1;
		return -1;
	}
	ho_PyMethodDef *def = &m->methods[m->nfuncs++];
	def->ml_name = f->name;
	def->ml_doc = f->doc;
	def->ml_flags = HO_METH_FASTCALL | HO_METH_KEYWORDS;
	def->ml_meth = (ho_PyCFunction)(void (*)(void))ho_ext_trampoline(slots_used);
	ho_ext_functions[slots_used++] = f;
	return 0;
}

int ho_ext_add_param(ho_ext_module *m, const char *name, uint32_t kind, uint32_t bits, uint32_t flags, uint32_t dtype,
	const char *wants, ho_ext_value def)
{
	if (m->failed || m->nfuncs == 0)
		return -1;
	ho_ext_function *f = &m->funcs[m->nfuncs - 1];
	ho_ext_param *p = &f->params[f->nparams++];
	p->name = ho_py.PyUnicode_InternFromString(name);
	p->cname = copy(name);
	p->wants = copy(wants);
	p->kind = kind;
	p->bits = bits;
	p->flags = flags;
	p->view = kind == HO_EXT_VIEW && !(flags & (HO_EXT_OPTIONAL | HO_EXT_VARIADIC | HO_EXT_SEQUENCE));
	p->dtype.code = (uint8_t)dtype;
	p->dtype.bits = (uint8_t)(dtype >> 8);
	p->dtype.lanes = (uint16_t)(dtype >> 16);
	p->def = def;
	if (def.tag == HO_EXT_STR || def.tag == HO_EXT_BYTES) { /* the text is Go's, and gone after this call */
		char *text = malloc(def.b + 1);
		if (text)
			memcpy(text, (const void *)(uintptr_t)def.a, def.b);
		p->def.a = (uint64_t)(uintptr_t)text;
		m->failed |= !text;
	}
	if (flags & HO_EXT_VARIADIC) {
		f->variadic = f->sequences = 1;
	} else if (!(flags & HO_EXT_KEYWORD)) {
		f->npos++;
		f->nrequired += !(flags & HO_EXT_DEFAULT);
	}
	if (flags & HO_EXT_SEQUENCE)
		f->sequences = 1;
	if (kind == HO_EXT_STREAM)
		f->stream = f->nparams;
	if (kind == HO_EXT_VIEW || kind == HO_EXT_SLICE || kind == HO_EXT_BYTES)
		f->narrays++;
	if (!p->view || (flags & HO_EXT_KEYWORD) || f->nparams > HO_EXT_FEW_VIEWS)
		f->mixed = 1;
	m->failed |= !p->name || !p->cname || !p->wants;
	return m->failed ? -1 : 0;
}

int ho_ext_add_class(ho_ext_module *m, const char *name, const char *fields, uint32_t number)
{
	if (m->failed || number >= MAX_CLASSES)
		return -1;
	ho_PyObject *collections = ho_py.PyImport_ImportModule("collections");
	ho_PyObject *make = collections ? ho_py.PyObject_GetAttrString(collections, "namedtuple") : NULL;
	ho_PyObject *a = ho_py.PyUnicode_FromString(name), *b = ho_py.PyUnicode_FromString(fields);
	ho_PyObject *cls = make && a && b ? ho_py.PyObject_CallFunctionObjArgs(make, a, b, NULL) : NULL;
	ho_PyObject *module = cls ? ho_py.PyUnicode_FromString(m->def.m_name) : NULL;
	if (!m->classes)
		m->classes = ho_py.PyList_New(0);
	ho_PyObject *pair = module && m->classes ? ho_py.PyTuple_Pack(2, a, cls) : NULL;
	int bad = !pair || ho_py.PyObject_SetAttrString(cls, "__module__", module) < 0 || ho_py.PyList_Append(m->classes, pair) < 0;
	if (!bad)
		classes[number] = ho_newref(cls);
	ho_PyObject *drop[] = { collections, make, a, b, cls, module, pair };
	for (size_t i = 0; i < sizeof drop / sizeof *drop; i++)
		if (drop[i])
			ho_py.Py_DecRef(drop[i]);
	m->failed |= bad;
	return bad ? -1 : 0;
}

ho_PyObject *ho_ext_finish(ho_ext_module *m)
{
	if (m->failed)
		return ho_py.PyErr_Occurred() ? NULL : ho_py.PyErr_NoMemory();
	ho_PyObject *module = ho_py.PyModule_Create2(&m->def, 3); /* 3: the version of the stable ABI */
	if (!module)
		return NULL;
	int bad = ho_py.PyModule_AddStringConstant(module, "__handoff_stub__", m->stub) < 0;
	ho_ssize n = m->classes ? ho_py.PyList_Size(m->classes) : 0;
	for (ho_ssize i = 0; i < n && !bad; i++) {
		ho_PyObject *pair = ho_py.PyList_GetItem(m->classes, i);
		ho_ssize len;
		const char *name = ho_py.PyUnicode_AsUTF8AndSize(ho_py.PyTuple_GetItem(pair, 0), &len);
		bad = !name || ho_py.PyModule_AddObjectRef(module, name, ho_py.PyTuple_GetItem(pair, 1)) < 0;
	}
	if (bad) {
		ho_py.Py_DecRef(module);
		return NULL;
	}
	return ho_newref(module); /* one more, for ho_ext_again */
}

ho_PyObject *ho_ext_again(ho_PyObject *module)
{
	return ho_newref(module);
}

/* ---- Values to objects -------------------------------------------------- */

static ho_PyObject *build_array(const ho_ext_value *v)
{
	DLManagedTensorVersioned *m = (DLManagedTensorVersioned *)(uintptr_t)v->a;
	ho_owner *o = ho_owner_from_versioned(m);
	if (!o) {
		ho_release_versioned(m);
		return ho_py.PyErr_NoMemory();
	}
	return v->tag == HO_EXT_ARRAY ? ho_array_new(o, &m->dl_tensor, m->flags) : ho_view_new(o, &m->dl_tensor, m->flags);
}

static double as_double(uint64_t bits)
{
	double d;
	memcpy(&d, &bits, 8);
	return d;
}

static ho_PyObject *build_items(const ho_ext_value **at, const ho_ext_value *end, const ho_ext_value *v)
{
	int list = v->tag == HO_EXT_LIST;
	ho_PyObject *c = list ? ho_py.PyList_New(v->n) : ho_py.PyTuple_New(v->n);
	for (uint32_t i = 0; c && i < v->n; i++) {
		ho_PyObject *item = ho_ext_build(at, end);
		/* SetItem steals item, also when it fails. */
		if (!item || (list ? ho_py.PyList_SetItem(c, i, item) : ho_py.PyTuple_SetItem(c, i, item)) < 0) {
			ho_py.Py_DecRef(c);
			return NULL;
		}
	}
	if (!c || v->tag != HO_EXT_NAMED)
		return c;
	ho_PyObject *named = ho_py.PyObject_CallObject(classes[v->a], c);
	ho_py.Py_DecRef(c);
	return named;
}

static ho_PyObject *build_dict(const ho_ext_value **at, const ho_ext_value *end, uint32_t n)
{
	ho_PyObject *d = ho_py.PyDict_New();
	for (uint32_t i = 0; d && i < n; i++) {
		ho_PyObject *key = ho_ext_build(at, end), *value = key ? ho_ext_build(at, end) : NULL;
		int bad = !value || ho_py.PyDict_SetItem(d, key, value) < 0;
		if (key)
			ho_py.Py_DecRef(key);
		if (value)
			ho_py.Py_DecRef(value);
		if (bad) {
			ho_py.Py_DecRef(d);
			return NULL;
		}
	}
	return d;
}

ho_PyObject *ho_ext_build(const ho_ext_value **at, const ho_ext_value *end)
{
	if (*at >= end) {
		ho_raise_named("SystemError", "the values of a result end early");
		return NULL;
	}
	const ho_ext_value *v = (*at)++;
	switch (v->tag) {
	case HO_EXT_NONE: return ho_newref(HO_NONE);
	case HO_EXT_BOOL: return ho_newref(v->a ? HO_TRUE : HO_FALSE);
	case HO_EXT_INT: return ho_py.PyLong_FromLongLong((int64_t)v->a);
	case HO_EXT_UINT: return ho_py.PyLong_FromUnsignedLongLong(v->a);
	case HO_EXT_FLOAT: return ho_py.PyFloat_FromDouble(as_double(v->a));
	case HO_EXT_COMPLEX: return ho_py.PyComplex_FromDoubles(as_double(v->a), as_double(v->b));
	case HO_EXT_STR: return ho_py.PyUnicode_FromStringAndSize((const char *)(uintptr_t)v->a, (ho_ssize)v->b);
	case HO_EXT_BYTES: return ho_py.PyBytes_FromStringAndSize((const char *)(uintptr_t)v->a, (ho_ssize)v->b);
	case HO_EXT_VIEW:
	case HO_EXT_ARRAY: return build_array(v);
	case HO_EXT_OBJECT: return ho_newref((ho_PyObject *)(uintptr_t)v->a);
	case HO_EXT_OWNED: {
		ho_PyObject *o = ho_newref((ho_PyObject *)(uintptr_t)v->a);
		ho_owner_unref((ho_owner *)(uintptr_t)v->b);
		return o;
	}
	case HO_EXT_TUPLE:
	case HO_EXT_LIST:
	case HO_EXT_NAMED: return build_items(at, end, v);
	case HO_EXT_DICT: return build_dict(at, end, v->n);
	}
	ho_raise_named("SystemError", "unknown kind of result");
	return NULL;
}

void ho_ext_drop(const ho_ext_value *at, const ho_ext_value *end)
{
	for (; at < end; at++) {
		if (at->tag == HO_EXT_VIEW || at->tag == HO_EXT_ARRAY)
			ho_release_versioned((DLManagedTensorVersioned *)(uintptr_t)at->a);
		else if (at->tag == HO_EXT_OWNED)
			ho_owner_unref((ho_owner *)(uintptr_t)at->b);
	}
}
