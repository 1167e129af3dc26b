#include "embed.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "../../bridge.h"

static int failed(char *err, size_t n, const char *text)
{
	snprintf(err, n, "%s", text != NULL ? text : "unknown error");
	return -1;
}

int ho_embed_start(const char *path, char *err, size_t n)
{
	void (*initialize)(int);
	void *lib = dlopen(path, RTLD_NOW | RTLD_GLOBAL);

	if (lib == NULL)
		return failed(err, n, dlerror());
	void *p = dlsym(lib, "Py_InitializeEx");
	if (p == NULL)
		return failed(err, n, dlerror());
	memcpy(&initialize, &p, sizeof p);
	initialize(0); /* no signal handlers: they are Go's */
	if (ho_py_load() != 0)
		return failed(err, n, "ho_py_load failed");
	ho_PyObject *m = ho_core_module("the test binary");
	if (m == NULL)
		return failed(err, n, "ho_core_module failed");
	ho_py.Py_DecRef(m);
	ho_py.PyEval_SaveThread();
	return 0;
}
