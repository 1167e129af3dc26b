/* Connects the C core to the functions that Go exports. Not part of a build
 * without Go. */
#include "internal.h"

#include "_cgo_export.h"
#include "gobridge.h"

static char *copy(const DLTensor *dst, const DLTensor *src, int padded)
{
	return hoPyCopy((uintptr_t)dst, (uintptr_t)src, padded);
}

static char *selftest(const char *name)
{
	return hoPySelfTest((char *)name);
}

void ho_go_hooks(void)
{
	ho_go.copy = copy;
	ho_go.selftest = selftest;
}
