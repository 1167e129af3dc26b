/* Exports the driver's names. Each is a jump to the entry point of package
 * soft, behind the look at ho_soft_forked (guard.h), so any arguments pass. */
#include <string.h>

#include "procs.h"
#include "guard.h"
#include "extra.h"

#ifndef HO_SOFT_GUARDED
#error "no assembly for this processor in guard.h"
#endif

#define EXPORT(name, symbol, version, ret, params) HO_SOFT_GUARD(symbol, ho_soft_##name)
HO_CUDA_ENTRIES(EXPORT)
HO_SOFT_EXTRA(EXPORT)
#undef EXPORT

#define DECLARE(name, symbol, version, ret, params) extern ret symbol params;
HO_CUDA_ENTRIES(DECLARE)
HO_SOFT_EXTRA(DECLARE)
#undef DECLARE

/* What cuGetProcAddress knows: a name in each of its forms, with the version
 * that brought the form. */
static const struct proc {
	const char *name;
	const char *symbol;
	int version;
	void (*fn)(void);
} procs[] = {
#define PROC(name, symbol, version, ret, params) {#name, #symbol, version, (void (*)(void))symbol},
	HO_CUDA_ENTRIES(PROC)
	HO_SOFT_EXTRA(PROC)
#undef PROC
};

ho_result cuGetProcAddress(char *symbol, void **fn, int version, uint64_t flags);
ho_result cuGetProcAddress_v2(char *symbol, void **fn, int version, uint64_t flags, int *found);
ho_result cuGetExportTable(void **table, void *id);

/* Whether name is base, or base with a _vN of the table behind it. */
static int same(const char *name, const char *base)
{
	size_t n = strlen(base);

	return strncmp(name, base, n) == 0 &&
	       (name[n] == 0 || (name[n] == '_' && name[n + 1] == 'v' && name[n + 2] >= '0' && name[n + 2] <= '9' && name[n + 3] == 0));
}

ho_result ho_soft_get_proc(char *symbol, void **fn, int version, uint64_t flags, int *found)
{
	const struct proc *best = NULL;
	int known = 0;
	size_t i;

	if (symbol == NULL || fn == NULL || flags > 2)
		return HO_CUDA_ERROR_INVALID_VALUE;
	*fn = NULL;
	if (strcmp(symbol, "cuGetProcAddress") == 0) {
		*fn = version >= 12000 ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress;
		if (found != NULL)
			*found = HO_CU_GET_PROC_ADDRESS_SUCCESS;
		return HO_CUDA_SUCCESS;
	}
	for (i = 0; i < sizeof(procs) / sizeof(procs[0]); i++) {
		if (!same(procs[i].name, symbol))
			continue;
		known = 1;
		if (procs[i].version <= version && (best == NULL || procs[i].version > best->version))
			best = &procs[i];
	}
	if (best != NULL)
		*fn = (void *)best->fn;
	if (found != NULL)
		*found = best != NULL ? HO_CU_GET_PROC_ADDRESS_SUCCESS :
			 known	      ? HO_CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT :
					HO_CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return best != NULL || found != NULL ? HO_CUDA_SUCCESS : HO_CUDA_ERROR_NOT_FOUND;
}

ho_result cuGetProcAddress_v2(char *symbol, void **fn, int version, uint64_t flags, int *found)
{
	return ho_soft_get_proc(symbol, fn, version, flags, found);
}

ho_result cuGetProcAddress(char *symbol, void **fn, int version, uint64_t flags)
{
	return ho_soft_get_proc(symbol, fn, version, flags, NULL);
}

/* The private tables of the CUDA runtime library do not exist here. */
ho_result cuGetExportTable(void **table, void *id)
{
	(void)id;
	if (table != NULL)
		*table = NULL;
	return HO_CUDA_ERROR_NOT_FOUND;
}
