/* Thin functions with integer arguments around block.c, check.c and the
 * function pointers of exchange tables, for the Go side of the package. */
#include "bridge.h"

#include <handoff/block.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Go: runs the release of the owner that handle names. */
extern void hoDlpackOwnerLast(uint64_t handle);

void ho_dl_release_many(const uintptr_t *tagged, int n)
{
	const uintptr_t tags = HO_DL_LEGACY | HO_DL_OWNER;
	for (int i = 0; i < n; i++) {
		uintptr_t p = tagged[i] & ~tags;
		switch (tagged[i] & tags) {
		case HO_DL_LEGACY:
			ho_release_legacy((DLManagedTensor *)p);
			break;
		case HO_DL_OWNER:
			ho_owner_unref((ho_owner *)p);
			break;
		default:
			ho_release_versioned((DLManagedTensorVersioned *)p);
		}
	}
}

uintptr_t ho_dl_owner_steal(uintptr_t m, int versioned)
{
	if (versioned)
		return (uintptr_t)ho_owner_from_versioned((DLManagedTensorVersioned *)m);
	return (uintptr_t)ho_owner_from_legacy((DLManagedTensor *)m);
}

uintptr_t ho_dl_owner_alloc(uint64_t bytes, uint64_t *data)
{
	void *p;
	ho_owner *o = ho_owner_alloc(bytes, &p);
	*data = (uintptr_t)p;
	return (uintptr_t)o;
}

/* Nothing runs Go in the child of a fork or once the process has begun to
 * exit: the memory is then left to the operating system. */
static void last_go(ho_owner *o)
{
	uint64_t handle = o->u;
	ho_owner_free(o);
	if (atomic_load(&ho_forked) || atomic_load(&ho_exiting))
		return;
	hoDlpackOwnerLast(handle);
}

uintptr_t ho_dl_owner_go(uint64_t handle)
{
	return (uintptr_t)ho_owner_new(last_go, NULL, handle);
}

uint64_t ho_dl_owner_bytes(uintptr_t o)
{
	return ho_owner_bytes((ho_owner *)o);
}

void ho_dl_owner_ref(uintptr_t o)
{
	ho_owner_ref((ho_owner *)o);
}

void ho_dl_owner_unref(uintptr_t o)
{
	ho_owner_unref((ho_owner *)o);
}

static DLTensor tensor(const ho_dl_tensor *t, const int64_t *shape, const int64_t *strides)
{
	DLTensor d = {
		.data = (void *)(uintptr_t)t->data,
		.device = {(DLDeviceType)t->device_type, t->device_id},
		.ndim = t->ndim,
		.shape = (int64_t *)shape,
		.strides = (int64_t *)strides,
		.byte_offset = t->byte_offset,
	};
	memcpy(&d.dtype, &t->dtype, sizeof(d.dtype));
	return d;
}

static uintptr_t export(uintptr_t owner, const DLTensor *t, uint64_t flags, int versioned)
{
	if (versioned)
		return (uintptr_t)ho_export_versioned((ho_owner *)owner, t, flags);
	return (uintptr_t)ho_export_legacy((ho_owner *)owner, t);
}

uintptr_t ho_dl_export(uintptr_t owner, const ho_dl_tensor *t, const int64_t *shape, const int64_t *strides,
                       uint64_t flags, int versioned)
{
	DLTensor d = tensor(t, shape, strides);
	return export(owner, &d, flags, versioned);
}

uintptr_t ho_dl_reexport(uintptr_t owner, uintptr_t t, uint64_t flags, int versioned)
{
	return export(owner, (const DLTensor *)t, flags, versioned);
}

int ho_dl_check(const ho_dl_tensor *t, const int64_t *shape, const int64_t *strides, uint64_t flags, int *rule)
{
	DLTensor d = tensor(t, shape, strides);
	return ho_check_tensor(&d, flags, rule);
}

int ho_dl_check_managed(uintptr_t m, int versioned, int *rule)
{
	if (versioned)
		return ho_check_versioned((const DLManagedTensorVersioned *)m, rule);
	return ho_check_legacy((const DLManagedTensor *)m, rule);
}

int64_t ho_dl_live_exports(void)
{
	return ho_live_exports();
}

