#pragma once

#include <stddef.h>
#include <stdint.h>

/* Calls of functions that were found at run time, one shim a signature. NVRTC,
 * nvJitLink and libNVVM share most of them. fn is the address of the function
 * and never 0; handles are numbers to Go. Lists of strings come as one block,
 * each string with its zero byte. What a shim returns is the library's code,
 * or HO_CLIB_OOM. */

enum { HO_CLIB_OOM = -1 };

/* version(int *, int *), and the same with four. */
int ho_clib_ints2(uintptr_t fn, int out[2]);
int ho_clib_ints4(uintptr_t fn, int out[4]);
/* int(int *), int(int array[]), int(size_t *), int(size_t) */
int ho_clib_int(uintptr_t fn, int *out);
int ho_clib_get_size(uintptr_t fn, size_t *out);
int ho_clib_set_size(uintptr_t fn, size_t value);

/* create(handle *), destroy(handle *), f(handle) */
int ho_clib_create(uintptr_t fn, uintptr_t *handle);
int ho_clib_destroy(uintptr_t fn, uintptr_t *handle);
int ho_clib_do(uintptr_t fn, uintptr_t handle);

/* size(handle, size_t *), data(handle, char *) */
int ho_clib_size(uintptr_t fn, uintptr_t handle, size_t *out);
int ho_clib_data(uintptr_t fn, uintptr_t handle, char *out);

/* f(handle, n, strings) */
int ho_clib_strings(uintptr_t fn, uintptr_t handle, int n, const char *list);
/* f(handle, string) */
int ho_clib_string(uintptr_t fn, uintptr_t handle, const char *s);
/* f(handle, string, const char **): the answer's address, which the handle owns */
int ho_clib_lookup(uintptr_t fn, uintptr_t handle, const char *s, const char **out);

/* nvrtcCreateProgram */
int ho_clib_nvrtc_create(uintptr_t fn, uintptr_t *handle, const char *source, const char *name,
			 int n, const char *headers, const char *names);
/* nvrtcSetFlowCallback: *cancel turning 1 ends the compilation */
int ho_clib_nvrtc_flow(uintptr_t fn, uintptr_t handle, int *cancel);
int *ho_clib_flag_new(void);
void ho_clib_flag_set(int *flag);

/* nvJitLinkCreate, nvJitLinkAddData, nvJitLinkAddFile */
int ho_clib_link_create(uintptr_t fn, uintptr_t *handle, int n, const char *options);
int ho_clib_link_data(uintptr_t fn, uintptr_t handle, int kind, const void *data, size_t size, const char *name);
int ho_clib_link_file(uintptr_t fn, uintptr_t handle, int kind, const char *path);

/* nvvmAddModuleToProgram */
int ho_clib_nvvm_add(uintptr_t fn, uintptr_t handle, const char *data, size_t size, const char *name);
/* nvvmLLVMVersion */
int ho_clib_nvvm_llvm(uintptr_t fn, const char *arch, int *out);
