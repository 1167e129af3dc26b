/* The C interface of the CPython bridge: what python/ext and python/core
 * call. Everything here needs the GIL unless it says otherwise. libpython is
 * never linked: Python is reached through the table ho_py (pyapi.h). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "dlpack/dlpack.h"
#include "handoff/block.h"
#include "pyapi.h"

/* ---- Start -------------------------------------------------------------- */

/* Fills ho_py from the running process and refuses interpreters that the
 * bridge cannot serve: no CPython in the process, older than 3.11, debug or
 * free-threaded builds, subinterpreters (B386). Call it first in every
 * PyInit function; repeated calls are cheap. 0, or -1 with ImportError set
 * (no exception is set when there is no CPython at all). */
int ho_py_load(void);

/* The module handoff._core: a new reference, registered in sys.modules on
 * first use. NULL with ImportError set when another Go-made shared object
 * serves it already (one Go runtime per process); the message names it.
 * `self_path` names the calling object in such messages, NULL: looked up. */
ho_PyObject *ho_core_module(const char *self_path);

/* 0 when Go may be entered. -1 with RuntimeError set in the child of a
 * fork(): the Go runtime does not survive it. */
int ho_go_ok(void);

/* ---- Consuming ---------------------------------------------------------- */

enum {
	HO_WANT_WRITABLE = 1, /* refuse read-only memory (BufferError) */
	HO_WANT_OWNED = 2,    /* the result may outlive the call: take an owning form */
};

enum {
	HO_ARG_READONLY = 1,
	HO_ARG_PADDED = 2, /* sub-byte elements, one per byte */
	HO_ARG_COPIED = 4, /* the producer made this copy for us */
	HO_ARG_PRODUCER = 16, /* stream is known: the one that the producer works on */
	HO_ARG_ORDERED = 32,  /* stream is known: the one that the producer was told to order the data on */
	HO_ARG_ALIGNED = 8, /* aligned for the dtype; always set, unaligned data is refused */
};

/* What ho_arg.hold holds. */
enum {
	HO_HELD_NONE = 0,      /* borrowed from obj, which the caller keeps alive */
	HO_HELD_BUFFER = 1,    /* Py_buffer */
	HO_HELD_VERSIONED = 2, /* DLManagedTensorVersioned, ours to delete */
	HO_HELD_LEGACY = 3,    /* DLManagedTensor, ours to delete */
	HO_HELD_OWNER = 4,     /* one reference on an owner (after ho_arg_retain) */
	HO_HELD_OBJECT = 5,    /* a strong reference on a Python object */
	HO_HELD_LENT = 6,      /* nothing; lent by an exchange table, which ho_arg_retain asks again */
};

/* One array argument, checked: ndim 0..64, extents >= 0, no overflow in
 * extents x strides x item size, dtype known, data not NULL unless empty and
 * aligned for the dtype. */
typedef struct ho_arg {
	uint64_t data; /* address of element (0,...,0), byte offset added */
	int32_t ndim;
	DLDataType dtype;
	DLDevice device;
	uint32_t flags; /* HO_ARG_* */
	uint32_t held;  /* HO_HELD_* */
	int64_t *shape; /* shape and strides: never NULL if ndim > 0. In elements. They point to */
	int64_t *strides; /* dims and dims+8, or into one malloc'd block above 8 dims. */
	int64_t dims[16]; /* zeros behind the extents and the strides, to 2 each or, above that, to 8 */
	ho_PyObject *obj; /* borrowed: the argument */
	void *stream;     /* producer's current stream of a GPU tensor; NULL: the default stream or not known */
	union {
		ho_Py_buffer *buffer;
		DLManagedTensorVersioned *versioned;
		DLManagedTensor *legacy;
		ho_owner *owner;
		ho_PyObject *object;
		const DLPackExchangeAPI *table;
	} hold;
} ho_arg;

