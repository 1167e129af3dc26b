/* The entry point of handoff._core. */
#include "../bridge.h"
#include "_cgo_export.h"

__attribute__((visibility("default"))) ho_PyObject *PyInit__core(void)
{
	if (ho_py_load() != 0)
		return NULL;
	/* The C core works without Go, also in the child of a fork. */
	if (!atomic_load(&ho_forked))
		hoCoreReady();
	return ho_core_module(NULL);
}
