/* Resolving CPython at run time, and refusing what the bridge cannot serve. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

struct ho_py_table ho_py;

static int loaded;

/* Where the symbols are: the program itself, its libpython, or a libpython
 * that the embedding program opened privately. */
static void *find_symbol(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

/* Fills the table. The name of the first missing function, or NULL. */
static const char *fill(void)
{
	const char *missing = NULL;
	void *p;
/* A function pointer is copied through memory: ISO C has no cast for it. */
#define HO_X(result, name, params) \
	p = find_symbol(#name); \
	if (p == NULL && missing == NULL) \
		missing = #name; \
	memcpy(&ho_py.name, &p, sizeof p);
	HO_PY_FUNCTIONS(HO_X)
#undef HO_X
#define HO_X(result, name, params) \
	p = find_symbol(#name); \
	memcpy(&ho_py.name, &p, sizeof p);
	HO_PY_OPTIONAL(HO_X)
#undef HO_X
#define HO_X(name) \
	ho_py.name = (ho_PyObject *)find_symbol(#name); \
	if (ho_py.name == NULL && missing == NULL) \
		missing = #name;
	HO_PY_OBJECTS(HO_X)
#undef HO_X
#define HO_X(name) \
	p = find_symbol(#name); \
	if (p == NULL && missing == NULL) \
		missing = #name; \
	ho_py.name = p != NULL ? *(ho_PyObject **)p : NULL;
	HO_PY_EXCEPTIONS(HO_X)
#undef HO_X
	return missing;
}

/* ImportError with what little of the table is there. */
static int refuse(const char *text)
{
	if (ho_py.PyErr_SetString != NULL && ho_py.PyExc_ImportError != NULL)
		ho_py.PyErr_SetString(ho_py.PyExc_ImportError, text);
	return -1;
}

static int in_main_interpreter(void)
{
	if (ho_py.PyInterpreterState_GetID(ho_py.PyInterpreterState_Get()) == 0)
		return 0;
	return refuse("handoff: subinterpreters are not supported: objects would be shared between "
	              "interpreters (B386); import it in the main interpreter");
}

int ho_py_load(void)
{
	char text[256];

	if (loaded)
		return in_main_interpreter();
	const char *missing = fill();
	if (ho_py.Py_GetVersion == NULL || ho_py.PyErr_SetString == NULL)
		return -1; /* no CPython here */
	const char *version = ho_py.Py_GetVersion();
	int major = 0, minor = 0;
	if (sscanf(version, "%d.%d", &major, &minor) != 2 || major != 3 || minor < 11) {
		snprintf(text, sizeof text, "handoff: CPython 3.11 or newer is needed, this is %.40s", version);
		return refuse(text);
	}
	if (missing != NULL) {
		snprintf(text, sizeof text, "handoff: this interpreter (%.40s) lacks %s of the stable ABI", version,
		         missing);
		return refuse(text);
	}
	/* Objects have another header in these builds. */
	ho_PyObject *flags = ho_py.PySys_GetObject("abiflags");
	const char *abi = flags != NULL ? ho_py.PyUnicode_AsUTF8AndSize(flags, NULL) : "";
	if (abi == NULL) {
		ho_py.PyErr_Clear();
		abi = "";
	}
	if (strchr(abi, 't') != NULL || strstr(version, "free-threading") != NULL)
		return refuse("handoff: free-threaded builds of CPython are not supported (B385); use a build with "
		              "the GIL");
	if (strchr(abi, 'd') != NULL || ho_py.PySys_GetObject("gettotalrefcount") != NULL)
		return refuse("handoff: debug builds of CPython are not supported; use a release build");
	if (in_main_interpreter() != 0)
		return -1;
	ho_py.minor = minor;
	loaded = 1;
	return 0;
}