/* Consumes obj, in this order: exact numpy.ndarray by its published struct,
 * exchange table, exact cupy.ndarray by its attributes, __dlpack__ (or a DLPack
 * capsule itself), __cuda_array_interface__, buffer protocol, __array_interface__. GIL held. 0, or -1 with a Python exception set; on
 * failure nothing is held and *out needs no ho_arg_done. `out` may be
 * uninitialised. */
int ho_consume(ho_PyObject *obj, unsigned want, ho_arg *out);

/* Gives back what ho_consume took. GIL held. Idempotent; a pending Python
 * exception is kept. */
void ho_arg_done(ho_arg *arg);
/* The same for n of them. */
void ho_args_done(ho_arg *args, uint32_t n);

/* Upgrades the borrow: a new owner reference that keeps the memory alive
 * past ho_arg_done and past the call. Call it any number of times; GIL held.
 * Dropping the owner needs no GIL and works on any thread; after finalization
 * or fork it does nothing. NULL with an exception set. */
ho_owner *ho_arg_retain(ho_arg *arg);

/* An owner that keeps one Python object alive (takes a new reference). */
ho_owner *ho_owner_from_object(ho_PyObject *obj);

/* ---- Streams ------------------------------------------------------------ */

/* A stream argument of a call, as the driver knows it. */
typedef struct ho_stream_value {
	uint64_t handle; /* 1 and 2: the default streams */
	uint64_t ctx;
	int32_t device;
} ho_stream_value;

/* Reads a stream object (any that handoff.StreamView takes): *out has the raw
 * handle, and the rest where that is known without asking. 0, or -1 with an
 * exception set. */
int ho_stream_read(ho_PyObject *stream, ho_stream_value *out);

/* ho_consume for an array of a call with a stream that ho_stream_read read:
 * producers that are told a stream are told this one, and order the data on it
 * themselves. */
int ho_consume_on(ho_PyObject *obj, unsigned want, uint64_t stream, ho_arg *out);

/* Orders the arguments on the stream that ho_stream_read read from this
 * object, and completes *io: work queued on the stream afterwards comes after
 * their producers', by one event each at most, none if they work on that stream.
 * GPU memory whose producer was told no stream was ordered on the legacy default
 * stream, and the stream waits for that. With stream NULL or None there must be
 * no GPU memory among the arguments (R126); then *io is 0. GIL held; it is
 * given up meanwhile. 0, or -1 with an exception set. */
int ho_args_on_stream(ho_PyObject *stream, const ho_arg *args, uint32_t n, ho_stream_value *io);

/* The way back: the streams that the producers of these arguments work on, as
 * far as they are known, wait for what is queued now on the stream that
 * ho_args_on_stream completed, by one event each at most. GIL held; it is given
 * up meanwhile. 0, or -1 with an exception set. */
int ho_args_back(ho_PyObject *stream, const ho_arg *args, uint32_t n, const ho_stream_value *on);

/* ---- Producing ---------------------------------------------------------- */

/* A new handoff.StridedMemoryView, or handoff.Array (memory made by Go).
 * The reference on o is stolen, also on failure; o may be NULL for static
 * memory. Shape and strides (elements, NULL: C order) are copied. Flags are
 * DLPack's. NULL with an exception set. */
ho_PyObject *ho_view_new(ho_owner *o, const DLTensor *t, uint64_t flags);
ho_PyObject *ho_array_new(ho_owner *o, const DLTensor *t, uint64_t flags);

/* ---- Errors ------------------------------------------------------------- */

/* Sets the handoff exception of a HO_E_* code (block.h), with the rule
 * number in the message: "handoff: OP: DETAIL (R047)". rule 0: none.
 * Returns -1. */
int ho_raise(int code, int rule, const char *op, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Sets an exception by class name: a built-in ("ValueError"), or one of
 * handoff._core ("GoError", "GoPanic", "ReadOnlyError", ...); anything
 * unknown becomes GoError. Returns -1. */
int ho_raise_named(const char *class_name, const char *message);
