#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "nvtx.h"

_Static_assert(sizeof(ho_nvtx_attributes) == 48, "nvtxEventAttributes_t");
_Static_assert(offsetof(ho_nvtx_attributes, payload) == 24, "nvtxEventAttributes_t");
_Static_assert(offsetof(ho_nvtx_attributes, message) == 40, "nvtxEventAttributes_t");

enum { NVTX_VERSION = 3, COLOR_ARGB = 1, MESSAGE_ASCII = 1 };

typedef void (*fn)(void);

/* Modules of functions, and the numbers of those in use. */
enum { MODULE_CORE = 1, MODULE_CORE2 = 5 };
enum { MARK = 1, RANGE_START = 4, RANGE_END = 7, RANGE_PUSH = 8, RANGE_POP = 11, NAME_CATEGORY = 12, CORE_SIZE = 16 };
enum {
	DOMAIN_MARK = 1, DOMAIN_START = 2, DOMAIN_END = 3, DOMAIN_PUSH = 4, DOMAIN_POP = 5,
	DOMAIN_NAME_CATEGORY = 8, DOMAIN_CREATE = 12, CORE2_SIZE = 16
};

/* What the tool fills: its functions, by number. */
static fn core[CORE_SIZE], core2[CORE2_SIZE];
/* Their addresses, which the tool is shown; number 0 and the end are NULL. */
static fn *core_table[CORE_SIZE + 1], *core2_table[CORE2_SIZE + 1];
static _Atomic int enabled;

static int module_table(int module, fn ***table, unsigned *size)
{
	switch (module) {
	case MODULE_CORE:
		*table = core_table;
		if (size != NULL)
			*size = CORE_SIZE;
		return 1;
	case MODULE_CORE2:
		*table = core2_table;
		if (size != NULL)
			*size = CORE2_SIZE;
		return 1;
	}
	return 0; /* CUDA, OpenCL, synchronization: nothing is named there */
}

static void injection_version(uint32_t version)
{
	(void)version;
}

static const struct {
	size_t size;
	int (*module_table)(int, fn ***, unsigned *);
} callbacks = {sizeof callbacks, module_table};

static const struct {
	size_t size;
	uint32_t version, reserved;
	void (*injection_version)(uint32_t);
} versions = {sizeof versions, NVTX_VERSION, 0, injection_version};

/* nvtxGetExportTable */
static const void *export_table(uint32_t id)
{
	switch (id) {
	case 1:
		return &callbacks;
	case 3:
		return &versions;
	}
	return NULL;
}

int ho_nvtx_attach(const char *path, char *why, size_t room)
{
	typedef int (*init_fn)(const void *(*)(uint32_t));
	void *lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	init_fn init;

	if (lib == NULL) {
		const char *said = dlerror();

		snprintf(why, room, "%s", said != NULL ? said : "unknown error");
		return -1;
	}
	init = (init_fn)dlsym(lib, "InitializeInjectionNvtx2");
	if (init == NULL) {
		snprintf(why, room, "no InitializeInjectionNvtx2 in it");
		return -1;
	}
	for (int i = 1; i < CORE_SIZE; i++)
		core_table[i] = &core[i];
	for (int i = 1; i < CORE2_SIZE; i++)
		core2_table[i] = &core2[i];
	if (init(export_table) == 0) {
		memset(core, 0, sizeof core);
		memset(core2, 0, sizeof core2);
		snprintf(why, room, "the tool refused");
		return -1;
	}
	atomic_store_explicit(&enabled, 1, memory_order_release);
	return 0;
}

int ho_nvtx_enabled(void)
{
	return atomic_load_explicit(&enabled, memory_order_acquire);
}

static ho_nvtx_attributes attributes(const char *message, uint32_t argb, uint32_t category, int payload_type, uint64_t payload)
{
	ho_nvtx_attributes a = {.version = NVTX_VERSION, .size = sizeof a, .category = category};

	if (argb != 0) {
		a.color_type = COLOR_ARGB;
		a.color = argb;
	}
	a.payload_type = payload_type;
	a.payload = payload;
	a.message_type = MESSAGE_ASCII;
	a.message = message;
	return a;
}

