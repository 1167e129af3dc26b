/* What the Go side of the package calls. Addresses cross as integers: foreign
 * values never sit in Go pointer variables, and cgo has nothing to check. */
#pragma once

#include <stdint.h>

#include <dlpack/dlpack.h>

/* The parts of a DLTensor whose arrays may be Go memory during the call. */
typedef struct {
	uint64_t data;
	uint64_t byte_offset;
	int32_t device_type;
	int32_t device_id;
	int32_t ndim;
	uint32_t dtype; /* the 4 bytes of DLDataType */
} ho_dl_tensor;

/* The deleter of a managed tensor, which Go has read and found not NULL. In
 * line: these calls are most of what a release costs. */
static inline void ho_dl_call_versioned(uintptr_t deleter, uintptr_t m)
{
	((void (*)(DLManagedTensorVersioned *))deleter)((DLManagedTensorVersioned *)m);
}
static inline void ho_dl_call_legacy(uintptr_t deleter, uintptr_t m)
{
	((void (*)(DLManagedTensor *))deleter)((DLManagedTensor *)m);
}

/* Releases n things in order. The low bits of an address say what it is;
 * none: a versioned tensor. */
enum { HO_DL_LEGACY = 1, HO_DL_OWNER = 2 };
void ho_dl_release_many(const uintptr_t *tagged, int n);

/* Return a ho_owner *, or 0 if there is no memory. */
uintptr_t ho_dl_owner_steal(uintptr_t m, int versioned);
uintptr_t ho_dl_owner_alloc(uint64_t bytes, uint64_t *data);
uintptr_t ho_dl_owner_go(uint64_t handle);
/* Bytes of an owner made by ho_dl_owner_alloc, 0 for any other. */
uint64_t ho_dl_owner_bytes(uintptr_t o);
void ho_dl_owner_ref(uintptr_t o);
void ho_dl_owner_unref(uintptr_t o);

/* Returns a managed tensor, or 0 if there is no memory. strides may be NULL. */
uintptr_t ho_dl_export(uintptr_t owner, const ho_dl_tensor *t, const int64_t *shape, const int64_t *strides,
                       uint64_t flags, int versioned);
/* The same from the struct of a managed tensor itself. */
uintptr_t ho_dl_reexport(uintptr_t owner, uintptr_t tensor, uint64_t flags, int versioned);

/* ho_check_tensor on a tensor whose arrays are Go memory. no_shape passes a
 * NULL shape. */
int ho_dl_check(const ho_dl_tensor *t, const int64_t *shape, const int64_t *strides, uint64_t flags, int *rule);
int ho_dl_check_managed(uintptr_t m, int versioned, int *rule);

int64_t ho_dl_live_exports(void);
int ho_dl_forked(void);

/* Exchange tables. Functions return what the table returned. */
typedef struct {
	int failed;
	char kind[64];
	char message[256];
} ho_dl_error;

int ho_dl_table_alloc(uintptr_t table, const ho_dl_tensor *t, const int64_t *shape, uintptr_t *out,
                      ho_dl_error *err);
int ho_dl_table_from(uintptr_t table, uintptr_t object, uintptr_t *out);
int ho_dl_table_to(uintptr_t table, uintptr_t m, uintptr_t *object);
int ho_dl_table_borrow(uintptr_t table, uintptr_t object, void *tensor48);
int ho_dl_table_stream(uintptr_t table, int32_t device_type, int32_t device_id, uintptr_t *stream);
uintptr_t ho_dl_table_new(uintptr_t alloc, uintptr_t from, uintptr_t to, uintptr_t borrow, uintptr_t stream);
uintptr_t ho_dl_managed_alloc(void);
