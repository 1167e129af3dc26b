/* DLPack as Python has it: capsules, objects with __dlpack__, exchange tables,
 * of any content. Every tensor is deleted once, or still its capsule's. */
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

/* A producer's destructor: frees what nobody took. */
static void drop(ho_PyObject *capsule)
{
	const char *name = ho_py.PyCapsule_GetName(capsule);
	void *p = name != NULL ? ho_py.PyCapsule_GetContext(capsule) : NULL;

	if (p == NULL)
		return;
	/* The context says what it is; the name says whose. */
	int versioned = ((uintptr_t)p & 1) != 0;
	p = (void *)((uintptr_t)p & ~(uintptr_t)1);
	if (strncmp(name, "used", 4) == 0)
		return;
	if (versioned)
		ho_release_versioned(p);
	else
		ho_release_legacy(p);
}

/* A capsule, whose name need not fit its content's kind unless that is read. */
static ho_PyObject *capsule(input *in)
{
	static const char *const odd[] = { "dltensor_", "DLTENSOR", "used_dltensor", "used_dltensor_versioned", "", "x" };
	unsigned c = in_byte(in);
	int versioned = c % 2;
	void *p = versioned ? (void *)tensor_versioned(in) : (void *)tensor_legacy(in);
	const char *name = versioned ? "dltensor_versioned" : "dltensor";

	if (c >= 240) /* nothing of ours: it frees itself, also if called "used" */
		name = odd[c % 6];
	ho_PyObject *o = ho_py.PyCapsule_New(p, name, drop);
	REQUIRE(o != NULL);
	REQUIRE(ho_py.PyCapsule_SetContext(o, (void *)((uintptr_t)p | (uintptr_t)versioned)) == 0);
	if (c >= 240 && strncmp(name, "used", 4) == 0) { /* its consumer has it */
		if (versioned)
			ho_release_versioned(p);
		else
			ho_release_legacy(p);
	}
	return o;
}

static ho_PyObject *make(const char *class)
{
	ho_PyObject *o = ho_py.PyObject_CallNoArgs(python_name(class));

	REQUIRE(o != NULL);
	return o;
}

static ho_PyObject *dlpack_object(input *in)
{
	ho_PyObject *o = make("Dlpack");
	unsigned c = in_byte(in);

	python_set(o, "refuse", ho_py.PyLong_FromLong(c < 128 ? 0 : c % 16));
	if (c % 32 == 31)
		python_set(o, "device", python_any(in, 2));
	else
		python_set(o, "device", c % 4 == 0 ? python_numbers(in, 2) : python_eval("(1, 0)"));
	python_set(o, "capsule", c % 16 == 15 ? python_any(in, 1) : capsule(in));
	return o;
}

/* ---- Exchange tables ---------------------------------------------------- */

static input *script; /* what the functions of the table read */
static DLTensor lent;
static int has_lent;

static int fail(void)
{
	if (in_below(script, 2) == 0)
		ho_py.PyErr_SetString(ho_py.PyExc_BufferError, "the table fails");
	return -1;
}

static int from_py(void *object, DLManagedTensorVersioned **out)
{
	(void)object;
	switch (in_below(script, 12)) {
	case 0:
		return fail();
	case 1:
		*out = NULL;
		return 0;
	}
	*out = tensor_versioned(script);
	return 0;
}

static int to_py(DLManagedTensorVersioned *m, void **out)
{
	(void)m;
	(void)out;
	return fail();
}

static int lend(void *object, DLTensor *out)
{
	(void)object;
	if (in_below(script, 12) == 0)
		return fail();
	if (!has_lent)
		tensor_any(script, &lent);
	has_lent = 1;
	*out = lent;
	return 0;
}

static int work_stream(DLDeviceType type, int32_t id, void **out)
{
	(void)type;
	(void)id;
	if (in_below(script, 8) == 0)
		return fail();
	*out = (void *)(uintptr_t)(in_below(script, 2) ? 0x20000 + in_below(script, 64) : in_below(script, 4));
	return 0;
}

static DLPackExchangeAPI tables[3];

static ho_PyObject *table_object(input *in)
{
	static ho_PyObject *type;
	unsigned c = in_byte(in);

	script = in;
	for (int i = 0; i < 3; i++) {
		unsigned missing = in_byte(in);
		tables[i] = (DLPackExchangeAPI){
			.header = { { missing < 200 ? 1 : missing % 4, 3 }, i < 2 ? &tables[i + 1].header : c % 8 == 7 ? &tables[0].header : NULL },
			.managed_tensor_from_py_object_no_sync = missing % 16 == 15 ? NULL : from_py,
			.managed_tensor_to_py_object_no_sync = to_py,
			.dltensor_from_py_object_no_sync = missing % 4 == 3 ? NULL : lend,
			.current_work_stream = missing % 8 == 7 ? NULL : work_stream,
		};
	}
	if (type == NULL)
		type = python_name("Table");
	ho_PyObject *attribute;
	if (c < 160)
		attribute = ho_py.PyCapsule_New(tables, "dlpack_exchange_api", NULL);
	else if (c < 200)
		attribute = ho_py.PyLong_FromVoidPtr(tables);
	else if (c < 220)
		attribute = ho_py.PyCapsule_New(tables, "dltensor", NULL);
	else if (c < 230)
		attribute = ho_py.PyLong_FromLongLong((int64_t)(uintptr_t)tables + 1 + c % 6); /* no struct is there */
	else if (c < 240)
		attribute = ho_py.PyLong_FromLongLong((int64_t)(c % 10) * 8 - 16); /* nor there */
	else
		attribute = ho_newref(HO_NONE);
	python_set(type, c % 2 ? "__dlpack_c_exchange_api__" : "__c_dlpack_exchange_api__", attribute);
	if (c % 8 == 3)
		python_set(type, "readonly", ho_newref(HO_TRUE));
	return make("Table");
}

static void table_end(void)
{
	static const char *const set[] = { "__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__", "readonly" };

	for (int i = 0; i < 3; i++)
		if (ho_py.PyObject_SetAttrString(python_name("Table"), set[i], NULL) != 0)
			ho_py.PyErr_Clear();
	if (has_lent)
		tensor_clear(&lent);
	has_lent = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	input in = { data, size };
	long made = tensor_made, deleted = tensor_deleted;
	ho_PyObject *o;
	unsigned c = in_below(&in, 4);

	switch (c) {
	case 0:
		o = capsule(&in);
		break;
	case 1:
		o = dlpack_object(&in);
		break;
	default:
		o = table_object(&in);
	}
	ho_ssize refs = o->ob_refcnt;
	python_consume(&in, o);
	if (in_below(&in, 4) == 0)
		python_consume(&in, o); /* a capsule is used up now */
	python_settle();
	REQUIRE(o->ob_refcnt == refs); /* nobody keeps it */
	ho_py.Py_DecRef(o);
	table_end();
	python_done();
	REQUIRE(tensor_made - made == tensor_deleted - deleted);
	return 0;
}
