/* Exports the driver's names. Each is a jump to the entry point of package
 * soft, behind the look at ho_soft_forked (guard.h), so any arguments pass. */
#include <string.h>

#include "procs.h"
#include "guard.h"
#include "extra.h"
#include "ptsz.h"

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

/* The forms with per-thread default streams. */
#define REG(name, symbol, version, index) HO_SOFT_PTSZ_REG(symbol##_ptsz, symbol, index)
HO_SOFT_PTSZ(REG)
#undef REG
#define STACK(name, symbol, version) HO_SOFT_PTSZ_ON_STACK(symbol##_ptsz, symbol)
HO_SOFT_PTSZ_STACK(STACK)
#undef STACK
#define ALIAS(name, symbol, version) HO_SOFT_GUARD(symbol##_ptds, symbol)
HO_SOFT_PTDS(ALIAS)
#undef ALIAS

#define DECLARE3(name, symbol, version) extern ho_result symbol##_ptsz();
#define DECLARE4(name, symbol, version, index) extern ho_result symbol##_ptsz();
#define DECLARED(name, symbol, version) extern ho_result symbol##_ptds();
HO_SOFT_PTSZ(DECLARE4)
HO_SOFT_PTSZ_STACK(DECLARE3)
HO_SOFT_PTDS(DECLARED)

ho_result cuLaunchKernelEx_ptsz(ho_launch_config *config, ho_function f, void **params, ho_word *extra);

ho_result cuLaunchKernelEx_ptsz(ho_launch_config *config, ho_function f, void **params, ho_word *extra)
{
	ho_launch_config c;

	if (config == NULL || config->stream != 0)
		return cuLaunchKernelEx(config, f, params, extra);
	c = *config;
	c.stream = HO_STREAM_PER_THREAD;
	return cuLaunchKernelEx(&c, f, params, extra);
}

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

/* The same with per-thread default streams, for the calls that differ. */
static const struct proc per_thread[] = {
#define PROC4(name, symbol, version, index) {#name, #symbol, version, (void (*)(void))symbol##_ptsz},
#define PROC3(name, symbol, version) {#name, #symbol, version, (void (*)(void))symbol##_ptsz},
#define PROCD(name, symbol, version) {#name, #symbol, version, (void (*)(void))symbol##_ptds},
	HO_SOFT_PTSZ(PROC4)
	HO_SOFT_PTSZ_STACK(PROC3)
	HO_SOFT_PTDS(PROCD)
	PROC3(cuLaunchKernelEx, cuLaunchKernelEx, 11060)
#undef PROC4
#undef PROC3
#undef PROCD
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

/* The form of a call for a version; known says whether there is any. */
static const struct proc *find(const struct proc *list, size_t n, const char *symbol, int version, int *known)
{
	const struct proc *best = NULL;
	size_t i;

	for (i = 0; i < n; i++) {
		if (!same(list[i].name, symbol))
			continue;
		*known = 1;
		if (list[i].version <= version && (best == NULL || list[i].version > best->version))
			best = &list[i];
	}
	return best;
}

ho_result ho_soft_get_proc(char *symbol, void **fn, int version, uint64_t flags, int *found)
{
	const struct proc *best = NULL;
	int known = 0;

	if (symbol == NULL || fn == NULL || flags > 2)
		return HO_CUDA_ERROR_INVALID_VALUE;
	*fn = NULL;
	if (strcmp(symbol, "cuGetProcAddress") == 0) {
		*fn = version >= 12000 ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress;
		if (found != NULL)
			*found = HO_CU_GET_PROC_ADDRESS_SUCCESS;
		return HO_CUDA_SUCCESS;
	}
	if (flags == HO_CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		best = find(per_thread, sizeof(per_thread) / sizeof(per_thread[0]), symbol, version, &known);
	if (best == NULL)
		best = find(procs, sizeof(procs) / sizeof(procs[0]), symbol, version, &known);
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
