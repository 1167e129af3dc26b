#pragma once

#include <stddef.h>
#include <stdint.h>

/* The library's own symbols go before those of the process, where the loader can
 * do that: glibc's value, which needs _GNU_SOURCE in each file. */
#ifdef __GLIBC__
#define HO_DL_DEEPBIND 0x8
#else
#define HO_DL_DEEPBIND 0
#endif

/* Opens a library; flags are those of dlopen. On success path gets the file that
 * the loader reports, or "", and the handle is given; on failure the answer is
 * NULL and path gets what the loader said, taken on the same thread. */
void *ho_dl_open(const char *name, int flags, char *path, size_t room);

/* The address of a symbol, or 0. The handle is a number to Go. */
uintptr_t ho_dl_symbol(uintptr_t handle, const char *name);
