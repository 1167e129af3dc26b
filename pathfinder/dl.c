/* The only calls of the dynamic loader in this package. Nothing is ever closed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

#include "dl.h"

void *ho_dl_open(const char *name, int flags, char *path, size_t room)
{
	void *handle = dlopen(name, flags);
	struct link_map *map = NULL;

	if (handle == NULL) {
		const char *why = dlerror();

		snprintf(path, room, "%s", why != NULL ? why : "unknown error");
		return NULL;
	}
	path[0] = 0;
	if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != NULL && map->l_name != NULL) {
		char *whole = realpath(map->l_name, NULL);
		/* The name as opened, unless it is not absolute. */
		const char *say = map->l_name[0] == '/' || whole == NULL ? map->l_name : whole;

		snprintf(path, room, "%s", say);
		free(whole);
	}
	return handle;
}

uintptr_t ho_dl_symbol(uintptr_t handle, const char *name)
{
	return (uintptr_t)dlsym((void *)handle, name);
}
