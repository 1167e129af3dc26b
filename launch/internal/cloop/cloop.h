/* Launches in a C loop, which tests compare the launches from Go with. */
#pragma once

#include <stdint.h>

/* Nanoseconds that n launches take, one after another, or -1 if the driver
 * cannot be reached or refuses one. A context is current. params is the array
 * of pointers for cuLaunchKernel. */
int64_t ho_cloop(uintptr_t fn, uintptr_t stream, void *params, int n);
