#define _GNU_SOURCE
#include "cloop.h"

#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

typedef int (*launch_fn)(uintptr_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, uintptr_t, void **, void **);

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t ho_cloop(uintptr_t fn, uintptr_t stream, void *params, int n)
{
	static launch_fn launch;
	int64_t begin;

	if (launch == NULL) {
		void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
		if (lib == NULL)
			return -1;
		*(void **)&launch = dlsym(lib, "cuLaunchKernel");
		if (launch == NULL)
			return -1;
	}
	begin = now();
	for (int i = 0; i < n; i++)
		if (launch(fn, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL) != 0)
			return -1;
	return now() - begin;
}
