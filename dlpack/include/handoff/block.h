/*
 * Exporting, validating and counting DLPack tensors in C.
 *
 * Everything here may be called from any thread. Nothing here takes a lock
 * that it could wait for, and nothing enters Go except the last reference of
 * an owner that was made by Go.
 */
#pragma once

#include <dlpack/dlpack.h>

#ifdef __cplusplus
#include <atomic>
#define HO_ATOMIC(T) std::atomic<T>
extern "C" {
#else
#include <stdatomic.h>
#define HO_ATOMIC(T) _Atomic(T)
#endif

/* The largest number of axes that is accepted or exported. */
#define HO_MAX_DIMS 64

/* All flag bits that DLPack 1.3 gives a meaning. */
#define HO_KNOWN_FLAGS ((uint64_t)7)

/*
 * Owners
 */

/* What keeps the memory of exported tensors alive. The count is atomic and
 * lives in C; `last` runs once, on any thread, when it drops to 0. It frees
 * what ptr and u stand for and then the owner itself, by ho_owner_free. */
typedef struct ho_owner {
	HO_ATOMIC(int64_t) refs;
	void (*last)(struct ho_owner *self);
	void *ptr;
	uint64_t u;
} ho_owner;

/* A new owner with one reference, or NULL if there is no memory. */
ho_owner *ho_owner_new(void (*last)(ho_owner *), void *ptr, uint64_t u);
/* Frees the struct only. For use at the end of a `last` function. */
void ho_owner_free(ho_owner *o);
void ho_owner_ref(ho_owner *o);
void ho_owner_unref(ho_owner *o);

/* Owners that steal a managed tensor: `last` calls its deleter, if any. On
 * NULL (no memory) the tensor still belongs to the caller. */
ho_owner *ho_owner_from_versioned(DLManagedTensorVersioned *m);
ho_owner *ho_owner_from_legacy(DLManagedTensor *m);

/* An owner of new C memory, aligned to 256 bytes and not cleared. *data is
 * NULL for 0 bytes. NULL if there is no memory. */
ho_owner *ho_owner_alloc(size_t bytes, void **data);
/* The bytes of such an owner, 0 for any other. */
size_t ho_owner_bytes(const ho_owner *o);

/*
 * Exports
 */

/* One exported tensor. Struct, shape and strides share one block, which comes
 * from a free list up to 8 axes. The block holds its own reference on the
 * owner until its deleter runs. data is folded with byte_offset where data is
 * an address; strides are derived if t->strides is NULL, so that they are
 * never NULL for ndim > 0. t must have passed ho_check_tensor. NULL if there
 * is no memory. */
DLManagedTensorVersioned *ho_export_versioned(ho_owner *o, const DLTensor *t, uint64_t flags);
DLManagedTensor *ho_export_legacy(ho_owner *o, const DLTensor *t);

/* Number of exported tensors whose deleter has not run yet. */
int64_t ho_live_exports(void);

/* The managed_tensor_allocator of an exchange table for host memory. */
int ho_managed_alloc(DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
                     void (*set_error)(void *error_ctx, const char *kind, const char *message));

/* Calls the deleter, if it is not NULL. */
void ho_release_versioned(DLManagedTensorVersioned *m);
void ho_release_legacy(DLManagedTensor *m);

/*
 * Validation
 */

/* What is wrong, in the order of the sentinel errors of the Go package. */
enum {
	HO_E_OK = 0,
	HO_E_VERSION = 1,  /* major version not 1 */
	HO_E_FLAGS = 2,    /* unknown flag bit */
	HO_E_DTYPE = 3,    /* unknown or malformed element type */
	HO_E_DEVICE = 4,   /* unknown device type */
	HO_E_LAYOUT = 5,   /* ndim, shape or strides */
	HO_E_OVERFLOW = 6, /* a size or an address does not fit */
	HO_E_NULL = 7,     /* struct or data is NULL */
	HO_E_ALIGN = 8,    /* first element not aligned for its type */
};

/* Validates what came from outside. 0 or one of HO_E_*; *rule, if rule is not
 * NULL, gets the number of the rule that is broken (47 for R047). The verdicts
 * are those of the Go function dlpack.Check. */
int ho_check_tensor(const DLTensor *t, uint64_t flags, int *rule);
int ho_check_version(DLPackVersion v, int *rule);
int ho_check_dtype(DLDataType d, int *rule);
/* All of the above; reads nothing behind flags if the major is unknown. */
int ho_check_versioned(const DLManagedTensorVersioned *m, int *rule);
int ho_check_legacy(const DLManagedTensor *m, int *rule);

/* A short text for a HO_E_* code; never NULL. */
const char *ho_error_text(int code);

/* 1 if data is an address on this device type, so that it may be added to. */
int ho_device_has_addresses(int32_t device_type);
/* 1 if the host can read memory of this device type. */
int ho_device_is_host(int32_t device_type);

/* Row-major strides, in elements. Extents below 1 count as 1. -1 if a stride
 * does not fit in 64 bits. */
int ho_row_major(int32_t ndim, const int64_t *shape, int64_t *strides);

/* Makes the n-th allocation of this file from now on fail, for tests. 0 ends
 * that. Exports from the free list allocate nothing. */
void ho_fail_alloc(int n);

/*
 * The process
 */

/* Not 0 in a child of fork(): the Go runtime does not run there and must not
 * be entered. */
extern HO_ATOMIC(int) ho_forked;
/* Not 0 once the process has begun to exit: releases do nothing. */
extern HO_ATOMIC(int) ho_exiting;

#ifdef __cplusplus
} /* extern "C" */
#endif