uintptr_t ho_nvtx_domain(const char *name)
{
	if (!ho_nvtx_enabled() || core2[DOMAIN_CREATE] == NULL)
		return 0;
	return (uintptr_t)((void *(*)(const char *))core2[DOMAIN_CREATE])(name);
}

void ho_nvtx_mark(uintptr_t domain, const char *message, uint32_t argb, uint32_t category, int payload_type, uint64_t payload)
{
	ho_nvtx_attributes a = attributes(message, argb, category, payload_type, payload);

	if (!ho_nvtx_enabled())
		return;
	if (domain != 0 && core2[DOMAIN_MARK] != NULL)
		((void (*)(uintptr_t, const ho_nvtx_attributes *))core2[DOMAIN_MARK])(domain, &a);
	else if (domain == 0 && core[MARK] != NULL)
		((void (*)(const ho_nvtx_attributes *))core[MARK])(&a);
}

uint64_t ho_nvtx_start(uintptr_t domain, const char *message, uint32_t argb, uint32_t category, int payload_type, uint64_t payload)
{
	ho_nvtx_attributes a = attributes(message, argb, category, payload_type, payload);

	if (!ho_nvtx_enabled())
		return 0;
	if (domain != 0 && core2[DOMAIN_START] != NULL)
		return ((uint64_t (*)(uintptr_t, const ho_nvtx_attributes *))core2[DOMAIN_START])(domain, &a);
	if (domain == 0 && core[RANGE_START] != NULL)
		return ((uint64_t (*)(const ho_nvtx_attributes *))core[RANGE_START])(&a);
	return 0;
}

void ho_nvtx_end(uintptr_t domain, uint64_t id)
{
	if (!ho_nvtx_enabled())
		return;
	if (domain != 0 && core2[DOMAIN_END] != NULL)
		((void (*)(uintptr_t, uint64_t))core2[DOMAIN_END])(domain, id);
	else if (domain == 0 && core[RANGE_END] != NULL)
		((void (*)(uint64_t))core[RANGE_END])(id);
}

int ho_nvtx_push(uintptr_t domain, const char *message, uint32_t argb, uint32_t category, int payload_type, uint64_t payload)
{
	ho_nvtx_attributes a = attributes(message, argb, category, payload_type, payload);

	if (!ho_nvtx_enabled())
		return -1;
	if (domain != 0 && core2[DOMAIN_PUSH] != NULL)
		return ((int (*)(uintptr_t, const ho_nvtx_attributes *))core2[DOMAIN_PUSH])(domain, &a);
	if (domain == 0 && core[RANGE_PUSH] != NULL)
		return ((int (*)(const ho_nvtx_attributes *))core[RANGE_PUSH])(&a);
	return -1;
}

int ho_nvtx_pop(uintptr_t domain)
{
	if (!ho_nvtx_enabled())
		return -1;
	if (domain != 0 && core2[DOMAIN_POP] != NULL)
		return ((int (*)(uintptr_t))core2[DOMAIN_POP])(domain);
	if (domain == 0 && core[RANGE_POP] != NULL)
		return ((int (*)(void))core[RANGE_POP])();
	return -1;
}

void ho_nvtx_category(uintptr_t domain, uint32_t category, const char *name)
{
	if (!ho_nvtx_enabled())
		return;
	if (domain != 0 && core2[DOMAIN_NAME_CATEGORY] != NULL)
		((void (*)(uintptr_t, uint32_t, const char *))core2[DOMAIN_NAME_CATEGORY])(domain, category, name);
	else if (domain == 0 && core[NAME_CATEGORY] != NULL)
		((void (*)(uint32_t, const char *))core[NAME_CATEGORY])(category, name);
}
