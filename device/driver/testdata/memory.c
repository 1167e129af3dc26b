/* Part of stub.c: memory that nobody can touch, at addresses that its size decides,
 * so that a test has the same address again when it wants. */

enum { UNIT = 0x1000, PLACES = 64 };
#define BASE 0x7e0000000000ull
#define STEP 0x100000ull

static uint64_t tenants[PLACES]; /* the number of the allocation at each place, 0 for none */
static uint64_t tenants_so_far;

static int at(uint64_t p) { return (int)((p - BASE) / STEP); }

static void settle(uint64_t p) { tenants[at(p)] = ++tenants_so_far; }

static void *place(size_t n)
{
	uint64_t p = BASE + n / UNIT * STEP;

	settle(p);
	return (void *)(uintptr_t)p;
}

static void vacate(uint64_t p) { tenants[at(p)] = 0; }

EXPORT int cuMemGetAddressRange_v2(uint64_t *base, size_t *n, uint64_t p)
{
	if (tenants[at(p)] == 0)
		return INVALID_VALUE;
	*base = p / STEP * STEP;
	*n = (size_t)at(p) * UNIT;
	return OK;
}

EXPORT int cuPointerGetAttribute(void *out, int attr, uint64_t p)
{
	if (attr != 7 || p < BASE || at(p) >= PLACES || tenants[at(p)] == 0)
		return INVALID_VALUE;
	*(uint64_t *)out = tenants[at(p)];
	return OK;
}

/* What is imported lies where its data begins to say. */
typedef struct {
	uint64_t address;
	char rest[56];
} shared_handle;

EXPORT int cuMemPoolImportPointer(uint64_t *p, uintptr_t pool, const shared_handle *data)
{
	(void)pool;
	settle(*p = data->address);
	return OK;
}

EXPORT int cuIpcOpenMemHandle_v2(uint64_t *p, shared_handle h, unsigned flags)
{
	(void)flags;
	settle(*p = h.address);
	return OK;
}

EXPORT int cuIpcCloseMemHandle(uint64_t p)
{
	vacate(p);
	return OK;
}

EXPORT int cuMemMap(uint64_t p, size_t n, size_t offset, uint64_t handle, uint64_t flags)
{
	(void)n, (void)offset, (void)handle, (void)flags;
	settle(p);
	return OK;
}

EXPORT int cuMemUnmap(uint64_t p, size_t n)
{
	(void)n;
	vacate(p);
	return OK;
}

/* A variable lies at the place that is its name's first letter after '@'. */
static int variable(uint64_t *p, size_t *n, const char *name)
{
	uint64_t a = BASE + (uint64_t)(name[0] - '@') * STEP;

	settle(a);
	if (n != NULL)
		*n = (size_t)at(a) * UNIT;
	if (p != NULL)
		*p = a;
	return OK;
}

EXPORT int cuLibraryGetGlobal(uint64_t *p, size_t *n, uintptr_t lib, const char *name)
{
	(void)lib;
	return variable(p, n, name);
}

EXPORT int cuModuleGetGlobal_v2(uint64_t *p, size_t *n, uintptr_t module, const char *name)
{
	(void)module;
	return variable(p, n, name);
}

EXPORT int cuLibraryUnload(uintptr_t lib)
{
	(void)lib;
	return OK;
}

EXPORT int cuModuleUnload(uintptr_t module)
{
	(void)module;
	return OK;
}

EXPORT int cuMemsetD8Async(uint64_t p, unsigned char v, size_t n, uintptr_t s)
{
	(void)p, (void)v, (void)n, (void)s;
	return OK;
}

EXPORT int cuCtxDestroy_v2(uintptr_t c)
{
	(void)c;
	return OK;
}

/* Graphs allocate at the place of the size. */
typedef struct {
	uint64_t head[11 + 2]; /* the pool, who may use it */
	uint64_t bytes, address;
} alloc_node;

EXPORT int cuGraphAddMemAllocNode(uintptr_t *node, uintptr_t g, const uintptr_t *deps, size_t n, alloc_node *p)
{
	(void)g, (void)deps, (void)n;
	*node = 1;
	p->address = (uint64_t)(uintptr_t)place(p->bytes);
	return OK;
}

EXPORT int cuStreamIsCapturing(uintptr_t s, int *status)
{
	*status = s == 0xCAB;
	return OK;
}
