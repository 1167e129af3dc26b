/* The driver's names over the software device: see procs.c. */
#pragma once

#include "handoff/entries.h"

/* cuGetProcAddress_v2 */
ho_result ho_soft_get_proc(char *symbol, void **fn, int version, uint64_t flags, int *found);