int ho_dl_forked(void)
{
	return atomic_load(&ho_forked);
}

/* The strings are only valid during the call: they are copied. */
static void set_error(void *ctx, const char *kind, const char *message)
{
	ho_dl_error *e = ctx;
	e->failed = 1;
	snprintf(e->kind, sizeof(e->kind), "%s", kind != NULL ? kind : "");
	snprintf(e->message, sizeof(e->message), "%s", message != NULL ? message : "");
}

int ho_dl_table_alloc(uintptr_t table, const ho_dl_tensor *t, const int64_t *shape, uintptr_t *out,
                      ho_dl_error *err)
{
	DLTensor d = tensor(t, shape, NULL);
	DLManagedTensorVersioned *m = NULL;
	ho_dl_error local;
	/* The foreign function must not get a pointer to Go memory to keep. */
	local.failed = 0;
	local.kind[0] = local.message[0] = 0;
	int64_t dims[HO_MAX_DIMS];
	if (t->ndim > 0)
		memcpy(dims, shape, (size_t)t->ndim * sizeof(dims[0]));
	d.shape = dims;
	int rc = ((const DLPackExchangeAPI *)table)->managed_tensor_allocator(&d, &m, &local, set_error);
	*out = (uintptr_t)m;
	*err = local;
	return rc;
}

int ho_dl_table_from(uintptr_t table, uintptr_t object, uintptr_t *out)
{
	DLManagedTensorVersioned *m = NULL;
	int rc = ((const DLPackExchangeAPI *)table)->managed_tensor_from_py_object_no_sync((void *)object, &m);
	*out = (uintptr_t)m;
	return rc;
}

int ho_dl_table_to(uintptr_t table, uintptr_t m, uintptr_t *object)
{
	void *o = NULL;
	int rc = ((const DLPackExchangeAPI *)table)
	                 ->managed_tensor_to_py_object_no_sync((DLManagedTensorVersioned *)m, &o);
	*object = (uintptr_t)o;
	return rc;
}

int ho_dl_table_borrow(uintptr_t table, uintptr_t object, void *tensor48)
{
	DLTensor t;
	memset(&t, 0, sizeof(t));
	int rc = ((const DLPackExchangeAPI *)table)->dltensor_from_py_object_no_sync((void *)object, &t);
	memcpy(tensor48, &t, sizeof(t));
	return rc;
}

int ho_dl_table_stream(uintptr_t table, int32_t device_type, int32_t device_id, uintptr_t *stream)
{
	void *s = NULL;
	int rc = ((const DLPackExchangeAPI *)table)
	                 ->current_work_stream((DLDeviceType)device_type, device_id, &s);
	*stream = (uintptr_t)s;
	return rc;
}

/* Tables are never freed, as they are valid for the life of the process (R088);
 * the list keeps them reachable for leak checkers. */
typedef struct table {
	DLPackExchangeAPI api;
	struct table *next;
} table;

static _Atomic(table *) tables;

uintptr_t ho_dl_table_new(uintptr_t alloc, uintptr_t from, uintptr_t to, uintptr_t borrow, uintptr_t stream)
{
	table *t = calloc(1, sizeof(*t));
	if (t == NULL)
		return 0;
	t->api.header.version.major = DLPACK_MAJOR_VERSION;
	t->api.header.version.minor = DLPACK_MINOR_VERSION;
	t->api.managed_tensor_allocator = (DLPackManagedTensorAllocator)alloc;
	t->api.managed_tensor_from_py_object_no_sync = (DLPackManagedTensorFromPyObjectNoSync)from;
	t->api.managed_tensor_to_py_object_no_sync = (DLPackManagedTensorToPyObjectNoSync)to;
	t->api.dltensor_from_py_object_no_sync = (DLPackDLTensorFromPyObjectNoSync)borrow;
	t->api.current_work_stream = (DLPackCurrentWorkStream)stream;
	t->next = atomic_load(&tables);
	while (!atomic_compare_exchange_weak(&tables, &t->next, t))
		;
	return (uintptr_t)&t->api;
}

uintptr_t ho_dl_managed_alloc(void)
{
	return (uintptr_t)ho_managed_alloc;
}
