#include "soft.h"
#include "guard.h"

#ifdef HO_SOFT_GUARDED
#define GUARD(name, symbol, version, ret, params) HO_SOFT_GUARD(ho_soft_guard_##name, ho_soft_##name)
HO_CUDA_ENTRIES(GUARD)
#endif
