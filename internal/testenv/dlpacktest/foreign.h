/* A foreign DLPack producer and consumer for tests. */
#pragma once

#include <stdint.h>

#include <dlpack/dlpack.h>

typedef struct {
	uint32_t major, minor;
	uint64_t flags;
	uint64_t data, byte_offset;
	int32_t device_type, device_id;
	int32_t ndim;
	uint8_t code, bits;
	uint16_t lanes;
	int32_t null_shape, null_strides, null_deleter, versioned;
} dt_spec;

/* A managed tensor in malloc memory whose deleter frees it and counts. Reads
 * dims values of shape and strides, at most 64. */
uintptr_t dt_new(const dt_spec *s, int dims, const int64_t *shape, const int64_t *strides);
/* The same with a header given byte by byte (80 or 64 bytes); manager_ctx,
 * deleter and, unless they are 0 in the bytes, shape and strides are replaced
 * by valid pointers. */
uintptr_t dt_raw(const void *header, int versioned, const int64_t *shape, const int64_t *strides);
/* Frees a tensor whose deleter is NULL. */
void dt_free(uintptr_t m);
/* How often deleters of this file ran, how many of its tensors exist, and how
 * often a deleter got a wrong argument. */
int64_t dt_deleted(void);
int64_t dt_alive(void);
int64_t dt_wrong(void);

/* A versioned tensor of which only the first 32 bytes can be read. Its deleter
 * unmaps it and counts. */
uintptr_t dt_guarded(uint32_t major, uint32_t minor, int null_deleter);
void dt_unguard(uintptr_t m);

void dt_fail_alloc(int n);

/* Consumers. */
void dt_release(uintptr_t m, int versioned);
void dt_release_on_thread(uintptr_t m, int versioned);
void dt_release_on_threads(const uintptr_t *m, int n, int threads);
/* Releases in the child of a fork; returns the wait status of the child. */
int dt_release_in_child(uintptr_t m, int versioned);
/* Forks, and in the child makes and releases n exports. Returns the wait
 * status. */
int dt_export_in_child(uintptr_t owner, int n);
void dt_read(uintptr_t m, int versioned, dt_spec *s, uint64_t *shape_addr, uint64_t *strides_addr);
int64_t dt_dim(uint64_t addr, int i);

/* Batches for timing: n tensors with ndim 2, then the loop that a C consumer
 * would run on them. Bare: validate, call the deleter. Held: validate, put the
 * tensor in a handle that can be copied and released once from any thread, as
 * a C library with the promises of dlpack.Managed would, release the handle.
 * The time is in nanoseconds. */
int64_t dt_batch(uintptr_t *out, int n);
int64_t dt_consume_batch(const uintptr_t *m, int n);
int64_t dt_consume_batch_held(const uintptr_t *m, int n);
/* The deleter alone, for a loop in Go: in line, as the least that a call costs. */
static inline void dt_call_deleter(uintptr_t m)
{
	((DLManagedTensorVersioned *)m)->deleter((DLManagedTensorVersioned *)m);
}
int64_t dt_export_loop(uintptr_t owner, int n, int ndim);

/* Exchange tables. */
enum {
	DT_TABLE_GOOD,
	DT_TABLE_MAJOR2_CHAIN,  /* major 2, then 3, then the good one */
	DT_TABLE_MAJOR2_END,    /* major 2 without an older table */
	DT_TABLE_MAJOR0,        /* too old */
	DT_TABLE_CYCLE,         /* major 2, prev_api is itself */
	DT_TABLE_NO_BORROW,
	DT_TABLE_NO_EXPORT,
	DT_TABLE_ONLY_EXPORT,   /* all optional functions and more are NULL */
	DT_TABLE_FAILING,       /* every function fails */
	DT_TABLE_EMPTY_SUCCESS, /* every function says 0 and gives nothing */
	DT_TABLE_BAD_TENSORS,   /* gives tensors with ndim -1 */
};
uintptr_t dt_table(int which);
uintptr_t dt_object(void); /* a static "Python object" for these tables */
int64_t dt_to_py_count(void);
void dt_functions(uintptr_t out[5]);
